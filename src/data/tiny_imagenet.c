/* Tiny-ImageNet as it is unpacked:
 *
 *     wnids.txt                    one class on each line; the number of the line, from 0, is the class
 *     train/WNID/images/IMAGE
 *     val/val_annotations.txt      lines "image <tab> WNID <tab> ..."
 *     val/images/IMAGE
 *
 * Trees whose validation images were sorted into val/WNID/ are read, too. The test images have no labels: the
 * validation images are the test set, as everywhere. */
#include "data/tiny_imagenet.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "data/reader.h"

static const size_t text_limit = (size_t)1 << 26;

/* Classes by name, to find them fast. */
typedef struct wnid {
    const char *name; /* of the data set */
    int label;
} wnid;

static int by_name(const void *a, const void *b)
{
    return strcmp(((const wnid *)a)->name, ((const wnid *)b)->name);
}

/* The next line, without its end; false when there are no more. */
static bool next_line(char **at, char **line)
{
    char *begin = *at, *newline = strchr(begin, '\n');
    if (*begin == 0)
        return false;
    *at = newline != NULL ? newline + 1 : begin + strlen(begin);
    if (newline != NULL)
        *newline = 0;
    begin[strcspn(begin, "\r")] = 0;
    *line = begin;
    return true;
}

/* These texts have no zero bytes. */
static rc_status check_text(const char *name, const char *text, size_t size)
{
    const char *zero = size > 0 ? memchr(text, 0, size) : NULL;
    if (zero != NULL)
        return rc_fail(RC_FORMAT, "'%.500s' is not a text: byte %zu is zero", name, (size_t)(zero - text));
    return RC_OK;
}

static rc_status add_class(rc_dataset *dataset, const char *line)
{
    if (strchr(line, '/') != NULL)
        return rc_fail(RC_FORMAT, "class name '%.100s' holds a slash", line);
    return rc_dataset_set_name(dataset, dataset->classes++, line, strlen(line));
}

rc_status rc_tiny_imagenet_parse_classes(const char *name, char *text, size_t size, rc_dataset *dataset)
{
    RC_TRY(check_text(name, text, size));
    int lines = 1;
    for (size_t i = 0; i < size; i++)
        lines += text[i] == '\n';
    RC_TRY(rc_dataset_allocate_names(dataset, lines));
    char *at = text + rc_utf8_order_mark(text, size), *line;
    dataset->classes = 0;
    for (int number = 1; next_line(&at, &line); number++) {
        rc_status status = line[0] != 0 ? add_class(dataset, line) : RC_OK;
        if (status != RC_OK)
            return rc_fail(status, "'%.400s', line %d: %s", name, number, rc_message());
    }
    return dataset->classes > 0 ? RC_OK : rc_fail(RC_FORMAT, "'%.500s' names no classes", name);
}

/* The classes by name, in a new block. None may be there twice. */
static rc_status sort_classes(const rc_dataset *dataset, wnid **classes)
{
    wnid *sorted = *classes = rc_alloc_zeroed(NULL, (size_t)dataset->classes, sizeof *sorted);
    if (sorted == NULL)
        return RC_OUT_OF_MEMORY;
    for (int i = 0; i < dataset->classes; i++)
        sorted[i] = (wnid){dataset->class_name[i], i};
    qsort(sorted, (size_t)dataset->classes, sizeof *sorted, by_name);
    for (int i = 1; i < dataset->classes; i++)
        if (by_name(&sorted[i - 1], &sorted[i]) == 0)
            return rc_fail(RC_FORMAT, "wnids.txt names class '%.100s' twice", sorted[i].name);
    return RC_OK;
}

static rc_status read_classes(const char *root, rc_dataset *dataset)
{
    char path[RC_PATH_SIZE], *text;
    size_t size;
    RC_TRY(rc_path_in(root, "wnids.txt", path));
    RC_TRY(rc_file_read(path, text_limit, &text, &size));
    rc_status status = rc_tiny_imagenet_parse_classes(path, text, size, dataset);
    rc_free(NULL, text);
    return status;
}

static const wnid *find_class(const char *name, const wnid *classes, int count)
{
    return bsearch(&(wnid){name, 0}, classes, (size_t)count, sizeof *classes, by_name);
}

/* What lies in the folder of a part beside the classes. */
static rc_status leave_others(const char *folder, const wnid *classes, int count, rc_walk *walk)
{
    rc_listing listing;
    RC_TRY(rc_listing_look(folder, &listing));
    rc_status status = rc_walk_strays(walk, folder, &listing);
    for (int i = 0; i < listing.count && status == RC_OK; i++) {
        char path[RC_PATH_SIZE];
        bool other;
        status = rc_has_folder(folder, listing.name[i], &other);
        if (status != RC_OK || !other || find_class(listing.name[i], classes, count) != NULL)
            continue;
        status = rc_path_in(folder, listing.name[i], path);
        if (status == RC_OK)
            status = rc_left_out_add(walk->left_out, path, "folders beside the classes",
                                     "wnids.txt does not name it; add it there if it is a class");
    }
    rc_listing_free(&listing);
    return status;
}

/* classes: those of the data set, sorted. */
static rc_status add_train(const char *root, const rc_dataset *dataset, const wnid *classes, const char *part,
                           rc_walk *walk, rc_image_files *files)
{
    char folder[RC_PATH_SIZE], path[RC_PATH_SIZE];
    RC_TRY(rc_path_in(root, part, folder));
    RC_TRY(rc_walk_begin(walk, folder));
    RC_TRY(leave_others(folder, classes, dataset->classes, walk));
    for (int label = 0; label < dataset->classes; label++) {
        int before = files->count;
        RC_TRY(rc_path_in(folder, dataset->class_name[label], path));
        RC_TRY(rc_image_files_add_class(walk, path, label, files));
        if (files->count == before)
            return rc_fail(RC_FORMAT, "class folder '%.400s' holds no pictures; expected: %s", path,
                           rc_reader_tiny_imagenet.layout);
    }
    return RC_OK;
}

/* One line of val_annotations.txt. */
static rc_status add_annotated(char *line, const char *folder, const wnid *classes, int count, rc_image_files *files)
{
    char path[RC_PATH_SIZE];
    size_t name = strcspn(line, "\t ");
    if (name == 0 || line[name] == 0)
        return rc_fail(RC_FORMAT, "expected an image and its class with a tab between them");
    line[name] = 0;
    char *class_name = line + name + 1;
    class_name[strcspn(class_name, "\t ")] = 0;
    const wnid *found = find_class(class_name, classes, count);
    if (found == NULL)
        return rc_fail(RC_FORMAT, "class '%.100s' is not in wnids.txt", class_name);
    RC_TRY(rc_path_in(folder, line, path));
    return rc_image_files_add(files, path, found->label);
}

static rc_status add_lines(const char *name, char *text, const char *folder, const wnid *classes, int count,
                           rc_image_files *files)
{
    char *at = text, *line;
    for (int number = 1; next_line(&at, &line); number++) {
        rc_status status = line[0] != 0 ? add_annotated(line, folder, classes, count, files) : RC_OK;
        if (status != RC_OK)
            return rc_fail(status, "'%.400s', line %d: %s", name, number, rc_message());
    }
    return RC_OK;
}

rc_status rc_tiny_imagenet_parse_annotations(const char *name, char *text, size_t size, const char *folder,
                                             const rc_dataset *dataset, rc_image_files *files)
{
    wnid *classes;
    RC_TRY(check_text(name, text, size));
    rc_status status = sort_classes(dataset, &classes);
    if (status == RC_OK)
        status = add_lines(name, text + rc_utf8_order_mark(text, size), folder, classes, dataset->classes, files);
    rc_free(NULL, classes);
    return status;
}

static rc_status add_validation(const char *root, const rc_dataset *dataset, const wnid *classes, rc_walk *walk,
                                rc_image_files *files)
{
    char file[RC_PATH_SIZE], folder[RC_PATH_SIZE], *text;
    size_t size;
    bool images, val;
    RC_TRY(rc_path_in(root, "val/val_annotations.txt", file));
    RC_TRY(rc_path_in(root, "val/images", folder));
    RC_TRY(rc_has_folder(root, "val/images", &images));
    RC_TRY(rc_has_folder(root, "val", &val));
    if (!images && val)
        return add_train(root, dataset, classes, "val", walk, files);
    RC_TRY(rc_file_read(file, text_limit, &text, &size));
    rc_status status = rc_tiny_imagenet_parse_annotations(file, text, size, folder, dataset, files);
    rc_free(NULL, text);
    return status;
}

static rc_status gather(const char *root, const rc_data_settings *settings, rc_dataset *dataset, rc_image_files *train,
                        rc_image_files *test, rc_left_out *left_out)
{
    (void)settings;
    wnid *sorted;
    RC_TRY(read_classes(root, dataset));
    rc_walk walk = rc_image_files_walk(dataset, left_out);
    rc_status status = sort_classes(dataset, &sorted);
    if (status == RC_OK)
        status = add_train(root, dataset, sorted, "train", &walk, train);
    if (status == RC_OK)
        status = add_validation(root, dataset, sorted, &walk, test);
    if (status == RC_OK)
        status = rc_walk_links(&walk);
    rc_free(NULL, sorted);
    rc_walk_free(&walk);
    RC_TRY(status);
    return rc_image_files_leave_once(train, test, dataset, left_out);
}

static rc_status read_tiny_imagenet(const char *path, const rc_data_settings *settings, rc_dataset *dataset)
{
    rc_data_settings own = *settings;
    if (settings->choose == NULL)
        own.size = rc_choose_size(settings, NULL, 64);
    if (own.channels == 0)
        own.channels = 3;
    return rc_image_files_read(path, &own, gather, dataset);
}

static rc_status recognise(const char *path, bool *known)
{
    bool train, val;
    RC_TRY(rc_has_file(path, "wnids.txt", known));
    RC_TRY(rc_has_folder(path, "train", &train));
    RC_TRY(rc_has_folder(path, "val", &val));
    *known = *known && train && val;
    return RC_OK;
}

const rc_reader rc_reader_tiny_imagenet = {
    .format = "tiny-imagenet",
    .layout = "Tiny-ImageNet: wnids.txt, train/WNID/images/IMAGE, val/images/IMAGE, val/val_annotations.txt",
    .fitted = true,
    .recognise = recognise,
    .read = read_tiny_imagenet,
};
