/* recollect learn: teaches classes to a model. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/handle.h"
#include "cli/saving.h"
#include "cli/verdict.h"

enum {
    OUT,
    METHOD,
    ADAPT,
    EPOCHS,
    SEED,
    NET,
    SIZE,
    SET,
    PRESET,
    FORMAT,
    OLD_TEST,
    MERGE,
    JSON,
    STRICT,
    RESUME,
    CHECKPOINT,
    VERBOSE,
    FORCE,
    SKIP_BROKEN,
    BACKEND,
    PRECISION,
    DEVICE_MEMORY,
    MAX_MEMORY,
    THREADS,
    OPTIONS
};

static const rc_option options[OPTIONS] = {
    [OUT] = {"out", RC_OPTION_OUTPUT, "FILE", NULL, "where the model goes (required)", 0, 0},
    [METHOD] = {"method", RC_OPTION_TEXT, "NAME", NULL,
                "how to learn ('recollect methods' explains); the model's own (cwd+ after cwd), else cwd", 0, 0},
    [ADAPT] = {"adapt", RC_OPTION_TEXT, "head|top|all", NULL,
               "what learns: rows of the head, the last stage, too, or all; chosen by the model", 0, 0},
    [EPOCHS] = {"epochs", RC_OPTION_INTEGER, "N", NULL, "exact passes over the images, refinement included", 1, 100000},
    [SEED] = {"seed", RC_OPTION_INTEGER, "N", NULL, "seed of every random number; the model's own, else 1", 0,
              INT64_MAX},
    [NET] = {"net", RC_OPTION_TEXT, "NAME", NULL, "net of a first model; chosen by the size of its images", 0, 0},
    [SIZE] = {"size", RC_OPTION_INTEGER, "N", NULL, "side of a first model's images in pixels; else 32 at most", 1,
              1024},
    [SET] = {"set", RC_OPTION_LIST, "KEY=VALUE", NULL, "change a setting; any number of times", 0, 0},
    [PRESET] = {"preset", RC_OPTION_TEXT, "NAME", NULL, "settings of a first model: a preset or a YAML file", 0, 0},
    [FORMAT] = {"format", RC_OPTION_TEXT, "NAME", NULL, "format of the data, if it is not recognised", 0, 0},
    [OLD_TEST] = {"old-test", RC_OPTION_TEXT, "DATA", NULL, "score these images of old classes before and after", 0, 0},
    [MERGE] = {"merge", RC_OPTION_FLAG, NULL, NULL, "add images of known classes to these classes, beside new ones", 0,
               0},
    [JSON] = {"json", RC_OPTION_FLAG, NULL, NULL, "print the result as JSON", 0, 0},
    [STRICT] = {"strict", RC_OPTION_FLAG, NULL, NULL, "exit with 3 if there are warnings; FILE is written all the same",
                0, 0},
    [RESUME] = {"resume", RC_OPTION_FLAG, NULL, NULL, "go on with a lesson that was stopped, from FILE.part", 0, 0},
    [CHECKPOINT] = {"checkpoint", RC_OPTION_TEXT, "SECONDS", "60",
                    "time between writes of FILE.part; 0: as often as it can", 0, 0},
    [VERBOSE] = RC_OPTION_VERBOSE,
    [FORCE] = {"force", RC_OPTION_FLAG, NULL, NULL, "replace FILE if it exists", 0, 0},
    [SKIP_BROKEN] = {"skip-broken", RC_OPTION_FLAG, NULL, NULL, "leave out images that cannot be read", 0, 0},
    [BACKEND] = {"backend", RC_OPTION_TEXT, RC_BACKENDS, "cpu", "what to compute on", 0, 0},
    [PRECISION] = RC_OPTION_PRECISION,
    [DEVICE_MEMORY] = RC_OPTION_DEVICE_MEMORY,
    [MAX_MEMORY] = RC_OPTION_MAX_MEMORY,
    [THREADS] = RC_OPTION_THREADS,
};

/* An option of the model that learns. */
typedef struct setting {
    char name[64];
    const char *value;
} setting;

enum { MOST_SETTINGS = RC_MAX_REPEATS + OPTIONS };

/* Options that are settings of the library. */
static const struct {
    int option;
    const char *setting;
} own[] = {
    {METHOD, "method"}, {ADAPT, "adapt"}, {PRESET, "preset"}, {FORMAT, "format"}, {OLD_TEST, "old_test"},
    {EPOCHS, "epochs"}, {SEED, "seed"},   {NET, "net"},       {SIZE, "size"},     {CHECKPOINT, "checkpoint_seconds"}};

/* "NAME=VALUE" of --set. False after a complaint: it is something else, or sets what an option has set. */
static bool read_pair(const rc_option_value *value, const char *pair, setting *s)
{
    const char *equals = strchr(pair, '=');
    if (equals == NULL || equals == pair || (size_t)(equals - pair) >= sizeof s->name) {
        rc_wrong_usage(&rc_command_learn, "'%s' sets nothing, expected key=value", pair);
        return false;
    }
    snprintf(s->name, sizeof s->name, "%.*s", (int)(equals - pair), pair);
    s->value = equals + 1;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (value[own[i].option].given && strcmp(own[i].setting, s->name) == 0) {
            rc_wrong_usage(&rc_command_learn, "--%s and --set %s: which one?", options[own[i].option].name, s->name);
            return false;
        }
    return true;
}

/* What the command line sets, in the order in which it counts. Returns how many settings there are; -1: wrong usage. */
static int collect_settings(const rc_option_value *value, setting settings[MOST_SETTINGS])
{
    int count = 0;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (value[own[i].option].given) {
            snprintf(settings[count].name, sizeof settings[count].name, "%s", own[i].setting);
            settings[count++].value = value[own[i].option].text;
        }
    for (int i = 0; i < value[SET].repeats; i++)
        if (!read_pair(value, value[SET].each[i], &settings[count++]))
            return -1;
    return count;
}

/* Do these settings exist, and do they take these values? (Whether they suit the model is found out when it is
 * loaded.) */
static recollect_status check_settings(const setting *settings, int count)
{
    recollect_status status = RECOLLECT_OK;
    for (int i = 0; status == RECOLLECT_OK && i < count; i++)
        status = recollect_check_option(settings[i].name, settings[i].value);
    return status;
}

/* Beside the file of the new model, so that it lies on the same disk. */
static recollect_status set_checkpoint(recollect_model *model, const char *out)
{
    char path[4096];
    int length = snprintf(path, sizeof path, "%s.part", out);
    return length < (int)sizeof path ? recollect_model_set(model, "checkpoint", path) : RECOLLECT_OK;
}

static recollect_status apply_settings(recollect_model *model, const setting *settings, int count,
                                       const rc_option_value *value)
{
    recollect_status status = recollect_model_set(model, "merge", value[MERGE].given ? "true" : "false");
    if (status == RECOLLECT_OK)
        status = recollect_model_set(model, "skip_broken", value[SKIP_BROKEN].given ? "true" : "false");
    if (status == RECOLLECT_OK)
        status = recollect_model_set(model, "resume", value[RESUME].given ? "true" : "false");
    if (status == RECOLLECT_OK)
        status = set_checkpoint(model, value[OUT].text);
    for (int i = 0; status == RECOLLECT_OK && i < count; i++)
        status = recollect_model_set(model, settings[i].name, settings[i].value);
    return status;
}

/* Is it a file that is named like a model? */
static bool is_model(const char *path)
{
    static const char ending[] = ".safetensors";
    struct stat what;
    size_t length = strlen(path), tail = sizeof ending - 1;
    return length > tail && strcmp(path + length - tail, ending) == 0 && stat(path, &what) == 0 &&
           S_ISREG(what.st_mode);
}

static void print_text(const recollect_learn_result *r, const char *out)
{
    char interval[2][RC_INTERVAL_SIZE], time[32];
    if (r->seconds < 1)
        snprintf(time, sizeof time, "less than 1 s");
    else
        snprintf(time, sizeof time, "%.0f s", r->seconds);
    rc_print("%s: %d class%s, %d of them new, from %d image%s in %s", out, r->known + r->added,
             r->known + r->added == 1 ? "" : "es", r->added, r->images, r->images == 1 ? "" : "s", time);
    if (r->merged > 0)
        rc_print("images of %d known class%s were trained beside the new ones", r->merged, r->merged > 1 ? "es" : "");
    if (r->held_out == 0)
        rc_print("nothing was scored: a tenth of a class is, from 5 images on, or val/");
    else
        rc_print("accuracy on %d held-out image%s of %s: %.1f %% (95 %% interval: %s)", r->held_out,
                 r->held_out == 1 ? "" : "s", r->merged > 0 ? "the folder's classes" : "the new classes", r->accuracy,
                 rc_interval_text(r->accuracy, r->held_out, interval[0]));
    if (r->old_images > 0)
        rc_print("accuracy on %d image%s of old classes: %.1f %% before (%s), %.1f %% after (%s)", r->old_images,
                 r->old_images == 1 ? "" : "s", r->old_before,
                 rc_interval_text(r->old_before, r->old_images, interval[0]), r->old_after,
                 rc_interval_text(r->old_after, r->old_images, interval[1]));
    else if (r->known > 0)
        rc_print("old classes were not scored: --old-test DATA does that, 'recollect eval' at any time");
}

/* Saves the model and prints the result. What was learnt must not be lost, even if the disk is full by now, or gone,
 * or another process has made the file. */
static int save(const recollect_model *model, const recollect_learn_result *result, rc_advice *advice)
{
    const rc_option_value *value = advice->value;
    const recollect_review *review = recollect_model_review(model);
    const char *self = rc_command_learn.name, *out = value[OUT].text;
    recollect_status saved = recollect_model_save(model, out, value[FORCE].given);
    if (saved != RECOLLECT_OK)
        rc_failed(self, saved);
    if (saved != RECOLLECT_OK && saved != RECOLLECT_UNSYNCED) {
        rc_save_elsewhere(self, model, out);
        return RC_EXIT_FAILED;
    }
    rc_advice_begin(advice, model, result);
    if (!value[JSON].given) {
        rc_print_verdict(review);
        print_text(result, out);
        rc_tell_warnings(review, advice, rc_print);
    } else if (recollect_describe_learning(model, result, out, rc_advise, rc_print_json, advice) != RECOLLECT_OK) {
        rc_complain("%s: the model was saved as '%s', but cannot be described: %s", self, out,
                    recollect_last_message());
        return RC_EXIT_FAILED;
    }
    /* A model that is not synced is in its place; only the exit code says that not all is well. */
    return rc_strict_code(&rc_command_learn, review, value[STRICT].given,
                          saved == RECOLLECT_OK ? RC_EXIT_DONE : RC_EXIT_FAILED);
}

static int learn(recollect_model *model, const setting *settings, int count, rc_advice *advice)
{
    recollect_learn_result result = {.size = sizeof result};
    recollect_status status = apply_settings(model, settings, count, advice->value);
    advice->known = recollect_model_classes(model);
    if (status == RECOLLECT_OK)
        status = recollect_learn_folder(model, advice->data, &result);
    if (status == RECOLLECT_OK)
        return save(model, &result, advice);
    int code = rc_failed(rc_command_learn.name, status);
    if (status == RECOLLECT_CANCELLED && strstr(recollect_last_message(), "'resume'") != NULL)
        rc_note("continue with: %s", rc_advise_resume(advice));
    if (status == RECOLLECT_OUT_OF_MEMORY)
        rc_note("Smaller images (--size, of a first model) or batches (--set batch=N) take less memory.");
    return code;
}

static int run(const rc_option_value *value, int count, char **arguments)
{
    const rc_command *self = &rc_command_learn;
    if (count < 1)
        return rc_wrong_usage(self, "from which folder?");
    if (count > 2)
        return rc_wrong_usage(self,
                              "unexpected argument '%s': learn takes one folder, which holds the folders of all new "
                              "classes (animals/, not animals/*)",
                              arguments[2]);
    if (value[OUT].text == NULL || value[OUT].text[0] == '\0')
        return rc_wrong_usage(self, "where does the new model go? --out FILE says so");
    if (value[CHECKPOINT].text[0] == '\0') /* in the library that means the usual time */
        return rc_wrong_usage(self, "option '--checkpoint' is '', expected seconds from 0 to 86400");
    if (count == 1 && is_model(arguments[0]))
        return rc_wrong_usage(self, "'%s' is a model; which folder shall it learn from?", arguments[0]);
    if (count == 1 && value[OLD_TEST].given)
        return rc_wrong_usage(self, "--old-test scores classes that a model knows: which model shall learn?");
    const char *input = count == 2 ? arguments[0] : NULL;
    setting settings[MOST_SETTINGS];
    int set = collect_settings(value, settings);
    if (set < 0)
        return RC_EXIT_USAGE;
    recollect_status status = check_settings(settings, set);
    if (status != RECOLLECT_OK)
        return rc_wrong_settings(self, status);
    if (!rc_saving_possible(self->name, value[OUT].text, input, value[FORCE].given)) /* before the work, not after it */
        return RC_EXIT_FAILED;
    rc_handle_settings opening = {.command = self->name,
                                  .backend = rc_backend_name(&value[BACKEND]),
                                  .threads = (int)value[THREADS].integer,
                                  .max_memory = &value[MAX_MEMORY],
                                  .log_level = RECOLLECT_LOG_INFO};
    recollect_model *model = rc_handle_open(&opening, input);
    if (model == NULL)
        return RC_EXIT_FAILED;
    rc_progress_verbose(value[VERBOSE].given);
    rc_catch_interrupts();
    rc_outlive_readers();
    rc_advice advice = {
        .command = self, .value = value, .model = input, .data = arguments[count - 1], .out = value[OUT].text};
    int code = learn(model, settings, set, &advice);
    recollect_model_destroy(&model);
    return code;
}

const rc_command rc_command_learn = {
    .name = "learn",
    .summary = "Teaches new classes to a model, without the images of the old ones.",
    .arguments = "[MODEL] FOLDER --out FILE",
    .details =
        "FOLDER holds one folder of images for each new class, named like the class, or such folders in train/\n"
        "and val/; a table of paths and classes (photos.csv) and any data set that 'run' reads will do. Without\n"
        "MODEL, learn trains a first model. It never writes MODEL. It holds out a tenth of each class, or val/, and\n"
        "scores it at the end. It chooses the size of images and the number of steps, and says why; what --size and\n"
        "--epochs say is exact. If it is interrupted, it exits with 130, and FILE.part holds how far it was; the\n"
        "same command with --resume goes on from there. share/doc/recollect/docs/learn.md says more.",
    .examples = "  recollect learn animals/ --out animals.safetensors\n"
                "  recollect learn animals.safetensors birds/ --out more.safetensors\n"
                "  recollect learn more.safetensors fish/ --out all.safetensors --old-test animals/",
    .option = options,
    .options = OPTIONS,
    .run = run,
};
