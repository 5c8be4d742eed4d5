/* The values that options take where the library has the list: help, completion and the manual offer these and no
 * others. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

static const char *method_at(int index)
{
    recollect_method method = {.size = sizeof method};
    return recollect_method_at(index, &method) ? method.name : NULL;
}

/* Those that a model can learn with. */
static const char *lesson_method_at(int index)
{
    recollect_method method = {.size = sizeof method};
    for (int i = 0; recollect_method_at(i, &method); i++)
        if (method.learn && index-- == 0)
            return method.name;
    return NULL;
}

/* Those that classify: the choices of the setting. The text is valid until the next call. */
static const char *backbone_at(int index)
{
    static char name[64];
    recollect_setting setting = {.size = sizeof setting};
    int i = 0;
    while (recollect_setting_at(i, &setting) && strcmp(setting.name, "net") != 0)
        i++;
    for (const char *p = setting.choices; p != NULL && *p != '\0'; index--) {
        size_t length = strcspn(p, "|");
        if (index == 0) {
            snprintf(name, sizeof name, "%.*s", (int)length, p);
            return name;
        }
        p += length + (p[length] == '|');
    }
    return NULL;
}

static const char *preset_at(int index)
{
    recollect_preset preset = {.size = sizeof preset};
    return recollect_preset_at(index, &preset) ? preset.name : NULL;
}

/* Nets whose published weights are known, and "auto". */
static const char *published_at(int index)
{
    return index == 0 ? "auto" : recollect_published_net_at(index - 1);
}

/* Names of settings. */
static const char *setting_at(int index)
{
    recollect_setting setting = {.size = sizeof setting};
    return recollect_setting_at(index, &setting) ? setting.name : NULL;
}

/* Those that a model takes: some are for experiments alone. */
static const char *lesson_setting_at(int index)
{
    recollect_setting setting = {.size = sizeof setting};
    for (int i = 0; recollect_setting_at(i, &setting); i++)
        if (recollect_check_option(setting.name, setting.initial) == RECOLLECT_OK && index-- == 0)
            return setting.name;
    return NULL;
}

const char *rc_option_choice(const rc_command *command, const rc_option *option, int index)
{
    static const struct {
        const rc_command *command;
        const char *option;
        const char *(*at)(int index);
    } lists[] = {{&rc_command_learn, "method", lesson_method_at}, {&rc_command_learn, "net", backbone_at},
                 {&rc_command_learn, "preset", preset_at},        {&rc_command_learn, "set", lesson_setting_at},
                 {&rc_command_run, "method", method_at},          {&rc_command_run, "set", setting_at},
                 {&rc_command_info, "net", recollect_net_at},     {&rc_command_bench, "net", recollect_net_at},
                 {&rc_command_analyze, "method", method_at},      {&rc_command_analyze, "set", setting_at},
                 {&rc_command_import, "as", published_at}};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (lists[i].command == command && strcmp(lists[i].option, option->name) == 0)
            return lists[i].at(index);
    return NULL;
}
