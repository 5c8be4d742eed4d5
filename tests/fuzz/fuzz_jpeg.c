/* JPEG, as it is and in the other number of channels. */
#include "fuzz/mutate.h"
#include "fuzz/picture.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 2 && data[0] == 0xFF && data[1] == 0xD8)
        fuzz_decode(data, size, size % 2 == 0 ? 0 : 1);
    return 0;
}

enum { MOST_SEGMENTS = 512 };
typedef struct segment {
    size_t at, size; /* with its marker; coded pixels are a segment of their own */
} segment;

static int split(const uint8_t *data, size_t size, segment *segments)
{
    int count = 0;
    for (size_t at = 2; at < size && count < MOST_SEGMENTS; count++) {
        size_t first = at;
        bool marker = size - at >= 4 && data[at] == 0xFF && data[at + 1] != 0 && data[at + 1] != 0xFF;
        if (marker && (data[at + 1] < 0xD0 || data[at + 1] > 0xD9)) {
            at += 2 + ((size_t)data[at + 2] << 8) + data[at + 3];
        } else {
            for (at += marker ? 2 : 1; at + 1 < size && (data[at] != 0xFF || data[at + 1] == 0);)
                at++;
            at += at + 1 >= size;
        }
        if (at > size)
            at = size;
        segments[count] = (segment){.at = first, .size = at - first};
    }
    return count;
}

/* Segments left out, twice, moved, with another marker, another byte in the first fields, or other bytes whose length
 * is told. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t limit, unsigned seed)
{
    static segment segments[MOST_SEGMENTS];
    static const uint8_t markers[] = {0xC0, 0xC1, 0xC2, 0xC3, 0xC4, 0xC9, 0xCC, 0xD0, 0xD7, 0xD8, 0xD9, 0xDA,
                                      0xDB, 0xDC, 0xDD, 0xDF, 0xE0, 0xE1, 0xE2, 0xEE, 0xEF, 0xFE, 0x01, 0xF0};
    fuzz_input in = fuzz_input_of(data, size, limit, seed);
    int count = split(data, size, segments);
    if (count == 0 || fuzz_one_in(&in, 8))
        return LLVMFuzzerMutate(data, size, limit);
    segment s = segments[fuzz_roll(&in, (size_t)count)], other = segments[fuzz_roll(&in, (size_t)count)];
    switch (fuzz_roll(&in, 7)) {
    case 0: fuzz_replace(&in, s.at, s.size, "", 0); break;
    case 1: fuzz_copy(&in, s.at, s.size, other.at); break;
    case 2:
        if (fuzz_copy(&in, s.at, s.size, other.at))
            fuzz_replace(&in, s.at + (other.at <= s.at ? s.size : 0), s.size, "", 0);
        break;
    case 3:
        if (s.size >= 2 && data[s.at] == 0xFF)
            data[s.at + 1] = markers[fuzz_roll(&in, sizeof markers)];
        break;
    case 4:
        if (s.size > 4)
            data[s.at + 4 + fuzz_roll(&in, s.size - 4 < 16 ? s.size - 4 : 16)] = (uint8_t)fuzz_odd_number(&in);
        break;
    default:
        if (s.size > 4 && data[s.at] == 0xFF && data[s.at + 1] >= 0xC0) {
            size_t now = 2 + fuzz_mutate_part(&in, s.at + 4, s.size - 4);
            if (s.at + 3 < in.size) {
                data[s.at + 2] = (uint8_t)(now >> 8);
                data[s.at + 3] = (uint8_t)now;
            }
        } else {
            fuzz_mutate_part(&in, s.at, s.size);
        }
    }
    return in.size;
}
