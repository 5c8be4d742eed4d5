/* A method is a row. Stages read the row; only what a row cannot say gets a function. */
#ifndef RC_CIL_METHODS_H
#define RC_CIL_METHODS_H

#include "base/status.h"
#include "cil/objective.h"

typedef enum rc_replay_kind {
    RC_REPLAY_NONE,
    RC_REPLAY_DREAMS,     /* a generator inverted from the old model */
    RC_REPLAY_PIXELS,     /* images inverted from the old model, pixel by pixel */
    RC_REPLAY_BUFFER,     /* some real old images: not data-free */
    RC_REPLAY_GENERATIVE, /* a generative model, trained beside the classifier and kept */
    RC_REPLAY_REAL,       /* all real old images, for analysis: what a perfect source would do */
    RC_REPLAY_ALL         /* real old images are trained on as if they were new: an upper bound */
} rc_replay_kind;

/* Weights of the losses in main training; settings.h has the numbers. */
typedef enum rc_weighting {
    RC_WEIGHTS_PLAIN,   /* cross entropy 1, each distillation its own setting */
    RC_WEIGHTS_HALVES,  /* cross entropy of each half counts half; LODE's inter part lode_rho of that, over the number
                           of old tasks */
    RC_WEIGHTS_ADAPTIVE /* R-DFCIL: lambda_ce, lambda_hkd (all losses of the replayed half) and lambda_rkd, scaled by
                           the numbers of old and new classes */
} rc_weighting;

typedef struct rc_method {
    const char *name;    /* "cwd" */
    const char *title;   /* "CwD" */
    const char *summary; /* one line */
    rc_replay_kind replay;
    rc_objective main;   /* in tasks after the first; that one has cross entropy alone */
    rc_weighting weights;
    int buffer_size; /* images kept at most; 0: as the settings say */
    float lode_rho;  /* 0: as the settings say */
    bool dce;        /* dreams must match the stored class statistics; needs estimation */
    bool refine;     /* class-balanced refinement of the head, with the replayed half's losses and WAR */
    bool align_rows; /* WA: after training, new rows of the head get the old ones' mean norm */
} rc_method;

/* Is its first task plain training, the same for all such methods? A method that stores as it trains has its own. */
static inline bool rc_method_shares_first_task(const rc_method *method)
{
    return method->replay != RC_REPLAY_BUFFER && method->replay != RC_REPLAY_GENERATIVE;
}

/* Does it have to be given the old images too? */
static inline bool rc_method_takes_old_images(const rc_method *method)
{
    return method->replay == RC_REPLAY_REAL || method->replay == RC_REPLAY_ALL;
}

/* NULL when there are no more. */
const rc_method *rc_method_at(int index);
/* An unknown name is an error that lists the names. */
rc_status rc_method_find(const char *name, const rc_method **method);

#endif
