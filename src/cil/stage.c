#include "cil/stage.h"

#include <math.h>

#include "base/clock.h"

const char *rc_stage_name(rc_stage stage)
{
    static const char *const name[] = {"inversion", "training", "refinement", "estimation"};
    return stage >= 0 && stage < RC_STAGE_COUNT ? name[stage] : "unknown";
}

const char *rc_loss_name(int loss)
{
    static const char *const name[RC_LOSS_COUNT] = {
        [RC_LOSS_CE] = "cross entropy",   [RC_LOSS_INTER] = "inter",           [RC_LOSS_INTRA] = "intra",
        [RC_LOSS_REPLAY] = "replay",      [RC_LOSS_HEAD] = "head",             [RC_LOSS_HKD] = "HKD",
        [RC_LOSS_KD] = "KD",              [RC_LOSS_KD_REPLAY] = "KD of replay", [RC_LOSS_FEATURE] = "feature",
        [RC_LOSS_RKD] = "RKD",
        [RC_LOSS_WAR] = "WAR",            [RC_LOSS_CONTENT] = "content",       [RC_LOSS_DIVERSITY] = "diversity",
        [RC_LOSS_BN] = "BN statistics",   [RC_LOSS_PRIOR] = "image prior",     [RC_LOSS_NORM] = "image norm",
        [RC_LOSS_DCE] = "DCE",            [RC_LOSS_RECONSTRUCTION] = "reconstruction", [RC_LOSS_LATENT] = "latent",
    };
    return name[loss];
}

const char *rc_loss_key(int loss)
{
    static const char *const key[RC_LOSS_COUNT] = {
        [RC_LOSS_CE] = "ce",           [RC_LOSS_INTER] = "inter",       [RC_LOSS_INTRA] = "intra",
        [RC_LOSS_REPLAY] = "replay",   [RC_LOSS_HEAD] = "head",         [RC_LOSS_HKD] = "hkd",
        [RC_LOSS_KD] = "kd",           [RC_LOSS_KD_REPLAY] = "kd_replay", [RC_LOSS_FEATURE] = "feature",
        [RC_LOSS_RKD] = "rkd",
        [RC_LOSS_WAR] = "war",         [RC_LOSS_CONTENT] = "content",   [RC_LOSS_DIVERSITY] = "diversity",
        [RC_LOSS_BN] = "bn",           [RC_LOSS_PRIOR] = "prior",       [RC_LOSS_NORM] = "norm",
        [RC_LOSS_DCE] = "dce",         [RC_LOSS_RECONSTRUCTION] = "reconstruction", [RC_LOSS_LATENT] = "latent",
    };
    return key[loss];
}

/* Main epochs and refinement epochs of a task. Main training is as long for a method that does not refine, so that
 * methods compare, and share their first task. A small task gets more epochs, to reach min_steps. */
static int epochs_of(const rc_task_size *task, bool refinement)
{
    const rc_settings *s = task->settings;
    bool replay = rc_method_sources(task->method, task->n_old).replay;
    if (refinement && (s->paper_no_refinement || s->refine_epochs == 0 || !task->method->refine || !replay))
        return 0;
    int epochs = refinement ? s->refine_epochs : s->epochs - (s->paper_no_refinement ? 0 : s->refine_epochs);
    int least = (s->min_steps + task->batches - 1) / task->batches;
    return epochs > least ? epochs : least;
}

uint32_t rc_task_steps(const rc_task_size *task, rc_stage stage)
{
    const rc_settings *s = task->settings;
    const rc_sources from = rc_method_sources(task->method, task->n_old);
    if (task->batches == 0 && stage != RC_STAGE_INVERSION)
        return 0;
    switch (stage) {
    case RC_STAGE_INVERSION:
        return from.dreams   ? (uint32_t)s->inversion_steps
               : from.pixels ? (uint32_t)s->pixel_batches * (uint32_t)s->pixel_steps
                             : 0;
    case RC_STAGE_TRAINING: return (uint32_t)epochs_of(task, false) * (uint32_t)task->batches;
    case RC_STAGE_REFINEMENT: return (uint32_t)epochs_of(task, true) * (uint32_t)task->batches;
    case RC_STAGE_ESTIMATION: {
        if (!task->method->dce)
            return 0;
        int ratio = task->n_old / task->n_new > 1 ? task->n_old / task->n_new : 1;
        return (uint32_t)task->batches * (from.replay ? 1 + (uint32_t)ratio : 1);
    }
    case RC_STAGE_COUNT: break;
    }
    return 0;
}

uint32_t rc_stage_steps(const rc_learner *l, rc_stage stage)
{
    rc_task_size task = {&l->settings, l->method, l->n_old, l->n_new, l->batches};
    return rc_task_steps(&task, stage);
}

rc_status rc_stage_bytes(rc_learner *l, rc_stage stage, size_t *bytes)
{
    *bytes = 0;
    if (rc_stage_steps(l, stage) == 0)
        return RC_OK;
    if (stage == RC_STAGE_INVERSION) {
        rc_inversion *inversion;
        RC_TRY(rc_stage_inversion_create(l, &inversion));
        *bytes = rc_inversion_look(inversion).bytes;
        rc_inversion_destroy(inversion);
    } else if (stage == RC_STAGE_TRAINING) {
        rc_training *training;
        RC_TRY(rc_stage_training_create(l, &training));
        *bytes = rc_training_look(training).bytes;
        rc_training_destroy(training);
    }
    return RC_OK;
}

void rc_stage_set_losses(const rc_stage_loss *losses, size_t count, float weight[RC_LOSS_COUNT],
                         bool active[RC_LOSS_COUNT])
{
    for (int i = 0; i < RC_LOSS_COUNT; i++) {
        weight[i] = 0;
        active[i] = false;
    }
    for (size_t i = 0; i < count; i++) {
        weight[losses[i].loss] = losses[i].active ? (float)losses[i].weight : 0;
        active[losses[i].loss] = losses[i].active;
    }
}

/* The setting that most likely made a stage diverge. */
static const char *rate_of(rc_stage stage)
{
    static const char *const name[] = {"inversion_rate", "learning_rate", "refine_rate", "learning_rate"};
    return name[stage];
}

/* Reads the losses into the report. */
static rc_status read_losses(rc_stage_run *run)
{
    float loss[RC_LOSS_COUNT];
    const rc_stage_report *r = &run->report;
    rc_backend *be = run->learner->backend;
    be->read_real(be, loss, run->loss, RC_LOSS_COUNT);
    RC_TRY(be->sync(be));
    for (int i = 0; i < RC_LOSS_COUNT; i++) {
        run->report.loss[i] = run->active[i] ? (double)loss[i] : NAN;
        if (run->active[i] && !isfinite(loss[i]))
            return rc_fail(RC_NUMERIC,
                           "task %d, %s, step %u of %u: the %s loss is %g. Nothing of this is kept, what was saved "
                           "before is intact; a lower %s may help",
                           r->task + 1, rc_stage_name(r->stage), r->step, r->steps, rc_loss_name(i), (double)loss[i],
                           rate_of(r->stage));
    }
    return RC_OK;
}

rc_status rc_stage_repeat(rc_stage_run *run, uint32_t from, uint32_t to)
{
    rc_backend *be = run->learner->backend;
    uint32_t step = from;
    while (step < to) {
        /* As many steps as fit into a quarter of the interval, so that a signal is answered soon. */
        double fit = run->seconds_per_step > 0 ? run->hooks->interval / 4 / run->seconds_per_step : 1;
        uint32_t chunk = fit < 1 ? 1 : fit > 1000 ? 1000 : (uint32_t)fit;
        if (chunk > to - step)
            chunk = to - step;
        double began = rc_now();
        RC_TRY(be->repeat(be, run->step, run->context, (int)chunk));
        run->seconds_per_step = (rc_now() - began) / chunk;
        step += chunk;
        run->report.step = step;
        bool last = step == run->report.steps;
        if (!last && rc_now() - run->last_call < run->hooks->interval)
            continue;
        run->last_call = rc_now();
        RC_TRY(read_losses(run));
        RC_TRY(run->hooks->boundary(run->hooks->user, &run->report));
    }
    return RC_OK;
}

/* Hooks between the stages and the caller's: the time since the last call belongs to the stage that calls. */
typedef struct stopwatch {
    const rc_stage_hooks *hooks;
    double *wall, last;
} stopwatch;

static rc_status timed_boundary(void *user, const rc_stage_report *report)
{
    stopwatch *watch = user;
    double now = rc_now();
    if (watch->wall != NULL)
        watch->wall[report->stage] += now - watch->last;
    watch->last = now;
    return watch->hooks->boundary(watch->hooks->user, report);
}

static rc_status passed_restore(void *user, rc_state *state)
{
    const stopwatch *watch = user;
    return watch->hooks->restore(watch->hooks->user, state);
}

/* The last step may have left numbers that no loss has seen. */
static rc_status check_result(rc_learner *l)
{
    rc_status status = rc_state_check(l->backend, &l->state);
    return status != RC_NUMERIC ? status
                                : rc_fail(RC_NUMERIC,
                                          "task %d, after its last step: %s. Nothing of this is kept, what was saved "
                                          "before is intact; a lower learning_rate may help",
                                          l->task + 1, rc_message());
}

rc_status rc_run_stages(rc_learner *l, rc_stage stage, uint32_t step, const rc_stage_hooks *hooks,
                        double wall[RC_STAGE_COUNT])
{
    stopwatch watch = {.hooks = hooks, .wall = wall, .last = rc_now()};
    rc_stage_hooks first = {.boundary = timed_boundary, .user = &watch, .interval = hooks->interval};
    const rc_stage_hooks later = first; /* only the stage that is resumed restores */
    first.restore = hooks->restore != NULL ? passed_restore : NULL;
    /* What the task has comes first: a stage looks at its models as it begins. */
    if (first.restore != NULL)
        RC_TRY(first.restore(first.user, &l->state));
    if (stage == RC_STAGE_INVERSION) {
        if (rc_stage_steps(l, RC_STAGE_INVERSION) > 0)
            RC_TRY(rc_stage_inversion(l, step, &first));
        first = later;
        stage = RC_STAGE_TRAINING;
        step = 0;
    }
    if (stage == RC_STAGE_TRAINING || stage == RC_STAGE_REFINEMENT) {
        RC_TRY(rc_stage_training(l, stage, step, &first));
        if (l->method->align_rows && l->n_old > 0) /* whoever resumes in estimation has aligned rows */
            RC_TRY(rc_classifier_align_rows(&l->student, l->n_old));
    }
    if (rc_stage_steps(l, RC_STAGE_ESTIMATION) > 0)
        RC_TRY(rc_stage_estimation(l, &later));
    RC_TRY(check_result(l));
    l->learnt = true;
    return RC_OK;
}
