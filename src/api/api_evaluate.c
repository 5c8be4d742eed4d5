/* The public interface: evaluating. */
#include <string.h>

#include "api/api.h"
#include "api/evaluate.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/proportion.h"

/* What a caller sees, and the memory behind its arrays. */
typedef struct owned {
    recollect_evaluation seen; /* first: the caller's pointer is ours */
    rc_evaluation counts;
    char *names;          /* of unknown classes, each with its zero byte */
    const char **unknown; /* (unknown_classes), into names */
    double *accuracy;     /* (tasks), (classes), (classes) */
    int *images;          /* (tasks), (classes) */
    recollect_review *review;
} owned;

static void free_evaluation(owned *e)
{
    rc_evaluation_destroy(&e->counts);
    rc_free(NULL, e->names);
    rc_free(NULL, (void *)(uintptr_t)e->unknown);
    rc_free(NULL, e->accuracy);
    rc_free(NULL, e->images);
    rc_review_destroy(&e->review);
    rc_free(NULL, e);
}

void recollect_evaluation_destroy(recollect_evaluation **given)
{
    if (given == NULL || *given == NULL)
        return;
    owned *e = (owned *)(void *)*given;
    *given = NULL;
    free_evaluation(e);
}

/* ---- from counts to what a caller sees ----------------------------------------------------------------- */

static rc_status copy_unknown(owned *e, const rc_named_evaluation *from, const rc_dataset *data)
{
    size_t size = 1, used = 0;
    for (int i = 0; i < from->unknown_classes; i++)
        size += strlen(data->class_name[from->unknown[i]]) + 1;
    e->names = rc_alloc(NULL, size);
    e->unknown = rc_alloc_zeroed(NULL, (size_t)from->unknown_classes + 1, sizeof *e->unknown);
    if (e->names == NULL || e->unknown == NULL)
        return RC_OUT_OF_MEMORY;
    for (int i = 0; i < from->unknown_classes; i++) {
        const char *name = data->class_name[from->unknown[i]];
        size_t length = strlen(name) + 1;
        memcpy(e->names + used, name, length);
        e->unknown[i] = e->names + used;
        used += length;
    }
    return RC_OK;
}

/* Images of the true labels [first, end). */
static int count_images(const rc_evaluation *counts, int first, int end)
{
    int images = 0;
    size_t stop = rc_confusion_at(counts->classes, end, 0);
    for (size_t cell = rc_confusion_at(counts->classes, first, 0); cell < stop; cell++)
        images += counts->confusion[cell];
    return images;
}

static rc_status fill_arrays(owned *e, const rc_head *head)
{
    const rc_evaluation *counts = &e->counts;
    size_t tasks = (size_t)head->tasks, classes = (size_t)counts->classes;
    e->accuracy = rc_alloc_zeroed(NULL, tasks + 2 * classes, sizeof *e->accuracy);
    e->images = rc_alloc_zeroed(NULL, tasks + classes, sizeof *e->images);
    if (e->accuracy == NULL || e->images == NULL)
        return RC_OUT_OF_MEMORY;
    for (int task = 0, first = 0; task < head->tasks; first = head->task_end[task++]) {
        e->accuracy[task] = rc_accuracy(counts, first, head->task_end[task]);
        e->images[task] = count_images(counts, first, head->task_end[task]);
    }
    for (int label = 0; label < counts->classes; label++) {
        e->accuracy[tasks + (size_t)label] = rc_accuracy(counts, label, label + 1);
        e->accuracy[tasks + classes + (size_t)label] = rc_accuracy_top5(counts, label, label + 1);
        e->images[tasks + (size_t)label] = count_images(counts, label, label + 1);
    }
    return RC_OK;
}

static rc_status review(owned *e, const recollect_model *model, const rc_named_evaluation *from, const rc_dataset *data)
{
    rc_review_facts facts = {.classes = e->counts.classes,
                             .class_name = model->saved.class_name,
                             .confusion = e->counts.confusion,
                             .left_out = data->left_out,
                             .broken = data->broken,
                             .unknown_images = from->unknown_images,
                             .unknown_classes = from->unknown_classes,
                             .unknown = e->unknown};
    return rc_review_create(&facts, &e->review);
}

/* Takes the counts over, also on failure. */
static rc_status present(const recollect_model *model, rc_named_evaluation *from, const rc_dataset *data,
                         recollect_evaluation **result)
{
    const rc_head *head = &model->saved.learner.student.head;
    owned *e = rc_alloc_zeroed(NULL, 1, sizeof *e);
    if (e == NULL)
        return RC_OUT_OF_MEMORY;
    e->counts = from->counts;
    memset(&from->counts, 0, sizeof from->counts);
    rc_status status = copy_unknown(e, from, data);
    if (status == RC_OK)
        status = fill_arrays(e, head);
    if (status == RC_OK)
        status = review(e, model, from, data);
    if (status != RC_OK) {
        free_evaluation(e);
        return status;
    }
    e->seen = (recollect_evaluation){.size = sizeof e->seen,
                                     .images = from->images,
                                     .broken = data->broken,
                                     .unknown_images = from->unknown_images,
                                     .unknown_classes = from->unknown_classes,
                                     .unknown = e->unknown,
                                     .accuracy = rc_accuracy(&e->counts, 0, e->counts.classes),
                                     .top5 = rc_accuracy_top5(&e->counts, 0, e->counts.classes),
                                     .tasks = head->tasks,
                                     .task_accuracy = e->accuracy,
                                     .task_images = e->images,
                                     .classes = e->counts.classes,
                                     .class_accuracy = e->accuracy + head->tasks,
                                     .class_top5 = e->accuracy + head->tasks + e->counts.classes,
                                     .class_images = e->images + head->tasks,
                                     .confusion = e->counts.confusion,
                                     .left_out = data->left_out,
                                     .not_pictures = data->not_pictures,
                                     .review = e->review};
    *result = &e->seen;
    return RC_OK;
}

/* ---- from memory --------------------------------------------------------------------------------------- */

static rc_status check_labels(const recollect_model *model, const int32_t *labels, int count)
{
    int classes = recollect_model_classes(model);
    if (labels == NULL)
        return rc_api_is_null("labels", "(count) numbers");
    for (int i = 0; i < count; i++)
        if (labels[i] < 0 || labels[i] >= classes)
            return rc_fail(RC_INVALID_ARGUMENT, "label %d is %d, expected one of the model's, 0 to %d", i,
                           (int)labels[i], classes - 1);
    return RC_OK;
}

/* Images of another shape, brought to the model's, in a new block. */
static rc_status fit_images(const recollect_model *model, const recollect_images *images, uint8_t **fitted)
{
    const rc_picture_form form = rc_picture_form_of(&model->saved);
    size_t bytes = (size_t)form.fit.size * (size_t)form.fit.size * (size_t)form.fit.channels;
    *fitted = rc_alloc_zeroed(NULL, (size_t)images->count, bytes);
    rc_status status = *fitted != NULL ? RC_OK : RC_OUT_OF_MEMORY;
    for (int i = 0; status == RC_OK && i < images->count; i++) {
        rc_image image = rc_api_image_at(images, i);
        status = rc_stop_heard() ? rc_fail(RC_CANCELLED, "stopped after %d of %d images were resized", i, images->count)
                                 : rc_image_fit_into(&image, &form.fit, *fitted + (size_t)i * bytes);
    }
    if (status != RC_OK)
        rc_free(NULL, *fitted);
    return status;
}

static rc_status evaluate(const recollect_model *model, const recollect_images *images, const int32_t *labels,
                          recollect_evaluation **result)
{
    uint8_t *fitted = NULL;
    rc_named_evaluation e = {0};
    rc_watch watch = model->context->watch;
    const rc_scoring scoring = {.progress = rc_watch_scoring, .user = &watch};
    if (!rc_api_has_shape(model, images))
        RC_TRY(fit_images(model, images, &fitted));
    /* A view of the caller's memory and of the model's names: nothing is written through it. */
    rc_dataset data = {.classes = recollect_model_classes(model), .class_name = model->saved.class_name};
    rc_split split = {.count = images->count,
                      .images = fitted != NULL ? fitted : (uint8_t *)(uintptr_t)images->pixels,
                      .labels = (int32_t *)(uintptr_t)labels};
    rc_status status = rc_evaluate_by_name(&model->saved, &data, &split, &scoring, &e);
    if (status == RC_OK)
        status = present(model, &e, &data, result);
    rc_named_evaluation_destroy(&e);
    rc_free(NULL, fitted);
    return status;
}

recollect_status recollect_evaluate(const recollect_model *model, const recollect_images *images, const int32_t *labels,
                                    recollect_evaluation **evaluation)
{
    rc_clear_message();
    if (evaluation == NULL)
        return rc_api_is_null("evaluation", "where to put the result");
    *evaluation = NULL;
    RC_TRY(rc_api_begin_model(model));
    RC_TRY(rc_api_check_any_images(images));
    RC_TRY(rc_api_check_has_learnt(model));
    RC_TRY(check_labels(model, labels, images->count));
    recollect_context *context = model->context;
    rc_api_enter(context);
    rc_status status = rc_api_end(evaluate(model, images, labels, evaluation));
    rc_api_leave(context);
    return status;
}

/* ---- from files ---------------------------------------------------------------------------------------- */

static rc_status evaluate_folder(const recollect_model *model, const char *path, recollect_evaluation **result)
{
    rc_evaluate_settings settings = {.data = path,
                                     .format = model->format,
                                     .skip_broken = model->skip_broken,
                                     .threads = model->context->settings.threads,
                                     .watch = model->context->watch};
    rc_dataset data;
    rc_named_evaluation e;
    RC_TRY(rc_evaluate_data(&model->saved, &settings, &data, &e));
    rc_status status = present(model, &e, &data, result);
    rc_named_evaluation_destroy(&e);
    rc_dataset_close(&data);
    return status;
}

recollect_status recollect_evaluate_folder(const recollect_model *model, const char *path,
                                           recollect_evaluation **evaluation)
{
    rc_clear_message();
    if (evaluation == NULL)
        return rc_api_is_null("evaluation", "where to put the result");
    *evaluation = NULL;
    RC_TRY(rc_api_begin_model(model));
    if (path == NULL || path[0] == '\0')
        return rc_fail(RC_INVALID_ARGUMENT, "path is %s, expected the name of a folder", path ? "empty" : "NULL");
    RC_TRY(rc_api_check_has_learnt(model));
    recollect_context *context = model->context;
    rc_api_enter(context);
    rc_status status = rc_api_end(evaluate_folder(model, path, evaluation));
    rc_api_leave(context);
    return status;
}

/* ---- words --------------------------------------------------------------------------------------------- */

static void put_classes(rc_json_writer *w, const recollect_model *model, const recollect_evaluation *e)
{
    rc_json_begin_array(w, "classes");
    for (int label = 0; label < e->classes; label++) {
        rc_json_begin_object(w, NULL);
        rc_json_put_text(w, "class", recollect_model_class_name(model, label));
        rc_json_put_int(w, "images", e->class_images[label]);
        rc_json_put_real(w, "accuracy", e->class_accuracy[label]);
        rc_interval_put(w, "accuracy_interval", e->class_accuracy[label], e->class_images[label]);
        rc_json_end(w);
    }
    rc_json_end(w);
    rc_confusion_put(e->confusion, e->classes, w);
}

int recollect_accuracy_interval(double percent, int images, double *low, double *high)
{
    double ends[2];
    rc_wilson(percent, images, &ends[0], &ends[1]);
    if (low != NULL)
        *low = ends[0];
    if (high != NULL)
        *high = ends[1];
    return rc_interval_tells(ends[0], ends[1]);
}

recollect_status recollect_describe_evaluation(const recollect_model *model, const recollect_evaluation *e,
                                               recollect_advise *advise, recollect_line *line, void *user)
{
    RC_TRY(rc_api_begin_model(model));
    if (e == NULL)
        return rc_api_is_null("evaluation", "one from recollect_evaluate");
    if (line == NULL)
        return rc_api_is_null("line", "a function that takes lines");
    if (e->classes > recollect_model_classes(model))
        return rc_fail(RC_INVALID_ARGUMENT, "the evaluation is of %d classes, but the model knows %d: it is another's",
                       e->classes, recollect_model_classes(model));
    rc_json_writer w = {0};
    recollect_context *context = model->context;
    rc_api_enter(context);
    rc_json_begin_object(&w, NULL);
    rc_review_put(&w, e->review, model->saved.class_name, advise, user);
    rc_json_put_int(&w, "images", e->images);
    rc_json_put_int(&w, "broken_images", e->broken);
    rc_json_put_int(&w, "unknown_images", e->unknown_images);
    rc_json_begin_array(&w, "unknown_classes");
    for (int i = 0; i < e->unknown_classes; i++)
        rc_json_put_text(&w, NULL, e->unknown[i]);
    rc_json_end(&w);
    rc_json_put_int(&w, "left_out", e->left_out);
    rc_json_put_int(&w, "not_pictures", e->not_pictures);
    rc_json_put_real(&w, "accuracy", e->accuracy);
    rc_interval_put(&w, "accuracy_interval", e->accuracy, e->images);
    rc_json_put_real(&w, "top5", e->top5);
    rc_interval_put(&w, "top5_interval", e->top5, e->images);
    rc_json_begin_array(&w, "task_accuracy");
    for (int task = 0; task < e->tasks; task++)
        rc_json_put_real(&w, NULL, e->task_accuracy[task]);
    rc_json_end(&w);
    rc_json_begin_array(&w, "task_accuracy_interval");
    for (int task = 0; task < e->tasks; task++)
        rc_interval_put(&w, NULL, e->task_accuracy[task], e->task_images[task]);
    rc_json_end(&w);
    put_classes(&w, model, e);
    rc_json_end(&w);
    rc_status status = rc_api_end(rc_json_line(&w, line, user));
    rc_api_leave(context);
    return status;
}
