#include "model/import.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "nn/nets.h"

enum { CHANNELS = 3, FEW = 3, LIST_SIZE = 480, SHAPE_SIZE = 96 };

/* ---- names ------------------------------------------------------------------------------------------------------ */

/* Without what wrappers put before the names. */
static const char *bare(const char *name)
{
    static const char *const wrapper[] = {"module.", "model.", "backbone.", "_orig_mod."};
    for (size_t i = 0; i < sizeof wrapper / sizeof *wrapper;) {
        size_t length = strlen(wrapper[i]);
        bool found = strncmp(name, wrapper[i], length) == 0;
        name += found ? length : 0;
        i = found ? 0 : i + 1;
    }
    return name;
}

static bool ends_with(const char *name, const char *end)
{
    size_t length = strlen(name), size = strlen(end);
    return length >= size && strcmp(name + length - size, end) == 0;
}

/* -1: there is none of that name. */
static int find(const rc_weights *weights, const char *name)
{
    for (int i = 0; i < rc_weights_count(weights); i++)
        if (strcmp(bare(rc_weights_at(weights, i)->name), name) == 0)
            return i;
    return -1;
}

static int find_head(const rc_weights *weights, const rc_published *published, const char *part)
{
    char name[RC_NAME_MAX];
    snprintf(name, sizeof name, "%s.%s", published->head, part);
    return find(weights, name);
}

/* ---- comparing -------------------------------------------------------------------------------------------------- */

/* How weights differ from a net, in numbers and in words: the first few of each kind. */
typedef struct difference {
    int missing, misshapen, unexpected;
    char missing_list[LIST_SIZE], misshapen_list[LIST_SIZE], unexpected_list[LIST_SIZE];
} difference;

static int all(const difference *d)
{
    return d->missing + d->misshapen + d->unexpected;
}

static void note(char list[LIST_SIZE], int *count, const char *text)
{
    size_t used = strlen(list);
    if ((*count)++ < FEW)
        snprintf(list + used, LIST_SIZE - used, "%s%s", used > 0 ? ", " : "", text);
}

/* "(64, 3, 7, 7)". */
static const char *shape_text(int dims, const int64_t *shape, char text[SHAPE_SIZE])
{
    size_t used = (size_t)snprintf(text, SHAPE_SIZE, "(");
    for (int i = 0; i < dims && used < SHAPE_SIZE; i++)
        used += (size_t)snprintf(text + used, SHAPE_SIZE - used, "%s%lld", i > 0 ? ", " : "", (long long)shape[i]);
    if (used < SHAPE_SIZE)
        snprintf(text + used, SHAPE_SIZE - used, ")");
    return text;
}

/* Compares the tensor of that name with a shape, of which -1 stands for any number, and marks it as expected. */
static void compare(const rc_weights *weights, const char *name, int dims, const int64_t *shape, bool *expected,
                    difference *d)
{
    int index = find(weights, name);
    char text[2 * SHAPE_SIZE + 128], found[SHAPE_SIZE], wanted[SHAPE_SIZE];
    if (index < 0) {
        note(d->missing_list, &d->missing, name);
        return;
    }
    const rc_named_tensor *tensor = rc_weights_at(weights, index);
    expected[index] = true;
    bool same = tensor->dims == dims;
    for (int i = 0; i < dims && same; i++)
        same = shape[i] == -1 ? tensor->shape[i] > 0 : tensor->shape[i] == shape[i];
    if (same)
        return;
    snprintf(text, sizeof text, "'%.90s' %s, expected %s", tensor->name, shape_text(tensor->dims, tensor->shape, found),
             shape_text(dims, shape, wanted));
    note(d->misshapen_list, &d->misshapen, text);
}

/* expected: (weights), all false. */
static void compare_all(const rc_weights *weights, const rc_published *published, const rc_net *net, bool *expected,
                        difference *d)
{
    rc_slice slice;
    char name[RC_NAME_MAX];
    int weight = find_head(weights, published, "weight");
    int64_t features = net->layer[net->layers - 1].c_out;
    /* How many classes there are, the rows say. */
    int64_t rows = weight >= 0 && rc_weights_at(weights, weight)->dims == 2 ? rc_weights_at(weights, weight)->shape[0]
                                                                            : -1;
    *d = (difference){0};
    for (int i = 0; rc_net_slice(net, i, &slice); i++) {
        int64_t shape[4];
        for (int k = 0; k < slice.dims; k++)
            shape[k] = slice.shape[k];
        compare(weights, slice.name, slice.dims, shape, expected, d);
    }
    snprintf(name, sizeof name, "%s.weight", published->head);
    compare(weights, name, 2, (int64_t[]){-1, features}, expected, d);
    snprintf(name, sizeof name, "%s.bias", published->head);
    compare(weights, name, 1, &rows, expected, d);
    for (int i = 0; i < rc_weights_count(weights); i++) {
        const char *other = rc_weights_at(weights, i)->name;
        char text[96];
        snprintf(text, sizeof text, "'%.90s'", other);
        if (!expected[i] && !ends_with(other, ".num_batches_tracked"))
            note(d->unexpected_list, &d->unexpected, text);
    }
}

static rc_status measure(const rc_weights *weights, const rc_published *published, rc_net *net, difference *d)
{
    RC_TRY(rc_net_by_name(net, published->net, CHANNELS, published->size, published->size));
    bool *expected = rc_alloc_zeroed(NULL, (size_t)rc_weights_count(weights), sizeof *expected);
    if (expected == NULL)
        return RC_OUT_OF_MEMORY;
    compare_all(weights, published, net, expected, d);
    rc_free(NULL, expected);
    return RC_OK;
}

static size_t add_words(char *text, size_t used, int count, const char *one, const char *many, const char *list)
{
    if (count == 0)
        return used;
    used += (size_t)snprintf(text + used, RC_MESSAGE_SIZE - used, "; %d %s: %s", count, count == 1 ? one : many, list);
    if (used < RC_MESSAGE_SIZE && count > FEW)
        used += (size_t)snprintf(text + used, RC_MESSAGE_SIZE - used, " and %d more", count - FEW);
    return used < RC_MESSAGE_SIZE ? used : RC_MESSAGE_SIZE - 1;
}

static rc_status misfit(const char *source, const rc_weights *weights, const rc_published *published, bool guessed,
                        const difference *d)
{
    char text[RC_MESSAGE_SIZE] = "";
    size_t used = add_words(text, 0, d->misshapen, "tensor has another shape", "tensors have other shapes",
                            d->misshapen_list);
    used = add_words(text, used, d->missing, "tensor is missing", "tensors are missing", d->missing_list);
    add_words(text, used, d->unexpected, "tensor is not expected", "tensors are not expected", d->unexpected_list);
    return rc_fail(RC_FORMAT, "'%.300s' %s %s%s%s", source,
                   guessed ? "is of no net that is known, most like" : "is not of", published->net, text,
                   rc_weights_other(weights));
}

/* ---- recognising ------------------------------------------------------------------------------------------------ */

rc_status rc_import_check_net(const char *name)
{
    char known[512] = "";
    size_t used = 0;
    const rc_published *published;
    if (rc_published_find(name) != NULL)
        return RC_OK;
    for (int i = 0; (published = rc_published_at(i)) != NULL && used < sizeof known; i++)
        used += (size_t)snprintf(known + used, sizeof known - used, ", %s", published->net);
    return rc_fail(RC_INVALID_ARGUMENT, "no published weights of a net '%.64s' are known, expected auto%s", name,
                   known);
}

/* The published net that differs least. */
static rc_status nearest(const rc_weights *weights, const char *name, rc_net *net, const rc_published **best,
                         difference *least)
{
    const rc_published *published;
    difference d;
    *best = NULL;
    for (int i = 0; (published = rc_published_at(i)) != NULL; i++) {
        if (name != NULL && strcmp(name, published->net) != 0)
            continue;
        RC_TRY(measure(weights, published, net, &d));
        if (*best == NULL || all(&d) < all(least)) {
            *best = published;
            *least = d;
        }
    }
    return *best != NULL ? RC_OK : rc_import_check_net(name);
}

rc_status rc_import_recognise(const char *source, const rc_weights *weights, const char *net,
                              const rc_published **published, int *classes)
{
    difference least = {0};
    if (rc_model_has_format(rc_weights_format(weights)))
        return rc_fail(RC_FORMAT,
                       "'%.300s' is a model of recollect already, not weights to import: it predicts, can be scored "
                       "and learns as it is",
                       source);
    rc_net *scratch = rc_alloc_zeroed(NULL, 1, sizeof *scratch);
    if (scratch == NULL)
        return RC_OUT_OF_MEMORY;
    rc_status status = nearest(weights, net, scratch, published, &least);
    rc_free(NULL, scratch);
    RC_TRY(status);
    if (all(&least) > 0)
        return misfit(source, weights, *published, net == NULL, &least);
    int64_t rows = rc_weights_at(weights, find_head(weights, *published, "weight"))->shape[0];
    if (rows > RC_DATA_MAX_CLASSES)
        return rc_fail(RC_UNSUPPORTED, "'%.300s' has %lld classes, at most %d are known", source, (long long)rows,
                       RC_DATA_MAX_CLASSES);
    *classes = (int)rows;
    return RC_OK;
}

/* ---- building --------------------------------------------------------------------------------------------------- */

/* The tensor of that name, which is there with that many elements, into backend memory. */
static rc_status load(const rc_weights *weights, const char *name, size_t count, rc_backend *be, void *memory)
{
    int index = find(weights, name);
    if (index < 0 || rc_named_tensor_count(rc_weights_at(weights, index)) != count)
        return rc_fail(RC_INTERNAL, "tensor '%s' was not looked at", name);
    float *values = rc_alloc(NULL, count * sizeof *values);
    if (values == NULL)
        return RC_OUT_OF_MEMORY;
    rc_status status = rc_weights_read(rc_weights_at(weights, index), values);
    for (size_t i = 0; status == RC_OK && ends_with(name, ".running_var") && i < count; i++)
        if (values[i] < 0)
            status = rc_fail(RC_FORMAT, "element %zu of tensor '%s' is %g, expected a variance", i, name,
                             (double)values[i]);
    if (status == RC_OK)
        be->write_real(be, memory, values, count);
    rc_free(NULL, values);
    return status;
}

static rc_status load_classifier(const rc_weights *weights, const rc_published *published, int classes,
                                 rc_classifier *classifier)
{
    rc_model *backbone = &classifier->backbone;
    rc_head *head = &classifier->head;
    rc_backend *be = backbone->backend;
    rc_slice slice;
    char name[RC_NAME_MAX];
    for (int i = 0; rc_net_slice(backbone->net, i, &slice); i++)
        RC_TRY(load(weights, slice.name, slice.count, be,
                    rc_real_at(be, slice.running ? backbone->running : backbone->param, slice.offset)));
    RC_TRY(rc_head_grow(head, classes, (rc_rng){0, 0}));
    RC_TRY(rc_head_add_bias(head));
    snprintf(name, sizeof name, "%s.weight", published->head);
    RC_TRY(load(weights, name, (size_t)classes * (size_t)head->d, be, head->weight));
    snprintf(name, sizeof name, "%s.bias", published->head);
    RC_TRY(load(weights, name, (size_t)classes, be, head->bias));
    return be->sync(be);
}

rc_status rc_import_build(const rc_weights *weights, const rc_published *published, const rc_config *config,
                          const rc_method *method, rc_labels *labels, rc_backend *backend, rc_saved_model *model)
{
    memset(model, 0, sizeof *model);
    model->config = *config;
    rc_augment image = {.h = config->size, .w = config->size, .c = CHANNELS};
    RC_TRY(rc_config_check(config));
    RC_TRY(rc_config_normalisation(config, CHANNELS, image.mean, image.std));
    RC_TRY(rc_learner_create(&model->learner, backend, &config->settings, method, &image));
    rc_status status = load_classifier(weights, published, labels->count, &model->learner.student);
    if (status != RC_OK) {
        rc_saved_model_destroy(model);
        return status;
    }
    model->imported = true;
    model->class_name = labels->name;
    *labels = (rc_labels){0};
    return RC_OK;
}
