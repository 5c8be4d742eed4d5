/* Drawing of cases: buffers and random numbers. Lazy tensors are in lazy.c. */
#include "check/case.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"

static const rc_operation_list *const all_lists[] = {
    &rc_cases_conv,       &rc_cases_fused, &rc_cases_linear,       &rc_cases_norm,           &rc_cases_layers,
    &rc_cases_pool,       &rc_cases_dense, &rc_cases_logit_losses, &rc_cases_feature_losses, &rc_cases_image_losses,
    &rc_cases_statistics, &rc_cases_data,  &rc_cases_optimisers,   &rc_cases_fused_train,    &rc_cases_narrow,
    &rc_cases_thin,       &rc_cases_stem,
};

static const rc_operation_list *const large_lists[] = {
    &rc_cases_large, &rc_cases_fused_large, &rc_cases_fused_train_large, &rc_cases_finished, &rc_cases_dense_large};

static const rc_operation *operation_at(const rc_operation_list *const *lists, size_t count, int index)
{
    for (size_t i = 0; i < count; i++) {
        if (index < lists[i]->count)
            return &lists[i]->operation[index];
        index -= lists[i]->count;
    }
    return NULL;
}

const rc_operation *rc_operation_at(int index)
{
    return operation_at(all_lists, sizeof all_lists / sizeof *all_lists, index);
}

const rc_operation *rc_large_operation_at(int index)
{
    return operation_at(large_lists, sizeof large_lists / sizeof *large_lists, index);
}

bool rc_operation_matches(const rc_operation *operation, const char *name)
{
    if (strcmp(operation->name, name) == 0)
        return true;
    size_t length = strlen(name);
    const char *entry = operation->covers;
    while (*entry) {
        size_t size = strcspn(entry, " ");
        if (size == length && memcmp(entry, name, size) == 0)
            return true;
        entry += size;
        entry += strspn(entry, " ");
    }
    return false;
}

/* ---- making and freeing --------------------------------------------------------------------------------------- */

/* The stream belongs to the operation's name (FNV-1a), so that a new operation changes no case of the others. */
static uint64_t stream_of(const rc_operation *operation, uint32_t number)
{
    uint32_t hash = 2166136261u;
    for (const char *p = operation->name; *p; p++)
        hash = (hash ^ (unsigned char)*p) * 16777619u;
    return (uint64_t)hash << 32 | number;
}

static void start(rc_case *c, const rc_operation *operation, uint64_t seed, uint32_t number)
{
    memset(c, 0, sizeof *c);
    c->operation = operation;
    c->seed = seed;
    c->number = number;
    c->act_bits = 24;
    c->rng = (rc_rng){seed, stream_of(operation, number)};
    c->step = (rc_step){.seed = seed, .task = 1, .learning_rate = 0.1f};
    c->times = 1;
}

rc_status rc_case_draw(rc_case *c, const rc_operation *operation, uint64_t seed, uint32_t number, bool quick,
                       int act_bits)
{
    return rc_case_draw_moved(c, operation, seed, number, quick, act_bits, 0);
}

rc_status rc_case_draw_moved(rc_case *c, const rc_operation *operation, uint64_t seed, uint32_t number, bool quick,
                             int act_bits, int move)
{
    start(c, operation, seed, number);
    c->move = move;
    if (operation->parameter_bytes > sizeof c->parameters)
        return rc_fail(RC_INTERNAL, "operation %s has %zu bytes of parameters, a case has room for %zu",
                       operation->name, operation->parameter_bytes, sizeof c->parameters);
    c->quick = quick;
    c->act_bits = act_bits;
    operation->draw(c);
    return c->status;
}

rc_status rc_case_bench(rc_case *c, const rc_operation *operation, const rc_net *net, int index, int n, bool *found)
{
    start(c, operation, 1, (uint32_t)index);
    c->net = net;
    *found = operation->bench && operation->bench(c, index, n);
    return c->status;
}

void rc_case_free(rc_case *c)
{
    for (int i = 0; i < c->buffers; i++)
        rc_free(NULL, c->buffer[i].host);
    c->buffers = 0;
}

static bool same_shape(const rc_layer *a, const rc_layer *b)
{
    return a->kind == b->kind && a->c_in == b->c_in && a->c_out == b->c_out && a->h_in == b->h_in &&
           a->w_in == b->w_in && a->h == b->h && a->w == b->w && a->k == b->k && a->stride == b->stride &&
           a->up == b->up && a->transposed == b->transposed;
}

const rc_layer *rc_distinct_layer(const rc_net *net, rc_layer_kind kind, int index, int *times)
{
    for (int i = 0; i < net->layers; i++) {
        const rc_layer *layer = &net->layer[i];
        bool first = layer->kind == kind;
        for (int j = 0; first && j < i; j++)
            first = !same_shape(layer, &net->layer[j]);
        if (!first || index-- > 0)
            continue;
        *times = 0;
        for (int j = i; j < net->layers; j++)
            *times += same_shape(layer, &net->layer[j]);
        return layer;
    }
    return NULL;
}

/* ---- random numbers and text ---------------------------------------------------------------------------------- */

uint32_t rc_case_below(rc_case *c, uint32_t n)
{
    return rc_rng_below(c->rng, c->drawn++, n);
}

bool rc_case_chance(rc_case *c, int percent)
{
    return (int)rc_case_below(c, 100) < percent;
}

int rc_case_choose(rc_case *c, const int *list, int count)
{
    return list[rc_case_below(c, (uint32_t)count)];
}

/* How far a number moves, in standard deviations or in widths of its interval: so little that the case stays what it
 * was, so much that no rounding of 8 bits brings it back. */
#define MOVE 0.125

static rc_rng stream_of_move(const rc_case *c)
{
    return (rc_rng){c->rng.seed, c->rng.stream ^ (uint64_t)c->move << 56};
}

double rc_case_normal(rc_case *c)
{
    uint64_t at = c->drawn++;
    double value = rc_rng_normal(c->rng, at);
    return c->move ? sqrt(1 - MOVE * MOVE) * value + MOVE * rc_rng_normal(stream_of_move(c), at) : value;
}

double rc_case_uniform(rc_case *c, double low, double high)
{
    uint64_t at = c->drawn++;
    double value = (double)rc_rng_uniform(c->rng, at);
    if (c->move) { /* and back from the ends */
        value = fabs(value + MOVE * (2 * (double)rc_rng_uniform(stream_of_move(c), at) - 1));
        value = value > 1 ? 2 - value : value;
    }
    return low + (high - low) * value;
}

void rc_case_say(rc_case *c, const char *format, ...)
{
    size_t length = strlen(c->text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(c->text + length, sizeof c->text - length, format, arguments);
    va_end(arguments);
}

/* ---- buffers -------------------------------------------------------------------------------------------------- */

/* The nearest number with that many significant bits. */
static double round_to(double value, int bits)
{
    if (bits == 24)
        return (double)(float)value;
    int exponent;
    double fraction = frexp(value, &exponent);
    return ldexp(nearbyint(ldexp(fraction, bits)), exponent - bits);
}

static double representable(const rc_case *c, rc_buffer_kind kind, double value)
{
    switch (kind) {
    case RC_BUFFER_ACT: return round_to(value, c->act_bits);
    case RC_BUFFER_DOUBLE: return value;
    default: return round_to(value, 24);
    }
}

double rc_case_rounded(const rc_case *c, double value)
{
    return representable(c, RC_BUFFER_ACT, value);
}

void rc_case_set(rc_case *c, int buffer, size_t index, double value)
{
    if (c->status == RC_OK)
        c->buffer[buffer].host[index] = representable(c, c->buffer[buffer].kind, value);
}

int rc_case_buffer(rc_case *c, const char *name, rc_buffer_kind kind, rc_buffer_role role, int n, int h, int w,
                   int channels)
{
    if (c->buffers == RC_CASE_BUFFERS) {
        c->status = rc_fail(RC_INTERNAL, "case of %s has more than %d buffers", c->operation->name, RC_CASE_BUFFERS);
        return 0;
    }
    rc_buffer *b = &c->buffer[c->buffers];
    *b = (rc_buffer){name, kind, role, n, h, w, channels, .terms = 1, .from = -1, .cotangent = -1, .gradient_of = -1};
    b->count = (size_t)n * (size_t)h * (size_t)w * (size_t)channels;
    b->stored_act = kind == RC_BUFFER_ACT;
    if (role == RC_IN || role == RC_IN_OUT || role == RC_STATE) {
        b->host = rc_alloc_zeroed(NULL, b->count ? b->count : 1, sizeof(double));
        if (!b->host)
            c->status = RC_OUT_OF_MEMORY;
    }
    return c->buffers++;
}

void rc_case_fill(rc_case *c, int buffer, double center, double spread)
{
    /* Millions of elements have a short period: a prime, so that no pixel or channel is like its neighbours. */
    enum { PERIOD = 8191 };
    const rc_buffer *b = &c->buffer[buffer];
    if (c->status != RC_OK)
        return;
    for (size_t i = 0; i < b->count; i++) {
        if (i >= PERIOD && b->count > 16 * PERIOD)
            b->host[i] = b->host[i - PERIOD];
        else
            rc_case_set(c, buffer, i, center + spread * rc_case_normal(c));
    }
}

static int filled(rc_case *c, int buffer, double spread)
{
    if (c->buffer[buffer].host)
        rc_case_fill(c, buffer, 0, spread);
    return buffer;
}

int rc_case_act(rc_case *c, const char *name, rc_buffer_role role, int n, int h, int w, int channels)
{
    return filled(c, rc_case_buffer(c, name, RC_BUFFER_ACT, role, n, h, w, channels), 1);
}

int rc_case_real(rc_case *c, const char *name, rc_buffer_role role, int rows, int columns)
{
    return filled(c, rc_case_buffer(c, name, RC_BUFFER_REAL, role, rows, 1, 1, columns), 1);
}

int rc_case_parameter(rc_case *c, const char *name, rc_buffer_role role, int rows, int columns, double spread)
{
    return filled(c, rc_case_buffer(c, name, RC_BUFFER_PARAMETER, role, rows, 1, 1, columns), spread);
}

int rc_case_channel(rc_case *c, const char *name, rc_buffer_role role, int groups, int channels)
{
    return filled(c, rc_case_buffer(c, name, RC_BUFFER_CHANNEL, role, groups, 1, 1, channels), 1);
}

int rc_case_labels(rc_case *c, const char *name, int n, int classes)
{
    int buffer = rc_case_buffer(c, name, RC_BUFFER_INT, RC_IN, n, 1, 1, 1);
    for (int i = 0; i < n; i++)
        rc_case_set(c, buffer, (size_t)i, rc_case_below(c, (uint32_t)classes));
    return buffer;
}

int rc_case_partial(rc_case *c, const char *name, int n, int h, int w, int channels)
{
    return rc_case_buffer(c, name, RC_BUFFER_PARTIAL, RC_SCRATCH, n, h, w, channels);
}

int rc_case_weight(rc_case *c, const char *name)
{
    int buffer = rc_case_buffer(c, name, RC_BUFFER_FLOAT, RC_IN, 1, 1, 1, 1);
    rc_case_set(c, buffer, 0, rc_case_uniform(c, 0.5, 2));
    return buffer;
}

int rc_case_value(rc_case *c, const char *name, int weight, double terms)
{
    int buffer = rc_case_sum(c, rc_case_real(c, name, RC_OUT, 1, 1), terms);
    c->buffer[buffer].cotangent = weight;
    return buffer;
}

int rc_case_sum(rc_case *c, int buffer, double terms)
{
    c->buffer[buffer].terms = terms;
    return buffer;
}

int rc_case_gradient(rc_case *c, int buffer, int of, double terms)
{
    c->buffer[buffer].gradient_of = of;
    return rc_case_sum(c, buffer, terms);
}

int rc_case_added(rc_case *c, const char *name, int of, double spread, double terms)
{
    const rc_buffer *b = &c->buffer[of];
    int buffer = rc_case_buffer(c, name, b->kind, RC_IN_OUT, b->n, b->h, b->w, b->c);
    rc_case_fill(c, buffer, 0, spread);
    return rc_case_gradient(c, buffer, of, terms);
}
