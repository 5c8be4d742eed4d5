#include "report/text.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"

void rc_text_bytes(rc_text *text, const void *bytes, size_t count)
{
    size_t least, room;
    if (text->status != RC_OK)
        return;
    bool fits = rc_size_add(text->used, count, &least) && rc_size_add(least, 1, &least) && rc_size_mul(least, 2, &room);
    if (!fits || least > text->room) {
        char *grown = fits ? rc_alloc(NULL, room) : NULL;
        if (grown == NULL) {
            text->status = RC_OUT_OF_MEMORY;
            return;
        }
        if (text->used > 0)
            memcpy(grown, text->bytes, text->used);
        rc_free(NULL, text->bytes);
        text->bytes = grown;
        text->room = room;
    }
    if (count > 0)
        memcpy(text->bytes + text->used, bytes, count);
    text->used += count;
    text->bytes[text->used] = '\0';
}

void rc_text_add(rc_text *text, const char *own)
{
    rc_text_bytes(text, own, strlen(own));
}

void rc_text_format(rc_text *text, const char *format, ...)
{
    char piece[1024];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(piece, sizeof piece, format, arguments);
    va_end(arguments);
    if (text->status == RC_OK && (length < 0 || (size_t)length >= sizeof piece))
        text->status = rc_fail(RC_INTERNAL, "a piece of a report has %d bytes, expected fewer than %zu", length,
                               sizeof piece);
    rc_text_bytes(text, piece, text->status == RC_OK ? (size_t)length : 0);
}

void rc_text_free(rc_text *text)
{
    rc_free(NULL, text->bytes);
    *text = (rc_text){0};
}

/* ---- text from outside ------------------------------------------------------------------------------------------- */

/* What stands for a character in one of the formats; NULL: the character itself. */
typedef const char *spelling(char c);

static const char *html_spelling(char c)
{
    switch (c) {
    case '&': return "&amp;";
    case '<': return "&lt;";
    case '>': return "&gt;";
    case '"': return "&quot;";
    case '\'': return "&#39;";
    default: return NULL;
    }
}

static const char *markdown_spelling(char c)
{
    switch (c) {
    case '&': return "&amp;";
    case '<': return "&lt;";
    case '>': return "&gt;";
    case '\\': return "\\\\";
    case '|': return "\\|";
    case '`': return "\\`";
    case '*': return "\\*";
    case '_': return "\\_";
    case '[': return "\\[";
    case ']': return "\\]";
    case '#': return "\\#";
    case '~': return "\\~";
    default: return NULL;
    }
}

/* At the begin of a row a bare '*' or '[' would belong to the line break before it. \textquotedbl is T1's alone, and a
 * bare '|' is a dash in OT1. */
static const char *latex_spelling(char c)
{
    switch (c) {
    case '\\': return "\\textbackslash{}";
    case '{': return "\\{";
    case '}': return "\\}";
    case '$': return "\\$";
    case '&': return "\\&";
    case '#': return "\\#";
    case '%': return "\\%";
    case '_': return "\\_";
    case '^': return "\\textasciicircum{}";
    case '~': return "\\textasciitilde{}";
    case '<': return "\\textless{}";
    case '>': return "\\textgreater{}";
    case '"': return "\\char34{}";
    case '|': return "\\textbar{}";
    case '*': return "{*}";
    case '[': return "{[}";
    default: return NULL;
    }
}

static const char *csv_spelling(char c)
{
    return c == '"' ? "\"\"" : NULL;
}

static void add_spelled(rc_text *text, const char *shown, size_t size, spelling *spell)
{
    for (size_t i = 0; i < size; i++) {
        const char *other = spell(shown[i]);
        if (other != NULL)
            rc_text_add(text, other);
        else
            rc_text_bytes(text, &shown[i], 1);
    }
}

static void add_foreign(rc_text *text, const char *foreign, int most, spelling *spell)
{
    size_t left = strlen(foreign), taken;
    char shown[RC_UTF8_SHOWN];
    for (int i = 0; left > 0; i++, foreign += taken, left -= taken) {
        size_t size = rc_utf8_show(foreign, left, shown, &taken);
        if (i >= most - 1 && left > taken) { /* there are more characters than fit */
            rc_text_add(text, "\xE2\x80\xA6");
            return;
        }
        add_spelled(text, shown, size, spell);
    }
}

void rc_text_html(rc_text *text, const char *foreign, int most)
{
    add_foreign(text, foreign, most, html_spelling);
}

void rc_text_markdown(rc_text *text, const char *foreign)
{
    add_foreign(text, foreign, RC_TEXT_WHOLE, markdown_spelling);
}

void rc_text_latex(rc_text *text, const char *foreign)
{
    add_foreign(text, foreign, RC_TEXT_WHOLE, latex_spelling);
}

void rc_text_csv(rc_text *text, const char *foreign)
{
    rc_text_add(text, "\"");
    add_foreign(text, foreign, RC_TEXT_WHOLE, csv_spelling);
    rc_text_add(text, "\"");
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

void rc_text_duration(rc_text *text, double seconds)
{
    if (!(seconds >= 0 && seconds < 1e15)) {
        rc_text_add(text, "\xE2\x80\x93");
    } else if (seconds < 9.95) {
        rc_text_format(text, "%.1f s", seconds);
    } else {
        int64_t whole = (int64_t)(seconds + 0.5);
        if (whole >= 3600)
            rc_text_format(text, "%lld:%02d:%02d", (long long)(whole / 3600), (int)(whole / 60 % 60),
                           (int)(whole % 60));
        else
            rc_text_format(text, "%d:%02d", (int)(whole / 60), (int)(whole % 60));
    }
}

void rc_text_size(rc_text *text, double bytes)
{
    static const char *const unit[] = {"bytes", "kB", "MB", "GB", "TB"};
    int i = 0;
    while (i < 4 && bytes >= 999.5) {
        bytes /= 1000;
        i++;
    }
    rc_text_format(text, i == 0 ? "%.0f %s" : "%.3g %s", bytes, unit[i]);
}

void rc_text_base64(rc_text *text, const void *bytes, size_t count)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *from = bytes;
    for (size_t i = 0; i < count; i += 3) {
        size_t left = count - i;
        unsigned value = (unsigned)from[i] << 16 | (left > 1 ? (unsigned)from[i + 1] << 8 : 0) |
                         (left > 2 ? (unsigned)from[i + 2] : 0);
        char four[4] = {digits[value >> 18], digits[value >> 12 & 63], left > 1 ? digits[value >> 6 & 63] : '=',
                        left > 2 ? digits[value & 63] : '='};
        rc_text_bytes(text, four, 4);
    }
}
