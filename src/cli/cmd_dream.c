/* recollect dream: what a model remembers, as pictures. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/handle.h"

enum {
    OUT,
    PER_CLASS,
    STEPS,
    SCALE,
    SEED,
    FORCE,
    VERBOSE,
    BACKEND,
    PRECISION,
    DEVICE_MEMORY,
    MAX_MEMORY,
    THREADS,
    OPTIONS
};

static const rc_option options[OPTIONS] = {
    [OUT] = {"out", RC_OPTION_TEXT, "FOLDER", "dreams", "where the pictures go", 0, 0},
    [PER_CLASS] = {"per-class", RC_OPTION_INTEGER, "N", "16", "dreams of each class", 1, 4096},
    [STEPS] = {"steps", RC_OPTION_INTEGER, "N", NULL, "steps of inversion; the model's own, at most 500", 1, 10000000},
    [SCALE] = {"scale", RC_OPTION_INTEGER, "N", "0", "enlarge pixels N times; 0: to 64 pixels a dream", 0, 64},
    [SEED] = {"seed", RC_OPTION_INTEGER, "N", NULL, "seed, for other dreams; the model's own", 0, INT64_MAX},
    [FORCE] = {"force", RC_OPTION_FLAG, NULL, NULL, "replace pictures that exist", 0, 0},
    [VERBOSE] = RC_OPTION_VERBOSE,
    [BACKEND] = {"backend", RC_OPTION_TEXT, RC_BACKENDS, "cpu", "what to compute on", 0, 0},
    [PRECISION] = RC_OPTION_PRECISION,
    [DEVICE_MEMORY] = RC_OPTION_DEVICE_MEMORY,
    [MAX_MEMORY] = RC_OPTION_MAX_MEMORY,
    [THREADS] = {"threads", RC_OPTION_INTEGER, "N", "0", "threads to use; 0: all cores", 0, 1024},
};

/* The result and its arrays, (classes) each. */
typedef struct outcome {
    const recollect_model *model;
    int classes;
    recollect_dream_result result;
} outcome;

enum { NAME_SIZE = 81 }; /* longer names are cut */

static const char *class_name(const outcome *o, int label, int width, char name[NAME_SIZE])
{
    return rc_column(recollect_model_class_name(o->model, label), width, name, NAME_SIZE);
}

/* How many the model takes for each class, a line for each. */
static void print_dreams(const outcome *o)
{
    static const char bar[] = "########################################";
    char name[NAME_SIZE];
    rc_print("%d dreams after %d steps of inversion, and what the model takes them for:", o->result.dreams,
             o->result.steps);
    for (int label = 0; label < o->classes; label++) {
        double share = o->result.taken[label] / (double)o->result.dreams;
        rc_print("  %3d  %s %5.1f %%  %.*s", label + 1, class_name(o, label, 24, name), 100 * share,
                 (int)(share * (double)(sizeof bar - 1) + 0.5), bar);
    }
}

/* Classes without dreams, as many as fit into a line. */
static void warn_of_missing(const outcome *o)
{
    enum { ROOM = 1000 };
    char text[ROOM + 2 * NAME_SIZE], name[NAME_SIZE];
    size_t used = 0;
    int missing = 0, left;
    for (int label = 0; label < o->classes; label++)
        missing += o->result.taken[label] == 0;
    if (missing == 0)
        return;
    left = missing;
    for (int label = 0; label < o->classes && used < ROOM; label++)
        if (o->result.taken[label] == 0)
            used += (size_t)snprintf(text + used, sizeof text - used, " %s%s", class_name(o, label, 0, name),
                                     --left > 0 ? "," : "");
    rc_note("warning: no dream of %d of %d classes:%s%s", missing, o->classes, text,
            left > 0 ? " ..." : "; more --steps may help");
}

/* What is wrong with them: classes without dreams, one class that takes nearly all, classes whose dreams are all
 * alike. */
static void warn(const outcome *o)
{
    static const double nearly_all = 0.7, alike = 0.1;
    char name[NAME_SIZE];
    warn_of_missing(o);
    for (int label = 0; label < o->classes; label++) {
        double share = o->result.taken[label] / (double)o->result.dreams, spread = o->result.spread[label];
        class_name(o, label, 0, name);
        if (o->classes > 1 && share > nearly_all)
            rc_note("warning: %.0f %% of the dreams are of %s: the generator has collapsed", 100 * share, name);
        if (spread < alike)
            rc_note("warning: the dreams of %s are all alike (spread %.3f of the data's)", name, spread);
    }
}

static int dream(recollect_model *model, const rc_option_value *value)
{
    const char *folder = value[OUT].text, *self = rc_command_dream.name;
    const recollect_dream_settings settings = {.size = sizeof settings,
                                               .per_class = (int)value[PER_CLASS].integer,
                                               .steps = (int)value[STEPS].integer,
                                               .seed = value[SEED].text,
                                               .scale = (int)value[SCALE].integer,
                                               .overwrite = value[FORCE].given};
    outcome o = {.model = model, .classes = recollect_model_classes(model)};
    o.result.size = sizeof o.result;
    o.result.taken = calloc((size_t)o.classes, sizeof *o.result.taken);
    o.result.spread = calloc((size_t)o.classes, sizeof *o.result.spread);
    int code = RC_EXIT_FAILED;
    if (o.result.taken != NULL && o.result.spread != NULL) {
        recollect_status status = recollect_dream_folder(model, folder, &settings, &o.result);
        code = status == RECOLLECT_OK ? RC_EXIT_DONE : rc_failed(self, status);
    } else {
        rc_complain("%s: out of memory", self);
    }
    if (code == RC_EXIT_DONE) {
        print_dreams(&o);
        rc_print("%s/all.png has a row for each class in this order, %s/NN-NAME.png all dreams of a class", folder,
                 folder);
        warn(&o);
    }
    free(o.result.taken);
    free(o.result.spread);
    return code;
}

static int run(const rc_option_value *value, int count, char **arguments)
{
    const rc_command *self = &rc_command_dream;
    if (count != 1)
        return count < 1 ? rc_wrong_usage(self, "of which model?")
                         : rc_wrong_usage(self, "unexpected argument '%s'", arguments[1]);
    if (value[OUT].text[0] == '\0')
        return rc_wrong_usage(self, "where shall the pictures go? --out FOLDER says it");
    rc_handle_settings settings = {.command = self->name,
                                   .backend = rc_backend_name(&value[BACKEND]),
                                   .threads = (int)value[THREADS].integer,
                                   .max_memory = &value[MAX_MEMORY],
                                   .log_level = RECOLLECT_LOG_INFO};
    recollect_model *model = rc_handle_open(&settings, arguments[0]);
    if (model == NULL)
        return RC_EXIT_FAILED;
    rc_progress_verbose(value[VERBOSE].given);
    rc_catch_interrupts();
    rc_outlive_readers();
    int code = dream(model, value);
    recollect_model_destroy(&model);
    return code;
}

const rc_command rc_command_dream = {
    .name = "dream",
    .summary = "Draws what a model remembers of each class.",
    .arguments = "MODEL",
    .details = "Trains a generator against the model, as the next 'learn' would, and draws images until there are\n"
               "enough of every class. The same seed gives the same dreams. Warns if classes are missing, or if\n"
               "the dreams of a class are all alike.",
    .examples = "  recollect dream animals.safetensors\n"
                "  recollect dream animals.safetensors --out night --per-class 64 --steps 2000",
    .option = options,
    .options = OPTIONS,
    .run = run,
};
