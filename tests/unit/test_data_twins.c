/* Images that are there twice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "data/twins.h"
#include "support/failing_heap.h"
#include "support/succeeds.h"

enum { SIDE = 3, BYTES = SIDE * SIDE * 3, MOST = 8 }; /* 27 bytes: the last word is not whole */

static uint8_t train[MOST][BYTES], test[MOST][BYTES];
static int32_t train_label[MOST], test_label[MOST];

/* Every image differs from every other one in its last byte alone. */
static int set_up(void **state)
{
    (void)state;
    memset(train, 9, sizeof train);
    memset(test, 9, sizeof test);
    for (int i = 0; i < MOST; i++) {
        train[i][BYTES - 1] = (uint8_t)i;
        test[i][BYTES - 1] = (uint8_t)(MOST + i);
        train_label[i] = i / 2;
        test_label[i] = i / 2;
    }
    return 0;
}

static rc_twins twins_of(int train_count, int test_count)
{
    rc_twins twins;
    rc_dataset d = {.h = SIDE,
                    .w = SIDE,
                    .c = 3,
                    .classes = 4,
                    .train = {.count = train_count, .images = train[0], .labels = train_label},
                    .test = {.count = test_count, .images = test[0], .labels = test_label}};
    SUCCEEDS(rc_dataset_find_twins(&d, &twins));
    return twins;
}

static void images_that_differ_are_no_twins(void **state)
{
    (void)state;
    rc_twins t = twins_of(MOST, MOST);
    assert_true(t.divided == 0 && t.held_out == 0);
    t = twins_of(MOST, 0);
    assert_true(t.divided == 0 && t.held_out == 0);
    memcpy(test[0], train[7], BYTES); /* but the test has no images */
    t = twins_of(MOST, 0);
    assert_true(t.divided == 0 && t.held_out == 0);
}

static void twins_in_a_class_are_none_between_classes(void **state)
{
    (void)state;
    memcpy(train[3], train[2], BYTES);
    rc_twins t = twins_of(MOST, MOST);
    assert_true(t.divided == 0 && t.held_out == 0);
    memcpy(test[2], train[2], BYTES);
    memcpy(test[3], train[2], BYTES);
    t = twins_of(MOST, MOST);
    assert_true(t.divided == 0 && t.held_out == 2);
}

static void twins_of_the_test_alone_were_not_trained_on(void **state)
{
    (void)state;
    memcpy(test[5], test[4], BYTES);
    rc_twins t = twins_of(MOST, MOST);
    assert_true(t.divided == 0 && t.held_out == 0);
    memcpy(test[7], test[4], BYTES);
    t = twins_of(MOST, MOST);
    assert_true(t.divided == 3 && t.held_out == 0 && t.classes[0] == 2 && t.classes[1] == 3);
}

static void twins_of_classes_are_counted(void **state)
{
    (void)state;
    memcpy(train[6], train[5], BYTES); /* of classes 3 and 2 */
    rc_twins t = twins_of(MOST, MOST);
    assert_true(t.divided == 2 && t.held_out == 0 && t.classes[0] == 2 && t.classes[1] == 3);
    memcpy(train[3], train[1], BYTES); /* 1 and 0, which come first */
    memcpy(test[1], train[1], BYTES);
    t = twins_of(MOST, MOST);
    assert_true(t.divided == 5 && t.held_out == 1 && t.classes[0] == 0 && t.classes[1] == 1);
}

static void a_lack_of_memory_is_told(void **state)
{
    (void)state;
    rc_twins twins;
    rc_dataset d = {.h = SIDE, .w = SIDE, .c = 3, .train = {.count = 1, .images = train[0], .labels = train_label}};
    allocation_to_fail = 1;
    rc_status status = rc_dataset_find_twins(&d, &twins);
    assert_true(allocation_failed());
    assert_int_equal(status, RC_OUT_OF_MEMORY);
    assert_int_equal(rc_bytes_allocated(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(images_that_differ_are_no_twins, set_up),
        cmocka_unit_test_setup(twins_in_a_class_are_none_between_classes, set_up),
        cmocka_unit_test_setup(twins_of_the_test_alone_were_not_trained_on, set_up),
        cmocka_unit_test_setup(twins_of_classes_are_counted, set_up),
        cmocka_unit_test_setup(a_lack_of_memory_is_told, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
