#include "base/ahead.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/process.h"

/* How far it runs ahead: some batches, so that a disk that is slow now and then does not hold anybody up, and little
 * beside what a machine has for its page cache. */
enum { WINDOW = 32 << 20, AT_ONCE = 64 };

struct rc_ahead {
    const uint8_t *from;
    size_t record, page, window; /* bytes, bytes, records */
    pthread_t thread;
    uint32_t process;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    /* Under the mutex. */
    int32_t *order; /* (capacity), of which `count` count */
    size_t capacity, count, asked, reached;
    bool quit;
};

/* Records that may be asked for now. */
static size_t wanted(const rc_ahead *a)
{
    size_t end = a->count - a->reached > a->window ? a->reached + a->window : a->count;
    return end > a->asked ? end - a->asked : 0;
}

static void ask(const rc_ahead *a, int32_t record)
{
    uintptr_t begin = (uintptr_t)a->from + (size_t)record * a->record, end = begin + a->record;
    begin -= begin % a->page;
    posix_madvise((void *)begin, end - begin, POSIX_MADV_WILLNEED); /* a hint: where it fails, reading waits */
}

static void *run(void *context)
{
    rc_ahead *a = context;
    int32_t record[AT_ONCE];
    pthread_mutex_lock(&a->mutex);
    while (!a->quit) {
        size_t count = wanted(a);
        if (count == 0) {
            pthread_cond_wait(&a->changed, &a->mutex);
            continue;
        }
        count = count < AT_ONCE ? count : AT_ONCE;
        memcpy(record, a->order + a->asked, count * sizeof *record);
        a->asked += count;
        pthread_mutex_unlock(&a->mutex);
        for (size_t i = 0; i < count; i++)
            ask(a, record[i]);
        pthread_mutex_lock(&a->mutex);
    }
    pthread_mutex_unlock(&a->mutex);
    return NULL;
}

/* The thread takes no signals: they are for the threads of the program. */
static int start(rc_ahead *a)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&a->thread, NULL, run, a);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

rc_status rc_ahead_create(const uint8_t *from, size_t record, rc_ahead **ahead)
{
    *ahead = NULL;
    rc_ahead *a = rc_alloc_zeroed(NULL, 1, sizeof *a);
    if (a == NULL)
        return RC_OUT_OF_MEMORY;
    a->from = from;
    a->record = record;
    a->page = (size_t)sysconf(_SC_PAGESIZE);
    a->window = record < WINDOW ? WINDOW / record : 1;
    rc_status status = rc_process_mark(&a->process);
    if (status == RC_OK) {
        pthread_mutex_init(&a->mutex, NULL);
        pthread_cond_init(&a->changed, NULL);
        int error = start(a);
        if (error == 0) {
            *ahead = a;
            return RC_OK;
        }
        status = rc_fail(RC_OUT_OF_MEMORY, "cannot start a thread that reads ahead: %s", strerror(error));
        pthread_cond_destroy(&a->changed);
        pthread_mutex_destroy(&a->mutex);
    }
    rc_free(NULL, a);
    return status;
}

void rc_ahead_destroy(rc_ahead *a)
{
    if (a == NULL)
        return;
    if (rc_process_is(a->process)) {
        pthread_mutex_lock(&a->mutex);
        a->quit = true;
        pthread_cond_signal(&a->changed);
        pthread_mutex_unlock(&a->mutex);
        pthread_join(a->thread, NULL);
        pthread_cond_destroy(&a->changed);
        pthread_mutex_destroy(&a->mutex);
    }
    rc_free(NULL, a->order);
    rc_free(NULL, a);
}

rc_status rc_ahead_expect(rc_ahead *a, const int32_t *order, size_t count)
{
    if (!rc_process_is(a->process))
        return RC_OK;
    int32_t *grown = NULL, *old = NULL;
    if (count > a->capacity) { /* only this function changes it */
        grown = rc_alloc_zeroed(NULL, count, sizeof *grown);
        if (grown == NULL)
            return RC_OUT_OF_MEMORY;
    }
    pthread_mutex_lock(&a->mutex);
    if (grown != NULL) {
        old = a->order;
        a->order = grown;
        a->capacity = count;
    }
    memcpy(a->order, order, count * sizeof *order);
    a->count = count;
    a->asked = a->reached = 0;
    pthread_cond_signal(&a->changed);
    pthread_mutex_unlock(&a->mutex);
    rc_free(NULL, old);
    return RC_OK;
}

void rc_ahead_reached(rc_ahead *a, size_t read)
{
    if (!rc_process_is(a->process))
        return;
    pthread_mutex_lock(&a->mutex);
    a->reached = read < a->count ? read : a->count;
    a->asked = a->asked > a->reached ? a->asked : a->reached; /* what was read needs no asking */
    pthread_cond_signal(&a->changed);
    pthread_mutex_unlock(&a->mutex);
}

size_t rc_ahead_asked(rc_ahead *a)
{
    pthread_mutex_lock(&a->mutex);
    size_t asked = a->asked;
    pthread_mutex_unlock(&a->mutex);
    return asked;
}
