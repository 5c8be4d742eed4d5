/* Pictures of a data set that are decoded when they are about to be read, by threads, a bounded number of them ahead.
 *
 * A picture is seen in one of two ways: as it is (resized, the middle cut out: the way of image.h), or through a random
 * window, as ImageNet is trained on: 8 to 100 % of its area, sides of 3 : 4 to 4 : 3, resized to the square. The window
 * is a function of the random stream and the picture's number alone, so nothing depends on the number of threads. */
#ifndef RC_DATA_STREAM_H
#define RC_DATA_STREAM_H

#include "base/rng.h"
#include "data/dataset.h"
#include "data/image_files.h"

/* The pictures, and what becomes of them. */
typedef struct rc_image_stream {
    rc_image_files files;
    uint32_t *checksum; /* (files.count) of the pictures as they are */
    rc_image_fit fit;
    bool ignore_exif;
    int threads; /* of a reader */
} rc_image_stream;

/* NULL is fine. */
void rc_stream_destroy(rc_image_stream *stream);
/* One picture as it is, (size, size, channels), at once. */
rc_status rc_stream_read(const rc_image_stream *stream, int number, uint8_t *out);

/* Where a random window of picture `number` lies, which has h x w pixels. The rules are those of torchvision's
 * RandomResizedCrop. */
typedef struct rc_window {
    int top, left, h, w;
} rc_window;
rc_window rc_stream_window(rc_rng rng, uint64_t number, int h, int w);

/* Reads pictures in the order that it was told. One thread calls it. */
typedef struct rc_stream_reader rc_stream_reader;
/* most: pictures that are fetched at once. The stream stays where it is. */
rc_status rc_stream_open(const rc_image_stream *stream, int most, rc_stream_reader **reader);
/* The same for images of `bytes` bytes that lie in a pack: threads check and copy them. They have no windows. */
rc_status rc_stream_open_pack(const rc_split *split, size_t bytes, int most, rc_stream_reader **reader);
/* The memory that fetched pictures lie in, as long as the reader is open. */
void *rc_stream_ring(const rc_stream_reader *reader, size_t *bytes);
void rc_stream_close(rc_stream_reader *reader);
/* These pictures will be fetched, from any place on in this order; a negative number stands for none. through: the
 * random stream of their windows; NULL: as they are. Of several processes that share the order, each fetches every
 * `parts`-th piece. What was expected before counts no more. */
rc_status rc_stream_expect(rc_stream_reader *reader, const int32_t *order, size_t count, const rc_rng *through,
                           int parts);
/* Waits for n pictures of the order, from `first` on: picture b is number (*place)[b] of those at *from, until the next
 * call. Both are there even if it fails. */
rc_status rc_stream_fetch(rc_stream_reader *reader, size_t first, int n, const uint8_t **from, const int32_t **place);

/* Images of a split as they are, once, piece by piece, wherever they lie: for scoring. */
typedef struct rc_split_pass {
    const rc_split *split;
    const int32_t *index;
    rc_stream_reader *reader; /* NULL: they lie in memory or in a pack */
} rc_split_pass;

/* index: (count), which images, which stay where they are. most: of a piece. */
rc_status rc_split_pass_open(const rc_split *split, const int32_t *index, int count, int most, rc_split_pass *pass);
/* The next n, which follow `from` others: image i is number (*which)[i] of those at *images, until the next call. They
 * are what they were when they were packed. */
rc_status rc_split_pass_next(const rc_split_pass *pass, int from, int n, const uint8_t **images, const int32_t **which);
void rc_split_pass_close(rc_split_pass *pass);

#endif
