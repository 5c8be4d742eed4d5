/* Analyses that need a run, without one: what they count by the run's configuration, and the table of a ledger. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/consistency.h"
#include "analysis/cost.h"
#include "analysis/dreams.h"
#include "analysis/ledger.h"
#include "base/memory.h"
#include "cil/learner.h"
#include "nn/nets.h"
#include "support/cpu_backend.h"
#include "support/learning.h"
#include "support/page.h"
#include "support/succeeds.h"

/* 10 classes with 20 images each, 16 x 16 grey. */
enum { CLASSES = 10, PER_CLASS = 20, SIDE = 16 };

static int32_t labels[CLASSES * PER_CLASS];
static const rc_dataset data = {
    .h = SIDE, .w = SIDE, .c = 1, .classes = CLASSES, .train = {.count = CLASSES * PER_CLASS, .labels = labels}};

static rc_past_run run_of(const char *sizes)
{
    rc_past_run run = {.config = rc_config_default(), .data = &data};
    const char *const set[] = {
        "net=resnet-small", "net_width=8", "generator=generator-small", "generator_width=6",  "noise=12",
        "batch=8",          "epochs=7",    "refine_epochs=2",           "inversion_steps=11", "milestone=3"};
    rc_task_split split;
    for (int i = 0; i < CLASSES * PER_CLASS; i++)
        labels[i] = i % CLASSES;
    for (size_t i = 0; i < sizeof set / sizeof *set; i++)
        SUCCEEDS(rc_config_set_pair(&run.config, set[i]));
    SUCCEEDS(rc_config_set(&run.config, "task_sizes", sizes));
    SUCCEEDS(rc_config_split(&run.config, &split));
    SUCCEEDS(rc_task_stream_create(&run.stream, CLASSES, NULL, &split));
    return run;
}

/* Multiply-adds of a batch of 8, forward. */
static double classifier_batch(void)
{
    static rc_net net;
    SUCCEEDS(rc_net_resnet_small(&net, 1, SIDE, SIDE, 8, 1));
    return 8 * rc_net_macs(&net);
}

static double generator_batch(void)
{
    static rc_net net;
    SUCCEEDS(rc_net_generator_small(&net, 1, SIDE, 12, 6));
    return 8 * rc_net_macs(&net);
}

static rc_cost cost_of(const rc_past_run *run, const char *name, int tasks)
{
    const rc_method *method;
    rc_cost cost;
    SUCCEEDS(rc_method_find(name, &method));
    SUCCEEDS(rc_cost_of(run, method, NULL, tasks, &cost));
    assert_true(isnan(cost.all_seconds));
    double sum = 0;
    for (int i = 0; i < RC_STAGE_COUNT; i++)
        sum += cost.formula[i];
    assert_true(cost.all_formula == sum);
    return cost;
}

#define SAME(value, expected) assert_true(fabs((value) - (expected)) <= 1e-12 * fabs(expected))

/* Tasks of 6, 2 and 2 classes: 15, 5 and 5 batches of 8 an epoch; 5 main epochs and 2 of refinement. */
static void costs_are_the_papers_formulas(void **state)
{
    (void)state;
    rc_past_run run = run_of("6,2,2");
    const double c = classifier_batch(), g = generator_batch();
    rc_cost cwd = cost_of(&run, "cwd", 0), rdfcil = cost_of(&run, "rdfcil", 0), er = cost_of(&run, "er", 0);
    assert_int_equal(cwd.tasks, 3);
    SAME(cwd.formula[RC_STAGE_INVERSION], 2 * 11 * (g + 2 * g + c + 2 * c));
    SAME(cwd.formula[RC_STAGE_TRAINING], 5 * 15 * (c + 2 * c) + 2 * 5 * 5 * (g + 2 * (c + 2 * c)));
    SAME(cwd.formula[RC_STAGE_REFINEMENT], 2 * 2 * 5 * (g + 2 * c));
    SAME(cwd.formula[RC_STAGE_ESTIMATION], 15 * c + 5 * (6.0 / 2 * (g + c) + c) + 5 * (8.0 / 2 * (g + c) + c));
    SAME(rdfcil.formula[RC_STAGE_TRAINING], cwd.formula[RC_STAGE_TRAINING]);
    run.config.settings.generators = 3; /* each has steps of its own; a batch has no more dreams */
    rc_cost three = cost_of(&run, "cwd", 0);
    SAME(three.formula[RC_STAGE_INVERSION], 3 * cwd.formula[RC_STAGE_INVERSION]);
    SAME(three.formula[RC_STAGE_TRAINING], cwd.formula[RC_STAGE_TRAINING]);
    run.config.settings.generators = 1;
    assert_true(rdfcil.formula[RC_STAGE_ESTIMATION] == 0);
    /* ER replays in its first task, too, and has nothing but training. */
    SAME(er.all_formula, 5 * (15 + 5 + 5) * 2 * (c + 2 * c));
    rc_cost first = cost_of(&run, "cwd", 1);
    assert_int_equal(first.tasks, 1);
    SAME(first.all_formula, 5 * 15 * 3 * c + 15 * c);
    rc_task_stream_destroy(&run.stream);
}

/* Joint training has all images in every task; a limit of images holds for the formula as well. */
static void costs_count_the_images_of_the_run(void **state)
{
    (void)state;
    rc_past_run run = run_of("6,2,2");
    const double c = classifier_batch();
    SAME(cost_of(&run, "joint", 0).all_formula, 5 * (15 + 20 + 25) * 3 * c);
    SUCCEEDS(rc_config_set(&run.config, "images_per_class", "12"));
    SAME(cost_of(&run, "joint", 0).all_formula, 5 * (9 + 12 + 15) * 3 * c);
    SAME(cost_of(&run, "finetune", 0).all_formula, 5 * (9 + 3 + 3) * 3 * c);
    rc_task_stream_destroy(&run.stream);
}

/* The published generator, on images in colour. */
static void costs_know_the_generator(void **state)
{
    (void)state;
    static rc_net net;
    rc_dataset colour = data;
    colour.h = colour.w = 32;
    colour.c = 3;
    rc_past_run run = run_of("5,5");
    run.data = &colour;
    SUCCEEDS(rc_config_set(&run.config, "generator", "generator"));
    SUCCEEDS(rc_net_resnet_small(&net, 3, 32, 32, 8, 1));
    double c = 8 * rc_net_macs(&net);
    SUCCEEDS(rc_net_generator(&net, 3, 32));
    double g = 8 * rc_net_macs(&net);
    SAME(cost_of(&run, "rdfcil", 0).formula[RC_STAGE_INVERSION], 11 * 3 * (g + c));
    SUCCEEDS(rc_config_set(&run.config, "generator", "generator-small"));
    SUCCEEDS(rc_net_generator_small(&net, 3, 32, 12, 6));
    g = 8 * rc_net_macs(&net);
    SAME(cost_of(&run, "rdfcil", 0).formula[RC_STAGE_INVERSION], 11 * 3 * (g + c));
    rc_task_stream_destroy(&run.stream);
}

/* Seconds are those of the finished tasks, one that is not known makes the sum unknown. */
static void seconds_are_summed_up(void **state)
{
    (void)state;
    static rc_past_method past;
    rc_past_run run = run_of("6,2,2");
    rc_cost cost;
    past = (rc_past_method){.done = 2};
    SUCCEEDS(rc_method_find("cwd", &past.method));
    for (int i = 0; i < RC_STAGE_COUNT; i++) {
        past.seconds[0][i] = 1 + i;
        past.seconds[1][i] = 10 * i;
        past.seconds[2][i] = 1000;
    }
    SUCCEEDS(rc_cost_of(&run, past.method, &past, 0, &cost));
    assert_int_equal(cost.tasks, 2);
    assert_true(cost.seconds[RC_STAGE_REFINEMENT] == 3 + 20 && cost.all_seconds == 10 + 60);
    past.seconds[1][1] = (double)NAN;
    SUCCEEDS(rc_cost_of(&run, past.method, &past, 0, &cost));
    assert_true(isnan(cost.all_seconds) && cost.seconds[0] == 1);
    rc_task_stream_destroy(&run.stream);
}

/* The four rows of the paper's table; weights that stay are the run's. */
static void combinations_are_the_papers(void **state)
{
    (void)state;
    static const bool has[RC_COMBINATIONS][3] = {
        {true, false, false}, {false, true, false}, {true, true, false}, {true, true, true}};
    rc_settings s = rc_settings_default();
    s.weight_content = 0.7;
    for (int i = 0; i < RC_COMBINATIONS; i++) {
        rc_settings c = rc_combination_settings(&s, i);
        assert_true(c.weight_content == (has[i][0] ? 0.7 : 0));
        assert_true(c.weight_bn == (has[i][1] ? s.weight_bn : 0));
        assert_true(c.lambda_dce == (has[i][2] ? s.lambda_dce : 0));
        assert_true(c.weight_diversity == s.weight_diversity && c.inversion_steps == s.inversion_steps);
    }
}

/* Labels are what the model takes its dreams for. Every batch has dreams of its own; the last one is a part of a batch.
 * The model keeps what it had. */
static void dreams_have_the_models_labels(void **state)
{
    (void)state;
    const rc_watch nobody = {0};
    rc_settings s = learning_settings();
    rc_learner l;
    rc_saved_model model = {0};
    rc_features f;
    float *head;
    learning_create(&l, be, "cwd", &s);
    learning_teach(&l, 0, 3, 12, &learning_no_hooks);
    rc_learner_end_task(&l);
    rc_learner_move(&model.learner, &l);
    int count = 2 * s.batch + 1, d = model.learner.student.head.d;
    SUCCEEDS(rc_past_head(&model, &head));
    SUCCEEDS(rc_dream_features_create(&model, &s, count, &nobody, &f));
    assert_true(f.n == count && f.d == d);
    for (int i = 0; i < count; i++) {
        double best = -INFINITY;
        int said = -1;
        for (int k = 0; k < 3; k++) {
            double score = 0;
            for (int j = 0; j < d; j++)
                score += (double)f.value[i * d + j] * (double)head[k * d + j];
            said = score > best ? k : said;
            best = fmax(best, score);
        }
        assert_int_equal(f.label[i], said);
    }
    assert_memory_not_equal(f.value, f.value + s.batch * d, (size_t)d * sizeof *f.value);
    assert_memory_not_equal(f.value, f.value + 2 * s.batch * d, (size_t)d * sizeof *f.value);
    assert_int_equal(model.learner.statistics_classes, 3);
    assert_false(model.learner.in_task);
    rc_features_destroy(&f);
    rc_free(NULL, head);
    rc_saved_model_destroy(&model);
}

/* The widest numbers stand apart, each below the end of its title. */
static void a_ledger_has_room_for_all_that_is_right(void **state)
{
    (void)state;
    static rc_ledger_task task[2];
    static page p;
    rc_ledger ledger = {.tasks = 2, .task = task};
    SUCCEEDS(rc_method_find("cwd", &ledger.method));
    for (int t = 0; t < 2; t++) {
        task[t].classes = 5 * (t + 1);
        for (int row = 0; row < RC_LEDGER_COUNT; row++)
            task[t].accuracy[row] = task[t].by_task[0][row] = task[t].by_task[1][row] = 100;
        for (int i = 0; i < 2; i++)
            task[t].among[i] = task[t].told[i] = task[t].stored_off[i] = task[t].moved_off[i] = 100;
        task[t].old_stored_off = task[t].old_moved_off = 100;
    }
    rc_ledger_print(&ledger, page_add_line, &p);
    assert_non_null(
        strstr(p.text, "task classes  trained head  nearest mean  LDA true  LDA stored  LDA moved  probe  joint\n"
                       "   1       5        100.00        100.00    100.00      100.00     100.00 100.00 100.00\n"
                       "   2      10        100.00        100.00    100.00      100.00     100.00 100.00 100.00\n"));
    assert_non_null(strstr(p.text,
                           "task   right among its classes, when new     now   taken for a class of it   right\n"
                           "   1                              100.00  100.00                    100.00  100.00\n"
                           "   2                              100.00  100.00                    100.00  100.00\n"));
    assert_non_null(strstr(p.text, "task   stored: first task   all old   moved: first task   all old\n"
                                   "   2               100.00    100.00              100.00    100.00\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(costs_are_the_papers_formulas),
        cmocka_unit_test(costs_count_the_images_of_the_run),
        cmocka_unit_test(costs_know_the_generator),
        cmocka_unit_test(seconds_are_summed_up),
        cmocka_unit_test(combinations_are_the_papers),
        cmocka_unit_test(dreams_have_the_models_labels),
        cmocka_unit_test(a_ledger_has_room_for_all_that_is_right),
    };
    return cmocka_run_group_tests(tests, open_backend, close_backend);
}
