/* Inversion (METHODS 4, 6.2): a generator is trained, against the frozen old model, to make images that the old model
 * is sure about, of all its classes, with the statistics it saw in training and, for CwD, the class means and the
 * covariance of its features. Adam at a constant rate. */
#include "base/clock.h"
#include "cil/stage.h"

/* A model whose classes were never estimated (made by a method without estimation) is inverted without DCE. */
static bool is_consistent(const rc_learner *l)
{
    return l->method->dce && l->settings.lambda_dce > 0 && l->statistics_classes == l->n_old;
}

static void set_weights(const rc_learner *l, rc_step *control, bool active[RC_LOSS_COUNT])
{
    const rc_settings *s = &l->settings;
    control->learning_rate = (float)s->inversion_rate;
    control->weight[RC_LOSS_CONTENT] = (float)s->weight_content;
    /* One class cannot be more or less diverse: its entropy and log(1) are both 0. */
    control->weight[RC_LOSS_DIVERSITY] = l->n_old > 1 ? (float)s->weight_diversity : 0;
    control->weight[RC_LOSS_BN] = (float)s->weight_bn;
    control->weight[RC_LOSS_PRIOR] = (float)s->weight_prior;
    control->weight[RC_LOSS_DCE] = (float)s->lambda_dce;
    active[RC_LOSS_CONTENT] = active[RC_LOSS_BN] = true;
    active[RC_LOSS_DIVERSITY] = l->n_old > 1;
    active[RC_LOSS_PRIOR] = s->weight_prior > 0;
    active[RC_LOSS_DCE] = is_consistent(l);
}

rc_status rc_stage_inversion_create(rc_learner *l, rc_inversion **inversion)
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

static rc_status invert(rc_learner *l, rc_inversion *inversion, uint32_t from, const rc_stage_hooks *hooks)
{
    RC_TRY(rc_inversion_register(inversion, &l->state));
    if (hooks->restore != NULL)
        RC_TRY(hooks->restore(hooks->user, &l->state));
    rc_stage_run run = {.learner = l, .hooks = hooks, .step = rc_inversion_step, .context = inversion,
                        .loss = rc_inversion_look(inversion).loss, .last_call = rc_now(),
                        .report = {.stage = RC_STAGE_INVERSION, .task = l->task,
                                   .steps = rc_stage_steps(l, RC_STAGE_INVERSION),
                                   .images_per_step = l->settings.batch,
                                   .learning_rate = l->settings.inversion_rate, .state = &l->state}};
    rc_step *control = rc_inversion_control(inversion);
    set_weights(l, control, run.active);
    control->step = from - 1; /* "just before": the step advances it first */
    rc_inversion_send(inversion);
    return rc_stage_repeat(&run, from, run.report.steps);
}

rc_status rc_stage_inversion(rc_learner *l, uint32_t from, const rc_stage_hooks *hooks)
{
    rc_inversion *inversion;
    RC_TRY(rc_stage_inversion_create(l, &inversion));
    int entries = l->state.entries;
    rc_status status = invert(l, inversion, from, hooks);
    rc_state_rewind(&l->state, entries);
    rc_inversion_destroy(inversion);
    return status;
}
