/* Lazy tensors of a case: raw, pending normalisation, skip, activation, and where the value goes. */
#include "check/case.h"

#include <math.h>

const char *rc_act_name(rc_act act)
{
    static const char *const names[] = {"none", "relu", "leaky_relu", "tanh", "sigmoid", "relu6", "silu"};
    return names[act];
}

rc_groups rc_case_groups(rc_case *c, int n)
{
    rc_groups groups = {1, {n}};
    int wanted = n < 2 ? 1 : RC_CHOOSE(c, 1, 1, 2, 3);
    if (wanted > n)
        wanted = n;
    groups.count = wanted;
    for (int g = 0, end = 0; g < wanted; g++) {
        int left = wanted - g - 1; /* each of the groups that follow needs an image */
        end = left ? end + 1 + (int)rc_case_below(c, (uint32_t)(n - end - left)) : n;
        groups.end[g] = end;
    }
    return groups;
}

rc_lazy rc_lazy_of_shape(int n, int h, int w, int channels, rc_groups groups)
{
    rc_lazy t = {.n = n,
                 .h = h,
                 .w = w,
                 .c = channels,
                 .groups = groups.count,
                 .raw = -1,
                 .scale = -1,
                 .shift = -1,
                 .mean = -1,
                 .istd = -1,
                 .gamma = -1,
                 .value = -1,
                 .skip = -1};
    for (int g = 0; g < groups.count; g++)
        t.group_end[g] = groups.end[g];
    return t;
}

rc_lazy rc_case_plain(rc_case *c, const char *name, rc_buffer_role role, int n, int h, int w, int channels,
                      rc_groups groups)
{
    rc_lazy t = rc_lazy_of_shape(n, h, w, channels, groups);
    t.raw = rc_case_act(c, name, role, n, h, w, channels);
    return t;
}

/* scale = gamma * istd, shift = beta - mean * scale, as batch normalisation would have made them. */
static void add_normalisation(rc_case *c, rc_lazy *t)
{
    t->scale = rc_case_channel(c, "scale", RC_IN, t->groups, t->c);
    t->shift = rc_case_channel(c, "shift", RC_IN, t->groups, t->c);
    t->mean = rc_case_channel(c, "mean", RC_IN, t->groups, t->c);
    t->istd = rc_case_channel(c, "istd", RC_IN, t->groups, t->c);
    t->gamma = rc_case_parameter(c, "gamma", RC_IN, 1, t->c, 0);
    for (int i = 0; i < t->c; i++)
        rc_case_set(c, t->gamma, (size_t)i, rc_case_uniform(c, 0.5, 1.5));
    for (int i = 0; c->status == RC_OK && i < t->groups * t->c; i++) {
        double mean = 0.5 * rc_case_normal(c), istd = rc_case_uniform(c, 0.7, 1.5);
        double gamma = c->buffer[t->gamma].host[i % t->c], beta = 0.3 * rc_case_normal(c);
        rc_case_set(c, t->mean, (size_t)i, mean);
        rc_case_set(c, t->istd, (size_t)i, istd);
        rc_case_set(c, t->scale, (size_t)i, gamma * istd);
        rc_case_set(c, t->shift, (size_t)i, beta - mean * gamma * istd);
    }
}

/* Identity, or every second pixel of a map of fewer channels, placed first or in the middle. */
static void add_skip(rc_case *c, rc_lazy *t, bool identity)
{
    t->skip_stride = identity || t->c < 2 || rc_case_chance(c, 50) ? 1 : 2;
    t->skip_h = t->h;
    t->skip_w = t->w;
    t->skip_c = t->c;
    if (t->skip_stride == 2) {
        t->skip_h = 2 * t->h - (rc_case_chance(c, 25) ? 1 : 0);
        t->skip_w = 2 * t->w - (rc_case_chance(c, 25) ? 1 : 0);
        t->skip_c = t->c / 2;
        t->skip_offset = rc_case_chance(c, 50) ? (t->c - t->skip_c) / 2 : 0;
    }
    t->skip = rc_case_act(c, "skip", RC_IN, t->n, t->skip_h, t->skip_w, t->skip_c);
}

/* What is added to raw * scale: shift and skip at element (image, y, x, channel), computed in double. */
static double pending(const rc_case *c, const rc_lazy *t, int image, int y, int x, int channel, double *scale)
{
    int group = 0;
    while (group < t->groups - 1 && image >= t->group_end[group])
        group++;
    size_t at = (size_t)group * (size_t)t->c + (size_t)channel;
    *scale = t->scale >= 0 ? c->buffer[t->scale].host[at] : 1;
    double sum = t->shift >= 0 ? c->buffer[t->shift].host[at] : 0;
    int from = channel - t->skip_offset;
    if (t->skip >= 0 && from >= 0 && from < t->skip_c) {
        size_t row = (size_t)image * (size_t)t->skip_h + (size_t)(y * t->skip_stride);
        size_t pixel = row * (size_t)t->skip_w + (size_t)(x * t->skip_stride);
        sum += c->buffer[t->skip].host[pixel * (size_t)t->skip_c + (size_t)from];
    }
    return sum;
}

static double activate(rc_act act, double z)
{
    switch (act) {
    case RC_ACT_NONE: return z;
    case RC_ACT_RELU: return z > 0 ? z : 0;
    case RC_ACT_LEAKY_RELU: return z > 0 ? z : 0.2 * z;
    case RC_ACT_TANH: return tanh(z);
    case RC_ACT_SIGMOID: return 1 / (1 + exp(-z));
    case RC_ACT_RELU6: return z > 0 ? (z < 6 ? z : 6) : 0;
    case RC_ACT_SILU: return z / (1 + exp(-z));
    }
    return z;
}

/* The kink of an activation that lies nearest to z; false: it has none. */
static bool nearest_kink(rc_act act, double z, double *kink)
{
    *kink = act == RC_ACT_RELU6 && z > 3 ? 6 : 0;
    return act == RC_ACT_RELU || act == RC_ACT_LEAKY_RELU || act == RC_ACT_RELU6;
}

/* Moves raw so that no pre-activation lies within `margin` of a kink, and fills value where it is given. */
static void settle(rc_case *c, const rc_lazy *t)
{
    const double margin = c->act_bits == 24 ? 1e-3 : 3e-2;
    size_t i = 0;
    for (int image = 0; image < t->n; image++)
        for (int y = 0; y < t->h; y++)
            for (int x = 0; x < t->w; x++)
                for (int channel = 0; channel < t->c; channel++, i++) {
                    double scale, kink, rest = pending(c, t, image, y, x, channel, &scale);
                    double z = c->buffer[t->raw].host[i] * scale + rest;
                    /* By itself hardly any reaches 6. A channel that is 6 all over would be a bias: normalisation takes
                     * it out again, and the gradient of its weights is made of roundings. */
                    if (t->act == RC_ACT_RELU6 && (i / (size_t)t->c + (size_t)channel) % 5 == 4) {
                        rc_case_set(c, t->raw, i, (6 + 2 * margin + fabs(z) - rest) / scale);
                        z = c->buffer[t->raw].host[i] * scale + rest;
                    }
                    if (nearest_kink(t->act, z, &kink) && fabs(z - kink) < margin) {
                        rc_case_set(c, t->raw, i, (kink + (z < kink ? -2 : 2) * margin - rest) / scale);
                        z = c->buffer[t->raw].host[i] * scale + rest;
                    }
                    if (t->stored)
                        rc_case_set(c, t->value, i, activate(t->act, z));
                }
}

/* Every eighth case has ReLU6 or SiLU, which came later: so the others stay the cases that they were. */
static rc_act draw_act(rc_case *c)
{
    rc_act act = (rc_act)RC_CHOOSE(c, RC_ACT_NONE, RC_ACT_RELU, RC_ACT_RELU, RC_ACT_LEAKY_RELU, RC_ACT_TANH,
                                   RC_ACT_SIGMOID);
    if (c->number % 8 != 0)
        return act;
    return act == RC_ACT_NONE || act == RC_ACT_RELU ? RC_ACT_RELU6 : RC_ACT_SILU;
}

rc_lazy rc_case_lazy(rc_case *c, const char *name, int n, int h, int w, int channels, rc_groups groups, int features,
                     bool random)
{
    int percent = random ? 60 : 100;
    rc_lazy t = rc_lazy_of_shape(n, h, w, channels, groups);
    t.raw = rc_case_act(c, name, features & RC_LAZY_OUTPUT ? RC_OUT : RC_IN, n, h, w, channels);
    if ((features & RC_LAZY_BN) && rc_case_chance(c, percent))
        add_normalisation(c, &t);
    if ((features & RC_LAZY_SKIP) && rc_case_chance(c, percent))
        add_skip(c, &t, (features & RC_LAZY_IDENTITY) != 0);
    if (features & RC_LAZY_RELU)
        t.act = RC_ACT_RELU;
    if (features & RC_LAZY_LEAKY)
        t.act = RC_ACT_LEAKY_RELU;
    if (features & RC_LAZY_ACT)
        t.act = draw_act(c);
    if ((features & RC_LAZY_STORED) && rc_case_chance(c, percent / 2)) {
        t.value = rc_case_act(c, "stored value", RC_IN, n, h, w, channels);
        t.stored = true;
    } else if ((features & RC_LAZY_VALUE) && rc_case_chance(c, percent)) {
        t.value = rc_case_sum(c, rc_case_act(c, "value", RC_OUT, n, h, w, channels), 3);
    }
    if (c->status == RC_OK && !(features & RC_LAZY_OUTPUT))
        settle(c, &t);
    rc_case_say(c, " %s", name);
    if (t.scale >= 0)
        rc_case_say(c, "+bn%d", t.groups);
    if (t.skip >= 0)
        rc_case_say(c, "+skip%d@%d", t.skip_stride, t.skip_offset);
    if (t.act != RC_ACT_NONE)
        rc_case_say(c, "+%s", rc_act_name(t.act));
    if (t.value >= 0)
        rc_case_say(c, t.stored ? "+stored" : "+value");
    return t;
}

rc_lazy_gradient rc_case_lazy_gradient(rc_case *c, int n, int h, int w, int channels, rc_groups groups)
{
    rc_lazy_gradient d = {.a = -1, .b = -1, .c = -1};
    d.y = rc_case_lazy(c, "y", n, h, w, channels, groups, RC_LAZY_BN | RC_LAZY_SKIP | RC_LAZY_ACT | RC_LAZY_STORED,
                       true);
    d.g = rc_case_act(c, "g", RC_IN, n, h, w, channels);
    if (d.y.scale >= 0 && rc_case_chance(c, 80)) {
        d.a = rc_case_channel(c, "a", RC_IN, groups.count, channels);
        d.b = rc_case_channel(c, "b", RC_IN, groups.count, channels);
        d.c = rc_case_channel(c, "c", RC_IN, groups.count, channels);
        rc_case_say(c, "+abc");
    }
    return d;
}

rc_tensor rc_run_tensor(const rc_run *r, const rc_lazy *t)
{
    rc_tensor tensor = {
        .n = t->n, .h = t->h, .w = t->w, .c = t->c, .groups = t->groups, .act = t->act, .stored = t->stored};
    for (int g = 0; g < t->groups; g++)
        tensor.group_end[g] = t->group_end[g];
    tensor.raw = rc_at(r, t->raw);
    tensor.scale = rc_at(r, t->scale);
    tensor.shift = rc_at(r, t->shift);
    tensor.mean = rc_at(r, t->mean);
    tensor.istd = rc_at(r, t->istd);
    tensor.value = rc_at(r, t->value);
    if (t->skip >= 0)
        tensor.skip = (rc_skip){rc_at(r, t->skip), t->skip_h, t->skip_w, t->skip_c, t->skip_stride, t->skip_offset};
    return tensor;
}

rc_grad rc_run_gradient(const rc_run *r, const rc_lazy_gradient *d, rc_tensor *y)
{
    *y = rc_run_tensor(r, &d->y);
    return (rc_grad){y, rc_at(r, d->g), rc_at(r, d->a), rc_at(r, d->b), rc_at(r, d->c)};
}

/* ---- sums ----------------------------------------------------------------------------------------------------- */

static int smallest_group(const rc_lazy *t)
{
    int smallest = t->group_end[0];
    for (int g = 1; g < t->groups; g++)
        if (t->group_end[g] - t->group_end[g - 1] < smallest)
            smallest = t->group_end[g] - t->group_end[g - 1];
    return smallest;
}

bool rc_lazy_has_statistics(const rc_lazy *t)
{
    return smallest_group(t) * t->h * t->w >= 8;
}

rc_sums rc_case_no_sums(void)
{
    return (rc_sums){-1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
}

rc_back_sums rc_case_no_back_sums(void)
{
    return (rc_back_sums){-1, -1, -1, -1, -1, -1};
}

/* What stands for a sum over all samples of sums of `terms` products: the errors of both add up, and each is as the
 * root of a length (rc_tolerance). */
static double length_of(const rc_lazy *t, double terms)
{
    double root = sqrt((double)t->n * t->h * t->w) + sqrt(terms);
    return root * root;
}

/* An output of (groups, c) reals, summed over all samples, that went through the activations. */
static int channel_sum(rc_case *c, const char *name, const rc_lazy *t, double terms)
{
    int buffer = rc_case_sum(c, rc_case_channel(c, name, RC_OUT, t->groups, t->c), length_of(t, terms));
    c->buffer[buffer].stored_act = true;
    c->buffer[buffer].magnitude = 1;
    return buffer;
}

static int parameter_sum(rc_case *c, const char *name, rc_buffer_role role, const rc_lazy *t, double terms)
{
    int buffer = rc_case_sum(c, rc_case_parameter(c, name, role, 1, t->c, 0), length_of(t, terms));
    c->buffer[buffer].stored_act = true;
    c->buffer[buffer].magnitude = 1;
    return buffer;
}

rc_sums rc_case_sums(rc_case *c, const rc_lazy *y)
{
    rc_sums s = rc_case_no_sums();
    s.partial = rc_case_partial(c, "partial", y->n, y->h, y->w, y->c);
    if (rc_case_chance(c, 70))
        s.center = rc_case_parameter(c, "center", RC_IN, 1, y->c, 0.3);
    s.running_mean = parameter_sum(c, "running_mean", RC_IN_OUT, y, 0);
    s.running_var = parameter_sum(c, "running_var", RC_IN_OUT, y, 0);
    rc_case_fill(c, s.running_mean, 0, 0.3);
    rc_case_fill(c, s.running_var, 1, 0.1);
    s.scale = channel_sum(c, "sums' scale", y, 0);
    s.shift = channel_sum(c, "sums' shift", y, 0);
    s.mean = channel_sum(c, "sums' mean", y, 0);
    s.istd = channel_sum(c, "sums' istd", y, 0);
    if (!c->net) {
        s.seen = rc_case_buffer(c, "seen", RC_BUFFER_ACT, RC_STATE, y->n, y->h, y->w, y->c);
        s.copy = rc_case_buffer(c, "copy", RC_BUFFER_ACT, RC_SCRATCH, y->n, y->h, y->w, y->c);
        c->buffer[s.seen].from = y->raw;
    }
    rc_case_say(c, " sums%d", y->groups);
    return s;
}

void rc_run_sums(rc_run *r, const rc_sums *s, const rc_tensor *y)
{
    if (s->partial < 0)
        return;
    if (r->beside) {
        rc_tensor seen = *y, copy = *y;
        const rc_epilogue epilogue = {rc_at(r, s->partial), rc_at(r, s->center), false};
        seen.raw = rc_at(r, s->seen);
        copy.raw = rc_at(r, s->copy);
        r->be->copy_forward(r->be, &seen, &copy, &epilogue);
    }
    const rc_bn bn = {1e-5f, 0.1f};
    const rc_bn_forward f = {.partial = rc_at(r, s->partial),
                             .center = rc_at(r, s->center),
                             .running_mean = rc_at(r, s->running_mean),
                             .running_var = rc_at(r, s->running_var),
                             .scale = rc_at(r, s->scale),
                             .shift = rc_at(r, s->shift),
                             .mean = rc_at(r, s->mean),
                             .istd = rc_at(r, s->istd)};
    r->be->bn_train(r->be, &bn, y, &f);
}

rc_back_sums rc_case_back_sums(rc_case *c, const rc_lazy *x, double terms)
{
    rc_back_sums s;
    s.partial = rc_case_partial(c, "partial", x->n, x->h, x->w, x->c);
    s.dgamma = parameter_sum(c, "sums' dgamma", RC_OUT, x, terms);
    s.dbeta = parameter_sum(c, "sums' dbeta", RC_OUT, x, terms);
    s.a = channel_sum(c, "sums' a", x, terms);
    s.b = channel_sum(c, "sums' b", x, terms);
    s.c = channel_sum(c, "sums' c", x, terms);
    rc_case_say(c, " sums%d", x->groups);
    return s;
}

void rc_run_back_sums(rc_run *r, const rc_back_sums *s, const rc_tensor *x)
{
    if (s->partial < 0)
        return;
    const rc_bn_backward back = {.partial = rc_at(r, s->partial),
                                 .dgamma = rc_at(r, s->dgamma),
                                 .dbeta = rc_at(r, s->dbeta),
                                 .a = rc_at(r, s->a),
                                 .b = rc_at(r, s->b),
                                 .c = rc_at(r, s->c)};
    r->be->bn_backward(r->be, x, true, &back);
}
