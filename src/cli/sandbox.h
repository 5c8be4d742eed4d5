/* A process that gives up what it does not need, before it reads files of strangers. */
#ifndef RC_CLI_SANDBOX_H
#define RC_CLI_SANDBOX_H

#include "cli/cli.h"

/* clang-format off */
#define RC_OPTION_SANDBOX \
    {"sandbox", RC_OPTION_FLAG, NULL, NULL, "give up network, programs and writing of files first (Linux)", 0, 0}
/* clang-format on */

/* If the option is given, this process and its threads can from here on read files, compute, and write to what is open
 * already: no network, no new or changed files, no other program or process, no code made at run time. Returns
 * RC_EXIT_DONE, or the exit code after a message: the system cannot do that, or a backend is asked for. Call it
 * before the first thread begins. */
int rc_sandbox_asked(const rc_command *command, const rc_option_value *sandbox, const rc_option_value *backend);

#endif
