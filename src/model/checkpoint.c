#include "model/checkpoint.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/number.h"
#include "model/fingerprint.h"

static const char format[] = "recollect-checkpoint-1";

/* ---- saving -------------------------------------------------------------------------------------------------- */

static size_t host_bytes(const rc_state_entry *entry)
{
    return entry->count * (entry->type == RC_STATE_REAL ? sizeof(float) : sizeof(int32_t));
}

/* Copies every tensor to the host, one after the other into `block`. */
static void gather(rc_backend *be, const rc_state *state, char *block, rc_named_tensor *tensors)
{
    for (int i = 0; i < state->entries; i++) {
        const rc_state_entry *entry = &state->entry[i];
        bool real = entry->type == RC_STATE_REAL;
        if (real)
            be->read_real(be, (float *)(void *)block, entry->memory, entry->count);
        else
            be->read_bytes(be, block, entry->memory, entry->count * sizeof(int32_t));
        tensors[i] = (rc_named_tensor){.name = entry->name,
                                       .dtype = real ? RC_DTYPE_F32 : RC_DTYPE_I32,
                                       .dims = 1,
                                       .shape = {(int64_t)entry->count},
                                       .data = block};
        block += host_bytes(entry);
    }
}

static void wall_key(int stage, char key[32])
{
    snprintf(key, 32, "%s_seconds", rc_stage_name((rc_stage)stage));
}

static void describe(const rc_position *position, const char *fingerprint, rc_json_writer *metadata)
{
    char seconds[32], step[16], task[16], offset[32], key[32];
    rc_number_write(position->seconds, 12, seconds, sizeof seconds);
    snprintf(step, sizeof step, "%" PRIu32, position->step);
    snprintf(task, sizeof task, "%d", position->task);
    snprintf(offset, sizeof offset, "%" PRId64, position->log_offset);
    rc_json_put_text(metadata, "format", format);
    rc_json_put_text(metadata, "task", task);
    rc_json_put_text(metadata, "stage", rc_stage_name(position->stage));
    rc_json_put_text(metadata, "step", step);
    rc_json_put_text(metadata, "seconds", seconds);
    rc_json_put_text(metadata, "log_offset", offset);
    rc_json_put_text(metadata, "fingerprint", fingerprint);
    for (int i = 0; i < RC_STAGE_COUNT; i++) {
        wall_key(i, key);
        rc_number_write(position->wall[i], 12, seconds, sizeof seconds);
        rc_json_put_text(metadata, key, seconds);
    }
}

rc_status rc_checkpoint_save(const char *path, rc_backend *backend, const rc_state *state, const rc_position *position,
                             const char *fingerprint)
{
    size_t bytes = 0;
    for (int i = 0; i < state->entries; i++)
        bytes += host_bytes(&state->entry[i]);
    char *block = rc_alloc(NULL, bytes);
    rc_named_tensor *tensors = rc_alloc_zeroed(NULL, (size_t)state->entries + 1, sizeof *tensors);
    rc_status status = block != NULL && tensors != NULL ? RC_OK : RC_OUT_OF_MEMORY;
    if (status == RC_OK)
        status = rc_state_check(backend, state);
    if (status == RC_OK) {
        gather(backend, state, block, tensors);
        status = backend->sync(backend); /* was everything read from the device? */
    }
    if (status == RC_OK) {
        rc_json_writer metadata = rc_safetensors_metadata_begin();
        describe(position, fingerprint, &metadata);
        status = rc_safetensors_write(path, tensors, state->entries, &metadata, true);
    }
    rc_free(NULL, tensors);
    rc_free(NULL, block);
    return status;
}

/* ---- restoring ----------------------------------------------------------------------------------------------- */

static rc_status read_number(const rc_safetensors *file, const char *key, double low, double high, double *value)
{
    const char *text = rc_safetensors_metadata(file, key);
    char *end = NULL;
    *value = text != NULL ? rc_number_read(text, &end) : 0;
    if (text == NULL || end == text || *end != '\0' || !(*value >= low && *value <= high))
        return rc_fail(RC_FORMAT, "the checkpoint says %s '%s', expected a number from %g to %g", key,
                       text ? text : "nothing", low, high);
    return RC_OK;
}

/* A number that counts something. */
static rc_status read_whole(const rc_safetensors *file, const char *key, double high, double *value)
{
    RC_TRY(read_number(file, key, 0, high, value));
    return *value == floor(*value) ? RC_OK
                                   : rc_fail(RC_FORMAT, "the checkpoint says %s '%s', expected a whole number", key,
                                             rc_safetensors_metadata(file, key));
}

static rc_status read_position(const rc_safetensors *file, rc_position *position)
{
    double task, step, seconds, offset;
    RC_TRY(read_whole(file, "task", RC_MAX_TASKS - 1, &task));
    RC_TRY(read_whole(file, "step", UINT32_MAX, &step));
    RC_TRY(read_number(file, "seconds", 0, 1e12, &seconds));
    RC_TRY(read_whole(file, "log_offset", 1e15, &offset));
    const char *stage = rc_safetensors_metadata(file, "stage");
    *position = (rc_position){.task = (int)task,
                              .stage = RC_STAGE_COUNT,
                              .step = (uint32_t)step,
                              .seconds = seconds,
                              .log_offset = (int64_t)offset};
    for (int i = 0; i < RC_STAGE_COUNT; i++) {
        char key[32];
        wall_key(i, key);
        if (rc_safetensors_metadata(file, key) != NULL)
            RC_TRY(read_number(file, key, 0, 1e12, &position->wall[i]));
        if (stage != NULL && strcmp(stage, rc_stage_name((rc_stage)i)) == 0)
            position->stage = (rc_stage)i;
    }
    return position->stage < RC_STAGE_COUNT ? RC_OK
                                            : rc_fail(RC_FORMAT, "the checkpoint names a stage that does not exist");
}

static rc_status check_identity(const rc_safetensors *file, const char *path, const char *fingerprint)
{
    const char *kind = rc_safetensors_metadata(file, "format"), *made = rc_safetensors_metadata(file, "fingerprint");
    if (kind == NULL || strcmp(kind, format) != 0)
        return rc_fail(RC_FORMAT, "%s is not a checkpoint of this version (%s)", path, format);
    return rc_fingerprint_check(path, made, fingerprint, NULL, NULL,
                                "go on with what it was begun with, or remove it, and its task begins anew");
}

rc_status rc_checkpoint_identify(const rc_safetensors *file, const char *name, const char *fingerprint,
                                 rc_position *position)
{
    RC_TRY(check_identity(file, name, fingerprint));
    rc_status status = read_position(file, position);
    return status == RC_OK ? RC_OK : rc_fail(status, "%s: %s", name, rc_message());
}

rc_status rc_checkpoint_open(const char *path, const char *fingerprint, rc_position *position, rc_safetensors **file)
{
    RC_TRY(rc_safetensors_open(path, file));
    rc_status status = rc_checkpoint_identify(*file, path, fingerprint, position);
    if (status != RC_OK) {
        rc_safetensors_close(*file);
        *file = NULL;
    }
    return status;
}

rc_status rc_checkpoint_restore(const rc_safetensors *file, rc_backend *backend, const rc_state *state)
{
    for (int i = 0; i < state->entries; i++) {
        const rc_state_entry *entry = &state->entry[i];
        bool real = entry->type == RC_STATE_REAL;
        const rc_named_tensor *tensor;
        RC_TRY(rc_safetensors_get(file, entry->name, real ? RC_DTYPE_F32 : RC_DTYPE_I32, entry->count, &tensor));
        void *aligned = rc_alloc(NULL, host_bytes(entry));
        if (aligned == NULL)
            return RC_OUT_OF_MEMORY;
        memcpy(aligned, tensor->data, host_bytes(entry));
        if (real)
            backend->write_real(backend, entry->memory, aligned, entry->count);
        else
            backend->write_bytes(backend, entry->memory, aligned, entry->count * sizeof(int32_t));
        rc_free(NULL, aligned);
    }
    return backend->sync(backend);
}
