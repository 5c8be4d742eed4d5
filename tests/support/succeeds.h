/* SUCCEEDS(call): ends the test with the message unless the call returns RC_OK. For files that include cmocka.h. */
#ifndef RC_TESTS_SUPPORT_SUCCEEDS_H
#define RC_TESTS_SUPPORT_SUCCEEDS_H

#include "base/status.h"

#define SUCCEEDS(call) \
    do { \
        if ((call) != RC_OK) \
            fail_msg("%s: %s", #call, rc_message()); \
    } while (0)

#endif
