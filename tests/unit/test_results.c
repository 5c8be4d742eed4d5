/* Results: accuracies, forgetting and transfer of a run of three tasks against numbers by hand, and that
 * text, JSON and CSV hold all of them. */
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
#include "experiment/commit.h"
#include "experiment/results.h"
#include "support/page.h"
#include "support/succeeds.h"

enum { CLASSES = 4, D = 2 };

static char *names[] = {"cat", "a \"dog\"", "c,d", "x"};

/* Tasks of 2, 1 and 1 classes. Rows: true class; 10 images of each, 20 of class 3. */
static const int confusion[3][CLASSES * CLASSES] = {
    {9, 1, 2, 8},
    {6, 1, 3, 1, 7, 2, 0, 0, 10},
    {5, 0, 2, 3, 0, 8, 1, 1, 1, 1, 4, 4, 0, 0, 5, 15},
};
static const float head[CLASSES * D] = {3, 4, 0, 2, 6, 8, 1, 0}; /* norms 5, 2, 10, 1 */

static rc_evaluation evaluate(int task)
{
    int classes = task + 2;
    rc_evaluation e = {.classes = classes};
    e.confusion = rc_alloc_zeroed(NULL, (size_t)classes * (size_t)classes, sizeof *e.confusion);
    e.top5 = rc_alloc_zeroed(NULL, (size_t)classes, sizeof *e.top5);
    for (int i = 0; i < classes * classes; i++) {
        e.confusion[i] = confusion[task][i];
        e.top5[i / classes] += confusion[task][i];
    }
    e.top5[0] -= 2; /* two images of class 0 are not even among the five */
    return e;
}

static void run_tasks(rc_results *r, int tasks)
{
    rc_task_stream stream;
    rc_task_split split = {.sizes = 3, .size = {2, 1, 1}};
    SUCCEEDS(rc_task_stream_create(&stream, CLASSES, NULL, &split));
    SUCCEEDS(rc_results_create(r, "cwd", &stream));
    rc_task_stream_destroy(&stream);
    for (int task = 0; task < tasks; task++) {
        rc_evaluation e = evaluate(task);
        const double wall[RC_STAGE_COUNT] = {task, 2, 3, 4.5};
        SUCCEEDS(rc_results_add(r, &e, head, D, wall, 0.25));
        assert_null(e.confusion); /* taken over */
        r->task[task].stored = (rc_stored){.images = 3000 * (size_t)(task + 1), .model = 20, .statistics = 10};
    }
    r->log_offset = 77;
    r->seconds = 12.5;
}

static void near(double value, double expected)
{
    if (!(fabs(value - expected) < 1e-9))
        fail_msg("%.12g, expected %.12g", value, expected);
}

/* R = [85; 65 100; 65 40 75]. */
static void numbers_by_hand(void **state)
{
    (void)state;
    rc_results r;
    run_tasks(&r, 3);
    const double accuracy[3] = {85, 100 * 23.0 / 30, 100 * 32.0 / 50};
    const double matrix[3][3] = {{85, NAN, NAN}, {65, 100, NAN}, {65, 40, 75}};
    for (int i = 0; i < 3; i++) {
        near(r.task[i].accuracy, accuracy[i]);
        near(r.task[i].top5, 100 - 200.0 / (i == 2 ? 50 : 20 + 10 * i));
        for (int j = 0; j < 3; j++)
            if (j <= i)
                near(r.matrix[i * 3 + j], matrix[i][j]);
            else
                assert_true(isnan(r.matrix[i * 3 + j]));
    }
    near(rc_results_mean(&r), (accuracy[0] + accuracy[1] + accuracy[2]) / 3);
    near(rc_backward_transfer(r.matrix, 3, 3), ((65 - 85) + (40 - 100)) / 2.0);
    near(rc_forgetting(r.matrix, 3, 3), ((85 - 65) + (100 - 40)) / 2.0);
    assert_true(isnan(rc_forgetting(r.matrix, 3, 1)) && isnan(r.task[0].old_accuracy));
    near(r.task[2].old_accuracy, 100 * 17.0 / 30);
    near(r.task[2].new_accuracy, 75);
    near(r.task[0].new_accuracy, 85);
    near(r.class_accuracy[1], 80);
    near(r.class_top5[0], 80);
    near(r.head_norm[2], 10);
    near(r.task[2].old_norm, (5 + 2 + 10) / 3.0);
    near(r.task[2].new_norm, 1);
    rc_results_destroy(&r);
}

/* Forgetting compares with the best there ever was, so it is never negative. */
static void forgetting_takes_the_best(void **state)
{
    (void)state;
    const double better[9] = {50, NAN, NAN, 60, 70, NAN, 80, 65, 90};
    near(rc_backward_transfer(better, 3, 3), (30 - 5) / 2.0);
    near(rc_forgetting(better, 3, 3), (0 + 5) / 2.0);
    const double dip[9] = {50, NAN, NAN, 90, 70, NAN, 60, 70, 10};
    near(rc_forgetting(dip, 3, 3), (30 + 0) / 2.0);
}

/* The results as a JSON text, without what cannot come back: the confusion matrix is its last member. */
static char *text_of(const rc_results *r, bool with_confusion)
{
    char *text;
    rc_json_writer w = {0};
    rc_json_begin_object(&w, NULL);
    rc_results_put(r, names, &w);
    rc_json_end(&w);
    SUCCEEDS(rc_json_finish(&w, &text, NULL));
    char *last = strstr(text, ",\"confusion\":[");
    assert_non_null(last);
    if (!with_confusion)
        strcpy(last, "}");
    return text;
}

static rc_json *json_of(const char *text)
{
    rc_json *json;
    SUCCEEDS(rc_json_parse("results", text, strlen(text), &json));
    return json;
}

static void json_comes_back(void **state)
{
    (void)state;
    rc_results r, back;
    run_tasks(&r, 2);
    strcpy(r.task[0].commit, "abcdef0"); /* another program began the run */
    char *text = text_of(&r, false);
    rc_json *json = json_of(text);
    run_tasks(&back, 0);
    SUCCEEDS(rc_results_from_json(&back, json));
    assert_int_equal(back.done, 2);
    assert_int_equal(back.classes, 3);
    assert_true(back.log_offset == 77 && back.seconds == 12.5);
    char *again = text_of(&back, false);
    assert_string_equal(text, again);
    rc_free(NULL, again);
    rc_json_free(json);
    /* On with the third task: as if it had never stopped. */
    rc_evaluation e = evaluate(2);
    const double wall[RC_STAGE_COUNT] = {0};
    SUCCEEDS(rc_results_add(&back, &e, head, D, wall, 0));
    near(rc_forgetting(back.matrix, 3, 3), 40);
    assert_string_equal(back.task[0].commit, "abcdef0");
    assert_string_equal(back.task[2].commit, rc_commit);
    rc_results_destroy(&back);
    /* Results of another run. */
    char *method = strstr(text, "\"cwd\"");
    memcpy(method, "\"lwf\"", 5);
    json = json_of(text);
    run_tasks(&back, 0);
    assert_int_equal(rc_results_from_json(&back, json), RC_FORMAT);
    rc_results_destroy(&back);
    rc_results_destroy(&r);
    rc_json_free(json);
    rc_free(NULL, text);
}

/* A commit that there is room for, and one that is a byte longer. */
static void a_commit_that_is_too_long_is_forgotten(void **state)
{
    (void)state;
    rc_results r, back;
    char *text;
    run_tasks(&r, 2);
    memset(r.task[0].commit, 'c', sizeof r.task[0].commit - 1);
    text = text_of(&r, false);
    for (int over = 0; over < 2; over++) {
        char changed[1 << 14];
        char *at = strstr(text, "ccc");
        snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, over ? "c" : "", at);
        rc_json *json = json_of(changed);
        run_tasks(&back, 0);
        SUCCEEDS(rc_results_from_json(&back, json));
        assert_int_equal(strlen(back.task[0].commit), over ? 0 : sizeof r.task[0].commit - 1);
        assert_int_equal(back.task[1].classes, 3);
        rc_results_destroy(&back);
        rc_json_free(json);
    }
    rc_results_destroy(&r);
    rc_free(NULL, text);
}

/* Numbers that no run can have, one at a time in the place of a real one. */
static void numbers_beyond_reason_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *key, *value, *says;
    } cases[] = {{"\"accuracy\":", "1e308", "accuracy"},      {"\"top5\":", "100.5", "top5"},
                 {"\"old_accuracy\":", "-1", "old_accuracy"}, {"\"new_accuracy\":", "101", "new_accuracy"},
                 {"\"old_norm\":", "1e41", "old_norm"},       {"\"new_norm\":", "-3", "new_norm"},
                 {"\"evaluation\":", "1e13", "evaluation"},   {"\"training\":", "-1", "training"},
                 {"\"by_task\":[", "1e9", "accuracy 1e+09"},  {"\"head_norm\":", "1e300", "head_norm"}};
    rc_results r, back;
    run_tasks(&r, 2);
    char *text = text_of(&r, false);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *changed = malloc(strlen(text) + 32), *tasks = strstr(text, "\"tasks\":");
        assert_non_null(changed);
        char *place = strstr(tasks, cases[i].key);
        assert_non_null(place);
        place += strlen(cases[i].key);
        size_t before = (size_t)(place - text), length = strcspn(place, ",]}");
        sprintf(changed, "%.*s%s%s", (int)before, text, cases[i].value, place + length);
        rc_json *json = json_of(changed);
        run_tasks(&back, 0);
        if (rc_results_from_json(&back, json) != RC_FORMAT || strstr(rc_message(), cases[i].says) == NULL)
            fail_msg("%s %s: %s", cases[i].key, cases[i].value, rc_message());
        rc_results_destroy(&back);
        rc_json_free(json);
        free(changed);
    }
    rc_results_destroy(&r);
    rc_free(NULL, text);
}

static const rc_json *entry_of(const rc_json *object, const char *key, int index)
{
    const rc_json *list = rc_json_member(object, key), *entry = rc_json_next(list, NULL);
    for (int i = 0; i < index; i++)
        entry = rc_json_next(list, entry);
    assert_non_null(entry);
    return entry;
}

static void number_in(const rc_json *json, const char *key, double expected)
{
    near(rc_json_number(rc_json_member(json, key)), expected);
}

static void json_names_everything(void **state)
{
    (void)state;
    rc_results r;
    run_tasks(&r, 3);
    char *text = text_of(&r, true);
    rc_json *json = json_of(text);
    number_in(json, "last_accuracy", 64);
    number_in(json, "mean_accuracy", rc_results_mean(&r));
    number_in(json, "forgetting", 40);
    number_in(json, "backward_transfer", -40);
    const rc_json *task = entry_of(json, "tasks", 2), *seconds = rc_json_member(task, "seconds");
    number_in(task, "accuracy", 64);
    number_in(task, "top5", 96);
    number_in(task, "old_accuracy", 100 * 17.0 / 30);
    number_in(task, "new_accuracy", 75);
    number_in(task, "old_norm", 17.0 / 3);
    number_in(task, "new_norm", 1);
    number_in(task, "forgetting", 40);
    number_in(task, "mean_accuracy", rc_results_mean(&r));
    number_in(seconds, "inversion", 2);
    number_in(seconds, "estimation", 4.5);
    number_in(seconds, "evaluation", 0.25);
    near(rc_json_number(entry_of(task, "by_task", 1)), 40);
    const rc_json *class = entry_of(json, "classes", 1);
    assert_string_equal(rc_json_string(rc_json_member(class, "name")), names[1]);
    number_in(class, "accuracy", 80);
    number_in(class, "head_norm", 2);
    const rc_json *row = entry_of(json, "confusion", 3);
    assert_true(rc_json_count(row) == 4);
    near(rc_json_number(rc_json_next(row, rc_json_next(row, rc_json_next(row, NULL)))), 5);
    assert_true(rc_json_is(rc_json_member(entry_of(json, "tasks", 0), "old_accuracy"), RC_JSON_NULL));
    rc_json_free(json);
    rc_free(NULL, text);
    rc_results_destroy(&r);
}

static void tables_hold_everything(void **state)
{
    (void)state;
    char path[] = "/tmp/recollect-test-XXXXXX", *text;
    size_t size;
    rc_results r;
    close(mkstemp(path));
    run_tasks(&r, 3);
    SUCCEEDS(rc_results_write_csv(&r, path));
    SUCCEEDS(rc_file_read(path, 1 << 16, &text, &size));
    assert_string_equal(text,
                        "task,classes,accuracy,mean_accuracy,top5,old_accuracy,new_accuracy,forgetting,"
                        "backward_transfer,old_norm,new_norm,stored_images,stored_generative_model,stored_statistics,"
                        "inversion_seconds,training_seconds,refinement_seconds,estimation_seconds,"
                        "evaluation_seconds,task_1,task_2,task_3\n"
                        "1,2,85,85,90,,85,,,,3.5,3000,20,10,0.000,2.000,3.000,4.500,0.250,85,,\n"
                        "2,3,76.6667,80.8333,93.3333,65,100,20,-20,3.5,10,6000,20,10,"
                        "1.000,2.000,3.000,4.500,0.250,65,100,\n"
                        "3,4,64,75.2222,96,56.6667,75,40,-40,5.66667,1,9000,20,10,"
                        "2.000,2.000,3.000,4.500,0.250,65,40,75\n");
    rc_free(NULL, text);
    SUCCEEDS(rc_results_write_classes(&r, names, path));
    SUCCEEDS(rc_file_read(path, 1 << 16, &text, &size));
    assert_string_equal(text, "class,name,task,accuracy,top5,head_norm\n0,\"cat\",1,50,80,5\n"
                              "1,\"a \"\"dog\"\"\",1,80,100,2\n2,\"c,d\",2,40,100,10\n3,\"x\",3,75,100,1\n");
    rc_free(NULL, text);
    SUCCEEDS(rc_results_write_confusion(&r, names, path));
    SUCCEEDS(rc_file_read(path, 1 << 16, &text, &size));
    assert_non_null(strstr(text, "\"x\",0,0,5,15\n"));
    rc_free(NULL, text);
    rc_results_destroy(&r);
    unlink(path);
}

/* Above so many classes the cells that are not 0 stand for the matrix, in every file. */
static void many_classes_leave_small_files(void **state)
{
    (void)state;
    enum { MANY = RC_WHOLE_CONFUSION + 1 };
    static char name[MANY][16], *called[MANY];
    for (int most = RC_WHOLE_CONFUSION; most <= MANY; most++) {
        rc_results r = {0};
        char path[] = "/tmp/recollect-many-XXXXXX", *text;
        size_t size;
        rc_json_writer w = {0};
        for (int i = 0; i < most; i++)
            snprintf(called[i] = name[i], sizeof name[i], "c%d", i);
        r.last.classes = most;
        r.last.confusion = rc_alloc_zeroed(NULL, (size_t)most * (size_t)most, sizeof *r.last.confusion);
        assert_non_null(r.last.confusion);
        r.last.confusion[rc_confusion_at(most, 0, 0)] = 4;
        r.last.confusion[rc_confusion_at(most, 7, 499)] = 3;
        r.last.confusion[rc_confusion_at(most, most - 1, most - 1)] = 2;
        close(mkstemp(path));
        SUCCEEDS(rc_results_write_confusion(&r, called, path));
        SUCCEEDS(rc_file_read(path, 4 << 20, &text, &size));
        if (most == MANY)
            assert_string_equal(text,
                                "true,predicted,images\n\"c0\",\"c0\",4\n\"c7\",\"c499\",3\n\"c500\",\"c500\",2\n");
        else
            assert_non_null(strstr(text, "\n\"c499\",0,0,"));
        rc_free(NULL, text);
        unlink(path);
        rc_json_begin_object(&w, NULL);
        rc_confusion_put(r.last.confusion, most, &w);
        rc_json_end(&w);
        SUCCEEDS(rc_json_finish(&w, &text, &size));
        if (most == MANY)
            assert_non_null(strstr(text, "\"confusion\":[],\"confused\":[[0,0,4],[7,499,3],[500,500,2]]"));
        else
            assert_null(strstr(text, "confused"));
        rc_free(NULL, text);
        rc_evaluation_destroy(&r.last);
    }
}

static void text_holds_everything(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "CwD, 3 of 3 tasks, 4 classes\n",
        "last accuracy (A_3)     64.00 %\n",
        "mean accuracy           75.22 % (of A_1 to A_3)\n",
        "forgetting              40.00 points\n",
        "backward transfer      -40.00 points\n",
        "kept for later tasks  9000 bytes of images, 20 of a model of images, 10 of statistics: data-free\n",
        "         3       4    64.00   96.00   56.67   75.00    5.67    1.00\n",
        "         1        0.0        2.0        3.0        4.5        0.2\n",
        "         3   65.00   40.00   75.00\n",
        "    1    80.00  100.00    2.00  a \"dog\"\n",
        "    3     0     0     5    15\n",
    };
    rc_results r;
    page p = {.used = 0}, page_of_er = {.used = 0}, table = {.used = 0};
    run_tasks(&r, 3);
    rc_results_report(&r, names, page_add_line, &p);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (strstr(p.text, lines[i]) == NULL)
            fail_msg("no line '%s' in\n%s", lines[i], p.text);
    snprintf(r.method, sizeof r.method, "er"); /* the row says so, not the bytes */
    rc_results_report(&r, names, page_add_line, &page_of_er);
    assert_non_null(strstr(page_of_er.text, "10 of statistics: not data-free\n"));
    snprintf(r.method, sizeof r.method, "cwd");
    const rc_results *row = &r;
    rc_results_print(&row, 1, page_add_line, &table);
    assert_non_null(strstr(table.text, "    A_3     last    mean forgets     old     new  keeps\n"));
    assert_non_null(strstr(table.text, "CwD                85.00   76.67   64.00   64.00   75.22   40.00   56.67"
                                       "   75.00  9.0 kB of images\n"));
    rc_results_destroy(&r);
}

/* A class may have any name; a line for people has an end, but not inside of a character. */
static void long_names_are_cut_between_characters(void **state)
{
    (void)state;
    enum { CHARACTERS = 200 };
    for (int odd = 0; odd < 2; odd++) {
        char name[2 * CHARACTERS + 2] = "x", *long_names[] = {name, "b", "c", "d"}, line[2 * CHARACTERS];
        for (int i = 0; i < CHARACTERS; i++)
            memcpy(name + odd + 2 * i, "\xC3\xA9", 3);
        rc_results r;
        page p = {.used = 0};
        run_tasks(&r, 3);
        rc_results_report(&r, long_names, page_add_line, &p);
        const char *begin = strstr(p.text, odd ? "  x\xC3\xA9" : "  \xC3\xA9");
        assert_non_null(begin);
        size_t length = strcspn(begin, "\n");
        snprintf(line, sizeof line, "  %.*s", (int)length - 2, name);
        assert_int_equal(strncmp(begin, line, length), 0);
        assert_true(length > 200 && (length - 2 - (size_t)odd) % 2 == 0);
        rc_results_destroy(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_by_hand),
        cmocka_unit_test(forgetting_takes_the_best),
        cmocka_unit_test(json_comes_back),
        cmocka_unit_test(numbers_beyond_reason_are_refused),
        cmocka_unit_test(a_commit_that_is_too_long_is_forgotten),
        cmocka_unit_test(json_names_everything),
        cmocka_unit_test(tables_hold_everything),
        cmocka_unit_test(many_classes_leave_small_files),
        cmocka_unit_test(text_holds_everything),
        cmocka_unit_test(long_names_are_cut_between_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
