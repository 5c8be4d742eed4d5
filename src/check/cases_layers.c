/* Whole layers: what a layer does forward and backward, as the interpreter of nets calls it, with the gradient of
 * everything that has one checked by finite differences:
 *
 *     value = act(bn(op(value of x) + bias) + skip of y),   x itself normalised, with skip and activation pending
 *
 * op is a convolution, a linear layer or a copy; bn uses statistics of the batch, or the running ones, where mean and
 * variance of the batch are outputs that take gradients too (as in inversion), or is absent. */
#include "check/case.h"

#include <math.h>

typedef enum layer_op { CONV, LINEAR, COPY } layer_op;
typedef enum layer_bn { NO_BN, TRAIN, FROZEN } layer_bn;

typedef struct layer_case {
    layer_op op;
    layer_bn mode;
    rc_conv conv;
    rc_linear linear;
    rc_bn bn;
    int n;
    rc_lazy x, y;
    int weight, bias, gamma, beta, running_mean, running_var;
    int partial, scale, shift, mean, istd, batch_mean, batch_var, dbatch_mean, dbatch_var;
    int g, a, b, c;                    /* of y */
    int dvalue, x_partial, xa, xb, xc; /* of x: dL/dvalue, and the coefficients that make dL/draw of it */
    int dweight, dbias, dgamma, dbeta, dx, dskip, dx_skip;
} layer_case;

/* ---- geometry ------------------------------------------------------------------------------------------------- */

static void draw_conv(rc_case *c, layer_case *p)
{
    rc_conv *v = &p->conv;
    do {
        *v = (rc_conv){.c_in = RC_CHOOSE(c, 1, 3, 4, 5), .c_out = RC_CHOOSE(c, 1, 2, 3, 5), .up = 1};
        v->k = RC_CHOOSE(c, 1, 2, 3, 3, 4);
        v->stride = RC_CHOOSE(c, 1, 1, 2, 3);
        v->pad = rc_case_chance(c, 60) ? v->k / 2 : (int)rc_case_below(c, (uint32_t)v->k);
        v->h = RC_CHOOSE(c, 2, 3, 4, 5);
        v->w = RC_CHOOSE(c, 2, 3, 4, 5);
        v->transposed = rc_case_chance(c, 20);
        if (!v->transposed && rc_case_chance(c, 30))
            v->up = 2;
        if (v->transposed) {
            v->oh = (v->h - 1) * v->stride - 2 * v->pad + v->k;
            v->ow = (v->w - 1) * v->stride - 2 * v->pad + v->k;
        } else {
            v->oh = (v->h * v->up + 2 * v->pad - v->k + v->stride) / v->stride;
            v->ow = (v->w * v->up + 2 * v->pad - v->k + v->stride) / v->stride;
        }
    } while (v->oh < 1 || v->ow < 1 || v->h * v->up + 2 * v->pad < v->k || v->w * v->up + 2 * v->pad < v->k);
    rc_case_say(c, "%s%dx%d/%d pad %d up %d (%d,%d,%d,%d)->(%d,%d,%d)", v->transposed ? "transposed " : "", v->k, v->k,
                v->stride, v->pad, v->up, p->n, v->h, v->w, v->c_in, v->oh, v->ow, v->c_out);
}

/* Shapes of x and y, and the weights. */
static void draw_operation(rc_case *c, layer_case *p, int from[3], int to[3])
{
    p->weight = p->bias = -1;
    if (p->op == CONV) {
        draw_conv(c, p);
        const rc_conv *v = &p->conv;
        from[0] = v->h, from[1] = v->w, from[2] = v->c_in;
        to[0] = v->oh, to[1] = v->ow, to[2] = v->c_out;
        p->weight = rc_case_parameter(c, "weight", RC_IN, v->c_in * v->c_out, v->k * v->k,
                                      1 / sqrt((double)v->c_in * v->k * v->k));
    } else if (p->op == LINEAR) {
        rc_linear *l = &p->linear;
        *l = (rc_linear){.c_in = RC_CHOOSE(c, 1, 3, 7), .c = RC_CHOOSE(c, 1, 3, 5)};
        l->h = RC_CHOOSE(c, 1, 2, 3);
        l->w = RC_CHOOSE(c, 1, 2, 3);
        from[0] = from[1] = 1, from[2] = l->c_in;
        to[0] = l->h, to[1] = l->w, to[2] = l->c;
        p->weight = rc_case_parameter(c, "weight", RC_IN, l->c * l->h * l->w, l->c_in, 1 / sqrt((double)l->c_in));
        rc_case_say(c, "(%d,%d)->(%d,%d,%d)", p->n, l->c_in, l->h, l->w, l->c);
    } else {
        from[0] = to[0] = RC_CHOOSE(c, 2, 3, 5), from[1] = to[1] = RC_CHOOSE(c, 2, 3, 5);
        from[2] = to[2] = RC_CHOOSE(c, 1, 3, 5);
        rc_case_say(c, "(%d,%d,%d,%d)", p->n, from[0], from[1], from[2]);
    }
    if (p->op != COPY && rc_case_chance(c, 60))
        p->bias = rc_case_parameter(c, "bias", RC_IN, 1, p->op == CONV ? to[2] : to[0] * to[1] * to[2], 0.5);
}

/* ---- buffers -------------------------------------------------------------------------------------------------- */

static int channel(rc_case *c, const char *name, rc_buffer_role role, int groups, int channels, double terms)
{
    int buffer = rc_case_sum(c, rc_case_channel(c, name, role, groups, channels), terms);
    c->buffer[buffer].stored_act = true;
    c->buffer[buffer].magnitude = 1;
    return buffer;
}

static int gradient(rc_case *c, const char *name, rc_buffer_kind kind, int of, double terms)
{
    const rc_buffer *b = &c->buffer[of];
    int buffer = rc_case_buffer(c, name, kind, RC_OUT, b->n, b->h, b->w, b->c);
    c->buffer[buffer].stored_act = true;
    /* Sums over samples may cancel: normalisation even takes a bias out again, and its gradient is 0. */
    c->buffer[buffer].magnitude = kind == RC_BUFFER_PARAMETER ? 1 : 0;
    return rc_case_gradient(c, buffer, of, terms);
}

static void draw_normalisation(rc_case *c, layer_case *p, double samples)
{
    int groups = p->y.groups, channels = p->y.c;
    p->bn = (rc_bn){rc_case_chance(c, 50) ? 0.8f : 1e-2f, 0.1f};
    p->gamma = rc_case_parameter(c, "gamma", RC_IN, 1, channels, 1);
    p->beta = rc_case_parameter(c, "beta", RC_IN, 1, channels, 1);
    p->running_mean = rc_case_parameter(c, "running_mean", p->mode == TRAIN ? RC_STATE : RC_IN, 1, channels, 0.5);
    p->running_var = rc_case_parameter(c, "running_var", p->mode == TRAIN ? RC_STATE : RC_IN, 1, channels, 0);
    rc_case_fill(c, p->running_var, 1, 0.1);
    p->partial = rc_case_partial(c, "partial", p->n, p->y.h, p->y.w, channels);
    p->scale = p->y.scale = channel(c, "scale", RC_OUT, groups, channels, samples);
    p->shift = p->y.shift = channel(c, "shift", RC_OUT, groups, channels, samples);
    p->mean = p->y.mean = channel(c, "mean", RC_OUT, groups, channels, samples);
    p->istd = p->y.istd = channel(c, "istd", RC_OUT, groups, channels, samples);
    p->a = channel(c, "a", RC_OUT, groups, channels, samples);
    p->b = channel(c, "b", RC_OUT, groups, channels, samples);
    p->c = channel(c, "c", RC_OUT, groups, channels, samples);
    p->dgamma = gradient(c, "dgamma", RC_BUFFER_PARAMETER, p->gamma, samples);
    p->dbeta = gradient(c, "dbeta", RC_BUFFER_PARAMETER, p->beta, samples);
    p->batch_mean = p->batch_var = p->dbatch_mean = p->dbatch_var = -1;
    if (p->mode == FROZEN) {
        p->dbatch_mean = rc_case_channel(c, "dL/dmean", RC_IN, 1, channels);
        p->dbatch_var = rc_case_channel(c, "dL/dvar", RC_IN, 1, channels);
        p->batch_mean = channel(c, "batch mean", RC_OUT, 1, channels, samples);
        p->batch_var = channel(c, "batch var", RC_OUT, 1, channels, samples);
        c->buffer[p->batch_mean].cotangent = p->dbatch_mean;
        c->buffer[p->batch_var].cotangent = p->dbatch_var;
    }
}

static void draw_gradients(rc_case *c, layer_case *p, double terms, double samples)
{
    p->dvalue = rc_case_sum(c, rc_case_act(c, "dL/dvalue of x", RC_OUT, p->n, p->x.h, p->x.w, p->x.c), terms);
    p->dx = gradient(c, "dx", RC_BUFFER_ACT, p->x.raw, terms);
    p->dweight = p->dbias = p->dskip = p->dx_skip = p->xa = p->xb = p->xc = -1;
    if (p->weight >= 0)
        p->dweight = gradient(c, "dweight", RC_BUFFER_PARAMETER, p->weight, samples);
    if (p->bias >= 0)
        p->dbias = gradient(c, "dbias", RC_BUFFER_PARAMETER, p->bias, samples);
    /* Where normalisation takes the bias out again, what is left is the rounding of a, b and c. All samples share it,
     * so it adds up where other errors average out. */
    if (p->bias >= 0 && p->mode == TRAIN)
        c->buffer[p->dbias].magnitude = sqrt(samples);
    if (p->y.skip >= 0)
        p->dskip = gradient(c, "dskip", RC_BUFFER_ACT, p->y.skip, 1);
    if (p->x.skip >= 0)
        p->dx_skip = gradient(c, "dskip of x", RC_BUFFER_ACT, p->x.skip, terms);
    if (p->x.scale >= 0) {
        p->xa = channel(c, "a of x", RC_OUT, p->x.groups, p->x.c, 1);
        p->xb = channel(c, "b of x", RC_OUT, p->x.groups, p->x.c, 1);
        p->xc = channel(c, "c of x", RC_OUT, p->x.groups, p->x.c, 1);
    }
}

static void draw_layer(rc_case *c, layer_op op)
{
    layer_case *p = rc_case_parameters(c);
    int from[3], to[3];
    p->op = op;
    p->n = op == LINEAR ? 8 + (int)rc_case_below(c, 3) : 2 + (int)rc_case_below(c, 3);
    p->mode = (layer_bn)RC_CHOOSE(c, NO_BN, TRAIN, TRAIN, FROZEN);
    draw_operation(c, p, from, to);
    rc_groups groups = {1, {p->n}};
    if (p->mode != FROZEN)
        groups = rc_case_groups(c, p->n);
    p->x = rc_case_lazy(c, "x", p->n, from[0], from[1], from[2], groups, RC_LAZY_BN | RC_LAZY_SKIP | RC_LAZY_ACT, true);
    p->y = rc_case_lazy(c, "y", p->n, to[0], to[1], to[2], groups, RC_LAZY_OUTPUT | RC_LAZY_SKIP | RC_LAZY_ACT, true);
    if (p->mode == TRAIN && !rc_lazy_has_statistics(&p->y))
        p->mode = NO_BN;
    double terms = op == CONV ? (double)p->conv.c_in * p->conv.k * p->conv.k : from[2];
    double samples = (double)p->n * to[0] * to[1];
    rc_case_sum(c, p->y.raw, terms);
    p->a = p->b = p->c = p->partial = -1;
    if (p->mode != NO_BN)
        draw_normalisation(c, p, samples);
    rc_case_say(c, p->mode == NO_BN ? " no bn" : p->mode == TRAIN ? " train" : " frozen");
    p->g = rc_case_act(c, "g", RC_IN, p->n, to[0], to[1], to[2]);
    p->y.value = rc_case_sum(c, rc_case_act(c, "value", RC_OUT, p->n, to[0], to[1], to[2]), terms + samples);
    c->buffer[p->y.value].cotangent = p->g;
    draw_gradients(c, p, terms + samples, samples);
}

/* ---- running -------------------------------------------------------------------------------------------------- */

static rc_status reserve(rc_run *r)
{
    const layer_case *p = rc_run_parameters(r);
    if (p->op == CONV)
        return r->be->reserve_conv(r->be, &p->conv, p->n);
    return p->op == LINEAR ? r->be->reserve_linear(r->be, &p->linear, p->n) : RC_OK;
}

static void forward(rc_run *r, const layer_case *p, rc_tensor *x, rc_tensor *y)
{
    rc_backend *be = r->be;
    void *weight = rc_at(r, p->weight), *bias = rc_at(r, p->bias), *partial = rc_at(r, p->partial);
    void *center = p->mode == NO_BN ? NULL : rc_at(r, p->running_mean);
    rc_epilogue epilogue = {partial, center, false};
    if (p->op == CONV)
        be->conv_forward(be, &p->conv, x, weight, bias, y, &epilogue);
    else if (p->op == LINEAR)
        be->linear_forward(be, &p->linear, x, weight, bias, y, &epilogue);
    else
        be->copy_forward(be, x, y, &epilogue);
    const rc_bn_forward f = {.partial = partial,
                             .center = center,
                             .gamma = rc_at(r, p->gamma),
                             .beta = rc_at(r, p->beta),
                             .running_mean = center,
                             .running_var = rc_at(r, p->running_var),
                             .scale = rc_at(r, p->scale),
                             .shift = rc_at(r, p->shift),
                             .mean = rc_at(r, p->mean),
                             .istd = rc_at(r, p->istd)};
    if (p->mode == FROZEN) {
        be->bn_statistics(be, y, partial, center, rc_at(r, p->batch_mean), rc_at(r, p->batch_var));
        be->bn_eval(be, &p->bn, y, &f);
    } else if (p->mode == TRAIN) {
        be->bn_train(be, &p->bn, y, &f);
    }
    be->materialise(be, y);
}

static void backward(rc_run *r, const layer_case *p, const rc_tensor *x, const rc_tensor *y)
{
    rc_backend *be = r->be;
    rc_grad dy = {y, rc_at(r, p->g), rc_at(r, p->a), rc_at(r, p->b), rc_at(r, p->c)};
    rc_back_epilogue plain = {.x = x};
    if (p->mode != NO_BN) {
        be->bn_backward_sums(be, &dy, rc_at(r, p->partial));
        const rc_bn_backward back = {.partial = rc_at(r, p->partial),
                                     .dmean = rc_at(r, p->dbatch_mean),
                                     .dvar = rc_at(r, p->dbatch_var),
                                     .batch_mean = rc_at(r, p->batch_mean),
                                     .dgamma = rc_at(r, p->dgamma),
                                     .dbeta = rc_at(r, p->dbeta),
                                     .a = rc_at(r, p->a),
                                     .b = rc_at(r, p->b),
                                     .c = rc_at(r, p->c)};
        be->bn_backward(be, y, p->mode == TRAIN, &back);
    }
    if (p->op == CONV) {
        be->conv_backward_weight(be, &p->conv, x, &dy, rc_at(r, p->dweight), rc_at(r, p->dbias));
        be->conv_backward_data(be, &p->conv, &dy, rc_at(r, p->weight), rc_at(r, p->dvalue), &plain);
    } else if (p->op == LINEAR) {
        be->linear_backward_weight(be, &p->linear, x, &dy, rc_at(r, p->dweight), rc_at(r, p->dbias));
        be->linear_backward_data(be, &p->linear, &dy, rc_at(r, p->weight), rc_at(r, p->dvalue), &plain);
    } else {
        be->copy_backward(be, &dy, rc_at(r, p->dvalue), &plain);
    }
    /* dL/dvalue of x is through its activation, and x is normalised by constants. */
    rc_grad dx = {x, rc_at(r, p->dvalue), rc_at(r, p->xa), rc_at(r, p->xb), rc_at(r, p->xc)};
    const rc_bn_backward of_x = {.a = rc_at(r, p->xa), .b = rc_at(r, p->xb), .c = rc_at(r, p->xc)};
    if (p->x.scale >= 0)
        be->bn_backward(be, x, false, &of_x);
    be->copy_backward(be, &dx, rc_at(r, p->dx), &plain);
    rc_tensor of_skip = {.n = p->n,
                         .h = p->y.skip_h,
                         .w = p->y.skip_w,
                         .c = p->y.skip_c,
                         .groups = 1,
                         .group_end = {p->n},
                         .raw = rc_at(r, p->y.skip)};
    rc_back_epilogue to_skip = {.x = &of_skip};
    if (p->dskip >= 0)
        be->skip_backward(be, &dy, rc_at(r, p->dskip), &to_skip);
    of_skip.h = p->x.skip_h, of_skip.w = p->x.skip_w, of_skip.c = p->x.skip_c, of_skip.raw = rc_at(r, p->x.skip);
    if (p->dx_skip >= 0)
        be->skip_backward(be, &dx, rc_at(r, p->dx_skip), &to_skip);
}

static void run_layer(rc_run *r)
{
    const layer_case *p = rc_run_parameters(r);
    rc_tensor x = rc_run_tensor(r, &p->x), y = rc_run_tensor(r, &p->y);
    forward(r, p, &x, &y);
    backward(r, p, &x, &y);
}

static void draw_conv_layer(rc_case *c)
{
    draw_layer(c, CONV);
}

static void draw_linear_layer(rc_case *c)
{
    draw_layer(c, LINEAR);
}

static void draw_copy_layer(rc_case *c)
{
    draw_layer(c, COPY);
}

static const rc_operation operations[] = {
    {"conv_chain", "conv_forward conv_backward_data conv_backward_weight", 40, 300, sizeof(layer_case), draw_conv_layer,
     reserve, run_layer, NULL},
    {"linear_chain", "linear_forward linear_backward_data linear_backward_weight", 20, 150, sizeof(layer_case),
     draw_linear_layer, reserve, run_layer, NULL},
    {"norm_chain",
     "bn_train bn_eval bn_statistics bn_backward_sums bn_backward copy_forward copy_backward materialise skip_backward",
     40, 300, sizeof(layer_case), draw_copy_layer, reserve, run_layer, NULL},
};
const rc_operation_list rc_cases_layers = {operations, sizeof operations / sizeof *operations};
