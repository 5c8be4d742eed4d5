/* The inside of a training step, shared by step_training.c (what it is made of, the order of things) and step_losses.c
 * (the losses that an objective names). */
#ifndef RC_CIL_STEP_LOSSES_H
#define RC_CIL_STEP_LOSSES_H

#include "cil/step_training.h"

struct rc_training {
    rc_backend *backend;
    rc_training_settings settings;
    rc_classifier *student;
    const rc_classifier *teacher; /* NULL: not needed */
    rc_replay *replay;            /* NULL: none */
    rc_resident_data data;

    int rows;    /* of a step: the real batch, then the replayed one */
    int d;       /* features */
    int classes; /* old and new */
    int columns; /* of logits: behind the classes, three times the new ones for images that are turned, if there are */

    rc_pass *student_pass, *teacher_pass;
    rc_pass *frozen_pass; /* the student in eval mode, for refinement */
    rc_tensor input;      /* (rows, h, w, c) */
    rc_optimiser *optimiser;

    rc_step control; /* the host's copy */
    void *memory;    /* one block that holds all of the following */
    size_t bytes;
    rc_step *step;
    int32_t *labels, *label_count;
    uint8_t *varied;       /* (settings.batch, h, w, c) bytes that the batch is made of; NULL: the images as they are */
    rc_step *varied_step;  /* the step, for batch 0 of varied_order */
    int32_t *varied_order; /* (parts * settings.batch) */
    int32_t *turned_labels;              /* (settings.batch) of the real half; NULL: nothing is turned */
    void *turned_head, *turned_gradient; /* (columns - classes, d) */
    int32_t *partner; /* (rows) second labels of mixed images, 0 behind the real half; NULL: none are mixed */
    void *share;      /* (rows) what the first ones count: 1 behind the real half */
    void *logits, *dlogits, *teacher_logits, *loss;
    void *class_weight; /* (classes) of refinement: balances the labels counted so far */
    void *task_weight;  /* (classes) of objectives with class weights: the same all task long; else NULL */
    void *backbone_gradient, *head_gradient;
    void *bias_gradient;                        /* (classes); NULL: the head has no bias */
    void *feature_workspace;                    /* (rows, n_old) */
    void *drawn, *drawn_logits, *ddrawn_logits; /* (settings.drawn, d), (settings.drawn, classes) */
    int32_t *drawn_labels;
    void *task_values, *task_ones; /* (old tasks): values of RC_KD_TASKS, and ones to sum them with */
    /* Relations: P_s and P_t map features to twice as many. */
    void *projection, *projection_gradient;
    void *student_embedding, *teacher_embedding, *dstudent_embedding, *dteacher_embedding, *rkd_workspace;
};

/* Columns of the logits that these settings ask for. */
int rc_losses_columns(const rc_training *training);
/* Memory of the losses, their reservations and what they begin with. */
void rc_losses_carve(rc_training *training, rc_arena *arena);
rc_status rc_losses_reserve(rc_training *training);
rc_status rc_losses_begin(rc_training *training);
size_t rc_projection_reals(int d);

/* Losses on logits of the replayed half; of main training and of refinement. */
void rc_losses_of_replay(rc_training *training);
/* Losses on logits of the real half, in main training. */
void rc_losses_of_real(rc_training *training);
/* Relations, in main training: what the teacher alone decides; the loss, as gradients of both embeddings; gradients of
 * the projections. */
void rc_losses_embed_teacher(rc_training *training);
void rc_losses_of_relations(rc_training *training, const void *features);
void rc_losses_of_projections(rc_training *training, const void *features);
/* Losses on features, in main training, after relations: adds to dfeatures (rows, d). */
void rc_losses_of_features(rc_training *training, const void *features, void *dfeatures);
/* Cross entropy that moves the head alone: what it adds to dlogits must not reach the features. */
void rc_losses_of_head(rc_training *training);
/* Cross entropy on drawn features, added to the head's gradient; of refinement. */
void rc_losses_of_drawn(rc_training *training);
/* WAR, added to the head's gradient; of main training and of refinement. */
void rc_losses_of_rows(rc_training *training);

#endif
