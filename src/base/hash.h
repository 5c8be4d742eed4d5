/* Hashes that tell bytes apart which nobody made to be alike. */
#ifndef RC_BASE_HASH_H
#define RC_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

enum { RC_HASH_SIZE = 17 }; /* of its text */

/* Bytes after bytes into a hash, which begins with RC_HASH_START; and as text. */
#define RC_HASH_START UINT64_C(14695981039346656037)
uint64_t rc_hash_bytes(uint64_t hash, const void *bytes, size_t size);
void rc_hash_text(uint64_t hash, char text[RC_HASH_SIZE]);

#endif
