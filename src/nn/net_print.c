/* A net as a table for people. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "nn/net.h"

static const char *const kind_names[] = {
    [RC_LAYER_CONV] = "conv", [RC_LAYER_DEPTHWISE] = "depthwise", [RC_LAYER_LINEAR] = "linear",
    [RC_LAYER_BN] = "bn",     [RC_LAYER_MAX_POOL] = "max pool",   [RC_LAYER_AVERAGE_POOL] = "average pool",
};
static const char *const act_names[] = {
    [RC_ACT_NONE] = "",     [RC_ACT_RELU] = "relu",       [RC_ACT_LEAKY_RELU] = "leaky relu",
    [RC_ACT_TANH] = "tanh", [RC_ACT_SIGMOID] = "sigmoid", [RC_ACT_RELU6] = "relu6",
    [RC_ACT_SILU] = "silu",
};

typedef struct printer {
    void (*line)(void *user, const char *text);
    void *user;
} printer;

__attribute__((format(printf, 2, 3))) static void print(const printer *to, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    to->line(to->user, text);
}

/* "conv 3x3 /2 bn + relu": the layer in words. */
static void describe(const rc_layer *layer, char *text, size_t size)
{
    char window[48] = "", stride[16] = "";
    if (rc_layer_convolves(layer) || layer->kind == RC_LAYER_MAX_POOL)
        snprintf(window, sizeof window, " %dx%d", layer->k, layer->k);
    if (layer->stride > 1)
        snprintf(stride, sizeof stride, " %c%d", layer->transposed ? '*' : '/', layer->stride);
    snprintf(text, size, "%s%s%s%s%s%s%s%s", layer->up > 1 ? "up " : "", kind_names[layer->kind], window, stride,
             layer->same ? " same" : "", layer->bn.on && layer->kind != RC_LAYER_BN ? " bn" : "",
             layer->shortcut != RC_SHORTCUT_NONE ? " +" : "", layer->act != RC_ACT_NONE ? " " : "");
    size_t used = strlen(text);
    snprintf(text + used, size - used, "%s", act_names[layer->act]);
}

static void source_name(int index, char *text, size_t size)
{
    if (index >= 0)
        snprintf(text, size, "%d", index);
    else
        snprintf(text, size, "%s", index == RC_NET_INPUT ? "in" : "");
}

void rc_net_print(const rc_net *net, void (*line)(void *user, const char *text), void *user)
{
    const printer to = {line, user};
    int name_width = 5;
    for (int i = 0; i < net->layers; i++) {
        int length = (int)strlen(net->layer[i].name);
        name_width = length > name_width ? length : name_width;
    }
    print(&to, "%s: input %d x %d x %d, %d layers, %d normalised", net->name, net->h, net->w, net->c, net->layers,
          net->bn_layers);
    print(&to, "%3s  %-*s  %-30s %4s %4s  %-16s %10s %10s %10s", "#", name_width, "layer", "what", "from", "skip",
          "h x w x c", "parameters", "MMAC", "KiB");
    double kib = 0;
    for (int i = 0; i < net->layers; i++) {
        const rc_layer *layer = &net->layer[i];
        char what[128], from[16], skip[16], shape[64];
        describe(layer, what, sizeof what);
        source_name(layer->in, from, sizeof from);
        source_name(layer->skip, skip, sizeof skip);
        snprintf(shape, sizeof shape, "%d x %d x %d", layer->h, layer->w, layer->c_out);
        double layer_kib = (double)layer->h * layer->w * layer->c_out * 4 / 1024;
        print(&to, "%3d  %-*s  %-30s %4s %4s  %-16s %10zu %10.2f %10.1f%s", i, name_width, layer->name, what, from,
              skip, shape, layer->params, rc_layer_macs(layer) / 1e6, layer_kib, layer->output ? "  output" : "");
        kib += layer_kib;
    }
    print(&to, "%3s  %-*s  %-30s %4s %4s  %-16s %10zu %10.2f %10.1f", "", name_width, "total", "", "", "", "",
          net->params, rc_net_macs(net) / 1e6, kib);
}
