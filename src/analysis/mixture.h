/* Densities as mixtures of Gaussians that share one covariance, and the divergence of one from another.
 *
 *     p(z) = sum_m w_m N(z; mean_m, covariance)
 *
 * Both estimates of the paper are of this kind. Tied Gaussian mixture: one component a class, w its share of the
 * samples, the covariance of what is left when every sample loses its class mean (divisor n). Kernel density: one
 * component a sample, all of the same weight, the covariance H of the kernel by Scott's rule:
 *
 *     RC_BANDWIDTH_SCOTT      H = n^(-2/(d+4)) Cov(samples), divisor n - 1; scipy's gaussian_kde
 *     RC_BANDWIDTH_ISOTROPIC  H = n^(-2/(d+4)) I; scikit-learn's KernelDensity(bandwidth="scott") */
#ifndef RC_ANALYSIS_MIXTURE_H
#define RC_ANALYSIS_MIXTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/pool.h"
#include "base/rng.h"
#include "base/status.h"

typedef enum rc_bandwidth { RC_BANDWIDTH_SCOTT, RC_BANDWIDTH_ISOTROPIC } rc_bandwidth;

typedef struct rc_mixture {
    int d, components;
    double *mean;       /* (components, d) */
    double *log_weight; /* (components) */
    double *cumulated;  /* (components): sum of the weights up to this one */
    double *lower;      /* (d, d): L L^T is the covariance */
    double *white;      /* the means times L^-1, laid out for rc_mixture_log_density */
    double log_scale;   /* of the density of a component at its mean */
    bool kernels;       /* component i is a kernel around sample i */
    double ridge;       /* part of the diagonal that a singular covariance got on top; 0: it was none (matrix.h) */
} rc_mixture;

/* From parameters: weight (components), above 0, need not sum to 1; covariance (d, d). */
rc_status rc_mixture_create(int d, int components, const double *mean, const double *weight, const double *covariance,
                            rc_mixture *mixture);
/* From samples (n, d) with labels (n), 0 to classes - 1. A class without samples has no component. */
rc_status rc_mixture_fit_classes(rc_pool *pool, int n, int d, const float *samples, const int32_t *labels, int classes,
                                 rc_mixture *mixture);
/* From samples (n, d), two or more. */
rc_status rc_mixture_fit_kernels(rc_pool *pool, int n, int d, const float *samples, rc_bandwidth bandwidth,
                                 rc_mixture *mixture);
void rc_mixture_destroy(rc_mixture *mixture); /* a zeroed one is fine */

/* out (n) = log p at points (n, d). leave_out: point number i is sample number i, and of a mixture of kernels the one
 * around it does not count (the others weigh accordingly more). */
rc_status rc_mixture_log_density(rc_pool *pool, const rc_mixture *mixture, int n, const double *points, bool leave_out,
                                 double *out);
/* n samples (n, d) of p; sample i takes elements of the streams rng.stream and rng.stream + 1. */
void rc_mixture_draw(const rc_mixture *mixture, rc_rng rng, int n, double *samples);

/* D_KL(p || q) = E_p[log p - log q] by Monte Carlo (Schulman, "Approximating KL divergence"), each estimate with its
 * standard error, the deviation of the terms (divisor n - 1) over sqrt(n). With r = q/p at a sample of p:
 *
 *     [0] k1  mean of -log r             unbiased
 *     [1] k2  mean of (log r)^2 / 2      biased, small variance if p and q are close
 *     [2] k3  mean of (r - 1) - log r    unbiased, never negative; if q is far from p, r is 0 nearly everywhere and
 *                                        k3 is k1 - 1: rare large r are then not met */
enum { RC_DIVERGENCES = 3 };
typedef struct rc_divergence {
    int samples;
    double value[RC_DIVERGENCES], error[RC_DIVERGENCES];
} rc_divergence;
/* From log p and log q (n each) at n >= 2 samples of p. */
rc_divergence rc_divergence_of(int n, const double *log_p, const double *log_q);

#endif
