#include "cil/settings.h"

#include <math.h>

rc_settings rc_settings_default(void)
{
    return (rc_settings){
        .net = "resnet32",
        .generator = "generator",
        .net_width = 16,
        .net_blocks = 1,
        .generator_width = 32,
        .noise = 1000,
        .batch = 128,
        .crop_pad = 4,
        .flip = true,
        .epochs = 200,
        .refine_epochs = 40,
        .learning_rate = 0.1,
        .decay = 0.1,
        .milestones = 2,
        .milestone = {80, 120},
        .refine_rate = 0.005,
        .momentum = 0.9,
        .weight_decay = 5e-4,
        .lambda_ce = 0.5,
        .lambda_hkd = 0.15,
        .lambda_rkd = 0.5,
        .lambda_war = 0.1,
        .kd_temperature = 2,
        .kd_weight = 1,
        .feature_weight = 0.1,
        .buffer_size = 500,
        .lode_rho = 0.05,
        .vae_width = 512,
        .inversion_steps = 5000,
        .inversion_rate = 1e-3,
        .temperature = 1000,
        .weight_content = 1,
        .weight_diversity = 1,
        .weight_bn = 50,
        .weight_prior = 0,
        .lambda_dce = 0.05,
        .dce_momentum = 0.9,
        .diversity_epsilon = 1e-6,
        .pixel_batches = 8,
        .pixel_steps = 2000,
        .pixel_jitter = 2,
        .pixel_rate = 0.05,
        .pixel_bn = 5,
        .pixel_variation = 2.5e-5,
        .pixel_norm = 3e-8,
        .seed = 1,
    };
}

static void set_profile(rc_settings *settings, bool paper)
{
    settings->paper_dce = paper;
    settings->paper_bn_sum = paper;
    settings->paper_war_mean = paper;
    settings->paper_constant_scale = paper;
    settings->paper_no_refinement = paper;
}

void rc_settings_paper_profile(rc_settings *settings)
{
    set_profile(settings, true);
}

void rc_settings_code_profile(rc_settings *settings)
{
    set_profile(settings, false);
}

static rc_status in_range(const char *name, double value, double low, double high)
{
    if (isfinite(value) && value >= low && value <= high)
        return RC_OK;
    return rc_fail(RC_INVALID_ARGUMENT, "%s is %.10g, expected %.10g to %.10g", name, value, low, high);
}

rc_status rc_settings_check(const rc_settings *s)
{
    RC_TRY(in_range("net_width", s->net_width, 1, 4096));
    RC_TRY(in_range("net_blocks", s->net_blocks, 1, 32));
    RC_TRY(in_range("generator_width", s->generator_width, 2, 4096));
    RC_TRY(in_range("noise", s->noise, 1, 65536));
    RC_TRY(in_range("batch", s->batch, 2, 65536));
    RC_TRY(in_range("crop_pad", s->crop_pad, 0, 64));
    RC_TRY(in_range("epochs", s->epochs, 1, 100000));
    RC_TRY(in_range("refine_epochs", s->refine_epochs, 0, s->epochs - 1));
    RC_TRY(in_range("min_steps", s->min_steps, 0, 10000000));
    RC_TRY(in_range("learning_rate", s->learning_rate, 0, 100));
    RC_TRY(in_range("decay", s->decay, 0, 1));
    for (int i = 0; i < s->milestones; i++)
        RC_TRY(in_range("milestones", s->milestone[i], i ? s->milestone[i - 1] : 0, 1e6));
    RC_TRY(in_range("refine_rate", s->refine_rate, 0, 100));
    RC_TRY(in_range("momentum", s->momentum, 0, 0.9999));
    RC_TRY(in_range("weight_decay", s->weight_decay, 0, 1));
    RC_TRY(in_range("lambda_ce", s->lambda_ce, 0, 1e6));
    RC_TRY(in_range("lambda_hkd", s->lambda_hkd, 0, 1e6));
    RC_TRY(in_range("lambda_rkd", s->lambda_rkd, 0, 1e6));
    RC_TRY(in_range("lambda_war", s->lambda_war, 0, 1e6));
    RC_TRY(in_range("kd_temperature", s->kd_temperature, 1e-3, 1e9));
    RC_TRY(in_range("kd_weight", s->kd_weight, 0, 1e6));
    RC_TRY(in_range("feature_weight", s->feature_weight, 0, 1e6));
    RC_TRY(in_range("buffer_size", s->buffer_size, 1, 100000000));
    RC_TRY(in_range("lode_rho", s->lode_rho, 0, 1e6));
    RC_TRY(in_range("vae_width", s->vae_width, 8, 4096));
    if (s->vae_width % 8 != 0)
        return rc_fail(RC_INVALID_ARGUMENT, "vae_width is %d, expected a multiple of 8", s->vae_width);
    RC_TRY(in_range("inversion_steps", s->inversion_steps, 1, 10000000));
    RC_TRY(in_range("inversion_rate", s->inversion_rate, 0, 100));
    RC_TRY(in_range("temperature", s->temperature, 1e-3, 1e9));
    RC_TRY(in_range("weight_content", s->weight_content, 0, 1e6));
    RC_TRY(in_range("weight_diversity", s->weight_diversity, 0, 1e6));
    RC_TRY(in_range("weight_bn", s->weight_bn, 0, 1e6));
    RC_TRY(in_range("weight_prior", s->weight_prior, 0, 1e6));
    RC_TRY(in_range("lambda_dce", s->lambda_dce, 0, 1e6));
    RC_TRY(in_range("pixel_batches", s->pixel_batches, 1, 4096));
    RC_TRY(in_range("pixel_steps", s->pixel_steps, 1, 1000000));
    RC_TRY(in_range("pixel_jitter", s->pixel_jitter, 0, 1024));
    RC_TRY(in_range("pixel_rate", s->pixel_rate, 0, 100));
    RC_TRY(in_range("pixel_bn", s->pixel_bn, 0, 1e6));
    RC_TRY(in_range("pixel_variation", s->pixel_variation, 0, 1e6));
    RC_TRY(in_range("pixel_norm", s->pixel_norm, 0, 1e6));
    RC_TRY(in_range("dce_momentum", s->dce_momentum, 0, 0.9999));
    return in_range("diversity_epsilon", s->diversity_epsilon, 0, 1);
}
