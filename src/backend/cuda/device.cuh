/* What every kernel of the CUDA backend shares: eight channels at a time, the lazy tensor and the lazy gradient as
 * arguments of a kernel, groups of images, and the layout of `partial`.
 *
 * A kernel is a template on Act, the type of activations: float (--precision fp32) or __nv_bfloat16 (bf16). Reals are
 * always float. The channel multiple is 8, so that the channels of a pixel are whole vectors of 16 bytes in bf16 and
 * of 32 in fp32; whatever loops over a map does so in steps of eight channels and computes in float.
 *
 * Views are passed to kernels by value: a captured step keeps them, and nothing on the host is read later. */
#ifndef RC_BACKEND_CUDA_DEVICE_CUH
#define RC_BACKEND_CUDA_DEVICE_CUH

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "backend/cuda/cuda.h"

/* ---- kernels that begin early (programmatic dependent launch, sm_90) ------------------------------------------ */

/* A kernel launched with rc_cuda_launch_early() may begin while the one before it still runs: what it reads before this
 * wait must have been complete when that one let it start. After the wait everything before is complete, if every
 * kernel that lets the next one start has waited itself. */
__device__ inline void wait_for_kernel_before()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* Lets the next kernel begin, if it was launched early, as soon as every block has come here. */
__device__ inline void start_kernel_after()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/* For kernels that do nothing before: the next one's launch overlaps this one's work. */
__device__ inline void begin_after_kernel_before()
{
    wait_for_kernel_before();
    start_kernel_after();
}

/* ---- division --------------------------------------------------------------------------------------------------- */

/* Division of small numbers (product with the divisor under 2^32) is the upper half of a product with this, which the
 * host has computed: a division on the device is twenty instructions in a row. 0 divides by 1. */
static inline unsigned reciprocal(int by)
{
    return by > 0 ? (unsigned)(0xffffffffu / (unsigned)by + 1) : 0;
}

__device__ inline int quotient(int x, unsigned reciprocal)
{
    return reciprocal ? (int)__umulhi((unsigned)x, reciprocal) : x;
}

/* ---- eight channels --------------------------------------------------------------------------------------------- */

template <int V> struct floats {
    float v[V];
};
typedef floats<8> float8;

__device__ inline float8 zero8()
{
    float8 z = {{0, 0, 0, 0, 0, 0, 0, 0}};
    return z;
}

__device__ inline float8 load8(const float *from)
{
    float4 low = ((const float4 *)from)[0], high = ((const float4 *)from)[1];
    float8 out = {{low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}};
    return out;
}

/* A bf16 is the upper half of a float; the lower address is the lower half of a word. */
__device__ inline float8 load8(const __nv_bfloat16 *from)
{
    uint4 bits = *(const uint4 *)from;
    float8 out = {{__uint_as_float(bits.x << 16), __uint_as_float(bits.x & 0xffff0000u), __uint_as_float(bits.y << 16),
                   __uint_as_float(bits.y & 0xffff0000u), __uint_as_float(bits.z << 16),
                   __uint_as_float(bits.z & 0xffff0000u), __uint_as_float(bits.w << 16),
                   __uint_as_float(bits.w & 0xffff0000u)}};
    return out;
}

__device__ inline void store8(float *to, float8 x)
{
    ((float4 *)to)[0] = make_float4(x.v[0], x.v[1], x.v[2], x.v[3]);
    ((float4 *)to)[1] = make_float4(x.v[4], x.v[5], x.v[6], x.v[7]);
}

__device__ inline unsigned pack_bf16(float low, float high)
{
    __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return *(const unsigned *)&pair;
}

__device__ inline void store8(__nv_bfloat16 *to, float8 x)
{
    *(uint4 *)to = make_uint4(pack_bf16(x.v[0], x.v[1]), pack_bf16(x.v[2], x.v[3]), pack_bf16(x.v[4], x.v[5]),
                              pack_bf16(x.v[6], x.v[7]));
}

__device__ inline float to_float(float x)
{
    return x;
}

__device__ inline float to_float(__nv_bfloat16 x)
{
    return __bfloat162float(x);
}

__device__ inline void store(float *to, float x)
{
    *to = x;
}

__device__ inline void store(__nv_bfloat16 *to, float x)
{
    *to = __float2bfloat16_rn(x);
}

/* What a value is once it has been stored: sums are taken of that, so that they belong to what readers see. */
__device__ inline float rounded(const float *, float x)
{
    return x;
}

__device__ inline float rounded(const __nv_bfloat16 *, float x)
{
    return __bfloat162float(__float2bfloat16_rn(x));
}

/* Stores, and returns what has been stored. */
__device__ inline float8 store_rounded8(float *to, float8 x)
{
    store8(to, x);
    return x;
}

__device__ inline float8 store_rounded8(__nv_bfloat16 *to, float8 x)
{
    uint4 bits = make_uint4(pack_bf16(x.v[0], x.v[1]), pack_bf16(x.v[2], x.v[3]), pack_bf16(x.v[4], x.v[5]),
                            pack_bf16(x.v[6], x.v[7]));
    *(uint4 *)to = bits;
    return load8((const __nv_bfloat16 *)&bits);
}

/* ---- activations ------------------------------------------------------------------------------------------------ */

__device__ inline float activate(rc_act act, float z)
{
    switch (act) {
    case RC_ACT_NONE: return z;
    case RC_ACT_RELU: return z > 0 ? z : 0;
    case RC_ACT_LEAKY_RELU: return z > 0 ? z : 0.2f * z;
    case RC_ACT_TANH: return tanhf(z);
    case RC_ACT_SIGMOID: return 1 / (1 + expf(-z));
    case RC_ACT_RELU6: return z > 0 ? (z < 6 ? z : 6) : 0;
    case RC_ACT_SILU: return z / (1 + expf(-z));
    }
    return z;
}

/* act'(z), written as a function of v = act(z): v has the sign of z where the sign decides. Of SiLU, which takes the
 * same value twice, v is z. */
__device__ inline float act_slope(rc_act act, float v)
{
    switch (act) {
    case RC_ACT_NONE: return 1;
    case RC_ACT_RELU: return v > 0 ? 1 : 0;
    case RC_ACT_LEAKY_RELU: return v > 0 ? 1 : 0.2f;
    case RC_ACT_TANH: return 1 - v * v;
    case RC_ACT_SIGMOID: return v * (1 - v);
    case RC_ACT_RELU6: return v > 0 && v < 6 ? 1 : 0;
    case RC_ACT_SILU: {
        float s = 1 / (1 + expf(-v));
        return s * (1 + v * (1 - s));
    }
    }
    return 1;
}

/* act'(z), where no value is at hand. */
__device__ inline float slope_at(rc_act act, float z)
{
    return act_slope(act, act == RC_ACT_SILU ? z : activate(act, z));
}

/* ---- groups of images ------------------------------------------------------------------------------------------- */

struct group_view {
    int count;
    int end[RC_MAX_GROUPS]; /* group g is images [end[g-1], end[g]) */
};

static inline group_view view_groups(const rc_tensor *t)
{
    group_view groups = {t->groups, {0}};
    for (int g = 0; g < RC_MAX_GROUPS; g++)
        groups.end[g] = g < t->groups ? t->group_end[g] : t->n;
    return groups;
}

__device__ inline int group_of(const group_view &groups, int image)
{
    int group = 0;
#pragma unroll
    for (int g = 0; g < RC_MAX_GROUPS - 1; g++)
        group += g < groups.count - 1 && image >= groups.end[g];
    return group;
}

__host__ __device__ inline int group_begin(const group_view &groups, int group)
{
    return group ? groups.end[group - 1] : 0;
}

/* ---- the lazy tensor -------------------------------------------------------------------------------------------- */

template <typename Act> struct tensor_view {
    const Act *raw;             /* (n, h, w, cp) */
    const float *scale, *shift; /* (groups, cp); NULL: nothing to normalise */
    const Act *skip;            /* (n, skip_h, skip_w, skip_cp); NULL: none */
    const Act *stored;          /* (n, h, w, cp): the finished value, once it is filled; NULL: compute it */
    Act *fill;                  /* (n, h, w, cp): where the first reader stores it; NULL: nowhere */
    int n, h, w, c, cp;
    int skip_h, skip_w, skip_c, skip_cp, skip_stride, skip_offset;
    rc_act act;
    group_view groups;
};

/* A pixel by its number in (n, h, w), with the coordinates that a skip and a group need. */
struct place {
    int pixel, image, y, x;
};

template <typename Act> static tensor_view<Act> view_tensor(const rc_tensor *t)
{
    tensor_view<Act> view = {};
    view.raw = (const Act *)t->raw;
    view.scale = (const float *)t->scale;
    view.shift = (const float *)t->shift;
    view.skip = (const Act *)t->skip.value;
    view.stored = t->stored ? (const Act *)t->value : NULL;
    view.fill = t->stored ? NULL : (Act *)t->value;
    view.n = t->n;
    view.h = t->h;
    view.w = t->w;
    view.c = t->c;
    view.cp = rc_cuda_padded(t->c);
    view.skip_h = t->skip.h;
    view.skip_w = t->skip.w;
    view.skip_c = t->skip.c;
    view.skip_cp = rc_cuda_padded(t->skip.c);
    view.skip_stride = t->skip.stride;
    view.skip_offset = t->skip.channel_offset;
    view.act = t->act;
    view.groups = view_groups(t);
    return view;
}

template <typename Act> __device__ inline place place_of(const tensor_view<Act> &t, int pixel)
{
    int row = pixel / t.w;
    place at = {pixel, row / t.h, row % t.h, pixel % t.w};
    return at;
}

template <typename Act> __device__ inline place place_at(const tensor_view<Act> &t, int image, int y, int x)
{
    place at = {(image * t.h + y) * t.w + x, image, y, x};
    return at;
}

/* `step` pixels further on, without dividing. */
template <typename Act> __device__ inline place place_after(const tensor_view<Act> &t, place at, int step)
{
    at.pixel += step;
    for (at.x += step; at.x >= t.w; at.x -= t.w)
        if (++at.y == t.h) {
            at.y = 0;
            at.image++;
        }
    return at;
}

/* The first of the eight channels at a pixel, in any memory of the tensor's shape. */
template <typename Act> __device__ inline size_t offset8(const tensor_view<Act> &t, int pixel, int channel)
{
    return (size_t)pixel * (size_t)t.cp + (size_t)channel;
}

/* What the skip adds to channels [channel, channel + 8). An offset of whole vectors, the usual case, is one load. */
template <typename Act> __device__ inline float8 load_skip8(const tensor_view<Act> &t, place at, int channel)
{
    int from = channel - t.skip_offset;
    size_t pixel = ((size_t)at.image * t.skip_h + at.y * t.skip_stride) * t.skip_w + at.x * t.skip_stride;
    const Act *skip = t.skip + pixel * (size_t)t.skip_cp;
    if (t.skip_offset % 8 == 0)
        return from >= 0 && from < t.skip_c ? load8(skip + from) : zero8();
    float8 out;
#pragma unroll
    for (int i = 0; i < 8; i++)
        out.v[i] = from + i >= 0 && from + i < t.skip_c ? to_float(skip[from + i]) : 0;
    return out;
}

/* What normalises eight channels of a group; unused where nothing does. */
struct scale8 {
    float8 scale, shift;
};

template <typename Act> __device__ inline scale8 load_scale8(const tensor_view<Act> &t, int group, int channel)
{
    scale8 by = {zero8(), zero8()};
    if (t.scale) {
        by.scale = load8(t.scale + group * t.cp + channel);
        by.shift = load8(t.shift + group * t.cp + channel);
    }
    return by;
}

/* raw * scale + shift + skip, given raw. */
template <typename Act>
__device__ inline float8 before_act8(const tensor_view<Act> &t, float8 raw, const scale8 &by, place at, int channel)
{
    float8 z = raw;
    if (t.scale) {
#pragma unroll
        for (int i = 0; i < 8; i++)
            z.v[i] = z.v[i] * by.scale.v[i] + by.shift.v[i];
    }
    if (t.skip) {
        float8 skip = load_skip8(t, at, channel);
#pragma unroll
        for (int i = 0; i < 8; i++)
            z.v[i] += skip.v[i];
    }
    return z;
}

/* act of that. Pad channels come out as 0: scale, shift and skip are 0 there, and so must raw be; the sigmoid of that
 * is not. */
template <typename Act>
__device__ inline float8 finish8(const tensor_view<Act> &t, float8 raw, const scale8 &by, place at, int channel)
{
    float8 z = before_act8(t, raw, by, at, channel);
    if (t.act == RC_ACT_NONE)
        return z;
#pragma unroll
    for (int i = 0; i < 8; i++)
        z.v[i] = t.act == RC_ACT_SIGMOID && channel + i >= t.c ? 0 : activate(t.act, z.v[i]);
    return z;
}

/* The same for what the epilogue of an operation has in registers. `group` is that of at.image. */
template <typename Act>
__device__ inline float8 finish8(const tensor_view<Act> &t, float8 raw, place at, int group, int channel)
{
    return finish8(t, raw, load_scale8(t, group, channel), at, channel);
}

/* The value computed from raw, whether or not it has been stored. */
template <typename Act> __device__ inline float8 load_pending8(const tensor_view<Act> &t, place at, int channel)
{
    return finish8(t, load8(t.raw + offset8(t, at.pixel, channel)), at, group_of(t.groups, at.image), channel);
}

/* What act_slope takes, computed from raw. */
template <typename Act>
__device__ inline float8 finish_for_slope8(const tensor_view<Act> &t, float8 raw, const scale8 &by, place at,
                                           int channel)
{
    return t.act == RC_ACT_SILU ? before_act8(t, raw, by, at, channel) : finish8(t, raw, by, at, channel);
}

/* The value in two halves, for kernels that start several loads before they use the first. */
template <typename Act> __device__ inline float8 fetch_value8(const tensor_view<Act> &t, place at, int channel)
{
    return load8((t.stored ? t.stored : t.raw) + offset8(t, at.pixel, channel));
}

template <typename Act>
__device__ inline float8 finish_value8(const tensor_view<Act> &t, float8 fetched, place at, int channel)
{
    return t.stored ? fetched : finish8(t, fetched, at, group_of(t.groups, at.image), channel);
}

/* The value; does not fill. */
template <typename Act> __device__ inline float8 load_value8(const tensor_view<Act> &t, place at, int channel)
{
    return finish_value8(t, fetch_value8(t, at, channel), at, channel);
}

/* The value, stored where the tensor has memory for it. For the one thread that owns these eight channels. */
template <typename Act> __device__ inline float8 take_value8(const tensor_view<Act> &t, place at, int channel)
{
    float8 value = load_value8(t, at, channel);
    if (t.fill)
        store8(t.fill + offset8(t, at.pixel, channel), value);
    return value;
}

/* ---- the lazy gradient ------------------------------------------------------------------------------------------ */

template <typename Act> struct grad_view {
    tensor_view<Act> y;
    const Act *g;           /* (n, h, w, cp): dL/dvalue */
    const float *a, *b, *c; /* (groups, cp); a NULL: dL/draw = dz */
};

template <typename Act> static grad_view<Act> view_grad(const rc_grad *dy)
{
    grad_view<Act> view = {view_tensor<Act>(dy->y), (const Act *)dy->g, (const float *)dy->a, (const float *)dy->b,
                           (const float *)dy->c};
    return view;
}

__device__ inline bool slope_by_sign(rc_act act)
{
    return act == RC_ACT_RELU || act == RC_ACT_LEAKY_RELU;
}

/* g * act'(pre-activation) of tensor y. The slopes of tanh and sigmoid are differences of nearly equal numbers, so they
 * are taken from the value before it was rounded. */
template <typename Act> __device__ inline float8 dz8(const tensor_view<Act> &y, float8 g, place at, int channel)
{
    if (y.act == RC_ACT_NONE)
        return g;
    float8 value = slope_by_sign(y.act)
                       ? load_value8(y, at, channel)
                       : finish_for_slope8(y, load8(y.raw + offset8(y, at.pixel, channel)),
                                           load_scale8(y, group_of(y.groups, at.image), channel), at, channel);
#pragma unroll
    for (int i = 0; i < 8; i++)
        g.v[i] *= act_slope(y.act, value.v[i]);
    return g;
}

template <typename Act> __device__ inline float8 load_dz8(const grad_view<Act> &dy, place at, int channel)
{
    return dz8(dy.y, load8(dy.g + offset8(dy.y, at.pixel, channel)), at, channel);
}

/* dL/draw in two halves: what is loaded, and what is computed of it. */
struct draw8 {
    float8 g, raw, value; /* value: only where a stored one is used */
};

template <typename Act> __device__ inline draw8 fetch_draw8(const grad_view<Act> &dy, place at, int channel)
{
    size_t offset = offset8(dy.y, at.pixel, channel);
    bool by_value = dy.y.stored && slope_by_sign(dy.y.act);
    draw8 fetched = {load8(dy.g + offset), zero8(), zero8()};
    if (dy.a || (dy.y.act != RC_ACT_NONE && !by_value))
        fetched.raw = load8(dy.y.raw + offset);
    if (by_value)
        fetched.value = load8(dy.y.stored + offset);
    return fetched;
}

/* The coefficients of eight channels of a group. */
struct coefficients8 {
    float8 a, b, c;
    scale8 y; /* only where the slope is computed from raw */
};

template <typename Act>
__device__ inline coefficients8 load_coefficients8(const grad_view<Act> &dy, int group, int channel)
{
    coefficients8 by = {};
    int at = group * dy.y.cp + channel;
    if (dy.y.act != RC_ACT_NONE && !(dy.y.stored && slope_by_sign(dy.y.act)))
        by.y = load_scale8(dy.y, group, channel);
    if (dy.a) {
        by.a = load8(dy.a + at);
        by.b = load8(dy.b + at);
        by.c = load8(dy.c + at);
    }
    return by;
}

/* dL/draw = a * dz + b * raw + c; pad channels are 0. */
template <typename Act>
__device__ inline float8 finish_draw8(const grad_view<Act> &dy, const draw8 &fetched, const coefficients8 &by, place at,
                                      int channel)
{
    float8 dz = fetched.g;
    if (dy.y.act != RC_ACT_NONE) {
        bool by_value = dy.y.stored && slope_by_sign(dy.y.act);
        float8 value = by_value ? fetched.value : finish_for_slope8(dy.y, fetched.raw, by.y, at, channel);
#pragma unroll
        for (int i = 0; i < 8; i++)
            dz.v[i] *= act_slope(dy.y.act, value.v[i]);
    }
    if (!dy.a)
        return dz;
#pragma unroll
    for (int i = 0; i < 8; i++)
        dz.v[i] = by.a.v[i] * dz.v[i] + by.b.v[i] * fetched.raw.v[i] + by.c.v[i];
    return dz;
}

template <typename Act>
__device__ inline float8 finish_draw8(const grad_view<Act> &dy, const draw8 &fetched, place at, int channel)
{
    return finish_draw8(dy, fetched, load_coefficients8(dy, group_of(dy.y.groups, at.image), channel), at, channel);
}

template <typename Act> __device__ inline float8 load_draw8(const grad_view<Act> &dy, place at, int channel)
{
    return finish_draw8(dy, fetch_draw8(dy, at, channel), at, channel);
}

/* ---- partial: per-channel sums ----------------------------------------------------------------------------------
 * An operation that takes sums for a normalisation leaves
 *     header.rows, then (rows, groups, 2, cp) of the type of sums: float beside bf16, double beside fp32
 * where a row is what one block of it saw of each group: sums of (raw - center) and of its square, or of dz and of
 * dz * (raw - mean). Which pixels are in a row is up to the producer, as long as shape and card alone decide, and so
 * is the number of rows up to rc_cuda_partial_rows(); every row is written, with zeros for a group the block saw
 * nothing of. The reader adds rows in order, in double. */
struct partial_header {
    int rows;
    int unused[15]; /* rows start on a boundary of 64 bytes */
};

template <typename Act> struct sum_of; /* a variance is a difference of sums: fp32 has digits to lose there */
template <> struct sum_of<float> {
    typedef double type;
};
template <> struct sum_of<__nv_bfloat16> {
    typedef float type;
};

template <typename Sum = float>
__host__ __device__ inline const Sum *partial_row(const void *partial, int row, int groups, int group, int cp)
{
    const Sum *rows = (const Sum *)((const partial_header *)partial + 1);
    return rows + ((size_t)row * groups + group) * 2 * (size_t)cp;
}

template <typename Sum = float>
__host__ __device__ inline Sum *partial_row(void *partial, int row, int groups, int group, int cp)
{
    return const_cast<Sum *>(partial_row<Sum>((const void *)partial, row, groups, group, cp));
}

/* What a thread has summed for eight channels. */
template <typename Sum> struct channel_sums {
    Sum first[8], second[8];
};

/* Every thread of a block calls this: thread t holds lane t / width of vector t % width (threads past lanes * width
 * hold nothing). The lanes are added in a fixed order, and lane 0 writes the row from channel first_channel on. `space`
 * is shared memory of (16, blockDim.x): threads beside each other use banks beside each other. */
template <typename Sum>
__device__ inline void write_partial_row(Sum *row, int cp, int first_channel, int width, const channel_sums<Sum> &sums,
                                         Sum *space)
{
    int threads = (int)blockDim.x, lanes = threads / width, lane = (int)threadIdx.x / width;
    Sum *mine = space + threadIdx.x;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 8; i++) {
        mine[i * threads] = sums.first[i];
        mine[(8 + i) * threads] = sums.second[i];
    }
    for (int left = lanes; left > 1;) {
        int half = (left + 1) / 2;
        __syncthreads();
        if (lane + half < left) {
#pragma unroll
            for (int i = 0; i < 16; i++)
                mine[i * threads] += mine[i * threads + half * width];
        }
        left = half;
    }
    int channel = first_channel + (int)threadIdx.x * 8;
    if (lane == 0 && channel < cp) {
        for (int i = 0; i < 8; i++) {
            row[channel + i] = mine[i * threads];
            row[cp + channel + i] = mine[(8 + i) * threads];
        }
    }
}

#endif
