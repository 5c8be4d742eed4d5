#include "base/process.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

/* Forks between the first process and this one. (A process id would not do: in a container both may have id 1.) */
static _Atomic uint32_t forks;

static void count_fork(void)
{
    atomic_fetch_add(&forks, 1);
}

rc_status rc_process_mark(uint32_t *process)
{
    /* No lock: a child would inherit it, locked by a thread that it does not have. If two threads come here at once,
       a fork counts twice, which does no harm. */
    static atomic_bool counting;
    if (!atomic_load(&counting)) {
        int error = pthread_atfork(NULL, NULL, count_fork);
        if (error != 0)
            return rc_fail(RC_OUT_OF_MEMORY, "cannot prepare for a fork: %s", strerror(error));
        atomic_store(&counting, true);
    }
    *process = atomic_load(&forks);
    return RC_OK;
}

bool rc_process_is(uint32_t process)
{
    return process == atomic_load(&forks);
}
