/* Numbers for the tests of analyses, which Python makes of the same formula, and how they compare numbers. */
#ifndef RC_TESTS_UNIT_WAVES_H
#define RC_TESTS_UNIT_WAVES_H

#include <math.h>

#define NEAR(value, expected, tolerance) \
    do { \
        double near_value_ = (value), near_expected_ = (expected); \
        if (!(fabs(near_value_ - near_expected_) <= (tolerance))) \
            fail_msg("%s is %.12g, expected %.12g", #value, near_value_, near_expected_); \
    } while (0)

/* float32(sin(1.3 i + 2.1 j + 0.7 i j + phase)). */
static inline void make_wave(int n, int d, double phase, float *out)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < d; j++)
            out[i * d + j] = (float)sin(1.3 * i + 2.1 * j + 0.7 * i * j + phase);
}

#endif
