/* Inversion (docs/methods/rdfcil.md, cwd.md): a generator is trained, against the frozen old model, to make images
 * that the old model is sure about, of all its classes, with the statistics it saw in training and, for CwD, the
 * class means and the covariance of its features. Adam at a constant rate.
 *
 * The pixel form (docs/methods/deepinversion-pixels.md) optimises images instead, a batch at a time, each with an
 * Adam of its own; of every batch the last iterate is kept. */
#include "base/clock.h"
#include "cil/stage.h"

/* A model whose classes were never estimated (made by a method without estimation) is inverted without DCE. */
static bool is_consistent(const rc_learner *l)
{
    return l->method->dce && l->settings.lambda_dce > 0 && l->statistics_classes == l->n_old;
}

/* Both forms have content and BN statistics, each with its own weights. One class cannot be more or less diverse: its
 * entropy and log(1) are both 0. */
void rc_inversion_weights(const rc_learner *l, float weight[RC_LOSS_COUNT], bool active[RC_LOSS_COUNT])
{
    const rc_settings *s = &l->settings;
    bool pixels = l->has.pixels;
    const rc_stage_loss losses[] = {
        {RC_LOSS_CONTENT, true, pixels ? 1 : s->weight_content},
        {RC_LOSS_DIVERSITY, !pixels && l->n_old > 1, s->weight_diversity},
        {RC_LOSS_BN, true, pixels ? s->pixel_bn : s->weight_bn},
        {RC_LOSS_PRIOR, pixels || s->weight_prior > 0, pixels ? s->pixel_variation : s->weight_prior},
        {RC_LOSS_NORM, pixels, s->pixel_norm},
        {RC_LOSS_DCE, !pixels && is_consistent(l), s->lambda_dce},
    };
    rc_stage_set_losses(losses, sizeof losses / sizeof *losses, weight, active);
}

static rc_status create_generator_form(rc_learner *l, rc_inversion **inversion)
{
    const rc_settings *s = &l->settings;
    rc_inversion_settings settings = {.batch = s->batch,
                                      .temperature = (float)s->temperature,
                                      .diversity_epsilon = (float)s->diversity_epsilon,
                                      .bn_form = s->paper_bn_sum ? RC_BN_KL_SUM : RC_BN_KL,
                                      .prior = s->weight_prior > 0,
                                      .consistency = is_consistent(l),
                                      .dce_momentum = (float)s->dce_momentum,
                                      .dce_paper = s->paper_dce,
                                      .class_mean = l->class_mean,
                                      .covariance = l->covariance,
                                      .adam = {0.9f, 0.999f, 1e-8f},
                                      .seed = s->seed,
                                      .task = (uint32_t)l->task};
    return rc_inversion_create(l->backend, &settings, &l->teacher, &l->generator, inversion);
}

/* Batch number k of the images. */
static rc_status create_pixel_form(rc_learner *l, int k, rc_inversion **inversion)
{
    const rc_settings *s = &l->settings;
    rc_inversion_settings settings = {.batch = s->batch,
                                      .temperature = 1,
                                      .bn_form = RC_BN_L2,
                                      .pixels = {.labels = l->buffer.labels + (size_t)k * (size_t)s->batch,
                                                 .jitter = s->pixel_jitter,
                                                 .stream = RC_STREAM_JITTER + (uint32_t)k},
                                      .adam = {0.9f, 0.999f, 1e-8f},
                                      .seed = s->seed,
                                      .task = (uint32_t)l->task};
    return rc_inversion_create(l->backend, &settings, &l->teacher, &l->pixels.model[k], inversion);
}

rc_status rc_stage_inversion_create(rc_learner *l, rc_inversion **inversion)
{
    return l->has.pixels ? create_pixel_form(l, 0, inversion) : create_generator_form(l, inversion);
}

/* Steps of an inversion from `from` up to `to`, of which those before `first` belong to earlier batches of pixels. */
static rc_status invert(rc_learner *l, rc_inversion *inversion, uint32_t first, uint32_t from, uint32_t to,
                        const rc_stage_hooks *hooks)
{
    const rc_settings *s = &l->settings;
    RC_TRY(rc_inversion_register(inversion, &l->state));
    if (hooks->restore != NULL && from > first) /* a batch that has not begun has nothing to restore */
        RC_TRY(hooks->restore(hooks->user, &l->state));
    rc_stage_run run = {.learner = l, .hooks = hooks, .step = rc_inversion_step, .context = inversion,
                        .loss = rc_inversion_look(inversion).loss, .last_call = rc_now(),
                        .report = {.stage = RC_STAGE_INVERSION, .task = l->task,
                                   .steps = rc_stage_steps(l, RC_STAGE_INVERSION),
                                   .images_per_step = s->batch,
                                   .learning_rate = l->has.pixels ? s->pixel_rate : s->inversion_rate,
                                   .state = &l->state}};
    rc_step *control = rc_inversion_control(inversion);
    rc_inversion_weights(l, control->weight, run.active);
    control->learning_rate = (float)run.report.learning_rate;
    control->step = from - first - 1; /* "just before": the step advances it first */
    rc_inversion_send(inversion);
    return rc_stage_repeat(&run, from, to);
}

/* Takes the inversion over. */
static rc_status invert_and_drop(rc_learner *l, rc_inversion *inversion, uint32_t first, uint32_t from, uint32_t to,
                                 const rc_stage_hooks *hooks)
{
    int entries = l->state.entries;
    rc_status status = invert(l, inversion, first, from, to, hooks);
    rc_state_rewind(&l->state, entries);
    rc_inversion_destroy(inversion);
    return status;
}

rc_status rc_stage_inversion(rc_learner *l, uint32_t from, const rc_stage_hooks *hooks)
{
    uint32_t steps = rc_stage_steps(l, RC_STAGE_INVERSION), each = (uint32_t)l->settings.pixel_steps;
    rc_inversion *inversion;
    if (!l->has.pixels) {
        RC_TRY(create_generator_form(l, &inversion));
        return invert_and_drop(l, inversion, 0, from, steps, hooks);
    }
    rc_stage_hooks later = *hooks;
    later.restore = NULL; /* only the batch that is resumed restores */
    for (uint32_t k = from / each, begun = from; k * each < steps; k++, hooks = &later, begun = k * each) {
        RC_TRY(create_pixel_form(l, (int)k, &inversion));
        RC_TRY(invert_and_drop(l, inversion, k * each, begun, (k + 1) * each, hooks));
    }
    return RC_OK;
}
