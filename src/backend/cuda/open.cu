/* Opening and closing of the CUDA backend: the one function that the module exports. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/convolution/pack.h"
#include "backend/cuda/product/wgmma.cuh"

static void cuda_destroy(rc_backend *be)
{
    rc_cuda *cuda = rc_cuda_of(be);
    rc_cuda_drop_graphs(cuda);
    rc_cuda_leave_workers(cuda);
    rc_cuda_release_all(cuda);
    rc_cuda_destroy_packs(cuda);
    if (cuda->pool) { /* what no other backend holds goes back to the device */
        cudaStreamSynchronize(cuda->supply);
        cudaMemPoolTrimTo(cuda->pool, 0);
    }
    for (int lane = 0; lane < RC_CUDA_LANES; lane++) {
        if (cuda->passed[lane])
            cudaEventDestroy(cuda->passed[lane]);
        if (cuda->stream[lane])
            cudaStreamDestroy(cuda->stream[lane]);
    }
    if (cuda->waited)
        cudaEventDestroy(cuda->waited);
    if (cuda->supply)
        cudaStreamDestroy(cuda->supply);
    free(cuda);
}

/* The streams, and the pool of the device that memory comes from (memory.cu). */
static cudaError_t make_streams(rc_cuda *cuda, int device)
{
    cudaError_t error = cudaEventCreateWithFlags(&cuda->waited, cudaEventDisableTiming | cudaEventBlockingSync);
    for (int lane = 0; lane < RC_CUDA_LANES && error == cudaSuccess; lane++) {
        error = cudaStreamCreateWithFlags(&cuda->stream[lane], cudaStreamNonBlocking);
        if (error == cudaSuccess)
            error = cudaEventCreateWithFlags(&cuda->passed[lane], cudaEventDisableTiming);
    }
    if (error == cudaSuccess)
        error = cudaStreamCreateWithFlags(&cuda->supply, cudaStreamNonBlocking);
    if (error == cudaSuccess)
        error = cudaDeviceGetDefaultMemPool(&cuda->pool, device);
    unsigned long long keep = ULLONG_MAX; /* what is given back stays in the pool: to hand it on would stop everybody */
    if (error == cudaSuccess)
        error = cudaMemPoolSetAttribute(cuda->pool, cudaMemPoolAttrReleaseThreshold, &keep);
    return error;
}

/* Processes that were started together on one machine take its cards in turn, as far as they see more than one. */
static int place_on_machine()
{
    static const char *const names[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *text = getenv(names[i]);
        long place = text ? strtol(text, NULL, 10) : 0;
        if (place > 0 && place < INT_MAX)
            return (int)place;
    }
    return 0;
}

/* Finds the device and makes the streams. */
static rc_status open_device(rc_cuda *cuda)
{
    int count = 0, device = 0, several = 0;
    cudaDeviceProp properties;
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error == cudaSuccess && count == 0)
        error = cudaErrorNoDevice;
    if (error == cudaSuccess && count > 1 && place_on_machine() > 0)
        error = cudaSetDevice(place_on_machine() % count);
    if (error == cudaSuccess)
        error = cudaGetDevice(&device);
    if (error == cudaSuccess)
        error = cudaGetDeviceProperties(&properties, device);
    if (error == cudaSuccess)
        error = cudaDeviceGetAttribute(&several, cudaDevAttrMpsEnabled, device);
    if (error != cudaSuccess)
        return rc_cuda_fail(cuda, error, "looking for a GPU");
    if (properties.major < 8) {
        cuda->host.set_message("cuda: %s has compute capability %d.%d, expected 8.0 or newer; use backend cpu",
                               properties.name, properties.major, properties.minor);
        return RC_UNSUPPORTED;
    }
    cuda->meets = !several;
    cuda->multiprocessors = properties.multiProcessorCount;
    cuda->shared_bytes = (int)properties.sharedMemPerBlockOptin;
    cuda->early = properties.major >= 9;
    cuda->wgmma = properties.major == 9;
    memcpy(cuda->uuid, &properties.uuid, sizeof cuda->uuid);
    snprintf(cuda->device_name, sizeof cuda->device_name, "%.63s", properties.name);
    snprintf(cuda->isa, sizeof cuda->isa, "sm_%d%d %s", properties.major, properties.minor,
             cuda->bf16 ? "bf16" : "fp32");
    error = make_streams(cuda, device);
    return error == cudaSuccess ? RC_OK : rc_cuda_fail(cuda, error, "opening the GPU");
}

/* What small operations use without a reserve, and the tickets of the lanes. */
static rc_status take_memory(rc_cuda *cuda)
{
    enum { LEAST_WORKSPACE = 1 << 20 };
    void *tickets;
    size_t bytes = RC_CUDA_LANES * (RC_CUDA_TICKETS + RC_CUDA_MEETING) * sizeof *cuda->tickets;
    rc_status status = cuda->table.alloc(&cuda->table, bytes, &tickets);
    cuda->tickets = (unsigned *)tickets;
    cuda->meetings = cuda->tickets + RC_CUDA_LANES * RC_CUDA_TICKETS;
    return status == RC_OK ? rc_cuda_reserve(cuda, LEAST_WORKSPACE) : status;
}

/* What the code has that the card runs, which may be that of an older one. */
struct card_code {
    int waits;    /* for the kernel before: wait_for_kernel_before() is something */
    int products; /* wgmma.cuh */
};

__global__ static void ask_kernel(card_code *code)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
    code->waits = false;
#else
    code->waits = true;
#endif
    code->products = has_products();
}

/* The first kernel, so that who has no code for the card hears of it now. What the driver compiles of the PTX for sm_80
 * on newer cards does not wait; the code of sm_90 has no wgmma. */
static rc_status ask_card(rc_cuda *cuda)
{
    static const char operation[] = "opening the GPU";
    card_code code = {}, *answer = (card_code *)rc_cuda_workspace(cuda, sizeof *answer, operation);
    rc_cuda_launch(cuda, operation, ask_kernel, dim3(1), 1, 0, answer);
    cuda->table.read_bytes(&cuda->table, &code, answer, sizeof code);
    cuda->early = cuda->early && code.waits;
    if (cuda->wgmma && !code.products) {
        cuda->wgmma = false;
        snprintf(cuda->isa, sizeof cuda->isa, "sm_90 %s no wgmma", cuda->table.about.precision);
    }
    return cuda->table.sync(&cuda->table);
}

/* One training run leaves a tenth of a GPU idle in some of its stages, which one more takes; five were seen to gain
 * nothing. Small layers keep few of its tensor cores busy, so that they stay far below the peak. */
static void describe(rc_cuda *cuda)
{
    enum { RUNS_AT_ONCE = 2 };
    rc_backend_about *about = &cuda->table.about;
    about->name = "cuda";
    about->isa = cuda->isa;
    about->device = cuda->device_name;
    about->precision = cuda->bf16 ? "bf16" : "fp32";
    about->judge = "cpu";
    about->threads = 1;
    about->runs_at_once = RUNS_AT_ONCE;
    about->device_memory = about->device_shared = about->asynchronous = true;
    about->more_checks = about->fuses = true;
}

static void fill_table(rc_cuda *cuda)
{
    rc_backend *table = &cuda->table;
    describe(cuda);
    table->channel_multiple = RC_CUDA_CHANNELS;
    table->act_bytes = cuda->bf16 ? 2 : sizeof(float);
    table->real_bytes = sizeof(float);
    table->lanes = RC_CUDA_LANES;
    table->busy_bytes = 32 << 20;
    table->keeps_taps = true;
    table->destroy = cuda_destroy;
    table->join_workers = rc_cuda_join_workers;
    rc_cuda_fill_memory(cuda);
    rc_cuda_fill_images(cuda);
    rc_cuda_fill_control(cuda);
    rc_cuda_fill_conv(cuda);
    rc_cuda_fill_depthwise(cuda);
    rc_cuda_fill_linear(cuda);
    rc_cuda_fill_norm(cuda);
    rc_cuda_fill_copy(cuda);
    rc_cuda_fill_pool(cuda);
    rc_cuda_fill_dense(cuda);
    rc_cuda_fill_logit_losses(cuda);
    rc_cuda_fill_feature_losses(cuda);
    rc_cuda_fill_relation_losses(cuda);
    rc_cuda_fill_image_losses(cuda);
    rc_cuda_fill_latent(cuda);
    rc_cuda_fill_statistics(cuda);
    rc_cuda_fill_data(cuda);
    rc_cuda_fill_optimiser(cuda);
    rc_cuda_fill_measure(cuda);
}

/* What the library looks for by the name RC_MODULE_OPEN. */
extern "C" __attribute__((visibility("default"))) rc_module_open rc_cuda_open;

rc_status rc_cuda_open(const rc_module_host *host, const rc_module_settings *settings, rc_backend **backend)
{
    *backend = NULL;
    if (host->table_bytes != sizeof(rc_backend) || strcmp(host->version, RC_MODULE_VERSION) != 0) {
        host->set_message("cuda: the module is of version %s, the library of version %s; build and install them "
                          "together",
                          RC_MODULE_VERSION, host->version);
        return RC_UNSUPPORTED;
    }
    bool bf16 = strcmp(settings->precision, "bf16") == 0;
    if (!bf16 && strcmp(settings->precision, "fp32") != 0) {
        host->set_message("cuda: precision is '%s', expected bf16 or fp32", settings->precision);
        return RC_INVALID_ARGUMENT;
    }
    rc_cuda *cuda = (rc_cuda *)calloc(1, sizeof *cuda);
    if (!cuda) {
        host->set_message("out of memory for %zu bytes", sizeof *cuda);
        return RC_OUT_OF_MEMORY;
    }
    cuda->host = *host;
    cuda->bf16 = bf16;
    cuda->limit_bytes = settings->device_memory;
    cuda->status = RC_OK;
    rc_status status = open_device(cuda);
    if (status == RC_OK) {
        fill_table(cuda);
        status = take_memory(cuda);
    }
    if (status == RC_OK)
        status = ask_card(cuda);
    if (status != RC_OK) {
        cuda_destroy(&cuda->table);
        return status;
    }
    if (host->log.write && host->log.level <= RC_LOG_INFO) {
        char line[RC_LOG_LINE_SIZE];
        snprintf(line, sizeof line, "backend cuda: %s, %s, %d multiprocessors", cuda->device_name, cuda->isa,
                 cuda->multiprocessors);
        host->log.write(host->log.user, RC_LOG_INFO, line);
    }
    *backend = &cuda->table;
    return RC_OK;
}
