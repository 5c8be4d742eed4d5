/* Parts of inputs: chances, odd numbers, replacing. */
#include "fuzz/mutate.h"

#include <stdlib.h>
#include <string.h>

fuzz_input fuzz_input_of(uint8_t *data, size_t size, size_t limit, unsigned seed)
{
    return (fuzz_input){.bytes = data, .size = size, .limit = limit, .dice = seed * UINT64_C(0x9E3779B97F4A7C15) + 1};
}

size_t fuzz_roll(fuzz_input *in, size_t below)
{
    in->dice ^= in->dice << 13;
    in->dice ^= in->dice >> 7;
    in->dice ^= in->dice << 17;
    return below > 0 ? (size_t)((in->dice >> 11) % below) : 0;
}

bool fuzz_one_in(fuzz_input *in, size_t chances)
{
    return fuzz_roll(in, chances) == 0;
}

uint64_t fuzz_odd_number(fuzz_input *in)
{
    uint64_t power = UINT64_C(1) << fuzz_roll(in, 64);
    switch (fuzz_roll(in, 6)) {
    case 0: return power;
    case 1: return power - 1;
    case 2: return power + 1;
    case 3: return 0 - power;
    case 4: return in->size + fuzz_roll(in, 3) - 1;
    default: return fuzz_roll(in, 17);
    }
}

bool fuzz_replace(fuzz_input *in, size_t at, size_t old, const void *bytes, size_t size)
{
    if (at > in->size || old > in->size - at || in->size - old + size > in->limit)
        return false;
    memmove(in->bytes + at + size, in->bytes + at + old, in->size - at - old);
    if (size > 0)
        memcpy(in->bytes + at, bytes, size);
    in->size += size - old;
    return true;
}

bool fuzz_replace_text(fuzz_input *in, size_t at, size_t old, const char *text)
{
    return fuzz_replace(in, at, old, text, strlen(text));
}

bool fuzz_copy(fuzz_input *in, size_t from, size_t size, size_t to)
{
    if (from > in->size || size > in->size - from || size == 0)
        return false;
    uint8_t *copy = malloc(size);
    if (copy == NULL)
        return false;
    memcpy(copy, in->bytes + from, size);
    bool done = fuzz_replace(in, to, 0, copy, size);
    free(copy);
    return done;
}

size_t fuzz_mutate_part(fuzz_input *in, size_t at, size_t size)
{
    size_t limit = size + (in->limit - in->size < 256 ? in->limit - in->size : 256), now = size;
    uint8_t *part = malloc(limit > 0 ? limit : 1);
    if (part == NULL || limit == 0) {
        free(part);
        return size;
    }
    memcpy(part, in->bytes + at, size);
    now = LLVMFuzzerMutate(part, size, limit);
    if (!fuzz_replace(in, at, size, part, now))
        now = size;
    free(part);
    return now;
}
