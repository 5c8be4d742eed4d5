/* The public interface at work: learning, saving, loading, predicting, dreaming, callbacks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/stop.h"
#include "data/image.h"
#include "support/api_checks.h"
#include "support/api_data.h"

static char folder[] = "/tmp/recollect-test-XXXXXX";
static char path[64], other[64];

static int set_up(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    snprintf(other, sizeof other, "%s/other.safetensors", folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    remove(path);
    remove(other);
    return rmdir(folder);
}

/* ---- callbacks ----------------------------------------------------------------------------------------- */

typedef struct observer {
    int logged, warned, reported, asked;
    int stages[RECOLLECT_STAGE_ESTIMATION + 1]; /* reports of each */
    uint32_t last_step, last_steps;
    int losses, last_task;
    int cancel_at;          /* this question is answered with yes; 0: never */
    bool hesitates;         /* so long that nothing waits for a good place to stop after that */
    recollect_model *model; /* to be misused from a callback; NULL: not */
    recollect_status misused;
} observer;

static void on_log(void *user, recollect_log_level level, const char *text)
{
    observer *o = user;
    assert_true(level >= RECOLLECT_LOG_INFO && text[0] != '\0');
    o->logged++;
    o->warned += level == RECOLLECT_LOG_WARNING;
}

static void on_progress(void *user, const recollect_progress *progress)
{
    observer *o = user;
    assert_int_equal(progress->size, sizeof *progress);
    assert_true(progress->step <= progress->steps && progress->stage_name[0] != '\0');
    o->reported++;
    o->stages[progress->stage]++;
    o->last_step = progress->step;
    o->last_steps = progress->steps;
    o->last_task = progress->task;
    o->losses += progress->loss_count;
    for (int i = 0; i < progress->loss_count; i++)
        assert_true(progress->losses[i].name[0] != '\0' && progress->losses[i].value == progress->losses[i].value);
    if (o->model != NULL)
        o->misused = recollect_model_set(o->model, "epochs", "1");
}

static int on_question(void *user)
{
    observer *o = user;
    if (++o->asked != o->cancel_at)
        return 0;
    struct timespec grace = {.tv_nsec = (long)(1e9 * 1.2 * RC_STOP_GRACE)};
    if (o->hesitates)
        nanosleep(&grace, NULL);
    return 1;
}

static recollect_context *open_context(observer *o)
{
    recollect_settings settings;
    recollect_context *context;
    recollect_settings_default(&settings, sizeof settings);
    settings.threads = 1;
    if (o != NULL) {
        settings.log = on_log;
        settings.progress = on_progress;
        settings.cancelled = on_question;
        settings.user = o;
    }
    SUCCEEDS(recollect_context_create(&settings, &context));
    return context;
}

static recollect_model *quick_model(recollect_context *context, int steps)
{
    recollect_model *model;
    SUCCEEDS(recollect_model_create(context, &model));
    api_set_quick(model, steps);
    return model;
}

static void learn(recollect_model *model, const api_data *data)
{
    SUCCEEDS(recollect_learn(model, &data->images, data->labels, data->names, data->classes, NULL));
}

static void read_file(const char *name, char **bytes, size_t *size)
{
    assert_int_equal(rc_file_read(name, 1 << 24, bytes, size), RECOLLECT_OK);
}

static void assert_same_file(const char *a, const char *b)
{
    char *bytes_a, *bytes_b;
    size_t size_a, size_b;
    read_file(a, &bytes_a, &size_a);
    read_file(b, &bytes_b, &size_b);
    assert_int_equal(size_a, size_b);
    assert_memory_equal(bytes_a, bytes_b, size_a);
    rc_free(NULL, bytes_a);
    rc_free(NULL, bytes_b);
}

/* ---- tests --------------------------------------------------------------------------------------------- */

/* With CwD the model keeps what it knew; fine-tuning, which forgets it, is what would be left of it. */
static void a_model_learns_again_and_again(void **state)
{
    (void)state;
    static const char *const options[][2] = {
        {"net_width", "8"}, {"generator_width", "16"}, {"noise", "32"},           {"inversion_steps", "400"},
        {"epochs", "51"},   {"refine_epochs", "30"},   {"learning_rate", "0.02"}, {"crop_pad", "0"},
    };
    /* Where everything is slow, a few steps of each kind, and no word of how well it learns. */
    bool light = getenv("RECOLLECT_TEST_LIGHT") != NULL;
    recollect_context *context = open_context(NULL);
    recollect_model *model = quick_model(context, light ? 3 : 40);
    for (size_t i = 0; i < sizeof options / sizeof *options && !light; i++)
        SUCCEEDS(recollect_model_set(model, options[i][0], options[i][1]));
    SUCCEEDS(recollect_model_set(model, "class_covariances", "false")); /* which lessons that train drop */
    size_t stored = 0;
    for (int task = 0; task < 3; task++) {
        api_data data, fresh;
        recollect_learn_result result = {.size = sizeof result};
        api_data_make(&data, 2 * task, 2, 32, 1 + (unsigned)task);
        SUCCEEDS(recollect_learn(model, &data.images, data.labels, data.names, 2, &result));
        assert_int_equal(result.known, 2 * task);
        assert_int_equal(result.added, 2);
        assert_int_equal(result.images, 64);
        assert_int_equal(result.held_out, 0);
        assert_true(result.accuracy != result.accuracy && result.seconds > 0); /* NaN: none held out */
        assert_true(recollect_model_stored_bytes(model) > stored);
        stored = recollect_model_stored_bytes(model);
        assert_string_equal(recollect_model_class_name(model, 2 * task + 1), data.names[1]);
        assert_int_equal(recollect_model_find_class(model, data.names[0]), 2 * task);
        api_data_free(&data);
        api_data_make(&fresh, 0, 2 * task + 2, 20, 9);
        double accuracy = api_accuracy(model, &fresh);
        print_message("%d classes: %.0f %%\n", 2 * task + 2, accuracy);
        assert_true(light || accuracy >= 70);
        api_data_free(&fresh);
    }
    assert_int_equal(recollect_model_classes(model), 6);
    assert_int_equal(recollect_model_tasks(model), 3);
    assert_int_equal(recollect_model_task_classes(model, 1), 2);
    recollect_model_destroy(&model);
    assert_null(model);
    recollect_context_destroy(&context);
    assert_null(context);
}

static void predict_all(recollect_model *model, const api_data *data, int32_t *labels, float *probabilities,
                        float *unfamiliarity)
{
    SUCCEEDS(recollect_predict(model, &data->images, 2, labels, probabilities, unfamiliarity));
}

/* More images than a batch has, so that the last one is short. */
enum { IMAGES = 3 * 25 };

static void saving_and_loading_change_nothing(void **state)
{
    (void)state;
    api_data data;
    api_data_make(&data, 0, 3, IMAGES / 3, 1);
    recollect_context *context = open_context(NULL);
    recollect_model *model = quick_model(context, 5), *loaded;
    learn(model, &data);
    SUCCEEDS(recollect_model_save(model, path, 0));
    assert_int_equal(recollect_model_save(model, path, 0), RECOLLECT_IO);
    assert_non_null(strstr(recollect_last_message(), path));
    SUCCEEDS(recollect_model_save(model, path, 1));
    SUCCEEDS(recollect_model_load(context, path, &loaded));
    int32_t labels[2][IMAGES * 2], one[2];
    float probabilities[2][IMAGES * 2], unfamiliarity[2][IMAGES], probability[2], stranger;
    predict_all(model, &data, labels[0], probabilities[0], unfamiliarity[0]);
    predict_all(loaded, &data, labels[1], probabilities[1], unfamiliarity[1]);
    assert_memory_equal(labels[0], labels[1], sizeof labels[0]);
    assert_memory_equal(probabilities[0], probabilities[1], sizeof probabilities[0]);
    assert_memory_equal(unfamiliarity[0], unfamiliarity[1], sizeof unfamiliarity[0]);
    for (int i = 0; i < IMAGES; i++) {
        assert_true(probabilities[0][2 * i] >= probabilities[0][2 * i + 1]);
        assert_true(probabilities[0][2 * i] + probabilities[0][2 * i + 1] <= 1.0001f);
        assert_true(unfamiliarity[0][i] > 0);
    }
    assert_int_equal(recollect_model_image_height(loaded), API_SIZE);
    assert_int_equal(recollect_model_image_width(loaded), API_SIZE);
    assert_int_equal(recollect_model_image_channels(loaded), 1);
    assert_string_equal(recollect_model_class_name(loaded, 2), data.names[2]);
    char text[16];
    SUCCEEDS(recollect_model_get(loaded, "net_width", text, sizeof text));
    assert_string_equal(text, "4");

    /* The same image from the bytes of a file. */
    rc_image image = {API_SIZE, API_SIZE, 1, data.pixels};
    char *bytes;
    size_t size;
    assert_int_equal(rc_image_write_png(other, &image), RECOLLECT_OK);
    read_file(other, &bytes, &size);
    SUCCEEDS(recollect_predict_encoded(loaded, bytes, size, 2, one, probability, &stranger));
    assert_int_equal(one[0], labels[0][0]);
    assert_true(probability[0] == probabilities[0][0] && stranger == unfamiliarity[0][0]);
    assert_int_equal(recollect_predict_encoded(loaded, bytes, size / 2, 2, one, probability, &stranger),
                     RECOLLECT_FORMAT);
    rc_free(NULL, bytes);

    recollect_model_destroy(&loaded);
    read_file(path, &bytes, &size);
    SUCCEEDS(recollect_model_load_memory(context, bytes, size, &loaded));
    assert_int_equal(recollect_model_classes(loaded), 3);
    recollect_model_destroy(&loaded);
    assert_int_equal(recollect_model_load_memory(context, bytes, size - 1, &loaded), RECOLLECT_FORMAT);
    assert_null(loaded);
    rc_free(NULL, bytes);
    recollect_context_destroy(&context); /* lives on with the model */
    predict_all(model, &data, labels[1], NULL, NULL);
    assert_memory_equal(labels[0], labels[1], sizeof labels[0]);
    recollect_model_destroy(&model);
    api_data_free(&data);
}

static void callbacks_are_called_and_cannot_call_back(void **state)
{
    (void)state;
    observer o = {0};
    api_data first, second;
    api_data_make(&first, 0, 2, 16, 1);
    api_data_make(&second, 2, 1, 16, 2);
    recollect_context *context = open_context(&o);
    recollect_model *model = quick_model(context, 4);
    o.model = model;
    learn(model, &first);
    assert_int_equal(o.misused, RECOLLECT_INVALID_ARGUMENT);
    assert_true(o.logged > 0 && o.asked > 0 && o.losses > 0);
    assert_true(o.stages[RECOLLECT_STAGE_TRAINING] > 0 && o.stages[RECOLLECT_STAGE_ESTIMATION] > 0);
    assert_int_equal(o.stages[RECOLLECT_STAGE_INVERSION], 0);
    assert_int_equal(o.last_task, 1);
    learn(model, &second);
    assert_true(o.stages[RECOLLECT_STAGE_INVERSION] > 0 && o.stages[RECOLLECT_STAGE_REFINEMENT] > 0);
    assert_int_equal(o.last_task, 2);
    assert_int_equal(o.last_step, o.last_steps);
    recollect_model_destroy(&model);
    recollect_context_destroy(&context);
    api_data_free(&first);
    api_data_free(&second);
}

/* Stops at every question there is, one after the other. */
/* Learning is stopped wherever it can be; `least`: the stages that ask. */
static void cancel_everywhere(const char *method, int least)
{
    observer o = {0};
    api_data first, second;
    api_data_make(&first, 0, 2, 16, 1);
    api_data_make(&second, 2, 2, 16, 2);
    recollect_context *context = open_context(&o);
    recollect_model *model = quick_model(context, 3);
    SUCCEEDS(recollect_model_set(model, "method", method));
    SUCCEEDS(recollect_model_set(model, "buffer_size", "10"));
    SUCCEEDS(recollect_model_set(model, "vae_width", "8"));
    o.cancel_at = 1;
    assert_int_equal(recollect_learn(model, &first.images, first.labels, first.names, 2, NULL), RECOLLECT_CANCELLED);
    assert_int_equal(recollect_model_classes(model), 0);
    o.cancel_at = 0;
    learn(model, &first);
    SUCCEEDS(recollect_model_save(model, path, 1));
    int cancelled = 0;
    for (recollect_status status = RECOLLECT_CANCELLED; status != RECOLLECT_OK; cancelled++) {
        o.asked = 0;
        o.cancel_at = cancelled + 1;
        status = recollect_learn(model, &second.images, second.labels, second.names, 2, NULL);
        if (status == RECOLLECT_OK)
            break;
        assert_int_equal(status, RECOLLECT_CANCELLED);
        assert_true(recollect_last_message()[0] != '\0');
        assert_int_equal(recollect_model_classes(model), 2);
        SUCCEEDS(recollect_model_save(model, other, 1));
        assert_same_file(path, other);
    }
    print_message("%s: cancelled %d times\n", method, cancelled);
    assert_true(cancelled >= least);
    assert_int_equal(recollect_model_classes(model), 4);
    recollect_model_destroy(&model);
    recollect_context_destroy(&context);
    api_data_free(&first);
    api_data_free(&second);
}

static void a_cancelled_model_is_as_before(void **state)
{
    (void)state;
    cancel_everywhere("cwd", 4);
    cancel_everywhere("er", 1);
    cancel_everywhere("dgr", 1);
}

/* Stopped in the midst of computing, wherever that is, a model is as before, and its context as good as new. */
static void a_model_stopped_in_a_step_is_as_before(void **state)
{
    (void)state;
    api_data first, second;
    api_data_make(&first, 0, 2, 40, 1);
    api_data_make(&second, 2, 2, 40, 2);
    observer o = {.hesitates = true};
    recollect_context *plain = open_context(NULL), *context = open_context(&o);
    bool light = getenv("RECOLLECT_TEST_LIGHT") != NULL; /* slow steps are long enough to be stopped in */
    int epochs = light ? 4 : 16, stopped = 0;
    recollect_model *expected = quick_model(plain, epochs), *model = quick_model(context, epochs);
    learn(expected, &first);
    learn(model, &first);
    SUCCEEDS(recollect_model_save(model, path, 1));
    recollect_status status = RECOLLECT_CANCELLED;
    recollect_evaluation *evaluation;
    for (int place = 1; status != RECOLLECT_OK; place += light ? 2 * place : 1 + place / 3) {
        o.asked = 0;
        o.cancel_at = place;
        status = recollect_learn(model, &second.images, second.labels, second.names, 2, NULL);
        if (status == RECOLLECT_OK)
            break;
        stopped++;
        assert_int_equal(status, RECOLLECT_CANCELLED);
        assert_true(recollect_last_message()[0] != '\0');
        SUCCEEDS(recollect_model_save(model, other, 1));
        assert_same_file(path, other);
    }
    print_message("stopped %d times\n", stopped);
    assert_true(stopped > 0);
    learn(expected, &second);
    SUCCEEDS(recollect_model_save(expected, path, 1));
    SUCCEEDS(recollect_model_save(model, other, 1));
    assert_same_file(path, other);
    o.asked = 0; /* evaluation, which scores without a step */
    o.cancel_at = 1;
    assert_int_equal(recollect_evaluate(model, &first.images, first.labels, &evaluation), RECOLLECT_CANCELLED);
    assert_null(evaluation);
    SUCCEEDS(recollect_evaluate(model, &first.images, first.labels, &evaluation));
    assert_int_equal(evaluation->images, 80);
    recollect_evaluation_destroy(&evaluation);
    recollect_model_destroy(&expected);
    recollect_model_destroy(&model);
    recollect_context_destroy(&plain);
    recollect_context_destroy(&context);
    api_data_free(&first);
    api_data_free(&second);
}

/* Which sizes the header gives for a first model: a lesson of one of these begins, and is cancelled at once. */
static void a_first_model_takes_these_sizes(void **state)
{
    (void)state;
    static const int taken[] = {14, 150, 152, 300, 304, 600, 608};
    static const int refused[] = {12, 15, 151, 154, 302, 308, 604, 616, 1016};
    static const int32_t labels[] = {0, 1};
    static const char *const names[] = {"black", "dark"};
    uint8_t *pixels = calloc(2, 1024 * 1024);
    observer o = {0};
    recollect_context *context = open_context(&o);
    recollect_model *model = quick_model(context, 2);
    assert_non_null(pixels);
    SUCCEEDS(recollect_model_set(model, "net", "resnet-small")); /* which takes little memory */
    SUCCEEDS(recollect_model_set(model, "batch", "2"));
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        recollect_images images = {pixels, 2, taken[i], taken[i], 1};
        o.asked = 0;
        o.cancel_at = 1;
        if (recollect_learn(model, &images, labels, names, 2, NULL) != RECOLLECT_CANCELLED)
            fail_msg("%d pixels: %s", taken[i], recollect_last_message());
    }
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        recollect_images images = {pixels, 2, refused[i], refused[i], 1};
        if (recollect_learn(model, &images, labels, names, 2, NULL) != RECOLLECT_INVALID_ARGUMENT ||
            strstr(recollect_last_message(), "cannot make images of") == NULL)
            fail_msg("%d pixels: %s", refused[i], recollect_last_message());
    }
    recollect_model_destroy(&model);
    recollect_context_destroy(&context);
    free(pixels);
}

static bool is_there(const char *name)
{
    return access(name, F_OK) == 0;
}

/* A lesson that is cancelled again and again goes on from its checkpoint and ends with the bits of one that was not. */
static void a_cancelled_lesson_goes_on(void **state)
{
    (void)state;
    static const char part[] = "lesson.part";
    api_data first, second;
    api_data_make(&first, 0, 2, 40, 1);
    api_data_make(&second, 2, 2, 40, 2);
    observer o = {0};
    recollect_context *plain = open_context(NULL), *context = open_context(&o);
    recollect_model *expected = quick_model(plain, 20), *model = quick_model(context, 20);
    char text[64];
    SUCCEEDS(recollect_model_get(model, "checkpoint_seconds", text, sizeof text));
    assert_string_equal(text, "60");
    assert_int_equal(recollect_model_set(model, "checkpoint_seconds", "-1"), RECOLLECT_INVALID_ARGUMENT);
    assert_int_equal(recollect_model_set(model, "checkpoint_seconds", "x"), RECOLLECT_INVALID_ARGUMENT);
    assert_int_equal(recollect_model_set(model, "resume", "yes"), RECOLLECT_INVALID_ARGUMENT);
    learn(expected, &first);
    learn(expected, &second);
    SUCCEEDS(recollect_model_save(expected, path, 1));
    learn(model, &first);
    recollect_status status = RECOLLECT_CANCELLED;
    int stopped = 0;
    for (; status != RECOLLECT_OK; stopped++) {
        SUCCEEDS(recollect_model_set(model, "checkpoint", part));
        SUCCEEDS(recollect_model_set(model, "checkpoint_seconds", "0"));
        SUCCEEDS(recollect_model_set(model, "resume", "false"));
        if (is_there(part)) /* nothing is lost silently */
            assert_int_equal(recollect_learn(model, &second.images, second.labels, second.names, 2, NULL),
                             RECOLLECT_INVALID_ARGUMENT);
        SUCCEEDS(recollect_model_set(model, "resume", "true"));
        o.asked = 0;
        o.cancel_at = 4 + stopped; /* so that it ends, however slow the machine is */
        status = recollect_learn(model, &second.images, second.labels, second.names, 2, NULL);
        assert_true(status == RECOLLECT_OK || status == RECOLLECT_CANCELLED);
    }
    print_message("went on %d times\n", stopped - 1);
    assert_true(stopped > 1 && is_there(part));
    SUCCEEDS(recollect_model_get(model, "checkpoint", text, sizeof text));
    assert_string_equal(text, ""); /* it was for that lesson */
    SUCCEEDS(recollect_model_save(model, other, 1));
    assert_false(is_there(part)); /* the model is safe */
    assert_same_file(path, other);
    recollect_model_destroy(&expected);
    recollect_model_destroy(&model);
    recollect_context_destroy(&plain);
    recollect_context_destroy(&context);
    api_data_free(&first);
    api_data_free(&second);
}

/* What a model has learnt and nobody has saved: its checkpoint goes with a lesson that takes its place, and with none
 * that is refused. */
static void a_refused_lesson_keeps_the_checkpoint_of_the_last(void **state)
{
    (void)state;
    static const char part[] = "last.part";
    api_data first, second;
    api_data_make(&first, 0, 2, 8, 1);
    api_data_make(&second, 2, 2, 8, 2);
    recollect_context *context = open_context(NULL);
    recollect_model *model = quick_model(context, 2);
    SUCCEEDS(recollect_model_set(model, "checkpoint_seconds", "0"));
    SUCCEEDS(recollect_model_set(model, "checkpoint", part));
    learn(model, &first);
    assert_true(is_there(part));
    assert_int_equal(recollect_learn(model, &first.images, first.labels, first.names, 2, NULL),
                     RECOLLECT_INVALID_ARGUMENT);
    assert_true(is_there(part));
    learn(model, &second);
    assert_false(is_there(part));
    recollect_model_destroy(&model);
    model = quick_model(context, 2);
    for (int lesson = 0; lesson < 2; lesson++) { /* with one file, however it is called */
        SUCCEEDS(recollect_model_set(model, "checkpoint_seconds", "0"));
        SUCCEEDS(recollect_model_set(model, "checkpoint", lesson == 0 ? "last.part" : "./last.part"));
        learn(model, lesson == 0 ? &first : &second);
        assert_true(is_there(part));
    }
    SUCCEEDS(recollect_model_save(model, other, 1));
    assert_false(is_there(part));
    recollect_model_destroy(&model);
    recollect_context_destroy(&context);
    api_data_free(&first);
    api_data_free(&second);
}

/* A checkpoint that cannot be written is a warning, also where it might be gone on from. */
static void a_lesson_needs_no_folder_for_its_checkpoint(void **state)
{
    (void)state;
    observer o = {0};
    api_data data;
    api_data_make(&data, 0, 2, 8, 1);
    recollect_context *context = open_context(&o);
    for (int resume = 0; resume < 2; resume++) {
        recollect_model *model = quick_model(context, 2);
        SUCCEEDS(recollect_model_set(model, "checkpoint", "no-such-folder/lesson.part"));
        SUCCEEDS(recollect_model_set(model, "checkpoint_seconds", "0"));
        SUCCEEDS(recollect_model_set(model, "resume", resume ? "true" : "false"));
        o.warned = 0;
        learn(model, &data);
        assert_int_equal(o.warned, 1);
        recollect_model_destroy(&model);
    }
    recollect_context_destroy(&context);
    api_data_free(&data);
}

static void refused_lessons_leave_the_model_alone(void **state)
{
    (void)state;
    api_data first, second;
    api_data_make(&first, 0, 2, 16, 1);
    api_data_make(&second, 2, 2, 16, 2);
    recollect_context *context = open_context(NULL);
    recollect_model *model = quick_model(context, 2);
    learn(model, &first);
    SUCCEEDS(recollect_model_save(model, path, 1));
    static const char *const bad[][2] = {
        {"net", "resnet32"}, {"net_width", "8"}, {"refine_epochs", "500"}, {"size", "32"}, {"preset", "learn"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        recollect_model *loaded;
        SUCCEEDS(recollect_model_load(context, path, &loaded));
        SUCCEEDS(recollect_model_set(loaded, bad[i][0], bad[i][1]));
        recollect_status status = recollect_learn(loaded, &second.images, second.labels, second.names, 2, NULL);
        if (status != RECOLLECT_INVALID_ARGUMENT)
            fail_msg("%s = %s: %s", bad[i][0], bad[i][1], recollect_status_text(status));
        assert_true(recollect_last_message()[0] != '\0');
        SUCCEEDS(recollect_model_save(loaded, other, 1));
        assert_same_file(path, other);
        recollect_model_destroy(&loaded);
    }
    /* Known names are refused unless they may be merged. */
    char message[128];
    second.names[0] = first.names[1];
    assert_int_equal(recollect_learn(model, &second.images, second.labels, second.names, 2, NULL),
                     RECOLLECT_INVALID_ARGUMENT);
    snprintf(message, sizeof message, "the model already knows %s. Leave it out or rename it; ", first.names[1]);
    assert_non_null(strstr(recollect_last_message(), message)); /* and no folder: these images lie in memory */
    SUCCEEDS(recollect_model_set(model, "merge", "true"));
    learn(model, &second);
    assert_int_equal(recollect_model_classes(model), 3);
    recollect_model_destroy(&model);
    recollect_context_destroy(&context);
    api_data_free(&first);
    api_data_free(&second);
}

/* What was set for the first lesson does not stand in the way of the next. */
static void options_of_the_first_lesson_may_stay(void **state)
{
    (void)state;
    recollect_context *context = open_context(NULL);
    recollect_model *model;
    api_data first, second, third;
    api_data_make(&first, 0, 2, 12, 1);
    api_data_make(&second, 2, 1, 12, 2);
    api_data_make(&third, 3, 1, 12, 3);
    SUCCEEDS(recollect_model_create(context, &model));
    SUCCEEDS(recollect_model_set(model, "preset", "learn"));
    SUCCEEDS(recollect_model_set(model, "size", "16"));
    SUCCEEDS(recollect_model_set(model, "channels", "0"));
    SUCCEEDS(recollect_model_set(model, "mean", "0.5"));
    api_set_quick(model, 2);
    learn(model, &first);
    learn(model, &second);
    SUCCEEDS(recollect_model_set(model, "size", "32"));
    assert_int_equal(recollect_learn(model, &third.images, third.labels, third.names, 1, NULL),
                     RECOLLECT_INVALID_ARGUMENT);
    assert_non_null(strstr(recollect_last_message(), "size cannot be set: the model was made for images of 16 x 16"));
    SUCCEEDS(recollect_model_set(model, "size", "0"));
    learn(model, &third);
    assert_int_equal(recollect_model_classes(model), 4);
    api_data_free(&first);
    api_data_free(&second);
    api_data_free(&third);
    recollect_model_destroy(&model);
    recollect_context_destroy(&context);
}

static void dreams_come_and_repeat(void **state)
{
    (void)state;
    observer o = {0};
    api_data data;
    api_data_make(&data, 0, 2, 24, 1);
    recollect_context *context = open_context(&o);
    recollect_model *model = quick_model(context, 30);
    learn(model, &data);
    SUCCEEDS(recollect_model_save(model, path, 1));
    static uint8_t pixels[8 * API_IMAGE], again[8 * API_IMAGE];
    int made[2], repeated, total = 0;
    for (int label = 0; label < 2; label++) {
        SUCCEEDS(recollect_dream(model, label, 4, pixels, &made[label]));
        assert_in_range(made[label], 0, 4);
        total += made[label];
    }
    print_message("%d and %d dreams of 4\n", made[0], made[1]);
    assert_true(total > 0);
    int label = made[1] > made[0];
    SUCCEEDS(recollect_dream(model, label, 4, pixels, &made[0]));
    int asked = o.asked;
    SUCCEEDS(recollect_dream(model, label, 2, again, &repeated));
    assert_int_equal(o.asked, asked); /* at once */
    assert_int_equal(repeated, made[0] < 2 ? made[0] : 2);
    assert_memory_equal(pixels, again, (size_t)repeated * API_IMAGE);
    SUCCEEDS(recollect_dream(model, label, 8, again, &repeated));
    assert_memory_equal(pixels, again, (size_t)made[0] * API_IMAGE);
    o.asked = 0;
    o.cancel_at = 1;
    recollect_model *loaded;
    SUCCEEDS(recollect_model_load(context, path, &loaded));
    assert_int_equal(recollect_dream(loaded, 0, 2, again, &repeated), RECOLLECT_CANCELLED);
    assert_int_equal(repeated, 0);
    SUCCEEDS(recollect_model_save(loaded, other, 1));
    assert_same_file(path, other);
    SUCCEEDS(recollect_model_save(model, other, 1));
    assert_same_file(path, other);
    recollect_model_destroy(&loaded);
    recollect_model_destroy(&model);
    recollect_context_destroy(&context);
    api_data_free(&data);
}

/* What a method stores of images is counted, and a look at its dreams leaves it there. */
static void dreaming_keeps_what_is_stored(void **state)
{
    (void)state;
    static const char *const methods[] = {"finetune", "er", "dgr"};
    static uint8_t pixels[API_IMAGE];
    size_t stored[3];
    api_data data;
    api_data_make(&data, 0, 2, 24, 1);
    recollect_context *context = open_context(NULL);
    for (int i = 0; i < 3; i++) {
        recollect_model *model = quick_model(context, 3);
        int made;
        SUCCEEDS(recollect_model_set(model, "method", methods[i]));
        SUCCEEDS(recollect_model_set(model, "buffer_size", "10"));
        SUCCEEDS(recollect_model_set(model, "vae_width", "8"));
        learn(model, &data);
        stored[i] = recollect_model_stored_bytes(model);
        SUCCEEDS(recollect_model_save(model, path, 1));
        SUCCEEDS(recollect_dream(model, 0, 1, pixels, &made));
        SUCCEEDS(recollect_model_save(model, other, 1));
        assert_same_file(path, other);
        assert_int_equal(recollect_model_stored_bytes(model), stored[i]);
        recollect_model_destroy(&model);
    }
    assert_int_equal(stored[1] - stored[0], 10 * (API_IMAGE + sizeof(int32_t)));
    assert_true(stored[2] > stored[0]);
    recollect_context_destroy(&context);
    api_data_free(&data);
}

enum { FOLDER_CLASSES = 2, FOLDER_IMAGES = 10 };

static void name_image(char *name, size_t size, int class, int image)
{
    snprintf(name, size, "%s/images/%d/%d.png", folder, class, image);
}

/* Two folders of pictures, all right but one. */
static void write_images(const api_data *data)
{
    char name[128];
    snprintf(name, sizeof name, "%s/images", folder);
    assert_int_equal(mkdir(name, 0700), 0);
    for (int class = 0; class < FOLDER_CLASSES; class ++) {
        snprintf(name, sizeof name, "%s/images/%d", folder, class);
        assert_int_equal(mkdir(name, 0700), 0);
    }
    for (int i = 0; i < data->images.count; i++) {
        rc_image image = {API_SIZE, API_SIZE, 1, data->pixels + (size_t)i * API_IMAGE};
        name_image(name, sizeof name, data->labels[i], i / FOLDER_CLASSES);
        assert_int_equal(rc_image_write_png(name, &image), RECOLLECT_OK);
    }
    name_image(name, sizeof name, 1, FOLDER_IMAGES);
    assert_int_equal(rc_file_write_atomic(name, "no picture", 10), RECOLLECT_OK);
}

static void remove_images(void)
{
    char name[128];
    for (int class = 0; class < FOLDER_CLASSES; class ++) {
        for (int i = 0; i <= FOLDER_IMAGES; i++) {
            name_image(name, sizeof name, class, i);
            remove(name);
        }
        snprintf(name, sizeof name, "%s/images/%d", folder, class);
        rmdir(name);
    }
    snprintf(name, sizeof name, "%s/images", folder);
    rmdir(name);
}

static void folders_are_learnt(void **state)
{
    (void)state;
    observer o = {0};
    api_data data;
    char name[128];
    api_data_make(&data, 0, FOLDER_CLASSES, FOLDER_IMAGES, 1);
    write_images(&data);
    snprintf(name, sizeof name, "%s/images", folder);
    recollect_context *context = open_context(&o);
    recollect_model *model = quick_model(context, 2);
    recollect_learn_result result = {.size = sizeof result};
    assert_int_not_equal(recollect_learn_folder(model, name, &result), RECOLLECT_OK);
    assert_non_null(strstr(recollect_last_message(), "10.png"));
    assert_int_equal(recollect_model_classes(model), 0);
    SUCCEEDS(recollect_model_set(model, "skip_broken", "true"));
    SUCCEEDS(recollect_learn_folder(model, name, &result));
    assert_int_equal(result.added, FOLDER_CLASSES);
    assert_int_equal(result.broken, 1);
    assert_int_equal(result.held_out, 2); /* a tenth */
    assert_int_equal(result.images, 18);
    assert_true(result.accuracy >= 0 && result.accuracy <= 100);
    assert_true(o.stages[RECOLLECT_STAGE_READING] > 0);
    assert_string_equal(recollect_model_class_name(model, 1), "1");
    assert_int_equal(recollect_model_image_height(model), API_SIZE);
    recollect_model_destroy(&model);
    recollect_context_destroy(&context);
    api_data_free(&data);
    remove_images();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_learns_again_and_again),
        cmocka_unit_test(saving_and_loading_change_nothing),
        cmocka_unit_test(callbacks_are_called_and_cannot_call_back),
        cmocka_unit_test(a_cancelled_model_is_as_before),
        cmocka_unit_test(a_model_stopped_in_a_step_is_as_before),
        cmocka_unit_test(a_first_model_takes_these_sizes),
        cmocka_unit_test(a_cancelled_lesson_goes_on),
        cmocka_unit_test(a_refused_lesson_keeps_the_checkpoint_of_the_last),
        cmocka_unit_test(a_lesson_needs_no_folder_for_its_checkpoint),
        cmocka_unit_test(refused_lessons_leave_the_model_alone),
        cmocka_unit_test(options_of_the_first_lesson_may_stay),
        cmocka_unit_test(dreams_come_and_repeat),
        cmocka_unit_test(dreaming_keeps_what_is_stored),
        cmocka_unit_test(folders_are_learnt),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
