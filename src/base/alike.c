#include "base/alike.h"

#include <stddef.h>

#include "base/ascii.h"
#include "base/utf8.h"

/* Takes a character as people hear it; 0 at the end. A byte that is not UTF-8 stands for itself, beyond all others. */
static unsigned next(const char **text)
{
    enum { LONGEST = 4, BEYOND = 0x110000 }; /* nobody reads behind the zero: it is no part of a longer character */
    unsigned code = 0;
    while (code == 0 && **text != '\0') {
        size_t length = rc_utf8_decode(*text, LONGEST, &code);
        code = length > 0 ? rc_utf8_plain(code) : BEYOND + code;
        *text += length > 0 ? length : 1;
    }
    if (code == '_' || code == '-')
        return ' ';
    return code < 0x80 ? (unsigned char)rc_ascii_lower((char)code) : code;
}

static void skip_blanks(const char **text)
{
    const char *behind = *text;
    while (next(&behind) == ' ')
        *text = behind;
}

static bool is_over(const char *text)
{
    skip_blanks(&text);
    return next(&text) == 0;
}

int rc_alike_compare(const char *a, const char *b)
{
    skip_blanks(&a);
    skip_blanks(&b);
    for (;;) {
        const char *rest_a = a, *rest_b = b;
        unsigned first = next(&a), second = next(&b);
        if (first == second && first != 0)
            continue;
        bool over_a = is_over(rest_a), over_b = is_over(rest_b);
        if (over_a || over_b)
            return over_b - over_a;
        return first < second ? -1 : 1;
    }
}

bool rc_alike(const char *a, const char *b)
{
    const char *rest = a;
    skip_blanks(&rest);
    (void)next(&rest);
    return !is_over(rest) && rc_alike_compare(a, b) == 0;
}
