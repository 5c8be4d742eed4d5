/* The public interface: dreaming. */
#include <string.h>

#include "api/api.h"

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
    RC_TRY(rc_api_check_has_learnt(model));
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
