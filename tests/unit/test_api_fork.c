/* Children of fork(): they may destroy what they inherited, whatever the threads of the parent were doing, are refused
 * everything else with a message, and work with a context of their own. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/memory.h"
#include "support/api_data.h"

#if defined(__has_feature)
#define HAS_FEATURE(name) __has_feature(name)
#else
#define HAS_FEATURE(name) 0
#endif

/* The thread sanitizer ends a child that starts threads. The address sanitizer of gcc 12 does not take its own locks
 * before a fork: if a thread of the parent holds one, because it begins or asks for memory, the child waits for it for
 * good. Its parents have no other threads. */
#if defined(__SANITIZE_THREAD__) || HAS_FEATURE(thread_sanitizer)
enum { THREADS = 4, CHILD_THREADS = 1, LONE_PARENT = 0 };
#elif defined(__SANITIZE_ADDRESS__) || HAS_FEATURE(address_sanitizer)
enum { THREADS = 1, CHILD_THREADS = 2, LONE_PARENT = 1 };
#else
enum { THREADS = 4, CHILD_THREADS = 2, LONE_PARENT = 0 };
#endif

enum { TIMES = 60, CLASSES = 2, IMAGES = 8, CHILD_SECONDS = 60 };

static api_data data;
static char folder[] = "/tmp/recollect-test-XXXXXX";
static char path[64];
static float expected[IMAGES * CLASSES];

static recollect_context *open_context(int threads)
{
    recollect_settings settings;
    recollect_context *context = NULL;
    recollect_settings_default(&settings, sizeof settings);
    settings.threads = threads;
    return recollect_context_create(&settings, &context) == RECOLLECT_OK ? context : NULL;
}

static recollect_status predict(recollect_model *model, float *probabilities)
{
    return recollect_predict(model, &data.images, CLASSES, NULL, probabilities, NULL);
}

/* ---- a child ----------------------------------------------------------------------------------------------- */

/* What a child tells its parent by its exit code: the line of the first check that failed (modulo 256), or 0. */
#define CHECK(condition) \
    do { \
        if (!(condition)) \
            _exit(__LINE__ % 255 + 1); \
    } while (0)

static void ignore_prediction(void *user, const recollect_prediction *prediction)
{
    (void)user;
    (void)prediction;
}

static void check_is_refused(recollect_status status)
{
    CHECK(status == RECOLLECT_INVALID_ARGUMENT);
    CHECK(strstr(recollect_last_message(), "before fork()") != NULL);
}

static void ignore_line(void *user, const char *text)
{
    (void)user;
    (void)text;
}

static void refuse_inherited_predictor(recollect_predictor *predictor, const recollect_model *model)
{
    recollect_predictor *another = NULL;
    recollect_outputs outputs = {.size = sizeof outputs};
    recollect_picture picture = {.path = folder};
    check_is_refused(recollect_predictor_images(predictor, &data.images, &outputs));
    check_is_refused(recollect_predictor_pictures(predictor, &picture, 1, &outputs));
    check_is_refused(recollect_predictor_each(predictor, &picture, 1, 1, ignore_prediction, NULL));
    check_is_refused(recollect_predictor_reject(predictor, 0.05));
    check_is_refused(recollect_predictor_create(model, 1, &another));
    CHECK(another == NULL);
    recollect_prediction prediction = {.size = sizeof prediction, .path = folder};
    check_is_refused(recollect_describe_prediction(model, &prediction, ignore_line, NULL));
}

static void refuse_inherited(recollect_context *context, recollect_model *model)
{
    float probabilities[IMAGES * CLASSES];
    char text[64];
    int made;
    recollect_model *another = NULL;
    check_is_refused(predict(model, probabilities));
    check_is_refused(recollect_predict_encoded(model, "P5", 2, 1, NULL, NULL, NULL));
    check_is_refused(recollect_learn(model, &data.images, data.labels, data.names, CLASSES, NULL));
    check_is_refused(recollect_learn_folder(model, folder, NULL));
    check_is_refused(recollect_dream(model, 0, 1, data.pixels, &made));
    void *bytes = &bytes;
    size_t size = 1;
    recollect_learn_result result = {.size = sizeof result};
    recollect_model_info info = {.size = sizeof info};
    recollect_method method = {.size = sizeof method};
    recollect_dream_result dreams = {.size = sizeof dreams};
    check_is_refused(recollect_dream_folder(model, folder, NULL, NULL));
    check_is_refused(recollect_describe_dreams(model, &dreams, folder, ignore_line, NULL));
    check_is_refused(recollect_model_import(context, path, NULL, &another));
    CHECK(another == NULL);
    check_is_refused(recollect_model_save_memory(model, &bytes, &size));
    CHECK(bytes == NULL && size == 0);
    check_is_refused(recollect_describe_model(model, 0, ignore_line, NULL));
    check_is_refused(recollect_describe_learning(model, &result, NULL, NULL, ignore_line, NULL));
    check_is_refused(recollect_model_get_info(model, &info));
    CHECK(recollect_method_at(0, &method) == 1); /* what belongs to no context is as before */
    CHECK(recollect_check_option("epochs", "3") == RECOLLECT_OK);
    check_is_refused(recollect_model_set(model, "epochs", "3"));
    check_is_refused(recollect_model_get(model, "epochs", text, sizeof text));
    check_is_refused(recollect_model_save(model, path, 1));
    check_is_refused(recollect_model_export(model, "onnx", path, 1));
    recollect_stream stream = {.size = sizeof stream};
    check_is_refused(recollect_learn_stream(model, &stream, data.names, CLASSES, NULL));
    recollect_evaluation *evaluation = NULL;
    check_is_refused(recollect_evaluate(model, &data.images, data.labels, &evaluation));
    check_is_refused(recollect_evaluate_folder(model, folder, &evaluation));
    CHECK(evaluation == NULL);
    check_is_refused(recollect_model_create(context, &another));
    check_is_refused(recollect_model_load(context, path, &another));
    check_is_refused(recollect_model_load_memory(context, "", 1, &another));
    CHECK(another == NULL);
}

static void work_with_own_context(void)
{
    float probabilities[IMAGES * CLASSES];
    recollect_model *model = NULL;
    recollect_context *context = open_context(CHILD_THREADS);
    CHECK(context != NULL);
    CHECK(recollect_model_load(context, path, &model) == RECOLLECT_OK);
    CHECK(predict(model, probabilities) == RECOLLECT_OK);
    CHECK(memcmp(probabilities, expected, sizeof expected) == 0);
    recollect_model_destroy(&model);
    recollect_context_destroy(&context);
    CHECK(model == NULL && context == NULL);
}

/* `held`: bytes that are left in the child once it has destroyed what it inherited; SIZE_MAX: as many as there are. */
static void live(recollect_context *context, recollect_model *model, recollect_predictor *predictor, size_t held)
{
    alarm(CHILD_SECONDS);
    refuse_inherited(context, model);
    if (predictor != NULL)
        refuse_inherited_predictor(predictor, model);
    if (held != SIZE_MAX)
        CHECK(recollect_model_classes(model) == CLASSES);
    recollect_model_destroy(&model);
    recollect_predictor_destroy(&predictor);
    recollect_context_destroy(&context);
    CHECK(model == NULL && context == NULL && predictor == NULL);
    CHECK(held == SIZE_MAX || rc_bytes_allocated() == held);
    work_with_own_context();
    _exit(0);
}

static void fork_and_check(recollect_context *context, recollect_model *model, recollect_predictor *predictor,
                           size_t held)
{
    pid_t child = fork();
    int status;
    assert_true(child >= 0);
    if (child == 0)
        live(context, model, predictor, held);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("the child ended with %s %d", WIFEXITED(status) ? "line (modulo 255) + 1 =" : "signal",
                 WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
}

/* ---- tests ----------------------------------------------------------------------------------------------- */

static int set_up(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    api_data_make(&data, 0, CLASSES, IMAGES / CLASSES, 1);
    recollect_context *context = open_context(THREADS);
    recollect_model *model = NULL;
    recollect_status status = recollect_model_create(context, &model);
    api_set_quick(model, 2);
    if (status == RECOLLECT_OK)
        status = recollect_learn(model, &data.images, data.labels, data.names, CLASSES, NULL);
    if (status == RECOLLECT_OK)
        status = predict(model, expected);
    if (status == RECOLLECT_OK)
        status = recollect_model_save(model, path, 0);
    recollect_model_destroy(&model);
    recollect_context_destroy(&context);
    return status == RECOLLECT_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    api_data_free(&data);
    remove(path);
    return rmdir(folder);
}

static void children_of_an_idle_parent(void **state)
{
    (void)state;
    float probabilities[IMAGES * CLASSES];
    size_t before = rc_bytes_allocated();
    for (int i = 0; i < TIMES; i++) {
        recollect_context *context = open_context(THREADS);
        recollect_model *model = NULL;
        assert_non_null(context);
        assert_int_equal(recollect_model_load(context, path, &model), RECOLLECT_OK);
        if (i % 2 == 0) /* with threads that have just worked, and threads that sleep */
            assert_int_equal(predict(model, probabilities), RECOLLECT_OK);
        else
            nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        recollect_predictor *predictor = NULL;
        if (i % 3 == 0)
            assert_int_equal(recollect_predictor_create(model, LONE_PARENT ? 1 : i % 2 + 1, &predictor), RECOLLECT_OK);
        fork_and_check(context, model, predictor, before);
        recollect_predictor_destroy(&predictor);
        /* The parent goes on as if nothing had happened. */
        assert_int_equal(predict(model, probabilities), RECOLLECT_OK);
        assert_memory_equal(probabilities, expected, sizeof expected);
        recollect_model_destroy(&model);
        recollect_context_destroy(&context);
    }
    assert_int_equal(rc_bytes_allocated(), before);
}

typedef struct worker {
    recollect_context *context;
    recollect_model *model;
    recollect_predictor *predictor;
    atomic_bool stop;
    recollect_status status;
    atomic_int rounds;
} worker;

static recollect_status lesson(recollect_context *context)
{
    recollect_model *model;
    recollect_status status = recollect_model_create(context, &model);
    if (status == RECOLLECT_OK) {
        api_set_quick(model, 2);
        status = recollect_learn(model, &data.images, data.labels, data.names, CLASSES, NULL);
    }
    recollect_model_destroy(&model);
    return status;
}

/* Predicts and changes an option; every now and then another model of the same context learns. */
static void *work(void *argument)
{
    worker *w = argument;
    float probabilities[IMAGES * CLASSES];
    for (int i = 0; !w->stop && w->status == RECOLLECT_OK; i++) {
        recollect_outputs outputs = {.size = sizeof outputs, .top = CLASSES, .probabilities = probabilities};
        w->status = predict(w->model, probabilities);
        if (w->status == RECOLLECT_OK)
            w->status = recollect_predictor_images(w->predictor, &data.images, &outputs);
        if (w->status == RECOLLECT_OK)
            w->status = recollect_model_set(w->model, "epochs", i % 2 == 0 ? "3" : "4");
        if (w->status == RECOLLECT_OK && i % 16 == 0)
            w->status = lesson(w->context);
        atomic_fetch_add(&w->rounds, 1);
    }
    return NULL;
}

static void children_of_a_parent_at_work(void **state)
{
    (void)state;
    if (LONE_PARENT)
        skip();
    worker w = {.context = open_context(THREADS)};
    pthread_t thread;
    assert_non_null(w.context);
    assert_int_equal(recollect_model_load(w.context, path, &w.model), RECOLLECT_OK);
    assert_int_equal(recollect_predictor_create(w.model, THREADS, &w.predictor), RECOLLECT_OK);
    assert_int_equal(pthread_create(&thread, NULL, work, &w), 0);
    for (int i = 0; i < TIMES; i++)
        fork_and_check(w.context, w.model, w.predictor, SIZE_MAX);
    w.stop = true;
    assert_int_equal(pthread_join(thread, NULL), 0);
    if (w.status != RECOLLECT_OK)
        fail_msg("the parent's thread ended after %d rounds with status %d", w.rounds, w.status);
    print_message("%d rounds of work meanwhile\n", w.rounds);
    recollect_predictor_destroy(&w.predictor);
    recollect_model_destroy(&w.model);
    recollect_context_destroy(&w.context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(children_of_an_idle_parent),
        cmocka_unit_test(children_of_a_parent_at_work),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
