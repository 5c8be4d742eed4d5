/* The input of targets that read safetensors for what is in them: the header's text up to a zero byte,
 * then the data. The length that a file begins with is put before it, so that damage reaches what lies
 * behind it. */
#ifndef RC_TESTS_FUZZ_HEADER_H
#define RC_TESTS_FUZZ_HEADER_H

#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz.h"

/* The file in a new block of *file_size bytes; free() it. NULL: no memory. */
static inline uint8_t *fuzz_file_from_header(const uint8_t *data, size_t size, size_t *file_size)
{
    const uint8_t *zero = size > 0 ? memchr(data, 0, size) : NULL;
    size_t header = zero != NULL ? (size_t)(zero - data) : size, rest = zero != NULL ? size - header - 1 : 0;
    *file_size = 8 + header + rest;
    uint8_t *file = malloc(*file_size);
    if (file == NULL)
        return NULL;
    for (int i = 0; i < 8; i++)
        file[i] = (uint8_t)((uint64_t)header >> (8 * i));
    if (header > 0)
        memcpy(file + 8, data, header);
    if (rest > 0)
        memcpy(file + 8 + header, zero + 1, rest);
    return file;
}

#endif
