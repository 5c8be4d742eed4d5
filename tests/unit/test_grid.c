/* Methods times class orders: side by side they give the same bits as one after the other, a failing cell leaves the
 * others alone, finished cells are not run again, a stopped grid goes on; the turns that cells take; mean and
 * deviation. Also run under the thread sanitizer. */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/memory.h"
#include "experiment/experiment.h"
#include "experiment/summary.h"
#include "support/data_files.h"
#include "support/page.h"
#include "support/succeeds.h"

/* ---- a grid of two methods and two orders --------------------------------------------------------------------- */

enum { CLASSES = 4 };

typedef struct watcher {
    page results;
    data_log log;
    atomic_int asked; /* how often somebody wanted to know whether to stop */
    int stop_at;      /* the question that is answered with yes, and all after it; 0: none */
} watcher;

static bool stop(void *user)
{
    watcher *w = user;
    return atomic_fetch_add(&w->asked, 1) + 1 >= w->stop_at && w->stop_at > 0;
}

static void add_line(void *user, const char *text)
{
    page_add_line(&((watcher *)user)->results, text);
}

static void set(rc_config *config, const char *key, const char *value)
{
    SUCCEEDS(rc_config_set(config, key, value));
}

static const rc_method *method(const char *name)
{
    const rc_method *found;
    SUCCEEDS(rc_method_find(name, &found));
    return found;
}

/* Four classes of ten pictures of 14 x 14 pixels, each of one colour. */
static void write_pictures(void)
{
    for (int k = 0; k < CLASSES; k++)
        for (int i = 0; i < 10; i++) {
            char path[64];
            snprintf(path, sizeof path, "photos/class-%d/%d.ppm", k, i);
            data_write_colour(path, 14, 14, 20 + 60 * k + i, 200 - 50 * k + 2 * i, (60 * k * k + i) % 256);
        }
}

static rc_run_settings grid_settings(watcher *w, const char *out, int jobs)
{
    *w = (watcher){.asked = 0};
    data_log_start(&w->log);
    rc_run_settings s = {.config = rc_config_default(),
                         .method = {method("cwd"), method("finetune")},
                         .methods = 2,
                         .order = {0, 1},
                         .orders = 2,
                         .backend = "cpu",
                         .threads = 2,
                         .jobs = jobs,
                         .out = out,
                         .checkpoint_seconds = 120,
                         .report_seconds = 0,
                         .line = add_line,
                         .watch = {.log = w->log.log, .cancelled = stop, .user = w}};
    static const char *const value[][2] = {{"data", "photos"},       {"class_order", "published"},
                                           {"tasks", "2"},           {"net", "resnet-small"},
                                           {"net_width", "4"},       {"generator", "generator-small"},
                                           {"generator_width", "8"}, {"noise", "16"},
                                           {"batch", "8"},           {"epochs", "2"},
                                           {"refine_epochs", "1"},   {"inversion_steps", "3"}};
    for (size_t i = 0; i < sizeof value / sizeof *value; i++)
        set(&s.config, value[i][0], value[i][1]);
    return s;
}

static void run_grid(const rc_run_settings *s, const watcher *w)
{
    if (rc_experiment_run(s) != RC_OK)
        fail_msg("%s\n%s", rc_message(), w->log.text);
}

static void assert_same_file(const char *a, const char *b, const char *name)
{
    char path[256], *left, *right;
    size_t left_size, right_size;
    snprintf(path, sizeof path, "%s/%s", a, name);
    SUCCEEDS(rc_file_read(path, 1 << 24, &left, &left_size));
    snprintf(path, sizeof path, "%s/%s", b, name);
    SUCCEEDS(rc_file_read(path, 1 << 24, &right, &right_size));
    if (left_size != right_size || memcmp(left, right, left_size) != 0)
        fail_msg("%s and %s differ in %s", a, b, name);
    rc_free(NULL, left);
    rc_free(NULL, right);
}

static void assert_same_models(const char *a, const char *b)
{
    static const char *const name[] = {"order-0/first-task/task-1", "order-0/cwd/task-2", "order-0/finetune/task-2",
                                       "order-1/first-task/task-1", "order-1/cwd/task-2", "order-1/finetune/task-2"};
    for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
        char file[128];
        snprintf(file, sizeof file, "%s.safetensors", name[i]);
        assert_same_file(a, b, file);
    }
}

static void assert_holds(const char *text, const char *piece)
{
    if (strstr(text, piece) == NULL)
        fail_msg("'%s' is not in: %s", piece, text);
}

static void assert_file_holds(const char *path, const char *piece)
{
    char *text;
    size_t size;
    SUCCEEDS(rc_file_read(path, 1 << 24, &text, &size));
    assert_holds(text, piece);
    rc_free(NULL, text);
}

static void cells_side_by_side_give_the_same_bits(void **state)
{
    (void)state;
    watcher alone, beside, one;
    write_pictures();
    rc_run_settings first = grid_settings(&alone, "alone", 1), second = grid_settings(&beside, "beside", 2);
    rc_run_settings third = grid_settings(&one, "one", 1);
    run_grid(&first, &alone);
    run_grid(&second, &beside);
    assert_same_models("alone", "beside");
    assert_holds(beside.results.text, "order 0, CwD, task 2 of 2: accuracy ");
    assert_holds(beside.results.text, "order 1, Fine-tuning, task 2 of 2: accuracy ");
    const char *means = strstr(beside.results.text, "mean over runs");
    assert_non_null(means);
    assert_holds(means, "of statistics\n"); /* what CwD keeps, and fine-tuning */
    assert_holds(means, "  nothing\n");
    /* A run of one order in a folder of its own is the same as a part of the grid. */
    third.orders = 0;
    third.config.order = 1;
    third.threads = 1;
    run_grid(&third, &one);
    assert_same_file("beside/order-1/cwd", "one/cwd", "task-2.safetensors");
    for (int i = 0; i < 3; i++) {
        static const char *const name[] = {"beside/summary.json", "beside/summary.csv", "one/summary.txt"};
        assert_int_equal(access(name[i], F_OK), 0);
    }
    assert_file_holds("beside/summary.json", "\"path\": \"order-1/cwd\"");
    assert_file_holds("beside/summary.json", "\"runs_done\": 2");
    assert_file_holds("beside/summary.json", "\"data_free\": true");
    assert_file_holds("beside/summary.csv", ",0,0,0\n");
    assert_file_holds("beside/order-1/cwd/results.json", "\"stage_seconds\"");
}

/* WAR of an absurd weight takes CwD beyond all numbers, in every order; fine-tuning has no such loss. */
static void a_failing_cell_leaves_the_others_alone(void **state)
{
    (void)state;
    watcher w, whole;
    write_pictures();
    rc_run_settings s = grid_settings(&w, "failing", 2), good = grid_settings(&whole, "good", 1);
    set(&s.config, "lambda_war", "1000000");
    rc_status status = rc_experiment_run(&s);
    if (status != RC_NUMERIC)
        fail_msg("%s: %s", recollect_status_text(status), rc_message());
    data_assert_message("2 of 4 failed, the others are done");
    assert_holds(w.log.text, "order 0, CwD: task 2, ");
    assert_holds(w.log.text, "order 1, CwD: task 2, ");
    run_grid(&good, &whole);
    assert_same_file("failing/order-0/finetune", "good/order-0/finetune", "confusion.csv");
    assert_same_file("failing/order-1/finetune", "good/order-1/finetune", "confusion.csv");
    assert_file_holds("failing/summary.json", "\"state\": \"failed\"");
    assert_file_holds("failing/summary.json", "\"state\": \"done\"");
}

static void what_is_done_is_not_done_again(void **state)
{
    (void)state;
    watcher w;
    write_pictures();
    rc_run_settings s = grid_settings(&w, "grid", 1);
    s.orders = 1;
    run_grid(&s, &w);
    /* Another order, and another method in both. */
    s = grid_settings(&w, "grid", 2);
    s.method[s.methods++] = method("rdfcil");
    assert_int_equal(rc_experiment_run(&s), RC_INVALID_ARGUMENT);
    data_assert_message("holds a run already");
    s.resume = true;
    run_grid(&s, &w);
    assert_null(strstr(w.results.text, "order 0, CwD, task"));
    assert_null(strstr(w.results.text, "order 0, All methods, task"));
    assert_holds(w.results.text, "order 0, R-DFCIL, task 2 of 2");
    assert_holds(w.results.text, "order 1, CwD, task 2 of 2");
    /* Nothing is left to do: nothing is trained, not even a first task that is lost, which nobody needs any more. */
    assert_int_equal(remove("grid/order-0/first-task/results.json"), 0);
    s = grid_settings(&w, "grid", 2);
    s.resume = true;
    run_grid(&s, &w);
    assert_null(strstr(w.results.text, ", task "));
    assert_holds(w.results.text, "mean over runs");
}

static void orders_and_seeds_have_folders_of_their_own(void **state)
{
    (void)state;
    watcher w;
    write_pictures();
    rc_run_settings s = grid_settings(&w, "seeds", 2);
    s.orders = 0;
    s.seed[s.seeds++] = 7;
    s.seed[s.seeds++] = 8;
    s.method[0] = s.method[--s.methods];
    run_grid(&s, &w);
    assert_file_holds("seeds/seed-7/run.json", "\"seed\": 7");
    assert_file_holds("seeds/seed-8/finetune/results.json", "\"seed\": 8");
    assert_holds(w.results.text, "seed 8, Fine-tuning, task 2 of 2");
    s = grid_settings(&w, "both", 2);
    s.orders = 1;
    s.seed[s.seeds++] = 9223372036854775807u;
    s.method[0] = s.method[--s.methods];
    run_grid(&s, &w);
    assert_int_equal(access("both/order-0-seed-9223372036854775807/finetune/task-2.safetensors", F_OK), 0);
    /* A run of one order does not begin between them, nor they in its folder. */
    s = grid_settings(&w, "both/order-0-seed-9223372036854775807", 2);
    assert_int_equal(rc_experiment_run(&s), RC_INVALID_ARGUMENT);
    data_assert_message("holds a run of one order");
}

static void a_stopped_grid_goes_on(void **state)
{
    (void)state;
    watcher w;
    write_pictures();
    rc_run_settings s = grid_settings(&w, "whole", 2);
    run_grid(&s, &w);
    int questions = atomic_load(&w.asked), lives = 0;
    for (int part = 1; part <= 4; part++) {
        s = grid_settings(&w, "stopped", 2);
        s.resume = true;
        w.stop_at = part < 4 ? questions / 5 : 0;
        rc_status status = rc_experiment_run(&s);
        assert_int_equal(status, part < 4 ? RC_CANCELLED : RC_OK);
        lives += status == RC_CANCELLED;
    }
    assert_int_equal(lives, 3);
    assert_same_models("whole", "stopped");
}

/* ---- how far it is -------------------------------------------------------------------------------------------- */

static struct {
    double part[64]; /* that is done, as told */
    int told;
} parts;

static void keep_part(void *user, const char *where, const recollect_progress *p)
{
    (void)user;
    (void)where;
    if (p->stage == RECOLLECT_STAGE_READING)
        return;
    assert_true(parts.told < 64);
    assert_true(isnan(p->seconds_left) || p->seconds_left == 0);
    parts.part[parts.told++] = p->fraction;
}

/* Stages that tell no more than their end are never timed: steps count by their arithmetic then. ER, whose two tasks
 * have as many steps, trains a first task of its own; the one for other methods is no part of its run. */
static void what_is_not_timed_comes_to_its_end(void **state)
{
    (void)state;
    watcher w;
    write_pictures();
    rc_run_settings s = grid_settings(&w, "er", 1);
    s.method[0] = method("er");
    s.methods = s.orders = 1;
    s.report_seconds = 3600;
    s.watch.progress = keep_part;
    parts.told = 0;
    run_grid(&s, &w);
    assert_int_equal(parts.told, 2);
    assert_true(parts.part[0] == 0.5 && parts.part[1] == 1);
    for (int jobs = 1; jobs <= 2; jobs++) {
        s = grid_settings(&w, jobs == 1 ? "one" : "two", jobs);
        s.report_seconds = 3600;
        s.watch.progress = keep_part;
        parts.told = 0;
        run_grid(&s, &w);
        assert_true(parts.told > 8 && parts.part[0] > 0 && parts.part[0] < 0.25);
        for (int i = 1; i < parts.told; i++)
            assert_true(parts.part[i] > parts.part[i - 1]);
        assert_true(parts.part[parts.told - 1] == 1);
    }
}

/* ---- no memory beside the others ------------------------------------------------------------------------------ */

static struct {
    bool on;
    pthread_t main; /* whose cell has all it wants */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool main_runs, refused;
    bool damages; /* the results of both first tasks meanwhile */
    bool late;    /* the refusal comes when the first thread has nothing left to do */
    bool other_runs, main_left;
} scarce = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static bool is_set(const bool *flag)
{
    pthread_mutex_lock(&scarce.lock);
    bool set = *flag;
    pthread_mutex_unlock(&scarce.lock);
    return set;
}

static void set_flag(bool *flag)
{
    pthread_mutex_lock(&scarce.lock);
    *flag = true;
    pthread_cond_broadcast(&scarce.changed);
    pthread_mutex_unlock(&scarce.lock);
}

/* Sleeps, so that on a single core the other thread runs. Gives up after a while: should the other thread never come to
 * where it sets the flag, the test fails instead of hanging. */
static void wait_for(const bool *flag)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 60;
    pthread_mutex_lock(&scarce.lock);
    for (int error = 0; !*flag && error == 0;)
        error = pthread_cond_timedwait(&scarce.changed, &scarce.lock, &until);
    pthread_mutex_unlock(&scarce.lock);
}

int __real_posix_memalign(void **block, size_t align, size_t size);
int __wrap_posix_memalign(void **block, size_t align, size_t size);

/* The first thread waits for the others when it finds no cell any more. */
int __real_pthread_join(pthread_t thread, void **result);
int __wrap_pthread_join(pthread_t thread, void **result);

int __wrap_pthread_join(pthread_t thread, void **result)
{
    if (scarce.on && pthread_equal(pthread_self(), scarce.main))
        set_flag(&scarce.main_left);
    return __real_pthread_join(thread, result);
}

/* The second thread's first wish is refused, while the cell of the first one runs, or later. */
int __wrap_posix_memalign(void **block, size_t align, size_t size)
{
    if (scarce.on && !pthread_equal(pthread_self(), scarce.main) && !is_set(&scarce.refused)) {
        wait_for(&scarce.main_runs);
        if (scarce.late) {
            set_flag(&scarce.other_runs);
            wait_for(&scarce.main_left);
        }
        if (scarce.damages) {
            data_write_text("scarce/order-0/first-task/results.json", "{");
            data_write_text("scarce/order-1/first-task/results.json", "{");
        }
        set_flag(&scarce.refused);
        return ENOMEM;
    }
    return __real_posix_memalign(block, align, size);
}

static void see_main_run(void *user, const char *where, const recollect_progress *progress)
{
    (void)user;
    (void)progress;
    if (strstr(where, "task 1 of 2") != NULL) /* it has read its images before */
        set_flag(&scarce.main_runs);
}

/* Keeps the first cell until the second has got its refusal, or comes to it. */
static bool stop_after_refusal(void *user)
{
    if (pthread_equal(pthread_self(), scarce.main) && is_set(&scarce.main_runs))
        wait_for(scarce.late ? &scarce.other_runs : &scarce.refused);
    return stop(user);
}

static rc_status run_with_a_refusal(rc_run_settings *s)
{
    s->threads = 1; /* so that no thread but the jobs asks for memory */
    s->watch.progress = see_main_run;
    s->watch.cancelled = stop_after_refusal;
    scarce.main = pthread_self();
    scarce.main_runs = scarce.refused = scarce.other_runs = scarce.main_left = false;
    scarce.on = true;
    rc_status status = rc_experiment_run(s);
    scarce.on = false;
    return status;
}

static void a_cell_without_memory_waits_for_the_others(void **state)
{
    (void)state;
    watcher w;
    write_pictures();
    rc_run_settings s = grid_settings(&w, "whole", 1);
    run_grid(&s, &w);
    s = grid_settings(&w, "scarce", 2);
    SUCCEEDS(run_with_a_refusal(&s));
    assert_holds(w.log.text,
                 "All methods found no memory beside the others and goes on later; 1 side by side from here");
    assert_same_models("whole", "scarce");
}

/* All others have found nothing to do and are gone by then: the cell goes on at once. (ER trains a first task of its
 * own, so that both cells may begin.) */
static void a_cell_without_memory_outlasts_the_others(void **state)
{
    (void)state;
    watcher w;
    write_pictures();
    rc_run_settings s = grid_settings(&w, "whole", 1);
    s.method[0] = method("er");
    s.methods = 1;
    run_grid(&s, &w);
    rc_run_settings late = grid_settings(&w, "scarce", 2);
    late.method[0] = method("er");
    late.methods = 1;
    scarce.late = true;
    rc_status status = run_with_a_refusal(&late);
    scarce.late = false;
    if (status != RC_OK)
        fail_msg("%s\n%s", rc_message(), w.log.text);
    assert_holds(w.log.text, "ER found no memory beside the others and goes on later; 1 side by side from here");
    assert_same_file("whole/order-0/er", "scarce/order-0/er", "task-2.safetensors");
    assert_same_file("whole/order-1/er", "scarce/order-1/er", "task-2.safetensors");
}

/* What it goes on from is looked at once more, and is the reason then. */
static void a_cell_without_memory_and_results_fails_for_its_results(void **state)
{
    (void)state;
    watcher w;
    write_pictures();
    rc_run_settings s = grid_settings(&w, "scarce", 2);
    scarce.damages = true;
    assert_int_equal(run_with_a_refusal(&s), RC_FORMAT);
    scarce.damages = false;
    assert_holds(w.log.text, "All methods: scarce/order-");
    assert_holds(w.log.text, "/first-task/results.json, line 1, column 2: ");
}

static void wrong_lists_are_refused(void **state)
{
    (void)state;
    watcher w;
    rc_run_settings s = grid_settings(&w, "no", 1);
    s.method[1] = s.method[0];
    assert_int_equal(rc_experiment_run(&s), RC_INVALID_ARGUMENT);
    data_assert_message("method cwd is listed twice");
    s = grid_settings(&w, "no", 1);
    s.order[1] = 0;
    assert_int_equal(rc_experiment_run(&s), RC_INVALID_ARGUMENT);
    data_assert_message("order 0 is listed twice");
    s = grid_settings(&w, "no", 1);
    set(&s.config, "class_order", "natural");
    assert_int_equal(rc_experiment_run(&s), RC_INVALID_ARGUMENT);
    data_assert_message("order 1 would be the same as order 0");
    assert_int_not_equal(access("no", F_OK), 0);
}

/* ---- numbers by hand ------------------------------------------------------------------------------------------ */

static void near(double value, double expected)
{
    if (!(fabs(value - expected) < 1e-12))
        fail_msg("%.15g, expected %.15g", value, expected);
}

static void cells_take_their_turns(void **state)
{
    (void)state;
    rc_cell cell[6] = {{.first_task = true}, {.first = &cell[0]}, {.first = &cell[0]},
                       {.first_task = true}, {.first = &cell[3]}, {.first = &cell[3]}};
    rc_cell_state waits[6] = {RC_CELL_WAITS};
    double left[6] = {2, 5, 7, 3, 4, 1};
    near(rc_grid_seconds(cell, 6, 1, waits, left), 22);
    /* 0: first 0 and first 3; 2: 1 begins; 3: 2 begins; 7: 4; 10: 5; ends at 11. */
    near(rc_grid_seconds(cell, 6, 2, waits, left), 11);
    /* 0: both first tasks, nothing else can; 2: 1 and 2; 3: (2 jobs are busy) 4; 7: 5; ends at 9 with number 2. */
    near(rc_grid_seconds(cell, 6, 3, waits, left), 9);
    rc_cell_state later[6] = {RC_CELL_ENDED, RC_CELL_RUNS, RC_CELL_ENDED, RC_CELL_ENDED, RC_CELL_WAITS, RC_CELL_ENDED};
    near(rc_grid_seconds(cell, 6, 1, later, left), 9);
    near(rc_grid_seconds(cell, 6, 2, later, left), 5);
    left[4] = NAN;
    assert_true(isnan(rc_grid_seconds(cell, 6, 2, later, left)));
    cell[4].results.done = 1; /* has begun in an earlier life: needs no first task */
    left[4] = 4;
    rc_cell_state resumed[6] = {RC_CELL_ENDED, RC_CELL_ENDED, RC_CELL_ENDED,
                                RC_CELL_WAITS, RC_CELL_WAITS, RC_CELL_WAITS};
    near(rc_grid_seconds(cell, 6, 2, resumed, left), 4);
}

static void mean_and_deviation(void **state)
{
    (void)state;
    const double values[] = {52.1, 52.4, 53.2};
    rc_spread three = rc_spread_of(values, 3), one = rc_spread_of(values, 1), none = rc_spread_of(values, 0);
    near(three.mean, 157.7 / 3);
    near(three.deviation, 0.56862407030773265); /* squares of -14/30, -5/30, 19/30 add up to 582/900; over 2 */
    near(one.mean, 52.1);
    assert_true(isnan(one.deviation) && isnan(none.mean) && isnan(none.deviation));
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, data_enter_folder, data_leave_folder)
    const struct CMUnitTest tests[] = {
        IN_FOLDER(cells_side_by_side_give_the_same_bits),
        IN_FOLDER(a_failing_cell_leaves_the_others_alone),
        IN_FOLDER(what_is_done_is_not_done_again),
        IN_FOLDER(a_stopped_grid_goes_on),
        IN_FOLDER(orders_and_seeds_have_folders_of_their_own),
        IN_FOLDER(what_is_not_timed_comes_to_its_end),
        IN_FOLDER(wrong_lists_are_refused),
        IN_FOLDER(a_cell_without_memory_waits_for_the_others),
        IN_FOLDER(a_cell_without_memory_outlasts_the_others),
        IN_FOLDER(a_cell_without_memory_and_results_fails_for_its_results),
        cmocka_unit_test(cells_take_their_turns),
        cmocka_unit_test(mean_and_deviation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
