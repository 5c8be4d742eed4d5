/* Whole files in and out: limits, atomic replacement, and what is left behind after a failure. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/memory.h"

/* Every test works in a fresh folder, which is the current one while it runs. */
static int enter_folder(void **state)
{
    char *folder = strdup("/tmp/recollect-test-XXXXXX");
    *state = folder;
    return folder == NULL || mkdtemp(folder) == NULL || chdir(folder) != 0;
}

static int leave_folder(void **state)
{
    char *folder = *state;
    DIR *listing = opendir(folder);
    for (struct dirent *entry; listing != NULL && (entry = readdir(listing)) != NULL;)
        if (entry->d_name[0] != '.')
            remove(entry->d_name);
    if (listing != NULL)
        closedir(listing);
    int failed = chdir("/") != 0 || rmdir(folder) != 0;
    free(folder);
    return failed;
}

static int files_here(void)
{
    DIR *listing = opendir(".");
    assert_non_null(listing);
    int files = 0;
    for (struct dirent *entry; (entry = readdir(listing)) != NULL;)
        files += entry->d_name[0] != '.';
    closedir(listing);
    return files;
}

static void assert_content(const char *path, const char *expected)
{
    char *data;
    size_t size;
    assert_int_equal(rc_file_read(path, 1000, &data, &size), RC_OK);
    assert_int_equal(size, strlen(expected));
    assert_string_equal(data, expected);
    rc_free(NULL, data);
}

static void assert_read_fails(const char *path, size_t limit, rc_status status, const char *message)
{
    char *data = (char *)&data;
    size_t size = 7, before = rc_bytes_allocated();
    assert_int_equal(rc_file_read(path, limit, &data, &size), status);
    assert_string_equal(rc_message(), message);
    assert_null(data);
    assert_int_equal(size, 0);
    assert_int_equal(rc_bytes_allocated(), before);
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    static char written[100000];
    for (size_t i = 0; i < sizeof written; i++)
        written[i] = (char)(i * i >> 3);
    static const size_t sizes[] = {0, 1, 4095, 4096, 4097, sizeof written};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char *data;
        size_t size;
        assert_int_equal(rc_file_write_atomic("data", written, sizes[i]), RC_OK);
        assert_int_equal(rc_file_read("data", sizes[i], &data, &size), RC_OK);
        assert_int_equal(size, sizes[i]);
        assert_memory_equal(data, written, size);
        assert_int_equal(data[size], 0);
        rc_free(NULL, data);
    }
    assert_int_equal(files_here(), 1);
}

static void files_over_the_limit_are_refused(void **state)
{
    (void)state;
    assert_int_equal(rc_file_write_atomic("data", "0123456789", 10), RC_OK);
    assert_read_fails("data", 9, RC_FORMAT, "cannot read 'data': more than 9 bytes, the limit for this kind of file");
    assert_read_fails("data", 0, RC_FORMAT, "cannot read 'data': more than 0 bytes, the limit for this kind of file");
    /* Files that the file system tells no size of. */
    assert_read_fails("/proc/self/status", 100, RC_FORMAT,
                      "cannot read '/proc/self/status': more than 100 bytes, the limit for this kind of file");
    char *data;
    size_t size;
    assert_int_equal(rc_file_read("data", SIZE_MAX, &data, &size), RC_OK);
    assert_int_equal(size, 10);
    rc_free(NULL, data);
}

static void what_cannot_be_read_is_named(void **state)
{
    (void)state;
    assert_read_fails("absent", 10, RC_IO, "cannot open 'absent': No such file or directory");
    assert_read_fails("", 10, RC_IO, "cannot open '': No such file or directory");
    assert_read_fails(".", 10, RC_IO, "cannot read '.': it is a folder, expected a regular file");
    assert_int_equal(rc_file_write_atomic("data", "x", 1), RC_OK);
    assert_read_fails("data/inside", 10, RC_IO, "cannot open 'data/inside': Not a directory");
}

static void pipes_are_refused(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    char path[64], message[160];
    snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
    snprintf(message, sizeof message, "cannot read '%s': it is a pipe, expected a regular file", path);
    assert_read_fails(path, 1 << 20, RC_IO, message);
    close(ends[0]);
    close(ends[1]);
}

static void replacing_keeps_one_file(void **state)
{
    (void)state;
    assert_false(rc_file_exists("data"));
    assert_int_equal(rc_file_write_atomic("data", "old", 3), RC_OK);
    assert_true(rc_file_exists("data"));
    assert_int_equal(rc_file_write_atomic("./data", "new one", 7), RC_OK);
    assert_content("data", "new one");
    assert_int_equal(files_here(), 1);
    struct stat info;
    mode_t mask = umask(0);
    umask(mask);
    assert_int_equal(stat("data", &info), 0);
    assert_int_equal(info.st_mode & 0777, 0666 & ~mask);
}

static void a_path_under_a_file_fails(void **state)
{
    (void)state;
    assert_int_equal(rc_file_write_atomic("data", "old", 3), RC_OK);
    assert_int_equal(rc_file_write_atomic("data/inside", "new", 3), RC_IO);
    assert_string_equal(rc_message(), "cannot write 'data/inside': Not a directory");
    assert_int_equal(rc_file_write_atomic("absent/inside", "new", 3), RC_IO);
    assert_string_equal(rc_message(), "cannot write 'absent/inside': No such file or directory");
    assert_content("data", "old");
    assert_int_equal(files_here(), 1);
}

static void a_read_only_folder_fails(void **state)
{
    (void)state;
    if (geteuid() == 0)
        skip(); /* nothing is read-only for root */
    assert_int_equal(mkdir("locked", 0555), 0);
    assert_int_equal(rc_file_write_atomic("locked/data", "new", 3), RC_IO);
    assert_string_equal(rc_message(), "cannot write 'locked/data': Permission denied");
}

/* Renaming a file over a device would succeed for root, and destroy it; a link to it is enough to see the refusal. */
static void devices_and_folders_are_never_replaced(void **state)
{
    (void)state;
    assert_int_equal(symlink("/dev/full", "full"), 0);
    assert_int_equal(rc_file_write_atomic("full", "new", 3), RC_IO);
    assert_string_equal(rc_message(), "cannot write 'full': it is a device or a pipe, expected a regular file");
    struct stat info;
    assert_int_equal(lstat("full", &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    assert_int_equal(mkdir("folder", 0777), 0);
    assert_int_equal(rc_file_write_atomic("folder", "new", 3), RC_IO);
    assert_string_equal(rc_message(), "cannot write 'folder': it is a folder, expected a regular file");
    assert_int_equal(files_here(), 2);
}

/* The disk is full in the middle of a write: a limit on the size of files looks the same to the writer. */
static void a_full_disk_leaves_the_old_file(void **state)
{
    (void)state;
    static char much[10000];
    assert_int_equal(rc_file_write_atomic("data", "old", 3), RC_OK);
    struct rlimit before, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 5000;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    rc_status whole = rc_file_write_atomic("data", much, sizeof much);
    char message[RC_MESSAGE_SIZE];
    snprintf(message, sizeof message, "%s", rc_message());

    rc_file_writer *writer;
    rc_status opened = rc_file_writer_open("data", &writer);
    rc_status first = rc_file_writer_append(writer, much, 4000), second = rc_file_writer_append(writer, much, 4000);
    rc_status third = rc_file_writer_append(writer, much, 1);
    rc_status committed = rc_file_writer_commit(writer);
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, SIG_DFL);

    assert_int_equal(whole, RC_IO);
    assert_string_equal(message, "cannot write 'data': File too large");
    assert_int_equal(opened, RC_OK);
    assert_int_equal(first, RC_OK);
    assert_int_equal(second, RC_IO);
    assert_int_equal(third, RC_IO);
    assert_int_equal(committed, RC_IO);
    assert_string_equal(rc_message(), "cannot write 'data': File too large"); /* the reason stays */
    assert_content("data", "old");
    assert_int_equal(files_here(), 1);
}

static void pieces_appear_at_the_commit(void **state)
{
    (void)state;
    size_t before = rc_bytes_allocated();
    rc_file_writer *writer;
    assert_int_equal(rc_file_write_atomic("data", "old", 3), RC_OK);
    assert_int_equal(rc_file_writer_open("data", &writer), RC_OK);
    assert_int_equal(rc_file_writer_append(writer, "one ", 4), RC_OK);
    assert_int_equal(rc_file_writer_append(writer, NULL, 0), RC_OK);
    assert_int_equal(rc_file_writer_append(writer, "two", 3), RC_OK);
    assert_content("data", "old");
    assert_int_equal(rc_file_writer_commit(writer), RC_OK);
    assert_content("data", "one two");
    assert_int_equal(files_here(), 1);
    assert_int_equal(rc_bytes_allocated(), before);
}

static void an_abort_leaves_nothing(void **state)
{
    (void)state;
    size_t before = rc_bytes_allocated();
    rc_file_writer *writer;
    assert_int_equal(rc_file_write_atomic("data", "old", 3), RC_OK);
    assert_int_equal(rc_file_writer_open("data", &writer), RC_OK);
    assert_int_equal(rc_file_writer_append(writer, "new", 3), RC_OK);
    assert_int_equal(files_here(), 2);
    rc_file_writer_abort(writer);
    rc_file_writer_abort(NULL);
    assert_content("data", "old");
    assert_int_equal(files_here(), 1);
    assert_int_equal(rc_bytes_allocated(), before);
}

/* The target turns into a folder between open and commit, so the rename itself fails. */
static void a_failed_rename_leaves_nothing(void **state)
{
    (void)state;
    rc_file_writer *writer;
    assert_int_equal(rc_file_writer_open("data", &writer), RC_OK);
    assert_int_equal(mkdir("data", 0777), 0);
    assert_int_equal(rc_file_writer_commit(writer), RC_IO);
    assert_string_equal(rc_message(), "cannot replace 'data': Is a directory");
    assert_int_equal(files_here(), 1);
}

static void writers_do_not_meet(void **state)
{
    (void)state;
    rc_file_writer *first, *second;
    assert_int_equal(rc_file_writer_open("data", &first), RC_OK);
    assert_int_equal(rc_file_writer_open("data", &second), RC_OK);
    assert_int_equal(rc_file_writer_append(first, "first", 5), RC_OK);
    assert_int_equal(rc_file_writer_append(second, "second", 6), RC_OK);
    assert_int_equal(rc_file_writer_commit(second), RC_OK);
    assert_content("data", "second");
    assert_int_equal(rc_file_writer_commit(first), RC_OK);
    assert_content("data", "first");
}

static void new_files_replace_nothing(void **state)
{
    (void)state;
    size_t before = rc_bytes_allocated();
    rc_file_writer *writer;
    assert_int_equal(rc_file_writer_open("data", &writer), RC_OK);
    assert_int_equal(rc_file_writer_append(writer, "mine", 4), RC_OK);
    assert_int_equal(rc_file_write_atomic("data", "theirs", 6), RC_OK); /* who was faster */
    assert_int_equal(rc_file_writer_commit_new(writer), RC_IO);
    assert_string_equal(rc_message(), "cannot make 'data': File exists");
    assert_content("data", "theirs");
    assert_int_equal(symlink("nowhere", "link"), 0);
    assert_int_equal(rc_file_writer_open("link", &writer), RC_OK);
    assert_int_equal(rc_file_writer_commit_new(writer), RC_IO);
    assert_int_equal(rc_file_writer_open("other", &writer), RC_OK);
    assert_int_equal(rc_file_writer_append(writer, "mine", 4), RC_OK);
    assert_int_equal(rc_file_writer_commit_new(writer), RC_OK);
    assert_content("other", "mine");
    assert_int_equal(files_here(), 3);
    assert_int_equal(rc_bytes_allocated(), before);
}

/* A process of the same number, as is usual in containers, was killed while it wrote: its file is in nobody's way. */
static void files_of_killed_processes_are_in_nobodys_way(void **state)
{
    (void)state;
    char name[64];
    for (int i = 0; i < 64; i++) { /* more than this process has written so far */
        snprintf(name, sizeof name, "data.tmp-%ld-%d", (long)getpid(), i);
        close(open(name, O_WRONLY | O_CREAT, 0666));
    }
    int before = files_here();
    assert_int_equal(rc_file_write_atomic("data", "new", 3), RC_OK);
    assert_content("data", "new");
    assert_int_equal(files_here(), before + 1);
}

static void only_leftovers_are_removed(void **state)
{
    (void)state;
    static const char *const kept[] = {"data", "data.tmp", "data.tmp-1", "data.tmp-1-", "data.tmp-1-2x", "tmp-1-2",
                                       ".tmp-1-2", "data.tmp-1-2.txt", "data.tmp-x-2"};
    static const char *const left[] = {"data.tmp-1-2", "a.tmp-3.tmp-123456-0"};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        close(open(kept[i], O_WRONLY | O_CREAT, 0666));
    for (size_t i = 0; i < sizeof left / sizeof *left; i++)
        close(open(left[i], O_WRONLY | O_CREAT, 0666));
    assert_int_equal(rc_file_remove_leftovers("."), RC_OK);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        assert_true(rc_file_exists(kept[i]));
    for (size_t i = 0; i < sizeof left / sizeof *left; i++)
        assert_false(rc_file_exists(left[i]));
    unlink(".tmp-1-2"); /* hidden from the clean-up of this test */
    assert_int_equal(rc_file_remove_leftovers("nowhere"), RC_IO);
    assert_non_null(strstr(rc_message(), "nowhere"));
}

static void folders_above_are_made(void **state)
{
    (void)state;
    struct stat what;
    assert_int_equal(rc_file_make_folder("a/b//c/"), RC_OK);
    assert_int_equal(stat("a/b/c", &what), 0);
    assert_true(S_ISDIR(what.st_mode));
    assert_int_equal(rc_file_make_folder("a/b/c"), RC_OK);
    assert_int_equal(rc_file_write_atomic("a/file", "x", 1), RC_OK);
    assert_int_equal(rc_file_make_folder("a/file/d"), RC_INVALID_ARGUMENT);
    assert_string_equal(rc_message(), "cannot make the folder 'a/file/d': 'a/file' is a file");
    assert_int_equal(rc_file_make_folder("a/file"), RC_INVALID_ARGUMENT);
    assert_int_equal(remove("a/file") | rmdir("a/b/c") | rmdir("a/b"), 0);
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, enter_folder, leave_folder)
    const struct CMUnitTest tests[] = {
        IN_FOLDER(what_is_written_is_read),
        IN_FOLDER(files_over_the_limit_are_refused),
        IN_FOLDER(what_cannot_be_read_is_named),
        IN_FOLDER(pipes_are_refused),
        IN_FOLDER(replacing_keeps_one_file),
        IN_FOLDER(a_path_under_a_file_fails),
        IN_FOLDER(a_read_only_folder_fails),
        IN_FOLDER(devices_and_folders_are_never_replaced),
        IN_FOLDER(a_full_disk_leaves_the_old_file),
        IN_FOLDER(pieces_appear_at_the_commit),
        IN_FOLDER(an_abort_leaves_nothing),
        IN_FOLDER(a_failed_rename_leaves_nothing),
        IN_FOLDER(writers_do_not_meet),
        IN_FOLDER(new_files_replace_nothing),
        IN_FOLDER(files_of_killed_processes_are_in_nobodys_way),
        IN_FOLDER(only_leftovers_are_removed),
        IN_FOLDER(folders_above_are_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
