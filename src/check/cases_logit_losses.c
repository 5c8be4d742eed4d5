/* Cases of the losses on logits. Every loss runs for its value and gradient at once, so one case serves comparison and
 * finite differences. Rows of logits are longer than the classes in use, by chance: the rest must stay as it is. */
#include "check/case.h"

#include <math.h>

typedef struct logit_case {
    rc_cross_entropy cross_entropy;
    rc_distillation distillation;
    int n, classes, n_old, stride, teacher_stride;
    float epsilon;
    int partner, share;
    int logits, labels, teacher, class_weight, weight, value, second_weight, second_value, dlogits;
} logit_case;

enum { IMAGENET = 9 /* the case that has as many classes as ImageNet, and ten */ };

static logit_case *draw_shape(rc_case *c)
{
    logit_case *p = rc_case_parameters(c);
    p->n = RC_CHOOSE(c, 1, 2, 5, 16, 37);
    p->classes = RC_CHOOSE(c, 2, 3, 10, 20, 45);
    if (!c->quick && rc_case_chance(c, 20)) {
        p->n = 128;
        p->classes = RC_CHOOSE(c, 100, 200);
    }
    if (c->number == IMAGENET) {
        p->n = 5;
        p->classes = 1010;
    }
    p->n_old = 1 + (int)rc_case_below(c, (uint32_t)p->classes - 1);
    p->stride = p->classes + (rc_case_chance(c, 50) ? RC_CHOOSE(c, 1, 7, 20) : 0);
    rc_case_say(c, "n %d, classes %d, old %d, stride %d", p->n, p->classes, p->n_old, p->stride);
    p->logits = rc_case_real(c, "logits", RC_IN, p->n, p->stride);
    rc_case_fill(c, p->logits, 0, rc_case_uniform(c, 0.5, 4));
    return p;
}

/* Gradients of a mean over n samples are of size 1 / n. */
static int draw_gradient(rc_case *c, const logit_case *p)
{
    return rc_case_added(c, "dlogits", p->logits, 0.5 / p->n, p->classes);
}

/* ---- cross entropy -------------------------------------------------------------------------------------------- */

/* In the range of the cross entropy. */
static int draw_labels(rc_case *c, const logit_case *p, const char *name)
{
    int labels = rc_case_labels(c, name, p->n, p->cross_entropy.count);
    for (int b = 0; c->status == RC_OK && b < p->n; b++)
        c->buffer[labels].host[b] += p->cross_entropy.first;
    return labels;
}

static void draw_cross_entropy(rc_case *c)
{
    logit_case *p = draw_shape(c);
    rc_cross_entropy *l = &p->cross_entropy;
    *l = (rc_cross_entropy){.n = p->n, .stride = p->stride, .count = p->classes, .temperature = 1};
    switch (RC_CHOOSE(c, 0, 1, 2)) {
    case 1: /* local: the new classes */
        l->first = p->n_old;
        l->count = p->classes - p->n_old;
        break;
    case 2: /* split: the old ones */ l->count = p->n_old; break;
    }
    if (rc_case_chance(c, 30))
        l->temperature = rc_case_chance(c, 50) ? 1000 : 2;
    p->class_weight = -1;
    if (rc_case_chance(c, 50)) {
        p->class_weight = rc_case_real(c, "class_weight", RC_IN, 1, p->classes);
        for (int k = 0; k < p->classes; k++)
            rc_case_set(c, p->class_weight, (size_t)k, rc_case_uniform(c, 0.5, 3));
        l->reduction = rc_case_chance(c, 50) ? RC_WEIGHTED_MEAN : RC_MEAN;
    }
    if (rc_case_chance(c, 30))
        l->smoothing = (float)rc_case_uniform(c, 0.05, 0.9);
    p->labels = draw_labels(c, p, "labels");
    p->partner = p->share = -1;
    if (rc_case_chance(c, 30)) {
        p->partner = draw_labels(c, p, "partner");
        p->share = rc_case_real(c, "share", RC_IN, 1, p->n);
        for (int b = 0; b < p->n; b++)
            rc_case_set(c, p->share, (size_t)b, rc_case_uniform(c, 0, 1));
    }
    rc_case_say(c, " range %d+%d T %g%s smoothing %.2f%s", l->first, l->count, (double)l->temperature,
                p->class_weight < 0       ? ""
                : l->reduction == RC_MEAN ? " weights"
                                          : " weighted mean",
                (double)l->smoothing, p->partner < 0 ? "" : " mixed");
    p->weight = rc_case_weight(c, "weight");
    p->value = rc_case_value(c, "value", p->weight, (double)p->n + p->classes);
    p->dlogits = draw_gradient(c, p);
    if (l->temperature > 100) /* the gradient is of size 1 / (n T) */
        rc_case_fill(c, p->dlogits, 0, 0.5 / (p->n * (double)l->temperature));
}

static void run_cross_entropy(rc_run *r)
{
    const logit_case *p = rc_run_parameters(r);
    rc_cross_entropy loss = p->cross_entropy;
    loss.partner = rc_at(r, p->partner);
    loss.share = rc_at(r, p->share);
    r->be->loss_cross_entropy(r->be, &loss, rc_at(r, p->logits), rc_at(r, p->labels), rc_at(r, p->class_weight),
                              rc_at(r, p->weight), rc_at(r, p->value), rc_at(r, p->dlogits));
}

/* ---- LODE ----------------------------------------------------------------------------------------------------- */

static void draw_decoupled(rc_case *c)
{
    logit_case *p = draw_shape(c);
    p->labels = rc_case_labels(c, "labels", p->n, p->classes - p->n_old);
    for (int b = 0; c->status == RC_OK && b < p->n; b++)
        c->buffer[p->labels].host[b] += p->n_old;
    p->weight = rc_case_weight(c, "inter_weight");
    p->second_weight = rc_case_weight(c, "intra_weight");
    p->value = rc_case_value(c, "inter", p->weight, (double)p->n + p->classes);
    p->second_value = rc_case_value(c, "intra", p->second_weight, (double)p->n + p->classes);
    c->buffer[p->value].magnitude = c->buffer[p->second_value].magnitude = 1;
    p->dlogits = draw_gradient(c, p);
}

static void run_decoupled(rc_run *r)
{
    const logit_case *p = rc_run_parameters(r);
    r->be->loss_decoupled(r->be, p->n, p->stride, p->n_old, p->classes, rc_at(r, p->logits), rc_at(r, p->labels),
                          rc_at(r, p->weight), rc_at(r, p->second_weight), rc_at(r, p->value),
                          rc_at(r, p->second_value), rc_at(r, p->dlogits));
}

/* ---- distillation --------------------------------------------------------------------------------------------- */

static void draw_hkd(rc_case *c)
{
    logit_case *p = draw_shape(c);
    p->teacher_stride = p->n_old + (rc_case_chance(c, 40) ? 3 : 0);
    p->teacher = rc_case_real(c, "teacher", RC_IN, p->n, p->teacher_stride);
    p->weight = rc_case_weight(c, "weight");
    p->value = rc_case_value(c, "value", p->weight, (double)p->n * p->n_old);
    p->dlogits = rc_case_added(c, "dlogits", p->logits, 0.5 / p->n / p->n_old, 1);
}

static void run_hkd(rc_run *r)
{
    const logit_case *p = rc_run_parameters(r);
    r->be->loss_hkd(r->be, p->n, p->n_old, rc_at(r, p->logits), p->stride, rc_at(r, p->teacher), p->teacher_stride,
                    rc_at(r, p->weight), rc_at(r, p->value), rc_at(r, p->dlogits));
}

static void draw_kd(rc_case *c)
{
    logit_case *p = draw_shape(c);
    rc_distillation *l = &p->distillation;
    int teacher_first = RC_CHOOSE(c, 0, 0, 2), teacher_extra = RC_CHOOSE(c, 0, 3);
    l->n = p->n;
    l->student_stride = p->stride;
    l->first = rc_case_chance(c, 30) ? (int)rc_case_below(c, (uint32_t)p->classes - 1) : 0;
    l->student_count = p->classes - l->first;
    l->teacher_count = rc_case_chance(c, 50) ? l->student_count : 1 + (int)rc_case_below(c, (uint32_t)l->student_count);
    l->teacher_first = teacher_first;
    l->teacher_stride = teacher_first + l->teacher_count + teacher_extra;
    l->temperature = rc_case_chance(c, 70) ? 2 : 1;
    l->kl = rc_case_chance(c, 50);
    l->t_squared = rc_case_chance(c, 50);
    rc_case_say(c, " student %d+%d teacher %d+%d T %g%s%s", l->first, l->student_count, l->teacher_first,
                l->teacher_count, (double)l->temperature, l->kl ? " kl" : "", l->t_squared ? " T^2" : "");
    p->teacher = rc_case_real(c, "teacher", RC_IN, p->n, l->teacher_stride);
    p->weight = rc_case_weight(c, "weight");
    p->value = rc_case_value(c, "value", p->weight, (double)p->n + p->classes);
    c->buffer[p->value].magnitude = 1; /* KL of nearly equal logits cancels */
    p->dlogits = draw_gradient(c, p);
}

static void run_kd(rc_run *r)
{
    const logit_case *p = rc_run_parameters(r);
    r->be->loss_kd(r->be, &p->distillation, rc_at(r, p->logits), rc_at(r, p->teacher), rc_at(r, p->weight),
                   rc_at(r, p->value), rc_at(r, p->dlogits));
}

/* ---- diversity ------------------------------------------------------------------------------------------------ */

static void draw_diversity(rc_case *c)
{
    logit_case *p = draw_shape(c);
    p->epsilon = rc_case_chance(c, 50) ? 1e-6f : 0;
    p->weight = rc_case_weight(c, "weight");
    p->value = rc_case_value(c, "value", p->weight, (double)p->n + p->classes);
    c->buffer[p->value].magnitude = 1;
    p->dlogits = draw_gradient(c, p);
}

static rc_status reserve_diversity(rc_run *r)
{
    const logit_case *p = rc_run_parameters(r);
    return r->be->reserve_losses(r->be, p->n, p->classes, 1, 1, 1);
}

static void run_diversity(rc_run *r)
{
    const logit_case *p = rc_run_parameters(r);
    r->be->loss_diversity(r->be, p->n, p->classes, p->stride, rc_at(r, p->logits), p->epsilon, rc_at(r, p->weight),
                          rc_at(r, p->value), rc_at(r, p->dlogits));
}

static const rc_operation operations[] = {
    {"loss_cross_entropy", "loss_cross_entropy", 30, 200, sizeof(logit_case), draw_cross_entropy, NULL,
     run_cross_entropy, NULL},
    {"loss_decoupled", "loss_decoupled", 15, 100, sizeof(logit_case), draw_decoupled, NULL, run_decoupled, NULL},
    {"loss_hkd", "loss_hkd", 15, 100, sizeof(logit_case), draw_hkd, NULL, run_hkd, NULL},
    {"loss_kd", "loss_kd", 20, 150, sizeof(logit_case), draw_kd, NULL, run_kd, NULL},
    {"loss_diversity", "loss_diversity", 15, 100, sizeof(logit_case), draw_diversity, reserve_diversity, run_diversity,
     NULL},
};
const rc_operation_list rc_cases_logit_losses = {operations, sizeof operations / sizeof *operations};
