/* Weight gradients run beside the other steps. The latest moment at which a lane may run is when the main lane waits
 * for it, and the lane of this test runs exactly then: at the join. If the main lane of a pass overwrites a gradient
 * too early, the result differs from that of a pass without lanes.
 *
 * So do sums over processes: a bucket of gradients is taken away when its sum runs, and NaN is left in its place until
 * the main lane waits for all sums. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "nn/nets_parts.h"
#include "support/nn_fixture.h"
#include "support/nn_nets.h"

enum { LOSS = 31, MOST = 128, RANDOM_NETS = 400, CHAIN_NETS = 60 };

typedef struct late_call {
    enum { CONV, LINEAR, SUM } kind;
    rc_conv conv;
    rc_linear linear;
    rc_tensor x, y;
    rc_grad dy;
    void *dweight, *dbias;
    size_t reals; /* SUM: from dweight on */
} late_call;

static rc_backend original; /* the entries as they were */
static int lane, late, joins, beside, on_main, sums, materialised, finished, pairs;
static int pooled;             /* gradients of poolings, of all nets */
static bool finishes;          /* backends that are opened from now on read dL/draw from a map, */
static bool in_pairs;          /* take two convolutions beside each other, */
static bool waits;             /* every map keeps them busy, */
static bool several;           /* and weight gradients of one shape may run at once, */
static size_t busy = SIZE_MAX; /* as long as no map keeps them busy, which one larger than this does */
static int runs, longest;      /* of them: how many, and layers of the longest */
static late_call calls[MOST];

static struct {
    size_t bytes; /* of a bucket of the backends that are opened from now on */
    int lanes;    /* of theirs */
    int count, early, waits;
    char *first;  /* address of the gradient that the last one begins with */
    float *taken; /* what they had, as it will lie in the gradient */
    size_t reals; /* in all */
} bucket = {.lanes = 2};

static late_call *enqueue(int kind)
{
    assert_true(late < MOST);
    calls[late] = (late_call){.kind = kind};
    return &calls[late++];
}

static void late_conv(rc_backend *be, const rc_conv *conv, const rc_tensor *x, const rc_grad *dy, void *dweight,
                      void *dbias)
{
    if (lane == 0) {
        on_main++;
        original.conv_backward_weight(be, conv, x, dy, dweight, dbias);
        return;
    }
    late_call *call = enqueue(CONV);
    call->conv = *conv;
    call->x = *x;
    call->y = *dy->y;
    call->dy = *dy;
    call->dweight = dweight;
    call->dbias = dbias;
}

static void late_linear(rc_backend *be, const rc_linear *linear, const rc_tensor *x, const rc_grad *dy, void *dweight,
                        void *dbias)
{
    if (lane == 0) {
        on_main++;
        original.linear_backward_weight(be, linear, x, dy, dweight, dbias);
        return;
    }
    late_conv(be, &(rc_conv){0}, x, dy, dweight, dbias);
    calls[late - 1].kind = LINEAR;
    calls[late - 1].linear = *linear;
}

/* Layers that follow one another, from the last to the first in time: so the first of them comes first here. */
static void late_several(rc_backend *be, const rc_fused_weight *layers, int count)
{
    assert_int_equal(lane, 1);
    assert_in_range(count, 2, RC_MAX_FUSED);
    runs++;
    longest = count > longest ? count : longest;
    for (int i = 0; i < count; i++) {
        const rc_conv *conv = layers[i].conv, *like = layers[0].conv;
        assert_true(conv->c_in == like->c_in && conv->c_out == like->c_out && conv->k == like->k &&
                    conv->stride == like->stride && conv->h == like->h && conv->w == like->w);
        assert_true(i == 0 || (const char *)layers[i].dweight > (const char *)layers[i - 1].dweight);
        late_conv(be, layers[i].conv, layers[i].x, layers[i].dy, layers[i].dweight, NULL);
    }
}

/* Nothing waits for biases that are 0: they come before all weight gradients. */
static void early_zero(rc_backend *be, void *memory, size_t bytes)
{
    assert_true(lane == 0 || late + beside == 0);
    original.zero(be, memory, bytes);
}

static void late_fork(rc_backend *be, int to)
{
    (void)be;
    assert_true(to == 0 || to == 1);
    lane = to;
}

static void take_bucket(rc_backend *be, void *reals, size_t count)
{
    bucket.reals += count;
    bucket.taken -= count; /* they come from the end of the gradient to its beginning */
    be->read_real(be, bucket.taken, reals, count);
    for (size_t i = 0; i < count; i++)
        ((float *)reals)[i] = NAN;
}

static void late_sum(rc_backend *be, void *reals, size_t count)
{
    assert_true(count > 0);
    bucket.count++;
    bucket.early += late > 0;
    if (bucket.first != NULL)
        assert_ptr_equal((char *)reals + count * be->real_bytes, bucket.first);
    bucket.first = reals;
    if (lane == 0) {
        assert_int_equal(late, 0);
        take_bucket(be, reals, count);
        return;
    }
    late_call *call = enqueue(SUM);
    call->dweight = reals;
    call->reals = count;
}

static void late_wait(rc_backend *be)
{
    assert_int_equal(lane, 0);
    assert_int_equal(late, 0);
    bucket.waits++;
    if (bucket.first != NULL)
        be->write_real(be, bucket.first, bucket.taken, bucket.reals);
}

static void late_join(rc_backend *be, int from)
{
    assert_int_equal(from, 1);
    lane = 0;
    joins++;
    for (int i = 0; i < late; i++) {
        late_call *call = &calls[i];
        call->dy.y = &call->y;
        if (call->kind == SUM)
            take_bucket(be, call->dweight, call->reals);
        else if (call->kind == CONV)
            original.conv_backward_weight(be, &call->conv, &call->x, &call->dy, call->dweight, call->dbias);
        else
            original.linear_backward_weight(be, &call->linear, &call->x, &call->dy, call->dweight, call->dbias);
    }
    late = 0;
}

static void main_lane_data(rc_backend *be, const rc_conv *conv, const rc_grad *dy, const void *weight, void *dx,
                           const rc_back_epilogue *epilogue)
{
    const rc_fused_back *other = epilogue->beside;
    rc_back_epilogue first = *epilogue, second = {.x = epilogue->x, .partial = epilogue->partial, .add = true};
    assert_int_equal(lane, 0);
    beside += late > 0;
    sums += epilogue->partial != NULL;
    first.beside = NULL;
    first.partial = other ? NULL : epilogue->partial;
    original.conv_backward_data(be, conv, dy, weight, dx, &first);
    if (other)
        original.conv_backward_data(be, other->conv, other->dy, other->weight, dx, &second);
    pairs += other != NULL;
}

static bool any_beside(rc_backend *be, const rc_conv *conv, const rc_conv *other, int n)
{
    (void)be;
    assert_true(n > 0 && conv->h == other->h && conv->w == other->w && conv->c_in == other->c_in);
    return true;
}

/* Marking a value as stored is the caller's business: this operation does not. */
static void materialise_without_mark(rc_backend *be, rc_tensor *x)
{
    original.materialise(be, x);
    x->stored = false;
    materialised++;
}

static void main_lane_skip(rc_backend *be, const rc_grad *dy, void *dskip, const rc_back_epilogue *epilogue)
{
    assert_int_equal(lane, 0);
    sums += epilogue->partial != NULL;
    original.skip_backward(be, dy, dskip, epilogue);
}

static void no_extra_sums(rc_backend *be, const rc_grad *dy, void *partial)
{
    sums += 1000;
    original.bn_backward_sums(be, dy, partial);
}

static bool always_finished(rc_backend *be, const rc_conv *conv, int n)
{
    (void)be, (void)conv, (void)n;
    return true;
}

static void main_lane_finish(rc_backend *be, const rc_grad *dy, void *dx, const rc_back_epilogue *epilogue)
{
    assert_int_equal(lane, 0);
    finished++;
    original.copy_backward(be, dy, dx, epilogue);
}

/* Taps that a pooling keeps are there when its gradient is asked for, however often memory is used again. */
static void keep_taps(rc_backend *be, const rc_pool2d *pool, rc_tensor *x, rc_tensor *y)
{
    original.max_pool_forward(be, pool, x, y);
    memset(y->taps, y->h * 16 + y->c, rc_act_count(be, y->n, y->h, y->w, y->c) / 2);
}

static void expect_taps(rc_backend *be, const rc_pool2d *pool, const rc_tensor *x, const rc_grad *dy, void *dx,
                        const rc_back_epilogue *epilogue)
{
    const rc_tensor *y = dy->y;
    const unsigned char *taps = y->taps;
    for (size_t i = 0; i < rc_act_count(be, y->n, y->h, y->w, y->c) / 2; i++)
        assert_int_equal(taps[i], (y->h * 16 + y->c) % 256);
    original.max_pool_backward(be, pool, x, dy, dx, epilogue);
    pooled++;
}

static rc_backend *open_with_late_lane(void)
{
    rc_backend *be;
    nn_must(rc_backend_open("reference", 1, NULL, &be));
    original = *be;
    be->lanes = bucket.lanes;
    be->busy_bytes = waits ? 0 : busy;
    be->fused_weight = several ? late_several : NULL;
    be->fork = late_fork;
    be->join = late_join;
    be->zero = early_zero;
    be->conv_backward_weight = late_conv;
    be->linear_backward_weight = late_linear;
    be->materialise = materialise_without_mark;
    be->conv_backward_data = main_lane_data;
    be->skip_backward = main_lane_skip;
    be->bn_backward_sums = no_extra_sums;
    be->bucket_bytes = bucket.bytes;
    be->sum_workers = late_sum;
    be->wait_workers = late_wait;
    be->reads_finished_gradient = finishes ? always_finished : NULL;
    be->takes_beside = in_pairs ? any_beside : NULL;
    be->copy_backward = main_lane_finish;
    be->keeps_taps = true;
    be->max_pool_forward = keep_taps;
    be->max_pool_backward = expect_taps;
    lane = late = joins = beside = on_main = sums = materialised = finished = runs = longest = 0;
    bucket.count = bucket.early = bucket.waits = 0;
    bucket.first = NULL;
    bucket.reals = 0;
    return be;
}

/* Runs one step with and without lanes: the same bits. */
static void compare_once(const rc_net *net, const rc_pass_settings *settings)
{
    nn_fixture a, b;
    nn_open(&a, "reference", 1, net, settings, 1);
    nn_open_on(&b, open_with_late_lane(), net, settings, 1);
    float *taken = malloc((net->params + 1) * sizeof *taken);
    assert_non_null(taken);
    bucket.taken = taken + net->params;
    for (size_t i = 0; i < net->params; i++)
        ((float *)a.gradient)[i] = ((float *)b.gradient)[i] = NAN;
    nn_step(&a, LOSS);
    nn_step(&b, LOSS);
    free(taken);
    assert_int_equal(late, 0);
    assert_int_equal(bucket.waits, 1);
    size_t still = rc_net_params_before(net, settings->frozen);
    assert_int_equal(bucket.reals, net->params - still); /* each once */
    assert_true(bucket.first == NULL || bucket.first == (char *)rc_real_at(b.backend, b.gradient, still));
    assert_true(on_main <= (settings->input_gradient ? 0 : 1) || bucket.lanes == 1);
    int kept = 0;
    for (int i = 0; i < net->layers; i++)
        kept += rc_layer_pending(&net->layer[i]) && (net->layer[i].keep_value || net->layer[i].output);
    assert_true(materialised <= kept); /* each value is stored once */
    double *x = nn_read(&a, a.gradient, net->params), *y = nn_read(&b, b.gradient, net->params);
    for (size_t i = 0; i < net->params; i++) {
        if (memcmp(&x[i], &y[i], sizeof x[i]) != 0)
            fail_msg("net %s: gradient %zu is %g with lanes, %g without", net->name, i, y[i], x[i]);
    }
    free(x);
    free(y);
    nn_close(&a);
    nn_close(&b);
}

/* Gradients finish dL/draw each for itself, or once for both; what weight gradients read stays, or it does not; data
 * gradients of convolutions that read the same are two steps, or one; weight gradients of one shape run at once, or do
 * not. */
static void compare(const rc_net *net, const rc_pass_settings *settings)
{
    for (int i = 0; i < 16; i++) {
        finishes = i % 2 == 1;
        waits = i % 4 < 2;
        in_pairs = i % 8 >= 4;
        several = i < 8;
        compare_once(net, settings);
    }
    in_pairs = false;
}

static const rc_pass_settings train = {.mode = RC_PASS_TRAIN, .n = 3, .update_running = true};
static const rc_pass_settings with_input = {.mode = RC_PASS_TRAIN, .n = 3, .input_gradient = true};

static void test_nets(void **state)
{
    (void)state;
    static rc_net net;
    for (int i = 0; nn_test_net(&net, i) != NULL; i++) {
        compare(&net, &train);
        compare(&net, &with_input);
        for (rc_pass_settings top = train; ++top.frozen < net.layers;) { /* the first layers stay */
            finishes = top.frozen % 2 == 0;
            waits = top.frozen % 4 < 2;
            several = top.frozen % 8 < 4;
            compare_once(&net, &top);
        }
    }
    assert_true(pooled > 0);
    assert_true(pairs > 0);
}

static void random_nets(void **state)
{
    (void)state;
    static rc_net net;
    int all_runs = 0;
    for (uint64_t seed = 1; seed <= RANDOM_NETS; seed++) {
        nn_random_net(&net, seed);
        finishes = seed % 2 == 0;
        waits = seed % 4 < 2;
        in_pairs = seed % 8 < 4;
        several = seed % 16 < 8;
        compare_once(&net, &train);
    }
    in_pairs = finishes = waits = false;
    several = true;
    for (uint64_t seed = 0; seed < CHAIN_NETS; seed++) {
        nn_chain_net(&net, seed);
        compare_once(&net, seed % 2 == 0 ? &train : &with_input);
        all_runs += runs;
    }
    several = false;
    assert_in_range(all_runs, CHAIN_NETS / 2, 2 * CHAIN_NETS);
}

/* Cut as often as possible, into some, and into one; with the lanes of a device and with that of a CPU. */
static void buckets_are_whole(void **state)
{
    (void)state;
    static const size_t bytes[] = {1, 512, 2048, SIZE_MAX};
    static rc_net net;
    for (uint64_t seed = 1; seed <= RANDOM_NETS; seed++) {
        nn_random_net(&net, seed);
        finishes = seed % 2 == 0;
        waits = seed % 4 < 2;
        bucket.bytes = bytes[seed / 4 % 4];
        bucket.lanes = seed % 3 == 0 ? 1 : 2;
        several = seed % 5 < 3;
        compare_once(&net, &train);
    }
    for (int i = 0; nn_test_net(&net, i) != NULL; i++) {
        for (rc_pass_settings top = train; top.frozen < net.layers; top.frozen++) {
            bucket.bytes = bytes[(i + top.frozen) % 4];
            bucket.lanes = 1 + top.frozen / 4 % 2;
            several = top.frozen % 2 == 0;
            compare_once(&net, &top);
        }
    }
    several = false;
    bucket.bytes = 0;
    bucket.lanes = 2;
}

/* A bucket goes as soon as the layer after it has brought its normalisation back, beside the rest of the pass. */
static void buckets_go_early(void **state)
{
    (void)state;
    static rc_net net;
    nn_must(rc_net_resnet_small(&net, 3, 8, 8, 4, 2));
    finishes = waits = false;
    compare_once(&net, &train);
    assert_int_equal(bucket.count, 1);
    bucket.bytes = 1;
    compare_once(&net, &train);
    int weighted = 0;
    for (int i = 0; i < net.layers; i++)
        weighted += net.layer[i].params > 0;
    assert_int_equal(bucket.count, weighted);
    assert_true(bucket.early >= weighted - 2); /* the first has weight gradients before it as well */
    bucket.bytes = net.params * sizeof(float) / 2;
    compare_once(&net, &train);
    assert_int_equal(bucket.count, 2);
    waits = true; /* the main lane waits for weight gradients as often as it does without buckets */
    for (size_t bytes = 0; bytes < 2; bytes++) {
        int before = joins;
        bucket.bytes = bytes;
        compare_once(&net, &train);
        assert_true(bytes == 0 || joins == before);
    }
    bucket.bytes = 0;
}

/* In a ResNet every weight gradient runs beside the gradient of the same layer's input, and is waited for at most once
 * for each layer. */
static void lanes_overlap(void **state)
{
    (void)state;
    static rc_net net;
    nn_must(rc_net_resnet_small(&net, 3, 8, 8, 4, 2));
    compare(&net, &train);
    assert_int_equal(beside, net.layers - 2); /* all convolutions but the first, */
    assert_int_equal(on_main, 1);             /* which has nothing left to run beside */
    assert_true(joins <= net.layers);
    assert_int_equal(sums, net.bn_layers - 1); /* taken as each gradient is finished; one by the pool */
}

/* Weight gradients of one shape wait for each other: until another shape comes, until their maps are five times what
 * keeps the backend busy, or until a bucket has to go. Those that read finished gradients do not, nor those of a map
 * that keeps it busy. */
static void weights_run_at_once(void **state)
{
    (void)state;
    enum { BLOCKS = 9, MAP = 3 * 8 * 8 * 4 * (int)sizeof(float) }; /* stages of 18, 17 and 17 layers, MAP / 1, 2, 4 */
    static const struct {
        size_t busy, bucket_bytes;
        bool finishes;
        int runs, longest;
    } cases[] = {{SIZE_MAX, 0, false, 4, RC_MAX_FUSED}, /* 16 2, 16 1, 16 1 */
                 {MAP, 0, false, 7, RC_MAX_FUSED},      /* 5 5 5 3, 10 7, 16 1 */
                 {MAP - 1, 0, false, 3, RC_MAX_FUSED},  /* 10 7, 16 1 */
                 {MAP / 2, 0, false, 6, 10},            /* 5 5 5 2, 10 7 */
                 {SIZE_MAX, 0, true, 0, 0},
                 {SIZE_MAX, 1, false, 0, 0}};
    static rc_net net;
    nn_must(rc_net_resnet_small(&net, 3, 8, 8, 4, BLOCKS));
    waits = false;
    several = true;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        finishes = cases[i].finishes;
        busy = cases[i].busy;
        bucket.bytes = cases[i].bucket_bytes;
        compare_once(&net, &train);
        if (runs != cases[i].runs || longest != cases[i].longest)
            fail_msg("case %d: %d runs, the longest of %d", (int)i, runs, longest);
    }
    several = false;
    busy = SIZE_MAX;
    bucket.bytes = 0;
}

/* The weight gradient of the first layer, which runs on the main lane, is none of them, although it has the shape of
 * the next two. That of the one with stride 2 is not, either. */
static void first_runs_alone(void **state)
{
    (void)state;
    static const int strides[] = {1, 1, 1, 2, 1, 1};
    enum { CONVS = sizeof strides / sizeof *strides };
    static rc_net net;
    rc_net_builder b = rc_net_start(&net, "same", 3, 6, 6);
    for (int i = 0; i < CONVS; i++) {
        rc_layer layer = rc_part_conv(i - 1, 3, 3, strides[i], RC_INIT_DEFAULT);
        rc_part_normalise(&layer, 1e-3f, true);
        rc_part_name(layer.name, "conv_%d", i);
        rc_part_name(layer.bn_name, "bn_%d", i);
        rc_net_add(&b, &layer);
    }
    rc_layer pool = rc_part_pool(CONVS - 1);
    rc_net_add(&b, &pool);
    nn_must(rc_net_finish(&b));
    finishes = waits = false;
    several = true;
    compare_once(&net, &train);
    assert_int_equal(runs, 2);
    assert_int_equal(longest, 2);
    assert_int_equal(on_main, 1);
    several = false;
}

/* Without lanes it is finished once for both, too. */
static void one_lane_finishes(void **state)
{
    (void)state;
    static rc_net net;
    nn_must(rc_net_resnet_small(&net, 3, 8, 8, 4, 2));
    finishes = true;
    bucket.lanes = 1;
    compare_once(&net, &train);
    bucket.lanes = 2;
    assert_int_equal(finished, net.layers - 2); /* all convolutions but the first, which has no other gradient */
}

/* Nothing but the step of both needs a data gradient's source that long: no weight gradient does. */
static void frozen_pairs(void **state)
{
    (void)state;
    static rc_net net;
    const rc_pass_settings frozen = {.mode = RC_PASS_FROZEN, .n = 3, .input_gradient = true};
    in_pairs = true;
    for (uint64_t seed = 1; seed <= RANDOM_NETS; seed++) {
        nn_fixture a, b;
        nn_random_net(&net, seed);
        nn_open(&a, "reference", 1, &net, &frozen, 1);
        nn_open_on(&b, open_with_late_lane(), &net, &frozen, 1);
        nn_step(&a, LOSS);
        nn_step(&b, LOSS);
        double *x = nn_read_map(&a, &a.input, rc_pass_input_gradient(a.pass));
        double *y = nn_read_map(&b, &b.input, rc_pass_input_gradient(b.pass));
        assert_memory_equal(x, y, nn_map_count(&a.input) * sizeof *x);
        free(x);
        free(y);
        nn_close(&a);
        nn_close(&b);
    }
    in_pairs = false;
}

/* Other modes have no weight gradients and fork nothing. */
static void frozen_does_not_fork(void **state)
{
    (void)state;
    static rc_net net;
    nn_must(rc_net_resnet_small(&net, 3, 8, 8, 4, 2));
    nn_fixture a;
    const rc_pass_settings frozen = {.mode = RC_PASS_FROZEN, .n = 3};
    nn_open_on(&a, open_with_late_lane(), &net, &frozen, 1);
    nn_step(&a, LOSS);
    assert_int_equal(joins, 0);
    nn_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nets),           cmocka_unit_test(random_nets),
        cmocka_unit_test(lanes_overlap),       cmocka_unit_test(buckets_are_whole),
        cmocka_unit_test(buckets_go_early),    cmocka_unit_test(one_lane_finishes),
        cmocka_unit_test(frozen_pairs),        cmocka_unit_test(frozen_does_not_fork),
        cmocka_unit_test(weights_run_at_once), cmocka_unit_test(first_runs_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
