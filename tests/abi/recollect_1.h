/*
 * recollect: teaches an image classifier new classes without keeping the old images.
 *
 * This is the whole public interface. In short:
 *
 *     recollect_settings settings;
 *     recollect_context *context;
 *     recollect_model *model;
 *     recollect_settings_default(&settings, sizeof settings);
 *     recollect_context_create(&settings, &context);
 *     recollect_model_create(context, &model);
 *     recollect_learn_folder(model, "pets", NULL);      the first classes: cat, dog
 *     recollect_learn_folder(model, "birds", NULL);     more; the images of pets are not needed any more
 *     recollect_model_save(model, "animals.safetensors", 0);
 *     recollect_model_destroy(&model);
 *     recollect_context_destroy(&context);
 *
 * Rules that hold for every function:
 *   Failure    A function that can fail returns a recollect_status. recollect_last_message() then says what was
 *              wrong and what was expected, in one line of UTF-8 in which control characters, of a file's name for
 *              example, are escaped. Every argument is checked; the library never prints, exits or aborts. A
 *              context whose GPU failed (RECOLLECT_DEVICE), or ran out of memory in the midst of computing,
 *              repeats that failure: it and its models are of no more use but to be destroyed.
 *   Ownership  What is passed in is only read, and not after the function has returned, unless its comment says
 *              otherwise. What a function makes belongs to the caller; on failure *result is NULL and nothing
 *              is held.
 *   Handles    They are opaque. A `destroy` function takes the address of a handle, frees it and sets it to
 *              NULL; a NULL handle is fine there.
 *   Structures No structure depends on build flags. Those that may grow begin with `size`, which tells the
 *              library how much of them the caller's header knew: old programs work with new libraries.
 *   Threads    A context and its models are used by one thread at a time; different contexts are independent.
 *   Fork       The threads of a context do not exist in a child of fork(), nor does its GPU. A child makes
 *              contexts of its own. Those that it inherited, and their models, it may only destroy, which waits
 *              for nobody, and ask for what a model knows; all that can fail is RECOLLECT_INVALID_ARGUMENT.
 *              Destroying gives back the child's copy of the memory, unless it is a GPU's, or another thread of
 *              the parent was in a call with that context when it forked.
 *   Images     Bytes in the order (image, row, column, channel), 1 channel (grey) or 3 (red, green, blue).
 *   Texts      UTF-8, and end with a zero byte. Numbers in settings have a point, whatever the program's locale.
 */
#ifndef RECOLLECT_RECOLLECT_H
#define RECOLLECT_RECOLLECT_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define RECOLLECT_API __attribute__((visibility("default")))
#else
#define RECOLLECT_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The only place that holds the version: the build system reads these three lines. */
#define RECOLLECT_VERSION_MAJOR 0
#define RECOLLECT_VERSION_MINOR 1
#define RECOLLECT_VERSION_PATCH 0

/* Every outcome a function can report: X(name, text). The enum and the texts come from this one list. */
#define RECOLLECT_STATUS_LIST(X) \
    X(OK, "ok") \
    X(INVALID_ARGUMENT, "invalid argument") \
    X(OUT_OF_MEMORY, "out of memory") \
    X(IO, "input/output error") \
    X(FORMAT, "malformed file or text") \
    X(UNSUPPORTED, "not supported") \
    X(NUMERIC, "number is not finite") \
    X(CANCELLED, "cancelled") \
    X(INTERNAL, "internal error") \
    X(DEVICE, "the device failed") \
    X(UNSYNCED, "written, but a power failure may undo it")

typedef enum recollect_status {
#define RECOLLECT_STATUS_ENUMERATOR(name, text) RECOLLECT_##name,
    RECOLLECT_STATUS_LIST(RECOLLECT_STATUS_ENUMERATOR)
#undef RECOLLECT_STATUS_ENUMERATOR
} recollect_status;

/* "MAJOR.MINOR.PATCH" of the library that is linked, which may differ from the header it was compiled
 * against. */
RECOLLECT_API const char *recollect_version(void);

/* The text of a status, never NULL; "unknown status" for a value that is not in the list. */
RECOLLECT_API const char *recollect_status_text(recollect_status status);

/* What the last function that this thread called, and that can fail, had to say about its failure; ""
 * after a success. Never NULL. Valid until this thread calls the next function that can fail. */
RECOLLECT_API const char *recollect_last_message(void);

/* ---- context: device, threads, memory, callbacks ------------------------------------------------------- */

/* Memory for the engine: weights, activations, images in training, workspace. `alloc` returns a block of
 * `size` bytes at a multiple of `align` (a power of two, at most 64), or NULL, which becomes
 * RECOLLECT_OUT_OF_MEMORY. `free` never gets NULL. Both are called on the thread that calls the library
 * only, and never inside a training step. The names, texts and lists around the engine come from the heap. */
typedef struct recollect_allocator {
    void *(*alloc)(void *user, size_t size, size_t align);
    void (*free)(void *user, void *block);
    void *user;
} recollect_allocator;

typedef enum recollect_log_level {
    RECOLLECT_LOG_DEBUG,
    RECOLLECT_LOG_INFO,
    RECOLLECT_LOG_WARNING,
    RECOLLECT_LOG_ERROR
} recollect_log_level;

/* What learning and dreaming consist of. */
typedef enum recollect_stage {
    RECOLLECT_STAGE_READING,    /* image files are decoded */
    RECOLLECT_STAGE_INVERSION,  /* a generator learns to dream what the model remembers */
    RECOLLECT_STAGE_TRAINING,   /* the model learns, from new images and dreams */
    RECOLLECT_STAGE_REFINEMENT, /* old and new classes are balanced */
    RECOLLECT_STAGE_ESTIMATION  /* statistics of the classes for next time */
} recollect_stage;

typedef struct recollect_loss {
    const char *name; /* "cross entropy" */
    double value;
} recollect_loss;

/* Where a long call is. Valid during the callback. */
typedef struct recollect_progress {
    size_t size;               /* of this structure, as the library knows it */
    recollect_stage stage;
    const char *stage_name;    /* "training" */
    int task;                  /* 1: the first classes, 2: the next ones, ... */
    uint32_t step, steps;      /* done, of all in the stage; while reading: images */
    int epoch, epochs;         /* 0, 0 where there are none */
    const recollect_loss *losses;
    int loss_count;
    double images_per_second;  /* NaN: not known yet, as with the next two */
    double stage_seconds_left;
    double seconds_left;       /* of the call */
} recollect_progress;

typedef struct recollect_settings {
    size_t size;         /* set by recollect_settings_default */
    const char *backend; /* "cpu" or "cuda"; "cuda:fp32" to compute in fp32 there, not in bf16; "cuda:bf16:BYTES"
                            or "cuda:fp32:BYTES" to take at most so much of the device's memory */
    int threads;         /* 0: one for each core */
    recollect_allocator allocator; /* alloc and free NULL: the heap */
    /* Callbacks; each may be NULL. They are called on the thread that calls the library, and must not call
     * it with the same context. `log` gets one line of text without its newline, at `log_level` or above.
     * `progress` is called about twice a second and at the end of a stage. `cancelled` is asked as often;
     * anything but 0 stops the call with RECOLLECT_CANCELLED. */
    void (*log)(void *user, recollect_log_level level, const char *text);
    recollect_log_level log_level;
    void (*progress)(void *user, const recollect_progress *progress);
    int (*cancelled)(void *user);
    void *user;          /* for the three callbacks */
    /* The first version of the structure ends here. */
    size_t max_memory;   /* bytes of the machine's memory that the library may hold in this process while a function of
                            this context runs, other contexts' included. What would take more is
                            RECOLLECT_OUT_OF_MEMORY, in most cases before it begins. 0: 80 % of what is free when
                            the context is created, and for a model from a file, which may ask for any amount, not
                            more than 2 GiB and 1024 times the file */
} recollect_settings;

/* Fills in the defaults: CPU, all cores, the heap, no callbacks, log_level RECOLLECT_LOG_INFO. size:
 * sizeof *settings. Does nothing if `settings` is NULL or `size` is smaller than the first version of the
 * structure. */
RECOLLECT_API void recollect_settings_default(recollect_settings *settings, size_t size);

/* A device that is ready to compute, its threads, and how it talks to the caller. */
typedef struct recollect_context recollect_context;

/* `settings` is copied; what its pointers lead to (the `user`s) must outlive the context. NULL: the defaults.
 * RECOLLECT_UNSUPPORTED: this machine or this build does not have the backend. */
RECOLLECT_API recollect_status recollect_context_create(const recollect_settings *settings,
                                                        recollect_context **context);

/* A context that still has models lives on until the last of them is destroyed. */
RECOLLECT_API void recollect_context_destroy(recollect_context **context);

/* ---- models -------------------------------------------------------------------------------------------- */

/* A classifier that can learn more classes. Holds no image. */
typedef struct recollect_model recollect_model;

/* A model that knows nothing yet. Its net is chosen when it learns its first classes. */
RECOLLECT_API recollect_status recollect_model_create(recollect_context *context, recollect_model **model);

/* A model from a file, or from the bytes of one, that recollect_model_save or the program wrote. Files may
 * come from strangers: a broken one is refused. */
RECOLLECT_API recollect_status recollect_model_load(recollect_context *context, const char *path,
                                                    recollect_model **model);
RECOLLECT_API recollect_status recollect_model_load_memory(recollect_context *context, const void *bytes,
                                                           size_t size, recollect_model **model);

/* Writes the model as a safetensors file, whole or not at all. A file of that name is refused, unless
 * `overwrite` is not 0: then it is replaced, and on failure as it was; it keeps its mode, and a link stays
 * one. RECOLLECT_INVALID_ARGUMENT for a model that knows nothing. RECOLLECT_UNSYNCED: the file is there and
 * whole, but a power failure soon after may undo it. (A limit on the size of files ends a program with SIGXFSZ
 * that does not ignore that signal; one that does gets RECOLLECT_IO.) */
RECOLLECT_API recollect_status recollect_model_save(const recollect_model *model, const char *path,
                                                    int overwrite);

RECOLLECT_API void recollect_model_destroy(recollect_model **model);

/* Sets an option for what the model learns next, by name: any setting that `recollect run --print-config`
 * lists ("epochs", "learning_rate", "seed", "net", "size", ...), or one of
 *
 *     method       how to learn: "cwd" (unless something else is set), "rdfcil" or "finetune"
 *     preset       the configuration of a first model, by name or as a YAML file; "learn" if it is not set.
 *                  Forgotten once the model has learnt
 *     merge        "true": images of classes that the model knows are welcome beside new ones
 *     skip_broken  "true": image files that cannot be read are counted and left out
 *
 * An unknown name, or a value that is none, is RECOLLECT_INVALID_ARGUMENT and changes nothing; learning itself
 * finds values out of range. Options last until they are set again; those of the configuration are stored
 * with the model once it has learnt with them. What a net is made of, and what images are brought to, cannot
 * change any more then, and need not be set again: learning says so where another value is. */
RECOLLECT_API recollect_status recollect_model_set(recollect_model *model, const char *name,
                                                   const char *value);

/* The value that learning would use now, as text with its zero byte, into `text` of `size` bytes. */
RECOLLECT_API recollect_status recollect_model_get(const recollect_model *model, const char *name, char *text,
                                                   size_t size);

/* What a model knows. A handle that is NULL, or a label or task that is not there, gives 0 or NULL. */
RECOLLECT_API int recollect_model_classes(const recollect_model *model);
/* Belongs to the model; valid until it learns or is destroyed. */
RECOLLECT_API const char *recollect_model_class_name(const recollect_model *model, int label);
/* The label of a class name; -1: not known. */
RECOLLECT_API int recollect_model_find_class(const recollect_model *model, const char *name);
/* How often it has learnt, and how many classes each time (the first time is task 0). */
RECOLLECT_API int recollect_model_tasks(const recollect_model *model);
RECOLLECT_API int recollect_model_task_classes(const recollect_model *model, int task);
/* Images that it takes; 0 in a model that knows nothing. */
RECOLLECT_API int recollect_model_image_height(const recollect_model *model);
RECOLLECT_API int recollect_model_image_width(const recollect_model *model);
RECOLLECT_API int recollect_model_image_channels(const recollect_model *model);
/* Bytes that are kept from one task to the next: weights, class statistics, and what some methods keep of
 * images (ER and LODE images, DGR a generative model). */
RECOLLECT_API size_t recollect_model_stored_bytes(const recollect_model *model);

/* ---- learning ------------------------------------------------------------------------------------------ */

/* Images in memory. This structure will not grow. */
typedef struct recollect_images {
    const uint8_t *pixels; /* (count, height, width, channels) */
    int count, height, width, channels;
} recollect_images;

typedef struct recollect_learn_result {
    size_t size;     /* the caller sets it: sizeof(recollect_learn_result) */
    int known;       /* classes before */
    int added;       /* classes that are new */
    int images;      /* trained on */
    int held_out;    /* images of the data that were scored instead */
    int broken;      /* image files that were left out */
    double accuracy; /* percent of the held-out images, over all classes; NaN: none were held out */
    double seconds;
} recollect_learn_result;

/* Teaches classes: the first ones to a model that knows nothing (two at least), more of them to one that does,
 * without images of those it knows.
 *
 * labels (images->count): of each image, 0 .. classes - 1. class_names (classes): all different, printable, and
 * not known to the model (unless `merge` is set). Each class needs an image. Class k of the data gets the label
 * recollect_model_classes() + k, as it was before. Images of a model that knows something must have its shape;
 * those of a first model must be squares that a generator can make: an even number of pixels from 14 to 64, a
 * multiple of 4 up to 128, of 8 up to 256, ... `result` may be NULL.
 *
 * On any failure, RECOLLECT_CANCELLED included, the model is as it was, and *result, too. RECOLLECT_NUMERIC:
 * training diverged. */
RECOLLECT_API recollect_status recollect_learn(recollect_model *model, const recollect_images *images,
                                               const int32_t *labels, const char *const *class_names,
                                               int classes, recollect_learn_result *result);

/* The same with images in files: a folder with one folder of images for each class (JPEG, PNG, PPM, PGM;
 * of any size), or anything else that the program reads. Classes are taken in the order of their names.
 * Images in val/ or test/ are held out and scored, else a tenth of every class is. */
RECOLLECT_API recollect_status recollect_learn_folder(recollect_model *model, const char *path,
                                                      recollect_learn_result *result);

/* ---- predicting ---------------------------------------------------------------------------------------- */

/* What is on these images? For each the `top` most probable classes, best first: labels and probabilities
 * (count, top), and how unfamiliar it is (count): the distance of its features from the nearest class, 1
 * for an average training image, strangers lie higher; NaN if the model has no class statistics. Each of
 * the three arrays may be NULL: not wanted. `top` is 1 .. recollect_model_classes(). The images have the
 * model's shape. On failure the contents of the arrays are undefined. RECOLLECT_NUMERIC: an answer is not a
 * finite number, the model's weights are damaged or too large. */
RECOLLECT_API recollect_status recollect_predict(recollect_model *model, const recollect_images *images,
                                                 int top, int32_t *labels, float *probabilities, float *unfamiliarity);

/* The same for one image: the bytes of a JPEG, PNG, PPM or PGM file, of any size. */
RECOLLECT_API recollect_status recollect_predict_encoded(recollect_model *model, const void *bytes,
                                                         size_t size, int top, int32_t *labels,
                                                         float *probabilities, float *unfamiliarity);

/* ---- dreaming ------------------------------------------------------------------------------------------ */

/* What the model remembers of a class: writes up to `count` images of the model's shape to `pixels`
 * (count, height, width, channels) and their number to *made, which is less than `count`, even 0, where
 * the model hardly ever dreams of that class. The first call after learning or loading takes as long as a
 * stage of learning does (with callbacks), and so does one that asks for more images than the calls
 * before; the others are quick. Same model, same count: same dreams. The model's knowledge does not
 * change. */
RECOLLECT_API recollect_status recollect_dream(recollect_model *model, int label, int count,
                                               uint8_t *pixels, int *made);

#ifdef __cplusplus
}
#endif

#endif
