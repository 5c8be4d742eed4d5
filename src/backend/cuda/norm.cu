/* Batch normalisation: from sums to scale and shift, and back. The formulas are those of cpu/reference/norm.c.
 *
 * A block takes eight channels of all groups: its threads add the rows of `partial` (see device.cuh) in a fixed order,
 * in double, then one thread per channel does the rest. These few blocks begin early, while the convolution before them
 * ends; they do not let the next kernel begin early, whose many blocks would keep other lanes from the device. */
#include "backend/cuda/map.cuh"

enum { NORM_THREADS = 256 };

struct group_sums {
    double first, second; /* of one channel, over the rows of one group */
};

/* Thread t < 8 returns the sums of channel first_channel + t; the others take part. partial NULL: zeros. */
template <typename Sum>
__device__ static group_sums sum_group(const void *partial, int groups, int group, int cp, int first_channel)
{
    __shared__ double space[NORM_THREADS][2];
    int in_vector = (int)threadIdx.x % 8, lane = (int)threadIdx.x / 8;
    group_sums sums = {0, 0};
    if (partial) {
        int rows = ((const partial_header *)partial)->rows;
        for (int row = lane; row < rows; row += NORM_THREADS / 8) {
            const Sum *at = partial_row<Sum>((void *)partial, row, groups, group, cp) + first_channel + in_vector;
            sums.first += (double)at[0];
            sums.second += (double)at[cp];
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

/* What every normalisation kernel knows of its tensor. */
struct norm_shape {
    group_view groups;
    int c, cp, image_pixels;
};

static norm_shape shape_of(const rc_tensor *y)
{
    norm_shape shape = {view_groups(y), y->c, rc_cuda_padded(y->c), y->h * y->w};
    return shape;
}

static dim3 norm_grid(const rc_tensor *y)
{
    return dim3((unsigned)rc_cuda_padded(y->c) / 8);
}

__device__ static double samples_of(const norm_shape &shape, int group)
{
    return (double)(shape.groups.end[group] - group_begin(shape.groups, group)) * shape.image_pixels;
}

/* Mean and biased variance from the sums of (raw - center) and its square. */
__device__ static void moments(group_sums sums, double samples, double center, double *mean, double *var)
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

__device__ static void set_normalisation(normalisation to, int i, double mean, double var, double eps, affine by,
                                         int channel)
{
    double istd = 1 / sqrt(var + eps), gamma = by.gamma ? (double)by.gamma[channel] : 1;
    double beta = by.beta ? (double)by.beta[channel] : 0;
    to.mean[i] = (float)mean;
    to.istd[i] = (float)istd;
    to.scale[i] = (float)(gamma * istd);
    to.shift[i] = (float)(beta - mean * gamma * istd);
}

__device__ static void clear_normalisation(normalisation to, int i)
{
    to.scale[i] = to.shift[i] = to.mean[i] = to.istd[i] = 0;
}

__device__ static void update_running(float *running, double momentum, double now)
{
    *running = (float)((1 - momentum) * (double)*running + momentum * now);
}

template <typename Sum>
__global__ static void bn_train_kernel(rc_bn bn, norm_shape shape, const void *partial, const float *center, affine by,
                                       float *running_mean, float *running_var, normalisation to)
{
    int first = (int)blockIdx.x * 8, channel = first + (int)threadIdx.x;
    bool mine = threadIdx.x < 8, inside = mine && channel < shape.c;
    wait_for_kernel_before();
    double from = center && inside ? (double)center[channel] : 0; /* usually running_mean, which is about to change */
    for (int group = 0; group < shape.groups.count; group++) {
        group_sums sums = sum_group<Sum>(partial, shape.groups.count, group, shape.cp, first);
        int i = group * shape.cp + channel;
        if (mine && !inside)
            clear_normalisation(to, i);
        if (!inside)
            continue;
        double samples = samples_of(shape, group), mean, var;
        moments(sums, samples, from, &mean, &var);
        set_normalisation(to, i, mean, var, (double)bn.eps, by, channel);
        if (running_mean) {
            update_running(running_mean + channel, (double)bn.momentum, mean);
            update_running(running_var + channel, (double)bn.momentum,
                           samples > 1 ? var * samples / (samples - 1) : var);
        }
    }
}

template <typename Sum>
static void bn_train(rc_backend *be, const rc_bn *bn, const rc_tensor *y, const void *partial, const void *center,
                     const void *gamma, const void *beta, void *running_mean, void *running_var, void *scale,
                     void *shift, void *mean, void *istd)
{
    normalisation to = {(float *)scale, (float *)shift, (float *)mean, (float *)istd};
    affine by = {(const float *)gamma, (const float *)beta};
    rc_cuda_launch_early(rc_cuda_of(be), "bn_train", bn_train_kernel<Sum>, norm_grid(y), NORM_THREADS, 0, *bn,
                         shape_of(y), partial, (const float *)center, by, (float *)running_mean, (float *)running_var,
                         to);
}

__global__ static void bn_eval_kernel(rc_bn bn, norm_shape shape, affine by, const float *running_mean,
                                      const float *running_var, normalisation to)
{
    int i = (int)(blockIdx.x * blockDim.x + threadIdx.x), channel = i % shape.cp;
    if (i >= shape.groups.count * shape.cp)
        return;
    if (channel < shape.c)
        set_normalisation(to, i, (double)running_mean[channel], (double)running_var[channel], (double)bn.eps, by,
                          channel);
    else
        clear_normalisation(to, i);
}

static void bn_eval(rc_backend *be, const rc_bn *bn, const rc_tensor *y, const void *gamma, const void *beta,
                    const void *running_mean, const void *running_var, void *scale, void *shift, void *mean,
                    void *istd)
{
    normalisation to = {(float *)scale, (float *)shift, (float *)mean, (float *)istd};
    affine by = {(const float *)gamma, (const float *)beta};
    int entries = y->groups * rc_cuda_padded(y->c);
    dim3 grid((unsigned)(entries + NORM_THREADS - 1) / NORM_THREADS);
    rc_cuda_launch(rc_cuda_of(be), "bn_eval", bn_eval_kernel, grid, NORM_THREADS, 0, *bn, shape_of(y), by,
                   (const float *)running_mean, (const float *)running_var, to);
}

template <typename Sum>
__global__ static void bn_statistics_kernel(norm_shape shape, const void *partial, const float *center, float *mean,
                                            float *var)
{
    int first = (int)blockIdx.x * 8, channel = first + (int)threadIdx.x;
    wait_for_kernel_before();
    group_sums sums = sum_group<Sum>(partial, shape.groups.count, 0, shape.cp, first);
    if (threadIdx.x >= 8)
        return;
    double batch_mean = 0, batch_var = 0;
    if (channel < shape.c)
        moments(sums, samples_of(shape, 0), center ? (double)center[channel] : 0, &batch_mean, &batch_var);
    mean[channel] = (float)batch_mean;
    var[channel] = (float)batch_var;
}

template <typename Sum>
static void bn_statistics(rc_backend *be, const rc_tensor *y, const void *partial, const void *center, void *mean,
                          void *var)
{
    rc_cuda_launch_early(rc_cuda_of(be), "bn_statistics", bn_statistics_kernel<Sum>, norm_grid(y), NORM_THREADS, 0,
                         shape_of(y), partial, (const float *)center, (float *)mean, (float *)var);
}

/* ---- backward --------------------------------------------------------------------------------------------------- */

template <typename Act>
__global__ static void backward_sums_kernel(grad_view<Act> dy, const float *mean, void *partial, map_cut cut)
{
    map_walk walk = walk_map(cut);
    channel_sums<typename sum_of<Act>::type> sums = {};
    for (int pixel = walk.first; pixel < walk.end; pixel += walk.step)
        add_gradient_sums8(dy.y, mean, walk.group, walk.channel, pixel,
                           load8(dy.g + offset8(dy.y, pixel, walk.channel)), &sums);
    finish_sums(partial, cut, sums);
}

template <typename Act> static void bn_backward_sums(rc_backend *be, const rc_grad *dy, void *partial)
{
    map_cut cut = cut_map(dy->y);
    rc_cuda_launch(rc_cuda_of(be), "bn_backward_sums", backward_sums_kernel<Act>, map_grid(cut), MAP_THREADS, 0,
                   view_grad<Act>(dy), (const float *)dy->y->mean, partial, cut);
}

struct backward_arguments {
    norm_shape shape;
    bool train;
    const void *partial;
    const float *scale, *mean, *istd;        /* (groups, cp) of the forward pass */
    const float *dmean, *dvar, *batch_mean;  /* (cp); NULL: the statistics have no gradient */
    float *dgamma, *dbeta;                   /* (c); NULL: not wanted */
    float *a, *b, *c;                        /* (groups, cp) */
    double all;                              /* samples of all groups */
};

template <typename Sum> __global__ static void bn_backward_kernel(backward_arguments k)
{
    int first = (int)blockIdx.x * 8, channel = first + (int)threadIdx.x;
    bool mine = threadIdx.x < 8, inside = mine && channel < k.shape.c;
    double gamma_sum = 0, beta_sum = 0;
    wait_for_kernel_before();
    for (int group = 0; group < k.shape.groups.count; group++) {
        group_sums sums = sum_group<Sum>(k.partial, k.shape.groups.count, group, k.shape.cp, first);
        int i = group * k.shape.cp + channel;
        double a = 0, b = 0, c = 0;
        if (inside) {
            double istd = (double)k.istd[i], samples = samples_of(k.shape, group);
            a = (double)k.scale[i];
            if (k.train) {
                b = -a * istd * istd * sums.second / samples;
                c = -a * sums.first / samples - b * (double)k.mean[i];
            }
            beta_sum += sums.first;
            gamma_sum += istd * sums.second;
        }
        if (inside && k.dmean) { /* dmean / m + 2 dvar (raw - batch_mean) / m */
            double twice = 2 * (double)k.dvar[channel] / k.all;
            b += twice;
            c += (double)k.dmean[channel] / k.all - twice * (double)k.batch_mean[channel];
        }
        if (mine) {
            k.a[i] = (float)a;
            k.b[i] = (float)b;
            k.c[i] = (float)c;
        }
    }
    if (inside && k.dgamma)
        k.dgamma[channel] = (float)gamma_sum;
    if (inside && k.dbeta)
        k.dbeta[channel] = (float)beta_sum;
}

template <typename Sum>
static void bn_backward(rc_backend *be, const rc_tensor *y, bool train, const void *partial, const void *,
                        const void *dmean, const void *dvar, const void *batch_mean, void *dgamma, void *dbeta,
                        void *a, void *b, void *c)
{
    backward_arguments k = {shape_of(y), train, partial, (const float *)y->scale, (const float *)y->mean,
                            (const float *)y->istd, (const float *)dmean, (const float *)dvar,
                            (const float *)batch_mean, (float *)dgamma, (float *)dbeta, (float *)a, (float *)b,
                            (float *)c, (double)y->n * y->h * y->w};
    rc_cuda_launch_early(rc_cuda_of(be), "bn_backward", bn_backward_kernel<Sum>, norm_grid(y), NORM_THREADS, 0, k);
}

template <typename Act> static void fill(rc_backend *table)
{
    typedef typename sum_of<Act>::type Sum;
    table->bn_train = bn_train<Sum>;
    table->bn_eval = bn_eval;
    table->bn_statistics = bn_statistics<Sum>;
    table->bn_backward_sums = bn_backward_sums<Act>;
    table->bn_backward = bn_backward<Sum>;
}

void rc_cuda_fill_norm(rc_cuda *cuda)
{
    if (cuda->bf16)
        fill<__nv_bfloat16>(&cuda->table);
    else
        fill<float>(&cuda->table);
}
