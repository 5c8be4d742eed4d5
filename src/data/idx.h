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

/* `name` is what messages call the block. It must hold exactly what its header says. */
rc_status rc_idx_parse(const char *name, const uint8_t *data, size_t size, rc_idx *idx);

#endif
