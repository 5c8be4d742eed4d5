/* The public interface: predicting, with a model and with predictors. */
#include <math.h>
#include <string.h>

#include "api/api.h"
#include "api/pictures.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/process.h"

/* ---- arguments ----------------------------------------------------------------------------------------- */

static rc_status check_top(const recollect_model *model, int top)
{
    int classes = recollect_model_classes(model);
    return top >= 1 && top <= classes ? RC_OK
                                      : rc_fail(RC_INVALID_ARGUMENT, "top is %d, expected 1 to %d", top, classes);
}

static rc_status check_pictures(const recollect_picture *pictures, int count)
{
    if (count < 1)
        return rc_fail(RC_INVALID_ARGUMENT, "count is %d, expected 1 picture or more", count);
    if (pictures == NULL)
        return rc_api_is_null("pictures", "(count) paths or bytes");
    for (int i = 0; i < count; i++)
        if (pictures[i].bytes == NULL && (pictures[i].path == NULL || pictures[i].path[0] == '\0'))
            return rc_fail(RC_INVALID_ARGUMENT, "picture %d has neither a path nor bytes", i);
    return RC_OK;
}

/* ---- what is written ----------------------------------------------------------------------------------- */

/* The caller's outputs, as much of them as both know. */
static rc_status take_outputs(const recollect_model *model, const recollect_outputs *given, recollect_outputs *taken)
{
    *taken = (recollect_outputs){0};
    if (given == NULL)
        return rc_api_is_null("outputs", "where to put the answers");
    RC_TRY(rc_api_check_size("output structure", given, RC_API_FIRST(recollect_outputs, status), sizeof *taken));
    memcpy(taken, given, given->size < sizeof *taken ? given->size : sizeof *taken);
    if (taken->top != 0 || taken->labels != NULL || taken->probabilities != NULL)
        RC_TRY(check_top(model, taken->top));
    return RC_OK;
}

/* The arrays of a caller. */
typedef struct writing {
    recollect_outputs to;
    int features;
    const rc_log *log;
} writing;

static void write_scores(const writing *w, size_t image, const rc_answer *answer)
{
    bool read = answer->status == RC_OK;
    size_t top = (size_t)w->to.top;
    for (size_t i = 0; i < top; i++) {
        if (w->to.labels != NULL)
            w->to.labels[image * top + i] = read ? answer->label[i] : -1;
        if (w->to.probabilities != NULL)
            w->to.probabilities[image * top + i] = read ? (float)answer->probability[i] : NAN;
    }
}

static rc_status write_answer(void *user, int index, const rc_answer *answer)
{
    const writing *w = user;
    size_t image = (size_t)index, d = (size_t)w->features;
    if (answer->status != RC_OK && w->to.status == NULL)
        return rc_fail(answer->status, "%s", answer->message);
    if (answer->status != RC_OK)
        rc_log_write(w->log, RC_LOG_WARN, "picture %d: %s", index, answer->message);
    write_scores(w, image, answer);
    if (w->to.unfamiliarity != NULL)
        w->to.unfamiliarity[image] = (float)answer->unfamiliarity;
    if (w->to.stranger != NULL)
        w->to.stranger[image] = (float)answer->stranger;
    if (w->to.nearest != NULL)
        w->to.nearest[image] = answer->nearest;
    for (size_t i = 0; w->to.features != NULL && i < d; i++)
        w->to.features[image * d + i] = answer->status == RC_OK ? answer->features[i] : NAN;
    if (w->to.status != NULL)
        w->to.status[image] = (recollect_status)answer->status;
    return RC_OK;
}

static rc_status predict(rc_predictor *predictor, const recollect_model *model, rc_question *question,
                         const recollect_outputs *outputs)
{
    writing w = {.to = *outputs, .features = recollect_model_features(model), .log = &model->context->watch.log};
    question->top = outputs->top;
    question->familiarity = outputs->unfamiliarity != NULL || outputs->nearest != NULL || outputs->stranger != NULL;
    return rc_predictor_run(predictor, question, write_answer, &w);
}

/* ---- with a model -------------------------------------------------------------------------------------- */

static rc_status prepare(recollect_model *model, int images)
{
    if (model->predictor != NULL)
        return RC_OK;
    rc_predictor_settings settings = {.backend = model->context->backend,
                                      .threads = 1,
                                      .room = images < RC_PREDICTOR_BATCH ? images : RC_PREDICTOR_BATCH,
                                      .watch = model->context->watch};
    return rc_predictor_create(&model->saved, &settings, &model->predictor);
}

static rc_status predict_with_model(recollect_model *model, rc_question *question, const recollect_outputs *outputs)
{
    recollect_context *context = model->context;
    rc_api_enter(context);
    rc_status status = prepare(model, question->count);
    if (status == RC_OK)
        status = predict(model->predictor, model, question, outputs);
    status = rc_api_end(status);
    rc_api_leave(context);
    return status;
}

recollect_status recollect_predict(recollect_model *model, const recollect_images *images, int top, int32_t *labels,
                                   float *probabilities, float *unfamiliarity)
{
    RC_TRY(rc_api_begin_model(model));
    RC_TRY(rc_api_check_images(model, images));
    RC_TRY(rc_api_check_has_learnt(model));
    RC_TRY(check_top(model, top));
    recollect_outputs outputs = {
        .top = top, .labels = labels, .probabilities = probabilities, .unfamiliarity = unfamiliarity};
    rc_question question = {.count = images->count, .ready = images->pixels};
    return predict_with_model(model, &question, &outputs);
}

recollect_status recollect_predict_encoded(recollect_model *model, const void *bytes, size_t size, int top,
                                           int32_t *labels, float *probabilities, float *unfamiliarity)
{
    RC_TRY(rc_api_begin_model(model));
    RC_TRY(rc_api_check_has_learnt(model));
    RC_TRY(check_top(model, top));
    if (bytes == NULL || size == 0)
        return rc_fail(RC_INVALID_ARGUMENT, "there are no bytes, expected those of an image file");
    recollect_outputs outputs = {
        .top = top, .labels = labels, .probabilities = probabilities, .unfamiliarity = unfamiliarity};
    rc_picture picture = {.bytes = bytes, .size = size};
    rc_picture_list list = {.picture = &picture, .count = 1};
    rc_question question = {.count = 1, .source = rc_picture_list_source, .user = &list};
    return predict_with_model(model, &question, &outputs);
}

/* ---- predictors ---------------------------------------------------------------------------------------- */

struct recollect_predictor {
    recollect_model *model;
    rc_backend *backend;
    rc_predictor *inside;
    double reject;    /* false-alarm rate below which the answer is "none of these" */
    bool busy;        /* in a call that may call back */
    bool doomed;      /* destroyed in that call, at whose end it goes */
    uint32_t process; /* that it belongs to */
    int left_out;     /* by the last recollect_predictor_each */
};

/* Adds a holder to a model that no call is changing. */
static rc_status hold_model(recollect_model *model)
{
    int holders = atomic_load(&model->holders);
    do {
        if (holders & RC_API_CHANGING)
            return rc_fail(RC_INVALID_ARGUMENT, "the model is learning or dreaming in another call, expected one "
                                                "that is at rest");
    } while (!atomic_compare_exchange_weak(&model->holders, &holders, holders + 1));
    return RC_OK;
}

static rc_status open_predictor(recollect_predictor *p, int threads)
{
    const recollect_context *context = p->model->context;
    const recollect_allocator *own = &context->settings.allocator;
    rc_allocator memory = {own->alloc, own->free, own->user};
    RC_TRY(rc_api_check_has_learnt(p->model));
    RC_TRY(rc_process_mark(&p->process));
    RC_TRY(rc_backend_open_with(context->backend_name, threads, NULL, memory.alloc != NULL ? &memory : NULL,
                                &p->backend));
    rc_predictor_settings settings = {.backend = p->backend, .threads = threads, .room = 1, .watch = context->watch};
    return rc_predictor_create(&p->model->saved, &settings, &p->inside);
}

static void close_predictor(recollect_predictor *p)
{
    rc_predictor_destroy(p->inside);
    rc_backend_close(p->backend);
    rc_api_release_model(p->model);
    rc_free(NULL, p);
}

recollect_status recollect_predictor_create(const recollect_model *model, int threads, recollect_predictor **predictor)
{
    rc_clear_message();
    if (predictor == NULL)
        return rc_api_is_null("predictor", "where to put the new one");
    *predictor = NULL;
    RC_TRY(rc_api_begin_beside(model));
    if (threads < 0 || threads > 1024)
        return rc_fail(RC_INVALID_ARGUMENT, "threads is %d, expected 0 (all cores) to 1024", threads);
    /* Of the model only the count of its holders is written, which is no part of what it knows. */
    recollect_model *held = (recollect_model *)(uintptr_t)model;
    RC_TRY(hold_model(held));
    rc_api_allow(held);
    recollect_predictor *p = rc_alloc_zeroed(NULL, 1, sizeof *p);
    if (p == NULL) {
        rc_api_release_model(held);
        return rc_api_end(RC_OUT_OF_MEMORY);
    }
    p->model = held;
    rc_status status = open_predictor(p, threads);
    if (status == RC_OK)
        *predictor = p;
    else
        close_predictor(p);
    return rc_api_end(status);
}

void recollect_predictor_destroy(recollect_predictor **predictor)
{
    if (predictor == NULL || *predictor == NULL)
        return;
    recollect_predictor *p = *predictor;
    *predictor = NULL;
    if (!rc_process_is(p->process) && (p->busy || rc_api_is_parents(p->model->context)))
        return; /* the parent's, which was at work with it when it forked */
    p->doomed = p->busy;
    if (!p->busy)
        close_predictor(p);
}

/* What every function of a predictor begins with. */
static rc_status begin(const recollect_predictor *p)
{
    rc_clear_message();
    if (p == NULL)
        return rc_api_is_null("predictor", "one from recollect_predictor_create");
    if (!rc_process_is(p->process))
        return rc_fail(RC_INVALID_ARGUMENT,
                       "the predictor was made before fork(), in the parent of this process, and so were its "
                       "threads; make one here with a model of a context that was made here");
    if (p->busy)
        return rc_fail(RC_INVALID_ARGUMENT, "called from inside a callback of the same predictor");
    RC_TRY(rc_api_begin_beside(p->model));
    rc_api_allow(p->model);
    return RC_OK;
}

/* What every function ends with that has set `busy`. The caller touches the predictor no more. */
static rc_status end(recollect_predictor *p, rc_status status)
{
    p->busy = false;
    status = rc_api_end(status);
    if (p->doomed)
        close_predictor(p);
    return status;
}

/* A source of images in memory. */
static rc_status fit_image(void *user, int index, const rc_picture_form *form, uint8_t *pixels)
{
    rc_image image = rc_api_image_at(user, index);
    return rc_image_fit_into(&image, &form->fit, pixels);
}

recollect_status recollect_predictor_images(recollect_predictor *predictor, const recollect_images *images,
                                            const recollect_outputs *outputs)
{
    recollect_outputs taken;
    RC_TRY(begin(predictor));
    RC_TRY(rc_api_check_any_images(images));
    RC_TRY(take_outputs(predictor->model, outputs, &taken));
    rc_question question = {.count = images->count,
                            .ready = rc_api_has_shape(predictor->model, images) ? images->pixels : NULL,
                            .source = fit_image,
                            .user = (void *)(uintptr_t)images};
    predictor->busy = true;
    return end(predictor, predict(predictor->inside, predictor->model, &question, &taken));
}

recollect_status recollect_predictor_pictures(recollect_predictor *predictor, const recollect_picture *pictures,
                                              int count, const recollect_outputs *outputs)
{
    recollect_outputs taken;
    rc_picture_list list = {0};
    rc_status status = RC_OK;
    RC_TRY(begin(predictor));
    RC_TRY(check_pictures(pictures, count));
    RC_TRY(take_outputs(predictor->model, outputs, &taken));
    for (int i = 0; status == RC_OK && i < count; i++)
        status = rc_picture_list_add(&list, i, pictures[i].path, pictures[i].bytes, pictures[i].size);
    rc_question question = {.count = count, .source = rc_picture_list_source, .user = &list};
    predictor->busy = true;
    if (status == RC_OK)
        status = predict(predictor->inside, predictor->model, &question, &taken);
    rc_picture_list_free(&list);
    return end(predictor, status);
}

/* ---- one after the other ------------------------------------------------------------------------------- */

typedef struct telling {
    const rc_picture_list *list;
    int top;
    double reject; /* rate below which the answer is "none of these" */
    void (*each)(void *user, const recollect_prediction *prediction);
    void *user;
} telling;

static rc_status tell(void *user, int index, const rc_answer *answer)
{
    const telling *t = user;
    const rc_picture *picture = &t->list->picture[index];
    bool read = answer->status == RC_OK;
    recollect_prediction prediction = {.size = sizeof prediction,
                                       .picture = picture->from,
                                       .path = picture->path,
                                       .status = (recollect_status)answer->status,
                                       .message = read ? "" : answer->message,
                                       .top = read ? t->top : 0,
                                       .labels = answer->label,
                                       .probabilities = answer->probability,
                                       .unfamiliarity = answer->unfamiliarity,
                                       .nearest = answer->nearest,
                                       .features = answer->features,
                                       .stranger = answer->stranger,
                                       .none_of_these = answer->stranger < t->reject};
    size_t budget = rc_memory_budget(); /* of this context; the caller may use another one */
    t->each(t->user, &prediction);
    rc_memory_set_budget(budget);
    return RC_OK;
}

static rc_status list_pictures(const recollect_picture *pictures, int count, const rc_watch *watch,
                               rc_picture_list *list)
{
    for (int i = 0; i < count; i++) {
        const recollect_picture *p = &pictures[i];
        RC_TRY(p->bytes != NULL ? rc_picture_list_add(list, i, p->path, p->bytes, p->size)
                                : rc_picture_list_search(list, i, p->path, watch));
    }
    return RC_OK;
}

recollect_status recollect_predictor_each(recollect_predictor *predictor, const recollect_picture *pictures, int count,
                                          int top, void (*each)(void *user, const recollect_prediction *prediction),
                                          void *user)
{
    RC_TRY(begin(predictor));
    RC_TRY(check_pictures(pictures, count));
    if (each == NULL)
        return rc_api_is_null("each", "a function that gets the predictions");
    int classes = recollect_model_classes(predictor->model);
    if (top < 0)
        return rc_fail(RC_INVALID_ARGUMENT, "top is %d, expected 0 or more", top);
    rc_picture_list list = {0};
    telling t = {
        .list = &list, .top = top < classes ? top : classes, .reject = predictor->reject, .each = each, .user = user};
    predictor->busy = true;
    rc_status status = list_pictures(pictures, count, &predictor->model->context->watch, &list);
    rc_question question = {
        .count = list.count, .source = rc_picture_list_source, .user = &list, .top = t.top, .familiarity = true};
    if (status == RC_OK)
        status = rc_predictor_run(predictor->inside, &question, tell, &t);
    if (status == RC_OK)
        rc_left_out_tell(&list.left_out, &predictor->model->context->watch.log);
    predictor->left_out = status == RC_OK ? list.left_out.count : 0;
    rc_picture_list_free(&list);
    return end(predictor, status);
}

recollect_status recollect_predictor_reject(recollect_predictor *predictor, double rate)
{
    RC_TRY(begin(predictor));
    if (!(rate >= 0 && rate <= 1))
        return rc_fail(RC_INVALID_ARGUMENT, "the rate is %g, expected 0 (never) to 1", rate);
    const char *lacks = rc_predictor_lacks(predictor->inside);
    if (rate > 0 && lacks != NULL)
        return rc_fail(RC_INVALID_ARGUMENT, "%s", lacks);
    predictor->reject = rate;
    return RECOLLECT_OK;
}

int recollect_predictor_left_out(const recollect_predictor *predictor)
{
    return predictor != NULL ? predictor->left_out : 0;
}

recollect_status recollect_describe_prediction(const recollect_model *model, const recollect_prediction *prediction,
                                               recollect_line *line, void *user)
{
    RC_TRY(rc_api_begin_beside(model));
    if (prediction == NULL)
        return rc_api_is_null("prediction", "one from recollect_predictor_each");
    RC_TRY(rc_api_check_size("prediction", prediction, RC_API_FIRST(recollect_prediction, none_of_these),
                             sizeof *prediction));
    if (line == NULL)
        return rc_api_is_null("line", "a function that gets the text");
    rc_json_writer w = {0};
    rc_json_begin_object(&w, NULL);
    rc_json_put_text(&w, "file", prediction->path);
    if (prediction->status != RECOLLECT_OK) {
        rc_json_put_text(&w, "error", prediction->message);
    } else {
        rc_json_begin_array(&w, "top");
        for (int i = 0; i < prediction->top; i++) {
            rc_json_begin_object(&w, NULL);
            rc_json_put_text(&w, "class", recollect_model_class_name(model, prediction->labels[i]));
            rc_json_put_int(&w, "label", prediction->labels[i]);
            rc_json_put_real(&w, "probability", prediction->probabilities[i]);
            rc_json_end(&w);
        }
        rc_json_end(&w);
        rc_json_put_real(&w, "unfamiliarity", prediction->unfamiliarity);
        rc_json_put_real(&w, "stranger", prediction->stranger);
        rc_json_put_bool(&w, "none_of_these", prediction->none_of_these != 0);
    }
    rc_json_end(&w);
    return rc_api_end(rc_json_line(&w, line, user));
}
