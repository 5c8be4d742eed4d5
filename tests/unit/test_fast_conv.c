/* Convolutions of the CPU backend: what must be true whichever kernel is chosen. A batch gives the bits of its images
 * one by one (small images are multiplied in groups, so a mistake in a group would show here). Any number of threads
 * gives the same weight gradient (a thread that is done helps others, so a mistake of a helper would show here). Both
 * gradients at once have the bits of one after the other. A smaller batch stays within the memory of a larger one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/conv_both.h"
#include "support/tensors.h"

typedef struct shape {
    int c_in, c_out, k, stride, up, size;
} shape;

static const shape shapes[] = {
    {16, 16, 3, 1, 1, 4}, {16, 20, 3, 1, 1, 2}, {64, 32, 3, 1, 1, 8}, {16, 16, 3, 1, 1, 7},
    {32, 16, 3, 1, 2, 4}, {8, 16, 3, 2, 1, 5},  {3, 16, 3, 1, 1, 6},  {32, 3, 3, 1, 1, 6},
    {12, 24, 1, 1, 1, 3}, {32, 32, 3, 1, 1, 1}, {24, 40, 4, 2, 1, 4}, {40, 20, 1, 1, 1, 1},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0], N = 131 };

/* Where everything is slow, some images (the last among them) and fewer numbers of threads do. */
static int step(int usual, int light)
{
    return getenv("RECOLLECT_TEST_LIGHT") != NULL ? light : usual;
}

static rc_conv geometry(const shape *s)
{
    rc_conv conv = {.c_in = s->c_in, .c_out = s->c_out, .k = s->k, .stride = s->stride, .pad = s->k / 2, .up = s->up};
    conv.h = conv.w = s->size;
    conv.oh = conv.ow = (s->size * s->up + 2 * conv.pad - s->k) / s->stride + 1;
    return conv;
}

static float *random_reals(rc_backend *be, size_t count, uint64_t seed)
{
    static double values[N * 64 * 64];
    assert_true(count <= sizeof values / sizeof values[0]);
    fill_random(values, count, seed);
    return new_reals(be, values, count);
}

/* Image i of a batch, as a batch of one. */
static rc_tensor image_of(const rc_backend *be, const rc_tensor *t, int i)
{
    rc_tensor one = *t;
    one.n = one.group_end[0] = 1;
    one.raw = rc_act_at(be, t->raw, (size_t)i * rc_act_count(be, 1, t->h, t->w, t->c));
    return one;
}

static void batch_is_its_images(void **state)
{
    (void)state;
    enum { THREADS = 16 }; /* 8 images for some of them, 9 for others: groups of 4 end in different ways */
    rc_backend *be;
    assert_int_equal(rc_backend_open("cpu", THREADS, NULL, &be), RC_OK);
    for (int i = 0; i < SHAPES; i++) {
        rc_conv conv = geometry(&shapes[i]);
        assert_int_equal(be->reserve_conv(be, &conv, N), RC_OK);
        size_t in = rc_act_count(be, 1, conv.h, conv.w, conv.c_in);
        size_t out = rc_act_count(be, 1, conv.oh, conv.ow, conv.c_out);
        rc_tensor x = {.n = N, .h = conv.h, .w = conv.w, .c = conv.c_in, .groups = 1, .group_end = {N}};
        rc_tensor y = {.n = N, .h = conv.oh, .w = conv.ow, .c = conv.c_out, .groups = 1, .group_end = {N}};
        x.raw = random_reals(be, N * in, 1);
        y.raw = random_reals(be, N * out, 2);
        float *weight = random_reals(be, (size_t)(conv.c_in * conv.c_out * conv.k * conv.k), 3);
        float *result = random_reals(be, out, 4), *dx = random_reals(be, N * in, 5), *dx_one = random_reals(be, in, 6);
        rc_epilogue plain = {0};
        rc_back_epilogue back = {.x = &x};
        rc_grad dy = {.y = &y, .g = y.raw};
        be->conv_backward_data(be, &conv, &dy, weight, dx, &back);
        for (int image = 0; image < N; image += step(1, 13)) {
            rc_tensor x_one = image_of(be, &x, image), y_one = image_of(be, &y, image);
            rc_grad dy_one = {.y = &y_one, .g = y_one.raw};
            rc_back_epilogue back_one = {.x = &x_one};
            be->conv_backward_data(be, &conv, &dy_one, weight, dx_one, &back_one);
            assert_memory_equal(dx_one, dx + (size_t)image * in, in * sizeof(float));
        }
        be->conv_forward(be, &conv, &x, weight, NULL, &y, &plain);
        for (int image = 0; image < N; image += step(1, 13)) {
            rc_tensor x_one = image_of(be, &x, image), y_one = image_of(be, &y, image);
            const void *whole = y_one.raw;
            y_one.raw = result;
            be->conv_forward(be, &conv, &x_one, weight, NULL, &y_one, &plain);
            assert_memory_equal(result, whole, out * sizeof(float));
        }
        assert_int_equal(be->sync(be), RC_OK);
        void *held[] = {x.raw, y.raw, weight, result, dx, dx_one};
        for (size_t h = 0; h < sizeof held / sizeof held[0]; h++)
            be->release(be, held[h]);
    }
    rc_backend_close(be);
}

/* Weight and bias gradient of a convolution with so many threads. */
static void weight_gradient(const rc_conv *conv, int threads, float *dweight, float *dbias)
{
    rc_backend *be;
    assert_int_equal(rc_backend_open("cpu", threads, NULL, &be), RC_OK);
    assert_int_equal(be->reserve_conv(be, conv, N), RC_OK);
    rc_tensor x = {.n = N, .h = conv->h, .w = conv->w, .c = conv->c_in, .groups = 1, .group_end = {N}};
    rc_tensor y = {.n = N, .h = conv->oh, .w = conv->ow, .c = conv->c_out, .groups = 1, .group_end = {N}};
    x.raw = random_reals(be, rc_act_count(be, N, x.h, x.w, x.c), 1);
    y.raw = random_reals(be, rc_act_count(be, N, y.h, y.w, y.c), 2);
    rc_grad dy = {.y = &y, .g = y.raw};
    be->conv_backward_weight(be, conv, &x, &dy, dweight, dbias);
    assert_int_equal(be->sync(be), RC_OK);
    be->release(be, x.raw);
    be->release(be, y.raw);
    rc_backend_close(be);
}

static void threads_do_not_show(void **state)
{
    (void)state;
    static float dweight[2][64 * 64 * 9], dbias[2][64];
    for (int i = 0; i < SHAPES; i++) {
        rc_conv conv = geometry(&shapes[i]);
        size_t weights = (size_t)(conv.c_in * conv.c_out * conv.k * conv.k), biases = (size_t)conv.c_out;
        weight_gradient(&conv, 1, dweight[0], dbias[0]);
        for (int threads = 2; threads < 24; threads += step(5, 11)) { /* more than there are cores: some are late */
            weight_gradient(&conv, threads, dweight[1], dbias[1]);
            assert_memory_equal(dweight[1], dweight[0], weights * sizeof(float));
            assert_memory_equal(dbias[1], dbias[0], biases * sizeof(float));
        }
    }
}

/* What the gradients of a convolution are written to. */
typedef struct gradients {
    float *dweight, *dbias, *dx, *partial;
} gradients;

static gradients new_gradients(rc_backend *be, const size_t count[4])
{
    return (gradients){random_reals(be, count[0], 4), random_reals(be, count[1], 5), random_reals(be, count[2], 6),
                       random_reals(be, count[3], 7)};
}

static void compare_gradients(rc_backend *be, const gradients *a, const gradients *b, const size_t count[4])
{
    float *const first[] = {a->dweight, a->dbias, a->dx, a->partial};
    float *const second[] = {b->dweight, b->dbias, b->dx, b->partial};
    for (int i = 0; i < 4; i++) {
        assert_memory_equal(first[i], second[i], count[i] * sizeof(float));
        be->release(be, first[i]);
        be->release(be, second[i]);
    }
}

/* An input of a normalisation, whose sums are taken, and a gradient with everything pending. */
static void compare_at_once(rc_backend *be, const rc_conv *conv, int n, bool add)
{
    assert_int_equal(be->reserve_conv(be, conv, n), RC_OK);
    rc_tensor x = {.n = n, .h = conv->h, .w = conv->w, .c = conv->c_in, .groups = 1, .group_end = {n}};
    rc_tensor y = {.n = n, .h = conv->oh, .w = conv->ow, .c = conv->c_out, .groups = 1, .group_end = {n}};
    size_t in = rc_act_count(be, n, x.h, x.w, x.c), out = rc_act_count(be, n, y.h, y.w, y.c);
    const size_t count[4] = {(size_t)(conv->c_in * conv->c_out * conv->k * conv->k), (size_t)conv->c_out, in,
                             be->partial_bytes(be, n, x.h, x.w, x.c) / sizeof(float)};
    float *channels[6];
    for (uint64_t i = 0; i < 6; i++)
        channels[i] = random_reals(be, 64, 10 + i);
    x.raw = random_reals(be, in, 1);
    x.mean = channels[0];
    y.raw = random_reals(be, out, 2);
    y.act = RC_ACT_RELU;
    y.scale = channels[1];
    y.shift = channels[2];
    rc_grad dy = {.y = &y, .g = random_reals(be, out, 3), .a = channels[3], .b = channels[4], .c = channels[5]};
    float *weight = random_reals(be, count[0], 8);
    gradients one = new_gradients(be, count), both = new_gradients(be, count);
    rc_back_epilogue epilogue = {.x = &x, .partial = one.partial, .add = add};
    be->conv_backward_weight(be, conv, &x, &dy, one.dweight, one.dbias);
    be->conv_backward_data(be, conv, &dy, weight, one.dx, &epilogue);
    epilogue.partial = both.partial;
    rc_conv_both_of(be)(be, conv, &x, &dy, weight, both.dweight, both.dbias, both.dx, &epilogue);
    assert_int_equal(be->sync(be), RC_OK);
    compare_gradients(be, &one, &both, count);
    void *held[] = {x.raw, y.raw, weight, (void *)(uintptr_t)dy.g};
    for (size_t h = 0; h < sizeof held / sizeof held[0]; h++)
        be->release(be, held[h]);
    for (int i = 0; i < 6; i++)
        be->release(be, channels[i]);
}

static void both_gradients_at_once(void **state)
{
    (void)state;
    for (int threads = 1; threads < 8; threads += 3) {
        rc_backend *be;
        assert_int_equal(rc_backend_open("cpu", threads, NULL, &be), RC_OK);
        for (int i = 0; i < SHAPES; i++) {
            rc_conv conv = geometry(&shapes[i]);
            compare_at_once(be, &conv, i % 3 == 0 ? N : i % 3 == 1 ? 32 : 31, i % 2 == 1);
        }
        rc_backend_close(be);
    }
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

/* A block begins with its size, and nobody may write behind it. */
enum { HEAD = 64, GUARD = 1 << 18, UNTOUCHED = 0xa5 };

static void *alloc_guarded(void *user, size_t size, size_t align)
{
    (void)user;
    size_t bytes = (HEAD + size + GUARD + align - 1) / align * align;
    char *block = align == HEAD ? aligned_alloc(align, bytes) : NULL;
    if (!block)
        return NULL;
    memcpy(block, &size, sizeof size);
    memset(block + HEAD + size, UNTOUCHED, GUARD);
    return block + HEAD;
}

static void free_guarded(void *user, void *memory)
{
    size_t size, *touched = user;
    if (!memory)
        return;
    char *block = (char *)memory - HEAD;
    memcpy(&size, block, sizeof size);
    for (size_t i = 0; i < GUARD; i++)
        *touched += (unsigned char)block[HEAD + size + i] != UNTOUCHED;
    free(block);
}

/* Of some batches that are smaller than what there is memory for, a thread has more to keep than of that one. */
static void smaller_batches_fit(void **state)
{
    (void)state;
    enum { MOST = 128 };
    static const int batches[] = {33, 48, 49, 80, 112, 113, MOST};
    for (int i = 0; i < SHAPES; i++) {
        size_t touched = 0;
        const rc_allocator guarded = {alloc_guarded, free_guarded, &touched};
        rc_backend *be;
        assert_int_equal(rc_backend_open_with("cpu", 2, NULL, &guarded, &be), RC_OK);
        rc_conv conv = geometry(&shapes[i]);
        assert_int_equal(be->reserve_conv(be, &conv, MOST), RC_OK);
        rc_tensor x = {.h = conv.h, .w = conv.w, .c = conv.c_in, .groups = 1};
        rc_tensor y = {.h = conv.oh, .w = conv.ow, .c = conv.c_out, .groups = 1};
        size_t in = rc_act_count(be, MOST, x.h, x.w, x.c), weights = (size_t)(conv.c_in * conv.c_out * conv.k * conv.k);
        float *weight = random_reals(be, weights, 3), *dweight = random_reals(be, weights, 4);
        float *dbias = random_reals(be, (size_t)conv.c_out, 5), *dx = random_reals(be, in, 6);
        x.raw = random_reals(be, in, 1);
        y.raw = random_reals(be, rc_act_count(be, MOST, y.h, y.w, y.c), 2);
        for (size_t k = 0; k < sizeof batches / sizeof batches[0]; k++) {
            x.n = y.n = x.group_end[0] = y.group_end[0] = batches[k];
            const rc_grad dy = {.y = &y, .g = y.raw};
            const rc_back_epilogue epilogue = {.x = &x};
            be->conv_backward_weight(be, &conv, &x, &dy, dweight, dbias);
            rc_conv_both_of(be)(be, &conv, &x, &dy, weight, dweight, dbias, dx, &epilogue);
        }
        assert_int_equal(be->sync(be), RC_OK);
        void *held[] = {x.raw, y.raw, weight, dweight, dbias, dx};
        for (size_t h = 0; h < sizeof held / sizeof held[0]; h++)
            be->release(be, held[h]);
        rc_backend_close(be);
        if (touched > 0)
            fail_msg("shape %d: %zu bytes behind a block were written", i, touched);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(batch_is_its_images), cmocka_unit_test(threads_do_not_show),
                                       cmocka_unit_test(both_gradients_at_once), cmocka_unit_test(smaller_batches_fit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
