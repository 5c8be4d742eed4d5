/* Which kernels of this instruction set replace the reference. */
#include "backend/cpu/fast/isa.h"

void RC_FAST(fill)(rc_backend *table)
{
    RC_FAST(fill_conv)(table);
    RC_FAST(fill_depthwise)(table);
    RC_FAST(fill_dense)(table);
    RC_FAST(fill_norm)(table);
    RC_FAST(fill_statistics)(table);
    RC_FAST(fill_pool)(table);
    RC_FAST(fill_peak)(table);
    RC_FAST(fill_losses)(table);
    RC_FAST(fill_data)(table);
    RC_FAST(fill_optimiser)(table);
}
