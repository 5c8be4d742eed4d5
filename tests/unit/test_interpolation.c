/* The filter that resizes pictures: every way to pictures takes the model's, in lessons, predictions and
 * evaluations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/evaluate.h"
#include "api/predictor.h"
#include "data/image.h"
#include "support/api_data.h"
#include "support/data_files.h"
#include "support/data_sets.h"
#include "support/succeeds.h"

enum { HIGH = 20, WIDE = 30, SIZE = 16, RESIZE = 18, PIXELS = SIZE * SIZE * 3 };

/* A P6 file of noise, which filters treat differently, and the same picture. */
static rc_image write_noise(const char *path, int stream)
{
    static uint8_t file[64 + HIGH * WIDE * 3];
    int head = sprintf((char *)file, "P6\n%d %d\n255\n", WIDE, HIGH);
    rc_image image = {HIGH, WIDE, 3, malloc(HIGH * WIDE * 3)};
    assert_non_null(image.pixels);
    data_random((uint64_t)stream, image.pixels, HIGH * WIDE * 3);
    memcpy(file + head, image.pixels, HIGH * WIDE * 3);
    data_write(path, file, (size_t)head + HIGH * WIDE * 3);
    return image;
}

static void files_are_resized_with_the_filter_that_is_set(void **state)
{
    (void)state;
    rc_image image = write_noise("noise/a/1.ppm", 1);
    uint8_t expected[2][PIXELS];
    for (int how = RC_BILINEAR; how <= RC_BICUBIC; how++) {
        rc_dataset d;
        rc_image_fit fit = {.resize = RESIZE, .size = SIZE, .channels = 3, .interpolation = (rc_interpolation)how};
        SUCCEEDS(rc_image_fit_into(&image, &fit, expected[how]));
        data_open("noise", &(rc_data_settings){.size = SIZE, .resize = RESIZE, .interpolation = (rc_interpolation)how},
                  &d);
        assert_memory_equal(d.train.images, expected[how], PIXELS);
        rc_dataset_close(&d);
    }
    assert_memory_not_equal(expected[0], expected[1], PIXELS);
    free(image.pixels);
}

/* Of a set whose images are bytes already. */
static void sets_are_resized_with_the_filter_that_is_set(void **state)
{
    (void)state;
    enum { OWN = 24 };
    data_bytes images = data_idx_images(2, OWN, OWN), labels = data_idx_labels(2, 2);
    data_write("m/train-images-idx3-ubyte", images.data, images.size);
    data_write("m/train-labels-idx1-ubyte", labels.data, labels.size);
    data_write("m/t10k-images-idx3-ubyte", images.data, images.size);
    data_write("m/t10k-labels-idx1-ubyte", labels.data, labels.size);
    rc_image image = {OWN, OWN, 1, images.data + images.size - (size_t)(2 * OWN * OWN)};
    uint8_t expected[2][SIZE * SIZE];
    for (int how = RC_BILINEAR; how <= RC_BICUBIC; how++) {
        rc_dataset d;
        rc_image_fit fit = {.size = SIZE, .channels = 1, .interpolation = (rc_interpolation)how};
        SUCCEEDS(rc_image_fit_into(&image, &fit, expected[how]));
        data_open("m", &(rc_data_settings){.size = SIZE, .interpolation = (rc_interpolation)how}, &d);
        assert_memory_equal(d.train.images, expected[how], sizeof expected[how]);
        rc_dataset_close(&d);
    }
    assert_memory_not_equal(expected[0], expected[1], sizeof expected[0]);
    free(images.data);
    free(labels.data);
}

static recollect_model *taught(recollect_context *context, const char *filter)
{
    recollect_model *model;
    SUCCEEDS(recollect_model_create(context, &model));
    api_set_quick(model, 2);
    SUCCEEDS(recollect_model_set(model, "size", "16"));
    SUCCEEDS(recollect_model_set(model, "resize", "18"));
    SUCCEEDS(recollect_model_set(model, "interpolation", filter));
    SUCCEEDS(recollect_learn_folder(model, "pets", NULL));
    return model;
}

/* The model's file, where its tensors begin, and what it says of one of the pictures. */
typedef struct answer {
    void *bytes;
    size_t size, tensors;
    float probability[2];
} answer;

static answer ask(recollect_model *model)
{
    static char file[64 + HIGH * WIDE * 3];
    answer a = {.bytes = NULL};
    FILE *in = fopen("pets/cat/0.ppm", "rb");
    assert_non_null(in);
    size_t size = fread(file, 1, sizeof file, in);
    fclose(in);
    SUCCEEDS(recollect_predict_encoded(model, file, size, 2, NULL, a.probability, NULL));
    SUCCEEDS(recollect_model_save_memory(model, &a.bytes, &a.size));
    const uint8_t *length = a.bytes; /* of the header */
    a.tensors = 8 + length[0] + 256u * length[1];
    return a;
}

static void a_model_keeps_its_filter(void **state)
{
    (void)state;
    recollect_context *context;
    recollect_settings settings;
    recollect_settings_default(&settings, sizeof settings);
    settings.threads = 1;
    SUCCEEDS(recollect_context_create(&settings, &context));
    for (int i = 0; i < 8; i++) {
        char path[64];
        snprintf(path, sizeof path, "pets/%s/%d.ppm", i % 2 ? "dog" : "cat", i / 2);
        free(write_noise(path, i).pixels);
    }
    recollect_model *linear = taught(context, "bilinear"), *cubic = taught(context, "bicubic"), *loaded;
    answer first = ask(linear), second = ask(cubic), third;
    const char *one = first.bytes, *other = second.bytes;
    assert_int_equal(first.size - first.tensors, second.size - second.tensors);
    assert_memory_not_equal(one + first.tensors, other + second.tensors, first.size - first.tensors);
    SUCCEEDS(recollect_model_load_memory(context, second.bytes, second.size, &loaded));
    third = ask(loaded);
    assert_memory_equal(second.probability, third.probability, sizeof third.probability);
    char value[16];
    SUCCEEDS(recollect_model_get(loaded, "interpolation", value, sizeof value));
    assert_string_equal(value, "bicubic");
    SUCCEEDS(recollect_model_set(loaded, "interpolation", "bicubic")); /* the same may be set again */
    SUCCEEDS(recollect_model_set(loaded, "interpolation", "bilinear"));
    assert_int_equal(recollect_learn_folder(loaded, "pets", NULL), RECOLLECT_INVALID_ARGUMENT);
    if (strstr(recollect_last_message(), "interpolation cannot be set") == NULL)
        fail_msg("the message is: %s", recollect_last_message());
    recollect_free(first.bytes);
    recollect_free(second.bytes);
    recollect_free(third.bytes);
    recollect_model_destroy(&linear);
    recollect_model_destroy(&cubic);
    recollect_model_destroy(&loaded);
    recollect_context_destroy(&context);
}

static void pictures_are_read_as_the_model_says(void **state)
{
    (void)state;
    rc_saved_model *model = calloc(1, sizeof *model);
    assert_non_null(model);
    model->config = rc_config_default();
    for (int how = RC_BILINEAR; how <= RC_BICUBIC; how++) {
        SUCCEEDS(rc_config_set(&model->config, "interpolation", how == RC_BICUBIC ? "bicubic" : "bilinear"));
        assert_int_equal(rc_config_interpolation(&model->config), how);
        assert_int_equal(rc_model_data_settings(model).interpolation, how);
        assert_int_equal(rc_picture_form_of(model).fit.interpolation, how);
    }
    assert_int_equal(rc_config_set(&model->config, "interpolation", "nearest"), RC_INVALID_ARGUMENT);
    free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(files_are_resized_with_the_filter_that_is_set, data_enter_folder,
                                        data_leave_folder),
        cmocka_unit_test_setup_teardown(sets_are_resized_with_the_filter_that_is_set, data_enter_folder,
                                        data_leave_folder),
        cmocka_unit_test_setup_teardown(a_model_keeps_its_filter, data_enter_folder, data_leave_folder),
        cmocka_unit_test(pictures_are_read_as_the_model_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
