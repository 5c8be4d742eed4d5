#include "base/utf8.h"

#include <stdbool.h>
#include <string.h>

size_t rc_utf8_length(const char *text, size_t left)
{
    static const unsigned least[5] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *byte = (const unsigned char *)text;
    unsigned first = byte[0];
    if (first < 0x80)
        return 1;
    size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
    if (first < 0xC0 || first >= 0xF8 || length > left)
        return 0;
    unsigned code = first & (0x7Fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((byte[i] & 0xC0) != 0x80)
            return 0;
        code = code << 6 | (byte[i] & 0x3Fu);
    }
    bool surrogate = code >= 0xD800 && code < 0xE000;
    return code < least[length] || code > 0x10FFFF || surrogate ? 0 : length;
}

const char *rc_utf8_column(const char *text, size_t width, char *out, size_t size)
{
    size_t used = 0, characters = 0, left = strlen(text);
    while (left > 0) {
        size_t length = rc_utf8_length(text, left), taken = length > 0 ? length : 1;
        if (used + taken >= size)
            break;
        memcpy(out + used, text, taken);
        used += taken;
        text += taken;
        left -= taken;
        characters++;
    }
    for (; characters < width && used + 1 < size; characters++)
        out[used++] = ' ';
    out[used] = '\0';
    return out;
}

void rc_utf8_mark_cut(char *text, size_t size)
{
    static const char dots[] = "...";
    size_t end = size - sizeof dots;
    while (end > 0 && ((unsigned char)text[end] & 0xC0) == 0x80)
        end--;
    memcpy(text + end, dots, sizeof dots);
}
