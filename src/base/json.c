#include "base/json.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/utf8.h"

/* ---- in ---------------------------------------------------------------------------------------------------------- */

/* jansson recurses into the text, so the nesting is counted before it sees it. Brackets in strings do not count. */
static rc_status check_depth(const char *name, const char *text, size_t size)
{
    int depth = 0, line = 1, column = 0;
    bool in_string = false;
    for (size_t i = 0; i < size; i++) {
        char c = text[i];
        column++;
        if (c == '\n') {
            line++;
            column = 0;
        } else if (c == '"') {
            in_string = !in_string;
        } else if (in_string) {
            i += c == '\\';
            column += c == '\\';
        } else if (c == '[' || c == '{') {
            if (++depth > RC_JSON_MAX_DEPTH)
                return rc_fail(RC_FORMAT, "%s, line %d, column %d: nested deeper than %d levels", name, line, column,
                               RC_JSON_MAX_DEPTH);
        } else if (c == ']' || c == '}') {
            depth--;
        }
    }
    return RC_OK;
}

rc_status rc_json_parse(const char *name, const char *text, size_t size, json_t **json)
{
    *json = NULL;
    RC_TRY(check_depth(name, text, size));
    json_error_t error;
    *json = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
    if (*json == NULL && json_error_code(&error) == json_error_out_of_memory)
        return rc_fail(RC_OUT_OF_MEMORY, "%s: no memory to parse %zu bytes of JSON", name, size);
    if (*json == NULL)
        return rc_fail(RC_FORMAT, "%s, line %d, column %d: %s", name, error.line, error.column, error.text);
    return RC_OK;
}

rc_status rc_json_load(const char *path, size_t limit, json_t **json)
{
    *json = NULL;
    char *text;
    size_t size;
    RC_TRY(rc_file_read(path, limit, &text, &size));
    rc_status status = rc_json_parse(path, text, size, json);
    rc_free(NULL, text);
    return status;
}

/* ---- members ----------------------------------------------------------------------------------------------------- */

static const char *type_name(const json_t *json)
{
    if (json == NULL)
        return "nothing";
    switch (json_typeof(json)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "an array";
    case JSON_STRING: return "a string";
    case JSON_INTEGER: return "an integer";
    case JSON_REAL: return "a number with a fraction";
    case JSON_TRUE:
    case JSON_FALSE: return "a boolean";
    case JSON_NULL: return "null";
    }
    return "unknown";
}

/* Sets of types, one bit for each json_type. */
enum {
    OBJECT = 1 << JSON_OBJECT,
    ARRAY = 1 << JSON_ARRAY,
    STRING = 1 << JSON_STRING,
    INTEGER = 1 << JSON_INTEGER,
};

static rc_status find(const json_t *object, const char *key, int types, const char *expected, json_t **member)
{
    if (!json_is_object(object))
        return rc_fail(RC_FORMAT, "found %s, expected an object with the key '%s'", type_name(object), key);
    json_t *found = json_object_get(object, key);
    if (found == NULL)
        return rc_fail(RC_FORMAT, "key '%s' is missing", key);
    if ((types & 1 << json_typeof(found)) == 0)
        return rc_fail(RC_FORMAT, "key '%s' is %s, expected %s", key, type_name(found), expected);
    *member = found;
    return RC_OK;
}

rc_status rc_json_get_int64(const json_t *object, const char *key, int64_t *value)
{
    json_t *member;
    RC_TRY(find(object, key, INTEGER, "an integer", &member));
    *value = json_integer_value(member);
    return RC_OK;
}

rc_status rc_json_get_int(const json_t *object, const char *key, int *value)
{
    int64_t wide;
    RC_TRY(rc_json_get_int64(object, key, &wide));
    if (wide < INT_MIN || wide > INT_MAX)
        return rc_fail(RC_FORMAT, "key '%s' is %" PRId64 ", expected %d to %d", key, wide, INT_MIN, INT_MAX);
    *value = (int)wide;
    return RC_OK;
}

rc_status rc_json_get_string(const json_t *object, const char *key, const char **value)
{
    json_t *member;
    RC_TRY(find(object, key, STRING, "a string", &member));
    *value = json_string_value(member);
    return RC_OK;
}

rc_status rc_json_get_array(const json_t *object, const char *key, json_t **value)
{
    return find(object, key, ARRAY, "an array", value);
}

rc_status rc_json_get_object(const json_t *object, const char *key, json_t **value)
{
    return find(object, key, OBJECT, "an object", value);
}

/* ---- out --------------------------------------------------------------------------------------------------------- */

/* The text, unterminated, with one more byte of room behind it. */
static rc_status dump(const json_t *json, int indent, char **text, size_t *size)
{
    *text = NULL;
    if (json == NULL)
        return rc_fail(RC_INVALID_ARGUMENT, "cannot write JSON: there is no value");
    if (indent < 0 || indent > 31)
        return rc_fail(RC_INVALID_ARGUMENT, "cannot write JSON: indent is %d, expected 0 to 31", indent);
    size_t flags = JSON_ENCODE_ANY | (indent > 0 ? JSON_INDENT((size_t)indent) : JSON_COMPACT);
    *size = json_dumpb(json, NULL, 0, flags);
    if (*size == 0)
        return rc_fail(RC_INVALID_ARGUMENT, "cannot write JSON: it contains itself, or text that is not UTF-8");
    *text = rc_alloc(NULL, *size + 1);
    if (*text == NULL)
        return RC_OUT_OF_MEMORY;
    json_dumpb(json, *text, *size, flags);
    return RC_OK;
}

json_t *rc_json_text(const char *text)
{
    static const char replacement[] = "\xEF\xBF\xBD";
    size_t left = strlen(text), used = 0;
    char *sound = rc_alloc(NULL, left * strlen(replacement) + 1);
    if (sound == NULL)
        return NULL;
    while (left > 0) {
        size_t length = rc_utf8_length(text, left), taken = length > 0 ? length : 1;
        size_t put = length > 0 ? length : strlen(replacement);
        memcpy(sound + used, length > 0 ? text : replacement, put);
        used += put;
        text += taken;
        left -= taken;
    }
    json_t *json = json_stringn(sound, used);
    rc_free(NULL, sound);
    return json;
}

json_t *rc_json_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

rc_status rc_json_dump(const json_t *json, int indent, char **text)
{
    size_t size;
    RC_TRY(dump(json, indent, text, &size));
    (*text)[size] = '\0';
    return RC_OK;
}

rc_status rc_json_line(json_t *json, void (*line)(void *user, const char *text), void *user)
{
    char *text = NULL;
    rc_status status = rc_json_dump(json, 0, &text);
    if (status == RC_OK)
        line(user, text);
    rc_free(NULL, text);
    json_decref(json);
    return status;
}

static rc_status save(const json_t *json, int indent, const char *path, rc_status (*commit)(rc_file_writer *writer))
{
    char *text;
    size_t size;
    rc_file_writer *writer;
    RC_TRY(dump(json, indent, &text, &size));
    text[size] = '\n';
    rc_status status = rc_file_writer_open(path, &writer);
    if (status == RC_OK) {
        (void)rc_file_writer_append(writer, text, size + 1); /* a failure comes out of the commit */
        status = commit(writer);
    }
    rc_free(NULL, text);
    return status;
}

rc_status rc_json_save(const json_t *json, int indent, const char *path)
{
    return save(json, indent, path, rc_file_writer_commit);
}

rc_status rc_json_save_new(const json_t *json, int indent, const char *path)
{
    return save(json, indent, path, rc_file_writer_commit_new);
}
