/* The variational autoencoder: reconstruction, and the latent code with its loss. Formulas as in
 * cpu/reference/image_losses.c. */
#include "backend/cuda/loss/losses.cuh"

template <typename Act> static const Act *finished(const rc_tensor *x)
{
    return (const Act *)(x->stored ? x->value : x->raw);
}

template <typename Act> __device__ static void add_to(Act *to, double d)
{
    store(to, (float)((double)to_float(*to) + d));
}

/* ---- reconstruction --------------------------------------------------------------------------------------------- */

/* The image is taken before it was rounded, like the slope of its sigmoid (dz8): in bf16 all that is above 0.998 is 1,
 * where the loss has next to no bound and the slope undoes nothing of it. */
template <typename Act> struct reconstruction {
    static const int values = 1;
    tensor_view<Act> image;
    const Act *target; /* (n, h, w, cp) */
    const float *sample_weight, *weight;
    Act *gradient;
    double count;
    float *value;

    __device__ void pixel(int p, double sum[1]) const
    {
        place at = place_of(image, p);
        double share = (sample_weight ? (double)sample_weight[at.image] : 1) / count;
        for (int channel = 0; channel < image.c; channel += 8) {
            float8 pending = load_pending8(image, at, channel);
            size_t offset = offset8(image, p, channel);
            for (int i = 0; i < 8 && channel + i < image.c; i++) {
                double v = (double)pending.v[i], t = (double)to_float(target[offset + i]), spread = v * (1 - v);
                sum[0] -= share * (t * fmax(log(v), -100.0) + (1 - t) * fmax(log1p(-v), -100.0));
                add_to(gradient + offset + i, (double)*weight * share * (v - t) / (spread > 1e-12 ? spread : 1e-12));
            }
        }
    }

    __device__ void finish(const double total[1]) const
    {
        *value = (float)total[0];
    }
};

template <typename Act>
static void loss_reconstruction(rc_backend *be, const rc_tensor *x, const rc_tensor *target, const void *sample_weight,
                                const float *weight, void *value, void *dx)
{
    int pixels = x->n * x->h * x->w;
    reconstruction<Act> k = {
        view_tensor<Act>(x),   finished<Act>(target), (const float *)sample_weight, weight, (Act *)dx,
        (double)pixels * x->c, (float *)value};
    launch_pixels(rc_cuda_of(be), "loss_reconstruction", k, pixels);
}

/* ---- the latent code: (n, 1, 1, cp) ----------------------------------------------------------------------------- */

/* A "pixel" is one number of the code: there are more of them than samples. */
template <typename Act> struct latent {
    static const int values = 1;
    const Act *mean, *log_variance;
    int c, cp;
    double factor;
    const float *weight;
    Act *dmean, *dlog_variance;
    float *value;

    __device__ void pixel(int at, double sum[1]) const
    {
        if (at % cp >= c)
            return;
        double m = (double)to_float(mean[at]), s = (double)to_float(log_variance[at]), variance = exp(s);
        sum[0] += -0.5 * (1 + s - m * m - variance);
        add_to(dmean + at, (double)*weight * factor * m);
        add_to(dlog_variance + at, (double)*weight * factor * 0.5 * (variance - 1));
    }

    __device__ void finish(const double total[1]) const
    {
        *value = (float)(factor * total[0]);
    }
};

template <typename Act>
static void loss_latent(rc_backend *be, const rc_tensor *mean, const rc_tensor *log_variance, float scale,
                        const float *weight, void *value, void *dmean, void *dlog_variance)
{
    latent<Act> k = {finished<Act>(mean),
                     finished<Act>(log_variance),
                     mean->c,
                     rc_cuda_padded(mean->c),
                     (double)scale / mean->n,
                     weight,
                     (Act *)dmean,
                     (Act *)dlog_variance,
                     (float *)value};
    launch_pixels(rc_cuda_of(be), "loss_latent", k, mean->n * k.cp);
}

/* z = m + exp(s / 2) noise; pad channels are 0. */
template <typename Act>
__global__ static void sample_kernel(int elements, int c, int cp, const Act *mean, const Act *log_variance,
                                     const Act *noise, Act *z)
{
    begin_after_kernel_before();
    int i = (int)(blockIdx.x * LOSS_THREADS + threadIdx.x);
    if (i >= elements)
        return;
    double draw = exp(0.5 * (double)to_float(log_variance[i])) * (double)to_float(noise[i]);
    store(z + i, i % cp < c ? (float)((double)to_float(mean[i]) + draw) : 0);
}

template <typename Act>
static void latent_sample(rc_backend *be, const rc_tensor *mean, const rc_tensor *log_variance, const void *noise,
                          rc_tensor *z)
{
    int cp = rc_cuda_padded(mean->c), elements = mean->n * cp;
    rc_cuda_launch_early(rc_cuda_of(be), "latent_sample", sample_kernel<Act>,
                         dim3((unsigned)(elements + LOSS_THREADS - 1) / LOSS_THREADS), LOSS_THREADS, 0, elements,
                         mean->c, cp, finished<Act>(mean), finished<Act>(log_variance), (const Act *)noise,
                         (Act *)z->raw);
}

/* dm = dz        ds = dz noise exp(s / 2) / 2 */
template <typename Act>
__global__ static void sample_backward_kernel(int elements, int c, int cp, const Act *log_variance, const Act *noise,
                                              const Act *dz, Act *dmean, Act *dlog_variance)
{
    begin_after_kernel_before();
    int i = (int)(blockIdx.x * LOSS_THREADS + threadIdx.x);
    if (i >= elements || i % cp >= c)
        return;
    double slope = (double)to_float(dz[i]);
    add_to(dmean + i, slope);
    add_to(dlog_variance + i, 0.5 * slope * (double)to_float(noise[i]) * exp(0.5 * (double)to_float(log_variance[i])));
}

template <typename Act>
static void latent_sample_backward(rc_backend *be, const rc_tensor *mean, const rc_tensor *log_variance,
                                   const void *noise, const void *dz, void *dmean, void *dlog_variance)
{
    int cp = rc_cuda_padded(mean->c), elements = mean->n * cp;
    rc_cuda_launch_early(rc_cuda_of(be), "latent_sample_backward", sample_backward_kernel<Act>,
                         dim3((unsigned)(elements + LOSS_THREADS - 1) / LOSS_THREADS), LOSS_THREADS, 0, elements,
                         mean->c, cp, finished<Act>(log_variance), (const Act *)noise, (const Act *)dz, (Act *)dmean,
                         (Act *)dlog_variance);
}

template <typename Act> static void fill(rc_backend *table)
{
    table->loss_reconstruction = loss_reconstruction<Act>;
    table->loss_latent = loss_latent<Act>;
    table->latent_sample = latent_sample<Act>;
    table->latent_sample_backward = latent_sample_backward<Act>;
}

void rc_cuda_fill_latent(rc_cuda *cuda)
{
    if (cuda->bf16)
        fill<__nv_bfloat16>(&cuda->table);
    else
        fill<float>(&cuda->table);
}
