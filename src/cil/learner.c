#include "cil/learner.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "cil/stage.h"
#include "cil/task_stream.h"
#include "nn/nets.h"

rc_status rc_learner_net(const rc_settings *s, const rc_augment *image, rc_net *net)
{
    if (strcmp(s->net, "resnet-small") == 0)
        return rc_net_resnet_small(net, image->c, image->h, image->w, s->net_width, s->net_blocks);
    return rc_net_by_name(net, s->net, image->c, image->h, image->w);
}

static rc_status build_generator_net(rc_learner *l)
{
    const rc_settings *s = &l->settings;
    int c = l->augment.c, h = l->augment.h, w = l->augment.w;
    if (l->method->replay != RC_REPLAY_DREAMS)
        return RC_OK;
    if (strcmp(s->generator, "generator-small") == 0)
        RC_TRY(rc_net_generator_small(&l->generator_net, c, h, s->noise, s->generator_width));
    else
        RC_TRY(rc_net_by_name(&l->generator_net, s->generator, c, h, w));
    return rc_check_dreams(&l->generator_net, &l->net);
}

int rc_held_images(const rc_method *method, const rc_settings *settings)
{
    if (method->replay == RC_REPLAY_PIXELS)
        return settings->pixel_batches * settings->batch;
    if (method->replay != RC_REPLAY_BUFFER)
        return 0;
    return method->buffer_size > 0 ? method->buffer_size : settings->buffer_size;
}

static void drop_statistics(rc_learner *l)
{
    l->backend->release(l->backend, l->class_mean);
    l->backend->release(l->backend, l->covariance);
    l->class_mean = l->covariance = NULL;
    l->statistics_classes = 0;
}

/* No method keeps what it does not use. */
static void adopt(rc_learner *l, const rc_settings *settings, const rc_method *method)
{
    l->settings = *settings;
    l->method = method;
    l->augment.pad = settings->crop_pad;
    l->augment.flip = settings->flip;
    int capacity = rc_held_images(method, settings);
    if (method->replay != RC_REPLAY_BUFFER)
        rc_buffer_destroy(&l->buffer);
    else if (l->buffer.capacity == 0)
        rc_buffer_init(&l->buffer, capacity, (size_t)l->augment.h * (size_t)l->augment.w * (size_t)l->augment.c);
    else
        rc_buffer_resize(&l->buffer, capacity);
    if (method->replay != RC_REPLAY_GENERATIVE)
        rc_vae_destroy(&l->vae);
    if (!method->dce)
        drop_statistics(l);
}

/* Whoever trains an autoencoder does so from the first task on, and on pixels from 0 to 1. */
static rc_status begin_vae(rc_learner *l)
{
    rc_augment *image = &l->augment;
    if (l->method->replay != RC_REPLAY_GENERATIVE || l->vae.net != NULL)
        return RC_OK;
    for (int c = 0; c < image->c; c++) {
        image->mean[c] = 0;
        image->std[c] = 1;
    }
    return rc_vae_create(&l->vae, l->backend, image->c, image->h, l->settings.vae_width, l->settings.seed);
}

rc_status rc_learner_create(rc_learner *learner, rc_backend *backend, const rc_settings *settings,
                            const rc_method *method, const rc_augment *image)
{
    memset(learner, 0, sizeof *learner);
    RC_TRY(rc_settings_check(settings));
    RC_TRY(rc_check_image_shape(image->h, image->w, image->c));
    learner->backend = backend;
    learner->augment = *image;
    learner->augment.stream = RC_STREAM_AUGMENT;
    adopt(learner, settings, method);
    RC_TRY(rc_learner_net(settings, image, &learner->net));
    RC_TRY(build_generator_net(learner));
    RC_TRY(begin_vae(learner));
    rc_status status = rc_classifier_create(&learner->student, &learner->net, backend, 16);
    if (status == RC_OK)
        status = rc_model_init(&learner->student.backbone, (rc_rng){settings->seed, RC_STREAM_BACKBONE});
    if (status != RC_OK)
        rc_learner_destroy(learner);
    return status;
}

void rc_learner_destroy(rc_learner *learner)
{
    if (learner->backend == NULL)
        return;
    rc_learner_end_task(learner);
    rc_classifier_destroy(&learner->student);
    learner->backend->release(learner->backend, learner->class_mean);
    learner->backend->release(learner->backend, learner->covariance);
    rc_buffer_destroy(&learner->buffer);
    rc_vae_destroy(&learner->vae);
    memset(learner, 0, sizeof *learner);
}

rc_status rc_learner_configure(rc_learner *l, const rc_settings *settings, const rc_method *method)
{
    const rc_settings *now = &l->settings;
    bool small = strcmp(now->net, "resnet-small") == 0;
    if (l->in_task)
        return rc_fail(RC_INTERNAL, "task %d has not ended", l->task + 1);
    RC_TRY(rc_settings_check(settings));
    if (method->replay == RC_REPLAY_GENERATIVE && l->vae.net == NULL)
        return rc_fail(RC_INVALID_ARGUMENT,
                       "%s goes on from its own models alone: it needs a generative model that was trained from the "
                       "first class on, and %s makes none",
                       method->title, l->method->title);
    if (strcmp(now->net, settings->net) != 0)
        return rc_fail(RC_INVALID_ARGUMENT, "net is '%s', but the model was trained with '%s' and keeps it",
                       settings->net, now->net);
    if (small && (now->net_width != settings->net_width || now->net_blocks != settings->net_blocks))
        return rc_fail(RC_INVALID_ARGUMENT,
                       "net_width and net_blocks are %d and %d, but the model was trained with %d and %d and "
                       "keeps them",
                       settings->net_width, settings->net_blocks, now->net_width, now->net_blocks);
    adopt(l, settings, method);
    return build_generator_net(l);
}

rc_status rc_learner_set_method(rc_learner *l, const rc_method *method)
{
    const rc_settings settings = l->settings;
    return rc_learner_configure(l, &settings, method);
}

rc_status rc_learner_grow_statistics(rc_learner *l)
{
    rc_backend *be = l->backend;
    int classes = l->student.head.classes, known = l->statistics_classes;
    size_t d = (size_t)l->student.head.d, count = (size_t)classes * d;
    if (classes == known)
        return RC_OK;
    float *host = rc_alloc_zeroed(NULL, count, sizeof *host);
    void *mean = NULL;
    rc_status status = host != NULL ? be->alloc(be, count * be->real_bytes, &mean) : RC_OUT_OF_MEMORY;
    if (status == RC_OK && l->covariance == NULL)
        status = be->alloc(be, d * d * be->real_bytes, &l->covariance);
    if (status == RC_OK) {
        for (size_t i = 0; i < count; i++)
            host[i] = NAN;
        if (known > 0)
            be->read_real(be, host, l->class_mean, (size_t)known * d);
        be->write_real(be, mean, host, count);
        be->release(be, l->class_mean);
        l->class_mean = mean;
        l->statistics_classes = classes;
        mean = NULL;
    }
    be->release(be, mean);
    rc_free(NULL, host);
    return status;
}

/* Images, and in one block of backend memory the order of an epoch and the labels; what a buffer holds follows the
 * task's. */
static rc_status upload(rc_learner *l, const uint8_t *images, const int32_t *labels)
{
    rc_backend *be = l->backend;
    const rc_image_buffer *buffer = &l->buffer;
    size_t count = (size_t)l->images, held = (size_t)buffer->held, pixels;
    size_t image = (size_t)l->augment.h * (size_t)l->augment.w * (size_t)l->augment.c;
    size_t order = (size_t)l->batches * (size_t)l->settings.batch;
    size_t order_bytes = order * sizeof(int32_t), label_bytes = (count + held) * sizeof(int32_t);
    if (!rc_size_mul(count + held, image, &pixels))
        return rc_fail(RC_INVALID_ARGUMENT, "%zu images of %zu bytes are too many", count + held, image);
    RC_TRY(be->alloc(be, order_bytes + label_bytes, &l->task_memory));
    RC_TRY(be->alloc_images(be, pixels, &l->task_images));
    char *base = l->task_memory, *to_labels = base + order_bytes;
    l->data = (rc_resident_data){.order = (int32_t *)(void *)base,
                                 .labels = (int32_t *)(void *)to_labels,
                                 .images = l->task_images,
                                 .augment = l->augment};
    be->write_bytes(be, to_labels, labels, count * sizeof *labels);
    be->write_images(be, l->task_images, 0, images, count * image);
    if (held > 0) {
        be->write_bytes(be, to_labels + count * sizeof *labels, buffer->labels, held * sizeof *labels);
        if (buffer->images != NULL) /* else they come later */
            be->write_images(be, l->task_images, count * image, buffer->images, held * image);
    }
    l->order_host = rc_alloc_zeroed(NULL, order, sizeof *l->order_host);
    l->order_scratch = rc_alloc_zeroed(NULL, count, sizeof *l->order_scratch);
    return l->order_host != NULL && l->order_scratch != NULL ? be->sync(be) : RC_OUT_OF_MEMORY;
}

/* The buffer goes along with the task's steps. */
static rc_status begin_buffer(rc_learner *l)
{
    uint32_t steps = rc_stage_steps(l, RC_STAGE_TRAINING) + rc_stage_steps(l, RC_STAGE_REFINEMENT);
    rc_buffer_task task = {.seed = l->settings.seed,
                           .task = l->task,
                           .images = l->images,
                           .batch = l->settings.batch,
                           .minibatch = l->settings.batch,
                           .epochs = (int)(steps / (uint32_t)l->batches),
                           .offer = l->method->replay == RC_REPLAY_BUFFER};
    return rc_buffer_begin_task(&l->buffer, &task);
}

/* Pixels that will be optimised, and a set of as many places, with the labels they are to show. */
static rc_status begin_pixels(rc_learner *l)
{
    const rc_settings *s = &l->settings;
    rc_image_buffer *set = &l->buffer;
    uint32_t task = (uint32_t)l->task;
    int count = rc_held_images(l->method, s);
    RC_TRY(rc_pixels_create(&l->pixels, l->backend, s->pixel_batches, s->batch, &l->augment, s->seed, task));
    rc_buffer_init(set, count, 0);
    RC_TRY(rc_buffer_reserve(set, (uint64_t)count));
    for (int i = 0; i < count; i++)
        set->labels[i] = rc_pixels_target(s->seed, task, (uint64_t)i, l->n_old);
    set->held = count;
    set->offered = (uint64_t)count;
    return RC_OK;
}

/* They have been optimised: to the pool with them. */
static rc_status pool_pixels(rc_learner *l)
{
    rc_backend *be = l->backend;
    size_t image = (size_t)l->augment.h * (size_t)l->augment.w * (size_t)l->augment.c;
    size_t bytes = (size_t)l->pixels.batch * image;
    if (be->sizing)
        return rc_backend_count_scratch(be, bytes);
    uint8_t *batch = rc_alloc_zeroed(NULL, bytes, 1);
    rc_status status = batch != NULL ? RC_OK : RC_OUT_OF_MEMORY;
    for (int k = 0; status == RC_OK && k < l->pixels.batches; k++) {
        status = rc_pixels_read(&l->pixels, k, &l->augment, batch);
        be->write_images(be, l->task_images, (size_t)l->images * image + (size_t)k * bytes, batch, bytes);
    }
    rc_free(NULL, batch);
    return status;
}

static rc_status add_model_state(rc_learner *l, const char *param, const char *running, const rc_model *model)
{
    RC_TRY(rc_state_add(&l->state, param, RC_STATE_REAL, model->param, model->net->params));
    if (model->net->running == 0)
        return RC_OK;
    return rc_state_add(&l->state, running, RC_STATE_REAL, model->running, model->net->running);
}

/* What the stages of a task change; each adds what it alone has. Teacher and statistics stay as the model file of the
 * task before has them. */
static rc_status register_state(rc_learner *l)
{
    RC_TRY(add_model_state(l, "student.param", "student.running", &l->student.backbone));
    RC_TRY(rc_state_add(&l->state, "student.head", RC_STATE_REAL, l->student.head.weight,
                        (size_t)l->student.head.classes * (size_t)l->student.head.d));
    if (l->vae.net != NULL) {
        RC_TRY(add_model_state(l, "encoder.param", "encoder.running", &l->vae.encoder));
        RC_TRY(add_model_state(l, "decoder.param", "decoder.running", &l->vae.decoder));
    }
    if (l->has.pixels)
        return rc_state_add(&l->state, "pixels", RC_STATE_REAL, l->pixels.memory,
                            (size_t)l->pixels.batches * l->pixels.net->params);
    return l->has.dreams ? add_model_state(l, "generator.param", "generator.running", &l->generator) : RC_OK;
}

rc_sources rc_method_sources(const rc_method *method, int n_old)
{
    rc_replay_kind replay = method->replay;
    rc_sources s = {.dreams = replay == RC_REPLAY_DREAMS && n_old > 0,
                    .pixels = replay == RC_REPLAY_PIXELS && n_old > 0,
                    .old_images = replay == RC_REPLAY_REAL && n_old > 0};
    s.replay = s.dreams || s.pixels || s.old_images || replay == RC_REPLAY_BUFFER ||
               (replay == RC_REPLAY_GENERATIVE && n_old > 0);
    s.teacher = s.dreams || s.pixels || (n_old > 0 && rc_objective_asks_teacher(&method->main));
    return s;
}

rc_status rc_learner_replay(rc_learner *l, uint32_t stream, rc_replay **replay)
{
    *replay = NULL;
    if (l->has.dreams)
        return rc_replay_dreams_create(l->backend, &l->generator, l->settings.batch, stream, replay);
    if (l->has.pixels)
        RC_TRY(pool_pixels(l));
    if (l->buffer.capacity > 0)
        return rc_replay_stored_create(l->backend, &l->buffer, &l->data, replay);
    if (l->method->replay == RC_REPLAY_GENERATIVE) {
        rc_generative_settings settings = {.batch = l->settings.batch,
                                           .old_share = (float)l->n_old / (float)(l->n_old + l->n_new),
                                           .momentum = (float)l->settings.momentum};
        return rc_replay_generative_create(l->backend, &l->vae, l->has.replay ? &l->old_decoder : NULL, &settings,
                                           replay);
    }
    return rc_fail(RC_INTERNAL, "%s has no replay in task %d", l->method->title, l->task + 1);
}

/* Teacher and generator; the generator and the head's rows draw from streams of the task. */
static rc_status build_sources(rc_learner *l)
{
    uint64_t task = (uint64_t)(uint32_t)l->task << 32;
    if (l->has.teacher)
        RC_TRY(rc_classifier_clone(&l->teacher, &l->student));
    if (l->method->replay == RC_REPLAY_GENERATIVE && l->has.replay) {
        RC_TRY(rc_model_create(&l->old_decoder, l->vae.decoder.net, l->backend));
        rc_model_copy(&l->old_decoder, &l->vae.decoder);
    }
    if (l->has.pixels)
        return begin_pixels(l);
    if (!l->has.dreams)
        return RC_OK;
    RC_TRY(rc_model_create(&l->generator, &l->generator_net, l->backend));
    return rc_model_init(&l->generator, (rc_rng){l->settings.seed, task | RC_STREAM_GENERATOR});
}

static rc_status build_task(rc_learner *l, const uint8_t *images, const int32_t *labels)
{
    uint64_t task = (uint64_t)(uint32_t)l->task << 32;
    RC_TRY(build_sources(l));
    RC_TRY(rc_head_grow(&l->student.head, l->n_new, (rc_rng){l->settings.seed, task | RC_STREAM_HEAD}));
    RC_TRY(upload(l, images, labels));
    if (l->buffer.capacity > 0)
        RC_TRY(begin_buffer(l));
    return register_state(l);
}

/* Old images go to the buffer, which is of this task alone; the others, first to last, to new_images and new_labels. */
static rc_status part_old_from_new(rc_learner *l, const uint8_t *images, const int32_t *labels, int count,
                                   uint8_t *new_images, int32_t *new_labels)
{
    size_t image = (size_t)l->augment.h * (size_t)l->augment.w * (size_t)l->augment.c;
    rc_image_buffer *old = &l->buffer;
    rc_buffer_init(old, count, image);
    RC_TRY(rc_buffer_reserve(old, (uint64_t)count));
    int new = 0;
    for (int i = 0; i < count; i++) {
        bool is_old = labels[i] < l->n_old;
        size_t to = is_old ? (size_t)old->held++ : (size_t)new++;
        memcpy((is_old ? old->images : new_images) + to * image, images + (size_t)i * image, image);
        (is_old ? old->labels : new_labels)[to] = labels[i];
    }
    old->offered = (uint64_t)old->held;
    l->images = new;
    l->batches = rc_epoch_batches(new, l->settings.batch);
    return old->held > 0 && new > 0
               ? RC_OK
               : rc_fail(RC_INVALID_ARGUMENT,
                         "task %d has %d images of old classes and %d of new ones, but %s needs both", l->task + 1,
                         old->held, new, l->method->title);
}

static rc_status begin_beside_old(rc_learner *l, const uint8_t *images, const int32_t *labels, int count)
{
    size_t image = (size_t)l->augment.h * (size_t)l->augment.w * (size_t)l->augment.c;
    uint8_t *new_images = rc_alloc_zeroed(NULL, (size_t)count, image);
    int32_t *new_labels = rc_alloc_zeroed(NULL, (size_t)count, sizeof *new_labels);
    rc_status status = new_images != NULL && new_labels != NULL ? RC_OK : RC_OUT_OF_MEMORY;
    l->joins_old = false;
    if (status == RC_OK)
        status = part_old_from_new(l, images, labels, count, new_images, new_labels);
    if (status == RC_OK)
        status = build_task(l, new_images, new_labels);
    rc_free(NULL, new_images);
    rc_free(NULL, new_labels);
    return status;
}

rc_status rc_learner_begin_task(rc_learner *l, int task, int n_new, const uint8_t *images, const int32_t *labels,
                                int count)
{
    if (l->in_task)
        return rc_fail(RC_INTERNAL, "task %d has not ended", l->task + 1);
    if (n_new < 1 || count < 1)
        return rc_fail(RC_INVALID_ARGUMENT, "task %d has %d classes and %d images, expected 1 or more", task + 1,
                       n_new, count);
    /* Steps are counted in 32 bits. */
    uint64_t steps = (uint64_t)(l->settings.epochs + l->settings.refine_epochs) *
                     (uint64_t)rc_epoch_batches(count, l->settings.batch);
    if (steps > INT32_MAX)
        return rc_fail(RC_INVALID_ARGUMENT, "task %d would take %llu steps (%d epochs, %d images in batches of %d), "
                       "expected at most %d", task + 1, (unsigned long long)steps, l->settings.epochs, count,
                       l->settings.batch, INT32_MAX);
    l->task = task;
    l->n_old = l->student.head.classes;
    l->n_new = n_new;
    l->images = l->given = count;
    l->batches = rc_epoch_batches(count, l->settings.batch);
    l->has = rc_method_sources(l->method, l->n_old);
    l->joins_old = false;
    for (int i = 0; i < count && !l->joins_old; i++)
        l->joins_old = labels[i] < l->n_old;
    l->in_task = true;
    return l->has.old_images ? begin_beside_old(l, images, labels, count) : build_task(l, images, labels);
}

rc_status rc_learner_begin_dreams(rc_learner *l)
{
    if (l->in_task)
        return rc_fail(RC_INTERNAL, "task %d has not ended", l->task + 1);
    if (l->method->replay != RC_REPLAY_DREAMS || l->student.head.classes < 1)
        return rc_fail(RC_INVALID_ARGUMENT, "a %s model of %d classes has no dreams", l->method->title,
                       l->student.head.classes);
    l->task = l->student.head.tasks;
    l->n_old = l->student.head.classes;
    l->n_new = l->images = l->given = l->batches = 0;
    l->in_task = true;
    l->joins_old = false;
    l->has = rc_method_sources(l->method, l->n_old);
    RC_TRY(build_sources(l));
    return register_state(l);
}

/* Statistics of a task without estimation describe features that are no more: of fewer classes, by another model. */
static void drop_stale_statistics(rc_learner *l)
{
    if (l->statistics_classes != l->student.head.classes)
        drop_statistics(l);
}

void rc_learner_end_task(rc_learner *l)
{
    drop_stale_statistics(l);
    if (l->learnt && l->method->replay == RC_REPLAY_BUFFER)
        rc_buffer_commit(&l->buffer, l->backend, l->data.images, l->data.labels);
    rc_buffer_end_task(&l->buffer);
    if (l->has.pixels || l->has.old_images)
        rc_buffer_destroy(&l->buffer); /* they are of this task alone */
    rc_pixels_destroy(&l->pixels);
    rc_classifier_destroy(&l->teacher);
    rc_model_destroy(&l->generator);
    rc_model_destroy(&l->old_decoder);
    l->backend->release(l->backend, l->task_memory);
    l->backend->release(l->backend, l->task_images);
    rc_free(NULL, l->order_host);
    rc_free(NULL, l->order_scratch);
    l->task_memory = l->task_images = NULL;
    l->order_host = NULL;
    l->order_scratch = NULL;
    l->has = (rc_sources){0};
    l->in_task = l->learnt = false;
    rc_state_rewind(&l->state, 0);
}

rc_stored rc_learner_stored(const rc_learner *l)
{
    size_t d = (size_t)l->student.head.d, image = (size_t)l->augment.h * (size_t)l->augment.w * (size_t)l->augment.c;
    rc_stored stored = {.images = rc_buffer_bytes(&l->buffer)};
    if (l->vae.net != NULL)
        stored.model = rc_vae_bytes(&l->vae);
    if (l->class_mean != NULL)
        stored.statistics = ((size_t)l->statistics_classes * d + d * d) * sizeof(float);
    if (rc_method_takes_old_images(l->method)) /* whoever is given them all must have kept them */
        stored.images = (size_t)l->given * (image + sizeof(int32_t));
    return stored;
}

bool rc_stored_is_data_free(const rc_stored *stored)
{
    return stored->images == 0 && stored->model == 0;
}

void rc_learner_send_order(rc_learner *l, int epoch)
{
    rc_epoch_order(l->settings.seed, l->task, epoch, l->images, l->settings.batch, l->order_host, l->order_scratch);
    size_t count = (size_t)l->batches * (size_t)l->settings.batch;
    l->backend->write_bytes(l->backend, l->task_memory, l->order_host, count * sizeof *l->order_host);
}
