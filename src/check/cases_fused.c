/* Cases of several layers at once (fuse in backend.h), for backends that run them so: convolutions of one shape, each
 * of which is called a link here, and all of them a chain.
 *
 * The reference goes link by link. Roundings would grow from link to link, so it goes on from what the test made of the
 * link before: forward with gradients, all raws are there to be read; without, chains of 1, 2, .. links give the value
 * of each; back, those from each link to the last give each gradient. What lies between is rounded by the reference,
 * too. Coefficients have few digits, so that nothing but sums of products is rounded in float: a result is exact but
 * for one rounding to the activation type (rc_buffer.exact). */
#include "check/case.h"

#include <math.h>

#include "base/memory.h"

typedef struct fused_case {
    rc_conv conv;
    int n, count;
    bool apply; /* forward without gradients */
    rc_act act[RC_MAX_FUSED];
    bool adds[RC_MAX_FUSED];  /* the first: a skip from elsewhere */
    rc_lazy x, y;             /* y: the shape of link 0 with its skip */
    int weight, scale, shift; /* (count, ..) */
    int result, seen;         /* (count * n, h, w, c) raws, or values; gradients of what links read */
    int value;                /* likewise: of links that have it, and back those that tell a slope */
    int work, spare;          /* ((count + 1) * n, h, w, c), (n, h, w, c) */
    int center, partial[RC_MAX_FUSED], mean, var; /* forward with gradients; partial -1: no sums */
    int raw, g, a, b, c;                          /* back */
    int dskip, dskips;                            /* of link 0, of the others */
    bool add, add_skip;
} fused_case;

/* Asks the backend as a pass does. The layers before the links are those of x and of the first skip. */
static bool is_taken(rc_backend *be, const rc_case *c)
{
    enum { X, SKIP, LINKS };
    const fused_case *p = (const fused_case *)c->parameters.bytes;
    rc_fusible layers[LINKS + RC_MAX_FUSED] = {{.act = p->x.act, .in = -1, .skip = -1}, {.in = -1, .skip = -1}};
    for (int i = 0; i < p->count; i++) {
        rc_fusible *link = &layers[LINKS + i];
        *link = (rc_fusible){.plain = true,
                             .conv = p->conv,
                             .act = p->act[i],
                             .in = i == 0 ? X : LINKS + i - 1,
                             .skip = -1,
                             .skip_stride = 1,
                             .output = i == p->count - 1};
        if (p->adds[i])
            link->skip = i == 0 ? SKIP : i == 1 ? X : LINKS + i - 2;
        if (p->adds[i] && i == 0) {
            link->skip_stride = p->y.skip_stride;
            link->skip_offset = p->y.skip_offset;
        }
    }
    return be->fuse && be->fuse(be, layers, LINKS + p->count, LINKS, p->n, !p->apply) == p->count;
}

/* ---- drawing -------------------------------------------------------------------------------------------------- */

/* Multiples of `step`, 8 of them at most. */
static int draw_steps(rc_case *c, const char *name, rc_buffer_kind kind, int rows, int columns, double step)
{
    int buffer = rc_case_buffer(c, name, kind, RC_IN, rows, 1, 1, columns);
    for (size_t i = 0; c->status == RC_OK && i < c->buffer[buffer].count; i++)
        rc_case_set(c, buffer, i, step * nearbyint(rc_case_uniform(c, -8, 8)));
    return buffer;
}

/* Eighths of the size that keeps values, or gradients, from growing and dying out along a chain; a few negative. */
static int draw_factors(rc_case *c, const char *name, const fused_case *p, int sums, int linear, int rectified)
{
    int buffer = rc_case_buffer(c, name, RC_BUFFER_CHANNEL, RC_IN, p->count, 1, 1, p->conv.c_out);
    for (int i = 0; c->status == RC_OK && i < p->count * p->conv.c_out; i++) {
        int link = i / p->conv.c_out;
        int most = p->adds[link] ? sums : p->act[link] == RC_ACT_RELU ? rectified : linear;
        double factor = (most - (int)rc_case_below(c, 3)) / 8.0;
        rc_case_set(c, buffer, (size_t)i, rc_case_chance(c, 10) ? -factor : factor);
    }
    return buffer;
}

static int draw_weights(rc_case *c, const fused_case *p)
{
    int channels = p->conv.c_in;
    double spread = sqrt(2.0 / (9 * channels)), step = ldexp(1, ilogb(spread) - 4);
    int buffer = rc_case_parameter(c, "weights", RC_IN, p->count, 9 * channels * channels, spread);
    for (size_t i = 0; c->status == RC_OK && i < c->buffer[buffer].count; i++)
        rc_case_set(c, buffer, i, step * nearbyint(c->buffer[buffer].host[i] / step));
    return buffer;
}

static const struct {
    int channels, side;
} shapes[] = {{16, 32}, {32, 16}, {64, 8}, {32, 32}, {64, 16}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* Cases of many images: more of them than multiprocessors, so that two share a block or warps are fewer. Once more with
 * three, as other large cases come with two. */
static const struct {
    int shape, count;
    bool apply;
} many[] = {{2, 4, false}, {2, 4, true}, {1, 3, false}, {0, 2, true}};
enum { MANY = sizeof many / sizeof *many, FEW_IMAGES = 3 };

static void set_shape(fused_case *p, int shape)
{
    int channels = shapes[shape].channels, side = shapes[shape].side;
    p->conv = (rc_conv){.c_in = channels,
                        .c_out = channels,
                        .k = 3,
                        .stride = 1,
                        .pad = 1,
                        .up = 1,
                        .h = side,
                        .w = side,
                        .oh = side,
                        .ow = side};
}

static void draw_size(rc_case *c, fused_case *p)
{
    set_shape(p, (int)(c->number % SHAPES));
    p->n = 1 + (int)rc_case_below(c, 3);
    p->count = 2 + (int)rc_case_below(c, 9);
    double macs = 9.0 * p->conv.h * p->conv.w * p->conv.c_in * p->conv.c_out;
    while (c->quick && p->n * p->count > 2 && macs * p->n * p->count > 3e7) {
        if (p->count > 2)
            p->count--;
        else
            p->n--;
    }
}

static void draw_many(rc_case *c, fused_case *p)
{
    set_shape(p, many[c->number % MANY].shape);
    p->n = c->number < MANY ? RC_CASE_MANY_IMAGES : FEW_IMAGES;
    p->count = many[c->number % MANY].count;
}

/* A skip of link 0: identity, or every second pixel of half the channels. The first cases have one of each. */
static void draw_first_skip(rc_case *c, fused_case *p)
{
    rc_lazy *y = &p->y;
    int channels = p->conv.c_out, odd = rc_case_chance(c, 25);
    y->skip_stride = c->number % 3 == 0 ? 2 : 1;
    y->skip_h = y->skip_stride == 1 ? y->h : 2 * y->h - odd;
    y->skip_w = y->skip_stride == 1 ? y->w : 2 * y->w - odd;
    y->skip_c = channels / y->skip_stride;
    if (y->skip_stride == 2 && (c->number < 2 * SHAPES || rc_case_chance(c, 50)))
        y->skip_offset = channels / 4 / 8 * 8; /* the channel multiple of those who take chains */
    y->skip = rc_case_act(c, "skip", RC_IN, p->n, y->skip_h, y->skip_w, y->skip_c);
    rc_case_say(c, " skip%d@%d", y->skip_stride, y->skip_offset);
}

/* Activations and sums; `after_x`: link 1 may add x. */
static void draw_links(rc_case *c, fused_case *p, bool after_x)
{
    p->y = rc_lazy_of_shape(p->n, p->conv.h, p->conv.w, p->conv.c_out, (rc_groups){1, {p->n}});
    for (int i = 0; i < p->count; i++) {
        p->act[i] = (rc_act)RC_CHOOSE(c, RC_ACT_RELU, RC_ACT_RELU, RC_ACT_NONE, RC_ACT_LEAKY_RELU);
        if (i == 0)
            p->adds[i] = c->number % 2 == 1;
        else
            p->adds[i] = !p->adds[i - 1] && (i > 1 || after_x) && rc_case_chance(c, 70);
        rc_case_say(c, " %s%s", p->adds[i] ? "+" : "", rc_act_name(p->act[i]));
    }
    if (p->adds[0])
        draw_first_skip(c, p);
    p->weight = draw_weights(c, p);
    p->scale = draw_factors(c, "scales", p, 4, 7, 9);
    p->shift = draw_steps(c, "shifts", RC_BUFFER_CHANNEL, p->count, p->conv.c_out, 1.0 / 16);
}

static double activate(rc_act act, double z)
{
    return z > 0 || act == RC_ACT_NONE ? z : act == RC_ACT_RELU ? 0 : 0.2 * z;
}

/* x: finished, or normalised with an activation pending, perhaps a sum, with or without memory for its value. */
static void draw_x(rc_case *c, fused_case *p)
{
    const rc_conv *v = &p->conv;
    rc_groups all = {1, {p->n}};
    rc_lazy *x = &p->x;
    *x = rc_case_plain(c, "x", RC_IN, p->n, v->h, v->w, v->c_in, all);
    if (rc_case_chance(c, 25)) {
        rc_case_say(c, " x");
        return;
    }
    x->act = (rc_act)RC_CHOOSE(c, RC_ACT_NONE, RC_ACT_RELU, RC_ACT_LEAKY_RELU);
    x->scale = draw_steps(c, "scale of x", RC_BUFFER_CHANNEL, 1, v->c_in, 1.0 / 8);
    x->shift = draw_steps(c, "shift of x", RC_BUFFER_CHANNEL, 1, v->c_in, 1.0 / 16);
    if (rc_case_chance(c, 40)) {
        x->skip = rc_case_act(c, "skip of x", RC_IN, p->n, v->h, v->w, v->c_in);
        x->skip_h = v->h, x->skip_w = v->w, x->skip_c = v->c_in, x->skip_stride = 1;
    }
    x->stored = rc_case_chance(c, 30);
    if (x->stored || rc_case_chance(c, 50))
        x->value = rc_case_act(c, "value of x", x->stored ? RC_IN : RC_OUT, p->n, v->h, v->w, v->c_in);
    for (size_t i = 0; x->stored && c->status == RC_OK && i < c->buffer[x->raw].count; i++) {
        size_t channel = i % (size_t)v->c_in;
        double z = c->buffer[x->raw].host[i] * c->buffer[x->scale].host[channel] + c->buffer[x->shift].host[channel];
        z += x->skip >= 0 ? c->buffer[x->skip].host[i] : 0;
        rc_case_set(c, x->value, i, activate(x->act, z));
    }
    rc_case_say(c, " x+bn%s+%s%s", x->skip >= 0 ? "+skip" : "", rc_act_name(x->act),
                x->stored       ? "+stored"
                : x->value >= 0 ? "+value"
                                : "");
}

static int maps(rc_case *c, const char *name, rc_buffer_role role, const fused_case *p, int rows)
{
    return rc_case_act(c, name, role, rows * p->n, p->conv.h, p->conv.w, p->conv.c_out);
}

/* What a chain writes, and the same for the reference to go on from. */
static int draw_result(rc_case *c, fused_case *p, const char *name, rc_buffer_role role)
{
    int buffer = rc_case_sum(c, maps(c, name, role, p, p->count), 9.0 * p->conv.c_in);
    p->seen = maps(c, "seen", RC_STATE, p, p->count);
    c->buffer[p->seen].from = buffer;
    p->work = maps(c, "work", RC_SCRATCH, p, p->count + 1);
    p->spare = maps(c, "spare", RC_SCRATCH, p, 1);
    return buffer;
}

/* Nothing is rounded but results, and only a backend that takes chains has something to show. */
static void complete(rc_case *c)
{
    c->takes = is_taken;
    for (int i = 0; i < c->buffers; i++)
        c->buffer[i].exact = true;
}

static int channel_sums(rc_case *c, const char *name, const fused_case *p)
{
    int buffer = rc_case_buffer(c, name, RC_BUFFER_CHANNEL, RC_OUT, p->count, 1, 1, p->conv.c_out);
    c->buffer[buffer].magnitude = 1;
    return rc_case_sum(c, buffer, (double)p->n * p->conv.h * p->conv.w);
}

static void say_shape(rc_case *c, const fused_case *p)
{
    rc_case_say(c, "%d x (%d,%d,%d,%d):", p->count, p->n, p->conv.h, p->conv.w, p->conv.c_in);
}

static void complete_forward(rc_case *c, fused_case *p)
{
    say_shape(c, p);
    p->value = -1;
    draw_x(c, p);
    bool finished = p->x.scale < 0;
    draw_links(c, p, finished || p->x.value >= 0);
    p->result = draw_result(c, p, p->apply ? "value" : "raw", RC_OUT);
    if (!p->apply)
        p->value = rc_case_sum(c, maps(c, "value", RC_OUT, p, p->count), 3);
    if (!p->apply) {
        p->center = draw_steps(c, "centers", RC_BUFFER_PARAMETER, p->count, p->conv.c_out, 1.0 / 16);
        p->mean = channel_sums(c, "mean", p);
        p->var = channel_sums(c, "var", p);
        for (int i = 0; i < p->count; i++)
            p->partial[i] = rc_case_chance(c, 15)
                                ? -1
                                : rc_case_partial(c, "partial", p->n, p->conv.h, p->conv.w, p->conv.c_out);
    }
    rc_case_say(c, p->apply ? " apply" : "");
    complete(c);
}

static void complete_backward(rc_case *c, fused_case *p)
{
    say_shape(c, p);
    draw_links(c, p, true);
    p->raw = maps(c, "raws", RC_IN, p, p->count);
    p->value = maps(c, "values", RC_IN, p, p->count);
    for (size_t i = 0, row = c->buffer[p->value].count / (size_t)p->count; i < c->buffer[p->value].count; i++)
        if (c->status == RC_OK)
            rc_case_set(c, p->value, i, activate(p->act[i / row], c->buffer[p->value].host[i]));
    p->a = draw_factors(c, "a", p, 8, 7, 10);
    p->b = draw_steps(c, "b", RC_BUFFER_CHANNEL, p->count, p->conv.c_out, 1.0 / 64);
    p->c = draw_steps(c, "c", RC_BUFFER_CHANNEL, p->count, p->conv.c_out, 1.0 / 64);
    p->g = maps(c, "g", RC_IN, p, 1);
    p->add = rc_case_chance(c, 50);
    p->result = draw_result(c, p, "dx", RC_IN_OUT);
    p->dskips = rc_case_sum(c, maps(c, "dskips", RC_OUT, p, p->count), 1);
    p->add_skip = c->number / 2 % 2 == 1;
    p->dskip = -1;
    if (p->adds[0])
        p->dskip = rc_case_act(c, "dskip", p->add_skip ? RC_IN_OUT : RC_OUT, p->n, p->y.skip_h, p->y.skip_w,
                               p->y.skip_c);
    rc_case_say(c, "%s%s", p->add ? " add" : "", p->adds[0] && p->add_skip ? " add skip" : "");
    complete(c);
}

static void draw_forward(rc_case *c)
{
    fused_case *p = rc_case_parameters(c);
    p->apply = c->number / SHAPES % 2 == 1;
    draw_size(c, p);
    complete_forward(c, p);
}

static void draw_backward(rc_case *c)
{
    fused_case *p = rc_case_parameters(c);
    draw_size(c, p);
    complete_backward(c, p);
}

static void draw_many_forward(rc_case *c)
{
    fused_case *p = rc_case_parameters(c);
    p->apply = many[c->number % MANY].apply;
    draw_many(c, p);
    complete_forward(c, p);
}

static void draw_many_backward(rc_case *c)
{
    fused_case *p = rc_case_parameters(c);
    draw_many(c, p);
    complete_backward(c, p);
}

/* ---- running -------------------------------------------------------------------------------------------------- */

static rc_status reserve(rc_run *r)
{
    const fused_case *p = rc_run_parameters(r);
    return r->be->reserve_conv(r->be, &p->conv, p->n);
}

static size_t map_bytes(const rc_run *r, const fused_case *p)
{
    return rc_act_count(r->be, p->n, p->conv.h, p->conv.w, p->conv.c_out) * r->be->act_bytes;
}

/* Of `row` maps behind the first of a buffer. */
static void *map_at(const rc_run *r, const fused_case *p, int buffer, int row)
{
    return (char *)rc_at(r, buffer) + (size_t)row * map_bytes(r, p);
}

/* Row `link` of coefficients (count, c), padded. */
static void *channels_at(const rc_run *r, const fused_case *p, int buffer, int link)
{
    return (char *)rc_at(r, buffer) + (size_t)link * (size_t)rc_padded(r->be, p->conv.c_out) * r->be->real_bytes;
}

/* Parameters have no padding. */
static void *parameters_at(const rc_run *r, int buffer, int link)
{
    const rc_buffer *b = &r->c->buffer[buffer];
    return (char *)rc_at(r, buffer) + (size_t)link * b->count / (size_t)b->n * r->be->real_bytes;
}

static rc_tensor plain(const fused_case *p, void *raw)
{
    return (rc_tensor){
        .n = p->n, .h = p->conv.h, .w = p->conv.w, .c = p->conv.c_out, .groups = 1, .group_end = {p->n}, .raw = raw};
}

/* Does the way back need the value of a link, because raw does not tell the slope? */
static bool tells_slope(const fused_case *p, int link)
{
    return p->adds[link] && p->act[link] != RC_ACT_NONE;
}

/* Has the value of a link memory, with gradients? */
static bool has_value(const fused_case *p, int link)
{
    return link == p->count - 1 || tells_slope(p, link);
}

/* The result of a link; `added`: what it adds, unless it is the first. */
static rc_tensor link_tensor(const rc_run *r, const fused_case *p, int link, void *raw, void *added)
{
    rc_tensor y = plain(p, raw);
    y.scale = channels_at(r, p, p->scale, link);
    y.shift = channels_at(r, p, p->shift, link);
    y.act = p->act[link];
    if (p->adds[link] && link == 0)
        y.skip = rc_run_tensor(r, &p->y).skip;
    else if (p->adds[link])
        y.skip = (rc_skip){added, y.h, y.w, y.c, 1, 0};
    return y;
}

/* Rounds a map as the backend under test does. */
static void round_map(rc_run *r, const fused_case *p, void *map)
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

/* The value of a tensor to row `row` of `work`, and to `value` if that is set. */
static void finish_value(rc_run *r, const fused_case *p, rc_tensor t, int row, void *value)
{
    t.value = map_at(r, p, p->work, row);
    t.stored = false;
    r->be->materialise(r->be, &t);
    if (value)
        r->be->copy(r->be, value, t.value, map_bytes(r, p));
    round_map(r, p, t.value);
}

/* Row i of `work` is what link i reads. */
static void forward_by_links(rc_run *r, const fused_case *p)
{
    rc_backend *be = r->be;
    finish_value(r, p, rc_run_tensor(r, &p->x), 0, p->x.stored ? NULL : rc_at(r, p->x.value));
    for (int i = 0; i < p->count; i++) {
        rc_tensor x = plain(p, map_at(r, p, p->work, i)), seen = plain(p, map_at(r, p, p->seen, i));
        void *added = i > 0 ? map_at(r, p, p->work, i - 1) : NULL;
        rc_tensor y = link_tensor(r, p, i, map_at(r, p, p->result, i), added);
        rc_epilogue epilogue = {.apply = p->apply};
        be->conv_forward(be, &p->conv, &x, parameters_at(r, p->weight, i), NULL, &y, &epilogue);
        if (p->apply) {
            be->copy(be, map_at(r, p, p->work, i + 1), seen.raw, map_bytes(r, p));
            continue;
        }
        y.raw = seen.raw;
        finish_value(r, p, y, i + 1, has_value(p, i) ? map_at(r, p, p->value, i) : NULL);
        if (p->partial[i] < 0)
            continue;
        rc_tensor copy = plain(p, rc_at(r, p->spare));
        epilogue = (rc_epilogue){rc_at(r, p->partial[i]), parameters_at(r, p->center, i), false};
        be->copy_forward(be, &seen, &copy, &epilogue);
        be->bn_statistics(be, &copy, epilogue.partial, epilogue.center, channels_at(r, p, p->mean, i),
                          channels_at(r, p, p->var, i));
    }
}

/* The chain of the first `count` links. */
static void forward_at_once(rc_run *r, const fused_case *p, int count)
{
    rc_backend *be = r->be;
    rc_tensor x = rc_run_tensor(r, &p->x), y[RC_MAX_FUSED];
    rc_fused links[RC_MAX_FUSED];
    for (int i = 0; i < count; i++) {
        void *raw = p->apply && i < count - 1 ? rc_at(r, p->spare) : map_at(r, p, p->result, i);
        void *added = i > 1 ? map_at(r, p, p->work, i - 1) : x.value ? x.value : x.raw;
        y[i] = link_tensor(r, p, i, raw, added);
        if (!p->apply && has_value(p, i))
            y[i].value = map_at(r, p, p->value, i);
        links[i] = (rc_fused){
            .conv = &p->conv, .weight = parameters_at(r, p->weight, i), .y = &y[i], .epilogue = {.apply = p->apply}};
        if (!p->apply) {
            links[i].epilogue.partial = rc_at(r, p->partial[i]);
            links[i].epilogue.center = parameters_at(r, p->center, i);
        }
    }
    be->fused_forward(be, &x, links, count);
    rc_run_expect(r, p->x.value < 0 || x.stored, "has not marked the value of x as stored");
    for (int i = 0; i < count; i++) {
        rc_run_expect(r, p->apply || y[i].stored == has_value(p, i), "is wrong about which values it has stored");
        if (links[i].epilogue.partial)
            be->bn_statistics(be, &y[i], links[i].epilogue.partial, links[i].epilogue.center,
                              channels_at(r, p, p->mean, i), channels_at(r, p, p->var, i));
    }
}

static void run_forward(rc_run *r)
{
    const fused_case *p = rc_run_parameters(r);
    if (!is_taken(r->be, r->c))
        forward_by_links(r, p);
    else if (!p->apply)
        forward_at_once(r, p, p->count);
    else
        for (int count = 1; count <= p->count; count++)
            forward_at_once(r, p, count);
}

/* ---- back ----------------------------------------------------------------------------------------------------- */

static rc_tensor back_tensor(const rc_run *r, const fused_case *p, int link)
{
    rc_tensor y = link_tensor(r, p, link, map_at(r, p, p->raw, link), rc_at(r, p->work));
    if (tells_slope(p, link)) {
        y.value = map_at(r, p, p->value, link);
        y.stored = true;
    }
    return y;
}

static rc_grad back_gradient(const rc_run *r, const fused_case *p, int link, const rc_tensor *y, void *g)
{
    return (rc_grad){y, g, channels_at(r, p, p->a, link), channels_at(r, p, p->b, link), channels_at(r, p, p->c, link)};
}

static void *skip_gradient(const rc_run *r, const fused_case *p, int link)
{
    return link == 0 ? rc_at(r, p->dskip) : map_at(r, p, p->dskips, link);
}

/* Row i of `seen` is the gradient of what link i reads; rows 0 and 1 of `work` are what a sum gives to what it adds and
 * dL/draw. */
static void backward_by_links(rc_run *r, const fused_case *p)
{
    rc_backend *be = r->be;
    for (int i = p->count - 1; i >= 0; i--) {
        rc_tensor y = back_tensor(r, p, i), x = plain(p, rc_at(r, p->spare));
        rc_grad dy = back_gradient(r, p, i, &y, i < p->count - 1 ? map_at(r, p, p->seen, i + 1) : rc_at(r, p->g));
        void *dx = map_at(r, p, p->result, i), *dz = rc_at(r, p->work), *draw = map_at(r, p, p->work, 1);
        const rc_grad of_sum = {&x, dz, NULL, NULL, NULL}, of_raw = {&x, draw, NULL, NULL, NULL};
        rc_back_epilogue epilogue = {.x = &x};
        be->copy_backward(be, &dy, draw, &epilogue);
        round_map(r, p, draw);
        epilogue.add = i == 0 && p->add;
        if (i < p->count - 1 && p->adds[i + 1]) {
            be->copy_backward(be, &of_sum, dx, &epilogue);
            epilogue.add = true;
        }
        be->conv_backward_data(be, &p->conv, &of_raw, parameters_at(r, p->weight, i), dx, &epilogue);
        if (!p->adds[i])
            continue;
        rc_tensor of_skip = {.n = p->n,
                             .h = y.skip.h,
                             .w = y.skip.w,
                             .c = y.skip.c,
                             .groups = 1,
                             .group_end = {p->n},
                             .raw = rc_without_const(y.skip.value)};
        epilogue = (rc_back_epilogue){.x = &of_skip, .add = i == 0 && p->add_skip};
        be->skip_backward(be, &dy, skip_gradient(r, p, i), &epilogue);
        if (i > 0) {
            be->copy(be, dz, skip_gradient(r, p, i), map_bytes(r, p));
            round_map(r, p, dz);
        }
    }
}

/* The chain from link `first` on. */
static void backward_at_once(rc_run *r, const fused_case *p, int first)
{
    rc_backend *be = r->be;
    rc_tensor y[RC_MAX_FUSED];
    rc_grad dy[RC_MAX_FUSED];
    rc_fused_back links[RC_MAX_FUSED];
    void *g = rc_at(r, p->spare); /* it is used up */
    be->copy(be, g, rc_at(r, p->g), map_bytes(r, p));
    for (int i = first; i < p->count; i++) {
        y[i] = back_tensor(r, p, i);
        dy[i] = back_gradient(r, p, i, &y[i], i == p->count - 1 ? g : NULL);
        links[i - first] = (rc_fused_back){&p->conv, parameters_at(r, p->weight, i), &dy[i]};
    }
    const rc_fused_gradients to = {map_at(r, p, p->result, first), first == 0 && p->add,
                                   p->adds[first] ? skip_gradient(r, p, first) : NULL, first == 0 && p->add_skip};
    be->fused_backward(be, links, p->count - first, &to);
}

static void run_backward(rc_run *r)
{
    const fused_case *p = rc_run_parameters(r);
    if (!is_taken(r->be, r->c))
        backward_by_links(r, p);
    else
        for (int first = p->count - 1; first >= 0; first--)
            backward_at_once(r, p, first);
}

static const rc_operation operations[] = {
    {"fused_forward", "fused_forward", 10, 60, sizeof(fused_case), draw_forward, reserve, run_forward, NULL},
    {"fused_backward", "fused_backward", 10, 60, sizeof(fused_case), draw_backward, reserve, run_backward, NULL},
};
const rc_operation_list rc_cases_fused = {operations, sizeof operations / sizeof *operations};

static const rc_operation many_operations[] = {
    {"fused_forward_large", "fused_forward", MANY, MANY, sizeof(fused_case), draw_many_forward, reserve, run_forward,
     NULL},
    {"fused_backward_large", "fused_backward", MANY, MANY, sizeof(fused_case), draw_many_backward, reserve,
     run_backward, NULL},
};
const rc_operation_list rc_cases_fused_large = {many_operations, sizeof many_operations / sizeof *many_operations};
