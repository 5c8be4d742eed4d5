#include "cil/learner.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "cil/scatter.h"
#include "cil/sources.h"
#include "cil/task_stream.h"
#include "nn/nets.h"

rc_status rc_learner_net(const rc_settings *s, const rc_augment *image, rc_net *net)
{
    if (strcmp(s->net, "resnet-small") == 0)
        return rc_net_resnet_small(net, image->c, image->h, image->w, s->net_width, s->net_blocks);
    return rc_net_by_name(net, s->net, image->c, image->h, image->w);
}

static void drop_statistics(rc_learner *l)
{
    l->backend->release(l->backend, l->class_mean);
    l->backend->release(l->backend, l->covariance);
    l->backend->release(l->backend, l->class_variance);
    l->backend->release(l->backend, l->class_factor);
    l->class_mean = l->covariance = l->class_variance = l->class_factor = NULL;
    l->statistics_classes = 0;
    l->statistics_of_images = false;
}

static void drop_taught(rc_learner *l)
{
    l->backend->release(l->backend, l->taught_mean);
    l->taught_mean = NULL;
    l->taught = 0;
}

/* Takes over settings and row; the source has them already. */
static void adopt(rc_learner *l, const rc_settings *settings, const rc_method *method)
{
    l->settings = *settings;
    l->method = method;
    l->augment.pad = settings->crop_pad;
    l->augment.flip = settings->flip;
    l->augment.zoom = (uint32_t)(settings->zoom * 0x1p32);
    l->augment.colour = (float)settings->colour;
    if (!method->dce)
        drop_statistics(l);
}

static rc_status create(rc_learner *l, const rc_settings *settings, const rc_method *method)
{
    for (int c = 0; c < l->augment.c && method->replay->plain_pixels; c++) {
        l->augment.mean[c] = 0;
        l->augment.std[c] = 1;
    }
    RC_TRY(rc_learner_net(settings, &l->augment, &l->net));
    RC_TRY(rc_source_create(method->replay, l, settings, method, &l->source));
    RC_TRY(rc_classifier_create(&l->student, &l->net, l->backend, 16));
    RC_TRY(rc_model_init(&l->student.backbone, (rc_rng){settings->seed, RC_STREAM_BACKBONE}));
    adopt(l, settings, method);
    return RC_OK;
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
    rc_status status = create(learner, settings, method);
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
    drop_statistics(learner);
    drop_taught(learner);
    rc_source_destroy(learner->source);
    memset(learner, 0, sizeof *learner);
}

static rc_status copy_reals(rc_backend *be, const void *from, size_t count, void **copy)
{
    RC_TRY(be->alloc(be, count * be->real_bytes, copy));
    be->copy(be, *copy, from, count * be->real_bytes);
    return RC_OK;
}

static rc_status clone(rc_learner *copy, const rc_learner *l)
{
    size_t d = (size_t)l->student.head.d;
    RC_TRY(rc_classifier_clone(&copy->student, &l->student));
    copy->student.backbone.net = &copy->net;
    RC_TRY(rc_source_clone(l, &copy->source));
    if (l->taught > 0)
        RC_TRY(copy_reals(l->backend, l->taught_mean, (size_t)l->taught * d, &copy->taught_mean));
    if (l->class_mean == NULL)
        return RC_OK;
    RC_TRY(copy_reals(l->backend, l->class_mean, (size_t)l->statistics_classes * d, &copy->class_mean));
    if (l->class_variance != NULL)
        RC_TRY(copy_reals(l->backend, l->class_variance, (size_t)l->statistics_classes * d, &copy->class_variance));
    if (l->class_factor != NULL)
        RC_TRY(copy_reals(l->backend, l->class_factor, (size_t)l->statistics_classes * rc_factor_numbers((int)d),
                          &copy->class_factor));
    return copy_reals(l->backend, l->covariance, d * d, &copy->covariance);
}

rc_status rc_learner_clone(rc_learner *copy, const rc_learner *l)
{
    memset(copy, 0, sizeof *copy);
    copy->backend = l->backend;
    copy->settings = l->settings;
    copy->method = l->method;
    copy->net = l->net;
    copy->augment = l->augment;
    copy->statistics_classes = l->statistics_classes;
    copy->statistics_of_images = l->statistics_of_images;
    copy->taught = l->taught;
    copy->given = l->given;
    rc_status status = clone(copy, l);
    if (status != RC_OK)
        rc_learner_destroy(copy);
    return status;
}

void rc_learner_move(rc_learner *to, rc_learner *from)
{
    *to = *from;
    to->student.backbone.net = &to->net;
    memset(from, 0, sizeof *from);
}

/* A source that keeps something goes on with other settings; any other one is made anew. */
static rc_status configure_source(rc_learner *l, const rc_settings *settings, const rc_method *method)
{
    const rc_source_kind *kind = method->replay;
    rc_source *source;
    if (l->source->kind == kind && kind->clone != NULL)
        return kind->configure(l->source, l, settings, method);
    RC_TRY(rc_source_create(kind, l, settings, method, &source));
    rc_source_destroy(l->source);
    l->source = source;
    return RC_OK;
}

rc_status rc_learner_configure(rc_learner *l, const rc_settings *settings, const rc_method *method)
{
    const rc_settings *now = &l->settings;
    bool small = strcmp(now->net, "resnet-small") == 0;
    if (l->in_task)
        return rc_fail(RC_INTERNAL, "task %d has not ended", l->task + 1);
    RC_TRY(rc_settings_check(settings));
    if (method->replay->own_models != NULL && l->source->kind != method->replay)
        return rc_fail(RC_INVALID_ARGUMENT, "%s goes on from its own models alone: it needs %s, and %s makes none",
                       method->title, method->replay->own_models, l->method->title);
    if (strcmp(now->net, settings->net) != 0)
        return rc_fail(RC_INVALID_ARGUMENT, "net is '%s', but the model was trained with '%s' and keeps it",
                       settings->net, now->net);
    if (small && (now->net_width != settings->net_width || now->net_blocks != settings->net_blocks))
        return rc_fail(RC_INVALID_ARGUMENT,
                       "net_width and net_blocks are %d and %d, but the model was trained with %d and %d and "
                       "keeps them",
                       settings->net_width, settings->net_blocks, now->net_width, now->net_blocks);
    RC_TRY(configure_source(l, settings, method));
    adopt(l, settings, method);
    return RC_OK;
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
        be->release(be, l->class_variance); /* who has those of all classes keeps them after this */
        be->release(be, l->class_factor);
        l->class_mean = mean;
        l->class_variance = l->class_factor = NULL;
        l->statistics_classes = classes;
        mean = NULL;
    }
    be->release(be, mean);
    rc_free(NULL, host);
    return status;
}

rc_status rc_learner_keep_variances(rc_learner *l)
{
    size_t count = (size_t)l->statistics_classes * (size_t)l->student.head.d;
    return l->class_variance != NULL
               ? RC_OK
               : l->backend->alloc(l->backend, count * l->backend->real_bytes, &l->class_variance);
}

static size_t factor_numbers(const rc_learner *l)
{
    return (size_t)l->statistics_classes * rc_factor_numbers(l->student.head.d);
}

rc_status rc_learner_keep_factors(rc_learner *l)
{
    rc_backend *be = l->backend;
    return l->class_factor != NULL ? RC_OK : be->alloc(be, factor_numbers(l) * be->real_bytes, &l->class_factor);
}

rc_status rc_learner_write_factors(rc_learner *l, const float *factor)
{
    RC_TRY(rc_learner_keep_factors(l));
    l->backend->write_real(l->backend, l->class_factor, factor, factor_numbers(l));
    return l->backend->sync(l->backend);
}

rc_status rc_learner_grow_taught(rc_learner *l, int more)
{
    rc_backend *be = l->backend;
    size_t row = (size_t)l->student.head.d * be->real_bytes;
    void *mean;
    RC_TRY(be->alloc(be, (size_t)(l->taught + more) * row, &mean));
    if (l->taught > 0)
        be->copy(be, mean, l->taught_mean, (size_t)l->taught * row);
    be->release(be, l->taught_mean);
    l->taught_mean = mean;
    l->taught += more;
    return RC_OK;
}

/* Is an image with this label one of those that are replayed, not trained on? */
static bool is_replayed(const rc_learner *l, int32_t label)
{
    return l->has.replay && l->method->replay->replays_old_images && label < l->n_old;
}

/* Memory for the images of the task, and for those that the source has stored: `pixels` bytes in all. Lent ones are
 * there at once, in the order of write_given. */
static rc_status place_images(rc_learner *l, const rc_lent_images *lent, const int32_t *labels, size_t pixels)
{
    rc_backend *be = l->backend;
    if (lent == NULL)
        return be->alloc_images(be, pixels, &l->task_images);
    int at[2] = {0, l->images};
    l->lent = rc_alloc_zeroed(NULL, (size_t)l->given, sizeof *l->lent);
    if (l->lent == NULL)
        return RC_OUT_OF_MEMORY;
    for (int i = 0; i < l->given; i++)
        l->lent[at[is_replayed(l, labels[i])]++] = lent->index != NULL ? lent->index[i] : i;
    rc_lent_images ours = *lent;
    ours.index = l->lent;
    ours.most = l->settings.batch;                  /* of a part, or of the whole (moved.c) */
    if (lent->from == NULL && lent->supply != NULL) /* its windows are the crops */
        l->augment.pad = 0;
    return be->lend_images(be, &ours, pixels - (size_t)l->given * ours.bytes, &l->task_images);
}

/* Images to train on go to the front of the pool, those to replay behind them, both in the order in which they were
 * given. */
static void write_given(rc_learner *l, const uint8_t *images, const int32_t *labels, int32_t *to_labels)
{
    rc_backend *be = l->backend;
    size_t image = (size_t)l->augment.h * (size_t)l->augment.w * (size_t)l->augment.c;
    int at[2] = {0, l->images};
    for (int i = 0, run; i < l->given; i += run) {
        bool old = is_replayed(l, labels[i]);
        for (run = 1; i + run < l->given && is_replayed(l, labels[i + run]) == old; run++) {
        }
        if (images != NULL) /* else they are given one by one */
            be->write_images(be, l->task_images, (size_t)at[old] * image, images + (size_t)i * image,
                             (size_t)run * image);
        be->write_bytes(be, to_labels + at[old], labels + i, (size_t)run * sizeof *labels);
        at[old] += run;
    }
}

/* Images, and in one block of backend memory the order of an epoch and the labels; what the source has stored follows
 * the task's. */
static rc_status upload(rc_learner *l, const uint8_t *images, const rc_lent_images *lent, const int32_t *labels)
{
    rc_backend *be = l->backend;
    const rc_image_buffer *stored = &l->source->images;
    size_t count = (size_t)l->images, held = (size_t)stored->held, pixels;
    size_t image = (size_t)l->augment.h * (size_t)l->augment.w * (size_t)l->augment.c;
    size_t order = (size_t)l->batches * (size_t)l->settings.batch;
    size_t order_bytes = order * sizeof(int32_t), label_bytes = (count + held) * sizeof(int32_t);
    if (!rc_size_mul(count + held, image, &pixels))
        return rc_fail(RC_INVALID_ARGUMENT, "%zu images of %zu bytes are too many", count + held, image);
    RC_TRY(be->alloc(be, order_bytes + label_bytes, &l->task_memory));
    RC_TRY(place_images(l, lent, labels, pixels));
    char *base = l->task_memory;
    int32_t *to_labels = (int32_t *)(void *)(base + order_bytes);
    l->data = (rc_resident_data){
        .order = (int32_t *)(void *)base, .labels = to_labels, .images = l->task_images, .augment = l->augment};
    write_given(l, images, labels, to_labels);
    if (held > 0)
        be->write_bytes(be, to_labels + count, stored->labels, held * sizeof *labels);
    if (held > 0 && stored->images != NULL) /* else they are among those given, or come later */
        be->write_images(be, l->task_images, count * image, stored->images, held * image);
    l->order_host = rc_alloc_zeroed(NULL, order, sizeof *l->order_host);
    l->order_scratch = rc_alloc_zeroed(NULL, count, sizeof *l->order_scratch);
    return l->order_host != NULL && l->order_scratch != NULL ? be->sync(be) : RC_OUT_OF_MEMORY;
}

void rc_learner_give_image(rc_learner *l, int index, const uint8_t *pixels)
{
    size_t image = (size_t)l->augment.h * (size_t)l->augment.w * (size_t)l->augment.c;
    l->backend->write_images(l->backend, l->task_images, (size_t)index * image, pixels, image);
}

rc_status rc_state_add_model(rc_state *state, const char *prefix, const rc_model *model)
{
    char name[RC_STATE_NAME];
    if (model->param == NULL)
        return RC_OK;
    snprintf(name, sizeof name, "%s.param", prefix);
    RC_TRY(rc_state_add(state, name, RC_STATE_REAL, model->param, model->net->params));
    if (model->net->running == 0)
        return RC_OK;
    snprintf(name, sizeof name, "%s.running", prefix);
    return rc_state_add(state, name, RC_STATE_REAL, model->running, model->net->running);
}

/* Registers what the stages of a task change; each stage adds what it alone has. Teacher and statistics stay as they
 * are in the model file of the task before. */
static rc_status register_state(rc_learner *l)
{
    RC_TRY(rc_state_add_model(&l->state, "student", &l->student.backbone));
    RC_TRY(rc_state_add(&l->state, "student.head", RC_STATE_REAL, l->student.head.weight,
                        (size_t)l->student.head.classes * (size_t)l->student.head.d));
    if (l->student.head.bias != NULL)
        RC_TRY(rc_state_add(&l->state, "student.head.bias", RC_STATE_REAL, l->student.head.bias,
                            (size_t)l->student.head.classes));
    const rc_source_kind *kind = l->source->kind;
    return kind->register_state != NULL ? kind->register_state(l->source, &l->state) : RC_OK;
}

rc_status rc_learner_replay(rc_learner *l, uint32_t stream, rc_replay **replay)
{
    const rc_source_kind *kind = l->source->kind;
    *replay = NULL;
    return l->has.replay || kind->learns != NULL
               ? kind->open(l->source, l, stream, replay)
               : rc_fail(RC_INTERNAL, "%s has no replay in task %d", l->method->title, l->task + 1);
}

/* The teacher and the source's part of the task. */
static rc_status begin_sources(rc_learner *l, const int32_t *labels)
{
    l->has.teacher = rc_method_asks_teacher(l->method, l->n_old);
    l->has.replay = rc_method_replays(l->method, l->n_old);
    if (l->has.teacher)
        RC_TRY(rc_classifier_clone(&l->teacher, &l->student));
    return l->has.replay && l->source->kind->begin != NULL ? l->source->kind->begin(l->source, l, labels) : RC_OK;
}

/* One of images and lent is NULL, or both are. */
static rc_status begin(rc_learner *l, int task, int n_new, const uint8_t *images, const rc_lent_images *lent,
                       const int32_t *labels, int count)
{
    if (l->in_task)
        return rc_fail(RC_INTERNAL, "task %d has not ended", l->task + 1);
    if (n_new < 1 || count < 1)
        return rc_fail(RC_INVALID_ARGUMENT, "task %d has %d classes and %d images, expected 1 or more", task + 1, n_new,
                       count);
    /* Steps are counted in 32 bits. */
    uint64_t steps = (uint64_t)(l->settings.epochs + l->settings.refine_epochs) *
                     (uint64_t)rc_epoch_batches(count, l->settings.batch);
    if (steps > INT32_MAX)
        return rc_fail(RC_INVALID_ARGUMENT,
                       "task %d would take %llu steps (%d epochs, %d images in batches of %d), "
                       "expected at most %d",
                       task + 1, (unsigned long long)steps, l->settings.epochs, count, l->settings.batch, INT32_MAX);
    int old = 0;
    for (int i = 0; i < count; i++)
        old += labels[i] < l->student.head.classes;
    bool apart = l->method->replay->replays_old_images;
    l->task = task;
    l->n_old = l->student.head.classes;
    l->n_new = n_new;
    l->given = count;
    l->images = apart ? count - old : count;
    l->batches = rc_epoch_batches(l->images, l->settings.batch);
    l->joins_old = old > 0 && !apart;
    l->in_task = true;
    /* The head's rows draw from a stream of the task. */
    rc_rng rng = {l->settings.seed, (uint64_t)(uint32_t)task << 32 | RC_STREAM_HEAD};
    RC_TRY(begin_sources(l, labels));
    RC_TRY(rc_head_grow(&l->student.head, n_new, rng));
    RC_TRY(upload(l, images, lent, labels));
    return register_state(l);
}

rc_status rc_learner_begin_task(rc_learner *l, int task, int n_new, const uint8_t *images, const int32_t *labels,
                                int count)
{
    return begin(l, task, n_new, images, NULL, labels, count);
}

rc_status rc_learner_begin_lent(rc_learner *l, int task, int n_new, const rc_lent_images *lent, const int32_t *labels)
{
    return begin(l, task, n_new, NULL, lent, labels, lent->count);
}

rc_status rc_learner_begin_dreams(rc_learner *l)
{
    if (l->in_task)
        return rc_fail(RC_INTERNAL, "task %d has not ended", l->task + 1);
    if (!rc_method_dreams(l->method, l->student.head.classes))
        return rc_fail(RC_INVALID_ARGUMENT, "a %s model of %d classes has no dreams", l->method->title,
                       l->student.head.classes);
    l->task = l->student.head.tasks;
    l->n_old = l->student.head.classes;
    l->n_new = l->images = l->given = l->batches = 0;
    l->in_task = true;
    l->joins_old = false;
    RC_TRY(begin_sources(l, NULL));
    return register_state(l);
}

/* After a task without estimation the statistics describe features that no longer exist: of fewer classes, by another
 * model. After any task that has changed the net, so do the means of what the head alone was taught. */
static void drop_stale_statistics(rc_learner *l)
{
    if (l->learnt) {
        drop_taught(l);
        l->statistics_of_images = l->n_old == 0;
    }
    if (l->statistics_classes != l->student.head.classes)
        drop_statistics(l);
}

void rc_learner_end_task(rc_learner *l)
{
    drop_stale_statistics(l);
    if (l->source != NULL && l->source->kind->end != NULL)
        l->source->kind->end(l->source, l);
    rc_classifier_destroy(&l->teacher);
    l->backend->release(l->backend, l->task_memory);
    l->backend->release(l->backend, l->task_images);
    rc_free(NULL, l->order_host);
    rc_free(NULL, l->order_scratch);
    rc_free(NULL, l->lent);
    l->task_memory = l->task_images = NULL;
    l->lent = l->order_host = NULL;
    l->order_scratch = NULL;
    l->has.teacher = l->has.replay = l->in_task = l->learnt = false;
    rc_state_rewind(&l->state, 0);
}

rc_stored rc_learner_stored(const rc_learner *l)
{
    size_t d = (size_t)l->student.head.d;
    rc_stored stored = {0};
    if (l->source->kind->count_stored != NULL)
        l->source->kind->count_stored(l->source, l, &stored);
    if (l->class_mean != NULL) /* with variances means take 16 bits, and so do these */
        stored.statistics = ((size_t)l->statistics_classes * d + d * d) * sizeof(float);
    if (l->class_factor != NULL)
        stored.statistics += (size_t)l->statistics_classes * rc_factor_numbers((int)d) * sizeof(float);
    stored.statistics += (size_t)l->taught * d * sizeof(float);
    return stored;
}

uint32_t rc_stage_steps(const rc_learner *l, rc_stage stage)
{
    rc_task_size task = {&l->settings, l->method, l->n_old, l->n_new, l->batches};
    return rc_task_steps(&task, stage);
}

void rc_learner_send_order(rc_learner *l, int epoch)
{
    rc_epoch_order(l->settings.seed, l->task, epoch, l->images, l->settings.batch, l->order_host, l->order_scratch);
    size_t count = (size_t)l->batches * (size_t)l->settings.batch;
    l->backend->write_bytes(l->backend, l->task_memory, l->order_host, count * sizeof *l->order_host);
    uint32_t steps = rc_stage_steps(l, RC_STAGE_TRAINING) + rc_stage_steps(l, RC_STAGE_REFINEMENT);
    bool trained = (uint32_t)epoch < steps / (uint32_t)l->batches; /* later ones show images as they are met */
    const rc_image_view view = {l->settings.seed, (uint64_t)(uint32_t)l->task << 48 | (uint64_t)(uint32_t)epoch << 16 |
                                                      RC_STREAM_WINDOWS};
    /* Where it fails, reading waits, or fails. */
    l->backend->expect_images(l->backend, l->task_images, l->task_memory, count, trained ? &view : NULL);
}

int rc_learner_send_rest(rc_learner *l)
{
    int batch = l->settings.batch, used = l->batches * batch, rest = l->images - used;
    if (rest <= 0)
        return 0;
    for (int i = 0; i < batch; i++)
        l->order_host[i] = (int32_t)l->order_scratch[used + i % rest];
    size_t count = (size_t)batch;
    l->backend->write_bytes(l->backend, l->task_memory, l->order_host, count * sizeof *l->order_host);
    l->backend->expect_images(l->backend, l->task_images, l->task_memory, count, NULL); /* as send_order does */
    return rest;
}

void rc_learner_show(const rc_learner *l, const double *pixels, uint8_t *out)
{
    const rc_augment *image = &l->augment;
    size_t count = (size_t)image->h * (size_t)image->w * (size_t)image->c;
    for (size_t i = 0; i < count; i++) {
        size_t c = i % (size_t)image->c;
        double value = 255 * (pixels[i] * (double)image->std[c] + (double)image->mean[c]);
        out[i] = (uint8_t)(value >= 255 ? 255 : value > 0 ? value + 0.5 : 0);
    }
}

rc_augment rc_estimation_augment(const rc_learner *l)
{
    rc_augment augment = l->data.augment;
    augment.stream = RC_STREAM_ESTIMATION;
    augment.zoom = 0;
    augment.colour = 0;
    if (l->settings.plain_statistics) {
        augment.pad = 0;
        augment.flip = false;
    }
    return augment;
}
