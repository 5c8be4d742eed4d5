/* A stand-in for libnccl.so.2 where GPUs are emulated: as much of it as backend/cuda/link.cu calls. Bytes travel through
 * MPI, which the program has begun, in host functions of the emulated stream; captured, they are replayed.
 *
 * It is strict where NCCL is: a number of processes or an id that do not fit are refused, sends and receives happen in
 * groups alone, and a send without its receive never ends. RECOLLECT_EMULATED_NCCL=broken lets the second process fail
 * to connect. */
#include <mpi.h>
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
};

struct message {
    bool send;
    void *at;
    size_t bytes;
    int peer;
    communicator *with;
    cudaStream_t stream;
};

int depth;
std::vector<message> group;

/* What a captured graph calls may be called any number of times, so it is never freed. */
struct talk {
    MPI_Comm comm;
    std::vector<message> messages;
    const void *mine;
    void *all;
    size_t bytes;
};

void run_group(void *user)
{
    const talk *t = (const talk *)user;
    std::vector<MPI_Request> requests;
    for (const message &m : t->messages) {
        requests.push_back(MPI_REQUEST_NULL);
        if (m.send)
            MPI_Isend(m.at, (int)m.bytes, MPI_BYTE, m.peer, 0, t->comm, &requests.back());
        else
            MPI_Irecv(m.at, (int)m.bytes, MPI_BYTE, m.peer, 0, t->comm, &requests.back());
    }
    MPI_Waitall((int)requests.size(), requests.data(), MPI_STATUSES_IGNORE);
}

void run_gather(void *user)
{
    const talk *t = (const talk *)user;
    MPI_Allgather(t->mine, (int)t->bytes, MPI_BYTE, t->all, (int)t->bytes, MPI_BYTE, t->comm);
}

int add(bool send, void *at, size_t bytes, int type, int peer, void *comm, cudaStream_t stream)
{
    communicator *with = (communicator *)comm;
    if (depth == 0)
        return INVALID_USAGE;
    if (type != BYTE || peer < 0 || peer >= with->count)
        return INVALID_ARGUMENT;
    group.push_back({send, at, bytes, peer, with, stream});
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
    *version = 22703;
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
    communicator *made = new communicator{MPI_COMM_NULL, count};
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
    delete (communicator *)comm; /* MPI frees its own in the end */
    return SUCCESS;
}

int ncclAllGather(const void *mine, void *all, size_t count, int type, void *comm, cudaStream_t stream)
{
    if (type != BYTE)
        return INVALID_ARGUMENT;
    talk *t = new talk{((communicator *)comm)->comm, {}, mine, all, count};
    return stream->host(stream, run_gather, t) == cudaSuccess ? SUCCESS : UNHANDLED;
}

int ncclSend(const void *from, size_t count, int type, int peer, void *comm, cudaStream_t stream)
{
    return add(true, const_cast<void *>(from), count, type, peer, comm, stream);
}

int ncclRecv(void *to, size_t count, int type, int peer, void *comm, cudaStream_t stream)
{
    return add(false, to, count, type, peer, comm, stream);
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
    cudaStream_t stream = group[0].stream;
    talk *t = new talk{group[0].with->comm, group, NULL, NULL, 0};
    group.clear();
    return stream->host(stream, run_group, t) == cudaSuccess ? SUCCESS : UNHANDLED;
}
