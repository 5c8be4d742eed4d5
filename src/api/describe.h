/* What there is: this machine, the backends, the nets. Text for people, one line at a time. */
#ifndef RC_API_DESCRIBE_H
#define RC_API_DESCRIBE_H

#include "base/status.h"

typedef void rc_describe_line(void *user, const char *text);

/* Machine, instruction set, and which backends open. */
rc_status rc_describe_machine(rc_describe_line *line, void *user);

/* The layers of a net for images of `channels` channels and `size` pixels. */
rc_status rc_describe_net(const char *name, int channels, int size, rc_describe_line *line, void *user);

/* Names of the nets; NULL when there are no more. */
const char *rc_describe_net_name(int index);

#endif
