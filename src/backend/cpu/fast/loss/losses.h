/* What the kernel files of the losses share: cutting rows into slots and sums over the lanes of a vector.
 *
 * A slot is a range of rows that one thread works on; how many there are depends on the shape alone, and their sums
 * are added in order, so that the number of threads changes no bit. */
#ifndef RC_BACKEND_CPU_FAST_LOSS_LOSSES_H
#define RC_BACKEND_CPU_FAST_LOSS_LOSSES_H

#include "backend/cpu/fast/isa.h"

enum { RC_MAX_SLOTS = 64 };

/* Slots for `count` rows of `work` multiply-adds each: below some 10 microseconds a thread is not worth waking. */
static inline int rc_slots(int count, double work)
{
    double wanted = count * work / 16384 + 1;
    int most = count < RC_MAX_SLOTS ? count : RC_MAX_SLOTS;
    return wanted < most ? (int)wanted : most > 0 ? most : 1;
}

/* First row of a slot; that of slot `slots` is `count`. */
static inline int rc_slot_begin(int count, int slots, int slot)
{
    return (int)((int64_t)count * slot / slots);
}

static inline double rc_sum_slots(const double *value, int slots)
{
    double sum = 0;
    for (int i = 0; i < slots; i++)
        sum += value[i];
    return sum;
}

/* Always in the same order. */
RC_INLINE float vec_sum(vec v)
{
    float sum = 0;
    for (int i = 0; i < RC_LANES; i++)
        sum += v[i];
    return sum;
}

/* Rounded up to whole vectors. */
static inline int rc_whole_vectors(int count)
{
    return (count + RC_LANES - 1) / RC_LANES * RC_LANES;
}

/* Bytes per thread that loss_smoothing needs for images (h, w, cp). */
size_t RC_FAST(smoothing_scratch)(int h, int w, int cp);

void RC_FAST(fill_rkd)(rc_backend *table);
void RC_FAST(fill_feature_losses)(rc_backend *table); /* ABD's features, DCE, class statistics */
void RC_FAST(fill_logit_losses)(rc_backend *table);
void RC_FAST(fill_image_losses)(rc_backend *table);

#endif
