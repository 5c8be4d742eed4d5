#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/utf8.h"

/* ---- the text ---------------------------------------------------------------------------------------------------- */

static void fail(rc_json_writer *w, rc_status status, const char *mistake)
{
    if (w->status != RC_OK)
        return;
    w->status = status;
    w->mistake = mistake;
}

/* Makes room for `count` more bytes and the zero byte. */
static bool make_room(rc_json_writer *w, size_t count)
{
    size_t least, size;
    if (w->status != RC_OK)
        return false;
    bool fits = rc_size_add(w->used, count, &least) && rc_size_add(least, 1, &least) && rc_size_mul(least, 2, &size);
    if (fits && least <= w->room)
        return true;
    char *text = fits ? rc_alloc(NULL, size < 256 ? 256 : size) : NULL;
    if (text == NULL) {
        fail(w, RC_OUT_OF_MEMORY, NULL);
        return false;
    }
    if (w->used > 0)
        memcpy(text, w->text, w->used);
    rc_free(NULL, w->text);
    w->text = text;
    w->room = size < 256 ? 256 : size;
    return true;
}

static void append(rc_json_writer *w, const char *bytes, size_t count)
{
    if (!make_room(w, count))
        return;
    memcpy(w->text + w->used, bytes, count);
    w->used += count;
}

static void append_text(rc_json_writer *w, const char *text)
{
    append(w, text, strlen(text));
}

static void append_character(rc_json_writer *w, const char *text, size_t length)
{
    static const char letters[] = "\"\\\b\f\n\r\t", names[] = "\"\\bfnrt";
    char escape[8];
    const char *letter = strchr(letters, text[0]);
    if (length == 0) {
        append_text(w, "\xEF\xBF\xBD");
    } else if (letter != NULL) {
        escape[0] = '\\';
        escape[1] = names[letter - letters];
        append(w, escape, 2);
    } else if ((unsigned char)text[0] < ' ') {
        snprintf(escape, sizeof escape, "\\u%04X", (unsigned)text[0]);
        append_text(w, escape);
    } else {
        append(w, text, length);
    }
}

static void append_quoted(rc_json_writer *w, const char *text)
{
    size_t left = strlen(text);
    append(w, "\"", 1);
    while (left > 0) {
        size_t length = rc_utf8_length(text, left), taken = length > 0 ? length : 1;
        append_character(w, text, length);
        text += taken;
        left -= taken;
    }
    append(w, "\"", 1);
}

/* ---- levels ------------------------------------------------------------------------------------------------------ */

static uint64_t level_bit(const rc_json_writer *w)
{
    return UINT64_C(1) << (w->depth - 1);
}

static void append_line_break(rc_json_writer *w)
{
    if (w->indent == 0)
        return;
    append(w, "\n", 1);
    for (int i = 0; i < w->indent * w->depth; i++)
        append(w, " ", 1);
}

/* Everything that is written before a value. */
static void begin_value(rc_json_writer *w, const char *key)
{
    bool inside = w->depth > 0, object = inside && (w->objects & level_bit(w)) != 0;
    if (object && key == NULL)
        fail(w, RC_INTERNAL, "a member of an object has no key");
    if (!object && key != NULL)
        fail(w, RC_INTERNAL, "a value outside of objects has a key");
    if (!inside && w->used > 0)
        fail(w, RC_INTERNAL, "there is a second value");
    if (inside && (w->filled & level_bit(w)) != 0)
        append(w, ",", 1);
    if (inside) {
        w->filled |= level_bit(w);
        append_line_break(w);
    }
    if (key == NULL)
        return;
    append_quoted(w, key);
    append_text(w, w->indent > 0 ? ": " : ":");
}

static void begin_level(rc_json_writer *w, const char *key, bool object)
{
    begin_value(w, key);
    if (w->depth == RC_JSON_MAX_DEPTH)
        fail(w, RC_INTERNAL, "it is nested too deep");
    if (w->status != RC_OK)
        return;
    append(w, object ? "{" : "[", 1);
    w->depth++;
    w->filled &= ~level_bit(w);
    w->objects = object ? w->objects | level_bit(w) : w->objects & ~level_bit(w);
}

void rc_json_begin_object(rc_json_writer *w, const char *key)
{
    begin_level(w, key, true);
}

void rc_json_begin_array(rc_json_writer *w, const char *key)
{
    begin_level(w, key, false);
}

void rc_json_end(rc_json_writer *w)
{
    if (w->depth == 0)
        fail(w, RC_INTERNAL, "something ends that did not begin");
    if (w->status != RC_OK)
        return;
    bool object = (w->objects & level_bit(w)) != 0, filled = (w->filled & level_bit(w)) != 0;
    w->depth--;
    if (filled)
        append_line_break(w);
    append(w, object ? "}" : "]", 1);
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

static void put_word(rc_json_writer *w, const char *key, const char *word)
{
    begin_value(w, key);
    append_text(w, word);
}

void rc_json_put_null(rc_json_writer *w, const char *key)
{
    put_word(w, key, "null");
}

void rc_json_put_bool(rc_json_writer *w, const char *key, bool value)
{
    put_word(w, key, value ? "true" : "false");
}

void rc_json_put_int(rc_json_writer *w, const char *key, int64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, value);
    put_word(w, key, text);
}

/* With a point or an exponent, so that it is read as what it is; the exponent without plus and leading zeros. */
void rc_json_put_real(rc_json_writer *w, const char *key, double value)
{
    char text[40], exponent[16] = "";
    rc_number_write(value, 17, text, sizeof text);
    char *e = strchr(text, 'e');
    if (e != NULL) {
        size_t zeros = strspn(e + 2, "0");
        snprintf(exponent, sizeof exponent, "e%s%s", e[1] == '-' ? "-" : "", e + 2 + zeros);
        *e = '\0';
    }
    begin_value(w, key);
    append_text(w, isfinite(value) ? text : "null");
    if (isfinite(value))
        append_text(w, e != NULL ? exponent : strchr(text, '.') != NULL ? "" : ".0");
}

void rc_json_put_text(rc_json_writer *w, const char *key, const char *text)
{
    if (text == NULL) {
        rc_json_put_null(w, key);
        return;
    }
    begin_value(w, key);
    append_quoted(w, text);
}

void rc_json_put_members(rc_json_writer *w, const rc_json *object)
{
    for (const rc_json *entry = NULL; (entry = rc_json_next(object, entry)) != NULL;)
        rc_json_put_value(w, rc_json_key(entry), entry);
}

/* Texts that were read are at most RC_JSON_MAX_DEPTH deep, and so is this recursion. */
void rc_json_put_value(rc_json_writer *w, const char *key, const rc_json *value)
{
    bool object = rc_json_is(value, RC_JSON_OBJECT);
    if (value == NULL)
        fail(w, RC_INTERNAL, "a value that was read is not there");
    if (object || rc_json_is(value, RC_JSON_ARRAY)) {
        begin_level(w, key, object);
        rc_json_put_members(w, value); /* those of an array have no keys */
        rc_json_end(w);
    } else if (rc_json_is(value, RC_JSON_INTEGER)) {
        rc_json_put_int(w, key, rc_json_integer(value));
    } else if (rc_json_is(value, RC_JSON_REAL)) {
        rc_json_put_real(w, key, rc_json_number(value));
    } else if (rc_json_is(value, RC_JSON_TRUE) || rc_json_is(value, RC_JSON_FALSE)) {
        rc_json_put_bool(w, key, rc_json_is(value, RC_JSON_TRUE));
    } else {
        rc_json_put_text(w, key, rc_json_string(value)); /* or null */
    }
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

void rc_json_discard(rc_json_writer *w)
{
    rc_free(NULL, w->text);
    *w = (rc_json_writer){0};
}

/* Is it one whole value? */
static void check_end(rc_json_writer *w)
{
    if (w->depth > 0)
        fail(w, RC_INTERNAL, "something has no end");
    if (w->used == 0)
        fail(w, RC_INTERNAL, "there is no value");
}

rc_status rc_json_finish(rc_json_writer *w, char **text, size_t *size)
{
    *text = NULL;
    check_end(w);
    rc_status status = w->status;
    if (status == RC_INTERNAL)
        rc_set_message("the program makes no sound JSON: %s", w->mistake);
    if (status == RC_OUT_OF_MEMORY)
        rc_set_message("no memory for a JSON text of more than %zu bytes", w->used);
    if (status == RC_OK) {
        w->text[w->used] = '\0';
        *text = w->text;
        if (size != NULL)
            *size = w->used;
        w->text = NULL;
    }
    rc_json_discard(w);
    return status;
}

void rc_json_put_written(rc_json_writer *w, const char *key, rc_json_writer *inner)
{
    char *text;
    check_end(inner);
    const char *mistake = inner->mistake;
    rc_status status = rc_json_finish(inner, &text, NULL);
    if (status == RC_OK)
        rc_json_put_text(w, key, text);
    else
        fail(w, status, mistake);
    rc_free(NULL, text);
}

rc_status rc_json_line(rc_json_writer *w, void (*line)(void *user, const char *text), void *user)
{
    char *text;
    RC_TRY(rc_json_finish(w, &text, NULL));
    line(user, text);
    rc_free(NULL, text);
    return RC_OK;
}

static rc_status save(rc_json_writer *w, const char *path, rc_status (*commit)(rc_file_writer *writer))
{
    char *text;
    size_t size;
    rc_file_writer *writer;
    RC_TRY(rc_json_finish(w, &text, &size));
    text[size] = '\n';
    rc_status status = rc_file_writer_open(path, &writer);
    if (status == RC_OK) {
        (void)rc_file_writer_append(writer, text, size + 1); /* the commit reports a failure */
        status = commit(writer);
    }
    rc_free(NULL, text);
    return status;
}

rc_status rc_json_save(rc_json_writer *w, const char *path)
{
    return save(w, path, rc_file_writer_commit);
}

rc_status rc_json_save_new(rc_json_writer *w, const char *path)
{
    return save(w, path, rc_file_writer_commit_new);
}
