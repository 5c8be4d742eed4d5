/* Reading JSON: every production, every refusal with its place, limits of memory and time; and files. (The linker
 * redirects the library's posix_memalign to the one here.) */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"

static int heap_calls;
static size_t heap_asked; /* bytes of all blocks */
static bool heap_fails;

int __real_posix_memalign(void **block, size_t align, size_t size);
int __wrap_posix_memalign(void **block, size_t align, size_t size);

int __wrap_posix_memalign(void **block, size_t align, size_t size)
{
    heap_asked += size;
    heap_calls++;
    if (heap_fails)
        return 12;
    return __real_posix_memalign(block, align, size);
}

static rc_json *parse(const char *text)
{
    rc_json *json;
    if (rc_json_parse("text", text, strlen(text), &json) != RC_OK)
        fail_msg("%s: %s", text, rc_message());
    return json;
}

/* What the writer makes of a value. */
static char *write_value(const rc_json *json, int indent)
{
    char *text;
    size_t size;
    rc_json_writer w = {.indent = indent};
    rc_json_put_value(&w, NULL, json);
    assert_int_equal(rc_json_finish(&w, &text, &size), RC_OK);
    assert_int_equal(strlen(text), size);
    return text;
}

/* ---- in ------------------------------------------------------------------------------------------------ */

/* Texts, and how they are written again. */
static void every_production_is_read(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {"null", "null"},
        {"true", "true"},
        {" \t\r\n false \n", "false"},
        {"0", "0"},
        {"-0", "0"},
        {"7", "7"},
        {"-120", "-120"},
        {"9223372036854775807", "9223372036854775807"},
        {"-9223372036854775808", "-9223372036854775808"},
        {"0.0", "0.0"},
        {"-0.0", "-0.0"},
        {"0e0", "0.0"},
        {"1.5", "1.5"},
        {"-12.25E+2", "-1225.0"},
        {"1e5", "100000.0"},
        {"1E-7", "9.9999999999999995e-8"},
        {"1e+20", "1e20"},
        {"1.7976931348623157e308", "1.7976931348623157e308"},
        {"5e-324", "4.9406564584124654e-324"},
        {"1e-999", "0.0"},
        {"\"\"", "\"\""},
        {"\"a b\"", "\"a b\""},
        {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\\"\\\\/\\b\\f\\n\\r\\t\""},
        {"\"\\u0041\\u00e9\\u20AC\\uD83D\\uDE00\"", "\"A\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\""},
        {"\"\\u0001\\u001f\\u007f\\uffff\\udbff\\udfff\"", "\"\\u0001\\u001F\x7F\xEF\xBF\xBF\xF4\x8F\xBF\xBF\""},
        {"\"\\u007f\\u0080\\u07FF\\u0800\\ud7ff\\ue000\\uaAfF\"", /* the edges of lengths, and of halves */
         "\"\x7F\xC2\x80\xDF\xBF\xE0\xA0\x80\xED\x9F\xBF\xEE\x80\x80\xEA\xAB\xBF\""},
        {"\"\\uD800\\uDC00\\ud801\\udc37\"", "\"\xF0\x90\x80\x80\xF0\x90\x90\xB7\""},
        {"\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\"", "\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\""},
        {"[]", "[]"},
        {"[ ]", "[]"},
        {"[ 1 , \"a\",[null] ]", "[1,\"a\",[null]]"},
        {"{}", "{}"},
        {" { } ", "{}"},
        {"{ \"b\" : 1 , \"a\":{ \"\":[ ] }, \"\":2}", "{\"b\":1,\"a\":{\"\":[]},\"\":2}"},
        {"{\"\\u0061\": 1, \"A\": 2, \"aa\": 3}", "{\"a\":1,\"A\":2,\"aa\":3}"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        rc_json *json = parse(pairs[i][0]);
        char *text = write_value(json, 0);
        assert_string_equal(text, pairs[i][1]);
        rc_free(NULL, text);
        rc_json_free(json);
    }
}

static void broken_text_is_refused_with_its_place(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } broken[] = {
        {"", "line 1, column 1: the text ends here, expected a value"},
        {"\n\n  ", "line 3, column 3: the text ends here, expected a value"},
        {"{\n  \"a\": 1,\n  \"b\" 2\n}", "line 3, column 7: found '2', expected ':' after the key"},
        {"{\"\xC3\xA9\": \"\xE2\x82\xAC\" x}", "line 1, column 11: found 'x', expected ',' or '}'"},
        {"{\"a\": 1} x", "line 1, column 10: found 'x', expected nothing after the value"},
        {"1 2", "line 1, column 3: found '2', expected nothing after the value"},
        {"{\"a\": 1, \"b\": 2, \"a\": 3}", "line 1, column 24: the object that ends here has the key 'a' twice"},
        {"{\"a\": {\"x\": 1, \"\\u0078\": 1}}", "line 1, column 27: the object that ends here has the key 'x' twice"},
        {"[1, 2", "line 1, column 6: the text ends here, expected ',' or ']'"},
        {"[1, 2}", "line 1, column 6: found '}', expected ',' or ']'"},
        {"[1,]", "line 1, column 4: found ']', expected a value"},
        {"[,1]", "line 1, column 2: found ',', expected a value"},
        {"[1 2]", "line 1, column 4: found '2', expected ',' or ']'"},
        {"]", "line 1, column 1: found ']', expected a value"},
        {"{", "line 1, column 2: the text ends here, expected a key in quotes"},
        {"{a: 1}", "line 1, column 2: found 'a', expected a key in quotes"},
        {"{1: 1}", "line 1, column 2: found '1', expected a key in quotes"},
        {"{\"a\"}", "line 1, column 5: found '}', expected ':' after the key"},
        {"{\"a\":}", "line 1, column 6: found '}', expected a value"},
        {"{\"a\":1,}", "line 1, column 8: found '}', expected a key in quotes"},
        {"{\"a\":1", "line 1, column 7: the text ends here, expected ',' or '}'"},
        {"{\"a\":1]", "line 1, column 7: found ']', expected ',' or '}'"},
        {"\xEF\xBB\xBF{}", "line 1, column 1: found the byte 0xEF, expected a value"},
        {"'a'", "line 1, column 1: found ''', expected a value"},
        {"\"a", "line 1, column 3: the text ends here, expected the end of the string, '\"'"},
        {"\"a\nb\"", "line 1, column 3: the control character 0x0A is in a string, expected \\u000A"},
        {"\"\x1F\"", "line 1, column 2: the control character 0x1F is in a string, expected \\u001F"},
        {"\"\\x\"", "line 1, column 3: found 'x', expected one of \"\\/bfnrtu after a backslash"},
        {"\"\\ \"", "line 1, column 3: found the byte 0x20, expected one of \"\\/bfnrtu after a backslash"},
        {"\x7F", "line 1, column 1: found the byte 0x7F, expected a value"},
        {"~", "line 1, column 1: found '~', expected a value"},
        {"\"\\", "line 1, column 3: the text ends here, expected one of \"\\/bfnrtu after a backslash"},
        {"\"\\u00g0\"", "line 1, column 6: found 'g', expected four hexadecimal digits after \\u"},
        {"\"\\u00", "line 1, column 6: the text ends here, expected four hexadecimal digits after \\u"},
        {"[\"a\\u0000\"]", "line 1, column 4: \\u0000 is in a string, which cannot hold it"},
        {"\"\\uD83D\"", "line 1, column 2: \\uD83D is half of a character, expected the other half after it"},
        {"\"\\uD83D\\n\"", "line 1, column 2: \\uD83D is half of a character, expected the other half after it"},
        {"\"\\uD83D\\u0041\"", "line 1, column 2: \\uD83D\\u0041 are not halves of one character"},
        {"\"\\uD83D\\uE000\"", "line 1, column 2: \\uD83D\\uE000 are not halves of one character"},
        {"\"\\uD800\"", "line 1, column 2: \\uD800 is half of a character, expected the other half after it"},
        {"\"\\uDBFF\"", "line 1, column 2: \\uDBFF is half of a character, expected the other half after it"},
        {"\"\\uD83D\\uDBFF\"", "line 1, column 2: \\uD83D\\uDBFF are not halves of one character"},
        {"\"\\uD83D\\uDEx0\"", "line 1, column 12: found 'x', expected four hexadecimal digits after \\u"},
        {"\"\\uDC00\"", "line 1, column 2: \\uDC00 is the second half of a character, and there is no first"},
        {"\"\\uDE00\"", "line 1, column 2: \\uDE00 is the second half of a character, and there is no first"},
        {"\"\\uDFFF\"", "line 1, column 2: \\uDFFF is the second half of a character, and there is no first"},
        {"\"\xFC\"", "line 1, column 2: found the byte 0xFC, expected UTF-8"},
        {"\"\xC0\x80\"", "line 1, column 2: found the byte 0xC0, expected UTF-8"},
        {"\"\xED\xA0\x80\"", "line 1, column 2: found the byte 0xED, expected UTF-8"},
        {"\"\xF0\x9F\x98", "line 1, column 2: found the byte 0xF0, expected UTF-8"},
        {"-", "line 1, column 2: the text ends here, expected a digit"},
        {"-a", "line 1, column 2: found 'a', expected a digit"},
        {"+1", "line 1, column 1: found '+', expected a value"},
        {".5", "line 1, column 1: found '.', expected a value"},
        {"01", "line 1, column 2: found '1', expected nothing after the value"},
        {"0x10", "line 1, column 2: found 'x', expected nothing after the value"},
        {"1.", "line 1, column 3: the text ends here, expected a digit after the point"},
        {"1.e5", "line 1, column 3: found 'e', expected a digit after the point"},
        {"1e", "line 1, column 3: the text ends here, expected a digit of the exponent"},
        {"1e+", "line 1, column 4: the text ends here, expected a digit of the exponent"},
        {"1e-+5", "line 1, column 4: found '+', expected a digit of the exponent"},
        {"[1e999]", "line 1, column 2: the number 1e999 is too large"},
        {"[-1.8e308]", "line 1, column 2: the number -1.8e308 is too large"},
        {"[9223372036854775808]", "line 1, column 2: the integer 9223372036854775808 does not fit into 64 bits"},
        {"[-9223372036854775809]", "line 1, column 2: the integer -9223372036854775809 does not fit into 64 bits"},
        {"[9999999999999999999999999999999999999999]",
         "line 1, column 2: the integer 9999999999999999999999999999999999999999 does not fit into 64 bits"},
        {"[99999999999999999999999999999999999999999999]",
         "line 1, column 2: the integer 9999999999999999999999999999999999999999... does not fit into 64 bits"},
        {"NaN", "line 1, column 1: found 'N', expected a value"},
        {"Infinity", "line 1, column 1: found 'I', expected a value"},
        {"-Infinity", "line 1, column 2: found 'I', expected a digit"},
        {"nul", "line 1, column 4: the text ends here, expected true, false or null"},
        {"tru\n", "line 1, column 4: found the byte 0x0A, expected true, false or null"},
        {"False", "line 1, column 1: found 'F', expected a value"},
        {"truee", "line 1, column 5: found 'e', expected nothing after the value"},
        {"/* */ 1", "line 1, column 1: found '/', expected a value"},
        {"\xC2\xA0"
         "1",
         "line 1, column 1: found the byte 0xC2, expected a value"},
    };
    size_t before = rc_bytes_allocated();
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        rc_json *json = (rc_json *)&json;
        char expected[200];
        snprintf(expected, sizeof expected, "text, %s", broken[i].message);
        assert_int_equal(rc_json_parse("text", broken[i].text, strlen(broken[i].text), &json), RC_FORMAT);
        assert_null(json);
        assert_string_equal(rc_message(), expected);
        assert_int_equal(rc_bytes_allocated(), before);
    }
}

static void zero_bytes_are_refused(void **state)
{
    (void)state;
    rc_json *json;
    assert_int_equal(rc_json_parse("text", "1\0", 2, &json), RC_FORMAT);
    assert_string_equal(rc_message(), "text, line 1, column 2: found the byte 0x00, expected nothing after the value");
    assert_int_equal(rc_json_parse("text", "\"a\0b\"", 5, &json), RC_FORMAT);
    assert_int_equal(rc_json_parse("text", "\"\\\0\"", 4, &json), RC_FORMAT);
    assert_string_equal(rc_message(),
                        "text, line 1, column 3: found the byte 0x00, expected one of \"\\/bfnrtu after a backslash");
}

/* An object of so many keys in some order; `second` has the key of `first`, where they differ. */
static void try_keys(int order, int count, int first, int second)
{
    char text[256] = "{", expected[32];
    for (int i = 0; i < count; i++) {
        int number = i == second ? first : i, letter = 'a' + (number * (31 * order + 3) + order) % 11;
        snprintf(text + strlen(text), 32, "%s\"%c%d\":1", i > 0 ? "," : "", letter, number);
    }
    strcat(text, "}");
    rc_json *json;
    rc_status status = rc_json_parse("text", text, strlen(text), &json);
    snprintf(expected, sizeof expected, "%d' twice", first);
    bool right = first == second ? status == RC_OK : status == RC_FORMAT && strstr(rc_message(), expected) != NULL;
    if (!right)
        fail_msg("%s: %s", text, rc_message());
    rc_json_free(json);
}

static void double_keys_are_found_wherever_they_are(void **state)
{
    (void)state;
    for (int order = 0; order < 11; order++)
        for (int count = 2; count <= 10; count++)
            for (int first = 0; first < count; first++)
                for (int second = first; second < count; second++)
                    try_keys(order, count, first, second);
}

/* In blocks of exactly their size, so that the sanitizer sees who reads on. */
static void every_truncation_is_refused(void **state)
{
    (void)state;
    const char *whole = "{\"name\": [-1, 2.5e1, true, false, null, "
                        "{\"x\": \"\xC3\xA9\\\"]\\ud83d\\ude00\"}], \"z\": {}}";
    rc_json *json;
    for (size_t size = 0; size <= strlen(whole); size++) {
        char *text = malloc(size + 1);
        assert_non_null(text);
        memmove(text + 1, whole, size);
        rc_status status = rc_json_parse("text", text + 1, size, &json);
        free(text);
        assert_int_equal(status, size < strlen(whole) ? RC_FORMAT : RC_OK);
        assert_true((json != NULL) == (status == RC_OK));
        rc_json_free(json);
    }
    char *number = malloc(3);
    assert_non_null(number);
    memcpy(number, "1.5", 3);
    assert_int_equal(rc_json_parse("text", number, 3, &json), RC_OK);
    assert_true(rc_json_number(json) == 1.5);
    rc_json_free(json);
    free(number);
}

static void deep_nesting_is_refused(void **state)
{
    (void)state;
    static char text[200000];
    memset(text, '[', RC_JSON_MAX_DEPTH);
    memset(text + RC_JSON_MAX_DEPTH, ']', RC_JSON_MAX_DEPTH);
    rc_json *json = parse(text);
    char *again = write_value(json, 0);
    assert_string_equal(again, text);
    rc_free(NULL, again);
    rc_json_free(json);
    memset(text, '[', sizeof text);
    assert_int_equal(rc_json_parse("text", text, sizeof text, &json), RC_FORMAT);
    assert_string_equal(rc_message(), "text, line 1, column 65: nested deeper than 64 levels");
    for (size_t i = 0; i + 5 <= sizeof text; i += 5)
        memcpy(text + i, "{\"a\":", 5);
    assert_int_equal(rc_json_parse("text", text, sizeof text, &json), RC_FORMAT);
    assert_string_equal(rc_message(), "text, line 1, column 321: nested deeper than 64 levels");
    /* Brackets inside strings are no nesting, also after an escaped quote. */
    int length = snprintf(text, sizeof text, "[\"\\\"%0100d\"]", 0);
    memset(text + 4, '{', 100);
    assert_int_equal(rc_json_parse("text", text, (size_t)length, &json), RC_OK);
    rc_json_free(json);
}

static void long_texts_and_numbers_are_refused(void **state)
{
    (void)state;
    rc_json *json;
    char digits[RC_JSON_MAX_NUMBER + 2];
    assert_int_equal(rc_json_parse("text", "[]", RC_JSON_MAX_SIZE + 1, &json), RC_FORMAT); /* nobody looks at it */
    assert_string_equal(rc_message(), "text: JSON of 268435457 bytes, expected at most 268435456");
    memset(digits, '0', sizeof digits);
    memcpy(digits, "1.", 2);
    assert_int_equal(rc_json_parse("text", digits, RC_JSON_MAX_NUMBER, &json), RC_OK);
    assert_true(rc_json_number(json) == 1);
    rc_json_free(json);
    assert_int_equal(rc_json_parse("text", digits, RC_JSON_MAX_NUMBER + 1, &json), RC_FORMAT);
    assert_string_equal(rc_message(), "text, line 1, column 1: a number of 1001 characters, expected at most 1000");
}

/* What somebody could send us to take memory or time: `piece` again and again, with a number where it has a %. */
static void bound(const char *begin, const char *piece, const char *end, rc_status expected)
{
    enum { SIZE = 1 << 20 };
    char *text = malloc(SIZE + 64);
    assert_non_null(text);
    size_t used = (size_t)snprintf(text, SIZE, "%s", begin);
    for (int i = 0; used < SIZE; i++)
        used += (size_t)snprintf(text + used, 64, piece, i);
    used -= 1; /* the last comma */
    used += (size_t)snprintf(text + used, 32, "%s", end);
    rc_json *json;
    double began = rc_now();
    heap_asked = 0;
    heap_calls = 0;
    rc_status status = rc_json_parse("text", text, used, &json);
    if (status != expected)
        fail_msg("%.40s...: %s", text, rc_message());
    if (heap_asked > RC_JSON_MEMORY(used) + RC_ALIGNMENT || heap_calls > 1)
        fail_msg("%.40s... of %zu bytes takes %zu bytes in %d blocks", text, used, heap_asked, heap_calls);
    assert_true(rc_now() - began < 20); /* a quadratic one takes hours */
    rc_json_free(json);
    free(text);
}

static void memory_and_time_are_bounded(void **state)
{
    (void)state;
    bound("[", "0,", "]", RC_OK);
    bound("[", "[],", "]", RC_OK);
    bound("[", "{},", "]", RC_OK);
    bound("[", "[0],", "]", RC_OK);
    bound("[", "\"\",", "]", RC_OK);
    bound("[", "\"\\ud83d\\ude00\",", "]", RC_OK);
    bound("[", "{\"\":0},", "]", RC_OK);
    bound("[", "0.5,", "]", RC_OK);
    bound("{", "\"%x\":0,", "}", RC_OK);
    bound("{", "\"%08x the same\":{},", "}", RC_OK);
    bound("{", "\"\":0,", "}", RC_FORMAT); /* all keys are one */
}

static void reading_takes_one_block_or_fails(void **state)
{
    (void)state;
    static const char text[] = "{\"a\": [1, \"b\", {\"c\": 0.5}]}";
    size_t before = rc_bytes_allocated();
    rc_json *json = (rc_json *)&json;
    heap_fails = true;
    heap_calls = 0;
    rc_status status = rc_json_parse("text", text, strlen(text), &json);
    heap_fails = false;
    assert_int_equal(status, RC_OUT_OF_MEMORY);
    assert_null(json);
    assert_int_equal(heap_calls, 1);
    /* 6 values, 1 key to sort, 3 strings of 2 bytes. */
    assert_string_equal(rc_message(), "text: no memory for 27 bytes of JSON: cannot allocate 110 bytes");
    assert_int_equal(rc_bytes_allocated(), before);
}

/* ---- members ------------------------------------------------------------------------------------------- */

static void members_come_with_their_type(void **state)
{
    (void)state;
    rc_json *json = parse("{\"i\": -5, \"big\": 9007199254740993, \"s\": \"hi\", \"a\": [1, 2.5, \"x\"], "
                          "\"o\": {\"k\": 1}, \"least\": -2147483648, \"most\": 2147483647}");
    int i, least, most;
    int64_t big;
    const char *text;
    const rc_json *array, *object, *entry;
    assert_int_equal(rc_json_get_int(json, "i", &i), RC_OK);
    assert_int_equal(rc_json_get_int(json, "least", &least), RC_OK);
    assert_int_equal(rc_json_get_int(json, "most", &most), RC_OK);
    assert_int_equal(rc_json_get_int64(json, "big", &big), RC_OK);
    assert_int_equal(rc_json_get_string(json, "s", &text), RC_OK);
    assert_int_equal(rc_json_get_array(json, "a", &array), RC_OK);
    assert_int_equal(rc_json_get_object(json, "o", &object), RC_OK);
    assert_true(i == -5 && least == INT32_MIN && most == INT32_MAX && big == 9007199254740993);
    assert_string_equal(text, "hi");
    assert_int_equal(rc_json_count(array), 3);
    assert_int_equal(rc_json_count(object), 1);
    assert_int_equal(rc_json_count(json), 7);
    entry = rc_json_next(array, NULL);
    assert_true(rc_json_is(entry, RC_JSON_INTEGER) && rc_json_integer(entry) == 1 && rc_json_number(entry) == 1);
    assert_null(rc_json_key(entry));
    entry = rc_json_next(array, entry);
    assert_true(rc_json_is(entry, RC_JSON_REAL) && rc_json_number(entry) == 2.5 && rc_json_integer(entry) == 0);
    entry = rc_json_next(array, entry);
    assert_string_equal(rc_json_string(entry), "x");
    assert_true(isnan(rc_json_number(entry)));
    assert_null(rc_json_next(array, entry));
    entry = rc_json_next(object, NULL);
    assert_string_equal(rc_json_key(entry), "k");
    assert_null(rc_json_next(object, entry));
    /* Of what is not there, or of another type. */
    assert_null(rc_json_member(json, "zzz"));
    assert_null(rc_json_member(array, "i"));
    assert_null(rc_json_member(NULL, "i"));
    assert_null(rc_json_key(NULL));
    assert_null(rc_json_key(json));
    assert_null(rc_json_next(rc_json_member(json, "s"), NULL));
    assert_null(rc_json_next(NULL, NULL));
    assert_null(rc_json_string(json));
    assert_true(rc_json_count(NULL) == 0 && rc_json_count(rc_json_member(json, "big")) == 0);
    assert_true(isnan(rc_json_number(NULL)) && rc_json_integer(NULL) == 0 && !rc_json_is(NULL, RC_JSON_NULL));
    rc_json_free(json);
    rc_json_free(NULL);
}

static void wrong_members_are_named(void **state)
{
    (void)state;
    rc_json *json = parse("{\"i\": 2147483648, \"r\": 2.5, \"n\": null, \"s\": \"7\", \"a\": [], \"o\": {}, "
                          "\"b\": false, \"low\": -2147483649}");
    int i = 77;
    int64_t wide = 77;
    const char *text = "77";
    const rc_json *value = json;
    assert_int_equal(rc_json_get_int(json, "zzz", &i), RC_FORMAT);
    assert_string_equal(rc_message(), "key 'zzz' is missing");
    assert_int_equal(rc_json_get_int(json, "i", &i), RC_FORMAT);
    assert_string_equal(rc_message(), "key 'i' is 2147483648, expected -2147483648 to 2147483647");
    assert_int_equal(rc_json_get_int(json, "low", &i), RC_FORMAT);
    assert_string_equal(rc_message(), "key 'low' is -2147483649, expected -2147483648 to 2147483647");
    assert_int_equal(rc_json_get_int64(json, "r", &wide), RC_FORMAT);
    assert_string_equal(rc_message(), "key 'r' is a number with a fraction, expected an integer");
    assert_int_equal(rc_json_get_int(json, "s", &i), RC_FORMAT);
    assert_string_equal(rc_message(), "key 's' is a string, expected an integer");
    assert_int_equal(rc_json_get_int(json, "n", &i), RC_FORMAT);
    assert_string_equal(rc_message(), "key 'n' is null, expected an integer");
    assert_int_equal(rc_json_get_string(json, "a", &text), RC_FORMAT);
    assert_string_equal(rc_message(), "key 'a' is an array, expected a string");
    assert_int_equal(rc_json_get_array(json, "o", &value), RC_FORMAT);
    assert_string_equal(rc_message(), "key 'o' is an object, expected an array");
    assert_int_equal(rc_json_get_object(json, "b", &value), RC_FORMAT);
    assert_string_equal(rc_message(), "key 'b' is a boolean, expected an object");
    const rc_json *array = rc_json_member(json, "a");
    assert_int_equal(rc_json_get_int(array, "i", &i), RC_FORMAT);
    assert_string_equal(rc_message(), "found an array, expected an object with the key 'i'");
    assert_int_equal(rc_json_get_int(NULL, "i", &i), RC_FORMAT);
    assert_string_equal(rc_message(), "found nothing, expected an object with the key 'i'");
    assert_true(i == 77 && wide == 77 && value == json);
    assert_string_equal(text, "77");
    rc_json_free(json);
}

/* ---- files --------------------------------------------------------------------------------------------- */

static void begin_file(rc_json_writer *w)
{
    *w = (rc_json_writer){0};
    rc_json_begin_array(w, NULL);
    rc_json_put_int(w, NULL, 1);
    rc_json_end(w);
}

static void files_are_saved_and_loaded(void **state)
{
    (void)state;
    size_t before = rc_bytes_allocated();
    char folder[] = "/tmp/recollect-test-XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/value.json", folder);
    rc_json_writer w;
    rc_json *again;
    begin_file(&w);
    assert_int_equal(rc_json_save_new(&w, path), RC_OK);
    begin_file(&w);
    assert_int_equal(rc_json_save_new(&w, path), RC_IO); /* it is there */
    begin_file(&w);
    assert_int_equal(rc_json_save(&w, path), RC_OK);
    char *text;
    size_t size;
    assert_int_equal(rc_file_read(path, 100, &text, &size), RC_OK);
    assert_string_equal(text, "[1]\n");
    rc_free(NULL, text);
    assert_int_equal(rc_json_load(path, 100, &again), RC_OK);
    assert_true(rc_json_integer(rc_json_next(again, NULL)) == 1);
    rc_json_free(again);
    assert_int_equal(rc_json_load(path, 3, &again), RC_FORMAT);
    assert_null(again);
    w = (rc_json_writer){0}; /* nothing of a text that is not sound is written */
    rc_json_begin_array(&w, NULL);
    assert_int_equal(rc_json_save(&w, path), RC_INTERNAL);
    assert_int_equal(rc_json_load(path, 100, &again), RC_OK);
    rc_json_free(again);

    assert_int_equal(rc_file_write_atomic(path, "{\n]", 3), RC_OK);
    assert_int_equal(rc_json_load(path, 100, &again), RC_FORMAT);
    char expected[200];
    snprintf(expected, sizeof expected, "%s, line 2, column 1: found ']', expected a key in quotes", path);
    assert_string_equal(rc_message(), expected);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rc_json_load(path, 100, &again), RC_IO);
    assert_null(again);
    assert_int_equal(rmdir(folder), 0);
    begin_file(&w);
    assert_int_equal(rc_json_save(&w, path), RC_IO);
    assert_int_equal(rc_bytes_allocated(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_production_is_read),
        cmocka_unit_test(broken_text_is_refused_with_its_place),
        cmocka_unit_test(zero_bytes_are_refused),
        cmocka_unit_test(double_keys_are_found_wherever_they_are),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(deep_nesting_is_refused),
        cmocka_unit_test(long_texts_and_numbers_are_refused),
        cmocka_unit_test(memory_and_time_are_bounded),
        cmocka_unit_test(reading_takes_one_block_or_fails),
        cmocka_unit_test(members_come_with_their_type),
        cmocka_unit_test(wrong_members_are_named),
        cmocka_unit_test(files_are_saved_and_loaded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
