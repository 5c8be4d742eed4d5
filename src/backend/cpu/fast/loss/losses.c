/* Losses that take time: which of them have kernels. */
#include "backend/cpu/fast/loss/losses.h"

void RC_FAST(fill_losses)(rc_backend *table)
{
    RC_FAST(fill_logit_losses)(table);
    RC_FAST(fill_rkd)(table);
    RC_FAST(fill_image_losses)(table);
    RC_FAST(fill_feature_losses)(table);
}
