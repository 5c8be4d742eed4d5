/* How much memory may be taken: by default, with a limit, for a model file, one picture at a time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/dream.h"
#include "api/learn.h"
#include "api/pictures.h"
#include "base/machine.h"
#include "base/memory.h"
#include "forecast/allowance.h"
#include "forecast/forecast.h"
#include "support/api_data.h"
#include "support/craft.h"
#include "support/data_files.h"
#include "support/learning.h"
#include "support/succeeds.h"

static void allowances_add_up(void **state)
{
    (void)state;
    const size_t gib = (size_t)1 << 30;
    assert_true(rc_memory_allowed(5) == 5);
    size_t by_default = rc_memory_allowed(0), unused = rc_machine_free_memory();
    assert_true(by_default > rc_bytes_allocated() && by_default < rc_bytes_allocated() + unused / 100 * 81);
    assert_true(by_default > rc_bytes_allocated() + unused / 100 * 60); /* others take some meanwhile */
    assert_true(rc_memory_allowed_for(100 * gib, 0, 0) == 100 * gib);
    assert_true(rc_memory_allowed_for(100 * gib, 0, 27000) == 2 * gib + 1024 * 27000);
    assert_true(rc_memory_allowed_for(100 * gib, 0, gib) == 100 * gib);
    assert_true(rc_memory_allowed_for(gib, 0, 27000) == gib);
    assert_true(rc_memory_allowed_for(100 * gib, 100 * gib, 27000) == 100 * gib); /* somebody has said so */
    assert_true(rc_memory_allowed_for(100 * gib, 0, SIZE_MAX / 3) == 100 * gib);
    rc_memory_allow(12345, 27000);
    assert_true(rc_memory_budget() == 12345);
    rc_memory_allow(0, 27000);
    assert_true(rc_memory_budget() <= 2 * gib + 1024 * 27000);
    rc_memory_set_budget(SIZE_MAX);
}

static void allocations_keep_to_the_budget(void **state)
{
    (void)state;
    size_t before = rc_bytes_allocated();
    rc_memory_set_budget(before + 2000);
    void *first = rc_alloc(NULL, 1900), *second = rc_alloc(NULL, 100);
    assert_non_null(first);
    assert_null(second);
    assert_non_null(strstr(rc_message(), "are allowed. The setting 'max_memory' allows more"));
    rc_free(NULL, first);
    second = rc_alloc(NULL, 100);
    assert_non_null(second);
    rc_memory_set_budget(10); /* less than is held */
    assert_null(rc_alloc(NULL, 1));
    rc_memory_set_budget(SIZE_MAX);
    first = rc_alloc(NULL, 100000);
    assert_non_null(first);
    rc_free(NULL, first);
    rc_free(NULL, second);
    assert_true(rc_bytes_allocated() == before);
}

/* What the published experiments need to go on from a model of theirs is there without asking for it. */
static void published_models_are_within_what_is_allowed(void **state)
{
    (void)state;
    rc_backend *be;
    const char *name, *summary;
    static uint8_t image_bytes[1];
    rc_net *net = calloc(1, sizeof *net);
    assert_non_null(net);
    SUCCEEDS(rc_backend_open("cpu", 8, NULL, &be));
    for (int i = 0; rc_config_preset(i, &name, &summary); i++) {
        rc_config config = rc_config_default();
        SUCCEEDS(rc_config_load(&config, name, NULL));
        int size = strncmp(name, "imagenet100", 11) == 0 ? 224 : strstr(name, "tiny") ? 64 : 32;
        size = config.size > 0 ? config.size : size;
        rc_augment image = {.h = size, .w = size, .c = 3, .std = {1, 1, 1}};
        const rc_method *method;
        size_t bytes;
        SUCCEEDS(rc_method_find("cwd", &method));
        SUCCEEDS(rc_learner_net(&config.settings, &image, net));
        rc_task_claim claim = {.settings = &config.settings,
                               .method = method,
                               .image = &image,
                               .n_old = 90,
                               .n_new = 10,
                               .images = image_bytes,
                               .count = 5000};
        SUCCEEDS(rc_forecast_bytes(be, &claim, &bytes));
        if (bytes > rc_memory_allowed_for(SIZE_MAX, 0, net->params * sizeof(float)))
            fail_msg("%s takes %zu bytes", name, bytes);
    }
    free(net);
    rc_backend_close(be);
}

/* ---- a model ----------------------------------------------------------------------------------------------------- */

static rc_backend *backend;

static void make_model(const char *path)
{
    static const char *const small[] = {"net=resnet-small",  "net_width=4", "net_blocks=1", "generator=generator-small",
                                        "generator_width=8", "noise=8",     "batch=8",      "epochs=1",
                                        "refine_epochs=0",   "min_steps=1"};
    int32_t *labels;
    uint8_t *images = learning_images(0, 2, 6, &labels);
    char first[] = "a", second[] = "b", *names[] = {first, second};
    rc_dataset data = {.format = "memory",
                       .name = "memory",
                       .h = LEARNING_SIZE,
                       .w = LEARNING_SIZE,
                       .c = LEARNING_CHANNELS,
                       .classes = 2,
                       .class_name = names,
                       .train = {.count = 12, .images = images, .labels = labels}};
    rc_given given = {.data = data};
    rc_saved_model model = {0};
    rc_learn_result result;
    rc_learn_settings settings = {.given = &given, .set = small, .sets = sizeof small / sizeof *small, .threads = 1};
    SUCCEEDS(rc_learn(&model, backend, &settings, &result));
    SUCCEEDS(rc_model_file_save(path, &model, true));
    rc_saved_model_destroy(&model);
    rc_free(NULL, images);
    rc_free(NULL, labels);
}

static int enter(void **state)
{
    return data_enter_folder(state) == 0 && rc_backend_open("cpu", 1, NULL, &backend) == RC_OK ? 0 : -1;
}

static int leave(void **state)
{
    rc_memory_set_budget(SIZE_MAX);
    rc_backend_close(backend);
    return data_leave_folder(state);
}

static rc_status add_up(void *user, int index, const rc_answer *answer)
{
    (void)index;
    double *sum = user;
    *sum += answer->status == RC_OK ? answer->probability[0] : 1000;
    return RC_OK;
}

static rc_status open_predictor(const rc_saved_model *model, rc_predictor **predictor)
{
    rc_predictor_settings settings = {.backend = backend, .threads = 1, .room = 1};
    return rc_predictor_create(model, &settings, predictor);
}

/* Bytes that a predictor holds once it has predicted so many pictures. */
static size_t memory_of(const rc_saved_model *model, int pictures, double *sum)
{
    rc_picture_list list = {0};
    rc_predictor *predictor;
    for (int i = 0; i < pictures; i++)
        SUCCEEDS(rc_picture_list_add(&list, i, "picture.ppm", NULL, 0));
    rc_question question = {.count = pictures, .source = rc_picture_list_source, .user = &list, .top = 1};
    size_t before = rc_bytes_allocated();
    *sum = 0;
    SUCCEEDS(open_predictor(model, &predictor));
    SUCCEEDS(rc_predictor_run(predictor, &question, add_up, sum));
    size_t held = rc_bytes_allocated() - before;
    rc_predictor_destroy(predictor);
    rc_picture_list_free(&list);
    return held;
}

static void one_picture_takes_the_memory_of_one(void **state)
{
    (void)state;
    rc_saved_model model;
    double sum;
    make_model("model.safetensors");
    data_write_colour("picture.ppm", 20, 30, 200, 100, 50);
    SUCCEEDS(rc_model_file_load("model.safetensors", backend, &model));
    size_t one = memory_of(&model, 1, &sum), two = memory_of(&model, 2, &sum), many = memory_of(&model, 64, &sum);
    double expected = sum;
    size_t more = memory_of(&model, 150, &sum);
    print_message("1, 2, 64 and 150 pictures: %zu, %zu, %zu and %zu bytes\n", one, two, many, more);
    assert_true(many - one > 20 * (two - one) && two > one && many > 2 * one);
    assert_true(more < many + 2 * (two - one));
    /* Where many are too many, they are scored in smaller batches, to the same answers. */
    size_t before = rc_bytes_allocated();
    rc_memory_set_budget(before + many * 2 / 3);
    size_t few = memory_of(&model, 64, &sum);
    assert_true(few < many * 2 / 3 && sum == expected);
    rc_predictor *predictor;
    rc_memory_set_budget(before + one / 2);
    assert_int_equal(open_predictor(&model, &predictor), RC_OUT_OF_MEMORY);
    assert_null(predictor);
    rc_memory_set_budget(SIZE_MAX);
    rc_saved_model_destroy(&model);
}

/* A few kilobytes that ask for gigabytes: each is refused before anything is taken, and works where it is allowed. */
static void small_files_take_no_gigabytes(void **state)
{
    (void)state;
    static const struct {
        const char *setting, *value, *says;
    } cases[] = {{"generator_width", "4096", "generator-small of width 4096 and noise 8"},
                 {"noise", "65536", "generator-small of width 8 and noise 65536"},
                 {"batch", "65536", "65536 at a time"}};
    craft good;
    make_model("model.safetensors");
    craft_read("model.safetensors", &good);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rc_saved_model model;
        rc_dream_settings settings = {.per_class = 1, .steps = 1};
        rc_dreams dreams;
        craft file = craft_copy(&good);
        assert_true(craft_setting(&file, cases[i].setting, cases[i].value));
        if (i == 0)
            assert_true(craft_setting(&file, "batch", "256"));
        craft_write(&file, "hostile.safetensors");
        craft_free(&file);
        rc_memory_allow(0, 0);
        SUCCEEDS(rc_model_file_load("hostile.safetensors", backend, &model));
        assert_true(model.file_bytes > 10000 && model.file_bytes < 200000);
        rc_memory_allow((size_t)1 << 28, model.file_bytes);
        size_t before = rc_bytes_allocated();
        assert_int_equal(rc_dream(&model, &settings, &dreams), RC_OUT_OF_MEMORY);
        assert_true(rc_bytes_allocated() == before);
        if (strstr(rc_message(), cases[i].says) == NULL || strstr(rc_message(), "the setting 'max_memory' (") == NULL ||
            strstr(rc_message(), "268 MB are allowed") == NULL)
            fail_msg("the message is: %s", rc_message());
        rc_saved_model_destroy(&model);
    }
    craft_free(&good);
}

/* A file that claims little of what it has is not read, nor is one without an end. */
static void files_are_read_as_far_as_they_are_described(void **state)
{
    (void)state;
    rc_safetensors *file;
    craft good;
    make_model("model.safetensors");
    rc_memory_set_budget(rc_bytes_allocated() + (1 << 20));
    craft_read("model.safetensors", &good);
    FILE *sparse = fopen("model.safetensors", "rb+");
    assert_non_null(sparse);
    assert_int_equal(fseek(sparse, 3000000000, SEEK_SET), 0);
    assert_true(fputc('x', sparse) == 'x' && fclose(sparse) == 0);
    assert_int_equal(rc_safetensors_open("model.safetensors", &file), RC_FORMAT);
    data_assert_message("bytes after the last tensor belong to no tensor");
    assert_null(file);
    craft_write(&good, "model.safetensors");
    SUCCEEDS(rc_safetensors_open("model.safetensors", &file));
    rc_safetensors_close(file);
    assert_int_equal(rc_safetensors_open("/dev/zero", &file), RC_IO);
    data_assert_message("cannot read '/dev/zero': it is a device, expected a regular file");
    assert_int_equal(rc_safetensors_open(".", &file), RC_IO);
    data_assert_message("cannot read '.': it is a folder, expected a regular file");
    rc_memory_set_budget(SIZE_MAX);
    craft_free(&good);
}

/* ---- the public interface ---------------------------------------------------------------------------------------- */

static void contexts_have_limits_of_their_own(void **state)
{
    (void)state;
    recollect_settings settings;
    recollect_context *tight, *wide, *old;
    recollect_model *model = NULL;
    api_data data;
    craft good;
    make_model("model.safetensors");
    craft_read("model.safetensors", &good);
    assert_true(craft_setting(&good, "batch", "4096"));
    craft_write(&good, "model.safetensors");
    craft_free(&good);
    recollect_settings_default(&settings, sizeof settings);
    assert_true(settings.max_memory == 0);
    settings.threads = 1;
    assert_int_equal(recollect_context_create(&settings, &wide), RECOLLECT_OK);
    settings.max_memory = 1000;
    assert_int_equal(recollect_context_create(&settings, &tight), RECOLLECT_OUT_OF_MEMORY);
    settings.max_memory = (size_t)64 << 20;
    assert_int_equal(recollect_context_create(&settings, &tight), RECOLLECT_OK);
    /* A program that was built before there was a limit. */
    settings.size = offsetof(recollect_settings, max_memory);
    settings.max_memory = 1;
    assert_int_equal(recollect_context_create(&settings, &old), RECOLLECT_OK);
    recollect_context_destroy(&old);
    uint8_t pixels[LEARNING_SIZE * LEARNING_SIZE * LEARNING_CHANNELS];
    int made;
    assert_int_equal(recollect_model_load(tight, "model.safetensors", &model), RECOLLECT_OK);
    assert_int_equal(recollect_dream(model, 0, 1, pixels, &made), RECOLLECT_OUT_OF_MEMORY);
    assert_non_null(strstr(recollect_last_message(), "4096 at a time"));
    assert_non_null(strstr(recollect_last_message(), "the setting 'max_memory' ("));
    recollect_model_destroy(&model);
    /* The other context does not mind. */
    assert_int_equal(recollect_model_create(wide, &model), RECOLLECT_OK);
    api_set_quick(model, 1);
    api_data_make(&data, 0, 2, 6, 1);
    assert_int_equal(recollect_learn(model, &data.images, data.labels, data.names, 2, NULL), RECOLLECT_OK);
    assert_true(rc_memory_budget() > (size_t)64 << 20);
    api_data_free(&data);
    recollect_model_destroy(&model);
    recollect_context_destroy(&tight);
    recollect_context_destroy(&wide);
}

/* Uses another context, which may hold next to nothing. */
static int use_another(void *user)
{
    recollect_settings settings;
    recollect_context *other;
    recollect_settings_default(&settings, sizeof settings);
    settings.threads = 1;
    settings.max_memory = 1000;
    assert_int_equal(recollect_context_create(&settings, &other), RECOLLECT_OUT_OF_MEMORY);
    (*(int *)user)++;
    return 0;
}

static void use_another_and_log(void *user, recollect_log_level level, const char *text)
{
    (void)level;
    (void)text;
    use_another(user);
}

static void use_another_and_go_on(void *user, const recollect_progress *progress)
{
    (void)progress;
    use_another(user);
}

static void use_another_and_tell(void *user, const recollect_prediction *prediction)
{
    (void)prediction;
    use_another(user);
}

typedef struct lent {
    const api_data *data;
    int *calls;
} lent;

static recollect_status use_another_and_read(void *user, int index, uint8_t *pixels)
{
    const lent *from = user;
    use_another(from->calls);
    memcpy(pixels, from->data->pixels + (size_t)index * API_IMAGE, API_IMAGE);
    return RECOLLECT_OK;
}

/* Learns, and predicts one picture after the other, with callbacks and images that use another context. */
static void work_with(const recollect_settings *settings, int *reads)
{
    recollect_context *context;
    recollect_model *model;
    recollect_predictor *predictor;
    api_data data;
    api_data_make(&data, 0, 2, 6, 1);
    lent from = {&data, reads};
    recollect_stream stream = {.size = sizeof stream,
                               .count = data.images.count,
                               .height = API_SIZE,
                               .width = API_SIZE,
                               .channels = 1,
                               .labels = data.labels,
                               .read = use_another_and_read,
                               .user = &from};
    const recollect_picture pictures[] = {{.bytes = "P5 2 2 255\n1234", .size = 15}, {.bytes = "none", .size = 4}};
    assert_int_equal(recollect_context_create(settings, &context), RECOLLECT_OK);
    assert_int_equal(recollect_model_create(context, &model), RECOLLECT_OK);
    api_set_quick(model, 1);
    assert_int_equal(recollect_learn_stream(model, &stream, data.names, 2, NULL), RECOLLECT_OK);
    assert_int_equal(recollect_predictor_create(model, 1, &predictor), RECOLLECT_OK);
    size_t before = rc_memory_budget();
    assert_int_equal(recollect_predictor_each(predictor, pictures, 2, 1, use_another_and_tell, reads), RECOLLECT_OK);
    assert_true(before > 1000 && rc_memory_budget() == before);
    recollect_predictor_destroy(&predictor);
    recollect_model_destroy(&model);
    recollect_context_destroy(&context);
    api_data_free(&data);
}

static void a_callback_may_use_a_context_with_another_limit(void **state)
{
    (void)state;
    for (int which = 0; which < 4; which++) {
        int calls = 0, reads = 0;
        recollect_settings settings;
        recollect_settings_default(&settings, sizeof settings);
        settings.threads = 1;
        settings.log = which == 1 ? use_another_and_log : NULL;
        settings.progress = which == 2 ? use_another_and_go_on : NULL;
        settings.cancelled = which == 3 ? use_another : NULL;
        settings.user = &calls;
        work_with(&settings, &reads);
        assert_true(reads > 2 && (calls > 0) == (which > 0));
    }
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, enter, leave)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allowances_add_up),
        cmocka_unit_test(allocations_keep_to_the_budget),
        cmocka_unit_test(published_models_are_within_what_is_allowed),
        IN_FOLDER(one_picture_takes_the_memory_of_one),
        IN_FOLDER(small_files_take_no_gigabytes),
        IN_FOLDER(files_are_read_as_far_as_they_are_described),
        IN_FOLDER(contexts_have_limits_of_their_own),
        cmocka_unit_test(a_callback_may_use_a_context_with_another_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
