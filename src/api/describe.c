#include "api/describe.h"

#include <stdio.h>

#include "backend/backend.h"
#include "base/machine.h"
#include "base/memory.h"
#include "data/image_kind.h"
#include "nn/nets.h"

static rc_status describe_backend(const char *name, rc_describe_line *line, void *user)
{
    char text[RC_MESSAGE_SIZE + 64];
    rc_backend *backend;
    rc_status status = rc_backend_open(name, 0, NULL, &backend);
    if (status == RC_OUT_OF_MEMORY) /* which says nothing about the machine */
        return status;
    if (status == RC_OK)
        snprintf(text, sizeof text, "backend %-12s instruction set %s, %d thread%s", name, backend->about.isa,
                 backend->about.threads, backend->about.threads == 1 ? "" : "s");
    else
        snprintf(text, sizeof text, "backend %-12s not here: %s", name, rc_message());
    rc_backend_close(backend);
    line(user, text);
    return RC_OK;
}

/* What this build reads, and what it would read with more libraries. */
static void describe_pictures(rc_describe_line *line, void *user)
{
    char kinds[256], text[320];
    rc_image_kinds(0, kinds, sizeof kinds);
    snprintf(text, sizeof text, "pictures %s", kinds);
    line(user, text);
    rc_image_kinds(1, kinds, sizeof kinds);
    if (kinds[0] == '\0')
        return;
    snprintf(text, sizeof text, "pictures that this build does not read, for want of a library: %s", kinds);
    line(user, text);
}

rc_status rc_describe_machine(rc_describe_line *line, void *user)
{
    char machine[128], text[192];
    rc_machine_name(machine, sizeof machine);
    int cores = rc_machine_cores();
    snprintf(text, sizeof text, "machine %s, %d core%s", machine, cores, cores == 1 ? "" : "s");
    line(user, text);
    for (int i = 0; rc_backend_name_at(i) != NULL; i++)
        RC_TRY(describe_backend(rc_backend_name_at(i), line, user));
    describe_pictures(line, user);
    return RC_OK;
}

rc_status rc_describe_net(const char *name, int channels, int size, rc_describe_line *line, void *user)
{
    rc_net *net = rc_alloc_zeroed(NULL, 1, sizeof *net);
    if (!net)
        return RC_OUT_OF_MEMORY;
    rc_status status = rc_net_by_name(net, name, channels, size, size);
    if (status == RC_OK)
        rc_net_print(net, line, user);
    rc_free(NULL, net);
    return status;
}

const char *rc_describe_net_name(int index)
{
    return rc_net_known_name(index);
}
