/* What a model file says of itself, and the message of every part that is broken, word for word: the header, the
 * metadata, the tensors. Where a model can be saved. Checkpoints on a backend whose reals are no floats. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/memory.h"
#include "model/checkpoint.h"
#include "model/model_file.h"
#include "model/saving.h"
#include "support/craft.h"
#include "support/data_files.h"
#include "support/succeeds.h"

/* ---- headers ---------------------------------------------------------------------------------------------------- */

#define TENSOR(name, dtype, shape, offsets) \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

/* Of a file with 8 bytes of data. */
static const struct {
    const char *header, *message; /* NULL: it is fine */
    rc_status status;
} headers[] = {
    {"{" TENSOR("a", "F32", "[1]", "[0,4]") "," TENSOR("b", "F32", "[1,1]", "[4,8]") "}", NULL, RC_OK},
    {"{\"__metadata__\":{\"k\":\"v\"}," TENSOR("a", "BF16", "[2,2]", "[0,8]") "}", NULL, RC_OK},
    {"{" TENSOR("a", "I64", "[]", "[0,8]") "," TENSOR("b", "U8", "[0,7]", "[8,8]") "}", NULL, RC_OK},
    {"{" TENSOR("a", "U8", "[0]", "[0,0]") "," TENSOR("b", "F64", "[1]", "[0,8]") "}", NULL, RC_OK},
    {"{" TENSOR("b", "F64", "[1]", "[0,8]") "," TENSOR("a", "U8", "[0]", "[0,0]") "}", NULL, RC_OK},
    {"[]", "f: the header is not an object", RC_FORMAT},
    {"{\"__metadata__\":[]}", "f: the metadata is not a map of strings", RC_FORMAT},
    {"{\"__metadata__\":{\"k\":\"v\",\"l\":1}}", "f: the metadata is not a map of strings", RC_FORMAT},
    {"{\"__metadata__\":{\"l\":1,\"k\":\"v\"}}", "f: the metadata is not a map of strings", RC_FORMAT},
    {"{\"a\":{\"shape\":[2],\"data_offsets\":[0,8]}}", "f: key 'dtype' is missing", RC_FORMAT},
    {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}}", "f: key 'shape' is missing", RC_FORMAT},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", "f: key 'data_offsets' is missing", RC_FORMAT},
    {"{" TENSOR("a", "C64", "[1]", "[0,8]") "}", "f: tensor 'a' has type C64, which recollect does not read",
     RC_UNSUPPORTED},
    {"{" TENSOR("a", "U8", "[1,1,1,1,8]", "[0,8]") "}", "f: tensor 'a' has 5 dimensions, at most 4 are read",
     RC_UNSUPPORTED},
    {"{" TENSOR("a", "F32", "[2.0]", "[0,8]") "}", "f: tensor 'a' has an impossible shape", RC_FORMAT},
    {"{" TENSOR("a", "F32", "[-2]", "[0,8]") "}", "f: tensor 'a' has an impossible shape", RC_FORMAT},
    {"{" TENSOR("a", "F32", "[4294967296,4294967296]", "[0,8]") "}", "f: tensor 'a' has an impossible shape",
     RC_FORMAT},
    {"{" TENSOR("a", "F32", "[2]", "[0,9]") "}", "f: tensor 'a' lies outside of the file, which may be cut off",
     RC_FORMAT},
    {"{" TENSOR("a", "F32", "[2]", "[-8,0]") "}", "f: tensor 'a' lies outside of the file, which may be cut off",
     RC_FORMAT},
    {"{" TENSOR("a", "F32", "[2]", "[8,0]") "}", "f: tensor 'a' lies outside of the file, which may be cut off",
     RC_FORMAT},
    {"{" TENSOR("a", "F32", "[2]", "[0]") "}", "f: tensor 'a' lies outside of the file, which may be cut off",
     RC_FORMAT},
    {"{" TENSOR("a", "F32", "[2]", "[0,8,8]") "}", "f: tensor 'a' lies outside of the file, which may be cut off",
     RC_FORMAT},
    {"{" TENSOR("a", "F32", "[2]", "[0,8.0]") "}", "f: tensor 'a' lies outside of the file, which may be cut off",
     RC_FORMAT},
    {"{" TENSOR("a", "F32", "[2]", "[0.0,8]") "}", "f: tensor 'a' lies outside of the file, which may be cut off",
     RC_FORMAT},
    {"{" TENSOR("a", "F32", "[3]", "[0,8]") "}", "f: tensor 'a' has 8 bytes, its shape asks for 12", RC_FORMAT},
    {"{" TENSOR("a", "F16", "[3]", "[1,8]") "}", "f: tensor 'a' has 7 bytes, its shape asks for 6", RC_FORMAT},
    {"{" TENSOR("a", "F32", "[1]", "[4,8]") "}", "f: tensor 'a' does not begin where the one before it ends",
     RC_FORMAT},
    {"{" TENSOR("a", "F32", "[1]", "[0,4]") "," TENSOR("b", "F32", "[1]", "[0,4]") "}",
     "f: tensor 'b' does not begin where the one before it ends", RC_FORMAT},
    {"{" TENSOR("a", "I16", "[1]", "[0,2]") "}", "f: 6 bytes after the last tensor belong to no tensor", RC_FORMAT},
    {"{}", "f: 8 bytes after the last tensor belong to no tensor", RC_FORMAT}};

/* The file with that header, and a length of it that may be wrong. */
static rc_status parse(const char *header, long more, size_t data, rc_safetensors **file)
{
    size_t length = strlen(header), size = 8 + length + data;
    uint64_t claimed = (uint64_t)((long)length + more);
    uint8_t *bytes = rc_alloc_zeroed(NULL, size, 1); /* so that nobody reads behind it */
    assert_non_null(bytes);
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(claimed >> (8 * i));
    memcpy(bytes + 8, header, length);
    for (size_t i = 0; i < data; i++)
        bytes[8 + length + i] = (uint8_t)(i + 1);
    rc_status status = rc_safetensors_parse("f", bytes, size, file);
    rc_free(NULL, bytes);
    return status;
}

static void broken_headers_are_named(void **state)
{
    (void)state;
    static const char wrong[] = "f: not a safetensors file, or cut off: its header length is wrong";
    rc_safetensors *file;
    size_t before = rc_bytes_allocated();
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        rc_status status = parse(headers[i].header, 0, 8, &file);
        if (status != headers[i].status || (status != RC_OK && strcmp(rc_message(), headers[i].message) != 0))
            fail_msg("%s: %s, expected %s", headers[i].header, rc_message(), headers[i].message);
        rc_safetensors_close(file);
        assert_int_equal(rc_bytes_allocated(), before);
    }
    REFUSED(parse("{}", 1, 0, &file), RC_FORMAT, wrong);
    REFUSED(parse("{}", 1L << 40, 0, &file), RC_FORMAT, wrong);
    SUCCEEDS(parse("{}", 0, 0, &file));
    assert_int_equal(rc_safetensors_count(file), 0);
    assert_int_equal(rc_safetensors_bytes(file), 10);
    rc_safetensors_close(file);
    for (size_t size = 0; size < 8; size++)
        REFUSED(rc_safetensors_parse("f", "\2\0\0\0\0\0\0", size, &file), RC_FORMAT, wrong);
}

/* Behind the message stands what the file seems to be. */
static void other_files_are_recognised(void **state)
{
    (void)state;
    static const char wrong[] = "f: not a safetensors file, or cut off: its header length is wrong";
    static const struct {
        const char *bytes, *words;
    } files[] = {
        {"PK\3\4\0\0\10\10", "; it begins like a file of torch.save, of which 'recollect import' makes a model"},
        {"\x80\2\x8a\nl\xfc\x9c\x46",
         "; it begins like a file of torch.save, of which 'recollect import' makes a model"},
        {"\x89HDF\r\n\x1a\n", "; it begins like a file of Keras, which recollect does not read"},
        {"\x1c\0\0\0TFL3", "; it begins like a file of TensorFlow Lite, which recollect does not read"},
        {"\xFF\xD8\xFF\xE0\0\20JF", "; it begins like a JPEG picture"},
        {"\x89PNG\r\n\x1a\n", "; it begins like a PNG picture"},
        {"\10\12\x12\7pytor",
         "; it begins like an ONNX graph, which cannot learn: take the model or the weights that it was made of"},
        {"\10\2\x12\7pytor", ""},
        {"\10\40\x12\7pytor", ""},
        {"\10\12\x13\7pytor", ""},
        {"\11\12\x12\7pytor", ""},
        {"\x80\3\x8a\nl\xfc\x9c\x46", ""},
        {"\x80\2\0\0\0\0\0\0", ""}, /* a file that is cut off, with a header of 640 bytes */
        {"\10\12\x12\0\0\0\0\0", ""},
    };
    rc_safetensors *file;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char expected[256];
        snprintf(expected, sizeof expected, "%s%s", wrong, files[i].words);
        REFUSED(rc_safetensors_parse("f", files[i].bytes, 8, &file), RC_FORMAT, expected);
    }
}

static void tensors_lie_where_the_header_says(void **state)
{
    (void)state;
    rc_safetensors *file;
    const rc_named_tensor *tensor;
    SUCCEEDS(parse("{" TENSOR("second", "I16", "[1,3]", "[2,8]") "," TENSOR("first", "U8", "[2]", "[0,2]") "}", 0, 8,
                   &file));
    assert_int_equal(rc_safetensors_count(file), 2);
    assert_null(rc_safetensors_at(file, -1));
    assert_null(rc_safetensors_at(file, 2));
    assert_null(rc_safetensors_find(file, "third"));
    assert_null(rc_safetensors_metadata(file, "key"));
    tensor = rc_safetensors_at(file, 0);
    assert_string_equal(tensor->name, "second");
    assert_true(tensor->dims == 2 && tensor->shape[0] == 1 && tensor->shape[1] == 3 && tensor->dtype == RC_DTYPE_I16);
    assert_memory_equal(tensor->data, "\3\4\5\6\7\10", 6);
    assert_memory_equal(rc_safetensors_find(file, "first")->data, "\1\2", 2);
    SUCCEEDS(rc_safetensors_get(file, "first", RC_DTYPE_U8, 2, &tensor));
    REFUSED(rc_safetensors_get(file, "first", RC_DTYPE_I8, 2, &tensor), RC_FORMAT,
            "tensor 'first' holds 2 of U8, expected 2 of I8");
    REFUSED(rc_safetensors_get(file, "second", RC_DTYPE_I16, 4, &tensor), RC_FORMAT,
            "tensor 'second' holds 3 of I16, expected 4 of I16");
    REFUSED(rc_safetensors_get(file, "third", RC_DTYPE_U8, 2, &tensor), RC_FORMAT, "tensor 'third' is missing");
    rc_safetensors_close(file);
    static const size_t bytes[] = {4, 8, 4, 8, 1, 2, 2, 2, 1, 1};
    static const char *const name[] = {"F32", "F64", "I32", "I64", "U8", "F16", "BF16", "I16", "I8", "BOOL"};
    for (int i = 0; i < 10; i++) {
        assert_int_equal(rc_dtype_bytes((rc_dtype)i), bytes[i]);
        assert_string_equal(rc_dtype_name((rc_dtype)i), name[i]);
    }
}

/* ---- models ----------------------------------------------------------------------------------------------------- */

static rc_backend *backend;
static rc_saved_model model;

static int make_model(void **state)
{
    static const char *const names[] = {"cat", "dog", "emu"};
    const rc_method *method;
    const rc_augment image = {.h = 14, .w = 14, .c = 3, .mean = {0.5f, 0.25f, 0.75f}, .std = {1, 0.5f, 2}};
    memset(&model, 0, sizeof model);
    model.config = rc_config_default();
    static const char *const value[][2] = {
        {"net", "resnet-small"}, {"net_width", "4"}, {"generator", "generator-small"}, {"seed", "77"}};
    for (int i = 0; i < 4; i++)
        SUCCEEDS(rc_config_set(&model.config, value[i][0], value[i][1]));
    SUCCEEDS(rc_backend_open("cpu", 1, NULL, &backend));
    SUCCEEDS(rc_method_find("cwd", &method));
    SUCCEEDS(rc_learner_create(&model.learner, backend, &model.config.settings, method, &image));
    SUCCEEDS(rc_head_grow(&model.learner.student.head, 1, (rc_rng){9, 1}));
    SUCCEEDS(rc_head_grow(&model.learner.student.head, 2, (rc_rng){9, 2}));
    SUCCEEDS(rc_learner_grow_statistics(&model.learner));
    snprintf(model.fingerprint, sizeof model.fingerprint, "method=mine");
    model.class_name = rc_alloc_zeroed(NULL, 3, sizeof *model.class_name);
    for (int i = 0; i < 3; i++) {
        model.class_name[i] = rc_alloc_zeroed(NULL, 4, 1);
        memcpy(model.class_name[i], names[i], 4);
    }
    return data_enter_folder(state);
}

static int drop_model(void **state)
{
    rc_saved_model_destroy(&model);
    rc_backend_close(backend);
    return data_leave_folder(state);
}

static void a_model_says_what_it_is(void **state)
{
    (void)state;
    rc_safetensors *file;
    rc_saved_model loaded;
    rc_json *config;
    char value[RC_CONFIG_VALUE];
    rc_config_item item;
    SUCCEEDS(rc_model_file_save("m", &model, false));
    SUCCEEDS(rc_safetensors_open("m", &file));
    const char *const metadata[][2] = {{"format", "recollect-model-1"},
                                       {"version", recollect_version()},
                                       {"method", "cwd"},
                                       {"classes", "[\"cat\",\"dog\",\"emu\"]"},
                                       {"tasks", "[1,2]"},
                                       {"mean", "[0.5,0.25,0.75]"},
                                       {"std", "[1.0,0.5,2.0]"},
                                       {"image", "[14,14,3]"},
                                       {"row_numbers", "give way to settings"},
                                       {"origin", "trained"},
                                       {"fingerprint", "method=mine"}};
    for (size_t i = 0; i < sizeof metadata / sizeof *metadata; i++)
        assert_string_equal(rc_safetensors_metadata(file, metadata[i][0]), metadata[i][1]);
    assert_null(rc_safetensors_metadata(file, "calibration"));
    const char *text = rc_safetensors_metadata(file, "config");
    SUCCEEDS(rc_json_parse("config", text, strlen(text), &config));
    for (int i = 0; rc_config_item_at(i, &item); i++) {
        SUCCEEDS(rc_config_get(&model.config, item.name, value, sizeof value));
        assert_string_equal(rc_json_string(rc_json_member(config, item.name)), value);
    }
    rc_json_free(config);
    int64_t d = model.learner.student.head.d;
    const rc_named_tensor *head = rc_safetensors_find(file, "head.classifiers.1.weight");
    assert_true(head->dims == 2 && head->shape[0] == 2 && head->shape[1] == d);
    const rc_named_tensor *mean = rc_safetensors_find(file, "statistics.class_mean");
    assert_true(mean->dims == 2 && mean->shape[0] == 3 && mean->shape[1] == d);
    const rc_named_tensor *covariance = rc_safetensors_find(file, "statistics.covariance");
    assert_true(covariance->dims == 2 && covariance->shape[0] == d && covariance->shape[1] == d);
    size_t bytes = 0;
    for (int i = 0; i < rc_safetensors_count(file); i++)
        bytes += rc_named_tensor_bytes(rc_safetensors_at(file, i));
    const rc_kept kept = rc_model_kept(&model);
    assert_int_equal(rc_kept_bytes(&kept), bytes);
    assert_int_equal(kept.covariance, (size_t)(d * d) * sizeof(float));
    assert_int_equal(kept.class_means, (size_t)(3 * d) * sizeof(float));
    assert_int_equal(kept.images + kept.generative_model, 0);
    assert_int_equal(rc_model_parameters(&model), model.learner.net.params + (size_t)(3 * d));
    SUCCEEDS(rc_model_file_load("m", backend, &loaded));
    assert_int_equal(loaded.file_bytes, rc_safetensors_bytes(file));
    assert_int_equal(loaded.unknown_bytes, 0);
    assert_string_equal(loaded.fingerprint, "method=mine");
    assert_true(loaded.learner.augment.std[2] == 2 && loaded.learner.augment.w == 14);
    rc_saved_model_destroy(&loaded);
    rc_safetensors_close(file);
    REFUSED(rc_model_file_save("m", &model, false), RC_IO, "cannot make 'm': File exists");
    /* In memory it is the same file. */
    void *packed;
    char *whole;
    size_t size, file_size;
    SUCCEEDS(rc_model_file_pack(&model, &packed, &size));
    SUCCEEDS(rc_file_read("m", 1 << 24, &whole, &file_size));
    assert_int_equal(size, file_size);
    assert_memory_equal(packed, whole, size);
    SUCCEEDS(rc_model_file_parse("name", packed, size, backend, &loaded));
    rc_saved_model_destroy(&loaded);
    assert_int_equal(rc_model_file_parse("name", packed, size - 1, backend, &loaded), RC_FORMAT);
    assert_memory_equal(rc_message(), "name: ", 6);
    rc_free(NULL, packed);
    rc_free(NULL, whole);
    craft more;
    craft_read("m", &more);
    craft_add(&more, "of.somebody", 12);
    craft_write(&more, "m");
    craft_free(&more);
    SUCCEEDS(rc_model_file_load("m", backend, &loaded));
    assert_int_equal(loaded.unknown_bytes, 12);
    rc_saved_model_destroy(&loaded);
}

/* Metadata, and what is said of it; NULL: it is left out. */
static const char *const broken[][3] = {
    {"format", "a song",
     "it is not a model of recollect: its metadata has format 'a song', expected format "
     "'recollect-model-1'"},
    {"format", NULL, "it is not a model of recollect: its metadata has no format, expected format 'recollect-model-1'"},
    {"format", "recollect-checkpoint-1",
     "it is not a model of recollect: its metadata has format 'recollect-checkpoint-1', expected format "
     "'recollect-model-1'; a lesson or a run was stopped there, and the setting 'resume' goes on with it"},
    {"format", "recollect-checklist-1",
     "it is not a model of recollect: its metadata has format 'recollect-checklist-1', expected format "
     "'recollect-model-1'"},
    {"method", NULL, "the metadata names no method"},
    {"image", NULL, "the metadata has no 'image'"},
    {"image", "[14,14]", "the metadata's 'image' has 2 entries, expected 3"},
    {"image", "[14,14,3,1]", "the metadata's 'image' has 4 entries, expected 3"},
    {"image", "{\"a\":14,\"b\":14,\"c\":3}", "the metadata's 'image' is no list of numbers"},
    {"image", "[14,\"14\",3]", "the metadata's 'image' holds something that is not a number"},
    {"image", "[14,14.5,3]", "the metadata's 'image' holds 14.5, expected a whole number from 1 to 2147483647"},
    {"image", "[0,14,3]", "the metadata's 'image' holds 0, expected a whole number from 1 to 2147483647"},
    {"image", "[14,14,2147483648]",
     "the metadata's 'image' holds 2147483648, expected a whole number from 1 to 2147483647"},
    {"image", "[14,14,2]",
     "the metadata's 'image' is impossible: images have 2 channels, expected 1 (grey) or 3 (colours)"},
    {"mean", "[0.5,0.25]", "the metadata's 'mean' has 2 entries, expected 3"},
    {"mean", "[0.5,101,0.5]", "mean and standard deviation of channel 1 are 101 and 0.5"},
    {"mean", "[0.5,0.5,-101]", "mean and standard deviation of channel 2 are -101 and 2"},
    {"std", "[1,0.5,2,3]", "the metadata's 'std' has 4 entries, expected 3"},
    {"std", "[1,0,2]", "mean and standard deviation of channel 1 are 0.25 and 0"},
    {"std", "[101,1,1]", "mean and standard deviation of channel 0 are 0.5 and 101"},
    {"tasks", NULL, "the metadata has no 'tasks'"},
    {"tasks", "[]", "the model knows no class"},
    {"tasks", "[1,0]", "the metadata's 'tasks' holds 0, expected a whole number from 1 to 29999"},
    {"tasks", "[1,30000]", "the metadata's 'tasks' holds 30000, expected a whole number from 1 to 29999"},
    {"tasks", "[1,1.5]", "the metadata's 'tasks' holds 1.5, expected a whole number from 1 to 29999"},
    {"tasks", "[1]", "tensor 'statistics.class_mean' holds 48 of F32, expected 16 of F32"},
    {"tasks", "[1,2,1]", "tensor 'head.classifiers.2.weight' is missing"},
    {"tasks", "[2,2]", "tensor 'head.classifiers.0.weight' holds 16 of F32, expected 32 of F32"},
    {"classes", NULL, "the metadata has no 'classes'"},
    {"classes", "[\"cat\",\"dog\"]", "2 class names for 3 classes"},
    {"classes", "{\"a\":\"cat\",\"b\":\"dog\",\"c\":\"emu\"}", "0 class names for 3 classes"},
    {"classes", "[\"cat\",7,\"emu\"]", "class name 1 is not a text"},
    {"classes", "[\"cat\",\"dog\",\"cat\"]", "two classes are called 'cat', expected different names"},
    {"classes", "[\"cat\",\"dog\",\"e\\u0007\"]", "name of class 2: byte 1 (0x07) is not printable UTF-8"},
    {"config", NULL, "the metadata has no 'config'"},
};

static void broken_metadata_is_named(void **state)
{
    (void)state;
    craft good;
    rc_saved_model loaded;
    size_t before = rc_bytes_allocated();
    SUCCEEDS(rc_model_file_save("m", &model, true));
    craft_read("m", &good);
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        craft changed = craft_copy(&good);
        char message[256];
        assert_true(craft_metadata(&changed, broken[i][0], broken[i][1]));
        craft_write(&changed, "m");
        craft_free(&changed);
        snprintf(message, sizeof message, "m: %s", broken[i][2]);
        REFUSED(rc_model_file_load("m", backend, &loaded), RC_FORMAT, message);
    }
    craft_free(&good);
    assert_int_equal(rc_bytes_allocated(), before);
}

/* Each tensor in turn: missing, too short, of another type. */
static void tensors_that_do_not_fit_are_named(void **state)
{
    (void)state;
    craft good;
    rc_saved_model loaded;
    rc_safetensors *file;
    size_t before = rc_bytes_allocated();
    SUCCEEDS(rc_model_file_save("m", &model, true));
    SUCCEEDS(rc_safetensors_open("m", &file));
    craft_read("m", &good);
    for (int i = 0; i < rc_safetensors_count(file); i++) {
        const rc_named_tensor *tensor = rc_safetensors_at(file, i);
        size_t count = rc_named_tensor_count(tensor);
        char message[256];
        craft changed = craft_copy(&good);
        assert_true(craft_resize(&changed, tensor->name, "[1]", 1));
        craft_write(&changed, "m");
        craft_free(&changed);
        snprintf(message, sizeof message, "m: tensor '%s' holds 1 of F32, expected %zu of F32", tensor->name, count);
        if (count != 1)
            REFUSED(rc_model_file_load("m", backend, &loaded), RC_FORMAT, message);
        changed = craft_copy(&good);
        assert_true(craft_tensor(&changed, tensor->name, "dtype", "\"I32\""));
        craft_write(&changed, "m");
        craft_free(&changed);
        snprintf(message, sizeof message, "m: tensor '%s' holds %zu of I32, expected %zu of F32", tensor->name, count,
                 count);
        REFUSED(rc_model_file_load("m", backend, &loaded), RC_FORMAT, message);
    }
    craft_free(&good);
    rc_safetensors_close(file);
    assert_int_equal(rc_bytes_allocated(), before);
}

/* As many tasks as there can be. */
static void a_model_of_many_tasks_comes_back(void **state)
{
    (void)state;
    rc_saved_model loaded;
    while (model.learner.student.head.tasks < RC_MAX_TASKS)
        SUCCEEDS(rc_head_grow(&model.learner.student.head, 1, (rc_rng){9, 3}));
    SUCCEEDS(rc_learner_grow_statistics(&model.learner));
    int classes = model.learner.student.head.classes;
    for (int i = 0; i < 3; i++)
        rc_free(NULL, model.class_name[i]);
    rc_free(NULL, model.class_name);
    model.class_name = rc_alloc_zeroed(NULL, (size_t)classes, sizeof *model.class_name);
    for (int i = 0; i < classes; i++) {
        model.class_name[i] = rc_alloc_zeroed(NULL, 24, 1);
        snprintf(model.class_name[i], 24, "class %d", i);
    }
    SUCCEEDS(rc_model_file_save("m", &model, true));
    SUCCEEDS(rc_model_file_load("m", backend, &loaded));
    assert_int_equal(loaded.learner.student.head.tasks, RC_MAX_TASKS);
    assert_memory_equal(loaded.learner.student.head.task_end, model.learner.student.head.task_end,
                        sizeof model.learner.student.head.task_end);
    assert_string_equal(loaded.class_name[classes - 1], "class 256");
    rc_saved_model_destroy(&loaded);
}

/* ---- where it can be saved -------------------------------------------------------------------------------------- */

static void places_are_looked_at_before_a_lesson(void **state)
{
    (void)state;
    struct rlimit limit, less;
    data_write_text("there", "old");
    SUCCEEDS(rc_saving_check("new", 0, false));
    SUCCEEDS(rc_saving_check("./new", 1000, true));
    SUCCEEDS(rc_saving_check("there", 1000, true));
    assert_int_equal(access("new", F_OK), -1);
    REFUSED(rc_saving_check("there", 0, false), RC_IO,
            "'there' is there already; choose another name, or replace it with the setting 'overwrite'");
    assert_int_equal(mkdir("folder", 0777), 0);
    for (int replace = 0; replace < 2; replace++)
        REFUSED(rc_saving_check("folder", 0, replace), RC_IO, "'folder' is a folder, expected the name of a file");
    assert_int_equal(rc_saving_check("nowhere/new", 0, false), RC_IO);
    data_assert_message("nowhere");
    data_assert_message("; make the folder first");
    assert_int_equal(rc_saving_check("there/new", 0, false), RC_IO);
    data_assert_message("; choose another name or place");
    assert_int_equal(rc_saving_check("folder/new", (size_t)1 << 60, false), RC_IO);
    assert_memory_equal(rc_message(), "no room for 'folder/new': the model takes 1152921504606847 kB or more, ", 70);
    data_assert_message(" are free; make room, or choose another place");
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    less = limit;
    for (int bytes = 0; bytes <= 250000; bytes += 250000) {
        char message[256];
        less.rlim_cur = bytes == 0 ? 100000 : 250000;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &less), 0);
        SUCCEEDS(rc_saving_check("new", (size_t)bytes, false));
        less.rlim_cur -= 1000;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &less), 0);
        rc_status status = rc_saving_check("new", (size_t)bytes, false);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        snprintf(
            message, sizeof message,
            "'new' cannot be written: the model takes %d kB or more, and this process may write files of %d kB; raise "
            "the limit (ulimit -f)",
            bytes == 0 ? 100 : 250, bytes == 0 ? 99 : 249);
        REFUSED(status, RC_IO, message);
    }
}

/* ---- checkpoints ------------------------------------------------------------------------------------------------ */

/* Reals are floats in the file, whatever they are in the backend, and whole numbers stay as they are. */
static void checkpoints_hold_numbers_of_every_backend(void **state)
{
    (void)state;
    rc_backend *be;
    rc_safetensors *file;
    rc_position found, position = {.task = 3,
                                   .stage = RC_STAGE_REFINEMENT,
                                   .step = 4000000000u,
                                   .seconds = 12.5,
                                   .log_offset = 123456789012,
                                   .wall = {1.5, 2.5, 3.5, 4.5}};
    double real[2] = {0.5, -3}, real_again[2] = {0};
    int32_t whole[3] = {7, -1, 1 << 30}, whole_again[3] = {0};
    SUCCEEDS(rc_backend_open("reference64", 1, NULL, &be));
    rc_state saved = {0}, again = {0};
    rc_state_add(&saved, "numbers", RC_STATE_INT32, whole, 3);
    rc_state_add(&saved, "reals", RC_STATE_REAL, real, 2);
    rc_state_add(&again, "numbers", RC_STATE_INT32, whole_again, 3);
    rc_state_add(&again, "reals", RC_STATE_REAL, real_again, 2);
    SUCCEEDS(rc_checkpoint_save("c", be, &saved, &position, "method=mine"));
    SUCCEEDS(rc_checkpoint_open("c", "method=mine", &found, &file));
    assert_true(found.task == 3 && found.stage == RC_STAGE_REFINEMENT && found.step == 4000000000u);
    assert_true(found.seconds == 12.5 && found.log_offset == 123456789012);
    assert_memory_equal(found.wall, position.wall, sizeof found.wall);
    SUCCEEDS(rc_checkpoint_restore(file, be, &again));
    assert_memory_equal(whole, whole_again, sizeof whole);
    assert_memory_equal(real, real_again, sizeof real);
    rc_safetensors_close(file);
    rc_backend_close(be);
}

int main(void)
{
#define IN_FOLDER(test)  cmocka_unit_test_setup_teardown(test, data_enter_folder, data_leave_folder)
#define WITH_MODEL(test) cmocka_unit_test_setup_teardown(test, make_model, drop_model)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(broken_headers_are_named),
        cmocka_unit_test(other_files_are_recognised),
        cmocka_unit_test(tensors_lie_where_the_header_says),
        WITH_MODEL(a_model_says_what_it_is),
        WITH_MODEL(broken_metadata_is_named),
        WITH_MODEL(tensors_that_do_not_fit_are_named),
        WITH_MODEL(a_model_of_many_tasks_comes_back),
        IN_FOLDER(places_are_looked_at_before_a_lesson),
        IN_FOLDER(checkpoints_hold_numbers_of_every_backend),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
