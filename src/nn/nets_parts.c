#include "nn/nets_parts.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

rc_layer rc_part_conv(int in, int c_out, int k, int stride, rc_init init)
{
    return (rc_layer){.kind = RC_LAYER_CONV,
                      .in = in,
                      .k = k,
                      .stride = stride,
                      .pad = (k - 1) / 2,
                      .up = 1,
                      .c_out = c_out,
                      .init = init};
}

rc_layer rc_part_pool(int in)
{
    return (rc_layer){.name = "pool", .kind = RC_LAYER_AVERAGE_POOL, .in = in};
}

void rc_part_normalise(rc_layer *layer, float eps, bool affine)
{
    layer->bn.on = true;
    layer->bn.affine = affine;
    layer->bn.eps = eps;
    layer->bn.momentum = RC_BN_MOMENTUM;
}

void rc_part_name(char name[RC_NAME_MAX], const char *format, ...)
{
    char text[RC_NAME_MAX + 1];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    memset(name, 0, RC_NAME_MAX);
    memcpy(name, text, length < 0 ? 0 : length > RC_NAME_MAX ? RC_NAME_MAX : (size_t)length);
}
