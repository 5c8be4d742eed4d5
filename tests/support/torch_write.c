#include "support/torch_write.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include <cmocka.h>

typedef struct bytes {
    uint8_t *data;
    size_t size, capacity;
} bytes;

static void put(bytes *b, const void *data, size_t size)
{
    if (b->size + size > b->capacity) {
        b->capacity = 2 * (b->size + size) + 64;
        b->data = realloc(b->data, b->capacity);
        assert_non_null(b->data);
    }
    if (size > 0)
        memcpy(b->data + b->size, data, size);
    b->size += size;
}

static void put_number(bytes *b, uint64_t value, int size)
{
    for (int i = 0; i < size; i++)
        put(b, &(uint8_t){(uint8_t)(value >> (8 * i))}, 1);
}

static void put_text(bytes *b, const char *text)
{
    put(b, text, strlen(text));
}

/* ---- pickles ---------------------------------------------------------------------------------------------------- */

static void put_string(bytes *b, const char *text, bool framed)
{
    put_text(b, framed ? "\x8C" : "X");
    put_number(b, strlen(text), framed ? 1 : 4);
    put_text(b, text);
    if (framed)
        put_text(b, "\x94");
}

static void put_function(bytes *b, const char *module, const char *name, bool framed)
{
    if (framed) {
        put_string(b, module, true);
        put_string(b, name, true);
        put_text(b, "\x93\x94");
    } else {
        char text[128];
        snprintf(text, sizeof text, "c%s\n%s\n", module, name);
        put_text(b, text);
    }
}

/* A whole pickle of what `inside` holds. */
static void put_pickle(bytes *b, bytes inside, bool framed)
{
    put_text(b, framed ? "\x80\x04\x95" : "\x80\x02");
    if (framed)
        put_number(b, inside.size, 8);
    put(b, inside.data, inside.size);
    free(inside.data);
}

static void put_integer(bytes *b, uint64_t value)
{
    put_text(b, "J");
    put_number(b, value, 4);
}

static void put_numbers(bytes *b, const int64_t *values, int count)
{
    put_text(b, "(");
    for (int i = 0; i < count; i++)
        put_integer(b, (uint64_t)values[i]);
    put_text(b, "t");
}

static const char *storage_type(rc_dtype dtype)
{
    switch (dtype) {
    case RC_DTYPE_F32: return "FloatStorage";
    case RC_DTYPE_F64: return "DoubleStorage";
    case RC_DTYPE_F16: return "HalfStorage";
    case RC_DTYPE_BF16: return "BFloat16Storage";
    case RC_DTYPE_I64: return "LongStorage";
    default: return "ByteStorage";
    }
}

static void put_tensor(bytes *b, const rc_named_tensor *tensor, int number, const torch_style *style)
{
    int64_t stride[RC_TENSOR_DIMS], step = 1;
    char text[512];
    for (int i = tensor->dims - 1; i >= 0; step *= tensor->shape[i--])
        stride[i] = step;
    snprintf(text, sizeof text, "%s%s", style->prefix != NULL ? style->prefix : "", tensor->name);
    put_string(b, text, style->framed);
    put_function(b, "torch._utils", "_rebuild_tensor_v2", style->framed);
    put_text(b, "((");
    put_string(b, "storage", style->framed);
    put_function(b, "torch", storage_type(tensor->dtype), style->framed);
    snprintf(text, sizeof text, "%d", number);
    put_string(b, text, style->framed);
    put_string(b, "cpu", style->framed);
    put_integer(b, rc_named_tensor_count(tensor));
    put_text(b, style->old ? "NtQ" : "tQ");
    put_integer(b, 0);
    put_numbers(b, tensor->shape, tensor->dims);
    put_numbers(b, stride, tensor->dims);
    put_text(b, "\x89");
    put_function(b, "collections", "OrderedDict", style->framed);
    put_text(b, style->python2 ? "]\x85RtR" : ")RtR");
}

static bytes write_pickle(const rc_named_tensor *tensors, int count, const torch_style *style)
{
    bytes b = {0}, whole = {0};
    if (style->inside != NULL) {
        put_text(&b, "}");
        put_string(&b, "epoch", style->framed);
        put_integer(&b, 7);
        put_text(&b, "s");
        put_string(&b, "seed", style->framed);
        put(&b, "\x8A\x09\1\2\3\4\5\6\7\x80\0s", 12); /* 2^63 and more */
        if (style->python2) {                         /* optimisers had addresses there */
            put_string(&b, "params", false);
            put_text(&b, "](I139979253349104\nes");
        }
        put_string(&b, style->inside, style->framed);
    }
    put_function(&b, "collections", "OrderedDict", style->framed);
    put_text(&b, style->python2 ? "](" : ")R(");
    for (int i = 0; i < count; i++) {
        put_text(&b, style->python2 ? "](" : "");
        put_tensor(&b, &tensors[i], i, style);
        put_text(&b, style->python2 ? "e" : "");
    }
    put_text(&b, style->python2 ? "e\x85R}" : "u}"); /* as a module's state_dict() has an attribute */
    put_string(&b, "_metadata", style->framed);
    put_text(&b, style->inside != NULL ? "}sbs." : "}sb.");
    put_pickle(&whole, b, style->framed);
    return whole;
}

/* ---- archives --------------------------------------------------------------------------------------------------- */

static void put_entry(bytes *zip, bytes *directory, const char *name, const void *data, size_t size,
                      const torch_style *style)
{
    static const char comment[] = "of an entry";
    bool deflated = style->deflated;
    uint32_t checksum = (uint32_t)crc32_z(0, data, size), at = (uint32_t)zip->size;
    size_t room = compressBound((uLong)size) + 64, packed = size;
    uint8_t *block = NULL;
    if (deflated) {
        z_stream stream = {0};
        block = malloc(room);
        assert_non_null(block);
        assert_int_equal(deflateInit2(&stream, 6, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
        stream.next_in = (Bytef *)(uintptr_t)data;
        stream.avail_in = (uInt)size;
        stream.next_out = block;
        stream.avail_out = (uInt)room;
        assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
        packed = room - stream.avail_out;
        deflateEnd(&stream);
    }
    bytes shared = {0};
    put_number(&shared, 0, 4); /* version, flags */
    put_number(&shared, deflated ? 8 : 0, 2);
    put_number(&shared, 0, 4); /* time */
    put_number(&shared, checksum, 4);
    put_number(&shared, style->large ? UINT32_MAX : packed, 4);
    put_number(&shared, style->large ? UINT32_MAX : size, 4);
    put_number(&shared, strlen(name), 2);
    put_number(zip, 0x04034b50, 4);
    put(zip, shared.data, shared.size);
    put_number(zip, style->large ? 20 : 0, 2);
    put_text(zip, name);
    if (style->large) {
        put_number(zip, 1 | 16 << 16, 4);
        put_number(zip, size, 8);
        put_number(zip, packed, 8);
    }
    put(zip, deflated ? block : data, packed);
    put_number(directory, 0x02014b50, 4);
    put_number(directory, 0, 2);
    put(directory, shared.data, shared.size);
    put_number(directory, style->large ? 6 + 28 : 0, 2);
    put_number(directory, style->large ? strlen(comment) : 0, 2);
    put_number(directory, 0, 8); /* disk, attributes */
    put_number(directory, style->large ? UINT32_MAX : at, 4);
    put_text(directory, name);
    if (style->large) {
        put_text(directory, "UT\2");
        put_number(directory, 0, 3); /* a field that nobody asks for */
        put_number(directory, 1 | 24 << 16, 4);
        put_number(directory, size, 8);
        put_number(directory, packed, 8);
        put_number(directory, at, 8);
        put_text(directory, comment);
    }
    free(shared.data);
    free(block);
}

static bytes write_archive(const rc_named_tensor *tensors, int count, const torch_style *style)
{
    bytes zip = {0}, directory = {0}, pickle = write_pickle(tensors, count, style);
    put_entry(&zip, &directory, "net/data.pkl", pickle.data, pickle.size, style);
    put_entry(&zip, &directory, "net/byteorder", "little", 6, style);
    for (int i = 0; i < count; i++) {
        char name[64];
        snprintf(name, sizeof name, "net/data/%d", i);
        put_entry(&zip, &directory, name, tensors[i].data, rc_named_tensor_bytes(&tensors[i]), style);
    }
    uint64_t at = zip.size, entries = (uint64_t)count + 2;
    put(&zip, directory.data, directory.size);
    if (style->large) {
        uint64_t record = zip.size;
        put_number(&zip, 0x06064b50, 4);
        put_number(&zip, 44, 8);
        put_number(&zip, 0x2D032D, 4); /* versions */
        put_number(&zip, 0, 8);
        put_number(&zip, entries, 8);
        put_number(&zip, entries, 8);
        put_number(&zip, directory.size, 8);
        put_number(&zip, at, 8);
        put_number(&zip, 0x07064b50, 4);
        put_number(&zip, 0, 4);
        put_number(&zip, record, 8);
        put_number(&zip, 1, 4);
    }
    put_number(&zip, 0x06054b50, 4);
    put_number(&zip, 0, 4);
    put_number(&zip, style->large ? UINT16_MAX : entries, 2);
    put_number(&zip, style->large ? UINT16_MAX : entries, 2);
    put_number(&zip, style->large ? UINT32_MAX : directory.size, 4);
    put_number(&zip, style->large ? UINT32_MAX : at, 4);
    put_number(&zip, 0, 2);
    free(directory.data);
    free(pickle.data);
    return zip;
}

/* ---- the kind before archives ----------------------------------------------------------------------------------- */

static bytes write_old(const rc_named_tensor *tensors, int count, const torch_style *style)
{
    bytes file = {0}, magic = {0}, protocol = {0}, system = {0}, keys = {0};
    bytes pickle = write_pickle(tensors, count, style);
    put(&magic, "\x8A\x0A\x6C\xFC\x9C\x46\xF9\x20\x6A\xA8\x50\x19.", 13);
    put_pickle(&file, magic, style->framed);
    put(&protocol, "M\xE9\x03.", 4);
    put_pickle(&file, protocol, style->framed);
    put_text(&system, "}(");
    put_string(&system, "protocol_version", style->framed);
    put_integer(&system, 1001);
    put_string(&system, "little_endian", style->framed);
    put_text(&system, "\x88u.");
    put_pickle(&file, system, style->framed);
    put(&file, pickle.data, pickle.size);
    put_text(&keys, "](");
    for (int i = count - 1; i >= 0; i--) { /* any order */
        char key[16];
        snprintf(key, sizeof key, "%d", i);
        put_string(&keys, key, style->framed);
    }
    put_text(&keys, "e.");
    put_pickle(&file, keys, style->framed);
    for (int i = count - 1; i >= 0; i--) {
        put_number(&file, rc_named_tensor_count(&tensors[i]), 8);
        put(&file, tensors[i].data, rc_named_tensor_bytes(&tensors[i]));
    }
    free(pickle.data);
    return file;
}

uint8_t *torch_write(const rc_named_tensor *tensors, int count, torch_style style, size_t *size)
{
    bytes written = style.old ? write_old(tensors, count, &style) : write_archive(tensors, count, &style);
    *size = written.size;
    return written.data;
}
