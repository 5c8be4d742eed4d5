/* EXIF: an orientation, whatever the block holds. */
#include "fuzz/fuzz.h"

#include "data/exif.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int orientation = rc_exif_orientation(data, size);
    FUZZ_EXPECT(orientation >= 1 && orientation <= 8);
    return 0;
}
