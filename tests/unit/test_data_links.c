/* Links in data sets: every file is read once, circles end, no test image is trained on, and a warning says what is
 * left out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "data/file_ids.h"
#include "data/reader.h"
#include "support/data_files.h"

/* Pictures of one colour each, which tells them apart: `first` and the next ones, in folder/0.ppm and so on. */
static void write_pictures(const char *folder, int first, int count)
{
    for (int i = 0; i < count; i++) {
        char path[256];
        snprintf(path, sizeof path, "%s/%d.ppm", folder, i);
        data_write_colour(path, 4, 4, first + i, 0, 0);
    }
}

static void add_link(const char *target, const char *path)
{
    if (symlink(target, path) != 0)
        fail_msg("cannot link '%s'", path);
}

static void add_hard_link(const char *target, const char *path)
{
    if (link(target, path) != 0)
        fail_msg("cannot link '%s'", path);
}

/* How often the picture of a colour is in the split. */
static int times(const rc_dataset *d, const rc_split *split, int colour)
{
    int found = 0;
    for (int i = 0; i < split->count; i++)
        found += split->images[(size_t)i * (size_t)(d->h * d->w * d->c)] == colour;
    return found;
}

/* Every one of the colours 1 to `count` is in one of the splits, once. */
static void assert_each_once(const rc_dataset *d, int count)
{
    assert_int_equal(d->train.count + d->test.count, count);
    for (int colour = 1; colour <= count; colour++)
        assert_int_equal(times(d, &d->train, colour) + times(d, &d->test, colour), 1);
}

static void assert_log(const data_log *log, const char *text)
{
    if (strstr(log->text, text) == NULL)
        fail_msg("no '%s' in the log: %s", text, log->text);
}

/* 60 images in three classes became 540. */
static void circles_end(void **state)
{
    (void)state;
    rc_dataset plain, d;
    data_log log;
    data_log_start(&log);
    rc_data_settings settings = {.test_part = 0.2, .test_seed = 3, .log = &log.log};
    write_pictures("root/a", 1, 20);
    write_pictures("root/b/inside", 21, 20);
    write_pictures("root/c", 41, 20);
    data_open("root", &settings, &plain);
    assert_each_once(&plain, 60);
    assert_null(strstr(log.text, "left out"));
    add_link("..", "root/a/up");
    add_link(".", "root/a/here");
    add_link("../..", "root/b/inside/top");
    add_link("../inside", "root/b/inside/again");
    write_pictures("beside/d", 70, 3); /* of another set in the same place: a link through the top made them a 'c' */
    char *here = getcwd(NULL, 0);
    add_link(here, "root/c/out");
    add_link("/", "root/c/all");
    free(here);
    data_open("root", &settings, &d);
    assert_int_equal(d.train.count, 48);
    assert_int_equal(d.test.count, 12);
    assert_memory_equal(d.train.images, plain.train.images, 48 * 48);
    assert_memory_equal(d.test.images, plain.test.images, 12 * 48);
    assert_memory_equal(d.train.labels, plain.train.labels, 48 * sizeof *d.train.labels);
    assert_log(&log, "left out: root/a/here (a link to a folder whose pictures are read anyway)\n"
                     "left out: root/a/up (a link that leads back to where it lies)\n"
                     "left out: root/b/inside/again (a link to a folder whose pictures are read anyway)\n"
                     "left out: root/b/inside/top (a link that leads back to where it lies)\n"
                     "left out: root/c/all (a link that leads back to where it lies)\n"
                     "left out: root/c/out (a link that leads back to where it lies)\n"
                     "left out in all: 6 (folders that are read anyway: 2, links in circles: 4)\n");
    assert_true(d.left_out == 6 && d.not_pictures == 0);
    rc_dataset_close(&d);
    rc_dataset_close(&plain);
    /* With a training and a test set of its own. */
    write_pictures("parts/train/a", 1, 5);
    write_pictures("parts/train/b", 6, 5);
    write_pictures("parts/test/a", 11, 5);
    write_pictures("parts/test/b", 16, 5);
    add_link("../..", "parts/train/a/top");
    add_link("..", "parts/train/b/up");
    add_link("..", "parts/test/b/up");
    add_link("../../test/b", "parts/train/b/tests");
    data_log_start(&log);
    data_open("parts", &settings, &d);
    assert_int_equal(d.train.count, 10);
    assert_each_once(&d, 20);
    assert_log(&log, "left out: parts/train/b/tests (a link to a folder whose pictures are read anyway)\n");
    assert_log(&log, "left out in all: 4 (links in circles: 3, folders that are read anyway: 1)\n");
    rc_dataset_close(&d);
    /* As a class. */
    add_link(".", "root/loop");
    data_assert_refused("root", &settings, RC_FORMAT,
                        "class folder 'root/loop' is a link that leads back to the data set; take it out");
}

/* Each folder has two links to the next one: 2^14 ways lead to the picture. */
static void many_ways_are_gone_once(void **state)
{
    (void)state;
    rc_dataset d;
    enum { FOLDERS = 14 };
    for (int i = 0; i < FOLDERS; i++) {
        char path[64], target[64];
        snprintf(path, sizeof path, "else/%d/x", i);
        data_write_text(path, "");
        snprintf(target, sizeof target, "../%d", i + 1);
        for (int way = 0; way < 2; way++) {
            snprintf(path, sizeof path, "else/%d/way%d", i, way);
            add_link(target, path);
        }
    }
    write_pictures("else/14", 1, 1);
    write_pictures("root/b", 2, 1);
    write_pictures("root/a", 3, 1);
    add_link("../../else/0", "root/a/out");
    add_link("../../else/14", "root/a/other");
    data_log log;
    data_log_start(&log);
    data_open("root", &(rc_data_settings){.log = &log.log}, &d);
    assert_each_once(&d, 3);
    assert_log(&log, "left out: and 19 more\nleft out in all: 29 (empty file: 14, folders that are read anyway: 15)\n");
    assert_int_equal(d.left_out, 29);
    rc_dataset_close(&d);
    /* Folders are not followed to any depth. */
    char path[256] = "deep/a";
    for (int i = 0; i < 16; i++)
        strcat(path, "/x");
    write_pictures(path, 1, 1);
    write_pictures("deep/b", 2, 1);
    data_open("deep", &(rc_data_settings){.format = "folder"}, &d);
    assert_each_once(&d, 2);
    rc_dataset_close(&d);
    strcat(path, "/x");
    write_pictures(path, 3, 1);
    data_assert_refused("deep", &(rc_data_settings){.format = "folder"}, RC_FORMAT,
                        "folders are nested deeper than 16");
}

static void files_of_several_names_are_there_once(void **state)
{
    (void)state;
    rc_dataset d;
    data_log log;
    write_pictures("root/a", 1, 4);
    write_pictures("root/b", 5, 4);
    add_link("1.ppm", "root/a/link.ppm");
    add_hard_link("root/a/1.ppm", "root/a/hard.ppm");
    add_hard_link("root/b/2.ppm", "root/b/x.ppm");
    data_log_start(&log);
    data_open("root", &(rc_data_settings){.log = &log.log, .test_part = 0.5}, &d);
    assert_each_once(&d, 8);
    assert_int_equal(d.test.count, 4);
    assert_log(&log, "left out: root/a/hard.ppm (the same file as 'root/a/1.ppm')\n");
    assert_log(&log, "left out in all: 3 (files of several names: 3)\n");
    rc_dataset_close(&d);
    /* A class that is somewhere else, and a picture: links that lead out are followed. */
    write_pictures("far/c", 9, 3);
    write_pictures("far/d", 12, 1);
    add_link("../far/c", "root/c");
    add_link("../../far/d/0.ppm", "root/c/out.ppm");
    data_open("root", NULL, &d);
    assert_each_once(&d, 12);
    assert_int_equal(d.classes, 3);
    rc_dataset_close(&d);
}

static void a_file_has_one_class(void **state)
{
    (void)state;
    write_pictures("root/a", 1, 3);
    write_pictures("root/b", 4, 3);
    add_link("../a/1.ppm", "root/b/x.ppm");
    data_assert_refused("root", NULL, RC_FORMAT,
                        "'root/a/1.ppm' and 'root/b/x.ppm' are the same file, which would be of class 'a' and of class "
                        "'b'; take one of them out");
    remove("root/b/x.ppm");
    add_hard_link("root/b/0.ppm", "root/a/x.ppm");
    data_assert_refused("root", NULL, RC_FORMAT, "'root/a/x.ppm' and 'root/b/0.ppm' are the same file");
    remove("root/a/x.ppm");
    add_link("../b", "root/a/others"); /* whatever it was meant for, the class of these pictures is plain */
    data_log log;
    data_log_start(&log);
    rc_dataset d;
    data_open("root", &(rc_data_settings){.log = &log.log}, &d);
    assert_each_once(&d, 6);
    assert_int_equal(d.train.labels[5], 1);
    assert_log(&log, "left out: root/a/others (a link to a folder of class 'b', where its pictures are read)\n");
    rc_dataset_close(&d);
    remove("root/a/others");
    add_link("a", "root/A");
    data_assert_refused("root", NULL, RC_FORMAT,
                        "class folder 'root/a' is the same folder as that of class 'A'; take one of them out");
    remove("root/A");
    /* Two classes lead to one folder elsewhere: it is of the first. */
    write_pictures("far", 7, 2);
    add_link("../../far", "root/a/more");
    add_link("../../far", "root/b/more");
    data_log_start(&log);
    data_open("root", &(rc_data_settings){.log = &log.log}, &d);
    assert_each_once(&d, 8);
    assert_true(d.train.labels[6] == 0 && d.train.labels[7] == 0);
    assert_log(&log, "left out: root/b/more (a link to a folder of class 'a', where its pictures are read)\n");
    rc_dataset_close(&d);
}

static void test_images_are_not_trained_on(void **state)
{
    (void)state;
    rc_dataset d;
    data_log log;
    data_log_start(&log);
    write_pictures("root/train/a", 1, 4);
    write_pictures("root/train/b", 5, 4);
    write_pictures("root/val/b", 9, 1);
    write_pictures("root/val/a", 10, 1);
    add_link("../../train/a/2.ppm", "root/val/a/x.ppm");
    add_hard_link("root/train/b/0.ppm", "root/val/b/x.ppm");
    add_hard_link("root/train/b/3.ppm", "root/train/b/z.ppm");
    add_hard_link("root/val/b/0.ppm", "root/val/b/z.ppm");
    data_open("root", &(rc_data_settings){.log = &log.log}, &d);
    assert_each_once(&d, 10);
    assert_int_equal(d.test.count, 4);
    assert_int_equal(times(&d, &d.test, 3), 1);
    assert_int_equal(times(&d, &d.test, 5), 1);
    assert_log(&log, "left out: root/val/b/z.ppm (the same file as 'root/val/b/0.ppm')\n"
                     "left out: root/train/a/2.ppm (a test image, too, which is not trained on)\n");
    assert_log(&log, "left out in all: 4 (files of several names: 2, training images that are test images: 2)\n");
    rc_dataset_close(&d);
    add_link("../../train/a/0.ppm", "root/val/b/y.ppm");
    data_assert_refused("root", NULL, RC_FORMAT, "'root/val/b/y.ppm' and 'root/train/a/0.ppm' are the same file");
}

static void lists_name_a_file_once(void **state)
{
    (void)state;
    rc_dataset d;
    data_log log;
    write_pictures("p", 1, 6);
    data_log_start(&log);
    rc_data_settings settings = {.log = &log.log, .test_part = 0.5};
    data_write_text("list.txt", "p/0.ppm 0\np/1.ppm 0\np/0.ppm 0\n./p/../p/1.ppm 0\np/2.ppm 1\np/3.ppm 1\n");
    data_open("list.txt", &settings, &d);
    assert_each_once(&d, 4);
    assert_log(&log, "left out: ./p/0.ppm (named in a line before, too)\n");
    assert_log(&log, "left out: ././p/../p/1.ppm (the same file as './p/1.ppm')\n");
    assert_log(&log, "left out in all: 2 (files of several names: 2)\n");
    rc_dataset_close(&d);
    data_write_text("list.txt", "p/0.ppm 0\np/1.ppm 1\np/0.ppm 1\n");
    data_assert_refused("list.txt", &settings, RC_FORMAT,
                        "'./p/0.ppm' is named in two lines, of class '0' and of class '1'; take one of them out");
    data_write_text("l/train.txt", "../p/0.ppm 0\n../p/1.ppm 1\n../p/2.ppm 1\n");
    data_write_text("l/val.txt", "../p/2.ppm 1\n../p/3.ppm 0\n");
    data_open("l", &settings, &d);
    assert_each_once(&d, 4);
    assert_int_equal(times(&d, &d.test, 3), 1);
    assert_log(&log, "left out in all: 1 (training images that are test images: 1)\n");
    rc_dataset_close(&d);
}

static void tiny_imagenet_has_a_file_once(void **state)
{
    (void)state;
    rc_dataset d;
    data_log log;
    data_log_start(&log);
    data_write_text("t/wnids.txt", "n1\nn2\n");
    write_pictures("t/train/n1/images", 1, 2);
    write_pictures("t/train/n2/images", 3, 2);
    write_pictures("t/val/images", 5, 2);
    add_link("../..", "t/train/n2/images/up");
    add_link("../../train/n1/images/1.ppm", "t/val/images/x.ppm");
    data_write_text("t/val/val_annotations.txt", "0.ppm\tn1\n1.ppm\tn2\nx.ppm\tn1\n");
    data_open("t", &(rc_data_settings){.log = &log.log, .size = 4}, &d);
    assert_each_once(&d, 6);
    assert_int_equal(d.test.count, 3);
    assert_log(&log, "left out in all: 2 (links in circles: 1, training images that are test images: 1)\n");
    rc_dataset_close(&d);
}

static void numbers_tell_files_apart(void **state)
{
    (void)state;
    rc_file_ids ids = {0};
    struct stat file = {0};
    int before;
    for (int turn = 0; turn < 2; turn++)
        for (int i = 0; i < 5000; i++) {
            file.st_dev = (dev_t)(i % 3);
            file.st_ino = (ino_t)(i / 3 + 1) << (i % 2 ? 20 : 0);
            assert_int_equal(rc_file_ids_add(&ids, &file, i + 1, &before), RC_OK);
            /* 2^20 i and i may meet. */
            assert_true(turn == 0 ? before <= i : before > 0 && before <= i + 1);
            assert_true(before == 0 || (before - 1) % 3 == i % 3);
        }
    file.st_ino = 7; /* the same number on many devices */
    for (int i = 3; i < 5000; i++) {
        file.st_dev = (dev_t)i;
        assert_int_equal(rc_file_ids_add(&ids, &file, 1, &before), RC_OK);
        assert_int_equal(before, 0);
    }
    file.st_ino = 0; /* a file system without numbers */
    for (int i = 0; i < 2; i++) {
        assert_int_equal(rc_file_ids_add(&ids, &file, 1, &before), RC_OK);
        assert_int_equal(before, 0);
    }
    rc_file_ids_free(&ids);
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, data_enter_folder, data_leave_folder)
    const struct CMUnitTest tests[] = {
        IN_FOLDER(circles_end),
        IN_FOLDER(many_ways_are_gone_once),
        IN_FOLDER(files_of_several_names_are_there_once),
        IN_FOLDER(a_file_has_one_class),
        IN_FOLDER(test_images_are_not_trained_on),
        IN_FOLDER(lists_name_a_file_once),
        IN_FOLDER(tiny_imagenet_has_a_file_once),
        cmocka_unit_test(numbers_tell_files_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
