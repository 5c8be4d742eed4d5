/* What is seen of a run in its logs: where cells are, curves, and that nothing hurts that a log may hold. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/memory.h"
#include "experiment/overview.h"
#include "support/data_files.h"
#include "support/failing_heap.h"
#include "support/succeeds.h"

static const char begin[] = "{\"event\":\"run\",\"cell\":\"CwD\",\"method\":\"cwd\",\"task_sizes\":[2,2,2]}\n";
static const char step[] =
    "{\"event\":\"step\",\"time\":100.5,\"task\":2,\"stage\":\"training\",\"step\":40,\"steps\":600,\"epoch\":1,"
    "\"epochs\":9,\"total_step\":41,\"total_steps\":900,\"learning_rate\":0.1,\"images_per_second\":22.5,"
    "\"seconds_left\":7.5,\"memory\":1000,\"loss\":{\"ce\":1.75,\"dce\":0.5},\"total_loss\":2.25}\n";
static const char task[] = "{\"event\":\"task\",\"time\":101,\"task\":1,\"accuracy\":75.5,\"mean_accuracy\":80.5}\n";

static void add_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "a");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* The only cell of the run in the folder "run", after these lines. */
static rc_seen_cell *see(rc_overview *o, const char *first, const char *second)
{
    data_write_text("run/cwd/events.jsonl", first);
    add_text("run/cwd/events.jsonl", second);
    SUCCEEDS(rc_overview_open(o, "run/"));
    SUCCEEDS(rc_overview_update(o));
    assert_int_equal(o->cells, 1);
    return o->cell[0];
}

static void a_cell_is_where_its_last_line_says(void **state)
{
    (void)state;
    rc_overview o;
    rc_seen_cell *c = see(&o, begin, task);
    assert_string_equal(c->folder, "run/cwd");
    assert_string_equal(c->name, "CwD");
    assert_int_equal(c->tasks, 3);
    assert_int_equal(c->done, 1);
    assert_true(c->accuracy[0] == 75.5 && c->mean == 80.5 && c->time == 101);
    assert_string_equal(c->stage, "");
    add_text("run/cwd/events.jsonl", step);
    SUCCEEDS(rc_overview_update(&o));
    assert_string_equal(c->stage, "training");
    assert_true(c->task == 2 && c->step == 40 && c->steps == 600 && c->epoch == 1 && c->epochs == 9);
    assert_true(c->total_step == 41 && c->total_steps == 900 && c->time == 100.5 && c->left == 7.5);
    assert_true(c->learning_rate == 0.1 && c->images_per_second == 22.5 && c->memory == 1000 && c->total_loss == 2.25);
    assert_int_equal(c->losses, 2);
    assert_string_equal(c->loss[1].name, "dce");
    assert_true(c->loss[0].value == 1.75 && c->loss[1].value == 0.5);
    assert_false(c->first_task);
    /* A stage without losses leaves those before it. */
    add_text("run/cwd/events.jsonl",
             "{\"event\":\"step\",\"task\":2,\"stage\":\"estimation\",\"step\":1,\"steps\":2,\"loss\":{}}\n");
    SUCCEEDS(rc_overview_update(&o));
    assert_string_equal(c->stage, "estimation");
    assert_true(c->losses == 2 && isnan(c->total_loss) && isnan(c->left) && c->curve[0].points == 1);
    add_text("run/cwd/events.jsonl", "{\"event\":\"step\",\"task\":2,\"stage\":\"training\",\"step\":1,\"steps\":2,"
                                     "\"loss\":{\"kd\":3}}\n{\"event\":\"task\",\"task\":2,\"accuracy\":0}\n");
    SUCCEEDS(rc_overview_update(&o));
    assert_true(c->losses == 1 && c->loss[0].value == 3 && c->done == 2 && c->accuracy[1] == 0);
    add_text("run/cwd/events.jsonl", "{\"event\":\"end\",\"status\":\"failed\",\"message\":\"no room\"}\n");
    SUCCEEDS(rc_overview_update(&o));
    assert_string_equal(c->end, "failed");
    assert_string_equal(c->message, "no room");
    add_text("run/cwd/events.jsonl", step); /* somebody has resumed it */
    SUCCEEDS(rc_overview_update(&o));
    assert_string_equal(c->end, "");
    assert_string_equal(c->message, "");
    rc_overview_close(&o);
}

/* A log begins with the first step of a task, and may have lost the ends of tasks. */
static void first_steps_count_and_lost_tasks_have_no_accuracy(void **state)
{
    (void)state;
    rc_overview o;
    rc_set_message("an old failure");
    rc_seen_cell *c = see(&o, begin, "{\"event\":\"step\",\"task\":1,\"stage\":\"training\",\"step\":0,\"steps\":6}\n");
    assert_true(c->task == 1 && c->step == 0 && c->steps == 6);
    assert_string_equal(o.problem, "");
    add_text("run/cwd/events.jsonl", "{\"event\":\"task\",\"task\":3,\"accuracy\":50}\n");
    SUCCEEDS(rc_overview_update(&o));
    assert_true(c->done == 3 && isnan(c->accuracy[0]) && isnan(c->accuracy[1]) && c->accuracy[2] == 50);
    rc_overview_close(&o);
}

/* None of these changes anything. */
static void lines_that_do_not_fit_are_skipped(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "{\"event\":\"task\",\"task\":0,\"accuracy\":5}\n",
        "{\"event\":\"task\",\"task\":257,\"accuracy\":5}\n",
        "{\"event\":\"task\",\"task\":2,\"accuracy\":100.5}\n",
        "{\"event\":\"task\",\"task\":2,\"accuracy\":-1}\n",
        "{\"event\":\"task\",\"task\":2,\"accuracy\":null}\n",
        "{\"event\":\"task\",\"task\":\"2\",\"accuracy\":5}\n",
        "{\"event\":\"step\",\"task\":2,\"stage\":\"training\",\"step\":7,\"steps\":6}\n",
        "{\"event\":\"step\",\"task\":2,\"stage\":\"training\",\"step\":-7,\"steps\":6}\n",
        "{\"event\":\"step\",\"task\":2,\"stage\":\"training\",\"step\":1e300,\"steps\":1e301}\n",
        "{\"event\":\"step\",\"task\":2,\"stage\":\"\",\"step\":1,\"steps\":6}\n",
        "{\"event\":\"step\",\"task\":2,\"step\":1,\"steps\":6}\n",
        "{\"event\":\"step\",\"task\":300,\"stage\":\"training\",\"step\":1,\"steps\":6}\n",
        "{\"event\":\"other\",\"status\":\"failed\",\"message\":\"no room\"}\n",
        "{\"event\":7}\n",
        "{}\n",
        "nonsense\n",
        "\xFF\xFE\n",
        "{\"event\":\"step\",\"task\":2,\"sta",
    };
    rc_overview o;
    rc_seen_cell *c = see(&o, begin, step);
    add_text("run/cwd/events.jsonl", task);
    SUCCEEDS(rc_overview_update(&o));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        add_text("run/cwd/events.jsonl", wrong[i]);
        SUCCEEDS(rc_overview_update(&o));
        assert_true(c->done == 1 && c->accuracy[0] == 75.5 && c->task == 2 && c->step == 40 && c->losses == 2);
        assert_string_equal(c->stage, "training");
        assert_string_equal(c->end, "");
        assert_string_equal(c->message, "");
    }
    rc_overview_close(&o);
}

static void texts_and_lists_are_cut(void **state)
{
    (void)state;
    static char line[20000];
    rc_overview o;
    int used = sprintf(line, "{\"event\":\"run\",\"cell\":\"");
    for (int i = 0; i < 100; i++)
        used += sprintf(line + used, "\xC3\xA4"); /* two bytes each, so that 95 cuts one */
    used += sprintf(line + used, "\",\"task_sizes\":[1");
    for (int i = 0; i < 300; i++)
        used += sprintf(line + used, ",1");
    used += sprintf(line + used, "]}\n{\"event\":\"step\",\"task\":256,\"stage\":\"a stage of a long name\",\"step\":1,"
                                 "\"steps\":6,\"total_loss\":1,\"loss\":{\"x\":null");
    for (int i = 0; i < 40; i++)
        used += sprintf(line + used, ",\"a loss of a very long name %d\":%d", i, i);
    sprintf(line + used, "}}\n");
    const rc_seen_cell *c = see(&o, line, "");
    assert_int_equal(strlen(c->name), 94);
    assert_int_equal((unsigned char)c->name[93], 0xA4);
    assert_int_equal(c->tasks, 0);
    assert_string_equal(c->stage, "a stage of a lo");
    assert_int_equal(c->losses, RC_LOSS_COUNT);
    assert_string_equal(c->loss[0].name, "a loss of a very lon");
    assert_true(c->loss[RC_LOSS_COUNT - 1].value == RC_LOSS_COUNT - 1);
    rc_overview_close(&o);
}

/* ---- curves ------------------------------------------------------------------------------------------------------ */

static void add_step(int number, const char *stage, int at, int steps, double loss)
{
    char line[300];
    snprintf(line, sizeof line,
             "{\"event\":\"step\",\"task\":%d,\"stage\":\"%s\",\"step\":%d,\"steps\":%d,\"total_loss\":%g}\n", number,
             stage, at, steps, loss);
    add_text("run/cwd/events.jsonl", line);
}

static void curves_keep_their_shape_in_little_memory(void **state)
{
    (void)state;
    rc_overview o;
    data_write_text("run/cwd/events.jsonl", begin);
    for (int i = 0; i < 3000; i++)
        add_step(2, "training", i, 3000, 2 * i);
    SUCCEEDS(rc_overview_open(&o, "run"));
    SUCCEEDS(rc_overview_update(&o));
    const rc_loss_curve *curve = &o.cell[0]->curve[0];
    assert_in_range(curve->points, RC_CURVE_POINTS / 2, RC_CURVE_POINTS);
    assert_int_equal(curve->steps, 3000);
    assert_int_equal(curve->stride, 8);
    for (int i = 0; i < curve->points; i++) {
        assert_true(curve->step[i] == 8 * i);
        assert_true(curve->loss[i] == 2 * curve->step[i]);
    }
    assert_true(curve->step[curve->points - 1] >= 2990);
    rc_overview_close(&o);
}

static void a_task_has_a_curve_for_every_stage(void **state)
{
    (void)state;
    rc_overview o;
    data_write_text("run/cwd/events.jsonl", begin);
    add_step(1, "training", 1, 9, 5);
    add_step(2, "inversion", 1, 9, 1);
    add_step(2, "inversion", 2, 9, 2);
    add_step(2, "training", 3, 7, 3);
    add_step(2, "training", 5, 7, 4);
    add_step(2, "refinement", 1, 5, 4);
    SUCCEEDS(rc_overview_open(&o, "run"));
    SUCCEEDS(rc_overview_update(&o));
    const rc_loss_curve *curve = o.cell[0]->curve;
    static const char *const stages[] = {"refinement", "training", "inversion"};
    for (int i = 0; i < RC_CELL_CURVES; i++) {
        assert_string_equal(curve[i].stage, stages[i]);
        assert_int_equal(curve[i].task, 2);
    }
    assert_true(curve[1].points == 2 && curve[1].step[1] == 5 && curve[1].loss[1] == 4 && curve[1].steps == 7);
    /* Resumed before its last report, the stage repeats it. */
    add_step(2, "refinement", 3, 5, 6);
    add_step(2, "refinement", 2, 5, 7);
    add_step(2, "refinement", 3, 5, 8);
    SUCCEEDS(rc_overview_update(&o));
    assert_true(curve[0].points == 3 && curve[0].step[1] == 2 && curve[0].loss[1] == 7 && curve[0].loss[2] == 8);
    add_step(3, "inversion", 1, 9, 1);
    SUCCEEDS(rc_overview_update(&o));
    assert_string_equal(curve[0].stage, "inversion");
    assert_string_equal(curve[1].stage, "");
    assert_string_equal(curve[2].stage, "");
    rc_overview_close(&o);
}

/* ---- folders ----------------------------------------------------------------------------------------------------- */

static void cells_are_found_as_they_begin(void **state)
{
    (void)state;
    rc_overview o;
    assert_int_equal(rc_overview_open(&o, "run"), RC_IO);
    data_assert_message("cannot open 'run'");
    data_write_text("file", "");
    assert_int_equal(rc_overview_open(&o, "file"), RC_INVALID_ARGUMENT);
    data_assert_message("'file' is no folder");
    data_write_text("run/run.json", "{}");
    SUCCEEDS(rc_overview_open(&o, "run"));
    SUCCEEDS(rc_overview_update(&o));
    assert_int_equal(o.cells, 0);
    data_write_text("run/order-1/cwd/events.jsonl", begin);
    SUCCEEDS(rc_overview_update(&o));
    data_write_text("run/order-0/er/events.jsonl", "");
    data_write_text("run/order-0/first-task/events.jsonl",
                    "{\"event\":\"run\",\"cell\":\"All methods\",\"method\":\"first-task\",\"task_sizes\":[2]}\n");
    assert_int_equal(symlink("order-0", "run/link"), 0);
    assert_int_equal(mkdir("run/x", 0777), 0);
    assert_int_equal(symlink("../order-1/cwd/events.jsonl", "run/x/events.jsonl"), 0); /* nor a log elsewhere */
    SUCCEEDS(rc_overview_update(&o));
    SUCCEEDS(rc_overview_update(&o));
    assert_int_equal(o.cells, 3);
    assert_string_equal(o.cell[0]->name, "order-0/er");
    assert_string_equal(o.cell[1]->name, "All methods");
    assert_true(o.cell[1]->first_task && o.cell[1]->tasks == 1);
    assert_string_equal(o.cell[2]->name, "CwD");
    rc_overview_close(&o);
    SUCCEEDS(rc_overview_open(&o, "run/order-1/cwd")); /* one cell alone */
    SUCCEEDS(rc_overview_update(&o));
    assert_int_equal(o.cells, 1);
    rc_overview_close(&o);
}

static void folders_are_looked_into_six_deep(void **state)
{
    (void)state;
    rc_overview o;
    data_write_text("run/1/2/3/4/5/6/events.jsonl", begin);
    data_write_text("run/1/2/3/4/5/6/7/events.jsonl", begin);
    SUCCEEDS(rc_overview_open(&o, "run"));
    SUCCEEDS(rc_overview_update(&o));
    assert_int_equal(o.cells, 1);
    assert_string_equal(o.cell[0]->folder, "run/1/2/3/4/5/6");
    rc_overview_close(&o);
}

static void logs_that_are_cut_or_removed_are_forgotten(void **state)
{
    (void)state;
    rc_overview o;
    rc_seen_cell *c = see(&o, begin, task);
    add_text("run/cwd/events.jsonl", step);
    SUCCEEDS(rc_overview_update(&o));
    assert_int_equal(c->losses, 2);
    assert_int_equal(truncate("run/cwd/events.jsonl", (off_t)strlen(begin)), 0);
    SUCCEEDS(rc_overview_update(&o));
    assert_true(c->losses == 0 && c->done == 0 && c->tasks == 3 && c->curve[0].stage[0] == '\0');
    assert_string_equal(c->name, "CwD");
    assert_int_equal(unlink("run/cwd/events.jsonl"), 0);
    SUCCEEDS(rc_overview_update(&o));
    assert_int_equal(o.cells, 0);
    data_write_text("run/cwd/events.jsonl", begin);
    SUCCEEDS(rc_overview_update(&o));
    assert_int_equal(o.cells, 1);
    rc_overview_close(&o);
}

static void without_memory_nothing_is_lost(void **state)
{
    (void)state;
    size_t before = rc_bytes_allocated();
    data_write_text("run/cwd/events.jsonl", begin);
    data_write_text("run/er/events.jsonl", begin);
    add_text("run/er/events.jsonl", task);
    for (int nth = 1, failed = 1; failed; nth++) {
        rc_overview o;
        SUCCEEDS(rc_overview_open(&o, "run"));
        allocation_to_fail = nth;
        rc_status status = rc_overview_update(&o);
        failed = allocation_failed();
        assert_int_equal(status, failed ? RC_OUT_OF_MEMORY : RC_OK);
        assert_true(failed || nth > 8);
        SUCCEEDS(rc_overview_update(&o));
        assert_int_equal(o.cells, 2);
        assert_true(o.cell[0]->tasks == 3 && o.cell[1]->tasks == 3);
        rc_overview_close(&o);
        assert_int_equal(rc_bytes_allocated(), before);
    }
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, data_enter_folder, data_leave_folder)
    const struct CMUnitTest tests[] = {
        IN_FOLDER(a_cell_is_where_its_last_line_says),
        IN_FOLDER(first_steps_count_and_lost_tasks_have_no_accuracy),
        IN_FOLDER(lines_that_do_not_fit_are_skipped),
        IN_FOLDER(texts_and_lists_are_cut),
        IN_FOLDER(curves_keep_their_shape_in_little_memory),
        IN_FOLDER(a_task_has_a_curve_for_every_stage),
        IN_FOLDER(cells_are_found_as_they_begin),
        IN_FOLDER(folders_are_looked_into_six_deep),
        IN_FOLDER(logs_that_are_cut_or_removed_are_forgotten),
        IN_FOLDER(without_memory_nothing_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
