/* The public interface: predicting. */
#include <math.h>
#include <string.h>

#include "api/api.h"
#include "api/predict.h"
#include "base/memory.h"
#include "data/image.h"
#include "forecast/allowance.h"

enum { BATCH = 64 };

/* What a call writes to, and room for a batch. */
typedef struct answer {
    int top;
    int32_t *labels;
    float *probabilities, *unfamiliarity;
    float *logits;   /* (BATCH or all images, classes) */
    float *features; /* (BATCH or all images, d) */
    int *label;      /* (classes) */
    double *probability;
} answer;

/* A scorer for up to `images` at a time, of which BATCH are enough. */
static rc_status prepare(recollect_model *model, int images)
{
    const rc_learner *l = &model->saved.learner;
    int wanted = images < BATCH ? images : BATCH, batch;
    if (model->scorer != NULL && model->scorer_images >= wanted)
        return RC_OK;
    rc_api_forget_scorer(model);
    rc_status status = rc_unfamiliarity_create(l, &model->unfamiliarity);
    if (status == RC_FORMAT) /* a model without usable statistics still predicts */
        rc_log_write(&model->context->watch.log, RC_LOG_WARN, "unfamiliarity is not known: %s", rc_message());
    else
        RC_TRY(status);
    status = rc_scoring_batch(l->backend, &l->student, &l->settings, &l->augment, wanted, &batch);
    if (status == RC_OK)
        status = rc_scorer_create(l->backend, &l->student, batch, &l->augment, &model->scorer);
    model->scorer_images = wanted;
    if (status != RC_OK)
        rc_api_forget_scorer(model);
    return status;
}

static rc_status check_top(const recollect_model *model, int top)
{
    int classes = recollect_model_classes(model);
    RC_TRY(rc_api_check_has_learnt(model));
    return top >= 1 && top <= classes
               ? RC_OK
               : rc_fail(RC_INVALID_ARGUMENT, "top is %d, expected 1 to %d", top, classes);
}

static void write_answer(const recollect_model *model, answer *a, size_t image, int row)
{
    const rc_head *head = &model->saved.learner.student.head;
    int nearest;
    rc_rank(a->logits + (size_t)row * (size_t)head->classes, head->classes, a->top, a->label, a->probability);
    for (size_t i = 0; i < (size_t)a->top; i++) {
        if (a->labels != NULL)
            a->labels[image * (size_t)a->top + i] = a->label[i];
        if (a->probabilities != NULL)
            a->probabilities[image * (size_t)a->top + i] = (float)a->probability[i];
    }
    if (a->unfamiliarity != NULL)
        a->unfamiliarity[image] =
            model->unfamiliarity == NULL
                ? NAN
                : (float)rc_unfamiliarity_of(model->unfamiliarity,
                                             a->features + (size_t)row * (size_t)head->d, &nearest);
}

static rc_status predict_batches(recollect_model *model, const uint8_t *pixels, int count, answer *a)
{
    const rc_augment *image = &model->saved.learner.augment;
    size_t bytes = (size_t)image->h * (size_t)image->w * (size_t)image->c;
    for (int done = 0; done < count; done += BATCH) {
        int n = count - done < BATCH ? count - done : BATCH;
        if (rc_watch_cancelled(&model->context->watch))
            return rc_fail(RC_CANCELLED, "stopped after %d of %d images", done, count);
        RC_TRY(rc_scorer_run(model->scorer, pixels + (size_t)done * bytes, NULL, n, a->logits, a->features));
        for (int row = 0; row < n; row++)
            write_answer(model, a, (size_t)done + (size_t)row, row);
    }
    return RC_OK;
}

static rc_status predict(recollect_model *model, const uint8_t *pixels, int count, answer *a)
{
    const rc_head *head = &model->saved.learner.student.head;
    size_t classes = (size_t)head->classes;
    size_t rows = (size_t)(count < BATCH ? count : BATCH);
    rc_status status = prepare(model, count);
    if (status != RC_OK)
        return status;
    a->logits = rc_alloc_zeroed(NULL, rows * classes, sizeof *a->logits);
    a->features = rc_alloc_zeroed(NULL, rows * (size_t)head->d, sizeof *a->features);
    a->label = rc_alloc_zeroed(NULL, classes, sizeof *a->label);
    a->probability = rc_alloc_zeroed(NULL, classes, sizeof *a->probability);
    status = RC_OUT_OF_MEMORY;
    if (a->logits != NULL && a->features != NULL && a->label != NULL && a->probability != NULL)
        status = predict_batches(model, pixels, count, a);
    rc_free(NULL, a->logits);
    rc_free(NULL, a->features);
    rc_free(NULL, a->label);
    rc_free(NULL, a->probability);
    return status;
}

static rc_status predict_busily(recollect_model *model, const uint8_t *pixels, int count, answer *a)
{
    recollect_context *context = model->context;
    rc_api_enter(context);
    rc_status status = predict(model, pixels, count, a);
    rc_api_leave(context);
    return status;
}

recollect_status recollect_predict(recollect_model *model, const recollect_images *images, int top,
                                   int32_t *labels, float *probabilities, float *unfamiliarity)
{
    RC_TRY(rc_api_begin_model(model));
    RC_TRY(rc_api_check_images(images));
    RC_TRY(check_top(model, top));
    RC_TRY(rc_api_check_fit(model, images));
    answer a = {.top = top, .labels = labels, .probabilities = probabilities, .unfamiliarity = unfamiliarity};
    return rc_api_end(predict_busily(model, images->pixels, images->count, &a));
}

recollect_status recollect_predict_encoded(recollect_model *model, const void *bytes, size_t size, int top,
                                           int32_t *labels, float *probabilities, float *unfamiliarity)
{
    RC_TRY(rc_api_begin_model(model));
    RC_TRY(check_top(model, top));
    if (bytes == NULL || size == 0)
        return rc_fail(RC_INVALID_ARGUMENT, "there are no bytes, expected those of an image file");
    const rc_augment *own = &model->saved.learner.augment;
    rc_image_options options = {.ignore_exif = !model->saved.config.exif};
    rc_image_fit fit = {.resize = model->saved.config.resize, .size = own->h, .channels = own->c};
    answer a = {.top = top, .labels = labels, .probabilities = probabilities, .unfamiliarity = unfamiliarity};
    rc_image image = {0};
    uint8_t *pixels = rc_alloc(NULL, (size_t)own->h * (size_t)own->w * (size_t)own->c);
    rc_status status = pixels != NULL ? rc_image_decode(bytes, size, &options, &image) : RC_OUT_OF_MEMORY;
    if (status == RC_OK)
        status = rc_image_fit_into(&image, &fit, pixels);
    if (status == RC_OK)
        status = predict_busily(model, pixels, 1, &a);
    rc_image_free(&image);
    rc_free(NULL, pixels);
    return rc_api_end(status);
}
