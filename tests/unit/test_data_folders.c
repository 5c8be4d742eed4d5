/* Data sets of picture files: folders of classes, lists, Tiny-ImageNet; how they are split, what is skipped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/memory.h"
#include "data/dataset.h"
#include "data/list.h"
#include "data/listing.h"
#include "support/data_files.h"
#include "support/data_sets.h"

/* Pictures of one colour, whose red is `red`, red + 1, ...: who is where can be read from the pixels. */
static void write_class(const char *folder, int red, int count)
{
    for (int i = 0; i < count; i++) {
        char path[256];
        snprintf(path, sizeof path, "%s/%c%d.ppm", folder, 'a' + i % 3, i);
        data_write_colour(path, 8, 8, red + i, 1, 2);
    }
}

/* The red of every image. */
static void assert_reds(const rc_dataset *d, const rc_split *split, int count, const int *reds)
{
    assert_int_equal(split->count, count);
    for (int i = 0; i < count; i++)
        assert_int_equal(split->images[(size_t)i * (size_t)(d->h * d->w * d->c)], reds[i]);
}

/* ---- folders ---------------------------------------------------------------------------------------------------- */

static void classes_and_images_are_sorted_by_bytes(void **state)
{
    (void)state;
    write_class("root/train/zebra", 10, 4);
    write_class("root/train/Bee/inner/deeper", 20, 2);
    write_class("root/train/ant", 30, 1);
    write_class("root/val/zebra", 40, 1);
    write_class("root/val/ant", 50, 2);
    data_write_text("root/train/ant/.hidden.png", "x");
    data_write_text("root/train/ant/notes.txt", "x");
    data_log log;
    data_log_start(&log);
    rc_dataset d;
    data_open("root", &(rc_data_settings){.log = &log.log}, &d);
    assert_string_equal(d.format, "folder");
    assert_int_equal(d.classes, 3);
    assert_string_equal(d.class_name[0], "Bee");
    assert_string_equal(d.class_name[1], "ant");
    assert_string_equal(d.class_name[2], "zebra");
    assert_int_equal(d.h, 8);
    assert_int_equal(d.c, 3);
    assert_reds(&d, &d.train, 7, (int[]){20, 21, 30, 10, 13, 11, 12});
    assert_reds(&d, &d.test, 3, (int[]){50, 51, 40});
    assert_int_equal(d.train.labels[2], 1);
    assert_int_equal(d.test.labels[2], 2);
    assert_true(d.left_out == 0 && d.not_pictures == 2);
    rc_dataset_close(&d);
    assert_int_equal(log.lines, 0);
    /* test goes before val; a class of its own is an error. */
    write_class("root/test/ant", 60, 1);
    data_open("root", &(rc_data_settings){.log = &log.log}, &d);
    assert_reds(&d, &d.test, 1, (int[]){60});
    assert_non_null(strstr(log.text, "left out: root/val (a folder beside train/ and test/, which are read)\n"));
    rc_dataset_close(&d);
    write_class("root/test/wasp", 60, 1);
    data_assert_refused(
        "root", NULL, RC_FORMAT,
        "'root/test' has a class 'wasp' that the training set does not have; rename it, or take it out");
}

/* "Cafe" with an accent: systems keep it in one letter or in two. */
static void a_class_that_is_spelled_in_another_way_is_found(void **state)
{
    (void)state;
#define LIKE(name) \
    "; rename it like '" name "' there, which differs in capitals, accents (or how these are encoded) or blanks " \
    "alone, or take it out"
    write_class("root/train/Caf\u00e9", 10, 1);
    write_class("root/train/Ice bear", 20, 1);
    write_class("root/test/Cafe\u0301", 30, 1);
    data_assert_refused("root", NULL, RC_FORMAT,
                        "'root/test' has a class 'Cafe\u0301' that the training set does not have" LIKE("Caf\u00e9"));
    assert_int_equal(rename("root/test/Cafe\u0301", "root/test/ice_bear"), 0);
    data_assert_refused("root", NULL, RC_FORMAT,
                        "'root/test' has a class 'ice_bear' that the training set does not have" LIKE("Ice bear"));
}

/* As people call them. Of several names it is the usual one, else the first. */
static void parts_have_several_names(void **state)
{
    (void)state;
    static const char *const names[][2] = {
        {"Train", "Validation"}, {"training", "valid"}, {"TRAIN", "Testing"}, {"train", "Test"}, {"Training", "VAL"}};
    rc_dataset d;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[64];
        for (int part = 0; part < 2; part++) {
            snprintf(path, sizeof path, "r%zu/%s/a", i, names[i][part]);
            write_class(path, part ? 30 : 10, 2);
        }
        snprintf(path, sizeof path, "r%zu", i);
        data_open(path, &(rc_data_settings){.test_part = 0.5}, &d);
        assert_reds(&d, &d.train, 2, (int[]){10, 11});
        assert_reds(&d, &d.test, 2, (int[]){30, 31});
        rc_dataset_close(&d);
    }
    data_log log;
    data_log_start(&log);
    write_class("r3/Training/a", 50, 1);
    write_class("r3/test", 60, 1); /* no folder for a class: "Test" remains */
    data_open("r3", &(rc_data_settings){.log = &log.log}, &d);
    assert_reds(&d, &d.train, 2, (int[]){10, 11});
    assert_reds(&d, &d.test, 2, (int[]){30, 31});
    assert_non_null(strstr(log.text, "left out: r3/Training (a folder beside train/ and Test/, which are read)\n"));
    assert_non_null(strstr(log.text, "left out: r3/test (it does not hold a folder for each class)\n"));
    rc_dataset_close(&d);
    /* Classes that are called so hold pictures. */
    write_class("words/Train", 10, 1);
    write_class("words/valid", 20, 1);
    write_class("words/void", 30, 1);
    data_open("words", NULL, &d);
    assert_int_equal(d.classes, 3);
    rc_dataset_close(&d);
}

/* A set is recognised by one picture, at any depth that is read. */
static void pictures_may_lie_deep_in_their_class(void **state)
{
    (void)state;
    static const char *const roots[][3] = {
        {"inner", "inner/train/cat/images", "inner/val/cat/images"},
        {"deeper", "deeper/cat/a/b", "deeper/dog/a/b"},
        {"deepest", "deepest/train/cat/1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16", "deepest/val/cat/a"},
        {"called", "called/cat/train", "called/dog/val"}};
    rc_dataset d;
    for (size_t i = 0; i < sizeof roots / sizeof *roots; i++) {
        write_class(roots[i][1], 10, 1);
        data_open(roots[i][0], NULL, &d);
        assert_int_equal(d.classes, 1);
        rc_dataset_close(&d);
        write_class(roots[i][2], 20, 1);
        data_open(roots[i][0], NULL, &d);
        assert_int_equal(d.train.count + d.test.count, 2);
        rc_dataset_close(&d);
    }
    /* Sets side by side are no classes. */
    write_class("sets/pets/train/cat", 10, 1);
    write_class("sets/cars/train/van", 20, 1);
    data_assert_refused("sets", NULL, RC_FORMAT, "'sets' holds 2 folders, but no picture in them");
    data_write("heic/train/a/images/x.heic", "\0\0\0\030ftypheic\0\0\0\0mif1heic", 24);
    data_assert_refused("heic", NULL, RC_FORMAT,
                        "heic/CLASS/IMAGE; there is heic/train/a/images/x.heic (HEIC; convert");
    /* Links in circles end. */
    data_write_text("circles/notes.txt", "x");
    for (int i = 0; i < 5; i++) {
        char path[32];
        snprintf(path, sizeof path, "circles/%d", i);
        assert_int_equal(symlink(".", path), 0);
    }
    data_assert_refused("circles", NULL, RC_FORMAT, "'circles' holds 5 folders, but no picture in them");
}

/* A folder may be named like a picture. A pipe is no picture: nobody might ever write to it. */
static void only_files_are_pictures(void **state)
{
    (void)state;
    write_class("root/a", 0, 1);
    write_class("root/a/more.jpg", 1, 1);
    write_class("root/b", 100, 1);
    assert_int_equal(mkfifo("root/b/pipe.png", 0600), 0);
    data_log log;
    data_log_start(&log);
    rc_dataset d;
    data_open("root", &(rc_data_settings){.log = &log.log}, &d);
    assert_reds(&d, &d.train, 3, (int[]){0, 1, 100});
    rc_dataset_close(&d);
    assert_non_null(strstr(log.text, "left out: root/b/pipe.png (a pipe, a device or a socket, no file)\n"));
    /* A link that leads nowhere was meant to be one. */
    assert_int_equal(symlink("nowhere", "root/b/lost.png"), 0);
    data_assert_refused("root", NULL, RC_IO, "root/b/lost.png");
}

static void one_folder_is_split_by_the_rule(void **state)
{
    (void)state;
    write_class("root/a", 0, 10);
    write_class("root/b", 100, 3);
    write_class("root/c", 200, 1);
    rc_dataset d, again;
    data_open("root", NULL, &d);
    assert_int_equal(d.train.count, 14);
    assert_int_equal(d.test.count, 0);
    rc_dataset_close(&d);
    rc_data_settings settings = {.test_part = 0.3, .test_seed = 5};
    data_open("root", &settings, &d);
    assert_int_equal(d.train.count, 10);
    assert_int_equal(d.test.count, 4);
    int seen[256] = {0}, tests[3] = {0};
    for (int i = 0; i < 10; i++)
        seen[d.train.images[i * 192]]++;
    for (int i = 0; i < 4; i++) {
        seen[d.test.images[i * 192]]++;
        tests[d.test.labels[i]]++;
    }
    for (int i = 0; i < 256; i++)
        assert_int_equal(seen[i], i < 10 || (i >= 100 && i < 103) || i == 200);
    assert_int_equal(tests[0], 3);
    assert_int_equal(tests[1], 1);
    /* Another seed chooses others; the same seed the same. */
    data_open("root", &settings, &again);
    assert_memory_equal(d.test.images, again.test.images, 4 * 192);
    rc_dataset_close(&again);
    settings.test_seed = 6;
    data_open("root", &settings, &again);
    assert_true(memcmp(d.test.images, again.test.images, 4 * 192) != 0);
    rc_dataset_close(&again);
    rc_dataset_close(&d);
    /* Everything but one, everything. */
    settings.test_part = 0.99;
    data_open("root", &settings, &d);
    assert_int_equal(d.train.count, 3);
    rc_dataset_close(&d);
    settings.test_part = 1;
    data_open("root", &settings, &d);
    assert_int_equal(d.train.count, 0);
    assert_int_equal(d.test.count, 14);
    assert_true(d.mean[1] > 0.0039f && d.mean[1] < 0.004f);
    rc_dataset_close(&d);
}

static void a_class_may_be_called_train(void **state)
{
    (void)state;
    write_class("root/train", 10, 2);
    write_class("root/car", 20, 2);
    rc_dataset d;
    data_open("root", NULL, &d);
    assert_int_equal(d.classes, 2);
    assert_string_equal(d.class_name[1], "train");
    rc_dataset_close(&d);
}

/* As competitions hand them out, beside a table. A single such folder may be a class that is to be scored. */
static void parts_are_no_classes(void **state)
{
    (void)state;
    write_class("root/Train", 10, 2);
    rc_dataset d;
    data_open("root", NULL, &d);
    assert_int_equal(d.classes, 1);
    rc_dataset_close(&d);
    write_class("root/test", 20, 2);
    data_assert_refused(
        "root", NULL, RC_FORMAT,
        "'root' holds pictures in folders called 'Train' and 'test', like parts of a set, which say nothing of their "
        "classes; put them into Train/CLASS/ and test/CLASS/, or give the table that says what is on them");
}

static void size_and_channels_are_chosen_by_looking(void **state)
{
    (void)state;
    rc_dataset d;
    data_write_text("grey/a/1.pgm", "P2 4 4 255\n1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n");
    data_open("grey", NULL, &d);
    assert_int_equal(d.h, 4);
    assert_int_equal(d.c, 1);
    assert_int_equal(d.train.images[6], 7);
    rc_dataset_close(&d);
    data_open("grey", &(rc_data_settings){.channels = 3, .size = 2}, &d);
    assert_int_equal(d.h, 2);
    assert_int_equal(d.c, 3);
    rc_dataset_close(&d);
    data_write_colour("mixed/a/1.ppm", 40, 50, 1, 2, 3);
    data_write_text("mixed/a/2.pgm", "P2 1 1 255\n9\n");
    data_open("mixed", NULL, &d);
    assert_int_equal(d.h, 32);
    assert_int_equal(d.c, 3);
    rc_dataset_close(&d);
    data_write_colour("large/a/1.ppm", 90, 120, 1, 2, 3);
    data_open("large", NULL, &d);
    assert_int_equal(d.h, 64);
    rc_dataset_close(&d);
    data_open("large", &(rc_data_settings){.size = 48, .resize = 56}, &d);
    assert_int_equal(d.h, 48);
    assert_int_equal(d.train.images[48 * 48 * 3 - 1], 3);
    rc_dataset_close(&d);
}

static void write_tiny(void)
{
    write_class("t/train/n03/images", 30, 2);
    write_class("t/train/n01/images", 10, 1);
    write_class("t/train/n02/images", 20, 1);
    write_class("t/val/images", 100, 3);
    data_write_text("t/train/n01/n01_boxes.txt", "a0.ppm\t0\t0\t62\t62\n");
    data_write_text("t/wnids.txt", "n02\nn03\nn01");
    data_write_text("t/val/val_annotations.txt",
                    "b1.ppm\tn01\t0\t32\t44\t62\nc2.ppm\tn03\t5\t5\t5\t5\na0.ppm\tn02\t0\t0\t1\t1\n");
}

static rc_data_seen chooser_saw;

static int choose_12(const rc_data_seen *seen)
{
    chooser_saw = *seen;
    return 12;
}

static void assert_chosen(const char *path, const rc_data_settings *settings, int size, rc_data_seen expected)
{
    rc_dataset d;
    chooser_saw = (rc_data_seen){0};
    data_open(path, settings, &d);
    assert_int_equal(d.h, size);
    assert_int_equal(d.w, size);
    assert_memory_equal(&chooser_saw.images, &expected.images, 3 * sizeof(int));
    assert_int_equal(chooser_saw.same, expected.same);
    if (expected.images > 0)
        assert_memory_equal(&d.seen.images, &expected.images, 3 * sizeof(int));
    rc_dataset_close(&d);
}

/* The caller chooses the size, knowing how many images there are, and what the one in the middle is like. */
static void a_caller_may_choose_the_size(void **state)
{
    (void)state;
    const rc_data_settings chooses = {.choose = choose_12};
    data_write_colour("photos/a/1.ppm", 90, 60, 1, 2, 3); /* 60 wide */
    data_write_colour("photos/a/2.ppm", 50, 70, 1, 2, 3);
    data_write_colour("photos/b/1.ppm", 80, 200, 1, 2, 3);
    assert_chosen("photos", &chooses, 12, (rc_data_seen){3, 90, 60, false});
    data_write_colour("squares/a/1.ppm", 20, 20, 1, 2, 3);
    data_write_colour("squares/a/2.ppm", 20, 20, 1, 2, 3);
    assert_chosen("squares", &chooses, 12, (rc_data_seen){2, 20, 20, true});
    data_write_colour("squares/a/3.ppm", 20, 21, 1, 2, 3);
    assert_chosen("squares", &chooses, 12, (rc_data_seen){3, 20, 20, false});
    write_tiny();
    assert_chosen("t", &chooses, 12, (rc_data_seen){4, 8, 8, true});
    data_bytes images = data_idx_images(5, 6, 7), labels = data_idx_labels(5, 4);
    data_write("m/train-images-idx3-ubyte", images.data, images.size);
    data_write("m/train-labels-idx1-ubyte", labels.data, labels.size);
    data_write("m/t10k-images-idx3-ubyte", images.data, images.size);
    data_write("m/t10k-labels-idx1-ubyte", labels.data, labels.size);
    assert_chosen("m", &chooses, 12, (rc_data_seen){5, 6, 7, false});
    free(images.data);
    free(labels.data);
    /* What is set wins. */
    assert_chosen("photos", &(rc_data_settings){.choose = choose_12, .size = 16}, 16, (rc_data_seen){0});
    assert_chosen("photos", &(rc_data_settings){.choose = choose_12, .resize = 10}, 10,
                  (rc_data_seen){3, 90, 60, false});
}

static void broken_images_are_named_or_skipped(void **state)
{
    (void)state;
    write_class("root/a", 0, 3);
    write_class("root/b", 100, 30);
    data_write_text("root/a/b0.jpg", "no picture");
    data_assert_refused("root", NULL, RC_FORMAT,
                        "cannot decode 'root/a/b0.jpg': no picture that this build of recollect reads: text");
    data_assert_message("the setting 'skip_broken'");
    data_log log;
    data_log_start(&log);
    rc_data_settings settings = {.skip_broken = true, .log = &log.log};
    rc_dataset d;
    data_open("root", &settings, &d);
    assert_int_equal(d.broken, 1);
    assert_int_equal(d.train.count, 33);
    assert_int_equal(d.train.images[192], 1);
    assert_int_equal(d.train.labels[2], 0);
    assert_int_equal(d.train.labels[3], 1);
    assert_int_equal(log.lines, 2);
    assert_non_null(strstr(
        log.text, "skipped: cannot decode 'root/a/b0.jpg': no picture that this build of recollect reads: text"));
    assert_non_null(strstr(log.last, "skipped 1 of 34 images"));
    rc_dataset_close(&d);
    for (int i = 0; i < 30; i++) {
        char path[64];
        snprintf(path, sizeof path, "root/b/x%d.png", i);
        data_write_text(path, "x");
    }
    data_log_start(&log);
    data_open("root", &settings, &d);
    assert_int_equal(d.broken, 31);
    assert_int_equal(log.lines, 32);
    for (int i = 0; i < 30; i++) {
        char path[64];
        snprintf(path, sizeof path, "skipped: cannot decode 'root/b/x%d.png'", i);
        assert_non_null(strstr(log.text, path));
    }
    assert_non_null(strstr(log.last, "skipped 31 of 64 images"));
    rc_dataset_close(&d);
    /* Nothing but broken ones. */
    data_write_text("bad/a/1.png", "x");
    data_assert_refused("bad", &settings, RC_FORMAT, "'bad' holds no images");
    /* A name that is none. */
    data_write_text("named/gr\xfcn/1.png", "x");
    data_assert_refused("named", &settings, RC_FORMAT,
                        "folder 'gr\\xfcn' of 'named': name of class 0: byte 2 (0xFC) is not printable UTF-8; "
                        "rename it");
    /* A class without pictures. */
    data_write_text("root/c/readme", "x");
    data_assert_refused("root", &settings, RC_FORMAT,
                        "class folder 'root/c' holds no pictures; put some into it, or take it out");
}

static void threads_change_nothing(void **state)
{
    (void)state;
    for (int label = 0; label < 5; label++) {
        char folder[32];
        snprintf(folder, sizeof folder, "root/class%d", label);
        write_class(folder, 40 * label, 40 - label);
    }
    data_write_text("root/class2/broken.ppm", "P6 1");
    rc_data_settings settings = {.skip_broken = true, .test_part = 0.25};
    rc_dataset one, many;
    data_open("root", &settings, &one);
    assert_int_equal(rc_pool_create(4, &settings.pool), RC_OK);
    data_open("root", &settings, &many);
    rc_pool_destroy(settings.pool);
    assert_int_equal(one.train.count, many.train.count);
    assert_int_equal(one.broken, many.broken);
    assert_memory_equal(one.train.images, many.train.images, (size_t)one.train.count * 192);
    assert_memory_equal(one.test.labels, many.test.labels, (size_t)one.test.count * 4);
    rc_dataset_close(&one);
    rc_dataset_close(&many);
}

static int calls, largest;

static bool watch(void *user, const char *what, int done, int total)
{
    calls++;
    assert_true(done >= 0 && done <= total);
    assert_non_null(strstr(what, "images"));
    largest = done;
    return user == NULL;
}

static void progress_is_told_and_can_stop(void **state)
{
    (void)state;
    write_class("root/a", 0, 100);
    write_class("root/b", 100, 100);
    write_class("root/c", 0, 100);
    rc_dataset d;
    data_open("root", &(rc_data_settings){.progress = watch}, &d);
    assert_true(calls >= 3);
    assert_int_equal(largest, 300);
    rc_dataset_close(&d);
    data_assert_refused("root", &(rc_data_settings){.progress = watch, .user = &d}, RC_CANCELLED,
                        "cancelled after 0 of 300");
}

/* ---- lists ------------------------------------------------------------------------------------------------------ */

static void lists_come_in_pairs(void **state)
{
    (void)state;
    write_class("root/train/n01", 10, 2);
    write_class("root/train/n 02", 20, 1);
    write_class("root/val", 50, 2);
    data_write_text("root/train_2.txt", "train/n01/b1.ppm 0\n\ntrain/n 02/a0.ppm\t1\r\n  train/n01/a0.ppm  0");
    data_write_text("root/val_2.txt", "val/a0.ppm 1\nval/b1.ppm 0\n");
    const char *const paths[] = {"root", "root/train_2.txt"};
    for (int i = 0; i < 2; i++) {
        rc_dataset d;
        data_open(paths[i], NULL, &d);
        assert_string_equal(d.format, "list");
        assert_int_equal(d.classes, 2);
        assert_string_equal(d.class_name[0], "n01");
        assert_string_equal(d.class_name[1], "n 02");
        assert_reds(&d, &d.train, 3, (int[]){11, 20, 10});
        assert_reds(&d, &d.test, 2, (int[]){50, 51});
        assert_int_equal(d.test.labels[0], 1);
        assert_int_equal(d.left_out, i); /* what stands beside the list for validation */
        rc_dataset_close(&d);
        data_write_text("root/test_2.txt", "val/a0.ppm 1\n");
    }
    data_write_text("root/val_2.txt", "val/a0.ppm 1\nval/missing.ppm 0\n");
    data_assert_refused("root", NULL, RC_IO, "val/missing.ppm");
    data_write_text("root/val_2.txt", "val/a0.ppm 1\nval/b1.ppm\n");
    data_assert_refused("root", NULL, RC_FORMAT,
                        "'root/val_2.txt', line 2: 'val/b1.ppm', expected 'relative/path label'");
    data_write_text("root/val_2.txt", "\n");
    data_assert_refused("root", NULL, RC_FORMAT, "'root/val_2.txt' names no pictures");
}

static void a_single_list_is_split(void **state)
{
    (void)state;
    write_class("pictures", 0, 4);
    data_write_text("all.txt", "pictures/a0.ppm 0\npictures/b1.ppm 0\npictures/c2.ppm 2\npictures/a3.ppm 2\n");
    rc_dataset d;
    data_open("all.txt", &(rc_data_settings){.test_part = 0.5}, &d);
    assert_int_equal(d.classes, 3);
    assert_string_equal(d.class_name[2], "2");
    assert_int_equal(d.train.count, 2);
    assert_int_equal(d.test.count, 2);
    rc_dataset_close(&d);
}

/* Pictures that lie beside their list are in a folder that no path names. */
static void a_dot_names_no_class(void **state)
{
    (void)state;
    write_class(".", 0, 2);
    data_write_text("bare.txt", "a0.ppm 0\nb1.ppm 0\n");
    write_class(".hidden", 0, 2);
    data_write_text("hidden.txt", ".hidden/a0.ppm 0\n.hidden/b1.ppm 0\n");
    rc_dataset d;
    data_open("bare.txt", &(rc_data_settings){.test_part = 0.5}, &d);
    assert_string_equal(d.class_name[0], "0");
    rc_dataset_close(&d);
    data_open("hidden.txt", &(rc_data_settings){.test_part = 0.5}, &d);
    assert_string_equal(d.class_name[0], ".hidden");
    rc_dataset_close(&d);
}

static void parse_list(const char *text, size_t size, const char *message)
{
    rc_image_files files = {0};
    rc_status status = rc_list_parse("x", text, size, "f", &files);
    rc_image_files_free(&files);
    assert_int_equal(status, message == NULL ? RC_OK : RC_FORMAT);
    if (message != NULL)
        data_assert_message(message);
}

static void texts_of_windows_are_read(void **state)
{
    (void)state;
    rc_dataset d;
    write_class("p", 0, 2);
    data_write_text("list.txt", "\xEF\xBB\xBFp/a0.ppm 0\r\np/b1.ppm 0\r\n");
    data_open("list.txt", NULL, &d);
    assert_reds(&d, &d.train, 2, (int[]){0, 1});
    rc_dataset_close(&d);
    write_tiny();
    data_write_text("t/wnids.txt", "\xEF\xBB\xBFn02\r\nn03\r\nn01\r\n");
    data_write_text("t/val/val_annotations.txt", "\xEF\xBB\xBF\142\061.ppm\tn01\r\n");
    data_open("t", NULL, &d);
    assert_string_equal(d.class_name[0], "n02");
    assert_reds(&d, &d.test, 1, (int[]){101});
    rc_dataset_close(&d);
}

static void lines_of_lists_are_checked(void **state)
{
    (void)state;
    parse_list("a 0\nb 65535\n", 12, NULL);
    parse_list("", 0, NULL);
    parse_list("\xEF\xBB\xBFx", 4, "line 1: 'x'");
    parse_list("a 65536", 7, "line 1: 'a 65536'");
    parse_list("a 0\na -1", 8, "line 2: 'a -1'");
    parse_list("a 123456789012", 14, "line 1");
    parse_list("12", 2, "line 1: '12'");
    parse_list(" 12", 3, "line 1: '12'");
    parse_list("a\0b 1", 5, "line 1");
    parse_list("a1", 2, "line 1");
    char *text = malloc(6000);
    memset(text, 'x', 6000);
    memcpy(text + 5990, " 1", 2);
    parse_list(text, 5992, "a path of 5990 bytes, expected at most 4095");
    parse_list(text, 5000, "line 1");
    free(text);
}

/* ---- Tiny-ImageNet ---------------------------------------------------------------------------------------------- */

static void tiny_imagenet_numbers_classes_by_lines(void **state)
{
    (void)state;
    write_tiny();
    rc_dataset d;
    data_open("t", NULL, &d);
    assert_string_equal(d.format, "tiny-imagenet");
    assert_int_equal(d.h, 64);
    assert_int_equal(d.c, 3);
    assert_int_equal(d.classes, 3);
    assert_string_equal(d.class_name[0], "n02");
    assert_string_equal(d.class_name[2], "n01");
    assert_reds(&d, &d.train, 4, (int[]){20, 30, 31, 10});
    assert_reds(&d, &d.test, 3, (int[]){101, 102, 100});
    assert_int_equal(d.test.labels[0], 2);
    assert_int_equal(d.test.labels[1], 1);
    assert_true(d.mean[0] == 0.4803f && d.std[0] == 0.2764f);
    rc_dataset_close(&d);
    data_open("t", &(rc_data_settings){.resize = 8}, &d); /* as large as the pictures are */
    assert_int_equal(d.h, 8);
    assert_reds(&d, &d.train, 4, (int[]){20, 30, 31, 10});
    rc_dataset_close(&d);
    /* As it is often kept. */
    assert_int_equal(rename("t", "tiny-imagenet200"), 0);
    data_open(".", NULL, &d);
    rc_dataset_close(&d);
}

static void tiny_imagenet_names_what_is_wrong(void **state)
{
    (void)state;
    write_tiny();
    data_write_text("t/val/val_annotations.txt", "b1.ppm\tn01\nc2.ppm\tn09\n");
    data_assert_refused("t", NULL, RC_FORMAT, "'t/val/val_annotations.txt', line 2: class 'n09' is not in wnids.txt");
    data_write_text("t/val/val_annotations.txt", "b1.ppm\n");
    data_assert_refused("t", NULL, RC_FORMAT, "line 1: expected an image and its class");
    remove("t/val/val_annotations.txt");
    data_assert_refused("t", NULL, RC_IO,
                        "val_annotations.txt': No such file or directory; expected: Tiny-ImageNet: wnids.txt");
    write_tiny();
    data_write_text("t/wnids.txt", "n02\nn04\n");
    data_assert_refused("t", NULL, RC_IO, "cannot list 't/train/n04'");
    data_write_text("t/wnids.txt", "n02\n../x\n");
    data_assert_refused("t", NULL, RC_FORMAT, "'t/wnids.txt', line 2: class name '../x' holds a slash");
    data_write_text("t/wnids.txt", "n02\nn01\nn02\n");
    data_assert_refused("t", NULL, RC_FORMAT, "wnids.txt names class 'n02' twice");
    data_write("t/wnids.txt", "n02\0n01", 7);
    data_assert_refused("t", NULL, RC_FORMAT, "'t/wnids.txt' is not a text: byte 3 is zero");
    data_write_text("t/wnids.txt", "\n");
    data_assert_refused("t", NULL, RC_FORMAT, "'t/wnids.txt' names no classes");
}

/* For a look: a few images of each class, evenly spread over those that there are. */
static void a_few_images_of_each_class_are_enough(void **state)
{
    (void)state;
    write_class("few/a", 0, 10);
    write_class("few/b", 100, 3);
    write_class("few/c", 200, 4);
    static const uint8_t train[] = {0, 1, 2, 100, 101, 102, 200, 201, 202}; /* of 0 3 6 9 1 4 7 2 5 8, and so on */
    rc_dataset d;
    data_open("few", &(rc_data_settings){.per_class = 3}, &d);
    assert_int_equal(d.train.count, sizeof train);
    for (int i = 0; i < d.train.count; i++) {
        assert_int_equal(d.train.images[i * 192], train[i]);
        assert_int_equal(d.train.labels[i], i / 3);
    }
    rc_dataset_close(&d);
    data_open("few", &(rc_data_settings){.per_class = 1, .test_part = 1}, &d);
    assert_int_equal(d.train.count, 0);
    assert_int_equal(d.test.count, 3);
    rc_dataset_close(&d);
    data_open("few", &(rc_data_settings){.per_class = 10}, &d);
    assert_int_equal(d.train.count, 17);
    rc_dataset_close(&d);
}

/* Files that this process may have open; returns how many it could before. */
static rlim_t limit_files(rlim_t most)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    rlim_t before = limit.rlim_cur;
    limit.rlim_cur = most;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    return before;
}

/* Otherwise its images would be missing, and nobody would hear of it. */
static void a_folder_that_cannot_be_listed_is_not_empty(void **state)
{
    (void)state;
    rc_listing listing;
    assert_int_equal(mkdir("part", 0777), 0);
    rlim_t before = limit_files(0);
    rc_status status = rc_listing_look("part", &listing);
    limit_files(before);
    assert_int_equal(status, RC_IO);
    assert_non_null(strstr(rc_message(), "cannot list 'part'"));
    assert_int_equal(rc_listing_look("gone", &listing), RC_OK);
    assert_int_equal(listing.count, 0);
    rc_listing_free(&listing);
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, data_enter_folder, data_leave_folder)
    const struct CMUnitTest tests[] = {
        IN_FOLDER(classes_and_images_are_sorted_by_bytes),
        IN_FOLDER(a_class_that_is_spelled_in_another_way_is_found),
        IN_FOLDER(parts_have_several_names),
        IN_FOLDER(pictures_may_lie_deep_in_their_class),
        IN_FOLDER(only_files_are_pictures),
        IN_FOLDER(one_folder_is_split_by_the_rule),
        IN_FOLDER(a_few_images_of_each_class_are_enough),
        IN_FOLDER(a_class_may_be_called_train),
        IN_FOLDER(parts_are_no_classes),
        IN_FOLDER(size_and_channels_are_chosen_by_looking),
        IN_FOLDER(a_caller_may_choose_the_size),
        IN_FOLDER(broken_images_are_named_or_skipped),
        IN_FOLDER(threads_change_nothing),
        IN_FOLDER(progress_is_told_and_can_stop),
        IN_FOLDER(lists_come_in_pairs),
        IN_FOLDER(a_single_list_is_split),
        IN_FOLDER(a_dot_names_no_class),
        IN_FOLDER(texts_of_windows_are_read),
        cmocka_unit_test(lines_of_lists_are_checked),
        IN_FOLDER(a_folder_that_cannot_be_listed_is_not_empty),
        IN_FOLDER(tiny_imagenet_numbers_classes_by_lines),
        IN_FOLDER(tiny_imagenet_names_what_is_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
