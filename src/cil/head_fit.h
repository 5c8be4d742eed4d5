/* New rows for a head whose old rows, and the net before it, stay as they are; no old image is there.
 *
 * Features x are taken from a centre: the mean of features over the images of the old classes. The logit of new class k
 * is w_k . x + base, with base the mean of the old logits at the centre. So an image without any sign of a new class,
 * x = 0, has as much of each new class as of a usual old one. Nothing but the rows is learnt: a bias would learn that
 * all images are new, since all of them are.
 *
 * The rows make the mean cross entropy over old and new classes, plus penalty s / (2 classes) |w|^2, as small as can
 * be; s is the mean of |x|^2 over the images of new classes, so that the scale of features does not matter. Old logits
 * are constants: of each image their log-sum-exp is enough. Images of old classes, or features that stand for such, may
 * be among the examples; they hold new rows down.
 *
 * A guard follows. Where new classes are easily told apart, their logits would rise far above old ones and claim
 * old images that look a little alike. Folds of the images tell the margin of a new class above the best old one on
 * images that a fit has not seen. If its median is more than `margin`, all new logits are lowered by the difference. */
#ifndef RC_CIL_HEAD_FIT_H
#define RC_CIL_HEAD_FIT_H

#include "base/pool.h"

/* Images as a head sees them. */
typedef struct rc_head_examples {
    int images, d, classes; /* classes: new ones */
    const double *feature;  /* (images, d): from the centre */
    const int32_t *label;   /* (images): number of the new class, from 0 on; negative: an old class */
    const double *old_sum;  /* (images): log-sum-exp of the old logits, minus base; -INFINITY: there is no old class */
    const double *old_best; /* (images): the largest old logit, minus base */
    const double *weight;   /* (images): of each cross entropy in the sum; NULL: the mean of all */
    rc_pool *pool;          /* NULL: this thread alone */
} rc_head_examples;

typedef struct rc_head_rule {
    double penalty;
    double margin; /* infinite: no guard */
} rc_head_rule;

/* docs/pretrained.md says how they were chosen. */
rc_head_rule rc_head_usual_rule(void);

typedef struct rc_head_fitted {
    double shift;   /* to be added to the new logits: 0 or less */
    double median;  /* of the margins, before it; NaN: there was nothing to find it with */
    double loss;    /* what was made small */
    int iterations; /* of all fits */
} rc_head_fitted;

/* Bytes that a fit holds beside the examples. */
size_t rc_head_fit_bytes(int images, int d, int classes);

/* row (classes, d). Every new class has an image, and every weight is positive. RC_NUMERIC: numbers are not finite.
 * RC_CANCELLED: the thread is to stop. */
rc_status rc_head_fit(const rc_head_examples *examples, const rc_head_rule *rule, double *row, rc_head_fitted *fitted);

/* What is made small, for tests: its value for these rows and its gradient (classes, d). */
rc_status rc_head_loss(const rc_head_examples *examples, const rc_head_rule *rule, const double *row, double *gradient,
                       double *loss);

#endif
