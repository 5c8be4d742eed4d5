/* Archives, as they are and with the sums of their headers set right; gzipped ones go through a file, because that is
 * where zlib looks for them. */
#include "fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "data/bundle.h"

/* Every block of 512 bytes might be a header. */
static void repair(uint8_t *data, size_t size)
{
    for (size_t at = 0; at < size && size - at >= 512; at += 512) {
        unsigned sum = 0;
        char text[8];
        memset(data + at + 148, ' ', 8);
        for (size_t i = 0; i < 512; i++)
            sum += data[at + i];
        snprintf(text, sizeof text, "%06o", sum);
        memcpy(data + at + 148, text, 7);
    }
}

enum { LIMIT = 1 << 16 };
static const char *const names[] = {"train", "test", "meta", NULL};

static void take_all(rc_bundle *bundle)
{
    uint8_t *content;
    size_t length;
    for (int i = 0; names[i] != NULL; i++)
        if (rc_bundle_take(bundle, names[i], LIMIT, &content, &length) == RC_OK) {
            FUZZ_EXPECT(length <= LIMIT && content[length] == 0);
            rc_free(NULL, content);
        }
    rc_bundle_close(bundle);
}

static void read_archive(const uint8_t *data, size_t size)
{
    rc_input *input;
    rc_bundle bundle;
    FUZZ_EXPECT(rc_input_open_memory("input", data, size, &input) == RC_OK);
    if (rc_bundle_open_archive(input, names, LIMIT, &bundle) == RC_OK)
        take_all(&bundle);
    rc_input_close(input);
}

static void read_file(const uint8_t *data, size_t size)
{
    char path[] = "/tmp/recollect-fuzz-XXXXXX", first[257];
    rc_bundle bundle;
    int file = mkstemp(path);
    FUZZ_EXPECT(file >= 0 && write(file, data, size) == (ssize_t)size && close(file) == 0);
    FUZZ_EXPECT(rc_archive_first_name(path, first) == RC_OK);
    if (rc_bundle_open(path, names, LIMIT, &bundle) == RC_OK)
        take_all(&bundle);
    remove(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 2 && data[0] == 0x1F && data[1] == 0x8B) {
        read_file(data, size);
        return 0;
    }
    read_archive(data, size);
    uint8_t *copy = malloc(size + 1);
    FUZZ_EXPECT(copy != NULL);
    if (size > 0)
        memcpy(copy, data, size);
    repair(copy, size);
    read_archive(copy, size);
    free(copy);
    return 0;
}
