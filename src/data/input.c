#include "data/input.h"

#include <errno.h>
#include <string.h>
#include <zlib.h>

#include "base/memory.h"

struct rc_input {
    const char *name;
    gzFile file;         /* NULL: memory */
    const uint8_t *data; /* what is left of the block */
    size_t left;
};

/* zlib takes sizes as unsigned and returns them as int. */
static const size_t largest_piece = (size_t)1 << 30;

rc_status rc_input_open(const char *path, rc_input **input)
{
    *input = NULL;
    rc_input *opened = rc_alloc_zeroed(NULL, 1, sizeof *opened);
    if (opened == NULL)
        return RC_OUT_OF_MEMORY;
    opened->name = path;
    errno = 0;
    opened->file = gzopen(path, "rb");
    if (opened->file == NULL) {
        rc_free(NULL, opened);
        return rc_fail(errno == 0 || errno == ENOMEM ? RC_OUT_OF_MEMORY : RC_IO, "cannot open '%s': %s", path,
                       errno == 0 ? "out of memory" : strerror(errno));
    }
    gzbuffer(opened->file, 1 << 17);
    *input = opened;
    return RC_OK;
}

rc_status rc_input_open_memory(const char *name, const uint8_t *data, size_t size, rc_input **input)
{
    *input = rc_alloc_zeroed(NULL, 1, sizeof **input);
    if (*input == NULL)
        return RC_OUT_OF_MEMORY;
    **input = (rc_input){.name = name, .data = data, .left = size};
    return RC_OK;
}

void rc_input_close(rc_input *input)
{
    if (input != NULL && input->file != NULL)
        gzclose(input->file);
    rc_free(NULL, input);
}

const char *rc_input_name(const rc_input *input)
{
    return input->name;
}

rc_status rc_input_read(rc_input *input, void *data, size_t size, size_t *got)
{
    *got = 0;
    if (input->file == NULL) {
        *got = size < input->left ? size : input->left;
        if (*got > 0)
            memcpy(data, input->data, *got);
        input->data += *got;
        input->left -= *got;
        return RC_OK;
    }
    while (*got < size) {
        size_t piece = size - *got < largest_piece ? size - *got : largest_piece;
        errno = 0;
        int count = gzread(input->file, (char *)data + *got, (unsigned)piece);
        if (count > 0)
            *got += (size_t)count;
        if (count == (int)piece)
            continue;
        int code = Z_OK;
        const char *reason = gzerror(input->file, &code);
        if (code == Z_ERRNO)
            return rc_fail(RC_IO, "cannot read '%s': %s", input->name, strerror(errno));
        if (code == Z_BUF_ERROR)
            return rc_fail(RC_FORMAT, "'%s' is truncated: the gzip data end too early", input->name);
        if (code != Z_OK && code != Z_STREAM_END)
            return rc_fail(code == Z_MEM_ERROR ? RC_OUT_OF_MEMORY : RC_FORMAT,
                           "'%s' is not a sound gzip file: %s", input->name, reason);
        if (count <= 0)
            break;
    }
    return RC_OK;
}

rc_status rc_input_skip(rc_input *input, uint64_t size)
{
    uint8_t scratch[4096];
    while (size > 0) {
        size_t piece = size < sizeof scratch ? (size_t)size : sizeof scratch, got;
        RC_TRY(rc_input_read(input, scratch, piece, &got));
        if (got < piece)
            return rc_fail(RC_FORMAT, "'%s' is truncated", input->name);
        size -= piece;
    }
    return RC_OK;
}

/* Reads to the end into a block that doubles: how much a gzip file holds is known only when it has been read. */
static rc_status read_to_end(rc_input *input, size_t limit, uint8_t **data, size_t *size)
{
    uint8_t *block = NULL;
    size_t used = 0, capacity = 1 << 16;
    rc_status status = RC_OK;
    for (;;) {
        uint8_t *grown = rc_alloc(NULL, capacity + 1);
        if (grown == NULL) {
            status = RC_OUT_OF_MEMORY;
            break;
        }
        if (used > 0)
            memcpy(grown, block, used);
        rc_free(NULL, block);
        block = grown;
        size_t got = 0;
        status = rc_input_read(input, block + used, capacity + 1 - used, &got);
        used += got;
        if (status != RC_OK || used <= capacity)
            break;
        if (capacity >= limit) {
            status = rc_fail(RC_FORMAT, "'%s' holds more than %zu bytes", input->name, limit);
            break;
        }
        capacity = capacity > limit / 2 ? limit : capacity * 2;
    }
    if (status == RC_OK && used > limit)
        status = rc_fail(RC_FORMAT, "'%s' holds more than %zu bytes", input->name, limit);
    if (status != RC_OK) {
        rc_free(NULL, block);
        return status;
    }
    block[used] = 0;
    *data = block;
    *size = used;
    return RC_OK;
}

rc_status rc_input_read_file(const char *path, size_t limit, uint8_t **data, size_t *size)
{
    *data = NULL;
    *size = 0;
    rc_input *input;
    RC_TRY(rc_input_open(path, &input));
    rc_status status = read_to_end(input, limit, data, size);
    rc_input_close(input);
    return status;
}
