#include "cil/stage.h"

#include <math.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/stop.h"

rc_status rc_stage_bytes(rc_learner *l, rc_stage stage, size_t *bytes)
{
    size_t held, moment;
    *bytes = 0;
    if (rc_stage_steps(l, stage) == 0)
        return RC_OK;
    rc_stage_average_bytes(l, &held, &moment);
    if (stage == RC_STAGE_INVERSION) {
        rc_inversion *inversion;
        RC_TRY(rc_stage_inversion_create(l, &inversion));
        *bytes = rc_inversion_look(inversion).bytes;
        rc_inversion_destroy(inversion);
    } else if (stage == RC_STAGE_TRAINING) {
        rc_training *training;
        RC_TRY(rc_stage_training_create(l, &training));
        *bytes = rc_training_look(training).bytes + held + moment;
        rc_training_destroy(training);
    } else if (stage == RC_STAGE_REFINEMENT) {
        size_t drawing, step = 0;
        RC_TRY(rc_stage_drawing_bytes(l, &drawing));
        if (drawing > 0)
            RC_TRY(rc_stage_bytes(l, RC_STAGE_TRAINING, &step));
        *bytes = drawing > 0 ? step - moment + drawing : 0;
    } else if (stage == RC_STAGE_ESTIMATION) {
        return rc_stage_estimation_bytes(l, bytes);
    }
    return RC_OK;
}

/* The setting that most likely made a stage diverge. */
static const char *rate_of(rc_stage stage)
{
    static const char *const name[] = {"inversion_rate", "learning_rate", "refine_rate", "learning_rate"};
    return name[stage];
}

rc_status rc_stage_reserve_labels(rc_stage_run *run, int labels, int replays)
{
    size_t values = rc_losses_bytes(run->learner->backend);
    run->block = rc_alloc_zeroed(NULL, 1, values + (size_t)labels * sizeof(int32_t));
    if (run->block == NULL)
        return RC_OUT_OF_MEMORY;
    run->labels = labels;
    run->report.replays = replays;
    if (replays > 0)
        run->report.replayed = (const int32_t *)(const void *)((char *)run->block + values) + labels - replays;
    return RC_OK;
}

/* Reads the losses into the report, and the labels into its block: one copy, for which the host waits once. */
static rc_status read_losses(rc_stage_run *run)
{
    double values[RC_LOSS_COUNT]; /* of the backend's kind of reals, which is no wider */
    rc_stage_report *r = &run->report;
    rc_backend *be = run->learner->backend;
    void *to = run->block != NULL ? run->block : values;
    be->read_bytes(be, to, run->loss,
                   run->block != NULL ? rc_losses_bytes(be) + (size_t)run->labels * sizeof(int32_t)
                                      : RC_LOSS_COUNT * be->real_bytes);
    RC_TRY(be->sync(be));
    double total = 0;
    int terms = 0;
    for (int i = 0; i < RC_LOSS_COUNT; i++) {
        double value = be->real_bytes == sizeof(double) ? ((const double *)to)[i] : (double)((const float *)to)[i];
        r->loss[i] = run->active[i] ? value : NAN;
        if (run->active[i] && !isfinite(value))
            return rc_fail(RC_NUMERIC,
                           "task %d, %s, step %u of %u: the %s loss is %g. Nothing of this is kept, what was saved "
                           "before is intact; a lower %s may help",
                           r->task + 1, rc_stage_name(r->stage), r->step, r->steps, rc_loss_name(i), value,
                           rate_of(r->stage));
        if (run->active[i] && run->weight != NULL) {
            total += (double)run->weight[i] * value;
            terms++;
        }
    }
    r->total_loss = terms > 0 ? total : NAN;
    return RC_OK;
}

rc_status rc_stage_repeat(rc_stage_run *run, uint32_t from, uint32_t to)
{
    rc_backend *be = run->learner->backend;
    bool watched = run->training != NULL && run->hooks->step != NULL;
    uint32_t step = from;
    while (step < to) {
        /* As many steps as fit into a part of the interval, so that a signal is answered soon. */
        double at_once = fmin(run->hooks->interval / 4, RC_STOP_GRACE / 2);
        double fit = run->seconds_per_step > 0 ? at_once / run->seconds_per_step : 1;
        uint32_t chunk = fit < 1 || watched ? 1 : fit > 1000 ? 1000 : (uint32_t)fit;
        if (chunk > to - step)
            chunk = to - step;
        RC_TRY(rc_agree(be, &chunk));
        double began = rc_now();
        RC_TRY(be->repeat(be, run->step, run->context, (int)chunk));
        run->seconds_per_step = (rc_now() - began) / chunk;
        step += chunk;
        run->report.step = step;
        if (watched)
            RC_TRY(run->hooks->step(run->hooks->user, &run->report, run->training));
        bool last = step == run->report.steps;
        if (!last && rc_now() - run->last_call < run->hooks->interval && !rc_stop_heard())
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

static rc_status passed_step(void *user, const rc_stage_report *report, rc_training *training)
{
    const stopwatch *watch = user;
    return watch->hooks->step(watch->hooks->user, report, training);
}

static rc_status passed_restore(void *user, rc_state *state)
{
    const stopwatch *watch = user;
    return watch->hooks->restore(watch->hooks->user, state);
}

/* The last step may have left numbers that are not finite and that no loss has seen. */
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
    first.step = hooks->step != NULL ? passed_step : NULL;
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
        if (l->method->align_rows && l->n_old > 0) /* a task that resumes in estimation has aligned rows already */
            RC_TRY(rc_classifier_align_rows(&l->student, l->n_old));
    }
    if (rc_stage_steps(l, RC_STAGE_ESTIMATION) > 0)
        RC_TRY(rc_stage_estimation(l, &later));
    RC_TRY(check_result(l));
    l->learnt = true;
    return RC_OK;
}
