#include "api/learn.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "api/adapt.h"
#include "api/calibrate.h"
#include "api/evaluate.h"
#include "api/learn_config.h"
#include "api/lesson_checkpoint.h"
#include "api/nested.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "config/unread.h"
#include "data/twins.h"
#include "forecast/forecast.h"

/* The part of every class that is held out of data that is read. */
static const double usually_held_out = 0.1;

typedef struct lesson {
    const rc_learn_settings *settings;
    rc_watch watch;
    rc_learn_result *result;
    const rc_saved_model *model; /* as it was; only looked at */
    rc_saved_model taught;       /* a copy of it, or the first model: the lesson is its */
    rc_backend *backend;
    bool first; /* the model knew nothing before */
    rc_config config;
    const rc_method *method;
    rc_dataset data, old_test;
    rc_given_parts parts; /* of data that was given */
    int *label;           /* (data.classes): of each class in the model */
    int n_new;
    bool chose_size; /* nobody had set one */
    rc_learn_reason reason;
    char why[400];           /* the lesson changes what it changes; "": that was said, or is as always */
    char chosen_method[200]; /* "": the model's own, or the one that was set */
    rc_forecast forecast;
    rc_named_evaluation scored, old_scored; /* the held-out images and the old test, by the taught model */
    int8_t *old_right;                      /* (images of the old test): of the model before, as in rc_evaluation */
    rc_lesson_checkpoint checkpoint;
    rc_stage_report last; /* where it was when it was seen last */
    double began;         /* clock, at the first step */
    bool forecast_given;
    bool told; /* the log knows what of the data is left out */
    size_t memory;
} lesson;

/* ---- the data ---------------------------------------------------------------------------------------------------- */

static rc_status read_data(lesson *s, const char *path, double test_part, rc_dataset *data)
{
    rc_data_settings reading = {.size = s->config.size,
                                .choose = rc_learn_choose_size,
                                .channels = s->config.channels,
                                .resize = s->config.resize,
                                .interpolation = rc_config_interpolation(&s->config),
                                .ignore_exif = !s->config.exif};
    if (!s->first)
        reading = rc_model_data_settings(s->model);
    rc_pool *pool;
    RC_TRY(rc_pool_create(s->settings->threads, &pool));
    reading.format = s->settings->format;
    reading.skip_broken = s->settings->skip_broken;
    reading.told = s->told;
    reading.test_part = test_part;
    reading.test_seed = s->config.settings.seed;
    reading.procedural_seed = s->config.settings.seed;
    reading.pool = pool;
    reading.log = &s->watch.log;
    reading.progress = rc_watch_reading;
    reading.user = &s->watch;
    rc_status status = rc_dataset_open(path, &reading, data);
    rc_pool_destroy(pool);
    return status;
}

/* "cat, dog, ...", as far as it fits. */
static void list_classes(const lesson *s, bool known, char *text, size_t size)
{
    size_t used = 0;
    for (int native = 0; native < s->data.classes; native++) {
        bool is_known = s->label[native] < s->result->known;
        if (is_known == known && used < size)
            used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", s->data.class_name[native]);
    }
    if (used >= size)
        rc_utf8_mark_cut(text, size);
}

/* Labels of the data's classes, and what the rules say about them. */
static rc_status match_classes(lesson *s)
{
    rc_learn_result *r = s->result;
    char names[600], deeper[RC_PATH_SIZE];
    s->label = rc_alloc_zeroed(NULL, (size_t)s->data.classes, sizeof *s->label);
    if (s->label == NULL)
        return RC_OUT_OF_MEMORY;
    for (int native = 0; native < s->data.classes; native++) {
        int label = s->first ? -1 : rc_model_label(s->model, s->data.class_name[native]);
        s->label[native] = label >= 0 ? label : r->known + s->n_new++;
        r->merged += label >= 0;
    }
    r->added = s->n_new;
    list_classes(s, true, names, sizeof names);
    RC_TRY(rc_nested_find(s->settings->data, &s->data, deeper));
    if (s->n_new == 0)
        return rc_fail(RC_INVALID_ARGUMENT,
                       "there is nothing new to learn: the model already knows %s, and old classes are only taught "
                       "beside new ones; add images of a new class, or teach a new model",
                       names);
    if (r->merged > 0 && !s->settings->merge)
        return rc_fail(
            RC_INVALID_ARGUMENT,
            "the model already knows %s. Leave %s out or rename %s; with the setting 'merge' the images are added to "
            "the class%s of that name",
            names, r->merged > 1 ? "them" : "it", r->merged > 1 ? "them" : "it", r->merged > 1 ? "es" : "");
    if (s->first && s->n_new < 2)
        return rc_fail(RC_INVALID_ARGUMENT,
                       "a first model needs 2 classes or more to tell apart, but there is only '%s'%s%.500s%s",
                       s->data.class_name[0],
                       deeper[0] != '\0' ? "; if the folders in it are the classes, learn from '" : "", deeper,
                       deeper[0] != '\0' ? "'" : "");
    if (deeper[0] != '\0')
        rc_log_write(&s->watch.log, RC_LOG_WARN,
                     "warning: all pictures of '%.300s' lie in folders within its classes; if these folders are the "
                     "classes, learn from '%.300s', or call the parts train and val",
                     s->settings->data, deeper);
    return RC_OK;
}

static rc_status check_images(const lesson *s)
{
    const rc_split *train = &s->data.train;
    int *count = rc_alloc_zeroed(NULL, (size_t)s->data.classes, sizeof *count);
    if (count == NULL)
        return RC_OUT_OF_MEMORY;
    for (int i = 0; i < train->count; i++)
        count[train->labels[i]]++;
    rc_status status = RC_OK;
    for (int native = 0; status == RC_OK && native < s->data.classes; native++)
        if (count[native] == 0)
            status = rc_fail(RC_INVALID_ARGUMENT, "class '%s' has no image to train on", s->data.class_name[native]);
    rc_free(NULL, count);
    return status;
}

/* ---- the model --------------------------------------------------------------------------------------------------- */

static char *copy_text(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = rc_alloc(NULL, size);
    if (copy != NULL)
        memcpy(copy, text, size);
    return copy;
}

static rc_status copy_names(lesson *s)
{
    int known = s->result->known;
    char **names = s->taught.class_name = rc_alloc_zeroed(NULL, (size_t)known + (size_t)s->n_new, sizeof *names);
    if (names == NULL)
        return RC_OUT_OF_MEMORY;
    for (int label = 0; label < known; label++)
        if ((names[label] = copy_text(s->model->class_name[label])) == NULL)
            return RC_OUT_OF_MEMORY;
    for (int native = 0; native < s->data.classes; native++)
        if (s->label[native] >= known && (names[s->label[native]] = copy_text(s->data.class_name[native])) == NULL)
            return RC_OUT_OF_MEMORY;
    return RC_OK;
}

static rc_lesson_size size_of(const lesson *s)
{
    return (rc_lesson_size){s->method, s->result->known, s->n_new, s->data.train.count};
}

/* What this lesson will be like, and why, before it begins. */
static void tell_choice(const lesson *s)
{
    char text[400];
    const rc_learner *l = &s->taught.learner;
    rc_lesson_size size = size_of(s);
    if (s->why[0] != '\0')
        rc_log_write(&s->watch.log, RC_LOG_INFO, "%s", s->why);
    if (s->result->adapt == RC_ADAPT_HEAD)
        return;
    if (s->chosen_method[0] != '\0')
        rc_log_write(&s->watch.log, RC_LOG_INFO, "%s", s->chosen_method);
    if (s->chose_size) {
        rc_learn_tell_size(&s->data.seen, l->augment.h, text, sizeof text);
        rc_log_write(&s->watch.log, RC_LOG_INFO, "%s", text);
    }
    if (s->first && rc_learn_tell_colour(&l->settings, s->settings, text, sizeof text))
        rc_log_write(&s->watch.log, RC_LOG_INFO, "%s", text);
    rc_learn_tell_steps(&l->settings, &size, s->reason, text, sizeof text);
    rc_log_write(&s->watch.log, RC_LOG_INFO, "%s", text);
}

static rc_status create_first(lesson *s)
{
    rc_augment image = {.h = s->data.h, .w = s->data.w, .c = s->data.c};
    rc_learn_fit_config(&s->config, s->settings, &s->data);
    for (int c = 0; c < image.c; c++) {
        image.mean[c] = s->data.mean[c];
        image.std[c] = s->data.std[c];
    }
    RC_TRY(rc_config_normalisation(&s->config, image.c, image.mean, image.std));
    return rc_learner_create(&s->taught.learner, s->backend, &s->config.settings, s->method, &image);
}

/* Settings, method and memory of a task that trains the whole model. */
static rc_status prepare_training(lesson *s)
{
    rc_learner *l = &s->taught.learner;
    rc_settings settings = s->config.settings;
    rc_lesson_size size = size_of(s);
    if (s->result->adapt == RC_ADAPT_TOP && settings.trained_stages == 0)
        settings.trained_stages = 1; /* in this lesson */
    s->reason = rc_learn_stretch(&settings, s->settings, &size);
    if (!s->first && s->method->dce && l->statistics_classes != l->student.head.classes)
        rc_log_write(&s->watch.log, RC_LOG_INFO,
                     "note: the model has no class statistics (%s%s), so its dreams are not held to them this time; "
                     "this lesson estimates them",
                     l->method->dce ? "it was imported" : l->method->title, l->method->dce ? "" : " stores none");
    rc_task_claim claim = {.settings = &settings,
                           .method = s->method,
                           .image = &l->augment,
                           .n_old = s->result->known,
                           .head_bias = l->student.head.bias != NULL,
                           .n_new = s->n_new,
                           .offered = l->source->images.offered,
                           .images = s->data.train.images,
                           .lent = s->data.pack != NULL,
                           .count = s->data.train.count};
    RC_TRY(rc_forecast_allow(s->backend, &claim, "learning"));
    s->result->epochs = settings.epochs;
    return rc_learner_configure(l, &settings, s->method);
}

/* The model that is taught, ready for the task: created, or a copy that is set up for what it is to learn now. */
static rc_status prepare_model(lesson *s)
{
    rc_learner *l = &s->taught.learner;
    RC_TRY(s->first ? create_first(s) : rc_learner_clone(l, &s->model->learner));
    s->taught.config = s->config;
    s->taught.imported = s->model->imported;
    s->taught.file_bytes = s->model->file_bytes;
    s->taught.unknown_bytes = s->model->unknown_bytes;
    if (s->result->adapt == RC_ADAPT_HEAD) /* the method stays as it is, for lessons to come */
        RC_TRY(rc_learner_configure(l, &s->config.settings, s->model->learner.method));
    else
        RC_TRY(prepare_training(s));
    return copy_names(s);
}

/* A lesson that was not learnt leaves nothing. It may have names of classes that its head does not have yet. */
static void drop_taught(lesson *s)
{
    char **names = s->taught.class_name;
    for (int label = 0; names != NULL && label < s->result->known + s->n_new; label++)
        rc_free(NULL, names[label]);
    rc_free(NULL, names);
    s->taught.class_name = NULL;
    rc_saved_model_destroy(&s->taught);
}

/* ---- the task ---------------------------------------------------------------------------------------------------- */

/* Once, as soon as the first steps have told how fast this machine is. */
static void give_forecast(lesson *s, double left)
{
    if (s->forecast_given || isnan(left))
        return;
    s->forecast_given = true;
    rc_forecast_tell(&s->watch.log, rc_now() - s->began + left, s->memory);
}

static rc_status boundary(void *user, const rc_stage_report *report)
{
    lesson *s = user;
    rc_pace pace;
    s->last = *report;
    rc_forecast_update(&s->forecast, report, &pace);
    give_forecast(s, pace.left);
    rc_watch_stage(&s->watch, report, &pace);
    bool stops = rc_watch_cancelled(&s->watch);
    RC_TRY(rc_lesson_checkpoint_keep(&s->checkpoint, s->backend, report, s->result->wall, stops));
    return stops ? RC_CANCELLED : RC_OK;
}

static rc_status restore(void *user, rc_state *state)
{
    const lesson *s = user;
    return rc_lesson_checkpoint_restore(&s->checkpoint, s->backend, state);
}

/* Stopped between steps or in one: says what is lost. */
static rc_status tell_stopped(const lesson *s)
{
    char text[32];
    const rc_lesson_checkpoint *c = &s->checkpoint;
    if (c->kept)
        return rc_fail(
            RC_CANCELLED,
            "stopped in %s, after step %u of %u; '%.500s' holds %s, step %u, and the setting 'resume' goes on "
            "from there",
            rc_stage_name(s->last.stage), s->last.step, s->last.steps, c->path, rc_stage_name(c->position.stage),
            c->position.step);
    rc_duration_text(rc_now() - s->began, text, sizeof text);
    return rc_fail(RC_CANCELLED, "stopped in %s, after step %u of %u; %s of training are lost, nothing was written",
                   rc_stage_name(s->last.stage), s->last.step, s->last.steps, text);
}

/* Labels of the images to train on, in the model; a new block. NULL: there is no memory. */
static int32_t *labels_of_images(const lesson *s)
{
    const rc_split *train = &s->data.train;
    int32_t *labels = rc_alloc_zeroed(NULL, (size_t)train->count, sizeof *labels);
    for (int i = 0; labels != NULL && i < train->count; i++)
        labels[i] = s->label[train->labels[i]];
    return labels;
}

/* In place of a task: rows of the head alone. It takes seconds, so it keeps no checkpoint. */
static rc_status run_head(lesson *s)
{
    const rc_split *train = &s->data.train;
    size_t image = (size_t)s->data.h * (size_t)s->data.w * (size_t)s->data.c;
    uint8_t *collected = NULL;
    int32_t *labels = labels_of_images(s);
    rc_head_lesson head = {.taught = &s->taught,
                           .images = train->images,
                           .labels = labels,
                           .count = train->count,
                           .n_new = s->n_new,
                           .threads = s->settings->threads,
                           .watch = &s->watch,
                           .wall = s->result->wall};
    rc_status status = labels != NULL ? RC_OK : RC_OUT_OF_MEMORY;
    if (status == RC_OK)
        status = rc_split_check(train, NULL, train->count);
    if (status == RC_OK && train->images == NULL) {
        head.images = collected = rc_alloc_zeroed(NULL, (size_t)train->count, image);
        status = collected != NULL ? rc_given_collect(&s->parts, &s->watch, collected) : RC_OUT_OF_MEMORY;
    }
    if (status == RC_OK)
        status = rc_adapt_head(&head);
    rc_free(NULL, collected);
    rc_free(NULL, labels);
    return status;
}

static rc_status run_task(lesson *s)
{
    rc_learner *l = &s->taught.learner;
    const rc_split *train = &s->data.train;
    int32_t *labels = labels_of_images(s);
    if (labels == NULL)
        return RC_OUT_OF_MEMORY;
    uint32_t step = 0;
    rc_lent_images lent = rc_lend_split(&s->data, train);
    rc_status status = s->data.pack != NULL ? rc_learner_begin_lent(l, l->student.head.tasks, s->n_new, &lent, labels)
                                            : rc_learner_begin_task(l, l->student.head.tasks, s->n_new, train->images,
                                                                    labels, train->count);
    if (status == RC_OK && train->images == NULL)
        status = rc_given_send(&s->parts, &s->watch, l);
    rc_stage stage = rc_stage_steps(l, RC_STAGE_INVERSION) > 0 ? RC_STAGE_INVERSION : RC_STAGE_TRAINING;
    if (status == RC_OK)
        status = rc_lesson_checkpoint_begin(&s->checkpoint, s->model, &s->taught, labels, train->count, &s->data.test,
                                            &stage, &step);
    rc_free(NULL, labels);
    RC_TRY(status);
    RC_TRY(rc_task_memory(l, &s->memory));
    s->began = rc_now();
    memcpy(s->result->wall, s->checkpoint.position.wall, sizeof s->result->wall);
    rc_forecast_begin_task(&s->forecast, l, NULL);
    rc_stage_hooks hooks = {.boundary = boundary, .restore = restore, .user = s, .interval = 0.5};
    hooks.interval = fmin(hooks.interval, s->checkpoint.path != NULL ? s->checkpoint.seconds : INFINITY);
    s->last = (rc_stage_report){.stage = stage, .step = step, .steps = rc_stage_steps(l, stage)};
    status = rc_run_stages(l, stage, step, &hooks, s->result->wall);
    if (status == RC_CANCELLED)
        status = tell_stopped(s);
    RC_TRY(status);
    rc_learner_end_task(l);
    return RC_OK;
}

/* Percent right on the images of a split whose labels are below `end`, predictions being over all classes. Destroy the
 * evaluation. */
static rc_status score(lesson *s, const rc_saved_model *model, const rc_dataset *data, const rc_split *split, int end,
                       rc_named_evaluation *e, int *images, double *accuracy)
{
    *images = 0;
    *accuracy = NAN;
    if (split->count == 0)
        return RC_OK;
    const rc_scoring scoring = {.progress = rc_watch_scoring, .user = &s->watch};
    RC_TRY(rc_evaluate_by_name(model, data, split, &scoring, e));
    for (size_t cell = 0; cell < rc_confusion_at(e->counts.classes, end, 0); cell++)
        *images += e->counts.confusion[cell];
    *accuracy = rc_accuracy(&e->counts, 0, end);
    return RC_OK;
}

static const rc_split *old_split(const lesson *s)
{
    return s->old_test.test.count > 0 ? &s->old_test.test : &s->old_test.train;
}

static rc_status score_old(lesson *s, const rc_saved_model *model, rc_named_evaluation *e, double *accuracy)
{
    return score(s, model, &s->old_test, old_split(s), s->result->known, e, &s->result->old_images, accuracy);
}

/* Keeps which images were right, and no matrix of all classes while the model learns. */
static rc_status score_old_before(lesson *s)
{
    rc_named_evaluation e = {0};
    RC_TRY(score_old(s, s->model, &e, &s->result->old_before));
    s->old_right = e.counts.right;
    e.counts.right = NULL;
    rc_named_evaluation_destroy(&e);
    return s->result->old_images > 0 ? RC_OK : rc_refuse_strangers(s->model, s->settings->old_test, &s->old_test);
}

/* Of data that was read into memory. A pack may be larger than that. */
static rc_status find_twins(const lesson *s, rc_review_facts *facts)
{
    rc_twins twins;
    if (s->settings->given != NULL || s->data.pack != NULL)
        return RC_OK;
    RC_TRY(rc_dataset_find_twins(&s->data, &twins));
    facts->divided = twins.divided;
    facts->held_out = s->data.test.count;
    facts->seen = twins.held_out;
    for (int i = 0; i < 2; i++)
        facts->divided_labels[i] = s->label[twins.classes[i]];
    return RC_OK;
}

static rc_status review(lesson *s)
{
    int classes = s->result->known + s->n_new;
    rc_review_facts facts = {.classes = classes,
                             .class_name = s->taught.class_name,
                             .confusion = s->scored.counts.confusion,
                             .known = s->result->known,
                             .old_confusion = s->old_scored.counts.confusion,
                             .left_out = s->data.left_out,
                             .broken = s->data.broken};
    int *trained = rc_alloc_zeroed(NULL, (size_t)classes, sizeof *trained);
    if (trained == NULL)
        return RC_OUT_OF_MEMORY;
    for (int i = 0; i < s->data.train.count; i++)
        trained[s->label[s->data.train.labels[i]]]++;
    facts.trained = trained;
    rc_status status = find_twins(s, &facts);
    for (int i = 0; facts.old_confusion != NULL && i < old_split(s)->count; i++) {
        int before = s->old_right[i], after = s->old_scored.counts.right[i];
        facts.old_lost += before == 1 && after == 0;
        facts.old_gained += before == 0 && after == 1;
    }
    if (status == RC_OK)
        status = rc_review_create(&facts, s->settings->review);
    rc_free(NULL, trained);
    return status;
}

/* The data of the lesson: given, or read, in a size that generators can make. */
static rc_status take_data(lesson *s)
{
    const rc_given *given = s->settings->given;
    double usual = given != NULL ? 0 : usually_held_out;
    double hold_out = s->settings->sets_hold_out ? s->settings->hold_out : usual;
    if (given != NULL) {
        RC_TRY(rc_given_part(&s->parts, given, hold_out, s->config.settings.seed, &s->data));
        return s->first ? rc_given_measure(&s->parts, &s->watch, &s->data) : RC_OK;
    }
    s->chose_size = s->first && s->config.size == 0 && s->config.resize == 0;
    RC_TRY(read_data(s, s->settings->data, hold_out, &s->data));
    int size = rc_learn_size(s->data.h);
    if (s->first && s->config.size == 0 && size != s->data.h) { /* read again, as generators can make them */
        s->config.size = size;
        s->told = true;
        rc_dataset_close(&s->data);
        RC_TRY(read_data(s, s->settings->data, hold_out, &s->data));
    }
    return RC_OK;
}

/* What the lesson changes, and how. A checkpoint that is there is of a lesson that trains. */
static rc_status choose_adapt(lesson *s)
{
    const char *path = s->checkpoint.path;
    const rc_adapt_facts facts = {s->model, s->settings, s->n_new, s->data.train.count};
    RC_TRY(rc_adapt_choose(&facts, &s->result->adapt, s->why, sizeof s->why));
    if (!s->first && s->result->adapt == RC_ADAPT_ALL)
        RC_TRY(rc_learn_choose_method(&s->model->learner, s->settings, &s->config, &s->method, s->chosen_method,
                                      sizeof s->chosen_method));
    if (s->result->adapt == RC_ADAPT_HEAD)
        rc_config_warn_unread_by_head(s->settings->set, s->settings->sets, &s->watch.log);
    else
        rc_config_warn_unread(&s->config, &s->method, 1, s->settings->set, s->settings->sets, &s->watch.log);
    bool there = false;
    if (s->result->adapt == RC_ADAPT_HEAD && path != NULL)
        RC_TRY(rc_file_find(path, &there));
    if (!there)
        return RC_OK;
    return rc_fail(RC_INVALID_ARGUMENT,
                   "'%.500s' is there, from a lesson that was stopped and trains the whole net: with the setting "
                   "'adapt' as all it goes on; remove it to teach the head alone",
                   path);
}

static rc_status teach(lesson *s)
{
    char names[600];
    RC_TRY(take_data(s));
    s->result->broken = s->data.broken;
    s->result->left_out = s->data.left_out;
    s->result->not_pictures = s->data.not_pictures;
    s->result->images = s->data.train.count;
    RC_TRY(match_classes(s));
    RC_TRY(check_images(s));
    RC_TRY(choose_adapt(s));
    s->told = false;
    if (!s->first && s->settings->old_test != NULL) {
        RC_TRY(read_data(s, s->settings->old_test, 1, &s->old_test));
        RC_TRY(score_old_before(s));
    }
    RC_TRY(prepare_model(s));
    const rc_learner *l = &s->taught.learner;
    list_classes(s, false, names, sizeof names);
    rc_log_write(&s->watch.log, RC_LOG_INFO, "%s: %d new class%s (%s) from %d image%s of %d x %d pixels, %d held out",
                 s->result->adapt == RC_ADAPT_HEAD ? "Head" : s->method->title, s->n_new, s->n_new > 1 ? "es" : "",
                 names, s->data.train.count, s->data.train.count == 1 ? "" : "s", l->augment.w, l->augment.h,
                 s->data.test.count);
    tell_choice(s);
    RC_TRY(s->result->adapt == RC_ADAPT_HEAD ? run_head(s) : run_task(s));
    RC_TRY(score(s, &s->taught, &s->data, &s->data.test, s->result->known + s->n_new, &s->scored, &s->result->held_out,
                 &s->result->accuracy));
    const rc_held_out held_out = {.images = &s->data.test, .label = s->label, .known = s->result->known};
    RC_TRY(rc_calibrate(&s->taught, s->model, &held_out));
    if (s->result->old_images > 0)
        RC_TRY(score_old(s, &s->taught, &s->old_scored, &s->result->old_after));
    return s->settings->review != NULL ? review(s) : RC_OK;
}

rc_status rc_learn(rc_saved_model *model, rc_backend *backend, const rc_learn_settings *settings,
                   rc_learn_result *result)
{
    double began = rc_now();
    memset(result, 0, sizeof *result);
    result->accuracy = result->old_before = result->old_after = NAN;
    result->known = model->learner.backend != NULL ? model->learner.student.head.classes : 0;
    lesson *s = rc_alloc_zeroed(NULL, 1, sizeof *s);
    if (s == NULL)
        return RC_OUT_OF_MEMORY;
    s->settings = settings;
    s->watch = settings->watch;
    s->result = result;
    s->model = model;
    s->backend = backend;
    s->first = result->known == 0;
    s->checkpoint = (rc_lesson_checkpoint){.path = settings->checkpoint,
                                           .seconds = settings->checkpoint_seconds,
                                           .resume = settings->resume,
                                           .log = &s->watch.log};
    rc_status status = rc_lesson_checkpoint_check(&s->checkpoint);
    if (status == RC_OK)
        status = rc_learn_configure(model, settings, &s->config, &s->method);
    if (status == RC_OK)
        status = teach(s);
    rc_lesson_checkpoint_end(&s->checkpoint);
    if (status == RC_OK)
        status = backend->sync(backend); /* was all of it computed? */
    if (status == RC_OK) {
        rc_saved_model_destroy(model);
        rc_saved_model_move(model, &s->taught); /* with no fingerprint: no run has made what it is now */
    }
    drop_taught(s);
    if (settings->given == NULL)
        rc_dataset_close(&s->data);
    rc_given_free(&s->parts);
    rc_dataset_close(&s->old_test);
    rc_named_evaluation_destroy(&s->scored);
    rc_named_evaluation_destroy(&s->old_scored);
    rc_free(NULL, s->old_right);
    rc_free(NULL, s->label);
    rc_free(NULL, s);
    result->seconds = rc_now() - began;
    return status;
}
