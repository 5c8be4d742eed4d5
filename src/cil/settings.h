/* Every number a method is run with. config/config.c has the table that names, documents and reads them; the values
 * here are the published ones for CIFAR-100. */
#ifndef RC_CIL_SETTINGS_H
#define RC_CIL_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "nn/schedule.h"

typedef struct rc_settings {
    /* Nets, by the names of nn/nets.h; width, blocks and noise matter to the small ones. */
    char net[32], generator[32];
    int net_width, net_blocks;
    int generator_width, noise;

    /* Batches: as many dreams as real samples. */
    int batch;
    int crop_pad;
    bool flip;

    /* Training, per task. The last refine_epochs of the epochs refine the head; in the first task they do nothing. */
    int epochs, refine_epochs;
    int min_steps; /* at least so many steps of main training (and of refinement) however small the task; 0: none */
    double learning_rate, decay;
    int milestones, milestone[RC_MAX_MILESTONES];
    double refine_rate, momentum, weight_decay;
    double lambda_ce, lambda_hkd, lambda_rkd, lambda_war;
    double kd_temperature, kd_weight, feature_weight;

    /* What is stored of old images. */
    int buffer_size; /* images at most (ER, LODE) */
    double lode_rho; /* weight of "new against old" in LODE, over the number of old tasks */
    int vae_width;   /* channels of the smallest map of DGR's autoencoder */

    /* Inversion. */
    int inversion_steps;
    double inversion_rate, temperature;
    double weight_content, weight_diversity, weight_bn, weight_prior, lambda_dce;
    double dce_momentum, diversity_epsilon;

    /* Inversion of pixels in place of a generator. */
    int pixel_batches, pixel_steps, pixel_jitter;
    double pixel_rate, pixel_bn, pixel_variation, pixel_norm;

    /* Where the printed formulas and the published code differ (docs/methods/cwd.md). False: as the code. */
    bool paper_dce;            /* sum of norms, divisor n, batch statistics */
    bool paper_bn_sum;         /* BN loss summed over layers */
    bool paper_war_mean;       /* WAR divided by the number of classes */
    bool paper_constant_scale; /* loss weights not scaled by class counts */
    bool paper_no_refinement;  /* all epochs are main training */

    uint64_t seed;
} rc_settings;

/* The published settings for CIFAR-100, `code` profile. */
rc_settings rc_settings_default(void);
/* Turns every paper_* switch on, or off. */
void rc_settings_paper_profile(rc_settings *settings);
void rc_settings_code_profile(rc_settings *settings);
/* Ranges; the message names the setting and its value. */
rc_status rc_settings_check(const rc_settings *settings);

#endif
