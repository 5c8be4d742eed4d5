/* Runs a pass: walks its lists of steps and calls the backend. */
#include "nn/pass.h"

#include <string.h>

#include "backend/conv_both.h"
#include "nn/pass_steps.h"

/* ---- addresses -------------------------------------------------------------------------------------------------- */

static void *real_at(const rc_pass *pass, const void *base, size_t offset)
{
    return base == NULL || offset == SIZE_MAX ? NULL : rc_real_at(pass->backend, base, offset);
}

/* The tensor that readers of a layer read. */
static rc_tensor *source(rc_pass *pass, int index)
{
    if (index == RC_NET_INPUT)
        return pass->input;
    rc_pass_layer *layer = &pass->layer[index];
    return pass->settings.mode == RC_PASS_EVAL ? &layer->finished : layer->kept.value ? &layer->kept : &layer->y;
}

/* The same in backward, where nothing is filled any more. */
static const rc_tensor *read_source(rc_pass *pass, int index)
{
    bool kept = index != RC_NET_INPUT && pass->layer[index].kept.stored;
    return index == RC_NET_INPUT ? pass->input : kept ? &pass->layer[index].kept : &pass->layer[index].y;
}

/* ---- one step --------------------------------------------------------------------------------------------------- */

static rc_bn_forward normalisation_of(rc_pass *pass, const rc_model *model, int index)
{
    const rc_layer *layer = &pass->net->layer[index];
    rc_pass_layer *at = &pass->layer[index];
    return (rc_bn_forward){.partial = at->partial,
                           .center = real_at(pass, model->running, layer->running_mean),
                           .gamma = real_at(pass, model->param, layer->gamma),
                           .beta = real_at(pass, model->param, layer->beta),
                           .running_mean = real_at(pass, model->running, layer->running_mean),
                           .running_var = real_at(pass, model->running, layer->running_var),
                           .scale = at->scale,
                           .shift = at->shift,
                           .mean = at->mean,
                           .istd = at->istd};
}

/* The same for statistics of the batch. */
static rc_bn_forward training_of(rc_pass *pass, const rc_model *model, int index)
{
    rc_bn_forward f = normalisation_of(pass, model, index);
    if (!pass->settings.update_running)
        f.running_mean = f.running_var = NULL;
    return f;
}

static void run_bn_eval(rc_pass *pass, const rc_model *model, int index)
{
    rc_pass_layer *at = &pass->layer[index];
    rc_backend *be = pass->backend;
    const rc_bn_forward f = normalisation_of(pass, model, index);
    be->bn_eval(be, &at->bn, &at->y, &f);
}

static void run_forward(rc_pass *pass, const rc_model *model, int index)
{
    const rc_layer *layer = &pass->net->layer[index];
    rc_pass_layer *at = &pass->layer[index];
    rc_backend *be = pass->backend;
    rc_tensor *x = source(pass, layer->in);
    const void *weight = real_at(pass, model->param, layer->weight);
    const void *bias = real_at(pass, model->param, layer->bias_at);
    bool eval = pass->settings.mode == RC_PASS_EVAL;
    const rc_epilogue epilogue = {.partial = at->partial,
                                  .apply = eval && rc_layer_pending(layer),
                                  .center = real_at(pass, model->running, layer->running_mean)};
    const rc_pool2d pool = rc_layer_pool(layer);
    switch (layer->kind) {
    case RC_LAYER_CONV: be->conv_forward(be, &at->conv, x, weight, bias, &at->y, &epilogue); break;
    case RC_LAYER_DEPTHWISE: be->depthwise_forward(be, &at->conv, x, weight, bias, &at->y, &epilogue); break;
    case RC_LAYER_LINEAR: be->linear_forward(be, &at->linear, x, weight, bias, &at->y, &epilogue); break;
    case RC_LAYER_BN: be->copy_forward(be, x, &at->y, &epilogue); break;
    case RC_LAYER_MAX_POOL: be->max_pool_forward(be, &pool, x, &at->y); break;
    case RC_LAYER_AVERAGE_POOL: be->average_pool_forward(be, x, at->features); break;
    }
    x->stored = x->stored || x->value != NULL;
}

static void run_fused(rc_pass *pass, const rc_model *model, int first, int last)
{
    rc_backend *be = pass->backend;
    rc_tensor *x = source(pass, pass->net->layer[first].in);
    rc_fused layers[RC_MAX_FUSED];
    for (int i = first; i <= last; i++) {
        const rc_layer *layer = &pass->net->layer[i];
        rc_pass_layer *at = &pass->layer[i];
        layers[i - first] = (rc_fused){.conv = &at->conv,
                                       .weight = real_at(pass, model->param, layer->weight),
                                       .y = &at->y,
                                       .epilogue = {.partial = at->partial,
                                                    .apply = pass->settings.mode == RC_PASS_EVAL,
                                                    .center = real_at(pass, model->running, layer->running_mean)},
                                       .pool = rc_layer_pool(layer)};
    }
    be->fused_forward(be, x, layers, last - first + 1);
    x->stored = x->stored || x->value != NULL;
}

static void run_fused_train(rc_pass *pass, const rc_model *model, int first, int last)
{
    rc_backend *be = pass->backend;
    rc_tensor *x = source(pass, pass->net->layer[first].in);
    rc_fused_train layers[RC_MAX_FUSED];
    for (int i = first; i <= last; i++) {
        rc_pass_layer *at = &pass->layer[i];
        const void *weight = real_at(pass, model->param, pass->net->layer[i].weight);
        const rc_pool2d pool = rc_layer_pool(&pass->net->layer[i]);
        layers[i - first] = (rc_fused_train){.layer = {.conv = &at->conv, .weight = weight, .y = &at->y, .pool = pool},
                                             .bn = &at->bn,
                                             .norm = training_of(pass, model, i)};
    }
    be->fused_train(be, x, layers, last - first + 1);
    x->stored = x->stored || x->value != NULL;
}

static void run_bn_forward(rc_pass *pass, const rc_model *model, rc_pass_op op, int index)
{
    rc_pass_layer *at = &pass->layer[index];
    rc_backend *be = pass->backend;
    if (op == RC_OP_BN_STATISTICS) {
        const rc_bn_forward f = normalisation_of(pass, model, index);
        be->bn_statistics(be, &at->y, f.partial, f.center, at->batch_mean, at->batch_var);
        at->stat->running_mean = f.running_mean;
        at->stat->running_var = f.running_var;
        return;
    }
    const rc_bn_forward f = training_of(pass, model, index);
    be->bn_train(be, &at->bn, &at->y, &f);
}

static rc_bn_backward backward_of(rc_pass *pass, void *gradient, int index)
{
    const rc_layer *layer = &pass->net->layer[index];
    const rc_pass_layer *at = &pass->layer[index];
    const rc_bn_stat *stat = at->stat;
    return (rc_bn_backward){.partial = at->back_partial,
                            .dmean = stat ? stat->dmean : NULL,
                            .dvar = stat ? stat->dvar : NULL,
                            .batch_mean = at->batch_mean,
                            .dgamma = real_at(pass, gradient, layer->gamma),
                            .dbeta = real_at(pass, gradient, layer->beta),
                            .a = at->a,
                            .b = at->b,
                            .c = at->c};
}

static void run_bn_backward(rc_pass *pass, void *gradient, int index)
{
    rc_backend *be = pass->backend;
    const rc_bn_backward back = backward_of(pass, gradient, index);
    be->bn_backward(be, &pass->layer[index].y, pass->settings.mode == RC_PASS_TRAIN, &back);
}

/* dL/draw of a layer, for what reads no more than that. */
static const rc_grad *draw_of(const rc_pass_layer *at)
{
    return at->draw.g != NULL ? &at->draw : &at->dy;
}

static void run_finish(rc_pass *pass, int index)
{
    const rc_pass_layer *at = &pass->layer[index];
    const rc_back_epilogue overwrite = {.x = &at->finished};
    pass->backend->copy_backward(pass->backend, &at->dy, at->draw.g, &overwrite);
}

static void *bias_gradient(rc_pass *pass, void *gradient, const rc_layer *layer)
{
    return rc_layer_bias_cancels(layer) ? NULL : real_at(pass, gradient, layer->bias_at);
}

static void run_weight(rc_pass *pass, void *gradient, int index)
{
    const rc_layer *layer = &pass->net->layer[index];
    rc_pass_layer *at = &pass->layer[index];
    rc_backend *be = pass->backend;
    const rc_tensor *x = read_source(pass, layer->in);
    const rc_grad *dy = draw_of(at);
    void *dweight = real_at(pass, gradient, layer->weight);
    void *dbias = bias_gradient(pass, gradient, layer);
    if (layer->kind == RC_LAYER_CONV)
        be->conv_backward_weight(be, &at->conv, x, dy, dweight, dbias);
    else if (layer->kind == RC_LAYER_DEPTHWISE)
        be->depthwise_backward_weight(be, &at->conv, x, dy, dweight, dbias);
    else
        be->linear_backward_weight(be, &at->linear, x, dy, dweight, dbias);
}

static void run_zero_bias(rc_pass *pass, void *gradient, int index)
{
    const rc_layer *layer = &pass->net->layer[index];
    pass->backend->zero(pass->backend, real_at(pass, gradient, layer->bias_at),
                        rc_layer_biases(layer) * pass->backend->real_bytes);
}

/* Memory for the gradient of a layer's value. */
static void *gradient_of(rc_pass *pass, int index)
{
    return index != RC_NET_INPUT ? pass->layer[index].dy.g : pass->input_gradient;
}

/* How a step writes the gradient of its target. */
static rc_back_epilogue epilogue_of(rc_pass *pass, const rc_pass_step *step)
{
    return (rc_back_epilogue){.x = step->target != RC_NET_INPUT ? &pass->layer[step->target].y : pass->input,
                              .add = step->add,
                              .addend = step->addend >= 0 ? pass->layer[step->addend].dy.g : NULL,
                              .partial = step->sums ? pass->layer[step->target].back_partial : NULL};
}

static const void *weight_of(const rc_pass *pass, const rc_model *model, int index)
{
    return real_at(pass, model->param, pass->net->layer[index].weight);
}

/* SKIP and DATA. */
static void run_writer(rc_pass *pass, const rc_model *model, const rc_pass_step *step)
{
    const rc_layer *layer = &pass->net->layer[step->layer];
    rc_pass_layer *at = &pass->layer[step->layer];
    rc_backend *be = pass->backend;
    void *dx = gradient_of(pass, step->target);
    rc_back_epilogue epilogue = epilogue_of(pass, step);
    const void *weight = weight_of(pass, model, step->layer);
    const rc_pool2d pool = rc_layer_pool(layer);
    if (step->op == RC_OP_SKIP) {
        be->skip_backward(be, &at->dy, dx, &epilogue);
        return;
    }
    if (step->with >= 0) {
        const rc_pass_layer *with = &pass->layer[step->with];
        const rc_fused_back beside = {&at->conv, weight, draw_of(at)};
        epilogue.beside = &beside;
        be->conv_backward_data(be, &with->conv, draw_of(with), weight_of(pass, model, step->with), dx, &epilogue);
        return;
    }
    switch (layer->kind) {
    case RC_LAYER_CONV: be->conv_backward_data(be, &at->conv, draw_of(at), weight, dx, &epilogue); break;
    case RC_LAYER_DEPTHWISE: be->depthwise_backward_data(be, &at->conv, &at->dy, weight, dx, &epilogue); break;
    case RC_LAYER_LINEAR: be->linear_backward_data(be, &at->linear, &at->dy, weight, dx, &epilogue); break;
    case RC_LAYER_BN: be->copy_backward(be, &at->dy, dx, &epilogue); break;
    case RC_LAYER_MAX_POOL: be->max_pool_backward(be, &pool, epilogue.x, &at->dy, dx, &epilogue); break;
    case RC_LAYER_AVERAGE_POOL: be->average_pool_backward(be, at->dfeatures, dx, &epilogue); break;
    }
}

static void run_weight_and_data(rc_pass *pass, const rc_model *model, void *gradient, const rc_pass_step *step)
{
    const rc_layer *layer = &pass->net->layer[step->layer];
    rc_pass_layer *at = &pass->layer[step->layer];
    rc_conv_both *both = rc_conv_both_of(pass->backend);
    const rc_back_epilogue epilogue = epilogue_of(pass, step);
    if (!both) { /* an entry was replaced after the pass had been made */
        run_weight(pass, gradient, step->layer);
        run_writer(pass, model, step);
        return;
    }
    both(pass->backend, &at->conv, read_source(pass, layer->in), &at->dy, real_at(pass, model->param, layer->weight),
         real_at(pass, gradient, layer->weight), bias_gradient(pass, gradient, layer), gradient_of(pass, step->target),
         &epilogue);
}

static rc_fused_back fused_back(rc_pass *pass, const rc_model *model, int index)
{
    return (rc_fused_back){.conv = &pass->layer[index].conv,
                           .dy = &pass->layer[index].dy,
                           .weight = real_at(pass, model->param, pass->net->layer[index].weight)};
}

static void run_fused_backward(rc_pass *pass, const rc_model *model, const rc_pass_step *step)
{
    rc_backend *be = pass->backend;
    rc_fused_back layers[RC_MAX_FUSED];
    int skip = pass->net->layer[step->first].skip;
    for (int i = step->first; i <= step->layer; i++)
        layers[i - step->first] = fused_back(pass, model, i);
    const rc_fused_gradients to = {.dx = gradient_of(pass, step->target),
                                   .add = step->add,
                                   .dskip = skip >= 0 ? gradient_of(pass, skip) : NULL,
                                   .add_skip = step->add_skip};
    be->fused_backward(be, layers, step->layer - step->first + 1, &to);
}

static void run_fused_train_backward(rc_pass *pass, const rc_model *model, void *gradient, const rc_pass_step *step)
{
    rc_backend *be = pass->backend;
    rc_fused_train_back layers[RC_MAX_FUSED];
    int skip = pass->net->layer[step->first].skip;
    for (int i = step->first; i <= step->layer; i++)
        layers[i - step->first] = (rc_fused_train_back){.layer = fused_back(pass, model, i),
                                                        .norm = backward_of(pass, gradient, i),
                                                        .draw = pass->layer[i].draw.g,
                                                        .dweight = real_at(pass, gradient, pass->net->layer[i].weight)};
    const rc_fused_train_gradients to = {.dx = gradient_of(pass, step->target),
                                         .epilogue = epilogue_of(pass, step),
                                         .dskip = skip >= 0 ? gradient_of(pass, skip) : NULL,
                                         .add_skip = step->add_skip};
    be->fused_train_backward(be, layers, step->layer - step->first + 1, &to);
}

static void run_fused_weight(rc_pass *pass, void *gradient, int first, int last)
{
    rc_backend *be = pass->backend;
    rc_fused_weight layers[RC_MAX_FUSED];
    for (int i = first; i <= last; i++) {
        const rc_layer *layer = &pass->net->layer[i];
        layers[i - first] = (rc_fused_weight){.conv = &pass->layer[i].conv,
                                              .x = read_source(pass, layer->in),
                                              .dy = draw_of(&pass->layer[i]),
                                              .dweight = real_at(pass, gradient, layer->weight)};
    }
    be->fused_weight(be, layers, last - first + 1);
}

static void materialise(rc_pass *pass, int index)
{
    rc_tensor *y = &pass->layer[index].y;
    pass->backend->materialise(pass->backend, y);
    y->stored = true;
}

static void run(rc_pass *pass, const rc_model *model, void *gradient, int from, int to)
{
    rc_backend *be = pass->backend;
    for (int i = from; i < to; i++) {
        const rc_pass_step *step = &pass->step[i];
        rc_pass_layer *at = step->layer >= 0 ? &pass->layer[step->layer] : NULL;
        switch (step->op) {
        case RC_OP_BN_EVAL: run_bn_eval(pass, model, step->layer); break;
        case RC_OP_FORWARD: run_forward(pass, model, step->layer); break;
        case RC_OP_FUSED: run_fused(pass, model, step->first, step->layer); break;
        case RC_OP_FUSED_TRAIN: run_fused_train(pass, model, step->first, step->layer); break;
        case RC_OP_MATERIALISE: materialise(pass, step->layer); break;
        case RC_OP_BN_TRAIN:
        case RC_OP_BN_STATISTICS: run_bn_forward(pass, model, step->op, step->layer); break;
        case RC_OP_BN_SUMS: be->bn_backward_sums(be, &at->dy, at->back_partial); break;
        case RC_OP_BN_BACKWARD: run_bn_backward(pass, gradient, step->layer); break;
        case RC_OP_FINISH: run_finish(pass, step->layer); break;
        case RC_OP_WEIGHT: run_weight(pass, gradient, step->layer); break;
        case RC_OP_ZERO_BIAS: run_zero_bias(pass, gradient, step->layer); break;
        case RC_OP_SKIP:
        case RC_OP_DATA: run_writer(pass, model, step); break;
        case RC_OP_WEIGHT_AND_DATA: run_weight_and_data(pass, model, gradient, step); break;
        case RC_OP_FUSED_BACK: run_fused_backward(pass, model, step); break;
        case RC_OP_FUSED_TRAIN_BACK: run_fused_train_backward(pass, model, gradient, step); break;
        case RC_OP_FUSED_WEIGHT: run_fused_weight(pass, gradient, step->first, step->layer); break;
        case RC_OP_FORK: be->fork(be, RC_WEIGHT_LANE); break;
        case RC_OP_MAIN: be->fork(be, RC_MAIN_LANE); break;
        case RC_OP_JOIN: be->join(be, RC_WEIGHT_LANE); break;
        case RC_OP_SUM_WORKERS: be->sum_workers(be, real_at(pass, gradient, step->param), step->params); break;
        case RC_OP_WAIT_WORKERS: be->wait_workers(be); break;
        }
    }
}

/* ---- the calls -------------------------------------------------------------------------------------------------- */

void rc_pass_prepare(rc_pass *pass, const rc_model *model)
{
    run(pass, model, NULL, 0, pass->prepare_end);
}

void rc_pass_forward(rc_pass *pass, const rc_model *model, rc_tensor *input)
{
    pass->input = input;
    for (int i = 0; i < pass->net->layers; i++)
        pass->layer[i].y.stored = pass->layer[i].kept.stored = false;
    run(pass, model, NULL, pass->settings.constant_model ? pass->prepare_end : 0, pass->forward_end);
}

void rc_pass_backward(rc_pass *pass, const rc_model *model, void *gradient)
{
    run(pass, model, gradient, pass->forward_end, pass->backward_end);
}

/* NULL: no output of that index. */
static rc_pass_layer *output_layer(rc_pass *pass, int index)
{
    if (index == RC_NO_LAYER)
        index = pass->net->layers - 1;
    return index >= 0 && index < pass->net->layers && pass->net->layer[index].output ? &pass->layer[index] : NULL;
}

rc_tensor *rc_pass_output(rc_pass *pass, int layer)
{
    rc_pass_layer *at = output_layer(pass, layer);
    if (at == NULL || at->features != NULL)
        return NULL;
    return pass->settings.mode == RC_PASS_EVAL ? &at->finished : &at->y;
}

rc_tensor *rc_pass_stored_output(rc_pass *pass, int layer)
{
    rc_pass_layer *at = output_layer(pass, layer);
    if (at == NULL || at->features != NULL)
        return NULL;
    if (at->y.value != NULL && !at->y.stored)
        materialise(pass, (int)(at - pass->layer));
    return &at->y;
}

rc_tensor *rc_pass_finished_output(rc_pass *pass, int layer)
{
    return rc_pass_stored_output(pass, layer) != NULL ? &output_layer(pass, layer)->finished : NULL;
}

void *rc_pass_features(rc_pass *pass)
{
    for (int i = pass->net->layers - 1; i >= 0; i--) {
        if (pass->layer[i].features != NULL)
            return pass->layer[i].features;
    }
    return NULL;
}

void *rc_pass_output_gradient(rc_pass *pass, int layer)
{
    rc_pass_layer *at = output_layer(pass, layer);
    if (at == NULL)
        return NULL;
    return at->features != NULL ? at->dfeatures : at->dy.g;
}

void rc_pass_zero_output_gradients(rc_pass *pass)
{
    rc_backend *be = pass->backend;
    for (int i = 0; i < pass->net->layers; i++) {
        rc_pass_layer *at = &pass->layer[i];
        const rc_layer *layer = &pass->net->layer[i];
        if (!layer->output || pass->settings.mode == RC_PASS_EVAL)
            continue;
        if (at->features != NULL)
            be->zero(be, at->dfeatures, (size_t)at->y.n * (size_t)layer->c_out * be->real_bytes);
        else
            be->zero(be, at->dy.g, rc_act_count(be, at->y.n, layer->h, layer->w, layer->c_out) * be->act_bytes);
    }
}

void *rc_pass_input_gradient(rc_pass *pass)
{
    return pass->input_gradient;
}

const rc_bn_stat *rc_pass_bn_statistics(rc_pass *pass, int *count)
{
    *count = pass->settings.mode == RC_PASS_FROZEN ? pass->net->bn_layers : 0;
    return pass->stat;
}

size_t rc_pass_bytes(const rc_pass *pass)
{
    return pass->bytes;
}

bool rc_pass_borrows(const rc_pass *pass)
{
    return pass->settings.lender != NULL && pass->passing == pass->settings.lender->passing;
}

rc_status rc_tensor_create(rc_backend *backend, int n, int h, int w, int c, rc_tensor *tensor)
{
    *tensor = (rc_tensor){.n = n, .h = h, .w = w, .c = c, .groups = 1, .group_end = {n}};
    bool possible = n >= 1 && h >= 1 && w >= 1 && c >= 1 && c <= INT32_MAX - backend->channel_multiple;
    if (!possible || (double)n * h * w * rc_padded(backend, c) > INT32_MAX)
        return rc_fail(RC_INVALID_ARGUMENT,
                       "tensor of %d images of %d x %d pixels of %d channels, expected 1 or more "
                       "each and at most %d elements",
                       n, h, w, c, INT32_MAX);
    return backend->alloc(backend, rc_act_count(backend, n, h, w, c) * backend->act_bytes, &tensor->raw);
}

void rc_tensor_destroy(rc_backend *backend, rc_tensor *tensor)
{
    if (tensor->raw != NULL)
        backend->release(backend, tensor->raw);
    *tensor = (rc_tensor){0};
}
