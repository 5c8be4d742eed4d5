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
    PACK_JOBS = 128, /* of a launch: they are arguments, which have room for 32 kB */
    UNIT_C = 32,     /* channels of a unit, of sources and of results, at most */
    UNIT_TAPS = 9,
    UNIT_ROW = UNIT_C * UNIT_TAPS,
    UNIT_PITCH = UNIT_ROW + 1, /* no two lanes of a warp read the same bank, in any order that they pack in */
    UNIT_STEPS = 16            /* of a form, at most: enlarged maps have four phases of 2 x 2 taps */
};

struct pack_jobs {
    pack_job job[PACK_JOBS];
    int first[PACK_JOBS + 1]; /* blocks first[i] .. first[i + 1] - 1 pack job i */
    int steps[PACK_JOBS];     /* of a form that is packed in units, otherwise 0 */
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

/* ---- straight from memory: kernels of other sizes, and what is float -------------------------------------------- */

/* The weights of a tap, all positions of the kernel. */
__device__ inline float sum_of_tap(const float *weight, tap_bits bits, int k)
{
    float sum = 0;
    for (unsigned y = bits.y; y; y >>= 1, weight += k)
        if (y & 1)
            for (unsigned i = 0; bits.x >> i; i++)
                if (bits.x >> i & 1)
                    sum += weight[i];
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
__device__ inline void pack_lane(const pack_job &job, int index)
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
        sum[i] = sum_of_tap(weight[i].from, weight[i].bits, form.k);
    unsigned *to = job.to + (size_t)index * (size_t)words;
#pragma unroll
    for (int word = 0; word < 4; word++)
        if (word < words)
            to[word] = pack_bf16(sum[2 * word], sum[2 * word + 1]);
}

/* Eight neighbouring source channels of a row. */
__device__ inline void pack_row(const pack_job &job, int index)
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
        sum.v[i] = sum_of_tap(weight.from, weight.bits, form.k);
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
        to[i] = sum_of_tap(weight.from, weight.bits, form.k);
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

/* ---- 3 x 3 kernels, through shared memory ---------------------------------------------------------------------- */

/* The steps of a form that is packed so, otherwise 0. A tap wants every ninth float, so a block reads weights as they
 * lie, and writes all taps of them. */
static int steps_in_units(const conv_form &form)
{
    int steps = form_all_steps(form);
    return form.k == 3 && !form.wide && steps <= UNIT_STEPS ? steps : 0;
}

/* What a block packs at once: all taps between some source channels and some result channels, a corner of a chunk and a
 * tile. Channels of chunks and tiles are powers of two. */
struct pack_unit {
    int tile, chunk;
    int source, sources, result, results; /* first of the chunk, of the tile, and how many */
};

/* The number of channels and of units along an axis of a chunk or tile. */
static __host__ __device__ inline int unit_channels(int channels)
{
    return channels < UNIT_C ? channels : UNIT_C;
}

static __host__ __device__ inline int units_along(int channels)
{
    return channels <= UNIT_C ? 1 : channels / UNIT_C;
}

static int form_units(const conv_form &form)
{
    return form.tiles * form.chunks * units_along(form.tile_c) * units_along(form.chunk_c);
}

__device__ inline pack_unit unit_of_form(const conv_form &form, int number)
{
    int along_source = units_along(form.chunk_c), along_result = units_along(form.tile_c);
    int all_sources = form.chunks * along_source, source = number % all_sources, result = number / all_sources;
    pack_unit unit;
    unit.sources = unit_channels(form.chunk_c);
    unit.results = unit_channels(form.tile_c);
    unit.chunk = source / along_source;
    unit.source = (source - unit.chunk * along_source) * UNIT_C;
    unit.tile = result / along_result;
    unit.result = (result - unit.tile * along_result) * UNIT_C;
    return unit;
}

/* A step of a unit. */
struct unit_step {
    unsigned positions; /* of the kernel, as bits; 16 bits further those of the second tap */
    int place;          /* among the steps of the tile */
};

/* The positions of a 3 x 3 kernel that fall together in a tap. */
__device__ inline unsigned positions_of(tap_bits bits)
{
    return (bits.y & 1 ? bits.x : 0) | (bits.y & 2 ? bits.x << 3 : 0) | (bits.y & 4 ? bits.x << 6 : 0);
}

__device__ inline unit_step step_of_unit(const conv_form &form, const pack_unit &unit, int step)
{
    int phase = 0, before = 0;
    while (step >= before + form_steps(form, phase))
        before += form_steps(form, phase++);
    bool two = form.chunk_c == 8; /* taps in a step */
    int number = step - before, tap = two ? number * 2 : number;
    unsigned first = positions_of(bits_of_tap(form, phase, tap));
    unsigned second = two ? positions_of(bits_of_tap(form, phase, tap + 1)) << 16 : 0;
    return {first | second, before * form.chunks + unit.chunk * form_steps(form, phase) + number};
}

/* In shared memory: the weights as they lie, a row for each of the outer channels, and the steps. */
struct unit_space {
    float weight[UNIT_C * UNIT_PITCH];
    unit_step step[UNIT_STEPS];
};

/* Brings the weights of a unit to shared memory, zeros where a channel is not real. */
__device__ inline void load_unit(const pack_job &job, const pack_unit &unit, unit_space &space)
{
    const conv_form &form = job.form;
    int source = unit.chunk * form.chunk_c + unit.source, result = unit.tile * form.tile_c + unit.result;
    int outer = form.source_first ? source : result, inner = form.source_first ? result : source;
    int outers = form.source_first ? form.source_c : form.result_c;
    int inners = form.source_first ? form.result_c : form.source_c;
    int rows = form.source_first ? unit.sources : unit.results, lane = threadIdx.x % 32;
    const float *weight = job.weight + ((long)outer * inners + inner) * UNIT_TAPS + lane;
#pragma unroll 2
    for (int row = threadIdx.x / 32; row < rows; row += PACK_THREADS / 32) {
        int real = outer + row < outers ? (inners - inner) * UNIT_TAPS : 0;
        const float *from = weight + (long)row * inners * UNIT_TAPS;
        float *to = space.weight + row * UNIT_PITCH + lane, v[UNIT_TAPS];
#pragma unroll
        for (int i = 0; i < UNIT_TAPS; i++)
            v[i] = i * 32 + lane < real ? from[i * 32] : 0;
#pragma unroll
        for (int i = 0; i < UNIT_TAPS; i++)
            to[i * 32] = v[i];
    }
    if (threadIdx.x == 0)
        space.weight[UNIT_ROW] = 0;
}

/* Eight weights of a thread, which lie together in every step: weight i is `by[b]` beyond weight 0 in shared memory for
 * each bit b of i. */
struct packed_eight {
    int first, by[3];
    int vector; /* among those of a step */

    __device__ int place(int i) const
    {
        return first + (i & 1 ? by[0] : 0) + (i & 2 ? by[1] : 0) + (i & 4 ? by[2] : 0);
    }
};

/* As pack_row(): eight neighbouring source channels of a row. */
__device__ inline packed_eight eight_of_row(const conv_form &form, const pack_unit &unit, int item, int by_source,
                                            int by_result)
{
    int vector = item & 3, row = item >> 2, in_tile = unit.result + row;
    return {vector * 8 * by_source + row * by_result,
            {by_source, 2 * by_source, 4 * by_source},
            in_tile * (form.chunk_c / 8) + ((unit.source / 8 + vector) ^ in_tile % 8)};
}

/* As pack_lane(): the words of a lane. Of a tile of eight results there are but two, and nobody stores the others. */
__device__ inline packed_eight eight_of_lane(const conv_form &form, const pack_unit &unit, int item, int by_source,
                                             int by_result)
{
    int lane = item & 31, more = unit.results == 32, pair = item >> 5 & more, product = item >> 5 >> more;
    int next = form.chunk_c == 8 ? 0 : 8 * by_source; /* the second half of the sources; of taps */
    int result = form.left ? pair * 16 + lane / 4 * 2 : lane / 8 * (unit.results / 4) + pair * 4 + lane / 4 % 2;
    int all_pairs = form.tile_c == 8 ? 1 : form.tile_c / 16;
    return {(product * 16 + lane % 4 * 2) * by_source + result * by_result,
            {by_source, form.left ? by_result : next,
             form.left           ? next
             : unit.results == 8 ? 0
                                 : 2 * by_result},
            ((unit.source / 16 + product) * all_pairs + unit.result / 16 + pair) * 32 + lane};
}

__device__ inline void write_unit(const pack_job &job, int steps, const pack_unit &unit, const unit_space &space)
{
    const conv_form &form = job.form;
    int by_source = form.source_first ? UNIT_PITCH : UNIT_TAPS, by_result = form.source_first ? UNIT_TAPS : UNIT_PITCH;
    int twice = (unit.results > 16) + (unit.sources > 16), items = 32 << twice; /* vectors of a step, also of rows */
    int item = threadIdx.x & (items - 1), words = form.tile_c == 8 ? 2 : 4;
    bool two = form.chunk_c == 8;
    packed_eight eight = form.rows ? eight_of_row(form, unit, item, by_source, by_result)
                                   : eight_of_lane(form, unit, item, by_source, by_result);
    size_t step_words = (size_t)form_step_bytes(form) / 4;
    unsigned *to = job.to + (size_t)unit.tile * steps * form.chunks * step_words + eight.vector * words;
    for (int step = (int)threadIdx.x / 32 >> twice; step < steps; step += PACK_THREADS / 32 >> twice) {
        unit_step at = space.step[step];
        float sum[8] = {};
        for (unsigned left = at.positions; left; left &= left - 1) {
            int position = __ffs((int)left) - 1;
            if (two) {
                int second = position / 16, half = form.left ? 4 : 2;
#pragma unroll
                for (int i = 0; i < 8; i++)
                    sum[i] += space.weight[((i & half) != 0) == second ? eight.place(i) + position % 16 : UNIT_ROW];
                continue;
            }
#pragma unroll
            for (int i = 0; i < 8; i++)
                sum[i] += space.weight[eight.place(i) + position];
        }
        unsigned *word = to + (size_t)at.place * step_words;
        unsigned packed[4];
#pragma unroll
        for (int i = 0; i < 4; i++)
            packed[i] = pack_bf16(sum[2 * i], sum[2 * i + 1]);
        if (words == 2) {
            word[0] = packed[0];
            word[1] = packed[1];
        } else {
            *(uint4 *)word = make_uint4(packed[0], packed[1], packed[2], packed[3]);
        }
    }
}

/* ---- all of them ------------------------------------------------------------------------------------------------ */

static int form_blocks(const conv_form &form)
{
    return steps_in_units(form) ? form_units(form) : (form_lanes(form) + PACK_THREADS - 1) / PACK_THREADS;
}

__global__ static void __launch_bounds__(PACK_THREADS, 5) pack_kernel(const __grid_constant__ pack_jobs jobs, int count)
{
    __shared__ unit_space space;
    begin_after_kernel_before();
    int below = 0; /* the job is neither below nor above */
    for (int above = count; above - below > 1;) {
        int middle = (below + above) / 2;
        if (jobs.first[middle] <= (int)blockIdx.x)
            below = middle;
        else
            above = middle;
    }
    const pack_job &job = jobs.job[below];
    int number = (int)blockIdx.x - jobs.first[below], steps = jobs.steps[below];
    if (steps) {
        pack_unit unit = unit_of_form(job.form, number);
        if ((int)threadIdx.x < steps)
            space.step[threadIdx.x] = step_of_unit(job.form, unit, threadIdx.x);
        load_unit(job, unit, space);
        __syncthreads();
        write_unit(job, steps, unit, space);
        return;
    }
    int index = number * PACK_THREADS + threadIdx.x;
    if (index >= form_lanes(job.form))
        return;
    if (job.form.wide)
        pack_four(job, index);
    else if (job.form.rows)
        pack_row(job, index);
    else
        pack_lane(job, index);
}

void rc_cuda_pack(rc_cuda *cuda, const pack_job *jobs, int count)
{
    pack_jobs batch;
    for (int first = 0; first < count; first += PACK_JOBS) {
        int some = count - first < PACK_JOBS ? count - first : PACK_JOBS;
        batch.first[0] = 0;
        for (int i = 0; i < some; i++) {
            batch.job[i] = jobs[first + i];
            batch.steps[i] = steps_in_units(jobs[first + i].form);
            batch.first[i + 1] = batch.first[i] + form_blocks(jobs[first + i].form);
        }
        rc_cuda_launch_early(cuda, "packing weights", pack_kernel, dim3((unsigned)batch.first[some]), PACK_THREADS, 0,
                             batch, some);
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
