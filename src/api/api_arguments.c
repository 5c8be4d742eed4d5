/* The public interface: checks of arguments that several of its files need. */
#include <stdint.h>
#include <string.h>

#include "api/api.h"
#include "base/memory.h"

/* No version of a structure will ever be that large: the caller forgot to set its size. */
static const size_t absurd = 65536;

rc_status rc_api_check_size(const char *name, const void *structure, size_t first, size_t size)
{
    size_t given;
    memcpy(&given, structure, sizeof given);
    if (given < first || given > absurd)
        return rc_fail(RC_INVALID_ARGUMENT, "the %s's size is %zu, expected %zu: set it before the call", name, given,
                       size);
    return RC_OK;
}

void rc_api_fill(void *to, const void *from, size_t size)
{
    size_t given;
    memcpy(&given, to, sizeof given);
    memset((char *)to + sizeof given, 0, given - sizeof given);
    memcpy((char *)to + sizeof given, (const char *)from + sizeof given, (given < size ? given : size) - sizeof given);
}

bool rc_api_give_item(void *to, size_t first, const void *item, size_t size)
{
    size_t given = 0;
    if (to != NULL)
        memcpy(&given, to, sizeof given);
    if (given < first || given > absurd)
        return false;
    rc_api_fill(to, item, size);
    return true;
}

static rc_status check_there(const recollect_images *images)
{
    if (images == NULL)
        return rc_api_is_null("images", "pixels and their shape");
    if (images->pixels == NULL)
        return rc_api_is_null("pixels", "(count, height, width, channels) bytes");
    if (images->count < 1)
        return rc_fail(RC_INVALID_ARGUMENT, "count is %d, expected 1 image or more", images->count);
    return RC_OK;
}

static rc_status check_fit(const recollect_model *model, const recollect_images *images)
{
    const rc_augment *own = &model->saved.learner.augment;
    if (rc_api_has_shape(model, images))
        return RC_OK;
    return rc_fail(RC_INVALID_ARGUMENT, "images are %d x %d pixels with %d channel%s, the model takes %d x %d with %d",
                   images->width, images->height, images->channels, images->channels != 1 ? "s" : "", own->w, own->h,
                   own->c);
}

rc_status rc_api_check_images(const recollect_model *model, const recollect_images *images)
{
    RC_TRY(check_there(images));
    RC_TRY(recollect_model_classes(model) > 0 ? check_fit(model, images)
                                              : rc_check_image_shape(images->height, images->width, images->channels));
    size_t bytes = (size_t)images->height * (size_t)images->width * (size_t)images->channels;
    if (!rc_size_mul(bytes, (size_t)images->count, &bytes) || bytes > PTRDIFF_MAX)
        return rc_fail(RC_INVALID_ARGUMENT, "%d images of %d x %d pixels are more than memory can hold", images->count,
                       images->width, images->height);
    return RC_OK;
}

rc_status rc_api_check_any_images(const recollect_images *images)
{
    RC_TRY(check_there(images));
    if (images->channels != 1 && images->channels != 3)
        return rc_fail(RC_INVALID_ARGUMENT, "images have %d channels, expected 1 (grey) or 3 (red, green, blue)",
                       images->channels);
    if (images->height < 1 || images->height > RC_IMAGE_MAX_SIDE || images->width < 1 ||
        images->width > RC_IMAGE_MAX_SIDE || (size_t)images->height * (size_t)images->width > RC_IMAGE_MAX_PIXELS)
        return rc_fail(RC_INVALID_ARGUMENT,
                       "images are %d x %d pixels, expected sides of 1 to %d and at most %zu "
                       "pixels in all",
                       images->width, images->height, RC_IMAGE_MAX_SIDE, RC_IMAGE_MAX_PIXELS);
    return RC_OK;
}

rc_image rc_api_image_at(const recollect_images *images, int index)
{
    size_t bytes = (size_t)images->height * (size_t)images->width * (size_t)images->channels;
    return (rc_image){.h = images->height,
                      .w = images->width,
                      .c = images->channels,
                      .pixels = (uint8_t *)(uintptr_t)images->pixels + (size_t)index * bytes};
}

bool rc_api_has_shape(const recollect_model *model, const recollect_images *images)
{
    const rc_augment *own = &model->saved.learner.augment;
    return images->height == own->h && images->width == own->w && images->channels == own->c;
}

rc_status rc_api_check_has_learnt(const recollect_model *model)
{
    return recollect_model_classes(model) > 0 ? RC_OK : rc_fail(RC_INVALID_ARGUMENT, "the model knows nothing yet");
}
