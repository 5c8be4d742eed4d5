/* Inside the public handles: what the api_*.c files share. */
#ifndef RC_API_API_H
#define RC_API_API_H

#include <stdatomic.h>
#include <stddef.h>

#include "api/dream.h"
#include "api/learn.h"
#include "api/predictor.h"
#include "api/review.h"
#include "recollect/recollect.h"

struct recollect_context {
    rc_backend *backend;
    char backend_name[64];       /* what it was opened as */
    recollect_settings settings; /* with NULL callbacks where the caller has none */
    size_t allowed;              /* bytes that the library may hold in a call of this context */
    rc_watch watch;              /* leads to the settings' callbacks */
    atomic_int holders;          /* its owner until it destroys it, and each of its models */
    bool busy;                   /* between rc_api_enter and rc_api_leave */
    rc_stop before;              /* whom this thread asked before rc_api_enter */
    recollect_model *doomed;     /* models that were destroyed while it was busy; they go when it leaves */
    uint32_t process;            /* that it belongs to */
};

enum { RC_API_OPTIONS = 128 };

/* The bit of a model's `holders` that stands for a call that changes `saved`. */
#define RC_API_CHANGING (1 << 30)

struct recollect_model {
    recollect_context *context;
    recollect_model *next_doomed; /* see the context */
    rc_saved_model saved;         /* learner.backend NULL: knows nothing yet */
    atomic_int holders;           /* its owner until it destroys it, and each of its predictors; and RC_API_CHANGING */

    /* Options for what is learnt next. */
    char *set[RC_API_OPTIONS]; /* "key=value", each key once */
    int sets;
    char *method, *preset, *format, *old_test, *hold_out; /* NULL: not set */
    rc_adapt adapt;
    char *checkpoint; /* likewise */
    char *checkpoint_seconds;
    bool merge, skip_broken, resume;
    char *finished; /* the checkpoint of what it has learnt and was not saved yet; NULL: none */

    /* Made when they are first needed, dropped when the model changes. */
    rc_predictor *predictor; /* on the context's backend */
    rc_dreams dreams;        /* per_class 0: none */

    recollect_review *review; /* of the last lesson; NULL: none since it was created or loaded */
};

/* Every public function that can fail begins with one of these and ends with rc_api_end. They clear the
 * message, set the budget of this thread's memory, and refuse NULL handles, calls from inside a callback, and
 * contexts of a parent process. */
rc_status rc_api_begin(const recollect_context *context);
rc_status rc_api_begin_model(const recollect_model *model);
/* The same for predictors, which work beside a call of the model's context. It looks at nothing that this call may
 * change. Once no call changes the model: rc_api_allow, which lowers the budget to what its file is allowed. */
rc_status rc_api_begin_beside(const recollect_model *model);
void rc_api_allow(const recollect_model *model);
/* The same for functions without a handle: 80 % of what is free is their budget. */
void rc_api_begin_alone(void);
/* Makes sure that a failure has a message; returns the status. */
rc_status rc_api_end(rc_status status);

/* Around everything that may call back or that changes a model: a callback may destroy models and the context itself,
 * which is put off until rc_api_leave. After that the caller touches neither. */
void rc_api_enter(recollect_context *context);
void rc_api_leave(recollect_context *context);

/* "NAME is NULL, expected WHAT". */
rc_status rc_api_is_null(const char *name, const char *expected);

/* Checks of arguments, which set the message: images of the shape that the model was made for, or, if it knows nothing
 * yet, of one that can be; a model that knows something. */
rc_status rc_api_check_images(const recollect_model *model, const recollect_images *images);
/* Images that are yet to be brought to a model's shape; one of them, to be read alone; do they have it already? */
rc_status rc_api_check_any_images(const recollect_images *images);
rc_image rc_api_image_at(const recollect_images *images, int index);
bool rc_api_has_shape(const recollect_model *model, const recollect_images *images);
rc_status rc_api_check_has_learnt(const recollect_model *model);
rc_status rc_api_check_result(const recollect_learn_result *result); /* NULL is fine */

/* Drops what was derived from the model's weights. */
void rc_api_forget(recollect_model *model);

/* Around everything that changes `saved`, for good (learning: refused while the model has predictors) or for a while
 * (dreaming, which leaves the weights alone). No predictor is created meanwhile. */
rc_status rc_api_begin_change(recollect_model *model, bool for_good);
void rc_api_end_change(recollect_model *model);

/* Removes the checkpoint of a lesson that is over and whose model is safe, or has learnt again. */
void rc_api_drop_checkpoint(recollect_model *model);

/* The options as settings of a lesson. */
rc_learn_settings rc_api_lesson(const recollect_model *model);

/* Does it belong to a parent of this process, which was at work with it when it forked, or to a GPU? Then nothing of
 * its memory may be touched. */
bool rc_api_is_parents(const recollect_context *context);

/* Bytes of the first version of a public structure, which every caller knows: up to this member, its last one then. */
#define RC_API_FIRST(type, last) (offsetof(type, last) + sizeof(((type *)0)->last))

/* A structure of the caller's, which begins with its size, becomes `from`, as far as both know it, and zeros. `size`:
 * of the library's structure; `first`: of its first version. check: RC_INVALID_ARGUMENT with a message that calls it
 * `name`, where the caller's cannot be one. */
rc_status rc_api_check_size(const char *name, const void *structure, size_t first, size_t size);
void rc_api_fill(void *to, const void *from, size_t size);

/* An item of a list into the caller's structure; false where that is NULL or smaller than its first version. */
bool rc_api_give_item(void *to, size_t first, const void *item, size_t size);

/* One holder less; the last one frees it. */
void rc_api_release_context(recollect_context *context);
void rc_api_release_model(recollect_model *model);

#endif
