/* recollect dream: what a model remembers, as pictures. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/handle.h"

enum {
    OUT,
    BESIDE,
    PER_CLASS,
    STEPS,
    SCALE,
    SEED,
    JSON,
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
    [OUT] = {"out", RC_OPTION_OUTPUT, "FOLDER", "dreams", "where the pictures go", 0, 0},
    [BESIDE] = {"beside", RC_OPTION_TEXT, "DATA", NULL, "lay real images of these classes beside the dreams", 0, 0},
    [PER_CLASS] = {"per-class", RC_OPTION_INTEGER, "N", "16", "dreams of each class", 1, 4096},
    [STEPS] = {"steps", RC_OPTION_INTEGER, "N", NULL, "steps of inversion; the model's own, at most 500", 1, 10000000},
    [SCALE] = {"scale", RC_OPTION_INTEGER, "N", "0", "enlarge pixels N times; 0: to 64 pixels a dream", 0, 64},
    [SEED] = {"seed", RC_OPTION_INTEGER, "N", NULL, "seed, for other dreams; the model's own", 0, INT64_MAX},
    [JSON] = {"json", RC_OPTION_FLAG, NULL, NULL, "print what was dreamt as JSON", 0, 0},
    [FORCE] = {"force", RC_OPTION_FLAG, NULL, NULL, "replace pictures that exist", 0, 0},
    [VERBOSE] = RC_OPTION_VERBOSE,
    [BACKEND] = {"backend", RC_OPTION_TEXT, RC_BACKENDS, "cpu", "what to compute on", 0, 0},
    [PRECISION] = RC_OPTION_PRECISION,
    [DEVICE_MEMORY] = RC_OPTION_DEVICE_MEMORY,
    [MAX_MEMORY] = RC_OPTION_MAX_MEMORY,
    [THREADS] = RC_OPTION_THREADS,
};

/* The result and its arrays, (classes) each. */
typedef struct outcome {
    const recollect_model *model;
    int classes;
    bool beside; /* there are real images */
    recollect_dream_result result;
} outcome;

enum { NAME_SIZE = 81 }; /* longer names are cut */

static const char *class_name(const outcome *o, int label, int width, char name[NAME_SIZE])
{
    return rc_column(recollect_model_class_name(o->model, label), width, name, NAME_SIZE);
}

/* " 97 %", the mean of those that there are; blanks: there are none. */
enum { MEAN_SIZE = 16 };
static const char *mean_text(const float *probability, int count, char text[MEAN_SIZE])
{
    double sum = 0;
    int there = 0;
    for (int i = 0; i < count; i++)
        if (!isnan(probability[i])) {
            sum += (double)probability[i];
            there++;
        }
    if (there == 0)
        snprintf(text, MEAN_SIZE, "%5s", "");
    else
        snprintf(text, MEAN_SIZE, "%3.0f %%", 100 * sum / there);
    return text;
}

/* How many the model takes for each class, and how sure it is of them, a line for each. */
static void print_dreams(const outcome *o)
{
    static const char bar[] = "####################"; /* as long as 80 columns allow */
    char name[NAME_SIZE], sure[MEAN_SIZE], real[MEAN_SIZE];
    rc_print("%d dreams after %d steps of inversion, and what the model takes them for:", o->result.dreams,
             o->result.steps);
    rc_print("                                 share    sure%s", o->beside ? "  real" : "");
    for (int label = 0; label < o->classes; label++) {
        double share = o->result.taken[label] / (double)o->result.dreams;
        const float *dreams = o->result.probabilities + (size_t)label * (size_t)o->result.per_class;
        const float *images = o->result.real_probabilities + (size_t)label * RECOLLECT_REAL_IMAGES;
        rc_print("  %3d  %s %5.1f %%   %s%s%s  %.*s", label + 1, class_name(o, label, 24, name), 100 * share,
                 mean_text(dreams, o->result.per_class, sure), o->beside ? " " : "",
                 o->beside ? mean_text(images, RECOLLECT_REAL_IMAGES, real) : "",
                 (int)(share * (double)(sizeof bar - 1) + 0.5), bar);
    }
}

/* Where the pictures are. */
static void print_places(const outcome *o, const char *folder)
{
    if (o->result.sheets > 1)
        rc_print("%s/all.png to %s/all-%d.png have a row for each class in this order, %s/NN-NAME.png all dreams of a "
                 "class",
                 folder, folder, o->result.sheets, folder);
    else
        rc_print("%s/all.png has a row for each class in this order, %s/NN-NAME.png all dreams of a class", folder,
                 folder);
    rc_print("sure: the mean probability that the model gives to the class of these dreams%s",
             o->beside ? "; real: to the class of the real images beside them" : "");
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

/* The arrays of the result; false: out of memory. */
static bool make_room(outcome *o, int per_class)
{
    recollect_dream_result *r = &o->result;
    size_t classes = (size_t)o->classes, images = classes * RECOLLECT_REAL_IMAGES;
    *r = (recollect_dream_result){.size = sizeof *r};
    r->taken = calloc(classes, sizeof *r->taken);
    r->spread = calloc(classes, sizeof *r->spread);
    r->probabilities = calloc(classes * (size_t)per_class, sizeof *r->probabilities);
    r->real_probabilities = calloc(images, sizeof *r->real_probabilities);
    r->real_taken = calloc(images, sizeof *r->real_taken);
    return r->taken != NULL && r->spread != NULL && r->probabilities != NULL && r->real_probabilities != NULL &&
           r->real_taken != NULL;
}

static void free_room(outcome *o)
{
    free(o->result.taken);
    free(o->result.spread);
    free(o->result.probabilities);
    free(o->result.real_probabilities);
    free(o->result.real_taken);
}

/* What was dreamt, in text or as JSON. Returns the exit code. */
static int tell(const outcome *o, const char *folder, bool json)
{
    recollect_status status = RECOLLECT_OK;
    if (json) {
        status = recollect_describe_dreams(o->model, &o->result, folder, rc_print_json, NULL);
    } else {
        print_dreams(o);
        print_places(o, folder);
    }
    warn(o);
    return status == RECOLLECT_OK ? RC_EXIT_DONE : rc_failed(rc_command_dream.name, status);
}

static int dream(recollect_model *model, const rc_option_value *value)
{
    const char *folder = value[OUT].text, *self = rc_command_dream.name;
    const recollect_dream_settings settings = {.size = sizeof settings,
                                               .per_class = (int)value[PER_CLASS].integer,
                                               .steps = (int)value[STEPS].integer,
                                               .seed = value[SEED].text,
                                               .scale = (int)value[SCALE].integer,
                                               .overwrite = value[FORCE].given,
                                               .beside = value[BESIDE].text};
    outcome o = {.model = model, .classes = recollect_model_classes(model), .beside = value[BESIDE].given};
    int code = RC_EXIT_FAILED;
    if (make_room(&o, settings.per_class)) {
        recollect_status status = recollect_dream_folder(model, folder, &settings, &o.result);
        code = status == RECOLLECT_OK ? tell(&o, folder, value[JSON].given) : rc_failed(self, status);
    } else {
        rc_complain("%s: out of memory", self);
    }
    free_room(&o);
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
    if (value[BESIDE].given && value[BESIDE].text[0] == '\0')
        return rc_wrong_usage(self, "which real images? --beside DATA says it");
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
    .details =
        "Trains a generator against the model, as a lesson of the whole net does, and draws images until there are\n"
        "enough of every class. all.png has a row for each class, with the probability that the model\n"
        "gives to it below each image. --beside adds real images of a folder of class folders, or of any\n"
        "data set that 'run' reads, at most 8 of each class. The same seed gives the same dreams. Warns if\n"
        "classes are missing, or if the dreams of a class are all alike.",
    .examples = "  recollect dream animals.safetensors\n"
                "  recollect dream animals.safetensors --beside animals/\n"
                "  recollect dream animals.safetensors --out night --per-class 64 --steps 2000",
    .option = options,
    .options = OPTIONS,
    .run = run,
};
