#include "experiment/tfevents.h"

#include <string.h>

#include "base/memory.h"

uint32_t rc_crc32c(const void *data, size_t size)
{
    const uint8_t *byte = data;
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < size; i++) {
        crc ^= byte[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0);
    }
    return ~crc;
}

/* A checksum of bytes that hold checksums is a bad one, so that records rotate theirs and add a constant. */
uint32_t rc_crc32c_masked(const void *data, size_t size)
{
    uint32_t crc = rc_crc32c(data, size);
    return (crc >> 15 | crc << 17) + 0xA282EAD8u;
}

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

/* Makes room for `size` bytes more at `at`, in front of what is there; false: there is no memory. */
static bool insert(rc_tf_event *e, size_t at, size_t size)
{
    if (e->failed)
        return false;
    if (size > e->room - e->used) {
        size_t room = 2 * e->room > e->used + size ? 2 * e->room : e->used + size + 512;
        uint8_t *grown = rc_alloc(NULL, room);
        if (grown == NULL) {
            e->failed = true;
            return false;
        }
        if (e->used > 0)
            memcpy(grown, e->data, e->used);
        rc_free(NULL, e->data);
        e->data = grown;
        e->room = room;
    }
    memmove(e->data + at + size, e->data + at, e->used - at);
    e->used += size;
    return true;
}

static void append(rc_tf_event *e, const void *bytes, size_t size)
{
    size_t at = e->used;
    if (insert(e, at, size) && size > 0)
        memcpy(e->data + at, bytes, size);
}

/* Numbers of the file are little-endian, whatever the machine. */
static void append_fixed(rc_tf_event *e, uint64_t value, int bytes)
{
    uint8_t text[8];
    for (int i = 0; i < bytes; i++)
        text[i] = (uint8_t)(value >> 8 * i);
    append(e, text, (size_t)bytes);
}

static void append_double(rc_tf_event *e, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    append_fixed(e, bits, 8);
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

static void append_varint(rc_tf_event *e, uint64_t value)
{
    uint8_t text[10];
    append(e, text, write_varint(value, text));
}

/* ---- fields ------------------------------------------------------------------------------------------------------ */

enum wire { VARINT, FIXED64, BYTES, FIXED32 = 5 };

/* What a field begins with: its number and how it is written. */
static void append_key(rc_tf_event *e, int field, enum wire wire)
{
    append_varint(e, (uint64_t)field << 3 | (uint64_t)wire);
}

static void put_whole(rc_tf_event *e, int field, uint64_t value)
{
    append_key(e, field, VARINT);
    append_varint(e, value);
}

static void put_double(rc_tf_event *e, int field, double value)
{
    append_key(e, field, FIXED64);
    append_double(e, value);
}

/* A message inside of another, or a row of numbers: begin returns where it begins, end puts its length there. */
static size_t begin(rc_tf_event *e, int field)
{
    append_key(e, field, BYTES);
    return e->used;
}

static void end(rc_tf_event *e, size_t at)
{
    uint8_t text[10];
    size_t count = write_varint(e->used - at, text);
    if (insert(e, at, count))
        memcpy(e->data + at, text, count);
}

static void put_bytes(rc_tf_event *e, int field, const void *bytes, size_t size)
{
    size_t at = begin(e, field);
    append(e, bytes, size);
    end(e, at);
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

/* Numbers of fields, as event.proto and summary.proto have them. */
enum { EVENT_TIME = 1, EVENT_STEP, EVENT_VERSION, EVENT_SUMMARY = 5, EVENT_SESSION = 7 };
enum { SESSION_STATUS = 1, SESSION_STARTS = 1 };
enum { SUMMARY_VALUE = 1, VALUE_TAG = 1, VALUE_SCALAR, VALUE_IMAGE = 4, VALUE_HISTOGRAM };
enum { IMAGE_HEIGHT = 1, IMAGE_WIDTH, IMAGE_COLOURS, IMAGE_PNG };
enum { HISTOGRAM_LEAST = 1, HISTOGRAM_MOST, HISTOGRAM_COUNT, HISTOGRAM_SUM, HISTOGRAM_SQUARES, HISTOGRAM_LIMITS };
enum { HISTOGRAM_BARS = HISTOGRAM_LIMITS + 1 };

void rc_tf_begin(rc_tf_event *e, double time, int64_t step)
{
    *e = (rc_tf_event){0};
    put_double(e, EVENT_TIME, time);
    put_whole(e, EVENT_STEP, (uint64_t)step);
}

void rc_tf_version(rc_tf_event *e)
{
    static const char version[] = "brain.Event:2";
    put_bytes(e, EVENT_VERSION, version, sizeof version - 1);
}

void rc_tf_start(rc_tf_event *e)
{
    size_t at = begin(e, EVENT_SESSION);
    put_whole(e, SESSION_STATUS, SESSION_STARTS);
    end(e, at);
}

/* A value of the summary; it ends like every message. */
static size_t begin_value(rc_tf_event *e, const char *tag)
{
    if (e->summary == 0)
        e->summary = begin(e, EVENT_SUMMARY);
    size_t at = begin(e, SUMMARY_VALUE);
    put_bytes(e, VALUE_TAG, tag, strlen(tag));
    return at;
}

void rc_tf_scalar(rc_tf_event *e, const char *tag, double number)
{
    float narrow = (float)number;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    size_t at = begin_value(e, tag);
    append_key(e, VALUE_SCALAR, FIXED32);
    append_fixed(e, bits, 4);
    end(e, at);
}

void rc_tf_histogram(rc_tf_event *e, const char *tag, const double *height, size_t count)
{
    double all = 0, sum = 0, squares = 0;
    for (size_t i = 0; i < count; i++) {
        all += height[i];
        sum += height[i] * (double)i;
        squares += height[i] * (double)i * (double)i;
    }
    size_t at = begin_value(e, tag);
    size_t histogram = begin(e, VALUE_HISTOGRAM);
    put_double(e, HISTOGRAM_LEAST, -0.5);
    put_double(e, HISTOGRAM_MOST, (double)count - 0.5);
    put_double(e, HISTOGRAM_COUNT, all);
    put_double(e, HISTOGRAM_SUM, sum);
    put_double(e, HISTOGRAM_SQUARES, squares);
    size_t row = begin(e, HISTOGRAM_LIMITS);
    for (size_t i = 0; i < count; i++)
        append_double(e, (double)i + 0.5);
    end(e, row);
    row = begin(e, HISTOGRAM_BARS);
    for (size_t i = 0; i < count; i++)
        append_double(e, height[i]);
    end(e, row);
    end(e, histogram);
    end(e, at);
}

void rc_tf_image(rc_tf_event *e, const char *tag, int height, int width, const void *png, size_t size)
{
    enum { RGB = 3 };
    size_t at = begin_value(e, tag);
    size_t image = begin(e, VALUE_IMAGE);
    put_whole(e, IMAGE_HEIGHT, (uint64_t)height);
    put_whole(e, IMAGE_WIDTH, (uint64_t)width);
    put_whole(e, IMAGE_COLOURS, RGB);
    put_bytes(e, IMAGE_PNG, png, size);
    end(e, image);
    end(e, at);
}

/* length (8 bytes), its checksum (4), the event, its checksum (4). */
rc_status rc_tf_finish(rc_tf_event *e, uint8_t **record, size_t *size)
{
    enum { HEADER = 12, LENGTH = 8 };
    if (e->summary > 0)
        end(e, e->summary);
    size_t length = e->used;
    if (insert(e, 0, HEADER)) {
        for (int i = 0; i < LENGTH; i++)
            e->data[i] = (uint8_t)((uint64_t)length >> 8 * i);
        uint32_t crc = rc_crc32c_masked(e->data, LENGTH);
        for (int i = 0; i < 4; i++)
            e->data[LENGTH + i] = (uint8_t)(crc >> 8 * i);
        append_fixed(e, rc_crc32c_masked(e->data + HEADER, length), 4);
    }
    if (e->failed)
        rc_free(NULL, e->data);
    *record = e->failed ? NULL : e->data;
    *size = e->failed ? 0 : e->used;
    e->data = NULL;
    return *record != NULL ? RC_OK : rc_fail(RC_OUT_OF_MEMORY, "no memory for an event of %zu bytes", length);
}
