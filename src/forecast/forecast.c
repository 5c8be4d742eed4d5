#include "forecast/forecast.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "cil/task_stream.h"
#include "forecast/allowance.h"

/* Multiply-adds of a step relative to a training step without replay, on the published nets: forward and backward of
 * the classifier count 3, forward alone 1, the generator twice the classifier. For an autoencoder they are a guess. */
static const double relative[RC_TASK_KINDS][RC_STAGE_COUNT] = {
    {1, 1, 1, 0.4}, {2.7, 3.2, 2, 1.2}, {1.7, 2, 1.3, 0.4}, {1, 6, 1, 0.4}};

/* ---- work ----------------------------------------------------------------------------------------------------- */

rc_task_kind rc_task_kind_of(const rc_method *method, int n_old)
{
    if (method->replay->learns != NULL)
        return RC_TASK_LEARNS;
    if (rc_method_dreams(method, n_old))
        return RC_TASK_DREAMS;
    return rc_method_replays(method, n_old) ? RC_TASK_STORED : RC_TASK_PLAIN;
}

void rc_workload_add(rc_workload *work, const rc_settings *settings, const rc_method *method, int n_old, int n_new,
                     int images)
{
    rc_task_size task = {settings, method, n_old, n_new, rc_epoch_batches(images, settings->batch)};
    rc_task_kind kind = rc_task_kind_of(method, n_old);
    for (int i = 0; i < RC_STAGE_COUNT; i++)
        work->steps[kind][i] += rc_task_steps(&task, (rc_stage)i);
}

double rc_workload_steps(const rc_workload *work)
{
    double sum = 0;
    for (int i = 0; i < RC_TASK_KINDS * RC_STAGE_COUNT; i++)
        sum += work->steps[i / RC_STAGE_COUNT][i % RC_STAGE_COUNT];
    return sum;
}

/* Of the task at hand. */
static rc_task_kind kind_of(const rc_learner *l)
{
    return rc_task_kind_of(l->method, l->n_old);
}

/* ---- as it goes ----------------------------------------------------------------------------------------------- */

void rc_forecast_begin_task(rc_forecast *f, const rc_learner *learner, const rc_workload *later)
{
    f->kind = kind_of(learner);
    f->fraction = 0;
    f->last_time = rc_now();
    f->last_step = 0;
    f->last_stage = RC_STAGE_COUNT;
    f->later = later != NULL ? *later : (rc_workload){0};
    for (int i = 0; i < RC_STAGE_COUNT; i++)
        f->task_steps[i] = rc_stage_steps(learner, (rc_stage)i);
}

/* Seconds of one step: measured, or scaled from any stage that was, of the same kind if there is one. */
static double guess(const rc_forecast *f, int kind, int stage)
{
    if (f->per_step[kind][stage] > 0)
        return f->per_step[kind][stage];
    for (int k = 0; k < RC_TASK_KINDS; k++) {
        int other = (kind + RC_TASK_KINDS - k) % RC_TASK_KINDS;
        for (int i = 0; i < RC_STAGE_COUNT; i++)
            if (f->per_step[other][i] > 0)
                return f->per_step[other][i] * relative[kind][stage] / relative[other][i];
    }
    return NAN;
}

/* The same where only ratios count, which are known before anything is measured. */
static double weight(const rc_forecast *f, int kind, int stage)
{
    double seconds = guess(f, kind, stage);
    return isnan(seconds) ? relative[kind][stage] : seconds;
}

double rc_forecast_seconds(const rc_forecast *f, const rc_workload *work)
{
    double sum = 0;
    for (int k = 0; k < RC_TASK_KINDS; k++)
        for (int i = 0; i < RC_STAGE_COUNT; i++)
            sum += work->steps[k][i] > 0 ? work->steps[k][i] * guess(f, k, i) : 0;
    return sum;
}

double rc_forecast_weight(const rc_forecast *f, const rc_workload *work)
{
    double sum = 0;
    for (int k = 0; k < RC_TASK_KINDS; k++)
        for (int i = 0; i < RC_STAGE_COUNT; i++)
            sum += work->steps[k][i] * weight(f, k, i);
    return sum;
}

/* Which part of the steps of the task and of what comes after it is done, each as dear as it is in seconds. */
static double fraction_done(const rc_forecast *f, const rc_stage_report *report)
{
    double done = 0, all = rc_forecast_weight(f, &f->later);
    for (int i = 0; i < RC_STAGE_COUNT; i++) {
        double price = weight(f, f->kind, i);
        all += f->task_steps[i] * price;
        done += (i < (int)report->stage ? f->task_steps[i] : i == (int)report->stage ? report->step : 0) * price;
    }
    return all > 0 ? done / all : NAN;
}

void rc_forecast_update(rc_forecast *f, const rc_stage_report *report, rc_pace *pace)
{
    double now = rc_now(), passed = now - f->last_time;
    bool same = f->last_stage == report->stage && report->step > f->last_step;
    if (same && passed > 0) {
        double measured = passed / (report->step - f->last_step), *known = &f->per_step[f->kind][report->stage];
        *known = *known > 0 ? 0.7 * *known + 0.3 * measured : measured;
    }
    f->last_time = now;
    f->last_step = report->step;
    f->last_stage = report->stage;
    double step = guess(f, f->kind, report->stage);
    pace->images_per_second = step > 0 ? report->images_per_step / step : NAN;
    pace->stage_left = report->step < report->steps ? step * (report->steps - report->step) : 0;
    pace->left = pace->stage_left + rc_forecast_seconds(f, &f->later);
    for (int i = (int)report->stage + 1; i < RC_STAGE_COUNT; i++)
        pace->left += f->task_steps[i] > 0 ? f->task_steps[i] * guess(f, f->kind, i) : 0;
    f->fraction = fmax(f->fraction, fmin(fraction_done(f, report), 1));
    pace->fraction = f->fraction;
}

/* ---- before it begins ----------------------------------------------------------------------------------------- */

/* The first step touches memory for the first time; the fastest of the others counts. `reset` comes before each. */
static rc_status time_step(rc_backend *be, void (*step)(void *), void *context, void (*reset)(void *), double *seconds)
{
    enum { STEPS = 3 };
    *seconds = INFINITY;
    for (int i = 0; i < STEPS; i++) {
        reset(context);
        double began = rc_now();
        RC_TRY(be->repeat(be, step, context, 1));
        RC_TRY(be->sync(be));
        if (i > 0)
            *seconds = fmin(*seconds, rc_now() - began);
    }
    return RC_OK;
}

/* Back to the first batch, the only one that a learner which is measured has. */
static void reset_training(void *training)
{
    rc_training_send(training);
}

static void reset_inversion(void *inversion)
{
    rc_inversion_send(inversion);
}

static rc_status time_inversion(rc_forecast *f, rc_learner *l)
{
    rc_inversion *inversion;
    RC_TRY(rc_stage_inversion_create(l, &inversion));
    rc_status status = time_step(l->backend, rc_inversion_step, inversion, reset_inversion,
                                 &f->per_step[kind_of(l)][RC_STAGE_INVERSION]);
    rc_inversion_destroy(inversion);
    return status;
}

static rc_status time_training(rc_forecast *f, rc_learner *l)
{
    rc_training *training;
    double *per_step = f->per_step[kind_of(l)];
    rc_learner_send_order(l, 0);
    RC_TRY(rc_stage_training_create(l, &training));
    rc_status status = time_step(l->backend, rc_training_step, training, reset_training, &per_step[RC_STAGE_TRAINING]);
    if (status == RC_OK && rc_stage_steps(l, RC_STAGE_REFINEMENT) > 0) {
        rc_training_begin_epoch(training);
        status = rc_training_begin_refinement(training);
        if (status == RC_OK)
            status = time_step(l->backend, rc_training_refinement_step, training, reset_training,
                               &per_step[RC_STAGE_REFINEMENT]);
    }
    rc_training_destroy(training);
    return status;
}

/* Makes a learner that is thrown away know so many classes, and statistics of all of them, most likely. */
static rc_status know(rc_learner *l, int n_old, bool bias)
{
    if (bias)
        RC_TRY(rc_head_add_bias(&l->student.head));
    if (n_old == 0)
        return RC_OK;
    RC_TRY(rc_head_grow(&l->student.head, n_old, (rc_rng){1, RC_STREAM_HEAD}));
    return l->method->dce ? rc_learner_grow_statistics(l) : RC_OK;
}

/* Begins a task of that learner, with made-up labels. `lent`: with images that stay where they are. */
static rc_status begin_task(rc_learner *l, int n_old, int n_new, const uint8_t *images, int count, bool lent)
{
    int32_t *labels = rc_alloc_zeroed(NULL, (size_t)count, sizeof *labels);
    if (labels == NULL)
        return RC_OUT_OF_MEMORY;
    bool some_old = l->method->replay->replays_old_images && n_old > 0;
    for (int i = 0; i < count; i++)
        labels[i] = some_old && i % 2 ? i % n_old : n_old + i % n_new;
    rc_lent_images stay = {.from = images, .count = count};
    stay.bytes = (size_t)l->augment.h * (size_t)l->augment.w * (size_t)l->augment.c;
    rc_status status = lent ? rc_learner_begin_lent(l, n_old > 0, n_new, &stay, labels)
                            : rc_learner_begin_task(l, n_old > 0, n_new, images, labels, count);
    rc_free(NULL, labels);
    return status;
}

/* The step of training, means of models, and what refinement adds to both. */
static rc_status build_training(rc_learner *l)
{
    rc_training *training;
    void *means = NULL;
    size_t held, moment, unused;
    rc_stage_average_bytes(l, &held, &moment);
    RC_TRY(rc_stage_training_create(l, &training));
    rc_status status = l->backend->alloc(l->backend, held, &means);
    if (status == RC_OK)
        status = rc_backend_count_scratch(l->backend, moment);
    if (status == RC_OK)
        status = rc_stage_drawing_bytes(l, &unused);
    if (status == RC_OK && rc_stage_steps(l, RC_STAGE_REFINEMENT) > 0)
        status = rc_training_begin_refinement(training);
    l->backend->release(l->backend, means);
    rc_training_destroy(training);
    return status;
}

/* Everything that the stages build, one after the other. */
static rc_status build_stages(rc_learner *l, const rc_task_claim *claim)
{
    size_t unused;
    RC_TRY(rc_stage_bytes(l, RC_STAGE_INVERSION, &unused));
    if (rc_stage_steps(l, RC_STAGE_TRAINING) > 0)
        RC_TRY(build_training(l));
    RC_TRY(rc_stage_bytes(l, RC_STAGE_ESTIMATION, &unused));
    return claim->also != NULL ? claim->also(l) : RC_OK;
}

/* Everything that the task builds. A buffer has memory of the host beside what it has in the pool. */
static rc_status build_task(rc_learner *l, const rc_task_claim *claim)
{
    rc_image_buffer *buffer = &l->source->images;
    void *slots;
    rc_buffer_pretend(buffer, claim->offered);
    RC_TRY(know(l, claim->n_old, claim->head_bias));
    RC_TRY(claim->n_new > 0 ? begin_task(l, claim->n_old, claim->n_new, claim->images, claim->count, claim->lent)
                            : rc_learner_begin_dreams(l));
    RC_TRY(l->backend->alloc(l->backend, rc_buffer_taken_bytes(buffer), &slots));
    rc_status status = build_stages(l, claim);
    l->backend->release(l->backend, slots);
    return status;
}

rc_status rc_forecast_bytes(rc_backend *backend, const rc_task_claim *claim, size_t *bytes)
{
    rc_backend *sizing;
    *bytes = 0;
    RC_TRY(rc_backend_open_sizing(backend, &sizing));
    if (sizing == NULL)
        return RC_OK;
    rc_learner *l = rc_alloc_zeroed(NULL, 1, sizeof *l);
    rc_status status = l != NULL ? rc_learner_create(l, sizing, claim->settings, claim->method, claim->image)
                                 : RC_OUT_OF_MEMORY;
    if (status == RC_OK)
        status = build_task(l, claim);
    *bytes = rc_backend_most_bytes(sizing);
    if (l != NULL)
        rc_learner_destroy(l);
    rc_free(NULL, l);
    rc_backend_close(sizing);
    return status;
}

rc_status rc_forecast_allow(rc_backend *backend, const rc_task_claim *claim, const char *what)
{
    size_t bytes;
    rc_memory_claim words = {.what = what,
                             .settings = claim->settings,
                             .image = claim->image,
                             .batch = claim->settings->batch,
                             .held = rc_held_images(claim->method, claim->settings),
                             .dreams = rc_method_dreams(claim->method, claim->n_old)};
    RC_TRY(rc_forecast_bytes(backend, claim, &bytes));
    return rc_memory_check(&words, bytes);
}

/* With the images of one batch, but what the learner takes for each image of the task is taken of all of them. */
static rc_status measure_task(rc_forecast *f, rc_learner *l, int n_old, int n_new, const uint8_t *images, int count,
                              size_t *bytes)
{
    int batch = l->settings.batch;
    bool alone = count == 1 && n_old > 0 && l->method->replay->replays_old_images;
    RC_TRY(know(l, n_old, false)); /* as runs have it */
    if (alone) /* beside it an old image is replayed: how long a step takes does not depend on what they show */
        RC_TRY(begin_task(l, n_old, n_new, NULL, 2, false));
    else
        RC_TRY(begin_task(l, n_old, n_new, images, count < batch ? count : batch, false));
    int batches = l->batches;
    l->batches = rc_epoch_batches(count, batch);
    rc_status status = rc_task_memory(l, bytes);
    l->batches = batches;
    RC_TRY(status);
    if (rc_stage_steps(l, RC_STAGE_INVERSION) > 0)
        RC_TRY(time_inversion(f, l));
    return time_training(f, l);
}

rc_status rc_forecast_measure(rc_forecast *f, rc_backend *backend, const rc_settings *settings, const rc_method *method,
                              const rc_augment *image, int n_old, int n_new, const uint8_t *images, int count,
                              size_t *bytes)
{
    rc_learner *l = rc_alloc_zeroed(NULL, 1, sizeof *l);
    if (l == NULL)
        return RC_OUT_OF_MEMORY;
    rc_status status = rc_learner_create(l, backend, settings, method, image);
    if (status == RC_OK) {
        status = measure_task(f, l, n_old, n_new, images, count, bytes);
        rc_learner_destroy(l);
    }
    rc_free(NULL, l);
    return status;
}

void rc_forecast_tell(const rc_log *log, double seconds, size_t bytes)
{
    enum { WORTH_SAYING = 10 };
    char time[32], memory[32];
    if (!(seconds > WORTH_SAYING))
        return;
    rc_duration_text(seconds, time, sizeof time);
    rc_bytes_text(bytes, memory, sizeof memory);
    rc_log_write(log, RC_LOG_INFO, "forecast: about %s and %s of memory", time, memory);
}
