#include "export/exported.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"

/* ---- taking ------------------------------------------------------------------------------------------------------ */

static rc_status read_reals(rc_backend *be, const void *memory, size_t count, float **values)
{
    *values = rc_alloc_zeroed(NULL, count > 0 ? count : 1, sizeof **values);
    if (*values == NULL)
        return RC_OUT_OF_MEMORY;
    be->read_real(be, *values, memory, count);
    return RC_OK;
}

/* The probabilities of other programs are those of `predict`. */
static void cool(double temperature, float *values, size_t count)
{
    for (size_t i = 0; i < count && temperature != 1; i++)
        values[i] = (float)((double)values[i] / temperature);
}

static rc_status take(const rc_saved_model *model, rc_exported *e)
{
    const rc_learner *l = &model->learner;
    const rc_head *head = &l->student.head;
    rc_backend *be = l->backend;
    int size = l->augment.h;
    *e = (rc_exported){.net = &l->net,
                       .d = head->d,
                       .classes = head->classes,
                       .tasks = head->tasks,
                       .task_end = head->task_end,
                       .class_name = (const char *const *)model->class_name,
                       .resize = model->config.resize > size ? model->config.resize : size,
                       .interpolation = model->config.interpolation,
                       .exif = model->config.exif};
    memcpy(e->mean, l->augment.mean, sizeof e->mean);
    memcpy(e->std, l->augment.std, sizeof e->std);
    RC_TRY(be->sync(be));
    RC_TRY(read_reals(be, l->student.backbone.param, l->net.params, &e->param));
    RC_TRY(read_reals(be, l->student.backbone.running, l->net.running, &e->running));
    RC_TRY(read_reals(be, head->weight, (size_t)head->classes * (size_t)head->d, &e->head));
    if (head->bias != NULL)
        RC_TRY(read_reals(be, head->bias, (size_t)head->classes, &e->head_bias));
    RC_TRY(be->sync(be)); /* was all of it read? */
    e->temperature = rc_calibration_temperature(&model->calibration);
    cool(e->temperature, e->head, (size_t)head->classes * (size_t)head->d);
    cool(e->temperature, e->head_bias, head->bias != NULL ? (size_t)head->classes : 0);
    return rc_exported_check(e);
}

rc_status rc_exported_take(const rc_saved_model *model, rc_exported *exported)
{
    rc_status status = take(model, exported);
    if (status != RC_OK)
        rc_exported_drop(exported);
    return status;
}

void rc_exported_drop(rc_exported *e)
{
    rc_free(NULL, e->param);
    rc_free(NULL, e->running);
    rc_free(NULL, e->head);
    rc_free(NULL, e->head_bias);
    *e = (rc_exported){0};
}

/* ---- checks ------------------------------------------------------------------------------------------------------ */

static bool has_format(const rc_layer *layer, bool last)
{
    switch (layer->kind) {
    case RC_LAYER_CONV: return !layer->transposed && layer->up == 1;
    case RC_LAYER_DEPTHWISE:
    case RC_LAYER_MAX_POOL: return true;
    case RC_LAYER_AVERAGE_POOL: return last;
    default: return false;
    }
}

rc_status rc_exported_check(const rc_exported *e)
{
    const rc_net *net = e->net;
    for (int i = 0; i < net->layers; i++) {
        const rc_layer *layer = &net->layer[i];
        bool last = i == net->layers - 1;
        if (!has_format(layer, last) || (last && layer->kind != RC_LAYER_AVERAGE_POOL))
            return rc_fail(RC_UNSUPPORTED,
                           "net '%s' cannot be exported: layer %d '%s' is no part of a classifier (convolutions and "
                           "max pooling, average pooling at the end)",
                           net->name, i, layer->name);
        for (int channel = 0; channel < layer->c_out; channel++) {
            const rc_affine affine = rc_exported_affine(e, layer, channel);
            if (!isfinite((float)affine.scale) || !isfinite((float)affine.shift))
                return rc_fail(RC_NUMERIC,
                               "the model cannot be exported: channel %d of '%s' is multiplied by %g and moved by %g, "
                               "expected finite numbers: its statistics are damaged",
                               channel, layer->bn_name, affine.scale, affine.shift);
        }
    }
    return RC_OK;
}

rc_affine rc_exported_affine(const rc_exported *e, const rc_layer *layer, int channel)
{
    if (!layer->bn.on)
        return (rc_affine){1, 0};
    size_t c = (size_t)channel;
    double gamma = layer->gamma != SIZE_MAX ? (double)e->param[layer->gamma + c] : 1;
    double beta = layer->beta != SIZE_MAX ? (double)e->param[layer->beta + c] : 0;
    double mean = (double)e->running[layer->running_mean + c], var = (double)e->running[layer->running_var + c];
    double istd = 1 / sqrt(var + (double)layer->bn.eps);
    return (rc_affine){gamma * istd, beta - mean * gamma * istd};
}

/* ---- describing -------------------------------------------------------------------------------------------------- */

/* Hands a list out, which ends here. */
static rc_status put_list(rc_json_writer *list, const char *key, rc_export_put *put, void *to)
{
    char *text;
    rc_json_end(list);
    RC_TRY(rc_json_finish(list, &text, NULL));
    put(to, key, text);
    rc_free(NULL, text);
    return RC_OK;
}

static rc_status put_numbers(const float *values, int count, const char *key, rc_export_put *put, void *to)
{
    rc_json_writer list = {0};
    rc_json_begin_array(&list, NULL);
    for (int i = 0; i < count; i++)
        rc_json_put_real(&list, NULL, (double)values[i]);
    return put_list(&list, key, put, to);
}

rc_status rc_exported_describe(const rc_exported *e, rc_export_put *put, void *to)
{
    char number[16];
    rc_json_writer list = {0};
    put(to, "recollect.version", recollect_version());
    put(to, "recollect.net", e->net->name);
    rc_json_begin_array(&list, NULL);
    for (int i = 0; i < e->classes; i++)
        rc_json_put_text(&list, NULL, e->class_name[i]);
    RC_TRY(put_list(&list, "recollect.classes", put, to));
    snprintf(number, sizeof number, "%d", e->resize);
    put(to, "recollect.resize", number);
    put(to, "recollect.interpolation", e->interpolation);
    put(to, "recollect.exif", e->exif ? "true" : "false");
    snprintf(number, sizeof number, "%d", e->net->h);
    put(to, "recollect.size", number);
    put(to, "recollect.channels", e->net->c == 3 ? "rgb" : "grey");
    RC_TRY(put_numbers(e->mean, e->net->c, "recollect.mean", put, to));
    return put_numbers(e->std, e->net->c, "recollect.std", put, to);
}
