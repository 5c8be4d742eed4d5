#include "experiment/tfevents.h"

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
    rc_protobuf_put_double(&e->out, EVENT_TIME, time);
    rc_protobuf_put_whole(&e->out, EVENT_STEP, (uint64_t)step);
}

void rc_tf_version(rc_tf_event *e)
{
    static const char version[] = "brain.Event:2";
    rc_protobuf_put_text(&e->out, EVENT_VERSION, version);
}

void rc_tf_start(rc_tf_event *e)
{
    size_t at = rc_protobuf_begin(&e->out, EVENT_SESSION);
    rc_protobuf_put_whole(&e->out, SESSION_STATUS, SESSION_STARTS);
    rc_protobuf_end(&e->out, at);
}

/* A value of the summary; it ends like every message. */
static size_t begin_value(rc_tf_event *e, const char *tag)
{
    if (e->summary == 0)
        e->summary = rc_protobuf_begin(&e->out, EVENT_SUMMARY);
    size_t at = rc_protobuf_begin(&e->out, SUMMARY_VALUE);
    rc_protobuf_put_text(&e->out, VALUE_TAG, tag);
    return at;
}

void rc_tf_scalar(rc_tf_event *e, const char *tag, double number)
{
    size_t at = begin_value(e, tag);
    rc_protobuf_put_float(&e->out, VALUE_SCALAR, (float)number);
    rc_protobuf_end(&e->out, at);
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
    size_t histogram = rc_protobuf_begin(&e->out, VALUE_HISTOGRAM);
    rc_protobuf_put_double(&e->out, HISTOGRAM_LEAST, -0.5);
    rc_protobuf_put_double(&e->out, HISTOGRAM_MOST, (double)count - 0.5);
    rc_protobuf_put_double(&e->out, HISTOGRAM_COUNT, all);
    rc_protobuf_put_double(&e->out, HISTOGRAM_SUM, sum);
    rc_protobuf_put_double(&e->out, HISTOGRAM_SQUARES, squares);
    size_t row = rc_protobuf_begin(&e->out, HISTOGRAM_LIMITS);
    for (size_t i = 0; i < count; i++)
        rc_protobuf_append_double(&e->out, (double)i + 0.5);
    rc_protobuf_end(&e->out, row);
    row = rc_protobuf_begin(&e->out, HISTOGRAM_BARS);
    for (size_t i = 0; i < count; i++)
        rc_protobuf_append_double(&e->out, height[i]);
    rc_protobuf_end(&e->out, row);
    rc_protobuf_end(&e->out, histogram);
    rc_protobuf_end(&e->out, at);
}

void rc_tf_image(rc_tf_event *e, const char *tag, int height, int width, const void *png, size_t size)
{
    enum { RGB = 3 };
    size_t at = begin_value(e, tag);
    size_t image = rc_protobuf_begin(&e->out, VALUE_IMAGE);
    rc_protobuf_put_whole(&e->out, IMAGE_HEIGHT, (uint64_t)height);
    rc_protobuf_put_whole(&e->out, IMAGE_WIDTH, (uint64_t)width);
    rc_protobuf_put_whole(&e->out, IMAGE_COLOURS, RGB);
    rc_protobuf_put_bytes(&e->out, IMAGE_PNG, png, size);
    rc_protobuf_end(&e->out, image);
    rc_protobuf_end(&e->out, at);
}

/* length (8 bytes), its checksum (4), the event, its checksum (4). */
rc_status rc_tf_finish(rc_tf_event *e, uint8_t **record, size_t *size)
{
    enum { HEADER = 12, LENGTH = 8 };
    if (e->summary > 0)
        rc_protobuf_end(&e->out, e->summary);
    size_t length = e->out.used;
    if (rc_protobuf_insert(&e->out, 0, HEADER)) {
        for (int i = 0; i < LENGTH; i++)
            e->out.data[i] = (uint8_t)((uint64_t)length >> 8 * i);
        uint32_t crc = rc_crc32c_masked(e->out.data, LENGTH);
        for (int i = 0; i < 4; i++)
            e->out.data[LENGTH + i] = (uint8_t)(crc >> 8 * i);
        rc_protobuf_append_fixed(&e->out, rc_crc32c_masked(e->out.data + HEADER, length), 4);
    }
    if (e->out.failed)
        rc_free(NULL, e->out.data);
    *record = e->out.failed ? NULL : e->out.data;
    *size = e->out.failed ? 0 : e->out.used;
    e->out.data = NULL;
    return *record != NULL ? RC_OK : rc_fail(RC_OUT_OF_MEMORY, "no memory for an event of %zu bytes", length);
}
