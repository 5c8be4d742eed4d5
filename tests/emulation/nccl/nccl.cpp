/* A stand-in for libnccl.so.2 where GPUs are emulated: as much of it as backend/cuda/link.cu calls. Bytes travel through
 * MPI, which the program has begun, in host functions of the emulated stream; captured, they are replayed.
 *
 * It is strict where NCCL is: a number of processes or an id that do not fit are refused, sends and receives happen in
 * groups alone, a send without its receive never ends, and what is said in a group happens when the group ends. Where NCCL
 * would hang or mix up bytes, it ends all processes: when they have not come to the same talk, counted as they enqueued.
 * RECOLLECT_EMULATED_NCCL=broken lets the second process fail to connect, =old is a version that nothing can be captured
 * of; RECOLLECT_EMULATED_TALKS is a file that the first process tells how many talks there were: gathers, and groups that
 * are not empty. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <vector>

#include "cuda_runtime.h"

#define EXPORTED extern "C" __attribute__((visibility("default")))

struct ncclUniqueId {
    char internal[128];
};

namespace
{

enum { SUCCESS, UNHANDLED = 1, INVALID_ARGUMENT = 4, INVALID_USAGE = 5, BYTE = 0 };

struct communicator {
    MPI_Comm comm;
    int count;
    long enqueued; /* talks */
};

enum way { SEND, RECEIVE, GATHER };

struct message {
    way kind;
    const void *from;
    void *to;
    size_t bytes;
    int peer;
    communicator *with;
    cudaStream_t stream;
};

int depth;
std::vector<message> group;
long talks;

/* What a captured graph calls may be called any number of times, so it is never freed. */
struct talk {
    MPI_Comm comm;
    int index;
    long number;
    std::vector<message> messages;
};

/* All processes are at the same talk. */
void meet(const talk *t)
{
    int count;
    MPI_Comm_size(t->comm, &count);
    std::vector<long> numbers((size_t)count);
    MPI_Allgather(&t->number, 1, MPI_LONG, numbers.data(), 1, MPI_LONG, t->comm);
    for (int i = 0; i < count; i++)
        if (numbers[(size_t)i] != t->number) {
            fprintf(stderr, "emulated NCCL: process %d is at talk %ld, process %d at talk %ld\n", t->index, t->number,
                    i, numbers[(size_t)i]);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
}

void gather(const talk *t, const message &m)
{
    bool in_place = m.from == (const char *)m.to + (size_t)t->index * m.bytes;
    MPI_Allgather(in_place ? MPI_IN_PLACE : m.from, (int)m.bytes, MPI_BYTE, m.to, (int)m.bytes, MPI_BYTE, t->comm);
}

void run_group(void *user)
{
    const talk *t = (const talk *)user;
    std::vector<MPI_Request> requests;
    talks++;
    meet(t);
    for (const message &m : t->messages) {
        requests.push_back(MPI_REQUEST_NULL);
        if (m.kind == SEND)
            MPI_Isend(m.from, (int)m.bytes, MPI_BYTE, m.peer, 0, t->comm, &requests.back());
        else if (m.kind == RECEIVE)
            MPI_Irecv(m.to, (int)m.bytes, MPI_BYTE, m.peer, 0, t->comm, &requests.back());
        else
            gather(t, m);
    }
    MPI_Waitall((int)requests.size(), requests.data(), MPI_STATUSES_IGNORE);
}

int run_messages(const std::vector<message> &messages)
{
    cudaStream_t stream = messages[0].stream;
    talk *t = new talk{messages[0].with->comm, 0, messages[0].with->enqueued++, messages};
    MPI_Comm_rank(t->comm, &t->index);
    return stream->host(stream, run_group, t) == cudaSuccess ? SUCCESS : UNHANDLED;
}

int add(const message &said, int type)
{
    if (type != BYTE || said.peer < 0 || said.peer >= said.with->count)
        return INVALID_ARGUMENT;
    if (depth == 0)
        return said.kind == GATHER ? run_messages({said}) : INVALID_USAGE;
    group.push_back(said);
    return SUCCESS;
}

} /* namespace */

EXPORTED int ncclGetVersion(int *version);
EXPORTED const char *ncclGetErrorString(int result);
EXPORTED int ncclGetUniqueId(ncclUniqueId *id);
EXPORTED int ncclCommInitRank(void **comm, int count, ncclUniqueId id, int index);
EXPORTED int ncclCommDestroy(void *comm);
EXPORTED int ncclAllGather(const void *mine, void *all, size_t count, int type, void *comm, cudaStream_t stream);
EXPORTED int ncclSend(const void *from, size_t count, int type, int peer, void *comm, cudaStream_t stream);
EXPORTED int ncclRecv(void *to, size_t count, int type, int peer, void *comm, cudaStream_t stream);
EXPORTED int ncclGroupStart(void);
EXPORTED int ncclGroupEnd(void);

int ncclGetVersion(int *version)
{
    const char *wish = getenv("RECOLLECT_EMULATED_NCCL");
    *version = wish && strcmp(wish, "old") == 0 ? 20804 : 22703;
    return SUCCESS;
}

const char *ncclGetErrorString(int result)
{
    return result == SUCCESS ? "no error" : "emulated error of NCCL";
}

int ncclGetUniqueId(ncclUniqueId *id)
{
    memset(id->internal, 'n', sizeof id->internal);
    return SUCCESS;
}

int ncclCommInitRank(void **comm, int count, ncclUniqueId id, int index)
{
    int real_count, real_index;
    const char *wish = getenv("RECOLLECT_EMULATED_NCCL");
    MPI_Comm_size(MPI_COMM_WORLD, &real_count);
    MPI_Comm_rank(MPI_COMM_WORLD, &real_index);
    if (count != real_count || index != real_index || id.internal[0] != 'n' || id.internal[127] != 'n')
        return INVALID_ARGUMENT;
    communicator *made = new communicator{MPI_COMM_NULL, count, 0};
    MPI_Comm_dup(MPI_COMM_WORLD, &made->comm);
    if (wish && strcmp(wish, "broken") == 0 && index == 1) {
        delete made;
        return UNHANDLED;
    }
    *comm = made;
    return SUCCESS;
}

int ncclCommDestroy(void *comm)
{
    const char *name = getenv("RECOLLECT_EMULATED_TALKS");
    int index;
    MPI_Comm_rank(MPI_COMM_WORLD, &index);
    FILE *file = name && index == 0 ? fopen(name, "w") : NULL;
    if (file) {
        fprintf(file, "%ld\n", talks);
        fclose(file);
    }
    delete (communicator *)comm; /* MPI frees its own in the end */
    return SUCCESS;
}

int ncclAllGather(const void *mine, void *all, size_t count, int type, void *comm, cudaStream_t stream)
{
    return add({GATHER, mine, all, count, 0, (communicator *)comm, stream}, type);
}

int ncclSend(const void *from, size_t count, int type, int peer, void *comm, cudaStream_t stream)
{
    return add({SEND, from, NULL, count, peer, (communicator *)comm, stream}, type);
}

int ncclRecv(void *to, size_t count, int type, int peer, void *comm, cudaStream_t stream)
{
    return add({RECEIVE, NULL, to, count, peer, (communicator *)comm, stream}, type);
}

int ncclGroupStart(void)
{
    depth++;
    return SUCCESS;
}

int ncclGroupEnd(void)
{
    if (--depth > 0 || group.empty())
        return SUCCESS;
    std::vector<message> said;
    said.swap(group);
    return run_messages(said);
}
