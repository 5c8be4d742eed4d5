/* How evaluation goes through its images: in which batches, when it tells who looks on, and how it ends. The clock is
 * the test's own: it stands still but for the time that a batch takes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "cil/evaluation.h"
#include "nn/nets.h"
#include "support/cpu_backend.h"
#include "support/succeeds.h"

enum { SIDE = 8, IMAGE = SIDE * SIDE, COUNT = 1100, CLASSES = 7, CHUNK = 1024, MOST_BATCHES = 64 };

static _Atomic double now; /* workers read it, too */
static double seconds_per_batch;

double rc_now(void)
{
    return now;
}

/* ---- a model that takes every image for the same -------------------------------------------------------------- */

typedef struct world {
    rc_net net;
    rc_classifier classifier;
    rc_augment normalisation;
    rc_task_stream stream;
    uint8_t images[COUNT * IMAGE];
    int32_t labels[COUNT];
    rc_split test;
    float head[CLASSES * 64];
} world;

static rc_backend plain;
static int batch_of[MOST_BATCHES], batches;

static void timed_augment(rc_backend *b, const rc_augment *augment, const uint8_t *images, const int32_t *order, int n,
                          const rc_step *step, rc_tensor *out)
{
    assert_in_range(batches, 0, MOST_BATCHES - 1);
    batch_of[batches++] = n;
    now = now + seconds_per_batch;
    plain.augment(b, augment, images, order, n, step, out);
}

/* Features are 0 or more, so the first class has the largest logit of every image, the second the next, and so on. */
static void set_up_classifier(world *w)
{
    rc_task_split split = {.sizes = 1, .size = {CLASSES}};
    SUCCEEDS(rc_net_resnet_small(&w->net, 1, SIDE, SIDE, 2, 1));
    SUCCEEDS(rc_classifier_create(&w->classifier, &w->net, be, CLASSES));
    SUCCEEDS(rc_model_init(&w->classifier.backbone, (rc_rng){3, 1}));
    SUCCEEDS(rc_head_grow(&w->classifier.head, CLASSES, (rc_rng){3, 2}));
    int d = w->classifier.head.d;
    assert_in_range(d, 1, 64);
    for (int i = 0; i < CLASSES * d; i++)
        w->head[i] = (float)(CLASSES - i / d);
    be->write_real(be, w->classifier.head.weight, w->head, (size_t)(CLASSES * d));
    SUCCEEDS(rc_task_stream_create(&w->stream, CLASSES, NULL, &split));
}

static int set_up(void **state)
{
    world *w = calloc(1, sizeof *w);
    *state = w;
    if (open_backend(NULL) != 0 || w == NULL)
        return -1;
    set_up_classifier(w);
    w->normalisation = (rc_augment){.mean = {0.4f}, .std = {0.2f}};
    for (int i = 0; i < COUNT * IMAGE; i++)
        w->images[i] = (uint8_t)(rc_rng_bits((rc_rng){3, 6}, (uint64_t)i) >> 24);
    for (int i = 0; i < COUNT; i++)
        w->labels[i] = i % CLASSES;
    w->test = (rc_split){.images = w->images, .labels = w->labels, .count = COUNT};
    plain = *be;
    be->augment = timed_augment;
    return 0;
}

static int tear_down(void **state)
{
    world *w = *state;
    *be = plain;
    rc_task_stream_destroy(&w->stream);
    rc_classifier_destroy(&w->classifier);
    free(w);
    return close_backend(NULL);
}

static rc_status evaluate(world *w, int batch, const rc_scoring *scoring, rc_evaluation *e)
{
    now = 100;
    batches = 0;
    return rc_evaluate(be, &w->classifier, &w->normalisation, &w->stream, &w->test, batch, scoring, e);
}

/* ---- who looks on --------------------------------------------------------------------------------------------- */

typedef struct onlooker {
    int calls, done[MOST_BATCHES], stop_at;
} onlooker;

static bool look_on(void *user, const char *what, int done, int total)
{
    onlooker *o = user;
    assert_string_equal(what, "scoring images");
    assert_int_equal(total, COUNT);
    assert_in_range(o->calls, 0, MOST_BATCHES - 1);
    o->done[o->calls++] = done;
    return done < o->stop_at;
}

/* Batches are whole but for the last of 1024 images and the last of all. Half a second after it was told something,
 * and not earlier, who looks on is told of the batch that is over. */
static void an_onlooker_is_told_twice_a_second(void **state)
{
    static const struct {
        int batch;
        double seconds; /* of a batch */
    } cases[] = {{48, 0.25}, {48, 0.125}, {100, 0.5}, {64, 0.75}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        onlooker o = {.stop_at = COUNT + 1};
        const rc_scoring scoring = {.progress = look_on, .user = &o};
        rc_evaluation e;
        seconds_per_batch = cases[i].seconds;
        SUCCEEDS(evaluate(*state, cases[i].batch, &scoring, &e));
        rc_evaluation_destroy(&e);
        int seen = 0, calls = 0;
        double silent = 0;
        for (int done = 0; done < COUNT; seen++) {
            int left = (done < CHUNK ? CHUNK : COUNT) - done, n = left < cases[i].batch ? left : cases[i].batch;
            assert_int_equal(batch_of[seen], n);
            done += n;
            silent += cases[i].seconds;
            if (silent < 0.5 && done < COUNT)
                continue;
            assert_int_equal(o.done[calls++], done);
            silent = 0;
        }
        assert_true(batches == seen && o.calls == calls);
    }
}

static void an_onlooker_stops_where_it_wants(void **state)
{
    onlooker o = {.stop_at = 96};
    const rc_scoring scoring = {.progress = look_on, .user = &o};
    rc_evaluation e;
    seconds_per_batch = 0.25;
    assert_int_equal(evaluate(*state, 48, &scoring, &e), RC_CANCELLED);
    assert_string_equal(rc_message(), "stopped after 96 of 1100 images were scored");
    assert_true(batches == 2 && o.calls == 1);
}

/* ---- what comes of it ----------------------------------------------------------------------------------------- */

/* A batch may be as large as a caller wants: 1024 images are scored at once. Five classes are the best five. */
static void five_classes_are_the_best(void **state)
{
    rc_evaluation e;
    SUCCEEDS(evaluate(*state, 5000, NULL, &e));
    assert_true(batches == 2 && batch_of[0] == CHUNK && batch_of[1] == COUNT - CHUNK);
    for (int k = 0; k < CLASSES; k++) {
        assert_true(rc_accuracy(&e, k, k + 1) == (k == 0 ? 100 : 0));
        assert_true(rc_accuracy_top5(&e, k, k + 1) == (k < 5 ? 100 : 0));
    }
    rc_evaluation_destroy(&e);
}

/* Also when nobody looks on. */
static void a_batch_that_fails_ends_it(void **state)
{
    static const rc_evaluation nothing;
    world *w = *state;
    const float bad = INFINITY;
    rc_evaluation e;
    be->write_real(be, w->classifier.head.weight, &bad, 1);
    assert_int_equal(evaluate(w, 48, NULL, &e), RC_NUMERIC);
    be->write_real(be, w->classifier.head.weight, w->head, 1);
    assert_int_equal(batches, 1);
    assert_memory_equal(&e, &nothing, sizeof e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_onlooker_is_told_twice_a_second),
        cmocka_unit_test(an_onlooker_stops_where_it_wants),
        cmocka_unit_test(five_classes_are_the_best),
        cmocka_unit_test(a_batch_that_fails_ends_it),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
