#include "api/describe_model.h"

#include <stdarg.h>
#include <stdio.h>

#include "api/review.h"
#include "base/utf8.h"
#include "forecast/progress.h"

/* ---- text -------------------------------------------------------------------------------------------------------- */

typedef struct out {
    rc_describe_line *line;
    void *user;
} out;

static void __attribute__((format(printf, 2, 3))) put(const out *o, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    o->line(o->user, text);
}

static void put_classes(const out *o, const rc_saved_model *model)
{
    const rc_head *head = &model->learner.student.head;
    put(o, "classes        %d, learnt in %d task%s", head->classes, head->tasks, head->tasks > 1 ? "s" : "");
    for (int task = 0, first = 0; task < head->tasks; first = head->task_end[task++]) {
        char text[900];
        size_t used = 0;
        for (int label = first; label < head->task_end[task] && used < sizeof text; label++)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", label > first ? ", " : "",
                                     model->class_name[label]);
        if (used >= sizeof text)
            rc_utf8_mark_cut(text, sizeof text);
        put(o, "  task %-8d %s", task + 1, text);
    }
}

static void put_normalisation(const out *o, const rc_augment *image)
{
    char mean[64], std[64];
    size_t m = 0, s = 0;
    for (int c = 0; c < image->c; c++) {
        m += (size_t)snprintf(mean + m, sizeof mean - m, "%s%.4f", c ? ", " : "", (double)image->mean[c]);
        s += (size_t)snprintf(std + s, sizeof std - s, "%s%.4f", c ? ", " : "", (double)image->std[c]);
    }
    put(o, "images         %d x %d pixels, %s; mean %s, standard deviation %s", image->w, image->h,
        image->c == 1 ? "grey" : "colour", mean, std);
}

/* Only where it is not what every model does. */
static void put_resizing(const out *o, const rc_saved_model *model)
{
    const rc_config *c = &model->config;
    int size = model->learner.augment.h, side = c->resize > size ? c->resize : size;
    if (side > size || rc_config_interpolation(c) != RC_BILINEAR)
        put(o, "resizing       the shorter side to %d pixels, %s; of that the middle", side, c->interpolation);
}

static void put_stored(const out *o, const rc_saved_model *model, const rc_kept *kept)
{
    const rc_learner *l = &model->learner;
    size_t statistics = kept->class_means + kept->covariance;
    char bytes[32], words[128];
    if (kept->images + kept->generative_model > 0) {
        rc_bytes_text(kept->images + kept->generative_model, bytes, sizeof bytes);
        l->source->kind->describe(l->source, words, sizeof words);
        put(o, "kept of images %s: %s; not data-free", bytes, words);
    } else if (rc_method_takes_old_images(l->method)) {
        put(o, "kept of images nothing in the file, but %s is given the old images again: not data-free",
            l->method->title);
    } else if (statistics == 0) {
        put(o, "kept of images nothing: %s stores no statistics%s, no image is in the file", l->method->title,
            l->method->dce ? " of classes that were imported" : "");
    } else {
        rc_bytes_text(statistics, bytes, sizeof bytes);
        if (l->taught > 0)
            put(o,
                "kept of images %s: %d class means of %d features, from lessons of the head; no image is in the file",
                bytes, l->taught, l->student.head.d);
        else
            put(o, "kept of images %s: %d class means%s of %d features; no image is in the file", bytes,
                l->statistics_classes,
                l->class_factor != NULL     ? ", as many covariances and a shared one"
                : l->class_variance != NULL ? ", the variances of each class and one covariance"
                                            : " and one covariance",
                l->student.head.d);
    }
    if (model->unknown_bytes > 0)
        put(o, "warning: %zu bytes of the file are of unknown use", model->unknown_bytes);
}

/* Whether `predict` can tell a false-alarm rate. */
static void put_strangers(const out *o, const rc_saved_model *model)
{
    const rc_calibration *c = &model->calibration;
    int images = rc_calibration_images(c);
    if (rc_calibration_covers(c, model->learner.student.head.classes))
        put(o, "strangers      measured on %d held-out images%s", images,
            c->lessons > 1 ? ", those of each lesson when it was learnt" : "");
    else if (model->imported)
        put(o, "strangers      cannot be told: no images of the classes that the net came with were held out");
    else if (images > 0)
        put(o, "strangers      cannot be told: %d image%s held out, which is too few for some of the classes", images,
            images == 1 ? " was" : "s were");
    else
        put(o, "strangers      cannot be told: no images were held out");
}

/* How far its percentages can be believed. */
static void put_confidence(const out *o, const rc_calibration *c)
{
    if (c->temperature > 0)
        put(o, "confidence     logits are divided by %.3g, as images that were held out told", c->temperature);
    else
        put(o, "confidence     not measured; percentages may be too high");
}

static void describe_text(const rc_saved_model *model, const rc_kept *kept, const out *o)
{
    const rc_learner *l = &model->learner;
    char weights[32];
    rc_bytes_text(kept->weights, weights, sizeof weights);
    put_classes(o, model);
    put(o, "method         %s: %s", l->method->title, l->method->summary);
    put(o, "net            %s, %zu parameters and a head of %d x %d%s; %s of weights", l->settings.net, l->net.params,
        l->student.head.classes, l->student.head.d, l->student.head.bias != NULL ? " with bias" : "", weights);
    put_normalisation(o, &l->augment);
    put_resizing(o, model);
    put_stored(o, model, kept);
    put_strangers(o, model);
    put_confidence(o, &model->calibration);
}

/* ---- JSON ---------------------------------------------------------------------------------------------------- */

static void put_numbers(rc_json_writer *w, const char *key, const float *values, int count)
{
    rc_json_begin_array(w, key);
    for (int i = 0; i < count; i++)
        rc_json_put_real(w, NULL, (double)values[i]);
    rc_json_end(w);
}

static void put_lists(rc_json_writer *w, const rc_saved_model *model)
{
    const rc_head *head = &model->learner.student.head;
    rc_json_begin_array(w, "classes");
    for (int label = 0; label < head->classes; label++)
        rc_json_put_text(w, NULL, model->class_name[label]);
    rc_json_end(w);
    rc_json_begin_array(w, "tasks");
    for (int task = 0; task < head->tasks; task++)
        rc_json_put_int(w, NULL, head->task_end[task] - (task ? head->task_end[task - 1] : 0));
    rc_json_end(w);
}

static void put_bytes(rc_json_writer *w, const rc_saved_model *model, const rc_kept *kept)
{
    rc_json_begin_object(w, "bytes");
    rc_json_put_int(w, "weights", (int64_t)kept->weights);
    rc_json_put_int(w, "class_means", (int64_t)kept->class_means);
    rc_json_put_int(w, "covariance", (int64_t)kept->covariance);
    rc_json_put_int(w, "generative_model", (int64_t)kept->generative_model);
    rc_json_put_int(w, "images", (int64_t)kept->images);
    rc_json_put_int(w, "other", (int64_t)model->unknown_bytes);
    rc_json_end(w);
}

static rc_status describe_json(const rc_saved_model *model, const rc_kept *kept, const out *o)
{
    const rc_learner *l = &model->learner;
    const rc_head *head = &l->student.head;
    rc_json_writer w = {0};
    rc_json_begin_object(&w, NULL);
    put_lists(&w, model);
    rc_json_put_text(&w, "method", l->method->name);
    rc_json_put_text(&w, "net", l->settings.net);
    rc_json_put_int(&w, "parameters", (int64_t)rc_model_parameters(model));
    rc_json_put_int(&w, "features", head->d);
    rc_json_put_bool(&w, "head_bias", head->bias != NULL);
    rc_json_begin_array(&w, "image");
    rc_json_put_int(&w, NULL, l->augment.h);
    rc_json_put_int(&w, NULL, l->augment.w);
    rc_json_put_int(&w, NULL, l->augment.c);
    rc_json_end(&w);
    put_numbers(&w, "mean", l->augment.mean, l->augment.c);
    put_numbers(&w, "std", l->augment.std, l->augment.c);
    put_bytes(&w, model, kept);
    bool covers = rc_calibration_covers(&model->calibration, head->classes);
    rc_json_put_int(&w, "calibrated_images", covers ? rc_calibration_images(&model->calibration) : 0);
    rc_json_put_real(&w, "temperature", rc_calibration_temperature(&model->calibration));
    rc_json_put_bool(&w, "data_free", rc_model_is_data_free(model));
    rc_json_begin_object(&w, "config");
    rc_config_put_json(&model->config, NULL, &w);
    rc_json_end(&w);
    rc_json_end(&w);
    return rc_json_line(&w, o->line, o->user);
}

rc_status rc_describe_model(const rc_saved_model *model, bool json, rc_describe_line *line, void *user)
{
    const rc_kept kept = rc_model_kept(model);
    out o = {line, user};
    if (json)
        return describe_json(model, &kept, &o);
    describe_text(model, &kept, &o);
    return RC_OK;
}

/* ---- a lesson ------------------------------------------------------------------------------------------------ */

rc_status rc_describe_learning(const rc_saved_model *model, const recollect_learn_result *r,
                               const recollect_review *review, const char *path, recollect_advise *advise,
                               rc_describe_line *line, void *user)
{
    const double wall[RC_STAGE_COUNT] = {[RC_STAGE_INVERSION] = r->inversion_seconds,
                                         [RC_STAGE_TRAINING] = r->training_seconds,
                                         [RC_STAGE_REFINEMENT] = r->refinement_seconds,
                                         [RC_STAGE_ESTIMATION] = r->estimation_seconds};
    rc_json_writer w = {0};
    rc_json_begin_object(&w, NULL);
    rc_json_put_text(&w, "file", path);
    rc_json_put_text(&w, "method", model->learner.method->name);
    rc_json_put_int(&w, "classes", r->known + r->added);
    rc_json_begin_array(&w, "new_classes");
    for (int i = r->known; i < r->known + r->added; i++)
        rc_json_put_text(&w, NULL, model->class_name[i]);
    rc_json_end(&w);
    rc_json_put_int(&w, "merged_classes", r->merged);
    rc_json_put_int(&w, "images", r->images);
    rc_json_put_int(&w, "broken_images", r->broken);
    rc_json_put_int(&w, "left_out", r->left_out);
    rc_json_put_int(&w, "not_pictures", r->not_pictures);
    rc_json_put_int(&w, "held_out_images", r->held_out);
    rc_json_put_real(&w, "accuracy", r->accuracy);
    rc_interval_put(&w, "accuracy_interval", r->accuracy, r->held_out);
    rc_json_put_int(&w, "old_images", r->old_images);
    rc_json_put_real(&w, "old_accuracy_before", r->old_before);
    rc_interval_put(&w, "old_accuracy_before_interval", r->old_before, r->old_images);
    rc_json_put_real(&w, "old_accuracy_after", r->old_after);
    rc_interval_put(&w, "old_accuracy_after_interval", r->old_after, r->old_images);
    rc_review_put(&w, review, model->class_name, advise, user);
    rc_json_put_int(&w, "epochs", r->epochs);
    if (r->adapt != NULL)
        rc_json_put_text(&w, "adapt", r->adapt);
    rc_json_put_real(&w, "seconds", r->seconds);
    rc_json_begin_object(&w, "stage_seconds");
    for (int i = 0; i < RC_STAGE_COUNT; i++)
        rc_json_put_real(&w, rc_stage_name((rc_stage)i), wall[i]);
    rc_json_end(&w);
    rc_json_end(&w);
    return rc_json_line(&w, line, user);
}
