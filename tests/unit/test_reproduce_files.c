/* Cells that are done, as files: which of them a table takes, what it says of them, merging, and heaps that run dry. No
 * cell is run here: their files are made. */
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
#include "reproduce/reproduce.h"
#include "support/failing_heap.h"
#include "support/succeeds.h"

static const char data[] = "0123456789abcdef";
static char work[] = "/tmp/test_reproduce_XXXXXX";

static const char *in_work(const char *name)
{
    static char path[2][RC_PATH_SIZE];
    static int next;
    char *here = path[next++ % 2];
    SUCCEEDS(rc_path_in(work, name, here));
    return here;
}

/* ---- cells ------------------------------------------------------------------------------------------------------ */

typedef struct made {
    double scale, last, mean;
    int done;                               /* tasks */
    const char *data, *format, *key, *text; /* NULL: as it should be; a setting that differs, or that is new */
} made;

static void put_results(const rc_paper_cell *cell, const made *m, rc_json_writer *w)
{
    rc_config config;
    rc_task_split split;
    rc_task_stream stream;
    int *order;
    char fingerprint[RC_FINGERPRINT_SIZE];
    SUCCEEDS(rc_paper_cell_config(cell, m->scale, &config));
    if (m->key != NULL && m->text != NULL)
        SUCCEEDS(rc_config_set(&config, m->key, m->text));
    SUCCEEDS(rc_config_split(&config, &split));
    SUCCEEDS(rc_config_class_order(&config, cell->set->classes, &order));
    SUCCEEDS(rc_task_stream_create(&stream, cell->set->classes, order, &split));
    rc_fingerprint(&config, m->data != NULL ? m->data : data, cell->line.method->name, &stream, fingerprint);
    if (m->key != NULL && m->text == NULL) /* of a version without that setting: another hash */
        memcpy(strstr(fingerprint, "settings=") + strlen("settings="), "fedcba9876543210", 16);
    rc_task_stream_destroy(&stream);
    rc_free(NULL, order);
    rc_json_begin_object(w, NULL);
    rc_json_put_text(w, "fingerprint", fingerprint);
    rc_json_put_int(w, "tasks_done", m->done);
    rc_json_put_real(w, "last_accuracy", m->last);
    rc_json_put_real(w, "mean_accuracy", m->mean);
    rc_json_begin_object(w, "stage_seconds");
    rc_json_put_real(w, "total", 120);
    rc_json_end(w);
    rc_json_begin_object(w, "run");
    rc_json_put_text(w, "format", m->format != NULL ? m->format : "recollect-run-3");
    rc_json_begin_object(w, "config");
    rc_config_put_json(&config, m->key != NULL && m->text == NULL ? m->key : "data", w);
    rc_json_end(w);
    rc_json_end(w);
    rc_json_end(w);
}

static rc_paper_cell cell_of(const char *row, int tasks, int order)
{
    char rows[64], number[2][16];
    const rc_artefact *artefact;
    rc_cell_list list;
    snprintf(rows, sizeof rows, "%s", row);
    snprintf(number[0], sizeof number[0], "%d", tasks);
    snprintf(number[1], sizeof number[1], "%d", order);
    const rc_cell_filter filter = {.rows = rows, .tasks = number[0], .orders = number[1]};
    SUCCEEDS(rc_artefact_find("table-cifar100", &artefact));
    SUCCEEDS(rc_cell_list_create(artefact, &filter, &list));
    assert_int_equal(list.cells, 1);
    rc_paper_cell cell = list.cell[0];
    rc_cell_list_free(&list);
    return cell;
}

/* As a run leaves it; copy: under the name of a copy. */
static void write_cell(const char *folder, const rc_paper_cell *cell, const made *m, const char *copy)
{
    char below[RC_PATH_SIZE], path[RC_PATH_SIZE];
    rc_json_writer w = {.indent = 2};
    put_results(cell, m, &w);
    SUCCEEDS(rc_path_in(in_work(folder), copy != NULL ? "." : cell->path, below));
    SUCCEEDS(rc_file_make_folder(below));
    SUCCEEDS(rc_path_in(below, copy != NULL ? copy : "results.json", path));
    SUCCEEDS(rc_json_save(&w, path));
}

/* ---- what is printed and logged --------------------------------------------------------------------------------- */

static char printed[8192], logged[8192];

static void print_line(void *user, const char *text)
{
    (void)user;
    size_t used = strlen(printed);
    snprintf(printed + used, sizeof printed - used, "%s\n", text);
}

static void log_line(void *user, int level, const char *text)
{
    (void)user;
    (void)level;
    size_t used = strlen(logged);
    snprintf(logged + used, sizeof logged - used, "%s\n", text);
}

static rc_reproduce_settings settings_of(const char *name, const char *out, double scale)
{
    static char path[RC_PATH_SIZE];
    snprintf(path, sizeof path, "%s", in_work(out));
    rc_reproduce_settings s = {
        .out = path,
        .scale = scale,
        .run = {.line = print_line, .watch = {.log = {.write = log_line, .level = RC_LOG_INFO}}}};
    SUCCEEDS(rc_artefact_find(name, &s.artefact));
    printed[0] = logged[0] = '\0';
    return s;
}

static void has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("'%s' is not in: %s", part, text);
}

static void file_has(const char *name, const char *part)
{
    char *text;
    size_t size;
    SUCCEEDS(rc_file_read(in_work(name), 1 << 20, &text, &size));
    has(text, part);
    rc_free(NULL, text);
}

/* ---- which cells count ------------------------------------------------------------------------------------------ */

/* Looks at CwD, five tasks, order 0; the message where it is refused. */
static const char *look(const made *m, bool *done)
{
    rc_paper_cell cell = cell_of("cwd", 5, 0);
    char hash[RC_HASH_SIZE] = "0123456789abcdef";
    write_cell("look", &cell, m, NULL);
    rc_status status = rc_reproduce_look(&cell, 1, in_work("look"), hash, done, NULL);
    assert_true(status == RC_OK || status == RC_INVALID_ARGUMENT);
    return status == RC_OK ? NULL : rc_message();
}

static void cells_of_this_table_count_alone(void **state)
{
    (void)state;
    bool done;
    assert_null(look(&(made){.scale = 1, .done = 5}, &done));
    assert_true(done);
    assert_null(look(&(made){.scale = 1, .done = 4}, &done));
    assert_false(done);
    has(look(&(made){.scale = 0.5, .done = 5}, &done),
        "other settings (images_per_class '250', where this run has '0')");
    has(look(&(made){.scale = 1, .done = 5, .data = "1123456789abcdef"}, &done), "with other data");
    has(look(&(made){.scale = 1, .done = 5, .key = "epochs", .text = "199"}, &done), "other settings (epochs '199'");
    has(look(&(made){.scale = 1, .done = 5, .key = "tasks", .text = "10"}, &done), "another order of classes or tasks");
    has(look(&(made){.scale = 1, .done = 5, .key = "order", .text = "1"}, &done), "another order of classes or tasks");
    assert_false(done);
}

/* A setting that came later counts as its default, and nothing else does. */
static void cells_outlive_versions(void **state)
{
    (void)state;
    bool done;
    assert_null(look(&(made){.scale = 1, .done = 5, .key = "zoom"}, &done));
    assert_true(done);
    assert_null(look(&(made){.scale = 1, .done = 5, .key = "tasks"}, &done)); /* whose default is 5 */
    has(look(&(made){.scale = 1, .done = 5, .key = "class_order"}, &done), "with other settings");
    static const char second[] = "recollect-run-2";
    assert_null(look(&(made){.scale = 1, .done = 5, .format = second, .key = "buffer_size", .text = "500"}, &done));
    assert_null(look(&(made){.scale = 1, .done = 5, .format = second, .key = "lode_rho", .text = "0.05"}, &done));
    has(look(&(made){.scale = 1, .done = 5, .format = second, .key = "lode_rho", .text = "0.06"}, &done),
        "lode_rho '0.06'");
    has(look(&(made){.scale = 1, .done = 5, .format = second, .key = "buffer_size", .text = "501"}, &done), "'501'");
    has(look(&(made){.scale = 1, .done = 5, .key = "buffer_size", .text = "500"}, &done), "buffer_size '500'");
    has(look(&(made){.scale = 1, .done = 5, .key = "lode_rho", .text = "0.05"}, &done), "lode_rho '0.05'");
}

/* The hash of the data is that of the first cell, where nobody knows it. */
static void cells_of_a_set_are_of_one_data(void **state)
{
    (void)state;
    bool done;
    char hash[RC_HASH_SIZE] = "";
    rc_paper_cell cell = cell_of("cwd", 5, 0);
    write_cell("one", &cell, &(made){.scale = 1, .done = 5, .data = "aaaaaaaaaaaaaaaa"}, NULL);
    SUCCEEDS(rc_reproduce_look(&cell, 1, in_work("one"), hash, &done, NULL));
    assert_string_equal(hash, "aaaaaaaaaaaaaaaa");
    write_cell("one", &cell, &(made){.scale = 1, .done = 5}, NULL);
    assert_int_equal(rc_reproduce_look(&cell, 1, in_work("one"), hash, &done, NULL), RC_INVALID_ARGUMENT);
    has(rc_message(), "with other data");
    assert_string_equal(hash, "aaaaaaaaaaaaaaaa");
}

/* ---- the table -------------------------------------------------------------------------------------------------- */

static void tables_stand_beside_the_paper(void **state)
{
    (void)state;
    static const double last[] = {52, 53, 54}, mean[] = {66, 67, 68};
    for (int order = 0; order < 3; order++) {
        rc_paper_cell cell = cell_of("cwd", 5, order);
        write_cell("table", &cell, &(made){.scale = 1, .done = 5, .last = last[order], .mean = mean[order]}, NULL);
    }
    rc_paper_cell cell = cell_of("dgr", 10, 1);
    write_cell("table", &cell, &(made){.scale = 1, .done = 10, .last = 8.5, .mean = 20}, NULL);
    cell = cell_of("rdfcil-published", 5, 0);
    write_cell("table", &cell, &(made){.scale = 1, .done = 5, .last = 50, .mean = 60}, NULL);
    cell = cell_of("rdfcil", 5, 0); /* not done */
    write_cell("table", &cell, &(made){.scale = 1, .done = 3, .last = 50, .mean = 60}, NULL);
    rc_reproduce_settings s = settings_of("table-cifar100", "table", 1);
    SUCCEEDS(rc_reproduce_summarise(&s));
    has(printed, "table-cifar100 (Table 1: accuracy on CIFAR-100): 5 of 108 cells are done\n");
    has(printed, "cifar100, 5 tasks        orders              A_5   paper                   mean A   paper\n");
    has(printed,
        "CwD                         3/3     53.00 \xc2\xb1 1.00   52.46   +0.54     67.00 \xc2\xb1 1.00   66.31   "
        "+0.69\n");
    has(printed, "DGR                         1/3             8.50    8.10   +0.40            20.00\n");
    has(printed, "R-DFCIL*                    1/3            50.00   50.47   -0.47            60.00   64.85   -4.85\n");
    has(printed, "R-DFCIL                     0/3                -   49.90                        -   64.78\n");
    file_has("table/table-cifar100.csv", "\ncifar100,5,cwd,cwd,3,53,1,67,1,120,52.46,66.31\n");
    file_has("table/table-cifar100.csv", "\ncifar100,10,dgr,dgr,1,8.5,,20,,120,8.1,\n");
    file_has("table/table-cifar100.csv", "\ncifar100,5,rdfcil-published,rdfcil,1,50,,60,,120,50.47,64.85\n");
    file_has("table/table-cifar100.txt", "67.00 \xc2\xb1 1.00");
    file_has("table/table-cifar100.json",
             "\"path\": \"cifar100-5-published/order-0/rdfcil\",\n      \"done\": true,\n      "
             "\"last_accuracy\": 50.0");
}

/* ---- merging ---------------------------------------------------------------------------------------------------- */

static void merging_takes_what_is_of_the_table(void **state)
{
    (void)state;
    rc_merged merged;
    bool done;
    char hash[RC_HASH_SIZE] = "";
    rc_paper_cell first = cell_of("cwd", 5, 0), second = cell_of("cwd", 5, 1), third = cell_of("cwd", 5, 2);
    rc_paper_cell copy = cell_of("abd", 20, 2), other = cell_of("lwf", 5, 0);
    write_cell("here", &first, &(made){.scale = 1, .done = 5, .last = 1}, NULL);
    write_cell("there", &first, &(made){.scale = 1, .done = 5, .last = 2}, NULL);
    write_cell("there", &second, &(made){.scale = 1, .done = 5, .last = 3}, NULL);
    write_cell("there", &third, &(made){.scale = 1, .done = 4}, NULL); /* not done */
    write_cell("there", &copy, &(made){.scale = 1, .done = 20}, "cifar100-20-abd-order-2.json");
    write_cell("there", &other, &(made){.scale = 1, .done = 5, .data = "1123456789abcdef"}, NULL);
    rc_reproduce_settings s = settings_of("table-cifar100", "here", 1);
    SUCCEEDS(rc_reproduce_merge(&s, in_work("there"), &merged));
    assert_true(merged.copied == 2 && merged.there == 1 && merged.foreign == 1);
    has(logged, "lwf/results.json belongs to another run, with other data");
    SUCCEEDS(rc_reproduce_look(&second, 1, in_work("here"), hash, &done, NULL));
    assert_true(done);
    SUCCEEDS(rc_reproduce_look(&copy, 1, in_work("here"), hash, &done, NULL));
    assert_true(done);
    SUCCEEDS(rc_reproduce_look(&third, 1, in_work("here"), hash, &done, NULL));
    assert_false(done);
    SUCCEEDS(rc_reproduce_look(&other, 1, in_work("here"), hash, &done, NULL));
    assert_false(done);
    file_has("here/cifar100-5/order-0/cwd/results.json", "\"last_accuracy\": 1.0"); /* ours stays */
    SUCCEEDS(rc_reproduce_merge(&s, in_work("there"), &merged));
    assert_true(merged.copied == 0 && merged.there == 3 && merged.foreign == 1);
    assert_int_equal(rc_reproduce_merge(&s, in_work("nowhere"), &merged), RC_INVALID_ARGUMENT);
    has(rc_message(), "/nowhere' to merge");
    bool there;
    s = settings_of("table-tiny-imagenet", "new", 1);
    assert_int_equal(rc_reproduce_merge(&s, in_work("there"), &merged), RC_INVALID_ARGUMENT);
    has(rc_message(), "has no finished cell of table-tiny-imagenet");
    SUCCEEDS(rc_file_find(in_work("new"), &there));
    assert_false(there); /* nothing is in it that would be of this scale */
}

static void folders_have_one_scale(void **state)
{
    (void)state;
    rc_merged merged;
    rc_paper_cell cell = cell_of("cwd", 5, 0);
    write_cell("half", &cell, &(made){.scale = 0.5, .done = 5}, NULL);
    rc_reproduce_settings s = settings_of("table-cifar100", "into-half", 0.5);
    SUCCEEDS(rc_reproduce_merge(&s, in_work("half"), &merged)); /* says in into-half what its scale is */
    assert_int_equal(merged.copied, 1);
    s.scale = 1;
    assert_int_equal(rc_reproduce_check(&s), RC_INVALID_ARGUMENT);
    has(rc_message(), "holds results of scale 0.5, which must not mix with those of scale 1");
    s = settings_of("table-cifar100", "whole", 1);
    assert_int_equal(rc_reproduce_merge(&s, in_work("into-half"), &merged), RC_INVALID_ARGUMENT);
    has(rc_message(), "of scale 0.5");
    static const double wrong[] = {0, 1.5, -1, 0.0009};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        s.scale = wrong[i];
        assert_int_equal(rc_reproduce_check(&s), RC_INVALID_ARGUMENT);
        has(rc_message(), "expected a number from 0.001 to 1");
    }
}

/* ---- a heap that runs dry ---------------------------------------------------------------------------------------- */

static rc_status merge_and_summarise(const rc_reproduce_settings *s, const char *folder)
{
    rc_merged merged;
    RC_TRY(rc_reproduce_merge(s, folder, &merged));
    return rc_reproduce_summarise(s);
}

static void every_failure_of_memory_is_told(void **state)
{
    (void)state;
    char from[RC_PATH_SIZE];
    rc_paper_cell cell = cell_of("cwd", 5, 0);
    write_cell("dry-from", &cell, &(made){.scale = 1, .done = 5}, NULL);
    snprintf(from, sizeof from, "%s", in_work("dry-from"));
    rc_reproduce_settings s = settings_of("fig-debias", "dry", 1);
    size_t before = rc_bytes_allocated();
    bool failed = true;
    for (int k = 1; failed; k++) {
        printed[0] = logged[0] = '\0';
        allocation_to_fail = k;
        rc_status status = merge_and_summarise(&s, from);
        failed = allocation_failed();
        if (status != (failed ? RC_OUT_OF_MEMORY : RC_OK))
            fail_msg("allocation %d: %d: %s", k, (int)status, rc_message());
        assert_int_equal(rc_bytes_allocated(), before);
    }
    has(printed, "1 of 4 cells are done");
}

static int make_work(void **state)
{
    (void)state;
    return mkdtemp(work) == NULL;
}

static int remove_work(void **state)
{
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", work);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cells_of_this_table_count_alone),    cmocka_unit_test(cells_outlive_versions),
        cmocka_unit_test(cells_of_a_set_are_of_one_data),     cmocka_unit_test(tables_stand_beside_the_paper),
        cmocka_unit_test(merging_takes_what_is_of_the_table), cmocka_unit_test(folders_have_one_scale),
        cmocka_unit_test(every_failure_of_memory_is_told),
    };
    return cmocka_run_group_tests(tests, make_work, remove_work);
}
