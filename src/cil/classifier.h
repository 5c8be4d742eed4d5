/* The model that learns: a backbone and a head that grows by one block of rows per task. */
#ifndef RC_CIL_CLASSIFIER_H
#define RC_CIL_CLASSIFIER_H

#include "nn/model.h"

typedef struct rc_classifier {
    rc_model backbone;
    rc_head head;
} rc_classifier;

/* A classifier of `classes` classes; the net must outlive it. On failure nothing is held. */
rc_status rc_classifier_create(rc_classifier *classifier, const rc_net *net, rc_backend *backend, int classes);
void rc_classifier_destroy(rc_classifier *classifier);

/* A copy of its own: the teacher of the next task. */
rc_status rc_classifier_clone(rc_classifier *copy, const rc_classifier *classifier);

/* WA (docs/methods/debiasing.md): scales the head's rows from n_old on so that their mean norm is that of the rows
 * before. Waits for the backend. */
rc_status rc_classifier_align_rows(rc_classifier *classifier, int n_old);

/* Does the generator make images that the classifier takes? */
rc_status rc_check_dreams(const rc_net *generator, const rc_net *classifier);

/* Features a net ends in: channels of its average pooling. */
int rc_net_features(const rc_net *net);

#endif
