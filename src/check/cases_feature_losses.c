/* Cases of the losses on features, on the head's weights and on statistics. */
#include "check/case.h"

#include <math.h>

enum { MAX_LAYERS = 4 };

typedef struct feature_case {
    int n, d, classes, n_old;
    bool paper;
    float momentum;
    rc_bn_loss_form form;
    int layers, channels[MAX_LAYERS];
    int features, teacher, head, labels, workspace, weight, value, dfeatures, dteacher;
    int class_mean, covariance, running_mean, running_covariance, seen;
    int mean[MAX_LAYERS], var[MAX_LAYERS], layer_mean[MAX_LAYERS], layer_var[MAX_LAYERS], dmean[MAX_LAYERS],
        dvar[MAX_LAYERS];
} feature_case;

/* ---- ABD's feature distillation --------------------------------------------------------------------------------- */

static void draw_feature(rc_case *c)
{
    feature_case *p = rc_case_parameters(c);
    p->n = RC_CHOOSE(c, 1, 3, 16, 33);
    p->d = RC_CHOOSE(c, 3, 17, 64);
    p->n_old = RC_CHOOSE(c, 1, 5, 20, 50);
    rc_case_say(c, "n %d, d %d, old %d", p->n, p->d, p->n_old);
    p->features = rc_case_real(c, "features", RC_IN, p->n, p->d);
    p->teacher = rc_case_real(c, "teacher", RC_IN, p->n, p->d);
    p->head = rc_case_parameter(c, "head", RC_IN, p->n_old, p->d, 1 / sqrt((double)p->d));
    p->workspace = rc_case_real(c, "workspace", RC_SCRATCH, p->n, p->n_old);
    p->weight = rc_case_weight(c, "weight");
    p->value = rc_case_value(c, "value", p->weight, (double)p->n * p->n_old + p->d);
    p->dfeatures = rc_case_added(c, "dfeatures", p->features, 0.1 / p->n, (double)p->d + p->n_old);
}

static void run_feature(rc_run *r)
{
    const feature_case *p = rc_run_parameters(r);
    r->be->loss_feature(r->be, p->n, p->d, p->n_old, rc_at(r, p->features), rc_at(r, p->teacher), rc_at(r, p->head),
                        rc_at(r, p->workspace), rc_at(r, p->weight), rc_at(r, p->value), rc_at(r, p->dfeatures));
}

/* ---- RKD ------------------------------------------------------------------------------------------------------ */

static void draw_rkd_buffers(rc_case *c, feature_case *p)
{
    p->features = rc_case_real(c, "student", RC_IN, p->n, p->d);
    p->teacher = rc_case_real(c, "teacher", RC_IN, p->n, p->d);
    p->workspace = rc_case_buffer(c, "workspace", RC_BUFFER_RKD_WORKSPACE, RC_SCRATCH, p->n, 1, 1, p->d);
    p->weight = rc_case_weight(c, "weight");
    p->value = rc_case_value(c, "value", p->weight, (double)p->n * p->n + p->d);
    c->buffer[p->value].magnitude = 1; /* a mean of differences of angles, which are of size 1 */
    /* Each embedding is in 3 n^2 of n^3 terms whose signs nearly cancel. */
    double spread = 0.5 / p->n / sqrt((double)p->n * p->d);
    p->dfeatures = rc_case_added(c, "dstudent", p->features, spread, (double)p->n * p->n + p->d);
    p->dteacher = rc_case_added(c, "dteacher", p->teacher, spread, (double)p->n * p->n + p->d);
    /* Two embeddings have no angle: the gradient is 0. */
    c->buffer[p->dfeatures].magnitude = c->buffer[p->dteacher].magnitude = spread;
}

static void draw_rkd(rc_case *c)
{
    feature_case *p = rc_case_parameters(c);
    p->n = RC_CHOOSE(c, 2, 3, 5, 8, 17);
    p->d = RC_CHOOSE(c, 2, 5, 16, 64, 128);
    if (!c->quick && rc_case_chance(c, 10))
        p->n = RC_CHOOSE(c, 33, 130);
    if (c->number == 0) /* more than one for each lane of a warp */
        p->n = 33;
    if (c->number == 1) /* more than a warp's lanes take at a time */
        p->n = 130;
    if (c->number == 2 && !c->quick) /* more than a block takes at a time */
        p->n = 260;
    rc_case_say(c, "n %d, d %d", p->n, p->d);
    draw_rkd_buffers(c, p);
    if (p->n > 33) { /* of millions of angles rounding would decide about some signs: so many have eight shapes */
        for (int i = 8 * p->d; c->status == RC_OK && i < p->n * p->d; i++) {
            c->buffer[p->features].host[i] = c->buffer[p->features].host[i % (8 * p->d)];
            c->buffer[p->teacher].host[i] = c->buffer[p->teacher].host[i % (8 * p->d)];
        }
        c->buffer[p->dfeatures].gradient_of = c->buffer[p->dteacher].gradient_of = -1; /* equal ones: as below */
    }
    if (c->number == 3) { /* equal angles have no gradient */
        rc_case_say(c, " equal");
        for (int i = 0; c->status == RC_OK && i < p->n * p->d; i++)
            c->buffer[p->teacher].host[i] = c->buffer[p->features].host[i];
        c->buffer[p->dfeatures].gradient_of = c->buffer[p->dteacher].gradient_of = -1; /* and each its own kink */
        return;
    }
    if (p->n > 2 && rc_case_chance(c, 20)) { /* two equal embeddings have no direction */
        rc_case_say(c, " twins");
        for (int i = 0; c->status == RC_OK && i < p->d; i++)
            c->buffer[p->features].host[i] = c->buffer[p->features].host[p->d + i];
        c->buffer[p->dfeatures].gradient_of = -1; /* not differentiable there */
    }
}

static void run_rkd(rc_run *r)
{
    const feature_case *p = rc_run_parameters(r);
    r->be->loss_rkd(r->be, p->n, p->d, rc_at(r, p->features), rc_at(r, p->teacher), rc_at(r, p->workspace),
                    rc_at(r, p->weight), rc_at(r, p->value), rc_at(r, p->dfeatures), rc_at(r, p->dteacher));
}

static bool bench_rkd(rc_case *c, int index, int n)
{
    feature_case *p = rc_case_parameters(c);
    if (index > 0 || c->net->layer[0].kind != RC_LAYER_CONV)
        return false;
    p->n = n;
    p->d = 128;
    c->flops = 2.0 * n * n * (4 * 128 + 6.0 * n); /* two Gram matrices, two products back, some six per angle */
    rc_case_say(c, "n %d, d 128", n);
    draw_rkd_buffers(c, p);
    return true;
}

/* ---- WAR ------------------------------------------------------------------------------------------------------ */

static void draw_war(rc_case *c)
{
    feature_case *p = rc_case_parameters(c);
    p->classes = RC_CHOOSE(c, 2, 3, 10, 40, 100);
    p->n_old = 1 + (int)rc_case_below(c, (uint32_t)p->classes - 1);
    p->d = RC_CHOOSE(c, 1, 5, 64);
    p->paper = rc_case_chance(c, 40);
    rc_case_say(c, "classes %d, old %d, d %d%s", p->classes, p->n_old, p->d, p->paper ? " paper" : "");
    p->features = rc_case_parameter(c, "head", RC_IN, p->classes, p->d, 1);
    p->weight = rc_case_weight(c, "weight");
    p->value = rc_case_value(c, "value", p->weight, (double)p->classes + p->d);
    p->dfeatures = rc_case_added(c, "dhead", p->features, p->paper ? 0.5 / p->classes : 0.5, (double)p->classes + p->d);
}

static void run_war(rc_run *r)
{
    const feature_case *p = rc_run_parameters(r);
    r->be->loss_war(r->be, p->classes, p->n_old, p->d, p->paper, rc_at(r, p->features), rc_at(r, p->weight),
                    rc_at(r, p->value), rc_at(r, p->dfeatures));
}

/* ---- DCE ------------------------------------------------------------------------------------------------------ */

static void draw_dce_buffers(rc_case *c, feature_case *p, bool all_seen)
{
    p->features = rc_case_real(c, "features", RC_IN, p->n, p->d);
    p->labels = rc_case_labels(c, "labels", p->n, p->classes);
    p->class_mean = rc_case_real(c, "class_mean", RC_IN, p->classes, p->d);
    p->covariance = rc_case_real(c, "covariance", RC_IN, p->d, p->d);
    p->running_mean = rc_case_sum(c, rc_case_real(c, "running_mean", RC_IN_OUT, p->classes, p->d), p->n);
    p->running_covariance = rc_case_sum(c, rc_case_real(c, "running_covariance", RC_IN_OUT, p->d, p->d), p->n);
    for (int i = 0; c->status == RC_OK && i < p->d; i++) /* covariances are symmetric */
        for (int j = 0; j < i; j++) {
            double *stored = c->buffer[p->covariance].host, *running = c->buffer[p->running_covariance].host;
            stored[i * p->d + j] = stored[j * p->d + i];
            running[i * p->d + j] = running[j * p->d + i];
        }
    p->seen = rc_case_buffer(c, "seen", RC_BUFFER_INT, RC_IN_OUT, p->classes, 1, 1, 1);
    for (int k = 0; k < p->classes; k++)
        rc_case_set(c, p->seen, (size_t)k, all_seen || (k && rc_case_chance(c, 50)));
    p->workspace = rc_case_buffer(c, "workspace", RC_BUFFER_DCE_WORKSPACE, RC_SCRATCH, p->n, p->d, 1, p->classes);
    p->weight = rc_case_weight(c, "weight");
    p->value = rc_case_value(c, "value", p->weight, (double)p->n + p->d);
    p->dfeatures = rc_case_added(c, "dfeatures", p->features, 0.1 / p->n, (double)p->n + p->d);
}

static void draw_dce(rc_case *c)
{
    feature_case *p = rc_case_parameters(c);
    p->n = RC_CHOOSE(c, 2, 5, 16, 33);
    p->d = RC_CHOOSE(c, 1, 3, 17, 32);
    p->classes = RC_CHOOSE(c, 2, 5, 20);
    if (!c->quick && rc_case_chance(c, 20)) {
        p->n = 128;
        p->d = 64;
    }
    if (c->number == 0) /* more samples than a block of a GPU has threads */
        p->n = 260;
    p->paper = rc_case_chance(c, 30);
    p->momentum = rc_case_chance(c, 70) ? 0.9f : 0;
    bool all_seen = rc_case_chance(c, 60);
    rc_case_say(c, "n %d, d %d, classes %d, momentum %g%s%s", p->n, p->d, p->classes, (double)p->momentum,
                all_seen ? " all seen" : "", p->paper ? " paper" : "");
    draw_dce_buffers(c, p, all_seen);
    if (rc_case_chance(c, 40)) { /* a class that the last task never dreamt of */
        rc_case_say(c, " unknown class");
        rc_case_set(c, p->class_mean, (size_t)p->d * rc_case_below(c, (uint32_t)p->classes), NAN);
    }
}

static void run_dce(rc_run *r)
{
    const feature_case *p = rc_run_parameters(r);
    rc_dce dce = {.n = p->n,
                  .d = p->d,
                  .classes = p->classes,
                  .momentum = p->momentum,
                  .paper = p->paper,
                  .class_mean = rc_at(r, p->class_mean),
                  .covariance = rc_at(r, p->covariance),
                  .running_mean = rc_at(r, p->running_mean),
                  .running_covariance = rc_at(r, p->running_covariance),
                  .seen = rc_at(r, p->seen),
                  .workspace = rc_at(r, p->workspace)};
    r->be->loss_dce(r->be, &dce, rc_at(r, p->features), rc_at(r, p->labels), rc_at(r, p->weight), rc_at(r, p->value),
                    rc_at(r, p->dfeatures));
}

static bool bench_dce(rc_case *c, int index, int n)
{
    feature_case *p = rc_case_parameters(c);
    if (index > 0 || c->net->layer[0].kind != RC_LAYER_CONV)
        return false;
    p->n = n;
    p->d = 64;
    p->classes = 50;
    p->momentum = 0.9f;
    c->flops = 2.0 * 2 * n * 64 * 64; /* the covariance and its product with the residuals */
    rc_case_say(c, "n %d, d 64, classes 50", n);
    draw_dce_buffers(c, p, true);
    return true;
}

/* ---- statistics of BN inputs ---------------------------------------------------------------------------------- */

static void draw_bn(rc_case *c)
{
    feature_case *p = rc_case_parameters(c);
    p->form = (rc_bn_loss_form)RC_CHOOSE(c, RC_BN_KL, RC_BN_KL_SUM, RC_BN_L2);
    p->layers = 1 + (int)rc_case_below(c, MAX_LAYERS);
    rc_case_say(c, "form %d, channels", p->form);
    p->weight = rc_case_weight(c, "weight");
    for (int l = 0; l < p->layers; l++) {
        int channels = p->channels[l] = RC_CHOOSE(c, 1, 3, 16, 17, 64);
        rc_case_say(c, " %d", channels);
        p->mean[l] = rc_case_channel(c, "mean", RC_IN, 1, channels);
        p->var[l] = rc_case_channel(c, "var", RC_IN, 1, channels);
        p->layer_mean[l] = rc_case_parameter(c, "running_mean", RC_IN, 1, channels, 1);
        p->layer_var[l] = rc_case_parameter(c, "running_var", RC_IN, 1, channels, 0);
        for (int i = 0; i < channels; i++) {
            rc_case_set(c, p->var[l], (size_t)i, rc_case_uniform(c, 0.3, 3));
            rc_case_set(c, p->layer_var[l], (size_t)i, rc_case_chance(c, 10) ? 4e-8 : rc_case_uniform(c, 0.3, 3));
        }
        p->dmean[l] = rc_case_gradient(c, rc_case_channel(c, "dmean", RC_OUT, 1, channels), p->mean[l], channels);
        p->dvar[l] = rc_case_gradient(c, rc_case_channel(c, "dvar", RC_OUT, 1, channels), p->var[l], channels);
    }
    p->value = rc_case_value(c, "value", p->weight, 64.0 * p->layers);
}

static void run_bn(rc_run *r)
{
    const feature_case *p = rc_run_parameters(r);
    rc_bn_stat layer[MAX_LAYERS];
    for (int l = 0; l < p->layers; l++)
        layer[l] = (rc_bn_stat){p->channels[l],
                                rc_at(r, p->mean[l]),
                                rc_at(r, p->var[l]),
                                rc_at(r, p->layer_mean[l]),
                                rc_at(r, p->layer_var[l]),
                                rc_at(r, p->dmean[l]),
                                rc_at(r, p->dvar[l])};
    r->be->loss_bn(r->be, p->form, layer, p->layers, rc_at(r, p->weight), rc_at(r, p->value));
}

static const rc_operation operations[] = {
    {"loss_feature", "loss_feature", 10, 100, sizeof(feature_case), draw_feature, NULL, run_feature, NULL},
    {"loss_rkd", "loss_rkd rkd_workspace", 20, 150, sizeof(feature_case), draw_rkd, NULL, run_rkd, bench_rkd},
    {"loss_war", "loss_war", 15, 100, sizeof(feature_case), draw_war, NULL, run_war, NULL},
    {"loss_dce", "loss_dce dce_workspace", 20, 150, sizeof(feature_case), draw_dce, NULL, run_dce, bench_dce},
    {"loss_bn", "loss_bn", 15, 100, sizeof(feature_case), draw_bn, NULL, run_bn, NULL},
};
const rc_operation_list rc_cases_feature_losses = {operations, sizeof operations / sizeof *operations};
