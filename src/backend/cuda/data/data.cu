/* Batches of images, random numbers, labels. The same Philox stream as base/rng.h, bit for bit; normals by the same
 * formula in double. */
#include "backend/cuda/device.cuh"

#define RC_VARY_FUNCTION __device__ static inline
#include "backend/vary.h"

enum { DATA_THREADS = 256 };

struct philox {
    unsigned lane[4];
};

/* Elements 4 * block .. 4 * block + 3 of the stream. */
__device__ static philox philox_block(unsigned long long seed, unsigned long long stream, unsigned long long block)
{
    unsigned a = (unsigned)block, b = (unsigned)(block >> 32), c = (unsigned)stream, d = (unsigned)(stream >> 32);
    unsigned key0 = (unsigned)seed, key1 = (unsigned)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        unsigned long long left = 0xD2511F53ull * a, right = 0xCD9E8D57ull * c;
        a = (unsigned)(right >> 32) ^ b ^ key0;
        b = (unsigned)right;
        c = (unsigned)(left >> 32) ^ d ^ key1;
        d = (unsigned)left;
        key0 += 0x9E3779B9u; /* golden ratio */
        key1 += 0xBB67AE85u; /* sqrt(3) - 1 */
    }
    philox out = {{a, b, c, d}};
    return out;
}

/* Draw e of a step. */
__device__ static unsigned draw_bits(const rc_step *step, unsigned stream, unsigned long long e)
{
    unsigned long long index = ((unsigned long long)step->step << 32) + e;
    return philox_block(step->seed, (unsigned long long)step->task << 32 | stream, index / 4).lane[index % 4];
}

/* rc_step_place + b, and rc_step_first. */
__device__ static unsigned long long place_of(const rc_step *step, int n, int b)
{
    return step->part * (unsigned long long)n + b;
}

__device__ static size_t first_of(const rc_step *step, int n)
{
    return ((size_t)step->batch * (step->others + 1) + step->part) * n;
}

__device__ static unsigned below_bits(unsigned bits, unsigned n)
{
    return (unsigned)(((unsigned long long)bits * n) >> 32);
}

__device__ static int draw_below(const rc_step *step, unsigned stream, unsigned long long e, unsigned n)
{
    return (int)below_bits(draw_bits(step, stream, e), n);
}

static dim3 blocks_for(size_t threads)
{
    return dim3((unsigned)((threads + DATA_THREADS - 1) / DATA_THREADS));
}

/* ---- augmentation ----------------------------------------------------------------------------------------------- */

enum { BAND_BYTES = 12 * 1024, LINE = 16 };

/* Where images lie: where `fed` says, at the address in `cell`, or at `images`. */
struct image_place {
    const unsigned char *images;
    const unsigned char *const *cell; /* NULL: not there */
    const rc_cuda_fed *fed;           /* likewise */
};

/* False: an error is set. */
static bool find_place(rc_cuda *cuda, const uint8_t *images, const int32_t *order, int n, const rc_step *step,
                       image_place *place)
{
    *place = image_place{images, NULL, NULL};
    struct rc_cuda_images *found = rc_cuda_find_images(cuda, images);
    if (found && rc_cuda_supplied_of(found))
        place->fed = rc_cuda_read_supplied(cuda, rc_cuda_supplied_of(found), order, n, step);
    else if (found)
        place->cell = (const unsigned char *const *)images;
    return cuda->status == RC_OK;
}

/* Image b of n, of `bytes` bytes. */
__device__ static const unsigned char *image_at(const image_place &place, const int *order, const rc_step *step, int n,
                                                int b, size_t bytes)
{
    size_t i = (size_t)order[first_of(step, n) + b];
    if (!place.fed)
        return (place.cell ? *place.cell : place.images) + i * bytes;
    size_t count = (size_t)place.fed->count;
    if (i >= count)
        return *place.fed->more + (i - count) * bytes;
    if (place.fed->brought)
        i = (size_t)(step->batch % RC_CUDA_BROUGHT) * n + b;
    return place.fed->images + i * bytes;
}

/* Copies `bytes` bytes to `band`, by lines as far as they go: images may lie in host memory, beyond a bus that likes
 * them. The first comes to lie at the offset that is returned, below LINE. */
__device__ static int fetch_band(const unsigned char *from, int bytes, unsigned char *band)
{
    int skew = (int)((size_t)from % LINE);
    from -= skew;
    for (int at = (int)threadIdx.x * LINE; at < skew + bytes; at += DATA_THREADS * LINE)
        if (at >= skew && at + LINE <= skew + bytes)
            *(uint4 *)(band + at) = *(const uint4 *)(from + at);
        else
            for (int i = 0; i < LINE; i++)
                if (at + i >= skew && at + i < skew + bytes)
                    band[at + i] = from[at + i];
    return skew;
}

/* Where the window starts, in pixels of the image. */
struct crop {
    int down, across;
    bool flip;
};

__device__ static crop draw_crop(const rc_augment &augment, const rc_step *step, unsigned long long b)
{
    unsigned offsets = 2 * (unsigned)augment.pad + 1;
    unsigned long long first = 4 * b;
    crop window;
    window.down = draw_below(step, augment.stream, first, offsets) - augment.pad;
    window.across = draw_below(step, augment.stream, first + 1, offsets) - augment.pad;
    window.flip = augment.flip && draw_bits(step, augment.stream, first + 2) >> 31;
    return window;
}

/* What a block makes: some of `rows` rows of image b of n. There may be more images than a grid can be high. */
struct image_band {
    int b, n, top, height;
};

__device__ static image_band band_of(int h, int rows)
{
    int bands = (h + rows - 1) / rows, b = (int)blockIdx.x / bands, top = ((int)blockIdx.x - b * bands) * rows;
    return image_band{b, (int)gridDim.x / bands, top, h - top < rows ? h - top : rows};
}

/* One block for `rows` rows of the result of one image. The normalised image is surrounded by `pad` zeros; the window
 * starts at (crop row, crop column) of that, and is then flipped. Images have at most four channels. */
template <typename Act>
__global__ static void augment_kernel(rc_augment augment, image_place place, const int *order, int rows,
                                      const rc_step *step, Act *out)
{
    __shared__ __align__(16) unsigned char band[BAND_BYTES + LINE];
    int h = augment.h, w = augment.w, pitch = w * augment.c;
    image_band mine = band_of(h, rows);
    int b = mine.b, n = mine.n, top = mine.top, height = mine.height;
    const unsigned char *image = image_at(place, order, step, n, b, (size_t)h * pitch);
    crop window = draw_crop(augment, step, place_of(step, n, b));
    int down = window.down;
    int begin = top + down > 0 ? top + down : 0, end = top + down + height < h ? top + down + height : h;
    int skew = begin < end ? fetch_band(image + (size_t)begin * pitch, (end - begin) * pitch, band) : 0;
    __syncthreads();
    for (int pixel = (int)threadIdx.x; pixel < height * w; pixel += DATA_THREADS) {
        int x = pixel % w, row = top + pixel / w + down, column = (window.flip ? w - 1 - x : x) + window.across;
        const unsigned char *from = band + skew + (row - begin) * pitch + column * augment.c;
        bool inside = row >= begin && row < end && column >= 0 && column < w;
        float8 value = zero8();
#pragma unroll
        for (int c = 0; c < 4; c++)
            if (inside && c < augment.c)
                value.v[c] = ((float)from[c] / 255 - augment.mean[c]) / augment.std[c];
        store8(out + (((size_t)b * h + top) * w + pixel) * RC_CUDA_CHANNELS, value);
    }
}

/* What zoom and colour draw for an image. */
struct strong_draws {
    unsigned cut, top, left;   /* in 2^-32 of a side */
    float own, shared, offset; /* byte' = own * byte + shared * grey + offset, clipped */
};

__device__ static float colour_factor(const rc_augment &augment, unsigned bits)
{
    return 1 + augment.colour * (2 * ((float)(bits >> 8) * 0x1p-24f) - 1);
}

__device__ static strong_draws draw_strong(const rc_augment &augment, const rc_step *step, unsigned long long b)
{
    unsigned long long stream = (unsigned long long)step->task << 32 | augment.stream | RC_STREAM_STRONG;
    unsigned long long block = ((unsigned long long)step->step << 30) + 2 * b;
    philox place = philox_block(step->seed, stream, block), colour = philox_block(step->seed, stream, block + 1);
    float brightness = colour_factor(augment, colour.lane[0]), contrast = colour_factor(augment, colour.lane[1]);
    float saturation = augment.c == 3 ? colour_factor(augment, colour.lane[2]) : 1;
    strong_draws draws;
    draws.cut = below_bits(place.lane[0], augment.zoom + 1);
    draws.top = below_bits(place.lane[1], draws.cut + 1);
    draws.left = below_bits(place.lane[2], draws.cut + 1);
    draws.own = contrast * brightness * saturation;
    draws.shared = contrast * brightness * (1 - saturation);
    draws.offset = 127.5f * (1 - contrast);
    return draws;
}

/* Pixel i of a zoomed side of `length` pixels lies between two of the crop: returns the first one and sets the weight
 * of the second. */
__device__ static int place_pixel(unsigned cut, unsigned start, int i, int length, float *weight)
{
    const long long one = 1ll << 32;
    long long position = (long long)length * start + i * (one - cut) - cut / 2, end = (length - 1) * one;
    position = position < 0 ? 0 : position > end ? end : position;
    *weight = (float)(unsigned)position * 0x1p-32f;
    return (int)(position >> 32);
}

/* value += weight * the pixel, coloured and normalised */
__device__ static void add_pixel(const rc_augment &augment, const strong_draws &draws, const unsigned char *from,
                                 float weight, float8 *value)
{
    float grey = augment.c == 3 ? 0.299f * from[0] + 0.587f * from[1] + 0.114f * from[2] : 0;
#pragma unroll
    for (int c = 0; c < 4; c++)
        if (c < augment.c) {
            float byte = fminf(fmaxf(draws.own * from[c] + (draws.shared * grey + draws.offset), 0), 255);
            value->v[c] += weight * ((byte / 255 - augment.mean[c]) / augment.std[c]);
        }
}

/* The same with colours before the normalisation, and zoom between crop and flip. Rows of the result lie closer
 * together than those of the crop, so `rows` of them lie between rows + 1 of those at most. */
template <typename Act>
__global__ static void strong_kernel(rc_augment augment, image_place place, const int *order, int rows,
                                     const rc_step *step, Act *out)
{
    __shared__ __align__(16) unsigned char band[BAND_BYTES + LINE];
    int h = augment.h, w = augment.w, pitch = w * augment.c;
    image_band mine = band_of(h, rows);
    int b = mine.b, n = mine.n, top = mine.top, height = mine.height;
    const unsigned char *image = image_at(place, order, step, n, b, (size_t)h * pitch);
    crop window = draw_crop(augment, step, place_of(step, n, b));
    strong_draws draws = draw_strong(augment, step, place_of(step, n, b));
    float weight;
    int begin = place_pixel(draws.cut, draws.top, top, h, &weight) + window.down;
    int end = place_pixel(draws.cut, draws.top, top + height - 1, h, &weight) + window.down + 2;
    begin = begin > 0 ? begin : 0;
    end = end < h ? end : h;
    int skew = begin < end ? fetch_band(image + (size_t)begin * pitch, (end - begin) * pitch, band) : 0;
    __syncthreads();
    for (int pixel = (int)threadIdx.x; pixel < height * w; pixel += DATA_THREADS) {
        int x = pixel % w;
        float below, right;
        int row = place_pixel(draws.cut, draws.top, top + pixel / w, h, &below) + window.down;
        int column = place_pixel(draws.cut, draws.left, window.flip ? w - 1 - x : x, w, &right) + window.across;
        float8 value = zero8();
        for (int tap = 0; tap < 4; tap++) {
            int y = row + tap / 2, z = column + tap % 2;
            float share = (tap / 2 ? below : 1 - below) * (tap % 2 ? right : 1 - right);
            if (share > 0 && y >= begin && y < end && z >= 0 && z < w)
                add_pixel(augment, draws, band + skew + (y - begin) * pitch + z * augment.c, share, &value);
        }
        store8(out + (((size_t)b * h + top) * w + pixel) * RC_CUDA_CHANNELS, value);
    }
}

template <typename Act>
static void augment(rc_backend *be, const rc_augment *augment, const uint8_t *images, const int32_t *order, int n,
                    const rc_step *step, rc_tensor *out)
{
    rc_cuda *cuda = rc_cuda_of(be);
    image_place place;
    if (!find_place(cuda, images, order, n, step, &place))
        return;
    bool strong = augment->zoom > 0 || augment->colour > 0;
    int most = BAND_BYTES / (augment->w * augment->c) - strong, rows = most < augment->h ? most : augment->h;
    dim3 grid((unsigned)((augment->h + rows - 1) / rows) * (unsigned)n);
    rc_cuda_launch(cuda, "augment", strong ? strong_kernel<Act> : augment_kernel<Act>, grid, DATA_THREADS, 0, *augment,
                   place, order, rows, step, (Act *)out->raw);
}

/* ---- bytes ------------------------------------------------------------------------------------------------------ */

/* One block for an image. Channels have tables of their own. */
__global__ static void vary_kernel(rc_vary vary, image_place place, const int *order, const rc_step *step,
                                   const int *labels, unsigned char *out, int *turned)
{
    __shared__ int count[4][256];
    __shared__ unsigned char table[4][256];
    int b = (int)blockIdx.x, n = (int)gridDim.x, h = vary.h, w = vary.w, c = vary.c;
    size_t bytes = (size_t)h * w * c;
    const unsigned char *image = image_at(place, order, step, n, b, bytes);
    unsigned draw[4];
    for (int i = 0; i < 4; i++)
        draw[i] = draw_bits(step, vary.stream, 4 * place_of(step, n, b) + i);
    rc_look look = rc_vary_look(h, w, vary.trivial, vary.turns, draw);
    for (int i = (int)threadIdx.x; i < 4 * 256; i += DATA_THREADS)
        count[i / 256][i % 256] = 0;
    __syncthreads();
    if (rc_vary_counts(&look))
        for (int i = (int)threadIdx.x; i < h * w * c; i += DATA_THREADS)
            atomicAdd(&count[i % c][look.kind == RC_VARY_CONTRAST ? rc_vary_grey(image + i / c * c, c) : image[i]], 1);
    __syncthreads();
    for (int i = (int)threadIdx.x; i < c * 256; i += DATA_THREADS)
        table[i / 256][i % 256] = rc_vary_byte(&look, count[i / 256], i % 256);
    __syncthreads();
    for (int i = (int)threadIdx.x; i < h * w * c; i += DATA_THREADS)
        out[b * bytes + i] = rc_vary_pixel(&look, image, h, w, c, table[i % c], i / c / w, i / c % w, i % c);
    if (turned && threadIdx.x == 0)
        turned[b] = rc_vary_label(&look, vary.n_old, vary.classes, labels[order[first_of(step, n) + b]]);
}

static void vary(rc_backend *be, const rc_vary *vary, const uint8_t *images, const int32_t *order, int n,
                 const rc_step *step, const int32_t *labels, uint8_t *out, int32_t *turned)
{
    rc_cuda *cuda = rc_cuda_of(be);
    image_place place;
    if (!find_place(cuda, images, order, n, step, &place))
        return;
    rc_cuda_launch(cuda, "vary", vary_kernel, dim3((unsigned)n), DATA_THREADS, 0, *vary, place, order, step, labels,
                   out, turned);
}

/* ---- squares of zeros, and two images in one -------------------------------------------------------------------- */

/* Pixels [top, bottom) x [left, right). */
struct box {
    int top, bottom, left, right;
    __device__ bool has(int y, int x) const
    {
        return y >= top && y < bottom && x >= left && x < right;
    }
};

/* height by width pixels around a centre, as far as they lie in an image of h by w. */
__device__ static box box_around(int row, int column, int height, int width, int h, int w)
{
    int top = row - height / 2, left = column - width / 2;
    box area = {top > 0 ? top : 0, top + height < h ? top + height : h, left > 0 ? left : 0,
                left + width < w ? left + width : w};
    return area;
}

/* Beta(a, a) out of two uniforms and a sign (backend.h). */
__device__ static double symmetric_beta(double a, unsigned first, unsigned second)
{
    double u = ((double)first + 0.5) * 0x1p-32;
    double cosine = cos(6.283185307179586476925286766559 * ((double)second + 0.5) * 0x1p-32);
    double spread = (pow(u, -1 / a) - 1) * cosine * cosine;
    return 0.5 + (second & 1 ? 0.5 : -0.5) / sqrt(1 + 1 / spread);
}

/* How a pair is mixed: outside the box each pixel keeps `share` of itself, inside it takes the other's. */
struct blend {
    double share, label_share;
    box swapped;
};

__device__ static blend draw_blend(const rc_mix &mix, const rc_step *step, unsigned long long b, int h, int w)
{
    bool boxed = mix.cutmix > 0 && (mix.mixup <= 0 || draw_bits(step, mix.stream, 8 * b + 2) >> 31);
    blend pair = {1, 1, {0, 0, 0, 0}};
    double lambda = symmetric_beta((double)(boxed ? mix.cutmix : mix.mixup), draw_bits(step, mix.stream, 8 * b + 3),
                                   draw_bits(step, mix.stream, 8 * b + 4));
    if (boxed) {
        double side = sqrt(1 - lambda);
        pair.swapped = box_around(draw_below(step, mix.stream, 8 * b + 5, (unsigned)h),
                                  draw_below(step, mix.stream, 8 * b + 6, (unsigned)w), (int)(h * side),
                                  (int)(w * side), h, w);
        pair.label_share = 1 - (double)(pair.swapped.bottom - pair.swapped.top) *
                                   (pair.swapped.right - pair.swapped.left) / ((double)h * w);
    } else {
        pair.share = pair.label_share = lambda;
    }
    return pair;
}

__device__ static box draw_hole(const rc_mix &mix, const rc_step *step, unsigned long long b, int h, int w)
{
    return box_around(draw_below(step, mix.stream, 8 * b, (unsigned)h),
                      draw_below(step, mix.stream, 8 * b + 1, (unsigned)w), mix.cutout, mix.cutout, h, w);
}

/* One block for a pair of images, which have one group of channels; partner NULL: nothing is mixed. */
template <typename Act>
__global__ static void mix_kernel(rc_mix mix, const int *labels, const rc_step *step, int n, int h, int w, Act *images,
                                  int *partner, float *share)
{
    int first = 2 * (int)blockIdx.x, other = first + 1 < n ? first + 1 : first;
    unsigned long long b = place_of(step, n, first);
    bool mixes = partner && other != first;
    blend pair = {1, 1, {0, 0, 0, 0}};
    if (mixes)
        pair = draw_blend(mix, step, b, h, w);
    if (partner && threadIdx.x == 0) {
        partner[first] = labels[other];
        partner[other] = labels[first];
        share[first] = share[other] = (float)pair.label_share;
    }
    box hole = draw_hole(mix, step, b, h, w), other_hole = draw_hole(mix, step, b + (other - first), h, w);
    for (int pixel = (int)threadIdx.x; pixel < h * w; pixel += DATA_THREADS) {
        int y = pixel / w, x = pixel % w;
        Act *mine = images + ((size_t)first * h * w + pixel) * RC_CUDA_CHANNELS;
        Act *its = images + ((size_t)other * h * w + pixel) * RC_CUDA_CHANNELS;
        float8 one = hole.has(y, x) ? zero8() : load8(mine), two = other_hole.has(y, x) ? zero8() : load8(its);
        float own = pair.swapped.has(y, x) ? 0.0f : (float)pair.share;
        float8 mixed = one;
#pragma unroll
        for (int c = 0; c < RC_CUDA_CHANNELS && mixes; c++) {
            mixed.v[c] = own * one.v[c] + (1 - own) * two.v[c];
            two.v[c] = own * two.v[c] + (1 - own) * one.v[c];
        }
        store8(mine, mixed);
        if (other != first)
            store8(its, two);
    }
}

template <typename Act>
static void mix(rc_backend *be, const rc_mix *mix, const int32_t *labels, const rc_step *step, rc_tensor *images,
                int32_t *partner, void *share)
{
    rc_cuda_launch(rc_cuda_of(be), "mix", mix_kernel<Act>, dim3((unsigned)(images->n + 1) / 2), DATA_THREADS, 0, *mix,
                   labels, step, images->n, images->h, images->w, (Act *)images->raw, partner, (float *)share);
}

/* ---- random numbers and labels ---------------------------------------------------------------------------------- */

/* Box-Muller on the lanes (0, 1) and (2, 3) of a block: r = sqrt(-2 ln u1), r cos(2 pi u2) and r sin(2 pi u2). */
__device__ static void normals_of_block(philox block, float out[4])
{
    for (int lane = 0; lane < 4; lane += 2) {
        double u1 = ((double)(block.lane[lane] >> 8) + 0.5) * 0x1p-24;
        double u2 = (double)(block.lane[lane + 1] >> 8) * 0x1p-24;
        double radius = sqrt(-2.0 * log(u1)), sine, cosine;
        sincos(6.283185307179586476925286766559 * u2, &sine, &cosine);
        out[lane] = (float)(radius * cosine);
        out[lane + 1] = (float)(radius * sine);
    }
}

/* One thread per four elements of (n, h, w, c), unpadded; pads were cleared before. */
template <typename Act>
__global__ static void normal_kernel(unsigned stream, const rc_step *step, size_t count, int c, int cp, Act *out)
{
    size_t first = 4 * ((size_t)blockIdx.x * blockDim.x + threadIdx.x);
    if (first >= count)
        return;
    float value[4];
    unsigned long long index = ((unsigned long long)step->step << 32) + step->part * (unsigned long long)count + first;
    for (int i = 0; i < 4 && first + i < count; i++, index++) {
        if (i == 0 || index % 4 == 0) /* a part of a batch may begin in the midst of a block */
            normals_of_block(philox_block(step->seed, (unsigned long long)step->task << 32 | stream, index / 4), value);
        store(out + (first + i) / c * cp + (first + i) % c, value[index % 4]);
    }
}

template <typename Act> static void random_normal(rc_backend *be, uint32_t stream, const rc_step *step, rc_tensor *out)
{
    int cp = rc_cuda_padded(out->c);
    size_t pixels = (size_t)out->n * out->h * out->w, count = pixels * out->c;
    if (cp != out->c)
        be->zero(be, out->raw, pixels * cp * sizeof(Act));
    rc_cuda_launch(rc_cuda_of(be), "random_normal", normal_kernel<Act>, blocks_for((count + 3) / 4), DATA_THREADS, 0,
                   stream, step, count, out->c, cp, (Act *)out->raw);
}

__global__ static void gather_kernel(const int *labels, const int *order, int n, const rc_step *step, int *out)
{
    int b = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (b < n)
        out[b] = labels[order[first_of(step, n) + b]];
}

static void gather_labels(rc_backend *be, const int32_t *labels, const int32_t *order, int n, const rc_step *step,
                          int32_t *out)
{
    rc_cuda_launch(rc_cuda_of(be), "gather_labels", gather_kernel, blocks_for((size_t)n), DATA_THREADS, 0, labels,
                   order, n, step, out);
}

/* ---- moving images ---------------------------------------------------------------------------------------------- */

/* One thread per pixel of the result and group of channels. */
template <typename Act>
__global__ static void roll_kernel(unsigned stream, int range, bool back, const rc_step *step, int n, int h, int w,
                                   int groups, const Act *x, Act *y)
{
    size_t index = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    size_t group = index % groups, pixel = index / groups;
    int column = (int)(pixel % w), row = (int)(pixel / w % h), image = (int)(pixel / w / h);
    if (image >= n)
        return;
    int rows = draw_below(step, stream, 0, 2 * (unsigned)range + 1) - range;
    int columns = draw_below(step, stream, 1, 2 * (unsigned)range + 1) - range;
    int from_row = ((row + (back ? rows : -rows)) % h + h) % h;
    int from_column = ((column + (back ? columns : -columns)) % w + w) % w;
    size_t from = ((size_t)image * h + from_row) * w + from_column;
    store8(y + (pixel * groups + group) * RC_CUDA_CHANNELS, load8(x + (from * groups + group) * RC_CUDA_CHANNELS));
}

template <typename Act>
static void roll(rc_backend *be, uint32_t stream, int range, bool back, const rc_step *step, const rc_tensor *x,
                 void *y)
{
    int groups = rc_cuda_padded(x->c) / RC_CUDA_CHANNELS;
    rc_cuda_launch(rc_cuda_of(be), "roll", roll_kernel<Act>, blocks_for((size_t)x->n * x->h * x->w * groups),
                   DATA_THREADS, 0, stream, range, back, step, x->n, x->h, x->w, groups, (const Act *)x->raw, (Act *)y);
}

void rc_cuda_fill_data(rc_cuda *cuda)
{
    rc_backend *table = &cuda->table;
    table->augment = cuda->bf16 ? augment<__nv_bfloat16> : augment<float>;
    table->vary = vary;
    table->mix = cuda->bf16 ? mix<__nv_bfloat16> : mix<float>;
    table->random_normal = cuda->bf16 ? random_normal<__nv_bfloat16> : random_normal<float>;
    table->gather_labels = gather_labels;
    table->roll = cuda->bf16 ? roll<__nv_bfloat16> : roll<float>;
}
