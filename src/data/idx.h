/* Arrays of bytes as MNIST ships them: 0, 0, type, dimensions, then each dimension as 4 bytes, most significant first,
 * then the values. Type 8, unsigned bytes, is the one that images and labels have. */
#ifndef RC_DATA_IDX_H
#define RC_DATA_IDX_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct rc_idx {
    int dims;
    int dim[4];            /* outermost first */
    const uint8_t *values; /* inside the block that was parsed */
} rc_idx;

/* The longest header. */
enum { RC_IDX_HEADER = 20 };

/* What the header at the beginning of a file says, of which `size` bytes are there: dims and dim, and how many bytes it
 * takes and promises to come behind it. `name` is what messages call the file. */
rc_status rc_idx_parse_header(const char *name, const uint8_t *data, size_t size, rc_idx *idx, size_t *header,
                              size_t *values);

/* A whole file. It must hold exactly what its header says. */
rc_status rc_idx_parse(const char *name, const uint8_t *data, size_t size, rc_idx *idx);

#endif
