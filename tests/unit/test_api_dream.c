/* The public interface: pictures of dreams, real images beside them, and what is said about both. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "api/api.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "data/image.h"
#include "support/api_data.h"
#include "support/data_files.h"
#include "support/succeeds.h"

#define REFUSES(expected, text, call) \
    do { \
        recollect_status got = (call); \
        if (got != (expected) || strstr(recollect_last_message(), text) == NULL) \
            fail_msg("%s: %s, \"%s\"; expected %s, \"%s\"", #call, recollect_status_text(got), \
                     recollect_last_message(), recollect_status_text(expected), text); \
    } while (0)
#define REFUSES_ARGUMENT(text, call) REFUSES(RECOLLECT_INVALID_ARGUMENT, text, call)

enum { CLASSES = 2, CANARY = 0x5a, SHOWN = RECOLLECT_REAL_IMAGES };

static recollect_context *context;
static recollect_model *empty, *taught;
static api_data data;
static char notes[4096]; /* the lines of the log */

static void take_note(void *user, recollect_log_level level, const char *text)
{
    (void)user;
    (void)level;
    size_t used = strlen(notes);
    snprintf(notes + used, sizeof notes - used, "%s\n", text);
}

static void find_temperature(void *user, const char *text)
{
    (void)sscanf(text, "confidence logits are divided by %lf", (double *)user);
}

/* Does the model divide its logits by something? Else a percentage that nothing divides would look right. */
static bool has_temperature(const recollect_model *model)
{
    double temperature = 1;
    SUCCEEDS(recollect_describe_model(model, 0, find_temperature, &temperature));
    return fabs(log(temperature)) > 0.3;
}

static int set_up(void **state)
{
    recollect_settings settings;
    if (data_enter_folder(state) != 0)
        return -1;
    recollect_settings_default(&settings, sizeof settings);
    settings.threads = 1;
    settings.log = take_note;
    settings.log_level = RECOLLECT_LOG_INFO;
    SUCCEEDS(recollect_context_create(&settings, &context));
    api_data_make(&data, 0, CLASSES, 16, 1);
    SUCCEEDS(recollect_model_create(context, &empty));
    SUCCEEDS(recollect_model_create(context, &taught));
    api_set_quick(taught, 6); /* not enough to be sure, so that probabilities differ */
    SUCCEEDS(recollect_model_set(taught, "hold_out", "0.25"));
    SUCCEEDS(recollect_learn(taught, &data.images, data.labels, data.names, data.classes, NULL));
    if (!has_temperature(taught))
        return -1;
    return 0;
}

static int tear_down(void **state)
{
    recollect_model_destroy(&empty);
    recollect_model_destroy(&taught);
    recollect_context_destroy(&context);
    api_data_free(&data);
    return data_leave_folder(state) == 0 && rc_bytes_allocated() == 0 ? 0 : -1;
}

/* ---- pictures ---------------------------------------------------------------------------------------------------- */

static void check_shape(const char *path, int h, int w)
{
    rc_image image;
    SUCCEEDS(rc_image_read(path, NULL, &image)); /* our own reader takes it */
    if (image.h != h || image.w != w)
        fail_msg("%s has %d x %d pixels, expected %d x %d", path, image.h, image.w, h, w);
    rc_image_free(&image);
}

/* Cells of 32 x (32 + 4 + 10) pixels. "2 columns" is the longest name. The legend is wider than 3 of them. */
enum { NAMES = 9 * 12, HEIGHT = 50 + CLASSES * (46 + 16) + 60, LEGEND_WIDTH = 40 + 68 * 6 - 1 };

static void dreams_become_pictures(void **state)
{
    (void)state;
    int taken[CLASSES] = {-1, -1}, sum = 0;
    double spread[CLASSES] = {-1, -1};
    float probabilities[CLASSES * 3];
    const recollect_dream_settings settings = {
        .size = sizeof settings, .per_class = 3, .steps = 3, .seed = "7", .scale = 2, .overwrite = 0};
    recollect_dream_result result = {
        .size = sizeof result, .taken = taken, .spread = spread, .probabilities = probabilities};
    SUCCEEDS(recollect_dream_folder(taught, "dreams", &settings, &result));
    assert_true(result.steps == 3 && result.dreams > 0 && result.taken == taken && result.spread == spread);
    assert_true(result.per_class == 3 && result.sheets == 1 && result.probabilities == probabilities);
    for (int label = 0; label < CLASSES; label++) {
        sum += taken[label];
        assert_true(taken[label] > 1 ? spread[label] >= 0 : isnan(spread[label]));
        for (int i = 0; i < 3; i++) /* the class that it took the dream for is the more probable of two */
            assert_true(i < taken[label] ? probabilities[label * 3 + i] >= 0.5f && probabilities[label * 3 + i] <= 1
                                         : isnan(probabilities[label * 3 + i]));
    }
    assert_int_equal(sum, result.dreams);
    check_shape("dreams/all.png", HEIGHT, LEGEND_WIDTH);
    REFUSES(RECOLLECT_IO, "replace it with the setting 'overwrite'",
            recollect_dream_folder(taught, "dreams", &settings, NULL));
    recollect_dream_settings again = settings;
    again.overwrite = 1;
    char *before, *after;
    size_t size_before, size_after;
    SUCCEEDS(rc_file_read("dreams/all.png", 1 << 24, &before, &size_before));
    SUCCEEDS(recollect_dream_folder(taught, "dreams", &again, NULL)); /* same settings, same dreams */
    SUCCEEDS(rc_file_read("dreams/all.png", 1 << 24, &after, &size_after));
    assert_int_equal(size_before, size_after);
    assert_memory_equal(before, after, size_before);
    rc_free(NULL, after);
    again.seed = "8";
    SUCCEEDS(recollect_dream_folder(taught, "dreams", &again, NULL));
    SUCCEEDS(rc_file_read("dreams/all.png", 1 << 24, &after, &size_after));
    assert_true(size_before != size_after || memcmp(before, after, size_before) != 0);
    rc_free(NULL, before);
    rc_free(NULL, after);
}

/* A dream of little contrast loses nothing but fractions when it becomes a picture, so that the model says the same
 * about the picture. (Others are cut to what a picture can hold.) */
static void probabilities_are_those_of_the_model(void **state)
{
    (void)state;
    enum { DREAMS = 8 };
    static uint8_t pixels[DREAMS * API_IMAGE];
    float kept[CLASSES * DREAMS], found[DREAMS * CLASSES], least = 1, most = 0;
    int32_t labels[DREAMS * CLASSES];
    recollect_model *dull;
    api_data soft;
    int made;
    api_data_make(&soft, 0, CLASSES, 16, 1);
    for (int i = 0; i < soft.images.count * API_IMAGE; i++)
        soft.pixels[i] = (uint8_t)(128 + (soft.pixels[i] - 128) / 3);
    SUCCEEDS(recollect_model_create(context, &dull));
    api_set_quick(dull, 40);
    SUCCEEDS(recollect_model_set(dull, "hold_out", "0.25"));
    SUCCEEDS(recollect_learn(dull, &soft.images, soft.labels, soft.names, CLASSES, NULL));
    assert_true(has_temperature(dull));
    const recollect_dream_settings settings = {.size = sizeof settings, .per_class = DREAMS};
    recollect_dream_result result = {.size = sizeof result, .probabilities = kept};
    SUCCEEDS(recollect_dream_folder(dull, "sure", &settings, &result));
    for (int label = 0; label < CLASSES; label++) {
        SUCCEEDS(recollect_dream(dull, label, DREAMS, pixels, &made));
        assert_int_equal(made, DREAMS);
        const recollect_images images = {pixels, made, API_SIZE, API_SIZE, 1};
        SUCCEEDS(recollect_predict(dull, &images, CLASSES, labels, found, NULL));
        for (int i = 0; i < made * API_IMAGE; i++)
            assert_true(pixels[i] > 0 && pixels[i] < 255);
        for (int i = 0; i < made; i++) {
            float probability = kept[label * DREAMS + i];
            assert_true(fabsf(found[i * CLASSES + (labels[i * CLASSES] == label ? 0 : 1)] - probability) < 0.02f);
            least = fminf(least, probability);
            most = fmaxf(most, probability);
        }
    }
    assert_true(most - least > 0.1f); /* or any would do */
    recollect_model_destroy(&dull);
    api_data_free(&soft);
}

/* The model as it is loaded from its file. */
static recollect_model *load_again(const recollect_model *model)
{
    recollect_model *loaded;
    void *file;
    size_t size;
    SUCCEEDS(recollect_model_save_memory(model, &file, &size));
    SUCCEEDS(recollect_model_load_memory(context, file, size, &loaded));
    recollect_free(file);
    return loaded;
}

/* Of a class that is hardly ever dreamt a call for more, which tries more, leaves no more to calls after it. */
static void dreams_do_not_depend_on_the_calls_before(void **state)
{
    (void)state;
    enum { LARGE = 60 };
    static const int counts[] = {1, 4};
    static uint8_t alone[LARGE * API_IMAGE], after[LARGE * API_IMAGE];
    int large, made[2], rare = 0;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (int label = 0; label < CLASSES; label++) {
            recollect_model *fresh = load_again(taught), *used = load_again(taught);
            SUCCEEDS(recollect_dream(fresh, label, counts[i], alone, &made[0]));
            SUCCEEDS(recollect_dream(used, label, LARGE, after, &large));
            SUCCEEDS(recollect_dream(used, label, counts[i], after, &made[1]));
            assert_int_equal(made[0], made[1]);
            assert_memory_equal(alone, after, (size_t)made[0] * API_IMAGE);
            const rc_dreams *kept = &used->dreams; /* of batches, which are made as a whole */
            for (int j = 0; j < large; j++)
                assert_int_equal(kept->earlier[label * LARGE + j] % used->saved.learner.settings.batch, 0);
            rare += made[0] < counts[i] && made[0] < large;
            recollect_model_destroy(&fresh);
            recollect_model_destroy(&used);
        }
    assert_true(rare > 0); /* or any would do */
    const recollect_dream_settings four = {.size = sizeof four, .per_class = 4};
    recollect_dream_result result = {.size = sizeof result};
    SUCCEEDS(recollect_dream_folder(taught, "rare", &four, &result));
    assert_int_equal(result.dreams, 16 * 4 * CLASSES);
}

/* A lesson of few images has smaller batches than the configuration, which is all that a file has. */
static void a_loaded_model_has_the_same_dreams(void **state)
{
    (void)state;
    enum { DREAMS = 4 };
    static uint8_t pixels[2][DREAMS * API_IMAGE];
    recollect_model *model;
    int made[2], sum = 0;
    SUCCEEDS(recollect_model_create(context, &model));
    api_set_quick(model, 6);
    SUCCEEDS(recollect_model_set(model, "batch", "64"));
    SUCCEEDS(recollect_learn(model, &data.images, data.labels, data.names, data.classes, NULL));
    assert_int_equal(model->saved.learner.settings.batch, CLASSES * 16);
    recollect_model *loaded = load_again(model);
    for (int label = 0; label < CLASSES; label++) {
        SUCCEEDS(recollect_dream(model, label, DREAMS, pixels[0], &made[0]));
        SUCCEEDS(recollect_dream(loaded, label, DREAMS, pixels[1], &made[1]));
        assert_int_equal(made[0], made[1]);
        assert_memory_equal(pixels[0], pixels[1], (size_t)made[0] * API_IMAGE);
        sum += made[0];
    }
    assert_true(sum > 0);
    assert_int_equal(model->saved.learner.settings.batch, CLASSES * 16);
    recollect_model_destroy(&loaded);
    recollect_model_destroy(&model);
}

static void pictures_are_checked(void **state)
{
    (void)state;
    recollect_dream_result result = {.size = 8};
    recollect_dream_settings settings = {.size = sizeof settings, .per_class = 10001};
    REFUSES_ARGUMENT("model is NULL", recollect_dream_folder(NULL, "x", NULL, NULL));
    REFUSES_ARGUMENT("folder is NULL", recollect_dream_folder(taught, NULL, NULL, NULL));
    REFUSES_ARGUMENT("folder is empty", recollect_dream_folder(taught, "", NULL, NULL));
    REFUSES_ARGUMENT("knows nothing", recollect_dream_folder(empty, "x", NULL, NULL));
    REFUSES_ARGUMENT("result's size is 8", recollect_dream_folder(taught, "x", NULL, &result));
    REFUSES_ARGUMENT("per_class is 10001", recollect_dream_folder(taught, "x", &settings, NULL));
    settings.per_class = -1;
    REFUSES_ARGUMENT("per_class is -1", recollect_dream_folder(taught, "x", &settings, NULL));
    settings.per_class = 1;
    settings.steps = -1;
    REFUSES_ARGUMENT("steps is -1", recollect_dream_folder(taught, "x", &settings, NULL));
    settings.steps = 1;
    settings.scale = 65;
    REFUSES_ARGUMENT("scale is 65", recollect_dream_folder(taught, "x", &settings, NULL));
    settings.scale = 1;
    settings.seed = "many";
    REFUSES_ARGUMENT("seed", recollect_dream_folder(taught, "x", &settings, NULL));
    settings.seed = NULL;
    settings.beside = "";
    REFUSES_ARGUMENT("beside is empty", recollect_dream_folder(taught, "x", &settings, NULL));
    settings.beside = NULL;
    settings.per_class = 10000;
    settings.scale = 16;
    settings.steps = 10000000; /* which would take hours */
    REFUSES_ARGUMENT("too large", recollect_dream_folder(taught, "x", &settings, NULL));
    settings.size = 1;
    REFUSES_ARGUMENT("settings's size is 1", recollect_dream_folder(taught, "x", &settings, NULL));
}

/* ---- real images beside them ------------------------------------------------------------------------------------- */

/* Image `index` of the data as a file of `side` x `side` pixels: larger ones repeat pixels. */
static void write_image(const char *path, int index, int side)
{
    uint8_t bytes[64 + 64 * 64];
    int length = snprintf((char *)bytes, 64, "P5 %d %d 255\n", side, side);
    for (int y = 0; y < side; y++)
        for (int x = 0; x < side; x++)
            bytes[length + y * side + x] =
                data.pixels[index * API_IMAGE + y * API_SIZE / side * API_SIZE + x * API_SIZE / side];
    data_write(path, bytes, (size_t)(length + side * side));
}

/* folder/NAME/00.pgm, ...: images of the class, which the data has from `label` on, every second one. */
static void write_class(const char *folder, const char *name, int label, int count, int side)
{
    int written = 0;
    for (int i = 0; i < data.images.count && written < count; i++)
        if (data.labels[i] == label) {
            char path[128];
            snprintf(path, sizeof path, "%s/%s/%02d.pgm", folder, name, written++);
            write_image(path, i, side);
        }
    assert_int_equal(written, count);
}

typedef struct beside {
    float probability[CLASSES * SHOWN];
    int32_t taken[CLASSES * SHOWN];
} beside;

static recollect_status dream_beside(const char *folder, const char *real, beside *b)
{
    const recollect_dream_settings settings = {
        .size = sizeof settings, .per_class = 1, .steps = 1, .scale = 1, .overwrite = 1, .beside = real};
    recollect_dream_result result = {
        .size = sizeof result, .real_probabilities = b->probability, .real_taken = b->taken};
    memset(b, CANARY, sizeof *b);
    notes[0] = '\0';
    return recollect_dream_folder(taught, folder, &settings, &result);
}

/* As many images of each class as that, with what recollect_predict says about them. */
static void check_real(const beside *b, const int count[CLASSES], const api_data *images, int step)
{
    for (int label = 0; label < CLASSES; label++) {
        int next = 0;
        for (int i = 0, of_class = 0; i < images->images.count && next < count[label]; i++) {
            int32_t labels[CLASSES];
            float found[CLASSES];
            if (images->labels[i] != label || of_class++ % step != 0)
                continue;
            const recollect_images one = {images->pixels + i * API_IMAGE, 1, API_SIZE, API_SIZE, 1};
            SUCCEEDS(recollect_predict(taught, &one, CLASSES, labels, found, NULL));
            int place = label * SHOWN + next++;
            assert_int_equal(b->taken[place], labels[0]);
            assert_true(fabsf(b->probability[place] - found[labels[0] == label ? 0 : 1]) < 1e-5f);
        }
        assert_int_equal(next, count[label]);
        for (int i = 1; i < next; i++) /* or another image would do as well */
            if (fabsf(b->probability[label * SHOWN + i] - b->probability[label * SHOWN]) < 2e-5f)
                fail_msg("images %d and 0 of class %d are as probable: %.7f", i, label,
                         (double)b->probability[label * SHOWN]);
        for (int i = count[label]; i < SHOWN; i++)
            assert_true(isnan(b->probability[label * SHOWN + i]) && b->taken[label * SHOWN + i] == -1);
    }
}

static void real_images_are_shown_and_judged(void **state)
{
    (void)state;
    beside b;
    write_class("two", data.names[0], 0, 16, API_SIZE); /* more than are shown: every second one is */
    write_class("two", data.names[1], 1, 16, API_SIZE);
    SUCCEEDS(dream_beside("shown", "two", &b));
    check_real(&b, (const int[CLASSES]){SHOWN, SHOWN}, &data, 2);
    assert_null(strstr(notes, "note: 'two'"));
    /* a row has room for one dream and 6 images of 29 pixels */
    check_shape("shown/all.png", 50 + CLASSES * (16 + 4 + 10 + 16) + 60, 20 + NAMES + 30 + 29 + 30 + 6 * 39 - 10 + 20);
}

/* The answer of a model that looks at several views of an image is their mean, here as in recollect_predict. */
static void real_images_are_seen_in_all_views(void **state)
{
    (void)state;
    beside b;
    rc_config *config = &taught->saved.config;
    write_class("seen", data.names[0], 0, 16, API_SIZE);
    write_class("seen", data.names[1], 1, 16, API_SIZE);
    config->test_mirror = true;
    config->test_shift = 2;
    rc_api_forget(taught);
    SUCCEEDS(dream_beside("seen-dreams", "seen", &b));
    check_real(&b, (const int[CLASSES]){SHOWN, SHOWN}, &data, 2);
    config->test_mirror = false;
    config->test_shift = 0;
    rc_api_forget(taught);
}

/* What the model's option 'format' names is what is read. */
static void the_format_is_that_of_the_model(void **state)
{
    (void)state;
    beside b;
    write_class("formed", data.names[0], 0, 2, API_SIZE);
    SUCCEEDS(recollect_model_set(taught, "format", "idx"));
    assert_int_not_equal(dream_beside("formed-dreams", "formed", &b), RECOLLECT_OK);
    SUCCEEDS(recollect_model_set(taught, "format", "folder"));
    SUCCEEDS(dream_beside("formed-dreams", "formed", &b));
}

static void images_of_other_sizes_are_fitted(void **state)
{
    (void)state;
    beside b;
    write_class("large", data.names[0], 0, 3, 2 * API_SIZE + 5);
    write_class("large", data.names[1], 1, 3, API_SIZE / 2);
    SUCCEEDS(dream_beside("fitted", "large", &b));
    for (int place = 0; place < CLASSES * 3; place++) { /* as recollect_predict_encoded fits the file */
        int label = place / 3, at = label * SHOWN + place % 3;
        int32_t labels[CLASSES];
        float found[CLASSES];
        char path[128], *bytes;
        size_t size;
        snprintf(path, sizeof path, "large/%s/%02d.pgm", data.names[label], place % 3);
        SUCCEEDS(rc_file_read(path, 1 << 20, &bytes, &size));
        SUCCEEDS(recollect_predict_encoded(taught, bytes, size, CLASSES, labels, found, NULL));
        rc_free(NULL, bytes);
        assert_int_equal(b.taken[at], labels[0]);
        assert_true(fabsf(b.probability[at] - found[labels[0] == label ? 0 : 1]) < 1e-5f);
    }
}

static void a_class_without_images_is_named(void **state)
{
    (void)state;
    beside b;
    char expected[128];
    write_class("one", data.names[1], 1, 2, API_SIZE);
    SUCCEEDS(dream_beside("lacking", "one", &b));
    check_real(&b, (const int[CLASSES]){0, 2}, &data, 1);
    snprintf(expected, sizeof expected, "note: 'one': no images of classes that the model knows (1): %s\n",
             data.names[0]);
    assert_non_null(strstr(notes, expected));
}

static void classes_of_the_folder_alone_are_named(void **state)
{
    (void)state;
    beside b;
    write_class("extra", "\xc3\x84pfel", 1, 1, API_SIZE);
    write_class("extra", data.names[0], 0, 1, API_SIZE);
    write_class("extra", data.names[1], 1, 1, API_SIZE);
    write_class("extra", "zebra", 1, 1, API_SIZE);
    SUCCEEDS(dream_beside("more", "extra", &b));
    check_real(&b, (const int[CLASSES]){1, 1}, &data, 1);
    assert_non_null(strstr(notes,
                           "note: 'extra': classes that the model does not know, which are not shown (2): zebra, "
                           "\xc3\x84pfel\n"));
}

static void test_images_go_first_and_broken_ones_are_left_out(void **state)
{
    (void)state;
    beside b;
    write_class("parts/train", data.names[0], 1, 2, API_SIZE); /* mislabelled: to be seen if they are taken */
    write_class("parts/train", data.names[1], 0, 2, API_SIZE);
    write_class("parts/test", data.names[0], 0, 2, API_SIZE);
    write_class("parts/test", data.names[1], 1, 2, API_SIZE);
    char path[128];
    snprintf(path, sizeof path, "parts/test/%s/99.pgm", data.names[1]);
    data_write_text(path, "P5 16 16 255\nshort");
    SUCCEEDS(dream_beside("tested", "parts", &b));
    check_real(&b, (const int[CLASSES]){2, 2}, &data, 1);
    assert_non_null(strstr(notes, "99.pgm"));
}

static void folders_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    beside b;
    struct stat what;
    write_class("strangers", "zebra", 0, 2, API_SIZE);
    write_class("strangers", "okapi", 0, 2, API_SIZE);
    REFUSES_ARGUMENT(
        "strangers has no image of a class that the model knows: rows, columns; its classes are okapi, zebra",
        dream_beside("nothing", "strangers", &b));
    assert_int_not_equal(dream_beside("nothing", "nowhere", &b), RECOLLECT_OK);
    assert_non_null(strstr(recollect_last_message(), "nowhere"));
    assert_int_not_equal(stat("nothing/all.png", &what), 0);
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

static char described[16384];

static void take_line(void *user, const char *text)
{
    (void)user;
    assert_true(strlen(text) < sizeof described && described[0] == '\0'); /* one line */
    strcpy(described, text);
}

static const rc_json *class_at(const rc_json *json, int label)
{
    const rc_json *classes = rc_json_member(json, "classes"), *entry = NULL;
    assert_int_equal(rc_json_count(classes), CLASSES);
    for (int i = 0; i <= label; i++)
        entry = rc_json_next(classes, entry);
    return entry;
}

static rc_json *describe(const recollect_dream_result *result)
{
    rc_json *json;
    described[0] = '\0';
    SUCCEEDS(recollect_describe_dreams(taught, result, "some/folder", take_line, NULL));
    SUCCEEDS(rc_json_parse("dreams", described, strlen(described), &json));
    assert_string_equal(rc_json_string(rc_json_member(json, "folder")), "some/folder");
    return json;
}

static void dreams_are_described(void **state)
{
    (void)state;
    int taken[CLASSES] = {5, 0};
    double spread[CLASSES] = {0.5, NAN};
    float sure[CLASSES * 2] = {0.75f, NAN, NAN, NAN}, real[CLASSES * SHOWN];
    int32_t real_taken[CLASSES * SHOWN];
    for (int i = 0; i < CLASSES * SHOWN; i++) {
        real[i] = i == 0 ? 0.25f : i == 1 ? 0.5f : NAN;
        real_taken[i] = i == 0 ? 1 : i == 1 ? 0 : -1;
    }
    const recollect_dream_result result = {.size = sizeof result,
                                           .steps = 3,
                                           .dreams = 5,
                                           .taken = taken,
                                           .spread = spread,
                                           .per_class = 2,
                                           .sheets = 2,
                                           .probabilities = sure,
                                           .real_probabilities = real,
                                           .real_taken = real_taken};
    rc_json_free(describe(&result));
    assert_string_equal(
        described,
        "{\"folder\":\"some/folder\",\"steps\":3,\"dreams\":5,\"per_class\":2,\"sheets\":[\"all.png\",\"all-2.png\"],"
        "\"classes\":[{\"name\":\"rows\",\"picture\":\"01-rows.png\",\"taken\":5,\"spread\":0.5,"
        "\"probabilities\":[0.75],\"real_probabilities\":[0.25,0.5],\"real_taken_for\":["
        "\"columns\",\"rows\"]},"
        "{\"name\":\"columns\",\"picture\":null,\"taken\":0,\"spread\":null,\"probabilities\":[],"
        "\"real_probabilities\":[],\"real_taken_for\":[]}]}");
    /* what was not asked for, and what an older header does not have, is null */
    recollect_dream_result old = {.size = offsetof(recollect_dream_result, per_class), .steps = 3, .dreams = 5};
    rc_json *json = describe(&old);
    static const char *const absent[] = {"picture",       "taken", "spread", "probabilities", "real_probabilities",
                                         "real_taken_for"};
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
        assert_true(rc_json_is(rc_json_member(class_at(json, 1), absent[i]), RC_JSON_NULL));
    rc_json_free(json);
}

static void descriptions_are_checked(void **state)
{
    (void)state;
    recollect_dream_result result = {.size = sizeof result};
    REFUSES_ARGUMENT("model is NULL", recollect_describe_dreams(NULL, &result, "x", take_line, NULL));
    REFUSES_ARGUMENT("knows nothing", recollect_describe_dreams(empty, &result, "x", take_line, NULL));
    REFUSES_ARGUMENT("result is NULL", recollect_describe_dreams(taught, NULL, "x", take_line, NULL));
    REFUSES_ARGUMENT("line is NULL", recollect_describe_dreams(taught, &result, "x", NULL, NULL));
    result.sheets = CLASSES + 1;
    REFUSES_ARGUMENT("3 sheets", recollect_describe_dreams(taught, &result, "x", take_line, NULL));
    result.sheets = -1;
    REFUSES_ARGUMENT("-1 sheets", recollect_describe_dreams(taught, &result, "x", take_line, NULL));
    result.sheets = 1;
    result.per_class = -1;
    REFUSES_ARGUMENT("-1 dreams", recollect_describe_dreams(taught, &result, "x", take_line, NULL));
    result.size = 8;
    REFUSES_ARGUMENT("result's size is 8", recollect_describe_dreams(taught, &result, "x", take_line, NULL));
}

/* A result of a program with an older header is filled as far as that knew it, and no further. */
static void results_have_any_size(void **state)
{
    (void)state;
    const recollect_dream_settings settings = {
        .size = offsetof(recollect_dream_settings, beside), .per_class = 1, .steps = 1, .overwrite = 1, .beside = "x"};
    union {
        recollect_dream_result result;
        unsigned char bytes[sizeof(recollect_dream_result)];
    } given;
    memset(&given, CANARY, sizeof given);
    given.result.size = offsetof(recollect_dream_result, per_class);
    given.result.taken = NULL;
    given.result.spread = NULL;
    SUCCEEDS(recollect_dream_folder(taught, "old", &settings, &given.result)); /* it does not know of `beside` */
    assert_true(given.result.steps == 1 && given.result.dreams > 0);
    for (size_t i = given.result.size; i < sizeof given; i++)
        assert_int_equal(given.bytes[i], CANARY);
    /* without real images the arrays for them say so */
    beside b;
    SUCCEEDS(dream_beside("alone", NULL, &b));
    check_real(&b, (const int[CLASSES]){0, 0}, &data, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dreams_become_pictures),
        cmocka_unit_test(probabilities_are_those_of_the_model),
        cmocka_unit_test(dreams_do_not_depend_on_the_calls_before),
        cmocka_unit_test(a_loaded_model_has_the_same_dreams),
        cmocka_unit_test(pictures_are_checked),
        cmocka_unit_test(real_images_are_shown_and_judged),
        cmocka_unit_test(real_images_are_seen_in_all_views),
        cmocka_unit_test(the_format_is_that_of_the_model),
        cmocka_unit_test(images_of_other_sizes_are_fitted),
        cmocka_unit_test(a_class_without_images_is_named),
        cmocka_unit_test(classes_of_the_folder_alone_are_named),
        cmocka_unit_test(test_images_go_first_and_broken_ones_are_left_out),
        cmocka_unit_test(folders_that_do_not_fit_are_refused),
        cmocka_unit_test(dreams_are_described),
        cmocka_unit_test(descriptions_are_checked),
        cmocka_unit_test(results_have_any_size),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
