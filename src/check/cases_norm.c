/* Cases of batch normalisation, copies, materialisation and skips. */
#include "check/case.h"

#include <string.h>

typedef struct norm_case {
    rc_bn bn;
    rc_lazy x, y;
    rc_lazy_gradient dy;
    bool apply, add, train;
    rc_sums sums;
    rc_back_sums back_sums;
    int gamma, beta, center, running_mean, running_var;
    int partial, mean, var, scale, shift, istd;
    int dmean, dvar, batch_mean, dx, draw;
} norm_case;

typedef struct shape {
    int n, h, w, c;
} shape;

static shape draw_shape(rc_case *c)
{
    shape s;
    s.n = 1 + (int)rc_case_below(c, 6);
    s.h = RC_CHOOSE(c, 1, 3, 4, 5, 7, 8, 16, 28);
    s.w = rc_case_chance(c, 70) ? s.h : RC_CHOOSE(c, 1, 2, 5, 9);
    s.c = RC_CHOOSE(c, 1, 3, 10, 17, 16, 32, 64);
    if (rc_case_chance(c, 15)) /* a batch whose sums are worth sharing out */
        s = (shape){RC_CHOOSE(c, 32, 40), RC_CHOOSE(c, 1, 3), 2, RC_CHOOSE(c, 30, 32, 64)};
    rc_case_say(c, "(%d,%d,%d,%d)", s.n, s.h, s.w, s.c);
    return s;
}

/* Enough samples for a variance. */
static shape draw_normalisable(rc_case *c)
{
    shape s = draw_shape(c);
    if (s.n * s.h * s.w < 8)
        s.n = 8;
    return s;
}

static rc_groups draw_groups(rc_case *c, int n)
{
    if (n >= 32 && rc_case_chance(c, 40))
        return (rc_groups){2, {16, n}};
    return rc_case_groups(c, n);
}

static void draw_parameters(rc_case *c, norm_case *p, int channels)
{
    p->bn = (rc_bn){rc_case_chance(c, 30) ? 0.8f : 1e-5f, rc_case_chance(c, 30) ? 0.3f : 0.1f};
    p->gamma = p->beta = -1;
    if (rc_case_chance(c, 70)) {
        p->gamma = rc_case_parameter(c, "gamma", RC_IN, 1, channels, 1);
        p->beta = rc_case_parameter(c, "beta", RC_IN, 1, channels, 1);
    }
}

static int channel_output(rc_case *c, const char *name, int groups, int channels, double terms)
{
    int buffer = rc_case_sum(c, rc_case_channel(c, name, RC_OUT, groups, channels), terms);
    c->buffer[buffer].stored_act = true;
    c->buffer[buffer].magnitude = 1;
    return buffer;
}

/* ---- statistics ----------------------------------------------------------------------------------------------- */

/* x has a mean of its own in every channel, which center (the running mean) knows about. */
static void draw_centered(rc_case *c, norm_case *p, shape s, bool updated)
{
    rc_groups groups = draw_groups(c, s.n);
    p->x = rc_case_plain(c, "x", RC_IN, s.n, s.h, s.w, s.c, groups);
    while (!rc_lazy_has_statistics(&p->x)) { /* small groups: one for all */
        p->x.groups = 1;
        p->x.group_end[0] = s.n;
    }
    rc_case_say(c, " groups %d", p->x.groups);
    p->y = p->x;
    p->y.raw = rc_case_act(c, "y", RC_OUT, s.n, s.h, s.w, s.c);
    p->partial = rc_case_partial(c, "partial", s.n, s.h, s.w, s.c);
    p->running_mean = rc_case_parameter(c, "running_mean", updated ? RC_IN_OUT : RC_IN, 1, s.c, 2);
    c->buffer[p->running_mean].magnitude = 1;
    rc_case_sum(c, p->running_mean, (double)s.n * s.h * s.w);
    p->center = rc_case_chance(c, 75) ? p->running_mean : -1;
    const rc_buffer *x = &c->buffer[p->x.raw];
    for (size_t i = 0; c->status == RC_OK && p->center >= 0 && i < x->count; i++)
        rc_case_set(c, p->x.raw, i, x->host[i] + 0.9 * c->buffer[p->center].host[i % (size_t)s.c]);
}

static rc_tensor take_sums(rc_run *r, const norm_case *p)
{
    rc_tensor x = rc_run_tensor(r, &p->x), y = rc_run_tensor(r, &p->y);
    rc_epilogue epilogue = {rc_at(r, p->partial), rc_at(r, p->center), false};
    r->be->copy_forward(r->be, &x, &y, &epilogue);
    return y;
}

static void draw_train(rc_case *c)
{
    norm_case *p = rc_case_parameters(c);
    shape s = draw_normalisable(c);
    draw_parameters(c, p, s.c);
    bool updated = rc_case_chance(c, 75);
    draw_centered(c, p, s, updated);
    p->running_var = -1;
    double samples = (double)s.n * s.h * s.w;
    if (updated) {
        p->running_var = rc_case_sum(c, rc_case_parameter(c, "running_var", RC_IN_OUT, 1, s.c, 1), samples);
        rc_case_fill(c, p->running_var, 1, 0.1);
    }
    p->train = updated;
    p->scale = channel_output(c, "scale", p->y.groups, s.c, samples);
    p->shift = channel_output(c, "shift", p->y.groups, s.c, samples);
    p->mean = channel_output(c, "mean", p->y.groups, s.c, samples);
    p->istd = channel_output(c, "istd", p->y.groups, s.c, samples);
}

static rc_bn_forward memory_of(const rc_run *r, const norm_case *p)
{
    return (rc_bn_forward){.gamma = rc_at(r, p->gamma),
                           .beta = rc_at(r, p->beta),
                           .running_mean = rc_at(r, p->running_mean),
                           .running_var = rc_at(r, p->running_var),
                           .scale = rc_at(r, p->scale),
                           .shift = rc_at(r, p->shift),
                           .mean = rc_at(r, p->mean),
                           .istd = rc_at(r, p->istd)};
}

static void run_train(rc_run *r)
{
    const norm_case *p = rc_run_parameters(r);
    rc_tensor y = take_sums(r, p);
    rc_bn_forward f = memory_of(r, p);
    f.partial = rc_at(r, p->partial);
    f.center = rc_at(r, p->center);
    if (!p->train)
        f.running_mean = NULL;
    r->be->bn_train(r->be, &p->bn, &y, &f);
}

static void draw_eval(rc_case *c)
{
    norm_case *p = rc_case_parameters(c);
    shape s = draw_shape(c);
    if (c->number == 0) /* a wide layer, as published nets have */
        s = (shape){2, 1, 1, 1000};
    draw_parameters(c, p, s.c);
    p->y = rc_case_plain(c, "y", RC_IN, s.n, s.h, s.w, s.c, draw_groups(c, s.n));
    p->running_mean = rc_case_parameter(c, "running_mean", RC_IN, 1, s.c, 1);
    p->running_var = rc_case_parameter(c, "running_var", RC_IN, 1, s.c, 0);
    for (int i = 0; i < s.c; i++)
        rc_case_set(c, p->running_var, (size_t)i, rc_case_uniform(c, 0.2, 3));
    p->scale = channel_output(c, "scale", p->y.groups, s.c, 1);
    p->shift = channel_output(c, "shift", p->y.groups, s.c, 1);
    p->mean = channel_output(c, "mean", p->y.groups, s.c, 1);
    p->istd = channel_output(c, "istd", p->y.groups, s.c, 1);
}

static void run_eval(rc_run *r)
{
    const norm_case *p = rc_run_parameters(r);
    rc_tensor y = rc_run_tensor(r, &p->y);
    const rc_bn_forward f = memory_of(r, p);
    r->be->bn_eval(r->be, &p->bn, &y, &f);
}

static void draw_statistics(rc_case *c)
{
    norm_case *p = rc_case_parameters(c);
    shape s = draw_normalisable(c);
    draw_centered(c, p, s, false);
    p->mean = channel_output(c, "mean", 1, s.c, (double)s.n * s.h * s.w);
    p->var = channel_output(c, "var", 1, s.c, (double)s.n * s.h * s.w);
}

static void run_statistics(rc_run *r)
{
    const norm_case *p = rc_run_parameters(r);
    rc_tensor y = take_sums(r, p);
    r->be->bn_statistics(r->be, &y, rc_at(r, p->partial), rc_at(r, p->center), rc_at(r, p->mean), rc_at(r, p->var));
}

/* ---- backward ------------------------------------------------------------------------------------------------- */

/* train; eval with or without sums; either with gradients of the statistics. */
static void draw_backward(rc_case *c)
{
    norm_case *p = rc_case_parameters(c);
    shape s = draw_shape(c);
    bool statistics = rc_case_chance(c, 40);
    rc_groups groups = {1, {s.n}};
    if (!statistics)
        groups = draw_groups(c, s.n);
    p->dy = (rc_lazy_gradient){.a = -1, .b = -1, .c = -1};
    p->dy.y = rc_case_lazy(c, "y", s.n, s.h, s.w, s.c, groups, RC_LAZY_BN, false);
    p->dy.y.act = (rc_act)RC_CHOOSE(c, RC_ACT_NONE, RC_ACT_TANH, RC_ACT_SIGMOID);
    p->dy.g = rc_case_act(c, "g", RC_IN, s.n, s.h, s.w, s.c);
    p->train = !statistics && rc_case_chance(c, 70);
    p->back_sums = rc_case_back_sums(c, &p->dy.y, 0);
    if (!p->train && rc_case_chance(c, 50)) {
        c->buffer[p->back_sums.dgamma].role = c->buffer[p->back_sums.dbeta].role = RC_SCRATCH;
        p->back_sums.partial = p->back_sums.dgamma = p->back_sums.dbeta = -1;
    }
    p->dmean = p->dvar = p->batch_mean = -1;
    if (statistics) {
        p->dmean = rc_case_channel(c, "dmean", RC_IN, 1, s.c);
        p->dvar = rc_case_channel(c, "dvar", RC_IN, 1, s.c);
        p->batch_mean = rc_case_channel(c, "batch_mean", RC_IN, 1, s.c);
    }
    rc_case_say(c, p->train ? " train" : " eval");
    rc_case_say(c, "%s%s", p->back_sums.partial < 0 ? " no sums" : "", statistics ? " statistics" : "");
}

static void run_backward(rc_run *r)
{
    const norm_case *p = rc_run_parameters(r);
    const rc_back_sums *s = &p->back_sums;
    rc_tensor y;
    rc_grad dy = rc_run_gradient(r, &p->dy, &y);
    if (s->partial >= 0)
        r->be->bn_backward_sums(r->be, &dy, rc_at(r, s->partial));
    const rc_bn_backward back = {.partial = rc_at(r, s->partial),
                                 .dmean = rc_at(r, p->dmean),
                                 .dvar = rc_at(r, p->dvar),
                                 .batch_mean = rc_at(r, p->batch_mean),
                                 .dgamma = rc_at(r, s->dgamma),
                                 .dbeta = rc_at(r, s->dbeta),
                                 .a = rc_at(r, s->a),
                                 .b = rc_at(r, s->b),
                                 .c = rc_at(r, s->c)};
    r->be->bn_backward(r->be, &y, p->train, &back);
}

/* Lazy in every way, sums through bn_backward. */
static void draw_backward_sums(rc_case *c)
{
    norm_case *p = rc_case_parameters(c);
    shape s = draw_shape(c);
    p->dy = (rc_lazy_gradient){.a = -1, .b = -1, .c = -1};
    p->dy.y = rc_case_lazy(c, "y", s.n, s.h, s.w, s.c, rc_case_groups(c, s.n),
                           RC_LAZY_BN | RC_LAZY_SKIP | RC_LAZY_ACT | (rc_case_chance(c, 50) ? RC_LAZY_STORED : 0),
                           false);
    p->dy.g = rc_case_act(c, "g", RC_IN, s.n, s.h, s.w, s.c);
    p->back_sums = rc_case_back_sums(c, &p->dy.y, 0);
}

static void run_backward_sums(rc_run *r)
{
    const norm_case *p = rc_run_parameters(r);
    rc_tensor y;
    rc_grad dy = rc_run_gradient(r, &p->dy, &y);
    r->be->bn_backward_sums(r->be, &dy, rc_at(r, p->back_sums.partial));
    rc_run_back_sums(r, &p->back_sums, &y);
}

/* ---- copies --------------------------------------------------------------------------------------------------- */

static void draw_copy_forward(rc_case *c)
{
    norm_case *p = rc_case_parameters(c);
    shape s = draw_shape(c);
    rc_groups groups = rc_case_groups(c, s.n);
    p->sums = rc_case_no_sums();
    p->x = rc_case_lazy(c, "x", s.n, s.h, s.w, s.c, groups,
                        RC_LAZY_BN | RC_LAZY_SKIP | RC_LAZY_ACT | RC_LAZY_VALUE | RC_LAZY_STORED, true);
    p->apply = rc_case_chance(c, 30);
    p->y = rc_case_lazy(c, "y", s.n, s.h, s.w, s.c, groups,
                        RC_LAZY_OUTPUT | (p->apply ? RC_LAZY_BN | RC_LAZY_SKIP | RC_LAZY_ACT : 0), true);
    if (!p->apply && rc_lazy_has_statistics(&p->y))
        p->sums = rc_case_sums(c, &p->y);
}

static void run_copy_forward(rc_run *r)
{
    const norm_case *p = rc_run_parameters(r);
    rc_tensor x = rc_run_tensor(r, &p->x), y = rc_run_tensor(r, &p->y);
    rc_epilogue epilogue = {rc_at(r, p->sums.partial), rc_at(r, p->sums.center), p->apply};
    r->be->copy_forward(r->be, &x, &y, &epilogue);
    rc_run_expect(r, p->x.value < 0 || x.stored, "has not marked the value of x as stored");
    rc_run_sums(r, &p->sums, &y);
}

static void draw_copy_backward(rc_case *c)
{
    norm_case *p = rc_case_parameters(c);
    shape s = draw_shape(c);
    rc_groups groups = rc_case_groups(c, s.n);
    p->back_sums = rc_case_no_back_sums();
    p->dy = rc_case_lazy_gradient(c, s.n, s.h, s.w, s.c, groups);
    bool sums = rc_case_chance(c, 60);
    p->x = rc_case_lazy(c, "x", s.n, s.h, s.w, s.c, groups, RC_LAZY_BN | RC_LAZY_SKIP | RC_LAZY_ACT | RC_LAZY_STORED,
                        !sums);
    p->add = rc_case_chance(c, 40);
    p->dx = rc_case_act(c, "dx", p->add ? RC_IN_OUT : RC_OUT, s.n, s.h, s.w, s.c);
    if (sums)
        p->back_sums = rc_case_back_sums(c, &p->x, 0);
}

static void run_copy_backward(rc_run *r)
{
    const norm_case *p = rc_run_parameters(r);
    rc_tensor y, x = rc_run_tensor(r, &p->x);
    rc_grad dy = rc_run_gradient(r, &p->dy, &y);
    rc_back_epilogue epilogue = {.x = &x, .partial = rc_at(r, p->back_sums.partial), .add = p->add};
    r->be->copy_backward(r->be, &dy, rc_at(r, p->dx), &epilogue);
    rc_run_back_sums(r, &p->back_sums, &x);
}

/* ---- values and skips ----------------------------------------------------------------------------------------- */

static void draw_materialise(rc_case *c)
{
    norm_case *p = rc_case_parameters(c);
    shape s = draw_shape(c);
    int features = RC_LAZY_ACT | RC_LAZY_VALUE;
    features |= rc_case_chance(c, 70) ? RC_LAZY_BN : 0;
    features |= rc_case_chance(c, 70) ? RC_LAZY_SKIP : 0;
    p->x = rc_case_lazy(c, "x", s.n, s.h, s.w, s.c, rc_case_groups(c, s.n), features, false);
}

static void run_materialise(rc_run *r)
{
    const norm_case *p = rc_run_parameters(r);
    rc_tensor x = rc_run_tensor(r, &p->x);
    r->be->materialise(r->be, &x);
    rc_run_expect(r, x.stored, "has not marked the value as stored");
}

static void draw_skip_backward(rc_case *c)
{
    norm_case *p = rc_case_parameters(c);
    shape s = draw_shape(c);
    if (c->number % 3 == 1) { /* a skip of 18, placed at 9: a vector of it lies in two, which are not the first */
        s.c = 36;
        rc_case_say(c, " of %d channels", s.c);
    }
    rc_groups groups = rc_case_groups(c, s.n);
    p->back_sums = rc_case_no_back_sums();
    p->dy = (rc_lazy_gradient){.a = -1, .b = -1, .c = -1};
    p->dy.y = rc_case_lazy(c, "y", s.n, s.h, s.w, s.c, groups,
                           RC_LAZY_SKIP | RC_LAZY_ACT | (rc_case_chance(c, 60) ? RC_LAZY_BN : 0) |
                               (rc_case_chance(c, 50) ? RC_LAZY_STORED : 0),
                           false);
    p->dy.g = rc_case_act(c, "g", RC_IN, s.n, s.h, s.w, s.c);
    const rc_lazy *y = &p->dy.y;
    bool sums = rc_case_chance(c, 60);
    p->x = rc_case_lazy(c, "x", s.n, y->skip_h, y->skip_w, y->skip_c, groups, RC_LAZY_BN | RC_LAZY_ACT | RC_LAZY_STORED,
                        !sums);
    p->add = rc_case_chance(c, 50);
    p->dx = rc_case_act(c, "dskip", p->add ? RC_IN_OUT : RC_OUT, s.n, y->skip_h, y->skip_w, y->skip_c);
    if (sums)
        p->back_sums = rc_case_back_sums(c, &p->x, 0);
}

static void run_skip_backward(rc_run *r)
{
    const norm_case *p = rc_run_parameters(r);
    rc_tensor y, x = rc_run_tensor(r, &p->x);
    rc_grad dy = rc_run_gradient(r, &p->dy, &y);
    rc_back_epilogue epilogue = {.x = &x, .partial = rc_at(r, p->back_sums.partial), .add = p->add};
    r->be->skip_backward(r->be, &dy, rc_at(r, p->dx), &epilogue);
    rc_run_back_sums(r, &p->back_sums, &x);
}

/* The gradient of a sum goes on to its skip and is finished, as a pass has it: a backend may do both at once. */
static void draw_sum_backward(rc_case *c)
{
    norm_case *p = rc_case_parameters(c);
    shape s = draw_shape(c);
    rc_groups groups = rc_case_groups(c, s.n);
    p->back_sums = rc_case_no_back_sums();
    p->dy.y = rc_case_lazy(c, "y", s.n, s.h, s.w, s.c, groups,
                           RC_LAZY_SKIP | RC_LAZY_IDENTITY | RC_LAZY_BN | RC_LAZY_STORED |
                               (rc_case_chance(c, 70) ? RC_LAZY_RELU : 0),
                           false);
    p->dy.g = rc_case_act(c, "g", RC_IN, s.n, s.h, s.w, s.c);
    const rc_lazy *y = &p->dy.y;
    p->dy.a = rc_case_channel(c, "a", RC_IN, y->groups, s.c);
    p->dy.b = rc_case_channel(c, "b", RC_IN, y->groups, s.c);
    p->dy.c = rc_case_channel(c, "c", RC_IN, y->groups, s.c);
    bool sums = rc_case_chance(c, 60);
    p->x = rc_case_lazy(c, "x", s.n, y->skip_h, y->skip_w, y->skip_c, groups, RC_LAZY_BN | RC_LAZY_ACT | RC_LAZY_STORED,
                        !sums);
    p->add = rc_case_chance(c, 30);
    p->dx = rc_case_act(c, "dskip", p->add ? RC_IN_OUT : RC_OUT, s.n, y->skip_h, y->skip_w, y->skip_c);
    p->draw = rc_case_act(c, "draw", RC_OUT, s.n, s.h, s.w, s.c);
    if (sums)
        p->back_sums = rc_case_back_sums(c, &p->x, 0);
}

/* Of dL/draw. */
static rc_tensor plain_shape(const rc_tensor *y)
{
    rc_tensor plain = {.n = y->n, .h = y->h, .w = y->w, .c = y->c, .groups = y->groups};
    memcpy(plain.group_end, y->group_end, sizeof y->group_end);
    return plain;
}

static void run_sum_backward(rc_run *r)
{
    const norm_case *p = rc_run_parameters(r);
    rc_tensor y, x = rc_run_tensor(r, &p->x);
    rc_grad dy = rc_run_gradient(r, &p->dy, &y);
    rc_tensor of_draw = plain_shape(&y);
    rc_back_epilogue epilogue = {.x = &x, .partial = rc_at(r, p->back_sums.partial), .add = p->add};
    rc_back_epilogue overwrite = {.x = &of_draw};
    r->be->skip_backward(r->be, &dy, rc_at(r, p->dx), &epilogue);
    r->be->copy_backward(r->be, &dy, rc_at(r, p->draw), &overwrite);
    rc_run_back_sums(r, &p->back_sums, &x);
}

/* A normalisation passes its gradient on to an activation before it, which is finished in its place, as the last layers
 * of a generator have it: a backend may do both at once. */
static void draw_twice_backward(rc_case *c)
{
    norm_case *p = rc_case_parameters(c);
    shape s = draw_shape(c);
    rc_groups groups = rc_case_groups(c, s.n);
    p->dy.y = rc_case_lazy(c, "y", s.n, s.h, s.w, s.c, groups,
                           RC_LAZY_BN | (rc_case_chance(c, 30) ? RC_LAZY_RELU | RC_LAZY_STORED : 0), false);
    p->dy.g = rc_case_act(c, "g", RC_IN, s.n, s.h, s.w, s.c);
    p->dy.a = rc_case_channel(c, "a", RC_IN, groups.count, s.c);
    p->dy.b = rc_case_channel(c, "b", RC_IN, groups.count, s.c);
    p->dy.c = rc_case_channel(c, "c", RC_IN, groups.count, s.c);
    p->x = rc_case_lazy(c, "x", s.n, s.h, s.w, s.c, groups, RC_LAZY_ACT | (rc_case_chance(c, 50) ? RC_LAZY_STORED : 0),
                        false);
    p->dx = rc_case_act(c, "dx", RC_OUT, s.n, s.h, s.w, s.c);
}

static void run_twice_backward(rc_run *r)
{
    const norm_case *p = rc_run_parameters(r);
    rc_tensor y, x = rc_run_tensor(r, &p->x), of_draw = plain_shape(&x);
    rc_grad dy = rc_run_gradient(r, &p->dy, &y), dx = {.y = &x, .g = rc_at(r, p->dx)};
    rc_back_epilogue on = {.x = &x}, overwrite = {.x = &of_draw};
    r->be->copy_backward(r->be, &dy, dx.g, &on);
    r->be->copy_backward(r->be, &dx, dx.g, &overwrite);
}

/* ---- bench: a residual sum of a classifier's first stage -------------------------------------------------------- */

/* Its first layer, if it is a classifier. */
static const rc_layer *bench_layer(rc_case *c, int index)
{
    const rc_layer *layer = &c->net->layer[0];
    if (index > 0 || layer->kind != RC_LAYER_CONV)
        return NULL;
    c->bytes = 4.0 * layer->h * layer->w * layer->c_out;
    return layer;
}

static void bench_text(rc_case *c, const rc_layer *layer)
{
    c->text[0] = 0;
    rc_case_say(c, "%d @%d", layer->c_out, layer->h);
}

static rc_lazy bench_tensor(rc_case *c, const rc_layer *layer, int n, int features)
{
    rc_lazy t = rc_case_lazy(c, "x", n, layer->h, layer->w, layer->c_out, (rc_groups){1, {n}},
                             features | RC_LAZY_IDENTITY, false);
    bench_text(c, layer);
    return t;
}

static bool bench_materialise(rc_case *c, int index, int n)
{
    norm_case *p = rc_case_parameters(c);
    const rc_layer *layer = bench_layer(c, index);
    if (!layer)
        return false;
    p->x = bench_tensor(c, layer, n, RC_LAZY_BN | RC_LAZY_SKIP | RC_LAZY_VALUE);
    c->bytes *= 3.0 * n; /* raw and skip read, value written */
    return true;
}

static bool bench_backward_sums(rc_case *c, int index, int n)
{
    norm_case *p = rc_case_parameters(c);
    const rc_layer *layer = bench_layer(c, index);
    if (!layer)
        return false;
    p->dy = (rc_lazy_gradient){.a = -1, .b = -1, .c = -1};
    p->dy.y = bench_tensor(c, layer, n, RC_LAZY_BN);
    p->dy.g = rc_case_act(c, "g", RC_IN, n, layer->h, layer->w, layer->c_out);
    p->back_sums = rc_case_back_sums(c, &p->dy.y, 0);
    bench_text(c, layer);
    c->bytes *= 2.0 * n; /* raw and g read */
    return true;
}

static bool bench_skip_backward(rc_case *c, int index, int n)
{
    norm_case *p = rc_case_parameters(c);
    const rc_layer *layer = bench_layer(c, index);
    if (!layer)
        return false;
    p->back_sums = rc_case_no_back_sums();
    p->dy = (rc_lazy_gradient){.a = -1, .b = -1, .c = -1};
    p->dy.y = bench_tensor(c, layer, n, RC_LAZY_SKIP);
    p->dy.g = rc_case_act(c, "g", RC_IN, n, layer->h, layer->w, layer->c_out);
    p->x = rc_case_plain(c, "x", RC_IN, n, layer->h, layer->w, layer->c_out, (rc_groups){1, {n}});
    p->add = true;
    p->dx = rc_case_act(c, "dskip", RC_IN_OUT, n, layer->h, layer->w, layer->c_out);
    c->bytes *= 3.0 * n; /* g and dskip read, dskip written */
    return true;
}

static const rc_operation operations[] = {
    {"bn_train", "bn_train", 30, 200, sizeof(norm_case), draw_train, NULL, run_train, NULL},
    {"bn_eval", "bn_eval", 10, 100, sizeof(norm_case), draw_eval, NULL, run_eval, NULL},
    {"bn_statistics", "bn_statistics", 20, 100, sizeof(norm_case), draw_statistics, NULL, run_statistics, NULL},
    {"bn_backward_sums", "bn_backward_sums", 30, 200, sizeof(norm_case), draw_backward_sums, NULL, run_backward_sums,
     bench_backward_sums},
    {"bn_backward", "bn_backward", 30, 200, sizeof(norm_case), draw_backward, NULL, run_backward, NULL},
    {"copy_forward", "copy_forward", 30, 200, sizeof(norm_case), draw_copy_forward, NULL, run_copy_forward, NULL},
    {"copy_backward", "copy_backward", 30, 200, sizeof(norm_case), draw_copy_backward, NULL, run_copy_backward, NULL},
    {"materialise", "materialise", 30, 200, sizeof(norm_case), draw_materialise, NULL, run_materialise,
     bench_materialise},
    {"skip_backward", "skip_backward", 30, 200, sizeof(norm_case), draw_skip_backward, NULL, run_skip_backward,
     bench_skip_backward},
    {"copy_backward_twice", "", 20, 200, sizeof(norm_case), draw_twice_backward, NULL, run_twice_backward, NULL},
    {"skip_and_copy_backward", "", 20, 200, sizeof(norm_case), draw_sum_backward, NULL, run_sum_backward, NULL},
};
const rc_operation_list rc_cases_norm = {operations, sizeof operations / sizeof *operations};
