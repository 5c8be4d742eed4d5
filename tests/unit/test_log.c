/* Reading logs that are torn, damaged or still being written; and the tables that are made from a log. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/memory.h"
#include "experiment/log_reader.h"
#include "experiment/log_tables.h"
#include "experiment/tfevents.h"
#include "support/data_files.h"
#include "support/failing_heap.h"
#include "support/succeeds.h"

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* The number of the next line; -1: there is none. */
static int next_number(rc_log_reader *reader, bool *again)
{
    rc_json *line;
    SUCCEEDS(rc_log_reader_next(reader, &line, again));
    int number = line != NULL ? (int)rc_json_integer(rc_json_member(line, "n")) : -1;
    rc_json_free(line);
    return number;
}

static void add_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "a");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void lines_that_are_none_are_skipped(void **state)
{
    (void)state;
    rc_log_reader reader;
    bool again;
    data_write_text("log", "{\"n\":1}\n\nnothing\n[1]\n{\"n\":1,\"n\":2}\n{\"n\":\xFF}\n{\"n\":2}\n{\"n\":");
    SUCCEEDS(rc_log_reader_open(&reader, "log"));
    assert_int_equal(next_number(&reader, &again), 1);
    assert_int_equal(next_number(&reader, &again), 2);
    assert_int_equal(reader.skipped, 5);
    /* The last line has no end yet, and then it has. */
    assert_int_equal(next_number(&reader, &again), -1);
    assert_int_equal(next_number(&reader, &again), -1);
    add_text("log", "3}\n{\"n\":4}\n");
    assert_int_equal(next_number(&reader, &again), 3);
    assert_int_equal(next_number(&reader, &again), 4);
    assert_int_equal(next_number(&reader, &again), -1);
    assert_false(again);
    assert_int_equal(reader.skipped, 5);
    rc_log_reader_close(&reader);
}

/* A line of some hundred kilobytes is read, one of megabytes is skipped without taking memory for it. */
static void long_lines_take_little_memory(void **state)
{
    (void)state;
    size_t sizes[] = {300000, 3000000, RC_LOG_LINE - 1, RC_LOG_LINE};
    char *text = malloc(8 << 20);
    size_t used = 0;
    assert_non_null(text);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        used += (size_t)sprintf(text + used, "{\"n\":%zu,\"x\":\"", i);
        size_t more = sizes[i] - (strlen("{\"n\":0,\"x\":\"") + 2);
        memset(text + used, 'x', more);
        used += more;
        used += (size_t)sprintf(text + used, "\"}\n");
    }
    used += (size_t)sprintf(text + used, "{\"n\":9}\n");
    data_write("log", text, used);
    free(text);
    rc_log_reader reader;
    bool again;
    size_t before = rc_bytes_allocated();
    SUCCEEDS(rc_log_reader_open(&reader, "log"));
    assert_int_equal(next_number(&reader, &again), 0);
    assert_int_equal(next_number(&reader, &again), 2);
    assert_int_equal(next_number(&reader, &again), 9);
    assert_int_equal(next_number(&reader, &again), -1);
    assert_int_equal(reader.skipped, 2);
    assert_true(rc_bytes_allocated() - before < RC_LOG_LINE + 100000);
    rc_log_reader_close(&reader);
    assert_int_equal(rc_bytes_allocated(), before);
}

/* A resumed run cuts its log and goes on. */
static void a_log_that_was_cut_is_read_anew(void **state)
{
    (void)state;
    rc_log_reader reader;
    bool again;
    data_write_text("log", "{\"n\":1}\nx\n{\"n\":2}\n{\"n\":3}\n{\"n");
    SUCCEEDS(rc_log_reader_open(&reader, "log"));
    for (int i = 1; i <= 3; i++)
        assert_int_equal(next_number(&reader, &again), i);
    assert_int_equal(next_number(&reader, &again), -1);
    assert_int_equal(truncate("log", 8), 0);
    add_text("log", "{\"n\":7}\n");
    assert_int_equal(next_number(&reader, &again), 1);
    assert_true(again);
    assert_int_equal(reader.skipped, 0);
    assert_int_equal(next_number(&reader, &again), 7);
    assert_false(again);
    assert_int_equal(next_number(&reader, &again), -1);
    rc_log_reader_close(&reader);
}

static void a_log_that_is_not_there_is_named(void **state)
{
    (void)state;
    rc_log_reader reader;
    assert_int_equal(rc_log_reader_open(&reader, "nowhere/log"), RC_IO);
    data_assert_message("nowhere/log");
    assert_int_equal(reader.fd, 0);
    rc_log_reader_close(&reader);
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */

static const char lines[] =
    "{\"event\":\"run\",\"cell\":\"CwD\"}\n"
    "{\"event\":\"step\",\"time\":1763319601.2509999,\"seconds\":1.5,\"task\":2,\"stage\":\"training\",\"step\":40,"
    "\"steps\":600,\"epoch\":1,\"epochs\":9,\"total_step\":41,\"total_steps\":900,\"learning_rate\":0.1,"
    "\"images_per_second\":2210.5,\"stage_seconds_left\":15.25,\"seconds_left\":null,\"memory\":41283584,"
    "\"loss\":{\"ce\":1.75,\"dce\":0.5,\"latent\":2.0,\"unknown\":3},\"total_loss\":7.25,\"dream_labels\":[10,0,9]}\n"
    "torn {\n"
    "{\"event\":\"step\",\"task\":2,\"stage\":\"a,b\"}\n"
    "{\"event\":\"other\"}\n{\"what\":1}\n";
static const char first_columns[] =
    "time,seconds,task,stage,step,steps,epoch,epochs,total_step,total_steps,learning_rate,images_per_second,"
    "stage_seconds_left,seconds_left,memory,total_loss,loss_ce,";
static const char rows[] = "loss_latent,dream_labels\n"
                           "1763319601.251,1.5,2,training,40,600,1,9,41,900,0.1,2210.5,15.25,,41283584,7.25,1.75,"
                           ",,,,,,,,,,,,,,,,0.5,,2,10 0 9\n"
                           ",,2,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,\n";

static char *read_text(const char *path)
{
    char *text;
    size_t size;
    SUCCEEDS(rc_file_read(path, 1 << 20, &text, &size));
    return text;
}

static long size_of(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return -1;
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    long size = ftell(file);
    fclose(file);
    return size;
}

static void every_scalar_of_a_step_has_its_column(void **state)
{
    (void)state;
    rc_log_tables tables;
    rc_json *line;
    data_write_text("cell/events.jsonl", lines);
    SUCCEEDS(rc_log_tables_open(&tables, "cell", "cell/events.jsonl", 1763319700.9));
    char *text = read_text("cell/scalars.csv");
    assert_memory_equal(text, first_columns, strlen(first_columns));
    assert_non_null(strstr(text, "loss_latent"));
    assert_string_equal(strstr(text, "loss_latent"), rows);
    rc_free(NULL, text);
    /* What comes later comes behind it. */
    static const char later[] = "{\"event\":\"step\",\"task\":3}", last[] = "\n,,3,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,\n";
    SUCCEEDS(rc_json_parse("later", later, strlen(later), &line));
    SUCCEEDS(rc_log_tables_add(&tables, line));
    rc_json_free(line);
    text = read_text("cell/scalars.csv");
    assert_string_equal(text + strlen(text) - strlen(last), last);
    rc_free(NULL, text);
    rc_log_tables_close(&tables);
}

/* Rows may be long, and numbers have nine digits. */
static void long_rows_are_whole(void **state)
{
    (void)state;
    enum { CLASSES = 1000 };
    static char text[20000], expected[20000];
    rc_log_tables tables;
    int used = sprintf(text, "{\"event\":\"step\",\"time\":1234567890.1239,\"memory\":12345678901234,"
                             "\"total_loss\":0.123456789123,\"dream_labels\":[");
    int expects = sprintf(expected, "\n1234567890.124,,,,,,,,,,,,,,12345678901234,0.123456789,,,,,,,,,,,,,,,,,,,,,");
    for (int i = 0; i < CLASSES; i++) {
        used += sprintf(text + used, "%s%d", i > 0 ? "," : "", i);
        expects += sprintf(expected + expects, "%s%d", i > 0 ? " " : "", i);
    }
    sprintf(text + used, "]}\n");
    sprintf(expected + expects, "\n");
    data_write_text("cell/events.jsonl", text);
    SUCCEEDS(rc_log_tables_open(&tables, "cell", "cell/events.jsonl", 100));
    rc_log_tables_close(&tables);
    char *table = read_text("cell/scalars.csv");
    assert_non_null(strchr(table, '\n'));
    assert_string_equal(strchr(table, '\n'), expected);
    rc_free(NULL, table);
}

/* ---- TensorBoard ------------------------------------------------------------------------------------------------- */

typedef struct records {
    uint8_t bytes[8192];
    size_t used;
} records;

static void add_event(records *r, rc_tf_event *event)
{
    uint8_t *record;
    size_t size;
    SUCCEEDS(rc_tf_finish(event, &record, &size));
    assert_true(size <= sizeof r->bytes - r->used);
    memcpy(r->bytes + r->used, record, size);
    r->used += size;
    rc_free(NULL, record);
}

/* The file is these records and no other. */
static void every_line_becomes_its_record(void **state)
{
    (void)state;
    static const double labels[] = {10, 0, 9};
    static records expected;
    rc_log_tables tables;
    rc_tf_event event;
    char text[2000], *found;
    size_t size;
    snprintf(text, sizeof text,
             "%s{\"event\":\"dreams\",\"time\":7,\"task\":2,\"file\":\"a.png\",\"width\":3,\"height\":2}\n"
             "{\"event\":\"task\",\"time\":8.5,\"task\":2,\"accuracy\":50.5,\"top5\":null,\"backward_transfer\":-3}\n"
             "{\"event\":\"step\",\"stage\":\"x\",\"dream_labels\":{\"a\":1}}\n",
             lines);
    data_write_text("cell/events.jsonl", text);
    data_write_text("cell/a.png", "123");
    SUCCEEDS(rc_log_tables_open(&tables, "cell", "cell/events.jsonl", 100.5));
    rc_log_tables_close(&tables);
    rc_tf_begin(&event, 100.5, 0);
    rc_tf_version(&event);
    add_event(&expected, &event);
    rc_tf_begin(&event, 100.5, 0);
    rc_tf_start(&event);
    add_event(&expected, &event);
    rc_tf_begin(&event, 1763319601.2509999, 41);
    rc_tf_scalar(&event, "training/learning_rate", 0.1);
    rc_tf_scalar(&event, "training/images_per_second", 2210.5);
    rc_tf_scalar(&event, "training/memory", 41283584);
    rc_tf_scalar(&event, "training/total_loss", 7.25);
    rc_tf_scalar(&event, "training/loss_ce", 1.75);
    rc_tf_scalar(&event, "training/loss_dce", 0.5);
    rc_tf_scalar(&event, "training/loss_latent", 2);
    rc_tf_histogram(&event, "training/dream_labels", labels, 3);
    add_event(&expected, &event);
    rc_tf_begin(&event, 0, 0); /* of a line that has a stage alone */
    add_event(&expected, &event);
    rc_tf_begin(&event, 7, 2);
    rc_tf_image(&event, "dreams", 2, 3, "123", 3);
    add_event(&expected, &event);
    rc_tf_begin(&event, 8.5, 2);
    rc_tf_scalar(&event, "task/accuracy", 50.5);
    rc_tf_scalar(&event, "task/backward_transfer", -3);
    add_event(&expected, &event);
    rc_tf_begin(&event, 0, 0);
    add_event(&expected, &event);
    SUCCEEDS(rc_file_read("cell/events.out.tfevents.100.recollect", 1 << 20, &found, &size));
    assert_int_equal(size, expected.used);
    assert_memory_equal(found, expected.bytes, size);
    rc_free(NULL, found);
}

/* Every process has one file for TensorBoard. It empties that of the process before, removes empty ones, and touches
 * nothing else. */
static void a_resumed_run_has_one_file_for_tensorboard(void **state)
{
    (void)state;
    static const char *const others[] = {"cell/events.out.tfevents.12.host", "cell/events.out.tfevents.x.recollect",
                                         "cell/events.out.tfevents", "cell/12.recollect"};
    rc_log_tables tables;
    data_write_text("cell/events.jsonl", lines);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        data_write_text(others[i], "theirs");
    SUCCEEDS(rc_log_tables_open(&tables, "cell", "cell/events.jsonl", 1763319700.9));
    rc_log_tables_close(&tables);
    long size = size_of("cell/events.out.tfevents.1763319700.recollect");
    assert_true(size > 300);
    SUCCEEDS(rc_log_tables_open(&tables, "cell", "cell/events.jsonl", 1763319800));
    rc_log_tables_close(&tables);
    assert_int_equal(size_of("cell/events.out.tfevents.1763319700.recollect"), 0);
    assert_int_equal(size_of("cell/events.out.tfevents.1763319800.recollect"), size);
    /* In the same second it begins anew. */
    SUCCEEDS(rc_log_tables_open(&tables, "cell", "cell/events.jsonl", 1763319800.5));
    rc_log_tables_close(&tables);
    assert_int_equal(size_of("cell/events.out.tfevents.1763319700.recollect"), -1);
    assert_int_equal(size_of("cell/events.out.tfevents.1763319800.recollect"), size);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_int_equal(size_of(others[i]), 6);
}

/* Pictures are put in where they are there, and only those beside the log. */
static void pictures_lie_beside_the_log(void **state)
{
    (void)state;
    static const char *const file[] = {"task-2-dreams.png", "gone.png", "../log.png", "folder"};
    rc_log_tables tables;
    long size[4];
    data_write_text("cell/task-2-dreams.png", "123456789 123456789 123456789 123456789");
    data_write_text("log.png", "123456789 123456789 123456789 123456789");
    data_write_text("cell/folder/x", "");
    for (int i = 0; i < 4; i++) {
        char text[200];
        snprintf(text, sizeof text, "{\"event\":\"dreams\",\"task\":2,\"file\":\"%s\",\"width\":3,\"height\":2}\n",
                 file[i]);
        data_write_text("cell/events.jsonl", text);
        SUCCEEDS(rc_log_tables_open(&tables, "cell", "cell/events.jsonl", 100));
        rc_log_tables_close(&tables);
        size[i] = size_of("cell/events.out.tfevents.100.recollect");
    }
    assert_true(size[0] > size[1] + 39);
    assert_int_equal(size[2], size[1]);
    assert_int_equal(size[3], size[1]);
}

static void what_cannot_be_written_is_named(void **state)
{
    (void)state;
    rc_log_tables tables;
    assert_int_equal(rc_log_tables_open(&tables, "nowhere", "log", 100), RC_IO);
    data_assert_message("nowhere/scalars.csv");
    static const char *const file[] = {"cell/scalars.csv", "cell/events.out.tfevents.100.recollect"};
    data_write_text("cell/events.jsonl", lines);
    for (int i = 0; i < 2; i++) {
        unlink(file[0]);
        unlink(file[1]);
        assert_int_equal(symlink("/dev/full", file[i]), 0);
        assert_int_equal(rc_log_tables_open(&tables, "cell", "cell/events.jsonl", 100), RC_IO);
        data_assert_message("cannot write");
        data_assert_message(file[i]);
    }
}

/* Among the files that the process has open: the first may be one that was closed before another that was not. */
static int second_free_place(void)
{
    int first = dup(0), second = dup(0);
    assert_true(first >= 0 && second >= 0);
    assert_int_equal(close(first), 0);
    assert_int_equal(close(second), 0);
    return second;
}

static void without_memory_nothing_is_left_open(void **state)
{
    (void)state;
    size_t before = rc_bytes_allocated();
    int free_place = second_free_place();
    char text[1000];
    snprintf(text, sizeof text,
             "%s{\"event\":\"dreams\",\"task\":2,\"file\":\"a.png\",\"width\":3,\"height\":2}\n"
             "{\"event\":\"task\",\"task\":2,\"accuracy\":50.5}\n",
             lines);
    data_write_text("cell/events.jsonl", text);
    data_write_text("cell/a.png", "123");
    for (int nth = 1, failed = 1; failed; nth++) {
        rc_log_tables tables;
        allocation_to_fail = nth;
        rc_status status = rc_log_tables_open(&tables, "cell", "cell/events.jsonl", 100);
        failed = allocation_failed();
        assert_int_equal(status, failed ? RC_OUT_OF_MEMORY : RC_OK);
        rc_log_tables_close(&tables);
        assert_int_equal(second_free_place(), free_place);
        assert_int_equal(rc_bytes_allocated(), before);
        assert_true(failed || nth > 10);
    }
}

static void do_nothing(int number)
{
    (void)number;
}

enum { PIPED = 1 << 20 }; /* bytes, more than a pipe holds */

typedef struct reader {
    int from;
    size_t count;
    unsigned char text[PIPED];
} reader;

static void *read_late(void *user)
{
    reader *r = user;
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    for (ssize_t got = 1; got > 0 && r->count<PIPED; r->count += got> 0 ? (size_t)got : 0)
        got = read(r->from, r->text + r->count, PIPED - r->count);
    return NULL;
}

/* A signal ends a write after a part of it, and the next one before it has begun. */
static void a_write_that_is_interrupted_goes_on(void **state)
{
    (void)state;
    static reader r;
    static unsigned char text[PIPED];
    for (size_t i = 0; i < PIPED; i++)
        text[i] = (unsigned char)(i * 2654435761u >> 13);
    int end[2];
    assert_int_equal(pipe(end), 0);
    r.from = end[0];
    rc_log_file file = {.fd = end[1], .path = "pipe"};
    const struct sigaction action = {.sa_handler = do_nothing}; /* without SA_RESTART */
    const struct itimerval often = {{.tv_usec = 5000}, {.tv_usec = 5000}}, never = {0};
    sigset_t alarm;
    pthread_t thread;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
    assert_int_equal(pthread_sigmask(SIG_BLOCK, &alarm, NULL), 0); /* the reader inherits it */
    assert_int_equal(pthread_create(&thread, NULL, read_late, &r), 0);
    assert_int_equal(pthread_sigmask(SIG_UNBLOCK, &alarm, NULL), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
    rc_status status = rc_log_file_write(&file, text, PIPED);
    assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
    rc_log_file_close(&file);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(close(end[0]), 0);
    assert_int_equal(status, RC_OK);
    assert_int_equal(r.count, PIPED);
    assert_memory_equal(r.text, text, PIPED);
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, data_enter_folder, data_leave_folder)
    const struct CMUnitTest tests[] = {
        IN_FOLDER(lines_that_are_none_are_skipped),       IN_FOLDER(long_lines_take_little_memory),
        IN_FOLDER(a_log_that_was_cut_is_read_anew),       IN_FOLDER(a_log_that_is_not_there_is_named),
        IN_FOLDER(every_scalar_of_a_step_has_its_column), IN_FOLDER(long_rows_are_whole),
        IN_FOLDER(every_line_becomes_its_record),         IN_FOLDER(a_resumed_run_has_one_file_for_tensorboard),
        IN_FOLDER(pictures_lie_beside_the_log),           IN_FOLDER(what_cannot_be_written_is_named),
        IN_FOLDER(without_memory_nothing_is_left_open),   cmocka_unit_test(a_write_that_is_interrupted_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
