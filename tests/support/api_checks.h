/* Checks of calls of the public interface, for files that include cmocka.h and string.h. SUCCEEDS(call) ends the test
 * with the message unless the call succeeds. REFUSED(call, words) ends it unless the call is an invalid argument and
 * the message holds the words. */
#ifndef RC_TESTS_SUPPORT_API_CHECKS_H
#define RC_TESTS_SUPPORT_API_CHECKS_H

#include "recollect/recollect.h"

#define SUCCEEDS(call) \
    do { \
        if ((call) != RECOLLECT_OK) \
            fail_msg("%s: %s", #call, recollect_last_message()); \
    } while (0)

#define REFUSED(call, words) \
    do { \
        assert_int_equal(call, RECOLLECT_INVALID_ARGUMENT); \
        if (strstr(recollect_last_message(), words) == NULL) \
            fail_msg("%s: \"%s\" does not say \"%s\"", #call, recollect_last_message(), words); \
    } while (0)

#endif
