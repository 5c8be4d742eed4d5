/* Which steps of a pass back run beside the others, and where the main lane waits for them.
 *
 * Weight gradients run on a lane of their own. Those of layers of one shape that follow one another wait for each
 * other, as long as their maps are small: the backend runs them at once (fused_weight), so that a device begins, adds
 * up and ends once for all of them. */
#include <string.h>

#include "nn/pass_build.h"

/* A large map keeps the device busy by itself. */
static bool is_large(const rc_pass_build *b, int layer)
{
    return rc_pass_map_bytes(b, &b->net->layer[layer]) > b->backend->busy_bytes;
}

/* Is it part of a bucket? */
static bool in_bucket(const rc_pass_step *step)
{
    return step->op == RC_OP_ZERO_BIAS || step->op == RC_OP_SUM_WORKERS || step->op == RC_OP_WAIT_WORKERS;
}

/* Where the group ends that begins at a step, or that the step is in. A bucket belongs to the group that it stands in
 * or behind. */
static int group_end(const rc_pass_step *steps, int first, int count)
{
    int end = first + 1;
    while (end < count && (steps[end].layer == steps[first].layer || in_bucket(&steps[end])))
        end++;
    return end;
}

/* With lanes the weight gradients of small maps may run until the end: what they read stays as long, so that the main
 * lane need not wait. Little is lost by waiting for one of a large map: what it reads stays until the layer after has
 * been done, and memory is saved. */
void rc_pass_keep_for_weights(rc_pass_build *b)
{
    const rc_pass_step *steps = b->pass->step;
    for (int i = b->pass->forward_end; i < b->steps; i++) {
        int layer = steps[i].layer, first = steps[i].op == RC_OP_FUSED_WEIGHT ? steps[i].first : layer;
        if (steps[i].op != RC_OP_WEIGHT && steps[i].op != RC_OP_FUSED_WEIGHT)
            continue;
        int end = group_end(steps, i, b->steps);
        end = is_large(b, layer) && end < b->steps ? group_end(steps, end, b->steps) : b->steps;
        for (int index = first; index <= layer; index++)
            rc_pass_use_for_weight(b, index, end - 1);
    }
}

/* The last of all steps that compute, if it is a weight gradient: the main lane is idle by then, so it runs the step
 * itself instead of waiting for the weight lane. -1: it is not a weight gradient. */
static int weight_on_main_lane(const rc_pass_step *steps, int count)
{
    int last = count - 1;
    while (last >= 0 && in_bucket(&steps[last]))
        last--;
    return last >= 0 && steps[last].op == RC_OP_WEIGHT ? last : -1;
}

/* Buffers that a step of the main lane writes. */
enum { BUFFERS_WRITTEN = 2 * RC_MAX_FUSED + 3 };
static int written_buffers(const rc_pass_build *b, const rc_pass_step *step, int buffers[BUFFERS_WRITTEN])
{
    int count = 0, written = 0;
    if (step->op == RC_OP_BN_SUMS)
        buffers[count++] = b->buffers[step->layer].back_partial;
    if (step->op == RC_OP_FINISH)
        buffers[count++] = b->buffers[step->layer].draw;
    if (step->op == RC_OP_FUSED_TRAIN_BACK) {
        int skip = b->net->layer[step->first].skip;
        for (int i = step->first; i <= step->layer; i++) {
            buffers[count++] = b->buffers[i].draw;
            buffers[count++] = b->buffers[i].back_partial;
        }
        if (skip >= 0)
            buffers[count++] = b->buffers[skip].gradient;
    }
    if (step->op == RC_OP_SKIP || step->op == RC_OP_DATA || step->op == RC_OP_FUSED_TRAIN_BACK)
        buffers[count++] = step->target >= 0 ? b->buffers[step->target].gradient : b->input_gradient;
    if (step->sums)
        buffers[count++] = b->buffers[step->target].back_partial;
    for (int i = 0; i < count; i++) {
        if (buffers[i] != RC_NO_BUFFER)
            buffers[written++] = buffers[i];
    }
    return written;
}

/* Does a step of the main lane write memory that the weight gradient of a layer reads? */
static bool disturbs(const rc_pass_build *b, const rc_pass_step *step, int layer)
{
    int written[BUFFERS_WRITTEN], writes = written_buffers(b, step, written);
    int read[RC_BUFFERS_OF_WEIGHT], reads = rc_pass_weight_buffers(b, layer, read);
    bool any = false;
    for (int i = 0; i < writes * reads && !any; i++)
        any = rc_plan_overlap(&b->plan, written[i / reads], read[i % reads]);
    return any;
}

/* ---- the weight lane --------------------------------------------------------------------------------------------- */

/* Weight gradients that run at once have maps of so many times busy_bytes: with more, little is left to gain. */
enum { RUN_LENGTH = 5 };

typedef struct weight_lane {
    int pending[RC_MAX_LAYERS], pendings; /* layers whose weight gradient may still be running */
    int first, last;                      /* layers whose weight gradient waits for others; none: first > last */
    size_t bytes;                         /* of their maps */
    bool forked;                          /* since the last join */
    const rc_pass_step *zero, *end;       /* among these steps: gradients of biases that are still to be set to 0 */
} weight_lane;

/* Nothing waits for gradients that are 0: the first fork takes all, and the main lane has none of them at the end. */
static void zero_biases(rc_pass_build *b, weight_lane *lane)
{
    for (; lane->zero < lane->end; lane->zero++) {
        if (lane->zero->op == RC_OP_ZERO_BIAS)
            b->pass->step[b->steps++] = *lane->zero;
    }
}

static void run_beside(rc_pass_build *b, weight_lane *lane, const rc_pass_step *step)
{
    rc_pass_emit(b, RC_OP_FORK, RC_NO_LAYER);
    zero_biases(b, lane);
    b->pass->step[b->steps++] = *step;
    rc_pass_emit(b, RC_OP_MAIN, RC_NO_LAYER);
    lane->forked = true;
    for (int i = step->op == RC_OP_FUSED_WEIGHT ? step->first : step->layer; i <= step->layer && i >= 0; i++)
        lane->pending[lane->pendings++] = i;
}

/* Lets those run that wait. */
static void release(rc_pass_build *b, weight_lane *lane)
{
    if (lane->first > lane->last)
        return;
    bool several = lane->first < lane->last;
    const rc_pass_step step = {.op = several ? RC_OP_FUSED_WEIGHT : RC_OP_WEIGHT,
                               .layer = lane->last,
                               .first = several ? lane->first : 0,
                               .target = RC_NO_LAYER,
                               .addend = RC_NO_LAYER,
                               .with = RC_NO_LAYER};
    lane->last = lane->first - 1;
    run_beside(b, lane, &step);
}

static void join(rc_pass_build *b, weight_lane *lane)
{
    rc_pass_emit(b, RC_OP_JOIN, RC_NO_LAYER);
    lane->pendings = 0;
    lane->forked = false;
}

/* May the weight gradient of a layer run with those of others? */
static bool may_wait(const rc_pass_build *b, int index)
{
    const rc_layer *layer = &b->net->layer[index];
    return b->backend->fused_weight != NULL && layer->kind == RC_LAYER_CONV && !layer->bias && !is_large(b, index) &&
           b->buffers[index].draw == RC_NO_BUFFER;
}

static bool same_shape(const rc_conv *a, const rc_conv *b)
{
    return a->c_in == b->c_in && a->c_out == b->c_out && a->k == b->k && a->stride == b->stride && a->pad == b->pad &&
           a->up == b->up && a->transposed == b->transposed && a->h == b->h && a->w == b->w && a->oh == b->oh &&
           a->ow == b->ow;
}

/* Is the next weight gradient, that of the layer before, one of the same shape? */
static bool continues(const rc_pass_build *b, int index)
{
    if (index == 0 || !may_wait(b, index - 1))
        return false;
    rc_conv conv = rc_layer_conv(&b->net->layer[index]), before = rc_layer_conv(&b->net->layer[index - 1]);
    return same_shape(&conv, &before);
}

static void wait_for_others(rc_pass_build *b, weight_lane *lane, int index)
{
    if (lane->first > lane->last) {
        lane->last = index;
        lane->bytes = 0;
    }
    lane->first = index;
    lane->bytes += rc_pass_map_bytes(b, &b->net->layer[index]);
    bool enough = lane->bytes / RUN_LENGTH >= b->backend->busy_bytes;
    if (enough || lane->last - index + 1 == RC_MAX_FUSED || !continues(b, index))
        release(b, lane);
}

/* Does a step write memory that a weight gradient reads which may not be done? */
static bool must_wait(const rc_pass_build *b, const weight_lane *lane, const rc_pass_step *step)
{
    bool any = false;
    for (int i = 0; i < lane->pendings && !any; i++)
        any = disturbs(b, step, lane->pending[i]);
    for (int i = lane->first; i <= lane->last && !any; i++)
        any = disturbs(b, step, i);
    return any;
}

/* The steps of a group, from its first on, that need not wait for what makes the group wait: BN backward writes what no
 * other layer reads, and a backend may join it to the step before. What ends the gradient moves memory while weight
 * gradients multiply, so it runs beside them where it may. It is done as a whole, for a backend may join its steps. */
static int steps_before_wait(const rc_pass_build *b, const weight_lane *lane, const rc_pass_step *steps, int count)
{
    int first = steps[0].op == RC_OP_BN_BACKWARD, end = first;
    while (end < count && (steps[end].op == RC_OP_SKIP || steps[end].op == RC_OP_FINISH)) {
        if (must_wait(b, lane, &steps[end]))
            return first;
        end++;
    }
    return end;
}

void rc_pass_list_lanes(rc_pass_build *b, rc_pass_step *copy)
{
    rc_pass *pass = b->pass;
    if (b->backend->lanes <= 1 || !b->train)
        return;
    int begin = pass->forward_end, count = pass->backward_end - begin;
    memcpy(copy, pass->step + begin, (size_t)count * sizeof *copy);
    int on_main = weight_on_main_lane(copy, count);
    weight_lane lane = {.last = -1, .zero = copy, .end = copy + count};
    b->steps = begin;
    for (int i = 0; i < count;) {
        int end = group_end(copy, i, count);
        /* Waiting before the group's own weight gradient keeps that beside the group's other steps. */
        bool wait = false;
        for (int s = i; s < end && !wait; s++)
            wait = must_wait(b, &lane, &copy[s]);
        if (wait) {
            for (int s = steps_before_wait(b, &lane, copy + i, end - i); s > 0; s--)
                pass->step[b->steps++] = copy[i++];
            release(b, &lane);
            join(b, &lane);
        }
        for (; i < end; i++) {
            if (copy[i].op == RC_OP_ZERO_BIAS) {
                if (lane.zero <= &copy[i]) {
                    pass->step[b->steps++] = copy[i];
                    lane.zero = &copy[i + 1];
                }
                continue;
            }
            bool sum = copy[i].op == RC_OP_SUM_WORKERS, weight = copy[i].op == RC_OP_WEIGHT;
            bool at_end = copy[i].op == RC_OP_WAIT_WORKERS || (sum && copy[i + 1].op == RC_OP_WAIT_WORKERS);
            if (weight && i != on_main && may_wait(b, copy[i].layer)) {
                wait_for_others(b, &lane, copy[i].layer);
                continue;
            }
            /* A bucket follows the weight gradients: so the main lane need not wait for them. */
            bool beside = copy[i].op == RC_OP_FUSED_WEIGHT || (sum && !at_end) || (weight && i != on_main);
            if (beside || at_end)
                release(b, &lane);
            if (at_end && lane.forked)
                join(b, &lane);
            if (beside)
                run_beside(b, &lane, &copy[i]);
            else
                pass->step[b->steps++] = copy[i];
        }
    }
    pass->backward_end = b->steps;
}
