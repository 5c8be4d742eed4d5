/* The public interface: learning, predicting, dreaming. */
#include <math.h>
#include <string.h>

#include "api/api.h"
#include "api/predict.h"
#include "base/memory.h"
#include "data/image.h"
#include "forecast/allowance.h"

enum { BATCH = 64 };

/* ---- arguments ----------------------------------------------------------------------------------------- */

static rc_status check_images(const recollect_images *images)
{
    if (images == NULL)
        return rc_api_is_null("images", "pixels and their shape");
    if (images->pixels == NULL)
        return rc_api_is_null("pixels", "(count, height, width, channels) bytes");
    if (images->count < 1)
        return rc_fail(RC_INVALID_ARGUMENT, "count is %d, expected 1 image or more", images->count);
    RC_TRY(rc_check_image_shape(images->height, images->width, images->channels));
    size_t bytes = (size_t)images->height * (size_t)images->width * (size_t)images->channels;
    if (!rc_size_mul(bytes, (size_t)images->count, &bytes) || bytes > PTRDIFF_MAX)
        return rc_fail(RC_INVALID_ARGUMENT, "%d images of %d x %d pixels are more than memory can hold",
                       images->count, images->width, images->height);
    return RC_OK;
}

/* Do they have the shape that the model was made for? */
static rc_status check_fit(const recollect_model *model, const recollect_images *images)
{
    const rc_augment *own = &model->saved.learner.augment;
    if (images->height == own->h && images->width == own->w && images->channels == own->c)
        return RC_OK;
    return rc_fail(RC_INVALID_ARGUMENT,
                   "images are %d x %d pixels with %d channel%s, the model takes %d x %d with %d",
                   images->width, images->height, images->channels, images->channels > 1 ? "s" : "", own->w,
                   own->h, own->c);
}

static rc_status check_has_learnt(const recollect_model *model)
{
    return recollect_model_classes(model) > 0 ? RC_OK
                                              : rc_fail(RC_INVALID_ARGUMENT, "the model knows nothing yet");
}

static rc_status check_names(const char *const *names, int classes)
{
    if (names == NULL)
        return rc_api_is_null("class_names", "(classes) texts");
    if (classes < 1 || classes > RC_DATA_MAX_CLASSES)
        return rc_fail(RC_INVALID_ARGUMENT, "classes is %d, expected 1 to %d", classes, RC_DATA_MAX_CLASSES);
    for (int i = 0; i < classes; i++) {
        if (names[i] == NULL)
            return rc_fail(RC_INVALID_ARGUMENT, "the name of class %d is NULL, expected a text", i);
        if (rc_check_class_name(i, names[i], strlen(names[i])) != RC_OK)
            return RC_INVALID_ARGUMENT;
    }
    rc_status status = rc_check_class_names(names, classes);
    return rc_api_end(status == RC_FORMAT ? RC_INVALID_ARGUMENT : status);
}

static rc_status check_labels(const int32_t *labels, int count, int classes)
{
    if (labels == NULL)
        return rc_api_is_null("labels", "(count) numbers");
    for (int i = 0; i < count; i++)
        if (labels[i] < 0 || labels[i] >= classes)
            return rc_fail(RC_INVALID_ARGUMENT, "label %d is %d, expected 0 to %d", i, (int)labels[i],
                           classes - 1);
    return RC_OK;
}

/* ---- learning ------------------------------------------------------------------------------------------ */

/* Bytes of the first version of the structure. */
static const size_t first_result = sizeof(recollect_learn_result);

static rc_status check_result(const recollect_learn_result *result)
{
    if (result != NULL && (result->size < first_result || result->size > 65536))
        return rc_fail(RC_INVALID_ARGUMENT, "the result's size is %zu, expected %zu: set it before the call",
                       result->size, sizeof *result);
    return RC_OK;
}

static void fill_result(const rc_learn_result *from, recollect_learn_result *to)
{
    if (to == NULL)
        return;
    recollect_learn_result filled = {.size = to->size,
                                     .known = from->known,
                                     .added = from->added,
                                     .images = from->images,
                                     .held_out = from->held_out,
                                     .broken = from->broken,
                                     .accuracy = from->accuracy,
                                     .seconds = from->seconds};
    memset(to, 0, to->size);
    memcpy(to, &filled, filled.size < sizeof filled ? filled.size : sizeof filled);
}

static rc_status learn(recollect_model *model, const rc_learn_settings *lesson,
                       recollect_learn_result *result)
{
    recollect_context *context = model->context;
    rc_learn_result learnt;
    context->busy = true;
    rc_api_forget(model);
    rc_status status = rc_learn(&model->saved, context->backend, lesson, &learnt);
    if (status == RC_OK) {
        fill_result(&learnt, result);
        rc_free(NULL, model->preset); /* of a first model, which it is no more */
        model->preset = NULL;
    }
    context->busy = false;
    return rc_api_end(status);
}

recollect_status recollect_learn(recollect_model *model, const recollect_images *images,
                                 const int32_t *labels, const char *const *class_names, int classes,
                                 recollect_learn_result *result)
{
    RC_TRY(rc_api_begin_model(model));
    RC_TRY(check_result(result));
    RC_TRY(check_images(images));
    RC_TRY(check_names(class_names, classes));
    RC_TRY(check_labels(labels, images->count, classes));
    if (recollect_model_classes(model) > 0)
        RC_TRY(check_fit(model, images));
    /* A view of the caller's memory: nothing is written through it. */
    rc_dataset data = {.format = "memory",
                       .name = "memory",
                       .h = images->height,
                       .w = images->width,
                       .c = images->channels,
                       .classes = classes,
                       .class_name = (char **)(uintptr_t)class_names,
                       .train = {.count = images->count,
                                 .images = (uint8_t *)(uintptr_t)images->pixels,
                                 .labels = (int32_t *)(uintptr_t)labels}};
    rc_dataset_measure(&data);
    rc_learn_settings lesson = rc_api_lesson(model);
    lesson.in_memory = &data;
    return learn(model, &lesson, result);
}

recollect_status recollect_learn_folder(recollect_model *model, const char *path,
                                        recollect_learn_result *result)
{
    RC_TRY(rc_api_begin_model(model));
    RC_TRY(check_result(result));
    if (path == NULL || path[0] == '\0')
        return rc_fail(RC_INVALID_ARGUMENT, "path is %s, expected the name of a folder",
                       path ? "empty" : "NULL");
    rc_learn_settings lesson = rc_api_lesson(model);
    lesson.data = path;
    return learn(model, &lesson, result);
}

/* ---- predicting ---------------------------------------------------------------------------------------- */

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
    RC_TRY(check_has_learnt(model));
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
    model->context->busy = true;
    rc_status status = predict(model, pixels, count, a);
    model->context->busy = false;
    return status;
}

recollect_status recollect_predict(recollect_model *model, const recollect_images *images, int top,
                                   int32_t *labels, float *probabilities, float *unfamiliarity)
{
    RC_TRY(rc_api_begin_model(model));
    RC_TRY(check_images(images));
    RC_TRY(check_top(model, top));
    RC_TRY(check_fit(model, images));
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

/* ---- dreaming ------------------------------------------------------------------------------------------ */

/* Dreams of every class, as many as are wanted or were wanted before. */
static rc_status make_dreams(recollect_model *model, int per_class)
{
    rc_dream_settings settings = {.per_class = per_class, .watch = model->context->watch};
    rc_dreams dreams;
    if (model->dreams.per_class >= per_class)
        return RC_OK;
    model->context->busy = true;
    rc_status status = rc_dream(&model->saved, &settings, &dreams);
    if (status == RC_OK) {
        rc_dreams_destroy(&model->dreams);
        model->dreams = dreams;
    }
    model->context->busy = false;
    return status;
}

recollect_status recollect_dream(recollect_model *model, int label, int count, uint8_t *pixels, int *made)
{
    RC_TRY(rc_api_begin_model(model));
    if (pixels == NULL)
        return rc_api_is_null("pixels", "where to put the images");
    if (made == NULL)
        return rc_api_is_null("made", "where to put their number");
    *made = 0;
    RC_TRY(check_has_learnt(model));
    if (label < 0 || label >= recollect_model_classes(model))
        return rc_fail(RC_INVALID_ARGUMENT, "label is %d, expected 0 to %d", label,
                       recollect_model_classes(model) - 1);
    if (count < 1 || count > 10000)
        return rc_fail(RC_INVALID_ARGUMENT, "count is %d, expected 1 to 10000", count);
    rc_status status = make_dreams(model, count);
    if (status == RC_OK) {
        const rc_dreams *d = &model->dreams;
        size_t image = (size_t)d->h * (size_t)d->w * (size_t)d->c;
        *made = d->kept[label] < count ? d->kept[label] : count;
        memcpy(pixels, d->images + (size_t)label * (size_t)d->per_class * image, (size_t)*made * image);
    }
    return rc_api_end(status);
}
