/* The rows of the settings: each describes itself and checks its value, and docs/settings.md says what the rows say. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "config/config.h"
#include "support/page.h"
#include "support/succeeds.h"

static void rows_describe_themselves(void **state)
{
    (void)state;
    const rc_config usual = rc_config_default();
    rc_config_item item, other;
    for (int i = 0; rc_config_item_at(i, &item); i++) {
        char text[RC_CONFIG_VALUE];
        rc_config config = usual;
        SUCCEEDS(rc_config_get(&usual, item.name, text, sizeof text));
        assert_string_equal(item.default_value, text);
        SUCCEEDS(rc_config_set(&config, item.name, item.default_value));
        SUCCEEDS(rc_config_get(&config, item.name, text, sizeof text));
        assert_string_equal(item.default_value, text);
        assert_true(item.help[0] != '\0' && item.readers[0] != '\0' && item.range[0] != '\0');
        assert_true(strcmp(item.type, "text") != 0 || item.high < RC_CONFIG_VALUE);
        for (int k = 0; k < i && rc_config_item_at(k, &other); k++)
            assert_string_not_equal(item.name, other.name);
    }
    assert_false(rc_config_item_at(-1, &item));
    SUCCEEDS(rc_config_check(&usual));
}

static void ranges_are_written_as_they_are(void **state)
{
    (void)state;
    static const struct {
        const char *name, *type, *range;
        double low, high;
    } expected[] = {
        {"net_width", "whole number", "1 to 4096", 1, 4096},
        {"vae_width", "whole number", "8 to 4096, a multiple of 8", 8, 4096},
        {"channels", "whole number", "0, 1 or 3", 0, 0},
        {"profile", "text", "code or paper", 0, 0},
        {"net", "text", "resnet32, resnet18, resnet32-abd, resnet18-mammoth, resnet-small or one of 13 others", 0, 0},
        {"format", "text", "at most 31 characters", 0, 31},
        {"flip", "true or false", "true or false", 0, 1},
        {"kd_temperature", "number", "0.001 to 1000000000", 1e-3, 1e9},
        {"milestone", "list of whole numbers", "0 to 1000000, rising", 0, 1e6},
        {"order", "whole number", "0 to 2147483647", 0, 2147483647},
        {"seed", "whole number", "0 to 9.223372037e+18", 0, 0x1p63},
    };
    rc_config_item item;
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        int k = 0;
        while (rc_config_item_at(k, &item) && strcmp(item.name, expected[i].name) != 0)
            k++;
        assert_string_equal(item.name, expected[i].name);
        assert_string_equal(item.type, expected[i].type);
        assert_string_equal(item.range, expected[i].range);
        assert_true(item.low == expected[i].low && item.high == expected[i].high);
    }
}

/* The page's table is that of the rows, in their order, and has no line more. */
static void the_page_has_the_rows(void **state)
{
    (void)state;
    static const char head[] = "\n| setting | default | takes | read by | what it is |\n"
                               "| --- | --- | --- | --- | --- |\n";
    char line[512];
    char *written = page_read("docs/settings.md");
    const char *at = strstr(written, head);
    assert_non_null(at);
    at += strlen(head);
    rc_config_item item;
    for (int i = 0; rc_config_item_at(i, &item); i++) {
        const char *tick = item.default_value[0] != '\0' ? "`" : "";
        snprintf(line, sizeof line, "| `%s` | %s%s%s | %s | %s | %s |\n", item.name, tick, item.default_value, tick,
                 item.range, item.readers, item.help);
        if (strncmp(at, line, strlen(line)) != 0)
            fail_msg("docs/settings.md has\n%.*s\nwhere the row of %s is\n%s", (int)strcspn(at, "\n"), at, item.name,
                     line);
        at += strlen(line);
    }
    assert_true(at[0] != '|');
    rc_free(NULL, written);
}

/* ---- rows of the test's own ----------------------------------------------------------------------------------- */

typedef struct values {
    int whole, chosen, entries, entry[3];
    double number;
    char text[8];
} values;

static const rc_setting whole = {.kind = RC_SETTING_WHOLE,
                                 .name = "whole",
                                 .offset = offsetof(values, whole),
                                 .low = 1,
                                 .high = 64,
                                 .multiple_of = 1};
static const rc_setting fours = {.kind = RC_SETTING_WHOLE,
                                 .name = "fours",
                                 .offset = offsetof(values, whole),
                                 .low = -4,
                                 .high = 64,
                                 .multiple_of = 4};
static const rc_setting chosen = {
    .kind = RC_SETTING_WHOLE, .name = "chosen", .offset = offsetof(values, chosen), .choices = "0|1|30"};
static const rc_setting number = {
    .kind = RC_SETTING_NUMBER, .name = "number", .offset = offsetof(values, number), .low = 0.25, .high = 2};
static const rc_setting word = {
    .kind = RC_SETTING_TEXT, .name = "word", .offset = offsetof(values, text), .choices = "code|paper"};
static const rc_setting text = {.kind = RC_SETTING_TEXT, .name = "text", .offset = offsetof(values, text), .high = 7};
static const rc_setting list = {.kind = RC_SETTING_LIST,
                                .name = "entry",
                                .offset = offsetof(values, entry),
                                .count_offset = offsetof(values, entries),
                                .low = 2,
                                .high = 9};

static void expect_refused(const rc_setting *row, const values *v, const char *message)
{
    assert_int_equal(rc_setting_check(row, v), RC_INVALID_ARGUMENT);
    assert_string_equal(rc_message(), message);
}

static void values_are_checked(void **state)
{
    (void)state;
    for (int i = -8; i <= 70; i++) {
        values v = {.whole = i};
        assert_int_equal(rc_setting_check(&whole, &v) == RC_OK, i >= 1 && i <= 64);
        assert_int_equal(rc_setting_check(&fours, &v) == RC_OK, i >= -4 && i <= 64 && i % 4 == 0);
        v = (values){.chosen = i, .number = i / 8.0};
        assert_int_equal(rc_setting_check(&chosen, &v) == RC_OK, i == 0 || i == 1 || i == 30);
        assert_int_equal(rc_setting_check(&number, &v) == RC_OK, i >= 2 && i <= 16);
    }
    expect_refused(&whole, &(values){.whole = 65}, "whole is 65, expected 1 to 64");
    expect_refused(&fours, &(values){.whole = 6}, "fours is 6, expected a multiple of 4");
    expect_refused(&chosen, &(values){.chosen = 3}, "chosen is 3, expected 0, 1 or 30");
    expect_refused(&number, &(values){.number = (double)NAN}, "number is nan, expected 0.25 to 2");
    expect_refused(&number, &(values){.number = 1.0 / 3 * 1e-9},
                   "number is 3.333333333e-10, expected 0.25 to 2"); /* ten digits */
    expect_refused(&word, &(values){.text = "cope"}, "word is 'cope', expected code or paper");
    expect_refused(&word, &(values){.text = "cod"}, "word is 'cod', expected code or paper");
    expect_refused(&word, &(values){.text = "papers"}, "word is 'papers', expected code or paper");
    SUCCEEDS(rc_setting_check(&word, &(values){.text = "paper"}));
    SUCCEEDS(rc_setting_check(&text, &(values){.text = "any"}));
    SUCCEEDS(rc_setting_check(&list, &(values){.entries = 3, .entry = {2, 2, 9}}));
    SUCCEEDS(rc_setting_check(&list, &(values){.entries = 1, .entry = {2, 1}}));
    SUCCEEDS(rc_setting_check(&list, &(values){.entries = 0, .entry = {1}}));
    expect_refused(&list, &(values){.entries = 2, .entry = {5, 4}}, "entry has 4 after 5, expected rising numbers");
    expect_refused(&list, &(values){.entries = 1, .entry = {1}}, "entry is 1, expected 2 to 9");
    expect_refused(&list, &(values){.entries = 3, .entry = {2, 3, 10}}, "entry is 10, expected 2 to 9");
}

/* The longest range there is has room: two numbers of ten digits, signs and exponents. */
static void the_longest_range_is_whole(void **state)
{
    (void)state;
    static const rc_setting longest = {
        .kind = RC_SETTING_NUMBER, .name = "longest", .low = -1.0 / 3 * 1e-300, .high = 2.0 / 3 * 1e+300};
    static const rc_setting multiple = {.kind = RC_SETTING_WHOLE,
                                        .name = "multiple",
                                        .low = -2147483647,
                                        .high = 2147483647,
                                        .multiple_of = 2147483647};
    char range[128];
    rc_setting_range(&longest, range, sizeof range);
    assert_string_equal(range, "-3.333333333e-301 to 6.666666667e+299");
    rc_setting_range(&multiple, range, sizeof range);
    assert_string_equal(range, "-2147483647 to 2147483647, a multiple of 2147483647");
    rc_setting_range(&whole, range, sizeof range);
    assert_string_equal(range, "1 to 64, a multiple of 1");
    expect_refused(&number, &(values){.number = -1.0 / 3 * 1e-300}, "number is -3.333333333e-301, expected 0.25 to 2");
}

/* Choices that do not fit are counted or, where not even one fits, cut; nothing is written behind the end. */
static void choices_may_be_cut(void **state)
{
    (void)state;
    const char *whole_text = "0, 1 or 30";
    for (size_t size = 1; size <= strlen(whole_text) + 2; size++) {
        char room[32], expected[32];
        memset(room, '#', sizeof room);
        rc_setting_range(&chosen, room, size);
        snprintf(expected, size, "%s", whole_text);
        assert_string_equal(room, expected);
        assert_int_equal(room[size], '#');
    }
    static const rc_setting many = {
        .kind = RC_SETTING_TEXT, .name = "many", .choices = "first|second|third|fourth|last"};
    static const struct {
        size_t size;
        const char *text;
    } shown[] = {{36, "first, second, third, fourth or last"},
                 {35, "first, second or one of 3 others"},
                 {32, "first or one of 4 others"},
                 {24, "first, second, third, f"}};
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) {
        char room[64];
        rc_setting_range(&many, room, shown[i].size + (i == 0));
        assert_string_equal(room, shown[i].text);
    }
}

static void refinement_is_shorter_than_the_epochs(void **state)
{
    (void)state;
    rc_settings s = rc_settings_default();
    s.epochs = 5;
    s.refine_epochs = 7;
    assert_int_equal(rc_settings_check(&s), RC_INVALID_ARGUMENT);
    assert_string_equal(rc_message(), "refine_epochs is 7, expected 0 to 4: refinement is the end of the 5 epochs, and "
                                      "leaves one or more");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_describe_themselves),
        cmocka_unit_test(ranges_are_written_as_they_are),
        cmocka_unit_test(the_page_has_the_rows),
        cmocka_unit_test(values_are_checked),
        cmocka_unit_test(the_longest_range_is_whole),
        cmocka_unit_test(choices_may_be_cut),
        cmocka_unit_test(refinement_is_shorter_than_the_epochs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
