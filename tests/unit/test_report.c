/* Reports of runs with made-up numbers: what is read, what belongs together, what the tables say. (The linker redirects
 * the library's posix_memalign, so that memory can run out.) */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/memory.h"
#include "report/tables.h"
#include "support/failing_heap.h"
#include "support/reports.h"
#include "support/run_files.h"
#include "support/succeeds.h"

/* ---- what belongs together --------------------------------------------------------------------------------------- */

static void orders_have_means_and_deviations(void **state)
{
    (void)state;
    write_run("order-0/cwd", "cwd", 0, 90, NULL);
    write_run("order-1/cwd", "cwd", 1, 94, NULL);
    write_run("order-0/lwf", "lwf", 0, 60, NULL);
    /* 50 and 54; means of 90..50 and 94..54; forgets 94 - 48 of tasks 1..4: 46, 36, 26, 16. */
    says(RC_REPORT_CSV, "accuracy",
         "dataset,tasks,method,last,last_deviation,mean,mean_deviation,forgetting,forgetting_deviation,old_classes,"
         "old_classes_deviation,new_classes,new_classes_deviation,keeps,seconds,runs,orders\n"
         "\"cifar100\",5,\"LwF\",20,,40,,31,,18,,24,,\"18.9 kB of statistics\",175,\"1 run\",\"0\"\n"
         "\"cifar100\",5,\"CwD\",52,2.828427125,72,2.828427125,31,0,50,2.828427125,56,2.828427125,"
         "\"18.9 kB of statistics\",175,\"2 runs\",\"0, 1\"\n");
    says(RC_REPORT_CSV, "tasks", "\"cifar100\",5,\"CwD\",92,2.828427125,82,2.828427125,72,");
    says(RC_REPORT_CSV, "time", "\"cifar100\",5,\"CwD\",40,100,20,5,10,175\n");
}

static void other_settings_are_other_variants(void **state)
{
    (void)state;
    write_run("a", "cwd", 0, 90, "0.1");
    write_run("b", "cwd", 1, 92, "0.1");
    write_run("c", "cwd", 0, 70, "0.5");
    rc_text text = report(RC_REPORT_CSV, "accuracy");
    has(&text, "\"CwD, lambda_war 0.1\",51,1.414213562");
    has(&text, "\"CwD, lambda_war 0.5\",30,,");
    assert_true(strstr(text.bytes, "0.1\",51") < strstr(text.bytes, "0.5\",30")); /* as they came */
    rc_text_free(&text);
}

static void copies_count_once(void **state)
{
    (void)state;
    write_run("cwd", "cwd", 0, 90, NULL);
    write_run("again", "cwd", 0, 90, NULL);
    write_run("other", "cwd", 1, 92, NULL);
    rename(in_folder("again/results.json"), in_folder("again/copy.json"));
    char copy[RC_PATH_SIZE], *place[] = {copy, report_folder};
    SUCCEEDS(rc_path_in(report_folder, "again/copy.json", copy));
    rc_report_settings settings = {.place = place, .places = 2, .format = RC_REPORT_CSV};
    rc_text text;
    rc_report_about about;
    SUCCEEDS(rc_report_make(&settings, &text, &about));
    assert_int_equal(about.runs, 2);
    assert_int_equal(about.copies, 1);
    has(&text, "\"CwD\",51,1.414213562");
    has(&text, "/cwd/results.json\""); /* which may have a log beside it */
    has_not(&text, "copy.json");
    rc_text_free(&text);
}

/* The run in a folder of that number, which its accuracy shows, too. */
static void write_numbered(run_file *run, int number)
{
    char name[32];
    snprintf(name, sizeof name, "%d", number);
    run->accuracy = 80 + number;
    run_file_write(run, in_folder(name));
}

static void images_of_ones_own_are_named_like_their_folder(void **state)
{
    static const struct {
        const char *dataset, *data, *shown;
    } set[] = {{"folder", "photos/cats/", "\"cats (folder)\",5,\"CwD\",40,,"},
               {"folder-part", "dogs", "\"dogs (folder-part)\",5,\"CwD\",41,,"},
               {"list", "/lists/all.txt", "\"all.txt (list)\",5,\"CwD\",42,,"},
               {"csv", "all.csv", "\"all.csv (csv)\",5,\"CwD\",43,,"},
               {"folder", NULL, "\"folder\",5,\"CwD\",44,,"},
               {"cifar100", "cats", "\"cifar100\",5,\"CwD\",45,,"},
               {"idx-validation-part", "digits", "\"digits (idx-validation-part)\",5,\"CwD\",46,,"},
               {"folders-of-mine", "birds", "\"folders-of-mine\",5,\"CwD\",47,,"},
               {"fold", "birds", "\"fold\",5,\"CwD\",48,,"}};
    enum { SETS = sizeof set / sizeof *set };
    run_file run = five;
    (void)state;
    for (int i = 0; i < SETS; i++) {
        run.dataset = set[i].dataset;
        run.data = set[i].data;
        write_numbered(&run, i);
    }
    rc_text text = report(RC_REPORT_CSV, "accuracy");
    for (int i = 0; i < SETS; i++)
        has(&text, set[i].shown);
    rc_text_free(&text);
}

/* a/train and b/train are both "train (folder)". What differs because it was read in another way, or because another
 * seed chose the test images, is one data set if it lies at one place. Names of published sets are enough. */
static void folders_of_one_name_are_two_data_sets(void **state)
{
    static const struct {
        const char *dataset, *data, *fingerprint, *size;
        int seed;
    } set[] = {{"folder", "a/train", NULL, "32", 1},  {"folder", "a/train", "0aa", "32", 1},
               {"folder", "c/train", "0aa", "32", 1}, {"folder", "b/train", "0bb", "32", 1},
               {"folder", "b/train", "0bc", "32", 2}, {"folder", "b/train", "0bd", "64", 1},
               {"folder", "b/train", "0ee", "64", 1}, {"folder", "test", "0aa", "32", 1},
               {"cifar100", "here", "0aa", "0", 1},   {"cifar100", "there", "0bb", "0", 1}};
    enum { RUNS = sizeof set / sizeof *set };
    run_file run = five;
    (void)state;
    for (int i = 0; i < RUNS; i++) {
        run.dataset = set[i].dataset;
        run.data = set[i].data;
        run.data_fingerprint = set[i].fingerprint;
        run.size = set[i].size;
        run.seed = set[i].seed;
        write_numbered(&run, i);
    }
    rc_text text = report(RC_REPORT_CSV, "accuracy");
    has(&text, "\n\"cifar100\",5,\"CwD\",48.5,");
    has(&text, "\n\"test (folder)\",5,\"CwD\",47,,");
    has(&text, "\n\"train (folder), data 0aa\",5,\"CwD\",41,");
    has(&text, "\n\"train (folder), data 0bb\",5,\"CwD, size 32\",43.5,");
    has(&text, "\n\"train (folder), data 0bb\",5,\"CwD, size 64\",45,,");
    has(&text, "\n\"train (folder), data 0ee\",5,\"CwD\",46,,");
    assert_int_equal(count_of(&text, "dataset,tasks,"), 5);
    assert_int_equal(count_of(&text, "\"CwD"), 6);
    rc_text_free(&text);
}

static void the_most_that_is_kept_counts(void **state)
{
    run_file run = five;
    (void)state;
    for (int order = 0; order < 3; order++) {
        static const int kept[] = {2000, 5000, 3000};
        char name[32];
        snprintf(name, sizeof name, "%d", order);
        run.order = order;
        run.kept = kept[order];
        run_file_write(&run, in_folder(name));
    }
    says(RC_REPORT_CSV, "accuracy", "\"5.0 kB of statistics\"");
}

static void colours_stay_with_their_labels(void **state)
{
    rc_report_runs runs = {0};
    rc_report_sets sets;
    run_file run = five;
    (void)state;
    static const char *const settings[] = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
    write_run("cwd", "cwd", 0, 90, NULL);
    for (int i = 0; i < 10; i++) {
        char name[32];
        snprintf(name, sizeof name, "er-%d", i);
        write_run(name, "er", 0, 50, settings[i]);
    }
    run.tasks = run.done = 3;
    run.method = "er";
    run_file_write(&run, in_folder("other/er"));
    run.method = "cwd";
    run_file_write(&run, in_folder("other/cwd"));
    SUCCEEDS(rc_report_runs_add(&runs, report_folder));
    SUCCEEDS(rc_report_sets_make(&runs, &sets));
    const rc_report_variant *three = sets.set[0].variant, *v = sets.set[1].variant;
    assert_int_equal(sets.set[0].tasks, 3);
    assert_int_equal(sets.set[0].classes, 6);
    assert_int_equal(sets.set[1].classes, 10);
    assert_string_equal(three[0].label, "ER");
    assert_int_equal(three[0].colour, 2);
    assert_int_equal(three[1].colour, 1); /* CwD */
    for (int i = 0; i < 10; i++) {
        assert_int_equal(v[i].colour, 2 + (1 + i) % 9);
        assert_int_equal(v[i].dashed, i >= 8);
    }
    assert_int_equal(v[10].colour, 1);
    rc_report_sets_free(&sets);
    rc_report_runs_free(&runs);
    write_run("lwf", "lwf", 0, 90, NULL);
    run.method = "lwf";
    run_file_write(&run, in_folder("other/lwf"));
    SUCCEEDS(rc_report_runs_add(&runs, report_folder));
    SUCCEEDS(rc_report_sets_make(&runs, &sets));
    assert_string_equal(sets.set[0].variant[1].label, "LwF");
    assert_string_equal(sets.set[1].variant[10].label, "LwF");
    assert_int_equal(sets.set[0].variant[1].colour, 3);
    assert_int_equal(sets.set[1].variant[10].colour, 3);
    assert_false(sets.set[1].variant[10].dashed);
    rc_report_sets_free(&sets);
    rc_report_runs_free(&runs);
}

static void sets_are_sorted_and_methods_keep_their_order(void **state)
{
    run_file run = five;
    (void)state;
    write_run("a", "cwd", 0, 90, NULL);
    write_run("z", "finetune", 0, 90, NULL);
    run.tasks = run.done = 10;
    run.classes_per_task = 1; /* fewer classes than the five tasks have */
    run_file_write(&run, in_folder("m"));
    run.classes_per_task = 2;
    run.tasks = run.done = 3;
    run.dataset = "animals";
    run_file_write(&run, in_folder("n"));
    run.method = "of another program";
    run_file_write(&run, in_folder("o"));
    rc_text text = report(RC_REPORT_CSV, "accuracy");
    const char *order[] = {"\"animals\",3,\"CwD\"", "\"animals\",3,\"of another program\"",
                           "\"cifar100\",5,\"Fine-tuning\"", "\"cifar100\",5,\"CwD\"", "\"cifar100\",10,\"CwD\""};
    const char *before = text.bytes;
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        const char *at = strstr(text.bytes, order[i]);
        if (at == NULL || at < before)
            fail_msg("%s is missing, or not in its place", order[i]);
        before = at;
    }
    rc_text_free(&text);
}

static void runs_that_are_not_done_do_not_count(void **state)
{
    run_file run = five;
    (void)state;
    write_run("order-0/cwd", "cwd", 0, 90, NULL);
    run.order = 1;
    run.done = 2;
    run.accuracy = 80;
    run_file_write(&run, in_folder("order-1/cwd"));
    run.method = "lwf";
    run_file_write(&run, in_folder("order-1/lwf"));
    run.done = 0;
    run.method = "er";
    run_file_write(&run, in_folder("order-1/er"));
    rc_text text = report(RC_REPORT_CSV, "accuracy");
    has(&text, "\"CwD\",50,,70,,");
    has(&text, "\"1 of 2 runs done\",\"0, 1\"");
    has(&text, "\"LwF\",,,,,,,,,,,\"18.9 kB of statistics\",,\"2 of 5 tasks done\"");
    has(&text, "\"ER\",,,,,,,,,,,\"nothing\",,\"0 of 5 tasks done\"");
    rc_text_free(&text);
    says(RC_REPORT_CSV, "tasks", "\"CwD\",85,7.071067812,75,7.071067812,70,,60,,50,\n");
    text = report(RC_REPORT_HTML, NULL);
    has(&text, "Some runs are not finished.");
    has(&text, "<b>1 of 4</b><span>runs are done");
    rc_text_free(&text);
}

static void a_run_with_classes_is_shown(void **state)
{
    run_file run = five;
    (void)state;
    run.without_classes = true;
    run_file_write(&run, in_folder("a"));
    write_run("b", "cwd", 1, 90, NULL);
    write_run("c", "cwd", 2, 90, NULL);
    says(RC_REPORT_HTML, NULL, "Classes, norms and losses are those of class order 1, seed 1.");
    says(RC_REPORT_HTML, NULL, "<b>Each class</b>");
}

static void logs_may_say_less(void **state)
{
    static const char older[] = "{\"event\":\"run\",\"dataset\":\"cifar100\"}\n";
    static const char nameless[] = "{\"event\":\"run\",\"task_sizes\":[1,1]}\n";
    static const char wrong[] = "{\"event\":\"run\",\"task_sizes\":[1,-1]}\n";
    rc_text out;
    rc_report_about about;
    (void)state;
    run_file_bytes(in_folder("old"), "events.jsonl", older, sizeof older - 1);
    assert_int_equal(try_report(RC_REPORT_CSV, NULL, &out, &about), RC_INVALID_ARGUMENT);
    run_file_bytes(in_folder("er"), "events.jsonl", nameless, sizeof nameless - 1);
    says(RC_REPORT_CSV, "accuracy", "\"unknown data\",2,\"ER\",");
    run_file_bytes(in_folder("er"), "events.jsonl", wrong, sizeof wrong - 1);
    assert_int_equal(try_report(RC_REPORT_CSV, NULL, &out, &about), RC_FORMAT);
    assert_non_null(strstr(rc_message(), "er/events.jsonl is not the log of a run: task 2 has size -1"));
}

static void runs_begin_with_a_log(void **state)
{
    (void)state;
    run_file_log(&five, in_folder("cwd"), 1);
    run_file_log(&five, in_folder("first-task"), 1);
    rc_text text = report(RC_REPORT_HTML, NULL);
    has(&text, "No run is finished yet.");
    has(&text, "0 of 5 tasks done");
    has(&text, "<b>Losses</b>");
    rc_text_free(&text);
    says(RC_REPORT_CSV, "runs", "\"cifar100\",5,\"CwD\",0,1,0,,,0,\"a machine, cpu fp32\",\"0.1.0 abc\",\"");
}

static void runs_name_every_program_that_went_on_with_them(void **state)
{
    run_file run = five;
    (void)state;
    run.last_commit = "def+";
    run_file_write(&run, in_folder("cwd"));
    says(RC_REPORT_CSV, "runs", "\"a machine, cpu fp32\",\"0.1.0 abc, def+\",\"");
}

/* ---- the paper --------------------------------------------------------------------------------------------------- */

static void paper_has_all_its_numbers(void **state)
{
    (void)state;
    int numbers = 0;
    for (const rc_paper_row *row = rc_paper; row->dataset != NULL; row++)
        numbers += !isnan(row->last) + !isnan(row->mean);
    assert_int_equal(numbers, 189);
    const rc_paper_row *row = rc_paper_find("cifar100", 5, "cwd");
    assert_true(row->last == 52.46 && row->last_deviation == 0.35 && row->mean == 66.31 && row->mean_deviation == 1.46);
    row = rc_paper_find("imagenet100", 20, "cwd");
    assert_true(row->last == 34.6 && isnan(row->last_deviation) && row->mean == 49.18);
    row = rc_paper_find("tiny-imagenet", 10, RC_PAPER_RDFCIL);
    assert_true(row->last == 29.58 && row->last_deviation == 0.51 && row->mean == 44.36 && row->mean_deviation == 0.18);
    assert_string_equal(rc_paper_title(row), "R-DFCIL*");
    assert_string_equal(rc_paper_title(rc_paper_find("cifar100", 5, "rdfcil")), "R-DFCIL");
    assert_true(isnan(rc_paper_find("cifar100", 5, "wa")->mean));
    assert_null(rc_paper_find("cifar100", 5, "joint"));
    assert_null(rc_paper_find("cifar100", 7, "cwd"));
    assert_null(rc_paper_find("cifar10", 5, "cwd"));
    for (int i = 0; i < RC_COMBINATIONS; i++) /* they speak of the same losses */
        assert_non_null(rc_paper_dkl_find(rc_combination_title(i)));
    assert_null(rc_paper_dkl[RC_COMBINATIONS].losses);
    assert_true(rc_paper_dkl_find("stat + div")->gaussian == 21.0037 &&
                rc_paper_dkl_find("stat + div")->kde == 33.2941);
    assert_null(rc_paper_dkl_find("div"));
    for (numbers = 0; rc_paper_cost[numbers].dataset != NULL;)
        numbers++;
    assert_int_equal(numbers, 18);
    assert_true(rc_paper_cost_find("tiny-imagenet", 20, "rdfcil") == 1.91);
    assert_true(isnan(rc_paper_cost_find("tiny-imagenet", 20, "er")) && isnan(rc_paper_cost_find("x", 20, "cwd")));
    assert_true(isnan(rc_paper_cost_find("cifar100", 2, "cwd")));
}

static void our_numbers_stand_beside_the_paper(void **state)
{
    (void)state;
    write_run("cwd", "cwd", 0, 90, NULL);
    write_run("joint", "joint", 0, 95, NULL);
    rc_text text = report(RC_REPORT_CSV, "paper");
    has(&text, "\"cifar100\",5,\"CwD\",50,,52.46,0.35,-2.46,70,,66.31,1.46,3.69,1\n");
    has(&text, "\"cifar100\",5,\"LwF\",,,17,0.1,,,,,,,0\n");
    has(&text, "\"cifar100\",5,\"R-DFCIL*\",,,50.47,0.43,,,,64.85,1.78,,0\n");
    has_not(&text, "Joint");
    assert_int_equal(count_of(&text, "\n"), 19); /* the head, and the paper's 18 rows */
    rc_text_free(&text);
    text = report(RC_REPORT_HTML, NULL);
    has(&text, "The paper has 52.5 %");
    has(&text, "<b>\xE2\x88\x92"
               "2.5 <em>points</em></b><span>from the paper's figure");
    rc_text_free(&text);
}

/* A run with the settings of R-DFCIL's own code is another row than one with CwD's, and needs no words about them. */
static void own_settings_are_a_row_of_their_own(void **state)
{
    (void)state;
    run_file run = five;
    run.method = "rdfcil";
    run_file_write(&run, in_folder("a"));
    run.own_settings = true;
    run.accuracy = 80;
    run_file_write(&run, in_folder("b"));
    rc_text text = report(RC_REPORT_CSV, "paper");
    has(&text, "\"cifar100\",5,\"R-DFCIL\",50,,49.9,0.23,0.1,70,,64.78,2.23,5.22,1\n");
    has(&text, "\"cifar100\",5,\"R-DFCIL*\",40,,50.47,0.43,-10.47,60,,64.85,1.78,-4.85,1\n");
    assert_int_equal(count_of(&text, "\n"), 19);
    rc_text_free(&text);
    run.setting = "0.5";
    run_file_write(&run, in_folder("c"));
    says(RC_REPORT_CSV, "accuracy", "\"R-DFCIL*, lambda_war 0.1\"");
    says(RC_REPORT_CSV, "accuracy", "\"R-DFCIL*, lambda_war 0.5\"");
    says(RC_REPORT_CSV, "accuracy", "\"R-DFCIL\"");
}

static void coverage_counts_numbers(void **state)
{
    rc_report_runs runs = {0};
    rc_report_sets sets;
    int printed, measured;
    (void)state;
    write_run("cwd", "cwd", 0, 90, NULL); /* last and mean */
    write_run("wa", "wa", 0, 90, NULL);   /* last alone */
    SUCCEEDS(rc_report_runs_add(&runs, report_folder));
    SUCCEEDS(rc_report_sets_make(&runs, &sets));
    rc_report_coverage(&sets.set[0], &printed, &measured);
    assert_int_equal(printed, 27);
    assert_int_equal(measured, 3);
    rc_report_sets_free(&sets);
    rc_report_runs_free(&runs);
}

static const rc_report_variant *only_variant(const char *path, rc_report_runs *runs, rc_report_sets *sets)
{
    *runs = (rc_report_runs){0};
    SUCCEEDS(rc_report_runs_add(runs, path));
    SUCCEEDS(rc_report_sets_make(runs, sets));
    assert_int_equal(sets->count, 1);
    assert_int_equal(sets->set[0].variants, 1);
    return &sets->set[0].variant[0];
}

static void is_beside_the_paper(const char *path, bool expected)
{
    rc_report_runs runs;
    rc_report_sets sets;
    int printed, measured;
    const rc_report_variant *v = only_variant(path, &runs, &sets);
    if ((v->paper != NULL) != expected)
        fail_msg("%s: %s the paper's figure beside it", path, expected ? "without" : "with");
    rc_report_coverage(&sets.set[0], &printed, &measured);
    assert_int_equal(printed, strcmp(sets.set[0].dataset, "cifar100") == 0 ? 27 : 18);
    assert_int_equal(measured, expected ? 2 : 0);
    rc_report_sets_free(&sets);
    rc_report_runs_free(&runs);
}

/* The paper's figures are of its settings alone. Files of earlier versions have fewer settings, and other names for
 * some values; runs that say none may be of any. */
static void other_settings_are_not_the_papers(void **state)
{
    static const struct {
        const char *file;
        bool expected;
    } kept[] = {{"cifar100-5-cwd-order-1", true},   {"cifar100-5-er-order-0", true},
                {"cifar100-10-lode-order-0", true}, {"tiny-imagenet-5-cwd-order-0", true},
                {"cifar100-20-cwd-order-0", true},  {"cifar100-5-strong-cwd-order-0", false}};
    static const struct {
        const char *setting, *value;
        bool expected;
    } others[] = {{"images_per_class", "2", false}, {"epochs", "2", false},
                  {"test_mirror", "true", false},   {"seed", "7", true},
                  {"data", "here", true},           {"test_batch", "9", true},
                  {"format", "cifar", true},        {"decode", "pack", true},
                  {"profile", "paper", true},       {"profile", "later", false}};
    run_file run = five;
    char path[RC_PATH_SIZE];
    (void)state;
    run_file_write(&run, in_folder("same"));
    is_beside_the_paper(in_folder("same"), true);
    run.setting = "0.5";
    run_file_write(&run, in_folder("setting"));
    is_beside_the_paper(in_folder("setting"), false);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        run = five;
        run.other[0] = others[i].setting;
        run.other[1] = others[i].value;
        run_file_write(&run, in_folder(run.other[0]));
        is_beside_the_paper(in_folder(run.other[0]), others[i].expected);
    }
    run = five;
    run.own_settings = true; /* which are R-DFCIL's */
    run_file_write(&run, in_folder("own"));
    is_beside_the_paper(in_folder("own"), false);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        snprintf(path, sizeof path, "%s/docs/results/%s.json", RC_SOURCE_DIR, kept[i].file);
        is_beside_the_paper(path, kept[i].expected);
    }
    /* Of a mean over runs all have to be the paper's. */
    run = five;
    run_file_write(&run, in_folder("both/order-0"));
    is_beside_the_paper(in_folder("both"), true);
    run.order = 1;
    run.size = "16";
    run_file_write(&run, in_folder("both/order-1"));
    rc_report_runs runs = {0};
    rc_report_sets sets;
    SUCCEEDS(rc_report_runs_add(&runs, in_folder("both")));
    SUCCEEDS(rc_report_sets_make(&runs, &sets));
    assert_int_equal(sets.set[0].variants, 1); /* one says no size */
    assert_int_equal(sets.set[0].variant[0].runs, 2);
    assert_null(sets.set[0].variant[0].paper);
    rc_report_sets_free(&sets);
    rc_report_runs_free(&runs);
}

/* ---- classes ----------------------------------------------------------------------------------------------------- */

static const char *reversed(int label)
{
    static char name[32];
    snprintf(name, sizeof name, "class %d", 10 - label);
    return name;
}

static void classes_are_matched_by_name(void **state)
{
    run_file run = five;
    (void)state;
    write_run("a", "cwd", 0, 90, NULL);
    run.order = 1;
    run.name = reversed;
    run_file_write(&run, in_folder("b"));
    /* class 1 has 0 % in the one, which learnt it first, and 9 % in the other, which learnt it last. */
    says(RC_REPORT_CSV, "classes",
         "dataset,tasks,class,task,\"CwD\",\"CwD deviation\"\n\"cifar100\",5,\"class 1\",,4.5,6.36");
    says(RC_REPORT_CSV, "classes", "\"cifar100\",5,\"class 3\",,4.5,3.5");
    says(RC_REPORT_CSV, "classes", "\"cifar100\",5,\"class 5\",3,4.5,0.7");
    says(RC_REPORT_CSV, "confused", "\"CwD\",\"class 1\",\"class 2\",3,4");
}

/* ---- what cannot be read ----------------------------------------------------------------------------------------- */

static void refused(const char *json, const char *piece)
{
    rc_text out;
    rc_report_about about;
    run_file_bytes(in_folder("cwd"), "results.json", json, strlen(json));
    size_t before = rc_bytes_allocated();
    rc_status status = try_report(RC_REPORT_HTML, NULL, &out, &about);
    if (status != RC_FORMAT || strstr(rc_message(), "/cwd/results.json") == NULL || strstr(rc_message(), piece) == NULL)
        fail_msg("%s: %s: %s", json, recollect_status_text(status), rc_message());
    rc_text_free(&out);
    assert_int_equal(rc_bytes_allocated(), before);
}

#define TASK(classes, accuracy, row) \
    "{\"classes\":" classes ",\"accuracy\":" accuracy ",\"by_task\":" row ",\"seconds\":{}}"

static void files_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    refused("{\"method\": \"cw", "line 1");
    refused("", "line 1");
    refused("[]", "method");
    refused("{\"method\":\"cwd\"}", "task_sizes");
    refused("{\"method\":\"cwd\",\"task_sizes\":[]}", "task_sizes has 0 entries, expected 1 to 256");
    refused("{\"method\":\"cwd\",\"task_sizes\":[0]}", "task 1 has size 0");
    refused("{\"method\":\"cwd\",\"task_sizes\":[1,20000]}", "task 2 has size 20000");
    refused("{\"method\":\"cwd\",\"task_sizes\":[9223372036854775807]}", "task 1 has size");
    refused("{\"method\":\"a name that is longer than any method's\",\"task_sizes\":[1]}", "method has 39 bytes");
    refused("{\"method\":\"12345678901234567890123456789012\",\"task_sizes\":[1]}", "method has 32 bytes");
    refused("{\"method\":\"1234567890123456789012345678901\",\"task_sizes\":[1]}", "tasks_done");
    refused("{\"method\":\"cwd\",\"task_sizes\":7}", "'task_sizes'");
    refused("{\"method\":\"cwd\",\"task_sizes\":[2],\"tasks_done\":1,\"tasks\":[]}", "not results of this run");
    refused("{\"method\":\"cwd\",\"task_sizes\":[2],\"tasks_done\":1,\"tasks\":[" TASK("2", "101", "[1]") "]}",
            "accuracy 101, expected a number from 0 to 100");
    refused("{\"method\":\"cwd\",\"task_sizes\":[2],\"tasks_done\":1,\"tasks\":[" TASK("3", "1", "[1]") "]}",
            "task 1 of the results does not fit the run");
    refused("{\"method\":\"cwd\",\"task_sizes\":[1],\"tasks_done\":1,\"tasks\":[" TASK(
                "1", "1", "[1]") "],\"classes\":[{\"name\":\"a\",\"accuracy\":1,\"top5\":100.5}]}",
            "the results have top5 100.5, expected a number from 0 to 100");
    refused("{\"method\":\"cwd\",\"task_sizes\":[1],\"tasks_done\":1,\"tasks\":[" TASK(
                "1", "1", "[1]") "],\"classes\":[{\"name\":7}]}",
            "name");
    refused("{\"method\":\"cwd\",\"task_sizes\":[1],\"tasks_done\":1,\"tasks\":[" TASK(
                "1", "1", "[1]") "],\"classes\":[{\"name\":\"a\"}],\"confusion\":[[1],[2]]}",
            "confusion has 2 rows, expected 1");
    refused("{\"method\":\"cwd\",\"task_sizes\":[1],\"tasks_done\":1,\"tasks\":[" TASK(
                "1", "1", "[1]") "],\"classes\":[{\"name\":\"a\"}],\"confusion\":[[1,2]]}",
            "row 1 of confusion has 2 entries, expected 1");
    refused("{\"method\":\"cwd\",\"task_sizes\":[1],\"tasks_done\":1,\"tasks\":[" TASK(
                "1", "1", "[1]") "],\"classes\":[{\"name\":\"a\"}],\"confusion\":[[-1]]}",
            "row 1 of confusion has -1");
    refused("{\"method\":\"cwd\",\"task_sizes\":[1],\"tasks_done\":1,\"tasks\":[" TASK(
                "1", "1", "[1]") "],\"classes\":[{\"name\":\"a\"}],\"confusion\":[[1000000001]]}",
            "row 1 of confusion has 1000000001, expected a number of images");
}

static void many_images_that_are_taken_for_another_class_have_a_share(void **state)
{
    static const char json[] = "{\"method\":\"cwd\",\"task_sizes\":[2],\"tasks_done\":1,\"tasks\":[" TASK(
        "2", "1", "[1]") "],\"classes\":[{\"name\":\"a\"},{\"name\":\"b\"}],\"confusion\":[[1000000000,1000000000],"
                         "[250000000,750000000]],\"run\":{\"dataset\":\"cifar100\"}}";
    (void)state;
    run_file_bytes(in_folder("cwd"), "results.json", json, strlen(json));
    says(RC_REPORT_CSV, "confused", "\"a\",\"b\",1000000000,50\n");
    says(RC_REPORT_CSV, "confused", "\"b\",\"a\",250000000,25\n");
}

/* How many runs the first variant of a method has, of two with these settings. */
static void two_runs_with(const char *method, const char *one, const char *other, const char *expected)
{
    static const char form[] = "{\"method\":\"%s\",\"task_sizes\":[2],\"tasks_done\":1,\"tasks\":[" TASK(
        "2", "1", "[1]") "],\"run\":{\"dataset\":\"cifar100\",\"config\":{%s}}}";
    char json[1024];
    snprintf(json, sizeof json, form, method, one);
    run_file_bytes(in_folder("one"), "results.json", json, strlen(json));
    snprintf(json, sizeof json, form, method, other);
    run_file_bytes(in_folder("two"), "results.json", json, strlen(json));
    says(RC_REPORT_CSV, "accuracy", expected);
}

static void values_of_rows_are_those_that_were_numbers(void **state)
{
    (void)state;
    two_runs_with("er-5120", "\"buffer_size\":\"500\"", "\"buffer_size\":\"0\"", "\"2 runs\"");
    two_runs_with("er", "\"buffer_size\":\"0\"", "\"buffer_size\":\"501\"", "\"ER, buffer_size 501\"");
    two_runs_with("er", "\"buffer_size\":\"0\"", "\"buffer_size\":\"500\"}, \"format\":\"recollect-run-3\", \"a\":{",
                  "\"ER, buffer_size 500\"");
    two_runs_with("er", "\"buffer_size\":\"0\"", "\"buffer_size\":\"500\"}, \"format\":\"recollect-run-2\", \"a\":{",
                  "\"2 runs\"");
    two_runs_with("lode", "\"lode_rho\":\"0\"", "\"lode_rho\":\"0.05\"", "\"2 runs\"");
    two_runs_with("cwd", "\"generators\":\"1\",\"rotations\":\"off\"", "\"generators\":\"0\",\"rotations\":\"method\"",
                  "\"2 runs\"");
    two_runs_with("cwd", "\"generators\":\"1\"", "\"generators\":\"2\"", "\"CwD, generators 2\"");
    two_runs_with("cwd+", "\"generators\":\"1\"", "\"generators\":\"0\"", "\"CwD+, generators 1\"");
    two_runs_with("cwd+", "\"rotations\":\"method\"", "\"rotations\":\"off\"", "\"CwD+, rotations off\"");
}

static void settings_without_names_are_passed_over(void **state)
{
    static const char json[] = "{\"method\":\"cwd\",\"task_sizes\":[2],\"tasks_done\":1,\"tasks\":[" TASK(
        "2", "1", "[1]") "],\"run\":{\"dataset\":\"cifar100\",\"config\":[\"7\"]}}";
    (void)state;
    run_file_bytes(in_folder("one"), "results.json", json, strlen(json));
    run_file_bytes(in_folder("two"), "results.json", json, strlen(json));
    says(RC_REPORT_CSV, "accuracy", "\"CwD\"");
}

static void places_without_runs_are_told(void **state)
{
    rc_report_runs runs = {0};
    (void)state;
    assert_int_equal(rc_report_runs_add(&runs, report_folder), RC_INVALID_ARGUMENT);
    assert_non_null(strstr(rc_message(), "there is no run in '/tmp/recollect-test-"));
    assert_int_equal(rc_report_runs_add(&runs, in_folder("nowhere")), RC_IO);
    assert_non_null(strstr(rc_message(), "nowhere'"));
    run_file_write(&five, in_folder("first-task")); /* of several methods, and no run of its own */
    assert_int_equal(rc_report_runs_add(&runs, report_folder), RC_INVALID_ARGUMENT);
    run_file_bytes(in_folder("cwd"), "events.jsonl", "{\"event\":\"ru", 12);
    assert_int_equal(rc_report_runs_add(&runs, report_folder), RC_FORMAT);
    assert_non_null(strstr(rc_message(), "cwd/events.jsonl has no whole line yet"));
    rc_report_runs_free(&runs);
}

static void files_and_links(void **state)
{
    rc_report_runs runs = {0};
    (void)state;
    run_file_write(&five, in_folder("deep/deeper/cwd"));
    run_file_write(&five, in_folder("1/2/3/4/5/6/cwd")); /* deeper than runs lie */
    run_file_write(&five, in_folder("a/b/c/d/e/cwd"));
    assert_int_equal(symlink(report_folder, in_folder("deep/circle")), 0);
    SUCCEEDS(rc_report_runs_add(&runs, in_folder("deep/deeper/cwd/results.json")));
    assert_string_equal(runs.run[0]->folder, in_folder("deep/deeper/cwd"));
    SUCCEEDS(rc_report_runs_add(&runs, in_folder("deep///")));
    assert_int_equal(runs.count, 2);
    SUCCEEDS(rc_report_runs_add(&runs, report_folder));
    assert_int_equal(runs.count, 4);
    assert_string_equal(runs.run[2]->path, in_folder("a/b/c/d/e/cwd/results.json"));
    rename(in_folder("deep/deeper/cwd/results.json"), in_folder("copy.json"));
    SUCCEEDS(rc_report_runs_add(&runs, in_folder("copy.json")));
    assert_string_equal(runs.run[4]->folder, "");
    assert_string_equal(runs.run[4]->path, in_folder("copy.json"));
    rc_report_runs_free(&runs);
}

static void many_runs_are_all_there(void **state)
{
    (void)state;
    for (int i = 0; i < 40; i++) {
        char name[32];
        snprintf(name, sizeof name, "order-%02d", i);
        write_run(name, "cwd", i, 90, NULL);
    }
    rc_report_runs runs = {0};
    SUCCEEDS(rc_report_runs_add(&runs, report_folder));
    assert_int_equal(runs.count, 40);
    for (int i = 0; i < 40; i++)
        assert_int_equal(runs.run[i]->order, i);
    rc_report_runs_free(&runs);
    says(RC_REPORT_CSV, "accuracy", "\"40 runs\",\"0, 1, 2,");
}

static void a_log_that_is_a_folder_is_told(void **state)
{
    rc_report_runs runs = {0};
    (void)state;
    SUCCEEDS(rc_file_make_folder(in_folder("cwd/events.jsonl")));
    assert_int_not_equal(rc_report_runs_add(&runs, report_folder), RC_OK);
    assert_non_null(strstr(rc_message(), "cwd/events.jsonl"));
    rc_report_runs_free(&runs);
}

static void old_results_have_no_classes(void **state)
{
    run_file run = five;
    (void)state;
    run.without_classes = true;
    run_file_write(&run, in_folder("cwd"));
    rc_text text = report(RC_REPORT_HTML, NULL);
    has(&text, "<b>Task by task</b>");
    has_not(&text, "<b>Each class</b>");
    has_not(&text, "<b>What is taken for what</b>");
    rc_text_free(&text);
    says(RC_REPORT_CSV, "accuracy", "\"CwD\",50,,");
}

static void every_failure_of_memory_is_told(void **state)
{
    run_file run = five;
    (void)state;
    run.classes_per_task = 1;
    run_file_write(&run, in_folder("a"));
    run_file_log(&run, in_folder("a"), 1);
    static const char findings[] = "{\"methods\": [{\"method\": \"cwd\", \"tasks\": [{\"norms\": [1]}]}]}";
    run_file_bytes(report_folder, "ledger.json", findings, sizeof findings - 1);
    run_file_bytes(report_folder, "norms.json", findings, sizeof findings - 1);
    run_file_bytes(report_folder, "dkl.json", findings, sizeof findings - 1);
    run_file_bytes(report_folder, "cost.json", findings, sizeof findings - 1);
    run.setting = "0.7";
    run_file_write(&run, in_folder("b"));
    for (int format = RC_REPORT_HTML; format <= RC_REPORT_CSV; format++) {
        rc_text whole = report((rc_report_format)format, NULL);
        size_t before = rc_bytes_allocated();
        bool failed = true;
        for (int k = 1; failed; k++) {
            rc_text out;
            rc_report_about about;
            allocation_to_fail = k;
            rc_status status = try_report((rc_report_format)format, NULL, &out, &about);
            failed = allocation_failed();
            if (status != (failed ? RC_OUT_OF_MEMORY : RC_OK))
                fail_msg("format %d, allocation %d: %s: %s", format, k, recollect_status_text(status), rc_message());
            if (!failed)
                assert_string_equal(out.bytes, whole.bytes);
            rc_text_free(&out);
            assert_int_equal(rc_bytes_allocated(), before);
        }
        rc_text_free(&whole);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(orders_have_means_and_deviations),
        IN_FOLDER(other_settings_are_other_variants),
        IN_FOLDER(sets_are_sorted_and_methods_keep_their_order),
        IN_FOLDER(runs_that_are_not_done_do_not_count),
        IN_FOLDER(copies_count_once),
        IN_FOLDER(images_of_ones_own_are_named_like_their_folder),
        IN_FOLDER(folders_of_one_name_are_two_data_sets),
        IN_FOLDER(the_most_that_is_kept_counts),
        IN_FOLDER(colours_stay_with_their_labels),
        IN_FOLDER(a_run_with_classes_is_shown),
        IN_FOLDER(logs_may_say_less),
        IN_FOLDER(runs_begin_with_a_log),
        IN_FOLDER(runs_name_every_program_that_went_on_with_them),
        cmocka_unit_test(paper_has_all_its_numbers),
        IN_FOLDER(our_numbers_stand_beside_the_paper),
        IN_FOLDER(own_settings_are_a_row_of_their_own),
        IN_FOLDER(coverage_counts_numbers),
        IN_FOLDER(other_settings_are_not_the_papers),
        IN_FOLDER(classes_are_matched_by_name),
        IN_FOLDER(files_that_do_not_fit_are_refused),
        IN_FOLDER(many_images_that_are_taken_for_another_class_have_a_share),
        IN_FOLDER(values_of_rows_are_those_that_were_numbers),
        IN_FOLDER(settings_without_names_are_passed_over),
        IN_FOLDER(places_without_runs_are_told),
        IN_FOLDER(files_and_links),
        IN_FOLDER(many_runs_are_all_there),
        IN_FOLDER(a_log_that_is_a_folder_is_told),
        IN_FOLDER(old_results_have_no_classes),
        IN_FOLDER(every_failure_of_memory_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
