/* The public interface: learning from a stream of images, and holding images out. */
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

#include "base/memory.h"
#include "data/hold_out.h"
#include "support/api_checks.h"
#include "support/api_data.h"

enum { CLASSES = 2, PER_CLASS = 10, IMAGES = CLASSES * PER_CLASS };

static api_data first, second;
static recollect_context *context;
static int cancel, asked_for_cancel;

static int on_question(void *user)
{
    (void)user;
    asked_for_cancel++;
    return cancel;
}

static int set_up(void **state)
{
    (void)state;
    recollect_settings settings;
    recollect_settings_default(&settings, sizeof settings);
    settings.threads = 1;
    settings.cancelled = on_question;
    SUCCEEDS(recollect_context_create(&settings, &context));
    api_data_make(&first, 0, CLASSES, PER_CLASS, 1);
    api_data_make(&second, CLASSES, 1, PER_CLASS, 2);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    recollect_context_destroy(&context);
    api_data_free(&first);
    api_data_free(&second);
    return rc_bytes_allocated() == 0 ? 0 : -1;
}

static recollect_model *quick_model(void)
{
    recollect_model *model;
    SUCCEEDS(recollect_model_create(context, &model));
    api_set_quick(model, 3);
    return model;
}

/* ---- a stream -------------------------------------------------------------------------------------------------- */

typedef struct source {
    const api_data *data;
    int calls, rounds, last;
    int fails_at; /* this call, counted from 1; 0: none */
    recollect_status failure;
} source;

static recollect_status read_image(void *user, int index, uint8_t *pixels)
{
    source *s = user;
    s->calls++;
    if (index <= s->last)
        s->rounds++;
    else if (s->rounds == 0)
        s->rounds = 1;
    s->last = index;
    if (s->calls == s->fails_at)
        return s->failure;
    memcpy(pixels, s->data->pixels + (size_t)index * API_IMAGE, API_IMAGE);
    return RECOLLECT_OK;
}

static recollect_stream stream_of(source *s, const api_data *data)
{
    *s = (source){.data = data, .last = -1};
    return (recollect_stream){.size = sizeof(recollect_stream),
                              .count = data->images.count,
                              .height = API_SIZE,
                              .width = API_SIZE,
                              .channels = 1,
                              .labels = data->labels,
                              .read = read_image,
                              .user = s};
}

static recollect_status learn_stream(recollect_model *model, source *s, const api_data *data,
                                     recollect_learn_result *result)
{
    recollect_stream stream = stream_of(s, data);
    return recollect_learn_stream(model, &stream, data->names, data->classes, result);
}

static void learn(recollect_model *model, const api_data *data, recollect_learn_result *result)
{
    SUCCEEDS(recollect_learn(model, &data->images, data->labels, data->names, data->classes, result));
}

/* Are they the same to the last bit? Or all their tensors, which lie behind a header (its length comes first)? */
static void assert_same_from(const recollect_model *a, const recollect_model *b, int tensors)
{
    void *bytes[2];
    size_t size[2];
    uint64_t header[2] = {0, 0};
    SUCCEEDS(recollect_model_save_memory(a, &bytes[0], &size[0]));
    SUCCEEDS(recollect_model_save_memory(b, &bytes[1], &size[1]));
    for (int i = 0; i < 2 && tensors; i++) {
        memcpy(&header[i], bytes[i], sizeof header[i]);
        header[i] += sizeof header[i];
        assert_true(header[i] < size[i]);
    }
    assert_int_equal(size[0] - header[0], size[1] - header[1]);
    assert_memory_equal((const char *)bytes[0] + header[0], (const char *)bytes[1] + header[1], size[0] - header[0]);
    recollect_free(bytes[0]);
    recollect_free(bytes[1]);
}

static void assert_same(const recollect_model *a, const recollect_model *b)
{
    assert_same_from(a, b, 0);
}

static void a_stream_teaches_what_memory_does(void **state)
{
    (void)state;
    recollect_model *memory = quick_model(), *streamed = quick_model();
    recollect_learn_result result = {.size = sizeof result};
    source s;
    learn(memory, &first, NULL);
    SUCCEEDS(learn_stream(streamed, &s, &first, &result));
    assert_true(result.images == IMAGES && result.held_out == 0 && isnan(result.accuracy));
    assert_true(s.calls == 2 * IMAGES && s.rounds == 2); /* to measure, and to copy */
    assert_same(memory, streamed);
    learn(memory, &second, NULL);
    SUCCEEDS(learn_stream(streamed, &s, &second, NULL));
    assert_true(s.calls == PER_CLASS && s.rounds == 1);
    assert_same(memory, streamed);
    recollect_model_destroy(&memory);
    recollect_model_destroy(&streamed);
}

static void a_stream_that_fails_leaves_the_model(void **state)
{
    (void)state;
    recollect_model *model = quick_model(), *before = quick_model();
    source s;
    learn(model, &first, NULL);
    learn(before, &first, NULL);
    static const struct {
        recollect_status returned, expected;
        const char *says;
    } cases[] = {{RECOLLECT_IO, RECOLLECT_IO, "has no image 4: input/output error"},
                 {RECOLLECT_CANCELLED, RECOLLECT_CANCELLED, "cancelled"},
                 {(recollect_status)99, RECOLLECT_INVALID_ARGUMENT, "returned 99 for image 4"},
                 {(recollect_status)-1, RECOLLECT_INVALID_ARGUMENT, "returned -1 for image 4"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        recollect_stream stream = stream_of(&s, &second);
        s.fails_at = 5;
        s.failure = cases[i].returned;
        assert_int_equal(recollect_learn_stream(model, &stream, second.names, 1, NULL), cases[i].expected);
        assert_non_null(strstr(recollect_last_message(), cases[i].says));
        assert_int_equal(s.calls, 5);
        assert_same(model, before);
    }
    /* A first model: in both rounds. */
    recollect_model *empty = quick_model();
    for (int at = 3; at < 2 * IMAGES; at += IMAGES) {
        recollect_stream stream = stream_of(&s, &first);
        s.fails_at = at;
        s.failure = RECOLLECT_IO;
        assert_int_equal(recollect_learn_stream(empty, &stream, first.names, CLASSES, NULL), RECOLLECT_IO);
        assert_true(s.calls == at && recollect_model_classes(empty) == 0);
    }
    /* The caller stops it while images are read. */
    cancel = 1;
    asked_for_cancel = 0;
    assert_int_equal(learn_stream(empty, &s, &first, NULL), RECOLLECT_CANCELLED);
    assert_true(asked_for_cancel == 1 && s.calls == IMAGES);
    assert_non_null(strstr(recollect_last_message(), "stopped after 20 of 20 images were read"));
    cancel = 0;
    recollect_model_destroy(&empty);
    recollect_model_destroy(&model);
    recollect_model_destroy(&before);
}

/* ---- holding out ----------------------------------------------------------------------------------------------- */

/* The images of `data` that are held out, or the others. */
static void part_of(const api_data *data, const int8_t *held_out, int8_t part, api_data *to)
{
    int count = 0;
    *to = *data;
    to->pixels = malloc((size_t)data->images.count * API_IMAGE);
    to->labels = malloc((size_t)data->images.count * sizeof *to->labels);
    assert_true(to->pixels != NULL && to->labels != NULL);
    for (int i = 0; i < data->images.count; i++)
        if (held_out[i] == part) {
            memcpy(to->pixels + (size_t)count * API_IMAGE, data->pixels + (size_t)i * API_IMAGE, API_IMAGE);
            to->labels[count++] = data->labels[i];
        }
    to->images = (recollect_images){to->pixels, count, API_SIZE, API_SIZE, 1};
}

static void held_out_images_are_scored_and_not_learnt(void **state)
{
    (void)state;
    int8_t held_out[IMAGES] = {0};
    api_data trained, scored;
    recollect_model *alone = quick_model(), *memory = quick_model(), *streamed = quick_model();
    recollect_learn_result a = {.size = sizeof a}, b = a;
    recollect_evaluation *e;
    source s;
    assert_int_equal(rc_hold_out(first.labels, IMAGES, CLASSES, 0.34, 7, held_out), RECOLLECT_OK);
    part_of(&first, held_out, 0, &trained);
    part_of(&first, held_out, 1, &scored);
    assert_true(trained.images.count == 14 && scored.images.count == 6);
    recollect_model *models[] = {alone, memory, streamed};
    for (int i = 0; i < 3; i++)
        SUCCEEDS(recollect_model_set(models[i], "seed", "7"));
    learn(alone, &trained, NULL);
    SUCCEEDS(recollect_model_set(memory, "hold_out", "0.34"));
    SUCCEEDS(recollect_model_set(streamed, "hold_out", "0.34"));
    learn(memory, &first, &a);
    SUCCEEDS(learn_stream(streamed, &s, &first, &b));
    assert_true(s.calls == 14 + IMAGES && s.rounds == 2); /* held-out images are not measured */
    assert_same(memory, streamed);
    assert_same_from(alone, memory, 1); /* the header says how many were held out */
    SUCCEEDS(recollect_evaluate(alone, &scored.images, scored.labels, &e));
    assert_true(a.images == 14 && a.held_out == 6 && a.accuracy == e->accuracy);
    assert_true(b.images == 14 && b.held_out == 6 && b.accuracy == e->accuracy);
    recollect_evaluation_destroy(&e);
    for (int i = 0; i < 3; i++)
        recollect_model_destroy(&models[i]);
    api_data_free(&trained);
    api_data_free(&scored);
}

static char folder[] = "/tmp/recollect-test-XXXXXX";

/* folder/NAME/0.pgm to 4.pgm of each class; or takes them away. */
static void make_files(int make)
{
    char path[128];
    for (int k = 0; k < CLASSES; k++) {
        snprintf(path, sizeof path, "%s/%s", folder, first.names[k]);
        assert_true(!make || mkdir(path, 0700) == 0);
        for (int i = 0; i < 5; i++) {
            snprintf(path, sizeof path, "%s/%s/%d.pgm", folder, first.names[k], i);
            FILE *file = make ? fopen(path, "wb") : NULL;
            assert_true(!make || file != NULL);
            if (make) {
                fprintf(file, "P5 %d %d 255\n", API_SIZE, API_SIZE);
                fwrite(first.pixels + (size_t)(i * CLASSES + k) * API_IMAGE, 1, API_IMAGE, file);
                assert_int_equal(fclose(file), 0);
            } else {
                assert_int_equal(remove(path), 0);
            }
        }
        snprintf(path, sizeof path, "%s/%s", folder, first.names[k]);
        assert_true(make || rmdir(path) == 0);
    }
}

static void the_option_holds_for_folders(void **state)
{
    (void)state;
    static const struct {
        const char *value;
        int held_out;
    } cases[] = {{"0", 0}, {"0.4", 4}, {"0.999", 8}, {"", 2}};
    assert_non_null(mkdtemp(folder));
    make_files(1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        recollect_model *model = quick_model();
        recollect_learn_result result = {.size = sizeof result};
        SUCCEEDS(recollect_model_set(model, "hold_out", cases[i].value));
        SUCCEEDS(recollect_learn_folder(model, folder, &result));
        assert_int_equal(result.held_out, cases[i].held_out);
        assert_int_equal(result.images, 10 - cases[i].held_out);
        recollect_model_destroy(&model);
    }
    make_files(0);
    assert_int_equal(rmdir(folder), 0);
}

/* ---- arguments ------------------------------------------------------------------------------------------------- */

static void streams_are_checked(void **state)
{
    (void)state;
    recollect_model *model = quick_model();
    source s;
    const recollect_stream good = stream_of(&s, &first);
    recollect_stream bad = good;
    recollect_learn_result small = {.size = 4};
    const char *const *names = first.names;
    REFUSED(recollect_learn_stream(NULL, &good, names, CLASSES, NULL), "model is NULL");
    REFUSED(recollect_learn_stream(model, NULL, names, CLASSES, NULL), "stream is NULL");
    REFUSED(recollect_learn_stream(model, &good, NULL, CLASSES, NULL), "class_names is NULL");
    REFUSED(recollect_learn_stream(model, &good, names, 0, NULL), "classes is 0");
    REFUSED(recollect_learn_stream(model, &good, names, CLASSES, &small), "the result's size is 4");
    bad.size = offsetof(recollect_stream, user);
    REFUSED(recollect_learn_stream(model, &bad, names, CLASSES, NULL), "the stream's size is");
    bad.size = 65537;
    REFUSED(recollect_learn_stream(model, &bad, names, CLASSES, NULL), "the stream's size is 65537");
    bad = good;
    bad.read = NULL;
    REFUSED(recollect_learn_stream(model, &bad, names, CLASSES, NULL), "read is NULL");
    bad = good;
    bad.labels = NULL;
    REFUSED(recollect_learn_stream(model, &bad, names, CLASSES, NULL), "labels is NULL");
    bad = good;
    bad.labels = second.labels;
    bad.count = 1;
    REFUSED(recollect_learn_stream(model, &bad, names, CLASSES, NULL), "has no image to train on");
    bad.count = 0;
    REFUSED(recollect_learn_stream(model, &bad, names, CLASSES, NULL), "count is 0");
    bad = good;
    bad.width = 18;
    REFUSED(recollect_learn_stream(model, &bad, names, CLASSES, NULL), "expected squares");
    bad = good;
    bad.channels = 2;
    REFUSED(recollect_learn_stream(model, &bad, names, CLASSES, NULL), "2 channels");
    learn(model, &first, NULL);
    bad = stream_of(&s, &second);
    bad.height = bad.width = 18;
    REFUSED(recollect_learn_stream(model, &bad, second.names, 1, NULL), "the model takes 16 x 16");
    assert_int_equal(s.calls, 0);
    recollect_model_destroy(&model);
}

static void the_option_is_checked(void **state)
{
    (void)state;
    static const char *const wrong[] = {"1", "-0.1", "some", "0.1x", "nan", "1e9"};
    recollect_model *model = quick_model();
    char text[32];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        REFUSED(recollect_model_set(model, "hold_out", wrong[i]), "expected a part of every class");
    SUCCEEDS(recollect_model_get(model, "hold_out", text, sizeof text));
    assert_string_equal(text, "");
    SUCCEEDS(recollect_model_set(model, "hold_out", "0.25"));
    SUCCEEDS(recollect_model_get(model, "hold_out", text, sizeof text));
    assert_string_equal(text, "0.25");
    recollect_model_destroy(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_teaches_what_memory_does),
        cmocka_unit_test(a_stream_that_fails_leaves_the_model),
        cmocka_unit_test(held_out_images_are_scored_and_not_learnt),
        cmocka_unit_test(the_option_holds_for_folders),
        cmocka_unit_test(streams_are_checked),
        cmocka_unit_test(the_option_is_checked),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
