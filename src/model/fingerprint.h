/* Which run a file belongs to. Every file that a run reads back says so, and a run refuses a file of another run that
 * somebody copied or left there.
 *
 * A fingerprint has parts, so that a message can say what differs:
 *
 *   method    the row, or "first-task", which rows share
 *   settings  the whole configuration except where the data lies
 *   data      every image, every label, the shape, the names of the classes
 *   classes   their order, and how tasks divide them
 *   model     of a lesson: the model before it
 *   seed      of a lesson: the number itself, which is one of the settings and also chooses the images that are held
 *             out; where it differs, a message says that alone
 *
 * What may change while a run is stopped is not in it: where the data lies, the folder of the run, backend, precision
 * and threads, jobs, how often checkpoints are written, how many tasks to run, the program's version. So a run may be
 * moved to another machine and go on there. */
#ifndef RC_MODEL_FINGERPRINT_H
#define RC_MODEL_FINGERPRINT_H

#include "base/hash.h"
#include "base/json.h"
#include "cil/task_stream.h"
#include "config/config.h"
#include "data/dataset.h"

enum { RC_FINGERPRINT_SIZE = 160 };

/* Of the configuration, except where the data lies. */
void rc_settings_hash(const rc_config *config, char text[RC_HASH_SIZE]);

/* Of all that a data set holds. */
void rc_data_hash(const rc_dataset *data, char text[RC_HASH_SIZE]);

void rc_fingerprint(const rc_config *config, const char *data_hash, const char *method, const rc_task_stream *stream,
                    char text[RC_FINGERPRINT_SIZE]);

/* Does a file whose fingerprint is `found` (NULL: it has none) belong to the run whose fingerprint is `expected`?
 * RC_INVALID_ARGUMENT: it does not; the message says what differs and ends with `advice`. config: the file's settings
 * as JSON, so that the message can name one that differs from those of `now`; NULL: not known. */
rc_status rc_fingerprint_check(const char *path, const char *found, const char *expected, const rc_json *config,
                               const rc_config *now, const char *advice);

#endif
