/* Values at the edge of what is allowed: every setting has a range, a value beyond it is refused before anything is
 * done, and a run can be planned at both ends without an overflow (the sanitizers watch). Classes without images are
 * found while a run is planned. */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "api/learn_config.h"
#include "config/config.h"
#include "experiment/trial.h"
#include "forecast/forecast.h"
#include "support/cpu_backend.h"
#include "support/succeeds.h"

static rc_config with(const char *key, const char *value)
{
    rc_config config = rc_config_default();
    SUCCEEDS(rc_config_set(&config, "net", "resnet-small"));
    SUCCEEDS(rc_config_set(&config, "generator", "generator-small"));
    if (strcmp(key, "epochs") == 0)
        SUCCEEDS(rc_config_set(&config, "refine_epochs", "0"));
    if (strcmp(key, "refine_epochs") == 0) /* one epoch must be left */
        SUCCEEDS(rc_config_set(&config, "epochs", "100000"));
    if (strcmp(key, "milestone") == 0)
        config.settings.milestones = 0;
    SUCCEEDS(rc_config_set(&config, key, value));
    return config;
}

/* The range that is named when `value` is refused. */
static void find_range(const char *key, const char *value, double *low, double *high)
{
    rc_config config = with(key, value);
    if (rc_config_check(&config) != RC_INVALID_ARGUMENT)
        fail_msg("%s = %s is accepted: it has no range", key, value);
    const char *expected = strstr(rc_message(), "expected ");
    if (strncmp(rc_message(), key, strlen(key)) != 0 || expected == NULL ||
        sscanf(expected, "expected %lf to %lf", low, high) != 2)
        fail_msg("%s = %s: no range in \"%s\"", key, value, rc_message());
}

/* Everything that is worked out before the first step: sums, products and indices of settings. */
static void plan(const rc_config *config)
{
    static const char *const methods[] = {"cwd", "er", "dgr", "deepinversion-pixels"};
    rc_task_split split;
    rc_task_stream stream;
    int *order;
    SUCCEEDS(rc_config_split(config, &split));
    SUCCEEDS(rc_config_class_order(config, 10, &order));
    if (rc_task_stream_create(&stream, 10, order, &split) == RC_OK)
        rc_task_stream_destroy(&stream);
    rc_free(NULL, order);
    rc_augment image = {.h = 16, .w = 16, .c = 3, .mean = {0}, .std = {1, 1, 1}};
    for (size_t m = 0; m < sizeof methods / sizeof *methods; m++) {
        rc_workload work = {0};
        rc_task_claim claim = {.settings = &config->settings, .image = &image, .n_old = 4, .n_new = 2, .count = 1000};
        static uint8_t images[1000 * 16 * 16 * 3];
        size_t bytes;
        claim.images = images;
        SUCCEEDS(rc_method_find(methods[m], &claim.method));
        rc_workload_add(&work, &config->settings, claim.method, 4, 2, 1000);
        assert_true(rc_workload_steps(&work) > 0);
        rc_status status = rc_forecast_bytes(be, &claim, &bytes);
        if (status != RC_OK && rc_message()[0] == '\0')
            fail_msg("%s: status %d without a message", methods[m], (int)status);
    }
    for (int images = 1; images < 100000; images *= 10) {
        rc_settings s = config->settings;
        rc_lesson_size lesson = {.n_old = 2, .n_new = 2, .images = images};
        SUCCEEDS(rc_method_find("cwd", &lesson.method));
        rc_learn_stretch(&s, &(rc_learn_settings){.sets = 0}, &lesson);
        assert_true(s.epochs >= 1 && s.refine_epochs >= 0 && s.batch >= 2);
    }
}

static void try_end(const char *key, bool whole, double end, double beyond)
{
    char text[64];
    snprintf(text, sizeof text, whole ? "%.0f" : "%.17g", end);
    rc_config config = with(key, text);
    if (rc_config_check(&config) != RC_OK)
        fail_msg("%s = %s is refused: %s", key, text, rc_message());
    plan(&config);
    if (whole && (beyond > INT_MAX || beyond < -INT_MAX))
        return;
    snprintf(text, sizeof text, whole ? "%.0f" : "%.17g", beyond);
    config = with(key, text);
    if (rc_config_check(&config) != RC_INVALID_ARGUMENT)
        fail_msg("%s = %s is beyond its range, and accepted", key, text);
}

static void every_setting_has_a_range(void **state)
{
    (void)state;
    rc_config_item item;
    int tried = 0;
    for (int i = 0; rc_config_item_at(i, &item); i++) {
        bool whole = strcmp(item.type, "number") != 0;
        double low, high;
        if (strcmp(item.type, "text") == 0 || strcmp(item.type, "true or false") == 0 ||
            strcmp(item.name, "seed") == 0 || strcmp(item.name, "channels") == 0)
            continue;
        tried++;
        if (strcmp(item.name, "milestone") == 0) {
            find_range("milestone", "2147483647", &low, &high);
            try_end("milestone", true, high, high + 1);
            continue;
        }
        find_range(item.name, whole ? "-2147483647" : "-1e300", &low, &high);
        try_end(item.name, whole, low, low - (whole ? 1 : 1e-6));
        try_end(item.name, whole, high, whole ? high + 1 : high * 1.000001 + 1e-6);
        if (high < INT_MAX)
            find_range(item.name, whole ? "2147483647" : "1e300", &low, &high);
    }
    assert_true(tried > 40);
    static const struct {
        const char *key;
        double low, high;
    } own[] = {{"size", 0, 1024},          {"resize", 0, 4096},      {"order", 0, INT_MAX},
               {"tasks", 1, 256},          {"first_task", 0, 30000}, {"images_per_class", 0, 1e8},
               {"test_per_class", 0, 1e8}, {"test_batch", 1, 65536}};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        double low, high;
        find_range(own[i].key, "-2147483647", &low, &high);
        assert_true(low == own[i].low && high == own[i].high);
    }
    /* Those that are no ranges. */
    static const struct {
        const char *key, *value, *message;
    } others[] = {{"channels", "2", "channels is 2, expected 0, 1 or 3"},
                  {"channels", "-1", "channels is -1, expected 0, 1 or 3"},
                  {"class_order", "0, 1, 30000", "class_order is '0, 1, 30000', expected published, numpy"},
                  {"class_order", "99999999999999999999", "class_order is '99999999999999999999', expected"},
                  {"class_order", "1.5", "class_order is '1.5', expected"},
                  {"class_order", "publisched", "class_order is 'publisched', expected"},
                  {"task_sizes", "6,2.5", "task_sizes is '6,2.5', expected a list of whole numbers"},
                  {"task_sizes", "6,-2", "task_sizes is '6,-2', expected a list of whole numbers"}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        rc_config config = with(others[i].key, others[i].value);
        assert_int_equal(rc_config_check(&config), RC_INVALID_ARGUMENT);
        if (strncmp(rc_message(), others[i].message, strlen(others[i].message)) != 0)
            fail_msg("\"%s\" does not begin with \"%s\"", rc_message(), others[i].message);
    }
    rc_config config = with("resize", "31");
    SUCCEEDS(rc_config_check(&config));
    SUCCEEDS(rc_config_set(&config, "size", "31"));
    SUCCEEDS(rc_config_check(&config));
    SUCCEEDS(rc_config_set(&config, "size", "32"));
    assert_int_equal(rc_config_check(&config), RC_INVALID_ARGUMENT);
    assert_string_equal(rc_message(), "resize is 31, expected 0, or size (32) and more");
}

/* Whole numbers are whole. */
static void fractions_are_refused(void **state)
{
    (void)state;
    rc_config_item item;
    for (int i = 0; rc_config_item_at(i, &item); i++) {
        static const char *const values[] = {"1.5", "1.0", "1e3", "0x10", "1 2", "", "1_0"};
        rc_config config = rc_config_default();
        if (strcmp(item.type, "whole number") != 0)
            continue;
        for (size_t k = 0; k < sizeof values / sizeof *values; k++)
            if (rc_config_set(&config, item.name, values[k]) != RC_INVALID_ARGUMENT)
                fail_msg("%s = %s is accepted", item.name, values[k]);
    }
}

/* ---- classes without images -------------------------------------------------------------------------------------- */

enum { CLASSES = 6 };

/* Plans a run of three tasks on images of the labels; the message, "" if it is fine. */
static const char *plan_run(const char *train, const char *test, int images_per_class)
{
    static int32_t label[2][64];
    static char *names[CLASSES] = {"ant", "bee", "cat", "dog", "elk", "fox"};
    rc_dataset data = {.h = 1,
                       .w = 1,
                       .c = 1,
                       .classes = CLASSES,
                       .class_name = names,
                       .train = {.count = (int)strlen(train), .labels = label[0]},
                       .test = {.count = (int)strlen(test), .labels = label[1]}};
    for (size_t i = 0; i < strlen(train); i++)
        label[0][i] = train[i] - '0';
    for (size_t i = 0; i < strlen(test); i++)
        label[1][i] = test[i] - '0';
    rc_trial trial = {.config = rc_config_default()};
    SUCCEEDS(rc_config_set(&trial.config, "tasks", "3"));
    SUCCEEDS(rc_config_set(&trial.config, "class_order", "5,4,3,2,1,0"));
    trial.config.images_per_class = images_per_class;
    rc_clear_message();
    rc_status status = rc_trial_create(&trial, &data, 1);
    assert_int_equal(status, rc_message()[0] != '\0' ? RC_INVALID_ARGUMENT : RC_OK);
    rc_trial_destroy(&trial);
    return rc_message();
}

static void classes_without_images_are_found_first(void **state)
{
    (void)state;
    assert_string_equal(plan_run("0123450", "012345", 0), "");
    assert_string_equal(plan_run("543210", "024", 1), "");
    assert_string_equal(plan_run("012350", "012345", 0), "class 'elk' has no training image");
    assert_string_equal(plan_run("12345", "012345", 0), "class 'ant' has no training image");
    assert_string_equal(plan_run("012345", "2345", 0),
                        "task 3 has no test image: none of its 2 classes, from 'bee' on, has one");
    assert_string_equal(plan_run("012345", "0123", 0),
                        "task 1 has no test image: none of its 2 classes, from 'fox' on, has one");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_setting_has_a_range),
        cmocka_unit_test(fractions_are_refused),
        cmocka_unit_test(classes_without_images_are_found_first),
    };
    return cmocka_run_group_tests(tests, open_backend, close_backend);
}
