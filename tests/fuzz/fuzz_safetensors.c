/* Files of tensors: what is accepted must be readable to its last byte. */
#include "fuzz/mutate.h"

#include <string.h>

#include "model/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    rc_safetensors *file;
    rc_status status = rc_safetensors_parse("input", data, size, &file);
    FUZZ_EXPECT((status == RC_OK) == (file != NULL));
    volatile unsigned sum = 0; /* so that the bytes are read */
    for (int i = 0; file != NULL && i < rc_safetensors_count(file); i++) {
        const rc_named_tensor *tensor = rc_safetensors_at(file, i);
        size_t bytes = rc_named_tensor_count(tensor) * rc_dtype_bytes(tensor->dtype);
        FUZZ_EXPECT(bytes <= size);
        FUZZ_EXPECT(rc_safetensors_find(file, tensor->name) != NULL);
        for (size_t k = 0; k < bytes; k++)
            sum = sum + ((const unsigned char *)tensor->data)[k];
    }
    if (file != NULL)
        (void)rc_safetensors_metadata(file, "format");
    rc_safetensors_close(file);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t limit, unsigned seed)
{
    fuzz_input in = fuzz_input_of(data, size, limit, seed);
    if (size <= 8 || fuzz_one_in(&in, 8))
        return LLVMFuzzerMutate(data, size, limit);
    uint64_t header = 0;
    for (int i = 0; i < 8; i++)
        header |= (uint64_t)data[i] << (8 * i);
    if (header > size - 8)
        header = size - 8;
    if (fuzz_one_in(&in, 6))
        fuzz_mutate_part(&in, 8 + (size_t)header, in.size - 8 - (size_t)header);
    else
        header = fuzz_mutate_json(&in, 8, (size_t)header);
    for (int i = 0; i < 8; i++)
        data[i] = (uint8_t)(header >> (8 * i));
    return in.size;
}
