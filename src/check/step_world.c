#include "check/step_world.h"

#include <string.h>

#include "base/memory.h"
#include "cil/sources.h"
#include "nn/losses.h"
#include "nn/nets.h"

enum { CLASSES_PER_TASK = 20 };
enum { STREAM_SMOOTH = 0x10000 }; /* beyond those of experiments */

const char *rc_step_world_name(int index)
{
    static const char *const names[] = {"train_first", "train_next", "inversion", "train_strong"};
    return index < (int)(sizeof names / sizeof *names) ? names[index] : NULL;
}

const char *rc_step_world_net(int size)
{
    return size == 224 ? "resnet18" : "resnet32";
}

/* ---- what a step works on ------------------------------------------------------------------------------------- */

/* Images in the order of all steps of one call, whichever batch it begins with. */
static size_t order_count(const rc_step_world *w)
{
    return (size_t)w->batch * (RC_STEP_BATCHES - 1 + RC_STEP_MOST);
}

static rc_status make_data(rc_step_world *w, int first_class)
{
    rc_backend *be = w->be;
    size_t count = (size_t)w->batch * RC_STEP_BATCHES, pixels = count * (size_t)w->size * (size_t)w->size * 3;
    RC_TRY(be->alloc(be, pixels, &w->images));
    RC_TRY(be->alloc(be, count * sizeof(int32_t), &w->labels));
    RC_TRY(be->alloc(be, order_count(w) * sizeof(int32_t), &w->order));
    uint8_t *images = rc_alloc(NULL, pixels);
    int32_t *numbers = rc_alloc(NULL, (count + order_count(w)) * sizeof *numbers);
    rc_status status = images && numbers ? RC_OK : RC_OUT_OF_MEMORY;
    for (size_t i = 0; status == RC_OK && i < pixels; i++)
        images[i] = (uint8_t)rc_rng_bits((rc_rng){w->seed, 1}, i);
    for (size_t i = 0; status == RC_OK && i < count; i++)
        numbers[i] = first_class + (int32_t)(i % CLASSES_PER_TASK);
    for (size_t i = 0; status == RC_OK && i < order_count(w); i++)
        numbers[count + i] = (int32_t)((w->plain ? i : i * 7) % count);
    if (status == RC_OK) {
        be->write_bytes(be, w->images, images, pixels);
        be->write_bytes(be, w->labels, numbers, count * sizeof *numbers);
        be->write_bytes(be, w->order, numbers + count, order_count(w) * sizeof *numbers);
    }
    rc_free(NULL, images);
    rc_free(NULL, numbers);
    w->data = (rc_resident_data){.images = w->images,
                                 .labels = w->labels,
                                 .order = w->order,
                                 .augment = {.h = w->size,
                                             .w = w->size,
                                             .c = 3,
                                             .pad = w->plain ? 0 : 4,
                                             .flip = !w->plain,
                                             .mean = {0.5f, 0.5f, 0.5f},
                                             .std = {0.25f, 0.25f, 0.25f},
                                             .stream = RC_STREAM_AUGMENT}};
    return status;
}

/* Gammas and betas of a smooth start; the side of a channel is a bit of its layer's stream. Before a leaky ReLU stands
 * a normalisation whose epsilon halves the deviation by itself. */
static rc_status smooth_model(rc_model *model, rc_rng rng)
{
    rc_backend *be = model->backend;
    for (int i = 0; i < model->net->layers; i++) {
        const rc_layer *layer = &model->net->layer[i];
        bool kinked = layer->act == RC_ACT_RELU || layer->act == RC_ACT_LEAKY_RELU;
        size_t channels = (size_t)layer->c_out;
        if (layer->gamma == SIZE_MAX || !(kinked || layer->bn.zero_gamma))
            continue;
        float *gamma = rc_alloc(NULL, 2 * channels * sizeof *gamma);
        if (!gamma)
            return RC_OUT_OF_MEMORY;
        float *beta = gamma + channels;
        for (size_t c = 0; c < channels; c++) {
            bool above = rc_rng_bits((rc_rng){rng.seed, rng.stream + (uint64_t)i}, c) & 1;
            gamma[c] = layer->act == RC_ACT_LEAKY_RELU ? 0.25f : 0.125f;
            beta[c] = kinked ? (above ? 1.0f : -1.0f) : 0.0f;
        }
        be->write_real(be, rc_real_at(be, model->param, layer->gamma), gamma, channels);
        be->write_real(be, rc_real_at(be, model->param, layer->beta), beta, channels);
        rc_status status = be->sync(be);
        rc_free(NULL, gamma);
        RC_TRY(status);
    }
    return RC_OK;
}

/* Logits of about 1 instead of 0.01. */
static rc_status enlarge_head(rc_head *head)
{
    rc_backend *be = head->backend;
    size_t count = (size_t)head->classes * (size_t)head->d;
    float *weight = rc_alloc(NULL, count * sizeof *weight);
    if (!weight)
        return RC_OUT_OF_MEMORY;
    be->read_real(be, weight, head->weight, count);
    rc_status status = be->sync(be);
    for (size_t i = 0; i < count; i++)
        weight[i] *= 100;
    be->write_real(be, head->weight, weight, count);
    if (status == RC_OK)
        status = be->sync(be);
    rc_free(NULL, weight);
    return status;
}

static rc_status smooth(rc_step_world *w, bool first_task)
{
    rc_rng backbone = {w->seed, STREAM_SMOOTH}, generator = {w->seed, STREAM_SMOOTH + RC_MAX_LAYERS};
    RC_TRY(smooth_model(&w->student.backbone, backbone));
    RC_TRY(enlarge_head(&w->student.head));
    if (first_task)
        return RC_OK;
    RC_TRY(smooth_model(&w->teacher.backbone, backbone));
    RC_TRY(enlarge_head(&w->teacher.head));
    return smooth_model(&w->generator, generator);
}

/* Classifier of the first task; for the others also a student that has grown, a generator and class statistics. */
static rc_status make_models(rc_step_world *w, bool first_task)
{
    rc_backend *be = w->be;
    RC_TRY(rc_net_by_name(&w->net, rc_step_world_net(w->size), 3, w->size, w->size));
    RC_TRY(rc_classifier_create(&w->student, &w->net, be, CLASSES_PER_TASK));
    RC_TRY(rc_model_init(&w->student.backbone, (rc_rng){w->seed, RC_STREAM_BACKBONE}));
    RC_TRY(rc_head_grow(&w->student.head, CLASSES_PER_TASK, (rc_rng){w->seed, RC_STREAM_HEAD}));
    if (first_task)
        return RC_OK;
    RC_TRY(rc_classifier_clone(&w->teacher, &w->student));
    RC_TRY(rc_head_grow(&w->student.head, CLASSES_PER_TASK, (rc_rng){w->seed + 1, RC_STREAM_HEAD}));
    RC_TRY(rc_net_generator(&w->dreams, 3, w->size));
    RC_TRY(rc_model_create(&w->generator, &w->dreams, be));
    RC_TRY(rc_model_init(&w->generator, (rc_rng){w->seed, RC_STREAM_GENERATOR}));
    size_t d = (size_t)rc_net_features(&w->net);
    RC_TRY(be->alloc(be, CLASSES_PER_TASK * d * be->real_bytes, &w->class_mean));
    return be->alloc(be, d * d * be->real_bytes, &w->covariance);
}

static void make_strong(rc_training_settings *s)
{
    s->trivial = true;
    s->turns = true;
    s->mix = (rc_mix){.cutout = 4, .mixup = 0.8f, .cutmix = 1, .stream = RC_STREAM_MIX};
    s->smoothing = 0.1f;
}

static rc_status make_training(rc_step_world *w, bool first_task, bool strong)
{
    rc_training_settings settings = {.batch = w->batch,
                                     .losses = {.real = RC_CE_ALL},
                                     .sgd = {.momentum = 0.9f, .weight_decay = 5e-4f},
                                     .seed = w->seed};
    rc_replay *replay = NULL;
    if (strong)
        make_strong(&settings);
    if (!first_task) {
        settings.n_old = CLASSES_PER_TASK;
        settings.losses = (rc_objective){.real = RC_CE_NEW, .hkd = true, .rkd = true, .war = true};
        settings.task = 1;
        RC_TRY(rc_replay_dreams_create(w->be, &w->generator, 1, w->batch, RC_STREAM_DREAMS, &replay));
    }
    RC_TRY(rc_training_create(w->be, &settings, &w->student, first_task ? NULL : &w->teacher, replay, &w->data,
                              &w->training));
    rc_loss_scale scale = rc_adaptive_loss_scale(CLASSES_PER_TASK, CLASSES_PER_TASK);
    rc_step *control = rc_training_control(w->training);
    control->learning_rate = 0.01f;
    control->weight[RC_LOSS_CE] = (float)(0.5 * scale.cross_entropy);
    control->weight[RC_LOSS_HKD] = (float)(0.15 * scale.distillation);
    control->weight[RC_LOSS_RKD] = (float)(0.5 * scale.distillation);
    control->weight[RC_LOSS_WAR] = 0.1f;
    rc_training_send(w->training);
    return RC_OK;
}

static rc_status make_inversion(rc_step_world *w)
{
    rc_inversion_settings settings = {.batch = w->batch,
                                      .temperature = 1000,
                                      .diversity_epsilon = 1e-6f,
                                      .bn_form = RC_BN_KL,
                                      .consistency = true,
                                      .dce_momentum = 0.9f,
                                      .class_mean = w->class_mean,
                                      .covariance = w->covariance,
                                      .adam = rc_adam_default,
                                      .seed = w->seed,
                                      .task = 1};
    RC_TRY(rc_inversion_create(w->be, &settings, &w->teacher, &w->generator, &w->inversion));
    rc_step *control = rc_inversion_control(w->inversion);
    control->learning_rate = 1e-3f;
    bool even = w->start == RC_START_SMOOTH; /* each loss has about a quarter of the gradient */
    control->weight[RC_LOSS_CONTENT] = even ? 1e4f : 1;
    control->weight[RC_LOSS_DIVERSITY] = even ? 400 : 1;
    control->weight[RC_LOSS_BN] = even ? 0x1p-7f : 50;
    control->weight[RC_LOSS_DCE] = even ? 4 : 0.05f;
    rc_inversion_send(w->inversion);
    return RC_OK;
}

void rc_step_world_destroy(rc_step_world *w)
{
    if (!w)
        return;
    rc_backend *be = w->be;
    rc_training_destroy(w->training);
    rc_inversion_destroy(w->inversion);
    rc_classifier_destroy(&w->student);
    rc_classifier_destroy(&w->teacher);
    rc_model_destroy(&w->generator);
    void *memory[] = {w->images, w->labels, w->order, w->class_mean, w->covariance};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        if (memory[i])
            be->release(be, memory[i]);
    rc_free(NULL, w);
}

static rc_status create(rc_backend *backend, const char *name, rc_step_start start, bool plain, int batch, int size,
                        uint64_t seed, rc_step_world **world)
{
    bool strong = strcmp(name, "train_strong") == 0, inversion = strcmp(name, "inversion") == 0;
    bool first_task = strong || strcmp(name, "train_first") == 0;
    rc_step_world *w = rc_alloc_zeroed(NULL, 1, sizeof *w);
    *world = NULL;
    if (!w)
        return RC_OUT_OF_MEMORY;
    w->be = backend;
    w->batch = batch;
    w->size = size;
    w->seed = seed;
    w->start = start;
    w->plain = plain;
    rc_status status = make_models(w, first_task);
    if (status == RC_OK && start == RC_START_SMOOTH)
        status = smooth(w, first_task);
    if (status == RC_OK && !inversion)
        status = make_data(w, first_task ? 0 : CLASSES_PER_TASK);
    if (status == RC_OK)
        status = inversion ? make_inversion(w) : make_training(w, first_task, strong);
    if (status == RC_OK)
        *world = w;
    else
        rc_step_world_destroy(w);
    return status;
}

rc_status rc_step_world_create(rc_backend *backend, const char *name, rc_step_start start, int batch, int size,
                               uint64_t seed, rc_step_world **world)
{
    return create(backend, name, start, false, batch, size, seed, world);
}

rc_status rc_step_world_create_plain(rc_backend *backend, const char *name, rc_step_start start, int batch, int size,
                                     uint64_t seed, rc_step_world **world)
{
    return create(backend, name, start, true, batch, size, seed, world);
}

void rc_step_world_scale(rc_step_world *w, float factor)
{
    rc_step *control = w->inversion ? rc_inversion_control(w->inversion) : rc_training_control(w->training);
    for (int i = 0; i < RC_LOSS_COUNT; i++)
        control->weight[i] *= factor;
    if (w->inversion)
        rc_inversion_send(w->inversion);
    else
        rc_training_send(w->training);
}

rc_status rc_step_world_reverse(rc_step_world *w)
{
    int batch = w->batch, count = (int)order_count(w);
    int32_t *order = rc_alloc(NULL, (size_t)count * sizeof *order);
    if (!order)
        return RC_OUT_OF_MEMORY;
    for (int i = 0; i < count; i++)
        order[i] = i / batch % RC_STEP_BATCHES * batch + batch - 1 - i % batch;
    w->be->write_bytes(w->be, w->order, order, (size_t)count * sizeof *order);
    rc_status status = w->be->sync(w->be);
    rc_free(NULL, order);
    return status;
}

/* ---- running it ----------------------------------------------------------------------------------------------- */

/* The next step of training is that one. */
static void turn_to(rc_step_world *w, int number)
{
    rc_step *control = rc_training_control(w->training);
    control->batch = (uint32_t)(number % RC_STEP_BATCHES) - 1;
    control->step = (uint32_t)number - 1;
    rc_training_send(w->training);
}

rc_status rc_step_world_run(rc_step_world *w, int number, int count)
{
    if (w->inversion)
        return w->be->repeat(w->be, rc_inversion_step, w->inversion, count);
    turn_to(w, number);
    return w->be->repeat(w->be, rc_training_step, w->training, count);
}

rc_status rc_step_world_refine(rc_step_world *w, int number)
{
    int32_t once[CLASSES_PER_TASK]; /* each class was seen as often as any */
    for (int i = 0; i < CLASSES_PER_TASK; i++)
        once[i] = 1;
    w->be->write_bytes(w->be, rc_training_look(w->training).label_count, once, sizeof once);
    rc_training_begin_epoch(w->training);
    RC_TRY(rc_training_begin_refinement(w->training));
    turn_to(w, number);
    return w->be->repeat(w->be, rc_training_refinement_step, w->training, 1);
}

const void *rc_step_world_losses(const rc_step_world *w)
{
    return w->inversion ? rc_inversion_look(w->inversion).loss : rc_training_look(w->training).loss;
}

const void *rc_step_world_gradient(const rc_step_world *w, const rc_net **net)
{
    *net = w->inversion ? &w->dreams : &w->net;
    return w->inversion ? rc_inversion_look(w->inversion).generator_gradient
                        : rc_training_look(w->training).backbone_gradient;
}

const void *rc_step_world_head_gradient(const rc_step_world *w, size_t *count)
{
    *count = w->inversion ? 0 : (size_t)w->student.head.classes * (size_t)w->student.head.d;
    return w->inversion ? NULL : rc_training_look(w->training).head_gradient;
}

bool rc_step_world_labels(const rc_step_world *w, const void **logits, const int32_t **labels, int *classes)
{
    if (!w->inversion)
        return false;
    rc_inversion_view view = rc_inversion_look(w->inversion);
    *logits = view.logits;
    *labels = view.labels;
    *classes = CLASSES_PER_TASK;
    return true;
}

size_t rc_step_world_bytes(const rc_step_world *w)
{
    return w->inversion ? rc_inversion_look(w->inversion).bytes : rc_training_look(w->training).bytes;
}
