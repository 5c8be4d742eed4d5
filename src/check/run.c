/* A case on a backend: memory with guard zones, what goes in, what comes out, and what must not have changed. */
#include "check/case.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"

enum { GUARD_BYTE = 0xA5, NAN_BYTE = 0xFF /* all ones: not a number in every float type, -1 as an integer */ };

/* Parameters of a net lie one behind the other without padding, so their addresses are multiples of nothing; or, in
 * every other case, of all that a vector of them could want. */
static size_t misalignment(const rc_run *r, int buffer)
{
    bool anywhere = r->c->buffer[buffer].kind == RC_BUFFER_PARAMETER && r->c->number % 2 == 0;
    return anywhere ? (size_t)(1 + buffer % 3) * r->be->real_bytes : 0;
}

static size_t size_of(const rc_run *r, int buffer)
{
    const rc_buffer *b = &r->c->buffer[buffer];
    rc_backend *be = r->be;
    switch (b->kind) {
    case RC_BUFFER_ACT: return rc_act_count(be, b->n, b->h, b->w, b->c) * be->act_bytes;
    case RC_BUFFER_REAL:
    case RC_BUFFER_PARAMETER: return b->count * be->real_bytes;
    case RC_BUFFER_CHANNEL: return (size_t)b->n * (size_t)rc_padded(be, b->c) * be->real_bytes;
    case RC_BUFFER_DOUBLE: return b->count * sizeof(double);
    case RC_BUFFER_FLOAT: return b->count * sizeof(float);
    case RC_BUFFER_INT: return b->count * sizeof(int32_t);
    case RC_BUFFER_BYTE: return b->count;
    case RC_BUFFER_STEP: return sizeof(rc_step);
    case RC_BUFFER_PARTIAL: return be->partial_bytes(be, b->n, b->h, b->w, b->c);
    case RC_BUFFER_RKD_WORKSPACE: return be->rkd_workspace(be, b->n, b->c);
    case RC_BUFFER_DCE_WORKSPACE: return be->dce_workspace(be, b->n, b->h, b->c);
    }
    return 0;
}

rc_status rc_run_open(rc_run *r, const rc_case *c, rc_backend *be)
{
    memset(r, 0, sizeof *r);
    r->c = c;
    r->be = be;
    if (c->operation->reserve)
        RC_TRY(c->operation->reserve(r));
    for (int i = 0; i < c->buffers; i++) {
        r->bytes[i] = size_of(r, i);
        size_t before = RC_GUARD_BYTES + misalignment(r, i);
        RC_TRY(be->alloc(be, before + r->bytes[i] + RC_GUARD_BYTES, &r->block[i]));
        r->memory[i] = (char *)r->block[i] + before;
    }
    return RC_OK;
}

void rc_run_close(rc_run *r)
{
    for (int i = 0; r->c && i < r->c->buffers; i++)
        if (r->block[i])
            r->be->release(r->be, r->block[i]);
    memset(r, 0, sizeof *r);
}

void *rc_at(const rc_run *r, int buffer)
{
    return buffer < 0 ? NULL : r->memory[buffer];
}

void rc_run_expect(rc_run *r, bool condition, const char *what)
{
    if (!condition && !r->complaint[0])
        snprintf(r->complaint, sizeof r->complaint, "%s", what);
}

/* ---- into backend memory -------------------------------------------------------------------------------------- */

static void write_channels(rc_run *r, int buffer, const double *from, double *padded)
{
    const rc_buffer *b = &r->c->buffer[buffer];
    int cp = rc_padded(r->be, b->c);
    for (int g = 0; g < b->n; g++)
        for (int channel = 0; channel < cp; channel++)
            padded[g * cp + channel] = channel < b->c ? from[g * b->c + channel] : 0;
    r->be->write_real64(r->be, r->memory[buffer], padded, (size_t)b->n * (size_t)cp);
}

/* Integers, bytes and floats of the backend's own width: through a host copy of that type. */
static void write_converted(rc_run *r, int buffer, const double *from, void *copy)
{
    const rc_buffer *b = &r->c->buffer[buffer];
    for (size_t i = 0; i < b->count; i++) {
        switch (b->kind) {
        case RC_BUFFER_FLOAT: ((float *)copy)[i] = (float)from[i]; break;
        case RC_BUFFER_INT: ((int32_t *)copy)[i] = (int32_t)from[i]; break;
        case RC_BUFFER_BYTE: ((uint8_t *)copy)[i] = (uint8_t)from[i]; break;
        default: ((double *)copy)[i] = from[i]; break;
        }
    }
    r->be->write_bytes(r->be, r->memory[buffer], copy, r->bytes[buffer]);
}

/* copy: room for the block. */
static void write_buffer(rc_run *r, int buffer, const double *from, void *copy)
{
    const rc_buffer *b = &r->c->buffer[buffer];
    switch (b->kind) {
    case RC_BUFFER_ACT: {
        rc_tensor t = {
            .n = b->n, .h = b->h, .w = b->w, .c = b->c, .groups = 1, .group_end = {b->n}, .raw = r->memory[buffer]};
        r->be->write_act(r->be, &t, from);
        break;
    }
    case RC_BUFFER_REAL:
    case RC_BUFFER_PARAMETER: r->be->write_real64(r->be, r->memory[buffer], from, b->count); break;
    case RC_BUFFER_CHANNEL: write_channels(r, buffer, from, copy); break;
    case RC_BUFFER_STEP: r->be->write_bytes(r->be, r->memory[buffer], &r->c->step, sizeof(rc_step)); break;
    default: write_converted(r, buffer, from, copy); break;
    }
}

rc_status rc_run_load(rc_run *r, int changed, const double *instead)
{
    r->complaint[0] = 0;
    for (int i = 0; i < r->c->buffers; i++) {
        const rc_buffer *b = &r->c->buffer[i];
        size_t before = RC_GUARD_BYTES + misalignment(r, i), block = before + r->bytes[i] + RC_GUARD_BYTES;
        /* Channels are padded on the host, in double, whatever the size of a real. */
        size_t widest = block > 2 * r->bytes[i] ? block : 2 * r->bytes[i];
        char *copy = rc_alloc(NULL, widest);
        if (!copy)
            return RC_OUT_OF_MEMORY;
        memset(copy, GUARD_BYTE, block);
        memset(copy + before, NAN_BYTE, r->bytes[i]);
        r->be->write_bytes(r->be, r->block[i], copy, block);
        if (b->host)
            write_buffer(r, i, i == changed ? instead : b->host, copy);
        rc_free(NULL, copy);
    }
    return RC_OK;
}

rc_status rc_run_execute(rc_run *r)
{
    r->c->operation->run(r);
    return r->be->sync(r->be);
}

/* ---- and back ------------------------------------------------------------------------------------------------- */

void rc_run_read_bytes(const rc_run *r, int buffer, void *to)
{
    r->be->read_bytes(r->be, to, r->memory[buffer], r->bytes[buffer]);
}

/* Padding included: rows of cp. */
static void read_padded(const rc_run *r, int buffer, double *to)
{
    const rc_buffer *b = &r->c->buffer[buffer];
    int cp = rc_padded(r->be, b->c);
    if (b->kind == RC_BUFFER_ACT) {
        rc_tensor shape = {.n = b->n, .h = b->h, .w = b->w, .c = cp, .groups = 1, .group_end = {b->n}};
        r->be->read_act(r->be, to, &shape, r->memory[buffer]);
    } else {
        r->be->read_real64(r->be, to, r->memory[buffer], (size_t)b->n * (size_t)cp);
    }
}

void rc_run_read(const rc_run *r, int buffer, double *to)
{
    const rc_buffer *b = &r->c->buffer[buffer];
    rc_backend *be = r->be;
    switch (b->kind) {
    case RC_BUFFER_ACT: {
        rc_tensor shape = {.n = b->n, .h = b->h, .w = b->w, .c = b->c, .groups = 1, .group_end = {b->n}};
        be->read_act(be, to, &shape, r->memory[buffer]);
        break;
    }
    case RC_BUFFER_CHANNEL:
        for (int g = 0; g < b->n; g++) {
            const void *row = rc_real_at(be, r->memory[buffer], (size_t)g * (size_t)rc_padded(be, b->c));
            be->read_real64(be, to + (size_t)g * (size_t)b->c, row, (size_t)b->c);
        }
        break;
    case RC_BUFFER_REAL:
    case RC_BUFFER_PARAMETER: be->read_real64(be, to, r->memory[buffer], b->count); break;
    case RC_BUFFER_DOUBLE: be->read_bytes(be, to, r->memory[buffer], r->bytes[buffer]); break;
    case RC_BUFFER_BYTE: /* likewise */
        be->read_bytes(be, (char *)to + b->count * 7, r->memory[buffer], b->count);
        for (size_t i = 0; i < b->count; i++)
            to[i] = ((const unsigned char *)to)[b->count * 7 + i];
        break;
    default: /* integers: into the upper half of `to`, and spread out from there */
        be->read_bytes(be, (char *)to + b->count * sizeof(int32_t), r->memory[buffer], r->bytes[buffer]);
        for (size_t i = 0; i < b->count; i++) {
            int32_t value;
            memcpy(&value, (const char *)to + (b->count + i) * sizeof value, sizeof value);
            to[i] = value;
        }
        break;
    }
}

/* ---- what must not have changed ------------------------------------------------------------------------------- */

static bool guards_intact(const char *copy, size_t before, size_t bytes)
{
    for (size_t i = 0; i < before; i++)
        if ((unsigned char)copy[i] != GUARD_BYTE)
            return false;
    for (size_t i = 0; i < RC_GUARD_BYTES; i++)
        if ((unsigned char)copy[before + bytes + i] != GUARD_BYTE)
            return false;
    return true;
}

static bool padding_zero(const rc_run *r, int buffer, double *padded)
{
    const rc_buffer *b = &r->c->buffer[buffer];
    size_t cp = (size_t)rc_padded(r->be, b->c), c = (size_t)b->c, rows = b->count / c;
    if (cp == c || (b->kind != RC_BUFFER_ACT && b->kind != RC_BUFFER_CHANNEL))
        return true;
    read_padded(r, buffer, padded);
    for (size_t row = 0; row < rows; row++)
        for (size_t channel = c; channel < cp; channel++)
            if (padded[row * cp + channel] != 0)
                return false;
    return true;
}

/* An input holds what was written to it: write it again to other memory and compare the bytes. */
static rc_status input_unchanged(rc_run *r, int buffer, const char *found, bool *same)
{
    rc_run other = *r;
    size_t bytes = r->bytes[buffer];
    char *copy = rc_alloc(NULL, 2 * bytes + RC_GUARD_BYTES);
    rc_status status = copy ? r->be->alloc(r->be, bytes, &other.memory[buffer]) : RC_OUT_OF_MEMORY;
    if (status == RC_OK) {
        write_buffer(&other, buffer, r->c->buffer[buffer].host, copy);
        rc_run_read_bytes(&other, buffer, copy);
        *same = memcmp(copy, found, bytes) == 0;
        r->be->release(r->be, other.memory[buffer]);
    }
    rc_free(NULL, copy);
    return status;
}

rc_status rc_run_inspect(rc_run *r, bool *sound)
{
    rc_status status = RC_OK;
    for (int i = 0; status == RC_OK && i < r->c->buffers && !r->complaint[0]; i++) {
        const rc_buffer *b = &r->c->buffer[i];
        size_t before = RC_GUARD_BYTES + misalignment(r, i), block = before + r->bytes[i] + RC_GUARD_BYTES;
        /* Room for the padded content as doubles: at most 4 times the bytes of a 2-byte type. */
        char *copy = rc_alloc(NULL, block + 4 * r->bytes[i]);
        if (!copy)
            return RC_OUT_OF_MEMORY;
        r->be->read_bytes(r->be, copy, r->block[i], block);
        bool same = true;
        if (!guards_intact(copy, before, r->bytes[i]))
            snprintf(r->complaint, sizeof r->complaint, "wrote outside of buffer '%s'", b->name);
        else if (b->role == RC_IN)
            status = input_unchanged(r, i, copy + before, &same);
        else if (b->role != RC_SCRATCH && b->role != RC_STATE && !padding_zero(r, i, (double *)copy))
            snprintf(r->complaint, sizeof r->complaint, "pad channels of '%s' are not zero", b->name);
        if (!same)
            snprintf(r->complaint, sizeof r->complaint, "changed its input '%s'", b->name);
        rc_free(NULL, copy);
    }
    *sound = !r->complaint[0];
    return status;
}
