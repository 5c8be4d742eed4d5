#include "data/hold_out.h"

#include "base/memory.h"
#include "base/rng.h"
#include "data/reader.h"

/* How many of the images of a class are held out. */
static int held_out_count(int images, double part)
{
    int count = (int)(part * images + 0.5);
    return part < 1 && count >= images ? images - 1 : count;
}

rc_status rc_hold_out(const int32_t *labels, int count, int classes, double part, uint64_t seed, int8_t *held_out)
{
    uint32_t *order = rc_alloc_zeroed(NULL, (size_t)count, sizeof *order);
    int *member = rc_alloc_zeroed(NULL, (size_t)count, sizeof *member);
    int *begin = rc_alloc_zeroed(NULL, (size_t)classes + 1, sizeof *begin);
    rc_status status = order == NULL || member == NULL || begin == NULL ? RC_OUT_OF_MEMORY : RC_OK;
    if (status == RC_OK) {
        /* Images by class, each class in the order of the list. */
        for (int i = 0; i < count; i++)
            begin[labels[i] + 1]++;
        for (int label = 0; label < classes; label++)
            begin[label + 1] += begin[label];
        for (int i = 0; i < count; i++)
            member[begin[labels[i]]++] = i;
        /* Now begin[label] is where the next class begins. */
        for (int label = 0; label < classes; label++) {
            int first = label > 0 ? begin[label - 1] : 0, images = begin[label] - first;
            rc_rng rng = {seed, RC_DATA_STREAM_SPLIT + (uint64_t)label};
            rc_rng_permutation(rng, (uint32_t)images, order);
            for (int i = 0; i < held_out_count(images, part); i++)
                held_out[member[first + (int)order[i]]] = 1;
        }
    }
    rc_free(NULL, order);
    rc_free(NULL, member);
    rc_free(NULL, begin);
    return status;
}
