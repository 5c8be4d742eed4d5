#include "api/dream.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "api/predictor.h"
#include "base/clock.h"
#include "base/memory.h"
#include "cil/dream_batch.h"
#include "cil/sources.h"
#include "forecast/forecast.h"

enum { TRIES = 16 };

/* ---- inversion --------------------------------------------------------------------------------------------------- */

static rc_status invert(rc_learner *l, const rc_watch *watch)
{
    uint32_t step;
    rc_status status = rc_watch_inversion(watch, l, &step);
    return status != RC_CANCELLED ? status
                                  : rc_fail(RC_CANCELLED, "stopped after step %u of %u; nothing was written", step,
                                            rc_stage_steps(l, RC_STAGE_INVERSION));
}

/* ---- sampling ---------------------------------------------------------------------------------------------------- */

typedef struct sampler {
    rc_dream_batch batch;
    int32_t *labels; /* (batch) */
    float *logits;   /* (batch, classes) */
    double *pixels;  /* (batch, h, w, c) normalised */
} sampler;

static rc_status build_sampler(rc_learner *l, sampler *s)
{
    *s = (sampler){0};
    RC_TRY(rc_dream_batch_create(l, &s->batch));
    size_t n = (size_t)s->batch.n, classes = (size_t)s->batch.classes, pixels = (size_t)l->net.h * (size_t)l->net.w;
    size_t channels = (size_t)l->net.c;
    if (l->backend->sizing)
        return rc_backend_count_scratch(l->backend,
                                        n * (classes * sizeof *s->logits + pixels * channels * sizeof *s->pixels));
    s->labels = rc_alloc_zeroed(NULL, n, sizeof *s->labels);
    s->logits = rc_alloc_zeroed(NULL, n * classes, sizeof *s->logits);
    s->pixels = rc_alloc_zeroed(NULL, n * pixels, channels * sizeof *s->pixels);
    return s->labels != NULL && s->logits != NULL && s->pixels != NULL ? RC_OK : RC_OUT_OF_MEMORY;
}

static void destroy_sampler(sampler *s)
{
    rc_dream_batch_destroy(&s->batch);
    rc_free(NULL, s->labels);
    rc_free(NULL, s->logits);
    rc_free(NULL, s->pixels);
}

/* A batch of dreams and the classes that the model takes them for. */
static rc_status draw(sampler *s, uint32_t index)
{
    rc_dream_batch *b = &s->batch;
    rc_backend *be = b->learner->backend;
    rc_dream_batch_draw(b, index);
    RC_TRY(be->sync(be));
    be->read_bytes(be, s->labels, b->labels, (size_t)b->n * sizeof *s->labels);
    be->read_real(be, s->logits, b->logits, (size_t)b->n * (size_t)b->classes);
    be->read_act(be, s->pixels, &b->dreams, b->dreams.raw);
    return be->sync(be);
}

/* How many are made at most, but for the rest of a batch. */
static int most_tries(const rc_dreams *d, int per_class)
{
    return TRIES * d->classes * per_class;
}

int rc_dreams_of(const rc_dreams *d, int label, int per_class)
{
    const int *earlier = d->earlier + (size_t)label * (size_t)d->per_class;
    int most = per_class < d->kept[label] ? per_class : d->kept[label], count = 0;
    while (count < most && earlier[count] < most_tries(d, per_class))
        count++;
    return count;
}

/* Keeps the dreams of a batch of which more are wanted; returns how many classes still lack some. */
static int keep(const sampler *s, rc_dreams *d)
{
    size_t image = (size_t)d->h * (size_t)d->w * (size_t)d->c;
    int lacking = 0, earlier = d->sampled;
    for (int i = 0; i < s->batch.n; i++) {
        int label = s->labels[i];
        d->sampled++;
        d->count[label]++;
        if (d->kept[label] == d->per_class)
            continue;
        size_t place = (size_t)label * (size_t)d->per_class + (size_t)d->kept[label]++;
        d->earlier[place] = earlier;
        rc_learner_show(s->batch.learner, s->pixels + (size_t)i * image, d->images + place * image);
        d->probability[place] = (float)rc_probability_of(s->logits + (size_t)i * (size_t)s->batch.classes,
                                                         s->batch.classes, d->temperature, label);
    }
    for (int label = 0; label < d->classes; label++)
        lacking += d->kept[label] < d->per_class;
    return lacking;
}

/* For the forecast. */
static rc_status size_sampler(rc_learner *shadow)
{
    sampler s;
    rc_status status = build_sampler(shadow, &s);
    destroy_sampler(&s);
    return status;
}

static rc_status sample(rc_learner *l, const rc_watch *watch, rc_dreams *d)
{
    sampler s;
    int most = most_tries(d, d->per_class);
    rc_status status = build_sampler(l, &s);
    for (uint32_t index = 0; status == RC_OK && d->sampled < most; index++) {
        status = draw(&s, index);
        if (status != RC_OK || keep(&s, d) == 0)
            break;
        if (rc_watch_cancelled(watch))
            status = rc_fail(RC_CANCELLED, "stopped after %d dreams; nothing was written", d->sampled);
    }
    destroy_sampler(&s);
    return status;
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

static void measure_spread(const rc_augment *image, rc_dreams *d)
{
    size_t pixels = (size_t)d->h * (size_t)d->w * (size_t)d->c;
    for (int label = 0; label < d->classes; label++) {
        const uint8_t *first = d->images + (size_t)label * (size_t)d->per_class * pixels;
        double total = 0;
        for (size_t p = 0; p < pixels; p++) {
            double sum = 0, square = 0, n = d->kept[label];
            for (int i = 0; i < d->kept[label]; i++) {
                double value = first[(size_t)i * pixels + p] / 255.0;
                sum += value;
                square += value * value;
            }
            double variance = n > 1 ? (square - sum * sum / n) / (n - 1) : 0;
            total += sqrt(variance > 0 ? variance : 0) / (double)image->std[p % (size_t)d->c];
        }
        d->spread[label] = d->kept[label] > 1 ? total / (double)pixels : (double)NAN;
    }
}

static rc_status allocate(rc_dreams *d, const rc_learner *l, int per_class)
{
    size_t classes = (size_t)l->student.head.classes, count, bytes;
    d->classes = (int)classes;
    d->per_class = per_class;
    d->h = l->augment.h;
    d->w = l->augment.w;
    d->c = l->augment.c;
    if (!rc_size_mul(classes, (size_t)per_class, &count) ||
        !rc_size_mul(count, (size_t)d->h * (size_t)d->w * (size_t)d->c, &bytes) || count > 1u << 24)
        return rc_fail(RC_INVALID_ARGUMENT, "%d dreams of each of %zu classes are too many", per_class, classes);
    d->kept = rc_alloc_zeroed(NULL, classes, sizeof *d->kept);
    d->earlier = rc_alloc_zeroed(NULL, count, sizeof *d->earlier);
    d->count = rc_alloc_zeroed(NULL, classes, sizeof *d->count);
    d->spread = rc_alloc_zeroed(NULL, classes, sizeof *d->spread);
    d->images = rc_alloc_zeroed(NULL, bytes, 1);
    d->probability = rc_alloc_zeroed(NULL, count, sizeof *d->probability);
    for (size_t i = 0; d->probability != NULL && i < count; i++)
        d->probability[i] = NAN;
    return d->kept != NULL && d->earlier != NULL && d->count != NULL && d->spread != NULL && d->images != NULL &&
                   d->probability != NULL
               ? RC_OK
               : RC_OUT_OF_MEMORY;
}

/* By the configuration, as files have it: the learner has what its last lesson made of that. */
static rc_status choose_settings(const rc_saved_model *model, const rc_dream_settings *settings, rc_settings *out)
{
    rc_config config = model->config;
    if (settings->seed != NULL)
        RC_TRY(rc_config_set(&config, "seed", settings->seed));
    *out = config.settings;
    if (settings->steps > 0) {
        out->inversion_steps = settings->steps;
    } else if (out->inversion_steps > RC_DREAM_STEPS) {
        rc_log_write(&settings->watch.log, RC_LOG_INFO,
                     "note: %d steps of inversion, enough for a look; the setting 'steps' of %d does "
                     "as many as the model's configuration asks for",
                     RC_DREAM_STEPS, out->inversion_steps);
        out->inversion_steps = RC_DREAM_STEPS;
    }
    return RC_OK;
}

static rc_status dream(rc_learner *l, const rc_settings *chosen, const rc_dream_settings *settings, rc_dreams *d)
{
    const rc_method *method = l->method;
    if (!method->replay->dreams)
        RC_TRY(rc_method_find("cwd", &method));
    rc_task_claim claim = {.settings = chosen,
                           .method = method,
                           .image = &l->augment,
                           .n_old = l->student.head.classes,
                           .head_bias = l->student.head.bias != NULL,
                           .also = size_sampler};
    RC_TRY(rc_forecast_allow(l->backend, &claim, "dreaming"));
    RC_TRY(rc_learner_configure(l, chosen, method));
    RC_TRY(allocate(d, l, settings->per_class));
    d->steps = chosen->inversion_steps;
    RC_TRY(rc_learner_begin_dreams(l));
    RC_TRY(invert(l, &settings->watch));
    RC_TRY(sample(l, &settings->watch, d));
    measure_spread(&l->augment, d);
    return RC_OK;
}

rc_status rc_dream(rc_saved_model *model, const rc_dream_settings *settings, rc_dreams *dreams)
{
    rc_learner *l = &model->learner;
    const rc_settings before = l->settings;
    const rc_method *method = l->method;
    rc_settings chosen;
    memset(dreams, 0, sizeof *dreams);
    dreams->temperature = rc_calibration_temperature(&model->calibration);
    if (settings->per_class < 1)
        return rc_fail(RC_INVALID_ARGUMENT, "%d dreams of every class, expected 1 or more", settings->per_class);
    RC_TRY(choose_settings(model, settings, &chosen));
    /* Dreams have a source of their own; the model's stays as it is. */
    rc_source *kept = l->source;
    rc_status status = rc_source_create(&rc_source_none, l, &chosen, method, &l->source);
    if (status == RC_OK)
        status = dream(l, &chosen, settings, dreams);
    rc_learner_end_task(l);
    rc_source_destroy(l->source);
    l->source = kept;
    l->settings = before;
    l->method = method;
    if (status != RC_OK)
        rc_dreams_destroy(dreams);
    return status;
}

void rc_dreams_destroy(rc_dreams *dreams)
{
    rc_free(NULL, dreams->kept);
    rc_free(NULL, dreams->earlier);
    rc_free(NULL, dreams->count);
    rc_free(NULL, dreams->spread);
    rc_free(NULL, dreams->images);
    rc_free(NULL, dreams->probability);
    memset(dreams, 0, sizeof *dreams);
}
