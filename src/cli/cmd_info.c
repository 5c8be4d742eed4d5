/* recollect info: what is here. */
#include <stddef.h>
#include <string.h>

#include "cli/cli.h"
#include "run/describe.h"
#include "run/nearest.h"

enum { NET, SIZE, CHANNELS, OPTIONS };

static const rc_option options[OPTIONS] = {
    [NET] = {"net", RC_OPTION_TEXT, "NAME", NULL, "show the layers of this net", 0, 0},
    [SIZE] = {"size", RC_OPTION_INTEGER, "N", "32", "pixels of an image's side", 1, 4096},
    [CHANNELS] = {"channels", RC_OPTION_INTEGER, "N", "3", "channels of an image", 1, 1024},
};

static const char *net_name(const void *context, int index)
{
    (void)context;
    return rc_describe_net_name(index);
}

static bool is_net(const char *name)
{
    for (int i = 0; rc_describe_net_name(i); i++)
        if (strcmp(rc_describe_net_name(i), name) == 0)
            return true;
    return false;
}

static int run(const rc_option_value *value, int count, char **arguments)
{
    (void)count;
    (void)arguments;
    const char *net = value[NET].text;
    if (!net) {
        rc_describe_machine(rc_print_line, NULL);
        return RC_EXIT_DONE;
    }
    if (!is_net(net)) {
        const char *nearest = rc_nearest(net, net_name, NULL);
        return nearest ? rc_wrong_usage(&rc_command_info, "unknown net '%s'; did you mean '%s'?", net, nearest)
                       : rc_wrong_usage(&rc_command_info, "unknown net '%s'", net);
    }
    if (rc_describe_net(net, (int)value[CHANNELS].integer, (int)value[SIZE].integer, rc_print_line, NULL) != RC_OK) {
        rc_complain("info: %s", rc_message());
        return RC_EXIT_FAILED;
    }
    return RC_EXIT_DONE;
}

const rc_command rc_command_info = {
    .name = "info",
    .summary = "Shows this machine and its backends, or the layers of a net.",
    .examples = "  recollect info\n"
                "  recollect info --net resnet32 --size 64",
    .option = options,
    .options = OPTIONS,
    .run = run,
};
