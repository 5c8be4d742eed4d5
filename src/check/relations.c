#include "check/relations.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/memory.h"

const char *rc_relation_name(rc_relation relation)
{
    static const char *const names[RC_RELATION_COUNT] = {"scaled", "permuted", "split"};
    return names[relation];
}

bool rc_relation_applies(rc_relation relation, const char *step)
{
    bool first = strcmp(step, "train_first") == 0, next = strcmp(step, "train_next") == 0;
    return relation == RC_SCALED || (relation == RC_PERMUTED && (first || next)) || (relation == RC_SPLIT && first);
}

/* ---- gradients of one step -------------------------------------------------------------------------------------- */

typedef struct gradient {
    float *value; /* (count): the net's, then the head's */
    size_t net, count;
} gradient;

/* How the step differs from the plain one. */
typedef struct change {
    float weight;  /* factor of every loss */
    bool reversed; /* the order of the images of a batch */
    bool refines;  /* one step of refinement in place of one of training: the net's gradient is then 0 */
    int batch, number;
} change;

static rc_status read_gradient(rc_step_world *w, bool refines, gradient *g)
{
    rc_backend *be = w->be;
    const rc_net *net;
    size_t heads;
    const void *of_net = rc_step_world_gradient(w, &net), *of_head = rc_step_world_head_gradient(w, &heads);
    *g = (gradient){.net = refines ? 0 : net->params};
    g->count = g->net + heads;
    g->value = rc_alloc_zeroed(NULL, g->count, sizeof *g->value);
    if (!g->value)
        return RC_OUT_OF_MEMORY;
    if (g->net)
        be->read_real(be, g->value, of_net, g->net);
    if (heads)
        be->read_real(be, g->value + g->net, of_head, heads);
    return be->sync(be);
}

static rc_status take(rc_step_world *w, const change *c, gradient *g)
{
    rc_step_world_scale(w, c->weight);
    if (c->reversed)
        RC_TRY(rc_step_world_reverse(w));
    RC_TRY(c->refines ? rc_step_world_refine(w, c->number) : rc_step_world_run(w, c->number, 1));
    return read_gradient(w, c->refines, g);
}

static rc_status gradient_of(rc_backend *be, const rc_step_run *run, const change *c, gradient *g)
{
    rc_step_world *w;
    RC_TRY(rc_step_world_create_plain(be, run->name, run->start, c->batch, run->size, run->seed, &w));
    rc_status status = take(w, c, g);
    rc_step_world_destroy(w);
    return status;
}

/* ---- relations -------------------------------------------------------------------------------------------------- */

/* |factor (a + b) - c| / |c|; b may be NULL. */
static double distance(double factor, const gradient *a, const gradient *b, const gradient *c)
{
    double apart = 0, squares = 0;
    for (size_t i = 0; i < c->count; i++) {
        double other = b ? (double)b->value[i] : 0;
        double difference = factor * ((double)a->value[i] + other) - (double)c->value[i];
        apart += difference * difference;
        squares += (double)c->value[i] * (double)c->value[i];
    }
    return sqrt(apart / squares); /* NaN for zeros, which agrees with nothing */
}

static double tolerance(const rc_backend *be, rc_relation relation, const rc_step_run *run)
{
    if (relation == RC_SCALED)
        return 0;
    if (relation == RC_PERMUTED)
        return rc_step_tolerance(be, run).gradient;
    return FLT_EPSILON * (8 + 4 * sqrt(run->batch));
}

rc_status rc_relation_check(rc_backend *be, rc_relation relation, const rc_step_run *run, double *error,
                            double *allowed)
{
    change plain = {.weight = 1, .refines = relation == RC_SPLIT, .batch = run->batch}, first = plain, second;
    gradient g[3] = {{0}, {0}, {0}};
    if (relation == RC_SCALED)
        first.weight = 2;
    first.reversed = relation == RC_PERMUTED;
    if (relation == RC_SPLIT)
        first.batch = run->batch / 2;
    second = first;
    second.number = 1;
    rc_status status = gradient_of(be, run, &plain, &g[0]);
    if (status == RC_OK)
        status = gradient_of(be, run, &first, &g[1]);
    if (status == RC_OK && relation == RC_SPLIT)
        status = gradient_of(be, run, &second, &g[2]);
    if (status == RC_OK) {
        *error = distance(1 / (relation == RC_PERMUTED ? 1.0 : 2.0), &g[1], g[2].value ? &g[2] : NULL, &g[0]);
        *allowed = tolerance(be, relation, run);
    }
    for (int i = 0; i < 3; i++)
        rc_free(NULL, g[i].value);
    return status;
}
