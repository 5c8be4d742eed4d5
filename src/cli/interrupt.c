/* Signals: the first one asks, the second one ends the program. */
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

#include "cli/cli.h"

static atomic_int interrupted; /* threads look at it: lock-free, so that a handler may write it */

static void note_signal(int number)
{
    (void)number;
    interrupted = 1;
}

void rc_catch_interrupts(void)
{
    struct sigaction once = {.sa_handler = note_signal, .sa_flags = (int)SA_RESETHAND};
    sigemptyset(&once.sa_mask);
    sigaction(SIGINT, &once, NULL);
    sigaction(SIGTERM, &once, NULL);
}

bool rc_interrupted(void *unused)
{
    (void)unused;
    return interrupted != 0;
}
