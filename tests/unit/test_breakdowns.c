/* Where a device breaks down while numbers go to it or come back, whoever copies them waits, and says so. So does
 * whoever follows a process that leaves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "backend/workers.h"
#include "base/memory.h"
#include "cil/average.h"
#include "cil/evaluation.h"
#include "cil/moved.h"
#include "cil/scatter.h"
#include "support/broken_device.h"
#include "support/cpu_backend.h"
#include "support/learning.h"
#include "support/succeeds.h"

enum { IMAGE = LEARNING_SIZE * LEARNING_SIZE * LEARNING_CHANNELS, FEW = 8 };

/* ---- tasks ------------------------------------------------------------------------------------------------------- */

typedef struct lesson {
    rc_learner l;
    rc_settings settings;
    const uint8_t *images; /* (FEW) */
    const int32_t *labels;
} lesson;

static rc_status begin(void *context)
{
    lesson *all = context;
    const rc_augment image = {.h = LEARNING_SIZE, .w = LEARNING_SIZE, .c = LEARNING_CHANNELS, .std = {1, 1, 1}};
    const rc_method *method;
    SUCCEEDS(rc_method_find("er", &method));
    RC_TRY(rc_learner_create(&all->l, be, &all->settings, method, &image));
    rc_status status = rc_learner_begin_task(&all->l, 0, 2, all->images, all->labels, FEW);
    rc_learner_destroy(&all->l);
    return status;
}

static void a_task_begins_with_all_of_its_images(void **state)
{
    (void)state;
    int32_t *labels;
    uint8_t *images = learning_images(0, 2, FEW / 2, &labels);
    lesson all = {.settings = learning_settings(), .images = images, .labels = labels};
    breakdowns_are_told(be, "a task begins", begin, &all);
    rc_free(NULL, images);
    rc_free(NULL, labels);
}

static rc_status make_training(void *learner)
{
    rc_training *training = NULL;
    rc_status status = rc_stage_training_create(learner, &training);
    rc_training_destroy(training);
    return status;
}

static rc_status make_inversion(void *learner)
{
    rc_inversion *inversion = NULL;
    rc_status status = rc_stage_inversion_create(learner, &inversion);
    rc_inversion_destroy(inversion);
    return status;
}

static rc_status align(void *learner)
{
    rc_learner *l = learner;
    return rc_classifier_align_rows(&l->student, l->n_old);
}

static void steps_begin_with_all_that_they_need(void **state)
{
    (void)state;
    static const char *const methods[] = {"cwd+", "deepinversion-pixels", "dgr", "cwd-abd"};
    rc_settings s = learning_settings();
    s.trivial = true;
    s.mixup = 1;
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        rc_learner l;
        learning_begin_second(&l, be, methods[i], &s);
        breakdowns_are_told(be, methods[i], make_training, &l);
        if (rc_stage_steps(&l, RC_STAGE_INVERSION) > 0)
            breakdowns_are_told(be, methods[i], make_inversion, &l);
        breakdowns_are_told(be, "rows are aligned", align, &l);
        rc_learner_destroy(&l);
    }
}

/* ---- means of models --------------------------------------------------------------------------------------------- */

typedef struct models {
    rc_average average;
    rc_learner *l;
} models;

static rc_status add_model(void *context)
{
    return rc_average_add(&((models *)context)->average, 2);
}

static rc_status mix_models(void *context)
{
    rc_learner *l = ((models *)context)->l;
    return rc_average_with(&l->student, &l->teacher, 0.5);
}

static void means_of_models_are_whole(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    rc_learner l;
    models m = {.l = &l};
    learning_begin_second(&l, be, "cwd", &s);
    SUCCEEDS(rc_average_create(&m.average, &l.student));
    SUCCEEDS(add_model(&m));
    breakdowns_are_told(be, "a model joins a mean", add_model, &m);
    breakdowns_are_told(be, "the old model comes back", mix_models, &m);
    rc_average_destroy(&m.average);
    rc_learner_destroy(&l);
}

/* ---- class statistics -------------------------------------------------------------------------------------------- */

typedef struct statistics {
    rc_learner l;
    bool dreams;
    rc_moved moved;
    float *factor;
} statistics;

static rc_status move(void *context)
{
    statistics *s = context;
    rc_moved moved;
    rc_status status = rc_moved_create(&s->l, s->dreams, &moved);
    rc_moved_destroy(&moved);
    return status;
}

static rc_status keep(void *context)
{
    statistics *s = context;
    return rc_moved_keep(&s->moved, &s->l);
}

static rc_status look_again(void *context)
{
    rc_moved moved;
    rc_status status = rc_moved_read(&((statistics *)context)->l, &moved);
    rc_moved_destroy(&moved);
    return status;
}

static void moved_statistics_are_whole(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    for (int more = 0; more < 2; more++) {
        statistics all = {.dreams = more > 0};
        s.plus_variances = more > 0;
        learning_begin_second(&all.l, be, "cwd+", &s);
        breakdowns_are_told(be, "statistics move", move, &all);
        SUCCEEDS(rc_moved_create(&all.l, all.dreams, &all.moved));
        breakdowns_are_told(be, "statistics are kept", keep, &all);
        breakdowns_are_told(be, "statistics are read", look_again, &all);
        rc_moved_destroy(&all.moved);
        rc_learner_destroy(&all.l);
    }
}

static rc_status estimate(void *context)
{
    return rc_stage_estimation(&((statistics *)context)->l, &learning_no_hooks);
}

static rc_status keep_factors(void *context)
{
    statistics *s = context;
    return rc_learner_write_factors(&s->l, s->factor);
}

/* Of images and dreams; of single classes; and of images that are all the same, so that classes have no factors. */
static void estimated_statistics_are_whole(void **state)
{
    (void)state;
    static const uint8_t black[FEW * IMAGE];
    const int32_t labels[FEW] = {0, 1, 0, 1, 0, 1, 0, 1};
    rc_settings s = learning_settings();
    statistics all = {.dreams = false};
    learning_begin_second(&all.l, be, "cwd", &s);
    breakdowns_are_told(be, "estimation", estimate, &all);
    rc_learner_destroy(&all.l);
    s.class_covariances = s.plain_statistics = true;
    s.crop_pad = 0;
    for (int same = 0; same < 2; same++) {
        learning_create(&all.l, be, "cwd", &s);
        if (same == 0)
            learning_begin(&all.l, 0, 2, FEW / 2);
        else
            SUCCEEDS(rc_learner_begin_task(&all.l, 0, 2, black, labels, FEW));
        breakdowns_are_told(be, "estimation of single classes", estimate, &all);
        assert_true((all.l.class_factor == NULL) == (same > 0));
        if (same == 0) {
            all.factor = rc_alloc_zeroed(NULL, 2, rc_factor_numbers(all.l.student.head.d) * sizeof *all.factor);
            assert_non_null(all.factor);
            breakdowns_are_told(be, "factors are kept", keep_factors, &all);
            rc_free(NULL, all.factor);
        }
        rc_learner_destroy(&all.l);
    }
}

/* ---- processes --------------------------------------------------------------------------------------------------- */

static void leave(rc_workers *w, void *data, size_t bytes)
{
    const uint32_t word = RC_WORD_LEFT;
    (void)w;
    assert_int_equal(bytes, sizeof word);
    memcpy(data, &word, sizeof word);
}

/* Before every step, where the one that leads says so. */
static void processes_leave_together(void **state)
{
    (void)state;
    rc_workers leader = {.count = 2, .lead = leave};
    rc_settings s = learning_settings();
    rc_learner l;
    learning_begin_second(&l, be, "cwd", &s);
    be->workers = &leader;
    rc_status training = rc_stage_training(&l, RC_STAGE_TRAINING, 0, &learning_no_hooks);
    rc_status inversion = rc_stage_inversion(&l, 0, &learning_no_hooks);
    rc_status estimation = rc_stage_estimation(&l, &learning_no_hooks);
    be->workers = NULL;
    assert_true(training == RC_CANCELLED && inversion == RC_CANCELLED && estimation == RC_CANCELLED);
    rc_learner_destroy(&l);
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

typedef struct question {
    rc_learner l;
    rc_task_stream stream;
    rc_split test;
} question;

static rc_status evaluate(void *context)
{
    question *q = context;
    rc_evaluation evaluation;
    rc_status status = rc_evaluate(be, &q->l.student, &q->l.augment, &q->stream, &q->test, 3, NULL, &evaluation);
    if (status == RC_OK)
        rc_evaluation_destroy(&evaluation);
    return status;
}

static rc_status make_scorer(void *context)
{
    question *q = context;
    rc_scorer *scorer;
    rc_status status = rc_scorer_create(be, &q->l.student, FEW, &q->l.augment, &scorer);
    rc_scorer_destroy(scorer);
    return status;
}

static void answers_are_whole(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    rc_task_split split = {.sizes = 1, .size = {2}};
    question q = {.test = {.count = FEW}};
    learning_create(&q.l, be, "finetune", &s);
    learning_begin(&q.l, 0, 2, FEW / 2);
    SUCCEEDS(rc_task_stream_create(&q.stream, 2, NULL, &split));
    q.test.images = learning_images(0, 2, FEW / 2, &q.test.labels);
    breakdowns_are_told(be, "evaluation", evaluate, &q);
    breakdowns_are_told(be, "a scorer is made", make_scorer, &q);
    rc_task_stream_destroy(&q.stream);
    rc_free(NULL, q.test.images);
    rc_free(NULL, q.test.labels);
    rc_learner_destroy(&q.l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_task_begins_with_all_of_its_images),
        cmocka_unit_test(steps_begin_with_all_that_they_need),
        cmocka_unit_test(means_of_models_are_whole),
        cmocka_unit_test(moved_statistics_are_whole),
        cmocka_unit_test(estimated_statistics_are_whole),
        cmocka_unit_test(processes_leave_together),
        cmocka_unit_test(answers_are_whole),
    };
    return cmocka_run_group_tests(tests, open_backend, close_backend);
}
