#include "api/lesson_checkpoint.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/stop.h"

/* A last checkpoint is left out where the one before took longer than this: who stops a lesson waits for it. */
static const double too_long = 0.4;

rc_status rc_lesson_checkpoint_check(const rc_lesson_checkpoint *c)
{
    bool there = false;
    if (c->path != NULL && !c->resume)
        RC_TRY(rc_file_find(c->path, &there));
    if (!there)
        return RC_OK;
    return rc_fail(
        RC_INVALID_ARGUMENT,
        "'%.700s' is there, from a lesson that was stopped: the setting 'resume' goes on with it; remove it to "
        "begin anew",
        c->path);
}

/* ---- which lesson it is ------------------------------------------------------------------------------------------ */

/* Of all images, as the backend has them, whoever gave them. */
static rc_status hash_images(const rc_learner *l, int images, uint64_t *hash)
{
    enum { AT_ONCE = 64 };
    size_t image = (size_t)l->augment.h * (size_t)l->augment.w * (size_t)l->augment.c;
    uint8_t *piece = rc_alloc_zeroed(NULL, AT_ONCE, image);
    if (piece == NULL)
        return RC_OUT_OF_MEMORY;
    for (int first = 0; first < images && !rc_stop_poll(); first += AT_ONCE) {
        size_t count = (size_t)(images - first < AT_ONCE ? images - first : AT_ONCE);
        l->backend->read_images(l->backend, piece, l->data.images, (size_t)first * image, count * image);
        *hash = rc_hash_bytes(*hash, piece, count * image);
    }
    rc_free(NULL, piece);
    return l->backend->sync(l->backend);
}

static rc_status hash_data(const rc_saved_model *taught, const int32_t *labels, int images, const rc_split *held_out,
                           char text[RC_HASH_SIZE])
{
    const rc_learner *l = &taught->learner;
    const int shape[] = {l->augment.h, l->augment.w, l->augment.c, l->n_old, l->n_new, images};
    uint64_t hash = rc_hash_bytes(RC_HASH_START, shape, sizeof shape);
    for (int i = 0; i < l->n_old + l->n_new; i++)
        hash = rc_hash_bytes(hash, taught->class_name[i], strlen(taught->class_name[i]) + 1);
    hash = rc_hash_bytes(hash, labels, (size_t)images * sizeof *labels);
    RC_TRY(hash_images(l, images, &hash));
    if (held_out->count > 0) {
        size_t image = (size_t)l->augment.h * (size_t)l->augment.w * (size_t)l->augment.c;
        hash = rc_hash_bytes(hash, held_out->labels, (size_t)held_out->count * sizeof *held_out->labels);
        hash = rc_hash_bytes(hash, held_out->images, (size_t)held_out->count * image);
    }
    rc_hash_text(hash, text);
    return RC_OK;
}

static rc_status hash_model(const rc_saved_model *before, char text[RC_HASH_SIZE])
{
    void *bytes;
    size_t size;
    snprintf(text, RC_HASH_SIZE, "none");
    if (before->learner.backend == NULL)
        return RC_OK;
    RC_TRY(rc_model_file_pack(before, &bytes, &size));
    rc_hash_text(rc_hash_bytes(RC_HASH_START, bytes, size), text);
    rc_free(NULL, bytes);
    return RC_OK;
}

static rc_status identify(rc_lesson_checkpoint *c, const rc_saved_model *before, const rc_saved_model *taught,
                          const int32_t *labels, int images, const rc_split *held_out)
{
    char settings[RC_HASH_SIZE], data[RC_HASH_SIZE], model[RC_HASH_SIZE];
    rc_config config = taught->config;
    config.settings = taught->learner.settings; /* as they are in this lesson */
    rc_settings_hash(&config, settings);
    RC_TRY(hash_data(taught, labels, images, held_out, data));
    RC_TRY(hash_model(before, model));
    snprintf(c->fingerprint, sizeof c->fingerprint, "method=%s settings=%s data=%s model=%s seed=%llu",
             taught->learner.method->name, settings, data, model, (unsigned long long)config.settings.seed);
    return RC_OK;
}

/* ---- going on ---------------------------------------------------------------------------------------------------- */

static rc_status find_place(rc_lesson_checkpoint *c, const rc_learner *l)
{
    rc_status status = rc_checkpoint_open(c->path, c->fingerprint, &c->position, &c->file);
    if (status == RC_OK) {
        uint32_t steps = rc_stage_steps(l, c->position.stage);
        if (c->position.task != l->task || c->position.step > steps)
            status = rc_fail(RC_FORMAT,
                             "'%.500s' is at task %d, %s, step %u, but this lesson is task %d and has %u steps",
                             c->path, c->position.task + 1, rc_stage_name(c->position.stage), c->position.step,
                             l->task + 1, steps);
    }
    return status == RC_FORMAT ? rc_fail(status, "%s; remove it to begin the lesson anew", rc_message()) : status;
}

rc_status rc_lesson_checkpoint_begin(rc_lesson_checkpoint *c, const rc_saved_model *before,
                                     const rc_saved_model *taught, const int32_t *labels, int images,
                                     const rc_split *held_out, rc_stage *stage, uint32_t *step)
{
    bool there;
    c->last = rc_now();
    if (c->path == NULL)
        return RC_OK;
    RC_TRY(identify(c, before, taught, labels, images, held_out));
    if (!c->resume)
        return RC_OK;
    RC_TRY(rc_file_remove_leftovers_of(c->path));
    RC_TRY(rc_file_find(c->path, &there));
    if (!there) {
        rc_log_write(c->log, RC_LOG_INFO, "note: there is no '%.700s' to go on from, so the lesson begins anew",
                     c->path);
        return RC_OK;
    }
    RC_TRY(find_place(c, &taught->learner));
    c->kept = true;
    *stage = c->position.stage;
    *step = c->position.step;
    rc_log_write(c->log, RC_LOG_INFO, "going on in %s, after step %u of %u", rc_stage_name(*stage), *step,
                 rc_stage_steps(&taught->learner, *stage));
    return RC_OK;
}

rc_status rc_lesson_checkpoint_restore(const rc_lesson_checkpoint *c, rc_backend *backend, rc_state *state)
{
    rc_status status = c->file != NULL ? rc_checkpoint_restore(c->file, backend, state) : RC_OK;
    return status != RC_FORMAT
               ? status
               : rc_fail(status, "'%.500s': %s; remove it to begin the lesson anew", c->path, rc_message());
}

/* ---- saving ------------------------------------------------------------------------------------------------------ */

rc_status rc_lesson_checkpoint_keep(rc_lesson_checkpoint *c, rc_backend *backend, const rc_stage_report *report,
                                    const double wall[RC_STAGE_COUNT], bool stops)
{
    double began = rc_now();
    if (c->path == NULL || (stops ? c->took > too_long : began - c->last < c->seconds))
        return RC_OK;
    rc_position position = {.task = report->task, .stage = report->stage, .step = report->step};
    if (report->stage == RC_STAGE_ESTIMATION) /* it begins anew */
        position.step = 0;
    for (int i = 0; i < RC_STAGE_COUNT; i++) {
        position.wall[i] = wall[i];
        position.seconds += wall[i];
    }
    rc_status status = rc_checkpoint_save(c->path, backend, report->state, &position, c->fingerprint);
    c->last = rc_now();
    c->took = c->last - began;
    if (status == RC_OK || status == RC_UNSYNCED) {
        c->kept = true;
        c->position = position;
        return RC_OK;
    }
    if (status == RC_NUMERIC || status == RC_CANCELLED || status == RC_DEVICE)
        return status;
    if (!c->warned)
        rc_log_write(c->log, RC_LOG_WARN, "warning: no checkpoint could be written, and the lesson goes on without: %s",
                     rc_message());
    c->warned = true;
    return RC_OK;
}

void rc_lesson_checkpoint_end(rc_lesson_checkpoint *c)
{
    rc_safetensors_close(c->file);
    c->file = NULL;
}
