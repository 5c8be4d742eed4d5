/* Cases of the convolution, and of the depthwise one: forward, with respect to the data, with respect to the
 * weights. */
#include "check/case.h"

#include <math.h>
#include <string.h>

typedef struct conv_case {
    rc_conv conv;
    bool depthwise;
    int n;
    rc_lazy x, y;        /* forward */
    rc_lazy_gradient dy; /* backward */
    int weight, bias;
    bool apply;
    rc_sums sums;
    rc_back_sums back_sums;
    int dx;
    bool add;
    int dweight, dbias;
    rc_conv beside; /* a convolution of the same input, if it has a kernel */
    rc_lazy_gradient beside_dy;
    int beside_weight;
} conv_case;

/* ---- geometry ------------------------------------------------------------------------------------------------- */

static double macs(const rc_conv *v, int n)
{
    double positions = v->transposed ? (double)v->h * v->w : (double)v->oh * v->ow;
    return positions * n * v->c_in * v->c_out * v->k * v->k;
}

/* Channels of the input that one of the result is made of, and the other way round. */
static int inputs(const conv_case *p)
{
    return p->depthwise ? 1 : p->conv.c_in;
}

static int outputs(const conv_case *p)
{
    return p->depthwise ? 1 : p->conv.c_out;
}

static bool fits(rc_conv *v)
{
    if (v->transposed) {
        v->oh = (v->h - 1) * v->stride - 2 * v->pad + v->k;
        v->ow = (v->w - 1) * v->stride - 2 * v->pad + v->k;
    } else {
        int h = v->h * v->up + 2 * v->pad - v->k, w = v->w * v->up + 2 * v->pad - v->k;
        if (h < 0 || w < 0)
            return false;
        v->oh = h / v->stride + 1;
        v->ow = w / v->stride + 1;
    }
    return v->oh > 0 && v->ow > 0;
}

/* The first cases of every list are the shapes that nets are made of; the others are anything that fits. */
static const struct {
    int c_in, c_out, k, stride, pad, up, size;
    bool transposed;
} common[] = {
    {3, 16, 3, 1, 1, 1, 32, false},   {16, 16, 3, 1, 1, 1, 33, false},  {16, 32, 3, 2, 1, 1, 32, false},
    {32, 32, 3, 1, 1, 1, 16, false},  {32, 64, 3, 2, 1, 1, 16, false},  {64, 64, 3, 1, 1, 1, 8, false},
    {16, 32, 1, 2, 0, 1, 14, false},  {64, 32, 3, 1, 1, 2, 8, false},   {32, 3, 3, 1, 1, 1, 28, false},
    {32, 64, 3, 1, 1, 2, 7, false},   {3, 16, 4, 2, 1, 1, 32, false},   {32, 16, 4, 2, 1, 1, 8, true},
    {16, 3, 4, 2, 1, 1, 16, true},    {1, 16, 3, 1, 1, 1, 28, false},   {3, 64, 7, 2, 3, 1, 33, false},
    {64, 100, 4, 1, 0, 1, 4, false},  {128, 128, 3, 1, 1, 2, 4, false}, {128, 64, 3, 1, 1, 2, 5, false},
    {128, 64, 3, 1, 1, 1, 14, false}, {64, 64, 3, 2, 1, 1, 28, false},  {64, 64, 3, 1, 1, 1, 20, false},
    {64, 64, 3, 1, 1, 2, 14, false},  {64, 128, 1, 2, 0, 1, 28, false}, {64, 64, 1, 1, 0, 1, 66, false},
    {18, 10, 5, 1, 0, 1, 5, false},   {64, 36, 4, 1, 0, 1, 4, false},   {40, 64, 3, 1, 0, 1, 3, false},
    {96, 24, 4, 1, 0, 1, 4, false},   {30, 72, 4, 1, 0, 1, 4, false},   {3, 64, 3, 1, 1, 1, 33, false},
    {1, 128, 3, 1, 1, 1, 17, false},  {3, 64, 3, 1, 1, 1, 32, false},   {64, 3, 3, 2, 1, 1, 9, false},
};

static rc_conv draw_any(rc_case *c)
{
    for (;;) {
        rc_conv v = {.up = 1};
        v.c_in = RC_CHOOSE(c, 1, 3, 10, 17, 16, 32, 64, 5, 8, 100, 128);
        v.c_out = RC_CHOOSE(c, 1, 3, 10, 17, 16, 32, 64, 5, 8, 100, 128);
        v.k = RC_CHOOSE(c, 1, 3, 3, 3, 4, 5, 2);
        v.stride = RC_CHOOSE(c, 1, 1, 2, 3);
        v.pad = rc_case_chance(c, 60) ? v.k / 2 : (int)rc_case_below(c, (uint32_t)v.k);
        v.h = RC_CHOOSE(c, 1, 3, 5, 7, 8, 13, 16, 28, 33);
        v.w = rc_case_chance(c, 60) ? v.h : RC_CHOOSE(c, 1, 3, 4, 5, 7, 16, 33);
        if (!c->quick && rc_case_chance(c, 5))
            v.h = v.w = 84;
        v.transposed = rc_case_chance(c, 15);
        if (!v.transposed && rc_case_chance(c, 25)) {
            v.up = 2;
            if (rc_case_chance(c, 80)) {
                v.k = 3;
                v.stride = v.pad = 1;
            }
        }
        if (fits(&v) && macs(&v, 1) <= (c->quick ? 2e6 : 3e7))
            return v;
    }
}

static void say_geometry(rc_case *c, const rc_conv *v, int n)
{
    rc_case_say(c, "%s%dx%d/%d pad %d%s (%d,%d,%d,%d)->(%d,%d,%d)", v->transposed ? "transposed " : "", v->k, v->k,
                v->stride, v->pad, v->up == 2 ? " up 2" : "", n, v->h, v->w, v->c_in, v->oh, v->ow, v->c_out);
}

static void draw_geometry(rc_case *c, conv_case *p)
{
    rc_conv v = {0};
    if (c->number < sizeof common / sizeof *common) {
        int i = (int)c->number;
        v = (rc_conv){.c_in = common[i].c_in,
                      .c_out = common[i].c_out,
                      .k = common[i].k,
                      .stride = common[i].stride,
                      .pad = common[i].pad,
                      .up = common[i].up,
                      .transposed = common[i].transposed,
                      .h = common[i].size,
                      .w = common[i].size};
        fits(&v);
    } else {
        v = draw_any(c);
    }
    p->conv = v;
    p->n = 1 + (int)rc_case_below(c, rc_case_chance(c, 20) ? 40 : 5);
    while (p->n > 1 && macs(&v, p->n) > (c->quick ? 3e6 : 6e7))
        p->n--;
    say_geometry(c, &v, p->n);
}

static int draw_weight(rc_case *c, const conv_case *p)
{
    const rc_conv *v = &p->conv;
    double spread = 1 / sqrt((double)inputs(p) * v->k * v->k);
    if (v->transposed)
        return rc_case_parameter(c, "weight", RC_IN, v->c_in, v->c_out * v->k * v->k, spread);
    return rc_case_parameter(c, "weight", RC_IN, v->c_out, inputs(p) * v->k * v->k, spread);
}

/* Paddings that differ before and behind, most of them TensorFlow's. Depthwise: every case. The first are layers of
 * nets. */
static const struct {
    int c_in, c_out, k, stride, pad, behind, size;
} uneven[] = {
    {3, 32, 3, 2, 0, 1, 56},  {3, 64, 7, 2, 2, 3, 56}, {16, 24, 5, 2, 1, 2, 28}, {24, 40, 3, 2, 0, 1, 13},
    {32, 32, 3, 1, 0, 2, 14}, {32, 48, 3, 1, 2, 0, 9}, {16, 16, 4, 1, 1, 2, 16}, {64, 64, 3, 2, 0, 1, 16},
};
static const struct {
    int c, k, stride, pad, behind, size;
} depthwise[] = {
    {32, 3, 1, 1, 1, 28}, {96, 3, 2, 0, 1, 28},  {144, 3, 1, 1, 1, 14}, {144, 5, 2, 1, 2, 28}, {240, 5, 1, 2, 2, 14},
    {40, 3, 2, 1, 1, 13}, {192, 5, 1, 2, 2, 7},  {17, 3, 1, 1, 1, 9},   {5, 5, 2, 2, 2, 11},   {1, 3, 1, 1, 1, 8},
    {100, 7, 1, 3, 3, 7}, {36, 3, 1, 1, 1, 112}, {16, 5, 1, 2, 2, 3},   {20, 3, 2, 0, 1, 2},   {12, 5, 2, 2, 2, 1},
};

static int window_count(int size, int k, int stride, int padding)
{
    int room = size + padding - k;
    return room < 0 ? 0 : room / stride + 1;
}

static rc_conv draw_uneven(rc_case *c, bool depth)
{
    for (;;) {
        rc_conv v = {.up = 1};
        v.c_in = RC_CHOOSE(c, 1, 3, 10, 17, 16, 32, 64, 5, 8, 100, 36);
        v.c_out = depth ? v.c_in : RC_CHOOSE(c, 1, 3, 10, 17, 16, 32, 64, 5, 8, 100, 36);
        v.k = RC_CHOOSE(c, 3, 3, 3, 5, 5, 2, 1, 7);
        v.stride = RC_CHOOSE(c, 1, 1, 2, 2, 3);
        v.pad = (int)rc_case_below(c, (uint32_t)v.k);
        v.h = RC_CHOOSE(c, 1, 3, 5, 7, 8, 13, 16, 28, 33);
        v.w = rc_case_chance(c, 60) ? v.h : RC_CHOOSE(c, 1, 3, 4, 5, 7, 16, 33);
        v.oh = window_count(v.h, v.k, v.stride, v.pad + (int)rc_case_below(c, (uint32_t)v.k));
        v.ow = window_count(v.w, v.k, v.stride, v.pad + (int)rc_case_below(c, (uint32_t)v.k));
        if (v.oh > 0 && v.ow > 0 && macs(&v, 1) <= (c->quick ? 2e6 : 3e7))
            return v;
    }
}

static void draw_same_geometry(rc_case *c, conv_case *p)
{
    bool depth = p->depthwise = strncmp(c->operation->name, "depthwise", 9) == 0;
    size_t i = c->number, common_cases = depth ? sizeof depthwise / sizeof *depthwise : sizeof uneven / sizeof *uneven;
    rc_conv v = {.up = 1};
    if (i < common_cases) {
        int behind = depth ? depthwise[i].behind : uneven[i].behind;
        v.c_in = depth ? depthwise[i].c : uneven[i].c_in;
        v.c_out = depth ? depthwise[i].c : uneven[i].c_out;
        v.k = depth ? depthwise[i].k : uneven[i].k;
        v.stride = depth ? depthwise[i].stride : uneven[i].stride;
        v.pad = depth ? depthwise[i].pad : uneven[i].pad;
        v.h = v.w = depth ? depthwise[i].size : uneven[i].size;
        v.oh = v.ow = window_count(v.h, v.k, v.stride, v.pad + behind);
    } else {
        v = draw_uneven(c, depth);
    }
    p->conv = v;
    p->n = 1 + (int)rc_case_below(c, rc_case_chance(c, 20) ? 40 : 5);
    double work = macs(&v, 1) / (depth ? v.c_in : 1);
    while (p->n > 1 && work * p->n > (c->quick ? 1e6 : 6e7))
        p->n--;
    if (depth)
        rc_case_say(c, "depthwise ");
    say_geometry(c, &v, p->n);
}

/* dL/dy, with the coefficients of its normalisation if it has one. */
static rc_lazy_gradient with_gradient(rc_case *c, rc_lazy y)
{
    rc_lazy_gradient d = {.y = y, .a = -1, .b = -1, .c = -1};
    d.g = rc_case_act(c, "g", RC_IN, y.n, y.h, y.w, y.c);
    if (y.scale >= 0) {
        d.a = rc_case_channel(c, "a", RC_IN, y.groups, y.c);
        d.b = rc_case_channel(c, "b", RC_IN, y.groups, y.c);
        d.c = rc_case_channel(c, "c", RC_IN, y.groups, y.c);
    }
    return d;
}

static rc_status reserve(rc_run *r)
{
    const conv_case *p = rc_run_parameters(r);
    return p->depthwise ? r->be->reserve_depthwise(r->be, &p->conv, p->n) : r->be->reserve_conv(r->be, &p->conv, p->n);
}

/* ---- forward -------------------------------------------------------------------------------------------------- */

static void add_forward(rc_case *c, conv_case *p)
{
    const rc_conv *v = &p->conv;
    p->bias = -1;
    p->sums = rc_case_no_sums();
    rc_groups groups = rc_case_groups(c, p->n);
    p->x = rc_case_lazy(c, "x", p->n, v->h, v->w, v->c_in, groups,
                        RC_LAZY_BN | RC_LAZY_SKIP | RC_LAZY_ACT | RC_LAZY_VALUE | RC_LAZY_STORED, true);
    p->weight = draw_weight(c, p);
    if (rc_case_chance(c, 50)) {
        p->bias = rc_case_parameter(c, "bias", RC_IN, 1, v->c_out, 0.5);
        rc_case_say(c, " bias");
    }
    p->apply = rc_case_chance(c, 30);
    int features = p->apply ? RC_LAZY_BN | RC_LAZY_SKIP | RC_LAZY_ACT : 0;
    if (p->apply)
        rc_case_say(c, " apply");
    p->y = rc_case_lazy(c, "y", p->n, v->oh, v->ow, v->c_out, groups, RC_LAZY_OUTPUT | features, true);
    rc_case_sum(c, p->y.raw, (double)inputs(p) * v->k * v->k);
    if (!p->apply && rc_lazy_has_statistics(&p->y) && rc_case_chance(c, 60))
        p->sums = rc_case_sums(c, &p->y);
}

static void draw_forward(rc_case *c)
{
    conv_case *p = rc_case_parameters(c);
    draw_geometry(c, p);
    add_forward(c, p);
}

static void draw_same_forward(rc_case *c)
{
    conv_case *p = rc_case_parameters(c);
    draw_same_geometry(c, p);
    add_forward(c, p);
}

static void run_forward(rc_run *r)
{
    const conv_case *p = rc_run_parameters(r);
    rc_backend *be = r->be;
    rc_tensor x = rc_run_tensor(r, &p->x), y = rc_run_tensor(r, &p->y);
    rc_epilogue epilogue = {rc_at(r, p->sums.partial), rc_at(r, p->sums.center), p->apply};
    (p->depthwise ? be->depthwise_forward : be->conv_forward)(be, &p->conv, &x, rc_at(r, p->weight), rc_at(r, p->bias),
                                                              &y, &epilogue);
    rc_run_expect(r, p->x.value < 0 || x.stored, "has not marked the value of x as stored");
    rc_run_sums(r, &p->sums, &y);
}

/* ---- with respect to the data --------------------------------------------------------------------------------- */

static void add_backward_data(rc_case *c, conv_case *p)
{
    const rc_conv *v = &p->conv;
    p->back_sums = rc_case_no_back_sums();
    rc_groups groups = rc_case_groups(c, p->n);
    p->dy = rc_case_lazy_gradient(c, p->n, v->oh, v->ow, v->c_out, groups);
    p->weight = draw_weight(c, p);
    bool sums = rc_case_chance(c, 60);
    p->x = rc_case_lazy(c, "x", p->n, v->h, v->w, v->c_in, groups,
                        RC_LAZY_BN | RC_LAZY_SKIP | RC_LAZY_ACT | RC_LAZY_STORED, !sums);
    p->add = rc_case_chance(c, 40);
    double terms = (double)outputs(p) * v->k * v->k * v->up * v->up;
    p->dx = rc_case_sum(c, rc_case_act(c, "dx", p->add ? RC_IN_OUT : RC_OUT, p->n, v->h, v->w, v->c_in), terms);
    if (p->add)
        rc_case_say(c, " add");
    if (sums)
        p->back_sums = rc_case_back_sums(c, &p->x, terms);
}

static void draw_backward_data(rc_case *c)
{
    conv_case *p = rc_case_parameters(c);
    draw_geometry(c, p);
    add_backward_data(c, p);
}

static void draw_same_backward_data(rc_case *c)
{
    conv_case *p = rc_case_parameters(c);
    draw_same_geometry(c, p);
    add_backward_data(c, p);
}

static void run_backward_data(rc_run *r)
{
    const conv_case *p = rc_run_parameters(r);
    rc_backend *be = r->be;
    rc_tensor y, x = rc_run_tensor(r, &p->x);
    rc_grad dy = rc_run_gradient(r, &p->dy, &y);
    rc_back_epilogue epilogue = {.x = &x, .partial = rc_at(r, p->back_sums.partial), .add = p->add};
    if (p->beside.k > 0) {
        rc_tensor other;
        rc_grad beside_dy = rc_run_gradient(r, &p->beside_dy, &other);
        rc_fused_back beside = {&p->beside, rc_at(r, p->beside_weight), &beside_dy};
        if (be->takes_beside && be->takes_beside(be, &p->conv, &p->beside, p->n)) {
            epilogue.beside = &beside;
        } else {
            rc_back_epilogue first = {.x = &x, .add = p->add};
            be->conv_backward_data(be, &p->beside, &beside_dy, beside.weight, rc_at(r, p->dx), &first);
            epilogue.add = true;
        }
    }
    (p->depthwise ? be->depthwise_backward_data : be->conv_backward_data)(be, &p->conv, &dy, rc_at(r, p->weight),
                                                                          rc_at(r, p->dx), &epilogue);
    rc_run_back_sums(r, &p->back_sums, &x);
}

/* ---- with respect to the weights ------------------------------------------------------------------------------ */

static void add_weight_gradient(rc_case *c, conv_case *p, bool bias)
{
    const rc_conv *v = &p->conv;
    double samples = (double)p->n * (v->transposed ? v->h * v->w : v->oh * v->ow);
    int rows = v->transposed ? v->c_in : v->c_out, columns = (v->transposed ? v->c_out : inputs(p)) * v->k * v->k;
    p->dweight = rc_case_sum(c, rc_case_parameter(c, "dweight", RC_OUT, rows, columns, 0), samples);
    c->buffer[p->dweight].stored_act = true;
    p->dbias = -1;
    if (bias) {
        p->dbias = rc_case_sum(c, rc_case_parameter(c, "dbias", RC_OUT, 1, v->c_out, 0), (double)p->n * v->oh * v->ow);
        c->buffer[p->dbias].stored_act = true;
        rc_case_say(c, " bias");
    }
}

static void add_backward_weight(rc_case *c, conv_case *p)
{
    const rc_conv *v = &p->conv;
    rc_groups groups = rc_case_groups(c, p->n);
    bool images = v->c_in <= 3 && rc_case_chance(c, 70); /* nothing is pending for them */
    p->x = rc_case_lazy(c, "x", p->n, v->h, v->w, v->c_in, groups,
                        images ? 0 : RC_LAZY_BN | RC_LAZY_SKIP | RC_LAZY_ACT | RC_LAZY_STORED, true);
    p->dy = rc_case_lazy_gradient(c, p->n, v->oh, v->ow, v->c_out, groups);
    add_weight_gradient(c, p, rc_case_chance(c, 50));
}

static void draw_backward_weight(rc_case *c)
{
    conv_case *p = rc_case_parameters(c);
    draw_geometry(c, p);
    add_backward_weight(c, p);
}

static void draw_same_backward_weight(rc_case *c)
{
    conv_case *p = rc_case_parameters(c);
    draw_same_geometry(c, p);
    add_backward_weight(c, p);
}

static void run_backward_weight(rc_run *r)
{
    const conv_case *p = rc_run_parameters(r);
    rc_tensor y, x = rc_run_tensor(r, &p->x);
    rc_grad dy = rc_run_gradient(r, &p->dy, &y);
    (p->depthwise ? r->be->depthwise_backward_weight
                  : r->be->conv_backward_weight)(r->be, &p->conv, &x, &dy, rc_at(r, p->dweight), rc_at(r, p->dbias));
}

/* ---- large layers --------------------------------------------------------------------------------------------- */

/* Of nets for 224 pixels, with so many images that a card of 132 multiprocessors takes its kernels for wide layers: a
 * tile of some 224 positions for each of them, where every 64 channels of the result count, and every phase of a map
 * that is enlarged or read at every second pixel; and of generators for 32 and 64 pixels, whose tiles have 256 or 128
 * positions. What is pending is what these kernels take. */
typedef struct large_shape {
    int c_in, c_out, k, stride, pad, up, size, n, first_group;
    bool normalised; /* with ReLU: x and dL/dy */
    int more;        /* features of x where it is a value */
} large_shape;

static const large_shape large[] = {
    {64, 64, 3, 1, 1, 1, 56, 16, 4, true, 0},
    {128, 128, 3, 1, 1, 1, 28, 20, 9, true, RC_LAZY_SKIP | RC_LAZY_IDENTITY},
    {64, 128, 3, 2, 1, 1, 56, 18, 18, true, 0},
    {64, 128, 1, 2, 0, 1, 56, 18, 7, true, RC_LAZY_VALUE},
    {128, 64, 3, 1, 1, 2, 28, 18, 9, true, 0},
    {256, 256, 3, 1, 1, 1, 14, 34, 34, false, 0},
    {128, 128, 3, 1, 1, 2, 8, 34, 34, true, 0},
    {128, 64, 3, 1, 1, 2, 16, 68, 23, true, 0},
};

/* Blocks that widen: the first convolution, with a shortcut of 1 x 1 beside it. */
static const large_shape widening[] = {
    {64, 128, 3, 2, 1, 1, 56, 18, 7, true, 0},
    {128, 256, 3, 2, 1, 1, 28, 40, 40, false, 0},
};

/* First layers, and one that makes images: biased but for one channel, with ReLU if it makes them or has one group. */
static const large_shape first_layers[] = {
    {3, 64, 3, 1, 1, 1, 72, 3, 1, false, 0},
    {1, 128, 3, 1, 1, 1, 41, 3, 2, true, RC_LAZY_VALUE},
    {3, 64, 3, 1, 1, 1, 64, 3, 3, false, 0},
    {64, 3, 3, 1, 1, 1, 61, 3, 2, true, 0},
};
enum {
    LARGE = sizeof large / sizeof *large,
    WIDENING = sizeof widening / sizeof *widening,
    FIRST = sizeof first_layers / sizeof *first_layers
};

static void set_large(rc_case *c, conv_case *p, rc_groups *groups, const large_shape *shape, bool few)
{
    p->conv = (rc_conv){.c_in = shape->c_in,
                        .c_out = shape->c_out,
                        .k = shape->k,
                        .stride = shape->stride,
                        .pad = shape->pad,
                        .up = shape->up,
                        .h = shape->size,
                        .w = shape->size};
    fits(&p->conv);
    p->n = few ? 2 : shape->n;
    *groups = (rc_groups){1, {p->n}};
    if (shape->first_group < shape->n)
        *groups = (rc_groups){2, {few ? 1 : shape->first_group, p->n}};
    p->bias = -1;
    p->sums = rc_case_no_sums();
    p->back_sums = rc_case_no_back_sums();
    say_geometry(c, &p->conv, p->n);
}

/* The number of the shape. */
static int large_geometry(rc_case *c, conv_case *p, rc_groups *groups)
{
    int i = (int)(c->number % LARGE);
    set_large(c, p, groups, &large[i], c->number >= LARGE);
    return i;
}

/* Of few digits: rounding of weights would have the same sign at all positions, and sums over them would show it. */
static int large_weight(rc_case *c, const conv_case *p)
{
    const rc_conv *v = &p->conv;
    int buffer = draw_weight(c, p);
    const rc_buffer *b = &c->buffer[buffer];
    double step = ldexp(1, ilogb(1 / sqrt((double)v->c_in * v->k * v->k)) - 4);
    for (size_t i = 0; c->status == RC_OK && i < b->count; i++)
        rc_case_set(c, buffer, i, step * nearbyint(b->host[i] / step));
    return buffer;
}

static rc_lazy large_input(rc_case *c, const conv_case *p, rc_groups groups, bool normalised, int more)
{
    const rc_conv *v = &p->conv;
    return rc_case_lazy(c, "x", p->n, v->h, v->w, v->c_in, groups, normalised ? RC_LAZY_BN | RC_LAZY_RELU | more : 0,
                        false);
}

static rc_lazy_gradient large_gradient(rc_case *c, const conv_case *p, rc_groups groups, bool normalised)
{
    const rc_conv *v = &p->conv;
    return with_gradient(c, rc_case_lazy(c, "y", p->n, v->oh, v->ow, v->c_out, groups,
                                         normalised ? RC_LAZY_BN | RC_LAZY_RELU : 0, false));
}

static void add_large_forward(rc_case *c, conv_case *p, const rc_groups *groups, const large_shape *shape)
{
    const rc_conv *v = &p->conv;
    p->x = large_input(c, p, *groups, shape->normalised, shape->more);
    p->weight = large_weight(c, p);
    p->y = rc_case_lazy(c, "y", p->n, v->oh, v->ow, v->c_out, *groups,
                        RC_LAZY_OUTPUT | (p->apply ? RC_LAZY_BN | RC_LAZY_RELU : 0), false);
    rc_case_sum(c, p->y.raw, (double)v->c_in * v->k * v->k);
    p->sums = p->apply ? rc_case_no_sums() : rc_case_sums(c, &p->y);
}

static void draw_large_forward(rc_case *c)
{
    conv_case *p = rc_case_parameters(c);
    rc_groups groups;
    add_large_forward(c, p, &groups, &large[large_geometry(c, p, &groups)]);
}

static void draw_first(rc_case *c)
{
    conv_case *p = rc_case_parameters(c);
    rc_groups groups;
    const large_shape *shape = &first_layers[c->number % FIRST];
    set_large(c, p, &groups, shape, c->number >= FIRST);
    p->apply = groups.count == 1 || shape->c_out == 3;
    if (shape->c_in > 1)
        p->bias = rc_case_parameter(c, "bias", RC_IN, 1, shape->c_out, 0.5);
    add_large_forward(c, p, &groups, shape);
}

/* Its sums need a normalised x, whose skip is not pending. */
static void draw_large_backward_data(rc_case *c)
{
    conv_case *p = rc_case_parameters(c);
    rc_groups groups;
    int i = large_geometry(c, p, &groups);
    const rc_conv *v = &p->conv;
    p->dy = large_gradient(c, p, groups, large[i].normalised);
    p->weight = large_weight(c, p);
    p->x = large_input(c, p, groups, true, 0);
    double terms = (double)v->c_out * v->k * v->k * v->up * v->up;
    p->dx = rc_case_sum(c, rc_case_act(c, "dx", RC_OUT, p->n, v->h, v->w, v->c_in), terms);
    p->back_sums = rc_case_back_sums(c, &p->x, terms);
}

/* Its first writer overwrites, or adds. */
static void draw_beside(rc_case *c)
{
    conv_case *p = rc_case_parameters(c), other;
    rc_groups groups;
    const large_shape *shape = &widening[c->number % WIDENING];
    set_large(c, p, &groups, shape, c->number >= WIDENING);
    const rc_conv *v = &p->conv;
    other = *p;
    other.conv.k = 1;
    other.conv.pad = 0;
    p->beside = other.conv;
    p->dy = large_gradient(c, p, groups, shape->normalised);
    p->weight = large_weight(c, p);
    p->beside_dy = large_gradient(c, p, groups, shape->normalised);
    p->beside_weight = large_weight(c, &other);
    p->x = large_input(c, p, groups, true, 0);
    p->add = !shape->normalised;
    double terms = (double)v->c_out * (v->k * v->k + 1);
    p->dx = rc_case_sum(c, rc_case_act(c, "dx", p->add ? RC_IN_OUT : RC_OUT, p->n, v->h, v->w, v->c_in), terms);
    p->back_sums = rc_case_back_sums(c, &p->x, terms);
}

static void draw_large_backward_weight(rc_case *c)
{
    conv_case *p = rc_case_parameters(c);
    rc_groups groups;
    int i = large_geometry(c, p, &groups);
    p->x = large_input(c, p, groups, large[i].normalised, large[i].more & ~RC_LAZY_VALUE);
    p->dy = large_gradient(c, p, groups, large[i].normalised);
    add_weight_gradient(c, p, false);
}

/* ---- bench ---------------------------------------------------------------------------------------------------- */

/* A convolution of c->net; input and output as they are in training, with normalisation and activation pending. */
static const rc_layer *bench_geometry(rc_case *c, int index, int n, rc_groups *groups)
{
    conv_case *p = rc_case_parameters(c);
    p->depthwise = strncmp(c->operation->name, "depthwise", 9) == 0;
    const rc_layer *layer = rc_distinct_layer(c->net, p->depthwise ? RC_LAYER_DEPTHWISE : RC_LAYER_CONV, index,
                                              &c->times);
    if (!layer)
        return NULL;
    p->conv = rc_layer_conv(layer);
    p->n = n;
    p->bias = p->dbias = -1;
    p->sums = rc_case_no_sums();
    p->back_sums = rc_case_no_back_sums();
    *groups = (rc_groups){1, {n}};
    c->flops = 2 * rc_layer_macs(layer) * n;
    return layer;
}

static void bench_text(rc_case *c, const rc_layer *layer)
{
    c->text[0] = 0;
    rc_case_say(c, "%d->%d @%d", layer->c_in, layer->c_out, layer->h_in);
    if (layer->k != 3)
        rc_case_say(c, " %dx%d", layer->k, layer->k);
    if (layer->stride != 1)
        rc_case_say(c, " /%d", layer->stride);
    if (layer->up == 2)
        rc_case_say(c, " up 2");
}

static rc_lazy bench_tensor(rc_case *c, const char *name, int n, int h, int w, int channels, rc_groups groups,
                            bool normalised)
{
    if (!normalised)
        return rc_case_plain(c, name, RC_IN, n, h, w, channels, groups);
    rc_lazy t = rc_case_lazy(c, name, n, h, w, channels, groups, RC_LAZY_BN, false);
    t.act = RC_ACT_RELU;
    return t;
}

static rc_lazy bench_input(rc_case *c, const rc_layer *layer, int n, rc_groups groups)
{
    return bench_tensor(c, "x", n, layer->h_in, layer->w_in, layer->c_in, groups, layer->in != RC_NET_INPUT);
}

static rc_lazy_gradient bench_gradient(rc_case *c, const rc_layer *layer, int n, rc_groups groups)
{
    return with_gradient(c, bench_tensor(c, "y", n, layer->h, layer->w, layer->c_out, groups, layer->bn.on));
}

static bool bench_forward(rc_case *c, int index, int n)
{
    rc_groups groups;
    const rc_layer *layer = bench_geometry(c, index, n, &groups);
    if (!layer)
        return false;
    conv_case *p = rc_case_parameters(c);
    p->x = bench_input(c, layer, n, groups);
    p->weight = draw_weight(c, p);
    p->y = rc_case_plain(c, "y", RC_OUT, n, layer->h, layer->w, layer->c_out, groups);
    if (layer->bn.on)
        p->sums = rc_case_sums(c, &p->y);
    bench_text(c, layer);
    return true;
}

static bool bench_backward_data(rc_case *c, int index, int n)
{
    rc_groups groups;
    const rc_layer *layer = bench_geometry(c, index, n, &groups);
    if (!layer)
        return false;
    conv_case *p = rc_case_parameters(c);
    if (layer->in == RC_NET_INPUT)
        c->times = 0; /* training needs no gradient of the images */
    p->dy = bench_gradient(c, layer, n, groups);
    p->weight = draw_weight(c, p);
    p->x = bench_input(c, layer, n, groups);
    p->dx = rc_case_act(c, "dx", RC_OUT, n, layer->h_in, layer->w_in, layer->c_in);
    if (p->x.scale >= 0)
        p->back_sums = rc_case_back_sums(c, &p->x, 0);
    bench_text(c, layer);
    return true;
}

static bool bench_backward_weight(rc_case *c, int index, int n)
{
    rc_groups groups;
    const rc_layer *layer = bench_geometry(c, index, n, &groups);
    if (!layer)
        return false;
    conv_case *p = rc_case_parameters(c);
    p->x = bench_input(c, layer, n, groups);
    p->dy = bench_gradient(c, layer, n, groups);
    p->dweight = rc_case_parameter(c, "dweight", RC_OUT, layer->c_out, inputs(p) * layer->k * layer->k, 0);
    bench_text(c, layer);
    return true;
}

static const rc_operation operations[] = {
    {"conv_forward", "conv_forward", 60, 400, sizeof(conv_case), draw_forward, reserve, run_forward, bench_forward},
    {"conv_backward_data", "conv_backward_data", 60, 400, sizeof(conv_case), draw_backward_data, reserve,
     run_backward_data, bench_backward_data},
    {"conv_backward_weight", "conv_backward_weight", 60, 400, sizeof(conv_case), draw_backward_weight, reserve,
     run_backward_weight, bench_backward_weight},
    {"conv_forward_same", "", 30, 200, sizeof(conv_case), draw_same_forward, reserve, run_forward, NULL},
    {"conv_backward_data_same", "", 30, 200, sizeof(conv_case), draw_same_backward_data, reserve, run_backward_data,
     NULL},
    {"conv_backward_weight_same", "", 30, 200, sizeof(conv_case), draw_same_backward_weight, reserve,
     run_backward_weight, NULL},
    {"depthwise_forward", "depthwise_forward", 40, 300, sizeof(conv_case), draw_same_forward, reserve, run_forward,
     bench_forward},
    {"depthwise_backward_data", "depthwise_backward_data", 40, 300, sizeof(conv_case), draw_same_backward_data, reserve,
     run_backward_data, bench_backward_data},
    {"depthwise_backward_weight", "depthwise_backward_weight", 40, 300, sizeof(conv_case), draw_same_backward_weight,
     reserve, run_backward_weight, bench_backward_weight},
};
const rc_operation_list rc_cases_conv = {operations, sizeof operations / sizeof *operations};

static const rc_operation large_operations[] = {
    {"conv_forward_large", "conv_forward", LARGE, LARGE, sizeof(conv_case), draw_large_forward, reserve, run_forward,
     NULL},
    {"conv_forward_first", "conv_forward", FIRST, FIRST, sizeof(conv_case), draw_first, reserve, run_forward, NULL},
    {"conv_backward_data_large", "conv_backward_data", LARGE, LARGE, sizeof(conv_case), draw_large_backward_data,
     reserve, run_backward_data, NULL},
    {"conv_backward_data_beside", "conv_backward_data", WIDENING, WIDENING, sizeof(conv_case), draw_beside, reserve,
     run_backward_data, NULL},
    {"conv_backward_weight_large", "conv_backward_weight", LARGE, LARGE, sizeof(conv_case), draw_large_backward_weight,
     reserve, run_backward_weight, NULL},
};
const rc_operation_list rc_cases_large = {large_operations, sizeof large_operations / sizeof *large_operations};
