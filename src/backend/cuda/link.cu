/* Two ways for bytes to get from GPU to GPU:
 *
 *   NCCL           where every process has a card of its own and finds libnccl.so.2, which is opened at run time
 *   host memory    otherwise: a copy to pinned memory, a host function that calls the MPI module, a copy back
 *
 * Of NCCL only calls that move bytes are used. It has sums of its own, but their order is up to the library.
 *
 * The lanes of a step may all have something to say. Each talk waits for the one before it, whatever its lane, so that
 * all processes talk in the order in which they enqueue: MPI and a communicator of NCCL ask for that. Gradients, which
 * have a lane of their own, have no communicator of their own for the same reason: two communicators may wait for each
 * other on two cards unless both run at once, which a graph does not promise. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/link.h"

/* ---- NCCL: the part of its interface that is used (nccl.h of version 2) ----------------------------------------- */

enum { NCCL_BYTE = 0, NCCL_LEAST_VERSION = 20906 /* captures */ };

struct nccl_id {
    char internal[128];
};

typedef struct nccl {
    int (*version)(int *version);
    const char *(*explain)(int result);
    int (*make_id)(nccl_id *id);
    int (*connect)(void **comm, int count, nccl_id id, int index);
    int (*disconnect)(void *comm);
    int (*all_gather)(const void *mine, void *all, size_t count, int type, void *comm, cudaStream_t stream);
    int (*send)(const void *from, size_t count, int type, int peer, void *comm, cudaStream_t stream);
    int (*receive)(void *to, size_t count, int type, int peer, void *comm, cudaStream_t stream);
    int (*begin_group)(void);
    int (*end_group)(void);
} nccl;

template <typename Function> static bool find(void *library, const char *name, Function *function)
{
    void *symbol = dlsym(library, name);
    static_assert(sizeof symbol == sizeof *function, "addresses of functions are those of objects");
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

/* False: there is no NCCL, or one that cannot be captured. Buffers of captured steps are not registered: they come from
 * a pool, whose memory other processes cannot map. */
static bool open_nccl(nccl *calls, int *version)
{
    setenv("NCCL_GRAPH_REGISTER", "0", 0);
    const char *wanted = getenv("RECOLLECT_NCCL_LIBRARY"), *name = wanted && wanted[0] ? wanted : "libnccl.so.2";
    void *library = strcmp(name, "none") != 0 ? dlopen(name, RTLD_NOW | RTLD_LOCAL) : NULL; /* stays open */
    return library && find(library, "ncclGetVersion", &calls->version) &&
           find(library, "ncclGetErrorString", &calls->explain) && find(library, "ncclGetUniqueId", &calls->make_id) &&
           find(library, "ncclCommInitRank", &calls->connect) && find(library, "ncclCommDestroy", &calls->disconnect) &&
           find(library, "ncclAllGather", &calls->all_gather) && find(library, "ncclSend", &calls->send) &&
           find(library, "ncclRecv", &calls->receive) && find(library, "ncclGroupStart", &calls->begin_group) &&
           find(library, "ncclGroupEnd", &calls->end_group) && calls->version(version) == 0 &&
           *version >= NCCL_LEAST_VERSION;
}

typedef struct talk_kind {
    bool scatter; /* otherwise every process's block goes to all */
    size_t bytes, total;
} talk_kind;

static size_t length_of(const talk_kind *kind, int process)
{
    size_t first = (size_t)process * kind->bytes;
    size_t left = kind->total > first ? kind->total - first : 0;
    return left < kind->bytes ? left : kind->bytes;
}

/* To every other process its block, or the own block to every other process; empty ones do not travel. */
static int talk_in_blocks(const nccl *calls, void *comm, const rc_workers *workers, const talk_kind *kind,
                          const void *from, void *to, cudaStream_t stream)
{
    size_t own = length_of(kind, workers->index);
    int result = calls->begin_group();
    for (int i = 0; i < workers->count && result == 0; i++) {
        if (i == workers->index)
            continue;
        size_t at = (size_t)i * kind->bytes, other = length_of(kind, i);
        size_t out = kind->scatter ? other : own, in = kind->scatter ? own : other;
        if (out > 0)
            result = calls->send((const char *)from + (kind->scatter ? at : 0), out, NCCL_BYTE, i, comm, stream);
        if (in > 0 && result == 0)
            result = calls->receive((char *)to + at, in, NCCL_BYTE, i, comm, stream);
    }
    int ended = calls->end_group();
    return result ? result : ended;
}

/* ---- connecting ------------------------------------------------------------------------------------------------- */

/* Belongs to the table of the processes, and so outlives backends: to connect takes a while. */
typedef struct cuda_link {
    nccl calls;
    void *comm; /* NULL: through host memory */
} cuda_link;

static void drop_link(void *kept)
{
    cuda_link *link = (cuda_link *)kept;
    if (link->comm)
        link->calls.disconnect(link->comm);
    free(link);
}

/* What a process shows to the others. */
typedef struct card {
    char uuid[16];
    int has_nccl;
    int result; /* of connecting */
} card;

static const char *why_not(const card *cards, int count)
{
    for (int i = 0; i < count; i++)
        for (int j = 0; j < i; j++)
            if (memcmp(cards[i].uuid, cards[j].uuid, sizeof cards[i].uuid) == 0)
                return "processes share a GPU";
    for (int i = 0; i < count; i++)
        if (!cards[i].has_nccl)
            return "NCCL was not found, or is too old";
    return NULL;
}

/* The first failure of all processes; 0: none. */
static int first_failure(rc_workers *workers, card *mine, int result, card *cards)
{
    mine->result = result;
    workers->gather(workers, mine, cards, sizeof *mine);
    for (int i = 0; i < workers->count; i++)
        if (cards[i].result)
            return cards[i].result;
    return 0;
}

enum { FIRST_TALK = 256, UNHANDLED = 1 /* what NCCL calls an error of CUDA */ };

/* NCCL makes its channels when they are first used, which must not be while a step is captured. `space` has two blocks
 * of every process. */
static int talk_once(const rc_cuda *cuda, const cuda_link *link, void *comm, void *space)
{
    const rc_workers *workers = cuda->table.workers;
    const talk_kind kind = {true, FIRST_TALK, FIRST_TALK * (size_t)workers->count};
    cudaStream_t stream = cuda->stream[RC_MAIN_LANE];
    char *other = (char *)space + kind.total;
    int result = link->calls.all_gather(space, other, kind.bytes, NCCL_BYTE, comm, stream);
    if (result == 0)
        result = talk_in_blocks(&link->calls, comm, workers, &kind, space, other, stream);
    return cudaStreamSynchronize(stream) != cudaSuccess && result == 0 ? UNHANDLED : result;
}

/* All processes, or none. */
static const char *connect(rc_cuda *cuda, cuda_link *link, card *mine, card *cards)
{
    rc_workers *workers = cuda->table.workers;
    struct {
        int result;
        nccl_id id;
    } said = {};
    void *comm = NULL;
    if (workers->index == 0)
        said.result = link->calls.make_id(&said.id);
    workers->lead(workers, &said, sizeof said);
    int result = said.result ? said.result : link->calls.connect(&comm, workers->count, said.id, workers->index);
    bool connected = result == 0;
    void *space = NULL;
    if (connected && rc_cuda_take(cuda, 2 * FIRST_TALK * (size_t)workers->count, &space) != RC_OK)
        result = UNHANDLED; /* the others must know before they talk: they would wait */
    int failed = first_failure(workers, mine, result, cards);
    if (!failed)
        failed = first_failure(workers, mine, talk_once(cuda, link, comm, space), cards);
    if (space)
        rc_cuda_give_back(cuda, space);
    if (failed && connected)
        link->calls.disconnect(comm);
    link->comm = failed ? NULL : comm;
    return failed ? link->calls.explain(failed) : NULL;
}

static void tell(const rc_cuda *cuda, rc_log_level level, const char *how, const char *why)
{
    const rc_log *log = &cuda->host.log;
    char line[RC_LOG_LINE_SIZE];
    if (!log->write || log->level > level || cuda->table.workers->index > 0)
        return;
    snprintf(line, sizeof line, "backend cuda: the processes talk through %s%s%s", how, why ? ": " : "",
             why ? why : "");
    log->write(log->user, level, line);
}

rc_status rc_cuda_link_workers(rc_backend *be)
{
    rc_cuda *cuda = rc_cuda_of(be);
    rc_workers *workers = be->workers;
    if (workers->kept)
        return RC_OK;
    cuda_link *link = (cuda_link *)calloc(1, sizeof *link);
    card *cards = (card *)calloc((size_t)workers->count, sizeof *cards), mine = {};
    if (!link || !cards)
        workers->fail(workers, "no memory to connect the processes"); /* the others wait: this ends all */
    int version = 0;
    char how[32] = "host memory";
    memcpy(mine.uuid, cuda->uuid, sizeof mine.uuid);
    mine.has_nccl = open_nccl(&link->calls, &version);
    workers->gather(workers, &mine, cards, sizeof mine);
    const char *why = why_not(cards, workers->count);
    if (!why)
        why = connect(cuda, link, &mine, cards);
    if (link->comm)
        snprintf(how, sizeof how, "NCCL %d.%d.%d", version / 10000, version / 100 % 100, version % 100);
    tell(cuda, link->comm ? RC_LOG_INFO : RC_LOG_WARN, how, why);
    free(cards);
    workers->kept = link;
    workers->drop = drop_link;
    return RC_OK;
}

/* ---- talks ------------------------------------------------------------------------------------------------------ */

/* What a host function is told. Captured steps refer to it, so it stays. */
struct talk {
    struct talk *next;
    rc_workers *workers;
    bool scatter;
    const void *from;
    void *to;
    size_t bytes;
};

/* Pinned memory: the link, then its bytes. */
struct pinned {
    struct pinned *next;
    size_t bytes;
    char unused[48]; /* the bytes start on a boundary of 64 */
};

struct rc_cuda_talks {
    struct talk *talks;
    struct pinned *out, *in; /* the largest comes first; captured steps may refer to the others */
    cudaEvent_t said;        /* the last talk is over */
    int lane;                /* it was on; negative: there was none since the step began */
    bool bundled;            /* NCCL takes what is said now as one talk */
};

rc_status rc_cuda_open_talks(rc_cuda *cuda)
{
    cuda->talks = (struct rc_cuda_talks *)calloc(1, sizeof *cuda->talks);
    if (!cuda->talks) {
        cuda->host.set_message("out of memory for %zu bytes", sizeof *cuda->talks);
        return RC_OUT_OF_MEMORY;
    }
    cuda->talks->lane = -1;
    cudaError_t error = cudaEventCreateWithFlags(&cuda->talks->said, cudaEventDisableTiming);
    return error == cudaSuccess ? RC_OK : rc_cuda_fail(cuda, error, "joining the processes");
}

static void free_pinned(struct pinned *first)
{
    for (struct pinned *next; first; first = next) {
        next = first->next;
        cudaFreeHost(first);
    }
}

void rc_cuda_close_talks(rc_cuda *cuda)
{
    struct rc_cuda_talks *t = cuda->talks;
    if (!t)
        return;
    for (struct talk *next; t->talks; t->talks = next) {
        next = t->talks->next;
        free(t->talks);
    }
    free_pinned(t->out);
    free_pinned(t->in);
    if (t->said)
        cudaEventDestroy(t->said);
    free(t);
    cuda->talks = NULL;
}

void rc_cuda_talk_anew(rc_cuda *cuda)
{
    if (cuda->talks)
        cuda->talks->lane = -1;
    rc_cuda_forget_gathered(cuda);
}

/* ---- through host memory ---------------------------------------------------------------------------------------- */

static void no_memory(rc_cuda *cuda, size_t bytes)
{
    if (cuda->status != RC_OK)
        return;
    cuda->status = RC_OUT_OF_MEMORY;
    snprintf(cuda->message, sizeof cuda->message, "cuda: no %zu bytes of host memory for what the processes exchange",
             bytes);
}

static void *pinned_bytes(rc_cuda *cuda, struct pinned **list, size_t bytes)
{
    struct pinned *first = *list;
    if (!first || first->bytes < bytes) {
        size_t room = first && bytes < 2 * first->bytes ? 2 * first->bytes : bytes; /* what stays behind is no more */
        void *memory;
        if (cudaHostAlloc(&memory, sizeof *first + room, cudaHostAllocPortable) != cudaSuccess) {
            cudaGetLastError();
            no_memory(cuda, room);
            return NULL;
        }
        first = (struct pinned *)memory;
        first->next = *list;
        first->bytes = room;
        *list = first;
    }
    return first + 1;
}

static struct talk *find_talk(rc_cuda *cuda, const talk_kind *kind, const void *from, void *to)
{
    struct rc_cuda_talks *t = cuda->talks;
    for (struct talk *known = t->talks; known; known = known->next)
        if (known->scatter == kind->scatter && known->from == from && known->to == to && known->bytes == kind->bytes)
            return known;
    struct talk *made = (struct talk *)malloc(sizeof *made);
    if (!made) {
        no_memory(cuda, sizeof *made);
        return NULL;
    }
    *made = talk{t->talks, cuda->table.workers, kind->scatter, from, to, kind->bytes};
    t->talks = made;
    return made;
}

/* On a thread of the driver, while the stream waits. */
static void speak(void *user)
{
    const struct talk *t = (const struct talk *)user;
    if (t->scatter) {
        t->workers->begin_exchange(t->workers, 0, t->from, t->to, t->bytes);
        t->workers->finish(t->workers, 0);
    } else {
        t->workers->gather(t->workers, t->from, t->to, t->bytes);
    }
}

/* The blocks in pinned memory are whole ones: nobody reads what lies behind `total`. */
static void talk_through_host(rc_cuda *cuda, cudaStream_t stream, const talk_kind *kind, const void *from, void *to)
{
    size_t count = (size_t)cuda->table.workers->count, all = kind->bytes * count;
    size_t outward = kind->scatter ? kind->total : length_of(kind, cuda->table.workers->index);
    size_t inward = kind->scatter ? all : kind->total;
    void *out = pinned_bytes(cuda, &cuda->talks->out, kind->scatter ? all : kind->bytes);
    void *in = pinned_bytes(cuda, &cuda->talks->in, all);
    struct talk *t = out && in ? find_talk(cuda, kind, out, in) : NULL;
    bool copied = t &&
                  (outward == 0 ||
                   rc_cuda_check(cuda, cudaMemcpyAsync(out, from, outward, cudaMemcpyDeviceToHost, stream), "talking"));
    if (copied && rc_cuda_check(cuda, cudaLaunchHostFunc(stream, speak, t), "talking"))
        rc_cuda_check(cuda, cudaMemcpyAsync(to, in, inward, cudaMemcpyHostToDevice, stream), "talking");
}

/* ---- through NCCL ----------------------------------------------------------------------------------------------- */

static void check_nccl(rc_cuda *cuda, const cuda_link *link, int result)
{
    if (result == 0 || cuda->status != RC_OK)
        return;
    cuda->status = RC_DEVICE;
    snprintf(cuda->message, sizeof cuda->message, "cuda: NCCL: %s", link->calls.explain(result));
}

static void talk_through_nccl(rc_cuda *cuda, const cuda_link *link, cudaStream_t stream, const talk_kind *kind,
                              const void *from, void *to)
{
    const rc_workers *workers = cuda->table.workers;
    bool even = !kind->scatter && kind->total == kind->bytes * (size_t)workers->count;
    int result = even ? link->calls.all_gather(from, to, kind->bytes, NCCL_BYTE, link->comm, stream)
                      : talk_in_blocks(&link->calls, link->comm, workers, kind, from, to, stream);
    check_nccl(cuda, link, result);
}

/* ---- both ------------------------------------------------------------------------------------------------------- */

/* False: nothing can be said. */
static bool begin_talk(rc_cuda *cuda, cudaStream_t stream)
{
    const struct rc_cuda_talks *t = cuda->talks;
    if (cuda->status != RC_OK)
        return false;
    if (!cuda->table.workers->kept) {
        cuda->status = RC_INTERNAL;
        snprintf(cuda->message, sizeof cuda->message, "cuda: the processes have not been connected");
        return false;
    }
    return t->lane < 0 || t->lane == cuda->lane ||
           rc_cuda_check(cuda, cudaStreamWaitEvent(stream, t->said, 0), "waiting for a talk");
}

static void end_talk(rc_cuda *cuda, cudaStream_t stream)
{
    if (cuda->status == RC_OK)
        rc_cuda_check(cuda, cudaEventRecord(cuda->talks->said, stream), "ending a talk");
    cuda->talks->lane = cuda->lane;
}

static void talk_to_all(rc_cuda *cuda, talk_kind kind, const void *from, void *to)
{
    const cuda_link *link = (const cuda_link *)cuda->table.workers->kept;
    cudaStream_t stream = rc_cuda_stream(cuda);
    bool bundled = cuda->talks->bundled;
    if (bundled ? cuda->status != RC_OK : !begin_talk(cuda, stream))
        return;
    if (link->comm)
        talk_through_nccl(cuda, link, stream, &kind, from, to);
    else
        talk_through_host(cuda, stream, &kind, from, to);
    if (!bundled)
        end_talk(cuda, stream);
}

void rc_cuda_begin_bundle(rc_cuda *cuda)
{
    const cuda_link *link = (const cuda_link *)cuda->table.workers->kept;
    cudaStream_t stream = rc_cuda_stream(cuda);
    if (!link || !link->comm || !begin_talk(cuda, stream))
        return;
    check_nccl(cuda, link, link->calls.begin_group());
    cuda->talks->bundled = cuda->status == RC_OK;
}

void rc_cuda_end_bundle(rc_cuda *cuda)
{
    const cuda_link *link = (const cuda_link *)cuda->table.workers->kept;
    if (!cuda->talks->bundled)
        return;
    cuda->talks->bundled = false;
    check_nccl(cuda, link, link->calls.end_group());
    end_talk(cuda, rc_cuda_stream(cuda));
}

void rc_cuda_gather(rc_cuda *cuda, const void *mine, void *all, size_t bytes)
{
    talk_to_all(cuda, talk_kind{false, bytes, bytes * (size_t)cuda->table.workers->count}, mine, all);
}

void rc_cuda_scatter(rc_cuda *cuda, const void *whole, void *parts, size_t bytes, size_t total)
{
    talk_to_all(cuda, talk_kind{true, bytes, total}, whole, parts);
}

void rc_cuda_collect(rc_cuda *cuda, void *whole, size_t bytes, size_t total)
{
    const char *own = (const char *)whole + (size_t)cuda->table.workers->index * bytes;
    talk_to_all(cuda, talk_kind{false, bytes, total}, own, whole);
}
