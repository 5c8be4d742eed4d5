/* Main training and head refinement (docs/methods/rdfcil.md): one optimiser, whose momentum goes from one to the other.
 * Epochs count from 0 in the task; the refinement's go on where main training stops. */

#include "base/clock.h"
#include "base/memory.h"
#include "cil/average.h"
#include "cil/moved.h"
#include "cil/stage.h"
#include "nn/losses.h"

typedef struct stage_run {
    rc_stage_run run;
    rc_training *training;
    rc_learner *learner;
    rc_schedule schedule;
    rc_average average; /* of the last epochs of main training; zeroed: none is asked for */
    rc_moved moved;     /* refinement draws from it, if the method does */
    float *drawn;       /* (classes * rc_moved_each(classes), d) */
    int32_t *drawn_label;
} stage_run;

/* Features that refinement draws, anew in every epoch; 0: none. */
static int drawn_features(const rc_learner *l)
{
    int classes = l->student.head.classes;
    bool draws = l->method->plus && l->settings.plus_drawn > 0 && rc_moved_possible(l);
    return draws && rc_stage_steps(l, RC_STAGE_REFINEMENT) > 0 ? rc_moved_each(classes) * classes : 0;
}

/* What settings add to the objective of cwd+. */
static void add_plus(const rc_settings *s, rc_objective *o)
{
    if (s->plus_kd_new > 0)
        o->kd_real = RC_KD_OLD;
    if (s->plus_kd_dreams > 0)
        o->kd_replay = RC_KD_OLD;
    if (s->plus_ce_dreams > 0)
        o->replay = RC_CE_OLD;
    o->feature = o->feature || s->plus_feature > 0;
}

/* What the task at hand minimises: the row's objective, less what a first task has nothing to do with. Where images of
 * old classes are among the real ones, cross entropy covers all classes. */
static rc_objective objective_of(const rc_learner *l)
{
    rc_objective o = l->method->main;
    if (l->n_old == 0)
        o = (rc_objective){
            .one_batch = o.one_batch, .real = RC_CE_ALL, .replay = l->has.replay ? o.replay : RC_CE_NONE};
    else if (l->method->plus)
        add_plus(&l->settings, &o);
    if (l->joins_old && (o.real == RC_CE_NEW || o.real == RC_CE_DECOUPLED))
        o.real = RC_CE_ALL;
    return o;
}

/* The stage's losses have their weight, all others 0. In the first task cross entropy counts 1; refinement has that of
 * all classes, with a weight of its own, and goes on with the losses of the replayed half and WAR. */
void rc_stage_weights(const rc_learner *l, rc_stage stage, float weight[RC_LOSS_COUNT], bool active[RC_LOSS_COUNT])
{
    const rc_settings *s = &l->settings;
    const rc_objective o = objective_of(l);
    bool adaptive = l->method->weights == RC_WEIGHTS_ADAPTIVE && l->n_old > 0, refines = stage == RC_STAGE_REFINEMENT;
    bool trains = !refines, decoupled = trains && o.real == RC_CE_DECOUPLED;
    rc_loss_scale scale = {1, 1};
    if (adaptive && !s->paper_constant_scale)
        scale = rc_adaptive_loss_scale(l->n_old, l->n_new);
    double half = l->method->weights == RC_WEIGHTS_HALVES && l->has.replay ? 0.5 : 1;
    double replay = adaptive ? s->lambda_hkd * scale.distillation : 1, plus = scale.distillation;
    bool own = l->method->plus;
    int old_tasks = l->student.head.tasks > 1 ? l->student.head.tasks - 1 : 1;
    double rho = s->lode_rho > 0 ? s->lode_rho : l->method->lode_rho;
    const rc_stage_loss losses[] = {
        {RC_LOSS_CE, refines || (o.real != RC_CE_NONE && o.real != RC_CE_DECOUPLED),
         refines    ? s->lambda_ce
         : adaptive ? s->lambda_ce * scale.cross_entropy
                    : half},
        {RC_LOSS_INTER, decoupled, half * rho / old_tasks},
        {RC_LOSS_INTRA, decoupled, half},
        {RC_LOSS_REPLAY, o.replay != RC_CE_NONE, own ? s->plus_ce_dreams * plus : replay * half},
        {RC_LOSS_HEAD, trains && o.head_ce, 1},
        {RC_LOSS_DRAWN, refines && drawn_features(l) > 0, s->plus_drawn},
        {RC_LOSS_HKD, o.hkd, replay},
        {RC_LOSS_KD, trains && o.kd_real != RC_KD_NONE, own ? s->plus_kd_new * plus : s->kd_weight},
        {RC_LOSS_KD_REPLAY, o.kd_replay != RC_KD_NONE, own ? s->plus_kd_dreams * plus : s->kd_weight * replay},
        {RC_LOSS_FEATURE, trains && o.feature, own ? s->plus_feature * plus : s->feature_weight},
        {RC_LOSS_RKD, trains && o.rkd, s->lambda_rkd * scale.distillation},
        {RC_LOSS_WAR, o.war, s->lambda_war},
    };
    rc_stage_set_losses(losses, sizeof losses / sizeof *losses, weight, active);
    const rc_loss *learnt = l->method->replay->learns;
    for (; trains && learnt != NULL && *learnt != RC_LOSS_COUNT; learnt++) {
        weight[*learnt] = 1;
        active[*learnt] = true;
    }
}

/* What refinement draws in this epoch. */
static void draw_features(stage_run *r, int epoch)
{
    const rc_learner *l = r->learner;
    rc_rng rng = {l->settings.seed, (uint64_t)(uint32_t)l->task << 32 | RC_STREAM_DRAWN};
    if (r->drawn == NULL)
        return;
    rc_moved_draw(&r->moved, rng, epoch, rc_moved_each(l->student.head.classes), r->drawn, r->drawn_label);
    rc_training_give_drawn(r->training, r->drawn, r->drawn_label);
}

/* After `step` steps of main training, between two epochs: what the net is now counts if the epoch is one of the last.
 * A checkpoint at the end of an epoch is taken before this, so a stage that is resumed there does it. */
static rc_status average_epoch(stage_run *r, uint32_t step)
{
    const rc_learner *l = r->learner;
    uint32_t epochs = rc_stage_steps(l, RC_STAGE_TRAINING) / (uint32_t)l->batches, done = step / (uint32_t)l->batches;
    uint32_t most = (uint32_t)l->settings.average, counted = most < epochs ? most : epochs;
    return done + counted > epochs ? rc_average_add(&r->average, (int)(done + counted - epochs)) : RC_OK;
}

/* Main training is over. */
static rc_status average_models(stage_run *r)
{
    rc_learner *l = r->learner;
    if (l->settings.average > 0) {
        RC_TRY(average_epoch(r, rc_stage_steps(l, RC_STAGE_TRAINING)));
        rc_average_apply(&r->average);
    }
    if (l->settings.average_old > 0 && l->has.teacher)
        RC_TRY(rc_average_with(&l->student, &l->teacher, l->settings.average_old));
    return RC_OK;
}

/* Epoch by epoch from step `from` of the stage; `first_epoch` is the number of the stage's first epoch in the task. */
static rc_status run_epochs(stage_run *r, rc_stage stage, int first_epoch, uint32_t from)
{
    rc_learner *l = r->learner;
    rc_step *control = rc_training_control(r->training);
    uint32_t batches = (uint32_t)l->batches, steps = rc_stage_steps(l, stage);
    r->run.report.stage = stage;
    r->run.report.steps = steps;
    r->run.report.epochs = (int)(steps / batches);
    for (uint32_t step = from; step < steps;) {
        uint32_t in_epoch = step % batches, end = step - in_epoch + batches;
        int epoch = first_epoch + (int)(step / batches);
        if (stage == RC_STAGE_TRAINING && l->settings.average > 0 && in_epoch == 0)
            RC_TRY(average_epoch(r, step));
        rc_learner_send_order(l, epoch);
        RC_TRY(rc_training_prepare_epoch(r->training, epoch));
        draw_features(r, epoch);
        control->learning_rate = rc_schedule_rate(&r->schedule, epoch);
        control->epoch = (uint32_t)epoch;
        control->batch = in_epoch - 1; /* "just before" */
        control->step = (uint32_t)first_epoch * batches + step - 1;
        rc_training_send(r->training);
        if (in_epoch == 0)
            rc_training_begin_epoch(r->training);
        r->run.report.epoch = (int)(step / batches);
        r->run.report.learning_rate = (double)control->learning_rate;
        RC_TRY(rc_stage_repeat(&r->run, step, end));
        step = end;
    }
    return RC_OK;
}

/* Statistics move first, and are there with what is drawn from then on. */
rc_status rc_stage_drawing_bytes(rc_learner *l, size_t *bytes)
{
    size_t rows = (size_t)drawn_features(l), row = (size_t)l->student.head.d * sizeof(float) + sizeof(int32_t);
    *bytes = 0;
    if (rows == 0)
        return RC_OK;
    size_t after = rc_moved_bytes(l) + rows * row;
    RC_TRY(rc_moved_count(l, rc_moved_takes_dreams(l), bytes));
    if (l->backend->sizing)
        RC_TRY(rc_backend_count_scratch(l->backend, after));
    *bytes = after > *bytes ? after : *bytes;
    return RC_OK;
}

void rc_stage_average_bytes(const rc_learner *l, size_t *held, size_t *moment)
{
    bool epochs = l->settings.average > 0, old = l->settings.average_old > 0 && l->has.teacher;
    *held = epochs ? rc_average_bytes(&l->student) : 0;
    *moment = epochs || old ? rc_average_scratch(&l->student) : 0;
}

/* The net is done: statistics move once, and a refinement that is resumed finds the same ones. */
static rc_status prepare_drawing(stage_run *r)
{
    rc_learner *l = r->learner;
    size_t rows = (size_t)drawn_features(l);
    if (rows == 0)
        return RC_OK;
    RC_TRY(rc_moved_create(l, rc_moved_takes_dreams(l), &r->moved));
    r->drawn = rc_alloc_zeroed(NULL, rows, (size_t)l->student.head.d * sizeof *r->drawn);
    r->drawn_label = rc_alloc_zeroed(NULL, rows, sizeof *r->drawn_label);
    return r->drawn != NULL && r->drawn_label != NULL ? RC_OK : RC_OUT_OF_MEMORY;
}

static rc_status refine(stage_run *r, int first_epoch, uint32_t from)
{
    RC_TRY(prepare_drawing(r));
    RC_TRY(rc_training_begin_refinement(r->training));
    rc_stage_weights(r->learner, RC_STAGE_REFINEMENT, rc_training_control(r->training)->weight, r->run.active);
    r->run.step = rc_training_refinement_step;
    return run_epochs(r, RC_STAGE_REFINEMENT, first_epoch, from);
}

static rc_status train(stage_run *r, rc_stage stage, uint32_t from)
{
    rc_learner *l = r->learner;
    const rc_stage_hooks *hooks = r->run.hooks;
    RC_TRY(rc_training_register(r->training, &l->state));
    if (l->settings.average > 0) {
        RC_TRY(rc_average_create(&r->average, &l->student));
        RC_TRY(rc_average_register(&r->average, &l->state));
    }
    if (hooks->restore != NULL)
        RC_TRY(hooks->restore(hooks->user, &l->state));
    int main_epochs = (int)(rc_stage_steps(l, RC_STAGE_TRAINING) / (uint32_t)l->batches);
    rc_stage_weights(l, RC_STAGE_TRAINING, rc_training_control(r->training)->weight, r->run.active);
    if (stage == RC_STAGE_TRAINING) {
        RC_TRY(run_epochs(r, RC_STAGE_TRAINING, 0, from));
        RC_TRY(average_models(r));
    }
    if (rc_stage_steps(l, RC_STAGE_REFINEMENT) == 0)
        return RC_OK;
    return refine(r, main_epochs, stage == RC_STAGE_REFINEMENT ? from : 0);
}

rc_status rc_stage_training_create(rc_learner *l, rc_training **training)
{
    const rc_settings *s = &l->settings;
    rc_replay *replay = NULL;
    if (l->has.replay || l->method->replay->learns != NULL) /* which it does before it is replayed */
        RC_TRY(rc_learner_replay(l, RC_STREAM_DREAMS, &replay));
    rc_training_settings settings = {
        .batch = rc_part_of(l->backend, s->batch),
        .n_old = l->n_old,
        .losses = objective_of(l),
        .kd_temperature = (float)s->kd_temperature,
        .frozen = l->n_old > 0 ? rc_net_layers_before(&l->net, s->trained_stages) : 0,
        .drawn = drawn_features(l),
        .paper_war = s->paper_war_mean,
        .trivial = s->trivial,
        /* (Where old classes are among the real ones, they would be turned, too.) */
        .turns = rc_method_turns(l->method, s, l->net.h == l->net.w, l->n_old) && !l->joins_old,
        .mix = {.cutout = s->cutout, .mixup = (float)s->mixup, .cutmix = (float)s->cutmix, .stream = RC_STREAM_MIX},
        .smoothing = (float)s->smoothing,
        .sgd = {(float)s->momentum, (float)s->weight_decay},
        .seed = s->seed,
        .task = (uint32_t)l->task};
    return rc_training_create(l->backend, &settings, &l->student, l->has.teacher ? &l->teacher : NULL, replay, &l->data,
                              training);
}

rc_status rc_stage_training(rc_learner *l, rc_stage stage, uint32_t from, const rc_stage_hooks *hooks)
{
    const rc_settings *s = &l->settings;
    stage_run r = {.learner = l,
                   .schedule = {.base = l->n_old > 0 ? s->learning_rate * s->rate_later : s->learning_rate,
                                .cosine = s->cosine,
                                .gamma = s->decay,
                                .milestones = s->milestones,
                                .refinement_from = (int)(rc_stage_steps(l, RC_STAGE_TRAINING) / (uint32_t)l->batches),
                                .refinement_rate = s->refine_rate}};
    for (int i = 0; i < s->milestones; i++)
        r.schedule.milestone[i] = s->milestone[i];
    RC_TRY(rc_stage_training_create(l, &r.training));
    const rc_training_view view = rc_training_look(r.training);
    r.run = (rc_stage_run){.learner = l,
                           .hooks = hooks,
                           .step = rc_training_step,
                           .context = r.training,
                           .training = r.training,
                           .loss = view.loss,
                           .weight = rc_training_control(r.training)->weight,
                           .last_call = rc_now(),
                           .report = {.task = l->task, .state = &l->state, .images_per_step = view.input->n}};
    if (l->backend->parts > 1)
        r.run.report.images_per_step *= l->backend->parts;
    int entries = l->state.entries;
    rc_status status = rc_stage_reserve_labels(&r.run, view.input->n, view.input->n - rc_part_of(l->backend, s->batch));
    if (status == RC_OK)
        status = train(&r, stage, from);
    rc_free(NULL, r.run.block);
    rc_free(NULL, r.drawn);
    rc_free(NULL, r.drawn_label);
    rc_moved_destroy(&r.moved);
    rc_average_destroy(&r.average);
    rc_state_rewind(&l->state, entries);
    rc_training_destroy(r.training);
    return status;
}
