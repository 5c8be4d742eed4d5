/* Where the second half of a training batch comes from: a source. A learner holds one as an object from task to
 * task; its table, rc_source_kind, says what it is and does. A row of methods.c points to the table. The learner,
 * the stages, forecasts and model files ask the table: no code knows a source by name. Each source is a file
 * source_*.c; sources.h lists them, docs/add-a-method.md adds one.
 *
 *     a learner is made, gets other settings    configure; clone before learning
 *     a task begins and ends                    begin, end
 *     the old model is inverted                 inversion, open_inversion, weigh_inversion
 *     a stage replays                           open: the stage draws from what it gets (replay.h) and destroys it
 *     a checkpoint is taken                     register_state
 *     a model file is read or written           check_file, load, save
 *
 * A source leaves what it has no use for NULL or false. */
#ifndef RC_CIL_SOURCE_H
#define RC_CIL_SOURCE_H

#include "cil/objective.h"
#include "cil/replay.h"
#include "cil/settings.h"

struct rc_inversion; /* step_inversion.h */
struct rc_learner;
struct rc_method;

typedef struct rc_source rc_source;

/* What is stored between tasks besides the classifier itself (which is also the next task's teacher), in bytes as
 * files have them. */
typedef struct rc_stored {
    size_t images;     /* real ones, with their labels */
    size_t model;      /* a generative model of images */
    size_t statistics; /* class means and covariance */
} rc_stored;

/* Inversion of the old model: parts one after the other, each with an optimiser of its own. */
typedef struct rc_inversion_plan {
    uint32_t parts, steps; /* steps of each part */
    double rate;           /* learning rate */
} rc_inversion_plan;

/* An array on the host that a model file has. */
typedef struct rc_source_array {
    const char *name; /* of the tensor: "buffer.labels" */
    bool whole;       /* int32; else bytes */
    int dims;
    int64_t shape[4];
    void *values;
} rc_source_array;

/* A model file, as a source sees it. While a model is saved, an entry writes what it is given; while one is loaded,
 * it reads into that. model_file.c fills the table. */
typedef struct rc_source_file rc_source_file;
struct rc_source_file {
    rc_status (*model)(rc_source_file *, const char *prefix, const rc_model *model);
    rc_status (*array)(rc_source_file *, const rc_source_array *array);
    /* A whole number of the metadata. */
    rc_status (*number)(rc_source_file *, const char *key, double *value);
    /* Only while one is loaded. find_net, find_array: does the file have all tensors of such a net, an array of that
     * size? find_rows: rows of a tensor of that many dimensions; 0: it has others; -1: there is no such tensor. */
    rc_status (*find_net)(rc_source_file *, const char *prefix, const rc_net *net);
    rc_status (*find_array)(rc_source_file *, const rc_source_array *array);
    int64_t (*find_rows)(rc_source_file *, const char *name, int dims);
};

typedef struct rc_source_kind {
    const char *keeps;       /* from task to task, besides the classifier: "some of the images" */
    bool data_free;          /* it keeps neither images nor a model that makes them */
    bool replays;            /* batches have a second half in tasks after the first one */
    bool replays_first;      /* and in the first one */
    bool takes_old_images;   /* the caller gives a task the images of old classes, too */
    bool replays_old_images; /* they are the second half; else they are trained on as if they were new */
    bool dreams;             /* a generator makes the images: rc_learner_begin_dreams can show them without a task */
    bool plain_pixels;       /* it takes pixels from 0 to 1, whatever the data's mean and deviation */
    const char *own_models;  /* what it needs from earlier tasks that no other source makes; NULL: nothing */
    const rc_loss *learns;   /* losses that it minimises beside the classifier's, in every task, each with weight 1;
                                RC_LOSS_COUNT ends the list. NULL: it does not learn */
    size_t size;             /* of the object, which begins with rc_source; 0: it is rc_source alone */

    /* Images that it holds in the pool behind those of the task, at most. For forecasts. */
    int (*held_images)(const struct rc_method *, const rc_settings *);

    /* The learner calls this for a new, zeroed object, and between tasks when settings or row change. The learner
     * still has the old settings; it has its net, its image shape and its backend. A source with `clone` must not
     * fail for an object that was good before. */
    rc_status (*configure)(rc_source *, const struct rc_learner *, const rc_settings *, const struct rc_method *);
    /* Copies what is kept between tasks to a zeroed object. NULL: nothing is kept, and a new object does. */
    rc_status (*clone)(rc_source *copy, const rc_source *);
    void (*destroy)(rc_source *);
    /* Adds the bytes that are kept between tasks. */
    void (*count_stored)(const rc_source *, const struct rc_learner *, rc_stored *);
    /* What it keeps in files, for people: "20 images and their labels, of the 96 that were shown". */
    void (*describe)(const rc_source *, char *text, size_t size);

    /* begin: of a task that replays; `labels` are those of the images that the caller has given, NULL if none.
     * end: of every task, also of one that failed when it began; learner->learnt: its stages are done. */
    rc_status (*begin)(rc_source *, const struct rc_learner *, const int32_t *labels);
    void (*end)(rc_source *, const struct rc_learner *);
    /* Names what the stages of a task change of the object. What an rc_replay holds it names itself. */
    rc_status (*register_state)(rc_source *, rc_state *);

    /* Inversion of the old model, which is the task's teacher then. */
    rc_inversion_plan (*inversion)(const struct rc_method *, const rc_settings *);
    rc_status (*open_inversion)(rc_source *, const struct rc_learner *, int part, struct rc_inversion **);
    void (*weigh_inversion)(const struct rc_learner *, float weight[RC_LOSS_COUNT], bool active[RC_LOSS_COUNT]);

    /* In tasks that replay, and in all tasks of a source that learns. `stream`: of random numbers. */
    rc_status (*open)(rc_source *, const struct rc_learner *, uint32_t stream, rc_replay **);

    /* check_file: does the file have what `configure` will make memory for? The loader asks first, so that a small
     * file cannot ask for a huge model. load: into a new object; the learner's head is there already. */
    rc_status (*check_file)(const rc_settings *, const rc_augment *, rc_source_file *);
    rc_status (*load)(rc_source *, const struct rc_learner *, rc_source_file *);
    rc_status (*save)(const rc_source *, const struct rc_learner *, rc_source_file *);
} rc_source_kind;

struct rc_source {
    const rc_source_kind *kind;
    rc_image_buffer images; /* stored, or of a task: they lie behind the task's own in its pool. Empty: none do */
};

/* A new object; its learner's net, image shape and backend are set. */
rc_status rc_source_create(const rc_source_kind *kind, const struct rc_learner *learner, const rc_settings *settings,
                           const struct rc_method *method, rc_source **source);
/* A copy of the learner's source, for a learner that will be a copy of it. */
rc_status rc_source_clone(const struct rc_learner *learner, rc_source **copy);
void rc_source_destroy(rc_source *source); /* NULL is fine */

#endif
