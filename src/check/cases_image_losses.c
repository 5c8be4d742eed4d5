/* Cases of the losses on images and on the latent code. */
#include "check/case.h"

typedef struct image_case {
    rc_lazy x, target, mean, log_variance, z;
    float scale;
    int weight, value, dx, sample_weight, noise, dz, dmean, dlog_variance;
} image_case;

/* Finished images: plain, or stored with something pending that the operation must ignore. */
static rc_lazy draw_images(rc_case *c)
{
    int n = 1 + (int)rc_case_below(c, 3), size = RC_CHOOSE(c, 3, 4, 5, 7, 12), channels = RC_CHOOSE(c, 1, 3, 3, 5);
    int width = rc_case_chance(c, 70) ? size : 6;
    if (!c->quick && rc_case_chance(c, 20))
        size = width = 32;
    rc_case_say(c, "(%d,%d,%d,%d)", n, size, width, channels);
    return rc_case_plain(c, "x", RC_IN, n, size, width, channels, (rc_groups){1, {n}});
}

static image_case *draw_prior(rc_case *c)
{
    image_case *p = rc_case_parameters(c);
    p->x = draw_images(c);
    p->weight = rc_case_weight(c, "weight");
    return p;
}

static double pixels(const rc_lazy *x)
{
    return (double)x->n * x->h * x->w * x->c;
}

static void draw_smoothing(rc_case *c)
{
    image_case *p = draw_prior(c);
    p->value = rc_case_value(c, "value", p->weight, pixels(&p->x));
    p->dx = rc_case_added(c, "dx", p->x.raw, 1 / pixels(&p->x), 25);
}

static void run_smoothing(rc_run *r)
{
    const image_case *p = rc_run_parameters(r);
    rc_tensor x = rc_run_tensor(r, &p->x);
    r->be->loss_smoothing(r->be, &x, rc_at(r, p->weight), rc_at(r, p->value), rc_at(r, p->dx));
}

static void draw_total_variation(rc_case *c)
{
    image_case *p = draw_prior(c);
    p->value = rc_case_value(c, "value", p->weight, pixels(&p->x));
    p->dx = rc_case_added(c, "dx", p->x.raw, 0.1, 8 + pixels(&p->x));
}

static void run_total_variation(rc_run *r)
{
    const image_case *p = rc_run_parameters(r);
    rc_tensor x = rc_run_tensor(r, &p->x);
    r->be->loss_total_variation(r->be, &x, rc_at(r, p->weight), rc_at(r, p->value), rc_at(r, p->dx));
}

static void run_image_norm(rc_run *r)
{
    const image_case *p = rc_run_parameters(r);
    rc_tensor x = rc_run_tensor(r, &p->x);
    r->be->loss_image_norm(r->be, &x, rc_at(r, p->weight), rc_at(r, p->value), rc_at(r, p->dx));
}

/* ---- autoencoder ---------------------------------------------------------------------------------------------- */

/* Plain, or as a decoder leaves it: then the slope depends on the value before it was rounded, and dx is that of the
 * value, not of what the case knows. */
static void draw_reconstruction(rc_case *c)
{
    image_case *p = draw_prior(c);
    rc_lazy *x = &p->x;
    p->target = rc_case_plain(c, "target", RC_IN, x->n, x->h, x->w, x->c, (rc_groups){1, {x->n}});
    if (rc_case_chance(c, 50)) {
        x->act = RC_ACT_SIGMOID;
        x->value = rc_case_sum(c, rc_case_act(c, "value of x", RC_OUT, x->n, x->h, x->w, x->c), 3);
        rc_case_say(c, " sigmoid");
    }
    for (size_t i = 0; i < c->buffer[x->raw].count; i++) {
        rc_case_set(c, x->raw, i, x->act ? rc_case_uniform(c, -2, 2) : rc_case_uniform(c, 0.05, 0.95));
        rc_case_set(c, p->target.raw, i, rc_case_uniform(c, 0, 1));
    }
    p->sample_weight = -1;
    if (rc_case_chance(c, 50)) {
        p->sample_weight = rc_case_real(c, "sample_weight", RC_IN, 1, p->x.n);
        for (int b = 0; b < p->x.n; b++)
            rc_case_set(c, p->sample_weight, (size_t)b, rc_case_uniform(c, 0.5, 2));
    }
    p->value = rc_case_value(c, "value", p->weight, pixels(x));
    p->dx = rc_case_added(c, "dx", x->raw, 1 / pixels(x), 1);
    if (x->act)
        c->buffer[p->dx].gradient_of = -1;
}

static void run_reconstruction(rc_run *r)
{
    const image_case *p = rc_run_parameters(r);
    rc_tensor x = rc_run_tensor(r, &p->x), target = rc_run_tensor(r, &p->target);
    if (x.act)
        r->be->materialise(r->be, &x);
    r->be->loss_reconstruction(r->be, &x, &target, rc_at(r, p->sample_weight), rc_at(r, p->weight), rc_at(r, p->value),
                               rc_at(r, p->dx));
}

static void draw_code(rc_case *c, image_case *p)
{
    int n = 1 + (int)rc_case_below(c, 6), d = RC_CHOOSE(c, 1, 3, 17, 64);
    rc_case_say(c, "n %d, d %d", n, d);
    p->mean = rc_case_plain(c, "mean", RC_IN, n, 1, 1, d, (rc_groups){1, {n}});
    p->log_variance = rc_case_plain(c, "log_variance", RC_IN, n, 1, 1, d, (rc_groups){1, {n}});
}

static void draw_latent(rc_case *c)
{
    image_case *p = rc_case_parameters(c);
    draw_code(c, p);
    p->scale = rc_case_chance(c, 50) ? 1 : 0.01f;
    p->weight = rc_case_weight(c, "weight");
    p->value = rc_case_value(c, "value", p->weight, pixels(&p->mean));
    p->dmean = rc_case_added(c, "dmean", p->mean.raw, (double)p->scale / p->mean.n, 1);
    p->dlog_variance = rc_case_added(c, "dlog_variance", p->log_variance.raw, (double)p->scale / p->mean.n, 1);
}

static void run_latent(rc_run *r)
{
    const image_case *p = rc_run_parameters(r);
    rc_tensor mean = rc_run_tensor(r, &p->mean), log_variance = rc_run_tensor(r, &p->log_variance);
    r->be->loss_latent(r->be, &mean, &log_variance, p->scale, rc_at(r, p->weight), rc_at(r, p->value),
                       rc_at(r, p->dmean), rc_at(r, p->dlog_variance));
}

static void draw_sample(rc_case *c)
{
    image_case *p = rc_case_parameters(c);
    draw_code(c, p);
    int n = p->mean.n, d = p->mean.c;
    p->noise = rc_case_act(c, "noise", RC_IN, n, 1, 1, d);
    p->z = rc_case_plain(c, "z", RC_OUT, n, 1, 1, d, (rc_groups){1, {n}});
    p->dz = c->buffer[p->z.raw].cotangent = rc_case_act(c, "dz", RC_IN, n, 1, 1, d);
    p->dmean = rc_case_added(c, "dmean", p->mean.raw, 1, 1);
    p->dlog_variance = rc_case_added(c, "dlog_variance", p->log_variance.raw, 1, 1);
}

static void run_sample(rc_run *r)
{
    const image_case *p = rc_run_parameters(r);
    rc_tensor mean = rc_run_tensor(r, &p->mean), log_variance = rc_run_tensor(r, &p->log_variance);
    rc_tensor z = rc_run_tensor(r, &p->z);
    r->be->latent_sample(r->be, &mean, &log_variance, rc_at(r, p->noise), &z);
    r->be->latent_sample_backward(r->be, &mean, &log_variance, rc_at(r, p->noise), rc_at(r, p->dz), rc_at(r, p->dmean),
                                  rc_at(r, p->dlog_variance));
}

static rc_status reserve(rc_run *r)
{
    const image_case *p = rc_run_parameters(r);
    return r->be->reserve_losses(r->be, p->x.n, 1, p->x.h, p->x.w, p->x.c);
}

static const rc_operation operations[] = {
    {"loss_smoothing", "loss_smoothing", 10, 80, sizeof(image_case), draw_smoothing, reserve, run_smoothing, NULL},
    {"loss_total_variation", "loss_total_variation", 10, 80, sizeof(image_case), draw_total_variation, reserve,
     run_total_variation, NULL},
    {"loss_image_norm", "loss_image_norm", 10, 80, sizeof(image_case), draw_total_variation, reserve, run_image_norm,
     NULL},
    {"loss_reconstruction", "loss_reconstruction", 10, 80, sizeof(image_case), draw_reconstruction, reserve,
     run_reconstruction, NULL},
    {"loss_latent", "loss_latent", 10, 80, sizeof(image_case), draw_latent, NULL, run_latent, NULL},
    {"latent_sample", "latent_sample latent_sample_backward", 10, 80, sizeof(image_case), draw_sample, NULL, run_sample,
     NULL},
};
const rc_operation_list rc_cases_image_losses = {operations, sizeof operations / sizeof *operations};
