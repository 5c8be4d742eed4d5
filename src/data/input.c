#include "data/input.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "base/file.h"
#include "base/memory.h"

struct rc_input {
    const char *name;
    gzFile file;         /* NULL: memory */
    uint64_t left;       /* bytes that may follow at most; of a block: those that do */
    const uint8_t *data; /* what is left of the block */
};

/* zlib takes sizes as unsigned and returns them as int. */
static const size_t largest_piece = (size_t)1 << 30;

rc_status rc_input_open(const char *path, rc_input **input)
{
    int fd;
    uint64_t size;
    *input = NULL;
    RC_TRY(rc_file_open_regular(path, &fd, &size));
    rc_input *opened = rc_alloc_zeroed(NULL, 1, sizeof *opened);
    gzFile file = opened != NULL ? gzdopen(fd, "rb") : NULL;
    if (file == NULL || gzbuffer(file, 1 << 17) != 0) {
        if (file != NULL)
            gzclose(file);
        else
            close(fd);
        rc_free(NULL, opened);
        return rc_fail(RC_OUT_OF_MEMORY, "cannot open '%s': out of memory", path);
    }
    *opened = (rc_input){.name = path, .file = file, .left = size};
    if (!gzdirect(file)) /* which looks at the first bytes */
        opened->left = size > UINT64_MAX / RC_INPUT_RATIO      ? UINT64_MAX
                       : size * RC_INPUT_RATIO > RC_INPUT_FREE ? size * RC_INPUT_RATIO
                                                               : RC_INPUT_FREE;
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

/* Is it a gzipped file? */
static bool is_packed(const rc_input *input)
{
    return input->file != NULL && !gzdirect(input->file);
}

uint64_t rc_input_left(const rc_input *input)
{
    return input->left;
}

rc_status rc_input_check_promise(const rc_input *input, uint64_t bytes)
{
    if (bytes <= input->left)
        return RC_OK;
    if (!is_packed(input))
        return rc_fail(RC_FORMAT, "'%s' is truncated: it promises %llu more bytes, but only %llu follow", input->name,
                       (unsigned long long)bytes, (unsigned long long)input->left);
    return rc_fail(RC_FORMAT,
                   "'%s' promises %llu more bytes; a gzipped file is taken to unpack to at most %d bytes for each of "
                   "its own, or to %llu MiB: unpack it, if it is right",
                   input->name, (unsigned long long)bytes, RC_INPUT_RATIO, (unsigned long long)RC_INPUT_FREE >> 20);
}

rc_status rc_input_read(rc_input *input, void *data, size_t size, size_t *got)
{
    *got = 0;
    if (input->file == NULL) {
        *got = size < input->left ? size : (size_t)input->left;
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
        if (count > 0 && (uint64_t)count > input->left)
            return is_packed(input) ? rc_input_check_promise(input, (uint64_t)count)
                                    : rc_fail(RC_IO, "'%s' has grown while it was read", input->name);
        input->left -= count > 0 ? (uint64_t)count : 0;
        if (count == (int)piece)
            continue;
        int code = Z_OK;
        const char *reason = gzerror(input->file, &code), *bare = strstr(reason, ">: ");
        if (code == Z_ERRNO)
            return rc_fail(RC_IO, "cannot read '%s': %s", input->name, strerror(errno));
        if (code == Z_BUF_ERROR)
            return rc_fail(RC_FORMAT, "'%s' is truncated: the gzip data end too early", input->name);
        if (code != Z_OK && code != Z_STREAM_END)
            return rc_fail(code == Z_MEM_ERROR ? RC_OUT_OF_MEMORY : RC_FORMAT, "'%s' is not a sound gzip file: %s",
                           input->name,
                           bare != NULL ? bare + 3 : reason); /* without zlib's own name for it, "<fd:3>" */
        if (count <= 0)
            break;
    }
    return RC_OK;
}

rc_status rc_input_skip(rc_input *input, uint64_t size)
{
    uint8_t scratch[4096];
    if (is_packed(input)) /* for the others the end of the file shows that they are cut */
        RC_TRY(rc_input_check_promise(input, size));
    while (size > 0) {
        size_t piece = size < sizeof scratch ? (size_t)size : sizeof scratch, got;
        RC_TRY(rc_input_read(input, scratch, piece, &got));
        if (got < piece)
            return rc_fail(RC_FORMAT, "'%s' is truncated", input->name);
        size -= piece;
    }
    return RC_OK;
}

/* Reads to the end into a block that doubles: the size of a gzipped file is known only once it has been read. The
 * size of others is known before. */
static rc_status read_to_end(rc_input *input, size_t limit, uint8_t **data, size_t *size)
{
    uint8_t *block = NULL;
    size_t used = 0, capacity = is_packed(input) ? 1 << 16 : (size_t)input->left;
    rc_status status = RC_OK;
    if (!is_packed(input) && input->left > limit)
        return rc_fail(RC_FORMAT, "'%s' holds more than %zu bytes", input->name, limit);
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
