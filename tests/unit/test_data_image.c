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
#include "data/image_format.h"
#include "data/image_kind.h"
#include "support/data_files.h"
#include "support/pictures.h"

/* The largest difference; what is expected is P5 or P6 of 255, read here without the decoder under test. */
static int difference(const picture *p, const rc_image *found)
{
    char path[600], magic[3];
    uint8_t *data;
    size_t size;
    int w, h, begin;
    snprintf(path, sizeof path, "%s.expected", p->path);
    pictures_bytes(path, &data, &size);
    assert_int_equal(sscanf((char *)data, "%2s %d %d 255%n", magic, &w, &h, &begin), 3);
    int channels = strcmp(magic, "P6") == 0 ? 3 : 1, worst = 0;
    if (found->w != w || found->h != h || found->c != channels)
        fail_msg("%s: %d x %d pixels of %d, expected %d x %d of %d", p->name, found->w, found->h, found->c, w, h,
                 channels);
    assert_int_equal(size - (size_t)begin - 1, w * h * channels);
    for (int i = 0; i < w * h * channels; i++) {
        int off = abs(found->pixels[i] - data[begin + 1 + i]);
        worst = off > worst ? off : worst;
    }
    rc_free(NULL, data);
    return worst;
}

/* A build without a library names what it does not read, and what to do. */
static bool is_read(const picture *p)
{
    const rc_image_kind *kind;
    rc_image image;
    assert_int_equal(rc_image_kind_at(p->path, &kind), RC_OK);
    if (kind->decode != NULL)
        return true;
    assert_non_null(kind->library);
    assert_false(rc_image_name(p->name));
    assert_int_equal(rc_image_read(p->path, NULL, &image), RC_FORMAT);
    data_assert_message(p->name);
    data_assert_message(kind->library);
    data_assert_message("convert it: ");
    return false;
}

static void pictures_are_what_pillow_reads(void **state)
{
    (void)state;
    picture list[128];
    int count = pictures_list(list, 128);
    assert_true(count >= 30);
    for (int i = 0; i < count; i++) {
        rc_image image;
        size_t before = rc_bytes_allocated();
        if (!is_read(&list[i]))
            continue;
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

/* The same orientation in the notes of a TIFF and a WebP. */
static void orientation_of_other_formats_can_be_ignored(void **state)
{
    (void)state;
    static const char *const names[] = {"orientation_6.tif", "orientation_8.webp"};
    rc_image upright, turned;
    assert_int_equal(rc_image_read(PICTURES "/orientation_1.tif", NULL, &upright), RC_HAS_TIFF ? RC_OK : RC_FORMAT);
    for (int i = 0; i < 2; i++) {
        char path[512];
        snprintf(path, sizeof path, PICTURES "/%s", names[i]);
        if (!(i == 0 ? RC_HAS_TIFF : RC_HAS_WEBP && RC_HAS_TIFF))
            continue;
        assert_int_equal(rc_image_read(path, &(rc_image_options){.ignore_exif = true}, &turned), RC_OK);
        assert_true(turned.h == 12 && turned.w == 18);
        assert_memory_equal(turned.pixels, upright.pixels, 12 * 18 * 3);
        rc_image_free(&turned);
        assert_int_equal(rc_image_read(path, NULL, &turned), RC_OK);
        assert_true(turned.h == 18 && turned.w == 12);
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

static rc_interpolation filter_of(const char *name)
{
    assert_true(strcmp(name, "bilinear") == 0 || strcmp(name, "bicubic") == 0);
    return strcmp(name, "bicubic") == 0 ? RC_BICUBIC : RC_BILINEAR;
}

static void check_resize(const char *line, int stream)
{
    int h, w, c, out_h, out_w;
    unsigned crc;
    char filter[16];
    assert_int_equal(sscanf(line, "resize %15s %d %d %d %d %d %x", filter, &h, &w, &c, &out_h, &out_w, &crc), 7);
    rc_interpolation how = filter_of(filter);
    rc_image image = random_picture(stream, h, w, c);
    size_t size = (size_t)out_h * (size_t)out_w * (size_t)c;
    rc_image whole = {out_h, out_w, c, malloc(size)};
    assert_int_equal(rc_image_resize(&image, how, out_h, out_w, 0, 0, &whole), RC_OK);
    if (crc32(0, whole.pixels, (uInt)size) != crc)
        fail_msg("differs from Pillow: %s", line);
    /* A part of it is the same as that part of the whole. */
    int top = out_h / 3, left = out_w / 4;
    rc_image part = {out_h - top, out_w - left, c, malloc(size)};
    assert_int_equal(rc_image_resize(&image, how, out_h, out_w, top, left, &part), RC_OK);
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
    char filter[16];
    assert_int_equal(sscanf(line, "fit %15s %d %d %d %d %d %d %x", filter, &h, &w, &c, &fit.resize, &fit.size,
                            &fit.channels, &crc),
                     8);
    fit.interpolation = filter_of(filter);
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
    int resizes[2] = {0}, fits[2] = {0}; /* of either filter: each case has a stream of its own */
    while (fgets(line, sizeof line, file) != NULL) {
        bool cubic = strstr(line, "bicubic") != NULL;
        if (strncmp(line, "resize", 6) == 0)
            check_resize(line, resizes[cubic]++);
        else if (strncmp(line, "fit", 3) == 0)
            check_fit(line, fits[cubic]++);
    }
    fclose(file);
    assert_true(resizes[0] >= 10 && fits[0] >= 10 && resizes[1] == resizes[0] && fits[1] == fits[0]);
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
    pictures_bytes(PICTURES "/baseline_444.JPG", &jpeg, &jpeg_size);
    for (size_t i = 0; i + 8 < jpeg_size; i++)
        if (jpeg[i] == 0xFF && jpeg[i + 1] == 0xC0)
            memset(jpeg + i + 5, 0xEA, 4);
    assert_int_equal(rc_image_decode(jpeg, jpeg_size, NULL, &image), RC_UNSUPPORTED);
    data_assert_message("60138 x 60138");
    pictures_bytes(PICTURES "/rgb.png", &png, &png_size);
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

static int wrong;

static void refuse_changed(const char *name, size_t at, const char *bytes, size_t count, rc_status status,
                           const char *message)
{
    char path[512];
    uint8_t *data;
    size_t size;
    rc_image image;
    snprintf(path, sizeof path, PICTURES "/%s", name);
    pictures_bytes(path, &data, &size);
    assert_true(at + count <= size);
    memcpy(data + at, bytes, count);
    rc_status found = rc_image_decode(data, size, NULL, &image);
    rc_image_free(&image);
    if (found != status || strcmp(rc_message(), message) != 0) {
        print_error("%s with another byte %zu: status %d, \"%s\", expected %d, \"%s\"\n", name, at, found, rc_message(),
                    status, message);
        wrong++;
    }
    rc_free(NULL, data);
}

static void strange_bmps_are_refused(void **state)
{
    (void)state;
    refuse_changed("palette.bmp", 30, "\x01", 1, RC_UNSUPPORTED,
                   "BMP with run-length compression (RLE8) is not read; convert it to PNG");
    refuse_changed("four_bit.bmp", 30, "\x02", 1, RC_UNSUPPORTED,
                   "BMP with run-length compression (RLE4) is not read; convert it to PNG");
    refuse_changed("rgb.bmp", 30, "\x04", 1, RC_UNSUPPORTED, "BMP with a JPEG inside is not read; convert it to PNG");
    refuse_changed("rgb.bmp", 30, "\x05", 1, RC_UNSUPPORTED, "BMP with a PNG inside is not read; convert it to PNG");
    refuse_changed("rgb.bmp", 30, "\x03", 1, RC_FORMAT, "broken BMP: compression 3 of 24 bits a pixel");
    refuse_changed("sixteen.bmp", 30, "\x07", 1, RC_FORMAT, "broken BMP: compression 7 of 16 bits a pixel");
    refuse_changed("rgb.bmp", 28, "\x07", 1, RC_FORMAT, "broken BMP: 7 bits a pixel, expected 1, 4, 8, 16, 24 or 32");
    refuse_changed("rgb.bmp", 18, "\0\0\0\0", 4, RC_FORMAT, "broken BMP: 0 x 13 pixels");
    refuse_changed("rgb.bmp", 18, "\xFF\xFF\xFF\xFF", 4, RC_FORMAT, "broken BMP: -1 x 13 pixels");
    refuse_changed("rgb.bmp", 22, "\0\0\0\x80", 4, RC_FORMAT, "truncated BMP: 886 bytes end before its pixels");
    refuse_changed("rgb.bmp", 10, "\xFF\xFF\xFF\xFF", 4, RC_FORMAT, "truncated BMP: 886 bytes end before its pixels");
    refuse_changed("masks_16.bmp", 54, "\0\0\0\0", 4, RC_FORMAT,
                   "broken BMP: mask 0x00000000, expected bits side by side");
    refuse_changed("masks_16.bmp", 54, "\x05\0\0\0", 4, RC_FORMAT,
                   "broken BMP: mask 0x00000005, expected bits side by side");
    refuse_changed("masks_16.bmp", 62, "\0\0\0\0", 4, RC_FORMAT,
                   "broken BMP: mask 0x00000000, expected bits side by side");
    refuse_changed("rgb.bmp", 14, "\x0C\0\0\0", 4, RC_FORMAT,
                   "broken BMP: 0 bits a pixel, expected 1, 4, 8, 16, 24 or 32");
    refuse_changed("rgb.bmp", 14, "\x7C\0\0\0\0\0\0\0", 8, RC_FORMAT, "broken BMP: 0 x 13 pixels");
    refuse_changed("rgb.bmp", 22, "\0\0\0\0", 4, RC_FORMAT, "broken BMP: 21 x 0 pixels");
    refuse_changed("four_bit.bmp", 30, "\x06", 1, RC_FORMAT, "broken BMP: compression 6 of 4 bits a pixel");
    refuse_changed("thirty_two.bmp", 30, "\x06", 1, RC_FORMAT,
                   "broken BMP: mask 0x4D00FF7F, expected bits side by side");
    assert_int_equal(wrong, 0);
}

/* Cut BMPs say what is missing. */
static void cut_bmps_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        size_t kept; /* 0: all but one byte */
        const char *what;
    } cases[] = {
        {"rgb.bmp", 18, "its header"},      {"rgb.bmp", 25, "its header"},      {"rgb.bmp", 53, "its header"},
        {"rgb.bmp", 54, "its pixels"},      {"rgb.bmp", 0, "its pixels"},       {"masks_16.bmp", 65, "its masks"},
        {"masks_16.bmp", 66, "its pixels"}, {"palette.bmp", 57, "its palette"}, {"old.bmp", 25, "its header"},
        {"old.bmp", 0, "its pixels"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[512], words[128];
        uint8_t *data;
        size_t size;
        rc_image image;
        snprintf(path, sizeof path, PICTURES "/%s", cases[i].name);
        pictures_bytes(path, &data, &size);
        size = cases[i].kept > 0 ? cases[i].kept : size - 1;
        assert_int_equal(rc_image_decode(data, size, NULL, &image), RC_FORMAT);
        snprintf(words, sizeof words, "truncated BMP: %zu bytes end before %s", size, cases[i].what);
        data_assert_words(words);
        rc_free(NULL, data);
    }
}

/* What becomes of small files in text: "HxWxC: value value ...", or the message. */
static void small_pictures_are_told(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t size;
        const char *told;
    } cases[] = {
#define FILE_OF(bytes) bytes, sizeof(bytes) - 1
        {FILE_OF("P5 2 1 255\nAB"), "1x2x1: 65 66"},
        {FILE_OF("P6 1 1 255\nABC"), "1x1x3: 65 66 67"},
        {FILE_OF("P2 2 2 3 0 1 2 3"), "2x2x1: 0 85 170 255"},
        {FILE_OF("P3\t1\v1\f10\r1 5 10"), "1x1x3: 26 128 255"},
        {FILE_OF("P5 1 1 65535\n\200\0"), "1x1x1: 128"},
        {FILE_OF("P5 2 1 256\n\1\0\0\100"), "1x2x1: 255 64"},
        {FILE_OF("P5#c\n2#x\r1 #\n255\nAB"), "1x2x1: 65 66"},
        {FILE_OF("P5 1 2 9 \n\11"), "2x1x1: 255 255"},
        {FILE_OF("P2 3 1 510 1 3 5"), "1x3x1: 0 2 2"}, /* halves to even */
        {FILE_OF("P2 1 1 255 256"), "value 0 of 1 is missing or above 255"},
        {FILE_OF("P2 2 1 255 7 "), "value 1 of 2 is missing or above 255"},
        {FILE_OF("P2 2 1 255 7x 8"), "value 0 of 2 is missing or above 255"},
        {FILE_OF("P3 1 1 9 1 10 2"), "value 1 of 3 is missing or above 9"},
        {FILE_OF("P5 2 2 255\nABC"), "truncated: 3 bytes of pixels, expected 4"},
        {FILE_OF("P6 2 2 255\nABC"), "truncated: 4 bytes of pixels for 2 x 2"},
        {FILE_OF("P5 1 1 256\nA"), "truncated: 1 bytes of pixels, expected 2"},
        {FILE_OF("P5 0 1 255\n"), "the picture has 0 x 1 pixels"},
        {FILE_OF("P5 1 0 255\n"), "the picture has 1 x 0 pixels"},
        {FILE_OF("P5 1 1 0\nA"), "the header of P5 has no width, height and largest value up to 65535"},
        {FILE_OF("P5 65536 1 255\nA"), "the header of P5 has no width, height and largest value up to 65535"},
        {FILE_OF("P5 1 1 65536\nA"), "the header of P5 has no width, height and largest value up to 65535"},
        {FILE_OF("P6 1 1"), "the header of P6 has no width, height and largest value up to 65535"},
        {FILE_OF("P5 a"), "the header of P5 has no width, height and largest value up to 65535"},
        {FILE_OF("P5 1 1a 1"), "the header of P5 has no width, height and largest value up to 65535"},
        {FILE_OF("P5 20001 0 255\n"), "the picture has 20001 x 0 pixels"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rc_image image;
        char told[256] = "";
        uint8_t *copy = malloc(cases[i].size); /* so that a sanitizer sees its end */
        assert_non_null(copy);
        memcpy(copy, cases[i].bytes, cases[i].size);
        rc_status status = rc_image_decode(copy, cases[i].size, NULL, &image);
        size_t used = (size_t)snprintf(told, sizeof told, "%dx%dx%d:", image.h, image.w, image.c);
        for (int k = 0; status == RC_OK && k < image.h * image.w * image.c; k++)
            used += (size_t)snprintf(told + used, sizeof told - used, " %d", image.pixels[k]);
        const char *found = status == RC_OK ? told : rc_message();
        if (strcmp(found, cases[i].told) != 0) {
            print_error("file %zu: \"%s\", expected \"%s\"\n", i, found, cases[i].told);
            wrong++;
        }
        rc_image_free(&image);
        free(copy);
    }
    assert_int_equal(wrong, 0);
}

/* A picture may have so many pixels, and so many for each byte of its file. */
static void limits_of_pictures_are_exact(void **state)
{
    (void)state;
    static const struct {
        uint64_t h, w;
        size_t size, most;
        const char *words;
    } cases[] = {
        {20000, 1, 3, 1 << 26, NULL},
        {1, 20000, 3, 1 << 26, NULL},
        {8448, 3, 3, 25344, NULL},
        {0, 5, 3, 100, "the picture has 5 x 0 pixels"},
        {5, 0, 3, 100, "the picture has 0 x 5 pixels"},
        {20001, 1, 9, 1 << 26, "the picture has 1 x 20001 pixels, more than 20000 on a side or 67108864 in all"},
        {1, 20001, 9, 1 << 26, "the picture has 20001 x 1 pixels, more than 20000 on a side or 67108864 in all"},
        {10, 11, 9, 109, "the picture has 11 x 10 pixels, more than 20000 on a side or 109 in all"},
        {8448, 2, 1, 1 << 26, "1 bytes cannot hold a picture of 2 x 8448 pixels"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rc_image image = {0};
        const rc_image_request request = {.size = cases[i].size, .max_pixels = cases[i].most};
        rc_status status = rc_image_allocate(&request, cases[i].h, cases[i].w, 2, &image);
        assert_int_equal(status == RC_OK, cases[i].words == NULL);
        if (status != RC_OK)
            data_assert_words(cases[i].words);
        else
            assert_true(image.h == (int)cases[i].h && image.w == (int)cases[i].w && image.c == 2);
        rc_image_free(&image);
    }
}

/* Sizes that a header claims are looked at before memory is taken. */
static void huge_pictures_of_libraries_are_refused(void **state)
{
    (void)state;
    /* The width, what follows it, and the checksum. */
    refuse_changed("rgb.png", 16, "\0\0\xEA\x60\0\0\0\x0D\x08\x02\0\0\0\x1C\x0A\x07\xC8", 17, RC_UNSUPPORTED,
                   "the picture has 60000 x 13 pixels, more than 20000 on a side or 67108864 in all");
    refuse_changed("rgb.png", 16, "\x7F\xFF\xFF\xFF\0\0\0\x0D\x08\x02\0\0\0\x58\x96\x64\xF1", 17, RC_UNSUPPORTED,
                   "the picture has 2147483647 x 13 pixels, more than 20000 on a side or 67108864 in all");
    if (RC_HAS_GIF) {
        refuse_changed("palette.gif", 6, "\xFF\xFF\xFF\xFF", 4, RC_UNSUPPORTED,
                       "the picture has 65535 x 65535 pixels, more than 20000 on a side or 67108864 in all");
        refuse_changed("palette.gif", 6, "\x02\0", 2, RC_FORMAT,
                       "broken GIF: the first frame, of 21 x 13 pixels, does not lie in the 2 x 13 of the file");
    }
    if (RC_HAS_WEBP) {
        refuse_changed("lossless.webp", 21, "\xFF\xFF\xFF\x0F", 4, RC_UNSUPPORTED,
                       "the picture has 16384 x 16384 pixels, more than 20000 on a side or 67108864 in all");
        refuse_changed("lossy.webp", 26, "\xFF\x3F\xFF\x3F", 4, RC_UNSUPPORTED,
                       "the picture has 16383 x 16383 pixels, more than 20000 on a side or 67108864 in all");
        refuse_changed("animated.webp", 24, "\x01", 1, RC_FORMAT,
                       "broken WebP: the first frame does not lie in the picture");
    }
    if (RC_HAS_TIFF) {
        char path[] = PICTURES "/rgb.tif";
        uint8_t *data;
        size_t size, at;
        pictures_bytes(path, &data, &size);
        at = (size_t)data[4] + 2; /* the first entry: the width, a number of 16 bits or more */
        assert_true(data[at] == 0 && data[at + 1] == 1);
        rc_free(NULL, data);
        refuse_changed("rgb.tif", at + 8, "\x20\x4E", 2, RC_FORMAT,
                       "truncated TIFF: part 1 of 13 ends beyond the 959 bytes of the file");
        refuse_changed("rgb.tif", at + 8, "\x21\x4E", 2, RC_UNSUPPORTED,
                       "the picture has 20001 x 13 pixels, more than 20000 on a side or 67108864 in all");
        refuse_changed("rgb.tif", at + 2, "\x04\0\x01\0\0\0\x40\x4E\x40\0", 10, RC_UNSUPPORTED,
                       "the picture has 4214336 x 13 pixels, more than 20000 on a side or 67108864 in all");
    }
    assert_int_equal(wrong, 0);
}

/* 64 x 64 grey pixels in strips of a row, so many bytes apart, and one more tag if `extra` is not 0. */
static rc_status decode_strips(int compression, int strips_apart, int extra)
{
    enum {
        SIDE = 64,
        PIXELS = 8,
        ARRAYS = PIXELS + SIDE * SIDE,
        IFD = ARRAYS + 2 * SIDE * 4,
        SIZE = IFD + 2 + 10 * 12 + 4
    };
    uint8_t file[SIZE] = "II*";
    rc_image image;
    data_random(5, file + PIXELS, SIDE * SIDE);
#define PUT(at, value, bytes) memcpy(file + (at), &(uint32_t){(uint32_t)(value)}, bytes)
    PUT(4, IFD, 4);
    for (int i = 0; i < SIDE; i++) {
        PUT(ARRAYS + 4 * i, PIXELS + strips_apart * i, 4);
        PUT(ARRAYS + 4 * SIDE + 4 * i, strips_apart == 0 ? SIDE * SIDE : SIDE, 4);
    }
    const int entries[][4] = {
        {256, 3, 1, SIDE},      {257, 3, 1, SIDE}, {258, 3, 1, 8}, {259, 3, 1, compression},          {262, 3, 1, 1},
        {273, 4, SIDE, ARRAYS}, {277, 3, 1, 1},    {278, 3, 1, 1}, {279, 4, SIDE, ARRAYS + 4 * SIDE}, {extra, 1, 4, 1}};
    PUT(IFD, extra != 0 ? 10 : 9, 2);
    for (int i = 0; i < 10; i++) {
        PUT(IFD + 2 + 12 * i, entries[i][0], 2);
        PUT(IFD + 2 + 12 * i + 2, entries[i][1], 2);
        PUT(IFD + 2 + 12 * i + 4, entries[i][2], 4);
        PUT(IFD + 2 + 12 * i + 8, entries[i][3], 4);
    }
    rc_status status = rc_image_decode(file, sizeof file, NULL, &image);
    if (status == RC_OK)
        assert_memory_equal(image.pixels, file + PIXELS, SIDE * SIDE);
    rc_image_free(&image);
    return status;
}

static void strange_tiffs_are_refused(void **state)
{
    (void)state;
    if (!RC_HAS_TIFF)
        return;
    assert_int_equal(decode_strips(1, 64, 0), RC_OK);
    assert_int_equal(decode_strips(1, 0, 0), RC_FORMAT);
    data_assert_words("broken TIFF: its parts claim more than twice the 4742 bytes of the file");
    assert_int_equal(decode_strips(34661, 64, 0), RC_UNSUPPORTED);
    data_assert_words("TIFF with compression 34661 is not read; convert it to PNG");
    assert_int_equal(decode_strips(6, 64, 0), RC_UNSUPPORTED);
    data_assert_words("TIFF with compression 6 (JPEG of the old kind) is not read; convert it to PNG");
    assert_int_equal(decode_strips(1, 64, 50706), RC_UNSUPPORTED);
    data_assert_words("raw camera file (DNG); convert it to JPEG");
}

/* The last scan of a progressive file over and over: small files that would take long. */
static void endless_scans_are_refused(void **state)
{
    (void)state;
    uint8_t *data;
    size_t size, begin = 0;
    pictures_bytes(PICTURES "/progressive.jpg", &data, &size);
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
    data_assert_message("cannot decode 'letter.jpg': no picture that this build of recollect reads: text");
    assert_int_equal(rc_image_read("empty.png", NULL, &image), RC_FORMAT);
    data_assert_message("'empty.png': no picture that this build of recollect reads: empty file; copy it again, or "
                        "delete it");
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
    static const uint8_t big[] = "MM\0*\0\0\0\012xx\0\2\1\21\0\3\0\0\0\1\0\5\0\0\1\22\0\3\0\0\0\1\0\10\0\0";
    assert_int_equal(rc_exif_orientation(big, sizeof big - 1), 8); /* the second entry */
    assert_int_equal(rc_exif_orientation(big, sizeof big - 2), 1);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        memcpy(block, good, sizeof block);
        block[changes[i].at] = changes[i].value;
        assert_int_equal(rc_exif_orientation(block, sizeof block), 1);
    }
}

/* ---- writing ---------------------------------------------------------------------------------------------------- */

/* Nobody takes what is left after a failure for a picture. */
static void a_failure_leaves_no_picture(void **state)
{
    (void)state;
    static const uint8_t nothing[] = "nothing";
    rc_image image;
    memset(&image, 0xff, sizeof image);
    assert_int_not_equal(rc_image_decode(nothing, sizeof nothing, NULL, &image), RC_OK);
    assert_true(image.h == 0 && image.w == 0 && image.c == 0 && image.pixels == NULL);
    memset(&image, 0xff, sizeof image);
    assert_int_not_equal(rc_image_read("nowhere", NULL, &image), RC_OK);
    assert_true(image.h == 0 && image.w == 0 && image.c == 0 && image.pixels == NULL);
    image.h = 3;
    rc_image_free(&image);
    assert_int_equal(image.h, 0);
}

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
        data_assert_words("a picture of 33 x 19 pixels and 2 channels cannot be written");
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
        cmocka_unit_test(orientation_of_other_formats_can_be_ignored),
        cmocka_unit_test(resizing_is_pillows_bit_for_bit),
        cmocka_unit_test(the_shorter_side_is_never_below_the_size),
        cmocka_unit_test(huge_pictures_are_refused),
        cmocka_unit_test(endless_scans_are_refused),
        cmocka_unit_test(strange_bmps_are_refused),
        cmocka_unit_test(cut_bmps_are_named),
        cmocka_unit_test(small_pictures_are_told),
        cmocka_unit_test(limits_of_pictures_are_exact),
        cmocka_unit_test(huge_pictures_of_libraries_are_refused),
        cmocka_unit_test(strange_tiffs_are_refused),
        cmocka_unit_test_setup_teardown(unknown_files_are_named, data_enter_folder, data_leave_folder),
        cmocka_unit_test(strange_exif_means_upright),
        cmocka_unit_test(a_failure_leaves_no_picture),
        cmocka_unit_test_setup_teardown(what_is_written_is_read, data_enter_folder, data_leave_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
