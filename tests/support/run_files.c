#include "support/run_files.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "support/succeeds.h"

static double accuracy_after(const run_file *run, int task)
{
    return fmax(run->accuracy - 10 * task, 5);
}

static void put_task(const run_file *run, int task, rc_json_writer *w)
{
    double accuracy = accuracy_after(run, task);
    rc_json_begin_object(w, NULL);
    rc_json_put_int(w, "task", task + 1);
    rc_json_put_int(w, "classes", (task + 1) * run->classes_per_task);
    rc_json_put_text(w, "commit", run->last_commit != NULL && task + 1 == run->done ? run->last_commit : "abc");
    rc_json_put_real(w, "accuracy", accuracy);
    rc_json_put_real(w, "top5", 99);
    rc_json_put_real(w, "old_accuracy", task > 0 ? accuracy - 2 : NAN);
    rc_json_put_real(w, "new_accuracy", accuracy + 4);
    rc_json_put_real(w, "old_norm", task > 0 ? 1 : NAN);
    rc_json_put_real(w, "new_norm", 2);
    rc_json_begin_object(w, "stored");
    rc_json_put_int(w, "images", 0);
    rc_json_put_int(w, "generative_model", 0);
    rc_json_put_int(w, "statistics", run->kept > 0 ? run->kept : 18900);
    rc_json_end(w);
    rc_json_begin_array(w, "by_task");
    for (int j = 0; j <= task; j++)
        rc_json_put_real(w, NULL, j == task ? accuracy + 4 : accuracy - 2);
    rc_json_end(w);
    rc_json_begin_object(w, "seconds");
    rc_json_put_real(w, "inversion", task > 0 ? 10 : 0);
    rc_json_put_real(w, "training", 20);
    rc_json_put_real(w, "refinement", task > 0 ? 5 : 0);
    rc_json_put_real(w, "estimation", 1);
    rc_json_put_real(w, "evaluation", 2);
    rc_json_end(w);
    rc_json_end(w);
}

static void put_classes(const run_file *run, rc_json_writer *w)
{
    int classes = run->done * run->classes_per_task;
    rc_json_begin_array(w, "classes");
    for (int k = 0; k < classes; k++) {
        char name[32];
        snprintf(name, sizeof name, "class %d", k + 1);
        rc_json_begin_object(w, NULL);
        rc_json_put_text(w, "name", run->name != NULL ? run->name(k) : name);
        rc_json_put_real(w, "accuracy", k % 101);
        rc_json_put_real(w, "top5", 99);
        rc_json_put_real(w, "head_norm", 1 + k / 100.0);
        rc_json_end(w);
    }
    rc_json_end(w);
    rc_json_begin_array(w, "confusion");
    for (int i = 0; i < classes; i++) {
        rc_json_begin_array(w, NULL);
        for (int k = 0; k < classes; k++)
            rc_json_put_int(w, NULL, i == k ? 60 : (i * 7 + k * 3) % 4);
        rc_json_end(w);
    }
    rc_json_end(w);
}

static void put_run(const run_file *run, rc_json_writer *w)
{
    rc_json_put_text(w, "version", "0.1.0");
    rc_json_put_text(w, "commit", "abc");
    rc_json_put_text(w, "command_line", run->command != NULL ? run->command : "recollect run it --out 'a&b'");
    rc_json_put_int(w, "order", run->order);
    rc_json_put_int(w, "seed", run->seed > 0 ? run->seed : 1);
    rc_json_put_text(w, "backend", "cpu");
    rc_json_put_text(w, "precision", "fp32");
    rc_json_put_text(w, "device", "a machine");
    rc_json_put_text(w, "dataset", run->dataset);
    if (run->data != NULL)
        rc_json_put_text(w, "data", run->data);
    if (run->data_fingerprint != NULL)
        rc_json_put_text(w, "data_fingerprint", run->data_fingerprint);
    rc_json_begin_object(w, "config");
    char order[16];
    snprintf(order, sizeof order, "%d", run->order);
    rc_json_put_text(w, "order", order);
    if (run->size != NULL)
        rc_json_put_text(w, "size", run->size);
    if (run->other[0] != NULL)
        rc_json_put_text(w, run->other[0], run->other[1]);
    rc_json_put_text(w, "lambda_war", run->setting != NULL ? run->setting : "0.1");
    rc_json_put_text(w, "weight_prior", run->own_settings ? "0.001" : "0");
    rc_json_put_text(w, "diversity_epsilon", run->own_settings ? "0" : "1e-06");
    rc_json_end(w);
}

static void path_of(const char *folder, const char *name, char path[RC_PATH_SIZE])
{
    SUCCEEDS(rc_file_make_folder(folder));
    SUCCEEDS(rc_path_in(folder, name, path));
}

void run_file_write(const run_file *run, const char *folder)
{
    char path[RC_PATH_SIZE];
    rc_json_writer w = {0};
    path_of(folder, "results.json", path);
    rc_json_begin_object(&w, NULL);
    rc_json_put_text(&w, "method", run->method);
    rc_json_put_int(&w, "tasks_done", run->done);
    rc_json_begin_array(&w, "task_sizes");
    for (int i = 0; i < run->tasks; i++)
        rc_json_put_int(&w, NULL, run->classes_per_task);
    rc_json_end(&w);
    rc_json_begin_array(&w, "tasks");
    for (int i = 0; i < run->done; i++)
        put_task(run, i, &w);
    rc_json_end(&w);
    if (!run->without_classes)
        put_classes(run, &w);
    rc_json_begin_object(&w, "run");
    put_run(run, &w);
    rc_json_end(&w);
    rc_json_end(&w);
    SUCCEEDS(rc_json_save(&w, path));
}

void run_file_bytes(const char *folder, const char *name, const void *bytes, unsigned long size)
{
    char path[RC_PATH_SIZE];
    path_of(folder, name, path);
    SUCCEEDS(rc_file_write_atomic(path, bytes, size));
}

static void put_line(rc_json_writer *w, rc_file_writer *writer)
{
    char *text;
    rc_json_end(w);
    SUCCEEDS(rc_json_finish(w, &text, NULL));
    rc_file_writer_line(writer, text);
    rc_free(NULL, text);
}

void run_file_log(const run_file *run, const char *folder, int first_task)
{
    char path[RC_PATH_SIZE];
    rc_file_writer *writer;
    rc_json_writer w = {0};
    path_of(folder, "events.jsonl", path);
    SUCCEEDS(rc_file_writer_open(path, &writer));
    rc_json_begin_object(&w, NULL);
    rc_json_put_text(&w, "event", "run");
    rc_json_put_text(&w, "method", run->method);
    rc_json_begin_array(&w, "task_sizes");
    for (int i = 0; i < run->tasks; i++)
        rc_json_put_int(&w, NULL, run->classes_per_task);
    rc_json_end(&w);
    put_run(run, &w);
    put_line(&w, writer);
    for (int task = first_task; task <= run->tasks; task++)
        for (int step = 0; step <= 4; step++) {
            w = (rc_json_writer){0};
            rc_json_begin_object(&w, NULL);
            rc_json_put_text(&w, "event", "step");
            rc_json_put_int(&w, "task", task);
            rc_json_put_text(&w, "stage", "training");
            rc_json_put_int(&w, "step", step);
            rc_json_put_int(&w, "steps", 4);
            rc_json_begin_object(&w, "loss");
            rc_json_put_real(&w, "ce", 8 - step);
            rc_json_put_real(&w, "war", 3);
            rc_json_end(&w);
            put_line(&w, writer);
        }
    SUCCEEDS(rc_file_writer_commit(writer));
}
