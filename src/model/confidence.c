#include "model/confidence.h"

#include <math.h>

/* Of the second term. */
static const double usual = 2, weight = 4;

double rc_confidence_at(int k)
{
    return exp2((k - RC_TEMPERATURE_ONE) / 8.0);
}

void rc_confidence_add(rc_confidence *c, const float *logits, int classes, int label)
{
    double largest = -INFINITY;
    for (int j = 0; j < classes; j++)
        largest = fmax(largest, (double)logits[j]);
    for (int k = 0; k < RC_TEMPERATURES; k++) {
        double temperature = rc_confidence_at(k), sum = 0;
        for (int j = 0; j < classes; j++)
            sum += exp(((double)logits[j] - largest) / temperature);
        c->loss[k] += log(sum) - ((double)logits[label] - largest) / temperature;
    }
    c->images++;
}

double rc_confidence_temperature(const rc_confidence *c)
{
    double best = INFINITY, temperature = 0;
    for (int k = 0; c->images > 0 && k < RC_TEMPERATURES; k++) {
        double way = log(rc_confidence_at(k) / usual), loss = c->loss[k] + weight * way * way;
        if (loss < best) {
            best = loss;
            temperature = rc_confidence_at(k);
        }
    }
    return temperature;
}
