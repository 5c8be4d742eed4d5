/* Files that TensorBoard opens: a row of records, each with its length and checksums, each an Event in the encoding of
 * protocol buffers. This is all of both that a log of ours needs: numbers, histograms, pictures.
 *
 *     rc_tf_event event;
 *     rc_tf_begin(&event, time, step);
 *     rc_tf_scalar(&event, "training/loss_ce", 0.53);
 *     status = rc_tf_finish(&event, &record, &size);    this, and nothing before, says whether all of it went well
 *
 * After the first failure every call does nothing. */
#ifndef RC_EXPERIMENT_TFEVENTS_H
#define RC_EXPERIMENT_TFEVENTS_H

#include <stddef.h>
#include <stdint.h>

#include "base/protobuf.h"
#include "base/status.h"

typedef struct rc_tf_event {
    rc_protobuf out;
    size_t summary; /* where the summary begins that holds all values; 0: there is none yet */
} rc_tf_event;

/* time: seconds since 1970. */
void rc_tf_begin(rc_tf_event *event, double time, int64_t step);
/* What the first event of a file says, and nothing else. */
void rc_tf_version(rc_tf_event *event);
/* That a process begins here: a TensorBoard that has read steps from this one on forgets them. */
void rc_tf_start(rc_tf_event *event);

void rc_tf_scalar(rc_tf_event *event, const char *tag, double value);
/* A bar for each of `count` classes, class i from i - 0.5 to i + 0.5. */
void rc_tf_histogram(rc_tf_event *event, const char *tag, const double *height, size_t count);
/* A whole PNG file of a colour picture. */
void rc_tf_image(rc_tf_event *event, const char *tag, int height, int width, const void *png, size_t size);

/* The record as the file has it. The caller frees it with rc_free(NULL, ...); on failure it is NULL. */
rc_status rc_tf_finish(rc_tf_event *event, uint8_t **record, size_t *size);

/* CRC-32C (Castagnoli), and as a record has it. */
uint32_t rc_crc32c(const void *data, size_t size);
uint32_t rc_crc32c_masked(const void *data, size_t size);

#endif
