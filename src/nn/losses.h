/* The reader's index: from an equation of the papers to the entry of the table (backend.h) that computes it. The
 * formula and its gradient stand above each function in backend/cpu/reference/; this page says which one to look for.
 *
 * loss                                         entry                  form
 * -------------------------------------------- ---------------------- -------------------------------------------
 * inversion: dreams from noise
 *   content, tau = 1000                        loss_cross_entropy     temperature 1000, labels = argmax of the logits
 *   diversity of classes, L_div                loss_diversity         epsilon 0 (R-DFCIL, ABD), 1e-6 (CwD)
 *   BN statistics, L_stat                      loss_bn                RC_BN_KL (code), RC_BN_KL_SUM (printed)
 *   image prior                                loss_smoothing
 *   dual consistency of features, L_dce        loss_dce               momentum 0.9 (code), paper (printed)
 *   DeepInversion on pixels: TV, L2, BN        loss_total_variation, loss_image_norm, loss_bn with RC_BN_L2
 * main training
 *   cross entropy over all classes             loss_cross_entropy     first 0, count K
 *   local cross entropy, L_lce                 loss_cross_entropy     first n_old, count n_new
 *   split cross entropy (SCE, SS-IL) of dreams loss_cross_entropy     first 0, count n_old
 *   asymmetric cross entropy (ACE)             loss_cross_entropy     local on real samples, all K on dreams
 *   class-weighted mean (ABD, DGR)             loss_cross_entropy     RC_MEAN with class weights
 *   label smoothing, mixup, CutMix             loss_cross_entropy     smoothing; partner and share, which mix makes
 *   hard knowledge distillation, L_hkd         loss_hkd               mean absolute error of raw logits
 *   relational distillation, L_rkd             loss_rkd               gradients to both projections
 *   weight alignment, L_war                    loss_war               sum (code), divided by classes (paper)
 *   feature distillation (ABD)                 loss_feature
 *   distillation (LwF, DGR)                    loss_kd                T = 2, old logits
 *   distillation of dreams (DeepInversion)     loss_kd                student_count K, teacher_count n_old
 *   task-wise distillation (SS-IL)             loss_kd                kl, t_squared, one call per old task
 *   loss decoupling (LODE)                     loss_decoupled         inter, intra
 * head refinement
 *   class-balanced cross entropy               loss_cross_entropy     RC_WEIGHTED_MEAN, weights of balance_weights
 * generative replay (DGR)
 *   reconstruction, latent code                loss_reconstruction, loss_latent; latent_sample draws the code
 * estimation
 *   class means and tied covariance            class_statistics, class_statistics_finish
 *
 * A loss adds weight * gradient and overwrites its value slot with the unweighted value; two calls that share a term
 * (one call per old task, say) need a slot each.
 */
#ifndef RC_NN_LOSSES_H
#define RC_NN_LOSSES_H

#include <math.h>

/* Adaptive loss scale of R-DFCIL and CwD: alpha = log2(n_new / 2 + 1), beta = sqrt(n_old / n_new). In main training
 *     local cross entropy   lambda_ce  * cross_entropy      cross_entropy = (1 + 1 / alpha) / beta
 *     HKD, RKD              lambda     * distillation       distillation  = alpha * beta
 * and WAR is not scaled. Both counts are at least 1. */
typedef struct rc_loss_scale {
    double cross_entropy, distillation;
} rc_loss_scale;

static inline rc_loss_scale rc_adaptive_loss_scale(int n_old, int n_new)
{
    double alpha = log2(n_new / 2.0 + 1), beta = sqrt((double)n_old / n_new);
    return (rc_loss_scale){(1 + 1 / alpha) / beta, alpha * beta};
}

#endif
