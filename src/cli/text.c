/* Where text goes. */
#include <stdarg.h>
#include <stdio.h>
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

void rc_show_progress(void *unused, const char *text)
{
    (void)unused;
    if (!isatty(STDERR_FILENO))
        return;
    fprintf(stderr, "\r%.78s\033[K", text);
    fflush(stderr);
    live = true;
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

int rc_finish_output(int code)
{
    clear_live_line();
    bool lost = fflush(stdout) != 0 || ferror(stdout);
    if (lost && code == RC_EXIT_DONE)
        rc_complain("results could not be written");
    return lost && code == RC_EXIT_DONE ? RC_EXIT_FAILED : code;
}
