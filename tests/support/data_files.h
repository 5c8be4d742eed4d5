/* Files for tests of the data readers: a folder to work in, and the parts that data sets are made of. A failure of any
 * of these ends the test. */
#ifndef RC_TESTS_SUPPORT_DATA_FILES_H
#define RC_TESTS_SUPPORT_DATA_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/log.h"
#include "data/dataset.h"

/* Setup and teardown of a test: a fresh folder, which is the current one while it runs. */
int data_enter_folder(void **state);
int data_leave_folder(void **state);

/* Writes a file, and makes the folders that lead to it. */
void data_write(const char *path, const void *data, size_t size);
void data_write_text(const char *path, const char *text);
void data_write_gzip(const char *path, const void *data, size_t size);

/* Bytes that are put together piece by piece. Free the data with free(). */
typedef struct data_bytes {
    uint8_t *data;
    size_t size;
} data_bytes;

void data_add(data_bytes *bytes, const void *data, size_t size);
void data_add_text(data_bytes *bytes, const char *text);
void data_add_byte(data_bytes *bytes, int byte);
/* Four bytes, the most significant first, or last. */
void data_add_big(data_bytes *bytes, uint32_t value);
void data_add_little(data_bytes *bytes, uint32_t value);

/* A member of a tar archive with its padding; data_end_tar ends the archive. */
void data_add_tar(data_bytes *tar, const char *name, char type, const void *data, size_t size);
void data_end_tar(data_bytes *tar);
/* Sets the sum of a header right. */
void data_seal_tar(uint8_t *header);

/* A picture of one colour, h x w pixels: a P6 file. */
void data_write_colour(const char *path, int h, int w, int red, int green, int blue);

/* Random bytes that depend on the stream alone. */
void data_random(uint64_t stream, uint8_t *out, size_t size);

/* A log that counts lines, and keeps the last and the beginning of all. */
typedef struct data_log {
    rc_log log;
    int lines;
    char last[1024], text[8192];
} data_log;

void data_log_start(data_log *log);

/* Fails unless the message of the last failure holds the text. */
void data_assert_message(const char *text);
/* Fails unless it is the text, word for word. */
void data_assert_words(const char *text);

/* Opens a data set that must open, or one that must not: with that status and message, and nothing left allocated. */
void data_open(const char *path, const rc_data_settings *settings, rc_dataset *dataset);
void data_assert_refused(const char *path, const rc_data_settings *settings, rc_status status, const char *message);

#endif
