/* Batch normalisation: from sums to scale and shift, and back (norm.cuh), where the operation that took the sums does
 * not do it itself.
 *
 * A block takes eight channels of all groups: its threads add the rows of `partial` (see device.cuh) in a fixed order,
 * in double, then one thread per channel does the rest. These few blocks begin early, while the convolution before them
 * ends; they do not let the next kernel begin early, whose many blocks would keep other lanes from the device. */
#include "backend/cuda/map/map.cuh"
#include "backend/cuda/map/norm.cuh"

static dim3 norm_grid(const rc_tensor *y)
{
    return dim3((unsigned)rc_cuda_padded(y->c) / 8);
}

/* ---- forward ---------------------------------------------------------------------------------------------------- */

/* One block for eight channels of all groups. */
template <typename Sum, typename Norm> __global__ static void norm_kernel(Norm norm, const void *partial)
{
    __shared__ double sums[RC_MAX_GROUPS][2][8];
    int first = (int)blockIdx.x * 8, groups = norm.shape.groups.count, channel = first + (int)threadIdx.x % 8;
    wait_for_kernel_before();
    typename Norm::known known = norm.know(channel);
    for (int group = 0; group < groups; group++) {
        group_sums of_group = sum_group<Sum>(partial, groups, group, norm.shape.cp, first);
        if (threadIdx.x < 8) {
            sums[group][0][threadIdx.x] = of_group.first;
            sums[group][1][threadIdx.x] = of_group.second;
        }
    }
    if (threadIdx.x < 8)
        norm.finish(channel, known, &sums[0][0][threadIdx.x], 16, 8);
}

template <typename Sum>
static void bn_train(rc_backend *be, const rc_bn *bn, const rc_tensor *y, const rc_bn_forward *f)
{
    normalisation to = {(float *)f->scale, (float *)f->shift, (float *)f->mean, (float *)f->istd};
    affine by = {(const float *)f->gamma, (const float *)f->beta};
    train_norm norm = {
        *bn, shape_of(y), (const float *)f->center, by, (float *)f->running_mean, (float *)f->running_var, to};
    if (rc_cuda_join_norm(rc_cuda_of(be), f->partial, norm))
        return;
    rc_cuda_launch_early(rc_cuda_of(be), "bn_train", norm_kernel<Sum, train_norm>, norm_grid(y), NORM_THREADS, 0, norm,
                         f->partial);
}

__global__ static void bn_eval_kernel(rc_bn bn, norm_shape shape, affine by, const float *running_mean,
                                      const float *running_var, normalisation to)
{
    begin_after_kernel_before();
    int i = (int)(blockIdx.x * blockDim.x + threadIdx.x), channel = i % shape.cp;
    if (i >= shape.groups.count * shape.cp)
        return;
    if (channel < shape.c)
        set_normalisation(to, i, (double)running_mean[channel], (double)running_var[channel], (double)bn.eps,
                          (double)by.gamma_of(channel), (double)by.beta_of(channel));
    else
        clear_normalisation(to, i);
}

static void bn_eval(rc_backend *be, const rc_bn *bn, const rc_tensor *y, const rc_bn_forward *f)
{
    normalisation to = {(float *)f->scale, (float *)f->shift, (float *)f->mean, (float *)f->istd};
    affine by = {(const float *)f->gamma, (const float *)f->beta};
    int entries = y->groups * rc_cuda_padded(y->c);
    dim3 grid((unsigned)(entries + NORM_THREADS - 1) / NORM_THREADS);
    rc_cuda_launch_early(rc_cuda_of(be), "bn_eval", bn_eval_kernel, grid, NORM_THREADS, 0, *bn, shape_of(y), by,
                         (const float *)f->running_mean, (const float *)f->running_var, to);
}

/* ---- many layers at once ---------------------------------------------------------------------------------------- */

/* Statistics and coefficients of frozen layers wait until something else is enqueued: a pass asks for those of all its
 * layers in a row, and one kernel does them. */
__device__ static void set_coefficients(const rc_cuda_norm_job &job, int channel)
{
    bool inside = channel < job.c;
    /* dL/draw = scale dz + dmean / m + 2 dvar (raw - batch_mean) / m */
    double twice = inside && job.dmean ? 2 * (double)job.dvar[channel] / job.samples : 0;
    double constant = inside && job.dmean
                          ? (double)job.dmean[channel] / job.samples - twice * (double)job.batch_mean[channel]
                          : 0;
    for (int group = 0; group < job.groups; group++) {
        int i = group * job.cp + channel;
        job.a[i] = inside ? job.scale[i] : 0;
        job.b[i] = (float)twice;
        job.coefficient_c[i] = (float)constant;
    }
}

/* Grid: (vectors of the widest layer, layers). */
template <typename Sum> __global__ static void norms_kernel(const __grid_constant__ rc_cuda_norms norms)
{
    const rc_cuda_norm_job &job = norms.job[blockIdx.y];
    int first = (int)blockIdx.x * 8, channel = first + (int)threadIdx.x;
    wait_for_kernel_before();
    start_kernel_after();
    if (first >= job.cp)
        return;
    if (!job.partial) {
        if (threadIdx.x < 8)
            set_coefficients(job, channel);
        return;
    }
    group_sums sums = sum_group<Sum>(job.partial, job.groups, 0, job.cp, first);
    if (threadIdx.x >= 8)
        return;
    double mean = 0, var = 0;
    if (channel < job.c)
        moments(sums.first, sums.second, job.samples, job.center ? (double)job.center[channel] : 0, &mean, &var);
    job.mean[channel] = (float)mean;
    job.var[channel] = (float)var;
}

template <typename Sum> static void enqueue_norms(rc_cuda *cuda)
{
    int widest = 0;
    for (int i = 0; i < cuda->norms.count; i++)
        widest = cuda->norms.job[i].cp > widest ? cuda->norms.job[i].cp : widest;
    rc_cuda_launch_early(cuda, "normalisation", norms_kernel<Sum>,
                         dim3((unsigned)widest / 8, (unsigned)cuda->norms.count), NORM_THREADS, 0, cuda->norms);
    cuda->norms.count = 0;
}

template <typename Sum> static void defer(rc_cuda *cuda, rc_cuda_norm_job job)
{
    rc_cuda_norms *norms = &cuda->norms;
    bool other_kind = norms->count > 0 && !norms->job[0].partial != !job.partial; /* coefficients read statistics */
    if (norms->count == 0 || norms->count == RC_CUDA_NORM_JOBS || other_kind)
        rc_cuda_enqueue_deferred(cuda); /* of another kind, or full */
    norms->job[norms->count++] = job;
    cuda->deferred = enqueue_norms<Sum>;
}

template <typename Sum>
static void bn_statistics(rc_backend *be, const rc_tensor *y, const void *partial, const void *center, void *mean,
                          void *var)
{
    rc_cuda_norm_job job = {};
    job.c = y->c;
    job.cp = rc_cuda_padded(y->c);
    job.groups = y->groups;
    job.samples = (double)y->group_end[0] * y->h * y->w;
    job.partial = partial;
    job.center = (const float *)center;
    job.mean = (float *)mean;
    job.var = (float *)var;
    defer<Sum>(rc_cuda_of(be), job);
}

/* ---- backward --------------------------------------------------------------------------------------------------- */

template <typename Act>
__global__ static void backward_sums_kernel(grad_view<Act> dy, const float *mean, void *partial, map_cut cut)
{
    begin_after_kernel_before();
    map_walk walk = walk_map(cut);
    channel_sums<typename sum_of<Act>::type> sums = {};
    for (int pixel = walk.first; pixel < walk.end; pixel += walk.step)
        add_gradient_sums8(dy.y, mean, walk.group, walk.channel, place_of(dy.y, pixel),
                           load8(dy.g + offset8(dy.y, pixel, walk.channel)), &sums);
    finish_sums(partial, cut, sums);
}

template <typename Act> static void bn_backward_sums(rc_backend *be, const rc_grad *dy, void *partial)
{
    map_cut cut = cut_map(dy->y);
    rc_cuda_launch_early(rc_cuda_of(be), "bn_backward_sums", backward_sums_kernel<Act>, map_grid(cut), MAP_THREADS, 0,
                         view_grad<Act>(dy), (const float *)dy->y->mean, partial, cut);
}

template <typename Sum>
static void bn_backward(rc_backend *be, const rc_tensor *y, bool train, const rc_bn_backward *back)
{
    if (!train && !back->partial && !back->dgamma && !back->dbeta) {
        rc_cuda_norm_job job = {};
        job.c = y->c;
        job.cp = rc_cuda_padded(y->c);
        job.groups = y->groups;
        job.samples = (double)y->n * y->h * y->w;
        job.scale = (const float *)y->scale;
        job.dmean = (const float *)back->dmean;
        job.dvar = (const float *)back->dvar;
        job.batch_mean = (const float *)back->batch_mean;
        job.a = (float *)back->a;
        job.b = (float *)back->b;
        job.coefficient_c = (float *)back->c;
        defer<Sum>(rc_cuda_of(be), job);
        return;
    }
    backward_norm norm = {shape_of(y),
                          train,
                          (const float *)y->scale,
                          (const float *)y->mean,
                          (const float *)y->istd,
                          (const float *)back->dmean,
                          (const float *)back->dvar,
                          (const float *)back->batch_mean,
                          (float *)back->dgamma,
                          (float *)back->dbeta,
                          (float *)back->a,
                          (float *)back->b,
                          (float *)back->c,
                          (double)y->n * y->h * y->w};
    if (rc_cuda_join_norm(rc_cuda_of(be), back->partial, norm))
        return;
    rc_cuda_launch_early(rc_cuda_of(be), "bn_backward", norm_kernel<Sum, backward_norm>, norm_grid(y), NORM_THREADS, 0,
                         norm, back->partial);
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
