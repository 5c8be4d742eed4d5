/* A pass: one net at one batch size in one mode, with the memory of its activations, and the interpreter.
 *
 *   RC_PASS_TRAIN   batch statistics per group, running statistics updated; gradients of everything
 *   RC_PASS_FROZEN  running statistics, gradients flow to the input only, batch statistics of BN inputs are an output
 *                   and take gradients (inversion's classifier)
 *   RC_PASS_EVAL    running statistics, no gradients; every layer is finished by its epilogue and memory is reused
 *
 * In TRAIN the first layers may be frozen: they normalise with running statistics, which stay, and have no gradients.
 *
 * Gradients: the first writer overwrites, later ones add, decided when the pass is built. Backward passes put weight
 * gradients on lane 1 (see fork in backend.h) and are called on lane 0. */
#ifndef RC_NN_PASS_H
#define RC_NN_PASS_H

#include "nn/model.h"

typedef enum rc_pass_mode { RC_PASS_TRAIN, RC_PASS_FROZEN, RC_PASS_EVAL } rc_pass_mode;

typedef struct rc_pass_settings {
    rc_pass_mode mode;
    int n;                        /* batch size (all groups together) */
    int groups;                   /* 0: one. FROZEN and EVAL have one */
    int group_end[RC_MAX_GROUPS]; /* with several groups: the last equals n */
    bool input_gradient;          /* FROZEN has it always */
    void *input_gradient_to;      /* act (n, h, w, cp): where it goes; NULL: memory of the pass */
    bool update_running;          /* TRAIN: update running statistics (true in training) */
    int running_updates;          /* how many times each group's update is applied; 0: once (ABD: twice) */
    int frozen;                   /* TRAIN: so many first layers stay as they are, see below */
    bool constant_model;          /* FROZEN, EVAL: forward relies on an earlier rc_pass_prepare() of the same model */
    /* EVAL: what lives no longer than a forward call may lie in the memory of this pass, which then must not be between
     * its forward and its backward call; see rc_pass_borrows. NULL: nobody lends. It must outlive the new pass. */
    const struct rc_pass *lender;
} rc_pass_settings;

typedef struct rc_pass rc_pass;

/* The net must outlive the pass. All memory is taken here: one block. */
rc_status rc_pass_create(rc_backend *backend, const rc_net *net, const rc_pass_settings *settings, rc_pass **pass);
void rc_pass_destroy(rc_pass *pass); /* NULL is fine */

/* Does the pass lie in the memory of its lender? It does if that is large enough, and if running the two side by side
 * gains nothing (busy_bytes of the backend). */
bool rc_pass_borrows(const rc_pass *pass);

/* A smaller last batch: the next calls work on n images, at most the number it was created with, in as many groups. */
rc_status rc_pass_set_batch(rc_pass *pass, int n, const int *group_end);

/* FROZEN, EVAL: running statistics -> scale and shift of every layer. Forward does it itself unless constant_model. */
void rc_pass_prepare(rc_pass *pass, const rc_model *model);

/* input: (n, h, w, c), lazy or not; the pass keeps the pointer for backward. The first layer stores the input's value
 * and sets `stored`, if the input has memory for it. */
void rc_pass_forward(rc_pass *pass, const rc_model *model, rc_tensor *input);

/* Before the call, the caller puts the gradients of all outputs into rc_pass_output_gradient(). If other layers read
 * an output, too, the pass adds their gradients there. Gradients take the place of what forward made, so that every
 * call needs a forward call before it; outputs stay. After it, gradient (net->params) is overwritten (NULL in
 * FROZEN mode; the part of frozen layers stays), and rc_pass_input_gradient() is filled if the settings ask for it. */
void rc_pass_backward(rc_pass *pass, const rc_model *model, void *gradient);

/* Output layers: a tensor that may be lazy (in TRAIN and FROZEN its first reader fills `value`), or features
 * (n, c) real for average pooling. By index of the layer; RC_NO_LAYER: the last. NULL: not an output of that kind. */
rc_tensor *rc_pass_output(rc_pass *pass, int layer);
/* The same in TRAIN and FROZEN, with its value stored: enqueues the operation that stores it, if no operation has
 * read the tensor yet. */
rc_tensor *rc_pass_stored_output(rc_pass *pass, int layer);
/* A tensor over that value with nothing pending: its raw is the value. It does not show the value before rounding. */
rc_tensor *rc_pass_finished_output(rc_pass *pass, int layer);
void *rc_pass_features(rc_pass *pass);                   /* of the average pool; NULL: the net has none */
void *rc_pass_output_gradient(rc_pass *pass, int layer); /* act (n, h, w, cp); average pooling: real (n, c) */
void rc_pass_zero_output_gradients(rc_pass *pass);       /* losses add theirs */
void *rc_pass_input_gradient(rc_pass *pass);             /* act (n, h, w, cp) */

/* FROZEN: statistics of every BN input and where the BN loss writes their gradients (0 until then). The pointers to
 * running statistics are those of the model of the last forward call. */
const rc_bn_stat *rc_pass_bn_statistics(rc_pass *pass, int *count);

/* Bytes of backend memory held, without what is borrowed. */
size_t rc_pass_bytes(const rc_pass *pass);

/* A plain tensor (nothing pending) with memory of its own, for inputs. On failure tensor->raw is NULL. */
rc_status rc_tensor_create(rc_backend *backend, int n, int h, int w, int c, rc_tensor *tensor);
void rc_tensor_destroy(rc_backend *backend, rc_tensor *tensor);

#endif
