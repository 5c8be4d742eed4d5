/* What the three ways to a weight gradient share: direct (conv_weight.c), Winograd's and that of enlarged inputs. */
#ifndef RC_BACKEND_CPU_FAST_CONV_WEIGHT_H
#define RC_BACKEND_CPU_FAST_CONV_WEIGHT_H

#include "backend/cpu/fast/band.h"
#include "backend/cpu/fast/weight_plan.h"

/* The images that are in the bands at a time. */
typedef struct weight_group {
    const weight_plan *plan;
    int images;
    int channel, channels; /* of small */
    bool add;              /* the slot has been written */
    value_source x[MAX_IMAGES];
    gradient_source dy[MAX_IMAGES];
    band big[MAX_IMAGES], small[MAX_IMAGES];
    float *transformed;
} weight_group;

static inline size_t piece_size(const weight_piece *p)
{
    return (size_t)p->floats * (size_t)p->channels;
}

/* The gradient from the rows [first, last) of small in the bands, to the slot. */
void RC_FAST(run_winograd_pieces)(const weight_group *group, int first, int last, float *slot);
void RC_FAST(run_enlarged_pieces)(const weight_group *group, int first, int last, float *slot);

#endif
