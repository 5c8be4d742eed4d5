#include "support/data_sets.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IMAGE = 3072 };

void data_planes(int image, uint8_t *planes)
{
    data_random((uint64_t)(1000 + image), planes, IMAGE);
}

data_bytes data_cifar_binary(int first, int count, int label_bytes, int classes)
{
    data_bytes out = {0};
    uint8_t planes[IMAGE];
    for (int i = first; i < first + count; i++) {
        if (label_bytes == 2)
            data_add_byte(&out, 19);
        data_add_byte(&out, i % classes);
        data_planes(i, planes);
        data_add(&out, planes, IMAGE);
    }
    return out;
}

/* A string of the kind that the Python version writes; long ones have four bytes of length. */
static void add_string(data_bytes *out, const char *text, bool python3)
{
    size_t length = strlen(text);
    data_add_byte(out, python3 ? 'X' : 'U');
    if (python3)
        data_add_little(out, (uint32_t)length);
    else
        data_add_byte(out, (int)length);
    data_add(out, text, length);
}

/* Bytes: Python 2 has strings for them, Python 3 encodes text. */
static void add_bytes(data_bytes *out, const uint8_t *data, size_t size, bool python3)
{
    if (!python3) {
        data_add_byte(out, 'T');
        data_add_little(out, (uint32_t)size);
        data_add(out, data, size);
        return;
    }
    data_bytes text = {0};
    for (size_t i = 0; i < size; i++) {
        if (data[i] >= 0x80)
            data_add_byte(&text, 0xC0 | data[i] >> 6);
        data_add_byte(&text, data[i] >= 0x80 ? 0x80 | (data[i] & 0x3F) : data[i]);
    }
    data_add_text(out, "c_codecs\nencode\nX");
    data_add_little(out, (uint32_t)text.size);
    data_add(out, text.data, text.size);
    add_string(out, "latin1", true);
    data_add_text(out, "\x86R");
    free(text.data);
}

static void add_array(data_bytes *out, const uint8_t *data, int rows, data_pickle_style style)
{
    static const uint8_t letter[] = "b";
    data_add_text(out, style.python3 ? "cnumpy._core.multiarray" : "cnumpy.core.multiarray");
    data_add_text(out, "\n_reconstruct\nq\x03"
                       "cnumpy\nndarray\nq\x04K");
    data_add_byte(out, 0);
    data_add_byte(out, 0x85);
    add_bytes(out, letter, 1, style.python3);
    data_add_text(out, "\x87Rq\x05(K\x01");
    /* The shape, once as a short number and once as a long one. */
    data_add_byte(out, 'M');
    data_add_byte(out, rows & 255);
    data_add_byte(out, rows >> 8);
    data_add(out, "\x8a\x02\x00\x0c\x86", 5);
    data_add_text(out, "cnumpy\ndtype\nq\x06");
    add_string(out, "u1", style.python3);
    data_add(out, style.python3 ? "\x89\x88\x87Rq\x07(K\x03" : "K\0K\1\x87Rq\x07(K\x03", style.python3 ? 9 : 11);
    add_string(out, "|", style.python3);
    data_add(out, "NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb", 17);
    data_add_byte(out, style.fortran ? 0x88 : 0x89);
    add_bytes(out, data, (size_t)rows * IMAGE, style.python3);
    data_add_text(out, "tb");
}

data_bytes data_cifar_pickle(int first, int count, const char *labels, int classes, data_pickle_style style)
{
    uint8_t *rows = malloc((size_t)count * IMAGE), *array = malloc((size_t)count * IMAGE);
    assert_true(rows != NULL && array != NULL);
    for (int i = 0; i < count; i++)
        data_planes(first + i, rows + (size_t)i * IMAGE);
    for (int r = 0; r < count; r++)
        for (int c = 0; c < IMAGE; c++)
            array[style.fortran ? c * count + r : r * IMAGE + c] = rows[r * IMAGE + c];
    data_bytes out = {0};
    data_add_text(&out, "\x80\x02}q\x01(");
    add_string(&out, "batch_label", style.python3);
    data_add_text(&out, "q\x02");
    add_string(&out, "training batch 1 of 5", style.python3);
    add_string(&out, "data", style.python3);
    add_array(&out, array, count, style);
    add_string(&out, labels, style.python3);
    data_add_text(&out, "q\x08]q\x09(");
    for (int i = first; i < first + count; i++) {
        data_add_byte(&out, 'K');
        data_add_byte(&out, i % classes);
    }
    data_add_text(&out, "eu.");
    free(rows);
    free(array);
    return out;
}

data_bytes data_names_pickle(const char *key, int count)
{
    data_bytes out = {0};
    data_add_text(&out, "\x80\x02}q\x01(");
    add_string(&out, key, false);
    data_add_text(&out, "q\x02]q\x03(");
    for (int i = 0; i < count; i++) {
        char name[32];
        snprintf(name, sizeof name, "name%d", i);
        add_string(&out, name, false);
    }
    data_add_text(&out, "eU\x07num_visM");
    data_add(&out, "\x00\x0cu.", 4);
    return out;
}

data_bytes data_names_text(int count)
{
    data_bytes out = {0};
    for (int i = 0; i < count; i++) {
        char name[32];
        snprintf(name, sizeof name, "name%d\n", i);
        data_add_text(&out, name);
    }
    return out;
}

data_bytes data_idx_images(int count, int h, int w)
{
    data_bytes out = {0};
    data_add_big(&out, 0x803);
    data_add_big(&out, (uint32_t)count);
    data_add_big(&out, (uint32_t)h);
    data_add_big(&out, (uint32_t)w);
    size_t size = (size_t)count * (size_t)h * (size_t)w;
    uint8_t *pixels = malloc(size > 0 ? size : 1);
    assert_non_null(pixels);
    data_random(5, pixels, size);
    data_add(&out, pixels, size);
    free(pixels);
    return out;
}

data_bytes data_idx_labels(int count, int classes)
{
    data_bytes out = {0};
    data_add_big(&out, 0x801);
    data_add_big(&out, (uint32_t)count);
    for (int i = 0; i < count; i++)
        data_add_byte(&out, i % classes);
    return out;
}
