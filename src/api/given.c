#include "api/given.h"

#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "data/hold_out.h"

static size_t image_bytes(const rc_given *given)
{
    return (size_t)given->data.h * (size_t)given->data.w * (size_t)given->data.c;
}

void rc_given_free(rc_given_parts *parts)
{
    rc_free(NULL, parts->held_out);
    rc_free(NULL, parts->labels);
    rc_free(NULL, parts->test_images);
    rc_free(NULL, parts->image);
    *parts = (rc_given_parts){0};
}

/* The labels in the order of the parts. Returns how many are trained on. */
static int sort_labels(const rc_given_parts *parts, const rc_split *all)
{
    int place = 0, trained = 0;
    for (int part = 0; part < 2; part++) {
        for (int i = 0; i < all->count; i++)
            if (parts->held_out[i] == part)
                parts->labels[place++] = all->labels[i];
        trained = part == 0 ? place : trained;
    }
    return trained;
}

rc_status rc_given_part(rc_given_parts *parts, const rc_given *given, double hold_out, uint64_t seed, rc_dataset *data)
{
    const rc_split *all = &given->data.train;
    parts->given = given;
    *data = given->data;
    if (all->images != NULL && hold_out <= 0)
        return RC_OK;
    parts->held_out = rc_alloc_zeroed(NULL, (size_t)all->count, sizeof *parts->held_out);
    parts->labels = rc_alloc_zeroed(NULL, (size_t)all->count, sizeof *parts->labels);
    parts->image = rc_alloc_zeroed(NULL, 1, image_bytes(given));
    if (parts->held_out == NULL || parts->labels == NULL || parts->image == NULL)
        return RC_OUT_OF_MEMORY;
    if (hold_out > 0)
        RC_TRY(rc_hold_out(all->labels, all->count, data->classes, hold_out, seed, parts->held_out));
    int trained = sort_labels(parts, all);
    if (trained < all->count) {
        parts->test_images = rc_alloc_zeroed(NULL, (size_t)(all->count - trained), image_bytes(given));
        if (parts->test_images == NULL)
            return RC_OUT_OF_MEMORY;
    }
    data->train = (rc_split){.count = trained, .labels = parts->labels};
    data->test = (rc_split){
        .count = all->count - trained, .images = parts->test_images, .labels = parts->labels + trained};
    return RC_OK;
}

/* *pixels: image `index` of all. */
static rc_status read_image(const rc_given_parts *parts, int index, const uint8_t **pixels)
{
    const rc_given *given = parts->given;
    *pixels = parts->image;
    if (given->data.train.images == NULL)
        return given->read(given->user, index, parts->image);
    *pixels = given->data.train.images + (size_t)index * image_bytes(given);
    return RC_OK;
}

/* Tells how far the reading is, twice a second; RC_CANCELLED: the caller has had enough. */
static rc_status tell(const rc_watch *watch, int done, int total, double *told)
{
    rc_watch copy = *watch;
    if (done < total && rc_now() - *told < 0.5)
        return RC_OK;
    *told = rc_now();
    return rc_watch_reading(&copy, "reading images", done, total)
               ? RC_OK
               : rc_fail(RC_CANCELLED, "stopped after %d of %d images were read", done, total);
}

rc_status rc_given_measure(rc_given_parts *parts, const rc_watch *watch, rc_dataset *data)
{
    int total = parts->given->data.train.count;
    rc_pixel_counts counts = {0};
    double told = rc_now();
    if (data->train.images != NULL) {
        rc_dataset_measure(data);
        return RC_OK;
    }
    for (int i = 0; i < total; i++) {
        const uint8_t *pixels;
        if (parts->held_out[i])
            continue;
        RC_TRY(read_image(parts, i, &pixels));
        rc_pixels_count(&counts, pixels, (size_t)data->h * (size_t)data->w, data->c);
        RC_TRY(tell(watch, i + 1, total, &told));
    }
    rc_pixels_measure(&counts, data->c, data->mean, data->std);
    return RC_OK;
}

/* To the learner, or, if that is NULL, to `images`. */
static rc_status hand_out(rc_given_parts *parts, const rc_watch *watch, rc_learner *learner, uint8_t *images)
{
    int total = parts->given->data.train.count, trained = 0, scored = 0;
    size_t bytes = image_bytes(parts->given);
    double told = rc_now();
    for (int i = 0; i < total; i++) {
        const uint8_t *pixels;
        RC_TRY(read_image(parts, i, &pixels));
        if (parts->held_out[i])
            memcpy(parts->test_images + (size_t)scored++ * bytes, pixels, bytes);
        else if (learner == NULL)
            memcpy(images + (size_t)trained++ * bytes, pixels, bytes);
        else
            rc_learner_give_image(learner, trained++, pixels);
        RC_TRY(tell(watch, i + 1, total, &told));
    }
    return RC_OK;
}

rc_status rc_given_send(rc_given_parts *parts, const rc_watch *watch, rc_learner *learner)
{
    RC_TRY(hand_out(parts, watch, learner, NULL));
    return learner->backend->sync(learner->backend);
}

rc_status rc_given_collect(rc_given_parts *parts, const rc_watch *watch, uint8_t *images)
{
    return hand_out(parts, watch, NULL, images);
}
