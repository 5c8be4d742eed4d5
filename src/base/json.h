/*
 * JSON in and out (RFC 8259).
 *
 * This is code of our own because of memory: no JSON library in Debian stable checks every allocation, limits how
 * much memory a text may take, and has no global state. The one we used before lost letters, aborted or hung when
 * memory ran out. It built trees from dozens of calls, each of which could fail and had to be checked.
 *
 * Reading makes one block from the whole text, of at most RC_JSON_MEMORY(size) bytes, and needs no other memory.
 * Writing needs no tree: calls append to a text, the first failure sticks, and the call that returns the text reports
 * it. So the caller gets a whole text, or none.
 */
#ifndef RC_BASE_JSON_H
#define RC_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* Values nested deeper than this are neither read nor written: our files are a few levels deep, and recursion costs
   stack. */
#define RC_JSON_MAX_DEPTH 64
/* Bytes of a text and of a number in it: longer ones are refused. */
#define RC_JSON_MAX_SIZE   ((size_t)1 << 28)
#define RC_JSON_MAX_NUMBER 1000
/* The most memory that a text of `size` bytes takes, while it is read and afterwards. */
#define RC_JSON_MEMORY(size) (8 * ((size) + 1))

/* ---- in ---------------------------------------------------------------------------------------------------------- */

/* A value inside a text that was read. It never changes, so any number of threads may read it. */
typedef struct rc_json rc_json;

typedef enum rc_json_type {
    RC_JSON_NULL,
    RC_JSON_FALSE,
    RC_JSON_TRUE,
    RC_JSON_INTEGER, /* no fraction, no exponent; one that needs more than 64 bits is refused */
    RC_JSON_REAL,    /* finite; a number that is too large is refused */
    RC_JSON_STRING,
    RC_JSON_ARRAY,
    RC_JSON_OBJECT,
} rc_json_type;

/* Reads one value. Refuses everything that RFC 8259 does not allow, bytes that are not UTF-8, a key that an object
   has twice, \u0000 (so that strings are whole C strings), and anything after the value. The message gives name,
   line, column and what was expected. `name` is what messages call the text. On failure *json is NULL. */
rc_status rc_json_parse(const char *name, const char *text, size_t size, rc_json **json);
/* rc_json_parse of a file of at most `limit` bytes. */
rc_status rc_json_load(const char *path, size_t limit, rc_json **json);
/* Frees what rc_json_parse made, with all values inside; NULL is fine. */
void rc_json_free(rc_json *json);

/* All of these accept NULL, which stands for a missing value, and values of other types. */
bool rc_json_is(const rc_json *value, rc_json_type type);
const char *rc_json_string(const rc_json *value); /* NULL: not a string */
double rc_json_number(const rc_json *value);      /* integer or real; NaN: neither */
int64_t rc_json_integer(const rc_json *value);    /* 0: not an integer */
size_t rc_json_count(const rc_json *value);       /* entries of an array or object; 0: neither */
/* The entry of an array or object after `entry`; its first one after NULL; NULL after the last. */
const rc_json *rc_json_next(const rc_json *value, const rc_json *entry);
const char *rc_json_key(const rc_json *entry); /* its key in an object; NULL: it is in no object */
const rc_json *rc_json_member(const rc_json *object, const char *key); /* NULL: there is none */

/*
 * Typed getters: the member `key` of `object`, which must be there and of that type; otherwise the status is
 * RC_FORMAT, the message names the key and what was found, and *value is left alone. Strings, arrays and
 * objects belong to `object`.
 */
rc_status rc_json_get_int(const rc_json *object, const char *key, int *value);
rc_status rc_json_get_int64(const rc_json *object, const char *key, int64_t *value);
rc_status rc_json_get_string(const rc_json *object, const char *key, const char **value);
rc_status rc_json_get_array(const rc_json *object, const char *key, const rc_json **value);
rc_status rc_json_get_object(const rc_json *object, const char *key, const rc_json **value);

/* ---- out --------------------------------------------------------------------------------------------------------- */

/*
 *     rc_json_writer w = {.indent = 2};                 0: one line without blanks
 *     rc_json_begin_object(&w, NULL);                   NULL: outside of objects there is no key
 *     rc_json_put_int(&w, "images", 60000);
 *     rc_json_begin_array(&w, "sizes");
 *     ...
 *     rc_json_end(&w);
 *     rc_json_end(&w);
 *     return rc_json_save(&w, path);                    this, and nothing before, says whether all of it went well
 *
 * After the first failure every call does nothing. Calls that do not make one whole value (a key missing or too many,
 * an end too few) are a mistake of the program: RC_INTERNAL. Each of the calls that hand out the text ends the writer
 * and frees what it holds, also on failure.
 */
typedef struct rc_json_writer {
    int indent;          /* blanks a level */
    rc_status status;    /* the first failure */
    const char *mistake; /* what was wrong with the calls, when that is RC_INTERNAL */
    char *text;          /* `used` of `room` bytes */
    size_t used, room;
    int depth;
    uint64_t objects, filled; /* a bit a level: it is an object; it has an entry */
} rc_json_writer;

void rc_json_begin_object(rc_json_writer *w, const char *key);
void rc_json_begin_array(rc_json_writer *w, const char *key);
void rc_json_end(rc_json_writer *w);

void rc_json_put_null(rc_json_writer *w, const char *key);
void rc_json_put_bool(rc_json_writer *w, const char *key, bool value);
void rc_json_put_int(rc_json_writer *w, const char *key, int64_t value);
/* With enough digits to be read back as the same number. Becomes null if it is not finite, because JSON has no such
 * number. */
void rc_json_put_real(rc_json_writer *w, const char *key, double value);
/* Texts and keys may come from outside, as names of files do, and need not be UTF-8: a byte that is not becomes
   U+FFFD. NULL becomes null. */
void rc_json_put_text(rc_json_writer *w, const char *key, const char *text);
/* put_value: a value that was read; it must not be NULL. put_members: the members of an object that was read, into
   the object that is open. */
void rc_json_put_value(rc_json_writer *w, const char *key, const rc_json *value);
void rc_json_put_members(rc_json_writer *w, const rc_json *object);
/* What `inner` has written, as a string. Ends `inner`; its failure becomes the failure of this writer. */
void rc_json_put_written(rc_json_writer *w, const char *key, rc_json_writer *inner);

#define RC_JSON_CHECKED __attribute__((warn_unused_result))

/* The text, with a zero byte behind it. *size does not count that byte; size may be NULL. The caller frees the text
   with rc_free(NULL, ...); on failure it is NULL. */
RC_JSON_CHECKED rc_status rc_json_finish(rc_json_writer *w, char **text, size_t *size);
/* The text, for a function that prints lines. */
RC_JSON_CHECKED rc_status rc_json_line(rc_json_writer *w, void (*line)(void *user, const char *text), void *user);
/* The text and a newline into a file, atomically. */
RC_JSON_CHECKED rc_status rc_json_save(rc_json_writer *w, const char *path);
/* The same for a file that must not exist yet; see rc_file_writer_commit_new. */
RC_JSON_CHECKED rc_status rc_json_save_new(rc_json_writer *w, const char *path);
/* Ends the writer without handing out the text. */
void rc_json_discard(rc_json_writer *w);

#endif
