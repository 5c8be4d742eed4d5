/* Idx and CIFAR, settings, and the places in which sets are looked for: what is read, and what is refused in which
 * words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

#include "support/data_sets.h"
#include "support/data_told.h"

static void picture(const char *path, int red)
{
    data_write_colour(path, 4, 4, red, 1, 2);
}

static void bytes_at(const char *path, data_bytes bytes)
{
    data_write(path, bytes.data, bytes.size);
    free(bytes.data);
}

/* ---- idx --------------------------------------------------------------------------------------------------------- */

static void put_idx(const char *part, int count, int h, int w)
{
    char path[64];
    data_bytes images = data_idx_images(count, h, w), labels = data_idx_labels(count, 3);
    for (int i = 0; i < count * h * w; i++)
        images.data[16 + i] = (uint8_t)(i / (h * w) + (part[1] == 'r' ? 0 : 100));
    snprintf(path, sizeof path, "m/%s-images-idx3-ubyte", part);
    bytes_at(path, images);
    snprintf(path, sizeof path, "m/%s-labels-idx1-ubyte", part);
    bytes_at(path, labels);
}

static void idx_is_told(void **state)
{
    (void)state;
    put_idx("train", 4, 2, 2);
    TOLD("m", NULL,
         "3 'm' has no t10k-images-idx3-ubyte or t10k-images-idx3-ubyte.gz; expected: MNIST, Fashion-MNIST: "
         "{train,t10k}-images-idx3-ubyte[.gz] and {train,t10k}-labels-idx1-ubyte[.gz]");
    put_idx("t10k", 2, 2, 2);
    TOLD("m", NULL,
         "idx idx 2x2x1 '0' '1' '2'\n"
         "train: 0=0 1=1 2=2 3=0\n"
         "test: 100=0 101=1\n"
         "seen 4 2x2 same, mean 0.0059 +- 0.0044, broken 0, left out 0, no pictures 0");
    TOLD("m", &(rc_data_settings){.size = 3, .channels = 3},
         "idx idx 3x3x3 '0' '1' '2'\n"
         "train: 0=0 1=1 2=2 3=0\n"
         "test: 100=0 101=1\n"
         "seen 4 2x2 same, mean 0.0059 +- 0.0044, broken 0, left out 0, no pictures 0");
    TOLD("m", &(rc_data_settings){.choose = told_size, .resize = 11},
         "asked: 4 2x2 same\n"
         "idx idx 10x10x1 '0' '1' '2'\n"
         "train: 0=0 1=1 2=2 3=0\n"
         "test: 100=0 101=1\n"
         "seen 4 2x2 same, mean 0.0059 +- 0.0044, broken 0, left out 0, no pictures 0");
    TOLD("m", &(rc_data_settings){.resize = 1},
         "idx idx 1x1x1 '0' '1' '2'\n"
         "train: 0=0 1=1 2=2 3=0\n"
         "test: 100=0 101=1\n"
         "seen 4 2x2 same, mean 0.0059 +- 0.0044, broken 0, left out 0, no pictures 0");
    TOLD("m", &(rc_data_settings){.stream = true},
         "1 'm' is of format idx, not of picture files that could be decoded one by one: the setting 'decode' must be "
         "'memory'");
    put_idx("t10k", 2, 3, 2);
    TOLD("m", NULL, "4 'm': t10k-images-idx3-ubyte has images of 2 x 3 pixels, train-images-idx3-ubyte 2 x 2");
    put_idx("t10k", 2, 2, 3);
    TOLD("m", NULL, "4 'm': t10k-images-idx3-ubyte has images of 3 x 2 pixels, train-images-idx3-ubyte 2 x 2");
    put_idx("train", 2, 3, 2);
    put_idx("t10k", 1, 3, 2);
    TOLD("m", NULL, "1 the images are 2 x 3 pixels, not square: a size must be given");
    TOLD("m", &(rc_data_settings){.size = 2},
         "idx idx 2x2x1 '0' '1'\n"
         "train: 0=0 1=1\n"
         "test: 100=0\n"
         "seen 2 3x2, mean 0.0020 +- 0.0020, broken 0, left out 0, no pictures 0");
    TOLD("m", &(rc_data_settings){.choose = told_size},
         "asked: 2 3x2\n"
         "idx idx 10x10x1 '0' '1'\n"
         "train: 0=0 1=1\n"
         "test: 100=0\n"
         "seen 2 3x2, mean 0.0020 +- 0.0020, broken 0, left out 0, no pictures 0");
    put_idx("train", 1, 0, 2);
    TOLD("m", NULL, "4 'm': train-images-idx3-ubyte has images of 2 x 0 pixels, expected 1 to 4096");
    put_idx("train", 1, 2, 4097);
    TOLD("m", NULL, "4 'm': train-images-idx3-ubyte has images of 4097 x 2 pixels, expected 1 to 4096");
    put_idx("train", 1, 4096, 1);
    put_idx("t10k", 1, 4096, 1);
    TOLD("m", &(rc_data_settings){.size = 1},
         "idx idx 1x1x1 '0'\n"
         "train: 0=0\n"
         "test: 100=0\n"
         "seen 1 4096x1, mean 0.0000 +- 1.0000, broken 0, left out 0, no pictures 0");
    put_idx("train", 0, 2, 2);
    put_idx("t10k", 0, 2, 2);
    TOLD("m", NULL,
         "4 'm' holds no images; expected: MNIST, Fashion-MNIST: {train,t10k}-images-idx3-ubyte[.gz] and "
         "{train,t10k}-labels-idx1-ubyte[.gz]");
    put_idx("t10k", 3, 2, 2);
    TOLD("m", NULL,
         "idx idx 2x2x1 '0' '1' '2'\n"
         "train:\n"
         "test: 100=0 101=1 102=2\n"
         "seen 3 2x2 same, mean 0.3961 +- 0.0032, broken 0, left out 0, no pictures 0");
    bytes_at("m/train-labels-idx1-ubyte", data_idx_labels(3, 2));
    TOLD("m", NULL, "4 'm': 0 images in train-images-idx3-ubyte but 3 labels in train-labels-idx1-ubyte");
    bytes_at("m/train-labels-idx1-ubyte", data_idx_images(3, 1, 1));
    TOLD("m", NULL, "4 'm/train-labels-idx1-ubyte' has 3 dimensions, expected 1");
    told_is_right();
}

static void idx_files_are_told(void **state)
{
    (void)state;
    static const struct {
        size_t size;
        const char *bytes, *words;
    } files[] = {
        {3, "\0\0\10",
         "4 'm/train-labels-idx1-ubyte' is not an idx file: expected two zero bytes, the type and the dimensions"},
        {5, "\1\0\10\1x",
         "4 'm/train-labels-idx1-ubyte' is not an idx file: expected two zero bytes, the type and the dimensions"},
        {5, "\0\1\10\1x",
         "4 'm/train-labels-idx1-ubyte' is not an idx file: expected two zero bytes, the type and the dimensions"},
        {8, "\0\0\11\1\0\0\0\1", "4 'm/train-labels-idx1-ubyte' has idx type 0x09, expected 0x08, unsigned bytes"},
        {5, "\0\0\10\0x", "4 'm/train-labels-idx1-ubyte' has 0 dimensions, expected 1 to 4"},
        {5, "\0\0\10\5x", "4 'm/train-labels-idx1-ubyte' has 5 dimensions, expected 1 to 4"},
        {7, "\0\0\10\1\0\0\0", "4 'm/train-labels-idx1-ubyte' ends inside its header: 7 bytes, expected at least 8"},
        {8, "\0\0\10\1\0\0\0\1",
         "4 'm/train-labels-idx1-ubyte' is truncated: it promises 1 more bytes, but only 0 follow"},
        {10, "\0\0\10\1\0\0\0\1xy",
         "4 'm/train-labels-idx1-ubyte' holds at least 2 bytes after its header, which promises 1"},
        {8, "\0\0\10\1\200\0\0\0", "4 'm/train-labels-idx1-ubyte': dimension 0 of 2147483648 is too large"},
        {8, "\0\0\10\1\177\377\377\377",
         "4 'm/train-labels-idx1-ubyte' promises 2147483647 bytes, expected at most 1073741824"},
        {16, "\0\0\10\3\0\1\0\0\0\0\377\377\0\0\0\1",
         "4 'm/train-images-idx3-ubyte' promises 4294901760 bytes, expected at most 1073741824"},
    };
    put_idx("train", 1, 2, 2);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        data_write(i + 1 < sizeof files / sizeof *files ? "m/train-labels-idx1-ubyte" : "m/train-images-idx3-ubyte",
                   files[i].bytes, files[i].size);
        told_at(1000 + (int)i, "m", NULL, files[i].words);
    }
    told_is_right();
}

/* Labels with the sum `wanted`: an even label may become the odd one above it, and sums are linear in that. */
static void forge_labels(uint8_t *labels, uInt count, uint32_t wanted)
{
    enum { CHANGES = 48, APART = 20 };
    uint32_t sum = (uint32_t)crc32(0, labels, count), row[32] = {0};
    uint64_t made_of[32] = {0}, chosen = 0;
    for (int i = 0; i < CHANGES; i++) {
        labels[APART * i] ^= 1;
        uint32_t change = (uint32_t)crc32(0, labels, count) ^ sum;
        uint64_t changes = (uint64_t)1 << i;
        labels[APART * i] ^= 1;
        for (int bit = 31; bit >= 0 && change != 0; bit--) {
            if ((change >> bit & 1) == 0)
                continue;
            if (row[bit] == 0) {
                row[bit] = change;
                made_of[bit] = changes;
                break;
            }
            change ^= row[bit];
            changes ^= made_of[bit];
        }
    }
    uint32_t left = sum ^ wanted;
    for (int bit = 31; bit >= 0; bit--)
        if ((left >> bit & 1) != 0) {
            left ^= row[bit];
            chosen ^= made_of[bit];
        }
    assert_int_equal(left, 0);
    for (int i = 0; i < CHANGES; i++)
        labels[APART * i] ^= (uint8_t)(chosen >> i & 1);
}

/* Fashion-MNIST has MNIST's files; the sum of its test labels tells it. */
static void fashion_is_told_by_its_labels(void **state)
{
    (void)state;
    enum { COUNT = 10000, SIDE = 28 };
    data_bytes images = data_idx_images(0, SIDE, SIDE), labels = data_idx_labels(COUNT, 10);
    uint8_t *zeros = calloc(COUNT, (size_t)SIDE * SIDE);
    assert_non_null(zeros);
    data_add(&images, zeros, (size_t)COUNT * SIDE * SIDE);
    free(zeros);
    images.data[6] = COUNT >> 8;
    images.data[7] = COUNT & 255;
    forge_labels(labels.data + 8, COUNT, 0x242BC73F);
    put_idx("train", 11, SIDE, SIDE);
    data_write("m/t10k-images-idx3-ubyte", images.data, images.size);
    data_write("m/t10k-labels-idx1-ubyte", labels.data, labels.size);
    TOLD("m", NULL,
         "idx fashion-mnist 28x28x1 'T-shirt/top' 'Trouser' 'Pullover' 'Dress' 'Coat' 'Sandal' 'Shirt' 'Sneaker' 'Bag' "
         "'Ankle boot'\n"
         "train: 0=0 1=1 2=2 3=0 4=1 5=2 6=0 7=1 8=2 9=0 10=1\n"
         "test: 0=1 0=1 0=2 0=3 0=4 0=5 0=6 0=7 0=8 0=9 0=0 0=1 of 10000\n"
         "seen 11 28x28 same, mean 0.0196 +- 0.0124, broken 0, left out 0, no pictures 0");
    data_bytes more = data_idx_labels(11, 11);
    bytes_at("m/train-labels-idx1-ubyte", more);
    TOLD("m", NULL,
         "idx fashion-mnist 28x28x1 'T-shirt/top' 'Trouser' 'Pullover' 'Dress' 'Coat' 'Sandal' 'Shirt' 'Sneaker' 'Bag' "
         "'Ankle boot' '10'\n"
         "train: 0=0 1=1 2=2 3=3 4=4 5=5 6=6 7=7 8=8 9=9 10=10\n"
         "test: 0=1 0=1 0=2 0=3 0=4 0=5 0=6 0=7 0=8 0=9 0=0 0=1 of 10000\n"
         "seen 11 28x28 same, mean 0.0196 +- 0.0124, broken 0, left out 0, no pictures 0");
    labels.data[8] ^= 1;
    data_write("m/t10k-labels-idx1-ubyte", labels.data, labels.size);
    TOLD("m", NULL,
         "idx idx 28x28x1 '0' '1' '2' '3' '4' '5' '6' '7' '8' '9' '10'\n"
         "train: 0=0 1=1 2=2 3=3 4=4 5=5 6=6 7=7 8=8 9=9 10=10\n"
         "test: 0=0 0=1 0=2 0=3 0=4 0=5 0=6 0=7 0=8 0=9 0=0 0=1 of 10000\n"
         "seen 11 28x28 same, mean 0.0196 +- 0.0124, broken 0, left out 0, no pictures 0");
    /* A part of its classes. */
    free(labels.data);
    labels = data_idx_labels(COUNT, 8);
    forge_labels(labels.data + 8, COUNT, 0x242BC73F);
    put_idx("train", 11, SIDE, SIDE);
    data_write("m/t10k-labels-idx1-ubyte", labels.data, labels.size);
    TOLD("m", NULL,
         "idx fashion-mnist 28x28x1 'T-shirt/top' 'Trouser' 'Pullover' 'Dress' 'Coat' 'Sandal' 'Shirt' 'Sneaker'\n"
         "train: 0=0 1=1 2=2 3=0 4=1 5=2 6=0 7=1 8=2 9=0 10=1\n"
         "test: 0=0 0=1 0=2 0=3 0=4 0=5 0=6 0=7 0=0 0=1 0=2 0=3 of 10000\n"
         "seen 11 28x28 same, mean 0.0196 +- 0.0124, broken 0, left out 0, no pictures 0");
    free(images.data);
    free(labels.data);
    told_is_right();
}

/* ---- CIFAR ------------------------------------------------------------------------------------------------------- */

static void cifar_is_told(void **state)
{
    (void)state;
    const data_pickle_style style = {false, false};
    const rc_data_settings small = {.size = 1, .channels = 1, .progress = told_progress};
    for (int i = 0; i < 6; i++) {
        char path[64];
        snprintf(path, sizeof path, i < 5 ? "b/data_batch_%d.bin" : "b/test_batch.bin", i + 1);
        bytes_at(path, data_cifar_binary(i, 1, 1, 10));
        snprintf(path, sizeof path, i < 5 ? "p/data_batch_%d" : "p/test_batch", i + 1);
        bytes_at(path, data_cifar_pickle(i, 1, "labels", 10, style));
    }
    TOLD("b", &small,
         "reading: 0 of 6\n"
         "reading: 1 of 6\n"
         "reading: 2 of 6\n"
         "reading: 3 of 6\n"
         "reading: 4 of 6\n"
         "reading: 5 of 6\n"
         "reading: 6 of 6\n"
         "cifar10 cifar10 1x1x1 '0' '1' '2' '3' '4' '5' '6' '7' '8' '9'\n"
         "train: 128=0 126=1 128=2 128=3 127=4\n"
         "test: 128=5\n"
         "seen 5 32x32 same, mean 0.4996 +- 0.0031, broken 0, left out 0, no pictures 0");
    TOLD("p", &small,
         "reading: 0 of 6\n"
         "reading: 1 of 6\n"
         "reading: 2 of 6\n"
         "reading: 3 of 6\n"
         "reading: 4 of 6\n"
         "reading: 5 of 6\n"
         "reading: 6 of 6\n"
         "cifar10 cifar10 1x1x1 '0' '1' '2' '3' '4' '5' '6' '7' '8' '9'\n"
         "train: 128=0 126=1 128=2 128=3 127=4\n"
         "test: 128=5\n"
         "seen 5 32x32 same, mean 0.4996 +- 0.0031, broken 0, left out 0, no pictures 0");
    bytes_at("b/batches.meta.txt", data_names_text(10));
    bytes_at("p/batches.meta", data_names_pickle("label_names", 10));
    TOLD("b", &(rc_data_settings){.size = 1},
         "cifar10 cifar10 1x1x3 'name0' 'name1' 'name2' 'name3' 'name4' 'name5' 'name6' 'name7' 'name8' 'name9'\n"
         "train: 126=0 128=1 130=2 129=3 125=4\n"
         "test: 126=5\n"
         "seen 5 32x32 same, mean 0.5004 +- 0.0073, broken 0, left out 0, no pictures 0");
    TOLD("p", &(rc_data_settings){.size = 1},
         "cifar10 cifar10 1x1x3 'name0' 'name1' 'name2' 'name3' 'name4' 'name5' 'name6' 'name7' 'name8' 'name9'\n"
         "train: 126=0 128=1 130=2 129=3 125=4\n"
         "test: 126=5\n"
         "seen 5 32x32 same, mean 0.5004 +- 0.0073, broken 0, left out 0, no pictures 0");
    bytes_at("b/batches.meta.txt", data_names_text(11));
    TOLD("b", NULL, "4 'b', batches.meta.txt: more than 10 names");
    bytes_at("b/batches.meta.txt", data_names_text(9));
    TOLD("b", NULL, "4 'b', batches.meta.txt: 9 names, expected 10");
    bytes_at("p/batches.meta", data_names_pickle("label_names", 9));
    TOLD("p", NULL, "4 'p', batches.meta: 9 names, expected 10");
    bytes_at("p/batches.meta", data_names_pickle("fine_label_names", 10));
    TOLD("p", NULL, "4 'p', batches.meta: 'batches.meta' has no 'label_names'");
    data_write("p/batches.meta", "\200\2}", 3);
    TOLD("p", NULL,
         "4 'p', batches.meta: 'batches.meta' is not a pickle that recollect reads: unexpected end near byte 3");
    bytes_at("b/batches.meta.txt", data_names_text(10));
    bytes_at("b/test_batch.bin", data_cifar_binary(0, 2, 2, 10));
    TOLD("b", NULL, "4 'b/test_batch.bin' has 6148 bytes, expected records of 3073 bytes (1 of labels, 3072 of image)");
    data_bytes bad = data_cifar_binary(0, 2, 1, 10);
    bad.data[3073] = 10;
    bytes_at("b/test_batch.bin", bad);
    TOLD("b", NULL, "4 'b/test_batch.bin': record 1 has label 10, expected 0 to 9");
    remove("b/data_batch_4.bin");
    TOLD("b", NULL,
         "3 'b' has no file 'data_batch_4.bin'; expected: CIFAR-10: data_batch_{1..5}[.bin] test_batch[.bin], or "
         "cifar-10-{python,binary}.tar.gz");
    remove("b/data_batch_1.bin");
    TOLD("b", &(rc_data_settings){.format = "cifar10"},
         "4 'b' is not a data set that recollect knows; expected: CIFAR-10: data_batch_{1..5}[.bin] test_batch[.bin], "
         "or cifar-10-{python,binary}.tar.gz");
    TOLD("b", &(rc_data_settings){.format = "cifar100"},
         "4 'b' is not a data set that recollect knows; expected: CIFAR-100: train.bin test.bin, or train test meta, "
         "or cifar-100-{python,binary}.tar.gz");
    told_is_right();
}

static void pickles_and_archives_are_told(void **state)
{
    (void)state;
    const data_pickle_style style = {false, false};
    bytes_at("p/data_batch_1", data_cifar_pickle(0, 1, "labels", 10, style));
    bytes_at("p/test_batch", data_cifar_pickle(0, 1, "labels", 10, style));
    bytes_at("p/batches.meta", data_names_pickle("label_names", 10));
    bytes_at("p/data_batch_2", data_cifar_pickle(11, 1, "labels", 12, style));
    TOLD("p", NULL, "4 'p/data_batch_2': image 0 has label 11, expected 0 to 9");
    bytes_at("p/data_batch_2", data_cifar_pickle(11, 1, "fine_labels", 12, style));
    TOLD("p", NULL, "4 'p/data_batch_2' has no 'labels'");
    static const char rows[] =
        "\200\2}(U\4datacnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\205U\1b\207R(K\1K\1"
        "K\2\206cnumpy\ndtype\nU\2u1K\0K\1\207R\211U\2abtbU\6labels](K\1K\2eu.";
    data_write("p/data_batch_2", rows, sizeof rows - 1);
    TOLD("p", NULL,
         "4 'p/data_batch_2' has 1 rows of 2 bytes of images and 2 labels, expected rows of 3072 bytes and a label for "
         "each");
    /* Both kinds of 100 classes. */
    bytes_at("c/train.bin", data_cifar_binary(3, 1, 2, 100));
    bytes_at("c/test.bin", data_cifar_binary(4, 1, 2, 100));
    TOLD("c", &(rc_data_settings){.size = 1, .channels = 1},
         "cifar100 cifar100 1x1x1 '0' '1' '2' '3' '4' '5' '6' '7' '8' '9' '10' '11' of 100\n"
         "train: 128=3\n"
         "test: 127=4\n"
         "seen 1 32x32 same, mean 0.5020 +- 1.0000, broken 0, left out 0, no pictures 0");
    data_bytes tar = {0}, one = data_cifar_binary(3, 1, 2, 100);
    data_add_tar(&tar, "./cifar-100-binary/train.bin", '0', one.data, one.size);
    data_add_tar(&tar, "./cifar-100-binary/test.bin", '0', one.data, one.size);
    data_end_tar(&tar);
    data_write("c.tar", tar.data, tar.size);
    TOLD("c.tar", &(rc_data_settings){.size = 1, .channels = 1},
         "cifar100 cifar100 1x1x1 '0' '1' '2' '3' '4' '5' '6' '7' '8' '9' '10' '11' of 100\n"
         "train: 128=3\n"
         "test: 128=3\n"
         "seen 1 32x32 same, mean 0.5020 +- 1.0000, broken 0, left out 0, no pictures 0");
    memcpy(tar.data, "./cifar-100-binarx", 18);
    data_seal_tar(tar.data);
    data_write("c.tar", tar.data, tar.size);
    TOLD("c.tar", NULL,
         "4 'c.tar' is one file, no data set (archive; unpack it, if it holds pictures); expected a folder that holds "
         "a folder of pictures for each class");
    free(one.data);
    free(tar.data);
    told_is_right();
}

/* ---- settings, places -------------------------------------------------------------------------------------------- */

static void settings_are_checked(void **state)
{
    (void)state;
    picture("r/a/1.ppm", 10);
    TOLD("r", &(rc_data_settings){.channels = 2}, "1 channels is 2, expected 1, 3, or 0 for the set's own");
    TOLD("r", &(rc_data_settings){.channels = -1}, "1 channels is -1, expected 1, 3, or 0 for the set's own");
    TOLD("r", &(rc_data_settings){.channels = 4}, "1 channels is 4, expected 1, 3, or 0 for the set's own");
    TOLD("r", &(rc_data_settings){.size = -1}, "1 size is -1, expected 1 to 1024, or 0 for the set's own");
    TOLD("r", &(rc_data_settings){.size = 1025}, "1 size is 1025, expected 1 to 1024, or 0 for the set's own");
    TOLD("r", &(rc_data_settings){.resize = -1},
         "1 resize is -1, expected at least size (0) and at most 4096, or 0 for size");
    TOLD("r", &(rc_data_settings){.resize = 4097},
         "1 resize is 4097, expected at least size (0) and at most 4096, or 0 for size");
    TOLD("r", &(rc_data_settings){.resize = 4, .size = 5},
         "1 resize is 4, expected at least size (5) and at most 4096, or 0 for size");
    TOLD("r", &(rc_data_settings){.resize = 5, .size = 5},
         "log: 1 training and 0 test images, as 5 x 5 pixels in colour: 0.0 MB\n"
         "folder folder 5x5x3 'a'\n"
         "train: 10=0\n"
         "test:\n"
         "seen 1 4x4 same, mean 0.0392 +- 1.0000, broken 0, left out 0, no pictures 0");
    TOLD("r", &(rc_data_settings){.test_part = -0.5}, "1 test_part is -0.5, expected 0 to 1");
    TOLD("r", &(rc_data_settings){.test_part = 1.25}, "1 test_part is 1.25, expected 0 to 1");
    TOLD("r", &(rc_data_settings){.format = "x"},
         "1 data format 'x' is not known, expected one of procedural, cifar100, cifar10, idx, tiny-imagenet, pack, "
         "list, csv, folder");
    TOLD("r", &(rc_data_settings){.format = "idx"},
         "4 'r' is not a data set that recollect knows; expected: MNIST, Fashion-MNIST: "
         "{train,t10k}-images-idx3-ubyte[.gz] and {train,t10k}-labels-idx1-ubyte[.gz]");
    TOLD("r", &(rc_data_settings){.format = "tiny-imagenet"},
         "4 'r' is not a data set that recollect knows; expected: Tiny-ImageNet: wnids.txt, train/WNID/images/IMAGE, "
         "val/images/IMAGE, val/val_annotations.txt");
    TOLD("r", &(rc_data_settings){.format = "pack"},
         "4 'r' is not a data set that recollect knows; expected: pack: a file that 'recollect pack' has made");
    TOLD("r", &(rc_data_settings){.format = ""},
         "log: 1 training and 0 test images, as 4 x 4 pixels in colour: 0.0 MB\n"
         "folder folder 4x4x3 'a'\n"
         "train: 10=0\n"
         "test:\n"
         "seen 1 4x4 same, mean 0.0392 +- 1.0000, broken 0, left out 0, no pictures 0");
    char *name = malloc(5001);
    assert_non_null(name);
    memset(name, 'n', 5000);
    name[5000] = '\0';
    TOLD(name, NULL, "1 data path of 5000 bytes, expected at most 4095");
    name[4096] = '\0';
    TOLD(name, NULL, "1 data path of 4096 bytes, expected at most 4095");
    free(name);
    static const struct {
        int h, w, c;
        const char *words;
    } shapes[] = {{4, 4, 3, NULL},
                  {1024, 1024, 1, NULL},
                  {1025, 1025, 1, "images have 1025 x 1025 pixels, expected squares of 1 to 1024"},
                  {0, 0, 1, "images have 0 x 0 pixels, expected squares of 1 to 1024"},
                  {2, 3, 1, "images have 3 x 2 pixels, expected squares of 1 to 1024"},
                  {2, 2, 2, "images have 2 channels, expected 1 (grey) or 3 (colours)"},
                  {2, 2, -1, "images have -1 channels, expected 1 (grey) or 3 (colours)"}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        rc_status status = rc_check_image_shape(shapes[i].h, shapes[i].w, shapes[i].c);
        assert_int_equal(status, shapes[i].words == NULL ? RC_OK : RC_INVALID_ARGUMENT);
        if (shapes[i].words != NULL)
            data_assert_words(shapes[i].words);
    }
    told_is_right();
}

static void names_of_classes_are_checked(void **state)
{
    (void)state;
    static const char *const names[] = {"b", "a", "c", "a"};
    assert_int_equal(rc_check_class_names(names, 0), RC_FORMAT);
    data_assert_words("there are 0 classes, expected 1 to 30000");
    assert_int_equal(rc_check_class_names(names, 30001), RC_FORMAT);
    data_assert_words("there are 30001 classes, expected 1 to 30000");
    assert_int_equal(rc_check_class_names(names, 1), RC_OK);
    assert_int_equal(rc_check_class_names(names, 3), RC_OK);
    assert_int_equal(rc_check_class_names(names, 4), RC_FORMAT);
    data_assert_words("two classes are called 'a', expected different names");
    assert_int_equal(rc_check_class_name(7, "", 0), RC_FORMAT);
    data_assert_words("name of class 7 is empty");
    assert_int_equal(rc_check_class_name(8, "ab\001", 3), RC_FORMAT);
    data_assert_words("name of class 8: byte 2 (0x01) is not printable UTF-8");
}

/* Each of the places that people keep their sets in is looked at. */
static void usual_places_are_known(void **state)
{
    (void)state;
    static const char *const hundred[] = {"cifar-100-binary", "cifar100/cifar-100-binary"};
    static const char *const mnist[] = {"fashion-mnist", "FashionMNIST/raw", "mnist", "MNIST/raw", "raw"};
    static const char *const tiny[] = {"tiny-imagenet-200", "tiny-imagenet200"};
    char path[128];
    for (size_t i = 0; i < sizeof hundred / sizeof *hundred; i++) {
        snprintf(path, sizeof path, "c%zu/%s/train.bin", i, hundred[i]);
        bytes_at(path, data_cifar_binary(i, 1, 2, 100));
        snprintf(path, sizeof path, "c%zu/%s/test.bin", i, hundred[i]);
        bytes_at(path, data_cifar_binary(i, 1, 2, 100));
        snprintf(path, sizeof path, "c%zu", i);
        rc_dataset d;
        data_open(path, NULL, &d);
        assert_string_equal(d.format, "cifar100");
        rc_dataset_close(&d);
    }
    put_idx("train", 1, 2, 2);
    put_idx("t10k", 1, 2, 2);
    for (size_t i = 0; i < sizeof mnist / sizeof *mnist; i++) {
        rc_dataset d;
        char root[16];
        snprintf(path, sizeof path, "m%zu/%s/x", i, mnist[i]);
        data_write_text(path, "");
        remove(path);
        snprintf(path, sizeof path, "m%zu/%s", i, mnist[i]); /* is empty now */
        assert_int_equal(rename("m", path), 0);
        snprintf(root, sizeof root, "m%zu", i);
        data_open(root, NULL, &d);
        assert_string_equal(d.format, "idx");
        rc_dataset_close(&d);
        assert_int_equal(rename(path, "m"), 0);
    }
    for (size_t i = 0; i < sizeof tiny / sizeof *tiny; i++) {
        rc_dataset d;
        snprintf(path, sizeof path, "t%zu/%s/train/n/1.ppm", i, tiny[i]);
        picture(path, 1);
        snprintf(path, sizeof path, "t%zu/%s/val/n/1.ppm", i, tiny[i]);
        picture(path, 2);
        snprintf(path, sizeof path, "t%zu/%s/wnids.txt", i, tiny[i]);
        data_write_text(path, "n\n");
        snprintf(path, sizeof path, "t%zu", i);
        data_open(path, NULL, &d);
        assert_string_equal(d.format, "tiny-imagenet");
        rc_dataset_close(&d);
    }
    picture("i/imagenet100/a/1.ppm", 1);
    data_write_text("i/imagenet100/train_100.txt", "a/1.ppm 0\n");
    data_write_text("i/imagenet100/val_100.txt", "a/1.ppm 0\n");
    TOLD("i", &(rc_data_settings){.size = 4, .channels = 3},
         "log: 0 training and 1 test images, as 4 x 4 pixels in colour: 0.0 MB\n"
         "warning: left out: i/imagenet100/a/1.ppm (a test image, too, which is not trained on)\n"
         "warning: left out in all: 1 (training images that are test images: 1)\n"
         "list list 4x4x3 'a'\n"
         "train:\n"
         "test: 1=0\n"
         "seen 0 0x0, mean 0.0039 +- 1.0000, broken 0, left out 1, no pictures 0");
    assert_int_equal(rename("c0/cifar-100-binary", "i/cifar-100-binary"), 0);
    TOLD("i", NULL, "1 'i' holds both 'cifar-100-binary' and 'imagenet100': give the folder of one");
    TOLD("i", &(rc_data_settings){.format = "idx"},
         "4 'i' is not a data set that recollect knows; expected: MNIST, Fashion-MNIST: "
         "{train,t10k}-images-idx3-ubyte[.gz] and {train,t10k}-labels-idx1-ubyte[.gz]");
    told_is_right();
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, data_enter_folder, data_leave_folder)
    const struct CMUnitTest tests[] = {
        IN_FOLDER(idx_is_told),
        IN_FOLDER(idx_files_are_told),
        IN_FOLDER(fashion_is_told_by_its_labels),
        IN_FOLDER(cifar_is_told),
        IN_FOLDER(pickles_and_archives_are_told),
        IN_FOLDER(settings_are_checked),
        cmocka_unit_test(names_of_classes_are_checked),
        IN_FOLDER(usual_places_are_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
