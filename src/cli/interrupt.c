/* Signals: the first one asks, the second one ends the program. */
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

#include "cli/cli.h"

static atomic_int interrupted; /* threads look at it: lock-free, so that a handler may write it */

static void handle_both(void (*handler)(int number))
{
    struct sigaction action = {.sa_handler = handler};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

static void note_signal(int number)
{
    (void)number;
    interrupted = 1;
    handle_both(SIG_DFL); /* whichever comes second */
}

void rc_catch_interrupts(void)
{
    handle_both(note_signal);
}

void rc_outlive_readers(void)
{
    signal(SIGPIPE, SIG_IGN);
}

bool rc_interrupted(void *unused)
{
    (void)unused;
    return interrupted != 0;
}
