/* A thin layer over jansson: limits on what comes in, and messages that name the place and the key. */
#ifndef RC_BASE_JSON_H
#define RC_BASE_JSON_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* Values nested deeper than this are refused: what we read is a few levels deep, and recursion costs stack. */
#define RC_JSON_MAX_DEPTH 64

/* Parse one JSON value, refusing duplicate keys and anything after the value. `name` is what messages call the
   text. On success release *json with json_decref; on failure it is NULL. */
rc_status rc_json_parse(const char *name, const char *text, size_t size, json_t **json);
/* rc_json_parse of a file of at most `limit` bytes. */
rc_status rc_json_load(const char *path, size_t limit, json_t **json);

/*
 * Typed getters: the member `key` of `object`, which must be there and of that type; otherwise the status is
 * RC_FORMAT, the message names the key and what was found, and *value is left alone. Strings, arrays and
 * objects belong to `object`.
 */
rc_status rc_json_get_int(const json_t *object, const char *key, int *value);
rc_status rc_json_get_int64(const json_t *object, const char *key, int64_t *value);
rc_status rc_json_get_string(const json_t *object, const char *key, const char **value);
rc_status rc_json_get_array(const json_t *object, const char *key, json_t **value);
rc_status rc_json_get_object(const json_t *object, const char *key, json_t **value);

/* A text that comes from outside, as names of files do, which need not be UTF-8: what is none becomes U+FFFD. NULL: no
   memory. */
json_t *rc_json_text(const char *text);
/* A number; where it is not finite, which JSON cannot say, null. NULL: no memory. */
json_t *rc_json_number(double value);

/* The value as text: one line, or indented by `indent` spaces if that is above 0; members in the order in
   which they were added; numbers with enough digits to come back the same. Free *text with rc_free(NULL, ...). */
rc_status rc_json_dump(const json_t *json, int indent, char **text);

/* The value as one line for a printer of lines. Takes the value, also on failure. */
rc_status rc_json_line(json_t *json, void (*line)(void *user, const char *text), void *user);
/* rc_json_dump and a newline into a file, atomically. */
rc_status rc_json_save(const json_t *json, int indent, const char *path);
/* The same for a file that must not be there yet; see rc_file_writer_commit_new. */
rc_status rc_json_save_new(const json_t *json, int indent, const char *path);

#endif
