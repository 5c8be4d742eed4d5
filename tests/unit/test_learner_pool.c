/* The pool of a task's images, statistics that grow with the classes, and a backend that has no memory once. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "support/cpu_backend.h"
#include "support/failing_heap.h"
#include "support/learning.h"
#include "support/succeeds.h"

enum { IMAGE = LEARNING_SIZE * LEARNING_SIZE * LEARNING_CHANNELS, COUNT = 24 };

static void teach_first(rc_learner *l, const char *method, int classes)
{
    rc_settings s = learning_settings();
    learning_create(l, be, method, &s);
    learning_teach(l, 0, classes, 8, &learning_no_hooks);
    rc_learner_end_task(l);
}

/* ---- images --------------------------------------------------------------------------------------------------- */

static void expect_pool(const rc_learner *l, const uint8_t *images, const int32_t *labels, const int *from, int count)
{
    uint8_t found[IMAGE];
    for (int i = 0; i < count; i++) {
        int32_t label;
        be->read_images(be, found, l->data.images, (size_t)i * IMAGE, IMAGE);
        be->read_bytes(be, &label, l->data.labels + i, sizeof label);
        assert_memory_equal(found, images + (size_t)from[i] * IMAGE, IMAGE);
        assert_int_equal(label, labels[from[i]]);
    }
}

static rc_backend plain;
static int writes;

static rc_status exact_alloc_images(rc_backend *b, size_t bytes, void **images)
{
    assert_int_equal(bytes, COUNT * IMAGE);
    return plain.alloc_images(b, bytes, images);
}

static void counted_write(rc_backend *b, void *to, size_t offset, const uint8_t *from, size_t bytes)
{
    writes++;
    plain.write_images(b, to, offset, from, bytes);
}

/* Whoever replays all old images has them behind those to train on, each in the order in which they were given. */
static void old_images_lie_behind_new_ones(void **state)
{
    (void)state;
    static const char *const methods[] = {"real-hkd", "joint"};
    int32_t *labels;
    uint8_t *images = learning_images(0, 4, COUNT / 4, &labels);
    labels[2] = labels[3] = 0; /* runs of several lengths */
    labels[8] = labels[9] = 3;
    for (int m = 0; m < 2; m++) {
        rc_learner l;
        int from[COUNT], at = 0;
        teach_first(&l, methods[m], 2);
        plain = *be;
        be->write_images = counted_write;
        be->alloc_images = exact_alloc_images; /* there is room for all of them, once */
        writes = 0;
        rc_status status = rc_learner_begin_task(&l, 1, 2, images, labels, COUNT);
        *be = plain;
        SUCCEEDS(status);
        int runs = 1; /* of images that stay together, each copied at once */
        for (int i = 1; i < COUNT && m == 0; i++)
            runs += (labels[i] < 2) != (labels[i - 1] < 2);
        assert_int_equal(writes, runs);
        for (int old = 0; old < 2; old++)
            for (int i = 0; i < COUNT; i++)
                if (m == 1 ? old == 0 : (labels[i] < 2) == old)
                    from[at++] = i;
        assert_int_equal(at, COUNT);
        expect_pool(&l, images, labels, from, COUNT);
        rc_learner_destroy(&l);
    }
    rc_free(NULL, images);
    rc_free(NULL, labels);
}

/* Images that are given one by one, in any order, have the places of those that are given at once. */
static void images_may_come_one_by_one(void **state)
{
    (void)state;
    enum { FEW = 10 };
    static const int in_order[FEW] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    int32_t *labels;
    uint8_t *images = learning_images(0, 2, FEW / 2, &labels);
    rc_settings s = learning_settings();
    rc_learner l;
    learning_create(&l, be, "finetune", &s);
    SUCCEEDS(rc_learner_begin_task(&l, 0, 2, NULL, labels, FEW));
    for (int i = 0; i < FEW; i++) {
        int index = i * 7 % FEW;
        rc_learner_give_image(&l, index, images + (size_t)index * IMAGE);
    }
    expect_pool(&l, images, labels, in_order, FEW);
    rc_learner_destroy(&l);
    rc_free(NULL, images);
    rc_free(NULL, labels);
}

/* The setting counts before the row's own size, be it one image. */
static void a_buffer_may_hold_one_image(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    rc_learner l;
    s.buffer_size = 1;
    learning_create(&l, be, "er-5120", &s);
    learning_begin(&l, 0, 2, 8);
    assert_int_equal(l.source->images.capacity, 1);
    rc_learner_destroy(&l);
}

/* Value v of a pixel is 255 (v std + mean), rounded, from 0 to 255. */
static void pixels_are_shown_as_bytes(void **state)
{
    (void)state;
    enum { SHOWN = 10 };
    static const double value[SHOWN] = {-300, -0.2, 0, 0.3, 0.7, 254.4, 254.6, 255, 255.7, 600};
    static const uint8_t expected[SHOWN] = {0, 0, 0, 0, 1, 254, 255, 255, 255, 255};
    for (int channels = 1; channels <= 3; channels += 2) {
        rc_learner l = {.augment = {.h = 1, .w = SHOWN, .c = channels, .mean = {0.5f, 0, 0.25f}, .std = {0.5f, 1, 2}}};
        double pixels[3 * SHOWN];
        uint8_t found[3 * SHOWN];
        for (int i = 0; i < SHOWN * channels; i++)
            pixels[i] = (value[i / channels] / 255 - (double)l.augment.mean[i % channels]) /
                        (double)l.augment.std[i % channels];
        rc_learner_show(&l, pixels, found);
        for (int i = 0; i < SHOWN * channels; i++)
            assert_int_equal(found[i], expected[i / channels]);
    }
}

/* ---- statistics ----------------------------------------------------------------------------------------------- */

/* The mean of one class is kept, too; rows of new classes are not numbers; nothing is left of the smaller array. */
static void statistics_grow_with_the_head(void **state)
{
    (void)state;
    rc_learner l;
    float before[64], after[3 * 64];
    teach_first(&l, "cwd", 1);
    size_t d = (size_t)l.student.head.d;
    assert_in_range(d, 1, 64);
    be->read_real(be, before, l.class_mean, d);
    learning_begin(&l, 1, 2, 8);
    size_t held = rc_bytes_allocated();
    SUCCEEDS(rc_learner_grow_statistics(&l));
    assert_int_equal(rc_bytes_allocated(), held + 2 * d * be->real_bytes);
    assert_int_equal(l.statistics_classes, 3);
    be->read_real(be, after, l.class_mean, 3 * d);
    assert_memory_equal(after, before, d * sizeof *after);
    for (size_t i = d; i < 3 * d; i++)
        assert_true(isnan(after[i]));
    rc_learner_destroy(&l);
}

/* ---- failures ------------------------------------------------------------------------------------------------- */

static int allocations_to_go;

static rc_status failing_alloc(rc_backend *b, size_t bytes, void **memory)
{
    return --allocations_to_go == 0 ? rc_fail(RC_OUT_OF_MEMORY, "no memory") : plain.alloc(b, bytes, memory);
}

/* Whichever allocation of the backend fails, once, a copy of a learner is not half of one, and growing statistics tells
 * it. */
static void a_backend_may_have_no_memory_once(void **state)
{
    (void)state;
    rc_learner l, copy;
    static const rc_learner nothing;
    teach_first(&l, "cwd", 2);
    size_t held = rc_bytes_allocated();
    plain = *be;
    int nth = 0;
    for (bool failed = true; failed; nth++) {
        be->alloc = failing_alloc;
        allocations_to_go = nth + 1;
        rc_status status = rc_learner_clone(&copy, &l);
        *be = plain;
        failed = allocations_to_go <= 0;
        assert_int_equal(status, failed ? RC_OUT_OF_MEMORY : RC_OK);
        assert_true(!failed || memcmp(&copy, &nothing, sizeof copy) == 0);
        rc_learner_destroy(&copy);
        assert_int_equal(rc_bytes_allocated(), held);
    }
    assert_true(nth > 4); /* parameters, running statistics, head, means, covariance */
    learning_begin(&l, 1, 2, 8);
    be->alloc = failing_alloc;
    allocations_to_go = 1;
    rc_status status = rc_learner_grow_statistics(&l);
    *be = plain;
    assert_int_equal(status, RC_OUT_OF_MEMORY);
    assert_int_equal(l.statistics_classes, 2);
    rc_learner_destroy(&l);
}

/* The same for the host's memory as a task begins; the first task of a method that asks the old model has none. */
static void a_task_that_has_no_room_does_not_begin(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    int32_t *labels;
    uint8_t *images = learning_images(0, 2, 8, &labels);
    int nth = 0;
    for (bool failed = true; failed; nth++) {
        rc_learner l;
        learning_create(&l, be, "cwd", &s);
        allocation_to_fail = nth + 1;
        rc_status status = rc_learner_begin_task(&l, 0, 2, images, labels, 16);
        failed = allocation_failed();
        assert_int_equal(status, failed ? RC_OUT_OF_MEMORY : RC_OK);
        assert_true(failed || (!l.has.teacher && l.teacher.backbone.param == NULL));
        rc_learner_destroy(&l);
    }
    assert_true(nth > 4);
    rc_free(NULL, images);
    rc_free(NULL, labels);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(old_images_lie_behind_new_ones),
        cmocka_unit_test(images_may_come_one_by_one),
        cmocka_unit_test(a_buffer_may_hold_one_image),
        cmocka_unit_test(pixels_are_shown_as_bytes),
        cmocka_unit_test(statistics_grow_with_the_head),
        cmocka_unit_test(a_backend_may_have_no_memory_once),
        cmocka_unit_test(a_task_that_has_no_room_does_not_begin),
    };
    return cmocka_run_group_tests(tests, open_backend, close_backend);
}
