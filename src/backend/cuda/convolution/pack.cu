#include "backend/cuda/convolution/pack.h"

#include <stdlib.h>

#include "backend/cuda/device.cuh"

void rc_cuda_set_form(const rc_conv *conv, bool forward, const axis_taps *taps, conv_form *form)
{
    *form = {};
    form->source_c = forward ? conv->c_in : conv->c_out;
    form->result_c = forward ? conv->c_out : conv->c_in;
    form->k = conv->k;
    form->source_first = forward == conv->transposed;
    form->phases = taps->out_step;
    for (int phase = 0; phase < taps->out_step; phase++) {
        form->count[phase] = taps->count[phase];
        for (int i = 0; i < taps->count[phase]; i++)
            form->kernel[phase][i] = taps->kernel[phase][i];
    }
}

/* ---- the kernel ------------------------------------------------------------------------------------------------ */

enum {
    PACK_THREADS = 256,
    PACK_BLOCKS = 512, /* of a weight, at most */
    PACK_JOBS = 128,   /* of a launch: they are arguments, which have room for 32 kB */
};

struct pack_jobs {
    pack_job job[PACK_JOBS];
};

/* The result channel in column `column` (0 .. 7) of operand `operand` of a tile: see warp_shape in conv_gather.cuh. */
__device__ inline int permuted_channel(int tile_c, int operand, int column)
{
    int width = tile_c < 32 ? tile_c : 32, operands = width / 8; /* of a warp; a thread has width / 4 neighbours */
    return operand / operands * width + column / 2 * (width / 4) + operand % operands * 2 + column % 2;
}

/* The positions of the kernel that fall together in a tap, as bits along both axes. */
struct tap_bits {
    unsigned y, x;
};

__device__ inline tap_bits bits_of_tap(const conv_form &form, int phase, int tap)
{
    int phase_y = form.phases == 1 ? 0 : phase / 2, phase_x = form.phases == 1 ? 0 : phase % 2;
    int tap_y = tap / form.count[phase_x], tap_x = tap % form.count[phase_x];
    tap_bits bits = {0, 0}; /* no weight: the second tap of the last step, C = 8 */
    if (tap_y < form.count[phase_y]) {
        bits.y = form.kernel[phase_y][tap_y];
        bits.x = form.kernel[phase_x][tap_x];
    }
    return bits;
}

/* The weights of a tap, all positions of the kernel, which has K x K (0: any). */
template <int K> __device__ inline float sum_of_tap(const float *weight, tap_bits bits, int k)
{
    float sum = 0;
    for (unsigned y = bits.y; y; y >>= 1, weight += k)
        if (y & 1)
            for (unsigned i = 0; bits.x >> i; i++)
                if (bits.x >> i & 1)
                    sum += weight[i];
    return sum;
}

/* No branches, so that the weights of several taps are on their way at once. */
template <> __device__ inline float sum_of_tap<3>(const float *weight, tap_bits bits, int)
{
    float sum = 0, part[9];
#pragma unroll
    for (int i = 0; i < 9; i++)
        part[i] = (bits.y >> (i / 3) & bits.x >> (i % 3) & 1) ? weight[i] : 0;
#pragma unroll
    for (int i = 0; i < 9; i++)
        sum += part[i];
    return sum;
}

/* A weight of a tap: where its positions begin, and which of them there are. */
struct tap_weight {
    const float *from;
    tap_bits bits;
};

__device__ inline tap_weight weight_of_tap(const pack_job &job, tap_bits bits, int source, int result)
{
    const conv_form &form = job.form;
    int pair = form.source_first ? source * form.result_c + result : result * form.source_c + source;
    bool exists = source < form.source_c && result < form.result_c;
    tap_weight weight = {job.weight + (long)pair * (form.k * form.k), {exists ? bits.y : 0, exists ? bits.x : 0}};
    return weight;
}

/* A step of the packed weights, by its number. */
struct step_place {
    int tile, phase, chunk, step;
};

__device__ inline step_place place_of_step(const conv_form &form, int number)
{
    int all = form_all_steps(form) * form.chunks;
    step_place at = {number / all, 0, 0, 0};
    number -= at.tile * all;
    while (number >= form_steps(form, at.phase) * form.chunks)
        number -= form_steps(form, at.phase++) * form.chunks;
    int steps = form_steps(form, at.phase);
    at.chunk = number / steps;
    at.step = number - at.chunk * steps;
    return at;
}

/* The words of one lane for two operands (N = 8: for one), which lie together. */
template <int K> __device__ inline void pack_lane(const pack_job &job, int index)
{
    const conv_form &form = job.form;
    int words = form.tile_c == 8 ? 2 : 4, products = form.chunk_c == 8 ? 1 : form.chunk_c / 16;
    int lane = index % 32, rest = index / 32, pairs = form.tile_c == 8 ? 1 : form.tile_c / 16, pair = rest % pairs;
    rest /= pairs;
    int product = rest % products;
    step_place at = place_of_step(form, rest / products);
    bool two = form.chunk_c == 8; /* taps in a step */
    tap_bits bits[2];
    bits[0] = bits_of_tap(form, at.phase, two ? at.step * 2 : at.step);
    bits[1] = two ? bits_of_tap(form, at.phase, at.step * 2 + 1) : bits[0];
    tap_weight weight[8];
#pragma unroll
    for (int i = 0; i < 8; i++) {
        int word = i / 2, half = form.left ? word / 2 : word % 2, k = lane % 4 * 2 + i % 2; /* among eight neighbours */
        int result = form.left ? pair * 16 + lane / 4 * 2 + word % 2
                               : permuted_channel(form.tile_c, pair * 2 + word / 2, lane / 4);
        result += at.tile * form.tile_c;
        int source = at.chunk * form.chunk_c + (two ? k : product * 16 + half * 8 + k);
        weight[i] = weight_of_tap(job, bits[half], source, result);
    }
    float sum[8];
#pragma unroll
    for (int i = 0; i < 8; i++)
        sum[i] = sum_of_tap<K>(weight[i].from, weight[i].bits, form.k);
    unsigned *to = job.to + (size_t)index * (size_t)words;
#pragma unroll
    for (int word = 0; word < 4; word++)
        if (word < words)
            to[word] = pack_bf16(sum[2 * word], sum[2 * word + 1]);
}

/* Eight neighbouring source channels of a row. */
template <int K> __device__ inline void pack_row(const pack_job &job, int index)
{
    const conv_form &form = job.form;
    int vectors = form.chunk_c / 8, row = index / vectors % form.tile_c, vector = index % vectors ^ row % 8;
    step_place at = place_of_step(form, index / (vectors * form.tile_c));
    tap_bits bits = bits_of_tap(form, at.phase, at.step);
    int result = at.tile * form.tile_c + row;
    float8 sum;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        tap_weight weight = weight_of_tap(job, bits, at.chunk * form.chunk_c + vector * 8 + i, result);
        sum.v[i] = sum_of_tap<K>(weight.from, weight.bits, form.k);
    }
    store8((__nv_bfloat16 *)job.to + (size_t)index * 8, sum);
}

/* Four neighbouring result channels of a wide weight. */
__device__ inline void pack_four(const pack_job &job, int index)
{
    const conv_form &form = job.form;
    int fours = form.tile_c / 4, four = index % fours, row = index / fours;
    step_place at = place_of_step(form, row / form.chunk_c);
    int source = at.chunk * form.chunk_c + row % form.chunk_c;
    int result = at.tile * form.tile_c + four % (fours / 2) * 8 + four / (fours / 2) * 4;
    tap_bits bits = bits_of_tap(form, at.phase, at.step);
    float *to = (float *)job.to + (size_t)index * 4;
    for (int i = 0; i < 4; i++) {
        tap_weight weight = weight_of_tap(job, bits, source, result + i);
        to[i] = sum_of_tap<0>(weight.from, weight.bits, form.k);
    }
}

static __host__ __device__ inline size_t form_bytes(const conv_form &form)
{
    return (size_t)form_step_bytes(form) * form_all_steps(form) * form.chunks * form.tiles;
}

/* What a thread packs at once. */
static __host__ __device__ inline int form_lanes(const conv_form &form)
{
    return (int)(form_bytes(form) / (form.tile_c == 8 && !form.wide ? 8 : 16));
}

__global__ static void pack_kernel(const __grid_constant__ pack_jobs jobs)
{
    begin_after_kernel_before();
    const pack_job &job = jobs.job[blockIdx.y];
    int lanes = form_lanes(job.form);
    for (int i = blockIdx.x * PACK_THREADS + threadIdx.x; i < lanes; i += gridDim.x * PACK_THREADS) {
        if (job.form.wide)
            pack_four(job, i);
        else if (job.form.rows && job.form.k == 3)
            pack_row<3>(job, i);
        else if (job.form.rows)
            pack_row<0>(job, i);
        else if (job.form.k == 3)
            pack_lane<3>(job, i);
        else
            pack_lane<0>(job, i);
    }
}

void rc_cuda_pack(rc_cuda *cuda, const pack_job *jobs, int count)
{
    pack_jobs batch;
    for (int first = 0; first < count; first += PACK_JOBS) {
        int some = count - first < PACK_JOBS ? count - first : PACK_JOBS;
        int most = 0;
        for (int i = 0; i < some; i++) {
            batch.job[i] = jobs[first + i];
            most = form_lanes(jobs[first + i].form) > most ? form_lanes(jobs[first + i].form) : most;
        }
        int blocks = (most + PACK_THREADS - 1) / PACK_THREADS;
        blocks = blocks < PACK_BLOCKS ? blocks : PACK_BLOCKS;
        rc_cuda_launch_early(cuda, "packing weights", pack_kernel, dim3((unsigned)blocks, (unsigned)some), PACK_THREADS,
                             0, batch);
    }
}

/* ---- kept from use to use -------------------------------------------------------------------------------------- */

typedef struct packed_weight {
    pack_job job;
    int lane;
    bool stale;
    bool changes; /* in the step that was watched */
} packed_weight;

struct rc_cuda_packs {
    packed_weight *weight;
    pack_job *stale; /* as many: the batch that is being collected */
    int count, capacity;
};

static bool same_form(const conv_form *a, const conv_form *b)
{
    if (a->source_c != b->source_c || a->result_c != b->result_c || a->k != b->k ||
        a->source_first != b->source_first || a->wide != b->wide || a->left != b->left || a->rows != b->rows ||
        a->chunk_c != b->chunk_c || a->tile_c != b->tile_c || a->phases != b->phases)
        return false;
    for (int phase = 0; phase < a->phases; phase++) {
        if (a->count[phase] != b->count[phase])
            return false;
        for (int i = 0; i < a->count[phase]; i++)
            if (a->kernel[phase][i] != b->kernel[phase][i])
                return false;
    }
    return true;
}

static rc_status grow(rc_cuda_packs *packs)
{
    if (packs->count < packs->capacity)
        return RC_OK;
    int capacity = packs->capacity ? packs->capacity * 2 : 128;
    packed_weight *weight = (packed_weight *)realloc(packs->weight, (size_t)capacity * sizeof *weight);
    if (weight)
        packs->weight = weight;
    pack_job *stale = (pack_job *)realloc(packs->stale, (size_t)capacity * sizeof *stale);
    if (stale)
        packs->stale = stale;
    if (!weight || !stale)
        return RC_OUT_OF_MEMORY;
    packs->capacity = capacity;
    return RC_OK;
}

/* Begins to keep a weight; packed by the caller. */
static packed_weight *add_weight(rc_cuda *cuda, const conv_form *form, const float *weight)
{
    if (!cuda->packs)
        cuda->packs = (rc_cuda_packs *)calloc(1, sizeof *cuda->packs);
    void *memory = NULL;
    if (!cuda->packs || grow(cuda->packs) != RC_OK || rc_cuda_take(cuda, form_bytes(*form), &memory) != RC_OK) {
        rc_cuda_check(cuda, cudaErrorMemoryAllocation, "packing weights");
        return NULL;
    }
    packed_weight *kept = &cuda->packs->weight[cuda->packs->count++];
    *kept = packed_weight{{weight, (unsigned *)memory, *form}, cuda->lane, true, false};
    return kept;
}

/* Packs the weights that `wanted` wants. */
template <typename Wanted> static void pack_those(rc_cuda *cuda, Wanted wanted)
{
    int count = 0;
    for (int i = 0; i < cuda->packs->count; i++) {
        packed_weight *one = &cuda->packs->weight[i];
        if (!wanted(*one))
            continue;
        cuda->packs->stale[count++] = one->job;
        one->stale = false;
    }
    rc_cuda_pack(cuda, cuda->packs->stale, count);
}

const void *rc_cuda_packed_weights(rc_cuda *cuda, const conv_form *form, const float *weight, bool *fresh)
{
    rc_cuda_packs *packs = cuda->packs;
    packed_weight *kept = NULL;
    for (int i = 0; packs && !kept && i < packs->count; i++) {
        packed_weight *candidate = &packs->weight[i];
        if (candidate->job.weight == weight && candidate->lane == cuda->lane && same_form(&candidate->job.form, form))
            kept = candidate;
    }
    if (!kept)
        kept = add_weight(cuda, form, weight);
    *fresh = kept && kept->stale;
    if (*fresh)
        pack_those(cuda, [cuda](const packed_weight &one) { return one.stale && one.lane == cuda->lane; });
    return kept ? kept->job.to : NULL;
}

void rc_cuda_pack_stale(rc_cuda *cuda)
{
    if (cuda->packs)
        pack_those(cuda, [](const packed_weight &one) { return one.stale; });
}

void rc_cuda_watch_weights(rc_cuda *cuda)
{
    for (int i = 0; cuda->packs && i < cuda->packs->count; i++) {
        cuda->packs->weight[i].stale = true;
        cuda->packs->weight[i].changes = false;
    }
}

void rc_cuda_expect_changes(rc_cuda *cuda)
{
    for (int i = 0; cuda->packs && i < cuda->packs->count; i++)
        cuda->packs->weight[i].stale |= cuda->packs->weight[i].changes;
}

void rc_cuda_weights_written(rc_cuda *cuda, const void *memory, size_t bytes)
{
    uintptr_t begin = (uintptr_t)memory, end = bytes > UINTPTR_MAX - begin ? UINTPTR_MAX : begin + bytes;
    for (int i = 0; cuda->packs && i < cuda->packs->count; i++) {
        packed_weight *kept = &cuda->packs->weight[i];
        const conv_form *form = &kept->job.form;
        uintptr_t weight = (uintptr_t)kept->job.weight;
        size_t count = (size_t)form->source_c * (size_t)form->result_c * (size_t)(form->k * form->k);
        if (weight < end && begin < weight + count * sizeof(float)) {
            kept->stale = true;
            kept->changes |= cuda->capturing;
        }
    }
}

void rc_cuda_forget_packed(rc_cuda *cuda, const void *memory, size_t bytes)
{
    rc_cuda_packs *packs = cuda->packs;
    int left = 0;
    for (int i = 0; packs && i < packs->count; i++) {
        const char *weight = (const char *)packs->weight[i].job.weight;
        if (weight >= (const char *)memory && weight < (const char *)memory + bytes)
            rc_cuda_give_back(cuda, packs->weight[i].job.to);
        else
            packs->weight[left++] = packs->weight[i];
    }
    if (packs)
        packs->count = left;
}

void rc_cuda_destroy_packs(rc_cuda *cuda)
{
    if (cuda->packs) {
        free(cuda->packs->weight);
        free(cuda->packs->stale);
    }
    free(cuda->packs);
    cuda->packs = NULL;
}
