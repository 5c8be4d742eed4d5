/* Every number a method is run with, one row each; cil/setting.h says what a row consists of. The defaults are the
 * published ones for CIFAR-100. */
#ifndef RC_CIL_SETTINGS_H
#define RC_CIL_SETTINGS_H

#include "cil/setting.h"
#include "nn/nets.h"

enum { RC_GENERATORS_MOST = 8 };

/* clang-format off */
#define RC_SETTINGS(X) \
    /* kind  name                   default      takes                read by, help */ \
    X(SEED,   seed,                  1,           RANGE(0, 0x1p63),    "everything", \
      "seed of every random number") \
    /* Nets, by the names of nn/nets.h; width, blocks and noise matter to the small ones. */ \
    X(TEXT,   net,                   "resnet32",  ONE_OF(RC_BACKBONES), "net", \
      "backbone") \
    X(WHOLE,  net_width,             16,          RANGE(1, 4096),      "resnet-small", \
      "channels of the first stage of resnet-small") \
    X(WHOLE,  net_blocks,            1,           RANGE(1, 32),        "resnet-small", \
      "blocks a stage of resnet-small") \
    X(TEXT,   generator,             "generator", ONE_OF(RC_GENERATORS), "inversion", \
      "net that makes dreams") \
    X(WHOLE,  generators,            0,           RANGE(0, RC_GENERATORS_MOST), "inversion", \
      "how many of them are inverted, one after the other; each makes an equal part of the dreams; 0: two for cwd+, " \
      "one for others") \
    X(WHOLE,  generator_width,       32,          RANGE(2, 4096),      "generator-small", \
      "channels of generator-small") \
    X(WHOLE,  noise,                 1000,        RANGE(1, 65536),     "generator-small", \
      "inputs of generator-small") \
    /* Batches: as many dreams as real samples. */ \
    X(WHOLE,  batch,                 128,         RANGE(2, 65536),     "training", \
      "real samples a step; there are as many replayed ones") \
    X(WHOLE,  crop_pad,              4,           RANGE(0, 64),        "training", \
      "pixels of zero padding before a random crop") \
    X(SWITCH, flip,                  true,        EITHER,              "training", \
      "random horizontal flips") \
    X(NUMBER, zoom,                  0,           RANGE(0, 0.9),       "training", \
      "part of an image's side that a random zoom cuts off at most; 0: no zoom") \
    X(NUMBER, colour,                0,           RANGE(0, 1),         "training", \
      "how far factors of brightness, contrast and saturation are from 1 at most; 0: colours stay") \
    X(SWITCH, trivial,               false,       EITHER,              "training", \
      "every new image meets one random operation of random strength (TrivialAugment)") \
    X(TEXT,   rotations,             "method",    ONE_OF("method|off|first|all"), "training", \
      "images turned by 90, 180 and 270 degrees are classes of their own while a task trains: in the first, in all; " \
      "method: in all of cwd+, in none of others") \
    X(WHOLE,  cutout,                0,           RANGE(0, 1024),      "training", \
      "side of a square of a new image, in pixels, that becomes the mean; 0: none") \
    X(NUMBER, mixup,                 0,           RANGE(0, 100),       "training", \
      "a of Beta(a, a), which says how much of its neighbour a new image and its label get; 0: nothing") \
    X(NUMBER, cutmix,                0,           RANGE(0, 100),       "training", \
      "a of Beta(a, a), which says how large a box of its neighbour, and of its label, a new image gets; 0: none") \
    X(NUMBER, smoothing,             0,           RANGE(0, 0.99),      "training", \
      "part of a new image's label that all classes of its cross entropy share") \
    /* Training, per task. The last refine_epochs of the epochs refine the head; in the first task they do nothing. \
     * min_steps 0: as many steps as the epochs have. */ \
    X(WHOLE,  epochs,                200,         RANGE(1, 100000),    "training", \
      "epochs a task, refinement included") \
    X(WHOLE,  refine_epochs,         40,          RANGE(0, 99999),     "training", \
      "how many of the last epochs refine the head") \
    X(WHOLE,  min_steps,             0,           RANGE(0, 10000000),  "training", \
      "fewest steps of training, and of refinement, however small the task") \
    X(WHOLE,  trained_stages,        0,           RANGE(0, 16),        "training", \
      "stages of the net, from its end on, that learn once there are old classes; the others stay; 0: all learn") \
    X(NUMBER, learning_rate,         0.1,         RANGE(0, 100),       "training", \
      "learning rate of main training") \
    X(NUMBER, rate_later,            1,           RANGE(0, 100),       "training", \
      "factor of that rate once there are old classes") \
    X(SWITCH, cosine,                false,       EITHER,              "training", \
      "the learning rate falls to 0 along a cosine, without milestones") \
    X(LIST,   milestone,             (80, 120),   RANGE(0, 1000000),   "training", \
      "epochs at which the learning rate is multiplied by decay") \
    X(NUMBER, decay,                 0.1,         RANGE(0, 1),         "training", \
      "factor of the learning rate at a milestone") \
    X(WHOLE,  average,               0,           RANGE(0, 100000),    "training", \
      "last epochs of main training whose models are averaged; 0: the last one counts") \
    X(NUMBER, average_old,           0,           RANGE(0, 1),         "training", \
      "share of the old model in the mean with the new one after main training, where the method asks the old one") \
    X(NUMBER, refine_rate,           0.005,       RANGE(0, 100),       "refinement", \
      "learning rate of refinement") \
    X(NUMBER, momentum,              0.9,         RANGE(0, 0.9999),    "training", \
      "momentum of SGD") \
    X(NUMBER, weight_decay,          0.0005,      RANGE(0, 1),         "training", \
      "weight decay of SGD") \
    /* Weights of the losses of training. */ \
    X(NUMBER, lambda_ce,             0.5,         RANGE(0, 1e6),       "adaptive weights", \
      "weight of cross entropy") \
    X(NUMBER, lambda_hkd,            0.15,        RANGE(0, 1e6),       "adaptive weights", \
      "weight of hard distillation") \
    X(NUMBER, lambda_rkd,            0.5,         RANGE(0, 1e6),       "rkd", \
      "weight of relational distillation") \
    X(NUMBER, lambda_war,            0.1,         RANGE(0, 1e6),       "war", \
      "weight of the alignment of norms (CwD)") \
    X(NUMBER, kd_temperature,        2,           RANGE(0.001, 1e9),   "kd", \
      "temperature of the distillation of softened logits (LwF, DeepInversion, SS-IL, DGR)") \
    X(NUMBER, kd_weight,             1,           RANGE(0, 1e6),       "kd", \
      "weight of the distillation of softened logits") \
    X(NUMBER, feature_weight,        0.1,         RANGE(0, 1e6),       "feature", \
      "weight of the distillation of features (ABD)") \
    /* What cwd+ adds to CwD; 0: nothing. Losses of training are scaled like relational distillation. */ \
    X(NUMBER, plus_kd_new,           0,           RANGE(0, 1e6),       "plus", \
      "weight of the distillation of softened logits on new images (cwd+)") \
    X(NUMBER, plus_kd_dreams,        0,           RANGE(0, 1e6),       "plus", \
      "weight of the distillation of softened logits on dreams (cwd+)") \
    X(NUMBER, plus_ce_dreams,        0,           RANGE(0, 1e6),       "plus", \
      "weight of cross entropy of dreams over the old classes (cwd+)") \
    X(NUMBER, plus_feature,          0,           RANGE(0, 1e6),       "plus", \
      "weight of the distillation of features as the old head sees them (cwd+)") \
    X(NUMBER, plus_drawn,            2,           RANGE(0, 1e6),       "plus", \
      "weight, in refinement, of cross entropy on features drawn from moved class statistics (cwd+)") \
    X(TEXT,   plus_statistics,       "moved",     ONE_OF("dreams|moved|moved-dreams"), "plus", \
      "old classes' statistics are estimated from dreams, or are stored ones moved by a map of images (and dreams)") \
    X(SWITCH, plus_variances,        false,       EITHER,              "plus", \
      "every class keeps the variances of its own features beside the shared covariance, where statistics are moved") \
    X(SWITCH, plain_statistics,      false,       EITHER,              "dce", \
      "class statistics are of images as they are tested, neither cropped nor mirrored") \
    X(SWITCH, class_covariances,     false,       EITHER,              "dce", \
      "a first task keeps a covariance of every class, for lessons of the head (nets of up to 128 features)") \
    /* What is stored of old images. */ \
    X(WHOLE,  buffer_size,           0,           RANGE(0, 100000000), "buffer", \
      "images that ER and LODE keep, at most; 0: as the method says (500 or 5120)") \
    X(NUMBER, lode_rho,              0,           RANGE(0, 1e6),       "lode", \
      "weight of new against old in LODE, over the number of old tasks; 0: as the method says (0.05 or 0.01)") \
    X(WHOLE,  vae_width,             512,         MULTIPLES(8, 4096),  "autoencoder", \
      "channels of the smallest map of DGR's autoencoder; others are in proportion") \
    /* Inversion. */ \
    X(WHOLE,  inversion_steps,       5000,        RANGE(1, 10000000),  "inversion", \
      "steps of inversion a task") \
    X(NUMBER, inversion_rate,        0.001,       RANGE(0, 100),       "inversion", \
      "learning rate of Adam in inversion") \
    X(NUMBER, temperature,           1000,        RANGE(0.001, 1e9),   "inversion", \
      "temperature of the content loss") \
    X(NUMBER, weight_content,        1,           RANGE(0, 1e6),       "inversion", \
      "weight of the content loss") \
    X(NUMBER, weight_diversity,      1,           RANGE(0, 1e6),       "inversion", \
      "weight of the diversity loss") \
    X(NUMBER, weight_bn,             50,          RANGE(0, 1e6),       "inversion", \
      "weight of the BN statistics loss") \
    X(NUMBER, weight_prior,          0,           RANGE(0, 1e6),       "inversion", \
      "weight of the smoothing prior") \
    X(NUMBER, lambda_dce,            0.05,        RANGE(0, 1e6),       "dce", \
      "weight of the consistency of dreams (CwD)") \
    X(NUMBER, dce_momentum,          0.9,         RANGE(0, 0.9999),    "dce", \
      "moving average of the dreams' statistics") \
    X(NUMBER, diversity_epsilon,     1e-06,       RANGE(0, 1),         "inversion", \
      "added inside the logarithm of the diversity loss") \
    /* Inversion of pixels in place of a generator. */ \
    X(WHOLE,  pixel_batches,         8,           RANGE(1, 4096),      "pixels", \
      "batches of images that DeepInversion on pixels makes a task") \
    X(WHOLE,  pixel_steps,           2000,        RANGE(1, 1000000),   "pixels", \
      "steps for each of these batches") \
    X(WHOLE,  pixel_jitter,          2,           RANGE(0, 1024),      "pixels", \
      "pixels by which images are shifted at most before every step") \
    X(NUMBER, pixel_rate,            0.05,        RANGE(0, 100),       "pixels", \
      "learning rate of Adam for pixels") \
    X(NUMBER, pixel_bn,              5,           RANGE(0, 1e6),       "pixels", \
      "weight of the BN statistics for pixels") \
    X(NUMBER, pixel_variation,       2.5e-05,     RANGE(0, 1e6),       "pixels", \
      "weight of the total variation of pixels") \
    X(NUMBER, pixel_norm,            3e-08,       RANGE(0, 1e6),       "pixels", \
      "weight of the norm of pixels") \
    /* Where the printed formulas and the published code differ (docs/methods/cwd.md). false: as the code. A profile \
     * turns all settings whose names begin with paper_. */ \
    X(SWITCH, paper_dce,             false,       EITHER,              "dce", \
      "DCE as printed: sum of norms of batch statistics") \
    X(SWITCH, paper_bn_sum,          false,       EITHER,              "inversion", \
      "BN loss summed over layers, as printed") \
    X(SWITCH, paper_war_mean,        false,       EITHER,              "war", \
      "WAR divided by the number of classes, as printed") \
    X(SWITCH, paper_constant_scale,  false,       EITHER,              "adaptive weights", \
      "loss weights that class counts do not scale, as printed") \
    X(SWITCH, paper_no_refinement,   false,       EITHER,              "training", \
      "no head refinement, as printed")
/* clang-format on */

/* int batch; double learning_rate; ...: a field of its name for each row. */
typedef struct rc_settings {
    RC_SETTINGS(RC_SETTING_FIELD)
} rc_settings;

/* A row; NULL when there are no more. */
const rc_setting *rc_settings_row(int index);
/* The published settings for CIFAR-100, `code` profile. */
rc_settings rc_settings_default(void);
/* Turns every paper_* switch on, or off. */
void rc_settings_paper_profile(rc_settings *settings);
void rc_settings_code_profile(rc_settings *settings);
/* Ranges; the message names the setting and its value. */
rc_status rc_settings_check(const rc_settings *settings);

#endif
