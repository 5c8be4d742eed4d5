#include "api/dream.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "api/predictor.h"
#include "base/clock.h"
#include "base/memory.h"
#include "cil/sources.h"
#include "forecast/forecast.h"
#include "nn/pass.h"

enum { TRIES = 16 };

/* ---- inversion --------------------------------------------------------------------------------------------------- */

typedef struct inversion_watch {
    const rc_watch *watch;
    rc_forecast forecast;
    uint32_t step; /* as seen last */
} inversion_watch;

static rc_status boundary(void *user, const rc_stage_report *report)
{
    inversion_watch *w = user;
    rc_pace pace;
    rc_forecast_update(&w->forecast, report, &pace);
    rc_watch_stage(w->watch, report, &pace);
    w->step = report->step;
    return rc_watch_cancelled(w->watch) ? RC_CANCELLED : RC_OK;
}

static rc_status invert(rc_learner *l, const rc_watch *watch)
{
    inversion_watch w = {.watch = watch};
    rc_stage_hooks hooks = {.boundary = boundary, .user = &w, .interval = 0.5};
    rc_forecast_begin_task(&w.forecast, l, NULL);
    rc_status status = rc_stage_inversion(l, 0, &hooks);
    return status != RC_CANCELLED ? status
                                  : rc_fail(RC_CANCELLED, "stopped after step %u of %u; nothing was written", w.step,
                                            rc_stage_steps(l, RC_STAGE_INVERSION));
}

/* ---- sampling ---------------------------------------------------------------------------------------------------- */

typedef struct sampler {
    rc_learner *learner;
    rc_backend *backend;
    int batch, d, classes;
    rc_replay *replay;
    rc_pass *teacher_pass;
    rc_tensor dreams; /* (batch, h, w, c) */
    void *memory;     /* backend: step, labels, logits */
    rc_step *step;
    int32_t *labels;
    void *logits;
    int32_t *host_labels; /* (batch) */
    float *host_logits;   /* (batch, classes) */
    double *pixels;       /* (batch, h, w, c) normalised */
} sampler;

static void carve(void *owner, rc_arena *arena)
{
    sampler *s = owner;
    s->step = rc_arena_take(arena, sizeof *s->step);
    s->labels = rc_arena_take_array(arena, (size_t)s->batch, sizeof *s->labels);
    s->logits = rc_arena_take_array(arena, (size_t)s->batch * (size_t)s->classes, s->backend->real_bytes);
}

static rc_status build_sampler(sampler *s)
{
    rc_learner *l = s->learner;
    rc_backend *be = s->backend;
    rc_pass_settings eval = {.mode = RC_PASS_EVAL, .n = s->batch, .constant_model = true};
    RC_TRY(rc_learner_replay(l, RC_STREAM_SAMPLE, &s->replay));
    RC_TRY(rc_pass_create(be, &l->net, &eval, &s->teacher_pass));
    rc_pass_prepare(s->teacher_pass, &l->teacher.backbone);
    RC_TRY(rc_tensor_create(be, s->batch, l->net.h, l->net.w, l->net.c, &s->dreams));
    RC_TRY(be->reserve_dense(be, s->batch, s->d, s->classes));
    RC_TRY(rc_backend_carve(be, "dreams", carve, s, &s->memory, NULL));
    if (be->sizing)
        return rc_backend_count_scratch(be, (size_t)s->batch * ((size_t)s->classes * sizeof *s->host_logits +
                                                                (size_t)l->net.h * (size_t)l->net.w * (size_t)l->net.c *
                                                                    sizeof *s->pixels));
    s->host_labels = rc_alloc_zeroed(NULL, (size_t)s->batch, sizeof *s->host_labels);
    s->host_logits = rc_alloc_zeroed(NULL, (size_t)s->batch * (size_t)s->classes, sizeof *s->host_logits);
    s->pixels = rc_alloc_zeroed(NULL, (size_t)s->batch * (size_t)l->net.h * (size_t)l->net.w,
                                (size_t)l->net.c * sizeof *s->pixels);
    return s->host_labels != NULL && s->host_logits != NULL && s->pixels != NULL ? RC_OK : RC_OUT_OF_MEMORY;
}

static void destroy_sampler(sampler *s)
{
    rc_replay_destroy(s->replay);
    rc_pass_destroy(s->teacher_pass);
    rc_tensor_destroy(s->backend, &s->dreams);
    s->backend->release(s->backend, s->memory);
    rc_free(NULL, s->host_labels);
    rc_free(NULL, s->host_logits);
    rc_free(NULL, s->pixels);
}

/* A batch of dreams and the classes that the model takes them for. */
static rc_status draw(sampler *s, uint32_t index)
{
    rc_learner *l = s->learner;
    rc_backend *be = s->backend;
    rc_step control = {.seed = l->settings.seed, .task = (uint32_t)l->task, .step = index, .batch = index};
    be->write_bytes(be, s->step, &control, sizeof control);
    s->replay->table->draw(s->replay, s->step, &s->dreams, s->labels);
    rc_pass_forward(s->teacher_pass, &l->teacher.backbone, &s->dreams);
    be->dense_forward(be, s->batch, s->d, s->classes, rc_pass_features(s->teacher_pass), l->teacher.head.weight, NULL,
                      s->logits, s->classes);
    be->argmax(be, s->batch, s->classes, s->classes, s->logits, s->labels);
    RC_TRY(be->sync(be));
    be->read_bytes(be, s->host_labels, s->labels, (size_t)s->batch * sizeof *s->labels);
    be->read_real(be, s->host_logits, s->logits, (size_t)s->batch * (size_t)s->classes);
    be->read_act(be, s->pixels, &s->dreams, s->dreams.raw);
    return be->sync(be);
}

/* Normalised pixels back to bytes. */
static void to_bytes(const rc_augment *image, const double *pixels, uint8_t *out)
{
    size_t count = (size_t)image->h * (size_t)image->w * (size_t)image->c;
    for (size_t i = 0; i < count; i++) {
        size_t c = i % (size_t)image->c;
        double value = 255 * (pixels[i] * (double)image->std[c] + (double)image->mean[c]);
        out[i] = (uint8_t)(value >= 255 ? 255 : value > 0 ? value + 0.5 : 0);
    }
}

/* Keeps the dreams of a batch of which more are wanted; returns how many classes still lack some. */
static int keep(const sampler *s, rc_dreams *d)
{
    size_t image = (size_t)d->h * (size_t)d->w * (size_t)d->c;
    int lacking = 0;
    for (int i = 0; i < s->batch; i++) {
        int label = s->host_labels[i];
        d->sampled++;
        d->count[label]++;
        if (d->kept[label] == d->per_class)
            continue;
        size_t place = (size_t)label * (size_t)d->per_class + (size_t)d->kept[label]++;
        to_bytes(&s->learner->augment, s->pixels + (size_t)i * image, d->images + place * image);
        d->probability[place] = (float)rc_probability_of(s->host_logits + (size_t)i * (size_t)s->classes, s->classes,
                                                         label);
    }
    for (int label = 0; label < d->classes; label++)
        lacking += d->kept[label] < d->per_class;
    return lacking;
}

static sampler sampler_of(rc_learner *l)
{
    return (sampler){
        .learner = l, .backend = l->backend, .batch = l->settings.batch, .d = l->student.head.d, .classes = l->n_old};
}

/* For the forecast. */
static rc_status size_sampler(rc_learner *shadow)
{
    sampler s = sampler_of(shadow);
    rc_status status = build_sampler(&s);
    destroy_sampler(&s);
    return status;
}

static rc_status sample(rc_learner *l, const rc_watch *watch, rc_dreams *d)
{
    sampler s = sampler_of(l);
    int most = TRIES * d->classes * d->per_class;
    rc_status status = build_sampler(&s);
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
    d->count = rc_alloc_zeroed(NULL, classes, sizeof *d->count);
    d->spread = rc_alloc_zeroed(NULL, classes, sizeof *d->spread);
    d->images = rc_alloc_zeroed(NULL, bytes, 1);
    d->probability = rc_alloc_zeroed(NULL, count, sizeof *d->probability);
    for (size_t i = 0; d->probability != NULL && i < count; i++)
        d->probability[i] = NAN;
    return d->kept != NULL && d->count != NULL && d->spread != NULL && d->images != NULL && d->probability != NULL
               ? RC_OK
               : RC_OUT_OF_MEMORY;
}

static rc_status choose_settings(const rc_saved_model *model, const rc_dream_settings *settings, rc_settings *out)
{
    rc_config config = model->config;
    config.settings = model->learner.settings;
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
    rc_free(NULL, dreams->count);
    rc_free(NULL, dreams->spread);
    rc_free(NULL, dreams->images);
    rc_free(NULL, dreams->probability);
    memset(dreams, 0, sizeof *dreams);
}
