/* recollect manual: the manual pages, from the same tables that parse the command line. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/manual_library.h"
#include "cli/roff.h"

/* ---- a command ------------------------------------------------------------------------------------------------- */

static void print_option(const rc_command *command, const rc_option *o)
{
    char line[1024];
    const char *choice;
    snprintf(line, sizeof line, "--%s%s%s", o->name, o->argument != NULL ? " " : "",
             o->argument != NULL ? o->argument : "");
    rc_print_own(".TP");
    rc_roff_macro(".B", line);
    snprintf(line, sizeof line, "%s%s%s%s", o->help, o->fallback != NULL ? " (default: " : "",
             o->fallback != NULL ? o->fallback : "", o->fallback != NULL ? ")" : "");
    rc_roff_text(line);
    if (o->type == RC_OPTION_LIST || rc_option_choice(command, o, 0) == NULL)
        return;
    size_t used = (size_t)snprintf(line, sizeof line, "There are");
    for (int i = 0; (choice = rc_option_choice(command, o, i)) != NULL && used < sizeof line; i++)
        used += (size_t)snprintf(line + used, sizeof line - used, "%s %s", i > 0 ? "," : "", choice);
    rc_print_own(".br");
    rc_roff_text(line);
}

static void print_command(const rc_command *command)
{
    char name[64], line[256];
    snprintf(name, sizeof name, "recollect\\-%s", command->name);
    rc_roff_begin(name, "1", command->summary);
    rc_print_own(".SH SYNOPSIS\n.B recollect %s", command->name);
    snprintf(line, sizeof line, "%s%s", command->arguments != NULL ? command->arguments : "",
             command->options > 0 ? " [OPTION]..." : "");
    if (line[0] != '\0')
        rc_roff_text(line + (line[0] == ' '));
    rc_print_own(".SH DESCRIPTION");
    rc_roff_text(command->summary);
    if (command->details != NULL) {
        rc_print_own(".PP");
        rc_roff_text(command->details);
    }
    rc_print_own(".SH OPTIONS");
    for (int i = 0; i < command->options; i++)
        print_option(command, &command->option[i]);
    rc_print_own(".TP\n.B \\-\\-help");
    rc_roff_text("shows the usage");
    if (command->examples != NULL) {
        rc_print_own(".SH EXAMPLES");
        rc_roff_code(command->examples);
    }
    rc_print_own(".SH SEE ALSO\n.BR recollect (1),");
    rc_roff_text("which lists the other commands, the settings and the exit codes");
}

/* ---- the program ------------------------------------------------------------------------------------------------ */

static void print_settings(void)
{
    recollect_setting setting = {.size = sizeof setting};
    recollect_preset preset = {.size = sizeof preset};
    rc_print_own(".SH SETTINGS");
    rc_roff_text("What --set KEY=VALUE, presets and YAML files may set:");
    for (int i = 0; recollect_setting_at(i, &setting); i++) {
        rc_print_own(".TP\n.BI %s \" (%s)\"", setting.name, setting.type);
        char text[512];
        const char *value = setting.initial[0] != '\0' ? setting.initial : "empty";
        snprintf(text, sizeof text, "%s. Takes %s; the default is %s. Read by: %s.", setting.help, setting.range, value,
                 setting.readers);
        rc_roff_text(text);
    }
    rc_print_own(".SH PRESETS");
    for (int i = 0; recollect_preset_at(i, &preset); i++) {
        rc_print_own(".TP");
        rc_roff_macro(".B", preset.name);
        rc_roff_text(preset.summary);
    }
}

static void print_program(void)
{
    const rc_command *command;
    rc_roff_begin("recollect", "1", "teaches an image classifier new classes without keeping the old images");
    rc_print_own(".SH SYNOPSIS\n.B recollect\n.I COMMAND\n.RI [ ARGUMENT ]... \" \" [ OPTION ]...");
    rc_print_own(".SH DESCRIPTION");
    rc_roff_text("A model is one file that holds weights, class names and the statistics of its features, but no "
                 "image. 'learn' adds the classes of a folder of images to it: the old ones are dreamt back out of the "
                 "model itself. Results go to stdout, everything else to stderr. Files that exist are not replaced "
                 "without --force, models are written whole or not at all. No file is written to stdout: the "
                 "name '-' is refused.");
    rc_print_own(".SH COMMANDS");
    for (int i = 0; (command = rc_command_at(i)) != NULL; i++) {
        rc_print_own(".TP\n.BR recollect\\-%s (1)", command->name);
        rc_roff_text(command->summary);
    }
    print_settings();
    rc_print_own(".SH EXIT STATUS");
    rc_roff_text(
        "0: done. 1: failed. 2: wrong usage. 3: done, but there are warnings, and --strict was given. 130: interrupted "
        "by SIGINT, SIGTERM, SIGHUP, SIGUSR1, "
        "SIGUSR2, SIGXCPU or SIGALRM, at a boundary where nothing is half written; a second SIGINT or SIGTERM ends the "
        "program at once. SIGHUP that is ignored (nohup) stays so.");
    rc_print_own(".SH ENVIRONMENT\n.TP\n.B RECOLLECT_ISA");
    rc_roff_text("the instruction set of the CPU kernels, where the widest that the machine has is not wanted: "
                 "sse2, avx2, avx512 or neon");
    rc_print_own(".TP\n.BR RECOLLECT_CUDA_MODULE , \" \" RECOLLECT_MPI_MODULE");
    rc_roff_text("the files of the modules for --backend cuda and for several processes, in place of those that lie "
                 "beside the program or are installed");
    rc_print_own(".TP\n.B RECOLLECT_NCCL_LIBRARY");
    rc_roff_text("the NCCL library that processes with GPUs talk through; 'none': they talk through MPI");
    rc_print_own(".TP\n.B TMPDIR");
    rc_roff_text("where 'learn' saves a model that it can write neither at its place nor beside it; else /tmp");
    rc_print_own(".SH FILES\n.TP");
    rc_roff_macro(".I", "share/doc/recollect/README.md");
    rc_roff_text("below the prefix of the installation: what recollect is, and where its other documents are");
    rc_print_own(".TP");
    rc_roff_macro(".I", "share/recollect/presets");
    rc_roff_text("the presets as YAML files, to copy from; the program has them built in");
    rc_print_own(".SH SEE ALSO\n.BR recollect (3),");
    rc_roff_text("the library; share/doc/recollect/docs/learn.md, for people with images");
}

/* ---- this command ----------------------------------------------------------------------------------------------- */

static const char *page_at(int index)
{
    const rc_command *command = index > 0 ? rc_command_at(index - 1) : NULL;
    return index == 0 ? "library" : command != NULL ? command->name : NULL;
}

static const char *page_of(const void *unused, int index)
{
    (void)unused;
    return page_at(index);
}

static int run(const rc_option_value *value, int count, char **arguments)
{
    (void)value;
    const rc_command *command = NULL;
    if (count > 1)
        return rc_wrong_usage(&rc_command_manual, "unexpected argument '%s'", arguments[1]);
    for (int i = 0; count == 1 && (command = rc_command_at(i)) != NULL; i++)
        if (strcmp(command->name, arguments[0]) == 0)
            break;
    if (count == 0) {
        print_program();
    } else if (command != NULL) {
        print_command(command);
    } else if (strcmp(arguments[0], "library") == 0) {
        rc_print_library_manual();
    } else {
        const char *nearest = recollect_nearest(arguments[0], page_of, NULL);
        return rc_wrong_usage(&rc_command_manual, "there is no page '%s'%s%s%s", arguments[0],
                              nearest != NULL ? "; did you mean '" : ": there is one for each command, and 'library'",
                              nearest != NULL ? nearest : "", nearest != NULL ? "'?" : "");
    }
    return RC_EXIT_DONE;
}

const rc_command rc_command_manual = {
    .name = "manual",
    .summary = "Prints a manual page.",
    .arguments = "[COMMAND|library]",
    .argument_at = page_at,
    .details = "An installed recollect brings these pages along; this is for a program that was only built. Without\n"
               "an argument it prints that of the program.",
    .examples = "  recollect manual | man -l -\n"
                "  recollect manual learn | man -l -\n"
                "  recollect manual library | man -l -",
    .run = run,
};
