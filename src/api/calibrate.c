#include "api/calibrate.h"

#include "api/unfamiliarity.h"
#include "base/memory.h"
#include "cil/scorer.h"
#include "forecast/allowance.h"
#include "model/confidence.h"

/* Room for a batch. */
typedef struct measuring {
    const rc_learner *learner;
    rc_unfamiliarity *unfamiliarity;
    rc_scorer *scorer;
    int batch;
    float *logits, *features; /* (batch, classes), (batch, d) */
    rc_confidence confidence;
} measuring;

static rc_status begin(measuring *m, const rc_saved_model *model, int images)
{
    const rc_learner *l = m->learner = &model->learner;
    int wanted = model->config.test_batch < images ? model->config.test_batch : images;
    RC_TRY(rc_unfamiliarity_create(l, l->backend, &m->unfamiliarity));
    RC_TRY(rc_scoring_batch(l->backend, &l->student, &l->settings, &l->augment, wanted > 1 ? wanted : 1, &m->batch));
    RC_TRY(rc_scorer_create(l->backend, &l->student, m->batch, &l->augment, &m->scorer));
    RC_TRY(rc_scorer_look(m->scorer, rc_config_views(&model->config)));
    size_t batch = (size_t)m->batch;
    m->logits = rc_alloc_zeroed(NULL, batch * (size_t)l->student.head.classes, sizeof *m->logits);
    m->features = rc_alloc_zeroed(NULL, batch * (size_t)l->student.head.d, sizeof *m->features);
    return m->logits != NULL && m->features != NULL ? RC_OK : RC_OUT_OF_MEMORY;
}

static void end(measuring *m)
{
    rc_unfamiliarity_destroy(m->unfamiliarity);
    rc_scorer_destroy(m->scorer);
    rc_free(NULL, m->logits);
    rc_free(NULL, m->features);
}

/* Scores of the images with these numbers (count), and how sure the model is of them. */
static rc_status measure(measuring *m, const rc_held_out *held_out, const int32_t *index, int count, double *scores)
{
    const rc_split *images = held_out->images;
    size_t classes = (size_t)m->learner->student.head.classes, d = (size_t)m->learner->student.head.d;
    for (int from = 0; from < count; from += m->batch) {
        int now = count - from < m->batch ? count - from : m->batch, nearest;
        RC_TRY(rc_scorer_run(m->scorer, images->images, index + from, now, m->logits, m->features));
        for (int i = 0; i < now; i++) {
            const float *logits = m->logits + (size_t)i * classes;
            scores[from + i] = rc_unfamiliarity_score(m->unfamiliarity, logits, m->features + (size_t)i * d, &nearest);
            rc_confidence_add(&m->confidence, logits, (int)classes, held_out->label[images->labels[index[from + i]]]);
        }
    }
    return RC_OK;
}

/* The kind of score that the model has, its scores of those held-out images that belong to new classes, and how sure it
 * is of them. */
static rc_status measure_new(const rc_saved_model *model, const rc_held_out *held_out, rc_calibration *c,
                             rc_confidence *confidence, double *scores, int32_t *index, int *count)
{
    const rc_split *images = held_out->images;
    measuring m = {0};
    *count = 0;
    for (int i = 0; i < images->count; i++)
        if (held_out->label[images->labels[i]] >= held_out->known)
            index[(*count)++] = i;
    rc_status status = begin(&m, model, *count);
    if (status == RC_FORMAT) { /* no covariance: a model without scores is better than none */
        *count = 0;
        status = RC_OK;
    } else if (status == RC_OK) {
        c->kind = rc_unfamiliarity_kind(m.unfamiliarity);
        status = measure(&m, held_out, index, *count, scores);
    }
    *confidence = m.confidence;
    end(&m);
    return status;
}

/* The lessons of the old classes. Their images are gone, so their scores stay as they were measured: the relative
 * distance changes little when a lesson keeps the old classes alive (docs/unfamiliarity.md has the figures). Other
 * scores do, and then only the number of the classes stays. */
static rc_status take_old(rc_calibration *c, const rc_saved_model *before, int known)
{
    rc_score_kind kind = c->kind;
    if (known == 0)
        return RC_OK;
    const rc_calibration *old = &before->calibration;
    if (kind == RC_SCORE_DISTANCE_AND_ENTROPY && old->kind == kind && old->lessons > 0)
        return rc_calibration_copy(c, old);
    return rc_calibration_add(c, known, NULL, 0);
}

/* Nobody knows how sure a net from elsewhere is of the classes that it came with: its answers stay as they are. before:
 * NULL after a first lesson. */
static double temperature_of(const rc_confidence *confidence, const rc_calibration *before)
{
    if (before != NULL && (before->temperature == 0 || confidence->images == 0))
        return before->temperature;
    return rc_confidence_temperature(confidence);
}

rc_status rc_calibrate(rc_saved_model *taught, const rc_saved_model *before, const rc_held_out *held_out)
{
    size_t most = (size_t)held_out->images->count + 1;
    double *scores = rc_alloc_zeroed(NULL, most, sizeof *scores);
    int32_t *index = rc_alloc_zeroed(NULL, most, sizeof *index);
    rc_calibration c = {0};
    rc_confidence confidence;
    int count, n_new = taught->learner.student.head.classes - held_out->known;
    rc_status status = scores != NULL && index != NULL ? RC_OK : RC_OUT_OF_MEMORY;
    if (status == RC_OK)
        status = measure_new(taught, held_out, &c, &confidence, scores, index, &count);
    if (status == RC_OK)
        status = take_old(&c, before, held_out->known);
    if (status == RC_OK)
        status = rc_calibration_add(&c, n_new, scores, count);
    if (status == RC_OK)
        c.temperature = temperature_of(&confidence, held_out->known > 0 ? &before->calibration : NULL);
    rc_free(NULL, scores);
    rc_free(NULL, index);
    if (status != RC_OK) {
        rc_calibration_destroy(&c);
        return status;
    }
    rc_calibration_destroy(&taught->calibration);
    taught->calibration = c;
    return RC_OK;
}

const char *rc_calibration_lacks(const rc_saved_model *model, rc_score_kind kind)
{
    const rc_calibration *c = &model->calibration;
    bool some = false;
    if (rc_calibration_covers(c, model->learner.student.head.classes) && c->kind == kind)
        return NULL;
    if (kind == RC_SCORE_ENTROPY && model->learner.class_mean != NULL)
        return "the model cannot tell how strange images are: it learnt every class from one image, or from equal "
               "ones; learn from more of them";
    if (model->imported)
        return "the model cannot tell how strange images are: its net came from elsewhere, and nobody held out images "
               "of the classes that it came with";
    for (int i = 0; i < c->lessons; i++)
        some = some || c->lesson[i].scores > 0;
    return some ? "the model cannot tell how strange images are: some lessons held out fewer than 20 images to measure "
                  "that, or keep no class statistics"
                : "the model cannot tell how strange images are: it has not measured that, which takes 20 held-out "
                  "images of every lesson";
}
