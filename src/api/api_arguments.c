/* The public interface: checks of arguments that several of its files need. */
#include <stdint.h>

#include "api/api.h"
#include "base/memory.h"

rc_status rc_api_check_images(const recollect_images *images)
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

rc_status rc_api_check_fit(const recollect_model *model, const recollect_images *images)
{
    const rc_augment *own = &model->saved.learner.augment;
    if (images->height == own->h && images->width == own->w && images->channels == own->c)
        return RC_OK;
    return rc_fail(RC_INVALID_ARGUMENT,
                   "images are %d x %d pixels with %d channel%s, the model takes %d x %d with %d",
                   images->width, images->height, images->channels, images->channels > 1 ? "s" : "", own->w,
                   own->h, own->c);
}

rc_status rc_api_check_has_learnt(const recollect_model *model)
{
    return recollect_model_classes(model) > 0 ? RC_OK
                                              : rc_fail(RC_INVALID_ARGUMENT, "the model knows nothing yet");
}
