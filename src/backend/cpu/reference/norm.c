/* Batch normalisation, the epilogues of all operations, and the skips.
 *
 * Forward, per group and channel over its m = images * h * w samples, with s = raw - center:
 *     mean = center + sum s / m                var = sum s^2 / m - (sum s / m)^2
 *     istd = 1 / sqrt(var + eps)               scale = gamma * istd         shift = beta - mean * scale
 * Backward, with dz = dL/d(raw * scale + shift):
 *     dbeta = sum dz                           dgamma = istd * sum dz (raw - mean)
 *     dL/draw = scale * (dz - sum dz / m - (raw - mean) * istd^2 * sum dz (raw - mean) / m)
 * All sums are taken in double, image by image. */
#include "backend/cpu/reference/value.h"

/* ---- epilogues ------------------------------------------------------------------------------------------------- */

void RC_REFERENCE(finish_forward)(rc_backend *be, const rc_tensor *y, const rc_epilogue *epilogue)
{
    int cp = rc_padded(be, y->c);
    const real *center = epilogue->center;
    real *raw = y->raw;
    for (int image = 0; image < y->n; image++) {
        double *sums = epilogue->partial ? rc_cpu_partial(epilogue->partial, image, cp) : NULL;
        for (int channel = 0; channel < cp; channel++) {
            bool pad = channel >= y->c;
            double sum = 0, squares = 0;
            for (int row = 0; row < y->h; row++)
                for (int column = 0; column < y->w; column++) {
                    real *element = &raw[at(y->h, y->w, cp, image, row, column, channel)];
                    if (pad)
                        *element = 0;
                    double s = pad ? 0 : (double)*element - (center ? (double)center[channel] : 0);
                    sum += s;
                    squares += s * s;
                    if (epilogue->apply && !pad)
                        *element = pending_at(be, y, image, row, column, channel);
                }
            if (sums) {
                sums[channel] = sum;
                sums[cp + channel] = squares;
            }
        }
    }
}

/* Sums of dz and dz * (raw - mean) of x, whose dL/dvalue is g. */
static void sum_gradient(const rc_backend *be, const rc_tensor *x, const void *g, void *partial)
{
    int cp = rc_padded(be, x->c);
    const real *raw = x->raw, *mean = x->mean;
    for (int image = 0; image < x->n; image++) {
        double *sums = rc_cpu_partial(partial, image, cp);
        int group = rc_group_of(x, image);
        for (int channel = 0; channel < cp; channel++) {
            double sum = 0, products = 0;
            double m = mean ? (double)mean[group * cp + channel] : 0;
            for (int row = 0; channel < x->c && row < x->h; row++)
                for (int column = 0; column < x->w; column++) {
                    double dz = (double)dz_at(be, x, g, image, row, column, channel);
                    sum += dz;
                    products += dz * ((double)raw[at(x->h, x->w, cp, image, row, column, channel)] - m);
                }
            sums[channel] = sum;
            sums[cp + channel] = products;
        }
    }
}

void RC_REFERENCE(finish_backward)(rc_backend *be, void *dx, const rc_back_epilogue *epilogue)
{
    const rc_tensor *x = epilogue->x;
    int cp = rc_padded(be, x->c);
    for (int image = 0; image < x->n; image++)
        for (int row = 0; row < x->h; row++)
            for (int column = 0; column < x->w; column++)
                for (int channel = x->c; channel < cp; channel++)
                    ((real *)dx)[at(x->h, x->w, cp, image, row, column, channel)] = 0;
    if (epilogue->partial)
        sum_gradient(be, x, dx, epilogue->partial);
}

/* ---- statistics ------------------------------------------------------------------------------------------------ */

/* Channels are summed in blocks: a row of partial sums holds them side by side. */
enum { BLOCK = 16 };

typedef struct sums {
    double first[BLOCK], second[BLOCK]; /* of channels [channel, channel + BLOCK), over the images of one group */
    double m;                           /* samples */
} sums;

static sums sum_group(const rc_tensor *y, int cp, const void *partial, int group, int channel)
{
    int begin = group ? y->group_end[group - 1] : 0, end = y->group_end[group];
    int channels = cp - channel < BLOCK ? cp - channel : BLOCK;
    sums total = {.m = (double)(end - begin) * y->h * y->w};
    for (int image = begin; image < end; image++) {
        const double *of_image = (const double *)partial + rc_cpu_partial_count(image, cp) + channel;
        for (int i = 0; i < channels; i++) {
            total.first[i] += of_image[i];
            total.second[i] += of_image[cp + i];
        }
    }
    return total;
}

/* Mean and biased variance of raw, channel i of the block. */
static void moments(const sums *s, int i, double center, double *mean, double *var)
{
    double shifted = s->first[i] / s->m;
    *mean = center + shifted;
    *var = fmax(s->second[i] / s->m - shifted * shifted, 0);
}

/* Element i of a vector of reals, or `otherwise` where there is none. */
static double real_or(const void *vector, int i, double otherwise)
{
    return vector ? (double)((const real *)vector)[i] : otherwise;
}

/* The four vectors that a normalised tensor carries, at one group and channel. */
typedef struct normalisation {
    real *scale, *shift, *mean, *istd;
} normalisation;

static void set_normalisation(normalisation to, int i, double mean, double var, double eps, double gamma, double beta)
{
    double istd = 1 / sqrt(var + eps);
    to.mean[i] = (real)mean;
    to.istd[i] = (real)istd;
    to.scale[i] = (real)(gamma * istd);
    to.shift[i] = (real)(beta - mean * gamma * istd);
}

static void clear_pads(normalisation to, int groups, int c, int cp)
{
    for (int group = 0; group < groups; group++)
        for (int channel = c; channel < cp; channel++) {
            int i = group * cp + channel;
            to.scale[i] = to.shift[i] = to.mean[i] = to.istd[i] = 0;
        }
}

static void update_running(real *running, double momentum, double now)
{
    *running = (real)((1 - momentum) * (double)*running + momentum * now);
}

static void bn_train(rc_backend *be, const rc_bn *bn, const rc_tensor *y, const rc_bn_forward *f)
{
    int cp = rc_padded(be, y->c);
    normalisation to = {f->scale, f->shift, f->mean, f->istd};
    for (int first = 0; first < y->c; first += BLOCK) {
        int channels = y->c - first < BLOCK ? y->c - first : BLOCK;
        double centers[BLOCK]; /* center is usually running_mean, which is about to change */
        for (int i = 0; i < channels; i++)
            centers[i] = real_or(f->center, first + i, 0);
        for (int group = 0; group < y->groups; group++) {
            sums s = sum_group(y, cp, f->partial, group, first);
            for (int i = 0; i < channels; i++) {
                int channel = first + i;
                double batch_mean, batch_var;
                moments(&s, i, centers[i], &batch_mean, &batch_var);
                set_normalisation(to, group * cp + channel, batch_mean, batch_var, (double)bn->eps,
                                  real_or(f->gamma, channel, 1), real_or(f->beta, channel, 0));
                if (!f->running_mean)
                    continue;
                double unbiased = s.m > 1 ? batch_var * s.m / (s.m - 1) : batch_var;
                update_running((real *)f->running_mean + channel, (double)bn->momentum, batch_mean);
                update_running((real *)f->running_var + channel, (double)bn->momentum, unbiased);
            }
        }
    }
    clear_pads(to, y->groups, y->c, cp);
}

static void bn_eval(rc_backend *be, const rc_bn *bn, const rc_tensor *y, const rc_bn_forward *f)
{
    int cp = rc_padded(be, y->c);
    normalisation to = {f->scale, f->shift, f->mean, f->istd};
    for (int group = 0; group < y->groups; group++)
        for (int channel = 0; channel < y->c; channel++)
            set_normalisation(to, group * cp + channel, (double)((const real *)f->running_mean)[channel],
                              (double)((const real *)f->running_var)[channel], (double)bn->eps,
                              real_or(f->gamma, channel, 1), real_or(f->beta, channel, 0));
    clear_pads(to, y->groups, y->c, cp);
}

static void bn_statistics(rc_backend *be, const rc_tensor *y, const void *partial, const void *center, void *mean,
                          void *var)
{
    int cp = rc_padded(be, y->c);
    for (int first = 0; first < cp; first += BLOCK) {
        sums s = sum_group(y, cp, partial, 0, first);
        for (int channel = first; channel < cp && channel < first + BLOCK; channel++) {
            double batch_mean = 0, batch_var = 0;
            if (channel < y->c)
                moments(&s, channel - first, real_or(center, channel, 0), &batch_mean, &batch_var);
            ((real *)mean)[channel] = (real)batch_mean;
            ((real *)var)[channel] = (real)batch_var;
        }
    }
}

/* ---- backward -------------------------------------------------------------------------------------------------- */

static void bn_backward_sums(rc_backend *be, const rc_grad *dy, void *partial)
{
    sum_gradient(be, dy->y, dy->g, partial);
}

/* The coefficients of dL/draw at one group and channel, without the gradients of the statistics. */
static void set_coefficients(const rc_tensor *y, int i, bool train, const sums *s, int in_block, double coefficient[3])
{
    double factor = (double)((const real *)y->scale)[i], istd = (double)((const real *)y->istd)[i];
    coefficient[0] = factor;
    coefficient[1] = coefficient[2] = 0;
    if (!train)
        return;
    coefficient[1] = -factor * istd * istd * s->second[in_block] / s->m;
    coefficient[2] = -factor * s->first[in_block] / s->m - coefficient[1] * (double)((const real *)y->mean)[i];
}

static void bn_backward(rc_backend *be, const rc_tensor *y, bool train, const rc_bn_backward *back)
{
    int cp = rc_padded(be, y->c);
    double all = (double)y->n * y->h * y->w;
    for (int first = 0; first < cp; first += BLOCK) {
        int channels = cp - first < BLOCK ? cp - first : BLOCK;
        double gamma_sum[BLOCK] = {0}, beta_sum[BLOCK] = {0};
        for (int group = 0; group < y->groups; group++) {
            sums s = {.m = 1};
            if (back->partial)
                s = sum_group(y, cp, back->partial, group, first);
            for (int k = 0; k < channels; k++) {
                int channel = first + k, i = group * cp + channel;
                double coefficient[3] = {0};
                if (channel < y->c) {
                    set_coefficients(y, i, train, &s, k, coefficient);
                    beta_sum[k] += s.first[k];
                    gamma_sum[k] += (double)((const real *)y->istd)[i] * s.second[k];
                }
                if (channel < y->c && back->dmean) { /* dmean / m + 2 dvar (raw - batch_mean) / m */
                    double twice = 2 * (double)((const real *)back->dvar)[channel] / all;
                    coefficient[1] += twice;
                    coefficient[2] += (double)((const real *)back->dmean)[channel] / all -
                                      twice * (double)((const real *)back->batch_mean)[channel];
                }
                ((real *)back->a)[i] = (real)coefficient[0];
                ((real *)back->b)[i] = (real)coefficient[1];
                ((real *)back->c)[i] = (real)coefficient[2];
            }
        }
        for (int k = 0; k < channels && first + k < y->c; k++) {
            if (back->dgamma)
                ((real *)back->dgamma)[first + k] = (real)gamma_sum[k];
            if (back->dbeta)
                ((real *)back->dbeta)[first + k] = (real)beta_sum[k];
        }
    }
}

/* ---- copies and skips ------------------------------------------------------------------------------------------ */

static void copy_forward(rc_backend *be, rc_tensor *x, rc_tensor *y, const rc_epilogue *epilogue)
{
    store_value(be, x);
    for (int image = 0; image < x->n; image++)
        for (int row = 0; row < x->h; row++)
            for (int column = 0; column < x->w; column++)
                for (int channel = 0; channel < x->c; channel++)
                    ((real *)y->raw)[at(x->h, x->w, rc_padded(be, x->c), image, row, column, channel)] = value_at(
                        be, x, image, row, column, channel);
    RC_REFERENCE(finish_forward)(be, y, epilogue);
}

static void copy_backward(rc_backend *be, const rc_grad *dy, void *dx, const rc_back_epilogue *epilogue)
{
    const rc_tensor *y = dy->y;
    for (int image = 0; image < y->n; image++)
        for (int row = 0; row < y->h; row++)
            for (int column = 0; column < y->w; column++)
                for (int channel = 0; channel < y->c; channel++) {
                    real *to = (real *)dx + at(y->h, y->w, rc_padded(be, y->c), image, row, column, channel);
                    real draw = draw_at(be, dy, image, row, column, channel);
                    *to = epilogue->add ? *to + draw : draw;
                }
    RC_REFERENCE(finish_backward)(be, dx, epilogue);
}

static void materialise(rc_backend *be, rc_tensor *x)
{
    int cp = rc_padded(be, x->c);
    for (int image = 0; image < x->n; image++)
        for (int row = 0; row < x->h; row++)
            for (int column = 0; column < x->w; column++)
                for (int channel = 0; channel < cp; channel++)
                    ((real *)x->value)[at(x->h, x->w, cp, image, row, column, channel)] = channel < x->c
                                                                                              ? pending_at(be, x, image,
                                                                                                           row, column,
                                                                                                           channel)
                                                                                              : 0;
    x->stored = true;
}

/* dskip (n, skip h, skip w, cp of skip c): pixels and channels that y did not take get nothing. */
static void skip_backward(rc_backend *be, const rc_grad *dy, void *dskip, const rc_back_epilogue *epilogue)
{
    const rc_tensor *y = dy->y;
    const rc_skip *skip = &y->skip;
    for (int image = 0; image < y->n; image++)
        for (int row = 0; row < skip->h; row++)
            for (int column = 0; column < skip->w; column++)
                for (int channel = 0; channel < skip->c; channel++) {
                    real *to = (real *)dskip +
                               at(skip->h, skip->w, rc_padded(be, skip->c), image, row, column, channel);
                    int into = channel + skip->channel_offset;
                    bool taken = row % skip->stride == 0 && column % skip->stride == 0 && into < y->c;
                    real dz = taken ? dz_at(be, y, dy->g, image, row / skip->stride, column / skip->stride, into) : 0;
                    *to = epilogue->add ? *to + dz : dz;
                }
    RC_REFERENCE(finish_backward)(be, dskip, epilogue);
}

void RC_REFERENCE(fill_norm)(rc_backend *table)
{
    table->bn_train = bn_train;
    table->bn_eval = bn_eval;
    table->bn_statistics = bn_statistics;
    table->bn_backward_sums = bn_backward_sums;
    table->bn_backward = bn_backward;
    table->copy_forward = copy_forward;
    table->copy_backward = copy_backward;
    table->materialise = materialise;
    table->skip_backward = skip_backward;
}
