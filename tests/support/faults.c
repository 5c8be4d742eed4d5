#include "support/faults.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "cil/evaluation.h"
#include "support/cpu_backend.h"
#include "support/learning.h"
#include "support/succeeds.h"

typedef enum fault { ALLOC, RESERVE, SYNC, REPEAT, HEAP, FAULTS } fault;
static const char *const fault_name[FAULTS] = {"allocation", "reservation", "wait", "repetition", "block of the heap"};

static rc_backend plain;
static int calls[FAULTS], held;
static fault armed; /* FAULTS: none */
static int fails_at;
static bool aside; /* what the test takes for itself neither counts nor fails */

/* Does this call fail? */
static bool fails(fault kind)
{
    return !aside && ++calls[kind] == fails_at && kind == armed;
}

int __real_posix_memalign(void **block, size_t align, size_t size);
int __wrap_posix_memalign(void **block, size_t align, size_t size);

int __wrap_posix_memalign(void **block, size_t align, size_t size)
{
    enum { NO_MEMORY = 12 };
    return fails(HEAP) ? NO_MEMORY : __real_posix_memalign(block, align, size);
}

static rc_status failure(fault kind)
{
    return rc_fail(RC_OUT_OF_MEMORY, "%s %d", fault_name[kind], fails_at);
}

static rc_status faulty_alloc(rc_backend *b, size_t bytes, void **memory)
{
    *memory = NULL;
    if (fails(ALLOC))
        return failure(ALLOC);
    rc_status status = plain.alloc(b, bytes, memory);
    held += status == RC_OK;
    return status;
}

static rc_status faulty_alloc_images(rc_backend *b, size_t bytes, void **images)
{
    *images = NULL;
    if (fails(ALLOC))
        return failure(ALLOC);
    rc_status status = plain.alloc_images(b, bytes, images);
    held += status == RC_OK;
    return status;
}

static void counted_release(rc_backend *b, void *memory)
{
    held -= memory != NULL;
    plain.release(b, memory);
}

static rc_status faulty_sync(rc_backend *b)
{
    return fails(SYNC) ? failure(SYNC) : plain.sync(b);
}

static rc_status faulty_repeat(rc_backend *b, void (*step)(void *), void *context, int times)
{
    return fails(REPEAT) ? failure(REPEAT) : plain.repeat(b, step, context, times);
}

static rc_status faulty_dense(rc_backend *b, int n, int in, int out)
{
    return fails(RESERVE) ? failure(RESERVE) : plain.reserve_dense(b, n, in, out);
}

static rc_status faulty_losses(rc_backend *b, int n, int classes, int h, int w, int c)
{
    return fails(RESERVE) ? failure(RESERVE) : plain.reserve_losses(b, n, classes, h, w, c);
}

int faults_open(void **state)
{
    if (open_backend(state) != 0)
        return -1;
    plain = *be;
    be->alloc = faulty_alloc;
    be->alloc_images = faulty_alloc_images;
    be->release = counted_release;
    be->sync = faulty_sync;
    be->repeat = faulty_repeat;
    be->reserve_dense = faulty_dense;
    be->reserve_losses = faulty_losses;
    armed = FAULTS;
    return 0;
}

int faults_close(void **state)
{
    *be = plain;
    return close_backend(state);
}

static void arm(fault kind, int call)
{
    memset(calls, 0, sizeof calls);
    armed = kind;
    fails_at = call;
}

/* ---- what is tried -------------------------------------------------------------------------------------------- */

static rc_settings tiny(void)
{
    rc_settings s = learning_settings();
    s.batch = 4;
    s.epochs = 2;
    s.refine_epochs = 1;
    s.inversion_steps = 1;
    s.pixel_steps = 1;
    s.vae_width = 8;
    s.net_width = 2;
    return s;
}

static uint8_t *own_images(int first, int classes, int per_class, int32_t **labels)
{
    aside = true;
    uint8_t *images = learning_images(first, classes, per_class, labels);
    aside = false;
    return images;
}

/* A copy takes the learner's place, as it does when a model learns. */
static rc_status replace_by_copy(rc_learner *l)
{
    rc_learner copy;
    RC_TRY(rc_learner_clone(&copy, l));
    rc_learner_destroy(l);
    rc_learner_move(l, &copy);
    return RC_OK;
}

/* Creates a learner, teaches it a task and its copy another one. */
static rc_status live(rc_learner *l, const char *method, const rc_settings *s)
{
    const rc_method *m;
    SUCCEEDS(rc_method_find(method, &m));
    rc_augment image = {.h = LEARNING_SIZE, .w = LEARNING_SIZE, .c = LEARNING_CHANNELS, .std = {1, 1, 1}};
    RC_TRY(rc_learner_create(l, be, s, m, &image));
    for (int task = 0; task < 2; task++) {
        int first = m->replay->replays_old_images ? 0 : 2 * task, classes = 2 * task + 2 - first;
        int32_t *labels;
        uint8_t *images = own_images(first, classes, 4, &labels);
        rc_status status = rc_learner_begin_task(l, task, 2, images, labels, classes * 4);
        rc_free(NULL, images);
        rc_free(NULL, labels);
        RC_TRY(status);
        RC_TRY(rc_run_stages(l, RC_STAGE_INVERSION, 0, &learning_no_hooks, NULL));
        rc_learner_end_task(l);
        if (task == 0)
            RC_TRY(replace_by_copy(l));
    }
    return RC_OK;
}

static rc_status evaluate(const rc_learner *l, size_t budget)
{
    rc_task_split split = {.sizes = 1, .size = {4}};
    rc_task_stream stream;
    rc_evaluation e;
    rc_split test = {.count = 8};
    RC_TRY(rc_task_stream_create(&stream, 4, NULL, &split));
    test.images = own_images(0, 4, 2, &test.labels);
    rc_memory_set_budget(budget == SIZE_MAX ? SIZE_MAX : rc_bytes_allocated() + budget);
    rc_status status = rc_evaluate(be, &l->student, &l->augment, &stream, &test, 3, NULL, &e);
    rc_memory_set_budget(SIZE_MAX);
    rc_evaluation_destroy(&e);
    rc_task_stream_destroy(&stream);
    rc_free(NULL, test.images);
    rc_free(NULL, test.labels);
    return status;
}

void faults_are_told(const char *const *method)
{
    rc_settings s = tiny();
    bool light = getenv("RECOLLECT_TEST_LIGHT") != NULL;
    for (int i = 0; method[i] != NULL; i++) { /* the backend's workspace grows, and stays */
        rc_learner l;
        SUCCEEDS(live(&l, method[i], &s));
        SUCCEEDS(evaluate(&l, SIZE_MAX));
        rc_learner_destroy(&l);
    }
    size_t before = rc_bytes_allocated();
    for (; *method != NULL; method++)
        for (int kind = 0; kind < FAULTS; kind++) {
            int call = 1;
            for (bool reached = true; reached; call += light ? 7 : 1) {
                rc_learner l;
                arm((fault)kind, call);
                rc_status status = live(&l, *method, &s);
                if (status == RC_OK)
                    status = evaluate(&l, SIZE_MAX);
                reached = calls[kind] >= call;
                armed = FAULTS;
                if (reached && status != RC_OUT_OF_MEMORY)
                    fail_msg("%s: %s %d failed, and nobody said so", *method, fault_name[kind], call);
                assert_true(reached || status == RC_OK);
                rc_learner_destroy(&l);
                if (held != 0 || rc_bytes_allocated() != before)
                    fail_msg("%s: %s %d failed, and %d blocks of the backend, %zu bytes of the host are still held",
                             *method, fault_name[kind], call, held, rc_bytes_allocated() - before);
            }
            assert_true(call > (kind == RESERVE ? 3 : 5));
        }
}

void faults_memory_comes_back(void)
{
    rc_settings s = tiny();
    const rc_method *m;
    for (int i = 0; (m = rc_method_at(i)) != NULL; i++) {
        size_t before = 0;
        for (int time = 0; time < 2; time++) { /* after the first time workspace of the backend stays */
            rc_learner l;
            armed = FAULTS;
            SUCCEEDS(live(&l, m->name, &s));
            SUCCEEDS(evaluate(&l, SIZE_MAX));
            rc_learner_destroy(&l);
            assert_int_equal(held, 0);
            if (time == 1 && rc_bytes_allocated() != before)
                fail_msg("%s keeps %zu bytes", m->name, rc_bytes_allocated() - before);
            before = rc_bytes_allocated();
        }
    }
}

void faults_budget_may_end(const char *const *method)
{
    rc_settings s = tiny();
    int32_t *labels;
    uint8_t *images = learning_images(0, 4, 4, &labels);
    for (; *method != NULL; method++) {
        rc_status status = RC_OUT_OF_MEMORY;
        int tries = 0;
        for (size_t budget = 0; status == RC_OUT_OF_MEMORY; budget += 64 + budget / 32, tries++) {
            rc_learner l;
            learning_create(&l, be, *method, &s);
            learning_begin(&l, 0, 2, 4);
            rc_learner_end_task(&l);
            size_t before = rc_bytes_allocated();
            rc_memory_set_budget(before + budget);
            status = rc_learner_begin_task(&l, 1, 2, images, labels, 16);
            rc_memory_set_budget(SIZE_MAX);
            rc_learner_end_task(&l);
            if (status == RC_OK)
                status = evaluate(&l, budget / 4);
            rc_learner_destroy(&l);
            assert_int_equal(held, 0);
            if (status != RC_OK && status != RC_OUT_OF_MEMORY)
                fail_msg("%s: status %d, %s", *method, status, rc_message());
        }
        assert_true(status == RC_OK && tries > 20);
    }
    rc_free(NULL, images);
    rc_free(NULL, labels);
}
