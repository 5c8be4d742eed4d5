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

/* ---- images that are lent, and made when they are read ------------------------------------------------------- */

enum { MOST_ORDERS = 8 };

/* Numbers of images that a reader was to expect, how many were fetched then, and how they will be seen. */
static struct {
    int count, fetched, numbers[COUNT];
    bool windows;
    rc_image_view view;
} orders[MOST_ORDERS];
static int announced;
static uint8_t ring[COUNT * IMAGE];

static rc_status open_supply(const void *owner, size_t bytes, int most, void **reader)
{
    (void)owner;
    assert_int_equal(bytes, IMAGE);
    assert_int_equal(most, learning_settings().batch);
    *reader = orders;
    return RC_OK;
}

static void close_supply(void *reader)
{
    assert_ptr_equal(reader, orders);
}

static rc_status expect_supply(void *reader, const int32_t *number, size_t count, const rc_image_view *view, int parts)
{
    assert_ptr_equal(reader, orders);
    assert_in_range(announced, 0, MOST_ORDERS - 1);
    assert_in_range(count, 1, COUNT);
    assert_int_equal(parts, 1);
    orders[announced].count = (int)count;
    orders[announced].fetched = 0;
    for (size_t i = 0; i < count; i++)
        orders[announced].numbers[i] = number[i];
    orders[announced].windows = view != NULL;
    if (view != NULL)
        orders[announced].view = *view;
    announced++;
    return RC_OK;
}

/* Another picture for every number. */
static void make_image(int number, uint8_t *to)
{
    for (int i = 0; i < IMAGE; i++)
        to[i] = (uint8_t)(i * (number + 3) + 16 * number);
}

static rc_status fetch_supply(void *reader, size_t first, int n, const uint8_t **from, const int32_t **place)
{
    static const int32_t in_order[] = {0, 1, 2, 3, 4, 5, 6, 7};
    assert_ptr_equal(reader, orders);
    assert_in_range(n, 1, sizeof in_order / sizeof *in_order);
    for (int i = 0; i < n; i++)
        make_image(orders[announced - 1].numbers[first + (size_t)i], ring + i * IMAGE);
    orders[announced - 1].fetched += n;
    *from = ring;
    *place = in_order;
    return RC_OK;
}

static rc_status read_supply(const void *owner, int32_t number, uint8_t *to)
{
    (void)owner;
    make_image(number, to);
    return RC_OK;
}

static const rc_image_supply supply = {
    .open = open_supply, .close = close_supply, .expect = expect_supply, .fetch = fetch_supply, .read = read_supply};

/* The images of the lent ones that an epoch shows, each once: a bit for each. */
static unsigned shown_by(int order)
{
    unsigned shown = 0;
    for (int i = 0; i < orders[order].count; i++) {
        assert_false(shown >> orders[order].numbers[i] & 1);
        shown |= 1u << orders[order].numbers[i];
    }
    return shown;
}

/* Every epoch of training and of refinement has random windows of its own. The epoch of the statistics, and what it
 * leaves over, show pictures as they are. */
static void training_alone_sees_windows(void **state)
{
    (void)state;
    static const int32_t index[17] = {3, 1, 4, 15, 9, 2, 6, 5, 8, 7, 16, 0, 11, 10, 14, 13, 12};
    int32_t labels[17];
    rc_settings s = learning_settings();
    rc_learner l;
    s.class_covariances = true; /* which see every image */
    s.plus_drawn = 0;           /* which would look at the images between training and refinement */
    learning_create(&l, be, "cwd+", &s);
    for (int task = 0; task < 2; task++) {
        for (int i = 0; i < 17; i++)
            labels[i] = 2 * task + i % 2;
        rc_lent_images lent = {.supply = &supply, .index = index, .count = 17, .bytes = IMAGE};
        announced = 0;
        SUCCEEDS(rc_learner_begin_lent(&l, task, 2, &lent, labels));
        SUCCEEDS(rc_run_stages(&l, RC_STAGE_INVERSION, 0, &learning_no_hooks, NULL));
        uint32_t steps = rc_stage_steps(&l, RC_STAGE_TRAINING) + rc_stage_steps(&l, RC_STAGE_REFINEMENT);
        int epochs = (int)steps / 2, over = task == 0; /* later tasks take whole batches alone */
        assert_int_equal(epochs, task == 0 ? 2 : s.epochs);
        assert_int_equal(announced, epochs + 1 + over);
        for (int i = 0; i < announced; i++) {
            assert_int_equal(orders[i].windows, i < epochs);
            assert_int_equal(orders[i].fetched, orders[i].count);
            if (i < epochs) {
                assert_int_equal(orders[i].view.seed, s.seed);
                assert_int_equal(orders[i].view.stream, (uint64_t)task << 48 | (uint64_t)i << 16 | RC_STREAM_WINDOWS);
            }
            if (i <= epochs)
                assert_int_equal(orders[i].count, 16);
        }
        if (over == 1) { /* a batch of the one that is left */
            assert_int_equal(orders[epochs + 1].count, s.batch);
            for (int i = 0; i < s.batch; i++)
                assert_int_equal(shown_by(epochs) | 1u << orders[epochs + 1].numbers[i], (1u << 17) - 1);
        }
        for (int i = 0; i < epochs; i++)
            assert_memory_not_equal(orders[i].numbers, orders[epochs].numbers, 16 * sizeof *orders->numbers);
        rc_learner_end_task(&l);
    }
    rc_learner_destroy(&l);
}

/* Lent images have the places of those that are given. */
static void lent_images_have_the_same_places(void **state)
{
    (void)state;
    int32_t *labels, index[COUNT];
    uint8_t *images = learning_images(0, 4, COUNT / 4, &labels);
    rc_learner l;
    int from[COUNT], at = 0;
    teach_first(&l, "real-hkd", 2);
    for (int i = 0; i < COUNT; i++) {
        index[i] = i * 7 % COUNT;
        make_image(index[i], images + (size_t)i * IMAGE);
    }
    for (int old = 0; old < 2; old++)
        for (int i = 0; i < COUNT; i++)
            if ((labels[i] < 2) == old)
                from[at++] = i;
    rc_lent_images lent = {.supply = &supply, .index = index, .count = COUNT, .bytes = IMAGE};
    SUCCEEDS(rc_learner_begin_lent(&l, 1, 2, &lent, labels));
    expect_pool(&l, images, labels, from, COUNT);
    rc_learner_destroy(&l);
    rc_free(NULL, images);
    rc_free(NULL, labels);
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

/* A first task's are of its images, a second one's of dreams, too; where there are none they are of nothing. */
static void what_statistics_are_of_is_known(void **state)
{
    (void)state;
    rc_learner l;
    teach_first(&l, "cwd", 2);
    assert_true(l.class_mean != NULL && l.statistics_of_images);
    learning_teach(&l, 1, 2, 8, &learning_no_hooks);
    rc_learner_end_task(&l);
    assert_true(l.class_mean != NULL && !l.statistics_of_images);
    rc_learner_destroy(&l);
    teach_first(&l, "finetune", 2);
    assert_true(l.class_mean == NULL && !l.statistics_of_images);
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
        cmocka_unit_test(old_images_lie_behind_new_ones),    cmocka_unit_test(images_may_come_one_by_one),
        cmocka_unit_test(a_buffer_may_hold_one_image),       cmocka_unit_test(pixels_are_shown_as_bytes),
        cmocka_unit_test(training_alone_sees_windows),       cmocka_unit_test(lent_images_have_the_same_places),
        cmocka_unit_test(statistics_grow_with_the_head),     cmocka_unit_test(what_statistics_are_of_is_known),
        cmocka_unit_test(a_backend_may_have_no_memory_once), cmocka_unit_test(a_task_that_has_no_room_does_not_begin),
    };
    return cmocka_run_group_tests(tests, open_backend, close_backend);
}
