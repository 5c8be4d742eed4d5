#include "analysis/dreams.h"

#include "base/memory.h"
#include "cil/dream_batch.h"
#include "forecast/forecast.h"

/* Batch number `index`: the first n of its dreams. */
static rc_status draw(rc_dream_batch *b, uint32_t index, int n, float *features, int32_t *labels)
{
    rc_backend *be = b->learner->backend;
    rc_dream_batch_draw(b, index);
    be->read_real(be, features, rc_pass_features(b->pass), (size_t)n * (size_t)b->d);
    be->read_bytes(be, labels, b->labels, (size_t)n * sizeof *labels);
    return be->sync(be);
}

static rc_status sample(rc_learner *l, const rc_watch *watch, rc_features *f)
{
    rc_dream_batch b;
    rc_status status = rc_dream_batch_create(l, &b);
    for (int done = 0; status == RC_OK && done < f->n; done += b.n) {
        int n = f->n - done < b.n ? f->n - done : b.n;
        status = draw(&b, (uint32_t)(done / b.n), n, f->value + (size_t)done * (size_t)f->d, f->label + done);
        if (status == RC_OK && rc_watch_cancelled(watch))
            status = rc_fail(RC_CANCELLED, "stopped");
    }
    rc_dream_batch_destroy(&b);
    return status;
}

/* In this order: what the files of the model claim is counted before memory is taken for it. */
static rc_status dream(rc_learner *l, const rc_settings *settings, const rc_watch *watch, rc_features *f)
{
    const rc_method *cwd;
    RC_TRY(rc_method_find("cwd", &cwd));
    rc_task_claim claim = {.settings = settings,
                           .method = cwd,
                           .image = &l->augment,
                           .n_old = l->student.head.classes,
                           .head_bias = l->student.head.bias != NULL};
    RC_TRY(rc_forecast_allow(l->backend, &claim, "dreaming"));
    RC_TRY(rc_learner_configure(l, settings, cwd));
    RC_TRY(rc_learner_begin_dreams(l));
    uint32_t step;
    rc_status status = rc_watch_inversion(watch, l, &step);
    if (status == RC_CANCELLED)
        return rc_fail(RC_CANCELLED, "stopped");
    RC_TRY(status);
    return sample(l, watch, f);
}

rc_status rc_dream_features_create(rc_saved_model *model, const rc_settings *settings, int count, const rc_watch *watch,
                                   rc_features *f)
{
    rc_learner *l = &model->learner;
    *f = (rc_features){.n = count, .d = l->student.head.d};
    f->value = rc_alloc_zeroed(NULL, (size_t)count, (size_t)f->d * sizeof *f->value);
    f->label = rc_alloc_zeroed(NULL, (size_t)count, sizeof *f->label);
    rc_status status = f->value != NULL && f->label != NULL ? dream(l, settings, watch, f) : RC_OUT_OF_MEMORY;
    rc_learner_end_task(l);
    if (status != RC_OK)
        rc_features_destroy(f);
    return status;
}
