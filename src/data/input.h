/* Bytes one after another: of a file, plain or gzipped, or of a block in memory. */
#ifndef RC_DATA_INPUT_H
#define RC_DATA_INPUT_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct rc_input rc_input;

/* A gzipped file may unpack to RC_INPUT_RATIO bytes for each of its own, and to RC_INPUT_FREE bytes however small it
 * is; more is refused. (Deflate makes up to 1032 bytes of one; of uncompressed images even 5 are rare.) */
#define RC_INPUT_RATIO 64
#define RC_INPUT_FREE  ((uint64_t)1 << 26)

/* A regular file; gzip is recognised by looking. `path` is kept for messages and must live as long as the input. */
rc_status rc_input_open(const char *path, rc_input **input);
/* A block that must live as long as the input; `name` is what messages call it. */
rc_status rc_input_open_memory(const char *name, const uint8_t *data, size_t size, rc_input **input);
/* NULL is fine. */
void rc_input_close(rc_input *input);
const char *rc_input_name(const rc_input *input);
/* The most bytes that may still follow. A header that promises more is wrong. */
uint64_t rc_input_left(const rc_input *input);

/* The next `size` bytes. *got is less only at the end; a damaged or truncated gzip file is a failure. */
rc_status rc_input_read(rc_input *input, void *data, size_t size, size_t *got);
/* Passes over `size` bytes, which must be there. */
rc_status rc_input_skip(rc_input *input, uint64_t size);

/* Fails if more bytes are promised than may follow. */
rc_status rc_input_check_promise(const rc_input *input, uint64_t bytes);

/* All of a file, unzipped where it is gzipped, with a zero byte after the last that *size does not count. More than
 * `limit` bytes are refused. Free *data with rc_free(NULL, ...); on failure it is NULL. */
rc_status rc_input_read_file(const char *path, size_t limit, uint8_t **data, size_t *size);

#endif
