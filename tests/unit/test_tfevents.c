/* Records for TensorBoard, byte by byte as its own writer makes them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "experiment/tfevents.h"
#include "support/failing_heap.h"
#include "support/succeeds.h"

/* ---- checksums --------------------------------------------------------------------------------------------------- */

/* The values of RFC 3720, and of the usual nine digits. */
static void checksums_are_castagnolis(void **state)
{
    (void)state;
    uint8_t bytes[32] = {0};
    assert_int_equal(rc_crc32c(bytes, 0), 0);
    assert_int_equal(rc_crc32c(bytes, sizeof bytes), 0x8A9136AA);
    memset(bytes, 0xFF, sizeof bytes);
    assert_int_equal(rc_crc32c(bytes, sizeof bytes), 0x62A8AB43);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)i;
    assert_int_equal(rc_crc32c(bytes, sizeof bytes), 0x46DD794E);
    assert_int_equal(rc_crc32c("123456789", 9), 0xE3069283);
    assert_int_equal(rc_crc32c_masked("", 0), 0xA282EAD8);
}

/* ---- records ----------------------------------------------------------------------------------------------------- */

/* What is between the header and the checksum must be these bytes. */
static void expect_event(rc_tf_event *event, const uint8_t *expected, size_t count)
{
    uint8_t *record;
    size_t size;
    SUCCEEDS(rc_tf_finish(event, &record, &size));
    assert_int_equal(size, count + 16);
    assert_memory_equal(record + 12, expected, count);
    rc_free(NULL, record);
}

/* The whole record of a number, made by hand: 26 bytes; their number, 8 bytes; two checksums. */
static void a_record_has_its_length_and_two_checksums(void **state)
{
    (void)state;
    static const uint8_t expected[] = {0x1A, 0,    0,    0,    0,    0, 0, 0, /* 26 bytes */
                                       0x12, 0x9B, 0xD8, 0x2D,                /* the masked checksum of these eight */
                                       0x09, 0,    0,    0,    0,    0, 0, 0xF8,
                                       0x3F,                         /* field 1, 8 bytes: the time, 1.5 */
                                       0x10, 0xAC, 0x02,             /* field 2, varint: the step, 300 */
                                       0x2A, 0x0C,                   /* field 5, 12 bytes: the summary */
                                       0x0A, 0x0A,                   /* its field 1, 10 bytes: a value */
                                       0x0A, 0x03, 'a',  '/',  'b',  /* its field 1, 3 bytes: the tag */
                                       0x15, 0x00, 0x00, 0x80, 0x3E, /* its field 2, 4 bytes: 0.25 */
                                       0xF9, 0xCD, 0xE7, 0xED};      /* the masked checksum of the 26 */
    rc_tf_event event;
    uint8_t *record;
    size_t size;
    rc_tf_begin(&event, 1.5, 300);
    rc_tf_scalar(&event, "a/b", 0.25);
    SUCCEEDS(rc_tf_finish(&event, &record, &size));
    assert_int_equal(size, sizeof expected);
    assert_memory_equal(record, expected, sizeof expected);
    rc_free(NULL, record);
}

static void values_of_an_event_are_one_summary(void **state)
{
    (void)state;
    static const uint8_t expected[] = {0x09, 0,    0,    0,    0,    0,   0,    0xF8, 0x3F, 0x10, 2,
                                       0x2A, 20,   0x0A, 8,    0x0A, 1,   'x',  0x15, 0,    0,    0,
                                       0x3F, 0x0A, 8,    0x0A, 1,    'y', 0x15, 0,    0,    0x80, 0xBF};
    rc_tf_event event;
    rc_tf_begin(&event, 1.5, 2);
    rc_tf_scalar(&event, "x", 0.5);
    rc_tf_scalar(&event, "y", -1);
    expect_event(&event, expected, sizeof expected);
}

static void a_file_begins_with_its_version_and_a_start(void **state)
{
    (void)state;
    static const uint8_t version[] = {0x09, 0,   0,   0,   0,   0,   0,   0xF8, 0x3F, 0x10, 0,   0x1A, 13,
                                      'b',  'r', 'a', 'i', 'n', '.', 'E', 'v',  'e',  'n',  't', ':',  '2'};
    static const uint8_t start[] = {0x09, 0, 0, 0, 0, 0, 0, 0xF8, 0x3F, 0x10, 0, 0x3A, 2, 0x08, 1};
    rc_tf_event event;
    rc_tf_begin(&event, 1.5, 0);
    rc_tf_version(&event);
    expect_event(&event, version, sizeof version);
    rc_tf_begin(&event, 1.5, 0);
    rc_tf_start(&event);
    expect_event(&event, start, sizeof start);
}

static void a_picture_has_its_size_colours_and_file(void **state)
{
    (void)state;
    static const uint8_t expected[] = {0x09, 0,    0,    0,    0,    0,    0,   0xF8, 0x3F, 0x10, 2,
                                       0x2A, 20,   0x0A, 18,   0x0A, 1,    'd', 0x22, 13,   0x08, 20,
                                       0x10, 0xAC, 2,    0x18, 3,    0x22, 4,   0x89, 'P',  'N',  'G'};
    rc_tf_event event;
    rc_tf_begin(&event, 1.5, 2);
    rc_tf_image(&event, "d", 20, 300, "\x89PNG", 4);
    expect_event(&event, expected, sizeof expected);
}

/* One of class 0 and three of class 1: bars that end at 0.5 and 1.5. */
static void a_histogram_has_a_bar_for_every_class(void **state)
{
    (void)state;
    static const uint8_t expected[] = {
        0x09, 0,  0, 0, 0, 0, 0, 0xF8, 0x3F, 0x10, 2, 0x2A, 0x58, 0x0A, 0x56, 0x0A, 1,    'h',  0x2A, 0x51, /* */
        0x09, 0,  0, 0, 0, 0, 0, 0xE0, 0xBF, /* from -0.5 */
        0x11, 0,  0, 0, 0, 0, 0, 0xF8, 0x3F, /* to 1.5 */
        0x19, 0,  0, 0, 0, 0, 0, 0x10, 0x40, /* 4 in all */
        0x21, 0,  0, 0, 0, 0, 0, 0x08, 0x40, /* their sum, 3 */
        0x29, 0,  0, 0, 0, 0, 0, 0x08, 0x40, /* of their squares, 3 */
        0x32, 16, 0, 0, 0, 0, 0, 0,    0xE0, 0x3F, 0, 0,    0,    0,    0,    0,    0xF8, 0x3F,  /* 0.5, 1.5 */
        0x3A, 16, 0, 0, 0, 0, 0, 0,    0xF0, 0x3F, 0, 0,    0,    0,    0,    0,    0x08, 0x40}; /* 1, 3 */
    static const double height[] = {1, 3};
    rc_tf_event event;
    rc_tf_begin(&event, 1.5, 2);
    rc_tf_histogram(&event, "h", height, 2);
    expect_event(&event, expected, sizeof expected);
    static const double three[] = {0, 0, 2}; /* the square of a class is not the class */
    uint8_t *record;
    size_t size;
    rc_tf_begin(&event, 1.5, 2);
    rc_tf_histogram(&event, "h", three, 3);
    SUCCEEDS(rc_tf_finish(&event, &record, &size));
    static const uint8_t sums[] = {0x21, 0, 0, 0, 0, 0, 0, 0x10, 0x40, 0x29, 0, 0, 0, 0, 0, 0, 0x20, 0x40};
    assert_memory_equal(record + 12 + 20 + 27, sums, sizeof sums); /* 4 and 8 */
    rc_free(NULL, record);
}

/* Lengths of more than 127 and 16383 bytes take two and three bytes. */
static void long_messages_say_how_long_they_are(void **state)
{
    (void)state;
    static uint8_t png[20000];
    memset(png, 7, sizeof png);
    for (int i = 0; i < 2; i++) {
        static const uint8_t begins[2][17] = {
            {0x2A, 0xE3, 0x01, 0x0A, 0xE0, 0x01, 0x0A, 1, 'd', 0x22, 0xDA, 0x01, 0x08, 1, 0x10, 1, 0x18},
            {0x2A, 0xA9, 0x9C, 0x01, 0x0A, 0xA5, 0x9C, 0x01, 0x0A, 1, 'd', 0x22, 0x9E, 0x9C, 0x01, 0x08, 1}};
        size_t count = i == 0 ? 209 : 20000 - 12, size;
        uint8_t *record;
        rc_tf_event event;
        rc_tf_begin(&event, 1.5, 2);
        rc_tf_image(&event, "d", 1, 1, png, count);
        SUCCEEDS(rc_tf_finish(&event, &record, &size));
        assert_memory_equal(record + 12 + 11, begins[i], sizeof begins[i]);
        assert_int_equal(record[0] | record[1] << 8 | record[2] << 16, size - 16);
        assert_memory_equal(record + size - 4 - count, png, count);
        rc_free(NULL, record);
    }
}

static void without_memory_there_is_no_record(void **state)
{
    (void)state;
    static uint8_t png[3000];
    size_t before = rc_bytes_allocated();
    for (int nth = 1, failed = 1; failed; nth++) {
        rc_tf_event event;
        uint8_t *record;
        size_t size;
        allocation_to_fail = nth;
        rc_tf_begin(&event, 1, 2);
        rc_tf_scalar(&event, "a", 1);
        rc_tf_image(&event, "b", 1, 1, png, sizeof png);
        rc_status status = rc_tf_finish(&event, &record, &size);
        failed = allocation_failed();
        assert_int_equal(status, failed ? RC_OUT_OF_MEMORY : RC_OK);
        assert_int_equal(record == NULL, failed);
        rc_free(NULL, record);
        assert_int_equal(rc_bytes_allocated(), before);
        assert_true(failed || nth > 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checksums_are_castagnolis),
        cmocka_unit_test(a_record_has_its_length_and_two_checksums),
        cmocka_unit_test(values_of_an_event_are_one_summary),
        cmocka_unit_test(a_file_begins_with_its_version_and_a_start),
        cmocka_unit_test(a_picture_has_its_size_colours_and_file),
        cmocka_unit_test(a_histogram_has_a_bar_for_every_class),
        cmocka_unit_test(long_messages_say_how_long_they_are),
        cmocka_unit_test(without_memory_there_is_no_record),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
