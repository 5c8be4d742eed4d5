/* Cases of two operations in a row, as a frozen net has them: a convolution of a wide layer, and whoever needs its
 * result finished: the value, which a convolution or materialise() stores, or dL/draw, which copy_backward() does. The
 * normalisation is known before, so that a backend may do both at once. Shapes are those of cases_conv.c for large
 * layers. */
#include "check/case.h"

#include <math.h>

typedef struct finished_case {
    rc_conv conv, reader; /* reader.k 0: materialise() */
    int n;
    rc_lazy x, y, z; /* forward: y is finished, z what the reader makes of it */
    rc_lazy other;   /* is finished before: y, or x with its gradient; raw -1: there is none */
    int other_g, other_draw;
    rc_lazy_gradient dy; /* back: nothing is pending */
    int weight, reader_weight;
    rc_sums sums;
    int dx, draw; /* draw: may be dx */
    int a, b, c;
    bool add;
} finished_case;

enum {
    NORM = RC_LAZY_BN,
    RELU = NORM | RC_LAZY_RELU,
    SUM = NORM | RC_LAZY_SKIP | RC_LAZY_IDENTITY,
    VALUE = RC_LAZY_VALUE
};

static const struct finished_shape {
    int c_in, c_out, k, stride, size, n, groups;
    int x, y;     /* what is pending on them */
    bool is_read; /* by a convolution; otherwise by materialise() */
    bool other;   /* which another tensor has had before */
} forward[] = {
    {64, 64, 3, 1, 56, 16, 1, 0, RELU, true, false},
    {128, 128, 3, 1, 28, 20, 2, RELU, SUM | RC_LAZY_RELU | VALUE, true, false},
    {64, 128, 3, 2, 56, 18, 1, 0, NORM | RC_LAZY_SKIP | VALUE, true, false},
    {64, 128, 1, 2, 56, 18, 1, 0, NORM | VALUE, false, false},
    {64, 64, 3, 1, 56, 16, 2, 0, NORM | RC_LAZY_LEAKY, true, false},
    {256, 256, 3, 1, 14, 34, 1, 0, SUM | VALUE, true, false},
    {64, 128, 3, 2, 56, 18, 1, 0, NORM | RC_LAZY_SKIP | RC_LAZY_RELU | VALUE, false, true},
    {64, 64, 3, 1, 56, 16, 1, RELU, RELU, true, false}, /* what both convolutions read takes the same memory */
};
static const struct {
    int c_in, c_out, k, stride, size, n, groups;
    int x; /* what is pending on it */
    bool in_place, add;
    bool other; /* another gradient has been finished before */
} back[] = {
    {64, 64, 3, 1, 56, 16, 1, RELU, true, false, false},
    {128, 128, 3, 1, 28, 20, 1, NORM, false, false, false},
    {64, 128, 3, 2, 56, 18, 1, NORM | RC_LAZY_LEAKY, true, true, false},
    {64, 128, 1, 2, 56, 18, 2, RELU, false, true, false},
    {256, 256, 3, 1, 14, 34, 1, RELU, false, true, false},
    {64, 128, 1, 2, 56, 18, 1, RELU, false, false, true},
};
enum { FORWARD = sizeof forward / sizeof *forward, BACK = sizeof back / sizeof *back };

/* ---- geometry -------------------------------------------------------------------------------------------------- */

static rc_conv square(int c_in, int c_out, int k, int stride, int size)
{
    int out = (size - 1) / stride + 1;
    return (rc_conv){.c_in = c_in,
                     .c_out = c_out,
                     .k = k,
                     .stride = stride,
                     .pad = k / 2,
                     .up = 1,
                     .h = size,
                     .w = size,
                     .oh = out,
                     .ow = out};
}

static rc_groups groups_of(int count, int n)
{
    return count == 1 ? (rc_groups){1, {n}} : (rc_groups){2, {n / 2, n}};
}

static void say_geometry(rc_case *c, const finished_case *p)
{
    const rc_conv *v = &p->conv;
    rc_case_say(c, "%dx%d/%d (%d,%d,%d,%d)->(%d,%d,%d)", v->k, v->k, v->stride, p->n, v->h, v->w, v->c_in, v->oh, v->ow,
                v->c_out);
}

/* Of few digits: see large_weight() in cases_conv.c. */
static int draw_weight(rc_case *c, const rc_conv *v)
{
    double spread = 1 / sqrt((double)v->c_in * v->k * v->k), step = ldexp(1, ilogb(spread) - 4);
    int buffer = rc_case_parameter(c, "weight", RC_IN, v->c_out, v->c_in * v->k * v->k, spread);
    for (size_t i = 0; c->status == RC_OK && i < c->buffer[buffer].count; i++)
        rc_case_set(c, buffer, i, step * nearbyint(c->buffer[buffer].host[i] / step));
    return buffer;
}

static rc_status reserve(rc_run *r)
{
    const finished_case *p = rc_run_parameters(r);
    RC_TRY(r->be->reserve_conv(r->be, &p->conv, p->n));
    return p->reader.k > 0 ? r->be->reserve_conv(r->be, &p->reader, p->n) : RC_OK;
}

/* ---- forward --------------------------------------------------------------------------------------------------- */

static void draw_forward(rc_case *c)
{
    finished_case *p = rc_case_parameters(c);
    const struct finished_shape *shape = &forward[c->number % FORWARD];
    p->conv = square(shape->c_in, shape->c_out, shape->k, shape->stride, shape->size);
    p->n = c->number < FORWARD ? shape->n : 2;
    rc_groups groups = groups_of(shape->groups, p->n);
    const rc_conv *v = &p->conv;
    say_geometry(c, p);
    p->x = rc_case_lazy(c, "x", p->n, v->h, v->w, v->c_in, groups, shape->x, false);
    p->weight = draw_weight(c, v);
    p->y = rc_case_lazy(c, "y", p->n, v->oh, v->ow, v->c_out, groups, RC_LAZY_OUTPUT | shape->y, false);
    rc_case_sum(c, p->y.raw, (double)v->c_in * v->k * v->k);
    p->sums = rc_case_sums(c, &p->y);
    p->other.raw = -1;
    if (shape->other)
        p->other = rc_case_lazy(c, "other", p->n, v->oh, v->ow, v->c_out, groups, RELU | VALUE, false);
    if (!shape->is_read)
        return;
    p->reader = square(v->c_out, 64, 1, 1, v->oh);
    p->reader_weight = draw_weight(c, &p->reader);
    p->z = rc_case_plain(c, "z", RC_OUT, p->n, v->oh, v->ow, 64, groups);
    rc_case_sum(c, p->z.raw, (double)v->c_out);
}

static void run_forward(rc_run *r)
{
    const finished_case *p = rc_run_parameters(r);
    rc_backend *be = r->be;
    rc_tensor x = rc_run_tensor(r, &p->x), y = rc_run_tensor(r, &p->y), z = rc_run_tensor(r, &p->z), plain = y;
    const rc_epilogue none = {0}, epilogue = {.partial = rc_at(r, p->sums.partial), .center = rc_at(r, p->sums.center)};
    be->conv_forward(be, &p->conv, &x, rc_at(r, p->weight), NULL, &y, &epilogue);
    if (p->other.raw >= 0) {
        rc_tensor other = rc_run_tensor(r, &p->other);
        be->materialise(be, &other);
    }
    if (p->reader.k > 0)
        be->conv_forward(be, &p->reader, &y, rc_at(r, p->reader_weight), NULL, &z, &none);
    else
        be->materialise(be, &y);
    rc_run_expect(r, p->y.value < 0 || p->reader.k == 0 || y.stored, "has not marked the value of y as stored");
    plain.scale = plain.shift = plain.value = NULL; /* sums are those of raw */
    plain.skip = (rc_skip){0};
    plain.act = RC_ACT_NONE;
    rc_run_sums(r, &p->sums, &plain);
}

/* ---- back ------------------------------------------------------------------------------------------------------- */

static void draw_back(rc_case *c)
{
    finished_case *p = rc_case_parameters(c);
    int i = (int)(c->number % BACK);
    p->conv = square(back[i].c_in, back[i].c_out, back[i].k, back[i].stride, back[i].size);
    p->n = c->number < BACK ? back[i].n : 2;
    p->add = back[i].add;
    rc_groups groups = groups_of(back[i].groups, p->n);
    const rc_conv *v = &p->conv;
    double terms = (double)v->c_out * v->k * v->k;
    say_geometry(c, p);
    p->dy = (rc_lazy_gradient){.a = -1, .b = -1, .c = -1};
    p->dy.y = rc_case_lazy(c, "y", p->n, v->oh, v->ow, v->c_out, groups, 0, false);
    p->dy.g = rc_case_act(c, "g", RC_IN, p->n, v->oh, v->ow, v->c_out);
    p->weight = draw_weight(c, v);
    p->x = rc_case_lazy(c, "x", p->n, v->h, v->w, v->c_in, groups, back[i].x, false);
    p->a = rc_case_channel(c, "a", RC_IN, groups.count, v->c_in);
    p->b = rc_case_channel(c, "b", RC_IN, groups.count, v->c_in);
    p->c = rc_case_channel(c, "c", RC_IN, groups.count, v->c_in);
    p->dx = p->draw = rc_case_sum(c, rc_case_act(c, "dx", p->add ? RC_IN_OUT : RC_OUT, p->n, v->h, v->w, v->c_in),
                                  terms);
    if (!back[i].in_place)
        p->draw = rc_case_sum(c, rc_case_act(c, "draw", RC_OUT, p->n, v->h, v->w, v->c_in), terms);
    p->other.raw = -1;
    if (back[i].other) {
        p->other = rc_case_lazy(c, "other", p->n, v->h, v->w, v->c_in, groups, RELU, false);
        p->other_g = rc_case_act(c, "other g", RC_IN, p->n, v->h, v->w, v->c_in);
        p->other_draw = rc_case_sum(c, rc_case_act(c, "other draw", RC_OUT, p->n, v->h, v->w, v->c_in), 1);
    }
    rc_case_say(c, "%s%s", p->add ? " add" : "", back[i].in_place ? " in place" : "");
}

static void run_back(rc_run *r)
{
    const finished_case *p = rc_run_parameters(r);
    rc_backend *be = r->be;
    rc_tensor y, x = rc_run_tensor(r, &p->x);
    rc_grad dy = rc_run_gradient(r, &p->dy, &y);
    const rc_grad dx = {&x, rc_at(r, p->dx), rc_at(r, p->a), rc_at(r, p->b), rc_at(r, p->c)};
    const rc_back_epilogue epilogue = {.x = &x, .add = p->add}, overwrite = {.x = &x};
    be->conv_backward_data(be, &p->conv, &dy, rc_at(r, p->weight), dx.g, &epilogue);
    if (p->other.raw >= 0) {
        rc_tensor other = rc_run_tensor(r, &p->other);
        const rc_grad g = {&other, rc_at(r, p->other_g), dx.a, dx.b, dx.c};
        be->copy_backward(be, &g, rc_at(r, p->other_draw), &overwrite);
    }
    be->copy_backward(be, &dx, rc_at(r, p->draw), &overwrite);
}

static const rc_operation operations[] = {
    {"conv_forward_finished", "conv_forward materialise", FORWARD, FORWARD, sizeof(finished_case), draw_forward,
     reserve, run_forward, NULL},
    {"conv_backward_data_finished", "conv_backward_data copy_backward", BACK, BACK, sizeof(finished_case), draw_back,
     reserve, run_back, NULL},
};
const rc_operation_list rc_cases_finished = {operations, sizeof operations / sizeof *operations};
