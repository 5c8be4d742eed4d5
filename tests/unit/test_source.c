/* A source of replay that only this test knows: one file and one row (unit/example_source.h). It learns tasks, is left
 * and taken up again, saved, loaded, cloned and described. The library does not know it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "api/describe_model.h"
#include "base/memory.h"
#include "model/model_file.h"
#include "support/cpu_backend.h"
#include "support/learning.h"
#include "support/page.h"
#include "support/succeeds.h"
#include "unit/example_source.h"

enum { PIXELS = LEARNING_SIZE * LEARNING_SIZE * LEARNING_CHANNELS };

/* The table of methods has the row (the linker's --wrap). */
rc_status __real_rc_method_find(const char *name, const rc_method **method);
rc_status __wrap_rc_method_find(const char *name, const rc_method **method);

rc_status __wrap_rc_method_find(const char *name, const rc_method **method)
{
    if (strcmp(name, first_images.name) != 0)
        return __real_rc_method_find(name, method);
    *method = &first_images;
    return RC_OK;
}

static void teach(rc_learner *l, int task, int n_new)
{
    learning_teach(l, task, n_new, 8, &learning_no_hooks);
    rc_learner_end_task(l);
}

/* It holds the first image of each of `classes` classes: image i of a task of n classes is of its class i % n. */
static void expect_held(const rc_learner *l, int classes)
{
    const rc_image_buffer *b = &l->source->images;
    assert_int_equal(b->held, classes);
    for (int i = 0; i < classes; i++) {
        int32_t *labels;
        uint8_t *images = learning_images(i, 1, 1, &labels);
        assert_int_equal(b->labels[i], i);
        assert_memory_equal(b->images + i * PIXELS, images, PIXELS);
        rc_free(NULL, images);
        rc_free(NULL, labels);
    }
    assert_int_equal(rc_learner_stored(l).images, classes * (PIXELS + 4));
}

static void it_learns_and_keeps(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    rc_learner l;
    const rc_method *cwd;
    learning_create_row(&l, be, &first_images, &s);
    expect_held(&l, 0);
    teach(&l, 0, 3);
    expect_held(&l, 3);
    learning_begin(&l, 1, 2, 8);
    assert_true(l.has.replay && !l.has.teacher);
    rc_learner_end_task(&l); /* not learnt: it stays as it was */
    expect_held(&l, 3);
    rc_learner_destroy(&l);
    learning_create_row(&l, be, &first_images, &s);
    teach(&l, 0, 3);
    teach(&l, 1, 2);
    expect_held(&l, 5);
    SUCCEEDS(rc_learner_set_method(&l, &first_images)); /* settings that change nothing drop nothing */
    expect_held(&l, 5);
    SUCCEEDS(rc_method_find("cwd", &cwd));
    SUCCEEDS(rc_learner_set_method(&l, cwd));
    assert_true(l.source->kind == &rc_source_dreams && rc_learner_stored(&l).images == 0);
    rc_learner_destroy(&l);
}

static void it_can_be_resumed(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    int stages[RC_STAGE_COUNT];
    if (learning_resume_everywhere(be, first_images.name, &s, stages))
        assert_true(stages[RC_STAGE_TRAINING] > 2);
}

/* A copy learns; the first one has the bits that it had, and learns the same. */
static void its_copies_are_their_own(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    rc_learner l, copy, moved;
    learning_create_row(&l, be, &first_images, &s);
    teach(&l, 0, 3);
    learning_bits before = learning_take(&l);
    SUCCEEDS(rc_learner_clone(&copy, &l));
    teach(&copy, 1, 2);
    rc_learner_move(&moved, &copy);
    assert_null(copy.backend);
    expect_held(&moved, 5);
    expect_held(&l, 3);
    learning_bits after = learning_take(&l);
    assert_true(learning_same(before, after));
    teach(&l, 1, 2);
    teach(&l, 2, 1);
    teach(&moved, 2, 1);
    learning_bits a = learning_take(&l), b = learning_take(&moved);
    assert_true(learning_same(a, b));
    learning_drop(before);
    learning_drop(after);
    learning_drop(a);
    learning_drop(b);
    rc_learner_destroy(&l);
    rc_learner_destroy(&moved);
}

static char *names[] = {"a", "b", "c", "d", "e"};

/* What is loaded goes on as what was saved would have. */
static void its_files_hold_it(void **state)
{
    (void)state;
    char path[] = "/tmp/recollect-test-XXXXXX";
    rc_saved_model model = {.config = rc_config_default(), .class_name = names}, loaded;
    close(mkstemp(path));
    model.config.settings = learning_settings();
    learning_create_row(&model.learner, be, &first_images, &model.config.settings);
    teach(&model.learner, 0, 3);
    SUCCEEDS(rc_model_file_save(path, &model, true));
    SUCCEEDS(rc_model_file_load(path, be, &loaded));
    assert_ptr_equal(loaded.learner.method, &first_images);
    assert_int_equal(loaded.unknown_bytes, 0);
    assert_false(rc_model_is_data_free(&loaded));
    expect_held(&loaded.learner, 3);
    page p = {.used = 0};
    SUCCEEDS(rc_describe_model(&loaded, false, page_add_line, &p));
    assert_non_null(strstr(p.text, "kept of images 2.3 kB: the first images of 3 classes; not data-free\n"));
    teach(&model.learner, 1, 2);
    teach(&loaded.learner, 1, 2);
    learning_bits a = learning_take(&model.learner), b = learning_take(&loaded.learner);
    assert_true(learning_same(a, b));
    expect_held(&loaded.learner, 5);
    learning_drop(a);
    learning_drop(b);
    loaded.learner.student.head.classes = 3; /* as many names as it was loaded with */
    rc_saved_model_destroy(&loaded);
    model.learner.source->images.held = 4; /* of 5 classes */
    SUCCEEDS(rc_model_file_save(path, &model, true));
    assert_int_equal(rc_model_file_load(path, be, &loaded), RC_FORMAT);
    assert_non_null(strstr(rc_message(), "there are first images of 4 classes, expected 5"));
    rc_learner_destroy(&model.learner);
    unlink(path);
}

/* docs/add-a-method.md shows the table that is tested. */
static void the_page_shows_it(void **state)
{
    (void)state;
    char *file = page_read("tests/unit/example_source.h"), *page_text = page_read("docs/add-a-method.md");
    char *table = strstr(file, "const rc_source_kind rc_source_first"), *end_of = strstr(table, "};\n");
    end_of[3] = '\0';
    assert_non_null(strstr(page_text, table));
    rc_free(NULL, file);
    rc_free(NULL, page_text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_learns_and_keeps),      cmocka_unit_test(it_can_be_resumed),
        cmocka_unit_test(its_copies_are_their_own), cmocka_unit_test(its_files_hold_it),
        cmocka_unit_test(the_page_shows_it),
    };
    return cmocka_run_group_tests(tests, open_backend, close_backend);
}
