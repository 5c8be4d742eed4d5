/* What lives while tasks come and go: the classifier, and what the method stores between tasks (class means and one
 * tied covariance; images or a model of them only where the row says so: ER, LODE, DGR). A task adds a teacher, a
 * generator and its training images, and drops them at its end. */
#ifndef RC_CIL_LEARNER_H
#define RC_CIL_LEARNER_H

#include "cil/methods.h"
#include "cil/pixels.h"
#include "cil/settings.h"
#include "cil/step_inversion.h"
#include "data/dataset.h"

/* What a task learns from besides its new images. */
typedef struct rc_sources {
    bool teacher;
    bool dreams;     /* a generator is inverted from the teacher */
    bool pixels;     /* images are, pixel by pixel */
    bool old_images; /* some of the images that it was given are old ones, to be replayed */
    bool replay;     /* batches have a second half, see replay.h */
} rc_sources;

/* Of a task that begins after n_old classes. */
rc_sources rc_method_sources(const rc_method *method, int n_old);

typedef struct rc_learner {
    rc_backend *backend;
    rc_settings settings;
    const rc_method *method;
    rc_net net, generator_net;
    rc_augment augment; /* image shape, normalisation, crop and flip */
    rc_classifier student;

    /* Stored between tasks; backend memory. Rows of classes that were never estimated are NaN. */
    void *class_mean;   /* (statistics_classes, d) real; NULL: none */
    void *covariance;   /* (d, d) real */
    int statistics_classes;
    rc_image_buffer buffer; /* methods with RC_REPLAY_BUFFER; else empty */
    rc_vae vae;             /* methods with RC_REPLAY_GENERATIVE; else empty */

    /* The task at hand. */
    int task;           /* counts from 0 */
    int n_old, n_new;
    bool joins_old;     /* some of its images belong to classes that were known before */
    bool in_task;
    bool learnt;        /* all stages are done: what the task has gathered is kept */
    rc_classifier teacher; /* tasks after the first of methods that ask it */
    rc_model generator;
    rc_model old_decoder;  /* of the autoencoder, as the last task left it */
    rc_pixels pixels;      /* inverted from the teacher in the generator's place */
    rc_sources has;
    int images;         /* training images; old ones that are replayed are not among them */
    int given;          /* all that it was given */
    int batches;        /* per epoch */
    void *task_memory;  /* backend: order and labels; those of the buffer come after the task's */
    void *task_images;  /* likewise */
    rc_resident_data data;
    int32_t *order_host; /* (batches * batch) */
    uint32_t *order_scratch;

    rc_state state; /* what a checkpoint holds */
} rc_learner;

/* What the method stores between tasks besides the classifier itself (which is also the next task's teacher), in bytes
 * as files have them. A method is data-free if it stores neither images nor a model that makes them. */
typedef struct rc_stored {
    size_t images;     /* real ones, with their labels */
    size_t model;      /* a generative model of images */
    size_t statistics; /* class means and covariance */
} rc_stored;
rc_stored rc_learner_stored(const rc_learner *learner); /* between tasks */
bool rc_stored_is_data_free(const rc_stored *stored);

/* Images that a method holds beside those of a task, at most: a buffer, or inverted pixels. */
int rc_held_images(const rc_method *method, const rc_settings *settings);

/* The backbone that these settings name, for images of that shape: shape only, no weights. */
rc_status rc_learner_net(const rc_settings *settings, const rc_augment *image, rc_net *net);

/* A learner that knows nothing. image: shape (h, w, c), mean and std; crop and flip are taken from the settings. */
rc_status rc_learner_create(rc_learner *learner, rc_backend *backend, const rc_settings *settings,
                            const rc_method *method, const rc_augment *image);
void rc_learner_destroy(rc_learner *learner); /* a zeroed or destroyed one is fine */

/* Between tasks: other settings, another method. The net stays what it is: other settings of it are an error. */
rc_status rc_learner_configure(rc_learner *learner, const rc_settings *settings, const rc_method *method);
rc_status rc_learner_set_method(rc_learner *learner, const rc_method *method);

/* Memory for the statistics of all classes of the head; contents of known classes are kept, new rows are NaN. */
rc_status rc_learner_grow_statistics(rc_learner *learner);

/* Begins task `task` with n_new classes: copies the teacher, makes generator and head rows, uploads the images
 * (count, h, w, c) with labels in the order of classes; of old classes too for methods that take them. Registers the
 * state: nothing is trained yet.
 * end: drops what belongs to the task, and statistics that the task has outdated. A buffer takes what the task's stages
 * have put into it if they are done, else it stays as it was. */
rc_status rc_learner_begin_task(rc_learner *learner, int task, int n_new, const uint8_t *images,
                                const int32_t *labels, int count);
void rc_learner_end_task(rc_learner *learner);

/* In place of a task, to look at dreams: the teacher and the generator that the next task would begin with, no new
 * class and no image, so that inversion is the only stage there is. The method must have dreams. Ends like a task. */
rc_status rc_learner_begin_dreams(rc_learner *learner);

/* What the second half of the batches is drawn from, with random numbers of `stream`. Only where has.replay. */
rc_status rc_learner_replay(rc_learner *learner, uint32_t stream, rc_replay **replay);

/* Sends the order of an epoch. */
void rc_learner_send_order(rc_learner *learner, int epoch);

#endif
