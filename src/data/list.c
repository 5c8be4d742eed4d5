/* Lists, as ImageNet-100 is published:
 *
 *     FOLDER/train_100.txt  FOLDER/val_100.txt     lines "train/n01440764/n01440764_10026.JPEG 0", relative to FOLDER
 *
 * The user names the folder, or the list for training, whose partner has "val" or "test" in place of "train". A list
 * without a partner is split by test_part. If each class has its pictures in one folder, it is called like that
 * folder, else by its number. */
#include "data/list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "data/listing.h"
#include "data/reader.h"

static const size_t file_limit = (size_t)1 << 28;

/* ---- the text --------------------------------------------------------------------------------------------------- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* One line, blanks at its ends taken off: how long its path is, and its label. */
static bool split_line(const char *line, size_t length, size_t *path_length, int32_t *label)
{
    size_t digits = length;
    while (digits > 0 && line[digits - 1] >= '0' && line[digits - 1] <= '9')
        digits--;
    if (digits == length || length - digits > 5 || digits == 0 || !is_blank(line[digits - 1]))
        return false;
    *label = 0;
    for (size_t i = digits; i < length; i++)
        *label = *label * 10 + (line[i] - '0');
    for (*path_length = digits; *path_length > 0 && is_blank(line[*path_length - 1]);)
        --*path_length;
    return *label <= RC_LIST_MAX_LABEL && *path_length > 0 && memchr(line, 0, *path_length) == NULL;
}

rc_status rc_list_add(const char *folder, const char *picture, size_t length, int32_t label, rc_image_files *files)
{
    char relative[RC_PATH_SIZE], path[RC_PATH_SIZE];
    if (length >= sizeof relative)
        return rc_fail(RC_FORMAT, "a path of %zu bytes, expected at most %zu", length, sizeof relative - 1);
    memcpy(relative, picture, length);
    relative[length] = 0;
    if (relative[0] == '/')
        return rc_image_files_add(files, relative, label);
    RC_TRY(rc_path_in(folder, relative, path));
    return rc_image_files_add(files, path, label);
}

rc_status rc_list_parse(const char *name, const char *text, size_t size, const char *folder, rc_image_files *files)
{
    const char *at = text + rc_utf8_order_mark(text, size), *end = text + size;
    for (int number = 1; at < end; number++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at)), *next = newline != NULL ? newline + 1 : end;
        const char *stop = newline != NULL ? newline : end;
        while (at < stop && is_blank(*at))
            at++;
        while (stop > at && is_blank(stop[-1]))
            stop--;
        size_t length = (size_t)(stop - at), path_length;
        int32_t label;
        if (length > 0 && !split_line(at, length, &path_length, &label))
            return rc_fail(RC_FORMAT,
                           "'%.400s', line %d: '%.*s', expected 'relative/path label' with a label from 0 to %d", name,
                           number, (int)(length < 100 ? length : 100), at, RC_LIST_MAX_LABEL);
        if (length > 0) {
            rc_status status = rc_list_add(folder, at, path_length, label, files);
            if (status != RC_OK)
                return rc_fail(status, "'%.400s', line %d: %s", name, number, rc_message());
        }
        at = next;
    }
    return RC_OK;
}

void rc_list_folder(const char *list, char folder[RC_PATH_SIZE])
{
    const char *base = rc_base_name(list);
    snprintf(folder, RC_PATH_SIZE, "%.*s", base > list ? (int)(base - list) : 1, base > list ? list : ".");
}

/* ---- finding the files ------------------------------------------------------------------------------------------ */

static bool begins(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static bool is_list_name(const char *name)
{
    size_t length = strlen(name);
    return length > 4 && strcmp(name + length - 4, ".txt") == 0;
}

/* The list that has `part` in place of "train"; none where the name does not begin so. */
static rc_status find_beside(const char *train, const char *part, char path[RC_PATH_SIZE], bool *is_there)
{
    struct stat about;
    const char *base = rc_base_name(train);
    *is_there = false;
    int written = snprintf(path, RC_PATH_SIZE, "%.*s%s%s", (int)(base - train), train, part,
                           begins(base, "train") ? base + 5 : "");
    if (!begins(base, "train") || written >= RC_PATH_SIZE)
        return RC_OK;
    RC_TRY(rc_file_look(path, true, &about));
    *is_there = S_ISREG(about.st_mode);
    return RC_OK;
}

rc_status rc_list_find_partner(const char *train, char partner[RC_PATH_SIZE], bool *is_there)
{
    RC_TRY(find_beside(train, "val", partner, is_there));
    return *is_there ? RC_OK : find_beside(train, "test", partner, is_there);
}

rc_status rc_list_leave_other(const char *train, const char *partner, rc_left_out *left_out)
{
    char other[RC_PATH_SIZE], reason[RC_PATH_SIZE + 64];
    bool is_there;
    RC_TRY(find_beside(train, "test", other, &is_there));
    if (!is_there || strcmp(other, partner) == 0)
        return RC_OK;
    snprintf(reason, sizeof reason, "beside %s, which is read", rc_base_name(partner));
    return rc_left_out_add(left_out, other, "lists and tables for testing", reason);
}

/* The list for training in a folder: train_100.txt, or the only train*.txt that has a partner. */
static rc_status find_train(const char *folder, char *path, bool *is_there)
{
    char partner[RC_PATH_SIZE], candidate[RC_PATH_SIZE];
    rc_listing listing;
    RC_TRY(rc_has_file(folder, "train_100.txt", is_there));
    if (*is_there) {
        RC_TRY(rc_path_in(folder, "train_100.txt", path));
        RC_TRY(rc_list_find_partner(path, partner, is_there));
    }
    if (*is_there)
        return RC_OK;
    RC_TRY(rc_listing_look(folder, &listing));
    int found = 0;
    rc_status status = RC_OK;
    for (int i = 0; i < listing.count && status == RC_OK; i++) {
        bool pair = false;
        if (begins(listing.name[i], "train") && is_list_name(listing.name[i]) &&
            rc_path_in(folder, listing.name[i], candidate) == RC_OK)
            status = rc_list_find_partner(candidate, partner, &pair);
        if (pair && found++ == 0)
            memcpy(path, candidate, sizeof candidate);
    }
    rc_listing_free(&listing);
    *is_there = found == 1;
    return status;
}

static rc_status recognise(const char *path, bool *known)
{
    char train[RC_PATH_SIZE];
    struct stat about;
    RC_TRY(rc_file_look(path, true, &about));
    if (S_ISDIR(about.st_mode))
        return find_train(path, train, known);
    *known = S_ISREG(about.st_mode) && is_list_name(path);
    return RC_OK;
}

/* ---- names ------------------------------------------------------------------------------------------------------ */

/* The name of the folder that a picture lies in; NULL if its path does not tell, as in "./1.png". */
static const char *parent(const char *path, size_t *length)
{
    const char *end = strrchr(path, '/'), *begin = end;
    if (end == NULL)
        return NULL;
    while (begin > path && begin[-1] != '/')
        begin--;
    *length = (size_t)(end - begin);
    return strspn(begin, ".") < *length ? begin : NULL;
}

/* The folder of the first picture of each class as its name; not *named if that is none, or another picture of the
 * class lies elsewhere. */
static rc_status take_folder_names(const rc_image_files *files, rc_dataset *dataset, bool *named)
{
    *named = false;
    for (int i = 0; i < files->count; i++) {
        size_t length = 0;
        const char *folder = parent(rc_image_files_path(files, i), &length);
        int label = files->file[i].label;
        const char *known = dataset->class_name[label];
        if (folder == NULL)
            return RC_OK;
        rc_status status = known == NULL ? rc_dataset_set_name(dataset, label, folder, length) : RC_OK;
        if (status != RC_OK)
            return status == RC_FORMAT ? RC_OK : status;
        if (known != NULL && (strlen(known) != length || memcmp(known, folder, length) != 0))
            return RC_OK;
    }
    *named = true;
    return RC_OK;
}

/* Do the classes that have a name have different ones? */
static rc_status names_differ(const rc_dataset *dataset, bool *differ)
{
    const char **sorted = rc_alloc_zeroed(NULL, (size_t)dataset->classes, sizeof *sorted);
    if (sorted == NULL)
        return RC_OUT_OF_MEMORY;
    size_t count = 0;
    for (int i = 0; i < dataset->classes; i++)
        if (dataset->class_name[i] != NULL)
            sorted[count++] = dataset->class_name[i];
    qsort(sorted, count, sizeof *sorted, rc_compare_names);
    *differ = true;
    for (size_t i = 1; i < count; i++)
        *differ = *differ && strcmp(sorted[i - 1], sorted[i]) != 0;
    rc_free(NULL, sorted);
    return RC_OK;
}

static rc_status name_classes(const rc_image_files *train, const rc_image_files *test, rc_dataset *dataset)
{
    int classes = 0;
    for (int i = 0; i < train->count; i++)
        classes = train->file[i].label >= classes ? train->file[i].label + 1 : classes;
    for (int i = 0; i < test->count; i++)
        classes = test->file[i].label >= classes ? test->file[i].label + 1 : classes;
    RC_TRY(rc_dataset_allocate_names(dataset, classes));
    /* Only the list for training counts: the one for testing may keep all its pictures in one folder. */
    bool named, differ;
    RC_TRY(take_folder_names(train, dataset, &named));
    RC_TRY(names_differ(dataset, &differ));
    if (!named || !differ)
        for (int i = 0; i < classes; i++) {
            rc_free(NULL, dataset->class_name[i]);
            dataset->class_name[i] = NULL;
        }
    return rc_dataset_number_names(dataset);
}

rc_status rc_list_split(const rc_data_settings *settings, const rc_dataset *dataset, bool has_test,
                        rc_image_files *train, rc_image_files *test, rc_left_out *left_out)
{
    RC_TRY(rc_image_files_leave_once(train, test, dataset, left_out));
    return has_test ? RC_OK
                    : rc_image_files_split(train, dataset->classes, settings->test_part, settings->test_seed, test);
}

/* ---- the reader ------------------------------------------------------------------------------------------------- */

static rc_status add_list(const char *path, rc_image_files *files)
{
    char folder[RC_PATH_SIZE], *text;
    size_t size;
    rc_list_folder(path, folder);
    RC_TRY(rc_file_read(path, file_limit, &text, &size));
    rc_status status = rc_list_parse(path, text, size, folder, files);
    rc_free(NULL, text);
    if (status == RC_OK && files->count == 0)
        return rc_fail(RC_FORMAT, "'%.400s' names no pictures; expected: %s", path, rc_reader_list.layout);
    return status;
}

static rc_status gather(const char *path, const rc_data_settings *settings, rc_dataset *dataset, rc_image_files *train,
                        rc_image_files *test, rc_left_out *left_out)
{
    char list[RC_PATH_SIZE], partner[RC_PATH_SIZE];
    struct stat about;
    bool has_partner;
    RC_TRY(rc_file_look(path, true, &about));
    if (S_ISDIR(about.st_mode)) {
        bool is_there;
        RC_TRY(find_train(path, list, &is_there));
        if (!is_there)
            return rc_fail(RC_FORMAT, "'%.400s' does not hold exactly one pair of lists; expected: %s", path,
                           rc_reader_list.layout);
    } else {
        snprintf(list, sizeof list, "%s", path);
    }
    RC_TRY(add_list(list, train));
    RC_TRY(rc_list_find_partner(list, partner, &has_partner));
    if (has_partner) {
        RC_TRY(add_list(partner, test));
        RC_TRY(rc_list_leave_other(list, partner, left_out));
    }
    RC_TRY(name_classes(train, test, dataset));
    if (strcmp(rc_base_name(list), "train_100.txt") == 0 && dataset->classes == 100)
        snprintf(dataset->name, sizeof dataset->name, "imagenet100");
    return rc_list_split(settings, dataset, has_partner, train, test, left_out);
}

static rc_status read_list(const char *path, const rc_data_settings *settings, rc_dataset *dataset)
{
    return rc_image_files_read(path, settings, gather, dataset);
}

const rc_reader rc_reader_list = {
    .format = "list",
    .layout = "lists: FOLDER/train*.txt and val*.txt or test*.txt, or one list; lines 'relative/path label'",
    .fitted = true,
    .recognise = recognise,
    .read = read_list,
};
