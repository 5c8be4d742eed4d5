/* recollect completion: teaches bash to complete the commands, from the same tables that parse them. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "run/config.h"
#include "run/describe.h"
#include "run/model_file.h"

/* Words that may follow an option, separated by blanks; "" where they are file names or anything. */
static void option_words(const rc_option *o, char *words, size_t size)
{
    size_t used = 0;
    const char *name, *summary;
    rc_config_item item;
    words[0] = '\0';
    if (o->argument != NULL && strchr(o->argument, '|') != NULL) {
        snprintf(words, size, "%s", o->argument);
        for (char *p = words; *p != '\0'; p++)
            *p = *p == '|' ? ' ' : *p;
        return;
    }
    for (int i = 0; strcmp(o->name, "preset") == 0 && used < size && rc_config_preset(i, &name, &summary);
         i++)
        used += (size_t)snprintf(words + used, size - used, "%s ", name);
    for (int i = 0; strcmp(o->name, "net") == 0 && used < size && rc_describe_net_name(i) != NULL; i++)
        used += (size_t)snprintf(words + used, size - used, "%s ", rc_describe_net_name(i));
    for (int i = 0; strcmp(o->name, "method") == 0 && used < size && rc_method_at(i) != NULL; i++)
        used += (size_t)snprintf(words + used, size - used, "%s ", rc_method_at(i)->name);
    for (int i = 0; strcmp(o->name, "set") == 0 && used < size && rc_config_item_at(i, &item); i++)
        used += (size_t)snprintf(words + used, size - used, "%s= ", item.name);
}

static void print_command(const rc_command *command)
{
    enum { WORDS = 4096 };
    char words[WORDS];
    size_t used = 0;
    for (int i = 0; i < command->options; i++) {
        const rc_option *o = &command->option[i];
        used += (size_t)snprintf(words + used, sizeof words - used, "--%s ", o->name);
    }
    rc_print("    %s)\n        options='%s--help'", command->name, words);
    rc_print("        case $previous in");
    for (int i = 0; i < command->options; i++) {
        const rc_option *o = &command->option[i];
        option_words(o, words, sizeof words);
        if (o->type == RC_OPTION_FLAG)
            continue;
        if (words[0] != '\0')
            rc_print("        --%s) words='%s' ;;", o->name, words);
        else if (o->type == RC_OPTION_INTEGER)
            rc_print("        --%s) return ;;", o->name);
        else
            rc_print("        --%s) files=1 ;;", o->name);
    }
    rc_print("        esac");
    const char *name, *summary;
    used = 0;
    words[0] = '\0';
    bool presets = command->arguments != NULL && strstr(command->arguments, "PRESET") != NULL;
    for (int i = 0; presets && used < sizeof words && rc_config_preset(i, &name, &summary); i++)
        used += (size_t)snprintf(words + used, sizeof words - used, "%s ", name);
    rc_print("        arguments='%s' ;;", words);
}

static int run(const rc_option_value *value, int count, char **arguments)
{
    (void)value;
    if (count != 1 || strcmp(arguments[0], "bash") != 0)
        return rc_wrong_usage(&rc_command_completion, "for which shell? There is only bash");
    rc_print("# bash completion for recollect; written by 'recollect completion bash'\n"
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
    rc_print("        COMPREPLY=($(compgen -W '%s--help --version' -- \"$current\"))\n        return\n    fi",
             words);
    rc_print("    case ${COMP_WORDS[1]} in");
    for (int i = 0; (command = rc_command_at(i)) != NULL; i++)
        print_command(command);
    rc_print("    *) return ;;\n"
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
    return RC_EXIT_DONE;
}

const rc_command rc_command_completion = {
    .name = "completion",
    .summary = "Prints what makes bash complete recollect's commands and options.",
    .arguments = "bash",
    .examples = "  source <(recollect completion bash)\n"
                "  recollect completion bash > ~/.local/share/bash-completion/completions/recollect",
    .run = run,
};
