/* A C header: the weights and a predictor in plain C (predictor.h.in), for machines without files and without a heap.
 * Its numbers are those of the reference backend, bit for bit: the same sums in the same order, and normalisations are
 * applied, not folded. Only the order of the weights in memory is another: (tap, input channel, output channel). */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/ascii.h"
#include "base/file.h"
#include "base/memory.h"
#include "export/exported.h"
#include "export/predictor.h"
#include "nn/pass_plan.h"

enum { NAME_ROOM = 41, NOWHERE = -1 };

/* Where the parts of a layer are: numbers of prefix_memory, numbers of prefix_weight. */
typedef struct place {
    int64_t memory, weight, bias, scale, shift;
} place;

typedef struct header {
    const rc_exported *e;
    char name[NAME_ROOM], upper[NAME_ROOM]; /* in place of prefix and PREFIX */
    const char *file;                       /* what it is called; NULL: a name that has no place in a comment */
    float *weight;                          /* all numbers of prefix_weight */
    int64_t weights;
    place layer[RC_MAX_LAYERS];
    int64_t input, memory; /* place of the input; size of prefix_memory */
    int64_t mean, std, head, head_bias;
    rc_file_writer *writer;
    char text[1 << 14]; /* that waits to be written */
    size_t used;
} header;

/* ---- text -------------------------------------------------------------------------------------------------------- */

static void flush(header *h)
{
    (void)rc_file_writer_append(h->writer, h->text, h->used); /* a failure sticks */
    h->used = 0;
}

static void add_bytes(header *h, const char *bytes, size_t size)
{
    for (size_t now; size > 0; bytes += now, size -= now) {
        if (h->used == sizeof h->text)
            flush(h);
        now = size < sizeof h->text - h->used ? size : sizeof h->text - h->used;
        memcpy(h->text + h->used, bytes, now);
        h->used += now;
    }
}

__attribute__((format(printf, 2, 3))) static void add(header *h, const char *format, ...)
{
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    add_bytes(h, line, length > 0 ? strlen(line) : 0);
}

/* A line of the predictor, with the model's name in place of `prefix`. */
static void add_line(header *h, const char *line)
{
    static const char lower[] = "prefix", upper[] = "PREFIX";
    enum { LENGTH = sizeof lower - 1 };
    for (const char *rest = line; *rest != '\0';) {
        bool is_lower = strncmp(rest, lower, LENGTH) == 0;
        if (is_lower || strncmp(rest, upper, LENGTH) == 0) {
            add(h, "%s", is_lower ? h->name : h->upper);
            rest += LENGTH;
        } else {
            add_bytes(h, rest++, 1);
        }
    }
    add_bytes(h, "\n", 1);
}

/* Bytes from outside as a string of C that holds them and nothing else: what is not a letter, a digit or harmless is
 * three octal digits, which no character behind them can change. */
static void add_string(header *h, const char *text)
{
    static const char harmless[] = " !#&'()*+,-./:;<=>@[]^_`{|}~";
    add_bytes(h, "\"", 1);
    for (; *text != '\0'; text++) {
        unsigned char byte = (unsigned char)*text;
        if (rc_ascii_is_letter(*text) || rc_ascii_is_digit(*text) || strchr(harmless, *text) != NULL)
            add_bytes(h, text, 1);
        else
            add(h, "\\%03o", byte);
    }
    add_bytes(h, "\"", 1);
}

/* Does C have names such as CHAR_WIDTH or MAX_INPUT, which the header's own would be? */
static bool is_taken(const char *name)
{
    static const char taken[] = "bool char int intmax intptr llong long max ptrdiff schar shrt sig_atomic size uchar "
                                "uint uintmax uintptr ullong ulong ushrt wchar wint int8 int16 int32 int64 uint8 "
                                "uint16 uint32 uint64";
    return rc_ascii_among(name, taken);
}

/* The name of the file becomes part of identifiers: a letter, then letters, digits and single underscores. */
static void take_name(header *h, const char *path)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    const char *slash = strrchr(path, '/'), *file = slash != NULL ? slash + 1 : path;
    size_t length = strcspn(file, "."), used = 0;
    h->file = file[strspn(file, plain)] == '\0' ? file : NULL;
    for (size_t i = 0; i < length && used < NAME_ROOM - 1; i++) {
        if (rc_ascii_is_letter(file[i]) || (rc_ascii_is_digit(file[i]) && used > 0))
            h->name[used++] = rc_ascii_lower(file[i]);
        else if (used > 0 && h->name[used - 1] != '_')
            h->name[used++] = '_';
    }
    while (used > 0 && h->name[used - 1] == '_')
        used--;
    h->name[used] = '\0';
    if (used == 0 || is_taken(h->name))
        snprintf(h->name + used, sizeof h->name - used, "%smodel", used > 0 ? "_" : "");
    for (size_t i = 0; i < sizeof h->name; i++)
        h->upper[i] = rc_ascii_upper(h->name[i]);
}

/* ---- weights ----------------------------------------------------------------------------------------------------- */

static int64_t add_weights(header *h, const float *values, size_t count)
{
    int64_t at = h->weights;
    memcpy(h->weight + at, values, count * sizeof *values);
    h->weights += (int64_t)count;
    return at;
}

/* (rows, columns) with its columns as rows. */
static int64_t add_turned(header *h, const float *values, size_t rows, size_t columns)
{
    int64_t at = h->weights;
    for (size_t column = 0; column < columns; column++)
        for (size_t row = 0; row < rows; row++)
            h->weight[h->weights++] = values[row * columns + column];
    return at;
}

/* (c_out, c_in, k, k) as (k, k, c_in, c_out); depthwise: (c, 1, k, k) as (k, k, c). */
static int64_t add_convolution(header *h, const rc_layer *layer)
{
    int64_t at = h->weights;
    size_t taps = (size_t)layer->k * (size_t)layer->k, c_out = (size_t)layer->c_out;
    size_t c_in = layer->kind == RC_LAYER_DEPTHWISE ? 1 : (size_t)layer->c_in;
    const float *weight = h->e->param + layer->weight;
    for (size_t tap = 0; tap < taps; tap++)
        for (size_t in = 0; in < c_in; in++)
            for (size_t out = 0; out < c_out; out++)
                h->weight[h->weights++] = weight[(out * c_in + in) * taps + tap];
    return at;
}

static void add_layer_weights(header *h, int index)
{
    const rc_layer *layer = &h->e->net->layer[index];
    size_t channels = (size_t)layer->c_out;
    place *to = &h->layer[index];
    to->weight = to->bias = to->scale = to->shift = NOWHERE;
    if (layer->weights > 0)
        to->weight = add_convolution(h, layer);
    if (layer->bias)
        to->bias = add_weights(h, h->e->param + layer->bias_at, channels);
    if (!layer->bn.on)
        return;
    to->scale = h->weights;
    to->shift = h->weights + (int64_t)channels;
    for (size_t c = 0; c < channels; c++) {
        const rc_affine affine = rc_exported_affine(h->e, layer, (int)c);
        h->weight[to->scale + (int64_t)c] = (float)affine.scale;
        h->weight[to->shift + (int64_t)c] = (float)affine.shift;
    }
    h->weights += 2 * (int64_t)channels;
}

static rc_status gather_weights(header *h)
{
    const rc_exported *e = h->e;
    size_t room = e->net->params + e->net->running + (size_t)e->classes * (size_t)(e->d + 1) + 2 * (size_t)e->net->c;
    for (int i = 0; i < e->net->layers; i++)
        room += 2 * (size_t)e->net->layer[i].c_out;
    if (room > INT32_MAX)
        return rc_fail(RC_UNSUPPORTED, "the model has %zu numbers, a C header takes at most %d", room, INT32_MAX);
    h->weight = rc_alloc_zeroed(NULL, room, sizeof *h->weight);
    if (h->weight == NULL)
        return RC_OUT_OF_MEMORY;
    for (int i = 0; i < e->net->layers; i++)
        add_layer_weights(h, i);
    h->head = add_turned(h, e->head, (size_t)e->classes, (size_t)e->d);
    h->head_bias = e->head_bias != NULL ? add_weights(h, e->head_bias, (size_t)e->classes) : NOWHERE;
    h->mean = add_weights(h, e->mean, (size_t)e->net->c);
    h->std = add_weights(h, e->std, (size_t)e->net->c);
    return RC_OK;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static size_t map_bytes(int h, int w, int c)
{
    return (size_t)h * (size_t)w * (size_t)c * sizeof(float);
}

/* Maps that are never in use at the same time share memory. Step 0 writes the input, step i + 1 is layer i, the last
 * one reads the features. Buffer 0 is the input, buffer i + 1 the map of layer i. */
static rc_status plan_memory(header *h)
{
    const rc_net *net = h->e->net;
    rc_plan_buffer buffers[RC_MAX_LAYERS + 1];
    int order[RC_MAX_LAYERS + 1];
    rc_plan plan = {.buffer = buffers, .order = order};
    rc_plan_use(&plan, rc_plan_add(&plan, map_bytes(net->h, net->w, net->c)), 0);
    for (int i = 0; i < net->layers; i++) {
        const rc_layer *layer = &net->layer[i];
        int step = i + 1;
        rc_plan_use(&plan, rc_plan_add(&plan, map_bytes(layer->h, layer->w, layer->c_out)), step);
        rc_plan_use(&plan, layer->in + 1, step);
        if (layer->skip >= 0)
            rc_plan_use(&plan, layer->skip + 1, step);
    }
    rc_plan_use(&plan, net->layers, net->layers + 1);
    RC_TRY(rc_plan_place(&plan));
    if (plan.bytes / sizeof(float) > INT32_MAX)
        return rc_fail(RC_UNSUPPORTED, "the model needs %zu bytes of memory, a C header takes at most 8 GiB",
                       plan.bytes);
    h->memory = (int64_t)(plan.bytes / sizeof(float));
    h->input = (int64_t)(buffers[0].offset / sizeof(float));
    for (int i = 0; i < net->layers; i++)
        h->layer[i].memory = (int64_t)(buffers[i + 1].offset / sizeof(float));
    return RC_OK;
}

/* Room for the sums of a pixel, and of the classes. */
static int most_sums(const rc_exported *e)
{
    int most = e->classes;
    for (int i = 0; i < e->net->layers; i++)
        most = e->net->layer[i].c_out > most ? e->net->layer[i].c_out : most;
    return most;
}

/* ---- what belongs to one model ----------------------------------------------------------------------------------- */

static void put_about(header *h)
{
    const rc_exported *e = h->e;
    int64_t flash = 4 * h->weights, ram = 4 * h->memory + 8 * (int64_t)most_sums(e);
    add(h, "/* An image classifier in plain C, made by recollect %s: net %s, %d class%s, %d x %d pixels.\n *\n",
        recollect_version(), e->net->name, e->classes, e->classes == 1 ? "" : "es", e->net->w, e->net->h);
    add(h, " *     #define %s_IMPLEMENTATION      in one of the files that include it\n", h->upper);
    add(h, " *     #include \"%.255s%s\"                  this file\n *     ...\n", h->file != NULL ? h->file : h->name,
        h->file != NULL ? "" : ".h");
    add(h, " *     int label = %s_predict(pixels, 0, 0);\n *\n", h->name);
    add(h, " * It needs no file, no heap and no operating system: <math.h>, <stdint.h> and <string.h> alone.\n");
    add(h, " * Constants: %" PRId64 " bytes of weights. Static memory: %" PRId64 " bytes. Stack: below 1 kB.\n", flash,
        ram);
    add(h,
        " * Compile with optimisation, and without -ffast-math. On x86 without SSE, floats are wider than float, and\n"
        " * the last bits differ; elsewhere the logits are those of recollect's reference backend, %s.\n *\n",
        e->temperature == 1 ? "bit for bit" : "divided by the\n * temperature of the model's probabilities");
    add(h,
        " * The image: a picture%s whose shorter side was resized to\n * %d pixels (%s, as Pillow does it), and of "
        "that ",
        e->exif ? ", turned as its EXIF orientation says," : "", e->resize, e->interpolation);
    add(h, "the middle, %d x %d pixels of %s.\n * The predictor itself does the rest. */\n", e->net->w, e->net->h,
        e->net->c == 3 ? "red, green and blue" : "grey");
}

static void put_sizes(header *h)
{
    const rc_exported *e = h->e;
    const rc_net *net = e->net;
    const struct {
        const char *name;
        int64_t value;
    } sizes[] = {
        {"CLASSES", e->classes},
        {"HEIGHT", net->h},
        {"WIDTH", net->w},
        {"CHANNELS", net->c},
    };
    add(h, "enum {\n");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        add(h, "    %s_%s = %" PRId64 ",\n", h->upper, sizes[i].name, sizes[i].value);
    add(h, "};\n");
}

static void put_names(header *h)
{
    add(h, "const char *const %s_class_name[%s_CLASSES] = {\n", h->name, h->upper);
    for (int i = 0; i < h->e->classes; i++) {
        add(h, "    ");
        add_string(h, h->e->class_name[i]);
        add(h, ",\n");
    }
    add(h, "};\n");
}

static const char *operation_of(const rc_layer *layer)
{
    switch (layer->kind) {
    case RC_LAYER_DEPTHWISE: return "DEPTHWISE";
    case RC_LAYER_MAX_POOL: return "MAX_POOL";
    case RC_LAYER_AVERAGE_POOL: return "AVERAGE_POOL";
    default: return "CONV";
    }
}

static const char *activation_of(const rc_layer *layer)
{
    switch (layer->act) {
    case RC_ACT_RELU: return "RELU";
    case RC_ACT_LEAKY_RELU: return "LEAKY_RELU";
    case RC_ACT_TANH: return "TANH";
    case RC_ACT_SIGMOID: return "SIGMOID";
    case RC_ACT_RELU6: return "RELU6";
    case RC_ACT_SILU: return "SILU";
    case RC_ACT_NONE: break;
    }
    return "NONE";
}

static void put_layer(header *h, int index)
{
    const rc_layer *layer = &h->e->net->layer[index];
    const place *at = &h->layer[index];
    const rc_layer *skip = layer->skip >= 0 ? &h->e->net->layer[layer->skip] : NULL;
    add(h, "    {%s_%s, %s_%s, %" PRId64 ", %" PRId64 ", %" PRId64 ",", h->upper, operation_of(layer), h->upper,
        activation_of(layer), layer->in == RC_NET_INPUT ? h->input : h->layer[layer->in].memory, at->memory,
        skip != NULL ? h->layer[layer->skip].memory : NOWHERE);
    add(h, " %d, %d, %d, %d, %d, %d, %d, %d, %d,", layer->h_in, layer->w_in, layer->c_in, layer->h, layer->w,
        layer->c_out, layer->k, layer->stride, layer->pad);
    add(h, " %d, %d, %d, %d,", skip != NULL ? skip->w : 0, skip != NULL ? skip->c_out : 0, layer->skip_stride,
        layer->skip_offset);
    add(h, " %" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 "},\n", at->weight, at->bias, at->scale, at->shift);
}

static void put_layers(header *h)
{
    const rc_exported *e = h->e;
    const struct {
        const char *name;
        int64_t value;
    } places[] = {
        {"INPUT", h->input},
        {"OUTPUT", h->layer[e->net->layers - 1].memory},
        {"FEATURES", e->d},
        {"MEAN", h->mean},
        {"STD", h->std},
        {"HEAD", h->head},
        {"HEAD_BIAS", h->head_bias},
        {"MEMORY", h->memory},
        {"SUMS", most_sums(e)},
    };
    add(h, "enum {\n");
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        add(h, "    %s_%s = %" PRId64 ",\n", h->upper, places[i].name, places[i].value);
    add(h, "};\n\nstatic const %s_layer %s_layers[] = {\n", h->name, h->name);
    for (int i = 0; i < e->net->layers; i++)
        put_layer(h, i);
    add(h, "};\n");
}

static void put_weights(header *h)
{
    enum { A_LINE = 10 };
    static const char digits[] = "0123456789abcdef";
    add(h, "static const uint32_t %s_weight[%" PRId64 "] = {\n", h->name, h->weights);
    for (int64_t i = 0; i < h->weights; i++) {
        uint32_t bits;
        char text[] = "0x00000000, ";
        memcpy(&bits, &h->weight[i], sizeof bits);
        for (int digit = 9; digit >= 2; digit--, bits >>= 4)
            text[digit] = digits[bits & 15];
        bool first = i % A_LINE == 0, last = i % A_LINE == A_LINE - 1 || i == h->weights - 1;
        add_bytes(h, "    ", first ? 4 : 0);
        add_bytes(h, text, last ? 11 : 12);
        add_bytes(h, "\n", last ? 1 : 0);
    }
    add(h, "};\n");
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

static void put_file(header *h)
{
    static const struct {
        const char *line;
        void (*put)(header *h);
    } parts[] = {{"%about", put_about},
                 {"%sizes", put_sizes},
                 {"%names", put_names},
                 {"%layers", put_layers},
                 {"%weights", put_weights}};
    for (const char *const *line = rc_predictor_lines; *line != NULL; line++) {
        size_t part = 0;
        while (part < sizeof parts / sizeof *parts && strcmp(*line, parts[part].line) != 0)
            part++;
        if (part < sizeof parts / sizeof *parts)
            parts[part].put(h);
        else
            add_line(h, *line);
    }
    flush(h);
}

rc_status rc_export_c_header(const rc_exported *exported, const char *path, bool replace)
{
    header *h = rc_alloc_zeroed(NULL, 1, sizeof *h);
    if (h == NULL)
        return RC_OUT_OF_MEMORY;
    h->e = exported;
    take_name(h, path);
    rc_status status = gather_weights(h);
    if (status == RC_OK)
        status = plan_memory(h);
    if (status == RC_OK)
        status = rc_file_writer_open(path, &h->writer);
    if (status == RC_OK) {
        put_file(h);
        status = replace ? rc_file_writer_commit(h->writer) : rc_file_writer_commit_new(h->writer);
    }
    rc_free(NULL, h->weight);
    rc_free(NULL, h);
    return status;
}
