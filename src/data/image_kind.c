#include "data/image_kind.h"

#include <stdio.h>
#include <string.h>

#include "base/ascii.h"
#include "base/file.h"
#include "data/reader.h"

/* A library that the build has not found leaves its row without a decoder. */
#if !RC_HAS_WEBP
#define rc_webp_decode NULL
#endif
#if !RC_HAS_TIFF
#define rc_tiff_decode NULL
#endif
#if !RC_HAS_GIF
#define rc_gif_decode NULL
#endif

enum {
    JPEG,
    PNG,
    PNM,
    BMP,
    WEBP,
    TIFF,
    GIF,
    HEIC,
    AVIF,
    JPEG_XL,
    JPEG_2000,
    PSD,
    RAW,
    SVG,
    PDF,
    VIDEO,
    OTHER_IMAGE,
    ARCHIVE,
    SPREADSHEET,
    WEB_PAGE,
    LFS_POINTER,
    TEXT,
    SYSTEM,
    EMPTY,
    UNKNOWN,
    KINDS
};

#define CONVERT(command) "convert it: " command

static const rc_image_kind kinds[KINDS] = {
    [JPEG] = {"JPEG", rc_jpeg_decode, NULL, NULL, RC_IMAGE_PICTURE},
    [PNG] = {"PNG", rc_png_decode, NULL, NULL, RC_IMAGE_PICTURE},
    [PNM] = {"PPM and PGM", rc_pnm_decode, NULL, NULL, RC_IMAGE_PICTURE},
    [BMP] = {"BMP", rc_bmp_decode, NULL, NULL, RC_IMAGE_PICTURE},
    [WEBP] = {"WebP", rc_webp_decode, "libwebp", CONVERT("dwebp @ -o #.png"), RC_IMAGE_PICTURE},
    [TIFF] = {"TIFF", rc_tiff_decode, "libtiff 4.5", CONVERT("convert @[0] #.png"), RC_IMAGE_PICTURE},
    [GIF] = {"GIF", rc_gif_decode, "giflib 5.1", CONVERT("convert @[0] #.png"), RC_IMAGE_PICTURE},
    [HEIC] = {"HEIC", NULL, NULL, CONVERT("heif-convert @ #.jpg"), RC_IMAGE_PICTURE},
    [AVIF] = {"AVIF", NULL, NULL, CONVERT("avifdec @ #.png"), RC_IMAGE_PICTURE},
    [JPEG_XL] = {"JPEG XL", NULL, NULL, CONVERT("djxl @ #.png"), RC_IMAGE_PICTURE},
    [JPEG_2000] = {"JPEG 2000", NULL, NULL, CONVERT("opj_decompress -i @ -o #.png"), RC_IMAGE_PICTURE},
    [PSD] = {"Photoshop", NULL, NULL, CONVERT("convert @[0] #.png"), RC_IMAGE_PICTURE},
    [RAW] = {"raw camera file", NULL, NULL, CONVERT("darktable-cli @ #.jpg"), RC_IMAGE_PICTURE},
    [SVG] = {"SVG", NULL, NULL, CONVERT("rsvg-convert -o #.png @"), RC_IMAGE_PICTURE},
    [PDF] = {"PDF", NULL, NULL, CONVERT("pdftoppm -png @ #"), RC_IMAGE_PICTURE},
    [VIDEO] = {"video", NULL, NULL, "take pictures out of it: ffmpeg -i @ -vf fps=1 #-%04d.png", RC_IMAGE_PICTURE},
    [OTHER_IMAGE] = {"another picture format", NULL, NULL, CONVERT("convert @ #.png"), RC_IMAGE_PICTURE},
    [ARCHIVE] = {"archive", NULL, NULL, "unpack it, if it holds pictures", RC_IMAGE_STRANGE},
    [SPREADSHEET] = {"spreadsheet", NULL, NULL, "save its table as CSV in UTF-8", RC_IMAGE_HARMLESS},
    [WEB_PAGE] = {"web page", NULL, NULL, "if a picture was meant, download it again", RC_IMAGE_HARMLESS},
    [LFS_POINTER] = {"pointer of Git LFS", NULL, NULL, "get the file itself: git lfs pull", RC_IMAGE_STRANGE},
    [TEXT] = {"text", NULL, NULL, NULL, RC_IMAGE_HARMLESS},
    [SYSTEM] = {"a system's notes", NULL, NULL, NULL, RC_IMAGE_HARMLESS},
    [EMPTY] = {"empty file", NULL, NULL, "copy it again, or delete it", RC_IMAGE_STRANGE},
    [UNKNOWN] = {"unknown format", NULL, NULL, "convert it to JPEG or PNG, if it is a picture", RC_IMAGE_STRANGE},
};

typedef struct magic {
    int kind;
    size_t at, length;
    const char *bytes;
} magic;

/* Ordered so that a longer mark comes before one that it begins with. */
static const magic magics[] = {
    {JPEG, 0, 3, "\xFF\xD8\xFF"},
    {PNG, 0, 8, "\x89PNG\r\n\x1A\n"},
    {GIF, 0, 6, "GIF87a"},
    {GIF, 0, 6, "GIF89a"},
    {RAW, 0, 10, "II*\0\x10\0\0\0CR"}, /* Canon, before TIFF, as which it begins */
    {TIFF, 0, 4, "II*\0"},
    {TIFF, 0, 4, "MM\0*"},
    {TIFF, 0, 4, "II+\0"}, /* of more than 4 GB */
    {TIFF, 0, 4, "MM\0+"},
    {RAW, 0, 15, "FUJIFILMCCD-RAW"},
    {RAW, 0, 4, "IIU\0"},                 /* Panasonic */
    {RAW, 0, 4, "IIRO"},                  /* Olympus */
    {RAW, 0, 4, "IIRS"},                  /* the same */
    {RAW, 0, 4, "MMOR"},                  /* the same */
    {RAW, 0, 4, "FOVb"},                  /* Sigma */
    {RAW, 0, 4, "\0MRM"},                 /* Minolta */
    {RAW, 0, 14, "II\x1A\0\0\0HEAPCCDR"}, /* Canon, earlier */
    {JPEG_XL, 0, 2, "\xFF\x0A"},
    {JPEG_XL, 0, 12, "\0\0\0\x0CJXL \r\n\x87\n"},
    {JPEG_2000, 0, 12, "\0\0\0\x0CjP  \r\n\x87\n"},
    {JPEG_2000, 0, 4, "\xFF\x4F\xFF\x51"},
    {PSD, 0, 4, "8BPS"},
    {PDF, 0, 5, "%PDF-"},
    {VIDEO, 0, 4, "\x1A\x45\xDF\xA3"}, /* Matroska, WebM */
    {VIDEO, 0, 4, "\x30\x26\xB2\x75"}, /* Windows Media */
    {VIDEO, 0, 4, "\0\0\x01\xBA"},     /* MPEG */
    {VIDEO, 0, 4, "\0\0\x01\xB3"},     /* the same */
    {VIDEO, 0, 4, "FLV\x01"},
    {VIDEO, 0, 4, "OggS"},
    {OTHER_IMAGE, 0, 4, "%!PS"},
    {OTHER_IMAGE, 0, 9, "gimp xcf "},
    {OTHER_IMAGE, 0, 4, "\x76\x2F\x31\x01"}, /* OpenEXR */
    {OTHER_IMAGE, 0, 10, "#?RADIANCE"},
    {OTHER_IMAGE, 0, 4, "DDS "},
    {OTHER_IMAGE, 0, 4, "qoif"},
    {OTHER_IMAGE, 0, 9, "SIMPLE  ="},  /* FITS */
    {OTHER_IMAGE, 128, 4, "DICM"},     /* DICOM */
    {OTHER_IMAGE, 0, 4, "\0\0\x01\0"}, /* icon */
    {OTHER_IMAGE, 0, 3, "P1\n"},
    {OTHER_IMAGE, 0, 3, "P4\n"},
    {OTHER_IMAGE, 0, 3, "P7\n"},
    {ARCHIVE, 0, 4, "PK\x03\x04"},
    {ARCHIVE, 0, 2, "\x1F\x8B"},
    {ARCHIVE, 0, 6, "7z\xBC\xAF\x27\x1C"},
    {ARCHIVE, 0, 4, "Rar!"},
    {ARCHIVE, 0, 6,
     "\xFD"
     "7zXZ\0"},
    {ARCHIVE, 257, 5, "ustar"},
    {SYSTEM, 0, 4, "\0\x05\x16\x07"}, /* what macOS notes about a file, in "._name" */
    {SYSTEM, 0, 8,
     "\0\0\0\x01"
     "Bud1"},                                           /* .DS_Store */
    {SYSTEM, 0, 8, "\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1"}, /* Thumbs.db */
};

static bool holds(const uint8_t *data, size_t size, size_t at, const char *bytes, size_t length)
{
    return size >= at + length && memcmp(data + at, bytes, length) == 0;
}

/* ---- formats that take more than a mark ------------------------------------------------------------------------- */

/* Files of boxes: "ftyp" and four letters for what they hold, then more letters for what else can read them. */
static int kind_of_boxes(const uint8_t *data, size_t size)
{
    static const struct {
        const char *brand;
        int kind;
    } brands[] = {{"avif", AVIF}, {"avis", AVIF}, {"heic", HEIC}, {"heix", HEIC}, {"hevc", HEIC}, {"hevx", HEIC},
                  {"heim", HEIC}, {"heis", HEIC}, {"mif1", HEIC}, {"msf1", HEIC}, {"crx ", RAW},  {"jxl ", JPEG_XL}};
    size_t end = size < 12 ? size : (size_t)data[2] << 8 | data[3];
    end = end < size ? end : size;
    if (!holds(data, size, 4, "ftyp", 4) || size < 12)
        return UNKNOWN;
    for (size_t i = 0; i < sizeof brands / sizeof *brands; i++)
        for (size_t at = 8; at + 4 <= end; at += 4)
            if (memcmp(data + at, brands[i].brand, 4) == 0)
                return brands[i].kind;
    return VIDEO; /* MP4, MOV, 3GP */
}

static bool is_pnm(const uint8_t *data, size_t size)
{
    return size >= 3 && data[0] == 'P' && (data[1] == '2' || data[1] == '3' || data[1] == '5' || data[1] == '6') &&
           (data[2] == ' ' || (data[2] >= '\t' && data[2] <= '\r') || data[2] == '#');
}

/* Two letters are not enough: a header of one of the known sizes follows those of the file. */
static bool is_bmp(const uint8_t *data, size_t size)
{
    static const uint8_t sizes[] = {12, 40, 52, 56, 64, 108, 124};
    if (!holds(data, size, 0, "BM", 2) || size < 18 || data[15] != 0 || data[16] != 0 || data[17] != 0)
        return false;
    return memchr(sizes, data[14], sizeof sizes) != NULL;
}

static bool is_text(const uint8_t *data, size_t size)
{
    if (holds(data, size, 0, "\xFF\xFE", 2) || holds(data, size, 0, "\xFE\xFF", 2)) /* UTF-16 */
        return true;
    for (size_t i = 0; i < size; i++)
        if ((data[i] < 0x20 && (data[i] < '\t' || data[i] > '\r') && data[i] != 0x1B) || data[i] == 0x7F)
            return false;
    return true;
}

/* Does the text hold this word, in upper or lower case? */
static bool says(const uint8_t *data, size_t size, const char *word)
{
    size_t length = strlen(word);
    for (size_t at = 0; at + length <= size; at++)
        if (rc_ascii_same((const char *)data + at, word, length))
            return true;
    return false;
}

static int kind_of_text(const uint8_t *data, size_t size)
{
    static const char lfs[] = "version https://git-lfs.github.com/spec/";
    if (says(data, size, "<svg"))
        return SVG;
    if (holds(data, size, 0, lfs, strlen(lfs)))
        return LFS_POINTER;
    return says(data, size, "<html") || says(data, size, "<!doctype html") ? WEB_PAGE : TEXT;
}

static bool ends_like(const char *name, const char *endings)
{
    const char *dot = name != NULL ? strrchr(name, '.') : NULL;
    return dot != NULL && rc_ascii_among(dot, endings);
}

bool rc_image_name(const char *name)
{
    return ends_like(name, RC_IMAGE_ENDINGS);
}

/* ---- all of them ------------------------------------------------------------------------------------------------ */

/* What begins as one kind and is another. */
static int kind_by_name(int kind, const char *name)
{
    if (kind == TIFF && ends_like(name, ".nef .nrw .arw .sr2 .srf .srw .dng .pef .3fr .fff .iiq .erf .kdc .dcr .k25 "
                                        ".mos .mef .rwl .raw"))
        return RAW;
    if ((kind == ARCHIVE || kind == SYSTEM) && ends_like(name, ".xlsx .xlsm .xls .ods .numbers"))
        return SPREADSHEET;
    return kind;
}

static int find_kind(const uint8_t *data, size_t size, const char *name)
{
    if (size == 0)
        return EMPTY;
    for (size_t i = 0; i < sizeof magics / sizeof *magics; i++)
        if (holds(data, size, magics[i].at, magics[i].bytes, magics[i].length))
            return kind_by_name(magics[i].kind, name);
    if (is_pnm(data, size))
        return PNM;
    if (is_bmp(data, size))
        return BMP;
    if (holds(data, size, 0, "RIFF", 4) && holds(data, size, 8, "WEBP", 4))
        return WEBP;
    if (holds(data, size, 0, "RIFF", 4) && holds(data, size, 8, "AVI ", 4))
        return VIDEO;
    if (holds(data, size, 4, "moov", 4) || holds(data, size, 4, "mdat", 4)) /* QuickTime without "ftyp" */
        return VIDEO;
    int kind = kind_of_boxes(data, size);
    return kind == UNKNOWN && is_text(data, size) ? kind_of_text(data, size) : kind;
}

bool rc_image_kind_is_sure(const rc_image_kind *kind)
{
    return kind != &kinds[TEXT] && kind != &kinds[UNKNOWN];
}

const rc_image_kind *rc_image_kind_of(const uint8_t *first, size_t size, const char *name)
{
    return &kinds[find_kind(first, size < RC_IMAGE_KIND_BYTES ? size : RC_IMAGE_KIND_BYTES, name)];
}

rc_status rc_image_kind_at(const char *path, const rc_image_kind **kind)
{
    uint8_t first[RC_IMAGE_KIND_BYTES];
    size_t size;
    rc_file_reader *reader;
    *kind = NULL;
    RC_TRY(rc_file_reader_open(path, &reader, &size));
    size = size < sizeof first ? size : sizeof first;
    rc_status status = rc_file_reader_take(reader, first, size);
    rc_file_reader_close(reader);
    if (status == RC_OK)
        *kind = rc_image_kind_of(first, size, path);
    return status;
}

bool rc_image_kind_beside(const char *name)
{
    static const char *const names[] = {"Thumbs.db", "ehthumbs.db", "desktop.ini", "Icon\r"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(name) == strlen(names[i]) && rc_ascii_same(name, names[i], strlen(name)))
            return true;
    return ends_like(name, ".txt .csv .tsv .json .xml .yaml .yml .md .ini .log .xmp .aae");
}

/* ---- in words --------------------------------------------------------------------------------------------------- */

static void append(char *text, size_t size, const char *piece, size_t length)
{
    size_t used = strlen(text);
    snprintf(text + used, size - used, "%.*s", (int)length, piece);
}

/* A name that a shell takes as it is. */
static bool is_plain(const char *name)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    return name[0] != '-' && name[0] != '\0' && name[strspn(name, plain)] == '\0' && strlen(name) < 100;
}

/* What to do, with the names in their places; a name that would have to be quoted becomes FILE. */
static void append_advice(const char *advice, const char *name, char *text, size_t size)
{
    const char *base = name != NULL ? rc_base_name(name) : NULL;
    if (base == NULL || !is_plain(base))
        base = "FILE";
    const char *dot = strrchr(base, '.');
    size_t stem = dot != NULL && dot > base ? (size_t)(dot - base) : strlen(base);
    for (const char *p = advice; *p != '\0'; p++)
        if (*p == '@') {
            append(text, size, base, strlen(base));
        } else if (*p == '#') {
            append(text, size, base, stem);
            append(text, size, "_", rc_image_name(base)); /* lest a file whose name lies be written over */
        } else {
            append(text, size, p, 1);
        }
}

void rc_image_kind_explain(const rc_image_kind *kind, const char *name, char *text, size_t size)
{
    snprintf(text, size, "%s", kind->name);
    if (kind->library != NULL && kind->decode == NULL) {
        append(text, size, "; build recollect with ", size);
        append(text, size, kind->library, size);
        append(text, size, ", or ", size);
    } else if (kind->advice != NULL) {
        append(text, size, "; ", size);
    }
    if (kind->advice != NULL)
        append_advice(kind->advice, name, text, size);
}

void rc_image_kinds(int index, char *text, size_t size)
{
    text[0] = '\0';
    for (int i = 0; i < KINDS; i++) {
        const rc_image_kind *kind = &kinds[i];
        bool listed = index == 0 ? kind->decode != NULL : kind->decode == NULL && kind->library != NULL;
        if (!listed)
            continue;
        if (text[0] != '\0')
            append(text, size, ", ", size);
        append(text, size, kind->name, size);
        if (index == 0)
            continue;
        append(text, size, " (", size);
        append(text, size, kind->library, size);
        append(text, size, ")", size);
    }
}
