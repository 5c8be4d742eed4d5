/* Cases of the convolution on layers of 16 channels, forward and of both gradients, and of 64 on small maps, forward
 * and with respect to the data. They have pending what nets leave: of a value nothing, normalisation and ReLU, or a
 * sum; of dL/dy that of these. The cases of cases_conv.c draw anything that may be pending, so few of them reach the
 * kernels that a device has for these. */
#include "check/case.h"

#include <math.h>

typedef struct thin_case {
    rc_conv conv;
    int n;
    rc_lazy x, y; /* y: forward */
    rc_lazy_gradient dy;
    int weight, bias;
    bool apply, add;
    rc_sums sums;
    rc_back_sums back_sums;
    int dx, addend, dweight;
} thin_case;

enum { TAPS = 9 };

static rc_status reserve(rc_run *r)
{
    const thin_case *p = rc_run_parameters(r);
    return r->be->reserve_conv(r->be, &p->conv, p->n);
}

static rc_lazy_gradient add_gradient(rc_case *c, const thin_case *p, rc_groups groups, int pending)
{
    const rc_conv *v = &p->conv;
    rc_lazy_gradient dy = {.a = -1, .b = -1, .c = -1};
    dy.y = rc_case_lazy(c, "y", p->n, v->oh, v->ow, v->c_out, groups, pending, false);
    dy.g = rc_case_act(c, "g", RC_IN, p->n, v->oh, v->ow, v->c_out);
    if (dy.y.scale >= 0) {
        dy.a = rc_case_channel(c, "a", RC_IN, groups.count, v->c_out);
        dy.b = rc_case_channel(c, "b", RC_IN, groups.count, v->c_out);
        dy.c = rc_case_channel(c, "c", RC_IN, groups.count, v->c_out);
    }
    return dy;
}

enum { NORM = RC_LAZY_BN, RELU = RC_LAZY_BN | RC_LAZY_RELU, SUM = RC_LAZY_BN | RC_LAZY_SKIP | RC_LAZY_IDENTITY };

static const struct {
    int h, w, c_in, c_out;
} maps[] = {{21, 32, 16, 16}, {13, 64, 16, 16}, {3, 96, 16, 16}, {18, 32, 10, 12}, {16, 16, 64, 64}};
static const struct {
    int x, y;
    bool apply;
} forward[] = {{0, RELU, true},
               {0, SUM, true},
               {0, 0, false},
               {RELU, 0, false},
               {RELU | RC_LAZY_VALUE, 0, false},
               {SUM | RC_LAZY_VALUE, 0, false}};
static const struct {
    int dy, x;
    bool sums, add;
} back[] = {
    {SUM | RC_LAZY_STORED, RELU, true, false},
    {RELU, SUM | RC_LAZY_STORED, true, true},
    {RELU, RELU | RC_LAZY_STORED, true, true},
    {NORM, SUM | RC_LAZY_STORED, true, false},
    {RELU, RELU, false, false},
    {SUM | RC_LAZY_STORED, RELU, false, true},
};
static const struct {
    int dy, x;
} weights[] = {{RELU, SUM | RC_LAZY_STORED}, {SUM | RC_LAZY_STORED, RELU}, {NORM, RELU}, {RELU, RELU}, {0, RELU}};
enum {
    MAPS = sizeof maps / sizeof *maps,
    THIN_MAPS = MAPS - 1, /* without that of 64 channels */
    FORWARD = sizeof forward / sizeof *forward,
    BACK = sizeof back / sizeof *back,
    WEIGHTS = sizeof weights / sizeof *weights
};

static rc_groups draw_map(rc_case *c, thin_case *p, size_t i)
{
    rc_conv v = {.k = 3, .stride = 1, .pad = 1, .up = 1};
    v.c_in = maps[i].c_in;
    v.c_out = maps[i].c_out;
    v.h = v.oh = maps[i].h;
    v.w = v.ow = maps[i].w;
    p->conv = v;
    p->n = 3;
    rc_case_say(c, "3x3 (%d,%d,%d,%d)->%d", p->n, v.h, v.w, v.c_in, v.c_out);
    p->weight = rc_case_parameter(c, "weight", RC_IN, v.c_out, v.c_in * TAPS, 1 / sqrt((double)v.c_in * TAPS));
    p->bias = p->addend = -1;
    p->sums = rc_case_no_sums();
    p->back_sums = rc_case_no_back_sums();
    return rc_case_groups(c, p->n);
}

static void draw_forward(rc_case *c)
{
    thin_case *p = rc_case_parameters(c);
    size_t kind = c->number / MAPS % FORWARD;
    rc_groups groups = draw_map(c, p, c->number % MAPS);
    const rc_conv *v = &p->conv;
    p->apply = forward[kind].apply;
    p->x = rc_case_lazy(c, "x", p->n, v->h, v->w, v->c_in, groups, forward[kind].x, false);
    p->y = rc_case_lazy(c, "y", p->n, v->oh, v->ow, v->c_out, groups, RC_LAZY_OUTPUT | forward[kind].y, false);
    if (rc_case_chance(c, 50))
        p->bias = rc_case_parameter(c, "bias", RC_IN, 1, v->c_out, 0.5);
    rc_case_sum(c, p->y.raw, (double)v->c_in * TAPS);
    if (!p->apply)
        p->sums = rc_case_sums(c, &p->y);
}

static void run_forward(rc_run *r)
{
    const thin_case *p = rc_run_parameters(r);
    rc_tensor x = rc_run_tensor(r, &p->x), y = rc_run_tensor(r, &p->y);
    rc_epilogue epilogue = {rc_at(r, p->sums.partial), rc_at(r, p->sums.center), p->apply};
    r->be->conv_forward(r->be, &p->conv, &x, rc_at(r, p->weight), rc_at(r, p->bias), &y, &epilogue);
    rc_run_expect(r, p->x.value < 0 || x.stored, "has not marked the value of x as stored");
    rc_run_sums(r, &p->sums, &y);
}

static void draw_backward_data(rc_case *c)
{
    thin_case *p = rc_case_parameters(c);
    size_t kind = c->number / MAPS % BACK;
    rc_groups groups = draw_map(c, p, c->number % MAPS);
    const rc_conv *v = &p->conv;
    double terms = (double)v->c_out * TAPS;
    p->dy = add_gradient(c, p, groups, back[kind].dy);
    p->x = rc_case_lazy(c, "x", p->n, v->h, v->w, v->c_in, groups, back[kind].x, false);
    p->add = back[kind].add;
    bool in_place = p->add && c->number % 2 == 0;
    if (p->add && !in_place)
        p->addend = rc_case_act(c, "addend", RC_IN, p->n, v->h, v->w, v->c_in);
    p->dx = rc_case_sum(c, rc_case_act(c, "dx", in_place ? RC_IN_OUT : RC_OUT, p->n, v->h, v->w, v->c_in), terms);
    if (back[kind].sums)
        p->back_sums = rc_case_back_sums(c, &p->x, terms);
}

static void run_backward_data(rc_run *r)
{
    const thin_case *p = rc_run_parameters(r);
    rc_tensor y, x = rc_run_tensor(r, &p->x);
    rc_grad dy = rc_run_gradient(r, &p->dy, &y);
    rc_back_epilogue epilogue = {.x = &x, .partial = rc_at(r, p->back_sums.partial), .add = p->add};
    if (p->addend >= 0 && r->be->lanes > 1)
        epilogue.addend = rc_at(r, p->addend);
    else if (p->addend >= 0)
        r->be->copy(r->be, rc_at(r, p->dx), rc_at(r, p->addend), r->bytes[p->dx]);
    r->be->conv_backward_data(r->be, &p->conv, &dy, rc_at(r, p->weight), rc_at(r, p->dx), &epilogue);
    rc_run_back_sums(r, &p->back_sums, &x);
}

static void draw_backward_weight(rc_case *c)
{
    thin_case *p = rc_case_parameters(c);
    size_t kind = c->number / THIN_MAPS % WEIGHTS;
    rc_groups groups = draw_map(c, p, c->number % THIN_MAPS);
    const rc_conv *v = &p->conv;
    p->dy = add_gradient(c, p, groups, weights[kind].dy);
    p->x = rc_case_lazy(c, "x", p->n, v->h, v->w, v->c_in, groups, weights[kind].x, false);
    p->dweight = rc_case_sum(c, rc_case_parameter(c, "dweight", RC_OUT, v->c_out, v->c_in * TAPS, 0),
                             (double)p->n * v->oh * v->ow);
    c->buffer[p->dweight].stored_act = true;
}

static void run_backward_weight(rc_run *r)
{
    const thin_case *p = rc_run_parameters(r);
    rc_tensor y, x = rc_run_tensor(r, &p->x);
    rc_grad dy = rc_run_gradient(r, &p->dy, &y);
    r->be->conv_backward_weight(r->be, &p->conv, &x, &dy, rc_at(r, p->dweight), NULL);
}

static const rc_operation operations[] = {
    {"conv_forward_thin", "conv_forward", MAPS *FORWARD, 2 * MAPS *FORWARD, sizeof(thin_case), draw_forward, reserve,
     run_forward, NULL},
    {"conv_backward_data_thin", "conv_backward_data", MAPS *BACK, 2 * MAPS *BACK, sizeof(thin_case), draw_backward_data,
     reserve, run_backward_data, NULL},
    {"conv_backward_weight_thin", "conv_backward_weight", THIN_MAPS *WEIGHTS, 2 * THIN_MAPS *WEIGHTS, sizeof(thin_case),
     draw_backward_weight, reserve, run_backward_weight, NULL},
};
const rc_operation_list rc_cases_thin = {operations, sizeof operations / sizeof *operations};
