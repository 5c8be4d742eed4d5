/* Files of PyTorch: what is accepted must be readable to its last byte. */
#include "fuzz/fuzz.h"

#include <string.h>

#include "model/torch_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    rc_torch_file *file;
    rc_status status = rc_torch_file_parse("input", data, size, &file);
    FUZZ_EXPECT((status == RC_OK) == (file != NULL));
    volatile unsigned sum = 0; /* so that the bytes are read */
    for (int i = 0; file != NULL && i < rc_torch_file_count(file); i++) {
        const rc_named_tensor *tensor = rc_torch_file_at(file, i);
        const uint8_t *bytes = tensor->data;
        size_t count = rc_named_tensor_bytes(tensor);
        FUZZ_EXPECT(tensor->dims <= RC_TENSOR_DIMS && strlen(tensor->name) <= size);
        if (count > 0)
            sum = sum + bytes[0] + bytes[count - 1];
        for (int k = 0; k < i; k++)
            FUZZ_EXPECT(strcmp(rc_torch_file_at(file, k)->name, tensor->name) != 0);
    }
    rc_torch_file_close(file);
    return 0;
}
