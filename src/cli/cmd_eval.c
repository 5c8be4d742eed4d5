/* recollect eval: how right a model is. */
#include <stddef.h>

#include "api/evaluate.h"
#include "cli/cli.h"
#include "cli/model.h"

enum { JSON, CSV, FORMAT, SKIP_BROKEN, BACKEND, PRECISION, DEVICE_MEMORY, MAX_MEMORY, THREADS, OPTIONS };

static const rc_option options[OPTIONS] = {
    [JSON] = {"json", RC_OPTION_FLAG, NULL, NULL, "print everything as JSON", 0, 0},
    [CSV] = {"csv", RC_OPTION_FLAG, NULL, NULL, "print the confusion matrix as CSV", 0, 0},
    [FORMAT] = {"format", RC_OPTION_TEXT, "NAME", NULL, "format of the data, if it is not recognised", 0, 0},
    [SKIP_BROKEN] = {"skip-broken", RC_OPTION_FLAG, NULL, NULL, "leave out images that cannot be read", 0, 0},
    [BACKEND] = {"backend", RC_OPTION_TEXT, RC_BACKENDS, "cpu", "what to compute on", 0, 0},
    [PRECISION] = RC_OPTION_PRECISION,
    [DEVICE_MEMORY] = RC_OPTION_DEVICE_MEMORY,
    [MAX_MEMORY] = RC_OPTION_MAX_MEMORY,
    [THREADS] = {"threads", RC_OPTION_INTEGER, "N", "0", "threads to use; 0: all cores", 0, 1024},
};

static void note_unknown(const rc_named_evaluation *e, const rc_dataset *data)
{
    if (data->broken > 0)
        rc_note("note: %d images could not be read and were left out", data->broken);
    if (e->unknown_images == 0)
        return;
    rc_note("note: %d images were left out, because the model does not know their classes:",
            e->unknown_images);
    for (int i = 0; i < e->unknown_classes; i++)
        rc_note("  %s", data->class_name[e->unknown[i]]);
}

static rc_status evaluate(const rc_saved_model *model, const rc_evaluate_settings *settings,
                          const rc_option_value *value)
{
    rc_dataset data;
    rc_named_evaluation e;
    RC_TRY(rc_evaluate_data(model, settings, &data, &e));
    note_unknown(&e, &data);
    rc_status status = value[JSON].given  ? rc_evaluation_json(model, &e, rc_print_json, NULL)
                       : value[CSV].given ? rc_evaluation_csv(model, &e, rc_print_line, NULL)
                                          : rc_evaluation_print(model, &e, rc_print_line, NULL);
    rc_named_evaluation_destroy(&e);
    rc_dataset_close(&data);
    return status;
}

static int run(const rc_option_value *value, int count, char **arguments)
{
    const rc_command *self = &rc_command_eval;
    if (count != 2)
        return count > 2 ? rc_wrong_usage(self, "unexpected argument '%s'", arguments[2])
                         : rc_wrong_usage(self, count < 1 ? "which model?" : "on which images?");
    if (value[JSON].given && value[CSV].given)
        return rc_wrong_usage(self, "JSON or CSV? Both together cannot be read again");
    rc_open_model *open =
        rc_model_open(self->name, rc_backend_name(&value[BACKEND]), (int)value[THREADS].integer,
                      &value[MAX_MEMORY], arguments[0]);
    if (open == NULL)
        return RC_EXIT_FAILED;
    rc_catch_interrupts();
    rc_evaluate_settings settings = {.data = arguments[1],
                                     .format = value[FORMAT].text,
                                     .skip_broken = value[SKIP_BROKEN].given,
                                     .threads = (int)value[THREADS].integer,
                                     .watch = {.log = {.write = rc_note_log, .level = RC_LOG_INFO},
                                               .progress = rc_tell_progress,
                                               .cancelled = rc_interrupted}};
    rc_status status = evaluate(&open->model, &settings, value);
    if (status != RC_OK)
        rc_complain("%s: %s", self->name, rc_message());
    rc_model_close(open);
    return status == RC_OK ? RC_EXIT_DONE : status == RC_CANCELLED ? RC_EXIT_INTERRUPTED : RC_EXIT_FAILED;
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
