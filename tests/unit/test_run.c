/* What a run tells and logs, to the step; where it stops, and that it goes on from there as if nothing had been; which
 * files of another run it refuses, word for word. */
#include <math.h>
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

static int enter(void **state)
{
    int failed = data_enter_folder(state);
    small_run_pictures();
    return failed;
}

static void assert_text(const char *found, const char *expected)
{
    if (strcmp(found, expected) != 0)
        fail_msg("found:\n%s\nexpected:\n%s", found, expected);
}

static double number_in(const char *path, const char *key, int task)
{
    rc_json *json;
    const rc_json *tasks, *entry = NULL;
    SUCCEEDS(rc_json_load(path, 1 << 20, &json));
    SUCCEEDS(rc_json_get_array(json, "tasks", &tasks));
    for (int i = 0; i < task; i++)
        entry = rc_json_next(tasks, entry);
    double value = rc_json_number(rc_json_member(entry, key));
    rc_json_free(json);
    return value;
}

/* ---- what it tells ---------------------------------------------------------------------------------------------- */

static const char first_events[] = "run All methods (first-task), 1 tasks\n"
                                   "step 1 training 1/4, 0/2, all 1/6\n"
                                   "step 1 training 2/4, 0/2, all 2/6\n"
                                   "step 1 training 3/4, 1/2, all 3/6\n"
                                   "step 1 training 4/4, 1/2, all 4/6\n"
                                   "step 1 estimation 1/2, 0/0, all 5/6\n"
                                   "step 1 estimation 2/2, 0/0, all 6/6\n"
                                   "task 1 of 2 classes\n"
                                   "end done ''\n";
static const char cwd_events[] = "run CwD (cwd), 2 tasks\n"
                                 "task 1 of 2 classes\n"
                                 "step 2 inversion 1/3, 0/0, all 1/13\n"
                                 "step 2 inversion 2/3, 0/0, all 2/13\n"
                                 "step 2 inversion 3/3, 0/0, all 3/13\n"
                                 "dreams 2 task-2-dreams.png after 3: 8\n"
                                 "step 2 training 1/4, 0/2, all 4/13\n"
                                 "step 2 training 2/4, 0/2, all 5/13\n"
                                 "step 2 training 3/4, 1/2, all 6/13\n"
                                 "step 2 training 4/4, 1/2, all 7/13\n"
                                 "step 2 refinement 1/2, 0/1, all 8/13\n"
                                 "step 2 refinement 2/2, 0/1, all 9/13\n"
                                 "step 2 estimation 1/4, 0/0, all 10/13\n"
                                 "step 2 estimation 2/4, 0/0, all 11/13\n"
                                 "step 2 estimation 3/4, 0/0, all 12/13\n"
                                 "step 2 estimation 4/4, 0/0, all 13/13\n"
                                 "task 2 of 4 classes\n"
                                 "end done ''\n";
static const char finetune_events[] = "run Fine-tuning (finetune), 2 tasks\n"
                                      "task 1 of 2 classes\n"
                                      "step 2 training 1/4, 0/2, all 1/4\n"
                                      "step 2 training 2/4, 0/2, all 2/4\n"
                                      "step 2 training 3/4, 1/2, all 3/4\n"
                                      "step 2 training 4/4, 1/2, all 4/4\n"
                                      "task 2 of 4 classes\n"
                                      "end done ''\n";
static const char all_progress[] = "All methods, task 1 of 2: training 1 1/4 0/2\n"
                                   "All methods, task 1 of 2: training 1 2/4 0/2\n"
                                   "All methods, task 1 of 2: training 1 3/4 1/2\n"
                                   "All methods, task 1 of 2: training 1 4/4 1/2\n"
                                   "All methods, task 1 of 2: estimation 1 1/2 0/0\n"
                                   "All methods, task 1 of 2: estimation 1 2/2 0/0\n"
                                   "CwD, task 2 of 2: inversion 2 1/3 0/0\n"
                                   "CwD, task 2 of 2: inversion 2 2/3 0/0\n"
                                   "CwD, task 2 of 2: inversion 2 3/3 0/0\n"
                                   "CwD, task 2 of 2: training 2 1/4 0/2\n"
                                   "CwD, task 2 of 2: training 2 2/4 0/2\n"
                                   "CwD, task 2 of 2: training 2 3/4 1/2\n"
                                   "CwD, task 2 of 2: training 2 4/4 1/2\n"
                                   "CwD, task 2 of 2: refinement 2 1/2 0/1\n"
                                   "CwD, task 2 of 2: refinement 2 2/2 0/1\n"
                                   "CwD, task 2 of 2: estimation 2 1/4 0/0\n"
                                   "CwD, task 2 of 2: estimation 2 2/4 0/0\n"
                                   "CwD, task 2 of 2: estimation 2 3/4 0/0\n"
                                   "CwD, task 2 of 2: estimation 2 4/4 0/0\n"
                                   "Fine-tuning, task 2 of 2: training 2 1/4 0/2\n"
                                   "Fine-tuning, task 2 of 2: training 2 2/4 0/2\n"
                                   "Fine-tuning, task 2 of 2: training 2 3/4 1/2\n"
                                   "Fine-tuning, task 2 of 2: training 2 4/4 1/2\n";

static double last_fraction;

static void watch_pace(small_run *r, const recollect_progress *p)
{
    (void)r;
    assert_true(p->fraction >= last_fraction && p->fraction <= 1);
    last_fraction = p->fraction;
}

static void assert_events(const char *folder, const char *expected)
{
    static page events;
    small_run_events(folder, &events);
    assert_text(events.text, expected);
}

static void a_run_tells_where_it_is(void **state)
{
    (void)state;
    char lines[1024];
    size_t used = 0;
    small_run_start(&run, "out");
    run.seen = watch_pace;
    last_fraction = 0;
    small_run_do(&run);
    assert_events("out/first-task", first_events);
    assert_events("out/cwd", cwd_events);
    assert_events("out/finetune", finetune_events);
    assert_text(run.progress.text, all_progress);
    assert_true(last_fraction == 1);
    static const char *const cell[][2] = {{"All methods", "first-task"}, {"CwD", "cwd"}, {"Fine-tuning", "finetune"}};
    for (int i = 0; i < 3; i++)
        for (int task = 1; task <= (i == 0 ? 1 : 2); task++) {
            char path[64];
            snprintf(path, sizeof path, "out/%s/results.json", cell[i][1]);
            double accuracy = number_in(path, "accuracy", task), first = number_in(path, "accuracy", 1);
            used += (size_t)snprintf(lines + used, sizeof lines - used,
                                     "%s, task %d of 2: accuracy %.2f %% over %d classes, mean so far %.2f %%\n",
                                     cell[i][0], task, accuracy, 2 * task, (first + accuracy) / 2);
        }
    assert_memory_equal(run.results.text, lines, used);
    assert_memory_equal(run.results.text + used, "accuracy in %", 13);
    assert_text(run.log.text, "");
}

/* ---- stopped, and on again -------------------------------------------------------------------------------------- */

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

static void assert_metadata(const char *path, const char *key, const char *value)
{
    rc_safetensors *file;
    SUCCEEDS(rc_safetensors_open_header(path, &file));
    assert_string_equal(rc_safetensors_metadata(file, key), value);
    rc_safetensors_close(file);
}

static void a_run_goes_on_where_it_stopped(void **state)
{
    (void)state;
    static const struct {
        const char *at, *cell, *task, *stage, *step, *words;
    } cases[] = {
        {"All methods, task 1 of 2: training 1 3/4 1/2", "first-task", "0", "training", "3",
         "task 1, training, step 3 of 4"},
        {"CwD, task 2 of 2: inversion 2 2/3 0/0", "cwd", "1", "inversion", "2", "task 2, inversion, step 2 of 3"},
        {"CwD, task 2 of 2: refinement 2 1/2 0/1", "cwd", "1", "refinement", "1", "task 2, refinement, step 1 of 2"},
        {"CwD, task 2 of 2: estimation 2 3/4 0/0", "cwd", "1", "estimation", "0", "task 2, estimation, step 3 of 4"}};
    small_run_start_one(&run, "whole", "cwd");
    small_run_do(&run);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char out[16], path[64], message[160], end[200];
        static page events;
        snprintf(out, sizeof out, "out-%zu", i);
        small_run_start_one(&run, out, "cwd");
        run.stop_at = cases[i].at;
        snprintf(message, sizeof message, "stopped and saved in %s; the setting 'resume' goes on from there",
                 cases[i].words);
        REFUSED(rc_experiment_run(&run.settings), RC_CANCELLED, message);
        snprintf(path, sizeof path, "%s/%s", out, cases[i].cell);
        small_run_events(path, &events);
        snprintf(end, sizeof end, "end stopped '%s'\n", message);
        assert_string_equal(events.text + events.used - strlen(end), end);
        snprintf(path, sizeof path, "%s/%s/checkpoint.safetensors", out, cases[i].cell);
        assert_metadata(path, "task", cases[i].task);
        assert_metadata(path, "stage", cases[i].stage);
        assert_metadata(path, "step", cases[i].step);
        small_run_start_one(&run, out, "cwd");
        run.settings.resume = true;
        small_run_do(&run);
        assert_int_equal(access(path, F_OK), -1);
        assert_text(run.log.text, "");
        snprintf(path, sizeof path, "%s/first-task", out);
        assert_events(path, first_events);
        snprintf(path, sizeof path, "%s/cwd", out);
        assert_events(path, cwd_events);
        snprintf(path, sizeof path, "%s/cwd/task-2.safetensors", out);
        assert_same_file("whole/cwd/task-2.safetensors", path);
    }
}

static bool saved_at_all, saved_before_last;

static void look_for_checkpoint(small_run *r, const recollect_progress *p)
{
    (void)r;
    bool there = access("out/cwd/checkpoint.safetensors", F_OK) == 0;
    saved_at_all = saved_at_all || there;
    if (p->stage == RECOLLECT_STAGE_ESTIMATION && p->step == 4)
        saved_before_last = there;
}

static void a_run_saves_as_often_as_it_is_told(void **state)
{
    (void)state;
    for (int often = 0; often < 2; often++) {
        small_run_start_one(&run, "out", "cwd");
        run.settings.resume = often;
        run.settings.stop_after = often ? 0 : 1;
        saved_at_all = saved_before_last = false;
        run.seen = look_for_checkpoint;
        run.settings.checkpoint_seconds = often ? 0 : 3600;
        small_run_do(&run);
        assert_int_equal(saved_at_all, often);
        assert_int_equal(saved_before_last, often);
        if (!often)
            assert_events("out/cwd",
                          "run CwD (cwd), 2 tasks\ntask 1 of 2 classes\nend stopped 'stopped after task 1 of 2'\n");
        assert_int_equal(access("out/cwd/checkpoint.safetensors", F_OK), -1);
    }
    assert_events("out/cwd", cwd_events);
}

/* ---- no memory -------------------------------------------------------------------------------------------------- */

static const char *scarce_at;

static void take_memory_away(small_run *r, const recollect_progress *p)
{
    (void)p;
    size_t length = strlen(scarce_at);
    if (r->progress.used >= length && strcmp(r->progress.text + r->progress.used - length, scarce_at) == 0)
        rc_memory_set_budget(1);
}

static rc_status run_out_of_memory(const char *at, double checkpoint_seconds)
{
    scarce_at = at;
    run.seen = take_memory_away;
    run.settings.checkpoint_seconds = checkpoint_seconds;
    run.settings.resume = true;
    rc_status status = rc_experiment_run(&run.settings);
    rc_memory_set_budget(SIZE_MAX);
    return status;
}

/* The message begins with how much memory there was not. */
static void assert_ends(const char *text, const char *expected)
{
    if (strncmp(text, "cannot allocate ", 16) != 0 || strlen(text) < strlen(expected) ||
        strcmp(text + strlen(text) - strlen(expected), expected) != 0)
        fail_msg("'%s', expected an end of '%s'", text, expected);
}

static void what_was_saved_before_is_named(void **state)
{
    (void)state;
    static const char nothing[] =
        " allows more. Nothing of it was saved before; the setting 'resume' begins anew, with "
        "another setting 'backend' too";
    small_run_start_one(&run, "out", "cwd");
    assert_int_equal(run_out_of_memory("training 1 4/4 1/2\n", 3600), RC_OUT_OF_MEMORY);
    assert_ends(rc_message(), nothing);
    small_run_start(&run, "out");
    REFUSED(run_out_of_memory("training 1 4/4 1/2\n", 3600), RC_OUT_OF_MEMORY,
            "2 of 2 failed; the setting 'resume' tries them again");
    char *methods = strstr(run.log.text, "\nCwD");
    assert_non_null(methods);
    assert_text(methods, "\nCwD: not begun: its first task failed (out/first-task)\n"
                         "Fine-tuning: not begun: its first task failed (out/first-task)\n");
    *methods = '\0';
    assert_memory_equal(run.log.text, "All methods: ", 13);
    assert_ends(run.log.text + 13, nothing);
    small_run_start_one(&run, "out", "cwd");
    assert_int_equal(run_out_of_memory("training 2 4/4 1/2\n", 3600), RC_OUT_OF_MEMORY);
    assert_ends(rc_message(),
                " allows more. out/cwd/task-1.safetensors is intact: the setting 'resume' goes on from there, "
                "with another setting 'backend' too");
    small_run_start_one(&run, "out", "cwd");
    assert_int_equal(run_out_of_memory("training 2 4/4 1/2\n", 0), RC_OUT_OF_MEMORY);
    assert_ends(rc_message(),
                " allows more. out/cwd/checkpoint.safetensors is intact: the setting 'resume' goes on from there, "
                "with another setting 'backend' too");
    small_run_start(&run, "two");
    run.stop_at = "CwD, task 2 of 2: training 2 2/4 0/2";
    REFUSED(rc_experiment_run(&run.settings), RC_CANCELLED,
            "CwD: stopped and saved in task 2, training, step 2 of 4; the setting 'resume' goes on from there");
}

/* ---- files of other runs ---------------------------------------------------------------------------------------- */

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
    assert_events("out/cwd", cwd_events);
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
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, enter, data_leave_folder)
    const struct CMUnitTest tests[] = {
        IN_FOLDER(a_run_tells_where_it_is),
        IN_FOLDER(a_run_goes_on_where_it_stopped),
        IN_FOLDER(a_run_saves_as_often_as_it_is_told),
        IN_FOLDER(what_was_saved_before_is_named),
        IN_FOLDER(files_that_do_not_fit_are_named),
        IN_FOLDER(models_that_do_not_fit_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
