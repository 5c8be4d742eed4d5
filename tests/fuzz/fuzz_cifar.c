/* CIFAR, as records and as pickles: labels are below the number of classes, images have their bytes. */
#include "fuzz/mutate.h"

#include "base/memory.h"
#include "data/cifar.h"

enum { CLASSES = 10 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    rc_split split = {0};
    (void)rc_cifar_parse_binary("input", data, size, 1, CLASSES, &split);
    (void)rc_cifar_parse_binary("input", data, size, 2, CLASSES, &split);
    bool sound = rc_cifar_parse_pickle("input", data, size, "labels", CLASSES, &split) == RC_OK;
    volatile unsigned sum = 0; /* so that the bytes are read */
    for (int i = 0; i < split.count && sound; i++) {
        FUZZ_EXPECT(split.labels[i] >= 0 && split.labels[i] < CLASSES);
        for (size_t k = 0; k < RC_CIFAR_BYTES; k++)
            sum = sum + split.images[(size_t)i * RC_CIFAR_BYTES + k];
    }
    rc_free(NULL, split.images);
    rc_free(NULL, split.labels);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t limit, unsigned seed)
{
    fuzz_input in = fuzz_input_of(data, size, limit, seed);
    fuzz_mutate_pickle(&in, 0, in.size);
    return in.size;
}
