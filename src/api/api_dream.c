/* The public interface: dreaming. */
#include <string.h>

#include "api/api.h"

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
        *made = d->kept[label] < count ? d->kept[label] : count;
        memcpy(pixels, d->images + (size_t)label * (size_t)d->per_class * image, (size_t)*made * image);
    }
    status = rc_api_end(status);
    rc_api_leave(context);
    return status;
}

/* ---- pictures ------------------------------------------------------------------------------------------ */

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

static void fill_result(const rc_dreams *dreams, recollect_dream_result *result)
{
    if (result == NULL)
        return;
    recollect_dream_result filled = {
        .steps = dreams->steps, .dreams = dreams->sampled, .taken = result->taken, .spread = result->spread};
    if (filled.taken != NULL)
        memcpy(filled.taken, dreams->count, (size_t)dreams->classes * sizeof *filled.taken);
    if (filled.spread != NULL)
        memcpy(filled.spread, dreams->spread, (size_t)dreams->classes * sizeof *filled.spread);
    rc_api_fill(result, &filled, sizeof filled);
}

static rc_status dream_into(recollect_model *model, const char *folder, const recollect_dream_settings *settings,
                            recollect_dream_result *result)
{
    rc_dreams dreams;
    rc_dream_settings wanted = {.per_class = settings->per_class,
                                .steps = settings->steps,
                                .seed = settings->seed,
                                .watch = model->context->watch};
    RC_TRY(rc_dreams_check(&model->saved, folder, settings->overwrite != 0));
    RC_TRY(dream(model, &wanted, &dreams));
    rc_status status = rc_dreams_write(&dreams, &model->saved, folder, settings->scale);
    if (status == RC_OK || status == RC_UNSYNCED)
        fill_result(&dreams, result);
    rc_dreams_destroy(&dreams);
    return status;
}

recollect_status recollect_dream_folder(recollect_model *model, const char *folder,
                                        const recollect_dream_settings *settings, recollect_dream_result *result)
{
    const size_t first_result = RC_API_FIRST(recollect_dream_result, spread);
    recollect_dream_settings taken;
    RC_TRY(rc_api_begin_model(model));
    if (folder == NULL || folder[0] == '\0')
        return rc_fail(RC_INVALID_ARGUMENT, "folder is %s, expected its name", folder ? "empty" : "NULL");
    RC_TRY(take_settings(settings, &taken));
    if (result != NULL)
        RC_TRY(rc_api_check_size("result", result, first_result, sizeof *result));
    RC_TRY(rc_api_check_has_learnt(model));
    recollect_context *context = model->context;
    rc_api_enter(context);
    rc_status status = rc_api_end(dream_into(model, folder, &taken, result));
    rc_api_leave(context);
    return status;
}
