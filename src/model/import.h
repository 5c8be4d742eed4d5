/* Published weights as a model: which net they are of, whether they fit, and the model that they make. */
#ifndef RC_MODEL_IMPORT_H
#define RC_MODEL_IMPORT_H

#include "model/labels.h"
#include "model/model_file.h"
#include "model/weights.h"
#include "nn/published.h"

/* Is it one of the published nets? The message lists them. */
rc_status rc_import_check_net(const char *net);

/* The net whose tensors these are, all of them with their shapes and no others; `net` NULL: any that is published.
 * Names may begin with module., model. and backbone., and counters of batches are passed over. What does not fit is
 * named: tensor, shape found, shape expected. *classes: rows of the head. `source` is what messages call the weights.
 */
rc_status rc_import_recognise(const char *source, const rc_weights *weights, const char *net,
                              const rc_published **published, int *classes);

/* A model of these weights, which rc_import_recognise has found to fit. config: with the net, the size and channels of
 * its images. The model takes over the names of the labels, as many as there are classes. On failure nothing is held,
 * and the labels are as they were. */
rc_status rc_import_build(const rc_weights *weights, const rc_published *published, const rc_config *config,
                          const rc_method *method, rc_labels *labels, rc_backend *backend, rc_saved_model *model);

#endif
