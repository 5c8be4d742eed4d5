/* What a test makes, beside a file that has it as it should be. */
#ifndef RC_TESTS_SUPPORT_FIXTURE_H
#define RC_TESTS_SUPPORT_FIXTURE_H

#include <stddef.h>

/* Ends the test unless these bytes are what tests/fixtures/NAME holds. After a change that is meant, look at what the
 * test makes, and write the file again: RECOLLECT_WRITE_FIXTURES=1 before the test. */
void fixture_is(const char *name, const char *bytes, size_t size);

#endif
