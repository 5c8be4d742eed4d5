/* Packs: of what is accepted, every record, label and name lies in the file. */
#include "fuzz/mutate.h"

#include <stdlib.h>
#include <string.h>

#include "data/pack.h"

static void look(const uint8_t *data, size_t size)
{
    rc_pack *pack;
    if (rc_pack_read("input", data, size, &pack) != RC_OK)
        return;
    const rc_pack_facts *f = rc_pack_about(pack);
    size_t names = 0;
    FUZZ_EXPECT(f->train + f->test > 0 && f->file_bytes == size);
    for (int i = 0; i < f->train + f->test; i++) {
        const uint8_t *image = rc_pack_image(pack, i);
        FUZZ_EXPECT(image >= data + RC_PACK_HEADER && image + rc_pack_record(f) <= data + size);
        FUZZ_EXPECT(rc_pack_label(pack, i) < (uint32_t)f->classes);
        if (rc_pack_check(pack, i) == RC_OK)
            FUZZ_EXPECT(rc_pack_crc(0, image, rc_pack_record(f)) == rc_pack_checksum(pack, i));
    }
    for (int i = 0; i < f->classes; i++)
        names += strlen(rc_pack_names(pack) + names) + 1;
    FUZZ_EXPECT((const uint8_t *)rc_pack_names(pack) + names == data + size);
    rc_pack_close(pack);
}

enum {
    CRC = 12,
    TABLE_CRC = 16,
    SIDE = 20,
    CHANNELS = 24,
    CLASSES = 36,
    TRAIN = 40,
    TEST = 44,
    NAMES = 48,
    FILE_BYTES = 56
};

/* Puts the checksums right: of the header and of the table, and of the records where `records` says so. */
static void repair(uint8_t *data, size_t size, bool records)
{
    uint64_t side = rc_pack_get32(data + SIDE) % 4096, count = rc_pack_get32(data + TRAIN) % 65536;
    count += rc_pack_get32(data + TEST) % 65536;
    uint64_t record = side * side * (rc_pack_get32(data + CHANNELS) % 4), table = RC_PACK_HEADER + count * record;
    for (uint64_t i = 0; records && i < count && table + (i + 1) * RC_PACK_ENTRY <= size; i++)
        rc_pack_put32(data + table + i * RC_PACK_ENTRY + 4,
                      rc_pack_crc(0, data + RC_PACK_HEADER + i * record, (size_t)record));
    if (table <= size)
        rc_pack_put32(data + TABLE_CRC, rc_pack_crc(0, data + table, size - (size_t)table));
    rc_pack_put32(data + CRC, 0);
    rc_pack_put32(data + CRC, rc_pack_crc(0, data, RC_PACK_HEADER));
}

/* As it is, and with both checksums put right, so that what follows them is reached. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    look(data, size);
    uint8_t *copy = size >= RC_PACK_HEADER ? malloc(size) : NULL;
    if (copy == NULL)
        return 0;
    memcpy(copy, data, size);
    repair(copy, size, false);
    look(copy, size);
    free(copy);
    return 0;
}

/* Another number in a field, or other bytes behind the header; the size of the file is told, most of the time. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t limit, unsigned seed)
{
    static const int fields[] = {8, SIDE, CHANNELS, 28, 32, CLASSES, TRAIN, TEST, NAMES, FILE_BYTES, 64, 80, 96, 128};
    fuzz_input in = fuzz_input_of(data, size, limit, seed);
    if (size < RC_PACK_HEADER || fuzz_one_in(&in, 16))
        return LLVMFuzzerMutate(data, size, limit);
    if (fuzz_one_in(&in, 2))
        rc_pack_put32(data + fields[fuzz_roll(&in, sizeof fields / sizeof *fields)], (uint32_t)fuzz_odd_number(&in));
    else
        fuzz_mutate_part(&in, RC_PACK_HEADER, in.size - RC_PACK_HEADER);
    if (!fuzz_one_in(&in, 8)) {
        size_t names = 0;
        while (names < in.size - RC_PACK_HEADER && (data[in.size - 1 - names] >= ' ' || data[in.size - 1 - names] == 0))
            names++;
        if (fuzz_one_in(&in, 4)) {
            rc_pack_put32(data + NAMES, (uint32_t)names);
            rc_pack_put32(data + NAMES + 4, 0);
        }
        rc_pack_put32(data + FILE_BYTES, (uint32_t)in.size);
        rc_pack_put32(data + FILE_BYTES + 4, 0);
    }
    repair(data, in.size, !fuzz_one_in(&in, 8));
    return in.size;
}
