/* Cases of several layers at once in training: forward (fused_train in backend.h), back (fused_train_backward), and of
 * their weight gradients (fused_weight). A layer is called a link here, and all of them a chain.
 *
 * The reference goes link by link, each time from what the test made of the link before, so that roundings do not grow
 * from link to link: forward that is raw, back dL/draw. */
#include "check/case.h"

#include <math.h>

#include "base/memory.h"

enum { MOST_LINKS = 6, PARTS = 3 /* a, b, c */ };

typedef struct train_case {
    rc_conv conv;
    int n, count;
    rc_groups groups;
    rc_act act[MOST_LINKS];
    bool adds[MOST_LINKS];                      /* the first: a skip from elsewhere */
    rc_lazy x, y;                               /* y: the shape of link 0 with its skip */
    int weight;                                 /* (count, ..) */
    int gamma, beta, running_mean, running_var; /* forward: (count, c); sums are taken around the running mean */
    int spare;                                  /* forward: (n, h, w, c) */
    int raw, value;                             /* (count * n, h, w, c); value: of sums alone */
    int scale, shift, mean, istd;               /* (count * groups, c) */
    int g, by[PARTS];                           /* of the last link */
    int draw, seen;                             /* (count * n, h, w, c) */
    int partial[MOST_LINKS];                    /* back of all links but the last */
    int dgamma, dbeta, got[PARTS];              /* likewise: (count - 1, c), (groups, c) each */
    int dx, addend, dskip;
    rc_back_sums sums; /* of x */
    int dweight, work;
    bool add, add_skip, update; /* update: the running statistics */
} train_case;

static bool is_taken(rc_backend *be, const rc_case *c)
{
    enum { X, SKIP, LINKS };
    const train_case *p = (const train_case *)c->parameters.bytes;
    rc_fusible layers[LINKS + MOST_LINKS] = {{.act = p->x.act, .in = -1, .skip = -1}, {.in = -1, .skip = -1}};
    for (int i = 0; i < p->count; i++) {
        rc_fusible *link = &layers[LINKS + i];
        *link = (rc_fusible){.plain = true,
                             .conv = p->conv,
                             .act = p->act[i],
                             .in = i == 0 ? X : LINKS + i - 1,
                             .skip = !p->adds[i] ? -1
                                     : i == 0    ? SKIP
                                     : i == 1    ? X
                                                 : LINKS + i - 2,
                             .skip_stride = i == 0 ? p->y.skip_stride : 1,
                             .skip_offset = i == 0 ? p->y.skip_offset : 0,
                             .output = i == p->count - 1};
    }
    return be->fuse_train && be->fused_train_backward &&
           be->fuse_train(be, layers, LINKS + p->count, LINKS, p->n, p->groups.count) == p->count;
}

/* ---- drawing -------------------------------------------------------------------------------------------------- */

static int maps(rc_case *c, const char *name, rc_buffer_role role, const train_case *p, int rows)
{
    return rc_case_act(c, name, role, rows * p->n, p->conv.h, p->conv.w, p->conv.c_out);
}

/* Eighths between `low` and `high`, of all links. */
static int channels(rc_case *c, const char *name, const train_case *p, int low, int high)
{
    int rows = p->count * p->groups.count, buffer = rc_case_channel(c, name, RC_IN, rows, p->conv.c_out);
    for (size_t i = 0; c->status == RC_OK && i < c->buffer[buffer].count; i++)
        rc_case_set(c, buffer, i, (low + (int)rc_case_below(c, (uint32_t)(high - low + 1))) / 8.0);
    return buffer;
}

/* An output that was summed over all samples, of numbers that were rounded. */
static int summed(rc_case *c, int buffer, const train_case *p)
{
    c->buffer[buffer].stored_act = true;
    return rc_case_sum(c, buffer, (double)p->n * p->conv.h * p->conv.w);
}

static void set_shape(rc_case *c, train_case *p, int channels, int h, int w)
{
    p->conv = (rc_conv){
        .c_in = channels, .c_out = channels, .k = 3, .stride = 1, .pad = 1, .up = 1, .h = h, .w = w, .oh = h, .ow = w};
    rc_case_say(c, "%d x (%d,%d,%d,%d)/%d:", p->count, p->n, h, w, channels, p->groups.count);
}

static void draw_shape(rc_case *c, train_case *p)
{
    static const struct {
        int channels, side;
    } shapes[] = {{16, 32}, {32, 16}, {64, 8}};
    int channels = shapes[c->number % 3].channels, w = shapes[c->number % 3].side;
    bool low = c->quick && c->number % 5 != 4; /* of many images, whole maps: warps then have two tasks */
    p->n = 1 + (int)(c->number % 5);
    p->groups = rc_case_groups(c, p->n);
    p->count = 2 + (int)(c->number / 2 % (c->quick ? 3 : MOST_LINKS - 1));
    set_shape(c, p, channels, low ? w / 2 : w, w);
}

/* First maps that leave no room for the weights of a link, with few images. Then more images than multiprocessors: with
 * 64 channels two share a block, and the last of a group may be alone; with 16 each warp of a block has two tasks, of
 * which it parks one on the way back. */
static const struct {
    int channels, side, n, first_group, count; /* first_group: how many images it has; 0: there is one group */
} large[] = {
    {64, 16, 5, 0, 3},
    {64, 16, 4, 3, 2},
    {64, 16, 3, 0, 2},
    {64, 16, 3, 2, 2},
    {16, 32, RC_CASE_MANY_IMAGES, 99, 2},
    {64, 8, RC_CASE_MANY_IMAGES, 99, 3},
    {64, 16, RC_CASE_MANY_IMAGES, 99, 2},
};
enum { LARGE = sizeof large / sizeof *large };

static void set_large_shape(rc_case *c, train_case *p)
{
    int i = (int)(c->number % LARGE);
    p->n = large[i].n;
    p->groups = (rc_groups){1, {p->n}};
    if (large[i].first_group > 0)
        p->groups = (rc_groups){2, {large[i].first_group, p->n}};
    p->count = large[i].count;
    set_shape(c, p, large[i].channels, large[i].side, large[i].side);
}

/* Activations and sums, and a skip of link 0: identity, or every second pixel of half the channels. */
static void draw_links(rc_case *c, train_case *p)
{
    rc_lazy *y = &p->y;
    *y = rc_lazy_of_shape(p->n, p->conv.h, p->conv.w, p->conv.c_out, p->groups);
    for (int i = 0; i < p->count; i++) {
        p->act[i] = (rc_act)RC_CHOOSE(c, RC_ACT_RELU, RC_ACT_RELU, RC_ACT_NONE, RC_ACT_LEAKY_RELU);
        p->adds[i] = i == 0 ? c->number % 2 == 1 : !p->adds[i - 1] && rc_case_chance(c, 70);
        rc_case_say(c, " %s%s", p->adds[i] ? "+" : "", rc_act_name(p->act[i]));
    }
    y->skip_stride = 1;
    if (!p->adds[0])
        return;
    y->skip_stride = c->number % 4 == 1 ? 2 : 1;
    y->skip_h = y->h * y->skip_stride;
    y->skip_w = y->w * y->skip_stride;
    y->skip_c = y->c / y->skip_stride;
    y->skip_offset = y->skip_stride == 2 ? y->c / 4 / 8 * 8 : 0;
    y->skip = rc_case_act(c, "skip", RC_IN, p->n, y->skip_h, y->skip_w, y->skip_c);
    rc_case_say(c, " skip%d@%d", y->skip_stride, y->skip_offset);
}

/* The gradient of the skip of link 0. */
static void draw_skip_gradient(rc_case *c, train_case *p)
{
    const rc_lazy *y = &p->y;
    p->dskip = -1;
    if (!p->adds[0])
        return;
    p->add_skip = c->number / 4 % 2 == 1;
    p->dskip = rc_case_act(c, "dskip", p->add_skip ? RC_IN_OUT : RC_OUT, p->n, y->skip_h, y->skip_w, y->skip_c);
    rc_case_say(c, "%s", p->add_skip ? "+" : "");
}

/* What link 0 reads: normalised, with ReLU; its value may be stored. */
static void draw_x(rc_case *c, train_case *p)
{
    const rc_conv *v = &p->conv;
    int features = RC_LAZY_BN | RC_LAZY_RELU | (c->number % 3 == 2 ? RC_LAZY_STORED : 0);
    p->x = rc_case_lazy(c, "x", p->n, v->h, v->w, v->c_in, p->groups, features, false);
    p->sums = rc_case_no_back_sums();
    if (c->number % 4 != 3)
        p->sums = rc_case_back_sums(c, &p->x, 9.0 * v->c_in);
    p->add = c->number % 3 != 0;
    p->addend = p->add && c->number % 2 == 0 ? maps(c, "addend", RC_IN, p, 1) : -1;
    p->dx = rc_case_sum(c, maps(c, "dx", p->add && p->addend < 0 ? RC_IN_OUT : RC_OUT, p, 1), 9.0 * v->c_in);
    rc_case_say(c, "%s", p->addend >= 0 ? " addend" : p->add ? " add" : "");
}

static void draw_weights(rc_case *c, train_case *p)
{
    double spread = sqrt(2.0 / (9 * p->conv.c_in));
    p->weight = rc_case_parameter(c, "weights", RC_IN, p->count, 9 * p->conv.c_in * p->conv.c_out, spread);
}

/* Forward a value of x that is not stored may have memory, which is to be filled. */
static void draw_forward_x(rc_case *c, train_case *p)
{
    const rc_conv *v = &p->conv;
    const int memory[] = {0, RC_LAZY_VALUE, RC_LAZY_STORED};
    int features = RC_LAZY_BN | RC_LAZY_RELU | memory[c->number % 3];
    p->x = rc_case_lazy(c, "x", p->n, v->h, v->w, v->c_in, p->groups, features, false);
}

/* Of each link, around `center`. */
static int statistic(rc_case *c, const char *name, const train_case *p, rc_buffer_role role, double center)
{
    int buffer = rc_case_parameter(c, name, role, p->count, p->conv.c_out, 0);
    rc_case_fill(c, buffer, center, 0.25);
    return buffer;
}

/* An output made of sums over all samples, of numbers as they are stored. */
static int made_of_sums(rc_case *c, int buffer, const train_case *p)
{
    c->buffer[buffer].magnitude = 1;
    return rc_case_sum(c, buffer, (double)p->n * p->conv.h * p->conv.w);
}

static void complete_forward(rc_case *c, train_case *p)
{
    int rows = p->count * p->groups.count, channels = p->conv.c_out;
    draw_links(c, p);
    draw_forward_x(c, p);
    draw_weights(c, p);
    p->update = c->number % 4 != 3;
    rc_case_say(c, "%s", p->update ? " update" : "");
    p->gamma = statistic(c, "gammas", p, RC_IN, 1);
    p->beta = statistic(c, "betas", p, RC_IN, 0);
    p->running_mean = made_of_sums(c, statistic(c, "running_means", p, RC_IN_OUT, 0), p);
    p->running_var = made_of_sums(c, statistic(c, "running_vars", p, RC_IN_OUT, 1), p);
    p->raw = rc_case_sum(c, maps(c, "raws", RC_OUT, p, p->count), 9.0 * p->conv.c_in);
    p->seen = maps(c, "seen", RC_STATE, p, p->count);
    c->buffer[p->seen].from = p->raw;
    p->value = rc_case_sum(c, maps(c, "values", RC_OUT, p, p->count), 3);
    p->scale = made_of_sums(c, rc_case_channel(c, "scales", RC_OUT, rows, channels), p);
    p->shift = made_of_sums(c, rc_case_channel(c, "shifts", RC_OUT, rows, channels), p);
    p->mean = made_of_sums(c, rc_case_channel(c, "means", RC_OUT, rows, channels), p);
    p->istd = made_of_sums(c, rc_case_channel(c, "istds", RC_OUT, rows, channels), p);
    for (int i = 0; i < p->count; i++)
        p->partial[i] = rc_case_partial(c, "partial", p->n, p->conv.h, p->conv.w, channels);
    p->work = maps(c, "work", RC_SCRATCH, p, p->count + 1);
    p->spare = maps(c, "spare", RC_SCRATCH, p, 1);
    c->takes = is_taken;
}

static void complete_backward(rc_case *c, train_case *p)
{
    static const char *const given[PARTS] = {"a", "b", "c"}, *const made[PARTS] = {"made a", "made b", "made c"};
    draw_links(c, p);
    draw_skip_gradient(c, p);
    draw_x(c, p);
    draw_weights(c, p);
    p->raw = maps(c, "raws", RC_IN, p, p->count);
    p->value = maps(c, "values", RC_IN, p, p->count);
    p->scale = channels(c, "scales", p, 3, 11);
    p->shift = channels(c, "shifts", p, -3, 3);
    p->mean = channels(c, "means", p, -3, 3);
    p->istd = channels(c, "istds", p, 5, 12);
    p->g = maps(c, "g", RC_IN, p, 1);
    for (int i = 0; i < PARTS; i++)
        p->by[i] = rc_case_channel(c, given[i], RC_IN, p->groups.count, p->conv.c_out);
    p->draw = rc_case_sum(c, maps(c, "draw", RC_OUT, p, p->count), 9.0 * p->conv.c_in);
    p->seen = maps(c, "seen", RC_STATE, p, p->count);
    c->buffer[p->seen].from = p->draw;
    int inner = p->count - 1;
    for (int i = 0; i < inner; i++)
        p->partial[i] = rc_case_partial(c, "partial", p->n, p->conv.h, p->conv.w, p->conv.c_out);
    p->dgamma = summed(c, rc_case_parameter(c, "dgamma", RC_OUT, inner, p->conv.c_out, 0), p);
    p->dbeta = summed(c, rc_case_parameter(c, "dbeta", RC_OUT, inner, p->conv.c_out, 0), p);
    for (int i = 0; i < PARTS; i++)
        p->got[i] = summed(c, rc_case_channel(c, made[i], RC_OUT, inner * p->groups.count, p->conv.c_out), p);
    p->dweight = summed(c, rc_case_parameter(c, "dweights", RC_OUT, p->count, 9 * p->conv.c_in * p->conv.c_out, 0), p);
    p->work = maps(c, "work", RC_SCRATCH, p, 3);
    c->takes = is_taken;
}

static void draw_forward(rc_case *c)
{
    train_case *p = rc_case_parameters(c);
    draw_shape(c, p);
    complete_forward(c, p);
}

static void draw_large_forward(rc_case *c)
{
    train_case *p = rc_case_parameters(c);
    set_large_shape(c, p);
    complete_forward(c, p);
}

static void draw_backward(rc_case *c)
{
    train_case *p = rc_case_parameters(c);
    draw_shape(c, p);
    complete_backward(c, p);
}

static void draw_large_backward(rc_case *c)
{
    train_case *p = rc_case_parameters(c);
    set_large_shape(c, p);
    complete_backward(c, p);
    /* A gradient that all of a channel shares would make those before it large, and their normalisation takes it away
     * again: of millions of elements one would be left that rounding has changed too far. */
    for (int i = 1; i < PARTS; i++)
        rc_case_fill(c, p->by[i], 0, 1.0 / 16);
}

/* ---- running -------------------------------------------------------------------------------------------------- */

static rc_status reserve(rc_run *r)
{
    const train_case *p = rc_run_parameters(r);
    return r->be->reserve_conv(r->be, &p->conv, p->n);
}

static void *map_at(const rc_run *r, const train_case *p, int buffer, int row)
{
    size_t count = rc_act_count(r->be, p->n, p->conv.h, p->conv.w, p->conv.c_out);
    return (char *)rc_at(r, buffer) + (size_t)row * count * r->be->act_bytes;
}

/* Of a link: (groups, c), padded. */
static void *channels_at(const rc_run *r, const train_case *p, int buffer, int link)
{
    size_t row = (size_t)rc_padded(r->be, p->conv.c_out) * r->be->real_bytes;
    return (char *)rc_at(r, buffer) + (size_t)(link * p->groups.count) * row;
}

/* Parameters have no padding. */
static void *parameters_at(const rc_run *r, int buffer, int link)
{
    const rc_buffer *b = &r->c->buffer[buffer];
    return (char *)rc_at(r, buffer) + (size_t)link * b->count / (size_t)b->n * r->be->real_bytes;
}

static rc_tensor plain(const train_case *p, void *raw)
{
    rc_tensor t = {
        .n = p->n, .h = p->conv.h, .w = p->conv.w, .c = p->conv.c_out, .groups = p->groups.count, .raw = raw};
    for (int g = 0; g < p->groups.count; g++)
        t.group_end[g] = p->groups.end[g];
    return t;
}

/* The result of a link, which adds a map to its own if it is a sum: `added`, or the skip of link 0. */
static rc_tensor normalised(const rc_run *r, const train_case *p, int link, void *raw, const void *added)
{
    rc_tensor y = plain(p, raw);
    y.scale = channels_at(r, p, p->scale, link);
    y.shift = channels_at(r, p, p->shift, link);
    y.mean = channels_at(r, p, p->mean, link);
    y.istd = channels_at(r, p, p->istd, link);
    y.act = p->act[link];
    if (p->adds[link])
        y.skip = link == 0 ? rc_run_tensor(r, &p->y).skip : (rc_skip){added, y.h, y.w, y.c, 1, 0};
    return y;
}

/* The same on the way back; the value of a sum is stored. */
static rc_tensor link_tensor(const rc_run *r, const train_case *p, int link)
{
    rc_tensor y = normalised(r, p, link, map_at(r, p, p->raw, link), map_at(r, p, p->value, 0));
    if (p->adds[link]) {
        y.value = map_at(r, p, p->value, link);
        y.stored = true;
    }
    return y;
}

static rc_grad link_gradient(const rc_run *r, const train_case *p, int link, const rc_tensor *y, void *g)
{
    const int *by = link == p->count - 1 ? p->by : p->got;
    int row = link == p->count - 1 ? 0 : link;
    return (rc_grad){y, g, channels_at(r, p, by[0], row), channels_at(r, p, by[1], row), channels_at(r, p, by[2], row)};
}

static rc_bn_backward link_norm(const rc_run *r, const train_case *p, int link)
{
    const rc_grad dy = link_gradient(r, p, link, NULL, NULL);
    return (rc_bn_backward){.partial = rc_at(r, p->partial[link]),
                            .dgamma = parameters_at(r, p->dgamma, link),
                            .dbeta = parameters_at(r, p->dbeta, link),
                            .a = rc_without_const(dy.a),
                            .b = rc_without_const(dy.b),
                            .c = rc_without_const(dy.c)};
}

/* Rounds a map as the backend under test does. */
static void round_map(rc_run *r, const train_case *p, void *map)
{
    rc_tensor t = plain(p, map);
    size_t count = (size_t)t.n * (size_t)t.h * (size_t)t.w * (size_t)t.c;
    double *values = rc_alloc(NULL, count * sizeof *values);
    rc_run_expect(r, values != NULL, "found no memory");
    if (!values)
        return;
    r->be->read_act(r->be, values, &t, map);
    for (size_t i = 0; i < count; i++)
        values[i] = rc_case_rounded(r->c, values[i]);
    r->be->write_act(r->be, &t, values);
    rc_free(NULL, values);
}

/* ---- forward -------------------------------------------------------------------------------------------------- */

static const rc_bn norm_of_links = {1e-5f, 0.1f};

static rc_bn_forward forward_norm(const rc_run *r, const train_case *p, int link)
{
    void *running_mean = parameters_at(r, p->running_mean, link);
    return (rc_bn_forward){.partial = rc_at(r, p->partial[link]),
                           .center = running_mean,
                           .gamma = parameters_at(r, p->gamma, link),
                           .beta = parameters_at(r, p->beta, link),
                           .running_mean = p->update ? running_mean : NULL,
                           .running_var = p->update ? parameters_at(r, p->running_var, link) : NULL,
                           .scale = channels_at(r, p, p->scale, link),
                           .shift = channels_at(r, p, p->shift, link),
                           .mean = channels_at(r, p, p->mean, link),
                           .istd = channels_at(r, p, p->istd, link)};
}

/* Has the value of a link memory that is to be filled? That of a sum, and of every second other one. */
static bool fills_value(const train_case *p, int link)
{
    return link < p->count - 1 && (p->adds[link] || link % 2 == 1);
}

/* The value of a tensor to row `row` of `work`, and to `value` if that is set. */
static void finish_value(rc_run *r, const train_case *p, rc_tensor t, int row, void *value)
{
    t.value = map_at(r, p, p->work, row);
    t.stored = false;
    r->be->materialise(r->be, &t);
    if (value)
        r->be->copy(r->be, value, t.value, rc_act_count(r->be, t.n, t.h, t.w, t.c) * r->be->act_bytes);
    round_map(r, p, t.value);
}

/* Row i of `work` is what link i reads, and what link i + 1 adds. */
static void forward_by_links(rc_run *r, const train_case *p)
{
    rc_backend *be = r->be;
    const rc_tensor x = rc_run_tensor(r, &p->x);
    finish_value(r, p, x, 0, x.stored ? NULL : x.value);
    for (int i = 0; i < p->count; i++) {
        rc_tensor from = plain(p, map_at(r, p, p->work, i)), made = plain(p, map_at(r, p, p->raw, i));
        rc_tensor seen = plain(p, map_at(r, p, p->seen, i)), copy = plain(p, rc_at(r, p->spare));
        const rc_bn_forward norm = forward_norm(r, p, i);
        const rc_epilogue nothing = {0}, sums = {rc_at(r, p->partial[i]), norm.center, false};
        be->conv_forward(be, &p->conv, &from, parameters_at(r, p->weight, i), NULL, &made, &nothing);
        be->copy_forward(be, &seen, &copy, &sums);
        be->bn_train(be, &norm_of_links, &copy, &norm);
        const void *added = i > 0 ? map_at(r, p, p->work, i - 1) : NULL;
        finish_value(r, p, normalised(r, p, i, seen.raw, added), i + 1,
                     fills_value(p, i) ? map_at(r, p, p->value, i) : NULL);
    }
}

static void forward_at_once(rc_run *r, const train_case *p)
{
    rc_backend *be = r->be;
    rc_tensor x = rc_run_tensor(r, &p->x), y[MOST_LINKS];
    rc_fused_train links[MOST_LINKS];
    for (int i = 0; i < p->count; i++) {
        const void *added = i > 1 ? map_at(r, p, p->value, i - 2) : x.raw; /* what else is read is in the chain */
        y[i] = normalised(r, p, i, map_at(r, p, p->raw, i), added);
        if (fills_value(p, i))
            y[i].value = map_at(r, p, p->value, i);
        links[i] = (rc_fused_train){.layer = {.conv = &p->conv, .weight = parameters_at(r, p->weight, i), .y = &y[i]},
                                    .bn = &norm_of_links,
                                    .norm = forward_norm(r, p, i)};
    }
    be->fused_train(be, &x, links, p->count);
    rc_run_expect(r, p->x.value < 0 || x.stored, "has not marked the value of x as stored");
    for (int i = 0; i < p->count; i++)
        rc_run_expect(r, y[i].stored == fills_value(p, i), "is wrong about which values it has stored");
}

static void run_forward(rc_run *r)
{
    const train_case *p = rc_run_parameters(r);
    if (is_taken(r->be, r->c))
        forward_at_once(r, p);
    else
        forward_by_links(r, p);
}

/* ---- back ----------------------------------------------------------------------------------------------------- */

static rc_back_epilogue epilogue_of(const rc_run *r, const train_case *p, const rc_tensor *x)
{
    return (rc_back_epilogue){
        .x = x, .partial = rc_at(r, p->sums.partial), .add = p->add, .addend = rc_at(r, p->addend)};
}

/* dL/draw of a link whose gradient is `g`, and what it gives to what it adds. */
static void finish_link(rc_run *r, const train_case *p, int link, void *g, void *dz)
{
    rc_backend *be = r->be;
    rc_tensor y = link_tensor(r, p, link), of_draw = plain(p, map_at(r, p, p->draw, link)), of_skip = of_draw;
    const rc_grad dy = link_gradient(r, p, link, &y, g);
    if (link < p->count - 1) {
        const rc_bn_backward norm = link_norm(r, p, link);
        be->bn_backward_sums(be, &dy, rc_at(r, p->partial[link]));
        be->bn_backward(be, &y, true, &norm);
    }
    rc_back_epilogue overwrite = {.x = &of_draw};
    be->copy_backward(be, &dy, of_draw.raw, &overwrite);
    if (!p->adds[link])
        return;
    of_skip.h = y.skip.h, of_skip.w = y.skip.w, of_skip.c = y.skip.c;
    overwrite = (rc_back_epilogue){.x = &of_skip, .add = link == 0 && p->add_skip};
    be->skip_backward(be, &dy, link == 0 ? rc_at(r, p->dskip) : dz, &overwrite);
    if (link > 0)
        round_map(r, p, dz);
}

/* The first two maps of `work` are gradients of values, in turns; the third is what a sum gives to what it adds. */
static void backward_by_links(rc_run *r, const train_case *p)
{
    rc_backend *be = r->be;
    rc_tensor x = rc_run_tensor(r, &p->x);
    void *dz = map_at(r, p, p->work, 2);
    finish_link(r, p, p->count - 1, rc_at(r, p->g), dz);
    for (int i = p->count - 1; i >= 0; i--) {
        rc_tensor of_seen = plain(p, map_at(r, p, p->seen, i));
        const rc_grad draw = {.y = &of_seen, .g = of_seen.raw}, of_sum = {.y = &of_seen, .g = dz};
        void *g = map_at(r, p, p->work, i % 2), *weight = parameters_at(r, p->weight, i);
        bool adds = i + 1 < p->count && p->adds[i + 1];
        rc_tensor target = plain(p, g), from = i > 0 ? link_tensor(r, p, i - 1) : x;
        rc_back_epilogue add = {.x = &target, .add = true}, overwrite = {.x = &target};
        if (i == 0) {
            g = rc_at(r, p->dx);
            overwrite.add = p->add;
            if (p->addend >= 0)
                be->copy(be, g, rc_at(r, p->addend), rc_act_count(be, p->n, x.h, x.w, x.c) * be->act_bytes);
        }
        be->conv_backward_data(be, &p->conv, &draw, weight, g, &overwrite);
        if (adds)
            be->copy_backward(be, &of_sum, g, &add);
        be->conv_backward_weight(be, &p->conv, &from, &draw, parameters_at(r, p->dweight, i), NULL);
        if (i > 0) {
            round_map(r, p, g);
            finish_link(r, p, i - 1, g, dz);
        } else if (p->sums.partial >= 0) {
            const rc_grad dx = {.y = &x, .g = g};
            be->bn_backward_sums(be, &dx, rc_at(r, p->sums.partial));
        }
    }
    rc_run_back_sums(r, &p->sums, &x);
}

static void backward_at_once(rc_run *r, const train_case *p)
{
    rc_backend *be = r->be;
    rc_tensor x = rc_run_tensor(r, &p->x), y[MOST_LINKS], of_draw[MOST_LINKS];
    rc_grad dy[MOST_LINKS], draw[MOST_LINKS];
    rc_fused_train_back links[MOST_LINKS];
    rc_fused_weight weights[MOST_LINKS];
    for (int i = 0; i < p->count; i++) {
        void *weight = parameters_at(r, p->weight, i);
        y[i] = link_tensor(r, p, i);
        dy[i] = link_gradient(r, p, i, &y[i], i == p->count - 1 ? rc_at(r, p->g) : NULL);
        links[i] = (rc_fused_train_back){.layer = {&p->conv, weight, &dy[i]}, .draw = map_at(r, p, p->draw, i)};
        if (i < p->count - 1)
            links[i].norm = link_norm(r, p, i);
        else
            links[i].norm = (rc_bn_backward){
                .a = rc_without_const(dy[i].a), .b = rc_without_const(dy[i].b), .c = rc_without_const(dy[i].c)};
        of_draw[i] = plain(p, links[i].draw);
        draw[i] = (rc_grad){.y = &of_draw[i], .g = links[i].draw};
        weights[i] = (rc_fused_weight){&p->conv, i > 0 ? &y[i - 1] : &x, &draw[i], parameters_at(r, p->dweight, i)};
    }
    const rc_fused_train_gradients to = {
        .dx = rc_at(r, p->dx), .epilogue = epilogue_of(r, p, &x), .dskip = rc_at(r, p->dskip), .add_skip = p->add_skip};
    be->fused_train_backward(be, links, p->count, &to);
    be->fused_weight(be, weights, p->count);
    rc_run_back_sums(r, &p->sums, &x);
}

static void run_backward(rc_run *r)
{
    const train_case *p = rc_run_parameters(r);
    if (is_taken(r->be, r->c))
        backward_at_once(r, p);
    else
        backward_by_links(r, p);
}

static const rc_operation operations[] = {
    {"fused_train", "fused_train", 15, 60, sizeof(train_case), draw_forward, reserve, run_forward, NULL},
    {"fused_train_backward", "fused_train_backward fused_weight", 15, 60, sizeof(train_case), draw_backward, reserve,
     run_backward, NULL},
};
const rc_operation_list rc_cases_fused_train = {operations, sizeof operations / sizeof *operations};

static const rc_operation large_operations[] = {
    {"fused_train_large", "fused_train", LARGE, LARGE, sizeof(train_case), draw_large_forward, reserve, run_forward,
     NULL},
    {"fused_train_backward_large", "fused_train_backward fused_weight", LARGE, LARGE, sizeof(train_case),
     draw_large_backward, reserve, run_backward, NULL},
};
const rc_operation_list rc_cases_fused_train_large = {large_operations,
                                                      sizeof large_operations / sizeof *large_operations};
