/* Two threads, each with a context and a model of its own, learn side by side: with the bits of one that is alone. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/api_checks.h"
#include "support/api_data.h"

enum { IMAGES = 3 * 25 };

/* What each of them does. */
typedef struct worker {
    const api_data *data;
    float probabilities[IMAGES * 2];
} worker;

static void *work(void *user)
{
    worker *w = user;
    const api_data *data = w->data;
    recollect_settings settings;
    recollect_context *context;
    recollect_model *model;
    recollect_settings_default(&settings, sizeof settings);
    settings.threads = 1;
    SUCCEEDS(recollect_context_create(&settings, &context));
    SUCCEEDS(recollect_model_create(context, &model));
    api_set_quick(model, 3);
    SUCCEEDS(recollect_learn(model, &data->images, data->labels, data->names, data->classes, NULL));
    SUCCEEDS(recollect_predict(model, &data->images, 2, NULL, w->probabilities, NULL));
    recollect_model_destroy(&model);
    recollect_context_destroy(&context);
    return NULL;
}

static void contexts_work_side_by_side(void **state)
{
    (void)state;
    api_data data;
    api_data_make(&data, 0, 3, IMAGES / 3, 1);
    worker alone = {.data = &data}, side = {.data = &data}, other_side = {.data = &data};
    work(&alone);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, work, &side), 0);
    work(&other_side);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_memory_equal(alone.probabilities, side.probabilities, sizeof alone.probabilities);
    assert_memory_equal(alone.probabilities, other_side.probabilities, sizeof alone.probabilities);
    api_data_free(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contexts_work_side_by_side),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
