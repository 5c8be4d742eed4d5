/* Folders of classes, lists and Tiny-ImageNet: what is read of many small sets, what the log says of it, and what is
 * refused in which words. Each picture has a red of its own, so the text says which picture is where. */
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

#include "support/data_told.h"

static void picture(const char *path, int red)
{
    data_write_colour(path, 4, 4, red, 1, 2);
}

static const char heic[] = "\0\0\0\030ftypheic\0\0\0\0mif1heic";

/* ---- folders of classes ------------------------------------------------------------------------------------------ */

static void folders_are_told(void **state)
{
    (void)state;
    picture("r/cat/b.ppm", 10);
    picture("r/cat/a.ppm", 11);
    picture("r/cat/in/ner/c.ppm", 12);
    picture("r/Dog/x", 20);
    picture("r/Dog/y.ppm", 21);
    TOLD("r", NULL,
         "log: 5 training and 0 test images, as 4 x 4 pixels in colour: 0.0 MB\n"
         "folder folder 4x4x3 'Dog' 'cat'\n"
         "train: 20=0 21=0 11=1 10=1 12=1\n"
         "test:\n"
         "seen 5 4x4 same, mean 0.0580 +- 0.0185, broken 0, left out 0, no pictures 0");
    TOLD("r/", &(rc_data_settings){.size = 2, .channels = 1, .format = "folder"},
         "log: 5 training and 0 test images, as 2 x 2 pixels in grey: 0.0 MB\n"
         "folder folder 2x2x1 'Dog' 'cat'\n"
         "train: 7=0 7=0 4=1 4=1 4=1\n"
         "test:\n"
         "seen 0 0x0, mean 0.0204 +- 0.0058, broken 0, left out 0, no pictures 0");
    TOLD("r", &(rc_data_settings){.progress = told_progress, .test_part = 0.5, .test_seed = 3},
         "log: 2 training and 3 test images, as 4 x 4 pixels in colour: 0.0 MB\n"
         "reading images: 0 of 2\n"
         "reading images: 2 of 2\n"
         "reading test images: 0 of 3\n"
         "reading test images: 3 of 3\n"
         "folder folder 4x4x3 'Dog' 'cat'\n"
         "train: 20=0 12=1\n"
         "test: 21=0 11=1 10=1\n"
         "seen 2 4x4 same, mean 0.0627 +- 0.0157, broken 0, left out 0, no pictures 0");
    int stop = 1;
    TOLD("r", &(rc_data_settings){.progress = told_progress, .user = &stop},
         "log: 5 training and 0 test images, as 4 x 4 pixels in colour: 0.0 MB\n"
         "reading images: 0 of 5\n"
         "reading images: 5 of 5\n"
         "7 cancelled after 5 of 5 (reading images)");
    /* What lies there besides. */
    data_write("r/cat/q.heic", heic, 24);
    data_write("r/cat/lies.jpg", heic, 24);
    data_write_text("r/cat/empty", "");
    data_write_text("r/cat/readme", "hello");
    data_write("r/cat/odd", "\1\2\3", 3);
    data_write("r/Dog/.DS_Store", "\0\0\0\1Bud1", 8);
    picture("r/Dog/.hidden.ppm", 30);
    picture("r/Dog/.trash/z.ppm", 31);
    data_write_text("r/Dog/.git/config", "x");
    picture("r/stray.ppm", 32);
    picture("r/nameless", 33);
    data_write_text("r/notes.txt", "x");
    data_write("r/film.heic", heic, 24);
    assert_int_equal(symlink("nowhere", "r/cat/gone"), 0);
    assert_int_equal(symlink("..", "r/cat/up"), 0);
    assert_int_equal(symlink("../cat/in", "r/Dog/linked"), 0);
    assert_int_equal(symlink("../cat/in/ner", "r/cat/again"), 0);
    assert_int_equal(link("r/cat/a.ppm", "r/cat/twin.ppm"), 0);
    assert_int_equal(mkfifo("r/Dog/pipe.png", 0600), 0);
    TOLD("r", NULL,
         "log: 6 training and 0 test images, as 4 x 4 pixels in colour: 0.0 MB\n"
         "warning: left out: r/film.heic (HEIC; convert it: heif-convert film.heic film.jpg)\n"
         "warning: left out: r/nameless (a picture beside the class folders; move it into the folder of its class)\n"
         "warning: left out: r/stray.ppm (a picture beside the class folders; move it into the folder of its class)\n"
         "warning: left out: r/Dog/pipe.png (a pipe, a device or a socket, no file)\n"
         "warning: left out: r/Dog/.hidden.ppm (a hidden file; rename it if it is wanted)\n"
         "warning: left out: r/Dog/.trash (a hidden folder; rename it if its pictures are wanted)\n"
         "warning: left out: r/cat/empty (empty file; copy it again, or delete it)\n"
         "warning: left out: r/cat/gone (a link that leads nowhere)\n"
         "warning: left out: r/cat/odd (unknown format; convert it to JPEG or PNG, if it is a picture)\n"
         "warning: left out: r/cat/q.heic (HEIC; convert it: heif-convert q.heic q.jpg)\n"
         "warning: left out: and 5 more\n"
         "warning: left out in all: 15 (HEIC: 3, pictures beside the class folders: 2, pipes and devices: 1, hidden "
         "files: 1, hidden folders: 1, empty file: 1, links that lead nowhere: 1, unknown format: 1, folders that are "
         "read anyway: 2, links in circles: 1, files of several names: 1)\n"
         "log: not read, because they are no pictures: r/notes.txt and 3 more\n"
         "folder folder 4x4x3 'Dog' 'cat'\n"
         "train: 20=0 21=0 11=1 10=1 12=1\n"
         "test:\n"
         "seen 6 4x4 same, mean 0.0580 +- 0.0185, broken 0, left out 15, no pictures 4");
    TOLD("r", &(rc_data_settings){.told = true},
         "log: 6 training and 0 test images, as 4 x 4 pixels in colour: 0.0 MB\n"
         "folder folder 4x4x3 'Dog' 'cat'\n"
         "train: 20=0 21=0 11=1 10=1 12=1\n"
         "test:\n"
         "seen 6 4x4 same, mean 0.0580 +- 0.0185, broken 0, left out 15, no pictures 4");
    data_write_text("r/cat/broken.ppm", "P6 4 4 255\nshort");
    TOLD("r", &(rc_data_settings){.told = true},
         "log: 7 training and 0 test images, as 4 x 4 pixels in colour: 0.0 MB\n"
         "4 cannot decode 'r/cat/broken.ppm': truncated: 6 bytes of pixels for 4 x 4 (broken images can be skipped: "
         "the setting 'skip_broken')");
    TOLD("r", &(rc_data_settings){.told = true, .skip_broken = true},
         "log: 7 training and 0 test images, as 4 x 4 pixels in colour: 0.0 MB\n"
         "warning: skipped: cannot decode 'r/cat/broken.ppm': truncated: 6 bytes of pixels for 4 x 4\n"
         "warning: skipped 1 of 7 images\n"
         "folder folder 4x4x3 'Dog' 'cat'\n"
         "train: 20=0 21=0 11=1 10=1 12=1\n"
         "test:\n"
         "seen 7 4x4 same, mean 0.0580 +- 0.0185, broken 1, left out 15, no pictures 4");
    told_is_right();
}

static void parts_of_folders_are_told(void **state)
{
    (void)state;
    picture("r/train/a/1.ppm", 10);
    picture("r/train/b/1.ppm", 20);
    picture("r/train/b/2.ppm", 21);
    TOLD("r", NULL,
         "log: 3 training and 0 test images, as 4 x 4 pixels in colour: 0.0 MB\n"
         "folder folder 4x4x3 'a' 'b'\n"
         "train: 10=0 20=1 21=1\n"
         "test:\n"
         "seen 3 4x4 same, mean 0.0667 +- 0.0195, broken 0, left out 0, no pictures 0");
    picture("r/val/b/1.ppm", 40);
    TOLD("r", &(rc_data_settings){.test_part = 0.5},
         "log: 3 training and 1 test images, as 4 x 4 pixels in colour: 0.0 MB\n"
         "folder folder 4x4x3 'a' 'b'\n"
         "train: 10=0 20=1 21=1\n"
         "test: 40=1\n"
         "seen 3 4x4 same, mean 0.0667 +- 0.0195, broken 0, left out 0, no pictures 0");
    picture("r/test/a/1.ppm", 30);
    picture("r/test/b/1.ppm", 31);
    picture("r/other/c/1.ppm", 50);
    picture("r/train/stray.ppm", 51);
    assert_int_equal(link("r/test/a/1.ppm", "r/train/a/same.ppm"), 0);
    TOLD("r", NULL,
         "log: 3 training and 2 test images, as 4 x 4 pixels in colour: 0.0 MB\n"
         "warning: left out: r/other (a folder beside train/ and test/, which are read)\n"
         "warning: left out: r/val (a folder beside train/ and test/, which are read)\n"
         "warning: left out: r/train/stray.ppm (a picture beside the class folders; move it into the folder of its "
         "class)\n"
         "warning: left out: r/train/a/same.ppm (a test image, too, which is not trained on)\n"
         "warning: left out in all: 4 (folders beside the classes: 2, pictures beside the class folders: 1, training "
         "images that are test images: 1)\n"
         "folder folder 4x4x3 'a' 'b'\n"
         "train: 10=0 20=1 21=1\n"
         "test: 30=0 31=1\n"
         "seen 3 4x4 same, mean 0.0667 +- 0.0195, broken 0, left out 4, no pictures 0");
    TOLD("r", &(rc_data_settings){.per_class = 1, .progress = told_progress},
         "log: 2 training and 2 test images, as 4 x 4 pixels in colour: 0.0 MB\n"
         "reading images: 0 of 2\n"
         "reading images: 2 of 2\n"
         "reading test images: 0 of 2\n"
         "reading test images: 2 of 2\n"
         "warning: left out: r/other (a folder beside train/ and test/, which are read)\n"
         "warning: left out: r/val (a folder beside train/ and test/, which are read)\n"
         "warning: left out: r/train/stray.ppm (a picture beside the class folders; move it into the folder of its "
         "class)\n"
         "warning: left out: r/train/a/same.ppm (a test image, too, which is not trained on)\n"
         "warning: left out in all: 4 (folders beside the classes: 2, pictures beside the class folders: 1, training "
         "images that are test images: 1)\n"
         "folder folder 4x4x3 'a' 'b'\n"
         "train: 10=0 20=1\n"
         "test: 30=0 31=1\n"
         "seen 2 4x4 same, mean 0.0588 +- 0.0196, broken 0, left out 4, no pictures 0");
    picture("r/test/c/1.ppm", 60);
    TOLD("r", NULL, "4 'r/test' has a class 'c' that the training set does not have; rename it, or take it out");
    picture("v/val/a/1.ppm", 10);
    TOLD("v", NULL,
         "log: 0 training and 1 test images, as 4 x 4 pixels in colour: 0.0 MB\n"
         "folder folder 4x4x3 'a'\n"
         "train:\n"
         "test: 10=0\n"
         "seen 1 4x4 same, mean 0.0392 +- 1.0000, broken 0, left out 0, no pictures 0");
    /* More pictures than folders: a class. */
    picture("t/train/in/1.ppm", 10);
    picture("t/train/2.ppm", 11);
    picture("t/car/3.ppm", 12);
    TOLD("t", NULL,
         "log: 3 training and 0 test images, as 4 x 4 pixels in colour: 0.0 MB\n"
         "folder folder 4x4x3 'car' 'train'\n"
         "train: 12=0 11=1 10=1\n"
         "test:\n"
         "seen 3 4x4 same, mean 0.0431 +- 0.0032, broken 0, left out 0, no pictures 0");
    picture("t/train/4.ppm", 13);
    TOLD("t", NULL,
         "log: 4 training and 0 test images, as 4 x 4 pixels in colour: 0.0 MB\n"
         "folder folder 4x4x3 'car' 'train'\n"
         "train: 12=0 11=1 13=1 10=1\n"
         "test:\n"
         "seen 4 4x4 same, mean 0.0451 +- 0.0044, broken 0, left out 0, no pictures 0");
    told_is_right();
}

static void wrong_folders_are_told(void **state)
{
    (void)state;
    assert_int_equal(mkdir("empty", 0777), 0);
    TOLD("empty", NULL, "4 'empty' is empty; expected a folder of pictures for each class, named like it");
    TOLD("empty/", &(rc_data_settings){.format = "folder"},
         "4 'empty/' is empty; expected a folder of pictures for each class, named like it");
    TOLD("empty", &(rc_data_settings){.format = "list"},
         "4 'empty' is not a data set that recollect knows; expected: lists: FOLDER/train*.txt and val*.txt or "
         "test*.txt, or one list; lines 'relative/path label'");
    picture("flat/1.ppm", 1);
    TOLD("flat", NULL,
         "4 'flat' holds 1 picture, but each class needs a folder of its own, named like it: for example "
         "flat/cat/1.ppm");
    picture("flat/2.ppm", 1);
    TOLD("flat/", NULL,
         "4 'flat/' holds 2 pictures, but each class needs a folder of its own, named like it: for example "
         "flat/cat/1.ppm");
    TOLD("flat/1.ppm", NULL,
         "4 'flat/1.ppm' is one picture; expected a folder that holds a folder of pictures for each class");
    data_write("set.zip", "PK\3\4", 4);
    TOLD(
        "set.zip", NULL,
        "4 'set.zip' is one file, no data set (archive; unpack it, if it holds pictures); expected a folder that holds "
        "a folder of pictures for each class");
    data_write("set.xlsx", "PK\3\4", 4);
    TOLD("set.xlsx", NULL,
         "4 'set.xlsx' is one file, no data set (spreadsheet; save its table as CSV in UTF-8); expected a folder that "
         "holds a folder of pictures for each class");
    data_write("set", "P5 1 1 1\n0", 10);
    TOLD("set", NULL, "4 'set' is one picture; expected a folder that holds a folder of pictures for each class");
    data_write_text("none/a/readme.txt", "x");
    TOLD(
        "none", NULL,
        "4 'none' holds 1 folder, but no picture in it; expected * files in a folder for each class: none/CLASS/IMAGE");
    data_write_text("none/b/readme.txt", "x");
    TOLD("none/", NULL,
         "4 'none/' holds 2 folders, but no picture in them; expected * files in a folder for each class: "
         "none/CLASS/IMAGE");
    data_write("none/b/x.heic", heic, 24);
    TOLD("none", NULL,
         "4 'none' holds 2 folders, but no picture in them; expected * files in a folder for each class: "
         "none/CLASS/IMAGE; there is none/b/x.heic (HEIC; convert it: heif-convert x.heic x.jpg)");
    data_write("files/x.heic", heic, 24);
    TOLD("files", NULL,
         "4 'files' holds no picture that is read, and no folder for a class; there is files/x.heic (HEIC; convert it: "
         "heif-convert x.heic x.jpg)");
    data_write_text("words/x.txt", "x");
    TOLD("words", NULL,
         "4 'words' is not a data set that recollect knows; expected: folders of pictures (*): "
         "{train,test|val}/CLASS/IMAGE, or CLASS/IMAGE | csv: a table PATH.csv of pictures and classes, or "
         "train*.csv and val*.csv or test*.csv | lists: FOLDER/train*.txt and val*.txt or test*.txt, or one list; "
         "lines 'relative/path label' | pack: a file that 'recollect pack' has made | Tiny-ImageNet: wnids.txt, "
         "train/WNID/images/IMAGE, val/images/IMAGE, val/val_annotations.txt | MNIST, Fashion-MNIST: "
         "{train,t10k}-images-idx3-ubyte[.gz] and {train,t10k}-labels-idx1-ubyte[.gz] | CIFAR-10: "
         "data_batch_{1..5}[.bin] test_batch[.bin], or cifar-10-{python,binary}.tar.gz | CIFAR-100: train.bin "
         "test.bin, or train test meta, or cifar-100-{python,binary}.tar.gz");
    TOLD("words/x.txt", NULL,
         "4 'words/x.txt', line 1: 'x', expected 'relative/path label' with a label from 0 to 65535");
    TOLD("gone", NULL, "3 there is no data at 'gone'");
    told_is_right();
}

static void classes_that_are_wrong_are_told(void **state)
{
    (void)state;
    picture("half/a/1.ppm", 1);
    data_write_text("half/b/readme.txt", "x");
    TOLD("half", NULL, "4 class folder 'half/b' holds no pictures; put some into it, or take it out");
    data_write("half/b/x.heic", heic, 24);
    TOLD("half", NULL,
         "4 class folder 'half/b' holds no pictures, only what is not read: half/b/x.heic (HEIC; convert it: "
         "heif-convert x.heic x.jpg); put some into it, or take it out");
    picture("named/g\xfcn/1.ppm", 1);
    TOLD("named", NULL,
         "4 folder 'g\\xfcn' of 'named': name of class 0: byte 1 (0xFC) is not printable UTF-8; rename it");
    picture("two/a/1.ppm", 1);
    picture("two/b/2.ppm", 2);
    assert_int_equal(link("two/a/1.ppm", "two/b/1.ppm"), 0);
    TOLD("two", NULL,
         "4 'two/a/1.ppm' and 'two/b/1.ppm' are the same file, which would be of class 'a' and of class 'b'; take one "
         "of them out");
    picture("ring/a/1.ppm", 1);
    assert_int_equal(symlink("..", "ring/b"), 0);
    TOLD("ring", NULL, "4 class folder 'ring/b' is a link that leads back to the data set; take it out");
    picture("same/a/1.ppm", 1);
    assert_int_equal(symlink("a", "same/b"), 0);
    TOLD("same", NULL, "4 class folder 'same/b' is the same folder as that of class 'a'; take one of them out");
    picture("lost/a/1.ppm", 1);
    assert_int_equal(symlink("nowhere", "lost/a/2.ppm"), 0);
    TOLD("lost", NULL,
         "log: 2 training and 0 test images, as 4 x 4 pixels in colour: 0.0 MB\n"
         "3 cannot open 'lost/a/2.ppm': No such file or directory (broken images can be skipped: the setting "
         "'skip_broken')");
    picture("deep/a/x.ppm", 3);
    picture("deep/a/1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/x.ppm", 1);
    TOLD("deep", NULL,
         "log: 2 training and 0 test images, as 4 x 4 pixels in colour: 0.0 MB\n"
         "folder folder 4x4x3 'a'\n"
         "train: 1=0 3=0\n"
         "test:\n"
         "seen 2 4x4 same, mean 0.0078 +- 0.0039, broken 0, left out 0, no pictures 0");
    picture("deep/a/1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17/x.ppm", 2);
    TOLD("deep", NULL, "4 'deep/a/1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17': folders are nested deeper than 16");
    data_write_text("broken/a/1.ppm", "P6 1");
    TOLD("broken", NULL,
         "log: 1 training and 0 test images, as 32 x 32 pixels in colour: 0.0 MB\n"
         "4 cannot decode 'broken/a/1.ppm': the header of P6 has no width, height and largest value up to 65535 "
         "(broken images can be skipped: the setting 'skip_broken')");
    TOLD("broken", &(rc_data_settings){.skip_broken = true, .size = 4, .channels = 3},
         "log: 1 training and 0 test images, as 4 x 4 pixels in colour: 0.0 MB\n"
         "warning: skipped: cannot decode 'broken/a/1.ppm': the header of P6 has no width, height and largest value up "
         "to 65535\n"
         "warning: skipped 1 of 1 images\n"
         "4 'broken' holds no images; expected: folders of pictures (*): {train,test|val}/CLASS/IMAGE, or CLASS/IMAGE");
    TOLD("broken", &(rc_data_settings){.skip_broken = true},
         "log: 1 training and 0 test images, as 32 x 32 pixels in colour: 0.0 MB\n"
         "warning: skipped: cannot decode 'broken/a/1.ppm': the header of P6 has no width, height and largest value up "
         "to 65535\n"
         "warning: skipped 1 of 1 images\n"
         "4 'broken' holds no images; expected: folders of pictures (*): {train,test|val}/CLASS/IMAGE, or CLASS/IMAGE");
    told_is_right();
}

static void shape(const char *path, int h, int w)
{
    data_write_colour(path, h, w, 9, 1, 2);
}

static void sizes_are_told(void **state)
{
    (void)state;
    shape("r/a/1.ppm", 64, 64);
    TOLD("r", &(rc_data_settings){.told = true},
         "log: 1 training and 0 test images, as 64 x 64 pixels in colour: 0.0 MB\n"
         "folder folder 64x64x3 'a'\n"
         "train: 9=0\n"
         "test:\n"
         "seen 1 64x64 same, mean 0.0353 +- 1.0000, broken 0, left out 0, no pictures 0");
    shape("r/a/2.ppm", 63, 70); /* the larger of the two is the one in the middle */
    TOLD("r", NULL,
         "log: 2 training and 0 test images, as 64 x 64 pixels in colour: 0.0 MB\n"
         "folder folder 64x64x3 'a'\n"
         "train: 9=0 9=0\n"
         "test:\n"
         "seen 2 64x64, mean 0.0353 +- 1.0000, broken 0, left out 0, no pictures 0");
    shape("r/a/3.ppm", 63, 80);
    TOLD("r", NULL,
         "log: 3 training and 0 test images, as 32 x 32 pixels in colour: 0.0 MB\n"
         "folder folder 32x32x3 'a'\n"
         "train: 9=0 9=0 9=0\n"
         "test:\n"
         "seen 3 63x80, mean 0.0353 +- 1.0000, broken 0, left out 0, no pictures 0");
    TOLD("r", &(rc_data_settings){.resize = 20},
         "log: 3 training and 0 test images, as 20 x 20 pixels in colour: 0.0 MB\n"
         "folder folder 20x20x3 'a'\n"
         "train: 9=0 9=0 9=0\n"
         "test:\n"
         "seen 3 63x80, mean 0.0353 +- 1.0000, broken 0, left out 0, no pictures 0");
    TOLD("r", &(rc_data_settings){.resize = 70},
         "log: 3 training and 0 test images, as 32 x 32 pixels in colour: 0.0 MB\n"
         "folder folder 32x32x3 'a'\n"
         "train: 9=0 9=0 9=0\n"
         "test:\n"
         "seen 3 63x80, mean 0.0353 +- 1.0000, broken 0, left out 0, no pictures 0");
    TOLD("r", &(rc_data_settings){.choose = told_size},
         "asked: 3 63x80\n"
         "log: 3 training and 0 test images, as 10 x 10 pixels in colour: 0.0 MB\n"
         "folder folder 10x10x3 'a'\n"
         "train: 9=0 9=0 9=0\n"
         "test:\n"
         "seen 3 63x80, mean 0.0353 +- 1.0000, broken 0, left out 0, no pictures 0");
    TOLD("r", &(rc_data_settings){.choose = told_size, .size = 5, .channels = 3},
         "log: 3 training and 0 test images, as 5 x 5 pixels in colour: 0.0 MB\n"
         "folder folder 5x5x3 'a'\n"
         "train: 9=0 9=0 9=0\n"
         "test:\n"
         "seen 0 0x0, mean 0.0353 +- 1.0000, broken 0, left out 0, no pictures 0");
    TOLD("r", &(rc_data_settings){.size = 300, .channels = 3, .test_part = 0.34},
         "log: 2 training and 1 test images, as 300 x 300 pixels in colour: 0.8 MB\n"
         "folder folder 300x300x3 'a'\n"
         "train: 9=0 9=0\n"
         "test: 9=0\n"
         "seen 0 0x0, mean 0.0353 +- 1.0000, broken 0, left out 0, no pictures 0");
    TOLD("r", &(rc_data_settings){.size = 700, .channels = 1, .test_part = 1},
         "log: 0 training and 3 test images, as 700 x 700 pixels in grey: 1.5 MB\n"
         "folder folder 700x700x1 'a'\n"
         "train:\n"
         "test: 4=0 4=0 4=0\n"
         "seen 0 0x0, mean 0.0157 +- 1.0000, broken 0, left out 0, no pictures 0");
    told_is_right();
}

static void sizes_of_squares_and_strips_are_told(void **state)
{
    (void)state;
    shape("s/a/1.ppm", 65, 65);
    TOLD("s", NULL,
         "log: 1 training and 0 test images, as 64 x 64 pixels in colour: 0.0 MB\n"
         "folder folder 64x64x3 'a'\n"
         "train: 9=0\n"
         "test:\n"
         "seen 1 65x65 same, mean 0.0353 +- 1.0000, broken 0, left out 0, no pictures 0");
    shape("q/a/1.ppm", 40, 41);
    TOLD("q", NULL,
         "log: 1 training and 0 test images, as 32 x 32 pixels in colour: 0.0 MB\n"
         "folder folder 32x32x3 'a'\n"
         "train: 9=0\n"
         "test:\n"
         "seen 1 40x41, mean 0.0353 +- 1.0000, broken 0, left out 0, no pictures 0");
    shape("p/a/1.ppm", 40, 40);
    shape("p/a/2.ppm", 41, 41);
    TOLD("p", NULL,
         "log: 2 training and 0 test images, as 32 x 32 pixels in colour: 0.0 MB\n"
         "folder folder 32x32x3 'a'\n"
         "train: 9=0 9=0\n"
         "test:\n"
         "seen 2 41x41, mean 0.0353 +- 1.0000, broken 0, left out 0, no pictures 0");
    data_write_text("g/a/1.pgm", "P2 2 2 255 9 9 9 9\n");
    TOLD("g", NULL,
         "log: 1 training and 0 test images, as 2 x 2 pixels in grey: 0.0 MB\n"
         "folder folder 2x2x1 'a'\n"
         "train: 9=0\n"
         "test:\n"
         "seen 1 2x2 same, mean 0.0353 +- 1.0000, broken 0, left out 0, no pictures 0");
    shape("g/a/2.ppm", 2, 2);
    TOLD("g", NULL,
         "log: 2 training and 0 test images, as 2 x 2 pixels in colour: 0.0 MB\n"
         "folder folder 2x2x3 'a'\n"
         "train: 9=0 9=0\n"
         "test:\n"
         "seen 2 2x2 same, mean 0.0353 +- 1.0000, broken 0, left out 0, no pictures 0");
    TOLD("g", &(rc_data_settings){.channels = 1},
         "log: 2 training and 0 test images, as 2 x 2 pixels in grey: 0.0 MB\n"
         "folder folder 2x2x1 'a'\n"
         "train: 9=0 4=0\n"
         "test:\n"
         "seen 2 2x2 same, mean 0.0255 +- 0.0098, broken 0, left out 0, no pictures 0");
    TOLD("g", &(rc_data_settings){.size = 3},
         "log: 2 training and 0 test images, as 3 x 3 pixels in colour: 0.0 MB\n"
         "folder folder 3x3x3 'a'\n"
         "train: 9=0 9=0\n"
         "test:\n"
         "seen 2 2x2 same, mean 0.0353 +- 1.0000, broken 0, left out 0, no pictures 0");
    for (int i = 0; i < 130; i++) { /* every second is looked at */
        char path[32];
        snprintf(path, sizeof path, "m/a/%03d.ppm", i);
        shape(path, i % 2 == 0 ? 3 : 5, i == 128 ? 30 : i % 2 == 0 ? 3 : 5);
    }
    TOLD("m", &(rc_data_settings){.choose = told_size, .per_class = 129},
         "asked: 129 5x5\n"
         "log: 129 training and 0 test images, as 10 x 10 pixels in colour: 0.0 MB\n"
         "folder folder 10x10x3 'a'\n"
         "train: 9=0 9=0 9=0 9=0 9=0 9=0 9=0 9=0 9=0 9=0 9=0 9=0 of 129\n"
         "test:\n"
         "seen 129 5x5, mean 0.0353 +- 1.0000, broken 0, left out 0, no pictures 0");
    told_is_right();
}

/* ---- lists ------------------------------------------------------------------------------------------------------- */

static void write_list(void)
{
    picture("l/p/n1/a.ppm", 10);
    picture("l/p/n1/b c.ppm", 11);
    picture("l/p/n2/a.ppm", 20);
    picture("l/v/a.ppm", 30);
    picture("l/v/b.ppm", 31);
    data_write_text("l/train_3.txt", "  p/n2/a.ppm \t 2\r\n\np/n1/b c.ppm 0\np/n1/a.ppm 0");
}

static void lists_are_told(void **state)
{
    (void)state;
    write_list();
    TOLD("l/train_3.txt", NULL,
         "log: 3 training and 0 test images, as 4 x 4 pixels in colour: 0.0 MB\n"
         "list list 4x4x3 'n1' '1' 'n2'\n"
         "train: 20=2 11=0 10=0\n"
         "test:\n"
         "seen 3 4x4 same, mean 0.0536 +- 0.0176, broken 0, left out 0, no pictures 0");
    TOLD("l", NULL,
         "log: 5 training and 0 test images, as 4 x 4 pixels in colour: 0.0 MB\n"
         "log: not read, because it is no picture: l/train_3.txt\n"
         "folder folder 4x4x3 'p' 'v'\n"
         "train: 10=0 11=0 20=0 30=1 31=1\n"
         "test:\n"
         "seen 5 4x4 same, mean 0.0800 +- 0.0351, broken 0, left out 0, no pictures 1");
    data_write_text("l/test_3.txt", "v/b.ppm 2\n");
    TOLD("l", NULL,
         "log: 3 training and 1 test images, as 4 x 4 pixels in colour: 0.0 MB\n"
         "list list 4x4x3 'n1' '1' 'n2'\n"
         "train: 20=2 11=0 10=0\n"
         "test: 31=2\n"
         "seen 3 4x4 same, mean 0.0536 +- 0.0176, broken 0, left out 0, no pictures 0");
    data_write_text("l/val_3.txt", "v/a.ppm 3\n");
    TOLD("l", &(rc_data_settings){.test_part = 0.5},
         "log: 3 training and 1 test images, as 4 x 4 pixels in colour: 0.0 MB\n"
         "warning: left out: l/test_3.txt (beside val_3.txt, which is read)\n"
         "warning: left out in all: 1 (lists and tables for testing: 1)\n"
         "list list 4x4x3 'n1' '1' 'n2' '3'\n"
         "train: 20=2 11=0 10=0\n"
         "test: 30=3\n"
         "seen 3 4x4 same, mean 0.0536 +- 0.0176, broken 0, left out 1, no pictures 0");
    TOLD("l/train_3.txt", &(rc_data_settings){.format = "list", .per_class = 1},
         "log: 2 training and 1 test images, as 4 x 4 pixels in colour: 0.0 MB\n"
         "warning: left out: l/test_3.txt (beside val_3.txt, which is read)\n"
         "warning: left out in all: 1 (lists and tables for testing: 1)\n"
         "list list 4x4x3 'n1' '1' 'n2' '3'\n"
         "train: 20=2 11=0\n"
         "test: 30=3\n"
         "seen 2 4x4 same, mean 0.0608 +- 0.0176, broken 0, left out 1, no pictures 0");
    TOLD("l/test_3.txt", NULL,
         "log: 1 training and 0 test images, as 4 x 4 pixels in colour: 0.0 MB\n"
         "list list 4x4x3 '0' '1' 'v'\n"
         "train: 31=2\n"
         "test:\n"
         "seen 1 4x4 same, mean 0.1216 +- 1.0000, broken 0, left out 0, no pictures 0");
    told_is_right();
}

static void lines_and_pairs_of_lists_are_told(void **state)
{
    (void)state;
    char here[512], line[700];
    assert_non_null(getcwd(here, sizeof here));
    write_list();
    data_write_text("l/val_3.txt", "v/a.ppm 1 x\n");
    TOLD("l", NULL,
         "4 'l/val_3.txt', line 1: 'v/a.ppm 1 x', expected 'relative/path label' with a label from 0 to 65535");
    data_write_text("l/val_3.txt", "v/a.ppm 1\n\n  v/a.ppm 65536 \n");
    TOLD("l", NULL,
         "4 'l/val_3.txt', line 3: 'v/a.ppm 65536', expected 'relative/path label' with a label from 0 to 65535");
    data_write_text("l/val_3.txt", " \n");
    TOLD("l", NULL,
         "4 'l/val_3.txt' names no pictures; expected: lists: FOLDER/train*.txt and val*.txt or test*.txt, or one "
         "list; lines 'relative/path label'");
    snprintf(line, sizeof line, "%.500s/l/v/a.ppm 0\nv/b.ppm 0\nv/b.ppm 0\np/n2/a.ppm 2\n", here);
    data_write_text("l/val_3.txt", line);
    TOLD("l", NULL,
         "log: 2 training and 3 test images, as 4 x 4 pixels in colour: 0.0 MB\n"
         "warning: left out: l/v/b.ppm (named in a line before, too)\n"
         "warning: left out: l/p/n2/a.ppm (a test image, too, which is not trained on)\n"
         "warning: left out in all: 2 (files of several names: 1, training images that are test images: 1)\n"
         "list list 4x4x3 'n1' '1' 'n2'\n"
         "train: 11=0 10=0\n"
         "test: 30=0 31=0 20=2\n"
         "seen 2 4x4 same, mean 0.0412 +- 0.0020, broken 0, left out 2, no pictures 0");
    data_write_text("l/train_4.txt", "p/n1/a.ppm 0\n");
    TOLD("l", NULL,
         "log: 2 training and 3 test images, as 4 x 4 pixels in colour: 0.0 MB\n"
         "warning: left out: l/v/b.ppm (named in a line before, too)\n"
         "warning: left out: l/p/n2/a.ppm (a test image, too, which is not trained on)\n"
         "warning: left out in all: 2 (files of several names: 1, training images that are test images: 1)\n"
         "list list 4x4x3 'n1' '1' 'n2'\n"
         "train: 11=0 10=0\n"
         "test: 30=0 31=0 20=2\n"
         "seen 2 4x4 same, mean 0.0412 +- 0.0020, broken 0, left out 2, no pictures 0");
    data_write_text("l/val_4.txt", "v/a.ppm 0\n");
    TOLD("l", &(rc_data_settings){.format = "list"},
         "4 'l' is not a data set that recollect knows; expected: lists: FOLDER/train*.txt and val*.txt or test*.txt, "
         "or one list; lines 'relative/path label'"); /* two pairs */
    data_write_text("l/train_100.txt", "p/n1/a.ppm 0\np/n2/a.ppm 0\nv/a.ppm 1\n");
    TOLD("l", &(rc_data_settings){.format = "list"},
         "4 'l' is not a data set that recollect knows; expected: lists: FOLDER/train*.txt and val*.txt or test*.txt, "
         "or one list; lines 'relative/path label'");
    data_write_text("l/val_100.txt", "v/b.ppm 99\n");
    TOLD("l", &(rc_data_settings){.size = 4, .channels = 3},
         "log: 3 training and 1 test images, as 4 x 4 pixels in colour: 0.0 MB\n"
         "list imagenet100 4x4x3 '0' '1' '2' '3' '4' '5' '6' '7' '8' '9' '10' '11' of 100\n"
         "train: 10=0 20=0 30=1\n"
         "test: 31=99\n"
         "seen 0 0x0, mean 0.4850 +- 0.2290, broken 0, left out 0, no pictures 0");
    /* Two classes of one folder have numbers. */
    data_write_text("all.txt", "l/v/a.ppm 0\nl/v/b.ppm 1\n");
    TOLD("all.txt", &(rc_data_settings){.test_part = 0.5},
         "log: 2 training and 0 test images, as 4 x 4 pixels in colour: 0.0 MB\n"
         "list list 4x4x3 '0' '1'\n"
         "train: 30=0 31=1\n"
         "test:\n"
         "seen 2 4x4 same, mean 0.1196 +- 0.0020, broken 0, left out 0, no pictures 0");
    data_write_text("one.txt", "l/v/a.ppm 0\nl/v/gone.ppm 1\n");
    TOLD("one.txt", NULL,
         "log: 2 training and 0 test images, as 4 x 4 pixels in colour: 0.0 MB\n"
         "3 cannot open './l/v/gone.ppm': No such file or directory (broken images can be skipped: the setting "
         "'skip_broken'); expected: lists: FOLDER/train*.txt and val*.txt or test*.txt, or one list; lines "
         "'relative/path label'");
    data_write_text("l/v/flat.txt", "a.ppm 0\nb.ppm 0\n");
    TOLD("l/v/flat.txt", NULL,
         "log: 2 training and 0 test images, as 4 x 4 pixels in colour: 0.0 MB\n"
         "list list 4x4x3 'v'\n"
         "train: 30=0 31=0\n"
         "test:\n"
         "seen 2 4x4 same, mean 0.1196 +- 0.0020, broken 0, left out 0, no pictures 0");
    assert_int_equal(rename("l/v", "w"), 0);
    TOLD("w/flat.txt", &(rc_data_settings){.told = true},
         "log: 2 training and 0 test images, as 4 x 4 pixels in colour: 0.0 MB\n"
         "list list 4x4x3 'w'\n"
         "train: 30=0 31=0\n"
         "test:\n"
         "seen 2 4x4 same, mean 0.1196 +- 0.0020, broken 0, left out 0, no pictures 0");
    assert_int_equal(rename("w", "l/v"), 0);
    data_write_text("c.txt", "l/v/a.ppm 0\nl/v/a.ppm 1\n");
    TOLD("c.txt", NULL, "4 './l/v/a.ppm' is named in two lines, of class '0' and of class '1'; take one of them out");
    told_is_right();
}

/* ---- Tiny-ImageNet ----------------------------------------------------------------------------------------------- */

static void tiny_imagenet_is_told(void **state)
{
    (void)state;
    const rc_data_settings small = {.size = 4};
    picture("t/train/n2/images/a.ppm", 20);
    picture("t/train/n1/images/a.ppm", 10);
    picture("t/train/n1/images/b.ppm", 11);
    picture("t/val/images/x.ppm", 30);
    picture("t/val/images/y.ppm", 31);
    data_write_text("t/wnids.txt", "n2\r\n\nn1");
    data_write_text("t/val/val_annotations.txt", "y.ppm\tn1\t0\t0\n\nx.ppm n2 7\r\n");
    TOLD("t", &small,
         "log: 3 training and 2 test images, as 4 x 4 pixels in colour: 0.0 MB\n"
         "tiny-imagenet tiny-imagenet 4x4x3 'n2' 'n1'\n"
         "train: 20=0 10=1 11=1\n"
         "test: 31=1 30=0\n"
         "seen 0 0x0, mean 0.4803 +- 0.2764, broken 0, left out 0, no pictures 0");
    TOLD("t", &(rc_data_settings){.resize = 5, .channels = 1},
         "log: 3 training and 2 test images, as 5 x 5 pixels in grey: 0.0 MB\n"
         "tiny-imagenet tiny-imagenet 5x5x1 'n2' 'n1'\n"
         "train: 7=0 4=1 4=1\n"
         "test: 10=1 10=0\n"
         "seen 0 0x0, mean 0.0196 +- 0.0055, broken 0, left out 0, no pictures 0");
    TOLD("t", &(rc_data_settings){.choose = told_size},
         "asked: 3 4x4 same\n"
         "log: 3 training and 2 test images, as 10 x 10 pixels in colour: 0.0 MB\n"
         "tiny-imagenet tiny-imagenet 10x10x3 'n2' 'n1'\n"
         "train: 20=0 10=1 11=1\n"
         "test: 31=1 30=0\n"
         "seen 3 4x4 same, mean 0.4803 +- 0.2764, broken 0, left out 0, no pictures 0");
    data_write_text("t/val/val_annotations.txt", "y.ppm\tn1\n\nx.ppm n3 7\n");
    TOLD("t", &small, "4 't/val/val_annotations.txt', line 3: class 'n3' is not in wnids.txt");
    data_write_text("t/val/val_annotations.txt", "y.ppm\n");
    TOLD("t", &small, "4 't/val/val_annotations.txt', line 1: expected an image and its class with a tab between them");
    data_write_text("t/val/val_annotations.txt", "\ty.ppm\n");
    TOLD("t", &small, "4 't/val/val_annotations.txt', line 1: expected an image and its class with a tab between them");
    data_write("t/val/val_annotations.txt", "y.ppm\tn1\n\0", 10);
    TOLD("t", &small, "4 't/val/val_annotations.txt' is not a text: byte 9 is zero");
    data_write_text("t/val/val_annotations.txt", "z.ppm\tn1\n");
    TOLD("t", &small,
         "log: 3 training and 1 test images, as 4 x 4 pixels in colour: 0.0 MB\n"
         "3 cannot open 't/val/images/z.ppm': No such file or directory (broken images can be skipped: the setting "
         "'skip_broken'); expected: Tiny-ImageNet: wnids.txt, train/WNID/images/IMAGE, val/images/IMAGE, "
         "val/val_annotations.txt");
    data_write_text("t/wnids.txt", "n2\nn2\n");
    TOLD("t", &small, "4 wnids.txt names class 'n2' twice");
    data_write_text("t/wnids.txt", "n2\n\na/b\n");
    TOLD("t", &small, "4 't/wnids.txt', line 3: class name 'a/b' holds a slash");
    data_write_text("t/wnids.txt", "n2\n\xff\n");
    TOLD("t", &small, "4 't/wnids.txt', line 2: name of class 1: byte 0 (0xFF) is not printable UTF-8");
    data_write_text("t/wnids.txt", "");
    TOLD("t", &small, "4 't/wnids.txt' names no classes");
    data_write("t/wnids.txt", "\0", 1);
    TOLD("t", &small, "4 't/wnids.txt' is not a text: byte 0 is zero");
    data_write_text("t/train/n3/notes.txt", "x");
    data_write_text("t/wnids.txt", "n2\nn3\n");
    TOLD("t", &small,
         "4 class folder 't/train/n3' holds no pictures; expected: Tiny-ImageNet: wnids.txt, train/WNID/images/IMAGE, "
         "val/images/IMAGE, val/val_annotations.txt");
    /* Validation images that were sorted into folders. */
    data_write_text("t/wnids.txt", "n2\nn1\n");
    assert_int_equal(rename("t/val/images", "t/val/n1"), 0);
    TOLD("t", &small,
         "3 cannot list 't/val/n2': No such file or directory; expected: Tiny-ImageNet: wnids.txt, "
         "train/WNID/images/IMAGE, val/images/IMAGE, val/val_annotations.txt");
    picture("t/val/n2/z.ppm", 40);
    assert_int_equal(link("t/val/n2/z.ppm", "t/train/n2/images/z.ppm"), 0);
    assert_int_equal(symlink("../../../val/n2", "t/train/n2/images/more"), 0);
    picture("far/1/w.ppm", 50);
    picture("far/2/w.ppm", 51);
    assert_int_equal(symlink("../../../../far/1", "t/train/n1/images/away"), 0);
    assert_int_equal(symlink("../../../far/2", "t/val/n1/away"), 0);
    TOLD("t", &small,
         "log: 4 training and 4 test images, as 4 x 4 pixels in colour: 0.0 MB\n"
         "warning: left out: t/train/n3 (wnids.txt does not name it; add it there if it is a class)\n"
         "warning: left out: t/train/n2/images/more (a link to a folder whose pictures are read anyway)\n"
         "warning: left out: t/train/n2/images/z.ppm (a test image, too, which is not trained on)\n"
         "warning: left out in all: 3 (folders beside the classes: 1, folders that are read anyway: 1, training images "
         "that are test images: 1)\n"
         "log: not read, because it is no picture: t/val/val_annotations.txt\n"
         "tiny-imagenet tiny-imagenet 4x4x3 'n2' 'n1'\n"
         "train: 20=0 10=1 11=1 50=1\n"
         "test: 40=0 30=1 31=1 51=1\n"
         "seen 0 0x0, mean 0.4803 +- 0.2764, broken 0, left out 3, no pictures 1");
    told_is_right();
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, data_enter_folder, data_leave_folder)
    const struct CMUnitTest tests[] = {
        IN_FOLDER(folders_are_told),       IN_FOLDER(parts_of_folders_are_told),
        IN_FOLDER(wrong_folders_are_told), IN_FOLDER(classes_that_are_wrong_are_told),
        IN_FOLDER(sizes_are_told),         IN_FOLDER(sizes_of_squares_and_strips_are_told),
        IN_FOLDER(lists_are_told),         IN_FOLDER(lines_and_pairs_of_lists_are_told),
        IN_FOLDER(tiny_imagenet_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
