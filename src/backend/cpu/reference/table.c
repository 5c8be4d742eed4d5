/* Fills every entry of the table in one type. */
#include "backend/cpu/reference/reference.h"

#if RC_REAL_IS_DOUBLE
void rc_reference_fill_double(rc_backend *table)
#else
void rc_reference_fill_float(rc_backend *table)
#endif
{
    RC_REFERENCE(fill_memory)(table);
    RC_REFERENCE(fill_conv)(table);
    RC_REFERENCE(fill_depthwise)(table);
    RC_REFERENCE(fill_norm)(table);
    RC_REFERENCE(fill_pool)(table);
    RC_REFERENCE(fill_dense)(table);
    RC_REFERENCE(fill_logit_losses)(table);
    RC_REFERENCE(fill_feature_losses)(table);
    RC_REFERENCE(fill_image_losses)(table);
    RC_REFERENCE(fill_statistics)(table);
    RC_REFERENCE(fill_data)(table);
    RC_REFERENCE(fill_optimiser)(table);
}
