/* How many columns of a terminal a text takes. The C library knows only after setlocale, which the program does not
 * call, so that numbers keep their points. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

typedef struct span {
    uint32_t first, last;
} span;

/* Marks that are drawn over the character before them. */
static const span without_width[] = {
    {0x0300, 0x036F}, {0x0483, 0x0489}, {0x0591, 0x05BD}, {0x0610, 0x061A}, {0x064B, 0x065F},  {0x0900, 0x0902},
    {0x093C, 0x093C}, {0x0E31, 0x0E31}, {0x0E34, 0x0E3A}, {0x0E47, 0x0E4E}, {0x1AB0, 0x1AFF},  {0x1DC0, 0x1DFF},
    {0x200B, 0x200F}, {0x20D0, 0x20FF}, {0xFE00, 0xFE0F}, {0xFE20, 0xFE2F}, {0xE0100, 0xE01EF}};
/* Characters of two columns: Chinese, Japanese, Korean, full-width forms, emoji. */
static const span wide[] = {{0x1100, 0x115F},   {0x2E80, 0x303E},   {0x3041, 0x33FF},  {0x3400, 0x4DBF},
                            {0x4E00, 0xA4CF},   {0xA960, 0xA97F},   {0xAC00, 0xD7A3},  {0xF900, 0xFAFF},
                            {0xFE30, 0xFE6F},   {0xFF00, 0xFF60},   {0xFFE0, 0xFFE6},  {0x1F300, 0x1F64F},
                            {0x1F680, 0x1F6FF}, {0x1F900, 0x1F9FF}, {0x20000, 0x3FFFD}};

static bool is_in(const span *spans, size_t count, uint32_t code)
{
    for (size_t i = 0; i < count; i++)
        if (code >= spans[i].first && code <= spans[i].last)
            return true;
    return false;
}

/* The character at `text`, which recollect_escape has written and which therefore is whole; how many bytes it has. */
static size_t decode(const char *text, uint32_t *code)
{
    const unsigned char *byte = (const unsigned char *)text;
    size_t length = byte[0] < 0x80 ? 1 : byte[0] < 0xE0 ? 2 : byte[0] < 0xF0 ? 3 : 4;
    *code = length == 1 ? byte[0] : byte[0] & (0xFFu >> (length + 1));
    for (size_t i = 1; i < length && byte[i] != '\0'; i++)
        *code = *code << 6 | (byte[i] & 0x3Fu);
    return length <= strlen(text) ? length : strlen(text);
}

static int width_of(uint32_t code)
{
    if (is_in(without_width, sizeof without_width / sizeof *without_width, code))
        return 0;
    return is_in(wide, sizeof wide / sizeof *wide, code) ? 2 : 1;
}

int rc_columns(const char *text)
{
    int columns = 0;
    uint32_t code;
    for (; *text != '\0'; columns += width_of(code))
        text += decode(text, &code);
    return columns;
}

void rc_cut_columns(char *text, int columns)
{
    static const char dots[] = "...";
    int room = columns - (int)strlen(dots), used = 0;
    uint32_t code;
    if (rc_columns(text) <= columns)
        return;
    for (;;) {
        size_t length = decode(text, &code);
        if (used + width_of(code) > room)
            break;
        used += width_of(code);
        text += length;
    }
    /* What is cut has as many bytes as columns, or more, so the dots fit into its place. */
    snprintf(text, strlen(text) + 1, "%s", columns >= (int)strlen(dots) ? dots : "");
}
