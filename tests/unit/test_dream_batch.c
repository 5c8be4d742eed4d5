/* Batches of dreams of an inverted model. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "cil/dream_batch.h"
#include "support/cpu_backend.h"
#include "support/learning.h"
#include "support/succeeds.h"

/* Draws batch `index` and reads it, and what was told to whom draws it. */
static void draw_dreams(rc_dream_batch *b, uint32_t index, double *to)
{
    rc_step told;
    rc_dream_batch_draw(b, index);
    be->read_act(be, to, &b->dreams, b->dreams.raw);
    be->read_bytes(be, &told, b->step, sizeof told);
    assert_int_equal(told.seed, b->learner->settings.seed);
    assert_int_equal(told.task, b->learner->task);
    assert_int_equal(told.step, index);
}

/* More classes than dreams; each of two generators makes its half; every number of a batch has dreams of its own. */
static void dreams_come_in_batches(void **state)
{
    (void)state;
    enum { N = 4, CLASSES = 24, IMAGE = LEARNING_SIZE * LEARNING_SIZE * LEARNING_CHANNELS };
    static double first[N * IMAGE], second[N * IMAGE], logits[N * CLASSES];
    rc_settings s = learning_settings();
    rc_learner l;
    rc_dream_batch b;
    int32_t labels[N];
    s.batch = N;
    s.generators = 2;
    learning_create(&l, be, "cwd", &s);
    learning_begin(&l, 0, CLASSES, 1);
    rc_learner_end_task(&l); /* what it has learnt does not matter */
    learning_begin(&l, 1, 2, 4);
    rc_model *generator = learning_generator(&l);
    be->zero(be, generator[1].param, generator[1].net->params * be->real_bytes);
    SUCCEEDS(rc_dream_batch_create(&l, &b));
    assert_true(b.dreams.n == N && b.dreams.h == l.net.h && b.dreams.w == l.net.w && b.dreams.c == l.net.c);
    draw_dreams(&b, 0, first);
    draw_dreams(&b, 1, second);
    for (int i = 0; i < N; i++) /* one that has only zeros makes the same of all noise */
        assert_int_equal(memcmp(first + i * IMAGE, second + i * IMAGE, IMAGE * sizeof *first) == 0, i >= N / 2);
    assert_memory_not_equal(first, first + IMAGE, IMAGE * sizeof *first);
    assert_memory_equal(first + 2 * IMAGE, first + 3 * IMAGE, IMAGE * sizeof *first);
    draw_dreams(&b, 0, second);
    assert_memory_equal(first, second, sizeof first);
    be->read_real64(be, logits, b.logits, N * CLASSES);
    be->read_bytes(be, labels, b.labels, sizeof labels);
    for (int i = 0; i < N * CLASSES; i++) {
        assert_in_range(labels[i / CLASSES], 0, CLASSES - 1);
        assert_true(logits[i] <= logits[i / CLASSES * CLASSES + labels[i / CLASSES]]);
    }
    rc_dream_batch_destroy(&b);
    rc_learner_destroy(&l);
}

/* Each generator begins with numbers of its own, which the task and its place choose. */
static void generators_begin_with_their_own_numbers(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    rc_learner l;
    s.generators = 2;
    learning_begin_second(&l, be, "cwd", &s);
    const rc_net *net = learning_generator_net(&l);
    float *found = rc_alloc_zeroed(NULL, 2 * net->params, sizeof *found);
    assert_non_null(found);
    for (int i = 0; i < 2; i++) {
        rc_rng rng = {s.seed, (uint64_t)1 << 32 | RC_STREAM_GENERATOR | (uint32_t)i << 20};
        rc_model wanted;
        SUCCEEDS(rc_model_create(&wanted, net, be));
        SUCCEEDS(rc_model_init(&wanted, rng));
        be->read_real(be, found, learning_generator(&l)[i].param, net->params);
        be->read_real(be, found + net->params, wanted.param, net->params);
        assert_memory_equal(found, found + net->params, net->params * sizeof *found);
        rc_model_destroy(&wanted);
    }
    rc_free(NULL, found);
    rc_learner_destroy(&l);
}

static rc_backend plain;
static int allocations, fails_at;

static rc_status failing_alloc(rc_backend *b, size_t bytes, void **memory)
{
    return ++allocations == fails_at ? rc_fail(RC_OUT_OF_MEMORY, "allocation %d", fails_at)
                                     : plain.alloc(b, bytes, memory);
}

/* Whichever block there is no memory for. */
static void a_batch_without_memory_is_refused(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    rc_learner l;
    learning_begin_second(&l, be, "cwd", &s);
    plain = *be;
    be->alloc = failing_alloc;
    for (fails_at = 1;; fails_at++) {
        rc_dream_batch b;
        allocations = 0;
        rc_status status = rc_dream_batch_create(&l, &b);
        rc_dream_batch_destroy(&b);
        assert_int_equal(status, allocations >= fails_at ? RC_OUT_OF_MEMORY : RC_OK);
        if (allocations < fails_at)
            break;
    }
    *be = plain;
    assert_true(fails_at > 4);
    rc_learner_destroy(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dreams_come_in_batches),
        cmocka_unit_test(generators_begin_with_their_own_numbers),
        cmocka_unit_test(a_batch_without_memory_is_refused),
    };
    return cmocka_run_group_tests(tests, open_backend, close_backend);
}
