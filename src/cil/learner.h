/* What lives while tasks come and go: the classifier, what the method stores between tasks (class means and one tied
 * covariance), and the source of what it replays, which may store more (source.h). A task adds a teacher and its
 * training images, and drops them at its end. */
#ifndef RC_CIL_LEARNER_H
#define RC_CIL_LEARNER_H

#include "cil/step_inversion.h"
#include "cil/task_steps.h"
#include "data/dataset.h"

typedef struct rc_learner {
    rc_backend *backend;
    rc_settings settings;
    const rc_method *method;
    rc_net net;
    rc_augment augment; /* image shape, normalisation, crop, flip, zoom, colour */
    rc_classifier student;

    /* Stored between tasks; backend memory. Rows of classes that were never estimated are NaN. */
    void *class_mean; /* (statistics_classes, d) real; NULL: none */
    void *covariance; /* (d, d) real */
    void
        *class_variance; /* (statistics_classes, d) real: of every class, and then both have no more digits than 16 bits
                           * hold; NULL: classes have the shared covariance alone */
    void
        *class_factor; /* (statistics_classes, rc_factor_numbers(d)) real: of every class (cil/scatter.h), by the net as
                         * it is; NULL: likewise */
    int statistics_classes;
    bool statistics_of_images; /* of every class, by the net as it is: nothing was estimated from dreams or moved */
    void *taught_mean; /* (taught, d) real: of the head's last classes, which lessons of the head alone have taught to a
                        * model without class statistics (api/adapt.h); NULL: none */
    int taught;
    rc_source *source; /* of the kind that the method's row names */

    /* The task at hand. */
    int task; /* counts from 0 */
    int n_old, n_new;
    bool joins_old; /* some of its images belong to classes that were known before */
    bool in_task;
    bool learnt;           /* all stages are done: what the task has gathered is kept */
    rc_classifier teacher; /* tasks after the first of methods that ask it */
    struct {
        bool teacher;
        bool replay; /* batches have a second half */
    } has;
    int images;        /* training images; old ones that are replayed are not among them */
    int given;         /* all that it was given */
    int batches;       /* per epoch */
    void *task_memory; /* backend: order and labels; those of source->images come after the task's */
    void *task_images; /* likewise */
    rc_resident_data data;
    int32_t *lent;       /* (given): where the images lie that the task was lent, those to train on first */
    int32_t *order_host; /* (batches * batch) */
    uint32_t *order_scratch;

    rc_state state; /* what a checkpoint holds */
} rc_learner;

rc_stored rc_learner_stored(const rc_learner *learner); /* between tasks */

/* The backbone that these settings name, for images of that shape: shape only, no weights. */
rc_status rc_learner_net(const rc_settings *settings, const rc_augment *image, rc_net *net);

/* A learner that knows nothing. image: shape (h, w, c), mean and std; all random changes come from the settings. */
rc_status rc_learner_create(rc_learner *learner, rc_backend *backend, const rc_settings *settings,
                            const rc_method *method, const rc_augment *image);
void rc_learner_destroy(rc_learner *learner); /* a zeroed or destroyed one is fine */

/* clone: an independent copy, between tasks. On failure nothing is held. move: to another place, which holds nothing;
 * the first place is zeroed. */
rc_status rc_learner_clone(rc_learner *copy, const rc_learner *learner);
void rc_learner_move(rc_learner *to, rc_learner *from);

/* Between tasks: takes other settings and another method, and drops what that method does not use. The net cannot
 * change: other settings of it are an error. On failure nothing has changed. */
rc_status rc_learner_configure(rc_learner *learner, const rc_settings *settings, const rc_method *method);
rc_status rc_learner_set_method(rc_learner *learner, const rc_method *method);

/* Memory for the statistics of all classes of the head; contents of known classes are kept, new rows are NaN. */
rc_status rc_learner_grow_statistics(rc_learner *learner);
/* Memory for variances, or for factors, of as many classes; new ones are 0. */
rc_status rc_learner_keep_variances(rc_learner *learner);
rc_status rc_learner_keep_factors(rc_learner *learner);
/* The same, and fills it from (classes, rc_factor_numbers) floats of the host. */
rc_status rc_learner_write_factors(rc_learner *learner, const float *factor);

/* Memory for the means of `more` classes behind those that lessons of the head have taught, whose contents are kept. */
rc_status rc_learner_grow_taught(rc_learner *learner, int more);

/* Begins task `task` with n_new classes: copies the teacher, begins the source's task, makes the head's rows,
 * uploads the images (count, h, w, c) with labels in the order of classes; of old classes too for methods that take
 * them. Registers the state: nothing is trained yet. images NULL: rc_learner_give_image uploads each of them before the
 * first stage; not for methods that take old images.
 * end: drops what belongs to the task, and statistics that the task has outdated. The source keeps what the task's
 * stages have given it if they are done, else it stays as it was. */
rc_status rc_learner_begin_task(rc_learner *learner, int task, int n_new, const uint8_t *images, const int32_t *labels,
                                int count);
/* The same for images that stay where they are until the task ends: image i, of labels[i], is number lent->index[i] of
 * those at lent->from. The backend copies only what it cannot read there. */
rc_status rc_learner_begin_lent(rc_learner *learner, int task, int n_new, const rc_lent_images *lent,
                                const int32_t *labels);
void rc_learner_give_image(rc_learner *learner, int index, const uint8_t *pixels);
void rc_learner_end_task(rc_learner *learner);

/* In place of a task, to look at dreams: sets up the teacher and the generator that the next task would begin with,
 * without new classes and images. Inversion is then the only stage. The method must have dreams. Ends like a task. */
rc_status rc_learner_begin_dreams(rc_learner *learner);

/* Steps of a stage of the task at hand; 0: it has none. */
uint32_t rc_stage_steps(const rc_learner *learner, rc_stage stage);

/* Opens the source, from which the second half of the batches is drawn with random numbers of `stream`. Only if
 * has.replay is set, or the source learns. */
rc_status rc_learner_replay(rc_learner *learner, uint32_t stream, rc_replay **replay);

/* A normalised image (h, w, c), as nets see it, back to bytes. */
void rc_learner_show(const rc_learner *learner, const double *pixels, uint8_t *out);

/* How images of the task are seen where class statistics are taken of them: neither zoomed nor coloured, as images are
 * that are met later; with plain_statistics neither cropped nor mirrored, too. */
rc_augment rc_estimation_augment(const rc_learner *learner);

/* Sends the order of an epoch. rest: then, that of one batch with the images that the epoch has left out, again and
 * again. Returns how many these are; 0: none, and nothing is sent. */
void rc_learner_send_order(rc_learner *learner, int epoch);
int rc_learner_send_rest(rc_learner *learner);

#endif
