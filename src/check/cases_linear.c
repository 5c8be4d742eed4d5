/* Cases of the linear layer inside a net. */
#include "check/case.h"

#include <math.h>

typedef struct linear_case {
    rc_linear linear;
    int n;
    rc_lazy x, y;
    rc_lazy_gradient dy;
    int weight, bias, dx, dweight, dbias;
    bool apply, add;
    rc_sums sums;
    rc_back_sums back_sums;
} linear_case;

/* The first two cases of every list are the first layer of a small generator, noise that is there as it is. */
static bool is_first_layer(const rc_case *c)
{
    return c->number < 2;
}

static void draw_geometry(rc_case *c, linear_case *p)
{
    rc_linear *l = &p->linear;
    l->c_in = RC_CHOOSE(c, 1, 3, 10, 17, 64, 100);
    if (!c->quick && rc_case_chance(c, 10))
        l->c_in = 1000;
    l->c = RC_CHOOSE(c, 1, 3, 16, 17, 32, 128);
    l->h = RC_CHOOSE(c, 1, 1, 2, 4, 7, 8);
    l->w = rc_case_chance(c, 70) ? l->h : RC_CHOOSE(c, 1, 3, 5);
    p->n = 1 + (int)rc_case_below(c, c->quick ? 9 : 40);
    if (is_first_layer(c)) {
        *l = c->number == 0 ? (rc_linear){.c_in = 200, .c = 24, .h = 4, .w = 4}
                            : (rc_linear){.c_in = 200, .c = 3, .h = 7, .w = 7}; /* no whole vectors in a row */
        p->n = c->number == 0 ? 70 : 72;
    }
    rc_case_say(c, "(%d,%d)->(%d,%d,%d)", p->n, l->c_in, l->h, l->w, l->c);
}

static int draw_weight(rc_case *c, const rc_linear *l)
{
    return rc_case_parameter(c, "weight", RC_IN, l->c * l->h * l->w, l->c_in, 1 / sqrt((double)l->c_in));
}

static rc_status reserve(rc_run *r)
{
    const linear_case *p = rc_run_parameters(r);
    return r->be->reserve_linear(r->be, &p->linear, p->n);
}

/* ---- forward -------------------------------------------------------------------------------------------------- */

static void draw_forward(rc_case *c)
{
    linear_case *p = rc_case_parameters(c);
    draw_geometry(c, p);
    const rc_linear *l = &p->linear;
    rc_groups groups = rc_case_groups(c, p->n);
    p->bias = -1;
    p->sums = rc_case_no_sums();
    int features = is_first_layer(c) ? 0 : RC_LAZY_BN | RC_LAZY_ACT | RC_LAZY_VALUE | RC_LAZY_STORED;
    p->x = rc_case_lazy(c, "x", p->n, 1, 1, l->c_in, groups, features, true);
    p->weight = draw_weight(c, l);
    if (rc_case_chance(c, 60))
        p->bias = rc_case_parameter(c, "bias", RC_IN, 1, l->c * l->h * l->w, 0.5);
    p->apply = rc_case_chance(c, 30);
    if (p->apply)
        rc_case_say(c, " apply");
    p->y = rc_case_lazy(c, "y", p->n, l->h, l->w, l->c, groups,
                        RC_LAZY_OUTPUT | (p->apply ? RC_LAZY_BN | RC_LAZY_SKIP | RC_LAZY_ACT : 0), true);
    rc_case_sum(c, p->y.raw, l->c_in);
    if (!p->apply && rc_lazy_has_statistics(&p->y) && rc_case_chance(c, 60))
        p->sums = rc_case_sums(c, &p->y);
}

static void run_forward(rc_run *r)
{
    const linear_case *p = rc_run_parameters(r);
    rc_tensor x = rc_run_tensor(r, &p->x), y = rc_run_tensor(r, &p->y);
    rc_epilogue epilogue = {rc_at(r, p->sums.partial), rc_at(r, p->sums.center), p->apply};
    r->be->linear_forward(r->be, &p->linear, &x, rc_at(r, p->weight), rc_at(r, p->bias), &y, &epilogue);
    rc_run_expect(r, p->x.value < 0 || x.stored, "has not marked the value of x as stored");
    rc_run_sums(r, &p->sums, &y);
}

/* ---- backward ------------------------------------------------------------------------------------------------- */

static void draw_backward_data(rc_case *c)
{
    linear_case *p = rc_case_parameters(c);
    draw_geometry(c, p);
    const rc_linear *l = &p->linear;
    rc_groups groups = rc_case_groups(c, p->n);
    p->back_sums = rc_case_no_back_sums();
    p->dy = rc_case_lazy_gradient(c, p->n, l->h, l->w, l->c, groups);
    p->weight = draw_weight(c, l);
    bool sums = rc_case_chance(c, 50);
    p->x = rc_case_lazy(c, "x", p->n, 1, 1, l->c_in, groups, RC_LAZY_BN | RC_LAZY_ACT | RC_LAZY_STORED, !sums);
    p->add = rc_case_chance(c, 40);
    p->dx = rc_case_sum(c, rc_case_act(c, "dx", p->add ? RC_IN_OUT : RC_OUT, p->n, 1, 1, l->c_in),
                        (double)l->c * l->h * l->w);
    if (sums)
        p->back_sums = rc_case_back_sums(c, &p->x, (double)l->c * l->h * l->w);
}

static void run_backward_data(rc_run *r)
{
    const linear_case *p = rc_run_parameters(r);
    rc_tensor y, x = rc_run_tensor(r, &p->x);
    rc_grad dy = rc_run_gradient(r, &p->dy, &y);
    rc_back_epilogue epilogue = {.x = &x, .partial = rc_at(r, p->back_sums.partial), .add = p->add};
    r->be->linear_backward_data(r->be, &p->linear, &dy, rc_at(r, p->weight), rc_at(r, p->dx), &epilogue);
    rc_run_back_sums(r, &p->back_sums, &x);
}

static void draw_backward_weight(rc_case *c)
{
    linear_case *p = rc_case_parameters(c);
    draw_geometry(c, p);
    const rc_linear *l = &p->linear;
    rc_groups groups = rc_case_groups(c, p->n);
    p->x = rc_case_lazy(c, "x", p->n, 1, 1, l->c_in, groups,
                        is_first_layer(c) ? 0 : RC_LAZY_BN | RC_LAZY_ACT | RC_LAZY_STORED, true);
    p->dy = rc_case_lazy_gradient(c, p->n, l->h, l->w, l->c, groups);
    int rows = l->c * l->h * l->w;
    p->dweight = rc_case_sum(c, rc_case_parameter(c, "dweight", RC_OUT, rows, l->c_in, 0), p->n);
    c->buffer[p->dweight].stored_act = true;
    p->dbias = -1;
    if (rc_case_chance(c, 60) || is_first_layer(c)) {
        p->dbias = rc_case_sum(c, rc_case_parameter(c, "dbias", RC_OUT, 1, rows, 0), p->n);
        c->buffer[p->dbias].stored_act = true;
    }
}

static void run_backward_weight(rc_run *r)
{
    const linear_case *p = rc_run_parameters(r);
    rc_tensor y, x = rc_run_tensor(r, &p->x);
    rc_grad dy = rc_run_gradient(r, &p->dy, &y);
    r->be->linear_backward_weight(r->be, &p->linear, &x, &dy, rc_at(r, p->dweight), rc_at(r, p->dbias));
}

/* ---- bench ---------------------------------------------------------------------------------------------------- */

static const rc_layer *bench_geometry(rc_case *c, int index, int n)
{
    const rc_layer *layer = rc_distinct_layer(c->net, RC_LAYER_LINEAR, index, &c->times);
    if (!layer)
        return NULL;
    linear_case *p = rc_case_parameters(c);
    p->linear = rc_layer_linear(layer);
    p->n = n;
    p->bias = p->dbias = -1;
    p->sums = rc_case_no_sums();
    c->flops = 2.0 * n * layer->c_in * layer->c_out * layer->h * layer->w;
    return layer;
}

static void bench_text(rc_case *c, const rc_layer *layer)
{
    c->text[0] = 0;
    rc_case_say(c, "%d->%dx%dx%d", layer->c_in, layer->h, layer->w, layer->c_out);
}

static bool bench_forward(rc_case *c, int index, int n)
{
    const rc_layer *layer = bench_geometry(c, index, n);
    if (!layer)
        return false;
    linear_case *p = rc_case_parameters(c);
    rc_groups groups = {1, {n}};
    p->x = rc_case_plain(c, "x", RC_IN, n, 1, 1, layer->c_in, groups);
    p->weight = draw_weight(c, &p->linear);
    p->bias = rc_case_parameter(c, "bias", RC_IN, 1, layer->c_out * layer->h * layer->w, 0.5);
    p->y = rc_case_plain(c, "y", RC_OUT, n, layer->h, layer->w, layer->c_out, groups);
    p->sums = rc_case_sums(c, &p->y);
    bench_text(c, layer);
    return true;
}

/* Noise needs no gradient, so there is no data gradient to measure. */
static bool bench_backward_weight(rc_case *c, int index, int n)
{
    const rc_layer *layer = bench_geometry(c, index, n);
    if (!layer)
        return false;
    linear_case *p = rc_case_parameters(c);
    rc_groups groups = {1, {n}};
    int channels = layer->c_out, rows = channels * layer->h * layer->w;
    p->x = rc_case_plain(c, "x", RC_IN, n, 1, 1, layer->c_in, groups);
    p->dy.y = rc_case_lazy(c, "y", n, layer->h, layer->w, channels, groups, RC_LAZY_BN, false);
    p->dy.g = rc_case_act(c, "g", RC_IN, n, layer->h, layer->w, channels);
    p->dy.a = rc_case_channel(c, "a", RC_IN, 1, channels);
    p->dy.b = rc_case_channel(c, "b", RC_IN, 1, channels);
    p->dy.c = rc_case_channel(c, "c", RC_IN, 1, channels);
    p->dweight = rc_case_parameter(c, "dweight", RC_OUT, rows, layer->c_in, 0);
    p->dbias = rc_case_parameter(c, "dbias", RC_OUT, 1, rows, 0);
    bench_text(c, layer);
    return true;
}

static const rc_operation operations[] = {
    {"linear_forward", "linear_forward", 30, 200, sizeof(linear_case), draw_forward, reserve, run_forward,
     bench_forward},
    {"linear_backward_data", "linear_backward_data", 30, 200, sizeof(linear_case), draw_backward_data, reserve,
     run_backward_data, NULL},
    {"linear_backward_weight", "linear_backward_weight", 30, 200, sizeof(linear_case), draw_backward_weight, reserve,
     run_backward_weight, bench_backward_weight},
};
const rc_operation_list rc_cases_linear = {operations, sizeof operations / sizeof *operations};
