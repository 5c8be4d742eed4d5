/* DeepInversion's original form: images that are optimised pixel by pixel. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "forecast/forecast.h"
#include "support/cpu_backend.h"
#include "support/learning.h"
#include "support/succeeds.h"

enum { PIXELS = LEARNING_SIZE * LEARNING_SIZE * LEARNING_CHANNELS, BATCH = 8 };

/* A learner at the beginning of its second task, and its first batch of images. */
static void begin_second(rc_learner *l, rc_backend *backend, const rc_settings *s)
{
    learning_create(l, backend, "deepinversion-pixels", s);
    learning_teach(l, 0, 3, 16, &learning_no_hooks);
    rc_learner_end_task(l);
    learning_begin(l, 1, 2, 16);
}

/* ---- the step ------------------------------------------------------------------------------------------------- */

static const rc_loss terms[] = {RC_LOSS_CONTENT, RC_LOSS_BN, RC_LOSS_PRIOR, RC_LOSS_NORM};
static const float weights[] = {1, 0.5f, 1e-3f, 1e-2f};
enum { TERMS = sizeof terms / sizeof *terms };

/* The total loss of the images as they are, in the step's own frame. */
static double total(rc_backend *backend, rc_inversion *v)
{
    double loss[RC_LOSS_COUNT], sum = 0;
    rc_inversion_gradients(v);
    SUCCEEDS(backend->sync(backend));
    backend->read_real64(backend, loss, rc_inversion_look(v).loss, RC_LOSS_COUNT);
    for (int i = 0; i < TERMS; i++)
        sum += (double)weights[i] * loss[terms[i]];
    return sum;
}

/* In double: the gradient of the pixels, through jitter and classifier, against finite differences. */
static void gradients_are_those_of_the_losses(void **state)
{
    (void)state;
    rc_backend *backend;
    rc_settings s = learning_settings();
    rc_learner l;
    rc_inversion *v;
    SUCCEEDS(rc_backend_open("reference64", 1, NULL, &backend));
    s.epochs = 2;
    s.refine_epochs = 1;
    begin_second(&l, backend, &s);
    SUCCEEDS(rc_stage_inversion_create(&l, &v));
    rc_step *control = rc_inversion_control(v);
    for (int i = 0; i < TERMS; i++)
        control->weight[terms[i]] = weights[i];
    control->step = 5; /* some jitter */
    rc_inversion_send(v);
    size_t count = learning_pixels(&l)->net->params;
    double *x = malloc(count * sizeof *x), *moved = malloc(count * sizeof *moved);
    double *gradient = malloc(count * sizeof *gradient);
    void *param = learning_pixels(&l)->model[0].param;
    total(backend, v);
    backend->read_real64(backend, x, param, count);
    backend->read_real64(backend, gradient, rc_inversion_look(v).generator_gradient, count);
    for (int direction = 0; direction < 2; direction++) {
        const double h = 1e-6;
        double slope = 0, value[2];
        for (int side = 0; side < 2; side++) {
            for (size_t i = 0; i < count; i++)
                moved[i] = x[i] + (side ? h : -h) * rc_rng_normal((rc_rng){3, (uint64_t)direction}, i);
            backend->write_real64(backend, param, moved, count);
            value[side] = total(backend, v);
        }
        for (size_t i = 0; i < count; i++)
            slope += gradient[i] * rc_rng_normal((rc_rng){3, (uint64_t)direction}, i);
        double measured = (value[1] - value[0]) / (2 * h);
        if (!(fabs(measured - slope) < 1e-5 * (1 + fabs(slope))))
            fail_msg("direction %d: %.9g, finite differences %.9g", direction, slope, measured);
    }
    free(x);
    free(gradient);
    free(moved);
    rc_inversion_destroy(v);
    rc_learner_destroy(&l);
    rc_backend_close(backend);
}

/* ---- the stage ------------------------------------------------------------------------------------------------ */

static void every_batch_can_be_resumed(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    int stages[RC_STAGE_COUNT];
    s.epochs = 2;
    s.refine_epochs = 1;
    if (learning_resume_everywhere(be, "deepinversion-pixels", &s, stages))
        assert_int_equal(stages[RC_STAGE_INVERSION], 6);
}

typedef struct contents {
    double first[2], last[2]; /* content and BN statistics of each batch */
} contents;

static rc_status note(void *user, const rc_stage_report *report)
{
    contents *c = user;
    if (report->stage != RC_STAGE_INVERSION)
        return RC_OK;
    int k = report->step <= report->steps / 2 ? 0 : 1;
    double loss = report->loss[RC_LOSS_CONTENT] + report->loss[RC_LOSS_BN];
    c->last[k] = loss;
    c->first[k] = c->first[k] > 0 ? c->first[k] : loss;
    return RC_OK;
}

/* The pool has every batch of images behind those of the task, and labels of all old classes. */
static void expect_pool(const rc_learner *l)
{
    uint8_t pool[BATCH * PIXELS], bytes[BATCH * PIXELS];
    int count[3] = {0};
    for (int k = 0; k < 2; k++) {
        size_t at = ((size_t)l->images + (size_t)(k * BATCH)) * PIXELS;
        SUCCEEDS(rc_pixels_read(learning_pixels(l), k, &l->augment, bytes));
        be->read_images(be, pool, l->task_images, at, sizeof pool);
        assert_memory_equal(pool, bytes, sizeof pool);
    }
    for (int i = 0; i < l->source->images.held; i++)
        count[l->source->images.labels[i]]++;
    assert_true(count[0] > 0 && count[1] > 0 && count[2] > 0);
}

/* Every batch comes nearer to its labels and to the statistics; the images are replayed with those labels; and when the
 * task is over they are gone. */
static void images_show_their_labels_and_are_replayed(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    rc_learner l;
    contents c = {{0}, {0}};
    rc_stage_hooks hooks = {.boundary = note, .user = &c, .interval = 0};
    s.pixel_steps = 60;
    begin_second(&l, be, &s);
    assert_int_equal(l.source->images.held, 2 * BATCH);
    SUCCEEDS(rc_stage_inversion(&l, 0, &hooks));
    for (int k = 0; k < 2; k++)
        assert_true(c.last[k] < 0.7 * c.first[k]);

    rc_replay *replay;
    rc_step step = {.seed = 1, .task = 1}, *device;
    rc_tensor images;
    void *memory;
    int32_t labels[BATCH], *to;
    SUCCEEDS(rc_learner_replay(&l, RC_STREAM_DREAMS, &replay));
    assert_true(replay->labelled && replay->batch == BATCH);
    SUCCEEDS(replay->table->prepare_epoch(replay, 0));
    SUCCEEDS(be->alloc(be, sizeof step + sizeof labels, &memory));
    device = memory;
    to = (int32_t *)(void *)((char *)memory + sizeof step);
    be->write_bytes(be, device, &step, sizeof step);
    SUCCEEDS(rc_tensor_create(be, BATCH, LEARNING_SIZE, LEARNING_SIZE, LEARNING_CHANNELS, &images));
    replay->table->draw(replay, device, &images, to);
    be->read_bytes(be, labels, to, sizeof labels);
    for (int b = 0; b < BATCH; b++)
        assert_in_range(labels[b], 0, 2);
    expect_pool(&l);
    rc_tensor_destroy(be, &images);
    be->release(be, memory);
    rc_replay_destroy(replay);

    rc_learner_end_task(&l);
    assert_int_equal(l.source->images.capacity, 0);
    assert_null(learning_pixels(&l)->memory);
    assert_int_equal(rc_learner_stored(&l).images, 0);
    rc_learner_destroy(&l);
}

/* Whoever counts what images will take counts the numbers that they are drawn on, too. */
static void counted_pixels_have_room_to_be_drawn(void **state)
{
    (void)state;
    rc_augment image = {.h = 4, .w = 4, .c = 3, .std = {1, 1, 1}};
    rc_backend *sizing;
    rc_pixels p;
    SUCCEEDS(rc_backend_open_sizing(be, &sizing));
    SUCCEEDS(rc_pixels_create(&p, sizing, 1, 5, &image, 1, 0));
    assert_int_equal(rc_backend_most_bytes(sizing), 2 * p.net->params * sizeof(float));
    rc_pixels_destroy(&p);
    rc_backend_close(sizing);
}

/* Whoever counts what a task takes does not make the noise that is written for its images. */
static void counted_noise_is_not_made(void **state)
{
    (void)state;
    enum { MANY = 256, NOISE_BYTES = MANY * MANY * sizeof(double) };
    const rc_augment image = {.h = LEARNING_SIZE, .w = LEARNING_SIZE, .c = LEARNING_CHANNELS, .std = {1, 1, 1}};
    rc_settings s = learning_settings();
    rc_task_claim claim = {.settings = &s, .image = &image, .n_old = 2, .n_new = 2, .count = MANY};
    size_t bytes;
    s.batch = MANY;
    s.pixel_batches = 1;
    SUCCEEDS(rc_method_find("deepinversion-pixels", &claim.method));
    rc_memory_set_budget(rc_bytes_allocated() + NOISE_BYTES / 2);
    rc_status status = rc_forecast_bytes(be, &claim, &bytes);
    rc_memory_set_budget(SIZE_MAX);
    SUCCEEDS(status);
    assert_true(bytes > 0);
}

/* Value v of channel c is pixel 255 (v std + mean), rounded and clipped. */
static void pixels_become_bytes(void **state)
{
    (void)state;
    enum { H = 2, W = 3, C = 2, N = 2, COUNT = H * W * C * N };
    rc_augment image = {.h = H, .w = W, .c = C, .mean = {0.5f, 0.25f}, .std = {0.5f, 0.25f}};
    rc_pixels p;
    float value[COUNT];
    uint8_t bytes[COUNT];
    SUCCEEDS(rc_pixels_create(&p, be, 3, N, &image, 1, 0)); /* more batches than images in one */
    for (int i = 0; i < COUNT; i++)
        value[i] = -1.2f + 0.1f * (float)i;
    be->write_real(be, p.model[2].param, value, COUNT);
    SUCCEEDS(rc_pixels_read(&p, 2, &image, bytes));
    for (int b = 0; b < N; b++)
        for (int i = 0; i < H * W; i++)
            for (int c = 0; c < C; c++) {
                double v = (double)value[(c * H * W + i) * N + b];
                double byte = 255 * (c == 0 ? v * 0.5 + 0.5 : v * 0.25 + 0.25);
                byte = byte < 0 ? 0 : byte > 255 ? 255 : byte;
                assert_true(fabs(bytes[(b * H * W + i) * C + c] - byte) <= 0.5 + 1e-6);
            }
    assert_int_equal(bytes[0], 0); /* -1.2 is below black */
    rc_pixels_destroy(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_those_of_the_losses),
        cmocka_unit_test(every_batch_can_be_resumed),
        cmocka_unit_test(images_show_their_labels_and_are_replayed),
        cmocka_unit_test(counted_pixels_have_room_to_be_drawn),
        cmocka_unit_test(counted_noise_is_not_made),
        cmocka_unit_test(pixels_become_bytes),
    };
    return cmocka_run_group_tests(tests, open_backend, close_backend);
}
