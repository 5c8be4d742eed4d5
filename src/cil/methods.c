#include "cil/methods.h"

#include <stdio.h>
#include <string.h>

static const rc_method methods[] = {
    {.name = "finetune", .title = "Fine-tuning", .summary = "trains on the new images alone: the floor",
     .main = {.real = RC_CE_ALL}},
    {.name = "joint", .title = "Joint training", .summary = "trains on all images, old ones too: the ceiling",
     .replay = RC_REPLAY_ALL, .main = {.real = RC_CE_ALL}},
    {.name = "rdfcil", .title = "R-DFCIL", .summary = "dreams, hard and relational distillation, head refinement",
     .replay = RC_REPLAY_DREAMS, .main = {.real = RC_CE_NEW, .hkd = true, .rkd = true},
     .weights = RC_WEIGHTS_ADAPTIVE, .refine = true},
    {.name = "cwd", .title = "CwD", .summary = "R-DFCIL with consistent dreams (DCE) and an aligned head (WAR)",
     .replay = RC_REPLAY_DREAMS, .main = {.real = RC_CE_NEW, .hkd = true, .rkd = true, .war = true},
     .weights = RC_WEIGHTS_ADAPTIVE, .refine = true, .dce = true},
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
