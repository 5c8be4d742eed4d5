#include "support/data_files.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/memory.h"
#include "base/rng.h"
#include "base/status.h"

int data_enter_folder(void **state)
{
    char *folder = strdup("/tmp/recollect-test-XXXXXX");
    *state = folder;
    return folder == NULL || mkdtemp(folder) == NULL || chdir(folder) != 0;
}

static void empty_folder(const char *folder)
{
    DIR *listing = opendir(folder);
    for (struct dirent *entry; listing != NULL && (entry = readdir(listing)) != NULL;) {
        char path[4096];
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (remove(path) != 0) {
            empty_folder(path);
            remove(path);
        }
    }
    if (listing != NULL)
        closedir(listing);
}

int data_leave_folder(void **state)
{
    char *folder = *state;
    empty_folder(folder);
    int failed = chdir("/") != 0 || rmdir(folder) != 0;
    free(folder);
    return failed;
}

static void make_folders(const char *path)
{
    char folder[4096];
    for (const char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
        assert_true(mkdir(folder, 0777) == 0 || errno == EEXIST);
    }
}

void data_write(const char *path, const void *data, size_t size)
{
    make_folders(path);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(size == 0 ? 0 : fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

void data_write_text(const char *path, const char *text)
{
    data_write(path, text, strlen(text));
}

void data_write_gzip(const char *path, const void *data, size_t size)
{
    make_folders(path);
    gzFile file = gzopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(gzwrite(file, data, (unsigned)size), size);
    assert_int_equal(gzclose(file), Z_OK);
}

void data_add(data_bytes *bytes, const void *data, size_t size)
{
    if (size == 0)
        return;
    bytes->data = realloc(bytes->data, bytes->size + size);
    assert_non_null(bytes->data);
    memcpy(bytes->data + bytes->size, data, size);
    bytes->size += size;
}

void data_add_text(data_bytes *bytes, const char *text)
{
    data_add(bytes, text, strlen(text));
}

void data_add_byte(data_bytes *bytes, int byte)
{
    data_add(bytes, &(uint8_t){(uint8_t)byte}, 1);
}

void data_add_big(data_bytes *bytes, uint32_t value)
{
    for (int shift = 24; shift >= 0; shift -= 8)
        data_add_byte(bytes, (int)(value >> shift & 255));
}

void data_add_little(data_bytes *bytes, uint32_t value)
{
    for (int shift = 0; shift < 32; shift += 8)
        data_add_byte(bytes, (int)(value >> shift & 255));
}

void data_seal_tar(uint8_t *header)
{
    char text[8];
    unsigned sum = 0;
    memset(header + 148, ' ', 8);
    for (int i = 0; i < 512; i++)
        sum += header[i];
    snprintf(text, sizeof text, "%06o", sum);
    memcpy(header + 148, text, 7);
}

void data_add_tar(data_bytes *tar, const char *name, char type, const void *data, size_t size)
{
    char header[513] = {0};
    snprintf(header, 100, "%s", name);
    snprintf(header + 100, 8, "0000644");
    snprintf(header + 124, 12, "%011zo", size);
    header[156] = type;
    memcpy(header + 257, "ustar\00000", 8);
    data_seal_tar((uint8_t *)header);
    data_add(tar, header, 512);
    data_add(tar, data, size);
    static const char zeros[512];
    data_add(tar, zeros, (512 - size % 512) % 512);
}

void data_end_tar(data_bytes *tar)
{
    static const char zeros[1024];
    data_add(tar, zeros, sizeof zeros);
}

void data_write_colour(const char *path, int h, int w, int red, int green, int blue)
{
    data_bytes file = {0};
    char header[64];
    snprintf(header, sizeof header, "P6 %d %d 255\n", w, h);
    data_add_text(&file, header);
    for (int i = 0; i < h * w; i++)
        data_add(&file, (uint8_t[3]){(uint8_t)red, (uint8_t)green, (uint8_t)blue}, 3);
    data_write(path, file.data, file.size);
    free(file.data);
}

void data_random(uint64_t stream, uint8_t *out, size_t size)
{
    rc_rng rng = {7, stream};
    for (size_t i = 0; i < size; i++)
        out[i] = (uint8_t)rc_rng_bits(rng, i);
}

static void keep_line(void *user, int level, const char *text)
{
    (void)level;
    data_log *log = user;
    log->lines++;
    snprintf(log->last, sizeof log->last, "%s", text);
    size_t used = strlen(log->text);
    snprintf(log->text + used, sizeof log->text - used, "%s\n", text);
}

void data_log_start(data_log *log)
{
    *log = (data_log){.log = {keep_line, log, RC_LOG_WARN}};
}

void data_assert_message(const char *text)
{
    if (strstr(rc_message(), text) == NULL)
        fail_msg("the message is '%s', expected it to hold '%s'", rc_message(), text);
}

void data_assert_words(const char *text)
{
    if (strcmp(rc_message(), text) != 0)
        fail_msg("the message is '%s', expected '%s'", rc_message(), text);
}

void data_open(const char *path, const rc_data_settings *settings, rc_dataset *dataset)
{
    if (rc_dataset_open(path, settings, dataset) != RC_OK)
        fail_msg("'%s': %s", path, rc_message());
}

void data_assert_refused(const char *path, const rc_data_settings *settings, rc_status status, const char *message)
{
    rc_dataset dataset;
    size_t before = rc_bytes_allocated();
    assert_int_equal(rc_dataset_open(path, settings, &dataset), status);
    data_assert_message(message);
    assert_null(dataset.train.images);
    assert_null(dataset.class_name);
    assert_int_equal(rc_bytes_allocated(), before);
}
