/* recollect methods: what --method takes. */
#include <stddef.h>

#include "cli/cli.h"

enum { JSON, OPTIONS };

static const rc_option options[OPTIONS] = {
    [JSON] = {"json", RC_OPTION_FLAG, NULL, NULL, "print them as JSON, with what each stores between tasks", 0, 0},
};

static int run(const rc_option_value *value, int count, char **arguments)
{
    (void)count;
    (void)arguments;
    bool json = value[JSON].given;
    recollect_status status = recollect_describe_methods(json, json ? rc_print_json : rc_print_line, NULL);
    return status == RECOLLECT_OK ? RC_EXIT_DONE : rc_failed(rc_command_methods.name, status);
}

const rc_command rc_command_methods = {
    .name = "methods",
    .summary = "Lists the methods: name, title, whether it is data-free, whether 'learn' takes it, what it does.",
    .details = "A data-free method keeps neither images nor a model that makes them from one task to the next.\n"
               "With --method, 'learn' takes those that say so. share/doc/recollect/docs/methods has a page for each.",
    .examples = "  recollect methods\n"
                "  recollect methods --json",
    .option = options,
    .options = OPTIONS,
    .run = run,
};
