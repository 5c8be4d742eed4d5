/* Files of tensors: the writer refuses what the reader would refuse. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/memory.h"
#include "model/safetensors.h"

static char folder[] = "/tmp/recollect-test-XXXXXX", path[64];
static const float values[2] = {1, 2};

static int set_up(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(path, sizeof path, "%s/a.safetensors", folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    return rmdir(folder);
}

/* With `length` bytes of metadata. */
static rc_status write_file(const char *first, const char *second, size_t length)
{
    const rc_named_tensor tensors[] = {{first, RC_DTYPE_F32, 1, {1}, &values[0]},
                                       {second, RC_DTYPE_F32, 1, {1}, &values[1]}};
    char *text = malloc(length + 1);
    assert_non_null(text);
    memset(text, 'x', length);
    text[length] = '\0';
    rc_json_writer metadata = rc_safetensors_metadata_begin();
    rc_json_put_text(&metadata, "text", text);
    free(text);
    return rc_safetensors_write(path, tensors, 2, &metadata, true);
}

static void names_must_differ(void **state)
{
    (void)state;
    size_t before = rc_bytes_allocated();
    assert_int_equal(write_file("weight", "weight", 1), RC_INVALID_ARGUMENT);
    assert_non_null(strstr(rc_message(), "'weight' twice"));
    assert_int_equal(write_file("__metadata__", "weight", 1), RC_INVALID_ARGUMENT);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_equal(rc_bytes_allocated(), before);
}

/* The largest header that is written is the largest that is read. */
static void headers_are_bounded(void **state)
{
    (void)state;
    const size_t rest = strlen("{\"__metadata__\":{\"text\":\"\"},"
                               "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
                               "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}");
    const size_t most = (4u << 20) - rest;
    size_t before = rc_bytes_allocated();
    rc_safetensors *file;
    assert_int_equal(write_file("a", "b", most + 1), RC_INVALID_ARGUMENT);
    assert_string_equal(rc_message(), "the tensors take a header of 4194305 bytes, at most 4194304 are read");
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_equal(write_file("a", "b", most), RC_OK);
    assert_int_equal(rc_safetensors_open(path, &file), RC_OK);
    assert_int_equal(strlen(rc_safetensors_metadata(file, "text")), most);
    assert_memory_equal(rc_safetensors_find(file, "b")->data, &values[1], sizeof(float));
    rc_safetensors_close(file);
    assert_int_equal(rc_bytes_allocated(), before);
    /* A length beyond that is refused, whatever the file holds. */
    char *bytes;
    size_t size;
    assert_int_equal(rc_file_read(path, (size_t)8 << 20, &bytes, &size), RC_OK);
    bytes[0] = 1;
    assert_int_equal(rc_safetensors_parse("a", bytes, size, &file), RC_FORMAT);
    assert_string_equal(rc_message(), "a: not a safetensors file, or cut off: its header length is wrong");
    rc_free(NULL, bytes);
    assert_int_equal(unlink(path), 0);
}

/* Nobody could read it again. */
static void files_are_bounded(void **state)
{
    (void)state;
    const char pixels = 0;
    char expected[256];
    const size_t header = strlen(
        "{\"__metadata__\":{},\"a\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]},\"b\":{\"dtype\":\"U8\","
        "\"shape\":[4294967296],\"data_offsets\":[1,4294967297]}}");
    const rc_named_tensor large[] = {{.name = "a", .dtype = RC_DTYPE_U8, .data = &pixels},
                                     {.name = "b", .dtype = RC_DTYPE_U8, .dims = 1, .shape = {(int64_t)4 << 30}}};
    rc_json_writer metadata = rc_safetensors_metadata_begin();
    assert_int_equal(rc_safetensors_write(path, large, 2, &metadata, true), RC_INVALID_ARGUMENT);
    snprintf(expected, sizeof expected, "the tensors take a file of %zu bytes, at most 4294967296 are read",
             8 + (header + 7) / 8 * 8 + 1 + ((size_t)4 << 30));
    assert_string_equal(rc_message(), expected);
    assert_int_not_equal(access(path, F_OK), 0);
    void *bytes = expected;
    size_t size = 1;
    metadata = rc_safetensors_metadata_begin();
    assert_int_equal(rc_safetensors_pack(large, 2, &metadata, &bytes, &size), RC_INVALID_ARGUMENT);
    assert_string_equal(rc_message(), expected);
    assert_true(bytes == NULL && size == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_must_differ),
        cmocka_unit_test(headers_are_bounded),
        cmocka_unit_test(files_are_bounded),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
