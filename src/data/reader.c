/* What the readers of the formats share: paths, room for images, names of classes. */
#include "data/reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "base/stop.h"
#include "base/utf8.h"

const char *rc_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static rc_status look_for(const char *folder, const char *name, struct stat *info)
{
    char path[RC_PATH_SIZE];
    *info = (struct stat){0};
    return rc_path_in(folder, name, path) == RC_OK ? rc_file_look(path, true, info) : RC_OK; /* else it is too long */
}

rc_status rc_has_file(const char *folder, const char *name, bool *has)
{
    struct stat info;
    rc_status status = look_for(folder, name, &info);
    *has = S_ISREG(info.st_mode);
    return status;
}

rc_status rc_has_folder(const char *folder, const char *name, bool *has)
{
    struct stat info;
    rc_status status = look_for(folder, name, &info);
    *has = S_ISDIR(info.st_mode);
    return status;
}

rc_status rc_progress(const rc_data_settings *settings, const char *what, int done, int total)
{
    bool goes_on = settings->progress == NULL || settings->progress(settings->user, what, done, total);
    if (!goes_on || rc_stopped())
        return rc_fail(RC_CANCELLED, "cancelled after %d of %d (%s)", done, total, what);
    return RC_OK;
}

rc_status rc_check_memory(const rc_dataset *dataset, int64_t images)
{
    size_t bytes = (size_t)dataset->h * (size_t)dataset->w * (size_t)dataset->c, left = rc_memory_left();
    if (rc_size_mul(bytes, (size_t)images, &bytes) && bytes <= left)
        return RC_OK;
    return rc_fail(RC_OUT_OF_MEMORY,
                   "%lld images of %d x %d pixels in %s take %.1f GB of memory, of which %.1f GB are free or allowed; "
                   "take fewer images, make them smaller (size), or allow more (the setting 'max_memory')",
                   (long long)images, dataset->w, dataset->h, dataset->c == 1 ? "grey" : "colour",
                   1e-9 * (double)images * dataset->h * dataset->w * dataset->c, 1e-9 * (double)left);
}

rc_status rc_split_allocate(const rc_dataset *dataset, rc_split *split, int count)
{
    size_t bytes = (size_t)dataset->h * (size_t)dataset->w * (size_t)dataset->c;
    if (!rc_size_mul(bytes, (size_t)count, &bytes))
        return rc_fail(RC_OUT_OF_MEMORY, "%d images of %d x %d x %d bytes do not fit in memory", count, dataset->h,
                       dataset->w, dataset->c);
    split->images = rc_alloc(NULL, bytes);
    split->labels = rc_alloc_zeroed(NULL, (size_t)count, sizeof *split->labels);
    split->count = count;
    return split->images == NULL || split->labels == NULL ? RC_OUT_OF_MEMORY : RC_OK;
}

int rc_choose_size(const rc_data_settings *settings, const rc_data_seen *seen, int own)
{
    if (settings->size > 0)
        return settings->size;
    if (settings->choose != NULL)
        own = settings->choose(seen);
    return settings->resize > 0 && settings->resize < own ? settings->resize : own;
}

/* ---- names ------------------------------------------------------------------------------------------------------ */

rc_status rc_dataset_allocate_names(rc_dataset *dataset, int classes)
{
    dataset->class_name = rc_alloc_zeroed(NULL, (size_t)classes, sizeof *dataset->class_name);
    if (dataset->class_name == NULL)
        return RC_OUT_OF_MEMORY;
    dataset->classes = classes;
    return RC_OK;
}

rc_status rc_check_class_name(int label, const char *name, size_t length)
{
    enum { NON_JOINER = 0x200C, JOINER = 0x200D }; /* parts of words in Persian and Hindi, and of some pictures */
    unsigned code;
    for (size_t i = 0, step; i < length; i += step) {
        step = rc_utf8_decode(name + i, length - i, &code);
        if (step == 0 || (rc_utf8_is_hidden(code) && code != NON_JOINER && code != JOINER))
            return rc_fail(RC_FORMAT, "name of class %d: byte %zu (0x%02X) is not printable UTF-8", label, i,
                           (unsigned char)name[i]);
    }
    return length > 0 ? RC_OK : rc_fail(RC_FORMAT, "name of class %d is empty", label);
}

int rc_compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

rc_status rc_check_class_names(const char *const *names, int classes)
{
    if (classes < 1 || classes > RC_DATA_MAX_CLASSES)
        return rc_fail(RC_FORMAT, "there are %d classes, expected 1 to %d", classes, RC_DATA_MAX_CLASSES);
    const char **sorted = rc_alloc_zeroed(NULL, (size_t)classes, sizeof *sorted);
    if (sorted == NULL)
        return RC_OUT_OF_MEMORY;
    memcpy(sorted, names, (size_t)classes * sizeof *sorted);
    qsort(sorted, (size_t)classes, sizeof *sorted, rc_compare_names);
    rc_status status = RC_OK;
    for (int i = 1; status == RC_OK && i < classes; i++)
        if (strcmp(sorted[i - 1], sorted[i]) == 0)
            status = rc_fail(RC_FORMAT, "two classes are called '%.256s', expected different names", sorted[i]);
    rc_free(NULL, sorted);
    return status;
}

rc_status rc_dataset_set_name(rc_dataset *dataset, int label, const char *name, size_t length)
{
    RC_TRY(rc_check_class_name(label, name, length));
    char *copy = rc_alloc(NULL, length + 1);
    if (copy == NULL)
        return RC_OUT_OF_MEMORY;
    memcpy(copy, name, length);
    copy[length] = 0;
    rc_free(NULL, dataset->class_name[label]);
    dataset->class_name[label] = copy;
    return RC_OK;
}

rc_status rc_dataset_number_names(rc_dataset *dataset)
{
    for (int label = 0; label < dataset->classes; label++) {
        char text[16];
        int length = snprintf(text, sizeof text, "%d", label);
        if (dataset->class_name[label] == NULL)
            RC_TRY(rc_dataset_set_name(dataset, label, text, (size_t)length));
    }
    return RC_OK;
}
