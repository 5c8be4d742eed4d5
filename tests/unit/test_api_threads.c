/* Two threads, each with a context and a model of its own, learn side by side: with the bits of one that is alone. And
 * one that asks for predictors while another one teaches the model. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

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

/* ---- predictors of a model that learns --------------------------------------------------------------------------- */

typedef struct lesson {
    const api_data *data;
    const recollect_model *model;
    pthread_t asking;
    bool asks;
    atomic_bool over;
    atomic_int refused; /* predictors */
} lesson;

static void *ask(void *user)
{
    lesson *l = user;
    while (!atomic_load(&l->over)) {
        recollect_predictor *predictor;
        recollect_status status = recollect_predictor_create(l->model, 1, &predictor);
        if (status != RECOLLECT_OK)
            REFUSED(status, "the model is learning");
        atomic_fetch_add(&l->refused, status != RECOLLECT_OK);
        recollect_predictor_destroy(&predictor);
    }
    return NULL;
}

/* The lesson has begun with the first image that it reads. It goes on once the other thread asks. */
static recollect_status read_and_ask(void *user, int index, uint8_t *pixels)
{
    lesson *l = user;
    if (!l->asks)
        assert_int_equal(pthread_create(&l->asking, NULL, ask, l), 0);
    l->asks = true;
    while (atomic_load(&l->refused) == 0)
        sched_yield();
    memcpy(pixels, l->data->pixels + (size_t)index * API_IMAGE, API_IMAGE);
    return RECOLLECT_OK;
}

/* They look at nothing that the lesson changes: the thread sanitizer would tell. */
static void a_model_learns_while_predictors_are_asked_for(void **state)
{
    (void)state;
    api_data data, more;
    recollect_context *context;
    recollect_model *model;
    api_data_make(&data, 0, 2, 8, 1);
    api_data_make(&more, 2, 2, 8, 1);
    SUCCEEDS(recollect_context_create(NULL, &context));
    SUCCEEDS(recollect_model_create(context, &model));
    api_set_quick(model, 3);
    SUCCEEDS(recollect_learn(model, &data.images, data.labels, data.names, 2, NULL));
    lesson l = {.data = &more, .model = model};
    const recollect_stream stream = {.size = sizeof stream,
                                     .count = more.images.count,
                                     .height = API_SIZE,
                                     .width = API_SIZE,
                                     .channels = 1,
                                     .labels = more.labels,
                                     .read = read_and_ask,
                                     .user = &l};
    SUCCEEDS(recollect_learn_stream(model, &stream, more.names, 2, NULL));
    atomic_store(&l.over, true);
    assert_int_equal(pthread_join(l.asking, NULL), 0);
    assert_int_equal(recollect_model_classes(model), 4);
    recollect_model_destroy(&model);
    recollect_context_destroy(&context);
    api_data_free(&data);
    api_data_free(&more);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contexts_work_side_by_side),
        cmocka_unit_test(a_model_learns_while_predictors_are_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
