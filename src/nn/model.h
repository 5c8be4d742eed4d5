/* Weights of a net. Parameters and running statistics are two contiguous arrays in backend memory, in the order of
 * the layers and in PyTorch's layout, so an optimiser step is one operation and a file is a walk over named slices. */
#ifndef RC_NN_MODEL_H
#define RC_NN_MODEL_H

#include "base/rng.h"
#include "nn/net.h"

typedef struct rc_model {
    const rc_net *net;
    rc_backend *backend;
    void *param;   /* (net->params) real */
    void *running; /* (net->running) real */
} rc_model;

/* All zeros. The net must outlive the model. On failure both pointers are NULL. */
rc_status rc_model_create(rc_model *model, const rc_net *net, rc_backend *backend);
void rc_model_destroy(rc_model *model); /* a zeroed or destroyed one is fine */

/* Initialises parameters and running statistics; layer i draws from rng stream rng.stream + i. */
rc_status rc_model_init(rc_model *model, rc_rng rng);
/* Enqueued: parameters and running statistics. Both are models of one net on one backend. */
void rc_model_copy(rc_model *to, const rc_model *from);

/* PyTorch's default for linear and convolution: U(-1/sqrt(fan_in), 1/sqrt(fan_in)) for weights and biases. Takes the
 * elements of the stream from 0 on. */
void rc_init_default(rc_rng rng, int fan_in, float *out, size_t count);

/* A named slice, for files, fixtures and printouts. */
typedef struct rc_slice {
    char name[2 * RC_NAME_MAX]; /* "stage_1.blocks.0.conv_a.weight" */
    bool running;               /* in running, else in param */
    size_t offset, count;
    int dims, shape[4]; /* PyTorch's shape */
} rc_slice;

/* Slice number `index`, in layer order; false when there are no more. */
bool rc_net_slice(const rc_net *net, int index, rc_slice *slice);

/* The growing head: rows (classes, d), one block per task. */
enum { RC_MAX_TASKS = 256 };

typedef struct rc_head {
    rc_backend *backend;
    int d, classes, capacity, tasks;
    int task_end[RC_MAX_TASKS]; /* rows of task t are [task_end[t-1], task_end[t]) */
    void *weight;               /* (capacity, d) real; rows from `classes` on are 0 */
    void *bias;                 /* (capacity) real; from `classes` on 0. NULL: none, as in nets that are trained here */
} rc_head;

/* Without bias. */
rc_status rc_head_create(rc_head *head, rc_backend *backend, int d, int capacity);
void rc_head_destroy(rc_head *head); /* a zeroed or destroyed one is fine */
/* A bias of 0 for every row; a head that has one keeps it. On failure the head is as it was. */
rc_status rc_head_add_bias(rc_head *head);
/* New block of `classes` rows ~ N(0, 0.001^2): element (r, j) of the block is element r * d + j of the stream. Their
 * bias is 0. When the capacity is used up the memory grows, and `weight` and `bias` move. On failure the head is as it
 * was. */
rc_status rc_head_grow(rc_head *head, int classes, rc_rng rng);
/* `count` weights as new rows of a head begin, at `rows` in backend memory. */
rc_status rc_head_init_rows(rc_backend *backend, void *rows, size_t count, rc_rng rng);
/* Numbers of its rows and of its bias. */
size_t rc_head_parameters(const rc_head *head);
/* Same rows, same bias or none, same tasks; `to` has been created with the same d and grows if it must. */
rc_status rc_head_copy(rc_head *to, const rc_head *from);

#endif
