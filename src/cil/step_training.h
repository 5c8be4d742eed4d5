/* One iteration of main training or of head refinement (docs/methods), as a list of enqueued
 * operations.
 *
 * Without replay: a batch of real samples. With replay: a batch of replayed ones beside it. Both halves go through the
 * student in one call, as two groups with their own batch statistics or as one, and through the teacher in one call:
 * its features of the real half serve RKD, its logits of the replayed half are the targets of distillation and, by
 * argmax, the labels where the source knows none.
 *
 * All memory is taken by create; a step allocates nothing and leaves nothing to the host but the values of its losses.
 */
#ifndef RC_CIL_STEP_TRAINING_H
#define RC_CIL_STEP_TRAINING_H

#include "cil/classifier.h"
#include "cil/objective.h"
#include "cil/replay.h"
#include "nn/optimiser.h"
#include "nn/pass.h"

/* Training data in backend memory. */
typedef struct rc_resident_data {
    const uint8_t *images; /* (count, h, w, c) */
    const int32_t *labels; /* (count), positions in the class order */
    const int32_t *order;  /* (count) order of the epoch */
    rc_augment augment;
} rc_resident_data;

/* Streams of random numbers inside a task; see backend.h for how a step counts in them. */
enum rc_stream {
    RC_STREAM_AUGMENT = 1,
    RC_STREAM_DREAMS,
    RC_STREAM_INVERSION,
    RC_STREAM_ESTIMATION, /* and the next one */
    RC_STREAM_AUGMENT_REPLAY = 6,
    RC_STREAM_LATENT,     /* noise of an autoencoder */
    RC_STREAM_SAMPLE = 9, /* dreams to look at */
    RC_STREAM_MIX,        /* squares of zeros, shares of neighbours */
    RC_STREAM_VARY,       /* operations on bytes, turns */
    RC_STREAM_ORDER = 16,
    RC_STREAM_HEAD,
    RC_STREAM_PROJECTION,        /* and the next one */
    RC_STREAM_TURNED = 25,       /* rows of the head for images that are turned */
    RC_STREAM_REPLAY = 20,       /* which stored images a step replays */
    RC_STREAM_RESERVOIR,         /* where an image goes; of the whole stream, not of a task */
    RC_STREAM_DRAWN = 23,        /* features of moved class statistics */
    RC_STREAM_TARGETS = 22,      /* labels that pixels are optimised for */
    RC_STREAM_STAND_INS = 24,    /* whose place beside a mean a stand-in of an old class takes */
    RC_STREAM_WINDOWS = 27,      /* of images that are decoded when they are read; one an epoch */
    RC_STREAM_BACKBONE = 0x1000, /* one per layer from here on */
    RC_STREAM_GENERATOR = 0x2000,
    RC_STREAM_ENCODER = 0x3000,
    RC_STREAM_DECODER = 0x3800,
    RC_STREAM_PIXELS = 0x4000, /* one per batch of images from here on */
    RC_STREAM_JITTER = 0x8000  /* likewise */
};

/* Generator `index` of a task begins and learns with random numbers of its own; the first one has the streams as they
 * are. */
static inline uint32_t rc_stream_of_generator(uint32_t stream, int index)
{
    return stream | (uint32_t)index << 20;
}

typedef struct rc_training_settings {
    int batch; /* real samples, of this process */
    int n_old; /* classes before this task */
    rc_objective losses;
    bool paper_war;  /* divided by the number of classes */
    bool trivial;    /* new images meet a random operation */
    bool turns;      /* ... and turned ones are classes of their own, in main training */
    rc_mix mix;      /* of new images; mixes none where labels cannot be shared: LODE, or a source that learns */
    float smoothing; /* of their labels, in main training */
    float kd_temperature;
    rc_sgd sgd;
    int drawn;  /* features that refinement takes beside both halves (rc_training_give_drawn); 0: none */
    int frozen; /* the first layers of the student that stay as they are */
    uint64_t seed;
    uint32_t task;
} rc_training_settings;

typedef struct rc_training rc_training;

/* `teacher` is NULL if neither a loss nor a source without labels needs it, `replay` if there is none. The training
 * takes the replay over, also on failure; everything else must outlive it. */
rc_status rc_training_create(rc_backend *backend, const rc_training_settings *settings, rc_classifier *student,
                             const rc_classifier *teacher, rc_replay *replay, const rc_resident_data *data,
                             rc_training **training);
void rc_training_destroy(rc_training *training);

/* The step's counters, learning rate and loss weights: the host's copy, and sending it. */
rc_step *rc_training_control(rc_training *training);
void rc_training_send(rc_training *training);

/* One step: forward, losses, backward, update. For rc_backend.repeat: the context is the training. */
void rc_training_step(void *training);
/* The same in two halves, for tests that look at gradients or bring their own batch. */
void rc_training_batch(rc_training *training);     /* makes the batch: augmented images, replay, labels */
void rc_training_gradients(rc_training *training); /* forward, losses, backward */
void rc_training_update(rc_training *training);

/* Before the first step of an epoch, or of its rest: lets the replay prepare on the host. */
rc_status rc_training_prepare_epoch(rc_training *training, int epoch);
/* Beginning of an epoch: class weights of the refinement from the labels counted so far. */
void rc_training_begin_epoch(rc_training *training);

/* From here on the backbone and the projections are frozen: the head learns from class-balanced cross entropy on both
 * halves, the losses of the replayed half and WAR, its momentum carried over. Takes memory. */
rc_status rc_training_begin_refinement(rc_training *training);
void rc_training_refinement_step(void *training);

/* Refinement's features (settings.drawn, d) and their labels, from the host, between steps. */
void rc_training_give_drawn(rc_training *training, const float *features, const int32_t *labels);

/* Names all that a step changes, for checkpoints. */
rc_status rc_training_register(rc_training *training, rc_state *state);

/* What tests and reports read; backend memory. */
typedef struct rc_training_view {
    rc_tensor *input;     /* (rows, h, w, c): real samples, then replayed ones */
    int32_t *labels;      /* (rows), behind the losses */
    void *features;       /* (rows, d) real */
    void *logits;         /* (rows, classes) real; rows are longer where images are turned */
    void *teacher_logits; /* (rows, n_old) real; of the real half only where a loss wants them */
    void *projection;     /* P_s weight (2d, d), bias (2d), then P_t likewise: real */
    void *loss;           /* (RC_LOSS_COUNT) real: unweighted values of the last step, see rc_losses_take */
    void *backbone_gradient, *head_gradient, *projection_gradient;
    void *bias_gradient;   /* of the head; NULL: it has no bias */
    void *turned_gradient; /* of the rows for turned images; NULL: there are none */
    int32_t *label_count;  /* (classes): labels seen so far, real and replayed */
    size_t bytes;          /* backend memory held */
} rc_training_view;

rc_training_view rc_training_look(rc_training *training);

#endif
