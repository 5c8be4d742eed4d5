/* The images of a run: read as the configuration says, with a part of the training images held out, or fewer test
 * images, and the message of everything that does not go together. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "experiment/run_data.h"
#include "model/fingerprint.h"
#include "support/data_files.h"
#include "support/succeeds.h"

enum { CLASSES = 2, SIDE = 8, PIXELS = SIDE * SIDE * 3 };
static const int train_count[CLASSES] = {3, 5}, test_count[CLASSES] = {2, 3};

/* The red of a picture says which one it is: its class times 50, 100 more for a test image, its number. */
static int red_of(int class, bool test, int number)
{
    return 50 * class + 100 * test + 3 * number + 5;
}

static int enter(void **state)
{
    int failed = data_enter_folder(state);
    for (int test = 0; test < 2; test++)
        for (int k = 0; k < CLASSES; k++)
            for (int i = 0; i < (test ? test_count : train_count)[k]; i++) {
                char path[64];
                snprintf(path, sizeof path, "photos/%s/class-%d/%d.ppm", test ? "test" : "train", k, i);
                data_write_colour(path, SIDE, SIDE, red_of(k, test, i), 10 + 7 * i, 200 - 5 * k);
            }
    return failed;
}

static rc_config config_of(const char *data)
{
    rc_config config = rc_config_default();
    SUCCEEDS(rc_config_set(&config, "data", data));
    return config;
}

static void set(rc_config *config, const char *key, const char *value)
{
    SUCCEEDS(rc_config_set(config, key, value));
}

static rc_status open_data(const rc_config *config, rc_dataset *data)
{
    const rc_watch watch = {0};
    return rc_run_data_open(config, 1, false, &watch, data);
}

/* The split has these pictures, in this order. */
static void expect_split(const rc_split *split, const int (*picture)[3], int count)
{
    assert_int_equal(split->count, count);
    for (int i = 0; i < count; i++) {
        assert_int_equal(split->labels[i], picture[i][0]);
        for (int p = 0; p < PIXELS; p += 3)
            assert_int_equal(split->images[i * PIXELS + p], red_of(picture[i][0], picture[i][1], picture[i][2]));
        assert_int_equal(split->images[i * PIXELS + 1], 10 + 7 * picture[i][2]);
    }
}

/* ---- parts ------------------------------------------------------------------------------------------------------ */

static void the_last_images_of_a_class_are_held_out(void **state)
{
    (void)state;
    static const int all[][3] = {{0, 0, 0}, {0, 0, 1}, {0, 0, 2}, {1, 0, 0},
                                 {1, 0, 1}, {1, 0, 2}, {1, 0, 3}, {1, 0, 4}};
    static const int test[][3] = {{0, 1, 0}, {0, 1, 1}, {1, 1, 0}, {1, 1, 1}, {1, 1, 2}};
    /* 0.3 of 3 and of 5, rounded up: 1 and 2. */
    static const int kept[][3] = {{0, 0, 0}, {0, 0, 1}, {1, 0, 0}, {1, 0, 1}, {1, 0, 2}};
    static const int held[][3] = {{0, 0, 2}, {1, 0, 3}, {1, 0, 4}};
    static const int first[][3] = {{0, 0, 2}, {1, 0, 3}}, few[][3] = {{0, 1, 0}, {0, 1, 1}, {1, 1, 0}, {1, 1, 1}};
    rc_config config = config_of("photos");
    rc_dataset data;
    size_t before = rc_bytes_allocated();
    SUCCEEDS(open_data(&config, &data));
    expect_split(&data.train, all, 8);
    expect_split(&data.test, test, 5);
    assert_string_equal(data.name, "folder");
    rc_dataset_close(&data);
    set(&config, "validation", "0.3");
    SUCCEEDS(open_data(&config, &data));
    expect_split(&data.train, kept, 5);
    expect_split(&data.test, held, 3);
    assert_string_equal(data.name, "folder-validation");
    rc_dataset_close(&data);
    assert_int_equal(rc_bytes_allocated(), before);
    set(&config, "test_per_class", "1");
    SUCCEEDS(open_data(&config, &data));
    expect_split(&data.train, kept, 5);
    expect_split(&data.test, first, 2);
    assert_string_equal(data.name, "folder-validation-part");
    rc_dataset_close(&data);
    set(&config, "validation", "0");
    set(&config, "test_per_class", "2");
    SUCCEEDS(open_data(&config, &data));
    expect_split(&data.train, all, 8);
    expect_split(&data.test, few, 4);
    assert_string_equal(data.name, "folder-part");
    rc_dataset_close(&data);
}

/* ---- settings --------------------------------------------------------------------------------------------------- */

static void hash_of(const rc_config *config, char text[RC_HASH_SIZE])
{
    rc_dataset data;
    SUCCEEDS(open_data(config, &data));
    rc_data_hash(&data, text);
    rc_dataset_close(&data);
}

/* Each setting gives the images that a reader gives who is told the same, and others than no setting does. */
static void images_are_read_as_the_settings_say(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) { /* shades, wider than high, without a test set */
        uint8_t picture[64 + 20 * 30 * 3];
        char path[64];
        size_t begin = (size_t)snprintf((char *)picture, 64, "P6 30 20 255\n");
        for (size_t p = 0; p < 20 * 30 * 3; p++)
            picture[begin + p] = (uint8_t)(p * p / 91 + p * (size_t)i);
        snprintf(path, sizeof path, "wide/class-%d/%d.ppm", i % 2, i);
        data_write(path, picture, begin + 20 * 30 * 3);
    }
    static const char *const change[][2] = {
        {"size", "9"}, {"resize", "12"}, {"interpolation", "bicubic"}, {"channels", "1"}, {"seed", "2"}};
    rc_config config = config_of("wide");
    char before[RC_HASH_SIZE], own[RC_HASH_SIZE], other[RC_HASH_SIZE];
    set(&config, "size", "10");
    hash_of(&config, before);
    for (size_t i = 0; i < sizeof change / sizeof *change; i++) {
        rc_config changed = config;
        rc_dataset data;
        set(&changed, change[i][0], change[i][1]);
        rc_data_settings settings = {.size = changed.size,
                                     .resize = changed.resize,
                                     .interpolation = rc_config_interpolation(&changed),
                                     .channels = changed.channels,
                                     .test_part = 0.2,
                                     .test_seed = changed.settings.seed};
        hash_of(&changed, own);
        data_open("wide", &settings, &data);
        assert_int_equal(data.test.count, 4);
        rc_data_hash(&data, other);
        rc_dataset_close(&data);
        assert_string_equal(own, other);
        assert_string_not_equal(own, before);
    }
    rc_dataset data;
    set(&config, "mean", "0.5,0.25,0.125");
    set(&config, "std", "0.3,0.4,0.75");
    SUCCEEDS(open_data(&config, &data));
    assert_true(data.mean[0] == 0.5f && data.mean[1] == 0.25f && data.mean[2] == 0.125f && data.std[2] == 0.75f);
    rc_dataset_close(&data);
    set(&config, "mean", "0.5,0.25");
    assert_int_equal(open_data(&config, &data), RC_INVALID_ARGUMENT);
    data_assert_message("mean");
}

static void formats_and_seeds_are_handed_on(void **state)
{
    (void)state;
    rc_config config = config_of("photos");
    rc_dataset data;
    set(&config, "format", "list");
    assert_int_equal(open_data(&config, &data), RC_FORMAT);
    config = config_of("procedural:2");
    char one[RC_HASH_SIZE], two[RC_HASH_SIZE];
    set(&config, "size", "16");
    hash_of(&config, one);
    set(&config, "seed", "2");
    hash_of(&config, two);
    assert_string_not_equal(one, two);
}

typedef struct watcher {
    data_log log;
    int told;
    bool stop;
} watcher;

static void see(void *user, const char *where, const recollect_progress *progress)
{
    watcher *w = user;
    assert_string_equal(where, "");
    assert_string_equal(progress->stage_name, "reading");
    w->told++;
}

static bool wants_to_stop(void *user)
{
    return ((watcher *)user)->stop;
}

static void reading_can_be_watched_and_stopped(void **state)
{
    (void)state;
    static watcher w;
    rc_config config = config_of("photos");
    rc_dataset data;
    data_log_start(&w.log);
    rc_watch watch = {.log = w.log.log, .progress = see, .cancelled = wants_to_stop, .user = &w};
    SUCCEEDS(rc_run_data_open(&config, 2, false, &watch, &data));
    rc_dataset_close(&data);
    assert_true(w.told > 0);
    w.stop = true;
    assert_int_equal(rc_run_data_open(&config, 2, false, &watch, &data), RC_CANCELLED);
    w.stop = false;
    data_write_text("photos/train/class-0/broken.ppm", "P6 8 8 255\nshort");
    assert_int_equal(rc_run_data_open(&config, 1, false, &watch, &data), RC_FORMAT);
    data_assert_message("broken.ppm");
    int lines = w.log.lines;
    SUCCEEDS(rc_run_data_open(&config, 1, true, &watch, &data));
    assert_int_equal(data.broken, 1);
    assert_true(w.log.lines > lines);
    rc_dataset_close(&data);
}

/* ---- what does not go together ---------------------------------------------------------------------------------- */

static void what_does_not_go_together_is_named(void **state)
{
    (void)state;
    rc_config config = config_of("");
    rc_dataset data;
    rc_pack_result packed;
    REFUSED(open_data(&config, &data), RC_INVALID_ARGUMENT,
            "no data: the setting 'data' says where the images are, 'procedural' makes some");
    data_write_colour("few/one/1.ppm", SIDE, SIDE, 1, 2, 3);
    data_write_colour("few/two/1.ppm", SIDE, SIDE, 3, 2, 1);
    config = config_of("few");
    REFUSED(open_data(&config, &data), RC_INVALID_ARGUMENT, "few has 2 training and 0 test images; a run needs both");
    static const char *const part[][2] = {{"validation", "0.5"}, {"test_per_class", "1"}};
    const rc_watch watch = {0};
    config = config_of("photos");
    SUCCEEDS(rc_run_data_pack(&config, 1, false, 0.5, &watch, "photos.pack", &packed));
    for (int i = 0; i < 2; i++) {
        char message[256];
        config = config_of("photos");
        set(&config, "decode", "stream");
        SUCCEEDS(open_data(&config, &data));
        assert_non_null(data.train.stream);
        rc_dataset_close(&data);
        set(&config, part[i][0], part[i][1]);
        snprintf(message, sizeof message, "the settings '%s' and 'decode: stream' do not go together", part[i][0]);
        REFUSED(open_data(&config, &data), RC_INVALID_ARGUMENT, message);
        config = config_of("photos.pack");
        SUCCEEDS(open_data(&config, &data));
        assert_int_equal(data.test.count, 5);
        rc_dataset_close(&data);
        set(&config, part[i][0], part[i][1]);
        snprintf(
            message, sizeof message,
            "photos.pack is a pack, whose test images stay as they are: the setting '%s' is not for it; pack the data "
            "in another way",
            part[i][0]);
        REFUSED(open_data(&config, &data), RC_INVALID_ARGUMENT, message);
    }
}

static void a_pack_has_the_test_part_that_is_asked_for(void **state)
{
    (void)state;
    const rc_watch watch = {0};
    rc_config config = config_of("photos/train");
    rc_pack_result packed;
    rc_dataset data;
    set(&config, "decode", "stream"); /* which is for those who read pictures again */
    SUCCEEDS(rc_run_data_pack(&config, 1, false, 0.5, &watch, "half.pack", &packed));
    config = config_of("half.pack");
    SUCCEEDS(open_data(&config, &data));
    assert_int_equal(data.train.count, 3); /* half of 3 and of 5, rounded, goes: 2 and 3 */
    assert_int_equal(data.test.count, 5);
    rc_dataset_close(&data);
    config = config_of("photos/train/class-0/0.ppm");
    assert_int_equal(rc_run_data_pack(&config, 1, false, 0.5, &watch, "none.pack", &packed), RC_FORMAT);
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, enter, data_leave_folder)
    const struct CMUnitTest tests[] = {
        IN_FOLDER(the_last_images_of_a_class_are_held_out), IN_FOLDER(images_are_read_as_the_settings_say),
        IN_FOLDER(formats_and_seeds_are_handed_on),         IN_FOLDER(reading_can_be_watched_and_stopped),
        IN_FOLDER(what_does_not_go_together_is_named),      IN_FOLDER(a_pack_has_the_test_part_that_is_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
