/* What a run tells and logs, to the step; where it stops, and that it goes on from there as if nothing had been; what
 * it says of memory and of time. */
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
#include "support/small_run.h"
#include "support/succeeds.h"

static small_run run;

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
static int unknown; /* reports that do not know how long it takes */

static void watch_pace(small_run *r, const recollect_progress *p)
{
    (void)r;
    unknown += isnan(p->seconds_left) || isnan(p->images_per_second);
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
    last_fraction = unknown = 0;
    small_run_do(&run);
    assert_int_equal(unknown, 1); /* the first */
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
    static const char ended[] = "\nCwD: not begun: its first task failed (out/first-task)\n"
                                "Fine-tuning: not begun: its first task failed (out/first-task)\n"
                                "no summary of this run: cannot allocate ";
    assert_memory_equal(methods, ended, sizeof ended - 1);
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

/* ---- how long it will take -------------------------------------------------------------------------------------- */

static double first_left, first_speed;

static void keep_first(small_run *r, const recollect_progress *p)
{
    (void)r;
    first_left = p->seconds_left;
    first_speed = p->images_per_second;
}

/* A few steps of a long run are timed before it begins; a short one finds out as it goes. */
static void a_long_run_says_how_long_it_will_take(void **state)
{
    (void)state;
    int minutes, seconds, hours = 0;
    small_run_start(&run, "long");
    small_run_set(&run, "epochs", "99999");
    run.settings.watch.log.level = RC_LOG_INFO;
    run.seen = keep_first;
    run.stop_at = "All methods, task 1 of 2: training 1 1/199996 0/99998";
    REFUSED(rc_experiment_run(&run.settings), RC_CANCELLED,
            "All methods: stopped and saved in task 1, training, step 1 of 199996; the setting 'resume' goes on from "
            "there");
    const char *told = strstr(run.log.text, "\nforecast: about ");
    assert_non_null(told);
    told += strlen("\nforecast: about ");
    if (sscanf(told, "%d:%d:%d", &hours, &minutes, &seconds) != 3) {
        hours = 0;
        assert_int_equal(sscanf(told, "%d:%d", &minutes, &seconds), 2);
    }
    double forecast = 3600.0 * hours + 60.0 * minutes + seconds;
    assert_true(fabs(forecast - first_left) <= 1 + 1e-3 * forecast); /* less a step, and rounded */
    assert_true(first_speed > 0);
    assert_non_null(strstr(told, " MB of memory\n"));
    assert_null(strstr(run.log.text, "not begun"));
    small_run_start(&run, "short");
    run.seen = keep_first;
    run.stop_at = "All methods, task 1 of 2: training 1 1/4 0/2";
    assert_int_equal(rc_experiment_run(&run.settings), RC_CANCELLED);
    assert_true(isnan(first_left) && isnan(first_speed));
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, small_run_enter, data_leave_folder)
    const struct CMUnitTest tests[] = {
        IN_FOLDER(a_run_tells_where_it_is),
        IN_FOLDER(a_run_goes_on_where_it_stopped),
        IN_FOLDER(a_run_saves_as_often_as_it_is_told),
        IN_FOLDER(what_was_saved_before_is_named),
        IN_FOLDER(a_long_run_says_how_long_it_will_take),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
