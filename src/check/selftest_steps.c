#include "check/selftest_steps.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"

rc_step_limits rc_step_tolerance(const rc_backend *test, const rc_step_run *run)
{
    bool inversion = strcmp(run->name, "inversion") == 0;
    rc_step_limits limits = {.loss = 0x1p-6, .growth = 0.05, .gradient = 0.1, .tensor = 0.2, .cosine = 0.995};
    if (test->act_bytes == 2)
        return limits;
    if (run->start == RC_START_SMOOTH)
        return (rc_step_limits){.loss = 1e-4,
                                .growth = inversion ? 1e-4 : 1e-3,
                                .gradient = inversion ? 2e-5 : 1e-4,
                                .tensor = inversion ? 2e-5 : 2e-4,
                                .cosine = 0.99999};
    limits.loss = 1e-5;
    limits.growth = inversion ? limits.growth : 1e-3;
    return limits;
}

/* Written so that NaN does not agree. */
bool rc_step_agrees(const rc_step_difference *d, const rc_step_limits *limits)
{
    return d->loss <= limits->loss && d->growth <= limits->growth && d->label <= limits->growth &&
           d->gradient <= limits->gradient && d->cosine >= limits->cosine &&
           d->tensor[d->worst].distance <= limits->tensor && d->same_bits;
}

/* ---- recording -------------------------------------------------------------------------------------------------- */

/* What a backend has computed: losses of every step, gradients of the first and the last one. */
typedef struct recorded {
    float *loss;         /* (steps, RC_LOSS_COUNT) */
    float *first, *last; /* (params) */
    float *head;         /* (heads) of the first step */
    size_t heads;
    float *logit;   /* (steps, batch, classes), and the labels that they gave; NULL: none are chosen */
    int32_t *label; /* (steps, batch) */
    int classes;
    const rc_net *net; /* of the world, which must be there still */
} recorded;

static void free_recorded(recorded *r)
{
    rc_free(NULL, r->loss);
    rc_free(NULL, r->first);
    rc_free(NULL, r->last);
    rc_free(NULL, r->head);
    rc_free(NULL, r->logit);
    rc_free(NULL, r->label);
    *r = (recorded){0};
}

static rc_status record(rc_step_world *w, int steps, recorded *r)
{
    rc_backend *be = w->be;
    const void *logits = NULL, *gradient = rc_step_world_gradient(w, &r->net);
    const void *head = rc_step_world_head_gradient(w, &r->heads);
    const int32_t *labels = NULL;
    size_t batch = (size_t)w->batch;
    bool chosen = rc_step_world_labels(w, &logits, &labels, &r->classes);
    r->loss = rc_alloc_zeroed(NULL, (size_t)steps * RC_LOSS_COUNT, sizeof *r->loss);
    r->first = rc_alloc_zeroed(NULL, r->net->params, sizeof *r->first);
    r->last = rc_alloc_zeroed(NULL, r->net->params, sizeof *r->last);
    r->head = rc_alloc_zeroed(NULL, r->heads, sizeof *r->head);
    if (chosen) {
        r->logit = rc_alloc_zeroed(NULL, (size_t)steps * batch * (size_t)r->classes, sizeof *r->logit);
        r->label = rc_alloc_zeroed(NULL, (size_t)steps * batch, sizeof *r->label);
    }
    if (!r->loss || !r->first || !r->last || (head && !r->head) || (chosen && (!r->logit || !r->label)))
        return RC_OUT_OF_MEMORY;
    for (int step = 0; step < steps; step++) {
        size_t images = (size_t)step * batch;
        RC_TRY(rc_step_world_run(w, step, 1));
        be->read_real(be, r->loss + (size_t)step * RC_LOSS_COUNT, rc_step_world_losses(w), RC_LOSS_COUNT);
        be->read_real(be, step == 0 ? r->first : r->last, gradient, r->net->params);
        if (step == 0 && head)
            be->read_real(be, r->head, head, r->heads);
        if (chosen) {
            be->read_real(be, r->logit + images * (size_t)r->classes, logits, batch * (size_t)r->classes);
            be->read_bytes(be, r->label + images, labels, batch * sizeof *labels);
        }
    }
    return be->sync(be);
}

/* ---- comparing -------------------------------------------------------------------------------------------------- */

/* Whether an error takes the place of the worst so far: NaN does, and keeps it. */
static bool worse(double error, double worst)
{
    return isnan(error) || error > worst;
}

/* |a - b| / |b| and the cosine of the angle between them; vectors of zeros are equal. */
static void compare(const float *a, const float *b, size_t count, double *distance, double *cosine)
{
    double squares_a = 0, squares_b = 0, product = 0, apart = 0;
    for (size_t i = 0; i < count; i++) {
        double difference = (double)a[i] - (double)b[i];
        squares_a += (double)a[i] * (double)a[i];
        squares_b += (double)b[i] * (double)b[i];
        product += (double)a[i] * (double)b[i];
        apart += difference * difference;
    }
    *distance = apart == 0 ? 0 : sqrt(apart / squares_b); /* NaN stays NaN */
    *cosine = squares_a > 0 && squares_b > 0 ? product / sqrt(squares_a * squares_b) : squares_a == squares_b;
}

static void add_tensor(rc_step_difference *d, const char *name, const float *x, const float *y, size_t count)
{
    rc_tensor_difference *t = &d->tensor[d->tensors];
    double squares = 0;
    for (size_t i = 0; i < count; i++)
        squares += (double)y[i] * (double)y[i];
    t->norm = sqrt(squares);
    snprintf(t->name, sizeof t->name, "%s", name);
    compare(x, y, count, &t->distance, &t->cosine);
    if (worse(t->distance, d->tensor[d->worst].distance))
        d->worst = d->tensors;
    d->tensors++;
}

/* Tensor by tensor: in a smooth start normalisations and the head too, whose gradients are sums that may cancel to
 * rounding in a published start. A bias counts with the weights of its layer, beta with gamma: their gradients may
 * cancel in any start. */
static rc_status compare_gradients(const recorded *a, const recorded *b, rc_step_start start, rc_step_difference *d)
{
    bool smooth = start == RC_START_SMOOTH;
    compare(a->first, b->first, b->net->params, &d->gradient, &d->cosine);
    d->tensor = rc_alloc_zeroed(NULL, 2 * (size_t)b->net->layers + 1, sizeof *d->tensor);
    if (!d->tensor)
        return RC_OUT_OF_MEMORY;
    for (int i = 0; i < b->net->layers; i++) {
        const rc_layer *layer = &b->net->layer[i];
        size_t channels = (size_t)layer->c_out, biases = layer->bias_at == SIZE_MAX ? 0 : rc_layer_biases(layer);
        if (layer->weights)
            add_tensor(d, layer->name, a->first + layer->weight, b->first + layer->weight,
                       layer->weights + (smooth ? biases : 0));
        if (smooth && layer->gamma != SIZE_MAX) /* beta lies behind it */
            add_tensor(d, layer->bn_name, a->first + layer->gamma, b->first + layer->gamma, 2 * channels);
    }
    if (smooth && b->heads)
        add_tensor(d, "head", a->head, b->head, b->heads);
    return RC_OK;
}

/* How far apart two logits of an image are, by the greatest of them. */
static double logit_gap(const float *logit, int classes, int32_t from, int32_t to)
{
    double greatest = 0;
    if (from < 0 || from >= classes || to < 0 || to >= classes)
        return INFINITY;
    for (int k = 0; k < classes; k++)
        greatest = fabs((double)logit[k]) > greatest ? fabs((double)logit[k]) : greatest;
    return ((double)logit[from] - (double)logit[to]) / greatest;
}

/* Labels of one step that differ, and the widest gap between the logits that have changed places. */
static int compare_labels(const recorded *a, const recorded *b, int step, int batch, double *gap)
{
    int differ = 0;
    for (int image = 0; b->label && image < batch; image++) {
        size_t i = (size_t)step * (size_t)batch + (size_t)image;
        if (a->label[i] == b->label[i])
            continue;
        double apart = logit_gap(b->logit + i * (size_t)b->classes, b->classes, b->label[i], a->label[i]);
        *gap = worse(apart, *gap) ? apart : *gap;
        differ++;
    }
    return differ;
}

static double loss_error(int loss, double x, double y)
{
    double size = loss == RC_LOSS_DIVERSITY ? 1 : fabs(y); /* 1 - entropy / log K: a difference of two numbers near 1 */
    return x == y ? 0 : fabs(x - y) / size;
}

/* The worst loss of one step; *loss is which. */
static double compare_step(const recorded *a, const recorded *b, int step, bool same_labels, int *loss)
{
    double worst = 0;
    for (int i = 0; i < RC_LOSS_COUNT; i++) {
        size_t at = (size_t)step * RC_LOSS_COUNT + (size_t)i;
        double error = loss_error(i, (double)a->loss[at], (double)b->loss[at]);
        if (worse(error, worst) && (i != RC_LOSS_DCE || same_labels)) {
            worst = error;
            *loss = i;
        }
    }
    return worst;
}

static rc_status compare_losses(const recorded *a, const recorded *b, const rc_step_run *run, rc_step_difference *d)
{
    double worst = 0, unjudged = 0;
    d->after = rc_alloc_zeroed(NULL, (size_t)run->steps, sizeof *d->after);
    if (!d->after)
        return RC_OUT_OF_MEMORY;
    for (int step = 0; step < run->steps; step++) {
        bool judged = step < RC_STEP_CHECKED;
        int loss = 0, differ = compare_labels(a, b, step, run->batch, judged ? &d->label : &unjudged);
        double error = compare_step(a, b, step, differ == 0, &loss);
        if (worse(error, worst)) {
            worst = error;
            d->growth_loss = judged ? loss : d->growth_loss;
        }
        d->after[step] = worst;
        d->labels += judged ? differ : 0;
        d->growth = judged ? worst : d->growth;
        d->loss = step == 0 ? worst : d->loss;
    }
    return RC_OK;
}

void rc_step_difference_free(rc_step_difference *d)
{
    rc_free(NULL, d->tensor);
    rc_free(NULL, d->after);
    *d = (rc_step_difference){0};
}

static rc_status record_on(rc_backend *be, const rc_step_run *run, rc_step_world **w, recorded *r)
{
    RC_TRY(rc_step_world_create(be, run->name, run->start, run->batch, run->size, run->seed, w));
    return record(*w, run->steps, r);
}

rc_status rc_compare_steps(rc_backend *test, rc_backend *other, const rc_step_run *run, rc_step_difference *d)
{
    *d = (rc_step_difference){0};
    rc_step_world *world[3] = {NULL, NULL, NULL}; /* test, other, test again */
    recorded result[3] = {{0}, {0}, {0}};
    rc_status status = RC_OK;
    for (int i = 0; i < 3 && status == RC_OK; i++)
        status = record_on(i == 1 ? other : test, run, &world[i], &result[i]);
    if (status == RC_OK)
        status = compare_losses(&result[0], &result[1], run, d);
    if (status == RC_OK)
        status = compare_gradients(&result[0], &result[1], run->start, d);
    if (status == RC_OK) {
        size_t bytes = result[0].net->params * sizeof(float);
        d->same_bits = memcmp(result[0].first, result[2].first, bytes) == 0 &&
                       memcmp(result[0].last, result[2].last, bytes) == 0;
    }
    for (int i = 0; i < 3; i++) {
        free_recorded(&result[i]);
        rc_step_world_destroy(world[i]);
    }
    return status;
}
