/* The stream of tasks: classes in their order, cut into tasks; images and labels of each task. */
#ifndef RC_CIL_TASK_STREAM_H
#define RC_CIL_TASK_STREAM_H

#include "base/status.h"
#include "data/dataset.h"
#include "nn/model.h"

typedef struct rc_task_stream {
    int classes;
    int *order;    /* (classes): native class at each position; the position is the label */
    int *position; /* (classes): the inverse */
    int tasks;
    int task_end[RC_MAX_TASKS]; /* classes of task t are positions [task_end[t-1], task_end[t]) */
} rc_task_stream;

/* How the classes are cut. sizes: explicit list (must sum to the classes). Otherwise `tasks` tasks; first > 0: size of
 * the first, which the rest must divide; first_fraction > 0: that part of the classes. Where the rest does not divide,
 * the first task takes the remainder. */
typedef struct rc_task_split {
    int sizes, size[RC_MAX_TASKS];
    int tasks, first;
    double first_fraction;
} rc_task_split;

/* order: (classes) native classes by position, a permutation; NULL: as they are. */
rc_status rc_task_stream_create(rc_task_stream *stream, int classes, const int *order, const rc_task_split *split);
void rc_task_stream_destroy(rc_task_stream *stream);

/* First position of a task, and how many classes it has. */
int rc_task_first(const rc_task_stream *stream, int task);
int rc_task_classes(const rc_task_stream *stream, int task);

/* Indices of the images of positions [first, end) in a split, ascending. Free with rc_free(NULL, ...). */
rc_status rc_task_images(const rc_task_stream *stream, const rc_split *split, int first, int end, int32_t **index,
                         int *count);
/* The same with at most `most` images of every class, the first ones; 0: all. On failure nothing is held. */
rc_status rc_task_some_images(const rc_task_stream *stream, const rc_split *split, int first, int end, int most,
                              int32_t **index, int *count);
/* All images of a split, where they lie. The split must stay. */
rc_lent_images rc_lend_split(const rc_dataset *data, const rc_split *split);
/* These images of the training set, where they lie, to be lent to a learner. lent->index is *index. labels: (count)
 * positions. Free both with rc_free(NULL, ...); on failure they are NULL. */
rc_status rc_task_lend(const rc_task_stream *stream, const rc_dataset *data, int first, int end, int most,
                       rc_lent_images *lent, int32_t **index, int32_t **labels);

/* An epoch has max(1, count / batch) batches; a task smaller than a batch repeats its permutation to fill one. */
int rc_epoch_batches(int count, int batch);
/* Order of an epoch: (batches * batch) numbers below count, written to `order`; `scratch` holds count numbers. */
void rc_epoch_order(uint64_t seed, int task, int epoch, int count, int batch, int32_t *order, uint32_t *scratch);

#endif
