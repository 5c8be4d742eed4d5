/* How a lesson's schedule follows from the number of its images and classes (the rules in api/learn.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "api/learn_config.h"
#include "cil/task_stream.h"

static rc_settings usual(void)
{
    rc_settings s = rc_settings_default();
    s.batch = 64;
    s.epochs = 40;
    s.refine_epochs = 20;
    s.milestones = 2;
    s.milestone[0] = 10;
    s.milestone[1] = 16;
    s.min_steps = 300;
    return s;
}

static int main_steps(const rc_settings *s, int images)
{
    return (s->epochs - s->refine_epochs) * rc_epoch_batches(images, s->batch);
}

static void few_images_get_the_least_steps(void **state)
{
    (void)state;
    rc_learn_settings none = {0};
    /* Of 36 images a batch holds all: 300 epochs of one step, and everything else 15 times as long. */
    rc_settings s = usual();
    rc_learn_stretch(&s, &none, 36, 2);
    assert_int_equal(s.batch, 36);
    assert_int_equal(main_steps(&s, 36), 300);
    assert_int_equal(s.refine_epochs, 300);
    assert_int_equal(s.milestone[0], 150);
    assert_int_equal(s.milestone[1], 240);
    assert_int_equal(s.min_steps, 0);
    /* A batch has 32 at least; the task repeats its images to fill it. */
    s = usual();
    rc_learn_stretch(&s, &none, 2, 2);
    assert_int_equal(s.batch, 32);
    assert_int_equal(main_steps(&s, 2), 300);
    /* 14 batches, 280 steps: two epochs more, not twice as many. */
    s = usual();
    rc_learn_stretch(&s, &none, 900, 2);
    assert_int_equal(s.epochs, 44);
    assert_int_equal(s.refine_epochs, 22);
    assert_int_equal(s.milestone[0], 11);
    /* Methods that do not refine train as long. */
    s = usual();
    s.paper_no_refinement = true;
    rc_learn_stretch(&s, &none, 36, 2);
    assert_int_equal(s.epochs, 300);
}

static void enough_images_change_nothing(void **state)
{
    (void)state;
    rc_learn_settings none = {0};
    const rc_settings before = usual();
    rc_settings s = before;
    rc_learn_stretch(&s, &none, 2700, 6);
    assert_int_equal(s.batch, before.batch);
    assert_int_equal(s.epochs, before.epochs);
    assert_int_equal(s.refine_epochs, before.refine_epochs);
    for (int i = 0; i < before.milestones; i++)
        assert_int_equal(s.milestone[i], before.milestone[i]);
    assert_true(s.lambda_ce == before.lambda_ce && s.lambda_hkd == before.lambda_hkd);
}

static void many_images_end_in_time(void **state)
{
    (void)state;
    enum { IMAGES = 60000 };
    const char *const set[] = {"epochs=40"};
    rc_learn_settings none = {0}, asked = {.set = set, .sets = 1};
    rc_settings s = usual();
    rc_learn_stretch(&s, &none, IMAGES, 10);
    int batches = rc_epoch_batches(IMAGES, s.batch);
    assert_true(main_steps(&s, IMAGES) >= RC_LEARN_MAX_STEPS);
    assert_true(main_steps(&s, IMAGES) < RC_LEARN_MAX_STEPS + batches);
    assert_true(s.milestone[0] <= s.milestone[1] && s.milestone[1] < s.epochs - s.refine_epochs);
    /* Unless somebody wants it. */
    s = usual();
    rc_learn_stretch(&s, &asked, IMAGES, 10);
    assert_int_equal(main_steps(&s, IMAGES), 20 * batches);
}

static void a_single_class_pulls_less(void **state)
{
    (void)state;
    rc_learn_settings none = {0};
    rc_settings one = usual(), two = usual(), before = usual();
    rc_learn_stretch(&one, &none, 900, 1);
    rc_learn_stretch(&two, &none, 900, 2);
    assert_true(one.lambda_ce < two.lambda_ce && one.lambda_hkd < two.lambda_hkd);
    assert_true(two.lambda_ce == before.lambda_ce && two.lambda_hkd == before.lambda_hkd);
    assert_true(one.lambda_hkd / one.lambda_ce > two.lambda_hkd / two.lambda_ce);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_images_get_the_least_steps),
        cmocka_unit_test(enough_images_change_nothing),
        cmocka_unit_test(many_images_end_in_time),
        cmocka_unit_test(a_single_class_pulls_less),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
