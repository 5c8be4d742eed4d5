/* Zoom and colour of batches, seen from outside: the draws are read back from images whose result tells them, on every
 * CPU backend. The formulas are checked against NumPy (test_oracle_operations), the backends against each other
 * (check/cases_data.c). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/tensors.h"

enum { N = 128, STEPS = 24, DRAWS = N * STEPS, SIDE = 16, PIXELS = SIDE * SIDE * 3, NUMBERS = 6, COUNT = 3 };

/* A batch of N samples, all of image number b % COUNT, as bytes: mean 0 and std 1 / 255. */
typedef struct batch {
    rc_backend *be;
    void *images, *order, *step;
    rc_augment augment;
    rc_tensor out;
    double value[N * PIXELS];
} batch;

static void *send(rc_backend *be, const void *from, size_t bytes)
{
    void *memory;
    assert_int_equal(be->alloc(be, bytes, &memory), RC_OK);
    be->write_bytes(be, memory, from, bytes);
    return memory;
}

static void batch_open(batch *b, rc_backend *be, const uint8_t image[PIXELS])
{
    uint8_t images[COUNT * PIXELS];
    int32_t order[N];
    rc_step step = {0};
    for (int i = 0; i < COUNT; i++)
        memcpy(images + i * PIXELS, image, PIXELS);
    for (int i = 0; i < N; i++)
        order[i] = i % COUNT;
    b->be = be;
    b->images = send(be, images, sizeof images);
    b->order = send(be, order, sizeof order);
    b->step = send(be, &step, sizeof step);
    b->augment = (rc_augment){.h = SIDE, .w = SIDE, .c = 3, .std = {1 / 255.0f, 1 / 255.0f, 1 / 255.0f}, .stream = 5};
    b->out = new_tensor(be, N, SIDE, SIDE, 3, NULL);
}

static void batch_make(batch *b, uint64_t seed, uint32_t task, uint32_t step)
{
    rc_step control = {.seed = seed, .task = task, .step = step};
    b->be->write_bytes(b->be, b->step, &control, sizeof control);
    b->be->augment(b->be, &b->augment, b->images, b->order, N, b->step, &b->out);
    b->be->read_act(b->be, b->value, &b->out, b->out.raw);
    assert_int_equal(b->be->sync(b->be), RC_OK);
}

static void batch_close(batch *b)
{
    b->be->release(b->be, b->images);
    b->be->release(b->be, b->order);
    b->be->release(b->be, b->step);
    free_tensor(b->be, &b->out);
    rc_backend_close(b->be);
}

static double byte_at(const batch *b, int sample, int y, int x, int channel)
{
    return b->value[((sample * SIDE + y) * SIDE + x) * 3 + channel];
}

/* ---- images that tell -------------------------------------------------------------------------------------------- */

/* Ten times the row, ten times the column, and nothing: linear, so that values between pixels tell the place. */
static void ramps(uint8_t image[PIXELS])
{
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < SIDE; x++) {
            uint8_t *pixel = image + (y * SIDE + x) * 3;
            pixel[0] = (uint8_t)(10 * y);
            pixel[1] = (uint8_t)(10 * x);
            pixel[2] = 0;
        }
}

/* The side of the window, and where it starts of what is left: 0 to 1. */
static void read_window(const batch *b, int sample, double *side, double *top, double *left)
{
    const int first = 7, last = 8; /* never outside of the image */
    double y = byte_at(b, sample, first, 5, 0) / 10, x = byte_at(b, sample, 5, first, 1) / 10;
    *side = byte_at(b, sample, last, 5, 0) / 10 - y;
    double wide = byte_at(b, sample, 5, last, 1) / 10 - x;
    assert_true(fabs(wide - *side) < 1e-4); /* as wide as high */
    *top = (y + 0.5 - (first + 0.5) * *side) / (SIDE * (1 - *side));
    *left = (x + 0.5 - (first + 0.5) * *side) / (SIDE * (1 - *side));
}

/* Greys of 60 and 120 and a red pixel, far from each other. */
static void greys(uint8_t image[PIXELS])
{
    memset(image, 60, PIXELS);
    memset(image + 3, 120, 3);
    image[6] = 120;
}

static void read_colours(const batch *b, int sample, double *brightness, double *contrast, double *saturation)
{
    double slope = (byte_at(b, sample, 0, 1, 0) - byte_at(b, sample, 0, 0, 0)) / 60;
    *contrast = 1 - (byte_at(b, sample, 0, 0, 0) - 60 * slope) / 127.5;
    *brightness = slope / *contrast;
    *saturation = (byte_at(b, sample, 0, 2, 0) - byte_at(b, sample, 0, 2, 1)) / 60 / slope;
}

/* ---- what is drawn ----------------------------------------------------------------------------------------------- */

static const char *const name[NUMBERS] = {"side", "top", "left", "brightness", "contrast", "saturation"};
static double drawn[NUMBERS][DRAWS]; /* each brought to 0 .. 1 */

enum { BINS = 8 };
static const double zoom = 0.5, colour = 0.25;

static void draw_all(rc_backend *be, bool windows)
{
    static batch b;
    uint8_t image[PIXELS];
    if (windows)
        ramps(image);
    else
        greys(image);
    batch_open(&b, be, image);
    if (windows)
        b.augment.zoom = (uint32_t)(zoom * 0x1p32);
    else
        b.augment.colour = (float)colour;
    for (int step = 0; step < STEPS; step++) {
        batch_make(&b, 3, 2, (uint32_t)step);
        for (int sample = 0; sample < N; sample++) {
            int at = step * N + sample;
            double a[3];
            if (windows)
                read_window(&b, sample, &a[0], &a[1], &a[2]);
            else
                read_colours(&b, sample, &a[0], &a[1], &a[2]);
            for (int i = 0; i < 3; i++)
                drawn[windows ? i : 3 + i][at] = windows ? (i == 0 ? (1 - a[0]) / zoom : a[i])
                                                         : (a[i] - 1) / (2 * colour) + 0.5;
        }
    }
    batch_close(&b);
}

/* Between 0 and 1, all over it: chi squared of 7 degrees of freedom is above 24.3 once in a thousand. The place of a
 * window is not looked at where hardly anything is left to move it in. */
static void expect_uniform(int which)
{
    int bin[BINS] = {0}, count = 0;
    double least = 1, most = 0, chi = 0;
    for (int i = 0; i < DRAWS; i++) {
        bool place = which == 1 || which == 2;
        if (place && drawn[0][i] < 0.02)
            continue;
        double u = drawn[which][i], slack = place ? 2e-3 : 2e-5; /* rounding over what is left */
        if (!(u > -slack && u < 1 + slack))
            fail_msg("%s of draw %d is %g of its range", name[which], i, u);
        least = fmin(least, u);
        most = fmax(most, u);
        bin[u <= 0 ? 0 : u >= 1 ? BINS - 1 : (int)(u * BINS)]++;
        count++;
    }
    for (int k = 0; k < BINS; k++)
        chi += (bin[k] - count / (double)BINS) * (bin[k] - count / (double)BINS) * BINS / count;
    if (!(chi < 24.3))
        fail_msg("%s is not uniform: chi squared %g", name[which], chi);
    assert_true(least < 0.005 && most > 0.995);
}

/* Of DRAWS pairs that have nothing to do with each other: below 4 / sqrt(DRAWS), but once in 16000. */
static void expect_unrelated(int a, int b, int shift)
{
    double mean[2] = {0}, sum[3] = {0};
    int count = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i + shift < DRAWS; i++) {
            double u = drawn[a][i], v = drawn[b][i + shift];
            if (drawn[0][i] < 0.02 || drawn[0][i + shift] < 0.02)
                continue;
            if (pass == 0) {
                mean[0] += u;
                mean[1] += v;
                count++;
            } else {
                u -= mean[0] / count;
                v -= mean[1] / count;
                sum[0] += u * u;
                sum[1] += v * v;
                sum[2] += u * v;
            }
        }
    double correlation = sum[2] / sqrt(sum[0] * sum[1]);
    if (!(fabs(correlation) < 4 / sqrt(count)))
        fail_msg("%s and %s, %d later, have a correlation of %g", name[a], name[b], shift, correlation);
}

static void draws_are_uniform_and_unrelated(void **state)
{
    (void)state;
    rc_backend *be;
    for (int i = 0; (be = nth_backend(i)); i++) {
        rc_backend *again = nth_backend(i);
        draw_all(be, true);
        draw_all(again, false);
        for (int a = 0; a < NUMBERS; a++) {
            expect_uniform(a);
            for (int b = 0; b < NUMBERS; b++) {
                if (a != b)
                    expect_unrelated(a, b, 0);
                expect_unrelated(a, b, 1); /* the next sample */
                expect_unrelated(a, b, N); /* the next step */
            }
        }
    }
}

/* Crop and flip draw what they draw without zoom and colour: hardly any zoom and colour leave hardly any trace. */
static void crop_and_flip_stay_where_they_are(void **state)
{
    (void)state;
    static batch b;
    static double plain[N * PIXELS];
    uint8_t image[PIXELS];
    for (int i = 0; i < PIXELS; i++)
        image[i] = (uint8_t)(i * 2654435761u >> 13);
    rc_backend *be;
    for (int i = 0; (be = nth_backend(i)); i++) {
        batch_open(&b, be, image);
        b.augment.pad = 4;
        b.augment.flip = true;
        batch_make(&b, 9, 1, 6);
        memcpy(plain, b.value, sizeof plain);
        b.augment.zoom = 1;
        b.augment.colour = 1e-7f;
        batch_make(&b, 9, 1, 6);
        for (int k = 0; k < N * PIXELS; k++)
            assert_true(fabs(b.value[k] - plain[k]) < 255e-6);
        batch_close(&b);
    }
}

/* Pads are zero, whatever the colours, and what is left of the crop's edge is the edge. */
static void pads_keep_their_value(void **state)
{
    (void)state;
    static batch b;
    uint8_t image[PIXELS];
    memset(image, 200, sizeof image);
    rc_backend *be;
    for (int i = 0; (be = nth_backend(i)); i++) {
        batch_open(&b, be, image);
        b.augment.pad = 2 * SIDE; /* some crops lie beside the image, some in it */
        b.augment.colour = 1;
        int beside = 0, partly = 0;
        batch_make(&b, 4, 1, 0);
        for (int sample = 0; sample < N; sample++) {
            int zeros = 0;
            double found = 0;
            for (int k = 0; k < PIXELS; k++) {
                double value = b.value[sample * PIXELS + k];
                zeros += value == 0;
                if (value != 0 && found != 0)
                    assert_true(fabs(value - found) < 1e-3);
                found = value != 0 ? value : found;
            }
            beside += zeros == PIXELS;
            partly += zeros > 0 && zeros < PIXELS;
        }
        assert_true(beside > N / 8 && partly > N / 8);
        b.augment = (rc_augment){
            .h = SIDE, .w = SIDE, .c = 3, .zoom = 0xe0000000, .std = {1 / 255.0f, 1 / 255.0f, 1 / 255.0f}, .stream = 5};
        batch_make(&b, 4, 1, 0);
        for (int k = 0; k < N * PIXELS; k++)
            assert_true(fabs(b.value[k] - 200) < 1e-3);
        batch_close(&b);
    }
}

/* Seed, task, step and stream choose other draws; the image and its place in the data do not. */
static void draws_belong_to_seed_task_step_and_sample(void **state)
{
    (void)state;
    static batch b;
    static double first[N * PIXELS];
    static const struct {
        uint64_t seed;
        uint32_t task, step, stream;
    } other[] = {{8, 1, 6, 5}, {7, 2, 6, 5}, {7, 1, 7, 5}, {7, 1, 6, 6}};
    uint8_t image[PIXELS];
    ramps(image);
    rc_backend *be;
    for (int i = 0; (be = nth_backend(i)); i++) {
        batch_open(&b, be, image);
        b.augment.zoom = 0x80000000;
        b.augment.colour = 0.25f;
        batch_make(&b, 7, 1, 6);
        memcpy(first, b.value, sizeof first);
        batch_make(&b, 7, 1, 6);
        assert_memory_equal(b.value, first, sizeof first);
        for (int k = 0; k < N; k++) /* three images with the same bytes: no two samples alike */
            for (int m = 0; m < k; m++)
                assert_memory_not_equal(first + k * PIXELS, first + m * PIXELS, PIXELS * sizeof *first);
        for (size_t k = 0; k < sizeof other / sizeof *other; k++) {
            b.augment.stream = other[k].stream;
            batch_make(&b, other[k].seed, other[k].task, other[k].step);
            for (int m = 0; m < N; m++)
                assert_memory_not_equal(b.value + m * PIXELS, first + m * PIXELS, PIXELS * sizeof *first);
            b.augment.stream = 5;
        }
        batch_close(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draws_are_uniform_and_unrelated),
        cmocka_unit_test(crop_and_flip_stay_where_they_are),
        cmocka_unit_test(pads_keep_their_value),
        cmocka_unit_test(draws_belong_to_seed_task_step_and_sample),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
