/* Every file and table of results, whole, as tests/fixtures/result_files.txt has them: a method after three tasks and
 * one that has not begun, many tasks and classes, and a grid whose runs are done, stopped and failed. Every number is
 * another one, so that none can stand in the place of another. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/memory.h"
#include "experiment/summary.h"
#include "support/fixture.h"
#include "support/succeeds.h"

enum { CLASSES = 5, TASKS = 3, D = 2, MANY_TASKS = 23, TRIALS = 2, METHODS = 4 };

static char folder[] = "/tmp/recollect-test-XXXXXX";
static char everything[1 << 18];
static size_t used;

static void add_line(void *user, const char *line)
{
    (void)user;
    used += (size_t)snprintf(everything + used, sizeof everything - used, "%s\n", line);
    assert_true(used < sizeof everything);
}

static void add_title(const char *title)
{
    char line[128];
    snprintf(line, sizeof line, "==== %s", title);
    add_line(NULL, line);
}

/* Adds the file, which then is gone. */
static void add_file(const char *name, const char *title)
{
    char path[RC_PATH_SIZE], *text;
    size_t size;
    SUCCEEDS(rc_path_in(folder, name, path));
    SUCCEEDS(rc_file_read(path, 1 << 18, &text, &size));
    add_title(title);
    add_line(NULL, text);
    rc_free(NULL, text);
    assert_int_equal(unlink(path), 0);
}

static void add_result_files(const rc_results *r, char *const *names, const char *title)
{
    static const char *const files[] = {"results.json", "results.txt", "tasks.csv", "classes.csv", "confusion.csv"};
    static const char identity[] = "{\"version\": \"1.2.3\", \"command_line\": \"recollect run it\"}";
    rc_results_origin origin = {.fingerprint = "a fingerprint", .seed = 12345678901234567890u, .class_name = names};
    rc_json *json;
    SUCCEEDS(rc_json_parse("identity", identity, strlen(identity), &json));
    origin.identity = json;
    SUCCEEDS(rc_results_write(r, &origin, folder));
    rc_json_free(json);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char line[128], path[RC_PATH_SIZE];
        SUCCEEDS(rc_path_in(folder, files[i], path));
        snprintf(line, sizeof line, "%s of %s", files[i], title);
        bool there;
        SUCCEEDS(rc_file_find(path, &there));
        if (there)
            add_file(files[i], line);
    }
}

/* The evaluation after a task: counts that differ everywhere, and some that are not among the first five. */
static rc_evaluation evaluate(int task, int classes)
{
    rc_evaluation e = {.classes = classes};
    e.confusion = rc_alloc_zeroed(NULL, (size_t)classes * (size_t)classes, sizeof *e.confusion);
    e.top5 = rc_alloc_zeroed(NULL, (size_t)classes, sizeof *e.top5);
    assert_true(e.confusion != NULL && e.top5 != NULL);
    for (int i = 0; i < classes; i++) {
        for (int k = 0; k < classes; k++) {
            int count = i == k ? 40 + 3 * i - 7 * task : (3 * i + 5 * k + task) % 7;
            e.confusion[rc_confusion_at(classes, i, k)] = count;
            e.top5[i] += count;
        }
        e.top5[i] -= i + task;
    }
    return e;
}

static void make_results(rc_results *r, const char *method, const rc_task_split *split, int classes, int done,
                         double speed)
{
    rc_task_stream stream;
    float *head = rc_alloc_zeroed(NULL, (size_t)classes * D, sizeof *head);
    assert_non_null(head);
    SUCCEEDS(rc_task_stream_create(&stream, classes, NULL, split));
    SUCCEEDS(rc_results_create(r, method, &stream));
    rc_task_stream_destroy(&stream);
    for (int i = 0; i < classes * D; i++)
        head[i] = (float)(i + 1) / 4;
    for (int task = 0; task < done; task++) {
        rc_evaluation e = evaluate(task, r->task_end[task]);
        const double wall[RC_STAGE_COUNT] = {1.5 + task, 20.25 * speed, 300.125 + 2 * task, 4000.5 * speed};
        SUCCEEDS(rc_results_add(r, &e, head, D, wall, 0.75 + task * speed));
        rc_task_result *t = &r->task[task];
        t->stored = (rc_stored){.images = strcmp(method, "er") == 0 ? 5000000 * (size_t)(task + 1) : 0,
                                .model = strcmp(method, "dgr") == 0 ? 70000 : 0,
                                .statistics = strcmp(method, "finetune") == 0 ? 0 : 900 + (size_t)task};
        snprintf(t->commit, sizeof t->commit, "commit%d", task);
    }
    r->log_offset = 77;
    r->seconds = 12.5 * speed;
    rc_free(NULL, head);
}

static void a_method(void **state)
{
    (void)state;
    static char *names[] = {"cat", "a \"dog\"", "c,d", "\xC3\xA4", "x"};
    static const char *const methods[] = {"cwd", "er", "dgr"};
    const rc_task_split split = {.sizes = TASKS, .size = {2, 1, 2}};
    const rc_results *rows[3];
    rc_results results[3];
    for (int m = 0; m < 3; m++) {
        make_results(&results[m], methods[m], &split, CLASSES, TASKS - m, 1 + m);
        rows[m] = &results[m];
        add_result_files(&results[m], names, methods[m]);
    }
    rc_results none;
    make_results(&none, "finetune", &split, CLASSES, 0, 1);
    add_result_files(&none, names, "a method that has not begun");
    add_title("table");
    rc_results_print(rows, 3, add_line, NULL);
    for (int m = 0; m < 3; m++)
        rc_results_destroy(&results[m]);
    add_title("table of a method that has not begun, and of none");
    rows[0] = &none;
    rc_results_print(rows, 1, add_line, NULL);
    rc_results_print(rows, 0, add_line, NULL);
    rc_results_destroy(&none);
}

/* More than fit beside each other. */
static void many_tasks(void **state)
{
    (void)state;
    const rc_task_split split = {.tasks = MANY_TASKS};
    char name[MANY_TASKS][16], *names[MANY_TASKS];
    rc_results r;
    for (int i = 0; i < MANY_TASKS; i++)
        snprintf(names[i] = name[i], sizeof name[i], "class %d", i);
    make_results(&r, "cwd", &split, MANY_TASKS, MANY_TASKS - 1, 1);
    const rc_results *row = &r;
    add_title("report of many tasks");
    rc_results_report(&r, names, add_line, NULL);
    rc_results_print(&row, 1, add_line, NULL);
    rc_results_destroy(&r);
}

/* ---- a grid ----------------------------------------------------------------------------------------------------- */

static void a_grid(void **state)
{
    (void)state;
    static const char *const methods[METHODS] = {"cwd", "er", "dgr", "finetune"};
    static const char identity[] = "{\"version\": \"x\", \"config\": {\"net\": \"resnet32\"}}";
    static rc_trial trial[TRIALS];
    static rc_cell cell[TRIALS * (METHODS + 1)];
    static rc_cell_end end[TRIALS * (METHODS + 1)];
    const rc_task_split split = {.sizes = TASKS, .size = {2, 1, 2}};
    rc_summary summary = {.cell = cell, .end = end, .methods = METHODS, .jobs = 3, .seconds = 98.75, .folder = folder};
    for (int t = 0; t < TRIALS; t++) {
        trial[t] = (rc_trial){.config = {.order = 3 + t, .settings = {.seed = 7 + 10 * (uint64_t)t}}, .tasks = TASKS};
        SUCCEEDS(rc_json_parse("identity", identity, strlen(identity), &trial[t].folder.identity));
        for (int m = 0; m <= METHODS; m++) {
            int at = t * (METHODS + 1) + m;
            const rc_method *method;
            SUCCEEDS(rc_method_find(methods[m == 0 ? 0 : m - 1], &method));
            cell[at] = (rc_cell){.trial = &trial[t], .method = method, .first_task = m == 0};
            snprintf(cell[at].path, sizeof cell[at].path, "%s/order-%d/%s", folder, t,
                     m == 0 ? "first" : methods[m - 1]);
            /* In the second trial "er" was stopped after a task; "finetune" failed before its first, in both. */
            int done = m == 0 ? 1 : m == 4 ? 0 : t == 1 && m == 2 ? 1 : TASKS;
            make_results(&cell[at].results, method->name, &split, CLASSES, done, 1 + m + 10 * t);
            for (int i = 0; i < done; i++)
                cell[at].results.task[i].accuracy -= t * (2.5 + m) + i * 0.25;
            if (m > 0 && done < TASKS) {
                end[at].status = m == 4 ? RC_IO : RC_CANCELLED;
                snprintf(end[at].message, sizeof end[at].message, "%s of trial %d: \"it\"", m == 4 ? "failure" : "stop",
                         t);
            }
        }
    }
    for (summary.trials = 1; summary.trials <= TRIALS; summary.trials++) {
        summary.command_line = summary.trials == 1 ? NULL : "recollect run --orders 2";
        SUCCEEDS(rc_summary_write(&summary));
        add_file("summary.json", summary.trials == 1 ? "summary.json of a trial" : "summary.json of two");
        add_file("summary.csv", summary.trials == 1 ? "summary.csv of a trial" : "summary.csv of two");
        add_file("summary.txt", summary.trials == 1 ? "summary.txt of a trial" : "summary.txt of two");
    }
    summary.trials = TRIALS;
    add_title("summary, printed");
    SUCCEEDS(rc_summary_print(&summary, add_line, NULL));
    for (int at = 0; at < TRIALS * (METHODS + 1); at++)
        rc_results_destroy(&cell[at].results);
    for (int t = 0; t < TRIALS; t++)
        rc_json_free(trial[t].folder.identity);
}

static void all_is_as_it_should_be(void **state)
{
    (void)state;
    fixture_is("result_files.txt", everything, used);
}

static int set_up(void **state)
{
    (void)state;
    return mkdtemp(folder) == NULL;
}

static int tear_down(void **state)
{
    (void)state;
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_method),
        cmocka_unit_test(many_tasks),
        cmocka_unit_test(a_grid),
        cmocka_unit_test(all_is_as_it_should_be),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
