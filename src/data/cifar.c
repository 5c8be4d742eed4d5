/* CIFAR as its home page ships it, unpacked or as .tar.gz:
 *
 *     cifar-100-binary      train.bin test.bin fine_label_names.txt            records: coarse label, fine label, image
 *     cifar-100-python      train test meta                                    pickles
 *     cifar-10-batches-bin  data_batch_1.bin .. 5 test_batch.bin batches.meta.txt   records: label, image
 *     cifar-10-batches-py   data_batch_1 .. 5 test_batch batches.meta          pickles
 *
 * Names of the classes are numbers where the file with the names is missing. */
#include "data/cifar.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "data/bundle.h"
#include "data/pickle.h"
#include "data/reader.h"

typedef struct layout {
    const char *folder; /* as shipped; an archive is recognised by it */
    int classes;
    int label_bytes;                   /* binary; 0: pickles */
    const char *labels, *names;        /* pickles: keys of the labels and of the names */
    const char *file[RC_BUNDLE_FILES]; /* train ..., test, names, NULL */
    int trains;                        /* how many of them are for training */
} layout;

static const layout layouts[] = {
    {"cifar-100-binary", 100, 2, NULL, NULL, {"train.bin", "test.bin", "fine_label_names.txt"}, 1},
    {"cifar-100-python", 100, 0, "fine_labels", "fine_label_names", {"train", "test", "meta"}, 1},
    {"cifar-10-batches-bin",
     10,
     1,
     NULL,
     NULL,
     {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin",
      "test_batch.bin", "batches.meta.txt"},
     5},
    {"cifar-10-batches-py",
     10,
     0,
     "labels",
     "label_names",
     {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch", "batches.meta"},
     5},
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

/* The largest file of the sets has 155 MB. */
static const size_t file_limit = (size_t)1 << 28;

/* ---- images ----------------------------------------------------------------------------------------------------- */

/* Three planes, whose bytes lie `step` apart, to pixels of three bytes. */
static void interleave(const uint8_t *planes, size_t step, uint8_t *pixels)
{
    for (size_t i = 0; i < RC_CIFAR_PIXELS; i++)
        for (size_t c = 0; c < 3; c++)
            pixels[3 * i + c] = planes[(c * RC_CIFAR_PIXELS + i) * step];
}

/* Makes room for more images after those that are there. */
static rc_status grow(rc_split *split, size_t more)
{
    if (more > (size_t)(INT_MAX - split->count))
        return rc_fail(RC_FORMAT, "%zu images are too many", more);
    const rc_dataset shape = {.h = RC_CIFAR_SIDE, .w = RC_CIFAR_SIDE, .c = 3};
    rc_split grown = {0};
    rc_status status = rc_split_allocate(&shape, &grown, split->count + (int)more);
    rc_split *unused = status == RC_OK ? split : &grown;
    if (status == RC_OK && split->count > 0) {
        memcpy(grown.images, split->images, (size_t)split->count * RC_CIFAR_BYTES);
        memcpy(grown.labels, split->labels, (size_t)split->count * sizeof *split->labels);
    }
    rc_free(NULL, unused->images);
    rc_free(NULL, unused->labels);
    if (status == RC_OK)
        *split = grown;
    return status;
}

rc_status rc_cifar_parse_binary(const char *name, const uint8_t *data, size_t size, int label_bytes, int classes,
                                rc_split *split)
{
    size_t record = (size_t)label_bytes + RC_CIFAR_BYTES, count = size / record;
    if (count == 0 || size % record != 0)
        return rc_fail(RC_FORMAT, "'%s' has %zu bytes, expected records of %zu bytes (%d of labels, 3072 of image)",
                       name, size, record, label_bytes);
    for (size_t i = 0; i < count; i++) {
        int label = data[i * record + (size_t)label_bytes - 1];
        if (label >= classes)
            return rc_fail(RC_FORMAT, "'%s': record %zu has label %d, expected 0 to %d", name, i, label, classes - 1);
    }
    int first = split->count;
    RC_TRY(grow(split, count));
    for (size_t i = 0; i < count; i++) {
        const uint8_t *at = data + i * record + label_bytes;
        split->labels[(size_t)first + i] = at[-1];
        interleave(at, 1, split->images + ((size_t)first + i) * RC_CIFAR_BYTES);
    }
    return RC_OK;
}

static rc_status append_pickle(const char *name, const rc_pickle *pickle, const char *labels, int classes,
                               rc_split *split)
{
    rc_pickle_array images;
    rc_pickle_list list;
    RC_TRY(rc_pickle_get_array(pickle, "data", &images));
    RC_TRY(rc_pickle_get_list(pickle, labels, &list));
    int count = list.count;
    if (images.columns != RC_CIFAR_BYTES || images.rows != count || count == 0)
        return rc_fail(RC_FORMAT,
                       "'%s' has %d rows of %d bytes of images and %d labels, expected rows of %d bytes and "
                       "a label for each",
                       name, images.rows, images.columns, count, RC_CIFAR_BYTES);
    int first = split->count;
    RC_TRY(grow(split, (size_t)count));
    for (int i = 0; i < count; i++) {
        int64_t label;
        RC_TRY(rc_pickle_next_integer(&list, &label));
        if (label < 0 || label >= classes)
            return rc_fail(RC_FORMAT, "'%s': image %d has label %lld, expected 0 to %d", name, i, (long long)label,
                           classes - 1);
        split->labels[first + i] = (int32_t)label;
        interleave(images.bytes + (size_t)i * images.row_step, images.column_step,
                   split->images + (size_t)(first + i) * RC_CIFAR_BYTES);
    }
    return RC_OK;
}

rc_status rc_cifar_parse_pickle(const char *name, const uint8_t *data, size_t size, const char *labels, int classes,
                                rc_split *split)
{
    rc_pickle *pickle;
    RC_TRY(rc_pickle_parse(name, data, size, &pickle));
    rc_status status = append_pickle(name, pickle, labels, classes, split);
    rc_pickle_free(pickle);
    return status;
}

/* ---- names ------------------------------------------------------------------------------------------------------ */

/* One name on each line; CIFAR-10's file ends with an empty line. */
static rc_status names_from_text(const char *text, rc_dataset *dataset)
{
    int label = 0;
    for (const char *line = text; *line != 0;) {
        size_t length = strcspn(line, "\r\n");
        if (length > 0 && label == dataset->classes)
            return rc_fail(RC_FORMAT, "more than %d names", dataset->classes);
        if (length > 0)
            RC_TRY(rc_dataset_set_name(dataset, label++, line, length));
        line += length + strspn(line + length, "\r\n");
    }
    if (label < dataset->classes)
        return rc_fail(RC_FORMAT, "%d names, expected %d", label, dataset->classes);
    return RC_OK;
}

static rc_status names_from_pickle(const rc_pickle *pickle, const char *key, rc_dataset *dataset)
{
    rc_pickle_list list;
    RC_TRY(rc_pickle_get_list(pickle, key, &list));
    if (list.count != dataset->classes)
        return rc_fail(RC_FORMAT, "%d names, expected %d", list.count, dataset->classes);
    for (int i = 0; i < list.count; i++) {
        const char *name;
        size_t length;
        RC_TRY(rc_pickle_next_string(&list, &name, &length));
        RC_TRY(rc_dataset_set_name(dataset, i, name, length));
    }
    return RC_OK;
}

static rc_status read_names(const layout *l, rc_bundle *bundle, rc_dataset *dataset)
{
    const char *file = l->file[l->trains + 1];
    RC_TRY(rc_dataset_allocate_names(dataset, l->classes));
    bool has;
    RC_TRY(rc_bundle_has(bundle, file, &has));
    if (!has)
        return rc_dataset_number_names(dataset);
    uint8_t *data;
    size_t size;
    RC_TRY(rc_bundle_take(bundle, file, 1 << 20, &data, &size));
    rc_status status = RC_OK;
    if (l->label_bytes > 0) {
        status = names_from_text((const char *)data, dataset);
    } else {
        rc_pickle *pickle;
        status = rc_pickle_parse(file, data, size, &pickle);
        if (status == RC_OK) {
            status = names_from_pickle(pickle, l->names, dataset);
            rc_pickle_free(pickle);
        }
    }
    rc_free(NULL, data);
    if (status == RC_OK)
        status = rc_check_class_names((const char *const *)dataset->class_name, dataset->classes);
    return status == RC_OK ? RC_OK : rc_fail(status, "'%.400s', %s: %s", bundle->path, file, rc_message());
}

/* ---- the readers ------------------------------------------------------------------------------------------------ */

/* *found: NULL if the path holds none of these layouts. */
static rc_status find_layout(const char *path, int classes, const layout **found)
{
    char first[257] = "";
    struct stat about;
    *found = NULL;
    RC_TRY(rc_file_look(path, true, &about));
    bool folder = S_ISDIR(about.st_mode);
    if (S_ISREG(about.st_mode))
        RC_TRY(rc_archive_first_name(path, first));
    for (int i = 0; i < LAYOUTS && *found == NULL; i++) {
        const layout *l = &layouts[i];
        size_t length = strlen(l->folder);
        const char *begin = strncmp(first, "./", 2) == 0 ? first + 2 : first;
        if (l->classes != classes)
            continue;
        bool train = false, test = false, packed = strncmp(begin, l->folder, length) == 0 && begin[length] == '/';
        if (folder) {
            RC_TRY(rc_has_file(path, l->file[0], &train));
            RC_TRY(rc_has_file(path, l->file[l->trains], &test));
        }
        if (folder ? train && test : packed)
            *found = l;
    }
    return RC_OK;
}

static rc_status read_file(const layout *l, rc_bundle *bundle, const char *file, rc_split *split)
{
    uint8_t *data;
    size_t size;
    char name[RC_PATH_SIZE];
    RC_TRY(rc_bundle_take(bundle, file, file_limit, &data, &size));
    rc_status status = rc_path_in(bundle->path, file, name);
    if (status == RC_OK && l->label_bytes > 0)
        status = rc_cifar_parse_binary(name, data, size, l->label_bytes, l->classes, split);
    else if (status == RC_OK)
        status = rc_cifar_parse_pickle(name, data, size, l->labels, l->classes, split);
    rc_free(NULL, data);
    return status;
}

static rc_status read_files(const layout *l, const rc_data_settings *settings, rc_bundle *bundle, rc_dataset *dataset)
{
    dataset->h = dataset->w = RC_CIFAR_SIDE;
    dataset->c = 3;
    int files = l->trains + 1;
    for (int i = 0; i < files; i++) {
        RC_TRY(rc_progress(settings, "reading", i, files));
        RC_TRY(read_file(l, bundle, l->file[i], i < l->trains ? &dataset->train : &dataset->test));
    }
    RC_TRY(read_names(l, bundle, dataset));
    return rc_progress(settings, "reading", files, files);
}

static rc_status read_cifar(const char *path, const rc_data_settings *settings, rc_dataset *dataset, int classes)
{
    const layout *l;
    RC_TRY(find_layout(path, classes, &l));
    if (l == NULL)
        return rc_fail(RC_FORMAT, "'%.300s' is not CIFAR-%d; expected: %s", path, classes,
                       (classes == 10 ? rc_reader_cifar10 : rc_reader_cifar100).layout);
    rc_bundle bundle;
    RC_TRY(rc_bundle_open(path, l->file, file_limit, &bundle));
    rc_status status = read_files(l, settings, &bundle, dataset);
    rc_bundle_close(&bundle);
    return status;
}

static rc_status recognise(const char *path, int classes, bool *known)
{
    const layout *l = NULL;
    rc_status status = find_layout(path, classes, &l);
    *known = l != NULL;
    return status;
}

static rc_status recognise_10(const char *path, bool *known)
{
    return recognise(path, 10, known);
}

static rc_status recognise_100(const char *path, bool *known)
{
    return recognise(path, 100, known);
}

static rc_status read_10(const char *path, const rc_data_settings *settings, rc_dataset *dataset)
{
    return read_cifar(path, settings, dataset, 10);
}

static rc_status read_100(const char *path, const rc_data_settings *settings, rc_dataset *dataset)
{
    return read_cifar(path, settings, dataset, 100);
}

const rc_reader rc_reader_cifar10 = {
    .format = "cifar10",
    .layout = "CIFAR-10: data_batch_{1..5}[.bin] test_batch[.bin], or cifar-10-{python,binary}.tar.gz",
    .recognise = recognise_10,
    .read = read_10,
};

const rc_reader rc_reader_cifar100 = {
    .format = "cifar100",
    .layout = "CIFAR-100: train.bin test.bin, or train test meta, or cifar-100-{python,binary}.tar.gz",
    .recognise = recognise_100,
    .read = read_100,
};
