/* The CUDA backend without a GPU: finding and opening the module, and every operation on the emulation of CUDA that
 * lies beside this file. usage: check_module MODULE control|operations|launches */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/backend.h"
#include "check/case.h"
#include "check/compare.h"
#include "check/selftest.h"
#include "cil/sources.h"
#include "nn/pass.h"
#include "support/parts.h"

static const char *module;

static void use_module(const char *path)
{
    assert_int_equal(setenv("RECOLLECT_CUDA_MODULE", path, 1), 0);
}

static void assert_refused(const char *name, rc_status expected, const char *words)
{
    rc_backend *be;
    assert_int_equal(rc_backend_open(name, 1, NULL, &be), expected);
    assert_null(be);
    if (!strstr(rc_message(), words))
        fail_msg("'%s' does not say '%s'", rc_message(), words);
}

/* ---- opening --------------------------------------------------------------------------------------------------- */

static void test_says_what_is_missing(void **state)
{
    (void)state;
    assert_int_equal(unsetenv("RECOLLECT_CUDA_MODULE"), 0);
    assert_refused("cuda", RC_UNSUPPORTED, "cmake -DRC_CUDA=ON");
    use_module("/nowhere/module.so");
    assert_refused("cuda", RC_UNSUPPORTED, "/nowhere/module.so");
    use_module(RC_SOURCE_DIR "/README.md");
    assert_refused("cuda", RC_UNSUPPORTED, "RECOLLECT_CUDA_MODULE");
    assert_refused("cuda:fp64", RC_INVALID_ARGUMENT, "expected bf16 or fp32");
    assert_refused("cpu:bf16", RC_UNSUPPORTED, "cuda alone");
}

static void test_opens_both_precisions(void **state)
{
    (void)state;
    static const char *const name[] = {"cuda", "cuda:bf16", "cuda:fp32", "cuda::8388608"};
    static const size_t bytes[] = {2, 2, 4, 2};
    use_module(module);
    for (int i = 0; i < 4; i++) {
        rc_backend *be;
        assert_int_equal(rc_backend_open(name[i], 1, NULL, &be), RC_OK);
        assert_string_equal(be->about.name, "cuda");
        assert_string_equal(be->about.precision, bytes[i] == 2 ? "bf16" : "fp32");
        assert_string_equal(be->about.isa, bytes[i] == 2 ? "sm_90 bf16" : "sm_90 fp32");
        assert_string_equal(be->about.judge, "cpu");
        assert_non_null(be->about.device);
        assert_int_equal(be->about.threads, 1);
        assert_int_equal(be->about.runs_at_once, 2);
        assert_true(be->about.device_memory && be->about.device_shared && be->about.asynchronous);
        assert_true(be->about.more_checks && be->about.fuses);
        assert_false(be->about.takes_threads || be->about.reaches_peak || be->about.survives_fork);
        assert_int_equal(be->act_bytes, bytes[i]);
        assert_int_equal(be->channel_multiple, 8);
        rc_backend_close(be);
    }
}

static void must_open(const char *name, rc_backend **be)
{
    use_module(module);
    if (rc_backend_open(name, 1, NULL, be) != RC_OK)
        fail_msg("%s: %s", name, rc_message());
}

static void expect_card(const char *device)
{
    rc_backend *be;
    must_open("cuda", &be);
    assert_string_equal(be->about.device, device);
    rc_backend_close(be);
}

/* Processes of one machine take its cards in turn. One that was started alone stays on the card that it has. */
static void test_takes_cards_in_turn(void **state)
{
    (void)state;
    static const char *const name[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"};
    assert_int_equal(setenv("RECOLLECT_EMULATED_CARDS", "3", 1), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(setenv(name[i], "5", 1), 0);
        expect_card("emulated card 2");
        assert_int_equal(setenv(name[i], "1", 1), 0);
        expect_card("emulated card 1");
        assert_int_equal(unsetenv(name[i]), 0);
        expect_card("emulated card 1");
        assert_int_equal(setenv(name[i], "3", 1), 0);
        expect_card("emulated on the CPU");
        assert_int_equal(unsetenv(name[i]), 0);
    }
    assert_int_equal(unsetenv("RECOLLECT_EMULATED_CARDS"), 0);
}

/* ---- memory ---------------------------------------------------------------------------------------------------- */

/* The largest block that there is room for. */
static size_t room_of(rc_backend *be)
{
    size_t room = 0;
    for (size_t more = (size_t)1 << 24; more > 0; more /= 2) {
        void *memory;
        if (be->alloc(be, room + more, &memory) == RC_OK) {
            room += more;
            be->release(be, memory);
        }
    }
    return room;
}

/* What was given back serves a larger block, though it lies in the pool in pieces. */
static void test_memory_in_pieces(void **state)
{
    (void)state;
    rc_backend *be;
    void *memory;
    assert_int_equal(setenv("RECOLLECT_EMULATED_BYTES", "16777216", 1), 0);
    must_open("cuda", &be);
    assert_int_equal(be->alloc(be, (size_t)10 << 20, &memory), RC_OK);
    be->release(be, memory);
    assert_int_equal(be->alloc(be, (size_t)11 << 20, &memory), RC_OK);
    assert_int_equal(be->alloc(be, (size_t)4 << 20, &memory), RC_OUT_OF_MEMORY);
    assert_string_equal(rc_message(),
                        "cuda: no 4.0 MiB left on emulated on the CPU: 14.0 MiB are held, 2.0 of 16.0 MiB are "
                        "free; use a smaller batch, or end other programs on the GPU (nvidia-smi lists them)");
    assert_int_equal(be->sync(be), RC_OK);
    rc_backend_close(be);
    assert_int_equal(unsetenv("RECOLLECT_EMULATED_BYTES"), 0);
}

/* Whatever was there before, its room comes back whole. */
static void test_room_comes_back(void **state)
{
    (void)state;
    enum { BYTES = 300000 };
    rc_backend *be;
    void *memory, *images;
    must_open("cuda:fp32:8388608", &be);
    size_t room = room_of(be);
    assert_in_range(room, (size_t)4 << 20, (size_t)5 << 20);
    assert_int_equal(be->alloc(be, BYTES, &memory), RC_OK);
    assert_int_equal(be->alloc_images(be, BYTES, &images), RC_OK);
    be->release(be, images);
    be->release(be, memory);
    assert_int_equal(be->alloc_images(be, (size_t)9 << 20, &images), RC_OK); /* on the host */
    be->release(be, images);
    assert_int_equal(room_of(be), room);
    assert_int_equal(be->sync(be), RC_OK);
    rc_backend_close(be);
}

static float loss_of_a_lane(rc_backend *be, int lane)
{
    enum { CLASSES = 4, OLD = 2, FEATURES = 8, REALS = 2 * CLASSES * FEATURES + 2 };
    void *memory;
    float numbers[REALS], value;
    assert_int_equal(be->alloc(be, sizeof numbers, &memory), RC_OK);
    for (int i = 0; i < REALS; i++)
        numbers[i] = (float)(i % 7);
    be->write_real(be, memory, numbers, REALS);
    be->fork(be, lane);
    be->loss_war(be, CLASSES, OLD, FEATURES, false, memory, rc_real_at(be, memory, REALS - 1),
                 rc_real_at(be, memory, REALS - 2), rc_real_at(be, memory, CLASSES * FEATURES));
    be->join(be, lane);
    be->read_real(be, &value, rc_real_at(be, memory, REALS - 2), 1);
    if (be->sync(be) != RC_OK)
        fail_msg("lane %d: %s", lane, rc_message());
    be->release(be, memory);
    return value;
}

/* What is left once layers of 32 or 64 channels, or of both, have their workspace. */
static size_t room_after(bool narrow, bool wide)
{
    rc_conv conv = {.c_in = 32, .k = 3, .stride = 1, .pad = 1, .up = 1, .h = 16, .w = 16, .oh = 16, .ow = 16};
    rc_backend *be;
    must_open("cuda:bf16:33554432", &be);
    conv.c_out = 32;
    if (narrow)
        assert_int_equal(be->reserve_conv(be, &conv, 128), RC_OK);
    conv.c_out = 64;
    if (wide)
        assert_int_equal(be->reserve_conv(be, &conv, 128), RC_OK);
    size_t room = room_of(be);
    for (int lane = RC_MAIN_LANE; lane <= RC_SIDE_LANE; lane++)
        assert_true(loss_of_a_lane(be, lane) > 0);
    rc_backend_close(be);
    return room;
}

/* Where the lanes need other workspaces, one grows and another stays, and what is held does not tell how it came. */
static void test_workspaces_grow_apart(void **state)
{
    (void)state;
    size_t room = room_after(false, true);
    assert_true(room_after(true, false) > room);
    assert_int_equal(room_after(true, true), room);
}

/* A layer that goes through plain matrices has room for them, in every lane, or is refused. */
static void test_workspaces_of_matrices(void **state)
{
    (void)state;
    static const char *const name[] = {"cuda:fp32:16777216", "cuda:bf16:16777216"};
    const rc_linear linear = {.c_in = 1000, .c = 128, .h = 4, .w = 4};
    const rc_conv whole = {.c_in = 64, .c_out = 4096, .k = 8, .stride = 1, .up = 1, .h = 8, .w = 8, .oh = 1, .ow = 1};
    for (int i = 0; i < 2; i++) {
        rc_backend *be;
        must_open(name[i], &be);
        assert_int_equal(be->reserve_linear(be, &linear, 300), RC_OK); /* 3.7 MB */
        assert_int_equal(be->reserve_linear(be, &linear, 600), RC_OUT_OF_MEMORY);
        assert_int_equal(be->reserve_conv(be, &whole, 120), RC_OK); /* 3.9 MB */
        assert_int_equal(be->reserve_conv(be, &whole, 200), RC_OUT_OF_MEMORY);
        rc_backend_close(be);
    }
}

/* Losses have room for a float of each pixel and channel, or for probabilities, in every lane, or are refused. */
static void test_workspaces_of_losses(void **state)
{
    (void)state;
    rc_backend *be;
    must_open("cuda:fp32:16777216", &be);
    assert_int_equal(be->reserve_losses(be, 8, 10, 160, 200, 3), RC_OK); /* 3.1 MB */
    assert_int_equal(be->reserve_losses(be, 8, 10, 320, 200, 3), RC_OUT_OF_MEMORY);
    assert_int_equal(be->reserve_losses(be, 8, 10, 160, 400, 3), RC_OUT_OF_MEMORY);
    assert_int_equal(be->reserve_losses(be, 16, 10, 160, 200, 3), RC_OUT_OF_MEMORY);
    assert_int_equal(be->reserve_losses(be, 8, 10, 160, 200, 8), RC_OUT_OF_MEMORY);
    assert_int_equal(be->reserve_losses(be, 400, 1000, 1, 1, 1), RC_OK); /* 3.2 MB */
    assert_int_equal(be->reserve_losses(be, 800, 1000, 1, 1, 1), RC_OUT_OF_MEMORY);
    rc_backend_close(be);
}

/* Numbers of another type go through host memory: as many as were asked for, and no more. */
static void test_converts_as_many(void **state)
{
    (void)state;
    enum { COUNT = 5 };
    const double from[COUNT] = {1, -2, 0.5, 4, 3};
    double to[COUNT + 1] = {0};
    rc_backend *be;
    void *memory;
    to[COUNT] = 77;
    must_open("cuda:fp32", &be);
    assert_int_equal(be->alloc(be, (COUNT + 1) * sizeof(float), &memory), RC_OK);
    be->write_real64(be, memory, from, COUNT);
    be->read_real64(be, to, memory, COUNT);
    assert_int_equal(be->sync(be), RC_OK);
    assert_memory_equal(to, from, sizeof from);
    assert_true(to[COUNT] == 77);
    be->release(be, memory);
    rc_backend_close(be);
}

static void test_limits_device_memory(void **state)
{
    (void)state;
    rc_backend *be;
    void *memory = &be;
    use_module(module);
    assert_refused("cuda:bf16:much", RC_INVALID_ARGUMENT, "device memory is 'much'");
    assert_refused("cuda:bf16:-1", RC_INVALID_ARGUMENT, "device memory is '-1'");
    assert_refused("cuda:bf16:", RC_INVALID_ARGUMENT, "device memory is ''");
    assert_refused("cpu:fp32:8388608", RC_UNSUPPORTED, "a limit of device memory is there on backend cuda alone");
    assert_int_equal(rc_backend_open("cuda:bf16:8388608", 1, NULL, &be), RC_OK);
    assert_int_equal(be->alloc(be, (size_t)9 << 20, &memory), RC_OUT_OF_MEMORY);
    assert_null(memory);
    assert_string_equal(rc_message(),
                        "cuda: no 9.0 MiB left of the 8.0 MiB that the setting 'device_memory' allows: 3.0 MiB "
                        "are held; allow more, or use a smaller batch");
    assert_int_equal(be->alloc(be, (size_t)4 << 20, &memory), RC_OK); /* and goes on */
    assert_int_equal(be->sync(be), RC_OK);
    rc_backend_close(be);
}

/* The sums of a weight gradient have room for the blocks that its shape can have, in every lane, and for no more: the
 * widest layer of the 64 px generator, whose maps have 40 MiB. */
static void test_workspace_is_small(void **state)
{
    (void)state;
    rc_backend *be;
    const rc_conv conv = {
        .c_in = 128, .c_out = 128, .k = 3, .stride = 1, .pad = 1, .up = 2, .h = 16, .w = 16, .oh = 32, .ow = 32};
    use_module(module);
    assert_int_equal(rc_backend_open("cuda:bf16:134217728", 1, NULL, &be), RC_OK);
    assert_int_equal(be->reserve_conv(be, &conv, 128), RC_OK);
    rc_backend_close(be);
}

/* A pass that does not fit must not take from those that are there what they compute with. */
static void test_workspace_outlives_a_failure(void **state)
{
    (void)state;
    enum { CLASSES = 4, OLD = 2, FEATURES = 8, REALS = 2 * CLASSES * FEATURES + 2 };
    rc_backend *be;
    void *memory;
    float numbers[REALS], value;
    const rc_conv huge = {
        .c_in = 512, .c_out = 512, .k = 3, .stride = 1, .pad = 1, .up = 1, .h = 64, .w = 64, .oh = 64, .ow = 64};
    use_module(module);
    assert_int_equal(rc_backend_open("cuda:fp32:8388608", 1, NULL, &be), RC_OK);
    assert_int_equal(be->alloc(be, sizeof numbers, &memory), RC_OK);
    for (int i = 0; i < REALS; i++)
        numbers[i] = (float)(i % 7);
    be->write_real(be, memory, numbers, REALS);
    assert_int_equal(be->reserve_conv(be, &huge, 256), RC_OUT_OF_MEMORY);
    assert_non_null(strstr(rc_message(), "the setting 'device_memory' allows"));
    be->loss_war(be, CLASSES, OLD, FEATURES, false, memory, rc_real_at(be, memory, REALS - 1),
                 rc_real_at(be, memory, REALS - 2), rc_real_at(be, memory, CLASSES * FEATURES));
    be->read_real(be, &value, rc_real_at(be, memory, REALS - 2), 1);
    if (be->sync(be) != RC_OK)
        fail_msg("%s", rc_message());
    assert_true(value > 0);
    rc_backend_close(be);
}

/* ---- repeating ------------------------------------------------------------------------------------------------- */

typedef struct counted {
    rc_backend *be;
    rc_step *step;
    int enqueued;
} counted;

static void advance(void *context)
{
    counted *c = context;
    c->enqueued++;
    c->be->step_begin(c->be, c->step);
}

static uint32_t steps_of(counted *c)
{
    rc_step step;
    c->be->read_bytes(c->be, &step, c->step, sizeof step);
    return step.step;
}

/* A step is enqueued once and replayed, until memory comes or goes. */
static void test_repeats_a_captured_step(void **state)
{
    (void)state;
    counted c = {0};
    void *memory, *other;
    use_module(module);
    assert_int_equal(rc_backend_open("cuda", 1, NULL, &c.be), RC_OK);
    assert_int_equal(c.be->alloc(c.be, sizeof(rc_step), &memory), RC_OK);
    c.step = memory;
    assert_int_equal(c.be->repeat(c.be, advance, &c, 5), RC_OK);
    assert_int_equal(c.be->repeat(c.be, advance, &c, 2), RC_OK);
    assert_int_equal(c.enqueued, 1);
    assert_int_equal(steps_of(&c), 7);
    assert_int_equal(c.be->alloc(c.be, 64, &other), RC_OK);
    assert_int_equal(c.be->repeat(c.be, advance, &c, 1), RC_OK);
    c.be->release(c.be, other);
    assert_int_equal(c.be->repeat(c.be, advance, &c, 1), RC_OK);
    assert_int_equal(c.enqueued, 3);
    assert_int_equal(steps_of(&c), 9);
    rc_backend_close(c.be);
}

enum { LAYER_SIDE = 6, LAYER_CHANNELS = 16, LAYER_WEIGHTS = LAYER_CHANNELS * LAYER_CHANNELS * 9 };

typedef struct layer_step {
    rc_backend *be;
    rc_conv conv;
    rc_tensor x, y;
    void *step, *weight, *gradient, *momentum;
} layer_step;

static void run_layer(void *context)
{
    layer_step *l = context;
    rc_backend *be = l->be;
    be->step_begin(be, l->step);
    be->conv_forward(be, &l->conv, &l->x, l->weight, NULL, &l->y, &(rc_epilogue){0});
    be->sgd(be, &(rc_sgd){0}, l->step, LAYER_WEIGHTS, l->weight, l->gradient, l->momentum);
}

/* What the layer makes in the last of three steps, so many at a time. */
static void last_of_layer(const char *backend, int at_once, double *values)
{
    static double ones[LAYER_WEIGHTS];
    const rc_step before = {.batch = UINT32_MAX, .step = UINT32_MAX, .learning_rate = 1};
    const int side = LAYER_SIDE, c = LAYER_CHANNELS;
    layer_step l = {.conv = {.c_in = c, .c_out = c, .k = 3, .stride = 1, .pad = 1, .up = 1},
                    .x = {.n = 1, .h = side, .w = side, .c = c, .groups = 1, .group_end = {1}}};
    rc_backend *be;
    must_open(backend, &be);
    l.be = be;
    l.conv.h = l.conv.w = l.conv.oh = l.conv.ow = side;
    l.y = l.x;
    void **const reals[] = {&l.weight, &l.gradient, &l.momentum};
    for (int i = 0; i < LAYER_WEIGHTS; i++)
        ones[i] = 1;
    for (int i = 0; i < 3; i++)
        assert_int_equal(be->alloc(be, LAYER_WEIGHTS * be->real_bytes, reals[i]), RC_OK);
    assert_int_equal(be->alloc(be, sizeof before, &l.step), RC_OK);
    assert_int_equal(be->alloc(be, rc_act_count(be, 1, side, side, c) * be->act_bytes, &l.x.raw), RC_OK);
    assert_int_equal(be->alloc(be, rc_act_count(be, 1, side, side, c) * be->act_bytes, &l.y.raw), RC_OK);
    be->write_real64(be, l.weight, ones, LAYER_WEIGHTS);
    be->write_real64(be, l.gradient, ones, LAYER_WEIGHTS);
    be->write_bytes(be, l.step, &before, sizeof before);
    be->write_act(be, &l.x, ones);
    assert_int_equal(be->reserve_conv(be, &l.conv, 1), RC_OK);
    for (int i = 0; i < 3; i += at_once)
        assert_int_equal(be->repeat(be, run_layer, &l, at_once), RC_OK);
    be->read_act(be, values, &l.y, l.y.raw);
    assert_int_equal(be->sync(be), RC_OK);
    rc_backend_close(be);
}

/* The weight is 1, 0 and -1 in turn, also where a step keeps it in another form. */
static void test_weights_that_a_step_changes(void **state)
{
    (void)state;
    static const char *const name[] = {"cuda:bf16", "cuda:fp32"};
    double values[LAYER_SIDE * LAYER_SIDE * LAYER_CHANNELS];
    for (int i = 0; i < 4; i++) {
        last_of_layer(name[i / 2], i % 2 ? 3 : 1, values);
        assert_true(values[0] == -4 * LAYER_CHANNELS);
        assert_true(values[(LAYER_SIDE + 1) * LAYER_CHANNELS] == -9 * LAYER_CHANNELS);
    }
}

/* As many steps as a run has are kept. */
static void test_keeps_several_steps(void **state)
{
    (void)state;
    enum { STEPS = 8 };
    counted c[STEPS] = {{0}};
    rc_backend *be;
    void *memory;
    must_open("cuda", &be);
    assert_int_equal(be->alloc(be, STEPS * sizeof(rc_step), &memory), RC_OK);
    for (int i = 0; i < 2 * STEPS; i++) {
        counted *one = &c[i % STEPS];
        one->be = be;
        one->step = (rc_step *)memory + i % STEPS;
        assert_int_equal(be->repeat(be, advance, one, 1 + i % 3), RC_OK);
        assert_int_equal(one->enqueued, 1);
        assert_int_equal(steps_of(one), i < STEPS ? 1 + i % 3 : 2 + (i - STEPS) % 3 + i % 3);
    }
    rc_backend_close(be);
}

static void in_two_lanes(void *context)
{
    counted *c = context;
    for (int lane = RC_WEIGHT_LANE; lane <= RC_SIDE_LANE; lane++) {
        c->be->fork(c->be, lane);
        advance(context);
        c->be->join(c->be, lane);
    }
}

/* A lane that was joined before a step is captured is no part of it, and one that was forked in it is joined. */
static void test_captures_lanes(void **state)
{
    (void)state;
    counted c = {0};
    void *memory;
    must_open("cuda", &c.be);
    assert_int_equal(c.be->alloc(c.be, sizeof(rc_step), &memory), RC_OK);
    c.step = memory;
    in_two_lanes(&c);
    assert_int_equal(c.be->repeat(c.be, advance, &c, 2), RC_OK);
    if (c.be->repeat(c.be, in_two_lanes, &c, 3) != RC_OK || c.be->sync(c.be) != RC_OK)
        fail_msg("%s", rc_message());
    assert_int_equal(steps_of(&c), 2 + 2 + 6);
    assert_int_equal(c.enqueued, 2 + 1 + 2);
    rc_backend_close(c.be);
}

/* ---- images ---------------------------------------------------------------------------------------------------- */

enum { IMAGES = 40, SIDE = 30, BATCH = 16, PIXELS = BATCH * SIDE * SIDE * 3 }; /* no whole lines of 16 bytes */

typedef struct album {
    rc_backend *be;
    void *images;
    rc_step *step;
    int32_t *order;
    rc_augment augment;
    rc_tensor out;
} album;

static void album_open(album *a, rc_backend *be, bool strong)
{
    uint8_t bytes[IMAGES * SIDE * SIDE * 3];
    rc_step step = {.seed = 7, .task = 1, .batch = UINT32_MAX, .step = UINT32_MAX};
    int32_t order[2 * BATCH];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 2654435761u >> 13);
    for (int i = 0; i < 2 * BATCH; i++)
        order[i] = (i * 7 + 3) % IMAGES;
    *a = (album){.be = be,
                 .augment = {.h = SIDE, .w = SIDE, .c = 3, .pad = 4, .flip = true, .std = {1, 1, 1, 1}},
                 .out = {.n = BATCH, .h = SIDE, .w = SIDE, .c = 3, .groups = 1, .group_end = {BATCH}}};
    if (strong) { /* another kernel reads the images */
        a->augment.zoom = 0x80000000;
        a->augment.colour = 0.5f;
    }
    void *memory;
    assert_int_equal(be->alloc(be, sizeof step, &memory), RC_OK);
    a->step = memory;
    assert_int_equal(be->alloc(be, sizeof order, &memory), RC_OK);
    a->order = memory;
    assert_int_equal(be->alloc(be, rc_act_count(be, BATCH, SIDE, SIDE, 3) * be->act_bytes, &a->out.raw), RC_OK);
    assert_int_equal(be->alloc_images(be, sizeof bytes, &a->images), RC_OK);
    be->write_images(be, a->images, 0, bytes, sizeof bytes / 2);
    be->write_images(be, a->images, sizeof bytes / 2, bytes + sizeof bytes / 2, sizeof bytes - sizeof bytes / 2);
    be->write_bytes(be, a->step, &step, sizeof step);
    be->write_bytes(be, a->order, order, sizeof order);
}

static void album_step(void *context)
{
    album *a = context;
    a->be->step_begin(a->be, a->step);
    a->be->augment(a->be, &a->augment, a->images, a->order, BATCH, a->step, &a->out);
}

/* The next batch, (batch, h, w, c). */
static void album_next(album *a, double *values)
{
    assert_int_equal(a->be->repeat(a->be, album_step, a, 1), RC_OK);
    a->be->read_act(a->be, values, &a->out, a->out.raw);
    assert_int_equal(a->be->sync(a->be), RC_OK);
}

static int lines_about_images;

static void count_lines(void *user, int level, const char *text)
{
    (void)user;
    (void)level;
    lines_about_images += strstr(text, "images stay in host memory") != NULL;
}

/* Batches are the same bits wherever images lie: on the device, made to move by later memory, or never there. */
static void test_images_that_do_not_fit(void **state)
{
    (void)state;
    /* Three workspaces of a megabyte are always there. */
    static const char *const name[] = {"cuda:fp32", "cuda:fp32:5242880", "cuda:fp32:3648576"};
    static const int told[] = {0, 1, 1};
    static double expected[2][2][PIXELS], values[PIXELS];
    const rc_log log = {.write = count_lines, .level = RC_LOG_INFO};
    use_module(module);
    for (int k = 0; k < 6; k++) {
        int i = k / 2, strong = k % 2;
        rc_backend *be;
        album a;
        void *memory = NULL;
        lines_about_images = 0;
        assert_int_equal(rc_backend_open(name[i], 1, &log, &be), RC_OK);
        album_open(&a, be, strong);
        album_next(&a, i == 0 ? expected[strong][0] : values);
        if (i > 0)
            assert_memory_equal(values, expected[strong][0], sizeof values);
        if (i == 1) /* and now something else wants their room */
            assert_int_equal(be->alloc(be, 5242880 - 3 * 1048576 - 480000, &memory), RC_OK);
        album_next(&a, i == 0 ? expected[strong][1] : values);
        if (i > 0)
            assert_memory_equal(values, expected[strong][1], sizeof values);
        assert_int_equal(lines_about_images, told[i]);
        uint8_t read[3];
        be->read_images(be, read, a.images, 1000, sizeof read);
        for (size_t m = 0; m < sizeof read; m++)
            assert_int_equal(read[m], (uint8_t)((1000 + m) * 2654435761u >> 13));
        be->release(be, a.images);
        be->release(be, memory);
        be->release(be, a.step);
        be->release(be, a.order);
        be->release(be, a.out.raw);
        assert_int_equal(be->sync(be), RC_OK);
        rc_backend_close(be);
    }
    const rc_log errors = {.write = count_lines, .level = RC_LOG_ERROR};
    rc_backend *be;
    album a;
    lines_about_images = 0;
    assert_int_equal(rc_backend_open(name[2], 1, &errors, &be), RC_OK);
    album_open(&a, be, false);
    assert_int_equal(lines_about_images, 0);
    rc_backend_close(be);
}

static rc_status refuse_one(const void *owner, int32_t index)
{
    return index == *(const int32_t *)owner ? rc_fail(RC_FORMAT, "record %d", (int)index) : RC_OK;
}

/* A device copies what it is lent, in runs of neighbours; memory of its own follows. A damaged image ends that. */
static void test_images_that_are_lent(void **state)
{
    (void)state;
    enum { IMAGE = 12, ALL = 9, LENT = 5 };
    const int32_t index[LENT] = {2, 3, 4, 0, 8};
    uint8_t images[ALL * IMAGE], more[IMAGE], found[(LENT + 1) * IMAGE];
    int32_t broken = -1;
    rc_backend *be;
    void *handle;
    for (size_t i = 0; i < sizeof images; i++)
        images[i] = (uint8_t)(3 * i);
    memset(more, 77, sizeof more);
    rc_lent_images lent = {
        .from = images, .index = index, .count = LENT, .bytes = IMAGE, .check = refuse_one, .owner = &broken};
    use_module(module);
    assert_int_equal(rc_backend_open("cuda:fp32", 1, NULL, &be), RC_OK);
    assert_int_equal(be->lend_images(be, &lent, sizeof more, &handle), RC_OK);
    be->write_images(be, handle, LENT * IMAGE, more, sizeof more);
    assert_int_equal(be->expect_images(be, handle, NULL, 0, NULL), RC_OK);
    be->read_images(be, found, handle, 0, sizeof found);
    assert_int_equal(be->sync(be), RC_OK);
    for (int i = 0; i < LENT; i++)
        assert_memory_equal(found + i * IMAGE, images + index[i] * IMAGE, IMAGE);
    assert_memory_equal(found + LENT * IMAGE, more, IMAGE);
    be->release(be, handle);
    lent.index = NULL; /* the first ones */
    assert_int_equal(be->lend_images(be, &lent, 0, &handle), RC_OK);
    be->read_images(be, found, handle, 0, LENT * IMAGE);
    assert_memory_equal(found, images, LENT * IMAGE);
    be->release(be, handle);
    broken = 4;
    assert_int_equal(be->lend_images(be, &lent, 0, &handle), RC_FORMAT);
    assert_string_equal(rc_message(), "record 4");
    assert_null(handle);
    rc_backend_close(be);
}

/* ---- several backends at once ---------------------------------------------------------------------------------- */

/* What a run does, in small: memory comes and goes, steps are captured and repeated, values are read. */
static void *run_in_thread(void *context)
{
    enum { COUNT = 5000, ROUNDS = 20 };
    bool *right = context;
    counted c = {0};
    void *memory, *values;
    float read[COUNT];
    *right = false;
    if (rc_backend_open("cuda:fp32", 1, NULL, &c.be) != RC_OK)
        return NULL;
    bool same = c.be->alloc(c.be, sizeof(rc_step), &memory) == RC_OK;
    c.step = memory;
    for (int round = 0; same && round < ROUNDS; round++) {
        same = c.be->alloc(c.be, sizeof read, &values) == RC_OK && c.be->repeat(c.be, advance, &c, 3) == RC_OK;
        for (int i = 0; i < COUNT; i++)
            read[i] = (float)(round + i);
        c.be->write_real(c.be, values, read, COUNT);
        c.be->sgd(c.be, &(rc_sgd){0}, c.step, COUNT, values, values, values); /* a rate of 0 leaves them */
        c.be->read_real(c.be, read, values, COUNT);
        for (int i = 0; i < COUNT; i++)
            same = same && read[i] == (float)(round + i);
        c.be->release(c.be, values);
    }
    *right = same && steps_of(&c) == 3 * ROUNDS && c.enqueued == ROUNDS && c.be->sync(c.be) == RC_OK;
    rc_backend_close(c.be);
    return NULL;
}

static void test_several_threads(void **state)
{
    (void)state;
    enum { THREADS = 4 };
    pthread_t thread[THREADS];
    bool right[THREADS];
    use_module(module);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, run_in_thread, &right[i]), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    for (int i = 0; i < THREADS; i++)
        assert_true(right[i]);
}

/* ---- operations ------------------------------------------------------------------------------------------------ */

static void keep_miss(void *user, const char *text)
{
    (void)user;
    if (strncmp(text, "ok", 2) != 0)
        print_message("%s\n", text);
}

/* A few of the quick cases of each; `recollect selftest` with this module does them all. */
static void check_operations(const char *backend)
{
    use_module(module);
    const rc_selftest_settings settings = {
        .backend = backend, .threads = 1, .seed = 1, .quick = true, .only = -1, .every = 24, .line = keep_miss};
    rc_selftest_result result;
    assert_int_equal(rc_selftest(&settings, &result), RC_OK);
    assert_int_equal(result.misses, 0);
    assert_true(result.cases > 50);
}

static void test_operations_in_fp32(void **state)
{
    (void)state;
    check_operations("cuda:fp32");
}

static void test_operations_in_bf16(void **state)
{
    (void)state;
    check_operations("cuda:bf16");
}

/* A block has less than half of the shared memory of other cards: the emulation refuses launches that ask for more. */
static void test_operations_with_less_shared_memory(void **state)
{
    (void)state;
    if (getenv("RECOLLECT_TEST_ALL") == NULL)
        skip(); /* test_architectures.sh tries whole steps */
    assert_int_equal(setenv("RECOLLECT_EMULATED_DEVICE", "sm_86", 1), 0);
    check_operations("cuda:bf16");
    assert_int_equal(unsetenv("RECOLLECT_EMULATED_DEVICE"), 0);
}

static void check_case(const char *operation, uint64_t seed, bool quick, int number)
{
    const rc_selftest_settings settings = {.backend = "cuda:bf16",
                                           .threads = 1,
                                           .seed = seed,
                                           .quick = quick,
                                           .operation = operation,
                                           .only = number,
                                           .line = keep_miss};
    rc_selftest_result result;
    assert_int_equal(rc_selftest(&settings, &result), RC_OK);
    assert_int_equal(result.misses, 0);
    assert_int_equal(result.redrawn, 0);
    assert_true(result.cases > 0);
}

/* Where rounding to bf16 is a good part of the result, and no fault: a channel whose variance is less than that of its
 * rounding, and a gradient of one number along a direction that has it one and a half times. */
static void test_rounding_is_no_fault(void **state)
{
    (void)state;
    use_module(module);
    check_case("conv_forward", 1, false, 265);
    check_case("conv_chain", 1, false, 107 + (1 << 20));
    check_case("conv_chain", 1, false, 56); /* ReLU6: a channel that is 6 all over would have a gradient of roundings */
}

/* Kernels of wide layers take the last of the shapes that nets are made of, where the others are too small: these are
 * draws in which nothing is pending that they do not take, and that are not replaced by others. */
static void test_wide_layers(void **state)
{
    (void)state;
    enum { FIRST = 18, SHAPES = 6 };
    static const struct {
        const char *operation;
        uint64_t seed[SHAPES];
    } draws[] = {
        {"conv_forward", {6, 2, 4, 2, 13, 3}},
        {"conv_backward_data", {13, 24, 4, 16, 27, 7}},
        {"conv_backward_weight", {3, 4, 15, 6, 8, 10}},
    };
    use_module(module);
    for (size_t i = 0; i < sizeof draws / sizeof *draws; i++)
        for (int shape = 0; shape < SHAPES; shape++)
            check_case(draws[i].operation, draws[i].seed[shape], true, FIRST + shape);
    check_case("conv_forward", 2, true, 20);        /* applies a skip and ReLU */
    check_case("conv_forward", 1, true, 18);        /* applies a curved activation */
    check_case("conv_backward_data", 1, true, 23);  /* neither adds nor takes sums */
    check_case("conv_backward_data", 4, true, 29);  /* 64 channels to three: adds, */
    check_case("conv_backward_data", 11, true, 29); /* does not add */
}

/* Cases of many images come once more with few. */
static void check_few(const rc_operation_list *list)
{
    use_module(module);
    for (int i = 0; i < list->count; i++) {
        const rc_operation *operation = &list->operation[i];
        for (int number = operation->quick; number < 2 * operation->quick; number++)
            check_case(operation->name, 1, true, number);
    }
}

/* Two teams of threads share the depth of a product where every block has a multiprocessor. */
static void test_products_of_two_teams(void **state)
{
    (void)state;
    use_module(module);
    assert_int_equal(setenv("RECOLLECT_EMULATED_MULTIPROCESSORS", "16", 1), 0);
    check_case("linear_forward", 1, true, 0);
    check_case("linear_forward", 1, true, 1);
    assert_int_equal(unsetenv("RECOLLECT_EMULATED_MULTIPROCESSORS"), 0);
}

/* As many classes as ImageNet has. */
static void test_many_classes(void **state)
{
    (void)state;
    static const char *const loss[] = {"loss_cross_entropy", "loss_decoupled", "loss_hkd", "loss_kd", "loss_diversity"};
    use_module(module);
    for (size_t i = 0; i < sizeof loss / sizeof *loss; i++)
        check_case(loss[i], 1, true, 9);
    check_case("dense_forward_large", 1, true, 0);
    check_case("dense_forward_large", 1, true, 1); /* with larger tiles, as both below */
    check_case("dense_backward_data_large", 1, true, 1);
    check_case("dense_backward_weight_large", 1, true, 0);
}

/* Whatever the seed, they take the large cases. */
static void test_large_layers(void **state)
{
    (void)state;
    check_few(&rc_cases_large);
}

/* A convolution that is held back finishes its result for who reads it. */
static void test_finished_layers(void **state)
{
    (void)state;
    check_few(&rc_cases_finished);
}

/* Many multiprocessors share the positions of a layer: each has a part, which begins anywhere. */
static void test_large_layers_in_parts(void **state)
{
    (void)state;
    use_module(module);
    assert_int_equal(setenv("RECOLLECT_EMULATED_MULTIPROCESSORS", "12", 1), 0);
    check_case("conv_backward_weight_large", 1, true, 10); /* stride 2 */
    check_case("conv_backward_weight_large", 1, true, 12); /* enlarged */
    check_case("conv_backward_data_large", 1, true, 10);   /* phases of 1, 2, 2 and 4 taps, */
    check_case("conv_backward_data_large", 1, true, 11);   /* or of 1 tap and none, */
    check_case("conv_backward_data_beside", 1, true, 2);   /* or both at once */
    check_case("conv_backward_data_beside", 1, true, 3);
    check_case("conv_forward_first", 1, true, 4);       /* a first layer */
    check_case("conv_forward_first", 1, true, 5);       /* of images that are pending */
    check_case("conv_forward_first", 1, true, 7);       /* one that makes images, */
    check_case("conv_backward_data_last", 1, true, 0);  /* back */
    check_case("conv_forward_thin", 1, true, 26);       /* 16 channels with a sum pending, */
    check_case("conv_backward_data_thin", 1, true, 11); /* and back, added to another; */
    check_case("conv_backward_weight_thin", 1, true, 4);
    check_case("conv_backward_weight_thin", 1, true, 13); /* 13 lines of two strips */
    assert_int_equal(unsetenv("RECOLLECT_EMULATED_MULTIPROCESSORS"), 0);
}

/* Cards without wgmma take the same layers with other kernels. */
static void test_large_layers_without_wgmma(void **state)
{
    (void)state;
    use_module(module);
    assert_int_equal(setenv("RECOLLECT_EMULATED_DEVICE", "sm_80", 1), 0);
    check_case("conv_forward_large", 1, true, 8);        /* 56 pixels */
    check_case("conv_forward_large", 1, true, 14);       /* enlarged, */
    check_case("conv_backward_data_large", 1, true, 14); /* and back */
    check_case("conv_backward_data_large", 1, true, 10); /* stride 2 */
    check_case("conv_backward_data_large", 1, true, 13); /* 14 pixels */
    check_case("conv_forward_finished", 1, true, 9);     /* what nobody finishes on the way */
    assert_int_equal(unsetenv("RECOLLECT_EMULATED_DEVICE"), 0);
}

/* So do cards that have it, where the code is that of sm_90 and not of sm_90a: a product would trap. */
static void test_code_without_wgmma(void **state)
{
    (void)state;
    rc_backend *be;
    assert_int_equal(setenv("RECOLLECT_EMULATED_WGMMA", "none", 1), 0);
    must_open("cuda:bf16", &be);
    assert_string_equal(be->about.isa, "sm_90 bf16 no wgmma");
    rc_backend_close(be);
    check_case("conv_forward_large", 1, true, 14);
    check_case("conv_backward_data_large", 1, true, 13);
    check_case("conv_backward_weight_large", 1, true, 13);
    assert_int_equal(setenv("RECOLLECT_EMULATED_DEVICE", "sm_100", 1), 0);
    must_open("cuda:fp32", &be);
    assert_string_equal(be->about.isa, "sm_100 fp32"); /* such a card has none in any code */
    rc_backend_close(be);
    assert_int_equal(unsetenv("RECOLLECT_EMULATED_DEVICE"), 0);
    assert_int_equal(unsetenv("RECOLLECT_EMULATED_WGMMA"), 0);
}

/* Weight gradients of first layers, finished and pending; with two tiles of channels; and in parts. */
static void test_first_layers(void **state)
{
    (void)state;
    static const int numbers[] = {9, 20, 21};
    use_module(module);
    for (int i = 0; i < 3; i++)
        check_case("conv_backward_weight_narrow", 1, true, numbers[i]);
    assert_int_equal(setenv("RECOLLECT_EMULATED_MULTIPROCESSORS", "3", 1), 0);
    check_case("conv_backward_weight_narrow", 1, true, 20);
    assert_int_equal(unsetenv("RECOLLECT_EMULATED_MULTIPROCESSORS"), 0);
}

/* Chains of every shape that is taken, with and without gradients. */
static void test_chains(void **state)
{
    (void)state;
    enum { SHAPES = 5 };
    use_module(module);
    for (int number = 0; number < 2 * SHAPES; number++)
        check_case("fused_forward", 1, true, number);
    for (int number = 0; number < SHAPES; number++)
        check_case("fused_backward", 1, true, number);
}

/* Two images of small maps share a block, and one has a block for itself. */
static void test_chains_that_share_blocks(void **state)
{
    (void)state;
    check_few(&rc_cases_fused_large);
}

/* In training: up to four images have a multiprocessor each, five share them. */
static void test_training_chains(void **state)
{
    (void)state;
    static const int numbers[] = {1, 2, 3, 4, 9, 14}; /* of 15, which are each shape with each number of images */
    use_module(module);
    assert_int_equal(setenv("RECOLLECT_EMULATED_MULTIPROCESSORS", "4", 1), 0);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        check_case("fused_train", 1, true, numbers[i]);
        check_case("fused_train_backward", 1, true, numbers[i]);
    }
    assert_int_equal(setenv("RECOLLECT_EMULATED_MULTIPROCESSORS", "2", 1), 0);
    check_case("fused_train_backward_large", 1, true, 2); /* the last block has one image of two, */
    check_case("fused_train_backward_large", 1, true, 3); /* or that of a group */
    assert_int_equal(unsetenv("RECOLLECT_EMULATED_MULTIPROCESSORS"), 0);
}

/* ---- chains with a fault --------------------------------------------------------------------------------------- */

static rc_judges judges;
static rc_backend right; /* the entries of judges.test as they were */
static int spoiled_link; /* from the end at which a chain begins */

/* Makes the largest element of a map one percent larger. */
static void spoil(rc_backend *be, const rc_tensor *shape, void *map)
{
    size_t count = (size_t)shape->n * (size_t)shape->h * (size_t)shape->w * (size_t)shape->c, largest = 0;
    double *values = calloc(count, sizeof *values);
    rc_tensor to = *shape;
    assert_non_null(values);
    be->read_act(be, values, shape, map);
    for (size_t i = 1; i < count; i++)
        if (fabs(values[i]) > fabs(values[largest]))
            largest = i;
    values[largest] *= 1.01;
    to.raw = map;
    be->write_act(be, &to, values);
    free(values);
}

/* Without gradients only the last link writes. */
static void spoiled_forward(rc_backend *be, rc_tensor *x, const rc_fused *links, int count)
{
    right.fused_forward(be, x, links, count);
    if (links[0].epilogue.apply ? count == spoiled_link + 1 : count > spoiled_link)
        spoil(be, links[spoiled_link].y, links[spoiled_link].y->raw);
}

static void spoiled_backward(rc_backend *be, const rc_fused_back *links, int count, const rc_fused_gradients *to)
{
    right.fused_backward(be, links, count, to);
    if (count == spoiled_link + 1)
        spoil(be, links[0].dy->y, to->dx);
}

static rc_verdict judge(const char *name, uint32_t number)
{
    const rc_operation *operation = NULL;
    for (int i = 0; i < rc_cases_fused.count; i++)
        if (strcmp(rc_cases_fused.operation[i].name, name) == 0)
            operation = &rc_cases_fused.operation[i];
    rc_case c;
    rc_verdict v;
    assert_non_null(operation);
    assert_int_equal(rc_case_draw(&c, operation, 1, number, true, 8), RC_OK);
    assert_true(c.takes(judges.test, &c));
    assert_false(c.takes(judges.wide, &c));
    assert_int_equal(rc_judge(&judges, &c, &v), RC_OK);
    rc_case_free(&c);
    return v;
}

/* One percent in one element of one link, of the first or of one behind it, must be seen and is not excused. */
static void test_spoiled_chains(void **state)
{
    (void)state;
    static const struct {
        const char *operation;
        uint32_t number;
    } spoiled[] = {{"fused_forward", 2}, {"fused_forward", 7}, {"fused_backward", 2}};
    use_module(module);
    assert_int_equal(rc_backend_open("cuda:bf16", 1, NULL, &judges.test), RC_OK);
    assert_int_equal(rc_backend_open("reference", 1, NULL, &judges.narrow), RC_OK);
    assert_int_equal(rc_backend_open("reference64", 1, NULL, &judges.wide), RC_OK);
    right = *judges.test;
    for (size_t i = 0; i < sizeof spoiled / sizeof *spoiled; i++)
        for (spoiled_link = -1; spoiled_link < 2; spoiled_link++) {
            bool whole = spoiled_link < 0;
            judges.test->fused_forward = whole ? right.fused_forward : spoiled_forward;
            judges.test->fused_backward = whole ? right.fused_backward : spoiled_backward;
            rc_verdict v = judge(spoiled[i].operation, spoiled[i].number);
            if (v.missed == whole || v.shaky)
                fail_msg("%s case %u, link %d: error %g of %g %s", spoiled[i].operation, spoiled[i].number,
                         spoiled_link, v.error, v.tolerance, v.text);
        }
    rc_backend_close(judges.test);
    rc_backend_close(judges.narrow);
    rc_backend_close(judges.wide);
}

/* ---- the autoencoder ------------------------------------------------------------------------------------------- */

enum { DECODED = 4, DECODED_SIDE = 8, CODE_WIDTH = 16 };

/* How far a step of the autoencoder moves the bias of the decoder's last layer, from where it makes every pixel
 * sigmoid(7) = 0.9991, give or take. */
static void decoder_step(const char *backend, float moved[3])
{
    const float start[3] = {7, 7, 7};
    rc_step step = {.seed = 3, .learning_rate = 1};
    double pixels[DECODED * DECODED_SIDE * DECODED_SIDE * 3];
    rc_backend *be;
    rc_vae vae;
    rc_replay *replay;
    rc_tensor input;
    void *on_device, *loss;
    step.weight[RC_LOSS_RECONSTRUCTION] = step.weight[RC_LOSS_LATENT] = 1;
    for (size_t i = 0; i < sizeof pixels / sizeof *pixels; i++)
        pixels[i] = (double)(i % 128) / 128; /* what bf16 can hold */
    assert_int_equal(rc_backend_open(backend, 1, NULL, &be), RC_OK);
    assert_int_equal(rc_vae_create(&vae, be, 3, DECODED_SIDE, CODE_WIDTH, 5), RC_OK);
    const rc_generative_settings settings = {.batch = DECODED};
    assert_int_equal(rc_replay_generative_create(be, &vae, NULL, &settings, &replay), RC_OK);
    assert_int_equal(rc_tensor_create(be, DECODED, DECODED_SIDE, DECODED_SIDE, 3, &input), RC_OK);
    assert_int_equal(be->alloc(be, sizeof step, &on_device), RC_OK);
    assert_int_equal(be->alloc(be, RC_LOSS_COUNT * be->real_bytes, &loss), RC_OK);
    const rc_model *decoder = &vae.decoder;
    void *bias = rc_real_at(be, decoder->param, decoder->net->layer[decoder->net->layers - 1].bias_at);
    be->write_real(be, bias, start, 3);
    be->write_act(be, &input, pixels);
    be->write_bytes(be, on_device, &step, sizeof step);
    replay->loss = loss;
    replay->table->learn(replay, on_device, &input, NULL);
    be->read_real(be, moved, bias, 3);
    if (be->sync(be) != RC_OK)
        fail_msg("%s", rc_message());
    for (int i = 0; i < 3; i++)
        moved[i] -= start[i];
    be->release(be, on_device);
    be->release(be, loss);
    rc_tensor_destroy(be, &input);
    rc_replay_destroy(replay);
    rc_vae_destroy(&vae);
    rc_backend_close(be);
}

/* In bf16 all above 0.998 is 1, where the loss is as steep as a number can be. */
static void test_decoded_pixels_near_one(void **state)
{
    (void)state;
    float expected[3], moved[3];
    use_module(module);
    decoder_step("cpu", expected);
    decoder_step("cuda:bf16", moved);
    for (int i = 0; i < 3; i++) {
        assert_true(expected[i] < -0.1f);
        if (!(fabsf(moved[i] - expected[i]) < 0.01f * fabsf(expected[i])))
            fail_msg("channel %d moved by %g, expected %g", i, (double)moved[i], (double)expected[i]);
    }
}

static void test_parts_of_a_batch(void **state)
{
    (void)state;
    static const char *const name[] = {"cuda:bf16", "cuda:fp32"};
    use_module(module);
    for (int i = 0; i < 2; i++) {
        rc_backend *be;
        assert_int_equal(rc_backend_open(name[i], 1, NULL, &be), RC_OK);
        assert_parts_make_the_batch(be);
        rc_backend_close(be);
    }
}

/* ---- many images ----------------------------------------------------------------------------------------------- */

/* More than a grid has blocks in its second direction, as the setting 'batch' and replay make them. Kernels are named
 * here and not run (RECOLLECT_EMULATED_LAUNCHES), so that memory may be anything. */
enum { MANY_IMAGES = 2 * 65536, MANY_SIDE = 2 };

static rc_tensor many_images(rc_backend *be, int c)
{
    rc_tensor t = {.n = MANY_IMAGES, .h = MANY_SIDE, .w = MANY_SIDE, .c = c, .groups = 1, .group_end = {MANY_IMAGES}};
    assert_int_equal(be->alloc(be, rc_act_count(be, t.n, t.h, t.w, c) * be->act_bytes, &t.raw), RC_OK);
    return t;
}

static void *some_reals(rc_backend *be, size_t count)
{
    void *memory;
    assert_int_equal(be->alloc(be, count * be->real_bytes, &memory), RC_OK);
    return memory;
}

static void end_of_launches(rc_backend *be)
{
    if (be->sync(be) != RC_OK)
        fail_msg("%s", rc_message());
    rc_backend_close(be);
}

static void test_augments_many_images(void **state)
{
    (void)state;
    rc_backend *be;
    void *images, *step, *order;
    must_open("cuda", &be);
    rc_augment augment = {.h = MANY_SIDE, .w = MANY_SIDE, .c = 3, .std = {1, 1, 1, 1}};
    rc_tensor out = many_images(be, 3);
    assert_int_equal(be->alloc_images(be, MANY_SIDE * MANY_SIDE * 3, &images), RC_OK);
    assert_int_equal(be->alloc(be, sizeof(rc_step), &step), RC_OK);
    assert_int_equal(be->alloc(be, MANY_IMAGES * sizeof(int32_t), &order), RC_OK);
    be->augment(be, &augment, images, order, MANY_IMAGES, step, &out);
    augment.colour = 0.5f;
    be->augment(be, &augment, images, order, MANY_IMAGES, step, &out);
    end_of_launches(be);
}

/* A wide layer, whose kernels read maps that are made of what is pending. */
static void test_convolves_many_images(void **state)
{
    (void)state;
    enum { C = 128, WEIGHTS = 9 * C * C };
    const rc_conv conv = {.c_in = C,
                          .c_out = C,
                          .k = 3,
                          .stride = 1,
                          .pad = 1,
                          .up = 1,
                          .h = MANY_SIDE,
                          .w = MANY_SIDE,
                          .oh = MANY_SIDE,
                          .ow = MANY_SIDE};
    rc_backend *be;
    must_open("cuda:bf16", &be);
    rc_tensor x = many_images(be, C), y = many_images(be, C), plain = y, dx = many_images(be, C);
    void *weight = some_reals(be, WEIGHTS), *by = some_reals(be, C);
    assert_int_equal(be->reserve_conv(be, &conv, MANY_IMAGES), RC_OK);
    x.scale = x.shift = by;
    x.act = y.act = RC_ACT_RELU;
    const rc_grad dy = {&y, dx.raw, by, by, by};
    be->conv_forward(be, &conv, &x, weight, NULL, &plain, &(rc_epilogue){0});
    be->conv_backward_weight(be, &conv, &x, &dy, weight, NULL);
    be->copy_backward(be, &dy, plain.raw, &(rc_back_epilogue){.x = &plain});
    end_of_launches(be);
}

static void test_multiplies_many_images(void **state)
{
    (void)state;
    enum { C_IN = 3, C = 8, WEIGHTS = C_IN * C * MANY_SIDE * MANY_SIDE };
    static const char *const name[] = {"cuda:bf16", "cuda:fp32"};
    const rc_linear linear = {.c_in = C_IN, .c = C, .h = MANY_SIDE, .w = MANY_SIDE};
    for (int i = 0; i < 2; i++) {
        rc_backend *be;
        must_open(name[i], &be);
        rc_tensor y = many_images(be, C), x = {.n = MANY_IMAGES, .h = 1, .w = 1, .c = C_IN, .groups = 1};
        void *weight = some_reals(be, WEIGHTS);
        x.group_end[0] = MANY_IMAGES;
        assert_int_equal(be->alloc(be, rc_act_count(be, x.n, 1, 1, C_IN) * be->act_bytes, &x.raw), RC_OK);
        assert_int_equal(be->reserve_linear(be, &linear, MANY_IMAGES), RC_OK);
        be->linear_forward(be, &linear, &x, weight, NULL, &y, &(rc_epilogue){0});
        be->linear_backward_weight(be, &linear, &x, &(rc_grad){.y = &y, .g = y.raw}, weight, NULL);
        end_of_launches(be);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest control[] = {
        cmocka_unit_test(test_says_what_is_missing),    cmocka_unit_test(test_opens_both_precisions),
        cmocka_unit_test(test_takes_cards_in_turn),     cmocka_unit_test(test_limits_device_memory),
        cmocka_unit_test(test_memory_in_pieces),        cmocka_unit_test(test_room_comes_back),
        cmocka_unit_test(test_workspace_is_small),      cmocka_unit_test(test_workspaces_grow_apart),
        cmocka_unit_test(test_workspaces_of_matrices),  cmocka_unit_test(test_workspace_outlives_a_failure),
        cmocka_unit_test(test_workspaces_of_losses),    cmocka_unit_test(test_converts_as_many),
        cmocka_unit_test(test_repeats_a_captured_step), cmocka_unit_test(test_keeps_several_steps),
        cmocka_unit_test(test_captures_lanes),          cmocka_unit_test(test_images_that_do_not_fit),
        cmocka_unit_test(test_images_that_are_lent),    cmocka_unit_test(test_several_threads),
        cmocka_unit_test(test_products_of_two_teams),   cmocka_unit_test(test_weights_that_a_step_changes),
    };
    const struct CMUnitTest operations[] = {
        cmocka_unit_test(test_operations_in_fp32),
        cmocka_unit_test(test_operations_in_bf16),
        cmocka_unit_test(test_operations_with_less_shared_memory),
        cmocka_unit_test(test_rounding_is_no_fault),
        cmocka_unit_test(test_wide_layers),
        cmocka_unit_test(test_many_classes),
        cmocka_unit_test(test_large_layers),
        cmocka_unit_test(test_finished_layers),
        cmocka_unit_test(test_large_layers_in_parts),
        cmocka_unit_test(test_large_layers_without_wgmma),
        cmocka_unit_test(test_code_without_wgmma),
        cmocka_unit_test(test_first_layers),
        cmocka_unit_test(test_chains),
        cmocka_unit_test(test_chains_that_share_blocks),
        cmocka_unit_test(test_training_chains),
        cmocka_unit_test(test_spoiled_chains),
        cmocka_unit_test(test_decoded_pixels_near_one),
        cmocka_unit_test(test_parts_of_a_batch),
    };
    const struct CMUnitTest launches[] = {
        cmocka_unit_test(test_augments_many_images),
        cmocka_unit_test(test_convolves_many_images),
        cmocka_unit_test(test_multiplies_many_images),
    };
    module = argv[1];
    if (argc == 3 && strcmp(argv[2], "launches") == 0)
        return cmocka_run_group_tests(launches, NULL, NULL);
    if (argc == 3 && strcmp(argv[2], "control") == 0)
        return cmocka_run_group_tests(control, NULL, NULL);
    if (argc == 3 && strcmp(argv[2], "operations") == 0)
        return cmocka_run_group_tests(operations, NULL, NULL);
    fprintf(stderr, "usage: check_module MODULE control|operations|launches\n");
    return 2;
}
