/*
 * recollect: teaches an image classifier new classes without keeping the old images.
 *
 * This is the whole public interface. Handles are opaque, no structure depends on build flags, and the library never
 * prints, exits or aborts: a function that can fail returns a recollect_status.
 */
#ifndef RECOLLECT_RECOLLECT_H
#define RECOLLECT_RECOLLECT_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define RECOLLECT_API __attribute__((visibility("default")))
#else
#define RECOLLECT_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The only place that holds the version: the build system reads these three lines. */
#define RECOLLECT_VERSION_MAJOR 0
#define RECOLLECT_VERSION_MINOR 1
#define RECOLLECT_VERSION_PATCH 0

/* Every outcome a function can report: X(name, text). The enum and the texts come from this one list. */
#define RECOLLECT_STATUS_LIST(X) \
    X(OK, "ok") \
    X(INVALID_ARGUMENT, "invalid argument") \
    X(OUT_OF_MEMORY, "out of memory") \
    X(IO, "input/output error") \
    X(FORMAT, "malformed file or text") \
    X(UNSUPPORTED, "not supported") \
    X(NUMERIC, "number is not finite") \
    X(CANCELLED, "cancelled") \
    X(INTERNAL, "internal error")

typedef enum recollect_status {
#define RECOLLECT_STATUS_ENUMERATOR(name, text) RECOLLECT_##name,
    RECOLLECT_STATUS_LIST(RECOLLECT_STATUS_ENUMERATOR)
#undef RECOLLECT_STATUS_ENUMERATOR
} recollect_status;

/* "MAJOR.MINOR.PATCH" of the library that is linked, which may differ from the header it was compiled against. */
RECOLLECT_API const char *recollect_version(void);

/* The text of a status, never NULL; "unknown status" for a value that is not in the list. */
RECOLLECT_API const char *recollect_status_text(recollect_status status);

#ifdef __cplusplus
}
#endif

#endif
