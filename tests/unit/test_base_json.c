/* JSON in and out: limits, places in messages, typed members. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"

static json_t *parse(const char *text)
{
    json_t *json;
    assert_int_equal(rc_json_parse("text", text, strlen(text), &json), RC_OK);
    return json;
}

static void broken_text_is_refused_with_its_place(void **state)
{
    (void)state;
    /* After the place come jansson's own words. */
    static const struct {
        const char *text, *place;
    } broken[] = {
        {"", "text, line 1, column 0: "},
        {"{\n  \"a\": 1,\n  \"b\" 2\n}", "text, line 3, column 7: "},
        {"{\"a\": 1} x", "text, line 1, column 10: "},
        {"{\"a\": 1, \"a\": 2}", "text, line 1, column 12: "},
        {"[1, 2", "text, line 1, column 5: "},
        {"{\"a\": \"\\u0000\"}", "text, line 1, column 14: "},
        {"[1e999]", "text, line 1, column 6: "},
        {"[99999999999999999999]", "text, line 1, column 21: "},
        {"[NaN]", "text, line 1, column 4: "},
        {"3", "text, line 1, column 1: "},
    };
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        json_t *json = (json_t *)&json;
        assert_int_equal(rc_json_parse("text", broken[i].text, strlen(broken[i].text), &json), RC_FORMAT);
        assert_null(json);
        size_t length = strlen(broken[i].place);
        assert_int_equal(strncmp(rc_message(), broken[i].place, length), 0);
        assert_true(strlen(rc_message()) > length + 5);
    }
}

static void every_truncation_is_refused(void **state)
{
    (void)state;
    const char *text = "{\"name\": [1, 2.5, true, null, {\"x\": \"\xC3\xA9\\\"]\"}], \"z\": {}}";
    json_t *json;
    for (size_t size = 0; size < strlen(text); size++) {
        assert_int_equal(rc_json_parse("text", text, size, &json), RC_FORMAT);
        assert_null(json);
    }
    assert_int_equal(rc_json_parse("text", text, strlen(text), &json), RC_OK);
    json_decref(json);
}

static void deep_nesting_is_refused(void **state)
{
    (void)state;
    static char text[200000];
    memset(text, '[', RC_JSON_MAX_DEPTH);
    memset(text + RC_JSON_MAX_DEPTH, ']', RC_JSON_MAX_DEPTH);
    json_decref(parse(text));
    json_t *json;
    memset(text, '[', sizeof text);
    assert_int_equal(rc_json_parse("text", text, sizeof text, &json), RC_FORMAT);
    assert_string_equal(rc_message(), "text, line 1, column 65: nested deeper than 64 levels");
    /* Brackets inside strings are no nesting, also after an escaped quote. */
    int length = snprintf(text, sizeof text, "[\"\\\"%0100d\"]", 0);
    memset(text + 4, '{', 100);
    assert_int_equal(rc_json_parse("text", text, (size_t)length, &json), RC_OK);
    json_decref(json);
}

static void members_come_with_their_type(void **state)
{
    (void)state;
    json_t *json = parse("{\"i\": -5, \"big\": 9007199254740993, \"s\": \"hi\", \"a\": [1], "
                         "\"o\": {\"k\": 1}}");
    int i;
    int64_t big;
    const char *text;
    json_t *array, *object;
    assert_int_equal(rc_json_get_int(json, "i", &i), RC_OK);
    assert_int_equal(rc_json_get_int64(json, "big", &big), RC_OK);
    assert_int_equal(rc_json_get_string(json, "s", &text), RC_OK);
    assert_int_equal(rc_json_get_array(json, "a", &array), RC_OK);
    assert_int_equal(rc_json_get_object(json, "o", &object), RC_OK);
    assert_int_equal(i, -5);
    assert_true(big == 9007199254740993);
    assert_string_equal(text, "hi");
    assert_int_equal(json_array_size(array), 1);
    assert_int_equal(json_object_size(object), 1);
    json_decref(json);
}

static void wrong_members_are_named(void **state)
{
    (void)state;
    json_t *json = parse("{\"i\": 3000000000, \"r\": 2.5, \"n\": null, \"s\": \"7\", \"a\": [], \"o\": {}, "
                         "\"b\": false}");
    int i = 77;
    int64_t wide = 77;
    const char *text = "77";
    json_t *value = json;
    assert_int_equal(rc_json_get_int(json, "zzz", &i), RC_FORMAT);
    assert_string_equal(rc_message(), "key 'zzz' is missing");
    assert_int_equal(rc_json_get_int(json, "i", &i), RC_FORMAT);
    assert_string_equal(rc_message(), "key 'i' is 3000000000, expected -2147483648 to 2147483647");
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
    json_t *array = json_object_get(json, "a");
    assert_int_equal(rc_json_get_int(array, "i", &i), RC_FORMAT);
    assert_string_equal(rc_message(), "found an array, expected an object with the key 'i'");
    assert_int_equal(rc_json_get_int(NULL, "i", &i), RC_FORMAT);
    assert_string_equal(rc_message(), "found nothing, expected an object with the key 'i'");
    assert_true(i == 77 && wide == 77 && value == json);
    assert_string_equal(text, "77");
    json_decref(json);
}

/* Names of files are bytes. */
static void any_bytes_become_a_text(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {"", ""},
        {"Gr\xC3\xBC\xC3\x9F""e \xF0\x9F\x90\x88", "Gr\xC3\xBC\xC3\x9F""e \xF0\x9F\x90\x88"},
        {"Gr\xFC\xDF""e", "Gr\xEF\xBF\xBD\xEF\xBF\xBD""e"},                   /* Latin-1 */
        {"cut \xF0\x9F\x90", "cut \xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},       /* half a character */
        {"\xC0\x80\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        json_t *json = rc_json_text(pairs[i][0]);
        assert_non_null(json);
        assert_string_equal(json_string_value(json), pairs[i][1]);
        json_decref(json);
    }
}

static void text_keeps_order_and_digits(void **state)
{
    (void)state;
    json_t *json = parse("{\"z\": 0.1, \"a\": [1, true], \"m\": {}}");
    char *text;
    assert_int_equal(rc_json_dump(json, 0, &text), RC_OK);
    assert_int_equal(strncmp(text, "{\"z\":0.1", 8), 0);
    assert_non_null(strstr(text, ",\"a\":[1,true],\"m\":{}}"));
    json_t *again = parse(text);
    assert_true(json_equal(json, again));
    json_decref(again);
    rc_free(NULL, text);
    assert_int_equal(rc_json_dump(json_object_get(json, "a"), 2, &text), RC_OK);
    assert_string_equal(text, "[\n  1,\n  true\n]");
    rc_free(NULL, text);
    assert_int_equal(rc_json_dump(json, 32, &text), RC_INVALID_ARGUMENT);
    assert_null(text);
    assert_int_equal(rc_json_dump(NULL, 0, &text), RC_INVALID_ARGUMENT);
    assert_string_equal(rc_message(), "cannot write JSON: there is no value");
    json_decref(json);
}

static void a_value_inside_itself_is_refused(void **state)
{
    (void)state;
    json_t *outer = json_array(), *inner = json_array();
    assert_int_equal(json_array_append_new(outer, inner), 0);
    assert_int_equal(json_array_append(inner, outer), 0);
    char *text;
    assert_int_equal(rc_json_dump(outer, 0, &text), RC_INVALID_ARGUMENT);
    assert_null(text);
    json_array_clear(inner);
    json_decref(outer);
}

static void files_are_saved_and_loaded(void **state)
{
    (void)state;
    size_t before = rc_bytes_allocated();
    char folder[] = "/tmp/recollect-test-XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/value.json", folder);
    json_t *json = parse("{\"a\": [1, 2]}"), *again;
    assert_int_equal(rc_json_save(json, 0, path), RC_OK);
    char *text;
    size_t size;
    assert_int_equal(rc_file_read(path, 100, &text, &size), RC_OK);
    assert_string_equal(text, "{\"a\":[1,2]}\n");
    rc_free(NULL, text);
    assert_int_equal(rc_json_load(path, 100, &again), RC_OK);
    assert_true(json_equal(json, again));
    json_decref(again);
    assert_int_equal(rc_json_load(path, 5, &again), RC_FORMAT);
    assert_null(again);

    assert_int_equal(rc_file_write_atomic(path, "{\n]", 3), RC_OK);
    assert_int_equal(rc_json_load(path, 100, &again), RC_FORMAT);
    char expected[200];
    snprintf(expected, sizeof expected, "%s, line 2, column 1: string or '}' expected near ']'", path);
    assert_string_equal(rc_message(), expected);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rc_json_load(path, 100, &again), RC_IO);
    assert_null(again);
    assert_int_equal(rmdir(folder), 0);
    assert_int_equal(rc_json_save(json, 0, path), RC_IO);
    json_decref(json);
    assert_int_equal(rc_bytes_allocated(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(broken_text_is_refused_with_its_place),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(deep_nesting_is_refused),
        cmocka_unit_test(members_come_with_their_type),
        cmocka_unit_test(wrong_members_are_named),
        cmocka_unit_test(any_bytes_become_a_text),
        cmocka_unit_test(text_keeps_order_and_digits),
        cmocka_unit_test(a_value_inside_itself_is_refused),
        cmocka_unit_test(files_are_saved_and_loaded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
