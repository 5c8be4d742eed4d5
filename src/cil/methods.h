/* A method is a row. Stages read the row; only what a row cannot say gets a function. */
#ifndef RC_CIL_METHODS_H
#define RC_CIL_METHODS_H

#include <stdbool.h>

#include "base/status.h"

typedef enum rc_replay {
    RC_REPLAY_NONE,
    RC_REPLAY_DREAMS, /* a generator inverted from the old model */
    RC_REPLAY_ALL     /* the real old data: an upper bound, not data-free */
} rc_replay;

typedef struct rc_method {
    const char *name;    /* "cwd" */
    const char *title;   /* "CwD" */
    const char *summary; /* one line */
    rc_replay replay;
    bool local_ce;    /* real samples: cross entropy over the new classes only; else over all */
    bool hkd;         /* hard distillation of the dreams' logits */
    bool rkd;         /* relational distillation of the real samples */
    bool war;         /* alignment of the head's norms */
    bool dce;         /* dreams must match the stored class statistics; needs estimation */
    bool refine;      /* class-balanced refinement of the head */
} rc_method;

/* NULL when there are no more. */
const rc_method *rc_method_at(int index);
/* An unknown name is an error that lists the names. */
rc_status rc_method_find(const char *name, const rc_method **method);


#endif
