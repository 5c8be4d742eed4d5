/* Inside a pass: what its builders share. pass_list.c writes the lists of steps, pass_lanes.c says which of them run
 * beside the others, pass_fuse.c asks the backend which layers it runs at once, and pass_build.c does the rest. */
#ifndef RC_NN_PASS_BUILD_H
#define RC_NN_PASS_BUILD_H

#include "nn/pass_plan.h"
#include "nn/pass_steps.h"

enum {
    RC_STEPS_PER_LAYER = 20, /* more than any layer has: prepare 1, forward 3, backward 13, and 2 at the end */
    RC_BUFFERS_PER_LAYER = 13,
    RC_BUFFERS_OF_TENSOR = 3, /* that an operation reads, at most */
    RC_BUFFERS_OF_GRADIENT = RC_BUFFERS_OF_TENSOR + 1,
    RC_BUFFERS_OF_WEIGHT = RC_BUFFERS_OF_GRADIENT + RC_BUFFERS_OF_TENSOR,
    RC_NO_BUFFER = -1
};

/* Numbers of the buffers of one layer in the plan. */
typedef struct rc_layer_buffers {
    int raw, value, normalisation, coefficients, partial, back_partial, gradient, features, dfeatures, statistics;
    int draw; /* the gradient before the normalisation; may be `gradient` */
    int taps;
    int kept; /* the value, where that is not `value`: see keep_values */
} rc_layer_buffers;

/* What is known of one gradient of a value while the list is written. */
typedef struct rc_gradient_state {
    bool needed;     /* it is wanted */
    bool written;    /* it has had its first writer */
    bool summed;     /* its sums have been taken */
    int writers;     /* steps that will still write it */
    int last_reader; /* the last layer that reads the value */
    int addend;      /* the first writer adds to the gradient of this layer; RC_NO_LAYER: it overwrites */
} rc_gradient_state;

typedef struct rc_pass_build {
    rc_pass *pass;
    rc_backend *backend;
    const rc_net *net;
    bool train, eval;
    rc_plan plan;
    rc_layer_buffers *buffers; /* net->layers */
    int input_gradient;        /* buffer */
    int steps;
    bool stored[RC_MAX_LAYERS];                    /* the value exists at this point of the forward list */
    int first_fused[RC_MAX_LAYERS];                /* of those that run at once and end with it */
    rc_gradient_state gradient[RC_MAX_LAYERS + 1]; /* of layer i at i + 1, of the net input at 0 */
    int sent;    /* the gradients of this layer and of all later ones are on their way */
    int waiting; /* the layer whose data gradient the next group writes; RC_NO_LAYER: none */
} rc_pass_build;

/* (n, h, w, cp) act. */
size_t rc_pass_map_bytes(const rc_pass_build *build, const rc_layer *layer);

/* The last of the layers that the backend runs at once, beginning with `first`; `first` itself: it runs alone. */
int rc_pass_last_fused(const rc_pass_build *build, int first);

/* One more step at the end of the list. */
rc_pass_step *rc_pass_emit(rc_pass_build *build, rc_pass_op op, int layer);

/* The buffers that the weight gradient of a layer reads, and how many there are. */
int rc_pass_weight_buffers(const rc_pass_build *build, int index, int buffers[RC_BUFFERS_OF_WEIGHT]);
/* They are in use until that step. */
void rc_pass_use_for_weight(rc_pass_build *build, int index, int step);

/* Before the buffers are placed: all steps, and when each buffer is in use. */
void rc_pass_list_steps(rc_pass_build *build);
/* What weight gradients read that run beside the other steps. */
void rc_pass_keep_for_weights(rc_pass_build *build);
/* After: the steps of the weight lane, and where the main lane must wait for it. `copy` has room for all steps. */
void rc_pass_list_lanes(rc_pass_build *build, rc_pass_step *copy);

#endif
