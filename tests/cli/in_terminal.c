/* Runs a command in a pseudo-terminal of that many columns, and copies to stdout what it writes there, as it is.
 *
 * usage: in_terminal COLUMNS[,COLUMNS...] COMMAND [ARGUMENT]...
 *
 * With several numbers of columns the window is resized whenever the command has written a live line, which ends in
 * ESC [ K: to the next number, then to the first again, and so on. A line "@COLUMNS" is written before what follows a
 * change. Exits as the command does. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_WIDTHS = 8, WRONG = 125 };

static void resize(int terminal, int columns)
{
    struct winsize window = {.ws_row = 24, .ws_col = (unsigned short)columns};
    if (ioctl(terminal, TIOCSWINSZ, &window) != 0) {
        perror("in_terminal: TIOCSWINSZ");
        exit(WRONG);
    }
}

/* The child: the terminal is its own, and its stdin, stdout and stderr. */
static void become(int master, char **command)
{
    int terminal = open(ptsname(master), O_RDWR); /* which becomes the controlling one of a new session */
    if (terminal < 0 || dup2(terminal, 0) < 0 || dup2(terminal, 1) < 0 || dup2(terminal, 2) < 0)
        _exit(WRONG);
    close(master);
    execvp(command[0], command);
    perror(command[0]);
    _exit(WRONG);
}

int main(int argc, char **argv)
{
    int widths[MOST_WIDTHS], count = 0, now = 0, status;
    for (char *p = argc > 2 ? argv[1] : ""; *p != '\0' && count < MOST_WIDTHS; p += *p == ',')
        widths[count++] = (int)strtol(p, &p, 10);
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (count == 0 || master < 0 || grantpt(master) != 0 || unlockpt(master) != 0) {
        fprintf(stderr, "in_terminal: no terminal, or no command\n");
        return WRONG;
    }
    resize(master, widths[0]);
    pid_t child = fork();
    if (child == 0 && setsid() >= 0)
        become(master, argv + 2);
    char piece[4096];
    ssize_t length;
    while ((length = read(master, piece, sizeof piece)) > 0) {
        fwrite(piece, 1, (size_t)length, stdout);
        if (count > 1 && length >= 3 && memcmp(piece + length - 3, "\033[K", 3) == 0) {
            now = (now + 1) % count;
            resize(master, widths[now]);
            printf("\n@%d\n", widths[now]);
        }
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        return WRONG;
    return WIFEXITED(status) ? WEXITSTATUS(status) : WRONG;
}
