/* recollect eval: how right a model is. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/csv.h"
#include "cli/handle.h"
#include "cli/sandbox.h"
#include "cli/verdict.h"

enum {
    JSON,
    CSV,
    STRICT,
    FORMAT,
    SKIP_BROKEN,
    BACKEND,
    PRECISION,
    DEVICE_MEMORY,
    MAX_MEMORY,
    THREADS,
    SANDBOX,
    OPTIONS
};

static const rc_option options[OPTIONS] = {
    [JSON] = {"json", RC_OPTION_FLAG, NULL, NULL, "print everything as JSON", 0, 0},
    [CSV] = {"csv", RC_OPTION_FLAG, NULL, NULL, "print the confusion matrix as CSV", 0, 0},
    [STRICT] = {"strict", RC_OPTION_FLAG, NULL, NULL, "exit with 3 if there are warnings", 0, 0},
    [FORMAT] = {"format", RC_OPTION_TEXT, "NAME", NULL, "format of the data, if it is not recognised", 0, 0},
    [SKIP_BROKEN] = {"skip-broken", RC_OPTION_FLAG, NULL, NULL, "leave out images that cannot be read", 0, 0},
    [BACKEND] = {"backend", RC_OPTION_TEXT, RC_BACKENDS, "cpu", "what to compute on", 0, 0},
    [PRECISION] = RC_OPTION_PRECISION,
    [DEVICE_MEMORY] = RC_OPTION_DEVICE_MEMORY,
    [MAX_MEMORY] = RC_OPTION_MAX_MEMORY,
    [THREADS] = RC_OPTION_THREADS,
    [SANDBOX] = RC_OPTION_SANDBOX,
};

/* Images of class `label` that the model took for class `said`. */
static int cell(const recollect_evaluation *e, int label, int said)
{
    return (int)e->confusion[(size_t)label * (size_t)e->classes + (size_t)said];
}

/* ---- text ------------------------------------------------------------------------------------------------------- */

enum {
    NAME_SIZE = 201,  /* longer names are cut */
    MANY_CLASSES = 20 /* with more, a terminal has no room for all that there is to say */
};

static void print_tasks(const recollect_model *model, const recollect_evaluation *e)
{
    char interval[RC_INTERVAL_SIZE], classes[64];
    for (int task = 0, first = 0; task < e->tasks; first += recollect_model_task_classes(model, task++)) {
        int last = first + recollect_model_task_classes(model, task), images = e->task_images[task];
        if (last - first == 1)
            snprintf(classes, sizeof classes, "class %d", last);
        else
            snprintf(classes, sizeof classes, "classes %d to %d", first + 1, last);
        if (images > 0)
            rc_print("task %-3d %6.2f %%  (%d image%s, %s; %s)", task + 1, e->task_accuracy[task], images,
                     images == 1 ? "" : "s", classes, rc_interval_text(e->task_accuracy[task], images, interval));
        else
            rc_print("task %-3d no images", task + 1);
    }
}

/* Of a model that knows a thousand classes, those that there are images of. */
static void print_classes(const recollect_model *model, const recollect_evaluation *e)
{
    char name[NAME_SIZE], interval[RC_INTERVAL_SIZE];
    int left_out = 0;
    for (int label = 0; label < e->classes; label++) {
        if (e->class_images[label] == 0 && e->classes > MANY_CLASSES) {
            left_out++;
            continue;
        }
        rc_column(recollect_model_class_name(model, label), 24, name, sizeof name);
        if (e->class_images[label] > 0)
            rc_print("  %3d  %s %6.2f %%  (%d image%s; %s)", label + 1, name, e->class_accuracy[label],
                     e->class_images[label], e->class_images[label] == 1 ? "" : "s",
                     rc_interval_text(e->class_accuracy[label], e->class_images[label], interval));
        else
            rc_print("  %3d  %s no images", label + 1, name);
    }
    if (left_out > 0)
        rc_print("  and %d class%s without images", left_out, left_out > 1 ? "es" : "");
}

/* Columns are the numbers that the list of classes shows. */
static void print_matrix(const recollect_evaluation *e)
{
    char text[256];
    rc_print("confusion matrix: rows are true classes, columns what the model said");
    size_t used = (size_t)snprintf(text, sizeof text, "     ");
    for (int k = 0; k < e->classes; k++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%6d", k + 1);
    rc_print("%s", text);
    for (int label = 0; label < e->classes; label++) {
        used = (size_t)snprintf(text, sizeof text, "%5d", label + 1);
        for (int k = 0; k < e->classes; k++)
            used += (size_t)snprintf(text + used, sizeof text - used, "%6d", cell(e, label, k));
        rc_print("%s", text);
    }
}

/* The ten cells beside the diagonal that hold most. */
static void print_worst(const recollect_model *model, const recollect_evaluation *e)
{
    char name[2][NAME_SIZE];
    int64_t last = -1; /* cells come by count, then by place; this is the last one shown */
    int64_t classes = e->classes, cells = classes * classes;
    rc_print("most confused (--csv prints the whole matrix):");
    for (int shown = 0; shown < 10; shown++) {
        int64_t best = -1;
        for (int64_t i = 0; i < cells; i++) {
            bool beside = e->confusion[i] > 0 && i / classes != i % classes;
            bool after = last < 0 || e->confusion[i] < e->confusion[last] ||
                         (e->confusion[i] == e->confusion[last] && i > last);
            if (beside && after && (best < 0 || e->confusion[i] > e->confusion[best]))
                best = i;
        }
        if (best < 0)
            break;
        rc_print("  %5d x  %s taken for %s", (int)e->confusion[best],
                 rc_column(recollect_model_class_name(model, (int)(best / classes)), 0, name[0], NAME_SIZE),
                 rc_column(recollect_model_class_name(model, (int)(best % classes)), 0, name[1], NAME_SIZE));
        last = best;
    }
}

static void print_text(const recollect_model *model, const recollect_evaluation *e)
{
    char interval[RC_INTERVAL_SIZE], of[16] = "";
    int scored = 0;
    for (int label = 0; label < e->classes; label++)
        scored += e->class_images[label] > 0;
    if (scored < e->classes)
        snprintf(of, sizeof of, "%d of ", scored);
    rc_print("accuracy %6.2f %%  (%d image%s, %s%d classes; 95 %% interval: %s)", e->accuracy, e->images,
             e->images == 1 ? "" : "s", of, e->classes, rc_interval_text(e->accuracy, e->images, interval));
    if (e->classes > 5)
        rc_print("top-5    %6.2f %%  (%s)", e->top5, rc_interval_text(e->top5, e->images, interval));
    if (e->tasks > 1)
        print_tasks(model, e);
    rc_print("classes:");
    print_classes(model, e);
    if (e->classes <= MANY_CLASSES)
        print_matrix(e);
    else
        print_worst(model, e);
}

/* ---- CSV -------------------------------------------------------------------------------------------------------- */

/* A line for every cell that is not 0. */
static bool print_cells(const recollect_model *model, const recollect_evaluation *e, rc_csv *line)
{
    rc_csv_text(line, "true");
    rc_csv_text(line, "predicted");
    rc_csv_text(line, "images");
    bool whole = rc_csv_end(line);
    for (int label = 0; label < e->classes; label++)
        for (int k = 0; k < e->classes && whole; k++) {
            if (cell(e, label, k) == 0)
                continue;
            rc_csv_text(line, recollect_model_class_name(model, label));
            rc_csv_text(line, recollect_model_class_name(model, k));
            rc_csv_whole(line, cell(e, label, k));
            whole = rc_csv_end(line);
        }
    return whole;
}

/* The confusion matrix: a header, then one line per true class. */
static bool print_rows(const recollect_model *model, const recollect_evaluation *e, rc_csv *line)
{
    rc_csv_text(line, "true\\predicted");
    for (int k = 0; k < e->classes; k++)
        rc_csv_text(line, recollect_model_class_name(model, k));
    bool whole = rc_csv_end(line);
    for (int label = 0; label < e->classes && whole; label++) {
        rc_csv_text(line, recollect_model_class_name(model, label));
        for (int k = 0; k < e->classes; k++)
            rc_csv_whole(line, cell(e, label, k));
        whole = rc_csv_end(line);
    }
    return whole;
}

static int print_csv(const recollect_model *model, const recollect_evaluation *e)
{
    enum { WHOLE = 500 }; /* classes of a matrix that a program for tables still opens */
    rc_csv line = {0};
    bool whole = e->classes <= WHOLE ? print_rows(model, e, &line) : print_cells(model, e, &line);
    rc_csv_free(&line);
    if (!whole)
        rc_complain("eval: no memory for a line of the matrix");
    return whole ? RC_EXIT_DONE : RC_EXIT_FAILED;
}

/* ---- the command ------------------------------------------------------------------------------------------------ */

static int evaluate(recollect_model *model, rc_advice *advice)
{
    const rc_option_value *value = advice->value;
    const char *self = rc_command_eval.name;
    recollect_evaluation *e = NULL;
    recollect_status status = RECOLLECT_OK;
    if (value[FORMAT].text != NULL)
        status = recollect_model_set(model, "format", value[FORMAT].text);
    if (status == RECOLLECT_OK && value[SKIP_BROKEN].given)
        status = recollect_model_set(model, "skip_broken", "true");
    if (status == RECOLLECT_OK)
        status = recollect_evaluate_folder(model, advice->data, &e);
    if (status != RECOLLECT_OK)
        return rc_failed(self, status);
    int code = RC_EXIT_DONE;
    rc_advice_begin(advice, model, NULL);
    if (value[CSV].given) {
        code = print_csv(model, e);
        rc_tell_warnings(e->review, advice, rc_note);
    } else if (!value[JSON].given) {
        rc_print_verdict(e->review);
        print_text(model, e);
        rc_tell_warnings(e->review, advice, rc_print);
    } else if ((status = recollect_describe_evaluation(model, e, rc_advise, rc_print_json, advice)) != RECOLLECT_OK) {
        code = rc_failed(self, status);
    }
    code = rc_strict_code(&rc_command_eval, e->review, value[STRICT].given, code);
    recollect_evaluation_destroy(&e);
    return code;
}

static int run(const rc_option_value *value, int count, char **arguments)
{
    const rc_command *self = &rc_command_eval;
    if (count != 2)
        return count > 2 ? rc_wrong_usage(self, "unexpected argument '%s'", arguments[2])
                         : rc_wrong_usage(self, count < 1 ? "which model?" : "on which images?");
    if (value[JSON].given && value[CSV].given)
        return rc_wrong_usage(self, "JSON or CSV? Both together cannot be read again");
    recollect_status status = RECOLLECT_OK;
    if (value[FORMAT].text != NULL)
        status = recollect_check_option("format", value[FORMAT].text);
    if (status != RECOLLECT_OK)
        return rc_wrong_settings(self, status);
    int refused = rc_sandbox_asked(self, &value[SANDBOX], &value[BACKEND]);
    if (refused != RC_EXIT_DONE)
        return refused;
    rc_handle_settings opening = {.command = self->name,
                                  .backend = rc_backend_name(&value[BACKEND]),
                                  .threads = (int)value[THREADS].integer,
                                  .max_memory = &value[MAX_MEMORY],
                                  .log_level = RECOLLECT_LOG_INFO};
    recollect_model *model = rc_handle_open(&opening, arguments[0]);
    if (model == NULL)
        return RC_EXIT_FAILED;
    rc_catch_interrupts();
    rc_advice advice = {
        .command = self, .value = value, .model = arguments[0], .data = arguments[1], .out = arguments[0]};
    int code = evaluate(model, &advice);
    recollect_model_destroy(&model);
    return code;
}

const rc_command rc_command_eval = {
    .name = "eval",
    .summary = "Scores a model on labelled images: in all, by task and by class, with the confusion matrix.",
    .arguments = "MODEL DATA",
    .details = "DATA is a folder with a folder of images for each class, or any data set that 'run' reads: "
               "its test images,\n"
               "or all where it has none. Classes are matched by name; those that the model does not know "
               "are left out.",
    .examples = "  recollect eval animals.safetensors test-photos/\n"
                "  recollect eval animals.safetensors test-photos/ --csv > confusion.csv\n"
                "  recollect eval fashion.safetensors /usr/share/datasets/fashion-mnist --json",
    .option = options,
    .options = OPTIONS,
    .run = run,
};
