/* The public interface: what there is, in structures, in names and in words. Methods are in describe_methods.c. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "api/describe_methods.h"
#include "api/describe_model.h"
#include "base/nearest.h"
#include "base/utf8.h"
#include "nn/published.h"

/* ---- text ---------------------------------------------------------------------------------------------- */

size_t recollect_escape(const char *text, char *out, size_t size)
{
    if (text == NULL || out == NULL || size < RC_UTF8_SHOWN)
        return 0;
    size_t used = 0, left = strlen(text), whole = left;
    while (left > 0) {
        char shown[RC_UTF8_SHOWN];
        size_t taken, length = rc_utf8_show(text, left, shown, &taken);
        if (used + length >= size)
            break;
        memcpy(out + used, shown, length);
        used += length;
        text += taken;
        left -= taken;
    }
    out[used] = '\0';
    return whole - left;
}

const char *recollect_nearest(const char *name, const char *(*candidate)(const void *user, int index), const void *user)
{
    return name != NULL && candidate != NULL ? rc_nearest(name, candidate, user) : NULL;
}

/* ---- lists --------------------------------------------------------------------------------------------- */

int recollect_setting_at(int index, recollect_setting *setting)
{
    const size_t first = RC_API_FIRST(recollect_setting, range);
    rc_config_item item;
    if (!rc_config_item_at(index, &item))
        return 0;
    bool is_number = strstr(item.type, "number") != NULL;
    recollect_setting described = {.name = item.name,
                                   .type = item.type,
                                   .help = item.help,
                                   .initial = item.default_value,
                                   .readers = item.readers,
                                   .choices = item.choices,
                                   .low = is_number ? item.low : NAN,
                                   .high = is_number ? item.high : NAN};
    snprintf(described.range, sizeof described.range, "%s", item.range);
    return rc_api_give_item(setting, first, &described, sizeof described);
}

int recollect_preset_at(int index, recollect_preset *preset)
{
    const size_t first = RC_API_FIRST(recollect_preset, summary);
    recollect_preset described = {0};
    return rc_config_preset(index, &described.name, &described.summary) &&
           rc_api_give_item(preset, first, &described, sizeof described);
}

const char *recollect_published_net_at(int index)
{
    const rc_published *published = rc_published_at(index);
    return published != NULL ? published->net : NULL;
}

const char *recollect_net_at(int index)
{
    return rc_describe_net_name(index);
}

/* ---- words --------------------------------------------------------------------------------------------- */

static rc_status check_line(recollect_line *line)
{
    return line != NULL ? RC_OK : rc_api_is_null("line", "a function that takes lines");
}

recollect_status recollect_describe_machine(recollect_line *line, void *user)
{
    rc_api_begin_alone();
    RC_TRY(check_line(line));
    return rc_api_end(rc_describe_machine(line, user));
}

recollect_status recollect_describe_methods(int json, recollect_line *line, void *user)
{
    rc_api_begin_alone();
    RC_TRY(check_line(line));
    return rc_api_end(rc_describe_methods(json != 0, line, user));
}

recollect_status recollect_describe_net(const char *name, int channels, int size, recollect_line *line, void *user)
{
    rc_api_begin_alone();
    if (name == NULL)
        return rc_api_is_null("name", "that of a net");
    RC_TRY(check_line(line));
    return rc_api_end(rc_describe_net(name, channels, size, line, user));
}

recollect_status recollect_describe_model(const recollect_model *model, int json, recollect_line *line, void *user)
{
    RC_TRY(rc_api_begin_model(model));
    RC_TRY(check_line(line));
    RC_TRY(rc_api_check_has_learnt(model));
    recollect_context *context = model->context;
    rc_api_enter(context);
    rc_status status = rc_api_end(rc_describe_model(&model->saved, json != 0, line, user));
    rc_api_leave(context);
    return status;
}

recollect_status recollect_describe_learning(const recollect_model *model, const recollect_learn_result *result,
                                             const char *path, recollect_advise *advise, recollect_line *line,
                                             void *user)
{
    RC_TRY(rc_api_begin_model(model));
    if (result == NULL)
        return rc_api_is_null("result", "what recollect_learn has filled");
    RC_TRY(rc_api_check_result(result));
    RC_TRY(check_line(line));
    RC_TRY(rc_api_check_has_learnt(model));
    /* What the caller's header does not know was not scored. */
    recollect_learn_result whole = {.size = sizeof whole, .old_before = NAN, .old_after = NAN};
    memcpy(&whole, result, result->size < sizeof whole ? result->size : sizeof whole);
    if (whole.known < 0 || whole.added < 0 || whole.known > recollect_model_classes(model) - whole.added)
        return rc_fail(RC_INVALID_ARGUMENT, "the result has %d and %d classes, but the model knows %d: it is another's",
                       whole.known, whole.added, recollect_model_classes(model));
    recollect_context *context = model->context;
    rc_api_enter(context);
    rc_status status = rc_api_end(rc_describe_learning(&model->saved, &whole, model->review, path, advise, line, user));
    rc_api_leave(context);
    return status;
}

/* ---- a model ------------------------------------------------------------------------------------------- */

recollect_status recollect_model_get_info(const recollect_model *model, recollect_model_info *info)
{
    const size_t first = RC_API_FIRST(recollect_model_info, data_free);
    RC_TRY(rc_api_begin_model(model));
    if (info == NULL)
        return rc_api_is_null("info", "where to put it");
    RC_TRY(rc_api_check_size("info", info, first, sizeof *info));
    RC_TRY(rc_api_check_has_learnt(model));
    const rc_learner *l = &model->saved.learner;
    const rc_kept kept = rc_model_kept(&model->saved);
    recollect_model_info all = {.method = l->method->name,
                                .net = l->settings.net,
                                .parameters = rc_model_parameters(&model->saved),
                                .features = l->student.head.d,
                                .weights = kept.weights,
                                .class_means = kept.class_means,
                                .covariance = kept.covariance,
                                .images = kept.images,
                                .generative_model = kept.generative_model,
                                .unknown = model->saved.unknown_bytes,
                                .images_kept = l->source->images.held,
                                .images_shown = l->source->images.held > 0 ? l->source->images.offered : 0,
                                .data_free = rc_model_is_data_free(&model->saved)};
    for (int c = 0; c < l->augment.c; c++) {
        all.mean[c] = l->augment.mean[c];
        all.std[c] = l->augment.std[c];
    }
    rc_api_fill(info, &all, sizeof all);
    return RC_OK;
}
