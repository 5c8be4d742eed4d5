/* Checks and times the tensor-core convolutions by themselves, without the rest of the backend.
 *
 *   cuda_conv check    every form of the three operations against plain loops in double on the host
 *   cuda_conv time     layers of ResNet-32 and the generator at 32 px: microseconds per operation in a captured chain
 *   cuda_conv large    the same of 64 px and of ResNet-18
 *
 * Build: nvcc -std=c++17 -O3 -arch=sm_90 -Isrc -Iinclude bench/cuda_conv.cu src/backend/cuda/{pack,conv_taps,
 * conv_plan,conv_forward,conv_data,conv_weight}.cu -o cuda_conv */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <vector>

#include "backend/cuda/conv_mma.h"
#include "backend/cuda/pack.h"
#include "backend/cuda/device.cuh"

/* ---- what the backend would lend ------------------------------------------------------------------------------- */

void rc_cuda_set_error(rc_cuda *cuda, cudaError_t error, const char *doing)
{
    fprintf(stderr, "%s: %s\n", doing, cudaGetErrorString(error));
    cuda->status = RC_INTERNAL;
}

rc_status rc_cuda_take(rc_cuda *, size_t bytes, void **memory)
{
    return cudaMalloc(memory, bytes) == cudaSuccess ? RC_OK : RC_OUT_OF_MEMORY;
}

void rc_cuda_give_back(rc_cuda *, void *memory)
{
    cudaFree(memory);
}

void *rc_cuda_workspace(rc_cuda *cuda, size_t bytes, const char *)
{
    if (bytes > cuda->workspace_bytes) {
        cudaFree(cuda->workspace[0]);
        cudaMalloc(&cuda->workspace[0], bytes);
        cuda->workspace_bytes = bytes;
    }
    return cuda->workspace[0];
}

void rc_cuda_bias_gradient(rc_cuda *, const rc_grad *, float *)
{
}

static void must(cudaError_t error, const char *doing)
{
    if (error != cudaSuccess) {
        fprintf(stderr, "%s: %s\n", doing, cudaGetErrorString(error));
        exit(1);
    }
}

/* ---- random data ----------------------------------------------------------------------------------------------- */

static unsigned state = 1;

static float draw()
{
    float sum = 0;
    for (int i = 0; i < 4; i++) {
        state = state * 1664525u + 1013904223u;
        sum += (float)(state >> 8) * (1.0f / (1 << 24)) - 0.5f;
    }
    return sum * 1.7f;
}

static float rounded_bf16(float x)
{
    return __bfloat162float(__float2bfloat16(x));
}

/* A map or vector on both sides. Maps are bf16 on the device, padded; here they are float, padded as well. */
struct array {
    std::vector<float> host;
    void *device = NULL;
    bool act = false;

    void put()
    {
        size_t bytes = host.size() * (act ? 2 : 4);
        if (!device)
            must(cudaMalloc(&device, bytes), "cudaMalloc");
        if (!act) {
            must(cudaMemcpy(device, host.data(), bytes, cudaMemcpyHostToDevice), "copy");
            return;
        }
        std::vector<__nv_bfloat16> packed(host.size());
        for (size_t i = 0; i < host.size(); i++)
            packed[i] = __float2bfloat16(host[i]);
        must(cudaMemcpy(device, packed.data(), bytes, cudaMemcpyHostToDevice), "copy");
    }

    void get()
    {
        if (!act) {
            must(cudaMemcpy(host.data(), device, host.size() * 4, cudaMemcpyDeviceToHost), "copy");
            return;
        }
        std::vector<__nv_bfloat16> packed(host.size());
        must(cudaMemcpy(packed.data(), device, host.size() * 2, cudaMemcpyDeviceToHost), "copy");
        for (size_t i = 0; i < host.size(); i++)
            host[i] = __bfloat162float(packed[i]);
    }

    void drop()
    {
        cudaFree(device);
        device = NULL;
    }
};

enum { PERIOD = 524287 };

static array draw_map(int n, int h, int w, int c)
{
    array a;
    int cp = rc_cuda_padded(c);
    a.act = true;
    a.host.resize((size_t)n * h * w * cp);
    /* Large maps repeat themselves after a prime number of elements. */
    for (size_t i = 0; i < a.host.size(); i++)
        a.host[i] = (int)(i % cp) >= c ? 0 : i >= PERIOD && c == cp ? a.host[i - PERIOD] : rounded_bf16(draw());
    a.put();
    return a;
}

static array draw_vector(int groups, int c, float middle, float spread)
{
    array a;
    int cp = rc_cuda_padded(c);
    for (int i = 0; i < groups * cp; i++)
        a.host.push_back(i % cp < c ? middle + spread * draw() : 0);
    a.put();
    return a;
}

static void poison(array &a)
{
    must(cudaMemset(a.device, 0xff, a.host.size() * (a.act ? 2 : 4)), "poison");
}

/* ---- one case -------------------------------------------------------------------------------------------------- */

struct conv_case {
    rc_conv conv;
    int n, groups;
    int bn, skip, act;    /* of x: pending normalisation; skip 0, 1, 2 = none, identity, strided with offset */
    int form;             /* of x: 0 lazy, 1 lazy with memory for the value, 2 stored */
    int sums, apply, bias; /* epilogue; apply brings normalisation, skip and ReLU */
    int add;

    conv_case(const rc_conv &conv, int n, int groups) : conv(conv), n(n), groups(groups)
    {
        bn = skip = act = form = sums = apply = bias = add = 0;
    }
};

static rc_conv geometry(int c_in, int c_out, int k, int stride, int pad, int up, int h, int w, bool transposed)
{
    rc_conv v = {c_in, c_out, k, stride, pad, up, transposed, h, w, 0, 0};
    v.oh = transposed ? (h - 1) * stride - 2 * pad + k : (h * up + 2 * pad - k) / stride + 1;
    v.ow = transposed ? (w - 1) * stride - 2 * pad + k : (w * up + 2 * pad - k) / stride + 1;
    return v;
}

/* A lazy tensor with its memory. */
struct lazy {
    rc_tensor t = {};
    array raw, value, skip, scale, shift, mean;
    std::vector<float> finished; /* act(raw * scale + shift + skip), as bf16 */

    void make(int n, int h, int w, int c, int groups, int bn, int skip_kind, rc_act act, bool finish = true)
    {
        int cp = rc_cuda_padded(c);
        t.n = n;
        t.h = h;
        t.w = w;
        t.c = c;
        t.groups = groups;
        for (int g = 0; g < groups; g++)
            t.group_end[g] = g == groups - 1 ? n : (g + 1) * n / (groups + 1) + 1;
        raw = draw_map(n, h, w, c);
        t.raw = raw.device;
        t.act = act;
        if (bn) {
            scale = draw_vector(groups, c, 1, 0.3f);
            shift = draw_vector(groups, c, 0.1f, 0.3f);
            mean = draw_vector(groups, c, 0, 0.3f);
            t.scale = scale.device;
            t.shift = shift.device;
            t.mean = mean.device;
        }
        if (skip_kind) {
            int stride = skip_kind, skip_c = skip_kind == 2 && c >= 16 ? c / 2 : c;
            int offset = skip_c < c && c >= 32 ? 8 : 0;
            skip = draw_map(n, h * stride, w * stride, skip_c);
            t.skip = {skip.device, h * stride, w * stride, skip_c, stride, offset};
        }
        finished.resize(finish ? raw.host.size() : 0);
        for (size_t i = 0; i < finished.size(); i++) {
            int channel = (int)(i % cp), pixel = (int)(i / cp), x = pixel % w, y = pixel / w % h, image = pixel / w / h;
            int group = 0;
            while (image >= t.group_end[group])
                group++;
            float z = raw.host[i];
            if (bn)
                z = z * scale.host[group * cp + channel] + shift.host[group * cp + channel];
            int from = channel - t.skip.channel_offset;
            if (skip_kind && from >= 0 && from < t.skip.c)
                z += skip.host[(size_t)(((image * t.skip.h + y * t.skip.stride) * t.skip.w + x * t.skip.stride)) *
                                   rc_cuda_padded(t.skip.c) + from];
            if (channel >= c)
                z = 0;
            z = act == RC_ACT_RELU ? fmaxf(z, 0) : act == RC_ACT_LEAKY_RELU ? (z > 0 ? z : 0.2f * z)
                : act == RC_ACT_TANH ? tanhf(z) : z;
            finished[i] = rounded_bf16(z);
        }
    }

    void drop()
    {
        raw.drop(), value.drop(), skip.drop(), scale.drop(), shift.drop(), mean.drop();
    }
};

static int group_of(const rc_tensor &t, int image)
{
    int group = 0;
    while (image >= t.group_end[group])
        group++;
    return group;
}

static int source_of(const rc_conv *conv, int size, int out, int tap)
{
    int in = conv->transposed ? out + conv->pad - tap : out * conv->stride - conv->pad + tap;
    if (in < 0)
        return -1;
    if (conv->transposed) {
        if (in % conv->stride != 0)
            return -1;
        in /= conv->stride;
    }
    return in < size * conv->up ? in / conv->up : -1;
}

static size_t weight_at(const rc_conv *v, int o, int i, int y, int x)
{
    size_t pair = v->transposed ? (size_t)i * v->c_out + o : (size_t)o * v->c_in + i;
    return (pair * v->k + y) * v->k + x;
}

/* Calls what(output pixel, input pixel, tap_y, tap_x) for every pair that meets. */
template <typename What> static void for_pairs(const rc_conv *v, int n, What what)
{
    for (int image = 0; image < n; image++)
        for (int oy = 0; oy < v->oh; oy++)
            for (int ox = 0; ox < v->ow; ox++)
                for (int ky = 0; ky < v->k; ky++)
                    for (int kx = 0; kx < v->k; kx++) {
                        int y = source_of(v, v->h, oy, ky), x = source_of(v, v->w, ox, kx);
                        if (y >= 0 && x >= 0)
                            what((image * v->oh + oy) * v->ow + ox, (image * v->h + y) * v->w + x, ky, kx);
                    }
}

static double error_of(const std::vector<float> &got, const std::vector<double> &want)
{
    double difference = 0, norm = 0;
    for (size_t i = 0; i < want.size(); i++) {
        if (!(fabs((double)got[i]) < 1e30))
            return NAN;
        difference += ((double)got[i] - want[i]) * ((double)got[i] - want[i]);
        norm += want[i] * want[i];
    }
    return sqrt(difference) / (sqrt(norm) + 1e-30);
}

static int failures, checks;

static void judge(const char *what, const conv_case &c, double error, double most)
{
    checks++;
    bool good = error <= most;
    const rc_conv &v = c.conv;
    if (!good) {
        failures++;
        printf("FAILED %-10s %.2e > %.0e: %d->%d k%d s%d p%d up%d%s %dx%d n%d g%d bn%d skip%d act%d form%d sums%d "
               "apply%d bias%d add%d\n", what, error, most, v.c_in, v.c_out, v.k, v.stride, v.pad, v.up,
               v.transposed ? " transposed" : "", v.h, v.w, c.n, c.groups, c.bn, c.skip, c.act, c.form, c.sums, c.apply,
               c.bias, c.add);
    }
}

/* Sums of `partial` per group and channel. */
static std::vector<float> read_partial(void *partial, int groups, int cp)
{
    partial_header header;
    must(cudaMemcpy(&header, partial, sizeof header, cudaMemcpyDeviceToHost), "copy");
    std::vector<float> rows((size_t)header.rows * groups * 2 * cp), sums((size_t)groups * 2 * cp);
    must(cudaMemcpy(rows.data(), (partial_header *)partial + 1, rows.size() * 4, cudaMemcpyDeviceToHost), "copy");
    std::vector<double> total(sums.size());
    for (size_t i = 0; i < rows.size(); i++)
        total[i % total.size()] += rows[i];
    for (size_t i = 0; i < sums.size(); i++)
        sums[i] = (float)total[i];
    return sums;
}

static size_t partial_room(int groups, int cp)
{
    return sizeof(partial_header) + (size_t)RC_CUDA_MAX_ROWS * groups * 2 * cp * 4;
}

static array draw_weight(const rc_conv &v)
{
    array w;
    float spread = 1 / sqrtf((float)v.c_in * v.k * v.k);
    for (int i = 0; i < v.c_in * v.c_out * v.k * v.k; i++)
        w.host.push_back(draw() * spread);
    w.put();
    return w;
}

static const rc_act act_of[] = {RC_ACT_NONE, RC_ACT_RELU, RC_ACT_LEAKY_RELU, RC_ACT_TANH};

static void check_forward(rc_cuda *cuda, const conv_case &c)
{
    const rc_conv &v = c.conv;
    int cp = rc_cuda_padded(v.c_out), ci = rc_cuda_padded(v.c_in);
    lazy x, y;
    x.make(c.n, v.h, v.w, v.c_in, c.groups, c.bn, c.skip, act_of[c.act]);
    y.make(c.n, v.oh, v.ow, v.c_out, c.groups, c.apply, c.apply && v.oh > 1 ? 1 + c.skip % 2 : 0,
           c.apply ? RC_ACT_RELU : RC_ACT_NONE);
    x.value = x.raw;
    x.value.device = NULL;
    if (c.form > 0) {
        if (c.form == 2)
            x.value.host = x.finished;
        x.value.put();
        x.t.value = x.value.device;
        x.t.stored = c.form == 2;
        if (c.form == 1)
            poison(x.value);
    }
    array weight = draw_weight(v), bias = draw_vector(1, v.c_out, 0, 0.5f), center = draw_vector(1, v.c_out, 0, 0.5f);
    std::vector<double> want((size_t)c.n * v.oh * v.ow * cp);
    for_pairs(&v, c.n, [&](int out, int in, int ky, int kx) {
        for (int o = 0; o < v.c_out; o++)
            for (int i = 0; i < v.c_in; i++)
                want[(size_t)out * cp + o] += (double)weight.host[weight_at(&v, o, i, ky, kx)] *
                                              x.finished[(size_t)in * ci + i];
    });
    std::vector<float> skip_part = y.finished;
    for (size_t i = 0; i < want.size(); i++) {
        int channel = (int)(i % cp), image = (int)(i / cp / v.oh / v.ow);
        if (channel >= v.c_out)
            continue;
        want[i] += c.bias ? bias.host[channel] : 0;
        if (c.apply) {
            int pixel = (int)(i / cp), column = pixel % v.ow, row = pixel / v.ow % v.oh;
            int at = group_of(y.t, image) * cp + channel, from = channel - y.t.skip.channel_offset;
            want[i] = want[i] * y.scale.host[at] + y.shift.host[at];
            if (y.t.skip.value && from >= 0 && from < y.t.skip.c)
                want[i] += y.skip.host[(size_t)((image * y.t.skip.h + row * y.t.skip.stride) * y.t.skip.w +
                                                column * y.t.skip.stride) * rc_cuda_padded(y.t.skip.c) + from];
            want[i] = want[i] > 0 ? want[i] : 0;
        }
    }
    void *partial = NULL;
    must(cudaMalloc(&partial, partial_room(c.groups, cp)), "cudaMalloc");
    must(cudaMemset(partial, 0xff, partial_room(c.groups, cp)), "poison");
    poison(y.raw);
    rc_epilogue epilogue = {c.sums ? partial : NULL, center.device, (bool)c.apply};
    rc_cuda_weights_written(cuda, weight.device, 4);
    bool taken = rc_cuda_mma_forward(cuda, &v, &x.t, (float *)weight.device, c.bias ? (float *)bias.device : NULL, &y.t,
                                     &epilogue);
    must(cudaStreamSynchronize(cuda->stream[0]), "forward");
    y.raw.get();
    judge(taken ? "forward" : "not taken", c, taken ? error_of(y.raw.host, want) : NAN, 5e-3);
    if (c.form == 1) {
        x.value.get();
        judge("fill", c, error_of(x.value.host, std::vector<double>(x.finished.begin(), x.finished.end())), 1e-3);
    }
    if (c.sums) {
        std::vector<double> sums((size_t)c.groups * 2 * cp);
        for (size_t i = 0; i < want.size(); i++) {
            int channel = (int)(i % cp), group = group_of(y.t, (int)(i / cp / v.oh / v.ow));
            if (channel >= v.c_out)
                continue;
            double s = (double)y.raw.host[i] - center.host[channel];
            sums[(size_t)(group * 2) * cp + channel] += s;
            sums[(size_t)(group * 2 + 1) * cp + channel] += s * s;
        }
        judge("sums", c, error_of(read_partial(partial, c.groups, cp), sums), 1e-5);
    }
    cudaFree(partial);
    rc_cuda_forget_packed(cuda, weight.device, 1);
    x.drop(), y.drop(), weight.drop(), bias.drop(), center.drop();
}

/* dL/draw of the result as bf16, and the gradient that says so. */
struct lazy_gradient {
    lazy y;
    array g, a, b, c, kept;
    rc_grad dy = {};
    std::vector<float> draw; /* (n, oh, ow, cp) */

    void make(const conv_case &k, rc_act act, bool finish = true)
    {
        const rc_conv &v = k.conv;
        int cp = rc_cuda_padded(v.c_out);
        bool stored = act != RC_ACT_NONE && act != RC_ACT_TANH && k.form == 2;
        y.make(k.n, v.oh, v.ow, v.c_out, k.groups, k.bn && act != RC_ACT_TANH, stored, act, finish);
        g = draw_map(k.n, v.oh, v.ow, v.c_out);
        if (stored) {
            kept = y.raw;
            kept.device = NULL;
            kept.host = y.finished;
            kept.put();
            y.t.value = kept.device;
            y.t.stored = true;
        }
        dy.y = &y.t;
        dy.g = g.device;
        if (k.bn) {
            a = draw_vector(k.groups, v.c_out, 1, 0.3f);
            b = draw_vector(k.groups, v.c_out, 0, 0.2f);
            c = draw_vector(k.groups, v.c_out, 0, 0.2f);
            dy.a = a.device, dy.b = b.device, dy.c = c.device;
        }
        for (size_t i = 0; finish && i < g.host.size(); i++) {
            int channel = (int)(i % cp), at = group_of(y.t, (int)(i / cp / v.oh / v.ow)) * cp + channel;
            float z = y.finished[i], dz = g.host[i];
            dz *= act == RC_ACT_RELU ? (z > 0) : act == RC_ACT_LEAKY_RELU ? (z > 0 ? 1 : 0.2f)
                  : act == RC_ACT_TANH ? 1 - tanhf(y.raw.host[i]) * tanhf(y.raw.host[i]) : 1;
            if (k.bn)
                dz = a.host[at] * dz + b.host[at] * y.raw.host[i] + c.host[at];
            draw.push_back(rounded_bf16(dz));
        }
    }

    void drop()
    {
        y.drop(), g.drop(), a.drop(), b.drop(), c.drop(), kept.drop();
    }
};

static void check_backward(rc_cuda *cuda, const conv_case &c)
{
    const rc_conv &v = c.conv;
    int cp = rc_cuda_padded(v.c_out), ci = rc_cuda_padded(v.c_in);
    lazy_gradient dy;
    lazy x;
    dy.make(c, act_of[c.act]);
    /* x carries its own normalisation and activation: ReLU from raw, or from the stored value. */
    bool x_stored = c.form == 2;
    x.make(c.n, v.h, v.w, v.c_in, c.groups, 1, x_stored, c.act == 2 ? RC_ACT_NONE : RC_ACT_RELU);
    x.value = x.raw;
    x.value.device = NULL;
    if (x_stored) {
        x.value.host = x.finished;
        x.value.put();
        x.t.value = x.value.device;
        x.t.stored = true;
    }
    array weight = draw_weight(v), dx = draw_map(c.n, v.h, v.w, v.c_in), dweight = weight;
    dweight.device = NULL;
    dweight.put();
    std::vector<double> want(dx.host.size()), want_weight(weight.host.size());
    for (size_t i = 0; c.add && i < want.size(); i++)
        want[i] = dx.host[i];
    for_pairs(&v, c.n, [&](int out, int in, int ky, int kx) {
        for (int o = 0; o < v.c_out; o++) {
            double d = dy.draw[(size_t)out * cp + o];
            for (int i = 0; i < v.c_in; i++) {
                size_t w = weight_at(&v, o, i, ky, kx);
                want[(size_t)in * ci + i] += d * weight.host[w];
                want_weight[w] += d * x.finished[(size_t)in * ci + i];
            }
        }
    });
    void *partial = NULL;
    must(cudaMalloc(&partial, partial_room(c.groups, ci)), "cudaMalloc");
    must(cudaMemset(partial, 0xff, partial_room(c.groups, ci)), "poison");
    if (!c.add)
        poison(dx);
    rc_back_epilogue epilogue = {&x.t, c.sums ? partial : NULL, (bool)c.add};
    rc_cuda_weights_written(cuda, weight.device, 4);
    bool taken = rc_cuda_mma_backward_data(cuda, &v, &dy.dy, (float *)weight.device, dx.device, &epilogue);
    must(cudaStreamSynchronize(cuda->stream[0]), "backward data");
    dx.get();
    judge(taken ? "data" : "not taken", c, taken ? error_of(dx.host, want) : NAN, 5e-3);
    if (c.sums && taken) {
        std::vector<double> sums((size_t)c.groups * 2 * ci);
        for (size_t i = 0; i < want.size(); i++) {
            int channel = (int)(i % ci), group = group_of(x.t, (int)(i / ci / v.h / v.w));
            if (channel >= v.c_in)
                continue;
            double dz = dx.host[i] * (x.t.act == RC_ACT_NONE || x.finished[i] > 0 ? 1.0 : 0.0);
            sums[(size_t)(group * 2) * ci + channel] += dz;
            double raw = (double)x.raw.host[i] - x.mean.host[group * ci + channel];
            sums[(size_t)(group * 2 + 1) * ci + channel] += dz * raw;
        }
        judge("back sums", c, error_of(read_partial(partial, c.groups, ci), sums), 2e-5);
    }
    poison(dweight);
    taken = rc_cuda_mma_backward_weight(cuda, &v, &x.t, &dy.dy, (float *)dweight.device, NULL);
    must(cudaStreamSynchronize(cuda->stream[0]), "backward weight");
    dweight.get();
    judge(taken ? "weight" : "not taken", c, taken ? error_of(dweight.host, want_weight) : NAN, 1e-3);
    std::vector<float> first = dweight.host;
    poison(dweight);
    rc_cuda_mma_backward_weight(cuda, &v, &x.t, &dy.dy, (float *)dweight.device, NULL);
    must(cudaStreamSynchronize(cuda->stream[0]), "backward weight");
    dweight.get();
    judge("same bits", c, memcmp(first.data(), dweight.host.data(), first.size() * 4) ? 1 : 0, 0);
    cudaFree(partial);
    rc_cuda_forget_packed(cuda, weight.device, 1);
    x.drop(), dy.drop(), weight.drop(), dx.drop(), dweight.drop();
}

static int check(rc_cuda *cuda)
{
    static const int shapes[][9] = {/* c_in, c_out, k, stride, pad, up, size, transposed, n (0: few) */
        {3, 16, 3, 1, 1, 1, 32, 0, 0},   {16, 16, 3, 1, 1, 1, 32, 0, 0},  {16, 16, 3, 1, 1, 1, 33, 0, 0},
        {16, 32, 3, 2, 1, 1, 32, 0, 0},  {32, 32, 3, 1, 1, 1, 16, 0, 0},  {32, 64, 3, 2, 1, 1, 16, 0, 0},
        {64, 64, 3, 1, 1, 1, 8, 0, 0},   {64, 64, 3, 1, 1, 1, 7, 0, 0},   {16, 32, 1, 2, 0, 1, 14, 0, 0},
        {64, 128, 1, 2, 0, 1, 13, 0, 0}, {64, 128, 3, 2, 1, 1, 14, 0, 0}, {128, 128, 3, 1, 1, 1, 9, 0, 0},
        {256, 256, 3, 1, 1, 1, 5, 0, 0}, {128, 128, 3, 1, 1, 2, 8, 0, 0}, {128, 64, 3, 1, 1, 2, 5, 0, 0},
        {64, 32, 3, 1, 1, 2, 7, 0, 0},   {64, 3, 3, 1, 1, 1, 32, 0, 0},   {16, 16, 3, 1, 1, 1, 65, 0, 0},
        {3, 64, 3, 1, 1, 1, 70, 0, 0},   {64, 64, 3, 1, 1, 1, 40, 0, 0},  {3, 16, 4, 2, 1, 1, 32, 0, 0},
        {32, 16, 4, 2, 1, 1, 8, 1, 0},   {16, 3, 4, 2, 1, 1, 16, 1, 0},   {3, 64, 7, 2, 3, 1, 33, 0, 0},
        {10, 13, 3, 1, 1, 1, 20, 0, 0},  {96, 32, 3, 1, 1, 1, 6, 0, 0},   {16, 16, 3, 2, 1, 1, 15, 0, 0},
        {32, 32, 1, 1, 0, 1, 11, 0, 0},  {16, 16, 2, 1, 0, 1, 9, 0, 0},   {8, 8, 3, 1, 1, 1, 12, 0, 0},
        {8, 16, 1, 1, 0, 1, 40, 0, 400}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const int *s = shapes[i];
        for (int variant = 0; variant < 3; variant++) {
            rc_conv v = geometry(s[0], s[1], s[2], s[3], s[4], s[5], s[6], variant == 2 ? s[6] + 3 : s[6], s[7] != 0);
            bool heavy = (double)v.c_in * v.c_out * v.k * v.k * v.oh * v.ow > 1e7;
            conv_case c(v, s[8] ? s[8] : heavy || variant ? 3 : 5, 1 + (int)(i + variant) % 3);
            if (variant > 0 && s[8])
                continue;
            c.bn = variant != 1;
            c.skip = (int)(i + variant) % 3;
            c.act = (int)(i + 2 * variant) % 3;
            c.form = variant;
            c.sums = variant != 2;
            c.apply = variant == 2;
            c.bias = variant != 0;
            c.add = variant == 1;
            check_forward(cuda, c);
            if (s[1] == 3 && variant == 1)
                c.act = 3;
            check_backward(cuda, c);
        }
    }
    printf("%d checks, %d failed\n", checks, failures);
    return failures > 0;
}

/* ---- time ------------------------------------------------------------------------------------------------------ */

enum { CHAIN = 20, REPLAYS = 15 };

/* Microseconds of one operation in a captured chain of CHAIN, the median of the replays. */
template <typename Operation> static double time_chain(rc_cuda *cuda, Operation operation)
{
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    cudaEvent_t begin, end;
    operation(); /* packs, allocates */
    must(cudaStreamSynchronize(cuda->stream[0]), "warming up");
    must(cudaStreamBeginCapture(cuda->stream[0], cudaStreamCaptureModeRelaxed), "capture");
    for (int i = 0; i < CHAIN; i++)
        operation();
    must(cudaStreamEndCapture(cuda->stream[0], &graph), "capture");
    must(cudaGraphInstantiate(&executable, graph, 0), "instantiate");
    must(cudaEventCreate(&begin), "event");
    must(cudaEventCreate(&end), "event");
    double times[REPLAYS];
    for (int i = -3; i < REPLAYS; i++) {
        float ms;
        cudaEventRecord(begin, cuda->stream[0]);
        must(cudaGraphLaunch(executable, cuda->stream[0]), "launch");
        cudaEventRecord(end, cuda->stream[0]);
        must(cudaEventSynchronize(end), "replay");
        cudaEventElapsedTime(&ms, begin, end);
        if (i >= 0)
            times[i] = ms * 1000 / CHAIN;
    }
    for (int i = 1; i < REPLAYS; i++)
        for (int j = i; j > 0 && times[j] < times[j - 1]; j--) {
            double t = times[j];
            times[j] = times[j - 1];
            times[j - 1] = t;
        }
    cudaGraphExecDestroy(executable);
    cudaGraphDestroy(graph);
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
    return times[REPLAYS / 2];
}

/* Bytes through the L2 at 5.5 TB/s, or operations at 790 TFLOP/s. */
static double floor_of(double bytes, double operations)
{
    double move = bytes / 5.5e6, compute = operations / 790e6;
    return move > compute ? move : compute;
}

static void report(const char *what, const rc_conv &v, int n, double early, double plain, double bytes)
{
    double operations = 2.0 * n * v.c_in * v.c_out * v.k * v.k * v.oh * v.ow * (v.up == 2 ? 4.0 / 9 : 1);
    printf("%-22s %3d->%3d k%d s%d up%d %3dx%-3d n%-3d %7.2f %7.2f %7.2f %6.0f %6.1f\n", what, v.c_in, v.c_out, v.k,
           v.stride, v.up, v.h, v.w, n, early, plain, floor_of(bytes, operations), bytes / early / 1e3,
           operations / early / 1e6);
    fflush(stdout);
}

template <typename Operation>
static void time_both(rc_cuda *cuda, const char *what, const rc_conv &v, int n, double bytes, Operation operation)
{
    cuda->early = true;
    double early = time_chain(cuda, operation);
    cuda->early = false;
    double plain = time_chain(cuda, operation);
    cuda->early = true;
    report(what, v, n, early, plain, bytes);
}

static void time_layer(rc_cuda *cuda, const rc_conv &v, int n, int groups, bool first)
{
    int cp = rc_cuda_padded(v.c_out), ci = rc_cuda_padded(v.c_in);
    double in = 2.0 * n * v.h * v.w * ci, out = 2.0 * n * v.oh * v.ow * cp;
    lazy x, x_sum, y;
    lazy_gradient dy;
    conv_case c(v, n, groups);
    c.bn = 1;
    x.make(n, v.h, v.w, v.c_in, groups, !first, 0, first ? RC_ACT_NONE : RC_ACT_RELU, false);
    x_sum.make(n, v.h, v.w, v.c_in, groups, 1, 1, RC_ACT_NONE, false);
    x_sum.value = x_sum.raw;
    x_sum.value.device = NULL;
    x_sum.value.put();
    x_sum.t.value = x_sum.value.device;
    y.make(n, v.oh, v.ow, v.c_out, groups, 1, 1, RC_ACT_RELU, false);
    dy.make(c, RC_ACT_RELU, false);
    array weight = draw_weight(v), center = draw_vector(1, v.c_out, 0, 0.5f), dx = draw_map(n, v.h, v.w, v.c_in);
    array dweight = weight;
    dweight.device = NULL;
    dweight.put();
    void *partial = NULL;
    must(cudaMalloc(&partial, partial_room(groups, cp > ci ? cp : ci)), "cudaMalloc");
    float *w = (float *)weight.device;
    rc_epilogue train = {partial, center.device, false}, eval = {NULL, NULL, true};
    time_both(cuda, "forward", v, n, in + out, [&] { rc_cuda_mma_forward(cuda, &v, &x.t, w, NULL, &y.t, &train); });
    if (!first)
        time_both(cuda, "forward of a sum", v, n, 3 * in + out,
                  [&] { rc_cuda_mma_forward(cuda, &v, &x_sum.t, w, NULL, &y.t, &train); });
    rc_tensor stored = x_sum.t;
    stored.stored = true;
    time_both(cuda, "forward eval+skip", v, n, in + 2 * out,
              [&] { rc_cuda_mma_forward(cuda, &v, &stored, w, NULL, &y.t, &eval); });
    rc_back_epilogue plain = {&x.t, partial, false}, adding = {&x_sum.t, partial, true};
    if (!first) {
        time_both(cuda, "data gradient", v, n, 2 * out + 2 * in,
                  [&] { rc_cuda_mma_backward_data(cuda, &v, &dy.dy, w, dx.device, &plain); });
        time_both(cuda, "data gradient, adding", v, n, 2 * out + 3 * in,
                  [&] { rc_cuda_mma_backward_data(cuda, &v, &dy.dy, w, dx.device, &adding); });
    }
    time_both(cuda, "weight gradient (2)", v, n, 2 * out + in,
              [&] { rc_cuda_mma_backward_weight(cuda, &v, &x.t, &dy.dy, (float *)dweight.device, NULL); });
    must(cudaStreamSynchronize(cuda->stream[0]), "timing");
    cudaFree(partial);
    rc_cuda_forget_packed(cuda, weight.device, 1);
    x.drop(), x_sum.drop(), y.drop(), dy.drop(), weight.drop(), center.drop(), dx.drop(), dweight.drop();
}

static int time_all(rc_cuda *cuda, bool large)
{
    static const int small[][9] = {/* c_in, c_out, k, stride, pad, up, size, n, groups */
        {3, 16, 3, 1, 1, 1, 32, 256, 2},  {16, 16, 3, 1, 1, 1, 32, 256, 2}, {16, 16, 3, 1, 1, 1, 32, 128, 1},
        {16, 32, 3, 2, 1, 1, 32, 256, 2}, {32, 32, 3, 1, 1, 1, 16, 256, 2}, {32, 32, 3, 1, 1, 1, 16, 128, 1},
        {32, 64, 3, 2, 1, 1, 16, 256, 2}, {64, 64, 3, 1, 1, 1, 8, 256, 2},  {64, 64, 3, 1, 1, 1, 8, 128, 1},
        {128, 128, 3, 1, 1, 2, 8, 128, 1}, {128, 64, 3, 1, 1, 2, 16, 128, 1}, {64, 3, 3, 1, 1, 1, 32, 128, 1}};
    static const int big[][9] = {
        {16, 16, 3, 1, 1, 1, 64, 256, 2},  {64, 64, 3, 1, 1, 1, 112, 32, 1},  {128, 128, 3, 1, 1, 1, 56, 32, 1},
        {256, 256, 3, 1, 1, 1, 28, 32, 1}, {512, 512, 3, 1, 1, 1, 14, 32, 1}, {256, 512, 3, 2, 1, 1, 28, 32, 1}};
    printf("%-22s %-34s %7s %7s %7s %6s %6s\n", "us per operation", "", "early", "plain", "floor", "GB/s", "TFLOP/s");
    const int(*list)[9] = large ? big : small;
    int count = large ? sizeof big / sizeof *big : sizeof small / sizeof *small;
    for (int i = 0; i < count; i++) {
        const int *s = list[i];
        time_layer(cuda, geometry(s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[6], false), s[7], s[8], s[0] == 3);
    }
    return 0;
}

int main(int argc, char **argv)
{
    rc_cuda cuda = {};
    cuda.bf16 = true;
    cuda.early = true;
    must(cudaDeviceGetAttribute(&cuda.shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0), "shared memory");
    for (int lane = 0; lane < RC_CUDA_LANES; lane++)
        must(cudaStreamCreateWithFlags(&cuda.stream[lane], cudaStreamNonBlocking), "stream");
    int result = 2;
    if (argc == 2 && strcmp(argv[1], "check") == 0)
        result = check(&cuda);
    else if (argc == 2 && strcmp(argv[1], "time") == 0)
        result = time_all(&cuda, false);
    else if (argc == 2 && strcmp(argv[1], "large") == 0)
        result = time_all(&cuda, true);
    else
        fprintf(stderr, "usage: cuda_conv check | time | large\n");
    return result == 0 && cuda.status != RC_OK ? 1 : result;
}
