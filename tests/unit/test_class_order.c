/* The published class orders: beginnings as printed in the published files, and every class once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "data/class_order.h"

static void check(const int *order, int classes, const int *begins, int count)
{
    int seen[200] = {0};
    for (int i = 0; i < count; i++)
        assert_int_equal(order[i], begins[i]);
    for (int i = 0; i < classes; i++)
        assert_int_equal(seen[order[i]]++, 0);
}

static void published_orders(void **state)
{
    (void)state;
    static const int cifar[3][8] = {
        {23, 8, 11, 7, 48, 13, 1, 91}, {53, 37, 65, 51, 4, 20, 38, 9}, {0, 76, 61, 63, 1, 71, 2, 6}};
    static const int tiny[3][4] = {{131, 181, 22, 172}, {33, 146, 79, 19}, {51, 94, 55, 35}};
    static const int imagenet[6] = {68, 56, 78, 8, 23, 84};
    int order[200];
    for (uint32_t seed = 0; seed < 3; seed++) {
        rc_class_order_python(seed, 100, order);
        check(order, 100, cifar[seed], 8);
        rc_class_order_python(seed, 200, order);
        check(order, 200, tiny[seed], 4);
    }
    rc_class_order_numpy(1993, 100, order);
    check(order, 100, imagenet, 6);
}

/* In full, as Python and numpy shuffle (tests/oracle/class_orders.py). */
static void whole_orders(void **state)
{
    (void)state;
    FILE *file = fopen(RC_SOURCE_DIR "/tests/fixtures/class_orders.txt", "r");
    assert_non_null(file);
    char line[2048], kind[16];
    int orders = 0, classes, read;
    unsigned seed;
    while (fgets(line, sizeof line, file) != NULL) {
        int order[200], expected;
        const char *at = line;
        if (line[0] == '#')
            continue;
        assert_int_equal(sscanf(at, "%15s %u %d%n", kind, &seed, &classes, &read), 3);
        assert_in_range(classes, 1, 200);
        if (strcmp(kind, "python") == 0)
            rc_class_order_python(seed, classes, order);
        else
            rc_class_order_numpy(seed, classes, order);
        for (int i = 0; i < classes; i++) {
            at += read;
            assert_int_equal(sscanf(at, "%d%n", &expected, &read), 1);
            assert_int_equal(order[i], expected);
        }
        orders++;
    }
    fclose(file);
    assert_true(orders >= 15);
}

static void seeded_orders_differ(void **state)
{
    (void)state;
    int a[50], b[50];
    uint32_t scratch[50];
    rc_class_order_seeded(1, 50, a, scratch);
    check(a, 50, NULL, 0);
    rc_class_order_seeded(2, 50, b, scratch);
    assert_true(memcmp(a, b, sizeof a) != 0);
    rc_class_order_seeded(1, 50, b, scratch);
    assert_memory_equal(a, b, sizeof a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_orders),
        cmocka_unit_test(whole_orders),
        cmocka_unit_test(seeded_orders_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
