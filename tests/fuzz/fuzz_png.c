/* PNG, as it is and with its checksums set right: otherwise hardly any damage gets past them. */
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "fuzz/picture.h"

static uint32_t big_endian(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static void repair(uint8_t *data, size_t size)
{
    for (size_t at = 8; at < size && size - at >= 12;) {
        uint32_t length = big_endian(data + at);
        if (length > size - at - 12)
            return;
        uLong crc = crc32(0, data + at + 4, length + 4);
        for (int i = 0; i < 4; i++)
            data[at + 8 + length + (size_t)i] = (uint8_t)(crc >> (24 - 8 * i));
        at += 12 + (size_t)length;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size <= 8 || data[0] != 0x89)
        return 0;
    fuzz_decode(data, size, 0);
    uint8_t *copy = malloc(size);
    FUZZ_EXPECT(copy != NULL);
    memcpy(copy, data, size);
    repair(copy, size);
    fuzz_decode(copy, size, size % 2 == 0 ? 1 : 3);
    free(copy);
    return 0;
}
