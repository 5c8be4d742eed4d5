/* Single settings and their texts: what fits, what is printed, what becomes JSON, what each check looks at. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/json.h"
#include "base/memory.h"
#include "config/config.h"
#include "support/succeeds.h"

static void assert_message(const char *words)
{
    if (strstr(rc_message(), words) == NULL)
        fail_msg("'%s' does not say '%s'", rc_message(), words);
}

static void texts_are_kept_whole_or_refused(void **state)
{
    (void)state;
    rc_config config = rc_config_default();
    char text[sizeof config.data + 1], words[128];
    memset(text, 'x', sizeof text);
    text[sizeof config.data] = '\0';
    assert_int_equal(rc_config_set(&config, "data", text), RC_INVALID_ARGUMENT);
    snprintf(words, sizeof words, "data has %zu characters, at most %zu fit", sizeof config.data,
             sizeof config.data - 1);
    assert_message(words);
    text[sizeof config.data - 1] = '\0';
    SUCCEEDS(rc_config_set(&config, "data", text));
    assert_string_equal(config.data, text);
    assert_int_equal(rc_config_set(&config, "seed", "-1"), RC_INVALID_ARGUMENT);
    SUCCEEDS(rc_config_set(&config, "seed", "0"));
}

static void pairs_have_a_key_that_fits(void **state)
{
    (void)state;
    rc_config config = rc_config_default();
    char pair[80];
    static const char *const wrong[] = {"epochs", "=3", ""};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(rc_config_set_pair(&config, wrong[i]), RC_INVALID_ARGUMENT);
        assert_message("expected key=value");
    }
    for (int length = 63; length <= 64; length++) {
        snprintf(pair, sizeof pair, "%0*d=3", length, 0);
        assert_int_equal(rc_config_set_pair(&config, pair), RC_INVALID_ARGUMENT);
        assert_message(length == 63 ? "there is no setting '0000" : "expected key=value");
    }
    SUCCEEDS(rc_config_set_pair(&config, "data=a=b"));
    assert_string_equal(config.data, "a=b");
}

/* ---- printing -------------------------------------------------------------------------------------------------- */

typedef struct printed {
    char all[1 << 17], data[1 << 15]; /* the line of `data` */
    size_t used;
} printed;

static void keep_line(void *user, const char *line)
{
    printed *p = user;
    p->used += (size_t)snprintf(p->all + p->used, sizeof p->all - p->used, "%s\n", line);
    if (strncmp(line, "data: ", 6) == 0)
        snprintf(p->data, sizeof p->data, "%s", line + 6);
}

static void printed_texts_load_as_themselves(void **state)
{
    (void)state;
    static printed out;
    rc_config config = rc_config_default();
    char longest[sizeof config.data] = "";
    while (strlen(longest) + 4 < sizeof longest) /* the character that takes the most room when it is escaped */
        strcat(longest, "\xE2\x80\x8E");
    const char *const texts[][2] = {{"plain", "'plain'"},
                                    {"it's", "'it''s'"},
                                    {"a\\b\"c", "'a\\b\"c'"},
                                    {"a\xE2\x80\x8E'\\\"b", "\"a\\U0000200e'\\\\\\\"b\""},
                                    {"caf\xC3\xA9", "'caf\xC3\xA9'"},
                                    {longest, NULL}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        rc_config again = rc_config_default();
        out.used = 0;
        SUCCEEDS(rc_config_set(&config, "data", texts[i][0]));
        SUCCEEDS(rc_config_print(&config, keep_line, &out));
        if (texts[i][1] != NULL)
            assert_string_equal(out.data, texts[i][1]);
        SUCCEEDS(rc_config_parse_yaml(&again, "here", out.all, out.used, NULL));
        assert_string_equal(again.data, texts[i][0]);
    }
}

/* YAML cannot hold them: what is printed loads all the same. */
static void printed_texts_that_are_not_utf_8_load_as_none(void **state)
{
    (void)state;
    static printed out;
    rc_config config = rc_config_default(), again = config;
    SUCCEEDS(rc_config_set(&config, "data",
                           "K\xFC"
                           "che\n'#"));
    SUCCEEDS(rc_config_print(&config, keep_line, &out));
    assert_string_equal(out.data, "'' # not UTF-8: K\\xfcche\\n'#");
    SUCCEEDS(rc_config_set(&again, "data", "elsewhere"));
    SUCCEEDS(rc_config_parse_yaml(&again, "here", out.all, out.used, NULL));
    assert_string_equal(again.data, "");
}

static void json_leaves_one_setting_out(void **state)
{
    (void)state;
    rc_config config = rc_config_default(), again = config;
    rc_json_writer w = {0};
    char *text;
    size_t size;
    rc_json *json;
    SUCCEEDS(rc_config_set(&config, "data", "elsewhere"));
    SUCCEEDS(rc_config_set(&config, "epochs", "77"));
    rc_json_begin_object(&w, NULL);
    rc_config_put_json(&config, "data", &w);
    rc_json_end(&w);
    SUCCEEDS(rc_json_finish(&w, &text, &size));
    SUCCEEDS(rc_json_parse("here", text, size, &json));
    assert_null(rc_json_member(json, "data"));
    SUCCEEDS(rc_config_from_json(&again, json));
    assert_int_equal(again.settings.epochs, 77);
    assert_string_equal(again.data, rc_config_default().data);
    rc_json_free(json);
    rc_free(NULL, text);
    static const char *const wrong[][2] = {{"{\"epochs\": 3}", "the configuration's epochs is not a text"},
                                           {"{\"epoch\": \"3\"}", "a setting 'epoch' that this version does not know"},
                                           {"[]", "the configuration is not an object"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        SUCCEEDS(rc_json_parse("here", wrong[i][0], strlen(wrong[i][0]), &json));
        assert_int_equal(rc_config_from_json(&again, json), RC_FORMAT);
        assert_message(wrong[i][1]);
        rc_json_free(json);
    }
}

static void items_tell_their_bounds_and_defaults(void **state)
{
    (void)state;
    rc_config config = rc_config_default();
    rc_config_item item;
    int found = 0;
    for (int i = 0; rc_config_item_at(i, &item); i++) {
        if (strcmp(item.name, "momentum") == 0) {
            assert_true(item.low == 0 && item.high > 0 && item.high <= 1);
            assert_true(strtod(item.default_value, NULL) == config.settings.momentum);
            found++;
        } else if (strcmp(item.name, "epochs") == 0) {
            assert_true(item.low == 1 && item.high > 1000);
            assert_int_equal(atoi(item.default_value), config.settings.epochs);
            found++;
        }
    }
    assert_int_equal(found, 2);
}

/* ---- meaning --------------------------------------------------------------------------------------------------- */

static void channels_are_counted(void **state)
{
    (void)state;
    rc_config config = rc_config_default();
    float mean[3] = {9, 9, 9}, std[3] = {9, 9, 9};
    SUCCEEDS(rc_config_set(&config, "mean", "0.25"));
    SUCCEEDS(rc_config_set(&config, "std", "0.5"));
    SUCCEEDS(rc_config_normalisation(&config, 1, mean, std));
    assert_true(mean[0] == 0.25f && std[0] == 0.5f && mean[1] == 9 && std[1] == 9);
    assert_int_equal(rc_config_normalisation(&config, 3, mean, std), RC_INVALID_ARGUMENT);
    assert_message("mean is '0.25', expected 3 numbers from 0 to 1");
    SUCCEEDS(rc_config_set(&config, "mean", "0, 0.25, 1"));
    SUCCEEDS(rc_config_set(&config, "std", "0.5 0.25 1"));
    SUCCEEDS(rc_config_normalisation(&config, 3, mean, std));
    assert_true(mean[0] == 0 && mean[1] == 0.25f && mean[2] == 1 && std[0] == 0.5f && std[1] == 0.25f && std[2] == 1);
    assert_int_equal(rc_config_normalisation(&config, 1, mean, std), RC_INVALID_ARGUMENT);
    assert_message("mean is '0, 0.25, 1', expected 1 numbers");
    SUCCEEDS(rc_config_set(&config, "mean", "0, 0, 0, 0"));
    assert_int_equal(rc_config_normalisation(&config, 3, mean, std), RC_INVALID_ARGUMENT);
    assert_message("mean is '0, 0, 0, 0', expected 3 numbers");
    SUCCEEDS(rc_config_set(&config, "mean", "1")); /* one character */
    SUCCEEDS(rc_config_set(&config, "std", "1"));
    SUCCEEDS(rc_config_normalisation(&config, 1, mean, std));
    assert_true(mean[0] == 1 && std[0] == 1);
    SUCCEEDS(rc_config_check_one(&config, "mean"));
    SUCCEEDS(rc_config_set(&config, "mean", "1 2"));
    assert_int_equal(rc_config_check_one(&config, "mean"), RC_INVALID_ARGUMENT);
    assert_message("mean is '1 2', expected 1 or 3 numbers from 0 to 1");
}

static void interpolations_have_names(void **state)
{
    (void)state;
    rc_config config = rc_config_default();
    SUCCEEDS(rc_config_set(&config, "interpolation", "bicubic"));
    assert_int_equal(rc_config_interpolation(&config), RC_BICUBIC);
    SUCCEEDS(rc_config_set(&config, "interpolation", "bilinear"));
    assert_int_equal(rc_config_interpolation(&config), RC_BILINEAR);
}

/* Each check looks at its own setting, and at no other. */
static void checks_look_at_their_setting(void **state)
{
    (void)state;
    static const char *const wrong[][2] = {{"format", "nonsense"}, {"mean", "2"},       {"mean", "0.1, 0.2"},
                                           {"std", "0"},           {"task_sizes", "0"}, {"task_sizes", "3, 0"},
                                           {"class_order", "1, x"}};
    enum { COUNT = sizeof wrong / sizeof *wrong };
    for (int i = 0; i < COUNT; i++) {
        rc_config config = rc_config_default();
        SUCCEEDS(rc_config_set(&config, wrong[i][0], wrong[i][1]));
        assert_int_equal(rc_config_check_one(&config, wrong[i][0]), RC_INVALID_ARGUMENT);
        assert_int_equal(rc_config_check(&config), RC_INVALID_ARGUMENT);
        SUCCEEDS(rc_config_check_one(&config, "epochs"));
        for (int k = 0; k < COUNT; k++)
            if (strcmp(wrong[k][0], wrong[i][0]) != 0)
                SUCCEEDS(rc_config_check_one(&config, wrong[k][0]));
    }
    rc_config config = rc_config_default();
    SUCCEEDS(rc_config_set(&config, "class_order", "1, 1000000"));
    assert_int_equal(rc_config_check(&config), RC_INVALID_ARGUMENT);
    char words[96];
    snprintf(words, sizeof words, "or a list of numbers from 0 to %d", RC_DATA_MAX_CLASSES - 1);
    assert_message(words);
    config = rc_config_default();
    SUCCEEDS(rc_config_set(&config, "size", "32"));
    SUCCEEDS(rc_config_set(&config, "resize", "31"));
    assert_int_equal(rc_config_check(&config), RC_INVALID_ARGUMENT);
    assert_message("resize is 31, expected 0, or size (32) and more");
    SUCCEEDS(rc_config_set(&config, "resize", "32"));
    SUCCEEDS(rc_config_check(&config));
}

static void scalars_of_yaml_fit(void **state)
{
    (void)state;
    static char yaml[8192];
    rc_config config = rc_config_default();
    const char *zero = "data: \"a\\0b\"\n";
    assert_int_equal(rc_config_parse_yaml(&config, "here", zero, strlen(zero), NULL), RC_FORMAT);
    assert_message("here, line 1, column 7");
    assert_message("too long or holds a zero byte");
    for (int length = 4095; length <= 4096; length++) {
        int size = snprintf(yaml, sizeof yaml, "data: %0*d\n", length, 0);
        assert_int_equal(rc_config_parse_yaml(&config, "here", yaml, (size_t)size, NULL),
                         length == 4095 ? RC_OK : RC_FORMAT);
    }
    assert_message("too long or holds a zero byte");
    int size = snprintf(yaml, sizeof yaml, "data:\n  root: x\n  dataset: %0*d\n", 128, 0);
    assert_int_equal(rc_config_parse_yaml(&config, "here", yaml, (size_t)size, NULL), RC_FORMAT);
    assert_message("data.dataset has 128 characters, at most 127 fit");
    size = snprintf(yaml, sizeof yaml, "data:\n  root: %0*d\n  dataset: %0*d\n", 4000, 0, 100, 0);
    config = rc_config_default();
    assert_int_equal(rc_config_parse_yaml(&config, "here", yaml, (size_t)size, NULL), RC_INVALID_ARGUMENT);
    assert_message("here: data has 4101 characters, at most 4095 fit");
    assert_string_equal(config.data, rc_config_default().data);
}

/* Whatever digits a number has, its text is that number: a model's next lesson has the settings of the one before. */
static void numbers_come_back(void **state)
{
    (void)state;
    static const struct {
        const char *given, *text;
    } numbers[] = {{"0.1", "0.1"},
                   {"2.5e-05", "2.5e-05"},
                   {"0.1234567891", "0.1234567891"},
                   {"0.30000000000000004", "0.30000000000000004"},
                   {"0.12345678901234567890", "0.12345678901234568"}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        rc_config config = rc_config_default(), again = rc_config_default();
        char text[64];
        SUCCEEDS(rc_config_set(&config, "learning_rate", numbers[i].given));
        SUCCEEDS(rc_config_get(&config, "learning_rate", text, sizeof text));
        assert_string_equal(text, numbers[i].text);
        SUCCEEDS(rc_config_set(&again, "learning_rate", text));
        assert_true(again.settings.learning_rate == config.settings.learning_rate);
    }
}

/* What follows from the name of a published data set gives way to what the file says, wherever that stands. */
static void a_file_wins_over_what_its_data_set_is_known_for(void **state)
{
    (void)state;
    static const char data[] = "data:\n  root: x\n  dataset: imagenet100\n";
    static const struct {
        const char *key, *known, *own;
    } keys[] = {{"net", "resnet18", "resnet32"},
                {"size", "224", "48"},
                {"resize", "256", "300"},
                {"mean", "0.485, 0.456, 0.406", "0.5"},
                {"std", "0.229, 0.224, 0.225", "0.25"},
                {"exif", "false", "true"}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        for (int where = 0; where < 3; where++) { /* nowhere, before, behind */
            char line[64], yaml[256], found[64];
            rc_config config = rc_config_default();
            snprintf(line, sizeof line, "%s: %s\n", keys[i].key, keys[i].own);
            int size = snprintf(yaml, sizeof yaml, "%s%s%s", where == 1 ? line : "", data, where == 2 ? line : "");
            SUCCEEDS(rc_config_parse_yaml(&config, "here", yaml, (size_t)size, NULL));
            SUCCEEDS(rc_config_get(&config, keys[i].key, found, sizeof found));
            assert_string_equal(found, where == 0 ? keys[i].known : keys[i].own);
        }
    static const char tiny[] =
        "data:\n  root: x\n  dataset: tiny-imagenet200\n"; /* whose constants have another name */
    static const char *const constants[][2] = {{"mean", "0.4803, 0.4481, 0.3976"}, {"std", "0.2764, 0.2688, 0.2816"}};
    rc_config config = rc_config_default();
    SUCCEEDS(rc_config_parse_yaml(&config, "here", tiny, sizeof tiny - 1, NULL));
    for (int i = 0; i < 2; i++) {
        char found[64];
        SUCCEEDS(rc_config_get(&config, constants[i][0], found, sizeof found));
        assert_string_equal(found, constants[i][1]);
    }
}

static void messages_name_the_place(void **state)
{
    (void)state;
    static const char *const wrong[][2] = {
        {"batch: 3\nbatch: 4\n", "here, line 2, column 1: 'batch' is set a second time"},
        {"batch: 3\n\"epochs\": [1, }\n", "here, line 2, column 15"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        rc_config config = rc_config_default();
        assert_int_not_equal(rc_config_parse_yaml(&config, "here", wrong[i][0], strlen(wrong[i][0]), NULL), RC_OK);
        assert_message(wrong[i][1]);
        if (i == 0)
            assert_string_equal(rc_message(), wrong[i][1]);
    }
    rc_config config = rc_config_default();
    assert_int_equal(rc_config_load(&config, "cifar100-7", NULL), RC_INVALID_ARGUMENT);
    assert_message("there is no preset 'cifar100-7'; there are");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_kept_whole_or_refused),
        cmocka_unit_test(pairs_have_a_key_that_fits),
        cmocka_unit_test(printed_texts_load_as_themselves),
        cmocka_unit_test(printed_texts_that_are_not_utf_8_load_as_none),
        cmocka_unit_test(json_leaves_one_setting_out),
        cmocka_unit_test(items_tell_their_bounds_and_defaults),
        cmocka_unit_test(channels_are_counted),
        cmocka_unit_test(interpolations_have_names),
        cmocka_unit_test(checks_look_at_their_setting),
        cmocka_unit_test(scalars_of_yaml_fit),
        cmocka_unit_test(numbers_come_back),
        cmocka_unit_test(a_file_wins_over_what_its_data_set_is_known_for),
        cmocka_unit_test(messages_name_the_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
