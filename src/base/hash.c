#include "base/hash.h"

#include <stdio.h>
#include <string.h>

/* Words of eight bytes, the rest byte by byte. Each is multiplied in, as in FNV-1a, and the upper half, which alone
 * has seen all bits, is mixed into the lower one: otherwise two changes of upper bits would cancel. */
uint64_t rc_hash_bytes(uint64_t hash, const void *bytes, size_t size)
{
    const unsigned char *p = bytes;
    for (; size >= sizeof(uint64_t); size -= sizeof(uint64_t), p += sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, p, sizeof word);
        hash = (hash ^ word) * UINT64_C(0x9E3779B97F4A7C15);
        hash ^= hash >> 32;
    }
    for (; size > 0; size--, p++) {
        hash = (hash ^ *p) * UINT64_C(0x9E3779B97F4A7C15);
        hash ^= hash >> 32;
    }
    return hash;
}

void rc_hash_text(uint64_t hash, char text[RC_HASH_SIZE])
{
    snprintf(text, RC_HASH_SIZE, "%016llx", (unsigned long long)hash);
}
