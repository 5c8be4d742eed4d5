/* Checkpoints of a run or a lesson: one safetensors file with every registered tensor and, as metadata, where it is.
 * Written to a temporary name, synced and renamed, so a kill at any moment leaves the last good one. */
#ifndef RC_MODEL_CHECKPOINT_H
#define RC_MODEL_CHECKPOINT_H

#include "cil/stage.h"
#include "model/safetensors.h"

/* Where a run is: the stage and step to go on from. */
typedef struct rc_position {
    int task;
    rc_stage stage;
    uint32_t step;
    double seconds;              /* spent so far, by the whole run */
    double wall[RC_STAGE_COUNT]; /* by the stages of this task */
    int64_t log_offset;          /* bytes of the log of events that belong to it */
} rc_position;

/* state: what rc_stage_report.state holds. fingerprint: of the run (model/fingerprint.h); another run refuses the
 * file. A state with a number that is not finite is not saved (RC_NUMERIC): the last good checkpoint stays. */
rc_status rc_checkpoint_save(const char *path, rc_backend *backend, const rc_state *state, const rc_position *position,
                             const char *fingerprint);
/* Reads position and fingerprint; the file stays open for rc_checkpoint_restore. */
rc_status rc_checkpoint_open(const char *path, const char *fingerprint, rc_position *position, rc_safetensors **file);
/* The same from a file that is open and stays open; `name` is what messages call it. */
rc_status rc_checkpoint_identify(const rc_safetensors *file, const char *name, const char *fingerprint,
                                 rc_position *position);
/* Every tensor of the state must be in the file with its size. */
rc_status rc_checkpoint_restore(const rc_safetensors *file, rc_backend *backend, const rc_state *state);

#endif
