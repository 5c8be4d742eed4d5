/* Where text goes. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/utf8.h"
#include "cli/cli.h"

static bool live; /* a live line is on the terminal */

static void clear_live_line(void)
{
    if (live)
        fputs("\r\033[K", stderr);
    live = false;
}

/* Results that could not be formatted for want of memory; rc_finish_output() says so. */
static bool lost;

/* A line, with what terminals would obey escaped: names of files and the like come from outside. Line breaks stay where
 * `breaks` says so. In few pieces, because stderr writes each at once. */
static void put_shown(FILE *stream, const char *prefix, const char *text, bool breaks)
{
    char piece[4096];
    size_t used = (size_t)snprintf(piece, sizeof piece, "%s", prefix);
    for (size_t left = strlen(text), taken; left > 0; text += taken, left -= taken) {
        if (used + RC_UTF8_SHOWN >= sizeof piece) {
            fwrite(piece, 1, used, stream);
            used = 0;
        }
        size_t length = rc_utf8_show(text, left, piece + used, &taken);
        if (breaks && text[0] == '\n')
            piece[used++] = '\n';
        else
            used += length;
    }
    piece[used++] = '\n';
    fwrite(piece, 1, used, stream);
}

static void put_line(FILE *stream, const char *prefix, const char *format, va_list arguments)
{
    char room[4096], *text = room;
    va_list again;
    va_copy(again, arguments);
    int length = vsnprintf(room, sizeof room, format, arguments);
    if (length >= (int)sizeof room) {
        text = malloc((size_t)length + 1);
        if (text != NULL)
            vsnprintf(text, (size_t)length + 1, format, again);
    }
    va_end(again);
    clear_live_line();
    lost = lost || (stream == stdout && (length < 0 || text == NULL));
    put_shown(stream, prefix, length < 0 ? "" : text != NULL ? text : room, false);
    if (text != room)
        free(text);
}

void rc_print(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    put_line(stdout, "", format, arguments);
    va_end(arguments);
    fflush(stdout);
}

void rc_print_line(void *unused, const char *text)
{
    (void)unused;
    rc_print("%s", text);
}

void rc_print_json(void *unused, const char *text)
{
    (void)unused;
    clear_live_line();
    put_shown(stdout, "", text, true);
    fflush(stdout);
}

void rc_print_own(const char *format, ...)
{
    clear_live_line();
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stdout, format, arguments);
    va_end(arguments);
    fputc('\n', stdout);
    fflush(stdout);
}

/* Characters that fit into a line of the terminal without wrapping. */
static int line_width(void)
{
    struct winsize window;
    int columns = ioctl(STDERR_FILENO, TIOCGWINSZ, &window) == 0 ? window.ws_col : 0;
    return columns > 20 ? columns - 1 : 78;
}

void rc_show_progress(void *unused, const char *text)
{
    (void)unused;
    if (!isatty(STDERR_FILENO))
        return;
    char shown[512];
    size_t room = (size_t)line_width() + 1;
    rc_utf8_escape(text, shown, room < sizeof shown ? room : sizeof shown);
    fprintf(stderr, "\r%s\033[K", shown);
    fflush(stderr);
    live = true;
}

void rc_tell_progress(void *unused, const char *text, bool milestone)
{
    enum { SECONDS_BETWEEN_LINES = 10 };
    static time_t last;
    if (isatty(STDERR_FILENO)) {
        rc_show_progress(unused, text);
        return;
    }
    time_t now = time(NULL);
    if (last == 0)
        last = now;
    if (!milestone && now - last < SECONDS_BETWEEN_LINES)
        return;
    last = now;
    rc_note("%s", text);
}

void rc_note(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    put_line(stderr, "", format, arguments);
    va_end(arguments);
}

void rc_note_log(void *unused, int level, const char *text)
{
    (void)unused;
    (void)level;
    rc_note("%s", text);
}

static const char complaint[] = "recollect: ";

void rc_complain(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    put_line(stderr, complaint, format, arguments);
    va_end(arguments);
}

int rc_wrong_usage(const rc_command *command, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    put_line(stderr, complaint, format, arguments);
    va_end(arguments);
    fprintf(stderr, "'recollect %s%s--help' shows the usage\n", command ? command->name : "", command ? " " : "");
    return RC_EXIT_USAGE;
}

int rc_wrong_settings(const rc_command *command, recollect_status status, const char *message)
{
    if (status != RECOLLECT_OUT_OF_MEMORY)
        return rc_wrong_usage(command, "%s", message);
    rc_complain("%s: %s", command->name, message);
    return RC_EXIT_FAILED;
}

int rc_finish_output(int code)
{
    clear_live_line();
    lost = fflush(stdout) != 0 || ferror(stdout) || lost;
    if (lost && code == RC_EXIT_DONE)
        rc_complain("results could not be written");
    return lost && code == RC_EXIT_DONE ? RC_EXIT_FAILED : code;
}
