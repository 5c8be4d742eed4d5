/* Pictures that are cut off anywhere, or have other bits: a status, an image or none, and nothing held. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/rng.h"
#include "data/image.h"
#include "support/data_files.h"
#include "support/pictures.h"

/* Whatever comes: a status, an image or none, and nothing held. */
static rc_status decode_quietly(const uint8_t *data, size_t size)
{
    rc_image image;
    size_t before = rc_bytes_allocated();
    /* A block of its own size, so that reading beyond it shows under the sanitizers. */
    uint8_t *copy = malloc(size > 0 ? size : 1);
    assert_non_null(copy);
    if (size > 0)
        memcpy(copy, data, size);
    rc_status status = rc_image_decode(copy, size, &(rc_image_options){.max_pixels = 1 << 16}, &image);
    assert_true(status == RC_OK ? image.pixels != NULL : image.pixels == NULL);
    rc_image_free(&image);
    free(copy);
    assert_int_equal(rc_bytes_allocated(), before);
    return status;
}

static void truncated_pictures_are_refused(void **state)
{
    (void)state;
    picture list[128];
    int count = pictures_list(list, 128);
    for (int i = 0; i < count; i++) {
        uint8_t *data;
        size_t size;
        pictures_bytes(list[i].path, &data, &size);
        bool text = strncmp(list[i].name, "text", 4) == 0, jpeg = data[0] == 0xFF;
        bool gif = memcmp(data, "GIF", 3) == 0, tiff = memcmp(data, "II*", 3) == 0;
        bool several = strcmp(list[i].name, "animated.gif") == 0 || strcmp(list[i].name, "pages.tif") == 0;
        for (size_t kept = 0; kept < size; kept++) {
            rc_status status = decode_quietly(data, kept);
            /* A JPEG may lack its last marker, pictures in text their last digits, a GIF its last byte, a TIFF the
             * place of a second page, and both the pictures after the first. */
            bool enough = ((jpeg || text) && kept + 3 >= size) || (gif && kept + 1 >= size) ||
                          (tiff && kept + 4 >= size) || (several && kept > size / 3);
            if (status == RC_OK && !enough)
                fail_msg("%s decodes with %zu of %zu bytes", list[i].name, kept, size);
        }
        rc_free(NULL, data);
    }
}

/* Its decoder makes pixels of zeros after the last byte and warns of nothing. */
static void arithmetic_jpeg_without_an_end_is_refused(void **state)
{
    (void)state;
    uint8_t *data;
    size_t size;
    pictures_bytes(RC_SOURCE_DIR "/tests/fuzz/corpus/jpeg/found-72e12dca", &data, &size);
    assert_int_equal(decode_quietly(data, size), RC_FORMAT);
    assert_non_null(strstr(rc_message(), "JPEG"));
    rc_free(NULL, data);
}

static void flipped_bits_do_no_harm(void **state)
{
    (void)state;
    picture list[128];
    int count = pictures_list(list, 128);
    for (int i = 0; i < count; i++) {
        uint8_t *data;
        size_t size;
        pictures_bytes(list[i].path, &data, &size);
        rc_rng rng = {3, (uint64_t)i};
        for (uint64_t round = 0; round < 60; round++) {
            uint32_t at = rc_rng_below(rng, 2 * round, (uint32_t)size);
            uint8_t flip = (uint8_t)(1u << (rc_rng_bits(rng, 2 * round + 1) & 7));
            data[at] ^= flip;
            decode_quietly(data, size);
            if (round % 2 == 0) /* half of them stay */
                data[at] ^= flip;
        }
        rc_free(NULL, data);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(truncated_pictures_are_refused),
        cmocka_unit_test(arithmetic_jpeg_without_an_end_is_refused),
        cmocka_unit_test(flipped_bits_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
