/* Failures while methods learn whose losses or heads are of their own (support/faults.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/faults.h"

static void every_fault_is_told(void **state)
{
    (void)state;
    faults_are_told((const char *const[]){"wa", "abd", "ssil", NULL});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_fault_is_told),
    };
    return cmocka_run_group_tests(tests, faults_open, faults_close);
}
