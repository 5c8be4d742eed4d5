#include "cil/step_inversion.h"

#include "base/memory.h"

struct rc_inversion {
    rc_backend *backend;
    rc_inversion_settings settings;
    const rc_classifier *classifier;
    rc_model *generator;
    int d, classes;

    rc_pass *generator_pass, *classifier_pass;
    rc_tensor noise;
    rc_tensor moved; /* pixel form: images as the classifier sees them */
    rc_optimiser *optimiser;
    rc_dce dce;

    rc_step control; /* the host's copy */
    void *memory;
    size_t bytes;
    rc_step *step;
    int32_t *labels;
    void *logits, *dlogits, *loss, *generator_gradient;
};

static void carve(void *owner, rc_arena *arena)
{
    rc_inversion *v = owner;
    rc_backend *be = v->backend;
    size_t real = be->real_bytes, batch = (size_t)v->settings.batch, classes = (size_t)v->classes, d = (size_t)v->d;
    v->step = rc_arena_take(arena, sizeof *v->step);
    v->logits = rc_arena_take_array(arena, batch * classes, real);
    v->dlogits = rc_arena_take_array(arena, batch * classes, real);
    v->loss = rc_losses_take(be, arena, batch, &v->labels);
    v->generator_gradient = rc_arena_take_array(arena, v->generator->net->params, real);
    if (!v->settings.consistency)
        return;
    v->dce.running_mean = rc_arena_take_array(arena, classes * d, real);
    v->dce.running_covariance = rc_arena_take_array(arena, d * d, real);
    v->dce.seen = rc_arena_take_array(arena, classes, sizeof *v->dce.seen);
    v->dce.workspace = rc_arena_take(arena, be->dce_workspace(be, v->settings.batch, v->d, v->classes));
}

static rc_status check(const rc_backend *backend, const rc_inversion_settings *s, const rc_classifier *classifier,
                       const rc_model *generator)
{
    int batch = backend->parts > 1 ? s->batch * backend->parts : s->batch;
    if (batch < 2)
        return rc_fail(RC_INVALID_ARGUMENT, "batch is %d, expected 2 or more: a covariance of one dream is undefined",
                       batch);
    if (classifier->head.classes < 1)
        return rc_fail(RC_INVALID_ARGUMENT, "the classifier knows no class to dream of");
    if (s->consistency && (s->class_mean == NULL || s->covariance == NULL))
        return rc_fail(RC_INVALID_ARGUMENT, "DCE is on, but the classifier has no class statistics");
    return rc_check_dreams(generator->net, classifier->backbone.net);
}

static bool is_pixel_form(const rc_inversion *v)
{
    return v->settings.pixels.labels != NULL;
}

/* The noise that makes an image of every row of weights, and the labels, once for all steps: those of this process. */
static rc_status prepare_pixels(rc_inversion *v)
{
    rc_backend *be = v->backend;
    const rc_net *net = v->classifier->backbone.net;
    size_t batch = (size_t)v->settings.batch, all = (size_t)v->generator->net->c, first = (size_t)be->part * batch;
    RC_TRY(rc_tensor_create(be, v->settings.batch, net->h, net->w, net->c, &v->moved));
    if (be->sizing)
        return rc_backend_count_scratch(be, batch * all * sizeof(double));
    double *identity = rc_alloc_zeroed(NULL, batch * all, sizeof *identity);
    if (identity == NULL)
        return RC_OUT_OF_MEMORY;
    for (size_t b = 0; b < batch; b++)
        identity[b * all + first + b] = 1;
    be->write_act(be, &v->noise, identity);
    be->write_bytes(be, v->labels, v->settings.pixels.labels + first, batch * sizeof *v->labels);
    rc_free(NULL, identity);
    return RC_OK; /* build() waits */
}

static rc_status build(rc_inversion *v)
{
    rc_backend *be = v->backend;
    const rc_net *dreaming = v->generator->net;
    int batch = v->settings.batch;
    rc_pass_settings train = {.mode = RC_PASS_TRAIN, .n = batch, .update_running = true};
    rc_pass_settings frozen = {.mode = RC_PASS_FROZEN, .n = batch, .constant_model = true};
    RC_TRY(rc_pass_create(be, dreaming, &train, &v->generator_pass));
    if (!is_pixel_form(v)) /* the classifier sees the images as they are */
        frozen.input_gradient_to = rc_pass_output_gradient(v->generator_pass, RC_NO_LAYER);
    RC_TRY(rc_pass_create(be, v->classifier->backbone.net, &frozen, &v->classifier_pass));
    rc_pass_prepare(v->classifier_pass, &v->classifier->backbone);
    RC_TRY(rc_tensor_create(be, batch, dreaming->h, dreaming->w, dreaming->c, &v->noise));
    const rc_net *net = v->classifier->backbone.net;
    RC_TRY(be->reserve_dense(be, batch, v->d, v->classes));
    RC_TRY(be->reserve_losses(be, batch, v->classes, net->h, net->w, net->c));
    v->dce = (rc_dce){.n = batch,
                      .d = v->d,
                      .classes = v->classes,
                      .momentum = v->settings.dce_momentum,
                      .paper = v->settings.dce_paper,
                      .class_mean = v->settings.class_mean,
                      .covariance = v->settings.covariance};
    RC_TRY(rc_backend_carve(v->backend, "inversion step", carve, v, &v->memory, &v->bytes));
    if (is_pixel_form(v))
        RC_TRY(prepare_pixels(v));
    RC_TRY(rc_optimiser_create_adam(be, &v->settings.adam, &v->optimiser));
    RC_TRY(rc_optimiser_add(v->optimiser, v->generator->param, v->generator_gradient, dreaming->params));
    v->control = (rc_step){.seed = v->settings.seed, .task = v->settings.task, .step = UINT32_MAX, .batch = UINT32_MAX};
    rc_step_take_part(be, &v->control);
    rc_inversion_send(v);
    return be->sync(be);
}

rc_status rc_inversion_create(rc_backend *backend, const rc_inversion_settings *settings,
                              const rc_classifier *classifier, rc_model *generator, rc_inversion **inversion)
{
    *inversion = NULL;
    RC_TRY(check(backend, settings, classifier, generator));
    rc_inversion *v = rc_alloc_zeroed(NULL, 1, sizeof *v);
    if (v == NULL)
        return RC_OUT_OF_MEMORY;
    v->backend = backend;
    v->settings = *settings;
    v->classifier = classifier;
    v->generator = generator;
    v->d = classifier->head.d;
    v->classes = classifier->head.classes;
    rc_status status = build(v);
    if (status != RC_OK) {
        rc_inversion_destroy(v);
        return status;
    }
    *inversion = v;
    return RC_OK;
}

void rc_inversion_destroy(rc_inversion *v)
{
    if (v == NULL)
        return;
    rc_pass_destroy(v->generator_pass);
    rc_pass_destroy(v->classifier_pass);
    rc_tensor_destroy(v->backend, &v->noise);
    rc_tensor_destroy(v->backend, &v->moved);
    rc_optimiser_destroy(v->optimiser);
    v->backend->release(v->backend, v->memory);
    rc_free(NULL, v);
}

rc_step *rc_inversion_control(rc_inversion *v)
{
    return &v->control;
}

void rc_inversion_send(rc_inversion *v)
{
    v->backend->write_bytes(v->backend, v->step, &v->control, sizeof v->control);
}

/* ---- the step ----------------------------------------------------------------------------------------------- */

void rc_inversion_noise(rc_inversion *v)
{
    if (!is_pixel_form(v))
        v->backend->random_normal(v->backend, rc_stream_of_generator(RC_STREAM_INVERSION, v->settings.generator),
                                  v->step, &v->noise);
}

/* Losses add their gradients: those of logits and features are 0 until then. */
static void clear_gradients(rc_inversion *v)
{
    rc_backend *be = v->backend;
    size_t batch = (size_t)v->settings.batch;
    be->zero(be, v->dlogits, batch * (size_t)v->classes * be->real_bytes);
    be->zero(be, rc_pass_output_gradient(v->classifier_pass, RC_NO_LAYER), batch * (size_t)v->d * be->real_bytes);
}

/* Losses on statistics, features and logits; the gradient of the features is left in the classifier's pass. What the
 * logits need not wait for runs beside them. */
static void judge(rc_inversion *v)
{
    rc_backend *be = v->backend;
    const rc_inversion_settings *s = &v->settings;
    const float *weight = v->step->weight;
    int batch = s->batch, classes = v->classes, layers;
    void *features = rc_pass_features(v->classifier_pass);
    void *dfeatures = rc_pass_output_gradient(v->classifier_pass, RC_NO_LAYER);
    const rc_bn_stat *statistics = rc_pass_bn_statistics(v->classifier_pass, &layers);

    be->fork(be, RC_SIDE_LANE);
    be->loss_bn(be, s->bn_form, statistics, layers, &weight[RC_LOSS_BN], rc_real_at(be, v->loss, RC_LOSS_BN));
    be->fork(be, RC_MAIN_LANE);
    be->dense_forward(be, batch, v->d, classes, features, v->classifier->head.weight, v->classifier->head.bias,
                      v->logits, classes);
    if (!is_pixel_form(v))
        be->argmax(be, batch, classes, classes, v->logits, v->labels);
    if (s->consistency) {
        be->fork(be, RC_SIDE_LANE); /* now that there are labels */
        be->loss_dce(be, &v->dce, features, v->labels, &weight[RC_LOSS_DCE], rc_real_at(be, v->loss, RC_LOSS_DCE),
                     dfeatures);
        be->fork(be, RC_MAIN_LANE);
    }
    rc_cross_entropy content = {.n = batch,
                                .stride = classes,
                                .first = 0,
                                .count = classes,
                                .temperature = s->temperature,
                                .reduction = RC_MEAN};
    be->loss_cross_entropy(be, &content, v->logits, v->labels, NULL, &weight[RC_LOSS_CONTENT],
                           rc_real_at(be, v->loss, RC_LOSS_CONTENT), v->dlogits);
    if (!is_pixel_form(v))
        be->loss_diversity(be, batch, classes, classes, v->logits, s->diversity_epsilon, &weight[RC_LOSS_DIVERSITY],
                           rc_real_at(be, v->loss, RC_LOSS_DIVERSITY), v->dlogits);
    be->join(be, RC_SIDE_LANE);
    be->dense_backward_data(be, batch, v->d, classes, v->dlogits, classes, v->classifier->head.weight, dfeatures, true);
}

/* The gradient of what the classifier saw is that of the images, or becomes it in the pixel form, and the image priors
 * add theirs. Those of the pixel form look at the moved images, as the classifier does. */
static void image_gradient(rc_inversion *v, void *seen_gradient, void *dimages)
{
    rc_backend *be = v->backend;
    const float *weight = v->step->weight;
    const rc_pixel_form *pixels = &v->settings.pixels;
    if (is_pixel_form(v)) {
        rc_tensor gradient = v->moved;
        gradient.raw = seen_gradient;
        be->loss_total_variation(be, &v->moved, &weight[RC_LOSS_PRIOR], rc_real_at(be, v->loss, RC_LOSS_PRIOR),
                                 seen_gradient);
        be->loss_image_norm(be, &v->moved, &weight[RC_LOSS_NORM], rc_real_at(be, v->loss, RC_LOSS_NORM), seen_gradient);
        be->roll(be, pixels->stream, pixels->jitter, true, v->step, &gradient, dimages);
        return;
    }
    if (v->settings.prior)
        be->loss_smoothing(be, rc_pass_finished_output(v->generator_pass, RC_NO_LAYER), &weight[RC_LOSS_PRIOR],
                           rc_real_at(be, v->loss, RC_LOSS_PRIOR), dimages);
}

void rc_inversion_gradients(rc_inversion *v)
{
    rc_backend *be = v->backend;
    const rc_pixel_form *pixels = &v->settings.pixels;
    be->fork(be, RC_SIDE_LANE);
    clear_gradients(v);
    be->fork(be, RC_MAIN_LANE);
    rc_pass_forward(v->generator_pass, v->generator, &v->noise);
    rc_tensor *images = rc_pass_output(v->generator_pass, RC_NO_LAYER);
    if (is_pixel_form(v)) {
        be->roll(be, pixels->stream, pixels->jitter, false, v->step,
                 rc_pass_finished_output(v->generator_pass, RC_NO_LAYER), v->moved.raw);
        images = &v->moved;
    }
    rc_pass_forward(v->classifier_pass, &v->classifier->backbone, images);
    be->join(be, RC_SIDE_LANE);
    judge(v);
    rc_pass_backward(v->classifier_pass, &v->classifier->backbone, NULL);
    image_gradient(v, rc_pass_input_gradient(v->classifier_pass),
                   rc_pass_output_gradient(v->generator_pass, RC_NO_LAYER));
    rc_pass_backward(v->generator_pass, v->generator, v->generator_gradient);
}

void rc_inversion_update(rc_inversion *v)
{
    rc_optimiser_step(v->optimiser, v->step);
}

void rc_inversion_step(void *inversion)
{
    rc_inversion *v = inversion;
    v->backend->step_begin(v->backend, v->step);
    rc_inversion_noise(v);
    rc_inversion_gradients(v);
    rc_inversion_update(v);
}

rc_status rc_inversion_register(rc_inversion *v, rc_state *state)
{
    static const char *const name[] = {"adam.first", "adam.second"};
    for (int moment = 0; moment < 2; moment++) {
        size_t count;
        void *memory = rc_optimiser_state(v->optimiser, 0, moment, &count);
        RC_TRY(rc_state_add(state, name[moment], RC_STATE_REAL, memory, count));
    }
    if (!v->settings.consistency)
        return RC_OK;
    size_t d = (size_t)v->d, classes = (size_t)v->classes;
    RC_TRY(rc_state_add(state, "dce.running_mean", RC_STATE_REAL, v->dce.running_mean, classes * d));
    RC_TRY(rc_state_add(state, "dce.running_covariance", RC_STATE_REAL, v->dce.running_covariance, d * d));
    return rc_state_add(state, "dce.seen", RC_STATE_INT32, v->dce.seen, classes);
}

const rc_tensor *rc_inversion_dreams(rc_inversion *v)
{
    return rc_pass_finished_output(v->generator_pass, RC_NO_LAYER);
}

rc_inversion_view rc_inversion_look(rc_inversion *v)
{
    return (rc_inversion_view){
        .noise = &v->noise,
        .images = rc_pass_output(v->generator_pass, RC_NO_LAYER),
        .labels = v->labels,
        .features = rc_pass_features(v->classifier_pass),
        .logits = v->logits,
        .loss = v->loss,
        .generator_gradient = v->generator_gradient,
        .bytes = v->bytes + rc_pass_bytes(v->generator_pass) + rc_pass_bytes(v->classifier_pass) +
                 rc_optimiser_bytes(v->optimiser),
    };
}
