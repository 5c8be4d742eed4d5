#include "api/adapt.h"

#include <math.h>

#include "base/clock.h"
#include "base/half.h"
#include "base/memory.h"
#include "cil/head_fit.h"
#include "cil/minimise.h"
#include "cil/moved.h"
#include "cil/scatter.h"
#include "cil/scorer.h"
#include "forecast/allowance.h"
#include "forecast/forecast.h"
#include "nn/expected.h"

/* Of a class whose mean is known there are at most PER_CLASS stand-ins, and of all classes together about STAND_INS.
 * Where all rows are fitted anew, there are as many drawn features instead. */
enum { PER_CLASS = 8, STAND_INS = 2048, DRAWN_PER_CLASS = 256, DRAWN = 32768 };

typedef struct work {
    const rc_head_lesson *lesson;
    rc_learner *learner;
    int known, d;
    bool anew;       /* all rows are fitted, because the model has the statistics of all its classes */
    int rows, width; /* that are fitted; numbers of each: features, and a constant where all are fitted */
    int remembered, per_class, examples; /* classes with a mean; stand-ins of each; images and all stand-ins */
    double *feature, *centre;            /* (examples, width), (d); taken from the centre as soon as that is known */
    double *old_sum, *old_best, *weight; /* (examples): of the old logits; and what each counts */
    int32_t *label;                      /* (examples): row, from 0 on; -1: known before, and has none here */
    double *remembered_mean;             /* (remembered, d) */
    double *mean;                        /* (n_new, d): of the new classes, from the centre */
    int *images;                         /* (n_new + 1): of each new class; and of known ones */
    float *old_row, *old_bias;           /* (known, d), (known): of the head */
    double base, constant;
    double *row; /* (rows, width) */
    rc_head_fitted fitted;
} work;

static rc_status stopped(const char *what)
{
    return rc_fail(RC_CANCELLED, "stopped while %s; nothing was written", what);
}

/* Bytes of everything but the scorer. */
static size_t work_bytes(const work *w)
{
    size_t examples = (size_t)w->examples, d = (size_t)w->d, n_new = (size_t)w->lesson->n_new;
    size_t rows = (size_t)w->rows, width = (size_t)w->width, known = (size_t)w->known;
    size_t numbers = examples * (width + 3) + (n_new + 1 + (size_t)w->remembered) * d + rows * width;
    size_t drawn = w->anew ? known * (size_t)w->per_class * (d * sizeof(float) + sizeof(int32_t)) +
                                 (2 * known + 2 * d) * d * sizeof(double)
                           : 0;
    size_t factors = w->learner->class_factor != NULL
                         ? (known + n_new) * rc_factor_numbers(w->d) * (sizeof(double) + sizeof(float))
                         : 0;
    size_t variances = w->learner->class_variance != NULL
                           ? (known + n_new) * d * sizeof(float) + n_new * d * sizeof(double)
                           : 0;
    return numbers * sizeof(double) + known * (d + 1) * sizeof(float) + drawn + factors + variances +
           rc_head_fit_bytes(w->examples, w->width, w->rows);
}

/* The number of the new class that an image shows, from 0 on; -1: one that was known before. */
static int new_class(const work *w, int image)
{
    int label = w->lesson->labels[image] - w->known;
    return label < 0 ? -1 : label;
}

static double *feature_of(const work *w, int example)
{
    return w->feature + (size_t)example * (size_t)w->width;
}

static rc_status take_room(work *w)
{
    const rc_learner *l = w->learner;
    size_t examples = (size_t)w->examples, d = (size_t)w->d, n_new = (size_t)w->lesson->n_new, known = (size_t)w->known;
    size_t width = (size_t)w->width;
    rc_memory_claim claim = {.what = "learning", .settings = &l->settings, .image = &l->augment, .batch = 1};
    RC_TRY(rc_memory_check(&claim, work_bytes(w)));
    w->feature = rc_alloc_zeroed(NULL, examples, width * sizeof *w->feature);
    w->centre = rc_alloc_zeroed(NULL, d, sizeof *w->centre);
    w->old_sum = rc_alloc_zeroed(NULL, examples, sizeof *w->old_sum);
    w->old_best = rc_alloc_zeroed(NULL, examples, sizeof *w->old_best);
    w->weight = rc_alloc_zeroed(NULL, examples, sizeof *w->weight);
    w->label = rc_alloc_zeroed(NULL, examples, sizeof *w->label);
    w->mean = rc_alloc_zeroed(NULL, n_new, d * sizeof *w->mean);
    w->images = rc_alloc_zeroed(NULL, n_new + 1, sizeof *w->images);
    w->old_row = rc_alloc_zeroed(NULL, known, d * sizeof *w->old_row);
    w->old_bias = rc_alloc_zeroed(NULL, known, sizeof *w->old_bias);
    w->row = rc_alloc_zeroed(NULL, (size_t)w->rows, width * sizeof *w->row);
    bool all = w->feature != NULL && w->centre != NULL && w->old_sum != NULL && w->old_best != NULL &&
               w->weight != NULL && w->label != NULL && w->mean != NULL && w->images != NULL && w->old_row != NULL &&
               w->old_bias != NULL && w->row != NULL;
    for (int i = 0; all && i < w->lesson->count; i++) {
        int label = new_class(w, i);
        w->label[i] = w->anew ? w->lesson->labels[i] : label;
        w->weight[i] = 1.0 / w->lesson->count;
        w->images[label < 0 ? w->lesson->n_new : label]++;
    }
    return all ? RC_OK : RC_OUT_OF_MEMORY;
}

static void give_back(work *w)
{
    rc_free(NULL, w->feature);
    rc_free(NULL, w->centre);
    rc_free(NULL, w->old_sum);
    rc_free(NULL, w->old_best);
    rc_free(NULL, w->weight);
    rc_free(NULL, w->label);
    rc_free(NULL, w->remembered_mean);
    rc_free(NULL, w->mean);
    rc_free(NULL, w->images);
    rc_free(NULL, w->old_row);
    rc_free(NULL, w->old_bias);
    rc_free(NULL, w->row);
}

/* Of one image: its features, and the sum and the largest of its logits. */
static void keep_answers(work *w, int image, const float *logit, const float *feature)
{
    float best = logit[0];
    double sum = 0;
    for (int k = 1; k < w->known; k++)
        best = logit[k] > best ? logit[k] : best;
    for (int k = 0; k < w->known; k++)
        sum += exp((double)logit[k] - (double)best);
    w->old_best[image] = (double)best;
    w->old_sum[image] = (double)best + log(sum);
    for (int j = 0; j < w->d; j++)
        feature_of(w, image)[j] = (double)feature[j];
}

/* Asks the net once for each image. */
static rc_status ask_net(work *w, rc_scorer *scorer, int batch, float *logits, float *features)
{
    const rc_augment *image = &w->learner->augment;
    size_t bytes = (size_t)image->h * (size_t)image->w * (size_t)image->c;
    rc_watch watch = *w->lesson->watch;
    double began = rc_now(), told = began;
    for (int from = 0, now; from < w->lesson->count; from += now) {
        now = w->lesson->count - from < batch ? w->lesson->count - from : batch;
        RC_TRY(rc_scorer_run(scorer, w->lesson->images + (size_t)from * bytes, NULL, now, logits, features));
        for (int i = 0; i < now; i++)
            keep_answers(w, from + i, logits + (size_t)i * (size_t)w->known, features + (size_t)i * (size_t)w->d);
        int done = from + now;
        if (from == 0)
            rc_forecast_tell(&watch.log, (rc_now() - began) * w->lesson->count / done, rc_bytes_allocated());
        if (done < w->lesson->count && rc_now() - told < 0.5)
            continue;
        told = rc_now();
        if (!rc_watch_scoring(&watch, "features of new images", done, w->lesson->count))
            return stopped("the net looked at the new images");
    }
    return RC_OK;
}

static rc_status find_features(work *w)
{
    enum { AT_ONCE = 64 };
    const rc_learner *l = w->learner;
    const rc_saved_model *taught = w->lesson->taught;
    rc_scorer *scorer = NULL;
    int wanted = taught->config.test_batch < AT_ONCE ? taught->config.test_batch : AT_ONCE, batch;
    if (wanted > w->lesson->count)
        wanted = w->lesson->count;
    RC_TRY(rc_scoring_batch(l->backend, &l->student, &l->settings, &l->augment, wanted > 1 ? wanted : 1, &batch));
    float *logits = rc_alloc_zeroed(NULL, (size_t)batch, (size_t)w->known * sizeof *logits);
    float *features = rc_alloc_zeroed(NULL, (size_t)batch, (size_t)w->d * sizeof *features);
    rc_status status = logits != NULL && features != NULL ? RC_OK : RC_OUT_OF_MEMORY;
    if (status == RC_OK)
        status = rc_scorer_create(l->backend, &l->student, batch, &l->augment, &scorer);
    if (status == RC_OK)
        status = rc_scorer_look(scorer, rc_config_views(&taught->config));
    if (status == RC_OK)
        status = ask_net(w, scorer, batch, logits, features);
    rc_scorer_destroy(scorer);
    rc_free(NULL, logits);
    rc_free(NULL, features);
    return status;
}

/* The mean of the means of known classes, where the class statistics have some: those of a model that was trained here
 * are of all its images. False: there are none. */
static bool centre_of_statistics(work *w)
{
    size_t d = (size_t)w->d;
    if (w->learner->class_mean == NULL || w->remembered == 0)
        return false;
    for (size_t k = 0; k < (size_t)w->remembered; k++)
        for (size_t j = 0; j < d; j++)
            w->centre[j] += w->remembered_mean[k * d + j] / w->remembered;
    return true;
}

/* Where features of the old classes are centred: by the class statistics; else by what the net's normalisations tell;
 * and where they tell nothing, as the new images have it. */
static rc_status find_centre(work *w)
{
    if (!centre_of_statistics(w))
        RC_TRY(rc_expected_features(&w->learner->student.backbone, w->centre));
    for (int j = 0; j < w->d; j++) {
        double sum = 0;
        for (int i = 0; i < w->lesson->count; i++)
            sum += feature_of(w, i)[j];
        if (!isfinite(w->centre[j]))
            w->centre[j] = sum / w->lesson->count;
    }
    for (int i = 0; i < w->lesson->count; i++)
        for (int j = 0; j < w->d; j++)
            feature_of(w, i)[j] -= w->centre[j];
    return RC_OK;
}

static rc_status read_old_rows(work *w)
{
    const rc_head *head = &w->learner->student.head;
    rc_backend *be = head->backend;
    be->read_real(be, w->old_row, head->weight, (size_t)w->known * (size_t)w->d);
    if (head->bias != NULL)
        be->read_real(be, w->old_bias, head->bias, (size_t)w->known);
    return be->sync(be);
}

/* Of one old class, at features that are not taken from the centre. */
static double old_logit(const work *w, size_t class, const double *feature)
{
    const float *row = w->old_row + class * (size_t)w->d;
    double logit = (double)w->old_bias[class];
    for (size_t j = 0; j < (size_t)w->d; j++)
        logit += (double)row[j] * feature[j];
    return logit;
}

/* The mean of the old logits at the centre, from which all old logits are then taken. */
static void find_base(work *w)
{
    for (size_t k = 0; k < (size_t)w->known; k++)
        w->base += old_logit(w, k, w->centre) / w->known;
    for (int i = 0; i < w->examples; i++) {
        w->old_sum[i] -= w->base;
        w->old_best[i] -= w->base;
    }
}

/* ---- what stands for classes that were learnt before ------------------------------------------------------------- */

/* Reads the means that the model has of known classes, and decides how many stand-ins each class gets. */
static rc_status remember(work *w)
{
    const rc_learner *l = w->learner;
    size_t d = (size_t)w->d, rows = (size_t)(l->class_mean != NULL ? l->statistics_classes : l->taught);
    w->examples = w->lesson->count;
    w->rows = w->lesson->n_new;
    w->width = w->d;
    if (rows == 0)
        return RC_OK;
    float *mean = rc_alloc_zeroed(NULL, rows, d * sizeof *mean);
    w->remembered_mean = rc_alloc_zeroed(NULL, rows, d * sizeof *w->remembered_mean);
    rc_status status = mean != NULL && w->remembered_mean != NULL ? RC_OK : RC_OUT_OF_MEMORY;
    if (status == RC_OK) {
        l->backend->read_real(l->backend, mean, l->class_mean != NULL ? l->class_mean : l->taught_mean, rows * d);
        status = l->backend->sync(l->backend);
    }
    for (size_t k = 0; status == RC_OK && k < rows; k++) {
        if (isnan(mean[k * d])) /* never estimated */
            continue;
        for (size_t j = 0; j < d; j++)
            w->remembered_mean[(size_t)w->remembered * d + j] = (double)mean[k * d + j];
        w->remembered++;
    }
    rc_free(NULL, mean);
    w->anew = rc_adapt_tells_all(l) && w->remembered == w->known; /* a file may claim what it does not hold */
    int most = w->anew ? DRAWN_PER_CLASS : PER_CLASS, all = w->anew ? DRAWN : STAND_INS;
    int share = w->remembered > 0 ? all / w->remembered : 0;
    w->per_class = share > most ? most : share > 1 ? share : 1;
    w->examples += w->remembered * w->per_class;
    w->rows += w->anew ? w->known : 0;
    w->width += w->anew;
    return status;
}

/* Of the new classes, from the centre. */
static void find_means(work *w)
{
    size_t d = (size_t)w->d;
    for (int i = 0; i < w->lesson->count; i++) {
        int class = new_class(w, i);
        for (size_t j = 0; j < d && class >= 0; j++)
            w->mean[(size_t) class * d + j] += feature_of(w, i)[j] / w->images[class];
    }
}

/* A stand-in, not taken from the centre: the mean of its class, and to it what an image of a new class has more than
 * the mean of its own. The factor makes up for that mean being taken of few images. */
static void place(const work *w, const double *mean, int image, double factor, double *feature)
{
    size_t d = (size_t)w->d;
    const double *own = w->mean + (size_t)w->label[image] * d, *at = feature_of(w, image);
    for (size_t j = 0; j < d; j++)
        feature[j] = mean[j] + factor * (at[j] - own[j]);
}

/* The old logits of a stand-in; then its features are taken from the centre. */
static void ask_old_rows(work *w, int example)
{
    double *feature = feature_of(w, example), best = old_logit(w, 0, feature), sum = 1;
    for (size_t k = 1; k < (size_t)w->known; k++) {
        double logit = old_logit(w, k, feature);
        sum = logit > best ? sum * exp(best - logit) + 1 : sum + exp(logit - best);
        best = fmax(best, logit);
    }
    w->old_best[example] = best;
    w->old_sum[example] = best + log(sum);
    for (int j = 0; j < w->d; j++)
        feature[j] -= w->centre[j];
}

/* Each class counts as much as a new one does. */
static void make_stand_ins(work *w)
{
    rc_rng rng = {w->learner->settings.seed, RC_STREAM_STAND_INS};
    int of_new = w->lesson->count - w->images[w->lesson->n_new], freedom = of_new - w->lesson->n_new;
    double factor = freedom > 0 ? sqrt((double)of_new / freedom) : 0;
    uint64_t drawn = 0;
    for (int i = w->lesson->count; of_new > 0 && i < w->examples; i++) {
        int image, class = (i - w->lesson->count) / w->per_class;
        do
            image = (int)rc_rng_below(rng, drawn++, (uint32_t)w->lesson->count);
        while (w->label[image] < 0);
        place(w, w->remembered_mean + (size_t) class * (size_t)w->d, image, factor, feature_of(w, i));
        ask_old_rows(w, i);
        w->label[i] = -1;
        w->weight[i] = 1.0 / ((double)w->lesson->n_new * w->per_class);
    }
}

/* What old rows say, of which nothing changes, and of whom. */
static rc_status hold_old_rows(work *w)
{
    RC_TRY(read_old_rows(w));
    make_stand_ins(w);
    find_base(w);
    return RC_OK;
}

/* ---- all rows anew ----------------------------------------------------------------------------------------------- */

/* Features of the known classes, drawn from their statistics: nobody has moved the net, so these hold. */
static rc_status draw_known(work *w)
{
    size_t d = (size_t)w->d, count = (size_t)w->known * (size_t)w->per_class;
    rc_rng rng = {w->learner->settings.seed, RC_STREAM_STAND_INS};
    rc_moved statistics;
    RC_TRY(rc_moved_read(w->learner, &statistics));
    float *drawn = rc_alloc_zeroed(NULL, count, d * sizeof *drawn);
    rc_status status = drawn != NULL ? RC_OK : RC_OUT_OF_MEMORY;
    if (status == RC_OK)
        rc_moved_draw(&statistics, rng, 0, w->per_class, drawn, w->label + w->lesson->count);
    for (size_t i = 0; status == RC_OK && i < count; i++)
        for (size_t j = 0; j < d; j++)
            feature_of(w, w->lesson->count + (int)i)[j] = (double)drawn[i * d + j] - w->centre[j];
    rc_free(NULL, drawn);
    rc_moved_destroy(&statistics);
    return status;
}

/* Each class counts the same, and no class is without a row. The constant, which becomes the bias, is as long as a
 * usual feature. */
static rc_status weigh_classes(work *w)
{
    int *count = rc_alloc_zeroed(NULL, (size_t)w->rows, sizeof *count);
    double square = 0;
    if (count == NULL)
        return RC_OUT_OF_MEMORY;
    for (int i = 0; i < w->examples; i++) {
        count[w->label[i]]++;
        square += rc_dot(feature_of(w, i), feature_of(w, i), (size_t)w->d) / w->examples;
    }
    w->constant = square > 0 ? sqrt(square) : 1;
    for (int i = 0; i < w->examples; i++) {
        w->weight[i] = 1.0 / ((double)w->rows * count[w->label[i]]);
        w->old_sum[i] = -(double)INFINITY;
        feature_of(w, i)[w->d] = w->constant;
    }
    rc_free(NULL, count);
    return RC_OK;
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* With hundreds of classes a fit takes minutes, and nobody sees how far it is: a look at all examples is timed before
 * it. */
static rc_status forecast(const work *w, const rc_head_examples *examples, const rc_head_rule *rule)
{
    enum { LOOKS = 150, WORTH_TIMING = 1 << 23 }; /* fits of 8 to 52 classes took 108 to 186 looks */
    double loss, began = rc_now();
    if ((double)w->examples * w->rows * w->width < WORTH_TIMING)
        return RC_OK;
    double *gradient = rc_alloc_zeroed(NULL, (size_t)w->rows, (size_t)w->width * sizeof *gradient);
    rc_status status = gradient != NULL ? rc_head_loss(examples, rule, w->row, gradient, &loss) : RC_OUT_OF_MEMORY;
    if (status == RC_OK)
        rc_forecast_tell(&w->lesson->watch->log, LOOKS * (rc_now() - began), rc_bytes_allocated());
    rc_free(NULL, gradient);
    return status;
}

static rc_status fit_rows(work *w)
{
    rc_head_examples examples = {.images = w->examples,
                                 .d = w->width,
                                 .classes = w->rows,
                                 .feature = w->feature,
                                 .label = w->label,
                                 .old_sum = w->old_sum,
                                 .old_best = w->old_best,
                                 .weight = w->weight};
    rc_head_rule rule = rc_head_usual_rule();
    rc_pool *pool;
    if (w->anew)
        rule.margin = (double)INFINITY; /* old classes are among the examples */
    RC_TRY(rc_pool_create(w->lesson->threads, &pool));
    examples.pool = pool;
    rc_status status = w->anew ? forecast(w, &examples, &rule) : RC_OK;
    if (status == RC_OK)
        status = rc_head_fit(&examples, &rule, w->row, &w->fitted);
    rc_pool_destroy(pool);
    if (status == RC_CANCELLED)
        return stopped("the head learnt");
    if (status == RC_OK && w->fitted.shift < 0)
        rc_log_write(&w->lesson->watch->log, RC_LOG_INFO,
                     "new classes stood %.1f above the best old one on images that were left out, and were lowered by "
                     "%.1f, so that they claim fewer old images",
                     w->fitted.median, -w->fitted.shift);
    return status;
}

/* All rows, or the new ones behind the old ones, which are copied as they are. */
static rc_status write_rows(work *w)
{
    rc_head *head = &w->learner->student.head;
    rc_backend *be = head->backend;
    size_t d = (size_t)w->d, width = (size_t)w->width, rows = (size_t)w->rows, first = w->anew ? 0 : (size_t)w->known;
    float *row = rc_alloc_zeroed(NULL, rows, (d + 1) * sizeof *row);
    float *bias = row != NULL ? row + rows * d : NULL;
    rc_status status = row != NULL ? rc_head_grow(head, w->lesson->n_new, (rc_rng){0, 0}) : RC_OUT_OF_MEMORY;
    if (status == RC_OK)
        status = rc_head_add_bias(head);
    for (size_t k = 0; status == RC_OK && k < rows; k++) {
        double at_zero = w->anew ? w->row[k * width + d] * w->constant : w->base + w->fitted.shift;
        for (size_t j = 0; j < d; j++) {
            row[k * d + j] = (float)w->row[k * width + j];
            at_zero -= (double)row[k * d + j] * w->centre[j];
        }
        bias[k] = (float)at_zero;
    }
    if (status == RC_OK) {
        be->write_real(be, rc_real_at(be, head->weight, first * d), row, rows * d);
        be->write_real(be, rc_real_at(be, head->bias, first), bias, rows);
        status = be->sync(be);
    }
    rc_free(NULL, row);
    return status;
}

/* ---- class statistics -------------------------------------------------------------------------------------------- */

/* How the images of new classes scatter around the means of these. */
static void gather(const work *w, double *scatter)
{
    size_t d = (size_t)w->d;
    for (int i = 0; i < w->lesson->count; i++) {
        int class = new_class(w, i);
        if (class < 0)
            continue;
        const double *feature = feature_of(w, i), *own = w->mean + (size_t) class * d;
        for (size_t a = 0; a < d; a++)
            for (size_t b = 0; b < d; b++)
                scatter[a * d + b] += (feature[a] - own[a]) * (feature[b] - own[b]);
    }
}

/* The net has not changed, so what is known of old classes stays true. The tied covariance becomes the mean over
 * classes of what was and of what the new images have, if any class has two. */
static rc_status write_covariance(work *w, double *scatter, float *host)
{
    rc_backend *be = w->learner->backend;
    size_t d = (size_t)w->d;
    double known = w->known, n_new = w->lesson->n_new;
    int freedom = w->lesson->count - w->images[w->lesson->n_new] - w->lesson->n_new;
    if (freedom < 1)
        return RC_OK;
    gather(w, scatter);
    be->read_real(be, host, w->learner->covariance, d * d);
    RC_TRY(be->sync(be));
    for (size_t i = 0; i < d * d; i++)
        host[i] = (float)((known * (double)host[i] + n_new * scatter[i] / freedom) / (known + n_new));
    be->write_real(be, w->learner->covariance, host, d * d);
    return be->sync(be);
}

/* Classes with variances of their own keep both in 16 bits. */
static float rounded(double value, bool halves)
{
    return halves ? rc_half_to_float(rc_half_from_float((float)value)) : (float)value;
}

static rc_status write_means(work *w, void *to, bool halves, float *host)
{
    rc_backend *be = w->learner->backend;
    size_t d = (size_t)w->d, count = (size_t)w->lesson->n_new * d;
    for (size_t i = 0; i < count; i++)
        host[i] = rounded(w->mean[i] + w->centre[i % d], halves);
    be->write_real(be, to, host, count);
    return be->sync(be);
}

/* A model without class statistics keeps the means alone, for lessons to come. */
static rc_status keep_means(work *w)
{
    rc_learner *l = w->learner;
    size_t d = (size_t)w->d, n_new = (size_t)w->lesson->n_new, before = (size_t)l->taught;
    float *host = rc_alloc_zeroed(NULL, n_new, d * sizeof *host);
    rc_status status = host != NULL ? rc_learner_grow_taught(l, w->lesson->n_new) : RC_OUT_OF_MEMORY;
    if (status == RC_OK)
        status = write_means(w, rc_real_at(l->backend, l->taught_mean, before * d), false, host);
    rc_free(NULL, host);
    return status;
}

/* Factors of the new classes behind those of the known ones; factor (known + n_new, numbers). shared: (d, d), for its
 * use. A class whose features are no covariance leaves the model without factors. */
static rc_status write_factors(work *w, double *shared, float *factor)
{
    rc_learner *l = w->learner;
    rc_backend *be = l->backend;
    size_t d = (size_t)w->d, numbers = rc_factor_numbers(w->d);
    rc_scatter scatter;
    RC_TRY(rc_scatter_create(w->d, w->lesson->n_new, &scatter));
    for (int i = 0; i < w->lesson->count; i++)
        if (new_class(w, i) >= 0)
            rc_scatter_add(&scatter, new_class(w, i), feature_of(w, i));
    be->read_real64(be, shared, l->covariance, d * d);
    rc_status status = be->sync(be);
    if (status == RC_OK)
        status = rc_scatter_factors(&scatter, shared, factor + (size_t)w->known * numbers);
    rc_scatter_destroy(&scatter);
    if (status == RC_NUMERIC)
        return RC_OK;
    return status == RC_OK ? rc_learner_write_factors(l, factor) : status;
}

/* Variances of the new classes behind those of the known ones; variance (known + n_new, d). */
static rc_status write_variances(work *w, float *variance)
{
    rc_learner *l = w->learner;
    rc_backend *be = l->backend;
    size_t d = (size_t)w->d, known = (size_t)w->known, n_new = (size_t)w->lesson->n_new;
    double *own = rc_alloc_zeroed(NULL, n_new, d * sizeof *own);
    if (own == NULL)
        return RC_OUT_OF_MEMORY;
    for (int i = 0; i < w->lesson->count; i++) {
        int class = new_class(w, i);
        for (size_t j = 0; j < d && class >= 0; j++) {
            double beyond = feature_of(w, i)[j] - w->mean[(size_t) class * d + j];
            own[(size_t) class * d + j] += beyond * beyond / w->images[class];
        }
    }
    for (size_t i = 0; i < n_new * d; i++)
        variance[known * d + i] = rounded(own[i], true);
    rc_free(NULL, own);
    RC_TRY(rc_learner_keep_variances(l));
    be->write_real(be, l->class_variance, variance, (known + n_new) * d);
    return be->sync(be);
}

/* What known classes have, and room for the new ones behind it: (known + n_new, numbers). NULL: they have none. */
static rc_status read_known(const work *w, const void *from, size_t numbers, float **rows)
{
    rc_backend *be = w->learner->backend;
    size_t known = (size_t)w->known;
    *rows = NULL;
    if (from == NULL)
        return RC_OK;
    *rows = rc_alloc_zeroed(NULL, known + (size_t)w->lesson->n_new, numbers * sizeof **rows);
    if (*rows == NULL)
        return RC_OUT_OF_MEMORY;
    be->read_real(be, *rows, from, known * numbers);
    return be->sync(be);
}

/* Where classes have factors or variances, the new ones get some, too. */
static rc_status extend_statistics(work *w)
{
    rc_learner *l = w->learner;
    size_t d = (size_t)w->d, n_new = (size_t)w->lesson->n_new;
    float *factor = NULL, *variance = NULL;
    if (l->class_mean == NULL)
        return keep_means(w);
    rc_status status = read_known(w, l->class_factor, rc_factor_numbers(w->d), &factor);
    if (status == RC_OK)
        status = read_known(w, l->class_variance, d, &variance);
    double *scatter = rc_alloc_zeroed(NULL, d, d * sizeof *scatter);
    float *host = rc_alloc_zeroed(NULL, d > n_new ? d : n_new, d * sizeof *host);
    if (scatter == NULL || host == NULL)
        status = RC_OUT_OF_MEMORY;
    if (status == RC_OK)
        status = rc_learner_grow_statistics(l);
    if (status == RC_OK)
        status = write_means(w, rc_real_at(l->backend, l->class_mean, (size_t)w->known * d), variance != NULL, host);
    if (status == RC_OK)
        status = write_covariance(w, scatter, host);
    if (status == RC_OK && variance != NULL)
        status = write_variances(w, variance);
    if (status == RC_OK && factor != NULL)
        status = write_factors(w, scatter, factor);
    rc_free(NULL, factor);
    rc_free(NULL, variance);
    rc_free(NULL, scatter);
    rc_free(NULL, host);
    return status;
}

static rc_status learn_rows(work *w)
{
    double began = rc_now();
    RC_TRY(remember(w));
    RC_TRY(take_room(w));
    RC_TRY(find_features(w));
    w->lesson->wall[RC_STAGE_ESTIMATION] = rc_now() - began;
    began = rc_now();
    RC_TRY(find_centre(w));
    find_means(w);
    RC_TRY(w->anew ? draw_known(w) : hold_old_rows(w));
    if (w->anew)
        RC_TRY(weigh_classes(w));
    RC_TRY(fit_rows(w));
    w->lesson->wall[RC_STAGE_TRAINING] = rc_now() - began;
    RC_TRY(write_rows(w));
    return extend_statistics(w);
}

rc_status rc_adapt_head(const rc_head_lesson *lesson)
{
    rc_learner *l = &lesson->taught->learner;
    work w = {.lesson = lesson, .learner = l, .known = l->student.head.classes, .d = l->student.head.d};
    rc_status status = learn_rows(&w);
    give_back(&w);
    return status;
}
