/* The parts that settings name in "read by" (cil/setting.h), and which of them a method has. */
#ifndef RC_CIL_PARTS_H
#define RC_CIL_PARTS_H

#include "cil/methods.h"

/* The part of what `recollect run` alone reads: a model that learns has no use for it. */
#define RC_PART_EXPERIMENTS "experiments"

enum { RC_PARTS = 21 };

typedef struct rc_part {
    const char *name;
    bool there;
} rc_part;

/* All parts, in the order of docs/settings.md; there: the method has it when it runs with these settings. */
void rc_method_parts(const rc_method *method, const rc_settings *settings, rc_part part[RC_PARTS]);

#endif
