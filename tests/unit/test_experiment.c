/* An experiment around its cells: lists and folders that are refused, word for word; parts that other processes run,
 * and what they ran with other lists; what is told while cells run side by side. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/lease.h"
#include "base/memory.h"
#include "base/stop.h"
#include "experiment/cell.h"
#include "experiment/run_data.h"
#include "forecast/forecast.h"
#include "model/safetensors.h"
#include "support/failing_heap.h"
#include "support/small_run.h"
#include "support/succeeds.h"

static small_run run;

static int enter(void **state)
{
    rc_memory_set_budget(SIZE_MAX); /* a test that failed may have left another */
    return small_run_enter(state);
}

static void assert_holds(const char *text, const char *piece)
{
    if (strstr(text, piece) == NULL)
        fail_msg("'%s' is not in: %s", piece, text);
}

static bool is_there(const char *path)
{
    return access(path, F_OK) == 0;
}

/* ---- what is refused -------------------------------------------------------------------------------------------- */

static void lists_are_checked(void **state)
{
    (void)state;
    small_run_start(&run, "out");
    run.settings.methods = 0;
    REFUSED(rc_experiment_run(&run.settings), RC_INVALID_ARGUMENT, "no method to run");
    small_run_start(&run, "out");
    run.settings.method[2] = run.settings.method[1];
    run.settings.methods = 3;
    REFUSED(rc_experiment_run(&run.settings), RC_INVALID_ARGUMENT, "method finetune is listed twice");
    static const char *const several[] = {"published", "numpy", "seed"};
    for (int i = 0; i < 3; i++) {
        small_run_start(&run, "out");
        small_run_set(&run, "class_order", several[i]);
        run.settings.orders = 2;
        run.settings.order[0] = run.settings.order[1] = 2;
        REFUSED(rc_run_settings_check(&run.settings), RC_INVALID_ARGUMENT, "order 2 is listed twice");
        run.settings.order[0] = 1;
        SUCCEEDS(rc_run_settings_check(&run.settings));
        run.settings.seeds = 3;
        run.settings.seed[0] = 5;
        run.settings.seed[1] = run.settings.seed[2] = 12345678901234u;
        REFUSED(rc_run_settings_check(&run.settings), RC_INVALID_ARGUMENT, "seed 12345678901234 is listed twice");
    }
    run.settings.seeds = 0;
    small_run_set(&run, "class_order", "natural");
    REFUSED(rc_experiment_run(&run.settings), RC_INVALID_ARGUMENT,
            "class_order is 'natural', so that order 1 would be the same as order 0: published, numpy and seed have "
            "several");
    run.settings.orders = 1;
    run.settings.order[0] = 0;
    SUCCEEDS(rc_run_settings_check(&run.settings));
    run.settings.orders = 0;
    small_run_set(&run, "order", "3");
    REFUSED(rc_run_settings_check(&run.settings), RC_INVALID_ARGUMENT,
            "class_order is 'natural', so that order 3 would be the same as order 0: published, numpy and seed have "
            "several");
    small_run_set(&run, "order", "0");
    SUCCEEDS(rc_run_settings_check(&run.settings));
    small_run_set(&run, "epochs", "1");
    small_run_set(&run, "refine_epochs", "1");
    REFUSED(rc_experiment_run(&run.settings), RC_INVALID_ARGUMENT,
            "refine_epochs is 1, expected 0 to 0: refinement is the end of the 1 epoch, and leaves one or more");
    assert_false(is_there("out"));
}

static void folders_are_looked_at_first(void **state)
{
    (void)state;
    char name[400], message[1200];
    data_write_text("many/summary.json", "{}");
    small_run_start_one(&run, "many", "finetune");
    run.settings.seeds = 1;
    run.settings.seed[0] = 4;
    REFUSED(
        rc_experiment_run(&run.settings), RC_INVALID_ARGUMENT,
        "many holds runs already: the setting 'resume' goes on with them and adds others, another setting 'out' leaves "
        "them alone");
    data_write_text("one/run.json", "{}");
    run.settings.out = "one";
    for (int resume = 0; resume < 2; resume++) {
        run.settings.resume = resume;
        REFUSED(rc_experiment_run(&run.settings), RC_INVALID_ARGUMENT,
                "one holds a run of one order: lists of orders or seeds take another setting 'out'");
    }
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    small_run_start_one(&run, name, "finetune");
    snprintf(
        message, sizeof message,
        "cannot make the folder '%s': File name too long. What was saved before is intact: once there is room to write "
        "in %s, the setting 'resume' goes on",
        name, name);
    REFUSED(rc_experiment_run(&run.settings), RC_IO, message);
    data_write_text("file", "");
    small_run_start_one(&run, "file", "finetune");
    assert_int_equal(rc_experiment_run(&run.settings), RC_INVALID_ARGUMENT);
    data_assert_message("'file'");
}

/* A run that goes on says that nothing is lost. */
static void without_data_or_backend_a_run_is_as_it_was(void **state)
{
    (void)state;
    char alone[RC_MESSAGE_SIZE], message[2 * RC_MESSAGE_SIZE];
    for (int resume = 0; resume < 2; resume++) {
        small_run_start_one(&run, "out", "finetune");
        run.settings.resume = resume;
        run.settings.backend = "abacus";
        if (resume) {
            snprintf(message, sizeof message, "%s. The run in out is as it was", alone);
            REFUSED(rc_experiment_run(&run.settings), RC_INVALID_ARGUMENT, message);
        }
        assert_int_equal(rc_experiment_run(&run.settings), RC_INVALID_ARGUMENT);
        snprintf(alone, sizeof alone, "%s", rc_message());
    }
    for (int resume = 0; resume < 2; resume++) {
        small_run_start_one(&run, "out", "finetune");
        small_run_set(&run, "data", "nowhere");
        run.settings.resume = resume;
        if (resume) {
            snprintf(
                message, sizeof message,
                "%s. The run in out is as it was: the setting 'resume' goes on once the data is there (the setting "
                "'data' if it lies elsewhere now)",
                alone);
            assert_int_not_equal(rc_experiment_run(&run.settings), RC_OK);
            assert_memory_equal(rc_message(), message, strlen(message));
        }
        assert_int_not_equal(rc_experiment_run(&run.settings), RC_OK);
        snprintf(alone, sizeof alone, "%.*s", (int)strcspn(rc_message(), "\n"), rc_message());
    }
    assert_false(is_there("out"));
}

/* Before anything is made. The first task and the last one of each method are counted. */
static void too_little_memory_is_told_before_anything_is_made(void **state)
{
    (void)state;
    small_run_start(&run, "out");
    small_run_set(&run, "generator_width", "512");
    rc_memory_set_budget(rc_bytes_allocated() + 8000000);
    assert_int_equal(rc_experiment_run(&run.settings), RC_OUT_OF_MEMORY);
    assert_memory_equal(rc_message(), "the run would take ", 19);
    assert_holds(rc_message(), "generator-small of width 512");
    rc_memory_set_budget(rc_bytes_allocated() + 1500000);
    assert_int_equal(rc_experiment_run(&run.settings), RC_OUT_OF_MEMORY);
    rc_memory_set_budget(SIZE_MAX);
    assert_memory_equal(rc_message(), "the run would take ", 19);
    assert_null(strstr(rc_message(), "generator"));
    assert_false(is_there("out"));
}

static void stop_at_once(small_run *r, const recollect_progress *p)
{
    (void)p;
    r->stop = true;
}

/* The smallest budget with which the run is not refused before it makes its folder. */
static size_t least_budget(const char *method, int tasks, const char *key, const char *value)
{
    size_t refused = 0, enough = rc_bytes_allocated() + 4000000;
    while (enough - refused > 1) {
        size_t between = refused + (enough - refused) / 2;
        char out[64];
        snprintf(out, sizeof out, "%s-%zu", value, between);
        small_run_start_one(&run, out, method);
        small_run_set(&run, key, value);
        run.settings.stop_after = tasks;
        run.seen = stop_at_once;
        rc_memory_set_budget(between);
        assert_int_not_equal(rc_experiment_run(&run.settings), RC_OK);
        rc_memory_set_budget(SIZE_MAX);
        if (is_there(out))
            enough = between;
        else
            refused = between;
    }
    return enough;
}

/* What the first task takes: its own classes and images, which the backend is lent. */
static void the_images_of_the_first_task_are_counted(void **state)
{
    (void)state;
    static const int classes[] = {3, 1};
    static const char *const task_sizes[] = {"3,1", "1,3"};
    size_t bytes[2], least[2];
    rc_backend *backend;
    rc_dataset data;
    const rc_watch watch = {0};
    small_run_start_one(&run, "out", "finetune");
    SUCCEEDS(rc_run_data_open(&run.settings.config, 1, false, &watch, &data));
    SUCCEEDS(rc_backend_open("cpu", 1, NULL, &backend));
    const rc_augment shape = rc_image_of(&data);
    for (int i = 0; i < 2; i++) {
        const rc_task_claim claim = {.settings = &run.settings.config.settings,
                                     .method = rc_first_task_method(),
                                     .image = &shape,
                                     .n_new = classes[i],
                                     .lent = true,
                                     .count = data.train.count / 4 * classes[i]};
        SUCCEEDS(rc_forecast_bytes(backend, &claim, &bytes[i]));
    }
    rc_backend_close(backend);
    rc_dataset_close(&data);
    for (int i = 0; i < 2; i++)
        least[i] = least_budget("finetune", 1, "task_sizes", task_sizes[i]);
    assert_int_equal(least[0] - least[1], bytes[0] - bytes[1]);
}

/* What the last task takes: it begins with all that the first one has offered to a buffer, each image in every epoch of
 * main training, and the images of that lie in the pool, too. */
static void the_buffer_of_the_last_task_is_counted(void **state)
{
    (void)state;
    static const int epochs[] = {60, 20};
    static const char *const text[] = {"60", "20"};
    size_t bytes[2], least[2];
    rc_backend *backend;
    rc_dataset data;
    const rc_watch watch = {0};
    const rc_method *method;
    small_run_start_one(&run, "out", "er");
    SUCCEEDS(rc_method_find("er", &method));
    SUCCEEDS(rc_run_data_open(&run.settings.config, 1, false, &watch, &data));
    SUCCEEDS(rc_backend_open("cpu", 1, NULL, &backend));
    const rc_augment shape = rc_image_of(&data);
    rc_settings *s = &run.settings.config.settings;
    for (int i = 0; i < 2; i++) {
        const int images = data.train.count / 2,
                  offered = (epochs[i] - s->refine_epochs) * (images / s->batch * s->batch);
        assert_true((offered > method->buffer_size) == (i == 0));
        s->epochs = epochs[i];
        const rc_task_claim claim = {.settings = s,
                                     .method = method,
                                     .image = &shape,
                                     .n_old = 2,
                                     .n_new = 2,
                                     .offered = (uint64_t)offered,
                                     .lent = true,
                                     .count = images};
        SUCCEEDS(rc_forecast_bytes(backend, &claim, &bytes[i]));
    }
    rc_backend_close(backend);
    rc_dataset_close(&data);
    for (int i = 0; i < 2; i++)
        least[i] = least_budget("er", 2, "epochs", text[i]);
    assert_true(bytes[0] > bytes[1]);
    small_run_start_one(&run, "out", "er");
    small_run_set(&run, "epochs", "20");
    rc_memory_set_budget(least[1] - 1);
    assert_int_equal(rc_experiment_run(&run.settings), RC_OUT_OF_MEMORY);
    rc_memory_set_budget(SIZE_MAX);
    assert_holds(rc_message(), "with 3 channels, 8 at a time, 500 held for replay, net 'resnet-small' of width 4");
    assert_int_equal(least[0] - least[1], bytes[0] - bytes[1]);
}

/* The bytes that a long run of these methods foretells, in megabytes. */
static double foretold_megabytes(const char *first, const char *second)
{
    char out[64];
    double value;
    snprintf(out, sizeof out, "%s-%s", first, second);
    small_run_start_one(&run, out, first);
    if (second[0] != '\0')
        SUCCEEDS(rc_method_find(second, &run.settings.method[run.settings.methods++]));
    small_run_set(&run, "size", "16");
    small_run_set(&run, "epochs", "100000");
    run.settings.watch.log.level = RC_LOG_INFO;
    run.seen = stop_at_once;
    assert_int_equal(rc_experiment_run(&run.settings), RC_CANCELLED);
    const char *told = strstr(run.log.text, "forecast: about ");
    if (told == NULL)
        fail_msg("no forecast: %s", run.log.text);
    told = strstr(told, " and ");
    char unit;
    assert_int_equal(sscanf(told, " and %lf %cB of memory", &value, &unit), 2);
    assert_int_equal(unit, 'M');
    return value;
}

/* The most that any of the methods takes, whichever is named first. */
static void the_heaviest_method_counts(void **state)
{
    (void)state;
    const double light = foretold_megabytes("cwd", ""), heavy = foretold_megabytes("dgr", "");
    assert_true(heavy > 2 * light);
    assert_true(fabs(foretold_megabytes("dgr", "cwd") / heavy - 1) < 0.02);
    assert_true(fabs(foretold_megabytes("cwd", "dgr") / heavy - 1) < 0.02);
}

/* ---- what is made ----------------------------------------------------------------------------------------------- */

/* Every order with every seed; no more cells side by side than have something to do; nothing is left. */
static void each_order_has_each_seed(void **state)
{
    (void)state;
    size_t before = rc_bytes_allocated();
    small_run_start_one(&run, "out", "finetune");
    run.settings.orders = run.settings.seeds = 2;
    run.settings.order[1] = 1;
    run.settings.seed[0] = 3;
    run.settings.seed[1] = 5;
    run.settings.stop_after = 1;
    run.settings.jobs = 7;
    small_run_do(&run);
    assert_int_equal(rc_bytes_allocated(), before);
    for (int i = 0; i < 4; i++) {
        char path[64];
        snprintf(path, sizeof path, "out/order-%d-seed-%d/finetune/task-1.safetensors", i / 2, i % 2 ? 5 : 3);
        assert_true(is_there(path));
    }
    rc_json *json;
    SUCCEEDS(rc_json_load("out/summary.json", 1 << 20, &json));
    assert_int_equal(rc_json_integer(rc_json_member(json, "jobs")), 4);
    rc_json_free(json);
}

static void names_are_in_the_order_of_the_classes(void **state)
{
    (void)state;
    int turns = 0; /* orders that are not their own inverse */
    rc_dataset data;
    const rc_watch watch = {0};
    small_run_start_one(&run, "out", "finetune");
    SUCCEEDS(rc_run_data_open(&run.settings.config, 1, false, &watch, &data));
    for (int order = 0; order < 8; order++) {
        rc_trial t = {.data = NULL};
        small_run_start_one(&run, "out", "finetune");
        small_run_set(&run, "class_order", "seed");
        t.config = run.settings.config;
        t.config.order = order;
        SUCCEEDS(rc_trial_create(&t, &data, 0));
        for (int i = 0; i < 4; i++) {
            assert_ptr_equal(t.class_name[i], data.class_name[t.stream.order[i]]);
            turns += t.stream.order[i] != t.stream.position[i];
        }
        rc_trial_destroy(&t);
    }
    assert_true(turns > 0);
    rc_dataset_close(&data);
}

/* Models do not say where the images lie. A first task keeps the name of the program that finished it. */
static void what_models_and_results_say_of_their_run(void **state)
{
    (void)state;
    rc_safetensors *file;
    rc_json *json;
    const rc_json *tasks;
    char *text;
    size_t size;
    small_run_start_one(&run, "out", "finetune");
    run.settings.stop_after = 1;
    small_run_do(&run);
    SUCCEEDS(rc_safetensors_open_header("out/finetune/task-1.safetensors", &file));
    assert_non_null(strstr(rc_safetensors_metadata(file, "config"), "\"data\""));
    assert_null(strstr(rc_safetensors_metadata(file, "config"), "photos"));
    rc_safetensors_close(file);
    SUCCEEDS(rc_file_read("out/first-task/results.json", 1 << 20, &text, &size));
    FILE *changed = fopen("out/first-task/results.json", "w");
    assert_non_null(changed);
    const char *next = text;
    for (const char *found; (found = strstr(next, "\"commit\": \"")) != NULL; next = strchr(found + 11, '"')) {
        assert_true(fwrite(next, 1, (size_t)(found - next) + 11, changed) > 0);
        assert_true(fputs("an earlier one", changed) >= 0);
    }
    assert_true(next != text && fputs(next, changed) >= 0);
    assert_int_equal(fclose(changed), 0);
    rc_free(NULL, text);
    small_run_start_one(&run, "out", "lwf");
    run.settings.resume = true;
    for (run.settings.stop_after = 1; run.settings.stop_after <= 2; run.settings.stop_after++) {
        small_run_do(&run);
        SUCCEEDS(rc_json_load("out/lwf/results.json", 1 << 20, &json));
        SUCCEEDS(rc_json_get_array(json, "tasks", &tasks));
        const rc_json *first = rc_json_next(tasks, NULL), *second = rc_json_next(tasks, first);
        assert_string_equal(rc_json_string(rc_json_member(first, "commit")), "an earlier one");
        assert_int_equal(second != NULL, run.settings.stop_after == 2);
        if (second != NULL)
            assert_string_not_equal(rc_json_string(rc_json_member(second, "commit")), "an earlier one");
        rc_json_free(json);
    }
}

/* What somebody set and no method of the run reads. */
static void what_nobody_reads_is_told(void **state)
{
    (void)state;
    static const char *const set[] = {"epochs=4", "buffer_size=3", "lambda_war=1"};
    small_run_start(&run, "out");
    run.settings.stop_after = 1;
    run.settings.set = set;
    run.settings.sets = 3;
    small_run_do(&run);
    assert_string_equal(run.log.text,
                        "warning: buffer_size changes nothing here; only these read it: er, er-5120, lode, "
                        "lode-5120\n");
}

static double seconds_of(const char *path, const char *stage)
{
    rc_json *json;
    const rc_json *tasks;
    SUCCEEDS(rc_json_load(path, 1 << 20, &json));
    SUCCEEDS(rc_json_get_array(json, "tasks", &tasks));
    double seconds = rc_json_number(rc_json_member(rc_json_member(rc_json_next(tasks, NULL), "seconds"), stage));
    rc_json_free(json);
    return seconds;
}

/* The time of the first task is that of every method, but for the statistics that CwD alone needs. */
static void methods_pay_for_what_they_need_of_the_first_task(void **state)
{
    (void)state;
    small_run_start(&run, "out");
    run.settings.stop_after = 1;
    small_run_do(&run);
    double training = seconds_of("out/first-task/results.json", "training");
    double estimation = seconds_of("out/first-task/results.json", "estimation");
    assert_true(training > 0 && estimation > 0);
    assert_true(seconds_of("out/cwd/results.json", "training") == training);
    assert_true(seconds_of("out/cwd/results.json", "estimation") == estimation);
    assert_true(seconds_of("out/finetune/results.json", "training") == training);
    assert_true(seconds_of("out/finetune/results.json", "estimation") == 0);
}

/* A model that cannot be read is no fault of its form: nothing is advised. */
static void a_model_that_is_a_folder_is_told(void **state)
{
    (void)state;
    small_run_start_one(&run, "out", "finetune");
    run.settings.stop_after = 1;
    small_run_do(&run);
    assert_int_equal(remove("out/finetune/task-1.safetensors"), 0);
    assert_int_equal(mkdir("out/finetune/task-1.safetensors", 0777), 0);
    small_run_start_one(&run, "out", "finetune");
    run.settings.resume = true;
    REFUSED(
        rc_experiment_run(&run.settings), RC_IO,
        "cannot read 'out/finetune/task-1.safetensors': it is a folder, expected a regular file. What was saved before "
        "is intact: once there is room to write in out, the setting 'resume' goes on");
}

static void make_obstacle(small_run *r, const recollect_progress *p)
{
    (void)r;
    if (p->task == 2)
        (void)mkdir("out/finetune/checkpoint.safetensors", 0777);
}

static void a_checkpoint_that_cannot_be_removed_is_told(void **state)
{
    (void)state;
    small_run_start_one(&run, "out", "finetune");
    run.seen = make_obstacle;
    REFUSED(
        rc_experiment_run(&run.settings), RC_IO,
        "cannot remove 'out/finetune/checkpoint.safetensors': Is a directory. What was saved before is intact: once "
        "there is room to write in out, the setting 'resume' goes on");
    static page events; /* the log has said before that it is done */
    small_run_events("out/finetune", &events);
    assert_holds(events.text, "end done ''\n");
    assert_null(strstr(events.text, "end failed"));
}

static void make_folder_of_summary(small_run *r, const recollect_progress *p)
{
    (void)r;
    (void)p;
    (void)mkdir("out/summary.json", 0777);
}

static void a_run_that_stops_tells_of_a_summary_that_cannot_be_written(void **state)
{
    (void)state;
    small_run_start_one(&run, "out", "finetune");
    run.seen = make_folder_of_summary;
    run.stop_at = "All methods, task 1 of 2: training 1 1/4 0/2";
    assert_int_equal(rc_experiment_run(&run.settings), RC_CANCELLED);
    assert_holds(run.log.text, "no summary of this run: cannot write 'out/summary.json': it is a folder");
}

static void a_run_whose_summary_cannot_be_written_fails(void **state)
{
    (void)state;
    small_run_start_one(&run, "out", "finetune");
    run.seen = make_folder_of_summary;
    REFUSED(rc_experiment_run(&run.settings), RC_IO,
            "cannot write 'out/summary.json': it is a folder, expected a regular file. What was saved before is "
            "intact: once there is room to write in out, the setting 'resume' goes on");
    assert_null(strstr(run.log.text, "no summary of this run"));
}

/* Who stops a run stops nothing after it. */
static void a_stop_ends_with_the_run(void **state)
{
    (void)state;
    small_run_start_one(&run, "out", "finetune");
    run.stop_at = "All methods, task 1 of 2: training 1 1/4 0/2";
    assert_int_equal(rc_experiment_run(&run.settings), RC_CANCELLED);
    assert_true(run.stop);
    assert_false(rc_stopped());
}

/* ---- parts of a grid -------------------------------------------------------------------------------------------- */

/* Fine-tuning on orders from the first to the last. */
static void start_orders(const char *out, int first, int last)
{
    small_run_start_one(&run, out, "finetune");
    run.log.log.level = run.settings.watch.log.level = RC_LOG_INFO;
    while (first <= last)
        run.settings.order[run.settings.orders++] = first++;
}

/* The runs of all rows of summary.json: "order-0/finetune done" and so on. */
static void assert_summary(const char *folder, const char *expected)
{
    static page found;
    char path[64];
    rc_json *json;
    const rc_json *methods, *method = NULL;
    found = (page){.used = 0};
    snprintf(path, sizeof path, "%s/summary.json", folder);
    SUCCEEDS(rc_json_load(path, 1 << 20, &json));
    SUCCEEDS(rc_json_get_array(json, "methods", &methods));
    while ((method = rc_json_next(methods, method)) != NULL) {
        const rc_json *runs, *row = NULL;
        SUCCEEDS(rc_json_get_array(method, "runs", &runs));
        while ((row = rc_json_next(runs, row)) != NULL) {
            char line[128];
            snprintf(line, sizeof line, "%s %s", rc_json_string(rc_json_member(row, "path")),
                     rc_json_string(rc_json_member(row, "state")));
            page_add_line(&found, line);
        }
    }
    rc_json_free(json);
    assert_string_equal(found.text, expected);
}

static double first_fraction;

static void keep_fraction(small_run *r, const recollect_progress *p)
{
    (void)r;
    if (first_fraction < 0)
        first_fraction = p->fraction;
}

static void each_part_runs_its_orders(void **state)
{
    (void)state;
    start_orders("out", 0, 2);
    run.seen = keep_fraction;
    first_fraction = -1;
    run.settings.shards = 2;
    run.settings.shard = 2;
    small_run_do(&run);
    assert_true(first_fraction >= 0 && first_fraction < 0.5); /* of its own part */
    assert_true(is_there("out/order-1/finetune/task-2.safetensors"));
    assert_false(is_there("out/order-0/first-task") || is_there("out/order-0/finetune") ||
                 is_there("out/order-2/finetune"));
    assert_holds(run.results.text, "\norder 1\naccuracy in %");
    assert_null(strstr(run.results.text, "order 0"));
    assert_holds(run.results.text, "    1/3 ");
    assert_summary("out", "order-0/finetune stopped\norder-1/finetune done\norder-2/finetune stopped\n");
    start_orders("out", 0, 2);
    run.settings.shards = 2;
    run.settings.shard = 1;
    run.settings.resume = true;
    small_run_do(&run);
    assert_holds(run.results.text, "order 2, Fine-tuning, task 2 of 2: ");
    assert_holds(run.results.text, "    3/3 ");
    assert_null(strstr(run.results.text, "\norder 1\n"));
    assert_null(strstr(run.log.text, "note:"));
    assert_summary("out", "order-0/finetune done\norder-1/finetune done\norder-2/finetune done\n");
    start_orders("out", 2, 3);
    run.settings.resume = true;
    small_run_do(&run);
    assert_holds(run.log.text, "note: out/order-3 holds no run to go on with, so one begins there\n");
    assert_null(strstr(run.log.text, "order-2"));
    assert_null(strstr(run.results.text, "order 2, "));
}

/* A command that asks for fewer methods or orders than the folder has sums up all of them. What nobody has run is no
 * run. */
static void one_summary_covers_what_was_run_before(void **state)
{
    (void)state;
    size_t before = rc_bytes_allocated();
    small_run_start(&run, "one");
    small_run_do(&run);
    assert_summary("one", "cwd done\nfinetune done\n");
    assert_null(strstr(run.results.text, "mean over runs")); /* the table has it all */
    small_run_start_one(&run, "one", "finetune");
    run.settings.resume = true;
    small_run_do(&run);
    assert_summary("one", "finetune done\ncwd done\n");
    assert_holds(run.results.text, "\nmean over runs");
    assert_holds(run.results.text, "\nCwD ");
    assert_int_equal(run.log.lines, 0);
    start_orders("out", 0, 2);
    run.settings.stop_after = 1;
    small_run_do(&run);
    small_run_start_one(&run, "out", "er");
    run.settings.order[run.settings.orders++] = 1;
    run.settings.stop_after = 1;
    run.settings.resume = true;
    small_run_do(&run);
    assert_summary("out", "order-1/er done\norder-0/er absent\norder-2/er absent\n"
                          "order-1/finetune done\norder-0/finetune done\norder-2/finetune done\n");
    assert_holds(run.results.text, "    1/1 ");
    assert_holds(run.results.text, "    3/3 ");
    /* What is damaged or of something else is left out, and nobody's work is lost for it. */
    data_write_text("out/order-1/finetune/results.json", "{");
    data_write_text("out/order-2/run.json", "{");
    small_run_do(&run);
    assert_summary("out", "order-1/er done\norder-0/er absent\norder-1/finetune absent\norder-0/finetune done\n");
    assert_holds(run.log.text,
                 "warning: the summary is without what cannot be read: out/order-1/finetune/results.json");
    assert_holds(run.log.text, "warning: the summary is without what cannot be read: out/order-2/run.json");
    assert_int_equal(rc_bytes_allocated(), before);
}

/* A file of another program, one of which no byte can be read, and one of nothing: each is named, the summary has all
 * else, and the run has succeeded. */
static void a_summary_says_what_it_is_without(void **state)
{
    (void)state;
    static const char foreign[] = "\x41\0\0\0\0\0\0\0"
                                  "{\"a\": {\"dtype\": \"F8_E4M3\", \"shape\": [1], \"data_offsets\": [0, 1]}}.";
    static const char *const methods[] = {"er", "lwf", "finetune"};
    for (int m = 0; m < 3; m++) {
        small_run_start_one(&run, "out", methods[m]);
        run.settings.stop_after = 1;
        run.settings.resume = m > 0;
        if (m == 2) {
            data_write("out/er/task-1.safetensors", foreign, sizeof foreign - 1);
            assert_int_equal(remove("out/lwf/results.json"), 0);
            assert_int_equal(mkdir("out/lwf/results.json", 0777), 0);
        }
        small_run_do(&run);
    }
    assert_string_equal(run.log.text,
                        "warning: the summary is without what cannot be read: out/er/task-1.safetensors: tensor 'a' "
                        "has type F8_E4M3, which recollect does not read\n"
                        "warning: the summary is without what cannot be read: cannot read 'out/lwf/results.json': it "
                        "is a folder, expected a regular file\n");
    assert_summary("out", "finetune done\ner absent\nlwf absent\n");
}

static void share(void)
{
    run.settings.lease_seconds = 60;
    run.settings.resume = true;
}

/* Processes with other lists share the folder: the summary has what all of them have done. */
static void one_summary_covers_what_others_have_run(void **state)
{
    (void)state;
    size_t before = rc_bytes_allocated();
    start_orders("out", 2, 2);
    share();
    small_run_do(&run);
    assert_summary("out", "order-2/finetune done\n");
    start_orders("out", 11, 11);
    share();
    small_run_do(&run);
    assert_false(is_there("out/order-11/finetune.lease"));
    assert_null(strstr(run.log.text, "note:"));
    assert_summary("out", "order-11/finetune done\norder-2/finetune done\n");
    assert_holds(run.results.text, "    2/2 ");
    /* Other settings, other names and unfinished ones do not count. */
    start_orders("other", 5, 5);
    small_run_set(&run, "seed", "3");
    share();
    small_run_do(&run);
    assert_int_equal(rename("other/order-5", "out/order-5"), 0);
    assert_int_equal(mkdir("out/order-6", 0777), 0);
    assert_int_equal(mkdir("out/order-06", 0777), 0);
    assert_int_equal(mkdir("out/order-7-seed-1", 0777), 0);
    assert_int_equal(symlink("order-2", "out/order-02"), 0);
    assert_int_equal(symlink("order-2", "out/orders-2"), 0);
    start_orders("out", 1, 1);
    run.settings.stop_after = 1;
    share();
    small_run_do(&run);
    start_orders("out", 3, 3);
    share();
    small_run_do(&run);
    assert_summary("out",
                   "order-3/finetune done\norder-1/finetune stopped\norder-2/finetune done\norder-11/finetune done\n");
    assert_holds(run.results.text, "    3/4 ");
    /* Seeds are others than orders. */
    start_orders("seeds", 1, 0);
    run.settings.seeds = 1;
    run.settings.seed[0] = 20;
    share();
    small_run_do(&run);
    run.settings.seed[0] = 3;
    small_run_do(&run);
    assert_summary("seeds", "seed-3/finetune done\nseed-20/finetune done\n");
    start_orders("both", 2, 2);
    run.settings.seeds = 1;
    run.settings.seed[0] = 20;
    share();
    small_run_do(&run);
    run.settings.seed[0] = 3;
    small_run_do(&run);
    run.settings.order[0] = 1;
    small_run_do(&run);
    assert_summary("both",
                   "order-1-seed-3/finetune done\norder-2-seed-3/finetune done\norder-2-seed-20/finetune done\n");
    assert_int_equal(rc_bytes_allocated(), before);
}

static void let_another_end(void *user, const char *text)
{
    (void)user;
    page_add_line(&run.results, text);
    if (strstr(text, " 2/2 ") != NULL)
        (void)rename("other/order-5", "out/order-5");
}

/* What ends while the summary is printed is in the files, and nothing is printed twice. */
static void what_ends_meanwhile_is_written_too(void **state)
{
    (void)state;
    start_orders("other", 5, 5);
    share();
    small_run_do(&run);
    start_orders("out", 2, 2);
    share();
    small_run_do(&run);
    start_orders("out", 1, 1);
    share();
    run.settings.line = let_another_end;
    small_run_do(&run);
    assert_holds(run.results.text, "    2/2 ");
    assert_null(strstr(run.results.text, "    3/3 "));
    assert_summary("out", "order-1/finetune done\norder-2/finetune done\norder-5/finetune done\n");
}

/* A run that is done, beside what others have done: whichever request for memory fails, it says so or does without, and
 * nothing is lost or left. */
static void a_finished_run_without_memory_is_as_it_was(void **state)
{
    (void)state;
    enum { MOST = 5000 };
    static const char all[] = "order-1/finetune done\norder-2/finetune done\n";
    rc_dataset data;
    const rc_watch watch = {0};
    int refused = 0, number = 0;
    bool failed = true;
    for (int order = 2; order > 0; order--) {
        start_orders("out", order, order);
        share();
        small_run_do(&run);
    }
    SUCCEEDS(rc_run_data_open(&run.settings.config, 1, false, &watch, &data));
    size_t before = rc_bytes_allocated();
    while (failed && ++number < MOST) {
        start_orders("out", 1, 1);
        share();
        run.settings.data = &data;
        allocation_to_fail = number;
        rc_status status = rc_experiment_run(&run.settings);
        failed = allocation_failed();
        refused += status == RC_OUT_OF_MEMORY;
        assert_true(status == RC_OK || (failed && status == RC_OUT_OF_MEMORY));
        assert_int_equal(rc_bytes_allocated(), before);
        assert_summary("out", all);
    }
    assert_in_range(number, 50, MOST - 1);
    assert_true(refused > number / 2);
    rc_dataset_close(&data);
}

/* ---- leases ----------------------------------------------------------------------------------------------------- */

static rc_lease *held;

static void give_back(small_run *r, const recollect_progress *p)
{
    (void)r;
    (void)p;
    rc_lease_release(held);
    held = NULL;
}

/* While another has the first method this process runs the second, and takes the first when it is given back. */
static void a_cell_that_another_has_is_waited_for(void **state)
{
    (void)state;
    rc_lease_sight sight = {.since = 0};
    small_run_start(&run, "out");
    run.settings.stop_after = 1;
    share();
    small_run_do(&run);
    SUCCEEDS(rc_lease_try("out/cwd.lease", 60, &sight, &held));
    assert_non_null(held);
    small_run_start(&run, "out");
    run.seen = give_back;
    share();
    run.settings.lease_seconds = 0.5;
    small_run_do(&run);
    const char *second = strstr(run.results.text, "Fine-tuning, task 2 of 2"),
               *first = strstr(run.results.text, "CwD, task 2 of 2");
    assert_true(first != NULL && second != NULL && second < first);
    assert_false(is_there("out/cwd.lease"));
}

/* A lease that does not move is taken over, and not before its time. */
static void the_cell_of_a_dead_process_is_taken_over(void **state)
{
    (void)state;
    rc_lease_sight sight = {.since = 0};
    char *text;
    size_t size;
    small_run_start_one(&run, "out", "finetune");
    run.settings.stop_after = 1;
    share();
    small_run_do(&run);
    SUCCEEDS(rc_lease_try("out/finetune.lease", 60, &sight, &held));
    SUCCEEDS(rc_file_read("out/finetune.lease", 1 << 10, &text, &size));
    rc_lease_release(held);
    held = NULL;
    data_write("out/finetune.lease", text, size);
    rc_free(NULL, text);
    small_run_start_one(&run, "out", "finetune");
    share();
    run.settings.lease_seconds = 0.4;
    run.settings.checkpoint_seconds = 0;
    double began = rc_now();
    small_run_do(&run);
    assert_true(rc_now() - began >= 0.4);
    assert_holds(run.results.text, "Fine-tuning, task 2 of 2: ");
    assert_false(is_there("out/finetune.lease"));
}

static void steal(small_run *r, const recollect_progress *p)
{
    (void)p;
    if (strstr(r->progress.text, "Fine-tuning, task 2 of 2: training") == NULL || is_there("stolen"))
        return;
    data_write_text("stolen", "");
    data_write_text("elsewhere", "elsewhere 1 2 3\n");
    assert_int_equal(rename("elsewhere", "out/finetune.lease"), 0); /* another file, which the counting cannot undo */
    nanosleep(&(struct timespec){.tv_sec = 2}, NULL); /* the thread that counts sees it, on a busy machine, too */
}

/* A process that stood still for too long leaves the cell to the other one, and goes on when that one is dead, too. */
static void a_lease_that_is_lost_is_waited_for(void **state)
{
    (void)state;
    small_run_start_one(&run, "out", "finetune");
    share();
    run.settings.lease_seconds = 0.5;
    run.seen = steal;
    small_run_do(&run);
    assert_holds(run.log.text, "Fine-tuning is another process's now\n");
    assert_holds(run.results.text, "Fine-tuning, task 2 of 2: ");
    assert_summary("out", "finetune done\n");
}

/* ---- side by side ----------------------------------------------------------------------------------------------- */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t first; /* that has told something */
    int threads;     /* that have */
} meeting = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void count_threads(small_run *r, const recollect_progress *p)
{
    (void)r;
    if (p->stage_name[0] == '\0') /* of all: of none is known how fast it is */
        assert_true(isnan(p->stage_seconds_left) && isnan(p->images_per_second));
    pthread_mutex_lock(&meeting.lock);
    if (meeting.threads == 0) {
        meeting.first = pthread_self();
        meeting.threads = 1;
    } else if (!pthread_equal(meeting.first, pthread_self())) {
        meeting.threads = 2;
        pthread_cond_broadcast(&meeting.changed);
    }
    pthread_mutex_unlock(&meeting.lock);
}

/* The first thread waits where it is until the second has told something, too. Gives up after a while, and the test
 * fails. */
static bool wait_for_the_second(void *user)
{
    struct timespec until;
    (void)user;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 60;
    pthread_mutex_lock(&meeting.lock);
    for (int error = 0; meeting.threads == 1 && pthread_equal(meeting.first, pthread_self()) && error == 0;)
        error = pthread_cond_timedwait(&meeting.changed, &meeting.lock, &until);
    pthread_mutex_unlock(&meeting.lock);
    return false;
}

static void cells_side_by_side_share_a_line(void **state)
{
    (void)state;
    small_run_start_one(&run, "out", "finetune");
    run.settings.orders = 2;
    run.settings.order[1] = 1;
    run.settings.jobs = run.settings.threads = 2;
    run.settings.watch.cancelled = wait_for_the_second;
    run.seen = count_threads;
    meeting.threads = 0;
    small_run_do(&run);
    assert_holds(run.progress.text,
                 "order 0, All methods 1/2 training 1/2 | order 1, All methods 1/2 training 1/2:  0 0/0 0/0\n");
    /* The last step of a stage is told alone. */
    for (int order = 0; order < 2; order++) {
        char line[96];
        snprintf(line, sizeof line, "order %d, Fine-tuning, task 2 of 2: training 2 4/4 1/2\n", order);
        assert_holds(run.progress.text, line);
        snprintf(line, sizeof line, "order %d, All methods, task 1 of 2: estimation 1 2/2 0/0\n", order);
        assert_holds(run.progress.text, line);
    }
}

/* Stages without epochs count their steps. */
static void cells_side_by_side_tell_their_steps(void **state)
{
    (void)state;
    for (int later = 0; later < 2; later++) {
        small_run_start_one(&run, "out", "cwd");
        run.settings.orders = 2;
        run.settings.order[1] = 1;
        run.settings.resume = later;
        run.settings.stop_after = !later;
        if (later) {
            run.settings.jobs = run.settings.threads = 2;
            run.settings.watch.cancelled = wait_for_the_second;
            run.seen = count_threads;
        }
        meeting.threads = 0;
        small_run_do(&run);
    }
    assert_holds(run.progress.text, "order 0, CwD 2/2 inversion 1/3 | order 1, CwD 2/2 inversion 1/3:  0 0/0 0/0\n");
    assert_holds(run.progress.text, " inversion 2/3");
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, enter, data_leave_folder)
    const struct CMUnitTest tests[] = {
        IN_FOLDER(lists_are_checked),
        IN_FOLDER(folders_are_looked_at_first),
        IN_FOLDER(without_data_or_backend_a_run_is_as_it_was),
        IN_FOLDER(too_little_memory_is_told_before_anything_is_made),
        IN_FOLDER(the_images_of_the_first_task_are_counted),
        IN_FOLDER(the_buffer_of_the_last_task_is_counted),
        IN_FOLDER(the_heaviest_method_counts),
        IN_FOLDER(each_order_has_each_seed),
        IN_FOLDER(names_are_in_the_order_of_the_classes),
        IN_FOLDER(what_models_and_results_say_of_their_run),
        IN_FOLDER(what_nobody_reads_is_told),
        IN_FOLDER(methods_pay_for_what_they_need_of_the_first_task),
        IN_FOLDER(a_model_that_is_a_folder_is_told),
        IN_FOLDER(a_checkpoint_that_cannot_be_removed_is_told),
        IN_FOLDER(a_run_that_stops_tells_of_a_summary_that_cannot_be_written),
        IN_FOLDER(a_run_whose_summary_cannot_be_written_fails),
        IN_FOLDER(a_stop_ends_with_the_run),
        IN_FOLDER(each_part_runs_its_orders),
        IN_FOLDER(one_summary_covers_what_was_run_before),
        IN_FOLDER(a_summary_says_what_it_is_without),
        IN_FOLDER(one_summary_covers_what_others_have_run),
        IN_FOLDER(what_ends_meanwhile_is_written_too),
        IN_FOLDER(a_finished_run_without_memory_is_as_it_was),
        IN_FOLDER(a_cell_that_another_has_is_waited_for),
        IN_FOLDER(the_cell_of_a_dead_process_is_taken_over),
        IN_FOLDER(a_lease_that_is_lost_is_waited_for),
        IN_FOLDER(cells_side_by_side_share_a_line),
        IN_FOLDER(cells_side_by_side_tell_their_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
