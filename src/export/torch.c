/* A state_dict for PyTorch as a safetensors file: the names of the net's published implementation, so that
 * load_state_dict takes it with strict=True. */
#include <stdio.h>

#include "base/memory.h"
#include "export/exported.h"
#include "nn/published.h"

enum { NAME_SIZE = 2 * RC_NAME_MAX + 32 };

/* Tensors to be written, which point into the model. */
typedef struct bundle {
    rc_named_tensor *tensor;
    char (*name)[NAME_SIZE];
    int count;
} bundle;

static rc_named_tensor *add(bundle *b, rc_dtype dtype, const void *data)
{
    rc_named_tensor *tensor = &b->tensor[b->count];
    *tensor = (rc_named_tensor){.name = b->name[b->count], .dtype = dtype, .data = data};
    b->count++;
    return tensor;
}

/* The slices of the net, and for every normalisation a count of batches, which no file of ours keeps: 0. */
static void add_net(bundle *b, const rc_exported *e, const char *prefix)
{
    static const int64_t no_batches;
    rc_slice slice;
    for (int i = 0; rc_net_slice(e->net, i, &slice); i++) {
        snprintf(b->name[b->count], NAME_SIZE, "%s%s", prefix, slice.name);
        rc_named_tensor *tensor = add(b, RC_DTYPE_F32, (slice.running ? e->running : e->param) + slice.offset);
        tensor->dims = slice.dims;
        for (int k = 0; k < slice.dims; k++)
            tensor->shape[k] = slice.shape[k];
    }
    for (int i = 0; i < e->net->layers; i++) {
        if (!e->net->layer[i].bn.on)
            continue;
        snprintf(b->name[b->count], NAME_SIZE, "%s%s.num_batches_tracked", prefix, e->net->layer[i].bn_name);
        add(b, RC_DTYPE_I64, &no_batches);
    }
}

/* One layer, whose bias the published module has in any case. */
static void add_head(bundle *b, const rc_exported *e, const char *name, const float *zeros)
{
    snprintf(b->name[b->count], NAME_SIZE, "%s.weight", name);
    rc_named_tensor *tensor = add(b, RC_DTYPE_F32, e->head);
    tensor->dims = 2;
    tensor->shape[0] = e->classes;
    tensor->shape[1] = e->d;
    snprintf(b->name[b->count], NAME_SIZE, "%s.bias", name);
    tensor = add(b, RC_DTYPE_F32, e->head_bias != NULL ? e->head_bias : zeros);
    tensor->dims = 1;
    tensor->shape[0] = e->classes;
}

/* A block of rows for each task, as the implementation that recollect's own nets come from has them. That one has no
 * biases: where the head has some, they stand beside their rows. */
static void add_head_of_tasks(bundle *b, const rc_exported *e)
{
    for (int task = 0, first = 0; task < e->tasks; first = e->task_end[task++]) {
        snprintf(b->name[b->count], NAME_SIZE, "head.classifiers.%d.weight", task);
        rc_named_tensor *tensor = add(b, RC_DTYPE_F32, e->head + (size_t)first * (size_t)e->d);
        tensor->dims = 2;
        tensor->shape[0] = e->task_end[task] - first;
        tensor->shape[1] = e->d;
        if (e->head_bias == NULL)
            continue;
        snprintf(b->name[b->count], NAME_SIZE, "head.classifiers.%d.bias", task);
        tensor = add(b, RC_DTYPE_F32, e->head_bias + first);
        tensor->dims = 1;
        tensor->shape[0] = e->task_end[task] - first;
    }
}

static void put_text(void *to, const char *key, const char *text)
{
    rc_json_put_text(to, key, text);
}

static rc_status write_file(bundle *b, const rc_exported *e, const float *zeros, const char *path, bool replace)
{
    const rc_published *published = rc_published_find(e->net->name);
    rc_json_writer metadata = rc_safetensors_metadata_begin();
    add_net(b, e, published != NULL ? "" : "backbone.");
    if (published != NULL)
        add_head(b, e, published->head, zeros);
    else
        add_head_of_tasks(b, e);
    rc_json_put_text(&metadata, "format", "pt"); /* what loaders for PyTorch look for */
    rc_status status = rc_exported_describe(e, put_text, &metadata);
    if (status == RC_OK)
        return rc_safetensors_write(path, b->tensor, b->count, &metadata, replace);
    rc_json_discard(&metadata);
    return status;
}

rc_status rc_export_torch(const rc_exported *exported, const char *path, bool replace)
{
    enum { SLICES = 7, HEAD = 2 * RC_MAX_TASKS }; /* of a layer: weight, bias, four of its normalisation and a count */
    size_t room = SLICES * (size_t)exported->net->layers + HEAD;
    bundle b = {.tensor = rc_alloc_zeroed(NULL, room, sizeof *b.tensor)};
    float *zeros = rc_alloc_zeroed(NULL, (size_t)exported->classes, sizeof *zeros);
    b.name = rc_alloc_zeroed(NULL, room, sizeof *b.name);
    bool all = b.tensor != NULL && b.name != NULL && zeros != NULL;
    rc_status status = all ? write_file(&b, exported, zeros, path, replace) : RC_OUT_OF_MEMORY;
    rc_free(NULL, zeros);
    rc_free(NULL, b.tensor);
    rc_free(NULL, b.name);
    return status;
}
