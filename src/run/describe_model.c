#include "run/describe_model.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "run/progress.h"

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
        put(o, "  task %-8d %s%s", task + 1, text, used >= sizeof text ? " ..." : "");
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

static rc_status describe_json(const rc_saved_model *model, const contents *c, const out *o)
{
    const rc_learner *l = &model->learner;
    const rc_head *head = &l->student.head;
    json_t *json = json_object(), *classes = json_array(), *tasks = json_array(), *mean = json_array();
    json_t *std = json_array(), *config = NULL;
    for (int label = 0; label < head->classes; label++)
        json_array_append_new(classes, json_string(model->class_name[label]));
    for (int task = 0; task < head->tasks; task++)
        json_array_append_new(tasks,
                              json_integer(head->task_end[task] - (task ? head->task_end[task - 1] : 0)));
    for (int i = 0; i < l->augment.c; i++) {
        json_array_append_new(mean, json_real((double)l->augment.mean[i]));
        json_array_append_new(std, json_real((double)l->augment.std[i]));
    }
    json_object_set_new(json, "classes", classes);
    json_object_set_new(json, "tasks", tasks);
    json_object_set_new(json, "method", json_string(l->method->name));
    json_object_set_new(json, "net", json_string(l->settings.net));
    json_object_set_new(json, "parameters",
                        json_integer((json_int_t)(l->net.params + (size_t)head->classes * (size_t)head->d)));
    json_object_set_new(json, "features", json_integer(head->d));
    json_object_set_new(json, "image", json_pack("[i, i, i]", l->augment.h, l->augment.w, l->augment.c));
    json_object_set_new(json, "mean", mean);
    json_object_set_new(json, "std", std);
    json_object_set_new(json, "bytes",
                        json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "weights", (json_int_t)(c->backbone + c->head),
                                  "class_means", (json_int_t)c->means, "covariance",
                                  (json_int_t)c->covariance, "generative_model", (json_int_t)c->model, "images",
                                  (json_int_t)c->images, "other",
                                  (json_int_t)c->other));
    bool data_free = c->images == 0 && c->model == 0 && !rc_method_takes_old_images(l->method);
    json_object_set_new(json, "data_free", json_boolean(data_free));
    char *text = NULL;
    rc_status status = rc_config_to_json(&model->config, &config);
    if (status == RC_OK) {
        json_object_set_new(json, "config", config);
        status = rc_json_dump(json, 0, &text);
    }
    if (status == RC_OK)
        o->line(o->user, text);
    rc_free(NULL, text);
    json_decref(json);
    return status;
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
