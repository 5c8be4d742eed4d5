/* Features that refinement draws, where some classes have no statistics: no dream was told to be of them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "cil/moved.h"
#include "support/cpu_backend.h"
#include "support/learning.h"
#include "support/succeeds.h"

/* Their turn is that of the next class which has a mean. */
static void classes_without_a_mean_are_passed_over(void **state)
{
    (void)state;
    enum { CLASSES = 4, D = 2, EACH = 3, ROWS = EACH * CLASSES };
    static const int32_t wanted[ROWS] = {1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2};
    double mean[CLASSES * D] = {NAN, NAN, 10, 20, 30, 40, NAN, NAN}, lower[D * D] = {1, 0, 0.5, 2};
    const rc_moved moved = {.d = D, .classes = CLASSES, .mean = mean, .lower = lower};
    float feature[ROWS * D];
    int32_t label[ROWS];
    rc_moved_draw(&moved, (rc_rng){1, 2}, 0, EACH, feature, label);
    assert_memory_equal(label, wanted, sizeof wanted);
    for (int i = 0; i < ROWS * D; i++)
        assert_true(fabs((double)feature[i] - mean[label[i / D] * D + i % D]) < 9);
    for (int i = 0; i < CLASSES * D; i++)
        mean[i] = i;
    rc_moved_draw(&moved, (rc_rng){1, 2}, 0, EACH, feature, label);
    for (int row = 0; row < ROWS; row++)
        assert_int_equal(label[row], row % CLASSES);
}

static void a_task_after_a_class_without_dreams_is_learnt(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    rc_learner l;
    const float unknown = NAN;
    snprintf(s.plus_statistics, sizeof s.plus_statistics, "dreams");
    learning_begin_second(&l, be, "cwd+", &s);
    for (int j = 0; j < l.student.head.d; j++)
        be->write_real(be, rc_real_at(be, l.class_mean, (size_t)j), &unknown, 1);
    SUCCEEDS(rc_run_stages(&l, RC_STAGE_INVERSION, 0, &learning_no_hooks, NULL));
    rc_learner_destroy(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes_without_a_mean_are_passed_over),
        cmocka_unit_test(a_task_after_a_class_without_dreams_is_learnt),
    };
    return cmocka_run_group_tests(tests, open_backend, close_backend);
}
