/* Configurations: the published files as they are, presets, and messages that name file, line and key. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "run/config.h"
#include "support/data_files.h"

/* The keys of the published files, values of our own. */
static const char published[] = "seed_everything: 7\n"
                                "trainer:\n"
                                "  logger: true\n"
                                "  checkpoint_callback: false\n"
                                "  callbacks: null\n"
                                "  gpus: -1\n"
                                "  check_val_every_n_epoch: 40\n"
                                "  max_epochs: 11\n"
                                "  limit_train_batches: 1.0\n"
                                "model:\n"
                                "  base_lr: 0.2\n"
                                "  momentum: 0.8\n"
                                "  weight_decay: 0.0004\n"
                                "  lr_factor: 0.3\n"
                                "  milestones:\n"
                                "  - 8\n"
                                "  - 9\n"
                                "  finetuning_epochs: 3\n"
                                "  finetuning_lr: 0.006\n"
                                "  lambda_ce: 0.6\n"
                                "  lambda_hkd: 0.16\n"
                                "  lambda_rkd: 0.7\n"
                                "  lambda_norm: 0.11\n"
                                "  num_inv_iters: 501\n"
                                "  inv_lr: 0.002\n"
                                "  inv_tau: 900.0\n"
                                "  inv_alpha_ce: 2.\n"
                                "  inv_alpha_cb: 3.\n"
                                "  inv_alpha_pr: 0.\n"
                                "  inv_alpha_rf: 51.0\n"
                                "  inv_alpha_gem: 0.06\n"
                                "  bn_mmt: 0.91\n"
                                "  inv_resume_from: null\n"
                                "  tag: test\n"
                                "data:\n"
                                "  # a comment\n"
                                "  root: ./data\n"
                                "  dataset: tiny-imagenet200\n"
                                "  batch_size: 64\n"
                                "  num_workers: 4\n"
                                "  num_tasks: 10\n"
                                "  # class_order: [9, 9, 9]\n"
                                "  class_order: [2, 0, 1]\n"
                                "  init_task_splits: 1\n"
                                "  test_mode: seen\n";

static void assert_value(const rc_config *config, const char *key, const char *value)
{
    char text[512];
    assert_int_equal(rc_config_get(config, key, text, sizeof text), RC_OK);
    if (strcmp(text, value) != 0)
        fail_msg("%s is '%s', expected '%s'", key, text, value);
}

static void published_files_load_unchanged(void **state)
{
    (void)state;
    static const char *const expected[][2] = {
        {"seed", "7"},           {"epochs", "11"},          {"learning_rate", "0.2"},  {"momentum", "0.8"},
        {"weight_decay", "0.0004"}, {"decay", "0.3"},       {"milestone", "[8, 9]"},   {"refine_epochs", "3"},
        {"refine_rate", "0.006"}, {"lambda_ce", "0.6"},     {"lambda_hkd", "0.16"},    {"lambda_rkd", "0.7"},
        {"lambda_war", "0.11"},  {"inversion_steps", "501"}, {"inversion_rate", "0.002"}, {"temperature", "900"},
        {"weight_content", "2"}, {"weight_diversity", "3"}, {"weight_prior", "0"},     {"weight_bn", "51"},
        {"lambda_dce", "0.06"},  {"dce_momentum", "0.91"},  {"batch", "64"},           {"tasks", "10"},
        {"class_order", "2, 0, 1"}, {"first_task", "1"},    {"net", "resnet32"},       {"size", "64"},
        {"exif", "false"},       {"data", "./data/tiny-imagenet200"},
    };
    data_log log;
    data_log_start(&log);
    log.log.level = RC_LOG_INFO;
    rc_config config = rc_config_default();
    if (rc_config_parse_yaml(&config, "x.yaml", published, sizeof published - 1, &log.log) != RC_OK)
        fail_msg("%s", rc_message());
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        assert_value(&config, expected[i][0], expected[i][1]);
    assert_int_equal(rc_config_check(&config), RC_OK);
    /* What means nothing here: one note that lists it all. */
    assert_int_equal(log.lines, 1);
    static const char *const ignored[] = {"x.yaml: 10 keys", "trainer.logger", "trainer.callbacks", "trainer.gpus",
                                          "model.inv_resume_from", "model.tag", "data.num_workers",
                                          "data.test_mode"};
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
        if (strstr(log.last, ignored[i]) == NULL)
            fail_msg("'%s' lacks '%s'", log.last, ignored[i]);
}

static void published_presets_leave_photographs_as_they_are(void **state)
{
    (void)state;
    const char *name, *summary;
    int seen = 0;
    for (int i = 0; rc_config_preset(i, &name, &summary); i++) {
        rc_config config = rc_config_default();
        if (rc_config_load(&config, name, NULL) != RC_OK || rc_config_check(&config) != RC_OK)
            fail_msg("%s: %s", name, rc_message());
        if (strncmp(name, "cifar100", 8) != 0 && strncmp(name, "tiny-imagenet", 13) != 0 &&
            strncmp(name, "imagenet100", 11) != 0)
            continue;
        assert_value(&config, "exif", "false");
        seen++;
    }
    assert_true(seen >= 9);
}

static void refuse(const char *text, const char *message)
{
    rc_config config = rc_config_default();
    if (rc_config_parse_yaml(&config, "x.yaml", text, strlen(text), NULL) == RC_OK)
        fail_msg("accepted: %s", text);
    data_assert_message(message);
}

static void messages_name_file_and_line(void **state)
{
    (void)state;
    refuse("epochs: 3\nlerning_rate: 0.1\n", "x.yaml, line 2: there is no setting 'lerning_rate'; did you mean "
                                             "'learning_rate'?");
    refuse("epochs: many\n", "x.yaml, line 1: epochs is 'many', expected a whole number");
    refuse("\n\nmilestone: [1, x]\n", "x.yaml, line 3: milestone is '1, x', expected a list of whole numbers");
    refuse("model:\n  base_lr: fast\n", "x.yaml, line 2: learning_rate is 'fast', expected a number");
    refuse("a: *b\n", "x.yaml, line 1: expected 'key: value'");
    refuse("- 1\n", "x.yaml, line 1: expected a map of settings");
    refuse("data: 'x\n", "x.yaml, line ");
    refuse("milestone: [[1], 2]\n", "x.yaml, line 1: a list may hold plain values only");
    data_write_text("own.yaml", "epochs: -\n");
    rc_config config = rc_config_default();
    assert_int_not_equal(rc_config_load(&config, "own.yaml", NULL), RC_OK);
    data_assert_message("own.yaml, line 1: ");
    assert_int_equal(rc_config_load(&config, "missing.yaml", NULL), RC_IO);
    data_assert_message("missing.yaml");
    assert_int_equal(rc_config_load(&config, "cifar100", NULL), RC_INVALID_ARGUMENT);
    data_assert_message("there is no preset 'cifar100'; there are ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_files_load_unchanged),
        cmocka_unit_test(published_presets_leave_photographs_as_they_are),
        cmocka_unit_test_setup_teardown(messages_name_file_and_line, data_enter_folder, data_leave_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
