/* How much memory may be taken, and the refusal of what would take more, before it is taken.
 *
 * Files come from strangers, and a few bytes of a model can ask for any amount: its images' size, its batch, the
 * width of its generator. What would be built is therefore built on a backend that only counts (backend.h, sizing),
 * and the sum is compared with the thread's budget (base/memory.h). The budget is also kept by every allocation, so
 * that a forecast that is wrong ends in a message, too. */
#ifndef RC_FORECAST_ALLOWANCE_H
#define RC_FORECAST_ALLOWANCE_H

#include "cil/learner.h"

/* Unless somebody allows more, whoever works with a model file may hold RC_ALLOWED_ANYWAY bytes and RC_ALLOWED_PER_BYTE
 * times the file, and all together RC_ALLOWED_SHARE percent of what is free. */
#define RC_ALLOWED_ANYWAY   ((size_t)2 << 30)
#define RC_ALLOWED_PER_BYTE 1024
#define RC_ALLOWED_SHARE    80

/* Bytes that the process may hold: as given; 0: RC_ALLOWED_SHARE percent of what is free beside what it holds. */
size_t rc_memory_allowed(size_t given);
/* The same for a model of so many bytes of file, where `given` is 0. file_bytes 0: it comes from no file. */
size_t rc_memory_allowed_for(size_t allowed, size_t given, size_t file_bytes);

/* Sets this thread's budget to that of a program which works with one model; 0, 0: given nothing, no model file. */
void rc_memory_allow(size_t given, size_t file_bytes);

/* What a forecast was made of, for its message. */
typedef struct rc_memory_claim {
    const char *what; /* "learning", "dreaming", "scoring" */
    const rc_settings *settings;
    const rc_augment *image;
    int batch; /* images at a time */
    bool dreams; /* there is a generator */
} rc_memory_claim;

/* RC_OUT_OF_MEMORY where so many bytes beside those that are held are more than this thread's budget. The message names
 * the claim, the forecast, and how to allow it. */
rc_status rc_memory_check(const rc_memory_claim *claim, size_t forecast);

/* The most images at a time, up to `wanted`, that a scorer of the classifier can take within the budget. Refuses
 * where one is too many. */
rc_status rc_scoring_batch(rc_backend *backend, const rc_classifier *classifier, const rc_settings *settings,
                           const rc_augment *image, int wanted, int *batch);

#endif
