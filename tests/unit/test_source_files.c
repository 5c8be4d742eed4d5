/* What sources of replay put into model files and take out of them, and how they describe it. The file is one of the
 * test's own: it keeps what it is given, and its n-th call can fail. */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "support/cpu_backend.h"
#include "support/learning.h"
#include "support/succeeds.h"

enum { IMAGE = LEARNING_SIZE * LEARNING_SIZE * LEARNING_CHANNELS, CAPACITY = 5, CLASSES = 3, ROOM = CAPACITY * IMAGE };

/* ---- a file --------------------------------------------------------------------------------------------------- */

typedef struct paper {
    rc_source_file table; /* first: the source's view */
    bool loads;
    int calls, fails_at;
    char log[256]; /* names of what was asked for, in their order */
    int64_t rows;  /* of the images; -1: there are none */
    double offered;
    uint8_t images[ROOM];
    int32_t labels[CAPACITY];
} paper;

static rc_status call(rc_source_file *file, const char *what, const char *name)
{
    paper *p = (paper *)file;
    size_t used = strlen(p->log);
    snprintf(p->log + used, sizeof p->log - used, "%s %s; ", what, name);
    return ++p->calls == p->fails_at ? rc_fail(RC_IO, "call %d", p->calls) : RC_OK;
}

static rc_status file_model(rc_source_file *file, const char *prefix, const rc_model *model)
{
    assert_non_null(model->param);
    return call(file, "model", prefix);
}

/* The array's shape is what the rows say, and images have bytes, labels whole numbers. */
static size_t array_bytes(const paper *p, const rc_source_array *array)
{
    bool images = strcmp(array->name, "buffer.images") == 0;
    assert_true(images || strcmp(array->name, "buffer.labels") == 0);
    assert_int_equal(array->whole, !images);
    assert_int_equal(array->dims, images ? 4 : 1);
    assert_int_equal(array->shape[0], p->rows);
    for (int i = 1; i < 4 && images; i++)
        assert_int_equal(array->shape[i], i < 3 ? LEARNING_SIZE : LEARNING_CHANNELS);
    return (size_t)array->shape[0] * (images ? IMAGE : sizeof(int32_t));
}

static rc_status file_array(rc_source_file *file, const rc_source_array *array)
{
    paper *p = (paper *)file;
    void *kept = array->whole ? (void *)p->labels : p->images;
    if (!p->loads && !array->whole)
        p->rows = array->shape[0]; /* and the labels' rows must be as many */
    size_t bytes = array_bytes(p, array);
    RC_TRY(call(file, "array", array->name));
    memcpy(p->loads ? array->values : kept, p->loads ? kept : array->values, bytes);
    return RC_OK;
}

static rc_status file_number(rc_source_file *file, const char *key, double *value)
{
    paper *p = (paper *)file;
    RC_TRY(call(file, "number", key));
    *(p->loads ? value : &p->offered) = p->loads ? p->offered : *value;
    return RC_OK;
}

static rc_status file_find_net(rc_source_file *file, const char *prefix, const rc_net *net)
{
    char what[64];
    snprintf(what, sizeof what, "net of %d inputs", net->c);
    return call(file, what, prefix);
}

static rc_status file_find_array(rc_source_file *file, const rc_source_array *array)
{
    array_bytes((const paper *)file, array);
    return call(file, "find", array->name);
}

static int64_t file_find_rows(rc_source_file *file, const char *name, int dims)
{
    assert_string_equal(name, "buffer.images");
    assert_int_equal(dims, 4);
    return ((const paper *)file)->rows;
}

static const rc_source_file table = {.model = file_model,
                                     .array = file_array,
                                     .number = file_number,
                                     .find_net = file_find_net,
                                     .find_array = file_find_array,
                                     .find_rows = file_find_rows};

/* ---- the buffer ----------------------------------------------------------------------------------------------- */

static rc_settings settings(void)
{
    rc_settings s = learning_settings();
    s.buffer_size = CAPACITY;
    return s;
}

/* A learner of three classes whose buffer is full, and the file that it saves. */
static paper *save(rc_learner *l)
{
    rc_settings s = settings();
    learning_create(l, be, "er", &s);
    learning_teach(l, 0, CLASSES, 4, &learning_no_hooks);
    rc_learner_end_task(l);
    assert_int_equal(l->source->images.held, CAPACITY);
    paper *p = rc_alloc_zeroed(NULL, 1, sizeof *p);
    assert_non_null(p);
    p->table = table;
    p->rows = -1;
    SUCCEEDS(rc_source_buffer.save(l->source, l, &p->table));
    return p;
}

/* Loads into a new object, which is destroyed; `held` of it, and how many slots it has memory for. */
static rc_status load(const rc_learner *l, paper *p, int *held, int *room)
{
    rc_source *fresh;
    SUCCEEDS(rc_source_create(&rc_source_buffer, l, &l->settings, l->method, &fresh));
    assert_int_equal(fresh->images.capacity, CAPACITY);
    p->loads = true;
    p->calls = 0;
    p->log[0] = '\0';
    rc_status status = rc_source_buffer.load(fresh, l, &p->table);
    if (status == RC_OK && fresh->images.held > 0) {
        assert_int_equal(fresh->images.offered, p->offered);
        assert_memory_equal(fresh->images.images, p->images, (size_t)fresh->images.held * IMAGE);
        assert_memory_equal(fresh->images.labels, p->labels, (size_t)fresh->images.held * sizeof(int32_t));
    }
    *held = fresh->images.held;
    *room = fresh->images.room;
    rc_source_destroy(fresh);
    return status;
}

static void a_buffer_is_saved_and_loaded(void **state)
{
    (void)state;
    rc_learner l;
    paper *p = save(&l);
    const rc_image_buffer *b = &l.source->images;
    int held, room;
    assert_string_equal(p->log, "array buffer.images; array buffer.labels; number buffer_offered; ");
    assert_int_equal(p->rows, CAPACITY);
    assert_int_equal(p->offered, b->offered);
    assert_true(b->offered > CAPACITY);
    assert_memory_equal(p->images, b->images, ROOM);
    assert_memory_equal(p->labels, b->labels, CAPACITY * sizeof(int32_t));
    SUCCEEDS(load(&l, p, &held, &room));
    assert_int_equal(held, CAPACITY);
    assert_string_equal(p->log, "number buffer_offered; find buffer.images; find buffer.labels; array buffer.images; "
                                "array buffer.labels; ");
    p->rows = -1; /* a model that holds none */
    SUCCEEDS(load(&l, p, &held, &room));
    assert_int_equal(held, 0);
    assert_string_equal(p->log, "");
    rc_free(NULL, p);
    rc_learner_destroy(&l);
}

/* None, one, or fewer than there is room for. */
static void a_part_of_a_buffer_is_saved(void **state)
{
    (void)state;
    rc_learner l;
    paper *p = save(&l);
    rc_image_buffer *b = &l.source->images;
    int held, room;
    for (int count = CAPACITY; count >= 0; count--) {
        b->held = count;
        p->loads = false;
        p->rows = -1;
        SUCCEEDS(rc_source_buffer.save(l.source, &l, &p->table));
        assert_int_equal(p->rows, count > 0 ? count : -1);
        SUCCEEDS(load(&l, p, &held, &room));
        assert_int_equal(held, count);
        assert_int_equal(room, count);
    }
    rc_free(NULL, p);
    rc_learner_destroy(&l);
}

static void every_failure_of_a_file_is_told(void **state)
{
    (void)state;
    rc_learner l;
    paper *p = save(&l);
    int held, room;
    for (int i = 1; i <= 3; i++) {
        p->loads = false;
        p->calls = 0;
        p->fails_at = i;
        assert_int_equal(rc_source_buffer.save(l.source, &l, &p->table), RC_IO);
        assert_int_equal(p->calls, i);
    }
    for (int i = 1; i <= 5; i++) {
        p->fails_at = i;
        assert_int_equal(load(&l, p, &held, &room), RC_IO);
        assert_int_equal(p->calls, i);
        assert_int_equal(held, 0);
        assert_int_equal(room, i > 3 ? CAPACITY : 0); /* what is not there gets no memory */
    }
    rc_free(NULL, p);
    rc_learner_destroy(&l);
}

static void expect_refused(const rc_learner *l, paper *p, const char *message)
{
    int held, room;
    assert_int_equal(load(l, p, &held, &room), RC_FORMAT);
    assert_string_equal(rc_message(), message);
    assert_int_equal(held, 0);
}

static void a_buffer_that_lies_is_refused(void **state)
{
    (void)state;
    rc_learner l;
    paper *p = save(&l);
    int held, room;
    p->rows = 0;
    expect_refused(&l, p, "the buffer holds 0 images, expected 1 to 5");
    p->rows = CAPACITY + 1;
    expect_refused(&l, p, "the buffer holds 6 images, expected 1 to 5");
    p->rows = 4;
    p->offered = 4;
    SUCCEEDS(load(&l, p, &held, &room));
    p->offered = (double)UINT32_MAX;
    SUCCEEDS(load(&l, p, &held, &room));
    p->offered = 3;
    expect_refused(&l, p, "3 images were offered to a buffer that holds 4, expected as many or more");
    p->offered = 4.5;
    expect_refused(&l, p, "4.5 images were offered to a buffer that holds 4, expected as many or more");
    p->offered = (double)UINT32_MAX + 1;
    expect_refused(&l, p, "4294967296 images were offered to a buffer that holds 4, expected as many or more");
    p->offered = 9;
    memcpy(p->labels, (int32_t[]){0, 1, CLASSES - 1, 0}, 4 * sizeof(int32_t));
    SUCCEEDS(load(&l, p, &held, &room));
    p->labels[0] = -1;
    expect_refused(&l, p, "image 0 of the buffer is of class -1, but there are 3");
    p->labels[0] = 0;
    p->labels[3] = CLASSES;
    expect_refused(&l, p, "image 3 of the buffer is of class 3, but there are 3");
    rc_free(NULL, p);
    rc_learner_destroy(&l);
}

/* Where there is no memory for what the file has, the caller is told, and nothing is kept. */
static void memory_may_run_out(void **state)
{
    (void)state;
    rc_learner l;
    paper *p = save(&l);
    rc_source *fresh;
    SUCCEEDS(rc_source_create(&rc_source_buffer, &l, &l.settings, l.method, &fresh));
    p->loads = true;
    rc_memory_set_budget(rc_bytes_allocated() + CAPACITY);
    assert_int_equal(rc_source_buffer.load(fresh, &l, &p->table), RC_OUT_OF_MEMORY);
    assert_int_equal(rc_source_generative.check_file(&l.settings, &l.augment, &p->table), RC_OUT_OF_MEMORY);
    rc_memory_set_budget(SIZE_MAX);
    assert_int_equal(fresh->images.held, 0);
    size_t before = rc_bytes_allocated();
    SUCCEEDS(rc_source_generative.check_file(&l.settings, &l.augment, &p->table));
    assert_int_equal(rc_bytes_allocated(), before);
    rc_source_destroy(fresh);
    rc_free(NULL, p);
    rc_learner_destroy(&l);
}

/* A source that was configured again has what it had; a copy is its own. */
static void a_buffer_lives_on(void **state)
{
    (void)state;
    rc_learner l;
    paper *p = save(&l);
    rc_image_buffer *b = &l.source->images;
    rc_source *copy;
    char text[128];
    uint64_t offered = b->offered;
    SUCCEEDS(rc_source_buffer.configure(l.source, &l, &l.settings, l.method));
    SUCCEEDS(rc_learner_set_method(&l, l.method));
    b = &l.source->images;
    assert_int_equal(b->held, CAPACITY);
    SUCCEEDS(rc_source_clone(&l, &copy));
    memset(b->images, 0xA5, ROOM);
    assert_int_equal(copy->images.held, CAPACITY);
    assert_int_equal(copy->images.offered, offered);
    assert_memory_equal(copy->images.images, p->images, ROOM);
    b->held = 2;
    b->task_offered = 77;
    rc_source_buffer.describe(l.source, text, sizeof text);
    char expected[128];
    snprintf(expected, sizeof expected, "2 images and their labels, of the %llu that were shown",
             (unsigned long long)offered);
    assert_string_equal(text, expected);
    rc_source_buffer.describe(l.source, text, 9);
    assert_string_equal(text, "2 images");
    rc_method row = *l.method; /* a row with a size of its own */
    row.buffer_size = 1;
    assert_int_equal(rc_held_images(&row, &l.settings), CAPACITY);
    l.settings.buffer_size = 0; /* the setting says nothing */
    assert_int_equal(rc_held_images(&row, &l.settings), 1);
    assert_true(row.replay->replays && row.replay->replays_first);
    rc_source_destroy(copy);
    rc_free(NULL, p);
    rc_learner_destroy(&l);
}

/* The pool of a task has the stored images behind the task's own, also where there is one only. */
static void a_single_image_is_replayed(void **state)
{
    (void)state;
    rc_settings s = settings();
    rc_learner l;
    int32_t label;
    uint8_t image[IMAGE];
    s.buffer_size = 1;
    learning_create(&l, be, "er", &s);
    learning_teach(&l, 0, CLASSES, 4, &learning_no_hooks);
    rc_learner_end_task(&l);
    learning_begin(&l, 1, 2, 4);
    be->read_bytes(be, &label, l.data.labels + l.images, sizeof label);
    be->read_images(be, image, l.data.images, (size_t)l.images * IMAGE, IMAGE);
    assert_int_equal(label, l.source->images.labels[0]);
    assert_memory_equal(image, l.source->images.images, IMAGE);
    rc_learner_destroy(&l);
}

/* After a task nothing of it is left, whether it was learnt or not. */
static void nothing_of_a_task_stays(void **state)
{
    (void)state;
    for (int learnt = 0; learnt < 2; learnt++) {
        rc_learner l;
        paper *p = save(&l);
        if (learnt)
            learning_teach(&l, 1, 2, 4, &learning_no_hooks);
        else
            learning_begin(&l, 1, 2, 4);
        assert_non_null(l.source->images.order);
        rc_learner_end_task(&l);
        assert_null(l.source->images.order);
        assert_null(l.source->images.scratch);
        rc_free(NULL, p);
        rc_learner_destroy(&l);
    }
}

/* ---- an autoencoder ------------------------------------------------------------------------------------------- */

static void an_autoencoder_is_two_models(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    rc_learner l;
    char text[128];
    paper *p = rc_alloc_zeroed(NULL, 1, sizeof *p);
    learning_create(&l, be, "dgr", &s);
    const rc_source_kind *kind = l.source->kind;
    for (int fails = 0; fails <= 2; fails++) {
        *p = (paper){.table = table, .fails_at = fails};
        assert_int_equal(kind->save(l.source, &l, &p->table), fails > 0 ? RC_IO : RC_OK);
        assert_int_equal(p->calls, fails > 0 ? fails : 2);
        assert_string_equal(p->log, fails == 1 ? "model encoder; " : "model encoder; model decoder; ");
        *p = (paper){.table = table, .fails_at = fails};
        assert_int_equal(kind->load(l.source, &l, &p->table), fails > 0 ? RC_IO : RC_OK);
        assert_string_equal(p->log, fails == 1 ? "model encoder; " : "model encoder; model decoder; ");
        *p = (paper){.table = table, .fails_at = fails};
        assert_int_equal(kind->check_file(&s, &l.augment, &p->table), fails > 0 ? RC_IO : RC_OK);
        char first[64], both[128];
        snprintf(first, sizeof first, "net of %d inputs encoder; ", LEARNING_CHANNELS);
        snprintf(both, sizeof both, "%snet of %d inputs decoder; ", first, learning_vae(&l)->decoder.net->c);
        assert_string_equal(p->log, fails == 1 ? first : both);
    }
    kind->describe(l.source, text, sizeof text);
    assert_string_equal(text, "an autoencoder that makes images, no image itself");
    const rc_vae before = *learning_vae(&l);
    SUCCEEDS(kind->configure(l.source, &l, &s, l.method)); /* it is there */
    assert_ptr_equal(learning_vae(&l)->net, before.net);
    rc_free(NULL, p);
    rc_learner_destroy(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_buffer_is_saved_and_loaded),
        cmocka_unit_test(a_part_of_a_buffer_is_saved),
        cmocka_unit_test(every_failure_of_a_file_is_told),
        cmocka_unit_test(a_buffer_that_lies_is_refused),
        cmocka_unit_test(memory_may_run_out),
        cmocka_unit_test(a_buffer_lives_on),
        cmocka_unit_test(nothing_of_a_task_stays),
        cmocka_unit_test(a_single_image_is_replayed),
        cmocka_unit_test(an_autoencoder_is_two_models),
    };
    return cmocka_run_group_tests(tests, open_backend, close_backend);
}
