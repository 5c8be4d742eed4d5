/* In place of the convolutions on the tensor cores, which there are none of here: every call is another kind's. */
#include "backend/cuda/conv.h"

static size_t no_workspace(const rc_cuda *, const rc_conv *, int)
{
    return 0;
}

static bool refuse_forward(rc_cuda *, const rc_conv *, rc_tensor *, const float *, const float *, rc_tensor *,
                           const rc_epilogue *)
{
    return false;
}

static bool refuse_backward_data(rc_cuda *, const rc_conv *, const rc_grad *, const float *, void *,
                                 const rc_back_epilogue *)
{
    return false;
}

static bool refuse_backward_weight(rc_cuda *, const rc_conv *, const rc_tensor *, const rc_grad *, float *, float *)
{
    return false;
}

extern const rc_cuda_conv_kind rc_cuda_conv_mma = {"none", no_workspace, refuse_forward, refuse_backward_data,
                                                   refuse_backward_weight};
