/* The MPI module, librecollect_mpi.so: fills the table of workers.h. It links nothing of the library.
 *
 * Only calls whose result is defined to the last bit are used: blocks go from one process to another, and sums are
 * taken by the library, in the order of the processes. Errors inside MPI end all processes, as is its default. */
#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend/workers.h"

/* Counts of MPI are ints: what is larger goes in pieces. */
enum { PIECE = 1 << 30 };

typedef struct mpi_workers {
    rc_workers table; /* first, so that an rc_workers * is an mpi_workers * */
    MPI_Request request[RC_TALK_SLOTS];
} mpi_workers;

static MPI_Request *request_of(rc_workers *workers, int slot)
{
    return &((mpi_workers *)workers)->request[slot];
}

static int count_of(rc_workers *workers, size_t bytes)
{
    if (bytes > INT_MAX)
        workers->fail(workers, "more than 2 GiB to send at once");
    return (int)bytes;
}

static void gather(rc_workers *workers, const void *mine, void *all, size_t bytes)
{
    int count = count_of(workers, bytes);
    MPI_Allgather(mine, count, MPI_BYTE, all, count, MPI_BYTE, MPI_COMM_WORLD);
}

/* Open MPI moves what was begun whenever the process calls MPI, which every normalisation of a backward pass does. */
static void begin_gather(rc_workers *workers, int slot, const void *mine, void *all, size_t bytes)
{
    int count = count_of(workers, bytes);
    MPI_Iallgather(mine, count, MPI_BYTE, all, count, MPI_BYTE, MPI_COMM_WORLD, request_of(workers, slot));
}

static void begin_exchange(rc_workers *workers, int slot, const void *to, void *from, size_t bytes)
{
    int count = count_of(workers, bytes);
    MPI_Ialltoall(to, count, MPI_BYTE, from, count, MPI_BYTE, MPI_COMM_WORLD, request_of(workers, slot));
}

static void finish(rc_workers *workers, int slot)
{
    MPI_Wait(request_of(workers, slot), MPI_STATUS_IGNORE);
}

static void lead(rc_workers *workers, void *data, size_t bytes)
{
    (void)workers;
    for (size_t at = 0; at < bytes; at += PIECE)
        MPI_Bcast((char *)data + at, (int)(bytes - at < PIECE ? bytes - at : PIECE), MPI_BYTE, 0, MPI_COMM_WORLD);
}

static void close_all(rc_workers *workers)
{
    if (workers->kept != NULL)
        workers->drop(workers->kept);
    MPI_Finalize();
    free(workers);
}

static void fail(rc_workers *workers, const char *message)
{
    if (workers->index > 0)
        fprintf(stderr, "recollect: process %d of %d: %s\n", workers->index + 1, workers->count, message);
    else
        fprintf(stderr, "recollect: %s\n", message);
    fflush(stderr);
    MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
}

__attribute__((visibility("default"))) rc_status rc_mpi_open_workers(const rc_workers_host *host, rc_workers **workers);

rc_status rc_mpi_open_workers(const rc_workers_host *host, rc_workers **workers)
{
    int begun = 0, given;
    MPI_Comm beside;
    *workers = NULL;
    if (host->table_bytes != sizeof **workers) {
        host->set_message("librecollect_mpi.so is of another build of recollect");
        return RECOLLECT_UNSUPPORTED;
    }
    MPI_Initialized(&begun);
    if (begun) { /* it cannot be begun twice, and what others do with it is their business */
        host->set_message("MPI is in use in this process already");
        return RECOLLECT_UNSUPPORTED;
    }
    rc_workers *w = calloc(1, sizeof(mpi_workers));
    if (w == NULL) {
        host->set_message("no memory");
        return RECOLLECT_OUT_OF_MEMORY;
    }
    MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &given);
    if (given < MPI_THREAD_SERIALIZED) {
        host->set_message("this MPI cannot be called from several threads, one at a time");
        MPI_Finalize();
        free(w);
        return RECOLLECT_UNSUPPORTED;
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &w->index);
    MPI_Comm_size(MPI_COMM_WORLD, &w->count);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &beside);
    MPI_Comm_size(beside, &w->beside);
    MPI_Comm_free(&beside);
    w->gather = gather;
    w->begin_gather = begin_gather;
    w->begin_exchange = begin_exchange;
    w->finish = finish;
    w->lead = lead;
    w->close = close_all;
    w->fail = fail;
    *workers = w;
    return RECOLLECT_OK;
}
