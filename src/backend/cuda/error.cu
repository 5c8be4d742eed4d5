/* What a CUDA error means to the user. */
#include "backend/cuda/cuda.h"

#include <stdio.h>

typedef struct explanation {
    cudaError_t error;
    rc_status status;
    const char *advice;
} explanation;

static const char mps[] = "the Multi-Process Service (MPS) does not answer, or has as many programs as it takes: end "
                          "programs on the GPU, or end the service and start it anew (nvidia-cuda-mps-control)";
static const char no_code[] = "this build has no code for this GPU: build without CMAKE_CUDA_ARCHITECTURES, for sm_80 "
                              "and newer";

static const explanation explanations[] = {
    {cudaErrorMemoryAllocation, RC_OUT_OF_MEMORY,
     "the GPU has not enough free memory: use a smaller batch, or end other programs on it (nvidia-smi lists them)"},
    {cudaErrorNoDevice, RC_UNSUPPORTED,
     "no GPU was found: check that nvidia-smi lists one and that CUDA_VISIBLE_DEVICES does not hide it, or use "
     "backend cpu"},
    {cudaErrorInsufficientDriver, RC_UNSUPPORTED,
     "the NVIDIA driver is missing or older than this program's CUDA: install a newer driver, or use backend cpu"},
    {cudaErrorCompatNotSupportedOnDevice, RC_UNSUPPORTED,
     "the NVIDIA driver is older than this program's CUDA, and the compatibility package does not serve this GPU: "
     "install a newer driver, or use backend cpu"},
    {cudaErrorStubLibrary, RC_UNSUPPORTED,
     "the loader found the stub of the NVIDIA driver that CUDA's toolkit brings: take its folder out of "
     "LD_LIBRARY_PATH"},
    {cudaErrorInitializationError, RC_UNSUPPORTED,
     "the NVIDIA driver does not start: nvidia-smi and the system log say why, or use backend cpu"},
    {cudaErrorOperatingSystem, RC_UNSUPPORTED,
     "the system refuses the NVIDIA driver something: a container must be given the GPU's files (/dev/nvidia*)"},
    {cudaErrorSystemDriverMismatch, RC_UNSUPPORTED,
     "the NVIDIA driver was changed while it was in use: restart the machine"},
    {cudaErrorSystemNotReady, RC_UNSUPPORTED,
     "the GPU is not ready: its system services (fabric manager) are not running"},
    {cudaErrorDevicesUnavailable, RC_UNSUPPORTED,
     "the GPU is taken by another program, or in a mode that forbids its use (nvidia-smi shows both): wait for it, or "
     "use backend cpu"},
    {cudaErrorMpsConnectionFailed, RC_UNSUPPORTED, mps},
    {cudaErrorMpsServerNotReady, RC_UNSUPPORTED, mps},
    {cudaErrorMpsMaxClientsReached, RC_UNSUPPORTED, mps},
    {cudaErrorMpsMaxConnectionsReached, RC_UNSUPPORTED, mps},
    {cudaErrorMpsRpcFailure, RC_DEVICE, mps},
    {cudaErrorNoKernelImageForDevice, RC_UNSUPPORTED, no_code},
    {cudaErrorInvalidPtx, RC_UNSUPPORTED, no_code},
    {cudaErrorUnsupportedPtxVersion, RC_UNSUPPORTED, "the NVIDIA driver is older than this build: install a newer one"},
    {cudaErrorLaunchTimeout, RC_DEVICE, "the GPU did not answer in time: does it also drive a display?"},
    {cudaErrorECCUncorrectable, RC_DEVICE, "the GPU's memory is damaged: reset the GPU (nvidia-smi -r) or replace it"},
    {cudaErrorDeviceUninitialized, RC_DEVICE, "the GPU was lost: the system log says why, a restart may bring it back"},
    {cudaErrorContained, RC_DEVICE, "the GPU reported a hardware fault: see the system log"},
    {cudaErrorHardwareStackError, RC_DEVICE, "the GPU reported a hardware fault: see the system log"},
    {cudaErrorUnknown, RC_DEVICE, "the GPU was lost: the system log says why, a restart may bring it back"},
    {cudaErrorIllegalAddress, RC_DEVICE,
     "a mistake of this program or a fault of the GPU: the selftest of backend cuda tells which"},
    {cudaErrorLaunchFailure, RC_DEVICE,
     "a mistake of this program or a fault of the GPU: the selftest of backend cuda tells which"},
};

static explanation explain(cudaError_t error)
{
    for (size_t i = 0; i < sizeof explanations / sizeof explanations[0]; i++)
        if (explanations[i].error == error)
            return explanations[i];
    explanation unknown = {error, RC_INTERNAL, "a mistake of this program, or a fault of the GPU"};
    return unknown;
}

rc_status rc_cuda_fail(const rc_cuda *cuda, cudaError_t error, const char *doing)
{
    explanation why = explain(error);
    cuda->host.set_message("cuda: %s: %s (%s); %s", doing, cudaGetErrorString(error), cudaGetErrorName(error),
                           why.advice);
    return why.status;
}

void rc_cuda_set_error(rc_cuda *cuda, cudaError_t error, const char *doing)
{
    if (cuda->status != RC_OK)
        return;
    explanation why = explain(error);
    cuda->status = why.status;
    snprintf(cuda->message, sizeof cuda->message, "cuda: %s: %s (%s); %s", doing, cudaGetErrorString(error),
             cudaGetErrorName(error), why.advice);
}
