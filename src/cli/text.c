/* Where text goes. */
#include <stdarg.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"

static bool live; /* a live line is on the terminal */

static void clear_live_line(void)
{
    if (live)
        fputs("\r\033[K", stderr);
    live = false;
}

void rc_print(const char *format, ...)
{
    clear_live_line();
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stdout, format, arguments);
    va_end(arguments);
    fputc('\n', stdout);
    fflush(stdout);
}

void rc_print_line(void *unused, const char *text)
{
    (void)unused;
    rc_print("%s", text);
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
    fprintf(stderr, "\r%.*s\033[K", line_width(), text);
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
    clear_live_line();
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
}

void rc_note_log(void *unused, int level, const char *text)
{
    (void)unused;
    (void)level;
    rc_note("%s", text);
}

static void complain(const char *format, va_list arguments)
{
    clear_live_line();
    fputs("recollect: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
}

void rc_complain(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    complain(format, arguments);
    va_end(arguments);
}

int rc_wrong_usage(const rc_command *command, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    complain(format, arguments);
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
    bool lost = fflush(stdout) != 0 || ferror(stdout);
    if (lost && code == RC_EXIT_DONE)
        rc_complain("results could not be written");
    return lost && code == RC_EXIT_DONE ? RC_EXIT_FAILED : code;
}
