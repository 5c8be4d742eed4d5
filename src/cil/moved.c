#include "cil/moved.h"

#include <math.h>
#include <string.h>

#include "base/half.h"
#include "base/matrix.h"
#include "base/memory.h"
#include "cil/scatter.h"
#include "cil/stage.h"

/* ---- features of both nets -------------------------------------------------------------------------------------- */

typedef struct pairs {
    rc_learner *learner;
    rc_backend *backend;
    rc_pass *student_pass, *teacher_pass;
    rc_replay *replay; /* NULL: images alone */
    rc_tensor input;
    void *memory;
    size_t bytes; /* of it */
    rc_step *step;
    int32_t *labels;
    int images, rows; /* of images, and with dreams behind them */
    float *old, *new; /* (rows, d) */
    int32_t *label;   /* (images) */
} pairs;

static void carve(void *owner, rc_arena *arena)
{
    pairs *p = owner;
    p->step = rc_arena_take(arena, sizeof *p->step);
    p->labels = rc_arena_take_array(arena, (size_t)p->learner->settings.batch, sizeof *p->labels);
}

/* Every process makes the dreams of the whole batch: the source is opened as if this one were alone. */
static rc_status open_dreams(pairs *p)
{
    int parts = p->backend->parts;
    p->backend->parts = 0;
    rc_status status = rc_learner_replay(p->learner, RC_STREAM_ESTIMATION + 1, &p->replay);
    p->backend->parts = parts;
    return status;
}

/* Bytes of the features by both nets. */
static size_t feature_bytes(const pairs *p)
{
    return 2 * (size_t)p->rows * (size_t)p->learner->student.head.d * sizeof *p->old;
}

static pairs pairs_of(rc_learner *l, bool dreams)
{
    int images = l->batches * l->settings.batch;
    return (pairs){.learner = l, .backend = l->backend, .images = images, .rows = dreams ? 2 * images : images};
}

static rc_status take_rows(pairs *p)
{
    p->old = rc_alloc_zeroed(NULL, feature_bytes(p), 1);
    p->label = rc_alloc_zeroed(NULL, (size_t)p->images, sizeof *p->label);
    if (p->old == NULL || p->label == NULL)
        return RC_OUT_OF_MEMORY;
    p->new = p->old + (size_t)p->rows *(size_t)p->learner->student.head.d;
    return RC_OK;
}

static rc_status build_passes(pairs *p, bool dreams)
{
    rc_backend *be = p->backend;
    rc_learner *l = p->learner;
    int batch = l->settings.batch;
    rc_pass_settings eval = {.mode = RC_PASS_EVAL, .n = batch, .constant_model = true};
    RC_TRY(rc_pass_create(be, &l->net, &eval, &p->student_pass));
    rc_pass_prepare(p->student_pass, &l->student.backbone);
    if (l->has.teacher) {
        RC_TRY(rc_pass_create(be, &l->net, &eval, &p->teacher_pass));
        rc_pass_prepare(p->teacher_pass, &l->teacher.backbone);
    }
    RC_TRY(rc_tensor_create(be, batch, l->net.h, l->net.w, l->net.c, &p->input));
    if (dreams)
        RC_TRY(open_dreams(p));
    return rc_backend_carve(be, "moved statistics", carve, p, &p->memory, &p->bytes);
}

/* Of all that build_passes builds. */
static size_t pass_bytes(const pairs *p)
{
    size_t bytes = p->bytes + rc_pass_bytes(p->student_pass) +
                   rc_act_count(p->backend, p->input.n, p->input.h, p->input.w, p->input.c) * p->backend->act_bytes;
    if (p->teacher_pass != NULL)
        bytes += rc_pass_bytes(p->teacher_pass);
    if (p->replay != NULL)
        bytes += p->replay->bytes;
    return bytes;
}

static void drop_passes(pairs *p)
{
    rc_pass_destroy(p->student_pass);
    rc_pass_destroy(p->teacher_pass);
    rc_replay_destroy(p->replay);
    rc_tensor_destroy(p->backend, &p->input);
    p->backend->release(p->backend, p->memory);
}

static void draw_images(pairs *p)
{
    rc_backend *be = p->backend;
    const rc_resident_data *data = &p->learner->data;
    const rc_augment augment = rc_estimation_augment(p->learner);
    be->augment(be, &augment, data->images, data->order, p->input.n, p->step, &p->input);
    be->gather_labels(be, data->labels, data->order, p->input.n, p->step, p->labels);
}

/* Batch `index` of the images, or of the dreams. */
static rc_status add_batch(pairs *p, uint32_t index, bool dreams)
{
    rc_backend *be = p->backend;
    rc_learner *l = p->learner;
    size_t n = (size_t)p->input.n, count = n * (size_t)l->student.head.d;
    size_t row = (size_t)index * n + (dreams ? (size_t)p->images : 0), at = row * (size_t)l->student.head.d;
    rc_step control = {.seed = l->settings.seed, .task = (uint32_t)l->task, .step = index, .batch = index};
    be->write_bytes(be, p->step, &control, sizeof control);
    if (dreams)
        p->replay->table->draw(p->replay, p->step, &p->input, p->labels);
    else
        draw_images(p);
    if (p->teacher_pass != NULL) {
        rc_pass_forward(p->teacher_pass, &l->teacher.backbone, &p->input);
        be->read_real(be, p->old + at, rc_pass_features(p->teacher_pass), count);
    }
    rc_pass_forward(p->student_pass, &l->student.backbone, &p->input);
    be->read_real(be, p->new + at, rc_pass_features(p->student_pass), count);
    if (!dreams)
        be->read_bytes(be, p->label + row, p->labels, n * sizeof *p->label);
    return be->sync(be);
}

static rc_status take_pairs(pairs *p, bool dreams)
{
    rc_learner *l = p->learner;
    RC_TRY(take_rows(p));
    RC_TRY(build_passes(p, dreams));
    int epochs = (int)((rc_stage_steps(l, RC_STAGE_TRAINING) + rc_stage_steps(l, RC_STAGE_REFINEMENT)) /
                       (uint32_t)l->batches);
    rc_learner_send_order(l, epochs); /* that of estimation */
    for (int part = 0; part < (dreams ? 2 : 1); part++)
        for (int i = 0; i < l->batches; i++)
            RC_TRY(add_batch(p, (uint32_t)i, part == 1));
    return RC_OK;
}

/* ---- statistics -------------------------------------------------------------------------------------------------- */

static size_t block_bytes(int d, int classes, bool variances, bool factors)
{
    size_t means = (size_t)classes * (size_t)d, triangles = factors ? (size_t)classes * rc_factor_numbers(d) : 0;
    return ((variances ? 2 : 1) * means + 2 * (size_t)d * (size_t)d + triangles) * sizeof(double);
}

static rc_status allocate(rc_moved *m, int d, int classes, bool variances, bool factors)
{
    size_t square = (size_t)d * (size_t)d, means = (size_t)classes * (size_t)d, more = variances ? means : 0;
    *m = (rc_moved){.d = d, .classes = classes};
    m->mean = rc_alloc_zeroed(NULL, block_bytes(d, classes, variances, factors), 1);
    if (m->mean == NULL)
        return RC_OUT_OF_MEMORY;
    m->covariance = m->mean + means;
    m->lower = m->covariance + square;
    m->variance = variances ? m->lower + square : NULL;
    m->factor = factors ? m->lower + square + more : NULL;
    return RC_OK;
}

/* Features that do not vary, as those of one image a class, leave `lower` at 0: then what is drawn of a class is its
 * mean. */
static rc_status factorise(rc_moved *m)
{
    double ridge;
    bool vary = false;
    size_t square = (size_t)m->d * (size_t)m->d;
    for (size_t i = 0; i < square; i++)
        vary = vary || m->covariance[i] != 0; /* NaN does, too */
    if (!vary)
        return RC_OK;
    memcpy(m->lower, m->covariance, square * sizeof *m->lower);
    return rc_factorise(m->d, m->lower, &ridge);
}

/* Nothing is known of a class of the task that no image has shown: NaN. rows: (classes, d). */
static void forget_unseen(const pairs *p, const rc_moved *m, const int32_t *count, double *rows)
{
    for (int k = p->learner->n_old; k < m->classes; k++)
        for (int j = 0; count[k] == 0 && j < m->d; j++)
            rows[(size_t)k * (size_t)m->d + (size_t)j] = NAN;
}

/* Means of the classes that the images show; every other old class keeps its mean. The images' features become what
 * they are beyond their class means. Returns how many classes there are. */
static int own_means(const pairs *p, rc_moved *m, int32_t *count)
{
    size_t d = (size_t)m->d;
    int shown = 0;
    for (int i = 0; i < p->images; i++)
        if (count[p->label[i]]++ == 0)
            memset(m->mean + (size_t)p->label[i] * d, 0, d * sizeof *m->mean);
    for (size_t i = 0; i < (size_t)p->images; i++)
        for (size_t j = 0; j < d; j++)
            m->mean[(size_t)p->label[i] * d + j] += (double)p->new[i * d + j] / count[p->label[i]];
    for (size_t i = 0; i < (size_t)p->images; i++)
        for (size_t j = 0; j < d; j++)
            p->new[i * d + j] -= (float)m->mean[(size_t)p->label[i] * d + j];
    for (int k = 0; k < m->classes; k++)
        shown += count[k] > 0;
    forget_unseen(p, m, count, m->mean);
    return shown;
}

/* Variances of the classes that the images show, out of what own_means has left. */
static void own_variances(const pairs *p, rc_moved *m, const int32_t *count)
{
    size_t d = (size_t)m->d;
    for (size_t k = 0; k < (size_t)m->classes; k++)
        if (count[k] > 0)
            memset(m->variance + k * d, 0, d * sizeof *m->variance);
    for (size_t i = 0; i < (size_t)p->images; i++)
        for (size_t j = 0; j < d; j++) {
            double beyond = (double)p->new[i * d + j];
            m->variance[(size_t)p->label[i] * d + j] += beyond * beyond / count[p->label[i]];
        }
    forget_unseen(p, m, count, m->variance);
}

/* What feature j of class k is multiplied by, so that it has its own variance in place of the shared one. */
static double spread(const rc_moved *m, size_t k, size_t j)
{
    size_t d = (size_t)m->d;
    double shared = m->covariance[j * d + j];
    return shared > 0 ? sqrt(m->variance[k * d + j] / shared) : 0;
}

/* Before the covariance moves. */
static rc_status move_variances(const pairs *p, const rc_affine_map *map, rc_moved *m)
{
    const rc_learner *l = p->learner;
    size_t d = (size_t)m->d;
    double *own = rc_alloc_zeroed(NULL, d * d, sizeof *own);
    rc_status status = own != NULL ? RC_OK : RC_OUT_OF_MEMORY;
    if (status == RC_OK && l->class_variance != NULL) {
        p->backend->read_real64(p->backend, m->variance, l->class_variance, (size_t)l->n_old * d);
        status = p->backend->sync(p->backend);
    }
    for (size_t k = 0; status == RC_OK && k < (size_t)l->n_old; k++) {
        for (size_t j = 0; j < d && l->class_variance == NULL; j++)
            m->variance[k * d + j] = m->covariance[j * d + j];
        for (size_t i = 0; i < d; i++)
            for (size_t j = 0; j < d; j++)
                own[i * d + j] = spread(m, k, i) * m->covariance[i * d + j] * spread(m, k, j);
        status = rc_affine_map_covariance(map, own);
        for (size_t j = 0; j < d; j++)
            m->variance[k * d + j] = own[j * d + j];
    }
    rc_free(NULL, own);
    return status;
}

/* The task's classes join those that were moved. */
static rc_status join(const pairs *p, rc_moved *m)
{
    size_t square = (size_t)m->d * (size_t)m->d;
    int32_t *count = rc_alloc_zeroed(NULL, (size_t)m->classes, sizeof *count);
    double *own = rc_alloc_zeroed(NULL, square, sizeof *own);
    rc_status status = count != NULL && own != NULL ? RC_OK : RC_OUT_OF_MEMORY;
    if (status == RC_OK) {
        double share = (double)own_means(p, m, count) / m->classes;
        if (m->variance != NULL)
            own_variances(p, m, count);
        status = rc_cross_products(NULL, p->images, m->d, p->new, m->d, p->new, own);
        for (size_t i = 0; status == RC_OK && i < square; i++)
            m->covariance[i] = (1 - share) * m->covariance[i] + share * own[i] / p->images;
    }
    rc_free(NULL, count);
    rc_free(NULL, own);
    return status;
}

static rc_status move(const pairs *p, rc_moved *m)
{
    rc_learner *l = p->learner;
    rc_backend *be = p->backend;
    rc_affine_map map;
    be->read_real64(be, m->mean, l->class_mean, (size_t)l->n_old * (size_t)m->d);
    be->read_real64(be, m->covariance, l->covariance, (size_t)m->d * (size_t)m->d);
    RC_TRY(be->sync(be));
    RC_TRY(rc_affine_map_fit(NULL, p->rows, m->d, p->old, p->new, &map));
    rc_status status = m->variance != NULL ? move_variances(p, &map, m) : RC_OK;
    if (status == RC_OK)
        status = rc_affine_map_covariance(&map, m->covariance);
    for (int k = 0; status == RC_OK && k < l->n_old; k++)
        status = rc_affine_map_mean(&map, m->mean + (size_t)k * (size_t)m->d);
    rc_affine_map_destroy(&map);
    return status;
}

bool rc_moved_possible(const rc_learner *l)
{
    return l->n_old > 0 && l->has.teacher && l->statistics_classes == l->n_old;
}

bool rc_moved_takes_dreams(const rc_learner *l)
{
    return l->has.replay && strcmp(l->settings.plus_statistics, "moved-dreams") == 0;
}

rc_status rc_moved_create(rc_learner *l, bool dreams, rc_moved *m)
{
    pairs p = pairs_of(l, dreams);
    RC_TRY(allocate(m, l->student.head.d, l->student.head.classes, l->settings.plus_variances, false));
    rc_status status = take_pairs(&p, dreams);
    drop_passes(&p);
    if (status == RC_OK && l->n_old > 0)
        status = move(&p, m);
    if (status == RC_OK)
        status = join(&p, m);
    if (status == RC_OK)
        status = factorise(m);
    rc_free(NULL, p.old);
    rc_free(NULL, p.label);
    if (status != RC_OK)
        rc_moved_destroy(m);
    return status;
}

size_t rc_moved_bytes(const rc_learner *l)
{
    return block_bytes(l->student.head.d, l->student.head.classes, l->settings.plus_variances, false);
}

/* What is there of the heap beside the passes, and when these are gone: then the fit has all features once more,
 * centred, and of squares and rows of d numbers the map (2 and 1), the sums (3 and 2), a factor, a column and a copy of
 * the factor. Without old classes there is no fit, but a covariance. */
static size_t heap_bytes(const pairs *p, bool passes)
{
    const rc_learner *l = p->learner;
    size_t d = (size_t)l->student.head.d, bytes = rc_moved_bytes(l) + feature_bytes(p);
    bytes += (size_t)p->images * sizeof *p->label;
    if (passes)
        return bytes;
    if (l->n_old == 0)
        return bytes + d * d * sizeof(double) + (size_t)l->student.head.classes * sizeof(int32_t);
    return bytes + feature_bytes(p) + (8 * d * d + 3 * d) * sizeof(double);
}

rc_status rc_moved_count(rc_learner *l, bool dreams, size_t *bytes)
{
    pairs p = pairs_of(l, dreams);
    rc_backend *be = l->backend;
    size_t with = heap_bytes(&p, true), without = heap_bytes(&p, false);
    rc_status status = build_passes(&p, dreams);
    if (status == RC_OK)
        with += pass_bytes(&p);
    if (status == RC_OK && be->sizing)
        status = rc_backend_count_scratch(be, heap_bytes(&p, true));
    drop_passes(&p);
    if (status == RC_OK && be->sizing)
        status = rc_backend_count_scratch(be, without);
    *bytes = with > without ? with : without;
    return status;
}

rc_status rc_moved_read(const rc_learner *l, rc_moved *m)
{
    rc_backend *be = l->backend;
    size_t d = (size_t)l->student.head.d, count = (size_t)l->statistics_classes * d;
    RC_TRY(allocate(m, l->student.head.d, l->statistics_classes, l->class_variance != NULL, l->class_factor != NULL));
    be->read_real64(be, m->mean, l->class_mean, count);
    be->read_real64(be, m->covariance, l->covariance, d * d);
    if (m->variance != NULL)
        be->read_real64(be, m->variance, l->class_variance, count);
    if (m->factor != NULL)
        be->read_real64(be, m->factor, l->class_factor, (size_t)m->classes * rc_factor_numbers(m->d));
    rc_status status = be->sync(be);
    if (status == RC_OK)
        status = factorise(m);
    if (status != RC_OK)
        rc_moved_destroy(m);
    return status;
}

rc_status rc_moved_keep(const rc_moved *m, rc_learner *l)
{
    rc_backend *be = l->backend;
    size_t d = (size_t)m->d, count = (size_t)m->classes * d;
    RC_TRY(rc_learner_grow_statistics(l));
    be->write_real64(be, l->covariance, m->covariance, d * d);
    if (m->variance == NULL) {
        be->write_real64(be, l->class_mean, m->mean, count);
        return be->sync(be);
    }
    RC_TRY(rc_learner_keep_variances(l));
    float *rounded = rc_alloc_zeroed(NULL, 2 * count, sizeof *rounded);
    if (rounded == NULL)
        return RC_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++) {
        rounded[i] = rc_half_to_float(rc_half_from_float((float)m->mean[i]));
        rounded[count + i] = rc_half_to_float(rc_half_from_float((float)m->variance[i]));
    }
    be->write_real(be, l->class_mean, rounded, count);
    be->write_real(be, l->class_variance, rounded + count, count);
    rc_status status = be->sync(be);
    rc_free(NULL, rounded);
    return status;
}

void rc_moved_destroy(rc_moved *m)
{
    rc_free(NULL, m->mean);
    *m = (rc_moved){0};
}

/* The class whose turn it is after that of class k. One of which no dream was told, and no image, has no mean. */
static size_t next_class(const rc_moved *m, size_t k)
{
    for (int passed = 0; passed < m->classes; passed++) {
        k = (k + 1) % (size_t)m->classes;
        if (!isnan(m->mean[k * (size_t)m->d]))
            break;
    }
    return k;
}

int rc_moved_each(int classes)
{
    enum { MOST = 16 };
    static const int64_t most_logits = (int64_t)MOST * 2048 * 2048;
    int64_t each = most_logits / ((int64_t)classes * classes);
    return each > MOST ? MOST : each > 1 ? (int)each : 1;
}

void rc_moved_draw(const rc_moved *m, rc_rng rng, int epoch, int each, float *feature, int32_t *label)
{
    size_t d = (size_t)m->d, rows = (size_t)each * (size_t)m->classes, k = (size_t)m->classes - 1;
    for (size_t row = 0; row < rows; row++) {
        float *x = feature + row * d;
        k = next_class(m, k);
        label[row] = (int32_t)k;
        rc_rng_fill_normal(rng, ((uint64_t)(uint32_t)epoch * rows + row) * d, x, d);
        for (size_t i = d; i-- > 0;) { /* from the end: entry i needs the noise up to i alone */
            double factor = m->factor == NULL && m->variance != NULL ? spread(m, k, i) : 1, sum = m->mean[k * d + i];
            const double *lower = m->lower + i * d;
            if (m->factor != NULL)
                lower = m->factor + k * rc_factor_numbers(m->d) + i * (i + 1) / 2;
            for (size_t j = 0; j <= i; j++)
                sum += factor * lower[j] * (double)x[j];
            x[i] = (float)sum;
        }
    }
}
