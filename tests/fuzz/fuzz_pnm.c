/* PPM and PGM, and files that are no picture at all. */
#include "fuzz/picture.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_decode(data, size, size % 2 == 0 ? 0 : 3);
    return 0;
}
