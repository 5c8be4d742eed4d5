/* Several processes that train one model. Each of them takes its part of every batch; process 0 leads: it alone reads
 * and writes the files of a run, and tells the others what to do.
 *
 * How they talk is a table, which a module fills (librecollect_mpi.so, mpi/module.c): the library itself links no MPI.
 * All calls but `fail` are collective: every process makes the same ones in the same order, one at a time, from any of
 * its threads. (What begins a talk and what finishes it count as calls, too.) A process that dies ends all of them. */
#ifndef RC_BACKEND_WORKERS_H
#define RC_BACKEND_WORKERS_H

#include "backend/backend.h"

typedef struct rc_workers rc_workers;

enum { RC_TALK_SLOTS = 2 };

struct rc_workers {
    int index, count; /* this process, of how many */
    int beside;       /* of these, how many run on this machine, this one among them */
    /* The `bytes` of every process, one after the other in the order of the processes. */
    void (*gather)(rc_workers *, const void *mine, void *all, size_t bytes);
    /* Talks that go on beside what the process does next, until `finish`; each has a slot of its own, and its memory
     * is the talk's as long. exchange: block i of `to` (count blocks of `bytes`) goes to process i; block i of `from`
     * comes from it. */
    void (*begin_gather)(rc_workers *, int slot, const void *mine, void *all, size_t bytes);
    void (*begin_exchange)(rc_workers *, int slot, const void *to, void *from, size_t bytes);
    void (*finish)(rc_workers *, int slot);
    /* The leader's bytes to all. */
    void (*lead)(rc_workers *, void *data, size_t bytes);
    /* close: waits for the others and frees the table. fail: prints the message and ends all processes at once. */
    void (*close)(rc_workers *);
    void (*fail)(rc_workers *, const char *message);
    /* What a backend keeps from one opening to the next: connections of its own. NULL: nothing. close calls drop. */
    void *kept;
    void (*drop)(void *kept);
};

/* Words of the leader. Every number between 0 and these is a number of steps (rc_agree). */
enum rc_word {
    RC_WORD_LEFT = 0,                /* it has left what it was doing, go on waiting */
    RC_WORD_MEET = 0x40000000,       /* compare what everybody has */
    RC_WORD_WORK = RC_WORD_MEET + 1, /* an order follows */
    RC_WORD_END = RC_WORD_WORK + 1
};

/* What the module calls and fills in. It exports this one function, RC_MPI_OPEN. */
typedef struct rc_workers_host {
    size_t table_bytes;                          /* sizeof(rc_workers): library and module are of one build */
    int (*set_message)(const char *format, ...); /* rc_set_message */
} rc_workers_host;
typedef rc_status rc_mpi_open(const rc_workers_host *host, rc_workers **workers);
#define RC_MPI_OPEN "rc_mpi_open_workers"
#define RC_MPI_FILE "librecollect_mpi.so"

/* *workers is NULL where this process was started alone, unless `always`: then it is the only one. Otherwise it was
 * started by mpirun or srun, as one of several, and the module is opened. */
rc_status rc_workers_open(bool always, rc_workers **workers);

/* May the backend join? RC_UNSUPPORTED: it computes in one process alone. */
rc_status rc_workers_check(const rc_workers *workers, const rc_backend *backend);

/* The backend takes its part of every batch from here on, until it is closed. workers NULL: nothing to do. */
rc_status rc_workers_join(rc_workers *workers, rc_backend *backend);

/* The leader says a word; the others hear it. Returns it. */
uint32_t rc_workers_word(rc_workers *workers, uint32_t word);

#endif
