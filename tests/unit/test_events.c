/* The log of a cell as it is written: what every kind of line says, and what a process that goes on keeps of it. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/memory.h"
#include "cil/objective.h"
#include "experiment/events.h"
#include "experiment/log_reader.h"
#include "support/data_files.h"
#include "support/failing_heap.h"
#include "support/page.h"
#include "support/succeeds.h"

enum { MOST_LINES = 16 };

static rc_task_stream stream = {.tasks = 3, .task_end = {4, 6, 9}};
static const int32_t labels[] = {0, 2, 2, 7, -1, 9};
static const rc_stage_report report = {.stage = RC_STAGE_REFINEMENT,
                                       .task = 1,
                                       .step = 30,
                                       .steps = 50,
                                       .epoch = 2,
                                       .epochs = 5,
                                       .learning_rate = 0.125,
                                       .total_loss = 3.5,
                                       .replayed = labels,
                                       .replays = 6};
static const rc_pace pace = {.images_per_second = 250, .stage_left = 1.5, .left = NAN};

static rc_json *run;

static rc_events_cell the_cell(void)
{
    return (rc_events_cell){
        .run = run, .fingerprint = "f", .name = "order 1, CwD", .method = "cwd", .stream = &stream, .tasks = 3};
}

static int enter(void **state)
{
    static const char text[] = "{\"version\":\"9\",\"seed\":7}";
    SUCCEEDS(rc_json_parse("run", text, strlen(text), &run));
    return data_enter_folder(state);
}

static int leave(void **state)
{
    rc_json_free(run);
    return data_leave_folder(state);
}

/* All lines of a log. */
static rc_json *line[MOST_LINES];
static int read_lines(void)
{
    rc_log_reader reader;
    bool again;
    int count = 0;
    SUCCEEDS(rc_log_reader_open(&reader, "./events.jsonl"));
    while (rc_log_reader_next(&reader, &line[count], &again) == RC_OK && line[count] != NULL)
        assert_in_range(++count, 1, MOST_LINES - 1);
    assert_int_equal(reader.skipped, 0);
    rc_log_reader_close(&reader);
    return count;
}

static void forget_lines(int count)
{
    for (int i = 0; i < count; i++)
        rc_json_free(line[i]);
}

static double number(int index, const char *key)
{
    return rc_json_number(rc_json_member(line[index], key));
}

static const char *text(int index, const char *key)
{
    return rc_json_string(rc_json_member(line[index], key));
}

static void expect_list(const rc_json *list, const int *value, int count)
{
    const rc_json *entry = NULL;
    assert_int_equal(rc_json_count(list), count);
    for (int i = 0; i < count; i++) {
        entry = rc_json_next(list, entry);
        assert_int_equal(rc_json_integer(entry), value[i]);
    }
}

static rc_events_step step_of(const rc_stage_report *r)
{
    return (rc_events_step){
        .report = r, .pace = &pace, .classes = 9, .old_classes = 4, .total_step = 330, .total_steps = 1000};
}

static void expect_step(int at)
{
    static const int counts[] = {1, 0, 2, 0, 0, 0, 0, 1};
    assert_string_equal(text(at, "event"), "step");
    assert_string_equal(text(at, "stage"), "refinement");
    assert_true(number(at, "task") == 2 && number(at, "step") == 30 && number(at, "steps") == 50);
    assert_true(number(at, "epoch") == 2 && number(at, "epochs") == 5);
    assert_true(number(at, "total_step") == 330 && number(at, "total_steps") == 1000);
    assert_true(number(at, "learning_rate") == 0.125 && number(at, "images_per_second") == 250);
    assert_true(number(at, "stage_seconds_left") == 1.5 && number(at, "total_loss") == 3.5);
    assert_true(number(at, "memory") > 0 && number(at, "memory") < 1e9);
    assert_null(rc_json_member(line[at], "seconds_left")); /* nobody knows */
    const rc_json *loss = rc_json_member(line[at], "loss");
    assert_int_equal(rc_json_count(loss), 2);
    assert_true(rc_json_number(rc_json_member(loss, "ce")) == 0.25);
    assert_true(rc_json_number(rc_json_member(loss, "war")) == -2);
    expect_list(rc_json_member(line[at], "dream_labels"), counts, 8); /* 7 is of a new class; two are of none */
}

static void lines_say_what_happened(void **state)
{
    (void)state;
    rc_events e;
    rc_events_cell cell = the_cell();
    rc_stage_report r = report;
    const rc_events_step step = step_of(&r);
    for (int i = 0; i < RC_LOSS_COUNT; i++)
        r.loss[i] = NAN;
    r.loss[RC_LOSS_CE] = 0.25;
    r.loss[RC_LOSS_WAR] = -2;
    double before = rc_time();
    SUCCEEDS(rc_events_open(&e, "."));
    SUCCEEDS(rc_events_begin(&e, &cell, 0, 100));
    SUCCEEDS(rc_events_stage(&e, &step));
    const rc_events_picture picture = {.file = "a.png", .width = 30, .height = 20, .count = 2, .label = labels + 1};
    SUCCEEDS(rc_events_dreams(&e, &step, &picture));
    r.replays = 0;
    r.total_loss = r.learning_rate = NAN;
    SUCCEEDS(rc_events_stage(&e, &step));
    SUCCEEDS(rc_events_end(&e, "failed", "no \"room\""));
    rc_events_close(&e);
    int count = read_lines();
    assert_int_equal(count, 5);
    static const int sizes[] = {4, 2, 3}, shown[] = {2, 2};
    assert_string_equal(text(0, "event"), "run");
    assert_string_equal(text(0, "fingerprint"), "f");
    assert_string_equal(text(0, "cell"), "order 1, CwD");
    assert_string_equal(text(0, "method"), "cwd");
    assert_string_equal(text(0, "version"), "9");
    assert_true(number(0, "seed") == 7 && number(0, "began") >= before);
    expect_list(rc_json_member(line[0], "task_sizes"), sizes, 3);
    expect_step(1);
    assert_string_equal(text(2, "event"), "dreams");
    assert_string_equal(text(2, "file"), "a.png");
    assert_true(number(2, "task") == 2 && number(2, "total_step") == 330 && number(2, "width") == 30);
    assert_true(number(2, "height") == 20);
    expect_list(rc_json_member(line[2], "labels"), shown, 2);
    static const char *const absent[] = {"dream_labels", "total_loss", "learning_rate"};
    for (int i = 0; i < 3; i++)
        assert_null(rc_json_member(line[3], absent[i]));
    assert_string_equal(text(4, "event"), "end");
    assert_string_equal(text(4, "status"), "failed");
    assert_string_equal(text(4, "message"), "no \"room\"");
    for (int i = 1; i < 5; i++) {
        assert_true(number(i, "time") >= before && number(i, "time") <= rc_time());
        assert_true(number(i, "seconds") >= 100 && number(i, "seconds") < 160); /* with those of earlier processes */
    }
    forget_lines(count);
}

/* Descriptors that are open: the next one has the number of the first that is not. */
static int next_descriptor(void)
{
    int fd = dup(0);
    assert_int_equal(close(fd), 0);
    return fd;
}

/* Every old class has its place, and no more. */
static void labels_are_counted_for_every_old_class(void **state)
{
    (void)state;
    static const int32_t label[][1] = {{3}, {4}, {1}};
    static const int counts[][5] = {{0, 0, 0, 1}, {0, 0, 0, 0, 1}, {0, 1, 0, 0}};
    rc_events e;
    rc_events_cell cell = the_cell();
    rc_stage_report r = report;
    const rc_events_step step = step_of(&r);
    SUCCEEDS(rc_events_open(&e, "."));
    SUCCEEDS(rc_events_begin(&e, &cell, 0, 0));
    r.replays = 1;
    for (int i = 0; i < 3; i++) {
        r.replayed = label[i];
        SUCCEEDS(rc_events_stage(&e, &step));
    }
    rc_events_close(&e);
    int count = read_lines();
    assert_int_equal(count, 4);
    for (int i = 0; i < 3; i++)
        expect_list(rc_json_member(line[1 + i], "dream_labels"), counts[i], i == 1 ? 5 : 4);
    forget_lines(count);
}

static void a_single_class_has_labels(void **state)
{
    (void)state;
    static const int32_t label[] = {0, 0};
    static const int counts[] = {2};
    rc_events e;
    rc_events_cell cell = the_cell();
    rc_stage_report r = report;
    rc_events_step step = step_of(&r);
    r.replayed = label;
    r.replays = 2;
    step.classes = step.old_classes = 1;
    int descriptor = next_descriptor();
    SUCCEEDS(rc_events_open(&e, "."));
    SUCCEEDS(rc_events_begin(&e, &cell, 0, 0));
    SUCCEEDS(rc_events_stage(&e, &step));
    rc_events_close(&e);
    assert_int_equal(next_descriptor(), descriptor);
    assert_int_equal(read_lines(), 2);
    expect_list(rc_json_member(line[1], "dream_labels"), counts, 1);
    forget_lines(2);
}

/* A log that belongs to another run, or is none, is refused; one that has no whole line says nothing. */
static void a_log_says_whose_it_is(void **state)
{
    (void)state;
    SUCCEEDS(rc_events_check("nowhere.jsonl", "f"));
    data_write_text("log", "{\"event\":\"run\",\"fingerprint\":\"f\"}\nmore");
    SUCCEEDS(rc_events_check("log", "f"));
    int descriptor = next_descriptor();
    REFUSED(rc_events_check("log", "g"), RC_INVALID_ARGUMENT,
            "log belongs to another run, with another fingerprint: remove it, and the log begins anew");
    assert_int_equal(next_descriptor(), descriptor);
    data_write_text("log", "{\"event\":\"run\"}\n");
    REFUSED(rc_events_check("log", "g"), RC_INVALID_ARGUMENT,
            "log does not say which run it belongs to: remove it, and the log begins anew");
    assert_int_equal(mkdir("folder", 0777), 0);
    assert_int_not_equal(rc_events_check("folder", "g"), RC_OK);
    data_write_text("log", "{\"event\":\"run\",\"finger");
    SUCCEEDS(rc_events_check("log", "g"));
    data_write_text("log", "a diary\n");
    REFUSED(rc_events_check("log", "f"), RC_FORMAT, "log is not the log of a run: remove it, and the log begins anew");
}

/* What lies behind the place that a process goes on from is forgotten, half lines are, and tables have the rest. */
static void a_process_that_goes_on_keeps_what_counts(void **state)
{
    (void)state;
    rc_events e;
    rc_events_cell cell = the_cell();
    rc_stage_report r = report;
    const rc_events_step step = step_of(&r);
    int64_t offset;
    double seconds;
    SUCCEEDS(rc_events_open(&e, "."));
    SUCCEEDS(rc_events_begin(&e, &cell, 0, 0));
    r.step = 29;
    SUCCEEDS(rc_events_stage(&e, &step));
    r.step = 30;
    SUCCEEDS(rc_events_stage(&e, &step));
    SUCCEEDS(rc_events_position(&e, &offset, &seconds));
    r.step = 31;
    SUCCEEDS(rc_events_stage(&e, &step));
    SUCCEEDS(rc_events_end(&e, "stopped", ""));
    rc_events_close(&e);
    r.step = 32;
    for (int lost = 0; lost < 2; lost++) { /* then the crash has taken half of the line that counts */
        if (lost)
            assert_int_equal(truncate("events.jsonl", (off_t)offset - 5), 0);
        SUCCEEDS(rc_events_open(&e, "."));
        SUCCEEDS(rc_events_begin(&e, &cell, offset, 50));
        SUCCEEDS(rc_events_stage(&e, &step));
        rc_events_close(&e);
        int count = read_lines();
        assert_int_equal(count, lost ? 3 : 4);
        assert_string_equal(text(0, "event"), "run");
        assert_true(number(count - 1, "step") == 32 && number(count - 1, "seconds") >= 50);
        assert_true(number(1, "step") == 29 && (lost || number(2, "step") == 30));
        char *table;
        size_t size;
        int rows = 0;
        SUCCEEDS(rc_file_read("scalars.csv", 1 << 20, &table, &size));
        for (size_t i = 0; i < size; i++)
            rows += table[i] == '\n';
        assert_int_equal(rows, count); /* the names in place of the run */
        rc_free(NULL, table);
        forget_lines(count);
    }
}

static bool folders_fail;

__attribute__((visibility("default"))) int fsync(int fd)
{
    struct stat about;
    errno = EIO;
    return folders_fail && fstat(fd, &about) == 0 && S_ISDIR(about.st_mode) ? -1 : 0;
}

/* A log that cannot be read is left as it is. One whose name may be lost begins: the next file says so. */
static void a_log_that_cannot_be_read_or_synced(void **state)
{
    (void)state;
    rc_events e;
    rc_events_cell cell = the_cell();
    struct stat about;
    SUCCEEDS(rc_events_open(&e, "."));
    folders_fail = true;
    rc_status status = rc_events_begin(&e, &cell, 0, 0);
    folders_fail = false;
    assert_int_equal(status, RC_OK);
    rc_events_close(&e);
    assert_int_equal(stat("events.jsonl", &about), 0);
    SUCCEEDS(rc_events_open(&e, "."));
    int fd = open("events.jsonl", O_WRONLY | O_APPEND);
    assert_int_equal(dup2(fd, e.log.fd), e.log.fd);
    assert_int_equal(close(fd), 0);
    REFUSED(rc_events_begin(&e, &cell, about.st_size + 1, 0), RC_IO,
            "cannot look into './events.jsonl': Bad file descriptor");
    rc_events_close(&e);
    off_t size = about.st_size;
    assert_int_equal(stat("events.jsonl", &about), 0);
    assert_int_equal(about.st_size, size);
}

static void folders_of_long_names_are_refused(void **state)
{
    (void)state;
    rc_log_tables t;
    char name[sizeof t.folder + 1], message[sizeof t.folder + 64];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    snprintf(message, sizeof message, "the path %s is too long", name);
    assert_int_equal(rc_log_tables_open(&t, name, "events.jsonl", 1), RC_INVALID_ARGUMENT);
    assert_memory_equal(rc_message(), message, 200); /* messages have an end */
}

static void without_memory_a_line_is_whole_or_not_there(void **state)
{
    (void)state;
    rc_events e;
    rc_events_cell cell = the_cell();
    rc_stage_report r = report;
    const rc_events_step step = step_of(&r);
    SUCCEEDS(rc_events_open(&e, "."));
    SUCCEEDS(rc_events_begin(&e, &cell, 0, 0));
    size_t before = rc_bytes_allocated();
    int written = 0;
    for (int nth = 1, failed = 1; failed; nth++) {
        allocation_to_fail = nth;
        rc_status status = rc_events_stage(&e, &step);
        failed = allocation_failed();
        assert_int_equal(status, failed ? RC_OUT_OF_MEMORY : RC_OK);
        assert_int_equal(rc_bytes_allocated(), before);
        assert_true(failed || nth > 3);
        int count = read_lines();
        assert_in_range(count, written + 1, written + 2);
        written = count - 1;
        assert_in_range(written, 0, MOST_LINES - 3);
        forget_lines(count);
    }
    rc_events_close(&e);
}

static void a_log_without_its_first_line_stays_empty(void **state)
{
    (void)state;
    rc_events e;
    rc_events_cell cell = the_cell();
    SUCCEEDS(rc_events_open(&e, "."));
    allocation_to_fail = 1;
    assert_int_equal(rc_events_begin(&e, &cell, 0, 0), RC_OUT_OF_MEMORY);
    assert_true(allocation_failed());
    SUCCEEDS(rc_events_end(&e, "failed", "no memory"));
    rc_events_close(&e);
    SUCCEEDS(rc_events_check("events.jsonl", cell.fingerprint));
    assert_int_equal(read_lines(), 0);
}

static void the_page_names_every_term(void **state)
{
    (void)state;
    char expected[512] = "The terms are ", *text = page_read("docs/logs.md");
    for (int i = 0; i < RC_LOSS_COUNT; i++) {
        size_t used = strlen(expected);
        snprintf(expected + used, sizeof expected - used, "`%s`%s", rc_loss_key(i),
                 i + 1 < RC_LOSS_COUNT ? ", " : " (");
    }
    for (char *p = text; (p = strchr(p, '\n')) != NULL;)
        *p = ' ';
    if (strstr(text, expected) == NULL)
        fail_msg("docs/logs.md lacks: %s", expected);
    rc_free(NULL, text);
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, enter, leave)
    const struct CMUnitTest tests[] = {
        IN_FOLDER(lines_say_what_happened),
        IN_FOLDER(labels_are_counted_for_every_old_class),
        IN_FOLDER(a_single_class_has_labels),
        IN_FOLDER(a_log_says_whose_it_is),
        IN_FOLDER(a_log_that_cannot_be_read_or_synced),
        cmocka_unit_test(folders_of_long_names_are_refused),
        IN_FOLDER(a_process_that_goes_on_keeps_what_counts),
        IN_FOLDER(without_memory_a_line_is_whole_or_not_there),
        IN_FOLDER(a_log_without_its_first_line_stays_empty),
        cmocka_unit_test(the_page_names_every_term),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
