/* Destroying what is at work: from inside a callback a handle becomes NULL at once, the call goes on to its end, and
 * what was destroyed is freed just before the call returns. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "support/api_data.h"
#include "support/succeeds.h"

typedef struct world {
    recollect_context *context;
    recollect_model *model, *other;
    bool destroy_model, destroy_other, destroy_context; /* by the next callback */
    int destroyed, after;                               /* callbacks that destroyed something, and later ones */
    bool cancel;                                        /* stop the call thereafter */
} world;

static void destroy(world *w)
{
    bool any = w->destroy_model || w->destroy_other || w->destroy_context;
    size_t before = rc_bytes_allocated();
    w->after += w->destroyed > 0;
    w->destroyed += any;
    if (w->destroy_context)
        recollect_context_destroy(&w->context);
    if (w->destroy_model)
        recollect_model_destroy(&w->model);
    if (w->destroy_other)
        recollect_model_destroy(&w->other);
    if (w->destroy_context)
        assert_null(w->context);
    if (w->destroy_model)
        assert_null(w->model);
    if (w->destroy_other)
        assert_null(w->other);
    assert_int_equal(rc_bytes_allocated(), before); /* nothing goes yet */
    w->destroy_model = w->destroy_other = w->destroy_context = false;
}

static void on_progress(void *user, const recollect_progress *progress)
{
    (void)progress;
    destroy(user);
}

static void on_log(void *user, recollect_log_level level, const char *text)
{
    (void)level;
    (void)text;
    destroy(user);
}

static int on_question(void *user)
{
    const world *w = user;
    return w->cancel && w->destroyed > 0;
}

static void on_line(void *user, const char *text)
{
    (void)text;
    destroy(user);
}

static api_data data, more;

static int set_up(void **state)
{
    (void)state;
    api_data_make(&data, 0, 2, 16, 1);
    api_data_make(&more, 2, 1, 16, 2);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    api_data_free(&data);
    api_data_free(&more);
    return 0;
}

static recollect_status learn(recollect_model *model, const api_data *from)
{
    return recollect_learn(model, &from->images, from->labels, from->names, from->classes, NULL);
}

/* A context whose progress destroys; with two models that know two classes. */
static void open_world(world *w, bool log)
{
    recollect_settings settings;
    memset(w, 0, sizeof *w);
    recollect_settings_default(&settings, sizeof settings);
    settings.threads = 1;
    settings.progress = on_progress;
    settings.cancelled = on_question;
    settings.log = log ? on_log : NULL;
    settings.user = w;
    SUCCEEDS(recollect_context_create(&settings, &w->context));
    SUCCEEDS(recollect_model_create(w->context, &w->model));
    SUCCEEDS(recollect_model_create(w->context, &w->other));
    api_set_quick(w->model, 4);
    api_set_quick(w->other, 4);
    SUCCEEDS(learn(w->model, &data));
    SUCCEEDS(learn(w->other, &data));
}

static void close_world(world *w)
{
    assert_int_equal(w->destroyed, 1);
    recollect_model_destroy(&w->model);
    recollect_model_destroy(&w->other);
    recollect_context_destroy(&w->context);
    assert_int_equal(rc_bytes_allocated(), 0);
}

/* The model that learns: it learns to the end, and is gone when the call is over. */
static void a_model_is_destroyed_while_it_learns(void **state)
{
    (void)state;
    world w;
    open_world(&w, false);
    w.destroy_model = true;
    size_t before = rc_bytes_allocated();
    SUCCEEDS(learn(w.model, &more));
    assert_true(w.after > 0); /* more callbacks came: it was still at work */
    assert_true(rc_bytes_allocated() < before);
    assert_int_equal(recollect_model_classes(w.other), 2);
    close_world(&w);
}

static void everything_is_destroyed_while_it_learns(void **state)
{
    (void)state;
    world w;
    open_world(&w, false);
    w.destroy_model = w.destroy_other = w.destroy_context = true;
    SUCCEEDS(learn(w.model, &more));
    assert_int_equal(rc_bytes_allocated(), 0); /* the context went with them */
    close_world(&w);
}

/* The context alone: its models keep it, and work on. */
static void a_context_is_destroyed_while_it_works(void **state)
{
    (void)state;
    world w;
    open_world(&w, false);
    w.destroy_context = true;
    SUCCEEDS(learn(w.model, &more));
    assert_null(w.context);
    assert_int_equal(recollect_model_classes(w.model), 3);
    SUCCEEDS(learn(w.other, &more));
    close_world(&w);
}

/* A call that fails frees what was destroyed, too. */
static void a_model_is_destroyed_in_a_call_that_is_cancelled(void **state)
{
    (void)state;
    world w;
    open_world(&w, false);
    w.destroy_model = w.cancel = true;
    assert_int_equal(learn(w.model, &more), RECOLLECT_CANCELLED);
    assert_true(recollect_last_message()[0] != '\0');
    close_world(&w);
}

static void a_model_is_destroyed_while_it_dreams(void **state)
{
    (void)state;
    static uint8_t pixels[API_IMAGE];
    world w;
    int made = -1;
    open_world(&w, false);
    w.destroy_model = true;
    SUCCEEDS(recollect_dream(w.model, 0, 1, pixels, &made));
    assert_true(made >= 0);
    close_world(&w);
}

/* The callback of a description, and a log: in a call with another model. */
static void a_model_is_destroyed_by_other_callbacks(void **state)
{
    (void)state;
    world w;
    open_world(&w, false);
    w.destroy_model = true;
    SUCCEEDS(recollect_describe_model(w.model, 0, on_line, &w));
    close_world(&w);
    open_world(&w, true);
    w.destroyed = w.after = 0;
    w.destroy_other = true;
    SUCCEEDS(learn(w.model, &more));
    assert_int_equal(recollect_model_classes(w.model), 3);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_is_destroyed_while_it_learns),
        cmocka_unit_test(everything_is_destroyed_while_it_learns),
        cmocka_unit_test(a_context_is_destroyed_while_it_works),
        cmocka_unit_test(a_model_is_destroyed_in_a_call_that_is_cancelled),
        cmocka_unit_test(a_model_is_destroyed_while_it_dreams),
        cmocka_unit_test(a_model_is_destroyed_by_other_callbacks),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
