/* Published weights become models: the right net, every number in its place, and what does not fit is named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "api/api.h"
#include "api/import.h"
#include "base/file.h"
#include "base/memory.h"
#include "recollect/recollect.h"
#include "support/published_weights.h"
#include "support/torch_write.h"

enum { CLASSES = 7 };

static char folder[] = "/tmp/recollect-test-XXXXXX";
static recollect_context *context;
static char told[2048];

static void must(rc_status status)
{
    if (status != RC_OK)
        fail_msg("%s", rc_message());
}

static void note(void *user, recollect_log_level level, const char *text)
{
    (void)user;
    (void)level;
    size_t used = strlen(told);
    snprintf(told + used, sizeof told - used, "%s\n", text);
}

static int setup(void **state)
{
    (void)state;
    recollect_settings settings;
    assert_non_null(mkdtemp(folder));
    recollect_settings_default(&settings, sizeof settings);
    settings.threads = 1;
    settings.log = note;
    must(recollect_context_create(&settings, &context));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    recollect_context_destroy(&context);
    return rmdir(folder);
}

static const char *path_of(const char *name)
{
    static char path[2][64];
    static int turn;
    turn = 1 - turn;
    snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    return path[turn];
}

static void write_bytes(const char *name, const void *bytes, size_t size)
{
    must(rc_file_write_atomic(path_of(name), bytes, size));
}

static void write_weights(const char *name, const published_weights *w, torch_style style)
{
    size_t size;
    uint8_t *bytes = torch_write(w->tensor, w->count, style, &size);
    write_bytes(name, bytes, size);
    free(bytes);
}

static void write_safetensors(const char *name, const published_weights *w)
{
    rc_json_writer metadata = rc_safetensors_metadata_begin();
    must(rc_safetensors_write(path_of(name), w->tensor, w->count, &metadata, true));
}

static recollect_status import_as(const char *name, const char *net, const char *classes, recollect_model **model)
{
    recollect_import_settings settings = {.size = sizeof settings, .net = net, .classes = classes};
    told[0] = '\0';
    return recollect_model_import(context, path_of(name), &settings, model);
}

static void refused(recollect_status expected, const char *name, const char *net, const char *classes,
                    const char *words)
{
    recollect_model *model;
    size_t before = rc_bytes_allocated();
    assert_int_equal(import_as(name, net, classes, &model), expected);
    assert_null(model);
    assert_int_equal(rc_bytes_allocated(), before);
    if (strstr(recollect_last_message(), words) == NULL)
        fail_msg("'%s' does not say '%s'", recollect_last_message(), words);
}

static void expect_option(const recollect_model *model, const char *name, const char *value)
{
    char text[128];
    must(recollect_model_get(model, name, text, sizeof text));
    assert_string_equal(text, value);
}

/* ---- models ----------------------------------------------------------------------------------------------------- */

/* Tensor `ours` of the model's file has the bits of tensor `theirs`. */
static void expect_tensor(const rc_safetensors *file, const char *ours, const published_weights *w, const char *theirs)
{
    const rc_named_tensor *found = rc_safetensors_find(file, ours);
    assert_non_null(found);
    for (int i = 0; i < w->count; i++)
        if (strcmp(w->name[i], theirs) == 0) {
            assert_int_equal(rc_named_tensor_count(found), rc_named_tensor_count(&w->tensor[i]));
            assert_memory_equal(found->data, w->tensor[i].data, rc_named_tensor_bytes(found));
            return;
        }
    fail_msg("there is no tensor %s", theirs);
}

static void every_kind_of_file_gives_the_same_model(void **state)
{
    (void)state;
    published_weights *w = published_weights_make("cifar-resnet20", CLASSES);
    write_weights("archive.pth", w, (torch_style){.inside = "state_dict", .prefix = "module."});
    write_weights("old.pth", w, (torch_style){.old = true, .prefix = "_orig_mod.module.model.backbone."});
    write_safetensors("weights.safetensors", w);
    static const char *const files[] = {"archive.pth", "old.pth", "weights.safetensors"};
    void *bytes[3];
    size_t size[3];
    for (int i = 0; i < 3; i++) {
        recollect_model *model;
        must(import_as(files[i], i == 1 ? "cifar-resnet20" : i == 2 ? NULL : "auto", NULL, &model));
        assert_non_null(strstr(told, "is of cifar-resnet20 and knows 7 classes; images become 32 x 32 pixels"));
        assert_non_null(strstr(told, "the classes have no names, so they are class-0000 to class-0006"));
        assert_int_equal(recollect_model_classes(model), CLASSES);
        assert_string_equal(recollect_model_class_name(model, 6), "class-0006");
        must(recollect_model_save_memory(model, &bytes[i], &size[i]));
        recollect_model_destroy(&model);
        unlink(path_of(files[i]));
        assert_int_equal(size[i], size[0]);
        assert_memory_equal(bytes[i], bytes[0], size[0]);
    }
    rc_safetensors *file;
    must(rc_safetensors_parse("model", bytes[0], size[0], &file));
    for (int i = 0; i < w->count - 2; i++) {
        char name[160];
        snprintf(name, sizeof name, "backbone.%s", w->name[i]);
        expect_tensor(file, name, w, w->name[i]);
    }
    expect_tensor(file, "head.classifiers.0.weight", w, "linear.weight");
    expect_tensor(file, "head.bias", w, "linear.bias");
    assert_int_equal(rc_safetensors_count(file), w->count);
    rc_safetensors_close(file);
    for (int i = 0; i < 3; i++)
        recollect_free(bytes[i]);
    published_weights_free(w);
}

static void the_model_knows_how_images_are_prepared(void **state)
{
    (void)state;
    published_weights *w = published_weights_make("torchvision-resnet18", 2);
    recollect_model *model;
    recollect_model_info info = {.size = sizeof info};
    write_safetensors("weights.safetensors", w);
    write_bytes("labels.txt", "cat\nhot dog\n", 12);
    must(import_as("weights.safetensors", NULL, path_of("labels.txt"), &model));
    assert_null(strstr(told, "no names"));
    assert_string_equal(recollect_model_class_name(model, 1), "hot dog");
    assert_int_equal(recollect_model_image_height(model), 224);
    assert_int_equal(recollect_model_image_channels(model), 3);
    assert_int_equal(recollect_model_features(model), 512);
    expect_option(model, "net", "torchvision-resnet18");
    expect_option(model, "size", "224");
    expect_option(model, "resize", "256");
    expect_option(model, "channels", "3");
    must(recollect_model_get_info(model, &info));
    assert_true(info.mean[0] == 0.485f && info.mean[1] == 0.456f && info.mean[2] == 0.406f);
    assert_true(info.std[0] == 0.229f && info.std[1] == 0.224f && info.std[2] == 0.225f);
    assert_int_equal(info.class_means + info.covariance + info.images, 0);
    assert_int_equal(info.parameters, 11176512 + 2 * 513);
    assert_true(model->saved.imported);
    recollect_model_destroy(&model);
    unlink(path_of("weights.safetensors"));
    unlink(path_of("labels.txt"));
    published_weights_free(w);
}

/* Shorter nets have a part of the tensors of longer ones: all that a file has counts. */
static void nets_are_told_apart(void **state)
{
    (void)state;
    const rc_published *published;
    for (int i = 0; (published = rc_published_at(i)) != NULL; i++) {
        published_weights *w = published_weights_make(published->net, 3);
        const rc_published *found;
        rc_weights *weights;
        rc_json_writer metadata = rc_safetensors_metadata_begin();
        void *bytes;
        size_t size;
        int classes;
        must(rc_safetensors_pack(w->tensor, w->count, &metadata, &bytes, &size));
        published_weights_free(w);
        must(rc_weights_parse("weights", bytes, size, &weights));
        rc_free(NULL, bytes);
        must(rc_import_recognise("weights", weights, NULL, &found, &classes));
        assert_string_equal(found->net, published->net);
        assert_int_equal(classes, 3);
        rc_weights_close(weights);
    }
    assert_null(rc_published_find("resnet32"));
    assert_string_equal(recollect_published_net_at(0), "torchvision-resnet18");
}

/* ---- what does not fit ------------------------------------------------------------------------------------------ */

static void misfits_are_named(void **state)
{
    (void)state;
    published_weights *w = published_weights_make("cifar-resnet20", CLASSES);
    rc_named_tensor *conv = &w->tensor[0], *head = &w->tensor[w->count - 2], *bias = &w->tensor[w->count - 1];
    int count = w->count;

    conv->shape[1] = 1;
    conv->shape[0] = 48;
    write_safetensors("w", w);
    refused(
        RECOLLECT_FORMAT, "w", NULL, NULL,
        "is of no net that is known, most like cifar-resnet20; 1 tensor has another shape: 'conv1.weight' (48, 1, 3, "
        "3), expected (16, 3, 3, 3)");
    conv->shape[0] = 16;
    conv->shape[1] = 3;

    snprintf(w->name[0], sizeof w->name[0], "stem.weight");
    write_safetensors("w", w);
    refused(RECOLLECT_FORMAT, "w", "cifar-resnet20", NULL,
            "is not of cifar-resnet20; 1 tensor is missing: conv1.weight; 1 tensor is not expected: 'stem.weight'");
    snprintf(w->name[0], sizeof w->name[0], "conv1.weight");

    refused(RECOLLECT_FORMAT, "w", "cifar-resnet32", NULL, "tensors are missing: ");
    char names[3][sizeof w->name[0]]; /* three are all named */
    for (int i = 0; i < 3; i++) {
        memcpy(names[i], w->name[i], sizeof names[i]);
        snprintf(w->name[i], sizeof w->name[i], "other%d", i);
    }
    write_safetensors("w", w);
    refused(RECOLLECT_FORMAT, "w", "cifar-resnet20", NULL, "3 tensors are not expected: 'other0', 'other1', 'other2'");
    assert_non_null(strstr(recollect_last_message(), "; 3 tensors are missing: conv1.weight, "));
    assert_null(strstr(recollect_last_message(), " more"));
    for (int i = 0; i < 3; i++)
        memcpy(w->name[i], names[i], sizeof names[i]);
    w->count = 5;
    write_safetensors("w", w);
    refused(RECOLLECT_FORMAT, "w", "cifar-resnet20", NULL, " and ");
    assert_non_null(strstr(recollect_last_message(), "92 tensors are missing: "));
    assert_non_null(strstr(recollect_last_message(), "and 89 more"));
    w->count = count - 1;
    write_safetensors("w", w);
    refused(RECOLLECT_FORMAT, "w", NULL, NULL, "1 tensor is missing: linear.bias");
    w->count = count;

    bias->shape[0] = CLASSES - 1;
    write_safetensors("w", w);
    refused(RECOLLECT_FORMAT, "w", NULL, NULL, "'linear.bias' (6), expected (7)");
    bias->shape[0] = CLASSES;
    head->shape[0] = 2 * CLASSES;
    head->shape[1] = 32;
    write_safetensors("w", w);
    refused(RECOLLECT_FORMAT, "w", NULL, NULL, "'linear.weight' (14, 32), expected (");
    head->shape[0] = CLASSES;
    head->shape[1] = 64;

    for (int i = 0; i < count; i++)
        if (strcmp(w->name[i], "layer1.0.bn1.running_var") == 0)
            ((float *)rc_without_const(w->tensor[i].data))[3] = -1;
    write_safetensors("w", w);
    refused(RECOLLECT_FORMAT, "w", NULL, NULL,
            "element 3 of tensor 'layer1.0.bn1.running_var' is -1, expected a variance");

    refused(RECOLLECT_INVALID_ARGUMENT, "w", "resnet32", NULL, "no published weights of a net 'resnet32' are known");
    assert_non_null(strstr(recollect_last_message(), "expected auto, torchvision-resnet18, "));
    refused(RECOLLECT_IO, "absent", NULL, NULL, "absent");
    unlink(path_of("w"));
    published_weights_free(w);
}

static void arguments_are_checked(void **state)
{
    (void)state;
    recollect_model *model;
    recollect_import_settings small = {.size = 3};
    assert_int_equal(recollect_model_import(NULL, "x", NULL, &model), RECOLLECT_INVALID_ARGUMENT);
    assert_int_equal(recollect_model_import(context, NULL, NULL, &model), RECOLLECT_INVALID_ARGUMENT);
    assert_string_equal(recollect_last_message(), "path is NULL, expected the name of a file of weights");
    assert_int_equal(recollect_model_import(context, "x", NULL, NULL), RECOLLECT_INVALID_ARGUMENT);
    assert_int_equal(recollect_model_import(context, "x", &small, &model), RECOLLECT_INVALID_ARGUMENT);
    assert_non_null(strstr(recollect_last_message(), "settings's size is 3"));
    assert_null(model);
    assert_int_equal(recollect_model_import(context, "/nonexistent.pth", NULL, &model), RECOLLECT_IO);
}

/* With less memory than it takes, wherever that ends, an import holds nothing afterwards. */
static void memory_may_run_out(void **state)
{
    (void)state;
    enum { STEP = 1 << 16, MOST = 1 << 26 };
    published_weights *w = published_weights_make("cifar-resnet20", 3);
    rc_backend *backend;
    rc_log log = {0};
    rc_saved_model model;
    rc_status status = RC_OUT_OF_MEMORY;
    int refusals = 0;
    write_weights("w.pth", w, (torch_style){.deflated = true});
    must(rc_backend_open("cpu", 1, NULL, &backend));
    size_t held = rc_bytes_allocated();
    for (size_t room = 0; status == RC_OUT_OF_MEMORY && room < MOST; room += STEP, refusals++) {
        rc_memory_set_budget(held + room);
        status = rc_import_file(path_of("w.pth"), NULL, NULL, &log, backend, &model);
        rc_memory_set_budget(SIZE_MAX);
        if (status == RC_OUT_OF_MEMORY)
            assert_int_equal(rc_bytes_allocated(), held);
    }
    must(status);
    assert_true(refusals > 20);
    rc_saved_model_destroy(&model);
    rc_backend_close(backend);
    unlink(path_of("w.pth"));
    published_weights_free(w);
}

/* ---- class names ------------------------------------------------------------------------------------------------ */

static void refused_labels(const char *text, size_t size, const char *words)
{
    rc_labels labels;
    size_t before = rc_bytes_allocated();
    assert_int_equal(rc_labels_parse("names", text, size, &labels), RC_FORMAT);
    assert_null(labels.name);
    assert_int_equal(rc_bytes_allocated(), before);
    if (strstr(rc_message(), words) == NULL || strstr(rc_message(), "names") == NULL)
        fail_msg("'%s' does not say '%s'", rc_message(), words);
}

#define REFUSED(text, words) refused_labels(text, sizeof(text) - 1, words)

static void labels_are_lines(void **state)
{
    (void)state;
    static const char text[] =
        "\xEF\xBB\xBF tench, Tinca tinca\r\ncrane\ncat\t\ncrane\n  \xC3\xA9l\xC3\xA9phant \ncrane\n\n \n";
    static const char *const expected[] = {"tench, Tinca tinca",     "crane",    "cat", "crane (2)",
                                           "\xC3\xA9l\xC3\xA9phant", "crane (3)"};
    rc_labels labels;
    must(rc_labels_parse("names", text, sizeof text - 1, &labels));
    assert_int_equal(labels.count, 6);
    assert_int_equal(labels.renamed, 2);
    for (int i = 0; i < 6; i++)
        assert_string_equal(labels.name[i], expected[i]);
    rc_labels_destroy(&labels);
    must(rc_labels_parse("names", "one", 3, &labels));
    assert_int_equal(labels.count, 1);
    assert_int_equal(labels.renamed, 0);
    rc_labels_destroy(&labels);
    REFUSED("", "is empty, expected a class name a line");
    REFUSED(" \n\r\n", "is empty, expected a class name a line");
    REFUSED("cat\n\ndog\n", "line 2 of 'names' is empty");
    REFUSED("cat\nd\x1B[2Jog\n", "line 2 of 'names': name of class 1: byte 1 (0x1B) is not printable UTF-8");
    REFUSED("cat\xFF\n", "line 1 of 'names'");
    REFUSED("a\0b\n", "line 1 of 'names'");
    REFUSED("a\na\na (2)\n", "two classes are called 'a (2)'");
    char *many = malloc(2 * (RC_DATA_MAX_CLASSES + 1));
    assert_non_null(many);
    for (int i = 0; i <= RC_DATA_MAX_CLASSES; i++)
        memcpy(many + 2 * i, "a\n", 2);
    refused_labels(many, 2 * (RC_DATA_MAX_CLASSES + 1), "has more than 30000 lines");
    must(rc_labels_parse("names", many, 2 * RC_DATA_MAX_CLASSES, &labels));
    assert_string_equal(labels.name[RC_DATA_MAX_CLASSES - 1], "a (30000)");
    rc_labels_destroy(&labels);
    free(many);
}

static void labels_must_be_as_many_as_classes(void **state)
{
    (void)state;
    published_weights *w = published_weights_make("cifar-resnet20", 3);
    recollect_model *model;
    write_weights("w.pth", w, (torch_style){0});
    write_bytes("two.txt", "a\nb\n", 4);
    refused(RECOLLECT_INVALID_ARGUMENT, "w.pth", NULL, path_of("two.txt"), "two.txt' has 2 names, one a line, but");
    assert_non_null(strstr(recollect_last_message(), "w.pth' has 3 classes"));
    write_bytes("two.txt", "a\nb\na\n", 6);
    must(import_as("w.pth", NULL, path_of("two.txt"), &model));
    assert_non_null(strstr(told, "1 line of '"));
    assert_non_null(strstr(told, "repeats a name, and got a number behind it"));
    assert_string_equal(recollect_model_class_name(model, 2), "a (2)");
    recollect_model_destroy(&model);
    refused(RECOLLECT_IO, "w.pth", NULL, "/nonexistent.txt", "nonexistent.txt");
    unlink(path_of("w.pth"));
    unlink(path_of("two.txt"));
    published_weights_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_file_gives_the_same_model),
        cmocka_unit_test(the_model_knows_how_images_are_prepared),
        cmocka_unit_test(nets_are_told_apart),
        cmocka_unit_test(misfits_are_named),
        cmocka_unit_test(arguments_are_checked),
        cmocka_unit_test(memory_may_run_out),
        cmocka_unit_test(labels_are_lines),
        cmocka_unit_test(labels_must_be_as_many_as_classes),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
