#include "api/evaluate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"
#include "forecast/allowance.h"

rc_data_settings rc_model_data_settings(const rc_saved_model *model)
{
    const rc_augment *image = &model->learner.augment;
    return (rc_data_settings){.size = image->h,
                              .channels = image->c,
                              .resize = model->config.resize,
                              .ignore_exif = !model->config.exif,
                              .procedural_seed = model->config.settings.seed};
}

int rc_model_label(const rc_saved_model *model, const char *name)
{
    for (int label = 0; label < model->learner.student.head.classes; label++)
        if (strcmp(model->class_name[label], name) == 0)
            return label;
    return -1;
}

/* ---- scoring ----------------------------------------------------------------------------------------------------- */

/* The order in which a stream sees the classes of the data: at a position that is a label of the model stands
 * the class of that name; classes that the model does not know come behind, and labels without images get
 * classes that the data does not have. */
static rc_status match_classes(const rc_saved_model *model, const rc_dataset *data, rc_named_evaluation *e,
                               rc_task_stream *stream)
{
    int known = model->learner.student.head.classes, spare = data->classes;
    int *order = rc_alloc_zeroed(NULL, (size_t)known + (size_t)data->classes, sizeof *order);
    e->unknown = rc_alloc_zeroed(NULL, (size_t)data->classes, sizeof *e->unknown);
    if (order == NULL || e->unknown == NULL) {
        rc_free(NULL, order);
        return RC_OUT_OF_MEMORY;
    }
    for (int label = 0; label < known; label++)
        order[label] = -1;
    for (int native = 0; native < data->classes; native++) {
        int label = rc_model_label(model, data->class_name[native]);
        if (label >= 0 && order[label] < 0) {
            order[label] = native;
        } else {
            order[known + e->unknown_classes] = native;
            e->unknown[e->unknown_classes++] = native;
        }
    }
    for (int label = 0; label < known; label++)
        if (order[label] < 0)
            order[label] = spare++;
    int classes = known + e->unknown_classes;
    rc_status status = rc_task_stream_create(stream, classes, order, &(rc_task_split){.tasks = 1});
    rc_free(NULL, order);
    return status;
}

rc_status rc_evaluate_by_name(const rc_saved_model *model, const rc_dataset *data, const rc_split *split,
                              rc_named_evaluation *e)
{
    memset(e, 0, sizeof *e);
    const rc_learner *l = &model->learner;
    rc_task_stream stream = {0};
    int batch = model->config.test_batch < split->count ? model->config.test_batch : split->count;
    rc_status status = match_classes(model, data, e, &stream);
    if (status == RC_OK)
        status = rc_scoring_batch(l->backend, &l->student, &l->settings, &l->augment, batch > 1 ? batch : 1, &batch);
    if (status == RC_OK)
        status = rc_evaluate(l->backend, &l->student, &l->augment, &stream, split, batch, &e->counts);
    for (int i = 0; status == RC_OK && i < split->count; i++) {
        bool known = stream.position[split->labels[i]] < l->student.head.classes;
        e->images += known;
        e->unknown_images += !known;
    }
    rc_task_stream_destroy(&stream);
    if (status != RC_OK)
        rc_named_evaluation_destroy(e);
    return status;
}

void rc_named_evaluation_destroy(rc_named_evaluation *e)
{
    rc_evaluation_destroy(&e->counts);
    rc_free(NULL, e->unknown);
    memset(e, 0, sizeof *e);
}

rc_status rc_evaluate_data(const rc_saved_model *model, const rc_evaluate_settings *settings,
                           rc_dataset *data, rc_named_evaluation *e)
{
    rc_watch watch = settings->watch;
    rc_pool *pool;
    memset(e, 0, sizeof *e);
    RC_TRY(rc_pool_create(settings->threads, &pool));
    rc_data_settings reading = rc_model_data_settings(model);
    reading.format = settings->format;
    reading.skip_broken = settings->skip_broken;
    reading.test_part = 1;
    reading.pool = pool;
    reading.log = &watch.log;
    reading.progress = rc_watch_reading;
    reading.user = &watch;
    rc_status status = rc_dataset_open(settings->data, &reading, data);
    rc_pool_destroy(pool);
    RC_TRY(status);
    const rc_split *split = data->test.count > 0 ? &data->test : &data->train;
    status = rc_evaluate_by_name(model, data, split, e);
    if (status == RC_OK && e->images == 0)
        status = rc_fail(RC_INVALID_ARGUMENT,
                         "%.500s has no image of a class that the model knows; 'recollect info "
                         "MODEL' lists them",
                         settings->data);
    if (status != RC_OK) {
        rc_named_evaluation_destroy(e);
        rc_dataset_close(data);
    }
    return status;
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

enum { NAME_SIZE = 201 }; /* longer names are cut */

static int count_of(const rc_evaluation *e, int label)
{
    int count = 0;
    for (int k = 0; k < e->classes; k++)
        count += e->confusion[label * e->classes + k];
    return count;
}

static void print_tasks(const rc_saved_model *model, const rc_evaluation *e, rc_evaluation_line *line,
                        void *user)
{
    const rc_head *head = &model->learner.student.head;
    char text[160];
    for (int task = 0, first = 0; task < head->tasks; first = head->task_end[task++]) {
        double accuracy = rc_accuracy(e, first, head->task_end[task]);
        int images = 0;
        for (int label = first; label < head->task_end[task]; label++)
            images += count_of(e, label);
        if (images > 0)
            snprintf(text, sizeof text, "task %-3d %6.2f %%  (%d images, classes %d to %d)", task + 1,
                     accuracy, images, first + 1, head->task_end[task]);
        else
            snprintf(text, sizeof text, "task %-3d no images", task + 1);
        line(user, text);
    }
}

static void print_classes(const rc_saved_model *model, const rc_evaluation *e, rc_evaluation_line *line,
                          void *user)
{
    char text[320], name[NAME_SIZE];
    for (int label = 0; label < e->classes; label++) {
        int images = count_of(e, label);
        rc_utf8_column(model->class_name[label], 24, name, sizeof name);
        if (images > 0)
            snprintf(text, sizeof text, "  %3d  %s %6.2f %%  (%d images)", label + 1, name,
                     rc_accuracy(e, label, label + 1), images);
        else
            snprintf(text, sizeof text, "  %3d  %s no images", label + 1, name);
        line(user, text);
    }
}

/* Columns are the numbers that the list of classes shows. */
static void print_matrix(const rc_evaluation *e, rc_evaluation_line *line, void *user)
{
    char text[256];
    line(user, "confusion matrix: rows are true classes, columns what the model said");
    size_t used = (size_t)snprintf(text, sizeof text, "     ");
    for (int k = 0; k < e->classes; k++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%6d", k + 1);
    line(user, text);
    for (int label = 0; label < e->classes; label++) {
        used = (size_t)snprintf(text, sizeof text, "%5d", label + 1);
        for (int k = 0; k < e->classes; k++)
            used += (size_t)snprintf(text + used, sizeof text - used, "%6d",
                                     (int)e->confusion[label * e->classes + k]);
        line(user, text);
    }
}

/* The ten cells beside the diagonal that hold most. */
static void print_worst(const rc_saved_model *model, const rc_evaluation *e, rc_evaluation_line *line,
                        void *user)
{
    char text[512], name[2][NAME_SIZE];
    int64_t last = -1; /* cells come by count, then by place; this is the last one shown */
    int cells = e->classes * e->classes;
    line(user, "most confused:");
    for (int shown = 0; shown < 10; shown++) {
        int64_t best = -1;
        for (int cell = 0; cell < cells; cell++) {
            bool beside = cell / e->classes != cell % e->classes && e->confusion[cell] > 0;
            bool after = last < 0 || e->confusion[cell] < e->confusion[last] ||
                         (e->confusion[cell] == e->confusion[last] && cell > last);
            if (beside && after && (best < 0 || e->confusion[cell] > e->confusion[best]))
                best = cell;
        }
        if (best < 0)
            break;
        snprintf(text, sizeof text, "  %5d x  %s taken for %s", (int)e->confusion[best],
                 rc_utf8_column(model->class_name[best / e->classes], 0, name[0], NAME_SIZE),
                 rc_utf8_column(model->class_name[best % e->classes], 0, name[1], NAME_SIZE));
        line(user, text);
        last = best;
    }
}

rc_status rc_evaluation_print(const rc_saved_model *model, const rc_named_evaluation *evaluation,
                              rc_evaluation_line *line, void *user)
{
    enum { WIDEST_MATRIX = 20 };
    const rc_evaluation *e = &evaluation->counts;
    char text[160];
    snprintf(text, sizeof text, "accuracy %6.2f %%  (%d images, %d classes)", rc_accuracy(e, 0, e->classes),
             evaluation->images, e->classes);
    line(user, text);
    if (e->classes > 5) {
        snprintf(text, sizeof text, "top-5    %6.2f %%", rc_accuracy_top5(e, 0, e->classes));
        line(user, text);
    }
    if (model->learner.student.head.tasks > 1)
        print_tasks(model, e, line, user);
    line(user, "classes:");
    print_classes(model, e, line, user);
    if (e->classes <= WIDEST_MATRIX)
        print_matrix(e, line, user);
    else
        print_worst(model, e, line, user);
    return RC_OK;
}

/* ---- CSV and JSON ------------------------------------------------------------------------------------------------ */

/* A field as CSV wants it: in quotes, inner quotes doubled. Text that does not fit is cut. */
static size_t put_quoted(char *out, size_t size, size_t used, const char *text)
{
    if (used + 3 >= size)
        return used;
    out[used++] = '"';
    for (; *text != '\0' && used + 4 < size; text++) {
        if (*text == '"')
            out[used++] = '"';
        out[used++] = *text;
    }
    out[used++] = '"';
    out[used] = '\0';
    return used;
}

rc_status rc_evaluation_csv(const rc_saved_model *model, const rc_named_evaluation *evaluation,
                            rc_evaluation_line *line, void *user)
{
    const rc_evaluation *e = &evaluation->counts;
    size_t longest = 32;
    for (int k = 0; k < e->classes; k++)
        longest += 2 * strlen(model->class_name[k]) + 16;
    char *text = rc_alloc_zeroed(NULL, longest, 1);
    if (text == NULL)
        return RC_OUT_OF_MEMORY;
    size_t used = put_quoted(text, longest, 0, "true\\predicted");
    for (int k = 0; k < e->classes; k++) {
        text[used++] = ',';
        used = put_quoted(text, longest, used, model->class_name[k]);
    }
    line(user, text);
    for (int label = 0; label < e->classes; label++) {
        used = put_quoted(text, longest, 0, model->class_name[label]);
        for (int k = 0; k < e->classes; k++)
            used += (size_t)snprintf(text + used, longest - used, ",%d",
                                     (int)e->confusion[label * e->classes + k]);
        line(user, text);
    }
    rc_free(NULL, text);
    return RC_OK;
}

rc_status rc_evaluation_json(const rc_saved_model *model, const rc_named_evaluation *evaluation,
                             rc_evaluation_line *line, void *user)
{
    const rc_evaluation *e = &evaluation->counts;
    const rc_head *head = &model->learner.student.head;
    rc_json_writer w = {0};
    rc_json_begin_object(&w, NULL);
    rc_json_put_int(&w, "images", evaluation->images);
    rc_json_put_int(&w, "unknown_images", evaluation->unknown_images);
    rc_json_put_real(&w, "accuracy", rc_accuracy(e, 0, e->classes));
    rc_json_put_real(&w, "top5", rc_accuracy_top5(e, 0, e->classes));
    rc_json_begin_array(&w, "task_accuracy");
    for (int task = 0, first = 0; task < head->tasks; first = head->task_end[task++])
        rc_json_put_real(&w, NULL, rc_accuracy(e, first, head->task_end[task]));
    rc_json_end(&w);
    rc_json_begin_array(&w, "classes");
    for (int label = 0; label < e->classes; label++) {
        rc_json_begin_object(&w, NULL);
        rc_json_put_text(&w, "class", model->class_name[label]);
        rc_json_put_int(&w, "images", count_of(e, label));
        rc_json_put_real(&w, "accuracy", rc_accuracy(e, label, label + 1));
        rc_json_end(&w);
    }
    rc_json_end(&w);
    rc_json_begin_array(&w, "confusion");
    for (int label = 0; label < e->classes; label++) {
        rc_json_begin_array(&w, NULL);
        for (int k = 0; k < e->classes; k++)
            rc_json_put_int(&w, NULL, e->confusion[label * e->classes + k]);
        rc_json_end(&w);
    }
    rc_json_end(&w);
    rc_json_end(&w);
    return rc_json_line(&w, line, user);
}
