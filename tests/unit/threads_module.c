/* A module of training in several processes (backend/workers.h) whose two processes are threads of one: the main thread
 * leads. A thread that makes another call than the other one, or leaves it waiting, ends the program, and so does a
 * failure that a thread tells. */
#define _GNU_SOURCE /* gettid */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "backend/workers.h"

enum { COUNT = 2, PATIENCE = 60 }; /* seconds */

typedef enum { NO_CALL, GATHER, EXCHANGE, LEAD, CLOSE } call;

typedef struct showing {
    call kind;
    const void *data;
    void *in;
    size_t bytes;
} showing;

typedef struct worker {
    rc_workers table;
    showing talk[RC_TALK_SLOTS]; /* that was begun: nothing happens before it is finished */
} worker;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int here;
    unsigned round;
    showing shown[COUNT];
    worker worker[COUNT];
} room = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void fail(rc_workers *w, const char *message)
{
    fprintf(stderr, "process %d: %s\n", w->index + 1, message);
    abort();
}

/* Waits for the other thread. */
static void meet(rc_workers *w)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE;
    pthread_mutex_lock(&room.lock);
    unsigned round = room.round;
    if (++room.here == COUNT) {
        room.here = 0;
        room.round++;
        pthread_cond_broadcast(&room.changed);
    }
    for (int error = 0; room.round == round && error == 0;)
        error = pthread_cond_timedwait(&room.changed, &room.lock, &until);
    bool met = room.round != round;
    pthread_mutex_unlock(&room.lock);
    if (!met)
        fail(w, "the other one does not come");
}

/* Both show what they have; until the next meeting each may look at that of the other. */
static void show(rc_workers *w, showing mine)
{
    room.shown[w->index] = mine;
    meet(w);
    if (room.shown[0].kind != room.shown[1].kind || room.shown[0].bytes != room.shown[1].bytes)
        fail(w, "the other one makes another call");
}

static void take(rc_workers *w, showing mine)
{
    show(w, mine);
    for (int i = 0; i < COUNT; i++)
        memcpy((char *)mine.in + (size_t)i * mine.bytes,
               (const char *)room.shown[i].data + (mine.kind == EXCHANGE ? (size_t)w->index * mine.bytes : 0),
               mine.bytes);
    meet(w);
}

static void gather(rc_workers *w, const void *mine, void *all, size_t bytes)
{
    take(w, (showing){GATHER, mine, all, bytes});
}

static void begin_gather(rc_workers *w, int slot, const void *mine, void *all, size_t bytes)
{
    ((worker *)w)->talk[slot] = (showing){GATHER, mine, all, bytes};
}

static void begin_exchange(rc_workers *w, int slot, const void *to, void *from, size_t bytes)
{
    ((worker *)w)->talk[slot] = (showing){EXCHANGE, to, from, bytes};
}

static void finish(rc_workers *w, int slot)
{
    take(w, ((worker *)w)->talk[slot]);
}

static void lead(rc_workers *w, void *data, size_t bytes)
{
    show(w, (showing){LEAD, data, NULL, bytes});
    if (w->index > 0)
        memcpy(data, room.shown[0].data, bytes);
    meet(w);
}

static void close_table(rc_workers *w)
{
    if (w->kept != NULL)
        w->drop(w->kept);
    show(w, (showing){CLOSE, NULL, NULL, 0});
    meet(w);
}

__attribute__((visibility("default"))) rc_mpi_open rc_mpi_open_workers;

rc_status rc_mpi_open_workers(const rc_workers_host *host, rc_workers **workers)
{
    int index = getpid() == gettid() ? 0 : 1;
    if (host->table_bytes != sizeof **workers)
        return RECOLLECT_UNSUPPORTED;
    room.worker[index] = (worker){.table = {.index = index,
                                            .count = COUNT,
                                            .beside = COUNT,
                                            .gather = gather,
                                            .begin_gather = begin_gather,
                                            .begin_exchange = begin_exchange,
                                            .finish = finish,
                                            .lead = lead,
                                            .close = close_table,
                                            .fail = fail}};
    *workers = &room.worker[index].table;
    return RECOLLECT_OK;
}
