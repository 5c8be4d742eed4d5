/* How much a cell has to do, counted by hand: steps, images, and whether anything is left. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "experiment/grid.h"
#include "support/succeeds.h"

enum { CLASSES = 6, TASKS = 3 };

static int images[CLASSES] = {1, 2, 4, 8, 16, 32}; /* 3, 12 and 48 of the tasks */
static const rc_dataset data = {.h = 5, .w = 7, .c = 3, .mean = {0.25f, 0.5f, 0.75f, 1}, .std = {1, 2, 3, 4}};
static rc_trial trial = {.data = &data,
                         .stream = {.classes = CLASSES, .tasks = TASKS, .task_end = {2, 4, 6}},
                         .tasks = TASKS,
                         .images = images};

static int set_up(void **state)
{
    (void)state;
    trial.config = rc_config_default();
    SUCCEEDS(rc_config_set(&trial.config, "batch", "2"));
    return 0;
}

/* The first method for which the question is answered with yes, or with no. */
static const rc_method *find_method(bool (*is)(const rc_method *), bool yes)
{
    const rc_method *found = NULL;
    for (int i = 0; found == NULL; i++) {
        assert_non_null(rc_method_at(i));
        found = is(rc_method_at(i)) == yes ? rc_method_at(i) : NULL;
    }
    return found;
}

/* Steps of a task with that many images. */
static void add(rc_workload *work, const rc_cell *cell, int task, int count)
{
    rc_workload_add(work, &trial.config.settings, cell->method, 2 * task, 2, count);
}

static void work_is_that_of_the_tasks_to_come(void **state)
{
    (void)state;
    static const int own[TASKS] = {3, 12, 48}, all[TASKS] = {3, 15, 63};
    for (int old = 0; old < 2; old++)
        for (int shares = 0; shares < 2; shares++)
            for (int from = 0; from <= TASKS; from++) {
                const rc_cell first = {.trial = &trial};
                const rc_cell cell = {.trial = &trial,
                                      .method = find_method(rc_method_trains_on_old_images, old),
                                      .first = shares ? &first : NULL};
                rc_workload work = rc_cell_work(&cell, from), expected = {0};
                for (int task = from == 0 && shares ? 1 : from; task < TASKS; task++)
                    add(&expected, &cell, task, (old ? all : own)[task]);
                assert_memory_equal(&work, &expected, sizeof work);
                assert_true((rc_workload_steps(&work) > 0) == (from < TASKS));
            }
}

static void images_are_those_of_the_largest_task(void **state)
{
    (void)state;
    size_t image = 5 * 7 * 3;
    for (int old = 0; old < 2; old++) {
        const rc_cell cell = {.trial = &trial, .method = find_method(rc_method_takes_old_images, old)};
        size_t held = (size_t)rc_held_images(cell.method, &trial.config.settings);
        assert_int_equal(rc_cell_image_bytes(&cell), (held + (old ? 63 : 48)) * image);
    }
    const rc_method *holds = NULL;
    for (int i = 0; holds == NULL; i++)
        holds = rc_held_images(rc_method_at(i), &trial.config.settings) > 0 ? rc_method_at(i) : NULL;
    const rc_cell cell = {.trial = &trial, .method = holds};
    size_t held = (size_t)rc_held_images(holds, &trial.config.settings);
    assert_int_equal(rc_cell_image_bytes(&cell), (held + 48) * image);
    const rc_cell first = {.trial = &trial, .method = rc_first_task_method(), .first_task = true};
    assert_int_equal(rc_cell_image_bytes(&first), 3 * image);
    const rc_augment shape = rc_image_of(&data);
    assert_true(shape.h == 5 && shape.w == 7 && shape.c == 3);
    assert_memory_equal(shape.mean, data.mean, sizeof shape.mean);
    assert_memory_equal(shape.std, data.std, sizeof shape.std);
    assert_true(rc_first_task_method()->dce);
}

static void what_is_done_is_known(void **state)
{
    (void)state;
    rc_trial short_trial = trial;
    short_trial.tasks = 2;
    rc_cell cell[3] = {{.trial = &short_trial, .first_task = true},
                       {.trial = &short_trial, .first = &cell[0]},
                       {.trial = &short_trial}};
    assert_true(rc_cell_tasks(&cell[0]) == 1 && rc_cell_tasks(&cell[1]) == 2);
    for (int done = 0; done <= 3; done++) {
        cell[0].results.done = cell[1].results.done = done;
        assert_int_equal(rc_cell_done(&cell[0]), done >= 1);
        assert_int_equal(rc_cell_done(&cell[1]), done >= 2);
    }
    /* done of the first task, of the method that begins from it, elsewhere; who has work */
    static const int cases[][6] = {{0, 0, 0, 1, 1, 1}, {1, 0, 0, 0, 1, 1}, {0, 1, 0, 0, 1, 1},
                                   {0, 2, 0, 0, 0, 1}, {0, 0, 1, 0, 0, 0}, {1, 2, 0, 0, 0, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cell[0].results.done = cases[i][0];
        cell[1].results.done = cases[i][1];
        cell[0].elsewhere = cell[1].elsewhere = cell[2].elsewhere = cases[i][2];
        for (int k = 0; k < 3; k++)
            assert_int_equal(rc_grid_has_work(cell, 3, NULL, k), cases[i][3 + k]);
    }
    rc_cell_state now[3] = {RC_CELL_WAITS, RC_CELL_RUNS, RC_CELL_WAITS};
    cell[0].results.done = cell[1].results.done = 0;
    cell[0].elsewhere = cell[1].elsewhere = false;
    assert_false(rc_grid_has_work(cell, 3, now, 0)); /* whoever needed it runs, and counts its own tasks meanwhile */
    now[1] = RC_CELL_WAITS;
    assert_true(rc_grid_has_work(cell, 3, now, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_is_that_of_the_tasks_to_come),
        cmocka_unit_test(images_are_those_of_the_largest_task),
        cmocka_unit_test(what_is_done_is_known),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
