/* Whole runs of the rows that do not dream, against PyTorch (support/oracle_run.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/oracle_run.h"

static void runs(void **state)
{
    (void)state;
    oracle_run_all(false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(runs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
