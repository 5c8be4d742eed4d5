/* Files are recognised by what they hold, and named with what to do about them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "data/image_kind.h"
#include "support/data_files.h"

typedef struct sample {
    const char *kind;
    size_t size;
    const char *bytes;
} sample;

#define SAMPLE(kind, bytes) \
    { \
        kind, sizeof(bytes) - 1, bytes \
    }

static const sample samples[] = {
    SAMPLE("JPEG", "\xFF\xD8\xFF\xE0"),
    SAMPLE("PNG", "\x89PNG\r\n\x1A\n"),
    SAMPLE("PPM and PGM", "P6 1 1 255"),
    SAMPLE("PPM and PGM", "P2\n#"),
    SAMPLE("PPM and PGM", "P3\n1"),
    SAMPLE("PPM and PGM", "P5#"),
    SAMPLE("text", "P6rfect"),
    SAMPLE("text", "P8 1"),
    SAMPLE("BMP", "BM\x36\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0"),
    SAMPLE("BMP", "BM\x36\0\0\0\0\0\0\0\x36\0\0\0\x7C\0\0\0"),
    SAMPLE("unknown format", "BM\x36\0\0\0\0\0\0\0\x36\0\0\0\x29\0\0\0"),
    SAMPLE("unknown format", "BM\x36\0\0\0\0\0\0\0\x36\0\0\0\x28\x01\0\0"),
    SAMPLE("text", "BMX is a sport of wheels"),
    SAMPLE("WebP", "RIFF\x10\0\0\0WEBPVP8 "),
    SAMPLE("video", "RIFF\x10\0\0\0AVI LIST"),
    SAMPLE("unknown format", "RIFF\x10\0\0\0WAVEfmt "),
    SAMPLE("TIFF", "II*\0\x08\0\0\0"),
    SAMPLE("TIFF", "MM\0*\0\0\0\x08"),
    SAMPLE("TIFF", "II+\0\x08\0\0\0"),
    SAMPLE("raw camera file", "II*\0\x10\0\0\0CR\x02\0"),
    SAMPLE("raw camera file", "FUJIFILMCCD-RAW 0201"),
    SAMPLE("raw camera file", "IIU\0\x18"),
    SAMPLE("raw camera file", "IIRO\x08"),
    SAMPLE("raw camera file", "\0\0\0\x18"
                              "ftypcrx \0\0\0\x01"
                              "crx isom"),
    SAMPLE("GIF", "GIF89a\x01"),
    SAMPLE("GIF", "GIF87a\x01"),
    SAMPLE("HEIC", "\0\0\0\x18"
                   "ftypheic\0\0\0\0mif1heic"),
    SAMPLE("HEIC", "\0\0\0\x14"
                   "ftypmif1\0\0\0\0mif1"),
    SAMPLE("AVIF", "\0\0\0\x1C"
                   "ftypmif1\0\0\0\0mif1avifmiaf"),
    SAMPLE("AVIF", "\0\0\0\x1C"
                   "ftypavif\0\0\0\0mif1avifmiaf"),
    SAMPLE("video", "\0\0\0\x18"
                    "ftypisom\0\0\0\0mp41mp42"),
    SAMPLE("video", "\0\0\0\x10"
                    "ftypqt  \0\0\0\0heic"), /* beyond the box */
    SAMPLE("video", "\0\0\0\x08"
                    "moov\0\0\0\0"),
    SAMPLE("video", "\x1A\x45\xDF\xA3\x01"),
    SAMPLE("JPEG XL", "\xFF\x0A\xFA"),
    SAMPLE("JPEG XL", "\0\0\0\x0CJXL \r\n\x87\n"),
    SAMPLE("JPEG 2000", "\0\0\0\x0CjP  \r\n\x87\n"),
    SAMPLE("Photoshop", "8BPS\0\x01"),
    SAMPLE("SVG", "<?xml version=\"1.0\"?>\n<SVG width=\"1\">"),
    SAMPLE("PDF", "%PDF-1.7\n\xE2"),
    SAMPLE("another picture format", "gimp xcf file\0"),
    SAMPLE("archive", "PK\x03\x04\x14"),
    SAMPLE("pointer of Git LFS", "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a"),
    SAMPLE("text", " version https://git-lfs.github.com/spec/v1"),
    SAMPLE("web page", "<!DOCTYPE html>\n<title>404"),
    SAMPLE("text", "Dear all,\n\tz\xC3\xBCrich"),
    SAMPLE("text", "\xFF\xFEh\0i\0"),
    SAMPLE("a system's notes", "\0\x05\x16\x07\0\x02"),
    SAMPLE("empty file", ""),
    SAMPLE("unknown format", "\x01\x02\x03\x04"),
    SAMPLE("unknown format", "abc\x7F"),
};

static void files_are_recognised_by_their_bytes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        const rc_image_kind *kind = rc_image_kind_of((const uint8_t *)samples[i].bytes, samples[i].size, "x.jpg");
        if (strcmp(kind->name, samples[i].kind) != 0)
            fail_msg("sample %zu is taken for %s, expected %s", i, kind->name, samples[i].kind);
        bool harmless = strstr("text, web page, a system's notes", kind->name) != NULL;
        assert_int_equal(kind->role == RC_IMAGE_HARMLESS, harmless);
        bool strange = strstr("archive, pointer of Git LFS, empty file, unknown format", kind->name) != NULL;
        assert_int_equal(kind->role == RC_IMAGE_STRANGE, strange);
    }
    uint8_t far[RC_IMAGE_KIND_BYTES + 4] = {0};
    memcpy(far + 128, "DICM", 4);
    assert_string_equal(rc_image_kind_of(far, sizeof far, NULL)->name, "another picture format");
    assert_string_equal(rc_image_kind_of(far, 131, NULL)->name, "unknown format");
    memset(far, 'x', sizeof far);
    memcpy(far + 257, "ustar", 5);
    assert_string_equal(rc_image_kind_of(far, sizeof far, NULL)->name, "archive");
    memset(far, 'x', sizeof far);
    far[RC_IMAGE_KIND_BYTES] = 1; /* one byte further than anybody looks */
    assert_string_equal(rc_image_kind_of(far, sizeof far, NULL)->name, "text");
}

/* All bytes of a mark count, and none behind it: with one of them changed or missing a file is something else. */
static void whole_marks_are_compared(void **state)
{
    (void)state;
    static const struct {
        const char *kind;
        size_t at, size;
        const char *bytes;
    } marks[] = {
        {"JPEG", 0, 3, "\377\330\377"},
        {"PNG", 0, 8, "\211PNG\r\n\032\n"},
        {"GIF", 0, 6, "GIF87a"},
        {"GIF", 0, 6, "GIF89a"},
        {"TIFF", 0, 4, "II*\0"},
        {"TIFF", 0, 4, "MM\0*"},
        {"TIFF", 0, 4, "II+\0"},
        {"TIFF", 0, 4, "MM\0+"},
        {"raw camera file", 0, 10, "II*\0\20\0\0\0CR"},
        {"raw camera file", 0, 15, "FUJIFILMCCD-RAW"},
        {"raw camera file", 0, 4, "IIU\0"},
        {"raw camera file", 0, 4, "IIRO"},
        {"raw camera file", 0, 4, "IIRS"},
        {"raw camera file", 0, 4, "MMOR"},
        {"raw camera file", 0, 4, "FOVb"},
        {"raw camera file", 0, 4, "\0MRM"},
        {"raw camera file", 0, 14, "II\032\0\0\0HEAPCCDR"},
        {"JPEG XL", 0, 2, "\377\n"},
        {"JPEG XL", 0, 12, "\0\0\0\014JXL \r\n\207\n"},
        {"JPEG 2000", 0, 12, "\0\0\0\014jP  \r\n\207\n"},
        {"JPEG 2000", 0, 4, "\377O\377Q"},
        {"Photoshop", 0, 4, "8BPS"},
        {"PDF", 0, 5, "%PDF-"},
        {"video", 0, 4, "\032E\337\243"},
        {"video", 0, 4, "0&\262u"},
        {"video", 0, 4, "\0\0\1\272"},
        {"video", 0, 4, "\0\0\1\263"},
        {"video", 0, 4, "FLV\1"},
        {"video", 0, 4, "OggS"},
        {"video", 4, 4, "moov"},
        {"video", 4, 4, "mdat"},
        {"another picture format", 0, 4, "%!PS"},
        {"another picture format", 0, 9, "gimp xcf "},
        {"another picture format", 0, 4, "v/1\1"},
        {"another picture format", 0, 10, "#?RADIANCE"},
        {"another picture format", 0, 4, "DDS "},
        {"another picture format", 0, 4, "qoif"},
        {"another picture format", 0, 9, "SIMPLE  ="},
        {"another picture format", 128, 4, "DICM"},
        {"another picture format", 0, 4, "\0\0\1\0"},
        {"another picture format", 0, 3, "P1\n"},
        {"another picture format", 0, 3, "P4\n"},
        {"another picture format", 0, 3, "P7\n"},
        {"archive", 0, 4, "PK\3\4"},
        {"archive", 0, 2, "\037\213"},
        {"archive", 0, 6, "7z\274\257'\034"},
        {"archive", 0, 4, "Rar!"},
        {"archive", 0, 6, "\3757zXZ\0"},
        {"archive", 257, 5, "ustar"},
        {"a system's notes", 0, 4, "\0\5\26\7"},
        {"a system's notes", 0, 8, "\0\0\0\1Bud1"},
        {"a system's notes", 0, 8, "\320\317\021\340\241\261\032\341"},
        {"PPM and PGM", 0, 3, "P2 "},
        {"PPM and PGM", 0, 3, "P3\t"},
        {"PPM and PGM", 0, 3, "P5\r"},
        {"PPM and PGM", 0, 3, "P6#"},
        {"web page", 0, 5, "<html"},
        {"web page", 3, 14, "<!doctype html"},
        {"SVG", 9, 4, "<svg"},
    };
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        uint8_t bytes[512];
        size_t end = marks[i].at + marks[i].size;
        memset(bytes, 'z', sizeof bytes);
        memcpy(bytes + marks[i].at, marks[i].bytes, marks[i].size);
        if (strcmp(rc_image_kind_of(bytes, end, NULL)->name, marks[i].kind) != 0)
            fail_msg("mark %zu is taken for %s, expected %s", i, rc_image_kind_of(bytes, end, NULL)->name,
                     marks[i].kind);
        assert_ptr_equal(rc_image_kind_of(bytes, sizeof bytes, NULL), rc_image_kind_of(bytes, end, NULL));
        for (size_t at = marks[i].at; at < end; at++) {
            uint8_t kept = bytes[at];
            bytes[at] = 0x0E;
            const rc_image_kind *changed = rc_image_kind_of(bytes, end, NULL);
            bytes[at] = kept;
            if (strcmp(changed->name, marks[i].kind) == 0)
                fail_msg("mark %zu without its byte %zu is taken for %s, too", i, at, changed->name);
        }
        if (strcmp(rc_image_kind_of(bytes, end - 1, NULL)->name, marks[i].kind) == 0)
            fail_msg("mark %zu is known before its last byte", i);
    }
}

/* Two letters, and a header of one of the sizes that there are. */
static void headers_of_bmps_are_known_by_their_size(void **state)
{
    (void)state;
    static const int sizes[] = {12, 40, 52, 56, 64, 108, 124};
    for (int size = 0, next = 0; size < 256; size++) {
        uint8_t bytes[18] = {'B', 'M'};
        bytes[14] = (uint8_t)size;
        bool known = next < 7 && size == sizes[next];
        next += known;
        assert_int_equal(strcmp(rc_image_kind_of(bytes, sizeof bytes, NULL)->name, "BMP") == 0, known);
        bytes[15] = 1;
        assert_string_not_equal(rc_image_kind_of(bytes, sizeof bytes, NULL)->name, "BMP");
    }
}

/* Raw files of many cameras are TIFF files to their first bytes, and hold a small preview as their first page. */
static void names_tell_raw_files_from_tiffs(void **state)
{
    (void)state;
    static const uint8_t tiff[] = "II*\0\x08\0\0";
    assert_string_equal(rc_image_kind_of(tiff, sizeof tiff, "a/b.NEF")->name, "raw camera file");
    assert_string_equal(rc_image_kind_of(tiff, sizeof tiff, "b.dng")->name, "raw camera file");
    assert_string_equal(rc_image_kind_of(tiff, sizeof tiff, "b.tif")->name, "TIFF");
    assert_string_equal(rc_image_kind_of(tiff, sizeof tiff, "nef")->name, "TIFF");
    static const uint8_t jpeg[] = "\xFF\xD8\xFF";
    assert_string_equal(rc_image_kind_of(jpeg, sizeof jpeg, "b.nef")->name, "JPEG");
    assert_string_equal(rc_image_kind_of(jpeg, sizeof jpeg, "b.xls")->name, "JPEG");
}

/* Of both kinds that spreadsheets begin like. */
static void names_tell_spreadsheets(void **state)
{
    (void)state;
    static const uint8_t zip[] = "PK\3\4", old[] = "\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1";
    assert_string_equal(rc_image_kind_of(zip, 4, "a.zip")->name, "archive");
    assert_string_equal(rc_image_kind_of(zip, 4, "a.XLSX")->name, "spreadsheet");
    assert_string_equal(rc_image_kind_of(zip, 4, "a.ods")->name, "spreadsheet");
    assert_string_equal(rc_image_kind_of(old, 8, "a.xls")->name, "spreadsheet");
    assert_int_equal(rc_image_kind_of(old, 8, "a.xls")->role, RC_IMAGE_HARMLESS);
    assert_string_equal(rc_image_kind_of(old, 8, "Thumbs.db")->name, "a system's notes");
}

static void assert_explained(const char *bytes, size_t size, const char *name, const char *expected)
{
    char text[RC_IMAGE_KIND_TEXT];
    rc_image_kind_explain(rc_image_kind_of((const uint8_t *)bytes, size, name), name, text, sizeof text);
    assert_string_equal(text, expected);
}

static void advice_names_the_file(void **state)
{
    (void)state;
    static const char heic[] = "\0\0\0\x18"
                               "ftypheic\0\0\0\0mif1heic";
    assert_explained(heic, 24, "photos/a.heic", "HEIC; convert it: heif-convert a.heic a.jpg");
    assert_explained(heic, 24, "photos/a.jpg", "HEIC; convert it: heif-convert a.jpg a_.jpg");
    assert_explained(heic, 24, "photos/a b.heic", "HEIC; convert it: heif-convert FILE FILE.jpg");
    assert_explained(heic, 24, "-rf.heic", "HEIC; convert it: heif-convert FILE FILE.jpg");
    assert_explained(heic, 24, "IMG_1", "HEIC; convert it: heif-convert IMG_1 IMG_1.jpg");
    assert_explained(heic, 24, ".heic", "HEIC; convert it: heif-convert .heic .heic.jpg");
    assert_explained(heic, 24, "a/", "HEIC; convert it: heif-convert FILE FILE.jpg");
    assert_explained(heic, 24, NULL, "HEIC; convert it: heif-convert FILE FILE.jpg");
    static const char *const advice[][2] = {
        {"II*\0\20\0\0\0CR", "raw camera file; convert it: darktable-cli a.x a.jpg"},
        {"\0\0\0\24ftypavif\0\0\0\0", "AVIF; convert it: avifdec a.x a.png"},
        {"\377\n........", "JPEG XL; convert it: djxl a.x a.png"},
        {"\377O\377Q......", "JPEG 2000; convert it: opj_decompress -i a.x -o a.png"},
        {"8BPS......", "Photoshop; convert it: convert a.x[0] a.png"},
        {"<svg......", "SVG; convert it: rsvg-convert -o a.png a.x"},
        {"OggS......", "video; take pictures out of it: ffmpeg -i a.x -vf fps=1 a-%04d.png"},
        {"qoif......", "another picture format; convert it: convert a.x a.png"},
        {"Rar!......", "archive; unpack it, if it holds pictures"},
        {"<html.....", "web page; if a picture was meant, download it again"},
        {"\1\2\3\4\5\6\7\10\11\12", "unknown format; convert it to JPEG or PNG, if it is a picture"},
        {"\0\5\26\7......", "a system's notes"},
    };
    for (size_t i = 0; i < sizeof advice / sizeof *advice; i++)
        assert_explained(advice[i][0], i == 1 ? 16 : 10, "a.x", advice[i][1]);
    char name[108]; /* a name of less than 100 bytes is shown */
    memset(name, 'n', sizeof name);
    memcpy(name + 95, ".pdf", 5);
    char text[RC_IMAGE_KIND_TEXT];
    rc_image_kind_explain(rc_image_kind_of((const uint8_t *)"%PDF-", 5, NULL), name, text, sizeof text);
    assert_int_equal(strlen(text), strlen("PDF; convert it: pdftoppm -png  ") + 99 + 95);
    memcpy(name + 96, ".pdf", 5);
    name[95] = 'n';
    assert_explained("%PDF-1", 6, name, "PDF; convert it: pdftoppm -png FILE FILE");
    assert_explained("%PDF-1", 6, "x.y.pdf", "PDF; convert it: pdftoppm -png x.y.pdf x.y");
    assert_explained("", 0, "x", "empty file; copy it again, or delete it");
    assert_explained("hello", 5, "x", "text");
    static const char gif[] = "GIF89a";
    if (!RC_HAS_GIF)
        assert_explained(gif, 6, "x.gif",
                         "GIF; build recollect with giflib 5.1, or convert it: convert x.gif[0] x.png");
}

static void what_stands_beside_pictures_is_known_by_name(void **state)
{
    (void)state;
    assert_true(rc_image_kind_beside("Thumbs.db") && rc_image_kind_beside("THUMBS.DB"));
    assert_true(rc_image_kind_beside("ehthumbs.db") && rc_image_kind_beside("desktop.ini") &&
                rc_image_kind_beside("icon\r"));
    assert_true(rc_image_kind_beside("labels.TXT") && rc_image_kind_beside("a.xml"));
    assert_false(rc_image_kind_beside("a.heic") || rc_image_kind_beside("txt") || rc_image_kind_beside("photos.db"));
}

static void a_build_says_what_it_reads(void **state)
{
    (void)state;
    char text[256], name[8];
    static const struct {
        int has;
        const char *name, *ending;
    } optional[] = {{RC_HAS_WEBP, "WebP", "x.webp"}, {RC_HAS_TIFF, "TIFF", "x.TIF"}, {RC_HAS_GIF, "GIF", "x.gif"}};
    rc_image_kinds(0, text, sizeof text);
    assert_int_equal(strncmp(text, "JPEG, PNG, PPM and PGM, BMP", 27), 0);
    for (int i = 0; i < 3; i++) {
        rc_image_kinds(0, text, sizeof text);
        assert_int_equal(strstr(text, optional[i].name) != NULL, optional[i].has);
        rc_image_kinds(1, text, sizeof text);
        assert_int_equal(strstr(text, optional[i].name) != NULL, !optional[i].has);
        assert_int_equal(rc_image_name(optional[i].ending), optional[i].has);
    }
    if (!RC_HAS_WEBP && !RC_HAS_TIFF && !RC_HAS_GIF)
        assert_string_equal(text, "WebP (libwebp), TIFF (libtiff 4.5), GIF (giflib 5.1)");
    assert_true(rc_image_name("x.BMP") && rc_image_name("x.jpg"));
    rc_image_kinds(0, name, sizeof name); /* cut, not written beyond its end */
    assert_int_equal(strlen(name), sizeof name - 1);
}

static void files_are_looked_at(void **state)
{
    (void)state;
    const rc_image_kind *kind;
    data_write_text("a.heic", "%PDF-1.4");
    assert_int_equal(rc_image_kind_at("a.heic", &kind), RC_OK);
    assert_string_equal(kind->name, "PDF");
    assert_int_equal(rc_image_kind_at("none", &kind), RC_IO);
    assert_null(kind);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(headers_of_bmps_are_known_by_their_size),
        cmocka_unit_test(files_are_recognised_by_their_bytes),
        cmocka_unit_test(whole_marks_are_compared),
        cmocka_unit_test(names_tell_raw_files_from_tiffs),
        cmocka_unit_test(names_tell_spreadsheets),
        cmocka_unit_test(advice_names_the_file),
        cmocka_unit_test(what_stands_beside_pictures_is_known_by_name),
        cmocka_unit_test(a_build_says_what_it_reads),
        cmocka_unit_test_setup_teardown(files_are_looked_at, data_enter_folder, data_leave_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
