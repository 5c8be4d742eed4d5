/* Measures the speed of every operation, and of whole steps, on this machine. */
#ifndef RC_CHECK_BENCH_H
#define RC_CHECK_BENCH_H

#include <stdbool.h>

#include "base/status.h"

typedef struct rc_bench_settings {
    const char *backend;   /* NULL: "cpu" */
    int threads;           /* 0: all cores */
    int batch, size;       /* images; 0: 128 of 32 pixels, or of as many as a published net takes */
    bool quick;            /* fewer repetitions */
    bool json;             /* one JSON text instead of tables */
    bool operations;       /* measure operations */
    const char *operation; /* this one alone; NULL: all */
    const char *net;  /* shapes of this net alone, which rc_net_by_name() knows; NULL: the generator and the backbone
                              that belong to the size */
    const char *step; /* "train_first", "train_next", "inversion" or "all"; NULL: none */
    int jobs;         /* steps side by side, each with its part of the threads; 0: one */

    void (*line)(void *user, const char *text);     /* results, one line each; JSON may be many lines in one */
    void (*progress)(void *user, const char *text); /* what is going on; may be NULL */
    void *user;
} rc_bench_settings;

rc_status rc_bench(const rc_bench_settings *settings);

/* Names of the operations that can be measured; NULL when there are no more. */
const char *rc_bench_operation(int index);

#endif
