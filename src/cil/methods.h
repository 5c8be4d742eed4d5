/* A method is a row. Stages read the row; only what a row cannot say gets a function. */
#ifndef RC_CIL_METHODS_H
#define RC_CIL_METHODS_H

#include "base/status.h"
#include "cil/source.h"

/* Weights of the losses in main training; settings.h has the numbers. */
typedef enum rc_weighting {
    RC_WEIGHTS_PLAIN,   /* cross entropy 1, each distillation its own setting */
    RC_WEIGHTS_HALVES,  /* cross entropy of each half counts half; LODE's inter part lode_rho of that, over the number
                           of old tasks */
    RC_WEIGHTS_ADAPTIVE /* R-DFCIL: lambda_ce, lambda_hkd (all losses of the replayed half) and lambda_rkd, scaled by
                           the numbers of old and new classes */
} rc_weighting;

typedef struct rc_method {
    const char *name;             /* "cwd" */
    const char *title;            /* "CwD" */
    const char *summary;          /* one line */
    const rc_source_kind *replay; /* where the second half of a batch comes from (sources.h) */
    rc_objective main;            /* in tasks after the first; that one has cross entropy alone */
    rc_weighting weights;
    int buffer_size; /* images kept at most; a setting that is not 0 wins, as for all numbers of a row */
    double lode_rho;
    int generators;  /* 0: one */
    bool turns;      /* turned images are classes of their own while a task trains (rotations) */
    bool dce;        /* dreams must match the stored class statistics; needs estimation */
    bool refine;     /* class-balanced refinement of the head, with the replayed half's losses and WAR */
    bool plus;       /* losses and statistics that the settings plus_* ask for */
    bool align_rows; /* WA: after training, new rows of the head get the old ones' mean norm */
} rc_method;

/* Does a task that begins after n_old classes have batches with a second half? Does it ask the old model? Does it
 * have a generator? How is the old model inverted (no parts: not at all)? */
bool rc_method_replays(const rc_method *method, int n_old);
bool rc_method_asks_teacher(const rc_method *method, int n_old);
bool rc_method_dreams(const rc_method *method, int n_old);
rc_inversion_plan rc_method_inversion(const rc_method *method, const rc_settings *settings, int n_old);

/* How many generators are inverted, where it has any. */
int rc_generators(const rc_method *method, const rc_settings *settings);

/* Are turned images classes of their own in a task that begins after n_old classes? A row asks for it only where images
 * are square; settings may ask in vain, which training refuses. */
bool rc_method_turns(const rc_method *method, const rc_settings *settings, bool square, int n_old);

/* Is its first task plain training, the same for all such methods? A method that stores something as it trains, turns
 * images where others do not, or keeps other statistics has a first task of its own. */
bool rc_method_shares_first_task(const rc_method *method, const rc_settings *settings);

/* Does it keep the variances of every class, from the first task on? */
bool rc_method_keeps_variances(const rc_method *method, const rc_settings *settings);

/* Does it need the old images, too? Are they trained on? */
bool rc_method_takes_old_images(const rc_method *method);
bool rc_method_trains_on_old_images(const rc_method *method);

/* Images that it holds beside those of a task, at most: a buffer, or inverted pixels. */
int rc_held_images(const rc_method *method, const rc_settings *settings);

/* NULL when there are no more. */
const rc_method *rc_method_at(int index);
/* An unknown name is an error that lists the names. */
rc_status rc_method_find(const char *name, const rc_method **method);

#endif
