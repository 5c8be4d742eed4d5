/* Chains whose normalisations take the statistics of the batch (chain_train.cu, chain_train_back.cu): how images are
 * dealt to blocks, the sums of all blocks, and which kernels there are. */
#ifndef RC_BACKEND_CUDA_CONVOLUTION_CHAIN_TRAIN_CUH
#define RC_BACKEND_CUDA_CONVOLUTION_CHAIN_TRAIN_CUH

#include "backend/cuda/convolution/chain.cuh"
#include "backend/cuda/convolution/conv_plan.h"
#include "backend/cuda/map/norm.cuh"
#include "backend/cuda/meeting.cuh"

/* The images of a block: those of one group. */
struct train_share {
    int group, row; /* row: the block's, of those of the group */
    int image, images;
};

template <typename Shape, typename Chain> __device__ inline train_share share_of(const Chain &a)
{
    train_share share = {0, (int)blockIdx.x, 0, 0};
    while (share.group < a.shape.groups.count - 1 && share.row >= a.group_blocks[share.group])
        share.row -= a.group_blocks[share.group++];
    share.image = group_begin(a.shape.groups, share.group) + share.row * Shape::IMAGES;
    share.images = a.shape.groups.end[share.group] - share.image;
    return share;
}

/* The row of a tensor in which a task begins: of the block's first image, if there is none for the task. */
__device__ inline int task_row(const chain_task &task, const train_share &share, int h)
{
    return (share.image + (task.image < share.images ? task.image : 0)) * h + task.row;
}

/* The thread's place in a tensor, for where its tasks begin. STREAMED: it is taken out of `results`, whose places are
 * then the same for all threads, and no work. */
template <typename Train> __device__ inline int take_place(chain_results<typename Train::Shape> &results)
{
    int place = results.place.in_tensor;
    if (!Train::STREAMED)
        return 0;
    results.place.in_tensor = 0;
    return place;
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

/* Begins the copy of what the first products of a link take; `stage`: of two. */
template <typename Train> __device__ inline void copy_first_weights(unsigned weights, int stage, const char *from)
{
    if (Train::STREAMED)
        copy_step_weights<typename Train::Shape>(weights, from, 0);
    else
        copy_link_weights(weights + stage * Train::WEIGHTS, from, Train::WEIGHTS);
}

/* STREAMED: the sums of a task, whose pixels begin at `map`. The weights of the first step are there, for all warps.
 * The others come meanwhile, and then those of the first step of `next` (NULL: there is none). */
template <typename Train>
__device__ inline void multiply_streamed(typename Train::Shape::sums &sum, const unsigned (&offset)[3], unsigned map,
                                         unsigned weights, int tile_m, const char *from, const char *next)
{
    typedef typename Train::Shape Shape;
    unsigned operands = weights + tile_m * 512 + threadIdx.x % 32 * 16;
    clear_sums<Shape>(sum);
#pragma unroll 1
    for (int step = 0; step < Shape::STEPS; step++) {
        bool last = step == Shape::STEPS - 1;
        unsigned other = weights + (step + 1) % 2 * Train::WEIGHTS;
        if (!last)
            copy_step_weights<Shape>(other, from, step + 1);
        else if (next)
            copy_step_weights<Shape>(other, next, 0);
        multiply_step<Shape>(sum, offset, map, operands + step % 2 * Train::WEIGHTS, step);
        if (last)
            break;
        wait_for_copies();
        __syncthreads();
    }
}

/* ---- sums of all blocks ------------------------------------------------------------------------------------------ */

/* Adds the rows of a group, in order: `space` is (warps, 2, C), and the sums of a channel over the warps are its. */
template <typename Shape, int THREADS>
__device__ inline void add_rows(const void *partial, int groups, int group, int rows, double *space)
{
    constexpr int C = Shape::C, VECTORS = C / 2, LANES = THREADS / VECTORS, AT_ONCE = Shape::LARGE ? 4 : 8;
    int vector = threadIdx.x % VECTORS;
    double four[4] = {};
#pragma unroll 1
    for (int first = threadIdx.x / VECTORS; first < rows; first += AT_ONCE * LANES) {
        float4 v[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            int row = first + i * LANES;
            v[i] = make_float4(0, 0, 0, 0);
            if (row < rows) /* not from a cache that other blocks did not write to */
                v[i] = __ldcg((const float4 *)(partial_row(partial, row, groups, group, C) + vector * 4));
        }
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            four[0] += (double)v[i].x;
            four[1] += (double)v[i].y;
            four[2] += (double)v[i].z;
            four[3] += (double)v[i].w;
        }
    }
#pragma unroll
    for (int step = VECTORS; step < 32; step *= 2)
#pragma unroll
        for (int i = 0; i < 4; i++)
            four[i] += __shfl_xor_sync(0xffffffffu, four[i], step);
    if ((int)threadIdx.x % 32 < VECTORS) {
#pragma unroll
        for (int i = 0; i < 4; i++)
            space[threadIdx.x / 32 * 2 * C + vector * 4 + i] = four[i];
    }
}

template <int THREADS, int C> __device__ inline double add_warps(const double *space, int i)
{
    double sum = 0;
#pragma unroll
    for (int warp = 0; warp < THREADS / 32; warp++)
        sum += space[warp * 2 * C + i];
    return sum;
}

/* The sums of all groups, (groups, 2, C), which lie behind what add_rows uses of `space`. */
template <typename Shape, int THREADS>
__device__ inline double *add_groups(const void *partial, int groups, const int *rows, double *space)
{
    constexpr int C = Shape::C;
    double *sums = space + THREADS / 32 * 2 * C;
    for (int group = 0; group < groups; group++) {
        __syncthreads();
        add_rows<Shape, THREADS>(partial, groups, group, rows[group], space);
        __syncthreads();
        if (threadIdx.x < 2 * C)
            sums[group * 2 * C + threadIdx.x] = add_warps<THREADS, C>(space, threadIdx.x);
    }
    __syncthreads();
    return sums;
}

/* ---- shapes ------------------------------------------------------------------------------------------------------ */

/* THREADS, and HELD: tasks of a warp. BLOCKS: of a multiprocessor. */
template <typename Shape_, int HELD_, int THREADS_, int BLOCKS_> struct train_shape {
    typedef Shape_ Shape;
    static constexpr int HELD = HELD_, THREADS = THREADS_, BLOCKS = BLOCKS_, WARPS = THREADS / 32;
    static constexpr bool STREAMED = Shape::LARGE; /* weights come step by step, for one task of each warp */
    static_assert(!STREAMED || HELD == 1, "all warps multiply at the same time");
    static_assert(!STREAMED || Shape::STEPS % 2 == 0, "the first step of each link is in the first stage");

    static bool takes(int h)
    {
        int tasks = Shape::tasks(h);
        return h % Shape::ROWS == 0 && (STREAMED ? tasks == WARPS : tasks <= HELD * WARPS);
    }

    /* Two maps, the weights of two links or of two steps, the sums of all warps, those of all tasks, three coefficients
     * of each channel. PARKED: what threads keep of all their tasks but the last. */
    static __host__ __device__ constexpr int maps(int h)
    {
        return 2 * Shape::IMAGES * Shape::map_bytes(h);
    }
    static constexpr int WEIGHTS = STREAMED ? Shape::STEP_WEIGHTS : Shape::WEIGHTS;
    static constexpr int SPACE = WARPS * 2 * Shape::C * (int)sizeof(double);
    static constexpr int PARKED = (HELD - 1) * THREADS * Shape::TILES * Shape::ROWS * 2 * (int)sizeof(unsigned);
    static constexpr int TASK_SUMS = HELD * WARPS * 32 * (int)sizeof(float);
    static int bytes(int h)
    {
        int used = maps(h) + 2 * WEIGHTS + SPACE + TASK_SUMS + 3 * Shape::C * (int)sizeof(float);
        int in_the_end = SPACE + RC_MAX_GROUPS * 2 * Shape::C * (int)sizeof(double);
        return used > in_the_end ? used : in_the_end;
    }
};

/* Calls `take` with the train_shape of a convolution's chain; false: there is none. With more images of 16
 * channels than multiprocessors two blocks share one, and each has half the warps; with more of 64 channels two images
 * share a block. */
template <typename Take> static bool with_train_shape(const rc_cuda *cuda, const rc_conv *conv, int n, Take take)
{
    if (conv->h % CHAIN_ROWS != 0)
        return false;
    if (conv->c_in == 16 && conv->w == 32)
        return n > cuda->multiprocessors ? take(train_shape<chain_shape<16, 32, 2>, 2, 256, 2>())
                                         : take(train_shape<chain_shape<16, 32, 2>, 1, 512, 1>());
    if (conv->c_in == 32 && conv->w == 16)
        return take(train_shape<chain_shape<32, 16, 2>, 1, 256, 2>());
    if (conv->c_in == 64 && conv->w == 8)
        return n > cuda->multiprocessors ? take(train_shape<chain_shape<64, 8, 2>, 1, 256, 1>())
                                         : take(train_shape<chain_shape<64, 8, 1>, 1, 256, 1>());
    if (conv->c_in == 64 && conv->w == 16)
        return n > cuda->multiprocessors ? take(train_shape<chain_shape<64, 16, 2, 8, 2>, 1, 512, 1>())
                                         : take(train_shape<chain_shape<64, 16, 2>, 1, 512, 1>());
    return false;
}

template <typename Shape> static int deal_blocks(const group_view &groups, int blocks[RC_MAX_GROUPS])
{
    int all = 0;
    for (int g = 0; g < groups.count; g++) {
        blocks[g] = (groups.end[g] - group_begin(groups, g) + Shape::IMAGES - 1) / Shape::IMAGES;
        all += blocks[g];
    }
    return all;
}

/* Are all blocks for n images in so many groups on the device at once? kernel_of(train_shape) is theirs.
 * back: they park what they hold. */
template <typename Kernel>
static bool fits_at_once(rc_cuda *cuda, const rc_conv *conv, int n, int groups, bool back, Kernel kernel_of)
{
    return with_train_shape(cuda, conv, n, [&](auto train) {
        typedef decltype(train) Train;
        constexpr int IMAGES = Train::Shape::IMAGES;
        int blocks = 0, bytes = Train::bytes(conv->h) + (back ? Train::PARKED : 0);
        int most = (n + (IMAGES - 1) * groups) / IMAGES;
        if (!Train::takes(conv->h) || bytes > cuda->shared_bytes)
            return false;
        auto kernel = kernel_of(train);
        rc_cuda_allow_shared(cuda, kernel, "chain_train");
        bool known = rc_cuda_check(
            cuda, cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, Train::THREADS, (size_t)bytes),
            "chain_train");
        return known && most <= blocks * cuda->multiprocessors;
    });
}

#endif
