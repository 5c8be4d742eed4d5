#include "cil/methods.h"

#include <stdio.h>
#include <string.h>

static const rc_method methods[] = {
    /* floor and ceiling */
    {.name = "finetune", .title = "Fine-tuning", .summary = "trains on the new images alone: the floor",
     .main = {.real = RC_CE_ALL}},
    {.name = "joint", .title = "Joint training", .summary = "trains on all images, old ones too: the ceiling",
     .replay = RC_REPLAY_ALL, .main = {.real = RC_CE_ALL}},

    /* images are kept */
    {.name = "er", .title = "ER", .summary = "keeps some images of the stream and replays them",
     .replay = RC_REPLAY_BUFFER, .main = {.one_batch = true, .real = RC_CE_ALL, .replay = RC_CE_ALL},
     .weights = RC_WEIGHTS_HALVES},
    {.name = "er-5120", .title = "ER 5120", .summary = "ER with 5120 images",
     .replay = RC_REPLAY_BUFFER, .main = {.one_batch = true, .real = RC_CE_ALL, .replay = RC_CE_ALL},
     .weights = RC_WEIGHTS_HALVES, .buffer_size = 5120},
    {.name = "lode", .title = "LODE", .summary = "ER that holds new against old apart from new among new",
     .replay = RC_REPLAY_BUFFER, .main = {.real = RC_CE_DECOUPLED, .replay = RC_CE_ALL},
     .weights = RC_WEIGHTS_HALVES},
    {.name = "lode-5120", .title = "LODE 5120", .summary = "LODE with 5120 images",
     .replay = RC_REPLAY_BUFFER, .main = {.real = RC_CE_DECOUPLED, .replay = RC_CE_ALL},
     .weights = RC_WEIGHTS_HALVES, .buffer_size = 5120, .lode_rho = 0.01f},

    /* a model of images is kept */
    {.name = "dgr", .title = "DGR", .summary = "replays images of an autoencoder that learns beside the classifier",
     .replay = RC_REPLAY_GENERATIVE,
     .main = {.one_batch = true, .real = RC_CE_ALL, .replay = RC_CE_ALL, .kd_replay = RC_KD_OLD, .class_weights = true},
     .weights = RC_WEIGHTS_HALVES},

    /* nothing is kept but the model */
    {.name = "lwf", .title = "LwF", .summary = "the new images alone, with the old model's answers to them distilled",
     .main = {.real = RC_CE_ALL, .kd_real = RC_KD_OLD}},
    {.name = "deepinversion", .title = "DeepInversion",
     .summary = "distils the old model's answers to new images and to dreams",
     .replay = RC_REPLAY_DREAMS,
     .main = {.one_batch = true, .real = RC_CE_ALL, .kd_real = RC_KD_OLD, .kd_replay = RC_KD_ALL}},
    {.name = "deepinversion-pixels", .title = "DeepInversion px",
     .summary = "the same with images that are optimised pixel by pixel",
     .replay = RC_REPLAY_PIXELS,
     .main = {.one_batch = true, .real = RC_CE_ALL, .kd_real = RC_KD_OLD, .kd_replay = RC_KD_ALL}},
    {.name = "abd", .title = "ABD", .summary = "dreams, local cross entropy, weighted distillation of features",
     .replay = RC_REPLAY_DREAMS,
     .main = {.one_batch = true, .real = RC_CE_NEW, .head_ce = true, .feature = true, .class_weights = true}},
    {.name = "rdfcil", .title = "R-DFCIL", .summary = "dreams, hard and relational distillation, head refinement",
     .replay = RC_REPLAY_DREAMS, .main = {.real = RC_CE_NEW, .hkd = true, .rkd = true},
     .weights = RC_WEIGHTS_ADAPTIVE, .refine = true},
    {.name = "cwd", .title = "CwD", .summary = "R-DFCIL with consistent dreams (DCE) and an aligned head (WAR)",
     .replay = RC_REPLAY_DREAMS, .main = {.real = RC_CE_NEW, .hkd = true, .rkd = true, .war = true},
     .weights = RC_WEIGHTS_ADAPTIVE, .refine = true, .dce = true},
    {.name = "cwd-abd", .title = "CwD(ABD)", .summary = "ABD with consistent dreams (DCE) and an aligned head (WAR)",
     .replay = RC_REPLAY_DREAMS,
     .main = {.one_batch = true, .real = RC_CE_NEW, .head_ce = true, .feature = true, .class_weights = true,
              .war = true},
     .dce = true},

    /* ablations of CwD */
    {.name = "cwd-without-dce", .title = "CwD-DCE", .summary = "ablation: CwD without DCE",
     .replay = RC_REPLAY_DREAMS, .main = {.real = RC_CE_NEW, .hkd = true, .rkd = true, .war = true},
     .weights = RC_WEIGHTS_ADAPTIVE, .refine = true},
    {.name = "cwd-without-war", .title = "CwD-WAR", .summary = "ablation: CwD without WAR",
     .replay = RC_REPLAY_DREAMS, .main = {.real = RC_CE_NEW, .hkd = true, .rkd = true},
     .weights = RC_WEIGHTS_ADAPTIVE, .refine = true, .dce = true},

    /* CwD's dreams, other ways against bias in place of WAR (and, but for WA, of HKD) */
    {.name = "sce", .title = "SCE", .summary = "debiasing: split cross entropy, dreams over the old classes",
     .replay = RC_REPLAY_DREAMS, .main = {.real = RC_CE_NEW, .replay = RC_CE_OLD, .rkd = true},
     .weights = RC_WEIGHTS_ADAPTIVE, .refine = true, .dce = true},
    {.name = "ace", .title = "ACE", .summary = "debiasing: asymmetric cross entropy, dreams over all classes",
     .replay = RC_REPLAY_DREAMS, .main = {.real = RC_CE_NEW, .replay = RC_CE_ALL, .rkd = true},
     .weights = RC_WEIGHTS_ADAPTIVE, .refine = true, .dce = true},
    {.name = "ssil", .title = "SS-IL", .summary = "debiasing: split cross entropy and distillation task by task",
     .replay = RC_REPLAY_DREAMS,
     .main = {.real = RC_CE_NEW, .replay = RC_CE_OLD, .kd_replay = RC_KD_TASKS, .rkd = true},
     .weights = RC_WEIGHTS_ADAPTIVE, .refine = true, .dce = true},
    {.name = "wa", .title = "WA", .summary = "debiasing: new rows of the head scaled to the old ones' mean norm",
     .replay = RC_REPLAY_DREAMS, .main = {.real = RC_CE_NEW, .hkd = true, .rkd = true},
     .weights = RC_WEIGHTS_ADAPTIVE, .refine = true, .dce = true, .align_rows = true},

    /* for analysis: R-DFCIL's losses on real old images, where others have dreams */
    {.name = "real-hkd", .title = "Real HKD", .summary = "analysis: hard distillation on real old images",
     .replay = RC_REPLAY_REAL, .main = {.real = RC_CE_NEW, .hkd = true}, .weights = RC_WEIGHTS_ADAPTIVE},
    {.name = "real-lce", .title = "Real LCE", .summary = "analysis: local cross entropy on real old images",
     .replay = RC_REPLAY_REAL, .main = {.real = RC_CE_NEW, .replay = RC_CE_OLD}, .weights = RC_WEIGHTS_ADAPTIVE},
};

enum { METHODS = sizeof methods / sizeof *methods };

const rc_method *rc_method_at(int index)
{
    return index >= 0 && index < METHODS ? &methods[index] : NULL;
}

rc_status rc_method_find(const char *name, const rc_method **method)
{
    char names[512] = "";
    for (int i = 0; i < METHODS; i++) {
        if (strcmp(methods[i].name, name) == 0) {
            *method = &methods[i];
            return RC_OK;
        }
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", methods[i].name);
    }
    *method = NULL;
    return rc_fail(RC_INVALID_ARGUMENT, "there is no method '%s'; there are %s", name, names);
}
