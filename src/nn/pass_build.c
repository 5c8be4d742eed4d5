/* Builds a pass: checks the settings, sizes every buffer, has the steps listed (pass_list.c), places the buffers in one
 * block and points the tensors into it. */
#include <limits.h>
#include <string.h>

#include "base/memory.h"
#include "nn/pass_build.h"

enum { KEPT_PART = 2 /* of raw results: what values may take that are kept to be read twice */ };

/* ---- settings --------------------------------------------------------------------------------------------------- */

static rc_status check_groups(const rc_net *net, int n, int groups, const int *group_end)
{
    for (int g = 0; g < groups; g++) {
        int begin = g > 0 ? group_end[g - 1] : 0;
        if (group_end[g] <= begin || group_end[g] > n || (g == groups - 1 && group_end[g] != n))
            return rc_fail(RC_INVALID_ARGUMENT,
                           "pass over net '%s': group %d ends at image %d, expected more than %d "
                           "and, for the last group, the batch size %d",
                           net->name, g, group_end[g], begin, n);
    }
    return RC_OK;
}

/* The variance of one value is 0, and its unbiased estimate does not exist. */
static rc_status check_variances(const rc_net *net, int frozen, int groups, const int *group_end)
{
    for (int g = 0; g < groups; g++) {
        int images = group_end[g] - (g > 0 ? group_end[g - 1] : 0);
        for (int i = frozen; i < net->layers; i++) {
            const rc_layer *layer = &net->layer[i];
            if (layer->bn.on && images == 1 && layer->h * layer->w == 1)
                return rc_fail(RC_INVALID_ARGUMENT,
                               "pass over net '%s': layer %d '%s' has one value per channel in "
                               "group %d, batch normalisation in training needs two or more",
                               net->name, i, layer->name, g);
        }
    }
    return RC_OK;
}

static rc_status check_sizes(const rc_backend *backend, const rc_net *net, int n)
{
    for (int i = RC_NET_INPUT; i < net->layers; i++) {
        const rc_layer *layer = i < 0 ? NULL : &net->layer[i];
        double count = (double)n * (layer ? (double)layer->h * layer->w * rc_padded(backend, layer->c_out)
                                          : (double)net->h * net->w * rc_padded(backend, net->c));
        if (count > INT32_MAX)
            return rc_fail(RC_INVALID_ARGUMENT,
                           "pass over net '%s': %s has %.0f elements for a batch of %d, at most "
                           "%d are possible",
                           net->name, layer ? layer->name : "the input", count, n, INT32_MAX);
    }
    return RC_OK;
}

static rc_status check_settings(rc_backend *backend, const rc_net *net, rc_pass_settings *settings)
{
    if (net->layers < 1)
        return rc_fail(RC_INVALID_ARGUMENT, "pass over net '%s', which has no layers", net->name);
    if ((unsigned)settings->mode > RC_PASS_EVAL)
        return rc_fail(RC_INVALID_ARGUMENT, "pass over net '%s': mode is %d, expected 0 to %d", net->name,
                       (int)settings->mode, RC_PASS_EVAL);
    if (settings->n < 1)
        return rc_fail(RC_INVALID_ARGUMENT, "pass over net '%s': batch size is %d, expected 1 or more", net->name,
                       settings->n);
    int most = settings->mode == RC_PASS_TRAIN ? RC_MAX_GROUPS : 1;
    if (settings->groups < 0 || settings->groups > most)
        return rc_fail(RC_INVALID_ARGUMENT, "pass over net '%s': groups is %d, expected 0 to %d in this mode",
                       net->name, settings->groups, most);
    if (settings->running_updates < 0)
        return rc_fail(RC_INVALID_ARGUMENT, "pass over net '%s': running_updates is %d, expected 0 or more", net->name,
                       settings->running_updates);
    most = settings->mode == RC_PASS_TRAIN && !settings->input_gradient ? net->layers - 1 : 0;
    if (settings->frozen < 0 || settings->frozen > most)
        return rc_fail(RC_INVALID_ARGUMENT, "pass over net '%s': %d layers are frozen, expected 0 to %d in this mode",
                       net->name, settings->frozen, most);
    if (settings->groups == 0) {
        settings->groups = 1;
        settings->group_end[0] = settings->n;
    }
    RC_TRY(check_groups(net, settings->n, settings->groups, settings->group_end));
    if (settings->mode == RC_PASS_TRAIN)
        RC_TRY(check_variances(net, settings->frozen, settings->groups, settings->group_end));
    return check_sizes(backend, net, settings->n);
}

static void set_tensor_batch(rc_tensor *tensor, int n, int groups, const int *group_end)
{
    tensor->n = n;
    tensor->groups = groups;
    memcpy(tensor->group_end, group_end, (size_t)groups * sizeof *group_end);
}

rc_status rc_pass_set_batch(rc_pass *pass, int n, const int *group_end)
{
    const int one_group[1] = {n};
    const rc_net *net = pass->net;
    int groups = pass->settings.groups;
    if (n < 1 || n > pass->settings.n)
        return rc_fail(RC_INVALID_ARGUMENT, "pass over net '%s': batch size is %d, expected 1 to %d", net->name, n,
                       pass->settings.n);
    if (group_end == NULL && groups > 1)
        return rc_fail(RC_INVALID_ARGUMENT, "pass over net '%s' has %d groups, expected where they end", net->name,
                       groups);
    if (group_end == NULL)
        group_end = one_group;
    RC_TRY(check_groups(net, n, groups, group_end));
    if (pass->settings.mode == RC_PASS_TRAIN)
        RC_TRY(check_variances(net, pass->settings.frozen, groups, group_end));
    for (int i = 0; i < net->layers; i++) {
        set_tensor_batch(&pass->layer[i].y, n, groups, group_end);
        set_tensor_batch(&pass->layer[i].finished, n, groups, group_end);
        set_tensor_batch(&pass->layer[i].kept, n, groups, group_end);
    }
    return RC_OK;
}

/* ---- buffers ---------------------------------------------------------------------------------------------------- */

size_t rc_pass_map_bytes(const rc_pass_build *b, const rc_layer *layer)
{
    return rc_act_count(b->backend, b->pass->settings.n, layer->h, layer->w, layer->c_out) * b->backend->act_bytes;
}

/* Vectors (groups, cp) real; each begins on a boundary of its own. */
static size_t vector_bytes(const rc_pass_build *b, const rc_layer *layer)
{
    size_t bytes = (size_t)b->pass->settings.groups * (size_t)rc_padded(b->backend, layer->c_out) *
                   b->backend->real_bytes;
    return (bytes + RC_ALIGNMENT - 1) / RC_ALIGNMENT * RC_ALIGNMENT;
}

static int add_kept(rc_pass_build *b, size_t bytes)
{
    int buffer = rc_plan_add(&b->plan, bytes);
    rc_plan_keep(&b->plan, buffer);
    return buffer;
}

/* Is the value of a layer, which nobody else needs, read from a map forward and for a weight gradient? */
static bool is_made_twice(const rc_pass_build *b, int index)
{
    const rc_layer *layer = &b->net->layer[index];
    bool twice = false;
    if (!b->train || !b->backend->reads_finished_value || !rc_layer_pending(layer) || layer->keep_value ||
        layer->output)
        return false;
    for (int i = b->pass->settings.frozen; i < b->net->layers && !twice; i++) {
        const rc_layer *reader = &b->net->layer[i];
        if (reader->in == index && reader->kind == RC_LAYER_CONV) {
            const rc_conv conv = rc_layer_conv(reader);
            twice = b->backend->reads_finished_value(b->backend, &conv, b->pass->settings.n);
        }
    }
    return twice;
}

/* Values that would be made twice are kept as far as there is room: small ones first, so that the fewest are left out,
 * and of equals the later one, which lives for a shorter time. */
static void keep_values(rc_pass_build *b)
{
    bool waits[RC_MAX_LAYERS];
    size_t room = 0;
    int next;
    for (int i = 0; i < b->net->layers; i++) {
        waits[i] = is_made_twice(b, i);
        room += b->buffers[i].raw != RC_NO_BUFFER ? rc_pass_map_bytes(b, &b->net->layer[i]) / KEPT_PART : 0;
    }
    do {
        size_t bytes = room + 1;
        next = RC_NO_LAYER;
        for (int i = b->net->layers - 1; i >= 0; i--) {
            if (waits[i] && rc_pass_map_bytes(b, &b->net->layer[i]) < bytes) {
                bytes = rc_pass_map_bytes(b, &b->net->layer[i]);
                next = i;
            }
        }
        if (next != RC_NO_LAYER) {
            b->buffers[next].kept = rc_plan_add(&b->plan, bytes);
            room -= bytes;
            waits[next] = false;
        }
    } while (next != RC_NO_LAYER);
}

static void add_layer_buffers(rc_pass_build *b, int index)
{
    const rc_layer *layer = &b->net->layer[index];
    rc_layer_buffers *to = &b->buffers[index];
    int n = b->pass->settings.n;
    memset(to, RC_NO_BUFFER, sizeof *to);
    if (layer->kind == RC_LAYER_AVERAGE_POOL) {
        size_t bytes = (size_t)n * (size_t)layer->c_out * b->backend->real_bytes;
        to->features = add_kept(b, bytes);
        to->dfeatures = b->eval ? RC_NO_BUFFER : add_kept(b, bytes);
        return;
    }
    to->raw = rc_plan_add(&b->plan, rc_pass_map_bytes(b, layer));
    if (!b->eval && rc_layer_pending(layer) && (layer->keep_value || layer->output))
        to->value = rc_plan_add(&b->plan, rc_pass_map_bytes(b, layer));
    if (!b->eval && layer->output)
        to->gradient = add_kept(b, rc_pass_map_bytes(b, layer));
    if (!b->eval && layer->kind == RC_LAYER_MAX_POOL && b->backend->keeps_taps)
        to->taps = rc_plan_add(&b->plan, (rc_act_count(b->backend, n, layer->h, layer->w, layer->c_out) + 1) / 2);
    if (!layer->bn.on)
        return;
    to->normalisation = add_kept(b, 4 * vector_bytes(b, layer));
    if (b->eval || index < b->pass->settings.frozen)
        return;
    size_t partial = b->backend->partial_bytes(b->backend, n, layer->h, layer->w, layer->c_out);
    to->partial = rc_plan_add(&b->plan, partial);
    to->coefficients = add_kept(b, 3 * vector_bytes(b, layer));
    if (b->train)
        to->back_partial = rc_plan_add(&b->plan, partial);
    else
        to->statistics = add_kept(b, 4 * vector_bytes(b, layer));
}

/* ---- addresses -------------------------------------------------------------------------------------------------- */

static void *address(const rc_pass_build *b, int buffer)
{
    if (buffer == RC_NO_BUFFER)
        return NULL;
    size_t offset = b->plan.buffer[buffer].offset, kept = b->plan.kept_bytes;
    return offset < kept ? (char *)b->pass->block + offset : (char *)b->pass->passing + (offset - kept);
}

/* Vector number `index` of a buffer of vectors. */
static void *vector(const rc_pass_build *b, const rc_layer *layer, int buffer, int index)
{
    char *base = address(b, buffer);
    return base == NULL ? NULL : base + (size_t)index * vector_bytes(b, layer);
}

static rc_tensor plain_tensor(const rc_pass_build *b, const rc_layer *layer, void *raw)
{
    const rc_pass_settings *settings = &b->pass->settings;
    rc_tensor tensor = {.h = layer->h, .w = layer->w, .c = layer->c_out, .raw = raw, .act = RC_ACT_NONE};
    set_tensor_batch(&tensor, settings->n, settings->groups, settings->group_end);
    return tensor;
}

static void point_normalisation(const rc_pass_build *b, int index, int *stats)
{
    const rc_layer *layer = &b->net->layer[index];
    const rc_layer_buffers *buffers = &b->buffers[index];
    rc_pass_layer *to = &b->pass->layer[index];
    if (!layer->bn.on)
        return;
    to->y.scale = to->scale = vector(b, layer, buffers->normalisation, 0);
    to->y.shift = to->shift = vector(b, layer, buffers->normalisation, 1);
    to->y.mean = to->mean = vector(b, layer, buffers->normalisation, 2);
    to->y.istd = to->istd = vector(b, layer, buffers->normalisation, 3);
    to->dy.a = to->a = vector(b, layer, buffers->coefficients, 0);
    to->dy.b = to->b = vector(b, layer, buffers->coefficients, 1);
    to->dy.c = to->c = vector(b, layer, buffers->coefficients, 2);
    to->partial = address(b, buffers->partial);
    to->back_partial = address(b, buffers->back_partial);
    if (buffers->statistics != RC_NO_BUFFER) {
        to->batch_mean = vector(b, layer, buffers->statistics, 0);
        to->batch_var = vector(b, layer, buffers->statistics, 1);
        to->stat = &b->pass->stat[(*stats)++];
        *to->stat = (rc_bn_stat){.c = layer->c_out,
                                 .mean = to->batch_mean,
                                 .var = to->batch_var,
                                 .dmean = vector(b, layer, buffers->statistics, 2),
                                 .dvar = vector(b, layer, buffers->statistics, 3)};
    }
}

/* Moving r by m towards s k times is moving it once by 1 - (1 - m)^k. */
static float repeated_momentum(float momentum, int times)
{
    double rest = 1;
    for (int i = 0; i < times; i++)
        rest *= 1 - (double)momentum;
    return times == 1 ? momentum : (float)(1 - rest);
}

static void point_layer(const rc_pass_build *b, int index, int *stats)
{
    const rc_layer *layer = &b->net->layer[index];
    const rc_layer_buffers *buffers = &b->buffers[index];
    rc_pass_layer *to = &b->pass->layer[index];
    int updates = b->pass->settings.running_updates;
    to->y = plain_tensor(b, layer, address(b, buffers->raw));
    to->y.act = layer->act;
    to->y.value = address(b, buffers->value);
    to->y.taps = address(b, buffers->taps);
    to->finished = plain_tensor(b, layer, to->y.value ? to->y.value : to->y.raw);
    to->dy.y = &to->y;
    to->dy.g = address(b, buffers->gradient);
    if (buffers->draw != RC_NO_BUFFER)
        to->draw = (rc_grad){.y = &to->finished, .g = address(b, buffers->draw)};
    to->features = address(b, buffers->features);
    to->dfeatures = address(b, buffers->dfeatures);
    to->bn = (rc_bn){.eps = layer->bn.eps, .momentum = repeated_momentum(layer->bn.momentum, updates ? updates : 1)};
    point_normalisation(b, index, stats);
    if (layer->skip >= 0) {
        const rc_layer *from = &b->net->layer[layer->skip];
        to->y.skip = (rc_skip){.value = b->pass->layer[layer->skip].finished.raw,
                               .h = from->h,
                               .w = from->w,
                               .c = from->c_out,
                               .stride = layer->skip_stride,
                               .channel_offset = layer->skip_offset};
    }
    to->kept = to->y;
    to->kept.value = address(b, buffers->kept);
}

/* ---- creation --------------------------------------------------------------------------------------------------- */

static rc_status reserve(rc_pass *pass)
{
    rc_backend *backend = pass->backend;
    for (int i = 0; i < pass->net->layers; i++) {
        const rc_layer *layer = &pass->net->layer[i];
        rc_pass_layer *to = &pass->layer[i];
        if (layer->kind == RC_LAYER_CONV) {
            to->conv = rc_layer_conv(layer);
            RC_TRY(backend->reserve_conv(backend, &to->conv, pass->settings.n));
        } else if (layer->kind == RC_LAYER_DEPTHWISE) {
            to->conv = rc_layer_conv(layer);
            RC_TRY(backend->reserve_depthwise(backend, &to->conv, pass->settings.n));
        } else if (layer->kind == RC_LAYER_LINEAR) {
            to->linear = rc_layer_linear(layer);
            RC_TRY(backend->reserve_linear(backend, &to->linear, pass->settings.n));
        }
    }
    return RC_OK;
}

static bool borrows(const rc_pass_build *b, size_t bytes)
{
    const rc_pass *lender = b->pass->settings.lender;
    size_t largest = 0;
    for (int i = 0; i < b->net->layers; i++) {
        size_t map = rc_pass_map_bytes(b, &b->net->layer[i]);
        largest = map > largest ? map : largest;
    }
    return b->eval && lender != NULL && bytes <= lender->passing_bytes && largest > b->backend->busy_bytes;
}

static rc_status take_memory(rc_pass_build *b)
{
    rc_pass *pass = b->pass;
    size_t kept = b->plan.kept_bytes, passing = b->plan.bytes - kept;
    bool borrowed = borrows(b, passing);
    pass->bytes = borrowed ? kept : b->plan.bytes;
    pass->passing_bytes = borrowed ? 0 : passing;
    RC_TRY(b->backend->alloc(b->backend, pass->bytes, &pass->block));
    pass->passing = borrowed ? pass->settings.lender->passing : (char *)pass->block + kept;
    return RC_OK;
}

static rc_status build(rc_pass_build *b, rc_pass_step *copy)
{
    rc_pass *pass = b->pass;
    int stats = 0;
    for (int i = 0; i < b->net->layers; i++)
        add_layer_buffers(b, i);
    keep_values(b);
    void *input_gradient = pass->settings.input_gradient_to;
    size_t pixels = rc_act_count(b->backend, pass->settings.n, b->net->h, b->net->w, b->net->c);
    b->input_gradient = RC_NO_BUFFER;
    if (pass->settings.input_gradient)
        b->input_gradient = add_kept(b, input_gradient != NULL ? 0 : pixels * b->backend->act_bytes);
    rc_pass_list_steps(b);
    RC_TRY(rc_plan_place(&b->plan));
    rc_pass_list_lanes(b, copy);
    RC_TRY(take_memory(b));
    for (int i = 0; i < b->net->layers; i++)
        point_layer(b, i, &stats);
    pass->input_gradient = input_gradient != NULL ? input_gradient : address(b, b->input_gradient);
    return reserve(pass);
}

/* Everything on the host: the pass itself, and what only building needs. */
static rc_status allocate(rc_pass_build *b, rc_pass_step **copy)
{
    size_t layers = (size_t)b->net->layers;
    rc_pass *pass = b->pass;
    int buffers = RC_BUFFERS_PER_LAYER * (int)layers + 1;
    pass->layer = rc_alloc_zeroed(NULL, layers, sizeof *pass->layer);
    pass->stat = rc_alloc_zeroed(NULL, (size_t)b->net->bn_layers + 1, sizeof *pass->stat);
    pass->step = rc_alloc_zeroed(NULL, RC_STEPS_PER_LAYER * layers, sizeof *pass->step);
    b->buffers = rc_alloc_zeroed(NULL, layers, sizeof *b->buffers);
    b->plan.buffer = rc_alloc_zeroed(NULL, (size_t)buffers, sizeof *b->plan.buffer);
    b->plan.order = rc_alloc_zeroed(NULL, (size_t)buffers, sizeof *b->plan.order);
    *copy = rc_alloc_zeroed(NULL, RC_STEPS_PER_LAYER * layers, sizeof **copy);
    bool all = pass->layer && pass->stat && pass->step && b->buffers && b->plan.buffer && b->plan.order && *copy;
    return all ? RC_OK : RC_OUT_OF_MEMORY;
}

rc_status rc_pass_create(rc_backend *backend, const rc_net *net, const rc_pass_settings *settings, rc_pass **pass)
{
    *pass = NULL;
    rc_pass_settings checked = *settings;
    RC_TRY(check_settings(backend, net, &checked));
    if (checked.mode != RC_PASS_TRAIN)
        checked.input_gradient = checked.mode == RC_PASS_FROZEN;
    rc_pass *made = rc_alloc_zeroed(NULL, 1, sizeof *made);
    rc_pass_build *b = rc_alloc_zeroed(NULL, 1, sizeof *b);
    rc_pass_step *copy = NULL;
    rc_status status = RC_OUT_OF_MEMORY;
    if (made != NULL && b != NULL) {
        *made = (rc_pass){.backend = backend, .net = net, .settings = checked};
        b->pass = made;
        b->backend = backend;
        b->net = net;
        b->train = checked.mode == RC_PASS_TRAIN;
        b->eval = checked.mode == RC_PASS_EVAL;
        status = allocate(b, &copy);
        if (status == RC_OK)
            status = build(b, copy);
        rc_free(NULL, b->buffers);
        rc_free(NULL, b->plan.buffer);
        rc_free(NULL, b->plan.order);
    }
    rc_free(NULL, copy);
    rc_free(NULL, b);
    if (status == RC_OK)
        *pass = made;
    else
        rc_pass_destroy(made);
    return status;
}

void rc_pass_destroy(rc_pass *pass)
{
    if (pass == NULL)
        return;
    if (pass->block != NULL)
        pass->backend->release(pass->backend, pass->block);
    rc_free(NULL, pass->layer);
    rc_free(NULL, pass->stat);
    rc_free(NULL, pass->step);
    rc_free(NULL, pass);
}
