/* Real images to lay beside dreams. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "api/dream.h"
#include "api/evaluate.h"
#include "api/predictor.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "cil/scorer.h"
#include "forecast/allowance.h"

void rc_real_images_destroy(rc_real_images *real)
{
    rc_free(NULL, real->count);
    rc_free(NULL, real->images);
    rc_free(NULL, real->probability);
    rc_free(NULL, real->taken);
    memset(real, 0, sizeof *real);
}

static rc_status allocate(const rc_saved_model *model, rc_real_images *real)
{
    const rc_augment *image = &model->learner.augment;
    size_t classes = (size_t)model->learner.student.head.classes, places = classes * RC_DREAM_REAL;
    real->classes = (int)classes;
    real->count = rc_alloc_zeroed(NULL, classes, sizeof *real->count);
    real->images = rc_alloc_zeroed(NULL, places, (size_t)image->h * (size_t)image->w * (size_t)image->c);
    real->probability = rc_alloc_zeroed(NULL, places, sizeof *real->probability);
    real->taken = rc_alloc_zeroed(NULL, places, sizeof *real->taken);
    if (real->count == NULL || real->images == NULL || real->probability == NULL || real->taken == NULL)
        return RC_OUT_OF_MEMORY;
    for (size_t i = 0; i < places; i++) {
        real->probability[i] = NAN;
        real->taken[i] = -1;
    }
    return RC_OK;
}

/* ---- names for the log ------------------------------------------------------------------------------------------- */

typedef struct names {
    char text[400];
    size_t used;
    int count;
} names;

static void add_name(names *n, const char *name)
{
    n->count++;
    if (n->used < sizeof n->text)
        n->used += (size_t)snprintf(n->text + n->used, sizeof n->text - n->used, "%s%s", n->used > 0 ? ", " : "", name);
    if (n->used >= sizeof n->text)
        rc_utf8_mark_cut(n->text, sizeof n->text);
}

static void tell(const names *n, const rc_log *log, const char *data, const char *what)
{
    if (n->count > 0)
        rc_log_write(log, RC_LOG_INFO, "note: '%s': %s (%d): %s", data, what, n->count, n->text);
}

/* ---- images ------------------------------------------------------------------------------------------------------ */

/* The first images of each class that the model knows. */
static rc_status take_images(const rc_saved_model *model, const rc_dataset *data, const rc_split *split,
                             rc_real_images *real, names *unknown)
{
    size_t image = (size_t)data->h * (size_t)data->w * (size_t)data->c;
    int *label = rc_alloc_zeroed(NULL, (size_t)data->classes, sizeof *label); /* the model's, or -1 */
    if (label == NULL)
        return RC_OUT_OF_MEMORY;
    for (int native = 0; native < data->classes; native++) {
        label[native] = rc_model_label(model, data->class_name[native]);
        if (label[native] < 0)
            add_name(unknown, data->class_name[native]);
    }
    rc_status status = RC_OK;
    for (int i = 0; i < split->count && status == RC_OK; i++) {
        int to = label[split->labels[i]];
        if (to < 0 || real->count[to] == RC_DREAM_REAL)
            continue;
        status = rc_split_check(split, &i, 1);
        size_t place = (size_t)to * RC_DREAM_REAL + (size_t)real->count[to]++;
        memcpy(real->images + place * image, split->images + (size_t)i * image, image);
    }
    rc_free(NULL, label);
    return status;
}

static rc_status read_images(const rc_saved_model *model, const rc_real_settings *settings, rc_real_images *real)
{
    rc_watch watch = settings->watch;
    rc_data_settings reading = rc_model_data_settings(model);
    rc_dataset data;
    names unknown = {0}, missing = {0};
    RC_TRY(rc_pool_create(settings->threads, &reading.pool));
    reading.format = settings->format;
    reading.skip_broken = true;
    reading.per_class = RC_DREAM_REAL;
    reading.log = &watch.log;
    reading.progress = rc_watch_reading;
    reading.user = &watch;
    rc_status status = rc_dataset_open(settings->data, &reading, &data);
    rc_pool_destroy(reading.pool);
    RC_TRY(status);
    status = take_images(model, &data, data.test.count > 0 ? &data.test : &data.train, real, &unknown);
    for (int label = 0; label < real->classes && status == RC_OK; label++)
        if (real->count[label] == 0)
            add_name(&missing, model->class_name[label]);
    if (missing.count == real->classes)
        status = rc_refuse_strangers(model, settings->data, &data);
    rc_dataset_close(&data);
    RC_TRY(status);
    tell(&missing, &watch.log, settings->data, "no images of classes that the model knows");
    tell(&unknown, &watch.log, settings->data, "classes that the model does not know, which are not shown");
    return RC_OK;
}

/* ---- what the model says ----------------------------------------------------------------------------------------- */

static rc_status score(rc_scorer *scorer, double temperature, rc_real_images *real, size_t image, float *logits)
{
    for (int label = 0; label < real->classes; label++) {
        size_t first = (size_t)label * RC_DREAM_REAL;
        if (real->count[label] == 0)
            continue;
        RC_TRY(rc_scorer_run(scorer, real->images + first * image, NULL, real->count[label], logits, NULL));
        for (int i = 0; i < real->count[label]; i++) {
            const float *scores = logits + (size_t)i * (size_t)real->classes;
            double unused;
            rc_rank(scores, real->classes, temperature, 1, &real->taken[first + (size_t)i], &unused);
            real->probability[first + (size_t)i] = (float)rc_probability_of(scores, real->classes, temperature, label);
        }
    }
    return RC_OK;
}

static rc_status ask(const rc_saved_model *model, rc_real_images *real)
{
    const rc_learner *l = &model->learner;
    rc_scorer *scorer = NULL;
    int batch;
    size_t image = (size_t)l->augment.h * (size_t)l->augment.w * (size_t)l->augment.c;
    float *logits = rc_alloc_zeroed(NULL, (size_t)RC_DREAM_REAL * (size_t)real->classes, sizeof *logits);
    rc_status status = logits != NULL ? RC_OK : RC_OUT_OF_MEMORY;
    if (status == RC_OK)
        status = rc_scoring_batch(l->backend, &l->student, &l->settings, &l->augment, RC_DREAM_REAL, &batch);
    if (status == RC_OK)
        status = rc_scorer_create(l->backend, &l->student, batch, &l->augment, &scorer);
    if (status == RC_OK)
        status = rc_scorer_look(scorer, rc_config_views(&model->config)); /* as predict does */
    if (status == RC_OK)
        status = score(scorer, rc_calibration_temperature(&model->calibration), real, image, logits);
    rc_scorer_destroy(scorer);
    rc_free(NULL, logits);
    return status;
}

rc_status rc_real_images_read(const rc_saved_model *model, const rc_real_settings *settings, rc_real_images *real)
{
    memset(real, 0, sizeof *real);
    rc_status status = allocate(model, real);
    if (status == RC_OK)
        status = read_images(model, settings, real);
    if (status == RC_OK)
        status = ask(model, real);
    if (status != RC_OK)
        rc_real_images_destroy(real);
    return status;
}
