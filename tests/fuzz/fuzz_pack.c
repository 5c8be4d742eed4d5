/* Packs: of what is accepted, every record, label and name lies in the file. */
#include "fuzz/fuzz.h"

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

/* As it is, and with both checksums put right, so that what follows them is reached. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { CRC = 12, TABLE_CRC = 16, SIDE = 20, CHANNELS = 24, TRAIN = 40, TEST = 44 };
    look(data, size);
    uint8_t *copy = size >= RC_PACK_HEADER ? malloc(size) : NULL;
    if (copy == NULL)
        return 0;
    memcpy(copy, data, size);
    uint64_t side = rc_pack_get32(copy + SIDE) % 4096, records = rc_pack_get32(copy + TRAIN) % 65536;
    uint64_t table = (records + rc_pack_get32(copy + TEST) % 65536) * side * side *
                     (rc_pack_get32(copy + CHANNELS) % 4);
    if (table <= size - RC_PACK_HEADER)
        rc_pack_put32(copy + TABLE_CRC,
                      rc_pack_crc(0, copy + RC_PACK_HEADER + table, size - RC_PACK_HEADER - (size_t)table));
    rc_pack_put32(copy + CRC, 0);
    rc_pack_put32(copy + CRC, rc_pack_crc(0, copy, RC_PACK_HEADER));
    look(copy, size);
    free(copy);
    return 0;
}
