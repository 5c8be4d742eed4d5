/* Idx files: what is accepted holds as many values as it says. */
#include "fuzz/fuzz.h"

#include "data/idx.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    rc_idx idx;
    if (rc_idx_parse("input", data, size, &idx) != RC_OK)
        return 0;
    size_t values = 1;
    for (int i = 0; i < idx.dims; i++)
        values *= (size_t)idx.dim[i];
    FUZZ_EXPECT(idx.values >= data && (size_t)(idx.values - data) + values == size);
    return 0;
}
