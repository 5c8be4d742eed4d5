/* In place of backend/cuda/conv.cu: there are no tensor cores here, so every convolution is a direct one. */
#include "backend/cuda/conv.h"

static rc_status reserve_conv(rc_backend *, const rc_conv *, int)
{
    return RC_OK;
}

static void conv_forward(rc_backend *be, const rc_conv *conv, rc_tensor *x, const void *weight, const void *bias,
                         rc_tensor *y, const rc_epilogue *epilogue)
{
    rc_cuda_conv_direct.forward(rc_cuda_of(be), conv, x, (const float *)weight, (const float *)bias, y, epilogue);
    x->stored = x->stored || x->value;
}

static void conv_backward_data(rc_backend *be, const rc_conv *conv, const rc_grad *dy, const void *weight, void *dx,
                               const rc_back_epilogue *epilogue)
{
    rc_cuda_conv_direct.backward_data(rc_cuda_of(be), conv, dy, (const float *)weight, dx, epilogue);
}

static void conv_backward_weight(rc_backend *be, const rc_conv *conv, const rc_tensor *x, const rc_grad *dy,
                                 void *dweight, void *dbias)
{
    rc_cuda_conv_direct.backward_weight(rc_cuda_of(be), conv, x, dy, (float *)dweight, (float *)dbias);
}

void rc_cuda_fill_conv(rc_cuda *cuda)
{
    cuda->table.reserve_conv = reserve_conv;
    cuda->table.conv_forward = conv_forward;
    cuda->table.conv_backward_data = conv_backward_data;
    cuda->table.conv_backward_weight = conv_backward_weight;
}
