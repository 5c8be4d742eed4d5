/* A run in several processes, played by two threads of one (threads_module.c): its files are those of one process, it
 * goes on from a checkpoint, one process alone writes and tells, and what does not fit together is refused word for
 * word. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "backend/open.h"
#include "base/file.h"
#include "base/machine.h"
#include "base/memory.h"
#include "experiment/run_data.h"
#include "model/fingerprint.h"
#include "support/small_run.h"
#include "support/succeeds.h"

static small_run leads, follows;
static rc_status followed;

static int enter(void **state)
{
    setenv("RECOLLECT_MPI_MODULE", RC_THREADS_MODULE, 1);
    setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
    return small_run_enter(state);
}

static int leave(void **state)
{
    unsetenv("RECOLLECT_MPI_MODULE");
    unsetenv("OMPI_COMM_WORLD_SIZE");
    return data_leave_folder(state);
}

static void start(small_run *run, const char *out)
{
    small_run_start(run, out);
    run->log.log.level = run->settings.watch.log.level = RC_LOG_INFO;
}

static void start_both(const char *out)
{
    start(&leads, out);
    start(&follows, out);
}

static void set_both(const char *key, const char *value)
{
    small_run_set(&leads, key, value);
    small_run_set(&follows, key, value);
}

static void *follow(void *user)
{
    (void)user;
    followed = rc_experiment_run(&follows.settings);
    return NULL;
}

/* What the leader ends with. The other one ends well, and says nothing. */
static rc_status run_both(void)
{
    pthread_t other;
    size_t before = rc_bytes_allocated();
    assert_int_equal(pthread_create(&other, NULL, follow, NULL), 0);
    rc_status status = rc_experiment_run(&leads.settings);
    pthread_join(other, NULL);
    assert_int_equal(rc_bytes_allocated(), before);
    assert_int_equal(followed, RC_OK);
    assert_int_equal(follows.results.used, 0);
    assert_int_equal(follows.progress.used, 0);
    assert_int_equal(follows.log.lines, 0);
    return status;
}

static void run_alone(const char *out)
{
    start(&leads, out);
    leads.settings.alone = true;
    small_run_do(&leads);
}

static void assert_same_results(const char *a, const char *b)
{
    static const char *const name[] = {"cwd/classes.csv", "cwd/confusion.csv", "finetune/classes.csv",
                                       "finetune/confusion.csv"};
    for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
        char path[64], *left, *right;
        size_t size;
        snprintf(path, sizeof path, "%s/%s", a, name[i]);
        SUCCEEDS(rc_file_read(path, 1 << 20, &left, &size));
        snprintf(path, sizeof path, "%s/%s", b, name[i]);
        SUCCEEDS(rc_file_read(path, 1 << 20, &right, &size));
        assert_string_equal(left, right);
        rc_free(NULL, left);
        rc_free(NULL, right);
    }
}

static void assert_file_holds(const char *path, const char *piece)
{
    char *text;
    size_t size;
    SUCCEEDS(rc_file_read(path, 1 << 20, &text, &size));
    if (strstr(text, piece) == NULL)
        fail_msg("'%s' is not in: %s", piece, text);
    rc_free(NULL, text);
}

static void two_processes_run_what_one_runs(void **state)
{
    (void)state;
    static page alone;
    run_alone("alone");
    assert_null(strstr(leads.log.text, "processes"));
    alone = leads.progress;
    start_both("both");
    leads.settings.threads = follows.settings.threads = 3;
    leads.settings.jobs = follows.settings.jobs = 2;
    SUCCEEDS(run_both());
    assert_non_null(strstr(leads.log.text, "2 processes work together, 2 of them on this machine\n"));
    assert_string_equal(leads.progress.text, alone.text);
    assert_same_results("alone", "both");
    assert_file_holds("both/run.json", "\"threads\": 3");
    /* By themselves they share the cores of the machine. */
    start_both("shared");
    leads.settings.threads = follows.settings.threads = 0;
    leads.settings.stop_after = follows.settings.stop_after = 1;
    SUCCEEDS(run_both());
    char threads[32];
    int cores = rc_machine_cores();
    snprintf(threads, sizeof threads, "\"threads\": %d,", cores > 2 ? cores / 2 : 1);
    assert_file_holds("shared/run.json", threads);
}

/* In the second task, in the middle of a stage; and in the first one, which begins with no model. */
static void two_processes_go_on_from_a_checkpoint(void **state)
{
    (void)state;
    static const char *const places[] = {
        "All methods, task 1 of 2: training 1 3/4 1/2", "CwD, task 2 of 2: inversion 2 2/3 0/0",
        "CwD, task 2 of 2: training 2 2/4 0/2", "CwD, task 2 of 2: refinement 2 1/2 0/1"};
    run_alone("alone");
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        start_both("both");
        leads.settings.resume = follows.settings.resume = i > 0;
        leads.stop_at = places[i];
        if (run_both() != RC_CANCELLED)
            fail_msg("%s: %s\n%s", places[i], rc_message(), leads.progress.text);
    }
    start_both("both");
    leads.settings.resume = follows.settings.resume = true;
    SUCCEEDS(run_both());
    assert_same_results("alone", "both");
}

static void a_batch_that_cannot_be_shared_is_refused(void **state)
{
    (void)state;
    start_both("out");
    set_both("batch", "7");
    REFUSED(
        run_both(), RC_INVALID_ARGUMENT,
        "the setting 'batch' is 7, which 2 processes cannot share in equal parts: choose a batch that 2 divides, or "
        "another number of processes");
    set_both("batch", "6");
    set_both("mixup", "0.5");
    REFUSED(run_both(), RC_INVALID_ARGUMENT,
            "the settings 'mixup' and 'cutmix' mix neighbours, and of the batch of 6 each of 2 processes has 3 images: "
            "choose a batch that 4 divides");
    assert_int_not_equal(access("out", F_OK), 0);
    /* The leader looks at the folder, and it alone. */
    char message[RC_MESSAGE_SIZE];
    data_write_text("file", "");
    start(&leads, "file");
    leads.settings.alone = true;
    assert_int_equal(rc_experiment_run(&leads.settings), RC_INVALID_ARGUMENT);
    snprintf(message, sizeof message, "%s", rc_message());
    start_both("file");
    REFUSED(run_both(), RC_INVALID_ARGUMENT, message);
}

/* The leader looks at its folder before it reads any data. */
static void the_folder_is_looked_at_before_the_data(void **state)
{
    (void)state;
    data_write_text("file", "");
    start_both("file");
    small_run_set(&leads, "data", "nowhere");
    assert_int_equal(run_both(), RC_INVALID_ARGUMENT);
    data_assert_message("'file'");
}

static void processes_with_other_data_do_not_fit_together(void **state)
{
    (void)state;
    static const char *const place[] = {"photos", "others"};
    char hash[2][RC_HASH_SIZE], badge[2][256], message[RC_MESSAGE_SIZE];
    rc_backend *be;
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < 10; i++) {
            char path[64];
            snprintf(path, sizeof path, "others/class-%d/%d.ppm", k, i);
            data_write_colour(path, 14, 14, 10 * i, 60 * k, 90);
        }
    SUCCEEDS(rc_backend_open("cpu", 1, NULL, &be));
    for (int i = 0; i < 2; i++) {
        rc_dataset data;
        start(&leads, "out");
        small_run_set(&leads, "data", place[i]);
        SUCCEEDS(rc_run_data_open(&leads.settings.config, 1, false, &leads.settings.watch, &data));
        rc_data_hash(&data, hash[i]);
        rc_dataset_close(&data);
        snprintf(badge[i], sizeof badge[i], "recollect %s, backend cpu, instruction set %s, precision %s, data %s",
                 recollect_version(), be->about.isa, be->about.precision, hash[i]);
    }
    rc_backend_close(be);
    start_both("out");
    small_run_set(&follows, "data", "others");
    snprintf(message, sizeof message, "the processes do not fit together: process 1 has %s, but process 2 has %s",
             badge[0], badge[1]);
    REFUSED(run_both(), RC_INVALID_ARGUMENT, message);
    assert_int_not_equal(access("out", F_OK), 0);
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, enter, leave)
    const struct CMUnitTest tests[] = {
        IN_FOLDER(two_processes_run_what_one_runs),
        IN_FOLDER(two_processes_go_on_from_a_checkpoint),
        IN_FOLDER(a_batch_that_cannot_be_shared_is_refused),
        IN_FOLDER(the_folder_is_looked_at_before_the_data),
        IN_FOLDER(processes_with_other_data_do_not_fit_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
