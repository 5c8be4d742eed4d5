/* Inversion (docs/methods/rdfcil.md, cwd.md): what the source is to replay is made out of the frozen old model. The
 * source says how (source.h): which losses, how many steps, and in how many parts, one after the other. Adam at a
 * constant rate. */
#include "base/clock.h"
#include "base/memory.h"
#include "cil/stage.h"

void rc_inversion_weights(const rc_learner *l, float weight[RC_LOSS_COUNT], bool active[RC_LOSS_COUNT])
{
    l->method->replay->weigh_inversion(l, weight, active);
}

static rc_status create(const rc_learner *l, uint32_t part, rc_inversion **inversion)
{
    return l->source->kind->open_inversion(l->source, l, (int)part, inversion);
}

rc_status rc_stage_inversion_create(rc_learner *l, rc_inversion **inversion)
{
    return create(l, 0, inversion);
}

/* Steps of a part from `from` up to `to`, of which those before `first` belong to earlier parts. */
static rc_status invert(rc_learner *l, rc_inversion *inversion, double rate, uint32_t first, uint32_t from, uint32_t to,
                        const rc_stage_hooks *hooks)
{
    RC_TRY(rc_inversion_register(inversion, &l->state));
    if (hooks->restore != NULL && from > first) /* a part that has not begun has nothing to restore */
        RC_TRY(hooks->restore(hooks->user, &l->state));
    const rc_inversion_view view = rc_inversion_look(inversion);
    rc_stage_run run = {.learner = l,
                        .hooks = hooks,
                        .step = rc_inversion_step,
                        .context = inversion,
                        .loss = view.loss,
                        .last_call = rc_now(),
                        .report = {.stage = RC_STAGE_INVERSION,
                                   .task = l->task,
                                   .steps = rc_stage_steps(l, RC_STAGE_INVERSION),
                                   .images_per_step = l->settings.batch,
                                   .learning_rate = rate,
                                   .inversion = inversion,
                                   .state = &l->state}};
    rc_step *control = rc_inversion_control(inversion);
    rc_inversion_weights(l, control->weight, run.active);
    run.weight = control->weight;
    control->learning_rate = (float)rate;
    control->step = from - first - 1; /* "just before": the step advances it first */
    rc_inversion_send(inversion);
    rc_status status = rc_stage_reserve_labels(&run, view.images->n, view.images->n);
    if (status == RC_OK)
        status = rc_stage_repeat(&run, from, to);
    rc_free(NULL, run.block);
    return status;
}

rc_status rc_stage_inversion(rc_learner *l, uint32_t from, const rc_stage_hooks *hooks)
{
    const rc_inversion_plan plan = rc_method_inversion(l->method, &l->settings, l->n_old);
    for (uint32_t k = from / plan.steps; k < plan.parts; k++, from = k * plan.steps) {
        int entries = l->state.entries;
        rc_inversion *inversion;
        RC_TRY(create(l, k, &inversion));
        rc_status status = invert(l, inversion, plan.rate, k * plan.steps, from, (k + 1) * plan.steps, hooks);
        rc_state_rewind(&l->state, entries);
        rc_inversion_destroy(inversion);
        RC_TRY(status);
    }
    return RC_OK;
}
