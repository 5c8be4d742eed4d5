/* The one thing in EXIF that matters here: how the picture must be turned. */
#ifndef RC_DATA_EXIF_H
#define RC_DATA_EXIF_H

#include <stddef.h>
#include <stdint.h>

/* data: a TIFF block (in a JPEG: what follows "Exif\0\0" in the APP1 segment; in a PNG: the eXIf chunk). Returns 1 to
 * 8. Returns 1, which turns nothing, if there is no orientation or the block is damaged: damaged notes do not make a
 * picture unreadable. */
int rc_exif_orientation(const uint8_t *data, size_t size);

#endif
