/* JPEG, as it is and in the other number of channels. */
#include "fuzz/picture.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 2 && data[0] == 0xFF && data[1] == 0xD8)
        fuzz_decode(data, size, size % 2 == 0 ? 0 : 1);
    return 0;
}
