#include "cli/roff.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

enum { LINE = 1024, MOST = 4 }; /* room for a line; for what becomes of a character */

/* What becomes of a character at the end of `line`, which has `used` bytes. */
static size_t put(char *line, size_t used, char c)
{
    const char *escape = NULL;
    if (c == '\\' || c == '-')
        escape = c == '-' ? "\\-" : "\\e";
    else if (used == 0 && (c == '.' || c == '\''))
        escape = "\\&";
    if (escape != NULL) {
        memcpy(line + used, escape, 2);
        used += 2;
    }
    if (escape == NULL || escape[1] == '&')
        line[used++] = c;
    line[used] = '\0';
    return used;
}

/* A long line is cut. */
static void print_line(const char *text, size_t length)
{
    char line[LINE] = "";
    size_t used = 0;
    for (size_t i = 0; i < length && used + MOST < sizeof line; i++)
        used = put(line, used, text[i]);
    rc_print_own("%s", line);
}

void rc_roff_line(const char *text)
{
    print_line(text, strlen(text));
}

void rc_roff_text(const char *text)
{
    for (size_t length = strcspn(text, "\n"); text[length] != '\0'; length = strcspn(text, "\n")) {
        print_line(text, length);
        text += length + 1;
    }
    rc_roff_line(text);
}

void rc_roff_code(const char *text)
{
    rc_print_own(".PP\n.nf");
    rc_roff_text(text);
    rc_print_own(".fi");
}

void rc_roff_macro(const char *macro, const char *argument)
{
    char line[LINE];
    size_t used = 0;
    line[0] = '\0';
    for (const char *p = argument; *p != '\0' && used + 2 * MOST < sizeof line; p++) {
        used = put(line, used, *p);
        if (*p == '|') /* a list of choices may be longer than a line */
            used += (size_t)snprintf(line + used, sizeof line - used, "\\:");
    }
    rc_print_own("%s \"%s\"", macro, line);
}

void rc_roff_begin(const char *name, const char *section, const char *about)
{
    char title[64];
    size_t length = strlen(about);
    snprintf(title, sizeof title, "%s", name);
    for (char *p = title; *p != '\0'; p++)
        *p = (char)toupper((unsigned char)*p);
    rc_print_own(".TH %s %s \"\" \"recollect %s\" \"%s\"", title, section, recollect_version(),
                 section[0] == '1' ? "User Commands" : "Library Functions");
    rc_print_own(".ad l\n.nh\n.SH NAME"); /* no stretched lines and no hyphens, which are no part of a name */
    /* As manual pages have it: no capital letter, no stop. */
    length -= length > 0 && about[length - 1] == '.';
    rc_print_own("%s \\- %c%.*s", name, tolower((unsigned char)about[0]), (int)length - 1, about + 1);
}
