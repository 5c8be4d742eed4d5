/* Pictures: decoding and resizing against Pillow, turning, writing, and files that are broken in every way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/rng.h"
#include "data/exif.h"
#include "data/image.h"
#include "support/data_files.h"

#define PICTURES RC_SOURCE_DIR "/tests/fixtures/pictures"

typedef struct picture {
    char name[64], path[512];
    int tolerance;
} picture;

/* The pictures of the fixture; returns how many. */
static int list_pictures(picture *out, int most)
{
    FILE *file = fopen(PICTURES ".txt", "r");
    assert_non_null(file);
    char line[256];
    int count = 0;
    while (fgets(line, sizeof line, file) != NULL)
        if (line[0] != '#') {
            assert_true(count < most);
            assert_int_equal(sscanf(line, "%63s %d", out[count].name, &out[count].tolerance), 2);
            snprintf(out[count].path, sizeof out[count].path, PICTURES "/%s", out[count].name);
            count++;
        }
    fclose(file);
    return count;
}

static void read_bytes(const char *path, uint8_t **data, size_t *size)
{
    char *text;
    assert_int_equal(rc_file_read(path, 1 << 20, &text, size), RC_OK);
    *data = (uint8_t *)text;
}

/* The largest difference; what is expected is P5 or P6 of 255, read here without the decoder under test. */
static int difference(const picture *p, const rc_image *found)
{
    char path[600], magic[3];
    uint8_t *data;
    size_t size;
    int w, h, begin;
    snprintf(path, sizeof path, "%s.expected", p->path);
    read_bytes(path, &data, &size);
    assert_int_equal(sscanf((char *)data, "%2s %d %d 255%n", magic, &w, &h, &begin), 3);
    int channels = strcmp(magic, "P6") == 0 ? 3 : 1, worst = 0;
    assert_int_equal(found->w, w);
    assert_int_equal(found->h, h);
    assert_int_equal(found->c, channels);
    assert_int_equal(size - (size_t)begin - 1, w * h * channels);
    for (int i = 0; i < w * h * channels; i++) {
        int off = abs(found->pixels[i] - data[begin + 1 + i]);
        worst = off > worst ? off : worst;
    }
    rc_free(NULL, data);
    return worst;
}

static void pictures_are_what_pillow_reads(void **state)
{
    (void)state;
    picture list[64];
    int count = list_pictures(list, 64);
    assert_true(count >= 30);
    for (int i = 0; i < count; i++) {
        rc_image image;
        size_t before = rc_bytes_allocated();
        assert_true(rc_image_name(list[i].name));
        if (rc_image_read(list[i].path, NULL, &image) != RC_OK)
            fail_msg("%s", rc_message());
        int worst = difference(&list[i], &image);
        if (worst > list[i].tolerance)
            fail_msg("%s is off by %d, expected at most %d", list[i].name, worst, list[i].tolerance);
        rc_image_free(&image);
        assert_int_equal(rc_bytes_allocated(), before);
    }
}

static void channels_are_converted(void **state)
{
    (void)state;
    rc_image colour, grey, again;
    assert_int_equal(rc_image_read(PICTURES "/rgb.png", NULL, &colour), RC_OK);
    assert_int_equal(rc_image_read(PICTURES "/rgb.png", &(rc_image_options){.channels = 1}, &grey), RC_OK);
    assert_int_equal(grey.c, 1);
    /* grey.png was made by Pillow from the same picture. */
    assert_int_equal(rc_image_read(PICTURES "/grey.png", NULL, &again), RC_OK);
    assert_memory_equal(grey.pixels, again.pixels, (size_t)(grey.h * grey.w));
    rc_image_free(&again);
    assert_int_equal(rc_image_read(PICTURES "/grey.png", &(rc_image_options){.channels = 3}, &again), RC_OK);
    assert_int_equal(again.c, 3);
    for (int i = 0; i < grey.h * grey.w * 3; i++)
        assert_int_equal(again.pixels[i], grey.pixels[i / 3]);
    rc_image_free(&again);
    rc_image_free(&grey);
    rc_image_free(&colour);
}

static void orientation_can_be_ignored(void **state)
{
    (void)state;
    rc_image upright, turned;
    rc_image_options ignore = {.ignore_exif = true};
    assert_int_equal(rc_image_read(PICTURES "/orientation_1.jpg", NULL, &upright), RC_OK);
    for (int i = 2; i <= 8; i++) {
        char path[512];
        snprintf(path, sizeof path, PICTURES "/orientation_%d.jpg", i);
        assert_int_equal(rc_image_read(path, &ignore, &turned), RC_OK);
        assert_int_equal(turned.h, upright.h);
        assert_memory_equal(turned.pixels, upright.pixels, (size_t)(upright.h * upright.w * 3));
        rc_image_free(&turned);
    }
    rc_image_free(&upright);
}

/* ---- resizing --------------------------------------------------------------------------------------------------- */

static rc_image random_picture(int stream, int h, int w, int c)
{
    size_t size = (size_t)h * (size_t)w * (size_t)c;
    rc_image image = {h, w, c, malloc(size)};
    assert_non_null(image.pixels);
    data_random((uint64_t)stream, image.pixels, size);
    return image;
}

static void check_resize(const char *line, int stream)
{
    int h, w, c, out_h, out_w;
    unsigned crc;
    assert_int_equal(sscanf(line, "resize %d %d %d %d %d %x", &h, &w, &c, &out_h, &out_w, &crc), 6);
    rc_image image = random_picture(stream, h, w, c);
    size_t size = (size_t)out_h * (size_t)out_w * (size_t)c;
    rc_image whole = {out_h, out_w, c, malloc(size)};
    assert_int_equal(rc_image_resize(&image, out_h, out_w, 0, 0, &whole), RC_OK);
    if (crc32(0, whole.pixels, (uInt)size) != crc)
        fail_msg("differs from Pillow: %s", line);
    /* A part of it is the same as that part of the whole. */
    int top = out_h / 3, left = out_w / 4;
    rc_image part = {out_h - top, out_w - left, c, malloc(size)};
    assert_int_equal(rc_image_resize(&image, out_h, out_w, top, left, &part), RC_OK);
    for (int y = 0; y < part.h; y++)
        assert_memory_equal(part.pixels + (size_t)(y * part.w * c),
                            whole.pixels + (size_t)(((y + top) * out_w + left) * c), (size_t)(part.w * c));
    free(image.pixels);
    free(whole.pixels);
    free(part.pixels);
}

static void check_fit(const char *line, int stream)
{
    int h, w, c;
    rc_image_fit fit;
    unsigned crc;
    assert_int_equal(sscanf(line, "fit %d %d %d %d %d %d %x", &h, &w, &c, &fit.resize, &fit.size, &fit.channels, &crc),
                     7);
    rc_image image = random_picture(stream, h, w, c);
    size_t size = (size_t)fit.size * (size_t)fit.size * (size_t)fit.channels;
    uint8_t *out = malloc(size);
    assert_non_null(out);
    assert_int_equal(rc_image_fit_into(&image, &fit, out), RC_OK);
    if (crc32(0, out, (uInt)size) != crc)
        fail_msg("differs from torchvision: %s", line);
    free(image.pixels);
    free(out);
}

static void resizing_is_pillows_bit_for_bit(void **state)
{
    (void)state;
    FILE *file = fopen(RC_SOURCE_DIR "/tests/fixtures/resize.txt", "r");
    assert_non_null(file);
    char line[256];
    int resizes = 0, fits = 0;
    while (fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "resize", 6) == 0)
            check_resize(line, resizes++);
        else if (strncmp(line, "fit", 3) == 0)
            check_fit(line, fits++);
    }
    fclose(file);
    assert_true(resizes >= 10 && fits >= 10);
}

/* A setting of less, which a file from a stranger may hold, is no reason to look beside the picture. */
static void the_shorter_side_is_never_below_the_size(void **state)
{
    (void)state;
    enum { SIDE = 16, SIZE = 28 };
    rc_image image = random_picture(1, SIDE, SIDE, 3);
    uint8_t expected[SIZE * SIZE * 3], out[SIZE * SIZE * 3];
    assert_int_equal(rc_image_fit_into(&image, &(rc_image_fit){.size = SIZE, .channels = 3}, expected), RC_OK);
    static const int sides[] = {1, SIDE - 1, SIDE, SIDE + 1, SIZE};
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++) {
        const rc_image_fit fit = {.resize = sides[i], .size = SIZE, .channels = 3};
        assert_int_equal(rc_image_fit_into(&image, &fit, out), RC_OK);
        assert_memory_equal(out, expected, sizeof out);
    }
    free(image.pixels);
}

/* ---- broken files ----------------------------------------------------------------------------------------------- */

/* Whatever comes: a status, an image or none, and nothing held. */
static rc_status decode_quietly(const uint8_t *data, size_t size)
{
    rc_image image;
    size_t before = rc_bytes_allocated();
    /* A block of its own size, so that reading beyond it shows under the sanitizers. */
    uint8_t *copy = malloc(size > 0 ? size : 1);
    assert_non_null(copy);
    if (size > 0)
        memcpy(copy, data, size);
    rc_status status = rc_image_decode(copy, size, &(rc_image_options){.max_pixels = 1 << 16}, &image);
    assert_true(status == RC_OK ? image.pixels != NULL : image.pixels == NULL);
    rc_image_free(&image);
    free(copy);
    assert_int_equal(rc_bytes_allocated(), before);
    return status;
}

static void truncated_pictures_are_refused(void **state)
{
    (void)state;
    picture list[64];
    int count = list_pictures(list, 64);
    for (int i = 0; i < count; i++) {
        uint8_t *data;
        size_t size;
        read_bytes(list[i].path, &data, &size);
        bool text = strncmp(list[i].name, "text", 4) == 0, jpeg = data[0] == 0xFF;
        for (size_t kept = 0; kept < size; kept += 1 + size / 97) {
            rc_status status = decode_quietly(data, kept);
            /* A JPEG may lack its last marker, and pictures in text their last digits. */
            if (status == RC_OK && !(jpeg && kept + 3 >= size) && !(text && kept + 3 >= size))
                fail_msg("%s decodes with %zu of %zu bytes", list[i].name, kept, size);
        }
        rc_free(NULL, data);
    }
}

static void flipped_bits_do_no_harm(void **state)
{
    (void)state;
    picture list[64];
    int count = list_pictures(list, 64);
    for (int i = 0; i < count; i++) {
        uint8_t *data;
        size_t size;
        read_bytes(list[i].path, &data, &size);
        rc_rng rng = {3, (uint64_t)i};
        for (uint64_t round = 0; round < 60; round++) {
            uint32_t at = rc_rng_below(rng, 2 * round, (uint32_t)size);
            uint8_t flip = (uint8_t)(1u << (rc_rng_bits(rng, 2 * round + 1) & 7));
            data[at] ^= flip;
            decode_quietly(data, size);
            if (round % 2 == 0) /* half of them stay */
                data[at] ^= flip;
        }
        rc_free(NULL, data);
    }
}

static void huge_pictures_are_refused(void **state)
{
    (void)state;
    rc_image image;
    static const char wide[] = "P5 20001 1 255\n", many[] = "P5 20000 20000 255\n", digits[] = "P5 99999999999 1 255\n";
    uint8_t *data = calloc(1, 30000);
    assert_non_null(data);
    memcpy(data, wide, sizeof wide - 1);
    assert_int_equal(rc_image_decode(data, 30000, NULL, &image), RC_UNSUPPORTED);
    data_assert_message("20001 x 1");
    memcpy(data, many, sizeof many - 1);
    assert_int_equal(rc_image_decode(data, 30000, NULL, &image), RC_FORMAT);
    memcpy(data, digits, sizeof digits - 1);
    assert_int_equal(rc_image_decode(data, 30000, NULL, &image), RC_FORMAT);
    free(data);
    /* A JPEG and a PNG that claim to be larger than they are. */
    uint8_t *jpeg, *png;
    size_t jpeg_size, png_size;
    read_bytes(PICTURES "/baseline_444.JPG", &jpeg, &jpeg_size);
    for (size_t i = 0; i + 8 < jpeg_size; i++)
        if (jpeg[i] == 0xFF && jpeg[i + 1] == 0xC0)
            memset(jpeg + i + 5, 0xEA, 4);
    assert_int_equal(rc_image_decode(jpeg, jpeg_size, NULL, &image), RC_UNSUPPORTED);
    data_assert_message("60138 x 60138");
    read_bytes(PICTURES "/rgb.png", &png, &png_size);
    png[18] = png[22] = 0x4E; /* 19 989 pixels and more on a side */
    uLong crc = crc32(0, png + 12, 17);
    for (int i = 0; i < 4; i++)
        png[29 + i] = (uint8_t)(crc >> (24 - 8 * i));
    assert_int_equal(rc_image_decode(png, png_size, NULL, &image), RC_UNSUPPORTED);
    /* Within the limits, but far more pixels than the bytes can hold: nothing is allocated. */
    for (size_t i = 0; i + 8 < jpeg_size; i++)
        if (jpeg[i] == 0xFF && jpeg[i + 1] == 0xC0)
            memcpy(jpeg + i + 5, "\x1F\x40\x1F\x40", 4);
    assert_int_equal(rc_image_decode(jpeg, jpeg_size, NULL, &image), RC_FORMAT);
    data_assert_message("bytes cannot hold a picture of 8000 x 8000 pixels");
    rc_free(NULL, jpeg);
    rc_free(NULL, png);
    rc_image_options small = {.max_pixels = 100};
    assert_int_equal(rc_image_read(PICTURES "/rgb.png", &small, &image), RC_UNSUPPORTED);
    data_assert_message("rgb.png");
}

/* The last scan of a progressive file over and over: small files that would take long. */
static void endless_scans_are_refused(void **state)
{
    (void)state;
    uint8_t *data;
    size_t size, begin = 0;
    read_bytes(PICTURES "/progressive.jpg", &data, &size);
    for (size_t i = 0; i + 1 < size; i++)
        if (data[i] == 0xFF && data[i + 1] == 0xDA)
            begin = i;
    assert_true(begin > 0 && data[size - 2] == 0xFF && data[size - 1] == 0xD9);
    data_bytes file = {0};
    data_add(&file, data, begin);
    for (int i = 0; i < 600; i++)
        data_add(&file, data + begin, size - 2 - begin);
    data_add(&file, data + size - 2, 2);
    rc_image image;
    assert_int_equal(rc_image_decode(file.data, file.size, NULL, &image), RC_FORMAT);
    data_assert_message("broken JPEG: 501 scans of 37 x 29 pixels");
    free(file.data);
    rc_free(NULL, data);
}

static void unknown_files_are_named(void **state)
{
    (void)state;
    rc_image image;
    data_write_text("letter.jpg", "Dear all");
    data_write_text("empty.png", "");
    assert_int_equal(rc_image_read("letter.jpg", NULL, &image), RC_FORMAT);
    data_assert_message("cannot decode 'letter.jpg': neither JPEG nor PNG nor PPM or PGM: begins with 0x44 0x65");
    assert_int_equal(rc_image_read("empty.png", NULL, &image), RC_FORMAT);
    data_assert_message("'empty.png': the file is empty");
    assert_int_equal(rc_image_read("missing.png", NULL, &image), RC_IO);
    data_assert_message("missing.png");
    assert_false(rc_image_name("letter.txt") || rc_image_name("jpg") || rc_image_name("a.jpg.part"));
    assert_true(rc_image_name("A.JpEg") && rc_image_name("b.pnm"));
}

static void strange_exif_means_upright(void **state)
{
    (void)state;
    static const uint8_t good[26] = "II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x07";
    uint8_t block[26];
    assert_int_equal(rc_exif_orientation(good, 26), 7);
    for (size_t size = 0; size < 22; size++)
        assert_int_equal(rc_exif_orientation(good, size), 1);
    static const struct {
        size_t at;
        uint8_t value;
    } changes[] = {{0, 'M'}, {2, '+'}, {4, 200}, {7, 0xFF}, {8, 0}, {10, 0x13}, {12, 4}, {14, 2}, {18, 0}, {18, 9}};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        memcpy(block, good, sizeof block);
        block[changes[i].at] = changes[i].value;
        assert_int_equal(rc_exif_orientation(block, sizeof block), 1);
    }
}

/* ---- writing ---------------------------------------------------------------------------------------------------- */

static void what_is_written_is_read(void **state)
{
    (void)state;
    for (int c = 1; c <= 3; c += 2) {
        rc_image image = random_picture(c, 19, 33, c), again;
        assert_int_equal(rc_image_write_png("out.png", &image), RC_OK);
        assert_int_equal(rc_image_read("out.png", NULL, &again), RC_OK);
        assert_int_equal(again.h, 19);
        assert_int_equal(again.w, 33);
        assert_int_equal(again.c, c);
        assert_memory_equal(again.pixels, image.pixels, (size_t)(19 * 33 * c));
        rc_image_free(&again);
        size_t before = rc_bytes_allocated();
        assert_int_equal(rc_image_write_png("nowhere/out.png", &image), RC_IO);
        data_assert_message("nowhere/out.png");
        image.c = 2;
        assert_int_equal(rc_image_write_png("out.png", &image), RC_INVALID_ARGUMENT);
        assert_int_equal(rc_bytes_allocated(), before);
        free(image.pixels);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pictures_are_what_pillow_reads),
        cmocka_unit_test(channels_are_converted),
        cmocka_unit_test(orientation_can_be_ignored),
        cmocka_unit_test(resizing_is_pillows_bit_for_bit),
        cmocka_unit_test(the_shorter_side_is_never_below_the_size),
        cmocka_unit_test(truncated_pictures_are_refused),
        cmocka_unit_test(flipped_bits_do_no_harm),
        cmocka_unit_test(huge_pictures_are_refused),
        cmocka_unit_test(endless_scans_are_refused),
        cmocka_unit_test_setup_teardown(unknown_files_are_named, data_enter_folder, data_leave_folder),
        cmocka_unit_test(strange_exif_means_upright),
        cmocka_unit_test_setup_teardown(what_is_written_is_read, data_enter_folder, data_leave_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
