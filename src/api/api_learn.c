/* The public interface: learning. */
#include <string.h>
#include <sys/stat.h>

#include "api/adapt.h"
#include "api/api.h"
#include "base/memory.h"

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
            return rc_fail(RC_INVALID_ARGUMENT, "label %d is %d, expected 0 to %d", i, (int)labels[i], classes - 1);
    return RC_OK;
}

/* Bytes of the first version of the structure, which every caller knows. */
static const size_t first_result = RC_API_FIRST(recollect_learn_result, seconds);

rc_status rc_api_check_result(const recollect_learn_result *result)
{
    return result != NULL ? rc_api_check_size("result", result, first_result, sizeof *result) : RC_OK;
}

static void fill_result(const rc_learn_result *from, recollect_learn_result *to)
{
    if (to == NULL)
        return;
    recollect_learn_result filled = {.known = from->known,
                                     .added = from->added,
                                     .images = from->images,
                                     .held_out = from->held_out,
                                     .broken = from->broken,
                                     .accuracy = from->accuracy,
                                     .seconds = from->seconds,
                                     .merged = from->merged,
                                     .old_images = from->old_images,
                                     .old_before = from->old_before,
                                     .old_after = from->old_after,
                                     .inversion_seconds = from->wall[RC_STAGE_INVERSION],
                                     .training_seconds = from->wall[RC_STAGE_TRAINING],
                                     .refinement_seconds = from->wall[RC_STAGE_REFINEMENT],
                                     .estimation_seconds = from->wall[RC_STAGE_ESTIMATION],
                                     .left_out = from->left_out,
                                     .not_pictures = from->not_pictures,
                                     .epochs = from->epochs,
                                     .adapt = rc_adapt_name(from->adapt)};
    rc_api_fill(to, &filled, sizeof filled);
}

/* Are both there, and the same? Either may be NULL. */
static bool is_same_file(const char *a, const char *b)
{
    struct stat first, second;
    return a != NULL && b != NULL && stat(a, &first) == 0 && stat(b, &second) == 0 && first.st_dev == second.st_dev &&
           first.st_ino == second.st_ino;
}

static rc_status learn(recollect_model *model, rc_learn_settings *lesson, recollect_learn_result *result)
{
    recollect_context *context = model->context;
    rc_learn_result learnt;
    recollect_review *review = NULL;
    lesson->review = &review;
    RC_TRY(rc_api_begin_change(model, true));
    rc_api_enter(context);
    rc_api_forget(model);
    if (is_same_file(model->finished, model->checkpoint)) /* or this lesson would be refused */
        rc_api_drop_checkpoint(model);
    rc_status status = rc_learn(&model->saved, context->backend, lesson, &learnt);
    if (status == RC_OK) {
        fill_result(&learnt, result);
        rc_review_destroy(&model->review);
        model->review = review;
        rc_api_drop_checkpoint(model);
        model->finished = model->checkpoint; /* which is set for each lesson */
        model->checkpoint = NULL;
        rc_free(NULL, model->preset); /* it was for a first model, which this no longer is */
        model->preset = NULL;
    }
    rc_api_end_change(model);
    status = rc_api_end(status);
    rc_api_leave(context);
    return status;
}

/* Images that a caller has or will give, of one shape: nothing of the caller's is written to. */
static rc_dataset view_of(const recollect_images *images, const int32_t *labels, const char *const *class_names,
                          int classes)
{
    return (rc_dataset){.format = "memory",
                        .name = "memory",
                        .h = images->height,
                        .w = images->width,
                        .c = images->channels,
                        .classes = classes,
                        .class_name = rc_without_const(class_names),
                        .train = {.count = images->count,
                                  .images = rc_without_const(images->pixels),
                                  .labels = rc_without_const(labels)}};
}

static rc_status learn_given(recollect_model *model, const rc_given *given, recollect_learn_result *result)
{
    rc_learn_settings lesson = rc_api_lesson(model);
    lesson.given = given;
    return learn(model, &lesson, result);
}

recollect_status recollect_learn(recollect_model *model, const recollect_images *images, const int32_t *labels,
                                 const char *const *class_names, int classes, recollect_learn_result *result)
{
    RC_TRY(rc_api_begin_model(model));
    RC_TRY(rc_api_check_result(result));
    RC_TRY(rc_api_check_images(model, images));
    RC_TRY(check_names(class_names, classes));
    RC_TRY(check_labels(labels, images->count, classes));
    rc_given given = {.data = view_of(images, labels, class_names, classes)};
    return learn_given(model, &given, result);
}

/* ---- images that the caller gives when they are asked for ---------------------------------------------- */

static rc_status read_stream(void *user, int index, uint8_t *pixels)
{
    const recollect_stream *stream = user;
    size_t budget = rc_memory_budget(); /* of this context; the caller may use another one */
    recollect_status status = stream->read(stream->user, index, pixels);
    rc_memory_set_budget(budget);
    if (status == RECOLLECT_OK)
        return RC_OK;
    if ((int)status < RECOLLECT_OK || (int)status > RECOLLECT_UNSYNCED)
        return rc_fail(RC_INVALID_ARGUMENT,
                       "`read` of the stream returned %d for image %d, expected a recollect_status", (int)status,
                       index);
    return rc_fail((rc_status)status, "`read` of the stream has no image %d: %s", index, recollect_status_text(status));
}

recollect_status recollect_learn_stream(recollect_model *model, const recollect_stream *stream,
                                        const char *const *class_names, int classes, recollect_learn_result *result)
{
    static const uint8_t none; /* stands for pixels that are there */
    recollect_stream taken = {0};
    RC_TRY(rc_api_begin_model(model));
    RC_TRY(rc_api_check_result(result));
    if (stream == NULL)
        return rc_api_is_null("stream", "images and a function that reads them");
    RC_TRY(rc_api_check_size("stream", stream, RC_API_FIRST(recollect_stream, user), sizeof taken));
    memcpy(&taken, stream, stream->size < sizeof taken ? stream->size : sizeof taken);
    if (taken.read == NULL)
        return rc_api_is_null("read", "a function that gives an image");
    recollect_images images = {&none, taken.count, taken.height, taken.width, taken.channels};
    RC_TRY(rc_api_check_images(model, &images));
    RC_TRY(check_names(class_names, classes));
    RC_TRY(check_labels(taken.labels, taken.count, classes));
    images.pixels = NULL;
    rc_given given = {
        .data = view_of(&images, taken.labels, class_names, classes), .read = read_stream, .user = &taken};
    return learn_given(model, &given, result);
}

const recollect_review *recollect_model_review(const recollect_model *model)
{
    return model != NULL ? model->review : NULL;
}

recollect_status recollect_learn_folder(recollect_model *model, const char *path, recollect_learn_result *result)
{
    RC_TRY(rc_api_begin_model(model));
    RC_TRY(rc_api_check_result(result));
    if (path == NULL || path[0] == '\0')
        return rc_fail(RC_INVALID_ARGUMENT, "path is %s, expected the name of a folder", path ? "empty" : "NULL");
    rc_learn_settings lesson = rc_api_lesson(model);
    lesson.data = path;
    return learn(model, &lesson, result);
}
