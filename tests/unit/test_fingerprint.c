/* Which run a file belongs to: everything that decides the bits of a run changes its fingerprint, and nothing else
 * does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "model/fingerprint.h"

enum { SIDE = 3, CLASSES = 4, TRAIN = 5, TEST = 2, IMAGE = SIDE * SIDE };

typedef struct world {
    uint8_t train_images[TRAIN * IMAGE], test_images[TEST * IMAGE];
    int32_t train_labels[TRAIN], test_labels[TEST];
    char name[CLASSES][24];
    char *names[CLASSES];
    int order[CLASSES];
    rc_dataset data;
    rc_task_stream stream;
    rc_config config;
    const char *method;
} world;

static void make_world(world *w)
{
    memset(w, 0, sizeof *w);
    for (int i = 0; i < TRAIN * IMAGE; i++)
        w->train_images[i] = (uint8_t)(i * 7);
    for (int i = 0; i < TEST * IMAGE; i++)
        w->test_images[i] = (uint8_t)(i * 11);
    for (int i = 0; i < TRAIN; i++)
        w->train_labels[i] = i % CLASSES;
    for (int i = 0; i < CLASSES; i++) {
        snprintf(w->name[i], sizeof w->name[i], "class%d", i);
        w->names[i] = w->name[i];
        w->order[i] = i;
    }
    w->data = (rc_dataset){.h = SIDE,
                           .w = SIDE,
                           .c = 1,
                           .classes = CLASSES,
                           .class_name = w->names,
                           .train = {.images = w->train_images, .labels = w->train_labels, .count = TRAIN},
                           .test = {.images = w->test_images, .labels = w->test_labels, .count = TEST}};
    w->stream = (rc_task_stream){.classes = CLASSES, .order = w->order, .tasks = 2, .task_end = {2, CLASSES}};
    w->config = rc_config_default();
    w->method = "cwd";
}

static void of_world(const world *w, char text[RC_FINGERPRINT_SIZE])
{
    char data[RC_HASH_SIZE];
    rc_data_hash(&w->data, data);
    rc_fingerprint(&w->config, data, w->method, &w->stream, text);
}

/* The message of another run says `what` of this change and no more. */
static void assert_differs(const world *changed, const char *what)
{
    static world plain;
    char expected[RC_FINGERPRINT_SIZE], found[RC_FINGERPRINT_SIZE], message[256];
    make_world(&plain);
    of_world(&plain, expected);
    of_world(changed, found);
    assert_string_not_equal(found, expected);
    snprintf(message, sizeof message, "file belongs to another run, with %s: advice", what);
    assert_int_equal(rc_fingerprint_check("file", found, expected, NULL, NULL, "advice"), RC_INVALID_ARGUMENT);
    assert_string_equal(rc_message(), message);
}

/* Folders of runs hold these numbers: they stay as they are. */
static void the_hash_of_data_stays_as_it_is(void **state)
{
    (void)state;
    static world w;
    char text[RC_HASH_SIZE];
    make_world(&w);
    w.data.h = 1;
    w.data.w = 2;
    w.data.c = 3;
    rc_data_hash(&w.data, text);
    assert_string_equal(text, "105c1551b9ee48cf");
    rc_hash_text(rc_hash_bytes(RC_HASH_START, "nine bytes", 9), text);
    assert_string_equal(text, "ddc66c211ea14194");
}

static void every_part_of_the_data_counts(void **state)
{
    (void)state;
    static world w;
    for (int i = 0; i < TRAIN * IMAGE; i++) {
        make_world(&w);
        w.train_images[i] ^= 0x80;
        assert_differs(&w, "other data");
        w.train_images[(i + 8) % (TRAIN * IMAGE)] ^= 0x80; /* two upper bits do not cancel */
        assert_differs(&w, "other data");
    }
    for (int i = 0; i < TEST * IMAGE; i++) {
        make_world(&w);
        w.test_images[i]++;
        assert_differs(&w, "other data");
    }
    for (int i = 0; i < TRAIN + TEST; i++) {
        make_world(&w);
        (*(i < TRAIN ? &w.train_labels[i] : &w.test_labels[i - TRAIN]))++;
        assert_differs(&w, "other data");
    }
    for (int i = 0; i < CLASSES; i++) {
        make_world(&w);
        w.name[i][0] = 'k';
        assert_differs(&w, "other data");
    }
    make_world(&w);
    w.names[0] = "class0c"; /* where one name ends and the next begins */
    w.names[1] = "lass1";
    assert_differs(&w, "other data");
    int *const shape[] = {&w.data.h, &w.data.w, &w.data.c, &w.data.train.count, &w.data.test.count};
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++) {
        make_world(&w);
        *shape[i] = *shape[i] == 1 ? 1 : *shape[i] - 1;
        if (shape[i] != &w.data.c)
            assert_differs(&w, "other data");
    }
}

static void order_tasks_and_method_count(void **state)
{
    (void)state;
    static world w;
    make_world(&w);
    w.order[0] = 1;
    w.order[1] = 0;
    assert_differs(&w, "another order of classes or tasks");
    make_world(&w);
    w.stream.task_end[0] = 3;
    assert_differs(&w, "another order of classes or tasks");
    make_world(&w);
    w.method = "first-task";
    assert_differs(&w, "another method");
    w.stream.task_end[0] = 3;
    w.train_images[0]++;
    w.config.settings.batch++;
    assert_differs(&w, "another method, other settings, other data, another order of classes or tasks");
}

static void every_setting_counts_but_where_the_data_lies(void **state)
{
    (void)state;
    static world w;
    rc_config_item item;
    int settings = 0;
    for (int i = 0; rc_config_item_at(i, &item); i++, settings++) {
        static const char *const values[] = {"moved",   "7",      "true",  "false",    "0.7",
                                             "3, 5",    "first",  "paper", "resnet18", "generator-small",
                                             "bicubic", "stream", "dreams"};
        char before[RC_CONFIG_VALUE], after[RC_CONFIG_VALUE];
        make_world(&w);
        assert_int_equal(rc_config_get(&w.config, item.name, before, sizeof before), RC_OK);
        for (size_t k = 0; k < sizeof values / sizeof *values; k++) { /* the first that it takes and has not */
            (void)rc_config_set(&w.config, item.name, values[k]);
            assert_int_equal(rc_config_get(&w.config, item.name, after, sizeof after), RC_OK);
            if (strcmp(before, after) != 0)
                break;
        }
        assert_string_not_equal(before, after);
        if (strcmp(item.name, "data") != 0)
            assert_differs(&w, "other settings");
    }
    assert_true(settings > 60);
    char plain[RC_FINGERPRINT_SIZE], moved[RC_FINGERPRINT_SIZE];
    make_world(&w);
    of_world(&w, plain);
    assert_int_equal(rc_config_set(&w.config, "data", "elsewhere"), RC_OK);
    of_world(&w, moved);
    assert_string_equal(moved, plain);
    assert_int_equal(rc_fingerprint_check("file", moved, plain, NULL, NULL, "advice"), RC_OK);
}

static void what_differs_is_named(void **state)
{
    (void)state;
    static const char text[] = "{\"data\": \"elsewhere\", \"seed\": \"3\", \"batch\": \"9\"}";
    rc_config now = rc_config_default();
    rc_json *config;
    assert_int_equal(rc_config_set(&now, "data", "here") | rc_config_set(&now, "batch", "9"), RC_OK);
    assert_int_equal(rc_json_parse("test", text, sizeof text - 1, &config), RC_OK);
    assert_int_equal(rc_fingerprint_check("file", "settings=1", "settings=2", config, &now, "do"), RC_INVALID_ARGUMENT);
    assert_string_equal(rc_message(),
                        "file belongs to another run, with other settings (seed '3', where this run has '1'): do");
    rc_json_free(config);
    assert_int_equal(rc_fingerprint_check("file", NULL, "settings=2", NULL, NULL, "do"), RC_INVALID_ARGUMENT);
    assert_string_equal(rc_message(), "file does not say which run it belongs to: do");
    assert_int_equal(rc_fingerprint_check("file", "", "", NULL, NULL, "do"), RC_OK);
    assert_int_equal(rc_fingerprint_check("file", "nonsense", "else", NULL, NULL, "do"), RC_INVALID_ARGUMENT);
    assert_string_equal(rc_message(), "file belongs to another run, with another fingerprint: do");
}

/* A seed changes settings and data, too, and is what people can set right. The rest is told beside it. */
static void another_seed_is_told_for_what_it_changes(void **state)
{
    (void)state;
    static const char found[] = "method=cwd settings=1 data=1 model=1 seed=3",
                      other[] = "method=cwd settings=2 data=2 model=1 seed=31",
                      same[] = "method=cwd settings=1 data=2 model=1 seed=3",
                      none[] = "method=cwd settings=1 data=2 model=1";
    assert_int_equal(rc_fingerprint_check("file", found, found, NULL, NULL, "do"), RC_OK);
    assert_int_equal(rc_fingerprint_check("file", found, other, NULL, NULL, "do"), RC_INVALID_ARGUMENT);
    assert_string_equal(rc_message(), "file belongs to another run, with another seed (3, where this run has 31): do");
    static const char much[] = "method=lwf settings=2 data=2 model=2 seed=31";
    assert_int_equal(rc_fingerprint_check("file", found, much, NULL, NULL, "do"), RC_INVALID_ARGUMENT);
    assert_string_equal(rc_message(),
                        "file belongs to another run, with another seed (3, where this run has 31), another "
                        "method, another model: do");
    assert_int_equal(rc_fingerprint_check("file", same, found, NULL, NULL, "do"), RC_INVALID_ARGUMENT);
    assert_string_equal(rc_message(), "file belongs to another run, with other data: do");
    assert_int_equal(rc_fingerprint_check("file", none, found, NULL, NULL, "do"), RC_INVALID_ARGUMENT);
    assert_string_equal(rc_message(), "file belongs to another run, with other data: do");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_hash_of_data_stays_as_it_is),
        cmocka_unit_test(every_part_of_the_data_counts),
        cmocka_unit_test(order_tasks_and_method_count),
        cmocka_unit_test(every_setting_counts_but_where_the_data_lies),
        cmocka_unit_test(what_differs_is_named),
        cmocka_unit_test(another_seed_is_told_for_what_it_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
