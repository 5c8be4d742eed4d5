#include "base/proportion.h"

#include <math.h>

void rc_wilson(double percent, int count, double *low, double *high)
{
    const double z = 1.959963984540054, z2 = z * z;
    *low = *high = NAN;
    if (count < 1 || !(percent >= 0 && percent <= 100))
        return;
    double p = percent / 100, n = count, scale = 100 / (1 + z2 / n);
    double middle = scale * (p + z2 / (2 * n)), half = scale * z * sqrt(p * (1 - p) / n + z2 / (4 * n * n));
    *low = percent > 0 ? fmax(middle - half, 0) : 0; /* at the ends it is exactly 0 or 100, but for rounding */
    *high = percent < 100 ? fmin(middle + half, 100) : 100;
}

bool rc_interval_tells(double low, double high)
{
    return high - low <= RC_INTERVAL_WIDEST; /* false for NaN */
}

double rc_coin_tail(int heads, int throws)
{
    if (heads <= 0)
        return 1;
    /* log of (throws choose i) / 2^throws, from i = throws down: the logarithm does not underflow. */
    double term = -throws * log(2), sum = 0;
    for (int i = throws; i >= heads; i--) {
        sum += exp(term);
        term += log((double)i / (throws - i + 1));
    }
    return fmin(sum, 1);
}
