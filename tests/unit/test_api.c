/* The public interface refuses what makes no sense: for every function a table of bad arguments, each with
 * the status and a part of the message that must come back. Nothing may crash, and nothing may change. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/memory.h"
#include "support/api_data.h"

/* The call fails with that status and a message that has `text` in it. */
#define REFUSES(expected, text, call) \
    do { \
        recollect_status got = (call); \
        if (got != (expected) || strstr(recollect_last_message(), text) == NULL) \
            fail_msg("%s: %s, \"%s\"; expected %s, \"%s\"", #call, recollect_status_text(got), \
                     recollect_last_message(), recollect_status_text(expected), text); \
    } while (0)
#define REFUSES_ARGUMENT(text, call) REFUSES(RECOLLECT_INVALID_ARGUMENT, text, call)

static recollect_context *context;
static recollect_model *empty, *taught;
static api_data data, more;

static int set_up(void **state)
{
    (void)state;
    recollect_settings settings;
    recollect_settings_default(&settings, sizeof settings);
    settings.threads = 1;
    if (recollect_context_create(&settings, &context) != RECOLLECT_OK ||
        recollect_model_create(context, &empty) != RECOLLECT_OK ||
        recollect_model_create(context, &taught) != RECOLLECT_OK)
        return -1;
    api_set_quick(empty, 2);
    api_set_quick(taught, 2);
    api_data_make(&data, 0, 2, 16, 1);
    api_data_make(&more, 2, 2, 16, 1);
    return recollect_learn(taught, &data.images, data.labels, data.names, 2, NULL) == RECOLLECT_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    recollect_model_destroy(&empty);
    recollect_model_destroy(&taught);
    recollect_context_destroy(&context);
    api_data_free(&data);
    api_data_free(&more);
    return rc_bytes_allocated() == 0 ? 0 : -1;
}

static void version_matches_header(void **state)
{
    (void)state;
    char expected[64];
    snprintf(expected, sizeof expected, "%d.%d.%d", RECOLLECT_VERSION_MAJOR, RECOLLECT_VERSION_MINOR,
             RECOLLECT_VERSION_PATCH);
    assert_string_equal(recollect_version(), expected);
}

static void every_status_has_its_own_text(void **state)
{
    (void)state;
    enum { COUNT = RECOLLECT_UNSYNCED + 1 };
    for (int i = 0; i < COUNT; i++) {
        const char *text = recollect_status_text((recollect_status)i);
        assert_string_not_equal(text, "unknown status");
        for (int j = 0; j < i; j++)
            assert_string_not_equal(text, recollect_status_text((recollect_status)j));
    }
    assert_string_equal(recollect_status_text(RECOLLECT_OK), "ok");
    assert_string_equal(recollect_status_text((recollect_status)COUNT), "unknown status");
}

/* ---- contexts ------------------------------------------------------------------------------------------ */

static void *no_memory(void *user, size_t size, size_t align)
{
    (void)user;
    (void)size;
    (void)align;
    return NULL;
}

static void no_free(void *user, void *block)
{
    (void)user;
    (void)block;
}

static void settings_are_checked(void **state)
{
    (void)state;
    recollect_settings settings, good;
    recollect_context *made;
    recollect_settings_default(NULL, sizeof settings);
    memset(&settings, 7, sizeof settings);
    recollect_settings_default(&settings, 8);
    assert_int_equal(((unsigned char *)&settings)[0], 7); /* left alone */
    recollect_settings_default(&good, sizeof good);
    assert_int_equal(good.size, sizeof good);
    REFUSES_ARGUMENT("context is NULL", recollect_context_create(&good, NULL));
    const struct {
        const char *text;
        recollect_status status;
        recollect_settings settings;
    } bad[] = {
        {"size is 0", RECOLLECT_INVALID_ARGUMENT, {.backend = "cpu"}},
        {"size is", RECOLLECT_INVALID_ARGUMENT, {.size = (size_t)-1, .backend = "cpu"}},
        {"backend is NULL", RECOLLECT_INVALID_ARGUMENT, {.size = sizeof good}},
        {"'magic'", RECOLLECT_INVALID_ARGUMENT, {.size = sizeof good, .backend = "magic"}},
        {"''", RECOLLECT_INVALID_ARGUMENT, {.size = sizeof good, .backend = ""}},
        {"expected less than",
         RECOLLECT_INVALID_ARGUMENT,
         {.size = sizeof good,
          .backend = "a name of a backend that is much longer than any of a backend could be, for "
                     "it does not end where the names of backends and their precisions end"}},
        {"threads is -1", RECOLLECT_INVALID_ARGUMENT, {.size = sizeof good, .backend = "cpu", .threads = -1}},
        {"threads is 2000", RECOLLECT_INVALID_ARGUMENT, {.size = sizeof good, .backend = "cpu", .threads = 2000}},
        {"log_level is 9",
         RECOLLECT_INVALID_ARGUMENT,
         {.size = sizeof good, .backend = "cpu", .log_level = (recollect_log_level)9}},
        {"alloc and free",
         RECOLLECT_INVALID_ARGUMENT,
         {.size = sizeof good, .backend = "cpu", .allocator = {.alloc = no_memory}}},
        {"alloc and free",
         RECOLLECT_INVALID_ARGUMENT,
         {.size = sizeof good, .backend = "cpu", .allocator = {.free = no_free}}},
        {"cannot allocate",
         RECOLLECT_OUT_OF_MEMORY,
         {.size = sizeof good, .backend = "cpu", .allocator = {no_memory, no_free, NULL}}},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        made = (recollect_context *)&made;
        REFUSES(bad[i].status, bad[i].text, recollect_context_create(&bad[i].settings, &made));
        assert_null(made);
    }
    recollect_context_destroy(NULL);
    recollect_context_destroy(&made);
    assert_int_equal(recollect_context_create(NULL, &made), RECOLLECT_OK); /* the defaults */
    recollect_context_destroy(&made);
    recollect_context_destroy(&made);
}

/* A program compiled with a header whose structure had more at its end, and one that will have. */
static void larger_structures_are_fine(void **state)
{
    (void)state;
    struct {
        recollect_settings known;
        char added[64];
    } settings;
    recollect_context *made;
    memset(&settings, 7, sizeof settings);
    recollect_settings_default(&settings.known, sizeof settings);
    assert_int_equal(settings.known.size, sizeof settings);
    for (size_t i = 0; i < sizeof settings.added; i++)
        assert_int_equal(settings.added[i], 0);
    assert_int_equal(recollect_context_create(&settings.known, &made), RECOLLECT_OK);
    recollect_context_destroy(&made);
}

/* ---- models -------------------------------------------------------------------------------------------- */

static void creating_loading_and_saving_are_checked(void **state)
{
    (void)state;
    recollect_model *made = taught;
    REFUSES_ARGUMENT("model is NULL", recollect_model_create(context, NULL));
    REFUSES_ARGUMENT("context is NULL", recollect_model_create(NULL, &made));
    assert_null(made);
    REFUSES_ARGUMENT("model is NULL", recollect_model_load(context, "x", NULL));
    REFUSES_ARGUMENT("context is NULL", recollect_model_load(NULL, "x", &made));
    REFUSES_ARGUMENT("path is NULL", recollect_model_load(context, NULL, &made));
    REFUSES(RECOLLECT_IO, "no-such-file", recollect_model_load(context, "no-such-file", &made));
    REFUSES(RECOLLECT_IO, "", recollect_model_load(context, "", &made));
    REFUSES(RECOLLECT_IO, "/", recollect_model_load(context, "/", &made));
    REFUSES_ARGUMENT("model is NULL", recollect_model_load_memory(context, "x", 1, NULL));
    REFUSES_ARGUMENT("context is NULL", recollect_model_load_memory(NULL, "x", 1, &made));
    REFUSES_ARGUMENT("bytes is NULL", recollect_model_load_memory(context, NULL, 1, &made));
    REFUSES(RECOLLECT_FORMAT, "memory", recollect_model_load_memory(context, "x", 0, &made));
    REFUSES(RECOLLECT_FORMAT, "memory", recollect_model_load_memory(context, "0123456789", 10, &made));
    assert_null(made);
    REFUSES_ARGUMENT("model is NULL", recollect_model_save(NULL, "x", 0));
    REFUSES_ARGUMENT("path is NULL", recollect_model_save(taught, NULL, 0));
    REFUSES_ARGUMENT("path is empty", recollect_model_save(taught, "", 1));
    REFUSES_ARGUMENT("knows nothing", recollect_model_save(empty, "never-written", 1));
    REFUSES(RECOLLECT_IO, "is there already", recollect_model_save(taught, "/", 0));
    REFUSES(RECOLLECT_IO, "", recollect_model_save(taught, "/", 1));
    REFUSES(RECOLLECT_IO, "no-such-folder", recollect_model_save(taught, "no-such-folder/x", 1));

    REFUSES_ARGUMENT("model is NULL", recollect_model_export(NULL, "onnx", "x", 0));
    REFUSES_ARGUMENT("format is NULL", recollect_model_export(taught, NULL, "x", 0));
    REFUSES_ARGUMENT("format is 'ONNX', expected onnx, torch or c", recollect_model_export(taught, "ONNX", "x", 0));
    REFUSES_ARGUMENT("path is NULL", recollect_model_export(taught, "onnx", NULL, 0));
    REFUSES_ARGUMENT("path is empty", recollect_model_export(taught, "torch", "", 1));
    REFUSES_ARGUMENT("knows nothing", recollect_model_export(empty, "c", "never-written", 1));
    for (int i = 0; i < 3; i++) {
        static const char *const formats[] = {"onnx", "torch", "c"};
        REFUSES(RECOLLECT_IO, "the setting 'overwrite'", recollect_model_export(taught, formats[i], "/", 0));
        REFUSES(RECOLLECT_IO, "", recollect_model_export(taught, formats[i], "/", 1));
        REFUSES(RECOLLECT_IO, "no-such-folder", recollect_model_export(taught, formats[i], "no-such-folder/x", 1));
    }
    recollect_model_destroy(NULL);
    recollect_model_destroy(&made);
}

static void options_are_checked(void **state)
{
    (void)state;
    char text[64], same[8192];
    memset(same, 'x', sizeof same - 1);
    same[sizeof same - 1] = '\0';
    REFUSES_ARGUMENT("model is NULL", recollect_model_set(NULL, "epochs", "1"));
    REFUSES_ARGUMENT("name is NULL", recollect_model_set(empty, NULL, "1"));
    REFUSES_ARGUMENT("value is NULL", recollect_model_set(empty, "epochs", NULL));
    static const struct {
        const char *name, *value, *text;
    } bad[] = {
        {"", "1", "''"},
        {"epoch", "1", "'epochs'"},
        {"epochs=1", "1", "epochs=1"},
        {"epochs", "", "epochs"},
        {"epochs", "many", "many"},
        {"epochs", "99999999999", "epochs"},
        {"learning_rate", "nan", "learning_rate"},
        {"flip", "maybe", "maybe"},
        {"milestone", "1,x", "milestone"},
        {"profile", "none", "none"},
        {"method", "magic", "magic"},
        {"method", "", ""},
        {"preset", "magic", "magic"},
        {"preset", "./no-such-file.yaml", "no-such-file"},
        {"merge", "perhaps", "perhaps"},
        {"skip_broken", "", "true or false"},
        {"tasks", "3", "'tasks' is a setting of experiments"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        recollect_status status = recollect_model_set(empty, bad[i].name, bad[i].value);
        if (status == RECOLLECT_OK || strstr(recollect_last_message(), bad[i].text) == NULL)
            fail_msg("%s = %s: %s", bad[i].name, bad[i].value, recollect_last_message());
    }
    REFUSES_ARGUMENT("too long", recollect_model_set(empty, "data", same));
    REFUSES_ARGUMENT("too long", recollect_model_set(empty, same, "1"));
    REFUSES_ARGUMENT("model is NULL", recollect_model_get(NULL, "epochs", text, sizeof text));
    REFUSES_ARGUMENT("name is NULL", recollect_model_get(empty, NULL, text, sizeof text));
    REFUSES_ARGUMENT("text is NULL", recollect_model_get(empty, "epochs", NULL, sizeof text));
    REFUSES_ARGUMENT("size is 0", recollect_model_get(empty, "epochs", text, 0));
    REFUSES_ARGUMENT("size is 1", recollect_model_get(empty, "epochs", text, 1));
    REFUSES_ARGUMENT("did you mean", recollect_model_get(empty, "epoch", text, sizeof text));
    assert_int_equal(recollect_model_get(empty, "epochs", text, 2), RECOLLECT_OK);
    assert_string_equal(text, "3"); /* as api_set_quick left it */
    assert_string_equal(recollect_last_message(), "");
    assert_int_equal(recollect_model_get(empty, "method", text, sizeof text), RECOLLECT_OK);
    assert_string_equal(text, "cwd");
    assert_int_equal(recollect_model_get(empty, "merge", text, sizeof text), RECOLLECT_OK);
    assert_string_equal(text, "false");
}

static void getters_take_anything(void **state)
{
    (void)state;
    const recollect_model *nothing[] = {NULL, empty};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(recollect_model_classes(nothing[i]), 0);
        assert_null(recollect_model_class_name(nothing[i], 0));
        assert_int_equal(recollect_model_find_class(nothing[i], "rows"), -1);
        assert_int_equal(recollect_model_tasks(nothing[i]), 0);
        assert_int_equal(recollect_model_task_classes(nothing[i], 0), 0);
        assert_int_equal(recollect_model_image_height(nothing[i]), 0);
        assert_int_equal(recollect_model_image_width(nothing[i]), 0);
        assert_int_equal(recollect_model_image_channels(nothing[i]), 0);
        assert_int_equal(recollect_model_stored_bytes(nothing[i]), 0);
    }
    assert_null(recollect_model_class_name(taught, -1));
    assert_null(recollect_model_class_name(taught, 2));
    assert_int_equal(recollect_model_find_class(taught, NULL), -1);
    assert_int_equal(recollect_model_task_classes(taught, -1), 0);
    assert_int_equal(recollect_model_task_classes(taught, 1), 0);
}

/* ---- using them ---------------------------------------------------------------------------------------- */

static recollect_images with_shape(int count, int height, int width, int channels)
{
    return (recollect_images){data.pixels, count, height, width, channels};
}

static recollect_images no_pixels(void)
{
    return (recollect_images){NULL, 1, API_SIZE, API_SIZE, 1};
}

typedef struct bad_images {
    const char *text;
    recollect_images images;
} bad_images;

enum { BAD_IMAGES = 9 };

static void list_bad_images(bad_images *bad)
{
    const bad_images list[BAD_IMAGES] = {
        {"pixels is NULL", no_pixels()},
        {"count is 0", with_shape(0, API_SIZE, API_SIZE, 1)},
        {"count is -1", with_shape(-1, API_SIZE, API_SIZE, 1)},
        {"16 x 0 pixels", with_shape(1, 0, API_SIZE, 1)},
        {"-5 x 16 pixels", with_shape(1, API_SIZE, -5, 1)},
        {"5000 x 16 pixels", with_shape(1, API_SIZE, 5000, 1)},
        {"2 channels", with_shape(1, API_SIZE, API_SIZE, 2)},
        {"0 channels", with_shape(1, API_SIZE, API_SIZE, 0)},
        {"channels", with_shape(2147483647, 1024, 1024, -2147483647)},
    };
    memcpy(bad, list, sizeof list);
}

static void learning_is_checked(void **state)
{
    (void)state;
    bad_images bad[BAD_IMAGES];
    list_bad_images(bad);
    recollect_learn_result result = {.size = 3};
    const char *const *names = more.names;
    REFUSES_ARGUMENT("model is NULL", recollect_learn(NULL, &more.images, more.labels, names, 2, NULL));
    REFUSES_ARGUMENT("images is NULL", recollect_learn(taught, NULL, more.labels, names, 2, NULL));
    for (int i = 0; i < BAD_IMAGES; i++) {
        REFUSES_ARGUMENT(bad[i].text, recollect_learn(taught, &bad[i].images, more.labels, names, 2, NULL));
        REFUSES_ARGUMENT(bad[i].text, recollect_learn(empty, &bad[i].images, more.labels, names, 2, NULL));
    }
    REFUSES_ARGUMENT("labels is NULL", recollect_learn(taught, &more.images, NULL, names, 2, NULL));
    REFUSES_ARGUMENT("class_names is NULL", recollect_learn(taught, &more.images, more.labels, NULL, 2, NULL));
    REFUSES_ARGUMENT("classes is 0", recollect_learn(taught, &more.images, more.labels, names, 0, NULL));
    REFUSES_ARGUMENT("classes is -2", recollect_learn(taught, &more.images, more.labels, names, -2, NULL));
    REFUSES_ARGUMENT("classes is 2147483647",
                     recollect_learn(taught, &more.images, more.labels, names, 2147483647, NULL));
    REFUSES_ARGUMENT("result's size is 3", recollect_learn(taught, &more.images, more.labels, names, 2, &result));

    static const char *const twice[] = {"a", "b", "a"}, *const hole[] = {"a", NULL}, *const blank[] = {"a", ""},
                             *const latin[] = {"a", "\xe4"}, *const line[] = {"a", "b\nc"},
                             *const three[] = {"a", "b", "c"};
    REFUSES_ARGUMENT("two classes are called 'a'", recollect_learn(taught, &more.images, more.labels, twice, 3, NULL));
    REFUSES_ARGUMENT("class 1 is NULL", recollect_learn(taught, &more.images, more.labels, hole, 2, NULL));
    REFUSES_ARGUMENT("class 1 is empty", recollect_learn(taught, &more.images, more.labels, blank, 2, NULL));
    REFUSES_ARGUMENT("UTF-8", recollect_learn(taught, &more.images, more.labels, latin, 2, NULL));
    REFUSES_ARGUMENT("UTF-8", recollect_learn(taught, &more.images, more.labels, line, 2, NULL));
    REFUSES_ARGUMENT("'c' has no image", recollect_learn(taught, &more.images, more.labels, three, 3, NULL));
    REFUSES_ARGUMENT("already knows", recollect_learn(taught, &more.images, more.labels, data.names, 2, NULL));
    REFUSES_ARGUMENT("label 1 is 1", recollect_learn(taught, &more.images, more.labels, names, 1, NULL));
    int32_t label = more.labels[3];
    more.labels[3] = -1;
    REFUSES_ARGUMENT("label 3 is -1", recollect_learn(taught, &more.images, more.labels, names, 2, NULL));
    more.labels[3] = label;

    recollect_images half = with_shape(4, API_SIZE / 2, API_SIZE, 1), large = with_shape(1, 20, 20, 1);
    recollect_images odd = with_shape(2, 11, 11, 1);
    REFUSES_ARGUMENT("expected squares", recollect_learn(empty, &half, data.labels, names, 2, NULL));
    REFUSES_ARGUMENT("16 x 8 pixels with 1 channel, the model takes 16 x 16 with 1",
                     recollect_learn(taught, &half, data.labels, names, 2, NULL));
    REFUSES_ARGUMENT("the model takes 16 x 16", recollect_learn(taught, &large, data.labels, names, 2, NULL));
    REFUSES_ARGUMENT("11", recollect_learn(empty, &odd, data.labels, names, 2, NULL));
    int32_t zeros[16] = {0};
    recollect_images few = with_shape(16, API_SIZE, API_SIZE, 1);
    REFUSES_ARGUMENT("2 classes or more", recollect_learn(empty, &few, zeros, names, 1, NULL));

    REFUSES_ARGUMENT("model is NULL", recollect_learn_folder(NULL, "x", NULL));
    REFUSES_ARGUMENT("path is NULL", recollect_learn_folder(taught, NULL, NULL));
    REFUSES_ARGUMENT("path is empty", recollect_learn_folder(taught, "", NULL));
    REFUSES_ARGUMENT("result's size is 3", recollect_learn_folder(taught, "x", &result));
    assert_int_not_equal(recollect_learn_folder(taught, "no-such-folder", NULL), RECOLLECT_OK);
    assert_non_null(strstr(recollect_last_message(), "no-such-folder"));
    assert_int_equal(recollect_model_classes(taught), 2);
    assert_int_equal(recollect_model_classes(empty), 0);
}

static void predicting_is_checked(void **state)
{
    (void)state;
    bad_images bad[BAD_IMAGES];
    list_bad_images(bad);
    int32_t labels[64];
    float values[64];
    REFUSES_ARGUMENT("model is NULL", recollect_predict(NULL, &data.images, 1, labels, values, NULL));
    REFUSES_ARGUMENT("images is NULL", recollect_predict(taught, NULL, 1, labels, values, NULL));
    REFUSES_ARGUMENT("knows nothing", recollect_predict(empty, &data.images, 1, labels, values, NULL));
    for (int i = 0; i < BAD_IMAGES; i++)
        REFUSES_ARGUMENT(bad[i].text, recollect_predict(taught, &bad[i].images, 1, labels, values, NULL));
    static const int tops[] = {0, -1, 3, 2147483647};
    for (size_t i = 0; i < sizeof tops / sizeof *tops; i++) {
        REFUSES_ARGUMENT("expected 1 to 2", recollect_predict(taught, &data.images, tops[i], labels, values, NULL));
        REFUSES_ARGUMENT("expected 1 to 2", recollect_predict_encoded(taught, "x", 1, tops[i], labels, NULL, NULL));
    }
    recollect_images colour = with_shape(1, API_SIZE, API_SIZE, 3), small = with_shape(1, 8, 8, 1);
    recollect_images photo = with_shape(1, 480, 640, 3);
    REFUSES_ARGUMENT("3 channels", recollect_predict(taught, &colour, 1, labels, values, NULL));
    REFUSES_ARGUMENT("640 x 480 pixels with 3 channels, the model takes 16 x 16 with 1",
                     recollect_predict(taught, &photo, 1, labels, values, NULL));
    REFUSES_ARGUMENT("8 x 8", recollect_predict(taught, &small, 1, labels, values, NULL));
    assert_int_equal(recollect_predict(taught, &data.images, 1, NULL, NULL, NULL), RECOLLECT_OK);

    REFUSES_ARGUMENT("model is NULL", recollect_predict_encoded(NULL, "x", 1, 1, labels, values, NULL));
    REFUSES_ARGUMENT("knows nothing", recollect_predict_encoded(empty, "x", 1, 1, labels, values, NULL));
    REFUSES_ARGUMENT("no bytes", recollect_predict_encoded(taught, NULL, 1, 1, labels, values, NULL));
    REFUSES_ARGUMENT("no bytes", recollect_predict_encoded(taught, "x", 0, 1, labels, values, NULL));
    REFUSES(RECOLLECT_FORMAT, "", recollect_predict_encoded(taught, "xyz", 3, 1, labels, values, NULL));
}

static void dreaming_is_checked(void **state)
{
    (void)state;
    static uint8_t pixels[API_IMAGE];
    int made = 7;
    REFUSES_ARGUMENT("model is NULL", recollect_dream(NULL, 0, 1, pixels, &made));
    REFUSES_ARGUMENT("pixels is NULL", recollect_dream(taught, 0, 1, NULL, &made));
    REFUSES_ARGUMENT("made is NULL", recollect_dream(taught, 0, 1, pixels, NULL));
    REFUSES_ARGUMENT("knows nothing", recollect_dream(empty, 0, 1, pixels, &made));
    REFUSES_ARGUMENT("label is -1", recollect_dream(taught, -1, 1, pixels, &made));
    REFUSES_ARGUMENT("label is 2", recollect_dream(taught, 2, 1, pixels, &made));
    REFUSES_ARGUMENT("count is 0", recollect_dream(taught, 0, 0, pixels, &made));
    REFUSES_ARGUMENT("count is -1", recollect_dream(taught, 0, -1, pixels, &made));
    REFUSES_ARGUMENT("count is 2147483647", recollect_dream(taught, 0, 2147483647, pixels, &made));
    assert_int_equal(made, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(version_matches_header),
        cmocka_unit_test(every_status_has_its_own_text),
        cmocka_unit_test(settings_are_checked),
        cmocka_unit_test(larger_structures_are_fine),
        cmocka_unit_test(creating_loading_and_saving_are_checked),
        cmocka_unit_test(options_are_checked),
        cmocka_unit_test(getters_take_anything),
        cmocka_unit_test(learning_is_checked),
        cmocka_unit_test(predicting_is_checked),
        cmocka_unit_test(dreaming_is_checked),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
