/* Signals: the first one asks, the second one ends the program if it is SIGINT or SIGTERM. */
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

#include "cli/cli.h"

static atomic_int interrupted; /* threads look at it: lock-free, so that a handler may write it */

/* Signals that ask the program to end: a terminal that closes (HUP), batch systems (USR1, USR2, TERM), a limit on the
 * processor's time (XCPU, every second), a timer (ALRM). */
static const int asking[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU, SIGALRM};
enum { ASKING = sizeof asking / sizeof *asking, INSISTING = 2 }; /* the first two, sent again, mean now */

static void handle(int number, void (*handler)(int number))
{
    struct sigaction action = {.sa_handler = handler};
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, NULL);
}

static void note_signal(int number)
{
    (void)number;
    interrupted = 1;
    for (int i = 0; i < INSISTING; i++)
        handle(asking[i], SIG_DFL); /* whichever comes second */
}

void rc_catch_interrupts(void)
{
    for (int i = 0; i < ASKING; i++) {
        struct sigaction before;
        bool ignored = sigaction(asking[i], NULL, &before) == 0 && before.sa_handler == SIG_IGN;
        if (i < INSISTING || !ignored) /* as under nohup */
            handle(asking[i], note_signal);
    }
}

void rc_outlive_limits(void)
{
    signal(SIGXFSZ, SIG_IGN);
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
