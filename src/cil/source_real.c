/* All real old images, which the caller gives along with a task's: replayed (for analysis: what a perfect source would
 * do), or trained on as if they were new (an upper bound). */
#include "cil/learner.h"
#include "cil/sources.h"

/* The old images get places behind the others, in the order in which they are given. */
static rc_status begin(rc_source *source, const rc_learner *l, const int32_t *labels)
{
    rc_image_buffer *set = &source->images;
    int old = l->given - l->images;
    if (old == 0 || l->images == 0)
        return rc_fail(RC_INVALID_ARGUMENT,
                       "task %d has %d images of old classes and %d of new ones, but %s needs both", l->task + 1, old,
                       l->images, l->method->title);
    rc_buffer_init(set, old, 0);
    RC_TRY(rc_buffer_reserve(set, (uint64_t)old));
    for (int i = 0; i < l->given; i++)
        if (labels[i] < l->n_old)
            set->labels[set->held++] = labels[i];
    return rc_stored_begin(source, l, false);
}

static void end(rc_source *source, const rc_learner *l)
{
    (void)l;
    rc_buffer_destroy(&source->images);
}

/* The caller that gives them all must have kept them. */
static void count_stored(const rc_source *source, const rc_learner *l, rc_stored *stored)
{
    size_t image = (size_t)l->augment.h * (size_t)l->augment.w * (size_t)l->augment.c;
    (void)source;
    stored->images += (size_t)l->given * (image + sizeof(int32_t));
}

const rc_source_kind rc_source_real = {
    .keeps = "all images",
    .replays = true,
    .takes_old_images = true,
    .replays_old_images = true,
    .count_stored = count_stored,
    .begin = begin,
    .end = end,
    .open = rc_stored_open,
};

const rc_source_kind rc_source_all = {
    .keeps = "all images",
    .takes_old_images = true,
    .count_stored = count_stored,
};
