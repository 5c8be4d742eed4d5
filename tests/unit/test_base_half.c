/* Numbers of 16 bits: all of them, and the middle between each and the next. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/half.h"

static void all_come_back(void **state)
{
    (void)state;
    for (uint32_t half = 0; half < 0x10000; half++) {
        float value = rc_half_to_float((uint16_t)half);
        if (isfinite(value))
            assert_int_equal(rc_half_from_float(value), half);
        else if (isnan(value))
            assert_true(isnan(rc_half_to_float(rc_half_from_float(value))));
    }
    assert_true(rc_half_to_float(0x3C00) == 1 && rc_half_to_float(0xC500) == -5 && rc_half_to_float(1) == 0x1p-24f);
    assert_true(rc_half_to_float(0x7BFF) == 65504 && isinf(rc_half_to_float(0x7C00)));
}

static void the_nearest_is_taken(void **state)
{
    (void)state;
    for (uint16_t half = 0; half < 0x7BFF; half++) {
        float low = rc_half_to_float(half), high = rc_half_to_float((uint16_t)(half + 1)), middle = (low + high) / 2;
        assert_int_equal(rc_half_from_float(middle), half + (half & 1)); /* the even one */
        assert_int_equal(rc_half_from_float(nextafterf(middle, 0)), half);
        assert_int_equal(rc_half_from_float(nextafterf(middle, 1e9f)), half + 1);
        assert_int_equal(rc_half_from_float(-middle), 0x8000 | (half + (half & 1)));
    }
    assert_int_equal(rc_half_from_float(1e9f), 0x7BFF);
    assert_int_equal(rc_half_from_float(-HUGE_VALF), 0xFBFF);
    assert_int_equal(rc_half_from_float(0x1p-30f), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_come_back), cmocka_unit_test(the_nearest_is_taken)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
