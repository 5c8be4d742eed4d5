/* Failures while methods learn that dream or have a generative model, and memory of all methods (support/faults.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/faults.h"

static void all_memory_comes_back(void **state)
{
    (void)state;
    faults_memory_comes_back();
}

static void every_fault_is_told(void **state)
{
    (void)state;
    faults_are_told((const char *const[]){"cwd", "dgr", NULL});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_memory_comes_back),
        cmocka_unit_test(every_fault_is_told),
    };
    return cmocka_run_group_tests(tests, faults_open, faults_close);
}
