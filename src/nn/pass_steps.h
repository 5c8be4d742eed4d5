/* Inside a pass: what pass_build.c makes and pass.c runs. No other file includes this.
 *
 * A pass is three lists of steps: `prepare` (running statistics -> scale, shift), `forward`, `backward`. A step is
 * one operation of the backend on one layer. rc_pass_create() decides everything that can be decided once: which step
 * stores a value, which overwrites and which adds, which takes the sums of a normalisation, and where lanes meet. */
#ifndef RC_NN_PASS_STEPS_H
#define RC_NN_PASS_STEPS_H

#include "nn/pass.h"

typedef enum rc_pass_op {
    RC_OP_BN_EVAL,          /* running statistics -> scale, shift, mean, istd */
    RC_OP_FORWARD,          /* the layer's operation; stores the value of its input if that has memory for it */
    RC_OP_FUSED,            /* the same for several layers at once */
    RC_OP_FUSED_TRAIN,      /* the same, with BN_TRAIN of each */
    RC_OP_MATERIALISE,      /* stores a value that no operation has read yet */
    RC_OP_BN_TRAIN,         /* sums -> batch statistics -> scale, shift, mean, istd; running statistics */
    RC_OP_BN_STATISTICS,    /* sums -> batch mean and variance */
    RC_OP_BN_SUMS,          /* sums of the gradient, where no operation took them as it finished the gradient */
    RC_OP_BN_BACKWARD,      /* sums -> coefficients of the lazy gradient, dgamma, dbeta */
    RC_OP_FINISH,           /* the gradient before the normalisation as a map, for the two below */
    RC_OP_WEIGHT,           /* gradient of weight and bias */
    RC_OP_ZERO_BIAS,        /* a bias before batch normalisation has no influence: its gradient is 0 */
    RC_OP_SKIP,             /* gradient of the skip */
    RC_OP_DATA,             /* gradient of the input */
    RC_OP_WEIGHT_AND_DATA,  /* both at once */
    RC_OP_FUSED_BACK,       /* gradient of what several layers at once have read */
    RC_OP_FUSED_TRAIN_BACK, /* the same with BN_BACKWARD of all but the last, and FINISH of each; or, of a maximum and
                             * the layer before it, BN_BACKWARD and WEIGHT of that */
    RC_OP_FUSED_WEIGHT,     /* WEIGHT of each */
    RC_OP_FORK,             /* what follows runs beside, on lane RC_WEIGHT_LANE */
    RC_OP_MAIN,             /* what follows is on the main lane again */
    RC_OP_JOIN,             /* the main lane waits for RC_WEIGHT_LANE */
    RC_OP_SUM_WORKERS,      /* a bucket of gradients of parameters that are finished goes to the other processes */
    RC_OP_WAIT_WORKERS      /* until all buckets are summed */
} rc_pass_op;

typedef struct rc_pass_step {
    rc_pass_op op;
    int layer;
    int target; /* SKIP, *DATA, FUSED_(TRAIN_)BACK: layer whose gradient is written, or RC_NET_INPUT */
    bool add;   /* the same: add to that gradient, otherwise overwrite */
    int addend; /* *DATA, FUSED_TRAIN_BACK: add to the gradient of this layer instead, RC_NO_LAYER: to its own */
    bool sums;  /* SKIP, *DATA, FUSED_TRAIN_BACK: this finishes the gradient, take the sums of its normalisation */
    int with;   /* DATA: the gradient of this layer, which reads the same, goes there in the same step; RC_NO_LAYER */
    int first;  /* FUSED_*: the first of the layers, `layer` being the last */
    bool add_skip; /* FUSED_(TRAIN_)BACK: add to the gradient of the first layer's skip, otherwise overwrite */
    size_t param;  /* SUM_WORKERS: the first parameter */
    size_t params; /* and how many */
} rc_pass_step;

/* One layer. Pointers are backend memory of the pass. */
typedef struct rc_pass_layer {
    rc_tensor y;        /* as operations see it */
    rc_tensor finished; /* nothing pending: over `raw` in EVAL, over `value` otherwise */
    rc_tensor kept;     /* y with memory for its value, for who reads it and for their weight gradients: gradients of y
                         * itself need no more than raw. value NULL: y is read */
    rc_grad dy;
    rc_grad draw;                      /* dL/draw, nothing pending; g NULL: WEIGHT and DATA read dy */
    void *scale, *shift, *mean, *istd; /* (groups, cp) real: what y.scale .. y.istd point to */
    void *a, *b, *c;                   /* (groups, cp) real: what dy.a .. dy.c point to */
    void *partial, *back_partial;      /* sums of the forward operation, of the gradient */
    void *features, *dfeatures;        /* AVERAGE_POOL: (n, c) real */
    void *batch_mean, *batch_var;      /* FROZEN: (cp) real */
    rc_bn_stat *stat;                  /* FROZEN: an element of rc_pass.stat, over the same memory */
    rc_bn bn;
    rc_conv conv;
    rc_linear linear;
} rc_pass_layer;

struct rc_pass {
    rc_backend *backend;
    const rc_net *net;
    rc_pass_settings settings;
    rc_pass_layer *layer; /* net->layers */
    rc_bn_stat *stat;     /* net->bn_layers; FROZEN */
    rc_pass_step *step;   /* prepare, forward, backward, one after the other */
    int prepare_end, forward_end, backward_end;
    rc_tensor *input; /* of the last forward call */
    void *input_gradient;
    void *block;   /* all backend memory that it holds */
    void *passing; /* what does not live all the time: behind the rest in that block, or in the lender's */
    size_t bytes, passing_bytes;
};

#endif
