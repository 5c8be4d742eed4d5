/* Whose a file is. Every file that a run reads back says which run it is of, so that one of another run, which somebody
 * has copied there or left there, is refused and not believed.
 *
 * A fingerprint has parts, so that it can be told what differs:
 *
 *   method    the row, or "first-task", which rows share
 *   settings  the whole configuration but where the data lies
 *   data      every image, every label, the shape, the names of the classes
 *   classes   their order, and how tasks divide them
 *
 * What may change from one life of a run to the next is not in it: where the data lies, the folder of the run, backend,
 * precision and threads, jobs, how often checkpoints are written, how many tasks are asked for, the program's version.
 * So a run may be taken elsewhere and go on there. */
#ifndef RC_MODEL_FINGERPRINT_H
#define RC_MODEL_FINGERPRINT_H

#include "base/json.h"
#include "cil/task_stream.h"
#include "config/config.h"
#include "data/dataset.h"

enum { RC_HASH_SIZE = 17, RC_FINGERPRINT_SIZE = 160 };

/* Of all that a data set holds. */
void rc_data_hash(const rc_dataset *data, char text[RC_HASH_SIZE]);

void rc_fingerprint(const rc_config *config, const char *data_hash, const char *method, const rc_task_stream *stream,
                    char text[RC_FINGERPRINT_SIZE]);

/* Is the file, which says `found` (NULL: nothing), of the run whose fingerprint is `expected`? RC_INVALID_ARGUMENT: it
 * is not; the message says what differs and ends with `advice`. config: what the file says of its settings, as JSON, to
 * name one that differs from those of `now`; NULL: nothing. */
rc_status rc_fingerprint_check(const char *path, const char *found, const char *expected, const rc_json *config,
                               const rc_config *now, const char *advice);

#endif
