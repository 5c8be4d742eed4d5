/* Writes the lists of steps of a pass.
 *
 * Forward, TRAIN and FROZEN: a layer's raw result stays, with its normalisation pending; values are stored by the
 * first operation that reads them. EVAL: the operation's epilogue finishes the value, and the memory of a value is free
 * again after its last reader. What the backend runs at once is one step: of its layers, only the last has a value
 * for others.
 *
 * Backward runs over the layers from the last to the first; the steps of one layer are a group:
 *     [sums of its gradient]  BN backward  weight gradient (on its own lane)  gradient of skip  gradient of input
 *     or, where the backend reads dL/draw from a map (reads_finished_gradient): BN backward  gradient of skip
 *     finish  weight gradient  gradient of input
 *     or, where the backend runs layers at once: BN backward of the last  all of the rest  weight gradients of all
 *     or, of the net's first layer and the maximum behind it: all at once
 * Between BN backward and what follows may stand a bucket: the gradients of the layers after this one go to the other
 * processes (rest of the biases' gradients, SUM_WORKERS). BN backward talks to them, too, and one talk waits for the
 * other: so a bucket has until the next layer's BN backward to travel without holding up anybody.
 * (FROZEN: the statistics of all layers end the forward pass, and BN backward of all layers begins the backward pass.)
 * - The first writer of a gradient overwrites, later ones add; the last one takes the sums that the normalisation of
 *   that layer needs.
 * - An identity skip into a sum without activation passes the gradient on unchanged: the layer it comes from then
 *   lives in the gradient buffer of the sum, and its other readers add to it; with lanes it has a buffer of its own, to
 *   which the next writer brings the gradient of the sum.
 * - Where the backend takes two convolutions of the same input at once (takes_beside), as the first and the shortcut of
 *   a block that widens, the data gradient of the one waits for the group of the other.
 * - What forward made is kept until the last step of backward that reads it, and gradients take its place.
 *
 * A residual block, worked out: stage_1.blocks.1 of resnet-small in TRAIN, one lane. Layer x is the block before it,
 * a is conv_a (reads x; BN, ReLU), b is conv_b (reads a; BN; adds x; no activation), y is whoever reads b.
 *
 *   forward     reads                              writes
 *   FORWARD a   x: raw x, its BN, its skip         raw a, partial a (sums of raw a); also value x, because x is a skip
 *   BN_TRAIN a  partial a                          scale a, shift a, mean a, istd a, running statistics
 *   FORWARD b   a: raw a, scale a, shift a, ReLU   raw b, partial b. No value a: nobody adds it
 *   BN_TRAIN b  partial b                          scale b, shift b, mean b, istd b, running statistics
 *   FORWARD y   b: raw b, scale b, shift b, value x    raw y, partial y; also value b, because b is the next skip
 *
 *   backward    reads                              writes
 *   (readers of b)                                 gradient b; the last of them also back_partial b
 *   BN_BACKWARD b   back_partial b                 coefficients of b; gradients of its gamma and beta
 *   WEIGHT b    gradient b, a (from raw a)         gradient of the weights of b
 *   no SKIP     the sum passes gradient b on       gradient x is the buffer of gradient b from here on
 *   DATA b      gradient b, weights of b           gradient a: overwritten, its only writer; back_partial a
 *   BN_BACKWARD a   back_partial a                 coefficients of a; gradients of its gamma and beta
 *   WEIGHT a    gradient a, value x                gradient of the weights of a
 *   DATA a      gradient a, weights of a           gradient x: added to gradient b; back_partial x, as it is the last
 *
 * WEIGHT and DATA apply the coefficients while they read a gradient, so that the gradient before the normalisation has
 * no memory. FINISH writes it to the memory of the gradient, or beside it where x shares that; then WEIGHT and DATA
 * read it there. With two lanes each WEIGHT runs on the weight lane between FORK and MAIN, and may still be reading
 * gradient b when DATA a runs. Therefore gradient x has a buffer of its own then, and DATA a writes gradient b + its
 * own to it (`addend` is b). A block that widens (stage_2.blocks.0) has a shortcut that is no identity: SKIP b writes
 * gradient x, and DATA a adds to it. */
#include "backend/conv_both.h"
#include "nn/pass_build.h"

rc_pass_step *rc_pass_emit(rc_pass_build *b, rc_pass_op op, int layer)
{
    rc_pass_step *step = &b->pass->step[b->steps++];
    *step = (rc_pass_step){.op = op, .layer = layer, .target = RC_NO_LAYER, .addend = RC_NO_LAYER, .with = RC_NO_LAYER};
    return step;
}

/* The buffer is in use at the step that was emitted last. */
static void use(rc_pass_build *b, int buffer)
{
    if (buffer != RC_NO_BUFFER)
        rc_plan_use(&b->plan, buffer, b->steps - 1);
}

/* Where the finished value of a layer is. */
static int finished_buffer(const rc_pass_build *b, int index)
{
    const rc_layer_buffers *buffers = &b->buffers[index];
    return buffers->value != RC_NO_BUFFER ? buffers->value : buffers->raw;
}

/* Does whoever reads the tensor of a layer read the value of its skip? Not where its own value is stored, unless its
 * slope takes more than that. */
static bool reads_skip(const rc_pass_build *b, int index)
{
    const rc_layer *layer = &b->net->layer[index];
    bool lines = layer->act == RC_ACT_NONE || layer->act == RC_ACT_RELU || layer->act == RC_ACT_LEAKY_RELU;
    bool stored = b->buffers[index].value != RC_NO_BUFFER && b->stored[index];
    return !b->eval && layer->skip >= 0 && !(stored && lines);
}

/* What an operation reads that is given the tensor of a layer. */
static int tensor_buffers(const rc_pass_build *b, int index, int buffers[RC_BUFFERS_OF_TENSOR])
{
    int count = 0;
    if (index < 0 || b->buffers[index].raw == RC_NO_BUFFER)
        return 0;
    buffers[count++] = b->buffers[index].raw;
    if (b->buffers[index].value != RC_NO_BUFFER)
        buffers[count++] = b->buffers[index].value;
    else if (b->buffers[index].kept != RC_NO_BUFFER)
        buffers[count++] = b->buffers[index].kept;
    if (reads_skip(b, index))
        buffers[count++] = finished_buffer(b, b->net->layer[index].skip);
    return count;
}

static void use_tensor(rc_pass_build *b, int index)
{
    int buffers[RC_BUFFERS_OF_TENSOR], count = tensor_buffers(b, index, buffers);
    for (int i = 0; i < count; i++)
        use(b, buffers[i]);
}

/* ---- forward ---------------------------------------------------------------------------------------------------- */

/* Makes the value of a layer exist, and before that the value of its skip. */
static void store(rc_pass_build *b, int index)
{
    if (b->stored[index])
        return;
    if (b->net->layer[index].skip >= 0)
        store(b, b->net->layer[index].skip);
    rc_pass_emit(b, RC_OP_MATERIALISE, index);
    use_tensor(b, index);
    b->stored[index] = true;
}

/* A lazy sum can be read once the value of its skip exists. */
static void make_readable(rc_pass_build *b, int index)
{
    if (index >= 0 && !b->stored[index] && b->net->layer[index].skip >= 0)
        store(b, b->net->layer[index].skip);
}

/* The value of the layer's input exists once the step that has just been emitted has read it. */
static void use_input(rc_pass_build *b, const rc_layer *layer)
{
    if (layer->in < 0)
        return;
    use_tensor(b, layer->in);
    b->stored[layer->in] = b->stored[layer->in] || b->buffers[layer->in].value != RC_NO_BUFFER;
}

static bool is_maximum(const rc_pass_build *b, int index)
{
    return b->net->layer[index].kind == RC_LAYER_MAX_POOL;
}

static void list_fused(rc_pass_build *b, int first, int last)
{
    const rc_layer *begin = &b->net->layer[first];
    make_readable(b, begin->in);
    if (begin->skip >= 0)
        store(b, begin->skip);
    b->first_fused[last] = first;
    rc_pass_emit(b, b->train ? RC_OP_FUSED_TRAIN : RC_OP_FUSED, last)->first = first;
    use_input(b, begin);
    if (begin->skip >= 0)
        use(b, finished_buffer(b, begin->skip));
    bool pooled = is_maximum(b, last);
    for (int i = first; i <= last; i++) {
        if ((!b->eval && !pooled) || i == last)
            use_tensor(b, i);
        use(b, b->buffers[i].partial);
        use(b, b->buffers[i].taps);
        if (pooled)
            b->buffers[i].back_partial = b->buffers[i].partial; /* which stays */
    }
    b->stored[last] = b->eval || pooled || b->buffers[last].value != RC_NO_BUFFER;
    for (int i = first; i <= last && b->train; i++) {
        b->first_fused[i] = i < last ? i : first; /* back, each may run alone */
        b->stored[i] = i < last ? b->buffers[i].value != RC_NO_BUFFER : pooled;
    }
}

/* Callers read it whenever they like. */
static void list_output(rc_pass_build *b, int index)
{
    int buffers[RC_BUFFERS_OF_TENSOR], count = tensor_buffers(b, index, buffers);
    make_readable(b, index);
    for (int i = 0; i < count; i++)
        rc_plan_keep(&b->plan, buffers[i]);
}

/* Will no layer read the value of a layer but as its skip? */
static bool is_only_added(const rc_pass_build *b, int index)
{
    bool added = false, read = false;
    for (int i = index + 1; i < b->net->layers; i++) {
        added = added || b->net->layer[i].skip == index;
        read = read || b->net->layer[i].in == index;
    }
    return added && !read;
}

static void list_forward(rc_pass_build *b)
{
    int frozen = b->pass->settings.frozen;
    for (int i = 0; i < b->net->layers; i++) {
        const rc_layer *layer = &b->net->layer[i];
        int last = rc_pass_last_fused(b, i);
        b->first_fused[i] = i;
        if (last > i) {
            list_fused(b, i, last);
            i = last;
            continue;
        }
        make_readable(b, layer->in);
        rc_pass_emit(b, RC_OP_FORWARD, i);
        use(b, b->buffers[i].raw);
        use(b, b->buffers[i].partial);
        use(b, b->buffers[i].taps);
        use_input(b, layer);
        if (b->eval && layer->skip >= 0)
            use(b, b->buffers[layer->skip].raw);
        b->stored[i] = b->eval || !rc_layer_pending(layer);
        if (!b->train && is_only_added(b, i))
            store(b, i); /* a backend may join it to the step before */
        if (layer->bn.on && b->train && i >= frozen) {
            rc_pass_emit(b, RC_OP_BN_TRAIN, i);
            use(b, b->buffers[i].partial);
        }
    }
    /* Only a loss reads these: a backend may make all of them at once. */
    for (int i = 0; i < b->net->layers; i++) {
        if (b->net->layer[i].bn.on && !b->train && !b->eval) {
            rc_pass_emit(b, RC_OP_BN_STATISTICS, i);
            use(b, b->buffers[i].partial);
        }
    }
    for (int i = 0; i < b->net->layers; i++) {
        if (b->net->layer[i].output)
            list_output(b, i);
    }
}

/* ---- backward --------------------------------------------------------------------------------------------------- */

static rc_gradient_state *state(rc_pass_build *b, int index)
{
    return &b->gradient[index + 1];
}

static void add_reader(rc_pass_build *b, int source, int reader)
{
    state(b, source)->writers++;
    state(b, source)->last_reader = reader;
}

/* Which gradients are wanted, and how many steps will write each. */
static void find_writers(rc_pass_build *b)
{
    *state(b, RC_NET_INPUT) = (rc_gradient_state){.needed = b->pass->settings.input_gradient, .addend = RC_NO_LAYER};
    for (int i = 0; i < b->net->layers; i++) {
        const rc_layer *layer = &b->net->layer[i];
        bool needed = (b->train && layer->params > 0 && i >= b->pass->settings.frozen) || state(b, layer->in)->needed ||
                      (layer->skip >= 0 && state(b, layer->skip)->needed);
        *state(b, i) = (rc_gradient_state){.needed = needed, .written = layer->output, .addend = RC_NO_LAYER};
        if (!needed)
            continue;
        add_reader(b, layer->in, i);
        if (layer->skip >= 0)
            add_reader(b, layer->skip, i);
    }
}

static int gradient_buffer(rc_pass_build *b, int index)
{
    if (index == RC_NET_INPUT)
        return b->input_gradient;
    int *buffer = &b->buffers[index].gradient;
    if (*buffer == RC_NO_BUFFER)
        *buffer = rc_plan_add(&b->plan, rc_pass_map_bytes(b, &b->net->layer[index]));
    return *buffer;
}

/* What is read of the gradient of a layer, finished or lazy. */
static int gradient_buffers(const rc_pass_build *b, int index, bool finished, int buffers[RC_BUFFERS_OF_GRADIENT])
{
    buffers[0] = finished ? b->buffers[index].draw : b->buffers[index].gradient;
    return finished ? 1 : 1 + tensor_buffers(b, index, buffers + 1);
}

static void use_gradient(rc_pass_build *b, int index, bool finished)
{
    int buffers[RC_BUFFERS_OF_GRADIENT], count = gradient_buffers(b, index, finished, buffers);
    for (int i = 0; i < count; i++)
        use(b, buffers[i]);
}

int rc_pass_weight_buffers(const rc_pass_build *b, int index, int buffers[RC_BUFFERS_OF_WEIGHT])
{
    int count = gradient_buffers(b, index, b->buffers[index].draw != RC_NO_BUFFER, buffers);
    return count + tensor_buffers(b, b->net->layer[index].in, buffers + count);
}

void rc_pass_use_for_weight(rc_pass_build *b, int index, int step)
{
    int buffers[RC_BUFFERS_OF_WEIGHT], count = rc_pass_weight_buffers(b, index, buffers);
    for (int i = 0; i < count; i++)
        rc_plan_use(&b->plan, buffers[i], step);
}

/* Can the source of the skip live in the gradient buffer of the sum? Only if the sum passes the gradient on unchanged,
 * is the first to write it, and has no other use for its own afterwards. */
static bool shares_gradient(rc_pass_build *b, int index)
{
    const rc_layer *layer = &b->net->layer[index];
    return layer->shortcut == RC_SHORTCUT_IDENTITY && layer->act == RC_ACT_NONE && layer->in != layer->skip &&
           !layer->output && !b->net->layer[layer->skip].output && state(b, layer->skip)->last_reader == index;
}

/* SKIP or DATA: one more writer of the gradient of `target`. */
static void emit_writer(rc_pass_build *b, rc_pass_op op, int index, int target)
{
    rc_gradient_state *gradient = state(b, target);
    rc_pass_step *step = rc_pass_emit(b, op, index);
    gradient->writers--;
    step->target = target;
    step->addend = gradient->written ? RC_NO_LAYER : gradient->addend;
    step->add = gradient->written || step->addend >= 0;
    step->sums = gradient->writers == 0 && target >= 0 && b->buffers[target].back_partial != RC_NO_BUFFER;
    gradient->written = true;
    gradient->summed = step->sums;
    use_gradient(b, index, op == RC_OP_DATA && b->buffers[index].draw != RC_NO_BUFFER);
    use(b, gradient_buffer(b, target));
    use_tensor(b, target);
    if (op == RC_OP_DATA)
        use(b, b->buffers[index].taps);
    if (step->addend >= 0)
        use(b, b->buffers[step->addend].gradient);
    if (step->sums)
        use(b, b->buffers[target].back_partial);
}

/* Is dL/draw written to a map, once for both gradients of the layer, or by the step that ends the gradient? */
static bool finishes(rc_pass_build *b, int index)
{
    const rc_layer *layer = &b->net->layer[index];
    rc_backend *be = b->backend;
    bool read = layer->kind == RC_LAYER_CONV && state(b, layer->in)->needed;
    if (!read || (!layer->bn.on && layer->act == RC_ACT_NONE) || be->reads_finished_gradient == NULL)
        return false;
    rc_conv conv = rc_layer_conv(layer);
    return be->reads_finished_gradient(be, &conv, b->pass->settings.n);
}

/* With lanes the weight gradient of the sum may still be reading its gradient when the next writer adds to it. If that
 * is the data gradient of a convolution, it can add on the way to a buffer of its own. */
static bool adds_elsewhere(rc_pass_build *b, int index, int source)
{
    if (b->backend->lanes <= 1 || !b->train || finishes(b, index))
        return false;
    for (int i = index - 1; i > source; i--) {
        const rc_layer *layer = &b->net->layer[i];
        if (state(b, i)->needed && (layer->in == source || layer->skip == source))
            return layer->kind == RC_LAYER_CONV && layer->skip != source;
    }
    return false;
}

static void list_skip(rc_pass_build *b, int index, int source)
{
    if (source < 0 || !state(b, source)->needed)
        return;
    if (!shares_gradient(b, index)) {
        emit_writer(b, RC_OP_SKIP, index, source);
        return;
    }
    if (adds_elsewhere(b, index, source)) {
        state(b, source)->addend = index;
        state(b, source)->writers--;
        return;
    }
    b->buffers[source].gradient = b->buffers[index].gradient;
    state(b, source)->written = true;
    state(b, source)->writers--;
}

/* One more writer of the gradient of `target`: does it add? */
static bool add_writer(rc_pass_build *b, int target)
{
    bool add = state(b, target)->written;
    state(b, target)->written = true;
    state(b, target)->writers--;
    use(b, gradient_buffer(b, target));
    return add;
}

/* The gradients of the layers before the last stay inside. One step writes all that goes to what the first reads. */
static void list_fused_backward(rc_pass_build *b, int first, int last)
{
    const rc_layer *begin = &b->net->layer[first];
    for (int i = first + 1; i <= last; i++) {
        if (b->net->layer[i].skip == begin->in)
            state(b, begin->in)->writers--;
    }
    rc_pass_step *step = rc_pass_emit(b, RC_OP_FUSED_BACK, last);
    step->first = first;
    use(b, b->buffers[last].gradient);
    for (int i = first; i <= last; i++)
        use_tensor(b, i);
    step->add_skip = begin->skip >= 0 && add_writer(b, begin->skip);
    step->target = begin->in;
    step->add = add_writer(b, begin->in);
}

/* The sums of a gradient, if nobody has taken them, and what they are for. */
static void list_bn_backward(rc_pass_build *b, int index)
{
    if (!state(b, index)->summed) {
        rc_pass_emit(b, RC_OP_BN_SUMS, index);
        use_gradient(b, index, false);
        use(b, b->buffers[index].back_partial);
    }
    rc_pass_emit(b, RC_OP_BN_BACKWARD, index);
    use(b, b->buffers[index].back_partial);
}

/* Do the layers from `first` on, which ran at once, do so back as well? */
static bool trains_back(rc_pass_build *b, int first)
{
    const rc_layer *begin = &b->net->layer[first];
    return b->backend->fused_train_backward != NULL && state(b, begin->in)->needed &&
           (begin->skip < 0 || state(b, begin->skip)->needed);
}

/* All gradients of the layers from `done` on are listed: those that have not been sent are a bucket, if they are enough
 * for one or if they are the last. Gradients of biases that are 0 come here, and so as late as they may: the main lane
 * has nothing else to do at the end while weight gradients run. */
static void list_bucket(rc_pass_build *b, int done, bool last)
{
    size_t param = rc_net_params_before(b->net, done), enough = b->backend->bucket_bytes;
    size_t params = rc_net_params_before(b->net, b->sent) - param;
    if (!last && (enough == 0 || params * b->backend->real_bytes < enough))
        return;
    for (int i = b->sent - 1; i >= done; i--) {
        if (b->net->layer[i].weights > 0 && rc_layer_bias_cancels(&b->net->layer[i]))
            rc_pass_emit(b, RC_OP_ZERO_BIAS, i);
    }
    b->sent = done;
    if (params == 0)
        return;
    rc_pass_step *step = rc_pass_emit(b, RC_OP_SUM_WORKERS, RC_NO_LAYER);
    step->param = param;
    step->params = params;
}

/* The same as list_fused_backward, with the weight gradients, for which dL/draw of every layer stays. */
static void list_fused_train_backward(rc_pass_build *b, int first, int last)
{
    const rc_layer *begin = &b->net->layer[first];
    rc_gradient_state *gradient = state(b, begin->in);
    list_bn_backward(b, last);
    list_bucket(b, last + 1, false);
    for (int i = first + 1; i <= last; i++) {
        if (b->net->layer[i].skip == begin->in)
            gradient->writers--;
    }
    rc_pass_step *step = rc_pass_emit(b, RC_OP_FUSED_TRAIN_BACK, last);
    step->first = first;
    for (int i = first; i <= last; i++) {
        rc_layer_buffers *buffers = &b->buffers[i];
        bool in_place = i == last && !b->net->layer[i].output;
        buffers->draw = in_place ? buffers->gradient : rc_plan_add(&b->plan, rc_pass_map_bytes(b, &b->net->layer[i]));
        use(b, buffers->draw);
        use(b, buffers->back_partial);
        use_tensor(b, i);
    }
    use(b, b->buffers[last].gradient);
    step->add_skip = begin->skip >= 0 && add_writer(b, begin->skip);
    step->target = begin->in;
    step->addend = gradient->written ? RC_NO_LAYER : gradient->addend;
    step->add = add_writer(b, begin->in) || step->addend >= 0;
    step->sums = gradient->summed = gradient->writers == 0 && b->buffers[begin->in].back_partial != RC_NO_BUFFER;
    use_tensor(b, begin->in);
    if (step->addend >= 0)
        use(b, b->buffers[step->addend].gradient);
    if (step->sums)
        use(b, b->buffers[begin->in].back_partial);
    rc_pass_emit(b, RC_OP_FUSED_WEIGHT, last)->first = first;
    for (int i = first; i <= last; i++)
        rc_pass_use_for_weight(b, i, b->steps - 1);
}

/* A maximum and the convolution before it, where the gradient ends. */
static void list_pooled_backward(rc_pass_build *b, int first, int last)
{
    list_bucket(b, last + 1, false);
    rc_pass_step *step = rc_pass_emit(b, RC_OP_FUSED_TRAIN_BACK, last);
    step->first = first;
    step->target = b->net->layer[first].in;
    use(b, b->buffers[last].gradient);
    use(b, b->buffers[last].taps);
    use(b, b->buffers[first].back_partial);
}

/* dL/draw takes the place of the gradient, unless somebody else needs that. */
static void list_finish(rc_pass_build *b, int index)
{
    const rc_layer *layer = &b->net->layer[index];
    rc_layer_buffers *buffers = &b->buffers[index];
    bool shared = layer->skip >= 0 && b->buffers[layer->skip].gradient == buffers->gradient;
    buffers->draw = buffers->gradient;
    if (shared || layer->output)
        buffers->draw = rc_plan_add(&b->plan, rc_pass_map_bytes(b, layer));
    if (!b->train) /* a backend may join it to the step before */
        use(b, buffers->draw);
    rc_pass_emit(b, RC_OP_FINISH, index);
    use_gradient(b, index, false);
    use(b, buffers->draw);
}

/* Can one step write the data gradients of a layer and of the one before it? */
static bool goes_with_before(rc_pass_build *b, int index)
{
    const rc_layer *layer = &b->net->layer[index];
    rc_backend *be = b->backend;
    if (index == 0 || be->takes_beside == NULL || layer->kind != RC_LAYER_CONV || layer[-1].kind != RC_LAYER_CONV ||
        layer->in != layer[-1].in || layer->in == layer[-1].skip)
        return false;
    rc_conv conv = rc_layer_conv(layer), beside = rc_layer_conv(layer - 1);
    return be->takes_beside(be, &conv, &beside, b->pass->settings.n);
}

/* The data gradient of a layer, and with it that of the layer after, if that has waited. */
static void list_data(rc_pass_build *b, int index, bool together)
{
    int in = b->net->layer[index].in, with = b->waiting;
    b->waiting = with == RC_NO_LAYER && goes_with_before(b, index) ? index : RC_NO_LAYER;
    if (b->waiting == index) {
        state(b, in)->writers--;
        return;
    }
    emit_writer(b, together ? RC_OP_WEIGHT_AND_DATA : RC_OP_DATA, index, in);
    b->pass->step[b->steps - 1].with = with;
    if (with != RC_NO_LAYER)
        use_gradient(b, with, b->buffers[with].draw != RC_NO_BUFFER);
}

/* The steps of one layer in backward. */
static void list_group(rc_pass_build *b, int index)
{
    const rc_layer *layer = &b->net->layer[index];
    if (layer->bn.on && b->train)
        list_bn_backward(b, index);
    if (b->train)
        list_bucket(b, index + 1, false);
    bool finished = finishes(b, index);
    if (finished) {
        list_skip(b, index, layer->skip); /* which takes the gradient as it is */
        list_finish(b, index);
    }
    bool weights = b->train && layer->weights > 0, data = state(b, layer->in)->needed;
    bool together = weights && data && !finished && layer->kind == RC_LAYER_CONV && b->backend->lanes <= 1 &&
                    rc_conv_both_of(b->backend) != NULL && b->backend->takes_beside == NULL;
    if (weights && !together) {
        rc_pass_emit(b, RC_OP_WEIGHT, index);
        rc_pass_use_for_weight(b, index, b->steps - 1);
    }
    if (!finished)
        list_skip(b, index, layer->skip);
    if (data) /* which uses all that the weights' gradient reads, where it is together with that */
        list_data(b, index, together);
}

void rc_pass_list_steps(rc_pass_build *b)
{
    rc_pass *pass = b->pass;
    for (int i = 0; i < b->net->layers; i++) {
        if (b->net->layer[i].bn.on && (!b->train || i < pass->settings.frozen))
            rc_pass_emit(b, RC_OP_BN_EVAL, i);
    }
    pass->prepare_end = b->steps;
    list_forward(b);
    pass->forward_end = b->steps;
    b->sent = b->net->layers;
    b->waiting = RC_NO_LAYER;
    if (!b->eval) {
        find_writers(b);
        /* A frozen normalisation needs no sums: again all at once. */
        for (int i = b->net->layers - 1; i >= 0 && !b->train; i--) {
            if (state(b, i)->needed && b->net->layer[i].bn.on)
                rc_pass_emit(b, RC_OP_BN_BACKWARD, i);
        }
        for (int i = b->net->layers - 1; i >= 0; i--) {
            int first = b->first_fused[i];
            if (first < i && !b->train) {
                list_fused_backward(b, first, i);
                i = first;
            } else if (first < i && is_maximum(b, i)) {
                list_pooled_backward(b, first, i);
                i = first;
            } else if (first < i && trains_back(b, first)) {
                list_fused_train_backward(b, first, i);
                i = first;
            } else if (state(b, i)->needed) {
                list_group(b, i);
            }
        }
    }
    if (b->train) {
        list_bucket(b, pass->settings.frozen, true);
        rc_pass_emit(b, RC_OP_WAIT_WORKERS, RC_NO_LAYER);
    }
    pass->backward_end = b->steps;
    if (b->train && b->backend->lanes > 1)
        rc_pass_keep_for_weights(b);
}
