/* Configurations that are longer than any can be, or are none: each is refused with words that say what is wrong, and
 * none is cut to what fits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/json.h"
#include "config/config.h"

enum { LONG = 5000 };

static char text[2 * LONG];

/* `before`, `times` times `part`, `after`, as a file. */
static void expect_refusal(const char *before, const char *part, int times, const char *after, const char *words)
{
    rc_config config = rc_config_default();
    size_t used = (size_t)snprintf(text, sizeof text, "%s", before);
    for (int i = 0; i < times; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s", part);
    used += (size_t)snprintf(text + used, sizeof text - used, "%s", after);
    assert_true(used < sizeof text);
    assert_int_equal(rc_config_parse_yaml(&config, "long.yaml", text, used, NULL), RC_FORMAT);
    if (strstr(rc_message(), words) == NULL)
        fail_msg("'%s' does not say '%s'", rc_message(), words);
}

static void what_is_too_long_is_refused(void **state)
{
    (void)state;
    expect_refusal("", "k", 128, ": 1\n", "a key or value is too long");
    expect_refusal("net: ", "v", 4096, "\n", "a key or value is too long");
    expect_refusal("net: \"a\\0b\"\n", "", 0, "", "holds a zero byte");
    expect_refusal("", "s", 100, ":\n  a_name_of_more_than_thirty_bytes: 1\n", "a key is too long");
    expect_refusal("task_sizes: [", "1234567, ", 500, "1]\n", "a list is too long");
    expect_refusal("task_sizes: [[1]]\n", "", 0, "", "a list may hold plain values only");
    expect_refusal("data:\n  dataset: ", "d", 128, "\n", "data.dataset has 128 characters, at most 127 fit");
}

static void lists_have_room_for_so_many(void **state)
{
    (void)state;
    rc_config config = rc_config_default();
    size_t used = 0;
    for (int i = 0; i < 1500; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "1,");
    assert_int_equal(rc_config_set(&config, "milestone", text), RC_INVALID_ARGUMENT);
    assert_non_null(strstr(rc_message(), "milestone has more than"));
    assert_int_equal(rc_config_set(&config, "milestone", "1,-2"), RC_INVALID_ARGUMENT);
    assert_non_null(strstr(rc_message(), "expected a list of whole numbers"));
}

static void a_configuration_is_an_object_of_texts(void **state)
{
    (void)state;
    const struct {
        const char *json, *words;
    } bad[] = {{"[1]", "the configuration is not an object"},
               {"{\"net\": 3}", "the configuration's net is not a text"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        rc_config config = rc_config_default();
        rc_json *json;
        assert_int_equal(rc_json_parse("it", bad[i].json, strlen(bad[i].json), &json), RC_OK);
        assert_int_equal(rc_config_from_json(&config, json), RC_FORMAT);
        assert_string_equal(rc_message(), bad[i].words);
        rc_json_free(json);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_too_long_is_refused),
        cmocka_unit_test(lists_have_room_for_so_many),
        cmocka_unit_test(a_configuration_is_an_object_of_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
