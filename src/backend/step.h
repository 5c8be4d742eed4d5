/* What a step of training or inversion changes from one repetition to the next, and the list of losses. */
#ifndef RC_BACKEND_STEP_H
#define RC_BACKEND_STEP_H

#include <stddef.h>
#include <stdint.h>

/* Loss terms, the one list of them: identifier, key in logs, name for people. RC_LOSS_CE and so on are indices into
 * rc_step.weight and into the value slots of a step. */
#define RC_LOSSES(LOSS) \
    LOSS(CE, "ce", "cross entropy")        /* all, local, split, asymmetric */ \
    LOSS(INTER, "inter", "inter")          /* LODE: new against old */ \
    LOSS(INTRA, "intra", "intra")          /* LODE: among the new */ \
    LOSS(REPLAY, "replay", "replay")       /* cross entropy on replayed samples */ \
    LOSS(HEAD, "head", "head")             /* ABD: cross entropy that moves the head alone */ \
    LOSS(DRAWN, "drawn", "drawn features") /* cwd+: cross entropy on features drawn from class statistics */ \
    LOSS(HKD, "hkd", "HKD") \
    LOSS(KD, "kd", "KD") \
    LOSS(KD_REPLAY, "kd_replay", "KD of replay") \
    LOSS(FEATURE, "feature", "feature") /* ABD: importance-weighted feature distillation */ \
    LOSS(RKD, "rkd", "RKD") \
    LOSS(WAR, "war", "WAR") \
    LOSS(CONTENT, "content", "content") /* inversion: cross entropy at temperature 1000 */ \
    LOSS(DIVERSITY, "diversity", "diversity") \
    LOSS(BN, "bn", "BN statistics") \
    LOSS(PRIOR, "prior", "image prior") /* smoothing, or total variation */ \
    LOSS(NORM, "norm", "image norm")    /* pixel form of DeepInversion: L2 norm of the image */ \
    LOSS(DCE, "dce", "DCE") \
    LOSS(RECONSTRUCTION, "reconstruction", "reconstruction") \
    LOSS(LATENT, "latent", "latent")

typedef enum rc_loss {
#define RC_LOSS_ENTRY(identifier, key, name) RC_LOSS_##identifier,
    RC_LOSSES(RC_LOSS_ENTRY) RC_LOSS_COUNT
#undef RC_LOSS_ENTRY
} rc_loss;

/* Everything that changes from one repetition of a step to the next; lives in backend memory. step_begin() advances
 * step and batch, so the host sets them to "just before": UINT32_MAX before the first. Adam's bias correction is 1 -
 * beta^(step + 1). */
typedef struct rc_step {
    uint64_t seed;
    uint32_t task, epoch, batch, step; /* step counts from 0 inside a stage; batch is the position in the epoch */
    uint32_t part, others; /* this process makes part `part` of every batch, `others` more make one each; 0, 0: all */
    float learning_rate;
    float weight[RC_LOSS_COUNT];
} rc_step;

/* Of a batch of which this process makes n samples: which sample of the whole batch its first one is, and which of
 * the epoch. */
static inline uint64_t rc_step_place(const rc_step *step, int n)
{
    return (uint64_t)step->part * (uint64_t)n;
}

static inline size_t rc_step_first(const rc_step *step, int n)
{
    return ((size_t)step->batch * ((size_t)step->others + 1) + step->part) * (size_t)n;
}

#endif
