/* Packs byte by byte: where each field lies, what each may be, what the files of an unfinished pack hold and when they
 * are believed; and what is refused in which words. */
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/memory.h"
#include "data/pack.h"
#include "support/data_files.h"
#include "support/succeeds.h"

/* ---- the header -------------------------------------------------------------------------------------------------- */

/* Two records of 2 x 2 x 3 bytes, of two classes. */
static const rc_pack_facts facts = {.side = 2,
                                    .channels = 3,
                                    .resize = 0x103,
                                    .interpolation = 1,
                                    .classes = 2,
                                    .train = 1,
                                    .test = 1,
                                    .exif = RC_PACK_EXIF_IGNORED,
                                    .names_bytes = 5,
                                    .file_bytes = 4096 + 2 * 12 + 2 * 8 + 5,
                                    .table_crc = 0x89ABCDEF,
                                    .mean = {0.5f, 0.25f, 1, 0},
                                    .std = {0.125f, 1, 0.5f, 0},
                                    .name = "a set"};

static void every_field_has_its_place(void **state)
{
    (void)state;
    uint8_t header[RC_PACK_HEADER], expected[RC_PACK_HEADER] = "rcpack\r\n\2";
    static const uint8_t fields[] = "\357\315\253\211\2\0\0\0\3\0\0\0\3\1\0\0\1\0\0\0\2\0\0\0\1\0\0\0\1\0\0\0"
                                    "\5\0\0\0\0\0\0\0\55\20\0\0\0\0\0\0\0\0\0\77\0\0\200\76\0\0\200\77\0\0\0\0"
                                    "\0\0\0\76\0\0\200\77\0\0\0\77\0\0\0\0a set";
    memcpy(expected + 16, fields, sizeof fields - 1);
    expected[128] = 2;
    uLong sum = crc32(0, expected, sizeof expected);
    for (int i = 0; i < 4; i++)
        expected[12 + i] = (uint8_t)(sum >> 8 * i);
    rc_pack_write_header(&facts, header);
    assert_memory_equal(header, expected, sizeof header);
    rc_pack_facts found;
    SUCCEEDS(rc_pack_parse("p", header, facts.file_bytes, &found));
    assert_memory_equal(&found.side, &facts.side, 8 * sizeof(int));
    assert_true(found.names_bytes == facts.names_bytes && found.file_bytes == facts.file_bytes);
    assert_int_equal(found.table_crc, facts.table_crc);
    assert_memory_equal(found.mean, facts.mean, sizeof facts.mean);
    assert_memory_equal(found.std, facts.std, sizeof facts.std);
    assert_string_equal(found.name, "a set");
    assert_int_equal(rc_pack_record(&facts), 12);
    rc_pack_facts long_name = facts;
    memset(long_name.name, 'n', sizeof long_name.name);
    rc_pack_write_header(&long_name, header);
    SUCCEEDS(rc_pack_parse("p", header, facts.file_bytes, &found));
    assert_int_equal(strlen(found.name), RC_PACK_NAME - 1);
}

static void every_field_is_checked(void **state)
{
    (void)state;
    uint8_t header[RC_PACK_HEADER];
    rc_pack_facts f, found;
#define LIE(change, words) \
    do { \
        f = facts; \
        change; \
        rc_pack_write_header(&f, header); \
        assert_int_equal(rc_pack_parse("p", header, facts.file_bytes, &found), RC_FORMAT); \
        data_assert_words("p: " words); \
    } while (0)
    LIE(f.side = 0, "the pack has side 0, expected 1 to 1024");
    LIE(f.side = 1025, "the pack has side 1025, expected 1 to 1024");
    LIE(f.channels = 0, "the pack has channels 0, expected 1 to 3");
    LIE(f.channels = 2, "the pack has channels 2, expected 1 or 3");
    LIE(f.channels = 4, "the pack has channels 4, expected 1 to 3");
    LIE(f.resize = 1, "the pack has resize 1, expected 2 to 4096");
    LIE(f.resize = 4097, "the pack has resize 4097, expected 2 to 4096");
    LIE(f.interpolation = 2, "the pack has interpolation 2, expected 0 to 1");
    LIE(f.classes = 0, "the pack has classes 0, expected 1 to 30000");
    LIE(f.classes = 30001, "the pack has classes 30001, expected 1 to 30000");
    LIE(f.train = INT_MIN, "the pack has training records 2147483648, expected 0 to 2147483647");
    LIE(f.train = INT_MAX, "the pack has test records 1, expected 0 to 0");
    LIE(f.test = INT_MAX, "the pack has test records 2147483647, expected 0 to 2147483646");
    LIE((f.train = 0, f.test = 0), "the pack has no records");
    LIE(f.train = 3, "the pack ends in record 3 of 4: it has 4141 bytes, expected 4141");
    LIE((f.train = 3, f.file_bytes = 5000), "the pack ends in record 3 of 4: it has 4141 bytes, expected 5000");
    LIE(f.test = 2, "the pack has 4141 bytes and says 4141; its 3 records, their table and 5 bytes of names make 4161");
    LIE(f.test = 0, "the pack has 4141 bytes and says 4141; its 1 records, their table and 5 bytes of names make 4121");
    LIE(f.names_bytes = 6,
        "the pack has 4141 bytes and says 4141; its 2 records, their table and 6 bytes of names make 4142");
    LIE(f.file_bytes++,
        "the pack has 4141 bytes and says 4142; its 2 records, their table and 5 bytes of names make 4141");
#define NUMBERS(channel, mean, deviation) \
    "channel " channel " of the pack has mean " mean " and deviation " deviation \
    ", expected numbers of 0 to 1, and a deviation above 0"
    LIE(f.mean[0] = -0.5f, NUMBERS("0", "-0.5", "0.125"));
    LIE(f.mean[1] = 1.5f, NUMBERS("1", "1.5", "1"));
    LIE(f.std[2] = 0, NUMBERS("2", "1", "0"));
    LIE(f.std[2] = 2, NUMBERS("2", "1", "2"));
    LIE(f.name[0] = 0, "the name of the set in the pack is not printable UTF-8 of 1 to 31 bytes");
    LIE(f.name[1] = '\n', "the name of the set in the pack is not printable UTF-8 of 1 to 31 bytes");
    static const struct {
        size_t at;
        int byte;
        bool seal;
        rc_status status;
        const char *words;
    } bytes[] = {
        {0, 'R', true, RC_FORMAT, "p: not a pack; one begins with 'rcpack'"},
        {7, '\r', true, RC_FORMAT, "p: not a pack; one begins with 'rcpack'"},
        {8, 0, true, RC_UNSUPPORTED, "p: a pack of version 0, expected 1 to 2; pack the data again"},
        {8, 1, true, RC_FORMAT, "p: byte 128 of the pack's header is 2, expected 0"},
        {8, 3, true, RC_UNSUPPORTED, "p: a pack of version 3, expected 1 to 2; pack the data again"},
        {9, 1, true, RC_UNSUPPORTED, "p: a pack of version 258, expected 1 to 2; pack the data again"},
        {12, -1, false, RC_FORMAT, "p: the header of the pack is damaged: its checksum is another"},
        {4095, 1, false, RC_FORMAT, "p: the header of the pack is damaged: its checksum is another"},
        {127, 'n', true, RC_OK, NULL}, /* behind the end of the name */
        {128, 3, true, RC_FORMAT, "p: the pack has exif 3, expected 0 to 2"},
        {132, 1, true, RC_FORMAT, "p: byte 132 of the pack's header is 1, expected 0"},
        {4095, 255, true, RC_FORMAT, "p: byte 4095 of the pack's header is 255, expected 0"},
    };
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) {
        rc_pack_write_header(&facts, header);
        header[bytes[i].at] = bytes[i].byte >= 0 ? (uint8_t)bytes[i].byte : (uint8_t)~header[bytes[i].at];
        if (bytes[i].seal) {
            memset(header + 12, 0, 4);
            rc_pack_put32(header + 12, rc_pack_crc(0, header, sizeof header));
        }
        assert_int_equal(rc_pack_parse("p", header, facts.file_bytes, &found), bytes[i].status);
        if (bytes[i].words != NULL)
            data_assert_words(bytes[i].words);
    }
    rc_pack_write_header(&facts, header);
    memset(header + 96, 'n', 32);
    memset(header + 12, 0, 4);
    rc_pack_put32(header + 12, rc_pack_crc(0, header, sizeof header));
    assert_int_equal(rc_pack_parse("p", header, facts.file_bytes, &found), RC_FORMAT);
    data_assert_words("p: the name of the set in the pack is not printable UTF-8 of 1 to 31 bytes");
    assert_int_equal(rc_pack_parse("p", header, 4095, &found), RC_FORMAT);
    data_assert_words("p: a pack of 4095 bytes, expected 4096 for its header");
    /* The largest and the smallest that may be. */
    f = (rc_pack_facts){.side = 1024, .channels = 1, .resize = 4096, .classes = 30000, .test = 1, .name = "x"};
    f.std[0] = 1;
    f.names_bytes = 131072;
    f.file_bytes = 4096 + 1024 * 1024 + 8 + 131072;
    rc_pack_write_header(&f, header);
    SUCCEEDS(rc_pack_parse("p", header, f.file_bytes, &found));
    f = (rc_pack_facts){.side = 1, .channels = 1, .resize = 1, .classes = 1, .train = INT_MAX, .name = "x"};
    f.std[0] = 1;
    f.mean[0] = 1;
    f.names_bytes = ((uint64_t)7 << 32) + 1;
    f.file_bytes = 4096 + (uint64_t)INT_MAX * 9 + f.names_bytes;
    rc_pack_write_header(&f, header);
    SUCCEEDS(rc_pack_parse("p", header, f.file_bytes, &found));
    assert_true(found.file_bytes == f.file_bytes && found.names_bytes == f.names_bytes);
}

/* ---- a whole pack ------------------------------------------------------------------------------------------------ */

/* The pack of the facts above: its images, table and names. */
static void make_whole(uint8_t *bytes, uint32_t label, const char *names)
{
    rc_pack_facts f = facts;
    for (int i = 0; i < 24; i++)
        bytes[4096 + i] = (uint8_t)(3 * i);
    rc_pack_put32(bytes + 4120, 1);
    rc_pack_put32(bytes + 4124, rc_pack_crc(0, bytes + 4096, 12));
    rc_pack_put32(bytes + 4128, label);
    rc_pack_put32(bytes + 4132, rc_pack_crc(0, bytes + 4108, 12));
    memcpy(bytes + 4136, names, 5);
    f.table_crc = rc_pack_crc(0, bytes + 4120, 21);
    rc_pack_write_header(&f, bytes);
}

static void tables_and_names_are_checked(void **state)
{
    (void)state;
    uint8_t bytes[4141];
    rc_pack *pack;
    make_whole(bytes, 0, "ab\0c\0");
    SUCCEEDS(rc_pack_read("p", bytes, sizeof bytes, &pack));
    assert_int_equal(rc_pack_about(pack)->classes, 2);
    assert_int_equal(rc_pack_label(pack, 0), 1);
    assert_int_equal(rc_pack_label(pack, 1), 0);
    assert_int_equal(rc_pack_checksum(pack, 1), crc32(0, bytes + 4108, 12));
    assert_ptr_equal(rc_pack_image(pack, 1), bytes + 4108);
    assert_memory_equal(rc_pack_names(pack), "ab\0c\0", 5);
    SUCCEEDS(rc_pack_check(pack, 1));
    bytes[4108] ^= 1;
    SUCCEEDS(rc_pack_check(pack, 1)); /* once is enough */
    bytes[4096] = 1;
    assert_int_equal(rc_pack_check(pack, 0), RC_FORMAT);
    char words[128];
    snprintf(words, sizeof words, "p: record 0 of the pack is damaged: its checksum is %08x, expected %08x",
             (unsigned)crc32(0, bytes + 4096, 12), rc_pack_checksum(pack, 0));
    data_assert_words(words);
    rc_pack_close(pack);
    rc_pack_close(NULL);
    static const struct {
        uint32_t label;
        const char *names, *words;
    } cases[] = {{2, "ab\0c\0", "p: record 1 of the pack has label 2, expected 0 to 1"},
                 {UINT32_MAX, "ab\0c\0", "p: record 1 of the pack has label 4294967295, expected 0 to 1"},
                 {0, "ab\0cd", "p: the pack has 1 names, expected 2"},
                 {0, "abcde", "p: the pack has 0 names, expected 2"},
                 {0, "a\0b\0c", "p: 1 bytes follow the names of the pack"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        make_whole(bytes, cases[i].label, cases[i].names);
        assert_int_equal(rc_pack_read("p", bytes, sizeof bytes, &pack), RC_FORMAT);
        data_assert_words(cases[i].words);
        assert_null(pack);
    }
    make_whole(bytes, 0, "ab\0c\0");
    bytes[4120] ^= 1;
    assert_int_equal(rc_pack_read("p", bytes, sizeof bytes, &pack), RC_FORMAT);
    data_assert_words("p: the table of the pack is damaged: its checksum is another");
}

static void packs_are_opened_as_they_were_made(void **state)
{
    (void)state;
    uint8_t bytes[4141];
    rc_dataset d;
    make_whole(bytes, 0, "ab\0c\0");
    data_write("it.pack", bytes, sizeof bytes);
    const rc_data_settings made = {.resize = 0x103, .interpolation = RC_BICUBIC, .ignore_exif = true};
    data_open("it.pack", &made, &d);
    assert_true(d.h == 2 && d.w == 2 && d.c == 3 && d.classes == 2 && d.train.count == 1 && d.test.count == 1);
    assert_string_equal(d.name, "a set");
    assert_string_equal(d.class_name[0], "ab");
    assert_string_equal(d.class_name[1], "c");
    assert_memory_equal(d.train.images, bytes + 4096, 12);
    assert_memory_equal(d.test.images, bytes + 4108, 12);
    assert_true(d.train.labels[0] == 1 && d.test.labels[0] == 0 && d.test.first_record == 1);
    assert_true(d.seen.images == 1 && d.seen.h == 2 && d.seen.w == 2 && d.seen.same);
    assert_memory_equal(d.mean, facts.mean, sizeof facts.mean);
    assert_memory_equal(d.std, facts.std, sizeof facts.std);
    assert_int_equal(rc_split_checksum(&d.test, 0), crc32(0, bytes + 4108, 12));
    rc_dataset_close(&d);
#define MADE_WITH "the images of 'it.pack' were made with resize 259 (bicubic), and "
#define THE_SAME  " is asked for; ask for the same (the settings 'resize' and 'interpolation'), or pack the data again"
    static const struct {
        rc_data_settings settings;
        const char *words;
    } cases[] = {
        {{.size = 3}, "'it.pack' holds images of 2 pixels, and 3 are asked for; pack the data again with size 3"},
        {{.channels = 1},
         "'it.pack' holds coloured images, and grey ones are asked for; pack the data again with channels 1"},
        {{.resize = 0x103}, MADE_WITH "resize 259 (bilinear)" THE_SAME},
        {{.resize = 4}, MADE_WITH "resize 4 (bilinear)" THE_SAME},
        {{.interpolation = RC_BICUBIC}, MADE_WITH "resize 2 (bicubic)" THE_SAME},
        {{.resize = 0x103, .interpolation = RC_BICUBIC},
         "the images of 'it.pack' were made with exif false, and exif true is asked for; ask for the same (the setting "
         "'exif'), or pack the data again with exif true"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(rc_dataset_open("it.pack", &cases[i].settings, &d), RC_INVALID_ARGUMENT);
        data_assert_words(cases[i].words);
    }
    data_write_text("empty.pack", "");
    assert_int_equal(rc_dataset_open("empty.pack", &(rc_data_settings){.format = "pack"}, &d), RC_FORMAT);
    data_write("cut.pack", bytes, 4100);
    assert_int_equal(rc_dataset_open("cut.pack", NULL, &d), RC_FORMAT);
    data_assert_words("cut.pack: the pack ends in record 0 of 2: it has 4100 bytes, expected 4141");
    data_write("cut.pack", bytes, 4120); /* after the last record */
    assert_int_equal(rc_dataset_open("cut.pack", NULL, &d), RC_FORMAT);
    data_assert_words(
        "cut.pack: the pack has 4120 bytes and says 4141; its 2 records, their table and 5 bytes of names "
        "make 4141");
}

/* ---- making one -------------------------------------------------------------------------------------------------- */

static char told[4096];

static void tell_line(void *user, int level, const char *text)
{
    (void)user, (void)level;
    size_t used = strlen(told);
    snprintf(told + used, sizeof told - used, "%s\n", text);
}

static bool tell_progress(void *user, const char *what, int done, int total)
{
    size_t used = strlen(told);
    snprintf(told + used, sizeof told - used, "%s: %d of %d\n", what, done, total);
    return user == NULL || done < *(const int *)user;
}

static const rc_log log_of = {tell_line, NULL, RC_LOG_INFO};

enum { MANY = 260 };

static void write_many(void)
{
    char path[64];
    for (int i = 0; i < MANY; i++) {
        snprintf(path, sizeof path, "s/train/a/%03d.ppm", i);
        data_write_colour(path, 2, 2, i % 256, 7, i / 256);
    }
    data_write_colour("s/test/a/0.ppm", 2, 2, 1, 2, 3);
}

static void read_file(const char *path, uint8_t **bytes, size_t *size)
{
    char *text;
    SUCCEEDS(rc_file_read(path, 1 << 20, &text, size));
    *bytes = (uint8_t *)text;
}

/* Two pieces to train on, and one to test with. */
static void an_unfinished_pack_goes_on(void **state)
{
    (void)state;
    rc_pack_result result;
    uint8_t *log, *part, *whole;
    size_t log_size, part_size, size;
    int stop = 256;
    write_many();
    rc_data_settings settings = {.size = 2, .channels = 3, .progress = tell_progress, .user = &stop, .log = &log_of};
    assert_int_equal(rc_pack_write("s", &settings, "p", &result), RC_CANCELLED);
    assert_string_equal(told, "260 training and 1 test images, as 2 x 2 pixels in colour: 0.0 MB\n"
                              "reading images: 0 of 260\nreading images: 256 of 260\n");
    read_file("p.part.log", &log, &log_size);
    read_file("p.part", &part, &part_size);
    assert_int_equal(log_size, 16 + 8 + 256 * 8 + 4);
    assert_int_equal(part_size, 4096 + 256 * 12);
    assert_memory_equal(log, "rcpart1\n", 8);
    assert_int_equal(rc_pack_get32(log + 16), 256);
    assert_int_equal(rc_pack_get32(log + 20), 256);
    assert_int_equal(rc_pack_get32(log + 24), 0);
    for (int i = 0; i < 256; i++) {
        assert_int_equal(rc_pack_get32(log + 28 + 8 * i), crc32(0, part + 4096 + 12 * i, 12));
        assert_int_equal(part[4096 + 12 * i], i);
    }
    assert_int_equal(rc_pack_get32(log + log_size - 4), crc32(0, log + 16, 8 + 256 * 8));
    /* Whatever is wrong with the files, the pack is the same; what is right in them is taken over. */
    settings.user = NULL;
    settings.log = NULL;
    SUCCEEDS(rc_pack_write("s", &settings, "q", &result));
    assert_int_equal(result.resumed, 0);
    read_file("q", &whole, &size);
    static const struct {
        const char *path;
        size_t at;  /* of this byte ... */
        int change; /* ... some bits; 0: the file ends before it */
        int resumed;
    } cases[] = {
        {"p.part.log", 0, 0, 0},  {"p.part.log", 15, 0, 0},   {"p.part.log", 16, 0, 0},   {"p.part.log", 23, 0, 0},
        {"p.part.log", 24, 0, 0}, {"p.part.log", 2075, 0, 0}, {"p.part.log", 7, 1, 0},    {"p.part.log", 8, 1, 0},
        {"p.part.log", 15, 1, 0}, {"p.part.log", 16, 1, 0},   {"p.part.log", 20, 1, 0},   {"p.part.log", 22, 1, 0},
        {"p.part.log", 24, 1, 0}, {"p.part.log", 28, 1, 0},   {"p.part.log", 2072, 1, 0}, {"p.part", 4096, 1, 0},
        {"p.part", 7167, 1, 0},   {"p.part", 7167, 0, 0},     {"p.part", 100, 1, 256},    {"p.part.log", 2076, 0, 256}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool of_log = strcmp(cases[i].path, "p.part.log") == 0;
        data_write("p.part.log", log, log_size);
        data_write("p.part", part, part_size);
        uint8_t *bytes = of_log ? log : part;
        bytes[cases[i].at < log_size || !of_log ? cases[i].at : 0] ^= (uint8_t)cases[i].change;
        data_write(cases[i].path, bytes, cases[i].change != 0 ? (of_log ? log_size : part_size) : cases[i].at);
        bytes[cases[i].at < log_size || !of_log ? cases[i].at : 0] ^= (uint8_t)cases[i].change;
        unlink("p");
        SUCCEEDS(rc_pack_write("s", &settings, "p", &result));
        if (result.resumed != cases[i].resumed)
            fail_msg("case %zu: %d images are taken over, expected %d", i, result.resumed, cases[i].resumed);
        uint8_t *again;
        size_t again_size;
        read_file("p", &again, &again_size);
        assert_int_equal(again_size, size);
        assert_memory_equal(again, whole, size);
        rc_free(NULL, again);
    }
    /* Counts that cannot be, under a checksum that fits: no files, fewer than records, more than there are. */
    static const uint8_t files[][2] = {{0, 0}, {255, 0}, {6, 1}};
    uint8_t *damaged = rc_alloc(NULL, log_size);
    assert_non_null(damaged);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        memcpy(damaged, log, log_size);
        memcpy(damaged + 16, files[i], 2);
        uint32_t crc = (uint32_t)crc32(0, damaged + 16, 8 + 256 * 8);
        for (size_t byte = 0; byte < 4; byte++)
            damaged[log_size - 4 + byte] = (uint8_t)(crc >> (8 * byte));
        data_write("p.part.log", damaged, log_size);
        data_write("p.part", part, part_size);
        unlink("p");
        SUCCEEDS(rc_pack_write("s", &settings, "p", &result));
        assert_int_equal(result.resumed, 0);
        assert_int_equal(result.broken, 0);
    }
    rc_free(NULL, damaged);
    /* As it is told. */
    unlink("p");
    data_write("p.part.log", log, log_size);
    data_write("p.part", part, part_size);
    told[0] = '\0';
    settings.log = &log_of;
    SUCCEEDS(rc_pack_write("s", &settings, "p", &result));
    assert_string_equal(told, "260 training and 1 test images, as 2 x 2 pixels in colour: 0.0 MB\n"
                              "checking what is packed: 0 of 261\nchecking what is packed: 256 of 261\n"
                              "256 of 261 images are packed already\n"
                              "reading images: 256 of 260\nreading images: 260 of 260\n"
                              "reading test images: 0 of 1\nreading test images: 1 of 1\n");
    assert_int_equal(access("p.part", F_OK), -1);
    assert_int_equal(access("p.part.log", F_OK), -1);
    rc_free(NULL, log);
    rc_free(NULL, part);
    rc_free(NULL, whole);
}

/* What an earlier call could not read is missing in the pack, and told. */
static void broken_images_of_earlier_calls_are_counted(void **state)
{
    (void)state;
    rc_pack_result result;
    int stop = 256;
    write_many();
    data_write_text("s/train/a/003.ppm", "P6");
    data_write_text("s/train/a/259.ppm", "P6");
    rc_data_settings settings = {
        .size = 2, .channels = 3, .skip_broken = true, .progress = tell_progress, .user = &stop, .log = &log_of};
    assert_int_equal(rc_pack_write("s", &settings, "p", &result), RC_CANCELLED);
    settings.user = NULL;
    settings.log = NULL;
    settings.progress = NULL;
    SUCCEEDS(rc_pack_write("s", &settings, "p", &result));
    assert_int_equal(result.resumed, 255);
    assert_int_equal(result.facts.train, 258);
    assert_int_equal(result.broken, 2);
}

/* Files of other data or settings are not gone on with. */
static void another_job_begins_anew(void **state)
{
    (void)state;
    static const rc_data_settings settings[] = {
        {.size = 2, .channels = 3},
        {.size = 3, .channels = 3},
        {.size = 2, .channels = 1},
        {.size = 2, .channels = 3, .resize = 3},
        {.size = 2, .channels = 3, .interpolation = RC_BICUBIC},
        {.size = 2, .channels = 3, .ignore_exif = true},
        {.size = 2, .channels = 3, .per_class = 259},
    };
    rc_pack_result result;
    int stop = 256;
    char job[16];
    uint8_t *log;
    size_t size;
    write_many();
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        for (int again = 0; again < 2; again++) {
            rc_data_settings own = settings[i];
            own.progress = tell_progress;
            own.user = &stop;
            own.log = &log_of;
            told[0] = '\0';
            assert_int_equal(rc_pack_write("s", &own, "p", &result), RC_CANCELLED);
            bool anew = strstr(told, "'p.part' is of other data or settings: beginning anew\n") != NULL;
            assert_int_equal(anew, i > 0 && again == 0);
            assert_int_equal(strstr(told, "checking what is packed: 256 of ") != NULL, again == 1);
        }
    read_file("p.part.log", &log, &size);
    memcpy(job, log, 16);
    rc_free(NULL, log);
    rc_data_settings own = settings[6];
    own.progress = tell_progress;
    own.user = &stop;
    /* Another class, another name, another size, another time. */
    static const char *const changes[] = {"s/train/b/1.ppm", "s/train/a/1x.ppm", "s/train/a/000.ppm"};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        data_write_colour(changes[i], 3, 2, 1, 1, 1);
        assert_int_equal(rc_pack_write("s", &own, "p", &result), RC_CANCELLED);
        read_file("p.part.log", &log, &size);
        assert_memory_not_equal(job, log, 16);
        memcpy(job, log, 16);
        rc_free(NULL, log);
    }
    const struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 1000, .tv_nsec = 5}};
    for (int i = 0; i < 3; i++) {
        const struct timespec moved = {.tv_sec = 1000 + i / 2, .tv_nsec = times[i % 2].tv_nsec};
        assert_int_equal(utimensat(AT_FDCWD, "s/test/a/0.ppm", (struct timespec[2]){moved, moved}, 0), 0);
        assert_int_equal(rc_pack_write("s", &own, "p", &result), RC_CANCELLED);
        read_file("p.part.log", &log, &size);
        assert_memory_not_equal(job, log, 16);
        memcpy(job, log, 16);
        rc_free(NULL, log);
    }
}

static void what_cannot_be_packed_is_named(void **state)
{
    (void)state;
    rc_pack_result result;
    const rc_data_settings settings = {.size = 2, .channels = 3, .skip_broken = true};
    char name[RC_PATH_SIZE];
    data_write_text("broken/a/1.ppm", "P6");
    assert_int_equal(rc_pack_write("broken", &settings, "p", &result), RC_FORMAT);
    data_assert_words("there is no image to pack");
    assert_int_equal(result.broken, 1);
    data_write_colour("s/a/1.ppm", 2, 2, 1, 2, 3);
    data_write_text("s/a/2.ppm", "P6");
    data_write_text("s/a/notes.txt", "x");
    data_write("s/a/x", "\1", 1);
    unlink("p.part");
    unlink("p.part.log");
    SUCCEEDS(rc_pack_write("s", &settings, "p", &result));
    assert_true(result.broken == 1 && result.left_out == 1 && result.not_pictures == 1 && result.resumed == 0);
    assert_true(result.facts.train == 1 && result.facts.test == 0 && result.facts.resize == 2);
    assert_true(result.facts.mean[1] == (float)(2 / 255.0) && result.facts.std[1] == 1);
    assert_int_equal(rc_pack_write("s", &settings, "p", &result), RC_INVALID_ARGUMENT);
    data_assert_words("'p' is there already; remove it, or give another name");
    assert_int_equal(rc_pack_write("p", &settings, "q", &result), RC_INVALID_ARGUMENT);
    data_assert_words("'p' is a pack already");
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_int_equal(rc_pack_write("s", &settings, name, &result), RC_INVALID_ARGUMENT);
    data_assert_words("the name of the pack has 4100 bytes, expected fewer than 4096");
    data_write_text("q.part.log/x", "");
    assert_int_equal(rc_pack_write("s", &settings, "q", &result), RC_IO);
    data_assert_message("'q.part.log' cannot be made: Is a directory");
    data_write_text("r.part/x", "");
    assert_int_equal(rc_pack_write("s", &settings, "r", &result), RC_IO);
    data_assert_message("'r.part' cannot be made: Is a directory");
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, data_enter_folder, data_leave_folder)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_has_its_place),    cmocka_unit_test(every_field_is_checked),
        cmocka_unit_test(tables_and_names_are_checked), IN_FOLDER(packs_are_opened_as_they_were_made),
        IN_FOLDER(an_unfinished_pack_goes_on),          IN_FOLDER(another_job_begins_anew),
        IN_FOLDER(what_cannot_be_packed_is_named),      IN_FOLDER(broken_images_of_earlier_calls_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
