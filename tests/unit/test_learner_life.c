/* Learners and their parts come and go: what cannot be made is refused or leaves nothing behind, whichever allocation
 * fails, and what was destroyed is all zeros. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "cil/sources.h"
#include "support/cpu_backend.h"
#include "support/learning.h"
#include "support/succeeds.h"

static const rc_learner no_learner;
static const rc_vae no_vae;
static const rc_augment image = {.h = LEARNING_SIZE, .w = LEARNING_SIZE, .c = LEARNING_CHANNELS, .std = {1, 1, 1}};

static const rc_method *row(const char *name)
{
    const rc_method *method;
    SUCCEEDS(rc_method_find(name, &method));
    return method;
}

static void settings_out_of_range_are_refused(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    rc_learner l;
    s.momentum = 2;
    assert_int_equal(rc_learner_create(&l, be, &s, row("finetune"), &image), RC_INVALID_ARGUMENT);
    assert_non_null(strstr(rc_message(), "momentum"));
    assert_memory_equal(&l, &no_learner, sizeof l);
    s = learning_settings();
    snprintf(s.generator, sizeof s.generator, "no such net");
    assert_int_equal(rc_learner_create(&l, be, &s, row("cwd"), &image), RC_INVALID_ARGUMENT);
    assert_non_null(strstr(rc_message(), "'no such net'"));
}

/* More is allowed until it is enough. */
static void learners_that_cannot_be_made_leave_nothing(void **state)
{
    (void)state;
    static const char *const methods[] = {"cwd", "dgr", "er"};
    rc_settings s = learning_settings();
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        size_t before = rc_bytes_allocated();
        int failures = 0;
        rc_status status = RC_OUT_OF_MEMORY;
        for (size_t allowed = 0; status != RC_OK; allowed += 8192) {
            rc_learner l;
            memset(&l, 0x55, sizeof l);
            rc_memory_set_budget(before + allowed);
            status = rc_learner_create(&l, be, &s, row(methods[i]), &image);
            rc_memory_set_budget(SIZE_MAX);
            if (status == RC_OK)
                rc_learner_destroy(&l);
            else
                assert_int_equal(status, RC_OUT_OF_MEMORY);
            failures += status != RC_OK;
            assert_memory_equal(&l, &no_learner, sizeof l);
            assert_int_equal(rc_bytes_allocated(), before);
        }
        assert_true(failures > 1);
    }
}

static void teach_first(rc_learner *l, const rc_method *method, const rc_settings *s)
{
    learning_create_row(l, be, method, s);
    learning_teach(l, 0, 2, 8, &learning_no_hooks);
    rc_learner_end_task(l);
    learning_begin(l, 1, 2, 8);
}

/* A copy has what a learner keeps, and nothing of a task. */
static void learners_are_copied_or_nothing_is(void **state)
{
    (void)state;
    static const char *const methods[] = {"cwd", "dgr", "er"};
    rc_settings s = learning_settings();
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        rc_learner l, copy;
        teach_first(&l, row(methods[i]), &s);
        rc_learner_end_task(&l);
        size_t before = rc_bytes_allocated();
        rc_status status = RC_OUT_OF_MEMORY;
        for (size_t allowed = 0; status != RC_OK; allowed += 8192) {
            memset(&copy, 0x55, sizeof copy);
            rc_memory_set_budget(before + allowed);
            status = rc_learner_clone(&copy, &l);
            rc_memory_set_budget(SIZE_MAX);
            if (status != RC_OK)
                assert_memory_equal(&copy, &no_learner, sizeof copy);
            assert_true(status == RC_OK || rc_bytes_allocated() == before);
        }
        rc_source *none;
        rc_memory_set_budget(rc_bytes_allocated());
        status = rc_source_clone(&l, &none);
        rc_memory_set_budget(SIZE_MAX);
        assert_int_equal(status, RC_OUT_OF_MEMORY);
        assert_true(!copy.in_task && !copy.learnt && copy.state.entries == 0 && copy.task_memory == NULL);
        rc_learner moved;
        rc_learner_move(&moved, &copy);
        assert_memory_equal(&copy, &no_learner, sizeof copy);
        assert_ptr_equal(moved.student.backbone.net, &moved.net);
        rc_learner_destroy(&moved);
        rc_learner_destroy(&l);
    }
}

/* Whoever replays all images, or trains on them, says so to the caller who has them. */
static void old_images_are_asked_for(void **state)
{
    (void)state;
    static const char *const methods[] = {"real-hkd", "joint"};
    rc_settings s = learning_settings();
    for (int i = 0; i < 2; i++) {
        rc_learner l;
        learning_create_row(&l, be, row(methods[i]), &s);
        assert_int_equal(rc_learner_stored(&l).images, 0); /* nothing was given yet */
        rc_learner_destroy(&l);
        assert_true(row(methods[i])->replay->takes_old_images);
        assert_string_equal(row(methods[i])->replay->keeps, "all images");
    }
    assert_false(row("er")->replay->takes_old_images || row("cwd")->replay->takes_old_images);
}

/* Whatever of a task cannot be made is told, and its end drops the rest. */
static void tasks_that_cannot_begin_are_told(void **state)
{
    (void)state;
    static const char *const methods[] = {"cwd", "dgr", "er", "deepinversion-pixels"};
    rc_settings s = learning_settings();
    int32_t *labels;
    uint8_t *images = learning_images(2, 2, 8, &labels);
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        rc_learner l, copy;
        learning_create_row(&l, be, row(methods[i]), &s);
        learning_teach(&l, 0, 2, 8, &learning_no_hooks);
        rc_learner_end_task(&l);
        size_t before = rc_bytes_allocated();
        rc_status status = RC_OUT_OF_MEMORY;
        int failures = 0;
        for (size_t allowed = 0; status != RC_OK; allowed += 8192) {
            SUCCEEDS(rc_learner_clone(&copy, &l));
            rc_memory_set_budget(rc_bytes_allocated() + allowed);
            status = rc_learner_begin_task(&copy, 1, 2, images, labels, 16);
            rc_memory_set_budget(SIZE_MAX);
            assert_true(status == RC_OK || status == RC_OUT_OF_MEMORY);
            failures += status != RC_OK;
            rc_learner_destroy(&copy);
            assert_int_equal(rc_bytes_allocated(), before);
        }
        assert_true(failures > 1);
        rc_learner_destroy(&l);
    }
    rc_free(NULL, images);
    rc_free(NULL, labels);
}

/* Pixels begin as noise of the settings' seed and of the task. */
static void pixels_begin_with_their_own_noise(void **state)
{
    (void)state;
    enum { SOME = 64 };
    rc_settings s = learning_settings();
    rc_learner l;
    rc_pixels same;
    float expected[SOME], found[SOME];
    s.seed = 7;
    teach_first(&l, row("deepinversion-pixels"), &s);
    SUCCEEDS(rc_pixels_create(&same, be, s.pixel_batches, s.batch, &l.augment, 7, 1));
    be->read_real(be, expected, same.memory, SOME);
    be->read_real(be, found, learning_pixels(&l)->memory, SOME);
    assert_memory_equal(found, expected, sizeof found);
    assert_false(l.source->images.plan.offer); /* images of the task do not take their places */
    rc_pixels_destroy(&same);
    rc_learner_destroy(&l);
}

/* A first look at dreams forgets that the task before had images of old classes. */
static void dreams_are_a_task_without_images(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    rc_learner l;
    int32_t *labels;
    uint8_t *images = learning_images(2, 2, 8, &labels);
    teach_first(&l, row("cwd"), &s);
    rc_learner_end_task(&l);
    labels[0] = 1;
    SUCCEEDS(rc_learner_begin_task(&l, 1, 2, images, labels, 16));
    assert_true(l.joins_old);
    rc_learner_end_task(&l);
    rc_memory_set_budget(rc_bytes_allocated());
    rc_status status = rc_learner_begin_dreams(&l);
    rc_memory_set_budget(SIZE_MAX);
    assert_int_equal(status, RC_OUT_OF_MEMORY);
    rc_learner_end_task(&l);
    rc_memory_set_budget(rc_bytes_allocated());
    status = rc_learner_set_method(&l, row("er")); /* another source is made */
    rc_memory_set_budget(SIZE_MAX);
    assert_int_equal(status, RC_OUT_OF_MEMORY);
    assert_ptr_equal(l.source->kind, &rc_source_dreams);
    SUCCEEDS(rc_learner_begin_dreams(&l));
    assert_true(l.in_task && !l.joins_old);
    rc_learner_destroy(&l);
    rc_free(NULL, images);
    rc_free(NULL, labels);
}

/* A buffer goes along with refinement, too, and an epoch's draws are held as many as there are. */
static void stored_images_are_planned_for_all_epochs(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    rc_method refined = *row("er");
    rc_learner l;
    rc_replay *replay;
    refined.refine = true;
    teach_first(&l, &refined, &s);
    assert_int_equal(l.source->images.plan.epochs, s.epochs);
    SUCCEEDS(rc_learner_replay(&l, RC_STREAM_DREAMS, &replay));
    assert_int_equal(replay->bytes, (size_t)l.batches * (size_t)s.batch * sizeof(int32_t));
    assert_true(l.batches > 1);
    rc_replay_destroy(replay);
    rc_learner_destroy(&l);
}

static void replays_that_cannot_be_opened_are_none(void **state)
{
    (void)state;
    static const char *const methods[] = {"cwd", "dgr", "er"};
    rc_settings s = learning_settings();
    rc_learner l;
    rc_replay *none = (rc_replay *)(void *)&l;
    teach_first(&l, row("finetune"), &s);
    assert_null(l.teacher.backbone.param); /* nobody asks it */
    assert_int_equal(rc_learner_replay(&l, RC_STREAM_DREAMS, &none), RC_INTERNAL);
    assert_string_equal(rc_message(), "Fine-tuning has no replay in task 2");
    assert_null(none);
    rc_learner_destroy(&l);
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        teach_first(&l, row(methods[i]), &s);
        size_t before = rc_bytes_allocated();
        for (size_t allowed = 0; allowed < 2048; allowed += 512) {
            rc_replay *replay = (rc_replay *)(void *)&l;
            rc_memory_set_budget(before + allowed);
            rc_status status = l.source->kind->open(l.source, &l, RC_STREAM_DREAMS, &replay);
            rc_memory_set_budget(SIZE_MAX);
            if (status == RC_OK)
                rc_replay_destroy(replay);
            else
                assert_null(replay);
            assert_int_equal(rc_bytes_allocated(), before);
            assert_true(allowed > 0 || status == RC_OUT_OF_MEMORY);
        }
        rc_learner_destroy(&l);
    }
}

/* As wide as it is not high, so that the two cannot stand for each other. */
static void autoencoders_are_copied_or_nothing_is(void **state)
{
    (void)state;
    enum { WIDTH = 8 };
    rc_vae vae, copy;
    SUCCEEDS(rc_vae_create(&vae, be, LEARNING_CHANNELS, LEARNING_SIZE, WIDTH, 5));
    size_t count[2] = {vae.encoder.net->params, vae.decoder.net->params}, before = rc_bytes_allocated();
    float *values = calloc(count[0] + count[1], sizeof *values), *found = calloc(count[0] + count[1], sizeof *found);
    assert_true(values != NULL && found != NULL);
    be->read_real(be, values, vae.encoder.param, count[0]);
    be->read_real(be, values + count[0], vae.decoder.param, count[1]);
    rc_status status = RC_OUT_OF_MEMORY;
    int failures = 0;
    for (size_t allowed = 0; status != RC_OK; allowed += 4096) {
        memset(&copy, 0x55, sizeof copy);
        rc_memory_set_budget(before + allowed);
        status = rc_vae_clone(&copy, &vae);
        rc_memory_set_budget(SIZE_MAX);
        failures += status != RC_OK;
        if (status != RC_OK) {
            assert_int_equal(status, RC_OUT_OF_MEMORY);
            assert_memory_equal(&copy, &no_vae, sizeof copy);
            assert_int_equal(rc_bytes_allocated(), before);
        }
    }
    assert_true(failures > 1);
    assert_true(copy.encoder.net->params == count[0] && copy.decoder.net->params == count[1]);
    const rc_vae *both[] = {&vae, &copy};
    for (int i = 0; i < 2; i++) {
        be->read_real(be, found, both[i]->encoder.param, count[0]);
        be->read_real(be, found + count[0], both[i]->decoder.param, count[1]);
        assert_memory_equal(found, values, (count[0] + count[1]) * sizeof *values);
    }
    rc_vae_destroy(&copy);
    rc_vae_destroy(&vae);
    free(values);
    free(found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_out_of_range_are_refused),
        cmocka_unit_test(learners_that_cannot_be_made_leave_nothing),
        cmocka_unit_test(learners_are_copied_or_nothing_is),
        cmocka_unit_test(old_images_are_asked_for),
        cmocka_unit_test(tasks_that_cannot_begin_are_told),
        cmocka_unit_test(pixels_begin_with_their_own_noise),
        cmocka_unit_test(dreams_are_a_task_without_images),
        cmocka_unit_test(stored_images_are_planned_for_all_epochs),
        cmocka_unit_test(replays_that_cannot_be_opened_are_none),
        cmocka_unit_test(autoencoders_are_copied_or_nothing_is),
    };
    return cmocka_run_group_tests(tests, open_backend, close_backend);
}
