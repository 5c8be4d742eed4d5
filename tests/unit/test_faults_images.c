/* Failures while methods learn that hold images, and budgets of host memory (support/faults.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/faults.h"

static void every_fault_is_told(void **state)
{
    (void)state;
    faults_are_told((const char *const[]){"er", "deepinversion-pixels", "real-hkd", NULL});
}

static void host_memory_may_run_out(void **state)
{
    (void)state;
    faults_budget_may_end((const char *const[]){"cwd", "er", "dgr", "deepinversion-pixels", "real-hkd", NULL});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_fault_is_told),
        cmocka_unit_test(host_memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, faults_open, faults_close);
}
