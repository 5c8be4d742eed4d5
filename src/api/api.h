/* Inside of the public handles: what the api_*.c files share. */
#ifndef RC_API_API_H
#define RC_API_API_H

#include "api/dream.h"
#include "api/learn.h"
#include "api/unfamiliarity.h"
#include "cil/scorer.h"
#include "recollect/recollect.h"

struct recollect_context {
    rc_backend *backend;
    recollect_settings settings; /* with NULL callbacks where the caller has none */
    size_t allowed;              /* bytes that the library may hold in a call of this context */
    rc_watch watch;              /* leads to the settings' callbacks */
    int models;                  /* that use it */
    bool closed;                 /* destroyed by its owner; goes with its last model */
    bool busy;                   /* in a call that may call back, or that changes a model */
    uint32_t process;            /* that it belongs to */
};

enum { RC_API_OPTIONS = 128 };

struct recollect_model {
    recollect_context *context;
    rc_saved_model saved;        /* learner.backend NULL: knows nothing yet */

    /* Options for what is learnt next. */
    char *set[RC_API_OPTIONS];   /* "key=value", each key once */
    int sets;
    char *method, *preset;       /* NULL: not set */
    bool merge, skip_broken;

    /* Made when they are first needed, dropped when the model changes. */
    rc_scorer *scorer;
    int scorer_images;           /* that it was made for at a time */
    rc_unfamiliarity *unfamiliarity; /* NULL with a scorer: the model has no statistics */
    rc_dreams dreams;            /* per_class 0: none */
};

/* Every public function that can fail begins with one of these and ends with rc_api_end. They clear the
 * message, set the budget of this thread's memory, and refuse NULL handles, calls from inside a callback, and
 * contexts of a parent process. */
rc_status rc_api_begin(const recollect_context *context);
rc_status rc_api_begin_model(const recollect_model *model);
/* Sees to it that a failure has a message; returns it. */
rc_status rc_api_end(rc_status status);

/* "NAME is NULL, expected WHAT". */
rc_status rc_api_is_null(const char *name, const char *expected);

/* Checks of arguments, which set the message: images that can be, of the shape that the model was made for; a model
 * that knows something. */
rc_status rc_api_check_images(const recollect_images *images);
rc_status rc_api_check_fit(const recollect_model *model, const recollect_images *images);
rc_status rc_api_check_has_learnt(const recollect_model *model);

/* Drops what was derived from the model's weights; or of that only what scores images. */
void rc_api_forget(recollect_model *model);
void rc_api_forget_scorer(recollect_model *model);

/* The options as settings of a lesson. */
rc_learn_settings rc_api_lesson(const recollect_model *model);

/* Does it belong to a parent of this process, which was at work with it when it forked, or to a GPU? Then nothing of
 * its memory may be touched. */
bool rc_api_is_parents(const recollect_context *context);

/* Frees a closed context without models. */
void rc_api_release_context(recollect_context *context);

#endif
