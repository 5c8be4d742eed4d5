/* The rows of the method table, field by field, and the learner around its stages: what a task begins with and
 * leaves, what is stored between tasks, and what is refused with which message. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "nn/nets.h"
#include "support/cpu_backend.h"
#include "support/learning.h"
#include "support/succeeds.h"

enum { IMAGE = LEARNING_SIZE * LEARNING_SIZE * LEARNING_CHANNELS, D = 16 };

/* ---- rows ----------------------------------------------------------------------------------------------------- */

/* As docs/methods tells them. */
static const rc_method rows[] = {
    {.name = "finetune", .replay = &rc_source_none, .main = {.real = RC_CE_ALL}},
    {.name = "joint", .replay = &rc_source_all, .main = {.real = RC_CE_ALL}},
    {.name = "er",
     .replay = &rc_source_buffer,
     .weights = RC_WEIGHTS_HALVES,
     .buffer_size = 500,
     .main = {.one_batch = true, .real = RC_CE_ALL, .replay = RC_CE_ALL}},
    {.name = "er-5120",
     .replay = &rc_source_buffer,
     .weights = RC_WEIGHTS_HALVES,
     .buffer_size = 5120,
     .main = {.one_batch = true, .real = RC_CE_ALL, .replay = RC_CE_ALL}},
    {.name = "lode",
     .replay = &rc_source_buffer,
     .weights = RC_WEIGHTS_HALVES,
     .buffer_size = 500,
     .lode_rho = 0.05,
     .main = {.real = RC_CE_DECOUPLED, .replay = RC_CE_ALL}},
    {.name = "lode-5120",
     .replay = &rc_source_buffer,
     .weights = RC_WEIGHTS_HALVES,
     .buffer_size = 5120,
     .lode_rho = (double)0.01f,
     .main = {.real = RC_CE_DECOUPLED, .replay = RC_CE_ALL}},
    {.name = "dgr",
     .replay = &rc_source_generative,
     .weights = RC_WEIGHTS_HALVES,
     .main =
         {.one_batch = true, .real = RC_CE_ALL, .replay = RC_CE_ALL, .kd_replay = RC_KD_OLD, .class_weights = true}},
    {.name = "lwf", .replay = &rc_source_none, .main = {.real = RC_CE_ALL, .kd_real = RC_KD_OLD}},
    {.name = "deepinversion",
     .replay = &rc_source_dreams,
     .main = {.one_batch = true, .real = RC_CE_ALL, .kd_real = RC_KD_OLD, .kd_replay = RC_KD_ALL}},
    {.name = "deepinversion-pixels",
     .replay = &rc_source_pixels,
     .main = {.one_batch = true, .real = RC_CE_ALL, .kd_real = RC_KD_OLD, .kd_replay = RC_KD_ALL}},
    {.name = "abd",
     .replay = &rc_source_dreams,
     .main = {.one_batch = true, .real = RC_CE_NEW, .head_ce = true, .feature = true, .class_weights = true}},
    {.name = "rdfcil",
     .replay = &rc_source_dreams,
     .weights = RC_WEIGHTS_ADAPTIVE,
     .refine = true,
     .main = {.real = RC_CE_NEW, .hkd = true, .rkd = true}},
    {.name = "cwd",
     .replay = &rc_source_dreams,
     .weights = RC_WEIGHTS_ADAPTIVE,
     .refine = true,
     .dce = true,
     .main = {.real = RC_CE_NEW, .hkd = true, .rkd = true, .war = true}},
    {.name = "cwd+",
     .replay = &rc_source_dreams,
     .weights = RC_WEIGHTS_ADAPTIVE,
     .refine = true,
     .dce = true,
     .plus = true,
     .main = {.real = RC_CE_NEW, .hkd = true, .rkd = true, .war = true}},
    {.name = "cwd-abd",
     .replay = &rc_source_dreams,
     .dce = true,
     .main =
         {.one_batch = true, .real = RC_CE_NEW, .head_ce = true, .feature = true, .class_weights = true, .war = true}},
    {.name = "cwd-without-dce",
     .replay = &rc_source_dreams,
     .weights = RC_WEIGHTS_ADAPTIVE,
     .refine = true,
     .main = {.real = RC_CE_NEW, .hkd = true, .rkd = true, .war = true}},
    {.name = "cwd-without-war",
     .replay = &rc_source_dreams,
     .weights = RC_WEIGHTS_ADAPTIVE,
     .refine = true,
     .dce = true,
     .main = {.real = RC_CE_NEW, .hkd = true, .rkd = true}},
    {.name = "sce",
     .replay = &rc_source_dreams,
     .weights = RC_WEIGHTS_ADAPTIVE,
     .refine = true,
     .dce = true,
     .main = {.real = RC_CE_NEW, .replay = RC_CE_OLD, .rkd = true}},
    {.name = "ace",
     .replay = &rc_source_dreams,
     .weights = RC_WEIGHTS_ADAPTIVE,
     .refine = true,
     .dce = true,
     .main = {.real = RC_CE_NEW, .replay = RC_CE_ALL, .rkd = true}},
    {.name = "ssil",
     .replay = &rc_source_dreams,
     .weights = RC_WEIGHTS_ADAPTIVE,
     .refine = true,
     .dce = true,
     .main = {.real = RC_CE_NEW, .replay = RC_CE_OLD, .kd_replay = RC_KD_TASKS, .rkd = true}},
    {.name = "wa",
     .replay = &rc_source_dreams,
     .weights = RC_WEIGHTS_ADAPTIVE,
     .refine = true,
     .dce = true,
     .align_rows = true,
     .main = {.real = RC_CE_NEW, .hkd = true, .rkd = true}},
    {.name = "real-hkd",
     .replay = &rc_source_real,
     .weights = RC_WEIGHTS_ADAPTIVE,
     .main = {.real = RC_CE_NEW, .hkd = true}},
    {.name = "real-cwd",
     .replay = &rc_source_real,
     .weights = RC_WEIGHTS_ADAPTIVE,
     .refine = true,
     .main = {.real = RC_CE_NEW, .hkd = true, .rkd = true, .war = true}},
    {.name = "real-lce",
     .replay = &rc_source_real,
     .weights = RC_WEIGHTS_ADAPTIVE,
     .main = {.real = RC_CE_NEW, .replay = RC_CE_OLD}},
};
enum { ROWS = sizeof rows / sizeof *rows };

static void rows_say_what_their_pages_say(void **state)
{
    (void)state;
    for (int i = 0; i < ROWS; i++) {
        const rc_method *m = rc_method_at(i), *found;
        const rc_objective *a = &m->main, *b = &rows[i].main;
        assert_string_equal(m->name, rows[i].name);
        SUCCEEDS(rc_method_find(rows[i].name, &found));
        assert_ptr_equal(found, m);
        bool same = m->replay == rows[i].replay && m->weights == rows[i].weights &&
                    m->buffer_size == rows[i].buffer_size && m->lode_rho == rows[i].lode_rho && m->dce == rows[i].dce &&
                    m->refine == rows[i].refine && m->plus == rows[i].plus && m->align_rows == rows[i].align_rows;
        same = same && a->one_batch == b->one_batch && a->real == b->real && a->replay == b->replay &&
               a->kd_real == b->kd_real && a->kd_replay == b->kd_replay && a->hkd == b->hkd && a->rkd == b->rkd &&
               a->feature == b->feature && a->head_ce == b->head_ce && a->class_weights == b->class_weights &&
               a->war == b->war;
        if (!same)
            fail_msg("%s is not the row that it should be", m->name);
        assert_true(strlen(m->title) > 0 && strlen(m->summary) > 10);
    }
    assert_null(rc_method_at(ROWS));
    assert_null(rc_method_at(-1));
}

static void an_unknown_method_gets_all_names(void **state)
{
    (void)state;
    const rc_method *m = &rows[0];
    char expected[1024] = "there is no method 'cwdd'; there are ";
    for (int i = 0; i < ROWS; i++)
        snprintf(expected + strlen(expected), sizeof expected - strlen(expected), "%s%s", i ? ", " : "", rows[i].name);
    assert_int_equal(rc_method_find("cwdd", &m), RC_INVALID_ARGUMENT);
    assert_string_equal(rc_message(), expected);
    assert_null(m);
}

/* What a task has, by its row and by whether there were classes before. */
static void sources_follow_from_the_row(void **state)
{
    (void)state;
    static const struct {
        const char *name, *first, *later; /* T teacher, d dreams, p pixels, o old images, r replay */
    } tasks[] = {
        {"finetune", "", ""},
        {"joint", "", ""},
        {"er", "r", "r"},
        {"lode", "r", "r"},
        {"dgr", "", "Tr"},
        {"lwf", "", "T"},
        {"deepinversion", "", "Tdr"},
        {"deepinversion-pixels", "", "Tpr"},
        {"abd", "", "Tdr"},
        {"cwd", "", "Tdr"},
        {"real-hkd", "", "Tor"},
        {"real-lce", "", "or"},
    };
    for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++)
        for (int later = 0; later < 2; later++) {
            const rc_method *m;
            char found[8];
            SUCCEEDS(rc_method_find(tasks[i].name, &m));
            bool replay = rc_method_replays(m, later);
            rc_settings settings = learning_settings();
            snprintf(found, sizeof found, "%s%s%s%s%s", rc_method_asks_teacher(m, later) ? "T" : "",
                     rc_method_dreams(m, later) ? "d" : "",
                     rc_method_inversion(m, &settings, later).parts == 2 ? "p" : "", /* batches of pixels */
                     replay && m->replay->replays_old_images ? "o" : "", replay ? "r" : "");
            assert_string_equal(found, later ? tasks[i].later : tasks[i].first);
        }
}

/* What people read about them; results and files have the bytes. */
static void sources_say_what_they_keep(void **state)
{
    (void)state;
    static const struct {
        const rc_source_kind *kind;
        const char *keeps;
        bool data_free;
    } kept[] = {{&rc_source_none, "nothing", true},
                {&rc_source_dreams, "nothing", true},
                {&rc_source_pixels, "nothing", true},
                {&rc_source_buffer, "some of the images", false},
                {&rc_source_generative, "a generative model", false},
                {&rc_source_real, "all images", false},
                {&rc_source_all, "all images", false}};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        assert_string_equal(kept[i].kind->keeps, kept[i].keeps);
        assert_int_equal(kept[i].kind->data_free, kept[i].data_free);
    }
}

static void held_images_are_a_buffers_or_pixels(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int held, own; /* where the setting says 37, and where it says nothing */
    } methods[] = {{"er", 37, 500},         {"er-5120", 37, 5120}, {"lode", 37, 500},
                   {"lode-5120", 37, 5120}, {"cwd", 0, 0},         {"deepinversion-pixels", 3 * 8, 3 * 8},
                   {"dgr", 0, 0},           {"joint", 0, 0},       {"real-hkd", 0, 0}};
    rc_settings s = learning_settings();
    s.pixel_batches = 3;
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        const rc_method *m;
        SUCCEEDS(rc_method_find(methods[i].name, &m));
        s.buffer_size = 37;
        assert_int_equal(rc_held_images(m, &s), methods[i].held);
        s.buffer_size = 0;
        assert_int_equal(rc_held_images(m, &s), methods[i].own);
    }
}

/* ---- tasks ---------------------------------------------------------------------------------------------------- */

static void fails(rc_status found, rc_status expected, const char *message)
{
    assert_int_equal(found, expected);
    assert_string_equal(rc_message(), message);
}

static void what_cannot_begin_is_refused(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    rc_learner l;
    uint8_t images[IMAGE] = {0};
    const int32_t label = 0;
    rc_replay *replay;
    learning_create(&l, be, "cwd", &s);
    fails(rc_learner_begin_dreams(&l), RC_INVALID_ARGUMENT, "a CwD model of 0 classes has no dreams");
    fails(rc_learner_begin_task(&l, 0, 0, images, &label, 1), RC_INVALID_ARGUMENT,
          "task 1 has 0 classes and 1 images, expected 1 or more");
    fails(rc_learner_begin_task(&l, 4, 2, images, &label, 0), RC_INVALID_ARGUMENT,
          "task 5 has 2 classes and 0 images, expected 1 or more");
    l.settings.epochs = 100000;
    l.settings.refine_epochs = 7;
    l.settings.batch = 2;
    fails(rc_learner_begin_task(&l, 1, 3, images, &label, 200000), RC_INVALID_ARGUMENT,
          "task 2 would take 10000700000 steps (100000 epochs, 200000 images in batches of 2), expected at most "
          "2147483647");
    l.settings = s;
    assert_false(l.in_task);
    learning_begin(&l, 6, 1, 1);
    assert_true(l.in_task && l.task == 6 && l.n_old == 0 && l.n_new == 1 && l.images == 1 && l.given == 1);
    fails(rc_learner_begin_task(&l, 7, 1, images, &label, 1), RC_INTERNAL, "task 7 has not ended");
    fails(rc_learner_begin_dreams(&l), RC_INTERNAL, "task 7 has not ended");
    fails(rc_learner_set_method(&l, l.method), RC_INTERNAL, "task 7 has not ended");
    fails(rc_learner_replay(&l, 1, &replay), RC_INTERNAL, "CwD has no replay in task 7");
    assert_null(replay);
    rc_learner_end_task(&l);
    assert_false(l.in_task);
    rc_learner_destroy(&l);
    rc_learner_destroy(&l);
    const rc_method *er;
    SUCCEEDS(rc_method_find("er", &er));
    learning_create(&l, be, "er", &s);
    learning_begin(&l, 0, 2, 8);
    rc_learner_end_task(&l);
    fails(rc_learner_begin_dreams(&l), RC_INVALID_ARGUMENT, "a ER model of 2 classes has no dreams");
    rc_learner_destroy(&l);
}

/* The net of a model stays; what does not belong to it may change. */
static void other_settings_of_the_net_are_refused(void **state)
{
    (void)state;
    rc_settings s = learning_settings(), other = s;
    rc_learner l;
    learning_create(&l, be, "cwd", &s);
    snprintf(other.net, sizeof other.net, "resnet32");
    fails(rc_learner_configure(&l, &other, l.method), RC_INVALID_ARGUMENT,
          "net is 'resnet32', but the model was trained with 'resnet-small' and keeps it");
    other = s;
    other.net_width = 8;
    fails(rc_learner_configure(&l, &other, l.method), RC_INVALID_ARGUMENT,
          "net_width and net_blocks are 8 and 1, but the model was trained with 4 and 1 and keeps them");
    other = s;
    other.net_blocks = 2;
    fails(rc_learner_configure(&l, &other, l.method), RC_INVALID_ARGUMENT,
          "net_width and net_blocks are 4 and 2, but the model was trained with 4 and 1 and keeps them");
    rc_learner deeper;
    learning_create(&deeper, be, "cwd", &other);
    fails(rc_learner_configure(&deeper, &s, l.method), RC_INVALID_ARGUMENT,
          "net_width and net_blocks are 4 and 1, but the model was trained with 4 and 2 and keeps them");
    rc_learner_destroy(&deeper);
    other = s;
    other.batch = 1;
    assert_int_equal(rc_learner_configure(&l, &other, l.method), RC_INVALID_ARGUMENT);
    assert_int_equal(l.settings.batch, s.batch);
    other = s;
    other.crop_pad = 7;
    other.flip = false;
    other.zoom = 0.25;
    other.colour = 0.5;
    other.generator_width = 10;
    SUCCEEDS(rc_learner_configure(&l, &other, l.method));
    assert_true(l.augment.pad == 7 && !l.augment.flip && l.settings.crop_pad == 7);
    assert_true(l.augment.zoom == 0x40000000 && l.augment.colour == 0.5f);
    assert_true(l.augment.h == LEARNING_SIZE && l.augment.stream == 1);
    rc_net generator;
    SUCCEEDS(rc_net_generator_small(&generator, LEARNING_CHANNELS, LEARNING_SIZE, s.noise, 10));
    assert_int_equal(learning_generator_net(&l)->params, generator.params);
    rc_learner_destroy(&l);
    /* Of a net that is not the small one, width and blocks are nothing. */
    rc_augment image = {.h = 32, .w = 32, .c = 3, .std = {1, 1, 1}};
    snprintf(s.net, sizeof s.net, "resnet32");
    const rc_method *finetune;
    SUCCEEDS(rc_method_find("finetune", &finetune));
    SUCCEEDS(rc_learner_create(&l, be, &s, finetune, &image));
    s.net_width = 99;
    SUCCEEDS(rc_learner_configure(&l, &s, finetune));
    rc_learner_destroy(&l);
}

/* Nets by name are the published ones: 463,504 and 8,423,939 parameters. */
static void nets_come_by_name(void **state)
{
    (void)state;
    rc_settings s = rc_settings_default();
    rc_augment image = {.h = 32, .w = 32, .c = 3, .std = {1, 1, 1}};
    const rc_method *cwd;
    rc_learner l;
    SUCCEEDS(rc_method_find("cwd", &cwd));
    SUCCEEDS(rc_learner_create(&l, be, &s, cwd, &image));
    assert_int_equal(l.net.params, 463504);
    assert_int_equal(learning_generator_net(&l)->params, 8423939);
    assert_true(l.net.h == 32 && l.net.w == 32 && l.net.c == 3);
    rc_learner_destroy(&l);
    image.h = image.w = 64;
    SUCCEEDS(rc_learner_create(&l, be, &s, cwd, &image));
    assert_int_equal(learning_generator_net(&l)->params, 8571779);
    rc_learner_destroy(&l);
    snprintf(s.generator, sizeof s.generator, "no such net");
    assert_int_equal(rc_learner_create(&l, be, &s, cwd, &image), RC_INVALID_ARGUMENT);
    snprintf(s.net, sizeof s.net, "no such net");
    assert_int_equal(rc_learner_create(&l, be, &s, cwd, &image), RC_INVALID_ARGUMENT);
}

/* What a task has is gone when it ends; the head stays. */
static void a_task_leaves_the_head_alone(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    rc_learner l;
    learning_create(&l, be, "cwd", &s);
    for (int task = 0; task < 2; task++) {
        learning_begin(&l, task, 2, 10);
        assert_int_equal(l.batches, 2);
        assert_int_equal(l.teacher.head.classes, task == 0 ? 0 : 2);
        assert_true((learning_generator(&l)->param != NULL) == (task == 1));
        assert_int_equal(l.student.head.classes, 2 * task + 2);
        assert_int_equal(l.state.entries, task == 0 ? 3 : 5);
        rc_learner_end_task(&l);
        assert_true(l.teacher.backbone.param == NULL && learning_generator(&l)->param == NULL);
        assert_true(l.task_memory == NULL && l.task_images == NULL && l.order_host == NULL && l.order_scratch == NULL);
        assert_false(l.has.teacher || l.has.replay);
        assert_int_equal(l.state.entries, 0);
        assert_int_equal(l.student.head.classes, 2 * task + 2);
        assert_int_equal(l.student.head.tasks, task + 1);
    }
    rc_learner_destroy(&l);
}

/* In place of a task: the next one's teacher and generator, no new class, no image, inversion alone. */
static void dreams_can_be_looked_at(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    rc_learner l, next;
    learning_create(&l, be, "cwd", &s);
    learning_create(&next, be, "cwd", &s);
    learning_teach(&l, 0, 2, 10, &learning_no_hooks);
    learning_teach(&next, 0, 2, 10, &learning_no_hooks);
    rc_learner_end_task(&l);
    rc_learner_end_task(&next);
    SUCCEEDS(rc_learner_begin_dreams(&l));
    learning_begin(&next, 1, 1, 9);
    assert_true(l.in_task && l.task == 1 && l.n_old == 2 && l.n_new == 0 && l.images == 0 && l.given == 0);
    assert_int_equal(l.student.head.classes, 2);
    static const rc_stage none[] = {RC_STAGE_TRAINING, RC_STAGE_REFINEMENT, RC_STAGE_ESTIMATION};
    for (int i = 0; i < 3; i++)
        assert_int_equal(rc_stage_steps(&l, none[i]), 0);
    assert_int_equal(rc_stage_steps(&l, RC_STAGE_INVERSION), s.inversion_steps);
    assert_int_equal(l.state.entries, 5);
    SUCCEEDS(rc_stage_inversion(&l, 0, &learning_no_hooks));
    SUCCEEDS(rc_stage_inversion(&next, 0, &learning_no_hooks));
    size_t params = learning_generator(&l)->net->params;
    float *a = rc_alloc_zeroed(NULL, params, sizeof *a), *b = rc_alloc_zeroed(NULL, params, sizeof *b);
    be->read_real(be, a, learning_generator(&l)->param, params);
    be->read_real(be, b, learning_generator(&next)->param, params);
    assert_memory_equal(a, b, params * sizeof *a);
    rc_free(NULL, a);
    rc_free(NULL, b);
    rc_learner_end_task(&l);
    assert_int_equal(l.statistics_classes, 2); /* nothing was learnt: they are still right */
    rc_learner_destroy(&l);
    rc_learner_destroy(&next);
}

/* ---- statistics ----------------------------------------------------------------------------------------------- */

static void statistics_grow_with_the_head(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    rc_learner l;
    float rows_of[5 * D], covariance[D * D];
    learning_create(&l, be, "cwd", &s);
    learning_begin(&l, 0, 2, 8);
    SUCCEEDS(rc_learner_grow_statistics(&l));
    assert_int_equal(l.statistics_classes, 2);
    be->read_real(be, rows_of, l.class_mean, 2 * D);
    for (int i = 0; i < 2 * D; i++) {
        assert_true(isnan(rows_of[i]));
        rows_of[i] = (float)i;
    }
    be->write_real(be, l.class_mean, rows_of, 2 * D);
    for (int i = 0; i < D * D; i++)
        covariance[i] = (float)(i * i);
    be->write_real(be, l.covariance, covariance, D * D);
    const void *mean = l.class_mean;
    SUCCEEDS(rc_learner_grow_statistics(&l)); /* nothing has grown */
    assert_ptr_equal(l.class_mean, mean);
    rc_learner_end_task(&l);
    assert_int_equal(l.statistics_classes, 2);
    learning_begin(&l, 1, 3, 8);
    SUCCEEDS(rc_learner_grow_statistics(&l));
    be->read_real(be, rows_of, l.class_mean, 5 * D);
    for (int i = 0; i < 5 * D; i++)
        assert_true(i < 2 * D ? rows_of[i] == (float)i : isnan(rows_of[i]));
    be->read_real(be, covariance, l.covariance, D * D);
    assert_true(covariance[D * D - 1] == (float)((D * D - 1) * (D * D - 1)));
    rc_stored stored = rc_learner_stored(&l);
    assert_int_equal(stored.statistics, (5 * D + D * D) * 4);
    assert_true(stored.images == 0 && stored.model == 0);
    rc_learner_end_task(&l);
    assert_int_equal(l.statistics_classes, 5);
    learning_begin(&l, 2, 1, 8);
    rc_learner_end_task(&l); /* a task without estimation has outdated them */
    assert_true(l.statistics_classes == 0 && l.class_mean == NULL && l.covariance == NULL);
    rc_learner_destroy(&l);
}

/* A copy of a learner learns what the learner would have learnt, and leaves the learner alone, whatever its source
 * keeps. */
static void copies_learn_the_same_apart(void **state)
{
    (void)state;
    static const char *const methods[] = {"cwd", "er", "dgr", "deepinversion-pixels", "real-hkd", "joint"};
    rc_settings s = learning_settings();
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        rc_learner l, copy;
        learning_create(&l, be, methods[i], &s);
        learning_teach(&l, 0, 3, 8, &learning_no_hooks);
        rc_learner_end_task(&l);
        learning_bits before = learning_take(&l);
        SUCCEEDS(rc_learner_clone(&copy, &l));
        assert_ptr_equal(copy.student.backbone.net, &copy.net);
        const rc_stored a = rc_learner_stored(&l), b = rc_learner_stored(&copy);
        assert_true(a.images == b.images && a.model == b.model && a.statistics == b.statistics);
        assert_true(copy.augment.pad == l.augment.pad && copy.augment.std[1] == l.augment.std[1]);
        learning_teach(&copy, 1, 2, 8, &learning_no_hooks);
        rc_learner_end_task(&copy);
        learning_bits after = learning_take(&l);
        assert_true(learning_same(before, after));
        assert_int_equal(rc_learner_stored(&l).images, a.images);
        learning_teach(&l, 1, 2, 8, &learning_no_hooks);
        rc_learner_end_task(&l);
        learning_bits one = learning_take(&l), other = learning_take(&copy);
        assert_true(learning_same(one, other));
        learning_drop(before);
        learning_drop(after);
        learning_drop(one);
        learning_drop(other);
        rc_learner_destroy(&copy);
        rc_learner_destroy(&l);
    }
}

/* ---- what is stored ------------------------------------------------------------------------------------------- */

/* A method is data-free if it keeps neither images nor a model that makes them: rows say what their bytes do. */
static void images_and_models_of_them_are_not_data_free(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    rc_learner l;
    const rc_method *m;
    for (int i = 0; (m = rc_method_at(i)) != NULL; i++) {
        learning_create_row(&l, be, m, &s);
        learning_begin(&l, 0, 2, 8);
        l.learnt = true; /* as if its stages had run */
        rc_learner_end_task(&l);
        rc_stored stored = rc_learner_stored(&l);
        assert_int_equal(stored.images + stored.model == 0, m->replay->data_free);
        assert_int_equal(stored.statistics, 0);
        rc_learner_destroy(&l);
    }
    rc_net encoder, decoder;
    learning_create(&l, be, "dgr", &s);
    SUCCEEDS(rc_net_vae_encoder(&encoder, LEARNING_CHANNELS, LEARNING_SIZE, s.vae_width));
    SUCCEEDS(rc_net_vae_decoder(&decoder, LEARNING_CHANNELS, LEARNING_SIZE, s.vae_width));
    assert_int_equal(rc_learner_stored(&l).model, (encoder.params + decoder.params) * 4);
    for (int c = 0; c < LEARNING_CHANNELS; c++)
        assert_true(l.augment.mean[c] == 0 && l.augment.std[c] == 1);
    rc_learner_destroy(&l);
    learning_create(&l, be, "joint", &s);
    learning_begin(&l, 0, 2, 8);
    rc_learner_end_task(&l);
    assert_int_equal(rc_learner_stored(&l).images, 16 * (IMAGE + 4));
    rc_learner_destroy(&l);
}

static void an_autoencoder_can_be_copied(void **state)
{
    (void)state;
    rc_vae a, copy;
    SUCCEEDS(rc_vae_create(&a, be, 3, 16, 16, 5));
    SUCCEEDS(rc_vae_clone(&copy, &a));
    const rc_model *from[] = {&a.encoder, &a.decoder}, *to[] = {&copy.encoder, &copy.decoder};
    for (int i = 0; i < 2; i++) {
        size_t params = from[i]->net->params;
        float *x = rc_alloc_zeroed(NULL, params, sizeof *x), *y = rc_alloc_zeroed(NULL, params, sizeof *y);
        assert_int_equal(to[i]->net->params, params);
        assert_ptr_not_equal(from[i]->param, to[i]->param);
        be->read_real(be, x, from[i]->param, params);
        be->read_real(be, y, to[i]->param, params);
        assert_memory_equal(x, y, params * sizeof *x);
        rc_free(NULL, x);
        rc_free(NULL, y);
    }
    assert_int_equal(rc_vae_bytes(&copy), (a.encoder.net->params + a.decoder.net->params) * 4);
    rc_vae_destroy(&copy);
    rc_vae_destroy(&a);
    rc_vae_destroy(&a);
    assert_int_equal(rc_vae_create(&a, be, 3, 12, 16, 5), RC_INVALID_ARGUMENT); /* 12 is no multiple of 8 */
    assert_null(a.net);
}

/* ---- classifiers ---------------------------------------------------------------------------------------------- */

static void dreams_must_fit_the_classifier(void **state)
{
    (void)state;
    rc_net generator, fits, net;
    SUCCEEDS(rc_net_generator_small(&generator, 3, 16, 5, 4));
    SUCCEEDS(rc_net_resnet_small(&fits, 3, 16, 16, 2, 1));
    SUCCEEDS(rc_check_dreams(&generator, &fits));
    static const int shapes[][3] = {{1, 16, 16}, {3, 8, 16}, {3, 16, 8}};
    for (int i = 0; i < 3; i++) {
        char expected[160];
        SUCCEEDS(rc_net_resnet_small(&net, shapes[i][0], shapes[i][1], shapes[i][2], 2, 1));
        snprintf(expected, sizeof expected,
                 "generator 'generator-small' makes 16 x 16 x 3 images, classifier "
                 "'resnet-small' takes %d x %d x %d",
                 shapes[i][1], shapes[i][2], shapes[i][0]);
        fails(rc_check_dreams(&generator, &net), RC_INVALID_ARGUMENT, expected);
    }
    rc_classifier c;
    fails(rc_classifier_create(&c, &generator, be, 3), RC_INVALID_ARGUMENT,
          "net 'generator-small' cannot be a classifier: it must end in average pooling");
    SUCCEEDS(rc_classifier_create(&c, &fits, be, 3));
    assert_true(c.head.d == 8 && rc_net_features(&fits) == 8 && c.head.classes == 0 && c.head.capacity == 3);
    rc_classifier_destroy(&c);
    assert_null(c.backbone.param);
    assert_int_equal(rc_classifier_create(&c, &fits, be, 0), RC_INVALID_ARGUMENT);
    assert_null(c.backbone.param);
}

/* Rows of known norms: 3 and 5 on average for the old, 2 for the new, which become 4. */
static void new_rows_get_the_old_mean_norm(void **state)
{
    (void)state;
    rc_net net;
    rc_classifier c;
    double head[4 * 8] = {0}, found[4 * 8];
    SUCCEEDS(rc_net_resnet_small(&net, 3, 8, 8, 2, 1));
    SUCCEEDS(rc_classifier_create(&c, &net, be, 4));
    SUCCEEDS(rc_head_grow(&c.head, 4, (rc_rng){1, 1}));
    head[0] = 3;
    head[8] = 3;
    head[9] = -4;
    head[16 + 7] = 1;
    head[24 + 2] = -3;
    be->write_real64(be, c.head.weight, head, 32);
    SUCCEEDS(rc_classifier_align_rows(&c, 2));
    be->read_real64(be, found, c.head.weight, 32);
    for (int i = 0; i < 32; i++)
        assert_true(fabs(found[i] - (i < 16 ? head[i] : 2 * head[i])) < 1e-6);
    fails(rc_classifier_align_rows(&c, 0), RC_INVALID_ARGUMENT,
          "0 old rows and 4 new ones cannot be aligned, expected 1 or more");
    fails(rc_classifier_align_rows(&c, 4), RC_INVALID_ARGUMENT,
          "4 old rows and 0 new ones cannot be aligned, expected 1 or more");
    rc_classifier_destroy(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_say_what_their_pages_say),
        cmocka_unit_test(an_unknown_method_gets_all_names),
        cmocka_unit_test(sources_follow_from_the_row),
        cmocka_unit_test(sources_say_what_they_keep),
        cmocka_unit_test(held_images_are_a_buffers_or_pixels),
        cmocka_unit_test(what_cannot_begin_is_refused),
        cmocka_unit_test(other_settings_of_the_net_are_refused),
        cmocka_unit_test(nets_come_by_name),
        cmocka_unit_test(a_task_leaves_the_head_alone),
        cmocka_unit_test(dreams_can_be_looked_at),
        cmocka_unit_test(statistics_grow_with_the_head),
        cmocka_unit_test(copies_learn_the_same_apart),
        cmocka_unit_test(images_and_models_of_them_are_not_data_free),
        cmocka_unit_test(an_autoencoder_can_be_copied),
        cmocka_unit_test(dreams_must_fit_the_classifier),
        cmocka_unit_test(new_rows_get_the_old_mean_norm),
    };
    return cmocka_run_group_tests(tests, open_backend, close_backend);
}
