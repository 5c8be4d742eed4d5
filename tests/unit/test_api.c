/* The parts of the public interface that need no model: version and status texts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "recollect/recollect.h"

static void version_matches_header(void **state)
{
    (void)state;
    char expected[64];
    snprintf(expected, sizeof expected, "%d.%d.%d", RECOLLECT_VERSION_MAJOR, RECOLLECT_VERSION_MINOR,
             RECOLLECT_VERSION_PATCH);
    assert_string_equal(recollect_version(), expected);
}

static void every_status_has_its_own_text(void **state)
{
    (void)state;
    enum { COUNT = RECOLLECT_INTERNAL + 1 };
    for (int i = 0; i < COUNT; i++) {
        const char *text = recollect_status_text((recollect_status)i);
        assert_string_not_equal(text, "unknown status");
        for (int j = 0; j < i; j++) assert_string_not_equal(text, recollect_status_text((recollect_status)j));
    }
    assert_string_equal(recollect_status_text(RECOLLECT_OK), "ok");
    assert_string_equal(recollect_status_text((recollect_status)COUNT), "unknown status");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(version_matches_header),
        cmocka_unit_test(every_status_has_its_own_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
