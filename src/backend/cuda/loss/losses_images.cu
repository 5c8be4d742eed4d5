/* Losses on images. A thread per pixel; gradients are gathered, so that every pixel has one writer. Formulas as in
 * cpu/reference/image_losses.c. Each adds weight * gradient to dx and overwrites its value slot. Pad channels are
 * neither read nor written. */
#include "backend/cuda/loss/losses.cuh"

template <typename Act> struct image_view {
    const Act *image; /* (n, h, w, cp), finished */
    Act *gradient;
    int n, h, w, c, cp;
};

template <typename Act> static image_view<Act> view_image(const rc_tensor *x, void *dx)
{
    image_view<Act> view = {
        (const Act *)(x->stored ? x->value : x->raw), (Act *)dx, x->n, x->h, x->w, x->c, rc_cuda_padded(x->c)};
    return view;
}

static int pixels_of(const rc_tensor *x)
{
    return x->n * x->h * x->w;
}

template <typename Act> __device__ static float pixel_at(const image_view<Act> &x, int pixel, int c)
{
    return to_float(x.image[(size_t)pixel * x.cp + c]);
}

template <typename Act> __device__ static void add_gradient(const image_view<Act> &x, int pixel, int c, double d)
{
    Act *to = x.gradient + (size_t)pixel * x.cp + c;
    store(to, (float)((double)to_float(*to) + d));
}

/* ---- smoothing -------------------------------------------------------------------------------------------------- */

enum { TAPS = 5, RADIUS = 2 };

struct smoothing_taps {
    float tap[TAPS];
};

static smoothing_taps make_taps()
{
    smoothing_taps taps;
    double value[TAPS], sum = 0;
    for (int t = 0; t < TAPS; t++)
        sum += value[t] = exp(-(t - RADIUS) * (t - RADIUS) / 4.0);
    for (int t = 0; t < TAPS; t++)
        taps.tap[t] = (float)(value[t] / sum);
    return taps;
}

__device__ static int reflect(int i, int size)
{
    if (i < 0)
        return -i;
    return i < size ? i : 2 * size - 2 - i;
}

/* residual = x - S x, and its squares. */
template <typename Act> struct smoothing {
    static const int values = 1;
    image_view<Act> x;
    smoothing_taps taps;
    float *residual; /* (n, h, w, c) */
    double count;
    float *value;

    __device__ void pixel(int p, double sum[1]) const
    {
        int image = p / (x.h * x.w), i = p / x.w % x.h, j = p % x.w;
        for (int c = 0; c < x.c; c++) {
            float r = pixel_at(x, p, c);
            for (int s = 0; s < TAPS; s++) {
                int row = (image * x.h + reflect(i + s - RADIUS, x.h)) * x.w;
                for (int t = 0; t < TAPS; t++)
                    r -= taps.tap[s] * taps.tap[t] * pixel_at(x, row + reflect(j + t - RADIUS, x.w), c);
            }
            residual[(size_t)p * x.c + c] = r;
            sum[0] += (double)r * (double)r;
        }
    }

    __device__ void finish(const double total[1]) const
    {
        *value = (float)(total[0] / count);
    }
};

/* Along one axis: the residuals that position p took part in, with their taps. Position p is read as q + t - RADIUS
 * = p, and near a border also as its reflections -p and 2 size - 2 - p. */
struct readers {
    int count;
    int from[3 * TAPS], tap[3 * TAPS];
};

__device__ static readers readers_of(int p, int size)
{
    readers r;
    r.count = 0;
    int seen_as[3] = {p, -p, 2 * size - 2 - p};
    for (int way = 0; way < 3; way++) {
        if ((way == 1 && p == 0) || (way == 2 && p == size - 1))
            continue;
        for (int t = 0; t < TAPS; t++) {
            int from = seen_as[way] - t + RADIUS;
            if (from < 0 || from >= size)
                continue;
            r.from[r.count] = from;
            r.tap[r.count++] = t;
        }
    }
    return r;
}

/* dL/dx = 2 / N (r - S^T r) */
template <typename Act>
__global__ static void smoothing_gradient_kernel(smoothing<Act> k, const float *weight, int pixels)
{
    begin_after_kernel_before();
    int p = (int)(blockIdx.x * LOSS_THREADS + threadIdx.x);
    if (p >= pixels)
        return;
    const image_view<Act> &x = k.x;
    int image = p / (x.h * x.w);
    readers rows = readers_of(p / x.w % x.h, x.h), columns = readers_of(p % x.w, x.w);
    for (int c = 0; c < x.c; c++) {
        float d = k.residual[(size_t)p * x.c + c];
        for (int s = 0; s < rows.count; s++) {
            const float *row = k.residual + (size_t)(image * x.h + rows.from[s]) * x.w * x.c + c;
            for (int t = 0; t < columns.count; t++)
                d -= k.taps.tap[rows.tap[s]] * k.taps.tap[columns.tap[t]] * row[(size_t)columns.from[t] * x.c];
        }
        add_gradient(x, p, c, (double)*weight * 2 / k.count * (double)d);
    }
}

template <typename Act>
static void loss_smoothing(rc_backend *be, const rc_tensor *x, const float *weight, void *value, void *dx)
{
    rc_cuda *cuda = rc_cuda_of(be);
    int pixels = pixels_of(x);
    size_t parts = loss_parts_bytes(0), bytes = parts + (size_t)pixels * x->c * sizeof(float);
    char *space = (char *)rc_cuda_workspace(cuda, bytes, "loss_smoothing");
    if (!space)
        return;
    smoothing<Act> k = {view_image<Act>(x, dx), make_taps(), (float *)(space + parts), (double)pixels * x->c,
                        (float *)value};
    launch_pixels(cuda, "loss_smoothing", k, pixels);
    rc_cuda_launch_early(cuda, "loss_smoothing", smoothing_gradient_kernel<Act>,
                         dim3((unsigned)(pixels + LOSS_THREADS - 1) / LOSS_THREADS), LOSS_THREADS, 0, k, weight,
                         pixels);
}

/* ---- total variation -------------------------------------------------------------------------------------------- */

enum { DIRECTIONS = 4 };

/* Neighbours to the right, below, below right, below left. */
__device__ static int down_of(int direction)
{
    return direction > 0;
}

__device__ static int right_of(int direction)
{
    return direction == 3 ? -1 : direction != 1;
}

/* The neighbour of pixel p in a direction, or against it (sign -1); -1: outside of the image. */
template <typename Act> __device__ static int neighbour(const image_view<Act> &x, int p, int direction, int sign)
{
    int down = sign * down_of(direction), right = sign * right_of(direction);
    int i = p / x.w % x.h + down, j = p % x.w + right;
    return i >= 0 && i < x.h && j >= 0 && j < x.w ? p + down * x.w + right : -1;
}

template <typename Act> struct variation {
    static const int values = DIRECTIONS;
    image_view<Act> x;
    double *inverse; /* (DIRECTIONS): 1 / norm of the differences, 0 for 0 */
    float *value;

    __device__ void pixel(int p, double sum[DIRECTIONS]) const
    {
        for (int r = 0; r < DIRECTIONS; r++) {
            int q = neighbour(x, p, r, 1);
            for (int c = 0; c < x.c && q >= 0; c++) {
                double difference = (double)pixel_at(x, p, c) - (double)pixel_at(x, q, c);
                sum[r] += difference * difference;
            }
        }
    }

    __device__ void finish(const double total[DIRECTIONS]) const
    {
        double norms = 0;
        for (int r = 0; r < DIRECTIONS; r++) {
            norms += sqrt(total[r]);
            inverse[r] = total[r] > 0 ? 1 / sqrt(total[r]) : 0;
        }
        *value = (float)norms;
    }
};

template <typename Act>
__global__ static void variation_gradient_kernel(variation<Act> k, const float *weight, int pixels)
{
    begin_after_kernel_before();
    int p = (int)(blockIdx.x * LOSS_THREADS + threadIdx.x);
    if (p >= pixels)
        return;
    for (int c = 0; c < k.x.c; c++) {
        double here = (double)pixel_at(k.x, p, c), d = 0;
        for (int r = 0; r < DIRECTIONS; r++)
            for (int sign = -1; sign <= 1; sign += 2) {
                int q = neighbour(k.x, p, r, sign);
                d += q >= 0 ? (here - (double)pixel_at(k.x, q, c)) * k.inverse[r] : 0;
            }
        add_gradient(k.x, p, c, (double)*weight * d);
    }
}

/* Workspace for a few doubles after the parts. */
static double *after_parts(rc_cuda *cuda, int count, const char *operation)
{
    char *space = (char *)rc_cuda_workspace(cuda, loss_parts_bytes(0) + (size_t)count * sizeof(double), operation);
    return space ? (double *)(space + loss_parts_bytes(0)) : NULL;
}

template <typename Act>
static void loss_total_variation(rc_backend *be, const rc_tensor *x, const float *weight, void *value, void *dx)
{
    rc_cuda *cuda = rc_cuda_of(be);
    int pixels = pixels_of(x);
    variation<Act> k = {view_image<Act>(x, dx), after_parts(cuda, DIRECTIONS, "loss_total_variation"), (float *)value};
    if (!k.inverse)
        return;
    launch_pixels(cuda, "loss_total_variation", k, pixels);
    rc_cuda_launch_early(cuda, "loss_total_variation", variation_gradient_kernel<Act>,
                         dim3((unsigned)(pixels + LOSS_THREADS - 1) / LOSS_THREADS), LOSS_THREADS, 0, k, weight,
                         pixels);
}

/* ---- norm ------------------------------------------------------------------------------------------------------- */

template <typename Act> struct image_norm {
    static const int values = 1;
    image_view<Act> x;
    double *inverse;
    float *value;

    __device__ void pixel(int p, double sum[1]) const
    {
        for (int c = 0; c < x.c; c++)
            sum[0] += (double)pixel_at(x, p, c) * (double)pixel_at(x, p, c);
    }

    __device__ void finish(const double total[1]) const
    {
        *value = (float)sqrt(total[0]);
        *inverse = total[0] > 0 ? 1 / sqrt(total[0]) : 0;
    }
};

template <typename Act> __global__ static void norm_gradient_kernel(image_norm<Act> k, const float *weight, int pixels)
{
    begin_after_kernel_before();
    int p = (int)(blockIdx.x * LOSS_THREADS + threadIdx.x);
    for (int c = 0; c < k.x.c && p < pixels; c++)
        add_gradient(k.x, p, c, (double)*weight * (double)pixel_at(k.x, p, c) * *k.inverse);
}

template <typename Act>
static void loss_image_norm(rc_backend *be, const rc_tensor *x, const float *weight, void *value, void *dx)
{
    rc_cuda *cuda = rc_cuda_of(be);
    int pixels = pixels_of(x);
    image_norm<Act> k = {view_image<Act>(x, dx), after_parts(cuda, 1, "loss_image_norm"), (float *)value};
    if (!k.inverse)
        return;
    launch_pixels(cuda, "loss_image_norm", k, pixels);
    rc_cuda_launch_early(cuda, "loss_image_norm", norm_gradient_kernel<Act>,
                         dim3((unsigned)(pixels + LOSS_THREADS - 1) / LOSS_THREADS), LOSS_THREADS, 0, k, weight,
                         pixels);
}

template <typename Act> static void fill(rc_backend *table)
{
    table->loss_smoothing = loss_smoothing<Act>;
    table->loss_total_variation = loss_total_variation<Act>;
    table->loss_image_norm = loss_image_norm<Act>;
}

void rc_cuda_fill_image_losses(rc_cuda *cuda)
{
    if (cuda->bf16)
        fill<__nv_bfloat16>(&cuda->table);
    else
        fill<float>(&cuda->table);
}
