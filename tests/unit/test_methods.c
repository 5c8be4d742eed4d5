/* Every row of the method table through all its stages, and what rows say that nothing else tests: alignment of rows
 * (WA), cross entropy of the head alone and running statistics that move twice (ABD). Whole steps of the rows are
 * compared with PyTorch's in test_oracle_rows. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "support/cpu_backend.h"
#include "support/learning.h"
#include "support/page.h"
#include "support/succeeds.h"
#include "unit/example_row.h"

/* ---- rows ----------------------------------------------------------------------------------------------------- */

typedef struct recorder {
    int reports[RC_STAGE_COUNT];
    bool seen[RC_STAGE_COUNT][RC_LOSS_COUNT];
} recorder;

static rc_status record(void *user, const rc_stage_report *report)
{
    recorder *r = user;
    r->reports[report->stage]++;
    for (int i = 0; i < RC_LOSS_COUNT; i++) {
        r->seen[report->stage][i] |= !isnan(report->loss[i]);
        assert_true(isnan(report->loss[i]) || isfinite(report->loss[i]));
    }
    return RC_OK;
}

/* Tasks of 3, 2, 1 and 2 classes: a row at the edges of the protocol too (where tests are to be light, the first two).
 * Every loss that the row names is reported, and the stages that it has are run. */
static void every_row_learns_its_tasks(void **state)
{
    (void)state;
    static const int n_new[] = {3, 2, 1, 2};
    int tasks = getenv("RECOLLECT_TEST_LIGHT") != NULL ? 2 : 4;
    rc_settings s = learning_settings();
    const rc_method *m;
    for (int i = 0; (m = rc_method_at(i)) != NULL; i++) {
        rc_learner l;
        recorder r;
        learning_create(&l, be, m->name, &s);
        for (int task = 0; task < tasks; task++) {
            rc_stage_hooks hooks = {.boundary = record, .user = &r, .interval = 0};
            memset(&r, 0, sizeof r);
            learning_teach(&l, task, n_new[task], 12, &hooks);
            rc_learner_end_task(&l);
        }
        const bool *seen = r.seen[RC_STAGE_TRAINING];
        assert_int_equal(l.student.head.tasks, tasks);
        assert_int_equal(l.student.head.classes, tasks == 4 ? 8 : 5);
        assert_int_equal(r.reports[RC_STAGE_REFINEMENT] > 0, m->refine);
        assert_int_equal(r.reports[RC_STAGE_ESTIMATION] > 0, m->dce);
        assert_int_equal(r.seen[RC_STAGE_INVERSION][RC_LOSS_DCE], m->dce);
        assert_int_equal(seen[RC_LOSS_CE], m->main.real != RC_CE_DECOUPLED);
        assert_int_equal(seen[RC_LOSS_INTER] && seen[RC_LOSS_INTRA], m->main.real == RC_CE_DECOUPLED);
        assert_int_equal(seen[RC_LOSS_REPLAY], m->main.replay != RC_CE_NONE);
        assert_int_equal(seen[RC_LOSS_HKD], m->main.hkd);
        assert_int_equal(seen[RC_LOSS_KD], m->main.kd_real != RC_KD_NONE);
        assert_int_equal(seen[RC_LOSS_KD_REPLAY], m->main.kd_replay != RC_KD_NONE);
        assert_int_equal(seen[RC_LOSS_RKD], m->main.rkd);
        assert_int_equal(seen[RC_LOSS_FEATURE], m->main.feature);
        assert_int_equal(seen[RC_LOSS_HEAD], m->main.head_ce);
        assert_int_equal(seen[RC_LOSS_WAR], m->main.war);
        rc_learner_destroy(&l);
    }
    assert_true(m == NULL);
}

/* The row of docs/add-a-method.md learns three tasks, with the losses that it names; it has at most 30 lines, and the
 * page shows the row that is tested. */
static void the_row_of_the_page_is_a_method(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    rc_learner l;
    recorder r = {.reports = {0}};
    rc_stage_hooks hooks = {.boundary = record, .user = &r, .interval = 0};
    learning_create_row(&l, be, &lwf_with_dreams, &s);
    for (int task = 0; task < 3; task++) {
        learning_teach(&l, task, 2, 12, &hooks);
        rc_learner_end_task(&l);
    }
    const bool *seen = r.seen[RC_STAGE_TRAINING];
    assert_true(seen[RC_LOSS_CE] && seen[RC_LOSS_KD] && seen[RC_LOSS_KD_REPLAY] && !seen[RC_LOSS_HKD]);
    rc_learner_destroy(&l);
    char *row = page_read("tests/unit/example_row.h"), *shown = page_read("docs/add-a-method.md");
    int lines = 0;
    for (const char *c = row; *c != '\0'; c++)
        lines += *c == '\n';
    assert_in_range(lines, 1, 30);
    assert_non_null(strstr(shown, row));
    rc_free(NULL, row);
    rc_free(NULL, shown);
}

/* docs/methods/README.md says where each row is described. */
static void every_row_has_a_page(void **state)
{
    (void)state;
    char *index = page_read("docs/methods/README.md"), name[64];
    for (int i = 0; rc_method_at(i) != NULL; i++) {
        snprintf(name, sizeof name, "`%s`", rc_method_at(i)->name);
        if (strstr(index, name) == NULL)
            fail_msg("docs/methods/README.md does not name %s", name);
    }
    rc_free(NULL, index);
}

/* A row of every kind of batch and of post-processing; test_stages has cwd. */
static void rows_can_be_resumed(void **state)
{
    (void)state;
    static const char *const names[] = {"lwf", "cwd-abd", "wa"};
    rc_settings s = learning_settings();
    s.refine_epochs = 1;
    s.epochs = 2;
    s.inversion_steps = 2;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int stages[RC_STAGE_COUNT];
        if (learning_resume_everywhere(be, names[i], &s, stages))
            assert_int_equal(stages[RC_STAGE_TRAINING], 3);
    }
}

/* The ablations and the debiasing variants differ from CwD in what their names say, and in nothing else. */
static void variants_are_cwd_but_for_their_names(void **state)
{
    (void)state;
    const struct {
        const char *name;
        rc_objective main;
        bool dce, align_rows;
    } rows[] = {
        {"cwd", {.real = RC_CE_NEW, .hkd = true, .rkd = true, .war = true}, true, false},
        {"cwd-without-dce", {.real = RC_CE_NEW, .hkd = true, .rkd = true, .war = true}, false, false},
        {"cwd-without-war", {.real = RC_CE_NEW, .hkd = true, .rkd = true}, true, false},
        {"rdfcil", {.real = RC_CE_NEW, .hkd = true, .rkd = true}, false, false},
        {"sce", {.real = RC_CE_NEW, .replay = RC_CE_OLD, .rkd = true}, true, false},
        {"ace", {.real = RC_CE_NEW, .replay = RC_CE_ALL, .rkd = true}, true, false},
        {"ssil", {.real = RC_CE_NEW, .replay = RC_CE_OLD, .kd_replay = RC_KD_TASKS, .rkd = true}, true, false},
        {"wa", {.real = RC_CE_NEW, .hkd = true, .rkd = true}, true, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const rc_method *m;
        SUCCEEDS(rc_method_find(rows[i].name, &m));
        const rc_objective *found = &m->main, *wanted = &rows[i].main;
        assert_true(m->replay == &rc_source_dreams && m->weights == RC_WEIGHTS_ADAPTIVE && m->refine);
        assert_true(m->dce == rows[i].dce && m->align_rows == rows[i].align_rows);
        assert_true(found->real == wanted->real && found->replay == wanted->replay && found->kd_real == RC_KD_NONE);
        assert_true(found->kd_replay == wanted->kd_replay && found->hkd == wanted->hkd && found->rkd == wanted->rkd);
        assert_true(found->war == wanted->war && !found->feature && !found->head_ce && !found->one_batch);
    }
}

/* ---- alignment of rows ---------------------------------------------------------------------------------------- */

static double mean_norm(const float *row, int rows, int d)
{
    double sum = 0;
    for (int k = 0; k < rows; k++) {
        double square = 0;
        for (int j = 0; j < d; j++)
            square += (double)row[k * d + j] * (double)row[k * d + j];
        sum += sqrt(square) / rows;
    }
    return sum;
}

static float *read_head(const rc_learner *l)
{
    size_t count = (size_t)l->student.head.classes * (size_t)l->student.head.d;
    float *head = rc_alloc_zeroed(NULL, count, sizeof *head);
    assert_non_null(head);
    be->read_real(be, head, l->student.head.weight, count);
    return head;
}

/* WA: after a task, old and new rows have one mean norm; old rows and the directions of new ones are left as
 * they are, and the method without alignment ends with other norms. */
static void rows_have_one_mean_norm_after_wa(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    float *head[2];
    int d = 0;
    for (int wa = 0; wa < 2; wa++) {
        rc_learner l;
        learning_create(&l, be, wa ? "wa" : "cwd-without-war", &s);
        learning_teach(&l, 0, 3, 16, &learning_no_hooks);
        rc_learner_end_task(&l);
        learning_teach(&l, 1, 2, 16, &learning_no_hooks);
        head[wa] = read_head(&l);
        d = l.student.head.d;
        rc_learner_destroy(&l);
    }
    double old = mean_norm(head[1], 3, d), new = mean_norm(head[1] + 3 * d, 2, d);
    double scale = old / mean_norm(head[0] + 3 * d, 2, d);
    assert_true(fabs(old - new) < 1e-6 * old);
    assert_true(fabs(scale - 1) > 0.01);
    assert_memory_equal(head[0], head[1], 3 * (size_t)d * sizeof(float));
    for (int i = 3 * d; i < 5 * d; i++)
        assert_true(fabs(scale * (double)head[0][i] - (double)head[1][i]) <= 1e-6 * fabs((double)head[1][i]));
    rc_free(NULL, head[0]);
    rc_free(NULL, head[1]);
}

static void rows_that_cannot_be_aligned_are_refused(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    rc_learner l;
    learning_create(&l, be, "wa", &s);
    learning_begin(&l, 0, 3, 8);
    float zeros[3 * 64] = {0};
    assert_int_equal(rc_classifier_align_rows(&l.student, 0), RC_INVALID_ARGUMENT);
    assert_int_equal(rc_classifier_align_rows(&l.student, 3), RC_INVALID_ARGUMENT);
    size_t d = (size_t)l.student.head.d;
    assert_in_range(d, 1, 64);
    be->write_real(be, rc_real_at(be, l.student.head.weight, 2 * d), zeros, d);
    SUCCEEDS(rc_classifier_align_rows(&l.student, 2)); /* a row of zeros has no length to change */
    float *head = read_head(&l);
    assert_memory_equal(head + 2 * d, zeros, d * sizeof(float));
    rc_free(NULL, head);
    rc_learner_destroy(&l);
}

/* ---- one step ------------------------------------------------------------------------------------------------- */

/* Gradients and running statistics after one step with this objective in a second task. */
typedef struct outcome {
    float *running, *before; /* statistics of the backbone */
    float *backbone, *head;  /* gradients */
    size_t statistics, parameters, head_count;
} outcome;

static float *read_new(const void *memory, size_t count)
{
    float *values = rc_alloc_zeroed(NULL, count, sizeof *values);
    assert_non_null(values);
    be->read_real(be, values, memory, count);
    return values;
}

static outcome one_step(rc_objective losses)
{
    rc_settings s = learning_settings();
    rc_learner l;
    rc_replay *replay;
    rc_training *training;
    learning_create(&l, be, "abd", &s);
    learning_teach(&l, 0, 3, 8, &learning_no_hooks);
    rc_learner_end_task(&l);
    learning_begin(&l, 1, 2, 8);
    rc_learner_send_order(&l, 0);
    outcome o = {.statistics = l.net.running,
                 .parameters = l.net.params,
                 .head_count = (size_t)l.student.head.classes * (size_t)l.student.head.d};
    o.before = read_new(l.student.backbone.running, o.statistics);
    rc_training_settings settings = {
        .batch = s.batch, .n_old = 3, .losses = losses, .kd_temperature = 2, .seed = 1, .task = 1};
    SUCCEEDS(rc_learner_replay(&l, RC_STREAM_DREAMS, &replay));
    SUCCEEDS(rc_training_create(be, &settings, &l.student, &l.teacher, replay, &l.data, &training));
    for (int i = 0; i < RC_LOSS_COUNT; i++)
        rc_training_control(training)->weight[i] = 1;
    rc_training_send(training);
    SUCCEEDS(be->repeat(be, rc_training_step, training, 1));
    o.running = read_new(l.student.backbone.running, o.statistics);
    o.backbone = read_new(rc_training_look(training).backbone_gradient, o.parameters);
    o.head = read_new(rc_training_look(training).head_gradient, o.head_count);
    rc_training_destroy(training);
    rc_learner_destroy(&l);
    return o;
}

static void forget(outcome o)
{
    rc_free(NULL, o.running);
    rc_free(NULL, o.before);
    rc_free(NULL, o.backbone);
    rc_free(NULL, o.head);
}

static double norm(const float *values, size_t count)
{
    double square = 0;
    for (size_t i = 0; i < count; i++)
        square += (double)values[i] * (double)values[i];
    return sqrt(square);
}

/* ABD's second term: it trains the head, and not a bit of the backbone. */
static void cross_entropy_of_the_head_leaves_the_backbone(void **state)
{
    (void)state;
    outcome alone = one_step((rc_objective){.one_batch = true, .head_ce = true});
    assert_true(norm(alone.backbone, alone.parameters) == 0);
    assert_true(norm(alone.head, alone.head_count) > 0.01);
    outcome without = one_step((rc_objective){.one_batch = true, .real = RC_CE_NEW});
    outcome with = one_step((rc_objective){.one_batch = true, .real = RC_CE_NEW, .head_ce = true});
    assert_memory_equal(without.backbone, with.backbone, with.parameters * sizeof(float));
    for (size_t i = 0; i < with.head_count; i++) /* the head has the sum */
        assert_true(fabs((double)with.head[i] - (double)without.head[i] - (double)alone.head[i]) < 1e-5);
    forget(alone);
    forget(without);
    forget(with);
}

/* ABD: the second pass, in train mode, moves the running statistics once more: r + 0.1 (s - r), twice. */
static void the_second_pass_moves_running_statistics_again(void **state)
{
    (void)state;
    outcome once = one_step((rc_objective){.one_batch = true, .real = RC_CE_NEW});
    outcome twice = one_step((rc_objective){.one_batch = true, .real = RC_CE_NEW, .head_ce = true});
    double moved = 0;
    for (size_t i = 0; i < once.statistics; i++) {
        double first = (double)once.running[i] - (double)once.before[i];
        double expected = (double)once.running[i] + 0.9 * first; /* s - r is 0.9 of what it was */
        assert_true(fabs((double)twice.running[i] - expected) < 1e-5 * (1 + fabs(expected)));
        moved += fabs(first);
    }
    assert_true(moved > 0.1);
    forget(once);
    forget(twice);
}

/* One batch or two: shared statistics, or those of each half. Real images are the same, dreams are; so what differs is
 * the normalisation. */
static void one_batch_shares_statistics(void **state)
{
    (void)state;
    outcome one = one_step((rc_objective){.one_batch = true, .real = RC_CE_NEW});
    outcome two = one_step((rc_objective){.real = RC_CE_NEW});
    double apart = 0;
    for (size_t i = 0; i < one.statistics; i++)
        apart += fabs((double)one.running[i] - (double)two.running[i]);
    assert_true(apart > 0.1);
    forget(one);
    forget(two);
}

/* Whether methods can share a first task, need old images and train on them, and when they invert the old model. */
static void rows_say_what_they_need(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        bool shares_first, takes_old, trains_on_old;
        uint32_t parts;
    } expected[] = {
        {"finetune", true, false, false, 0}, {"cwd", true, false, false, 1},
        {"cwd+", false, false, false, 2},    {"er", false, false, false, 0},
        {"dgr", false, false, false, 0},     {"deepinversion-pixels", true, false, false, 3},
        {"real-hkd", true, true, false, 0},  {"joint", true, true, true, 0},
    };
    rc_settings s = learning_settings();
    s.pixel_batches = 3;
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        const rc_method *m;
        SUCCEEDS(rc_method_find(expected[i].name, &m));
        assert_int_equal(rc_method_shares_first_task(m, &s), expected[i].shares_first);
        assert_int_equal(rc_method_takes_old_images(m), expected[i].takes_old);
        assert_int_equal(rc_method_trains_on_old_images(m), expected[i].trains_on_old);
        assert_int_equal(rc_method_inversion(m, &s, 0).parts, 0);
        assert_int_equal(rc_method_inversion(m, &s, 1).parts, expected[i].parts);
    }
}

/* What a row asks for unless settings do. */
static void settings_come_before_rows(void **state)
{
    (void)state;
    rc_settings s = rc_settings_default();
    const rc_method *cwd, *plus;
    SUCCEEDS(rc_method_find("cwd", &cwd));
    SUCCEEDS(rc_method_find("cwd+", &plus));
    assert_int_equal(rc_generators(cwd, &s), 1);
    assert_int_equal(rc_generators(plus, &s), 2);
    s.generators = 5;
    assert_int_equal(rc_generators(cwd, &s), 5);
    assert_int_equal(rc_generators(plus, &s), 5);
    static const struct {
        const char *rotations;
        bool cwd[2], plus[2], narrow[2],
            shares; /* in the first task and later ones; cwd+ where images are not square */
    } expected[] = {
        {"method", {false, false}, {true, true}, {false, false}, false},
        {"off", {false, false}, {false, false}, {false, false}, true},
        {"first", {true, false}, {true, false}, {true, false}, true},
        {"all", {true, true}, {true, true}, {true, true}, true},
    };
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        snprintf(s.rotations, sizeof s.rotations, "%s", expected[i].rotations);
        for (int later = 0; later < 2; later++) {
            assert_int_equal(rc_method_turns(cwd, &s, true, 7 * later), expected[i].cwd[later]);
            assert_int_equal(rc_method_turns(plus, &s, true, 7 * later), expected[i].plus[later]);
            assert_int_equal(rc_method_turns(plus, &s, false, 7 * later), expected[i].narrow[later]);
        }
        assert_true(rc_method_shares_first_task(cwd, &s));
        assert_int_equal(rc_method_shares_first_task(plus, &s), expected[i].shares);
    }
    s.plus_variances = true; /* which a first task of others does not have */
    assert_true(rc_method_shares_first_task(cwd, &s));
    assert_false(rc_method_shares_first_task(plus, &s));
    snprintf(s.plus_statistics, sizeof s.plus_statistics, "dreams");
    assert_true(rc_method_shares_first_task(plus, &s));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_learns_its_tasks),
        cmocka_unit_test(the_row_of_the_page_is_a_method),
        cmocka_unit_test(every_row_has_a_page),
        cmocka_unit_test(rows_can_be_resumed),
        cmocka_unit_test(variants_are_cwd_but_for_their_names),
        cmocka_unit_test(rows_have_one_mean_norm_after_wa),
        cmocka_unit_test(rows_that_cannot_be_aligned_are_refused),
        cmocka_unit_test(cross_entropy_of_the_head_leaves_the_backbone),
        cmocka_unit_test(the_second_pass_moves_running_statistics_again),
        cmocka_unit_test(one_batch_shares_statistics),
        cmocka_unit_test(rows_say_what_they_need),
        cmocka_unit_test(settings_come_before_rows),
    };
    return cmocka_run_group_tests(tests, open_backend, close_backend);
}
