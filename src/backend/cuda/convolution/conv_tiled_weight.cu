/* Weight gradient of a convolution in fp32.
 *
 * dW (c_out, taps x c_in) = sum over pixels of dL/draw (c_out) x value of x at the tap (taps x c_in): a product whose
 * inner dimension is the pixels of all images. A block computes O rows x 64 columns of it for a run of pixels, a stage
 * of 64 pixels at a time in shared memory; eight neighbouring columns are eight channels at one tap. A thread has 4 x 8
 * sums, so O = 64 takes all threads, and with fewer rows the warps share the pixels of a stage. Every block writes its
 * sums to the workspace, where a second kernel adds them in a fixed order (conv_reduce.h). */
#include "backend/cuda/convolution/conv_tiled.h"

#include "backend/cuda/convolution/conv_reduce.h"
#include "backend/cuda/device.cuh"

enum {
    STAGE_THREADS = 128,
    STAGE_PIXELS = 64,
    STAGE_COLUMNS = 64,
    STAGE_VECTORS = STAGE_COLUMNS / 8,
    STAGE_BLOCKS = 396, /* of the first kernel, about: three for each of 132 multiprocessors */
    STAGE_FETCHES = 2   /* vectors of dL/draw that a thread has on their way */
};

template <typename Act> struct stage_arguments {
    tensor_view<Act> x;
    grad_view<Act> dy;
    rc_conv conv;
    float *sums; /* (slots, taps, c_out, c_in), padded channels */
    int slot_pixels, pixels;
};

template <int O> struct stage_shape {
    static constexpr int THREADS = O / 4 * STAGE_VECTORS, SPLIT = STAGE_THREADS / THREADS; /* of a product; products */
};

/* The place of x that an output pixel reads through a tap; false: outside. */
__device__ inline bool source_place(const rc_conv &conv, place at, int tap_y, int tap_x, place *source)
{
    int y = at.y, x = at.x;
    if (conv.transposed) {
        y += conv.pad - tap_y;
        x += conv.pad - tap_x;
        if (y % conv.stride != 0 || x % conv.stride != 0 || y < 0 || x < 0)
            return false;
        y /= conv.stride;
        x /= conv.stride;
    } else {
        y = y * conv.stride - conv.pad + tap_y;
        x = x * conv.stride - conv.pad + tap_x;
        if (y < 0 || x < 0)
            return false;
        if (conv.up == 2) {
            y >>= 1;
            x >>= 1;
        }
    }
    *source = {(at.image * conv.h + y) * conv.w + x, at.image, y, x};
    return y < conv.h && x < conv.w;
}

/* What a thread loads of x: always the same eight columns. */
struct stage_column {
    int channel, tap_y, tap_x; /* channel < 0: past the last column */
};

__device__ inline stage_column column_of(const rc_conv &conv, int cp, int vector)
{
    int tap = vector / (cp / 8);
    stage_column c = {vector % (cp / 8) * 8, tap / conv.k, tap % conv.k};
    if (tap >= conv.k * conv.k)
        c.channel = -1;
    return c;
}

/* Brings the pixels of a stage to shared memory: 64 columns of x, (STAGE_PIXELS, STAGE_COLUMNS), and O rows of dL/draw,
 * (STAGE_PIXELS, O). What fits into registers is fetched while the products of the stage before are computed. */
template <int O, typename Act> struct stage_loader {
    static constexpr int COLUMN_LANES = STAGE_THREADS / STAGE_VECTORS, COLUMN_LOADS = STAGE_PIXELS / COLUMN_LANES;
    static constexpr int VECTORS = O / 8, LANES = STAGE_THREADS / VECTORS, LOADS = STAGE_PIXELS / LANES;
    static constexpr int AHEAD = LOADS < STAGE_FETCHES ? LOADS : STAGE_FETCHES;

    const stage_arguments<Act> &a;
    stage_column mine;
    int row_channel;
    float8 column[COLUMN_LOADS];
    draw8 row[AHEAD];

    /* Where x is read for load i of the columns; false: nowhere. */
    __device__ bool locate(int i, const place *pixel, int count, place *at) const
    {
        int p = (int)threadIdx.x / STAGE_VECTORS + i * COLUMN_LANES;
        return p < count && mine.channel >= 0 && source_place(a.conv, pixel[p], mine.tap_y, mine.tap_x, at);
    }

    __device__ bool row_inside(int i, int count) const
    {
        return (int)threadIdx.x / VECTORS + i * LANES < count && row_channel < a.dy.y.cp;
    }

    /* Loads [first, first + AHEAD) of the rows. */
    __device__ void fetch_rows(int first, const place *pixel, int count)
    {
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            row[i] = {};
            if (row_inside(first + i, count))
                row[i] = fetch_draw8(a.dy, pixel[threadIdx.x / VECTORS + (first + i) * LANES], row_channel);
        }
    }

    __device__ void store_rows(int first, const place *pixel, int count, float *rows) const
    {
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            int p = (int)threadIdx.x / VECTORS + (first + i) * LANES;
            bool inside = row_inside(first + i, count);
            store8(rows + p * O + threadIdx.x % VECTORS * 8,
                   inside ? finish_draw8(a.dy, row[i], pixel[p], row_channel) : zero8());
        }
    }

    __device__ void fetch(const place *pixel, int count)
    {
#pragma unroll
        for (int i = 0; i < COLUMN_LOADS; i++) {
            place at;
            column[i] = {};
            if (locate(i, pixel, count, &at))
                column[i] = fetch_value8(a.x, at, mine.channel);
        }
        fetch_rows(0, pixel, count);
    }

    __device__ void store(const place *pixel, int count, float *rows, float *columns)
    {
#pragma unroll
        for (int i = 0; i < COLUMN_LOADS; i++) {
            place at;
            bool inside = locate(i, pixel, count, &at);
            store8(columns + (threadIdx.x / STAGE_VECTORS + i * COLUMN_LANES) * STAGE_COLUMNS +
                       threadIdx.x % STAGE_VECTORS * 8,
                   inside ? finish_value8(a.x, column[i], at, mine.channel) : zero8());
        }
        store_rows(0, pixel, count, rows);
#pragma unroll
        for (int first = AHEAD; first < LOADS; first += AHEAD) {
            fetch_rows(first, pixel, count);
            store_rows(first, pixel, count, rows);
        }
    }
};

/* One pixel: four rows times eight columns. */
template <int O> __device__ inline void add_pixel(float (&sum)[4][8], const float *rows, const float *columns)
{
    float4 r = *(const float4 *)rows, low = *(const float4 *)columns;
    float4 high = *(const float4 *)(columns + STAGE_COLUMNS / 2);
    float a[4] = {r.x, r.y, r.z, r.w}, b[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 8; j++)
            sum[i][j] += a[i] * b[j];
}

/* Adds the sums of the threads that share the pixels of a stage, in order; those with split 0 end up with them. */
template <int O> __device__ inline void add_splits(float (&sum)[4][8], int split, int thread, float *space)
{
    constexpr int THREADS = stage_shape<O>::THREADS;
    for (int other = 1; other < stage_shape<O>::SPLIT; other++) {
        __syncthreads();
        if (split == other) {
#pragma unroll
            for (int i = 0; i < 32; i++)
                space[i * THREADS + thread] = sum[i / 8][i % 8];
        }
        __syncthreads();
        if (split == 0) {
#pragma unroll
            for (int i = 0; i < 32; i++)
                sum[i / 8][i % 8] += space[i * THREADS + thread];
        }
    }
}

/* Grid: (slots of pixels, tiles of O channels of y, tiles of 64 columns). */
template <int O, typename Act>
__global__ static void __launch_bounds__(STAGE_THREADS, 3) stage_kernel(const __grid_constant__ stage_arguments<Act> a)
{
    using shape = stage_shape<O>;
    __shared__ float4 row_space[STAGE_PIXELS * O / 4], column_space[STAGE_PIXELS * STAGE_COLUMNS / 4];
    __shared__ place pixel[2][STAGE_PIXELS]; /* of this stage and the next one */
    float *rows = (float *)row_space, *columns = (float *)column_space;
    int thread = threadIdx.x % shape::THREADS, split = threadIdx.x / shape::THREADS;
    int row = thread / STAGE_VECTORS * 4, first_o = (int)blockIdx.y * O;
    int first = (int)blockIdx.x * a.slot_pixels, end = first + a.slot_pixels;
    stage_column mine = column_of(a.conv, a.x.cp, (int)(blockIdx.z * STAGE_VECTORS + threadIdx.x % STAGE_VECTORS));
    stage_loader<O, Act> loader = {a, mine, first_o + (int)threadIdx.x % (O / 8) * 8, {}, {}};
    float sum[4][8] = {};
    end = end < a.pixels ? end : a.pixels;
    wait_for_kernel_before();
    start_kernel_after();
    if (threadIdx.x < STAGE_PIXELS)
        pixel[0][threadIdx.x] = place_of(a.dy.y, first + (int)threadIdx.x);
    __syncthreads();
    loader.fetch(pixel[0], end - first);
    for (int stage = 0; first < end; first += STAGE_PIXELS, stage ^= 1) {
        __syncthreads();
        loader.store(pixel[stage], end - first, rows, columns);
        if (threadIdx.x < STAGE_PIXELS)
            pixel[stage ^ 1][threadIdx.x] = place_of(a.dy.y, first + STAGE_PIXELS + (int)threadIdx.x);
        __syncthreads();
        loader.fetch(pixel[stage ^ 1], end - first - STAGE_PIXELS); /* nothing, past the end */
        const float *r = rows + split * (STAGE_PIXELS / shape::SPLIT) * O + row;
        const float *c = columns + split * (STAGE_PIXELS / shape::SPLIT) * STAGE_COLUMNS + thread % STAGE_VECTORS * 4;
#pragma unroll 4
        for (int p = 0; p < STAGE_PIXELS / shape::SPLIT; p++)
            add_pixel<O>(sum, r + p * O, c + p * STAGE_COLUMNS);
    }
    add_splits<O>(sum, split, thread, columns);
    if (split > 0)
        return;
    int co = a.dy.y.cp, ci = a.x.cp, taps = a.conv.k * a.conv.k;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int column = (int)blockIdx.z * STAGE_COLUMNS + half * (STAGE_COLUMNS / 2) + thread % STAGE_VECTORS * 4;
        int tap = column / ci;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float *to = a.sums + (((size_t)blockIdx.x * taps + tap) * co + first_o + row + i) * ci + column % ci;
            if (tap < taps && first_o + row + i < co)
                *(float4 *)to = make_float4(sum[i][half * 4], sum[i][half * 4 + 1], sum[i][half * 4 + 2],
                                            sum[i][half * 4 + 3]);
        }
    }
}

/* ---- plan and launch -------------------------------------------------------------------------------------------- */

struct stage_plan {
    int o, tiles_o, tiles_columns, slots, slot_pixels;
    reduce_arguments reduce;
};

/* False: not taken. Fewer pixels never ask for more slots. */
static bool plan_stages(const rc_conv *conv, int pixels, stage_plan *plan)
{
    axis_taps taps; /* kernels that this kind takes are those that all of it takes */
    *plan = {};
    if (!rc_cuda_forward_taps(conv, &taps))
        return false;
    reduce_arguments *reduce = &plan->reduce;
    reduce->taps = conv->k * conv->k;
    reduce->co_padded = rc_cuda_padded(conv->c_out);
    reduce->ci_padded = rc_cuda_padded(conv->c_in);
    reduce->co = conv->c_out;
    reduce->ci = conv->c_in;
    reduce->k = conv->k;
    reduce->transposed = conv->transposed;
    reduce->terms = 1;
    for (int tap = 0; tap < reduce->taps; tap++)
        reduce->term[tap][0] = (signed char)tap;
    plan->o = reduce->co_padded <= 16 ? 16 : reduce->co_padded <= 32 ? 32 : 64;
    plan->tiles_o = (reduce->co_padded + plan->o - 1) / plan->o;
    plan->tiles_columns = (reduce->taps * reduce->ci_padded + STAGE_COLUMNS - 1) / STAGE_COLUMNS;
    int tiles = plan->tiles_o * plan->tiles_columns, most = (STAGE_BLOCKS + tiles - 1) / tiles;
    int stages = (pixels + STAGE_PIXELS - 1) / STAGE_PIXELS;
    int each = (stages + most - 1) / most;
    each = each < 4 ? 4 : each; /* stages of a slot */
    plan->slots = (stages + each - 1) / each;
    plan->slot_pixels = each * STAGE_PIXELS;
    reduce->blocks = plan->slots;
    return true;
}

static size_t sum_bytes(const stage_plan &plan, int slots)
{
    return (size_t)slots * plan.reduce.taps * plan.reduce.co_padded * plan.reduce.ci_padded * sizeof(float);
}

size_t rc_cuda_tiled_workspace(const rc_cuda *, const rc_conv *conv, int n)
{
    stage_plan plan;
    if (!plan_stages(conv, n * conv->oh * conv->ow, &plan))
        return 0;
    /* A pass may run with fewer images, whose stages divide otherwise. */
    int tiles = plan.tiles_o * plan.tiles_columns;
    return sum_bytes(plan, (STAGE_BLOCKS + tiles - 1) / tiles);
}

template <typename Act>
static void launch_stages(rc_cuda *cuda, const rc_conv *conv, const stage_plan &plan, const rc_tensor *x,
                          const rc_grad *dy, float *sums)
{
    stage_arguments<Act> a = {view_tensor<Act>(x),           view_grad<Act>(dy), *conv, sums, plan.slot_pixels,
                              dy->y->n * conv->oh * conv->ow};
    dim3 grid((unsigned)plan.slots, (unsigned)plan.tiles_o, (unsigned)plan.tiles_columns);
    rc_cuda_launch_early(cuda, "conv_backward_weight",
                         plan.o == 16   ? stage_kernel<16, Act>
                         : plan.o == 32 ? stage_kernel<32, Act>
                                        : stage_kernel<64, Act>,
                         grid, STAGE_THREADS, 0, a);
}

bool rc_cuda_tiled_backward_weight(rc_cuda *cuda, const rc_conv *conv, const rc_tensor *x, const rc_grad *dy,
                                   float *dweight, float *dbias)
{
    stage_plan plan;
    if (!plan_stages(conv, dy->y->n * conv->oh * conv->ow, &plan))
        return false;
    float *sums = (float *)rc_cuda_workspace(cuda, sum_bytes(plan, plan.slots), "conv_backward_weight");
    if (!sums)
        return true;
    if (cuda->bf16)
        launch_stages<__nv_bfloat16>(cuda, conv, plan, x, dy, sums);
    else
        launch_stages<float>(cuda, conv, plan, x, dy, sums);
    plan.reduce.sums = sums;
    plan.reduce.dweight[0] = dweight;
    rc_cuda_reduce_weight(cuda, &plan.reduce);
    if (dbias)
        rc_cuda_bias_gradient(cuda, dy, dbias);
    return true;
}
