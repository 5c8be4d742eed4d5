/* A net is data: an array of layers in topological order. Student and teacher are two models (weights) of one net
 * (shape); a pass is one net at one batch size in one mode, with its activations. One interpreter (pass.c) runs any
 * net forward and backward.
 *
 * Reading order: rc_layer, rc_net, the builders (nets.h), rc_model (model.h), rc_pass (pass.h).
 */
#ifndef RC_NN_NET_H
#define RC_NN_NET_H

#include "backend/backend.h"

typedef enum rc_layer_kind {
    RC_LAYER_CONV,      /* up, transposed convolution included */
    RC_LAYER_DEPTHWISE, /* every channel with a k x k window of its own: weights (c, 1, k, k) */
    RC_LAYER_LINEAR,    /* (1, 1, c_in) -> (h, w, c_out) */
    RC_LAYER_BN,        /* normalisation alone */
    RC_LAYER_MAX_POOL,
    RC_LAYER_AVERAGE_POOL /* over the whole map -> features, reals; an output, one per net */
} rc_layer_kind;

typedef enum rc_shortcut {
    RC_SHORTCUT_NONE,
    RC_SHORTCUT_IDENTITY,
    RC_SHORTCUT_PAD_END, /* every second pixel; the new channels after the old ones */
    RC_SHORTCUT_PAD_BOTH /* every second pixel; the old channels in the middle */
} rc_shortcut;

typedef enum rc_init {
    RC_INIT_DEFAULT,     /* U(-1/sqrt(fan_in), 1/sqrt(fan_in)), weights and biases */
    RC_INIT_KAIMING_OUT, /* N(0, 2 / (c_out k^2)) */
    RC_INIT_KAIMING_IN   /* N(0, 2 / (c_in k^2)) */
} rc_init;

enum { RC_NET_INPUT = -1, RC_NO_LAYER = -2, RC_NAME_MAX = 64, RC_MAX_LAYERS = 256 };

/* A layer computes value = act(bn(op(value of `in`)) + shortcut(value of `skip`)). */
typedef struct rc_layer {
    char name[RC_NAME_MAX];    /* "stage_1.blocks.0.conv_a": prefix of .weight, .bias */
    char bn_name[RC_NAME_MAX]; /* "stage_1.blocks.0.bn_a": prefix of .weight, .bias, .running_mean, .running_var */
    rc_layer_kind kind;
    int in; /* index of an earlier layer, or RC_NET_INPUT */
    rc_shortcut shortcut;
    int skip;               /* index of an earlier layer; without a shortcut it is ignored */
    int k, stride, pad, up; /* up: 1 or 2, 0 counts as 1 */
    /* CONV, DEPTHWISE: the result has ceil(size / stride) pixels, and the padding is TensorFlow's: of the
     * max((ceil(size / stride) - 1) stride + k - size, 0) pixels half, rounded down, lie before the first, and the rest
     * behind the last. `pad` becomes the former. */
    bool same;
    bool transposed;
    int c_out;        /* depthwise, BN and pooling: as many as come in */
    int map_h, map_w; /* LINEAR: shape of the map it writes; 0 counts as 1 */
    bool bias;
    rc_act act;
    struct {
        bool on, affine, zero_gamma; /* zero_gamma: gamma starts at 0 */
        float eps, momentum;
    } bn;
    rc_init init;
    bool output; /* the caller reads it: its value and gradient have memory of their own. The last layer is always an
                    output */

    /* Filled in by rc_net_add(), keep_value by rc_net_finish(). */
    int c_in, h_in, w_in, h, w;          /* input and output shape (c_out channels) */
    int skip_stride, skip_offset;        /* of the shortcut: pixels, channels */
    size_t weight, bias_at, gamma, beta; /* offsets into the parameters, in reals; SIZE_MAX: absent */
    size_t running_mean, running_var;    /* offsets into the running statistics; SIZE_MAX: absent */
    size_t params, weights;              /* how many parameters the layer has; those of `weight` alone */
    bool keep_value;                     /* has a skip or serves as one: the value is stored once */
} rc_layer;

typedef struct rc_net {
    char name[RC_NAME_MAX];
    int c, h, w; /* input */
    rc_layer layer[RC_MAX_LAYERS];
    int layers;
    size_t params, running; /* reals */
    int bn_layers;
} rc_net;

/* Building: rc_net_start, then rc_net_add for each layer, then rc_net_finish. rc_net_add returns the index of the
 * layer, RC_NO_LAYER after an error. Errors are sticky: the first one is kept, and rc_net_finish returns it with a
 * message that names the layer and the value. A net that failed has no layers. */
typedef struct rc_net_builder {
    rc_net *net;
    rc_status status;
    char message[RC_MESSAGE_SIZE];
} rc_net_builder;

rc_net_builder rc_net_start(rc_net *net, const char *name, int c, int h, int w);
int rc_net_add(rc_net_builder *builder, const rc_layer *layer);
rc_status rc_net_finish(rc_net_builder *builder);

/* Does anything follow the operation: normalisation, residual sum, activation? */
bool rc_layer_pending(const rc_layer *layer);

/* Does a normalisation with batch statistics cancel the bias? Not for a linear layer over a map, whose bias differs
 * from pixel to pixel. */
bool rc_layer_bias_cancels(const rc_layer *layer);

/* Elements of the bias, if there is one. */
size_t rc_layer_biases(const rc_layer *layer);

/* Multiply-adds of one image, forward. */
double rc_layer_macs(const rc_layer *layer);
double rc_net_macs(const rc_net *net);
/* A stage is a run of layers whose maps have one size; average pooling belongs to the one before it. Layers before the
 * last `stages` stages; 0: there are not more stages, or `stages` is 0. */
int rc_net_layers_before(const rc_net *net, int stages);
/* Parameters of the first layers. */
size_t rc_net_params_before(const rc_net *net, int layers);

/* Has it a window that moves over a map, and weights: CONV, DEPTHWISE? */
bool rc_layer_convolves(const rc_layer *layer);

/* Geometry as the backend's table wants it; of a layer that convolves. */
rc_conv rc_layer_conv(const rc_layer *layer);
rc_linear rc_layer_linear(const rc_layer *layer);
rc_pool2d rc_layer_pool(const rc_layer *layer); /* of any layer; k 0: it is no maximum */

/* A table: a line for each layer (what it is, where it reads, shape, parameters, multiply-adds and fp32 bytes of its
 * result for one image) and a line of totals. `line` gets one line at a time, without its newline. */
void rc_net_print(const rc_net *net, void (*line)(void *user, const char *text), void *user);

#endif
