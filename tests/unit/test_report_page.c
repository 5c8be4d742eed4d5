/* Pages of reports: drawings of made-up numbers, names that would act, sizes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/memory.h"
#include "report/charts.h"
#include "report/svg.h"
#include "support/fixture.h"
#include "support/reports.h"
#include "support/run_files.h"
#include "support/succeeds.h"

static const char *hostile(int label)
{
    static const char *const names[] = {"<script>document.title='owned'</script>",
                                        "\"><img src=x onerror=alert(1)>",
                                        "' onmouseover='alert(1)",
                                        "\xD7\xA9\xD7\x9C\xD7\x95\xD7\x9D",
                                        "\xE2\x80\xAEgnp.exe",
                                        "]]></style></title><h1>",
                                        "a\nb",
                                        "| \\ {} $x$ %"};
    static char longest[301];
    if (label >= 8) {
        memset(longest, 'x', 300);
        return longest;
    }
    return names[label];
}

static void hostile_names_are_shown(void **state)
{
    run_file run = five;
    (void)state;
    run.name = hostile;
    run.dataset = "<b>data</b>";
    run.method = "<i>method</i>";
    run_file_write(&run, in_folder("run"));
    rc_text text = report(RC_REPORT_HTML, NULL);
    has(&text, "&lt;script&gt;document.title=&#39;owned&#39;&lt;/script&gt;");
    has(&text, "&quot;&gt;&lt;img src=x onerror=alert(1)&gt;");
    has(&text, "<bdi>\xD7\xA9\xD7\x9C\xD7\x95\xD7\x9D</bdi>");
    has(&text, "\\u202egnp.exe");
    has(&text, "a\\nb");
    has(&text, "&lt;b&gt;data&lt;/b&gt;");
    has(&text, "&lt;i&gt;method&lt;/i&gt;");
    has(&text, "recollect run it --out &#39;a&amp;b&#39;");
    has_not(&text, "<script>d");
    has_not(&text, "<img src=x");
    has_not(&text, "<h1>]");
    has_not(&text, "<b>data");
    has_not(&text, "<i>m");
    has_not(&text, "\xE2\x80\xAE");
    assert_int_equal(count_of(&text, "<script"), 1);
    assert_int_equal(count_of(&text, "</style>"), 1);
    assert_int_equal(count_of(&text, "</title></"), count_of(&text, "</title></circle>") +
                                                        count_of(&text, "</title></rect>") +
                                                        count_of(&text, "</title></path>"));
    rc_text_free(&text);
}

/* ---- drawings ---------------------------------------------------------------------------------------------------- */

static void axes_have_round_numbers(void **state)
{
    (void)state;
    assert_true(rc_nice_step(100, 5) == 20);
    assert_true(rc_nice_step(101, 5) == 50);
    assert_true(fabs(rc_nice_step(0.9, 5) - 0.2) < 1e-12);
    assert_true(rc_nice_step(5, 5) == 1);
    assert_true(rc_nice_step(7, 5) == 2);
    assert_true(rc_nice_step(0, 5) == 1);
    assert_true(rc_nice_step(NAN, 5) == 1);
    rc_plot plot = {.left = 10, .top = 20, .width = 100, .height = 50, .x_low = 1, .x_high = 5, .y_high = 100};
    assert_true(rc_plot_x(&plot, 1) == 10 && rc_plot_x(&plot, 3) == 60 && rc_plot_x(&plot, 5) == 110);
    assert_true(rc_plot_y(&plot, 0) == 70 && rc_plot_y(&plot, 25) == 57.5 && rc_plot_y(&plot, 100) == 20);
    plot.x_high = 1; /* one task: in the middle */
    assert_true(rc_plot_x(&plot, 1) == 60);
}

static void curves_have_their_points(void **state)
{
    (void)state;
    write_run("a", "cwd", 0, 90, NULL);
    write_run("b", "cwd", 1, 94, NULL);
    rc_text text = report(RC_REPORT_HTML, NULL);
    /* Plot: 34 + 342 / 4 a task; 14 + 230 * (1 - percent / 100). */
    has(&text, "<path class=\"line c1\" d=\"M34.0 32.4L119.5 55.4L205.0 78.4L290.5 101.4L376.0 124.4\"/>");
    has(&text,
        "<circle class=\"point c1\" cx=\"205.0\" cy=\"78.4\" r=\"4\"><title>CwD after task 3: 72.00 \xC2\xB1 2.83 % (2 "
        "runs)</title></circle>");
    has(&text, "<path class=\"band c1\" d=\"M34.0 25.9L119.5 48.9");
    has(&text, "class=\"tag c1\">CwD</text>");
    /* Beside the paper: 150 + 350 * percent / 60. */
    has(&text,
        "<circle class=\"point c1\" cx=\"453.3\" cy=\"44.4\" r=\"5\"><title>CwD, here: 52.00 \xC2\xB1 2.83 %</title>");
    has(&text, "d=\"M456.0 36.4l8 8l-8 8l-8 -8z\"><title>CwD, in the paper: 52.46 \xC2\xB1 0.35 %</title>");
    /* Time: 100 of 175 seconds are training, after 40 of inversion. */
    has(&text,
        "<rect class=\"st2\" x=\"218.6\" y=\"34.0\" width=\"171.4\" height=\"16\"><title>CwD, training: 1:40</title>");
    /* Task by task: rows of 72, and 93 % has the tenth shade. */
    has(&text, "<path class=\"h9\" d=\"M44.0 10.0h71v71h-71z\"><title>task 1 after task 1: 96.00 %");
    has(&text, "<title>task 1 after task 5: 50.00 %</title>");
    has(&text, "<title>class 9 (task 5): 8.0 %</title>");
    has(&text, "<title>class 2 (task 1): 1.010</title>");
    has(&text, "<title>old classes after task 2: 1.000</title>");
    has(&text, "<title>new classes after task 5: 2.000</title>");
    has(&text, "<path d=\"M1 0h1v1h-1z\"><title>class 1 is taken for class 2: 3</title></path>");
    has(&text, "<path d=\"M4 4h1v1h-1z\"><title>class 5 is right: 60</title></path>");
    rc_text_free(&text);
}

static void deviations_stay_inside_of_their_plots(void **state)
{
    (void)state;
    write_run("a", "cwd", 0, 90, NULL);
    write_run("b", "cwd", 1, 40, NULL);
    rc_text text = report(RC_REPORT_HTML, NULL);
    /* 65, 55, 45, 35, each +- 35.36, and 27.5 +- 31.82, in a plot from 0 at 244 to 100 at 14. */
    has(&text, "<path class=\"band c1\" d=\"M34.0 14.0L119.5 36.2L205.0 59.2L290.5 82.2L376.0 107.6"
               "L376.0 244.0L290.5 244.0L205.0 221.8L119.5 198.8L34.0 175.8z\"/>");
    /* What comes after the last task, beside the paper: from 0 at 150 to 70 at 500. */
    has(&text, "<path class=\"whisker c1\" d=\"M150.0 44.4L446.6 44.4\"/>");
    rc_text_free(&text);
}

static void losses_come_from_the_logs(void **state)
{
    run_file run = five;
    rc_report_runs runs = {0};
    rc_report_log log;
    (void)state;
    run_file_write(&run, in_folder("cwd"));
    run_file_log(&run, in_folder("cwd"), 2);
    run.tasks = 1;
    run_file_log(&run, in_folder("first-task"), 1);
    SUCCEEDS(rc_report_runs_add(&runs, report_folder));
    assert_int_equal(runs.count, 1);
    SUCCEEDS(rc_report_log_read(runs.run[0], &log));
    assert_int_equal(log.curves, 2);
    assert_int_equal(log.bins, 80);
    assert_string_equal(log.curve[0].stage, "training");
    assert_string_equal(log.curve[0].term, "ce");
    int points = 0;
    for (int i = 0; i < log.tasks * log.bins; i++)
        points += log.curve[0].count[i];
    assert_int_equal(points, 25);
    for (int task = 0; task < 5; task++) { /* the first step, a quarter, and the end */
        assert_true(log.curve[0].sum[task * 80] == 8);
        assert_true(log.curve[0].sum[task * 80 + 20] == 7);
        assert_true(log.curve[0].sum[task * 80 + 79] == 4);
    }
    rc_report_log_free(&log);
    rc_report_runs_free(&runs);
    rc_text text = report(RC_REPORT_HTML, NULL);
    has(&text, "<title>training, cross entropy: 8 at first, 4 in the end, from 4 to 8</title>");
    rc_text_free(&text);
}

static void findings_are_shown(void **state)
{
    static const char ledger[] =
        "{\"methods\": [{\"method\": \"er\", \"tasks\": [{\"accuracy\": {\"head\": 1}}]}, {\"method\": \"cwd\", "
        "\"tasks\": ["
        "{\"accuracy\": {\"head\": 90, \"probe\": 95}}, {\"accuracy\": {\"head\": 80, \"probe\": 85}}, {}, {}, "
        "{\"accuracy\": {\"head\": 50, \"nearest\": 48.5, \"true\": 55, \"stored\": null, \"moved\": 101, \"probe\": "
        "57, "
        "\"joint\": \"x\"}}, {\"accuracy\": {\"head\": 7}}]}]}";
    static const char norms[] =
        "{\"methods\": [{\"method\": \"cwd\", \"tasks\": [{\"norms\": [1, 2]}, {\"norms\": [1, null, 4, -1, "
        "9]}]}]}";
    (void)state;
    run_file_write(&five, in_folder("order-0/cwd"));
    run_file_bytes(in_folder("order-0"), "ledger.json", ledger, sizeof ledger - 1);
    run_file_bytes(in_folder("order-0"), "norms.json", norms, sizeof norms - 1);
    says(RC_REPORT_CSV, "ledger",
         "dataset,tasks,method,head,head_deviation,nearest,nearest_deviation,true,true_deviation,stored,stored_"
         "deviation,"
         "moved,moved_deviation,probe,probe_deviation,joint,joint_deviation\n"
         "\"cifar100\",5,\"CwD\",50,,48.5,,55,,,,,,57,,,\n");
    rc_text text = report(RC_REPORT_HTML, NULL);
    has(&text, "<b>Where accuracy is lost</b>");
    has(&text, "<title>probe after task 2: 85.00 % (1 run)</title>");
    has(&text, "<title>trained head after task 1: 90.00 % (1 run)</title>");
    has_not(&text, "LDA moved after task");
    /* Norms: 34 + 476 / 10 a class, 12 + 170 * (1 - norm / 4.6); of the second task there are four classes. */
    has(&text, "<path class=\"line thin early c1\" d=\"M73.0 145.0L119.0 108.1\"><title>after task 1</title>");
    has(&text, "<path class=\"line thin early c1\" d=\"M73.0 145.0L165.0 34.2\"><title>after task 2</title>");
    rc_text_free(&text);
    rc_report_about about;
    static const char shorter[] = "{\"methods\": [{\"method\": \"cwd\", \"tasks\": [{\"accuracy\": {\"head\": 0}}]}]}";
    run_file_bytes(in_folder("order-0"), "ledger.json", shorter, sizeof shorter - 1);
    says(RC_REPORT_CSV, "ledger", "\"CwD\",,,,,,,,,,,,,,\n");
    says(RC_REPORT_HTML, NULL, "<title>trained head after task 1: 0.00 % (1 run)</title>");
    run_file_bytes(in_folder("order-0"), "ledger.json", ledger, 100);
    assert_int_equal(try_report(RC_REPORT_HTML, NULL, &text, &about), RC_FORMAT);
    assert_non_null(strstr(rc_message(), "/order-0/cwd/../ledger.json"));
    rc_text_free(&text);
}

/* As 'recollect analyze dkl' and 'recollect analyze cost' write them, with numbers that are none in between. */
static const char dkl[] =
    "{\"methods\": [{\"method\": \"cwd\", \"classes\": 50, \"rows\": [{\"losses\": \"stat + div\", \"gaussian\": {"
    "\"drawn\": {\"k1\": {\"value\": 20.5, \"error\": 0.25}}, \"real\": {\"k1\": {\"value\": -1, \"error\": -1}}}, "
    "\"kde_scott\": {\"drawn\": {\"k1\": {\"value\": 31}, \"k2\": {\"value\": 9}}}, \"kde_isotropic\": {\"real\": "
    "{\"k1\": {\"value\": 7, \"error\": 2}}}}, {\"losses\": \"ce + div\"}, {\"losses\": 3}]}]}";
static const char cost[] =
    "{\"methods\": [{\"method\": \"cwd\", \"measured_over_er\": {\"inversion\": 0.25, \"training\": 1, \"estimation\": "
    "null, \"all\": 1.25}, \"formula_over_er\": {\"inversion\": 0.5, \"all\": 1.5}}]}";

static void dreams_and_costs_stand_beside_the_papers(void **state)
{
    (void)state;
    run_file run = five;
    write_run("order-0/cwd", "cwd", 0, 90, NULL);
    write_run("order-1/cwd", "cwd", 1, 90, NULL);
    run_file_bytes(in_folder("order-1"), "dkl.json", dkl, sizeof dkl - 1);
    run_file_bytes(in_folder("order-0"), "cost.json", cost, sizeof cost - 1);
    says(RC_REPORT_CSV, "dkl",
         "dataset,tasks,method,classes,losses,drawn_gaussian,drawn_gaussian_deviation,drawn_kde_scott,"
         "drawn_kde_scott_deviation,drawn_kde_isotropic,drawn_kde_isotropic_deviation,real_gaussian,"
         "real_gaussian_deviation,real_kde_scott,real_kde_scott_deviation,real_kde_isotropic,"
         "real_kde_isotropic_deviation,paper_gaussian,paper_kde\n"
         "\"cifar100\",5,\"CwD\",50,\"ce + div\",,,,,,,,,,,,,253.9446,42.651\n"
         "\"cifar100\",5,\"CwD\",50,\"stat + div\",20.5,0.25,31,,,,-1,,,,7,2,21.0037,33.2941\n"
         "\"cifar100\",5,\"CwD\",50,\"ce + stat + div\",,,,,,,,,,,,,22.5027,32.5018\n"
         "\"cifar100\",5,\"CwD\",50,\"ce + stat + div + dce\",,,,,,,,,,,,,16.4198,30.4094\n");
    says(RC_REPORT_CSV, "cost",
         "dataset,tasks,method,inversion,inversion_deviation,training,training_deviation,refinement,"
         "refinement_deviation,estimation,estimation_deviation,all,all_deviation,paper,formula\n"
         "\"cifar100\",5,\"CwD\",0.25,,1,,,,,,1.25,,1.17,1.5\n");
    says(RC_REPORT_HTML, NULL, "real features: KDE isotropic");
    says(RC_REPORT_HTML, NULL, "by the formulas");
    says(RC_REPORT_MARKDOWN, "dkl", "| CwD | 50 | stat + div | 20.50 \xC2\xB1 0.25 | 31.00 |");
    run.dataset = "animals"; /* which the paper does not have */
    run_file_write(&run, in_folder("animals/cwd"));
    run_file_bytes(in_folder("animals"), "dkl.json", dkl, sizeof dkl - 1);
    run_file_bytes(in_folder("animals"), "cost.json", cost, sizeof cost - 1);
    says(RC_REPORT_CSV, "dkl", "\"animals\",5,\"CwD\",50,\"stat + div\",20.5,0.25,31,,,,-1,,,,7,2,,\n");
    says(RC_REPORT_CSV, "cost", "\"animals\",5,\"CwD\",0.25,,1,,,,,,1.25,,,1.5\n");
    static const char far[] =
        "{\"methods\": [{\"method\": \"cwd\", \"rows\": [{\"losses\": \"ce + div\", \"gaussian\": {\"drawn\": {\"k1\": "
        "{\"value\": 286147246.62, \"error\": 999999.25}}}}]}]}";
    run_file_bytes(in_folder("order-1"), "dkl.json", far, sizeof far - 1);
    says(RC_REPORT_MARKDOWN, "dkl", "| CwD | \xE2\x80\x93 | ce + div | 2.861e+08 \xC2\xB1 999999.25 |");
    static const char other[] = "{\"methods\": [{\"method\": \"cwd\", \"classes\": 60, \"rows\": []}]}";
    run_file_bytes(in_folder("order-1"), "dkl.json", other, sizeof other - 1);
    says(RC_REPORT_CSV, "dkl", "\"cifar100\",5,\"CwD\",60,\"ce + div\",,,,,,,,,,,,,,\n");
}

static void torn_logs_are_read_as_far_as_they_go(void **state)
{
    static const char lines[] =
        "{\"event\":\"step\",\"task\":1,\"stage\":\"training\",\"step\":1,\"steps\":2,\"loss\":{\"ce\":1}}\n"
        "{\"event\":\"step\",\"ta\n"
        "[1, 2]\n\"x\"\n"
        "{\"event\":\"step\",\"task\":99,\"stage\":\"training\",\"step\":1,\"steps\":2,\"loss\":{\"ce\":51}}\n"
        "{\"event\":\"step\",\"task\":1,\"stage\":\"training\",\"step\":9,\"steps\":2,\"loss\":{\"ce\":52}}\n"
        "{\"event\":\"step\",\"task\":1,\"stage\":\"training\",\"step\":0,\"steps\":0,\"loss\":{\"ce\":53}}\n"
        "{\"event\":\"step\",\"task\":1,\"stage\":\"training\",\"step\":2,\"steps\":2,\"loss\":{\"ce\":2}}";
    (void)state;
    run_file_write(&five, in_folder("cwd"));
    run_file_bytes(in_folder("cwd"), "events.jsonl", lines, sizeof lines - 1);
    rc_text text = report(RC_REPORT_HTML, NULL);
    has(&text, "cross entropy: 1 at first, 1 in the end, from 1 to 1<");
    has(&text, "3 lines of the log could not be read and are left out.");
    rc_text_free(&text);
}

static void dreams_are_shown(void **state)
{
    static const char png[] = "\x89PNG\r\n\x1A\n................";
    (void)state;
    run_file_write(&five, in_folder("cwd"));
    run_file_bytes(in_folder("cwd"), "task-2-dreams.png", png, sizeof png);
    run_file_bytes(in_folder("cwd"), "task-4-dreams.png", png, sizeof png);
    run_file_bytes(in_folder("cwd/dreams"), "all.png", "GIF89a", 6);
    rc_text text = report(RC_REPORT_HTML, NULL);
    has(&text, "<b>Dreams</b> of the old classes, which task 4 learnt from");
    has(&text, "src=\"data:image/png;base64,iVBORw0KGgouLi4u");
    has(&text, "/cwd/dreams/all.png, which is no PNG.");
    assert_int_equal(count_of(&text, "<img"), 1);
    rc_text_free(&text);
    char *large = calloc(1, 800000);
    memcpy(large, png, sizeof png);
    run_file_bytes(in_folder("cwd"), "task-4-dreams.png", large, 800000);
    free(large);
    text = report(RC_REPORT_HTML, NULL);
    has(&text, "/cwd/task-4-dreams.png, which is too large for this page.");
    rc_text_free(&text);
}

/* A page that has every drawing, as it should be: tests/fixtures/report.html. After a change that is meant, look at the
 * page in a browser before the file is written again (support/fixture.h). */
static void write_every_kind(void)
{
    static const char ledger[] =
        "{\"methods\": [{\"method\": \"cwd\", \"tasks\": [{\"accuracy\": {\"head\": 90, \"probe\": 95}},"
        "{\"accuracy\": {\"head\": 80, \"probe\": 85}}]}]}";
    static const char norms[] = "{\"methods\": [{\"method\": \"cwd\", \"tasks\": [{\"norms\": [1, 2]}]}]}";
    static const char png[] = "\x89PNG\r\n\x1A\n................";
    run_file run = five;
    write_run("five/order-0/cwd", "cwd", 0, 90, NULL);
    write_run("five/order-1/cwd", "cwd", 1, 87, NULL);
    run_file_log(&five, in_folder("five/order-0/cwd"), 1);
    run_file_bytes(in_folder("five/order-0/cwd"), "task-3-dreams.png", png, sizeof png);
    run_file_bytes(in_folder("five/order-0"), "ledger.json", ledger, sizeof ledger - 1);
    run_file_bytes(in_folder("five/order-0"), "norms.json", norms, sizeof norms - 1);
    run_file_bytes(in_folder("five/order-0"), "dkl.json", dkl, sizeof dkl - 1);
    run_file_bytes(in_folder("five/order-0"), "cost.json", cost, sizeof cost - 1);
    run.without_classes = true;
    run.method = "er";
    run.setting = "0.1"; /* the paper's */
    run_file_write(&run, in_folder("five/order-0/er"));
    run.setting = "0.3";
    run.accuracy = 60;
    run_file_write(&run, in_folder("five/order-1/er"));
    run.method = "lwf";
    run.done = 2;
    run_file_write(&run, in_folder("five/order-0/lwf"));
    run = five;
    run.dataset = "animals";
    run.tasks = 14;
    run.done = 13;
    run.kept = 5;
    run_file_write(&run, in_folder("many/cwd"));
    run.dataset = "little";
    run.tasks = run.done = 2;
    run.classes_per_task = 1;
    run.accuracy = 32;
    run_file_write(&run, in_folder("two/cwd"));
    run.order = 1;
    run_file_write(&run, in_folder("two/order-1/cwd"));
    run.tasks = run.done = 1;
    run_file_write(&run, in_folder("one/cwd"));
}

/* The part of the page that depends on the runs; the folder, which has another name each time, is FOLDER. */
static rc_text body_of(const rc_text *page)
{
    rc_text body = {0};
    const char *end = strstr(page->bytes, "</main>"), *next;
    for (const char *p = strstr(page->bytes, "<header>"); p < end; p = next) {
        const char *found = strstr(p, report_folder);
        next = found != NULL && found < end ? found + strlen(report_folder) : end;
        rc_text_bytes(&body, p, (size_t)((next == end ? end : found) - p));
        rc_text_add(&body, next == end ? "" : "FOLDER");
    }
    return body;
}

static void pages_are_as_they_should_be(void **state)
{
    rc_report_runs runs = {0};
    rc_report_sets sets;
    (void)state;
    write_every_kind();
    rc_text page = report(RC_REPORT_HTML, NULL), body = body_of(&page);
    SUCCEEDS(rc_report_runs_add(&runs, in_folder("five")));
    SUCCEEDS(rc_report_sets_make(&runs, &sets));
    rc_chart_confusion(&sets.set[0].variant[2], false, &body); /* as it is in a page that would become too large */
    rc_report_sets_free(&sets);
    rc_report_runs_free(&runs);
    fixture_is("report.html", body.bytes, body.used);
    rc_text_free(&body);
    rc_text_free(&page);
}

static void full_marks_have_the_last_shade(void **state)
{
    (void)state;
    write_run("cwd", "cwd", 0, 96, NULL);
    says(RC_REPORT_HTML, NULL, "<path class=\"h9\" d=\"M44.0 10.0h71v71h-71z\"><title>task 1 after task 1: 100.00 %");
}

static void what_is_furthest_is_open(void **state)
{
    run_file run = five;
    (void)state;
    run.done = 1;
    run.method = "er";
    run_file_write(&run, in_folder("er"));
    run.done = 2;
    run.method = "lwf";
    run_file_write(&run, in_folder("lwf"));
    run.done = 0;
    run.method = "abd";
    run_file_write(&run, in_folder("abd"));
    says(RC_REPORT_HTML, NULL, "open><summary><i class=\"dot c3\"></i><bdi>LwF</bdi>");
    says(RC_REPORT_HTML, NULL, "<li><b>80.0 <em>%</em></b><span><bdi>LwF</bdi>, after 2 of 5 tasks</span></li>");
    run.method = "cwd";
    run_file_write(&run, in_folder("cwd"));
    says(RC_REPORT_HTML, NULL, "open><summary><i class=\"dot c1\"></i><bdi>CwD</bdi>");
    run.done = 5;
    run.method = "rdfcil";
    run_file_write(&run, in_folder("rdfcil"));
    says(RC_REPORT_HTML, NULL,
         "<bdi>R-DFCIL</bdi> names 50.0 % of the test images of all 10 classes right after the last task. The paper "
         "has 49.9 %.</p>");
    run.accuracy = 95;
    run.method = "er-5120";
    run_file_write(&run, in_folder("buffer")); /* it keeps images, so the best without comes first */
    run.method = "finetune";
    run_file_write(&run, in_folder("finetune"));
    run.method = "joint";
    run_file_write(&run, in_folder("joint"));
    rc_text text = report(RC_REPORT_HTML, NULL);
    has(&text,
        "The paper has 49.9 %. Without any memory it would be 55.0 %. With every image kept it would be 55.0 %.</p>");
    assert_int_equal(count_of(&text, "<details class=\"variant\" open>"), 1);
    rc_text_free(&text);
    run.setting = "0.5"; /* what was trained in another way is no measure of it */
    run_file_write(&run, in_folder("joint"));
    run.accuracy = 93;
    run.method = "finetune";
    run_file_write(&run, in_folder("another finetune"));
    says(RC_REPORT_HTML, NULL, "The paper has 49.9 %. Without any memory it would be 55.0 %.</p>");
}

static void commands_stand_once(void **state)
{
    static const char *const folders[] = {"a/cwd", "b/cwd", "a/er", "b/er"};
    run_file run = five;
    (void)state;
    for (int i = 0; i < 4; i++) { /* two commands, each of two methods */
        run.method = i < 2 ? "cwd" : "er";
        run.seed = 1 + i % 2;
        run.command = i % 2 == 0 ? "recollect run first" : "recollect run second";
        run_file_write(&run, in_folder(folders[i]));
    }
    rc_text text = report(RC_REPORT_HTML, NULL);
    has(&text, "<pre>recollect run first\nrecollect run second\n</pre>");
    rc_text_free(&text);
}

static void classes_are_those_of_a_finished_run(void **state)
{
    run_file run = five;
    (void)state;
    run.done = 2;
    run_file_write(&run, in_folder("a"));
    run.done = 5;
    run.order = 1;
    run_file_write(&run, in_folder("b"));
    says(RC_REPORT_HTML, NULL, "Classes, norms and losses are those of class order 1, seed 1.");
    says(RC_REPORT_HTML, NULL, "class 9 (task 5)");
}

/* ---- the page ---------------------------------------------------------------------------------------------------- */

static void a_page_needs_nothing_else(void **state)
{
    (void)state;
    write_run("cwd", "cwd", 0, 90, NULL);
    rc_text text = report(RC_REPORT_HTML, NULL);
    assert_int_equal(strncmp(text.bytes, "<!DOCTYPE html>\n<html lang=\"en\">", 32), 0);
    has(&text, "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-");
    has(&text, "<script>\n\"use strict\";\n");
    assert_int_equal(count_of(&text, "<script"), 1);
    has(&text, "prefers-color-scheme: dark");
    has(&text, "@media print");
    has(&text, "\n  .figures { columns: auto; } figure,"); /* in columns, chromium cuts figures between two pages */
    /* Pixels stay pixels where a picture is enlarged. Made smaller, names on it would lose lines of their letters. */
    has(&text, "\n@media (min-resolution: 2dppx) { figure img { image-rendering: pixelated; } }\n");
    assert_int_equal(count_of(&text, "pixelated"), 1);
    static const char *const loading[] = {"http:", "https:",  "url(",     "@import",
                                          "<link", "<iframe", " src=\"/", "@font-face"};
    for (size_t i = 0; i < sizeof loading / sizeof *loading; i++)
        has_not(&text, loading[i]);
    has_not(&text, "nan");
    has_not(&text, "inf\"");
    rc_text_free(&text);
}

static void a_page_of_a_hundred_classes_is_small(void **state)
{
    run_file run = five;
    (void)state;
    run.tasks = run.done = 20;
    run.classes_per_task = 5;
    run.accuracy = 95;
    run_file_log(&run, in_folder("cwd"), 1);
    static const char *const methods[] = {"cwd", "rdfcil", "abd", "lwf", "er"};
    size_t single = 0;
    for (int i = 0; i < 5; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s", methods[i]);
        run.method = methods[i];
        run_file_write(&run, in_folder(name));
        rc_text text = report(RC_REPORT_HTML, NULL);
        single = i == 0 ? text.used : single;
        assert_true(text.used < 2000000);
        rc_text_free(&text);
    }
    assert_true(single > 300000); /* it has a hint for each of the cells, most of which are not empty */
    /* Pictures fill the room that is left, and no more. */
    static const char png[] = "\x89PNG\r\n\x1A\n................";
    char *large = calloc(1, 250000);
    memcpy(large, png, sizeof png);
    for (int i = 0; i < 5; i++)
        run_file_bytes(in_folder(methods[i]), "task-20-dreams.png", large, 250000);
    free(large);
    rc_text text = report(RC_REPORT_HTML, NULL);
    assert_in_range(text.used, 1600000, 1999999);
    assert_in_range(count_of(&text, "<img"), 1, 4);
    assert_int_equal(count_of(&text, "<img") + count_of(&text, "task-20-dreams.png, which is too large for this page"),
                     5);
    rc_text_free(&text);
}

static void reports_replace_reports_alone(void **state)
{
    (void)state;
    write_run("cwd", "cwd", 0, 90, NULL);
    SUCCEEDS(rc_report_may_replace(in_folder("new.html")));
    run_file_bytes(report_folder, "mine.html", "<html>my diary</html>", 21);
    assert_int_equal(rc_report_may_replace(in_folder("mine.html")), RC_INVALID_ARGUMENT);
    assert_non_null(strstr(rc_message(), "mine.html' is there, and no report"));
    rc_text text = report(RC_REPORT_HTML, NULL);
    run_file_bytes(report_folder, "old.html", text.bytes, text.used);
    rc_text_free(&text);
    SUCCEEDS(rc_report_may_replace(in_folder("old.html")));
    assert_int_not_equal(rc_report_may_replace(report_folder), RC_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(hostile_names_are_shown),
        cmocka_unit_test(axes_have_round_numbers),
        IN_FOLDER(curves_have_their_points),
        IN_FOLDER(deviations_stay_inside_of_their_plots),
        IN_FOLDER(losses_come_from_the_logs),
        IN_FOLDER(findings_are_shown),
        IN_FOLDER(dreams_and_costs_stand_beside_the_papers),
        IN_FOLDER(torn_logs_are_read_as_far_as_they_go),
        IN_FOLDER(dreams_are_shown),
        IN_FOLDER(pages_are_as_they_should_be),
        IN_FOLDER(full_marks_have_the_last_shade),
        IN_FOLDER(what_is_furthest_is_open),
        IN_FOLDER(classes_are_those_of_a_finished_run),
        IN_FOLDER(commands_stand_once),
        IN_FOLDER(a_page_needs_nothing_else),
        IN_FOLDER(a_page_of_a_hundred_classes_is_small),
        IN_FOLDER(reports_replace_reports_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
