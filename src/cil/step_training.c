#include "cil/step_losses.h"

#include "base/memory.h"

static void carve(void *owner, rc_arena *arena)
{
    rc_training *t = owner;
    size_t real = t->backend->real_bytes, rows = (size_t)t->rows, classes = (size_t)t->classes;
    size_t columns = (size_t)t->columns;
    t->step = rc_arena_take(arena, sizeof *t->step);
    t->label_count = rc_arena_take_array(arena, classes, sizeof *t->label_count);
    t->logits = rc_arena_take_array(arena, rows * columns, real);
    t->dlogits = rc_arena_take_array(arena, rows * columns, real);
    t->loss = rc_losses_take(t->backend, arena, rows, &t->labels);
    t->class_weight = rc_arena_take_array(arena, classes, real);
    t->backbone_gradient = rc_arena_take_array(arena, t->student->backbone.net->params, real);
    t->head_gradient = rc_arena_take_array(arena, classes * (size_t)t->d, real);
    if (t->student->head.bias != NULL)
        t->bias_gradient = rc_arena_take_array(arena, classes, real);
    rc_losses_carve(t, arena);
}

static rc_status check(const rc_training_settings *s, const rc_classifier *student, const rc_classifier *teacher,
                       const rc_replay *replay)
{
    const rc_objective *o = &s->losses;
    bool replays = o->replay || o->kd_replay || o->hkd;
    if (s->batch < 1)
        return rc_fail(RC_INVALID_ARGUMENT, "batch is %d, expected 1 or more", s->batch);
    if (s->n_old < 0 || s->n_old >= student->head.classes)
        return rc_fail(RC_INVALID_ARGUMENT, "%d old classes, expected 0 to %d: the head has %d rows", s->n_old,
                       student->head.classes - 1, student->head.classes);
    if (s->turns && student->backbone.net->h != student->backbone.net->w)
        return rc_fail(RC_INVALID_ARGUMENT, "rotations turn square images alone, and these have %d x %d pixels",
                       student->backbone.net->h, student->backbone.net->w);
    if (s->n_old == 0 && (rc_objective_asks_teacher(o) || o->war || o->class_weights || o->real == RC_CE_DECOUPLED))
        return rc_fail(RC_INVALID_ARGUMENT, "the first task has no old classes: distillation, WAR and weights of "
                                            "classes must be off");
    if (replays && replay == NULL)
        return rc_fail(RC_INVALID_ARGUMENT, "there are losses on replayed samples, but there is no replay");
    if (teacher == NULL)
        return rc_objective_asks_teacher(o) || (replay != NULL && !replay->labelled)
                   ? rc_fail(RC_INVALID_ARGUMENT, "losses or replay need the old model, but there is no teacher")
                   : RC_OK;
    if (teacher->head.classes != s->n_old)
        return rc_fail(RC_INVALID_ARGUMENT, "the teacher knows %d classes, expected %d", teacher->head.classes,
                       s->n_old);
    return RC_OK;
}

static rc_status create_passes(rc_training *t)
{
    rc_backend *be = t->backend;
    const rc_net *net = t->student->backbone.net;
    const rc_objective *o = &t->settings.losses;
    rc_pass_settings student = {.mode = RC_PASS_TRAIN,
                                .n = t->rows,
                                .groups = t->replay != NULL && !o->one_batch ? 2 : 1,
                                .group_end = {t->settings.batch, t->rows},
                                .update_running = true,
                                .frozen = t->settings.frozen,
                                .running_updates = o->head_ce ? 2 : 1};
    if (student.groups == 1)
        student.group_end[0] = t->rows;
    RC_TRY(rc_pass_create(be, net, &student, &t->student_pass));
    RC_TRY(rc_tensor_create(be, t->rows, net->h, net->w, net->c, &t->input));
    if (t->teacher == NULL)
        return RC_OK;
    rc_pass_settings teacher = {.mode = RC_PASS_EVAL, .n = t->rows, .constant_model = true, .lender = t->student_pass};
    RC_TRY(rc_pass_create(be, net, &teacher, &t->teacher_pass));
    rc_pass_prepare(t->teacher_pass, &t->teacher->backbone);
    return RC_OK;
}

/* Ranges of the optimiser. The three that a training may lack follow; -1: it has none. (Nothing follows the last one:
 * where it is lacking, no range has its number either.) */
enum { RANGE_BACKBONE, RANGE_HEAD, RANGE_NEXT };

static int projection_range(const rc_training *t)
{
    return t->settings.losses.rkd ? RANGE_NEXT : -1;
}

static int bias_range(const rc_training *t)
{
    return t->student->head.bias == NULL ? -1 : t->settings.losses.rkd ? RANGE_NEXT + 1 : RANGE_NEXT;
}

static int turned_range(const rc_training *t)
{
    return RANGE_NEXT + t->settings.losses.rkd + (t->student->head.bias != NULL);
}

/* Reals of the rows for turned images. */
static size_t turned_reals(const rc_training *t)
{
    return (size_t)(t->columns - t->classes) * (size_t)t->d;
}

static rc_status create_optimiser(rc_training *t)
{
    const rc_classifier *student = t->student;
    RC_TRY(rc_optimiser_create_sgd(t->backend, &t->settings.sgd, &t->optimiser));
    const rc_net *net = student->backbone.net;
    size_t first = rc_net_params_before(net, t->settings.frozen);
    RC_TRY(rc_optimiser_add(t->optimiser, rc_real_at(t->backend, student->backbone.param, first),
                            rc_real_at(t->backend, t->backbone_gradient, first), net->params - first));
    RC_TRY(rc_optimiser_add(t->optimiser, student->head.weight, t->head_gradient, (size_t)t->classes * (size_t)t->d));
    if (t->settings.losses.rkd)
        RC_TRY(rc_optimiser_add(t->optimiser, t->projection, t->projection_gradient, rc_projection_reals(t->d)));
    if (student->head.bias != NULL)
        RC_TRY(rc_optimiser_add(t->optimiser, student->head.bias, t->bias_gradient, (size_t)t->classes));
    if (t->turned_head != NULL)
        RC_TRY(rc_optimiser_add(t->optimiser, t->turned_head, t->turned_gradient, turned_reals(t)));
    return RC_OK;
}

static rc_status build(rc_training *t)
{
    RC_TRY(create_passes(t));
    RC_TRY(rc_backend_carve(t->backend, "training step", carve, t, &t->memory, &t->bytes));
    if (t->replay != NULL)
        t->replay->loss = t->loss;
    RC_TRY(create_optimiser(t));
    RC_TRY(rc_losses_reserve(t));
    RC_TRY(rc_losses_begin(t));
    t->control = (rc_step){.seed = t->settings.seed, .task = t->settings.task, .step = UINT32_MAX, .batch = UINT32_MAX};
    rc_step_take_part(t->backend, &t->control);
    rc_training_send(t);
    return t->backend->sync(t->backend);
}

rc_status rc_training_create(rc_backend *backend, const rc_training_settings *settings, rc_classifier *student,
                             const rc_classifier *teacher, rc_replay *replay, const rc_resident_data *data,
                             rc_training **training)
{
    *training = NULL;
    rc_status status = check(settings, student, teacher, replay);
    rc_training *t = status == RC_OK ? rc_alloc_zeroed(NULL, 1, sizeof *t) : NULL;
    if (t == NULL) {
        rc_replay_destroy(replay);
        return status == RC_OK ? RC_OUT_OF_MEMORY : status;
    }
    t->backend = backend;
    t->settings = *settings;
    t->student = student;
    t->teacher = teacher;
    t->replay = replay;
    t->data = *data;
    t->rows = settings->batch + (replay != NULL ? replay->batch : 0);
    t->d = student->head.d;
    t->classes = student->head.classes;
    t->columns = rc_losses_columns(t);
    status = build(t);
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
    rc_pass_destroy(t->frozen_pass);
    rc_replay_destroy(t->replay);
    rc_tensor_destroy(t->backend, &t->input);
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

/* The images of the input from `row` on, n of them. */
static rc_tensor part_of_input(const rc_training *t, int row, int n)
{
    rc_tensor part = t->input;
    part.n = n;
    part.groups = 1;
    part.group_end[0] = n;
    part.raw = rc_act_at(t->backend, t->input.raw, rc_act_count(t->backend, row, part.h, part.w, part.c));
    return part;
}

/* Refinement has labels as they are: nothing is turned or mixed. */
static bool is_refining(const rc_training *t)
{
    return t->frozen_pass != NULL;
}

/* The real half, out of bytes that were varied before. */
static void make_varied(rc_training *t, rc_tensor *real)
{
    rc_backend *be = t->backend;
    const rc_augment *image = &t->data.augment;
    bool turns = t->turned_labels != NULL && !is_refining(t);
    rc_vary vary = {.h = image->h,
                    .w = image->w,
                    .c = image->c,
                    .trivial = t->settings.trivial,
                    .turns = turns,
                    .n_old = t->settings.n_old,
                    .classes = t->classes,
                    .stream = RC_STREAM_VARY};
    be->vary(be, &vary, t->data.images, t->data.order, t->settings.batch, t->step, t->data.labels, t->varied,
             turns ? t->turned_labels : NULL);
    be->copy(be, t->varied_step, t->step, sizeof *t->step);
    be->zero(be, &t->varied_step->batch, sizeof t->step->batch);
    be->augment(be, image, t->varied, t->varied_order, t->settings.batch, t->varied_step, real);
}

static void mix_images(rc_training *t, rc_tensor *real)
{
    const rc_mix *mix = &t->settings.mix;
    bool mixes = t->partner != NULL && !is_refining(t);
    if (mixes || mix->cutout > 0)
        t->backend->mix(t->backend, mix, t->turned_labels != NULL ? t->turned_labels : t->labels, t->step, real,
                        mixes ? t->partner : NULL, mixes ? t->share : NULL);
}

void rc_training_batch(rc_training *t)
{
    rc_backend *be = t->backend;
    int batch = t->settings.batch;
    rc_tensor real = part_of_input(t, 0, batch);
    if (t->varied != NULL)
        make_varied(t, &real);
    else
        be->augment(be, &t->data.augment, t->data.images, t->data.order, batch, t->step, &real);
    be->gather_labels(be, t->data.labels, t->data.order, batch, t->step, t->labels);
    mix_images(t, &real);
    if (t->replay == NULL)
        return;
    rc_tensor replayed = part_of_input(t, batch, t->replay->batch);
    t->replay->table->draw(t->replay, t->step, &replayed, t->labels + batch);
}

/* Teacher: features of all rows, logits of those that a loss or a label needs. */
static void ask_teacher(rc_training *t)
{
    rc_backend *be = t->backend;
    int n_old = t->settings.n_old, batch = t->settings.batch, first = t->settings.losses.kd_real ? 0 : batch;
    if (t->teacher == NULL)
        return;
    rc_pass_forward(t->teacher_pass, &t->teacher->backbone, &t->input);
    if (first == t->rows)
        return;
    void *logits = rc_real_at(be, t->teacher_logits, (size_t)first * (size_t)n_old);
    be->dense_forward(be, t->rows - first, t->d, n_old,
                      rc_real_at(be, rc_pass_features(t->teacher_pass), (size_t)first * (size_t)t->d),
                      t->teacher->head.weight, t->teacher->head.bias, logits, n_old);
    if (t->replay != NULL && !t->replay->labelled)
        be->argmax(be, t->rows - batch, n_old, n_old, rc_real_at(be, t->teacher_logits, (size_t)batch * (size_t)n_old),
                   t->labels + batch);
}

/* The gradients of all logits are 0 until losses add theirs. */
static void clear_logit_gradients(rc_training *t)
{
    t->backend->zero(t->backend, t->dlogits, (size_t)t->rows * (size_t)t->columns * t->backend->real_bytes);
}

/* Logits of all rows, and of the real half for turned images. */
static void ask_student(rc_training *t, const void *features)
{
    rc_backend *be = t->backend;
    be->dense_forward(be, t->rows, t->d, t->classes, features, t->student->head.weight, t->student->head.bias,
                      t->logits, t->columns);
    if (t->turned_head != NULL && !is_refining(t))
        be->dense_forward(be, t->settings.batch, t->d, t->columns - t->classes, features, t->turned_head, NULL,
                          rc_real_at(be, t->logits, (size_t)t->classes), t->columns);
}

/* Gradient of the features from that of the logits. */
static void features_gradient(rc_training *t, void *dfeatures)
{
    rc_backend *be = t->backend;
    be->dense_backward_data(be, t->rows, t->d, t->classes, t->dlogits, t->columns, t->student->head.weight, dfeatures,
                            false);
    if (t->turned_head != NULL)
        be->dense_backward_data(be, t->settings.batch, t->d, t->columns - t->classes,
                                rc_real_at(be, t->dlogits, (size_t)t->classes), t->columns, t->turned_head, dfeatures,
                                true);
}

static void turned_gradient(rc_training *t, const void *features)
{
    rc_backend *be = t->backend;
    be->dense_backward_weight(be, t->settings.batch, t->d, t->columns - t->classes, features,
                              rc_real_at(be, t->dlogits, (size_t)t->classes), t->columns, t->turned_gradient, NULL,
                              false);
    be->sum_workers(be, t->turned_gradient, turned_reals(t));
}

static void head_gradient(rc_training *t, const void *features, bool refines)
{
    rc_backend *be = t->backend;
    be->dense_backward_weight(be, t->rows, t->d, t->classes, features, t->dlogits, t->columns, t->head_gradient,
                              t->bias_gradient, false);
    if (t->turned_head != NULL && !refines)
        turned_gradient(t, features);
    if (refines)
        rc_losses_of_drawn(t);
    if (t->bias_gradient != NULL)
        be->sum_workers(be, t->bias_gradient, (size_t)t->classes);
    be->sum_workers(be, t->head_gradient, (size_t)t->classes * (size_t)t->d);
    be->wait_workers(be);
    rc_losses_of_rows(t); /* of the head alone, which every process has */
}

/* Between the two passes a device has little to do, so what need not wait runs on the side lane: the teacher beside the
 * student, unless it lies in the student's memory; relations beside the losses on logits; gradients of head and
 * projections beside the backward pass. */
void rc_training_gradients(rc_training *t)
{
    rc_backend *be = t->backend;
    rc_classifier *student = t->student;
    if (t->teacher != NULL && !rc_pass_borrows(t->teacher_pass))
        be->fork(be, RC_SIDE_LANE);
    clear_logit_gradients(t);
    ask_teacher(t);
    rc_losses_embed_teacher(t);
    be->fork(be, RC_MAIN_LANE);
    rc_pass_forward(t->student_pass, &student->backbone, &t->input);
    void *features = rc_pass_features(t->student_pass);
    void *dfeatures = rc_pass_output_gradient(t->student_pass, RC_NO_LAYER);
    be->join(be, RC_SIDE_LANE);

    be->fork(be, RC_SIDE_LANE);
    rc_losses_of_relations(t, features);
    be->fork(be, RC_MAIN_LANE);
    ask_student(t, features);
    rc_losses_of_real(t);
    rc_losses_of_replay(t);
    features_gradient(t, dfeatures);
    rc_losses_of_head(t); /* after the features have their gradient: this one is for the head alone */
    be->join(be, RC_SIDE_LANE);

    be->fork(be, RC_SIDE_LANE);
    head_gradient(t, features, false);
    rc_losses_of_projections(t, features);
    be->fork(be, RC_MAIN_LANE);
    rc_losses_of_features(t, features, dfeatures);
    rc_pass_backward(t->student_pass, &student->backbone, t->backbone_gradient);
    be->join(be, RC_SIDE_LANE);
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
    if (t->replay != NULL && t->replay->table->learn != NULL)
        t->replay->table->learn(t->replay, t->step, &t->input, t->labels);
}

/* ---- refinement --------------------------------------------------------------------------------------------- */

rc_status rc_training_prepare_epoch(rc_training *t, int epoch)
{
    return t->replay != NULL && t->replay->table->prepare_epoch != NULL
               ? t->replay->table->prepare_epoch(t->replay, epoch)
               : RC_OK;
}

void rc_training_begin_epoch(rc_training *t)
{
    t->backend->balance_weights(t->backend, t->classes, t->label_count, t->class_weight);
}

rc_status rc_training_begin_refinement(rc_training *t)
{
    rc_pass_settings frozen = {.mode = RC_PASS_EVAL, .n = t->rows, .constant_model = true, .lender = t->student_pass};
    RC_TRY(rc_pass_create(t->backend, t->student->backbone.net, &frozen, &t->frozen_pass));
    rc_pass_prepare(t->frozen_pass, &t->student->backbone);
    rc_optimiser_freeze(t->optimiser, RANGE_BACKBONE, true);
    rc_optimiser_freeze(t->optimiser, projection_range(t), true);
    rc_optimiser_freeze(t->optimiser, turned_range(t), true);
    return t->backend->sync(t->backend);
}

void rc_training_give_drawn(rc_training *t, const float *features, const int32_t *labels)
{
    size_t n = (size_t)t->settings.drawn;
    t->backend->write_real(t->backend, t->drawn, features, n * (size_t)t->d);
    t->backend->write_bytes(t->backend, t->drawn_labels, labels, n * sizeof *labels);
}

void rc_training_refinement_step(void *training)
{
    rc_training *t = training;
    rc_backend *be = t->backend;
    be->step_begin(be, t->step);
    rc_training_batch(t);
    ask_teacher(t);
    rc_pass_forward(t->frozen_pass, &t->student->backbone, &t->input);
    void *features = rc_pass_features(t->frozen_pass);
    ask_student(t, features);
    clear_logit_gradients(t);
    rc_cross_entropy balanced = {.n = t->rows,
                                 .stride = t->columns,
                                 .first = 0,
                                 .count = t->classes,
                                 .temperature = 1,
                                 .reduction = RC_WEIGHTED_MEAN};
    be->loss_cross_entropy(be, &balanced, t->logits, t->labels, t->class_weight, &t->step->weight[RC_LOSS_CE],
                           rc_real_at(be, t->loss, RC_LOSS_CE), t->dlogits);
    rc_losses_of_replay(t);
    head_gradient(t, features, true);
    rc_training_update(t);
}

rc_status rc_training_register(rc_training *t, rc_state *state)
{
    static const char *const name[] = {"momentum.backbone", "momentum.head", "momentum.projection", "momentum.bias",
                                       "momentum.turned"};
    const int range[] = {RANGE_BACKBONE, RANGE_HEAD, projection_range(t), bias_range(t), turned_range(t)};
    for (size_t i = 0; i < sizeof range / sizeof *range; i++) {
        size_t count;
        void *memory = rc_optimiser_state(t->optimiser, range[i], 0, &count);
        if (memory != NULL)
            RC_TRY(rc_state_add(state, name[i], RC_STATE_REAL, memory, count));
    }
    if (t->settings.losses.rkd)
        RC_TRY(rc_state_add(state, "projection", RC_STATE_REAL, t->projection, rc_projection_reals(t->d)));
    if (t->turned_head != NULL)
        RC_TRY(rc_state_add(state, "turned", RC_STATE_REAL, t->turned_head, turned_reals(t)));
    if (t->replay != NULL && t->replay->table->register_state != NULL)
        RC_TRY(t->replay->table->register_state(t->replay, state));
    RC_TRY(rc_state_add(state, "class_weight", RC_STATE_REAL, t->class_weight, (size_t)t->classes));
    return rc_state_add(state, "label_count", RC_STATE_INT32, t->label_count, (size_t)t->classes);
}

rc_training_view rc_training_look(rc_training *t)
{
    size_t bytes = t->bytes + rc_pass_bytes(t->student_pass) + rc_optimiser_bytes(t->optimiser);
    if (t->teacher_pass != NULL)
        bytes += rc_pass_bytes(t->teacher_pass);
    if (t->replay != NULL)
        bytes += t->replay->bytes;
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
        .bias_gradient = t->bias_gradient,
        .turned_gradient = t->turned_gradient,
        .projection_gradient = t->projection_gradient,
        .label_count = t->label_count,
        .bytes = bytes,
    };
}
