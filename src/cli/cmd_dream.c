/* recollect dream: what a model remembers, as pictures. */
#include <stddef.h>

#include "api/dream.h"
#include "cli/cli.h"
#include "cli/model.h"

enum { OUT, PER_CLASS, STEPS, SCALE, SEED, FORCE, BACKEND, PRECISION, DEVICE_MEMORY, MAX_MEMORY, THREADS, OPTIONS };

static const rc_option options[OPTIONS] = {
    [OUT] = {"out", RC_OPTION_TEXT, "FOLDER", "dreams", "where the pictures go", 0, 0},
    [PER_CLASS] = {"per-class", RC_OPTION_INTEGER, "N", "16", "dreams of each class", 1, 4096},
    [STEPS] = {"steps", RC_OPTION_INTEGER, "N", NULL, "of inversion; as the model was made, at most 500", 1,
               10000000},
    [SCALE] = {"scale", RC_OPTION_INTEGER, "N", "0", "enlarge pixels so many times; 0: to 64 pixels a dream",
               0, 64},
    [SEED] = {"seed", RC_OPTION_INTEGER, "N", NULL, "other dreams; as the model was made", 0, INT64_MAX},
    [FORCE] = {"force", RC_OPTION_FLAG, NULL, NULL, "replace pictures that are there", 0, 0},
    [BACKEND] = {"backend", RC_OPTION_TEXT, "cpu|reference|cuda", "cpu", "what to compute on", 0, 0},
    [PRECISION] = RC_OPTION_PRECISION,
    [DEVICE_MEMORY] = RC_OPTION_DEVICE_MEMORY,
    [MAX_MEMORY] = RC_OPTION_MAX_MEMORY,
    [THREADS] = {"threads", RC_OPTION_INTEGER, "N", "0", "threads to use; 0: all cores", 0, 1024},
};

static void print_warning(void *unused, const char *text)
{
    (void)unused;
    rc_note("%s", text);
}

static rc_status dream(rc_saved_model *model, const rc_dream_settings *settings, const rc_option_value *value)
{
    rc_dreams dreams;
    const char *folder = value[OUT].text;
    RC_TRY(rc_dreams_check(model, folder, value[FORCE].given));
    RC_TRY(rc_dream(model, settings, &dreams));
    rc_status status = rc_dreams_write(&dreams, model, folder, (int)value[SCALE].integer);
    if (status == RC_OK) {
        rc_dreams_print(&dreams, model, rc_print_line, NULL);
        rc_print("%s/all.png has a row for each class in this order, %s/NN-NAME.png all dreams of a class",
                 folder, folder);
        rc_dreams_warn(&dreams, model, print_warning, NULL);
    }
    rc_dreams_destroy(&dreams);
    return status;
}

static int run(const rc_option_value *value, int count, char **arguments)
{
    const rc_command *self = &rc_command_dream;
    if (count != 1)
        return count < 1 ? rc_wrong_usage(self, "of which model?")
                         : rc_wrong_usage(self, "unexpected argument '%s'", arguments[1]);
    if (value[OUT].text[0] == '\0')
        return rc_wrong_usage(self, "where shall the pictures go? --out FOLDER says it");
    rc_open_model *open =
        rc_model_open(self->name, rc_backend_name(&value[BACKEND]), (int)value[THREADS].integer,
                      &value[MAX_MEMORY], arguments[0]);
    if (open == NULL)
        return RC_EXIT_FAILED;
    rc_catch_interrupts();
    rc_outlive_readers();
    rc_dream_settings settings = {.per_class = (int)value[PER_CLASS].integer,
                                  .steps = (int)value[STEPS].integer,
                                  .seed = value[SEED].given ? value[SEED].text : NULL,
                                  .watch = {.log = {.write = rc_note_log, .level = RC_LOG_INFO},
                                            .progress = rc_tell_progress,
                                            .cancelled = rc_interrupted}};
    rc_status status = dream(&open->model, &settings, value);
    if (status != RC_OK)
        rc_complain("%s: %s", self->name, rc_message());
    rc_model_close(open);
    return status == RC_OK ? RC_EXIT_DONE : status == RC_CANCELLED ? RC_EXIT_INTERRUPTED : RC_EXIT_FAILED;
}

const rc_command rc_command_dream = {
    .name = "dream",
    .summary = "Draws what a model remembers of each class.",
    .arguments = "MODEL",
    .details = "A generator is inverted from the model, as the next 'learn' would do, and asked for images "
               "until there are\n"
               "enough of every class. The same seed gives the same dreams. Warns when classes are missing "
               "or all alike.",
    .examples = "  recollect dream animals.safetensors\n"
                "  recollect dream animals.safetensors --out night --per-class 64 --steps 2000",
    .option = options,
    .options = OPTIONS,
    .run = run,
};
