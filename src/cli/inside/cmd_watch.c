/* recollect watch: a run in the terminal, while it goes. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "cli/inside/watch_view.h"

enum { ONCE, OPTIONS };

static const rc_option options[OPTIONS] = {
    [ONCE] = {"once", RC_OPTION_FLAG, NULL, NULL, "print what there is as plain text, and leave", 0, 0},
};

/* ---- the terminal ------------------------------------------------------------------------------------------------ */

/* Is stdout a terminal that can be drawn on? */
static bool is_screen(void)
{
    const char *kind = getenv("TERM");
    return isatty(STDOUT_FILENO) && kind != NULL && kind[0] != '\0' && strcmp(kind, "dumb") != 0;
}

/* Does it take UTF-8? As the variables of the locale say, the first of them that is set. */
static bool takes_unicode(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        if (value != NULL && value[0] != '\0')
            return strstr(value, "UTF-8") != NULL || strstr(value, "utf8") != NULL || strstr(value, "UTF8") != NULL;
    }
    return false;
}

static void measure_screen(rc_view *view)
{
    struct winsize window;
    bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0;
    view->columns = known && window.ws_col > 0 ? window.ws_col : 80;
    view->rows = known && window.ws_row > 0 ? window.ws_row : 24;
}

/* Keys come at once and are not shown. Ctrl-C is a signal as always; Ctrl-Z is nothing, because it would leave a shell
 * with a screen like this. */
static bool take_keys(struct termios *before)
{
    if (tcgetattr(STDIN_FILENO, before) != 0)
        return false;
    struct termios now = *before;
    now.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    now.c_cc[VMIN] = 1;
    now.c_cc[VTIME] = 0;
    now.c_cc[VSUSP] = _POSIX_VDISABLE;
    return tcsetattr(STDIN_FILENO, TCSANOW, &now) == 0;
}

/* ---- frames ------------------------------------------------------------------------------------------------------ */

/* Lines of a screen, of which the last has no line break, so that nothing scrolls. */
typedef struct screen {
    int shown, rows;
} screen;

static void draw_line(void *user, const char *text)
{
    screen *s = user;
    if (s->shown >= s->rows)
        return;
    printf("%s%s\033[K", s->shown > 0 ? "\r\n" : "", text);
    s->shown++;
}

static void draw(rc_view *view)
{
    enum { FOOT = 1 };
    char foot[] = "q leaves, up and down choose a cell";
    measure_screen(view);
    screen s = {.rows = view->rows > FOOT ? view->rows - FOOT : view->rows};
    view->line = draw_line;
    view->user = &s;
    fputs("\033[H", stdout);
    rc_view_show(view);
    fputs("\033[J", stdout);
    s.rows = view->rows;
    rc_cut_columns(foot, view->columns);
    draw_line(&s, foot);
    fflush(stdout);
}

typedef enum wish { NOTHING, LEAVE, UP, DOWN } wish;

static wish wish_of(const char *keys, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        bool arrow = i + 2 < count && keys[i] == '\033' && (keys[i + 1] == '[' || keys[i + 1] == 'O');
        char key = arrow ? keys[i + 2] : keys[i];
        if (!arrow && (key == 'q' || key == 'Q' || key == 4)) /* 4: Ctrl-D */
            return LEAVE;
        if (arrow ? key == 'A' : key == 'k')
            return UP;
        if (arrow ? key == 'B' : key == 'j')
            return DOWN;
        i += arrow ? 2 : 0;
    }
    return NOTHING;
}

/* Waits for a key, or for a second. *keyboard: false from the end of stdin on. */
static wish wait_for_key(bool *keyboard)
{
    char keys[64];
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    if (poll(&in, *keyboard ? 1 : 0, 1000) <= 0 || !*keyboard)
        return NOTHING;
    ssize_t count = read(STDIN_FILENO, keys, sizeof keys);
    if (count < 0)
        *keyboard = errno == EINTR || errno == EAGAIN;
    else if (count == 0)
        *keyboard = false;
    return count > 0 ? wish_of(keys, (size_t)count) : NOTHING;
}

/* The cell of this folder, wherever others that have begun or gone since have moved it; -1: there is none. */
static int find_cell(const rc_overview *run, const char *folder)
{
    int i = run->cells - 1;
    while (i >= 0 && strcmp(run->cell[i]->folder, folder) != 0)
        i--;
    return i;
}

static rc_status follow(rc_overview *run)
{
    rc_view view = {.run = run, .braille = takes_unicode()};
    struct termios before;
    bool keyboard = isatty(STDIN_FILENO), raw = keyboard && take_keys(&before);
    char chosen[RC_PATH_SIZE] = ""; /* folder of the cell that keys have chosen */
    rc_status status;
    fputs("\033[?1049h\033[?25l", stdout); /* a screen of its own, without a cursor */
    while ((status = rc_overview_update(run)) == RC_OK && !rc_interrupted(NULL) && !ferror(stdout)) {
        view.now = rc_time();
        view.selected = find_cell(run, chosen);
        if (view.selected < 0)
            view.selected = rc_view_choose(run, view.now);
        draw(&view);
        wish w = wait_for_key(&keyboard);
        if (w == LEAVE)
            break;
        int to = view.selected + (w == DOWN) - (w == UP);
        if (w != NOTHING && run->cells > 0) /* before the first cell there is none to choose */
            snprintf(chosen, sizeof chosen, "%s", run->cell[to >= 0 && to < run->cells ? to : view.selected]->folder);
    }
    fputs("\033[?25h\033[?1049l", stdout);
    fflush(stdout);
    if (raw)
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &before);
    return status;
}

static void print_line(void *unused, const char *text)
{
    (void)unused;
    rc_print_own("%s", text);
}

static rc_status print_once(rc_overview *run)
{
    enum { PLAIN_COLUMNS = 80 };
    RC_TRY(rc_overview_update(run));
    if (run->problem[0] != '\0')
        return rc_fail(RC_IO, "%s", run->problem);
    if (run->cells == 0)
        return rc_fail(
            RC_INVALID_ARGUMENT,
            "there is no run in '%s' whose first cell has begun: expected a folder that 'recollect run' works in",
            run->folder);
    double now = rc_time();
    rc_view view = {
        .run = run, .columns = PLAIN_COLUMNS, .now = now, .selected = rc_view_choose(run, now), .line = print_line};
    rc_view_show(&view);
    return RC_OK;
}

static int run(const rc_option_value *value, int count, char **arguments)
{
    rc_overview overview;
    if (count != 1)
        return rc_wrong_usage(&rc_command_watch, count == 0 ? "which run? Name the folder that 'recollect run' works in"
                                                            : "more than one folder");
    rc_status status = rc_overview_open(&overview, arguments[0]);
    bool live = !value[ONCE].given && is_screen();
    if (live)
        rc_catch_interrupts();
    if (status == RC_OK)
        status = live ? follow(&overview) : print_once(&overview);
    rc_overview_close(&overview);
    if (status != RC_OK)
        return rc_failed(rc_command_watch.name, status);
    return rc_interrupted(NULL) ? RC_EXIT_INTERRUPTED : RC_EXIT_DONE;
}

const rc_command rc_command_watch = {
    .name = "watch",
    .summary = "Shows a run in the terminal while it goes: cells, accuracies, losses, time left.",
    .arguments = "RUN",
    .details = "RUN is a folder that 'recollect run' works in or has worked in, or a folder of several. Only its logs\n"
               "are read, so the run may go on on another machine. Keys: q leaves, up and down choose the cell\n"
               "whose losses are shown. Where stdout is no terminal, it prints the same as plain text, once.",
    .examples = "  recollect watch grid\n"
                "  recollect watch grid --once",
    .option = options,
    .options = OPTIONS,
    .run = run,
};
