/* Estimation (docs/methods/cwd.md): one pass over the training images, augmented and in batches, and over dreams of
 * the old classes; features of the new model, grouped by label, give the class means and one tied covariance. A
 * resumed task runs it from its beginning.
 *
 * With class_covariances a first task looks at every image once, at those that fill no batch, too, and keeps a
 * covariance of every class beside these (cil/scatter.h). */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/stop.h"
#include "cil/moved.h"
#include "cil/scatter.h"
#include "cil/stage.h"

typedef struct estimation {
    rc_learner *learner;
    rc_backend *backend;
    int d, classes;
    rc_pass *student_pass, *teacher_pass;
    rc_replay *replay; /* NULL: the task has none */
    rc_tensor input;
    void *memory;
    size_t bytes; /* of it */
    rc_step *step;
    int32_t *labels, *count;
    double *sum, *outer;
    void *teacher_logits;
    rc_scatter scatter; /* of single classes; zeroed: nobody wants it */
    int looked;         /* images that it has */
    double *feature;    /* (batch, d) */
    int32_t *shown;     /* (batch): their labels */
    double last_call;   /* clock, after the boundary before */
} estimation;

/* Are covariances of single classes estimated? */
static bool wants_scatter(const estimation *e)
{
    const rc_learner *l = e->learner;
    return l->settings.class_covariances && l->n_old == 0 && e->d <= RC_FACTOR_FEATURES;
}

/* Images at a time. Where single classes are looked at, every process looks at the whole batch. */
static int batch_of(const estimation *e)
{
    int batch = e->learner->settings.batch;
    return wants_scatter(e) ? batch : rc_part_of(e->backend, batch);
}

static void carve(void *owner, rc_arena *arena)
{
    estimation *e = owner;
    size_t batch = (size_t)batch_of(e), d = (size_t)e->d;
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
    int batch = batch_of(e);
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
    return rc_backend_carve(be, "estimation", carve, e, &e->memory, &e->bytes);
}

/* Adds the features of what lies in `images`, whose labels are known. */
static void add_features(estimation *e, rc_tensor *images)
{
    rc_backend *be = e->backend;
    rc_pass_forward(e->student_pass, &e->learner->student.backbone, images);
    be->class_statistics(be, images->n, e->d, e->classes, rc_pass_features(e->student_pass), e->labels, NULL, e->count,
                         e->sum, e->outer);
}

static void take_images(estimation *e)
{
    rc_backend *be = e->backend;
    const rc_resident_data *data = &e->learner->data;
    const rc_augment augment = rc_estimation_augment(e->learner);
    be->step_begin(be, e->step);
    be->augment(be, &augment, data->images, data->order, e->input.n, e->step, &e->input);
    be->gather_labels(be, data->labels, data->order, e->input.n, e->step, e->labels);
}

static void real_step(void *context)
{
    estimation *e = context;
    take_images(e);
    add_features(e, &e->input);
}

/* Where single classes are looked at: what the features are is for the host to see. */
static void look_step(void *context)
{
    estimation *e = context;
    take_images(e);
    rc_pass_forward(e->student_pass, &e->learner->student.backbone, &e->input);
}

/* Takes up what look_step has seen, but no image twice. */
static rc_status look(estimation *e)
{
    rc_backend *be = e->backend;
    size_t batch = (size_t)e->input.n, d = (size_t)e->d;
    be->read_real64(be, e->feature, rc_pass_features(e->student_pass), batch * d);
    be->read_bytes(be, e->shown, e->labels, batch * sizeof *e->shown);
    RC_TRY(be->sync(be));
    for (int i = 0; i < e->input.n && e->looked < e->learner->images; i++, e->looked++)
        rc_scatter_add(&e->scatter, e->shown[i], e->feature + (size_t)i * d);
    return RC_OK;
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

/* Runs n steps of a kind from its step 0, one at a time. */
static rc_status run_steps(estimation *e, void (*step)(void *), uint32_t n, rc_stage_report *report,
                           const rc_stage_hooks *hooks)
{
    rc_backend *be = e->backend;
    rc_step control = {
        .seed = e->learner->settings.seed, .task = (uint32_t)e->learner->task, .step = UINT32_MAX, .batch = UINT32_MAX};
    if (step != look_step)
        rc_step_take_part(be, &control);
    be->write_bytes(be, e->step, &control, sizeof control);
    for (uint32_t done = 0; done < n; done++) {
        uint32_t steps = 1;
        RC_TRY(rc_agree(be, &steps));
        RC_TRY(be->repeat(be, step, e, 1));
        if (step == look_step)
            RC_TRY(look(e));
        report->step++;
        if (rc_now() - e->last_call < hooks->interval && !rc_stop_heard() && report->step % 16 != 0 &&
            report->step != report->steps)
            continue;
        RC_TRY(hooks->boundary(hooks->user, report));
        e->last_call = rc_now();
    }
    return RC_OK;
}

/* Stored statistics that have followed the net, in place of dreams'. They are kept after the last boundary: a task that
 * is resumed begins with the old ones. */
static rc_status keep_moved(rc_learner *l, rc_stage_report *report, const rc_stage_hooks *hooks)
{
    rc_moved moved;
    RC_TRY(rc_moved_create(l, rc_moved_takes_dreams(l), &moved));
    report->step = report->steps;
    rc_status status = hooks->boundary(hooks->user, report);
    if (status == RC_OK)
        status = rc_moved_keep(&moved, l);
    rc_moved_destroy(&moved);
    return status;
}

static bool moves(const rc_learner *l)
{
    if (l->n_old == 0) /* those of its images */
        return rc_method_keeps_variances(l->method, &l->settings);
    return l->method->plus && strcmp(l->settings.plus_statistics, "dreams") != 0 && rc_moved_possible(l);
}

/* ---- single classes ---------------------------------------------------------------------------------------------- */

static rc_status look_at_rest(estimation *e)
{
    rc_backend *be = e->backend;
    const rc_learner *l = e->learner;
    rc_step control = {
        .seed = l->settings.seed, .task = (uint32_t)l->task, .step = (uint32_t)l->batches - 1, .batch = UINT32_MAX};
    if (rc_learner_send_rest(e->learner) == 0)
        return RC_OK;
    be->write_bytes(be, e->step, &control, sizeof control);
    RC_TRY(be->repeat(be, look_step, e, 1));
    return look(e);
}

/* Features that do not vary, or are no numbers, give no factors; what is stored of them then says so by itself. */
static rc_status keep_factors(const estimation *e, const double *shared)
{
    float *factor = rc_alloc_zeroed(NULL, (size_t)e->classes * rc_factor_numbers(e->d), sizeof *factor);
    rc_status status = factor != NULL ? rc_scatter_factors(&e->scatter, shared, factor) : RC_OUT_OF_MEMORY;
    if (status == RC_OK)
        status = rc_learner_write_factors(e->learner, factor);
    else if (status == RC_NUMERIC)
        status = RC_OK;
    rc_free(NULL, factor);
    return status;
}

static rc_status keep_scatter(const estimation *e)
{
    rc_learner *l = e->learner;
    rc_backend *be = e->backend;
    const rc_scatter *s = &e->scatter;
    size_t d = (size_t)e->d, means = (size_t)e->classes * d;
    double *shared = rc_alloc_zeroed(NULL, d * d + means, sizeof *shared);
    if (shared == NULL)
        return RC_OUT_OF_MEMORY;
    double *mean = shared + d * d, divisor = l->settings.paper_dce ? e->looked : e->looked - 1;
    rc_scatter_shared(s, divisor > 0 ? divisor : 1, shared);
    for (size_t i = 0; i < means; i++) /* NaN: the class has no image */
        mean[i] = s->sum[i] / s->count[i / d];
    rc_status status = rc_learner_grow_statistics(l);
    if (status == RC_OK) {
        be->write_real64(be, l->class_mean, mean, means);
        be->write_real64(be, l->covariance, shared, d * d);
        status = be->sync(be);
    }
    if (status == RC_OK)
        status = keep_factors(e, shared);
    rc_free(NULL, shared);
    return status;
}

static rc_status look_at_classes(estimation *e, rc_stage_report *report, const rc_stage_hooks *hooks)
{
    size_t batch = (size_t)e->input.n;
    RC_TRY(rc_scatter_create(e->d, e->classes, &e->scatter));
    e->feature = rc_alloc_zeroed(NULL, batch, (size_t)e->d * sizeof *e->feature);
    e->shown = rc_alloc_zeroed(NULL, batch, sizeof *e->shown);
    if (e->feature == NULL || e->shown == NULL)
        return RC_OUT_OF_MEMORY;
    RC_TRY(run_steps(e, look_step, (uint32_t)e->learner->batches, report, hooks));
    RC_TRY(look_at_rest(e));
    return keep_scatter(e);
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
    if (wants_scatter(e))
        return look_at_classes(e, &report, hooks);
    RC_TRY(run_steps(e, real_step, (uint32_t)l->batches, &report, hooks));
    RC_TRY(run_steps(e, replay_step, report.steps - (uint32_t)l->batches, &report, hooks));
    RC_TRY(rc_learner_grow_statistics(l));
    l->backend->class_statistics_finish(l->backend, e->d, e->classes, NULL, e->count, e->sum, e->outer,
                                        !l->settings.paper_dce, l->class_mean, l->covariance);
    return l->backend->sync(l->backend);
}

static estimation estimation_of(rc_learner *l)
{
    return (estimation){.learner = l,
                        .backend = l->backend,
                        .d = l->student.head.d,
                        .classes = l->student.head.classes,
                        .last_call = rc_now()};
}

static void drop(estimation *e)
{
    rc_scatter_destroy(&e->scatter);
    rc_free(NULL, e->feature);
    rc_free(NULL, e->shown);
    rc_pass_destroy(e->student_pass);
    rc_pass_destroy(e->teacher_pass);
    rc_replay_destroy(e->replay);
    rc_tensor_destroy(e->backend, &e->input);
    e->backend->release(e->backend, e->memory);
}

rc_status rc_stage_estimation(rc_learner *l, const rc_stage_hooks *hooks)
{
    estimation e = estimation_of(l);
    rc_status status = estimate(&e, hooks);
    drop(&e);
    return status;
}

/* Beside the passes: what single classes scatter, a batch of features, and what keep_scatter makes of them. */
static size_t scatter_bytes(const estimation *e)
{
    const size_t classes = (size_t)e->classes, d = (size_t)e->d, real = e->backend->real_bytes;
    size_t triangles = classes * rc_factor_numbers(e->d), means = classes * d, square = d * d;
    size_t looks = (means + triangles) * sizeof(double) + (size_t)e->input.n * d * sizeof *e->feature;
    return looks + (means + square) * (sizeof(double) + real) + triangles * (sizeof(float) + real);
}

rc_status rc_stage_estimation_bytes(rc_learner *l, size_t *bytes)
{
    estimation e = estimation_of(l);
    rc_backend *be = l->backend;
    *bytes = 0;
    if (moves(l))
        return rc_moved_count(l, rc_moved_takes_dreams(l), bytes);
    if (!wants_scatter(&e))
        return RC_OK;
    rc_status status = build(&e);
    size_t scatter = scatter_bytes(&e);
    if (status == RC_OK && be->sizing)
        status = rc_backend_count_scratch(be, scatter);
    if (status == RC_OK)
        *bytes = e.bytes + rc_pass_bytes(e.student_pass) + scatter +
                 rc_act_count(be, e.input.n, e.input.h, e.input.w, e.input.c) * be->act_bytes;
    drop(&e);
    return status;
}
