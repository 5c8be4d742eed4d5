/* The public interface: thin functions that check their arguments and call the layers below. */
#include "recollect/recollect.h"

#define RC_TEXT_OF(number) #number
#define RC_VERSION_TEXT(major, minor, patch) RC_TEXT_OF(major) "." RC_TEXT_OF(minor) "." RC_TEXT_OF(patch)

const char *recollect_version(void)
{
    return RC_VERSION_TEXT(RECOLLECT_VERSION_MAJOR, RECOLLECT_VERSION_MINOR, RECOLLECT_VERSION_PATCH);
}

const char *recollect_status_text(recollect_status status)
{
    switch (status) {
#define RC_STATUS_CASE(name, text) \
    case RECOLLECT_##name: return text;
        RECOLLECT_STATUS_LIST(RC_STATUS_CASE)
#undef RC_STATUS_CASE
    }
    return "unknown status";
}
