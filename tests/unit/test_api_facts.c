/* The public interface beside learning and predicting: lists, descriptions, what a model keeps, saving to memory,
 * options of a lesson, structures of other sizes; and what bad arguments get. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "support/api_data.h"
#include "support/craft.h"
#include "support/data_files.h"
#include "support/page.h"
#include "support/succeeds.h"

#define REFUSES(expected, text, call) \
    do { \
        recollect_status got = (call); \
        if (got != (expected) || strstr(recollect_last_message(), text) == NULL) \
            fail_msg("%s: %s, \"%s\"; expected %s, \"%s\"", #call, recollect_status_text(got), \
                     recollect_last_message(), recollect_status_text(expected), text); \
    } while (0)
#define REFUSES_ARGUMENT(text, call) REFUSES(RECOLLECT_INVALID_ARGUMENT, text, call)

enum { CLASSES = 2, CANARY = 0x5a };

static recollect_context *context;
static recollect_model *empty, *taught;
static api_data data, more;

static recollect_model *quick_model(const char *method)
{
    recollect_model *model;
    SUCCEEDS(recollect_model_create(context, &model));
    api_set_quick(model, 2);
    SUCCEEDS(recollect_model_set(model, "method", method));
    return model;
}

static void learn(recollect_model *model, const api_data *from)
{
    SUCCEEDS(recollect_learn(model, &from->images, from->labels, from->names, from->classes, NULL));
}

static int set_up(void **state)
{
    recollect_settings settings;
    if (data_enter_folder(state) != 0)
        return -1;
    recollect_settings_default(&settings, sizeof settings);
    settings.threads = 1;
    SUCCEEDS(recollect_context_create(&settings, &context));
    api_data_make(&data, 0, CLASSES, 16, 1);
    api_data_make(&more, CLASSES, 2, 16, 2);
    empty = quick_model("cwd");
    taught = quick_model("cwd");
    learn(taught, &data);
    return 0;
}

static int tear_down(void **state)
{
    recollect_model_destroy(&empty);
    recollect_model_destroy(&taught);
    recollect_context_destroy(&context);
    api_data_free(&data);
    api_data_free(&more);
    return data_leave_folder(state) == 0 && rc_bytes_allocated() == 0 ? 0 : -1;
}

/* ---- text ---------------------------------------------------------------------------------------------- */

static void states_of_the_header_are_counted(void **state)
{
    (void)state;
    assert_int_equal(recollect_api_version(), RECOLLECT_API_VERSION);
    assert_true(RECOLLECT_API_VERSION >= 2);
}

static void texts_are_escaped_in_pieces(void **state)
{
    (void)state;
    static const char text[] = "a\n\xc3\xa9\x1b[2J\xe2\x80\xaez\xff!";
    static const char shown[] = "a\\n\xc3\xa9\\u001b[2J\\u202ez\\xff!";
    char out[64];
    memset(out, CANARY, sizeof out);
    assert_int_equal(recollect_escape(text, out, sizeof out), strlen(text));
    assert_string_equal(out, shown);
    for (size_t size = 16; size < sizeof shown + 2; size++) {
        char all[64] = "";
        const char *rest = text;
        while (*rest != '\0') { /* pieces of whole characters, which are the same together */
            memset(out, CANARY, sizeof out);
            size_t taken = recollect_escape(rest, out, size);
            assert_true(taken > 0 && strlen(out) < size && (unsigned char)out[size] == CANARY);
            strcat(all, out);
            rest += taken;
        }
        assert_string_equal(all, shown);
    }
    assert_int_equal(recollect_escape(shown, out, 16), 15); /* as much as fits, and the zero byte */
    assert_int_equal(recollect_escape(text, out, 15), 0);
    assert_int_equal(recollect_escape(NULL, out, sizeof out), 0);
    assert_int_equal(recollect_escape(text, NULL, sizeof out), 0);
}

static const char *fruit(const void *user, int index)
{
    static const char *const names[] = {"apple", "pear", "plum"};
    assert_ptr_equal(user, &data);
    return index < 3 ? names[index] : NULL;
}

static void nearest_names_are_found(void **state)
{
    (void)state;
    assert_string_equal(recollect_nearest("plumm", fruit, &data), "plum");
    assert_string_equal(recollect_nearest("PEAR", fruit, &data), "pear");
    assert_string_equal(recollect_nearest("lum", fruit, &data), "plum");
    assert_string_equal(recollect_nearest("my_plum", fruit, &data), "plum");
    assert_null(recollect_nearest("paper", fruit, &data));
    assert_null(recollect_nearest("gear_x", fruit, &data));
    assert_null(recollect_nearest("", fruit, &data));
    assert_null(recollect_nearest("zzzzzzzz", fruit, &data));
    assert_null(recollect_nearest(NULL, fruit, &data));
    assert_null(recollect_nearest("pear", NULL, NULL));
}

/* ---- lists --------------------------------------------------------------------------------------------- */

/* A caller with a structure of another size: filled as far as both know it, zeros behind that, nothing beyond. */
#define CHECK_SIZES(type, last, function) \
    do { \
        struct { \
            type item; \
            unsigned char more[32]; \
        } whole, part; \
        enum { FIRST = offsetof(type, last) + sizeof(whole.item.last) }; \
        memset(&whole, CANARY, sizeof whole); \
        memset(&part, CANARY, sizeof part); \
        whole.item.size = sizeof whole; \
        part.item.size = FIRST; \
        assert_int_equal(function(0, &whole.item), 1); \
        assert_int_equal(function(0, &part.item), 1); \
        assert_memory_equal((char *)&whole + sizeof(size_t), (char *)&part + sizeof(size_t), FIRST - sizeof(size_t)); \
        assert_true(whole.item.size == sizeof whole && part.item.size == FIRST); \
        for (size_t i = 0; i < sizeof whole.more; i++) \
            assert_int_equal(whole.more[i], 0); \
        for (size_t i = FIRST; i < sizeof part; i++) \
            assert_int_equal(((unsigned char *)&part)[i], CANARY); \
        part.item.size = FIRST - 1; \
        assert_int_equal(function(0, &part.item), 0); \
        part.item.size = (size_t)-1; \
        assert_int_equal(function(0, &part.item), 0); \
        part.item.size = FIRST; \
        assert_int_equal(function(-1, &part.item), 0); \
        assert_int_equal(function(100000, &part.item), 0); \
        assert_int_equal(function(0, NULL), 0); \
    } while (0)

static void items_of_lists_have_any_size(void **state)
{
    (void)state;
    CHECK_SIZES(recollect_method, learn, recollect_method_at);
    CHECK_SIZES(recollect_setting, range, recollect_setting_at);
    CHECK_SIZES(recollect_preset, summary, recollect_preset_at);
}

/* Every method can be set; and those that say so can teach a model more. */
static void methods_are_what_they_say(void **state)
{
    (void)state;
    recollect_method method = {.size = sizeof method};
    int count = 0, data_free = 0, teaching = 0;
    char text[64];
    for (; recollect_method_at(count, &method); count++) {
        assert_true(method.title[0] != '\0' && method.summary[0] != '\0' && method.stores[0] != '\0');
        recollect_status status = recollect_model_set(taught, "method", method.name);
        assert_int_equal(status, method.learn ? RECOLLECT_OK : RECOLLECT_INVALID_ARGUMENT);
        assert_int_equal(recollect_check_option("method", method.name), status);
        /* recollect_model_get says what learning would do */
        SUCCEEDS(recollect_model_get(taught, "method", text, sizeof text));
        assert_true((strcmp(text, method.name) == 0) == (method.learn == 1));
        data_free += method.data_free;
        teaching += method.learn;
        if (strcmp(method.name, "cwd") == 0) {
            assert_true(method.data_free == 1 && method.learn == 1);
            assert_string_equal(method.title, "CwD");
            assert_string_equal(method.stores, "means and covariance of features");
        }
        if (strcmp(method.name, "joint") == 0)
            assert_true(method.data_free == 0 && method.learn == 0);
        if (strcmp(method.name, "er") == 0)
            assert_true(method.data_free == 0 && method.learn == 1);
    }
    SUCCEEDS(recollect_model_set(taught, "method", "cwd"));
    assert_true(count > 15 && data_free > 8 && data_free < count && teaching > data_free && teaching < count);
}

/* The option takes this number, or refuses it with the range and changes nothing. */
static void try_number(const recollect_setting *setting, double number, bool taken)
{
    char text[64], before[4096], after[4096];
    recollect_model *model;
    snprintf(text, sizeof text, "%.17g", number);
    recollect_status status = recollect_check_option(setting->name, text);
    if ((status == RECOLLECT_OK) != taken)
        fail_msg("%s = %s is %s: %s", setting->name, text, taken ? "refused" : "taken", recollect_last_message());
    SUCCEEDS(recollect_model_create(context, &model));
    SUCCEEDS(recollect_model_get(model, setting->name, before, sizeof before));
    assert_int_equal(recollect_model_set(model, setting->name, text), status);
    if (!taken) {
        assert_non_null(strstr(recollect_last_message(), setting->name));
        SUCCEEDS(recollect_model_get(model, setting->name, after, sizeof after));
        assert_string_equal(after, before);
    }
    recollect_model_destroy(&model);
}

/* Every setting takes its default and both ends of its range, and refuses what lies beyond them. */
static void settings_are_what_they_say(void **state)
{
    (void)state;
    recollect_setting setting = {.size = sizeof setting};
    char text[4096];
    int count = 0, numbers = 0, experiments = 0;
    for (; recollect_setting_at(count, &setting); count++) {
        assert_true(setting.help[0] != '\0' && setting.range[0] != '\0' && setting.readers[0] != '\0');
        if (strcmp(setting.readers, "experiments") == 0) {
            experiments++;
            REFUSES_ARGUMENT("is a setting of experiments", recollect_check_option(setting.name, setting.initial));
            continue;
        }
        SUCCEEDS(recollect_check_option(setting.name, setting.initial));
        bool is_number = strstr(setting.type, "number") != NULL;
        assert_true(isnan(setting.low) == !is_number && isnan(setting.high) == !is_number);
        numbers += is_number;
        bool is_seed = strcmp(setting.name, "seed") == 0; /* its end is beyond what a double can tell apart */
        if (is_number && setting.choices == NULL) {
            double step = strcmp(setting.type, "number") == 0 ? 1e-4 : setting.low > 1 ? setting.low : 1;
            try_number(&setting, setting.low, true);
            try_number(&setting, setting.low - step, false);
            if (!is_seed) {
                try_number(&setting, setting.high, true);
                try_number(&setting, setting.high + (setting.high > 1e4 ? setting.high * 1e-3 : step), false);
            }
        }
        if (strcmp(setting.name, "epochs") == 0) {
            assert_string_equal(setting.type, "whole number");
            assert_string_equal(setting.initial, "200");
            assert_string_equal(setting.range, "1 to 100000");
            assert_true(setting.low == 1 && setting.high == 100000 && setting.choices == NULL);
        }
        if (strcmp(setting.name, "profile") == 0)
            assert_string_equal(setting.choices, "code|paper");
        SUCCEEDS(recollect_model_get(empty, setting.name, text, sizeof text));
    }
    assert_true(count > 60 && numbers > 40 && experiments == 10);
}

static void presets_and_nets_are_listed(void **state)
{
    (void)state;
    recollect_preset preset = {.size = sizeof preset};
    int count = 0, learn_preset = 0, nets = 0;
    for (; recollect_preset_at(count, &preset); count++) {
        SUCCEEDS(recollect_check_option("preset", preset.name));
        assert_true(preset.summary[0] != '\0');
        learn_preset += strcmp(preset.name, "learn") == 0;
    }
    assert_true(count > 5 && learn_preset == 1);
    for (; recollect_net_at(nets) != NULL; nets++) {
        page p = {.used = 0};
        recollect_status status = recollect_describe_net(recollect_net_at(nets), 3, 32, page_add_line, &p);
        assert_true(status == RECOLLECT_OK ? p.used > 0 : recollect_last_message()[0] != '\0');
    }
    assert_true(nets > 3);
    assert_null(recollect_net_at(-1));
}

/* ---- words --------------------------------------------------------------------------------------------- */

static void things_are_described(void **state)
{
    (void)state;
    page p = {.used = 0};
    SUCCEEDS(recollect_describe_machine(page_add_line, &p));
    assert_non_null(strstr(p.text, "backend cpu"));
    p.used = 0;
    SUCCEEDS(recollect_describe_methods(0, page_add_line, &p));
    assert_non_null(strstr(p.text, "what it does"));
    p.used = 0;
    SUCCEEDS(recollect_describe_methods(1, page_add_line, &p));
    assert_true(p.text[0] == '[');
    REFUSES_ARGUMENT("line is NULL", recollect_describe_machine(NULL, NULL));
    REFUSES_ARGUMENT("line is NULL", recollect_describe_methods(0, NULL, NULL));
    REFUSES_ARGUMENT("line is NULL", recollect_describe_net("resnet32", 3, 32, NULL, NULL));
    REFUSES_ARGUMENT("name is NULL", recollect_describe_net(NULL, 3, 32, page_add_line, &p));
    REFUSES_ARGUMENT("no-net", recollect_describe_net("no-net", 3, 32, page_add_line, &p));
    REFUSES_ARGUMENT("model is NULL", recollect_describe_model(NULL, 0, page_add_line, &p));
    REFUSES_ARGUMENT("line is NULL", recollect_describe_model(taught, 0, NULL, NULL));
    REFUSES_ARGUMENT("knows nothing", recollect_describe_model(empty, 0, page_add_line, &p));
}

static void models_are_described(void **state)
{
    (void)state;
    page p = {.used = 0};
    rc_json *json;
    const rc_json *bytes;
    int64_t weights;
    recollect_model_info info = {.size = sizeof info};
    SUCCEEDS(recollect_describe_model(taught, 0, page_add_line, &p));
    assert_non_null(strstr(p.text, "classes        2, learnt in 1 task\n"));
    assert_non_null(strstr(p.text, "no image is in the file"));
    p.used = 0;
    SUCCEEDS(recollect_describe_model(taught, 1, page_add_line, &p));
    SUCCEEDS(rc_json_parse("info", p.text, strlen(p.text), &json));
    SUCCEEDS(rc_json_get_object(json, "bytes", &bytes));
    SUCCEEDS(rc_json_get_int64(bytes, "weights", &weights));
    SUCCEEDS(recollect_model_get_info(taught, &info));
    assert_int_equal(weights, info.weights);
    rc_json_free(json);
}

static void a_lesson_is_described(void **state)
{
    (void)state;
    page p = {.used = 0};
    recollect_learn_result result = {.size = sizeof result};
    recollect_model *model = quick_model("cwd");
    SUCCEEDS(recollect_learn(model, &data.images, data.labels, data.names, CLASSES, &result));
    assert_true(result.training_seconds > 0 && result.inversion_seconds == 0 && result.estimation_seconds > 0);
    SUCCEEDS(recollect_learn(model, &more.images, more.labels, more.names, 2, &result));
    assert_true(result.inversion_seconds > 0 && result.refinement_seconds > 0 && result.merged == 0);
    assert_true(isnan(result.old_before) && isnan(result.old_after) && result.old_images == 0);
    SUCCEEDS(recollect_describe_learning(model, &result, "x.safetensors", NULL, page_add_line, &p));
    assert_non_null(strstr(p.text, "\"file\":\"x.safetensors\",\"method\":\"cwd\",\"classes\":4,\"new_classes\":["
                                   "\"checks\",\"diagonals\"],\"merged_classes\":0,\"images\":32,"));
    assert_non_null(strstr(p.text, "\"old_accuracy_before\":null"));
    p.used = 0;
    result.left_out = 3;
    result.not_pictures = 4;
    SUCCEEDS(recollect_describe_learning(model, &result, NULL, NULL, page_add_line, &p));
    assert_non_null(strstr(p.text, "\"broken_images\":0,\"left_out\":3,\"not_pictures\":4,"));
    p.used = 0;
    result.old_before = 50;
    result.size = offsetof(recollect_learn_result, merged); /* of a caller who knows nothing of it */
    SUCCEEDS(recollect_describe_learning(model, &result, NULL, NULL, page_add_line, &p));
    assert_non_null(strstr(p.text, "{\"file\":null,"));
    assert_non_null(strstr(p.text, "\"old_accuracy_before\":null"));
    assert_non_null(strstr(p.text, "\"inversion\":0"));
    result.size = sizeof result;
    REFUSES_ARGUMENT("model is NULL", recollect_describe_learning(NULL, &result, NULL, NULL, page_add_line, &p));
    REFUSES_ARGUMENT("result is NULL", recollect_describe_learning(model, NULL, NULL, NULL, page_add_line, &p));
    REFUSES_ARGUMENT("line is NULL", recollect_describe_learning(model, &result, NULL, NULL, NULL, NULL));
    REFUSES_ARGUMENT("knows nothing", recollect_describe_learning(empty, &result, NULL, NULL, page_add_line, &p));
    REFUSES_ARGUMENT("another's", recollect_describe_learning(taught, &result, NULL, NULL, page_add_line, &p));
    result.added = -1;
    REFUSES_ARGUMENT("another's", recollect_describe_learning(model, &result, NULL, NULL, page_add_line, &p));
    result.size = 3;
    REFUSES_ARGUMENT("result's size is 3", recollect_describe_learning(model, &result, NULL, NULL, page_add_line, &p));
    recollect_model_destroy(&model);
}

static const char *advise(void *user, const recollect_finding *finding)
{
    (void)user;
    return strcmp(finding->code, "nothing_scored") == 0 ? "score it" : NULL;
}

/* The verdict is that of the last lesson that succeeded, and not in the file. */
static void a_lesson_is_reviewed(void **state)
{
    (void)state;
    page p = {.used = 0};
    recollect_learn_result result = {.size = sizeof result};
    recollect_model *model = quick_model("cwd"), *copy;
    void *bytes;
    size_t size;
    assert_null(recollect_model_review(NULL));
    assert_null(recollect_model_review(model));
    SUCCEEDS(recollect_model_set(model, "hold_out", "0.25"));
    SUCCEEDS(recollect_learn(model, &data.images, data.labels, data.names, CLASSES, &result));
    const recollect_review *review = recollect_model_review(model);
    assert_true(review != NULL && result.held_out > 0 && result.epochs > 0);
    for (int i = 0; i < review->findings; i++)
        assert_string_not_equal(review->finding[i]->code, "nothing_scored");
    REFUSES_ARGUMENT("already knows", recollect_learn(model, &data.images, data.labels, data.names, CLASSES, NULL));
    assert_ptr_equal(recollect_model_review(model), review);
    SUCCEEDS(recollect_model_set(model, "hold_out", "0"));
    int epochs = result.epochs;
    SUCCEEDS(recollect_model_set(model, "epochs", "9"));
    SUCCEEDS(recollect_model_set(model, "min_steps", "1"));
    SUCCEEDS(recollect_learn(model, &more.images, more.labels, more.names, 2, &result));
    assert_true(result.epochs == 9 && epochs != 9);
    review = recollect_model_review(model);
    assert_string_equal(review->verdict, "too_few");
    assert_string_equal(review->finding[0]->code, "nothing_scored");
    SUCCEEDS(recollect_describe_learning(model, &result, NULL, advise, page_add_line, &p));
    assert_non_null(strstr(p.text, "\"verdict\":\"too_few\""));
    assert_non_null(strstr(p.text, "\"classes\":[],\"command\":\"score it\"}"));
    assert_non_null(strstr(p.text, "\"accuracy\":null,\"accuracy_interval\":null,"));
    assert_non_null(strstr(p.text, "\"epochs\":9,"));
    SUCCEEDS(recollect_model_save_memory(model, &bytes, &size));
    SUCCEEDS(recollect_model_load_memory(context, bytes, size, &copy));
    assert_null(recollect_model_review(copy));
    p.used = 0;
    SUCCEEDS(recollect_describe_learning(copy, &result, NULL, advise, page_add_line, &p));
    assert_non_null(strstr(p.text, "\"verdict\":null,\"verdict_text\":null,\"warnings\":null,"));
    recollect_free(bytes);
    recollect_model_destroy(&copy);
    recollect_model_destroy(&model);
}

/* ---- what a model keeps -------------------------------------------------------------------------------- */

/* Bytes of tensors in the bytes of a file. */
static size_t tensor_bytes(const uint8_t *bytes, size_t size)
{
    uint64_t header = 0;
    for (int i = 0; i < 8; i++)
        header |= (uint64_t)bytes[i] << (8 * i);
    assert_true(header + 8 <= size);
    return size - 8 - (size_t)header;
}

static void kept_bytes_are_those_of_the_file(void **state)
{
    (void)state;
    static const struct {
        const char *method;
        bool statistics, images, generative, data_free;
    } kinds[] = {{"cwd", true, false, false, true},
                 {"finetune", false, false, false, true},
                 {"er", false, true, false, false},
                 {"dgr", false, false, true, false}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        recollect_model *model = quick_model(kinds[i].method), *again;
        recollect_model_info info = {.size = sizeof info}, found = {.size = sizeof found};
        SUCCEEDS(recollect_model_set(model, "vae_width", "8"));
        SUCCEEDS(recollect_model_set(model, "buffer_size", "10"));
        learn(model, &data);
        void *bytes;
        size_t size;
        SUCCEEDS(recollect_model_save_memory(model, &bytes, &size));
        SUCCEEDS(recollect_model_get_info(model, &info));
        assert_string_equal(info.method, kinds[i].method);
        assert_string_equal(info.net, "resnet-small");
        assert_true(info.parameters > 100 && info.features > 0 && info.mean[0] >= 0 && info.std[0] > 0);
        assert_true(info.weights >= info.parameters * sizeof(float));
        assert_true((info.class_means > 0) == kinds[i].statistics && (info.covariance > 0) == kinds[i].statistics);
        if (kinds[i].statistics) {
            assert_int_equal(info.class_means, (size_t)(CLASSES * info.features) * sizeof(float));
            int triangle = info.features * (info.features + 1) / 2;
            assert_int_equal(info.covariance,
                             (size_t)(info.features * info.features + CLASSES * triangle) * sizeof(float));
        }
        assert_true((info.images > 0) == kinds[i].images && (info.generative_model > 0) == kinds[i].generative);
        assert_int_equal(info.images_kept, kinds[i].images ? 10 : 0);
        assert_int_equal(info.images, (size_t)info.images_kept * (API_IMAGE + sizeof(int32_t)));
        assert_true(kinds[i].images ? info.images_shown >= 32 : info.images_shown == 0);
        assert_int_equal(info.data_free, kinds[i].data_free);
        size_t sum = info.weights + info.class_means + info.covariance + info.images + info.generative_model;
        assert_int_equal(sum, recollect_model_stored_bytes(model));
        assert_int_equal(sum, tensor_bytes(bytes, size));
        SUCCEEDS(recollect_model_load_memory(context, bytes, size, &again));
        SUCCEEDS(recollect_model_get_info(again, &found));
        assert_true(found.unknown == 0 && found.weights == info.weights && found.images_shown == info.images_shown);
        recollect_free(bytes);
        recollect_model_destroy(&again);
        recollect_model_destroy(&model);
    }
}

/* A tensor that nobody asked for. */
static void unknown_bytes_are_counted(void **state)
{
    (void)state;
    recollect_model_info info = {.size = sizeof info};
    recollect_model *model;
    page p = {.used = 0};
    craft file;
    SUCCEEDS(recollect_model_save(taught, "plain.safetensors", 1));
    craft_read("plain.safetensors", &file);
    craft_add(&file, "stowaway", 12);
    craft_write(&file, "crafted.safetensors");
    craft_free(&file);
    SUCCEEDS(recollect_model_load(context, "crafted.safetensors", &model));
    SUCCEEDS(recollect_model_get_info(model, &info));
    assert_int_equal(info.unknown, 12);
    SUCCEEDS(recollect_describe_model(model, 0, page_add_line, &p));
    assert_non_null(strstr(p.text, "warning: 12 bytes of the file are of unknown use"));
    recollect_model_destroy(&model);
}

static void information_has_any_size(void **state)
{
    (void)state;
    struct {
        recollect_model_info info;
        unsigned char more[32];
    } whole;
    memset(&whole, CANARY, sizeof whole);
    whole.info.size = sizeof whole;
    SUCCEEDS(recollect_model_get_info(taught, &whole.info));
    assert_true(whole.info.size == sizeof whole && whole.more[0] == 0 && whole.more[31] == 0);
    whole.info.size = 8;
    REFUSES_ARGUMENT("info's size is 8", recollect_model_get_info(taught, &whole.info));
    whole.info.size = sizeof whole.info;
    REFUSES_ARGUMENT("model is NULL", recollect_model_get_info(NULL, &whole.info));
    REFUSES_ARGUMENT("info is NULL", recollect_model_get_info(taught, NULL));
    REFUSES_ARGUMENT("knows nothing", recollect_model_get_info(empty, &whole.info));
}

/* ---- saving -------------------------------------------------------------------------------------------- */

static void memory_holds_the_bytes_of_the_file(void **state)
{
    (void)state;
    void *bytes = &bytes;
    size_t size = 1, file_size;
    char *file;
    SUCCEEDS(recollect_model_save(taught, "model.safetensors", 1));
    SUCCEEDS(recollect_model_save_memory(taught, &bytes, &size));
    SUCCEEDS(rc_file_read("model.safetensors", 1 << 24, &file, &file_size));
    assert_int_equal(size, file_size);
    assert_memory_equal(bytes, file, size);
    rc_free(NULL, file);
    recollect_free(bytes);
    recollect_free(NULL);
    bytes = &bytes;
    REFUSES_ARGUMENT("model is NULL", recollect_model_save_memory(NULL, &bytes, &size));
    assert_true(bytes == NULL && size == 0);
    REFUSES_ARGUMENT("bytes is NULL", recollect_model_save_memory(taught, NULL, &size));
    REFUSES_ARGUMENT("size is NULL", recollect_model_save_memory(taught, &bytes, NULL));
    REFUSES_ARGUMENT("knows nothing", recollect_model_save_memory(empty, &bytes, &size));
}

static void saving_is_foreseen(void **state)
{
    (void)state;
    struct stat what;
    data_write_text("there", "something");
    SUCCEEDS(recollect_check_save("new.safetensors", 0, 0));
    SUCCEEDS(recollect_check_save("there", 1000, 1));
    assert_int_not_equal(stat("new.safetensors", &what), 0); /* nothing is written */
    assert_true(stat("there", &what) == 0 && what.st_size == 9);
    /* Who asks before gets the answer of who saves. */
    static const char refused[] = "'there' is there already; choose another name, or replace it with the setting 'over";
    REFUSES(RECOLLECT_IO, refused, recollect_check_save("there", 0, 0));
    REFUSES(RECOLLECT_IO, refused, recollect_model_save(taught, "there", 0));
    REFUSES(RECOLLECT_IO, refused, recollect_model_export(taught, "c", "there", 0));
    REFUSES(RECOLLECT_IO, "is a folder", recollect_check_save(".", 0, 1));
    REFUSES(RECOLLECT_IO, "is a folder", recollect_model_save(taught, ".", 1));
    REFUSES(RECOLLECT_IO, "make the folder first", recollect_check_save("nowhere/x", 0, 0));
    REFUSES(RECOLLECT_IO, "no room", recollect_check_save("new.safetensors", (size_t)1 << 62, 0));
    REFUSES_ARGUMENT("path is NULL", recollect_check_save(NULL, 0, 0));
    REFUSES_ARGUMENT("path is empty", recollect_check_save("", 0, 0));
}

/* ---- options ------------------------------------------------------------------------------------------- */

static void options_are_checked_without_a_model(void **state)
{
    (void)state;
    SUCCEEDS(recollect_check_option("epochs", "3"));
    SUCCEEDS(recollect_check_option("method", "er"));
    SUCCEEDS(recollect_check_option("merge", "true"));
    SUCCEEDS(recollect_check_option("skip_broken", "false"));
    SUCCEEDS(recollect_check_option("old_test", "anything"));
    SUCCEEDS(recollect_check_option("format", "folder"));
    REFUSES_ARGUMENT("name is NULL", recollect_check_option(NULL, "1"));
    REFUSES_ARGUMENT("value is NULL", recollect_check_option("epochs", NULL));
    REFUSES_ARGUMENT("did you mean 'epochs'", recollect_check_option("epoch", "1"));
    REFUSES_ARGUMENT("expected true or false", recollect_check_option("merge", "yes"));
    REFUSES_ARGUMENT("magic", recollect_check_option("method", "magic"));
    REFUSES_ARGUMENT("many", recollect_check_option("epochs", "many"));
    REFUSES_ARGUMENT("epochs is 0, expected 1 to 100000", recollect_check_option("epochs", "0"));
    REFUSES_ARGUMENT("data format 'zip' is not known", recollect_check_option("format", "zip"));
    REFUSES_ARGUMENT("net is 'generator', expected resnet32", recollect_check_option("net", "generator"));
    REFUSES_ARGUMENT("expected 1 or 3 numbers from 0 to 1", recollect_check_option("mean", "0.5, 0.5"));
    REFUSES_ARGUMENT("is a setting of experiments", recollect_check_option("task_sizes", "2,0"));
    REFUSES_ARGUMENT("the method 'joint' needs the images of old classes", recollect_check_option("method", "joint"));
    SUCCEEDS(recollect_check_option("mean", "0.5, 0.25, 1"));
    SUCCEEDS(recollect_check_option("std", "cifar100"));
}

static void expect_option(const recollect_model *model, const char *name, const char *value)
{
    char text[256];
    SUCCEEDS(recollect_model_get(model, name, text, sizeof text));
    assert_string_equal(text, value);
}

/* What is set last counts, also where one setting changes others. */
static void options_keep_their_order(void **state)
{
    (void)state;
    recollect_model *model = quick_model("cwd");
    SUCCEEDS(recollect_model_set(model, "paper_dce", "true"));
    SUCCEEDS(recollect_model_set(model, "profile", "code"));
    expect_option(model, "paper_dce", "false");
    SUCCEEDS(recollect_model_set(model, "paper_dce", "true"));
    expect_option(model, "paper_dce", "true");
    SUCCEEDS(recollect_model_set(model, "format", "folder"));
    SUCCEEDS(recollect_model_set(model, "old_test", "there"));
    expect_option(model, "format", "folder");
    expect_option(model, "old_test", "there");
    SUCCEEDS(recollect_model_set(model, "format", ""));
    SUCCEEDS(recollect_model_set(model, "old_test", ""));
    expect_option(model, "format", "");
    expect_option(model, "old_test", "");
    recollect_model_destroy(&model);
}

/* The method is that of a lesson of the whole net, where it will be one whatever its images are. */
static void the_method_of_a_lesson_is_foreseen(void **state)
{
    (void)state;
    static const struct {
        const char *name, *value, *method, *rotations, *generators;
    } cases[] = {{"merge", "false", "cwd", "method", "0"}, {"adapt", "head", "cwd", "method", "0"},
                 {"adapt", "top", "cwd", "method", "0"},   {"adapt", "all", "cwd+", "off", "1"},
                 {"epochs", "2", "cwd+", "off", "1"},      {"method", "cwd", "cwd", "method", "0"}};
    void *file;
    size_t size;
    SUCCEEDS(recollect_model_save_memory(taught, &file, &size));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        recollect_model *model;
        recollect_model_info info = {.size = sizeof info};
        SUCCEEDS(recollect_model_load_memory(context, file, size, &model));
        SUCCEEDS(recollect_model_set(model, cases[i].name, cases[i].value));
        expect_option(model, "method", cases[i].method);
        expect_option(model, "rotations", cases[i].rotations);
        expect_option(model, "generators", cases[i].generators);
        learn(model, &more);
        SUCCEEDS(recollect_model_get_info(model, &info));
        assert_string_equal(info.method, cases[i].method);
        if (strcmp(cases[i].value, "top") == 0) { /* which leaves no statistics of images: the next one trains all */
            SUCCEEDS(recollect_model_set(model, "adapt", ""));
            expect_option(model, "method", "cwd+");
            SUCCEEDS(recollect_model_set(model, "rotations", "first"));
            expect_option(model, "rotations", "first");
        }
        recollect_model_destroy(&model);
    }
    recollect_free(file);
    recollect_model *first; /* learning refuses it then */
    SUCCEEDS(recollect_model_create(context, &first));
    SUCCEEDS(recollect_model_set(first, "adapt", "head"));
    expect_option(first, "method", "cwd");
    recollect_model_destroy(&first);
}

/* folder/NAME/i.pgm for each class and image. */
static void write_images(const char *folder, const api_data *from)
{
    for (int i = 0; i < from->images.count; i++) {
        char path[128], bytes[API_IMAGE + 32];
        int length = snprintf(bytes, 32, "P5 %d %d 255\n", API_SIZE, API_SIZE);
        memcpy(bytes + length, from->pixels + (size_t)i * API_IMAGE, API_IMAGE);
        snprintf(path, sizeof path, "%s/%s/%d.pgm", folder, from->names[from->labels[i]], i);
        data_write(path, bytes, (size_t)length + API_IMAGE);
    }
}

static void old_images_are_scored(void **state)
{
    (void)state;
    recollect_learn_result result = {.size = sizeof result};
    recollect_model *model = quick_model("cwd");
    write_images("old", &data);
    learn(model, &data);
    SUCCEEDS(recollect_model_set(model, "old_test", "old"));
    SUCCEEDS(recollect_learn(model, &more.images, more.labels, more.names, 2, &result));
    assert_int_equal(result.old_images, data.images.count);
    assert_true(result.old_before >= 0 && result.old_before <= 100 && result.old_after >= 0);
    SUCCEEDS(recollect_model_set(model, "old_test", "no-such-folder"));
    api_data third;
    api_data_make(&third, 4, 1, 16, 3);
    assert_int_not_equal(recollect_learn(model, &third.images, third.labels, third.names, 1, NULL), RECOLLECT_OK);
    assert_non_null(strstr(recollect_last_message(), "no-such-folder"));
    write_images("third", &third); /* of which the model knows nothing: it is no old test */
    SUCCEEDS(recollect_model_set(model, "old_test", "third"));
    REFUSES_ARGUMENT("third has no image of a class that the model knows: rows, columns, checks, diagonals",
                     recollect_learn(model, &third.images, third.labels, third.names, 1, NULL));
    /* In files the format may be named, and a wrong one is an error. */
    SUCCEEDS(recollect_model_set(model, "old_test", ""));
    SUCCEEDS(recollect_model_set(model, "format", "cifar100"));
    assert_int_not_equal(recollect_learn_folder(model, "third", NULL), RECOLLECT_OK);
    SUCCEEDS(recollect_model_set(model, "format", "folder"));
    SUCCEEDS(recollect_learn_folder(model, "third", &result));
    assert_int_equal(result.old_images, 0);
    api_data_free(&third);
    recollect_model_destroy(&model);
}

/* ---- results of other sizes ---------------------------------------------------------------------------- */

/* Callers of the first header, of one between, and of a later one. */
static void results_have_any_size(void **state)
{
    (void)state;
    enum { FIRST = offsetof(recollect_learn_result, merged) };
    const size_t sizes[] = {FIRST, FIRST + 8, sizeof(recollect_learn_result), sizeof(recollect_learn_result) + 24};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        union {
            recollect_learn_result result;
            unsigned char bytes[sizeof(recollect_learn_result) + 64];
        } given;
        recollect_model *model = quick_model("cwd");
        memset(&given, CANARY, sizeof given);
        given.result.size = sizes[i];
        SUCCEEDS(recollect_learn(model, &data.images, data.labels, data.names, CLASSES, &given.result));
        assert_true(given.result.size == sizes[i] && given.result.known == 0 && given.result.added == CLASSES);
        assert_true(given.result.images == 32 && given.result.seconds > 0);
        for (size_t k = sizes[i]; k < sizeof given.bytes; k++)
            assert_int_equal(given.bytes[k], CANARY);
        for (size_t k = sizeof(recollect_learn_result); k < sizes[i]; k++)
            assert_int_equal(given.bytes[k], 0);
        given.result.size = FIRST - 1;
        REFUSES_ARGUMENT("result's size is",
                         recollect_learn(model, &more.images, more.labels, more.names, 2, &given.result));
        given.result.size = 65537;
        REFUSES_ARGUMENT("result's size is",
                         recollect_learn(model, &more.images, more.labels, more.names, 2, &given.result));
        recollect_model_destroy(&model);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states_of_the_header_are_counted),
        cmocka_unit_test(texts_are_escaped_in_pieces),
        cmocka_unit_test(nearest_names_are_found),
        cmocka_unit_test(items_of_lists_have_any_size),
        cmocka_unit_test(methods_are_what_they_say),
        cmocka_unit_test(settings_are_what_they_say),
        cmocka_unit_test(presets_and_nets_are_listed),
        cmocka_unit_test(things_are_described),
        cmocka_unit_test(models_are_described),
        cmocka_unit_test(a_lesson_is_reviewed),
        cmocka_unit_test(a_lesson_is_described),
        cmocka_unit_test(kept_bytes_are_those_of_the_file),
        cmocka_unit_test(unknown_bytes_are_counted),
        cmocka_unit_test(information_has_any_size),
        cmocka_unit_test(memory_holds_the_bytes_of_the_file),
        cmocka_unit_test(saving_is_foreseen),
        cmocka_unit_test(options_are_checked_without_a_model),
        cmocka_unit_test(options_keep_their_order),
        cmocka_unit_test(the_method_of_a_lesson_is_foreseen),
        cmocka_unit_test(old_images_are_scored),
        cmocka_unit_test(results_have_any_size),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
