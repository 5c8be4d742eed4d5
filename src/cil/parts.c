#include "cil/parts.h"

#include <string.h>

#include "cil/sources.h"

/* Softened logits are distilled by a method's own row, or because the settings of CwD+ ask for it. */
static bool distils_logits(const rc_method *m, const rc_settings *s)
{
    bool asked = m->plus && (s->plus_kd_new > 0 || s->plus_kd_dreams > 0);
    return asked || m->main.kd_real != RC_KD_NONE || m->main.kd_replay != RC_KD_NONE;
}

void rc_method_parts(const rc_method *m, const rc_settings *s, rc_part part[RC_PARTS])
{
    const rc_objective *o = &m->main;
    bool dreams = m->replay->dreams;
    const rc_part all[] = {
        {"data", true},
        {RC_PART_EXPERIMENTS, true},
        {"evaluation", true},
        {"everything", true},
        {"net", true},
        {"resnet-small", strcmp(s->net, "resnet-small") == 0},
        {"training", true},
        {"refinement", m->refine && !s->paper_no_refinement},
        {"adaptive weights", m->weights == RC_WEIGHTS_ADAPTIVE},
        {"rkd", o->rkd},
        {"war", o->war},
        {"kd", distils_logits(m, s)},
        {"feature", o->feature},
        {"plus", m->plus},
        {"buffer", m->replay == &rc_source_buffer},
        {"lode", o->real == RC_CE_DECOUPLED},
        {"autoencoder", m->replay == &rc_source_generative},
        {"inversion", dreams},
        {"generator-small", dreams && strcmp(s->generator, "generator-small") == 0},
        {"dce", m->dce},
        {"pixels", m->replay == &rc_source_pixels},
    };
    _Static_assert(sizeof all == RC_PARTS * sizeof *all, "as many as the header says");
    memcpy(part, all, sizeof all);
}
