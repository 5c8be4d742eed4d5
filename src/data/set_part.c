#include "data/set_part.h"

#include "base/ascii.h"

rc_set_part rc_set_part_of(const char *name)
{
    static const char *const names[RC_SET_PARTS] = {
        [RC_SET_TRAIN] = "train training", [RC_SET_TEST] = "test testing", [RC_SET_VAL] = "val valid validation"};
    rc_set_part part = RC_SET_TRAIN;
    while (part < RC_SET_PARTS && !rc_ascii_among(name, names[part]))
        part++;
    return part;
}
