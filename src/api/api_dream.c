/* The public interface: dreaming. */
#include <math.h>
#include <string.h>

#include "api/api.h"
#include "base/json.h"

static rc_status dream(recollect_model *model, const rc_dream_settings *settings, rc_dreams *dreams)
{
    RC_TRY(rc_api_begin_change(model, false));
    rc_status status = rc_dream(&model->saved, settings, dreams);
    rc_api_end_change(model);
    return status;
}

/* Dreams of every class, as many as are wanted or were wanted before. */
static rc_status make_dreams(recollect_model *model, int per_class)
{
    rc_dream_settings settings = {.per_class = per_class, .watch = model->context->watch};
    rc_dreams dreams;
    if (model->dreams.per_class >= per_class)
        return RC_OK;
    rc_status status = dream(model, &settings, &dreams);
    if (status == RC_OK) {
        rc_dreams_destroy(&model->dreams);
        model->dreams = dreams;
    }
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
    RC_TRY(rc_api_check_has_learnt(model));
    if (label < 0 || label >= recollect_model_classes(model))
        return rc_fail(RC_INVALID_ARGUMENT, "label is %d, expected 0 to %d", label, recollect_model_classes(model) - 1);
    if (count < 1 || count > 10000)
        return rc_fail(RC_INVALID_ARGUMENT, "count is %d, expected 1 to 10000", count);
    recollect_context *context = model->context;
    rc_api_enter(context);
    rc_status status = make_dreams(model, count);
    if (status == RC_OK) {
        const rc_dreams *d = &model->dreams;
        size_t image = (size_t)d->h * (size_t)d->w * (size_t)d->c;
        *made = rc_dreams_of(d, label, count);
        memcpy(pixels, d->images + (size_t)label * (size_t)d->per_class * image, (size_t)*made * image);
    }
    status = rc_api_end(status);
    rc_api_leave(context);
    return status;
}

/* ---- pictures ------------------------------------------------------------------------------------------ */

#define FIRST_RESULT RC_API_FIRST(recollect_dream_result, spread)
_Static_assert(RC_DREAM_REAL == RECOLLECT_REAL_IMAGES, "the header says how many real images are shown");

enum { MOST_DREAMS = 10000, MOST_STEPS = 10000000, MOST_SCALE = 64, USUAL_DREAMS = 16 };

static rc_status check_range(const char *name, int value, int high)
{
    return value >= 0 && value <= high ? RC_OK
                                       : rc_fail(RC_INVALID_ARGUMENT, "%s is %d, expected 0 to %d", name, value, high);
}

/* The caller's settings, as much of them as both know, over what is chosen without them. */
static rc_status take_settings(const recollect_dream_settings *given, recollect_dream_settings *settings)
{
    const size_t first = RC_API_FIRST(recollect_dream_settings, overwrite);
    *settings = (recollect_dream_settings){.size = sizeof *settings};
    if (given != NULL) {
        RC_TRY(rc_api_check_size("settings", given, first, sizeof *settings));
        memcpy(settings, given, given->size < sizeof *settings ? given->size : sizeof *settings);
    }
    RC_TRY(check_range("per_class", settings->per_class, MOST_DREAMS));
    RC_TRY(check_range("steps", settings->steps, MOST_STEPS));
    RC_TRY(check_range("scale", settings->scale, MOST_SCALE));
    if (settings->per_class == 0)
        settings->per_class = USUAL_DREAMS;
    return RC_OK;
}

static void copy(void *to, const void *from, size_t count, size_t size)
{
    if (to != NULL && from != NULL)
        memcpy(to, from, count * size);
}

static void fill_result(const rc_dreams *dreams, const rc_real_images *real, int sheets, recollect_dream_result *result)
{
    recollect_dream_result filled = {0};
    size_t classes = (size_t)dreams->classes, places = classes * RC_DREAM_REAL;
    if (result == NULL)
        return;
    memcpy(&filled, result, result->size < sizeof filled ? result->size : sizeof filled); /* the caller's arrays */
    filled.steps = dreams->steps;
    filled.dreams = dreams->sampled;
    filled.per_class = dreams->per_class;
    filled.sheets = sheets;
    copy(filled.taken, dreams->count, classes, sizeof *filled.taken);
    copy(filled.spread, dreams->spread, classes, sizeof *filled.spread);
    copy(filled.probabilities, dreams->probability, classes * (size_t)dreams->per_class, sizeof *filled.probabilities);
    copy(filled.real_probabilities, real->probability, places, sizeof *filled.real_probabilities);
    copy(filled.real_taken, real->taken, places, sizeof *filled.real_taken);
    for (size_t i = 0; real->classes == 0 && i < places; i++) {
        if (filled.real_probabilities != NULL)
            filled.real_probabilities[i] = NAN;
        if (filled.real_taken != NULL)
            filled.real_taken[i] = -1;
    }
    rc_api_fill(result, &filled, sizeof filled);
}

static rc_status dream_into(recollect_model *model, const rc_picture_settings *pictures,
                            const recollect_dream_settings *settings, recollect_dream_result *result)
{
    rc_dreams dreams = {0};
    rc_real_images real = {0};
    const rc_dream_settings wanted = {.per_class = settings->per_class,
                                      .steps = settings->steps,
                                      .seed = settings->seed,
                                      .watch = model->context->watch};
    const rc_real_settings beside = {.data = settings->beside,
                                     .format = model->format,
                                     .threads = model->context->settings.threads,
                                     .watch = model->context->watch};
    RC_TRY(rc_dreams_check(&model->saved, pictures));
    if (pictures->beside)
        RC_TRY(rc_real_images_read(&model->saved, &beside, &real));
    rc_status status = dream(model, &wanted, &dreams);
    if (status == RC_OK)
        status = rc_dreams_write(&dreams, &real, &model->saved, pictures);
    if (status == RC_OK || status == RC_UNSYNCED)
        fill_result(&dreams, &real, rc_dreams_sheets(&model->saved, pictures), result);
    rc_dreams_destroy(&dreams);
    rc_real_images_destroy(&real);
    return status;
}

recollect_status recollect_dream_folder(recollect_model *model, const char *folder,
                                        const recollect_dream_settings *settings, recollect_dream_result *result)
{
    recollect_dream_settings taken;
    RC_TRY(rc_api_begin_model(model));
    if (folder == NULL || folder[0] == '\0')
        return rc_fail(RC_INVALID_ARGUMENT, "folder is %s, expected its name", folder ? "empty" : "NULL");
    RC_TRY(take_settings(settings, &taken));
    if (result != NULL)
        RC_TRY(rc_api_check_size("result", result, FIRST_RESULT, sizeof *result));
    RC_TRY(rc_api_check_has_learnt(model));
    if (taken.beside != NULL && taken.beside[0] == '\0')
        return rc_fail(RC_INVALID_ARGUMENT, "beside is empty, expected the name of a folder, or NULL");
    const rc_picture_settings pictures = {.folder = folder,
                                          .per_class = taken.per_class,
                                          .scale = taken.scale,
                                          .beside = taken.beside != NULL,
                                          .force = taken.overwrite != 0};
    recollect_context *context = model->context;
    rc_api_enter(context);
    rc_status status = rc_api_end(dream_into(model, &pictures, &taken, result));
    rc_api_leave(context);
    return status;
}

/* ---- in words ------------------------------------------------------------------------------------------ */

static void put_probabilities(rc_json_writer *w, const char *key, const float *probability, int count)
{
    if (probability == NULL) {
        rc_json_put_null(w, key);
        return;
    }
    rc_json_begin_array(w, key);
    for (int i = 0; i < count; i++)
        if (!isnan(probability[i]))
            rc_json_put_real(w, NULL, (double)probability[i]);
    rc_json_end(w);
}

/* What real images of a class are taken for, in the order of their probabilities. */
static void put_taken(rc_json_writer *w, const rc_saved_model *model, const int32_t *taken)
{
    if (taken == NULL) {
        rc_json_put_null(w, "real_taken_for");
        return;
    }
    rc_json_begin_array(w, "real_taken_for");
    for (int i = 0; i < RC_DREAM_REAL; i++)
        if (taken[i] >= 0 && taken[i] < model->learner.student.head.classes)
            rc_json_put_text(w, NULL, model->class_name[taken[i]]);
    rc_json_end(w);
}

static void put_class(rc_json_writer *w, const rc_saved_model *model, const recollect_dream_result *r, int label)
{
    char name[RC_DREAM_NAME];
    size_t row = (size_t)label, real = row * RC_DREAM_REAL;
    rc_dreams_class_name(model, label, name);
    rc_json_begin_object(w, NULL);
    rc_json_put_text(w, "name", model->class_name[label]);
    if (r->taken == NULL) {
        rc_json_put_null(w, "picture");
        rc_json_put_null(w, "taken");
    } else {
        rc_json_put_text(w, "picture", r->taken[label] > 0 ? name : NULL);
        rc_json_put_int(w, "taken", r->taken[label]);
    }
    rc_json_put_real(w, "spread", r->spread != NULL ? r->spread[label] : (double)NAN);
    put_probabilities(w, "probabilities", r->probabilities ? r->probabilities + row * (size_t)r->per_class : NULL,
                      r->per_class);
    put_probabilities(w, "real_probabilities", r->real_probabilities ? r->real_probabilities + real : NULL,
                      RC_DREAM_REAL);
    put_taken(w, model, r->real_taken ? r->real_taken + real : NULL);
    rc_json_end(w);
}

recollect_status recollect_describe_dreams(const recollect_model *model, const recollect_dream_result *result,
                                           const char *folder, recollect_line *line, void *user)
{
    recollect_dream_result known = {0};
    rc_json_writer w = {0};
    char name[RC_DREAM_NAME];
    RC_TRY(rc_api_begin_model(model));
    RC_TRY(rc_api_check_has_learnt(model));
    if (result == NULL)
        return rc_api_is_null("result", "what recollect_dream_folder filled");
    RC_TRY(rc_api_check_size("result", result, FIRST_RESULT, sizeof known));
    if (line == NULL)
        return rc_api_is_null("line", "a function that takes lines");
    memcpy(&known, result, result->size < sizeof known ? result->size : sizeof known);
    if (known.sheets < 0 || known.sheets > recollect_model_classes(model) || known.per_class < 0)
        return rc_fail(RC_INVALID_ARGUMENT,
                       "the result has %d sheets and %d dreams a class of %d classes: it is another's", known.sheets,
                       known.per_class, recollect_model_classes(model));
    rc_json_begin_object(&w, NULL);
    rc_json_put_text(&w, "folder", folder);
    rc_json_put_int(&w, "steps", known.steps);
    rc_json_put_int(&w, "dreams", known.dreams);
    rc_json_put_int(&w, "per_class", known.per_class);
    rc_json_begin_array(&w, "sheets");
    for (int sheet = 0; sheet < known.sheets; sheet++) {
        rc_dreams_sheet_name(sheet, name);
        rc_json_put_text(&w, NULL, name);
    }
    rc_json_end(&w);
    rc_json_begin_array(&w, "classes");
    for (int label = 0; label < recollect_model_classes(model); label++)
        put_class(&w, &model->saved, &known, label);
    rc_json_end(&w);
    rc_json_end(&w);
    recollect_context *context = model->context;
    rc_api_enter(context);
    rc_status status = rc_api_end(rc_json_line(&w, line, user));
    rc_api_leave(context);
    return status;
}
