/* Archives and what is read from them: every field of a zip archive and of a tar archive is looked at, and what is
 * wrong is named, word for word. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include <cmocka.h>

#include "base/memory.h"
#include "data/bundle.h"
#include "data/input.h"
#include "data/tar.h"
#include "data/zip.h"
#include "support/data_files.h"
#include "support/succeeds.h"

/* ---- zip --------------------------------------------------------------------------------------------------------- */

static void add_short(data_bytes *bytes, unsigned value)
{
    data_add_byte(bytes, (int)(value & 255));
    data_add_byte(bytes, (int)(value >> 8));
}

enum { ENTRIES = 3, TEXT = 600 };

/* Where things lie in the archive. */
typedef struct archive {
    data_bytes bytes;
    size_t local[ENTRIES], entry[ENTRIES], end;
} archive;

static uint8_t text_of(int i)
{
    return (uint8_t)("recollect"[i % 9] + i / 100);
}

/* Three entries: "one", stored; "twice", deflated; "nil", of no bytes. Local headers have a name and 3 bytes more,
 * entries of the directory 5 bytes more and a comment, and a comment ends the archive. */
static archive make_archive(void)
{
    static const char *const names[ENTRIES] = {"one", "twice", "nil"};
    archive a = {0};
    uint8_t text[TEXT], packed[TEXT];
    for (int i = 0; i < TEXT; i++)
        text[i] = text_of(i);
    z_stream stream = {.next_in = text, .avail_in = TEXT, .next_out = packed, .avail_out = sizeof packed};
    assert_int_equal(deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    const uint8_t *data[ENTRIES] = {text, packed, text};
    const unsigned size[ENTRIES] = {7, (unsigned)stream.total_out, 0}, unpacked[ENTRIES] = {7, TEXT, 0};
    deflateEnd(&stream);
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < ENTRIES; i++) {
            data_bytes *b = &a.bytes;
            *(pass == 0 ? &a.local[i] : &a.entry[i]) = b->size;
            data_add_little(b, pass == 0 ? 0x04034b50 : 0x02014b50);
            if (pass == 1)
                add_short(b, 0x031E); /* who made it */
            add_short(b, 20);
            add_short(b, 2);
            add_short(b, i == 1 ? 8 : 0);
            data_add_little(b, 0x55665566);
            data_add_little(b, (uint32_t)crc32(0, text, unpacked[i]));
            data_add_little(b, size[i]);
            data_add_little(b, unpacked[i]);
            add_short(b, (unsigned)strlen(names[i]));
            add_short(b, pass == 0 ? 3 : 5);
            if (pass == 1) {
                add_short(b, 4);
                add_short(b, 0);
                add_short(b, 1);
                data_add_little(b, 0x01020304);
                data_add_little(b, (uint32_t)a.local[i]);
            }
            data_add_text(b, names[i]);
            data_add(b, "\xFE\xCA\1\0x", pass == 0 ? 3 : 5);
            if (pass == 0)
                data_add(b, data[i], size[i]);
            else
                data_add_text(b, "note");
        }
    size_t directory = a.entry[0];
    a.end = a.bytes.size;
    data_add_little(&a.bytes, 0x06054b50);
    data_add_little(&a.bytes, 0);
    add_short(&a.bytes, ENTRIES);
    add_short(&a.bytes, ENTRIES);
    data_add_little(&a.bytes, (uint32_t)(a.end - directory));
    data_add_little(&a.bytes, (uint32_t)directory);
    add_short(&a.bytes, 6);
    data_add_text(&a.bytes, "ending");
    return a;
}

/* "" where all is well, else the message: of the archive, or of the first entry that cannot be read. */
static const char *outcome(const archive *a)
{
    rc_zip *zip;
    size_t before = rc_bytes_allocated();
    uint8_t *copy = malloc(a->bytes.size);
    assert_non_null(copy);
    memcpy(copy, a->bytes.data, a->bytes.size);
    rc_status status = rc_zip_parse("z", copy, a->bytes.size, &zip);
    assert_int_equal(zip != NULL, status == RC_OK);
    for (int i = 0; status == RC_OK && i < rc_zip_count(zip); i++) {
        const uint8_t *data;
        size_t size;
        status = rc_zip_read(zip, i, &data, &size);
        if (status != RC_OK) /* and again */
            assert_int_equal(rc_zip_read(zip, i, &data, &size), status);
    }
    rc_zip_free(zip);
    free(copy);
    assert_int_equal(rc_bytes_allocated(), before);
    return status == RC_OK ? "" : rc_message();
}

static void entries_are_found_and_read(void **state)
{
    (void)state;
    static const char *const names[ENTRIES] = {"one", "twice", "nil"};
    static const size_t sizes[ENTRIES] = {7, TEXT, 0};
    archive a = make_archive();
    rc_zip *zip;
    assert_true(rc_zip_is(a.bytes.data, 4));
    assert_false(rc_zip_is(a.bytes.data, 3));
    assert_false(rc_zip_is(a.bytes.data + 1, 4));
    SUCCEEDS(rc_zip_parse("z", a.bytes.data, a.bytes.size, &zip));
    assert_int_equal(rc_zip_count(zip), ENTRIES);
    for (int i = 0; i < ENTRIES; i++) {
        size_t length, size;
        const uint8_t *data, *again;
        const char *name = rc_zip_name(zip, i, &length);
        assert_int_equal(length, strlen(names[i]));
        assert_memory_equal(name, names[i], length);
        assert_int_equal(rc_zip_find(zip, names[i], strlen(names[i])), i);
        SUCCEEDS(rc_zip_read(zip, i, &data, &size));
        assert_int_equal(size, sizes[i]);
        for (size_t k = 0; k < size; k++)
            assert_int_equal(data[k], text_of((int)k));
        SUCCEEDS(rc_zip_read(zip, i, &again, &size));
        assert_ptr_equal(again, data);
    }
    assert_int_equal(rc_zip_find(zip, "on", 2), -1);
    assert_int_equal(rc_zip_find(zip, "onE", 3), -1);
    rc_zip_free(zip);
    rc_zip_free(NULL);
    free(a.bytes.data);
}

#define CUT "'z' is damaged or cut off: "

static void every_field_of_a_zip_archive_is_checked(void **state)
{
    (void)state;
    enum { LOCAL, ENTRY, END };
    static const struct {
        int part, index;   /* of which entry */
        size_t at, size;   /* bytes of it */
        uint32_t value;    /* that becomes so much */
        const char *words; /* "": nobody minds */
    } cases[] = {
        {LOCAL, 0, 0, 4, 0x04034b51, "'z': entry 'one' is not where the directory says"},
        {LOCAL, 1, 8, 2, 99, ""}, /* what the directory says counts */
        {LOCAL, 1, 14, 4, 99, ""},
        {LOCAL, 0, 26, 2, 2, "'z': entry 'one' has a wrong checksum"},
        {LOCAL, 0, 28, 2, 4, "'z': entry 'one' has a wrong checksum"},
        {LOCAL, 1, 26, 2, 65535, "'z': entry 'twice' reaches behind the end of the archive"},
        {LOCAL, 1, 28, 2, 65535, "'z': entry 'twice' reaches behind the end of the archive"},
        {LOCAL, 2, 28, 2, 4, "'z': entry 'nil' reaches behind the end of the archive"},
        {LOCAL, 0, 36, 1, 'R', "'z': entry 'one' has a wrong checksum"},
        {LOCAL, 1, 38, 1, 255, "'z': entry 'twice' cannot be unpacked"},
        {ENTRY, 0, 0, 4, 0x02014b51, CUT "its directory has fewer entries than it says"},
        {ENTRY, 2, 0, 4, 0x02014b51, CUT "its directory has fewer entries than it says"},
        {ENTRY, 0, 8, 2, 3, "'z': entry 'one' is encrypted"},
        {ENTRY, 0, 8, 2, 0xFFFE, ""},
        {ENTRY, 0, 10, 2, 9, "'z': entry 'one' is packed in a way that recollect does not know"},
        {ENTRY, 0, 10, 2, 8, "'z': entry 'one' cannot be unpacked"},
        {ENTRY, 0, 10, 2, 256, "'z': entry 'one' is packed in a way that recollect does not know"},
        {ENTRY, 0, 16, 4, 1, "'z': entry 'one' has a wrong checksum"},
        {ENTRY, 1, 16, 4, 1, "'z': entry 'twice' has a wrong checksum"},
        {ENTRY, 0, 20, 4, 6, "'z': entry 'one' is packed in a way that recollect does not know"},
        {ENTRY, 0, 24, 4, 6, "'z': entry 'one' is packed in a way that recollect does not know"},
        {ENTRY, 0, 20, 4, 0x01000000, CUT "its entries overlap"},
        {ENTRY, 1, 24, 4, TEXT - 1, "'z': entry 'twice' cannot be unpacked"},
        {ENTRY, 1, 24, 4, TEXT + 1, "'z': entry 'twice' cannot be unpacked"},
        {ENTRY, 1, 24, 4, 0x7FFFFFFF,
         "'z': entry 'twice' would unpack to more than recollect takes of an archive of that size"},
        {ENTRY, 0, 24, 4, UINT32_MAX, "'z': entry 'one' is larger than 4 GB and does not say how large"},
        {ENTRY, 0, 42, 4, UINT32_MAX, "'z': entry 'one' is larger than 4 GB and does not say how large"},
        {ENTRY, 0, 42, 4, 1, "'z': entry 'one' is not where the directory says"},
        {ENTRY, 0, 42, 4, 0x1000, "'z': entry 'one' is not where the directory says"},
        {ENTRY, 0, 28, 2, 65535, CUT "an entry of its directory is longer than the directory"},
        {ENTRY, 0, 30, 2, 65535, CUT "an entry of its directory is longer than the directory"},
        {ENTRY, 0, 32, 2, 65535, CUT "an entry of its directory is longer than the directory"},
        {ENTRY, 2, 32, 2, 5, CUT "an entry of its directory is longer than the directory"},
        {ENTRY, 0, 32, 2, 5, CUT "its directory has fewer entries than it says"},
        {END, 0, 0, 4, 0x06054b51, CUT "the directory of the archive is missing"},
        {END, 0, 20, 2, 5, CUT "the directory of the archive is missing"},
        {END, 0, 20, 2, 7, CUT "the directory of the archive is missing"},
        {END, 0, 4, 2, 1, "'z' is a part of an archive, which recollect does not read"},
        {END, 0, 6, 2, 1, "'z' is a part of an archive, which recollect does not read"},
        {END, 0, 8, 2, 2, "'z' is a part of an archive, which recollect does not read"},
        {END, 0, 10, 2, 2, "'z' is a part of an archive, which recollect does not read"},
        {END, 0, 8, 4, 0x00040004, CUT "its directory does not fit into it"},
        {END, 0, 8, 4, 0x00020002, ""},
        {END, 0, 10, 2, 65535, CUT "the record of large archives is missing"},
        {END, 0, 12, 4, UINT32_MAX, CUT "the record of large archives is missing"},
        {END, 0, 16, 4, UINT32_MAX, CUT "the record of large archives is missing"},
        {END, 0, 16, 4, 0x10000, CUT "its directory does not fit into it"},
        {END, 0, 12, 4, 0x10000, CUT "its directory does not fit into it"},
    };
    archive a = make_archive();
    int wrong = 0;
    assert_string_equal(outcome(&a), "");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t at = cases[i].at + (cases[i].part == LOCAL   ? a.local[cases[i].index]
                                   : cases[i].part == ENTRY ? a.entry[cases[i].index]
                                                            : a.end);
        uint8_t kept[4];
        memcpy(kept, a.bytes.data + at, cases[i].size);
        for (size_t k = 0; k < cases[i].size; k++)
            a.bytes.data[at + k] = (uint8_t)(cases[i].value >> (8 * k));
        const char *found = outcome(&a);
        if (strcmp(found, cases[i].words) != 0) {
            print_error("case %zu: \"%s\", expected \"%s\"\n", i, found, cases[i].words);
            wrong++;
        }
        memcpy(a.bytes.data + at, kept, cases[i].size);
    }
    assert_int_equal(wrong, 0);
    free(a.bytes.data);
}

/* ---- tar --------------------------------------------------------------------------------------------------------- */

static const char *tar_outcome(const data_bytes *tar, rc_tar_member *member, uint8_t *content)
{
    rc_input *input;
    bool more;
    SUCCEEDS(rc_input_open_memory("t", tar->data, tar->size, &input));
    rc_tar reader = {.input = input};
    rc_status status = rc_tar_next(&reader, member, &more);
    if (status == RC_OK && more)
        status = rc_tar_read(&reader, member, content);
    if (status == RC_OK && !more)
        member->name[0] = 0;
    rc_input_close(input);
    return status == RC_OK ? "" : rc_message();
}

static void headers_of_tar_archives_are_read(void **state)
{
    (void)state;
    static const struct {
        size_t at, size;
        const char *bytes;
        bool seal;
        const char *words, *name; /* "": that is the end */
        int length;
    } cases[] = {
        {0, 0, "", true, "", "some/name", 5},
        {257, 6, "ustar\0", true, "", "some/name", 5},
        {345, 3, "far", true, "", "far/some/name", 5},
        {124, 12, "00000000003 ", true, "", "some/name", 3},
        {124, 12, "          3\0", true, "", "some/name", 3},
        {124, 12, "000000000003", true, "", "some/name", 3},
        {124, 12, "3\0          ", true, "", "some/name", 3},
        {124, 12, "            ", true, "'t': tar member 'some/name' has no size", "", 0},
        {124, 12, "00000000008\0", true, "'t': tar member 'some/name' has no size", "", 0},
        {124, 12, "0000000000x\0", true, "'t': tar member 'some/name' has no size", "", 0},
        {124, 12, "00000002001\0", true, "'t' is truncated inside 'some/name'", "", 0},
        {124, 12, "77777777777\0", true, "'t' says that it holds more than 4294967296 bytes (at 'some/name')", "", 0},
        {148, 6, "000000", false, "'t' is not a tar archive, or damaged: wrong sum in a header", "", 0},
        {148, 8, "xxxxxxxx", false, "'t' is not a tar archive, or damaged: wrong sum in a header", "", 0},
        {0, 1, "S", false, "'t' is not a tar archive, or damaged: wrong sum in a header", "", 0},
        {511, 1, "S", false, "'t' is not a tar archive, or damaged: wrong sum in a header", "", 0},
        {156, 1, "\0", true, "", "some/name", 5},
        {156, 1, "5", true, "", "", 0},
        {156, 1, "1", true, "", "", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        data_bytes tar = {0};
        rc_tar_member member;
        uint8_t content[2048];
        data_add_tar(&tar, "some/name", '0', "hello", 5);
        if (cases[i].at == 345)
            memcpy(tar.data + 257, "ustar\0", 6);
        memcpy(tar.data + cases[i].at, cases[i].bytes, cases[i].size);
        if (cases[i].seal)
            data_seal_tar(tar.data);
        const char *found = tar_outcome(&tar, &member, content);
        if (strcmp(found, cases[i].words) != 0)
            fail_msg("case %zu: '%s', expected '%s'", i, found, cases[i].words);
        if (cases[i].words[0] == 0)
            assert_string_equal(member.name, cases[i].name);
        if (cases[i].words[0] == 0 && cases[i].name[0] != 0) {
            assert_int_equal(member.size, cases[i].length);
            assert_memory_equal(content, "hello", (size_t)cases[i].length);
        }
        free(tar.data);
    }
}

static void cut_tar_archives_are_named(void **state)
{
    (void)state;
    data_bytes tar = {0};
    rc_tar_member member;
    uint8_t content[2048];
    data_add_tar(&tar, "name", '0', "hello", 5);
    data_add_tar(&tar, "other", '0', "there", 5);
    static const struct {
        size_t kept;
        const char *words;
    } cases[] = {{0, ""},
                 {1, "'t' is truncated inside a tar header"},
                 {511, "'t' is truncated inside a tar header"},
                 {512, "'t' is truncated inside 'name'"},
                 {516, "'t' is truncated inside 'name'"},
                 {517, ""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        data_bytes part = {tar.data, cases[i].kept};
        const char *found = tar_outcome(&part, &member, content);
        if (strcmp(found, cases[i].words) != 0)
            fail_msg("%zu bytes: '%s', expected '%s'", cases[i].kept, found, cases[i].words);
    }
    /* Between members. */
    rc_input *input;
    bool more;
    SUCCEEDS(rc_input_open_memory("t", tar.data, tar.size, &input));
    rc_tar reader = {.input = input};
    SUCCEEDS(rc_tar_next(&reader, &member, &more));
    SUCCEEDS(rc_tar_next(&reader, &member, &more)); /* the first is passed over */
    assert_string_equal(member.name, "other");
    SUCCEEDS(rc_tar_read(&reader, &member, content));
    assert_memory_equal(content, "there", 5);
    SUCCEEDS(rc_tar_next(&reader, &member, &more));
    assert_false(more);
    rc_input_close(input);
    SUCCEEDS(rc_input_open_memory("t", tar.data, 1023, &input));
    reader = (rc_tar){.input = input};
    SUCCEEDS(rc_tar_next(&reader, &member, &more));
    assert_int_equal(rc_tar_next(&reader, &member, &more), RC_FORMAT);
    data_assert_words("'t' is truncated");
    rc_input_close(input);
    free(tar.data);
}

/* ---- bundles ----------------------------------------------------------------------------------------------------- */

static void bundles_hold_files_of_known_names(void **state)
{
    (void)state;
    static const char *const names[] = {"a", "b", "c", NULL};
    data_bytes tar = {0};
    rc_bundle bundle;
    bool has;
    uint8_t *data;
    size_t size;
    char first[257];
    data_add_tar(&tar, "d/b", '0', "bee", 3);
    data_add_tar(&tar, "a", '0', "ay", 2);
    data_add_tar(&tar, "d/x", '0', "other", 5);
    data_end_tar(&tar);
    data_write("it.tar", tar.data, tar.size);
    data_write_text("folder/a", "ay");
    data_write_text("folder/b", "bee");
    const char *const paths[] = {"it.tar", "folder"};
    for (int i = 0; i < 2; i++) {
        size_t before = rc_bytes_allocated();
        SUCCEEDS(rc_bundle_open(paths[i], names, 100, &bundle));
        assert_string_equal(bundle.path, paths[i]);
        assert_int_equal(bundle.archive, i == 0);
        SUCCEEDS(rc_bundle_has(&bundle, "b", &has));
        assert_true(has);
        SUCCEEDS(rc_bundle_has(&bundle, "c", &has));
        assert_false(has);
        SUCCEEDS(rc_bundle_take(&bundle, "b", 100, &data, &size));
        assert_int_equal(size, 3);
        assert_memory_equal(data, "bee", 4); /* with a zero byte behind it */
        rc_free(NULL, data);
        assert_int_equal(rc_bundle_take(&bundle, "c", 100, &data, &size), RC_IO);
        assert_null(data);
        assert_int_equal(size, 0);
        char words[64];
        snprintf(words, sizeof words, "'%s' has no file 'c'", paths[i]);
        data_assert_words(words);
        SUCCEEDS(rc_bundle_take(&bundle, "a", 100, &data, &size));
        assert_memory_equal(data, "ay", 3);
        rc_free(NULL, data);
        SUCCEEDS(rc_bundle_has(&bundle, "a", &has));
        assert_int_equal(has, i == 1); /* an archive gives it once */
        rc_bundle_close(&bundle);
        assert_int_equal(rc_bytes_allocated(), before);
    }
    SUCCEEDS(rc_bundle_open("folder", names, 2, &bundle));
    assert_int_equal(rc_bundle_take(&bundle, "b", 2, &data, &size), RC_FORMAT);
    data_assert_words("'folder/b' holds more than 2 bytes");
    SUCCEEDS(rc_bundle_take(&bundle, "a", 2, &data, &size));
    rc_free(NULL, data);
    rc_bundle_close(&bundle);
    assert_int_equal(rc_bundle_open("it.tar", names, 2, &bundle), RC_FORMAT);
    data_assert_words("'it.tar': 'd/b' has 3 bytes, expected at most 2");
    SUCCEEDS(rc_bundle_open("it.tar", names, 3, &bundle));
    rc_bundle_close(&bundle);
    SUCCEEDS(rc_archive_first_name("it.tar", first));
    assert_string_equal(first, "d/b");
    data_write("cut.tar", tar.data, 515);
    assert_int_equal(rc_bundle_open("cut.tar", names, 100, &bundle), RC_FORMAT);
    data_assert_words("'cut.tar' is truncated");
    memcpy(tar.data + 1024, "d/b", 4);
    data_seal_tar(tar.data + 1024);
    data_write("twice.tar", tar.data, tar.size);
    assert_int_equal(rc_bundle_open("twice.tar", names, 100, &bundle), RC_FORMAT);
    data_assert_words("'twice.tar' holds more than one file 'b'");
    data_write("short.tar", tar.data, 512);
    assert_int_equal(rc_bundle_open("short.tar", names, 100, &bundle), RC_FORMAT);
    data_assert_words("'short.tar' is truncated: it promises 3 more bytes, but only 0 follow");
    data_write_text("text", "hello");
    SUCCEEDS(rc_archive_first_name("text", first));
    assert_string_equal(first, "");
    SUCCEEDS(rc_archive_first_name("nothing", first));
    assert_string_equal(first, "");
    free(tar.data);
}

/* ---- input ------------------------------------------------------------------------------------------------------- */

static void inputs_give_what_they_have(void **state)
{
    (void)state;
    enum { SIZE = 200000 };
    uint8_t *bytes = malloc(SIZE), *found, part[16];
    size_t size, got;
    rc_input *input;
    assert_non_null(bytes);
    data_random(1, bytes, SIZE);
    data_write("plain", bytes, SIZE);
    data_write_gzip("packed", bytes, SIZE);
    static const char *const paths[] = {"plain", "packed", "memory"};
    for (int i = 0; i < 3; i++) {
        SUCCEEDS(i < 2 ? rc_input_open(paths[i], &input) : rc_input_open_memory("memory", bytes, SIZE, &input));
        assert_string_equal(rc_input_name(input), paths[i]);
        assert_int_equal(rc_input_left(input), i == 1 ? RC_INPUT_FREE : SIZE);
        SUCCEEDS(rc_input_read(input, part, 10, &got));
        assert_int_equal(got, 10);
        SUCCEEDS(rc_input_skip(input, 9990));
        assert_int_equal(rc_input_left(input), (i == 1 ? RC_INPUT_FREE : SIZE) - 10000);
        SUCCEEDS(rc_input_read(input, part, 10, &got));
        assert_memory_equal(part, bytes + 10000, 10);
        SUCCEEDS(rc_input_skip(input, SIZE - 10010 - 3));
        SUCCEEDS(rc_input_read(input, part, 10, &got));
        assert_int_equal(got, 3);
        assert_memory_equal(part, bytes + SIZE - 3, 3);
        SUCCEEDS(rc_input_read(input, part, 10, &got));
        assert_int_equal(got, 0);
        assert_int_equal(rc_input_skip(input, 1), RC_FORMAT);
        char words[64];
        snprintf(words, sizeof words, "'%s' is truncated", paths[i]);
        data_assert_words(words);
        rc_input_close(input);
        if (i == 2)
            break;
        SUCCEEDS(rc_input_read_file(paths[i], SIZE, &found, &size));
        assert_int_equal(size, SIZE);
        assert_memory_equal(found, bytes, SIZE);
        assert_int_equal(found[SIZE], 0);
        rc_free(NULL, found);
        assert_int_equal(rc_input_read_file(paths[i], SIZE - 1, &found, &size), RC_FORMAT);
        snprintf(words, sizeof words, "'%s' holds more than 199999 bytes", paths[i]);
        data_assert_words(words);
        assert_null(found);
    }
    SUCCEEDS(rc_input_open("plain", &input));
    SUCCEEDS(rc_input_check_promise(input, SIZE));
    assert_int_equal(rc_input_check_promise(input, SIZE + 1), RC_FORMAT);
    data_assert_words("'plain' is truncated: it promises 200001 more bytes, but only 200000 follow");
    rc_input_close(input);
    SUCCEEDS(rc_input_open("packed", &input));
    SUCCEEDS(rc_input_check_promise(input, 64 << 20));
    assert_int_equal(rc_input_check_promise(input, (64 << 20) + 1), RC_FORMAT);
    data_assert_words(
        "'packed' promises 67108865 more bytes; a gzipped file is taken to unpack to at most 64 bytes for each "
        "of its own, or to 64 MiB: unpack it, if it is right");
    rc_input_close(input);
    rc_input_close(NULL);
    free(bytes);
}

static void damaged_gzip_is_named(void **state)
{
    (void)state;
    uint8_t bytes[5000], *found;
    size_t size;
    data_random(2, bytes, sizeof bytes);
    data_write_gzip("whole.gz", bytes, sizeof bytes);
    FILE *file = fopen("whole.gz", "rb");
    assert_non_null(file);
    uint8_t packed[6000];
    size_t length = fread(packed, 1, sizeof packed, file);
    fclose(file);
    data_write("cut.gz", packed, length - 9);
    assert_int_equal(rc_input_read_file("cut.gz", 10000, &found, &size), RC_FORMAT);
    data_assert_words("'cut.gz' is truncated: the gzip data end too early");
    packed[length - 6] ^= 1;
    data_write("sum.gz", packed, length);
    assert_int_equal(rc_input_read_file("sum.gz", 10000, &found, &size), RC_FORMAT);
    data_assert_words("'sum.gz' is not a sound gzip file: incorrect data check");
    assert_int_equal(rc_input_read_file("gone", 10000, &found, &size), RC_IO);
    data_assert_words("cannot open 'gone': No such file or directory");
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, data_enter_folder, data_leave_folder)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_are_found_and_read),
        cmocka_unit_test(every_field_of_a_zip_archive_is_checked),
        cmocka_unit_test(headers_of_tar_archives_are_read),
        cmocka_unit_test(cut_tar_archives_are_named),
        IN_FOLDER(bundles_hold_files_of_known_names),
        IN_FOLDER(inputs_give_what_they_have),
        IN_FOLDER(damaged_gzip_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
