/* PGM and PPM: "P5" or "P6", width, height and largest value as text, one blank, then bytes (two for each value where
 * the largest is above 255, the upper one first); "P2" and "P3" have the values as text. '#' begins a comment. */
#include "data/image_format.h"

#include <math.h>

typedef struct text {
    const uint8_t *at, *end;
} text;

static bool is_blank(uint8_t c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* The next number, after blanks and comments. False at the end, at anything else, and above 65535. */
static bool next_number(text *t, uint32_t *value)
{
    for (; t->at < t->end && (is_blank(*t->at) || *t->at == '#'); t->at++)
        if (*t->at == '#')
            while (t->at + 1 < t->end && t->at[1] != '\n' && t->at[1] != '\r')
                t->at++;
    const uint8_t *begin = t->at;
    for (*value = 0; t->at < t->end && *t->at >= '0' && *t->at <= '9'; t->at++) {
        *value = *value * 10 + (uint32_t)(*t->at - '0');
        if (*value > 65535)
            return false;
    }
    return t->at > begin && (t->at == t->end || is_blank(*t->at) || *t->at == '#');
}

static uint8_t to_byte(uint32_t value, uint32_t largest)
{
    /* Halves to even, as Pillow has it. */
    return (uint8_t)(value >= largest ? 255 : rint((double)value / largest * 255));
}

static rc_status read_text(text *t, uint32_t largest, size_t count, uint8_t *out)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t value;
        if (!next_number(t, &value) || value > largest)
            return rc_fail(RC_FORMAT, "value %zu of %zu is missing or above %u", i, count, (unsigned)largest);
        out[i] = to_byte(value, largest);
    }
    return RC_OK;
}

static rc_status read_bytes(const text *t, uint32_t largest, size_t count, uint8_t *out)
{
    size_t width = largest > 255 ? 2 : 1, left = (size_t)(t->end - t->at);
    if (left / width < count)
        return rc_fail(RC_FORMAT, "truncated: %zu bytes of pixels, expected %zu", left, count * width);
    for (size_t i = 0; i < count; i++) {
        uint32_t value = width == 2 ? (uint32_t)t->at[2 * i] << 8 | t->at[2 * i + 1] : t->at[i];
        out[i] = to_byte(value, largest);
    }
    return RC_OK;
}

rc_status rc_pnm_decode(rc_image_request *request, rc_image *image)
{
    uint8_t kind = request->data[1];
    bool as_text = kind == '2' || kind == '3';
    int channels = kind == '3' || kind == '6' ? 3 : 1;
    text t = {request->data + 2, request->data + request->size};
    uint32_t w, h, largest;
    if (!next_number(&t, &w) || !next_number(&t, &h) || !next_number(&t, &largest) || largest == 0)
        return rc_fail(RC_FORMAT, "the header of P%c has no width, height and largest value up to 65535", kind);
    size_t count = (size_t)w * h * (size_t)channels;
    /* A value takes at least one byte: a short file cannot make us allocate much. */
    if ((size_t)(t.end - t.at) < count)
        return rc_fail(RC_FORMAT, "truncated: %zu bytes of pixels for %u x %u", (size_t)(t.end - t.at), (unsigned)w,
                       (unsigned)h);
    RC_TRY(rc_image_allocate(request, h, w, channels, image));
    if (as_text)
        return read_text(&t, largest, count, image->pixels);
    t.at++; /* the one blank */
    return read_bytes(&t, largest, count, image->pixels);
}
