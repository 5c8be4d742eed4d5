/* How far a share of a few images can be trusted. */
#ifndef RC_BASE_PROPORTION_H
#define RC_BASE_PROPORTION_H

#include <stdbool.h>

/* The 95 % interval of an accuracy of `percent` of `count` images, after Wilson: with z = 1.96 (more exactly, the
 * 97.5 % point of the normal distribution), p = percent / 100, n = count,
 *
 *     (p + z^2 / 2n  -+  z sqrt(p (1 - p) / n + z^2 / 4n^2)) / (1 + z^2 / n)
 *
 * It never leaves 0 .. 100, and means something where few images, or all or none, are right; p -+ z sqrt(p (1 - p) / n)
 * does not. Both become NaN where there is no image or `percent` is none. */
void rc_wilson(double percent, int count, double *low, double *high);

/* Is the interval narrow enough to tell anything, at most RC_INTERVAL_WIDEST points? Not where it is NaN. */
#define RC_INTERVAL_WIDEST 30
bool rc_interval_tells(double low, double high);

/* The probability that at least `heads` of `throws` throws of a coin are heads: the exact sign test, which is McNemar's
 * for pairs that differ. 1 where heads is 0 or less. */
double rc_coin_tail(int heads, int throws);

#endif
