#include "base/protobuf.h"

#include <string.h>

#include "base/memory.h"

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

bool rc_protobuf_insert(rc_protobuf *p, size_t at, size_t size)
{
    if (p->failed)
        return false;
    if (size > p->room - p->used) {
        size_t room = 2 * p->room > p->used + size ? 2 * p->room : p->used + size + 512;
        uint8_t *grown = rc_alloc(NULL, room);
        if (grown == NULL) {
            p->failed = true;
            return false;
        }
        if (p->used > 0)
            memcpy(grown, p->data, p->used);
        rc_free(NULL, p->data);
        p->data = grown;
        p->room = room;
    }
    memmove(p->data + at + size, p->data + at, p->used - at);
    p->used += size;
    return true;
}

static void append(rc_protobuf *p, const void *bytes, size_t size)
{
    size_t at = p->used;
    if (rc_protobuf_insert(p, at, size) && size > 0)
        memcpy(p->data + at, bytes, size);
}

void rc_protobuf_append_fixed(rc_protobuf *p, uint64_t value, int bytes)
{
    uint8_t text[8];
    for (int i = 0; i < bytes; i++)
        text[i] = (uint8_t)(value >> 8 * i);
    append(p, text, (size_t)bytes);
}

void rc_protobuf_append_double(rc_protobuf *p, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    rc_protobuf_append_fixed(p, bits, 8);
}

/* Seven bits a byte, the lowest first; all but the last have their highest bit set. Returns how many bytes. */
static size_t write_varint(uint64_t value, uint8_t text[10])
{
    size_t count = 0;
    for (; value >= 0x80; value >>= 7)
        text[count++] = (uint8_t)(value | 0x80);
    text[count++] = (uint8_t)value;
    return count;
}

static void append_varint(rc_protobuf *p, uint64_t value)
{
    uint8_t text[10];
    append(p, text, write_varint(value, text));
}

/* ---- fields ------------------------------------------------------------------------------------------------------ */

enum wire { VARINT, FIXED64, BYTES, FIXED32 = 5 };

/* What a field begins with: its number and how it is written. */
static void append_key(rc_protobuf *p, int field, enum wire wire)
{
    append_varint(p, (uint64_t)field << 3 | (uint64_t)wire);
}

void rc_protobuf_put_whole(rc_protobuf *p, int field, uint64_t value)
{
    append_key(p, field, VARINT);
    append_varint(p, value);
}

void rc_protobuf_put_float(rc_protobuf *p, int field, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    append_key(p, field, FIXED32);
    rc_protobuf_append_fixed(p, bits, 4);
}

void rc_protobuf_put_double(rc_protobuf *p, int field, double value)
{
    append_key(p, field, FIXED64);
    rc_protobuf_append_double(p, value);
}

size_t rc_protobuf_begin(rc_protobuf *p, int field)
{
    append_key(p, field, BYTES);
    return p->used;
}

void rc_protobuf_end(rc_protobuf *p, size_t at)
{
    uint8_t text[10];
    size_t count = write_varint(p->used - at, text);
    if (rc_protobuf_insert(p, at, count))
        memcpy(p->data + at, text, count);
}

void rc_protobuf_put_bytes(rc_protobuf *p, int field, const void *bytes, size_t size)
{
    size_t at = rc_protobuf_begin(p, field);
    append(p, bytes, size);
    rc_protobuf_end(p, at);
}

void rc_protobuf_put_text(rc_protobuf *p, int field, const char *text)
{
    rc_protobuf_put_bytes(p, field, text, strlen(text));
}
