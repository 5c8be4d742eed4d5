/* Cases of the convolution's gradients on narrow layers, with what nets leave pending. The cases of cases_conv.c draw
 * anything that may be pending, so few of them reach the kernels that a device has for these. */
#include "check/case.h"

#include <math.h>

typedef struct narrow_case {
    rc_conv conv;
    int n;
    rc_lazy x;
    rc_lazy_gradient dy;
    int dweight;
    int weight, dx; /* with respect to the data */
    rc_back_sums sums;
} narrow_case;

enum { TAPS = 9 };

static rc_conv square(int c_in, int c_out, int stride, int side)
{
    int out = (side - 1) / stride + 1;
    return (rc_conv){.c_in = c_in,
                     .c_out = c_out,
                     .k = 3,
                     .stride = stride,
                     .pad = 1,
                     .up = 1,
                     .h = side,
                     .w = side,
                     .oh = out,
                     .ow = out};
}

static void say_geometry(rc_case *c, const narrow_case *p)
{
    const rc_conv *v = &p->conv;
    rc_case_say(c, "3x3/%d (%d,%d,%d,%d)->(%d,%d,%d)", v->stride, p->n, v->h, v->w, v->c_in, v->oh, v->ow, v->c_out);
}

static rc_status reserve(rc_run *r)
{
    const narrow_case *p = rc_run_parameters(r);
    return r->be->reserve_conv(r->be, &p->conv, p->n);
}

/* ---- with respect to the weights ------------------------------------------------------------------------------- */

/* Of x is pending nothing, or normalisation and ReLU; of dL/dy the same, or that of a sum. Sizes are no multiple of a
 * tile's. */
static const struct {
    int c_in, c_out, stride, size;
} shapes[] = {
    {16, 16, 1, 35}, {32, 32, 1, 19}, {64, 64, 1, 18}, {64, 64, 1, 7}, {64, 3, 1, 35},  {3, 16, 1, 34},
    {16, 32, 2, 35}, {32, 64, 2, 35}, {32, 64, 2, 15}, {3, 64, 1, 43}, {3, 128, 1, 17},
};
static const int pending[] = {0, RC_LAZY_BN | RC_LAZY_RELU,
                              RC_LAZY_BN | RC_LAZY_RELU | RC_LAZY_SKIP | RC_LAZY_IDENTITY | RC_LAZY_STORED};
enum { SHAPES = sizeof shapes / sizeof *shapes, PENDING = sizeof pending / sizeof *pending, CASES = SHAPES * PENDING };

static void draw_backward_weight(rc_case *c)
{
    narrow_case *p = rc_case_parameters(c);
    int i = (int)(c->number % SHAPES), of_dy = pending[c->number / SHAPES % PENDING];
    int c_in = shapes[i].c_in, c_out = shapes[i].c_out, side = shapes[i].size;
    p->conv = square(c_in, c_out, shapes[i].stride, side);
    p->n = side > 16 ? 2 : 3;
    int out = p->conv.oh;
    say_geometry(c, p);
    rc_groups groups = rc_case_groups(c, p->n);
    int of_x = c_in == 3 || c->number % 2 == 0 ? 0 : pending[1];
    p->x = rc_case_lazy(c, "x", p->n, side, side, c_in, groups, of_x, false);
    p->dy = (rc_lazy_gradient){.a = -1, .b = -1, .c = -1};
    p->dy.y = rc_case_lazy(c, "y", p->n, out, out, c_out, groups, of_dy, false);
    p->dy.g = rc_case_act(c, "g", RC_IN, p->n, out, out, c_out);
    if (p->dy.y.scale >= 0) {
        p->dy.a = rc_case_channel(c, "a", RC_IN, groups.count, c_out);
        p->dy.b = rc_case_channel(c, "b", RC_IN, groups.count, c_out);
        p->dy.c = rc_case_channel(c, "c", RC_IN, groups.count, c_out);
    }
    p->dweight = rc_case_sum(c, rc_case_parameter(c, "dweight", RC_OUT, c_out, c_in * TAPS, 0),
                             (double)p->n * out * out);
    c->buffer[p->dweight].stored_act = true;
}

static void run_backward_weight(rc_run *r)
{
    const narrow_case *p = rc_run_parameters(r);
    rc_tensor y, x = rc_run_tensor(r, &p->x);
    rc_grad dy = rc_run_gradient(r, &p->dy, &y);
    r->be->conv_backward_weight(r->be, &p->conv, &x, &dy, rc_at(r, p->dweight), NULL);
}

/* ---- with respect to the data ---------------------------------------------------------------------------------- */

/* Last layers that make images: of dL/dy is pending nothing, of x normalisation with an activation or without. */
static const struct {
    int c_in, c_out, side, n;
} last_shapes[] = {{64, 3, 35, 3}, {128, 1, 32, 2}, {64, 8, 9, 3}, {64, 3, 64, 2}};
static const int acts[] = {RC_LAZY_LEAKY, 0, RC_LAZY_RELU};
enum { LAST_SHAPES = sizeof last_shapes / sizeof *last_shapes, ACTS = sizeof acts / sizeof *acts };

static void draw_backward_data(rc_case *c)
{
    narrow_case *p = rc_case_parameters(c);
    int i = (int)(c->number % LAST_SHAPES);
    p->conv = square(last_shapes[i].c_in, last_shapes[i].c_out, 1, last_shapes[i].side);
    p->n = last_shapes[i].n;
    say_geometry(c, p);
    const rc_conv *v = &p->conv;
    rc_groups groups = rc_case_groups(c, p->n);
    p->dy = (rc_lazy_gradient){.a = -1, .b = -1, .c = -1};
    p->dy.y = rc_case_lazy(c, "y", p->n, v->oh, v->ow, v->c_out, groups, 0, false);
    p->dy.g = rc_case_act(c, "g", RC_IN, p->n, v->oh, v->ow, v->c_out);
    double terms = (double)v->c_out * TAPS;
    p->weight = rc_case_parameter(c, "weight", RC_IN, v->c_out, v->c_in * TAPS, 1 / sqrt((double)v->c_in * TAPS));
    p->x = rc_case_lazy(c, "x", p->n, v->h, v->w, v->c_in, groups, RC_LAZY_BN | acts[c->number / LAST_SHAPES % ACTS],
                        false);
    p->dx = rc_case_sum(c, rc_case_act(c, "dx", RC_OUT, p->n, v->h, v->w, v->c_in), terms);
    p->sums = rc_case_back_sums(c, &p->x, terms);
}

static void run_backward_data(rc_run *r)
{
    const narrow_case *p = rc_run_parameters(r);
    rc_tensor y, x = rc_run_tensor(r, &p->x);
    rc_grad dy = rc_run_gradient(r, &p->dy, &y);
    rc_back_epilogue epilogue = {.x = &x, .partial = rc_at(r, p->sums.partial)};
    r->be->conv_backward_data(r->be, &p->conv, &dy, rc_at(r, p->weight), rc_at(r, p->dx), &epilogue);
    rc_run_back_sums(r, &p->sums, &x);
}

static const rc_operation operations[] = {
    {"conv_backward_data_last", "conv_backward_data", LAST_SHAPES *ACTS, 4 * LAST_SHAPES *ACTS, sizeof(narrow_case),
     draw_backward_data, reserve, run_backward_data, NULL},
    {"conv_backward_weight_narrow", "conv_backward_weight", CASES, 4 * CASES, sizeof(narrow_case), draw_backward_weight,
     reserve, run_backward_weight, NULL},
};
const rc_operation_list rc_cases_narrow = {operations, sizeof operations / sizeof *operations};
