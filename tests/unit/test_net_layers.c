/* Every layer of every net, what the builder makes of every value of every setting of a layer, and how weights begin,
 * as tests/fixtures/net_layers.txt has them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/open.h"
#include "nn/model.h"
#include "nn/nets.h"
#include "nn/published.h"
#include "support/fixture.h"
#include "support/succeeds.h"

static char text[1 << 19];
static size_t used;

static void add_line(void *user, const char *line)
{
    (void)user;
    used += (size_t)snprintf(text + used, sizeof text - used, "%s\n", line);
    assert_true(used < sizeof text);
}

static void add(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void add(const char *format, ...)
{
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    add_line(NULL, line);
}

/* Everything that a layer holds; an offset that is not there is -1. */
static void describe(const rc_layer *l, char *line, size_t size)
{
    snprintf(line, size,
             "%s %s kind %d in %d shortcut %d skip %d k %d stride %d pad %d up %d same %d transposed %d map %d %d bias "
             "%d act %d "
             "bn %d %d %d %g %g init %d output %d: %d %d %d -> %d %d %d, skip %d %d, at %lld %lld %lld %lld %lld %lld, "
             "%zu %zu, "
             "keep %d",
             l->name, l->bn_name, (int)l->kind, l->in, (int)l->shortcut, l->skip, l->k, l->stride, l->pad, l->up,
             l->same, l->transposed, l->map_h, l->map_w, l->bias, (int)l->act, l->bn.on, l->bn.affine, l->bn.zero_gamma,
             (double)l->bn.eps, (double)l->bn.momentum, (int)l->init, l->output, l->c_in, l->h_in, l->w_in, l->c_out,
             l->h, l->w, l->skip_stride, l->skip_offset, (long long)l->weight, (long long)l->bias_at,
             (long long)l->gamma, (long long)l->beta, (long long)l->running_mean, (long long)l->running_var, l->params,
             l->weights, l->keep_value);
}

/* FNV-1a. */
static uint64_t hash_of(const char *line, uint64_t hash)
{
    for (const char *p = line; *p != '\0'; p++)
        hash = (hash ^ (uint8_t)*p) * 1099511628211u;
    return hash;
}

static const uint64_t no_hash = 14695981039346656037u;

/* A line for the net: the hash of all of its layers stands for them. */
static void add_net(rc_status status, const rc_net *net)
{
    uint64_t hash = no_hash;
    if (status != RC_OK) {
        add("refused: %s", rc_message());
        return;
    }
    for (int i = 0; i < net->layers; i++) {
        char line[1024];
        describe(&net->layer[i], line, sizeof line);
        hash = hash_of(line, hash);
    }
    add("%s of %d x %d x %d: %d layers, %d normalised, %zu parameters, %zu statistics, %.0f multiply-adds; layers "
        "before the last "
        "stage %d, two %d, nine %d; parameters of 3 layers %zu; hash %016llx",
        net->name, net->c, net->h, net->w, net->layers, net->bn_layers, net->params, net->running, rc_net_macs(net),
        rc_net_layers_before(net, 1), rc_net_layers_before(net, 2), rc_net_layers_before(net, 9),
        rc_net_params_before(net, 3), (unsigned long long)hash);
}

static void every_net(void **state)
{
    (void)state;
    static rc_net net;
    static const int sizes[][2] = {{32, 32}, {64, 64}, {224, 224}, {28, 28}, {30, 46}, {0, 32}};
    for (int i = 0; rc_net_known_name(i) != NULL; i++)
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
            add_net(rc_net_by_name(&net, rc_net_known_name(i), k == 3 ? 1 : 3, sizes[k][0], sizes[k][1]), &net);
    for (int width = -1; width < 25; width += 6)
        for (int blocks = 0; blocks < 45; blocks += 22)
            add_net(rc_net_resnet_small(&net, 3, 17, 19, width, blocks), &net);
    static const int edges[] = {-8, 0, 1, 8, 12, 14, 21, 28, 56, 84, 100, 112, 256, 8192};
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++) {
        add_net(rc_net_generator(&net, 3, edges[i]), &net);
        add_net(rc_net_generator_small(&net, 1, edges[i], 10, 16), &net);
        add_net(rc_net_vae_encoder(&net, 3, edges[i], 64), &net);
        add_net(rc_net_vae_decoder(&net, 1, edges[i], 64), &net);
    }
    static const int widths[] = {-8, 0, 1, 7, 8, 20, 24, 100000};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        add_net(rc_net_generator_small(&net, 3, 28, 16, widths[i]), &net);
        add_net(rc_net_generator_small(&net, 3, 28, widths[i], 16), &net);
        add_net(rc_net_vae_encoder(&net, 3, 16, widths[i]), &net);
        add_net(rc_net_vae_decoder(&net, 3, 16, widths[i]), &net);
        add_net(rc_net_pixels(&net, widths[i], 3, 5, 7), &net);
    }
    add_net(rc_net_by_name(&net, "nothing", 3, 32, 32), &net);
}

static void tables(void **state)
{
    (void)state;
    static rc_net net;
    static const char *const names[] = {"resnet-small", "mobilenet-v2", "generator-small", "vae-encoder", "resnet18"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        SUCCEEDS(rc_net_by_name(&net, names[i], 3, 32, 32));
        rc_net_print(&net, add_line, NULL);
    }
    /* Each activation once, of maps that are not square. */
    rc_net_builder builder = rc_net_start(&net, "acts", 2, 8, 5);
    for (int act = 0; act <= RC_ACT_SILU; act++) {
        rc_layer layer = {
            .kind = RC_LAYER_CONV, .in = act - 1, .k = 3, .stride = 1, .pad = 1, .c_out = 2, .act = (rc_act)act};
        snprintf(layer.name, sizeof layer.name, "act_%d", act);
        rc_net_add(&builder, &layer);
    }
    SUCCEEDS(rc_net_finish(&builder));
    rc_net_print(&net, add_line, NULL);
}

static void published_nets(void **state)
{
    (void)state;
    const rc_published *p;
    for (int i = 0; (p = rc_published_at(i)) != NULL; i++) {
        add("published %s: head %s, %d of %d pixels, %s, %s, %s", p->net, p->head, p->size, p->resize, p->mean, p->std,
            p->interpolation);
        assert_ptr_equal(rc_published_find(p->net), p);
    }
    assert_null(rc_published_find("resnet32"));
}

/* ---- settings of a layer ----------------------------------------------------------------------------------------- */

typedef struct setting {
    const char *name;
    size_t at;
    enum { INTEGER, TRUTH, REAL } kind;
} setting;

static const setting settings[] = {{"in", offsetof(rc_layer, in), INTEGER},
                                   {"shortcut", offsetof(rc_layer, shortcut), INTEGER},
                                   {"skip", offsetof(rc_layer, skip), INTEGER},
                                   {"k", offsetof(rc_layer, k), INTEGER},
                                   {"stride", offsetof(rc_layer, stride), INTEGER},
                                   {"pad", offsetof(rc_layer, pad), INTEGER},
                                   {"up", offsetof(rc_layer, up), INTEGER},
                                   {"c_out", offsetof(rc_layer, c_out), INTEGER},
                                   {"map_h", offsetof(rc_layer, map_h), INTEGER},
                                   {"map_w", offsetof(rc_layer, map_w), INTEGER},
                                   {"kind", offsetof(rc_layer, kind), INTEGER},
                                   {"act", offsetof(rc_layer, act), INTEGER},
                                   {"init", offsetof(rc_layer, init), INTEGER},
                                   {"same", offsetof(rc_layer, same), TRUTH},
                                   {"transposed", offsetof(rc_layer, transposed), TRUTH},
                                   {"bias", offsetof(rc_layer, bias), TRUTH},
                                   {"bn.on", offsetof(rc_layer, bn.on), TRUTH},
                                   {"bn.affine", offsetof(rc_layer, bn.affine), TRUTH},
                                   {"output", offsetof(rc_layer, output), TRUTH},
                                   {"bn.eps", offsetof(rc_layer, bn.eps), REAL},
                                   {"bn.momentum", offsetof(rc_layer, bn.momentum), REAL}};

/* Sets it; false: it has no such value. */
static bool set(rc_layer *layer, const setting *s, double value)
{
    void *at = (char *)layer + s->at;
    if (s->kind == REAL)
        memcpy(at, &(float){(float)value}, sizeof(float));
    else if (s->kind == INTEGER && value == (double)(int)value)
        memcpy(at, &(int){(int)value}, sizeof(int));
    else if (s->kind == TRUTH && (value == 0 || value == 1))
        memcpy(at, &(bool){value == 1}, sizeof(bool));
    else
        return false;
    return true;
}

/* Input -> "first" (4 channels, 9 x 7) -> "second" (1 x 1 pixel, 6 channels) -> the layer. */
static void try_layer(const char *what, const rc_layer *layer)
{
    static rc_net net;
    const rc_layer first = {
        .name = "first", .kind = RC_LAYER_CONV, .in = RC_NET_INPUT, .k = 3, .stride = 1, .pad = 1, .c_out = 4};
    const rc_layer second = {
        .name = "second", .kind = RC_LAYER_CONV, .in = RC_NET_INPUT, .k = 7, .stride = 3, .c_out = 6, .output = true};
    rc_net_builder builder = rc_net_start(&net, "tried", 2, 9, 7);
    assert_int_equal(rc_net_add(&builder, &first), 0);
    assert_int_equal(rc_net_add(&builder, &second), 1);
    net.layer[0].output = true;
    int index = rc_net_add(&builder, layer);
    char line[1024] = "";
    if (index >= 0)
        describe(&net.layer[index], line, sizeof line);
    rc_status status = rc_net_finish(&builder);
    if (status != RC_OK) {
        add("%s: %d, %s", what, index, rc_message());
        return;
    }
    const rc_layer *made = &net.layer[index];
    rc_conv conv = rc_layer_conv(made);
    rc_linear linear = rc_layer_linear(made);
    char more[512];
    snprintf(more, sizeof more, "%d %d %zu %g; %d %d %d %d %d %d %d %d %d %d %d; %d %d %d %d", rc_layer_pending(made),
             rc_layer_bias_cancels(made), rc_layer_biases(made), rc_layer_macs(made), conv.c_in, conv.c_out, conv.k,
             conv.stride, conv.pad, conv.up, conv.transposed, conv.h, conv.w, conv.oh, conv.ow, linear.c_in, linear.c,
             linear.h, linear.w);
    add("%s: %d x %d x %d, hash %016llx", what, made->c_out, made->h, made->w,
        (unsigned long long)hash_of(more, hash_of(line, no_hash)));
}

static void every_setting(void **state)
{
    (void)state;
    static const double values[] = {-2, -1, 0, 0.5, 1, 2, 3, 6, 7, 32767, 32768, 1073741823, 1073741824};
    static const rc_layer kinds[] = {
        {.name = "conv", .kind = RC_LAYER_CONV, .in = 0, .k = 3, .stride = 2, .pad = 1, .c_out = 6, .act = RC_ACT_RELU},
        {.name = "same", .kind = RC_LAYER_CONV, .in = 0, .k = 3, .stride = 1, .same = true, .c_out = 5, .bias = true},
        {.name = "enlarged", .kind = RC_LAYER_CONV, .in = 0, .k = 3, .stride = 1, .pad = 1, .up = 2, .c_out = 6},
        {.name = "transposed",
         .kind = RC_LAYER_CONV,
         .in = 0,
         .k = 4,
         .stride = 2,
         .pad = 1,
         .c_out = 3,
         .transposed = true},
        {.name = "sum",
         .kind = RC_LAYER_CONV,
         .in = 0,
         .k = 3,
         .stride = 2,
         .pad = 1,
         .c_out = 8,
         .shortcut = RC_SHORTCUT_PAD_BOTH,
         .bn_name = "norm",
         .bn = {.on = true, .affine = true, .eps = 0.25f, .momentum = 0.5f},
         .bias = true},
        {.name = "depthwise", .kind = RC_LAYER_DEPTHWISE, .in = 0, .k = 3, .stride = 1, .pad = 1},
        {.name = "linear", .kind = RC_LAYER_LINEAR, .in = 1, .c_out = 5, .map_h = 3, .map_w = 2, .bias = true},
        {.name = "bn", .kind = RC_LAYER_BN, .in = 0, .bn = {.on = true, .eps = 0.5f, .momentum = 0.25f}},
        {.name = "max", .kind = RC_LAYER_MAX_POOL, .in = 0, .k = 3, .stride = 2, .pad = 1},
        {.name = "average", .kind = RC_LAYER_AVERAGE_POOL, .in = 0}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        try_layer(kinds[i].name, &kinds[i]);
        for (size_t k = 0; k < sizeof settings / sizeof *settings; k++)
            for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
                rc_layer layer = kinds[i];
                char what[128];
                snprintf(what, sizeof what, "%s with %s %.10g", layer.name, settings[k].name, values[v]);
                if (set(&layer, &settings[k], values[v]) && memcmp(&layer, &kinds[i], sizeof layer) != 0)
                    try_layer(what, &layer);
            }
    }
    static rc_net net;
    static const int inputs[][3] = {{0, 8, 8},          {8, 0, 8},          {8, 8, 0},         {1, 1, 1},
                                    {1073741823, 1, 1}, {1073741824, 1, 1}, {1, 46341, 46341}, {1, 46340, 46340},
                                    {1, 2147483647, 1}, {-1, 8, 8}};
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        rc_net_builder builder = rc_net_start(&net, "input", inputs[i][0], inputs[i][1], inputs[i][2]);
        const rc_layer pool = {.name = "pool", .kind = RC_LAYER_AVERAGE_POOL, .in = RC_NET_INPUT};
        rc_net_add(&builder, &pool);
        add_net(rc_net_finish(&builder), &net);
    }
}

/* ---- weights ----------------------------------------------------------------------------------------------------- */

static void add_numbers(const char *what, rc_backend *be, const void *memory, size_t offset, size_t count)
{
    float first[4] = {0};
    char line[256];
    size_t length = (size_t)snprintf(line, sizeof line, "%s:", what), few = count < 4 ? count : 4;
    be->read_real(be, first, (const char *)memory + offset * be->real_bytes, few);
    for (size_t i = 0; i < few; i++)
        length += (size_t)snprintf(line + length, sizeof line - length, " %.5g", (double)first[i]);
    add_line(NULL, line);
}

static void weights_begin(void **state)
{
    (void)state;
    static rc_net net;
    rc_backend *be;
    rc_model model;
    rc_slice slice;
    SUCCEEDS(rc_backend_open("reference", 1, NULL, &be));
    static const char *const names[] = {"resnet-small", "generator-small", "vae-decoder"};
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        SUCCEEDS(rc_net_by_name(&net, names[n], 3, 16, 16));
        SUCCEEDS(rc_model_create(&model, &net, be));
        SUCCEEDS(rc_model_init(&model, (rc_rng){.seed = 7, .stream = 100}));
        for (int i = 0; rc_net_slice(&net, i, &slice); i++) {
            char what[256];
            snprintf(what, sizeof what, "%s of %s, %d: %d %d %d %d, at %zu, %zu of them", slice.name, net.name,
                     slice.dims, slice.shape[0], slice.shape[1], slice.shape[2], slice.shape[3], slice.offset,
                     slice.count);
            add_numbers(what, be, slice.running ? model.running : model.param, slice.offset, slice.count);
        }
        rc_model_destroy(&model);
    }
    /* A head that grows, with and without a bias, and copies of it. */
    for (int bias = 0; bias < 2; bias++) {
        rc_head head, copy;
        SUCCEEDS(rc_head_create(&head, be, 3, 2));
        SUCCEEDS(rc_head_create(&copy, be, 3, 1));
        for (int classes = -1; classes < 4; classes++) {
            rc_status status = rc_head_grow(&head, classes, (rc_rng){.seed = 5, .stream = (uint64_t)classes + 1});
            if (bias && classes == 1)
                SUCCEEDS(rc_head_add_bias(&head));
            add("head %d: %s; %d classes, capacity %d, %d tasks, the last ends at %d, %zu parameters", bias,
                status == RC_OK ? "grows" : rc_message(), head.classes, head.capacity, head.tasks,
                head.tasks > 0 ? head.task_end[head.tasks - 1] : 0, rc_head_parameters(&head));
            for (int k = 0; k < head.classes; k++)
                add_numbers("row", be, head.weight, (size_t)k * 3, 3);
            if (head.bias != NULL) {
                float value = (float)head.classes;
                be->write_real(be, (char *)head.bias + (size_t)(head.classes - 1) * be->real_bytes, &value, 1);
                add_numbers("bias", be, head.bias, 0, (size_t)head.classes);
            }
            SUCCEEDS(rc_head_copy(&copy, &head));
            assert_int_equal(copy.bias != NULL, head.bias != NULL);
            assert_true(copy.classes == head.classes && copy.tasks == head.tasks && copy.d == head.d);
            assert_memory_equal(copy.task_end, head.task_end, sizeof head.task_end);
            for (int k = 0; k < copy.classes; k++)
                add_numbers("copied row", be, copy.weight, (size_t)k * 3, 3);
            if (copy.bias != NULL)
                add_numbers("copied bias", be, copy.bias, 0, (size_t)copy.classes);
        }
        rc_head_destroy(&head);
        rc_head_destroy(&copy);
    }
    rc_backend_close(be);
}

static void all_is_as_it_should_be(void **state)
{
    (void)state;
    fixture_is("net_layers.txt", text, used);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_net),     cmocka_unit_test(tables),        cmocka_unit_test(published_nets),
        cmocka_unit_test(every_setting), cmocka_unit_test(weights_begin), cmocka_unit_test(all_is_as_it_should_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
