/* The program: finds the subcommand and hands the rest of the command line to it. */
#include <stdio.h>
#include <string.h>

#include "recollect/recollect.h"

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

static const char usage[] =
    "usage: recollect COMMAND [OPTION]...\n"
    "\n"
    "Teaches an image classifier new classes without keeping the old images.\n"
    "\n"
    "  --help     show this text\n"
    "  --version  show the version\n";

/* Output that did not reach its destination (a full disk, a closed pipe) is a failure like any other. */
static int print(const char *text)
{
    return fputs(text, stdout) < 0 || fflush(stdout) != 0 ? EXIT_FAILED : EXIT_DONE;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fputs(usage, stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) return print(usage);
    if (strcmp(argv[1], "--version") == 0) {
        return printf("recollect %s\n", recollect_version()) < 0 || fflush(stdout) != 0 ? EXIT_FAILED : EXIT_DONE;
    }
    fprintf(stderr, "recollect: unknown command '%s'; 'recollect --help' lists the commands\n", argv[1]);
    return EXIT_USAGE;
}
