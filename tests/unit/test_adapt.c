/* What a lesson changes (api/adapt.h): the choice, and lessons of the head alone. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "api/adapt.h"
#include "api/api.h"
#include "base/memory.h"
#include "cil/head_fit.h"
#include "cil/moved.h"
#include "cil/scorer.h"
#include "nn/expected.h"
#include "support/api_checks.h"
#include "support/api_data.h"
#include "support/failing_heap.h"

enum { OLD = 3, NEW = 2, IMAGES = 10 };

static recollect_context *context;
static void *bytes[2]; /* models of OLD classes: by CwD, which keeps class statistics, and by fine-tuning */
static size_t sizes[2];
static api_data old, new, new_test;
static bool cancels;

static int on_question(void *user)
{
    (void)user;
    return cancels;
}

static recollect_model *make(const char *method)
{
    recollect_model *model;
    SUCCEEDS(recollect_model_create(context, &model));
    api_set_quick(model, 40);
    SUCCEEDS(recollect_model_set(model, "method", method));
    SUCCEEDS(recollect_learn(model, &old.images, old.labels, old.names, OLD, NULL));
    return model;
}

static int set_up(void **state)
{
    (void)state;
    recollect_settings settings = {.size = sizeof settings, .backend = "cpu", .threads = 2, .cancelled = on_question};
    SUCCEEDS(recollect_context_create(&settings, &context));
    api_data_make(&old, 0, OLD, IMAGES, 1);
    api_data_make(&new, OLD, NEW, IMAGES, 2);
    api_data_make(&new_test, OLD, NEW, IMAGES, 3);
    for (int i = 0; i < 2; i++) {
        recollect_model *model = make(i == 0 ? "cwd" : "finetune");
        SUCCEEDS(recollect_model_save_memory(model, &bytes[i], &sizes[i]));
        recollect_model_destroy(&model);
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++)
        recollect_free(bytes[i]);
    api_data_free(&old);
    api_data_free(&new);
    api_data_free(&new_test);
    recollect_context_destroy(&context);
    return 0;
}

/* A model that learns as nobody has said otherwise. */
static recollect_model *load(bool statistics)
{
    recollect_model *model;
    SUCCEEDS(recollect_model_load_memory(context, bytes[!statistics], sizes[!statistics], &model));
    return model;
}

/* One as if it came from elsewhere: with a bias, 1, 2, 3, and no class statistics. */
static recollect_model *load_foreign(void)
{
    const float bias[OLD] = {1, 2, 3};
    recollect_model *model = load(false);
    rc_head *head = &model->saved.learner.student.head;
    SUCCEEDS((recollect_status)rc_head_add_bias(head));
    head->backend->write_real(head->backend, head->bias, bias, OLD);
    model->saved.imported = true;
    return model;
}

static recollect_model *load_for_head(bool statistics)
{
    recollect_model *model = statistics ? load(true) : load_foreign();
    SUCCEEDS(recollect_model_set(model, "adapt", "head"));
    return model;
}

static void read_reals(const recollect_model *model, const void *from, size_t count, float *to)
{
    rc_backend *be = model->saved.learner.backend;
    be->read_real(be, to, from, count);
    assert_int_equal(be->sync(be), RC_OK);
}

/* ---- the choice -------------------------------------------------------------------------------------------------- */

static void names_are_read(void **state)
{
    (void)state;
    rc_adapt adapt = RC_ADAPT_ALL;
    char text[16];
    for (rc_adapt a = RC_ADAPT_CHOSEN; a <= RC_ADAPT_ALL; a++) {
        assert_int_equal(rc_adapt_read(rc_adapt_name(a), &adapt), RC_OK);
        assert_int_equal(adapt, a);
    }
    REFUSED(rc_adapt_read("tops", &adapt), "adapt is 'tops', expected head, top or all");
    REFUSED(recollect_check_option("adapt", "heads"), "expected head, top or all");
    recollect_model *model = load(true);
    SUCCEEDS(recollect_model_get(model, "adapt", text, sizeof text));
    assert_string_equal(text, "");
    SUCCEEDS(recollect_model_set(model, "adapt", "head"));
    SUCCEEDS(recollect_model_get(model, "adapt", text, sizeof text));
    assert_string_equal(text, "head");
    recollect_model_destroy(&model);
}

static rc_adapt choice(const recollect_model *model, const rc_learn_settings *settings, const char *words)
{
    rc_adapt adapt;
    char why[400];
    const rc_adapt_facts facts = {&model->saved, settings, NEW, 20};
    assert_int_equal(rc_adapt_choose(&facts, &adapt, why, sizeof why), RC_OK);
    if (words[0] == '\0' ? why[0] != '\0' : strstr(why, words) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", why, words);
    return adapt;
}

/* A foreign net that knows many classes, or has large images, keeps its features. Of any other the last stage learns,
 * too. */
static void what_a_foreign_net_learns_by(void **state)
{
    (void)state;
    const char *const epochs = "epochs=3", *const rate = "learning_rate=0.1";
    recollect_model *own = load(true), *plain = load(false), *foreign = load_foreign();
    rc_learner *l = &foreign->saved.learner;
    assert_int_equal(choice(plain, &(rc_learn_settings){0}, ""), RC_ADAPT_ALL);
    assert_int_equal(choice(foreign, &(rc_learn_settings){0}, "made for 3 classes only"), RC_ADAPT_TOP);
    assert_int_equal(choice(foreign, &(rc_learn_settings){0}, "2 new classes"), RC_ADAPT_TOP);
    l->augment.h = l->augment.w = 64;
    assert_int_equal(choice(foreign, &(rc_learn_settings){0}, "the last stage of the net learns"), RC_ADAPT_TOP);
    l->augment.h = l->augment.w = 65;
    assert_int_equal(choice(foreign, &(rc_learn_settings){0}, "images of 65 pixels; it was made for 3 classes"),
                     RC_ADAPT_HEAD);
    l->augment.h = l->augment.w = API_SIZE;
    assert_int_equal(rc_head_grow(&l->student.head, 99 - OLD, (rc_rng){0, 0}), RC_OK);
    assert_int_equal(choice(foreign, &(rc_learn_settings){0}, "made for 99 classes only"), RC_ADAPT_TOP);
    assert_int_equal(rc_head_grow(&l->student.head, 1, (rc_rng){0, 0}), RC_OK);
    assert_int_equal(choice(foreign, &(rc_learn_settings){0}, "tell 100 classes apart, and 20 images of 2 new classes"),
                     RC_ADAPT_HEAD);
    assert_int_equal(choice(foreign, &(rc_learn_settings){.set = &rate, .sets = 1}, "the head alone"), RC_ADAPT_HEAD);
    assert_int_equal(choice(foreign, &(rc_learn_settings){.set = &epochs, .sets = 1}, "because epochs was set"),
                     RC_ADAPT_ALL);
    assert_int_equal(choice(foreign, &(rc_learn_settings){.method = "cwd"}, "because method was set"), RC_ADAPT_ALL);
    assert_int_equal(choice(foreign, &(rc_learn_settings){.adapt = RC_ADAPT_ALL}, ""), RC_ADAPT_ALL);
    l->student.head.classes = OLD; /* which have names */
    assert_int_equal(choice(own, &(rc_learn_settings){.method = "cwd"}, ""), RC_ADAPT_ALL);
    assert_int_equal(choice(own, &(rc_learn_settings){.set = &epochs, .sets = 1}, ""), RC_ADAPT_ALL);
    assert_int_equal(choice(own, &(rc_learn_settings){.adapt = RC_ADAPT_HEAD}, ""), RC_ADAPT_HEAD);
    assert_int_equal(choice(own, &(rc_learn_settings){.adapt = RC_ADAPT_HEAD, .set = &epochs, .sets = 1},
                            "epochs is of no use"),
                     RC_ADAPT_HEAD);
    /* A net that has statistics learns by them, wherever it came from. */
    own->saved.imported = true;
    assert_int_equal(choice(own, &(rc_learn_settings){0}, "from the statistics"), RC_ADAPT_HEAD);
    recollect_model_destroy(&own);
    recollect_model_destroy(&plain);
    recollect_model_destroy(&foreign);
}

/* Statistics of images of every class are enough for the head, unless more classes come than there are. */
static void what_an_own_net_learns_by(void **state)
{
    (void)state;
    recollect_model *own = load(true);
    rc_learner *l = &own->saved.learner;
    const rc_learn_settings nothing = {0};
    rc_adapt adapt;
    char why[400];
    assert_int_equal(choice(own, &nothing,
                            "chosen: the head alone, with rows for all 5 classes from the statistics of the 3 known"),
                     RC_ADAPT_HEAD);
    for (int n_new = OLD; n_new <= OLD + 1; n_new++) {
        const rc_adapt_facts facts = {&own->saved, &nothing, n_new, 20};
        assert_int_equal(rc_adapt_choose(&facts, &adapt, why, sizeof why), RC_OK);
        assert_int_equal(adapt, n_new == OLD ? RC_ADAPT_HEAD : RC_ADAPT_ALL);
        assert_int_equal(why[0] == '\0', n_new > OLD);
    }
    assert_int_equal(choice(own, &nothing, "or more, in seconds; "), RC_ADAPT_HEAD);
    l->statistics_classes = l->student.head.classes = RC_ADAPT_QUICK_CLASSES - NEW;
    assert_int_equal(choice(own, &nothing, "or more, in seconds; "), RC_ADAPT_HEAD);
    l->statistics_classes = ++l->student.head.classes;
    assert_int_equal(choice(own, &nothing, "or more; "), RC_ADAPT_HEAD);
    l->statistics_classes = l->student.head.classes = OLD;
    l->statistics_of_images = false;
    assert_int_equal(choice(own, &nothing, ""), RC_ADAPT_ALL);
    l->statistics_of_images = true;
    l->student.head.classes = OLD + 1; /* one without statistics */
    assert_int_equal(choice(own, &nothing, ""), RC_ADAPT_ALL);
    l->student.head.classes = OLD;
    recollect_model_destroy(&own);
}

/* The model as a file keeps it; destroys the first one. `older`: its key of where nets come from is not known. */
static recollect_model *through_a_file(recollect_model *model, bool older)
{
    static const char key[] = "\"origin\"";
    recollect_model *again;
    void *file;
    size_t size;
    SUCCEEDS(recollect_model_save_memory(model, &file, &size));
    char *at = file;
    while (memcmp(at, key, sizeof key - 1) != 0)
        assert_true(++at < (char *)file + size - sizeof key);
    at[1] = older ? 'O' : 'o';
    SUCCEEDS(recollect_model_load_memory(context, file, size, &again));
    recollect_free(file);
    recollect_model_destroy(&model);
    return again;
}

/* A lesson of the head gives it a bias, and a lesson by a method without statistics drops those that it had. */
static void a_net_that_was_trained_here_stays_so(void **state)
{
    (void)state;
    static const char *const methods[] = {"finetune", "er"};
    api_data next;
    const char *const name = "next";
    api_data_make(&next, OLD + NEW, 1, IMAGES, 4);
    for (int i = 0; i < 2; i++) {
        recollect_learn_result result = {.size = sizeof result};
        recollect_model *model = load(true);
        SUCCEEDS(recollect_learn(model, &new.images, new.labels, new.names, NEW, &result));
        assert_string_equal(result.adapt, "head");
        SUCCEEDS(recollect_model_set(model, "method", methods[i]));
        SUCCEEDS(recollect_learn(model, &next.images, next.labels, &name, 1, &result));
        assert_string_equal(result.adapt, "all");
        model = through_a_file(model, false);
        rc_learner *l = &model->saved.learner;
        assert_true(l->student.head.bias != NULL && l->class_mean == NULL);
        assert_int_equal(choice(model, &(rc_learn_settings){0}, ""), RC_ADAPT_ALL);
        l->augment.h = l->augment.w = RC_ADAPT_SMALL_IMAGE + 1;
        assert_int_equal(choice(model, &(rc_learn_settings){0}, ""), RC_ADAPT_ALL);
        recollect_model_destroy(&model);
    }
    api_data_free(&next);
}

/* A net from elsewhere that keeps images of every lesson learns as a whole, small or large. */
static void who_keeps_images_learns_as_a_whole(void **state)
{
    (void)state;
    recollect_model *model = load_foreign();
    SUCCEEDS(recollect_model_set(model, "method", "er"));
    SUCCEEDS(recollect_learn(model, &new.images, new.labels, new.names, NEW, NULL));
    model = through_a_file(model, false);
    rc_learner *l = &model->saved.learner;
    assert_true(model->saved.imported);
    for (int size = API_SIZE; size <= RC_ADAPT_SMALL_IMAGE + 1; size += RC_ADAPT_SMALL_IMAGE + 1 - API_SIZE) {
        l->augment.h = l->augment.w = size;
        assert_int_equal(choice(model, &(rc_learn_settings){0}, ""), RC_ADAPT_ALL);
        assert_int_equal(choice(model, &(rc_learn_settings){.method = "er"}, "because method was set"), RC_ADAPT_ALL);
    }
    recollect_model_destroy(&model);
}

/* Files of earlier versions tell it by the bias of the head and by class statistics. */
static void files_say_where_a_net_comes_from(void **state)
{
    (void)state;
    for (int older = 0; older < 2; older++) {
        recollect_model *foreign = through_a_file(load_foreign(), older), *plain = through_a_file(load(false), older);
        assert_true(foreign->saved.imported);
        assert_false(plain->saved.imported);
        SUCCEEDS(recollect_model_set(foreign, "adapt", "head"));
        SUCCEEDS(recollect_learn(foreign, &new.images, new.labels, new.names, NEW, NULL));
        assert_true(foreign->saved.imported);
        foreign = through_a_file(foreign, older);
        assert_int_equal(choice(foreign, &(rc_learn_settings){0}, "comes from elsewhere"), RC_ADAPT_TOP);
        recollect_model_destroy(&foreign);
        recollect_model_destroy(&plain);
    }
    for (int statistics = 0; statistics < 2; statistics++) {
        recollect_model *own = load(statistics);
        assert_int_equal(rc_head_add_bias(&own->saved.learner.student.head), RC_OK);
        own = through_a_file(own, true);
        assert_int_equal(own->saved.imported, !statistics);
        own->saved.imported = false;
        own = through_a_file(own, false);
        assert_false(own->saved.imported);
        recollect_model_destroy(&own);
    }
}

static void the_head_alone_needs_a_model_that_keeps_no_images(void **state)
{
    (void)state;
    recollect_model *model;
    SUCCEEDS(recollect_model_create(context, &model));
    api_set_quick(model, 2);
    SUCCEEDS(recollect_model_set(model, "adapt", "head"));
    REFUSED(recollect_learn(model, &old.images, old.labels, old.names, OLD, NULL), "a first model learns as a whole");
    SUCCEEDS(recollect_model_set(model, "adapt", "top"));
    REFUSED(recollect_learn(model, &old.images, old.labels, old.names, OLD, NULL), "cannot be top");
    SUCCEEDS(recollect_model_set(model, "adapt", ""));
    SUCCEEDS(recollect_model_set(model, "method", "er"));
    SUCCEEDS(recollect_learn(model, &old.images, old.labels, old.names, OLD, NULL));
    SUCCEEDS(recollect_model_set(model, "adapt", "head"));
    REFUSED(recollect_learn(model, &new.images, new.labels, new.names, NEW, NULL),
            "keeps some of the images of every lesson");
    recollect_model_destroy(&model);
}

/* ---- a lesson ---------------------------------------------------------------------------------------------------- */

static void what_was_there_keeps_its_bits(void **state)
{
    (void)state;
    for (int statistics = 0; statistics < 2; statistics++) {
        recollect_model *model = load_for_head(statistics), *before = statistics ? load(true) : load_foreign();
        recollect_learn_result result = {.size = sizeof result};
        const rc_learner *l = &model->saved.learner, *was = &before->saved.learner;
        SUCCEEDS(recollect_learn(model, &new.images, new.labels, new.names, NEW, &result));
        size_t d = (size_t)l->student.head.d, most = l->net.params + l->net.running + OLD * d;
        float *a = calloc(most, sizeof *a), *b = calloc(most, sizeof *b);
        const struct {
            const void *now, *before;
            size_t count;
        } part[] = {{l->student.backbone.param, was->student.backbone.param, l->net.params},
                    {l->student.backbone.running, was->student.backbone.running, l->net.running},
                    {l->student.head.weight, was->student.head.weight, OLD * d},
                    {l->student.head.bias, was->student.head.bias, OLD},
                    {l->class_mean, was->class_mean, OLD * d}};
        for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
            if (part[i].now == NULL || part[i].before == NULL)
                continue;
            read_reals(model, part[i].now, part[i].count, a);
            read_reals(before, part[i].before, part[i].count, b);
            if (statistics && part[i].now == l->student.head.weight) /* all rows are fitted anew */
                assert_memory_not_equal(a, b, part[i].count * sizeof *a);
            else
                assert_memory_equal(a, b, part[i].count * sizeof *a);
        }
        assert_int_equal(l->statistics_of_images, statistics);
        assert_string_equal(result.adapt, "head");
        assert_int_equal(result.epochs, 0);
        assert_int_equal(result.added, NEW);
        assert_int_equal(recollect_model_classes(model), OLD + NEW);
        assert_int_equal(recollect_model_task_classes(model, 1), NEW);
        assert_true(api_accuracy(model, &new_test) >= 80);
        assert_string_equal(l->method->name, was->method->name);
        free(a);
        free(b);
        recollect_model_destroy(&model);
        recollect_model_destroy(&before);
    }
}

/* The last stage learns, the layers before it stay, and the lesson after it is not bound by that. */
static void the_top_is_the_last_stage(void **state)
{
    (void)state;
    recollect_model *model = load(true), *before = load(true);
    recollect_learn_result result = {.size = sizeof result};
    const rc_learner *l = &model->saved.learner;
    size_t all = l->net.params, frozen = rc_net_params_before(&l->net, rc_net_layers_before(&l->net, 1));
    float *a = calloc(all, sizeof *a), *b = calloc(all, sizeof *b);
    char stages[8];
    SUCCEEDS(recollect_model_set(model, "adapt", "top"));
    SUCCEEDS(recollect_learn(model, &new.images, new.labels, new.names, NEW, &result));
    assert_string_equal(result.adapt, "top");
    read_reals(model, l->student.backbone.param, all, a);
    read_reals(before, before->saved.learner.student.backbone.param, all, b);
    assert_in_range(frozen, 1, all - 1);
    assert_memory_equal(a, b, frozen * sizeof *a);
    assert_memory_not_equal(a + frozen, b + frozen, (all - frozen) * sizeof *a);
    SUCCEEDS(recollect_model_get(model, "trained_stages", stages, sizeof stages));
    assert_string_equal(stages, "0");
    free(a);
    free(b);
    recollect_model_destroy(&model);
    recollect_model_destroy(&before);
}

/* At the centre every new class has as much as a usual old one, or less (the guard). */
static void check_level(const recollect_model *model, const double *centre)
{
    const rc_learner *l = &model->saved.learner;
    size_t d = (size_t)l->student.head.d;
    float *weight = calloc((OLD + NEW) * d, sizeof *weight), bias[OLD + NEW];
    double base = 0, first = NAN;
    read_reals(model, l->student.head.weight, (OLD + NEW) * d, weight);
    read_reals(model, l->student.head.bias, OLD + NEW, bias);
    for (size_t k = 0; k < OLD + NEW; k++) {
        double logit = (double)bias[k], norm = 0;
        for (size_t j = 0; j < d; j++) {
            logit += (double)weight[k * d + j] * centre[j];
            norm += (double)weight[k * d + j] * (double)weight[k * d + j];
        }
        base += k < OLD ? logit / OLD : 0;
        first = k == OLD ? logit : first;
        assert_true(norm > 1e-3); /* the rows are not those that growing has drawn */
        if (k >= OLD)
            assert_true(fabs(logit - first) < 1e-4 && logit < base + 1e-4);
    }
    free(weight);
}

/* The centre is what a foreign net's normalisations tell. */
static void new_classes_are_level_with_old_ones_at_the_centre(void **state)
{
    (void)state;
    recollect_model *model = load_for_head(false);
    const rc_learner *l = &model->saved.learner;
    double *centre = calloc((size_t)l->student.head.d, sizeof *centre);
    SUCCEEDS(recollect_learn(model, &new.images, new.labels, new.names, NEW, NULL));
    assert_int_equal(rc_expected_features(&l->student.backbone, centre), RC_OK);
    check_level(model, centre);
    free(centre);
    recollect_model_destroy(&model);
}

static float *features_of(const recollect_model *model, const api_data *data, int count);

/* Of SiLU normalisations tell nothing: channels that it reaches are centred by the new images. */
static void a_centre_that_nothing_tells_is_that_of_the_new_images(void **state)
{
    (void)state;
    recollect_model *model = load_for_head(false);
    rc_learner *l = &model->saved.learner;
    size_t d = (size_t)l->student.head.d;
    double *centre = calloc(d, sizeof *centre);
    for (int i = 0; i < l->net.layers; i++)
        if (l->net.layer[i].act == RC_ACT_RELU)
            l->net.layer[i].act = RC_ACT_SILU;
    assert_int_equal(rc_expected_features(&l->student.backbone, centre), RC_OK);
    float *feature = features_of(model, &new, NEW * IMAGES);
    int untold = 0;
    for (size_t j = 0; j < d; j++) {
        if (!isnan(centre[j])) /* no shortcut leads there */
            continue;
        untold++;
        centre[j] = 0;
        for (size_t i = 0; i < NEW * IMAGES; i++)
            centre[j] += (double)feature[i * d + j] / (NEW * IMAGES);
    }
    assert_true(untold > 0);
    const rc_watch nobody = {0};
    int32_t labels[NEW * IMAGES];
    double wall[RC_STAGE_COUNT];
    for (int i = 0; i < NEW * IMAGES; i++)
        labels[i] = OLD + new.labels[i];
    rc_head_lesson lesson = {&model->saved, new.pixels, labels, NEW *IMAGES, NEW, 1, &nobody, wall};
    assert_int_equal(rc_adapt_head(&lesson), RC_OK);
    check_level(model, centre);
    l->student.head.classes = OLD; /* which have names */
    free(feature);
    free(centre);
    recollect_model_destroy(&model);
}

/* Those of old classes have their bits. Those of new ones are of their images (NEW * IMAGES, d) around their means
 * (NEW, d), and of the shared covariance, which counts as 16 images. */
static void check_factors(const recollect_model *model, const recollect_model *before, const float *feature,
                          const double *mean, const float *shared)
{
    const rc_learner *l = &model->saved.learner;
    size_t d = (size_t)l->student.head.d, numbers = d * (d + 1) / 2;
    float *now = calloc((OLD + NEW) * numbers, sizeof *now), *was = calloc(OLD * numbers, sizeof *was);
    assert_true(l->class_factor != NULL && before->saved.learner.class_factor != NULL);
    read_reals(model, l->class_factor, (OLD + NEW) * numbers, now);
    read_reals(before, before->saved.learner.class_factor, OLD * numbers, was);
    assert_memory_equal(now, was, OLD * numbers * sizeof *was);
    for (size_t k = 0; k < NEW; k++)
        for (size_t a = 0; a < d; a++)
            for (size_t b = 0; b <= a; b++) {
                double wanted = 16 * (double)shared[a * d + b], product = 0;
                for (size_t i = 0; i < NEW * IMAGES; i++)
                    if ((size_t) new.labels[i] == k)
                        wanted += ((double)feature[i * d + a] - mean[k * d + a]) *
                                  ((double)feature[i * d + b] - mean[k * d + b]);
                const float *row = now + (OLD + k) * numbers;
                for (size_t j = 0; j <= b; j++)
                    product += (double)row[a * (a + 1) / 2 + j] * (double)row[b * (b + 1) / 2 + j];
                assert_true(fabs(product - wanted / (15 + IMAGES)) < 1e-4 * (1 + fabs(product)));
            }
    free(now);
    free(was);
}

/* Means of the new classes are those of their features; the covariance is between the old one and theirs. */
static void class_statistics_go_on(void **state)
{
    (void)state;
    recollect_model *model = load_for_head(true), *before = load(true);
    const rc_learner *l = &model->saved.learner;
    size_t d = (size_t)l->student.head.d, pixels = API_IMAGE;
    SUCCEEDS(recollect_learn(model, &new.images, new.labels, new.names, NEW, NULL));
    assert_int_equal(l->statistics_classes, OLD + NEW);
    float *mean = calloc((OLD + NEW) * d, sizeof *mean), *feature = calloc(NEW * IMAGES * d, sizeof *feature);
    float *now = calloc(d * d, sizeof *now), *was = calloc(d * d, sizeof *was);
    double *own = calloc(NEW * d, sizeof *own);
    rc_scorer *scorer;
    assert_int_equal(rc_scorer_create(l->backend, &l->student, 1, &l->augment, &scorer), RC_OK);
    for (int i = 0; i < NEW * IMAGES; i++)
        assert_int_equal(rc_scorer_run(scorer, new.pixels + (size_t)i *pixels, NULL, 1, NULL, feature + (size_t)i * d),
                         RC_OK);
    rc_scorer_destroy(scorer);
    for (size_t i = 0; i < NEW * IMAGES; i++)
        for (size_t j = 0; j < d; j++)
            own[(size_t) new.labels[i] * d + j] += (double)feature[i * d + j] / IMAGES;
    read_reals(model, l->class_mean, (OLD + NEW) * d, mean);
    for (size_t i = 0; i < NEW * d; i++)
        assert_true(fabs((double)mean[OLD * d + i] - own[i]) < 1e-5);
    read_reals(model, l->covariance, d * d, now);
    read_reals(before, before->saved.learner.covariance, d * d, was);
    for (size_t a = 0; a < d; a++)
        for (size_t b = 0; b < d; b++) {
            double scatter = 0;
            for (size_t i = 0; i < NEW * IMAGES; i++) {
                const double *m = own + (size_t) new.labels[i] * d;
                scatter += ((double)feature[i * d + a] - m[a]) * ((double)feature[i * d + b] - m[b]);
            }
            double wanted = (OLD * (double)was[a * d + b] + NEW * scatter / (NEW * IMAGES - NEW)) / (OLD + NEW);
            assert_true(fabs((double)now[a * d + b] - wanted) < 1e-5 * (1 + fabs(wanted)));
        }
    check_factors(model, before, feature, own, now);
    free(mean);
    free(feature);
    free(now);
    free(was);
    free(own);
    recollect_model_destroy(&model);
    recollect_model_destroy(&before);
}

/* ---- the lesson after it ----------------------------------------------------------------------------------------- */

static float *features_of(const recollect_model *model, const api_data *data, int count)
{
    const rc_learner *l = &model->saved.learner;
    size_t d = (size_t)l->student.head.d;
    float *feature = calloc((size_t)count * d, sizeof *feature);
    rc_scorer *scorer;
    assert_int_equal(rc_scorer_create(l->backend, &l->student, 1, &l->augment, &scorer), RC_OK);
    for (int i = 0; i < count; i++)
        assert_int_equal(
            rc_scorer_run(scorer, data->pixels + (size_t)i * API_IMAGE, NULL, 1, NULL, feature + (size_t)i * d), RC_OK);
    rc_scorer_destroy(scorer);
    return feature;
}

static void find_variances(void *user, const char *text)
{
    bool *found = user;
    *found = *found || strstr(text, ": 5 class means, the variances of each class and one covariance of ") != NULL;
}

/* Where classes have variances of their own, the new ones get those of their features; all of it in the 16 bits that a
 * file has. */
static void variances_of_classes_go_on(void **state)
{
    (void)state;
    bool found = false;
    void *file;
    size_t size;
    recollect_model *model, *again;
    SUCCEEDS(recollect_model_create(context, &model));
    api_set_quick(model, 40);
    SUCCEEDS(recollect_model_set(model, "method", "cwd+"));
    SUCCEEDS(recollect_model_set(model, "plus_variances", "true"));
    SUCCEEDS(recollect_learn(model, &old.images, old.labels, old.names, OLD, NULL));
    SUCCEEDS(recollect_model_set(model, "adapt", "head"));
    const rc_learner *l = &model->saved.learner;
    size_t d = (size_t)l->student.head.d, all = (OLD + NEW) * d;
    float *was = calloc(OLD * d, sizeof *was), *now = calloc(2 * all, sizeof *now), *mean = now + all;
    double *own = calloc(2 * NEW * d, sizeof *own), *variance = own + NEW * d;
    assert_non_null(l->class_variance);
    read_reals(model, l->class_variance, OLD * d, was);
    SUCCEEDS(recollect_learn(model, &new.images, new.labels, new.names, NEW, NULL));
    SUCCEEDS(recollect_model_save_memory(model, &file, &size));
    SUCCEEDS(recollect_model_load_memory(context, file, size, &again));
    assert_non_null(l->class_variance);
    read_reals(model, l->class_variance, all, now);
    read_reals(model, l->class_mean, all, mean);
    assert_memory_equal(now, was, OLD * d * sizeof *was);
    float *feature = features_of(model, &new, NEW * IMAGES);
    for (size_t i = 0; i < NEW * IMAGES * d; i++)
        own[(size_t) new.labels[i / d] * d + i % d] += (double)feature[i] / IMAGES;
    for (size_t i = 0; i < NEW * IMAGES * d; i++) {
        size_t at = (size_t) new.labels[i / d] * d + i % d;
        variance[at] += ((double)feature[i] - own[at]) * ((double)feature[i] - own[at]) / IMAGES;
    }
    for (size_t i = 0; i < NEW * d; i++) { /* 11 bits, and 2^-24 where numbers are small */
        assert_true(fabs((double)mean[OLD * d + i] - own[i]) < 1e-5 + 0x1p-11 * fabs(own[i]));
        assert_true(fabs((double)now[OLD * d + i] - variance[i]) < 1e-6 + 0x1p-11 * 1.001 * variance[i]);
    }
    float *loaded = calloc(2 * all, sizeof *loaded);
    assert_non_null(again->saved.learner.class_variance);
    read_reals(again, again->saved.learner.class_variance, all, loaded);
    read_reals(again, again->saved.learner.class_mean, all, loaded + all);
    assert_memory_equal(now, loaded, 2 * all * sizeof *now);
    SUCCEEDS(recollect_describe_model(again, 0, find_variances, &found));
    assert_true(found);
    void *blocks[] = {was, now, own, feature, loaded};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        free(blocks[i]);
    recollect_free(file);
    recollect_model_destroy(&again);
    recollect_model_destroy(&model);
}

static void find_means(void *user, const char *text)
{
    bool *found = user;
    *found = *found || strstr(text, "2 class means of") != NULL;
}

/* A model without class statistics keeps the means of what its head was taught, in its file, too; and drops them when
 * the net changes. */
static void means_of_the_head_s_lessons_are_kept(void **state)
{
    (void)state;
    void *file;
    size_t size;
    bool found = false;
    recollect_model *model = load_for_head(false), *again;
    SUCCEEDS(recollect_learn(model, &new.images, new.labels, new.names, NEW, NULL));
    SUCCEEDS(recollect_model_save_memory(model, &file, &size));
    SUCCEEDS(recollect_model_load_memory(context, file, size, &again));
    const rc_learner *l = &again->saved.learner;
    size_t d = (size_t)l->student.head.d;
    assert_null(l->class_mean);
    assert_int_equal(l->taught, NEW);
    float *mean = calloc(2 * NEW * d, sizeof *mean), *feature = features_of(model, &new, NEW * IMAGES);
    double *own = calloc(NEW * d, sizeof *own);
    read_reals(again, l->taught_mean, NEW * d, mean);
    for (size_t i = 0; i < NEW * IMAGES; i++)
        for (size_t j = 0; j < d; j++)
            own[(size_t) new.labels[i] * d + j] += (double)feature[i * d + j] / IMAGES;
    for (size_t i = 0; i < NEW * d; i++)
        assert_true(fabs((double)mean[i] - own[i]) < 1e-5);
    rc_kept kept = rc_model_kept(&again->saved);
    assert_int_equal(kept.class_means, NEW * d * sizeof(float));
    assert_int_equal(kept.covariance, 0);
    assert_int_equal(again->saved.unknown_bytes, 0);
    SUCCEEDS(recollect_describe_model(again, 0, find_means, &found));
    assert_true(found);
    /* A second lesson puts its means behind them. */
    const char *const more[] = {"more", "and more"};
    SUCCEEDS(recollect_model_set(again, "adapt", "head"));
    SUCCEEDS(recollect_learn(again, &new.images, new.labels, more, NEW, NULL));
    assert_int_equal(l->taught, 2 * NEW);
    read_reals(again, l->taught_mean, 2 * NEW * d, mean);
    for (size_t i = 0; i < 2 * NEW * d; i++)
        assert_true(fabs((double)mean[i] - own[i % (NEW * d)]) < 1e-5);
    const char *const last[] = {"last", "and last"};
    SUCCEEDS(recollect_model_set(again, "adapt", "all"));
    SUCCEEDS(recollect_model_set(again, "epochs", "1"));
    SUCCEEDS(recollect_learn(again, &new.images, new.labels, last, NEW, NULL));
    assert_int_equal(l->taught, 0);
    assert_null(l->taught_mean);
    free(mean);
    free(own);
    free(feature);
    recollect_free(file);
    recollect_model_destroy(&model);
    recollect_model_destroy(&again);
}

/* What rc_adapt_head gives rc_head_fit, put together from what adapt.h and docs/pretrained.md say. */
typedef struct by_hand {
    int count, d;
    double *feature, *old_sum, *old_best, *weight, *centre;
    int32_t *label;
    double base;
} by_hand;

static void take_by_hand(by_hand *h, const float *weight, const float *bias, int known, int from)
{
    size_t d = (size_t)h->d;
    for (size_t i = (size_t)from; i < (size_t)h->count; i++) {
        double best = -INFINITY, sum = 0;
        for (int pass = 0; pass < 2; pass++)
            for (size_t k = 0; k < (size_t)known; k++) {
                double logit = (double)bias[k];
                for (size_t j = 0; j < d; j++)
                    logit += (double)weight[k * d + j] * h->feature[i * d + j];
                best = pass == 0 ? fmax(best, logit) : best;
                sum += pass == 1 ? exp(logit - best) : 0;
            }
        h->old_best[i] = best;
        h->old_sum[i] = best + log(sum);
    }
}

/* each: stand-ins of a class that was taught. */
static void fit_by_hand(recollect_model *model, const api_data *data, size_t each, double *row, rc_head_fitted *fitted)
{
    const rc_learner *l = &model->saved.learner;
    int known = l->student.head.classes;
    bool statistics = l->class_mean != NULL;
    size_t taught = (size_t)(statistics ? l->statistics_classes : l->taught), all = NEW * IMAGES + taught * each;
    by_hand h = {.count = (int)all, .d = l->student.head.d};
    size_t d = (size_t)h.d;
    float *weight = calloc((size_t)known * d, sizeof *weight), *bias = calloc((size_t)known, sizeof *bias);
    float *mean = calloc(taught * d, sizeof *mean), *feature = features_of(model, data, NEW * IMAGES);
    double *own = calloc(NEW * d, sizeof *own);
    h.feature = calloc(all * d, sizeof *h.feature);
    h.old_sum = calloc(3 * all, sizeof *h.old_sum);
    h.old_best = h.old_sum + all;
    h.weight = h.old_best + all;
    h.label = calloc(all, sizeof *h.label);
    h.centre = calloc(d, sizeof *h.centre);
    read_reals(model, l->student.head.weight, (size_t)known * d, weight);
    if (l->student.head.bias != NULL)
        read_reals(model, l->student.head.bias, (size_t)known, bias);
    read_reals(model, statistics ? l->class_mean : l->taught_mean, taught * d, mean);
    if (!statistics)
        assert_int_equal(rc_expected_features(&l->student.backbone, h.centre), RC_OK);
    for (size_t i = 0; statistics && i < taught * d; i++)
        h.centre[i % d] += (double)mean[i] / (double)taught;
    for (size_t i = 0; i < NEW * IMAGES; i++) {
        h.label[i] = data->labels[i];
        h.weight[i] = 1.0 / (NEW * IMAGES);
        for (size_t j = 0; j < d; j++) {
            h.feature[i * d + j] = (double)feature[i * d + j];
            own[(size_t)h.label[i] * d + j] += h.feature[i * d + j] / IMAGES;
        }
    }
    for (size_t i = NEW * IMAGES; i < all; i++) {
        const rc_rng rng = {l->settings.seed, RC_STREAM_STAND_INS};
        size_t n = i - NEW * IMAGES, image = rc_rng_below(rng, n, NEW * IMAGES);
        h.label[i] = -1;
        h.weight[i] = 1.0 / (double)(NEW * each);
        for (size_t j = 0; j < d; j++)
            h.feature[i * d + j] = (double)mean[n / each * d + j] +
                                   sqrt(IMAGES / (IMAGES - 1.0)) *
                                       (h.feature[image * d + j] - own[(size_t)h.label[image] * d + j]);
    }
    take_by_hand(&h, weight, bias, known, 0);
    for (size_t k = 0; k < (size_t)known; k++) {
        h.base += (double)bias[k] / known;
        for (size_t j = 0; j < d; j++)
            h.base += (double)weight[k * d + j] * h.centre[j] / known;
    }
    for (size_t i = 0; i < all; i++) {
        h.old_sum[i] -= h.base;
        h.old_best[i] -= h.base;
        for (size_t j = 0; j < d; j++)
            h.feature[i * d + j] -= h.centre[j];
    }
    const rc_head_examples e = {(int)all, h.d, NEW, h.feature, h.label, h.old_sum, h.old_best, h.weight, NULL};
    const rc_head_rule rule = rc_head_usual_rule();
    assert_int_equal(rc_head_fit(&e, &rule, row, fitted), RC_OK);
    for (size_t k = 0; k < NEW; k++) { /* the bias that belongs to the row, behind all rows */
        row[NEW * d + k] = h.base + fitted->shift;
        for (size_t j = 0; j < d; j++)
            row[NEW * d + k] -= row[k * d + j] * h.centre[j];
    }
    void *blocks[] = {weight, bias, mean, feature, own, h.feature, h.old_sum, h.label, h.centre};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        free(blocks[i]);
}

/* Classes that lessons before have taught are there as stand-ins around their means: eight of each, and fewer where
 * there are many classes. */
static void the_next_lesson_is_the_fit_with_stand_ins(void **state)
{
    (void)state;
    static const struct {
        int more;
        size_t each;
    } cases[] = {{0, 8}, {254, 8}, {255, 7}, {1022, 2}, {2047, 1}};
    api_data next;
    api_data_make(&next, 1, NEW, IMAGES, 4);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const rc_watch nobody = {0};
        rc_head_fitted fitted;
        int32_t labels[NEW * IMAGES];
        double wall[RC_STAGE_COUNT];
        recollect_model *model = load_for_head(false);
        rc_learner *l = &model->saved.learner;
        SUCCEEDS(recollect_learn(model, &new.images, new.labels, new.names, NEW, NULL));
        size_t d = (size_t)l->student.head.d, had = (size_t)l->taught, more = (size_t)cases[i].more;
        if (more > 0) { /* as if other lessons had come between: classes around 0, whose rows say nothing */
            assert_int_equal(rc_head_grow(&l->student.head, cases[i].more, (rc_rng){1, 2}), RC_OK);
            assert_int_equal(rc_learner_grow_taught(l, cases[i].more), RC_OK);
            l->backend->zero(l->backend, rc_real_at(l->backend, l->taught_mean, had * d),
                             more * d * l->backend->real_bytes);
        }
        size_t known = OLD + NEW + more;
        double *row = calloc(NEW * (d + 1), sizeof *row);
        float *now = calloc(NEW * d, sizeof *now), bias[NEW];
        fit_by_hand(model, &next, cases[i].each, row, &fitted);
        rc_saved_model taught = {.config = model->saved.config};
        assert_int_equal(rc_learner_clone(&taught.learner, l), RC_OK);
        for (int n = 0; n < NEW * IMAGES; n++)
            labels[n] = (int32_t)known + next.labels[n];
        rc_head_lesson lesson = {&taught, next.pixels, labels, NEW * IMAGES, NEW, 1, &nobody, wall};
        assert_int_equal(rc_adapt_head(&lesson), RC_OK);
        const rc_head *head = &taught.learner.student.head;
        read_reals(model, rc_real_at(l->backend, head->weight, known * d), NEW * d, now);
        read_reals(model, rc_real_at(l->backend, head->bias, known), NEW, bias);
        for (size_t j = 0; j < NEW * d; j++)
            assert_true(fabs((double)now[j] - row[j]) < 1e-3 * (1 + fabs(row[j])));
        for (size_t k = 0; k < NEW; k++)
            assert_true(fabs((double)bias[k] - row[NEW * d + k]) < 1e-2);
        rc_learner_destroy(&taught.learner);
        l->student.head.classes = OLD + NEW; /* which have names */
        free(row);
        free(now);
        recollect_model_destroy(&model);
    }
    api_data_free(&next);
}

/* The same for a model with class statistics that dreams have given: its means are from there, and their mean is the
 * centre. */
static void class_statistics_give_stand_ins(void **state)
{
    (void)state;
    rc_head_fitted fitted;
    recollect_model *model = load_for_head(true);
    const rc_learner *l = &model->saved.learner;
    size_t d = (size_t)l->student.head.d;
    double *row = calloc(NEW * (d + 1), sizeof *row);
    float *now = calloc(NEW * d, sizeof *now), bias[NEW];
    model->saved.learner.statistics_of_images = false;
    fit_by_hand(model, &new, 8, row, &fitted);
    SUCCEEDS(recollect_learn(model, &new.images, new.labels, new.names, NEW, NULL));
    read_reals(model, rc_real_at(l->backend, l->student.head.weight, OLD * d), NEW * d, now);
    read_reals(model, rc_real_at(l->backend, l->student.head.bias, OLD), NEW, bias);
    /* Both fits stop where the gradient is small: the rows are then 2e-3 apart. One stand-in less moves them by 0.3. */
    for (size_t j = 0; j < NEW * d; j++)
        assert_true(fabs((double)now[j] - row[j]) < 5e-3 * (1 + fabs(row[j])));
    for (size_t k = 0; k < NEW; k++)
        assert_true(fabs((double)bias[k] - row[NEW * d + k]) < 1e-2);
    assert_int_equal(l->taught, 0);
    free(row);
    free(now);
    recollect_model_destroy(&model);
}

/* Statistics of images give all rows: the fit of the new images, of those of a known class, and of 256 features that
 * are drawn of each known class. A constant beside the features, as long as they are, becomes the bias. */
static void statistics_of_images_give_all_rows(void **state)
{
    (void)state;
    enum { EACH = 256, KNOWN = 1, COUNT = NEW * IMAGES + IMAGES, ALL = COUNT + OLD * EACH, CLASSES = OLD + NEW };
    recollect_model *model = load(true);
    rc_learner *l = &model->saved.learner;
    size_t d = (size_t)l->student.head.d, width = d + 1;
    uint8_t *pixels = calloc(COUNT, API_IMAGE);
    int32_t labels[COUNT], label[ALL];
    int count[CLASSES] = {0};
    double *feature = calloc(ALL * width, sizeof *feature), *weight = calloc(2 * ALL, sizeof *weight);
    double *old_sum = weight + ALL, *centre = calloc(d, sizeof *centre), *row = calloc(CLASSES * width, sizeof *row);
    float *drawn = calloc(OLD * EACH * d, sizeof *drawn), *now = calloc(CLASSES * width, sizeof *now);
    int images = 0;
    for (int i = 0; i < NEW * IMAGES; i++, images++) {
        memcpy(pixels + (size_t)images * API_IMAGE, new.pixels + (size_t)i *API_IMAGE, API_IMAGE);
        labels[images] = OLD + new.labels[i];
    }
    for (int i = 0; i < OLD * IMAGES; i++)
        if (old.labels[i] == KNOWN) {
            memcpy(pixels + (size_t)images * API_IMAGE, old.pixels + (size_t)i * API_IMAGE, API_IMAGE);
            labels[images++] = KNOWN;
        }
    assert_int_equal(images, COUNT);
    const api_data shown = {.pixels = pixels};
    float *seen = features_of(model, &shown, COUNT);
    rc_moved statistics;
    assert_int_equal(rc_moved_read(l, &statistics), RC_OK);
    rc_moved_draw(&statistics, (rc_rng){l->settings.seed, RC_STREAM_STAND_INS}, 0, EACH, drawn, label + COUNT);
    for (size_t i = 0; i < OLD * d; i++)
        centre[i % d] += statistics.mean[i] / OLD;
    double square = 0;
    for (size_t i = 0; i < ALL; i++) {
        if (i < COUNT)
            label[i] = labels[i];
        count[label[i]]++;
        for (size_t j = 0; j < d; j++) {
            double x = (double)(i < COUNT ? seen[i * d + j] : drawn[(i - COUNT) * d + j]) - centre[j];
            feature[i * width + j] = x;
            square += x * x / ALL;
        }
    }
    for (size_t i = 0; i < ALL; i++) {
        feature[i * width + d] = sqrt(square);
        weight[i] = 1.0 / (CLASSES * (double)count[label[i]]);
        old_sum[i] = -INFINITY;
    }
    const rc_head_examples e = {ALL, (int)width, CLASSES, feature, label, old_sum, old_sum, weight, NULL};
    const rc_head_rule rule = {.penalty = rc_head_usual_rule().penalty, .margin = INFINITY};
    rc_head_fitted fitted;
    assert_int_equal(rc_head_fit(&e, &rule, row, &fitted), RC_OK);

    const rc_watch nobody = {0};
    double wall[RC_STAGE_COUNT];
    rc_head_lesson lesson = {&model->saved, pixels, labels, COUNT, NEW, 1, &nobody, wall};
    assert_int_equal(rc_adapt_head(&lesson), RC_OK);
    read_reals(model, l->student.head.weight, CLASSES * d, now);
    read_reals(model, l->student.head.bias, CLASSES, now + CLASSES * d);
    for (size_t k = 0; k < CLASSES; k++) {
        double bias = row[k * width + d] * sqrt(square);
        for (size_t j = 0; j < d; j++) {
            double wanted = row[k * width + j];
            assert_true(fabs((double)now[k * d + j] - wanted) < 5e-3 * (1 + fabs(wanted)));
            bias -= wanted * centre[j];
        }
        assert_true(fabs((double)now[CLASSES * d + k] - bias) < 1e-2 * (1 + fabs(bias)));
    }
    l->student.head.classes = OLD; /* which have names */
    rc_moved_destroy(&statistics);
    void *blocks[] = {pixels, feature, weight, centre, row, drawn, now, seen};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        free(blocks[i]);
    recollect_model_destroy(&model);
}

/* A model from before there were factors learns with the shared covariance, and gets none. */
static void a_model_without_factors_learns(void **state)
{
    (void)state;
    recollect_model *model = load_for_head(true);
    rc_learner *l = &model->saved.learner;
    l->backend->release(l->backend, l->class_factor);
    l->class_factor = NULL;
    SUCCEEDS(recollect_learn(model, &new.images, new.labels, new.names, NEW, NULL));
    assert_true(model->saved.learner.class_factor == NULL && model->saved.learner.statistics_of_images);
    assert_true(api_accuracy(model, &new_test) >= 80);
    recollect_model_destroy(&model);
}

/* A file may say that it has statistics of all classes, and lack the mean of one: then old rows stay. */
static void a_mean_that_is_not_there_is_not_drawn_from(void **state)
{
    (void)state;
    recollect_model *model = load_for_head(true);
    rc_learner *l = &model->saved.learner;
    size_t d = (size_t)l->student.head.d;
    float *was = calloc(2 * OLD * d, sizeof *was), *now = was + OLD * d;
    for (size_t j = 0; j < d; j++)
        was[j] = NAN;
    l->backend->write_real(l->backend, rc_real_at(l->backend, l->class_mean, d), was, d);
    read_reals(model, l->student.head.weight, OLD * d, was);
    SUCCEEDS(recollect_learn(model, &new.images, new.labels, new.names, NEW, NULL));
    read_reals(model, l->student.head.weight, OLD * d, now);
    assert_memory_equal(was, now, OLD * d * sizeof *was);
    free(was);
    recollect_model_destroy(&model);
}

/* Lessons of the head keep the statistics true, and say so in the file; a lesson that trains the net does not. A file
 * that says nothing holds statistics of images if it holds one lesson. */
static void files_say_what_statistics_are_of(void **state)
{
    (void)state;
    static const char key[] = "statistics_of";
    for (int trains = 0; trains < 2; trains++) {
        recollect_model *model = load(true), *again;
        void *file;
        size_t size;
        assert_true(model->saved.learner.statistics_of_images);
        if (trains)
            SUCCEEDS(recollect_model_set(model, "epochs", "1"));
        SUCCEEDS(recollect_learn(model, &new.images, new.labels, new.names, NEW, NULL));
        SUCCEEDS(recollect_model_save_memory(model, &file, &size));
        SUCCEEDS(recollect_model_load_memory(context, file, size, &again));
        assert_non_null(again->saved.learner.class_mean);
        assert_int_equal(again->saved.learner.statistics_of_images, !trains);
        assert_int_equal(again->saved.learner.class_factor != NULL, !trains);
        recollect_free(file);
        recollect_model_destroy(&again);
        recollect_model_destroy(&model);
    }
    for (int tasks = 1; tasks <= 2; tasks++) {
        recollect_model *model = load(true), *again;
        void *file;
        size_t size;
        if (tasks == 2)
            SUCCEEDS(recollect_learn(model, &new.images, new.labels, new.names, NEW, NULL));
        SUCCEEDS(recollect_model_save_memory(model, &file, &size));
        char *at = file;
        while (memcmp(at, key, sizeof key - 1) != 0)
            assert_true(++at < (char *)file + size - sizeof key);
        *at = 'S'; /* nobody knows that key */
        SUCCEEDS(recollect_model_load_memory(context, file, size, &again));
        assert_int_equal(again->saved.learner.statistics_of_images, tasks == 1);
        recollect_free(file);
        recollect_model_destroy(&again);
        recollect_model_destroy(&model);
    }
}

/* What the lesson before taught is still known after the next one. */
static void the_next_lesson_takes_little_from_the_last(void **state)
{
    (void)state;
    api_data next;
    const char *const name = "next";
    api_data_make(&next, OLD + NEW, 1, IMAGES, 4);
    recollect_model *model = load_for_head(false);
    SUCCEEDS(recollect_learn(model, &new.images, new.labels, new.names, NEW, NULL));
    SUCCEEDS(recollect_learn(model, &next.images, next.labels, &name, 1, NULL));
    assert_true(api_accuracy(model, &new_test) >= 80);
    api_data_free(&next);
    recollect_model_destroy(&model);
}

static recollect_status give(void *user, int index, uint8_t *pixels)
{
    const api_data *data = user;
    memcpy(pixels, data->pixels + (size_t)index * API_IMAGE, API_IMAGE);
    return RECOLLECT_OK;
}

/* Images that are given one by one make the same model as images in memory, held-out ones included. */
static void images_may_come_one_by_one(void **state)
{
    (void)state;
    void *file[2];
    size_t size[2];
    recollect_stream stream = {.size = sizeof stream,
                               .count = NEW * IMAGES,
                               .height = API_SIZE,
                               .width = API_SIZE,
                               .channels = 1,
                               .labels = new.labels,
                               .read = give,
                               .user = &new};
    for (int i = 0; i < 2; i++) {
        recollect_learn_result result = {.size = sizeof result};
        recollect_model *model = load_for_head(false);
        SUCCEEDS(recollect_model_set(model, "hold_out", "0.2"));
        SUCCEEDS(i == 0 ? recollect_learn(model, &new.images, new.labels, new.names, NEW, &result)
                        : recollect_learn_stream(model, &stream, new.names, NEW, &result));
        assert_int_equal(result.held_out, NEW * IMAGES / 5);
        SUCCEEDS(recollect_model_save_memory(model, &file[i], &size[i]));
        recollect_model_destroy(&model);
    }
    assert_int_equal(size[0], size[1]);
    assert_memory_equal(file[0], file[1], size[0]);
    recollect_free(file[0]);
    recollect_free(file[1]);
}

/* A model that answers to an image and its mirror image alike learns alike from both. */
static void mirror_images_teach_the_same(void **state)
{
    (void)state;
    for (int both = 0; both < 2; both++) {
        float *row[2];
        size_t count = 0;
        for (int i = 0; i < 2; i++) {
            recollect_model *model = load_for_head(true);
            SUCCEEDS(recollect_model_set(model, "test_mirror", both ? "true" : "false"));
            SUCCEEDS(recollect_learn(model, &new.images, new.labels, new.names, NEW, NULL));
            const rc_head *head = &model->saved.learner.student.head;
            count = (size_t)head->classes * (size_t)head->d;
            row[i] = calloc(count, sizeof *row[i]);
            read_reals(model, head->weight, count, row[i]);
            recollect_model_destroy(&model);
            api_data_mirror(&new);
        }
        assert_int_equal(memcmp(row[0], row[1], count * sizeof *row[0]) == 0, both);
        free(row[0]);
        free(row[1]);
    }
}

/* Images of old classes among the new ones give old classes back what new ones claim. */
static void images_of_old_classes_help_them(void **state)
{
    (void)state;
    api_data all, old_test;
    double accuracy[2];
    api_data_make(&all, 0, OLD + NEW, IMAGES, 2);
    api_data_make(&old_test, 0, OLD, 40, 9);
    for (int merged = 0; merged < 2; merged++) {
        recollect_learn_result result = {.size = sizeof result};
        recollect_model *model = load_for_head(false);
        SUCCEEDS(recollect_model_set(model, "merge", "true"));
        SUCCEEDS(merged ? recollect_learn(model, &all.images, all.labels, all.names, OLD + NEW, &result)
                        : recollect_learn(model, &new.images, new.labels, new.names, NEW, &result));
        assert_int_equal(result.merged, merged ? OLD : 0);
        assert_int_equal(recollect_model_classes(model), OLD + NEW);
        assert_true(api_accuracy(model, &new_test) >= 80);
        accuracy[merged] = api_accuracy(model, &old_test);
        recollect_model_destroy(&model);
    }
    recollect_model *model = load_foreign();
    double before = api_accuracy(model, &old_test);
    recollect_model_destroy(&model);
    assert_true(accuracy[1] >= accuracy[0] && accuracy[1] >= before - 5);
    api_data_free(&all);
    api_data_free(&old_test);
}

static void a_lesson_that_is_cancelled_leaves_the_model(void **state)
{
    (void)state;
    recollect_model *model = load_for_head(false);
    cancels = true;
    assert_int_equal(recollect_learn(model, &new.images, new.labels, new.names, NEW, NULL), RECOLLECT_CANCELLED);
    cancels = false;
    assert_non_null(strstr(recollect_last_message(), "stopped while"));
    assert_int_equal(recollect_model_classes(model), OLD);
    SUCCEEDS(recollect_learn(model, &new.images, new.labels, new.names, NEW, NULL));
    recollect_model_destroy(&model);
}

/* A checkpoint is of a lesson that trains: it is neither used nor harmed. */
static void checkpoints_of_other_lessons_stay(void **state)
{
    (void)state;
    char path[] = "/tmp/recollect-adapt-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0 && close(file) == 0);
    recollect_model *model = load_for_head(false);
    SUCCEEDS(recollect_model_set(model, "checkpoint", path));
    SUCCEEDS(recollect_model_set(model, "resume", "true"));
    REFUSED(recollect_learn(model, &new.images, new.labels, new.names, NEW, NULL), "trains the whole net");
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(remove(path), 0);
    SUCCEEDS(recollect_learn(model, &new.images, new.labels, new.names, NEW, NULL));
    assert_int_not_equal(access(path, F_OK), 0);
    recollect_model_destroy(&model);
}

/* Twenty lessons of one class and one image: all rows that are there are old for the next. */
static void lessons_follow_each_other(void **state)
{
    (void)state;
    recollect_model *model = load_for_head(false);
    uint8_t pixel[API_IMAGE] = {0};
    const int32_t label = 0;
    const recollect_images one = {pixel, 1, API_SIZE, API_SIZE, 1};
    for (int i = 0; i < 20; i++) {
        char name[32];
        const char *names[] = {name};
        snprintf(name, sizeof name, "class %d", i);
        memset(pixel, 10 * i, sizeof pixel);
        SUCCEEDS(recollect_learn(model, &one, &label, names, 1, NULL));
    }
    assert_int_equal(recollect_model_classes(model), OLD + 20);
    SUCCEEDS(recollect_learn(model, &new.images, new.labels, new.names, NEW, NULL));
    assert_true(api_accuracy(model, &new_test) >= 60);
    recollect_model_destroy(&model);
}

static void memory_that_runs_out_is_said(void **state)
{
    (void)state;
    const rc_watch nobody = {0};
    int32_t labels[NEW * IMAGES];
    double wall[RC_STAGE_COUNT];
    for (int i = 0; i < NEW * IMAGES; i++)
        labels[i] = OLD + new.labels[i];
    recollect_model *model = load(true);
    SUCCEEDS((recollect_status)rc_learner_keep_variances(&model->saved.learner));
    int n = 1;
    for (bool failed = true; failed; n++) {
        rc_saved_model taught = {.config = model->saved.config};
        assert_int_equal(rc_learner_clone(&taught.learner, &model->saved.learner), RC_OK);
        rc_head_lesson lesson = {&taught, new.pixels, labels, NEW *IMAGES, NEW, 1, &nobody, wall};
        size_t before = rc_bytes_allocated();
        allocation_to_fail = n;
        rc_status status = rc_adapt_head(&lesson);
        failed = allocation_failed();
        assert_int_equal(status, failed ? RC_OUT_OF_MEMORY : RC_OK);
        if (failed && taught.learner.student.head.classes == OLD)
            assert_int_equal(rc_bytes_allocated(), before);
        rc_learner_destroy(&taught.learner);
    }
    assert_true(n > 25);
    recollect_model_destroy(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_read),
        cmocka_unit_test(what_a_foreign_net_learns_by),
        cmocka_unit_test(what_an_own_net_learns_by),
        cmocka_unit_test(a_net_that_was_trained_here_stays_so),
        cmocka_unit_test(who_keeps_images_learns_as_a_whole),
        cmocka_unit_test(files_say_where_a_net_comes_from),
        cmocka_unit_test(the_head_alone_needs_a_model_that_keeps_no_images),
        cmocka_unit_test(what_was_there_keeps_its_bits),
        cmocka_unit_test(the_top_is_the_last_stage),
        cmocka_unit_test(new_classes_are_level_with_old_ones_at_the_centre),
        cmocka_unit_test(a_centre_that_nothing_tells_is_that_of_the_new_images),
        cmocka_unit_test(class_statistics_go_on),
        cmocka_unit_test(variances_of_classes_go_on),
        cmocka_unit_test(means_of_the_head_s_lessons_are_kept),
        cmocka_unit_test(the_next_lesson_is_the_fit_with_stand_ins),
        cmocka_unit_test(class_statistics_give_stand_ins),
        cmocka_unit_test(statistics_of_images_give_all_rows),
        cmocka_unit_test(a_model_without_factors_learns),
        cmocka_unit_test(a_mean_that_is_not_there_is_not_drawn_from),
        cmocka_unit_test(files_say_what_statistics_are_of),
        cmocka_unit_test(the_next_lesson_takes_little_from_the_last),
        cmocka_unit_test(images_may_come_one_by_one),
        cmocka_unit_test(mirror_images_teach_the_same),
        cmocka_unit_test(images_of_old_classes_help_them),
        cmocka_unit_test(a_lesson_that_is_cancelled_leaves_the_model),
        cmocka_unit_test(checkpoints_of_other_lessons_stay),
        cmocka_unit_test(lessons_follow_each_other),
        cmocka_unit_test(memory_that_runs_out_is_said),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
