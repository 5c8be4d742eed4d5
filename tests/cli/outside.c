/* The program without the commands that look inside the library, linked with the shared library, which exports the
 * public functions alone: that this links shows that no other command needs more, however it is declared. */
#include "cli/cli.h"

static int run(const rc_option_value *value, int count, char **arguments)
{
    (void)value;
    (void)count;
    (void)arguments;
    rc_complain("this command is not here");
    return RC_EXIT_FAILED;
}

const rc_command rc_command_run = {.name = "run", .summary = "is not here", .run = run};
const rc_command rc_command_analyze = {.name = "analyze", .summary = "is not here", .run = run};
const rc_command rc_command_watch = {.name = "watch", .summary = "is not here", .run = run};
const rc_command rc_command_report = {.name = "report", .summary = "is not here", .run = run};
const rc_command rc_command_reproduce = {.name = "reproduce", .summary = "is not here", .run = run};
const rc_command rc_command_bench = {.name = "bench", .summary = "is not here", .run = run};
const rc_command rc_command_selftest = {.name = "selftest", .summary = "is not here", .run = run};
const rc_command rc_command_pack = {.name = "pack", .summary = "is not here", .run = run};
