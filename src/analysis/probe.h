/* A linear probe: how far a linear classifier gets on given features, with all real images. Softmax regression with a
 * bias, on standardised features, as scikit-learn's LogisticRegression(C=1) computes it:
 *
 *     mean cross entropy + |W|^2 / (2 n), the bias not among W
 *
 * minimised by L-BFGS. Value and gradient come from the backend, on all images at once. */
#ifndef RC_ANALYSIS_PROBE_H
#define RC_ANALYSIS_PROBE_H

#include "backend/backend.h"

enum { RC_PROBE_STEPS = 300 };  /* of L-BFGS at most */
#define RC_PROBE_TOLERANCE 1e-5 /* it ends when no entry of the gradient is larger */

typedef struct rc_probe {
    int d, classes;
    double *weight; /* (classes, d): of the features as they are, not standardised */
    double *shift;  /* (classes) */
    double loss;    /* the sum above */
    int steps;
} rc_probe;

/* features (n, d), labels (n) below `classes`. */
rc_status rc_probe_fit(rc_backend *backend, int n, int d, const float *features, const int32_t *labels, int classes,
                       rc_probe *probe);
void rc_probe_destroy(rc_probe *probe); /* a zeroed one is fine */

#endif
