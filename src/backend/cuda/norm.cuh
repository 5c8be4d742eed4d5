/* From the sums of a normalisation to what its readers need: the formulas, for one thread that has a channel. They are
 * those of cpu/reference/norm.c. Kernels of norm.cu use them, and the convolution that has taken the sums, if it can do
 * the rest at once. */
#ifndef RC_BACKEND_CUDA_NORM_CUH
#define RC_BACKEND_CUDA_NORM_CUH

#include "backend/cuda/device.cuh"

struct group_sums {
    double first, second; /* of one channel, over the rows of one group */
};

/* What every normalisation knows of its tensor. */
struct norm_shape {
    group_view groups;
    int c, cp, image_pixels;
};

static inline norm_shape shape_of(const rc_tensor *y)
{
    norm_shape shape = {view_groups(y), y->c, rc_cuda_padded(y->c), y->h * y->w};
    return shape;
}

__device__ inline double samples_of(const norm_shape &shape, int group)
{
    return (double)(shape.groups.end[group] - group_begin(shape.groups, group)) * shape.image_pixels;
}

/* Mean and biased variance from the sums of (raw - center) and its square. */
__device__ inline void moments(group_sums sums, double samples, double center, double *mean, double *var)
{
    double shifted = sums.first / samples, spread = sums.second / samples - shifted * shifted;
    *mean = center + shifted;
    *var = spread > 0 ? spread : 0;
}

/* ---- forward ---------------------------------------------------------------------------------------------------- */

struct normalisation {
    float *scale, *shift, *mean, *istd; /* (groups, cp) */
};

struct affine {
    const float *gamma, *beta; /* (c); NULL: 1, 0 */
};

__device__ inline void set_normalisation(normalisation to, int i, double mean, double var, double eps, affine by,
                                         int channel)
{
    double istd = 1 / sqrt(var + eps), gamma = by.gamma ? (double)by.gamma[channel] : 1;
    double beta = by.beta ? (double)by.beta[channel] : 0;
    to.mean[i] = (float)mean;
    to.istd[i] = (float)istd;
    to.scale[i] = (float)(gamma * istd);
    to.shift[i] = (float)(beta - mean * gamma * istd);
}

__device__ inline void clear_normalisation(normalisation to, int i)
{
    to.scale[i] = to.shift[i] = to.mean[i] = to.istd[i] = 0;
}

__device__ inline void update_running(float *running, double momentum, double now)
{
    *running = (float)((1 - momentum) * (double)*running + momentum * now);
}

/* bn_train */
struct train_norm {
    rc_bn bn;
    norm_shape shape;
    const float *center; /* (c); NULL: 0 */
    affine by;
    float *running_mean, *running_var; /* (c); NULL: not updated */
    normalisation to;

    __device__ void finish(int channel, const group_sums sums[RC_MAX_GROUPS]) const
    {
        bool inside = channel < shape.c;
        double from = center && inside ? (double)center[channel] : 0; /* usually running_mean, about to change */
        for (int group = 0; group < shape.groups.count; group++) {
            int i = group * shape.cp + channel;
            if (!inside) {
                clear_normalisation(to, i);
                continue;
            }
            double samples = samples_of(shape, group), mean, var;
            moments(sums[group], samples, from, &mean, &var);
            set_normalisation(to, i, mean, var, (double)bn.eps, by, channel);
            if (running_mean) {
                update_running(running_mean + channel, (double)bn.momentum, mean);
                update_running(running_var + channel, (double)bn.momentum,
                               samples > 1 ? var * samples / (samples - 1) : var);
            }
        }
    }
};

/* ---- backward --------------------------------------------------------------------------------------------------- */

/* bn_backward: dL/draw = a dz + b raw + c */
struct backward_norm {
    norm_shape shape;
    bool train;
    const float *scale, *mean, *istd;        /* (groups, cp) of the forward pass */
    const float *dmean, *dvar, *batch_mean;  /* (cp); NULL: the statistics have no gradient */
    float *dgamma, *dbeta;                   /* (c); NULL: not wanted */
    float *a, *b, *c;                        /* (groups, cp) */
    double all;                              /* samples of all groups */

    __device__ void finish(int channel, const group_sums sums[RC_MAX_GROUPS]) const
    {
        bool inside = channel < shape.c;
        double gamma_sum = 0, beta_sum = 0;
        for (int group = 0; group < shape.groups.count; group++) {
            int i = group * shape.cp + channel;
            double by_dz = 0, by_raw = 0, constant = 0;
            if (inside) {
                double inverse = (double)istd[i], samples = samples_of(shape, group);
                by_dz = (double)scale[i];
                if (train) {
                    by_raw = -by_dz * inverse * inverse * sums[group].second / samples;
                    constant = -by_dz * sums[group].first / samples - by_raw * (double)mean[i];
                }
                beta_sum += sums[group].first;
                gamma_sum += inverse * sums[group].second;
            }
            if (inside && dmean) { /* dmean / m + 2 dvar (raw - batch_mean) / m */
                double twice = 2 * (double)dvar[channel] / all;
                by_raw += twice;
                constant += (double)dmean[channel] / all - twice * (double)batch_mean[channel];
            }
            a[i] = (float)by_dz;
            b[i] = (float)by_raw;
            c[i] = (float)constant;
        }
        if (inside && dgamma)
            dgamma[channel] = (float)gamma_sum;
        if (inside && dbeta)
            dbeta[channel] = (float)beta_sum;
    }
};

/* ---- joined to the operation that takes the sums ----------------------------------------------------------------
 * The operation has been held back (cuda->deferred). True: it will do this normalisation, and is on its way. */
bool rc_cuda_join_norm(rc_cuda *cuda, const void *partial, const train_norm &norm);
bool rc_cuda_join_norm(rc_cuda *cuda, const void *partial, const backward_norm &norm);

#endif
