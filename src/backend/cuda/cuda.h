/* Inside of the CUDA backend: what its files share on the host. Nothing outside backend/cuda includes this.
 *
 * The backend is a module that the library opens at run time. It links nothing of the library: what it needs from
 * there (setting the message of a failure, writing to the log) it is given when it is opened.
 *
 * Several backends may be open at once, each used by a thread of its own, so that several runs share a card: all that
 * changes is in rc_cuda, each has streams of its own, and nothing waits for the whole device. */
#ifndef RC_BACKEND_CUDA_CUDA_H
#define RC_BACKEND_CUDA_CUDA_H

#include <cuda_runtime.h>

extern "C" {
#include "backend/backend.h"
#include "backend/module.h"
}

enum {
    RC_CUDA_CHANNELS = 8,                /* the channel multiple: 16 bytes of bf16 */
    RC_CUDA_SUM_LANE = RC_SIDE_LANE + 1, /* sums over processes (workers.cu) */
    RC_CUDA_LANES,                       /* lane 0 is the main one */
    RC_CUDA_MAX_ROWS = 512,              /* of `partial` */
    RC_CUDA_GRAPHS = 8,                  /* captured steps that are kept */
    RC_CUDA_READINGS = 4,                /* of supplied images, in a step */
    RC_CUDA_BROUGHT = 2,                 /* batches of them on the device: one is read, one is copied */
    RC_CUDA_TICKETS = 16,                /* of a lane: blocks count themselves with them */
    RC_CUDA_MEETING = 32                 /* words of a lane, for the blocks of a kernel that meet (meeting.cuh) */
};

struct rc_cuda_block;  /* one allocation (memory.cu) */
struct rc_cuda_images; /* one data set (images.cu) */
struct rc_cuda_feed;   /* one order of its images (feed.cu) */

/* What kernels know of images that are supplied, in device memory. */
typedef struct rc_cuda_fed {
    const unsigned char *images;      /* all of them, or the batches that were brought: (RC_CUDA_BROUGHT, n, bytes) */
    const unsigned char *const *more; /* the address of those behind them */
    int count;
    int brought; /* otherwise `images` are all */
} rc_cuda_fed;

/* A step reads n images of an order, at the batch that `step` says after step_begin was called `begun` times. */
typedef struct rc_cuda_reading {
    struct rc_cuda_feed *feed;
    const rc_step *step;
    int n;
    uint32_t begun;
    rc_step now; /* when repeat() begins */
} rc_cuda_reading;

typedef struct rc_cuda_readings {
    int count;
    uint32_t begun; /* calls of step_begin */
    rc_cuda_reading of[RC_CUDA_READINGS];
} rc_cuda_readings;

/* A captured step: repeat() replays it as long as nothing has been allocated or released since. */
typedef struct rc_cuda_graph {
    void (*step)(void *context);
    void *context;
    cudaGraphExec_t executable;
    rc_cuda_readings readings;
} rc_cuda_graph;

/* Small steps of one kind for many layers, which become one kernel: no operation needs the first result before the
 * last step is enqueued (norm.cu). */
typedef struct rc_cuda_norm_job {
    int c, cp, groups;
    double samples;
    const void *partial; /* statistics from sums: with `center`, to `mean` and `var` */
    const float *center;
    float *mean, *var;
    const float *scale, *dmean, *dvar, *batch_mean; /* coefficients of a frozen layer's gradient: to a, b, c */
    float *a, *b, *coefficient_c;
} rc_cuda_norm_job;

enum { RC_CUDA_NORM_JOBS = 40 };

typedef struct rc_cuda_norms {
    int count;
    rc_cuda_norm_job job[RC_CUDA_NORM_JOBS];
} rc_cuda_norms;

/* A convolution that waits for its normalisation to join it (conv_launch.cuh), or for who reads its result finished
 * (conv_plain.h). */
typedef struct rc_cuda_held {
    const void *partial; /* of the normalisation it waits for */
    void *norm;          /* where that goes, in the arguments, */
    unsigned **tickets;  /* and what says that it is there */
    bool backward;       /* which of the two */
    void *sink;          /* in the arguments of a kernel that can write its result finished; NULL: there is none, */
    const void *read[2]; /* and where that reads, so many bytes; NULL: nowhere */
    size_t read_bytes;
    const char *operation;
    void (*kernel)(void);
    dim3 grid;
    int threads;
    size_t shared_bytes;
    bool early;
    alignas(16) char arguments[3072];
} rc_cuda_held;

typedef struct rc_cuda {
    rc_backend table; /* first, so that an rc_backend * is an rc_cuda * */
    rc_module_host host;
    bool bf16;  /* activations; otherwise float */
    bool wgmma; /* the card has the products of product/wgmma.cuh, and the code, too: sm_90 alone */
    bool early; /* kernels may begin while the one before ends: sm_90 and newer */
    bool meets; /* blocks of a kernel may wait for one another: no other process has kernels beside it (MPS) */
    int multiprocessors;
    int shared_bytes; /* that a block can have */
    char device_name[64], isa[24], uuid[16];

    cudaStream_t stream[RC_CUDA_LANES];
    cudaStream_t supply;                       /* orders what memory does; never captured */
    cudaEvent_t passed[RC_CUDA_LANES], waited; /* passed: what a lane held when another was to wait for it */
    bool busy[RC_CUDA_LANES];                  /* forked to and not joined since */
    int lane;                                  /* where operations are enqueued */
    bool capturing;                            /* then nothing runs that was enqueued here */
    rc_cuda_graph graph[RC_CUDA_GRAPHS];
    int next_graph;            /* the one that makes room */
    rc_cuda_readings readings; /* of the step that is captured */

    cudaMemPool_t pool; /* the device's, shared with the other backends of the process */
    struct rc_cuda_block *blocks;
    struct rc_cuda_images *images;
    size_t bytes, limit_bytes;      /* held, and at most; limit 0: what the device has */
    unsigned *tickets;              /* (lanes, RC_CUDA_TICKETS): see last_block() in losses.cuh; */
    unsigned *meetings;             /* (lanes, RC_CUDA_MEETING), behind them */
    void *workspace[RC_CUDA_LANES]; /* of the operation that runs on the lane */
    size_t workspace_bytes[RC_CUDA_LANES];

    struct rc_cuda_packs *packs; /* weights as the tensor cores take them (pack.h) */

    struct rc_cuda_party *party; /* one of several processes (workers.cu); NULL: not so */
    struct rc_cuda_talks *talks; /* with the others (link.cu) */

    rc_cuda_norms norms;                /* normalisations that wait for more of their kind */
    rc_cuda_held held;                  /* a convolution that waits */
    void (*deferred)(struct rc_cuda *); /* enqueues them: called before anything else is; NULL: none wait */

    rc_status status; /* sticky; comes out of sync() */
    char message[RC_MESSAGE_SIZE];
} rc_cuda;

static inline rc_cuda *rc_cuda_of(rc_backend *backend)
{
    return (rc_cuda *)backend;
}

/* Enqueues what has been held back. */
static inline void rc_cuda_enqueue_deferred(rc_cuda *cuda)
{
    void (*deferred)(rc_cuda *) = cuda->deferred;
    cuda->deferred = NULL;
    if (deferred)
        deferred(cuda);
}

/* Where the next operation is enqueued. */
static inline cudaStream_t rc_cuda_stream(rc_cuda *cuda)
{
    rc_cuda_enqueue_deferred(cuda);
    return cuda->stream[cuda->lane];
}

static inline int rc_cuda_padded(int c)
{
    return (c + RC_CUDA_CHANNELS - 1) / RC_CUDA_CHANNELS * RC_CUDA_CHANNELS;
}

/* The most rows that `partial` of a tensor of so many pixels holds (see device.cuh). */
static inline int rc_cuda_partial_rows(int pixels)
{
    return pixels < RC_CUDA_MAX_ROWS ? pixels : RC_CUDA_MAX_ROWS;
}

/* ---- errors (error.cu) ------------------------------------------------------------------------------------------ */

/* Keeps the first failure for sync(): what was being done, what went wrong, what the user can do about it. */
void rc_cuda_set_error(rc_cuda *cuda, cudaError_t error, const char *doing);
/* The same as a status with its message, for functions that return one. */
rc_status rc_cuda_fail(const rc_cuda *cuda, cudaError_t error, const char *doing);

static inline bool rc_cuda_check(rc_cuda *cuda, cudaError_t error, const char *doing)
{
    if (error != cudaSuccess)
        rc_cuda_set_error(cuda, error, doing);
    return error == cudaSuccess;
}

/* One lane waits for all that another holds so far (control.cu). */
void rc_cuda_order_lanes(rc_cuda *cuda, int before, int after);

/* Drops every captured step: what it refers to may be gone (control.cu). */
void rc_cuda_drop_graphs(rc_cuda *cuda);

/* The host waits for all that lane 0 holds (control.cu). False: an error is set. */
bool rc_cuda_wait(rc_cuda *cuda, const char *doing);

/* Memory of the backend's own, counted like the others' (memory.cu); captured steps stay. Where there is none left,
 * images make room; _free leaves them where they are. */
rc_status rc_cuda_take(rc_cuda *cuda, size_t bytes, void **memory);
rc_status rc_cuda_take_free(rc_cuda *cuda, size_t bytes, void **memory);
void rc_cuda_give_back(rc_cuda *cuda, void *memory);

/* Images (images.cu). find: NULL for memory that is no handle of images. move: one data set from the device to the
 * host; false if there is none, or no room for it there. */
struct rc_cuda_images *rc_cuda_find_images(const rc_cuda *cuda, const void *handle);
void rc_cuda_release_images(rc_cuda *cuda, struct rc_cuda_images *images);
bool rc_cuda_move_images(rc_cuda *cuda);

/* Supplied images (feed.cu). They lie on the device, or come batch by batch: then `resident` is NULL. open: `lent` must
 * have a supply; show: where all of them are now. */
struct rc_cuda_supplied;
rc_status rc_cuda_open_supplied(rc_cuda *cuda, const rc_lent_images *lent, const void *more,
                                struct rc_cuda_supplied **supplied);
void rc_cuda_close_supplied(rc_cuda *cuda, struct rc_cuda_supplied *supplied);
void rc_cuda_show_supplied(rc_cuda *cuda, struct rc_cuda_supplied *supplied, const void *resident);
rc_status rc_cuda_expect_supplied(rc_cuda *cuda, struct rc_cuda_supplied *supplied, const int32_t *order, size_t count,
                                  const rc_image_view *view);
/* For a kernel that reads n images of that order. NULL: an error is set. */
const rc_cuda_fed *rc_cuda_read_supplied(rc_cuda *cuda, struct rc_cuda_supplied *supplied, const int32_t *order, int n,
                                         const rc_step *step);
/* Those of a handle; NULL: it has none (images.cu). */
struct rc_cuda_supplied *rc_cuda_supplied_of(const struct rc_cuda_images *images);
/* Around repetition i of a captured step: which batches it will read, bringing them, and that it is enqueued. False: an
 * error is set. */
bool rc_cuda_begin_readings(rc_cuda *cuda, rc_cuda_readings *readings);
bool rc_cuda_bring_batches(rc_cuda *cuda, const rc_cuda_readings *readings, uint32_t i);
void rc_cuda_end_reading(rc_cuda *cuda, const rc_cuda_readings *readings, uint32_t i);

/* Every operation that writes to memory that may hold weights calls this: copies of the weights in another form are
 * made anew before their next use (pack.cu). */
void rc_cuda_weights_written(rc_cuda *cuda, const void *memory, size_t bytes);

/* ---- workspace (memory.cu) -------------------------------------------------------------------------------------- */

/* Grows the workspace of every lane to at least this size; contents are lost. On failure it has the size it had. Called
 * by the reserve functions while passes are built, never in a step. _beside: the side lane needs `side_bytes` alone. */
rc_status rc_cuda_reserve(rc_cuda *cuda, size_t bytes);
rc_status rc_cuda_reserve_beside(rc_cuda *cuda, size_t bytes, size_t side_bytes);

/* The workspace of the current lane, 256-byte aligned; an operation that needs more than was reserved is a mistake,
 * which sync() reports: NULL then, and the operation enqueues nothing. */
void *rc_cuda_workspace(rc_cuda *cuda, size_t bytes, const char *operation);

/* Gives back every allocation, images and the workspace too. */
void rc_cuda_release_all(rc_cuda *cuda);

/* ---- launching --------------------------------------------------------------------------------------------------
 * rc_cuda_launch(cuda, "bn_train", kernel<Act>, grid, threads, shared_bytes, arguments...) enqueues on the current
 * lane. After a failure nothing is enqueued any more. */
template <typename... Parameters, typename... Arguments>
static void rc_cuda_launch_with(rc_cuda *cuda, cudaLaunchAttribute *attribute, const char *operation,
                                void (*kernel)(Parameters...), dim3 grid, int threads, size_t shared_bytes,
                                Arguments... arguments)
{
    if (cuda->status != RC_OK)
        return;
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = dim3((unsigned)threads);
    config.dynamicSmemBytes = shared_bytes;
    config.stream = rc_cuda_stream(cuda);
    config.attrs = attribute;
    config.numAttrs = attribute ? 1 : 0;
    rc_cuda_check(cuda, cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...), operation);
}

template <typename... Parameters, typename... Arguments>
static void rc_cuda_launch_as(rc_cuda *cuda, bool early, const char *operation, void (*kernel)(Parameters...),
                              dim3 grid, int threads, size_t shared_bytes, Arguments... arguments)
{
    cudaLaunchAttribute overlap = {};
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
    rc_cuda_launch_with(cuda, early && cuda->early ? &overlap : NULL, operation, kernel, grid, threads, shared_bytes,
                        arguments...);
}

/* For kernels whose blocks meet (meeting.cuh): they begin once all of their blocks have room. */
template <typename... Parameters, typename... Arguments>
static void rc_cuda_launch_together(rc_cuda *cuda, const char *operation, void (*kernel)(Parameters...), dim3 grid,
                                    int threads, size_t shared_bytes, Arguments... arguments)
{
    cudaLaunchAttribute together = {};
    together.id = cudaLaunchAttributeCooperative;
    together.val.cooperative = 1;
    rc_cuda_launch_with(cuda, &together, operation, kernel, grid, threads, shared_bytes, arguments...);
}

template <typename... Parameters, typename... Arguments>
static void rc_cuda_launch(rc_cuda *cuda, const char *operation, void (*kernel)(Parameters...), dim3 grid, int threads,
                           size_t shared_bytes, Arguments... arguments)
{
    rc_cuda_launch_as(cuda, false, operation, kernel, grid, threads, shared_bytes, arguments...);
}

/* For kernels that call wait_for_kernel_before() (device.cuh): they may begin while the kernel before still runs. */
template <typename... Parameters, typename... Arguments>
static void rc_cuda_launch_early(rc_cuda *cuda, const char *operation, void (*kernel)(Parameters...), dim3 grid,
                                 int threads, size_t shared_bytes, Arguments... arguments)
{
    rc_cuda_launch_as(cuda, true, operation, kernel, grid, threads, shared_bytes, arguments...);
}

/* ---- several processes ------------------------------------------------------------------------------------------ */

/* The entry join_workers, and the end of it (workers.cu). */
rc_status rc_cuda_join_workers(rc_backend *backend, struct rc_workers *workers);
void rc_cuda_leave_workers(rc_cuda *cuda);
/* A capture begins or ends: what is enqueued from here on waits for no talk before (link.cu). */
void rc_cuda_talk_anew(rc_cuda *cuda);

/* ---- the table, theme by theme ---------------------------------------------------------------------------------- */

void rc_cuda_fill_memory(rc_cuda *cuda);
void rc_cuda_fill_images(rc_cuda *cuda);
void rc_cuda_fill_control(rc_cuda *cuda);
void rc_cuda_fill_conv(rc_cuda *cuda);
void rc_cuda_fill_depthwise(rc_cuda *cuda);
void rc_cuda_fill_linear(rc_cuda *cuda);
void rc_cuda_fill_norm(rc_cuda *cuda);
void rc_cuda_fill_copy(rc_cuda *cuda);
void rc_cuda_fill_pool(rc_cuda *cuda);
void rc_cuda_fill_dense(rc_cuda *cuda);
void rc_cuda_fill_logit_losses(rc_cuda *cuda);
void rc_cuda_fill_feature_losses(rc_cuda *cuda);
void rc_cuda_fill_relation_losses(rc_cuda *cuda);
void rc_cuda_fill_image_losses(rc_cuda *cuda);
void rc_cuda_fill_latent(rc_cuda *cuda);
void rc_cuda_fill_statistics(rc_cuda *cuda);
void rc_cuda_fill_data(rc_cuda *cuda);
void rc_cuda_fill_optimiser(rc_cuda *cuda);
void rc_cuda_fill_measure(rc_cuda *cuda);

#endif
