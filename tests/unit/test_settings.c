/* Every setting has an effect: with another value, a method that uses it ends with other bits, and one that does not
 * with the same bits. (test_setting_rows looks at the rows themselves, test_parts at docs/settings.md.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cil/parts.h"
#include "config/config.h"
#include "support/cpu_backend.h"
#include "support/learning.h"
#include "support/succeeds.h"

static const struct {
    const char *method, *name, *value;
    bool one_class; /* the first task has one class instead of two */
} trials[] = {
    {"cwd", "seed", "2", false},
    {"cwd", "net_width", "8", false},
    {"cwd", "net_blocks", "2", false},
    {"cwd", "generators", "2", false},
    {"cwd", "generator_width", "16", false},
    {"cwd", "noise", "16", false},
    {"cwd", "batch", "6", false},
    {"cwd", "crop_pad", "2", false},
    {"cwd", "flip", "false", false},
    {"cwd", "zoom", "0.3", false},
    {"cwd", "colour", "0.3", false},
    {"cwd", "trivial", "true", false},
    {"cwd", "rotations", "first", false},
    {"cwd", "rotations", "all", false},
    {"cwd", "cutout", "3", false},
    {"cwd", "mixup", "1", false},
    {"cwd", "cutmix", "1", false},
    {"cwd", "smoothing", "0.1", false},
    {"cwd", "epochs", "5", false},
    {"cwd", "refine_epochs", "1", false},
    {"cwd", "min_steps", "20", false},
    {"cwd", "trained_stages", "1", false},
    {"cwd", "learning_rate", "0.05", false},
    {"cwd", "rate_later", "0.5", false},
    {"cwd", "cosine", "true", false},
    {"cwd", "milestone", "2", false},
    {"cwd", "decay", "0.5", false},
    {"cwd", "average", "2", false},
    {"cwd", "average_old", "0.5", false},
    {"cwd", "refine_rate", "0.01", false},
    {"cwd", "momentum", "0.5", false},
    {"cwd", "weight_decay", "0.01", false},
    {"cwd", "lambda_ce", "1", false},
    {"cwd", "lambda_hkd", "1", false},
    {"cwd", "lambda_rkd", "1", false},
    {"cwd", "lambda_war", "1", false},
    {"cwd", "inversion_steps", "6", false},
    {"cwd", "inversion_rate", "0.01", false},
    {"cwd", "temperature", "1", false},
    {"cwd", "weight_content", "2", false},
    {"cwd", "weight_diversity", "2", false},
    {"cwd", "weight_bn", "10", false},
    {"cwd", "weight_prior", "1", false},
    {"cwd", "lambda_dce", "1", false},
    {"cwd", "diversity_epsilon", "0.5", false},
    {"cwd", "paper_dce", "true", false},
    {"cwd", "paper_bn_sum", "true", false},
    {"cwd", "paper_war_mean", "true", false},
    {"cwd", "paper_constant_scale", "true", false},
    {"cwd", "paper_no_refinement", "true", false},
    {"cwd", "dce_momentum", "0.5", true}, /* its average begins when all old classes have been dreamt of: at once */
    {"cwd+", "generators", "1", false},
    {"cwd+", "rotations", "off", false},
    {"cwd+", "rotations", "first", false},
    {"cwd+", "plus_kd_new", "1", false},
    {"cwd+", "plus_kd_dreams", "1", false},
    {"cwd+", "plus_ce_dreams", "1", false},
    {"cwd+", "plus_feature", "1", false},
    {"cwd+", "plus_drawn", "1", false},
    {"cwd+", "plus_statistics", "dreams", false},
    {"cwd+", "plus_statistics", "moved-dreams", false},
    {"cwd+", "plus_variances", "true", false},
    {"cwd", "plain_statistics", "true", false},
    {"lwf", "kd_temperature", "1", false},
    {"lwf", "kd_weight", "2", false},
    {"abd", "feature_weight", "1", false},
    {"er", "buffer_size", "10", false},
    {"er-5120", "buffer_size", "10", false},
    {"lode", "lode_rho", "1", false},
    {"lode-5120", "lode_rho", "1", false},
    {"dgr", "vae_width", "8", false},
    {"deepinversion-pixels", "pixel_batches", "1", false},
    {"deepinversion-pixels", "pixel_steps", "4", false},
    {"deepinversion-pixels", "pixel_jitter", "0", false},
    {"deepinversion-pixels", "pixel_rate", "0.1", false},
    {"deepinversion-pixels", "pixel_bn", "0.1", false},
    {"deepinversion-pixels", "pixel_variation", "1", false},
    {"deepinversion-pixels", "pixel_norm", "1", false},
};
enum { TRIALS = sizeof trials / sizeof *trials };

/* What says which data there is, the names of nets, and what a first task keeps for lessons of the head: others test
 * these. */
static const char *const elsewhere[] = {"data",
                                        "format",
                                        "size",
                                        "resize",
                                        "interpolation",
                                        "channels",
                                        "exif",
                                        "mean",
                                        "std",
                                        "class_order",
                                        "order",
                                        "tasks",
                                        "first_task",
                                        "task_sizes",
                                        "profile",
                                        "images_per_class",
                                        "test_per_class",
                                        "test_batch",
                                        "test_mirror",
                                        "test_shift",
                                        "net",
                                        "generator",
                                        "validation",
                                        "decode",
                                        "class_covariances"};

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

/* What two tasks leave; trial -1: as it is usually. */
static learning_bits teach(int trial, int like)
{
    rc_config config = rc_config_default();
    rc_learner l;
    config.settings = learning_settings();
    if (trial >= 0)
        SUCCEEDS(rc_config_set(&config, trials[trial].name, trials[trial].value));
    learning_create(&l, be, trials[like].method, &config.settings);
    for (int task = 0; task < 2; task++) {
        learning_teach(&l, task, task == 0 && trials[like].one_class ? 1 : 2, 12, &learning_no_hooks);
        rc_learner_end_task(&l);
    }
    learning_bits bits = learning_take(&l);
    rc_learner_destroy(&l);
    return bits;
}

static bool same_setting(int a, int b)
{
    return strcmp(trials[a].method, trials[b].method) == 0 && trials[a].one_class == trials[b].one_class;
}

static void every_setting_has_an_effect(void **state)
{
    (void)state;
    const char *light = getenv("RECOLLECT_TEST_LIGHT");
    int step = light && light[0] ? 6 : 1; /* sanitizers see the same code in a part of them */
    learning_bits usual = {0};
    for (int i = 0; i < TRIALS; i += step) {
        if (i == 0 || !same_setting(i, i - step)) {
            learning_drop(usual);
            usual = teach(-1, i);
        }
        learning_bits other = teach(i, i);
        if (learning_same(usual, other))
            fail_msg("%s: %s = %s changes nothing", trials[i].method, trials[i].name, trials[i].value);
        learning_drop(other);
    }
    learning_drop(usual);
}

/* ---- who reads what -------------------------------------------------------------------------------------------- */

/* What two tasks leave of a method; with the values of the trials of all settings that `part` reads, or usual. */
static learning_bits teach_part(const char *method, const char *part)
{
    rc_config config = rc_config_default();
    rc_config_item item;
    config.settings = learning_settings();
    for (int i = 0; part != NULL && rc_config_item_at(i, &item); i++)
        for (int k = 0; k < TRIALS && strcmp(item.readers, part) == 0; k++)
            if (strcmp(trials[k].name, item.name) == 0)
                SUCCEEDS(rc_config_set(&config, item.name, trials[k].value));
    return learning_two_tasks(be, method, &config.settings);
}

/* The parts that methods have, each with every method: the bits differ for those that rc_method_parts names alone.
 * (test_parts holds the page against rc_method_parts.) */
static void a_part_is_read_by_the_methods_that_have_it(void **state)
{
    (void)state;
    static const char *const no_bits[] = {"data", "experiments", "evaluation", "net"}; /* others test these */
    const char *light = getenv("RECOLLECT_TEST_LIGHT");
    int step = getenv("RECOLLECT_TEST_ALL") != NULL ? 1 : light && light[0] ? 7 : 2;
    rc_settings settings = learning_settings();
    for (int m = 0; rc_method_at(m) != NULL; m += step) {
        const char *method = rc_method_at(m)->name;
        rc_part part[RC_PARTS];
        rc_method_parts(rc_method_at(m), &settings, part);
        learning_bits usual = teach_part(method, NULL);
        for (int k = 0; k < RC_PARTS; k++) {
            bool said = part[k].there, tried = true;
            for (size_t i = 0; i < sizeof no_bits / sizeof *no_bits; i++)
                tried = tried && strcmp(no_bits[i], part[k].name) != 0;
            if (!tried)
                continue;
            learning_bits other = teach_part(method, part[k].name);
            bool differs = !learning_same(usual, other);
            if (differs != said)
                fail_msg("%s %s what '%s' reads, cil/parts.c says it %s", method, differs ? "reads" : "does not read",
                         part[k].name, said ? "does" : "does not");
            learning_drop(other);
        }
        learning_drop(usual);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_setting_is_tried),
        cmocka_unit_test(every_setting_has_an_effect),
        cmocka_unit_test(a_part_is_read_by_the_methods_that_have_it),
    };
    return cmocka_run_group_tests(tests, open_backend, close_backend);
}
