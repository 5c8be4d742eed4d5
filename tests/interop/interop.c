/* The side of the library in the tests with Python (interop.py): writes and reads what Python reads and writes.
 *
 * usage: interop write FILE               tensors of every type, and metadata
 *        interop dump FILE KEY...         tensors and those metadata as JSON on stdout
 *        interop model FILE               a model of two tasks
 *        interop resave MODEL NEW         loads a model and saves it again
 *        interop data PATH SIZE RESIZE CHANNELS FILE
 *                                         a data set: names and labels as JSON on stdout, the pixels into FILE */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "data/dataset.h"
#include "run/model_file.h"

static int failed(void)
{
    fprintf(stderr, "%s\n", rc_message());
    return 1;
}

static int print_and_free(json_t *json)
{
    char *text;
    rc_status status = rc_json_dump(json, 0, &text);
    json_decref(json);
    if (status != RC_OK)
        return failed();
    puts(text);
    rc_free(NULL, text);
    return 0;
}

/* ---- tensors -------------------------------------------------------------------------------------------- */

static int write_tensors(const char *path)
{
    enum { COUNT = 24 };
    static float f32[COUNT];
    static double f64[COUNT];
    static int32_t i32[COUNT];
    static int64_t i64[COUNT];
    static uint8_t u8[COUNT];
    for (int i = 0; i < COUNT; i++) {
        f32[i] = (float)(i - 11) / 8.0f;
        f64[i] = (i - 11) / 1024.0;
        i32[i] = (i - 11) * 100003;
        i64[i] = (i - 11) * INT64_C(10000000019);
        u8[i] = (uint8_t)(i * 11);
    }
    const rc_named_tensor tensors[] = {
        {"bytes.odd", RC_DTYPE_U8, 1, {COUNT - 1}, u8},  {"f32", RC_DTYPE_F32, 4, {2, 3, 1, 4}, f32},
        {"f64", RC_DTYPE_F64, 2, {4, 6}, f64},           {"i32", RC_DTYPE_I32, 3, {2, 2, 6}, i32},
        {"i64", RC_DTYPE_I64, 1, {COUNT}, i64},          {"scalar", RC_DTYPE_F32, 0, {0}, f32 + 5},
        {"nothing", RC_DTYPE_F32, 2, {0, 7}, f32},       {"caf\xC3\xA9 \"x\"", RC_DTYPE_U8, 2, {3, 4}, u8},
    };
    json_t *metadata = json_pack("{s:s, s:s}", "maker", "recollect", "words", "caf\xC3\xA9 \"quoted\"\nnew line");
    rc_status status = rc_safetensors_write(path, tensors, sizeof tensors / sizeof *tensors, metadata, true);
    json_decref(metadata);
    return status == RC_OK ? 0 : failed();
}

static json_t *describe(const rc_named_tensor *tensor)
{
    static const char *const names[] = {"F32", "F64", "I32", "I64", "U8"};
    size_t size = rc_named_tensor_count(tensor) * rc_dtype_bytes(tensor->dtype);
    const unsigned char *data = tensor->data;
    char *hex = calloc(2 * size + 1, 1);
    if (hex == NULL)
        return NULL;
    for (size_t i = 0; i < size; i++)
        snprintf(hex + 2 * i, 3, "%02x", data[i]);
    json_t *shape = json_array();
    for (int i = 0; i < tensor->dims; i++)
        json_array_append_new(shape, json_integer(tensor->shape[i]));
    json_t *json = json_pack("{s:s, s:o, s:s}", "dtype", names[tensor->dtype], "shape", shape, "bytes", hex);
    free(hex);
    return json;
}

static int dump_tensors(const char *path, char **keys)
{
    rc_safetensors *file;
    if (rc_safetensors_open(path, &file) != RC_OK)
        return failed();
    json_t *tensors = json_object(), *metadata = json_object();
    for (int i = 0; i < rc_safetensors_count(file); i++) {
        const rc_named_tensor *tensor = rc_safetensors_at(file, i);
        json_object_set_new(tensors, tensor->name, describe(tensor));
    }
    for (; *keys != NULL; keys++) {
        const char *value = rc_safetensors_metadata(file, *keys);
        json_object_set_new(metadata, *keys, value != NULL ? json_string(value) : json_null());
    }
    rc_safetensors_close(file);
    return print_and_free(json_pack("{s:o, s:o}", "tensors", tensors, "metadata", metadata));
}

/* ---- models --------------------------------------------------------------------------------------------- */

static rc_status make_model(rc_backend *backend, rc_saved_model *model)
{
    static const char *const names[] = {"cat", "dog", "\xC3\xA4pfel \"rot\"", "x/y", "5"};
    const rc_method *method;
    rc_augment image = {.h = 14, .w = 14, .c = 3, .mean = {0.1f, 0.2f, 0.3f}, .std = {0.4f, 0.5f, 0.6f}};
    model->config = rc_config_default();
    RC_TRY(rc_config_set(&model->config, "net", "resnet-small"));
    RC_TRY(rc_config_set(&model->config, "generator", "generator-small"));
    RC_TRY(rc_config_set(&model->config, "net_width", "4"));
    RC_TRY(rc_method_find("cwd", &method));
    RC_TRY(rc_learner_create(&model->learner, backend, &model->config.settings, method, &image));
    RC_TRY(rc_head_grow(&model->learner.student.head, 3, (rc_rng){9, 1}));
    RC_TRY(rc_head_grow(&model->learner.student.head, 2, (rc_rng){9, 2}));
    RC_TRY(rc_learner_grow_statistics(&model->learner));
    model->class_name = rc_alloc_zeroed(NULL, 5, sizeof *model->class_name);
    for (int i = 0; i < 5 && model->class_name != NULL; i++) {
        model->class_name[i] = rc_alloc_zeroed(NULL, strlen(names[i]) + 1, 1);
        if (model->class_name[i] == NULL)
            return RC_OUT_OF_MEMORY;
        memcpy(model->class_name[i], names[i], strlen(names[i]));
    }
    return model->class_name != NULL ? RC_OK : RC_OUT_OF_MEMORY;
}

/* Makes a model, or loads `from`, and saves it. */
static int save_model(const char *from, const char *path)
{
    rc_backend *backend;
    rc_saved_model model = {0};
    if (rc_backend_open("cpu", 1, NULL, &backend) != RC_OK)
        return failed();
    rc_status status = from == NULL ? make_model(backend, &model) : rc_model_file_load(from, backend, &model);
    if (status == RC_OK)
        status = rc_model_file_save(path, &model, true);
    int code = status == RC_OK ? 0 : failed();
    rc_saved_model_destroy(&model);
    rc_backend_close(backend);
    return code;
}

/* ---- data sets ------------------------------------------------------------------------------------------ */

static json_t *labels_of(const rc_split *split)
{
    json_t *labels = json_array();
    for (int i = 0; i < split->count; i++)
        json_array_append_new(labels, json_integer(split->labels[i]));
    return labels;
}

static int read_data(char **arguments)
{
    rc_data_settings settings = {.size = atoi(arguments[1]), .resize = atoi(arguments[2]),
                                 .channels = atoi(arguments[3])};
    rc_dataset d;
    if (rc_dataset_open(arguments[0], &settings, &d) != RC_OK)
        return failed();
    FILE *file = fopen(arguments[4], "wb");
    size_t bytes = (size_t)d.h * (size_t)d.w * (size_t)d.c, written = 0;
    if (file != NULL) {
        written += fwrite(d.train.images, bytes, (size_t)d.train.count, file);
        written += fwrite(d.test.images, bytes, (size_t)d.test.count, file);
    }
    if (file == NULL || fclose(file) != 0 || written != (size_t)(d.train.count + d.test.count)) {
        fprintf(stderr, "cannot write '%s'\n", arguments[4]);
        rc_dataset_close(&d);
        return 1;
    }
    json_t *names = json_array();
    for (int i = 0; i < d.classes; i++)
        json_array_append_new(names, json_string(d.class_name[i]));
    json_t *json = json_pack("{s:s, s:[i,i,i], s:o, s:o, s:o}", "format", d.format, "shape", d.h, d.w, d.c, "names",
                             names, "train", labels_of(&d.train), "test", labels_of(&d.test));
    rc_dataset_close(&d);
    return print_and_free(json);
}

int main(int count, char **arguments)
{
    const char *command = count > 1 ? arguments[1] : "";
    if (strcmp(command, "write") == 0 && count == 3)
        return write_tensors(arguments[2]);
    if (strcmp(command, "dump") == 0 && count >= 3)
        return dump_tensors(arguments[2], arguments + 3);
    if (strcmp(command, "model") == 0 && count == 3)
        return save_model(NULL, arguments[2]);
    if (strcmp(command, "resave") == 0 && count == 4)
        return save_model(arguments[2], arguments[3]);
    if (strcmp(command, "data") == 0 && count == 7)
        return read_data(arguments + 2);
    fprintf(stderr, "usage: interop write|dump|model|resave|data ARGUMENT...\n");
    return 2;
}
