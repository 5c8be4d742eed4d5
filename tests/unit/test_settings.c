/* Every setting reaches what it is for: with another value, a method that has a use for it ends with other bits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "run/config.h"
#include "support/cpu_backend.h"
#include "support/learning.h"
#include "support/succeeds.h"

static const struct {
    const char *method, *name, *value;
} trials[] = {
    {"cwd", "seed", "2"},
    {"cwd", "net_width", "8"},
    {"cwd", "net_blocks", "2"},
    {"cwd", "generator_width", "16"},
    {"cwd", "noise", "16"},
    {"cwd", "batch", "6"},
    {"cwd", "crop_pad", "2"},
    {"cwd", "flip", "false"},
    {"cwd", "epochs", "5"},
    {"cwd", "refine_epochs", "1"},
    {"cwd", "min_steps", "20"},
    {"cwd", "learning_rate", "0.05"},
    {"cwd", "milestone", "2"},
    {"cwd", "decay", "0.5"},
    {"cwd", "refine_rate", "0.01"},
    {"cwd", "momentum", "0.5"},
    {"cwd", "weight_decay", "0.01"},
    {"cwd", "lambda_ce", "1"},
    {"cwd", "lambda_hkd", "1"},
    {"cwd", "lambda_rkd", "1"},
    {"cwd", "lambda_war", "1"},
    {"cwd", "inversion_steps", "61"},
    {"cwd", "inversion_rate", "0.01"},
    {"cwd", "temperature", "1"},
    {"cwd", "weight_content", "2"},
    {"cwd", "weight_diversity", "2"},
    {"cwd", "weight_bn", "10"},
    {"cwd", "weight_prior", "1"},
    {"cwd", "lambda_dce", "1"},
    {"cwd", "dce_momentum", "0.5"},
    {"cwd", "diversity_epsilon", "0.5"},
    {"cwd", "paper_dce", "true"},
    {"cwd", "paper_bn_sum", "true"},
    {"cwd", "paper_war_mean", "true"},
    {"cwd", "paper_constant_scale", "true"},
    {"cwd", "paper_no_refinement", "true"},
    {"lwf", "kd_temperature", "1"},
    {"lwf", "kd_weight", "2"},
    {"abd", "feature_weight", "1"},
    {"er", "buffer_size", "10"},
    {"lode", "lode_rho", "1"},
    {"dgr", "vae_width", "8"},
    {"deepinversion-pixels", "pixel_batches", "1"},
    {"deepinversion-pixels", "pixel_steps", "4"},
    {"deepinversion-pixels", "pixel_jitter", "0"},
    {"deepinversion-pixels", "pixel_rate", "0.1"},
    {"deepinversion-pixels", "pixel_bn", "0.1"},
    {"deepinversion-pixels", "pixel_variation", "1"},
    {"deepinversion-pixels", "pixel_norm", "1"},
};
enum { TRIALS = sizeof trials / sizeof *trials };

/* What says which data there is, and the names of nets, which others test. */
static const char *const elsewhere[] = {"data", "format", "size", "resize", "channels", "exif", "mean", "std",
                                        "class_order", "order", "tasks", "first_task", "task_sizes", "profile",
                                        "images_per_class", "test_batch", "net", "generator"};

static bool is_tried(const char *name)
{
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
        if (strcmp(elsewhere[i], name) == 0)
            return true;
    for (int i = 0; i < TRIALS; i++)
        if (strcmp(trials[i].name, name) == 0)
            return true;
    return false;
}

static void every_setting_is_tried(void **state)
{
    (void)state;
    rc_config_item item;
    for (int i = 0; rc_config_item_at(i, &item); i++)
        if (!is_tried(item.name))
            fail_msg("no trial of %s", item.name);
}

/* What two tasks of two classes leave. */
static learning_bits teach(const char *method, const char *name, const char *value)
{
    rc_config config = rc_config_default();
    rc_learner l;
    config.settings = learning_settings();
    config.settings.epochs = 20; /* so much that all classes are dreamt of, and DCE has its moving average */
    config.settings.inversion_steps = 60;
    if (name != NULL)
        SUCCEEDS(rc_config_set(&config, name, value));
    learning_create(&l, be, method, &config.settings);
    for (int task = 0; task < 2; task++) {
        learning_teach(&l, task, 2, 12, &learning_no_hooks);
        rc_learner_end_task(&l);
    }
    learning_bits bits = learning_take(&l);
    rc_learner_destroy(&l);
    return bits;
}

static void every_setting_has_an_effect(void **state)
{
    (void)state;
    learning_bits usual = {0};
    if (getenv("RECOLLECT_TEST_LIGHT") != NULL)
        skip();
    for (int i = 0; i < TRIALS; i++) {
        if (i == 0 || strcmp(trials[i].method, trials[i - 1].method) != 0) {
            learning_drop(usual);
            usual = teach(trials[i].method, NULL, NULL);
        }
        learning_bits other = teach(trials[i].method, trials[i].name, trials[i].value);
        if (learning_same(usual, other))
            fail_msg("%s: %s = %s changes nothing", trials[i].method, trials[i].name, trials[i].value);
        learning_drop(other);
    }
    learning_drop(usual);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_setting_is_tried),
        cmocka_unit_test(every_setting_has_an_effect),
    };
    return cmocka_run_group_tests(tests, open_backend, close_backend);
}
