#include "data/image.h"

#include <string.h>

void rc_image_convert(const uint8_t *in, int from, size_t count, int to, uint8_t *out)
{
    if (from == to) {
        memcpy(out, in, count * (size_t)from);
    } else if (from == 1) {
        for (size_t i = 0; i < count; i++) out[3 * i] = out[3 * i + 1] = out[3 * i + 2] = in[i];
    } else {
        for (size_t i = 0; i < count; i++)
            out[i] =
                (uint8_t)((19595u * in[3 * i] + 38470u * in[3 * i + 1] + 7471u * in[3 * i + 2] + 0x8000u) >>
                          16);
    }
}
