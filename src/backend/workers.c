/* Finds out whether this process is one of several, and what all of them share. */
#include "backend/workers.h"

#include <stdlib.h>

#include "backend/open.h"

/* Processes of the job, as mpirun, other starters of MPI and srun tell. (Slurm's script itself is no step of the job,
 * so nobody counts it.) 1: nobody says anything. */
static int started(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *text = getenv(names[i]);
        int count = text != NULL ? (int)strtol(text, NULL, 10) : 0;
        if (count > 1)
            return count;
    }
    return 1;
}

rc_status rc_workers_open(bool always, rc_workers **workers)
{
    static const rc_module_kind kind = {.file = RC_MPI_FILE,
                                        .variable = "RECOLLECT_MPI_MODULE",
                                        .what = "training in several processes",
                                        .option = "RC_MPI",
                                        .symbol = RC_MPI_OPEN,
                                        .global = true};
    const rc_workers_host host = {.table_bytes = sizeof(rc_workers), .set_message = rc_set_message};
    int count = started();
    *workers = NULL;
    if (count == 1 && !always)
        return RC_OK;
    union { /* ISO C has no conversion from an object pointer to a function pointer */
        void *object;
        rc_mpi_open *function;
    } symbol;
    rc_status status = rc_module_symbol(&kind, &symbol.object);
    if (status != RC_OK)
        return rc_fail(status, "this process was started as one of %d: %s", count, rc_message());
    RC_TRY(symbol.function(&host, workers));
    if ((*workers)->count == count)
        return RC_OK;
    rc_set_message("this process was started as one of %d, but MPI sees %d. What starts it must speak PMIx or PMI: "
                   "docs/cluster.md says how",
                   count, (*workers)->count);
    (*workers)->close(*workers);
    *workers = NULL;
    return RC_UNSUPPORTED;
}

rc_status rc_workers_check(const rc_workers *workers, const rc_backend *backend)
{
    return backend->join_workers != NULL
               ? RC_OK
               : rc_fail(RC_UNSUPPORTED, "the backend '%s' computes in one process alone, and there are %d",
                         backend->about.name, workers->count);
}

/* Test builds only: RECOLLECT_BUCKET_BYTES lets small nets have several buckets, and large ones one (0). */
static void cut_buckets(rc_backend *backend)
{
#if RC_TEST_HOOKS
    const char *bytes = getenv("RECOLLECT_BUCKET_BYTES");
    if (bytes != NULL)
        backend->bucket_bytes = (size_t)strtoul(bytes, NULL, 10);
#else
    (void)backend;
#endif
}

rc_status rc_workers_join(rc_workers *workers, rc_backend *backend)
{
    if (workers == NULL)
        return RC_OK;
    RC_TRY(rc_workers_check(workers, backend));
    RC_TRY(backend->join_workers(backend, workers));
    cut_buckets(backend);
    return RC_OK;
}

uint32_t rc_workers_word(rc_workers *workers, uint32_t word)
{
    workers->lead(workers, &word, sizeof word);
    return word;
}

rc_status rc_agree(rc_backend *backend, uint32_t *number)
{
    if (backend->workers == NULL)
        return RC_OK;
    RC_TRY(backend->sync(backend)); /* what it has enqueued may still talk to the others */
    *number = rc_workers_word(backend->workers, *number);
    if (*number == RC_WORD_LEFT)
        return rc_fail(RC_CANCELLED, "the leading process has stopped");
    return backend->link_workers != NULL ? backend->link_workers(backend) : RC_OK;
}
