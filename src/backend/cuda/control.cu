/* Control: lanes, waiting, and repeating a step.
 *
 * A lane is a stream. A step is captured once as a graph, lanes and all, and replayed from then on: launching a step of
 * hundreds of kernels costs the host a few microseconds. A graph holds addresses and the arguments of the operations,
 * so it is dropped as soon as memory is allocated or released, which every change of what a step does brings along. */
#include <stdio.h>

#include "backend/cuda/convolution/pack.h"
#include "backend/cuda/device.cuh"
#include "backend/cuda/link.h"

/* ---- lanes ----------------------------------------------------------------------------------------------------- */

void rc_cuda_order_lanes(rc_cuda *cuda, int before, int after)
{
    rc_cuda_enqueue_deferred(cuda);
    if (cuda->status == RC_OK &&
        rc_cuda_check(cuda, cudaEventRecord(cuda->passed[before], cuda->stream[before]), "ordering lanes"))
        rc_cuda_check(cuda, cudaStreamWaitEvent(cuda->stream[after], cuda->passed[before], 0), "ordering lanes");
}

static void control_fork(rc_backend *be, int lane)
{
    rc_cuda *cuda = rc_cuda_of(be);
    if (lane != 0) {
        rc_cuda_order_lanes(cuda, 0, lane);
        cuda->busy[lane] = true;
    }
    rc_cuda_enqueue_deferred(cuda);
    cuda->lane = lane;
}

static void control_join(rc_backend *be, int lane)
{
    rc_cuda *cuda = rc_cuda_of(be);
    rc_cuda_enqueue_deferred(cuda);
    cuda->lane = 0;
    if (lane == 0 || !cuda->busy[lane])
        return;
    rc_cuda_order_lanes(cuda, lane, 0);
    cuda->busy[lane] = false;
}

static void join_all(rc_backend *be)
{
    rc_cuda_enqueue_deferred(rc_cuda_of(be));
    for (int lane = 1; lane < RC_CUDA_LANES; lane++)
        control_join(be, lane);
}

/* ---- waiting --------------------------------------------------------------------------------------------------- */

/* What is nearly done is asked for a few times, some tens of microseconds; for the rest the thread sleeps: where
 * several runs share a card, a core each would be lost in waiting. */
bool rc_cuda_wait(rc_cuda *cuda, const char *doing)
{
    enum { QUERIES = 32 };
    rc_cuda_enqueue_deferred(cuda);
    if (!rc_cuda_check(cuda, cudaEventRecord(cuda->waited, cuda->stream[0]), doing))
        return false;
    cudaError_t error = cudaErrorNotReady;
    for (int i = 0; i < QUERIES && error == cudaErrorNotReady; i++)
        error = cudaEventQuery(cuda->waited);
    if (error == cudaErrorNotReady)
        error = cudaEventSynchronize(cuda->waited);
    return rc_cuda_check(cuda, error, doing);
}

static rc_status control_sync(rc_backend *be)
{
    rc_cuda *cuda = rc_cuda_of(be);
    if (cuda->status == RC_OK) {
        join_all(be);
        rc_cuda_wait(cuda, "running the enqueued operations");
    }
    if (cuda->status != RC_OK && cuda->party) /* the other processes wait in the middle of a step: this ends all */
        be->workers->fail(be->workers, cuda->message);
    if (cuda->status != RC_OK)
        cuda->host.set_message("%s", cuda->message);
    return cuda->status;
}

/* ---- repeating ------------------------------------------------------------------------------------------------- */

void rc_cuda_drop_graphs(rc_cuda *cuda)
{
    rc_cuda_enqueue_deferred(cuda); /* what has been held back may use memory that is about to go */
    for (int i = 0; i < RC_CUDA_GRAPHS; i++) {
        if (cuda->graph[i].executable)
            cudaGraphExecDestroy(cuda->graph[i].executable);
        cuda->graph[i] = rc_cuda_graph();
    }
}

static rc_cuda_graph *find_graph(rc_cuda *cuda, void (*step)(void *), const void *context)
{
    for (int i = 0; i < RC_CUDA_GRAPHS; i++)
        if (cuda->graph[i].executable && cuda->graph[i].step == step && cuda->graph[i].context == context)
            return &cuda->graph[i];
    return NULL;
}

/* Enqueues the step once into a graph, which packs every weight that is stale. NULL: an error is set. The capture is a
 * relaxed one: neither does it forbid other threads anything, nor does it mind what they do, nor that memory for a
 * weight met for the first time is taken meanwhile. */
static cudaGraph_t record(rc_cuda *cuda, void (*step)(void *), void *context)
{
    cudaGraph_t graph = NULL;
    if (!rc_cuda_check(cuda, cudaStreamBeginCapture(cuda->stream[0], cudaStreamCaptureModeRelaxed), "capturing a step"))
        return NULL;
    cuda->capturing = true;
    cuda->readings = rc_cuda_readings();
    rc_cuda_talk_anew(cuda);
    step(context);
    join_all(&cuda->table);
    rc_cuda_talk_anew(cuda);
    cuda->capturing = false;
    cudaError_t error = cudaStreamEndCapture(cuda->stream[0], &graph);
    rc_cuda_check(cuda, error, "capturing a step");
    return graph;
}

static rc_cuda_graph *capture(rc_cuda *cuda, void (*step)(void *), void *context)
{
    join_all(&cuda->table);
    if (!rc_cuda_wait(cuda, "capturing a step")) /* images may have to make room: no operation may be reading them */
        return NULL;
    rc_cuda_watch_weights(cuda);
    cudaGraph_t graph = record(cuda, step, context);
    if (graph && cuda->packs) { /* once more, now that its weights are known; nothing has been packed yet */
        cudaGraphDestroy(graph);
        rc_cuda_weights_written(cuda, NULL, SIZE_MAX);
        rc_cuda_pack_stale(cuda);
        rc_cuda_expect_changes(cuda);
        graph = record(cuda, step, context);
    }
    rc_cuda_graph *slot = &cuda->graph[cuda->next_graph];
    cudaGraphExec_t executable = NULL;
    if (cuda->status == RC_OK && rc_cuda_check(cuda, cudaGraphInstantiate(&executable, graph, 0), "building a graph")) {
        if (slot->executable)
            cudaGraphExecDestroy(slot->executable);
        *slot = rc_cuda_graph{step, context, executable, cuda->readings};
        cuda->next_graph = (cuda->next_graph + 1) % RC_CUDA_GRAPHS;
    }
    if (graph)
        cudaGraphDestroy(graph);
    return executable ? slot : NULL;
}

/* The host waits for what a step is about to read, not the device: while a batch is made and copied, the steps before
 * it run. */
static void replay(rc_cuda *cuda, rc_cuda_graph *graph, int times)
{
    if (!rc_cuda_begin_readings(cuda, &graph->readings))
        return;
    for (int i = 0; i < times && rc_cuda_bring_batches(cuda, &graph->readings, (uint32_t)i); i++)
        if (rc_cuda_check(cuda, cudaGraphLaunch(graph->executable, cuda->stream[0]), "repeating a step"))
            rc_cuda_end_reading(cuda, &graph->readings, (uint32_t)i);
}

static rc_status control_repeat(rc_backend *be, void (*step)(void *context), void *context, int times)
{
    rc_cuda *cuda = rc_cuda_of(be);
    rc_cuda_enqueue_deferred(cuda);
    if (times > 0 && cuda->status == RC_OK) {
        rc_cuda_graph *graph = find_graph(cuda, step, context);
        if (graph)
            rc_cuda_pack_stale(cuda);
        else
            graph = capture(cuda, step, context);
        if (graph)
            replay(cuda, graph, times);
        rc_cuda_weights_written(cuda, NULL, SIZE_MAX);
    }
    return control_sync(be);
}

/* ---- the rest -------------------------------------------------------------------------------------------------- */

static void control_sum_workers(rc_backend *, void *, size_t)
{
}

static void control_wait_workers(rc_backend *)
{
}

__global__ static void step_begin_kernel(rc_step *step)
{
    begin_after_kernel_before();
    step->step++;
    step->batch++;
}

static void control_step_begin(rc_backend *be, rc_step *step)
{
    rc_cuda_of(be)->readings.begun++;
    rc_cuda_launch_early(rc_cuda_of(be), "step_begin", step_begin_kernel, dim3(1), 1, 0, step);
}

void rc_cuda_fill_control(rc_cuda *cuda)
{
    rc_backend *table = &cuda->table;
    table->sync = control_sync;
    table->repeat = control_repeat;
    table->fork = control_fork;
    table->join = control_join;
    table->sum_workers = control_sum_workers;
    table->wait_workers = control_wait_workers;
    table->step_begin = control_step_begin;
}
