/* Packs: what goes in comes out, in a run as from memory; what is damaged is refused by its number; what was stopped
 * goes on. And images that are lent to a backend, which a pack's are. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "backend/backend.h"
#include "base/ahead.h"
#include "base/file.h"
#include "base/memory.h"
#include "data/pack.h"
#include "support/data_sets.h"
#include "support/succeeds.h"

enum { SIZE = 6, IMAGE = SIZE * SIZE * 3, RECORDS = 9 };

/* 3 classes of 3 pictures each, of which one of each class is to test with. */
static void make_folder(void)
{
    char path[64];
    for (int class = 0; class < 3; class ++) {
        snprintf(path, sizeof path, "set/%c", "abc"[class]);
        SUCCEEDS(rc_file_make_folder(path));
        for (int i = 0; i < 3; i++) {
            snprintf(path, sizeof path, "set/%c/%d.ppm", "abc"[class], i);
            data_write_colour(path, SIZE, SIZE, 40 * class, 50 * i, 200);
        }
    }
}

static const rc_data_settings reading = {.size = SIZE, .channels = 3, .test_part = 0.34};

static void make_pack(const char *out)
{
    rc_pack_result result;
    make_folder();
    unlink(out);
    SUCCEEDS(rc_pack_write("set", &reading, out, &result));
    assert_int_equal(result.facts.train, 6);
    assert_int_equal(result.facts.test, 3);
    assert_false((access("set.pack.part", F_OK) == 0) || (access("set.pack.part.log", F_OK) == 0));
}

static void assert_equal_splits(const rc_split *a, const rc_split *b)
{
    assert_int_equal(a->count, b->count);
    assert_memory_equal(a->labels, b->labels, (size_t)a->count * sizeof *a->labels);
    assert_memory_equal(a->images, b->images, (size_t)a->count * IMAGE);
}

static void what_is_packed_is_what_was_read(void **state)
{
    (void)state;
    rc_dataset memory, packed;
    size_t before = rc_bytes_allocated();
    make_pack("set.pack");
    data_open("set", &reading, &memory);
    data_open("set.pack", &(rc_data_settings){.format = "folder"}, &packed); /* a preset names that of the set */
    assert_string_equal(packed.format, "pack");
    assert_string_equal(packed.name, "folder");
    assert_int_equal(packed.h, SIZE);
    assert_int_equal(packed.classes, 3);
    for (int i = 0; i < 3; i++)
        assert_string_equal(packed.class_name[i], memory.class_name[i]);
    assert_equal_splits(&packed.train, &memory.train);
    assert_equal_splits(&packed.test, &memory.test);
    assert_memory_equal(packed.mean, memory.mean, sizeof memory.mean);
    assert_memory_equal(packed.std, memory.std, sizeof memory.std);
    SUCCEEDS(rc_split_check(&packed.train, NULL, 6));
    SUCCEEDS(rc_split_check(&packed.test, (const int32_t[]){2, 0}, 2));
    SUCCEEDS(rc_split_check(&memory.test, NULL, 3));
    assert_int_equal(rc_split_checksum(&packed.test, 1), rc_pack_crc(0, packed.test.images + IMAGE, IMAGE));
    rc_dataset_close(&memory);
    rc_dataset_close(&packed);
    assert_int_equal(rc_bytes_allocated(), before);
}

/* A set that no picture files make up. */
static void sets_in_memory_are_packed_too(void **state)
{
    (void)state;
    rc_pack_result result;
    rc_dataset memory, packed;
    const rc_data_settings few = {.procedural_classes = 3, .procedural_per_class = 90, .procedural_test_per_class = 5};
    unlink("drawn.pack");
    SUCCEEDS(rc_pack_write("procedural", &few, "drawn.pack", &result));
    data_open("procedural", &few, &memory);
    data_open("drawn.pack", NULL, &packed);
    assert_int_equal(packed.train.count, 270); /* more than a piece */
    assert_memory_equal(packed.train.images, memory.train.images, (size_t)270 * 32 * 32 * 3);
    assert_memory_equal(packed.test.images, memory.test.images, (size_t)15 * 32 * 32 * 3);
    assert_memory_equal(packed.mean, memory.mean, sizeof memory.mean);
    rc_dataset_close(&memory);
    rc_dataset_close(&packed);
}

static void other_images_than_were_packed_are_refused(void **state)
{
    (void)state;
    make_pack("set.pack");
    data_assert_refused("set.pack", &(rc_data_settings){.size = 8}, RC_INVALID_ARGUMENT,
                        "'set.pack' holds images of 6 pixels, and 8 are asked for; pack the data again with size 8");
    data_assert_refused("set.pack", &(rc_data_settings){.channels = 1}, RC_INVALID_ARGUMENT,
                        "holds coloured images, and grey ones are asked for; pack the data again with channels 1");
    data_assert_refused("set.pack", &(rc_data_settings){.resize = 7}, RC_INVALID_ARGUMENT,
                        "were made with resize 6 (bilinear), and resize 7 (bilinear) is asked for");
    rc_pack_result result;
    assert_int_equal(rc_pack_write("set", &reading, "set.pack", &result), RC_INVALID_ARGUMENT);
    data_assert_message("'set.pack' is there already; remove it, or give another name");
    assert_int_equal(rc_pack_write("set.pack", &reading, "second.pack", &result), RC_INVALID_ARGUMENT);
    data_assert_message("'set.pack' is a pack already");
    assert_false((access("second.pack", F_OK) == 0) || (access("second.pack.part", F_OK) == 0));
}

/* ---- damage ------------------------------------------------------------------------------------------------------ */

static char *whole; /* a pack of 9 records */
static size_t whole_size;

static void load_pack(void)
{
    make_pack("set.pack");
    rc_free(NULL, whole);
    SUCCEEDS(rc_file_read("set.pack", 1 << 20, &whole, &whole_size));
}

/* Reads every record; *record: the one that is damaged, or -1. */
static rc_status read_all(const uint8_t *bytes, size_t size)
{
    rc_pack *pack;
    RC_TRY(rc_pack_read("input", bytes, size, &pack));
    rc_status status = RC_OK;
    for (int i = 0; i < rc_pack_about(pack)->train + rc_pack_about(pack)->test && status == RC_OK; i++)
        status = rc_pack_check(pack, i);
    rc_pack_close(pack);
    return status;
}

static void every_flipped_bit_is_noticed(void **state)
{
    (void)state;
    char expected[64];
    load_pack();
    uint8_t *bytes = (uint8_t *)whole;
    SUCCEEDS(read_all(bytes, whole_size));
    for (size_t at = 0; at < whole_size; at += at < 140 || at > 4000 ? 1 : 97) {
        bytes[at] ^= (uint8_t)(1 << at % 8);
        assert_int_not_equal(read_all(bytes, whole_size), RC_OK);
        if (at >= RC_PACK_HEADER && at < RC_PACK_HEADER + RECORDS * IMAGE) {
            snprintf(expected, sizeof expected, "input: record %zu of the pack is damaged",
                     (at - RC_PACK_HEADER) / IMAGE);
            data_assert_message(expected);
        }
        bytes[at] ^= (uint8_t)(1 << at % 8);
    }
    SUCCEEDS(read_all(bytes, whole_size));
}

static void every_cut_is_noticed(void **state)
{
    (void)state;
    load_pack();
    for (size_t size = 0; size < whole_size; size++)
        assert_int_not_equal(read_all((const uint8_t *)whole, size), RC_OK);
    read_all((const uint8_t *)whole, RC_PACK_HEADER + 4 * IMAGE + 1);
    data_assert_message("input: the pack ends in record 4 of 9: it has ");
    char *longer = rc_alloc_zeroed(NULL, whole_size + 1, 1);
    assert_non_null(longer);
    memcpy(longer, whole, whole_size);
    assert_int_not_equal(read_all((const uint8_t *)longer, whole_size + 1), RC_OK);
    rc_free(NULL, longer);
}

/* A header that lies, with the right checksum. */
static void lies_are_refused(void **state)
{
    (void)state;
    load_pack();
    rc_pack_facts facts, f;
    uint8_t *bytes = (uint8_t *)whole;
    SUCCEEDS(rc_pack_parse("input", bytes, whole_size, &facts));
#define LIE(change, message) \
    do { \
        f = facts; \
        change; \
        rc_pack_write_header(&f, bytes); \
        assert_int_equal(read_all(bytes, whole_size), RC_FORMAT); \
        data_assert_message(message); \
    } while (0)
    LIE(f.side = 0, "has side 0, expected 1 to 1024");
    LIE(f.side = 1025, "has side 1025, expected 1 to 1024");
    LIE(f.channels = 2, "has channels 2, expected 1 or 3");
    LIE(f.channels = 4, "has channels 4, expected 1 to 3");
    LIE(f.resize = 5, "has resize 5, expected 6 to 4096");
    LIE(f.interpolation = 2, "has interpolation 2, expected 0 to 1");
    LIE(f.classes = 0, "has classes 0, expected 1 to ");
    LIE(f.classes = 2, "has label 2, expected 0 to 1");
    LIE(f.classes = 4, "the pack has 3 names, expected 4");
    LIE(f.train = INT32_MAX, "has test records 3, expected 0 to 0");
    LIE((f.train = INT32_MAX, f.test = 0), "the pack ends in record 9 of 2147483647");
    LIE((f.train = f.test = 0), "the pack has no records");
    LIE(f.names_bytes += 1, "bytes of names make ");
    LIE(f.file_bytes -= 1, "bytes and says ");
    LIE(f.mean[1] = 2, "channel 1 of the pack has mean 2");
    LIE(f.std[2] = 0, "channel 2 of the pack has mean ");
    LIE(f.table_crc ^= 1, "the table of the pack is damaged");
    LIE(memset(f.name, 0, sizeof f.name), "the name of the set in the pack is not printable");
    rc_pack_write_header(&facts, bytes);
    SUCCEEDS(read_all(bytes, whole_size));
    bytes[8] = 3;
    assert_int_equal(read_all(bytes, whole_size), RC_UNSUPPORTED);
    data_assert_message("a pack of version 3, expected 1 to 2; pack the data again");
}

/* Turns the pack into one of version 1, which has nothing behind the name of the set. */
static void make_older(uint8_t *bytes)
{
    bytes[8] = 1;
    memset(bytes + 128, 0, 4);
    memset(bytes + 12, 0, 4);
    rc_pack_put32(bytes + 12, rc_pack_crc(0, bytes, RC_PACK_HEADER));
}

static void pictures_are_turned_as_they_were_packed(void **state)
{
    (void)state;
    rc_pack_result result;
    rc_dataset packed;
    rc_data_settings ignoring = reading;
    ignoring.ignore_exif = true;
    load_pack();
    data_open("set.pack", NULL, &packed);
    rc_dataset_close(&packed);
    data_assert_refused("set.pack", &ignoring, RC_INVALID_ARGUMENT,
                        "the images of 'set.pack' were made with exif true, and exif false is asked for; ask for the "
                        "same (the setting 'exif'), or pack the data again with exif false");
    SUCCEEDS(rc_pack_write("set", &ignoring, "ignored.pack", &result));
    data_open("ignored.pack", &ignoring, &packed);
    rc_dataset_close(&packed);
    data_assert_refused("ignored.pack", &reading, RC_INVALID_ARGUMENT, "with exif false, and exif true is asked for");
    /* An older pack does not say it, and nothing turns pictures that are drawn. */
    make_older((uint8_t *)whole);
    data_write("older.pack", whole, whole_size);
    SUCCEEDS(rc_pack_write("procedural:2", &(rc_data_settings){.procedural_per_class = 2}, "drawn.pack", &result));
    for (int i = 0; i < 2; i++) {
        const rc_data_settings either = {.ignore_exif = i == 1};
        data_open("older.pack", &either, &packed);
        rc_dataset_close(&packed);
        data_open("drawn.pack", &either, &packed);
        rc_dataset_close(&packed);
    }
}

/* ---- what was stopped -------------------------------------------------------------------------------------------- */

static int pieces_left;

static bool stop_soon(void *user, const char *what, int done, int total)
{
    (void)user, (void)what, (void)done, (void)total;
    return pieces_left-- > 0;
}

static void add_pictures(const char *folder, int count)
{
    char path[64];
    SUCCEEDS(rc_file_make_folder(folder));
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/%d.ppm", folder, i);
        data_write_colour(path, SIZE, SIZE, i % 256, 0, 7);
    }
}

static void what_was_stopped_goes_on(void **state)
{
    (void)state;
    enum { MANY = 600 };
    rc_pack_result result;
    rc_data_settings settings = {.size = SIZE, .channels = 3, .progress = stop_soon};
    char *first, *second;
    size_t first_size, second_size;
    add_pictures("many/a", MANY);
    add_pictures("many/b", 3);
    pieces_left = 1000;
    SUCCEEDS(rc_pack_write("many", &settings, "once.pack", &result));
    assert_int_equal(result.resumed, 0);
    SUCCEEDS(rc_file_read("once.pack", 1 << 20, &first, &first_size));
    const struct {
        const char *damaged; /* after the first call: this file ... */
        size_t cut;          /* ... loses so many bytes at its end */
        int resumed;         /* images that are taken over: of whole blocks alone */
    } cases[] = {{NULL, 0, 512}, {"twice.pack.part", 1, 256}, {"twice.pack.part.log", 1, 256}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unlink("twice.pack");
        pieces_left = 2; /* and then it is stopped */
        assert_int_equal(rc_pack_write("many", &settings, "twice.pack", &result), RC_CANCELLED);
        assert_int_not_equal(access("twice.pack", F_OK), 0);
        if (cases[i].damaged != NULL) {
            struct stat info;
            assert_int_equal(stat(cases[i].damaged, &info), 0);
            assert_int_equal(truncate(cases[i].damaged, info.st_size - (off_t)cases[i].cut), 0);
        }
        pieces_left = 1000;
        SUCCEEDS(rc_pack_write("many", &settings, "twice.pack", &result));
        assert_int_equal(result.resumed, cases[i].resumed);
        SUCCEEDS(rc_file_read("twice.pack", 1 << 20, &second, &second_size));
        assert_int_equal(second_size, first_size);
        assert_memory_equal(second, first, first_size);
        rc_free(NULL, second);
    }
    /* Other data begins anew. */
    unlink("twice.pack");
    pieces_left = 2;
    assert_int_equal(rc_pack_write("many", &settings, "twice.pack", &result), RC_CANCELLED);
    data_write_colour("many/b/1.ppm", SIZE + 1, SIZE, 1, 2, 3);
    pieces_left = 1000;
    SUCCEEDS(rc_pack_write("many", &settings, "twice.pack", &result));
    assert_int_equal(result.resumed, 0);
    rc_free(NULL, first);
}

/* ---- lending ----------------------------------------------------------------------------------------------------- */

static int checks[RECORDS];

static rc_status check(const void *owner, int32_t index)
{
    checks[index]++;
    return index == *(const int32_t *)owner ? rc_fail(RC_FORMAT, "record %d", index) : RC_OK;
}

static void lent_images_are_read_where_they_are(void **state)
{
    (void)state;
    uint8_t images[RECORDS * 12], more[2 * 12], found[5 * 12];
    const int32_t index[3] = {7, 0, 4}, order[4] = {3, 2, 0, 1};
    int32_t broken = -1;
    void *handle;
    for (size_t i = 0; i < sizeof images; i++)
        images[i] = (uint8_t)(2 * i + 1);
    memset(more, 9, sizeof more);
    rc_backend *be;
    SUCCEEDS(rc_backend_open("cpu", 2, NULL, &be));
    rc_lent_images lent = {.from = images, .index = index, .count = 3, .bytes = 12, .check = check, .owner = &broken};
    SUCCEEDS(be->lend_images(be, &lent, sizeof more, &handle));
    be->write_images(be, handle, 3 * 12, more, sizeof more);
    memset(checks, 0, sizeof checks);
    be->read_images(be, found, handle, 0, sizeof found);
    for (int i = 0; i < 3; i++)
        assert_memory_equal(found + 12 * i, images + 12 * index[i], 12);
    assert_memory_equal(found + 36, more, sizeof more);
    assert_true(checks[7] == 1 && checks[0] == 1 && checks[4] == 1 && checks[1] == 0);
    SUCCEEDS(be->expect_images(be, handle, order, 4, NULL));
    SUCCEEDS(be->sync(be));
    broken = 4;
    be->read_images(be, found, handle, 5, 19); /* of the first two */
    SUCCEEDS(be->sync(be));
    be->read_images(be, found, handle, 24, 1);
    assert_int_equal(be->sync(be), RC_FORMAT);
    data_assert_message("record 4");
    be->release(be, handle);
    rc_backend_close(be);
}

static void reading_ahead_keeps_to_its_window(void **state)
{
    (void)state;
    enum { RECORD = 1 << 20, COUNT = 100 };
    const struct timespec moment = {.tv_nsec = 100000}, longer = {.tv_nsec = 2000000};
    rc_ahead *ahead;
    int32_t order[COUNT];
    static uint8_t page[1 << 20]; /* asking for what is not mapped fails, and does no harm */
    for (int i = 0; i < COUNT; i++)
        order[i] = 0;
    SUCCEEDS(rc_ahead_create(page, RECORD, &ahead));
    SUCCEEDS(rc_ahead_expect(ahead, order, COUNT));
    while (rc_ahead_asked(ahead) < 32)
        nanosleep(&moment, NULL);
    nanosleep(&longer, NULL);
    assert_int_equal(rc_ahead_asked(ahead), 32);
    rc_ahead_reached(ahead, 50);
    while (rc_ahead_asked(ahead) < 82)
        nanosleep(&moment, NULL);
    rc_ahead_reached(ahead, 1000);
    assert_int_equal(rc_ahead_asked(ahead), COUNT);
    SUCCEEDS(rc_ahead_expect(ahead, order, 10));
    while (rc_ahead_asked(ahead) < 10)
        nanosleep(&moment, NULL);
    rc_ahead_destroy(ahead);
    rc_ahead_destroy(NULL);
}

static void expect_refusal(const char *out, rc_status status, const char *words)
{
    rc_pack_result result;
    assert_int_equal(rc_pack_write("set", &reading, out, &result), status);
    if (strstr(rc_message(), words) == NULL)
        fail_msg("'%s' does not say '%s'", rc_message(), words);
}

/* Two writers of one pack would mix their records. */
static void a_pack_has_one_writer_and_one_name(void **state)
{
    (void)state;
    char name[RC_PATH_SIZE + 1];
    make_pack("set.pack");
    expect_refusal("set.pack", RC_INVALID_ARGUMENT, "'set.pack' is there already");
    int other = open("new.pack.part.log", O_RDWR | O_CREAT, 0600);
    assert_true(other >= 0);
    assert_int_equal(flock(other, LOCK_EX), 0);
    expect_refusal("new.pack", RC_IO, "another process is writing 'new.pack.part'");
    close(other);
    rc_pack_result result;
    SUCCEEDS(rc_pack_write("set", &reading, "new.pack", &result));
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    expect_refusal(name, RC_INVALID_ARGUMENT, "the name of the pack has");
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, data_enter_folder, data_leave_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(what_is_packed_is_what_was_read),
        IN_FOLDER(sets_in_memory_are_packed_too),
        IN_FOLDER(other_images_than_were_packed_are_refused),
        IN_FOLDER(pictures_are_turned_as_they_were_packed),
        IN_FOLDER(every_flipped_bit_is_noticed),
        IN_FOLDER(every_cut_is_noticed),
        IN_FOLDER(lies_are_refused),
        IN_FOLDER(what_was_stopped_goes_on),
        IN_FOLDER(a_pack_has_one_writer_and_one_name),
        IN_FOLDER(lent_images_are_read_where_they_are),
        IN_FOLDER(reading_ahead_keeps_to_its_window),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rc_free(NULL, whole);
    return failed;
}
