/* recollect learn: teaches classes to a model. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "api/describe_methods.h"
#include "api/learn.h"
#include "cli/cli.h"
#include "cli/model.h"
#include "model/saving.h"

enum {
    OUT,
    METHOD,
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
    [OUT] = {"out", RC_OPTION_TEXT, "FILE", NULL, "where the model goes (required)", 0, 0},
    [METHOD] = {"method", RC_OPTION_TEXT, "NAME", NULL,
                "cwd, rdfcil or finetune; as the model was made, else cwd", 0, 0},
    [EPOCHS] = {"epochs", RC_OPTION_INTEGER, "N", NULL, "passes over the images, refinement included", 1,
                100000},
    [SEED] = {"seed", RC_OPTION_INTEGER, "N", NULL, "of every random number; as the model was made, else 1",
              0, INT64_MAX},
    [NET] = {"net", RC_OPTION_TEXT, "NAME", NULL, "of a first model; by the size of the images", 0, 0},
    [SIZE] = {"size", RC_OPTION_INTEGER, "N", NULL,
              "pixels of a first model's images; by what is in the folder", 1, 1024},
    [SET] = {"set", RC_OPTION_LIST, "KEY=VALUE", NULL, "change a setting; any number of times", 0, 0},
    [PRESET] = {"preset", RC_OPTION_TEXT, "NAME", NULL, "settings of a first model: a preset or a YAML file",
                0, 0},
    [FORMAT] = {"format", RC_OPTION_TEXT, "NAME", NULL, "of the data, where it is not recognised", 0, 0},
    [OLD_TEST] = {"old-test", RC_OPTION_TEXT, "DATA", NULL,
                  "score these images of old classes before and after", 0, 0},
    [MERGE] = {"merge", RC_OPTION_FLAG, NULL, NULL,
               "add images of known classes to those, beside the new ones", 0, 0},
    [JSON] = {"json", RC_OPTION_FLAG, NULL, NULL, "print the result as JSON", 0, 0},
    [FORCE] = {"force", RC_OPTION_FLAG, NULL, NULL, "replace FILE if it is there", 0, 0},
    [SKIP_BROKEN] = {"skip-broken", RC_OPTION_FLAG, NULL, NULL, "leave out images that cannot be read", 0, 0},
    [BACKEND] = {"backend", RC_OPTION_TEXT, "cpu|reference|cuda", "cpu", "what to compute on", 0, 0},
    [PRECISION] = RC_OPTION_PRECISION,
    [DEVICE_MEMORY] = RC_OPTION_DEVICE_MEMORY,
    [MAX_MEMORY] = RC_OPTION_MAX_MEMORY,
    [THREADS] = {"threads", RC_OPTION_INTEGER, "N", "0", "threads to use; 0: all cores", 0, 1024},
};

/* --epochs and the like are settings that have an option of their own. */
static int collect_settings(const rc_option_value *value, const char **set, char texts[][96])
{
    static const struct {
        int option;
        const char *key;
    } own[] = {{EPOCHS, "epochs"}, {SEED, "seed"}, {NET, "net"}, {SIZE, "size"}};
    int sets = 0;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        if (value[own[i].option].given) {
            snprintf(texts[sets], sizeof texts[sets], "%s=%s", own[i].key, value[own[i].option].text);
            set[sets] = texts[sets];
            sets++;
        }
    }
    for (int i = 0; i < value[SET].repeats; i++)
        set[sets++] = value[SET].each[i];
    return sets;
}

/* Are method, preset and settings such that there are? (Whether they suit the model is found out with it.) */
static rc_status check_settings(const rc_learn_settings *settings)
{
    const rc_method *method;
    rc_config config = rc_config_default();
    if (settings->method != NULL)
        RC_TRY(rc_method_choose(settings->method, &method));
    if (settings->preset != NULL)
        RC_TRY(rc_config_load(&config, settings->preset, NULL));
    for (int i = 0; i < settings->sets; i++)
        RC_TRY(rc_config_set_pair(&config, settings->set[i]));
    return RC_OK;
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

static void print_text(const rc_learn_result *r, const char *out)
{
    rc_print("%s: %d class%s, %d of them new, from %d images in %.0f s", out, r->known + r->added,
             r->known + r->added == 1 ? "" : "es", r->added, r->images, r->seconds);
    if (r->merged > 0)
        rc_print("images of %d known class%s were trained beside the new ones", r->merged,
                 r->merged > 1 ? "es" : "");
    if (r->broken > 0)
        rc_print("%d images could not be read and were left out", r->broken);
    if (r->held_out == 0)
        rc_print("no image was held out, so nothing is scored: a tenth of a class is, from 5 images on, or val/");
    else
        rc_print("accuracy on %d held-out images of %s: %.1f %%", r->held_out,
                 r->merged > 0 ? "the folder's classes" : "the new classes", r->accuracy);
    if (r->old_images > 0)
        rc_print("accuracy on %d images of old classes: %.1f %% before, %.1f %% after", r->old_images,
                 r->old_before, r->old_after);
    else if (r->known > 0)
        rc_print("old classes were not scored: --old-test DATA does that, 'recollect eval' at any time");
}

/* The disk is full after all, or gone, or somebody else has made the file: what was learnt must not be lost with it. */
static void save_elsewhere(const rc_saved_model *model, const char *out)
{
    char path[RC_SAVED_PATH];
    rc_status status = rc_saving_elsewhere(model, out, path);
    if (path[0] != '\0')
        rc_complain("learn: the model was saved as '%s' instead", path);
    if (status != RC_OK)
        rc_complain("learn: %s%s", path[0] == '\0' ? "nor could the model be saved elsewhere: " : "", rc_message());
}

static int learn(rc_open_model *open, const rc_learn_settings *settings, const char *out, bool force, bool json)
{
    rc_learn_result result;
    bool unsynced = false;
    rc_status status = rc_learn(&open->model, open->backend, settings, &result);
    if (status == RC_OK) {
        status = rc_model_file_save(out, &open->model, force);
        if (status != RC_OK)
            rc_complain("learn: %s", rc_message());
        unsynced = status == RC_UNSYNCED; /* the model is where it belongs: only the code tells that all is not well */
        if (status != RC_OK && !unsynced) {
            save_elsewhere(&open->model, out);
            return RC_EXIT_FAILED;
        }
        status = RC_OK;
    }
    if (status == RC_OK && json && rc_learn_json(&open->model, &result, out, rc_print_json, NULL) != RC_OK) {
        rc_complain("learn: the model was saved as '%s', but cannot be described: %s", out, rc_message());
        return RC_EXIT_FAILED;
    }
    if (status == RC_OK && !json)
        print_text(&result, out);
    if (status != RC_OK)
        rc_complain("learn: %s", rc_message());
    if (status == RC_OUT_OF_MEMORY)
        rc_note("Smaller images (--size, of a first model) or batches (--set batch=N) take less memory.");
    if (status == RC_CANCELLED)
        return RC_EXIT_INTERRUPTED;
    return status == RC_OK && !unsynced ? RC_EXIT_DONE : RC_EXIT_FAILED;
}

static int run(const rc_option_value *value, int count, char **arguments)
{
    const rc_command *self = &rc_command_learn;
    if (count < 1)
        return rc_wrong_usage(self, "from which folder?");
    if (count > 2)
        return rc_wrong_usage(self, "unexpected argument '%s'", arguments[2]);
    if (value[OUT].text == NULL || value[OUT].text[0] == '\0')
        return rc_wrong_usage(self, "where does the new model go? --out FILE says so");
    if (count == 1 && is_model(arguments[0]))
        return rc_wrong_usage(self, "'%s' is a model; which folder shall it learn from?", arguments[0]);
    if (count == 1 && value[OLD_TEST].given)
        return rc_wrong_usage(self, "--old-test scores classes that a model knows: which model shall learn?");
    const char *set[RC_MAX_REPEATS + 4], *input = count == 2 ? arguments[0] : NULL;
    char texts[4][96];
    rc_learn_settings settings = {
        .data = arguments[count - 1],
        .format = value[FORMAT].text,
        .method = value[METHOD].text,
        .preset = value[PRESET].text,
        .old_test = value[OLD_TEST].text,
        .set = set,
        .sets = collect_settings(value, set, texts),
        .merge = value[MERGE].given,
        .skip_broken = value[SKIP_BROKEN].given,
        .threads = (int)value[THREADS].integer,
        .watch = {.log = {.write = rc_note_log, .level = RC_LOG_INFO},
                  .progress = rc_tell_progress,
                  .cancelled = rc_interrupted},
    };
    rc_status status = check_settings(&settings);
    if (status != RC_OK)
        return rc_wrong_settings(self, status, rc_message());
    if (rc_saving_check(value[OUT].text, input, value[FORCE].given) != RC_OK) { /* before the work, not after it */
        rc_complain("learn: %s", rc_message());
        return RC_EXIT_FAILED;
    }
    rc_open_model *open = rc_model_open(self->name, rc_backend_name(&value[BACKEND]),
                                        (int)value[THREADS].integer, &value[MAX_MEMORY], input);
    if (open == NULL)
        return RC_EXIT_FAILED;
    rc_catch_interrupts();
    rc_outlive_readers();
    int code = learn(open, &settings, value[OUT].text, value[FORCE].given, value[JSON].given);
    rc_model_close(open);
    return code;
}

const rc_command rc_command_learn = {
    .name = "learn",
    .summary = "Teaches new classes to a model, without the images of the old ones.",
    .arguments = "[MODEL] FOLDER --out FILE",
    .details =
        "FOLDER holds one folder of images for each new class, named like it (or train/ and val/ of such; any\n"
        "data set that 'run' reads will do). Without MODEL a first model is trained. MODEL is never written.\n"
        "A tenth of each class, or val/, is held out and scored at the end. However few the images, 300 steps or\n"
        "more are trained (min_steps), and 2000 at most, however many, unless --epochs is given.\n"
        "Interrupted, it writes nothing and exits with 130. docs/learn.md tells more.",
    .examples =
        "  recollect learn animals/ --out animals.safetensors\n"
        "  recollect learn animals.safetensors birds/ --out more.safetensors\n"
        "  recollect learn more.safetensors fish/ --out all.safetensors --old-test animals/ --epochs 80",
    .option = options,
    .options = OPTIONS,
    .run = run,
};
