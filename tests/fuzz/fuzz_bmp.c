/* BMP, which no library reads for us. */
#include "fuzz/picture.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size <= 2 || data[0] != 'B')
        return 0;
    fuzz_decode(data, size, size % 3 == 2 ? 0 : size % 3 == 0 ? 1 : 3);
    return 0;
}
