/* Every request for memory of the data readers fails once: the call says so, and holds nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/memory.h"
#include "data/dataset.h"
#include "data/image.h"
#include "data/pack.h"
#include "data/stream.h"
#include "data/zip.h"
#include "support/data_sets.h"
#include "support/failing_heap.h"
#include "support/pictures.h"
#include "support/succeeds.h"

/* What the last run has made, as a sum. */
static uLong made;

static uLong expected; /* of the first run, which nothing disturbs */

/* Runs until no request is left to fail. A picture for which a thread had no memory is decoded again: what is made then
 * is the same. */
static void try_all(const char *name, rc_status (*run)(void))
{
    for (int n = 0;; n++) {
        size_t before = rc_bytes_allocated();
        made = 0;
        allocation_to_fail = n;
        rc_status status = run();
        bool failed = allocation_failed() && n > 0;
        expected = n == 0 ? made : expected;
        if (failed && status == RC_OK && made == expected && made != 0)
            continue;
        if (status != (failed ? RC_OUT_OF_MEMORY : RC_OK))
            fail_msg("%s, request %d: status %d, '%s'", name, n, (int)status, status != RC_OK ? rc_message() : "");
        if (rc_bytes_allocated() != before)
            fail_msg("%s, request %d: %zu bytes are held", name, n, rc_bytes_allocated() - before);
        if (!failed && n > 0)
            return;
        assert_true(n < 2000);
    }
}

static void write_and_free(const char *path, data_bytes bytes)
{
    data_write(path, bytes.data, bytes.size);
    free(bytes.data);
}

static const char *set_path;
static rc_data_settings set_settings;

static rc_status open_set(void)
{
    rc_dataset d;
    RC_TRY(rc_dataset_open(set_path, &set_settings, &d));
    const rc_split *splits[] = {&d.train, &d.test};
    for (int s = 0; s < 2; s++) {
        uInt bytes = (uInt)(splits[s]->count * d.h * d.w * d.c);
        if (splits[s]->images != NULL)
            made = crc32(made, splits[s]->images, bytes);
        if (splits[s]->stream != NULL)
            made = crc32(made, (const uint8_t *)splits[s]->stream->checksum, 4 * (uInt)splits[s]->count);
        if (splits[s]->count > 0)
            made = crc32(made, (const uint8_t *)splits[s]->labels, 4 * (uInt)splits[s]->count);
    }
    for (int i = 0; i < d.classes; i++)
        made = crc32(made, (const uint8_t *)d.class_name[i], (uInt)strlen(d.class_name[i]) + 1);
    rc_dataset_close(&d);
    return RC_OK;
}

static void try_set(const char *path, rc_data_settings settings)
{
    set_path = path;
    set_settings = settings;
    try_all(path, open_set);
}

static void sets_of_pictures(void **state)
{
    (void)state;
    data_write_colour("f/train/a/1.ppm", 3, 3, 1, 2, 3);
    data_write_colour("f/train/b/2", 4, 3, 1, 2, 3);
    data_write_colour("f/test/b/3.ppm", 3, 3, 1, 2, 3);
    data_write_colour("far/4.ppm", 3, 3, 1, 2, 3);
    data_write_text("f/train/a/notes.txt", "x");
    data_write("f/train/a/odd", "\1", 1);
    data_write_colour("f/train/b/.hidden/5.ppm", 3, 3, 1, 2, 3);
    data_write_text("f/train/b/broken.ppm", "P6");
    assert_int_equal(symlink("../../../far", "f/train/a/link"), 0);
    assert_int_equal(link("f/train/a/1.ppm", "f/train/a/again.ppm"), 0);
    try_set("f", (rc_data_settings){.size = 2, .channels = 1, .skip_broken = true});
    try_set("f", (rc_data_settings){.stream = true, .skip_broken = true, .per_class = 1});
    try_set("f/train", (rc_data_settings){.test_part = 0.5, .skip_broken = true, .size = 2});
    data_write_text("l.txt", "far/4.ppm 0\nf/test/b/3.ppm 1\n");
    try_set("l.txt", (rc_data_settings){.test_part = 0.5, .size = 2, .channels = 3});
    data_write_text("train.csv", "path,class\nfar/4.ppm,a\nf/train/b/2,b\n");
    data_write_text("val.csv", "f/test/b/3.ppm,b\n");
    try_set("train.csv", (rc_data_settings){.size = 2});
    data_write_text("val.csv", "path\nf/test/b/3.ppm\n");
    try_set("train.csv", (rc_data_settings){.size = 2, .test_part = 0.5});
    data_write_colour("t/train/n/images/1.ppm", 3, 3, 1, 2, 3);
    data_write_colour("t/val/images/2.ppm", 3, 3, 1, 2, 3);
    data_write_text("t/wnids.txt", "n\n");
    data_write_text("t/val/val_annotations.txt", "2.ppm\tn\n");
    try_set("t", (rc_data_settings){.size = 2});
}

static void sets_in_files(void **state)
{
    (void)state;
    static const char *const parts[] = {"train", "t10k"};
    for (int i = 0; i < 2; i++) {
        char path[64];
        snprintf(path, sizeof path, "m/%s-images-idx3-ubyte", parts[i]);
        write_and_free(path, data_idx_images(3, 4, 4));
        snprintf(path, sizeof path, "m/%s-labels-idx1-ubyte", parts[i]);
        write_and_free(path, data_idx_labels(3, 2));
    }
    try_set("m", (rc_data_settings){.size = 3, .channels = 3});
    const data_pickle_style style = {true, false};
    data_bytes tar = {0}, train = data_cifar_pickle(0, 2, "fine_labels", 100, style);
    data_add_tar(&tar, "cifar-100-python/train", '0', train.data, train.size);
    data_add_tar(&tar, "cifar-100-python/test", '0', train.data, train.size);
    data_end_tar(&tar);
    data_write_gzip("c.tar.gz", tar.data, tar.size);
    free(tar.data);
    free(train.data);
    try_set("c.tar.gz", (rc_data_settings){0});
    write_and_free("b/train.bin", data_cifar_binary(0, 2, 2, 100));
    write_and_free("b/test.bin", data_cifar_binary(0, 2, 2, 100));
    write_and_free("b/fine_label_names.txt", data_names_text(100));
    try_set("b", (rc_data_settings){0});
    try_set("procedural:2", (rc_data_settings){.size = 2, .procedural_per_class = 2, .procedural_test_per_class = 1});
}

static rc_status make_pack(void)
{
    rc_pack_result result;
    char *bytes;
    size_t size;
    unlink("p");
    RC_TRY(rc_pack_write("s", &(rc_data_settings){.size = 2, .channels = 3}, "p", &result));
    RC_TRY(rc_file_read("p", 1 << 20, &bytes, &size));
    made = crc32(0, (const uint8_t *)bytes, (uInt)size);
    rc_free(NULL, bytes);
    return RC_OK;
}

static rc_status make_drawn_pack(void)
{
    rc_pack_result result;
    unlink("d");
    return rc_pack_write("procedural:2",
                         &(rc_data_settings){.size = 2, .procedural_per_class = 2, .procedural_test_per_class = 1}, "d",
                         &result);
}

static void packs(void **state)
{
    (void)state;
    data_write_colour("s/a/1.ppm", 3, 3, 1, 2, 3);
    data_write_colour("s/b/2.ppm", 3, 3, 1, 2, 3);
    try_all("a pack", make_pack);
    try_all("a pack of drawn pictures", make_drawn_pack);
    try_set("p", (rc_data_settings){0});
}

static rc_dataset streamed;

static rc_status read_stream(void)
{
    static const int32_t order[4] = {1, 0, 1, 0};
    rc_split_pass pass;
    RC_TRY(rc_split_pass_open(&streamed.train, order, 4, 2, &pass));
    rc_split_pass_close(&pass);
    static char nothing;
    rc_stream_reader *reader = (rc_stream_reader *)(void *)&nothing;
    rc_status status = rc_stream_open(streamed.train.stream, 2, &reader);
    assert_true((reader != NULL) == (status == RC_OK));
    rc_stream_close(reader);
    RC_TRY(status);
    uint8_t image[12];
    return rc_stream_read(streamed.train.stream, 1, image);
}

static void streams(void **state)
{
    (void)state;
    data_write_colour("s/a/1.ppm", 3, 3, 1, 2, 3);
    data_write_colour("s/b/2.ppm", 3, 3, 1, 2, 3);
    data_open("s", &(rc_data_settings){.size = 2, .channels = 3, .stream = true}, &streamed);
    try_all("a stream", read_stream);
    rc_dataset_close(&streamed);
}

static const char *picture_path;

static rc_status read_picture(void)
{
    rc_image image;
    uint8_t out[25];
    RC_TRY(rc_image_read(picture_path, &(rc_image_options){.channels = 3}, &image));
    rc_status status = rc_image_fit_into(&image, &(rc_image_fit){.size = 5, .channels = 1}, out);
    rc_image_free(&image);
    return status;
}

static rc_status write_picture(void)
{
    static uint8_t bytes[12];
    const rc_image image = {2, 2, 3, bytes};
    return rc_image_write_png("out.png", &image);
}

static void pictures(void **state)
{
    (void)state;
    picture list[128];
    int count = pictures_list(list, 128);
    for (int i = 0; i < count; i++) {
        rc_image image;
        picture_path = list[i].path;
        if (rc_image_read(picture_path, NULL, &image) != RC_OK)
            continue; /* a format that this build does not read */
        rc_image_free(&image);
        try_all(list[i].name, read_picture);
    }
    try_all("writing a picture", write_picture);
}

static uint8_t packed[200];
static size_t packed_size;

static rc_status read_archive(void)
{
    rc_zip *zip;
    const uint8_t *data;
    size_t size;
    RC_TRY(rc_zip_parse("z", packed, packed_size, &zip));
    rc_status status = rc_zip_read(zip, 0, &data, &size);
    rc_zip_free(zip);
    return status;
}

/* One deflated entry, "x". */
static void archives(void **state)
{
    (void)state;
    static const uint8_t text[64] = "recollect";
    z_stream stream = {.avail_in = sizeof text, .next_out = packed + 31, .avail_out = 64};
    stream.next_in = rc_without_const(text);
    assert_int_equal(deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    deflateEnd(&stream);
    size_t directory = 31 + stream.total_out, end = directory + 47;
    memcpy(packed, "PK\3\4", 4);
    packed[26] = 1;
    packed[30] = 'x';
    memcpy(packed + directory, "PK\1\2", 4);
    packed[directory + 10] = 8;
    rc_pack_put32(packed + directory + 16, rc_pack_crc(0, text, sizeof text));
    packed[directory + 20] = (uint8_t)stream.total_out;
    packed[directory + 24] = sizeof text;
    packed[directory + 28] = 1;
    packed[directory + 46] = 'x';
    memcpy(packed + end, "PK\5\6\0\0\0\0\1\0\1", 11);
    packed[end + 12] = 47;
    packed[end + 16] = (uint8_t)directory;
    packed_size = end + 22;
    try_all("an archive", read_archive);
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, data_enter_folder, data_leave_folder)
    const struct CMUnitTest tests[] = {
        IN_FOLDER(sets_of_pictures), IN_FOLDER(sets_in_files), IN_FOLDER(packs),
        IN_FOLDER(streams),          IN_FOLDER(pictures),      IN_FOLDER(archives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
