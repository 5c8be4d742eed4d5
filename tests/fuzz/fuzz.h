/* Fuzz targets: one fuzz_NAME.c for every parser of bytes that may come from strangers. Each is a program
 * of its own: linked with libFuzzer where that is built (script/fuzz), else with replay.c, which the tests
 * run over corpus/NAME. A target must neither crash nor leak, whatever the bytes; what it returns is
 * always 0. */
#ifndef RC_TESTS_FUZZ_FUZZ_H
#define RC_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Ends the program in a way that every fuzzer notices: for results that no input may have. */
#define FUZZ_EXPECT(condition) \
    do { \
        if (!(condition)) \
            __builtin_trap(); \
    } while (0)

#endif
