/* What the files of the weight gradient share. Three ways lead from bands to a gradient: direct (conv_weight.c),
 * Winograd's and that of enlarged inputs; weight_sum.c adds the private gradients up. */
#ifndef RC_BACKEND_CPU_FAST_CONVOLUTION_CONV_WEIGHT_H
#define RC_BACKEND_CPU_FAST_CONVOLUTION_CONV_WEIGHT_H

#include <stdatomic.h>

#include "backend/cpu/fast/convolution/band.h"
#include "backend/cpu/fast/convolution/conv.h"
#include "backend/cpu/fast/convolution/weight_plan.h"

/* The images that are in the bands at a time. */
typedef struct weight_group {
    const weight_plan *plan;
    int images;
    int channel, channels; /* of small */
    bool add;              /* the gradient has been written */
    value_source x[MAX_IMAGES];
    gradient_source dy[MAX_IMAGES];
    row_band big[MAX_IMAGES], small[MAX_IMAGES];
    float *transformed;
} weight_group;

/* The units of a slot, or of a part of its channels: [0, first) are done or being done by the task that owns the lane,
 * [end, units) by others. */
typedef struct weight_lane {
    _Alignas(RC_ALIGNMENT) _Atomic uint64_t left; /* first << 32 | end */
    int elsewhere;                                /* in the end: how many others have done */
    int spare[MOST_SPARES];                       /* and where they are, the last one first */
} weight_lane;

typedef struct weight_job {
    rc_cpu *cpu;
    const weight_sequel *sequel; /* NULL: none */
    weight_plan plan;
    const rc_tensor *x;
    const rc_grad *dy;
    float *slots;    /* (slots, slot_floats) */
    float *spares;   /* (spares, slot_floats) */
    double *bias;    /* (slots, units, cp of dy) */
    float *gradient; /* in the layout of the weights */
    float *folded;   /* (c_out, c_in, k + 1, k + 1) for an enlarged input */
    float *result;
    _Atomic int begun, spares_taken;
    weight_lane lane[MOST_LANES];
} weight_job;

static inline size_t piece_size(const weight_piece *p)
{
    return (size_t)p->floats * (size_t)p->channels;
}

/* The images of a slot begin here. */
static inline int slot_begin(const weight_job *job, int slot)
{
    return (int)((int64_t)job->x->n * slot / job->plan.slots);
}

static inline int slot_units(const weight_job *job, int slot)
{
    int images = slot_begin(job, slot + 1) - slot_begin(job, slot);
    return (images + job->plan.images - 1) / job->plan.images * job->plan.bands;
}

/* The gradient from the rows [first, last) of small in the bands, to the slot: each number of it is added to once, so
 * that it makes no difference whether units are added to a slot one by one or put elsewhere first. */
void RC_FAST(run_winograd_pieces)(const weight_group *group, int first, int last, float *slot);
void RC_FAST(run_enlarged_pieces)(const weight_group *group, int first, int last, float *slot);

/* Adds up all slots, and the bias if there is one. */
void RC_FAST(sum_weights)(weight_job *job, float *dbias);

#endif
