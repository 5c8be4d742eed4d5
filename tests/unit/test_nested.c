/* Class folders that hold other folders alone may be a folder too high: these, and no others, are found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "api/nested.h"
#include "base/memory.h"
#include "support/data_files.h"
#include "support/succeeds.h"

/* The path that is found in `root`, which has classes `a` and `b`. */
static void expect(const char *root, const char *format, int classes, const char *path)
{
    char *names[] = {"a", "b"}, deeper[RC_PATH_SIZE] = "x";
    rc_dataset data = {.classes = classes, .h = 1, .class_name = names};
    snprintf(data.format, sizeof data.format, "%s", format);
    size_t before = rc_bytes_allocated();
    SUCCEEDS(rc_nested_find(root, &data, deeper));
    assert_string_equal(deeper, path);
    assert_int_equal(rc_bytes_allocated(), before);
}

static void folders_alone_are_found(void **state)
{
    (void)state;
    data_write_text("root/a/cat/1.jpg", "x");
    data_write_text("root/a/dog/1.jpg", "x");
    data_write_text("root/a/notes.txt", "x"); /* no picture */
    data_write_text("root/b/bird/1.jpg", "x");
    expect("root", "folder", 2, "root/a");
    expect("root", "folder", 1, "root/a");
    expect("root", "list", 2, "");
    expect(NULL, "folder", 2, "");
    expect("root", "folder", 0, "");
}

static void pictures_of_a_class_are_enough(void **state)
{
    (void)state;
    data_write_text("first/a/cat/1.jpg", "x");
    data_write_text("first/a/0.jpg", "x"); /* before the folder */
    data_write_text("first/b/bird/1.jpg", "x");
    expect("first", "folder", 2, "");
    data_write_text("last/a/cat/1.jpg", "x");
    data_write_text("last/b/bird/1.jpg", "x");
    data_write_text("last/b/z.jpg", "x"); /* behind it */
    expect("last", "folder", 2, "");
    expect("last", "folder", 1, "last/a");
    data_write_text("bare/a/cat/1.jpg", "x");
    data_write_colour("bare/a/0", 4, 4, 1, 2, 3); /* a picture that its content tells */
    expect("bare", "folder", 1, "");
    data_write_text("none/a/notes.txt", "x"); /* neither pictures nor folders */
    expect("none", "folder", 1, "");
    data_write_text("named/a/folder.jpg/1.jpg", "x"); /* is no picture */
    expect("named", "folder", 1, "named/a");
}

static void failures_are_passed_on(void **state)
{
    (void)state;
    static char longest[RC_PATH_SIZE];
    char *names[] = {"a"}, deeper[RC_PATH_SIZE];
    const rc_dataset data = {.format = "folder", .classes = 1, .class_name = names};
    memset(longest, 'x', sizeof longest - 1);
    assert_int_not_equal(rc_nested_find(longest, &data, deeper), RC_OK);
    assert_string_equal(deeper, "");
    data_write_text("root/a/cat/1.jpg", "x");
    rc_memory_set_budget(rc_bytes_allocated());
    assert_int_equal(rc_nested_find("root", &data, deeper), RC_OUT_OF_MEMORY);
    rc_memory_set_budget(SIZE_MAX);
    assert_string_equal(deeper, "");
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, data_enter_folder, data_leave_folder)
    const struct CMUnitTest tests[] = {
        IN_FOLDER(folders_alone_are_found),
        IN_FOLDER(pictures_of_a_class_are_enough),
        IN_FOLDER(failures_are_passed_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
