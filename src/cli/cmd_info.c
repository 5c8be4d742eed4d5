/* recollect info: what is here. */
#include <stddef.h>
#include <string.h>

#include "cli/handle.h"

enum { JSON, MAX_MEMORY, NET, SIZE, CHANNELS, OPTIONS };

static const rc_option options[OPTIONS] = {
    [JSON] = {"json", RC_OPTION_FLAG, NULL, NULL, "print what is in MODEL as JSON", 0, 0},
    [MAX_MEMORY] = RC_OPTION_MAX_MEMORY,
    [NET] = {"net", RC_OPTION_TEXT, "NAME", NULL, "show the layers of this net", 0, 0},
    [SIZE] = {"size", RC_OPTION_INTEGER, "N", "32", "pixels of an image's side", 1, 4096},
    [CHANNELS] = {"channels", RC_OPTION_INTEGER, "N", "3", "channels of an image", 1, 1024},
};

static const char *net_name(const void *context, int index)
{
    (void)context;
    return recollect_net_at(index);
}

static bool is_net(const char *name)
{
    for (int i = 0; recollect_net_at(i); i++)
        if (strcmp(recollect_net_at(i), name) == 0)
            return true;
    return false;
}

/* The exit code of a command that ended so. */
static int exit_code(recollect_status status)
{
    return status == RECOLLECT_OK ? RC_EXIT_DONE : rc_failed(rc_command_info.name, status);
}

static int describe_file(const char *path, const rc_option_value *value)
{
    rc_handle_settings settings = {.command = rc_command_info.name,
                                   .backend = "cpu",
                                   .threads = 1,
                                   .max_memory = &value[MAX_MEMORY],
                                   .log_level = RECOLLECT_LOG_ERROR};
    recollect_model *model = rc_handle_open(&settings, path);
    if (model == NULL)
        return RC_EXIT_FAILED;
    bool json = value[JSON].given;
    int code = exit_code(recollect_describe_model(model, json, json ? rc_print_json : rc_print_line, NULL));
    recollect_model_destroy(&model);
    return code;
}

static int run(const rc_option_value *value, int count, char **arguments)
{
    const char *net = value[NET].text;
    if (count > 1 || (count == 1 && net))
        return rc_wrong_usage(&rc_command_info, "unexpected argument '%s'", arguments[count - 1]);
    if (count == 1)
        return describe_file(arguments[0], value);
    if (value[JSON].given)
        return rc_wrong_usage(&rc_command_info, "--json is for models: which one?");
    if (!net)
        return exit_code(recollect_describe_machine(rc_print_line, NULL));
    if (!is_net(net)) {
        const char *nearest = recollect_nearest(net, net_name, NULL);
        return nearest ? rc_wrong_usage(&rc_command_info, "unknown net '%s'; did you mean '%s'?", net, nearest)
                       : rc_wrong_usage(&rc_command_info, "unknown net '%s'", net);
    }
    return exit_code(recollect_describe_net(net, (int)value[CHANNELS].integer, (int)value[SIZE].integer, rc_print_line,
                                            NULL));
}

const rc_command rc_command_info = {
    .name = "info",
    .summary = "Shows what is in a model, this machine, its backends and formats of pictures, or the layers of a net.",
    .arguments = "[MODEL]",
    .examples = "  recollect info\n"
                "  recollect info animals.safetensors\n"
                "  recollect info --net resnet32 --size 64",
    .option = options,
    .options = OPTIONS,
    .run = run,
};
