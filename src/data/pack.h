/* Packs: data sets as one file that is mapped into memory, never loaded whole. Every image is a record of the same
 * size, so an image is found by its number. All numbers are little-endian.
 *
 *     0       header, RC_PACK_HEADER bytes, zero after the last field
 *               0  8 bytes "rcpack\r\n"        36  u32 classes
 *               8  u32 version, 2              40  u32 records to train on
 *              12  u32 CRC-32 of the header,   44  u32 records to test with
 *                  this field being zero       48  u64 bytes of the names
 *              16  u32 CRC-32 of table, names  56  u64 bytes of the file
 *              20  u32 height and width        64  f32 mean[4] and std[4] of pixels / 255, for normalisation
 *              24  u32 channels, 1 or 3        96  char name[32] of the set, with a zero byte
 *              28  u32 resize: the shorter side before the middle was cut out
 *              32  u32 interpolation: 0 bilinear, 1 bicubic
 *             128  u32 EXIF: an rc_pack_exif; version 1, which is read, too, has zero here
 *     4096    records (records, h, w, c) bytes: those to train on, then those to test with
 *     then    table: per record u32 label and u32 CRC-32 of the record
 *     then    names of the classes, each with its zero byte; they end the file
 *
 * Nothing in a pack says where something else lies: all places follow from the counts. So the only claims that must be
 * checked are that the counts make up the size of the file, and the checksums. Those of records are compared when a
 * record is first read. */
#ifndef RC_DATA_PACK_H
#define RC_DATA_PACK_H

#include "data/dataset.h"

enum { RC_PACK_VERSION = 2, RC_PACK_HEADER = 4096, RC_PACK_ENTRY = 8, RC_PACK_NAME = 32 };
#define RC_PACK_MAGIC "rcpack\r\n"

/* Were the pictures turned as their EXIF says? */
typedef enum rc_pack_exif {
    RC_PACK_EXIF_NOT_SAID, /* by version 1, and of a set that is not made of picture files: nothing can be compared */
    RC_PACK_EXIF_APPLIED,
    RC_PACK_EXIF_IGNORED
} rc_pack_exif;

/* What a header says. */
typedef struct rc_pack_facts {
    int side, channels, resize, interpolation, classes, train, test, exif;
    uint64_t names_bytes, file_bytes;
    uint32_t table_crc;
    float mean[4], std[4];
    char name[RC_PACK_NAME];
} rc_pack_facts;

/* header: RC_PACK_HEADER bytes. parse: of a file of `size` bytes; `name` is what messages call it. */
void rc_pack_write_header(const rc_pack_facts *facts, uint8_t *header);
rc_status rc_pack_parse(const char *name, const uint8_t *header, uint64_t size, rc_pack_facts *facts);
/* Bytes of a record. */
size_t rc_pack_record(const rc_pack_facts *facts);
uint32_t rc_pack_crc(uint32_t crc, const uint8_t *bytes, size_t size);
void rc_pack_put32(uint8_t *to, uint32_t value);
uint32_t rc_pack_get32(const uint8_t *from);

/* A pack whose header, table and names have been checked. */
typedef struct rc_pack rc_pack;
/* bytes: all of it, `size` bytes, read as records are asked for. They stay the caller's. */
rc_status rc_pack_read(const char *name, const uint8_t *bytes, uint64_t size, rc_pack **pack);
void rc_pack_close(rc_pack *pack); /* unmaps what rc_reader_pack has mapped; NULL is fine */
const rc_pack_facts *rc_pack_about(const rc_pack *pack);
const uint8_t *rc_pack_image(const rc_pack *pack, int record);
/* What the table says of it. */
uint32_t rc_pack_label(const rc_pack *pack, int record);
uint32_t rc_pack_checksum(const rc_pack *pack, int record);
/* Is the record what the table says? Compares each record once; any thread may ask. */
rc_status rc_pack_check(const rc_pack *pack, int record);
const char *rc_pack_names(const rc_pack *pack); /* facts.classes names, each with its zero byte */

/* ---- making one ------------------------------------------------------------------------------------------------ */

typedef struct rc_pack_result {
    rc_pack_facts facts;
    int resumed;                        /* images that an earlier call had packed already */
    int broken, left_out, not_pictures; /* as in rc_dataset; broken: what earlier calls could not read, too */
} rc_pack_result;

/* Reads the data set at `path` as the settings say, and writes it to the pack `out`, which must not exist. What is
 * packed lies in "out.part" and "out.part.log" until all of it is there; then it gets its name at once. A call that was
 * stopped or killed leaves both, and the next call with the same data and settings goes on from there. */
rc_status rc_pack_write(const char *path, const rc_data_settings *settings, const char *out, rc_pack_result *result);

#endif
