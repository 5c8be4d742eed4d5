#include "support/published_weights.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "nn/model.h"
#include "nn/nets.h"
#include "nn/published.h"

static void add(published_weights *w, const char *name, const char *part, int dims, const int *shape)
{
    rc_named_tensor *tensor = &w->tensor[w->count];
    size_t length = strlen(name);
    bool variance = length > 4 && strcmp(name + length - 4, "_var") == 0;
    assert_true(w->count < PUBLISHED_MOST);
    snprintf(w->name[w->count], sizeof w->name[0], "%s%s", name, part);
    *tensor = (rc_named_tensor){.name = w->name[w->count], .dtype = RC_DTYPE_F32, .dims = dims};
    for (int i = 0; i < dims; i++)
        tensor->shape[i] = shape[i];
    size_t count = rc_named_tensor_count(tensor), inputs = dims > 1 ? count / (size_t)shape[0] : 4;
    float *values = calloc(count, sizeof *values);
    assert_non_null(values);
    for (size_t i = 0; i < count; i++) { /* spread over -1 to 1 without any pattern that matters */
        uint32_t bits = ((uint32_t)i + 1) * 2654435761u + (uint32_t)w->count * 40503u;
        float value = (float)(bits >> 8) * 0x1p-23f - 1;
        values[i] = variance ? 1 + 0.5f * value : value * 2 / (float)inputs + (dims == 1 ? 0.5f : 0);
    }
    tensor->data = values;
    w->count++;
}

published_weights *published_weights_make(const char *net, int classes)
{
    published_weights *w = calloc(1, sizeof *w);
    const rc_published *published = rc_published_find(net);
    rc_net *shape = calloc(1, sizeof *shape);
    rc_slice slice;
    assert_non_null(w);
    assert_non_null(shape);
    assert_non_null(published);
    if (rc_net_by_name(shape, net, 3, published->size, published->size) != RC_OK)
        fail_msg("%s", rc_message());
    for (int i = 0; rc_net_slice(shape, i, &slice); i++)
        add(w, slice.name, "", slice.dims, slice.shape);
    add(w, published->head, ".weight", 2, (int[]){classes, shape->layer[shape->layers - 1].c_out});
    add(w, published->head, ".bias", 1, &classes);
    free(shape);
    return w;
}

void published_weights_free(published_weights *weights)
{
    for (int i = 0; i < weights->count; i++)
        free(rc_without_const(weights->tensor[i].data));
    free(weights);
}
