/* Weights of nets and the growing head. */
#include "nn/model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/stop.h"

/* ---- models ----------------------------------------------------------------------------------------------------- */

rc_status rc_model_create(rc_model *model, const rc_net *net, rc_backend *backend)
{
    *model = (rc_model){.net = net, .backend = backend};
    rc_status status = backend->alloc(backend, net->params * backend->real_bytes, &model->param);
    if (status == RC_OK)
        status = backend->alloc(backend, net->running * backend->real_bytes, &model->running);
    if (status != RC_OK)
        rc_model_destroy(model);
    return status;
}

void rc_model_destroy(rc_model *model)
{
    if (model->param != NULL)
        model->backend->release(model->backend, model->param);
    if (model->running != NULL)
        model->backend->release(model->backend, model->running);
    *model = (rc_model){0};
}

void rc_model_copy(rc_model *to, const rc_model *from)
{
    rc_backend *be = to->backend;
    be->copy(be, to->param, from->param, to->net->params * be->real_bytes);
    be->copy(be, to->running, from->running, to->net->running * be->real_bytes);
}

/* ---- initial values --------------------------------------------------------------------------------------------- */

/* U(-bound, bound) from element `first` of the stream on. */
static void fill_uniform(rc_rng rng, uint64_t first, double bound, float *out, size_t count)
{
    rc_rng_fill_uniform(rng, first, out, count);
    for (size_t i = 0; i < count; i++)
        out[i] = (float)((2 * (double)out[i] - 1) * bound);
}

static void fill_normal(rc_rng rng, double deviation, float *out, size_t count)
{
    rc_rng_fill_normal(rng, 0, out, count);
    for (size_t i = 0; i < count; i++)
        out[i] = (float)((double)out[i] * deviation);
}

void rc_init_default(rc_rng rng, int fan_in, float *out, size_t count)
{
    fill_uniform(rng, 0, 1 / sqrt((double)fan_in), out, count);
}

static void write_constant(rc_model *model, void *base, size_t offset, float value, float *scratch, size_t count)
{
    if (offset == SIZE_MAX)
        return;
    for (size_t i = 0; i < count; i++)
        scratch[i] = value;
    model->backend->write_real(model->backend, rc_real_at(model->backend, base, offset), scratch, count);
}

/* Weights take the elements of the stream from 0 on, biases those that follow. PyTorch counts the inputs of one output
 * for fan_in; in a transposed convolution it takes the outputs for them. */
static void init_weights(rc_model *model, const rc_layer *layer, rc_rng rng, float *scratch)
{
    rc_backend *be = model->backend;
    bool depthwise = layer->kind == RC_LAYER_DEPTHWISE;
    double taps = rc_layer_convolves(layer) ? (double)layer->k * layer->k : 1;
    double inputs = taps * (depthwise ? 1 : layer->transposed ? layer->c_out : layer->c_in);
    double outputs = taps * (depthwise ? 1 : layer->transposed ? layer->c_in : layer->c_out);
    if (layer->init == RC_INIT_DEFAULT)
        fill_uniform(rng, 0, 1 / sqrt(inputs), scratch, layer->weights);
    else
        fill_normal(rng, sqrt(2 / (layer->init == RC_INIT_KAIMING_OUT ? outputs : inputs)), scratch, layer->weights);
    be->write_real(be, rc_real_at(be, model->param, layer->weight), scratch, layer->weights);
    if (layer->bias) {
        size_t count = rc_layer_biases(layer);
        fill_uniform(rng, layer->weights, 1 / sqrt(inputs), scratch, count);
        be->write_real(be, rc_real_at(be, model->param, layer->bias_at), scratch, count);
    }
}

rc_status rc_model_init(rc_model *model, rc_rng rng)
{
    const rc_net *net = model->net;
    size_t largest = 1;
    for (int i = 0; i < net->layers; i++) {
        size_t params = net->layer[i].params, channels = (size_t)net->layer[i].c_out;
        size_t larger = params > channels ? params : channels;
        largest = larger > largest ? larger : largest;
    }
    if (model->backend->sizing)
        return rc_backend_count_scratch(model->backend, largest * sizeof(float));
    float *scratch = rc_alloc_zeroed(NULL, largest, sizeof *scratch);
    if (scratch == NULL)
        return RC_OUT_OF_MEMORY;
    for (int i = 0; i < net->layers && !rc_stop_poll(); i++) {
        const rc_layer *layer = &net->layer[i];
        size_t channels = (size_t)layer->c_out;
        if (layer->weights > 0)
            init_weights(model, layer, (rc_rng){rng.seed, rng.stream + (uint64_t)i}, scratch);
        write_constant(model, model->param, layer->gamma, layer->bn.zero_gamma ? 0 : 1, scratch, channels);
        write_constant(model, model->param, layer->beta, 0, scratch, channels);
        write_constant(model, model->running, layer->running_mean, 0, scratch, channels);
        write_constant(model, model->running, layer->running_var, 1, scratch, channels);
    }
    rc_status status = model->backend->sync(model->backend);
    rc_free(NULL, scratch);
    return status == RC_OK && rc_stopped() ? rc_fail(RC_CANCELLED, "stopped while a net was made") : status;
}

/* ---- slices ----------------------------------------------------------------------------------------------------- */

static void shape_weight(const rc_layer *layer, rc_slice *slice)
{
    if (layer->kind == RC_LAYER_LINEAR) {
        slice->dims = 2;
        slice->shape[0] = (int)rc_layer_biases(layer);
        slice->shape[1] = layer->c_in;
        return;
    }
    slice->dims = 4;
    slice->shape[0] = layer->transposed ? layer->c_in : layer->c_out;
    slice->shape[1] = layer->kind == RC_LAYER_DEPTHWISE ? 1 : layer->transposed ? layer->c_out : layer->c_in;
    slice->shape[2] = slice->shape[3] = layer->k;
}

/* Slice number `which` (0 to 5) of a layer; false: the layer has no such slice. */
static bool layer_slice(const rc_layer *layer, int which, rc_slice *slice)
{
    static const char *const suffix[] = {"weight", "bias", "weight", "bias", "running_mean", "running_var"};
    const size_t offset[] = {layer->weight, layer->bias_at,      layer->gamma,
                             layer->beta,   layer->running_mean, layer->running_var};
    size_t biases = layer->bias ? rc_layer_biases(layer) : 0;
    if (offset[which] == SIZE_MAX)
        return false;
    *slice = (rc_slice){.running = which >= 4, .offset = offset[which], .dims = 1};
    snprintf(slice->name, sizeof slice->name, "%s.%s", which < 2 ? layer->name : layer->bn_name, suffix[which]);
    slice->count = which == 0 ? layer->weights : which == 1 ? biases : (size_t)layer->c_out;
    if (which == 0)
        shape_weight(layer, slice);
    else
        slice->shape[0] = (int)slice->count;
    return true;
}

bool rc_net_slice(const rc_net *net, int index, rc_slice *slice)
{
    for (int i = 0; i < net->layers; i++) {
        for (int which = 0; which < 6; which++) {
            if (layer_slice(&net->layer[i], which, slice) && index-- == 0)
                return true;
        }
    }
    return false;
}

/* ---- the head --------------------------------------------------------------------------------------------------- */

rc_status rc_head_create(rc_head *head, rc_backend *backend, int d, int capacity)
{
    *head = (rc_head){.backend = backend, .d = d, .capacity = capacity};
    if (d < 1 || capacity < 1 || (double)d * capacity > INT32_MAX)
        return rc_fail(RC_INVALID_ARGUMENT,
                       "head for %d features and %d classes, expected 1 or more each and at most "
                       "%d weights",
                       d, capacity, INT32_MAX);
    return backend->alloc(backend, (size_t)capacity * (size_t)d * backend->real_bytes, &head->weight);
}

void rc_head_destroy(rc_head *head)
{
    if (head->weight != NULL)
        head->backend->release(head->backend, head->weight);
    if (head->bias != NULL)
        head->backend->release(head->backend, head->bias);
    *head = (rc_head){0};
}

rc_status rc_head_add_bias(rc_head *head)
{
    rc_backend *be = head->backend;
    return head->bias == NULL ? be->alloc(be, (size_t)head->capacity * be->real_bytes, &head->bias) : RC_OK;
}

size_t rc_head_parameters(const rc_head *head)
{
    return (size_t)head->classes * ((size_t)head->d + (head->bias != NULL));
}

static size_t row_bytes(const rc_head *head)
{
    return (size_t)head->d * head->backend->real_bytes;
}

/* Makes room for `classes` rows, at least twice as many as there were. */
static rc_status make_room(rc_head *head, int classes)
{
    rc_backend *be = head->backend;
    if (classes <= head->capacity)
        return RC_OK;
    int capacity = head->capacity <= INT32_MAX / 2 && 2 * head->capacity > classes ? 2 * head->capacity : classes;
    if ((double)capacity * head->d > INT32_MAX)
        return rc_fail(RC_INVALID_ARGUMENT, "head for %d features and %d classes, expected at most %d weights", head->d,
                       capacity, INT32_MAX);
    void *weight = NULL, *bias = NULL;
    RC_TRY(be->alloc(be, (size_t)capacity * row_bytes(head), &weight));
    rc_status status = head->bias != NULL ? be->alloc(be, (size_t)capacity * be->real_bytes, &bias) : RC_OK;
    if (status == RC_OK) {
        be->copy(be, weight, head->weight, (size_t)head->classes * row_bytes(head));
        if (bias != NULL)
            be->copy(be, bias, head->bias, (size_t)head->classes * be->real_bytes);
        status = be->sync(be); /* before the old rows are released */
    }
    be->release(be, status == RC_OK ? head->weight : weight);
    be->release(be, status == RC_OK ? head->bias : bias);
    if (status == RC_OK) {
        head->weight = weight;
        head->bias = bias;
        head->capacity = capacity;
    }
    return status;
}

rc_status rc_head_init_rows(rc_backend *be, void *rows, size_t count, rc_rng rng)
{
    static const double deviation = 0.001;
    float *host = rc_alloc_zeroed(NULL, count, sizeof *host);
    if (host == NULL)
        return RC_OUT_OF_MEMORY;
    fill_normal(rng, deviation, host, count);
    be->write_real(be, rows, host, count);
    rc_status status = be->sync(be);
    rc_free(NULL, host);
    return status;
}

rc_status rc_head_grow(rc_head *head, int classes, rc_rng rng)
{
    rc_backend *be = head->backend;
    if (classes < 1 || classes > INT32_MAX - head->classes)
        return rc_fail(RC_INVALID_ARGUMENT, "a task brings %d classes to a head of %d, expected 1 or more", classes,
                       head->classes);
    if (head->tasks == RC_MAX_TASKS)
        return rc_fail(RC_INVALID_ARGUMENT, "a head has at most %d tasks", RC_MAX_TASKS);
    RC_TRY(make_room(head, head->classes + classes));
    RC_TRY(rc_head_init_rows(be, (char *)head->weight + (size_t)head->classes * row_bytes(head),
                             (size_t)classes * (size_t)head->d, rng));
    head->classes += classes;
    head->task_end[head->tasks++] = head->classes;
    return RC_OK;
}

rc_status rc_head_copy(rc_head *to, const rc_head *from)
{
    rc_backend *be = to->backend;
    if (to->d != from->d)
        return rc_fail(RC_INVALID_ARGUMENT, "head of %d features copied into one of %d", from->d, to->d);
    RC_TRY(make_room(to, from->classes));
    if (from->bias != NULL) {
        RC_TRY(rc_head_add_bias(to));
        be->zero(be, to->bias, (size_t)to->capacity * be->real_bytes);
        be->copy(be, to->bias, from->bias, (size_t)from->classes * be->real_bytes);
    } else if (to->bias != NULL) {
        be->release(be, to->bias);
        to->bias = NULL;
    }
    be->zero(be, to->weight, (size_t)to->capacity * row_bytes(to));
    be->copy(be, to->weight, from->weight, (size_t)from->classes * row_bytes(from));
    to->classes = from->classes;
    to->tasks = from->tasks;
    memcpy(to->task_end, from->task_end, sizeof to->task_end);
    return RC_OK;
}
