/* From the sums of a normalisation to what its readers need: the formulas, for one thread that has a channel. They are
 * those of cpu/reference/norm.c. Kernels of norm.cu use them, and the convolution that has taken the sums, if it can do
 * the rest at once. */
#ifndef RC_BACKEND_CUDA_MAP_NORM_CUH
#define RC_BACKEND_CUDA_MAP_NORM_CUH

#include "backend/cuda/device.cuh"

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
__device__ inline void moments(double first, double second, double samples, double center, double *mean, double *var)
{
    double shifted = first / samples, spread = second / samples - shifted * shifted;
    *mean = center + shifted;
    *var = spread > 0 ? spread : 0;
}

/* ---- sums ------------------------------------------------------------------------------------------------------- */

enum { NORM_THREADS = 256 }; /* of every block that calls sum_group */

struct group_sums {
    double first, second; /* of one channel, over the rows of one group */
};

/* Thread t < 8 returns the sums of channel first_channel + t; the others take part. partial NULL: zeros. Somebody waits
 * for these few loads, so that as many are on their way at once as there are registers for. */
template <typename Sum>
__device__ inline group_sums sum_group(const void *partial, int groups, int group, int cp, int first_channel)
{
    constexpr int LANES = NORM_THREADS / 8, AT_ONCE = 16;
    __shared__ double space[NORM_THREADS][2];
    int in_vector = (int)threadIdx.x % 8, lane = (int)threadIdx.x / 8;
    group_sums sums = {0, 0};
    if (partial) {
        int rows = ((const partial_header *)partial)->rows;
        for (int begin = lane; begin < rows; begin += AT_ONCE * LANES) {
            Sum first[AT_ONCE], second[AT_ONCE];
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++) {
                int row = begin + i * LANES;
                const Sum *at = partial_row<Sum>(partial, row < rows ? row : lane, groups, group, cp) + first_channel +
                                in_vector;
                first[i] = row < rows ? at[0] : 0;
                second[i] = row < rows ? at[cp] : 0;
            }
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++) {
                sums.first += (double)first[i];
                sums.second += (double)second[i];
            }
        }
    }
    __syncthreads();
    space[threadIdx.x][0] = sums.first;
    space[threadIdx.x][1] = sums.second;
    for (int half = NORM_THREADS / 2; half >= 8; half /= 2) {
        __syncthreads();
        if ((int)threadIdx.x < half) {
            space[threadIdx.x][0] += space[threadIdx.x + half][0];
            space[threadIdx.x][1] += space[threadIdx.x + half][1];
        }
    }
    __syncthreads();
    group_sums total = {space[in_vector][0], space[in_vector][1]};
    return total;
}

/* ---- forward ---------------------------------------------------------------------------------------------------- */

struct normalisation {
    float *scale, *shift, *mean, *istd; /* (groups, cp) */
};

struct affine {
    const float *gamma, *beta; /* (c); NULL: 1, 0 */

    __device__ float gamma_of(int channel) const
    {
        return gamma ? gamma[channel] : 1;
    }

    __device__ float beta_of(int channel) const
    {
        return beta ? beta[channel] : 0;
    }
};

__device__ inline void set_normalisation(normalisation to, int i, double mean, double var, double eps, double gamma,
                                         double beta)
{
    double istd = 1 / sqrt(var + eps);
    to.mean[i] = (float)mean;
    to.istd[i] = (float)istd;
    to.scale[i] = (float)(gamma * istd);
    to.shift[i] = (float)(beta - mean * gamma * istd);
}

__device__ inline void clear_normalisation(normalisation to, int i)
{
    to.scale[i] = to.shift[i] = to.mean[i] = to.istd[i] = 0;
}

__device__ inline float moved(float running, double momentum, double now)
{
    return (float)((1 - momentum) * (double)running + momentum * now);
}

/* The formulas come in two steps: what is known of a channel before its sums are is loaded while they are on their
 * way. sums: of one channel, (groups, 2): first and second are `apart`, groups are `group_step` apart. */

/* bn_train */
struct train_norm {
    rc_bn bn;
    norm_shape shape;
    const float *center; /* (c); NULL: 0 */
    affine by;
    float *running_mean, *running_var; /* (c); NULL: not updated */
    normalisation to;

    struct known {
        float center, gamma, beta, running_mean, running_var;
    };

    __device__ known know(int channel) const
    {
        known k = {0, 1, 0, 0, 0};
        if (channel >= shape.c)
            return k;
        k.center = center ? center[channel] : 0;
        k.gamma = by.gamma_of(channel);
        k.beta = by.beta_of(channel);
        if (running_mean) {
            k.running_mean = running_mean[channel];
            k.running_var = running_var[channel];
        }
        return k;
    }

    __device__ void finish(int channel, known k, const double *sums, int group_step, int apart) const
    {
        bool inside = channel < shape.c;
#pragma unroll
        for (int group = 0; group < RC_MAX_GROUPS; group++) {
            if (group >= shape.groups.count)
                break;
            int i = group * shape.cp + channel;
            const double *of_group = sums + group * group_step;
            if (!inside) {
                clear_normalisation(to, i);
                continue;
            }
            double samples = samples_of(shape, group), mean, var;
            moments(of_group[0], of_group[apart], samples, (double)k.center, &mean, &var);
            set_normalisation(to, i, mean, var, (double)bn.eps, (double)k.gamma, (double)k.beta);
            k.running_mean = moved(k.running_mean, (double)bn.momentum, mean);
            double unbiased = samples > 1 ? var * samples / (samples - 1) : var;
            k.running_var = moved(k.running_var, (double)bn.momentum, unbiased);
        }
        if (inside && running_mean) {
            running_mean[channel] = k.running_mean;
            running_var[channel] = k.running_var;
        }
    }
};

/* ---- backward --------------------------------------------------------------------------------------------------- */

/* What the statistics of the batch add to dL/draw of a channel, by its sums of dz and of dz * (raw - mean). */
__device__ inline void batch_coefficients(double first, double second, double samples, double scale, double mean,
                                          double istd, double *by_raw, double *constant)
{
    *by_raw = -scale * istd * istd * second / samples;
    *constant = -scale * first / samples - *by_raw * mean;
}

/* bn_backward: dL/draw = a dz + b raw + c */
struct backward_norm {
    norm_shape shape;
    bool train;
    const float *scale, *mean, *istd;       /* (groups, cp) of the forward pass */
    const float *dmean, *dvar, *batch_mean; /* (cp); NULL: the statistics have no gradient */
    float *dgamma, *dbeta;                  /* (c); NULL: not wanted */
    float *a, *b, *c;                       /* (groups, cp) */
    double all;                             /* samples of all groups */

    struct known {
        float scale[RC_MAX_GROUPS], mean[RC_MAX_GROUPS], istd[RC_MAX_GROUPS], dmean, dvar, batch_mean;
    };

    __device__ known know(int channel) const
    {
        known k = {};
        if (channel >= shape.c)
            return k;
#pragma unroll
        for (int group = 0; group < RC_MAX_GROUPS; group++) {
            if (group < shape.groups.count) {
                int i = group * shape.cp + channel;
                k.scale[group] = scale[i];
                k.mean[group] = mean[i];
                k.istd[group] = istd[i];
            }
        }
        if (dmean) {
            k.dmean = dmean[channel];
            k.dvar = dvar[channel];
            k.batch_mean = batch_mean[channel];
        }
        return k;
    }

    __device__ void finish(int channel, const known &k, const double *sums, int group_step, int apart) const
    {
        bool inside = channel < shape.c;
        double gamma_sum = 0, beta_sum = 0;
#pragma unroll
        for (int group = 0; group < RC_MAX_GROUPS; group++) {
            if (group >= shape.groups.count)
                break;
            int i = group * shape.cp + channel;
            double by_dz = 0, by_raw = 0, constant = 0, first = sums[group * group_step];
            double second = sums[group * group_step + apart];
            if (inside) {
                double inverse = (double)k.istd[group];
                by_dz = (double)k.scale[group];
                if (train)
                    batch_coefficients(first, second, samples_of(shape, group), by_dz, (double)k.mean[group], inverse,
                                       &by_raw, &constant);
                beta_sum += first;
                gamma_sum += inverse * second;
            }
            if (inside && dmean) { /* dmean / m + 2 dvar (raw - batch_mean) / m */
                double twice = 2 * (double)k.dvar / all;
                by_raw += twice;
                constant += (double)k.dmean / all - twice * (double)k.batch_mean;
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
