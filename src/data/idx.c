/* MNIST and its kin:
 *
 *     train-images-idx3-ubyte[.gz]  train-labels-idx1-ubyte[.gz]
 *     t10k-images-idx3-ubyte[.gz]   t10k-labels-idx1-ubyte[.gz]
 *
 * (also with a dot before "idx"). Debian's dataset-fashion-mnist is such a folder. */
#include "data/idx.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "base/memory.h"
#include "data/input.h"
#include "data/reader.h"

/* EMNIST's largest has 550 MB. */
static const size_t file_limit = (size_t)1 << 30;

static uint32_t big_endian(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

rc_status rc_idx_parse_header(const char *name, const uint8_t *data, size_t size, rc_idx *idx, size_t *header,
                              size_t *values)
{
    *idx = (rc_idx){0};
    if (size < 4 || data[0] != 0 || data[1] != 0)
        return rc_fail(RC_FORMAT, "'%s' is not an idx file: expected two zero bytes, the type and the dimensions",
                       name);
    if (data[2] != 8)
        return rc_fail(RC_FORMAT, "'%s' has idx type 0x%02X, expected 0x08, unsigned bytes", name, data[2]);
    int dims = data[3];
    if (dims < 1 || dims > 4)
        return rc_fail(RC_FORMAT, "'%s' has %d dimensions, expected 1 to 4", name, dims);
    *header = 4 + 4 * (size_t)dims;
    *values = 1;
    if (size < *header)
        return rc_fail(RC_FORMAT, "'%s' ends inside its header: %zu bytes, expected at least %zu", name, size, *header);
    for (int i = 0; i < dims; i++) {
        uint32_t dim = big_endian(data + 4 + 4 * i);
        if (dim > INT_MAX || !rc_size_mul(*values, dim, values))
            return rc_fail(RC_FORMAT, "'%s': dimension %d of %u is too large", name, i, (unsigned)dim);
        idx->dim[i] = (int)dim;
    }
    idx->dims = dims;
    return RC_OK;
}

rc_status rc_idx_parse(const char *name, const uint8_t *data, size_t size, rc_idx *idx)
{
    size_t header, values;
    RC_TRY(rc_idx_parse_header(name, data, size, idx, &header, &values));
    if (size - header != values)
        return rc_fail(RC_FORMAT, "'%s' holds %s%zu bytes after its header, which promises %zu", name,
                       size - header > values ? "at least " : "", size - header, values);
    idx->values = data + header;
    return RC_OK;
}

/* ---- the reader ------------------------------------------------------------------------------------------------- */

/* The path of `stem` + "-idx" or ".idx" + `dims` + "-ubyte" [".gz"] in the folder, if there is one. */
static rc_status find_file(const char *folder, const char *stem, int dims, char *path, bool *found)
{
    static const char separators[] = "-.";
    static const char *const endings[] = {"", ".gz"};
    *found = false;
    for (int i = 0; i < 4 && !*found; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s%cidx%d-ubyte%s", stem, separators[i / 2], dims, endings[i % 2]);
        RC_TRY(rc_has_file(folder, name, found));
        if (*found)
            RC_TRY(rc_path_in(folder, name, path));
    }
    return RC_OK;
}

static rc_status recognise(const char *path, bool *known)
{
    char file[RC_PATH_SIZE];
    RC_TRY(find_file(path, "train-images", 3, file, known));
    return *known ? RC_OK : find_file(path, "t10k-images", 3, file, known);
}

/* Reads no more than the header promises, and takes no memory for it before it may be true. */
static rc_status read_file(rc_input *input, const char *path, uint8_t **block, size_t *size)
{
    uint8_t first[RC_IDX_HEADER];
    size_t header, values, begun, got = 0;
    rc_idx idx;
    RC_TRY(rc_input_read(input, first, sizeof first, &begun));
    RC_TRY(rc_idx_parse_header(path, first, begun, &idx, &header, &values));
    if (values > file_limit)
        return rc_fail(RC_FORMAT, "'%s' promises %zu bytes, expected at most %zu", path, values, file_limit);
    size_t left = header + values > begun ? header + values - begun : 0;
    RC_TRY(rc_input_check_promise(input, left));
    *block = rc_alloc(NULL, begun + left + 1);
    if (*block == NULL)
        return rc_fail(RC_OUT_OF_MEMORY, "'%s': no memory for the %zu bytes that it promises", path, values);
    memcpy(*block, first, begun);
    /* One byte more than promised is asked for, to see whether the file ends there. */
    rc_status status = rc_input_read(input, *block + begun, left + 1, &got);
    *size = begun + got;
    return status;
}

static rc_status load(const char *folder, const char *part, const char *what, int dims, uint8_t **block, rc_idx *idx)
{
    char stem[32], path[RC_PATH_SIZE];
    bool found;
    snprintf(stem, sizeof stem, "%s-%s", part, what);
    RC_TRY(find_file(folder, stem, dims, path, &found));
    if (!found)
        return rc_fail(RC_IO, "'%.500s' has no %s-idx%d-ubyte or %s-idx%d-ubyte.gz", folder, stem, dims, stem, dims);
    size_t size = 0;
    rc_input *input;
    RC_TRY(rc_input_open(path, &input));
    rc_status status = read_file(input, path, block, &size);
    rc_input_close(input);
    RC_TRY(status);
    RC_TRY(rc_idx_parse(path, *block, size, idx));
    if (idx->dims != dims)
        return rc_fail(RC_FORMAT, "'%s' has %d dimensions, expected %d", path, idx->dims, dims);
    return RC_OK;
}

/* Takes the images where they are: *block becomes those of the split. */
static rc_status fill(const char *folder, const char *part, uint8_t **block, const rc_idx *images, const rc_idx *labels,
                      rc_dataset *dataset, rc_split *split)
{
    if (images->dim[0] != labels->dim[0])
        return rc_fail(RC_FORMAT, "'%.500s': %d images in %s-images-idx3-ubyte but %d labels in %s-labels-idx1-ubyte",
                       folder, images->dim[0], part, labels->dim[0], part);
    int h = images->dim[1], w = images->dim[2];
    if (h < 1 || w < 1 || h > 4096 || w > 4096)
        return rc_fail(RC_FORMAT, "'%.500s': %s-images-idx3-ubyte has images of %d x %d pixels, expected 1 to 4096",
                       folder, part, w, h);
    if (dataset->h != 0 && (h != dataset->h || w != dataset->w))
        return rc_fail(RC_FORMAT,
                       "'%.500s': %s-images-idx3-ubyte has images of %d x %d pixels, train-images-idx3-ubyte %d x %d",
                       folder, part, w, h, dataset->w, dataset->h);
    dataset->h = h;
    dataset->w = w;
    dataset->c = 1;
    split->labels = rc_alloc_zeroed(NULL, (size_t)images->dim[0], sizeof *split->labels);
    if (split->labels == NULL)
        return RC_OUT_OF_MEMORY;
    split->count = images->dim[0];
    split->images = *block;
    *block = NULL;
    memmove(split->images, images->values, (size_t)split->count * (size_t)h * (size_t)w);
    for (int i = 0; i < split->count; i++)
        split->labels[i] = labels->values[i];
    return RC_OK;
}

static rc_status read_part(const char *folder, const char *part, rc_dataset *dataset, rc_split *split)
{
    uint8_t *image_block = NULL, *label_block = NULL;
    rc_idx images, labels;
    rc_status status = load(folder, part, "images", 3, &image_block, &images);
    if (status == RC_OK)
        status = load(folder, part, "labels", 1, &label_block, &labels);
    if (status == RC_OK)
        status = fill(folder, part, &image_block, &images, &labels, dataset, split);
    rc_free(NULL, image_block);
    rc_free(NULL, label_block);
    return status;
}

/* The two sets have files of the same names; their test labels tell them apart. */
static void recognise_set(rc_dataset *dataset)
{
    enum { FASHION_TEST_LABELS = 0x242BC73F };
    uint8_t labels[10000];
    if (dataset->test.count != 10000 || dataset->h != 28 || dataset->w != 28)
        return;
    for (int i = 0; i < 10000; i++)
        labels[i] = (uint8_t)dataset->test.labels[i];
    if (crc32(0, labels, sizeof labels) == FASHION_TEST_LABELS)
        snprintf(dataset->name, sizeof dataset->name, "fashion-mnist");
}

static rc_status set_names(rc_dataset *dataset)
{
    static const char *const fashion[10] = {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
                                            "Sandal",      "Shirt",   "Sneaker",  "Bag",   "Ankle boot"};
    int classes = 1;
    const rc_split *splits[] = {&dataset->train, &dataset->test};
    for (int s = 0; s < 2; s++)
        for (int i = 0; i < splits[s]->count; i++)
            if (splits[s]->labels[i] >= classes)
                classes = splits[s]->labels[i] + 1;
    RC_TRY(rc_dataset_allocate_names(dataset, classes));
    if (strcmp(dataset->name, "fashion-mnist") == 0)
        for (int i = 0; i < 10 && i < classes; i++)
            RC_TRY(rc_dataset_set_name(dataset, i, fashion[i], strlen(fashion[i])));
    return rc_dataset_number_names(dataset);
}

static rc_status read_idx(const char *path, const rc_data_settings *settings, rc_dataset *dataset)
{
    (void)settings;
    RC_TRY(read_part(path, "train", dataset, &dataset->train));
    RC_TRY(read_part(path, "t10k", dataset, &dataset->test));
    recognise_set(dataset);
    return set_names(dataset);
}

const rc_reader rc_reader_idx = {
    .format = "idx",
    .layout = "MNIST, Fashion-MNIST: {train,t10k}-images-idx3-ubyte[.gz] and {train,t10k}-labels-idx1-ubyte[.gz]",
    .recognise = recognise,
    .read = read_idx,
};
