#include "cil/step_losses.h"

#include "base/memory.h"

/* ---- what they need ----------------------------------------------------------------------------------------- */

size_t rc_projection_reals(int d)
{
    return 2 * ((size_t)2 * d * d + (size_t)2 * d);
}

/* Parts of the two projections inside one block: P_s weight, P_s bias, P_t weight, P_t bias. */
static void *projection_part(const rc_training *t, void *block, int which)
{
    size_t weight = (size_t)2 * t->d * t->d, bias = (size_t)2 * t->d;
    size_t offset[4] = {0, weight, weight + bias, 2 * weight + bias};
    return rc_real_at(t->backend, block, offset[which]);
}

/* Tasks before this one, as the teacher's head counts them. */
static int old_tasks(const rc_training *t)
{
    return t->settings.losses.kd_replay == RC_KD_TASKS ? t->teacher->head.tasks : 0;
}

/* May the labels of new images be others than their classes? LODE asks whether an image is new, and a source that
 * learns takes the same images. */
static bool labels_may_change(const rc_training *t)
{
    rc_ce real = t->settings.losses.real;
    return (real == RC_CE_ALL || real == RC_CE_NEW) && (t->replay == NULL || t->replay->table->learn == NULL);
}

static bool mixes(const rc_training *t)
{
    return (t->settings.mix.mixup > 0 || t->settings.mix.cutmix > 0) && labels_may_change(t);
}

int rc_losses_columns(const rc_training *t)
{
    bool turns = t->settings.turns && labels_may_change(t) && !t->settings.losses.head_ce;
    return t->classes + (turns ? 3 * (t->classes - t->settings.n_old) : 0);
}

/* What images are varied with, and rows of a head for those that are turned. */
static void carve_varied(rc_training *t, rc_arena *arena)
{
    rc_backend *be = t->backend;
    const rc_augment *image = &t->data.augment;
    size_t batch = (size_t)t->settings.batch, parts = be->parts > 1 ? (size_t)be->parts : 1;
    size_t turned = (size_t)(t->columns - t->classes);
    if (!t->settings.trivial && turned == 0)
        return;
    t->varied = rc_arena_take_array(arena, batch, (size_t)image->h * (size_t)image->w * (size_t)image->c);
    t->varied_step = rc_arena_take(arena, sizeof *t->varied_step);
    t->varied_order = rc_arena_take_array(arena, parts * batch, sizeof *t->varied_order);
    if (turned == 0)
        return;
    t->turned_labels = rc_arena_take_array(arena, batch, sizeof *t->turned_labels);
    t->turned_head = rc_arena_take_array(arena, turned * (size_t)t->d, be->real_bytes);
    t->turned_gradient = rc_arena_take_array(arena, turned * (size_t)t->d, be->real_bytes);
}

void rc_losses_carve(rc_training *t, rc_arena *arena)
{
    rc_backend *be = t->backend;
    const rc_objective *o = &t->settings.losses;
    size_t real = be->real_bytes, rows = (size_t)t->rows, old = (size_t)t->settings.n_old;
    size_t embedding = (size_t)t->settings.batch * 2 * (size_t)t->d;
    carve_varied(t, arena);
    if (mixes(t)) {
        t->partner = rc_arena_take_array(arena, rows, sizeof *t->partner);
        t->share = rc_arena_take_array(arena, rows, real);
    }
    if (t->teacher != NULL)
        t->teacher_logits = rc_arena_take_array(arena, rows * old, real);
    if (o->class_weights)
        t->task_weight = rc_arena_take_array(arena, (size_t)t->columns, real);
    if (o->feature)
        t->feature_workspace = rc_arena_take_array(arena, rows * old, real);
    if (t->settings.drawn > 0) {
        size_t drawn = (size_t)t->settings.drawn;
        t->drawn = rc_arena_take_array(arena, drawn * (size_t)t->d, real);
        t->drawn_logits = rc_arena_take_array(arena, drawn * (size_t)t->classes, real);
        t->ddrawn_logits = rc_arena_take_array(arena, drawn * (size_t)t->classes, real);
        t->drawn_labels = rc_arena_take_array(arena, drawn, sizeof *t->drawn_labels);
    }
    if (o->kd_replay == RC_KD_TASKS) {
        t->task_values = rc_arena_take_array(arena, (size_t)old_tasks(t), real);
        t->task_ones = rc_arena_take_array(arena, (size_t)old_tasks(t), real);
    }
    if (!o->rkd)
        return;
    t->projection = rc_arena_take_array(arena, rc_projection_reals(t->d), real);
    t->projection_gradient = rc_arena_take_array(arena, rc_projection_reals(t->d), real);
    t->student_embedding = rc_arena_take_array(arena, embedding, real);
    t->teacher_embedding = rc_arena_take_array(arena, embedding, real);
    t->dstudent_embedding = rc_arena_take_array(arena, embedding, real);
    t->dteacher_embedding = rc_arena_take_array(arena, embedding, real);
    t->rkd_workspace = rc_arena_take(arena, be->rkd_workspace(be, t->settings.batch, 2 * t->d));
}

rc_status rc_losses_reserve(rc_training *t)
{
    rc_backend *be = t->backend;
    const rc_net *net = t->student->backbone.net;
    int rows = t->rows > t->settings.drawn ? t->rows : t->settings.drawn;
    RC_TRY(be->reserve_losses(be, rows, t->columns, net->h, net->w, net->c));
    RC_TRY(be->reserve_dense(be, rows, t->d, t->classes));
    if (t->columns > t->classes)
        RC_TRY(be->reserve_dense(be, t->settings.batch, t->d, t->columns - t->classes));
    if (t->settings.losses.kd_replay == RC_KD_TASKS)
        RC_TRY(be->reserve_dense(be, 1, old_tasks(t), 1));
    if (t->settings.losses.rkd)
        RC_TRY(be->reserve_dense(be, t->settings.batch, t->d, 2 * t->d));
    return RC_OK;
}

/* PyTorch's default initialisation of a linear layer: weights and bias ~ U(-1/sqrt(d), 1/sqrt(d)). */
static rc_status init_projections(rc_training *t)
{
    size_t half = rc_projection_reals(t->d) / 2;
    float *host = rc_alloc_zeroed(NULL, half, sizeof *host);
    if (host == NULL)
        return RC_OUT_OF_MEMORY;
    for (int p = 0; p < 2; p++) {
        rc_rng rng = {t->settings.seed, (uint64_t)t->settings.task << 32 | (RC_STREAM_PROJECTION + (uint32_t)p)};
        rc_init_default(rng, t->d, host, half);
        t->backend->write_real(t->backend, rc_real_at(t->backend, t->projection, (size_t)p * half), host, half);
    }
    rc_free(NULL, host);
    return RC_OK;
}

/* Old classes count n_old/K, new ones 1 - n_old/K: the more there are of the others, the more a sample counts. */
static void init_task_weights(rc_training *t)
{
    for (int k = 0; k < t->columns; k++) {
        float old = (float)t->settings.n_old / (float)t->classes, weight = k < t->settings.n_old ? old : 1 - old;
        t->backend->write_real(t->backend, rc_real_at(t->backend, t->task_weight, (size_t)k), &weight, 1);
    }
}

/* The rows for turned images begin as those of the head do. */
static rc_status init_varied(rc_training *t)
{
    rc_backend *be = t->backend;
    size_t batch = (size_t)t->settings.batch, parts = be->parts > 1 ? (size_t)be->parts : 1;
    for (size_t i = 0; t->varied != NULL && i < parts * batch; i++) {
        int32_t at = (int32_t)(i % batch);
        be->write_bytes(be, t->varied_order + i, &at, sizeof at);
    }
    if (t->turned_head == NULL)
        return RC_OK;
    rc_rng rng = {t->settings.seed, (uint64_t)t->settings.task << 32 | RC_STREAM_TURNED};
    return rc_head_init_rows(be, t->turned_head, (size_t)(t->columns - t->classes) * (size_t)t->d, rng);
}

rc_status rc_losses_begin(rc_training *t)
{
    const float one = 1;
    if (t->settings.losses.class_weights)
        init_task_weights(t);
    RC_TRY(init_varied(t));
    for (size_t row = 0; t->partner != NULL && row < (size_t)t->rows; row++)
        t->backend->write_real(t->backend, rc_real_at(t->backend, t->share, row), &one, 1);
    for (int task = 0; task < old_tasks(t); task++)
        t->backend->write_real(t->backend, rc_real_at(t->backend, t->task_ones, (size_t)task), &one, 1);
    return t->settings.losses.rkd ? init_projections(t) : RC_OK;
}

/* ---- on logits ---------------------------------------------------------------------------------------------- */

/* Element `row` of an array of reals with `width` columns. */
static void *row_of(const rc_training *t, const void *base, int row, int width)
{
    return rc_real_at(t->backend, base, (size_t)row * (size_t)width);
}

/* Cross entropy of n rows from `row` on. */
static void cross_entropy(rc_training *t, rc_ce over, int row, int n, rc_loss slot)
{
    rc_backend *be = t->backend;
    int n_old = t->settings.n_old, n_new = t->classes - n_old;
    rc_cross_entropy ce = {.n = n, .stride = t->columns, .count = t->classes, .temperature = 1, .reduction = RC_MEAN};
    if (over == RC_CE_OLD) {
        ce.count = n_old;
    } else if (over == RC_CE_NEW && n_new > 1) {
        ce.first = n_old;
        ce.count = n_new;
    }
    const int32_t *labels = t->labels + row;
    if (slot == RC_LOSS_CE) {
        ce.smoothing = t->settings.smoothing;
        ce.count += t->columns - t->classes;
        labels = t->turned_labels != NULL ? t->turned_labels : labels;
    }
    if (row == 0 && t->partner != NULL) {
        ce.partner = t->partner;
        ce.share = t->share;
    }
    be->loss_cross_entropy(be, &ce, row_of(t, t->logits, row, t->columns), labels, t->task_weight,
                           &t->step->weight[slot], rc_real_at(be, t->loss, slot),
                           row_of(t, t->dlogits, row, t->columns));
}

/* Distillation of n rows from `row` on, over the old classes or over all. */
static void distil(rc_training *t, rc_kd over, int row, int n, rc_loss slot)
{
    rc_backend *be = t->backend;
    int n_old = t->settings.n_old;
    rc_distillation kd = {.n = n,
                          .student_stride = t->columns,
                          .student_count = over == RC_KD_ALL ? t->classes : n_old,
                          .teacher_stride = n_old,
                          .teacher_count = n_old,
                          .temperature = t->settings.kd_temperature};
    be->loss_kd(be, &kd, row_of(t, t->logits, row, t->columns), row_of(t, t->teacher_logits, row, n_old),
                &t->step->weight[slot], rc_real_at(be, t->loss, slot), row_of(t, t->dlogits, row, t->columns));
}

/* Task-wise distillation of n rows from `row` on: every old task has a softmax and a value of its own, then a product
 * with ones sums the values. */
static void distil_tasks(rc_training *t, int row, int n, rc_loss slot)
{
    rc_backend *be = t->backend;
    const rc_head *head = &t->teacher->head;
    int n_old = t->settings.n_old;
    for (int task = 0, first = 0; task < head->tasks; first = head->task_end[task++]) {
        int count = head->task_end[task] - first;
        rc_distillation kd = {.n = n,
                              .student_stride = t->columns,
                              .first = first,
                              .student_count = count,
                              .teacher_stride = n_old,
                              .teacher_first = first,
                              .teacher_count = count,
                              .temperature = t->settings.kd_temperature,
                              .kl = true,
                              .t_squared = true};
        be->loss_kd(be, &kd, row_of(t, t->logits, row, t->columns), row_of(t, t->teacher_logits, row, n_old),
                    &t->step->weight[slot], rc_real_at(be, t->task_values, (size_t)task),
                    row_of(t, t->dlogits, row, t->columns));
    }
    be->dense_forward(be, 1, head->tasks, 1, t->task_values, t->task_ones, NULL, rc_real_at(be, t->loss, slot), 1);
}

void rc_losses_of_real(rc_training *t)
{
    rc_backend *be = t->backend;
    const rc_objective *o = &t->settings.losses;
    int batch = t->settings.batch;
    if (o->real == RC_CE_DECOUPLED)
        be->loss_decoupled(be, batch, t->columns, t->settings.n_old, t->classes, t->logits, t->labels,
                           &t->step->weight[RC_LOSS_INTER], &t->step->weight[RC_LOSS_INTRA],
                           rc_real_at(be, t->loss, RC_LOSS_INTER), rc_real_at(be, t->loss, RC_LOSS_INTRA), t->dlogits);
    else if (o->real != RC_CE_NONE)
        cross_entropy(t, o->real, 0, batch, RC_LOSS_CE);
    if (o->kd_real != RC_KD_NONE)
        distil(t, o->kd_real, 0, batch, RC_LOSS_KD);
}

void rc_losses_of_replay(rc_training *t)
{
    rc_backend *be = t->backend;
    const rc_objective *o = &t->settings.losses;
    int batch = t->settings.batch, n = t->rows - batch, n_old = t->settings.n_old;
    if (o->replay != RC_CE_NONE)
        cross_entropy(t, o->replay, batch, n, RC_LOSS_REPLAY);
    if (o->hkd)
        be->loss_hkd(be, n, n_old, row_of(t, t->logits, batch, t->columns), t->columns,
                     row_of(t, t->teacher_logits, batch, n_old), n_old, &t->step->weight[RC_LOSS_HKD],
                     rc_real_at(be, t->loss, RC_LOSS_HKD), row_of(t, t->dlogits, batch, t->columns));
    if (o->kd_replay == RC_KD_TASKS)
        distil_tasks(t, batch, n, RC_LOSS_KD_REPLAY);
    else if (o->kd_replay != RC_KD_NONE)
        distil(t, o->kd_replay, batch, n, RC_LOSS_KD_REPLAY);
}

void rc_losses_of_head(rc_training *t)
{
    if (t->settings.losses.head_ce)
        cross_entropy(t, RC_CE_ALL, 0, t->rows, RC_LOSS_HEAD);
}

/* ---- on features and weights -------------------------------------------------------------------------------- */

/* RKD on the real half, in three parts, because lanes lie between them (see rc_training_gradients). */
void rc_losses_embed_teacher(rc_training *t)
{
    rc_backend *be = t->backend;
    int wide = 2 * t->d;
    size_t bytes = (size_t)t->settings.batch * (size_t)wide * be->real_bytes;
    if (!t->settings.losses.rkd)
        return;
    be->zero(be, t->dstudent_embedding, bytes);
    be->zero(be, t->dteacher_embedding, bytes);
    be->dense_forward(be, t->settings.batch, t->d, wide, rc_pass_features(t->teacher_pass),
                      projection_part(t, t->projection, 2), projection_part(t, t->projection, 3), t->teacher_embedding,
                      wide);
}

void rc_losses_of_relations(rc_training *t, const void *features)
{
    rc_backend *be = t->backend;
    int batch = t->settings.batch, wide = 2 * t->d;
    if (!t->settings.losses.rkd)
        return;
    be->dense_forward(be, batch, t->d, wide, features, projection_part(t, t->projection, 0),
                      projection_part(t, t->projection, 1), t->student_embedding, wide);
    be->loss_rkd(be, batch, wide, t->student_embedding, t->teacher_embedding, t->rkd_workspace,
                 &t->step->weight[RC_LOSS_RKD], rc_real_at(be, t->loss, RC_LOSS_RKD), t->dstudent_embedding,
                 t->dteacher_embedding);
}

void rc_losses_of_projections(rc_training *t, const void *features)
{
    rc_backend *be = t->backend;
    int batch = t->settings.batch, d = t->d, wide = 2 * d;
    if (!t->settings.losses.rkd)
        return;
    be->dense_backward_weight(be, batch, d, wide, features, t->dstudent_embedding, wide,
                              projection_part(t, t->projection_gradient, 0),
                              projection_part(t, t->projection_gradient, 1), false);
    be->dense_backward_weight(be, batch, d, wide, rc_pass_features(t->teacher_pass), t->dteacher_embedding, wide,
                              projection_part(t, t->projection_gradient, 2),
                              projection_part(t, t->projection_gradient, 3), false);
    be->sum_workers(be, t->projection_gradient, rc_projection_reals(d));
    be->wait_workers(be);
}

void rc_losses_of_features(rc_training *t, const void *features, void *dfeatures)
{
    rc_backend *be = t->backend;
    const rc_objective *o = &t->settings.losses;
    if (o->rkd)
        be->dense_backward_data(be, t->settings.batch, t->d, 2 * t->d, t->dstudent_embedding, 2 * t->d,
                                projection_part(t, t->projection, 0), dfeatures, true);
    if (o->feature)
        be->loss_feature(be, t->rows, t->d, t->settings.n_old, features, rc_pass_features(t->teacher_pass),
                         t->teacher->head.weight, t->feature_workspace, &t->step->weight[RC_LOSS_FEATURE],
                         rc_real_at(be, t->loss, RC_LOSS_FEATURE), dfeatures);
}

void rc_losses_of_drawn(rc_training *t)
{
    rc_backend *be = t->backend;
    int n = t->settings.drawn, classes = t->classes;
    rc_cross_entropy ce = {.n = n, .stride = classes, .count = classes, .temperature = 1, .reduction = RC_MEAN};
    if (n == 0)
        return;
    be->dense_forward(be, n, t->d, classes, t->drawn, t->student->head.weight, t->student->head.bias, t->drawn_logits,
                      classes);
    be->zero(be, t->ddrawn_logits, (size_t)n * (size_t)classes * be->real_bytes);
    be->loss_cross_entropy(be, &ce, t->drawn_logits, t->drawn_labels, NULL, &t->step->weight[RC_LOSS_DRAWN],
                           rc_real_at(be, t->loss, RC_LOSS_DRAWN), t->ddrawn_logits);
    be->dense_backward_weight(be, n, t->d, classes, t->drawn, t->ddrawn_logits, classes, t->head_gradient,
                              t->bias_gradient, true);
}

void rc_losses_of_rows(rc_training *t)
{
    rc_backend *be = t->backend;
    const rc_training_settings *s = &t->settings;
    if (s->losses.war)
        be->loss_war(be, t->classes, s->n_old, t->d, s->paper_war, t->student->head.weight,
                     &t->step->weight[RC_LOSS_WAR], rc_real_at(be, t->loss, RC_LOSS_WAR), t->head_gradient);
}
