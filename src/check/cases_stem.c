/* Cases of a first layer in training and the maximum behind it, for backends that run both at once (fused_train,
 * fused_train_backward): forward, and back to the gradients of the layer.
 *
 * Images and weights are small whole numbers and gradients are eighths, so that sums of their products are exact in
 * every type of activations. All backends then find the same maxima, the first of equals, and results may differ by the
 * rounding of sums alone. */
#include "check/case.h"

#include <math.h>

typedef struct stem_case {
    rc_conv conv;
    rc_pool2d pool;
    int n;
    rc_groups groups;
    rc_lazy x, y;
    int between, gradient; /* (n, h, w, c) of the layer, where it runs alone */
    int weight, gamma, beta, center, running_mean, running_var;
    int scale, shift, mean, istd; /* (groups, c) */
    int taps, partial, g;
    int a, b, c, dgamma, dbeta, dweight;
} stem_case;

static const struct {
    int h, w, c_in, c_out, n;
} shapes[] = {{8, 30, 3, 64, 2}, {6, 32, 3, 64, 4},  {34, 50, 1, 64, 1},
              {4, 4, 8, 128, 7}, {16, 62, 3, 64, 2}, {2, 46, 3, 64, 3}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* Asks the backend as a pass does. */
static bool is_taken(rc_backend *be, const rc_case *c)
{
    const stem_case *p = (const stem_case *)c->parameters.bytes;
    const rc_fusible layers[] = {{.plain = true, .conv = p->conv, .act = RC_ACT_RELU, .in = -1, .skip = -1},
                                 {.pool = p->pool, .in = 0, .skip = -1, .output = true}};
    return be->fuse_train && be->fuse_train(be, layers, 2, 0, p->n, p->groups.count) == 2;
}

/* ---- drawing -------------------------------------------------------------------------------------------------- */

/* Whole numbers from -most to most, over `by`. */
static void draw_numbers(rc_case *c, int buffer, int most, double by)
{
    for (size_t i = 0; c->status == RC_OK && i < c->buffer[buffer].count; i++)
        rc_case_set(c, buffer, i, fmin(floor(rc_case_uniform(c, -most, most + 1)), most) / by);
}

/* An output of sums over all positions, of exact numbers of that size. */
static int summed(rc_case *c, int buffer, const stem_case *p, double magnitude)
{
    c->buffer[buffer].exact = true;
    c->buffer[buffer].magnitude = magnitude;
    return rc_case_sum(c, buffer, (double)p->n * p->conv.h * p->conv.w);
}

static void draw_shape(rc_case *c, stem_case *p)
{
    bool common = c->number < SHAPES;
    int h = common ? shapes[c->number].h : RC_CHOOSE(c, 4, 10, 20), c_in = RC_CHOOSE(c, 1, 3, 5, 8);
    int w = common ? shapes[c->number].w : RC_CHOOSE(c, 22, 28, 34, 64), c_out = RC_CHOOSE(c, 64, 64, 128);
    c_in = common ? shapes[c->number].c_in : c_in;
    c_out = common ? shapes[c->number].c_out : c_out;
    p->n = common ? shapes[c->number].n : 1 + (int)rc_case_below(c, 5);
    p->groups = rc_case_groups(c, p->n);
    p->pool = (rc_pool2d){3, 2, 1};
    p->conv = (rc_conv){
        .c_in = c_in, .c_out = c_out, .k = 3, .stride = 1, .pad = 1, .up = 1, .h = h, .w = w, .oh = h, .ow = w};
    rc_case_say(c, "(%d,%d,%d,%d)/%d->%d", p->n, h, w, c_in, p->groups.count, c_out);
}

/* Finished images, or with something pending that leaves whole numbers. */
static void draw_images(rc_case *c, stem_case *p)
{
    int features[] = {0, RC_LAZY_BN, RC_LAZY_BN | RC_LAZY_VALUE};
    p->x = rc_case_lazy(c, "x", p->n, p->conv.h, p->conv.w, p->conv.c_in, p->groups, features[c->number % 3], false);
    draw_numbers(c, p->x.raw, 2, 1);
    if (c->number % 3 == 0 || c->status != RC_OK)
        return;
    for (size_t i = 0; i < c->buffer[p->x.scale].count; i++)
        rc_case_set(c, p->x.scale, i, i % 2 == 0 ? 1 : -1);
    draw_numbers(c, p->x.shift, 1, 1);
}

/* A normalisation may turn the order of values round, or make them all equal. */
static void draw_norm(rc_case *c, stem_case *p)
{
    int channels = p->conv.c_out;
    p->gamma = rc_case_parameter(c, "gamma", RC_IN, 1, channels, 0);
    p->beta = rc_case_parameter(c, "beta", RC_IN, 1, channels, 0);
    for (int i = 0; c->status == RC_OK && i < channels; i++) {
        uint32_t turn = rc_case_below(c, 10);
        rc_case_set(c, p->gamma, (size_t)i,
                    (turn == 0   ? 0
                     : turn <= 3 ? -1
                                 : 1) *
                        (4 + (int)rc_case_below(c, 9)) / 8.0);
        rc_case_set(c, p->beta, (size_t)i, (2 * (int)rc_case_below(c, 8) - 7) / 16.0);
    }
    p->center = rc_case_chance(c, 70) ? rc_case_parameter(c, "center", RC_IN, 1, channels, 0.5) : -1;
    p->running_mean = summed(c, rc_case_parameter(c, "running_mean", RC_IN_OUT, 1, channels, 0.3), p, 1);
    p->running_var = rc_case_parameter(c, "running_var", RC_IN_OUT, 1, channels, 0.1);
    rc_case_fill(c, p->running_var, 1, 0.1);
    summed(c, p->running_var, p, 1);
    p->scale = summed(c, rc_case_channel(c, "scale", RC_OUT, p->groups.count, channels), p, 0);
    p->shift = summed(c, rc_case_channel(c, "shift", RC_OUT, p->groups.count, channels), p, 0);
    p->mean = summed(c, rc_case_channel(c, "mean", RC_OUT, p->groups.count, channels), p, 1);
    p->istd = summed(c, rc_case_channel(c, "istd", RC_OUT, p->groups.count, channels), p, 0);
}

static void draw_stem(rc_case *c)
{
    stem_case *p = rc_case_parameters(c);
    draw_shape(c, p);
    draw_images(c, p);
    draw_norm(c, p);
    const rc_conv *v = &p->conv;
    double all = (double)p->n * v->h * v->w;
    p->weight = rc_case_parameter(c, "weight", RC_IN, v->c_out, v->c_in * 9, 0);
    draw_numbers(c, p->weight, 1, 1);
    p->y = rc_case_plain(c, "y", RC_OUT, p->n, v->h / 2, v->w / 2, v->c_out, p->groups);
    c->buffer[p->y.raw].exact = true;
    rc_case_sum(c, p->y.raw, all);
    p->taps = rc_case_buffer(c, "taps", RC_BUFFER_BYTE, RC_SCRATCH, p->n, v->h / 2, v->w / 2, v->c_out / 2);
    p->partial = rc_case_partial(c, "partial", p->n, v->h, v->w, v->c_out);
    p->g = rc_case_act(c, "g", RC_IN, p->n, v->h / 2, v->w / 2, v->c_out);
    draw_numbers(c, p->g, 16, 8);
    p->between = rc_case_act(c, "between", RC_SCRATCH, p->n, v->h, v->w, v->c_out);
    p->gradient = rc_case_act(c, "gradient", RC_SCRATCH, p->n, v->h, v->w, v->c_out);
    p->a = summed(c, rc_case_channel(c, "a", RC_OUT, p->groups.count, v->c_out), p, 0);
    p->b = summed(c, rc_case_channel(c, "b", RC_OUT, p->groups.count, v->c_out), p, 0);
    p->c = summed(c, rc_case_channel(c, "c", RC_OUT, p->groups.count, v->c_out), p, 0);
    p->dgamma = summed(c, rc_case_parameter(c, "dgamma", RC_OUT, 1, v->c_out, 0), p, 0);
    p->dbeta = summed(c, rc_case_parameter(c, "dbeta", RC_OUT, 1, v->c_out, 0), p, 0);
    p->dweight = summed(c, rc_case_parameter(c, "dweight", RC_OUT, v->c_out, v->c_in * 9, 0), p, 0);
    c->takes = is_taken;
}

/* ---- running -------------------------------------------------------------------------------------------------- */

static rc_status reserve(rc_run *r)
{
    const stem_case *p = rc_run_parameters(r);
    return r->be->reserve_conv(r->be, &p->conv, p->n);
}

static rc_bn_forward forward_of(const rc_run *r, const stem_case *p)
{
    return (rc_bn_forward){.partial = rc_at(r, p->partial),
                           .center = rc_at(r, p->center),
                           .gamma = rc_at(r, p->gamma),
                           .beta = rc_at(r, p->beta),
                           .running_mean = rc_at(r, p->running_mean),
                           .running_var = rc_at(r, p->running_var),
                           .scale = rc_at(r, p->scale),
                           .shift = rc_at(r, p->shift),
                           .mean = rc_at(r, p->mean),
                           .istd = rc_at(r, p->istd)};
}

static rc_bn_backward backward_of(const rc_run *r, const stem_case *p)
{
    return (rc_bn_backward){.partial = rc_at(r, p->partial),
                            .dgamma = rc_at(r, p->dgamma),
                            .dbeta = rc_at(r, p->dbeta),
                            .a = rc_at(r, p->a),
                            .b = rc_at(r, p->b),
                            .c = rc_at(r, p->c)};
}

/* The result of the convolution, with what it has pending. */
static rc_tensor result_of(const rc_run *r, const stem_case *p)
{
    rc_lazy shape = rc_lazy_of_shape(p->n, p->conv.h, p->conv.w, p->conv.c_out, p->groups);
    rc_tensor t = rc_run_tensor(r, &shape);
    t.scale = rc_at(r, p->scale);
    t.shift = rc_at(r, p->shift);
    t.mean = rc_at(r, p->mean);
    t.istd = rc_at(r, p->istd);
    t.act = RC_ACT_RELU;
    return t;
}

static void run_alone(rc_run *r, const stem_case *p, const rc_bn *bn)
{
    rc_backend *be = r->be;
    rc_tensor x = rc_run_tensor(r, &p->x), y = rc_run_tensor(r, &p->y), between = result_of(r, p);
    void *dweight = rc_at(r, p->dweight), *gradient = rc_at(r, p->gradient);
    const rc_epilogue epilogue = {.partial = rc_at(r, p->partial), .center = rc_at(r, p->center)};
    const rc_bn_forward forward = forward_of(r, p);
    const rc_bn_backward backward = backward_of(r, p);
    between.raw = rc_at(r, p->between);
    be->conv_forward(be, &p->conv, &x, rc_at(r, p->weight), NULL, &between, &epilogue);
    be->bn_train(be, bn, &between, &forward);
    be->max_pool_forward(be, &p->pool, &between, &y);
    const rc_grad dy = {.y = &y, .g = rc_at(r, p->g)}, by_value = {.y = &between, .g = gradient};
    const rc_grad by_raw = {&between, gradient, backward.a, backward.b, backward.c};
    const rc_back_epilogue overwrite = {.x = &between};
    be->max_pool_backward(be, &p->pool, &between, &dy, gradient, &overwrite);
    be->bn_backward_sums(be, &by_value, rc_at(r, p->partial));
    be->bn_backward(be, &between, true, &backward);
    be->conv_backward_weight(be, &p->conv, &x, &by_raw, dweight, NULL);
}

static void run_at_once(rc_run *r, const stem_case *p, const rc_bn *bn)
{
    rc_backend *be = r->be;
    rc_tensor x = rc_run_tensor(r, &p->x), y = rc_run_tensor(r, &p->y), between = result_of(r, p);
    const rc_conv none = {0};
    y.taps = rc_at(r, p->taps);
    const rc_fused_train layers[] = {
        {.layer = {.conv = &p->conv, .weight = rc_at(r, p->weight), .y = &between}, .bn = bn, .norm = forward_of(r, p)},
        {.layer = {.conv = &none, .y = &y, .pool = p->pool}}};
    be->fused_train(be, &x, layers, 2);
    rc_run_expect(r, p->x.value < 0 || x.stored, "has not marked the value of x as stored");
    const rc_grad dy = {.y = &y, .g = rc_at(r, p->g)}, inside = {.y = &between};
    const rc_fused_train_back back[] = {
        {.layer = {&p->conv, rc_at(r, p->weight), &inside}, .norm = backward_of(r, p), .dweight = rc_at(r, p->dweight)},
        {.layer = {&none, NULL, &dy}}};
    const rc_fused_train_gradients to = {.epilogue = {.x = &x}};
    be->fused_train_backward(be, back, 2, &to);
}

static void run_stem(rc_run *r)
{
    const stem_case *p = rc_run_parameters(r);
    const rc_bn bn = {1e-5f, 0.1f};
    if (is_taken(r->be, r->c))
        run_at_once(r, p, &bn);
    else
        run_alone(r, p, &bn);
}

static const rc_operation operations[] = {
    {"stem_train", "fused_train_backward", 9, 40, sizeof(stem_case), draw_stem, reserve, run_stem, NULL},
};
const rc_operation_list rc_cases_stem = {operations, sizeof operations / sizeof *operations};
