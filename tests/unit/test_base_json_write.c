/* Writing JSON: its text, every allocation that fails, calls that make no sense. (The linker redirects the library's
 * posix_memalign to the one here.) */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/json.h"
#include "base/memory.h"

static int heap_calls, heap_fails_from; /* 0: never */
static bool heap_fails_once;

int __real_posix_memalign(void **block, size_t align, size_t size);
int __wrap_posix_memalign(void **block, size_t align, size_t size);

int __wrap_posix_memalign(void **block, size_t align, size_t size)
{
    heap_calls++;
    if (heap_fails_from > 0 && (heap_fails_once ? heap_calls == heap_fails_from : heap_calls >= heap_fails_from))
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

/* ---- out ----------------------------------------------------------------------------------------------- */

/* Something of everything, into an object that is open; ends it. */
static void write_members(rc_json_writer *w)
{
    static const char *const inside = "{\"x\": [1, {\"y\": []}], \"t\": true, \"f\": false, \"n\": null, \"r\": 0.5}";
    rc_json *read = NULL;
    rc_json_writer inner = {0};
    rc_json_put_null(w, "nothing");
    rc_json_put_bool(w, "yes", true);
    rc_json_put_bool(w, "no", false);
    rc_json_put_int(w, "least", INT64_MIN);
    rc_json_put_real(w, "half", 0.5);
    rc_json_put_real(w, "nan", NAN);
    rc_json_put_text(w, "text", "a\"b\\c\n\x01\x1F/");
    rc_json_put_text(w, "no text", NULL);
    rc_json_begin_array(w, "list");
    rc_json_put_int(w, NULL, 1);
    rc_json_begin_array(w, NULL);
    rc_json_end(w);
    rc_json_begin_object(w, NULL);
    rc_json_end(w);
    rc_json_put_text(w, NULL, "");
    rc_json_end(w);
    rc_json_put_real(w,
                     "a key of 200 bytes: 3456789012345678901234567890123456789012345678901234567890123456789012"
                     "3456789012345678901234567890123456789012345678901234567890123456789012345678901234567890",
                     -1e-9);
    if (rc_json_parse("inside", inside, strlen(inside), &read) == RC_OK) {
        rc_json_put_value(w, "read", read);
        rc_json_put_members(w, read);
    } else {
        w->status = RC_OUT_OF_MEMORY; /* as a caller would return */
    }
    rc_json_free(read);
    rc_json_begin_array(&inner, NULL);
    rc_json_put_text(&inner, NULL, "\"quoted\"");
    rc_json_end(&inner);
    rc_json_put_written(w, "written", &inner);
    rc_json_end(w);
}

static void write_all(rc_json_writer *w)
{
    rc_json_begin_object(w, NULL);
    write_members(w);
}

static const char all[] =
    "{\"nothing\":null,\"yes\":true,\"no\":false,\"least\":-9223372036854775808,\"half\":0.5,\"nan\":null,"
    "\"text\":\"a\\\"b\\\\c\\n\\u0001\\u001F/\",\"no text\":null,\"list\":[1,[],{},\"\"],"
    "\"a key of 200 bytes: 3456789012345678901234567890123456789012345678901234567890123456789012"
    "3456789012345678901234567890123456789012345678901234567890123456789012345678901234567890\":"
    "-1.0000000000000001e-9,"
    "\"read\":{\"x\":[1,{\"y\":[]}],\"t\":true,\"f\":false,\"n\":null,\"r\":0.5},"
    "\"x\":[1,{\"y\":[]}],\"t\":true,\"f\":false,\"n\":null,\"r\":0.5,"
    "\"written\":\"[\\\"\\\\\\\"quoted\\\\\\\"\\\"]\"}";

static void everything_is_written(void **state)
{
    (void)state;
    char *text;
    size_t size;
    rc_json_writer w = {0};
    write_all(&w);
    assert_int_equal(rc_json_finish(&w, &text, &size), RC_OK);
    assert_string_equal(text, all);
    assert_int_equal(size, strlen(all));
    rc_free(NULL, text);
    /* With blanks it is the same. */
    w = (rc_json_writer){.indent = 3};
    write_all(&w);
    assert_int_equal(rc_json_finish(&w, &text, &size), RC_OK);
    rc_json *json = parse(text);
    rc_free(NULL, text);
    text = write_value(json, 0);
    assert_string_equal(text, all);
    rc_free(NULL, text);
    rc_json_free(json);
}

/* Objects and arrays in turn, down to the deepest level, with an entry before and one after each. */
static void every_level_is_what_it_is(void **state)
{
    (void)state;
    static char expected[RC_JSON_MAX_DEPTH * 32];
    rc_json_writer w = {0};
    size_t used = 0;
    for (int i = 0; i < RC_JSON_MAX_DEPTH; i++) {
        const char *key = i % 2 == 1 ? "k" : NULL; /* the value is inside of level i - 1 */
        if (i % 2 == 0)
            rc_json_begin_object(&w, key);
        else
            rc_json_begin_array(&w, key);
        rc_json_put_int(&w, i % 2 == 0 ? "a" : NULL, i);
        used += (size_t)sprintf(expected + used, i % 2 == 0 ? "%s{\"a\":%d" : "%s\"k\":[%d", i > 0 ? "," : "", i);
    }
    for (int i = RC_JSON_MAX_DEPTH - 1; i >= 0; i--) {
        rc_json_put_int(&w, i % 2 == 0 ? "z" : NULL, i);
        rc_json_end(&w);
        used += (size_t)sprintf(expected + used, i % 2 == 0 ? ",\"z\":%d}" : ",%d]", i);
    }
    char *text;
    assert_int_equal(rc_json_finish(&w, &text, NULL), RC_OK);
    assert_string_equal(text, expected);
    rc_json *json = parse(text);
    char *again = write_value(json, 0);
    assert_string_equal(again, expected);
    rc_free(NULL, again);
    rc_free(NULL, text);
    rc_json_free(json);
}

static void indented_text_has_a_line_for_each_entry(void **state)
{
    (void)state;
    rc_json *json = parse("{\"a\": [1, [], {}, [true]], \"b\": {\"c\": \"d\"}}");
    char *text = write_value(json, 2);
    assert_string_equal(text, "{\n  \"a\": [\n    1,\n    [],\n    {},\n    [\n      true\n    ]\n  ],\n"
                              "  \"b\": {\n    \"c\": \"d\"\n  }\n}");
    rc_free(NULL, text);
    text = write_value(rc_json_member(json, "b"), 1);
    assert_string_equal(text, "{\n \"c\": \"d\"\n}");
    rc_free(NULL, text);
    rc_json_free(json);
}

/* Names of files are bytes. */
static void any_bytes_become_a_text(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {"", ""},
        {"Gr\xC3\xBC\xC3\x9F"
         "e \xF0\x9F\x90\x88",
         "Gr\xC3\xBC\xC3\x9F"
         "e \xF0\x9F\x90\x88"},
        {"Gr\xFC\xDF"
         "e",
         "Gr\xEF\xBF\xBD\xEF\xBF\xBD"
         "e"},                                                            /* Latin-1 */
        {"cut \xF0\x9F\x90", "cut \xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"}, /* half a character */
        {"\xC0\x80\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        rc_json_writer w = {0};
        char *text;
        rc_json_begin_object(&w, NULL);
        rc_json_put_text(&w, pairs[i][0], pairs[i][0]);
        rc_json_end(&w);
        assert_int_equal(rc_json_finish(&w, &text, NULL), RC_OK);
        rc_json *json = parse(text);
        assert_string_equal(rc_json_string(rc_json_member(json, pairs[i][1])), pairs[i][1]);
        rc_json_free(json);
        rc_free(NULL, text);
    }
}

static void reals_come_back_the_same(void **state)
{
    (void)state;
    static const double values[] = {
        0,       -0.0,         1,           0.1,  -2.5, 1e15,  1e16,   1e17,   123456789012345678.0, DBL_MAX,
        DBL_MIN, DBL_TRUE_MIN, DBL_EPSILON, 1e-4, 1e-5, 1e100, 1e-100, 1.0 / 3};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        rc_json_writer w = {0};
        char *text;
        rc_json_put_real(&w, NULL, values[i]);
        assert_int_equal(rc_json_finish(&w, &text, NULL), RC_OK);
        rc_json *json = parse(text);
        double back = rc_json_number(json);
        assert_true(rc_json_is(json, RC_JSON_REAL));
        assert_memory_equal(&back, &values[i], sizeof back);
        rc_json_free(json);
        rc_free(NULL, text);
    }
}

/* A letter a call: { } begin and end an object, [ ] an array, k and v are a member and a value. */
static void wrong_calls_are_told(void **state)
{
    (void)state;
    static const char *const wrong[][2] = {
        {"", "there is no value"},
        {"{", "something has no end"},
        {"[{}", "something has no end"},
        {"}", "something ends that did not begin"},
        {"{}}", "something ends that did not begin"},
        {"{v}", "a member of an object has no key"},
        {"{{}}", "a member of an object has no key"},
        {"[k]", "a value outside of objects has a key"},
        {"k", "a value outside of objects has a key"},
        {"vv", "there is a second value"},
        {"{}[]", "there is a second value"},
        {"{v}}}}", "a member of an object has no key"}, /* the first */
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        rc_json_writer w = {0}, outer = {0};
        for (const char *call = wrong[i][0]; *call != '\0'; call++) {
            if (*call == '{')
                rc_json_begin_object(&w, NULL);
            if (*call == '[')
                rc_json_begin_array(&w, NULL);
            if (*call == '}' || *call == ']')
                rc_json_end(&w);
            if (*call == 'k' || *call == 'v')
                rc_json_put_int(&w, *call == 'k' ? "key" : NULL, 1);
        }
        rc_json_writer same = {.status = w.status, .mistake = w.mistake, .used = w.used, .depth = w.depth};
        char *text = (char *)&text, expected[100];
        snprintf(expected, sizeof expected, "the program makes no sound JSON: %s", wrong[i][1]);
        assert_int_equal(rc_json_finish(&w, &text, NULL), RC_INTERNAL);
        assert_null(text);
        assert_string_equal(rc_message(), expected);
        rc_json_put_written(&outer, NULL, &same);
        assert_int_equal(rc_json_finish(&outer, &text, NULL), RC_INTERNAL);
        assert_null(text);
        assert_string_equal(rc_message(), expected);
    }
    rc_json_writer deep = {0}, empty = {0};
    char *text;
    rc_json_put_value(&empty, NULL, NULL);
    assert_int_equal(rc_json_finish(&empty, &text, NULL), RC_INTERNAL);
    assert_string_equal(rc_message(), "the program makes no sound JSON: a value that was read is not there");
    for (int i = 0; i < RC_JSON_MAX_DEPTH; i++)
        rc_json_begin_array(&deep, NULL);
    assert_int_equal(deep.status, RC_OK);
    rc_json_begin_array(&deep, NULL);
    for (int i = 0; i < RC_JSON_MAX_DEPTH + 1; i++)
        rc_json_end(&deep);
    assert_int_equal(rc_json_finish(&deep, &text, NULL), RC_INTERNAL);
    assert_string_equal(rc_message(), "the program makes no sound JSON: it is nested too deep");
}

/* ---- memory -------------------------------------------------------------------------------------------- */

enum { MOST_PADDING = 300 };

static int lines;
static char padding[MOST_PADDING + 1];

static void take_line(void *user, const char *text)
{
    (void)user;
    size_t length = strlen(padding);
    assert_int_equal(strncmp(text, "{\"padding\":\"", 12), 0);
    assert_int_equal(strncmp(text + 12, padding, length), 0);
    assert_true(text[12 + length] == '"' && text[13 + length] == ',');
    assert_string_equal(text + 14 + length, all + 1);
    lines++;
}

/* Writes with so much padding before, while the k-th allocation fails; false: there are fewer. */
static bool write_without_memory(int length, int k)
{
    rc_json_writer w = {0};
    memset(padding, 'x', (size_t)length);
    padding[length] = '\0';
    heap_calls = lines = 0;
    heap_fails_from = k;
    rc_json_begin_object(&w, NULL);
    rc_json_put_text(&w, "padding", padding);
    write_members(&w);
    bool failed = heap_calls >= k;
    assert_true(failed || w.used < w.room); /* for the zero byte */
    rc_status status = rc_json_line(&w, take_line, NULL);
    heap_fails_from = 0;
    if (status != (failed ? RC_OUT_OF_MEMORY : RC_OK) || lines != !failed)
        fail_msg("allocation %d failed: status %d, %d lines", k, (int)status, lines);
    if (failed && strstr(rc_message(), "no memory for") == NULL)
        fail_msg("allocation %d failed: %s", k, rc_message());
    return failed;
}

/* Each allocation in turn fails, alone and with all after it; the padding moves the places where the text grows to
 * every call there is. A text that is not whole is not there. */
static void every_failed_allocation_is_told(void **state)
{
    (void)state;
    size_t before = rc_bytes_allocated();
    for (int once = 0; once < 2; once++)
        for (int length = 0; length <= MOST_PADDING; length++) {
            int k = 1;
            heap_fails_once = once != 0;
            while (write_without_memory(length, k))
                k++;
            assert_true(k > 4);
            assert_int_equal(rc_bytes_allocated(), before);
        }
    rc_json_writer w = {.status = RC_OUT_OF_MEMORY};
    heap_calls = 0;
    rc_json_begin_object(&w, NULL);
    rc_json_put_text(&w, "text", "after a failure nothing is asked for");
    rc_json_end(&w);
    assert_true(heap_calls == 0 && w.text == NULL);
}

static void a_writer_can_be_left(void **state)
{
    (void)state;
    size_t before = rc_bytes_allocated();
    rc_json_writer w = {.indent = 2};
    rc_json_begin_object(&w, NULL);
    assert_true(rc_bytes_allocated() > before);
    rc_json_discard(&w);
    assert_int_equal(rc_bytes_allocated(), before);
    rc_json_discard(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_is_written),
        cmocka_unit_test(every_level_is_what_it_is),
        cmocka_unit_test(indented_text_has_a_line_for_each_entry),
        cmocka_unit_test(any_bytes_become_a_text),
        cmocka_unit_test(reals_come_back_the_same),
        cmocka_unit_test(wrong_calls_are_told),
        cmocka_unit_test(every_failed_allocation_is_told),
        cmocka_unit_test(a_writer_can_be_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
