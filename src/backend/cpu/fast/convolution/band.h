/* A band: rows of one image in a worker's scratch, finished and with a border of zeros, channels in blocks. It moves
 * down the image; rows that are needed again stay. */
#ifndef RC_BACKEND_CPU_FAST_CONVOLUTION_BAND_H
#define RC_BACKEND_CPU_FAST_CONVOLUTION_BAND_H

#include "backend/cpu/fast/load.h"

typedef struct row_band {
    float *memory;         /* (blocks, rows, width, channels of the block) */
    int rows, width, left; /* `left` columns of the width are border, and what is left over on the right */
    int channel, channels; /* of the tensor's channels it holds these */
    int block;             /* channels of a block; the last one may be narrower */
    bool compact;          /* fewer than 4 channels: pixels without their padding */
    int read_first, read_step, read_span; /* rows that anybody reads: (row - first) mod step < span */

    const value_source *values; /* one of them is what it loads from */
    const gradient_source *gradients;
    int store_first, store_end; /* values: only these rows are stored, if any */
    int top, next;              /* the image row that lies in row 0 of the memory; the first one not loaded yet */
} row_band;

static inline int band_blocks(const row_band *band)
{
    return (band->channels + band->block - 1) / band->block;
}

/* Channels of block b, which is also the floats between its pixels. */
static inline int band_pixel(const row_band *band, int b)
{
    int left = band->channels - b * band->block;
    return left < band->block ? left : band->block;
}

/* The first column of image row `row`, borders included, in block b. */
static inline float *band_row(const row_band *band, int row, int b)
{
    return band->memory + (ptrdiff_t)(b * band->block) * band->rows * band->width +
           (ptrdiff_t)(row - band->top) * band->width * band_pixel(band, b);
}

/* Loads what is missing of the rows [first, last); rows above and below the image are zeros. Bands go down: `first`
 * never decreases. Rows that are skipped between two calls are still loaded where the values are to be stored. */
void RC_FAST(band_load)(row_band *band, int first, int last);

/* Floats of memory for a band of this shape. Stores of compact pixels and loads of whole vectors reach a little beyond
 * the end. */
static inline size_t band_floats(int rows, int width, int channels)
{
    enum { SLACK = 64 };
    return (size_t)rows * (size_t)width * (size_t)channels + SLACK;
}

#endif
