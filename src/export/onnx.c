/* ONNX: the net as a graph of operators, in the encoding of protocol buffers (base/protobuf.h).
 *
 *     image (batch, c, h, w) in 0 .. 1 -> Sub mean -> Div std -> the layers -> GlobalAveragePool -> Flatten
 *         -> Gemm -> logits (batch, classes) -> Softmax -> probabilities (batch, classes)
 *
 * Normalisations are folded into the convolutions before them. A shortcut that takes every second pixel and pads
 * channels is Slice and Pad. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/protobuf.h"
#include "export/exported.h"

/* IR 8 is the version of the format that came with opset 17. */
enum { IR_VERSION = 8, OPSET = 17 };

/* Numbers of fields and values, as onnx.proto has them. */
enum { MODEL_IR = 1, MODEL_PRODUCER, MODEL_PRODUCER_VERSION, MODEL_GRAPH = 7, MODEL_OPSET, MODEL_METADATA = 14 };
enum { OPSET_DOMAIN = 1, OPSET_VERSION };
enum { ENTRY_KEY = 1, ENTRY_VALUE };
enum { GRAPH_NODE = 1, GRAPH_NAME, GRAPH_TENSOR = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT };
enum { NODE_INPUT = 1, NODE_OUTPUT, NODE_NAME, NODE_OPERATOR, NODE_ATTRIBUTE };
enum { ATTRIBUTE_NAME = 1, ATTRIBUTE_FLOAT, ATTRIBUTE_INT, ATTRIBUTE_INTS = 8, ATTRIBUTE_TYPE = 20 };
enum { TYPE_FLOAT = 1, TYPE_INT, TYPE_INTS = 7 };
enum { TENSOR_DIMS = 1, TENSOR_TYPE, TENSOR_NAME = 8, TENSOR_BYTES };
enum { ELEMENT_FLOAT = 1, ELEMENT_INT64 = 7 };
enum { VALUE_NAME = 1, VALUE_TYPE, TYPE_TENSOR = 1, SHAPED_ELEMENT = 1, SHAPED_SHAPE, SHAPE_DIM = 1 };
enum { DIM_VALUE = 1, DIM_NAME };

enum { NAME_SIZE = RC_NAME_MAX + 32 };

/* The graph on its way. */
typedef struct graph {
    rc_protobuf out;
    const rc_exported *e;
    float *folded; /* room for the largest weight of a layer */
} graph;

/* ---- parts of a graph -------------------------------------------------------------------------------------------- */

static void put_tensor(graph *g, const char *name, int type, const int64_t *dims, int count, const void *data,
                       size_t bytes)
{
    size_t at = rc_protobuf_begin(&g->out, GRAPH_TENSOR);
    for (int i = 0; i < count; i++)
        rc_protobuf_put_whole(&g->out, TENSOR_DIMS, (uint64_t)dims[i]);
    rc_protobuf_put_whole(&g->out, TENSOR_TYPE, (uint64_t)type);
    rc_protobuf_put_text(&g->out, TENSOR_NAME, name);
    rc_protobuf_put_bytes(&g->out, TENSOR_BYTES, data, bytes);
    rc_protobuf_end(&g->out, at);
}

static void put_floats(graph *g, const char *name, const int64_t *dims, int count, const float *data)
{
    size_t bytes = sizeof *data;
    for (int i = 0; i < count; i++)
        bytes *= (size_t)dims[i];
    put_tensor(g, name, ELEMENT_FLOAT, dims, count, data, bytes);
}

static void put_integers(graph *g, const char *name, const int64_t *values, int64_t count)
{
    put_tensor(g, name, ELEMENT_INT64, &count, 1, values, (size_t)count * sizeof *values);
}

/* Returns where the node begins, for attributes; rc_protobuf_end ends it. inputs: names up to NULL. The node has the
 * name of its result. */
static size_t begin_node(graph *g, const char *type, const char *const *inputs, const char *output)
{
    size_t at = rc_protobuf_begin(&g->out, GRAPH_NODE);
    for (; *inputs != NULL; inputs++)
        rc_protobuf_put_text(&g->out, NODE_INPUT, *inputs);
    rc_protobuf_put_text(&g->out, NODE_OUTPUT, output);
    rc_protobuf_put_text(&g->out, NODE_NAME, output);
    rc_protobuf_put_text(&g->out, NODE_OPERATOR, type);
    return at;
}

static void put_node(graph *g, const char *type, const char *a, const char *b, const char *output)
{
    rc_protobuf_end(&g->out, begin_node(g, type, (const char *const[]){a, b, NULL}, output));
}

static void put_int(graph *g, const char *name, int64_t value)
{
    size_t at = rc_protobuf_begin(&g->out, NODE_ATTRIBUTE);
    rc_protobuf_put_text(&g->out, ATTRIBUTE_NAME, name);
    rc_protobuf_put_whole(&g->out, ATTRIBUTE_INT, (uint64_t)value);
    rc_protobuf_put_whole(&g->out, ATTRIBUTE_TYPE, TYPE_INT);
    rc_protobuf_end(&g->out, at);
}

static void put_ints(graph *g, const char *name, const int64_t *values, int count)
{
    size_t at = rc_protobuf_begin(&g->out, NODE_ATTRIBUTE);
    rc_protobuf_put_text(&g->out, ATTRIBUTE_NAME, name);
    for (int i = 0; i < count; i++)
        rc_protobuf_put_whole(&g->out, ATTRIBUTE_INTS, (uint64_t)values[i]);
    rc_protobuf_put_whole(&g->out, ATTRIBUTE_TYPE, TYPE_INTS);
    rc_protobuf_end(&g->out, at);
}

/* What goes in or comes out: floats, the first dimension of any length. */
static void put_value(graph *g, int field, const char *name, const int64_t *dims, int count)
{
    rc_protobuf *out = &g->out;
    size_t value = rc_protobuf_begin(out, field);
    rc_protobuf_put_text(out, VALUE_NAME, name);
    size_t type = rc_protobuf_begin(out, VALUE_TYPE), tensor = rc_protobuf_begin(out, TYPE_TENSOR);
    rc_protobuf_put_whole(out, SHAPED_ELEMENT, ELEMENT_FLOAT);
    size_t shape = rc_protobuf_begin(out, SHAPED_SHAPE), dim = rc_protobuf_begin(out, SHAPE_DIM);
    rc_protobuf_put_text(out, DIM_NAME, "batch");
    rc_protobuf_end(out, dim);
    for (int i = 0; i < count; i++) {
        dim = rc_protobuf_begin(out, SHAPE_DIM);
        rc_protobuf_put_whole(out, DIM_VALUE, (uint64_t)dims[i]);
        rc_protobuf_end(out, dim);
    }
    rc_protobuf_end(out, shape);
    rc_protobuf_end(out, tensor);
    rc_protobuf_end(out, type);
    rc_protobuf_end(out, value);
}

/* ---- layers ------------------------------------------------------------------------------------------------------ */

/* The name of a layer's value. */
static const char *value_of(const graph *g, int index)
{
    return index == RC_NET_INPUT ? "normalised" : g->e->net->layer[index].name;
}

/* Padding behind the last pixel: what the result of that length needs. */
static int behind(int length, int result, const rc_layer *layer)
{
    int room = (result - 1) * layer->stride + layer->k - layer->pad - length;
    return room > 0 ? room : 0;
}

/* How windows move. Where the padding before the first pixel does as padding behind the last, too, it is written so:
 * not every program takes a difference. */
static void put_windows(graph *g, const rc_layer *layer)
{
    int k = layer->k, stride = layer->stride, pad = layer->pad;
    int bottom = behind(layer->h_in, layer->h, layer), right = behind(layer->w_in, layer->w, layer);
    bool same_h = (layer->h_in + 2 * pad - k) / stride + 1 == layer->h;
    bool same_w = (layer->w_in + 2 * pad - k) / stride + 1 == layer->w;
    const int64_t kernel[] = {k, k}, strides[] = {stride, stride};
    const int64_t pads[] = {pad, pad, same_h ? pad : bottom, same_w ? pad : right};
    put_ints(g, "kernel_shape", kernel, 2);
    put_ints(g, "strides", strides, 2);
    put_ints(g, "pads", pads, 4);
}

/* weight * scale, and bias * scale + shift. */
static void put_folded(graph *g, const rc_layer *layer, const char *weight, const char *bias)
{
    const rc_exported *e = g->e;
    size_t taps = layer->weights / (size_t)layer->c_out; /* of one result: k * k, times the channels that it reads */
    const int64_t read = (int64_t)taps / layer->k / layer->k;
    const int64_t channels = layer->c_out, dims[] = {layer->c_out, read, layer->k, layer->k};
    for (int channel = 0; channel < layer->c_out; channel++) {
        const rc_affine affine = rc_exported_affine(e, layer, channel);
        size_t first = (size_t)channel * taps;
        for (size_t i = first; i < first + taps; i++)
            g->folded[i] = (float)((double)e->param[layer->weight + i] * affine.scale);
    }
    put_floats(g, weight, dims, 4, g->folded);
    for (int channel = 0; channel < layer->c_out; channel++) {
        const rc_affine affine = rc_exported_affine(e, layer, channel);
        double shift = layer->bias ? (double)e->param[layer->bias_at + (size_t)channel] * affine.scale : 0;
        g->folded[channel] = (float)(shift + affine.shift);
    }
    put_floats(g, bias, &channels, 1, g->folded);
}

static void put_conv(graph *g, const rc_layer *layer, const char *result)
{
    char weight[NAME_SIZE], bias[NAME_SIZE];
    snprintf(weight, sizeof weight, "%s.weight", layer->name);
    snprintf(bias, sizeof bias, "%s.bias", layer->name);
    put_folded(g, layer, weight, bias);
    size_t at = begin_node(g, "Conv", (const char *const[]){value_of(g, layer->in), weight, bias, NULL}, result);
    put_windows(g, layer);
    if (layer->kind == RC_LAYER_DEPTHWISE)
        put_int(g, "group", layer->c_out);
    rc_protobuf_end(&g->out, at);
}

static void put_max_pool(graph *g, const rc_layer *layer, const char *result)
{
    size_t at = begin_node(g, "MaxPool", (const char *const[]){value_of(g, layer->in), NULL}, result);
    put_windows(g, layer);
    rc_protobuf_end(&g->out, at);
}

/* Every second pixel of the skip, with zeros for the channels that it lacks. Returns the name of the result. */
static const char *put_padded_skip(graph *g, const rc_layer *layer, char pixels[NAME_SIZE], char padded[NAME_SIZE])
{
    static const int64_t starts[] = {0, 0}, ends[] = {INT32_MAX, INT32_MAX}, axes[] = {2, 3}, steps[] = {2, 2};
    static const struct {
        const char *name;
        const int64_t *values;
    } slices[] = {{"starts", starts}, {"ends", ends}, {"axes", axes}, {"steps", steps}};
    char name[4][NAME_SIZE];
    for (int i = 0; i < 4; i++) {
        snprintf(name[i], NAME_SIZE, "%s.skip_%s", layer->name, slices[i].name);
        put_integers(g, name[i], slices[i].values, 2);
    }
    snprintf(pixels, NAME_SIZE, "%s.skip_pixels", layer->name);
    rc_protobuf_end(&g->out, begin_node(g, "Slice",
                                        (const char *const[]){value_of(g, layer->skip), name[0], name[1], name[2],
                                                              name[3], NULL},
                                        pixels));
    int missing = layer->c_out - g->e->net->layer[layer->skip].c_out, before = layer->skip_offset;
    if (missing == 0)
        return pixels;
    const int64_t pads[] = {0, before, 0, 0, 0, missing - before, 0, 0};
    snprintf(name[0], NAME_SIZE, "%s.skip_pads", layer->name);
    put_integers(g, name[0], pads, 8);
    snprintf(padded, NAME_SIZE, "%s.skip", layer->name);
    put_node(g, "Pad", pixels, name[0], padded);
    return padded;
}

/* min(max(in, 0), 6) */
static void put_relu6(graph *g, const rc_layer *layer, const char *in, const char *result)
{
    static const float low = 0, high = 6;
    char least[NAME_SIZE], most[NAME_SIZE];
    snprintf(least, sizeof least, "%s.least", layer->name);
    snprintf(most, sizeof most, "%s.most", layer->name);
    put_floats(g, least, NULL, 0, &low);
    put_floats(g, most, NULL, 0, &high);
    rc_protobuf_end(&g->out, begin_node(g, "Clip", (const char *const[]){in, least, most, NULL}, result));
}

/* in * sigmoid(in) */
static void put_silu(graph *g, const rc_layer *layer, const char *in, const char *result)
{
    char gate[NAME_SIZE];
    snprintf(gate, sizeof gate, "%s.gate", layer->name);
    put_node(g, "Sigmoid", in, NULL, gate);
    put_node(g, "Mul", in, gate, result);
}

static void put_activation(graph *g, const rc_layer *layer, const char *in, const char *result)
{
    switch (layer->act) {
    case RC_ACT_NONE: break;
    case RC_ACT_RELU: put_node(g, "Relu", in, NULL, result); break;
    case RC_ACT_LEAKY_RELU: {
        size_t at = begin_node(g, "LeakyRelu", (const char *const[]){in, NULL}, result);
        size_t slope = rc_protobuf_begin(&g->out, NODE_ATTRIBUTE);
        rc_protobuf_put_text(&g->out, ATTRIBUTE_NAME, "alpha");
        rc_protobuf_put_float(&g->out, ATTRIBUTE_FLOAT, 0.2f);
        rc_protobuf_put_whole(&g->out, ATTRIBUTE_TYPE, TYPE_FLOAT);
        rc_protobuf_end(&g->out, slope);
        rc_protobuf_end(&g->out, at);
        break;
    }
    case RC_ACT_TANH: put_node(g, "Tanh", in, NULL, result); break;
    case RC_ACT_SIGMOID: put_node(g, "Sigmoid", in, NULL, result); break;
    case RC_ACT_RELU6: put_relu6(g, layer, in, result); break;
    case RC_ACT_SILU: put_silu(g, layer, in, result); break;
    }
}

/* act(operation + skip): each part has a node of its own, and the last has the layer's name. */
static void put_layer(graph *g, const rc_layer *layer)
{
    char operation[NAME_SIZE], sum[NAME_SIZE], pixels[NAME_SIZE], padded[NAME_SIZE];
    bool adds = layer->shortcut != RC_SHORTCUT_NONE, acts = layer->act != RC_ACT_NONE;
    snprintf(operation, sizeof operation, "%s%s", layer->name, adds || acts ? ".operation" : "");
    snprintf(sum, sizeof sum, "%s%s", layer->name, acts ? ".sum" : "");
    if (layer->kind == RC_LAYER_MAX_POOL)
        put_max_pool(g, layer, operation);
    else
        put_conv(g, layer, operation);
    if (adds)
        put_node(g, "Add", operation,
                 layer->shortcut == RC_SHORTCUT_IDENTITY ? value_of(g, layer->skip)
                                                         : put_padded_skip(g, layer, pixels, padded),
                 sum);
    put_activation(g, layer, adds ? sum : operation, layer->name);
}

/* ---- the graph --------------------------------------------------------------------------------------------------- */

static void put_input(graph *g)
{
    const rc_exported *e = g->e;
    const int64_t image[] = {e->net->c, e->net->h, e->net->w}, channels[] = {1, e->net->c, 1, 1};
    put_value(g, GRAPH_INPUT, "image", image, 3);
    put_floats(g, "mean", channels, 4, e->mean);
    put_floats(g, "std", channels, 4, e->std);
    put_node(g, "Sub", "image", "mean", "centred");
    put_node(g, "Div", "centred", "std", value_of(g, RC_NET_INPUT));
}

static void put_head(graph *g, const rc_layer *pool)
{
    const rc_exported *e = g->e;
    const int64_t rows[] = {e->classes, e->d}, classes = e->classes;
    put_node(g, "GlobalAveragePool", value_of(g, pool->in), NULL, pool->name);
    size_t at = begin_node(g, "Flatten", (const char *const[]){pool->name, NULL}, "features");
    put_int(g, "axis", 1);
    rc_protobuf_end(&g->out, at);
    put_floats(g, "head.weight", rows, 2, e->head);
    if (e->head_bias != NULL)
        put_floats(g, "head.bias", &classes, 1, e->head_bias);
    const char *bias = e->head_bias != NULL ? "head.bias" : NULL;
    at = begin_node(g, "Gemm", (const char *const[]){"features", "head.weight", bias, NULL}, "logits");
    put_int(g, "transB", 1);
    rc_protobuf_end(&g->out, at);
    at = begin_node(g, "Softmax", (const char *const[]){"logits", NULL}, "probabilities");
    put_int(g, "axis", 1);
    rc_protobuf_end(&g->out, at);
    /* First what most programs want: some take the first result, others that of the last node. */
    put_value(g, GRAPH_OUTPUT, "probabilities", &classes, 1);
    put_value(g, GRAPH_OUTPUT, "logits", &classes, 1);
}

static void put_metadata(void *to, const char *key, const char *text)
{
    graph *g = to;
    size_t at = rc_protobuf_begin(&g->out, MODEL_METADATA);
    rc_protobuf_put_text(&g->out, ENTRY_KEY, key);
    rc_protobuf_put_text(&g->out, ENTRY_VALUE, text);
    rc_protobuf_end(&g->out, at);
}

static rc_status put_model(graph *g)
{
    const rc_net *net = g->e->net;
    rc_protobuf_put_whole(&g->out, MODEL_IR, IR_VERSION);
    rc_protobuf_put_text(&g->out, MODEL_PRODUCER, "recollect");
    rc_protobuf_put_text(&g->out, MODEL_PRODUCER_VERSION, recollect_version());
    size_t opset = rc_protobuf_begin(&g->out, MODEL_OPSET);
    rc_protobuf_put_text(&g->out, OPSET_DOMAIN, "");
    rc_protobuf_put_whole(&g->out, OPSET_VERSION, OPSET);
    rc_protobuf_end(&g->out, opset);
    RC_TRY(rc_exported_describe(g->e, put_metadata, g));
    size_t at = rc_protobuf_begin(&g->out, MODEL_GRAPH);
    rc_protobuf_put_text(&g->out, GRAPH_NAME, net->name);
    put_input(g);
    for (int i = 0; i < net->layers - 1; i++)
        put_layer(g, &net->layer[i]);
    put_head(g, &net->layer[net->layers - 1]);
    rc_protobuf_end(&g->out, at);
    return g->out.failed ? RC_OUT_OF_MEMORY : RC_OK;
}

static size_t largest_weight(const rc_net *net)
{
    size_t largest = 1;
    for (int i = 0; i < net->layers; i++) {
        size_t weights = net->layer[i].weights;
        largest = weights > largest ? weights : largest;
    }
    return largest;
}

rc_status rc_export_onnx(const rc_exported *exported, const char *path, bool replace)
{
    graph g = {.e = exported};
    rc_file_writer *writer;
    g.folded = rc_alloc_zeroed(NULL, largest_weight(exported->net), sizeof *g.folded);
    rc_status status = g.folded != NULL ? put_model(&g) : RC_OUT_OF_MEMORY;
    rc_free(NULL, g.folded);
    if (status == RC_OK && g.out.used > INT32_MAX)
        status = rc_fail(RC_UNSUPPORTED, "an ONNX file has at most 2 GiB, the model takes %zu bytes", g.out.used);
    if (status == RC_OK)
        status = rc_file_writer_open(path, &writer);
    if (status == RC_OK) {
        rc_file_writer_append(writer, g.out.data, g.out.used); /* a failure sticks */
        status = replace ? rc_file_writer_commit(writer) : rc_file_writer_commit_new(writer);
    }
    rc_free(NULL, g.out.data);
    return status;
}
