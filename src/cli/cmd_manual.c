/* recollect manual: the manual page, from the same tables that parse the command line. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "recollect/recollect.h"

/* Text for the formatter: backslashes, and marks at the beginning of a line, mean something to it. */
static void print_text(const char *text)
{
    char line[1024];
    size_t used = 0;
    bool begin = true;
    for (const char *p = text;; p++) {
        if (*p == '\n' || *p == '\0' || used + 4 >= sizeof line) {
            line[used] = '\0';
            rc_print_own("%s", line);
            used = 0;
            begin = true;
            if (*p == '\0')
                return;
            if (*p == '\n')
                continue;
        }
        if (begin && (*p == '.' || *p == '\'')) {
            line[used++] = '\\';
            line[used++] = '&';
        }
        if (*p == '\\' || *p == '-')
            line[used++] = '\\';
        line[used++] = *p == '\\' ? 'e' : *p;
        begin = false;
    }
}

static void print_option(const rc_option *o)
{
    char help[512], name[128];
    size_t used = 0;
    for (const char *p = o->name; *p != '\0' && used + 3 < sizeof name; p++) {
        if (*p == '-')
            name[used++] = '\\';
        name[used++] = *p;
    }
    name[used] = '\0';
    rc_print_own(".TP");
    rc_print_own(".BI \\-\\-%s \" %s\"", name, o->argument != NULL ? o->argument : "");
    snprintf(help, sizeof help, "%s%s%s%s", o->help, o->fallback != NULL ? " (default: " : "",
             o->fallback != NULL ? o->fallback : "", o->fallback != NULL ? ")" : "");
    print_text(help);
}

static void print_command(const rc_command *command)
{
    rc_print_own(".SS \"recollect %s %s%s\"", command->name, command->arguments != NULL ? command->arguments : "",
                 command->options > 0 ? " [OPTION]..." : "");
    print_text(command->summary);
    if (command->details != NULL)
        print_text(command->details);
    for (int i = 0; i < command->options; i++)
        print_option(&command->option[i]);
    if (command->examples == NULL)
        return;
    rc_print_own(".PP\nExamples:\n.PP\n.nf");
    print_text(command->examples);
    rc_print_own(".fi");
}

static void print_settings(void)
{
    recollect_setting setting = {.size = sizeof setting};
    recollect_preset preset = {.size = sizeof preset};
    rc_print_own(".SH SETTINGS");
    print_text("What --set KEY=VALUE, presets and YAML files may set:");
    for (int i = 0; recollect_setting_at(i, &setting); i++) {
        rc_print_own(".TP\n.BI %s \" (%s)\"", setting.name, setting.type);
        char text[512];
        const char *value = setting.initial[0] != '\0' ? setting.initial : "empty";
        snprintf(text, sizeof text, "%s. Takes %s; the default is %s. Read by: %s.", setting.help, setting.range, value,
                 setting.readers);
        print_text(text);
    }
    rc_print_own(".SH PRESETS");
    for (int i = 0; recollect_preset_at(i, &preset); i++) {
        rc_print_own(".TP\n.B %s", preset.name);
        print_text(preset.summary);
    }
}

static int run(const rc_option_value *value, int count, char **arguments)
{
    (void)value;
    (void)count;
    (void)arguments;
    rc_print_own(".TH RECOLLECT 1 \"\" \"recollect %s\" \"User Commands\"", recollect_version());
    rc_print_own(".SH NAME\nrecollect \\- teaches an image classifier new classes without keeping the old images");
    rc_print_own(".SH SYNOPSIS\n.B recollect\n.I COMMAND\n.RI [ ARGUMENT ]... \" \" [ OPTION ]...");
    rc_print_own(".SH DESCRIPTION");
    print_text("A model is one file that holds weights, class names and the statistics of its features, but no "
               "image. "
               "'learn' adds the classes of a folder of images to it: the old ones are dreamt back out of the model "
               "itself. Results go to stdout, everything else to stderr. Files that exist are not replaced without "
               "--force, models are written whole or not at all.");
    rc_print_own(".SH COMMANDS");
    const rc_command *command;
    for (int i = 0; (command = rc_command_at(i)) != NULL; i++)
        print_command(command);
    print_settings();
    rc_print_own(".SH EXIT STATUS");
    print_text(
        "0: done. 1: failed. 2: wrong usage. 3: done, but there are warnings, and --strict was given. 130: interrupted "
        "by SIGINT, SIGTERM, SIGHUP, SIGUSR1, "
        "SIGUSR2, SIGXCPU or SIGALRM, at a boundary where nothing is half written; a second SIGINT or SIGTERM ends the "
        "program at once. SIGHUP that is ignored (nohup) stays so.");
    rc_print_own(".SH ENVIRONMENT\n.TP\n.B RECOLLECT_ISA");
    print_text("the instruction set of the CPU kernels, where the widest that the machine has is not wanted: "
               "sse2, avx2, "
               "avx512 or neon");
    return RC_EXIT_DONE;
}

const rc_command rc_command_manual = {
    .name = "manual",
    .summary = "Prints the manual page.",
    .examples = "  recollect manual | man -l -",
    .run = run,
};
