/* recollect completion: teaches bash, zsh and fish to complete the commands, from the same tables that parse them. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

/* Words that may follow an option, separated by blanks; "" where they are file names or anything. */
static void option_words(const rc_command *command, const rc_option *o, char *words, size_t size)
{
    size_t used = 0;
    const char *choice;
    words[0] = '\0';
    if (o->argument != NULL && strchr(o->argument, '|') != NULL) {
        snprintf(words, size, "%s", o->argument);
        for (char *p = words; *p != '\0'; p++)
            *p = *p == '|' ? ' ' : *p;
        return;
    }
    for (int i = 0; used < size && (choice = rc_option_choice(command, o, i)) != NULL; i++)
        used += (size_t)snprintf(words + used, size - used, "%s%s ", choice, o->type == RC_OPTION_LIST ? "=" : "");
}

/* No words and no file may follow it. */
static bool is_number(const rc_option *o)
{
    return o->type == RC_OPTION_INTEGER || o->type == RC_OPTION_SIZE;
}

/* What the first argument of a command may be, where there is a list: the words of the command's own list, else choices
 * as its usage has them ("bash|zsh|fish"), or the presets; "" elsewhere. */
static void argument_words(const rc_command *command, char *words, size_t size)
{
    const char *arguments = command->arguments != NULL ? command->arguments : "";
    size_t used = 0, first = strcspn(arguments, " ");
    recollect_preset preset = {.size = sizeof preset};
    words[0] = '\0';
    if (command->argument_at == NULL && memchr(arguments, '|', first) != NULL) {
        snprintf(words, size, "%.*s", (int)first, arguments);
        for (char *p = words; (p = strchr(p, '|')) != NULL;)
            *p = ' ';
    }
    bool presets = strstr(arguments, "PRESET") != NULL;
    for (int i = 0; presets && used < size && recollect_preset_at(i, &preset); i++)
        used += (size_t)snprintf(words + used, size - used, "%s ", preset.name);
    const char *word;
    for (int i = 0; command->argument_at != NULL && used < size && (word = command->argument_at(i)) != NULL; i++)
        used += (size_t)snprintf(words + used, size - used, "%s ", word);
}

/* A copy of `text` with a backslash before every character of `special`; quotes become typographic, so that they mean
 * nothing to a shell. */
static const char *escaped(const char *text, const char *special, char *copy, size_t size)
{
    size_t used = 0;
    for (const char *p = text; *p != '\0' && used + 5 < size; p++) {
        if (*p == '\'') {
            memcpy(copy + used, "\xe2\x80\x99", 3);
            used += 3;
            continue;
        }
        if (strchr(special, *p) != NULL)
            copy[used++] = '\\';
        copy[used++] = *p == '\n' ? ' ' : *p;
    }
    copy[used] = '\0';
    return copy;
}

/* ---- bash ------------------------------------------------------------------------------------------------------ */

static void print_bash_command(const rc_command *command)
{
    enum { WORDS = 4096 };
    char words[WORDS];
    size_t used = 0;
    for (int i = 0; i < command->options; i++) {
        const rc_option *o = &command->option[i];
        used += (size_t)snprintf(words + used, sizeof words - used, "--%s ", o->name);
    }
    rc_print_own("    %s)\n        options='%s--help'", command->name, words);
    rc_print_own("        case $previous in");
    for (int i = 0; i < command->options; i++) {
        const rc_option *o = &command->option[i];
        option_words(command, o, words, sizeof words);
        if (o->type == RC_OPTION_FLAG)
            continue;
        if (words[0] != '\0')
            rc_print_own("        --%s) words='%s' ;;", o->name, words);
        else if (is_number(o))
            rc_print_own("        --%s) return ;;", o->name);
        else
            rc_print_own("        --%s) files=1 ;;", o->name);
    }
    rc_print_own("        esac");
    argument_words(command, words, sizeof words);
    rc_print_own("        arguments='%s' ;;", words);
}

static void print_bash(void)
{
    rc_print_own("# bash completion for recollect; written by 'recollect completion bash'\n"
                 "_recollect()\n"
                 "{\n"
                 "    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}\n"
                 "    local options= words= files= arguments=\n"
                 "    COMPREPLY=()\n"
                 "    if [ \"$COMP_CWORD\" -eq 1 ]; then");
    char words[1024];
    size_t used = 0;
    const rc_command *command;
    for (int i = 0; (command = rc_command_at(i)) != NULL; i++)
        used += (size_t)snprintf(words + used, sizeof words - used, "%s ", command->name);
    rc_print_own("        COMPREPLY=($(compgen -W '%s--help --version' -- \"$current\"))\n        return\n    fi",
                 words);
    rc_print_own("    case ${COMP_WORDS[1]} in");
    for (int i = 0; (command = rc_command_at(i)) != NULL; i++)
        print_bash_command(command);
    rc_print_own("    *) return ;;\n"
                 "    esac\n"
                 "    if [ -n \"$words\" ]; then\n"
                 "        COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
                 "        case ${COMPREPLY[0]} in *=) compopt -o nospace ;; esac\n"
                 "    elif [ -z \"$files\" ] && [ \"${current#-}\" != \"$current\" ]; then\n"
                 "        COMPREPLY=($(compgen -W \"$options\" -- \"$current\"))\n"
                 "    else\n"
                 "        [ -n \"$files\" ] && arguments=\n"
                 "        compopt -o filenames\n"
                 "        mapfile -t COMPREPLY < <(compgen -W \"$arguments\" -- \"$current\"; compgen -f -- "
                 "\"$current\")\n"
                 "    fi\n"
                 "}\n"
                 "complete -F _recollect recollect");
}

/* ---- zsh ------------------------------------------------------------------------------------------------------- */

/* One line of _arguments: '--name[help]:what:(words)'. Colons and brackets mean something to it. */
static void print_zsh_option(const rc_command *command, const rc_option *o)
{
    enum { WORDS = 4096 };
    char words[WORDS], help[512], what[128] = "";
    option_words(command, o, words, sizeof words);
    if (o->type != RC_OPTION_FLAG)
        snprintf(what, sizeof what, ":%s:", words[0] != '\0' ? "value" : o->argument);
    const char *star = o->type == RC_OPTION_LIST ? "*" : "";
    escaped(o->help, "[]:", help, sizeof help);
    const char *action = o->type == RC_OPTION_FLAG ? "" : is_number(o) ? " " : "_files";
    if (words[0] != '\0')
        rc_print_own("            '%s--%s[%s]%s(%s)' \\", star, o->name, help, what, words);
    else
        rc_print_own("            '%s--%s[%s]%s%s' \\", star, o->name, help, what, action);
}

static void print_zsh(void)
{
    char words[1024], text[512];
    const rc_command *command;
    rc_print_own("#compdef recollect\n"
                 "# zsh completion for recollect; written by 'recollect completion zsh'\n"
                 "_recollect()\n{\n    local -a commands\n    commands=(");
    for (int i = 0; (command = rc_command_at(i)) != NULL; i++)
        rc_print_own("        '%s:%s'", command->name, escaped(command->summary, ":", text, sizeof text));
    rc_print_own("    )\n"
                 "    if (( CURRENT == 2 )); then\n"
                 "        _describe command commands\n"
                 "        return\n"
                 "    fi\n"
                 "    shift words\n"
                 "    (( CURRENT-- ))\n"
                 "    case $words[1] in");
    for (int i = 0; (command = rc_command_at(i)) != NULL; i++) {
        rc_print_own("    %s)\n        _arguments \\", command->name);
        for (int k = 0; k < command->options; k++)
            print_zsh_option(command, &command->option[k]);
        argument_words(command, words, sizeof words);
        if (words[0] != '\0' && strstr(command->arguments, "PRESET") != NULL) /* or a file */
            rc_print_own("            '*:argument:{_alternative \"presets:preset:(%s)\" \"files:file:_files\"}' \\",
                         words);
        else if (words[0] != '\0' && strchr(command->arguments, ' ') != NULL)
            rc_print_own("            '1:argument:(%s)' '*:argument:_files' \\", words);
        else if (words[0] != '\0')
            rc_print_own("            '*:argument:(%s)' \\", words);
        else if (command->arguments != NULL)
            rc_print_own("            '*:argument:_files' \\");
        rc_print_own("            '--help[show the usage]' ;;");
    }
    rc_print_own(
        "    esac\n"
        "}\n"
        "if [ \"$funcstack[1]\" = _recollect ]; then _recollect \"$@\"; else compdef _recollect recollect; fi");
}

/* ---- fish ------------------------------------------------------------------------------------------------------ */

static void print_fish(void)
{
    enum { WORDS = 4096 };
    char words[WORDS], text[512];
    const rc_command *command;
    rc_print_own("# fish completion for recollect; written by 'recollect completion fish'\n"
                 "complete -c recollect -n __fish_use_subcommand -f -l help -d 'show the usage'\n"
                 "complete -c recollect -n __fish_use_subcommand -f -l version -d 'show the version'");
    for (int i = 0; (command = rc_command_at(i)) != NULL; i++)
        rc_print_own("complete -c recollect -n __fish_use_subcommand -f -a %s -d '%s'", command->name,
                     escaped(command->summary, "\\", text, sizeof text));
    for (int i = 0; (command = rc_command_at(i)) != NULL; i++) {
        char when[96];
        snprintf(when, sizeof when, "-n '__fish_seen_subcommand_from %s'", command->name);
        rc_print_own("complete -c recollect %s -l help -d 'show the usage'", when);
        argument_words(command, words, sizeof words);
        if (words[0] != '\0')
            rc_print_own("complete -c recollect %s -a '%s'", when, words);
        for (int k = 0; k < command->options; k++) {
            const rc_option *o = &command->option[k];
            option_words(command, o, words, sizeof words);
            escaped(o->help, "\\", text, sizeof text);
            if (words[0] != '\0')
                rc_print_own("complete -c recollect %s -x -l %s -a '%s' -d '%s'", when, o->name, words, text);
            else
                rc_print_own("complete -c recollect %s %s -l %s -d '%s'", when,
                             o->type == RC_OPTION_FLAG ? ""
                             : is_number(o)            ? "-x"
                                                       : "-r",
                             o->name, text);
        }
    }
}

/* ---- the command ----------------------------------------------------------------------------------------------- */

static int run(const rc_option_value *value, int count, char **arguments)
{
    static const struct {
        const char *name;
        void (*print)(void);
    } shells[] = {{"bash", print_bash}, {"zsh", print_zsh}, {"fish", print_fish}};
    (void)value;
    for (size_t i = 0; count == 1 && i < sizeof shells / sizeof *shells; i++)
        if (strcmp(arguments[0], shells[i].name) == 0) {
            shells[i].print();
            return RC_EXIT_DONE;
        }
    return rc_wrong_usage(&rc_command_completion, "for which shell? There are bash, zsh and fish");
}

const rc_command rc_command_completion = {
    .name = "completion",
    .summary = "Prints what makes a shell complete recollect's commands and options.",
    .arguments = "bash|zsh|fish",
    .details = "An installed recollect brings these files along; this is for a program that was only built.",
    .examples = "  source <(recollect completion bash)\n"
                "  recollect completion zsh > ~/.zfunc/_recollect\n"
                "  recollect completion fish > ~/.config/fish/completions/recollect.fish",
    .run = run,
};
