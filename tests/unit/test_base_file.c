/* Whole files in and out: limits, atomic replacement, and what is left behind after a failure. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
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
#include "base/utf8.h"

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

static void paths_are_joined_up_to_their_limit(void **state)
{
    (void)state;
    char path[RC_PATH_SIZE], folder[RC_PATH_SIZE];
    assert_int_equal(RC_OK, rc_path_in("a/b", "c", path));
    assert_string_equal(path, "a/b/c");
    assert_int_equal(RC_OK, rc_path_in("/", "c", path));
    assert_string_equal(path, "/c");
    assert_int_equal(RC_OK, rc_path_in("a/", "c/d", path));
    assert_string_equal(path, "a/c/d");
    memset(folder, 'x', sizeof folder);
    folder[RC_PATH_SIZE - 4] = '\0';
    assert_int_equal(RC_OK, rc_path_in(folder, "yy", path)); /* with its zero byte just RC_PATH_SIZE */
    assert_int_equal(strlen(path), RC_PATH_SIZE - 1);
    assert_string_equal(path + RC_PATH_SIZE - 5, "x/yy");
    assert_int_equal(rc_path_in(folder, "yyy", path), RC_INVALID_ARGUMENT);
    assert_int_equal(strncmp(rc_message(), "path too long: 'xxx", 19), 0);
    assert_non_null(strstr(rc_message(), "x/yyy...', at most 4095 bytes"));
}

static void paths_are_taken_apart_again(void **state)
{
    (void)state;
    assert_string_equal(rc_path_below("a/b", "a/b/c/d"), "c/d");
    assert_string_equal(rc_path_below("a/b//", "a/b//c"), "c");
    assert_string_equal(rc_path_below("a", "a//b/"), "b/");
    assert_string_equal(rc_path_below("/", "/a"), "a");
    assert_string_equal(rc_path_below("a", "a"), "");
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

/* A name that nothing has is no failure, whatever the reason that nothing has it. */
static void what_is_not_there_is_told(void **state)
{
    (void)state;
    static const char *const nothing[] = {"gone", "data/below", "gone/below", "circle/below"};
    char long_name[NAME_MAX + 2];
    struct stat about;
    bool there = true;
    memset(long_name, 'x', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    assert_int_equal(rc_file_write_atomic("data", "four", 4), RC_OK);
    assert_int_equal(symlink("nowhere", "link"), 0);
    assert_int_equal(symlink("circle", "circle"), 0);
    assert_int_equal(symlink("data", "alias"), 0);
    for (size_t i = 0; i <= sizeof nothing / sizeof *nothing; i++) {
        const char *path = i < sizeof nothing / sizeof *nothing ? nothing[i] : long_name;
        there = true;
        assert_int_equal(rc_file_find(path, &there), RC_OK);
        assert_false(there);
        about.st_mode = 1;
        assert_int_equal(rc_file_look(path, true, &about), RC_OK);
        assert_int_equal(about.st_mode, 0);
    }
    assert_int_equal(rc_file_find("link", &there), RC_OK);
    assert_true(there);
    assert_int_equal(rc_file_look("link", true, &about), RC_OK);
    assert_int_equal(about.st_mode, 0);
    assert_int_equal(rc_file_look("alias", true, &about), RC_OK);
    assert_true(S_ISREG(about.st_mode) && about.st_size == 4);
    assert_int_equal(rc_file_look("alias", false, &about), RC_OK);
    assert_true(S_ISLNK(about.st_mode));
}

static void replacing_keeps_one_file(void **state)
{
    (void)state;
    assert_int_not_equal(access("data", F_OK), 0);
    assert_int_equal(rc_file_write_atomic("data", "old", 3), RC_OK);
    assert_int_equal(access("data", F_OK), 0);
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
    rc_status first = rc_file_writer_append(writer, much, 4000), second = rc_file_writer_append(writer, much, 10000);
    rc_status third = rc_file_writer_append(writer, much, 1);
    rc_status committed = rc_file_writer_commit(writer);
    rc_status at_last = rc_file_writer_open("data", &writer); /* what is held back fails at the commit */
    if (at_last == RC_OK && rc_file_writer_append(writer, much, 6000) == RC_OK)
        at_last = rc_file_writer_commit(writer);
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, SIG_DFL);

    assert_int_equal(whole, RC_IO);
    assert_string_equal(message, "cannot write 'data': File too large");
    assert_int_equal(opened, RC_OK);
    assert_int_equal(first, RC_OK);
    assert_int_equal(second, RC_IO);
    assert_int_equal(third, RC_IO);
    assert_int_equal(committed, RC_IO);
    assert_int_equal(at_last, RC_IO);
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

/* Pieces smaller and larger than what the writer holds back, which is a power of two. */
static void pieces_of_any_size_stay_in_order(void **state)
{
    (void)state;
    enum { MOST = 1 << 18 };
    static const size_t sizes[] = {1, 8191, 8192, 8193, 0, 1, 20000, 3, 16384, 8189, 4, 65536, 5, 40000};
    static char bytes[MOST];
    rc_file_writer *writer;
    size_t used = 0, size;
    char *read;
    for (size_t i = 0; i < MOST; i++)
        bytes[i] = (char)(i * 2654435761u >> 13);
    assert_int_equal(rc_file_writer_open("data", &writer), RC_OK);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; used += sizes[i++])
        assert_int_equal(rc_file_writer_append(writer, bytes + used, sizes[i]), RC_OK);
    assert_int_equal(rc_file_writer_commit(writer), RC_OK);
    assert_int_equal(rc_file_read("data", MOST, &read, &size), RC_OK);
    assert_int_equal(size, used);
    assert_memory_equal(read, bytes, used);
    rc_free(NULL, read);
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
    assert_int_equal(symlink("data", "link"), 0);
    assert_int_equal(rc_file_writer_open("link", &writer), RC_OK);
    assert_int_equal(rc_file_writer_commit_new(writer), RC_IO);
    assert_string_equal(rc_message(), "cannot make 'link': File exists");
    assert_content("data", "theirs");
    assert_int_equal(rc_file_writer_open("other", &writer), RC_OK);
    assert_int_equal(rc_file_writer_append(writer, "mine", 4), RC_OK);
    assert_int_equal(rc_file_writer_commit_new(writer), RC_OK);
    assert_content("other", "mine");
    assert_int_equal(files_here(), 3);
    assert_int_equal(rc_bytes_allocated(), before);
}

static mode_t mode_of(const char *path)
{
    struct stat info;
    assert_int_equal(lstat(path, &info), 0);
    return info.st_mode;
}

/* What is replaced keeps who may read it, whatever the umask says. */
static void replacing_keeps_the_mode(void **state)
{
    (void)state;
    static const mode_t modes[] = {0600, 0640, 0666, 0444, 0755};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        unlink("data");
        assert_int_equal(rc_file_write_atomic("data", "old", 3), RC_OK);
        assert_int_equal(chmod("data", modes[i]), 0);
        mode_t mask = umask(i % 2 ? 077 : 0);
        rc_status status = rc_file_write_atomic("data", "new", 3);
        umask(mask);
        assert_int_equal(status, RC_OK);
        assert_content("data", "new");
        assert_int_equal(mode_of("data") & 07777, modes[i]);
    }
}

/* No bit of the new file can be read by others before it is in its place. */
static void temporary_files_are_as_private(void **state)
{
    (void)state;
    rc_file_writer *writer;
    assert_int_equal(rc_file_write_atomic("data", "old", 3), RC_OK);
    assert_int_equal(chmod("data", 0600), 0);
    assert_int_equal(rc_file_writer_open("data", &writer), RC_OK);
    DIR *listing = opendir(".");
    int looked = 0;
    for (struct dirent *entry; (entry = readdir(listing)) != NULL;)
        if (strstr(entry->d_name, ".tmp-") != NULL) {
            assert_int_equal(mode_of(entry->d_name) & 0777, 0600);
            looked++;
        }
    closedir(listing);
    assert_int_equal(looked, 1);
    assert_int_equal(rc_file_writer_commit(writer), RC_OK);
}

/* Links of links, into another folder: they stay, and the file at their end is replaced, in its own folder. */
static void replacing_keeps_links(void **state)
{
    (void)state;
    assert_int_equal(mkdir("folder", 0777), 0);
    assert_int_equal(rc_file_write_atomic("folder/file", "old", 3), RC_OK);
    assert_int_equal(chmod("folder/file", 0640), 0);
    assert_int_equal(symlink("file", "folder/inner"), 0);
    assert_int_equal(symlink("folder/inner", "outer"), 0);
    assert_int_equal(rc_file_check("outer", true), RC_OK);
    assert_int_equal(rc_file_write_atomic("outer", "new", 3), RC_OK);
    assert_true(S_ISLNK(mode_of("outer")) && S_ISLNK(mode_of("folder/inner")));
    assert_int_equal(mode_of("folder/file"), S_IFREG | 0640);
    assert_content("folder/file", "new");
    assert_int_equal(files_here(), 2);
    assert_int_equal(remove("folder/inner") | remove("folder/file"), 0); /* and nothing else is there */
}

static void assert_no_target(const char *path, bool replace, const char *message)
{
    int before = files_here();
    rc_file_writer *writer = (rc_file_writer *)&before;
    assert_int_equal(rc_file_check(path, replace), RC_IO);
    assert_string_equal(rc_message(), message);
    if (replace) {
        assert_int_equal(rc_file_writer_open(path, &writer), RC_IO);
        assert_string_equal(rc_message(), message);
        assert_null(writer);
    }
    assert_int_equal(files_here(), before);
}

/* What cannot work is known before there is anything to write. */
static void targets_are_checked_before(void **state)
{
    (void)state;
    char name[NAME_MAX + 2], message[2 * NAME_MAX], path[PATH_MAX + 2];
    assert_int_equal(symlink("nowhere", "dangling"), 0);
    assert_int_equal(symlink("circle", "circle"), 0);
    assert_int_equal(symlink("/dev/null", "null"), 0);
    assert_int_equal(mkdir("folder", 0777) | mkfifo("pipe", 0666), 0);
    assert_int_equal(rc_file_write_atomic("data", "old", 3), RC_OK);
    assert_no_target("dangling", true,
                     "cannot write 'dangling': it is a link that leads to no file: No such file or directory");
    assert_no_target("dangling", false, "'dangling' is there already");
    assert_no_target("circle", true,
                     "cannot write 'circle': it is a link that leads to no file: Too many levels of symbolic links");
    assert_no_target("null", true, "cannot write 'null': it is a device or a pipe, expected a regular file");
    assert_no_target("/dev/null", true, "cannot write '/dev/null': it is a device or a pipe, expected a regular file");
    assert_no_target("pipe", true, "cannot write 'pipe': it is a device or a pipe, expected a regular file");
    assert_no_target("folder", true, "cannot write 'folder': it is a folder, expected a regular file");
    assert_no_target("folder/", true, "cannot write 'folder/': it names no file");
    assert_no_target("", true, "cannot write '': it names no file");
    assert_no_target("data", false, "'data' is there already");
    assert_no_target("data/inside", true, "cannot write 'data/inside': Not a directory");
    assert_no_target("absent/inside", true, "cannot write 'absent/inside': No such file or directory");
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    snprintf(message, sizeof message, "cannot write '%s': File name too long", name);
    assert_no_target(name, true, message);
    memset(path, '/', sizeof path - 1);
    path[sizeof path - 2] = 'x';
    path[sizeof path - 1] = '\0';
    assert_int_equal(rc_file_check(path, true), RC_IO);
    assert_non_null(strstr(rc_message(), "cannot write '///"));
    assert_int_equal(rc_file_check("data", true), RC_OK);
    assert_int_equal(rc_file_check("fresh", false), RC_OK);
    assert_content("data", "old");
    assert_int_equal(files_here(), 6);
}

/* A name as long as names may be leaves no room for the mark of a temporary file: that begins with less of it. */
static void the_longest_names_can_be_written(void **state)
{
    (void)state;
    char name[NAME_MAX + 1];
    for (int length = NAME_MAX - 60; length <= NAME_MAX; length++) {
        for (int i = 0; i < length; i++) /* characters of three bytes, cut between two of them */
            name[i] = "\xe2\x82\xac"[i % 3];
        memset(name + length - length % 3, 'x', (size_t)(length % 3));
        name[length] = '\0';
        assert_int_equal(rc_file_check(name, true), RC_OK);
        assert_int_equal(rc_file_write_atomic(name, "old", 3), RC_OK);
        assert_int_equal(rc_file_write_atomic(name, "new", 3), RC_OK);
        assert_content(name, "new");
        rc_file_writer *writer;
        assert_int_equal(rc_file_writer_open(name, &writer), RC_OK);
        assert_int_equal(files_here(), 2);
        DIR *listing = opendir(".");
        for (struct dirent *entry; (entry = readdir(listing)) != NULL;)
            for (const char *p = entry->d_name; *p != '\0'; p += rc_utf8_length(p, strlen(p)))
                assert_int_not_equal(rc_utf8_length(p, strlen(p)), 0);
        closedir(listing);
        assert_int_equal(rc_file_remove_leftovers("."), RC_OK); /* it is known as what it is */
        assert_int_equal(files_here(), 1);
        rc_file_writer_abort(writer);
        assert_int_equal(remove(name), 0);
    }
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
    static const char *const kept[] = {"data",    "data.tmp", "data.tmp-1",       "data.tmp-1-", "data.tmp-1-2x",
                                       "tmp-1-2", ".tmp-1-2", "data.tmp-1-2.txt", "data.tmp-x-2"};
    static const char *const left[] = {"data.tmp-1-2", "a.tmp-3.tmp-123456-0"};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        close(open(kept[i], O_WRONLY | O_CREAT, 0666));
    for (size_t i = 0; i < sizeof left / sizeof *left; i++)
        close(open(left[i], O_WRONLY | O_CREAT, 0666));
    assert_int_equal(rc_file_remove_leftovers("."), RC_OK);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        assert_int_equal(access(kept[i], F_OK), 0);
    for (size_t i = 0; i < sizeof left / sizeof *left; i++)
        assert_int_not_equal(access(left[i], F_OK), 0);
    unlink(".tmp-1-2"); /* hidden from the clean-up of this test */
    assert_int_equal(rc_file_remove_leftovers("nowhere"), RC_IO);
    assert_non_null(strstr(rc_message(), "nowhere"));
    assert_int_equal(rc_file_remove_leftovers_of("nowhere/file"), RC_OK);
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
    assert_int_equal(symlink("nowhere", "a/link"), 0);
    assert_int_equal(rc_file_make_folder("a/link/d"), RC_INVALID_ARGUMENT);
    assert_string_equal(rc_message(), "cannot make the folder 'a/link/d': 'a/link' is a link that leads nowhere");
    assert_int_equal(unlink("a/link") | symlink("b", "a/link"), 0);
    assert_int_equal(rc_file_make_folder("a/link/d"), RC_OK);
    assert_int_equal(rmdir("a/b/d") | unlink("a/link"), 0);
    assert_int_equal(remove("a/file") | rmdir("a/b/c") | rmdir("a/b"), 0);
}

static void assert_no_folder(const char *path, rc_status status, const char *message)
{
    assert_int_equal(rc_file_check_folder(path), status);
    assert_string_equal(rc_message(), message);
}

/* Whether a folder can be made is known without making it. */
static void folders_are_checked_before(void **state)
{
    (void)state;
    char name[NAME_MAX + 2], path[2 * NAME_MAX], message[3 * NAME_MAX];
    assert_int_equal(rc_file_check_folder("a/b//c/"), RC_OK);
    assert_int_equal(rc_file_check_folder("/tmp/nobody/made/this"), RC_OK);
    assert_int_equal(rc_file_check_folder("."), RC_OK);
    assert_int_equal(files_here(), 0);
    assert_int_equal(rc_file_write_atomic("file", "x", 1), RC_OK);
    assert_int_equal(symlink("nowhere", "link"), 0);
    assert_no_folder("file", RC_INVALID_ARGUMENT, "cannot make the folder 'file': 'file' is a file");
    assert_no_folder("file/a", RC_INVALID_ARGUMENT, "cannot make the folder 'file/a': 'file' is a file");
    assert_no_folder("/dev/null", RC_INVALID_ARGUMENT, "cannot make the folder '/dev/null': '/dev/null' is a file");
    assert_no_folder("link/a", RC_INVALID_ARGUMENT,
                     "cannot make the folder 'link/a': 'link' is a link that leads nowhere");
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    snprintf(path, sizeof path, "a/b/%s/c", name); /* what is above it is not there either */
    snprintf(message, sizeof message, "cannot make the folder '%s': File name too long", path);
    assert_no_folder(path, RC_IO, message);
    assert_int_equal(rc_file_make_folder(path + 4), RC_IO);
    assert_int_equal(files_here(), 2);
    if (geteuid() == 0)
        return; /* nothing is read-only for root */
    assert_int_equal(mkdir("locked", 0555), 0);
    assert_no_folder("locked/a/b", RC_IO, "cannot make the folder 'locked/a/b': Permission denied");
    assert_no_folder("locked", RC_IO, "cannot write into the folder 'locked': Permission denied");
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, enter_folder, leave_folder)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_are_joined_up_to_their_limit),
        cmocka_unit_test(paths_are_taken_apart_again),
        IN_FOLDER(what_is_written_is_read),
        IN_FOLDER(files_over_the_limit_are_refused),
        IN_FOLDER(what_cannot_be_read_is_named),
        IN_FOLDER(pipes_are_refused),
        IN_FOLDER(what_is_not_there_is_told),
        IN_FOLDER(replacing_keeps_one_file),
        IN_FOLDER(a_path_under_a_file_fails),
        IN_FOLDER(a_read_only_folder_fails),
        IN_FOLDER(devices_and_folders_are_never_replaced),
        IN_FOLDER(a_full_disk_leaves_the_old_file),
        IN_FOLDER(pieces_appear_at_the_commit),
        IN_FOLDER(pieces_of_any_size_stay_in_order),
        IN_FOLDER(an_abort_leaves_nothing),
        IN_FOLDER(a_failed_rename_leaves_nothing),
        IN_FOLDER(writers_do_not_meet),
        IN_FOLDER(new_files_replace_nothing),
        IN_FOLDER(replacing_keeps_the_mode),
        IN_FOLDER(temporary_files_are_as_private),
        IN_FOLDER(replacing_keeps_links),
        IN_FOLDER(targets_are_checked_before),
        IN_FOLDER(the_longest_names_can_be_written),
        IN_FOLDER(files_of_killed_processes_are_in_nobodys_way),
        IN_FOLDER(only_leftovers_are_removed),
        IN_FOLDER(folders_above_are_made),
        IN_FOLDER(folders_are_checked_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
