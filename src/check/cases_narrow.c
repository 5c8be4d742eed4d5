/* Cases of the convolution's weight gradient on narrow layers, with what nets leave pending: of x nothing, or
 * normalisation and ReLU; of dL/dy nothing, the same, or that of a sum. The cases of cases_conv.c draw anything that
 * may be pending, so few of them reach the kernels that a device has for these. */
#include "check/case.h"

typedef struct narrow_case {
    rc_conv conv;
    int n;
    rc_lazy x;
    rc_lazy_gradient dy;
    int dweight;
} narrow_case;

/* Sizes that are no multiple of a tile's. */
static const struct {
    int c_in, c_out, stride, size;
} shapes[] = {
    {16, 16, 1, 35}, {32, 32, 1, 19}, {64, 64, 1, 18}, {64, 64, 1, 7},  {64, 3, 1, 35},
    {3, 16, 1, 34},  {16, 32, 2, 35}, {32, 64, 2, 35}, {32, 64, 2, 15},
};
static const int pending[] = {0, RC_LAZY_BN | RC_LAZY_RELU,
                              RC_LAZY_BN | RC_LAZY_RELU | RC_LAZY_SKIP | RC_LAZY_IDENTITY | RC_LAZY_STORED};
enum {
    SHAPES = sizeof shapes / sizeof *shapes,
    PENDING = sizeof pending / sizeof *pending,
    CASES = SHAPES * PENDING,
    TAPS = 9
};

static void draw_backward_weight(rc_case *c)
{
    narrow_case *p = rc_case_parameters(c);
    int i = (int)(c->number % SHAPES), of_dy = pending[c->number / SHAPES % PENDING];
    int c_in = shapes[i].c_in, c_out = shapes[i].c_out, side = shapes[i].size, out = (side - 1) / shapes[i].stride + 1;
    p->conv = (rc_conv){.c_in = c_in, .c_out = c_out, .k = 3, .pad = 1, .up = 1, .h = side, .w = side};
    p->conv.stride = shapes[i].stride;
    p->conv.oh = p->conv.ow = out;
    p->n = side > 16 ? 2 : 3;
    rc_case_say(c, "3x3/%d (%d,%d,%d,%d)->(%d,%d,%d)", p->conv.stride, p->n, side, side, c_in, out, out, c_out);
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

static rc_status reserve(rc_run *r)
{
    const narrow_case *p = rc_run_parameters(r);
    return r->be->reserve_conv(r->be, &p->conv, p->n);
}

static void run_backward_weight(rc_run *r)
{
    const narrow_case *p = rc_run_parameters(r);
    rc_tensor y, x = rc_run_tensor(r, &p->x);
    rc_grad dy = rc_run_gradient(r, &p->dy, &y);
    r->be->conv_backward_weight(r->be, &p->conv, &x, &dy, rc_at(r, p->dweight), NULL);
}

static const rc_operation operations[] = {
    {"conv_backward_weight_narrow", "conv_backward_weight", CASES, 4 * CASES, sizeof(narrow_case), draw_backward_weight,
     reserve, run_backward_weight, NULL},
};
const rc_operation_list rc_cases_narrow = {operations, sizeof operations / sizeof *operations};
