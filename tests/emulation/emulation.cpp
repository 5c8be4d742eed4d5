/* Fibers for threads, a heap for device memory, lists for graphs: see cuda_runtime.h. */
#include <cxxabi.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "cuda_runtime.h"

dim3 threadIdx, blockIdx, blockDim, gridDim;
alignas(16) static char shared_memory[228 * 1024];
char *const rc_emulated_shared = shared_memory;
unsigned rc_emulated_slot;

/* ---- fibers ----------------------------------------------------------------------------------------------------- */

namespace
{

enum { STACK_BYTES = 128 * 1024, MOST_THREADS = 1024, WARP = 32, MOST_PASSED = 64, LINE = 64 };

/* Bytes that nobody may write, and how many of them lie behind shared memory. */
const char FILLED = '\xff';
enum { WATCHED = 4096 };

/* Threads that came to a barrier wait until all of its group that are still alive have come. */
struct barrier {
    int arrived, alive;
    unsigned generation;
};

/* A thread. It is begun once, and runs the threads of its number of one block after the other. */
struct fiber {
    jmp_buf later; /* to go on */
    char *stack;   /* NULL: it has not been started */
    bool done;
    const barrier *awaits; /* NULL: nothing */
    unsigned generation;   /* of it, that it came with */
};

/* A block that has begun: with others beside it where blocks meet, otherwise there is one. */
struct resident {
    fiber fibers[MOST_THREADS];
    barrier of_block, of_warp[MOST_THREADS / WARP];
    /* What the threads of a warp pass to each other. Two places in turn: whoever comes to the next exchange has been let
     * go by this one, which all have come to. */
    alignas(LINE) char passed[MOST_THREADS / WARP][2][WARP * MOST_PASSED];
    dim3 index;
    bool done;
    std::vector<char> shared; /* while another one runs */
};

resident alone, *here = &alone;
bool lets_others;
jmp_buf scheduler;
const std::function<void()> *body;
int current, threads;

void arrive(barrier *b)
{
    if (b->arrived == b->alive) {
        b->arrived = 0;
        b->generation++;
    }
}

void yield()
{
    if (_setjmp(here->fibers[current].later) == 0)
        _longjmp(scheduler, 1);
}

/* The last one to come does not wait. */
void wait_at(barrier *b)
{
    fiber *f = &here->fibers[current];
    f->awaits = b;
    f->generation = b->generation;
    b->arrived++;
    arrive(b);
    if (b->generation == f->generation)
        yield();
    f->awaits = NULL;
}

void enter()
{
    for (;;) {
        (*body)();
        here->fibers[current].done = true;
        here->of_block.alive--;
        arrive(&here->of_block);
        barrier *warp = &here->of_warp[current / WARP];
        warp->alive--;
        arrive(warp);
        yield();
    }
}

/* Tops of stacks that lay whole pages apart would share a few lines of the cache. */
void start(fiber *f, int thread)
{
    ucontext_t context;
    f->stack = (char *)malloc(STACK_BYTES);
    getcontext(&context);
    context.uc_stack.ss_sp = f->stack;
    context.uc_stack.ss_size = STACK_BYTES - (size_t)(thread * 11 % 64) * LINE;
    context.uc_link = NULL;
    makecontext(&context, enter, 0);
    setcontext(&context);
}

void resume(int thread)
{
    fiber *f = &here->fibers[thread];
    current = thread;
    threadIdx = dim3((unsigned)thread, 0, 0);
    if (_setjmp(scheduler) != 0)
        return;
    if (f->stack)
        _longjmp(f->later, 1);
    start(f, thread);
}

void begin_block(dim3 index)
{
    here->index = index;
    here->done = false;
    here->of_block = {0, threads, 0};
    for (int w = 0; w * WARP < threads; w++)
        here->of_warp[w] = {0, threads - w * WARP < WARP ? threads - w * WARP : WARP, 0};
    for (int t = 0; t < threads; t++) {
        here->fibers[t].done = false;
        here->fibers[t].awaits = NULL;
    }
}

/* Until the block ends, or a thread lets others run. */
void run_block()
{
    blockIdx = here->index;
    lets_others = false;
    while (!here->done && !lets_others) {
        here->done = true;
        for (int t = 0; t < threads; t++) {
            const fiber *f = &here->fibers[t];
            if (f->done)
                continue;
            if (!f->awaits || f->awaits->generation != f->generation)
                resume(t);
            here->done = false;
        }
    }
}

} /* namespace */

void __syncthreads()
{
    wait_at(&here->of_block);
}

void __syncwarp()
{
    wait_at(&here->of_warp[current / WARP]);
}

void *rc_emulated_gather(const void *mine, size_t bytes, void (*last)(void *all))
{
    barrier *warp = &here->of_warp[current / WARP];
    char *place = here->passed[current / WARP][warp->generation % 2];
    memcpy(place + (size_t)(current % WARP) * bytes, mine, bytes);
    if (last && warp->arrived + 1 == warp->alive)
        last(place);
    wait_at(warp);
    return place;
}

unsigned __ballot_sync(unsigned, bool vote)
{
    const bool *all = (const bool *)rc_emulated_gather(&vote, sizeof vote, NULL);
    unsigned votes = 0;
    for (int lane = 0; lane < WARP; lane++)
        votes |= all[lane] ? 1u << lane : 0;
    return votes;
}

/* RECOLLECT_EMULATED_BLOCKS: `last`, where the last block is the first to run. A GPU may take any order: what a block
 * writes where another one has its own then shows. */
static std::vector<dim3> blocks_of(dim3 grid)
{
    const char *first = getenv("RECOLLECT_EMULATED_BLOCKS");
    std::vector<dim3> blocks;
    for (unsigned z = 0; z < grid.z; z++)
        for (unsigned y = 0; y < grid.y; y++)
            for (unsigned x = 0; x < grid.x; x++)
                blocks.push_back(dim3(x, y, z));
    if (first && strcmp(first, "last") == 0)
        std::reverse(blocks.begin(), blocks.end());
    return blocks;
}

/* All blocks take turns: one runs until it waits for others. */
static void run_together(const std::vector<dim3> &blocks)
{
    static std::vector<std::unique_ptr<resident>> residents;
    while (residents.size() < blocks.size())
        residents.emplace_back(new resident());
    for (size_t i = 0; i < blocks.size(); i++) {
        here = residents[i].get();
        here->shared.assign(sizeof shared_memory, 0x55);
        begin_block(blocks[i]);
    }
    for (bool left = true; left;) {
        left = false;
        for (size_t i = 0; i < blocks.size(); i++) {
            here = residents[i].get();
            if (here->done)
                continue;
            memcpy(shared_memory, here->shared.data(), sizeof shared_memory);
            rc_emulated_slot = (unsigned)i;
            run_block();
            memcpy(here->shared.data(), shared_memory, sizeof shared_memory);
            left = true;
        }
    }
    rc_emulated_slot = 0;
    here = &alone;
}

void rc_emulated_let_threads()
{
    yield();
}

void rc_emulated_let_others()
{
    lets_others = true;
    yield();
}

/* Ends the program where a byte is not as it was filled. */
static void must_be_filled(const char *bytes, size_t count, const char *behind, size_t size)
{
    for (size_t i = 0; i < count; i++)
        if (bytes[i] != FILLED) {
            fprintf(stderr, "emulation: somebody wrote behind %s of %zu bytes\n", behind, size);
            abort();
        }
}

/* What lies behind the shared memory that a block asked for is another block's on a GPU. */
void rc_emulated_run(dim3 grid, dim3 block, size_t shared, bool together, const std::function<void()> &thread)
{
    const size_t watched = std::min((size_t)WATCHED, sizeof shared_memory - shared);
    body = &thread;
    threads = (int)block.x;
    gridDim = grid;
    blockDim = block;
    std::vector<dim3> blocks = blocks_of(grid);
    if (together) {
        run_together(blocks);
        return;
    }
    memset(shared_memory + shared, FILLED, watched);
    for (dim3 index : blocks) {
        begin_block(index);
        run_block();
    }
    must_be_filled(shared_memory + shared, watched, "shared memory", shared);
}

/* ---- streams and graphs ----------------------------------------------------------------------------------------- */

/* Something to do on a stream: work, or the record of an event, or waiting for one, by the number of the record. */
struct piece {
    cudaStream_t stream;
    std::function<void()> work;
    long recorded, awaited;
    bool host; /* the work is a host function: the device does something else meanwhile */
};

struct rc_emulated_graph {
    std::vector<piece> work;
    long records;
    /* That are part of the capture: its own stream, and those that wait for an event of it. What is enqueued on others
     * meanwhile runs at once, as on a card. */
    std::set<cudaStream_t> streams;
    std::set<cudaEvent_t> events;
};

/* What a stream that runs late has not done yet. */
struct todo {
    std::deque<std::function<void()>> works;
    long enqueued, done; /* so far */
};

struct stream_with_todo : rc_emulated_stream {
    std::shared_ptr<todo> later;
};

struct rc_emulated_event {
    long record; /* in the graph that is being captured */
    std::shared_ptr<todo> of;
    long number; /* of the works of the stream that come before it */
};

struct failure {
    cudaError_t at_once, at_allocation, at_work, at_call;
    long number; /* the first that fails; of calls, that alone */
};

static failure read_failure()
{
    static const struct {
        const char *name;
        failure what;
    } list[] = {
        {"no-device", {cudaErrorNoDevice, cudaSuccess, cudaSuccess, cudaSuccess, 0}},
        {"old-driver", {cudaErrorInsufficientDriver, cudaSuccess, cudaSuccess, cudaSuccess, 0}},
        {"stub", {cudaErrorStubLibrary, cudaSuccess, cudaSuccess, cudaSuccess, 0}},
        {"mps", {cudaErrorMpsConnectionFailed, cudaSuccess, cudaSuccess, cudaSuccess, 0}},
        {"busy", {cudaErrorDevicesUnavailable, cudaSuccess, cudaSuccess, cudaSuccess, 0}},
        {"oom:", {cudaSuccess, cudaErrorMemoryAllocation, cudaSuccess, cudaSuccess, 0}},
        {"lost:", {cudaSuccess, cudaSuccess, cudaErrorECCUncorrectable, cudaSuccess, 0}},
        {"illegal:", {cudaSuccess, cudaSuccess, cudaErrorIllegalAddress, cudaSuccess, 0}},
        {"launch:", {cudaSuccess, cudaSuccess, cudaErrorLaunchFailure, cudaSuccess, 0}},
        {"call:", {cudaSuccess, cudaSuccess, cudaSuccess, cudaErrorInvalidValue, 0}},
    };
    failure none = {cudaSuccess, cudaSuccess, cudaSuccess, cudaSuccess, 0};
    const char *text = getenv("RECOLLECT_EMULATED_FAILURE");
    for (const auto &row : list)
        if (text && strncmp(text, row.name, strlen(row.name)) == 0) {
            none = row.what;
            none.number = atol(text + strlen(row.name));
        }
    return none;
}

static const failure asked = read_failure();
static long works, allocations; /* so far */
static std::atomic<long> calls;
static std::atomic<long> left; /* streams, events, graphs and blocks of memory that nobody has given back */
static size_t bytes_now, bytes_most, host_bytes;
static cudaError_t broken = cudaSuccess;

static struct teller {
    ~teller()
    {
        const char *name = getenv("RECOLLECT_EMULATED_COUNTS");
        FILE *file = name ? fopen(name, "w") : NULL;
        if (file) {
            fprintf(file, "allocations %ld\nworks %ld\nbytes %zu\nhost %zu\ncalls %ld\nleft %ld\n", allocations, works,
                    bytes_most, host_bytes, calls.load(), left.load());
            fclose(file);
        }
    }
} told_in_the_end;

/* Counts a call; true: it is the one that fails, and does nothing. RECOLLECT_EMULATED_TOLD: a file that is told which. */
static bool fails(const char *what)
{
    if (++calls != asked.number || asked.at_call == cudaSuccess)
        return false;
    const char *name = getenv("RECOLLECT_EMULATED_TOLD");
    FILE *file = name ? fopen(name, "w") : NULL;
    if (file) {
        fprintf(file, "%s\n", what);
        fclose(file);
    }
    return true;
}

template <typename Object> static Object *made(Object *object)
{
    left++;
    return object;
}

template <typename Object> static void unmake(Object *object)
{
    left -= object ? 1 : 0;
    delete object;
}

#define MAY_FAIL \
    do { \
        if (fails(__func__)) \
            return asked.at_call; \
    } while (0)

/* RECOLLECT_EMULATED_LAUNCHES: a file that is told every launch. */
static FILE *open_launches()
{
    const char *name = getenv("RECOLLECT_EMULATED_LAUNCHES");
    return name ? fopen(name, "w") : NULL;
}

static FILE *const launches = open_launches();

bool rc_emulated_names(const char *parameters)
{
    int status = 0;
    char *text = launches ? abi::__cxa_demangle(parameters, NULL, NULL, &status) : NULL;
    if (text)
        fprintf(launches, "%s\n", text);
    free(text);
    return launches != NULL;
}

static thread_local rc_emulated_graph *captured; /* by this thread of the host */
static std::mutex device;                        /* there is one, with one set of fibers */

static bool is_captured(cudaStream_t stream)
{
    return captured && captured->streams.count(stream) > 0;
}

/* RECOLLECT_EMULATED_STREAMS: `late`, where a stream does nothing before somebody waits for it: the host, or another
 * stream whose turn it is. What nobody waits for then shows: what is read before it was written, written over before it
 * was read, or gone. A stream belongs to one thread of the host at a time. */
static bool read_late()
{
    const char *when = getenv("RECOLLECT_EMULATED_STREAMS");
    return when && strcmp(when, "late") == 0;
}

static const bool late = read_late();

static const std::shared_ptr<todo> &todo_of(cudaStream_t stream)
{
    return static_cast<stream_with_todo *>(stream)->later;
}

static void run_until(const std::shared_ptr<todo> &stream, long number)
{
    while (stream && stream->done < number) {
        std::function<void()> work = stream->works.front();
        stream->works.pop_front();
        work();
        stream->done++;
    }
}

static void run_all(cudaStream_t stream)
{
    run_until(todo_of(stream), todo_of(stream)->enqueued);
}

/* At once where streams do not run late. */
static void run_in_turn(cudaStream_t stream, const std::function<void()> &work)
{
    if (late) {
        todo_of(stream)->works.push_back(work);
        todo_of(stream)->enqueued++;
    } else {
        work();
    }
}

/* The device does one thing at a time. */
static std::function<void()> alone_on_device(const std::function<void()> &work)
{
    return [=]() {
        std::lock_guard<std::mutex> alone(device);
        work();
    };
}

static cudaError_t enqueue(cudaStream_t stream, const std::function<void()> &work, bool host)
{
    if (is_captured(stream)) {
        captured->work.push_back({stream, work, 0, 0, host});
        return cudaSuccess;
    }
    if (host) {
        if (broken == cudaSuccess)
            run_in_turn(stream, work);
        return broken;
    }
    cudaError_t before, now;
    {
        std::lock_guard<std::mutex> alone(device);
        before = broken;
        if (++works >= asked.number && asked.at_work != cudaSuccess)
            broken = asked.at_work;
        now = broken;
    }
    if (now == cudaSuccess)
        run_in_turn(stream, alone_on_device(work));
    return before;
}

cudaError_t rc_emulated_enqueue(cudaStream_t stream, const std::function<void()> &work)
{
    MAY_FAIL;
    return enqueue(stream, work, false);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *user)
{
    MAY_FAIL;
    return enqueue(
        stream, [=]() { function(user); }, true);
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, int)
{
    MAY_FAIL;
    captured = made(new rc_emulated_graph());
    captured->streams.insert(stream);
    return cudaSuccess;
}

/* Does the stream that began the capture wait, at last, for everything that others have? */
static bool is_joined(const rc_emulated_graph *graph, cudaStream_t origin)
{
    std::set<cudaStream_t> awaited = {origin}; /* by the origin, in what comes later */
    std::set<long> records;
    for (auto next = graph->work.rbegin(); next != graph->work.rend(); ++next) {
        if (records.count(next->recorded) > 0)
            awaited.insert(next->stream);
        if (awaited.count(next->stream) == 0)
            return false;
        if (next->awaited > 0)
            records.insert(next->awaited);
    }
    return true;
}

cudaError_t cudaStreamEndCapture(cudaStream_t origin, cudaGraph_t *graph)
{
    if (fails(__func__)) { /* what was captured is lost */
        unmake(captured);
        captured = NULL;
        *graph = NULL;
        return asked.at_call;
    }
    bool joined = is_joined(captured, origin);
    *graph = captured;
    captured = NULL;
    return joined ? cudaSuccess : cudaErrorStreamCaptureUnjoined;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *executable, cudaGraph_t graph, unsigned long long)
{
    MAY_FAIL;
    *executable = made(new rc_emulated_graph(*graph));
    return cudaSuccess;
}

/* Streams of a graph in the order of their first pieces: that of the capture comes first. */
static std::vector<cudaStream_t> streams_of(const rc_emulated_graph *graph)
{
    std::vector<cudaStream_t> streams;
    for (const piece &next : graph->work)
        if (std::find(streams.begin(), streams.end(), next.stream) == streams.end())
            streams.push_back(next.stream);
    return streams;
}

/* An order in which a device may run a graph, where the streams that come first never wait for others without need. */
static std::vector<const piece *> order_by(const rc_emulated_graph *graph, const std::vector<cudaStream_t> &streams)
{
    std::vector<const piece *> order;
    std::vector<bool> recorded((size_t)graph->records + 1, false), taken(graph->work.size(), false);
    recorded[0] = true;
    for (bool found = true; found;) {
        found = false;
        for (size_t s = 0; s < streams.size() && !found; s++) {
            size_t i = 0;
            while (i < graph->work.size() && (taken[i] || graph->work[i].stream != streams[s]))
                i++;
            found = i < graph->work.size() && recorded[(size_t)graph->work[i].awaited];
            if (!found)
                continue;
            taken[i] = true;
            recorded[(size_t)graph->work[i].recorded] = true;
            order.push_back(&graph->work[i]);
        }
    }
    return order;
}

/* RECOLLECT_EMULATED_LANES: `first` or `last`, where the stream of the capture runs as far as it can before the others
 * do anything, or after they have done all they can. What is missing between two streams then shows. */
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream)
{
    MAY_FAIL;
    const char *lanes = getenv("RECOLLECT_EMULATED_LANES");
    cudaError_t error = broken;
    std::vector<const piece *> order;
    std::vector<cudaStream_t> streams = streams_of(executable);
    if (lanes && strcmp(lanes, "last") == 0)
        std::reverse(streams.begin(), streams.end());
    if (lanes)
        order = order_by(executable, streams);
    else
        for (const piece &next : executable->work)
            order.push_back(&next);
    for (const piece *next : order)
        if (next->work)
            enqueue(stream, next->work, next->host);
    return error;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    unmake(graph);
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable)
{
    unmake(executable);
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned)
{
    MAY_FAIL;
    *stream = made(new stream_with_todo{{cudaLaunchHostFunc}, std::make_shared<todo>()});
    return asked.at_once; /* the first that uses the device */
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    run_all(stream);
    unmake(static_cast<stream_with_todo *>(stream));
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    MAY_FAIL;
    run_all(stream);
    return broken;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned)
{
    MAY_FAIL;
    if (captured && captured->events.count(event) > 0) {
        captured->streams.insert(stream);
        captured->work.push_back({stream, nullptr, 0, event->record, false});
        return cudaSuccess;
    }
    if (is_captured(stream)) /* the event is none of the graph's */
        return cudaErrorStreamCaptureIsolation;
    const std::shared_ptr<todo> of = event->of;
    const long number = event->number;
    run_in_turn(stream, [=]() { run_until(of, number); });
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned)
{
    MAY_FAIL;
    *event = made(new rc_emulated_event());
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    unmake(event);
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    MAY_FAIL;
    if (is_captured(stream)) {
        captured->events.insert(event);
        event->record = ++captured->records;
        captured->work.push_back({stream, nullptr, event->record, 0, false});
    } else {
        event->of = todo_of(stream);
        event->number = event->of->enqueued;
    }
    return broken;
}

cudaError_t cudaEventQuery(cudaEvent_t)
{
    return cudaErrorNotReady; /* so that the program goes the longer way */
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    MAY_FAIL;
    run_until(event->of, event->number);
    return broken;
}

/* ---- memory and the device -------------------------------------------------------------------------------------- */

/* What was given back. It lies in pieces of which none fits a later request, as bad as it can be. */
static struct rc_emulated_pool {
    size_t kept;
} pool_of_device;

/* RECOLLECT_EMULATED_BYTES: the memory of the device. */
static size_t device_bytes()
{
    const char *bytes = getenv("RECOLLECT_EMULATED_BYTES");
    return bytes ? (size_t)atoll(bytes) : (size_t)1 << 34;
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int)
{
    MAY_FAIL;
    *pool = &pool_of_device;
    return cudaSuccess;
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void *)
{
    MAY_FAIL;
    return cudaSuccess;
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t bytes_to_keep)
{
    std::lock_guard<std::mutex> alone(device);
    pool->kept = std::min(pool->kept, bytes_to_keep);
    return cudaSuccess;
}

/* Filled with NaN in both types, so that what is used before it is written is noticed. Behind it lies a page that nobody
 * may touch, before it a head. The bytes up to that page are filled, too: whoever has written there ends the program when
 * the block is given back. */
enum { HEAD_BYTES = 256 };

struct head {
    void *pages;
    size_t bytes, body, all; /* asked for, with those up to the last page, and of the pages */
};

static void *take(size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t body = (bytes + 255) / 256 * 256, pages = (HEAD_BYTES + body + page - 1) / page * page;
    void *block = mmap(NULL, pages + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED || mprotect((char *)block + pages, page, PROT_NONE) != 0)
        return NULL;
    char *memory = (char *)block + pages - body;
    *(head *)(void *)(memory - HEAD_BYTES) = {block, bytes, body, pages + page};
    memset(memory, FILLED, body);
    left++;
    return memory;
}

static size_t give_back(void *memory)
{
    head h = *(head *)(void *)((char *)memory - HEAD_BYTES);
    must_be_filled((const char *)memory + h.bytes, h.body - h.bytes, "a block", h.bytes);
    munmap(h.pages, h.all);
    left--;
    return h.bytes;
}

cudaError_t cudaMallocAsync(void **memory, size_t bytes, cudaStream_t)
{
    if (fails(__func__)) {
        *memory = NULL;
        return cudaErrorMemoryAllocation;
    }
    std::lock_guard<std::mutex> alone(device);
    bool none = ++allocations >= asked.number && asked.at_allocation != cudaSuccess;
    bool full = bytes_now + pool_of_device.kept + bytes > device_bytes();
    *memory = none || full ? NULL : take(bytes);
    if (!*memory)
        return cudaErrorMemoryAllocation;
    bytes_now += bytes;
    bytes_most = bytes_now > bytes_most ? bytes_now : bytes_most;
    return cudaSuccess;
}

cudaError_t cudaFreeAsync(void *memory, cudaStream_t stream)
{
    run_in_turn(stream, alone_on_device([=]() {
                    size_t bytes = give_back(memory);
                    bytes_now -= bytes;
                    pool_of_device.kept += bytes;
                }));
    return cudaSuccess;
}

/* Memory of the host that copies which run late may read and write; {its start, its bytes}. */
static std::map<const char *, size_t> pinned;

static void pin(const void *memory, size_t bytes)
{
    std::lock_guard<std::mutex> alone(device);
    pinned[(const char *)memory] = bytes;
}

/* How many there were of it. */
static long unpin(const void *memory)
{
    std::lock_guard<std::mutex> alone(device);
    return (long)pinned.erase((const char *)memory);
}

static bool is_pinned(const void *memory)
{
    std::lock_guard<std::mutex> alone(device);
    auto after = pinned.upper_bound((const char *)memory);
    return after != pinned.begin() && (const char *)memory < std::prev(after)->first + std::prev(after)->second;
}

cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned)
{
    if (fails(__func__)) {
        *memory = NULL;
        return cudaErrorMemoryAllocation;
    }
    *memory = take(bytes);
    host_bytes += bytes;
    pin(*memory, bytes);
    return *memory ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaHostGetDevicePointer(void **address, void *memory, unsigned)
{
    MAY_FAIL;
    *address = memory;
    return cudaSuccess;
}

/* Memory of the host that was there before. It counts as an allocation, which may fail. */
cudaError_t cudaHostRegister(void *memory, size_t bytes, unsigned)
{
    MAY_FAIL;
    bool none;
    {
        std::lock_guard<std::mutex> alone(device);
        none = ++allocations >= asked.number && asked.at_allocation != cudaSuccess;
    }
    if (none)
        return cudaErrorMemoryAllocation;
    left++;
    pin(memory, bytes);
    return cudaSuccess;
}

cudaError_t cudaHostUnregister(void *memory)
{
    left -= unpin(memory);
    return cudaSuccess;
}

cudaError_t cudaFreeHost(void *memory)
{
    unpin(memory);
    give_back(memory);
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream)
{
    return launches ? cudaSuccess : rc_emulated_enqueue(stream, [=]() { memset(memory, value, bytes); });
}

/* Of memory of the host that is not pinned the bytes are taken at once, and given before the call returns. */
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream)
{
    const bool at_once = late && !is_captured(stream);
    std::function<void()> copy = [=]() { memmove(to, from, bytes); };
    if (at_once && kind == cudaMemcpyHostToDevice && !is_pinned(from)) {
        const std::vector<char> taken((const char *)from, (const char *)from + bytes);
        copy = [=]() { memcpy(to, taken.data(), bytes); };
    }
    cudaError_t error = rc_emulated_enqueue(stream, copy);
    if (at_once && kind == cudaMemcpyDeviceToHost && !is_pinned(to))
        run_all(stream);
    return error;
}

cudaError_t cudaMemGetInfo(size_t *available, size_t *total)
{
    MAY_FAIL;
    *total = device_bytes();
    *available = *total - bytes_now;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    MAY_FAIL;
    const char *cards = getenv("RECOLLECT_EMULATED_CARDS");
    *count = asked.at_once == cudaErrorNoDevice ? 0 : cards ? atoi(cards) : 1;
    bool later = asked.at_once == cudaErrorNoDevice || asked.at_once == cudaErrorDevicesUnavailable;
    return later ? cudaSuccess : asked.at_once;
}

static thread_local int chosen; /* card */

cudaError_t cudaGetDevice(int *number)
{
    MAY_FAIL;
    *number = chosen;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int number)
{
    MAY_FAIL;
    chosen = number;
    return cudaSuccess;
}

/* RECOLLECT_EMULATED_DEVICE: a card of that architecture. Where kernels are run and not only named it has one
 * multiprocessor, so that small cases reach the kernels of large ones, or RECOLLECT_EMULATED_MULTIPROCESSORS. */
static cudaDeviceProp describe(int number)
{
    static const struct {
        const char *name;
        int major, minor, multiprocessors, shared_kib;
    } known[] = {{"sm_90", 9, 0, 132, 227}, {"sm_80", 8, 0, 108, 163},   {"sm_86", 8, 6, 84, 99},
                 {"sm_89", 8, 9, 128, 99},  {"sm_100", 10, 0, 148, 227}, {"sm_120", 12, 0, 170, 99}};
    const char *wanted = getenv("RECOLLECT_EMULATED_DEVICE"), *several = getenv("RECOLLECT_EMULATED_MULTIPROCESSORS");
    int which = 0;
    for (size_t i = 0; wanted && i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, wanted) == 0)
            which = (int)i;
    cudaDeviceProp card = {"emulated on the CPU",
                           {{(char)number}},
                           known[which].major,
                           known[which].minor,
                           launches  ? known[which].multiprocessors
                           : several ? atoi(several)
                                     : 1,
                           (size_t)known[which].shared_kib * 1024};
    if (number > 0)
        snprintf(card.name, sizeof card.name, "emulated card %d", number);
    return card;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int number)
{
    MAY_FAIL;
    *properties = describe(number);
    return cudaSuccess;
}

/* RECOLLECT_EMULATED_MPS: the device is shared by MPS. */
cudaError_t cudaDeviceGetAttribute(int *value, int attribute, int)
{
    MAY_FAIL;
    *value = attribute == cudaDevAttrMpsEnabled && getenv("RECOLLECT_EMULATED_MPS");
    return cudaSuccess;
}

/* A card has at least one block, and takes at most so many but in the first direction. */
bool rc_emulated_has_grid(dim3 grid)
{
    return grid.x > 0 && grid.x <= 0x7fffffff && grid.y > 0 && grid.y <= 65535 && grid.z > 0 && grid.z <= 65535;
}

bool rc_emulated_has_shared(size_t bytes)
{
    return bytes <= describe(0).sharedMemPerBlockOptin;
}

cudaError_t cudaGetLastError()
{
    return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t error)
{
    return error == cudaErrorNoDevice ? "no card is emulated" : "emulated error";
}

const char *cudaGetErrorName(cudaError_t error)
{
    switch (error) {
    case cudaErrorInvalidConfiguration: return "cudaErrorInvalidConfiguration";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorNoDevice: return "cudaErrorNoDevice";
    case cudaErrorInsufficientDriver: return "cudaErrorInsufficientDriver";
    case cudaErrorDevicesUnavailable: return "cudaErrorDevicesUnavailable";
    case cudaErrorECCUncorrectable: return "cudaErrorECCUncorrectable";
    case cudaErrorIllegalAddress: return "cudaErrorIllegalAddress";
    case cudaErrorLaunchFailure: return "cudaErrorLaunchFailure";
    case cudaErrorStreamCaptureUnjoined: return "cudaErrorStreamCaptureUnjoined";
    case cudaErrorStreamCaptureIsolation: return "cudaErrorStreamCaptureIsolation";
    default: return "cudaErrorEmulated";
    }
}
