#include "base/json.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/utf8.h"

/* The values of a text in the order of the text, each before what is in it; behind the last one their strings and keys,
 * each with a zero byte. The densest texts, "[0,0,0...", have a value for every two bytes: 16 bytes are 8 times that.
 * Strings and the list that keys are sorted in find room in what the other bytes of their text are allowed. */
struct rc_json {
    unsigned type : 3;  /* rc_json_type */
    unsigned span : 29; /* number of values from this one to its end, itself included: the value after it is so far
                           ahead */
    uint32_t key;       /* bytes from here to its key; 0: no key */
    union {
        int64_t integer;
        double real;
        const char *string;
        size_t count; /* entries of an array or object */
    } as;
};

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* The same functions go over the text twice: first they only check and count, then they fill the block. */
typedef struct reader {
    const char *name, *text, *at, *end;
    rc_json *value;       /* NULL while counting */
    char *string;         /* likewise */
    const char **sorted;  /* likewise: room for `members` keys */
    size_t values, bytes; /* so far; bytes of strings and keys */
    size_t members;       /* of the object that has the most */
} reader;

static rc_status read_value(reader *r, int depth, size_t key);

/* Line and column, in characters, of a place in the text. */
static void find_place(const reader *r, const char *at, size_t *line, size_t *column)
{
    *line = *column = 1;
    for (const char *p = r->text; p < at; p++)
        if (*p == '\n') {
            ++*line;
            *column = 1;
        } else {
            *column += ((unsigned char)*p & 0xC0) != 0x80;
        }
}

#define REFUSE(r, at, ...) refuse(r, at, rc_set_message(__VA_ARGS__))

/* Puts the name and the place in front of the message. */
static rc_status refuse(const reader *r, const char *at, int length)
{
    size_t line, column;
    (void)length;
    find_place(r, at, &line, &column);
    return rc_fail(RC_FORMAT, "%s, line %zu, column %zu: %s", r->name, line, column, rc_message());
}

/* Reports that the text at r->at is not what was expected. */
static rc_status unexpected(const reader *r, const char *expected)
{
    if (r->at == r->end)
        return REFUSE(r, r->at, "the text ends here, expected %s", expected);
    unsigned char c = (unsigned char)*r->at;
    return c > ' ' && c < 0x7F ? REFUSE(r, r->at, "found '%c', expected %s", c, expected)
                               : REFUSE(r, r->at, "found the byte 0x%02X, expected %s", c, expected);
}

static void skip_blanks(reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r'))
        r->at++;
}

static bool take(reader *r, char c)
{
    if (r->at == r->end || *r->at != c)
        return false;
    r->at++;
    return true;
}

/* ---- strings */

static void put_bytes(reader *r, const char *bytes, size_t count)
{
    if (r->string != NULL)
        memcpy(r->string + r->bytes, bytes, count);
    r->bytes += count;
}

/* One of up to 0x10FFFF, as UTF-8. */
static void put_character(reader *r, unsigned code)
{
    unsigned char byte[4];
    size_t length = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned mark[5] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t i = length - 1; i > 0; i--, code >>= 6)
        byte[i] = (unsigned char)(0x80 | (code & 0x3F));
    byte[0] = (unsigned char)(mark[length] | code);
    put_bytes(r, (const char *)byte, length);
}

static rc_status read_four_digits(reader *r, unsigned *code)
{
    *code = 0;
    for (int i = 0; i < 4; i++, r->at++) {
        int c = r->at < r->end ? *r->at : 0;
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0)
            return unexpected(r, "four hexadecimal digits after \\u");
        *code = *code << 4 | (unsigned)digit;
    }
    return RC_OK;
}

/* What follows "\u", of which characters beyond 0xFFFF take two. */
static rc_status read_code(reader *r)
{
    const char *begin = r->at - 2;
    unsigned code, low;
    RC_TRY(read_four_digits(r, &code));
    if (code == 0)
        return REFUSE(r, begin, "\\u0000 is in a string, which cannot hold it");
    if (code >= 0xD800 && code < 0xDC00) {
        if (!take(r, '\\') || !take(r, 'u'))
            return REFUSE(r, begin, "\\u%04X is half of a character, expected the other half after it", code);
        RC_TRY(read_four_digits(r, &low));
        if (low < 0xDC00 || low >= 0xE000)
            return REFUSE(r, begin, "\\u%04X\\u%04X are not halves of one character", code, low);
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    } else if (code >= 0xDC00 && code < 0xE000) {
        return REFUSE(r, begin, "\\u%04X is the second half of a character, and there is no first", code);
    }
    put_character(r, code);
    return RC_OK;
}

/* What follows a backslash. */
static rc_status read_escape(reader *r)
{
    static const char names[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    const char *name = r->at < r->end && *r->at != '\0' ? strchr(names, *r->at) : NULL;
    if (take(r, 'u'))
        return read_code(r);
    if (name == NULL)
        return unexpected(r, "one of \"\\/bfnrtu after a backslash");
    r->at++;
    put_bytes(r, &meant[name - names], 1);
    return RC_OK;
}

/* Up to the quote at its end; the one at its beginning is taken. */
static rc_status read_string(reader *r)
{
    while (!take(r, '"')) {
        if (r->at == r->end)
            return unexpected(r, "the end of the string, '\"'");
        if ((unsigned char)*r->at < ' ')
            return REFUSE(r, r->at, "the control character 0x%02X is in a string, expected \\u%04X",
                          (unsigned char)*r->at, (unsigned char)*r->at);
        if (take(r, '\\')) {
            RC_TRY(read_escape(r));
            continue;
        }
        size_t length = rc_utf8_length(r->at, (size_t)(r->end - r->at));
        if (length == 0)
            return unexpected(r, "UTF-8");
        put_bytes(r, r->at, length);
        r->at += length;
    }
    put_bytes(r, "", 1);
    return RC_OK;
}

/* ---- numbers */

static bool skip_digits(reader *r)
{
    const char *begin = r->at;
    while (r->at < r->end && *r->at >= '0' && *r->at <= '9')
        r->at++;
    return r->at > begin;
}

/* Below zero, because there is one more number there. */
static rc_status read_integer(const reader *r, const char *begin, int64_t *out)
{
    bool negative = *begin == '-';
    int64_t value = 0;
    for (const char *p = begin + negative; p < r->at; p++) {
        int digit = *p - '0';
        if (value < (INT64_MIN + digit) / 10 || (!negative && value * 10 - digit == INT64_MIN))
            return REFUSE(r, begin, "the integer %.*s%s does not fit into 64 bits",
                          r->at - begin > 40 ? 40 : (int)(r->at - begin), begin, r->at - begin > 40 ? "..." : "");
        value = value * 10 - digit;
    }
    *out = negative ? value : -value;
    return RC_OK;
}

static rc_status read_real(const reader *r, const char *begin, double *out)
{
    char text[RC_JSON_MAX_NUMBER + 1], *end; /* a copy, because there may be no byte behind the text */
    memcpy(text, begin, (size_t)(r->at - begin));
    text[r->at - begin] = '\0';
    *out = rc_number_read(text, &end);
    if (*end != '\0')
        return rc_fail(RC_OUT_OF_MEMORY, "%s: no memory for a locale to read numbers in", r->name);
    return isfinite(*out) ? RC_OK : REFUSE(r, begin, "the number %.40s is too large", text);
}

static rc_status read_number(reader *r, rc_json *value)
{
    const char *begin = r->at;
    bool real = false;
    take(r, '-');
    if (!take(r, '0') && !skip_digits(r))
        return unexpected(r, "a digit");
    if (take(r, '.')) {
        real = true;
        if (!skip_digits(r))
            return unexpected(r, "a digit after the point");
    }
    if (take(r, 'e') || take(r, 'E')) {
        real = true;
        if (!take(r, '+'))
            take(r, '-');
        if (!skip_digits(r))
            return unexpected(r, "a digit of the exponent");
    }
    if (r->at - begin > RC_JSON_MAX_NUMBER)
        return REFUSE(r, begin, "a number of %td characters, expected at most %d", r->at - begin, RC_JSON_MAX_NUMBER);
    value->type = real ? RC_JSON_REAL : RC_JSON_INTEGER;
    return real ? read_real(r, begin, &value->as.real) : read_integer(r, begin, &value->as.integer);
}

/* ---- arrays and objects */

static rc_status read_array(reader *r, int depth, size_t *count)
{
    skip_blanks(r);
    if (take(r, ']'))
        return RC_OK;
    do {
        RC_TRY(read_value(r, depth + 1, SIZE_MAX));
        ++*count;
        skip_blanks(r);
    } while (take(r, ','));
    return take(r, ']') ? RC_OK : unexpected(r, "',' or ']'");
}

static rc_status read_members(reader *r, int depth, size_t *count)
{
    skip_blanks(r);
    if (take(r, '}'))
        return RC_OK;
    do {
        skip_blanks(r);
        if (!take(r, '"'))
            return unexpected(r, "a key in quotes");
        size_t key = r->bytes;
        RC_TRY(read_string(r));
        skip_blanks(r);
        if (!take(r, ':'))
            return unexpected(r, "':' after the key");
        RC_TRY(read_value(r, depth + 1, key));
        ++*count;
        skip_blanks(r);
    } while (take(r, ','));
    return take(r, '}') ? RC_OK : unexpected(r, "',' or '}'");
}

/* Lets the text at `root` sink in a heap of `count` texts whose largest is the first. */
static void sink(const char **heap, size_t root, size_t count)
{
    for (size_t child; (child = 2 * root + 1) < count; root = child) {
        if (child + 1 < count && strcmp(heap[child], heap[child + 1]) < 0)
            child++;
        if (strcmp(heap[root], heap[child]) >= 0)
            return;
        const char *larger = heap[child];
        heap[child] = heap[root];
        heap[root] = larger;
    }
}

/* Heapsort: it needs no memory and has no quadratic worst case that a hostile text could trigger. */
static void sort(const char **texts, size_t count)
{
    for (size_t i = count / 2; i-- > 0;)
        sink(texts, i, count);
    for (size_t left = count; left-- > 1;) {
        const char *largest = texts[0];
        texts[0] = texts[left];
        texts[left] = largest;
        sink(texts, 0, left);
    }
}

/* r->at is just behind the object. */
static rc_status refuse_double_keys(const reader *r, const rc_json *object)
{
    size_t count = 0;
    for (const rc_json *entry = NULL; (entry = rc_json_next(object, entry)) != NULL;)
        r->sorted[count++] = rc_json_key(entry);
    sort(r->sorted, count);
    for (size_t i = 1; i < count; i++)
        if (strcmp(r->sorted[i - 1], r->sorted[i]) == 0)
            return REFUSE(r, r->at - 1, "the object that ends here has the key '%.200s' twice", r->sorted[i]);
    return RC_OK;
}

static rc_status read_object(reader *r, int depth, size_t *count)
{
    RC_TRY(read_members(r, depth, count));
    r->members = *count > r->members ? *count : r->members;
    return RC_OK;
}

/* ---- values */

static rc_status read_word(reader *r, const char *word, rc_json_type type, rc_json *value)
{
    for (; *word != '\0'; word++)
        if (!take(r, *word))
            return unexpected(r, "true, false or null");
    value->type = type;
    return RC_OK;
}

static rc_status read_text_value(reader *r, rc_json *value)
{
    value->type = RC_JSON_STRING;
    value->as.string = r->string != NULL ? r->string + r->bytes : NULL;
    return read_string(r);
}

static rc_status read_any(reader *r, int depth, rc_json *value)
{
    const char *begin = r->at;
    size_t count = 0;
    char c = r->at < r->end ? *r->at : '\0';
    if ((c == '[' || c == '{') && depth == RC_JSON_MAX_DEPTH)
        return REFUSE(r, begin, "nested deeper than %d levels", RC_JSON_MAX_DEPTH);
    switch (c) {
    case '[':
    case '{':
        r->at++;
        value->type = c == '[' ? RC_JSON_ARRAY : RC_JSON_OBJECT;
        RC_TRY(c == '[' ? read_array(r, depth, &count) : read_object(r, depth, &count));
        value->as.count = count;
        return RC_OK;
    case '"': r->at++; return read_text_value(r, value);
    case 't': return read_word(r, "true", RC_JSON_TRUE, value);
    case 'f': return read_word(r, "false", RC_JSON_FALSE, value);
    case 'n': return read_word(r, "null", RC_JSON_NULL, value);
    default: break;
    }
    return c == '-' || (c >= '0' && c <= '9') ? read_number(r, value) : unexpected(r, "a value");
}

/* A value and the blanks before it. key: where among the bytes of strings its key begins; SIZE_MAX: it has none. */
static rc_status read_value(reader *r, int depth, size_t key)
{
    rc_json value = {0};
    size_t index = r->values++;
    skip_blanks(r);
    RC_TRY(read_any(r, depth, &value));
    if (r->value == NULL)
        return RC_OK;
    rc_json *place = &r->value[index];
    value.span = (unsigned)(r->values - index);
    if (key != SIZE_MAX)
        value.key = (uint32_t)(r->string + key - (const char *)place);
    *place = value;
    return value.type == RC_JSON_OBJECT ? refuse_double_keys(r, place) : RC_OK;
}

static rc_status read_text(reader *r)
{
    r->at = r->text;
    r->values = r->bytes = 0;
    RC_TRY(read_value(r, 0, SIZE_MAX));
    skip_blanks(r);
    return r->at == r->end ? RC_OK : unexpected(r, "nothing after the value");
}

rc_status rc_json_parse(const char *name, const char *text, size_t size, rc_json **json)
{
    *json = NULL;
    if (size > RC_JSON_MAX_SIZE)
        return rc_fail(RC_FORMAT, "%s: JSON of %zu bytes, expected at most %zu", name, size, RC_JSON_MAX_SIZE);
    reader r = {.name = name, .text = text, .end = text + size};
    RC_TRY(read_text(&r));
    size_t values = r.values * sizeof *r.value, keys = r.members * sizeof *r.sorted;
    char *block = rc_alloc(NULL, values + keys + r.bytes);
    if (block == NULL)
        return rc_fail(RC_OUT_OF_MEMORY, "%s: no memory for %zu bytes of JSON: %s", name, size, rc_message());
    r.value = (rc_json *)(void *)block;
    r.sorted = (const char **)(void *)(block + values);
    r.string = block + values + keys;
    rc_status status = read_text(&r);
    if (status == RC_OK)
        *json = r.value;
    else
        rc_free(NULL, block);
    return status;
}

rc_status rc_json_load(const char *path, size_t limit, rc_json **json)
{
    *json = NULL;
    char *text;
    size_t size;
    RC_TRY(rc_file_read(path, limit, &text, &size));
    rc_status status = rc_json_parse(path, text, size, json);
    rc_free(NULL, text);
    return status;
}

void rc_json_free(rc_json *json)
{
    rc_free(NULL, json);
}

/* ---- looking ----------------------------------------------------------------------------------------------------- */

bool rc_json_is(const rc_json *value, rc_json_type type)
{
    return value != NULL && value->type == (unsigned)type;
}

const char *rc_json_string(const rc_json *value)
{
    return rc_json_is(value, RC_JSON_STRING) ? value->as.string : NULL;
}

double rc_json_number(const rc_json *value)
{
    if (rc_json_is(value, RC_JSON_INTEGER))
        return (double)value->as.integer;
    return rc_json_is(value, RC_JSON_REAL) ? value->as.real : NAN;
}

int64_t rc_json_integer(const rc_json *value)
{
    return rc_json_is(value, RC_JSON_INTEGER) ? value->as.integer : 0;
}

size_t rc_json_count(const rc_json *value)
{
    return rc_json_is(value, RC_JSON_ARRAY) || rc_json_is(value, RC_JSON_OBJECT) ? value->as.count : 0;
}

const rc_json *rc_json_next(const rc_json *value, const rc_json *entry)
{
    if (rc_json_count(value) == 0)
        return NULL;
    const rc_json *next = entry != NULL ? entry + entry->span : value + 1;
    return next < value + value->span ? next : NULL;
}

const char *rc_json_key(const rc_json *entry)
{
    return entry != NULL && entry->key > 0 ? (const char *)entry + entry->key : NULL;
}

const rc_json *rc_json_member(const rc_json *object, const char *key)
{
    if (rc_json_is(object, RC_JSON_OBJECT))
        for (const rc_json *entry = NULL; (entry = rc_json_next(object, entry)) != NULL;)
            if (strcmp(rc_json_key(entry), key) == 0)
                return entry;
    return NULL;
}

static const char *type_name(const rc_json *value)
{
    if (value == NULL)
        return "nothing";
    switch ((rc_json_type)value->type) {
    case RC_JSON_OBJECT: return "an object";
    case RC_JSON_ARRAY: return "an array";
    case RC_JSON_STRING: return "a string";
    case RC_JSON_INTEGER: return "an integer";
    case RC_JSON_REAL: return "a number with a fraction";
    case RC_JSON_TRUE:
    case RC_JSON_FALSE: return "a boolean";
    case RC_JSON_NULL: return "null";
    }
    return "unknown";
}

static rc_status find(const rc_json *object, const char *key, rc_json_type type, const char *expected,
                      const rc_json **member)
{
    if (!rc_json_is(object, RC_JSON_OBJECT))
        return rc_fail(RC_FORMAT, "found %s, expected an object with the key '%s'", type_name(object), key);
    const rc_json *found = rc_json_member(object, key);
    if (found == NULL)
        return rc_fail(RC_FORMAT, "key '%s' is missing", key);
    if (!rc_json_is(found, type))
        return rc_fail(RC_FORMAT, "key '%s' is %s, expected %s", key, type_name(found), expected);
    *member = found;
    return RC_OK;
}

rc_status rc_json_get_int64(const rc_json *object, const char *key, int64_t *value)
{
    const rc_json *member;
    RC_TRY(find(object, key, RC_JSON_INTEGER, "an integer", &member));
    *value = member->as.integer;
    return RC_OK;
}

rc_status rc_json_get_int(const rc_json *object, const char *key, int *value)
{
    int64_t wide;
    RC_TRY(rc_json_get_int64(object, key, &wide));
    if (wide < INT_MIN || wide > INT_MAX)
        return rc_fail(RC_FORMAT, "key '%s' is %" PRId64 ", expected %d to %d", key, wide, INT_MIN, INT_MAX);
    *value = (int)wide;
    return RC_OK;
}

rc_status rc_json_get_string(const rc_json *object, const char *key, const char **value)
{
    const rc_json *member;
    RC_TRY(find(object, key, RC_JSON_STRING, "a string", &member));
    *value = member->as.string;
    return RC_OK;
}

rc_status rc_json_get_array(const rc_json *object, const char *key, const rc_json **value)
{
    return find(object, key, RC_JSON_ARRAY, "an array", value);
}

rc_status rc_json_get_object(const rc_json *object, const char *key, const rc_json **value)
{
    return find(object, key, RC_JSON_OBJECT, "an object", value);
}
