#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

size_t rc_utf8_decode(const char *text, size_t left, unsigned *code)
{
    static const unsigned least[5] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *byte = (const unsigned char *)text;
    unsigned first = *code = byte[0];
    if (first < 0x80)
        return 1;
    size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
    if (first < 0xC0 || first >= 0xF8 || length > left)
        return 0;
    unsigned value = first & (0x7Fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((byte[i] & 0xC0) != 0x80)
            return 0;
        value = value << 6 | (byte[i] & 0x3Fu);
    }
    bool surrogate = value >= 0xD800 && value < 0xE000;
    if (value < least[length] || value > 0x10FFFF || surrogate)
        return 0;
    *code = value;
    return length;
}

size_t rc_utf8_length(const char *text, size_t left)
{
    unsigned code;
    return rc_utf8_decode(text, left, &code);
}

size_t rc_utf8_order_mark(const char *text, size_t size)
{
    static const char mark[] = "\xEF\xBB\xBF";
    size_t length = sizeof mark - 1;
    return size >= length && memcmp(text, mark, length) == 0 ? length : 0;
}

unsigned rc_utf8_plain(unsigned code)
{
    static const char latin[] = "AAAAAAACEEEEIIIIDNOOOOOxOUUUUYTsaaaaaaaceeeeiiiidnooooo/ouuuuyty"
                                "AaAaAaCcCcCcCcDdDdEeEeEeEeEeGgGgGgGgHhHhIiIiIiIiIiIiJjKkkLlLlLlL"
                                "lLlNnNnNnnNnOoOoOoOoRrRrRrSsSsSsSsTtTtTtUuUuUuUuUuUuWwYyYZzZzZzs";
    if (code == 0xA0)
        return ' ';
    if (code >= 0xC0 && code < 0xC0 + sizeof latin - 1)
        return (unsigned char)latin[code - 0xC0];
    return code >= 0x300 && code < 0x370 ? 0 : code;
}

bool rc_utf8_is_hidden(unsigned code)
{
    static const struct {
        unsigned first, last;
    } hidden[] = {
        {0x00, 0x1F},       /* C0 */
        {0x7F, 0x9F},       /* DEL and C1, which terminals obey as well */
        {0xAD, 0xAD},       /* soft hyphen */
        {0x034F, 0x034F},   /* grapheme joiner */
        {0x061C, 0x061C},   /* Arabic letter mark */
        {0x115F, 0x1160},   /* Korean fillers */
        {0x17B4, 0x17B5},   /* Khmer vowels that are not written */
        {0x180E, 0x180E},   /* Mongolian vowel separator */
        {0x200B, 0x200F},   /* blanks and joiners of no width, marks of direction */
        {0x2028, 0x202E},   /* ends of lines and paragraphs, embeddings and overrides of direction */
        {0x2060, 0x206F},   /* joiners, invisible operators, isolates of direction */
        {0x3164, 0x3164},   /* another Korean filler */
        {0xFEFF, 0xFEFF},   /* byte order mark */
        {0xFFA0, 0xFFA0},   /* a Korean filler of half a width */
        {0xFFF9, 0xFFFB},   /* annotations */
        {0xFFFE, 0xFFFF},   /* no characters */
        {0x1BCA0, 0x1BCA3}, /* marks of shorthand */
        {0x1D173, 0x1D17A}, /* of music */
        {0xE0000, 0xE0FFF}, /* tags and selectors */
    };
    for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++)
        if (code >= hidden[i].first && code <= hidden[i].last)
            return true;
    return false;
}

size_t rc_utf8_show(const char *text, size_t left, char *out, size_t *taken)
{
    unsigned code;
    size_t length = rc_utf8_decode(text, left, &code);
    const char *letter = length == 0 ? NULL : code == '\n' ? "n" : code == '\t' ? "t" : code == '\r' ? "r" : NULL;
    *taken = length > 0 ? length : 1;
    if (length == 0)
        return (size_t)snprintf(out, RC_UTF8_SHOWN, "\\x%02x", code);
    if (!rc_utf8_is_hidden(code)) {
        memcpy(out, text, length);
        return length;
    }
    if (letter != NULL)
        return (size_t)snprintf(out, RC_UTF8_SHOWN, "\\%s", letter);
    if (code < 0x10000)
        return (size_t)snprintf(out, RC_UTF8_SHOWN, "\\u%04x", code);
    return (size_t)snprintf(out, RC_UTF8_SHOWN, "\\u%04x\\u%04x", 0xD7C0 + (code >> 10), 0xDC00 + (code & 0x3FF));
}

void rc_utf8_escape(const char *text, char *out, size_t size)
{
    size_t used = 0, mark = 0, left = strlen(text), taken;
    for (; left > 0; text += taken, left -= taken) {
        char shown[RC_UTF8_SHOWN];
        size_t length = rc_utf8_show(text, left, shown, &taken);
        if (used + length >= size) {
            memcpy(out + mark, "...", sizeof "...");
            return;
        }
        memcpy(out + used, shown, length);
        used += length;
        if (used + sizeof "..." <= size)
            mark = used; /* whole characters up to here leave room for the dots */
    }
    out[used] = '\0';
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
