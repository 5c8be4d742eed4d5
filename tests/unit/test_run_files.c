/* Files that a run refuses to go on with, because they are of another one or broken: every message, word for word. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/memory.h"
#include "model/model_file.h"
#include "support/craft.h"
#include "support/small_run.h"
#include "support/succeeds.h"

static small_run run;

static void assert_same_file(const char *one, const char *other)
{
    char *left, *right;
    size_t left_size, right_size;
    SUCCEEDS(rc_file_read(one, 1 << 24, &left, &left_size));
    SUCCEEDS(rc_file_read(other, 1 << 24, &right, &right_size));
    assert_int_equal(left_size, right_size);
    assert_memory_equal(left, right, left_size);
    rc_free(NULL, left);
    rc_free(NULL, right);
}

/* A change of a file that stops a run which goes on: a metadata string of a file of tensors, or a piece of a text;
 * `key` NULL: all of it. */
typedef struct damage {
    const char *file, *key, *value, *message; /* that follows the path */
    rc_status status;
} damage;

static void do_damage(const damage *d, const char *path)
{
    char *text;
    size_t size;
    if (d->key == NULL) {
        data_write_text(path, d->value);
    } else if (strstr(path, ".safetensors") != NULL) {
        craft file;
        craft_read(path, &file);
        assert_true(craft_metadata(&file, d->key, d->value));
        craft_write(&file, path);
        craft_free(&file);
    } else {
        static char changed[1 << 16];
        SUCCEEDS(rc_file_read(path, sizeof changed / 2, &text, &size));
        const char *at = strstr(text, d->key);
        assert_non_null(at);
        snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, d->value, at + strlen(d->key));
        rc_free(NULL, text);
        data_write_text(path, changed);
    }
}

/* The run `out` stopped in the training of its second task. */
#define ANEW "without this file the setting 'resume' begins task 2 anew"
static const damage damages[] = {
    {"results.json", "method=cwd", "method=cwx",
     " belongs to another run, with another method: bring that of this run back, or remove it, and its tasks are done "
     "anew",
     RC_INVALID_ARGUMENT},
    {"results.json", "\"tasks_done\": 1", "\"tasks_done\": 3", ": these are not results of this run of cwd", RC_FORMAT},
    {"results.json", NULL, "{}",
     " does not say which run it belongs to: bring that of this run back, or remove it, and its tasks are done anew",
     RC_INVALID_ARGUMENT},
    {"task-1.safetensors", "fingerprint", "method=er data=1",
     " belongs to another run, with another method, other settings, other data, another order of classes or tasks: "
     "bring that of this run back, or begin another run with another setting 'out'",
     RC_INVALID_ARGUMENT},
    {"task-1.safetensors", "fingerprint", NULL,
     " does not say which run it belongs to: bring that of this run back, or begin another run with another setting "
     "'out'",
     RC_INVALID_ARGUMENT},
    {"task-1.safetensors", NULL, "a song",
     ": not a safetensors file, or cut off: its header length is wrong; bring that of this run back, or begin another "
     "run with another setting 'out'",
     RC_FORMAT},
    {"task-1.safetensors", "image", "[16,16,3]",
     " is a model of images of 16 x 16 x 3, but the data of the run has 14 x 14 x 3", RC_FORMAT},
    {"events.jsonl", NULL, "a diary\n", " is not the log of a run: remove it, and the log begins anew", RC_FORMAT},
    {"events.jsonl", "method=cwd", "method=cwx",
     " belongs to another run, with another method: remove it, and the log begins anew", RC_INVALID_ARGUMENT},
    {"checkpoint.safetensors", NULL, "a song",
     ": not a safetensors file, or cut off: its header length is wrong; " ANEW, RC_FORMAT},
    {"checkpoint.safetensors", "fingerprint", "method=er",
     " belongs to another run, with another method, other settings, other data, another order of classes or "
     "tasks: " ANEW,
     RC_INVALID_ARGUMENT},
    {"checkpoint.safetensors", "format", "an old one",
     " is not a checkpoint of this version (recollect-checkpoint-1); " ANEW, RC_FORMAT},
    {"checkpoint.safetensors", "task", "3", " is of task 4, but the results end before task 2", RC_FORMAT},
    {"checkpoint.safetensors", "task", "0.5", ": the checkpoint says task '0.5', expected a whole number; " ANEW,
     RC_FORMAT},
    {"checkpoint.safetensors", "task", NULL,
     ": the checkpoint says task 'nothing', expected a number from 0 to 255; " ANEW, RC_FORMAT},
    {"checkpoint.safetensors", "stage", "singing", ": the checkpoint names a stage that does not exist; " ANEW,
     RC_FORMAT},
    {"checkpoint.safetensors", "stage", "inversion", ": tensor 'adam.first' is missing", RC_FORMAT},
    {"checkpoint.safetensors", "step", "9", " is at step 9 of training, which has 4; " ANEW, RC_FORMAT},
    {"checkpoint.safetensors", "step", "4294967296",
     ": the checkpoint says step '4294967296', expected a number from 0 to 4.29497e+09; " ANEW, RC_FORMAT},
    {"checkpoint.safetensors", "seconds", "-1",
     ": the checkpoint says seconds '-1', expected a number from 0 to 1e+12; " ANEW, RC_FORMAT},
    {"checkpoint.safetensors", "log_offset", "7e",
     ": the checkpoint says log_offset '7e', expected a number from 0 to 1e+15; " ANEW, RC_FORMAT},
    {"checkpoint.safetensors", "log_offset", "1e16",
     ": the checkpoint says log_offset '1e16', expected a number from 0 to 1e+15; " ANEW, RC_FORMAT},
    {"checkpoint.safetensors", "training_seconds", "2e12",
     ": the checkpoint says training_seconds '2e12', expected a number from 0 to 1e+12; " ANEW, RC_FORMAT},
};

static void files_that_do_not_fit_are_named(void **state)
{
    (void)state;
    small_run_start_one(&run, "out", "cwd");
    run.stop_at = "CwD, task 2 of 2: training 2 2/4 0/2";
    assert_int_equal(rc_experiment_run(&run.settings), RC_CANCELLED);
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        char path[64], message[512], *before, *log;
        size_t size, log_size;
        snprintf(path, sizeof path, "out/cwd/%s", damages[i].file);
        SUCCEEDS(rc_file_read(path, 1 << 24, &before, &size));
        SUCCEEDS(rc_file_read("out/cwd/events.jsonl", 1 << 24, &log, &log_size));
        do_damage(&damages[i], path);
        small_run_start_one(&run, "out", "cwd");
        run.settings.resume = true;
        snprintf(message, sizeof message, "%s%s", path, damages[i].message);
        REFUSED(rc_experiment_run(&run.settings), damages[i].status, message);
        data_write("out/cwd/events.jsonl", log, log_size);
        data_write(path, before, size);
        rc_free(NULL, before);
        rc_free(NULL, log);
    }
    small_run_start_one(&run, "out", "cwd");
    run.settings.resume = true;
    small_run_do(&run);
}

static void replace_file(const char *path, const char *with)
{
    char *bytes;
    size_t size;
    SUCCEEDS(rc_file_read(with, 1 << 24, &bytes, &size));
    data_write(path, bytes, size);
    rc_free(NULL, bytes);
}

/* A model that claims to be of this run has to fit it all the same. */
static void models_that_do_not_fit_are_named(void **state)
{
    (void)state;
    craft model;
    char message[512];
    const char *path = "out/cwd/task-1.safetensors";
    rc_saved_model saved;
    rc_backend *backend;
    small_run_start_one(&run, "out", "cwd");
    small_run_do(&run);
    const damage early = {"task-1.safetensors", "fingerprint", NULL, "", RC_INVALID_ARGUMENT};
    do_damage(&early, path);
    run.settings.resume = true;
    REFUSED(
        rc_experiment_run(&run.settings), RC_INVALID_ARGUMENT,
        "out/cwd/task-1.safetensors does not say which run it belongs to: bring that of this run back, or remove it");
    assert_int_equal(unlink(path), 0); /* nobody reads it any more */
    small_run_do(&run);
    small_run_start_one(&run, "again", "cwd");
    run.settings.stop_after = 1;
    small_run_do(&run);
    path = "again/cwd/task-1.safetensors";
    run.settings.stop_after = 0;
    run.settings.resume = true;
    SUCCEEDS(rc_backend_open("cpu", 1, NULL, &backend));
    SUCCEEDS(rc_model_file_load(path, backend, &saved));
    craft_read(path, &model);
    float *mean = saved.learner.augment.mean, *std = saved.learner.augment.std;
    char other[2][96];
    snprintf(other[0], sizeof other[0], "[%.9g,0.5,%.9g]", (double)mean[0], (double)mean[2]);
    snprintf(other[1], sizeof other[1], "[%.9g,%.9g,0.75]", (double)std[0], (double)std[1]);
    for (int i = 0; i < 2; i++) {
        craft changed = craft_copy(&model);
        int c = i + 1;
        assert_true(craft_metadata(&changed, i == 0 ? "mean" : "std", other[i]));
        craft_write(&changed, path);
        craft_free(&changed);
        snprintf(
            message, sizeof message,
            "%s has mean %g and deviation %g for channel %d, but the data of the run has %g and %g: bring the model of "
            "this run back, or begin another run with another setting 'out'",
            path, i == 0 ? 0.5 : (double)mean[c], i == 0 ? (double)std[c] : 0.75, c, (double)mean[c], (double)std[c]);
        REFUSED(rc_experiment_run(&run.settings), RC_FORMAT, message);
    }
    replace_file(path, "out/cwd/task-2.safetensors");
    REFUSED(rc_experiment_run(&run.settings), RC_FORMAT,
            "again/cwd/task-1.safetensors is a model of 2 tasks with 4 classes, expected 1 with 2: bring that of this "
            "run back, "
            "or begin another run with another setting 'out'");
    craft_write(&model, path);
    craft_free(&model);
    rc_saved_model_destroy(&saved);
    rc_backend_close(backend);
    small_run_do(&run);
    assert_same_file("again/cwd/task-2.safetensors", "out/cwd/task-2.safetensors");
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, small_run_enter, data_leave_folder)
    const struct CMUnitTest tests[] = {
        IN_FOLDER(files_that_do_not_fit_are_named),
        IN_FOLDER(models_that_do_not_fit_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
