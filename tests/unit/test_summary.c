/* The summary of a grid when memory runs out: its files are whole, or the status says that they are not. (The linker
 * redirects the library's posix_memalign to the one here.) */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/memory.h"
#include "experiment/summary.h"
#include "support/page.h"
#include "support/succeeds.h"

enum { METHODS = 2, TASKS = 2 };

static int heap_calls, heap_fails_from; /* 0: never */
static bool heap_fails_once;

int __real_posix_memalign(void **block, size_t align, size_t size);
int __wrap_posix_memalign(void **block, size_t align, size_t size);

int __wrap_posix_memalign(void **block, size_t align, size_t size)
{
    heap_calls++;
    if (heap_fails_from > 0 && (heap_fails_once ? heap_calls == heap_fails_from : heap_calls >= heap_fails_from))
        return 12;
    return __real_posix_memalign(block, align, size);
}

static char folder[] = "/tmp/recollect-test-XXXXXX";
static const char *const files[] = {"summary.json", "summary.csv", "summary.txt"};
static char *whole[3]; /* what is in them */

/* Two methods that are done after two tasks. */
static rc_trial trial = {.config = {.order = 3, .settings = {.seed = 7}}, .tasks = TASKS};
static rc_cell cell[METHODS + 1];
static rc_cell_end end[METHODS + 1];
static const rc_summary summary = {.cell = cell,
                                   .end = end,
                                   .trials = 1,
                                   .methods = METHODS,
                                   .jobs = 1,
                                   .seconds = 9,
                                   .command_line = "recollect run \xFF",
                                   .folder = folder};

static char *read_file(int i)
{
    char path[64], *text;
    size_t size;
    snprintf(path, sizeof path, "%s/%s", folder, files[i]);
    return (access(path, F_OK) == 0) && rc_file_read(path, 1 << 16, &text, &size) == RC_OK ? text : NULL;
}

static void remove_files(void)
{
    char path[64];
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        unlink(path);
    }
}

static int set_up(void **state)
{
    (void)state;
    rc_task_stream stream;
    rc_task_split split = {.tasks = TASKS};
    static const char identity[] = "{\"version\": \"x\", \"config\": {\"net\": \"resnet32\"}}";
    if (mkdtemp(folder) == NULL || rc_task_stream_create(&stream, 4, NULL, &split) != RC_OK ||
        rc_json_parse("identity", identity, strlen(identity), &trial.folder.identity) != RC_OK)
        return -1;
    for (int m = 0; m <= METHODS; m++) {
        cell[m] = (rc_cell){.trial = &trial, .method = rc_method_at(m), .first_task = m == 0};
        snprintf(cell[m].path, sizeof cell[m].path, "%s/method-%d", folder, m);
        if (rc_results_create(&cell[m].results, rc_method_at(m)->name, &stream) != RC_OK)
            return -1;
        cell[m].results.done = m == 0 ? 1 : TASKS;
        for (int i = 0; i < TASKS; i++)
            cell[m].results.task[i].accuracy = 50 + m + i;
    }
    snprintf(end[1].message, sizeof end[1].message, "it \"failed\" once");
    rc_task_stream_destroy(&stream);
    if (rc_summary_write(&summary) != RC_OK)
        return -1;
    for (int i = 0; i < 3; i++)
        whole[i] = read_file(i);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (int m = 0; m <= METHODS; m++)
        rc_results_destroy(&cell[m].results);
    for (int i = 0; i < 3; i++)
        rc_free(NULL, whole[i]);
    rc_json_free(trial.folder.identity);
    remove_files();
    return rmdir(folder);
}

static void files_hold_everything(void **state)
{
    (void)state;
    rc_json *json;
    const rc_json *methods, *runs;
    SUCCEEDS(rc_json_parse("summary.json", whole[0], strlen(whole[0]), &json));
    assert_string_equal(rc_json_string(rc_json_member(json, "command_line")), "recollect run \xEF\xBF\xBD");
    SUCCEEDS(rc_json_get_array(json, "methods", &methods));
    assert_int_equal(rc_json_count(methods), METHODS);
    const rc_json *first = rc_json_next(methods, NULL);
    SUCCEEDS(rc_json_get_array(first, "runs", &runs));
    const rc_json *run = rc_json_next(runs, NULL);
    assert_string_equal(rc_json_string(rc_json_member(run, "path")), "method-1");
    assert_string_equal(rc_json_string(rc_json_member(run, "state")), "done");
    assert_string_equal(rc_json_string(rc_json_member(run, "message")), "it \"failed\" once");
    assert_true(rc_json_integer(rc_json_member(run, "seed")) == 7);
    assert_true(rc_json_number(rc_json_member(run, "last_accuracy")) == 52);
    assert_true(rc_json_number(rc_json_member(rc_json_member(first, "mean_accuracy"), "mean")) == 51.5);
    assert_string_equal(rc_json_string(rc_json_member(rc_json_member(json, "run"), "version")), "x");
    rc_json_free(json);
    assert_non_null(strstr(whole[1], ",1,52,,51.5,,"));
    assert_non_null(strstr(whole[2], "recollect run"));
    assert_non_null(strstr(whole[2], rc_method_at(2)->title));
}

static void a_slash_behind_the_folder_changes_nothing(void **state)
{
    (void)state;
    char named[sizeof folder + 1];
    rc_summary other = summary;
    snprintf(named, sizeof named, "%s/", folder);
    other.folder = named;
    SUCCEEDS(rc_summary_write(&other));
    char *text = read_file(0);
    assert_string_equal(text, whole[0]);
    rc_free(NULL, text);
}

/* Both methods are done after two tasks, and this call was to do one. */
static void tasks_that_were_not_asked_for_do_not_count(void **state)
{
    (void)state;
    cell[1].results.task[0].wall[RC_STAGE_TRAINING] = 3;
    cell[1].results.task[1].wall[RC_STAGE_TRAINING] = 400;
    trial.tasks = 1;
    SUCCEEDS(rc_summary_write(&summary));
    trial.tasks = TASKS;
    char *text[3];
    for (int i = 0; i < 3; i++)
        assert_non_null(text[i] = read_file(i));
    assert_non_null(strstr(text[0], "\"last_accuracy\": 51.0"));
    assert_null(strstr(text[0], "53.0")); /* nor in the lists of the runs */
    assert_non_null(strstr(text[1], ",1,51,,51,,0,3,0,0,0,3,"));
    assert_non_null(strstr(text[2], "A_1 (last)"));
    assert_non_null(strstr(text[2], " 51.00           51.00     1/1 "));
    for (int i = 0; i < 3; i++)
        rc_free(NULL, text[i]);
    memset(cell[1].results.task[0].wall, 0, sizeof cell[1].results.task[0].wall);
    memset(cell[1].results.task[1].wall, 0, sizeof cell[1].results.task[1].wall);
    SUCCEEDS(rc_summary_write(&summary));
}

static void without_memory_nothing_is_cut(void **state)
{
    (void)state;
    size_t before = rc_bytes_allocated();
    for (int once = 0; once < 2; once++)
        for (int k = 1, failed = 1; failed; k++) {
            remove_files();
            heap_calls = 0;
            heap_fails_once = once != 0;
            heap_fails_from = k;
            rc_status status = rc_summary_write(&summary);
            heap_fails_from = 0;
            failed = heap_calls >= k;
            if (status != (failed ? RC_OUT_OF_MEMORY : RC_OK))
                fail_msg("allocation %d failed: %s", k, recollect_status_text(status));
            for (int i = 0; i < 3; i++) {
                char *text = read_file(i);
                if (text != NULL || !failed)
                    assert_string_equal(text, whole[i]);
                rc_free(NULL, text);
            }
        }
    assert_int_equal(rc_bytes_allocated(), before);
}

static void a_table_that_is_cut_is_a_failure(void **state)
{
    (void)state;
    page table = {.used = 0};
    SUCCEEDS(rc_summary_print(&summary, page_add_line, &table));
    assert_non_null(strstr(whole[2], table.text));
    for (int k = 1, failed = 1; failed; k++) {
        page p = {.used = 0};
        heap_calls = 0;
        heap_fails_once = true;
        heap_fails_from = k;
        rc_status status = rc_summary_print(&summary, page_add_line, &p);
        heap_fails_from = 0;
        failed = heap_calls >= k;
        assert_int_equal(status, failed ? RC_OUT_OF_MEMORY : RC_OK);
        assert_true(k > 1 || failed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_hold_everything),
        cmocka_unit_test(a_slash_behind_the_folder_changes_nothing),
        cmocka_unit_test(tasks_that_were_not_asked_for_do_not_count),
        cmocka_unit_test(without_memory_nothing_is_cut),
        cmocka_unit_test(a_table_that_is_cut_is_a_failure),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
