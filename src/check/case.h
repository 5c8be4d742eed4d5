/* One case list per operation serves three purposes: selftest compares the outputs of a case on two backends and
 * checks gradients by finite differences, bench times it, and the unit tests run the quick list.
 *
 * A case is a set of buffers, held on the host as doubles that every backend can represent exactly, and an operation
 * that says what to do with them. rc_run binds a case to a backend: the buffers get memory there, with guard zones
 * before and after; `run` calls entries of the table; everything that it wrote comes back as doubles.
 *
 *     draw(case)     draws a shape and the inputs from Philox: seed, stream = (operation, case number)
 *     run(run)       calls the table
 *
 * Differentiation is part of the case: an output may name the buffer that holds its cotangent, and another output may
 * say that it is the gradient with respect to an input. With S = sum over such outputs of <cotangent, output>, the
 * gradient is right if <gradient, d> = dS/dt along input + t d, for random directions d. A loss is the same thing
 * with one cotangent, its weight.
 *
 * Reading order: rc_buffer, rc_case, rc_lazy, rc_run, rc_operation. */
#ifndef RC_CHECK_CASE_H
#define RC_CHECK_CASE_H

#include "backend/backend.h"
#include "base/rng.h"
#include "nn/net.h"

enum { RC_CASE_BUFFERS = 48, RC_GUARD_BYTES = 64, RC_CASE_TEXT = 240 };

/* More images than any card has multiprocessors (188 are the most so far), and few enough for sums of each image. */
enum { RC_CASE_MANY_IMAGES = 200 };

/* ---- buffers -------------------------------------------------------------------------------------------------- */

typedef enum rc_buffer_kind {
    RC_BUFFER_ACT,       /* (n, h, w, c) activations, channels padded in backend memory */
    RC_BUFFER_REAL,      /* n * h * w * c reals, dense */
    RC_BUFFER_PARAMETER, /* the same at an address that is only aligned to a real */
    RC_BUFFER_CHANNEL,   /* (n groups, c) reals, channels padded in backend memory */
    RC_BUFFER_DOUBLE,
    RC_BUFFER_FLOAT,         /* loss weights: a field of rc_step */
    RC_BUFFER_INT,           /* int32_t */
    RC_BUFFER_BYTE,          /* uint8_t */
    RC_BUFFER_STEP,          /* one rc_step, made of rc_case.step */
    RC_BUFFER_PARTIAL,       /* partial_bytes(n, h, w, c) of workspace */
    RC_BUFFER_RKD_WORKSPACE, /* rkd_workspace(n, c) */
    RC_BUFFER_DCE_WORKSPACE  /* dce_workspace(n, h, c): n samples, h features, c classes */
} rc_buffer_kind;

typedef enum rc_buffer_role {
    RC_IN,     /* must be the same bytes afterwards */
    RC_OUT,    /* filled with NaN before, which shows an operation that reads it or does not write it */
    RC_IN_OUT, /* has a value before, and another one afterwards */
    RC_STATE,  /* has a value before; not compared afterwards */
    RC_SCRATCH /* neither filled nor compared */
} rc_buffer_role;

typedef struct rc_buffer {
    const char *name;
    rc_buffer_kind kind;
    rc_buffer_role role;
    int n, h, w, c;
    size_t count;     /* n * h * w * c: elements on the host, without padding */
    double *host;     /* the value before; NULL for RC_OUT and RC_SCRATCH */
    double terms;     /* outputs: how many products are summed into one element; sets the tolerance */
    double magnitude; /* outputs: natural size of an element, where the result itself may cancel to less */
    bool stored_act;  /* outputs: made of numbers that were rounded to the activation type on the way */
    bool exact;       /* outputs: nothing was rounded to the activation type but, if stored_act, this number itself */
    int from;         /* the references read from here what the backend under test has written to that output; -1:
                         no */
    int cotangent;    /* outputs: buffer that multiplies it in S, of the same count or of count 1; -1: not in S */
    int gradient_of;  /* outputs: the input whose gradient this is; -1: none */
} rc_buffer;

/* ---- cases ---------------------------------------------------------------------------------------------------- */

typedef struct rc_operation rc_operation;

typedef struct rc_case rc_case;

struct rc_case {
    const rc_operation *operation;
    uint64_t seed;
    uint32_t number;
    int move;     /* 0: the numbers as they are drawn; k: the same shape, every number moved a little, in way k */
    bool quick;   /* small shapes */
    int act_bits; /* significant bits of the narrowest activation type that will run the case: 24, or 8 for bf16 */
    rc_rng rng;
    uint64_t drawn; /* numbers taken from rng */

    rc_buffer buffer[RC_CASE_BUFFERS];
    int buffers;
    rc_step step;                                 /* what a buffer of kind RC_BUFFER_STEP holds */
    bool (*takes)(rc_backend *, const rc_case *); /* can the backend under test run it? NULL: every backend can */
    union {                                       /* parameters of the operation, its own struct */
        max_align_t align;
        char bytes[1536];
    } parameters;
    char text[RC_CASE_TEXT]; /* the shape, for people */
    rc_status status;        /* sticky: out of memory */

    /* For bench. */
    const rc_net *net;   /* whose shapes are wanted */
    double flops, bytes; /* of one run */
    int times;           /* how often a step of that net does it */
};

/* Draws case `number` of the operation. rc_case_free() in any outcome. */
rc_status rc_case_draw(rc_case *c, const rc_operation *operation, uint64_t seed, uint32_t number, bool quick,
                       int act_bits);
/* The same with every number moved (rc_case.move), so that a sign or a maximum which hung on a last bit does no more:
 * shapes, labels and whatever else chooses the kernel stay. */
rc_status rc_case_draw_moved(rc_case *c, const rc_operation *operation, uint64_t seed, uint32_t number, bool quick,
                             int act_bits, int move);
/* Number `index` of the shapes that a net has for the operation, at batch size n; *found is false when there are no
 * more. */
rc_status rc_case_bench(rc_case *c, const rc_operation *operation, const rc_net *net, int index, int n, bool *found);
void rc_case_free(rc_case *c);

/* The operation's own struct. */
static inline void *rc_case_parameters(rc_case *c)
{
    return c->parameters.bytes;
}

/* Random numbers of the case. */
uint32_t rc_case_below(rc_case *c, uint32_t n);
bool rc_case_chance(rc_case *c, int percent);
int rc_case_choose(rc_case *c, const int *list, int count);
double rc_case_normal(rc_case *c);
double rc_case_uniform(rc_case *c, double low, double high);
#define RC_CHOOSE(c, ...) \
    rc_case_choose(c, (const int[]){__VA_ARGS__}, (int)(sizeof((const int[]){__VA_ARGS__}) / sizeof(int)))

/* Adds to the text of the case. */
void rc_case_say(rc_case *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Add a buffer and return its index. Inputs are filled with spread * normal + center. */
int rc_case_buffer(rc_case *c, const char *name, rc_buffer_kind kind, rc_buffer_role role, int n, int h, int w,
                   int channels);
void rc_case_fill(rc_case *c, int buffer, double center, double spread);
void rc_case_set(rc_case *c, int buffer, size_t index, double value); /* rounded to what the backends hold */
double rc_case_rounded(const rc_case *c, double value); /* to the narrowest activation type that runs the case */
int rc_case_act(rc_case *c, const char *name, rc_buffer_role role, int n, int h, int w, int channels);
int rc_case_real(rc_case *c, const char *name, rc_buffer_role role, int rows, int columns);
int rc_case_parameter(rc_case *c, const char *name, rc_buffer_role role, int rows, int columns, double spread);
int rc_case_channel(rc_case *c, const char *name, rc_buffer_role role, int groups, int channels);
int rc_case_labels(rc_case *c, const char *name, int n, int classes);
int rc_case_partial(rc_case *c, const char *name, int n, int h, int w, int channels);
/* The pair of a loss: its weight (float) and its value (real), which is part of S. */
int rc_case_weight(rc_case *c, const char *name);
int rc_case_value(rc_case *c, const char *name, int weight, double terms);

/* The gradient with respect to buffer `of`, of the same shape, to which the operation adds; what is there before is
 * of size `spread`. */
int rc_case_added(rc_case *c, const char *name, int of, double spread, double terms);

/* Say of an output how many terms are summed, and that it is a gradient; of an output that it is in S. Both return
 * the buffer. */
int rc_case_sum(rc_case *c, int buffer, double terms);
int rc_case_gradient(rc_case *c, int buffer, int of, double terms);

/* ---- lazy tensors --------------------------------------------------------------------------------------------- */

enum {
    RC_LAZY_BN = 1,        /* scale and shift pending, with the mean and istd they are made of */
    RC_LAZY_SKIP = 2,      /* a skip of any kind that fits the shape */
    RC_LAZY_VALUE = 4,     /* memory for the value, to be filled by the first reader */
    RC_LAZY_STORED = 8,    /* value is filled already */
    RC_LAZY_ACT = 16,      /* any activation */
    RC_LAZY_OUTPUT = 32,   /* raw is an output */
    RC_LAZY_IDENTITY = 64, /* RC_LAZY_SKIP: of stride 1 */
    RC_LAZY_RELU = 128,    /* ReLU */
    RC_LAZY_LEAKY = 256    /* leaky ReLU */
};

/* Indices of buffers, -1 where the tensor has none. */
typedef struct rc_lazy {
    int n, h, w, c, groups, group_end[RC_MAX_GROUPS];
    int raw, scale, shift, mean, istd, gamma, value;
    int skip, skip_h, skip_w, skip_c, skip_stride, skip_offset;
    rc_act act;
    bool stored;
} rc_lazy;

/* One to three groups of images, or none of it if n is 1. */
typedef struct rc_groups {
    int count, end[RC_MAX_GROUPS];
} rc_groups;
rc_groups rc_case_groups(rc_case *c, int n);

/* A tensor of that shape with no buffer yet. */
rc_lazy rc_lazy_of_shape(int n, int h, int w, int channels, rc_groups groups);

/* A tensor with what `features` allow: each is present by chance if `random`, else always. Pre-activations keep away
 * from the kink of ReLU, so that float and double take the same side. */
rc_lazy rc_case_lazy(rc_case *c, const char *name, int n, int h, int w, int channels, rc_groups groups, int features,
                     bool random);
/* A plain one: raw alone. */
rc_lazy rc_case_plain(rc_case *c, const char *name, rc_buffer_role role, int n, int h, int w, int channels,
                      rc_groups groups);
const char *rc_act_name(rc_act act);

/* The gradient tensor of y: g, and by chance the coefficients of batch normalisation. */
typedef struct rc_lazy_gradient {
    rc_lazy y;
    int g, a, b, c;
} rc_lazy_gradient;
rc_lazy_gradient rc_case_lazy_gradient(rc_case *c, int n, int h, int w, int channels, rc_groups groups);

/* Sums that an operation takes as it writes have no layout that a case could know: what bn_train and bn_backward make
 * of them can be compared. Sums are taken of what is stored. Where a channel hardly varies, rounding to the activation
 * type changes its variance by any factor: so the references take theirs of what the test has stored (`seen`). */
typedef struct rc_sums {
    int partial, center, running_mean, running_var, scale, shift, mean, istd;
    int seen, copy; /* bench: -1 */
} rc_sums;
typedef struct rc_back_sums {
    int partial, dgamma, dbeta, a, b, c;
} rc_back_sums;
/* Of y, as an operation writes its raw; of x, which must be normalised, as an operation writes its gradient, each
 * element of which is a sum of `terms` products. */
rc_sums rc_case_sums(rc_case *c, const rc_lazy *y);
rc_back_sums rc_case_back_sums(rc_case *c, const rc_lazy *x, double terms);
/* No sums: partial is -1. */
rc_sums rc_case_no_sums(void);
rc_back_sums rc_case_no_back_sums(void);
/* Enough samples in every group for a variance. */
bool rc_lazy_has_statistics(const rc_lazy *t);

/* ---- a case on a backend -------------------------------------------------------------------------------------- */

typedef struct rc_run {
    const rc_case *c;
    rc_backend *be;
    void *block[RC_CASE_BUFFERS];  /* allocated */
    void *memory[RC_CASE_BUFFERS]; /* the buffer itself, behind its guard */
    size_t bytes[RC_CASE_BUFFERS];
    bool beside;                  /* a reference, which has read what the test wrote (rc_buffer.from) */
    char complaint[RC_CASE_TEXT]; /* of rc_run_expect; "": no complaint */
} rc_run;

/* Memory and workspace for the case. rc_run_close() in any outcome. */
rc_status rc_run_open(rc_run *r, const rc_case *c, rc_backend *be);
void rc_run_close(rc_run *r);
/* Writes every buffer and guard; `instead`, if set, is the content of buffer `changed`. */
rc_status rc_run_load(rc_run *r, int changed, const double *instead);
/* Calls the operation and waits for it. */
rc_status rc_run_execute(rc_run *r);
/* The content of a buffer, count doubles. */
void rc_run_read(const rc_run *r, int buffer, double *to);
/* The raw bytes of an output, padding included: r->bytes[buffer] of them. */
void rc_run_read_bytes(const rc_run *r, int buffer, void *to);
/* Looks at guards, inputs and padding. False: complaint says which buffer and what happened. */
rc_status rc_run_inspect(rc_run *r, bool *sound);

static inline const void *rc_run_parameters(const rc_run *r)
{
    return r->c->parameters.bytes;
}

/* For run(): memory of a buffer (NULL for -1), tensors, and a condition that must hold. */
void *rc_at(const rc_run *r, int buffer);
rc_tensor rc_run_tensor(const rc_run *r, const rc_lazy *lazy);
rc_grad rc_run_gradient(const rc_run *r, const rc_lazy_gradient *lazy, rc_tensor *y);
/* Calls bn_train or bn_backward on the sums, if there are any. */
void rc_run_sums(rc_run *r, const rc_sums *sums, const rc_tensor *y);
void rc_run_back_sums(rc_run *r, const rc_back_sums *sums, const rc_tensor *x);
void rc_run_expect(rc_run *r, bool condition, const char *what);

/* ---- operations ----------------------------------------------------------------------------------------------- */

struct rc_operation {
    const char *name;
    const char *covers; /* entries of the table that the cases would find a fault in, separated by blanks; "": others
                           cover them, and a case of theirs shall be one case */
    int quick, normal;  /* number of cases */
    size_t parameter_bytes;
    void (*draw)(rc_case *c);
    rc_status (*reserve)(rc_run *r); /* NULL: needs no workspace */
    void (*run)(rc_run *r);
    bool (*bench)(rc_case *c, int index, int n); /* c->net is set. NULL: not measured; false: no such shape */
};

/* Every list, one per file cases_*.c. */
typedef struct rc_operation_list {
    const rc_operation *operation;
    int count;
} rc_operation_list;

extern const rc_operation_list rc_cases_conv, rc_cases_narrow, rc_cases_thin, rc_cases_fused, rc_cases_fused_train,
    rc_cases_stem, rc_cases_linear, rc_cases_norm, rc_cases_layers, rc_cases_pool, rc_cases_dense,
    rc_cases_logit_losses, rc_cases_feature_losses, rc_cases_image_losses, rc_cases_statistics, rc_cases_data,
    rc_cases_optimisers;

/* Operation number `index` over all lists; NULL when there are no more. */
const rc_operation *rc_operation_at(int index);

/* Large layers, in a list of their own: shapes for which a device has kernels that smaller ones do not reach. They
 * would take the references too long; another backend judges them. Each case comes once more, numbered after all of
 * them, with two images: enough for a device of few multiprocessors. */
extern const rc_operation_list rc_cases_large;
/* Several layers at once, with many images, likewise. */
extern const rc_operation_list rc_cases_fused_large, rc_cases_fused_train_large;
/* A large layer and who reads its result, likewise. */
extern const rc_operation_list rc_cases_finished;
/* Heads of many classes, which are no larger with two images. */
extern const rc_operation_list rc_cases_dense_large;
/* Operation number `index` of all of these; NULL when there are no more. */
const rc_operation *rc_large_operation_at(int index);
/* Layer number `index` among the layers of that kind that differ in shape, and how many there are of it; NULL when
 * there are no more. */
const rc_layer *rc_distinct_layer(const rc_net *net, rc_layer_kind kind, int index, int *times);
/* Is `name` the operation's own, or one of the entries that it covers? */
bool rc_operation_matches(const rc_operation *operation, const char *name);

#endif
