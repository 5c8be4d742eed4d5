/* SUCCEEDS(call): ends the test with the message unless the call returns RC_OK. REFUSED(call, status, message): unless
 * it returns that status, and the message is exactly that one. For files that include cmocka.h. */
#ifndef RC_TESTS_SUPPORT_SUCCEEDS_H
#define RC_TESTS_SUPPORT_SUCCEEDS_H

#include <string.h>

#include "base/status.h"

#define SUCCEEDS(call) \
    do { \
        if ((call) != RC_OK) \
            fail_msg("%s: %s", #call, rc_message()); \
    } while (0)

#define REFUSED(call, expected_status, expected_message) \
    do { \
        rc_status status_of_call = (call); \
        if (status_of_call != (expected_status) || strcmp(rc_message(), (expected_message)) != 0) \
            fail_msg("%s: %s: '%s', expected %s: '%s'", #call, recollect_status_text(status_of_call), rc_message(), \
                     recollect_status_text(expected_status), (expected_message)); \
    } while (0)

#endif
