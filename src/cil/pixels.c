#include "cil/pixels.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "cil/step_training.h"
#include "nn/nets.h"

static rc_status fill_normal(const rc_model *model, rc_rng rng)
{
    size_t count = model->net->params;
    if (model->backend->sizing)
        return rc_backend_count_scratch(model->backend, count * sizeof(float));
    float *host = rc_alloc_zeroed(NULL, count, sizeof *host);
    if (host == NULL)
        return RC_OUT_OF_MEMORY;
    rc_rng_fill_normal(rng, 0, host, count);
    model->backend->write_real(model->backend, model->param, host, count);
    rc_free(NULL, host);
    return model->backend->sync(model->backend);
}

static rc_status fill(rc_pixels *p, rc_backend *backend, uint64_t seed, uint32_t task)
{
    size_t params = p->net->params;
    RC_TRY(backend->alloc(backend, (size_t)p->batches * params * backend->real_bytes, &p->memory));
    for (int k = 0; k < p->batches; k++) {
        p->model[k] = (rc_model){p->net, backend, rc_real_at(backend, p->memory, (size_t)k * params), NULL};
        RC_TRY(fill_normal(&p->model[k], (rc_rng){seed, (uint64_t)task << 32 | (RC_STREAM_PIXELS + (uint32_t)k)}));
    }
    return RC_OK;
}

rc_status rc_pixels_create(rc_pixels *p, rc_backend *backend, int batches, int batch, const rc_augment *image,
                           uint64_t seed, uint32_t task)
{
    memset(p, 0, sizeof *p);
    p->batch = batch;
    p->batches = batches;
    p->net = rc_alloc_zeroed(NULL, 1, sizeof *p->net);
    p->model = rc_alloc_zeroed(NULL, (size_t)batches, sizeof *p->model);
    rc_status status = p->net != NULL && p->model != NULL ? RC_OK : RC_OUT_OF_MEMORY;
    if (status == RC_OK)
        status = rc_net_pixels(p->net, batch, image->c, image->h, image->w);
    if (status == RC_OK)
        status = fill(p, backend, seed, task);
    if (status != RC_OK)
        rc_pixels_destroy(p);
    return status;
}

void rc_pixels_destroy(rc_pixels *p)
{
    if (p->memory != NULL)
        p->model[0].backend->release(p->model[0].backend, p->memory);
    rc_free(NULL, p->model);
    rc_free(NULL, p->net);
    memset(p, 0, sizeof *p);
}

rc_status rc_pixels_read(const rc_pixels *p, int k, const rc_augment *image, uint8_t *bytes)
{
    const rc_model *model = &p->model[k];
    float *value = rc_alloc_zeroed(NULL, p->net->params, sizeof *value); /* (c, h, w, batch) */
    if (value == NULL)
        return RC_OUT_OF_MEMORY;
    rc_status status = model->backend->sync(model->backend);
    model->backend->read_real(model->backend, value, model->param, p->net->params);
    int c = image->c, pixels = image->h * image->w;
    for (int channel = 0; channel < c; channel++)
        for (int i = 0; i < pixels; i++)
            for (int b = 0; b < p->batch; b++) {
                float normal = value[((size_t)channel * (size_t)pixels + (size_t)i) * (size_t)p->batch + (size_t)b];
                double byte = 255 * ((double)normal * (double)image->std[channel] + (double)image->mean[channel]);
                bytes[((size_t)b * (size_t)pixels + (size_t)i) * (size_t)c + (size_t)channel] = (uint8_t)lround(
                    fmin(fmax(byte, 0), 255));
            }
    rc_free(NULL, value);
    return status;
}

int32_t rc_pixels_target(uint64_t seed, uint32_t task, uint64_t i, int classes)
{
    return (int32_t)rc_rng_below((rc_rng){seed, (uint64_t)task << 32 | RC_STREAM_TARGETS}, i, (uint32_t)classes);
}
