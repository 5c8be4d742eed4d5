/* Numbers that the published experiments fix: the default of every setting, what the paper profile changes, and the
 * constants that normalise the images of the published data sets. The values here are copied from the papers and
 * their code, not from ours. And the range of every setting, at both ends. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cil/settings.h"
#include "support/data_files.h"
#include "support/data_sets.h"
#include "support/succeeds.h"

/* ---- settings ------------------------------------------------------------------------------------------------- */

/* clang-format off */
#define REAL(name, value, low, high) {#name, true, offsetof(rc_settings, name), value, low, high}
#define INTEGER(name, value, low, high) {#name, false, offsetof(rc_settings, name), value, low, high}
/* clang-format on */

/* CIFAR-100 with ResNet-32. low and high: what rc_settings_check takes; both NAN where it looks at no range. */
static const struct number {
    const char *name;
    bool real;
    size_t offset;
    double value, low, high;
} numbers[] = {
    INTEGER(net_width, 16, 1, 4096),
    INTEGER(net_blocks, 1, 1, 32),
    INTEGER(generators, 0, 0, 8),
    INTEGER(generator_width, 32, 2, 4096),
    INTEGER(noise, 1000, 1, 65536),
    INTEGER(batch, 128, 2, 65536),
    INTEGER(crop_pad, 4, 0, 64),
    REAL(zoom, 0, 0, 0.9),
    REAL(colour, 0, 0, 1),
    INTEGER(cutout, 0, 0, 1024),
    REAL(mixup, 0, 0, 100),
    REAL(cutmix, 0, 0, 100),
    REAL(smoothing, 0, 0, 0.99),
    INTEGER(epochs, 200, 1, 100000),
    INTEGER(refine_epochs, 40, 0, 199),
    INTEGER(min_steps, 0, 0, 10000000),
    REAL(learning_rate, 0.1, 0, 100),
    REAL(rate_later, 1, 0, 100),
    REAL(decay, 0.1, 0, 1),
    INTEGER(milestones, 2, NAN, NAN),
    INTEGER(milestone[0], 80, 0, 120),
    INTEGER(milestone[1], 120, 80, 1000000),
    INTEGER(average, 0, 0, 100000),
    REAL(average_old, 0, 0, 1),
    REAL(refine_rate, 0.005, 0, 100),
    REAL(momentum, 0.9, 0, 0.9999),
    REAL(weight_decay, 5e-4, 0, 1),
    REAL(lambda_ce, 0.5, 0, 1e6),
    REAL(lambda_hkd, 0.15, 0, 1e6),
    REAL(lambda_rkd, 0.5, 0, 1e6),
    REAL(lambda_war, 0.1, 0, 1e6),
    REAL(kd_temperature, 2, 1e-3, 1e9),
    REAL(kd_weight, 1, 0, 1e6),
    REAL(feature_weight, 0.1, 0, 1e6),
    REAL(plus_kd_new, 0, 0, 1e6),
    REAL(plus_kd_dreams, 0, 0, 1e6),
    REAL(plus_ce_dreams, 0, 0, 1e6),
    REAL(plus_feature, 0, 0, 1e6),
    REAL(plus_drawn, 2, 0, 1e6),
    INTEGER(buffer_size, 0, 0, 100000000),
    REAL(lode_rho, 0, 0, 1e6),
    INTEGER(vae_width, 512, 8, 4096),
    INTEGER(inversion_steps, 5000, 1, 10000000),
    REAL(inversion_rate, 1e-3, 0, 100),
    REAL(temperature, 1000, 1e-3, 1e9),
    REAL(weight_content, 1, 0, 1e6),
    REAL(weight_diversity, 1, 0, 1e6),
    REAL(weight_bn, 50, 0, 1e6),
    REAL(weight_prior, 0, 0, 1e6),
    REAL(lambda_dce, 0.05, 0, 1e6),
    REAL(dce_momentum, 0.9, 0, 0.9999),
    REAL(diversity_epsilon, 1e-6, 0, 1),
    INTEGER(pixel_batches, 8, 1, 4096),
    INTEGER(pixel_steps, 2000, 1, 1000000),
    INTEGER(pixel_jitter, 2, 0, 1024),
    REAL(pixel_rate, 0.05, 0, 100),
    REAL(pixel_bn, 5, 0, 1e6),
    REAL(pixel_variation, 2.5e-5, 0, 1e6),
    REAL(pixel_norm, 3e-8, 0, 1e6),
};
enum { NUMBERS = sizeof numbers / sizeof *numbers };

static double get(const rc_settings *s, const struct number *n)
{
    double real;
    int integer;
    memcpy(&real, (const char *)s + n->offset, sizeof real * n->real);
    memcpy(&integer, (const char *)s + n->offset, sizeof integer);
    return n->real ? real : integer;
}

static void put(rc_settings *s, const struct number *n, double value)
{
    int integer = (int)(n->real ? 0 : value);
    if (n->real)
        memcpy((char *)s + n->offset, &value, sizeof value);
    else
        memcpy((char *)s + n->offset, &integer, sizeof integer);
}

static const bool *switches(const rc_settings *s, int i)
{
    const bool *const all[] = {&s->paper_dce, &s->paper_bn_sum, &s->paper_war_mean, &s->paper_constant_scale,
                               &s->paper_no_refinement};
    return i < 5 ? all[i] : NULL;
}

static void defaults_are_those_of_cifar100(void **state)
{
    (void)state;
    rc_settings s = rc_settings_default();
    for (int i = 0; i < NUMBERS; i++)
        if (get(&s, &numbers[i]) != numbers[i].value)
            fail_msg("%s is %.9g, published is %.9g", numbers[i].name, get(&s, &numbers[i]), numbers[i].value);
    assert_string_equal(s.net, "resnet32");
    assert_string_equal(s.generator, "generator");
    assert_string_equal(s.plus_statistics, "moved");
    assert_string_equal(s.rotations, "method");
    assert_true(!s.trivial && !s.plus_variances && !s.plain_statistics && !s.class_covariances);
    assert_true(s.flip && !s.cosine);
    assert_int_equal(s.seed, 1);
    for (int i = 0; switches(&s, i) != NULL; i++)
        assert_false(*switches(&s, i));
    SUCCEEDS(rc_settings_check(&s));
}

static void the_paper_profile_turns_the_switches_alone(void **state)
{
    (void)state;
    rc_settings s = rc_settings_default(), usual = rc_settings_default();
    rc_settings_paper_profile(&s);
    for (int i = 0; switches(&s, i) != NULL; i++)
        assert_true(*switches(&s, i));
    for (int i = 0; i < NUMBERS; i++)
        assert_true(get(&s, &numbers[i]) == get(&usual, &numbers[i]));
}

static void expect_refused(const struct number *n, double value)
{
    char expected[128], name[32];
    rc_settings s = rc_settings_default();
    put(&s, n, value);
    if (rc_settings_check(&s) != RC_INVALID_ARGUMENT)
        fail_msg("%s = %.17g is taken", n->name, value);
    snprintf(name, sizeof name, "%.*s", (int)strcspn(n->name, "["), n->name);
    snprintf(expected, sizeof expected, "%s is %.10g, expected ", name, value);
    if (strncmp(rc_message(), expected, strlen(expected)) != 0) /* 0 to the first of two milestones */
        fail_msg("%s = %.17g: \"%s\" does not begin with \"%s\"", n->name, value, rc_message(), expected);
}

/* Both ends are taken, what lies beyond is not; nor is what is no number. */
static void ranges_end_where_they_say(void **state)
{
    (void)state;
    for (int i = 0; i < NUMBERS; i++) {
        const struct number *n = &numbers[i];
        double beyond = n->real ? 1e-6 : 1;
        if (isnan(n->low))
            continue;
        for (int end = 0; end < 2; end++) {
            rc_settings s = rc_settings_default();
            put(&s, n, end ? n->high : n->low);
            if (strcmp(n->name, "epochs") == 0)
                s.refine_epochs = 0;
            if (rc_settings_check(&s) != RC_OK)
                fail_msg("%s", rc_message());
        }
        if (strcmp(n->name, "milestone[0]") != 0) /* in range, but later than the second: below */
            expect_refused(n, n->high + fmax(beyond, beyond * n->high * n->real));
        if (strcmp(n->name, "milestone[1]") != 0) /* in range, but earlier than the first */
            expect_refused(n, n->low - beyond);
        if (n->real) {
            expect_refused(n, NAN);
            expect_refused(n, INFINITY);
        }
    }
    rc_settings s = rc_settings_default();
    s.milestone[0] = 121;
    assert_int_equal(rc_settings_check(&s), RC_INVALID_ARGUMENT);
    assert_string_equal(rc_message(), "milestone has 120 after 121, expected rising numbers");
    s = rc_settings_default();
    s.vae_width = 12;
    assert_int_equal(rc_settings_check(&s), RC_INVALID_ARGUMENT);
    assert_string_equal(rc_message(), "vae_width is 12, expected a multiple of 8");
}

/* ---- data sets ------------------------------------------------------------------------------------------------ */

static void expect_set(const char *path, const char *name, int classes, int size, const float mean[3],
                       const float std[3])
{
    rc_dataset d;
    data_open(path, NULL, &d);
    assert_string_equal(d.name, name);
    assert_int_equal(d.classes, classes);
    assert_int_equal(d.c, 3);
    if (size > 0) {
        assert_int_equal(d.h, size);
        assert_int_equal(d.w, size);
    }
    for (int c = 0; c < 3; c++)
        assert_true(d.mean[c] == mean[c] && d.std[c] == std[c]);
    rc_dataset_close(&d);
}

static void cifar100_has_its_constants(void **state)
{
    (void)state;
    data_bytes train = data_cifar_binary(0, 100, 2, 100), test = data_cifar_binary(0, 100, 2, 100);
    data_write("b/train.bin", train.data, train.size);
    data_write("b/test.bin", test.data, test.size);
    free(train.data);
    free(test.data);
    expect_set("b", "cifar100", 100, 32, (const float[]){0.5071f, 0.4867f, 0.4408f},
               (const float[]){0.2675f, 0.2565f, 0.2761f});
}

static void tiny_imagenet_has_its_constants(void **state)
{
    (void)state;
    data_write_text("t/wnids.txt", "n02\nn01\n");
    data_write_colour("t/train/n01/images/n01_0.ppm", 8, 8, 1, 2, 3);
    data_write_colour("t/train/n02/images/n02_0.ppm", 8, 8, 4, 5, 6);
    data_write_colour("t/val/images/v.ppm", 8, 8, 7, 8, 9);
    data_write_text("t/val/val_annotations.txt", "v.ppm\tn01\t0\t0\t1\t1\n");
    expect_set("t", "tiny-imagenet", 2, 64, (const float[]){0.4803f, 0.4481f, 0.3976f},
               (const float[]){0.2764f, 0.2688f, 0.2816f});
}

/* A list of 100 classes by its published name; with any other name or number of classes it is just a list. */
static void imagenet100_has_its_constants(void **state)
{
    (void)state;
    char path[64], line[80];
    data_bytes list = {0};
    for (int k = 0; k < 100; k++) {
        snprintf(path, sizeof path, "i/n%03d.ppm", k);
        data_write_colour(path, 4, 4, k, 2, 3);
        snprintf(line, sizeof line, "n%03d.ppm %d\n", k, k);
        data_add_text(&list, line);
    }
    data_write("i/train_100.txt", list.data, list.size);
    data_write("i/val_100.txt", list.data, list.size);
    free(list.data);
    expect_set("i", "imagenet100", 100, 0, (const float[]){0.485f, 0.456f, 0.406f},
               (const float[]){0.229f, 0.224f, 0.225f});
}

/* Grey images of a known set have no published constants: they are measured. */
static void other_channels_are_measured(void **state)
{
    (void)state;
    rc_dataset d;
    data_write_text("t/wnids.txt", "n01\n");
    data_write_colour("t/train/n01/images/n01_0.ppm", 8, 8, 51, 51, 51);
    data_write_colour("t/val/images/v.ppm", 8, 8, 7, 8, 9);
    data_write_text("t/val/val_annotations.txt", "v.ppm\tn01\t0\t0\t1\t1\n");
    data_open("t", &(rc_data_settings){.channels = 1}, &d);
    assert_true(fabs((double)d.mean[0] - 0.2) < 1e-6 && d.std[0] == 1);
    rc_dataset_close(&d);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, data_enter_folder, data_leave_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_those_of_cifar100), cmocka_unit_test(the_paper_profile_turns_the_switches_alone),
        cmocka_unit_test(ranges_end_where_they_say),      IN_FOLDER(cifar100_has_its_constants),
        IN_FOLDER(tiny_imagenet_has_its_constants),       IN_FOLDER(imagenet100_has_its_constants),
        IN_FOLDER(other_channels_are_measured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
