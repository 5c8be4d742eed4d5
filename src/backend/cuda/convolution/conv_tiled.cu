/* Forward convolution and its data gradient in fp32: one kernel with two sources and two sinks.
 *
 * The result at a position is a sum over taps (conv_taps.h) and source channels, so a pass over the map is a product
 *     (positions, taps x source channels) x (taps x source channels, result channels)
 * of which a block computes M positions x N channels, 4096 sums. For each chunk of source channels and each tap it
 * brings the source's values, with everything pending applied, and a piece of the packed weights (pack.h) to shared
 * memory; a thread then adds products for four positions and eight neighbouring channels, which are what the sinks of
 * map.cuh take. Neighbouring taps read the same pixels again, but from the first-level cache.
 *
 * Positions are numbered through the images of one group and one phase; the tiles of all phases of a group are dealt to
 * the blocks in turn, and block r of the group writes row r of `partial`. */
#include "backend/cuda/convolution/conv_tiled.h"

#include "backend/cuda/convolution/pack.h"
#include "backend/cuda/map/map.cuh"

enum {
    TILED_THREADS = 128,
    TILED_SUMS = 4096,   /* of a block: positions x result channels */
    TILED_POSITIONS = 4, /* of a thread, with eight channels */
    TILED_CHUNK = 16,    /* source channels at once */
    TILED_VECTORS = TILED_CHUNK / 8,
    TILED_PITCH = TILED_CHUNK + 4, /* floats of a position: eight that are read together fall on different banks */
    TILED_FETCHES = 2              /* vectors that a thread has on their way */
};

/* ---- sources and sinks ----------------------------------------------------------------------------------------- */

template <typename Act> struct tiled_value {
    tensor_view<Act> y;
    typedef float8 fetched;

    __device__ fetched fetch(place at, int channel) const
    {
        return fetch_value8(y, at, channel);
    }

    __device__ float8 finish(const fetched &f, place at, int channel) const
    {
        return finish_value8(y, f, at, channel);
    }

    __device__ int channels() const
    {
        return y.cp;
    }
};

template <typename Act> struct tiled_gradient {
    grad_view<Act> dy;
    typedef draw8 fetched;

    __device__ fetched fetch(place at, int channel) const
    {
        return fetch_draw8(dy, at, channel);
    }

    __device__ float8 finish(const fetched &f, place at, int channel) const
    {
        return finish_draw8(dy, f, at, channel);
    }

    __device__ int channels() const
    {
        return dy.y.cp;
    }
};

template <typename Act> struct tiled_result {
    typedef typename sum_of<Act>::type sum;
    forward_epilogue<Act> e;
    const float *bias;

    __device__ const tensor_view<Act> &map() const
    {
        return e.y;
    }

    __device__ void take(const map_walk &walk, place at, float8 v, channel_sums<sum> *sums) const
    {
#pragma unroll
        for (int i = 0; i < 8 && bias; i++)
            v.v[i] += walk.channel + i < e.y.c ? bias[walk.channel + i] : 0;
        finish_forward8(e, walk, at, v, load_center8(e, walk.channel), sums);
    }
};

template <typename Act> struct tiled_derivative {
    typedef typename sum_of<Act>::type sum;
    backward_epilogue<Act> e;

    __device__ const tensor_view<Act> &map() const
    {
        return e.x;
    }

    __device__ void take(const map_walk &walk, place at, float8 v, channel_sums<sum> *sums) const
    {
        finish_backward8(e, walk, at, v, sums);
    }
};

/* ---- positions ------------------------------------------------------------------------------------------------- */

struct tiled_map {
    axis_taps taps;
    int source_h, source_w, out_h, out_w;
    int chunks, all_taps, first_tap[RC_PHASES * RC_PHASES]; /* of the packed weights: taps of the phases before */
};

struct tiled_tile {
    int phase, phase_y, phase_x;
    int width, height; /* positions of an image */
    int first, count;  /* the first of this tile, and how many the group has */
};

/* The positions of one phase in so many images. */
__host__ __device__ inline tiled_tile phase_of(const tiled_map &map, int images, int phase)
{
    int step = map.taps.out_step, y = phase / step, x = phase % step;
    int height = (map.out_h - y + step - 1) / step, width = (map.out_w - x + step - 1) / step;
    tiled_tile tile = {phase, y, x, width, height, 0, images * height * width};
    return tile;
}

__host__ __device__ inline int phases_of(const tiled_map &map)
{
    return map.taps.out_step * map.taps.out_step;
}

/* Tile `number`, of at most m positions, of a group of so many images; false: there are fewer. */
__device__ inline bool find_tile(const tiled_map &map, int images, int m, int number, tiled_tile *tile)
{
    for (int phase = 0; phase < phases_of(map); phase++) {
        *tile = phase_of(map, images, phase);
        tile->first = number * m;
        if (tile->first < tile->count)
            return true;
        number -= (tile->count + m - 1) / m;
    }
    return false;
}

/* A position of a tile: its image, counted from the first of the group (-1: none), and where it is in its phase. */
struct tiled_position {
    int image, y, x;
};

__device__ inline tiled_position position_of(const tiled_tile &tile, int index)
{
    index += tile.first;
    int row = index / tile.width, image = row / tile.height;
    tiled_position p = {index < tile.count ? image : -1, row - image * tile.height, index - row * tile.width};
    return p;
}

/* ---- the kernel ------------------------------------------------------------------------------------------------ */

template <typename Source, typename Sink> struct tiled_arguments {
    Source source;
    Sink sink;
    tiled_map map;
    const float *weights; /* packed */
};

template <int N> struct tiled_shape {
    static constexpr int COLUMNS = N / 8, ROWS = TILED_THREADS / COLUMNS; /* of threads */
    static constexpr int M = TILED_SUMS / N;
    static constexpr int LANES = TILED_THREADS / TILED_VECTORS, LOADS = M / LANES; /* threads that load a vector each */
    static constexpr int PIXEL_FLOATS = M * TILED_PITCH, WEIGHT_FLOATS = TILED_CHUNK * N;
};

/* One tap of a chunk of source channels. */
struct tiled_step {
    int chunk, tap;

    __device__ void advance(int taps)
    {
        tap++;
        if (tap == taps) {
            tap = 0;
            chunk++;
        }
    }
};

/* Brings the source's values and the weights of one step to shared memory. What fits into registers is fetched while
 * the products of the step before are computed. */
template <int N, typename Source> struct tiled_loader {
    using shape = tiled_shape<N>;
    static constexpr int AHEAD = shape::LOADS < TILED_FETCHES ? shape::LOADS : TILED_FETCHES;
    static constexpr int WEIGHTS = (shape::WEIGHT_FLOATS / 4 + TILED_THREADS - 1) / TILED_THREADS;

    const Source &source;
    const tiled_map &map;
    int first_image, phase_y, phase_x;
    tiled_position position[shape::LOADS];
    typename Source::fetched fetched[AHEAD];
    float4 weight[WEIGHTS];

    __device__ int channel(tiled_step step) const
    {
        return step.chunk * TILED_CHUNK + threadIdx.x % TILED_VECTORS * 8;
    }

    /* Where position i reads the source; false: beyond the map, or past its channels. */
    __device__ bool locate(int i, tiled_step step, place *at) const
    {
        const axis_taps &taps = map.taps;
        const tiled_position &p = position[i];
        int y = p.y * taps.source_step + taps.offset[phase_y][step.tap / taps.count[phase_x]];
        int x = p.x * taps.source_step + taps.offset[phase_x][step.tap % taps.count[phase_x]];
        int image = first_image + p.image;
        *at = {(image * map.source_h + y) * map.source_w + x, image, y, x};
        return p.image >= 0 && (unsigned)y < (unsigned)map.source_h && (unsigned)x < (unsigned)map.source_w &&
               channel(step) < source.channels();
    }

    /* Positions [first, first + AHEAD). */
    __device__ void fetch_source(int first, tiled_step step)
    {
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            place at;
            fetched[i] = {};
            if (locate(first + i, step, &at))
                fetched[i] = source.fetch(at, channel(step));
        }
    }

    __device__ void store_source(int first, tiled_step step, float *pixels) const
    {
        float *to = pixels + threadIdx.x / TILED_VECTORS * TILED_PITCH + threadIdx.x % TILED_VECTORS * 8;
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            place at;
            bool inside = locate(first + i, step, &at);
            store8(to + (first + i) * shape::LANES * TILED_PITCH,
                   inside ? source.finish(fetched[i], at, channel(step)) : zero8());
        }
    }

    __device__ void fetch(tiled_step step, const float *packed)
    {
#pragma unroll
        for (int i = 0; i < WEIGHTS; i++) {
            int at = i * TILED_THREADS + (int)threadIdx.x;
            if (at < shape::WEIGHT_FLOATS / 4)
                weight[i] = ((const float4 *)packed)[at];
        }
        fetch_source(0, step);
    }

    __device__ void store(tiled_step step, float *pixels, float *weights)
    {
#pragma unroll
        for (int i = 0; i < WEIGHTS; i++) {
            int at = i * TILED_THREADS + (int)threadIdx.x;
            if (at < shape::WEIGHT_FLOATS / 4)
                ((float4 *)weights)[at] = weight[i];
        }
        store_source(0, step, pixels);
#pragma unroll
        for (int first = AHEAD; first < shape::LOADS; first += AHEAD) {
            fetch_source(first, step);
            store_source(first, step, pixels);
        }
    }
};

/* Four channels of the thread's positions times its eight columns of the weights. */
template <int N>
__device__ inline void add_products(float (&sum)[TILED_POSITIONS][8], const float *pixels, const float *weights)
{
    using shape = tiled_shape<N>;
#pragma unroll
    for (int c = 0; c < TILED_CHUNK; c += 4) {
        float a[TILED_POSITIONS][4];
#pragma unroll
        for (int i = 0; i < TILED_POSITIONS; i++) {
            float4 four = *(const float4 *)(pixels + i * shape::ROWS * TILED_PITCH + c);
            a[i][0] = four.x;
            a[i][1] = four.y;
            a[i][2] = four.z;
            a[i][3] = four.w;
        }
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const float4 *row = (const float4 *)(weights + (c + k) * N);
            float4 low = row[0], high = row[shape::COLUMNS];
            float b[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
            for (int i = 0; i < TILED_POSITIONS; i++)
#pragma unroll
                for (int j = 0; j < 8; j++)
                    sum[i][j] += a[i][k] * b[j];
        }
    }
}

/* A thread's sums of the tiles so far are in shared memory, (16, threads). */
template <typename Sum> __device__ inline void add_sums(Sum *space, const channel_sums<Sum> &sums)
{
#pragma unroll
    for (int i = 0; i < 8; i++) {
        space[i * TILED_THREADS + threadIdx.x] += sums.first[i];
        space[(8 + i) * TILED_THREADS + threadIdx.x] += sums.second[i];
    }
}

/* Adds the sums of all threads and writes them from channel first_channel on. */
template <int N, typename Sum> __device__ inline void write_sums(Sum *to, int cp, int first_channel, Sum *space)
{
    constexpr int COLUMNS = tiled_shape<N>::COLUMNS;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    Sum sum[16];
#pragma unroll
    for (int i = 0; i < 16; i++) {
        sum[i] = space[i * TILED_THREADS + threadIdx.x];
#pragma unroll
        for (int step = COLUMNS; step < 32; step *= 2)
            sum[i] += __shfl_xor_sync(0xffffffffu, sum[i], step);
    }
    __syncthreads();
    if (lane < COLUMNS) {
#pragma unroll
        for (int i = 0; i < 16; i++)
            space[warp * 2 * N + i / 8 * N + lane * 8 + i % 8] = sum[i];
    }
    __syncthreads();
    int channel = first_channel + (int)threadIdx.x % N;
    if ((int)threadIdx.x >= 2 * N || channel >= cp)
        return;
    Sum all = 0;
    for (int w = 0; w < TILED_THREADS / 32; w++)
        all += space[w * 2 * N + threadIdx.x];
    to[threadIdx.x / N * cp + channel] = all;
}

/* Grid: (blocks of a group, groups, tiles of N result channels). */
template <int N, typename Source, typename Sink>
__global__ static void __launch_bounds__(TILED_THREADS, 3)
    tiled_kernel(const __grid_constant__ tiled_arguments<Source, Sink> a)
{
    using shape = tiled_shape<N>;
    typedef typename Sink::sum sum_type;
    __shared__ float4 product_space[(shape::PIXEL_FLOATS + shape::WEIGHT_FLOATS) / 4];
    __shared__ sum_type sum_space[16 * TILED_THREADS];
    float *pixels = (float *)product_space, *weights = pixels + shape::PIXEL_FLOATS;
    int column = threadIdx.x % shape::COLUMNS, row = threadIdx.x / shape::COLUMNS, group = blockIdx.y;
    const map_cut &cut = a.sink.e.cut;
    const axis_taps &taps = a.map.taps;
    int first_image = group_begin(cut.groups, group), images = cut.groups.end[group] - first_image;
    map_walk walk = {(int)blockIdx.z * N + column * 8, group, 0, 0, 0};
    tiled_tile tile;
    for (int i = 0; i < 16; i++)
        sum_space[i * TILED_THREADS + threadIdx.x] = 0;
    wait_for_kernel_before();
    start_kernel_after();
    for (int t = blockIdx.x; find_tile(a.map, images, shape::M, t, &tile); t += gridDim.x) {
        tiled_loader<N, Source> loader = {a.source, a.map, first_image, tile.phase_y, tile.phase_x, {}, {}, {}};
#pragma unroll
        for (int i = 0; i < shape::LOADS; i++)
            loader.position[i] = position_of(tile, threadIdx.x / TILED_VECTORS + i * shape::LANES);
        int count = taps.count[tile.phase_y] * taps.count[tile.phase_x];
        const float *packed = a.weights + ((size_t)blockIdx.z * a.map.all_taps + a.map.first_tap[tile.phase]) *
                                              a.map.chunks * shape::WEIGHT_FLOATS;
        float sum[TILED_POSITIONS][8] = {};
        tiled_step step = {count > 0 ? 0 : a.map.chunks, 0}; /* a phase between the strides has no taps */
        if (count > 0)
            loader.fetch(step, packed);
        while (step.chunk < a.map.chunks) {
            __syncthreads();
            loader.store(step, pixels, weights);
            __syncthreads();
            step.advance(count);
            packed += shape::WEIGHT_FLOATS;
            if (step.chunk < a.map.chunks)
                loader.fetch(step, packed);
            add_products<N>(sum, pixels + row * TILED_PITCH, weights + column * 4);
        }
        channel_sums<sum_type> sums = {};
#pragma unroll
        for (int i = 0; i < TILED_POSITIONS; i++) {
            tiled_position p = position_of(tile, row + i * shape::ROWS);
            int y = p.y * taps.out_step + tile.phase_y, x = p.x * taps.out_step + tile.phase_x;
            float8 result;
#pragma unroll
            for (int j = 0; j < 8; j++)
                result.v[j] = sum[i][j];
            if (p.image >= 0 && walk.channel < cut.cp)
                a.sink.take(walk, place_at(a.sink.map(), first_image + p.image, y, x), result, &sums);
        }
        if (a.sink.e.partial)
            add_sums(sum_space, sums);
    }
    if (!a.sink.e.partial)
        return;
    sum_type *to = partial_row<sum_type>(a.sink.e.partial, (int)blockIdx.x, cut.groups.count, group, cut.cp);
    write_sums<N>(to, cut.cp, (int)blockIdx.z * N, sum_space);
    if (blockIdx.x == 0 && blockIdx.y == 0 && blockIdx.z == 0 && threadIdx.x == 0)
        ((partial_header *)a.sink.e.partial)->rows = (int)gridDim.x;
}

/* ---- launch ---------------------------------------------------------------------------------------------------- */

/* False: not of the form that conv_taps.h knows. */
static bool plan_map(const rc_conv *conv, bool forward, tiled_map *map, conv_form *form)
{
    *map = {};
    if (!(forward ? rc_cuda_forward_taps(conv, &map->taps) : rc_cuda_backward_taps(conv, &map->taps)))
        return false;
    rc_cuda_set_form(conv, forward, &map->taps, form);
    int source = rc_cuda_padded(form->source_c), result = rc_cuda_padded(form->result_c);
    form->wide = true;
    form->chunk_c = TILED_CHUNK;
    form->chunks = (source + TILED_CHUNK - 1) / TILED_CHUNK;
    form->tile_c = result <= 16 ? 16 : result <= 32 ? 32 : 64;
    form->tiles = (result + form->tile_c - 1) / form->tile_c;
    map->source_h = forward ? conv->h : conv->oh;
    map->source_w = forward ? conv->w : conv->ow;
    map->out_h = forward ? conv->oh : conv->h;
    map->out_w = forward ? conv->ow : conv->w;
    map->chunks = form->chunks;
    map->all_taps = form_all_steps(*form);
    for (int phase = 1; phase < form->phases * form->phases; phase++)
        map->first_tap[phase] = map->first_tap[phase - 1] + form_steps(*form, phase - 1);
    return true;
}

/* Blocks of a group: as many as the largest has tiles, or a part of them that divides the work evenly. */
static int count_blocks(const tiled_map &map, const map_cut &cut, int m, int most)
{
    int largest = 1;
    for (int g = 0; g < cut.groups.count; g++) {
        int tiles = 0;
        for (int phase = 0; phase < phases_of(map); phase++)
            tiles += (phase_of(map, cut.groups.end[g] - group_begin(cut.groups, g), phase).count + m - 1) / m;
        largest = tiles > largest ? tiles : largest;
    }
    int rounds = (largest + most - 1) / most;
    return (largest + rounds - 1) / rounds;
}

template <int N, typename Source, typename Sink>
static void launch_with(rc_cuda *cuda, const char *operation, const conv_form &form,
                        const tiled_arguments<Source, Sink> &a)
{
    const map_cut &cut = a.sink.e.cut;
    int pixels = cut.groups.end[cut.groups.count - 1] * cut.image_pixels;
    int blocks = count_blocks(a.map, cut, tiled_shape<N>::M, rc_cuda_partial_rows(pixels));
    dim3 grid((unsigned)blocks, (unsigned)cut.groups.count, (unsigned)form.tiles);
    rc_cuda_launch_early(cuda, operation, tiled_kernel<N, Source, Sink>, grid, TILED_THREADS, 0, a);
}

template <typename Source, typename Sink>
static void launch(rc_cuda *cuda, const char *operation, const tiled_map &map, const conv_form &form,
                   const float *weight, const Source &source, const Sink &sink)
{
    bool fresh; /* does not matter: nothing is read before what was enqueued before is complete */
    const float *packed = (const float *)rc_cuda_packed_weights(cuda, &form, weight, &fresh);
    tiled_arguments<Source, Sink> a = {source, sink, map, packed};
    if (form.tile_c == 16)
        launch_with<16>(cuda, operation, form, a);
    else if (form.tile_c == 32)
        launch_with<32>(cuda, operation, form, a);
    else
        launch_with<64>(cuda, operation, form, a);
}

/* ---- forward ---------------------------------------------------------------------------------------------------- */

template <typename Act>
static void forward_of(rc_cuda *cuda, const tiled_map &map, const conv_form &form, const rc_tensor *x,
                       const float *weight, const float *bias, const rc_tensor *y, const rc_epilogue *epilogue)
{
    tiled_value<Act> source = {view_tensor<Act>(x)};
    tiled_result<Act> sink = {view_epilogue<Act>(y, epilogue, cut_map(y)), bias};
    launch(cuda, "conv_forward", map, form, weight, source, sink);
}

static bool tiled_forward(rc_cuda *cuda, const rc_conv *conv, rc_tensor *x, const float *weight, const float *bias,
                          rc_tensor *y, const rc_epilogue *epilogue)
{
    tiled_map map;
    conv_form form;
    if (!plan_map(conv, true, &map, &form))
        return false;
    if (x->value && !x->stored)
        cuda->table.materialise(&cuda->table, x);
    if (cuda->bf16)
        forward_of<__nv_bfloat16>(cuda, map, form, x, weight, bias, y, epilogue);
    else
        forward_of<float>(cuda, map, form, x, weight, bias, y, epilogue);
    return true;
}

/* ---- gradient of the input -------------------------------------------------------------------------------------- */

template <typename Act>
static void backward_data_of(rc_cuda *cuda, const tiled_map &map, const conv_form &form, const rc_grad *dy,
                             const float *weight, void *dx, const rc_back_epilogue *epilogue)
{
    tiled_gradient<Act> source = {view_grad<Act>(dy)};
    tiled_derivative<Act> sink = {view_back_epilogue<Act>(dx, epilogue, cut_map(epilogue->x))};
    launch(cuda, "conv_backward_data", map, form, weight, source, sink);
}

static bool tiled_backward_data(rc_cuda *cuda, const rc_conv *conv, const rc_grad *dy, const float *weight, void *dx,
                                const rc_back_epilogue *epilogue)
{
    tiled_map map;
    conv_form form;
    if (!plan_map(conv, false, &map, &form))
        return false;
    if (cuda->bf16)
        backward_data_of<__nv_bfloat16>(cuda, map, form, dy, weight, dx, epilogue);
    else
        backward_data_of<float>(cuda, map, form, dy, weight, dx, epilogue);
    return true;
}

extern const rc_cuda_conv_kind rc_cuda_conv_tiled = {
    "tiled", rc_cuda_tiled_workspace, tiled_forward, tiled_backward_data, rc_cuda_tiled_backward_weight,
};
