/* How the size of images follows from what they are, and a lesson's schedule from the number of its images and classes
 * (the rules in api/learn.h); and what is said about it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/learn_config.h"
#include "cil/task_stream.h"
#include "support/succeeds.h"

static rc_settings usual(void)
{
    rc_settings s = rc_settings_default();
    s.batch = 64;
    s.epochs = 40;
    s.refine_epochs = 20;
    s.milestones = 2;
    s.milestone[0] = 10;
    s.milestone[1] = 16;
    s.min_steps = 300;
    return s;
}

/* A lesson of CwD, which refines the head; the first one has nothing to refine. */
static rc_lesson_size lesson(int n_old, int n_new, int images)
{
    rc_lesson_size size = {NULL, n_old, n_new, images};
    SUCCEEDS(rc_method_find("cwd", &size.method));
    return size;
}

static rc_learn_reason stretch(rc_settings *s, const rc_learn_settings *settings, int n_old, int n_new, int images)
{
    rc_lesson_size size = lesson(n_old, n_new, images);
    return rc_learn_stretch(s, settings, &size);
}

static int main_steps(const rc_settings *s, int images)
{
    return (s->epochs - s->refine_epochs) * rc_epoch_batches(images, s->batch);
}

static void few_images_get_the_least_steps(void **state)
{
    (void)state;
    rc_learn_settings none = {0};
    /* Of 36 images a batch holds all: 300 epochs of one step, and everything else 15 times as long. */
    rc_settings s = usual();
    assert_int_equal(stretch(&s, &none, 6, 2, 36), RC_LEARN_FEW);
    assert_int_equal(s.batch, 36);
    assert_int_equal(main_steps(&s, 36), 300);
    assert_int_equal(s.refine_epochs, 300);
    assert_int_equal(s.milestone[0], 150);
    assert_int_equal(s.milestone[1], 240);
    assert_int_equal(s.min_steps, 0);
    /* A batch has 32 at least; the task repeats its images to fill it. */
    s = usual();
    stretch(&s, &none, 6, 2, 2);
    assert_int_equal(s.batch, 32);
    assert_int_equal(main_steps(&s, 2), 300);
    /* 14 batches, 280 steps: two epochs more, not twice as many. */
    s = usual();
    stretch(&s, &none, 6, 2, 900);
    assert_int_equal(s.epochs, 44);
    assert_int_equal(s.refine_epochs, 22);
    assert_int_equal(s.milestone[0], 11);
    /* Methods that do not refine train as long. */
    s = usual();
    s.paper_no_refinement = true;
    stretch(&s, &none, 6, 2, 36);
    assert_int_equal(s.epochs, 300);
}

static void enough_images_change_nothing(void **state)
{
    (void)state;
    rc_learn_settings none = {0};
    const rc_settings before = usual();
    rc_settings s = before;
    assert_int_equal(stretch(&s, &none, 6, 6, 2700), RC_LEARN_USUAL);
    assert_int_equal(s.batch, before.batch);
    assert_int_equal(s.epochs, before.epochs);
    assert_int_equal(s.refine_epochs, before.refine_epochs);
    for (int i = 0; i < before.milestones; i++)
        assert_int_equal(s.milestone[i], before.milestone[i]);
    assert_true(s.lambda_ce == before.lambda_ce && s.lambda_hkd == before.lambda_hkd);
}

static void many_images_end_in_time(void **state)
{
    (void)state;
    enum { IMAGES = 60000 };
    const char *const set[] = {"epochs=40"};
    rc_learn_settings none = {0}, asked = {.set = set, .sets = 1};
    rc_settings s = usual();
    assert_int_equal(stretch(&s, &none, 6, 10, IMAGES), RC_LEARN_MANY);
    int batches = rc_epoch_batches(IMAGES, s.batch);
    assert_true(main_steps(&s, IMAGES) >= RC_LEARN_MAX_STEPS);
    assert_true(main_steps(&s, IMAGES) < RC_LEARN_MAX_STEPS + batches);
    assert_true(s.milestone[0] <= s.milestone[1] && s.milestone[1] < s.epochs - s.refine_epochs);
    /* Unless somebody wants it. */
    s = usual();
    assert_int_equal(stretch(&s, &asked, 6, 10, IMAGES), RC_LEARN_ASKED);
    assert_int_equal(main_steps(&s, IMAGES), 20 * batches);
}

static void a_single_class_pulls_less(void **state)
{
    (void)state;
    rc_learn_settings none = {0};
    rc_settings one = usual(), two = usual(), before = usual();
    stretch(&one, &none, 6, 1, 900);
    stretch(&two, &none, 6, 2, 900);
    assert_true(one.lambda_ce < two.lambda_ce && one.lambda_hkd < two.lambda_hkd);
    assert_true(two.lambda_ce == before.lambda_ce && two.lambda_hkd == before.lambda_hkd);
    assert_true(one.lambda_hkd / one.lambda_ce > two.lambda_hkd / two.lambda_ce);
}

/* Both sides of every limit; a batch has 64 images. */
static void the_number_of_images_decides_how_long(void **state)
{
    (void)state;
    static const struct {
        int n_old, images, steps;
        rc_learn_reason reason;
    } rows[] = {
        {0, 10, 300, RC_LEARN_FEW},      {0, 24, 300, RC_LEARN_FEW},     {0, 25, 300, RC_LEARN_FIRST},
        {0, 26, 305, RC_LEARN_FIRST},    {0, 270, 988, RC_LEARN_FIRST},  {0, 1080, 1984, RC_LEARN_FIRST},
        {0, 4445, 4002, RC_LEARN_FIRST}, {0, 4447, 4002, RC_LEARN_MANY}, {0, 60000, 4685, RC_LEARN_MANY},
        {2, 10, 300, RC_LEARN_FEW},      {2, 959, 308, RC_LEARN_FEW},    {2, 960, 300, RC_LEARN_USUAL},
        {2, 6400, 2000, RC_LEARN_USUAL}, {2, 6464, 2020, RC_LEARN_MANY},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        rc_learn_settings none = {0}, preset = {.preset = "learn"};
        rc_settings s = usual();
        rc_learn_reason reason = stretch(&s, &none, rows[i].n_old, 2, rows[i].images);
        if (reason != rows[i].reason || main_steps(&s, rows[i].images) != rows[i].steps)
            fail_msg("%d images after %d classes: %d steps for reason %d, expected %d, %d", rows[i].images,
                     rows[i].n_old, main_steps(&s, rows[i].images), (int)reason, rows[i].steps, (int)rows[i].reason);
        int training = s.epochs - s.refine_epochs;
        assert_int_equal(s.refine_epochs, rows[i].n_old > 0 ? training : 0);
        assert_int_equal(s.milestone[0], (10 * training + 10) / 20);
        /* A preset that was named says by itself how long a first model is trained. */
        s = usual();
        reason = stretch(&s, &preset, 0, 2, rows[i].images);
        rc_settings later = usual();
        assert_int_equal(reason, stretch(&later, &none, 2, 2, rows[i].images));
        assert_int_equal(s.epochs, later.epochs - later.refine_epochs);
    }
}

static rc_settings configured(const rc_learn_settings *settings, const rc_config *before, rc_config *config)
{
    rc_saved_model model = {0};
    rc_backend backend = {0};
    const rc_method *method;
    if (before != NULL) { /* a model that knows something has a configuration of its own */
        model.config = *before;
        model.learner.backend = &backend;
        SUCCEEDS(rc_method_find("cwd", &model.learner.method));
    }
    SUCCEEDS(rc_learn_configure(&model, settings, config, &method));
    return config->settings;
}

static void epochs_that_were_asked_for_are_exact(void **state)
{
    (void)state;
    rc_config first, later;
    const char *const one[] = {"epochs=1"}, *const ten[] = {"epochs=10"};
    rc_learn_settings none = {0}, asks_one = {.set = one, .sets = 1}, asks_ten = {.set = ten, .sets = 1};
    /* One epoch of 10 images is one step, not min_steps. */
    rc_settings s = configured(&asks_one, NULL, &first);
    assert_int_equal(stretch(&s, &asks_one, 0, 2, 10), RC_LEARN_ASKED);
    assert_int_equal(main_steps(&s, 10), 1);
    assert_int_equal(s.epochs, 1);
    /* The model keeps that for its next lesson, until somebody asks for something else. */
    s = configured(&none, &first, &later);
    assert_int_equal(stretch(&s, &none, 2, 2, 10), RC_LEARN_ASKED);
    assert_int_equal(main_steps(&s, 10), 1);
    s = configured(&asks_ten, &first, &later);
    assert_int_equal(stretch(&s, &asks_ten, 2, 2, 10), RC_LEARN_ASKED);
    assert_int_equal(s.epochs, 10);
    /* Where nothing is refined, all epochs train. Milestones stay at their share of them. */
    s = configured(&asks_ten, NULL, &first);
    int refined = s.refine_epochs, milestone = s.milestone[0];
    assert_true(refined > 0 && milestone > 0);
    assert_int_equal(stretch(&s, &asks_ten, 0, 2, 10), RC_LEARN_ASKED);
    assert_int_equal(main_steps(&s, 10), 10);
    assert_int_equal(s.milestone[0], (milestone * 10 + (10 - refined) / 2) / (10 - refined));
    /* With old classes the last ones refine. */
    s = configured(&none, &first, &later);
    assert_int_equal(stretch(&s, &none, 2, 2, 10), RC_LEARN_ASKED);
    assert_int_equal(main_steps(&s, 10), 10 - refined);
    assert_int_equal(s.refine_epochs, refined);
    assert_int_equal(s.milestone[0], milestone);
    /* Even where that is longer than lessons are by themselves. */
    s = configured(&none, &first, &later);
    assert_int_equal(stretch(&s, &none, 2, 2, 1000000), RC_LEARN_ASKED);
    assert_int_equal(main_steps(&s, 1000000), (10 - refined) * rc_epoch_batches(1000000, s.batch));
}

static void other_settings_win_over_the_choice(void **state)
{
    (void)state;
    rc_config config;
    const char *const least[] = {"min_steps=777"}, *const both[] = {"epochs=2", "min_steps=50"},
                      *const milestones[] = {"epochs=10", "milestone=[3]"},
                      *const refined[] = {"epochs=10", "refine_epochs=9"};
    rc_learn_settings few = {.set = least, .sets = 1}, mixed = {.set = both, .sets = 2},
                      own = {.set = milestones, .sets = 2}, head = {.set = refined, .sets = 2};
    rc_settings s = configured(&few, NULL, &config);
    assert_int_equal(stretch(&s, &few, 0, 2, 10), RC_LEARN_FEW);
    assert_int_equal(main_steps(&s, 10), 777);
    s = configured(&mixed, NULL, &config);
    assert_int_equal(stretch(&s, &mixed, 0, 2, 10), RC_LEARN_FEW);
    assert_int_equal(main_steps(&s, 10), 50);
    const char *const enough[] = {"epochs=100", "min_steps=60"};
    rc_learn_settings more = {.set = enough, .sets = 2};
    s = configured(&more, NULL, &config);
    assert_int_equal(stretch(&s, &more, 0, 2, 10), RC_LEARN_ASKED);
    assert_int_equal(main_steps(&s, 10), 100);
    s = configured(&own, NULL, &config);
    stretch(&s, &own, 0, 2, 10);
    assert_int_equal(s.milestones, 1);
    assert_int_equal(s.milestone[0], 3);
    assert_int_equal(main_steps(&s, 10), 10);
    s = configured(&head, NULL, &config);
    stretch(&s, &head, 2, 2, 10);
    assert_int_equal(main_steps(&s, 10), 1);
    assert_int_equal(s.refine_epochs, 9);
}

static void photographs_come_to_32_pixels(void **state)
{
    (void)state;
    static const struct {
        rc_data_seen seen;
        int size;
        const char *says;
    } rows[] = {
        {{1200, 375, 500, false}, 32, "chosen: 32 x 32 pixels for 1200 images of 500 x 375, because small images"},
        {{1200, 64, 64, true}, 32, "1200 images of 64 x 64, because small images"},
        {{9, 33, 33, true}, 32, "of 33 x 33, because small images"},
        {{9, 32, 32, true}, 32, "of 32 x 32, the size that they have"},
        {{9, 31, 31, true}, 28, "chosen: 28 x 28 pixels for 9 images of 31 x 31, the next size that can be dreamt"},
        {{9, 28, 28, true}, 28, "of 28 x 28, the size that they have"},
        {{9, 28, 28, false}, 32, "of 28 x 28, the usual size"},
        {{9, 31, 400, false}, 32, "of 400 x 31, the usual size"},
        {{9, 32, 400, false}, 32, "of 400 x 32, because small images"},
        {{9, 16, 16, true}, 16, "of 16 x 16, the size that they have"},
        {{9, 5, 5, true}, 16, "chosen: 16 x 16 pixels for 9 images of 5 x 5, the next size that can be dreamt"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[400];
        assert_int_equal(rc_learn_choose_size(&rows[i].seen), rows[i].size);
        rc_learn_tell_size(&rows[i].seen, rows[i].size, text, sizeof text);
        if (strstr(text, rows[i].says) == NULL || strstr(text, "; the setting 'size' takes another") == NULL)
            fail_msg("'%s', expected '%s'", text, rows[i].says);
    }
}

static void large_images_are_shifted_farther(void **state)
{
    (void)state;
    static const struct {
        int size, crop_pad;
        const char *net;
    } rows[] = {{16, 1, "resnet-small"}, {20, 1, "resnet-small"}, {24, 2, "resnet-small"}, {28, 2, "resnet-small"},
                {32, 2, "resnet-small"}, {64, 4, "resnet-small"}, {68, 4, "resnet18"},     {1024, 64, "resnet18"}};
    const char *const set[] = {"crop_pad=5", "net=resnet32"};
    rc_learn_settings none = {0}, own = {.set = set, .sets = 2}, preset = {.preset = "learn"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        rc_config config;
        rc_dataset data = {.h = rows[i].size, .w = rows[i].size, .c = 3};
        configured(&none, NULL, &config);
        rc_learn_fit_config(&config, &none, &data);
        assert_int_equal(config.size, rows[i].size);
        assert_int_equal(config.settings.crop_pad, rows[i].crop_pad);
        assert_string_equal(config.settings.net, rows[i].net);
        /* What was set wins, and so does a preset that was named. */
        configured(&own, NULL, &config);
        rc_learn_fit_config(&config, &own, &data);
        assert_int_equal(config.settings.crop_pad, 5);
        assert_string_equal(config.settings.net, "resnet32");
        configured(&preset, NULL, &config);
        rc_learn_fit_config(&config, &preset, &data);
        assert_int_equal(config.settings.crop_pad, 2);
        assert_string_equal(config.settings.net, "resnet-small");
    }
}

static void photographs_in_colour_are_coloured(void **state)
{
    (void)state;
    static const struct {
        int channels, inversion_steps;
        double colour;
        const char *set, *preset;
        bool said;
    } rows[] = {
        {3, 500, 0.3, NULL, NULL, true},           {1, 1000, 0, NULL, NULL, false},
        {3, 500, 0.1, "colour=0.1", NULL, false},  {3, 500, 0, "colour=0", NULL, false},
        {1, 1000, 0.2, "colour=0.2", NULL, false}, {3, 77, 0.3, "inversion_steps=77", NULL, true},
        {3, 1000, 0, NULL, "learn", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[400] = "";
        rc_config config;
        const char *const set[] = {rows[i].set};
        rc_learn_settings settings = {.set = set, .sets = rows[i].set != NULL, .preset = rows[i].preset};
        rc_dataset data = {.h = 32, .w = 32, .c = rows[i].channels};
        configured(&settings, NULL, &config);
        rc_learn_fit_config(&config, &settings, &data);
        assert_int_equal(config.settings.inversion_steps, rows[i].inversion_steps);
        assert_true(config.settings.colour == rows[i].colour);
        assert_int_equal(rc_learn_tell_colour(&config.settings, &settings, text, sizeof text), rows[i].said);
        assert_int_equal(strstr(text, "by up to 30 %, because photographs") != NULL, rows[i].said);
    }
}

static void what_was_chosen_is_said(void **state)
{
    (void)state;
    static const struct {
        int n_old, images;
        const char *set, *says;
    } rows[] = {
        {0, 20, NULL,
         "chosen: 300 steps of training (300 epochs of 20 images), because a net needs that many steps, however few "
         "the "
         "images; the setting 'epochs' takes others"},
        {6, 36, NULL,
         "chosen: 1000 steps of inversion, 300 steps of training (300 epochs of 36 images) and 300 of refinement (300 "
         "epochs), because a net needs"},
        {0, 2700, NULL,
         "chosen: 3150 steps of training (75 epochs of 2700 images), because the steps that a first model needs "
         "grow with the square root of the number of images; the setting 'epochs' takes others"},
        {6, 1000, NULL,
         "chosen: 1000 steps of inversion, 300 steps of training (20 epochs of 1000 images) and 300 of refinement (20 "
         "epochs), because longer lessons teach new classes little and cost old ones more; the setting"},
        {0, 640000, NULL, "steps of training (1 epoch of 640000 images), because more steps gain little, however many"},
        {0, 10, "epochs=1", "steps: 1 step of training (1 epoch of 10 images), as asked"},
        {6, 360, "epochs=40",
         "steps: 1000 steps of inversion, 100 steps of training (20 epochs of 360 images) and 100 of refinement (20 "
         "epochs), as asked"},
        {6, 360, "epochs=2",
         "steps: 1000 steps of inversion, 5 steps of training (1 epoch of 360 images) and 5 of refinement (1 epoch), "
         "as asked"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[400];
        const char *const set[] = {rows[i].set};
        rc_learn_settings settings = {.set = set, .sets = rows[i].set != NULL};
        rc_settings s = usual();
        s.inversion_steps = 1000;
        if (rows[i].set != NULL) {
            s.min_steps = RC_LEARN_EXACT;
            s.epochs = atoi(rows[i].set + strlen("epochs="));
            s.refine_epochs = rows[i].n_old > 0 ? s.epochs / 2 : 0;
        }
        rc_lesson_size size = lesson(rows[i].n_old, 2, rows[i].images);
        rc_learn_reason reason = rc_learn_stretch(&s, &settings, &size);
        rc_learn_tell_steps(&s, &size, reason, text, sizeof text);
        if (strstr(text, rows[i].says) == NULL)
            fail_msg("'%s', expected '%s'", text, rows[i].says);
        if (reason == RC_LEARN_ASKED && strstr(text, "takes others") != NULL)
            fail_msg("'%s' offers what was asked for", text);
    }
    char text[400];
    rc_settings s = usual();
    rc_lesson_size size = lesson(0, 2, 2700);
    const rc_learn_settings preset = {.preset = "learn"};
    rc_learn_tell_steps(&s, &size, rc_learn_stretch(&s, &preset, &size), text, sizeof text);
    assert_string_equal(text,
                        "chosen: 840 steps of training (20 epochs of 2700 images), the usual number of epochs; the "
                        "setting 'epochs' takes others");
}

/* A lesson that trains the whole net of a model with statistics of `known` of its 4 classes. */
static const char *method_of_lesson(const char *own, const rc_learn_settings *settings, int known, rc_config *config,
                                    char why[400])
{
    double mean;
    rc_learner l = {.student.head.classes = 4, .statistics_classes = known, .class_mean = known > 0 ? &mean : NULL};
    const rc_method *method;
    SUCCEEDS(rc_method_find(own, &method));
    strcpy(why, "nothing was said");
    SUCCEEDS(rc_learn_choose_method(&l, settings, config, &method, why, 400));
    return method->name;
}

static void later_lessons_have_statistics_that_follow(void **state)
{
    (void)state;
    const rc_learn_settings none = {0}, asks = {.method = "cwd"};
    rc_config config = rc_config_default(), asked = config;
    char why[400];
    assert_string_equal(method_of_lesson("cwd", &asks, 4, &config, why), "cwd");
    assert_string_equal(method_of_lesson("cwd", &none, 3, &config, why), "cwd");
    assert_string_equal(method_of_lesson("cwd", &none, 0, &config, why), "cwd");
    assert_string_equal(method_of_lesson("rdfcil", &none, 4, &config, why), "rdfcil");
    assert_string_equal(method_of_lesson("cwd+", &none, 4, &config, why), "cwd+");
    assert_string_equal(why, "nothing was said");
    assert_string_equal(config.settings.rotations, "method");
    assert_int_equal(config.settings.generators, 0);

    assert_string_equal(method_of_lesson("cwd", &none, 4, &config, why), "cwd+");
    assert_non_null(strstr(why, "chosen: CwD+ in place of CwD, without turned images and with one generator, because"));
    assert_string_equal(config.settings.rotations, "off");
    assert_int_equal(config.settings.generators, 1);

    SUCCEEDS(rc_config_set(&asked, "rotations", "all"));
    SUCCEEDS(rc_config_set(&asked, "generators", "3"));
    assert_string_equal(method_of_lesson("cwd", &none, 4, &asked, why), "cwd+");
    assert_string_equal(asked.settings.rotations, "all");
    assert_int_equal(asked.settings.generators, 3);
    assert_non_null(strstr(why, "chosen: CwD+ in place of CwD, because"));

    static const char *const method[] = {"rotations=method"}, *const zero[] = {"generators=0"};
    const rc_learn_settings turned = {.set = method, .sets = 1}, two = {.set = zero, .sets = 1};
    asked = rc_config_default(); /* what was set stays, even where it is as usual */
    assert_string_equal(method_of_lesson("cwd", &turned, 4, &asked, why), "cwd+");
    assert_string_equal(asked.settings.rotations, "method");
    assert_int_equal(asked.settings.generators, 1);
    assert_non_null(strstr(why, "chosen: CwD+ in place of CwD, with one generator, because"));
    asked = rc_config_default();
    assert_string_equal(method_of_lesson("cwd", &two, 4, &asked, why), "cwd+");
    assert_string_equal(asked.settings.rotations, "off");
    assert_int_equal(asked.settings.generators, 0);
    assert_non_null(strstr(why, "chosen: CwD+ in place of CwD, without turned images, because"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_images_get_the_least_steps),
        cmocka_unit_test(enough_images_change_nothing),
        cmocka_unit_test(many_images_end_in_time),
        cmocka_unit_test(a_single_class_pulls_less),
        cmocka_unit_test(the_number_of_images_decides_how_long),
        cmocka_unit_test(epochs_that_were_asked_for_are_exact),
        cmocka_unit_test(other_settings_win_over_the_choice),
        cmocka_unit_test(photographs_come_to_32_pixels),
        cmocka_unit_test(large_images_are_shifted_farther),
        cmocka_unit_test(photographs_in_colour_are_coloured),
        cmocka_unit_test(what_was_chosen_is_said),
        cmocka_unit_test(later_lessons_have_statistics_that_follow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
