/* Small files that promise much, files without an end, and things that are not files are refused before they take
 * memory or time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/memory.h"
#include "config/config.h"
#include "data/image.h"
#include "data/input.h"
#include "data/reader.h"
#include "model/safetensors.h"
#include "support/data_sets.h"
#include "support/succeeds.h"

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* The largest block that was asked for since it was cleared. */
static size_t asked;

int __real_posix_memalign(void **block, size_t alignment, size_t size);
int __wrap_posix_memalign(void **block, size_t alignment, size_t size);

int __wrap_posix_memalign(void **block, size_t alignment, size_t size)
{
    if (size > asked)
        asked = size;
    return __real_posix_memalign(block, alignment, size);
}

static void assert_refused_cheaply(const char *path, const char *format, rc_status status, const char *message)
{
    asked = 0;
    data_assert_refused(path, &(rc_data_settings){.format = format}, status, message);
    assert_in_range(asked, 0, 1 << 20);
}

static data_bytes idx_header(uint32_t count, uint32_t h, uint32_t w)
{
    data_bytes bytes = {0};
    data_add_big(&bytes, h > 0 ? 0x0803 : 0x0801);
    data_add_big(&bytes, count);
    if (h > 0) {
        data_add_big(&bytes, h);
        data_add_big(&bytes, w);
    }
    return bytes;
}

static void add_zeros(data_bytes *bytes, size_t count)
{
    uint8_t *zeros = calloc(count, 1);
    assert_non_null(zeros);
    data_add(bytes, zeros, count);
    free(zeros);
}

static void write_and_free(const char *path, data_bytes bytes)
{
    data_write(path, bytes.data, bytes.size);
    free(bytes.data);
}

/* ---- promises ---------------------------------------------------------------------------------------------------- */

static void idx_promises_are_checked_first(void **state)
{
    (void)state;
    /* 2^26 images of 4 x 4 pixels in 100 kB, which unpack to 1 MB: a gigabyte is promised. */
    data_bytes images = idx_header(1u << 26, 4, 4);
    add_zeros(&images, 1 << 20);
    data_write_gzip("m/train-images-idx3-ubyte.gz", images.data, images.size);
    write_and_free("m/train-labels-idx1-ubyte", data_idx_labels(5, 2));
    assert_refused_cheaply("m", "", RC_FORMAT,
                           "train-images-idx3-ubyte.gz' promises 1073741820 more bytes; a gzipped file is taken to "
                           "unpack to at most 64 bytes for each of its own, or to 64 MiB");
    remove("m/train-images-idx3-ubyte.gz");
    write_and_free("m/train-images-idx3-ubyte", images);
    assert_refused_cheaply("m", "", RC_FORMAT,
                           "is truncated: it promises 1073741820 more bytes, but only 1048572 follow");
    write_and_free("m/train-images-idx3-ubyte", idx_header(1u << 26, 4, 5));
    assert_refused_cheaply("m", "", RC_FORMAT, "promises 1342177280 bytes, expected at most 1073741824");
    /* More than is promised. */
    images = data_idx_images(5, 4, 4);
    data_add_byte(&images, 1);
    data_add_byte(&images, 1);
    write_and_free("m/train-images-idx3-ubyte", images);
    assert_refused_cheaply("m", "", RC_FORMAT, "holds at least 81 bytes after its header, which promises 80");
}

/* One byte for each image, a megabyte when it is resized: more than any machine has. */
static void memory_is_forecast(void **state)
{
    (void)state;
    enum { IMAGES = 1 << 22 };
    const char *const parts[] = {"train", "t10k"};
    for (int i = 0; i < 2; i++) {
        char path[64];
        data_bytes images = idx_header(IMAGES, 1, 1), labels = idx_header(IMAGES, 0, 0);
        add_zeros(&images, IMAGES);
        add_zeros(&labels, IMAGES);
        snprintf(path, sizeof path, "m/%s-images-idx3-ubyte", parts[i]);
        write_and_free(path, images);
        snprintf(path, sizeof path, "m/%s-labels-idx1-ubyte", parts[i]);
        write_and_free(path, labels);
    }
    asked = 0;
    data_assert_refused("m", &(rc_data_settings){.size = 1024, .channels = 3}, RC_OUT_OF_MEMORY,
                        "8388608 images of 1024 x 1024 pixels in colour take 26388.3 GB of memory, of which ");
    data_assert_message(" GB are free or allowed; take fewer images, make them smaller (size), or allow");
    assert_in_range(asked, IMAGES, 4 * IMAGES + 4096);
    asked = 0;
    data_assert_refused("procedural", &(rc_data_settings){.size = 1024, .procedural_per_class = 4000000},
                        RC_OUT_OF_MEMORY, "80002000 images of 1024 x 1024 pixels in colour take");
    assert_in_range(asked, 0, 1 << 20);
    /* Pictures in files are counted before the first is looked for. */
    enum { LINES = 400000 };
    data_bytes list = {0};
    char *text = malloc(16 * LINES);
    assert_non_null(text);
    size_t used = 0;
    for (int i = 0; i < LINES; i++)
        used += (size_t)snprintf(text + used, 16 * LINES - used, "%d.png 0\n", i);
    data_add(&list, text, used);
    free(text);
    write_and_free("list.txt", list);
    data_assert_refused("list.txt", &(rc_data_settings){.size = 1024, .channels = 3}, RC_OUT_OF_MEMORY,
                        "400000 images of 1024 x 1024 pixels in colour take 1258.3 GB of memory");
}

static void gzip_unpacks_within_bounds(void **state)
{
    (void)state;
    /* Zeros pack a thousand to one. */
    enum { SIZE = 65 << 20 };
    static const size_t sizes[] = {64 << 20, (64 << 20) + 1};
    data_bytes zeros = {0};
    add_zeros(&zeros, SIZE);
    for (int i = 0; i < 2; i++) {
        uint8_t *data;
        size_t size;
        data_write_gzip("zeros.gz", zeros.data, sizes[i]);
        rc_status status = rc_input_read_file("zeros.gz", 1 << 30, &data, &size);
        assert_int_equal(status, i == 0 ? RC_OK : RC_FORMAT);
        if (i == 0)
            assert_int_equal(size, sizes[i]);
        else
            data_assert_message("'zeros.gz' promises");
        rc_free(NULL, data);
    }
    /* A larger one may hold more. */
    data_random(3, zeros.data, 2 << 20);
    data_write_gzip("zeros.gz", zeros.data, SIZE);
    uint8_t *data;
    size_t size;
    SUCCEEDS(rc_input_read_file("zeros.gz", SIZE, &data, &size));
    assert_memory_equal(data, zeros.data, SIZE);
    rc_free(NULL, data);
    /* What is as it is may have any size. */
    data_write("zeros", zeros.data, SIZE);
    SUCCEEDS(rc_input_read_file("zeros", SIZE, &data, &size));
    assert_int_equal(size, SIZE);
    rc_free(NULL, data);
    asked = 0;
    assert_int_equal(rc_input_read_file("zeros", SIZE - 1, &data, &size), RC_FORMAT);
    assert_in_range(asked, 0, 1 << 20);
    free(zeros.data);
}

/* Sets the size in the last header, and its sum. */
static void promise(data_bytes *tar, size_t header, uint64_t size)
{
    char text[16];
    snprintf(text, sizeof text, "%011llo", (unsigned long long)size);
    memcpy(tar->data + header + 124, text, 12);
    data_seal_tar(tar->data + header);
}

static void archives_are_not_unpacked_to_be_recognised(void **state)
{
    (void)state;
    /* An extension header of 60 MiB comes first: it could be passed over, but nobody does that to find a name. */
    enum { EXTENSION = 60 << 20 };
    data_bytes tar = {0}, image = data_cifar_binary(0, 1, 2, 100);
    add_zeros(&tar, 512);
    memcpy(tar.data, "x", 1);
    tar.data[156] = 'x';
    promise(&tar, 0, EXTENSION);
    add_zeros(&tar, EXTENSION);
    data_add_tar(&tar, "cifar-100-binary/train.bin", '0', image.data, image.size);
    data_add_tar(&tar, "cifar-100-binary/test.bin", '0', image.data, image.size);
    data_end_tar(&tar);
    data_write_gzip("bomb.tar.gz", tar.data, tar.size);
    free(tar.data);
    assert_refused_cheaply("bomb.tar.gz", "", RC_FORMAT,
                           "'bomb.tar.gz' is one file, no data set (archive; unpack it, ");
    assert_refused_cheaply("bomb.tar.gz", "cifar100", RC_FORMAT,
                           "'bomb.tar.gz' is not a data set that recollect knows");
    /* A first member that goes on behind what is looked at. */
    tar = (data_bytes){0};
    data_add_tar(&tar, "cifar-100-binary/train.bin", '0', image.data, image.size);
    for (int i = 0; i < 40; i++)
        data_add_tar(&tar, "cifar-100-binary/other", '0', image.data, image.size);
    data_add_tar(&tar, "cifar-100-binary/test.bin", '0', image.data, image.size);
    data_end_tar(&tar);
    write_and_free("cifar.tar", tar);
    free(image.data);
    rc_dataset dataset;
    data_open("cifar.tar", NULL, &dataset);
    rc_dataset_close(&dataset);
}

static void members_promise_no_more_than_may_follow(void **state)
{
    (void)state;
    data_bytes tar = {0};
    data_add_tar(&tar, "cifar-100-binary/train.bin", '0', "x", 1);
    promise(&tar, 0, 200 << 20);
    data_write_gzip("packed.tar.gz", tar.data, tar.size);
    assert_refused_cheaply("packed.tar.gz", "", RC_FORMAT, "'packed.tar.gz' promises 209715200 more bytes; a gzipped");
    data_write("plain.tar", tar.data, tar.size);
    assert_refused_cheaply("plain.tar", "", RC_FORMAT,
                           "'plain.tar' is truncated: it promises 209715200 more bytes, but only 512 follow");
    /* What is passed over is not unpacked either if it cannot be true. */
    memcpy(tar.data, "cifar-100-binary/other.bin", 26);
    promise(&tar, 0, 200 << 20);
    data_write_gzip("packed.tar.gz", tar.data, tar.size);
    assert_refused_cheaply("packed.tar.gz", "", RC_FORMAT, "'packed.tar.gz' promises 209715200 more bytes; a gzipped");
    free(tar.data);
}

/* ---- what is no regular file ------------------------------------------------------------------------------------- */

static rc_status read_text(const char *path)
{
    char *data;
    size_t size;
    RC_TRY(rc_file_read(path, 1 << 20, &data, &size));
    rc_free(NULL, data);
    return RC_OK;
}

static rc_status read_picture(const char *path)
{
    rc_image image;
    RC_TRY(rc_image_read(path, NULL, &image));
    rc_image_free(&image);
    return RC_OK;
}

static rc_status read_packed(const char *path)
{
    uint8_t *data;
    size_t size;
    RC_TRY(rc_input_read_file(path, 1 << 20, &data, &size));
    rc_free(NULL, data);
    return RC_OK;
}

static rc_status read_model(const char *path)
{
    rc_safetensors *file;
    RC_TRY(rc_safetensors_open(path, &file));
    rc_safetensors_close(file);
    return RC_OK;
}

static rc_status read_config(const char *path)
{
    rc_config config = rc_config_default();
    return rc_config_load(&config, path, NULL);
}

static rc_status (*const readers[])(const char *path) = {read_text, read_picture, read_packed, read_model, read_config};
enum { READERS = sizeof readers / sizeof *readers };

/* A reader that waits for a pipe hangs here until the test is ended. */
static void regular_files_only(void **state)
{
    (void)state;
    assert_int_equal(mkfifo("./pipe", 0600), 0);
    struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "./socket"};
    int server = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(server, (struct sockaddr *)&name, sizeof name), 0);
    assert_int_equal(mkdir("./folder", 0700), 0);
    assert_int_equal(symlink("/dev/zero", "./zero"), 0);
    static const struct {
        const char *path, *message;
    } cases[] = {{"./pipe", "cannot read './pipe': it is a pipe, expected a regular file"},
                 {"./folder", "cannot read './folder': it is a folder, expected a regular file"},
                 {"./zero", "cannot read './zero': it is a device, expected a regular file"},
                 {"/dev/null", "cannot read '/dev/null': it is a device, expected a regular file"},
                 {"./socket", "cannot open './socket': "},
                 {"./absent", "cannot open './absent': No such file or directory"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int r = 0; r < READERS; r++) {
            size_t before = rc_bytes_allocated();
            assert_int_equal(readers[r](cases[i].path), RC_IO);
            data_assert_message(cases[i].message);
            assert_int_equal(rc_bytes_allocated(), before);
        }
    close(server);
}

/* They take no room on the disk, so that anybody can make one of any size. */
static void files_with_holes_are_refused_by_their_size(void **state)
{
    (void)state;
    data_write_text("./hole", "x");
    assert_int_equal(truncate("./hole", (off_t)5 << 30), 0);
    for (int r = 0; r < READERS; r++) {
        asked = 0;
        if (readers[r] == read_picture)
            continue;
        assert_int_equal(readers[r]("./hole"), RC_FORMAT);
        data_assert_message("'./hole'");
        data_assert_message("more than");
        assert_in_range(asked, 0, 1 << 20);
    }
    /* Of a picture, the beginning does. */
    static const char *const beginnings[] = {"x", "\xFF\xD8\xFF", "P6 "};
    for (int i = 0; i < 3; i++) {
        data_write_text("./picture", beginnings[i]);
        assert_int_equal(truncate("./picture", (off_t)1 << (i == 0 ? 27 : 29)), 0);
        asked = 0;
        assert_int_equal(read_picture("./picture"), RC_FORMAT);
        data_assert_message(
            i == 0 ? "cannot decode './picture': no picture that this build of recollect reads: unknown format"
                   : "cannot read './picture': more than 268435456 bytes");
        assert_in_range(asked, 0, 1 << 20);
    }
    rename("./hole", "train_1.txt");
    assert_refused_cheaply("train_1.txt", "", RC_FORMAT, "cannot read 'train_1.txt': more than 268435456 bytes");
}

/* As pictures of lists and data sets. */
static void sets_hold_regular_files(void **state)
{
    (void)state;
    assert_int_equal(mkfifo("pipe.png", 0600), 0);
    data_write_colour("a.ppm", 4, 4, 1, 2, 3);
    data_write_text("list.txt", "a.ppm 0\npipe.png 1\n");
    data_assert_refused("list.txt", NULL, RC_IO,
                        "pipe.png': it is a pipe, expected a regular file (broken images can be skipped");
    rc_dataset dataset;
    data_open("list.txt", &(rc_data_settings){.skip_broken = true}, &dataset);
    assert_int_equal(dataset.train.count, 1);
    assert_int_equal(dataset.broken, 1);
    rc_dataset_close(&dataset);
    assert_int_equal(mkfifo("train-images-idx3-ubyte", 0600), 0);
    data_assert_refused(".", &(rc_data_settings){.format = "idx"}, RC_FORMAT,
                        "'.' is not a data set that recollect knows");
    data_assert_refused("pipe.png", NULL, RC_IO, "there is no data at 'pipe.png'");
}

/* The words, with numbers that all differ. */
static void what_images_would_take_is_told(void **state)
{
    (void)state;
    rc_dataset d = {.h = 2000, .w = 3000, .c = 1};
    rc_memory_set_budget(rc_bytes_allocated() + 500000000);
    REFUSED(
        rc_check_memory(&d, 4000), RC_OUT_OF_MEMORY,
        "4000 images of 3000 x 2000 pixels in grey take 24.0 GB of memory, of which 0.5 GB are free or allowed; take "
        "fewer images, make them smaller (size), or allow more (the setting 'max_memory')");
    d.c = 3;
    REFUSED(
        rc_check_memory(&d, 4000), RC_OUT_OF_MEMORY,
        "4000 images of 3000 x 2000 pixels in colour take 72.0 GB of memory, of which 0.5 GB are free or allowed; take "
        "fewer images, make them smaller (size), or allow more (the setting 'max_memory')");
    rc_memory_set_budget(SIZE_MAX);
    SUCCEEDS(rc_check_memory(&d, 1));
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, data_enter_folder, data_leave_folder)
    const struct CMUnitTest tests[] = {
        IN_FOLDER(idx_promises_are_checked_first),
        IN_FOLDER(memory_is_forecast),
        cmocka_unit_test(what_images_would_take_is_told),
        IN_FOLDER(gzip_unpacks_within_bounds),
        IN_FOLDER(archives_are_not_unpacked_to_be_recognised),
        IN_FOLDER(members_promise_no_more_than_may_follow),
        IN_FOLDER(regular_files_only),
        IN_FOLDER(files_with_holes_are_refused_by_their_size),
        IN_FOLDER(sets_hold_regular_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
