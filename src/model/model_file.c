#include "model/model_file.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/half.h"
#include "base/memory.h"
#include "cil/scatter.h"
#include "model/other_file.h"
#include "nn/nets.h"

static const char format[] = "recollect-model-1";
static const char row_numbers[] = "row_numbers"; /* key of the metadata; see forget_unread */
static const char head_bias[] = "head.bias", taught_mean[] = "head.taught_mean", class_mean[] = "statistics.class_mean",
                  class_variance[] = "statistics.class_variance", class_factor[] = "statistics.class_factor";

enum { NAME_SIZE = 2 * RC_NAME_MAX + 32, MORE_TENSORS = RC_MAX_TASKS + 4 + 32 };

/* ---- saving -------------------------------------------------------------------------------------------- */

enum { MAX_NUMBERS = 4 };

/* Tensors to be written, copied to the host one after the other, and numbers of the source. */
typedef struct bundle {
    rc_source_file file; /* what the source writes to */
    rc_backend *backend;
    rc_named_tensor *tensor;
    char (*name)[NAME_SIZE];
    int count, capacity;
    struct {
        const char *key;
        int64_t value;
    } number[MAX_NUMBERS];
    int numbers;
} bundle;

/* The tensor with memory of its own, all zeros. */
static rc_status add_zeros(bundle *b, const rc_named_tensor *tensor, void **data)
{
    if (b->count == b->capacity)
        return rc_fail(RC_INTERNAL, "a model has more than %d tensors", b->capacity);
    *data = rc_alloc_zeroed(NULL, rc_named_tensor_count(tensor), rc_dtype_bytes(tensor->dtype));
    if (*data == NULL)
        return RC_OUT_OF_MEMORY;
    snprintf(b->name[b->count], NAME_SIZE, "%s", tensor->name);
    b->tensor[b->count] = *tensor;
    b->tensor[b->count].name = b->name[b->count];
    b->tensor[b->count++].data = *data;
    return RC_OK;
}

/* Reals in backend memory. */
static rc_status add(bundle *b, const char *name, int dims, const int64_t *shape, const void *memory)
{
    rc_named_tensor tensor = {.name = name, .dtype = RC_DTYPE_F32, .dims = dims};
    void *data;
    for (int i = 0; i < dims; i++)
        tensor.shape[i] = shape[i];
    RC_TRY(add_zeros(b, &tensor, &data));
    b->backend->read_real(b->backend, data, memory, rc_named_tensor_count(&tensor));
    return RC_OK;
}

/* The same in 16 bits. */
static rc_status add_halves(bundle *b, const char *name, const int64_t shape[2], const void *memory)
{
    rc_named_tensor tensor = {.name = name, .dtype = RC_DTYPE_F16, .dims = 2, .shape = {shape[0], shape[1]}};
    size_t count = rc_named_tensor_count(&tensor);
    void *data;
    RC_TRY(add_zeros(b, &tensor, &data));
    float *values = rc_alloc_zeroed(NULL, count, sizeof *values);
    if (values == NULL)
        return RC_OUT_OF_MEMORY;
    b->backend->read_real(b->backend, values, memory, count);
    rc_status status = b->backend->sync(b->backend);
    for (size_t i = 0; i < count; i++) {
        uint16_t half = rc_half_from_float(values[i]);
        memcpy((char *)data + i * sizeof half, &half, sizeof half);
    }
    rc_free(NULL, values);
    return status;
}

static rc_status add_model(rc_source_file *file, const char *prefix, const rc_model *model)
{
    bundle *b = (bundle *)file;
    rc_slice slice;
    for (int i = 0; rc_net_slice(model->net, i, &slice); i++) {
        char name[NAME_SIZE];
        int64_t shape[4];
        snprintf(name, sizeof name, "%s.%s", prefix, slice.name);
        for (int k = 0; k < slice.dims; k++)
            shape[k] = slice.shape[k];
        RC_TRY(add(b, name, slice.dims, shape,
                   rc_real_at(b->backend, slice.running ? model->running : model->param, slice.offset)));
    }
    return RC_OK;
}

static rc_status add_head(bundle *b, const rc_head *head)
{
    for (int task = 0, first = 0; task < head->tasks; first = head->task_end[task++]) {
        char name[NAME_SIZE];
        int64_t shape[2] = {head->task_end[task] - first, head->d};
        snprintf(name, sizeof name, "head.classifiers.%d.weight", task);
        RC_TRY(add(b, name, 2, shape, rc_real_at(b->backend, head->weight, (size_t)first * (size_t)head->d)));
    }
    int64_t classes = head->classes;
    return head->bias != NULL ? add(b, head_bias, 1, &classes, head->bias) : RC_OK;
}

static rc_named_tensor tensor_of(const rc_source_array *array)
{
    rc_named_tensor tensor = {
        .name = array->name, .dtype = array->whole ? RC_DTYPE_I32 : RC_DTYPE_U8, .dims = array->dims};
    memcpy(tensor.shape, array->shape, (size_t)array->dims * sizeof *array->shape);
    return tensor;
}

static rc_status add_array(rc_source_file *file, const rc_source_array *array)
{
    const rc_named_tensor tensor = tensor_of(array);
    void *data;
    RC_TRY(add_zeros((bundle *)file, &tensor, &data));
    memcpy(data, array->values, rc_named_tensor_count(&tensor) * rc_dtype_bytes(tensor.dtype));
    return RC_OK;
}

static rc_status add_number(rc_source_file *file, const char *key, double *value)
{
    bundle *b = (bundle *)file;
    if (b->numbers == MAX_NUMBERS)
        return rc_fail(RC_INTERNAL, "no room for '%s': a source has at most %d numbers", key, MAX_NUMBERS);
    b->number[b->numbers].key = key;
    b->number[b->numbers++].value = (int64_t)*value;
    return RC_OK;
}

static rc_status collect(bundle *b, const rc_learner *l)
{
    b->file = (rc_source_file){.model = add_model, .array = add_array, .number = add_number};
    RC_TRY(add_model(&b->file, "backbone", &l->student.backbone));
    RC_TRY(add_head(b, &l->student.head));
    if (l->source->kind->save != NULL)
        RC_TRY(l->source->kind->save(l->source, l, &b->file));
    int64_t d = l->student.head.d, mean[2] = {l->statistics_classes, d}, covariance[2] = {d, d},
            taught[2] = {l->taught, d};
    if (l->taught > 0)
        RC_TRY(add(b, taught_mean, 2, taught, l->taught_mean));
    if (l->class_mean == NULL)
        return RC_OK;
    if (l->class_variance == NULL) {
        RC_TRY(add(b, class_mean, 2, mean, l->class_mean));
    } else {
        RC_TRY(add_halves(b, class_mean, mean, l->class_mean));
        RC_TRY(add_halves(b, class_variance, mean, l->class_variance));
    }
    if (l->class_factor != NULL) {
        const int64_t factor[2] = {l->statistics_classes, (int64_t)rc_factor_numbers((int)d)};
        RC_TRY(add(b, class_factor, 2, factor, l->class_factor));
    }
    return add(b, "statistics.covariance", 2, covariance, l->covariance);
}

/* Metadata are strings, so lists and the configuration are JSON inside of one. */
static void put_numbers(rc_json_writer *metadata, const char *key, const float *values, int count)
{
    rc_json_writer list = {0};
    rc_json_begin_array(&list, NULL);
    for (int i = 0; i < count; i++)
        rc_json_put_real(&list, NULL, (double)values[i]);
    rc_json_end(&list);
    rc_json_put_written(metadata, key, &list);
}

static void put_integers(rc_json_writer *metadata, const char *key, const int64_t *values, int count)
{
    rc_json_writer list = {0};
    rc_json_begin_array(&list, NULL);
    for (int i = 0; i < count; i++)
        rc_json_put_int(&list, NULL, values[i]);
    rc_json_end(&list);
    rc_json_put_written(metadata, key, &list);
}

static void put_names(rc_json_writer *metadata, const rc_saved_model *model)
{
    rc_json_writer names = {0};
    rc_json_begin_array(&names, NULL);
    for (int i = 0; i < model->learner.student.head.classes; i++)
        rc_json_put_text(&names, NULL, model->class_name[i]);
    rc_json_end(&names);
    rc_json_put_written(metadata, "classes", &names);
}

static void put_config(rc_json_writer *metadata, const rc_config *config)
{
    rc_json_writer settings = {0};
    rc_json_begin_object(&settings, NULL);
    rc_config_put_json(config, NULL, &settings);
    rc_json_end(&settings);
    rc_json_put_written(metadata, "config", &settings);
}

static void describe(const rc_saved_model *model, const bundle *b, rc_json_writer *metadata)
{
    const rc_learner *l = &model->learner;
    const rc_head *head = &l->student.head;
    int64_t tasks[RC_MAX_TASKS], image[] = {l->augment.h, l->augment.w, l->augment.c};
    for (int task = 0; task < head->tasks; task++)
        tasks[task] = head->task_end[task] - (task ? head->task_end[task - 1] : 0);
    rc_json_put_text(metadata, "format", format);
    rc_json_put_text(metadata, "version", recollect_version());
    rc_json_put_text(metadata, "method", l->method->name);
    put_names(metadata, model);
    put_integers(metadata, "tasks", tasks, head->tasks);
    put_numbers(metadata, "mean", l->augment.mean, l->augment.c);
    put_numbers(metadata, "std", l->augment.std, l->augment.c);
    put_integers(metadata, "image", image, 3);
    for (int i = 0; i < b->numbers; i++)
        put_integers(metadata, b->number[i].key, &b->number[i].value, 1);
    put_config(metadata, &model->config);
    rc_json_put_text(metadata, row_numbers, "give way to settings");
    if (l->statistics_of_images)
        rc_json_put_text(metadata, "statistics_of", "images"); /* older files have none */
    if (model->calibration.lessons > 0)
        rc_calibration_put(&model->calibration, metadata);
    rc_model_put_origin(model, metadata);
}

/* All tensors of the model; on failure, too, drop_bundle frees what it holds. */
static rc_status make_bundle(const rc_saved_model *model, bundle *b)
{
    rc_backend *be = model->learner.backend;
    int capacity = 8 * model->learner.net.layers + MORE_TENSORS;
    *b = (bundle){.backend = be, .capacity = capacity};
    b->tensor = rc_alloc_zeroed(NULL, (size_t)capacity, sizeof *b->tensor);
    b->name = rc_alloc_zeroed(NULL, (size_t)capacity, sizeof *b->name);
    if (b->tensor == NULL || b->name == NULL)
        return RC_OUT_OF_MEMORY;
    RC_TRY(be->sync(be));
    RC_TRY(collect(b, &model->learner));
    return be->sync(be); /* was all of it read? */
}

static void drop_bundle(bundle *b)
{
    for (int i = 0; i < b->count; i++)
        rc_free(NULL, rc_without_const(b->tensor[i].data));
    rc_free(NULL, b->tensor);
    rc_free(NULL, b->name);
}

rc_status rc_model_file_save(const char *path, const rc_saved_model *model, bool replace)
{
    bundle b;
    rc_status status = make_bundle(model, &b);
    if (status == RC_OK) {
        rc_json_writer metadata = rc_safetensors_metadata_begin();
        describe(model, &b, &metadata);
        status = rc_safetensors_write(path, b.tensor, b.count, &metadata, replace);
    }
    drop_bundle(&b);
    return status;
}

rc_status rc_model_file_pack(const rc_saved_model *model, void **bytes, size_t *size)
{
    bundle b;
    *bytes = NULL;
    *size = 0;
    rc_status status = make_bundle(model, &b);
    if (status == RC_OK) {
        rc_json_writer metadata = rc_safetensors_metadata_begin();
        describe(model, &b, &metadata);
        status = rc_safetensors_pack(b.tensor, b.count, &metadata, bytes, size);
    }
    drop_bundle(&b);
    return status;
}

/* ---- loading ------------------------------------------------------------------------------------------- */

/* An open file, as a source reads it. */
typedef struct opened {
    rc_source_file file;
    const rc_safetensors *tensors;
} opened;

static const rc_safetensors *tensors_of(const rc_source_file *file)
{
    return ((const opened *)file)->tensors;
}

static rc_status get_json(const rc_safetensors *file, const char *key, rc_json **json)
{
    const char *text = rc_safetensors_metadata(file, key);
    if (text == NULL)
        return rc_fail(RC_FORMAT, "the metadata has no '%s'", key);
    return rc_json_parse(key, text, strlen(text), json);
}

/* `count` numbers of a metadata list; count < 0: any number up to `room`. */
static rc_status get_numbers(const rc_safetensors *file, const char *key, int room, int *count, double *out)
{
    rc_json *list;
    RC_TRY(get_json(file, key, &list));
    const rc_json *value = NULL;
    size_t found = rc_json_count(list);
    rc_status status = RC_OK;
    if (!rc_json_is(list, RC_JSON_ARRAY))
        status = rc_fail(RC_FORMAT, "the metadata's '%s' is no list of numbers", key);
    else if (found > (size_t)room || (*count >= 0 && found != (size_t)*count))
        status = rc_fail(RC_FORMAT, "the metadata's '%s' has %zu entries, expected %d", key, found,
                         *count >= 0 ? *count : room);
    for (size_t i = 0; status == RC_OK && (value = rc_json_next(list, value)) != NULL; i++) {
        out[i] = rc_json_number(value);
        if (isnan(out[i]))
            status = rc_fail(RC_FORMAT, "the metadata's '%s' holds something that is not a number", key);
    }
    rc_json_free(list);
    *count = (int)found;
    return status;
}

/* A number of a metadata list that counts something. */
static rc_status take_whole(const char *key, double value, int low, int high, int *out)
{
    if (!(value >= low && value <= high && value == floor(value)))
        return rc_fail(RC_FORMAT, "the metadata's '%s' holds %.10g, expected a whole number from %d to %d", key, value,
                       low, high);
    *out = (int)value;
    return RC_OK;
}

/* Is everything that a net needs in the file? Asked before anything is allocated, so that a small file cannot ask for
 * a huge model. */
static rc_status check_net(rc_source_file *file, const char *prefix, const rc_net *net)
{
    rc_slice slice;
    for (int i = 0; rc_net_slice(net, i, &slice); i++) {
        char name[NAME_SIZE];
        const rc_named_tensor *tensor;
        snprintf(name, sizeof name, "%s.%s", prefix, slice.name);
        RC_TRY(rc_safetensors_get(tensors_of(file), name, RC_DTYPE_F32, slice.count, &tensor));
    }
    return RC_OK;
}

static rc_status check_nets(rc_source_file *file, const rc_settings *settings, const rc_method *method,
                            const rc_augment *image)
{
    rc_net *net = rc_alloc_zeroed(NULL, 1, sizeof *net);
    if (net == NULL)
        return RC_OUT_OF_MEMORY;
    rc_status status = rc_learner_net(settings, image, net);
    if (status == RC_OK)
        status = check_net(file, "backbone", net);
    rc_free(NULL, net);
    return status == RC_OK && method->replay->check_file != NULL ? method->replay->check_file(settings, image, file)
                                                                 : status;
}

static rc_status load_tensor(const rc_safetensors *file, rc_backend *be, const char *name, size_t count, void *memory)
{
    const rc_named_tensor *tensor;
    RC_TRY(rc_safetensors_get(file, name, RC_DTYPE_F32, count, &tensor));
    float *aligned = rc_alloc(NULL, count * sizeof *aligned);
    if (aligned == NULL)
        return RC_OUT_OF_MEMORY;
    memcpy(aligned, tensor->data, count * sizeof *aligned);
    be->write_real(be, memory, aligned, count);
    rc_free(NULL, aligned);
    return RC_OK;
}

/* The same of 16 bits each, in rows of d: numbers, none below `least`, or NaN all along for a class that had no
 * image. */
static rc_status load_halves(const rc_safetensors *file, rc_backend *be, const char *name, size_t count, size_t d,
                             float least, void *memory)
{
    const rc_named_tensor *tensor;
    RC_TRY(rc_safetensors_get(file, name, RC_DTYPE_F16, count, &tensor));
    float *values = rc_alloc(NULL, count * sizeof *values);
    if (values == NULL)
        return RC_OUT_OF_MEMORY;
    rc_status status = RC_OK;
    for (size_t i = 0; status == RC_OK && i < count; i++) {
        uint16_t half;
        memcpy(&half, (const char *)tensor->data + i * sizeof half, sizeof half);
        values[i] = rc_half_to_float(half);
        if (isinf(values[i]) || values[i] < least || isnan(values[i]) != isnan(values[i - i % d]))
            status = rc_fail(RC_FORMAT, "element %zu of tensor '%s' is %g, expected a finite number%s, or rows of NaN",
                             i, name, (double)values[i], least < 0 ? "" : " that is not negative");
    }
    if (status == RC_OK)
        be->write_real(be, memory, values, count);
    rc_free(NULL, values);
    return status;
}

/* Statistics may have NaN, for a class that had no image; weights must be numbers. */
static rc_status load_weights(const rc_safetensors *file, rc_backend *be, const char *name, size_t count, void *memory)
{
    const rc_named_tensor *tensor;
    RC_TRY(rc_safetensors_get(file, name, RC_DTYPE_F32, count, &tensor));
    for (size_t i = 0; i < count; i++) {
        float value;
        memcpy(&value, (const char *)tensor->data + i * sizeof value, sizeof value);
        if (!isfinite(value))
            return rc_fail(RC_FORMAT, "element %zu of tensor '%s' is %g, expected a finite number", i, name,
                           (double)value);
    }
    return load_tensor(file, be, name, count, memory);
}

static rc_status load_model(rc_source_file *file, const char *prefix, const rc_model *model)
{
    rc_slice slice;
    for (int i = 0; rc_net_slice(model->net, i, &slice); i++) {
        char name[NAME_SIZE];
        snprintf(name, sizeof name, "%s.%s", prefix, slice.name);
        void *memory = rc_real_at(model->backend, slice.running ? model->running : model->param, slice.offset);
        RC_TRY(load_weights(tensors_of(file), model->backend, name, slice.count, memory));
    }
    return RC_OK;
}

static rc_status check_array(rc_source_file *file, const rc_source_array *array)
{
    const rc_named_tensor wanted = tensor_of(array), *found;
    return rc_safetensors_get(tensors_of(file), wanted.name, wanted.dtype, rc_named_tensor_count(&wanted), &found);
}

static rc_status load_array(rc_source_file *file, const rc_source_array *array)
{
    const rc_named_tensor wanted = tensor_of(array), *found;
    size_t count = rc_named_tensor_count(&wanted);
    RC_TRY(rc_safetensors_get(tensors_of(file), wanted.name, wanted.dtype, count, &found));
    memcpy(array->values, found->data, count * rc_dtype_bytes(wanted.dtype));
    return RC_OK;
}

static rc_status load_number(rc_source_file *file, const char *key, double *value)
{
    int one = 1;
    return get_numbers(tensors_of(file), key, 1, &one, value);
}

static int64_t count_rows(rc_source_file *file, const char *name, int dims)
{
    const rc_named_tensor *tensor = rc_safetensors_find(tensors_of(file), name);
    return tensor == NULL ? -1 : tensor->dims == dims ? tensor->shape[0] : 0;
}

static rc_status load_head(const rc_safetensors *file, rc_head *head)
{
    double sizes[RC_MAX_TASKS];
    int tasks = -1;
    RC_TRY(get_numbers(file, "tasks", RC_MAX_TASKS, &tasks, sizes));
    for (int task = 0; task < tasks; task++) {
        char name[NAME_SIZE];
        const rc_named_tensor *tensor;
        int classes;
        RC_TRY(take_whole("tasks", sizes[task], 1, RC_DATA_MAX_CLASSES - head->classes, &classes));
        size_t first = (size_t)head->classes, d = (size_t)head->d, count = (size_t)classes * d;
        snprintf(name, sizeof name, "head.classifiers.%d.weight", task);
        RC_TRY(rc_safetensors_get(file, name, RC_DTYPE_F32, count, &tensor));
        RC_TRY(rc_head_grow(head, classes, (rc_rng){0, 0}));
        RC_TRY(load_weights(file, head->backend, name, count, rc_real_at(head->backend, head->weight, first * d)));
    }
    if (tasks < 1)
        return rc_fail(RC_FORMAT, "the model knows no class");
    const rc_named_tensor *bias = rc_safetensors_find(file, head_bias);
    if (bias == NULL)
        return RC_OK;
    if (bias->dims != 1)
        return rc_fail(RC_FORMAT, "tensor '%s' has %d dimensions, expected 1", head_bias, bias->dims);
    RC_TRY(rc_head_add_bias(head));
    return load_weights(file, head->backend, head_bias, (size_t)head->classes, head->bias);
}

static rc_status load_taught(const rc_safetensors *file, rc_learner *l)
{
    const rc_named_tensor *tensor = rc_safetensors_find(file, taught_mean);
    int classes = l->student.head.classes;
    if (tensor == NULL)
        return RC_OK;
    if (tensor->dims != 2 || tensor->shape[0] < 1 || tensor->shape[0] > classes)
        return rc_fail(RC_FORMAT, "tensor '%s' has %d dimensions and %lld rows, expected 2 and 1 to %d", taught_mean,
                       tensor->dims, tensor->dims > 0 ? (long long)tensor->shape[0] : 0, classes);
    RC_TRY(rc_learner_grow_taught(l, (int)tensor->shape[0]));
    return load_weights(file, l->backend, taught_mean, (size_t)l->taught * (size_t)l->student.head.d, l->taught_mean);
}

/* Factors of single classes, which older files do not have. */
static rc_status load_factors(const rc_safetensors *file, rc_learner *l)
{
    const rc_named_tensor *tensor;
    size_t count = (size_t)l->statistics_classes * rc_factor_numbers(l->student.head.d);
    if (rc_safetensors_find(file, class_factor) == NULL)
        return RC_OK;
    RC_TRY(rc_safetensors_get(file, class_factor, RC_DTYPE_F32, count, &tensor)); /* before memory is taken */
    RC_TRY(rc_learner_keep_factors(l));
    return load_weights(file, l->backend, class_factor, count, l->class_factor);
}

/* Does every class have both a mean and variances, or neither? (Rows are NaN all along, or have no NaN.) */
static rc_status check_moments(const rc_safetensors *file, size_t classes, size_t d)
{
    const rc_named_tensor *mean, *variance;
    RC_TRY(rc_safetensors_get(file, class_mean, RC_DTYPE_F16, classes * d, &mean));
    RC_TRY(rc_safetensors_get(file, class_variance, RC_DTYPE_F16, classes * d, &variance));
    for (size_t k = 0; k < classes; k++) {
        uint16_t half[2];
        memcpy(&half[0], (const char *)mean->data + k * d * sizeof *half, sizeof *half);
        memcpy(&half[1], (const char *)variance->data + k * d * sizeof *half, sizeof *half);
        if (!isnan(rc_half_to_float(half[0])) != !isnan(rc_half_to_float(half[1])))
            return rc_fail(RC_FORMAT, "class %zu has a mean without variances, or variances without a mean", k);
    }
    return RC_OK;
}

static rc_status load_statistics(const rc_safetensors *file, rc_learner *l)
{
    RC_TRY(load_taught(file, l));
    if (rc_safetensors_find(file, class_mean) == NULL)
        return RC_OK;
    size_t d = (size_t)l->student.head.d;
    const char *of = rc_safetensors_metadata(file, "statistics_of");
    RC_TRY(rc_learner_grow_statistics(l));
    l->statistics_of_images = of != NULL ? strcmp(of, "images") == 0 : l->student.head.tasks == 1;
    size_t count = (size_t)l->statistics_classes * d;
    RC_TRY(load_tensor(file, l->backend, "statistics.covariance", d * d, l->covariance));
    RC_TRY(load_factors(file, l));
    if (rc_safetensors_find(file, class_variance) == NULL)
        return load_tensor(file, l->backend, class_mean, count, l->class_mean);
    RC_TRY(rc_learner_keep_variances(l));
    RC_TRY(load_halves(file, l->backend, class_mean, count, d, -HUGE_VALF, l->class_mean));
    RC_TRY(load_halves(file, l->backend, class_variance, count, d, 0, l->class_variance));
    return check_moments(file, (size_t)l->statistics_classes, d);
}

static rc_status load_name(const char *name, int index, char **copy)
{
    if (name == NULL)
        return rc_fail(RC_FORMAT, "class name %d is not a text", index);
    size_t length = strlen(name);
    RC_TRY(rc_check_class_name(index, name, length)); /* control characters would reach a terminal */
    *copy = rc_alloc_zeroed(NULL, length + 1, 1);
    if (*copy == NULL)
        return RC_OUT_OF_MEMORY;
    memcpy(*copy, name, length);
    return RC_OK;
}

static rc_status load_names(const rc_safetensors *file, rc_saved_model *model)
{
    rc_json *list;
    RC_TRY(get_json(file, "classes", &list));
    const rc_json *value = NULL;
    size_t classes = (size_t)model->learner.student.head.classes;
    size_t found = rc_json_is(list, RC_JSON_ARRAY) ? rc_json_count(list) : 0;
    rc_status status = found == classes ? RC_OK : rc_fail(RC_FORMAT, "%zu class names for %zu classes", found, classes);
    if (status == RC_OK && (model->class_name = rc_alloc_zeroed(NULL, classes, sizeof *model->class_name)) == NULL)
        status = RC_OUT_OF_MEMORY;
    for (int i = 0; status == RC_OK && (value = rc_json_next(list, value)) != NULL; i++)
        status = load_name(rc_json_string(value), i, &model->class_name[i]);
    rc_json_free(list);
    RC_TRY(status);
    return rc_check_class_names((const char *const *)model->class_name, (int)classes);
}

static rc_status load_image(const rc_safetensors *file, rc_augment *image)
{
    double claim[3], mean[4], std[4];
    int three = 3, shape[3];
    RC_TRY(get_numbers(file, "image", 3, &three, claim));
    for (int i = 0; i < 3; i++)
        RC_TRY(take_whole("image", claim[i], 1, INT_MAX, &shape[i]));
    *image = (rc_augment){.h = shape[0], .w = shape[1], .c = shape[2]};
    if (rc_check_image_shape(image->h, image->w, image->c) != RC_OK)
        return rc_fail(RC_FORMAT, "the metadata's 'image' is impossible: %s", rc_message());
    RC_TRY(get_numbers(file, "mean", 4, &image->c, mean));
    RC_TRY(get_numbers(file, "std", 4, &image->c, std));
    for (int c = 0; c < image->c; c++) {
        if (!(fabs(mean[c]) <= 100 && std[c] >= 1e-6 && std[c] <= 100))
            return rc_fail(RC_FORMAT, "mean and standard deviation of channel %d are %g and %g", c, mean[c], std[c]);
        image->mean[c] = (float)mean[c];
        image->std[c] = (float)std[c];
    }
    return RC_OK;
}

/* In files without the key, the rows with 5120 images had numbers that no setting changed, and the settings hold those
 * of other rows. */
static void forget_unread(const rc_safetensors *file, const rc_method *method, rc_settings *settings)
{
    enum { LARGE_BUFFER = 5120 };
    if (rc_safetensors_metadata(file, row_numbers) != NULL || method->buffer_size != LARGE_BUFFER)
        return;
    settings->buffer_size = 0;
    settings->lode_rho = 0;
}

bool rc_model_has_format(const char *kind)
{
    return kind != NULL && strcmp(kind, format) == 0;
}

static rc_status load(const rc_safetensors *file, rc_backend *backend, rc_saved_model *model)
{
    const char *kind = rc_safetensors_metadata(file, "format"), *name = rc_safetensors_metadata(file, "method");
    if (!rc_model_has_format(kind))
        return rc_fail(RC_FORMAT, "it is not a model of recollect: its metadata has %s%.40s%s, expected format '%s'%s",
                       kind ? "format '" : "no format", kind ? kind : "", kind ? "'" : "", format,
                       rc_other_metadata(file));
    if (name == NULL)
        return rc_fail(RC_FORMAT, "the metadata names no method");
    rc_json *config;
    rc_augment image;
    const rc_method *method;
    model->config = rc_config_default();
    RC_TRY(rc_method_find(name, &method));
    RC_TRY(load_image(file, &image));
    RC_TRY(get_json(file, "config", &config));
    rc_status status = rc_config_from_json(&model->config, config);
    rc_json_free(config);
    RC_TRY(status);
    forget_unread(file, method, &model->config.settings);
    RC_TRY(rc_config_check(&model->config));
    opened o = {.file = {.model = load_model,
                         .array = load_array,
                         .number = load_number,
                         .find_net = check_net,
                         .find_array = check_array,
                         .find_rows = count_rows},
                .tensors = file};
    rc_learner *l = &model->learner;
    RC_TRY(check_nets(&o.file, &model->config.settings, method, &image));
    RC_TRY(rc_learner_create(l, backend, &model->config.settings, method, &image));
    RC_TRY(load_model(&o.file, "backbone", &l->student.backbone));
    RC_TRY(load_head(file, &l->student.head));
    RC_TRY(load_statistics(file, l));
    if (method->replay->load != NULL)
        RC_TRY(method->replay->load(l->source, l, &o.file));
    RC_TRY(load_names(file, model));
    rc_model_get_origin(file, model);
    const char *calibration = rc_safetensors_metadata(file, "calibration");
    if (calibration != NULL) /* older files have none */
        RC_TRY(rc_calibration_get(calibration, l->student.head.classes, &model->calibration));
    return backend->sync(backend);
}

/* Bytes of tensors that are in the file, but not in the model. A file of ours has none. */
static size_t count_unknown(const rc_safetensors *file, const rc_saved_model *model)
{
    const rc_kept kept = rc_model_kept(model);
    size_t all = 0, known = rc_kept_bytes(&kept);
    for (int i = 0; i < rc_safetensors_count(file); i++)
        all += rc_named_tensor_bytes(rc_safetensors_at(file, i));
    return all > known ? all - known : 0;
}

/* Loads from an open file and closes it; `name` is what messages call it. */
static rc_status load_and_close(const char *name, rc_safetensors *file, rc_backend *backend, rc_saved_model *model)
{
    rc_status status = load(file, backend, model);
    model->file_bytes = rc_safetensors_bytes(file);
    if (status == RC_OK)
        model->unknown_bytes = count_unknown(file, model);
    rc_safetensors_close(file);
    if (status == RC_OK)
        return RC_OK;
    rc_saved_model_destroy(model);
    return status == RC_OUT_OF_MEMORY ? status : rc_fail(status, "%s: %s", name, rc_message());
}

rc_status rc_model_file_load(const char *path, rc_backend *backend, rc_saved_model *model)
{
    memset(model, 0, sizeof *model);
    rc_safetensors *file;
    RC_TRY(rc_safetensors_open(path, &file));
    return load_and_close(path, file, backend, model);
}

rc_status rc_model_file_parse(const char *name, const void *bytes, size_t size, rc_backend *backend,
                              rc_saved_model *model)
{
    memset(model, 0, sizeof *model);
    rc_safetensors *file;
    RC_TRY(rc_safetensors_parse(name, bytes, size, &file));
    return load_and_close(name, file, backend, model);
}
