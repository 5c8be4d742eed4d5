/* Turns the public header into a manual page: comments become text, declarations stay as they are. The header has two
 * kinds of lines: comments that begin in the first column, titles of sections among them ("---- text ----"), and
 * code. */
#include "cli/manual_library.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/roff.h"

/* What the lines before belong to; NOTHING: a paragraph has ended. */
typedef enum part { TITLE, NOTHING, TEXT, ITEM, CODE } part;

/* Ends what is open, so that `next` can begin. */
static void turn(part *open, part next)
{
    if (*open == next)
        return;
    if (*open == CODE)
        rc_print_own(".fi");
    if (*open != TITLE && (next == TEXT || next == CODE))
        rc_print_own(".PP");
    if (next == CODE)
        rc_print_own(".nf");
    if (*open != TITLE || next != NOTHING)
        *open = next;
}

static void print_code(part *open, const char *line)
{
    static const char export[] = "RECOLLECT_API ";
    size_t prefix = strlen(export);
    turn(open, CODE);
    rc_roff_line(strncmp(line, export, prefix) == 0 ? line + prefix : line);
}

static bool is_title(const char *line)
{
    return strncmp(line, "/* ---- ", strlen("/* ---- ")) == 0;
}

static void print_title(part *open, const char *line)
{
    char title[128];
    const char *start = line + strlen("/* ---- "), *end = strstr(start, " --");
    turn(open, TITLE);
    snprintf(title, sizeof title, "%.*s", end != NULL ? (int)(end - start) : (int)strlen(start), start);
    for (char *p = title; *p != '\0'; p++)
        *p = (char)toupper((unsigned char)*p);
    rc_roff_macro(".SH", title);
}

/* "name   what it is" of a list inside a comment: the length of the name; 0: it is another line. */
static size_t item_name(const char *text)
{
    size_t length = 0;
    while (isalnum((unsigned char)text[length]) || text[length] == '_')
        length++;
    size_t blanks = strspn(text + length, " ");
    return length > 0 && blanks > 1 && text[length + blanks] != '\0' ? length : 0;
}

/* A line of a comment without its marks. */
static void print_comment(part *open, const char *text)
{
    enum { CONTINUED = 10 }; /* columns that the second line of an item is behind */
    size_t indent = strspn(text, " "), name = indent > 2 ? item_name(text + indent) : 0;
    if (text[indent] == '\0') {
        turn(open, NOTHING);
    } else if (*open == ITEM && indent > CONTINUED) {
        rc_roff_line(text + indent);
    } else if (name > 0 && indent < CONTINUED) {
        char item[64];
        snprintf(item, sizeof item, "%.*s", (int)name, text + indent);
        turn(open, ITEM);
        rc_print_own(".TP 12");
        rc_roff_macro(".B", item);
        rc_roff_line(text + indent + name + strspn(text + indent + name, " "));
    } else if (indent > 2) {
        print_code(open, text);
    } else {
        turn(open, TEXT);
        rc_roff_line(text + indent);
    }
}

/* The text of a line of a comment, without what begins and ends it, in `text`. Returns whether the comment goes on. */
static bool strip_comment(const char *line, char *text, size_t size)
{
    const char *end = strstr(line, "*/");
    line += strspn(line, "/");
    line += strncmp(line, " *", 2) == 0 && line[2] != '/' ? 2 : *line == '*' ? 1 : 0;
    snprintf(text, size, "%.*s", end == NULL ? (int)strlen(line) : end > line ? (int)(end - line) : 0, line);
    for (size_t used = strlen(text); used > 0 && text[used - 1] == ' '; used--)
        text[used - 1] = '\0';
    return end == NULL;
}

void rc_print_library_manual(void)
{
    static const char conditional[] = "#ifdef __cplusplus";
    char text[256];
    part open = TITLE;
    bool comment = false, shown = true; /* what stands between the first comment and the declarations is not */
    int conditionals = 0;
    rc_roff_begin("recollect", "3", "the library: learning new classes without keeping the old images");
    rc_print_own(".SH SYNOPSIS\n.nf\n.B #include <recollect/recollect.h>\n.fi\n.PP");
    rc_roff_text("Link with $(pkg-config --libs recollect), or from CMake with recollect::recollect.");
    rc_print_own(".SH DESCRIPTION");
    for (int i = 0; rc_header_lines[i] != NULL; i++) {
        const char *line = rc_header_lines[i];
        conditionals += strcmp(line, conditional) == 0;
        if (!comment && strncmp(line, "#ifndef", strlen("#ifndef")) == 0)
            shown = false;
        if (conditionals == 1 && strcmp(line, "#endif") == 0) {
            shown = true;
            conditionals++;
            continue;
        }
        if (conditionals > 2)
            break;
        if (!shown)
            continue;
        if (!comment && is_title(line)) {
            print_title(&open, line);
        } else if (comment || strncmp(line, "/*", 2) == 0) {
            comment = strip_comment(line, text, sizeof text);
            if (text[0] != '\0' || comment)
                print_comment(&open, text);
        } else if (line[0] == '\0') {
            turn(&open, NOTHING);
        } else {
            print_code(&open, line);
        }
    }
    turn(&open, NOTHING);
    rc_print_own(".SH SEE ALSO\n.BR recollect (1),");
    rc_roff_text("the program; share/doc/recollect/examples, whole programs that call every function");
}
