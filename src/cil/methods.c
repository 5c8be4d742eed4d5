#include "cil/methods.h"

#include <stdio.h>
#include <string.h>

#include "cil/sources.h"

static const rc_method methods[] = {
    /* floor and ceiling */
    {.name = "finetune",
     .title = "Fine-tuning",
     .summary = "trains on the new images alone: the floor",
     .replay = &rc_source_none,
     .main = {.real = RC_CE_ALL}},
    {.name = "joint",
     .title = "Joint training",
     .summary = "trains on all images, old ones too: the ceiling",
     .replay = &rc_source_all,
     .main = {.real = RC_CE_ALL}},

    /* images are kept */
    {.name = "er",
     .title = "ER",
     .summary = "keeps some images of the stream and replays them",
     .replay = &rc_source_buffer,
     .main = {.one_batch = true, .real = RC_CE_ALL, .replay = RC_CE_ALL},
     .weights = RC_WEIGHTS_HALVES,
     .buffer_size = 500},
    {.name = "er-5120",
     .title = "ER 5120",
     .summary = "ER with 5120 images",
     .replay = &rc_source_buffer,
     .main = {.one_batch = true, .real = RC_CE_ALL, .replay = RC_CE_ALL},
     .weights = RC_WEIGHTS_HALVES,
     .buffer_size = 5120},
    {.name = "lode",
     .title = "LODE",
     .summary = "ER that holds new against old apart from new among new",
     .replay = &rc_source_buffer,
     .main = {.real = RC_CE_DECOUPLED, .replay = RC_CE_ALL},
     .weights = RC_WEIGHTS_HALVES,
     .buffer_size = 500,
     .lode_rho = 0.05},
    {.name = "lode-5120",
     .title = "LODE 5120",
     .summary = "LODE with 5120 images",
     .replay = &rc_source_buffer,
     .main = {.real = RC_CE_DECOUPLED, .replay = RC_CE_ALL},
     .weights = RC_WEIGHTS_HALVES,
     .buffer_size = 5120,
     .lode_rho = (double)0.01f}, /* rounded, as in every run so far */

    /* a model of images is kept */
    {.name = "dgr",
     .title = "DGR",
     .summary = "replays images of an autoencoder that learns beside the classifier",
     .replay = &rc_source_generative,
     .main = {.one_batch = true, .real = RC_CE_ALL, .replay = RC_CE_ALL, .kd_replay = RC_KD_OLD, .class_weights = true},
     .weights = RC_WEIGHTS_HALVES},

    /* nothing is kept but the model */
    {.name = "lwf",
     .title = "LwF",
     .summary = "the new images alone, with the old model's answers to them distilled",
     .replay = &rc_source_none,
     .main = {.real = RC_CE_ALL, .kd_real = RC_KD_OLD}},
    {.name = "deepinversion",
     .title = "DeepInversion",
     .summary = "distils the old model's answers to new images and to dreams",
     .replay = &rc_source_dreams,
     .main = {.one_batch = true, .real = RC_CE_ALL, .kd_real = RC_KD_OLD, .kd_replay = RC_KD_ALL}},
    {.name = "deepinversion-pixels",
     .title = "DeepInversion px",
     .summary = "the same with images that are optimised pixel by pixel",
     .replay = &rc_source_pixels,
     .main = {.one_batch = true, .real = RC_CE_ALL, .kd_real = RC_KD_OLD, .kd_replay = RC_KD_ALL}},
    {.name = "abd",
     .title = "ABD",
     .summary = "dreams, local cross entropy, weighted distillation of features",
     .replay = &rc_source_dreams,
     .main = {.one_batch = true, .real = RC_CE_NEW, .head_ce = true, .feature = true, .class_weights = true}},
    {.name = "rdfcil",
     .title = "R-DFCIL",
     .summary = "dreams, hard and relational distillation, head refinement",
     .replay = &rc_source_dreams,
     .main = {.real = RC_CE_NEW, .hkd = true, .rkd = true},
     .weights = RC_WEIGHTS_ADAPTIVE,
     .refine = true},
    {.name = "cwd",
     .title = "CwD",
     .summary = "R-DFCIL with consistent dreams (DCE) and an aligned head (WAR)",
     .replay = &rc_source_dreams,
     .main = {.real = RC_CE_NEW, .hkd = true, .rkd = true, .war = true},
     .weights = RC_WEIGHTS_ADAPTIVE,
     .refine = true,
     .dce = true},
    {.name = "cwd+",
     .title = "CwD+",
     .summary = "CwD with class statistics that follow the net, and what its settings add",
     .replay = &rc_source_dreams,
     .main = {.real = RC_CE_NEW, .hkd = true, .rkd = true, .war = true},
     .weights = RC_WEIGHTS_ADAPTIVE,
     .refine = true,
     .dce = true,
     .generators = 2,
     .turns = true,
     .plus = true},
    {.name = "cwd-abd",
     .title = "CwD(ABD)",
     .summary = "ABD with consistent dreams (DCE) and an aligned head (WAR)",
     .replay = &rc_source_dreams,
     .main =
         {.one_batch = true, .real = RC_CE_NEW, .head_ce = true, .feature = true, .class_weights = true, .war = true},
     .dce = true},

    /* ablations of CwD */
    {.name = "cwd-without-dce",
     .title = "CwD-DCE",
     .summary = "ablation: CwD without DCE",
     .replay = &rc_source_dreams,
     .main = {.real = RC_CE_NEW, .hkd = true, .rkd = true, .war = true},
     .weights = RC_WEIGHTS_ADAPTIVE,
     .refine = true},
    {.name = "cwd-without-war",
     .title = "CwD-WAR",
     .summary = "ablation: CwD without WAR",
     .replay = &rc_source_dreams,
     .main = {.real = RC_CE_NEW, .hkd = true, .rkd = true},
     .weights = RC_WEIGHTS_ADAPTIVE,
     .refine = true,
     .dce = true},

    /* CwD's dreams with other remedies for bias in place of WAR (and, except for WA, of HKD) */
    {.name = "sce",
     .title = "SCE",
     .summary = "debiasing: split cross entropy, dreams over the old classes",
     .replay = &rc_source_dreams,
     .main = {.real = RC_CE_NEW, .replay = RC_CE_OLD, .rkd = true},
     .weights = RC_WEIGHTS_ADAPTIVE,
     .refine = true,
     .dce = true},
    {.name = "ace",
     .title = "ACE",
     .summary = "debiasing: asymmetric cross entropy, dreams over all classes",
     .replay = &rc_source_dreams,
     .main = {.real = RC_CE_NEW, .replay = RC_CE_ALL, .rkd = true},
     .weights = RC_WEIGHTS_ADAPTIVE,
     .refine = true,
     .dce = true},
    {.name = "ssil",
     .title = "SS-IL",
     .summary = "debiasing: split cross entropy and distillation task by task",
     .replay = &rc_source_dreams,
     .main = {.real = RC_CE_NEW, .replay = RC_CE_OLD, .kd_replay = RC_KD_TASKS, .rkd = true},
     .weights = RC_WEIGHTS_ADAPTIVE,
     .refine = true,
     .dce = true},
    {.name = "wa",
     .title = "WA",
     .summary = "debiasing: new rows of the head scaled to the old ones' mean norm",
     .replay = &rc_source_dreams,
     .main = {.real = RC_CE_NEW, .hkd = true, .rkd = true},
     .weights = RC_WEIGHTS_ADAPTIVE,
     .refine = true,
     .dce = true,
     .align_rows = true},

    /* for analysis: R-DFCIL's losses on real old images, where others have dreams */
    {.name = "real-hkd",
     .title = "Real HKD",
     .summary = "analysis: hard distillation on real old images",
     .replay = &rc_source_real,
     .main = {.real = RC_CE_NEW, .hkd = true},
     .weights = RC_WEIGHTS_ADAPTIVE},
    {.name = "real-cwd",
     .title = "Real CwD",
     .summary = "analysis: CwD with real old images in place of dreams",
     .replay = &rc_source_real,
     .main = {.real = RC_CE_NEW, .hkd = true, .rkd = true, .war = true},
     .weights = RC_WEIGHTS_ADAPTIVE,
     .refine = true},
    {.name = "real-lce",
     .title = "Real LCE",
     .summary = "analysis: local cross entropy on real old images",
     .replay = &rc_source_real,
     .main = {.real = RC_CE_NEW, .replay = RC_CE_OLD},
     .weights = RC_WEIGHTS_ADAPTIVE},
};

enum { METHODS = sizeof methods / sizeof *methods };

bool rc_method_replays(const rc_method *method, int n_old)
{
    return method->replay->replays_first || (method->replay->replays && n_old > 0);
}

bool rc_method_asks_teacher(const rc_method *method, int n_old)
{
    return n_old > 0 && (method->replay->inversion != NULL || rc_objective_asks_teacher(&method->main));
}

bool rc_method_dreams(const rc_method *method, int n_old)
{
    return n_old > 0 && method->replay->dreams;
}

rc_inversion_plan rc_method_inversion(const rc_method *method, const rc_settings *settings, int n_old)
{
    const rc_source_kind *kind = method->replay;
    return n_old > 0 && kind->inversion != NULL ? kind->inversion(method, settings) : (rc_inversion_plan){0};
}

int rc_generators(const rc_method *method, const rc_settings *settings)
{
    int of_row = method->generators > 0 ? method->generators : 1;
    return settings->generators > 0 ? settings->generators : of_row;
}

/* Does the row say whether images are turned, and not the settings? */
static bool turns_by_row(const rc_settings *settings)
{
    return strcmp(settings->rotations, "method") == 0;
}

bool rc_method_turns(const rc_method *method, const rc_settings *settings, bool square, int n_old)
{
    if (turns_by_row(settings))
        return method->turns && square;
    return strcmp(settings->rotations, "all") == 0 || (n_old == 0 && strcmp(settings->rotations, "first") == 0);
}

bool rc_method_shares_first_task(const rc_method *method, const rc_settings *settings)
{
    bool turns_alone = method->turns && turns_by_row(settings);
    bool alone = turns_alone || rc_method_keeps_variances(method, settings);
    return !method->replay->replays_first && method->replay->learns == NULL && !alone;
}

bool rc_method_keeps_variances(const rc_method *method, const rc_settings *settings)
{
    return method->plus && settings->plus_variances && strcmp(settings->plus_statistics, "dreams") != 0;
}

bool rc_method_takes_old_images(const rc_method *method)
{
    return method->replay->takes_old_images;
}

bool rc_method_trains_on_old_images(const rc_method *method)
{
    return method->replay->takes_old_images && !method->replay->replays_old_images;
}

int rc_held_images(const rc_method *method, const rc_settings *settings)
{
    return method->replay->held_images != NULL ? method->replay->held_images(method, settings) : 0;
}

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
