/* The stream of tasks: every way to cut the classes, and epochs of any number of images. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/rng.h"
#include "cil/task_stream.h"
#include "support/failing_heap.h"

/* Tasks of the expected sizes; sizes ends with 0. */
static void expect_tasks(int classes, rc_task_split split, const int *sizes)
{
    rc_task_stream stream;
    assert_int_equal(rc_task_stream_create(&stream, classes, NULL, &split), RC_OK);
    int tasks = 0, first = 0;
    for (; sizes[tasks] > 0; tasks++) {
        assert_int_equal(rc_task_first(&stream, tasks), first);
        assert_int_equal(rc_task_classes(&stream, tasks), sizes[tasks]);
        first += sizes[tasks];
    }
    assert_int_equal(stream.tasks, tasks);
    assert_int_equal(first, classes);
    rc_task_stream_destroy(&stream);
}

#define TASKS(classes, split, ...) expect_tasks(classes, split, (const int[]){__VA_ARGS__, 0})
#define SPLIT(...)                 ((rc_task_split){__VA_ARGS__})

static void equal_tasks(void **state)
{
    (void)state;
    TASKS(100, SPLIT(.tasks = 5), 20, 20, 20, 20, 20);
    TASKS(6, SPLIT(.tasks = 6), 1, 1, 1, 1, 1, 1);
    TASKS(7, SPLIT(.tasks = 1), 7);
    TASKS(1, SPLIT(.tasks = 1), 1);
    TASKS(7, SPLIT(.tasks = 1, .first = 3), 7); /* there is no other that could take the rest */
}

/* first = C / N, plus what is left of (C - first) / (N - 1). */
static void first_task_takes_the_remainder(void **state)
{
    (void)state;
    TASKS(10, SPLIT(.tasks = 3), 4, 3, 3);
    TASKS(11, SPLIT(.tasks = 3), 3, 4, 4);
    TASKS(100, SPLIT(.tasks = 3), 34, 33, 33);
    TASKS(20, SPLIT(.tasks = 6), 5, 3, 3, 3, 3, 3);
    TASKS(10, SPLIT(.tasks = 2), 5, 5);
    TASKS(100, SPLIT(.tasks = 6, .first_fraction = 0.5), 50, 10, 10, 10, 10, 10);
    TASKS(100, SPLIT(.tasks = 4, .first_fraction = 0.5), 52, 16, 16, 16);
}

static void first_task_of_a_given_size(void **state)
{
    (void)state;
    TASKS(10, SPLIT(.tasks = 3, .first = 6), 6, 2, 2);
    TASKS(9, SPLIT(.tasks = 3, .first = 1), 1, 4, 4);
    TASKS(100, SPLIT(.tasks = 11, .first = 50), 50, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5);
    rc_task_stream stream;
    assert_int_equal(rc_task_stream_create(&stream, 10, NULL, &SPLIT(.tasks = 3, .first = 5)), RC_INVALID_ARGUMENT);
    assert_non_null(strstr(rc_message(), "5 classes after the first 5 do not divide into 2 tasks"));
    assert_int_equal(rc_task_stream_create(&stream, 10, NULL, &SPLIT(.tasks = 3, .first = 9)), RC_INVALID_ARGUMENT);
    assert_non_null(strstr(rc_message(), "leaves 1 for 2 more tasks"));
}

static void listed_sizes(void **state)
{
    (void)state;
    TASKS(10, SPLIT(.sizes = 3, .size = {6, 2, 2}), 6, 2, 2);
    TASKS(3, SPLIT(.sizes = 2, .size = {1, 2}, .tasks = 77), 1, 2);
    rc_task_stream stream;
    assert_int_equal(rc_task_stream_create(&stream, 10, NULL, &SPLIT(.sizes = 2, .size = {6, 3})), RC_INVALID_ARGUMENT);
    assert_non_null(strstr(rc_message(), "9 classes together, the data has 10"));
    assert_int_equal(rc_task_stream_create(&stream, 10, NULL, &SPLIT(.sizes = 2, .size = {6, 5})), RC_INVALID_ARGUMENT);
    assert_int_equal(rc_task_stream_create(&stream, 10, NULL, &SPLIT(.sizes = 3, .size = {6, 0, 4})),
                     RC_INVALID_ARGUMENT);
    assert_non_null(strstr(rc_message(), "task 2 has 0 classes"));
    assert_int_equal(rc_task_stream_create(&stream, 10, NULL, &SPLIT(.tasks = 11)), RC_INVALID_ARGUMENT);
    assert_int_equal(rc_task_stream_create(&stream, 10, NULL, &SPLIT(.tasks = 0)), RC_INVALID_ARGUMENT);
    assert_int_equal(rc_task_stream_create(&stream, 0, NULL, &SPLIT(.tasks = 1)), RC_INVALID_ARGUMENT);
}

static void orders_map_classes_to_labels(void **state)
{
    (void)state;
    rc_task_stream stream;
    const int order[4] = {2, 0, 3, 1}, twice[4] = {2, 0, 2, 1}, outside[4] = {2, 0, 4, 1};
    int32_t labels[6] = {0, 1, 2, 3, 2, 0}, *index;
    rc_split data = {.count = 6, .labels = labels};
    int count;
    assert_int_equal(rc_task_stream_create(&stream, 4, order, &SPLIT(.tasks = 2)), RC_OK);
    for (int i = 0; i < 4; i++)
        assert_int_equal(stream.position[stream.order[i]], i);
    assert_int_equal(rc_task_images(&stream, &data, 0, 2, &index, &count), RC_OK); /* native classes 2 and 0 */
    const int32_t expected[] = {0, 2, 4, 5};
    assert_int_equal(count, 4);
    assert_memory_equal(index, expected, sizeof expected);
    rc_free(NULL, index);
    rc_task_stream_destroy(&stream);
    assert_int_equal(rc_task_stream_create(&stream, 4, twice, &SPLIT(.tasks = 2)), RC_INVALID_ARGUMENT);
    assert_non_null(strstr(rc_message(), "class 2 twice"));
    assert_int_equal(rc_task_stream_create(&stream, 4, outside, &SPLIT(.tasks = 2)), RC_INVALID_ARGUMENT);
}

/* The first images of every class, in the order of the data, with positions in place of native classes. */
static void images_of_a_class_can_be_fewer(void **state)
{
    (void)state;
    rc_task_stream stream;
    const int order[3] = {2, 0, 1};
    int32_t labels[7] = {0, 1, 2, 2, 0, 2, 1}, *index, *positions;
    uint8_t pixels[7 * 4]; /* 1 x 2 of 2 channels */
    rc_lent_images lent;
    rc_dataset data = {.classes = 3, .h = 1, .w = 2, .c = 2, .train = {.count = 7, .images = pixels, .labels = labels}};
    const struct {
        int most, count;
        int32_t index[5], label[5];
    } cases[] = {{0, 5, {0, 2, 3, 4, 5}, {1, 0, 0, 1, 0}},
                 {1, 2, {0, 2}, {1, 0}},
                 {2, 4, {0, 2, 3, 4}, {1, 0, 0, 1}},
                 {9, 5, {0, 2, 3, 4, 5}, {1, 0, 0, 1, 0}}};
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)(10 * i);
    assert_int_equal(rc_task_stream_create(&stream, 3, order, &SPLIT(.sizes = 2, .size = {2, 1})), RC_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int count = -1;
        size_t bytes = (size_t)cases[i].count * sizeof *index;
        assert_int_equal(rc_task_some_images(&stream, &data.train, 0, 2, cases[i].most, &index, &count), RC_OK);
        assert_int_equal(count, cases[i].count);
        assert_memory_equal(index, cases[i].index, bytes);
        rc_free(NULL, index);
        assert_int_equal(rc_task_lend(&stream, &data, 0, 2, cases[i].most, &lent, &index, &positions), RC_OK);
        assert_int_equal(lent.count, cases[i].count);
        assert_ptr_equal(lent.from, pixels);
        assert_ptr_equal(lent.index, index);
        assert_int_equal(lent.bytes, 4);
        assert_null(lent.check); /* memory needs none */
        assert_memory_equal(index, cases[i].index, bytes);
        assert_memory_equal(positions, cases[i].label, bytes);
        rc_free(NULL, index);
        rc_free(NULL, positions);
    }
    rc_task_stream_destroy(&stream);
}

static const rc_task_stream nothing;

/* In which words; nothing is held then. */
static void what_cannot_be_cut_is_refused(void **state)
{
    (void)state;
    static const int twice[4] = {2, 0, 2, 1}, high[4] = {2, 0, 4, 1}, low[4] = {2, 0, -1, 1};
    const struct {
        int classes;
        const int *order;
        rc_task_split split;
        const char *message;
    } bad[] = {
        {0, NULL, SPLIT(.tasks = 1), "0 classes, expected 1 or more"},
        {4, twice, SPLIT(.tasks = 2), "the class order holds class 2 twice"},
        {4, high, SPLIT(.tasks = 2), "the class order holds 4, expected 0 to 3"},
        {4, low, SPLIT(.tasks = 2), "the class order holds -1, expected 0 to 3"},
        {10, NULL, SPLIT(.tasks = 11), "11 tasks, expected 1 to 10 for 10 classes"},
        {10, NULL, SPLIT(.tasks = 0), "0 tasks, expected 1 to 10 for 10 classes"},
        {2 * RC_MAX_TASKS, NULL, SPLIT(.tasks = RC_MAX_TASKS + 1), NULL},
        {10, NULL, SPLIT(.tasks = 3, .first = 5), "5 classes after the first 5 do not divide into 2 tasks"},
        {6, NULL, SPLIT(.tasks = 3, .first = 1), "5 classes after the first 1 do not divide into 2 tasks"},
        {10, NULL, SPLIT(.tasks = 3, .first = 9), "a first task of 9 classes leaves 1 for 2 more tasks"},
        {10, NULL, SPLIT(.tasks = 3, .first_fraction = 0.05), "a first task of 0 classes leaves 10 for 2 more tasks"},
        {10, NULL, SPLIT(.sizes = 2, .size = {6, 3}), "the tasks have 9 classes together, the data has 10"},
        {10, NULL, SPLIT(.sizes = 2, .size = {6, 5}), "the tasks ask for more classes than there are (10)"},
        {10, NULL, SPLIT(.sizes = 3, .size = {6, 0, 4}), "task 2 has 0 classes, expected 1 or more"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        rc_task_stream stream;
        char most[64];
        size_t before = rc_bytes_allocated();
        memset(&stream, 0xFF, sizeof stream);
        snprintf(most, sizeof most, "%d tasks, expected 1 to %d for %d classes", RC_MAX_TASKS + 1, RC_MAX_TASKS,
                 2 * RC_MAX_TASKS);
        assert_int_equal(rc_task_stream_create(&stream, bad[i].classes, bad[i].order, &bad[i].split),
                         RC_INVALID_ARGUMENT);
        assert_string_equal(rc_message(), bad[i].message != NULL ? bad[i].message : most);
        assert_memory_equal(&stream, &nothing, sizeof stream);
        assert_int_equal(rc_bytes_allocated(), before);
    }
    rc_task_stream stream;
    assert_int_equal(rc_task_stream_create(&stream, RC_MAX_TASKS, NULL, &SPLIT(.tasks = RC_MAX_TASKS)), RC_OK);
    assert_int_equal(rc_task_first(&stream, 0), 0);
    assert_int_equal(rc_task_first(&stream, RC_MAX_TASKS - 1), RC_MAX_TASKS - 1);
    assert_int_equal(rc_task_classes(&stream, RC_MAX_TASKS - 1), 1);
    rc_task_stream_destroy(&stream);
    assert_memory_equal(&stream, &nothing, sizeof stream);
}

static void allocations_may_fail(void **state)
{
    (void)state;
    int32_t labels[200] = {0}, *index;
    rc_split data = {.count = 200, .labels = labels};
    rc_task_stream stream;
    int count = 7;
    size_t before = rc_bytes_allocated();
    for (int nth = 1; nth <= 2; nth++) { /* order, position */
        allocation_to_fail = nth;
        assert_int_equal(rc_task_stream_create(&stream, 50, NULL, &SPLIT(.tasks = 2)), RC_OUT_OF_MEMORY);
        assert_true(allocation_failed());
        assert_memory_equal(&stream, &nothing, sizeof stream);
        assert_int_equal(rc_bytes_allocated(), before);
    }
    assert_int_equal(rc_task_stream_create(&stream, 50, NULL, &SPLIT(.tasks = 2)), RC_OK);
    allocation_to_fail = 1;
    assert_int_equal(rc_task_images(&stream, &data, 0, 50, &index, &count), RC_OUT_OF_MEMORY);
    assert_true(allocation_failed() && index == NULL && count == 0);
    rc_dataset whole = {.classes = 50, .h = 1, .w = 1, .c = 1, .train = data};
    uint8_t pixels[200] = {0};
    int32_t *positions;
    rc_lent_images lent;
    whole.train.images = pixels;
    for (int nth = 1; nth <= 3; nth++) { /* indices, images of each class, labels */
        allocation_to_fail = nth;
        assert_int_equal(rc_task_lend(&stream, &whole, 0, 50, 1, &lent, &index, &positions), RC_OUT_OF_MEMORY);
        assert_true(allocation_failed() && index == NULL && positions == NULL);
    }
    rc_task_stream_destroy(&stream);
    assert_int_equal(rc_bytes_allocated(), before);
}

/* The published streams: 2^16 epochs and tasks apart. */
static void orders_are_those_of_their_streams(void **state)
{
    (void)state;
    int32_t order[12];
    uint32_t scratch[10], expected[10];
    rc_epoch_order(9, 3, 5, 10, 4, order, scratch);
    rc_rng_permutation((rc_rng){9, (uint64_t)3 << 48 | 5 << 16 | 16}, 10, expected);
    for (int i = 0; i < 8; i++)
        assert_int_equal(order[i], expected[i]);
}

/* max(1, n / B) batches: the last incomplete one is dropped, a task smaller than a batch repeats its permutation. */
static void epochs_of_any_size(void **state)
{
    (void)state;
    enum { MOST = 64 };
    const struct {
        int images, batch, batches;
    } epochs[] = {{64, 32, 2}, {63, 32, 1}, {33, 32, 1}, {32, 32, 1}, {31, 32, 1}, {5, 12, 1}, {1, 7, 1}, {10, 3, 3}};
    for (size_t i = 0; i < sizeof epochs / sizeof *epochs; i++) {
        int n = epochs[i].images, batch = epochs[i].batch, used = epochs[i].batches * batch, seen[MOST] = {0};
        int32_t order[MOST + 1], again[MOST + 1], other[MOST + 1];
        uint32_t scratch[MOST];
        assert_int_equal(rc_epoch_batches(n, batch), epochs[i].batches);
        order[used] = -7;
        rc_epoch_order(3, 1, 2, n, batch, order, scratch);
        assert_int_equal(order[used], -7); /* not one more */
        for (int k = 0; k < used; k++) {
            assert_in_range(order[k], 0, n - 1);
            seen[order[k]]++;
            assert_int_equal(order[k], order[k % n]); /* the same permutation again */
        }
        for (int k = 0; k < n; k++)
            assert_true(seen[k] == used / n || seen[k] == used / n + 1);
        rc_epoch_order(3, 1, 2, n, batch, again, scratch);
        assert_memory_equal(order, again, (size_t)used * sizeof *order);
        if (n < 10)
            continue;
        rc_epoch_order(3, 1, 3, n, batch, other, scratch);
        assert_memory_not_equal(order, other, (size_t)used * sizeof *order);
        rc_epoch_order(3, 2, 2, n, batch, other, scratch);
        assert_memory_not_equal(order, other, (size_t)used * sizeof *order);
        rc_epoch_order(4, 1, 2, n, batch, other, scratch);
        assert_memory_not_equal(order, other, (size_t)used * sizeof *order);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_tasks),
        cmocka_unit_test(first_task_takes_the_remainder),
        cmocka_unit_test(first_task_of_a_given_size),
        cmocka_unit_test(listed_sizes),
        cmocka_unit_test(orders_map_classes_to_labels),
        cmocka_unit_test(images_of_a_class_can_be_fewer),
        cmocka_unit_test(epochs_of_any_size),
        cmocka_unit_test(what_cannot_be_cut_is_refused),
        cmocka_unit_test(orders_are_those_of_their_streams),
        cmocka_unit_test(allocations_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
