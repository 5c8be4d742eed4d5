/* The table of operations: the only thing that the layers above know of a device.
 *
 * Order of the file: memory and control, convolution family, normalisation, pooling, dense, losses, data, optimisers.
 *
 * Rules that hold for every operation:
 * - It enqueues work and returns nothing. The backend keeps the first error, and sync() returns it.
 * - It allocates nothing. rc_pass_create calls the reserve functions with every shape before.
 * - It cuts sums by shape, never by the number of threads: any number of threads gives the same bits.
 * - Gradients of parameters are OVERWRITTEN. Gradients of activations follow the flag `add`. A loss ADDS
 *   weight * gradient to every gradient it is given and OVERWRITES its value slot (unweighted value).
 * - It reads what changes from step to step through pointers into rc_step; no caller passes that by value.
 * - It checks no argument: the builders in nn/ have checked every shape before the first operation.
 * - Where the calling thread is to stop (base/stop.h), it may compute nothing; then sync() and repeat() return
 *   RC_CANCELLED. Labels and counts are then those of an earlier step or 0, so that they stay in range.
 */
#ifndef RC_BACKEND_BACKEND_H
#define RC_BACKEND_BACKEND_H

#include "backend/step.h"
#include "backend/tensor.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/status.h"

typedef struct rc_backend rc_backend;

/* ---- geometry ----------------------------------------------------------------------------------------------- */

/* Convolution (n, h, w, c_in) -> (n, oh, ow, c_out). With up = 2 the input is enlarged twice by nearest neighbour
 * first. Weights: (c_out, c_in, k, k); transposed: (c_in, c_out, k, k), as PyTorch has them. `pad` is the padding
 * before the first pixel; behind the last there is as much as oh and ow need, which may be more or less: kernels take
 * the size of the result from oh and ow alone. A depthwise convolution has c_in = c_out, up 1, is not transposed, and
 * has weights (c, 1, k, k). */
typedef struct rc_conv {
    int c_in, c_out, k, stride, pad, up;
    bool transposed;
    int h, w, oh, ow;
} rc_conv;

/* Linear layer inside a net: (n, 1, 1, c_in) -> (n, h, w, c). Weights (c * h * w, c_in), bias (c * h * w): PyTorch's
 * order of a reshape to (c, h, w); the operation writes it as NHWC. */
typedef struct rc_linear {
    int c_in, c, h, w;
} rc_linear;

/* 2-D pooling window. */
typedef struct rc_pool2d {
    int k, stride, pad;
} rc_pool2d;

typedef struct rc_bn {
    float eps, momentum;
} rc_bn;

/* Memory of bn_train and bn_eval. (c) or (groups, cp) real each. */
typedef struct rc_bn_forward {
    const void *partial;               /* bn_train: the sums that the operation before took; bn_eval: unused */
    const void *center;                /* bn_train: (c), what these sums are taken around; NULL: 0 */
    const void *gamma, *beta;          /* (c); NULL: 1, 0 */
    void *running_mean, *running_var;  /* (c): bn_train updates them (NULL: it has none), bn_eval reads them */
    void *scale, *shift, *mean, *istd; /* (groups, cp): written */
} rc_bn_forward;

/* Memory of bn_backward. */
typedef struct rc_bn_backward {
    const void *partial;                   /* sums; NULL: eval without dgamma and dbeta */
    const void *dmean, *dvar, *batch_mean; /* (cp): gradients of the statistics, and the mean; NULL: they have none */
    void *dgamma, *dbeta;                  /* (c): written, summed over groups; NULL: not wanted */
    void *a, *b, *c;                       /* (groups, cp): written, the coefficients of the lazy gradient */
} rc_bn_backward;

/* What a forward operation does with its result.
 *   With gradients, `apply` is not set: the operation writes raw and, where `partial` is set, the per-channel sums of
 *     (raw - center) and of its square, cut by shape. The tensor's scale, shift, skip and act stay pending.
 *   Without gradients, `apply` is set: the operation writes the finished value act(conv * scale + shift + skip) to raw.
 *     It leaves the tensor as it is; the pass reads the result through another one that has nothing pending. */
typedef struct rc_epilogue {
    void *partial;      /* partial_bytes() of backend memory; NULL: no sums */
    const void *center; /* (c) real: running mean, which keeps the sums small; NULL: 0 */
    bool apply;
} rc_epilogue;

/* How a backward operation writes dL/dvalue of a layer. Where `partial` is set this is the last write to it, and the
 * operation also writes per-channel sums of dz and of dz * (raw - mean) of that layer, for bn_backward. */
typedef struct rc_back_epilogue {
    const rc_tensor *x; /* the forward tensor of that layer */
    void *partial;
    bool add;           /* add to what the gradient holds; otherwise overwrite */
    const void *addend; /* add to this instead; NULL: to what it holds. Only conv_backward_data with lanes takes it */
    const struct rc_fused_back *beside; /* a convolution of the same x whose gradient is added, too; NULL: none. Only
                                         * conv_backward_data takes it, where takes_beside says so */
} rc_back_epilogue;

/* ---- several layers at once -------------------------------------------------------------------------------------
 * A backend may run several layers of a net as one operation. rc_pass_create offers it all layers and asks for each
 * (fuse). Where the backend takes more than one, the pass calls fused_forward and fused_backward once in place of the
 * operations of each layer. */

enum { RC_MAX_FUSED = 16 /* layers at once */ };

/* A layer, as rc_pass_create offers it. Layers count from 0 in the order of the forward pass. */
typedef struct rc_fusible {
    bool plain; /* a convolution without bias, with normalisation; otherwise `conv` says nothing */
    rc_conv conv;
    rc_pool2d pool; /* of maximum pooling; k 0: it is something else */
    rc_act act;
    int in;                       /* the layer whose value it reads; negative: the input of the net */
    int skip;                     /* the layer whose value it adds; negative: none */
    int skip_stride, skip_offset; /* as in rc_skip */
    bool output;                  /* the caller of the pass reads its value */
} rc_fusible;

/* One of the layers, forward and back. */
typedef struct rc_fused {
    const rc_conv *conv;
    const void *weight;
    rc_tensor *y;
    rc_epilogue epilogue;
    rc_pool2d pool; /* as in rc_fusible: a maximum has nothing of the above but y */
} rc_fused;
typedef struct rc_fused_train { /* with statistics of the batch */
    rc_fused layer;             /* `norm` says what its epilogue would */
    const rc_bn *bn;
    rc_bn_forward norm;
} rc_fused_train;
typedef struct rc_fused_back {
    const rc_conv *conv; /* of a maximum: k 0 */
    const void *weight;
    const rc_grad *dy; /* g: of the last layer alone, whose memory the operation may use */
} rc_fused_back;
/* Where the gradients go. */
typedef struct rc_fused_gradients {
    void *dx;    /* of what the first layer reads */
    bool add;    /* add to what dx holds; otherwise overwrite */
    void *dskip; /* of what the first layer adds; NULL: nothing */
    bool add_skip;
} rc_fused_gradients;
/* The same with statistics of the batch. */
typedef struct rc_fused_train_back {
    rc_fused_back layer;
    rc_bn_backward norm; /* of the last layer it has been done */
    void *draw;          /* (n, h, w, cp) act: where dL/draw goes; of the last layer it may be the memory of g */
    void *dweight;       /* of a convolution before a maximum: written */
} rc_fused_train_back;
typedef struct rc_fused_train_gradients {
    void *dx;                  /* of what the first layer reads */
    rc_back_epilogue epilogue; /* of dx */
    void *dskip;               /* of what the first layer adds; NULL: nothing. It takes no sums */
    bool add_skip;
} rc_fused_train_gradients;
typedef struct rc_fused_weight {
    const rc_conv *conv;
    const rc_tensor *x;
    const rc_grad *dy;
    void *dweight;
} rc_fused_weight;

/* ---- descriptors of losses ---------------------------------------------------------------------------------- */

/* Which mean a cross entropy takes. */
typedef enum rc_reduction {
    RC_MEAN,         /* sum_b l_b / n; class weights, if given, multiply l_b (ABD, DGR) */
    RC_WEIGHTED_MEAN /* sum_b w_y l_b / sum_b w_y (head refinement) */
} rc_reduction;

/* Cross entropy of softmax(z[first .. first+count) / temperature) with label - first. The target of row b is
 *     q_k = (1 - smoothing) (share_b [k = label_b] + (1 - share_b) [k = partner_b]) + smoothing / count
 * where a class weight counts for the label that it belongs to: the parts become w_label share and
 * w_partner (1 - share), and their sum is the weight of the row. */
typedef struct rc_cross_entropy {
    int n, stride;     /* rows; elements between rows of the logits */
    int first, count;  /* class range */
    float temperature; /* no temperature^2 factor */
    rc_reduction reduction;
    float smoothing;        /* the part of a target that all classes of the range share */
    const int32_t *partner; /* (n) second labels, in backend memory; NULL: there are none, and shares are 1 */
    const void *share;      /* (n) real: what the first label counts */
} rc_cross_entropy;

/* Knowledge distillation: -mean_b sum_k softmax(t / T)_k log softmax(z / T)_k. The student's softmax covers
 * student_count classes from `first`; the teacher's covers teacher_count from teacher_first and is aligned with the
 * student's first classes; target 0 beyond. */
typedef struct rc_distillation {
    int n;
    int student_stride, first, student_count;
    int teacher_stride, teacher_first, teacher_count;
    float temperature;
    bool kl;        /* subtract the teacher's entropy, so that equal logits give 0; the gradient is the same */
    bool t_squared; /* multiply by T^2 */
} rc_distillation;

/* Statistics of one BN layer for the BN loss. */
typedef struct rc_bn_stat {
    int c;
    const void *mean, *var;                 /* (cp) real: batch mean and biased variance of the BN input */
    const void *running_mean, *running_var; /* (c) real */
    void *dmean, *dvar;                     /* (cp) real: written (overwritten) by the loss */
} rc_bn_stat;

#define RC_BN_LOSS_EPSILON 1e-8 /* e below */
typedef enum rc_bn_loss_form {
    RC_BN_KL,     /* mean over layers of 1/2 mean_c [ log(v/(V+e)) + (V + (M-m)^2 + e)/v - 1 ], v = var + e */
    RC_BN_KL_SUM, /* the same summed over layers: the printed formula */
    RC_BN_L2      /* sum over layers of |M - m|_2 + |V - v|_2, v = var + e: DeepInversion */
} rc_bn_loss_form;

/* Feature consistency of dreams (DCE). State is kept from step to step in backend memory. */
typedef struct rc_dce {
    int n, d, classes;
    float momentum;           /* moving average; 0: batch statistics only */
    bool paper;               /* sum of norms over all classes, divisor n, batch statistics */
    const void *class_mean;   /* (classes, d) real; a row whose first entry is NaN is skipped */
    const void *covariance;   /* (d, d) real, symmetric; so is the running one */
    void *running_mean;       /* (classes, d) real */
    void *running_covariance; /* (d, d) real */
    int32_t *seen;            /* (classes) */
    void *workspace;          /* dce_workspace() bytes */
} rc_dce;

/* Pixels of a data set and how a batch is made of them: random colours, value = (byte / 255 - mean) / std, zero
 * padding, random crop, zoom into a part of that, flip. */
typedef struct rc_augment {
    int h, w, c; /* of the stored images (count, h, w, c) bytes and of the result */
    int pad;     /* crop offset is uniform in [0, 2 pad] in both directions; 0: no crop */
    bool flip;
    uint32_t zoom; /* in 2^-32: the part of a side that zoom cuts off at most; 0: no zoom */
    float colour; /* factors of brightness, contrast and saturation are uniform in [1 - colour, 1 + colour]; 0: as is */
    float mean[4], std[4];
    uint32_t stream; /* random stream of crop and flip; zoom and colour have stream | RC_STREAM_STRONG */
} rc_augment;

/* Bytes of a batch that are changed before anything else: one random operation of random strength an image
 * (TrivialAugment; backend/vary.h has the list), and turns by 90, 180 or 270 degrees, of which each makes a class of
 * its own: `classes` + (turns - 1) * (classes - n_old) + label - n_old. */
typedef struct rc_vary {
    int h, w, c;         /* of images; square where they are turned */
    bool trivial, turns; /* turns: of every other image */
    int n_old, classes;  /* labels lie between them */
    uint32_t stream;
} rc_vary;

/* What happens to images of a batch once they are normalised: a square of each becomes 0, which is the mean; then two
 * that stand side by side (2i and 2i + 1) are mixed, both with the same share. A last one without a neighbour stays. */
typedef struct rc_mix {
    int cutout;          /* side of the square in pixels; 0: none */
    float mixup, cutmix; /* a of the share's Beta(a, a): of all pixels, of a box that is swapped; 0: not that way. Where
                             both are set a coin decides for each pair */
    uint32_t stream;
} rc_mix;

/* How images are seen while an order of them is read: through random windows of that stream (base/rng.h). */
typedef struct rc_image_view {
    uint64_t seed, stream;
} rc_image_view;

/* Images that are made when they are about to be read. A reader has one caller. */
typedef struct rc_image_supply {
    /* bytes: of an image; most: that are fetched at once. */
    rc_status (*open)(const void *owner, size_t bytes, int most, void **reader);
    void (*close)(void *reader);
    void *(*ring)(const void *reader, size_t *bytes); /* the memory that fetched images lie in */
    /* The images with these numbers will be fetched, each of `parts` processes taking every parts-th piece; a negative
     * one is none. view NULL: as they are. */
    rc_status (*expect)(void *reader, const int32_t *number, size_t count, const rc_image_view *view, int parts);
    /* n of them, from place `first` on: image b is number (*place)[b] of those at *from, until the next call. Both are
     * there even if it fails. */
    rc_status (*fetch)(void *reader, size_t first, int n, const uint8_t **from, const int32_t **place);
    rc_status (*read)(const void *owner, int32_t number, uint8_t *to); /* one, as it is */
} rc_image_supply;

/* Images of a data set that stay where they are. Image i of `count` lies at from + index[i] * bytes; index NULL: i. */
typedef struct rc_lent_images {
    const uint8_t *from;
    const int32_t *index;
    int count;
    size_t bytes; /* of one */
    /* Not NULL: they lie in a file that is mapped. To be called before image index[i] is read for the first time; what
     * it fails with is a failure of the backend. Any thread may call it. */
    rc_status (*check)(const void *owner, int32_t index);
    /* Not NULL: `supply` makes them, at most `most` at once, where `from` is NULL, because they lie nowhere, or where
     * a backend can neither read them at `from` nor has room for a copy of all. */
    const rc_image_supply *supply;
    int most;
    const void *owner;
} rc_lent_images;

/* No stream of crop and flip has this bit: settings of zoom and colour never move them. */
enum { RC_STREAM_STRONG = 0x10000 };

typedef struct rc_sgd {
    float momentum, weight_decay;
} rc_sgd;

typedef struct rc_adam {
    float beta1, beta2, eps;
} rc_adam;

/* Lanes by name (see fork). Their purposes are listed here, so that no two uses share a lane by chance. */
enum { RC_MAIN_LANE, RC_WEIGHT_LANE /* weight gradients of a pass */, RC_SIDE_LANE /* teacher, some losses */ };

/* ---- the table ---------------------------------------------------------------------------------------------- */

/* What a backend tells of itself when it is opened. Callers decide by this and never by the name: script/lint stops
 * code above backend/ that compares a name of a backend. */
typedef struct rc_backend_about {
    const char *name;      /* for messages and files, and what rc_backend_open takes */
    const char *isa;       /* instruction set of the kernels in use */
    const char *device;    /* name of the device; NULL: this machine's processor */
    const char *precision; /* of activations: "bf16", "fp32" or "fp64" */
    const char *judge;     /* name of the backend that the selftest compares large cases with */
    int threads;           /* that compute */
    int runs_at_once;      /* training runs that share the threads or the device best, 1 or more */
    bool takes_threads;    /* the caller of rc_backend_open chooses `threads` */
    bool device_memory;    /* alloc takes memory of a device, which rc_bytes_allocated does not count */
    bool device_shared;    /* all backends that are open at once run on one device and slow each other down */
    bool asynchronous;     /* the device runs behind the host: only the time of many operations can be taken */
    bool more_checks;      /* the selftest compares large cases and whole steps, too: kernels depend on sizes, steps on
                            * lanes and on what is captured */
    bool reaches_peak;     /* convolutions come near the peak of rc_backend_measure, small ones too */
    bool fuses;            /* the instruction set multiplies and adds in one rounding */
    bool survives_fork;    /* a child process may go on with it */
} rc_backend_about;

/* What the device can do at best. 0: not known. */
typedef struct rc_peak {
    double gflops; /* multiply-adds from registers, two operations each */
    double gbytes; /* copying memory, bytes read and written per second */
    bool fused;    /* the kernels multiply and add in one rounding */
} rc_peak;

struct rc_workers;

struct rc_backend {
    rc_backend_about about;
    int channel_multiple; /* cp is a multiple of this */
    size_t act_bytes, real_bytes;
    bool sizing;       /* it takes no memory and runs no step, it only counts: see rc_backend_open_sizing */
    int lanes;         /* how many run beside each other; 0 or 1: fork and join do nothing */
    size_t busy_bytes; /* an operation on a larger map keeps the whole device busy, and gains nothing beside another */
    /* rc_backend_measure() and rc_backend_measure_now(). NULL: not known. */
    rc_peak (*measure)(rc_backend *);
    double (*measure_now)(rc_backend *, double seconds);
    /* Several layers at once. These seven may be NULL: the backend runs every layer alone.
     * fuse: how many layers, beginning with `first`, the backend runs at once for n images in one group, without
     *   statistics of the batch; 0 or 1: the first runs alone. It takes layers such that each reads the one before it,
     *   only the first adds a value from elsewhere, and only the last has a value that others read.
     * fused_forward: what conv_forward does for each layer, or max_pool_forward, x being what the first reads. Without
     *   gradients (apply) it writes raw of the last layer alone. With gradients it writes raw and sums of all layers,
     *   and fills the value, where that has memory, of the last layer and of sums with an activation, whose slope raw
     *   does not tell.
     * fused_backward: from the gradient of the last layer's value to those of what the first reads and adds.
     * fuse_train, fused_train: for n images in so many groups: conv_forward and bn_train of each layer. It fills the
     *   values, where they have memory, of all layers but the last.
     * fused_train_backward: from the gradient of the last layer's value to those of what the first reads and adds,
     *   with bn_backward of all layers but the last, for layers that fuse_train has taken. dL/draw of all is left for
     *   fused_weight. NULL: back, every layer runs alone.
     *   A convolution of the net's input and the maximum behind it may be taken, too. Then raw of the first has no
     *   memory, and fused_train writes raw of the second, and its taps. Both are given the same memory for the sums of
     *   the first, and what forward leaves there stays. Back, it is the gradient of the weights that is written, and
     *   none of what the first reads, which the epilogue's x is.
     * fused_weight: conv_backward_weight of each of several layers of one shape. */
    int (*fuse)(rc_backend *, const rc_fusible *layers, int count, int first, int n, bool gradients);
    void (*fused_forward)(rc_backend *, rc_tensor *x, const rc_fused *layers, int count);
    void (*fused_backward)(rc_backend *, const rc_fused_back *layers, int count, const rc_fused_gradients *);
    int (*fuse_train)(rc_backend *, const rc_fusible *layers, int count, int first, int n, int groups);
    void (*fused_train)(rc_backend *, rc_tensor *x, const rc_fused_train *layers, int count);
    void (*fused_train_backward)(rc_backend *, const rc_fused_train_back *layers, int count,
                                 const rc_fused_train_gradients *);
    void (*fused_weight)(rc_backend *, const rc_fused_weight *layers, int count);
    /* May be NULL: never. Do both gradients of that convolution on n images read dL/draw from a map of it? A pass then
     * has copy_backward write that map once, and gives both a gradient with nothing pending. */
    bool (*reads_finished_gradient)(rc_backend *, const rc_conv *, int n);
    /* May be NULL: never. Do conv_forward and conv_backward_weight of that convolution on n images read x from a map of
     * its value, which each of them makes where the tensor has no memory for it? A pass that trains gives it some. */
    bool (*reads_finished_value)(rc_backend *, const rc_conv *, int n);
    /* May be NULL: never. Does conv_backward_data of the first convolution on n images or fewer take the second, of the
     * same input, beside it? */
    bool (*takes_beside)(rc_backend *, const rc_conv *, const rc_conv *beside, int n);
    bool keeps_taps; /* of maximum pooling: give its result memory for them */
    /* Several processes (workers.h). join_workers may be NULL: the backend computes in one process alone. From that
     * call on this process makes part `part` of `parts` of every batch. A pass and a loss are given the samples of
     * this part; what depends on the whole batch is that of the whole batch: statistics of normalisation and their
     * gradients, values and gradients of losses, class statistics, counts of labels. Every process then calls the same
     * operations in the same order. Until that call, parts is 0. */
    rc_status (*join_workers)(rc_backend *, struct rc_workers *);
    /* NULL, or what connects the devices of the processes. All of them call it before steps (rc_agree), each time. */
    rc_status (*link_workers)(rc_backend *);
    struct rc_workers *workers;
    int part, parts;
    size_t bucket_bytes; /* a pass sums gradients as soon as it has so many bytes of them; 0: when it has all */

    /* Every backend fills all entries from here on. */
    /* Memory and control. Not for use inside a step, except zero and copy. */
    void (*destroy)(rc_backend *);
    rc_status (*alloc)(rc_backend *, size_t bytes, void **memory); /* zeroed, 64-byte aligned */
    /* Memory for the images of a data set: a handle that only the two below, augment, vary and release take. Images
     * that do not fit on a device beside all other memory, allocated before or after, lie in host memory, which the
     * device reads. */
    rc_status (*alloc_images)(rc_backend *, size_t bytes, void **images);
    void (*write_images)(rc_backend *, void *images, size_t offset, const uint8_t *from, size_t bytes);
    void (*read_images)(rc_backend *, uint8_t *to, const void *images, size_t offset, size_t bytes);
    /* lend_images: memory for the images that are lent, and behind them for `more` bytes that write_images fills. A
     * backend whose memory is the host's reads the lent ones where they are; any other copies them, now or, where they
     * are supplied, batch by batch. They stay as they are until the handle is released. expect_images: augment or vary
     * will read the `count` images of `order` (backend memory) from its beginning, so that whoever has them in a file
     * can read ahead. Of images that are supplied they read no order that was not expected. view: how it will see
     * them, where they can be seen in other ways than as they are; NULL: as they are. Several orders may be expected at
     * a time; count 0: `order` will not be read any more. */
    rc_status (*lend_images)(rc_backend *, const rc_lent_images *, size_t more, void **images);
    rc_status (*expect_images)(rc_backend *, const void *images, const int32_t *order, size_t count,
                               const rc_image_view *);
    void (*release)(rc_backend *, void *memory);
    void (*write_bytes)(rc_backend *, void *to, const void *from, size_t bytes); /* host -> backend memory */
    void (*read_bytes)(rc_backend *, void *to, const void *from, size_t bytes);  /* backend memory -> host; waits */
    void (*write_real)(rc_backend *, void *to, const float *from, size_t count); /* converts */
    void (*read_real)(rc_backend *, float *to, const void *from, size_t count);
    void (*write_real64)(rc_backend *, void *to, const double *from, size_t count);
    void (*read_real64)(rc_backend *, double *to, const void *from, size_t count);
    void (*write_act)(rc_backend *, rc_tensor *to, const double *from); /* from: (n, h, w, c), unpadded */
    void (*read_act)(rc_backend *, double *to, const rc_tensor *shape, const void *from); /* any (n, h, w, cp) memory */
    void (*zero)(rc_backend *, void *memory, size_t bytes);
    void (*copy)(rc_backend *, void *to, const void *from, size_t bytes);
    rc_status (*sync)(rc_backend *);
    rc_status (*repeat)(rc_backend *, void (*step)(void *context), void *context, int times);
    /* Lanes. fork: the backend enqueues what follows on that lane, after all that lane 0 holds so far. fork(0) goes
     * back to lane 0, the main one, which does not wait. join goes back to lane 0, which waits for all that the lane
     * holds. */
    void (*fork)(rc_backend *, int lane);
    void (*join)(rc_backend *, int lane);
    /* Sums over processes, in their order; nothing where there is one. sum_workers begins one, after all that the
     * current lane holds so far, beside what it is given next. wait_workers lets the current lane wait for all that
     * were begun; until then the numbers belong to their sums. */
    void (*sum_workers)(rc_backend *, void *real, size_t count);
    void (*wait_workers)(rc_backend *);
    void (*step_begin)(rc_backend *, rc_step *); /* advances step and batch */

    /* Workspace for the largest call that will come: packed weights, bands, sums of each thread. */
    rc_status (*reserve_conv)(rc_backend *, const rc_conv *, int n);
    rc_status (*reserve_depthwise)(rc_backend *, const rc_conv *, int n);
    rc_status (*reserve_linear)(rc_backend *, const rc_linear *, int n);
    rc_status (*reserve_dense)(rc_backend *, int n, int in, int out);
    rc_status (*reserve_losses)(rc_backend *, int n, int classes, int h, int w, int c); /* images (n, h, w, c) */
    size_t (*partial_bytes)(rc_backend *, int n, int h, int w, int c); /* for one tensor of that shape */

    /* Convolution. x is lazy; bias (c_out) real or NULL. */
    void (*conv_forward)(rc_backend *, const rc_conv *, rc_tensor *x, const void *weight, const void *bias,
                         rc_tensor *y, const rc_epilogue *);
    /* dx (n, h, w, cp of c_in) act; the epilogue's x is the forward tensor of the layer that dx belongs to. */
    void (*conv_backward_data)(rc_backend *, const rc_conv *, const rc_grad *dy, const void *weight, void *dx,
                               const rc_back_epilogue *);
    /* dbias NULL: not wanted. */
    void (*conv_backward_weight)(rc_backend *, const rc_conv *, const rc_tensor *x, const rc_grad *dy, void *dweight,
                                 void *dbias);

    /* Depthwise convolution: channel c of y is the convolution of channel c of x with weight[c]. The same three, with
     * the workspace of reserve_depthwise. */
    void (*depthwise_forward)(rc_backend *, const rc_conv *, rc_tensor *x, const void *weight, const void *bias,
                              rc_tensor *y, const rc_epilogue *);
    void (*depthwise_backward_data)(rc_backend *, const rc_conv *, const rc_grad *dy, const void *weight, void *dx,
                                    const rc_back_epilogue *);
    void (*depthwise_backward_weight)(rc_backend *, const rc_conv *, const rc_tensor *x, const rc_grad *dy,
                                      void *dweight, void *dbias);

    /* Linear layer inside a net; the same three. dx (n, 1, 1, cp of c_in) act. */
    void (*linear_forward)(rc_backend *, const rc_linear *, rc_tensor *x, const void *weight, const void *bias,
                           rc_tensor *y, const rc_epilogue *);
    void (*linear_backward_data)(rc_backend *, const rc_linear *, const rc_grad *dy, const void *weight, void *dx,
                                 const rc_back_epilogue *);
    void (*linear_backward_weight)(rc_backend *, const rc_linear *, const rc_tensor *x, const rc_grad *dy,
                                   void *dweight, void *dbias);

    /* Batch normalisation.
     * bn_train: sums -> batch mean and variance per group -> scale, shift, mean, istd.
     *   It updates the running statistics for each group in order, with the unbiased variance. center may be
     *   running_mean itself: it is read before the update.
     * bn_eval: running statistics -> scale, shift, mean, istd, equal for every group.
     * bn_statistics: sums -> batch mean and biased variance of group 0 (for the BN loss); changes nothing else. */
    void (*bn_train)(rc_backend *, const rc_bn *, const rc_tensor *y, const rc_bn_forward *);
    void (*bn_eval)(rc_backend *, const rc_bn *, const rc_tensor *y, const rc_bn_forward *);
    void (*bn_statistics)(rc_backend *, const rc_tensor *y, const void *partial, const void *center, void *mean,
                          void *var);
    /* Sums of dz and of dz * (raw - mean), for a g whose last writer did not take them. */
    void (*bn_backward_sums)(rc_backend *, const rc_grad *dy, void *partial);
    /* Sums -> dgamma, dbeta and the coefficients a, b, c of the lazy gradient. train: y was normalised with statistics
     * of the batch; otherwise a = scale. dmean and dvar add dmean/m + 2 dvar (raw - batch_mean)/m over the m = n h w
     * samples; a pass that uses them has one group. */
    void (*bn_backward)(rc_backend *, const rc_tensor *y, bool train, const rc_bn_backward *);
    /* Normalisation as a layer of its own: y.raw = value of x, with sums; and back: dx (+)= dL/draw. dx may be the
     * memory of dy itself. */
    void (*copy_forward)(rc_backend *, rc_tensor *x, rc_tensor *y, const rc_epilogue *);
    void (*copy_backward)(rc_backend *, const rc_grad *dy, void *dx, const rc_back_epilogue *);

    /* Fills x->value. */
    void (*materialise)(rc_backend *, rc_tensor *x);
    /* Gradient of the skip of y: dskip (+)= dz, through stride and channel offset. dskip has the shape of the skip;
     * the epilogue's x is the forward tensor of the skipped-from layer. */
    void (*skip_backward)(rc_backend *, const rc_grad *dy, void *dskip, const rc_back_epilogue *);

    /* Pooling. Maximum: the first maximum in row order receives the gradient. If y has memory for taps, backward reads
     * there what forward has kept, and both are given the same x. Average: over the whole map, features (n, c) real
     * without padding. */
    void (*max_pool_forward)(rc_backend *, const rc_pool2d *, rc_tensor *x, rc_tensor *y);
    void (*max_pool_backward)(rc_backend *, const rc_pool2d *, const rc_tensor *x, const rc_grad *dy, void *dx,
                              const rc_back_epilogue *);
    void (*average_pool_forward)(rc_backend *, rc_tensor *x, void *features);
    void (*average_pool_backward)(rc_backend *, const void *dfeatures, void *dx, const rc_back_epilogue *);

    /* Dense layers on reals (heads, projections): y (n, out) = x (n, in) w^T (out, in) + b. Row strides in elements. */
    void (*dense_forward)(rc_backend *, int n, int in, int out, const void *x, const void *weight, const void *bias,
                          void *y, int y_stride);
    void (*dense_backward_data)(rc_backend *, int n, int in, int out, const void *dy, int dy_stride, const void *weight,
                                void *dx, bool add);
    void (*dense_backward_weight)(rc_backend *, int n, int in, int out, const void *x, const void *dy, int dy_stride,
                                  void *dweight, void *dbias, bool add);

    /* Losses. `weight` points to one float in backend memory (a field of rc_step), `value` to one real.
     * nn/losses.h is the index from the papers' equations to these. */
    void (*loss_cross_entropy)(rc_backend *, const rc_cross_entropy *, const void *logits, const int32_t *labels,
                               const void *class_weight, const float *weight, void *value, void *dlogits);
    void (*loss_decoupled)(rc_backend *, int n, int stride, int n_old, int count, const void *logits,
                           const int32_t *labels, const float *inter_weight, const float *intra_weight,
                           void *inter_value, void *intra_value, void *dlogits);
    void (*loss_hkd)(rc_backend *, int n, int n_old, const void *logits, int stride, const void *teacher,
                     int teacher_stride, const float *weight, void *value, void *dlogits);
    void (*loss_kd)(rc_backend *, const rc_distillation *, const void *logits, const void *teacher, const float *weight,
                    void *value, void *dlogits);
    void (*loss_feature)(rc_backend *, int n, int d, int n_old, const void *features, const void *teacher_features,
                         const void *head, void *workspace /* (n, n_old) real */, const float *weight, void *value,
                         void *dfeatures);
    void (*loss_rkd)(rc_backend *, int n, int d, const void *student, const void *teacher, void *workspace,
                     const float *weight, void *value, void *dstudent, void *dteacher);
    size_t (*rkd_workspace)(rc_backend *, int n, int d);
    void (*loss_war)(rc_backend *, int classes, int n_old, int d, bool paper, const void *head, const float *weight,
                     void *value, void *dhead);
    void (*loss_dce)(rc_backend *, const rc_dce *, const void *features, const int32_t *labels, const float *weight,
                     void *value, void *dfeatures);
    size_t (*dce_workspace)(rc_backend *, int n, int d, int classes);
    /* dmean and dvar of every layer are overwritten with weight * gradient. */
    void (*loss_bn)(rc_backend *, rc_bn_loss_form, const rc_bn_stat *layers, int count, const float *weight,
                    void *value);
    void (*loss_diversity)(rc_backend *, int n, int classes, int stride, const void *logits, float epsilon,
                           const float *weight, void *value, void *dlogits);
    /* Image priors on finished images x: the value is stored, or nothing is pending. The same holds for the tensors
     * of the losses below. dx (n, h, w, cp) act is added to. Smoothing reflects at the border, so images must be at
     * least 3 x 3. */
    void (*loss_smoothing)(rc_backend *, const rc_tensor *x, const float *weight, void *value, void *dx);
    void (*loss_total_variation)(rc_backend *, const rc_tensor *x, const float *weight, void *value, void *dx);
    void (*loss_image_norm)(rc_backend *, const rc_tensor *x, const float *weight, void *value, void *dx);
    /* mean_b ( sample_weight_b * mean over pixels of BCE(x, target) ); x in (0, 1), stored, but read as it was before
     * rounding to act, from raw: near 1 all of the slope is in its last bits. So it must be the tensor of the layer
     * that made it, not one over its value. sample_weight (n) real or NULL. */
    void (*loss_reconstruction)(rc_backend *, const rc_tensor *x, const rc_tensor *target, const void *sample_weight,
                                const float *weight, void *value, void *dx);
    /* scale * mean_b ( -1/2 sum (1 + logvar - mean^2 - exp(logvar)) ), mean and logvar (n, 1, 1, cp) act. */
    void (*loss_latent)(rc_backend *, const rc_tensor *mean, const rc_tensor *log_variance, float scale,
                        const float *weight, void *value, void *dmean, void *dlog_variance);
    /* z = mean + exp(logvar / 2) * noise, all (n, 1, 1, cp) act; and back (added). */
    void (*latent_sample)(rc_backend *, const rc_tensor *mean, const rc_tensor *log_variance, const void *noise,
                          rc_tensor *z);
    void (*latent_sample_backward)(rc_backend *, const rc_tensor *mean, const rc_tensor *log_variance,
                                   const void *noise, const void *dz, void *dmean, void *dlog_variance);

    /* Labels and statistics. */
    void (*softmax)(rc_backend *, int n, int classes, int stride, const void *logits,
                    void *probabilities /* (n, classes) real */);
    void (*argmax)(rc_backend *, int n, int classes, int stride, const void *logits, int32_t *labels);
    void (*count_labels)(rc_backend *, int n, const int32_t *labels, int classes, int32_t *count); /* adds */
    void (*balance_weights)(rc_backend *, int classes, const int32_t *count, void *class_weight);
    /* Adds n features to per-class counts (classes) int32, to sums (classes, d) and to the sum of outer products (d, d)
     * of (feature - center), double each; of the outer products the upper triangle (row <= column) is what counts;
     * center (d) real or NULL: 0. class_statistics_finish: class means (classes, d) real, NaN for a class with no
     * sample, and the tied covariance (d, d) real with divisor total - unbiased. */
    void (*class_statistics)(rc_backend *, int n, int d, int classes, const void *features, const int32_t *labels,
                             const void *center, int32_t *count, double *sum, double *outer);
    void (*class_statistics_finish)(rc_backend *, int d, int classes, const void *center, const int32_t *count,
                                    const double *sum, const double *outer, bool unbiased, void *class_mean,
                                    void *covariance);

    /* Data and random numbers. Draw e of a step is element (step->step << 32) + e of the Philox stream
     * (step->seed, step->task << 32 | stream). augment: sample b draws e = 4b (crop row), 4b + 1 (crop column), both
     * below 2 pad + 1, and 4b + 2 (flip if the top bit is set). random_normal: e counts (n, h, w, c), unpadded.
     * `order` is the order of the epoch: sample b of the batch is image order[step->batch * n + b]. Where processes
     * share a batch (step->others), n and b in these formulas are those of the whole batch: the first sample of this
     * process is b = step->part * (its n).
     *
     * zoom draws e = 8b (cut, at most zoom), 8b + 1 (top, at most cut) and 8b + 2 (left, at most cut), all integers in
     * 2^-32 of a side. Row y of the result lies at h top + y (2^32 - cut) - floor(cut / 2) of the crop, in 2^-32 of a
     * pixel, moved into the crop where it lies outside, and its value is linear between the two rows there; columns
     * likewise. colour draws e = 8b + 4 (brightness b), 8b + 5 (contrast k) and 8b + 6 (saturation s; 1 where there are
     * not three channels), each 1 + colour (2u - 1) with u uniform in [0, 1):
     *     byte' = k b (s byte + (1 - s) grey) + 127.5 (1 - k), clipped to 0 and 255
     *     grey = 0.299 red + 0.587 green + 0.114 blue */
    void (*augment)(rc_backend *, const rc_augment *, const uint8_t *images, const int32_t *order, int n,
                    const rc_step *, rc_tensor *out);
    /* out (n, h, w, c) bytes, the images that augment would read. Sample b draws e = 4b (operation, of 14), 4b + 1
     * (strength, of 31), 4b + 2 (top bit: the other sign), 4b + 3 (top bit: turned; the other bits: how, of 3).
     * turned (n): the labels of these images as they stand now; NULL: nothing is turned. */
    void (*vary)(rc_backend *, const rc_vary *, const uint8_t *images, const int32_t *order, int n, const rc_step *,
                 const int32_t *labels /* of all images */, uint8_t *out, int32_t *turned);
    /* Changes finished images in place. partner (n): the label of the neighbour; share (n) real: what an image's own
     * label counts; both NULL where nothing is mixed. Sample b draws e = 8b (centre row of its square) and 8b + 1
     * (centre column). A pair draws what its first sample b has: e = 8b + 2 (top bit: box), 8b + 3 (u), 8b + 4 (v, and
     * in the lowest bit the sign s), 8b + 5 and 8b + 6 (centre row and column of the box). With u = (bits + 1/2) 2^-32,
     * and v likewise,
     *     lambda = 1/2 + s / (2 sqrt(1 + 1 / ((u^(-1/a) - 1) cos^2(2 pi v))))        which is Beta(a, a) (Devroye)
     * mixup: x_b = lambda x_b + (1 - lambda) x_c, share = lambda. cutmix: a box of floor(h r) by floor(w r) pixels,
     * r = sqrt(1 - lambda), around its centre and clipped at the border, is swapped; share = the part outside it. */
    void (*mix)(rc_backend *, const rc_mix *, const int32_t *labels, const rc_step *, rc_tensor *images,
                int32_t *partner, void *share);
    void (*random_normal)(rc_backend *, uint32_t stream, const rc_step *, rc_tensor *out); /* fills (n, h, w, c) */
    void (*gather_labels)(rc_backend *, const int32_t *labels, const int32_t *order, int n, const rc_step *,
                          int32_t *out);
    /* y (n, h, w, cp) act = finished images x, all shifted down and right by the same number of pixels; pixels that
     * leave on one side come in on the other. Draws e = 0 (rows) and 1 (columns), both uniform in [-range, range].
     * back: shifts the other way, which undoes it and is its gradient. */
    void (*roll)(rc_backend *, uint32_t stream, int range, bool back, const rc_step *, const rc_tensor *x, void *y);

    /* Optimisers over `count` contiguous reals. The caller leaves out frozen parameters. */
    void (*sgd)(rc_backend *, const rc_sgd *, const rc_step *, size_t count, void *param, const void *grad,
                void *momentum);
    void (*adam)(rc_backend *, const rc_adam *, const rc_step *, size_t count, void *param, const void *grad,
                 void *first, void *second);
};

/* text: NAME, NAME:PRECISION or NAME:PRECISION:BYTES. NAME is one of rc_backend_name_at, or "reference64" for tests.
 * PRECISION is "bf16" or "fp32"; where it is empty the backend takes its own: bf16 on "cuda", fp32 on the CPU, which
 * has no other. BYTES is the device memory to take at most, on "cuda" alone. The module of "cuda" is opened now (see
 * module.h). threads: 0 takes all cores. The CPU backend chooses the widest instruction set that the machine and
 * RECOLLECT_ISA allow. `reference` is plain C in float, `reference64` the same source in double. One thread at a time
 * uses a backend; several may be open at once, on one GPU too, each with a thread of its own. */
rc_status rc_backend_open(const char *text, int threads, const rc_log *log, rc_backend **backend);
/* The same with the caller's memory: all host memory that a CPU backend allocates, for itself and for callers of
 * alloc, comes from `allocator` (which is copied; NULL: the heap), on the calling thread. */
rc_status rc_backend_open_with(const char *text, int threads, const rc_log *log, const rc_allocator *allocator,
                               rc_backend **backend);
void rc_backend_close(rc_backend *backend);

/* The names that a user can choose from; NULL when there are no more. */
const char *rc_backend_name_at(int index);

/* Allocates a block of backend memory, from which `carve` takes what `owner` needs: it calls carve twice, first to
 * measure, then for the addresses. *bytes, if given, grows by the size of the block. The caller releases *memory,
 * also after a failure (when it is NULL or a block). */
rc_status rc_backend_carve(rc_backend *backend, const char *name, void (*carve)(void *owner, rc_arena *arena),
                           void *owner, void **memory, size_t *bytes);

/* Measures the peak on all threads of the backend; takes about a second. */
rc_peak rc_backend_measure(rc_backend *backend);
/* How many of these multiply-adds the threads do in the next `seconds`, in GFLOP/s. 0: not known. */
double rc_backend_measure_now(rc_backend *backend, double seconds);

/* Between steps, where several processes compute: all go on with the first one's number. RC_CANCELLED: it is 0, which
 * means that the first has left what it was doing. */
rc_status rc_agree(rc_backend *backend, uint32_t *number);

/* A backend that takes no memory and runs no step: what is built on it adds up what it would take on `like`, a CPU
 * backend. Models keep no weights on it. NULL for a backend with device_memory, which nobody counts beforehand. */
rc_status rc_backend_open_sizing(rc_backend *like, rc_backend **sizing);
/* The most bytes that were held on it at a time, beyond what `like` had; SIZE_MAX: more than can be counted. */
size_t rc_backend_most_bytes(rc_backend *sizing);
/* On a sizing backend: counts host memory that building would take for a moment. The caller then skips the work
 * itself. */
rc_status rc_backend_count_scratch(rc_backend *sizing, size_t bytes);

static inline int rc_padded(const rc_backend *be, int c)
{
    return (c + be->channel_multiple - 1) / be->channel_multiple * be->channel_multiple;
}

static inline size_t rc_act_count(const rc_backend *be, int n, int h, int w, int c)
{
    return (size_t)n * (size_t)h * (size_t)w * (size_t)rc_padded(be, c);
}

/* The samples of a batch that this process makes, and which step says so. */
static inline int rc_part_of(const rc_backend *be, int batch)
{
    return be->parts > 1 ? batch / be->parts : batch;
}

static inline void rc_step_take_part(const rc_backend *be, rc_step *step)
{
    step->part = (uint32_t)be->part;
    step->others = be->parts > 1 ? (uint32_t)be->parts - 1 : 0;
}

/* Address of element `index` of an array of reals, or of acts. */
static inline void *rc_real_at(const rc_backend *be, const void *base, size_t index)
{
    return (char *)rc_without_const(base) + index * be->real_bytes;
}

static inline void *rc_act_at(const rc_backend *be, const void *base, size_t index)
{
    return (char *)rc_without_const(base) + index * be->act_bytes;
}

#endif
