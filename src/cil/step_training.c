#include "cil/step_training.h"

#include "base/memory.h"

struct rc_training {
    rc_backend *backend;
    rc_training_settings settings;
    rc_classifier *student;
    const rc_classifier *teacher; /* NULL without dreams */
    const rc_model *generator;
    rc_resident_data data;

    int rows;    /* of a step: batch, or 2 batch with dreams */
    int d;       /* features */
    int classes; /* old and new */

    rc_pass *student_pass, *teacher_pass, *generator_pass;
    rc_pass *frozen_pass; /* the student in eval mode, for refinement */
    rc_tensor input; /* (rows, h, w, c) */
    rc_tensor noise; /* (batch, 1, 1, noise) */
    rc_optimiser *optimiser;

    rc_step control; /* the host's copy */
    void *memory;    /* one block that holds all of the following */
    size_t bytes;
    rc_step *step;
    int32_t *labels, *label_count;
    void *logits, *dlogits, *teacher_logits, *loss, *class_weight;
    void *backbone_gradient, *head_gradient;
    /* Relations: P_s and P_t map features to twice as many. */
    void *projection, *projection_gradient;
    void *student_embedding, *teacher_embedding, *dstudent_embedding, *dteacher_embedding, *rkd_workspace;
};

static size_t projection_reals(int d)
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

/* Carves everything out of one block; run twice, first to measure. */
static void carve(rc_training *t, rc_arena *arena)
{
    const rc_backend *be = t->backend;
    size_t real = be->real_bytes, rows = (size_t)t->rows, batch = (size_t)t->settings.batch;
    size_t embedding = batch * 2 * (size_t)t->d;
    t->step = rc_arena_take(arena, sizeof *t->step);
    t->labels = rc_arena_take_array(arena, rows, sizeof *t->labels);
    t->label_count = rc_arena_take_array(arena, (size_t)t->classes, sizeof *t->label_count);
    t->logits = rc_arena_take_array(arena, rows * (size_t)t->classes, real);
    t->dlogits = rc_arena_take_array(arena, rows * (size_t)t->classes, real);
    t->loss = rc_arena_take_array(arena, RC_LOSS_COUNT, real);
    t->class_weight = rc_arena_take_array(arena, (size_t)t->classes, real);
    t->backbone_gradient = rc_arena_take_array(arena, t->student->backbone.net->params, real);
    t->head_gradient = rc_arena_take_array(arena, (size_t)t->classes * (size_t)t->d, real);
    if (t->settings.dreams)
        t->teacher_logits = rc_arena_take_array(arena, batch * (size_t)t->settings.n_old, real);
    if (!t->settings.relations)
        return;
    t->projection = rc_arena_take_array(arena, projection_reals(t->d), real);
    t->projection_gradient = rc_arena_take_array(arena, projection_reals(t->d), real);
    t->student_embedding = rc_arena_take_array(arena, embedding, real);
    t->teacher_embedding = rc_arena_take_array(arena, embedding, real);
    t->dstudent_embedding = rc_arena_take_array(arena, embedding, real);
    t->dteacher_embedding = rc_arena_take_array(arena, embedding, real);
    t->rkd_workspace = rc_arena_take(arena, t->backend->rkd_workspace(t->backend, t->settings.batch, 2 * t->d));
}

static rc_status take_memory(rc_training *t)
{
    rc_arena arena = rc_arena_measure("training step");
    carve(t, &arena);
    RC_TRY(rc_arena_status(&arena));
    t->bytes = arena.peak;
    RC_TRY(t->backend->alloc(t->backend, t->bytes, &t->memory));
    arena = rc_arena_over("training step", t->memory, t->bytes);
    carve(t, &arena);
    return rc_arena_status(&arena);
}

/* PyTorch's default initialisation of a linear layer: weights and bias ~ U(-1/sqrt(d), 1/sqrt(d)). */
static rc_status init_projections(rc_training *t)
{
    size_t half = projection_reals(t->d) / 2;
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

static rc_status check(const rc_training_settings *s, const rc_classifier *student, const rc_classifier *teacher,
                       const rc_model *generator)
{
    if (s->batch < 1)
        return rc_fail(RC_INVALID_ARGUMENT, "batch is %d, expected 1 or more", s->batch);
    if (s->n_old < 0 || s->n_old >= student->head.classes)
        return rc_fail(RC_INVALID_ARGUMENT, "%d old classes, expected 0 to %d: the head has %d rows", s->n_old,
                       student->head.classes - 1, student->head.classes);
    if (s->n_old == 0 && (s->dreams || s->align_norms))
        return rc_fail(RC_INVALID_ARGUMENT, "the first task has no old classes: dreams and WAR must be off");
    if (!s->dreams)
        return s->relations ? rc_fail(RC_INVALID_ARGUMENT, "RKD needs the teacher that comes with dreams") : RC_OK;
    if (teacher == NULL || generator == NULL)
        return rc_fail(RC_INVALID_ARGUMENT, "dreams are on, but there is no %s", teacher ? "generator" : "teacher");
    if (teacher->head.classes != s->n_old)
        return rc_fail(RC_INVALID_ARGUMENT, "the teacher knows %d classes, expected %d", teacher->head.classes,
                       s->n_old);
    return rc_check_dreams(generator->net, student->backbone.net);
}

static rc_status create_passes(rc_training *t)
{
    rc_backend *be = t->backend;
    const rc_net *net = t->student->backbone.net;
    bool dreams = t->settings.dreams;
    rc_pass_settings student = {.mode = RC_PASS_TRAIN, .n = t->rows, .groups = dreams ? 2 : 1,
                                .group_end = {t->settings.batch, t->rows}, .update_running = true};
    RC_TRY(rc_pass_create(be, net, &student, &t->student_pass));
    RC_TRY(rc_tensor_create(be, t->rows, net->h, net->w, net->c, &t->input));
    if (!dreams)
        return RC_OK;
    rc_pass_settings teacher = {.mode = RC_PASS_EVAL, .n = t->rows, .constant_model = true};
    rc_pass_settings generator = {.mode = RC_PASS_EVAL, .n = t->settings.batch, .constant_model = true};
    const rc_net *dreaming = t->generator->net;
    RC_TRY(rc_pass_create(be, net, &teacher, &t->teacher_pass));
    RC_TRY(rc_pass_create(be, dreaming, &generator, &t->generator_pass));
    rc_pass_prepare(t->teacher_pass, &t->teacher->backbone);
    rc_pass_prepare(t->generator_pass, t->generator);
    return rc_tensor_create(be, t->settings.batch, dreaming->h, dreaming->w, dreaming->c, &t->noise);
}

static rc_status create_optimiser(rc_training *t)
{
    const rc_classifier *student = t->student;
    RC_TRY(rc_optimiser_create_sgd(t->backend, &t->settings.sgd, &t->optimiser));
    RC_TRY(rc_optimiser_add(t->optimiser, student->backbone.param, t->backbone_gradient,
                            student->backbone.net->params));
    RC_TRY(rc_optimiser_add(t->optimiser, student->head.weight, t->head_gradient,
                            (size_t)t->classes * (size_t)t->d));
    if (t->settings.relations)
        RC_TRY(rc_optimiser_add(t->optimiser, t->projection, t->projection_gradient, projection_reals(t->d)));
    return RC_OK;
}

static rc_status reserve(rc_training *t)
{
    rc_backend *be = t->backend;
    const rc_net *net = t->student->backbone.net;
    RC_TRY(be->reserve_dense(be, t->rows, t->d, t->classes));
    RC_TRY(be->reserve_losses(be, t->rows, t->classes, net->h, net->w, net->c));
    if (t->settings.relations)
        RC_TRY(be->reserve_dense(be, t->settings.batch, t->d, 2 * t->d));
    return RC_OK;
}

static rc_status build(rc_training *t)
{
    RC_TRY(create_passes(t));
    RC_TRY(take_memory(t));
    RC_TRY(create_optimiser(t));
    RC_TRY(reserve(t));
    if (t->settings.relations)
        RC_TRY(init_projections(t));
    t->control = (rc_step){.seed = t->settings.seed, .task = t->settings.task, .step = UINT32_MAX,
                           .batch = UINT32_MAX};
    rc_training_send(t);
    return t->backend->sync(t->backend);
}

rc_status rc_training_create(rc_backend *backend, const rc_training_settings *settings, rc_classifier *student,
                             const rc_classifier *teacher, const rc_model *generator, const rc_resident_data *data,
                             rc_training **training)
{
    *training = NULL;
    RC_TRY(check(settings, student, teacher, generator));
    rc_training *t = rc_alloc_zeroed(NULL, 1, sizeof *t);
    if (t == NULL)
        return RC_OUT_OF_MEMORY;
    t->backend = backend;
    t->settings = *settings;
    t->student = student;
    t->teacher = teacher;
    t->generator = generator;
    t->data = *data;
    t->rows = settings->dreams ? 2 * settings->batch : settings->batch;
    t->d = student->head.d;
    t->classes = student->head.classes;
    rc_status status = build(t);
    if (status != RC_OK) {
        rc_training_destroy(t);
        return status;
    }
    *training = t;
    return RC_OK;
}

void rc_training_destroy(rc_training *t)
{
    if (t == NULL)
        return;
    rc_pass_destroy(t->student_pass);
    rc_pass_destroy(t->teacher_pass);
    rc_pass_destroy(t->generator_pass);
    rc_pass_destroy(t->frozen_pass);
    rc_tensor_destroy(t->backend, &t->input);
    rc_tensor_destroy(t->backend, &t->noise);
    rc_optimiser_destroy(t->optimiser);
    t->backend->release(t->backend, t->memory);
    rc_free(NULL, t);
}

rc_step *rc_training_control(rc_training *t)
{
    return &t->control;
}

void rc_training_send(rc_training *t)
{
    t->backend->write_bytes(t->backend, t->step, &t->control, sizeof t->control);
}

/* ---- the step ----------------------------------------------------------------------------------------------- */

/* Element `row` of an array of reals with `width` columns. */
static void *row_of(const rc_training *t, const void *base, int row, int width)
{
    return rc_real_at(t->backend, base, (size_t)row * (size_t)width);
}

void rc_training_batch(rc_training *t)
{
    rc_backend *be = t->backend;
    int batch = t->settings.batch;
    rc_tensor real = t->input; /* the first half */
    real.n = batch;
    real.groups = 1;
    real.group_end[0] = batch;
    be->augment(be, &t->data.augment, t->data.images, t->data.order, batch, t->step, &real);
    be->gather_labels(be, t->data.labels, t->data.order, batch, t->step, t->labels);
    if (!t->settings.dreams)
        return;
    be->random_normal(be, RC_STREAM_DREAMS, t->step, &t->noise);
    rc_pass_forward(t->generator_pass, t->generator, &t->noise);
    size_t half = rc_act_count(be, batch, real.h, real.w, real.c);
    be->copy(be, rc_act_at(be, t->input.raw, half), rc_pass_output(t->generator_pass, RC_NO_LAYER)->raw,
             half * be->act_bytes);
}

/* Teacher: features of all rows, logits and labels of the dreams. */
static void ask_teacher(rc_training *t)
{
    rc_backend *be = t->backend;
    int batch = t->settings.batch, n_old = t->settings.n_old;
    rc_pass_forward(t->teacher_pass, &t->teacher->backbone, &t->input);
    be->dense_forward(be, batch, t->d, n_old, row_of(t, rc_pass_features(t->teacher_pass), batch, t->d),
                      t->teacher->head.weight, NULL, t->teacher_logits, n_old);
    be->argmax(be, batch, n_old, n_old, t->teacher_logits, t->labels + batch);
}

/* RKD on the real half. Writes the gradients of the projections; the student's features get theirs added. */
static void relations(rc_training *t, void *features, void *dfeatures)
{
    rc_backend *be = t->backend;
    int batch = t->settings.batch, d = t->d, wide = 2 * d;
    void *teacher_features = rc_pass_features(t->teacher_pass);
    be->dense_forward(be, batch, d, wide, features, projection_part(t, t->projection, 0),
                      projection_part(t, t->projection, 1), t->student_embedding, wide);
    be->dense_forward(be, batch, d, wide, teacher_features, projection_part(t, t->projection, 2),
                      projection_part(t, t->projection, 3), t->teacher_embedding, wide);
    size_t bytes = (size_t)batch * (size_t)wide * be->real_bytes;
    be->zero(be, t->dstudent_embedding, bytes);
    be->zero(be, t->dteacher_embedding, bytes);
    be->loss_rkd(be, batch, wide, t->student_embedding, t->teacher_embedding, t->rkd_workspace,
                 &t->step->weight[RC_LOSS_RKD], rc_real_at(be, t->loss, RC_LOSS_RKD), t->dstudent_embedding,
                 t->dteacher_embedding);
    be->dense_backward_weight(be, batch, d, wide, features, t->dstudent_embedding, wide,
                              projection_part(t, t->projection_gradient, 0),
                              projection_part(t, t->projection_gradient, 1), false);
    be->dense_backward_weight(be, batch, d, wide, teacher_features, t->dteacher_embedding, wide,
                              projection_part(t, t->projection_gradient, 2),
                              projection_part(t, t->projection_gradient, 3), false);
    be->dense_backward_data(be, batch, d, wide, t->dstudent_embedding, wide, projection_part(t, t->projection, 0),
                            dfeatures, true);
}

/* HKD on the dreams and, after the head's gradient has been written, WAR: both stages have them. */
static void distil_dreams(rc_training *t)
{
    rc_backend *be = t->backend;
    int batch = t->settings.batch, n_old = t->settings.n_old;
    be->loss_hkd(be, batch, n_old, row_of(t, t->logits, batch, t->classes), t->classes, t->teacher_logits, n_old,
                 &t->step->weight[RC_LOSS_HKD], rc_real_at(be, t->loss, RC_LOSS_HKD),
                 row_of(t, t->dlogits, batch, t->classes));
}

static void head_gradient(rc_training *t, const void *features)
{
    rc_backend *be = t->backend;
    const rc_training_settings *s = &t->settings;
    be->dense_backward_weight(be, t->rows, t->d, t->classes, features, t->dlogits, t->classes, t->head_gradient, NULL,
                              false);
    if (s->align_norms)
        be->loss_war(be, t->classes, s->n_old, t->d, s->paper_war, t->student->head.weight,
                     &t->step->weight[RC_LOSS_WAR], rc_real_at(be, t->loss, RC_LOSS_WAR), t->head_gradient);
    be->sum_workers(be, t->head_gradient, (size_t)t->classes * (size_t)t->d);
}

void rc_training_gradients(rc_training *t)
{
    rc_backend *be = t->backend;
    const rc_training_settings *s = &t->settings;
    rc_classifier *student = t->student;
    int classes = t->classes, d = t->d, n_new = classes - s->n_old;

    if (s->dreams)
        ask_teacher(t);
    rc_pass_forward(t->student_pass, &student->backbone, &t->input);
    void *features = rc_pass_features(t->student_pass);
    void *dfeatures = rc_pass_output_gradient(t->student_pass, RC_NO_LAYER);
    be->dense_forward(be, t->rows, d, classes, features, student->head.weight, NULL, t->logits, classes);

    be->zero(be, t->dlogits, (size_t)t->rows * (size_t)classes * be->real_bytes);
    bool local = s->local_ce && n_new > 1;
    rc_cross_entropy ce = {.n = s->batch, .stride = classes, .first = local ? s->n_old : 0,
                           .count = local ? n_new : classes, .temperature = 1, .reduction = RC_MEAN};
    be->loss_cross_entropy(be, &ce, t->logits, t->labels, NULL, &t->step->weight[RC_LOSS_CE],
                           rc_real_at(be, t->loss, RC_LOSS_CE), t->dlogits);
    if (s->dreams)
        distil_dreams(t);
    head_gradient(t, features);
    be->dense_backward_data(be, t->rows, d, classes, t->dlogits, classes, student->head.weight, dfeatures, false);
    if (s->relations) {
        relations(t, features, dfeatures);
        be->sum_workers(be, t->projection_gradient, projection_reals(d));
    }
    rc_pass_backward(t->student_pass, &student->backbone, t->backbone_gradient);
}

void rc_training_update(rc_training *t)
{
    rc_optimiser_step(t->optimiser, t->step);
    t->backend->count_labels(t->backend, t->rows, t->labels, t->classes, t->label_count);
}

void rc_training_step(void *training)
{
    rc_training *t = training;
    t->backend->step_begin(t->backend, t->step);
    rc_training_batch(t);
    rc_training_gradients(t);
    rc_training_update(t);
}

/* ---- refinement --------------------------------------------------------------------------------------------- */

enum { RANGE_BACKBONE, RANGE_HEAD, RANGE_PROJECTIONS };

void rc_training_begin_epoch(rc_training *t)
{
    t->backend->balance_weights(t->backend, t->classes, t->label_count, t->class_weight);
}

rc_status rc_training_begin_refinement(rc_training *t)
{
    rc_pass_settings frozen = {.mode = RC_PASS_EVAL, .n = t->rows, .constant_model = true};
    RC_TRY(rc_pass_create(t->backend, t->student->backbone.net, &frozen, &t->frozen_pass));
    rc_pass_prepare(t->frozen_pass, &t->student->backbone);
    rc_optimiser_freeze(t->optimiser, RANGE_BACKBONE, true);
    rc_optimiser_freeze(t->optimiser, RANGE_PROJECTIONS, true);
    return t->backend->sync(t->backend);
}

void rc_training_refinement_step(void *training)
{
    rc_training *t = training;
    rc_backend *be = t->backend;
    int classes = t->classes;
    be->step_begin(be, t->step);
    rc_training_batch(t);
    if (t->settings.dreams)
        ask_teacher(t);
    rc_pass_forward(t->frozen_pass, &t->student->backbone, &t->input);
    void *features = rc_pass_features(t->frozen_pass);
    be->dense_forward(be, t->rows, t->d, classes, features, t->student->head.weight, NULL, t->logits, classes);
    be->zero(be, t->dlogits, (size_t)t->rows * (size_t)classes * be->real_bytes);
    rc_cross_entropy balanced = {.n = t->rows, .stride = classes, .first = 0, .count = classes, .temperature = 1,
                                 .reduction = RC_WEIGHTED_MEAN};
    be->loss_cross_entropy(be, &balanced, t->logits, t->labels, t->class_weight, &t->step->weight[RC_LOSS_CE],
                           rc_real_at(be, t->loss, RC_LOSS_CE), t->dlogits);
    if (t->settings.dreams)
        distil_dreams(t);
    head_gradient(t, features);
    rc_training_update(t);
}

rc_status rc_training_register(rc_training *t, rc_state *state)
{
    static const char *const name[] = {"momentum.backbone", "momentum.head", "momentum.projection"};
    for (int range = 0; range < 3; range++) {
        size_t count;
        void *memory = rc_optimiser_state(t->optimiser, range, 0, &count);
        if (memory != NULL)
            RC_TRY(rc_state_add(state, name[range], RC_STATE_REAL, memory, count));
    }
    if (t->settings.relations)
        RC_TRY(rc_state_add(state, "projection", RC_STATE_REAL, t->projection, projection_reals(t->d)));
    RC_TRY(rc_state_add(state, "class_weight", RC_STATE_REAL, t->class_weight, (size_t)t->classes));
    return rc_state_add(state, "label_count", RC_STATE_INT32, t->label_count, (size_t)t->classes);
}

rc_training_view rc_training_look(rc_training *t)
{
    size_t bytes = t->bytes + rc_pass_bytes(t->student_pass) + rc_optimiser_bytes(t->optimiser);
    if (t->settings.dreams)
        bytes += rc_pass_bytes(t->teacher_pass) + rc_pass_bytes(t->generator_pass);
    return (rc_training_view){
        .input = &t->input,
        .labels = t->labels,
        .features = rc_pass_features(t->student_pass),
        .logits = t->logits,
        .teacher_logits = t->teacher_logits,
        .projection = t->projection,
        .loss = t->loss,
        .backbone_gradient = t->backbone_gradient,
        .head_gradient = t->head_gradient,
        .projection_gradient = t->projection_gradient,
        .label_count = t->label_count,
        .bytes = bytes,
    };
}
