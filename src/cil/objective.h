/* What a training step minimises: the part of a method's row that the step reads. The real half of a batch holds new
 * images, the replayed half whatever the row's source draws. Weights are in rc_step; docs/methods has the formulas,
 * nn/losses.h the index to the operations. */
#ifndef RC_CIL_OBJECTIVE_H
#define RC_CIL_OBJECTIVE_H

#include "backend/backend.h"

const char *rc_loss_name(int loss); /* "cross entropy", of an rc_loss */
const char *rc_loss_key(int loss);  /* "ce": short, for logs and progress */

/* The values of the losses (RC_LOSS_COUNT reals) and, behind them, the labels of a step lie in one block of backend
 * memory, so that a report waits for one copy. bytes: of the values, up to where the labels begin. take: the block;
 * *labels is NULL while the arena measures. */
size_t rc_losses_bytes(const rc_backend *backend);
void *rc_losses_take(const rc_backend *backend, rc_arena *arena, size_t rows, int32_t **labels);

/* A loss that a stage may have, and its weight if it does; all others weigh 0. */
typedef struct rc_stage_loss {
    rc_loss loss;
    bool active;
    double weight;
} rc_stage_loss;
void rc_stage_set_losses(const rc_stage_loss *losses, size_t count, float weight[RC_LOSS_COUNT],
                         bool active[RC_LOSS_COUNT]);

/* Cross entropy, by the classes that its softmax covers. */
typedef enum rc_ce {
    RC_CE_NONE,
    RC_CE_ALL,      /* all classes seen */
    RC_CE_NEW,      /* the new ones; all if there is just one, because the cross entropy of one logit is constant */
    RC_CE_OLD,      /* the old ones */
    RC_CE_DECOUPLED /* LODE: new against old, and among the new */
} rc_ce;

/* Distillation of the old model's softened logits. */
typedef enum rc_kd {
    RC_KD_NONE,
    RC_KD_OLD,  /* the student's softmax covers the old classes */
    RC_KD_ALL,  /* all classes, with target 0 for the new ones */
    RC_KD_TASKS /* SS-IL: one softmax for every old task, KL divergence times T^2, summed over the tasks */
} rc_kd;

typedef struct rc_objective {
    bool one_batch;     /* both halves share batch statistics; else each has its own */
    rc_ce real, replay; /* cross entropy of each half */
    rc_kd kd_real, kd_replay;
    bool hkd;           /* replayed half: mean absolute difference of the old logits */
    bool rkd;           /* real half: relations between features */
    bool feature;       /* both halves: difference of features as the old head sees it (ABD) */
    bool head_ce;       /* both halves, all classes: cross entropy that moves the head alone, from a second pass without
                           gradients; hence running statistics move twice (ABD) */
    bool class_weights; /* a sample counts n_old/K if its class is old, else 1 - n_old/K (ABD, DGR) */
    bool war;           /* alignment of the norms of the head's rows */
} rc_objective;

/* Does it look at the old model's outputs? */
static inline bool rc_objective_asks_teacher(const rc_objective *o)
{
    return o->kd_real || o->kd_replay || o->hkd || o->rkd || o->feature;
}

#endif
