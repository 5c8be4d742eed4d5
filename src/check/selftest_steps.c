#include "check/selftest_steps.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "check/step_world.h"

rc_step_difference rc_step_tolerance(const rc_backend *test)
{
    if (test->act_bytes == 2)
        return (rc_step_difference){.loss = 0x1p-6, .growth = 0.05, .gradient = 0.1, .cosine = 0.995};
    return (rc_step_difference){.loss = 1e-5, .growth = 1e-3, .gradient = 1e-4, .cosine = 0.99999};
}

/* What both have computed: losses of every step, gradients of the first and the last one. */
typedef struct recorded {
    float *loss;          /* (steps, RC_LOSS_COUNT) */
    float *first, *last;  /* (params) */
    const rc_net *net;    /* of the world, which must be there still */
} recorded;

static void free_recorded(recorded *r)
{
    rc_free(NULL, r->loss);
    rc_free(NULL, r->first);
    rc_free(NULL, r->last);
    *r = (recorded){0};
}

static rc_status record(rc_step_world *w, int steps, recorded *r)
{
    rc_backend *be = w->be;
    const void *gradient = rc_step_world_gradient(w, &r->net);
    r->loss = rc_alloc_zeroed(NULL, (size_t)steps * RC_LOSS_COUNT, sizeof *r->loss);
    r->first = rc_alloc_zeroed(NULL, r->net->params, sizeof *r->first);
    r->last = rc_alloc_zeroed(NULL, r->net->params, sizeof *r->last);
    if (!r->loss || !r->first || !r->last)
        return RC_OUT_OF_MEMORY;
    for (int step = 0; step < steps; step++) {
        RC_TRY(rc_step_world_run(w, step, 1));
        be->read_real(be, r->loss + (size_t)step * RC_LOSS_COUNT, rc_step_world_losses(w), RC_LOSS_COUNT);
        be->read_real(be, step == 0 ? r->first : r->last, gradient, r->net->params);
    }
    return be->sync(be);
}

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
    *distance = apart > 0 ? sqrt(apart / squares_b) : 0;
    *cosine = squares_a > 0 && squares_b > 0 ? product / sqrt(squares_a * squares_b) : squares_a == squares_b;
}

static void compare_tensors(const recorded *a, const recorded *b, rc_step_difference *d)
{
    for (int i = 0; i < b->net->layers; i++) {
        const rc_layer *layer = &b->net->layer[i];
        double distance, cosine;
        if (layer->weights == 0)
            continue;
        compare(a->first + layer->weight, b->first + layer->weight, layer->weights, &distance, &cosine);
        if (worse(distance, d->tensor)) {
            d->tensor = distance;
            snprintf(d->worst, sizeof d->worst, "%s", layer->name);
        }
    }
}

static void compare_recorded(const recorded *a, const recorded *b, int steps, rc_step_difference *d)
{
    for (int i = 0; i < steps * RC_LOSS_COUNT; i++) {
        double x = (double)a->loss[i], y = (double)b->loss[i], size = fabs(y);
        if (i % RC_LOSS_COUNT == RC_LOSS_DIVERSITY) /* 1 - entropy / log K: a difference of two numbers near 1 */
            size = 1;
        double error = x == y ? 0 : fabs(x - y) / size;
        if (worse(error, d->growth))
            d->growth = error;
        if (i < RC_LOSS_COUNT)
            d->loss = d->growth;
    }
    compare(a->first, b->first, b->net->params, &d->gradient, &d->cosine);
    compare_tensors(a, b, d);
}

static rc_status record_on(rc_backend *be, const char *name, int batch, int size, int steps, rc_step_world **w,
                           recorded *r)
{
    RC_TRY(rc_step_world_create(be, name, batch, size, w));
    return record(*w, steps, r);
}

rc_status rc_compare_steps(rc_backend *test, rc_backend *other, const char *name, int batch, int size, int steps,
                           rc_step_difference *d)
{
    *d = (rc_step_difference){0};
    rc_step_world *world[3] = {NULL, NULL, NULL}; /* test, other, test again */
    recorded result[3] = {{0}, {0}, {0}};
    rc_status status = RC_OK;
    for (int i = 0; i < 3 && status == RC_OK; i++)
        status = record_on(i == 1 ? other : test, name, batch, size, steps, &world[i], &result[i]);
    if (status == RC_OK) {
        compare_recorded(&result[0], &result[1], steps, d);
        size_t bytes = result[0].net->params * sizeof(float);
        d->same_bits = memcmp(result[0].last, result[2].last, bytes) == 0;
    }
    for (int i = 0; i < 3; i++) {
        free_recorded(&result[i]);
        rc_step_world_destroy(world[i]);
    }
    return status;
}
