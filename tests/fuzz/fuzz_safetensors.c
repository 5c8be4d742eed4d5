/* Files of tensors: what is accepted must be readable to its last byte. */
#include "fuzz/fuzz.h"

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
