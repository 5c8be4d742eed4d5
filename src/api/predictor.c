#include "api/predictor.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "api/calibrate.h"
#include "api/unfamiliarity.h"
#include "base/memory.h"
#include "cil/scorer.h"
#include "forecast/allowance.h"

typedef struct slot {
    rc_status status;
    char message[RC_MESSAGE_SIZE];
} slot;

struct rc_predictor {
    const rc_saved_model *model;
    rc_predictor_settings settings;
    rc_unfamiliarity *unfamiliarity; /* NULL: the model's statistics cannot be used */
    const char *lacks;               /* why it cannot tell a false-alarm rate; NULL: it can */
    rc_pool *pool;
    rc_picture_form form;
    size_t image_bytes;
    int classes, d;
    int32_t *label; /* (classes): of one image */
    double *probability;

    /* Room for a batch. */
    int room; /* images; 0: what follows is NULL */
    rc_scorer *scorer;
    float *logits;    /* (room, classes) */
    float *features;  /* (room, d) */
    int decoded_room; /* pictures from a source; 0: what follows is NULL */
    uint8_t *pixels;  /* (decoded_room, h, w, c) */
    slot *slots;      /* (decoded_room) */

    int32_t index[RC_PREDICTOR_BATCH]; /* images of the batch that could be decoded */
};

/* ---- room -------------------------------------------------------------------------------------------------------- */

static void drop_room(rc_predictor *p)
{
    rc_scorer_destroy(p->scorer);
    rc_free(NULL, p->logits);
    rc_free(NULL, p->features);
    p->scorer = NULL;
    p->logits = p->features = NULL;
    p->room = 0;
}

static void drop_decoded_room(rc_predictor *p)
{
    rc_free(NULL, p->pixels);
    rc_free(NULL, p->slots);
    p->pixels = NULL;
    p->slots = NULL;
    p->decoded_room = 0;
}

static rc_status build_room(rc_predictor *p, int images)
{
    const rc_learner *l = &p->model->learner;
    rc_backend *be = p->settings.backend;
    int batch;
    p->logits = rc_alloc_zeroed(NULL, (size_t)images * (size_t)p->classes, sizeof *p->logits);
    p->features = rc_alloc_zeroed(NULL, (size_t)images * (size_t)p->d, sizeof *p->features);
    if (p->logits == NULL || p->features == NULL)
        return RC_OUT_OF_MEMORY;
    RC_TRY(rc_scoring_batch(be, &l->student, &l->settings, &l->augment, images, &batch));
    RC_TRY(rc_scorer_create(be, &l->student, batch, &l->augment, &p->scorer));
    return rc_scorer_look(p->scorer, rc_config_views(&p->model->config));
}

/* Room for so many images at least: one image takes the memory of one. */
static rc_status make_room(rc_predictor *p, int images)
{
    if (images <= p->room)
        return RC_OK;
    drop_room(p);
    rc_status status = build_room(p, images);
    if (status == RC_OK)
        p->room = images;
    else
        drop_room(p);
    return status;
}

static rc_status make_decoded_room(rc_predictor *p, int pictures)
{
    if (pictures <= p->decoded_room)
        return RC_OK;
    drop_decoded_room(p);
    p->pixels = rc_alloc_zeroed(NULL, (size_t)pictures, p->image_bytes);
    p->slots = rc_alloc_zeroed(NULL, (size_t)pictures, sizeof *p->slots);
    if (p->pixels != NULL && p->slots != NULL) {
        p->decoded_room = pictures;
        return RC_OK;
    }
    drop_decoded_room(p);
    return RC_OUT_OF_MEMORY;
}

rc_picture_form rc_picture_form_of(const rc_saved_model *model)
{
    const rc_augment *image = &model->learner.augment;
    return (rc_picture_form){.options = {.ignore_exif = !model->config.exif},
                             .fit = {.resize = model->config.resize,
                                     .size = image->h,
                                     .channels = image->c,
                                     .interpolation = rc_config_interpolation(&model->config)}};
}

/* ---- creating ---------------------------------------------------------------------------------------------------- */

/* A model that cannot tell how strange an image is still predicts. */
static rc_status take_familiarity(rc_predictor *p)
{
    const rc_log *log = &p->settings.watch.log;
    rc_status status = rc_unfamiliarity_create(&p->model->learner, p->settings.backend, &p->unfamiliarity);
    if (status == RC_FORMAT) {
        p->lacks = "the model's class statistics are damaged, so it cannot tell how strange an image is";
        rc_log_write(log, RC_LOG_WARN, "warning: %s: %s", p->lacks, rc_message());
        return RC_OK;
    }
    RC_TRY(status);
    p->lacks = rc_calibration_lacks(p->model, rc_unfamiliarity_kind(p->unfamiliarity));
    if (p->lacks != NULL)
        rc_log_write(log, RC_LOG_INFO, "note: %s", p->lacks);
    else if (p->model->calibration.lessons > 1)
        rc_log_write(log, RC_LOG_INFO,
                     "note: how strange images of the earlier lessons' classes look was measured before "
                     "the last lesson, so rates may be wrong by some points");
    return RC_OK;
}

static rc_status build(rc_predictor *p)
{
    const rc_learner *l = &p->model->learner;
    const rc_augment *image = &l->augment;
    p->classes = l->student.head.classes;
    p->d = l->student.head.d;
    p->image_bytes = (size_t)image->h * (size_t)image->w * (size_t)image->c;
    p->form = rc_picture_form_of(p->model);
    p->label = rc_alloc_zeroed(NULL, (size_t)p->classes, sizeof *p->label);
    p->probability = rc_alloc_zeroed(NULL, (size_t)p->classes, sizeof *p->probability);
    if (p->label == NULL || p->probability == NULL)
        return RC_OUT_OF_MEMORY;
    RC_TRY(rc_pool_create(p->settings.threads, &p->pool));
    RC_TRY(make_room(p, p->settings.room)); /* a model that is too large is refused before a picture is read */
    return take_familiarity(p);
}

rc_status rc_predictor_create(const rc_saved_model *model, const rc_predictor_settings *settings,
                              rc_predictor **predictor)
{
    *predictor = NULL;
    rc_predictor *p = rc_alloc_zeroed(NULL, 1, sizeof *p);
    if (p == NULL)
        return RC_OUT_OF_MEMORY;
    p->model = model;
    p->settings = *settings;
    rc_status status = build(p);
    if (status == RC_OK)
        *predictor = p;
    else
        rc_predictor_destroy(p);
    return status;
}

void rc_predictor_destroy(rc_predictor *p)
{
    if (p == NULL)
        return;
    drop_room(p);
    drop_decoded_room(p);
    rc_unfamiliarity_destroy(p->unfamiliarity);
    rc_pool_destroy(p->pool);
    rc_free(NULL, p->label);
    rc_free(NULL, p->probability);
    rc_free(NULL, p);
}

const char *rc_predictor_lacks(const rc_predictor *p)
{
    return p->lacks;
}

/* ---- predicting -------------------------------------------------------------------------------------------------- */

double rc_probability_of(const float *logits, int classes, double temperature, int label)
{
    double sum = 0;
    for (int k = 0; k < classes; k++)
        /* Too large a sum is infinite, the probability 0. */
        sum += exp(((double)logits[k] - (double)logits[label]) / temperature);
    return 1 / sum;
}

void rc_rank(const float *logits, int classes, double temperature, int top, int32_t *label, double *probability)
{
    double largest = -INFINITY, sum = 0;
    for (int k = 0; k < classes; k++)
        largest = (double)logits[k] > largest ? (double)logits[k] : largest;
    for (int k = 0; k < classes; k++)
        sum += exp(((double)logits[k] - largest) / temperature);
    for (int place = 0; place < top; place++) {
        int best = -1;
        for (int k = 0; k < classes; k++) {
            bool behind = place == 0 || logits[k] < logits[label[place - 1]] ||
                          (logits[k] == logits[label[place - 1]] && k > label[place - 1]);
            if (behind && (best < 0 || logits[k] > logits[best]))
                best = k;
        }
        label[place] = best < 0 ? 0 : best;
        probability[place] = exp(((double)logits[label[place]] - largest) / temperature) / sum;
    }
}

/* A batch on its way: pictures first .. first + count - 1. */
typedef struct batch {
    rc_predictor *predictor;
    const rc_question *question;
    int first, count;
} batch;

/* Any thread: brings a picture to the net's shape, or leaves a message. */
static void decode(void *ctx, int place, int worker)
{
    (void)worker;
    const batch *b = ctx;
    rc_predictor *p = b->predictor;
    slot *s = &p->slots[place];
    uint8_t *pixels = p->pixels + (size_t)place * p->image_bytes;
    s->status = b->question->source(b->question->user, b->first + place, &p->form, pixels);
    if (s->status != RC_OK)
        snprintf(s->message, sizeof s->message, "%s", rc_message());
}

/* The answer of row `row` of the scores. */
static rc_answer answer_of(rc_predictor *p, const rc_question *question, int row)
{
    rc_answer answer = {.label = p->label,
                        .probability = p->probability,
                        .unfamiliarity = NAN,
                        .stranger = NAN,
                        .nearest = -1,
                        .features = p->features + (size_t)row * (size_t)p->d};
    const float *logits = p->logits + (size_t)row * (size_t)p->classes;
    double temperature = rc_calibration_temperature(&p->model->calibration);
    rc_rank(logits, p->classes, temperature, question->top, p->label, p->probability);
    if (question->familiarity && p->unfamiliarity != NULL) {
        double score = rc_unfamiliarity_score(p->unfamiliarity, logits, answer.features, &answer.nearest);
        answer.unfamiliarity = rc_unfamiliarity_shown(score);
        if (p->lacks == NULL)
            answer.stranger = rc_calibration_rate(&p->model->calibration, score);
    }
    return answer;
}

static rc_status run_batch(const batch *b, rc_answer_sink *each, void *user)
{
    rc_predictor *p = b->predictor;
    const uint8_t *ready = b->question->ready;
    int rows = 0;
    RC_TRY(make_room(p, b->count));
    if (ready == NULL) {
        RC_TRY(make_decoded_room(p, b->count));
        rc_pool_run(p->pool, b->count, decode, (void *)(uintptr_t)b);
        if (rc_stopped())
            return rc_fail(RC_CANCELLED, "stopped after %d of %d images", b->first, b->question->count);
    }
    for (int place = 0; place < b->count; place++)
        if (ready != NULL || p->slots[place].status == RC_OK)
            p->index[rows++] = place;
    const uint8_t *pixels = ready != NULL ? ready + (size_t)b->first * p->image_bytes : p->pixels;
    if (rows > 0)
        RC_TRY(rc_scorer_run(p->scorer, pixels, p->index, rows, p->logits, p->features));
    for (int place = 0, row = 0; place < b->count; place++) {
        bool scored = row < rows && p->index[row] == place;
        rc_answer answer = scored ? answer_of(p, b->question, row)
                                  : (rc_answer){.status = p->slots[place].status,
                                                .message = p->slots[place].message,
                                                .unfamiliarity = NAN,
                                                .stranger = NAN,
                                                .nearest = -1};
        row += scored;
        RC_TRY(each(user, b->first + place, &answer));
    }
    return RC_OK;
}

static rc_status run_batches(rc_predictor *p, const rc_question *question, rc_answer_sink *each, void *user)
{
    for (int done = 0; done < question->count;) {
        int left = question->count - done;
        batch b = {.predictor = p,
                   .question = question,
                   .first = done,
                   .count = left < RC_PREDICTOR_BATCH ? left : RC_PREDICTOR_BATCH};
        if (rc_watch_cancelled(&p->settings.watch))
            return rc_fail(RC_CANCELLED, "stopped after %d of %d images", done, question->count);
        RC_TRY(run_batch(&b, each, user));
        done += b.count;
    }
    return RC_OK;
}

rc_status rc_predictor_run(rc_predictor *p, const rc_question *question, rc_answer_sink *each, void *user)
{
    rc_stop before = rc_stop_swap(rc_watch_stop(&p->settings.watch));
    rc_status status = run_batches(p, question, each, user);
    rc_stop_swap(before);
    return status;
}
