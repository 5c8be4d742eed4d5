/* The steps of a pass and the place of each of its buffers, for nets, modes and backends of every kind, and what a pass
 * refuses, as tests/fixtures/pass_steps.txt has them. Steps and places of one small net stand there whole, of the
 * others their hash. That the steps compute what they should is what test_pass_fused and test_nn_gradient look at. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "nn/nets.h"
#include "nn/pass_steps.h"
#include "support/fixture.h"
#include "support/fused_backend.h"
#include "support/nn_fixture.h"
#include "support/nn_nets.h"

static char text[1 << 18];
static size_t used;

static void add(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void add(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    used += (size_t)vsnprintf(text + used, sizeof text - used, format, arguments);
    va_end(arguments);
    assert_true(used + 1 < sizeof text);
    text[used++] = '\n';
}

/* ---- a pass as text --------------------------------------------------------------------------------------------- */

static const char *const names[] = {[RC_OP_BN_EVAL] = "bn_eval",
                                    [RC_OP_FORWARD] = "forward",
                                    [RC_OP_FUSED] = "fused",
                                    [RC_OP_FUSED_TRAIN] = "fused_train",
                                    [RC_OP_MATERIALISE] = "materialise",
                                    [RC_OP_BN_TRAIN] = "bn_train",
                                    [RC_OP_BN_STATISTICS] = "bn_statistics",
                                    [RC_OP_BN_SUMS] = "bn_sums",
                                    [RC_OP_BN_BACKWARD] = "bn_backward",
                                    [RC_OP_FINISH] = "finish",
                                    [RC_OP_WEIGHT] = "weight",
                                    [RC_OP_ZERO_BIAS] = "zero_bias",
                                    [RC_OP_SKIP] = "skip",
                                    [RC_OP_DATA] = "data",
                                    [RC_OP_WEIGHT_AND_DATA] = "weight_and_data",
                                    [RC_OP_FUSED_BACK] = "fused_back",
                                    [RC_OP_FUSED_TRAIN_BACK] = "fused_train_back",
                                    [RC_OP_FUSED_WEIGHT] = "fused_weight",
                                    [RC_OP_FORK] = "fork",
                                    [RC_OP_MAIN] = "main",
                                    [RC_OP_JOIN] = "join",
                                    [RC_OP_SUM_WORKERS] = "sum_workers",
                                    [RC_OP_WAIT_WORKERS] = "wait_workers"};

static const char *layer_name(const rc_net *net, int index)
{
    return index >= 0 ? net->layer[index].name : index == RC_NET_INPUT ? "input" : "-";
}

static void add_step(const rc_pass *pass, int i)
{
    const rc_pass_step *s = &pass->step[i];
    const rc_net *net = pass->net;
    assert_true((size_t)s->op < sizeof names / sizeof *names);
    const char *list = i < pass->prepare_end ? "prepare" : i < pass->forward_end ? "forward" : "backward";
    add(" %s: %s %s to %s%s%s%s, with %s, first %d", list, names[s->op], layer_name(net, s->layer),
        layer_name(net, s->target), s->add ? " added" : "", s->sums ? " with sums" : "",
        s->add_skip ? " and the skip added" : "", layer_name(net, s->addend), s->first);
    if (s->op == RC_OP_SUM_WORKERS)
        add("  %zu parameters from %zu on", s->params, s->param);
}

/* Where something lies in the pass; -1: it does not exist. */
static long place(const rc_pass *pass, const void *address)
{
    const char *p = address, *block = pass->block, *passing = pass->passing;
    if (p == NULL)
        return -1;
    if (p >= block && p < block + pass->bytes)
        return (long)(p - block);
    assert_true(rc_pass_borrows(pass) && p >= passing);
    return 1000000000 + (long)(p - passing);
}

static void add_tensor(const rc_pass *pass, const char *what, const rc_tensor *t)
{
    add("   %s (%d %d %d %d) in %d to %d: raw %ld norm %ld %ld %ld %ld skip %ld (%d %d %d) / %d + %d act %d value %ld "
        "taps %ld",
        what, t->n, t->h, t->w, t->c, t->groups, t->group_end[t->groups - 1], place(pass, t->raw),
        place(pass, t->scale), place(pass, t->shift), place(pass, t->mean), place(pass, t->istd),
        place(pass, t->skip.value), t->skip.h, t->skip.w, t->skip.c, t->skip.stride, t->skip.channel_offset,
        (int)t->act, place(pass, t->value), place(pass, t->taps));
}

static void add_layer(const rc_pass *pass, int index)
{
    const rc_pass_layer *l = &pass->layer[index];
    add("  %s: gradient %ld, %ld %ld %ld, draw %ld, sums %ld %ld, features %ld %ld, batch %ld %ld, bn %g %g, stat %ld",
        pass->net->layer[index].name, place(pass, l->dy.g), place(pass, l->dy.a), place(pass, l->dy.b),
        place(pass, l->dy.c), place(pass, l->draw.g), place(pass, l->partial), place(pass, l->back_partial),
        place(pass, l->features), place(pass, l->dfeatures), place(pass, l->batch_mean), place(pass, l->batch_var),
        (double)l->bn.eps, (double)l->bn.momentum, l->stat != NULL ? place(pass, l->stat->dmean) : -1);
    add_tensor(pass, "y", &l->y);
    add_tensor(pass, "finished", &l->finished);
    if (l->kept.value != NULL)
        add_tensor(pass, "kept", &l->kept);
    assert_true(l->dy.y == &l->y && (l->draw.g == NULL || l->draw.y == &l->finished));
}

/* FNV-1a of the text from there on. */
static unsigned long long hash_from(size_t begin)
{
    uint64_t hash = 14695981039346656037u;
    for (size_t i = begin; i < used; i++)
        hash = (hash ^ (uint8_t)text[i]) * 1099511628211u;
    return hash;
}

static void add_pass(const rc_pass *pass, const char *title, bool whole)
{
    size_t begin = used;
    for (int i = 0; i < pass->backward_end; i++)
        add_step(pass, i);
    for (int i = 0; i < pass->net->layers; i++)
        add_layer(pass, i);
    add("  input gradient %ld", place(pass, pass->input_gradient));
    unsigned long long hash = hash_from(begin);
    if (!whole)
        used = begin;
    add("%s, %s: steps %d %d %d, %zu bytes, %zu passing, hash %016llx", pass->net->name, title, pass->prepare_end,
        pass->forward_end, pass->backward_end, pass->bytes, pass->passing_bytes, hash);
}

/* ---- nets, settings, backends ----------------------------------------------------------------------------------- */

static rc_layer plain_layer(const char *name, int in, int skip, rc_act act)
{
    rc_layer layer = {.kind = RC_LAYER_CONV,
                      .in = in,
                      .skip = skip,
                      .shortcut = skip >= 0 ? RC_SHORTCUT_IDENTITY : RC_SHORTCUT_NONE,
                      .k = 3,
                      .stride = 1,
                      .pad = 1,
                      .c_out = 4,
                      .act = act,
                      .bn = {.on = true, .affine = true, .eps = 0.5f, .momentum = 0.25f}};
    snprintf(layer.name, sizeof layer.name, "%s", name);
    snprintf(layer.bn_name, sizeof layer.bn_name, "%s_bn", name);
    return layer;
}

/* Chains that add what they begin with and what lies elsewhere, an output in the midst, a bias that is cancelled. */
static void small_net(rc_net *net)
{
    rc_net_builder b = rc_net_start(net, "small", 3, 6, 6);
    rc_layer layer = plain_layer("one", RC_NET_INPUT, RC_NO_LAYER, RC_ACT_RELU);
    int one = rc_net_add(&b, &layer);
    layer = plain_layer("two", one, RC_NO_LAYER, RC_ACT_RELU);
    int two = rc_net_add(&b, &layer);
    layer = plain_layer("three", two, one, RC_ACT_NONE);
    int three = rc_net_add(&b, &layer);
    layer = plain_layer("four", three, one, RC_ACT_RELU);
    layer.output = true;
    int four = rc_net_add(&b, &layer);
    layer = plain_layer("five", four, three, RC_ACT_LEAKY_RELU);
    int five = rc_net_add(&b, &layer);
    layer = plain_layer("six", five, four, RC_ACT_NONE);
    layer.output = true;
    int six = rc_net_add(&b, &layer);
    layer = (rc_layer){.name = "max", .kind = RC_LAYER_MAX_POOL, .in = six, .k = 2, .stride = 2};
    int max = rc_net_add(&b, &layer);
    layer = plain_layer("biased", max, RC_NO_LAYER, RC_ACT_RELU6);
    layer.bias = true;
    int biased = rc_net_add(&b, &layer);
    layer = (rc_layer){.name = "pool", .kind = RC_LAYER_AVERAGE_POOL, .in = biased};
    rc_net_add(&b, &layer);
    nn_must(rc_net_finish(&b));
}

enum { CHAIN_NETS = 8, TEST_NETS = 9, NETS = 4 + CHAIN_NETS + TEST_NETS };

static void make_net(int i, rc_net *net)
{
    switch (i) {
    case 0: small_net(net); break;
    case 1: nn_must(rc_net_resnet32_abd(net, 1, 9, 9)); break;
    case 2: nn_must(rc_net_mobilenet_v2(net, 3, 32, 32)); break;
    case 3: nn_must(rc_net_torchvision_resnet18(net, 3, 32, 32)); break;
    default:
        if (i < 4 + CHAIN_NETS)
            nn_chain_net(net, (uint64_t)i);
        else
            assert_non_null(nn_test_net(net, i - 4 - CHAIN_NETS));
    }
}

static const fused_kind kinds[] = {{0, false, false, false, false}, {4, false, false, false, false},
                                   {4, true, true, false, false},   {RC_MAX_FUSED, true, false, true, false},
                                   {4, true, true, true, true},     {0, false, true, true, false},
                                   {0, false, false, true, true},   {2, false, false, true, true}};

static const rc_pass_settings settings[] = {
    {.mode = RC_PASS_TRAIN, .n = 4, .update_running = true},
    {.mode = RC_PASS_TRAIN, .n = 6, .groups = 2, .group_end = {2, 6}, .input_gradient = true, .running_updates = 2},
    {.mode = RC_PASS_TRAIN, .n = 6, .groups = 3, .group_end = {2, 4, 6}, .update_running = true, .frozen = 2},
    {.mode = RC_PASS_FROZEN, .n = 3},
    {.mode = RC_PASS_EVAL, .n = 2}};

/* A pass that looks at an image lies in the memory of one that trains, if that is large enough. */
static void add_borrowers(rc_backend *be, const rc_pass *lender)
{
    for (int n = 1; n < 60; n += 19) {
        const rc_pass_settings lent = {.mode = RC_PASS_EVAL, .n = n, .lender = lender};
        rc_pass *pass;
        nn_must(rc_pass_create(be, lender->net, &lent, &pass));
        char title[64];
        snprintf(title, sizeof title, "%s by a pass of %d", rc_pass_borrows(pass) ? "borrowed" : "not borrowed", n);
        add_pass(pass, title, false);
        rc_pass_destroy(pass);
    }
}

static void steps_and_places(void **state)
{
    (void)state;
    static rc_net net;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        rc_backend *be = fused_backend_open(&kinds[k]);
        be->keeps_taps = kinds[k].lanes;
        for (int i = 0; i < NETS; i++) {
            make_net(i, &net);
            for (size_t s = 0; s < sizeof settings / sizeof *settings; s++) {
                char title[64];
                rc_pass *pass;
                snprintf(title, sizeof title, "settings %d, backend %d", (int)s, (int)k);
                nn_must(rc_pass_create(be, &net, &settings[s], &pass));
                add_pass(pass, title, i == 0 && (k == 0 || k == 3) && s != 2);
                if (s == 0 && (i == 0 || (i < 5 && kinds[k].waits)))
                    add_borrowers(be, pass);
                rc_pass_destroy(pass);
            }
        }
        rc_backend_close(be);
    }
}

/* A map that is one byte larger keeps the backend busy: what its weight gradient reads does not stay, and a pass beside
 * gains nothing. */
static void busy_maps(void **state)
{
    (void)state;
    static rc_net net;
    small_net(&net);
    for (int busy = 0; busy < 2; busy++) {
        rc_backend *be = fused_backend_open(&kinds[3]);
        rc_pass *pass;
        be->busy_bytes = rc_act_count(be, settings[0].n, 6, 6, 4) * be->act_bytes - (size_t)busy;
        nn_must(rc_pass_create(be, &net, &settings[0], &pass));
        add_pass(pass, busy ? "busy" : "idle", false);
        const rc_pass_settings lent = {.mode = RC_PASS_EVAL, .n = settings[0].n, .lender = pass};
        rc_pass *borrower;
        nn_must(rc_pass_create(be, &net, &lent, &borrower));
        assert_int_equal(rc_pass_borrows(borrower), busy);
        rc_pass_destroy(borrower);
        rc_pass_destroy(pass);
        rc_backend_close(be);
    }
}

/* ---- what the backend is told ----------------------------------------------------------------------------------- */

static void add_conv(const char *what, const rc_conv *c, int n)
{
    add("%s: (%d %d %d) -> (%d %d %d), k %d stride %d pad %d up %d transposed %d, of %d", what, c->h, c->w, c->c_in,
        c->oh, c->ow, c->c_out, c->k, c->stride, c->pad, c->up, c->transposed, n);
}

static void add_offer(const rc_fusible *layers, int count, int first, int n, const char *how, int groups)
{
    add("offer from %d, %s, %d groups", first, how, groups);
    for (int i = 0; i < count && first == 0; i++) {
        const rc_fusible *l = &layers[i];
        add_conv(l->plain ? " plain" : " no link", &l->conv, n);
        add("  act %d in %d skip %d / %d + %d output %d pool %d / %d pad %d", (int)l->act, l->in, l->skip,
            l->skip_stride, l->skip_offset, l->output, l->pool.k, l->pool.stride, l->pool.pad);
    }
}

static int look_at_offer(rc_backend *be, const rc_fusible *layers, int count, int first, int n, bool gradients)
{
    (void)be;
    add_offer(layers, count, first, n, gradients ? "with gradients" : "without gradients", 1);
    return 1;
}

static int look_at_train_offer(rc_backend *be, const rc_fusible *layers, int count, int first, int n, int groups)
{
    (void)be;
    add_offer(layers, count, first, n, "with statistics of the batch", groups);
    return 0;
}

static rc_status reserve_conv(rc_backend *be, const rc_conv *conv, int n)
{
    (void)be;
    add_conv("reserve convolution", conv, n);
    return RC_OK;
}

static rc_status reserve_depthwise(rc_backend *be, const rc_conv *conv, int n)
{
    (void)be;
    add_conv("reserve depthwise", conv, n);
    return RC_OK;
}

static rc_status reserve_linear(rc_backend *be, const rc_linear *linear, int n)
{
    (void)be;
    add("reserve linear: %d -> (%d %d %d), of %d", linear->c_in, linear->h, linear->w, linear->c, n);
    return RC_OK;
}

static void offers_and_reserves(void **state)
{
    (void)state;
    static rc_net net;
    for (int i = 0; i < NETS; i++) {
        size_t begin = used;
        make_net(i, &net);
        for (size_t s = 0; s < sizeof settings / sizeof *settings; s++) {
            rc_backend *be = fused_backend_open(&kinds[1]);
            be->fuse = look_at_offer;
            be->fuse_train = look_at_train_offer;
            be->reserve_conv = reserve_conv;
            be->reserve_depthwise = reserve_depthwise;
            be->reserve_linear = reserve_linear;
            rc_pass *pass;
            nn_must(rc_pass_create(be, &net, &settings[s], &pass));
            rc_pass_destroy(pass);
            rc_backend_close(be);
        }
        unsigned long long hash = hash_from(begin);
        used = i == 0 ? used : begin;
        add("%s: hash of what the backend is told %016llx", net.name, hash);
    }
}

/* ---- what is refused --------------------------------------------------------------------------------------------- */

static const rc_pass_settings wrong[] = {{.mode = (rc_pass_mode)3, .n = 2},
                                         {.mode = (rc_pass_mode)-1, .n = 2},
                                         {.n = 0},
                                         {.n = -1},
                                         {.n = 2, .groups = -1},
                                         {.n = 2, .groups = RC_MAX_GROUPS + 1},
                                         {.mode = RC_PASS_EVAL, .n = 2, .groups = 2, .group_end = {1, 2}},
                                         {.mode = RC_PASS_FROZEN, .n = 2, .groups = 2, .group_end = {1, 2}},
                                         {.mode = RC_PASS_EVAL, .n = 2, .groups = 1, .group_end = {2}},
                                         {.n = 2, .running_updates = -1},
                                         {.n = 2, .frozen = -1},
                                         {.n = 2, .frozen = 1, .input_gradient = true},
                                         {.mode = RC_PASS_EVAL, .n = 2, .frozen = 1},
                                         {.n = 2, .frozen = 8},
                                         {.n = 2, .frozen = 9},
                                         {.n = 6, .groups = 2, .group_end = {3, 5}},
                                         {.n = 6, .groups = 2, .group_end = {3, 7}},
                                         {.n = 6, .groups = 2, .group_end = {0, 6}},
                                         {.n = 6, .groups = 2, .group_end = {4, 4}},
                                         {.n = 6, .groups = 3, .group_end = {2, 7, 6}},
                                         {.mode = RC_PASS_EVAL, .n = 1},
                                         {.mode = RC_PASS_EVAL, .n = 14913081}}; /* of 144 elements */

static void settings_refused(void **state)
{
    (void)state;
    static rc_net net, none;
    rc_backend *be = fused_backend_open(&kinds[0]);
    rc_pass *pass;
    small_net(&net);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        rc_status status = rc_pass_create(be, &net, &wrong[i], &pass);
        add("settings %d: %s", (int)i, status == RC_OK ? "taken" : rc_message());
        assert_int_equal(status == RC_OK, pass != NULL);
        rc_pass_destroy(pass);
    }
    assert_int_equal(rc_pass_create(be, &none, &settings[0], &pass), RC_INVALID_ARGUMENT);
    add("no layers: %s", rc_message());
    rc_backend_close(be);
}

/* A channel with one value has no variance. */
static void single_values(void **state)
{
    (void)state;
    static rc_net net;
    rc_backend *be = fused_backend_open(&kinds[0]);
    rc_net_builder b = rc_net_start(&net, "pixel", 2, 3, 3);
    rc_layer layer = plain_layer("wide", RC_NET_INPUT, RC_NO_LAYER, RC_ACT_NONE);
    layer.in = rc_net_add(&b, &layer);
    layer = plain_layer("pixel", layer.in, RC_NO_LAYER, RC_ACT_NONE);
    layer.pad = 0;
    layer.in = rc_net_add(&b, &layer);
    rc_layer last = plain_layer("last", layer.in, RC_NO_LAYER, RC_ACT_NONE);
    last.k = 1;
    last.pad = 0;
    last.bn.on = false;
    last.bn_name[0] = '\0';
    last.in = 1;
    rc_net_add(&b, &last);
    nn_must(rc_net_finish(&b));
    static const rc_pass_settings tried[] = {{.n = 1},
                                             {.n = 2},
                                             {.n = 1, .frozen = 1},
                                             {.n = 1, .frozen = 2},
                                             {.n = 3, .groups = 2, .group_end = {1, 3}},
                                             {.n = 3, .groups = 2, .group_end = {2, 3}},
                                             {.n = 4, .groups = 2, .group_end = {2, 4}},
                                             {.mode = RC_PASS_FROZEN, .n = 1}};
    for (size_t i = 0; i < sizeof tried / sizeof *tried; i++) {
        rc_pass *pass;
        rc_status status = rc_pass_create(be, &net, &tried[i], &pass);
        add("single values %d: %s", (int)i, status == RC_OK ? "taken" : rc_message());
        for (int n = 1; n < 5 && status == RC_OK; n++) {
            static const int ends[][2] = {{1, 2}, {2, 4}, {2, 3}, {1, 4}};
            add(" batch of %d: %s", n, rc_pass_set_batch(pass, n, NULL) == RC_OK ? "taken" : rc_message());
            bool taken = rc_pass_set_batch(pass, ends[n - 1][1], ends[n - 1]) == RC_OK;
            add(" to %d and %d: %s", ends[n - 1][0], ends[n - 1][1], taken ? "taken" : rc_message());
        }
        rc_pass_destroy(pass);
    }
    rc_backend_close(be);
}

static void batches_refused(void **state)
{
    (void)state;
    static rc_net net;
    static const int ends[][2] = {{2, 4}, {2, 5}, {0, 4}, {3, 3}, {1, 4}, {2, 6}, {4, 6}};
    const rc_pass_settings of[] = {{.n = 6}, {.n = 6, .groups = 2, .group_end = {2, 6}}};
    rc_backend *be = fused_backend_open(&kinds[0]);
    small_net(&net);
    for (int several = 0; several < 2; several++) {
        rc_pass *pass;
        nn_must(rc_pass_create(be, &net, &of[several], &pass));
        for (int n = -1; n < 8; n++)
            add("batch of %d in %d: %s", n, several + 1,
                rc_pass_set_batch(pass, n, NULL) == RC_OK ? "taken" : rc_message());
        for (size_t i = 0; i < sizeof ends / sizeof *ends && several; i++) {
            rc_status status = rc_pass_set_batch(pass, i < 5 ? 4 : 6, ends[i]);
            const rc_tensor *y = &pass->layer[3].y, *finished = &pass->layer[3].finished;
            const rc_tensor *kept = &pass->layer[3].kept;
            assert_true(kept->n == y->n && memcmp(kept->group_end, y->group_end, sizeof y->group_end) == 0);
            add("groups to %d and %d: %s; %d %d %d, %d %d %d", ends[i][0], ends[i][1],
                status == RC_OK ? "taken" : rc_message(), y->n, y->group_end[0], y->group_end[1], finished->n,
                finished->group_end[0], finished->group_end[1]);
        }
        rc_pass_destroy(pass);
    }
    rc_backend_close(be);
}

/* ---- what callers are given ------------------------------------------------------------------------------------- */

static void outputs(void **state)
{
    (void)state;
    static rc_net net;
    rc_backend *be = fused_backend_open(&kinds[0]);
    small_net(&net);
    for (int mode = RC_PASS_TRAIN; mode <= RC_PASS_EVAL; mode++) {
        const rc_pass_settings of = {.mode = (rc_pass_mode)mode, .n = 2};
        rc_pass *pass;
        nn_must(rc_pass_create(be, &net, &of, &pass));
        for (int i = -3; i <= net.layers; i++) {
            const rc_tensor *lazy = rc_pass_output(pass, i);
            long at = lazy != NULL ? place(pass, lazy->raw) : -1, kept = lazy != NULL ? place(pass, lazy->value) : -1;
            const rc_tensor *stored = rc_pass_stored_output(pass, i), *finished = rc_pass_finished_output(pass, i);
            assert_true((lazy != NULL) == (stored != NULL) && (lazy != NULL) == (finished != NULL));
            add("mode %d, output %d: %ld, value %ld %d, finished %ld, gradient %ld", mode, i, at, kept,
                stored != NULL && stored->stored, finished != NULL ? place(pass, finished->raw) : -1,
                place(pass, rc_pass_output_gradient(pass, i)));
        }
        int count;
        const rc_bn_stat *stat = rc_pass_bn_statistics(pass, &count);
        for (int i = 0; i < count; i++)
            add("mode %d, statistics of %d: %ld %ld, gradients %ld %ld", mode, stat[i].c, place(pass, stat[i].mean),
                place(pass, stat[i].var), place(pass, stat[i].dmean), place(pass, stat[i].dvar));
        add("mode %d: features %ld, input gradient %ld, %zu bytes", mode, place(pass, rc_pass_features(pass)),
            place(pass, rc_pass_input_gradient(pass)), rc_pass_bytes(pass));
        rc_pass_destroy(pass);
    }
    rc_backend_close(be);
}

static void all_is_as_it_should_be(void **state)
{
    (void)state;
    fixture_is("pass_steps.txt", text, used);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_and_places),
        cmocka_unit_test(busy_maps),
        cmocka_unit_test(offers_and_reserves),
        cmocka_unit_test(settings_refused),
        cmocka_unit_test(single_values),
        cmocka_unit_test(batches_refused),
        cmocka_unit_test(outputs),
        cmocka_unit_test(all_is_as_it_should_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
