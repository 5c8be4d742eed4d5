/* Cases of pooling. */
#include "check/case.h"

#include <math.h>

typedef struct pool_case {
    rc_pool2d pool;
    rc_lazy x, y;
    rc_lazy_gradient dy;
    int features, dfeatures, dx;
    int forward, taps; /* backward: the result of a forward pass before it, which keeps taps; -1: there is none */
    bool stem, add;
    rc_back_sums back_sums;
    rc_conv conv; /* before the maximum, with its result between and what that has pending */
    rc_lazy between;
    int weight;
} pool_case;

/* Backward. A pixel is in so many windows that what a GPU remembers of them has no room in a block for all channels. */
static void choose_wide_window(pool_case *p, int shape[4])
{
    p->pool = (rc_pool2d){17, 1, 8};
    p->stem = false;
    shape[0] = 2;
    shape[1] = 3;
    shape[2] = 4;
    shape[3] = 72;
}

/* (n, h, w, c) -> (n, oh, ow, c) by PyTorch's rule: pad is at most half of the window. Half of them have the window of
 * a ResNet's stem, which may have code of its own. */
static void draw_window(rc_case *c, pool_case *p, bool wide, int shape[4], int *oh, int *ow)
{
    do {
        p->pool = (rc_pool2d){RC_CHOOSE(c, 2, 3, 3, 4), RC_CHOOSE(c, 1, 2, 2, 3), 0};
        p->pool.pad = (int)rc_case_below(c, (uint32_t)(p->pool.k / 2 + 1));
        p->stem = rc_case_chance(c, 50);
        if (p->stem)
            p->pool = (rc_pool2d){3, 2, 1};
        shape[0] = 1 + (int)rc_case_below(c, 4);
        shape[1] = RC_CHOOSE(c, 2, 3, 5, 7, 8, 14, 33);
        shape[2] = rc_case_chance(c, 60) ? shape[1] : RC_CHOOSE(c, 2, 3, 9, 37);
        shape[3] = RC_CHOOSE(c, 1, 3, 10, 16, 17);
        if (wide)
            choose_wide_window(p, shape);
        *oh = (shape[1] + 2 * p->pool.pad - p->pool.k + p->pool.stride) / p->pool.stride;
        *ow = (shape[2] + 2 * p->pool.pad - p->pool.k + p->pool.stride) / p->pool.stride;
    } while (shape[1] + 2 * p->pool.pad < p->pool.k || shape[2] + 2 * p->pool.pad < p->pool.k);
    rc_case_say(c, "%dx%d/%d pad %d (%d,%d,%d,%d)", p->pool.k, p->pool.k, p->pool.stride, p->pool.pad, shape[0],
                shape[1], shape[2], shape[3]);
}

/* A normalisation may turn the order of values round, or make them all equal. */
static void turn_channels(rc_case *c, const rc_lazy *x)
{
    bool turns = x->scale >= 0 && !x->stored; /* what is stored has its order already */
    for (int i = 0; turns && c->status == RC_OK && i < x->groups * x->c; i++) {
        double scale = c->buffer[x->scale].host[i];
        uint32_t turn = rc_case_below(c, 10);
        rc_case_set(c, x->scale, (size_t)i, turn == 0 ? 0 : turn <= 3 ? -scale : scale);
    }
}

/* ---- maximum -------------------------------------------------------------------------------------------------- */

static void draw_max_forward(rc_case *c)
{
    pool_case *p = rc_case_parameters(c);
    int s[4], oh, ow;
    draw_window(c, p, false, s, &oh, &ow);
    rc_groups groups = rc_case_groups(c, s[0]);
    p->x = rc_case_lazy(c, "x", s[0], s[1], s[2], s[3], groups,
                        RC_LAZY_BN | RC_LAZY_SKIP | RC_LAZY_ACT | RC_LAZY_VALUE | RC_LAZY_STORED, true);
    turn_channels(c, &p->x);
    p->y = rc_case_plain(c, "y", RC_OUT, s[0], oh, ow, s[3], groups);
    rc_case_sum(c, p->y.raw, 3);
}

static void run_max_forward(rc_run *r)
{
    const pool_case *p = rc_run_parameters(r);
    rc_tensor x = rc_run_tensor(r, &p->x), y = rc_run_tensor(r, &p->y);
    r->be->max_pool_forward(r->be, &p->pool, &x, &y);
    rc_run_expect(r, p->x.value < 0 || x.stored, "has not marked the value of x as stored");
}

static void draw_max_backward(rc_case *c)
{
    pool_case *p = rc_case_parameters(c);
    int s[4], oh, ow;
    draw_window(c, p, c->number == 0, s, &oh, &ow);
    rc_groups groups = rc_case_groups(c, s[0]);
    p->back_sums = rc_case_no_back_sums();
    bool sums = rc_case_chance(c, 50);
    p->x = rc_case_lazy(c, "x", s[0], s[1], s[2], s[3], groups, RC_LAZY_BN | RC_LAZY_ACT | RC_LAZY_STORED, !sums);
    turn_channels(c, &p->x);
    if (p->stem && rc_case_chance(c, 80)) /* nothing is pending after a stem's pool */
        p->dy = (rc_lazy_gradient){.y = rc_case_plain(c, "y", RC_IN, s[0], oh, ow, s[3], groups),
                                   .g = rc_case_act(c, "g", RC_IN, s[0], oh, ow, s[3]),
                                   .a = -1,
                                   .b = -1,
                                   .c = -1};
    else
        p->dy = rc_case_lazy_gradient(c, s[0], oh, ow, s[3], groups);
    p->add = rc_case_chance(c, 40);
    p->dx = rc_case_sum(c, rc_case_act(c, "dx", p->add ? RC_IN_OUT : RC_OUT, s[0], s[1], s[2], s[3]), 9);
    if (sums)
        p->back_sums = rc_case_back_sums(c, &p->x, 0);
    p->forward = p->taps = -1;
    if (rc_case_chance(c, 60)) {
        p->forward = rc_case_act(c, "y before", RC_SCRATCH, s[0], oh, ow, s[3]);
        p->taps = rc_case_buffer(c, "taps", RC_BUFFER_BYTE, RC_SCRATCH, s[0], oh, ow, (s[3] + 63) / 64 * 32);
        rc_case_say(c, " taps");
    }
}

static void run_max_backward(rc_run *r)
{
    const pool_case *p = rc_run_parameters(r);
    rc_tensor y, x = rc_run_tensor(r, &p->x);
    rc_grad dy = rc_run_gradient(r, &p->dy, &y);
    rc_back_epilogue epilogue = {.x = &x, .partial = rc_at(r, p->back_sums.partial), .add = p->add};
    if (p->taps >= 0) {
        rc_tensor forward = y;
        forward.raw = rc_at(r, p->forward);
        forward.taps = y.taps = rc_at(r, p->taps);
        r->be->max_pool_forward(r->be, &p->pool, &x, &forward);
    }
    r->be->max_pool_backward(r->be, &p->pool, &x, &dy, rc_at(r, p->dx), &epilogue);
    rc_run_back_sums(r, &p->back_sums, &x);
}

/* Numbers of 8 bits are often equal, and a maximum of equals has no derivative: sixteen levels, so placed that a window
 * of 4 x 4 has each of them once. */
static void spread_levels(rc_case *c, int buffer)
{
    const rc_buffer *b = &c->buffer[buffer];
    uint32_t first = rc_case_below(c, 16);
    for (size_t i = 0; i < b->count; i++) {
        size_t channel = i % (size_t)b->c, column = i / (size_t)b->c % (size_t)b->w;
        size_t row = i / (size_t)b->c / (size_t)b->w % (size_t)b->h;
        size_t level = (7 * (row % 4 * 4 + column % 4) + 5 * channel + first) % 16;
        rc_case_set(c, buffer, i, (double)level - 7.5);
    }
}

/* Forward and backward, for finite differences. */
static void draw_max_chain(rc_case *c)
{
    pool_case *p = rc_case_parameters(c);
    int s[4], oh, ow;
    draw_window(c, p, false, s, &oh, &ow);
    rc_groups groups = {1, {s[0]}};
    p->x = rc_case_plain(c, "x", RC_IN, s[0], s[1], s[2], s[3], groups);
    if (c->act_bits < 24)
        spread_levels(c, p->x.raw);
    p->y = rc_case_plain(c, "y", RC_OUT, s[0], oh, ow, s[3], groups);
    p->dy.g = c->buffer[p->y.raw].cotangent = rc_case_act(c, "g", RC_IN, s[0], oh, ow, s[3]);
    p->dx = rc_case_gradient(c, rc_case_act(c, "dx", RC_OUT, s[0], s[1], s[2], s[3]), p->x.raw, 9);
}

static void run_max_chain(rc_run *r)
{
    const pool_case *p = rc_run_parameters(r);
    rc_tensor x = rc_run_tensor(r, &p->x), y = rc_run_tensor(r, &p->y);
    rc_grad dy = {&y, rc_at(r, p->dy.g), NULL, NULL, NULL};
    rc_back_epilogue epilogue = {.x = &x};
    r->be->max_pool_forward(r->be, &p->pool, &x, &y);
    r->be->max_pool_backward(r->be, &p->pool, &x, &dy, rc_at(r, p->dx), &epilogue);
}

/* ---- behind a convolution -------------------------------------------------------------------------------------- */

/* A first layer without gradients, and the pool of a ResNet's stem behind it, for backends that run both at once. The
 * first cases have one strip of windows, two, and one more window than a strip has. */
static const struct {
    int h, w, c_in, c_out, n;
} first_layers[] = {{8, 30, 3, 64, 2}, {6, 32, 3, 64, 3}, {34, 60, 1, 64, 1}, {2, 2, 8, 128, 5}, {16, 62, 3, 64, 1}};
enum { FIRST_LAYERS = sizeof first_layers / sizeof *first_layers };

/* Asks the backend as a pass does. */
static bool takes_pooled(rc_backend *be, const rc_case *c)
{
    const pool_case *p = (const pool_case *)c->parameters.bytes;
    const rc_fusible layers[] = {{.plain = true, .conv = p->conv, .act = RC_ACT_RELU, .in = -1, .skip = -1},
                                 {.pool = p->pool, .in = 0, .skip = -1, .output = true}};
    return be->fuse && be->fuse(be, layers, 2, 0, p->y.n, false) == 2;
}

static void draw_pooled(rc_case *c)
{
    pool_case *p = rc_case_parameters(c);
    bool common = c->number < FIRST_LAYERS;
    int n = common ? first_layers[c->number].n : 1 + (int)rc_case_below(c, 4);
    int h = common ? first_layers[c->number].h : RC_CHOOSE(c, 2, 4, 10, 20);
    int w = common ? first_layers[c->number].w : RC_CHOOSE(c, 2, 12, 28, 34, 64);
    int c_in = common ? first_layers[c->number].c_in : RC_CHOOSE(c, 1, 3, 5, 8);
    int c_out = common ? first_layers[c->number].c_out : RC_CHOOSE(c, 64, 64, 128);
    rc_groups groups = {1, {n}};
    p->pool = (rc_pool2d){3, 2, 1};
    p->conv = (rc_conv){
        .c_in = c_in, .c_out = c_out, .k = 3, .stride = 1, .pad = 1, .up = 1, .h = h, .w = w, .oh = h, .ow = w};
    rc_case_say(c, "(%d,%d,%d,%d)->%d", n, h, w, c_in, c_out);
    int pending = RC_LAZY_BN | RC_LAZY_SKIP | RC_LAZY_ACT | RC_LAZY_VALUE | RC_LAZY_STORED;
    p->x = rc_case_lazy(c, "x", n, h, w, c_in, groups, c->number % 2 == 0 ? 0 : pending, true);
    p->weight = rc_case_parameter(c, "weight", RC_IN, c_out, c_in * 9, 1 / sqrt(9.0 * c_in));
    p->between = rc_case_lazy(c, "between", n, h, w, c_out, groups, RC_LAZY_OUTPUT | RC_LAZY_BN | RC_LAZY_RELU, false);
    turn_channels(c, &p->between);
    c->buffer[p->between.raw].role = RC_SCRATCH;
    p->y = rc_case_plain(c, "y", RC_OUT, n, h / 2, w / 2, c_out, groups);
    rc_case_sum(c, p->y.raw, 9.0 * c_in);
    c->takes = takes_pooled;
}

static rc_status reserve_pooled(rc_run *r)
{
    const pool_case *p = rc_run_parameters(r);
    return r->be->reserve_conv(r->be, &p->conv, p->y.n);
}

static void run_pooled(rc_run *r)
{
    const pool_case *p = rc_run_parameters(r);
    rc_tensor x = rc_run_tensor(r, &p->x), between = rc_run_tensor(r, &p->between), y = rc_run_tensor(r, &p->y);
    const rc_epilogue epilogue = {.apply = true};
    if (takes_pooled(r->be, r->c)) {
        between.raw = NULL;
        const rc_fused layers[] = {
            {.conv = &p->conv, .weight = rc_at(r, p->weight), .y = &between, .epilogue = epilogue},
            {.y = &y, .epilogue = epilogue, .pool = p->pool}};
        r->be->fused_forward(r->be, &x, layers, 2);
        rc_run_expect(r, p->x.value < 0 || x.stored, "has not marked the value of x as stored");
        return;
    }
    r->be->conv_forward(r->be, &p->conv, &x, rc_at(r, p->weight), NULL, &between, &epilogue);
    rc_tensor finished = between;
    finished.scale = finished.shift = finished.mean = finished.istd = NULL;
    finished.act = RC_ACT_NONE;
    r->be->max_pool_forward(r->be, &p->pool, &finished, &y);
}

/* ---- average -------------------------------------------------------------------------------------------------- */

static void draw_average_forward(rc_case *c)
{
    pool_case *p = rc_case_parameters(c);
    int n = 1 + (int)rc_case_below(c, 5), size = RC_CHOOSE(c, 1, 2, 4, 7, 8, 16), channels = RC_CHOOSE(c, 1, 3, 17, 64);
    int width = rc_case_chance(c, 80) ? size : 3;
    rc_case_say(c, "(%d,%d,%d,%d)", n, size, width, channels);
    p->x = rc_case_lazy(c, "x", n, size, width, channels, rc_case_groups(c, n),
                        RC_LAZY_BN | RC_LAZY_SKIP | RC_LAZY_ACT | RC_LAZY_VALUE | RC_LAZY_STORED, true);
    p->features = rc_case_sum(c, rc_case_real(c, "features", RC_OUT, n, channels), (double)size * width);
    /* A mean of numbers of size 1 that may cancel. */
    c->buffer[p->features].magnitude = 0.3;
}

static void run_average_forward(rc_run *r)
{
    const pool_case *p = rc_run_parameters(r);
    rc_tensor x = rc_run_tensor(r, &p->x);
    r->be->average_pool_forward(r->be, &x, rc_at(r, p->features));
    rc_run_expect(r, p->x.value < 0 || x.stored, "has not marked the value of x as stored");
}

static void draw_average_backward(rc_case *c)
{
    pool_case *p = rc_case_parameters(c);
    int n = 1 + (int)rc_case_below(c, 5), size = RC_CHOOSE(c, 1, 2, 4, 7, 8, 16), channels = RC_CHOOSE(c, 1, 3, 17, 64);
    rc_case_say(c, "(%d,%d,%d,%d)", n, size, size, channels);
    p->back_sums = rc_case_no_back_sums();
    bool sums = rc_case_chance(c, 60);
    p->x = rc_case_lazy(c, "x", n, size, size, channels, rc_case_groups(c, n),
                        RC_LAZY_BN | RC_LAZY_SKIP | RC_LAZY_ACT | RC_LAZY_STORED, !sums);
    p->dfeatures = rc_case_real(c, "dfeatures", RC_IN, n, channels);
    p->add = rc_case_chance(c, 40);
    p->dx = rc_case_act(c, "dx", p->add ? RC_IN_OUT : RC_OUT, n, size, size, channels);
    if (sums)
        p->back_sums = rc_case_back_sums(c, &p->x, 0);
}

static void run_average_backward(rc_run *r)
{
    const pool_case *p = rc_run_parameters(r);
    rc_tensor x = rc_run_tensor(r, &p->x);
    rc_back_epilogue epilogue = {.x = &x, .partial = rc_at(r, p->back_sums.partial), .add = p->add};
    r->be->average_pool_backward(r->be, rc_at(r, p->dfeatures), rc_at(r, p->dx), &epilogue);
    rc_run_back_sums(r, &p->back_sums, &x);
}

static void draw_average_chain(rc_case *c)
{
    pool_case *p = rc_case_parameters(c);
    int n = 1 + (int)rc_case_below(c, 3), size = RC_CHOOSE(c, 1, 2, 3, 4), channels = RC_CHOOSE(c, 1, 3, 6);
    rc_case_say(c, "(%d,%d,%d,%d)", n, size, size, channels);
    p->x = rc_case_plain(c, "x", RC_IN, n, size, size, channels, (rc_groups){1, {n}});
    p->features = rc_case_sum(c, rc_case_real(c, "features", RC_OUT, n, channels), (double)size * size);
    c->buffer[p->features].magnitude = 0.3;
    p->dfeatures = c->buffer[p->features].cotangent = rc_case_real(c, "dfeatures", RC_IN, n, channels);
    p->dx = rc_case_gradient(c, rc_case_act(c, "dx", RC_OUT, n, size, size, channels), p->x.raw, 1);
}

static void run_average_chain(rc_run *r)
{
    const pool_case *p = rc_run_parameters(r);
    rc_tensor x = rc_run_tensor(r, &p->x);
    rc_back_epilogue epilogue = {.x = &x};
    r->be->average_pool_forward(r->be, &x, rc_at(r, p->features));
    r->be->average_pool_backward(r->be, rc_at(r, p->dfeatures), rc_at(r, p->dx), &epilogue);
}

static const rc_operation operations[] = {
    {"max_pool_forward", "max_pool_forward", 20, 150, sizeof(pool_case), draw_max_forward, NULL, run_max_forward, NULL},
    {"max_pool_backward", "max_pool_backward", 20, 150, sizeof(pool_case), draw_max_backward, NULL, run_max_backward,
     NULL},
    {"max_pool_chain", "max_pool_forward max_pool_backward", 10, 50, sizeof(pool_case), draw_max_chain, NULL,
     run_max_chain, NULL},
    {"conv_and_max_pool", "fused_forward", 12, 60, sizeof(pool_case), draw_pooled, reserve_pooled, run_pooled, NULL},
    {"average_pool_forward", "average_pool_forward", 20, 150, sizeof(pool_case), draw_average_forward, NULL,
     run_average_forward, NULL},
    {"average_pool_backward", "average_pool_backward", 20, 150, sizeof(pool_case), draw_average_backward, NULL,
     run_average_backward, NULL},
    {"average_pool_chain", "average_pool_forward average_pool_backward", 10, 50, sizeof(pool_case), draw_average_chain,
     NULL, run_average_chain, NULL},
};
const rc_operation_list rc_cases_pool = {operations, sizeof operations / sizeof *operations};
