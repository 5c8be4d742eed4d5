/* Estimation (docs/methods/cwd.md): one pass over the training images, augmented and in batches, and over dreams of
 * the old classes; features of the new model, grouped by label, give the class means and one tied covariance. A
 * resumed task runs it from its beginning. */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/stop.h"
#include "cil/moved.h"
#include "cil/stage.h"

typedef struct estimation {
    rc_learner *learner;
    rc_backend *backend;
    int d, classes;
    rc_pass *student_pass, *teacher_pass;
    rc_replay *replay; /* NULL: the task has none */
    rc_tensor input;
    void *memory;
    rc_step *step;
    int32_t *labels, *count;
    double *sum, *outer;
    void *teacher_logits;
} estimation;

static void carve(void *owner, rc_arena *arena)
{
    estimation *e = owner;
    size_t batch = (size_t)rc_part_of(e->backend, e->learner->settings.batch), d = (size_t)e->d;
    e->step = rc_arena_take(arena, sizeof *e->step);
    e->labels = rc_arena_take_array(arena, batch, sizeof *e->labels);
    e->count = rc_arena_take_array(arena, (size_t)e->classes, sizeof *e->count);
    e->sum = rc_arena_take_array(arena, (size_t)e->classes * d, sizeof *e->sum);
    e->outer = rc_arena_take_array(arena, d * d, sizeof *e->outer);
    e->teacher_logits = rc_arena_take_array(arena, batch * (size_t)e->classes, e->backend->real_bytes);
}

static rc_status build(estimation *e)
{
    rc_backend *be = e->backend;
    rc_learner *l = e->learner;
    int batch = rc_part_of(be, l->settings.batch);
    rc_pass_settings eval = {.mode = RC_PASS_EVAL, .n = batch, .constant_model = true};
    RC_TRY(rc_pass_create(be, &l->net, &eval, &e->student_pass));
    rc_pass_prepare(e->student_pass, &l->student.backbone);
    RC_TRY(rc_tensor_create(be, batch, l->net.h, l->net.w, l->net.c, &e->input));
    if (l->has.replay) {
        RC_TRY(rc_learner_replay(l, RC_STREAM_ESTIMATION + 1, &e->replay));
        RC_TRY(rc_pass_create(be, &l->net, &eval, &e->teacher_pass));
        RC_TRY(be->reserve_dense(be, batch, e->d, e->classes));
        rc_pass_prepare(e->teacher_pass, &l->teacher.backbone);
    }
    return rc_backend_carve(be, "estimation", carve, e, &e->memory, NULL);
}

/* Adds the features of what lies in `images`, whose labels are known. */
static void add_features(estimation *e, rc_tensor *images)
{
    rc_backend *be = e->backend;
    rc_pass_forward(e->student_pass, &e->learner->student.backbone, images);
    be->class_statistics(be, images->n, e->d, e->classes, rc_pass_features(e->student_pass), e->labels, NULL, e->count,
                         e->sum, e->outer);
}

static void real_step(void *context)
{
    estimation *e = context;
    rc_backend *be = e->backend;
    const rc_resident_data *data = &e->learner->data;
    const rc_augment augment = rc_estimation_augment(e->learner);
    be->step_begin(be, e->step);
    be->augment(be, &augment, data->images, data->order, e->input.n, e->step, &e->input);
    be->gather_labels(be, data->labels, data->order, e->input.n, e->step, e->labels);
    add_features(e, &e->input);
}

/* Labels by the old model, features by the new one. */
static void replay_step(void *context)
{
    estimation *e = context;
    rc_backend *be = e->backend;
    rc_learner *l = e->learner;
    be->step_begin(be, e->step);
    e->replay->table->draw(e->replay, e->step, &e->input, e->labels);
    rc_pass_forward(e->teacher_pass, &l->teacher.backbone, &e->input);
    be->dense_forward(be, e->input.n, e->d, l->n_old, rc_pass_features(e->teacher_pass), l->teacher.head.weight,
                      l->teacher.head.bias, e->teacher_logits, l->n_old);
    be->argmax(be, e->input.n, l->n_old, l->n_old, e->teacher_logits, e->labels);
    add_features(e, &e->input);
}

/* Runs n steps of a kind from its step 0, a few at a time. */
static rc_status run_steps(estimation *e, void (*step)(void *), uint32_t n, rc_stage_report *report,
                           const rc_stage_hooks *hooks)
{
    rc_backend *be = e->backend;
    rc_step control = {
        .seed = e->learner->settings.seed, .task = (uint32_t)e->learner->task, .step = UINT32_MAX, .batch = UINT32_MAX};
    rc_step_take_part(be, &control);
    be->write_bytes(be, e->step, &control, sizeof control);
    for (uint32_t done = 0; done < n; done++) {
        uint32_t steps = 1;
        RC_TRY(rc_agree(be, &steps));
        double began = rc_now();
        RC_TRY(be->repeat(be, step, e, 1));
        report->step++;
        if (rc_now() - began > hooks->interval || rc_stop_heard() || report->step % 16 == 0 ||
            report->step == report->steps)
            RC_TRY(hooks->boundary(hooks->user, report));
    }
    return RC_OK;
}

/* Stored statistics that have followed the net, in place of dreams'. They are kept after the last boundary: a task that
 * is resumed begins with the old ones. */
static rc_status keep_moved(rc_learner *l, rc_stage_report *report, const rc_stage_hooks *hooks)
{
    rc_moved moved;
    RC_TRY(rc_moved_create(l, l->has.replay && strcmp(l->settings.plus_statistics, "moved-dreams") == 0, &moved));
    report->step = report->steps;
    rc_status status = hooks->boundary(hooks->user, report);
    if (status == RC_OK)
        status = rc_moved_keep(&moved, l);
    rc_moved_destroy(&moved);
    return status;
}

static bool moves(const rc_learner *l)
{
    bool begins = l->n_old == 0 && l->settings.plus_variances; /* those of its images */
    return l->method->plus && strcmp(l->settings.plus_statistics, "dreams") != 0 && (begins || rc_moved_possible(l));
}

static rc_status estimate(estimation *e, const rc_stage_hooks *hooks)
{
    rc_learner *l = e->learner;
    rc_stage_report report = {.stage = RC_STAGE_ESTIMATION,
                              .task = l->task,
                              .steps = rc_stage_steps(l, RC_STAGE_ESTIMATION),
                              .images_per_step = l->settings.batch,
                              .learning_rate = NAN,
                              .total_loss = NAN,
                              .state = &l->state};
    for (int i = 0; i < RC_LOSS_COUNT; i++)
        report.loss[i] = NAN;
    if (moves(l))
        return keep_moved(l, &report, hooks);
    RC_TRY(build(e));
    int epochs = (int)((rc_stage_steps(l, RC_STAGE_TRAINING) + rc_stage_steps(l, RC_STAGE_REFINEMENT)) /
                       (uint32_t)l->batches);
    rc_learner_send_order(l, epochs); /* an epoch of its own */
    RC_TRY(run_steps(e, real_step, (uint32_t)l->batches, &report, hooks));
    RC_TRY(run_steps(e, replay_step, report.steps - (uint32_t)l->batches, &report, hooks));
    RC_TRY(rc_learner_grow_statistics(l));
    l->backend->class_statistics_finish(l->backend, e->d, e->classes, NULL, e->count, e->sum, e->outer,
                                        !l->settings.paper_dce, l->class_mean, l->covariance);
    return l->backend->sync(l->backend);
}

rc_status rc_stage_estimation(rc_learner *l, const rc_stage_hooks *hooks)
{
    estimation e = {.learner = l, .backend = l->backend, .d = l->student.head.d, .classes = l->student.head.classes};
    rc_status status = estimate(&e, hooks);
    rc_pass_destroy(e.student_pass);
    rc_pass_destroy(e.teacher_pass);
    rc_replay_destroy(e.replay);
    rc_tensor_destroy(l->backend, &e.input);
    l->backend->release(l->backend, e.memory);
    return status;
}
