/* Accuracy on test images: confusion matrix first, everything else from it. */
#ifndef RC_CIL_EVALUATION_H
#define RC_CIL_EVALUATION_H

#include "base/json.h"
#include "cil/scorer.h"
#include "cil/task_stream.h"

typedef struct rc_evaluation {
    int classes;        /* seen so far */
    int32_t *confusion; /* (classes, classes): rows are true labels, columns predictions */
    int32_t *top5;      /* (classes): true label among the five largest logits */
    int8_t *right;      /* (images of the split): 1: right, 0: wrong, -1: not of a class that was scored */
} rc_evaluation;

/* Where images of class `label` are counted that were taken for class `said`. */
static inline size_t rc_confusion_at(int classes, int label, int said)
{
    return (size_t)label * (size_t)classes + (size_t)said;
}

/* Files and texts hold the whole matrix of up to so many classes, and only the cells that are not 0 of more: these are
 * no more than there are test images. */
enum { RC_WHOLE_CONFUSION = 500 };
/* "confusion": the rows of the matrix, none if there are too many; then "confused": [class, taken for, images], ... */
void rc_confusion_put(const int32_t *confusion, int classes, rc_json_writer *w);

/* How images are scored, and how a caller looks on. `progress` is called between batches, about twice a second and at
 * the end; false stops the scoring with RC_CANCELLED. NULL: nobody looks on. */
typedef struct rc_scoring {
    bool (*progress)(void *user, const char *what, int done, int total);
    void *user;
    rc_views views; /* by the means over these */
} rc_scoring;

/* Scores the images of the classes at positions [0, classes of the classifier) of the stream. scoring NULL: as
 * they are, and nobody looks on. */
rc_status rc_evaluate(rc_backend *backend, const rc_classifier *classifier, const rc_augment *normalisation,
                      const rc_task_stream *stream, const rc_split *test, int batch, const rc_scoring *scoring,
                      rc_evaluation *evaluation);
void rc_evaluation_destroy(rc_evaluation *evaluation);

/* Top-1 and top-5 accuracy in percent over the true labels [first, end); NaN without samples. */
double rc_accuracy(const rc_evaluation *evaluation, int first, int end);
double rc_accuracy_top5(const rc_evaluation *evaluation, int first, int end);

/* From the matrix R (tasks, tasks), R[i][j] = accuracy on task j after task i (docs/methods/README.md); tasks
 * finished. */
double rc_backward_transfer(const double *matrix, int stride, int tasks);
double rc_forgetting(const double *matrix, int stride, int tasks);

#endif
