/* Data sets in a few large files: CIFAR in its layouts, idx, archives; messages when something is wrong, and damaged
 * files of every kind. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/rng.h"
#include "data/bundle.h"
#include "data/cifar.h"
#include "data/dataset.h"
#include "data/idx.h"
#include "data/pickle.h"
#include "support/data_sets.h"

static void write_and_free(const char *path, data_bytes bytes)
{
    data_write(path, bytes.data, bytes.size);
    free(bytes.data);
}

/* ---- CIFAR ------------------------------------------------------------------------------------------------------ */

/* Images first, first + 1, ... in order, interleaved. */
static void assert_split(const rc_split *split, int first, int count, int classes)
{
    uint8_t planes[RC_CIFAR_BYTES];
    assert_int_equal(split->count, count);
    for (int i = 0; i < count; i++) {
        data_planes(first + i, planes);
        assert_int_equal(split->labels[i], (first + i) % classes);
        for (int p = 0; p < RC_CIFAR_PIXELS; p++)
            for (int c = 0; c < 3; c++)
                assert_int_equal(split->images[i * RC_CIFAR_BYTES + 3 * p + c], planes[c * RC_CIFAR_PIXELS + p]);
    }
}

static void assert_cifar(const char *path, int classes, int train, int test, bool named)
{
    rc_dataset d;
    data_open(path, NULL, &d);
    assert_string_equal(d.format, classes == 100 ? "cifar100" : "cifar10");
    assert_string_equal(d.name, d.format);
    assert_int_equal(d.h, 32);
    assert_int_equal(d.w, 32);
    assert_int_equal(d.c, 3);
    assert_int_equal(d.classes, classes);
    assert_string_equal(d.class_name[7], named ? "name7" : "7");
    assert_split(&d.train, 0, train, classes);
    assert_split(&d.test, train, test, classes);
    if (classes == 100)
        assert_true(d.mean[0] == 0.5071f && d.std[2] == 0.2761f);
    rc_dataset_close(&d);
}

static void write_cifar100_binary(void)
{
    write_and_free("b/train.bin", data_cifar_binary(0, 5, 2, 100));
    write_and_free("b/test.bin", data_cifar_binary(5, 3, 2, 100));
    write_and_free("b/fine_label_names.txt", data_names_text(100));
}

static void cifar100_binary(void **state)
{
    (void)state;
    write_cifar100_binary();
    assert_cifar("b", 100, 5, 3, true);
    remove("b/fine_label_names.txt");
    assert_cifar("b", 100, 5, 3, false);
}

static void cifar10_binary(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) {
        char path[64];
        snprintf(path, sizeof path, "b/data_batch_%d.bin", i + 1);
        write_and_free(path, data_cifar_binary(2 * i, 2, 1, 10));
    }
    write_and_free("b/test_batch.bin", data_cifar_binary(10, 4, 1, 10));
    data_bytes names = data_names_text(10);
    data_add_text(&names, "\n");
    write_and_free("b/batches.meta.txt", names);
    assert_cifar("b", 10, 10, 4, true);
    rc_dataset d;
    data_open("b", NULL, &d);
    double sum = 0;
    for (int i = 0; i < 10 * RC_CIFAR_PIXELS; i++)
        sum += d.train.images[3 * i + 1];
    assert_true(fabs(d.mean[1] - sum / (255.0 * 10 * RC_CIFAR_PIXELS)) < 1e-6);
    rc_dataset_close(&d);
    remove("b/data_batch_3.bin");
    data_assert_refused("b", NULL, RC_IO, "has no file 'data_batch_3.bin'; expected: CIFAR-10:");
}

static void cifar_python(void **state)
{
    (void)state;
    static const data_pickle_style styles[] = {{false, false}, {false, true}, {true, false}};
    for (int s = 0; s < 3; s++) {
        write_and_free("p/train", data_cifar_pickle(0, 6, "fine_labels", 100, styles[s]));
        write_and_free("p/test", data_cifar_pickle(6, 2, "fine_labels", 100, styles[s]));
        write_and_free("p/meta", data_names_pickle("fine_label_names", 100));
        assert_cifar("p", 100, 6, 2, true);
    }
    for (int i = 0; i < 6; i++) {
        char path[64];
        snprintf(path, sizeof path, i < 5 ? "q/data_batch_%d" : "q/test_batch", i + 1);
        write_and_free(path, data_cifar_pickle(2 * i, 2, "labels", 10, styles[0]));
    }
    assert_cifar("q", 10, 10, 2, false);
    write_and_free("q/batches.meta", data_names_pickle("label_names", 10));
    assert_cifar("q", 10, 10, 2, true);
}

/* A gzipped archive of cifar-100-python with a folder, an extension header and another file in it. */
static data_bytes python_archive(void)
{
    data_pickle_style style = {false, false};
    data_bytes tar = {0}, train = data_cifar_pickle(0, 3, "fine_labels", 100, style);
    data_bytes test = data_cifar_pickle(3, 2, "fine_labels", 100, style),
               meta = data_names_pickle("fine_label_names", 100);
    data_add_tar(&tar, "cifar-100-python/", '5', NULL, 0);
    data_add_tar(&tar, "ignored", 'x', "18 path=something\n", 18);
    data_add_tar(&tar, "cifar-100-python/file.txt~", '0', "notes", 5);
    data_add_tar(&tar, "cifar-100-python/train", '0', train.data, train.size);
    data_add_tar(&tar, "cifar-100-python/test", '0', test.data, test.size);
    data_add_tar(&tar, "cifar-100-python/meta", 0, meta.data, meta.size);
    data_end_tar(&tar);
    free(train.data);
    free(test.data);
    free(meta.data);
    return tar;
}

static void archives_are_read_as_they_are(void **state)
{
    (void)state;
    data_bytes tar = python_archive();
    data_write_gzip("root/cifar-100-python.tar.gz", tar.data, tar.size);
    data_write("plain.tar", tar.data, tar.size);
    assert_cifar("root/cifar-100-python.tar.gz", 100, 3, 2, true);
    assert_cifar("root", 100, 3, 2, true);
    assert_cifar("plain.tar", 100, 3, 2, true);
    /* Without its second half. */
    data_write("half.tar", tar.data, tar.size / 2);
    data_assert_refused("half.tar", NULL, RC_FORMAT, "'half.tar' is truncated");
    uint8_t *zipped = calloc(1, tar.size);
    assert_non_null(zipped);
    FILE *file = fopen("root/cifar-100-python.tar.gz", "rb");
    size_t size = fread(zipped, 1, tar.size, file);
    fclose(file);
    data_write("half.tar.gz", zipped, size / 2);
    data_assert_refused("half.tar.gz", NULL, RC_FORMAT, "'half.tar.gz' is truncated: the gzip data end too early");
    tar.data[512 * 3 + 150] ^= 1;
    data_write("sum.tar", tar.data, tar.size);
    data_assert_refused("sum.tar", &(rc_data_settings){.format = "cifar100"}, RC_FORMAT, "'sum.tar'");
    free(zipped);
    free(tar.data);
}

/* Members that would take hours to pass over, or gigabytes to hold, as far as their headers say. */
static void huge_members_are_refused(void **state)
{
    (void)state;
    const char *const names[] = {"train", NULL};
    data_bytes tar = {0};
    rc_input *input;
    rc_bundle bundle;
    data_add_tar(&tar, "cifar-100-python/notes", '0', "x", 1);
    data_add_tar(&tar, "cifar-100-python/train", '0', "x", 1);
    data_end_tar(&tar);
    memcpy(tar.data + 124, "77777777777", 12);
    data_seal_tar(tar.data);
    assert_int_equal(rc_input_open_memory("x", tar.data, tar.size, &input), RC_OK);
    assert_int_equal(rc_bundle_open_archive(input, names, 1 << 16, &bundle), RC_FORMAT);
    data_assert_message("'x' says that it holds more than 4294967296 bytes (at 'cifar-100-python/notes')");
    rc_input_close(input);
    memcpy(tar.data + 124, "00000000001", 12);
    data_seal_tar(tar.data);
    memcpy(tar.data + 1024 + 124, "00007777777", 12);
    data_seal_tar(tar.data + 1024);
    assert_int_equal(rc_input_open_memory("x", tar.data, tar.size, &input), RC_OK);
    assert_int_equal(rc_bundle_open_archive(input, names, 1 << 16, &bundle), RC_FORMAT);
    data_assert_message("'x': 'cifar-100-python/train' has 2097151 bytes, expected at most 65536");
    rc_input_close(input);
    free(tar.data);
}

/* A member whose name is empty does not end an archive: what follows it would be lost without a word. */
static void only_a_block_of_zeros_ends_an_archive(void **state)
{
    (void)state;
    const char *const names[] = {"train", NULL};
    data_bytes tar = {0};
    rc_input *input;
    rc_bundle bundle;
    uint8_t *content;
    size_t length;
    data_add_tar(&tar, "", '0', "x", 1);
    data_add_tar(&tar, "cifar-100-python/train", '0', "y", 1);
    data_end_tar(&tar);
    assert_int_equal(rc_input_open_memory("x", tar.data, tar.size, &input), RC_OK);
    assert_int_equal(rc_bundle_open_archive(input, names, 1 << 16, &bundle), RC_OK);
    assert_int_equal(rc_bundle_take(&bundle, "train", 1 << 16, &content, &length), RC_OK);
    assert_true(length == 1 && content[0] == 'y');
    rc_free(NULL, content);
    rc_bundle_close(&bundle);
    rc_input_close(input);
    memset(tar.data, 0, 512); /* but this does, whatever follows it */
    assert_int_equal(rc_input_open_memory("x", tar.data, tar.size, &input), RC_OK);
    assert_int_equal(rc_bundle_open_archive(input, names, 1 << 16, &bundle), RC_OK);
    assert_int_not_equal(rc_bundle_take(&bundle, "train", 1 << 16, &content, &length), RC_OK);
    rc_bundle_close(&bundle);
    rc_input_close(input);
    free(tar.data);
}

static void wrong_cifar_files_are_named(void **state)
{
    (void)state;
    write_cifar100_binary();
    data_bytes train = data_cifar_binary(0, 5, 2, 100);
    data_write("b/train.bin", train.data, train.size - 1);
    data_assert_refused("b", NULL, RC_FORMAT, "'b/train.bin' has 15369 bytes, expected records of 3074 bytes");
    train.data[2 * 3074 + 1] = 100;
    data_write("b/train.bin", train.data, train.size);
    data_assert_refused("b", NULL, RC_FORMAT, "'b/train.bin': record 2 has label 100, expected 0 to 99");
    data_write("b/train.bin", train.data, 0);
    data_assert_refused("b", NULL, RC_FORMAT, "'b/train.bin' has 0 bytes");
    train.data[2 * 3074 + 1] = 2;
    data_write("b/train.bin", train.data, train.size);
    data_write_text("b/fine_label_names.txt", "apple\nbear\n");
    data_assert_refused("b", NULL, RC_FORMAT, "'b', fine_label_names.txt: 2 names, expected 100");
    data_write_text("b/fine_label_names.txt", "apple\nb\xFF\n");
    data_assert_refused("b", NULL, RC_FORMAT,
                        "fine_label_names.txt: name of class 1: byte 1 (0xFF) is not printable UTF-8");
    assert_int_equal(rc_check_class_name(0, "caf\u00e9", 5), RC_OK);
    assert_int_equal(rc_check_class_name(0, "\xc2\xa0", 2), RC_OK);
    assert_int_equal(rc_check_class_name(2,
                                         "b\xc2\x9b"
                                         "2J",
                                         5),
                     RC_FORMAT); /* which clears a terminal */
    data_assert_message("name of class 2: byte 1 (0xC2) is not printable UTF-8");
    static const char *const hidden[] = {"a\u202eb",  "\u202a", "x\u2066",  "\u2069", "\u200e",    "a\u200f",
                                         "\u200bcat", "\ufeff", "a\u2028b", "\u00ad", "\U000e0041"};
    for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++)
        if (rc_check_class_name(1, hidden[i], strlen(hidden[i])) != RC_FORMAT)
            fail_msg("name %zu is taken", i);
    static const char *const shown[] = {"\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", "\u2603",
                                        "\U0001f468\u200d\U0001f467"};
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++)
        assert_int_equal(rc_check_class_name(1, shown[i], strlen(shown[i])), RC_OK);
    char names[1024] = "apple\napple\n";
    for (int i = 2; i < 100; i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "n%d\n", i);
    data_write_text("b/fine_label_names.txt", names);
    data_assert_refused("b", NULL, RC_FORMAT, "fine_label_names.txt: two classes are called 'apple'");
    free(train.data);
}

/* ---- idx -------------------------------------------------------------------------------------------------------- */

static void idx_plain_and_gzipped(void **state)
{
    (void)state;
    data_bytes images = data_idx_images(20, 6, 6), labels = data_idx_labels(20, 4);
    data_write_gzip("m/train-images-idx3-ubyte.gz", images.data, images.size);
    data_write("m/train-labels-idx1-ubyte", labels.data, labels.size);
    data_write("m/t10k-images.idx3-ubyte", images.data, images.size);
    data_write_gzip("m/t10k-labels-idx1-ubyte.gz", labels.data, labels.size);
    rc_dataset d;
    data_open("m", NULL, &d);
    assert_string_equal(d.format, "idx");
    assert_string_equal(d.name, "idx");
    assert_int_equal(d.classes, 4);
    assert_string_equal(d.class_name[3], "3");
    assert_int_equal(d.c, 1);
    assert_int_equal(d.train.count, 20);
    assert_memory_equal(d.train.images, images.data + 16, 20 * 36);
    assert_memory_equal(d.test.images, images.data + 16, 20 * 36);
    assert_int_equal(d.test.labels[7], 3);
    rc_dataset_close(&d);
    /* Another size and colour, and the folder around it. */
    rc_pool *pool;
    assert_int_equal(rc_pool_create(2, &pool), RC_OK);
    rc_data_settings settings = {.size = 8, .channels = 3, .pool = pool};
    data_open("m", &settings, &d);
    assert_int_equal(d.h, 8);
    assert_int_equal(d.c, 3);
    assert_int_equal(d.train.images[191], d.train.images[189]);
    rc_dataset_close(&d);
    rc_pool_destroy(pool);
    /* A shorter side of fewer pixels than the set has is the size, too, where that is left open. */
    data_open("m", &(rc_data_settings){.resize = 4}, &d);
    assert_int_equal(d.h, 4);
    rc_dataset_close(&d);
    assert_int_equal(rename("m", "fashion-mnist"), 0);
    data_open(".", NULL, &d);
    rc_dataset_close(&d);
    remove("fashion-mnist/train-labels-idx1-ubyte");
    data_assert_refused("fashion-mnist", NULL, RC_IO,
                        "has no train-labels-idx1-ubyte or train-labels-idx1-ubyte.gz; expected: MNIST");
    free(images.data);
    free(labels.data);
}

static void parse_idx(const uint8_t *data, size_t size, const char *message)
{
    rc_idx idx;
    rc_status status = rc_idx_parse("x", data, size, &idx);
    if (message == NULL) {
        assert_int_equal(status, RC_OK);
        return;
    }
    assert_int_equal(status, RC_FORMAT);
    data_assert_message(message);
}

static void wrong_idx_files(void **state)
{
    (void)state;
    data_bytes images = data_idx_images(3, 4, 5);
    parse_idx(images.data, images.size, NULL);
    parse_idx(images.data, images.size - 1, "'x' holds 59 bytes after its header, which promises 60");
    parse_idx(images.data, 15, "ends inside its header");
    parse_idx(images.data, 0, "is not an idx file");
    images.data[2] = 0x0D;
    parse_idx(images.data, images.size, "idx type 0x0D");
    images.data[2] = 8;
    images.data[3] = 200;
    parse_idx(images.data, images.size, "200 dimensions");
    images.data[3] = 3;
    memset(images.data + 4, 0x7F, 12);
    parse_idx(images.data, images.size, "dimension 2 of 2139062143 is too large");
    memset(images.data + 4, 0xFF, 4);
    parse_idx(images.data, images.size, "dimension 0 of 4294967295 is too large");
    free(images.data);
    write_and_free("m/train-images-idx3-ubyte", data_idx_images(4, 3, 3));
    write_and_free("m/train-labels-idx1-ubyte", data_idx_labels(5, 2));
    data_assert_refused("m", NULL, RC_FORMAT,
                        "4 images in train-images-idx3-ubyte but 5 labels in train-labels-idx1-ubyte");
    write_and_free("m/train-labels-idx1-ubyte", data_idx_images(4, 3, 3));
    data_assert_refused("m", NULL, RC_FORMAT, "has 3 dimensions, expected 1");
    write_and_free("m/train-labels-idx1-ubyte", data_idx_labels(4, 2));
    write_and_free("m/t10k-images-idx3-ubyte", data_idx_images(2, 5, 3));
    write_and_free("m/t10k-labels-idx1-ubyte", data_idx_labels(2, 2));
    data_assert_refused("m", NULL, RC_FORMAT,
                        "t10k-images-idx3-ubyte has images of 3 x 5 pixels, train-images-idx3-ubyte 3 x 3");
}

/* ---- pickles ---------------------------------------------------------------------------------------------------- */

static void pickled_arrays_are_checked(void **state)
{
    (void)state;
    data_pickle_style style = {false, false};
    data_bytes good = data_cifar_pickle(0, 2, "labels", 10, style);
    rc_split split = {0};
    assert_int_equal(rc_cifar_parse_pickle("x", good.data, good.size, "labels", 10, &split), RC_OK);
    assert_split(&split, 0, 2, 10);
    assert_int_equal(rc_cifar_parse_pickle("x", good.data, good.size, "fine_labels", 10, &split), RC_FORMAT);
    data_assert_message("'x' has no 'fine_labels'");
    assert_int_equal(rc_cifar_parse_pickle("x", good.data, good.size, "batch_label", 10, &split), RC_FORMAT);
    data_assert_message("'batch_label' is a string, expected a list");
    assert_int_equal(rc_cifar_parse_pickle("x", good.data, good.size, "labels", 1, &split), RC_FORMAT);
    data_assert_message("image 1 has label 1, expected 0 to 0");
    /* Three rows are claimed, two are there. */
    for (size_t i = 0; i + 8 < good.size; i++)
        if (memcmp(good.data + i, "M\x02\x00\x8a\x02\x00\x0c\x86", 8) == 0)
            good.data[i + 1] = 3;
    assert_int_equal(rc_cifar_parse_pickle("x", good.data, good.size, "labels", 10, &split), RC_FORMAT);
    data_assert_message("an array whose bytes do not fill its shape");
    rc_free(NULL, split.images);
    rc_free(NULL, split.labels);
    free(good.data);
}

/* ---- damage ----------------------------------------------------------------------------------------------------- */

static void try_parser(int parser, const uint8_t *data, size_t size)
{
    rc_split split = {0};
    rc_idx idx;
    rc_input *input;
    rc_bundle bundle;
    const char *const names[] = {"train", "test", "meta", NULL};
    size_t before = rc_bytes_allocated();
    uint8_t *copy = malloc(size > 0 ? size : 1);
    assert_non_null(copy);
    if (size > 0)
        memcpy(copy, data, size);
    switch (parser) {
    case 0: rc_idx_parse("x", copy, size, &idx); break;
    case 1: rc_cifar_parse_binary("x", copy, size, 1, 10, &split); break;
    case 2:
    case 3: rc_cifar_parse_pickle("x", copy, size, "labels", 10, &split); break;
    default:
        assert_int_equal(rc_input_open_memory("x", copy, size, &input), RC_OK);
        if (rc_bundle_open_archive(input, names, 1 << 16, &bundle) == RC_OK)
            rc_bundle_close(&bundle);
        rc_input_close(input);
    }
    rc_free(NULL, split.images);
    rc_free(NULL, split.labels);
    free(copy);
    assert_int_equal(rc_bytes_allocated(), before);
}

static void damaged_files_do_no_harm(void **state)
{
    (void)state;
    data_bytes good[] = {data_idx_images(3, 5, 5), data_cifar_binary(0, 2, 1, 10),
                         data_cifar_pickle(0, 1, "labels", 10, (data_pickle_style){false, false}),
                         data_cifar_pickle(0, 1, "labels", 10, (data_pickle_style){true, true}), python_archive()};
    for (int parser = 0; parser < 5; parser++) {
        uint8_t *data = good[parser].data;
        size_t size = good[parser].size;
        for (size_t kept = 0; kept < size; kept += 1 + size / 199)
            try_parser(parser, data, kept);
        rc_rng rng = {11, (uint64_t)parser};
        for (uint64_t round = 0; round < 400; round++) {
            /* Most of a file is pixels: look at its ends. */
            uint32_t at = rc_rng_below(rng, 3 * round, (uint32_t)(size < 300 ? size : 300));
            if (rc_rng_bits(rng, 3 * round + 1) & 256)
                at = (uint32_t)size - 1 - at;
            uint8_t kept = data[at];
            data[at] ^= (uint8_t)(1u << (rc_rng_bits(rng, 3 * round + 2) & 7));
            try_parser(parser, data, size);
            if (round % 4 != 0)
                data[at] = kept;
        }
        free(data);
    }
}

/* ---- choosing --------------------------------------------------------------------------------------------------- */

static bool stop(void *user, const char *what, int done, int total)
{
    (void)what;
    (void)total;
    return done < *(int *)user;
}

static void messages_show_what_was_expected(void **state)
{
    (void)state;
    data_write_text("nothing/readme.txt", "hello\n");
    data_assert_refused("missing", NULL, RC_IO, "there is no data at 'missing'");
    data_assert_refused("nothing", NULL, RC_FORMAT,
                        "'nothing' is not a data set that recollect knows; expected: folders of pictures (");
    data_assert_message("CLASS/IMAGE | csv: ");
    data_assert_message(" | CIFAR-100: train.bin test.bin");
    data_assert_refused("nothing", &(rc_data_settings){.format = "idx"}, RC_FORMAT,
                        "expected: MNIST, Fashion-MNIST: {train");
    data_assert_refused("nothing", &(rc_data_settings){.format = "cifar"}, RC_INVALID_ARGUMENT,
                        "data format 'cifar' is not known, expected one of procedural, cifar100, cifar10, idx");
    write_cifar100_binary();
    data_assert_refused("b", &(rc_data_settings){.channels = 2}, RC_INVALID_ARGUMENT, "channels is 2, expected 1, 3");
    data_assert_refused("b", &(rc_data_settings){.size = 5000}, RC_INVALID_ARGUMENT,
                        "size is 5000, expected 1 to 1024");
    data_assert_refused("b", &(rc_data_settings){.size = 64, .resize = 32}, RC_INVALID_ARGUMENT, "resize is 32");
    data_assert_refused("b", &(rc_data_settings){.test_part = 1.5}, RC_INVALID_ARGUMENT, "test_part is 1.5");
    int allowed = 1;
    data_assert_refused("b", &(rc_data_settings){.progress = stop, .user = &allowed}, RC_CANCELLED,
                        "cancelled after 1 of 2");
    /* Two sets in one folder. */
    assert_int_equal(rename("b", "cifar-100-binary"), 0);
    write_and_free("mnist/t10k-images-idx3-ubyte", data_idx_images(1, 2, 2));
    data_assert_refused(".", NULL, RC_INVALID_ARGUMENT, "'.' holds both 'cifar-100-binary' and 'mnist'");
    rc_dataset d;
    data_open(".", &(rc_data_settings){.format = "cifar100"}, &d);
    rc_dataset_close(&d);
}

/* As torchvision keeps them in one folder. */
static void two_sets_of_one_format_are_two(void **state)
{
    (void)state;
    static const char *const places[] = {"fashion-mnist", "FashionMNIST/raw", "MNIST/raw"};
    rc_dataset d;
    for (int i = 0; i < 3; i++) {
        char file[64];
        for (int part = 0; part < 2; part++) {
            snprintf(file, sizeof file, "root/%s/%s-images-idx3-ubyte", places[i], part ? "t10k" : "train");
            write_and_free(file, data_idx_images(1, 2, 2));
            snprintf(file, sizeof file, "root/%s/%s-labels-idx1-ubyte", places[i], part ? "t10k" : "train");
            write_and_free(file, data_idx_labels(1, 1));
        }
        if (i < 2) { /* two places of one set are one */
            data_open("root", NULL, &d);
            rc_dataset_close(&d);
        }
    }
    data_assert_refused("root", &(rc_data_settings){.format = "idx"}, RC_INVALID_ARGUMENT,
                        "'root' holds both 'fashion-mnist' and 'MNIST/raw': give the folder of one");
    data_write_text("other/mnist/train.txt", "1.ppm 0\n");
    data_write_text("other/mnist/val.txt", "1.ppm 0\n");
    assert_int_equal(rename("root/MNIST", "other/MNIST"), 0);
    data_assert_refused("other", NULL, RC_INVALID_ARGUMENT, "'other' holds both 'mnist' and 'MNIST/raw'");
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, data_enter_folder, data_leave_folder)
    const struct CMUnitTest tests[] = {
        IN_FOLDER(cifar100_binary),
        IN_FOLDER(cifar10_binary),
        IN_FOLDER(cifar_python),
        IN_FOLDER(archives_are_read_as_they_are),
        cmocka_unit_test(huge_members_are_refused),
        cmocka_unit_test(only_a_block_of_zeros_ends_an_archive),
        IN_FOLDER(wrong_cifar_files_are_named),
        IN_FOLDER(idx_plain_and_gzipped),
        IN_FOLDER(wrong_idx_files),
        cmocka_unit_test(pickled_arrays_are_checked),
        cmocka_unit_test(damaged_files_do_no_harm),
        IN_FOLDER(messages_show_what_was_expected),
        IN_FOLDER(two_sets_of_one_format_are_two),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
