#include "support/api_data.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const pattern_name[API_PATTERNS] = {"rows", "columns", "checks", "diagonals", "disc", "frame"};

static int is_bright(int pattern, int y, int x)
{
    int dy = 2 * y - API_SIZE + 1, dx = 2 * x - API_SIZE + 1;
    switch (pattern) {
    case 0: return y / 2 % 2;
    case 1: return x / 2 % 2;
    case 2: return (y / 4 + x / 4) % 2;
    case 3: return (y + x) / 3 % 2;
    case 4: return dy * dy + dx * dx < 80;
    default: return y < 3 || x < 3 || y >= API_SIZE - 3 || x >= API_SIZE - 3;
    }
}

void api_data_make(api_data *data, int first, int classes, int per_class, unsigned seed)
{
    int count = classes * per_class;
    uint32_t noise = seed * 2654435761u + 1;
    memset(data, 0, sizeof *data);
    data->pixels = malloc((size_t)count * API_IMAGE);
    data->labels = malloc((size_t)count * sizeof *data->labels);
    assert_non_null(data->pixels);
    assert_non_null(data->labels);
    data->classes = classes;
    data->images = (recollect_images){data->pixels, count, API_SIZE, API_SIZE, 1};
    for (int i = 0; i < classes; i++)
        data->names[i] = pattern_name[first + i];
    for (int i = 0; i < count; i++) {
        data->labels[i] = i % classes;
        for (int p = 0; p < API_IMAGE; p++) {
            noise = noise * 1664525u + 1013904223u;
            int value = (is_bright(first + i % classes, p / API_SIZE, p % API_SIZE) ? 170 : 60) + (int)(noise >> 26);
            data->pixels[(size_t)i * API_IMAGE + (size_t)p] = (uint8_t)value;
        }
    }
}

void api_data_free(api_data *data)
{
    free(data->pixels);
    free(data->labels);
    memset(data, 0, sizeof *data);
}

void api_data_mirror(api_data *data)
{
    for (int at = 0; at < data->images.count * API_IMAGE; at++) {
        int column = at % API_SIZE, other = at + API_SIZE - 1 - 2 * column;
        if (column >= API_SIZE / 2)
            continue;
        uint8_t kept = data->pixels[at];
        data->pixels[at] = data->pixels[other];
        data->pixels[other] = kept;
    }
}

static void set_number(recollect_model *model, const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    assert_int_equal(recollect_model_set(model, name, text), RECOLLECT_OK);
}

void api_set_quick(recollect_model *model, int steps)
{
    set_number(model, "net_width", 4);
    set_number(model, "generator_width", 8);
    set_number(model, "noise", 8);
    set_number(model, "batch", 16);
    set_number(model, "crop_pad", 1);
    set_number(model, "min_steps", 1);
    set_number(model, "epochs", steps + 1);
    set_number(model, "refine_epochs", 1);
    set_number(model, "inversion_steps", steps);
    assert_int_equal(recollect_model_set(model, "flip", "false"), RECOLLECT_OK);
    assert_int_equal(recollect_model_set(model, "milestone", "[]"), RECOLLECT_OK);
}

double api_accuracy(recollect_model *model, const api_data *data)
{
    int count = data->images.count, right = 0;
    int32_t *labels = malloc((size_t)count * sizeof *labels);
    assert_non_null(labels);
    assert_int_equal(recollect_predict(model, &data->images, 1, labels, NULL, NULL), RECOLLECT_OK);
    for (int i = 0; i < count; i++)
        right += strcmp(recollect_model_class_name(model, labels[i]), data->names[data->labels[i]]) == 0;
    free(labels);
    return 100.0 * right / count;
}
