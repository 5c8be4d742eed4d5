/* Forward passes outside training: images as bytes in, logits and features out on the host. Serves evaluation and
 * prediction. */
#ifndef RC_CIL_SCORER_H
#define RC_CIL_SCORER_H

#include "cil/classifier.h"
#include "cil/views.h"
#include "nn/pass.h"

typedef struct rc_scorer rc_scorer;

/* normalisation: mean and std of the images; the rest of it is ignored. On a sizing backend: without the staging of a
 * batch of images, bytes on the host. */
rc_status rc_scorer_create(rc_backend *backend, const rc_classifier *classifier, int batch,
                           const rc_augment *normalisation, rc_scorer **scorer);
void rc_scorer_destroy(rc_scorer *scorer); /* NULL is fine */

/* From here on logits and features are the means of those of all views, which takes memory. */
rc_status rc_scorer_look(rc_scorer *scorer, rc_views views);

/* images (count, h, w, c) bytes on the host, index (n) of the ones wanted or NULL: the first n. logits (n, classes),
 * features (n, d); either may be NULL. RC_NUMERIC: a logit is not finite. */
rc_status rc_scorer_run(rc_scorer *scorer, const uint8_t *images, const int32_t *index, int n, float *logits,
                        float *features);

#endif
