#include "data/exif.h"

#include <stdbool.h>
#include <string.h>

enum { ENTRY_SIZE = 12, TAG_ORIENTATION = 0x0112, TYPE_SHORT = 3 };

typedef struct block {
    const uint8_t *data;
    size_t size;
    bool big_endian;
} block;

/* `bytes` bytes as a number; 0 if the block ends before them. */
static uint32_t number_at(const block *b, size_t at, size_t bytes)
{
    uint32_t value = 0;
    if (at > b->size || bytes > b->size - at)
        return 0;
    for (size_t i = 0; i < bytes; i++)
        value = value << 8 | b->data[at + (b->big_endian ? i : bytes - 1 - i)];
    return value;
}

int rc_exif_orientation(const uint8_t *data, size_t size)
{
    block b = {data, size, size >= 4 && memcmp(data, "MM\0*", 4) == 0};
    if (size < 8 || (!b.big_endian && memcmp(data, "II*\0", 4) != 0))
        return 1;
    size_t folder = number_at(&b, 4, 4);
    uint32_t entries = number_at(&b, folder, 2);
    for (uint32_t i = 0; i < entries; i++) {
        size_t entry = folder + 2 + (size_t)i * ENTRY_SIZE;
        if (entry > size || size - entry < ENTRY_SIZE)
            return 1;
        if (number_at(&b, entry, 2) != TAG_ORIENTATION)
            continue;
        uint32_t value = number_at(&b, entry + 8, 2);
        bool sound = number_at(&b, entry + 2, 2) == TYPE_SHORT && number_at(&b, entry + 4, 4) == 1;
        return sound && value >= 1 && value <= 8 ? (int)value : 1;
    }
    return 1;
}
