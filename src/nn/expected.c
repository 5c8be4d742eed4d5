#include "nn/expected.h"

#include <math.h>

#include "base/memory.h"

/* ---- a normal number through an activation ----------------------------------------------------------------------- */

static double density(double z)
{
    return 0.39894228040143267794 * exp(-z * z / 2);
}

static double below(double z)
{
    return erfc(-z * 0.70710678118654752440) / 2;
}

/* z density(z), which is 0 at both ends. */
static double moment(double z)
{
    return isinf(z) ? 0 : z * density(z);
}

rc_moments rc_moments_clipped(rc_moments x, double low, double high)
{
    double deviation = sqrt(x.variance);
    if (!(deviation > 0)) /* NaN stays one */
        return (rc_moments){isnan(deviation) ? deviation : fmin(fmax(x.mean, low), high), deviation};
    double a = (low - x.mean) / deviation, b = (high - x.mean) / deviation;
    /* As deviations from the mean of x, in units of its deviation: limits at a and b. */
    double inside = below(b) - below(a);
    double at_low = isinf(a) ? 0 : a * below(a), at_high = isinf(b) ? 0 : b * below(-b);
    double first = density(a) - density(b) + at_low + at_high;
    double second = inside + moment(a) - moment(b) + (isinf(a) ? 0 : a * at_low) + (isinf(b) ? 0 : b * at_high);
    return (rc_moments){x.mean + deviation * first, x.variance * fmax(second - first * first, 0)};
}

static rc_moments activate(rc_act act, rc_moments x)
{
    static const double slope = 0.2; /* of RC_ACT_LEAKY_RELU */
    switch (act) {
    case RC_ACT_NONE: return x;
    case RC_ACT_RELU: return rc_moments_clipped(x, 0, INFINITY);
    case RC_ACT_RELU6: return rc_moments_clipped(x, 0, 6);
    case RC_ACT_LEAKY_RELU: {
        rc_moments up = rc_moments_clipped(x, 0, INFINITY), down = rc_moments_clipped(x, -INFINITY, 0);
        /* One part is 0 wherever the other is not, so their covariance is minus the product of the means. */
        double variance = up.variance + slope * slope * down.variance - 2 * slope * up.mean * down.mean;
        return (rc_moments){up.mean + slope * down.mean, variance};
    }
    case RC_ACT_TANH:
    case RC_ACT_SIGMOID:
    case RC_ACT_SILU: break;
    }
    return (rc_moments){NAN, NAN};
}

/* ---- a net ------------------------------------------------------------------------------------------------------- */

typedef struct reading {
    const rc_net *net;
    const float *param, *running;
    rc_moments *of; /* all channels of all layers */
    size_t first[RC_MAX_LAYERS];
} reading;

/* What a layer's operation and normalisation give in a channel. */
static rc_moments before_skip(const reading *r, const rc_layer *layer, int channel)
{
    bool pools = layer->kind == RC_LAYER_AVERAGE_POOL || layer->kind == RC_LAYER_MAX_POOL;
    if (layer->bn.on) {
        float gamma = layer->bn.affine ? r->param[layer->gamma + (size_t)channel] : 1;
        float beta = layer->bn.affine ? r->param[layer->beta + (size_t)channel] : 0;
        double spread = (double)r->running[layer->running_var + (size_t)channel];
        return (rc_moments){(double)beta, (double)gamma * (double)gamma * spread / (spread + (double)layer->bn.eps)};
    }
    if (pools && layer->in >= 0)
        return r->of[r->first[layer->in] + (size_t)channel];
    return (rc_moments){NAN, NAN};
}

/* Adds what comes to a channel by the shortcut. */
static rc_moments with_skip(const reading *r, const rc_layer *layer, int channel, rc_moments x)
{
    if (layer->shortcut == RC_SHORTCUT_NONE)
        return x;
    int from = channel - layer->skip_offset;
    if (from < 0 || from >= r->net->layer[layer->skip].c_out)
        return x;
    rc_moments skip = r->of[r->first[layer->skip] + (size_t)from];
    return (rc_moments){x.mean + skip.mean, x.variance + skip.variance};
}

static void walk(reading *r, double *mean)
{
    const rc_net *net = r->net;
    for (int i = 0; i < net->layers; i++) {
        const rc_layer *layer = &net->layer[i];
        for (int channel = 0; channel < layer->c_out; channel++) {
            rc_moments x = with_skip(r, layer, channel, before_skip(r, layer, channel));
            r->of[r->first[i] + (size_t)channel] = activate(layer->act, x);
        }
    }
    const rc_layer *last = &net->layer[net->layers - 1];
    for (int channel = 0; channel < last->c_out; channel++)
        mean[channel] = r->of[r->first[net->layers - 1] + (size_t)channel].mean;
}

rc_status rc_expected_features(const rc_model *model, double *mean)
{
    const rc_net *net = model->net;
    rc_backend *be = model->backend;
    reading r = {.net = net};
    size_t channels = 0;
    for (int i = 0; i < net->layers; i++) {
        r.first[i] = channels;
        channels += (size_t)net->layer[i].c_out;
    }
    float *numbers = rc_alloc_zeroed(NULL, net->params + net->running + 1, sizeof *numbers);
    r.of = rc_alloc_zeroed(NULL, channels + 1, sizeof *r.of);
    rc_status status = numbers != NULL && r.of != NULL ? RC_OK : RC_OUT_OF_MEMORY;
    if (status == RC_OK) {
        be->read_real(be, numbers, model->param, net->params);
        if (net->running > 0)
            be->read_real(be, numbers + net->params, model->running, net->running);
        status = be->sync(be);
    }
    if (status == RC_OK) {
        r.param = numbers;
        r.running = numbers + net->params;
        walk(&r, mean);
    }
    rc_free(NULL, numbers);
    rc_free(NULL, r.of);
    return status;
}
