/* Opening backends, the step, batches and optimisers, on every CPU backend. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "support/tensors.h"

static void open_errors(void **state)
{
    (void)state;
    rc_backend *be = (rc_backend *)(uintptr_t)1;
    assert_int_equal(rc_backend_open("gpu", 0, NULL, &be), RC_INVALID_ARGUMENT);
    assert_null(be);
    assert_non_null(strstr(rc_message(), "'gpu'"));
    assert_non_null(strstr(rc_message(), "cpu, cuda, reference or reference64"));
    assert_int_equal(rc_backend_open("cpu", -3, NULL, &be), RC_INVALID_ARGUMENT);
    assert_non_null(strstr(rc_message(), "-3"));
    rc_backend_close(NULL);
}

static char logged[RC_LOG_LINE_SIZE];

static void keep_line(void *user, int level, const char *text)
{
    assert_ptr_equal(user, logged);
    if (level == RC_LOG_INFO)
        strncpy(logged, text, sizeof logged - 1);
}

static void instruction_set_choice(void **state)
{
    (void)state;
    const char *before = getenv("RECOLLECT_ISA");
    char kept[64] = "";
    if (before)
        strncpy(kept, before, sizeof kept - 1);
    unsetenv("RECOLLECT_ISA");
    const rc_log log = {.write = keep_line, .user = logged, .level = RC_LOG_DEBUG};
    rc_backend *be;
    assert_int_equal(rc_backend_open("cpu", 1, &log, &be), RC_OK);
    const char *widest = be->about.isa;
    assert_int_equal(be->about.threads, 1);
    assert_non_null(strstr(logged, widest));
    rc_backend_close(be);

    setenv("RECOLLECT_ISA", "mmx", 1);
    assert_int_equal(rc_backend_open("cpu", 1, NULL, &be), RC_UNSUPPORTED);
    assert_null(be);
    assert_non_null(strstr(rc_message(), "'mmx'"));
    assert_non_null(strstr(rc_message(), widest));
    assert_int_equal(rc_backend_open("reference", 1, NULL, &be), RC_OK); /* knows no instruction sets */
    rc_backend_close(be);
#if defined(__x86_64__)
    setenv("RECOLLECT_ISA", "sse2", 1);
    assert_int_equal(rc_backend_open("cpu", 1, NULL, &be), RC_OK);
    assert_string_equal(be->about.isa, "sse2");
    rc_backend_close(be);
#endif
    setenv("RECOLLECT_ISA", widest, 1);
    assert_int_equal(rc_backend_open("cpu", 1, NULL, &be), RC_OK);
    assert_string_equal(be->about.isa, widest);
    rc_backend_close(be);
    if (before)
        setenv("RECOLLECT_ISA", kept, 1);
    else
        unsetenv("RECOLLECT_ISA");
}

/* Every entry is filled, whatever the backend. */
static void no_entry_is_missing(void **state)
{
    (void)state;
    rc_backend *be;
    for (int i = 0; (be = nth_backend(i)); i++) {
        typedef void entry(void);
        for (size_t at = offsetof(rc_backend, destroy); at < sizeof(rc_backend); at += sizeof(entry *)) {
            entry *function;
            memcpy(&function, (const char *)be + at, sizeof function);
            if (!function)
                fail_msg("%s: entry number %zu of the table is missing", be->about.name,
                         (at - offsetof(rc_backend, destroy)) / sizeof(entry *));
        }
        rc_backend_close(be);
    }
}

typedef struct counter {
    rc_backend *be;
    rc_step *step;
    int calls;
} counter;

static void one_step(void *context)
{
    counter *c = context;
    c->be->step_begin(c->be, c->step);
    c->calls++;
}

static void repeat_advances_the_step(void **state)
{
    (void)state;
    rc_backend *be;
    for (int i = 0; (be = nth_backend(i)); i++) {
        rc_step host = {.seed = 1, .batch = UINT32_MAX, .step = UINT32_MAX};
        void *step;
        assert_int_equal(be->alloc(be, sizeof host, &step), RC_OK);
        be->write_bytes(be, step, &host, sizeof host);
        counter context = {be, step, 0};
        assert_int_equal(be->repeat(be, one_step, &context, 3), RC_OK);
        be->read_bytes(be, &host, step, sizeof host);
        assert_int_equal(context.calls, 3);
        assert_int_equal(host.step, 2);
        assert_int_equal(host.batch, 2);
        be->release(be, step);
        rc_backend_close(be);
    }
}

/* Pixel (y, x) of the result is pixel (y + row - pad, x' + column - pad) of the image, x' mirrored if flipped. */
static void augment_geometry(void **state)
{
    (void)state;
    enum { COUNT = 9, N = 4, H = 5, W = 6, C = 3, PAD = 2 };
    uint8_t images[COUNT * H * W * C];
    for (int i = 0; i < COUNT * H * W * C; i++)
        images[i] = (uint8_t)(i * 37 + i / 256);
    const int32_t order[2 * N] = {0, 1, 2, 3, 8, 4, 7, 5}, labels[COUNT] = {10, 11, 12, 13, 14, 15, 16, 17, 18};
    const rc_augment settings = {.h = H,
                                 .w = W,
                                 .c = C,
                                 .pad = PAD,
                                 .flip = true,
                                 .mean = {0.5f, 0.25f, 0.125f},
                                 .std = {0.5f, 0.25f, 2.0f},
                                 .stream = 9};
    const rc_step host = {.seed = 77, .task = 3, .batch = 1, .step = 5};
    const rc_rng rng = {77, (uint64_t)3 << 32 | 9};
    double expected[N * H * W * C];
    int flips = 0;
    for (int b = 0; b < N; b++) {
        uint64_t first = ((uint64_t)5 << 32) + 4 * (uint64_t)b;
        int row = (int)rc_rng_below(rng, first, 2 * PAD + 1) - PAD;
        int column = (int)rc_rng_below(rng, first + 1, 2 * PAD + 1) - PAD;
        bool flip = rc_rng_bits(rng, first + 2) & 0x80000000u;
        flips += flip;
        for (int y = 0; y < H; y++)
            for (int x = 0; x < W; x++)
                for (int c = 0; c < C; c++) {
                    int from_y = y + row, from_x = (flip ? W - 1 - x : x) + column;
                    bool inside = from_y >= 0 && from_y < H && from_x >= 0 && from_x < W;
                    int byte = inside ? images[((order[N + b] * H + from_y) * W + from_x) * C + c] : 0;
                    expected[((b * H + y) * W + x) * C + c] = inside ? (byte / 255.0 - (double)settings.mean[c]) /
                                                                           (double)settings.std[c]
                                                                     : 0;
                }
    }
    assert_true(flips > 0 && flips < N);
    rc_backend *be;
    for (int i = 0; (be = nth_backend(i)); i++) {
        void *pixels, *indices, *step, *all_labels, *batch_labels;
        assert_int_equal(be->alloc(be, sizeof images, &pixels), RC_OK);
        assert_int_equal(be->alloc(be, sizeof order, &indices), RC_OK);
        assert_int_equal(be->alloc(be, sizeof labels, &all_labels), RC_OK);
        assert_int_equal(be->alloc(be, N * sizeof(int32_t), &batch_labels), RC_OK);
        assert_int_equal(be->alloc(be, sizeof host, &step), RC_OK);
        be->write_bytes(be, pixels, images, sizeof images);
        be->write_bytes(be, indices, order, sizeof order);
        be->write_bytes(be, all_labels, labels, sizeof labels);
        be->write_bytes(be, step, &host, sizeof host);
        rc_tensor out = new_tensor(be, N, H, W, C, NULL);
        be->augment(be, &settings, pixels, indices, N, step, &out);
        expect_act(be, &out, out.raw, expected);

        /* without crop and flip: the normalised image */
        rc_augment plain = settings;
        plain.pad = 0;
        plain.flip = false;
        be->augment(be, &plain, pixels, indices, N, step, &out);
        double copy[N * H * W * C];
        for (int k = 0; k < N * H * W * C; k++)
            copy[k] = (images[order[N + k / (H * W * C)] * H * W * C + k % (H * W * C)] / 255.0 -
                       (double)plain.mean[k % C]) /
                      (double)plain.std[k % C];
        expect_act(be, &out, out.raw, copy);

        int32_t found[N];
        be->gather_labels(be, all_labels, indices, N, step, batch_labels);
        be->read_bytes(be, found, batch_labels, sizeof found);
        assert_memory_equal(found, ((const int32_t[N]){18, 14, 17, 15}), sizeof found);
        void *all[] = {pixels, indices, step, all_labels, batch_labels};
        for (size_t k = 0; k < sizeof all / sizeof all[0]; k++)
            be->release(be, all[k]);
        free_tensor(be, &out);
        rc_backend_close(be);
    }
}

/* Element e of a step's draws, counted without the pad channels, is element (step << 32) + e of the stream. */
static void normals_come_from_the_stream(void **state)
{
    (void)state;
    enum { N = 3, C = 7 };
    const rc_step host = {.seed = 5, .task = 2, .step = 40};
    double expected[N * C];
    for (int e = 0; e < N * C; e++)
        expected[e] = rc_rng_normal((rc_rng){5, (uint64_t)2 << 32 | 6}, ((uint64_t)40 << 32) + (uint64_t)e);
    rc_backend *be;
    for (int i = 0; (be = nth_backend(i)); i++) {
        void *step;
        assert_int_equal(be->alloc(be, sizeof host, &step), RC_OK);
        be->write_bytes(be, step, &host, sizeof host);
        rc_tensor out = new_tensor(be, N, 1, 1, C, NULL);
        be->random_normal(be, 6, step, &out);
        expect_act(be, &out, out.raw, expected);
        be->release(be, step);
        free_tensor(be, &out);
        rc_backend_close(be);
    }
}

/* Three steps of each by the formulas, gradients that change. */
static void optimisers_by_hand(void **state)
{
    (void)state;
    enum { COUNT = 21, STEPS = 3 };
    const float lr = 0.125f, keep = 0.75f, decay = 0.5f, beta1 = 0.875f, beta2 = 0.96875f, eps = 0.0625f;
    double start[COUNT], grads[STEPS][COUNT], sgd_p[COUNT], sgd_v[COUNT] = {0};
    double adam_p[COUNT], adam_m[COUNT] = {0}, adam_v[COUNT] = {0};
    fill_random(start, COUNT, 1);
    memcpy(sgd_p, start, sizeof start);
    memcpy(adam_p, start, sizeof start);
    for (int t = 0; t < STEPS; t++) {
        fill_random(grads[t], COUNT, 2 + (uint64_t)t);
        for (int k = 0; k < COUNT; k++) {
            double g = grads[t][k] + (double)decay * sgd_p[k];
            sgd_v[k] = t == 0 ? g : (double)keep * sgd_v[k] + g;
            sgd_p[k] -= (double)lr * sgd_v[k];
            g = grads[t][k];
            adam_m[k] = (double)beta1 * adam_m[k] + (1 - (double)beta1) * g;
            adam_v[k] = (double)beta2 * adam_v[k] + (1 - (double)beta2) * g * g;
            double m_hat = adam_m[k] / (1 - pow((double)beta1, t + 1)),
                   v_hat = adam_v[k] / (1 - pow((double)beta2, t + 1));
            adam_p[k] -= (double)lr * m_hat / (sqrt(v_hat) + (double)eps);
        }
    }
    rc_backend *be;
    for (int i = 0; (be = nth_backend(i)); i++) {
        rc_step host = {.step = UINT32_MAX, .batch = UINT32_MAX, .learning_rate = lr};
        void *step;
        assert_int_equal(be->alloc(be, sizeof host, &step), RC_OK);
        be->write_bytes(be, step, &host, sizeof host);
        void *p = new_reals(be, start, COUNT), *v = new_reals(be, NULL, COUNT), *g = new_reals(be, NULL, COUNT);
        void *q = new_reals(be, start, COUNT), *m1 = new_reals(be, NULL, COUNT), *m2 = new_reals(be, NULL, COUNT);
        for (int t = 0; t < STEPS; t++) {
            be->step_begin(be, step);
            be->write_real64(be, g, grads[t], COUNT);
            be->sgd(be, &(rc_sgd){.momentum = keep, .weight_decay = decay}, step, COUNT, p, g, v);
            be->adam(be, &(rc_adam){.beta1 = beta1, .beta2 = beta2, .eps = eps}, step, COUNT, q, g, m1, m2);
        }
        expect_reals(be, p, sgd_p, COUNT);
        expect_reals(be, v, sgd_v, COUNT);
        expect_reals(be, q, adam_p, COUNT);
        expect_reals(be, m1, adam_m, COUNT);
        expect_reals(be, m2, adam_v, COUNT);
        void *all[] = {step, p, v, g, q, m1, m2};
        for (size_t k = 0; k < sizeof all / sizeof all[0]; k++)
            be->release(be, all[k]);
        rc_backend_close(be);
    }
}

/* More elements than the kernels take at once, no round number: every one is updated, and the number of threads changes
 * no bit. */
static void optimisers_reach_every_element(void **state)
{
    (void)state;
    enum { COUNT = 50003, RUNS = 3 };
    const char *const name[RUNS] = {"reference", "cpu", "cpu"};
    const int threads[RUNS] = {1, 1, 3};
    static double start[COUNT], grads[COUNT], found[RUNS][2][COUNT];
    fill_random(start, COUNT, 1);
    fill_random(grads, COUNT, 2);
    const rc_step step = {.step = 0, .learning_rate = 0.5f}; /* the CPU's memory is the host's */
    for (int run = 0; run < RUNS; run++) {
        rc_backend *be;
        assert_int_equal(rc_backend_open(name[run], threads[run], NULL, &be), RC_OK);
        void *p = new_reals(be, start, COUNT), *q = new_reals(be, start, COUNT), *g = new_reals(be, grads, COUNT);
        void *v = new_reals(be, NULL, COUNT), *m1 = new_reals(be, NULL, COUNT), *m2 = new_reals(be, NULL, COUNT);
        be->sgd(be, &(rc_sgd){.momentum = 0.5f, .weight_decay = 0.25f}, &step, COUNT, p, g, v);
        be->adam(be, &(rc_adam){.beta1 = 0.5f, .beta2 = 0.75f, .eps = 0.125f}, &step, COUNT, q, g, m1, m2);
        if (run == 1) {
            expect_reals(be, p, found[0][0], COUNT);
            expect_reals(be, q, found[0][1], COUNT);
        }
        be->read_real64(be, found[run][0], p, COUNT);
        be->read_real64(be, found[run][1], q, COUNT);
        void *all[] = {p, q, g, v, m1, m2};
        for (size_t k = 0; k < sizeof all / sizeof all[0]; k++)
            be->release(be, all[k]);
        rc_backend_close(be);
    }
    assert_memory_equal(found[1], found[2], sizeof found[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(open_errors),         cmocka_unit_test(instruction_set_choice),
        cmocka_unit_test(no_entry_is_missing), cmocka_unit_test(repeat_advances_the_step),
        cmocka_unit_test(augment_geometry),    cmocka_unit_test(normals_come_from_the_stream),
        cmocka_unit_test(optimisers_by_hand),  cmocka_unit_test(optimisers_reach_every_element),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
