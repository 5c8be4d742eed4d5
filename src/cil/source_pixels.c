/* Images that are optimised pixel by pixel (docs/methods/deepinversion-pixels.md) in a generator's place, a batch at a
 * time, each with an Adam of its own; of every batch the last iterate is kept, and replayed like stored images. */
#include "base/memory.h"
#include "cil/learner.h"
#include "cil/sources.h"

static int held_images(const rc_method *method, const rc_settings *s)
{
    (void)method;
    return s->pixel_batches * s->batch;
}

/* Pixels that will be optimised, and a set of as many places, with the labels they are to show. */
static rc_status begin(rc_source *source, const rc_learner *l, const int32_t *labels)
{
    rc_pixels *pixels = &((rc_pixel_source *)source)->pixels;
    rc_image_buffer *set = &source->images;
    const rc_settings *s = &l->settings;
    uint32_t task = (uint32_t)l->task;
    int count = held_images(l->method, s);
    (void)labels;
    RC_TRY(rc_pixels_create(pixels, l->backend, s->pixel_batches, s->batch, &l->augment, s->seed, task));
    rc_buffer_init(set, count, 0);
    RC_TRY(rc_buffer_reserve(set, (uint64_t)count));
    for (int i = 0; i < count; i++)
        set->labels[i] = rc_pixels_target(s->seed, task, (uint64_t)i, l->n_old);
    set->held = count;
    set->offered = (uint64_t)count;
    return rc_stored_begin(source, l, false);
}

static void end(rc_source *source, const rc_learner *l)
{
    (void)l;
    rc_buffer_destroy(&source->images);
    rc_pixels_destroy(&((rc_pixel_source *)source)->pixels);
}

static rc_status register_state(rc_source *source, rc_state *state)
{
    const rc_pixels *pixels = &((rc_pixel_source *)source)->pixels;
    return pixels->memory == NULL ? RC_OK
                                  : rc_state_add(state, "pixels", RC_STATE_REAL, pixels->memory,
                                                 (size_t)pixels->batches * pixels->net->params);
}

/* Writes the optimised pixels to the pool. */
static rc_status fill_pool(const rc_pixels *pixels, const rc_learner *l)
{
    rc_backend *be = l->backend;
    size_t image = (size_t)l->augment.h * (size_t)l->augment.w * (size_t)l->augment.c;
    size_t bytes = (size_t)pixels->batch * image;
    if (be->sizing)
        return rc_backend_count_scratch(be, bytes);
    uint8_t *batch = rc_alloc_zeroed(NULL, bytes, 1);
    rc_status status = batch != NULL ? RC_OK : RC_OUT_OF_MEMORY;
    for (int k = 0; status == RC_OK && k < pixels->batches; k++) {
        status = rc_pixels_read(pixels, k, &l->augment, batch);
        be->write_images(be, l->task_images, (size_t)l->images * image + (size_t)k * bytes, batch, bytes);
    }
    rc_free(NULL, batch);
    return status;
}

static rc_status open(rc_source *source, const rc_learner *l, uint32_t stream, rc_replay **replay)
{
    RC_TRY(fill_pool(&((rc_pixel_source *)source)->pixels, l));
    return rc_stored_open(source, l, stream, replay);
}

/* ---- inversion -------------------------------------------------------------------------------------------------- */

static rc_inversion_plan inversion(const rc_method *method, const rc_settings *s)
{
    (void)method;
    return (rc_inversion_plan){
        .parts = (uint32_t)s->pixel_batches, .steps = (uint32_t)s->pixel_steps, .rate = s->pixel_rate};
}

static void weigh_inversion(const rc_learner *l, float weight[RC_LOSS_COUNT], bool active[RC_LOSS_COUNT])
{
    const rc_settings *s = &l->settings;
    const rc_stage_loss losses[] = {
        {RC_LOSS_CONTENT, true, 1},
        {RC_LOSS_BN, true, s->pixel_bn},
        {RC_LOSS_PRIOR, true, s->pixel_variation},
        {RC_LOSS_NORM, true, s->pixel_norm},
    };
    rc_stage_set_losses(losses, sizeof losses / sizeof *losses, weight, active);
}

/* A part is a batch of the images. */
static rc_status open_inversion(rc_source *source, const rc_learner *l, int part, rc_inversion **inversion)
{
    rc_model *batch = &((rc_pixel_source *)source)->pixels.model[part];
    const rc_settings *s = &l->settings;
    rc_inversion_settings settings = {.batch = rc_part_of(l->backend, s->batch),
                                      .temperature = 1,
                                      .bn_form = RC_BN_L2,
                                      .pixels = {.labels = source->images.labels + (size_t)part * (size_t)s->batch,
                                                 .jitter = s->pixel_jitter,
                                                 .stream = RC_STREAM_JITTER + (uint32_t)part},
                                      .adam = rc_adam_default,
                                      .seed = s->seed,
                                      .task = (uint32_t)l->task};
    return rc_inversion_create(l->backend, &settings, &l->teacher, batch, inversion);
}

const rc_source_kind rc_source_pixels = {
    .keeps = "nothing",
    .data_free = true,
    .replays = true,
    .size = sizeof(rc_pixel_source),
    .held_images = held_images,
    .begin = begin,
    .end = end,
    .register_state = register_state,
    .inversion = inversion,
    .open_inversion = open_inversion,
    .weigh_inversion = weigh_inversion,
    .open = open,
};
