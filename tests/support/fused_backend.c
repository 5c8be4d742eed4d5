#include "support/fused_backend.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "support/nn_fixture.h"

enum { MOST_LATE = 64, KEPT = 77 };

/* A weight gradient that waits for a join. */
typedef struct late_call {
    enum { CONV, DEPTHWISE, LINEAR } kind;
    rc_conv conv;
    rc_linear linear;
    rc_tensor x, y;
    rc_grad dy;
    void *dweight, *dbias;
} late_call;

static rc_backend original;
static fused_kind kind;
static fused_counts counts;
static late_call calls[MOST_LATE];
static int lane, late;
static rc_pool2d pool; /* of the last maximum in training, with the convolution before it */

/* ---- lanes ------------------------------------------------------------------------------------------------------ */

static void run_weight(rc_backend *be, const late_call *call)
{
    rc_grad dy = call->dy;
    dy.y = &call->y;
    if (call->kind == CONV)
        original.conv_backward_weight(be, &call->conv, &call->x, &dy, call->dweight, call->dbias);
    else if (call->kind == DEPTHWISE)
        original.depthwise_backward_weight(be, &call->conv, &call->x, &dy, call->dweight, call->dbias);
    else
        original.linear_backward_weight(be, &call->linear, &call->x, &dy, call->dweight, call->dbias);
}

static void weight_gradient(rc_backend *be, late_call call)
{
    call.y = *call.dy.y;
    if (lane == RC_MAIN_LANE) {
        run_weight(be, &call);
        return;
    }
    assert_true(late < MOST_LATE);
    calls[late++] = call;
}

static void conv_weight(rc_backend *be, const rc_conv *conv, const rc_tensor *x, const rc_grad *dy, void *dweight,
                        void *dbias)
{
    weight_gradient(be, (late_call){CONV, .conv = *conv, .x = *x, .dy = *dy, .dweight = dweight, .dbias = dbias});
}

static void depthwise_weight(rc_backend *be, const rc_conv *conv, const rc_tensor *x, const rc_grad *dy, void *dweight,
                             void *dbias)
{
    weight_gradient(be, (late_call){DEPTHWISE, .conv = *conv, .x = *x, .dy = *dy, .dweight = dweight, .dbias = dbias});
}

static void linear_weight(rc_backend *be, const rc_linear *linear, const rc_tensor *x, const rc_grad *dy, void *dweight,
                          void *dbias)
{
    weight_gradient(be, (late_call){LINEAR, .linear = *linear, .x = *x, .dy = *dy, .dweight = dweight, .dbias = dbias});
}

static void fork_lane(rc_backend *be, int to)
{
    (void)be;
    assert_true(to == RC_MAIN_LANE || to == RC_WEIGHT_LANE);
    lane = to;
}

static void join_lane(rc_backend *be, int from)
{
    assert_int_equal(from, RC_WEIGHT_LANE);
    lane = RC_MAIN_LANE;
    counts.joins++;
    for (int i = 0; i < late; i++)
        run_weight(be, &calls[i]);
    late = 0;
}

static void sum_workers(rc_backend *be, void *reals, size_t count)
{
    assert_int_equal(lane, RC_MAIN_LANE);
    assert_int_equal(late, 0);
    counts.summed += count;
    original.sum_workers(be, reals, count);
}

/* ---- normalisation ---------------------------------------------------------------------------------------------- */

/* The tensor must be the one that is normalised; the reference itself reads no more than its shape. */
static void bn_train(rc_backend *be, const rc_bn *bn, const rc_tensor *y, const rc_bn_forward *f)
{
    assert_ptr_equal(y->scale, f->scale);
    original.bn_train(be, bn, y, f);
}

static void bn_eval(rc_backend *be, const rc_bn *bn, const rc_tensor *y, const rc_bn_forward *f)
{
    assert_ptr_equal(y->scale, f->scale);
    original.bn_eval(be, bn, y, f);
}

/* ---- which layers ----------------------------------------------------------------------------------------------- */

/* A layer after the first may add what the one before it reads, unless that adds something, too. */
static bool follows(const rc_fusible *layers, int first, int index)
{
    const rc_fusible *layer = &layers[index], *before = layer - 1;
    if (!layer->plain || layer->act > RC_ACT_LEAKY_RELU)
        return false;
    if (index == first)
        return layer->in >= 0 && layer->skip != layer->in;
    return layer->in == index - 1 &&
           (layer->skip < 0 || (layer->skip_stride == 1 && layer->skip == before->in && before->skip < 0));
}

static bool is_read_elsewhere(const rc_fusible *layers, int count, int first, int last)
{
    bool read = false;
    for (int i = first; i < last; i++)
        read = read || layers[i].output;
    for (int i = last + 1; i < count; i++)
        read = read || (layers[i].in >= first && layers[i].in < last) ||
               (layers[i].skip >= first && layers[i].skip < last);
    return read;
}

/* A convolution and the maximum behind it. */
static bool is_pooled(const rc_fusible *layers, int count, int first)
{
    return first + 1 < count && layers[first].plain && layers[first].skip < 0 && layers[first + 1].pool.k > 0 &&
           layers[first + 1].in == first && !is_read_elsewhere(layers, count, first, first + 1);
}

static int fuse(rc_backend *be, const rc_fusible *layers, int count, int first, int n, bool gradients)
{
    (void)be;
    assert_true(n > 0 && first >= 0 && first < count);
    int taken = 0;
    if (!gradients && is_pooled(layers, count, first))
        return 2;
    while (taken < kind.most && first + taken < count && follows(layers, first, first + taken))
        taken++;
    while (taken > 1 && is_read_elsewhere(layers, count, first, first + taken - 1))
        taken--;
    return taken;
}

static int fuse_train(rc_backend *be, const rc_fusible *layers, int count, int first, int n, int groups)
{
    assert_true(groups > 0 && groups <= RC_MAX_GROUPS);
    if (layers[first].in < 0 && is_pooled(layers, count, first))
        return 2;
    return fuse(be, layers, count, first, n, true);
}

static bool reads_finished_gradient(rc_backend *be, const rc_conv *conv, int n)
{
    (void)be, (void)conv;
    return n > 0;
}

/* ---- the layers, one after the other ---------------------------------------------------------------------------- */

static size_t map_bytes(const rc_backend *be, const rc_tensor *t)
{
    return rc_act_count(be, t->n, t->h, t->w, t->c) * be->act_bytes;
}

/* A map of that shape that the caller releases. */
static void *new_map(rc_backend *be, const rc_tensor *t)
{
    void *map;
    nn_must(original.alloc(be, map_bytes(be, t), &map));
    return map;
}

static rc_tensor plain(const rc_tensor *t, void *raw)
{
    rc_tensor made = *t;
    made.raw = raw;
    made.scale = made.shift = made.mean = made.istd = NULL;
    made.skip = (rc_skip){0};
    made.act = RC_ACT_NONE;
    made.value = made.taps = NULL;
    made.stored = false;
    return made;
}

/* Nobody may rely on what is not promised to be there: not a number. */
static void spoil(const rc_backend *be, const rc_tensor *t, void *map)
{
    if (map != NULL)
        memset(map, 0xff, map_bytes(be, t));
}

/* Without gradients: only the last layer has memory. */
static void forward_to_last(rc_backend *be, rc_tensor *x, const rc_fused *layers, int count)
{
    rc_tensor result[RC_MAX_FUSED];
    for (int i = 0; i < count; i++) {
        rc_tensor y = *layers[i].y;
        y.raw = i < count - 1 ? new_map(be, &y) : y.raw;
        if (i > 1 && y.skip.value != NULL)
            y.skip.value = result[i - 2].raw;
        assert_true(layers[i].epilogue.apply);
        if (layers[i].pool.k > 0) {
            counts.pooled++;
            original.max_pool_forward(be, &layers[i].pool, &result[i - 1], &y);
        } else {
            original.conv_forward(be, layers[i].conv, i > 0 ? &result[i - 1] : x, layers[i].weight, NULL, &y,
                                  &layers[i].epilogue);
        }
        result[i] = plain(&y, y.raw);
    }
    for (int i = 0; i < count - 1; i++)
        original.release(be, result[i].raw);
}

static void fused_forward(rc_backend *be, rc_tensor *x, const rc_fused *layers, int count)
{
    counts.forward++;
    assert_true(count > 1 && count <= kind.most);
    if (layers[0].epilogue.apply) {
        forward_to_last(be, x, layers, count);
        return;
    }
    for (int i = 0; i < count; i++)
        original.conv_forward(be, layers[i].conv, i > 0 ? layers[i - 1].y : x, layers[i].weight, NULL, layers[i].y,
                              &layers[i].epilogue);
    rc_tensor *last = layers[count - 1].y;
    if (last->value != NULL)
        original.materialise(be, last);
    for (int i = 0; i < count - 1; i++) {
        rc_tensor *y = layers[i].y;
        if (y->skip.value != NULL && y->act != RC_ACT_NONE)
            continue;
        spoil(be, y, y->value);
        y->stored = false;
    }
}

/* The result of a convolution before a maximum in training, which has no memory: the caller releases its raw. */
static rc_tensor conv_again(rc_backend *be, const rc_conv *conv, rc_tensor *x, const void *weight, const rc_tensor *y,
                            const rc_epilogue *epilogue)
{
    rc_tensor made = *y;
    made.raw = new_map(be, y);
    original.conv_forward(be, conv, x, weight, NULL, &made, epilogue);
    return made;
}

static void fused_train(rc_backend *be, rc_tensor *x, const rc_fused_train *layers, int count)
{
    counts.train++;
    assert_true(count > 1 && count <= kind.most);
    if (layers[1].layer.pool.k > 0) {
        const rc_fused_train *conv = &layers[0];
        const rc_epilogue epilogue = {.partial = rc_without_const(conv->norm.partial), .center = conv->norm.center};
        rc_tensor y = conv_again(be, conv->layer.conv, x, conv->layer.weight, conv->layer.y, &epilogue);
        counts.pooled_train++;
        original.bn_train(be, conv->bn, &y, &conv->norm);
        original.max_pool_forward(be, &layers[1].layer.pool, &y, layers[1].layer.y);
        pool = layers[1].layer.pool;
        original.release(be, y.raw);
        memset(rc_without_const(conv->norm.partial), KEPT, 1); /* stays until the way back */
        return;
    }
    for (int i = 0; i < count; i++) {
        const rc_fused_train *link = &layers[i];
        const rc_epilogue epilogue = {.partial = rc_without_const(link->norm.partial), .center = link->norm.center};
        original.conv_forward(be, link->layer.conv, i > 0 ? layers[i - 1].layer.y : x, link->layer.weight, NULL,
                              link->layer.y, &epilogue);
        original.bn_train(be, link->bn, link->layer.y, &link->norm);
    }
    rc_tensor *last = layers[count - 1].layer.y;
    spoil(be, last, last->value);
}

/* dz of the skip of `dy`; a place that nobody took gets nothing. */
static void skip_backward(rc_backend *be, const rc_grad *dy, void *dskip, bool add)
{
    const rc_skip *skip = &dy->y->skip;
    rc_tensor from = plain(dy->y, NULL);
    from.h = skip->h;
    from.w = skip->w;
    from.c = skip->c;
    const rc_back_epilogue epilogue = {.x = &from, .add = add};
    original.skip_backward(be, dy, dskip, &epilogue);
}

static void fused_backward(rc_backend *be, const rc_fused_back *layers, int count, const rc_fused_gradients *to)
{
    void *g[RC_MAX_FUSED] = {0}; /* of values */
    counts.backward++;
    assert_true(count > 1 && count <= kind.most);
    assert_int_equal(layers[0].dy->y->skip.value != NULL, to->dskip != NULL);
    bool added = to->add; /* does dx hold something? */
    for (int i = 0; i < count; i++) {
        assert_int_equal(layers[i].dy->g != NULL, i == count - 1);
        g[i] = i < count - 1 ? new_map(be, layers[i].dy->y) : layers[i].dy->g;
    }
    bool written[RC_MAX_FUSED] = {false};
    for (int i = count - 1; i >= 0; i--) {
        rc_grad dy = *layers[i].dy;
        dy.g = g[i];
        if (i == 0 && to->dskip != NULL)
            skip_backward(be, &dy, to->dskip, to->add_skip);
        if (i == 1 && dy.y->skip.value != NULL) {
            skip_backward(be, &dy, to->dx, added);
            added = true;
        }
        if (i > 1 && dy.y->skip.value != NULL) {
            skip_backward(be, &dy, g[i - 2], written[i - 2]);
            written[i - 2] = true;
        }
        rc_tensor shape = plain(dy.y, NULL);
        shape.h = layers[i].conv->h;
        shape.w = layers[i].conv->w;
        shape.c = layers[i].conv->c_in;
        const rc_back_epilogue epilogue = {.x = &shape, .add = i > 0 ? written[i - 1] : added};
        original.conv_backward_data(be, layers[i].conv, &dy, layers[i].weight, i > 0 ? g[i - 1] : to->dx, &epilogue);
    }
    spoil(be, layers[count - 1].dy->y, g[count - 1]); /* whose memory may be used */
    for (int i = 0; i < count - 1; i++)
        original.release(be, g[i]);
}

/* Of a maximum and the convolution before it: no gradient of what that reads. */
static void pooled_train_backward(rc_backend *be, const rc_fused_train_back *layers, const rc_fused_train_gradients *to)
{
    const rc_fused_back *conv = &layers[0].layer, *maximum = &layers[1].layer;
    const rc_bn_backward *norm = &layers[0].norm;
    rc_tensor x = *to->epilogue.x, y = conv_again(be, conv->conv, &x, conv->weight, conv->dy->y, &(rc_epilogue){0});
    rc_grad dy = *conv->dy;
    assert_null(to->dx);
    assert_null(dy.g);
    assert_int_equal(*(const char *)norm->partial, KEPT);
    dy.y = &y;
    dy.g = new_map(be, &y);
    const rc_back_epilogue epilogue = {.x = &y, .partial = rc_without_const(norm->partial)};
    original.max_pool_backward(be, &pool, &y, maximum->dy, dy.g, &epilogue);
    original.bn_backward(be, &y, true, norm);
    original.conv_backward_weight(be, conv->conv, &x, &dy, layers[0].dweight, NULL);
    original.release(be, dy.g);
    original.release(be, y.raw);
}

static void fused_train_backward(rc_backend *be, const rc_fused_train_back *layers, int count,
                                 const rc_fused_train_gradients *to)
{
    if (layers[count - 1].layer.conv->k == 0) {
        pooled_train_backward(be, layers, to);
        return;
    }
    void *g[RC_MAX_FUSED];
    bool written[RC_MAX_FUSED] = {false};
    rc_back_epilogue last_write = to->epilogue;
    counts.train_backward++;
    assert_true(count > 1 && count <= kind.most);
    assert_int_equal(layers[0].layer.dy->y->skip.value != NULL, to->dskip != NULL);
    for (int i = 0; i < count; i++) {
        const rc_grad *dy = layers[i].layer.dy;
        assert_int_equal(dy->g != NULL, i == count - 1);
        assert_non_null(layers[i].draw);
        g[i] = i < count - 1 ? new_map(be, dy->y) : dy->g;
    }
    for (int i = count - 1; i >= 0; i--) {
        const rc_fused_train_back *link = &layers[i];
        rc_grad dy = *link->layer.dy;
        dy.g = g[i];
        if (i < count - 1) {
            original.bn_backward_sums(be, &dy, rc_without_const(link->norm.partial));
            original.bn_backward(be, dy.y, true, &link->norm);
        }
        if (i == 0 && to->dskip != NULL)
            skip_backward(be, &dy, to->dskip, to->add_skip);
        if (i == 1 && dy.y->skip.value != NULL) {
            if (last_write.addend != NULL)
                original.copy(be, to->dx, last_write.addend, map_bytes(be, last_write.x));
            skip_backward(be, &dy, to->dx, last_write.add);
            last_write.addend = NULL;
            last_write.add = true;
        }
        if (i > 1 && dy.y->skip.value != NULL) {
            skip_backward(be, &dy, g[i - 2], written[i - 2]);
            written[i - 2] = true;
        }
        rc_tensor shape = plain(dy.y, link->draw);
        const rc_grad draw = {.y = &shape, .g = link->draw};
        const rc_back_epilogue overwrite = {.x = &shape};
        original.copy_backward(be, &dy, link->draw, &overwrite);
        const rc_back_epilogue inside = {.x = i > 0 ? layers[i - 1].layer.dy->y : NULL, .add = i > 0 && written[i - 1]};
        original.conv_backward_data(be, link->layer.conv, &draw, link->layer.weight, i > 0 ? g[i - 1] : to->dx,
                                    i > 0 ? &inside : &last_write);
    }
    for (int i = 0; i < count - 1; i++)
        original.release(be, g[i]);
}

static void fused_weight(rc_backend *be, const rc_fused_weight *layers, int count)
{
    counts.weight++;
    assert_in_range(count, 2, RC_MAX_FUSED);
    for (int i = 0; i < count; i++)
        conv_weight(be, layers[i].conv, layers[i].x, layers[i].dy, layers[i].dweight, NULL);
}

/* ---- opening ---------------------------------------------------------------------------------------------------- */

rc_backend *fused_backend_open(const fused_kind *wanted)
{
    rc_backend *be;
    nn_must(rc_backend_open("reference", 1, NULL, &be));
    original = *be;
    kind = *wanted;
    counts = (fused_counts){0};
    lane = RC_MAIN_LANE;
    late = 0;
    be->conv_backward_weight = conv_weight;
    be->depthwise_backward_weight = depthwise_weight;
    be->linear_backward_weight = linear_weight;
    be->bn_train = bn_train;
    be->bn_eval = bn_eval;
    be->fork = fork_lane;
    be->join = join_lane;
    be->sum_workers = sum_workers;
    be->lanes = kind.lanes ? 2 : 1;
    be->busy_bytes = kind.waits ? 0 : SIZE_MAX;
    be->reads_finished_gradient = be->reads_finished_value = kind.finishes ? reads_finished_gradient : NULL;
    if (kind.most > 0) {
        be->fuse = fuse;
        be->fused_forward = fused_forward;
        be->fused_backward = fused_backward;
        be->fuse_train = fuse_train;
        be->fused_train = fused_train;
        be->fused_weight = fused_weight;
    }
    if (kind.most > 0 && kind.back)
        be->fused_train_backward = fused_train_backward;
    return be;
}

fused_counts fused_backend_counts(void)
{
    return counts;
}
