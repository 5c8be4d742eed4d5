/* Nothing vanishes: what lies in a folder and is not read is named with the reason, and counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/memory.h"
#include "data/left_out.h"
#include "data/reader.h"
#include "support/data_files.h"

static const char heic[] = "\0\0\0\x18"
                           "ftypheic\0\0\0\0mif1heic";

static void write_bytes(const char *path, const char *bytes, size_t size)
{
    data_write_text(path, "");
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static void write_pictures(const char *folder, int first, int count)
{
    for (int i = 0; i < count; i++) {
        char path[256];
        snprintf(path, sizeof path, "%s/%d.ppm", folder, i);
        data_write_colour(path, 4, 4, first + i, 0, 0);
    }
}

static void assert_log(const data_log *log, const char *text)
{
    if (strstr(log->text, text) == NULL)
        fail_msg("no '%s' in the log: %s", text, log->text);
}

static void start_log(data_log *log)
{
    data_log_start(log);
    log->log.level = RC_LOG_INFO;
}

/* ---- the list --------------------------------------------------------------------------------------------------- */

static void the_first_ten_are_named(void **state)
{
    (void)state;
    rc_left_out left = {0};
    data_log log;
    start_log(&log);
    rc_left_out_tell(&left, &log.log);
    assert_int_equal(log.lines, 0);
    size_t before = rc_bytes_allocated();
    for (int i = 0; i < 10; i++) {
        char path[16];
        snprintf(path, sizeof path, "f%d", i);
        assert_int_equal(rc_left_out_add(&left, path, i % 2 ? "odd" : "even", "why"), RC_OK);
    }
    rc_left_out_tell(&left, &log.log);
    assert_int_equal(log.lines, 11);
    assert_log(&log, "left out: f9 (why)\nleft out in all: 10 (even: 5, odd: 5)\n");
    assert_int_equal(rc_left_out_add(&left, "f10", "even", "because"), RC_OK);
    assert_string_equal(left.latest, "f10 (because)");
    assert_int_equal(rc_left_out_add_harmless(&left, "a.txt"), RC_OK);
    start_log(&log);
    rc_left_out_tell(&left, &log.log);
    assert_int_equal(log.lines, 13);
    assert_log(&log, "left out: and 1 more\nleft out in all: 11 (even: 6, odd: 5)\n"
                     "not read, because it is no picture: a.txt\n");
    assert_int_equal(rc_left_out_add_harmless(&left, "b.txt"), RC_OK);
    assert_int_equal(rc_left_out_add_harmless(&left, "c.txt"), RC_OK);
    start_log(&log);
    rc_left_out_tell(&left, &log.log);
    assert_log(&log, "not read, because they are no pictures: a.txt and 2 more\n");
    assert_true(left.count == 11 && left.harmless == 3);
    rc_left_out_free(&left);
    assert_int_equal(rc_bytes_allocated(), before);
}

static void any_number_of_kinds_is_counted(void **state)
{
    (void)state;
    static char names[2 * RC_LEFT_OUT_KINDS][16];
    rc_left_out left = {0};
    int sum = 0;
    for (int i = 0; i < 2 * RC_LEFT_OUT_KINDS; i++) {
        snprintf(names[i], sizeof names[i], "k%d", i);
        assert_int_equal(rc_left_out_add(&left, "x", names[i], "y"), RC_OK);
    }
    assert_int_equal(left.kinds, RC_LEFT_OUT_KINDS);
    for (int i = 0; i < left.kinds; i++)
        sum += left.kind[i].count;
    assert_int_equal(sum, 2 * RC_LEFT_OUT_KINDS);
    rc_left_out_free(&left);
}

/* ---- folders ---------------------------------------------------------------------------------------------------- */

static void other_formats_are_named_with_what_to_do(void **state)
{
    (void)state;
    data_log log;
    rc_dataset d;
    start_log(&log);
    write_pictures("root/a", 1, 2);
    write_pictures("root/b", 3, 2);
    write_bytes("root/a/x.heic", heic, 24);
    write_bytes("root/a/lies.jpg", heic, 24); /* as some telephones name them */
    write_bytes("root/b/film.mov",
                "\0\0\0\x14"
                "ftypqt  \0\0\0\0qt  ",
                20);
    write_bytes("root/b/strange", "\x01\x02\x03", 3);
    data_write_text("root/b/none", "");
    data_write_text("root/b/labels.txt", "a");
    data_write_text("root/b/notes", "Dear all");
    write_bytes("root/b/Thumbs.db", "\xD0\xCF\x11\xE0", 4);
    write_bytes("root/b/.DS_Store",
                "\0\0\0\x01"
                "Bud1",
                8);
    assert_int_equal(symlink("nowhere", "root/b/gone"), 0);
    data_open("root", &(rc_data_settings){.log = &log.log}, &d);
    assert_int_equal(d.train.count, 4);
    assert_true(d.left_out == 6 && d.not_pictures == 4 && d.broken == 0);
    rc_dataset_close(&d);
    assert_log(&log, "left out: root/a/x.heic (HEIC; convert it: heif-convert x.heic x.jpg)\n");
    assert_log(&log, "left out: root/a/lies.jpg (HEIC; convert it: heif-convert lies.jpg lies_.jpg)\n");
    assert_log(&log, "left out: root/b/film.mov (video; take pictures out of it: ffmpeg -i film.mov ");
    assert_log(&log, "left out: root/b/strange (unknown format; ");
    assert_log(&log, "left out: root/b/none (empty file; copy it again, or delete it)\n");
    assert_log(&log, "left out: root/b/gone (a link that leads nowhere)\n");
    assert_log(
        &log, "left out in all: 6 (HEIC: 2, video: 1, links that lead nowhere: 1, empty file: 1, unknown format: 1)\n");
    assert_log(&log, "not read, because they are no pictures: root/b/Thumbs.db and 3 more\n");
    /* Read again, it is not told again. */
    start_log(&log);
    data_open("root", &(rc_data_settings){.log = &log.log, .told = true}, &d);
    assert_int_equal(d.left_out, 6);
    assert_null(strstr(log.text, "left out"));
    rc_dataset_close(&d);
}

/* What is inside counts, whatever a file is called. */
static void pictures_need_no_ending(void **state)
{
    (void)state;
    rc_dataset d;
    data_write_colour("root/a/IMG", 4, 4, 1, 0, 0);
    data_write_colour("root/b/photo.old", 4, 4, 2, 0, 0);
    data_open("root", NULL, &d);
    assert_true(d.train.count == 2 && d.left_out == 0);
    assert_true(d.train.images[0] == 1 && d.train.labels[1] == 1);
    rc_dataset_close(&d);
}

static void what_is_hidden_or_astray_is_named(void **state)
{
    (void)state;
    data_log log;
    rc_dataset d;
    start_log(&log);
    write_pictures("root/a", 1, 2);
    write_pictures("root/b", 3, 2);
    write_pictures("root/.cache", 5, 1);
    write_pictures("root/a/.trash", 6, 1);
    data_write_colour("root/b/.secret.ppm", 4, 4, 7, 0, 0);
    data_write_text("root/.git/config", "x");
    data_write_text("root/README", "x");
    data_write_colour("root/stray.ppm", 4, 4, 8, 0, 0);
    data_write_colour("root/nameless", 4, 4, 9, 0, 0);
    write_bytes("root/x.heic", heic, 24);
    data_open("root", &(rc_data_settings){.log = &log.log}, &d);
    assert_int_equal(d.train.count, 4);
    assert_int_equal(d.classes, 2);
    assert_true(d.left_out == 6 && d.not_pictures == 2);
    rc_dataset_close(&d);
    assert_log(&log, "left out: root/.cache (a hidden folder; rename it if its pictures are wanted)\n");
    assert_log(&log, "left out: root/a/.trash (a hidden folder; ");
    assert_log(&log, "left out: root/b/.secret.ppm (a hidden file; rename it if it is wanted)\n");
    assert_log(&log,
               "left out: root/stray.ppm (a picture beside the class folders; move it into the folder of its class)\n");
    assert_log(&log, "left out: root/nameless (a picture beside the class folders; ");
    assert_log(&log, "left out: root/x.heic (HEIC; ");
    assert_log(&log, "not read, because they are no pictures: root/README and 1 more\n");
}

/* Archives of a Mac hold __MACOSX/CLASS/._NAME.jpg, disks of Windows and of a NAS hold folders of their own. */
static void what_systems_add_is_no_class(void **state)
{
    (void)state;
    static const char *const added[] = {"__MACOSX", "@eaDir", "$RECYCLE.BIN", "System Volume Information",
                                        "lost+found"};
    char path[64];
    data_log log;
    rc_dataset d;
    start_log(&log);
    write_pictures("root/a", 1, 2);
    write_pictures("root/b", 3, 2);
    write_pictures("root/__MACOSX2", 5, 1);
    for (int i = 0; i < (int)(sizeof added / sizeof *added); i++) {
        snprintf(path, sizeof path, "root/%s", added[i]);
        write_pictures(path, 10 + i, 1);
    }
    write_pictures("root/a/@eaDir", 20, 1);
    data_open("root", &(rc_data_settings){.log = &log.log}, &d);
    assert_int_equal(d.train.count, 5);
    assert_int_equal(d.classes, 3);
    assert_string_equal(d.class_name[0], "__MACOSX2");
    assert_true(d.left_out == 0 && d.not_pictures == 6);
    rc_dataset_close(&d);
    assert_log(&log, "not read, because they are no pictures: root/$RECYCLE.BIN and 5 more\n");
}

/* One picture that went astray in train/ made 'train' and 'test' the classes. */
static void a_stray_picture_does_not_change_the_classes(void **state)
{
    (void)state;
    data_log log;
    rc_dataset d;
    start_log(&log);
    write_pictures("root/train/a", 1, 2);
    write_pictures("root/train/b", 3, 2);
    write_pictures("root/test/a", 5, 1);
    write_pictures("root/more/a", 6, 1);
    data_write_colour("root/train/stray.ppm", 4, 4, 8, 0, 0);
    data_write_colour("root/above.ppm", 4, 4, 9, 0, 0);
    data_open("root", &(rc_data_settings){.log = &log.log}, &d);
    assert_true(d.classes == 2 && d.train.count == 4 && d.test.count == 1);
    assert_string_equal(d.class_name[0], "a");
    assert_int_equal(d.left_out, 3);
    rc_dataset_close(&d);
    assert_log(&log, "left out: root/train/stray.ppm (a picture beside the class folders; ");
    assert_log(&log, "left out: root/above.ppm (a picture beside the class folders; ");
    assert_log(&log, "left out: root/more (a folder beside train/ and test/, which are read)\n");
    /* A class of that name holds more pictures than folders. */
    write_pictures("toys/train/inner", 1, 1);
    write_pictures("toys/train", 2, 2);
    write_pictures("toys/car", 4, 1);
    data_open("toys", NULL, &d);
    assert_true(d.classes == 2 && d.train.count == 4);
    assert_string_equal(d.class_name[1], "train");
    rc_dataset_close(&d);
}

static void folders_without_pictures_say_what_they_hold(void **state)
{
    (void)state;
    write_bytes("root/a/x.heic", heic, 24);
    write_bytes("root/b/y.heic", heic, 24);
    data_assert_refused("root", NULL, RC_FORMAT,
                        "root/CLASS/IMAGE; there is root/a/x.heic (HEIC; convert it: heif-convert x.heic x.jpg)");
    write_pictures("root/b", 1, 2);
    data_assert_refused("root", NULL, RC_FORMAT,
                        "class folder 'root/a' holds no pictures, only what is not read: root/a/x.heic (HEIC; ");
    remove("root/a/x.heic");
    data_assert_refused("root", NULL, RC_FORMAT,
                        "class folder 'root/a' holds no pictures; put some into it, or take it out");
    assert_int_equal(symlink("..", "root/a/up"), 0);
    data_assert_refused("root", NULL, RC_FORMAT,
                        "class folder 'a' holds no pictures, only what is not read: root/a/up (a link that leads back");
    write_bytes("flat/x.heic", heic, 24);
    data_assert_refused("flat", NULL, RC_FORMAT, "there is flat/x.heic (HEIC; ");
    write_bytes("hidden/.DS_Store", "\0", 1);
    data_assert_refused("hidden", NULL, RC_FORMAT, "'hidden' is empty; expected a folder of pictures for each class, ");
    write_pictures("hidden/.cat", 1, 1);
    data_assert_refused("hidden", NULL, RC_FORMAT,
                        "'hidden' is empty but for what is hidden; expected a folder of pictures for each class, named "
                        "like it; there is hidden/.cat (a hidden folder; rename it if its pictures are wanted)");
}

static void folders_that_wnids_does_not_name_are_named(void **state)
{
    (void)state;
    rc_dataset d;
    data_log log;
    data_write_text("t/wnids.txt", "n2\nn1\n");
    write_pictures("t/train/n1/images", 10, 1);
    write_pictures("t/train/n2/images", 20, 1);
    write_pictures("t/train/n3/images", 30, 1);
    write_pictures("t/train", 40, 1);
    write_pictures("t/val/n1", 50, 1);
    write_pictures("t/val/n2", 60, 1);
    write_pictures("t/val/n0", 70, 1);
    start_log(&log);
    data_open("t", &(rc_data_settings){.log = &log.log}, &d);
    assert_true(d.classes == 2 && d.train.count == 2 && d.test.count == 2 && d.left_out == 3);
    rc_dataset_close(&d);
#define NOT_NAMED " (wnids.txt does not name it; add it there if it is a class)\n"
    assert_log(&log,
               "left out: t/train/0.ppm (a picture beside the class folders; move it into the folder of its class)\n"
               "left out: t/train/n3" NOT_NAMED "left out: t/val/n0" NOT_NAMED
               "left out in all: 3 (pictures beside the class folders: 1, folders beside the classes: 2)\n");
}

/* A class whose pictures all lie behind a link. */
static void a_link_is_followed_once(void **state)
{
    (void)state;
    rc_dataset d;
    data_log log;
    start_log(&log);
    write_pictures("far/x", 1, 2);
    write_pictures("root/b", 3, 2);
    data_write_text("root/a/note.txt", "x");
    assert_int_equal(symlink("../../far", "root/a/away"), 0);
    assert_int_equal(symlink("../../far/x", "root/a/zoo"), 0);
    data_open("root", &(rc_data_settings){.log = &log.log, .format = "folder"}, &d);
    assert_int_equal(d.train.count, 4);
    for (int i = 0; i < 4; i++)
        assert_int_equal(d.train.labels[i], d.train.images[i * 48] <= 2 ? 0 : 1);
    assert_log(&log, "left out in all: 1 (folders that are read anyway: 1)\n");
    rc_dataset_close(&d);
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, data_enter_folder, data_leave_folder)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_ten_are_named),
        cmocka_unit_test(any_number_of_kinds_is_counted),
        IN_FOLDER(other_formats_are_named_with_what_to_do),
        IN_FOLDER(pictures_need_no_ending),
        IN_FOLDER(what_is_hidden_or_astray_is_named),
        IN_FOLDER(what_systems_add_is_no_class),
        IN_FOLDER(a_stray_picture_does_not_change_the_classes),
        IN_FOLDER(folders_without_pictures_say_what_they_hold),
        IN_FOLDER(folders_that_wnids_does_not_name_are_named),
        IN_FOLDER(a_link_is_followed_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
