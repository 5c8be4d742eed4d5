/* The public interface: models, from creating to saving, their options, and what they know. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "api/adapt.h"
#include "api/api.h"
#include "api/describe_methods.h"
#include "api/evaluate.h"
#include "api/import.h"
#include "api/learn_config.h"
#include "base/memory.h"
#include "base/number.h"
#include "config/unread.h"
#include "model/saving.h"

enum { VALUE_SIZE = 4096 };

/* Does it know anything? */
static bool has_learnt(const recollect_model *model)
{
    return model != NULL && model->saved.learner.backend != NULL;
}

/* ---- creating and destroying --------------------------------------------------------------------------- */

static rc_status new_model(recollect_context *context, recollect_model **model)
{
    *model = rc_alloc_zeroed(NULL, 1, sizeof **model);
    if (*model == NULL)
        return RC_OUT_OF_MEMORY;
    (*model)->context = context;
    (*model)->holders = 1;
    atomic_fetch_add(&context->holders, 1);
    return RC_OK;
}

/* What the creating functions have in common. */
static rc_status check_creation(const recollect_context *context, recollect_model **model)
{
    rc_clear_message();
    if (model == NULL)
        return rc_api_is_null("model", "where to put the new one");
    *model = NULL;
    return rc_api_begin(context);
}

recollect_status recollect_model_create(recollect_context *context, recollect_model **model)
{
    RC_TRY(check_creation(context, model));
    return rc_api_end(new_model(context, model));
}

recollect_status recollect_model_load(recollect_context *context, const char *path, recollect_model **model)
{
    RC_TRY(check_creation(context, model));
    if (path == NULL)
        return rc_api_is_null("path", "the name of a model file");
    rc_status status = new_model(context, model);
    if (status == RC_OK)
        status = rc_model_file_load(path, context->backend, &(*model)->saved);
    if (status != RC_OK)
        recollect_model_destroy(model);
    return rc_api_end(status);
}

recollect_status recollect_model_load_memory(recollect_context *context, const void *bytes, size_t size,
                                             recollect_model **model)
{
    RC_TRY(check_creation(context, model));
    if (bytes == NULL)
        return rc_api_is_null("bytes", "those of a model file");
    rc_status status = new_model(context, model);
    if (status == RC_OK)
        status = rc_model_file_parse("model in memory", bytes, size, context->backend, &(*model)->saved);
    if (status != RC_OK)
        recollect_model_destroy(model);
    return rc_api_end(status);
}

static rc_status check_import(const char *path, const recollect_import_settings *settings)
{
    if (path == NULL)
        return rc_api_is_null("path", "the name of a file of weights");
    return settings == NULL ? RC_OK
                            : rc_api_check_size("settings", settings, RC_API_FIRST(recollect_import_settings, classes),
                                                sizeof *settings);
}

recollect_status recollect_model_import(recollect_context *context, const char *path,
                                        const recollect_import_settings *settings, recollect_model **model)
{
    recollect_import_settings chosen = {.size = sizeof chosen};
    RC_TRY(check_creation(context, model));
    RC_TRY(check_import(path, settings));
    if (settings != NULL)
        rc_api_fill(&chosen, settings, settings->size);
    rc_status status = new_model(context, model);
    rc_api_enter(context);
    if (status == RC_OK)
        status = rc_import_file(path, chosen.net, chosen.classes, &context->watch.log, context->backend,
                                &(*model)->saved);
    status = rc_api_end(status);
    if (status != RC_OK)
        recollect_model_destroy(model);
    rc_api_leave(context);
    return status;
}

recollect_status recollect_model_save(const recollect_model *model, const char *path, int overwrite)
{
    RC_TRY(rc_api_begin_model(model));
    if (path == NULL || path[0] == '\0')
        return rc_fail(RC_INVALID_ARGUMENT, "path is %s, expected the name of a file", path ? "empty" : "NULL");
    if (!has_learnt(model))
        return rc_fail(RC_INVALID_ARGUMENT, "the model knows nothing yet, there is nothing to save in %.512s", path);
    if (!overwrite)
        RC_TRY(rc_saving_check_free(path));
    rc_status status = rc_model_file_save(path, &model->saved, overwrite != 0);
    if (status == RC_OK || status == RC_UNSYNCED)
        rc_api_drop_checkpoint(rc_without_const(model)); /* no part of what the model knows */
    return rc_api_end(status);
}

void rc_api_drop_checkpoint(recollect_model *model)
{
    if (model->finished != NULL)
        unlink(model->finished);
    rc_free(NULL, model->finished);
    model->finished = NULL;
}

recollect_status recollect_model_save_memory(const recollect_model *model, void **bytes, size_t *size)
{
    rc_clear_message();
    if (bytes == NULL || size == NULL)
        return rc_api_is_null(bytes == NULL ? "bytes" : "size", "where to put it");
    *bytes = NULL;
    *size = 0;
    RC_TRY(rc_api_begin_model(model));
    RC_TRY(rc_api_check_has_learnt(model));
    return rc_api_end(rc_model_file_pack(&model->saved, bytes, size));
}

recollect_status recollect_check_save(const char *path, size_t bytes, int overwrite)
{
    rc_api_begin_alone();
    if (path == NULL || path[0] == '\0')
        return rc_fail(RC_INVALID_ARGUMENT, "path is %s, expected the name of a file", path ? "empty" : "NULL");
    return rc_api_end(rc_saving_check(path, bytes, overwrite != 0));
}

void rc_api_forget(recollect_model *model)
{
    rc_predictor_destroy(model->predictor);
    model->predictor = NULL;
    rc_dreams_destroy(&model->dreams);
}

rc_status rc_api_begin_change(recollect_model *model, bool for_good)
{
    int owner_alone = 1;
    if (!for_good) {
        atomic_fetch_or(&model->holders, RC_API_CHANGING);
        return RC_OK;
    }
    if (atomic_compare_exchange_strong(&model->holders, &owner_alone, 1 | RC_API_CHANGING))
        return RC_OK;
    int predictors = owner_alone - 1; /* what it found instead of 1 */
    return rc_fail(RC_INVALID_ARGUMENT,
                   "the model has %d predictor%s, which read%s its weights: destroy %s before it learns", predictors,
                   predictors > 1 ? "s" : "", predictors > 1 ? "" : "s", predictors > 1 ? "them" : "it");
}

void rc_api_end_change(recollect_model *model)
{
    atomic_fetch_and(&model->holders, ~RC_API_CHANGING);
}

void rc_api_release_model(recollect_model *m)
{
    if (atomic_fetch_sub(&m->holders, 1) > 1)
        return;
    rc_api_forget(m);
    rc_saved_model_destroy(&m->saved);
    for (int i = 0; i < m->sets; i++)
        rc_free(NULL, m->set[i]);
    rc_free(NULL, m->method);
    rc_free(NULL, m->preset);
    rc_free(NULL, m->format);
    rc_free(NULL, m->old_test);
    rc_free(NULL, m->hold_out);
    rc_free(NULL, m->checkpoint);
    rc_free(NULL, m->checkpoint_seconds);
    rc_free(NULL, m->finished);
    rc_review_destroy(&m->review);
    rc_api_release_context(m->context);
    rc_free(NULL, m);
}

void recollect_model_destroy(recollect_model **model)
{
    if (model == NULL || *model == NULL)
        return;
    recollect_model *m = *model;
    recollect_context *context = m->context;
    *model = NULL;
    if (rc_api_is_parents(context))
        return;
    if (context->busy) {
        m->next_doomed = context->doomed;
        context->doomed = m;
        return;
    }
    rc_api_release_model(m);
}

/* ---- options ------------------------------------------------------------------------------------------- */

/* Options beside the settings of the configuration. */
typedef enum option {
    METHOD,
    PRESET,
    MERGE,
    SKIP_BROKEN,
    FORMAT,
    OLD_TEST,
    HOLD_OUT,
    CHECKPOINT,
    CHECKPOINT_SECONDS,
    RESUME,
    ADAPT,
    OPTIONS
} option;

static const char *const option_name[OPTIONS] = {[METHOD] = "method",
                                                 [PRESET] = "preset",
                                                 [MERGE] = "merge",
                                                 [SKIP_BROKEN] = "skip_broken",
                                                 [FORMAT] = "format",
                                                 [OLD_TEST] = "old_test",
                                                 [HOLD_OUT] = "hold_out",
                                                 [CHECKPOINT] = "checkpoint",
                                                 [CHECKPOINT_SECONDS] = "checkpoint_seconds",
                                                 [RESUME] = "resume",
                                                 [ADAPT] = "adapt"};

/* Returns OPTIONS for a name that is not an option. */
static option find_option(const char *name)
{
    option found = 0;
    while (found < OPTIONS && strcmp(option_name[found], name) != 0)
        found++;
    return found;
}

/* A new block with both texts, one behind the other. */
static char *join(const char *a, const char *between, const char *b)
{
    size_t size = strlen(a) + strlen(between) + strlen(b) + 1;
    char *text = rc_alloc(NULL, size);
    if (text != NULL)
        snprintf(text, size, "%s%s%s", a, between, b);
    return text;
}

/* "": it is not set. */
static rc_status set_text(char **text, const char *value)
{
    char *copy = value[0] != '\0' ? join("", "", value) : NULL;
    if (copy == NULL && value[0] != '\0')
        return RC_OUT_OF_MEMORY;
    rc_free(NULL, *text);
    *text = copy;
    return RC_OK;
}

/* A setting of the configuration is kept as text, behind all that were set before: some change others. */
static rc_status set_configuration(recollect_model *model, const char *name, const char *value)
{
    size_t length = strlen(name);
    int place = 0;
    while (place < model->sets && (strncmp(model->set[place], name, length) != 0 || model->set[place][length] != '='))
        place++;
    if (place == RC_API_OPTIONS)
        return rc_fail(RC_INTERNAL, "there are more than %d options", RC_API_OPTIONS);
    char *text = join(name, "=", value);
    if (text == NULL)
        return RC_OUT_OF_MEMORY;
    if (place == model->sets) {
        model->sets++;
    } else {
        rc_free(NULL, model->set[place]);
        memmove(&model->set[place], &model->set[place + 1], (size_t)(model->sets - 1 - place) * sizeof *model->set);
    }
    model->set[model->sets - 1] = text;
    return RC_OK;
}

/* The part of every class to hold out; NaN: a text that is none, or not set. */
static double hold_out_of(const char *text)
{
    char *end;
    double part = text != NULL && text[0] != '\0' ? rc_number_read(text, &end) : (double)NAN;
    return part >= 0 && part < 1 && *end == '\0' ? part : (double)NAN;
}

/* Seconds between checkpoints; NaN: a text that is no such number. "" or not set: 60. */
static double seconds_of(const char *text)
{
    char *end;
    if (text == NULL || text[0] == '\0')
        return 60;
    double seconds = rc_number_read(text, &end);
    return seconds >= 0 && seconds <= 86400 && end != text && *end == '\0' ? seconds : (double)NAN;
}

/* Is there such an option, and does it take the value? */
static rc_status check_option(const char *name, const char *value)
{
    rc_config tried = rc_config_default();
    if (name == NULL)
        return rc_api_is_null("name", "that of an option");
    if (value == NULL)
        return rc_api_is_null("value", "a text");
    if (strlen(name) > 64 || strlen(value) >= VALUE_SIZE)
        return rc_fail(RC_INVALID_ARGUMENT, "the option '%.64s' or its value is too long", name);
    switch (find_option(name)) {
    case METHOD: return rc_learn_check_method(value);
    case PRESET: RC_TRY(rc_config_load(&tried, value, NULL)); return rc_config_check_each(&tried);
    case MERGE:
    case SKIP_BROKEN:
    case RESUME:
        return strcmp(value, "true") == 0 || strcmp(value, "false") == 0
                   ? RC_OK
                   : rc_fail(RC_INVALID_ARGUMENT, "%s is '%.64s', expected true or false", name, value);
    case OLD_TEST:
    case CHECKPOINT: return RC_OK;
    case CHECKPOINT_SECONDS:
        return seconds_of(value) >= 0
                   ? RC_OK
                   : rc_fail(RC_INVALID_ARGUMENT, "%s is '%.64s', expected seconds from 0 to 86400", name, value);
    case HOLD_OUT:
        return value[0] == '\0' || !isnan(hold_out_of(value))
                   ? RC_OK
                   : rc_fail(RC_INVALID_ARGUMENT,
                             "%s is '%.64s', expected a part of every class: a number from 0 on, less than 1", name,
                             value);
    case ADAPT: return rc_adapt_read(value, &(rc_adapt){0});
    case FORMAT:
    case OPTIONS: break;
    }
    RC_TRY(rc_config_set(&tried, name, value));
    if (rc_config_is_of_experiments(name))
        return rc_fail(RC_INVALID_ARGUMENT,
                       "'%s' is a setting of experiments ('recollect run'); a model learns the images that it is given",
                       name);
    return rc_config_check_one(&tried, name);
}

static rc_status set_option(recollect_model *model, const char *name, const char *value)
{
    RC_TRY(check_option(name, value));
    bool yes = strcmp(value, "true") == 0;
    switch (find_option(name)) {
    case METHOD: return set_text(&model->method, value);
    case PRESET: return set_text(&model->preset, value);
    case MERGE: model->merge = yes; return RC_OK;
    case SKIP_BROKEN: model->skip_broken = yes; return RC_OK;
    case FORMAT: return set_text(&model->format, value);
    case OLD_TEST: return set_text(&model->old_test, value);
    case HOLD_OUT: return set_text(&model->hold_out, value);
    case CHECKPOINT: return set_text(&model->checkpoint, value);
    case CHECKPOINT_SECONDS: return set_text(&model->checkpoint_seconds, value);
    case RESUME: model->resume = yes; return RC_OK;
    case ADAPT: return rc_adapt_read(value, &model->adapt);
    case OPTIONS: break;
    }
    return set_configuration(model, name, value);
}

recollect_status recollect_check_option(const char *name, const char *value)
{
    rc_api_begin_alone();
    return rc_api_end(check_option(name, value));
}

recollect_status recollect_model_set(recollect_model *model, const char *name, const char *value)
{
    RC_TRY(rc_api_begin_model(model));
    recollect_context *context = model->context;
    rc_api_enter(context);
    rc_status status = rc_api_end(set_option(model, name, value));
    rc_api_leave(context);
    return status;
}

rc_learn_settings rc_api_lesson(const recollect_model *model)
{
    return (rc_learn_settings){.method = model->method,
                               .preset = model->preset,
                               .format = model->format,
                               .old_test = model->old_test,
                               .sets_hold_out = model->hold_out != NULL,
                               .hold_out = hold_out_of(model->hold_out),
                               .set = (const char *const *)model->set,
                               .sets = model->sets,
                               .adapt = model->adapt,
                               .merge = model->merge,
                               .skip_broken = model->skip_broken,
                               .checkpoint = model->checkpoint,
                               .checkpoint_seconds = seconds_of(model->checkpoint_seconds),
                               .resume = model->resume,
                               .threads = model->context->settings.threads,
                               .watch = model->context->watch};
}

/* The method of a lesson that trains the whole net, whatever its images are, and the settings that go with it. */
static rc_status foresee_method(const recollect_model *model, const rc_learn_settings *lesson, rc_config *config,
                                const rc_method **method)
{
    const rc_adapt_facts facts = {.model = &model->saved, .settings = lesson, .n_new = 1, .images = 1};
    rc_adapt adapt = lesson->adapt;
    char why[400];
    if (adapt == RC_ADAPT_CHOSEN)
        RC_TRY(rc_adapt_choose(&facts, &adapt, why, sizeof why));
    return adapt == RC_ADAPT_ALL
               ? rc_learn_choose_method(&model->saved.learner, lesson, config, method, why, sizeof why)
               : RC_OK;
}

static rc_status get_option(const recollect_model *model, const char *name, char *value)
{
    rc_learn_settings lesson = rc_api_lesson(model);
    rc_config config;
    const rc_method *method;
    const char *text = "";
    RC_TRY(rc_learn_configure(&model->saved, &lesson, &config, &method));
    RC_TRY(foresee_method(model, &lesson, &config, &method));
    switch (find_option(name)) {
    case METHOD: text = method->name; break;
    case PRESET: text = model->preset != NULL ? model->preset : has_learnt(model) ? "" : "learn"; break;
    case MERGE: text = model->merge ? "true" : "false"; break;
    case SKIP_BROKEN: text = model->skip_broken ? "true" : "false"; break;
    case FORMAT: text = model->format != NULL ? model->format : ""; break;
    case OLD_TEST: text = model->old_test != NULL ? model->old_test : ""; break;
    case HOLD_OUT: text = model->hold_out != NULL ? model->hold_out : ""; break;
    case CHECKPOINT: text = model->checkpoint != NULL ? model->checkpoint : ""; break;
    case CHECKPOINT_SECONDS: text = model->checkpoint_seconds != NULL ? model->checkpoint_seconds : "60"; break;
    case RESUME: text = model->resume ? "true" : "false"; break;
    case ADAPT: text = rc_adapt_name(model->adapt); break;
    case OPTIONS: return rc_config_get(&config, name, value, VALUE_SIZE);
    }
    snprintf(value, VALUE_SIZE, "%s", text);
    return RC_OK;
}

recollect_status recollect_model_get(const recollect_model *model, const char *name, char *text, size_t size)
{
    char value[VALUE_SIZE];
    RC_TRY(rc_api_begin_model(model));
    if (name == NULL)
        return rc_api_is_null("name", "that of an option");
    if (text == NULL)
        return rc_api_is_null("text", "where to put the value");
    rc_status status = get_option(model, name, value);
    if (status == RC_OK && strlen(value) >= size)
        status = rc_fail(RC_INVALID_ARGUMENT, "size is %zu, but the value of %.64s takes %zu bytes", size, name,
                         strlen(value) + 1);
    if (status == RC_OK)
        memcpy(text, value, strlen(value) + 1);
    return rc_api_end(status);
}

/* ---- what it knows ------------------------------------------------------------------------------------- */

int recollect_model_classes(const recollect_model *model)
{
    return has_learnt(model) ? model->saved.learner.student.head.classes : 0;
}

const char *recollect_model_class_name(const recollect_model *model, int label)
{
    return label >= 0 && label < recollect_model_classes(model) ? model->saved.class_name[label] : NULL;
}

int recollect_model_find_class(const recollect_model *model, const char *name)
{
    return name != NULL && has_learnt(model) ? rc_model_label(&model->saved, name) : -1;
}

int recollect_model_tasks(const recollect_model *model)
{
    return has_learnt(model) ? model->saved.learner.student.head.tasks : 0;
}

int recollect_model_task_classes(const recollect_model *model, int task)
{
    if (task < 0 || task >= recollect_model_tasks(model))
        return 0;
    const int *end = model->saved.learner.student.head.task_end;
    return end[task] - (task > 0 ? end[task - 1] : 0);
}

int recollect_model_image_height(const recollect_model *model)
{
    return has_learnt(model) ? model->saved.learner.augment.h : 0;
}

int recollect_model_image_width(const recollect_model *model)
{
    return has_learnt(model) ? model->saved.learner.augment.w : 0;
}

int recollect_model_image_channels(const recollect_model *model)
{
    return has_learnt(model) ? model->saved.learner.augment.c : 0;
}

int recollect_model_features(const recollect_model *model)
{
    return has_learnt(model) ? model->saved.learner.student.head.d : 0;
}

size_t recollect_model_stored_bytes(const recollect_model *model)
{
    if (!has_learnt(model))
        return 0;
    const rc_kept kept = rc_model_kept(&model->saved);
    return rc_kept_bytes(&kept);
}
