/* Losses on images and on the latent code of the variational autoencoder.
 *
 * Each adds weight * gradient to what it is given and overwrites its value slot. Sums are taken in double, whatever
 * `real` is. Images are (n, h, w, cp); pad channels are neither read nor written.
 */
#include <math.h>

#include "backend/cpu/reference/reference.h"

static const real *finished(const rc_tensor *x)
{
    return x->stored ? x->value : x->raw;
}

static size_t at(int cp, const rc_tensor *x, int b, int i, int j, int c)
{
    return (((size_t)b * (size_t)x->h + (size_t)i) * (size_t)x->w + (size_t)j) * (size_t)cp + (size_t)c;
}

/* ---- smoothing --------------------------------------------------------------------------------------------
 * S x is x convolved per channel with the 5x5 kernel k_s k_t, k_t ~ exp(-(t - 2)^2 / 4) with sum 1, on an image
 * reflected at its border (without repeating the edge):
 *     (S x)_ij = sum_st k_s k_t x_{R(i + s - 2), R(j + t - 2)}
 *     L = mean (x - S x)^2        dL/dx = 2 / N (I - S^T) (x - S x)
 * S^T is taken by scattering each residual to the pixels that it was made of, reflected the same way. */
enum { TAPS = 5, RADIUS = 2 };

static void smoothing_taps(double taps[TAPS])
{
    double sum = 0;
    for (int t = 0; t < TAPS; t++)
        sum += taps[t] = exp(-(t - RADIUS) * (t - RADIUS) / 4.0);
    for (int t = 0; t < TAPS; t++)
        taps[t] /= sum;
}

static int reflect(int i, int size)
{
    if (i < 0)
        return -i;
    return i < size ? i : 2 * size - 2 - i;
}

static void loss_smoothing(rc_backend *backend, const rc_tensor *x, const float *weight, void *value, void *dx)
{
    const real *image = finished(x);
    real *gradient = dx;
    int cp = rc_padded(backend, x->c);
    double taps[TAPS], total = 0, count = (double)x->n * x->h * x->w * x->c;
    smoothing_taps(taps);
    for (int b = 0; b < x->n; b++) {
        for (int i = 0; i < x->h; i++) {
            for (int j = 0; j < x->w; j++) {
                for (int c = 0; c < x->c; c++) {
                    double residual = image[at(cp, x, b, i, j, c)];
                    for (int s = 0; s < TAPS; s++)
                        for (int t = 0; t < TAPS; t++)
                            residual -=
                                taps[s] * taps[t] *
                                image[at(cp, x, b, reflect(i + s - RADIUS, x->h), reflect(j + t - RADIUS, x->w), c)];
                    double slope = *weight * 2 / count * residual;
                    total += residual * residual;
                    gradient[at(cp, x, b, i, j, c)] += (real)slope;
                    for (int s = 0; s < TAPS; s++)
                        for (int t = 0; t < TAPS; t++)
                            gradient[at(cp, x, b, reflect(i + s - RADIUS, x->h), reflect(j + t - RADIUS, x->w), c)] -=
                                (real)(taps[s] * taps[t] * slope);
                }
            }
        }
    }
    *(real *)value = (real)(total / count);
}

/* ---- total variation --------------------------------------------------------------------------------------
 * L = sum over four directions r of |D_r|_2, where D_r holds the differences of all neighbours in direction r: to the
 * right, below, below right, below left.        dL/dx_p += D_r / |D_r| for the first of the pair, -= for the other. */
static const struct direction {
    int down, right;
} directions[4] = {{0, 1}, {1, 0}, {1, 1}, {1, -1}};

typedef void visit(void *context, size_t from, size_t to);

/* Calls visit for all pairs of neighbours in one direction. */
static void for_each_pair(int cp, const rc_tensor *x, struct direction r, visit *call, void *context)
{
    for (int b = 0; b < x->n; b++)
        for (int i = 0; i + r.down < x->h; i++)
            for (int j = r.right < 0 ? -r.right : 0; j < x->w && j + r.right < x->w; j++)
                for (int c = 0; c < x->c; c++)
                    call(context, at(cp, x, b, i, j, c), at(cp, x, b, i + r.down, j + r.right, c));
}

typedef struct variation {
    const real *image;
    real *gradient;
    double squares, factor; /* factor = weight / norm */
} variation;

static void add_square(void *context, size_t from, size_t to)
{
    variation *v = context;
    double difference = (double)v->image[from] - v->image[to];
    v->squares += difference * difference;
}

static void add_pair_gradient(void *context, size_t from, size_t to)
{
    variation *v = context;
    double slope = v->factor * ((double)v->image[from] - v->image[to]);
    v->gradient[from] += (real)slope;
    v->gradient[to] -= (real)slope;
}

static void loss_total_variation(rc_backend *backend, const rc_tensor *x, const float *weight, void *value, void *dx)
{
    int cp = rc_padded(backend, x->c);
    double total = 0;
    for (int r = 0; r < 4; r++) {
        variation v = {finished(x), dx, 0, 0};
        for_each_pair(cp, x, directions[r], add_square, &v);
        total += sqrt(v.squares);
        v.factor = v.squares > 0 ? *weight / sqrt(v.squares) : 0;
        for_each_pair(cp, x, directions[r], add_pair_gradient, &v);
    }
    *(real *)value = (real)total;
}

/* ---- norm -------------------------------------------------------------------------------------------------
 * L = |x|_2 over the whole batch        dL/dx = x / L, 0 at 0 */
static void loss_image_norm(rc_backend *backend, const rc_tensor *x, const float *weight, void *value, void *dx)
{
    const real *image = finished(x);
    size_t pixels = (size_t)x->n * (size_t)x->h * (size_t)x->w, cp = (size_t)rc_padded(backend, x->c);
    double squares = 0;
    for (size_t p = 0; p < pixels; p++)
        for (size_t c = 0; c < (size_t)x->c; c++)
            squares += (double)image[p * cp + c] * image[p * cp + c];
    double norm = sqrt(squares);
    for (size_t p = 0; p < pixels && norm > 0; p++)
        for (size_t c = 0; c < (size_t)x->c; c++)
            ((real *)dx)[p * cp + c] += (real)(*weight * image[p * cp + c] / norm);
    *(real *)value = (real)norm;
}

/* ---- variational autoencoder ------------------------------------------------------------------------------
 * Reconstruction: L = mean_b w_b mean_p -( t log x + (1 - t) log(1 - x) ), logarithms cut off below -100;
 *     dL/dx_bp = w_b (x - t) / max(x (1 - x), 1e-12) / (n P). Both limits are those of PyTorch. */
static void loss_reconstruction(rc_backend *backend, const rc_tensor *x, const rc_tensor *target,
                                const void *sample_weight, const float *weight, void *value, void *dx)
{
    const real *image = finished(x), *wanted = finished(target), *sample_weights = sample_weight;
    real *gradient = dx;
    size_t cp = (size_t)rc_padded(backend, x->c), pixels = (size_t)x->h * (size_t)x->w;
    double total = 0, count = (double)x->n * (double)pixels * x->c;
    for (int b = 0; b < x->n; b++) {
        double share = (sample_weights ? sample_weights[b] : 1) / count;
        for (size_t p = 0; p < pixels; p++) {
            for (size_t c = 0; c < (size_t)x->c; c++) {
                size_t i = ((size_t)b * pixels + p) * cp + c;
                double v = image[i], t = wanted[i], spread = v * (1 - v);
                total -= share * (t * fmax(log(v), -100) + (1 - t) * fmax(log1p(-v), -100));
                gradient[i] += (real)(*weight * share * (v - t) / (spread > 1e-12 ? spread : 1e-12));
            }
        }
    }
    *(real *)value = (real)total;
}

/* L = scale / n * sum_b -1/2 sum_i (1 + s - m^2 - exp(s)), s the log-variance
 * dL/dm = scale / n * m        dL/ds = scale / n * 1/2 (exp(s) - 1) */
static void loss_latent(rc_backend *backend, const rc_tensor *mean, const rc_tensor *log_variance, float scale,
                        const float *weight, void *value, void *dmean, void *dlog_variance)
{
    const real *means = finished(mean), *logs = finished(log_variance);
    size_t cp = (size_t)rc_padded(backend, mean->c);
    double total = 0, factor = (double)scale / mean->n;
    for (size_t b = 0; b < (size_t)mean->n; b++) {
        for (size_t i = b * cp; i < b * cp + (size_t)mean->c; i++) {
            double m = means[i], s = logs[i];
            total += -0.5 * (1 + s - m * m - exp(s));
            ((real *)dmean)[i] += (real)(*weight * factor * m);
            ((real *)dlog_variance)[i] += (real)(*weight * factor * 0.5 * (exp(s) - 1));
        }
    }
    *(real *)value = (real)(factor * total);
}

/* z = m + exp(s / 2) noise */
static void latent_sample(rc_backend *backend, const rc_tensor *mean, const rc_tensor *log_variance, const void *noise,
                          rc_tensor *z)
{
    const real *means = finished(mean), *logs = finished(log_variance), *draws = noise;
    real *out = z->raw;
    size_t cp = (size_t)rc_padded(backend, mean->c);
    for (size_t b = 0; b < (size_t)mean->n; b++)
        for (size_t c = 0; c < cp; c++) {
            size_t i = b * cp + c;
            out[i] = c < (size_t)mean->c ? (real)(means[i] + exp(0.5 * logs[i]) * draws[i]) : 0;
        }
}

/* dm = dz        ds = dz noise exp(s / 2) / 2 */
static void latent_sample_backward(rc_backend *backend, const rc_tensor *mean, const rc_tensor *log_variance,
                                   const void *noise, const void *dz, void *dmean, void *dlog_variance)
{
    const real *logs = finished(log_variance), *draws = noise, *slopes = dz;
    size_t cp = (size_t)rc_padded(backend, mean->c);
    for (size_t b = 0; b < (size_t)mean->n; b++)
        for (size_t i = b * cp; i < b * cp + (size_t)mean->c; i++) {
            ((real *)dmean)[i] += slopes[i];
            ((real *)dlog_variance)[i] += (real)(0.5 * slopes[i] * draws[i] * exp(0.5 * logs[i]));
        }
}

void RC_REFERENCE(fill_image_losses)(rc_backend *table)
{
    table->loss_smoothing = loss_smoothing;
    table->loss_total_variation = loss_total_variation;
    table->loss_image_norm = loss_image_norm;
    table->loss_reconstruction = loss_reconstruction;
    table->loss_latent = loss_latent;
    table->latent_sample = latent_sample;
    table->latent_sample_backward = latent_sample_backward;
}
