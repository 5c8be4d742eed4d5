/* One iteration of the inversion stage (docs/methods/rdfcil.md, cwd.md), as a list of enqueued operations: a
 * generator in train mode makes images from noise; the frozen old classifier, in eval mode, says how well they fit
 * what it remembers (content, diversity, statistics of its BN inputs, DCE); Adam moves the generator.
 *
 * The original, pixel-optimising form has images in the generator's place (pixels.h): their labels are
 * given, and before every look they are moved by a few pixels; content, total variation, norm and BN statistics count.
 */
#ifndef RC_CIL_STEP_INVERSION_H
#define RC_CIL_STEP_INVERSION_H

#include "cil/step_training.h"

typedef struct rc_pixel_form {
    const int32_t *labels; /* (batch) on the host; NULL: it is a generator that is trained */
    int jitter;            /* pixels at most, in both directions */
    uint32_t stream;       /* of the jitter */
} rc_pixel_form;

typedef struct rc_inversion_settings {
    int batch;
    float temperature;       /* of the content loss: 1000 */
    float diversity_epsilon; /* 1e-6 in CwD, 0 in R-DFCIL and ABD */
    rc_bn_loss_form bn_form;
    bool prior;         /* smoothing prior on the images */
    bool consistency;   /* DCE */
    float dce_momentum; /* 0.9 */
    bool dce_paper;
    const void *class_mean; /* (classes, d) real, backend memory; DCE only */
    const void *covariance; /* (d, d) real */
    rc_pixel_form pixels;
    int generator; /* which of the task's it is: each has noise of its own */
    rc_adam adam;
    uint64_t seed;
    uint32_t task;
} rc_inversion_settings;

typedef struct rc_inversion rc_inversion;

/* Everything given must outlive the inversion. */
rc_status rc_inversion_create(rc_backend *backend, const rc_inversion_settings *settings,
                              const rc_classifier *classifier, rc_model *generator, rc_inversion **inversion);
void rc_inversion_destroy(rc_inversion *inversion);

rc_step *rc_inversion_control(rc_inversion *inversion);
void rc_inversion_send(rc_inversion *inversion);

/* One step; for rc_backend.repeat. */
void rc_inversion_step(void *inversion);
void rc_inversion_noise(rc_inversion *inversion);
void rc_inversion_gradients(rc_inversion *inversion);
void rc_inversion_update(rc_inversion *inversion);

/* Names all that a step changes, but the generator itself, for checkpoints. */
rc_status rc_inversion_register(rc_inversion *inversion, rc_state *state);

/* What the last step has made: (batch, h, w, c) with nothing pending. Only after a step. */
const rc_tensor *rc_inversion_dreams(rc_inversion *inversion);

typedef struct rc_inversion_view {
    rc_tensor *noise;  /* (batch, 1, 1, noise) */
    rc_tensor *images; /* (batch, h, w, c), lazy */
    int32_t *labels;   /* (batch), behind the losses */
    void *features, *logits;
    void *loss; /* (RC_LOSS_COUNT) real, see rc_losses_take */
    void *generator_gradient;
    size_t bytes;
} rc_inversion_view;

rc_inversion_view rc_inversion_look(rc_inversion *inversion);

#endif
