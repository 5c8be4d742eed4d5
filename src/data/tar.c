#include "data/tar.h"

#include <string.h>

enum {
    BLOCK = 512,
    NAME_AT = 0,
    NAME_SIZE = 100,
    SIZE_AT = 124,
    SIZE_SIZE = 12,
    SUM_AT = 148,
    SUM_SIZE = 8,
    TYPE_AT = 156,
    MAGIC_AT = 257,
    PREFIX_AT = 345,
    PREFIX_SIZE = 155,
};

/* Octal digits, blanks before and blanks or a zero byte after them. */
static bool parse_octal(const uint8_t *field, int size, uint64_t *value)
{
    int i = 0, digits = 0;
    *value = 0;
    while (i < size && field[i] == ' ')
        i++;
    for (; i < size && field[i] >= '0' && field[i] <= '7'; i++, digits++)
        *value = *value << 3 | (uint64_t)(field[i] - '0');
    return digits > 0 && (i == size || field[i] == ' ' || field[i] == 0);
}

/* The sum of the header's bytes, its own field counted as blanks. */
static bool sum_is_right(const uint8_t *header)
{
    uint64_t stored, sum = 0;
    for (int i = 0; i < BLOCK; i++)
        sum += i >= SUM_AT && i < SUM_AT + SUM_SIZE ? ' ' : header[i];
    return parse_octal(header + SUM_AT, SUM_SIZE, &stored) && stored == sum;
}

static void join_name(const uint8_t *header, char *name)
{
    size_t used = 0;
    if (memcmp(header + MAGIC_AT, "ustar\0", 6) == 0)
        used = strnlen((const char *)header + PREFIX_AT, PREFIX_SIZE);
    memcpy(name, header + PREFIX_AT, used);
    if (used > 0)
        name[used++] = '/';
    size_t length = strnlen((const char *)header + NAME_AT, NAME_SIZE);
    memcpy(name + used, header + NAME_AT, length);
    name[used + length] = 0;
}

/* A header without a name is not the end: members behind it would be lost without a word. */
static bool is_end(const uint8_t *block)
{
    for (int i = 0; i < BLOCK; i++)
        if (block[i] != 0)
            return false;
    return true;
}

rc_status rc_tar_next(rc_tar *tar, rc_tar_member *member, bool *more)
{
    for (;;) {
        uint8_t header[BLOCK];
        size_t got;
        *more = false;
        RC_TRY(rc_input_skip(tar->input, tar->left));
        tar->left = 0;
        RC_TRY(rc_input_read(tar->input, header, BLOCK, &got));
        if (got == 0 || (got == BLOCK && is_end(header)))
            return RC_OK;
        if (got < BLOCK)
            return rc_fail(RC_FORMAT, "'%s' is truncated inside a tar header", rc_input_name(tar->input));
        if (!sum_is_right(header))
            return rc_fail(RC_FORMAT, "'%s' is not a tar archive, or damaged: wrong sum in a header",
                           rc_input_name(tar->input));
        join_name(header, member->name);
        if (!parse_octal(header + SIZE_AT, SIZE_SIZE, &member->size))
            return rc_fail(RC_FORMAT, "'%s': tar member '%.100s' has no size", rc_input_name(tar->input), member->name);
        /* 12 octal digits: the sum cannot overflow. */
        tar->left = (member->size + BLOCK - 1) / BLOCK * BLOCK;
        tar->total += tar->left;
        if (tar->total > RC_TAR_MAX_BYTES)
            return rc_fail(RC_FORMAT, "'%s' says that it holds more than %llu bytes (at '%.100s')",
                           rc_input_name(tar->input), (unsigned long long)RC_TAR_MAX_BYTES, member->name);
        char type = (char)header[TYPE_AT];
        if (type == '0' || type == 0) {
            *more = true;
            return RC_OK;
        }
    }
}

rc_status rc_tar_read(rc_tar *tar, const rc_tar_member *member, void *data)
{
    size_t got;
    RC_TRY(rc_input_read(tar->input, data, (size_t)member->size, &got));
    tar->left -= got;
    if (got < member->size)
        return rc_fail(RC_FORMAT, "'%s' is truncated inside '%.100s'", rc_input_name(tar->input), member->name);
    return RC_OK;
}
