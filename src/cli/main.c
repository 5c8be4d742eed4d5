/* The program: finds the command and hands the rest of the command line to it. */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "recollect/recollect.h"

static const rc_command *const commands[] = {
    &rc_command_learn,     &rc_command_predict, &rc_command_eval,       &rc_command_dream, &rc_command_info,
    &rc_command_import,    &rc_command_export,  &rc_command_run,        &rc_command_watch, &rc_command_report,
    &rc_command_reproduce, &rc_command_analyze, &rc_command_methods,    &rc_command_pack,  &rc_command_bench,
    &rc_command_selftest,  &rc_command_manual,  &rc_command_completion,
};

/* What the list of commands is divided into. */
static const struct {
    const rc_command *first;
    const char *title;
} groups[] = {
    {&rc_command_learn, "teach and use a model:"},
    {&rc_command_run, "repeat experiments:"},
    {&rc_command_bench, "look after the program:"},
};

const rc_command *rc_command_at(int index)
{
    return index < (int)(sizeof commands / sizeof *commands) ? commands[index] : NULL;
}

/* What may stand first on the command line. */
static const char *first_word(const void *context, int index)
{
    (void)context;
    static const char *const options[] = {"--help", "--version"};
    enum { COMMANDS = sizeof commands / sizeof *commands, OPTIONS = sizeof options / sizeof *options };
    if (index < COMMANDS)
        return commands[index]->name;
    return index < COMMANDS + OPTIONS ? options[index - COMMANDS] : NULL;
}

static void print_usage(void)
{
    enum { COLUMN = 13 };
    char left[80];
    rc_print_own("usage: recollect COMMAND [ARGUMENT]... [OPTION]...\n");
    rc_print_beside("", 0, "Teaches an image classifier new classes without keeping the old images.");
    const rc_command *command;
    for (int i = 0; (command = rc_command_at(i)) != NULL; i++) {
        for (size_t k = 0; k < sizeof groups / sizeof *groups; k++)
            if (groups[k].first == command)
                rc_print_own("\n%s", groups[k].title);
        snprintf(left, sizeof left, "  %s", command->name);
        rc_print_beside(left, COLUMN, command->summary);
    }
    rc_print_own("%s", "");
    rc_print_beside("  --help", COLUMN, "show this text; 'recollect COMMAND --help' explains a command");
    rc_print_beside("  --version", COLUMN, "show the version");
    rc_print_own("\nexamples:\n"
                 "  recollect learn animals/ --out animals.safetensors\n"
                 "  recollect learn animals.safetensors birds/ --out more.safetensors\n"
                 "  recollect predict more.safetensors photo.jpg\n");
    rc_print_beside(
        "", 0, "exit codes: 0 done, 1 failed, 2 wrong usage, 3 done, but with warnings (--strict), 130 interrupted");
}

/* Where stdin, stdout or stderr is closed, the next file that is opened gets its number, and what is printed goes into
 * that file. /dev/null takes the number instead, for the other direction, so that using it fails as before. */
static void keep_standard_numbers(void)
{
    for (int number = STDIN_FILENO; number <= STDERR_FILENO; number++)
        if (fcntl(number, F_GETFD) < 0 && errno == EBADF)
            (void)open("/dev/null", number == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

int main(int argc, char **argv)
{
    keep_standard_numbers();
    rc_outlive_limits();
    if (argc < 2)
        return rc_wrong_usage(NULL, "which command?");
    if (strcmp(argv[1], "help") == 0 && argc > 2) { /* "help learn" is "learn --help" */
        argv[1] = argv[2];
        argv[2] = "--help";
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
        print_usage();
        return rc_finish_output(RC_EXIT_DONE);
    }
    if (strcmp(argv[1], "--version") == 0) {
        rc_print_own("recollect %s", recollect_version());
        return rc_finish_output(RC_EXIT_DONE);
    }
    const rc_command *command;
    for (int i = 0; (command = rc_command_at(i)) != NULL; i++)
        if (strcmp(argv[1], command->name) == 0)
            return rc_command_main(command, argc - 1, argv + 1);
    const char *kind = argv[1][0] == '-' ? "option" : "command";
    const char *nearest = recollect_nearest(argv[1], first_word, NULL);
    return nearest ? rc_wrong_usage(NULL, "unknown %s '%s'; did you mean '%s'?", kind, argv[1], nearest)
                   : rc_wrong_usage(NULL, "unknown %s '%s'", kind, argv[1]);
}
