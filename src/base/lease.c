#include "base/lease.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"

/* Times that the holder counts before anybody takes it for dead. */
enum { BEATS = 6, IDENTITY = 92 };

struct rc_lease {
    char path[RC_PATH_SIZE];
    char text[RC_LEASE_TEXT]; /* host, process and number (IDENTITY bytes), then the counter */
    int fd;
    double interval;
    uint64_t beat;
    atomic_bool lost;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool quit;
};

static void write_text(rc_lease *l)
{
    snprintf(l->text + IDENTITY, sizeof l->text - IDENTITY, " %020llu\n", (unsigned long long)l->beat);
}

static void identify(rc_lease *l)
{
    char host[65] = "";
    struct timespec now = {0};
    gethostname(host, sizeof host - 1);
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t number = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    number ^= (uint64_t)(uintptr_t)l << 20; /* two threads of a process in one tick of the clock */
    snprintf(l->text, sizeof l->text, "%-64s %10ld %016llx", host, (long)getpid(), (unsigned long long)number);
    write_text(l);
}

/* What the file at `path` holds; "": nothing, or there is none. Opening it anew asks the server of a shared file
 * system. */
static void read_text(const char *path, char text[RC_LEASE_TEXT])
{
    memset(text, 0, RC_LEASE_TEXT);
    int fd = rc_file_open(path, O_RDONLY);
    if (fd < 0)
        return;
    ssize_t got = pread(fd, text, RC_LEASE_TEXT - 1, 0);
    if (got < 0)
        text[0] = '\0';
    rc_file_close(fd);
}

/* ---- the holder ----------------------------------------------------------------------------------------------- */

/* Where the file cannot be read or written for a while, nobody else can, either: it stays ours until it is seen to be
 * another's. */
static void count(rc_lease *l)
{
    char found[RC_LEASE_TEXT];
    read_text(l->path, found);
    if (found[0] != '\0' && memcmp(found, l->text, IDENTITY) != 0)
        atomic_store(&l->lost, true);
    l->beat++;
    write_text(l);
    if (pwrite(l->fd, l->text, strlen(l->text), 0) > 0)
        fsync(l->fd); /* others see what has left this machine */
}

static void *beat(void *context)
{
    rc_lease *l = context;
    pthread_mutex_lock(&l->mutex);
    while (!l->quit)
        if (!rc_clock_wait(&l->changed, &l->mutex, l->interval) && !l->quit)
            count(l);
    pthread_mutex_unlock(&l->mutex);
    return NULL;
}

static rc_status start(rc_lease *l)
{
    sigset_t all, before;
    pthread_mutex_init(&l->mutex, NULL);
    rc_clock_condition(&l->changed);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&l->thread, NULL, beat, l);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error == 0)
        return RC_OK;
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->mutex);
    return rc_fail(RC_OUT_OF_MEMORY, "cannot start the thread of a lease: %s", strerror(error));
}

/* ---- taking it ------------------------------------------------------------------------------------------------ */

/* A name beside the lease that no other process uses. */
static void name_beside(const rc_lease *l, const char *kind, char name[RC_PATH_SIZE + 64])
{
    snprintf(name, RC_PATH_SIZE + 64, "%s.%s-%.16s", l->path, kind, l->text + IDENTITY - 16);
}

/* *taken: the file is there, and ours. A server may have made the link and lost its answer: the count of links
 * tells. */
static rc_status make(rc_lease *l, bool *taken)
{
    char own[RC_PATH_SIZE + 64];
    struct stat info;
    name_beside(l, "new", own);
    *taken = false;
    l->fd = rc_file_open(own, O_RDWR | O_CREAT | O_EXCL);
    if (l->fd < 0)
        return rc_fail(RC_IO, "cannot make '%s': %s", own, strerror(errno));
    size_t size = strlen(l->text);
    bool written = pwrite(l->fd, l->text, size, 0) == (ssize_t)size && fsync(l->fd) == 0;
    int error = errno;
    if (written) {
        bool linked = link(own, l->path) == 0;
        error = errno;
        *taken = linked || (stat(own, &info) == 0 && info.st_nlink == 2);
    }
    unlink(own);
    if (*taken)
        return RC_OK;
    rc_file_close(l->fd);
    l->fd = -1;
    return written && error == EEXIST ? RC_OK : rc_fail(RC_IO, "cannot make '%s': %s", l->path, strerror(error));
}

/* Puts a dead lease away. Of several that try, one finds it under its name; who has moved a living one by mistake,
 * because another was faster, puts it back. */
static void bury(const rc_lease *l, const char *dead)
{
    char away[RC_PATH_SIZE + 64], found[RC_LEASE_TEXT];
    name_beside(l, "stale", away);
    if (rename(l->path, away) != 0)
        return;
    read_text(away, found);
    if (memcmp(found, dead, IDENTITY) != 0)
        (void)!link(away, l->path);
    unlink(away);
}

static rc_status try_once(rc_lease *l, double stale, rc_lease_sight *sight, bool *taken)
{
    char found[RC_LEASE_TEXT];
    *taken = false;
    read_text(l->path, found);
    if (found[0] == '\0') {
        bool there;
        RC_TRY(rc_file_find(l->path, &there));
        if (!there)
            return make(l, taken);
    }
    if (strcmp(found, sight->text) != 0 || sight->since == 0) {
        memcpy(sight->text, found, sizeof found);
        sight->since = rc_now();
        return RC_OK;
    }
    if (rc_now() - sight->since < stale)
        return RC_OK;
    bury(l, found);
    *sight = (rc_lease_sight){0};
    return make(l, taken);
}

rc_status rc_lease_try(const char *path, double stale, rc_lease_sight *sight, rc_lease **lease)
{
    bool taken;
    *lease = NULL;
    rc_lease *l = rc_alloc_zeroed(NULL, 1, sizeof *l);
    if (l == NULL)
        return RC_OUT_OF_MEMORY;
    l->fd = -1;
    l->interval = stale / BEATS;
    snprintf(l->path, sizeof l->path, "%s", path);
    identify(l);
    rc_status status = try_once(l, stale, sight, &taken);
    if (status == RC_OK && taken) {
        status = start(l);
        if (status == RC_OK) {
            *lease = l;
            return RC_OK;
        }
        unlink(l->path);
        rc_file_close(l->fd);
    }
    rc_free(NULL, l);
    return status;
}

bool rc_lease_lost(const rc_lease *l)
{
    return atomic_load(&l->lost);
}

void rc_lease_release(rc_lease *l)
{
    char found[RC_LEASE_TEXT];
    if (l == NULL)
        return;
    pthread_mutex_lock(&l->mutex);
    l->quit = true;
    pthread_cond_signal(&l->changed);
    pthread_mutex_unlock(&l->mutex);
    pthread_join(l->thread, NULL);
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->mutex);
    read_text(l->path, found);
    if (memcmp(found, l->text, IDENTITY) == 0)
        unlink(l->path);
    rc_file_close(l->fd);
    rc_free(NULL, l);
}
