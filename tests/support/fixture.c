#include "support/fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/memory.h"
#include "support/succeeds.h"

void fixture_is(const char *name, const char *bytes, size_t size)
{
    char path[512], *expected;
    size_t length, same = 0;
    snprintf(path, sizeof path, "%s/tests/fixtures/%s", RC_SOURCE_DIR, name);
    if (getenv("RECOLLECT_WRITE_FIXTURES") != NULL)
        SUCCEEDS(rc_file_write_atomic(path, bytes, size));
    SUCCEEDS(rc_file_read(path, 1 << 24, &expected, &length));
    while (same < length && same < size && expected[same] == bytes[same])
        same++;
    if (same < length || same < size)
        fail_msg("%s: byte %zu differs: '%.200s', expected '%.200s'", name, same, bytes + same, expected + same);
    rc_free(NULL, expected);
}
