/* The side of the library in the tests with Python (interop.py): writes and reads what Python reads and writes.
 *
 * usage: interop write FILE               tensors of every type, and metadata
 *        interop dump FILE KEY...         tensors and those metadata as JSON on stdout
 *        interop model FILE               a model of two tasks
 *        interop resave MODEL NEW         loads a model and saves it again
 *        interop data PATH SIZE RESIZE CHANNELS FILE
 *                                         a data set: names and labels as JSON on stdout, the pixels into FILE
 *        interop json INDENT FILE...      reads JSON and writes it on stdout; an empty line where it is none */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "data/dataset.h"
#include "model/model_file.h"

static int failed(void)
{
    fprintf(stderr, "%s\n", rc_message());
    return 1;
}

static void print_line(void *unused, const char *text)
{
    (void)unused;
    puts(text);
}

static int print(rc_json_writer *w)
{
    return rc_json_line(w, print_line, NULL) == RC_OK ? 0 : failed();
}

/* ---- JSON ----------------------------------------------------------------------------------------------- */

static int rewrite(const char *indent, char **paths)
{
    int code = 0;
    for (; *paths != NULL && code == 0; paths++) {
        rc_json *json;
        rc_json_writer w = {.indent = atoi(indent)};
        rc_status status = rc_json_load(*paths, (size_t)1 << 20, &json);
        rc_json_put_value(&w, NULL, json);
        rc_json_free(json);
        code = status == RC_FORMAT ? puts("") < 0 : status != RC_OK ? failed() : print(&w);
        rc_json_discard(&w);
    }
    return code;
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
        {"bytes.odd", RC_DTYPE_U8, 1, {COUNT - 1}, u8}, {"f32", RC_DTYPE_F32, 4, {2, 3, 1, 4}, f32},
        {"f64", RC_DTYPE_F64, 2, {4, 6}, f64},          {"i32", RC_DTYPE_I32, 3, {2, 2, 6}, i32},
        {"i64", RC_DTYPE_I64, 1, {COUNT}, i64},         {"scalar", RC_DTYPE_F32, 0, {0}, f32 + 5},
        {"nothing", RC_DTYPE_F32, 2, {0, 7}, f32},      {"caf\xC3\xA9 \"x\"", RC_DTYPE_U8, 2, {3, 4}, u8},
    };
    rc_json_writer metadata = rc_safetensors_metadata_begin();
    rc_json_put_text(&metadata, "maker", "recollect");
    rc_json_put_text(&metadata, "words", "caf\xC3\xA9 \"quoted\"\nnew line");
    rc_status status = rc_safetensors_write(path, tensors, sizeof tensors / sizeof *tensors, &metadata, true);
    return status == RC_OK ? 0 : failed();
}

static bool describe(const rc_named_tensor *tensor, rc_json_writer *w)
{
    static const char *const names[] = {"F32", "F64", "I32", "I64", "U8"};
    size_t size = rc_named_tensor_count(tensor) * rc_dtype_bytes(tensor->dtype);
    const unsigned char *data = tensor->data;
    char *hex = calloc(2 * size + 1, 1);
    if (hex == NULL)
        return false;
    for (size_t i = 0; i < size; i++)
        snprintf(hex + 2 * i, 3, "%02x", data[i]);
    rc_json_begin_object(w, tensor->name);
    rc_json_put_text(w, "dtype", names[tensor->dtype]);
    rc_json_begin_array(w, "shape");
    for (int i = 0; i < tensor->dims; i++)
        rc_json_put_int(w, NULL, tensor->shape[i]);
    rc_json_end(w);
    rc_json_put_text(w, "bytes", hex);
    rc_json_end(w);
    free(hex);
    return true;
}

static int dump_tensors(const char *path, char **keys)
{
    rc_safetensors *file;
    if (rc_safetensors_open(path, &file) != RC_OK)
        return failed();
    rc_json_writer w = {0};
    bool whole = true;
    rc_json_begin_object(&w, NULL);
    rc_json_begin_object(&w, "tensors");
    for (int i = 0; i < rc_safetensors_count(file); i++)
        whole = describe(rc_safetensors_at(file, i), &w) && whole;
    rc_json_end(&w);
    rc_json_begin_object(&w, "metadata");
    for (; *keys != NULL; keys++)
        rc_json_put_text(&w, *keys, rc_safetensors_metadata(file, *keys));
    rc_json_end(&w);
    rc_json_end(&w);
    rc_safetensors_close(file);
    return print(&w) == 0 && whole ? 0 : 1;
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

static void put_labels(rc_json_writer *w, const char *key, const rc_split *split)
{
    rc_json_begin_array(w, key);
    for (int i = 0; i < split->count; i++)
        rc_json_put_int(w, NULL, split->labels[i]);
    rc_json_end(w);
}

static int print_data(const rc_dataset *d)
{
    rc_json_writer w = {0};
    rc_json_begin_object(&w, NULL);
    rc_json_put_text(&w, "format", d->format);
    rc_json_begin_array(&w, "shape");
    rc_json_put_int(&w, NULL, d->h);
    rc_json_put_int(&w, NULL, d->w);
    rc_json_put_int(&w, NULL, d->c);
    rc_json_end(&w);
    rc_json_begin_array(&w, "names");
    for (int i = 0; i < d->classes; i++)
        rc_json_put_text(&w, NULL, d->class_name[i]);
    rc_json_end(&w);
    put_labels(&w, "train", &d->train);
    put_labels(&w, "test", &d->test);
    rc_json_end(&w);
    return print(&w);
}

static int read_data(char **arguments)
{
    rc_data_settings settings = {
        .size = atoi(arguments[1]), .resize = atoi(arguments[2]), .channels = atoi(arguments[3])};
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
    int code = print_data(&d);
    rc_dataset_close(&d);
    return code;
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
    if (strcmp(command, "json") == 0 && count >= 3)
        return rewrite(arguments[2], arguments + 3);
    fprintf(stderr, "usage: interop write|dump|model|resave|data|json ARGUMENT...\n");
    return 2;
}
