/* Where text goes. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

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

/* A line, with what terminals would obey escaped: names of files and the like come from outside. In few pieces, because
 * stderr writes each at once. */
static void put_shown(FILE *stream, const char *prefix, const char *text)
{
    char piece[4096];
    size_t used = (size_t)snprintf(piece, sizeof piece, "%s", prefix);
    do {
        text += recollect_escape(text, piece + used, sizeof piece - 1 - used); /* leaves room for the end */
        used += strlen(piece + used);
        if (*text == '\0')
            piece[used++] = '\n';
        fwrite(piece, 1, used, stream);
        used = 0;
    } while (*text != '\0');
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
    put_shown(stream, prefix, length < 0 ? "" : text != NULL ? text : room);
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
    const char *end;
    char *line = NULL;
    while ((end = strchr(text, '\n')) != NULL && (line = strndup(text, (size_t)(end - text))) != NULL) {
        put_shown(stdout, "", line);
        free(line);
        text = end + 1;
    }
    lost = lost || end != NULL;
    put_shown(stdout, "", text);
    fflush(stdout);
}

int rc_terminal_columns(int file, int usual)
{
    struct winsize window;
    return ioctl(file, TIOCGWINSZ, &window) == 0 && window.ws_col > 0 ? window.ws_col : usual;
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

void rc_put_live(const char *text)
{
    fprintf(stderr, "\r%s\033[K", text);
    fflush(stderr);
    live = true;
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
    char words[RC_WORDS_SIZE];
    (void)unused;
    (void)level;
    rc_note("%s", rc_own_words(text, words, sizeof words));
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

int rc_failed(const char *command, recollect_status status)
{
    char words[RC_WORDS_SIZE];
    rc_own_words(recollect_last_message(), words, sizeof words);
    rc_complain("%s%s%s", command != NULL ? command : "", command != NULL ? ": " : "", words);
    return status == RECOLLECT_CANCELLED ? RC_EXIT_INTERRUPTED : RC_EXIT_FAILED;
}

int rc_wrong_settings(const rc_command *command, recollect_status status)
{
    char words[RC_WORDS_SIZE];
    if (status == RECOLLECT_OUT_OF_MEMORY || status == RECOLLECT_IO) /* a file of settings that cannot be read */
        return rc_failed(command->name, status);
    return rc_wrong_usage(command, "%s", rc_own_words(recollect_last_message(), words, sizeof words));
}

const char *rc_column(const char *text, int width, char *out, size_t size)
{
    recollect_escape(text, out, size);
    size_t used = strlen(out);
    for (width -= rc_columns(out); width > 0 && used + 1 < size; width--)
        out[used++] = ' ';
    out[used] = '\0';
    return out;
}

int rc_finish_output(int code)
{
    clear_live_line();
    lost = fflush(stdout) != 0 || ferror(stdout) || lost;
    bool done = code == RC_EXIT_DONE || code == RC_EXIT_DOUBTFUL;
    if (lost)
        rc_complain("results could not be written");
    return lost && done ? RC_EXIT_FAILED : code;
}
