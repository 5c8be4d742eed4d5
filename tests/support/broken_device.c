#include "support/broken_device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static rc_backend plain;
static int copies, first_lost; /* copies asked for; the one that breaks it, 0: none */

static bool is_lost(void)
{
    copies++;
    return first_lost > 0 && copies >= first_lost;
}

static rc_status wait_for(rc_status status)
{
    return first_lost > 0 && copies >= first_lost ? rc_fail(RC_INTERNAL, "copy %d was lost", first_lost) : status;
}

static void write_bytes(rc_backend *b, void *to, const void *from, size_t bytes)
{
    if (!is_lost())
        plain.write_bytes(b, to, from, bytes);
}

static void read_bytes(rc_backend *b, void *to, const void *from, size_t bytes)
{
    if (!is_lost())
        plain.read_bytes(b, to, from, bytes);
}

static void write_real(rc_backend *b, void *to, const float *from, size_t count)
{
    if (!is_lost())
        plain.write_real(b, to, from, count);
}

static void read_real(rc_backend *b, float *to, const void *from, size_t count)
{
    if (!is_lost())
        plain.read_real(b, to, from, count);
}

static void write_real64(rc_backend *b, void *to, const double *from, size_t count)
{
    if (!is_lost())
        plain.write_real64(b, to, from, count);
}

static void read_real64(rc_backend *b, double *to, const void *from, size_t count)
{
    if (!is_lost())
        plain.read_real64(b, to, from, count);
}

static void write_act(rc_backend *b, rc_tensor *to, const double *from)
{
    if (!is_lost())
        plain.write_act(b, to, from);
}

static void write_images(rc_backend *b, void *to, size_t offset, const uint8_t *from, size_t bytes)
{
    if (!is_lost())
        plain.write_images(b, to, offset, from, bytes);
}

static rc_status sync(rc_backend *b)
{
    return wait_for(plain.sync(b));
}

static rc_status repeat(rc_backend *b, void (*step)(void *), void *context, int times)
{
    return wait_for(plain.repeat(b, step, context, times));
}

static rc_status run(rc_backend *be, int lost, rc_status (*call)(void *), void *context)
{
    copies = 0;
    first_lost = lost;
    plain = *be;
    be->write_bytes = write_bytes;
    be->read_bytes = read_bytes;
    be->write_real = write_real;
    be->read_real = read_real;
    be->write_real64 = write_real64;
    be->read_real64 = read_real64;
    be->write_act = write_act;
    be->write_images = write_images;
    be->sync = sync;
    be->repeat = repeat;
    rc_status status = call(context);
    *be = plain;
    return status;
}

void breakdowns_are_told(rc_backend *be, const char *name, rc_status (*call)(void *), void *context)
{
    assert_int_equal(call(context), RC_OK); /* what stays has its place from then on */
    rc_status status = run(be, 0, call, context);
    int all = copies;
    if (status != RC_OK || all == 0)
        fail_msg("%s: %d copies, then %s", name, all, status == RC_OK ? "all is well" : rc_message());
    for (int lost = 1; lost <= all; lost++) {
        status = run(be, lost, call, context);
        if (status != RC_INTERNAL)
            fail_msg("%s: copy %d of %d was lost, and the status is %d", name, lost, all, (int)status);
    }
}
