/* Cases of the dense layers: heads and projections. */
#include "check/case.h"

#include <math.h>

typedef struct dense_case {
    int n, in, out, stride;
    int x, weight, bias, y, dy, dx, dweight, dbias;
    bool add;
} dense_case;

static dense_case *draw_shape(rc_case *c)
{
    dense_case *p = rc_case_parameters(c);
    p->n = RC_CHOOSE(c, 1, 2, 3, 7, 16, 33);
    p->in = RC_CHOOSE(c, 1, 5, 16, 64, 100);
    p->out = RC_CHOOSE(c, 1, 3, 10, 20, 64, 100);
    if (!c->quick && rc_case_chance(c, 20)) {
        p->n = 128;
        p->in = RC_CHOOSE(c, 64, 512);
        p->out = RC_CHOOSE(c, 128, 200);
    }
    p->stride = p->out + (rc_case_chance(c, 50) ? RC_CHOOSE(c, 1, 4, 60) : 0);
    rc_case_say(c, "(%d,%d)->%d stride %d", p->n, p->in, p->out, p->stride);
    return p;
}

/* Heads of as many classes as ImageNet has. With more images a device takes larger tiles. */
static const int head_images[] = {130, 515};
enum { HEADS = sizeof head_images / sizeof *head_images, HEAD_FEATURES = 512, HEAD_CLASSES = 1010, HEAD_STRIDE = 1020 };

static dense_case *draw_head(rc_case *c)
{
    dense_case *p = rc_case_parameters(c);
    p->n = head_images[c->number % HEADS];
    p->in = HEAD_FEATURES;
    p->out = HEAD_CLASSES;
    p->stride = HEAD_STRIDE;
    rc_case_say(c, "(%d,%d)->%d stride %d", p->n, p->in, p->out, p->stride);
    return p;
}

static rc_status reserve(rc_run *r)
{
    const dense_case *p = rc_run_parameters(r);
    return r->be->reserve_dense(r->be, p->n, p->in, p->out);
}

/* Columns of y beyond `out` are not the operation's: they have a value, and must keep it. */
static void complete_forward(rc_case *c, dense_case *p)
{
    p->x = rc_case_real(c, "x", RC_IN, p->n, p->in);
    p->weight = rc_case_parameter(c, "weight", RC_IN, p->out, p->in, 1 / sqrt((double)p->in));
    p->bias = rc_case_chance(c, 50) ? rc_case_parameter(c, "bias", RC_IN, 1, p->out, 0.5) : -1;
    p->y = rc_case_sum(c, rc_case_real(c, "y", RC_IN_OUT, p->n, p->stride), p->in);
}

static void draw_forward(rc_case *c)
{
    complete_forward(c, draw_shape(c));
}

static void draw_head_forward(rc_case *c)
{
    complete_forward(c, draw_head(c));
}

static void run_forward(rc_run *r)
{
    const dense_case *p = rc_run_parameters(r);
    r->be->dense_forward(r->be, p->n, p->in, p->out, rc_at(r, p->x), rc_at(r, p->weight), rc_at(r, p->bias),
                         rc_at(r, p->y), p->stride);
}

static void complete_backward_data(rc_case *c, dense_case *p)
{
    p->dy = rc_case_real(c, "dy", RC_IN, p->n, p->stride);
    p->weight = rc_case_parameter(c, "weight", RC_IN, p->out, p->in, 1 / sqrt((double)p->in));
    p->add = rc_case_chance(c, 50);
    p->dx = rc_case_sum(c, rc_case_real(c, "dx", p->add ? RC_IN_OUT : RC_OUT, p->n, p->in), p->out);
}

static void draw_backward_data(rc_case *c)
{
    complete_backward_data(c, draw_shape(c));
}

static void draw_head_backward_data(rc_case *c)
{
    complete_backward_data(c, draw_head(c));
}

static void run_backward_data(rc_run *r)
{
    const dense_case *p = rc_run_parameters(r);
    r->be->dense_backward_data(r->be, p->n, p->in, p->out, rc_at(r, p->dy), p->stride, rc_at(r, p->weight),
                               rc_at(r, p->dx), p->add);
}

static void complete_backward_weight(rc_case *c, dense_case *p)
{
    p->x = rc_case_real(c, "x", RC_IN, p->n, p->in);
    p->dy = rc_case_real(c, "dy", RC_IN, p->n, p->stride);
    p->add = rc_case_chance(c, 50);
    rc_buffer_role role = p->add ? RC_IN_OUT : RC_OUT;
    p->dweight = rc_case_sum(c, rc_case_parameter(c, "dweight", role, p->out, p->in, 1), p->n);
    p->dbias = -1;
    if (rc_case_chance(c, 50))
        p->dbias = rc_case_sum(c, rc_case_parameter(c, "dbias", role, 1, p->out, 1), p->n);
}

static void draw_backward_weight(rc_case *c)
{
    complete_backward_weight(c, draw_shape(c));
}

static void draw_head_backward_weight(rc_case *c)
{
    complete_backward_weight(c, draw_head(c));
}

static void run_backward_weight(rc_run *r)
{
    const dense_case *p = rc_run_parameters(r);
    r->be->dense_backward_weight(r->be, p->n, p->in, p->out, rc_at(r, p->x), rc_at(r, p->dy), p->stride,
                                 rc_at(r, p->dweight), rc_at(r, p->dbias), p->add);
}

static void draw_chain(rc_case *c)
{
    dense_case *p = rc_case_parameters(c);
    p->n = 1 + (int)rc_case_below(c, 5);
    p->in = 1 + (int)rc_case_below(c, 9);
    p->out = p->stride = 1 + (int)rc_case_below(c, 9);
    rc_case_say(c, "(%d,%d)->%d", p->n, p->in, p->out);
    p->x = rc_case_real(c, "x", RC_IN, p->n, p->in);
    p->weight = rc_case_parameter(c, "weight", RC_IN, p->out, p->in, 1);
    p->bias = rc_case_parameter(c, "bias", RC_IN, 1, p->out, 1);
    p->y = rc_case_sum(c, rc_case_real(c, "y", RC_OUT, p->n, p->out), p->in);
    p->dy = c->buffer[p->y].cotangent = rc_case_real(c, "dy", RC_IN, p->n, p->out);
    p->dx = rc_case_gradient(c, rc_case_real(c, "dx", RC_OUT, p->n, p->in), p->x, p->out);
    p->dweight = rc_case_gradient(c, rc_case_parameter(c, "dweight", RC_OUT, p->out, p->in, 0), p->weight, p->n);
    p->dbias = rc_case_gradient(c, rc_case_parameter(c, "dbias", RC_OUT, 1, p->out, 0), p->bias, p->n);
}

static void run_chain(rc_run *r)
{
    run_forward(r);
    run_backward_data(r);
    run_backward_weight(r);
}

/* ---- bench: the head of 100 classes and RKD's projection -------------------------------------------------------- */

static dense_case *bench_shape(rc_case *c, int index, int n)
{
    dense_case *p = rc_case_parameters(c);
    if (index > 1 || c->net->layer[0].kind != RC_LAYER_CONV)
        return NULL;
    *p = (dense_case){.n = n, .in = 64, .out = index ? 128 : 100, .bias = -1, .dbias = -1};
    p->stride = p->out;
    c->flops = 2.0 * n * p->in * p->out;
    rc_case_say(c, "64->%d", p->out);
    return p;
}

static bool bench_forward(rc_case *c, int index, int n)
{
    dense_case *p = bench_shape(c, index, n);
    if (!p)
        return false;
    p->x = rc_case_real(c, "x", RC_IN, n, p->in);
    p->weight = rc_case_parameter(c, "weight", RC_IN, p->out, p->in, 0.1);
    p->y = rc_case_real(c, "y", RC_OUT, n, p->out);
    return true;
}

static bool bench_backward_data(rc_case *c, int index, int n)
{
    dense_case *p = bench_shape(c, index, n);
    if (!p)
        return false;
    p->dy = rc_case_real(c, "dy", RC_IN, n, p->out);
    p->weight = rc_case_parameter(c, "weight", RC_IN, p->out, p->in, 0.1);
    p->dx = rc_case_real(c, "dx", RC_OUT, n, p->in);
    return true;
}

static bool bench_backward_weight(rc_case *c, int index, int n)
{
    dense_case *p = bench_shape(c, index, n);
    if (!p)
        return false;
    p->x = rc_case_real(c, "x", RC_IN, n, p->in);
    p->dy = rc_case_real(c, "dy", RC_IN, n, p->out);
    p->dweight = rc_case_parameter(c, "dweight", RC_OUT, p->out, p->in, 0);
    return true;
}

static const rc_operation operations[] = {
    {"dense_forward", "dense_forward", 20, 150, sizeof(dense_case), draw_forward, reserve, run_forward, bench_forward},
    {"dense_backward_data", "dense_backward_data", 20, 150, sizeof(dense_case), draw_backward_data, reserve,
     run_backward_data, bench_backward_data},
    {"dense_backward_weight", "dense_backward_weight", 20, 150, sizeof(dense_case), draw_backward_weight, reserve,
     run_backward_weight, bench_backward_weight},
    {"dense_chain", "dense_forward dense_backward_data dense_backward_weight", 10, 50, sizeof(dense_case), draw_chain,
     reserve, run_chain, NULL},
};
const rc_operation_list rc_cases_dense = {operations, sizeof operations / sizeof *operations};

static const rc_operation head_operations[] = {
    {"dense_forward_large", "dense_forward", HEADS, HEADS, sizeof(dense_case), draw_head_forward, reserve, run_forward,
     NULL},
    {"dense_backward_data_large", "dense_backward_data", HEADS, HEADS, sizeof(dense_case), draw_head_backward_data,
     reserve, run_backward_data, NULL},
    {"dense_backward_weight_large", "dense_backward_weight", HEADS, HEADS, sizeof(dense_case),
     draw_head_backward_weight, reserve, run_backward_weight, NULL},
};
const rc_operation_list rc_cases_dense_large = {head_operations, sizeof head_operations / sizeof *head_operations};
