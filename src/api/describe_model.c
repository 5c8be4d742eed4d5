#include "api/describe_model.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"
#include "forecast/progress.h"

/* Bytes of the file by what they are for. Everything else would be "other": a file of ours has none. */
typedef struct contents {
    size_t backbone, head, means, covariance, images, model, other;
} contents;

static void count_tensor(contents *c, const rc_named_tensor *tensor)
{
    size_t bytes = rc_named_tensor_count(tensor) * rc_dtype_bytes(tensor->dtype);
    if (strncmp(tensor->name, "backbone.", 9) == 0)
        c->backbone += bytes;
    else if (strncmp(tensor->name, "head.", 5) == 0)
        c->head += bytes;
    else if (strcmp(tensor->name, "statistics.class_mean") == 0)
        c->means += bytes;
    else if (strcmp(tensor->name, "statistics.covariance") == 0)
        c->covariance += bytes;
    else if (strncmp(tensor->name, "buffer.", 7) == 0)
        c->images += bytes;
    else if (strncmp(tensor->name, "encoder.", 8) == 0 || strncmp(tensor->name, "decoder.", 8) == 0)
        c->model += bytes;
    else
        c->other += bytes;
}

static rc_status read_contents(const char *path, contents *c)
{
    rc_safetensors *file;
    *c = (contents){0};
    RC_TRY(rc_safetensors_open(path, &file));
    for (int i = 0; i < rc_safetensors_count(file); i++)
        count_tensor(c, rc_safetensors_at(file, i));
    rc_safetensors_close(file);
    return RC_OK;
}

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

static void put_stored(const out *o, const rc_learner *l, const contents *c)
{
    char bytes[32];
    if (c->images > 0) {
        rc_bytes_text(c->images, bytes, sizeof bytes);
        put(o, "kept of images %s: %d images and their labels, of the %llu that were shown; not data-free", bytes,
            l->buffer.held, (unsigned long long)l->buffer.offered);
    } else if (c->model > 0) {
        rc_bytes_text(c->model, bytes, sizeof bytes);
        put(o, "kept of images %s: an autoencoder that makes images, no image itself; not data-free", bytes);
    } else if (rc_method_takes_old_images(l->method)) {
        put(o, "kept of images nothing in the file, but %s is given the old images again: not data-free",
            l->method->title);
    } else if (c->means + c->covariance == 0) {
        put(o, "kept of images nothing: %s stores no statistics, no image is in the file", l->method->title);
    } else {
        rc_bytes_text(c->means + c->covariance, bytes, sizeof bytes);
        put(o, "kept of images %s: %d class means and one covariance of %d features; no image is in the file",
            bytes, l->statistics_classes, l->student.head.d);
    }
    if (c->other > 0)
        put(o, "warning: %zu bytes of the file are of unknown use", c->other);
}

static void describe_text(const rc_saved_model *model, const contents *c, const out *o)
{
    const rc_learner *l = &model->learner;
    char weights[32];
    rc_bytes_text(c->backbone + c->head, weights, sizeof weights);
    put_classes(o, model);
    put(o, "method         %s: %s", l->method->title, l->method->summary);
    put(o, "net            %s, %zu parameters and a head of %d x %d; %s of weights", l->settings.net,
        l->net.params, l->student.head.classes, l->student.head.d, weights);
    put_normalisation(o, &l->augment);
    put_stored(o, l, c);
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

static void put_bytes(rc_json_writer *w, const contents *c)
{
    rc_json_begin_object(w, "bytes");
    rc_json_put_int(w, "weights", (int64_t)(c->backbone + c->head));
    rc_json_put_int(w, "class_means", (int64_t)c->means);
    rc_json_put_int(w, "covariance", (int64_t)c->covariance);
    rc_json_put_int(w, "generative_model", (int64_t)c->model);
    rc_json_put_int(w, "images", (int64_t)c->images);
    rc_json_put_int(w, "other", (int64_t)c->other);
    rc_json_end(w);
}

static rc_status describe_json(const rc_saved_model *model, const contents *c, const out *o)
{
    const rc_learner *l = &model->learner;
    const rc_head *head = &l->student.head;
    rc_json_writer w = {0};
    rc_json_begin_object(&w, NULL);
    put_lists(&w, model);
    rc_json_put_text(&w, "method", l->method->name);
    rc_json_put_text(&w, "net", l->settings.net);
    rc_json_put_int(&w, "parameters", (int64_t)(l->net.params + (size_t)head->classes * (size_t)head->d));
    rc_json_put_int(&w, "features", head->d);
    rc_json_begin_array(&w, "image");
    rc_json_put_int(&w, NULL, l->augment.h);
    rc_json_put_int(&w, NULL, l->augment.w);
    rc_json_put_int(&w, NULL, l->augment.c);
    rc_json_end(&w);
    put_numbers(&w, "mean", l->augment.mean, l->augment.c);
    put_numbers(&w, "std", l->augment.std, l->augment.c);
    put_bytes(&w, c);
    rc_json_put_bool(&w, "data_free", c->images == 0 && c->model == 0 && !rc_method_takes_old_images(l->method));
    rc_json_begin_object(&w, "config");
    rc_config_put_json(&model->config, NULL, &w);
    rc_json_end(&w);
    rc_json_end(&w);
    return rc_json_line(&w, o->line, o->user);
}

rc_status rc_describe_model(const char *path, const rc_saved_model *model, bool json, rc_describe_line *line,
                            void *user)
{
    contents c;
    out o = {line, user};
    RC_TRY(read_contents(path, &c));
    if (json)
        return describe_json(model, &c, &o);
    describe_text(model, &c, &o);
    return RC_OK;
}
