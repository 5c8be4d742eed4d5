/* How much memory a command may take, and the refusal of work that would take more, before it begins.
 *
 * Files may come from strangers, and a few bytes of a model can ask for any amount of memory: by the size of its
 * images, its batch, the width of its generator. So everything is first built on a backend that only counts
 * (backend.h, sizing), and the sum is compared with the thread's budget (base/memory.h). Every allocation keeps to
 * the budget, too, so a wrong forecast also ends in a message. */
#ifndef RC_FORECAST_ALLOWANCE_H
#define RC_FORECAST_ALLOWANCE_H

#include "cil/learner.h"

/* Unless the user allows more, a command that works with a model file may hold RC_ALLOWED_ANYWAY bytes plus
 * RC_ALLOWED_PER_BYTE times the file, and no command may hold more than RC_ALLOWED_SHARE percent of what is free. */
#define RC_ALLOWED_ANYWAY   ((size_t)2 << 30)
#define RC_ALLOWED_PER_BYTE 1024
#define RC_ALLOWED_SHARE    80

/* Bytes that the process may hold: as given; 0: RC_ALLOWED_SHARE percent of what is free beside what it holds. */
size_t rc_memory_allowed(size_t given);
/* The same for a model from a file of file_bytes bytes, if `given` is 0. file_bytes 0: it comes from no file. */
size_t rc_memory_allowed_for(size_t allowed, size_t given, size_t file_bytes);

/* Sets the budget of a program that works with one model for this thread. 0, 0: no limit was given, and there is no
 * model file. */
void rc_memory_allow(size_t given, size_t file_bytes);

/* What a forecast is about, for its message. */
typedef struct rc_memory_claim {
    const char *what; /* "learning", "dreaming", "scoring" */
    const rc_settings *settings;
    const rc_augment *image;
    int batch;   /* images at a time */
    int held;    /* images at most, to be replayed */
    bool dreams; /* there is a generator */
} rc_memory_claim;

/* RC_OUT_OF_MEMORY if `forecast` bytes on top of those that are held exceed this thread's budget. The message names
 * the claim, the forecast, and how to allow it. */
rc_status rc_memory_check(const rc_memory_claim *claim, size_t forecast);

/* The most images at a time, up to `wanted`, that a scorer of the classifier can take within the budget. Refuses if
 * even one image takes too much. */
rc_status rc_scoring_batch(rc_backend *backend, const rc_classifier *classifier, const rc_settings *settings,
                           const rc_augment *image, int wanted, int *batch);

#endif
