/* CUDA on the CPU, as far as backend/cuda needs it: the same .cu files are compiled as C++ and run by the tests on
 * machines without a GPU. What its mma.cuh asks of the tensor cores is in backend/cuda/product/mma.cuh beside this.
 *
 * A block's threads are fibers that take turns at barriers and shuffles; blocks run one after the other, whichever
 * threads of the host enqueue them, or take turns where they meet (backend/cuda/meeting.cuh beside this). A captured
 * graph is a list of things to do. Nothing here is fast.
 *
 * The environment variable RECOLLECT_EMULATED_FAILURE lets it fail: no-device, old-driver, stub, mps, busy; oom:N, no
 * memory from the Nth allocation on; lost:N, illegal:N, launch:N, broken from the Nth piece of work on (kernel, copy),
 * which, as on a GPU, whoever waits next is told. RECOLLECT_EMULATED_COUNTS names a file that is told in the end how
 * much there was: "allocations N\nworks N\nbytes N", the last at once. RECOLLECT_EMULATED_DEVICE is the architecture,
 * sm_90 if it is not set: sm_80, sm_86, sm_89, sm_100, sm_120. RECOLLECT_EMULATED_MULTIPROCESSORS is how many it has, 1
 * if it is not set: large layers are cut into so many parts. RECOLLECT_EMULATED_LAUNCHES names a file that gets a line
 * for every kernel, the types of its parameters; then no kernel is run: that shows which ones the largest steps would
 * take. RECOLLECT_EMULATED_WGMMA=none: the code is that of sm_90, whose products of wgmma trap, and not of sm_90a.
 * RECOLLECT_EMULATED_CARDS is the number of cards, 1 if it is not set; RECOLLECT_EMULATED_BYTES the memory of each.
 * RECOLLECT_EMULATED_STREAMS=late lets streams do nothing before somebody waits for them. */
#ifndef RC_EMULATION_CUDA_RUNTIME_H
#define RC_EMULATION_CUDA_RUNTIME_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <functional>
#include <typeinfo>

#define __global__
#define __device__
#define __host__
#define __shared__      static /* blocks run one after the other, each kernel's own */
#define __forceinline__ inline
#define __grid_constant__
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))

/* ---- built-in types and variables ------------------------------------------------------------------------------- */

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_)
    {
    }
};

struct alignas(16) float4 {
    float x, y, z, w;
};

struct alignas(8) float2 {
    float x, y;
};

struct alignas(8) uint2 {
    unsigned x, y;
};

struct alignas(16) uint4 {
    unsigned x, y, z, w;
};

inline float4 make_float4(float x, float y, float z, float w)
{
    return {x, y, z, w};
}

inline float2 make_float2(float x, float y)
{
    return {x, y};
}

inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w)
{
    return {x, y, z, w};
}

extern dim3 threadIdx, blockIdx, blockDim, gridDim;

inline float __expf(float x)
{
    return expf(x);
}

inline float __fdividef(float x, float y)
{
    return x / y;
}

inline float __uint_as_float(unsigned bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Four of the eight bytes of y and x, x being the lower; of each of the selector's digits three bits count. */
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector)
{
    unsigned out = 0;
    for (int i = 0; i < 4; i++) {
        unsigned from = selector >> 4 * i & 7;
        out |= ((from < 4 ? x >> 8 * from : y >> 8 * (from - 4)) & 0xff) << 8 * i;
    }
    return out;
}

inline unsigned __umulhi(unsigned x, unsigned y)
{
    return (unsigned)((uint64_t)x * y >> 32);
}

template <typename T> inline T __ldg(const T *at)
{
    return *at;
}

extern unsigned rc_emulated_slot;      /* of a block among those that run beside each other; 0: it is alone */
extern char *const rc_emulated_shared; /* what a launch asks for: as much as a block can have */

/* ---- what threads do together ----------------------------------------------------------------------------------- */

void __syncthreads();
void __syncwarp();
/* What every thread of the warp passed, one behind the other; the whole warp calls this. It holds until the thread
 * comes to the next barrier. The last thread to come calls `last`, which may change it; NULL: nothing. */
void *rc_emulated_gather(const void *mine, size_t bytes, void (*last)(void *all));

template <typename T> inline T __shfl_sync(unsigned, T x, int lane)
{
    return ((const T *)rc_emulated_gather(&x, sizeof x, NULL))[lane];
}

template <typename T> inline T __shfl_xor_sync(unsigned mask, T x, int distance)
{
    return __shfl_sync(mask, x, (int)threadIdx.x % 32 ^ distance);
}

/* The thread waits for another of its block, or for another block. */
void rc_emulated_let_threads();
void rc_emulated_let_others();

/* Bit t is set if thread t of the warp passed true; the whole warp calls this. */
unsigned __ballot_sync(unsigned, bool vote);

inline int __ffs(int x)
{
    return __builtin_ffs(x);
}

inline int __popc(unsigned x)
{
    return __builtin_popcount(x);
}

inline void __threadfence()
{
}

template <typename T> inline T __ldcg(const T *at)
{
    return *at;
}

inline unsigned atomicInc(unsigned *at, unsigned limit)
{
    unsigned before = *at;
    *at = before >= limit ? 0 : before + 1;
    return before;
}

inline int atomicAdd(int *at, int x)
{
    int before = *at;
    *at += x;
    return before;
}

/* ---- the runtime ------------------------------------------------------------------------------------------------ */

enum cudaError_t {
    cudaSuccess,
    cudaErrorInvalidValue,
    cudaErrorInvalidConfiguration,
    cudaErrorMemoryAllocation,
    cudaErrorNotReady,
    cudaErrorNoDevice,
    cudaErrorInsufficientDriver,
    cudaErrorSystemDriverMismatch,
    cudaErrorSystemNotReady,
    cudaErrorDevicesUnavailable,
    cudaErrorNoKernelImageForDevice,
    cudaErrorInvalidPtx,
    cudaErrorUnsupportedPtxVersion,
    cudaErrorLaunchTimeout,
    cudaErrorECCUncorrectable,
    cudaErrorDeviceUninitialized,
    cudaErrorContained,
    cudaErrorHardwareStackError,
    cudaErrorIllegalAddress,
    cudaErrorLaunchFailure,
    cudaErrorStreamCaptureUnjoined,
    cudaErrorStreamCaptureIsolation,
    cudaErrorUnknown,
    cudaErrorCompatNotSupportedOnDevice,
    cudaErrorStubLibrary,
    cudaErrorInitializationError,
    cudaErrorOperatingSystem,
    cudaErrorMpsConnectionFailed,
    cudaErrorMpsServerNotReady,
    cudaErrorMpsMaxClientsReached,
    cudaErrorMpsMaxConnectionsReached,
    cudaErrorMpsRpcFailure
};

enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice };
enum {
    cudaStreamNonBlocking = 1,
    cudaEventBlockingSync = 1,
    cudaEventDisableTiming = 2,
    cudaHostAllocPortable = 1,
    cudaHostAllocMapped = 2,
    cudaHostRegisterPortable = 1,
    cudaStreamCaptureModeRelaxed = 2
};
enum cudaMemPoolAttr { cudaMemPoolAttrReleaseThreshold = 4 };

typedef void (*cudaHostFn_t)(void *user);
typedef struct rc_emulated_stream *cudaStream_t;
typedef struct rc_emulated_event *cudaEvent_t;
typedef struct rc_emulated_graph *cudaGraph_t, *cudaGraphExec_t;
typedef struct rc_emulated_pool *cudaMemPool_t;

/* What runs on the host in the order of the stream: through this a library of its own can enqueue, too. */
struct rc_emulated_stream {
    cudaError_t (*host)(cudaStream_t stream, cudaHostFn_t function, void *user);
};

struct cudaUUID_t {
    char bytes[16];
};

struct cudaDeviceProp {
    char name[256];
    cudaUUID_t uuid;
    int major, minor, multiProcessorCount;
    size_t sharedMemPerBlockOptin;
};

enum { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };

struct cudaFuncAttributes {
    size_t sharedSizeBytes;
};

template <typename Kernel> inline cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, Kernel *)
{
    attributes->sharedSizeBytes = 0;
    return cudaSuccess;
}

template <typename Kernel> inline cudaError_t cudaFuncSetAttribute(Kernel *, int, int)
{
    return cudaSuccess;
}

/* As if a thread had 128 registers. */
template <typename Kernel>
inline cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, Kernel *, int threads, size_t shared)
{
    int by_registers = 512 / threads, by_shared = (int)(228 * 1024 / (shared + 1024));
    *blocks = by_registers < by_shared ? by_registers : by_shared;
    return cudaSuccess;
}

enum { cudaLaunchAttributeCooperative = 2, cudaLaunchAttributeProgrammaticStreamSerialization = 6 };

struct cudaLaunchAttribute {
    int id;
    struct {
        int programmaticStreamSerializationAllowed, cooperative;
    } val;
};

struct cudaLaunchConfig_t {
    dim3 gridDim, blockDim;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
    cudaLaunchAttribute *attrs; /* `cooperative` alone has an effect here */
    unsigned numAttrs;
};

const char *cudaGetErrorString(cudaError_t error);
const char *cudaGetErrorName(cudaError_t error);
cudaError_t cudaGetLastError();
cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int device);
enum { cudaDevAttrMpsEnabled = 133 };
cudaError_t cudaDeviceGetAttribute(int *value, int attribute, int device);
cudaError_t cudaMemGetInfo(size_t *available, size_t *total);
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device);
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void *value);
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t bytes_to_keep);
cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned flags);
cudaError_t cudaHostRegister(void *memory, size_t bytes, unsigned flags);
cudaError_t cudaHostUnregister(void *memory);
cudaError_t cudaHostGetDevicePointer(void **address, void *memory, unsigned flags);
cudaError_t cudaFreeHost(void *memory);
cudaError_t cudaMallocAsync(void **memory, size_t bytes, cudaStream_t stream);
cudaError_t cudaFreeAsync(void *memory, cudaStream_t stream);
cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *user);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, int mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *executable, cudaGraph_t graph, unsigned long long flags);
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable);

/* Tells the file of launches, if there is one, what the kernel takes. True: it does, and nothing is to be run. */
bool rc_emulated_names(const char *parameters);
/* Has a grid these sides? */
bool rc_emulated_has_grid(dim3 grid);
/* Can a block of the device have so much shared memory? */
bool rc_emulated_has_shared(size_t bytes);
/* Does it now, or adds it to the graph that is being captured. */
cudaError_t rc_emulated_enqueue(cudaStream_t stream, const std::function<void()> &work);
/* Runs `thread` once for every thread of the grid, whose blocks have asked for `shared` bytes; together: of blocks that
 * meet. */
void rc_emulated_run(dim3 grid, dim3 block, size_t shared, bool together, const std::function<void()> &thread);

template <typename... Parameters, typename... Arguments>
inline cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config, void (*kernel)(Parameters...),
                                      Arguments... arguments)
{
    dim3 grid = config->gridDim, block = config->blockDim;
    size_t shared = config->dynamicSmemBytes;
    bool together = config->numAttrs > 0 && config->attrs[0].id == cudaLaunchAttributeCooperative;
    if (!rc_emulated_has_grid(grid))
        return cudaErrorInvalidConfiguration;
    if (!rc_emulated_has_shared(shared))
        return cudaErrorInvalidValue;
    if (rc_emulated_names(typeid(kernel).name()))
        return cudaSuccess;
    return rc_emulated_enqueue(config->stream, [=]() {
        rc_emulated_run(grid, block, shared, together, [&]() { kernel(Parameters(arguments)...); });
    });
}

#endif
