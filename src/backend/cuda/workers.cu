/* The CUDA backend as one of several processes (backend/workers.h), each with a GPU or a part of one.
 *
 * join_workers puts functions in front of the operations that depend on the whole batch: those of whole_batch.h, and
 * for normalisation and gradients of parameters those below. What all processes have comes together (link.h), and the
 * operation that was there before computes the whole. All of it is enqueued, so a captured step holds it. Sums are
 * taken in the order of the processes. The blocks grow with the first step, and then stay as they are. */
#include <cuda_bf16.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern "C" {
#include "backend/whole_batch.h"
}

#include "backend/cuda/link.h"
#include "backend/cuda/map/norm.cuh"

enum { WORKER_THREADS = 256, BUCKET_BYTES = 4 << 20 };

struct rc_cuda_party {
    rc_backend plain; /* the operations that were there before */
    void *block[RC_CUDA_LANES][WHOLE_BLOCKS];
    size_t bytes[RC_CUDA_LANES][WHOLE_BLOCKS];
    whole_memory known;
};

static size_t count_of(const rc_backend *be)
{
    return (size_t)be->parts;
}

static dim3 grid_of(size_t count)
{
    const size_t most = 1024, blocks = (count + WORKER_THREADS - 1) / WORKER_THREADS;
    return dim3((unsigned)(blocks < most ? blocks : most));
}

/* ---- hooks of whole_batch.h ------------------------------------------------------------------------------------- */

static rc_backend *whole_plain(rc_backend *be)
{
    return &rc_cuda_of(be)->party->plain;
}

static whole_memory *whole_known(rc_backend *be, int *lane)
{
    static_assert(RC_CUDA_LANES <= sizeof(whole_memory) / sizeof(whole_rows), "every lane has its rows");
    *lane = rc_cuda_of(be)->lane;
    return &rc_cuda_of(be)->party->known;
}

static bool whole_fine(rc_backend *be)
{
    return rc_cuda_of(be)->status == RC_OK;
}

/* Captured steps may refer to a block that was too small: it stays until the backend is closed, and blocks at least
 * double. NULL: an error is set. */
static void *whole_block(rc_backend *be, int slot, size_t bytes)
{
    rc_cuda *cuda = rc_cuda_of(be);
    void **block = &cuda->party->block[cuda->lane][slot];
    size_t *held = &cuda->party->bytes[cuda->lane][slot];
    if (*held >= bytes)
        return *block;
    size_t room = bytes < 2 * *held ? 2 * *held : bytes;
    rc_status status = cuda->status == RC_OK ? rc_cuda_take(cuda, room, block) : cuda->status;
    if (status == RC_OK) {
        *held = room;
        return *block;
    }
    *block = NULL;
    *held = 0;
    if (cuda->status == RC_OK) {
        cuda->status = status;
        snprintf(cuda->message, sizeof cuda->message,
                 "cuda: no %zu bytes of device memory for what the processes exchange: use a smaller batch", room);
    }
    return NULL;
}

static void whole_gather(rc_backend *be, const void *mine, void *all, size_t bytes)
{
    rc_cuda_gather(rc_cuda_of(be), mine, all, bytes);
}

static void whole_bundle(rc_backend *be, bool begin)
{
    if (begin)
        rc_cuda_begin_bundle(rc_cuda_of(be));
    else
        rc_cuda_end_bundle(rc_cuda_of(be));
}

template <typename T> __global__ static void add_part_kernel(T *to, const T *from, size_t count)
{
    begin_after_kernel_before();
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += (size_t)gridDim.x * blockDim.x)
        store(to + i, to_float(to[i]) + to_float(from[i]));
}

/* Adds this process's part of it. */
template <typename T> static void add_part(rc_backend *be, void *to, const void *whole, size_t count)
{
    rc_cuda_launch_early(rc_cuda_of(be), "adding a part", add_part_kernel<T>, grid_of(count), WORKER_THREADS, 0,
                         (T *)to, (const T *)whole + (size_t)be->part * count, count);
}

static void whole_add(rc_backend *be, void *to, const void *whole, size_t count, bool acts)
{
    if (acts && rc_cuda_of(be)->bf16)
        add_part<__nv_bfloat16>(be, to, whole, count);
    else
        add_part<float>(be, to, whole, count);
}

__global__ static void share_kernel(const float *weight, int processes, float *shared)
{
    begin_after_kernel_before();
    *shared = *weight / (float)processes;
}

static const float *whole_share(rc_backend *be, const float *weight)
{
    float *shared = (float *)whole_block(be, 0, sizeof *shared);
    if (shared)
        rc_cuda_launch_early(rc_cuda_of(be), "weight of a part", share_kernel, dim3(1), 1, 0, weight, be->parts,
                             shared);
    return shared;
}

__global__ static void average_kernel(const float *all, int processes, float *value)
{
    begin_after_kernel_before();
    double sum = 0;
    for (int p = 0; p < processes; p++)
        sum += (double)all[p];
    *value = (float)(sum / processes);
}

static void whole_average(rc_backend *be, void *value)
{
    const float *all = (const float *)whole_reals(be, 1, value, 1);
    if (whole_fine(be))
        rc_cuda_launch_early(rc_cuda_of(be), "mean of parts", average_kernel, dim3(1), 1, 0, all, be->parts,
                             (float *)value);
}

/* ---- gradients of parameters ------------------------------------------------------------------------------------ */

/* own (here): the block that process `mine` sums, and then the sum. parts (processes, count): those of the others. */
__global__ static void sum_parts_kernel(float *own, size_t here, const float *parts, size_t count, int processes,
                                        int mine)
{
    begin_after_kernel_before();
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < here; i += (size_t)gridDim.x * blockDim.x) {
        double sum = 0;
        for (int p = 0; p < processes; p++)
            sum += (double)(p == mine ? own[i] : parts[(size_t)p * count + i]);
        own[i] = (float)sum;
    }
}

/* Every process sums a part of the numbers, which the others send to it, in place, then sends the sums to the others. A
 * process that is alone has the sums. */
static void sum_on_lane(rc_backend *be, void *real, size_t count)
{
    rc_cuda *cuda = rc_cuda_of(be);
    size_t part = (count + count_of(be) - 1) / count_of(be), bytes = part * sizeof(float);
    size_t first = part * (size_t)be->part, here = first >= count ? 0 : count - first < part ? count - first : part;
    if (be->parts > 1) {
        float *parts = (float *)whole_block(be, 0, bytes * count_of(be));
        if (!parts)
            return;
        rc_cuda_scatter(cuda, real, parts, bytes, count * sizeof(float));
        if (here > 0)
            rc_cuda_launch_early(cuda, "sum_workers", sum_parts_kernel, grid_of(here), WORKER_THREADS, 0,
                                 (float *)real + first, here, (const float *)parts, part, be->parts, be->part);
    }
    rc_cuda_collect(cuda, real, bytes, count * sizeof(float));
}

/* Sums have a lane of their own, so that they travel beside the backward pass. Their talks have their turn among those
 * of the other lanes (link.cu). */
static void sum_workers(rc_backend *be, void *real, size_t count)
{
    rc_cuda *cuda = rc_cuda_of(be);
    int lane = cuda->lane;
    rc_cuda_order_lanes(cuda, lane, RC_CUDA_SUM_LANE);
    cuda->busy[RC_CUDA_SUM_LANE] = true;
    cuda->lane = RC_CUDA_SUM_LANE;
    sum_on_lane(be, real, count);
    rc_cuda_enqueue_deferred(cuda);
    cuda->lane = lane;
}

static void wait_workers(rc_backend *be)
{
    rc_cuda *cuda = rc_cuda_of(be);
    if (cuda->busy[RC_CUDA_SUM_LANE])
        rc_cuda_order_lanes(cuda, RC_CUDA_SUM_LANE, cuda->lane);
}

/* ---- normalisation ---------------------------------------------------------------------------------------------- */

/* The tensor of the whole batch, as far as statistics look at one. */
static rc_tensor whole_of(const rc_backend *be, const rc_tensor *y)
{
    rc_tensor whole = *y;
    whole.n *= be->parts;
    for (int group = 0; group < y->groups; group++)
        whole.group_end[group] *= be->parts;
    return whole;
}

/* Block (eight channels, group): the rows of `partial` become as many as a double takes of the type of sums, the whole
 * of which is the double's: (pieces, groups, 2, cp). `all` is told how many rows will be there. */
template <typename Sum>
__global__ static void fold_kernel(const void *partial, int groups, int cp, Sum *mine, partial_header *all, int rows)
{
    wait_for_kernel_before();
    start_kernel_after();
    int first = (int)blockIdx.x * 8, group = (int)blockIdx.y, channel = first + (int)threadIdx.x;
    group_sums sums = sum_group<Sum>(partial, groups, group, cp, first);
    if (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0)
        all->rows = rows;
    if (threadIdx.x >= 8)
        return;
    for (int piece = 0; piece < (int)(sizeof(double) / sizeof(Sum)); piece++) {
        Sum *at = mine + ((size_t)(piece * groups + group) * 2) * cp + channel;
        at[0] = (Sum)sums.first;
        at[cp] = (Sum)sums.second;
        sums.first -= (double)at[0];
        sums.second -= (double)at[cp];
    }
}

/* Sums of the whole batch, in the layout of `partial`. */
template <typename Sum> static const void *whole_sums(rc_backend *be, const rc_tensor *y, const void *partial)
{
    int cp = rc_cuda_padded(y->c), pieces = (int)(sizeof(double) / sizeof(Sum));
    size_t bytes = (size_t)y->groups * 2 * (size_t)cp * sizeof(double);
    Sum *mine = (Sum *)whole_block(be, 0, bytes);
    partial_header *all = (partial_header *)whole_block(be, 1, sizeof *all + bytes * count_of(be));
    if (!mine || !all)
        return NULL;
    rc_cuda_launch_early(rc_cuda_of(be), "normalisation of all", fold_kernel<Sum>,
                         dim3((unsigned)cp / 8, (unsigned)y->groups), NORM_THREADS, 0, partial, y->groups, cp, mine,
                         all, be->parts * pieces);
    rc_cuda_gather(rc_cuda_of(be), mine, all + 1, bytes);
    return all;
}

template <typename Sum>
static void bn_train(rc_backend *be, const rc_bn *bn, const rc_tensor *y, const rc_bn_forward *f)
{
    const rc_tensor whole = whole_of(be, y);
    rc_bn_forward of_whole = *f;
    of_whole.partial = whole_sums<Sum>(be, y, f->partial);
    if (whole_fine(be))
        whole_plain(be)->bn_train(be, bn, &whole, &of_whole);
}

/* Statistics of frozen layers wait in cuda->norms (norm.cu), which a pass asks for in a row: the sums of all of them
 * travel at once. A job's are (2, cp) doubles, behind those of the jobs before it. */
__device__ static size_t sums_before(const rc_cuda_norms &norms, int job)
{
    size_t before = 0;
    for (int i = 0; i < job; i++)
        before += 2 * (size_t)norms.job[i].cp;
    return before;
}

/* Grid: (vectors of the widest layer, layers). */
template <typename Sum>
__global__ static void fold_all_kernel(const __grid_constant__ rc_cuda_norms norms, double *mine)
{
    const rc_cuda_norm_job &job = norms.job[blockIdx.y];
    int first = (int)blockIdx.x * 8;
    wait_for_kernel_before();
    start_kernel_after();
    if (first >= job.cp)
        return;
    group_sums sums = sum_group<Sum>(job.partial, job.groups, 0, job.cp, first);
    if (threadIdx.x >= 8)
        return;
    double *at = mine + sums_before(norms, (int)blockIdx.y) + first + threadIdx.x;
    at[0] = sums.first;
    at[job.cp] = sums.second;
}

/* all (processes, count). Grid: (channels of the widest layer / WORKER_THREADS, layers). */
__global__ static void statistics_kernel(const __grid_constant__ rc_cuda_norms norms, const double *all, size_t count,
                                         int processes)
{
    const rc_cuda_norm_job &job = norms.job[blockIdx.y];
    int channel = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    begin_after_kernel_before();
    if (channel >= job.cp)
        return;
    const double *at = all + sums_before(norms, (int)blockIdx.y) + channel;
    double first = 0, second = 0, mean = 0, var = 0;
    for (int p = 0; p < processes; p++) {
        first += at[(size_t)p * count];
        second += at[(size_t)p * count + job.cp];
    }
    if (channel < job.c)
        moments(first, second, job.samples, job.center ? (double)job.center[channel] : 0, &mean, &var);
    job.mean[channel] = (float)mean;
    job.var[channel] = (float)var;
}

template <typename Sum> static void enqueue_statistics(rc_cuda *cuda)
{
    rc_backend *be = &cuda->table;
    const rc_cuda_norms norms = cuda->norms;
    unsigned layers = (unsigned)norms.count, widest = 0;
    size_t count = 0;
    cuda->norms.count = 0;
    for (int i = 0; i < norms.count; i++) {
        count += 2 * (size_t)norms.job[i].cp;
        widest = (unsigned)norms.job[i].cp > widest ? (unsigned)norms.job[i].cp : widest;
    }
    double *mine = (double *)whole_block(be, 0, count * sizeof *mine);
    double *all = (double *)whole_block(be, 1, count * sizeof *all * count_of(be));
    if (!mine || !all)
        return;
    rc_cuda_launch_early(cuda, "sums of all", fold_all_kernel<Sum>, dim3(widest / 8, layers), NORM_THREADS, 0, norms,
                         mine);
    rc_cuda_gather(cuda, mine, all, count * sizeof *mine);
    rc_cuda_launch_early(cuda, "statistics of all", statistics_kernel,
                         dim3((widest + WORKER_THREADS - 1) / WORKER_THREADS, layers), WORKER_THREADS, 0, norms,
                         (const double *)all, count, be->parts);
}

template <typename Sum>
static void bn_statistics(rc_backend *be, const rc_tensor *y, const void *partial, const void *center, void *mean,
                          void *var)
{
    const rc_tensor whole = whole_of(be, y);
    whole_plain(be)->bn_statistics(be, &whole, partial, center, mean, var);
    rc_cuda_of(be)->deferred = enqueue_statistics<Sum>;
}

/* The gradients of gamma and beta are whole already; sum_workers will add those of all processes, so one has them and
 * the others have 0. */
template <typename Sum>
static void bn_backward(rc_backend *be, const rc_tensor *y, bool train, const rc_bn_backward *back)
{
    const rc_tensor whole = whole_of(be, y);
    rc_bn_backward of_whole = *back;
    if (back->partial)
        of_whole.partial = whole_sums<Sum>(be, y, back->partial);
    if (!whole_fine(be))
        return;
    whole_plain(be)->bn_backward(be, &whole, train, &of_whole);
    if (back->dgamma && be->part > 0)
        be->zero(be, back->dgamma, (size_t)y->c * sizeof(float));
    if (back->dbeta && be->part > 0)
        be->zero(be, back->dbeta, (size_t)y->c * sizeof(float));
}

/* ---- joining ---------------------------------------------------------------------------------------------------- */

/* What a captured step gathers it gathers in every repetition, and nothing that was gathered before. */
void rc_cuda_forget_gathered(rc_cuda *cuda)
{
    if (cuda->party)
        whole_forget_all(&cuda->table);
}

void rc_cuda_leave_workers(rc_cuda *cuda)
{
    rc_cuda_close_talks(cuda);
    free(cuda->party); /* the blocks go with all other memory */
    cuda->party = NULL;
}

template <typename Sum> static void fill_norm(rc_backend *table)
{
    table->bn_train = bn_train<Sum>;
    table->bn_statistics = bn_statistics<Sum>;
    table->bn_backward = bn_backward<Sum>;
}

/* One process has the whole batch, and nothing to say but what bench/nccl.sh asks it to say. */
static bool has_a_part(const struct rc_workers *workers)
{
    const char *asked = getenv("RECOLLECT_MPI_ALONE");
    return workers->count > 1 || (asked && strcmp(asked, "talks") == 0);
}

static void bring_batches_together(rc_cuda *cuda)
{
    rc_backend *be = &cuda->table;
    be->bucket_bytes = BUCKET_BYTES;
    be->fuse_train = NULL; /* its kernels take the statistics of the part */
    if (cuda->bf16)
        fill_norm<sum_of<__nv_bfloat16>::type>(be);
    else
        fill_norm<sum_of<float>::type>(be);
    whole_fill(be);
}

rc_status rc_cuda_join_workers(rc_backend *be, struct rc_workers *workers)
{
    rc_cuda *cuda = rc_cuda_of(be);
    cuda->party = (struct rc_cuda_party *)calloc(1, sizeof *cuda->party);
    if (!cuda->party) {
        cuda->host.set_message("out of memory for %zu bytes", sizeof *cuda->party);
        return RC_OUT_OF_MEMORY;
    }
    cuda->party->plain = *be;
    be->workers = workers;
    be->part = workers->index;
    be->parts = workers->count;
    be->link_workers = rc_cuda_link_workers;
    be->sum_workers = sum_workers;
    be->wait_workers = wait_workers;
    if (has_a_part(workers))
        bring_batches_together(cuda);
    return rc_cuda_open_talks(cuda);
}
