/* Exported models: the bytes of ONNX read back by hand, the C header compiled and compared with the reference backend
 * bit for bit, the tensors for PyTorch, and what is refused. tests/interop/test_export.sh has whole nets, with ONNX
 * Runtime. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/protobuf.h"
#include "cil/scorer.h"
#include "export/exported.h"
#include "nn/nets_parts.h"
#include "nn/published.h"
#include "support/failing_heap.h"
#include "support/succeeds.h"

enum { H = 20, W = 12, C = 3, CLASSES = 4, IMAGES = 3, PIXELS = H * W * C };

static char folder[] = "/tmp/recollect-export-XXXXXX";
static char path[128];

static int set_up(void **state)
{
    (void)state;
    return mkdtemp(folder) == NULL ? -1 : 0;
}

static int tear_down(void **state)
{
    (void)state;
    return rmdir(folder);
}

static const char *in_folder(const char *name)
{
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* ---- a net with everything that a classifier may have ------------------------------------------------------------ */

static int add(rc_net_builder *b, rc_layer layer, const char *name)
{
    rc_part_name(layer.name, "%s", name);
    if (layer.bn.on)
        rc_part_name(layer.bn_name, "%s_bn", name);
    return rc_net_add(b, &layer);
}

static rc_layer conv(int in, int c_out, int k, int stride, rc_act act)
{
    rc_layer layer = rc_part_conv(in, c_out, k, stride, RC_INIT_DEFAULT);
    rc_part_normalise(&layer, 1e-3f, true);
    layer.act = act;
    return layer;
}

static rc_layer sum(rc_layer layer, int skip, rc_shortcut shortcut)
{
    layer.skip = skip;
    layer.shortcut = shortcut;
    return layer;
}

static void build_net(rc_net *net)
{
    rc_net_builder b = rc_net_start(net, "everything", C, H, W);
    int a = add(&b, conv(RC_NET_INPUT, 4, 3, 1, RC_ACT_RELU), "a");
    rc_layer window = {.kind = RC_LAYER_DEPTHWISE, .in = a, .k = 5, .stride = 2, .same = true, .act = RC_ACT_RELU6};
    rc_part_normalise(&window, 1e-3f, true);
    int w = add(&b, window, "w"); /* one pixel of padding before the first, two behind the last */
    int pooled = add(&b, (rc_layer){.kind = RC_LAYER_MAX_POOL, .in = w, .k = 3, .stride = 2, .pad = 1}, "max");
    int x = add(&b, sum(conv(pooled, 4, 3, 1, RC_ACT_LEAKY_RELU), pooled, RC_SHORTCUT_IDENTITY), "b");
    int y = add(&b, conv(x, 6, 3, 2, RC_ACT_SILU), "c");
    x = add(&b, sum(conv(y, 6, 3, 1, RC_ACT_NONE), x, RC_SHORTCUT_PAD_BOTH), "d");
    y = add(&b, conv(x, 7, 1, 2, RC_ACT_TANH), "e");
    x = add(&b, sum(conv(y, 7, 3, 1, RC_ACT_SIGMOID), x, RC_SHORTCUT_PAD_END), "f");
    rc_layer plain = rc_part_conv(x, 5, 3, 1, RC_INIT_DEFAULT);
    plain.bias = true;
    x = add(&b, plain, "g");
    rc_layer pool = rc_part_pool(x);
    rc_net_add(&b, &pool);
    SUCCEEDS(rc_net_finish(&b));
}

/* A net with random weights, and the model of it that is exported. */
typedef struct subject {
    rc_backend *be;
    rc_net net;
    rc_classifier classifier;
    rc_augment image;
    rc_exported e;
} subject;

static const char *const names[CLASSES] = {"cat", "a \"b\"\\", "?\?/*/%d", "\xC3\xA4\n7"};

static float *random_numbers(size_t count, uint64_t stream, double low, double high)
{
    float *values = rc_alloc_zeroed(NULL, count + 1, sizeof *values);
    assert_non_null(values);
    rc_rng_fill_uniform((rc_rng){3, stream}, 0, values, count);
    for (size_t i = 0; i < count; i++)
        values[i] = (float)(low + (high - low) * (double)values[i]);
    return values;
}

static void make_subject(subject *s, bool bias)
{
    static const int task_end[] = {3, CLASSES};
    memset(s, 0, sizeof *s);
    SUCCEEDS(rc_backend_open("reference", 1, NULL, &s->be));
    build_net(&s->net);
    SUCCEEDS(rc_classifier_create(&s->classifier, &s->net, s->be, CLASSES));
    SUCCEEDS(rc_head_grow(&s->classifier.head, CLASSES, (rc_rng){3, 3}));
    s->image = (rc_augment){.h = H, .w = W, .c = C, .mean = {0.4f, 0.5f, 0.6f}, .std = {0.2f, 0.3f, 0.25f}};
    s->e = (rc_exported){.net = &s->net,
                         .param = random_numbers(s->net.params, 1, -0.7, 0.7),
                         .running = random_numbers(s->net.running, 2, 0.1, 1.5),
                         .head = random_numbers((size_t)CLASSES * 5, 3, -2, 2),
                         .head_bias = bias ? random_numbers(CLASSES, 4, -1, 1) : NULL,
                         .temperature = 1,
                         .d = 5,
                         .classes = CLASSES,
                         .tasks = 2,
                         .task_end = task_end,
                         .class_name = names,
                         .mean = {0.4f, 0.5f, 0.6f},
                         .std = {0.2f, 0.3f, 0.25f},
                         .resize = 11,
                         .interpolation = "bilinear",
                         .exif = true};
    s->be->write_real(s->be, s->classifier.backbone.param, s->e.param, s->net.params);
    s->be->write_real(s->be, s->classifier.backbone.running, s->e.running, s->net.running);
    s->be->write_real(s->be, s->classifier.head.weight, s->e.head, (size_t)CLASSES * 5);
    if (bias) {
        SUCCEEDS(rc_head_add_bias(&s->classifier.head));
        s->be->write_real(s->be, s->classifier.head.bias, s->e.head_bias, CLASSES);
    }
    SUCCEEDS(rc_exported_check(&s->e));
}

static void drop_subject(subject *s)
{
    rc_exported_drop(&s->e);
    rc_classifier_destroy(&s->classifier);
    rc_backend_close(s->be);
}

/* ---- protocol buffers -------------------------------------------------------------------------------------------- */

static void numbers_are_written_as_the_format_has_them(void **state)
{
    (void)state;
    static const uint8_t expected[] = {0x08, 0x00, 0x10, 0xAC, 0x02,                               /* 0, 300 */
                                       0x18, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, /* -1: ten bytes */
                                       0x01, 0xA5, 0x06, 0x00, 0x00, 0x20, 0xC0, /* field 100: -2.5f */
                                       0x0A, 0x05, 0x12, 0x03, 'a',  'b',  'c',  /* inside of field 1 */
                                       0x22, 0x00};                              /* an empty text */
    rc_protobuf p = {0};
    rc_protobuf_put_whole(&p, 1, 0);
    rc_protobuf_put_whole(&p, 2, 300);
    rc_protobuf_put_whole(&p, 3, (uint64_t)-1);
    rc_protobuf_put_float(&p, 100, -2.5f);
    size_t at = rc_protobuf_begin(&p, 1);
    rc_protobuf_put_text(&p, 2, "abc");
    rc_protobuf_end(&p, at);
    rc_protobuf_put_text(&p, 4, "");
    assert_false(p.failed);
    assert_int_equal(p.used, sizeof expected);
    assert_memory_equal(p.data, expected, sizeof expected);
    rc_free(NULL, p.data);
}

/* What is left of a message. */
typedef struct message {
    const uint8_t *at, *end;
} message;

typedef struct field {
    int number;
    uint64_t value; /* of a varint */
    message bytes;
} field;

static uint64_t read_varint(message *m)
{
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
        assert_true(m->at < m->end && shift < 64);
        value |= (uint64_t)(*m->at & 0x7F) << shift;
        if (*m->at++ < 0x80)
            return value;
    }
}

/* The next field; false at the end. */
static bool next_field(message *m, field *f)
{
    if (m->at == m->end)
        return false;
    uint64_t key = read_varint(m);
    *f = (field){.number = (int)(key >> 3)};
    uint64_t size = (key & 7) == 5 ? 4 : 0;
    if ((key & 7) == 0)
        f->value = read_varint(m);
    else if ((key & 7) == 2)
        size = read_varint(m);
    else
        assert_int_equal(key & 7, 5);
    assert_true(size <= (uint64_t)(m->end - m->at));
    f->bytes = (message){m->at, m->at + size};
    m->at += size;
    return true;
}

/* Field `number` of a message that has it once or more: the one after `skip` of them. */
static bool find_field(message m, int number, int skip, field *f)
{
    while (next_field(&m, f))
        if (f->number == number && skip-- == 0)
            return true;
    return false;
}

static message inside(message m, int number)
{
    field f;
    assert_true(find_field(m, number, 0, &f));
    return f.bytes;
}

static bool says(message m, const char *text)
{
    return (size_t)(m.end - m.at) == strlen(text) && memcmp(m.at, text, strlen(text)) == 0;
}

/* The message among those of field `number` whose field `name_field` is this text. */
static message named(message m, int number, int name_field, const char *name)
{
    field f;
    for (int i = 0; find_field(m, number, i, &f); i++)
        if (says(inside(f.bytes, name_field), name))
            return f.bytes;
    fail_msg("nothing is called %s", name);
    return m;
}

/* ---- ONNX -------------------------------------------------------------------------------------------------------- */

static void expect_operators(message graph)
{
    static const char *const expected[] = {"Sub",     "Div",
                                           "Conv",    "Relu",
                                           "Conv",    "Clip",
                                           "MaxPool", "Conv",
                                           "Add",     "LeakyRelu",
                                           "Conv",    "Sigmoid",
                                           "Mul",     "Conv",
                                           "Slice",   "Pad",
                                           "Add",     "Conv",
                                           "Tanh",    "Conv",
                                           "Slice",   "Pad",
                                           "Add",     "Sigmoid",
                                           "Conv",    "GlobalAveragePool",
                                           "Flatten", "Gemm",
                                           "Softmax"};
    field node;
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        assert_true(find_field(graph, 1, (int)i, &node));
        if (!says(inside(node.bytes, 4), expected[i]))
            fail_msg("node %zu is no %s", i, expected[i]);
    }
    assert_false(find_field(graph, 1, sizeof expected / sizeof *expected, &node));
}

/* Integers of attribute `name` of the node whose result is `output`. */
static void expect_integers(message graph, const char *output, const char *name, const int *expected, int count)
{
    message attribute = named(named(graph, 1, 2, output), 5, 1, name);
    field f;
    for (int i = 0; i < count; i++) {
        assert_true(find_field(attribute, 8, i, &f));
        assert_int_equal(f.value, expected[i]);
    }
    assert_false(find_field(attribute, 8, count, &f));
    assert_true(find_field(attribute, 20, 0, &f) && f.value == 7);
}

/* A normalisation is in the weights and the bias of the convolution before it. */
static void expect_folded(const subject *s, message graph)
{
    const rc_layer *layer = &s->net.layer[0];
    message weight = inside(named(graph, 5, 8, "a.weight"), 9), bias = inside(named(graph, 5, 8, "a.bias"), 9);
    const int taps = C * 3 * 3;
    assert_int_equal(weight.end - weight.at, 4 * taps * 4);
    assert_int_equal(bias.end - bias.at, 4 * 4);
    for (int c = 0; c < 4; c++) {
        const float *running = s->e.running, *param = s->e.param;
        double scale = (double)param[layer->gamma + (size_t)c] /
                       sqrt((double)running[layer->running_var + (size_t)c] + (double)1e-3f);
        double shift = (double)param[layer->beta + (size_t)c] -
                       (double)running[layer->running_mean + (size_t)c] * scale;
        float found[2];
        memcpy(&found[0], weight.at + 4 * (taps * c + 5), 4);
        memcpy(&found[1], bias.at + 4 * c, 4);
        assert_true(fabs((double)found[0] - (double)param[taps * c + 5] * scale) <= 2e-7 * fabs((double)found[0]));
        assert_true(fabs((double)found[1] - shift) <= 2e-7 * (1 + fabs(shift)));
    }
}

static void a_graph_has_every_layer(void **state)
{
    (void)state;
    static const int pads[] = {1, 1, 1, 1}, uneven[] = {1, 1, 2, 2}, kernel[] = {3, 3}, one[] = {1, 1}, two[] = {2, 2};
    subject s;
    char *bytes;
    size_t size;
    field f;
    make_subject(&s, true);
    SUCCEEDS(rc_export_onnx(&s.e, in_folder("x.onnx"), false));
    SUCCEEDS(rc_file_read(path, 1 << 20, &bytes, &size));
    message model = {(const uint8_t *)bytes, (const uint8_t *)bytes + size};
    assert_true(find_field(model, 1, 0, &f) && f.value == 8);             /* IR version */
    assert_true(find_field(inside(model, 8), 2, 0, &f) && f.value == 17); /* opset */
    assert_true(says(inside(named(model, 14, 1, "recollect.resize"), 2), "11"));
    assert_true(says(inside(named(model, 14, 1, "recollect.size"), 2), "20"));
    assert_true(says(inside(named(model, 14, 1, "recollect.net"), 2), "everything"));
    assert_true(says(inside(named(model, 14, 1, "recollect.exif"), 2), "true"));
    assert_true(says(inside(named(model, 14, 1, "recollect.classes"), 2),
                     "[\"cat\",\"a \\\"b\\\"\\\\\",\"?\?/*/%d\",\"\xC3\xA4\\n7\"]"));
    message graph = inside(model, 7);
    expect_operators(graph);
    expect_integers(graph, "a.operation", "pads", pads, 4);
    expect_integers(graph, "w.operation", "pads", uneven, 4);
    assert_true(find_field(named(named(graph, 1, 2, "w.operation"), 5, 1, "group"), 3, 0, &f) && f.value == 4);
    static const float six = 6;
    assert_memory_equal(inside(named(graph, 5, 8, "w.most"), 9).at, &six, sizeof six);
    expect_integers(graph, "max", "kernel_shape", kernel, 2);
    expect_integers(graph, "max", "strides", two, 2);
    expect_integers(graph, "e.operation", "kernel_shape", one, 2);
    expect_folded(&s, graph);
    static const int64_t channels[8] = {0, 1, 0, 0, 0, 1, 0, 0}; /* 4 in the middle of 6 */
    assert_memory_equal(inside(named(graph, 5, 8, "d.skip_pads"), 9).at, channels, sizeof channels);
    assert_memory_equal(inside(named(graph, 5, 8, "head.bias"), 9).at, s.e.head_bias, CLASSES * 4);
    assert_true(says(inside(inside(graph, 12), 1), "probabilities")); /* the first result */
    rc_free(NULL, bytes);
    SUCCEEDS(rc_export_onnx(&s.e, path, true));
    assert_int_equal(rc_export_onnx(&s.e, path, false), RC_IO);
    remove(path);
    drop_subject(&s);
}

/* ---- the C header ------------------------------------------------------------------------------------------------ */

static const char program[] =
    "#define A7_X_IMPLEMENTATION\n#include \"%s\"\n#include <stdio.h>\n"
    "int main(void)\n{\n    static uint8_t pixels[A7_X_HEIGHT * A7_X_WIDTH * A7_X_CHANNELS];\n"
    "    static float logits[A7_X_CLASSES];\n    static double odds[A7_X_CLASSES];\n"
    "    while (fread(pixels, sizeof pixels, 1, stdin) == 1) {\n"
    "        int32_t label = a7_x_predict(pixels, logits, odds);\n"
    "        if (a7_x_predict(pixels, 0, 0) != label)\n            return 1;\n"
    "        fwrite(logits, sizeof logits, 1, stdout);\n        fwrite(odds, sizeof odds, 1, stdout);\n"
    "        fwrite(&label, sizeof label, 1, stdout);\n    }\n"
    "    for (int i = 0; i < A7_X_CLASSES; i++)\n        puts(a7_x_class_name[i]);\n    return 0;\n}\n";

typedef struct answer {
    float logits[CLASSES];
    double odds[CLASSES];
    int32_t label;
} answer;

/* What the reference backend says, and the program says it too, whatever the compiler may fuse. */
static void expect_answers(const subject *s, const uint8_t *pixels, FILE *out)
{
    float logits[IMAGES * CLASSES];
    rc_scorer *scorer;
    SUCCEEDS(rc_scorer_create(s->be, &s->classifier, 1, &s->image, &scorer));
    SUCCEEDS(rc_scorer_run(scorer, pixels, NULL, IMAGES, logits, NULL));
    rc_scorer_destroy(scorer);
    for (int i = 0; i < IMAGES; i++) {
        answer found;
        double all = 0;
        int best = 0;
        assert_int_equal(fread(found.logits, sizeof found.logits, 1, out), 1);
        assert_int_equal(fread(found.odds, sizeof found.odds, 1, out), 1);
        assert_int_equal(fread(&found.label, sizeof found.label, 1, out), 1);
        assert_memory_equal(found.logits, logits + i * CLASSES, sizeof found.logits);
        for (int k = 0; k < CLASSES; k++)
            best = logits[i * CLASSES + k] > logits[i * CLASSES + best] ? k : best;
        assert_int_equal(found.label, best);
        for (int k = 0; k < CLASSES; k++)
            all += exp((double)logits[i * CLASSES + k] - (double)logits[i * CLASSES + best]);
        for (int k = 0; k < CLASSES; k++)
            assert_float_equal(found.odds[k],
                               exp((double)logits[i * CLASSES + k] - (double)logits[i * CLASSES + best]) / all, 1e-12);
    }
    char line[64], all_names[64] = "";
    for (int i = 0; i < CLASSES; i++)
        snprintf(all_names + strlen(all_names), sizeof all_names - strlen(all_names), "%s\n", names[i]);
    size_t length = fread(line, 1, sizeof line, out);
    assert_int_equal(length, strlen(all_names));
    assert_memory_equal(line, all_names, length);
}

static void write_text(const char *name, const void *data, size_t size)
{
    SUCCEEDS(rc_file_write_atomic(in_folder(name), data, size));
}

/* The compilers that are here. */
static bool has(const char *compiler)
{
    char command[128];
    snprintf(command, sizeof command, "command -v %s >/dev/null 2>&1", compiler);
    return system(command) == 0;
}

static void check_header(const subject *s, const char *compiler, const char *flags)
{
    uint8_t pixels[IMAGES * PIXELS];
    char text[2048], command[1024];
    const char *header = "/-- 7a7 x'\xC3\xA4.v2.h"; /* which becomes a7_x */
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)rc_rng_below((rc_rng){5, 5}, i, 256);
    SUCCEEDS(rc_export_c_header(&s->e, in_folder(header + 1), true));
    snprintf(text, sizeof text, program, header + 1);
    write_text("main.c", text, strlen(text));
    write_text("pixels", pixels, sizeof pixels);
    snprintf(command, sizeof command,
             "cd %s && %s %s -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror main.c -o main -lm && "
             "./main <pixels >out",
             folder, compiler, flags);
    assert_int_equal(system(command), 0);
    FILE *out = fopen(in_folder("out"), "rb");
    assert_non_null(out);
    expect_answers(s, pixels, out);
    fclose(out);
    const char *const made[] = {"main.c", "main", "pixels", "out", header + 1};
    for (int i = 0; i < 5; i++)
        assert_int_equal(remove(in_folder(made[i])), 0);
}

static void a_header_has_the_bits_of_the_reference(void **state)
{
    (void)state;
    if (getenv("RECOLLECT_TEST_LIGHT") != NULL)
        return; /* the compiler and what it makes run elsewhere than this test, or slowly */
    for (int bias = 0; bias < 2; bias++) {
        subject s;
        make_subject(&s, bias == 1);
        assert_true(has("cc"));
        check_header(&s, "cc", bias == 1 ? "-std=c99 -O2" : "-O2 -ffp-contract=fast");
        if (bias == 1 && has("clang"))
            check_header(&s, "clang", "-std=c11 -O2 -ffp-contract=fast");
        drop_subject(&s);
    }
}

/* CHAR_WIDTH, SIZE_WIDTH and MAX_INPUT are the system's. */
static void a_header_takes_no_name_of_c(void **state)
{
    (void)state;
    static const char *const files[][2] = {{"char.h", "#define CHAR_MODEL_IMPLEMENTATION"},
                                           {"Size.h", "#define SIZE_MODEL_IMPLEMENTATION"},
                                           {"max.h", "#define MAX_MODEL_IMPLEMENTATION"},
                                           {"chars.h", "#define CHARS_IMPLEMENTATION"}};
    subject s;
    make_subject(&s, false);
    for (int i = 0; i < 4; i++) {
        char *text, command[512];
        size_t size;
        SUCCEEDS(rc_export_c_header(&s.e, in_folder(files[i][0]), true));
        SUCCEEDS(rc_file_read(path, 1 << 20, &text, &size));
        assert_non_null(strstr(text, files[i][1]));
        rc_free(NULL, text);
        snprintf(command, sizeof command, "cc -fsyntax-only -D_GNU_SOURCE -include limits.h -x c '%s'", path);
        if (getenv("RECOLLECT_TEST_LIGHT") == NULL)
            assert_int_equal(system(command), 0);
        remove(path);
    }
    drop_subject(&s);
}

/* It says what its logits are. */
static void a_header_tells_of_the_temperature(void **state)
{
    (void)state;
    static const char *const told[] = {"reference backend, bit for bit.", "reference backend, divided by the\n"};
    subject s;
    make_subject(&s, false);
    for (int i = 0; i < 2; i++) {
        char *text;
        size_t size;
        s.e.temperature = i + 1;
        SUCCEEDS(rc_export_c_header(&s.e, in_folder("x.h"), true));
        SUCCEEDS(rc_file_read(path, 1 << 20, &text, &size));
        assert_true(strstr(text, told[i]) != NULL && strstr(text, told[1 - i]) == NULL);
        rc_free(NULL, text);
    }
    remove(path);
    drop_subject(&s);
}

/* It says whether pictures are turned, as they are for the model. */
static void a_header_tells_how_pictures_are_prepared(void **state)
{
    (void)state;
    static const char *const told[] = {"a picture whose shorter",
                                       "a picture, turned as its EXIF orientation says, whose"};
    subject s;
    make_subject(&s, false);
    for (int i = 0; i < 2; i++) {
        char *text;
        size_t size;
        s.e.exif = i == 1;
        SUCCEEDS(rc_export_c_header(&s.e, in_folder("x.h"), true));
        SUCCEEDS(rc_file_read(path, 1 << 20, &text, &size));
        assert_non_null(strstr(text, told[i]));
        assert_non_null(strstr(text, " * 11 pixels (bilinear, as Pillow does it), and of that the middle, 12 x 20 "));
        rc_free(NULL, text);
    }
    remove(path);
    drop_subject(&s);
}

/* ---- PyTorch ----------------------------------------------------------------------------------------------------- */

static const float *floats_of(const rc_safetensors *file, const char *name, int64_t rows, int64_t columns)
{
    const rc_named_tensor *tensor = rc_safetensors_find(file, name);
    if (tensor == NULL)
        fail_msg("no tensor %s", name);
    assert_int_equal(tensor->dtype, RC_DTYPE_F32);
    assert_int_equal(tensor->shape[0], rows);
    assert_int_equal(tensor->dims, columns > 0 ? 2 : 1);
    if (columns > 0)
        assert_int_equal(tensor->shape[1], columns);
    return tensor->data;
}

static void tensors_have_the_names_of_the_published_net(void **state)
{
    (void)state;
    subject s;
    rc_safetensors *file;
    make_subject(&s, false);
    s.e.exif = false;
    SUCCEEDS(rc_export_torch(&s.e, in_folder("own.safetensors"), false));
    SUCCEEDS(rc_safetensors_open(path, &file));
    assert_string_equal(rc_safetensors_metadata(file, "format"), "pt");
    assert_string_equal(rc_safetensors_metadata(file, "recollect.interpolation"), "bilinear");
    assert_string_equal(rc_safetensors_metadata(file, "recollect.exif"), "false");
    assert_memory_equal(floats_of(file, "head.classifiers.0.weight", 3, 5), s.e.head, 15 * 4);
    assert_memory_equal(floats_of(file, "head.classifiers.1.weight", 1, 5), s.e.head + 15, 5 * 4);
    assert_memory_equal(floats_of(file, "backbone.a_bn.running_var", 4, 0), s.e.running + 4, 4 * 4);
    const rc_named_tensor *batches = rc_safetensors_find(file, "backbone.f_bn.num_batches_tracked");
    assert_true(batches != NULL && batches->dtype == RC_DTYPE_I64 && batches->dims == 0);
    assert_null(rc_safetensors_find(file, "head.classifiers.0.bias"));
    rc_safetensors_close(file);
    assert_int_equal(rc_export_torch(&s.e, path, false), RC_IO);
    remove(path);

    const rc_published *published = rc_published_find("torchvision-resnet18");
    assert_non_null(published);
    rc_part_name(s.net.name, "%s", published->net); /* what decides about names */
    SUCCEEDS(rc_export_torch(&s.e, in_folder("published.safetensors"), false));
    SUCCEEDS(rc_safetensors_open(path, &file));
    static const float zeros[CLASSES];
    assert_memory_equal(floats_of(file, "fc.weight", CLASSES, 5), s.e.head, CLASSES * 5 * 4);
    assert_memory_equal(floats_of(file, "fc.bias", CLASSES, 0), zeros, sizeof zeros);
    assert_memory_equal(floats_of(file, "a_bn.running_var", 4, 0), s.e.running + 4, 4 * 4);
    rc_safetensors_close(file);
    remove(path);
    drop_subject(&s);
}

/* A lesson of the head adds biases to a net of recollect's own, too. */
static void biases_stand_beside_the_rows_of_their_task(void **state)
{
    (void)state;
    subject s;
    rc_safetensors *file;
    make_subject(&s, true);
    SUCCEEDS(rc_export_torch(&s.e, in_folder("own.safetensors"), false));
    SUCCEEDS(rc_safetensors_open(path, &file));
    assert_memory_equal(floats_of(file, "head.classifiers.0.bias", 3, 0), s.e.head_bias, 3 * 4);
    assert_memory_equal(floats_of(file, "head.classifiers.1.bias", 1, 0), s.e.head_bias + 3, 4);
    assert_memory_equal(floats_of(file, "head.classifiers.1.weight", 1, 5), s.e.head + 15, 5 * 4);
    rc_safetensors_close(file);

    int task_end[RC_MAX_TASKS]; /* as many tasks as a head can have: there is room for all of them */
    for (int task = 0; task < RC_MAX_TASKS; task++)
        task_end[task] = task < CLASSES ? task + 1 : CLASSES;
    s.e.tasks = RC_MAX_TASKS;
    s.e.task_end = task_end;
    SUCCEEDS(rc_export_torch(&s.e, path, true));
    SUCCEEDS(rc_safetensors_open(path, &file));
    assert_memory_equal(floats_of(file, "head.classifiers.3.bias", 1, 0), s.e.head_bias + 3, 4);
    floats_of(file, "head.classifiers.255.bias", 0, 0);
    rc_safetensors_close(file);
    remove(path);
    drop_subject(&s);
}

/* ---- what is refused --------------------------------------------------------------------------------------------- */

static void what_no_format_has_is_refused(void **state)
{
    (void)state;
    subject s;
    make_subject(&s, false);
    s.e.running[s.net.layer[4].running_var + 2] = -1;
    assert_int_equal(rc_exported_check(&s.e), RC_NUMERIC);
    assert_non_null(strstr(rc_message(), "channel 2 of 'c_bn'"));
    s.e.running[s.net.layer[4].running_var + 2] = 1;
    SUCCEEDS(rc_exported_check(&s.e));
    s.net.layer[3].up = 2;
    assert_int_equal(rc_exported_check(&s.e), RC_UNSUPPORTED);
    assert_non_null(strstr(rc_message(), "layer 3 'b'"));
    s.net.layer[3].up = 1;
    s.net.layer[3].kind = RC_LAYER_LINEAR;
    assert_int_equal(rc_exported_check(&s.e), RC_UNSUPPORTED);
    s.net.layer[3].kind = RC_LAYER_CONV;
    s.net.layers--; /* no average pool at the end */
    assert_int_equal(rc_exported_check(&s.e), RC_UNSUPPORTED);
    assert_non_null(strstr(rc_message(), "layer 8 'g'"));
    s.net.layers++;
    drop_subject(&s);
}

/* Every request for memory fails once: the call says so, and no file is left. */
static void memory_that_runs_out_leaves_no_file(void **state)
{
    (void)state;
    static rc_status (*const formats[])(const rc_exported *, const char *, bool) = {rc_export_onnx, rc_export_torch,
                                                                                    rc_export_c_header};
    subject s;
    make_subject(&s, true);
    for (int i = 0; i < 3; i++) {
        int tries = 0;
        rc_status status = RC_OUT_OF_MEMORY;
        for (in_folder("x"); status != RC_OK; tries++) {
            allocation_to_fail = tries + 1;
            status = formats[i](&s.e, path, false);
            bool failed = allocation_failed();
            assert_int_equal(status, failed ? RC_OUT_OF_MEMORY : RC_OK);
            assert_int_equal((access(path, F_OK) == 0), !failed);
        }
        assert_true(tries > 3);
        remove(path);
    }
    drop_subject(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_written_as_the_format_has_them),
        cmocka_unit_test(a_graph_has_every_layer),
        cmocka_unit_test(a_header_has_the_bits_of_the_reference),
        cmocka_unit_test(a_header_takes_no_name_of_c),
        cmocka_unit_test(a_header_tells_of_the_temperature),
        cmocka_unit_test(a_header_tells_how_pictures_are_prepared),
        cmocka_unit_test(tensors_have_the_names_of_the_published_net),
        cmocka_unit_test(biases_stand_beside_the_rows_of_their_task),
        cmocka_unit_test(what_no_format_has_is_refused),
        cmocka_unit_test(memory_that_runs_out_leaves_no_file),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
