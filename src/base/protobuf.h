/* Writing the encoding of protocol buffers: a message is a row of fields, each with its number, and a message inside of
 * another is a field of bytes. This is code of our own because that is all of it: what Google's library adds is code
 * generated from descriptions, a C++ runtime and memory that cannot run out.
 *
 *     rc_protobuf p = {0};
 *     rc_protobuf_put_whole(&p, 1, 8);
 *     size_t graph = rc_protobuf_begin(&p, 7);
 *     rc_protobuf_put_text(&p, 2, "net");
 *     rc_protobuf_end(&p, graph);
 *     ... p.data, p.used ...
 *     rc_free(NULL, p.data);
 *
 * After memory has run out once, every call does nothing and `failed` is set. */
#ifndef RC_BASE_PROTOBUF_H
#define RC_BASE_PROTOBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct rc_protobuf {
    uint8_t *data; /* `used` of `room` bytes; free it with rc_free(NULL, ...) */
    size_t used, room;
    bool failed; /* no memory */
} rc_protobuf;

void rc_protobuf_put_whole(rc_protobuf *p, int field, uint64_t value); /* int32, int64, enum: cast to int64_t first */
void rc_protobuf_put_float(rc_protobuf *p, int field, float value);
void rc_protobuf_put_double(rc_protobuf *p, int field, double value);
void rc_protobuf_put_bytes(rc_protobuf *p, int field, const void *bytes, size_t size);
void rc_protobuf_put_text(rc_protobuf *p, int field, const char *text);

/* A message inside of another, or a row of numbers: begin returns where it begins, end puts its length there. */
size_t rc_protobuf_begin(rc_protobuf *p, int field);
void rc_protobuf_end(rc_protobuf *p, size_t at);

/* Numbers without a field: of a row, or of what surrounds a message. Little-endian, whatever the machine. */
void rc_protobuf_append_fixed(rc_protobuf *p, uint64_t value, int bytes);
void rc_protobuf_append_double(rc_protobuf *p, double value);

/* Makes room for `size` bytes more at `at`, in front of what is there; false: there is no memory. */
bool rc_protobuf_insert(rc_protobuf *p, size_t at, size_t size);

#endif
