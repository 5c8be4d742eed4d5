#include "cil/head_fit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cil/minimise.h"

enum { FOLDS = 4, NO_FOLD = -1, ITERATIONS = 1000, TOGETHER = 4, LANES = 4, ROWS = 8 };

/* The gradient at the minimum, as a part of that where all rows are 0; and where only margins are wanted. */
static const double precision = 1e-5, fold_precision = 1e-4;

typedef struct fit {
    const rc_head_examples *e;
    double weight;                    /* of |w|^2 / 2 */
    double tolerance, fold_tolerance; /* of the gradient's norm */
    int fold;                         /* that is left out */
    double scale;                     /* of the others' weights, so that they weigh as much as all */
    int8_t *fold_of;                  /* (images) */
    double *answer;      /* (images, classes): logits; then what the gradient takes of an image for a row */
    double *image_loss;  /* (images) */
    double *gradient;    /* (classes, d) */
    const double *row;   /* (classes, d): where the loss is wanted */
    double *to_gradient; /* (classes, d): of the call */
} fit;

rc_head_rule rc_head_usual_rule(void)
{
    return (rc_head_rule){.penalty = 5e-4, .margin = 5};
}

/* ---- the loss ---------------------------------------------------------------------------------------------------- */

static bool is_left_out(const fit *f, int image)
{
    return f->fold != NO_FOLD && f->fold_of[image] == f->fold;
}

static double weight_of(const fit *f, int image)
{
    return f->scale * (f->e->weight != NULL ? f->e->weight[image] : 1.0 / f->e->images);
}

/* Products of one row with images that lie behind each other. */
static void multiply(const double *row, const double *feature, int images, size_t d, double *out, size_t stride)
{
    for (int i = 0; i < images; i++, feature += d) {
        double lane[LANES] = {0}, sum = 0;
        size_t j = 0;
        for (; j + LANES <= d; j += LANES)
            for (size_t l = 0; l < LANES; l++)
                lane[l] += row[j + l] * feature[j + l];
        for (; j < d; j++)
            sum += row[j] * feature[j];
        for (int l = 0; l < LANES; l++)
            sum += lane[l];
        out[(size_t)i * stride] = sum;
    }
}

static double largest(const double *number, int count, double start)
{
    for (int i = 0; i < count; i++)
        start = fmax(start, number[i]);
    return start;
}

/* The loss of an image; its logits become the derivatives of the loss by them. */
static double judge(const rc_head_examples *e, int image, double *logit)
{
    double old = e->old_sum[image], most = largest(logit, e->classes, old);
    int label = e->label[image];
    double own = label < 0 ? old : logit[label], sum = exp(old - most);
    for (int k = 0; k < e->classes; k++) {
        logit[k] = exp(logit[k] - most);
        sum += logit[k];
    }
    for (int k = 0; k < e->classes; k++)
        logit[k] = logit[k] / sum - (k == label);
    return most + log(sum) - own;
}

static void judge_some(void *context, int task, int worker)
{
    const fit *f = context;
    const rc_head_examples *e = f->e;
    size_t d = (size_t)e->d, classes = (size_t)e->classes;
    (void)worker;
    int first = task * TOGETHER, images = e->images - first < TOGETHER ? e->images - first : TOGETHER;
    double *answer = f->answer + (size_t)first * classes;
    for (size_t k = 0; k < classes; k++)
        multiply(f->row + k * d, e->feature + (size_t)first * d, images, d, answer + k, classes);
    for (int i = 0; i < images; i++)
        f->image_loss[first + i] = judge(e, first + i, answer + (size_t)i * classes);
}

/* gradient += the sum of up to TOGETHER images that lie behind each other, each with its factor. */
static void add_features(const double *feature, const double *factor, int images, size_t d, double *gradient)
{
    if (images == TOGETHER) {
        const double *one = feature, *two = one + d, *three = two + d, *four = three + d;
        for (size_t j = 0; j < d; j++)
            gradient[j] += factor[0] * one[j] + factor[1] * two[j] + factor[2] * three[j] + factor[3] * four[j];
        return;
    }
    for (int i = 0; i < images; i++)
        for (size_t j = 0; j < d; j++)
            gradient[j] += factor[i] * feature[(size_t)i * d + j];
}

/* The gradient of up to ROWS rows, which read the features together. */
static void gather(void *context, int task, int worker)
{
    const fit *f = context;
    const rc_head_examples *e = f->e;
    size_t d = (size_t)e->d, classes = (size_t)e->classes, first = (size_t)task * ROWS;
    size_t rows = classes - first < ROWS ? classes - first : ROWS;
    double *gradient = f->to_gradient + first * d;
    (void)worker;
    for (size_t j = 0; j < rows * d; j++)
        gradient[j] = f->weight * f->row[first * d + j];
    for (int i = 0, now; i < e->images; i += now) {
        double weight[TOGETHER];
        now = e->images - i < TOGETHER ? e->images - i : TOGETHER;
        for (int image = 0; image < now; image++)
            weight[image] = is_left_out(f, i + image) ? 0 : weight_of(f, i + image);
        for (size_t k = 0; k < rows; k++) {
            double factor[TOGETHER] = {0};
            for (int image = 0; image < now; image++)
                if (weight[image] > 0) /* the answers to others need not be numbers */
                    factor[image] = weight[image] * f->answer[(size_t)(i + image) * classes + first + k];
            add_features(e->feature + (size_t)i * d, factor, now, d, gradient + k * d);
        }
    }
}

static double evaluate(void *user, const double *row, double *gradient)
{
    fit *f = user;
    const rc_head_examples *e = f->e;
    double loss = 0;
    f->row = row;
    f->to_gradient = gradient;
    rc_pool_run(e->pool, (e->images + TOGETHER - 1) / TOGETHER, judge_some, f);
    rc_pool_run(e->pool, (e->classes + ROWS - 1) / ROWS, gather, f);
    for (int i = 0; i < e->images; i++)
        loss += is_left_out(f, i) ? 0 : weight_of(f, i) * f->image_loss[i];
    return loss + f->weight / 2 * rc_dot(row, row, (size_t)e->classes * (size_t)e->d);
}

/* ---- a fit ------------------------------------------------------------------------------------------------------- */

/* Of every class, images go to the folds in turn. */
static rc_status deal(fit *f)
{
    const rc_head_examples *e = f->e;
    int *met = rc_alloc_zeroed(NULL, (size_t)e->classes + 1, sizeof *met);
    if (met == NULL)
        return RC_OUT_OF_MEMORY;
    for (int i = 0; i < e->images; i++)
        f->fold_of[i] = (int8_t)(met[e->label[i] < 0 ? e->classes : e->label[i]]++ % FOLDS);
    rc_free(NULL, met);
    return RC_OK;
}

static rc_status begin(fit *f, const rc_head_examples *e, const rc_head_rule *rule)
{
    size_t images = (size_t)e->images, classes = (size_t)e->classes, d = (size_t)e->d;
    *f = (fit){.e = e, .fold = NO_FOLD, .scale = 1};
    if (e->images < 1 || e->d < 1 || e->classes < 1)
        return rc_fail(RC_INVALID_ARGUMENT, "a fit of %d images, %d features and %d classes, expected 1 or more",
                       e->images, e->d, e->classes);
    double square = 0;
    int of_new = 0;
    for (size_t i = 0; i < images; i++)
        if (e->label[i] >= 0) {
            square += rc_dot(e->feature + i * d, e->feature + i * d, d);
            of_new++;
        }
    square /= of_new > 0 ? of_new : 1;
    f->weight = rule->penalty * (square > 0 ? square : 1) / (double)classes;
    f->fold_of = rc_alloc_zeroed(NULL, images, sizeof *f->fold_of);
    f->answer = rc_alloc_zeroed(NULL, images, classes * sizeof *f->answer);
    f->image_loss = rc_alloc_zeroed(NULL, images, sizeof *f->image_loss);
    f->gradient = rc_alloc_zeroed(NULL, classes, d * sizeof *f->gradient);
    bool all = f->fold_of != NULL && f->answer != NULL && f->image_loss != NULL && f->gradient != NULL;
    return all ? deal(f) : RC_OUT_OF_MEMORY;
}

static void end(fit *f)
{
    rc_free(NULL, f->fold_of);
    rc_free(NULL, f->answer);
    rc_free(NULL, f->image_loss);
    rc_free(NULL, f->gradient);
}

static rc_status solve(fit *f, double *row, rc_head_fitted *fitted)
{
    size_t n = (size_t)f->e->classes * (size_t)f->e->d;
    rc_minimum minimum;
    double tolerance = f->fold == NO_FOLD ? f->tolerance : f->fold_tolerance;
    RC_TRY(rc_minimise(evaluate, f, n, tolerance, ITERATIONS, row, &minimum));
    fitted->loss = minimum.value;
    fitted->iterations += minimum.iterations;
    return RC_OK;
}

static rc_status solve_all(fit *f, double *row, rc_head_fitted *fitted)
{
    size_t n = (size_t)f->e->classes * (size_t)f->e->d;
    memset(row, 0, n * sizeof *row);
    double start = evaluate(f, row, f->gradient), norm = sqrt(rc_dot(f->gradient, f->gradient, n));
    if (!isfinite(start) || !isfinite(norm))
        return rc_fail(RC_NUMERIC, "the features or the old logits of the images are not finite, or too large");
    f->tolerance = precision * norm;
    f->fold_tolerance = fold_precision * norm;
    return solve(f, row, fitted);
}

/* ---- the guard --------------------------------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_of(double *number, int count)
{
    qsort(number, (size_t)count, sizeof *number, ascending);
    return count > 0 ? (number[(count - 1) / 2] + number[count / 2]) / 2 : (double)NAN;
}

/* The margins of the images of new classes in the fold that was left out. */
static void add_margins(const fit *f, const double *row, double *margin, int *margins)
{
    const rc_head_examples *e = f->e;
    size_t d = (size_t)e->d;
    for (int i = 0; i < e->images; i++)
        if (is_left_out(f, i) && e->label[i] >= 0)
            margin[(*margins)++] = rc_dot(row + (size_t)e->label[i] * d, e->feature + (size_t)i * d, d) -
                                   e->old_best[i];
}

/* all: the rows of all images; row: room for as many. */
static rc_status guard(fit *f, const rc_head_rule *rule, const double *all, double *row, double *margin,
                       rc_head_fitted *fitted)
{
    const rc_head_examples *e = f->e;
    rc_head_fitted folds = {0};
    int margins = 0;
    for (f->fold = 0; f->fold < FOLDS; f->fold++) {
        double whole = 0, used = 0;
        f->scale = 1;
        for (int i = 0; i < e->images; i++) {
            whole += weight_of(f, i);
            used += is_left_out(f, i) ? 0 : weight_of(f, i);
        }
        if (used == 0 || used == whole) /* nothing to learn from, or nothing to try */
            continue;
        f->scale = whole / used;
        memcpy(row, all, (size_t)e->classes * (size_t)e->d * sizeof *row); /* not far from where this fit ends */
        RC_TRY(solve(f, row, &folds));
        add_margins(f, row, margin, &margins);
    }
    fitted->iterations += folds.iterations;
    fitted->median = median_of(margin, margins);
    fitted->shift = fitted->median > rule->margin ? rule->margin - fitted->median : 0;
    return RC_OK;
}

size_t rc_head_fit_bytes(int images, int d, int classes)
{
    size_t n = (size_t)classes * (size_t)d, answers = (size_t)images * (size_t)classes;
    return (answers + 2 * (size_t)images + 2 * n) * sizeof(double) + (size_t)images + rc_minimise_bytes(n);
}

rc_status rc_head_fit(const rc_head_examples *e, const rc_head_rule *rule, double *row, rc_head_fitted *fitted)
{
    fit f;
    double *other_row = NULL, *margin = NULL;
    *fitted = (rc_head_fitted){.median = NAN};
    rc_status status = begin(&f, e, rule);
    if (status == RC_OK)
        status = solve_all(&f, row, fitted);
    if (status == RC_OK && isfinite(rule->margin)) {
        other_row = rc_alloc_zeroed(NULL, (size_t)e->classes, (size_t)e->d * sizeof *other_row);
        margin = rc_alloc_zeroed(NULL, (size_t)e->images, sizeof *margin);
        status = other_row != NULL && margin != NULL ? guard(&f, rule, row, other_row, margin, fitted)
                                                     : RC_OUT_OF_MEMORY;
    }
    rc_free(NULL, other_row);
    rc_free(NULL, margin);
    end(&f);
    return status;
}

rc_status rc_head_loss(const rc_head_examples *e, const rc_head_rule *rule, const double *row, double *gradient,
                       double *loss)
{
    fit f;
    rc_status status = begin(&f, e, rule);
    if (status == RC_OK)
        *loss = evaluate(&f, row, gradient);
    end(&f);
    return status;
}
