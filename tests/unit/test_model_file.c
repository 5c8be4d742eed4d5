/* Model files and checkpoints: what is written comes back bit for bit, and no broken file does harm. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "api/describe_model.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "cil/scorer.h"
#include "cil/sources.h"
#include "model/checkpoint.h"
#include "model/model_file.h"
#include "support/craft.h"
#include "support/page.h"

static char folder[] = "/tmp/recollect-test-XXXXXX";
static char path[64];

static int set_up(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    remove(path);
    return rmdir(folder);
}

static void make_model_of(rc_backend *be, const char *method_name, int size, rc_saved_model *model)
{
    memset(model, 0, sizeof *model);
    model->config = rc_config_default();
    assert_int_equal(rc_config_set(&model->config, "net", "resnet-small"), RC_OK);
    assert_int_equal(rc_config_set(&model->config, "generator", "generator-small"), RC_OK);
    assert_int_equal(rc_config_set(&model->config, "net_width", "4"), RC_OK);
    const rc_method *method;
    assert_int_equal(rc_config_set(&model->config, "vae_width", "8"), RC_OK);
    assert_int_equal(rc_config_set(&model->config, "buffer_size", "9"), RC_OK);
    assert_int_equal(rc_method_find(method_name, &method), RC_OK);
    rc_augment image = {.h = size, .w = size, .c = 3, .mean = {0.1f, 0.2f, 0.3f}, .std = {0.4f, 0.5f, 0.6f}};
    assert_int_equal(rc_learner_create(&model->learner, be, &model->config.settings, method, &image), RC_OK);
    assert_int_equal(rc_head_grow(&model->learner.student.head, 3, (rc_rng){9, 1}), RC_OK);
    assert_int_equal(rc_head_grow(&model->learner.student.head, 2, (rc_rng){9, 2}), RC_OK);
    assert_int_equal(rc_learner_grow_statistics(&model->learner), RC_OK);
    static const char *const names[] = {"cat", "dog", "\xc3\xa4pfel \"rot\"", "x", " "};
    model->class_name = rc_alloc_zeroed(NULL, 5, sizeof *model->class_name);
    for (int i = 0; i < 5; i++) {
        model->class_name[i] = rc_alloc_zeroed(NULL, strlen(names[i]) + 1, 1);
        memcpy(model->class_name[i], names[i], strlen(names[i]));
    }
}

static void make_model(rc_backend *be, rc_saved_model *model)
{
    make_model_of(be, "cwd", 14, model);
}

static void a_model_comes_back(void **state)
{
    (void)state;
    rc_backend *be;
    assert_int_equal(rc_backend_open("cpu", 1, NULL, &be), RC_OK);
    rc_saved_model model, loaded;
    make_model(be, &model);
    assert_int_equal(rc_model_file_save(path, &model, true), RC_OK);
    assert_int_equal(rc_model_file_load(path, be, &loaded), RC_OK);
    const rc_learner *a = &model.learner, *b = &loaded.learner;
    assert_int_equal(b->student.head.classes, 5);
    assert_int_equal(b->student.head.tasks, 2);
    assert_int_equal(b->student.head.task_end[0], 3);
    assert_memory_equal(a->student.backbone.param, b->student.backbone.param, a->net.params * sizeof(float));
    assert_memory_equal(a->student.backbone.running, b->student.backbone.running, a->net.running * sizeof(float));
    assert_memory_equal(a->student.head.weight, b->student.head.weight, 5u * (size_t)a->student.head.d * sizeof(float));
    assert_memory_equal(a->augment.mean, b->augment.mean, sizeof a->augment.mean);
    assert_int_equal(b->statistics_classes, 5);
    for (int i = 0; i < 5; i++)
        assert_string_equal(model.class_name[i], loaded.class_name[i]);
    rc_saved_model_destroy(&model);
    rc_saved_model_destroy(&loaded);
    rc_backend_close(be);
}

/* What `info` prints of a model with a class of so many é: its line of the first task. */
static size_t first_task_line(rc_saved_model *model, int characters, bool odd)
{
    page p = {.used = 0};
    char *name = rc_alloc(NULL, 2 * (size_t)characters + 2), *before = model->class_name[1];
    memcpy(name, "x", 2);
    for (int i = 0; i < characters; i++)
        memcpy(name + odd + 2 * i, "\xC3\xA9", 3);
    model->class_name[1] = name;
    assert_int_equal(rc_describe_model(model, false, page_add_line, &p), RC_OK);
    model->class_name[1] = before;
    rc_free(NULL, name);
    const char *line = strstr(p.text, "  task 1");
    assert_non_null(line);
    size_t length = strcspn(line, "\n");
    for (size_t i = 0, step; i < length; i += step)
        assert_true((step = rc_utf8_length(line + i, length - i)) > 0);
    assert_true((strncmp(line + length - 3, "...", 3) == 0) == (characters > 440));
    return length;
}

static void names_for_people_are_cut_between_characters(void **state)
{
    (void)state;
    rc_backend *be;
    rc_saved_model model;
    assert_int_equal(rc_backend_open("cpu", 1, NULL, &be), RC_OK);
    make_model(be, &model);
    assert_int_equal(rc_model_file_save(path, &model, true), RC_OK);
    first_task_line(&model, 400, false);
    assert_true(first_task_line(&model, 600, false) > 900);
    assert_true(first_task_line(&model, 600, true) > 900);
    rc_saved_model_destroy(&model);
    rc_backend_close(be);
}

/* Files of before settings won: 5120 images, and 500 among the settings, which the row did not read. */
static void settings_that_an_older_row_did_not_read_are_forgotten(void **state)
{
    (void)state;
    enum { HELD = 7 };
    static const struct {
        const char *method;
        bool older;
        int size; /* that the model has afterwards */
    } cases[] = {{"lode-5120", false, 9}, {"lode-5120", true, 0}, {"er", true, 9}};
    rc_backend *be;
    assert_int_equal(rc_backend_open("cpu", 1, NULL, &be), RC_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rc_saved_model model, loaded;
        craft file;
        make_model_of(be, cases[i].method, 16, &model);
        model.config.settings.lode_rho = 0.25;
        rc_image_buffer *buffer = &model.learner.source->images;
        assert_int_equal(rc_buffer_reserve(buffer, HELD), RC_OK);
        buffer->held = HELD;
        buffer->offered = HELD;
        assert_int_equal(rc_model_file_save(path, &model, true), RC_OK);
        craft_read(path, &file);
        assert_true(!cases[i].older || craft_metadata(&file, "row_numbers", NULL));
        craft_write(&file, path);
        craft_free(&file);
        assert_int_equal(rc_model_file_load(path, be, &loaded), RC_OK);
        assert_int_equal(loaded.config.settings.buffer_size, cases[i].size);
        assert_true(loaded.config.settings.lode_rho == (cases[i].size == 0 ? 0 : 0.25));
        assert_int_equal(loaded.learner.source->images.capacity, cases[i].size == 0 ? 5120 : 9);
        rc_saved_model_destroy(&loaded);
        rc_saved_model_destroy(&model);
    }
    rc_backend_close(be);
}

/* What a file claims about a buffer is checked before there is memory for it. */
static void claims_about_a_buffer_are_checked(void **state)
{
    (void)state;
    enum { HELD = 7 };
    static const struct {
        const char *shape, *size, *message;
    } cases[] = {{NULL, "6", "the buffer holds 7 images, expected 1 to 6"},
                 {"[7,768]", "9", "the buffer holds 0 images, expected 1 to 9"},
                 {"[5376,1,1,1]", "6000", "buffer.images"}}; /* a byte each: as images they would be 4 MB */
    rc_backend *be;
    rc_saved_model model, loaded;
    craft good;
    assert_int_equal(rc_backend_open("cpu", 1, NULL, &be), RC_OK);
    make_model_of(be, "er", 16, &model);
    rc_image_buffer *buffer = &model.learner.source->images;
    assert_int_equal(rc_buffer_reserve(buffer, HELD), RC_OK);
    buffer->held = HELD;
    buffer->offered = 6000;
    assert_int_equal(rc_model_file_save(path, &model, true), RC_OK);
    craft_read(path, &good);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        craft changed = craft_copy(&good);
        assert_true(cases[i].shape == NULL || craft_tensor(&changed, "buffer.images", "shape", cases[i].shape));
        assert_true(craft_setting(&changed, "buffer_size", cases[i].size));
        craft_write(&changed, path);
        craft_free(&changed);
        rc_memory_set_budget(rc_bytes_allocated() + (1 << 20));
        assert_int_equal(rc_model_file_load(path, be, &loaded), RC_FORMAT);
        rc_memory_set_budget(SIZE_MAX);
        if (strstr(rc_message(), cases[i].message) == NULL)
            fail_msg("the message is: %s", rc_message());
    }
    craft_free(&good);
    assert_false(rc_model_is_data_free(&model));
    rc_saved_model_destroy(&model);
    make_model(be, &model);
    assert_true(rc_model_is_data_free(&model));
    model.unknown_bytes = 1; /* whatever that is */
    assert_false(rc_model_is_data_free(&model));
    rc_saved_model_destroy(&model);
    rc_backend_close(be);
}

/* Means of what the head was taught are of classes that the head has, and numbers. */
static void claims_about_taught_classes_are_checked(void **state)
{
    (void)state;
    rc_backend *be;
    rc_saved_model model, loaded;
    craft good;
    char shape[2][32];
    assert_int_equal(rc_backend_open("cpu", 1, NULL, &be), RC_OK);
    make_model_of(be, "finetune", 16, &model);
    size_t d = (size_t)model.learner.student.head.d;
    assert_int_equal(rc_learner_grow_taught(&model.learner, 2), RC_OK);
    be->zero(be, model.learner.taught_mean, 2 * d * be->real_bytes);
    assert_int_equal(rc_model_file_save(path, &model, true), RC_OK);
    craft_read(path, &good);
    snprintf(shape[0], sizeof shape[0], "[6,%zu]", d); /* the head has 5 */
    snprintf(shape[1], sizeof shape[1], "[%zu]", 2 * d);
    const struct {
        const char *shape;
        size_t count;
        const char *message;
    } cases[] = {{shape[0], 6 * d, "2 dimensions and 6 rows, expected 2 and 1 to 5"},
                 {shape[1], 2 * d, "1 dimensions and"},
                 {"[2,3]", 6, "head.taught_mean"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        craft changed = craft_copy(&good);
        assert_true(craft_resize(&changed, "head.taught_mean", cases[i].shape, cases[i].count));
        craft_write(&changed, path);
        craft_free(&changed);
        assert_int_equal(rc_model_file_load(path, be, &loaded), RC_FORMAT);
        if (strstr(rc_message(), cases[i].message) == NULL)
            fail_msg("the message is: %s", rc_message());
    }
    craft_free(&good);
    ((float *)model.learner.taught_mean)[d + 1] = NAN;
    assert_int_equal(rc_model_file_save(path, &model, true), RC_OK);
    assert_int_equal(rc_model_file_load(path, be, &loaded), RC_FORMAT);
    assert_non_null(strstr(rc_message(), "head.taught_mean"));
    rc_saved_model_destroy(&model);
    rc_backend_close(be);
}

/* So is how large an autoencoder is: the file does not have a large one. */
static void claims_about_an_autoencoder_are_checked(void **state)
{
    (void)state;
    rc_backend *be;
    rc_saved_model model, loaded;
    craft changed;
    assert_int_equal(rc_backend_open("cpu", 1, NULL, &be), RC_OK);
    make_model_of(be, "dgr", 16, &model);
    assert_int_equal(rc_model_file_save(path, &model, true), RC_OK);
    craft_read(path, &changed);
    assert_true(craft_setting(&changed, "vae_width", "512"));
    craft_write(&changed, path);
    craft_free(&changed);
    rc_memory_set_budget(rc_bytes_allocated() + (1 << 20));
    assert_int_equal(rc_model_file_load(path, be, &loaded), RC_FORMAT);
    rc_memory_set_budget(SIZE_MAX);
    assert_non_null(strstr(rc_message(), "'encoder."));
    rc_saved_model_destroy(&model);
    rc_backend_close(be);
}

/* Images that ER keeps, and how many it was shown; an autoencoder. */
static void what_is_stored_comes_back(void **state)
{
    (void)state;
    enum { HELD = 7, PIXELS = 16 * 16 * 3 };
    rc_backend *be;
    rc_saved_model model, loaded;
    assert_int_equal(rc_backend_open("cpu", 1, NULL, &be), RC_OK);
    make_model_of(be, "er", 16, &model);
    rc_image_buffer *buffer = &model.learner.source->images;
    assert_int_equal(rc_buffer_reserve(buffer, HELD), RC_OK);
    buffer->held = HELD;
    buffer->offered = 4000000000u;
    for (int i = 0; i < HELD * PIXELS; i++)
        buffer->images[i] = (uint8_t)(i * 37 >> 3);
    for (int i = 0; i < HELD; i++)
        buffer->labels[i] = i % 5;
    assert_int_equal(rc_model_file_save(path, &model, true), RC_OK);
    assert_int_equal(rc_model_file_load(path, be, &loaded), RC_OK);
    const rc_image_buffer *again = &loaded.learner.source->images;
    assert_true(again->held == HELD && again->capacity == 9 && again->offered == 4000000000u);
    assert_memory_equal(again->images, buffer->images, HELD * PIXELS);
    assert_memory_equal(again->labels, buffer->labels, HELD * sizeof *buffer->labels);
    rc_saved_model_destroy(&loaded);

    buffer->labels[3] = 5; /* there are 5 classes */
    assert_int_equal(rc_model_file_save(path, &model, true), RC_OK);
    assert_int_equal(rc_model_file_load(path, be, &loaded), RC_FORMAT);
    assert_non_null(strstr(rc_message(), "image 3 of the buffer is of class 5"));
    buffer->labels[3] = 0;
    buffer->offered = HELD - 1;
    assert_int_equal(rc_model_file_save(path, &model, true), RC_OK);
    assert_int_equal(rc_model_file_load(path, be, &loaded), RC_FORMAT);
    assert_non_null(strstr(rc_message(), "6 images were offered"));
    rc_saved_model_destroy(&model);

    make_model_of(be, "dgr", 16, &model);
    assert_int_equal(rc_model_file_save(path, &model, true), RC_OK);
    assert_int_equal(rc_model_file_load(path, be, &loaded), RC_OK);
    const rc_vae *a = &((const rc_generative_source *)model.learner.source)->vae;
    const rc_vae *b = &((const rc_generative_source *)loaded.learner.source)->vae;
    assert_memory_equal(a->encoder.param, b->encoder.param, a->encoder.net->params * sizeof(float));
    assert_memory_equal(a->decoder.param, b->decoder.param, a->decoder.net->params * sizeof(float));
    assert_true(loaded.learner.augment.mean[0] == 0 && loaded.learner.augment.std[0] == 1);
    rc_saved_model_destroy(&model);
    rc_saved_model_destroy(&loaded);
    rc_backend_close(be);
}

/* Every cut and many flipped bits: a status and a message, or a model; never a crash (sanitizers watch). */
static void broken_files_do_no_harm(void **state)
{
    (void)state;
    rc_backend *be;
    assert_int_equal(rc_backend_open("cpu", 1, NULL, &be), RC_OK);
    rc_saved_model model, loaded;
    make_model(be, &model);
    assert_int_equal(rc_model_file_save(path, &model, true), RC_OK);
    char *bytes;
    size_t size;
    assert_int_equal(rc_file_read(path, 1 << 24, &bytes, &size), RC_OK);
    size_t cuts[] = {0, 1, 7, 8, 9, 100, 1000, size / 2, size - 1};
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        assert_int_equal(rc_file_write_atomic(path, bytes, cuts[i]), RC_OK);
        assert_int_not_equal(rc_model_file_load(path, be, &loaded), RC_OK);
        assert_non_null(strstr(rc_message(), path));
    }
    int refused = 0;
    for (unsigned i = 0; i < 150; i++) {
        size_t at = (size_t)i * 2654435761u % 6000;
        bytes[at] ^= (char)(1 << i % 8);
        assert_int_equal(rc_file_write_atomic(path, bytes, size), RC_OK);
        if (rc_model_file_load(path, be, &loaded) == RC_OK)
            rc_saved_model_destroy(&loaded);
        else
            refused++;
        bytes[at] ^= (char)(1 << i % 8);
    }
    print_message("%d of 150 damaged headers were refused\n", refused);
    assert_true(refused > 75);
    rc_free(NULL, bytes);
    rc_saved_model_destroy(&model);
    rc_backend_close(be);
}

/* A file from a stranger: weights that are no numbers are refused by name. */
static void weights_that_are_no_numbers_are_refused(void **state)
{
    (void)state;
    static const float rare = 1.2345678e-5f, wrong[] = {NAN, INFINITY, -INFINITY};
    rc_backend *be;
    assert_int_equal(rc_backend_open("cpu", 1, NULL, &be), RC_OK);
    rc_saved_model model, loaded;
    make_model(be, &model);
    char *bytes;
    size_t size, at = 0;
    ((float *)model.learner.student.head.weight)[7] = rare;
    assert_int_equal(rc_model_file_save(path, &model, true), RC_OK);
    assert_int_equal(rc_file_read(path, 1 << 24, &bytes, &size), RC_OK);
    while (at + sizeof rare < size && memcmp(bytes + at, &rare, sizeof rare) != 0)
        at++;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        memcpy(bytes + at, &wrong[i], sizeof *wrong);
        assert_int_equal(rc_file_write_atomic(path, bytes, size), RC_OK);
        assert_int_equal(rc_model_file_load(path, be, &loaded), RC_FORMAT);
        assert_non_null(strstr(rc_message(), "head.classifiers.0.weight"));
        assert_non_null(strstr(rc_message(), "element 7"));
    }
    rc_free(NULL, bytes);
    rc_saved_model_destroy(&model);
    rc_backend_close(be);
}

/* Numbers of a file may be finite, and too large all the same: no class is the answer then. */
static void an_answer_that_is_no_number_is_a_failure(void **state)
{
    (void)state;
    rc_backend *be;
    assert_int_equal(rc_backend_open("cpu", 1, NULL, &be), RC_OK);
    rc_saved_model model;
    make_model(be, &model);
    const rc_learner *l = &model.learner;
    uint8_t image[14 * 14 * 3];
    float logits[5];
    for (size_t i = 0; i < sizeof image; i++)
        image[i] = (uint8_t)(i * 37);
    assert_int_equal(rc_model_init(&model.learner.student.backbone, (rc_rng){1, 1}), RC_OK);
    rc_scorer *scorer;
    assert_int_equal(rc_scorer_create(be, &l->student, 1, &l->augment, &scorer), RC_OK);
    assert_int_equal(rc_scorer_run(scorer, image, NULL, 1, logits, NULL), RC_OK);
    for (int j = 0; j < l->student.head.d; j++)
        ((float *)l->student.head.weight)[3 * l->student.head.d + j] = 3e38f;
    assert_int_equal(rc_scorer_run(scorer, image, NULL, 1, logits, NULL), RC_NUMERIC);
    assert_non_null(strstr(rc_message(), "class 3"));
    rc_scorer_destroy(scorer);
    rc_saved_model_destroy(&model);
    rc_backend_close(be);
}

static void checkpoints_come_back_and_know_their_run(void **state)
{
    (void)state;
    rc_backend *be;
    assert_int_equal(rc_backend_open("cpu", 1, NULL, &be), RC_OK);
    float reals[5] = {1, 2, -3, 0.5f, 1e-30f}, zero_reals[5] = {0};
    int32_t ints[3] = {7, -8, 9}, zero_ints[3] = {0};
    rc_state state_of = {0}, other = {0};
    assert_int_equal(rc_state_add(&state_of, "a", RC_STATE_REAL, reals, 5), RC_OK);
    assert_int_equal(rc_state_add(&state_of, "b", RC_STATE_INT32, ints, 3), RC_OK);
    assert_int_equal(rc_state_add(&state_of, "b", RC_STATE_INT32, ints, 3), RC_INTERNAL);
    assert_int_equal(rc_state_add(&other, "b", RC_STATE_INT32, zero_ints, 3), RC_OK);
    assert_int_equal(rc_state_add(&other, "a", RC_STATE_REAL, zero_reals, 5), RC_OK);
    rc_position position = {.task = 2,
                            .stage = RC_STAGE_REFINEMENT,
                            .step = 4000000000u,
                            .seconds = 12.5,
                            .log_offset = 77},
                found;
    assert_int_equal(rc_checkpoint_save(path, be, &state_of, &position, "me"), RC_OK);
    rc_safetensors *file;
    assert_int_equal(rc_checkpoint_open(path, "you", &found, &file), RC_INVALID_ARGUMENT);
    assert_null(file);
    assert_int_equal(rc_checkpoint_open(path, "me", &found, &file), RC_OK);
    assert_int_equal(found.task, 2);
    assert_int_equal(found.stage, RC_STAGE_REFINEMENT);
    assert_true(found.step == 4000000000u && found.seconds == 12.5 && found.log_offset == 77);
    assert_int_equal(rc_checkpoint_restore(file, be, &other), RC_OK);
    assert_memory_equal(reals, zero_reals, sizeof reals);
    assert_memory_equal(ints, zero_ints, sizeof ints);
    rc_state_rewind(&other, 1);
    assert_int_equal(rc_state_add(&other, "missing", RC_STATE_REAL, zero_reals, 5), RC_OK);
    assert_int_equal(rc_checkpoint_restore(file, be, &other), RC_FORMAT);
    assert_non_null(strstr(rc_message(), "missing"));
    rc_safetensors_close(file);
    rc_backend_close(be);
}

/* What a file says about strangers comes back, may be missing, as in older files, and is checked. */
static void calibration_comes_back_or_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        rc_status status;
    } cases[] = {
        {NULL, RC_OK},
        {"{\"score\":\"entropy\",\"lessons\":[{\"classes\":5,\"images\":0,\"scores\":[]}]}", RC_OK},
        {"{\"score\":\"entropy\",\"lessons\":[{\"classes\":4,\"images\":0,\"scores\":[]}]}", RC_FORMAT},
        {"{\"score\":\"entropy\",\"lessons\":[{\"classes\":5,\"images\":20,\"scores\":[1]}]}", RC_FORMAT},
        {"x", RC_FORMAT},
    };
    enum { HELD_OUT = 25 };
    rc_backend *be;
    rc_saved_model model, loaded;
    double scores[HELD_OUT];
    for (int i = 0; i < HELD_OUT; i++)
        scores[i] = 0.1 * i;
    assert_int_equal(rc_backend_open("cpu", 1, NULL, &be), RC_OK);
    make_model(be, &model);
    assert_int_equal(rc_calibration_add(&model.calibration, 5, scores, HELD_OUT), RC_OK);
    assert_int_equal(rc_model_file_save(path, &model, true), RC_OK);
    assert_int_equal(rc_model_file_load(path, be, &loaded), RC_OK);
    assert_true(rc_calibration_covers(&loaded.calibration, 5) && loaded.unknown_bytes == 0);
    assert_memory_equal(model.calibration.lesson[0].score, loaded.calibration.lesson[0].score,
                        HELD_OUT * sizeof(float));
    rc_saved_model_destroy(&loaded);
    craft good;
    craft_read(path, &good);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        craft changed = craft_copy(&good);
        assert_true(craft_metadata(&changed, "calibration", cases[i].text));
        craft_write(&changed, path);
        craft_free(&changed);
        assert_int_equal(rc_model_file_load(path, be, &loaded), cases[i].status);
        assert_true(cases[i].status == RC_OK || strstr(rc_message(), "calibration") != NULL);
        assert_false(rc_calibration_covers(&loaded.calibration, 5));
        rc_saved_model_destroy(&loaded);
    }
    craft_free(&good);
    rc_saved_model_destroy(&model);
    rc_backend_close(be);
}

/* Where a checkpoint is, is a place that there can be. */
static void places_of_checkpoints_are_whole_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *key, *value;
        bool good;
    } cases[] = {{"task", "0", true},
                 {"task", "255", true},
                 {"task", "256", false},
                 {"task", "-1", false},
                 {"task", "1.5", false},
                 {"task", "nan", false},
                 {"task", "", false},
                 {"task", NULL, false},
                 {"step", "4294967295", true},
                 {"step", "4294967296", false},
                 {"step", "0.5", false},
                 {"step", "1e400", false},
                 {"log_offset", "1e15", true},
                 {"log_offset", "1e16", false},
                 {"log_offset", "7.5", false},
                 {"seconds", "0.25", true},
                 {"seconds", "1e13", false},
                 {"seconds", "-1", false},
                 {"seconds", "0,5", false},
                 {"stage", "inversion", true},
                 {"stage", "sleeping", false},
                 {"stage", NULL, false},
                 {"training_seconds", "inf", false}};
    rc_backend *be;
    assert_int_equal(rc_backend_open("cpu", 1, NULL, &be), RC_OK);
    float reals[1] = {1};
    rc_state state_of = {0};
    rc_position position = {.task = 1, .stage = RC_STAGE_TRAINING, .step = 3, .seconds = 12.5, .log_offset = 77}, found;
    assert_int_equal(rc_state_add(&state_of, "a", RC_STATE_REAL, reals, 1), RC_OK);
    assert_int_equal(rc_checkpoint_save(path, be, &state_of, &position, "me"), RC_OK);
    craft good;
    craft_read(path, &good);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rc_safetensors *file;
        craft changed = craft_copy(&good);
        assert_true(craft_metadata(&changed, cases[i].key, cases[i].value));
        craft_write(&changed, path);
        craft_free(&changed);
        rc_status status = rc_checkpoint_open(path, "me", &found, &file);
        if (status != (cases[i].good ? RC_OK : RC_FORMAT))
            fail_msg("%s is '%s': %s", cases[i].key, cases[i].value ? cases[i].value : "missing", rc_message());
        rc_safetensors_close(file);
    }
    craft_free(&good);
    rc_backend_close(be);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_comes_back),
        cmocka_unit_test(names_for_people_are_cut_between_characters),
        cmocka_unit_test(what_is_stored_comes_back),
        cmocka_unit_test(settings_that_an_older_row_did_not_read_are_forgotten),
        cmocka_unit_test(claims_about_a_buffer_are_checked),
        cmocka_unit_test(claims_about_taught_classes_are_checked),
        cmocka_unit_test(claims_about_an_autoencoder_are_checked),
        cmocka_unit_test(broken_files_do_no_harm),
        cmocka_unit_test(weights_that_are_no_numbers_are_refused),
        cmocka_unit_test(an_answer_that_is_no_number_is_a_failure),
        cmocka_unit_test(checkpoints_come_back_and_know_their_run),
        cmocka_unit_test(calibration_comes_back_or_is_refused),
        cmocka_unit_test(places_of_checkpoints_are_whole_numbers),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
