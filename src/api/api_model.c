/* The public interface: models, from creating to saving, their options, and what they know. */
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "api/describe_methods.h"
#include "api/evaluate.h"
#include "api/learn_config.h"
#include "base/file.h"
#include "base/memory.h"

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
    context->models++;
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

recollect_status recollect_model_save(const recollect_model *model, const char *path, int overwrite)
{
    RC_TRY(rc_api_begin_model(model));
    if (path == NULL || path[0] == '\0')
        return rc_fail(RC_INVALID_ARGUMENT, "path is %s, expected the name of a file",
                       path ? "empty" : "NULL");
    if (!has_learnt(model))
        return rc_fail(RC_INVALID_ARGUMENT, "the model knows nothing yet, there is nothing to save in %.512s",
                       path);
    if (!overwrite && rc_file_exists(path))
        return rc_fail(RC_IO, "%.900s exists already, and overwriting it was not allowed", path);
    return rc_api_end(rc_model_file_save(path, &model->saved, overwrite != 0));
}

void rc_api_forget_scorer(recollect_model *model)
{
    rc_scorer_destroy(model->scorer);
    rc_unfamiliarity_destroy(model->unfamiliarity);
    model->scorer = NULL;
    model->unfamiliarity = NULL;
}

void rc_api_forget(recollect_model *model)
{
    rc_api_forget_scorer(model);
    rc_dreams_destroy(&model->dreams);
}

void recollect_model_destroy(recollect_model **model)
{
    if (model == NULL || *model == NULL)
        return;
    recollect_model *m = *model;
    bool parents = rc_api_is_parents(m->context);
    if (m->context->busy && !parents)
        return;
    *model = NULL;
    if (parents)
        return;
    rc_api_forget(m);
    rc_saved_model_destroy(&m->saved);
    for (int i = 0; i < m->sets; i++)
        rc_free(NULL, m->set[i]);
    rc_free(NULL, m->method);
    rc_free(NULL, m->preset);
    m->context->models--;
    rc_api_release_context(m->context);
    rc_free(NULL, m);
}

/* ---- options ------------------------------------------------------------------------------------------- */

/* "a" "=" "b" in a new block. */
static char *join(const char *a, const char *between, const char *b)
{
    size_t size = strlen(a) + strlen(between) + strlen(b) + 1;
    char *text = rc_alloc(NULL, size);
    if (text != NULL)
        snprintf(text, size, "%s%s%s", a, between, b);
    return text;
}

static rc_status set_text(char **option, const char *value)
{
    char *copy = join("", "", value);
    if (copy == NULL)
        return RC_OUT_OF_MEMORY;
    rc_free(NULL, *option);
    *option = copy;
    return RC_OK;
}

static rc_status set_flag(bool *option, const char *name, const char *value)
{
    bool yes = strcmp(value, "true") == 0;
    if (!yes && strcmp(value, "false") != 0)
        return rc_fail(RC_INVALID_ARGUMENT, "%s is '%.64s', expected true or false", name, value);
    *option = yes;
    return RC_OK;
}

/* One of the configuration: tried on a configuration that nobody uses, then kept as text. */
static rc_status set_configuration(recollect_model *model, const char *name, const char *value)
{
    rc_config tried = rc_config_default();
    RC_TRY(rc_config_set(&tried, name, value));
    size_t length = strlen(name);
    int place = 0;
    while (place < model->sets &&
           (strncmp(model->set[place], name, length) != 0 || model->set[place][length] != '='))
        place++;
    if (place == RC_API_OPTIONS)
        return rc_fail(RC_INTERNAL, "there are more than %d options", RC_API_OPTIONS);
    char *text = join(name, "=", value);
    if (text == NULL)
        return RC_OUT_OF_MEMORY;
    if (place == model->sets)
        model->sets++;
    else
        rc_free(NULL, model->set[place]);
    model->set[place] = text;
    return RC_OK;
}

static rc_status set_option(recollect_model *model, const char *name, const char *value)
{
    rc_config tried = rc_config_default();
    const rc_method *method;
    if (strcmp(name, "method") == 0) {
        RC_TRY(rc_method_choose(value, &method));
        return set_text(&model->method, value);
    }
    if (strcmp(name, "preset") == 0) {
        RC_TRY(rc_config_load(&tried, value, NULL));
        return set_text(&model->preset, value);
    }
    if (strcmp(name, "merge") == 0)
        return set_flag(&model->merge, name, value);
    if (strcmp(name, "skip_broken") == 0)
        return set_flag(&model->skip_broken, name, value);
    return set_configuration(model, name, value);
}

recollect_status recollect_model_set(recollect_model *model, const char *name, const char *value)
{
    RC_TRY(rc_api_begin_model(model));
    if (name == NULL)
        return rc_api_is_null("name", "that of an option");
    if (value == NULL)
        return rc_api_is_null("value", "a text");
    if (strlen(name) > 64 || strlen(value) >= VALUE_SIZE)
        return rc_fail(RC_INVALID_ARGUMENT, "the option '%.64s' or its value is too long", name);
    model->context->busy = true;
    rc_status status = set_option(model, name, value);
    model->context->busy = false;
    return rc_api_end(status);
}

rc_learn_settings rc_api_lesson(const recollect_model *model)
{
    return (rc_learn_settings){.method = model->method,
                               .preset = model->preset,
                               .set = (const char *const *)model->set,
                               .sets = model->sets,
                               .merge = model->merge,
                               .skip_broken = model->skip_broken,
                               .threads = model->context->settings.threads,
                               .watch = model->context->watch};
}

static rc_status get_option(const recollect_model *model, const char *name, char *value)
{
    rc_learn_settings lesson = rc_api_lesson(model);
    rc_config config;
    const rc_method *method;
    RC_TRY(rc_learn_configure(&model->saved, &lesson, &config, &method));
    if (strcmp(name, "method") == 0)
        snprintf(value, VALUE_SIZE, "%s", method->name);
    else if (strcmp(name, "preset") == 0)
        snprintf(value, VALUE_SIZE, "%s",
                 model->preset != NULL ? model->preset
                 : has_learnt(model)   ? ""
                                       : "learn");
    else if (strcmp(name, "merge") == 0)
        snprintf(value, VALUE_SIZE, "%s", model->merge ? "true" : "false");
    else if (strcmp(name, "skip_broken") == 0)
        snprintf(value, VALUE_SIZE, "%s", model->skip_broken ? "true" : "false");
    else
        return rc_config_get(&config, name, value, VALUE_SIZE);
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
        status = rc_fail(RC_INVALID_ARGUMENT, "size is %zu, but the value of %.64s takes %zu bytes", size,
                         name, strlen(value) + 1);
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

size_t recollect_model_stored_bytes(const recollect_model *model)
{
    if (!has_learnt(model))
        return 0;
    const rc_learner *l = &model->saved.learner;
    const rc_stored stored = rc_learner_stored(l);
    size_t weights = l->net.params + l->net.running + (size_t)l->student.head.classes * (size_t)l->student.head.d;
    return weights * sizeof(float) + rc_buffer_bytes(&l->buffer) + stored.model + stored.statistics;
}
