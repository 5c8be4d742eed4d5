#include "backend/cuda/convolution/conv_mma.h"

extern const rc_cuda_conv_kind rc_cuda_conv_mma = {
    "mma", rc_cuda_mma_workspace, rc_cuda_mma_forward, rc_cuda_mma_backward_data, rc_cuda_mma_backward_weight,
};
