/* Archives, as they are and with the sums of their headers set right; gzipped ones go through a file, because that is
 * where zlib looks for them. */
#include "fuzz/mutate.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "base/memory.h"
#include "data/bundle.h"

/* Every block of 512 bytes might be a header. */
static void repair(uint8_t *data, size_t size)
{
    for (size_t at = 0; at < size && size - at >= 512; at += 512) {
        unsigned sum = 0;
        char text[8];
        memset(data + at + 148, ' ', 8);
        for (size_t i = 0; i < 512; i++)
            sum += data[at + i];
        snprintf(text, sizeof text, "%06o", sum);
        memcpy(data + at + 148, text, 7);
    }
}

enum { LIMIT = 1 << 16 };
static const char *const names[] = {"train", "test", "meta", NULL};

static void take_all(rc_bundle *bundle)
{
    uint8_t *content;
    size_t length;
    for (int i = 0; names[i] != NULL; i++)
        if (rc_bundle_take(bundle, names[i], LIMIT, &content, &length) == RC_OK) {
            FUZZ_EXPECT(length <= LIMIT && content[length] == 0);
            rc_free(NULL, content);
        }
    rc_bundle_close(bundle);
}

static void read_archive(const uint8_t *data, size_t size)
{
    rc_input *input;
    rc_bundle bundle;
    FUZZ_EXPECT(rc_input_open_memory("input", data, size, &input) == RC_OK);
    if (rc_bundle_open_archive(input, names, LIMIT, &bundle) == RC_OK)
        take_all(&bundle);
    rc_input_close(input);
}

static void read_file(const uint8_t *data, size_t size)
{
    char path[] = "/tmp/recollect-fuzz-XXXXXX", first[257];
    rc_bundle bundle;
    int file = mkstemp(path);
    FUZZ_EXPECT(file >= 0 && write(file, data, size) == (ssize_t)size && close(file) == 0);
    FUZZ_EXPECT(rc_archive_first_name(path, first) == RC_OK);
    if (rc_bundle_open(path, names, LIMIT, &bundle) == RC_OK)
        take_all(&bundle);
    remove(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 2 && data[0] == 0x1F && data[1] == 0x8B) {
        read_file(data, size);
        return 0;
    }
    read_archive(data, size);
    uint8_t *copy = malloc(size + 1);
    FUZZ_EXPECT(copy != NULL);
    if (size > 0)
        memcpy(copy, data, size);
    repair(copy, size);
    read_archive(copy, size);
    free(copy);
    return 0;
}

/* ---- the mutator ------------------------------------------------------------------------------------------------ */

enum { BLOCK = 512, MOST_MEMBERS = 128, SIZE_AT = 124, TYPE_AT = 156, UNPACKED = 1 << 17 };
typedef struct member {
    size_t at, size; /* with its header and what fills its last block */
} member;

static int split(const uint8_t *data, size_t size, member *members)
{
    int count = 0;
    for (size_t at = 0; at < size && size - at >= BLOCK && count < MOST_MEMBERS; count++) {
        size_t length = 0;
        for (int i = 0; i < 11; i++)
            if (data[at + SIZE_AT + (size_t)i] >= '0' && data[at + SIZE_AT + (size_t)i] < '8' && length < size)
                length = length * 8 + (data[at + SIZE_AT + (size_t)i] - '0');
        length = BLOCK + (length + BLOCK - 1) / BLOCK * BLOCK;
        members[count] = (member){.at = at, .size = length < size - at ? length : size - at};
        at += members[count].size;
    }
    return count;
}

static void other_field(fuzz_input *in, size_t at)
{
    static const struct {
        int at, size;
    } fields[] = {{0, 100}, {100, 8}, {SIZE_AT, 12}, {SIZE_AT, 12}, {TYPE_AT, 1}, {157, 100}, {257, 8}, {345, 155}};
    static const char *const paths[] = {"train", "test", "meta", "a/train", "../train", "/train", "./meta", ""};
    static const char types[] = "0\0001234567LKxgSVMADEZ";
    size_t which = fuzz_roll(in, sizeof fields / sizeof *fields);
    uint8_t *to = in->bytes + at + fields[which].at;
    char text[32];
    if (fields[which].at == TYPE_AT) {
        *to = (uint8_t)types[fuzz_roll(in, sizeof types - 1)];
    } else if (fields[which].at == SIZE_AT && fuzz_one_in(in, 4)) { /* in base 256 */
        uint64_t odd = fuzz_odd_number(in);
        to[0] = fuzz_one_in(in, 4) ? 0xFF : 0x80;
        for (int i = 1; i < 12; i++)
            to[i] = i < 4 ? (to[0] == 0xFF ? 0xFF : 0) : (uint8_t)(odd >> (8 * (11 - i)));
    } else if (fields[which].size <= 12) {
        snprintf(text, sizeof text, "%011" PRIo64, fuzz_odd_number(in));
        memcpy(to, text, (size_t)fields[which].size);
    } else if (fuzz_one_in(in, 2)) {
        memset(to, 0, (size_t)fields[which].size);
        strcpy((char *)to, paths[fuzz_roll(in, sizeof paths / sizeof *paths)]); /* shorter than every such field */
    } else {
        LLVMFuzzerMutate(to, (size_t)fields[which].size, (size_t)fields[which].size);
    }
}

/* A pax header or a long name of GNU before a member. */
static void put_extension(fuzz_input *in, size_t at)
{
    static const char *const records[] = {
        "17 path=xx/train\n",    "18 size=99999999\n",    "9999999 path=a\n", "0 =\n",
        "13 size=-1\n\n",        "20 GNU.sparse.map=1\n", "12 size=5\n\n",    "path=train",
        "a/very/long/name/train"};
    uint8_t block[2 * BLOCK] = {0};
    const char *record = records[fuzz_roll(in, sizeof records / sizeof *records)];
    strcpy((char *)block, "././@LongLink");
    snprintf((char *)block + SIZE_AT, 12, "%011o", (unsigned)strlen(record));
    block[TYPE_AT] = (uint8_t) "xgLK"[fuzz_roll(in, 4)];
    memcpy(block + 257, "ustar\00000", 8);
    strcpy((char *)block + BLOCK, record);
    fuzz_replace(in, at, 0, block, sizeof block);
}

static void mutate_archive(fuzz_input *in)
{
    static member members[MOST_MEMBERS];
    int count = split(in->bytes, in->size, members);
    if (count == 0 || fuzz_one_in(in, 16)) {
        in->size = LLVMFuzzerMutate(in->bytes, in->size, in->limit);
        return;
    }
    member m = members[fuzz_roll(in, (size_t)count)], other = members[fuzz_roll(in, (size_t)count)];
    switch (fuzz_roll(in, 8)) {
    case 0: fuzz_replace(in, m.at, m.size, "", 0); break;
    case 1: fuzz_copy(in, m.at, m.size, other.at); break;
    case 2: put_extension(in, m.at); break;
    case 3: /* its content, in the same blocks */
        if (m.size > BLOCK)
            LLVMFuzzerMutate(in->bytes + m.at + BLOCK, m.size - BLOCK, m.size - BLOCK);
        break;
    default: other_field(in, m.at);
    }
    count = split(in->bytes, in->size, members);
    for (int i = 0; i < count && !fuzz_one_in(in, 64); i++)
        repair(in->bytes + members[i].at, BLOCK);
}

/* Unpacks, changes, packs again. false: it cannot be unpacked, or what comes of it has no room. */
static bool mutate_gzip(fuzz_input *in)
{
    static uint8_t unpacked[UNPACKED];
    z_stream z = {.next_in = in->bytes, .avail_in = (uInt)in->size, .next_out = unpacked, .avail_out = UNPACKED / 2};
    if (inflateInit2(&z, 15 + 16) != Z_OK)
        return false;
    int end = inflate(&z, Z_FINISH);
    inflateEnd(&z);
    if (end != Z_STREAM_END)
        return false;
    fuzz_input inside = {.bytes = unpacked, .size = z.total_out, .limit = UNPACKED, .dice = in->dice};
    mutate_archive(&inside);
    z = (z_stream){
        .next_in = unpacked, .avail_in = (uInt)inside.size, .next_out = in->bytes, .avail_out = (uInt)in->limit};
    if (deflateInit2(&z, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return false;
    end = deflate(&z, Z_FINISH);
    deflateEnd(&z);
    if (end != Z_STREAM_END)
        return false;
    in->size = z.total_out;
    return true;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t limit, unsigned seed)
{
    fuzz_input in = fuzz_input_of(data, size, limit, seed);
    if (size <= 2 || data[0] != 0x1F || data[1] != 0x8B)
        mutate_archive(&in);
    else if (fuzz_one_in(&in, 8) || !mutate_gzip(&in))
        return LLVMFuzzerMutate(data, size, limit);
    return in.size;
}
