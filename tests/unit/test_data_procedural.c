/* Drawn pictures: the same on every machine and any number of threads, classes that differ, limits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include <cmocka.h>

#include "base/memory.h"
#include "data/dataset.h"
#include "data/procedural.h"
#include "support/data_files.h"

/* Whoever changes how pictures are drawn changes every number that was measured on them. */
static void pictures_never_change(void **state)
{
    (void)state;
    static const struct {
        uint64_t seed;
        int label, size, channels, test;
        unsigned crc;
    } cases[] = {
        {0, 0, 32, 3, 0, 0x6D39877Cu},
        {1, 13, 32, 3, 1, 0x60D3828Cu},
        {2, 59, 28, 1, 0, 0xB701F4A1u},
        {3, 419, 64, 3, 0, 0x83BF4D4Cu},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t out[64 * 64 * 3];
        uLong crc = 0;
        for (uint32_t index = 0; index < 5; index++) {
            rc_procedural_draw(cases[i].seed, cases[i].label, index, cases[i].test, cases[i].size, cases[i].channels,
                               out);
            crc = crc32(crc, out, (uInt)(cases[i].size * cases[i].size * cases[i].channels));
        }
        if (crc != cases[i].crc)
            fail_msg("case %zu: checksum 0x%08lX, expected 0x%08X", i, crc, cases[i].crc);
    }
}

/* The same of every class: its name, and small pictures of it in colour and in grey. */
static void classes_never_change(void **state)
{
    (void)state;
    enum { SIDE = 17, PICTURES = 4 };
    uLong names = 0, pictures = 0;
    for (int label = 0; label < RC_PROCEDURAL_COLOUR_CLASSES; label++)
        for (int channels = 1; channels <= 3; channels += 2) {
            char name[64];
            uint8_t out[SIDE * SIDE * 3];
            if (channels == 1 && label >= RC_PROCEDURAL_GREY_CLASSES)
                continue;
            rc_procedural_name(label, channels, name, sizeof name);
            names = crc32(names, (const uint8_t *)name, (uInt)strlen(name) + 1);
            for (uint32_t index = 0; index < PICTURES; index++) {
                rc_procedural_draw(7, label, index, (int)index % 2, SIDE, channels, out);
                pictures = crc32(pictures, out, (uInt)(SIDE * SIDE * channels));
            }
        }
    assert_int_equal(names, 0xB50C3EB9);
    assert_int_equal(pictures, 0x54C14613);
}

static void threads_and_numbers_change_nothing(void **state)
{
    (void)state;
    rc_data_settings settings = {.procedural_per_class = 30, .procedural_test_per_class = 3, .procedural_seed = 9};
    rc_dataset one, many;
    data_open("procedural:7", &settings, &one);
    assert_int_equal(one.classes, 7);
    assert_int_equal(one.train.count, 210);
    assert_int_equal(one.test.count, 21);
    assert_int_equal(rc_pool_create(3, &settings.pool), RC_OK);
    settings.procedural_per_class = 40;
    data_open("procedural:7", &settings, &many);
    rc_pool_destroy(settings.pool);
    assert_memory_equal(one.train.images, many.train.images, 210 * 3072);
    assert_memory_equal(one.train.labels, many.train.labels, 210 * 4);
    assert_memory_equal(one.test.images, many.test.images, 21 * 3072);
    assert_true(memcmp(one.train.images, one.test.images, 21 * 3072) != 0);
    rc_dataset_close(&many);
    settings = (rc_data_settings){.procedural_per_class = 30, .procedural_test_per_class = 3, .procedural_seed = 10};
    data_open("procedural:7", &settings, &many);
    assert_true(memcmp(one.train.images, many.train.images, 210 * 3072) != 0);
    rc_dataset_close(&many);
    rc_dataset_close(&one);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void every_class_has_a_name_of_its_own(void **state)
{
    (void)state;
    static char names[RC_PROCEDURAL_COLOUR_CLASSES][64];
    for (int channels = 1; channels <= 3; channels += 2) {
        int classes = channels == 3 ? RC_PROCEDURAL_COLOUR_CLASSES : RC_PROCEDURAL_GREY_CLASSES;
        for (int i = 0; i < classes; i++)
            rc_procedural_name(i, channels, names[i], sizeof names[i]);
        qsort(names, (size_t)classes, sizeof names[0], by_text);
        for (int i = 1; i < classes; i++)
            assert_string_not_equal(names[i - 1], names[i]);
    }
}

/* The mean picture of a class tells its images from those of the others better than chance, but not by itself. */
static void classes_can_be_told_apart(void **state)
{
    (void)state;
    enum { CLASSES = 20, PIXELS = 32 * 32 * 3, TRAIN = 40, TEST = 10 };
    rc_data_settings settings = {.procedural_per_class = TRAIN, .procedural_test_per_class = TEST};
    rc_dataset d;
    data_open("procedural", &settings, &d);
    assert_int_equal(d.classes, CLASSES);
    float *mean = calloc(CLASSES * PIXELS, sizeof *mean);
    assert_non_null(mean);
    for (int i = 0; i < d.train.count; i++)
        for (int p = 0; p < PIXELS; p++)
            mean[d.train.labels[i] * PIXELS + p] += d.train.images[i * PIXELS + p] / (float)TRAIN;
    int right = 0;
    for (int i = 0; i < d.test.count; i++) {
        double best = 1e30;
        int guess = -1;
        for (int c = 0; c < CLASSES; c++) {
            double distance = 0;
            for (int p = 0; p < PIXELS; p++) {
                double off = d.test.images[i * PIXELS + p] - mean[c * PIXELS + p];
                distance += off * off;
            }
            if (distance < best) {
                best = distance;
                guess = c;
            }
        }
        right += guess == d.test.labels[i];
    }
    assert_in_range(right, CLASSES * TEST / 10, CLASSES * TEST * 3 / 4);
    free(mean);
    rc_dataset_close(&d);
}

static void sizes_and_limits(void **state)
{
    (void)state;
    rc_dataset d;
    rc_data_settings settings = {
        .procedural_classes = 25, .procedural_per_class = 1, .procedural_test_per_class = 1, .size = 28, .channels = 1};
    data_open("procedural", &settings, &d);
    assert_int_equal(d.classes, 25);
    assert_int_equal(d.h, 28);
    assert_int_equal(d.c, 1);
    assert_string_equal(d.class_name[14], "ring-striped");
    assert_true(d.mean[0] > 0.2f && d.mean[0] < 0.6f && d.std[0] > 0.1f);
    rc_dataset_close(&d);
    size_t before = rc_bytes_allocated();
    assert_int_equal(rc_dataset_open("procedural:61", &settings, &d), RC_INVALID_ARGUMENT);
    data_assert_message("'procedural:61': expected procedural:CLASSES with 1 to 60 classes (in grey)");
    static const struct {
        const char *path;
        rc_data_settings settings;
        const char *words;
    } refused[] = {
        {"procedural:421", {0}, "'procedural:421': expected procedural:CLASSES with 1 to 420 classes (in colour)"},
        {"procedural:0", {0}, "'procedural:0': expected procedural:CLASSES with 1 to 420 classes (in colour)"},
        {"procedural:x", {0}, "'procedural:x': expected procedural:CLASSES with 1 to 420 classes (in colour)"},
        {"procedural:7x", {0}, "'procedural:7x': expected procedural:CLASSES with 1 to 420 classes (in colour)"},
        {"procedural:", {.channels = 1}, "'procedural:': expected procedural:CLASSES with 1 to 60 classes (in grey)"},
        {"procedural", {.procedural_classes = 421}, "421 procedural classes, expected at most 420 in colour"},
        {"procedural", {.procedural_classes = 61, .channels = 1}, "61 procedural classes, expected at most 60 in grey"},
        {"procedural",
         {.procedural_per_class = -1},
         "-1 and 0 procedural images of each class, expected 1 or more, or 0 for 500 and 100"},
        {"procedural",
         {.procedural_test_per_class = -2},
         "0 and -2 procedural images of each class, expected 1 or more, or 0 for 500 and 100"},
        {"procedural",
         {.procedural_per_class = INT32_MAX},
         "2147483647 procedural images of each of 20 classes are too many"},
        {"procedural:8",
         {.procedural_test_per_class = INT32_MAX / 8 + 1},
         "268435456 procedural images of each of 8 classes are too many"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        assert_int_equal(rc_dataset_open(refused[i].path, &refused[i].settings, &d), RC_INVALID_ARGUMENT);
        data_assert_words(refused[i].words);
    }
    const rc_data_settings most = {.channels = 1, .size = 1, .procedural_per_class = 1, .procedural_test_per_class = 2};
    data_open("procedural:60", &most, &d);
    assert_true(d.classes == 60 && d.h == 1 && d.w == 1 && d.train.count == 60 && d.test.count == 120);
    rc_dataset_close(&d);
    data_open("procedural:1", &(rc_data_settings){.size = 2, .channels = 1}, &d);
    assert_true(d.train.count == 500 && d.test.count == 100 && strcmp(d.format, "procedural") == 0);
    rc_dataset_close(&d);
    assert_int_equal(rc_bytes_allocated(), before);
}

static void the_format_may_be_named(void **state)
{
    (void)state;
    rc_dataset d;
    data_open("procedural:3", &(rc_data_settings){.format = "procedural", .per_class = 1}, &d);
    assert_int_equal(d.classes, 3);
    rc_dataset_close(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pictures_never_change),
        cmocka_unit_test(classes_never_change),
        cmocka_unit_test(threads_and_numbers_change_nothing),
        cmocka_unit_test(every_class_has_a_name_of_its_own),
        cmocka_unit_test(classes_can_be_told_apart),
        cmocka_unit_test(sizes_and_limits),
        cmocka_unit_test(the_format_may_be_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
