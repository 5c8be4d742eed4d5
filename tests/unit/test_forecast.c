/* The forecast: how many steps are to come, and that what is known of one stage is used for the others; what is counted
 * is what is taken. (The linker redirects the library's posix_memalign, so that the heap can be watched.) */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "cil/moved.h"
#include "forecast/forecast.h"
#include "support/learning.h"
#include "support/succeeds.h"

static const rc_method *method(const char *name)
{
    const rc_method *found;
    assert_int_equal(rc_method_find(name, &found), RC_OK);
    return found;
}

/* CIFAR-100 in 5 tasks has 78 batches an epoch, 160 epochs of training, 40 of refinement. */
static void published_run_has_its_steps(void **state)
{
    (void)state;
    rc_settings s = rc_settings_default();
    rc_workload work = {0};
    for (int task = 0; task < 5; task++)
        rc_workload_add(&work, &s, method("cwd"), 20 * task, 20, 10000);
    assert_true(work.steps[0][RC_STAGE_INVERSION] == 0 && work.steps[0][RC_STAGE_TRAINING] == 78 * 160);
    assert_true(work.steps[0][RC_STAGE_REFINEMENT] == 0 && work.steps[0][RC_STAGE_ESTIMATION] == 78);
    assert_true(work.steps[1][RC_STAGE_INVERSION] == 4 * 5000 && work.steps[1][RC_STAGE_TRAINING] == 4 * 78 * 160);
    assert_true(work.steps[1][RC_STAGE_REFINEMENT] == 4 * 78 * 40);
    assert_true(work.steps[1][RC_STAGE_ESTIMATION] == 78 * (4 + 1 + 2 + 3 + 4));
    assert_true(rc_workload_steps(&work) == 5 * 78 * 160 + 4 * (5000 + 78 * 40) + 78 * 15);
    rc_workload joint = {0};
    rc_workload_add(&joint, &s, method("joint"), 80, 20, 50000);
    assert_true(joint.steps[0][RC_STAGE_TRAINING] == 390 * 160 && rc_workload_steps(&joint) == 390 * 160);
}

static void seconds_add_up(void **state)
{
    (void)state;
    rc_forecast f = {.last_time = 0};
    rc_workload work = {.steps = {{0, 100, 0, 10}, {20, 30, 40, 50}}};
    assert_true(isnan(rc_forecast_seconds(&f, &work)));
    f.per_step[0][RC_STAGE_TRAINING] = 1; /* one stage is known: the others follow from it */
    double guessed = rc_forecast_seconds(&f, &work);
    assert_true(guessed > 100 + 20 + 30 + 40 && guessed < 100 + 4 * (20 + 30 + 40 + 50 + 10));
    for (int i = 0; i < RC_STAGE_COUNT; i++) {
        f.per_step[0][i] = 1;
        f.per_step[1][i] = 2;
    }
    assert_true(fabs(rc_forecast_seconds(&f, &work) - (110 + 2 * 140)) < 1e-9);
    rc_workload nothing = {0};
    assert_true(rc_forecast_seconds(&f, &nothing) == 0);
}

/* What is known of one kind of tasks serves for another only where that has not been measured. */
static void kinds_of_tasks_have_speeds_of_their_own(void **state)
{
    (void)state;
    static const struct {
        const char *method;
        rc_task_kind first, later;
    } cases[] = {{"finetune", RC_TASK_PLAIN, RC_TASK_PLAIN},
                 {"joint", RC_TASK_PLAIN, RC_TASK_PLAIN},
                 {"lwf", RC_TASK_PLAIN, RC_TASK_PLAIN},
                 {"cwd", RC_TASK_PLAIN, RC_TASK_DREAMS},
                 {"er", RC_TASK_STORED, RC_TASK_STORED},
                 {"real-cwd", RC_TASK_PLAIN, RC_TASK_STORED},
                 {"deepinversion-pixels", RC_TASK_PLAIN, RC_TASK_STORED},
                 {"dgr", RC_TASK_LEARNS, RC_TASK_LEARNS}};
    const rc_settings s = rc_settings_default();
    rc_forecast f = {.last_time = 0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int n_old = 0; n_old <= 20; n_old += 20) {
            const rc_task_kind kind = n_old > 0 ? cases[i].later : cases[i].first;
            rc_workload work = {0};
            rc_workload_add(&work, &s, method(cases[i].method), n_old, 20, 10000);
            for (int k = 0; k < RC_TASK_KINDS; k++)
                assert_true((work.steps[k][RC_STAGE_TRAINING] > 0) == (k == (int)kind));
        }
    rc_workload each[RC_TASK_KINDS] = {{{{0}}}};
    for (int k = 0; k < RC_TASK_KINDS; k++)
        each[k].steps[k][RC_STAGE_TRAINING] = 10;
    f.per_step[RC_TASK_PLAIN][RC_STAGE_TRAINING] = 1;
    for (int k = 1; k < RC_TASK_KINDS; k++)
        assert_true(rc_forecast_seconds(&f, &each[k]) > 10); /* the least of them */
    for (int k = 1; k < RC_TASK_KINDS; k++)
        f.per_step[k][RC_STAGE_TRAINING] = 100 * k;
    for (int k = 0; k < RC_TASK_KINDS; k++) {
        assert_true(rc_forecast_seconds(&f, &each[k]) == (k > 0 ? 1000 * k : 10));
        each[k].steps[k][RC_STAGE_TRAINING] = 0;
        each[k].steps[k][RC_STAGE_INVERSION] = 10; /* not measured: by training of the same kind */
        assert_true(rc_forecast_seconds(&f, &each[k]) <= (k > 0 ? 1000 * k : 10));
        assert_true(rc_forecast_seconds(&f, &each[k]) > (k > 0 ? 100 * k : 1));
    }
}

static void updates_count_down(void **state)
{
    (void)state;
    const rc_learner l = {.settings = rc_settings_default(),
                          .method = method("cwd"),
                          .n_old = 20,
                          .n_new = 20,
                          .batches = 78,
                          .has = {.replay = true}};
    rc_forecast f = {.last_time = 0};
    rc_workload later = {.steps = {{0}, {0, 1000, 0, 0}}};
    rc_pace pace;
    rc_forecast_begin_task(&f, &l, &later);
    for (int i = 0; i < RC_STAGE_COUNT; i++)
        f.per_step[1][i] = 0.5;
    rc_stage_report report = {.stage = RC_STAGE_REFINEMENT, .step = 3110, .steps = 3120, .images_per_step = 256};
    rc_forecast_update(&f, &report, &pace);
    assert_true(fabs(pace.stage_left - 5) < 1e-9 && fabs(pace.images_per_second - 512) < 1e-6);
    assert_true(fabs(pace.left - (5 + 0.5 * (156 + 1000))) < 1e-6); /* estimation of this task, and what comes later */
    report.step = report.steps;
    rc_forecast_update(&f, &report, &pace);
    assert_true(pace.stage_left == 0);
    rc_forecast_begin_task(&f, &l, NULL);
    report.stage = RC_STAGE_ESTIMATION;
    rc_forecast_update(&f, &report, &pace);
    assert_true(pace.left == 0 && pace.fraction == 1);
}

/* The part that is done counts each step as dear as it is, never shrinks, and ends at 1. */
static void the_part_that_is_done_grows(void **state)
{
    (void)state;
    const rc_learner l = {.settings = rc_settings_default(), .method = method("cwd"), .n_new = 20, .batches = 78};
    rc_forecast f = {.last_time = 0};
    rc_pace pace;
    rc_forecast_begin_task(&f, &l, NULL); /* a first task: training, then estimation, of which a step is 0.4 as dear */
    rc_stage_report report = {.stage = RC_STAGE_TRAINING, .step = 6240, .steps = 12480, .images_per_step = 128};
    rc_forecast_update(&f, &report, &pace);
    assert_true(isnan(pace.left) && fabs(pace.fraction - 6240 / (12480 + 0.4 * 78)) < 1e-9);
    f.per_step[0][RC_STAGE_TRAINING] = 1;
    f.per_step[0][RC_STAGE_ESTIMATION] = 160; /* all at once, estimation is half of the work */
    report.step = 7800;
    f.last_step = 7800; /* so that nothing is measured here */
    rc_forecast_update(&f, &report, &pace);
    assert_true(fabs(pace.fraction - 6240 / (12480 + 0.4 * 78)) < 1e-9);
    f.last_step = report.step = 12480;
    rc_forecast_update(&f, &report, &pace);
    assert_true(fabs(pace.fraction - 0.5) < 1e-9 && fabs(pace.left - 12480) < 1e-6);
    report = (rc_stage_report){.stage = RC_STAGE_ESTIMATION, .step = 39, .steps = 78};
    rc_forecast_update(&f, &report, &pace);
    assert_true(fabs(pace.fraction - 0.75) < 1e-9);
    report.step = 78;
    rc_forecast_update(&f, &report, &pace);
    assert_true(pace.fraction == 1);
    rc_workload later = {.steps = {{0, 12480, 0, 78}, {0}}}; /* as much again */
    rc_forecast_begin_task(&f, &l, &later);
    f.per_step[0][RC_STAGE_TRAINING] = 1;
    f.per_step[0][RC_STAGE_ESTIMATION] = 160;
    rc_forecast_update(&f, &report, &pace);
    assert_true(fabs(pace.fraction - 0.5) < 1e-9);
}

/* A few steps are timed on a learner that is thrown away. */
static void measuring_leaves_nothing_behind(void **state)
{
    (void)state;
    enum { SIZE = 16, IMAGES = 5 };
    uint8_t images[IMAGES * SIZE * SIZE * 3] = {0};
    rc_backend *be;
    rc_settings s = rc_settings_default();
    rc_augment image = {.h = SIZE, .w = SIZE, .c = 3, .std = {1, 1, 1}};
    assert_int_equal(rc_backend_open("cpu", 1, NULL, &be), RC_OK);
    snprintf(s.net, sizeof s.net, "resnet-small");
    snprintf(s.generator, sizeof s.generator, "generator-small");
    s.net_width = s.generator_width = s.noise = 4;
    s.net_blocks = 1;
    s.batch = 8;
    rc_forecast f = {.last_time = 0};
    size_t before = 0, first, later;
    for (int round = 0; round < 2; round++) { /* the backend keeps its workspace from the first round on */
        before = rc_bytes_allocated();
        assert_int_equal(rc_forecast_measure(&f, be, &s, method("cwd"), &image, 0, 3, images, IMAGES, &first), RC_OK);
        assert_int_equal(rc_forecast_measure(&f, be, &s, method("cwd"), &image, 3, 2, images, IMAGES, &later), RC_OK);
    }
    assert_true(rc_bytes_allocated() == before);
    assert_true(first > before && later > first); /* a teacher, a generator, a second half of the batch */
    assert_true(f.per_step[0][RC_STAGE_TRAINING] > 0 && f.per_step[1][RC_STAGE_TRAINING] > 0);
    assert_true(f.per_step[1][RC_STAGE_INVERSION] > 0 && f.per_step[1][RC_STAGE_REFINEMENT] > 0);
    assert_true(isfinite(f.per_step[1][RC_STAGE_TRAINING]));
    assert_true(f.per_step[RC_TASK_STORED][RC_STAGE_TRAINING] == 0);
    assert_int_equal(rc_forecast_measure(&f, be, &s, method("er"), &image, 3, 2, images, IMAGES, &later), RC_OK);
    assert_true(f.per_step[RC_TASK_STORED][RC_STAGE_TRAINING] > 0);
    assert_true(f.per_step[RC_TASK_LEARNS][RC_STAGE_TRAINING] == 0);
    rc_backend_close(be);
}

/* A single new image can be timed, whatever is replayed beside it. */
static void a_single_image_can_be_timed(void **state)
{
    (void)state;
    static const uint8_t one[LEARNING_SIZE * LEARNING_SIZE * LEARNING_CHANNELS];
    rc_augment image = {.h = LEARNING_SIZE, .w = LEARNING_SIZE, .c = LEARNING_CHANNELS, .std = {1, 1, 1}};
    rc_settings s = learning_settings();
    rc_backend *be;
    SUCCEEDS(rc_backend_open("cpu", 1, NULL, &be));
    const rc_method *m;
    for (int i = 0; (m = rc_method_at(i)) != NULL; i++) {
        rc_forecast f = {.last_time = 0};
        size_t bytes;
        if (rc_forecast_measure(&f, be, &s, m, &image, 2, 1, one, 1, &bytes) != RC_OK)
            fail_msg("%s: %s", m->name, rc_message());
        assert_true(f.per_step[rc_task_kind_of(m, 2)][RC_STAGE_TRAINING] > 0);
    }
    rc_backend_close(be);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static size_t held, most;  /* by backends that take memory of `counting` */
static size_t most_of_all; /* that all of the library has held */

int __real_posix_memalign(void **block, size_t alignment, size_t size);
int __wrap_posix_memalign(void **block, size_t alignment, size_t size);

int __wrap_posix_memalign(void **block, size_t alignment, size_t size)
{
    size_t now = rc_bytes_allocated() + size;
    most_of_all = now > most_of_all ? now : most_of_all;
    return __real_posix_memalign(block, alignment, size);
}

static void *count_alloc(void *user, size_t size, size_t align)
{
    (void)user;
    void *block = NULL;
    size_t *raw = NULL;
    if (posix_memalign(&block, align, size + align) != 0)
        return NULL;
    raw = block;
    *raw = size;
    held += size;
    most = held > most ? held : most;
    return (char *)block + align;
}

static void count_free(void *user, void *block)
{
    (void)user;
    char *raw = (char *)block - RC_ALIGNMENT;
    held -= *(size_t *)(void *)raw;
    free(raw);
}

static const rc_allocator counting = {count_alloc, count_free, NULL};

/* Statistics follow the net, while the step of training is there. */
static void move_statistics(rc_learner *l)
{
    rc_moved moved;
    SUCCEEDS(rc_moved_create(l, strcmp(l->settings.plus_statistics, "moved-dreams") == 0, &moved));
    rc_moved_destroy(&moved);
}

/* The same task on a backend that takes memory: what it holds at most. */
static size_t really_held(const rc_task_claim *c, rc_backend *be)
{
    rc_learner l;
    rc_training *training;
    size_t unused;
    int32_t labels[64];
    for (int i = 0; i < c->count; i++)
        labels[i] = c->n_old + i % (c->n_new > 0 ? c->n_new : 1);
    size_t before = most_of_all = rc_bytes_allocated();
    assert_int_equal(rc_learner_create(&l, be, c->settings, c->method, c->image), RC_OK);
    if (c->n_old > 0)
        assert_int_equal(rc_head_grow(&l.student.head, c->n_old, (rc_rng){1, 1}), RC_OK);
    if (c->n_old > 0 && c->method->dce)
        assert_int_equal(rc_learner_grow_statistics(&l), RC_OK);
    if (c->n_new == 0)
        assert_int_equal(rc_learner_begin_dreams(&l), RC_OK);
    else
        assert_int_equal(rc_learner_begin_task(&l, c->n_old > 0, c->n_new, c->images, labels, c->count), RC_OK);
    assert_int_equal(rc_stage_bytes(&l, RC_STAGE_INVERSION, &unused), RC_OK);
    if (c->n_new > 0) {
        assert_int_equal(rc_stage_training_create(&l, &training), RC_OK);
        if (rc_stage_steps(&l, RC_STAGE_REFINEMENT) > 0 && c->method->plus)
            move_statistics(&l);
        if (rc_stage_steps(&l, RC_STAGE_REFINEMENT) > 0)
            assert_int_equal(rc_training_begin_refinement(training), RC_OK);
        rc_training_destroy(training);
    }
    rc_learner_destroy(&l);
    assert_true(rc_bytes_allocated() >= before); /* the workspace stays */
    return most_of_all - before;
}

/* What is counted is what is taken, by every method: weights, activations, workspace, images. */
static void counted_bytes_are_those_that_are_taken(void **state)
{
    (void)state;
    static uint8_t images[24 * LEARNING_SIZE * LEARNING_SIZE * LEARNING_CHANNELS];
    rc_augment image = {.h = LEARNING_SIZE, .w = LEARNING_SIZE, .c = LEARNING_CHANNELS, .std = {1, 1, 1}};
    static const struct {
        const char *method;
        int n_old, n_new;
    } cases[] = {{"cwd", 0, 3},    {"cwd", 3, 2},      {"cwd", 3, 0}, {"cwd+", 3, 2},
                 {"rdfcil", 4, 1}, {"finetune", 3, 2}, {"lwf", 3, 2}, {"er", 3, 2},
                 {"dgr", 3, 2},    {"lode", 3, 2},     {"abd", 3, 2}, {"deepinversion-pixels", 3, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int wide = 0; wide < 2; wide++) {
            rc_backend *be;
            size_t bytes, heap = rc_bytes_allocated();
            rc_settings s = learning_settings();
            s.batch = wide ? 24 : 8;
            s.generator_width = wide ? 64 : 8;
            rc_task_claim claim = {.settings = &s,
                                   .method = method(cases[i].method),
                                   .image = &image,
                                   .n_old = cases[i].n_old,
                                   .n_new = cases[i].n_new,
                                   .images = images,
                                   .count = 24};
            assert_int_equal(rc_backend_open_with("cpu", 2, NULL, &counting, &be), RC_OK);
            heap = rc_bytes_allocated();
            size_t before = held;
            if (rc_forecast_bytes(be, &claim, &bytes) != RC_OK)
                fail_msg("%s: %s", cases[i].method, rc_message());
            assert_true(held == before && rc_bytes_allocated() == heap); /* it took nothing */
            size_t really = really_held(&claim, be);
            enum { ROUNDED = 60000, STRUCTURES = 250000 /* of nets and passes */ };
            if (bytes > really + ROUNDED || really > bytes + STRUCTURES)
                fail_msg("%s after %d classes: %zu bytes were counted, %zu taken", cases[i].method, cases[i].n_old,
                         bytes, really);
            rc_backend_close(be);
        }
    }
}

/* A whole task of cwd+ with a wide net after many classes, of which statistics and drawn features take their part. It
 * may draw nothing, average its models, or be a first task, whose many classes may have covariances of their own. */
static void a_task_takes_what_is_counted(void **state)
{
    (void)state;
    enum { OLD = 300, IMAGES = 8, SCRATCH = 300000 };
    static const struct {
        const char *statistics;
        double drawn;
        bool variances;
        int old, new, average;
        bool covariances;
    } cases[] = {{"moved", 2, false, OLD, 2, 0, false}, {"moved-dreams", 2, false, OLD, 2, 0, false},
                 {"moved", 0, false, OLD, 2, 0, false}, {"moved", 2, true, 0, 2, 0, false},
                 {"moved", 2, false, OLD, 2, 1, false}, {"dreams", 0, false, OLD, 2, 1, false},
                 {"moved", 2, false, 0, 900, 0, true}};
    static uint8_t images[IMAGES * LEARNING_SIZE * LEARNING_SIZE * LEARNING_CHANNELS];
    int32_t labels[IMAGES];
    rc_augment image = {.h = LEARNING_SIZE, .w = LEARNING_SIZE, .c = LEARNING_CHANNELS, .std = {1, 1, 1}};
    for (size_t i = 0; i < sizeof images; i++)
        images[i] = (uint8_t)(i * i % 251);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rc_backend *be;
        rc_learner l;
        size_t bytes, step, refinement, told, means, moment;
        rc_settings s = learning_settings();
        s.net_width = 32;
        s.epochs = 2;
        s.refine_epochs = 1;
        s.inversion_steps = 1;
        s.plus_drawn = cases[i].drawn;
        s.plus_variances = cases[i].variances;
        s.average = cases[i].average;
        s.class_covariances = cases[i].covariances;
        snprintf(s.plus_statistics, sizeof s.plus_statistics, "%s", cases[i].statistics);
        rc_task_claim claim = {.settings = &s,
                               .method = method("cwd+"),
                               .image = &image,
                               .n_old = cases[i].old,
                               .n_new = cases[i].new,
                               .images = images,
                               .count = IMAGES};
        for (int k = 0; k < IMAGES; k++)
            labels[k] = cases[i].old + k % 2;
        SUCCEEDS(rc_backend_open_with("cpu", 1, NULL, &counting, &be));
        SUCCEEDS(rc_forecast_bytes(be, &claim, &bytes));
        size_t before = most_of_all = rc_bytes_allocated();
        SUCCEEDS(rc_learner_create(&l, be, &s, claim.method, &image));
        if (cases[i].old > 0) {
            SUCCEEDS(rc_head_grow(&l.student.head, cases[i].old, (rc_rng){1, 1}));
            SUCCEEDS(rc_learner_grow_statistics(&l));
        }
        SUCCEEDS(rc_learner_begin_task(&l, cases[i].old > 0, cases[i].new, images, labels, IMAGES));
        const size_t d = (size_t)l.student.head.d, drawn = 16 * (OLD + 2) * d * sizeof(float);
        SUCCEEDS(rc_stage_bytes(&l, RC_STAGE_TRAINING, &step));
        SUCCEEDS(rc_stage_bytes(&l, RC_STAGE_REFINEMENT, &refinement));
        rc_stage_average_bytes(&l, &means, &moment);
        if (cases[i].old > 0 && cases[i].drawn > 0)
            assert_true(refinement > step - moment + drawn + 2 * d * d * sizeof(double));
        else
            assert_int_equal(refinement, 0);
        size_t there = rc_bytes_allocated();
        SUCCEEDS(rc_task_memory(&l, &told));
        assert_true(told >= there + step && told >= there + refinement);
        SUCCEEDS(rc_run_stages(&l, cases[i].old > 0 ? RC_STAGE_INVERSION : RC_STAGE_TRAINING, 0, &learning_no_hooks,
                               NULL));
        rc_learner_destroy(&l);
        size_t really = most_of_all - before;
        if (bytes > really + SCRATCH || really > bytes + SCRATCH)
            fail_msg("case %zu: %zu bytes were counted, %zu taken", i, bytes, really);
        rc_backend_close(be);
    }
}

/* A buffer has images on the host and, of what it holds when the task begins, in the pool, too: 24 images are offered
 * twice then. Counting takes none of that. */
static void a_buffer_is_counted(void **state)
{
    (void)state;
    enum { IMAGES = 24, CAPACITY = 1000, SCRATCH = 100000, IMAGE = LEARNING_SIZE * LEARNING_SIZE * LEARNING_CHANNELS };
    static const struct {
        uint64_t offered;
        size_t held, room;
    } cases[] = {{0, 0, 48}, {700, 700, 748}, {1000, 1000, 1000}, {5000000000, 1000, 1000}};
    static uint8_t images[IMAGES * IMAGE];
    int32_t labels[IMAGES];
    rc_augment image = {.h = LEARNING_SIZE, .w = LEARNING_SIZE, .c = LEARNING_CHANNELS, .std = {1, 1, 1}};
    rc_settings s = learning_settings();
    size_t empty = 0;
    s.buffer_size = CAPACITY;
    for (int i = 0; i < IMAGES; i++)
        labels[i] = 3 + i % 2;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rc_backend *be;
        rc_learner l;
        size_t bytes;
        rc_task_claim claim = {.settings = &s,
                               .method = method("er"),
                               .image = &image,
                               .n_old = 3,
                               .n_new = 2,
                               .offered = cases[i].offered,
                               .images = images,
                               .count = IMAGES};
        SUCCEEDS(rc_backend_open_with("cpu", 1, NULL, &counting, &be));
        size_t before = most_of_all = rc_bytes_allocated();
        rc_status status = rc_forecast_bytes(be, &claim, &bytes);
        if (cases[i].offered > UINT32_MAX) {
            assert_int_equal(status, RC_INVALID_ARGUMENT);
            assert_non_null(strstr(rc_message(), "a buffer takes a stream of 4294967295 images"));
            rc_backend_close(be);
            continue;
        }
        assert_int_equal(status, RC_OK);
        assert_true(rc_bytes_allocated() == before && most_of_all - before < CAPACITY * IMAGE / 2);
        size_t slot = IMAGE + 3 * sizeof(int32_t), place = IMAGE + sizeof(int32_t);
        if (i == 0)
            empty = bytes - cases[0].room * slot;
        assert_int_equal(bytes, empty + cases[i].room * slot + cases[i].held * place);
        before = most_of_all = rc_bytes_allocated();
        SUCCEEDS(rc_learner_create(&l, be, &s, claim.method, &image));
        SUCCEEDS(rc_head_grow(&l.student.head, 3, (rc_rng){1, 1}));
        SUCCEEDS(rc_buffer_reserve(&l.source->images, cases[i].held));
        l.source->images.held = (int)cases[i].held;
        l.source->images.offered = cases[i].offered;
        SUCCEEDS(rc_learner_begin_task(&l, 1, 2, images, labels, IMAGES));
        SUCCEEDS(rc_run_stages(&l, RC_STAGE_TRAINING, 0, &learning_no_hooks, NULL));
        rc_learner_destroy(&l);
        size_t really = most_of_all - before;
        if (bytes > really + SCRATCH || really > bytes + SCRATCH)
            fail_msg("case %zu: %zu bytes were counted, %zu taken", i, bytes, really);
        rc_backend_close(be);
    }
}

/* Moving alone, with dreams and without, of old classes and in a first task: the fit, or the passes, take the most. */
static void moving_takes_what_is_counted(void **state)
{
    (void)state;
    enum { STRUCTURES = 60000 /* of passes */ };
    rc_backend *be;
    SUCCEEDS(rc_backend_open_with("cpu", 1, NULL, &counting, &be));
    for (int i = 0; i < 6; i++) {
        const bool first = i % 3 == 2, dreams = i % 3 == 1, wide = i / 3;
        rc_learner l;
        rc_settings s = learning_settings();
        s.net_width = wide ? 64 : 4;
        s.plus_variances = true;
        learning_create(&l, be, "cwd+", &s);
        if (!first) {
            SUCCEEDS(rc_head_grow(&l.student.head, 3, (rc_rng){1, 1}));
            SUCCEEDS(rc_learner_grow_statistics(&l));
        }
        learning_begin(&l, !first, 2, 8);
        for (int again = 0; again < 2; again++) { /* the workspace stays from the first time on */
            rc_moved moved;
            size_t bytes, before = most_of_all = rc_bytes_allocated();
            SUCCEEDS(rc_moved_create(&l, dreams, &moved));
            size_t really = most_of_all - before;
            assert_true(again == 0 || rc_bytes_allocated() - before == rc_moved_bytes(&l));
            rc_moved_destroy(&moved);
            SUCCEEDS(rc_moved_count(&l, dreams, &bytes));
            if (again && (bytes > really || really > bytes + STRUCTURES))
                fail_msg("case %d: %zu bytes were counted, %zu taken", i, bytes, really);
        }
        rc_learner_destroy(&l);
    }
    rc_backend_close(be);
}

/* What cwd+ takes more for each image than CwD: its label, and its features by both nets; and of so many images that
 * the nets, which are gone then, do not make up for it, the same once more without their means. Where nothing is drawn,
 * statistics move in estimation, without the step of training. Measuring a few steps counts them, too. */
static void features_of_all_images_are_counted(void **state)
{
    (void)state;
    enum { FEW = 3200, MANY = 128000, BATCH = 64 };
    static const struct {
        const char *statistics;
        double drawn;
        int refine_epochs, images, times;
    } cases[] = {{"moved", 2, 2, FEW, 2},   {"moved", 0, 2, FEW, 0},        {"moved", 2, 0, FEW, 0},
                 {"dreams", 0, 2, MANY, 0}, {"moved", 2, 2, MANY, 4},       {"moved", 0, 2, MANY, 4},
                 {"moved", 2, 0, MANY, 4},  {"moved-dreams", 0, 2, MANY, 8}};
    static const char *const names[] = {"cwd", "cwd+"};
    static const uint8_t image_bytes[BATCH * LEARNING_SIZE * LEARNING_SIZE * LEARNING_CHANNELS];
    rc_augment image = {.h = LEARNING_SIZE, .w = LEARNING_SIZE, .c = LEARNING_CHANNELS, .std = {1, 1, 1}};
    rc_settings s = learning_settings();
    rc_backend *be;
    rc_forecast f = {.last_time = 0};
    static rc_net net;
    size_t bytes[2][2], measured[2];
    s.batch = BATCH;
    s.net_width = 8;
    SUCCEEDS(rc_learner_net(&s, &image, &net));
    SUCCEEDS(rc_backend_open_with("cpu", 2, NULL, &counting, &be));
    /* Its workspace stays. */
    SUCCEEDS(rc_forecast_measure(&f, be, &s, method("cwd+"), &image, 3, 2, image_bytes, BATCH, measured));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(s.plus_statistics, sizeof s.plus_statistics, "%s", cases[i].statistics);
        s.plus_drawn = cases[i].drawn;
        s.refine_epochs = cases[i].refine_epochs;
        for (int m = 0; m < 2; m++)
            for (int n = 0; n < 2; n++) {
                rc_task_claim claim = {.settings = &s,
                                       .method = method(names[m]),
                                       .image = &image,
                                       .n_old = 3,
                                       .n_new = 2,
                                       .images = image_bytes,
                                       .count = cases[i].images * (n + 1)};
                SUCCEEDS(rc_forecast_bytes(be, &claim, &bytes[m][n]));
            }
        size_t each = (size_t)(cases[i].times * rc_net_features(&net)) * sizeof(float);
        size_t more = (size_t)cases[i].images * (each + (each > 0 ? sizeof(int32_t) : 0));
        assert_int_equal(bytes[1][1] - bytes[1][0], bytes[0][1] - bytes[0][0] + more);
        if (cases[i].images == FEW || cases[i].refine_epochs == 0 || strcmp(cases[i].statistics, "moved") != 0)
            continue;
        for (int n = 0; n < 2; n++)
            SUCCEEDS(rc_forecast_measure(&f, be, &s, method("cwd+"), &image, 3, 2, image_bytes, MANY * (n + 1),
                                         &measured[n]));
        assert_int_equal(measured[1] - measured[0], more);
    }
    rc_backend_close(be);
}

static void a_large_claim_takes_nothing(void **state)
{
    (void)state;
    rc_backend *be;
    size_t bytes;
    rc_settings s = learning_settings();
    rc_augment image = {.h = 16, .w = 16, .c = 3, .std = {1, 1, 1}};
    rc_task_claim claim = {.settings = &s, .method = method("cwd"), .image = &image, .n_old = 3};
    assert_int_equal(rc_backend_open_with("cpu", 2, NULL, &counting, &be), RC_OK);
    size_t before = held;
    most = held;
    s.generator_width = 4096;
    s.noise = 1000;
    s.batch = 2048;
    assert_int_equal(rc_forecast_bytes(be, &claim, &bytes), RC_OK);
    assert_true(bytes > (size_t)10 << 30 && most == before);
    rc_memory_set_budget(rc_bytes_allocated() + ((size_t)1 << 30));
    rc_status status = rc_forecast_allow(be, &claim, "dreaming");
    rc_memory_set_budget(SIZE_MAX);
    assert_int_equal(status, RC_OUT_OF_MEMORY);
    assert_non_null(strstr(rc_message(), "dreaming would take "));
    assert_non_null(strstr(rc_message(), "images of 16 x 16 pixels with 3 channels, 2048 at a time, net 'resnet-small' "
                                         "of width 4 and 1 blocks, generator-small of width 4096 and noise 1000"));
    assert_non_null(strstr(rc_message(), "1.1 GB are allowed"));
    char option[64];
    size_t gigabytes = (rc_bytes_allocated() + bytes) / ((size_t)1 << 30) + 1;
    snprintf(option, sizeof option, "the setting 'max_memory' (%zuG) allows it", gigabytes);
    assert_non_null(strstr(rc_message(), option));
    assert_int_equal(rc_forecast_allow(be, &claim, "dreaming"), RC_OK); /* no limit, and nothing taken either */
    assert_true(most == before);
    rc_backend_close(be);
}

static void count_lines(void *user, int level, const char *text)
{
    (void)level;
    snprintf(user, 100, "%s", text);
}

static void short_runs_are_not_worth_a_word(void **state)
{
    (void)state;
    char said[100] = "";
    rc_log log = {.write = count_lines, .user = said, .level = RC_LOG_INFO};
    rc_forecast_tell(&log, 3, 1000);
    rc_forecast_tell(&log, NAN, 1000);
    assert_string_equal(said, "");
    rc_forecast_tell(&log, 6010, 1200000000);
    assert_string_equal(said, "forecast: about 1:40:10 and 1.2 GB of memory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_run_has_its_steps),
        cmocka_unit_test(seconds_add_up),
        cmocka_unit_test(kinds_of_tasks_have_speeds_of_their_own),
        cmocka_unit_test(updates_count_down),
        cmocka_unit_test(the_part_that_is_done_grows),
        cmocka_unit_test(measuring_leaves_nothing_behind),
        cmocka_unit_test(a_single_image_can_be_timed),
        cmocka_unit_test(counted_bytes_are_those_that_are_taken),
        cmocka_unit_test(a_task_takes_what_is_counted),
        cmocka_unit_test(a_buffer_is_counted),
        cmocka_unit_test(moving_takes_what_is_counted),
        cmocka_unit_test(features_of_all_images_are_counted),
        cmocka_unit_test(a_large_claim_takes_nothing),
        cmocka_unit_test(short_runs_are_not_worth_a_word),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
