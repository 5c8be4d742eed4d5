/* Fills every entry of the table in one type. */
#include "backend/cpu/reference/reference.h"

#if RC_REAL_IS_DOUBLE
void rc_reference_fill_double(rc_backend *table)
#else
void rc_reference_fill_float(rc_backend *table)
#endif
{
    RC_REFERENCE(fill_memory)(table);
}
