/* Operations against PyTorch in float64 (tests/oracle/operations.py), on every CPU backend. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "support/subject.h"

/* Float: inputs are exact, so the error is that of one sum of at most some hundred products, each rounded to 6e-8, and
 * of the normalisation's scale. Double: the fixtures hold 14 digits. */
static const double tolerance[2] = {2e-6, 1e-12};

static oracle *fixture;

/* ---- the chain ---------------------------------------------------------------------------------------------- */

/* One of the two normalisations of a chain, with all that it reads and writes. */
typedef struct normalisation {
    char name[16];
    bool on, train;
    rc_bn settings;
    void *gamma, *beta, *running_mean, *running_var;
    void *scale, *shift, *mean, *istd;
    void *partial, *a, *b, *c, *dgamma, *dbeta;
} normalisation;

typedef struct chain {
    bool skips;
    rc_conv conv;
    rc_linear linear;
    rc_pool2d pool;
    normalisation bn_x, bn_y;
    rc_tensor source, x, y, skip;
    void *weight, *bias;
} chain;

static rc_act act_of(subject *s, const char *key)
{
    static const struct {
        const char *name;
        rc_act act;
    } acts[] = {{"none", RC_ACT_NONE}, {"relu", RC_ACT_RELU},       {"leaky", RC_ACT_LEAKY_RELU},
                {"tanh", RC_ACT_TANH}, {"sigmoid", RC_ACT_SIGMOID}, {"relu6", RC_ACT_RELU6},
                {"silu", RC_ACT_SILU}};
    for (size_t i = 0; i < sizeof acts / sizeof acts[0]; i++)
        if (oracle_is(s->c, key, acts[i].name))
            return acts[i].act;
    fail_msg("%s: unknown activation", s->c->name);
    return RC_ACT_NONE;
}

static void *part(subject *s, const normalisation *bn, const char *end, int c, double scale, double offset)
{
    char name[32];
    strcpy(name, bn->name);
    strcat(name, end);
    return subject_input(s, name, (size_t)c, scale, offset);
}

static normalisation new_normalisation(subject *s, const char *name, const rc_tensor *t)
{
    normalisation bn = {.on = !oracle_is(s->c, name, "none"), .train = oracle_is(s->c, name, "train")};
    strcpy(bn.name, name);
    if (!bn.on)
        return bn;
    size_t count = (size_t)t->groups * (size_t)rc_padded(s->be, t->c);
    bn.settings = (rc_bn){(float)oracle_number(s->c, "eps"), (float)oracle_number(s->c, "momentum")};
    bn.gamma = part(s, &bn, ".weight", t->c, 0.5, 1);
    bn.beta = part(s, &bn, ".bias", t->c, 0.25, 0);
    bn.running_mean = part(s, &bn, ".running_mean", t->c, 0.25, 0);
    bn.running_var = part(s, &bn, ".running_var", t->c, 0.5, 1);
    void **vectors[] = {&bn.scale, &bn.shift, &bn.mean, &bn.istd, &bn.a, &bn.b, &bn.c};
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++)
        *vectors[i] = subject_reals(s, NULL, count);
    bn.dgamma = subject_reals(s, NULL, (size_t)t->c);
    bn.dbeta = subject_reals(s, NULL, (size_t)t->c);
    bn.partial = subject_bytes(s, s->be->partial_bytes(s->be, t->n, t->h, t->w, t->c));
    return bn;
}

/* After the operation that wrote t.raw and its sums. */
static void normalise(subject *s, normalisation *bn, rc_tensor *t)
{
    rc_backend *be = s->be;
    if (!bn->on)
        return;
    const rc_bn_forward f = {.partial = bn->partial,
                             .center = bn->running_mean,
                             .gamma = bn->gamma,
                             .beta = bn->beta,
                             .running_mean = bn->running_mean,
                             .running_var = bn->running_var,
                             .scale = bn->scale,
                             .shift = bn->shift,
                             .mean = bn->mean,
                             .istd = bn->istd};
    if (bn->train)
        be->bn_train(be, &bn->settings, t, &f);
    else
        be->bn_eval(be, &bn->settings, t, &f);
    t->scale = bn->scale;
    t->shift = bn->shift;
    t->mean = bn->mean;
    t->istd = bn->istd;
}

/* The sums of dz lie in bn->partial. */
static rc_grad normalise_back(subject *s, normalisation *bn, const rc_tensor *t, void *g, const void *dmean,
                              const void *dvar, const void *batch_mean)
{
    rc_grad dy = {.y = t, .g = g};
    if (!bn->on)
        return dy;
    const rc_bn_backward back = {.partial = bn->partial,
                                 .dmean = dmean,
                                 .dvar = dvar,
                                 .batch_mean = batch_mean,
                                 .dgamma = bn->dgamma,
                                 .dbeta = bn->dbeta,
                                 .a = bn->a,
                                 .b = bn->b,
                                 .c = bn->c};
    s->be->bn_backward(s->be, t, bn->train, &back);
    dy.a = bn->a;
    dy.b = bn->b;
    dy.c = bn->c;
    return dy;
}

static void expect_normalisation(subject *s, const normalisation *bn, int c)
{
    const void *memory[] = {bn->dgamma, bn->dbeta, bn->running_mean, bn->running_var};
    static const char *const ends[] = {".weight", ".bias", ".running_mean", ".running_var"};
    for (int i = 0; bn->on && i < 4; i++) {
        char name[40];
        strcpy(name, i < 2 ? "d" : "");
        strcat(name, bn->name);
        strcat(name, ends[i]);
        subject_expect(s, name, memory[i], (size_t)c);
    }
}

static void forward(subject *s, chain *t, rc_tensor *y, const rc_epilogue *epilogue)
{
    rc_backend *be = s->be;
    if (oracle_is(s->c, "op", "conv"))
        be->conv_forward(be, &t->conv, &t->x, t->weight, t->bias, y, epilogue);
    else if (oracle_is(s->c, "op", "depthwise"))
        be->depthwise_forward(be, &t->conv, &t->x, t->weight, t->bias, y, epilogue);
    else if (oracle_is(s->c, "op", "linear"))
        be->linear_forward(be, &t->linear, &t->x, t->weight, t->bias, y, epilogue);
    else if (oracle_is(s->c, "op", "max"))
        be->max_pool_forward(be, &t->pool, &t->x, y);
    else
        be->copy_forward(be, &t->x, y, epilogue);
}

/* Leaves dL/d(value of x) in dx, with sums for bn_x if it is on; compares the gradients of the parameters. */
static void backward(subject *s, chain *t, const rc_grad *dy, void *dx)
{
    rc_backend *be = s->be;
    rc_back_epilogue epilogue = {.x = &t->x, .partial = t->bn_x.on ? t->bn_x.partial : NULL};
    bool dbias_wanted = t->bias && !t->bn_y.train;
    size_t c_in = (size_t)t->x.c, outputs = (size_t)t->y.c, k = (size_t)t->conv.k, weights = c_in * outputs * k * k;
    if (oracle_is(s->c, "op", "depthwise"))
        weights = outputs * k * k;
    if (oracle_is(s->c, "op", "linear")) {
        outputs *= (size_t)t->y.h * (size_t)t->y.w;
        weights = c_in * outputs;
    }
    void *dweight = subject_reals(s, NULL, weights), *dbias = dbias_wanted ? subject_reals(s, NULL, outputs) : NULL;
    if (oracle_is(s->c, "op", "conv")) {
        be->conv_backward_weight(be, &t->conv, &t->x, dy, dweight, dbias);
        be->conv_backward_data(be, &t->conv, dy, t->weight, dx, &epilogue);
    } else if (oracle_is(s->c, "op", "depthwise")) {
        be->depthwise_backward_weight(be, &t->conv, &t->x, dy, dweight, dbias);
        be->depthwise_backward_data(be, &t->conv, dy, t->weight, dx, &epilogue);
    } else if (oracle_is(s->c, "op", "linear")) {
        be->linear_backward_weight(be, &t->linear, &t->x, dy, dweight, dbias);
        be->linear_backward_data(be, &t->linear, dy, t->weight, dx, &epilogue);
    } else if (oracle_is(s->c, "op", "max")) {
        be->max_pool_backward(be, &t->pool, &t->x, dy, dx, &epilogue);
        return;
    } else {
        be->copy_backward(be, dy, dx, &epilogue);
        return;
    }
    subject_expect(s, "dweight", dweight, weights);
    if (dbias)
        subject_expect(s, "dbias", dbias, outputs);
}

static void set_groups(rc_tensor *t, int groups)
{
    t->groups = groups;
    t->group_end[0] = groups == 1 ? t->n : t->n / 3 + 1;
    t->group_end[1] = t->n;
}

/* Geometry and parameters of the operation; y gets its shape. */
static void set_operation(subject *s, chain *t)
{
    const oracle_case *c = s->c;
    int n = oracle_int(c, "n"), h = oracle_int(c, "h"), w = oracle_int(c, "w"), k = oracle_int(c, "k");
    int stride = oracle_int(c, "stride"), pad = oracle_int(c, "pad"), c_in = oracle_int(c, "c_in");
    int c_out = oracle_int(c, "c_out"), up = oracle_int(c, "up"), map = oracle_int(c, "map"), oh = h, ow = w;
    size_t weights = (size_t)c_in * (size_t)c_out * (size_t)k * (size_t)k, outputs = (size_t)c_out;
    double bound = sqrt(3.0 / ((double)c_in * k * k));
    t->pool = (rc_pool2d){k, stride, pad};
    t->linear = (rc_linear){c_in, c_out, map, map};
    if (oracle_is(c, "op", "linear")) {
        oh = ow = map;
        outputs *= (size_t)map * (size_t)map;
        weights = (size_t)c_in * outputs;
        bound = sqrt(3.0 / (double)c_in);
        assert_int_equal(s->be->reserve_linear(s->be, &t->linear, n), RC_OK);
    } else if (oracle_int(c, "transposed")) {
        oh = (h - 1) * stride - 2 * pad + k;
        ow = (w - 1) * stride - 2 * pad + k;
    } else if (!oracle_is(c, "op", "copy")) {
        int behind = oracle_int(c, "behind");
        oh = (h * up + pad + behind - k) / stride + 1;
        ow = (w * up + pad + behind - k) / stride + 1;
    }
    if (oracle_is(c, "op", "depthwise")) {
        weights = outputs * (size_t)k * (size_t)k;
        bound = sqrt(3.0 / ((double)k * k));
    }
    t->conv = (rc_conv){.c_in = c_in,
                        .c_out = c_out,
                        .k = k,
                        .stride = stride,
                        .pad = pad,
                        .up = up,
                        .transposed = oracle_int(c, "transposed") != 0,
                        .h = h,
                        .w = w,
                        .oh = oh,
                        .ow = ow};
    if (oracle_is(c, "op", "conv"))
        assert_int_equal(s->be->reserve_conv(s->be, &t->conv, n), RC_OK);
    if (oracle_is(c, "op", "depthwise"))
        assert_int_equal(s->be->reserve_depthwise(s->be, &t->conv, n), RC_OK);
    t->weight = subject_input(s, "weight", weights, bound, 0);
    t->bias = oracle_int(c, "bias") ? subject_input(s, "bias", outputs, 0.25, 0) : NULL;
    t->y = subject_map(s, n, oh, ow, c_out);
}

/* source -> x: copied, with bn_x and act_x pending -> y: the operation, with bn_y, skip and act_y pending. */
static void run_forward(subject *s, chain *t)
{
    const oracle_case *c = s->c;
    rc_backend *be = s->be;
    int n = oracle_int(c, "n"), h = oracle_int(c, "h"), w = oracle_int(c, "w"), c_in = oracle_int(c, "c_in");
    int groups = oracle_int(c, "groups");
    t->source = subject_map_input(s, "x", n, h, w, c_in, 1, 0);
    t->x = subject_map(s, n, h, w, c_in);
    set_operation(s, t);
    set_groups(&t->x, groups);
    set_groups(&t->y, groups);
    t->bn_x = new_normalisation(s, "bn_x", &t->x);
    t->bn_y = new_normalisation(s, "bn_y", &t->y);
    be->copy_forward(be, &t->source, &t->x, &(rc_epilogue){.partial = t->bn_x.partial, .center = t->bn_x.running_mean});
    normalise(s, &t->bn_x, &t->x);
    t->x.act = act_of(s, "act_x");
    if (oracle_int(c, "keep_x"))
        t->x.value = subject_bytes(s, rc_act_count(be, n, h, w, c_in) * be->act_bytes);

    t->skips = oracle_int(c, "skip") != 0;
    if (t->skips) {
        int stride = oracle_int(c, "skip_stride"), skip_c = oracle_int(c, "skip_c");
        t->skip = subject_map_input(s, "skip", n, t->y.h * stride, t->y.w * stride, skip_c, 1, 0);
        t->y.skip = (rc_skip){.value = t->skip.raw,
                              .h = t->skip.h,
                              .w = t->skip.w,
                              .c = skip_c,
                              .stride = stride,
                              .channel_offset = oracle_int(c, "skip_offset")};
    }
    t->y.act = act_of(s, "act_y");
    if (!t->bn_y.train && !oracle_is(c, "op", "max")) {
        /* eval without gradients: one operation leaves the finished value */
        rc_tensor finished = t->y;
        finished.raw = subject_bytes(s, rc_act_count(be, t->y.n, t->y.h, t->y.w, t->y.c) * be->act_bytes);
        normalise(s, &t->bn_y, &finished);
        forward(s, t, &finished, &(rc_epilogue){.apply = true});
        subject_expect_map(s, "value", &finished, finished.raw);
    }
    forward(s, t, &t->y, &(rc_epilogue){.partial = t->bn_y.partial, .center = t->bn_y.running_mean});
    if (t->x.value)
        assert_true(t->x.stored);
    t->y.value = subject_bytes(s, rc_act_count(be, t->y.n, t->y.h, t->y.w, t->y.c) * be->act_bytes);
}

static void run_chain(subject *s)
{
    rc_backend *be = s->be;
    chain t = {.skips = false};
    run_forward(s, &t);
    void *dmean = NULL, *dvar = NULL, *batch_mean = NULL;
    if (oracle_int(s->c, "statistics")) {
        size_t cp = (size_t)rc_padded(be, t.y.c);
        dmean = subject_reals(s, NULL, cp);
        dvar = subject_reals(s, NULL, cp);
        batch_mean = subject_reals(s, NULL, cp);
        be->bn_statistics(be, &t.y, t.bn_y.partial, t.bn_y.running_mean, batch_mean, dmean);
        subject_expect(s, "mean", batch_mean, (size_t)t.y.c);
        subject_expect(s, "var", dmean, (size_t)t.y.c);
        be->copy(be, dmean, subject_input(s, "dmean", (size_t)t.y.c, 8, 0), (size_t)t.y.c * be->real_bytes);
        be->copy(be, dvar, subject_input(s, "dvar", (size_t)t.y.c, 8, 0), (size_t)t.y.c * be->real_bytes);
    }
    normalise(s, &t.bn_y, &t.y);
    be->materialise(be, &t.y);
    subject_expect_map(s, "value", &t.y, t.y.value);

    rc_tensor g = subject_map_input(s, "g", t.y.n, t.y.h, t.y.w, t.y.c, 1, 0);
    rc_tensor dx = subject_map(s, t.x.n, t.x.h, t.x.w, t.x.c), dsource = subject_map(s, t.x.n, t.x.h, t.x.w, t.x.c);
    if (t.bn_y.on)
        be->bn_backward_sums(be, &(rc_grad){.y = &t.y, .g = g.raw}, t.bn_y.partial);
    rc_grad dy = normalise_back(s, &t.bn_y, &t.y, g.raw, dmean, dvar, batch_mean);
    backward(s, &t, &dy, dx.raw);
    if (t.skips) {
        rc_tensor dskip = subject_map(s, t.skip.n, t.skip.h, t.skip.w, t.skip.c);
        be->skip_backward(be, &dy, dskip.raw, &(rc_back_epilogue){.x = &t.skip});
        subject_expect_map(s, "dskip", &dskip, dskip.raw);
    }
    rc_grad to_source = normalise_back(s, &t.bn_x, &t.x, dx.raw, NULL, NULL, NULL);
    be->copy_backward(be, &to_source, dsource.raw, &(rc_back_epilogue){.x = &t.source});
    subject_expect_map(s, "dx", &dsource, dsource.raw);
    expect_normalisation(s, &t.bn_x, t.x.c);
    expect_normalisation(s, &t.bn_y, t.y.c);
}

static void chains(void **state)
{
    (void)state;
    subject_run(fixture, "chain/", tolerance, run_chain);
}

/* ---- pooling, dense ------------------------------------------------------------------------------------------ */

static void run_average_pool(subject *s)
{
    rc_backend *be = s->be;
    int n = oracle_int(s->c, "n"), h = oracle_int(s->c, "h"), w = oracle_int(s->c, "w"), c = oracle_int(s->c, "c");
    rc_tensor x = subject_map_input(s, "x", n, h, w, c, 1, 0), dx = subject_map(s, n, h, w, c);
    x.act = RC_ACT_RELU;
    size_t count = (size_t)n * (size_t)c;
    void *features = subject_reals(s, NULL, count), *g = subject_input(s, "g", count, 1, 0);
    be->average_pool_forward(be, &x, features);
    subject_expect(s, "features", features, count);
    be->average_pool_backward(be, g, dx.raw, &(rc_back_epilogue){.x = &x});
    be->copy_backward(be, &(rc_grad){.y = &x, .g = dx.raw}, dx.raw, &(rc_back_epilogue){.x = &x});
    subject_expect_map(s, "dx", &dx, dx.raw);
}

static void average_pools(void **state)
{
    (void)state;
    subject_run(fixture, "average/", tolerance, run_average_pool);
}

static void run_dense(subject *s)
{
    rc_backend *be = s->be;
    int n = oracle_int(s->c, "n"), in = oracle_int(s->c, "inputs"), out = oracle_int(s->c, "outputs");
    size_t rows = (size_t)n, inputs = (size_t)in, outputs = (size_t)out;
    assert_int_equal(be->reserve_dense(be, n, in, out), RC_OK);
    void *x = subject_input(s, "x", rows * inputs, 1, 0), *weight = subject_input(s, "weight", outputs * inputs, 1, 0);
    void *bias = subject_input(s, "bias", outputs, 1, 0), *g = subject_input(s, "g", rows * outputs, 1, 0);
    void *y = subject_reals(s, NULL, rows * outputs), *dx = subject_reals(s, NULL, rows * inputs);
    void *dweight = subject_reals(s, NULL, outputs * inputs), *dbias = subject_reals(s, NULL, outputs);
    be->dense_forward(be, n, in, out, x, weight, bias, y, out);
    be->dense_backward_data(be, n, in, out, g, out, weight, dx, false);
    be->dense_backward_weight(be, n, in, out, x, g, out, dweight, dbias, false);
    subject_expect(s, "y", y, rows * outputs);
    subject_expect(s, "dx", dx, rows * inputs);
    subject_expect(s, "dweight", dweight, outputs * inputs);
    subject_expect(s, "dbias", dbias, outputs);
}

static void dense(void **state)
{
    (void)state;
    subject_run(fixture, "dense/", tolerance, run_dense);
}

/* ---- optimisers ---------------------------------------------------------------------------------------------- */

static void run_optimiser(subject *s)
{
    rc_backend *be = s->be;
    const oracle_case *c = s->c;
    bool is_adam = strcmp(c->name, "optimise/adam") == 0;
    size_t count = (size_t)oracle_int(c, "count");
    void *parameter = subject_input(s, "parameter", count, 1, 0);
    void *first = subject_reals(s, NULL, count), *second = subject_reals(s, NULL, count);
    rc_step host = {.step = UINT32_MAX, .batch = UINT32_MAX, .learning_rate = (float)oracle_number(c, "lr")};
    rc_step *step = subject_bytes(s, sizeof host);
    be->write_bytes(be, step, &host, sizeof host);
    for (int i = 0; i < oracle_int(c, "steps"); i++) {
        char name[32];
        snprintf(name, sizeof name, "gradient-%d", i);
        void *gradient = subject_input(s, name, count, 0.1 + 0.2 * i, 0);
        be->step_begin(be, step);
        if (is_adam) {
            rc_adam adam = {(float)oracle_number(c, "beta1"), (float)oracle_number(c, "beta2"),
                            (float)oracle_number(c, "eps")};
            be->adam(be, &adam, step, count, parameter, gradient, first, second);
        } else {
            rc_sgd sgd = {(float)oracle_number(c, "momentum"), (float)oracle_number(c, "weight_decay")};
            be->sgd(be, &sgd, step, count, parameter, gradient, first);
        }
        snprintf(name, sizeof name, "parameter-%d", i);
        subject_expect(s, name, parameter, count);
    }
}

static void optimisers(void **state)
{
    (void)state;
    subject_run(fixture, "optimise/", tolerance, run_optimiser);
}

/* ---- batches ------------------------------------------------------------------------------------------------- */

static rc_step *step_of(subject *s, uint32_t batch)
{
    rc_step host = {.seed = s->c->seed,
                    .task = (uint32_t)oracle_int(s->c, "task"),
                    .batch = batch,
                    .step = (uint32_t)oracle_int(s->c, "step")};
    rc_step *step = subject_bytes(s, sizeof host);
    s->be->write_bytes(s->be, step, &host, sizeof host);
    return step;
}

static void run_augment(subject *s)
{
    rc_backend *be = s->be;
    const oracle_case *c = s->c;
    rc_augment settings = {.h = oracle_int(c, "h"),
                           .w = oracle_int(c, "w"),
                           .c = oracle_int(c, "c"),
                           .pad = oracle_int(c, "pad"),
                           .flip = oracle_int(c, "flip") != 0,
                           .zoom = (uint32_t)(oracle_number(c, "zoom") * 0x1p32),
                           .colour = (float)oracle_number(c, "colour"),
                           .stream = (uint32_t)oracle_int(c, "stream")};
    double *mean = oracle_fill(c, "mean", (size_t)settings.c, 0.25, 0.5);
    double *std = oracle_fill(c, "std", (size_t)settings.c, 0.125, 0.25);
    for (int i = 0; i < settings.c; i++) {
        settings.mean[i] = (float)mean[i];
        settings.std[i] = (float)std[i];
    }
    int n = oracle_int(c, "n");
    size_t count = (size_t)oracle_int(c, "count"), bytes = count * (size_t)(settings.h * settings.w * settings.c);
    uint32_t *bits = oracle_bits(c, "images", bytes), *order = malloc(count * sizeof *order);
    uint8_t *pixels = malloc(bytes);
    assert_non_null(order);
    assert_non_null(pixels);
    for (size_t i = 0; i < bytes; i++)
        pixels[i] = (uint8_t)(bits[i] >> 24);
    rc_rng_permutation((rc_rng){c->seed, (uint64_t)oracle_int(c, "order")}, (uint32_t)count, order);
    uint8_t *images = subject_bytes(s, bytes);
    int32_t *permuted = subject_bytes(s, count * sizeof *permuted);
    be->write_bytes(be, images, pixels, bytes);
    be->write_bytes(be, permuted, order, count * sizeof *order);
    rc_tensor out = subject_map(s, n, settings.h, settings.w, settings.c);
    be->augment(be, &settings, images, permuted, n, step_of(s, (uint32_t)oracle_int(c, "batch")), &out);
    subject_expect_map(s, "batch", &out, out.raw);
    free(mean);
    free(std);
    free(bits);
    free(order);
    free(pixels);
}

static void batches(void **state)
{
    (void)state;
    subject_run(fixture, "augment/", tolerance, run_augment);
}

static void run_vary(subject *s)
{
    rc_backend *be = s->be;
    const oracle_case *c = s->c;
    rc_vary settings = {.h = oracle_int(c, "h"),
                        .w = oracle_int(c, "w"),
                        .c = oracle_int(c, "c"),
                        .trivial = oracle_int(c, "trivial") != 0,
                        .turns = oracle_int(c, "turns") != 0,
                        .n_old = oracle_int(c, "n_old"),
                        .classes = oracle_int(c, "classes"),
                        .stream = (uint32_t)oracle_int(c, "stream")};
    int n = oracle_int(c, "n"), dull = oracle_int(c, "dull");
    size_t image = (size_t)(settings.h * settings.w * settings.c), made = (size_t)n * image;
    size_t count = (size_t)oracle_int(c, "count"), bytes = count * image, most = bytes > made ? bytes : made;
    uint32_t *bits = oracle_bits(c, "images", bytes), *order = malloc(count * sizeof *order);
    uint8_t *pixels = malloc(most);
    double *values = malloc(most * sizeof *values);
    int32_t numbers[256] = {0};
    assert_true(order != NULL && pixels != NULL && values != NULL && n <= 256 && count <= 256);
    for (size_t i = 0; i < bytes; i++)
        pixels[i] = (uint8_t)((int)(bits[i] >> 24) / dull + 20); /* of white ones, black comes after that */
    for (int i = 0; i < (int)count; i++)
        numbers[i] = settings.n_old + i % (settings.classes - settings.n_old);
    rc_rng_permutation((rc_rng){c->seed, (uint64_t)oracle_int(c, "order")}, (uint32_t)count, order);
    uint8_t *images = subject_bytes(s, bytes), *varied = subject_bytes(s, made);
    int32_t *permuted = subject_bytes(s, count * sizeof *permuted), *labels = subject_labels(s, numbers, count);
    int32_t *turned = settings.turns ? subject_labels(s, numbers, (size_t)n) : NULL;
    be->write_bytes(be, images, pixels, bytes);
    be->write_bytes(be, permuted, order, count * sizeof *order);
    be->vary(be, &settings, images, permuted, n, step_of(s, (uint32_t)oracle_int(c, "batch")), labels, varied, turned);
    be->read_bytes(be, pixels, varied, made);
    if (turned != NULL)
        be->read_bytes(be, numbers, turned, (size_t)n * sizeof *numbers);
    assert_int_equal(be->sync(be), RC_OK);
    for (size_t i = 0; i < made; i++)
        values[i] = pixels[i];
    subject_expect_double(s, "varied", values, made);
    for (int b = 0; b < n; b++)
        values[b] = turned != NULL ? numbers[b] : 0;
    subject_expect_double(s, "turned", values, (size_t)n);
    free(bits);
    free(order);
    free(pixels);
    free(values);
}

static void varies(void **state)
{
    (void)state;
    subject_run(fixture, "vary/", tolerance, run_vary);
}

static void run_mix(subject *s)
{
    const oracle_case *c = s->c;
    int n = oracle_int(c, "n");
    rc_mix settings = {.cutout = oracle_int(c, "cutout"),
                       .mixup = (float)oracle_number(c, "mixup"),
                       .cutmix = (float)oracle_number(c, "cutmix"),
                       .stream = (uint32_t)oracle_int(c, "stream")};
    bool mixes = settings.mixup > 0 || settings.cutmix > 0;
    int32_t numbers[16], partner[16];
    for (int b = 0; b < n; b++)
        numbers[b] = 100 + b;
    int32_t *labels = subject_labels(s, numbers, (size_t)n),
            *partners = mixes ? subject_labels(s, numbers, (size_t)n) : NULL;
    void *share = mixes ? subject_reals(s, NULL, (size_t)n) : NULL;
    rc_tensor images = subject_map_input(s, "images", n, oracle_int(c, "h"), oracle_int(c, "w"), oracle_int(c, "c"), 1,
                                         0);
    s->be->mix(s->be, &settings, labels, step_of(s, 0), &images, partners, share);
    subject_expect_map(s, "mixed", &images, images.raw);
    if (!mixes)
        return;
    subject_expect(s, "share", share, (size_t)n);
    s->be->read_bytes(s->be, partner, partners, (size_t)n * sizeof *partner);
    assert_int_equal(s->be->sync(s->be), RC_OK);
    for (int b = 0; b < n; b++)
        assert_int_equal(partner[b], 100 + ((b ^ 1) < n ? b ^ 1 : b));
}

static void mixes(void **state)
{
    (void)state;
    subject_run(fixture, "mix/", tolerance, run_mix);
}

static void run_noise(subject *s)
{
    rc_tensor out = subject_map(s, oracle_int(s->c, "n"), 1, 1, oracle_int(s->c, "c"));
    s->be->random_normal(s->be, (uint32_t)oracle_int(s->c, "stream"), step_of(s, 0), &out);
    subject_expect_map(s, "noise", &out, out.raw);
}

static void noise(void **state)
{
    (void)state;
    subject_run(fixture, "noise/", tolerance, run_noise);
}

static void run_roll(subject *s)
{
    const oracle_case *c = s->c;
    int n = oracle_int(c, "n"), h = oracle_int(c, "h"), w = oracle_int(c, "w"), channels = oracle_int(c, "c");
    int range = oracle_int(c, "range");
    uint32_t stream = (uint32_t)oracle_int(c, "stream");
    const rc_step *step = step_of(s, 0);
    rc_tensor x = subject_map_input(s, "x", n, h, w, channels, 1, 0), moved = subject_map(s, n, h, w, channels);
    rc_tensor dmoved = subject_map_input(s, "dmoved", n, h, w, channels, 1, 0), dx = subject_map(s, n, h, w, channels);
    s->be->roll(s->be, stream, range, false, step, &x, moved.raw);
    s->be->roll(s->be, stream, range, true, step, &dmoved, dx.raw);
    subject_expect_map(s, "moved", &moved, moved.raw);
    subject_expect_map(s, "dx", &dx, dx.raw);
}

static void rolls(void **state)
{
    (void)state;
    subject_run(fixture, "roll/", tolerance, run_roll);
}

int main(void)
{
    fixture = oracle_open("operations.txt");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chains),     cmocka_unit_test(average_pools), cmocka_unit_test(dense),
        cmocka_unit_test(optimisers), cmocka_unit_test(batches),       cmocka_unit_test(noise),
        cmocka_unit_test(rolls),      cmocka_unit_test(mixes),         cmocka_unit_test(varies),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    oracle_close(fixture);
    return failed;
}
