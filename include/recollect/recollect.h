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
 *              wrong and what was expected, in one line of UTF-8. Control characters in it, for example of a
 *              file's name, are escaped. The library checks every argument; it never prints, exits or aborts. A
 *              context whose GPU failed (RECOLLECT_DEVICE), or ran out of memory while it computed, returns that
 *              failure from then on: the caller can only destroy it and its models.
 *   Ownership  The library only reads what the caller passes in, and not after the function has returned, unless
 *              the function's comment says otherwise. What a function makes belongs to the caller; on failure
 *              *result is NULL and nothing is held.
 *   Handles    They are opaque. A `destroy` function takes the address of a handle, frees it and sets it to
 *              NULL; a NULL handle is fine there. It never fails. A callback may destroy a model, predictor or context
 *              that the call it interrupts is working with: the handle becomes NULL at once, the call goes on to
 *              its end, and the library frees what was destroyed just before that call returns.
 *   Callbacks  The caller's functions have to return to the library: neither longjmp() nor an exception of C++ may
 *              leave them. A call that is left like that keeps its memory, and its context refuses every later call.
 *   Structs    No structure depends on build flags. Those that may grow begin with `size`, which tells the
 *              library how much of them the caller's header knew: old programs work with new libraries, and new
 *              programs with old ones. Where the caller sets `size`, it is the sizeof of the structure. A
 *              structure that the library fills is filled as far as both know it; the rest becomes 0.
 *   Threads    A context and its models are used by one thread at a time; different contexts are independent.
 *              A predictor is made for several threads: each thread uses a predictor of its own, and all of them
 *              share the weights of one model (see recollect_predictor).
 *   Fork       The threads of a context do not exist in a child of fork(), nor does its GPU. A child makes
 *              contexts of its own. With a context, model or predictor that it inherited it may do two things
 *              only: destroy it, which waits for no thread, and ask what a model knows. Every function that can
 *              fail returns RECOLLECT_INVALID_ARGUMENT there. Destroying frees the child's copy of the memory,
 *              unless it is a GPU's, or another thread of the parent was in a call with that context when it
 *              forked.
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

/* "MAJOR.MINOR.PATCH" of the linked library, which may differ from the header that the program was compiled
 * with. */
RECOLLECT_API const char *recollect_version(void);

/* Counts the states of this header: a state that adds a function, an option or a member of a structure has the next
 * number. Nothing is taken away without another MAJOR or MINOR. A program that needs something of state N asks
 * whether recollect_api_version() is N or more. */
#define RECOLLECT_API_VERSION 2

/* RECOLLECT_API_VERSION of the library that is linked. */
RECOLLECT_API int recollect_api_version(void);

/* The text of a status, never NULL; "unknown status" for a value that is not in the list. */
RECOLLECT_API const char *recollect_status_text(recollect_status status);

/* The message of the last function that this thread called and that can fail: what went wrong; "" after a
 * success. Never NULL. Valid until this thread calls the next function that can fail. */
RECOLLECT_API const char *recollect_last_message(void);

/* Gives back memory that a function of this library has handed to the caller; NULL is fine. */
RECOLLECT_API void recollect_free(void *block);

/* ---- text ---------------------------------------------------------------------------------------------- */

/* Takes a text, one line at a time and without its newline. The text is valid during the call. */
typedef void recollect_line(void *user, const char *text);

/* Names of classes and files come from strangers, and a terminal obeys some characters instead of showing them.
 * Writes `text` to `out` with these characters escaped (\n, \u001b, \u202e; \xff for a byte that is not UTF-8), as
 * much of it as fits into `size` bytes with the zero byte, in whole characters. Returns how many bytes of `text`
 * that was; 0 also where an argument is NULL or `size` is less than 16. */
RECOLLECT_API size_t recollect_escape(const char *text, char *out, size_t size);

/* Returns the candidate that a user who typed `name` probably meant, for a message; NULL: none is near, or an
 * argument is NULL. candidate(user, i) returns candidate i, and NULL when there are no more. */
RECOLLECT_API const char *recollect_nearest(const char *name, const char *(*candidate)(const void *user, int index),
                                            const void *user);

/* ---- context: device, threads, memory, callbacks ------------------------------------------------------- */

/* Memory for the engine: weights, activations, images in training, workspace. `alloc` returns a block of
 * `size` bytes at a multiple of `align` (a power of two, at most 64), or NULL, which becomes
 * RECOLLECT_OUT_OF_MEMORY. `free` never gets NULL. The library calls both only on the thread that calls the
 * library, and never inside a training step. The names, texts and lists around the engine come from the
 * heap. */
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
    RECOLLECT_STAGE_READING,    /* image files are decoded ("reading"), or classified to be scored ("scoring") */
    RECOLLECT_STAGE_INVERSION,  /* a generator learns to dream what the model remembers */
    RECOLLECT_STAGE_TRAINING,   /* the model learns, from new images and dreams */
    RECOLLECT_STAGE_REFINEMENT, /* old and new classes are balanced */
    RECOLLECT_STAGE_ESTIMATION  /* statistics of the classes for next time */
} recollect_stage;

typedef struct recollect_loss {
    const char *name; /* "cross entropy" */
    double value;
} recollect_loss;

/* How far a long call is. Valid during the callback. */
typedef struct recollect_progress {
    size_t size; /* of this structure, as the library knows it */
    recollect_stage stage;
    const char *stage_name; /* "training" */
    int task;               /* 1: the first classes, 2: the next ones, ... */
    uint32_t step, steps;   /* done, of all in the stage; while reading and scoring: images */
    int epoch, epochs;      /* 0, 0 where there are none */
    const recollect_loss *losses;
    int loss_count;
    double images_per_second; /* NaN: not known yet, as with the next two */
    double stage_seconds_left;
    double seconds_left; /* of the call */
    const char *text; /* all of this in one line for people: "training 3/60: 45 %, 1:40 left, 4210 images/s, ce 0.53" */
    /* The first version of the structure ends here. */
    double fraction; /* of the work of all stages that is done, 0 to 1; NaN while reading and scoring */
} recollect_progress;

typedef struct recollect_settings {
    size_t size;         /* set by recollect_settings_default */
    const char *backend; /* "cpu" or "cuda"; "cuda:fp32" to compute in fp32 there, not in bf16; "cuda:bf16:BYTES"
                            or "cuda:fp32:BYTES" to take at most so much of the device's memory; "reference": the
                            CPU in plain C, slow, to compare with */
    int threads;         /* 0: one for each core */
    recollect_allocator allocator; /* alloc and free NULL: the heap */
    /* Callbacks; each may be NULL. The library calls them on the thread that calls the library; they must not
     * call it with the same context, except to destroy. `log` gets one line of text without its newline, at
     * `log_level` or above. `progress` is called about twice a second and at the end of a stage. `cancelled`
     * is called more often, also in the midst of computing; anything but 0, once, stops the call with
     * RECOLLECT_CANCELLED within about a second. On "cuda" a step that has begun is finished first. */
    void (*log)(void *user, recollect_log_level level, const char *text);
    recollect_log_level log_level;
    void (*progress)(void *user, const recollect_progress *progress);
    int (*cancelled)(void *user);
    void *user; /* for the three callbacks */
    /* The first version of the structure ends here. */
    size_t max_memory; /* the most bytes of the machine's memory that the library may hold in this process
                            while a function of this context runs, those of other contexts included. A call
                            that would take more returns RECOLLECT_OUT_OF_MEMORY, in most cases before it
                            begins. 0: 80 % of what is free when the context is created; and for a model from
                            a file, which may ask for any amount, at most 2 GiB + 1024 times the size of the
                            file */
} recollect_settings;

/* Fills in the defaults: CPU, all cores, the heap, no callbacks, log_level RECOLLECT_LOG_INFO. size:
 * sizeof *settings. Does nothing if `settings` is NULL or `size` is smaller than the first version of the
 * structure. */
RECOLLECT_API void recollect_settings_default(recollect_settings *settings, size_t size);

/* A device that is ready to compute, its threads, and how it talks to the caller. */
typedef struct recollect_context recollect_context;

/* The library copies `settings`; what its `user` pointers lead to must outlive the context. NULL: the
 * defaults. RECOLLECT_UNSUPPORTED: this machine or this build does not have the backend. */
RECOLLECT_API recollect_status recollect_context_create(const recollect_settings *settings,
                                                        recollect_context **context);

/* A context that still has models lives on until the last of them is destroyed. See `Handles` above for a context
 * that is at work. */
RECOLLECT_API void recollect_context_destroy(recollect_context **context);

/* ---- models -------------------------------------------------------------------------------------------- */

/* A classifier that can learn more classes. It holds no image, unless its method keeps some (ER, LODE). */
typedef struct recollect_model recollect_model;

/* A model that knows nothing yet. Its net is chosen when it learns its first classes. */
RECOLLECT_API recollect_status recollect_model_create(recollect_context *context, recollect_model **model);

/* Loads a model from a file, or from the bytes of one, that recollect_model_save or the program wrote. Files
 * may come from strangers: the library refuses a broken one. */
RECOLLECT_API recollect_status recollect_model_load(recollect_context *context, const char *path,
                                                    recollect_model **model);
RECOLLECT_API recollect_status recollect_model_load_memory(recollect_context *context, const void *bytes, size_t size,
                                                           recollect_model **model);

/* What is known of weights that are imported. The library finds out what is NULL. */
typedef struct recollect_import_settings {
    size_t size;         /* the caller sets it: sizeof(recollect_import_settings) */
    const char *net;     /* whose weights they are: one that recollect_published_net_at lists; NULL or "auto": the names
                            and shapes of the tensors say it */
    const char *classes; /* a text file with the name of a class on each line, in the order of the net's outputs. A line
                            that repeats a name gets a number behind it. NULL: "class-0000", "class-0001", ... */
} recollect_import_settings;

/* Makes a model of a published classifier: of the file that torch.save wrote of its state_dict (.pth, .pt; in it
 * nothing is executed), or of a safetensors file with the same names. Such a file may come from a stranger. The model
 * knows the classes of the classifier and the way its images are prepared; it has no class statistics. `settings` may
 * be NULL. RECOLLECT_FORMAT: the tensors are not those of a net that is known; the message names what differs. */
RECOLLECT_API recollect_status recollect_model_import(recollect_context *context, const char *path,
                                                      const recollect_import_settings *settings,
                                                      recollect_model **model);

/* Writes the model as a safetensors file, whole or not at all. If a file of that name exists, the call fails with
 * RECOLLECT_IO, unless `overwrite` is not 0: then the file is replaced and keeps its mode, and a link stays a link;
 * on failure the old file is as it was. RECOLLECT_INVALID_ARGUMENT for a model that knows nothing.
 * RECOLLECT_UNSYNCED: the file is there and whole, but a power failure soon after may undo it. (If a limit on
 * the size of files stops the write, SIGXFSZ ends a program that does not ignore that signal; a program that
 * ignores it gets RECOLLECT_IO.) */
RECOLLECT_API recollect_status recollect_model_save(const recollect_model *model, const char *path, int overwrite);

/* The same into memory: *bytes becomes a block with the bytes of such a file, *size their number. The block belongs
 * to the caller, who gives it back with recollect_free. On failure *bytes is NULL and *size 0. */
RECOLLECT_API recollect_status recollect_model_save_memory(const recollect_model *model, void **bytes, size_t *size);

/* Writes the model for other programs (docs/export.md). format: "onnx" (a graph that ONNX Runtime and OpenCV run, with
 * normalisation and softmax inside), "torch" (a safetensors file with the names of PyTorch's state_dict of this net) or
 * "c" (a C header with the weights and a predictor that needs neither files nor a heap; the name of the file becomes
 * the prefix of what it defines). None of them holds what the model needs to learn more. Whole or not at all, and
 * `overwrite` as above. RECOLLECT_UNSUPPORTED: the format cannot hold a model that large. RECOLLECT_NUMERIC: its
 * statistics are damaged. */
RECOLLECT_API recollect_status recollect_model_export(const recollect_model *model, const char *format,
                                                      const char *path, int overwrite);

/* Can a model of about `bytes` bytes be saved as `path`? For callers that want to know before hours of work: a place
 * that recollect_model_save would refuse fails with the same status. Checks whether the folder exists and may be
 * written, whether a file of that name is in the way (unless `overwrite` is not 0), and whether there is room.
 * Writes nothing. bytes 0: a small model. */
RECOLLECT_API recollect_status recollect_check_save(const char *path, size_t bytes, int overwrite);

/* See `Handles` above for a model that is at work. */
RECOLLECT_API void recollect_model_destroy(recollect_model **model);

/* Sets an option for what the model learns next, by name: any setting that recollect_setting_at lists ("epochs",
 * "learning_rate", "seed", "net", "size", ...) but those that experiments alone read (`readers` says it), or one of
 *
 *     method       how to learn: any that recollect_method_at lists with `learn` 1. Not set: "cwd" for a first
 *                  model, later the method that it learnt with last, but "cwd+" after "cwd" where the whole net learns
 *     preset       the configuration of a first model, by name or as a YAML file; "learn" if it is not set.
 *                  Forgotten once the model has learnt
 *     merge        "true": images of classes that the model knows are welcome beside new ones
 *     skip_broken  "true": image files that cannot be read are counted and left out
 *     format       of the data in files, where the library does not recognise it: "folder", "cifar100", ...
 *     old_test     a folder, as recollect_learn_folder takes it, with images of classes that the model knows.
 *                  Learning scores them before and after, and refuses a folder that has none; "" for none
 *     hold_out     the part of every class that learning scores instead of training on it: a number from 0 up to,
 *                  but not including, 1. It is rounded to the nearest number of images, and one image always
 *                  stays to train on. The seed chooses which. "" or not set: 0.1 for images in files, 0 for
 *                  others. Has no effect on a folder with val/ or test/
 *     checkpoint   a file that learning writes now and then, and when it is cancelled between steps, with all that
 *                  it needs to go on from there. A file that cannot be written is a warning. If the file is there
 *                  when learning begins, that is RECOLLECT_INVALID_ARGUMENT, unless `resume` is set. Once the model has
 *                  learnt, the option is forgotten; the file stays until recollect_model_save has saved the model, the
 *                  model has learnt again, or a lesson begins with the same file. "": none
 *     checkpoint_seconds  between two writes of it, 0 to 86400; 60 if it is not set
 *     resume       "true": goes on from `checkpoint`, if that is there, and ends with the bits of a lesson that was
 *                  never stopped. The model, the images and the settings must be those of that lesson: another one
 *                  is RECOLLECT_INVALID_ARGUMENT. Backend and threads may be others
 *     adapt        what learning changes. "all": the net and its head, by the method. "top": of the net its last stage
 *                  alone, or as many as the setting trained_stages says. "head": rows of the head alone; the net keeps
 *                  its bits, and it takes seconds. All rows are made anew where the model has the statistics of images
 *                  of all its classes, else those of new classes are added. "" or not set, and neither `method` nor
 *                  `epochs` set: "head" for a model with such statistics, unless more classes come than it knows;
 *                  "head" for a net that comes from elsewhere and knows 100 classes or has images above 64 pixels,
 *                  "top" for any other from elsewhere. "all" for others, and for a model that keeps images
 *
 * An unknown name, or a value that the option does not take (out of its range, or none of its choices), is
 * RECOLLECT_INVALID_ARGUMENT and changes nothing; learning itself finds values that do not go together, and warns the
 * log of settings that its method does not read. Options last until they are set again; those of the configuration are
 * stored with the model once it has learnt with them. What a net is made of, and what images are brought to, cannot
 * change any more then, and need not be set again: learning says so where another value is. */
RECOLLECT_API recollect_status recollect_model_set(recollect_model *model, const char *name, const char *value);

/* Would recollect_model_set take this option? For callers that check before they open anything. */
RECOLLECT_API recollect_status recollect_check_option(const char *name, const char *value);

/* Writes the value that learning would use now to `text` of `size` bytes, as text with its zero byte. What it chooses
 * by the images of the lesson is not in it: batch and steps, what suits the images of a first model, and, where the
 * number of new classes decides what learns, the method that goes with that. */
RECOLLECT_API recollect_status recollect_model_get(const recollect_model *model, const char *name, char *text,
                                                   size_t size);

/* What a model knows. These return 0 or NULL for a NULL handle, and for a label or task that does not
 * exist. */
RECOLLECT_API int recollect_model_classes(const recollect_model *model);
/* Belongs to the model; valid until it learns or is destroyed. */
RECOLLECT_API const char *recollect_model_class_name(const recollect_model *model, int label);
/* The label of a class name; -1: not known. */
RECOLLECT_API int recollect_model_find_class(const recollect_model *model, const char *name);
/* How many times it has learnt, and how many classes each time (the first time is task 0). */
RECOLLECT_API int recollect_model_tasks(const recollect_model *model);
RECOLLECT_API int recollect_model_task_classes(const recollect_model *model, int task);
/* The shape of the images that it takes; 0 for a model that knows nothing. */
RECOLLECT_API int recollect_model_image_height(const recollect_model *model);
RECOLLECT_API int recollect_model_image_width(const recollect_model *model);
RECOLLECT_API int recollect_model_image_channels(const recollect_model *model);
/* Bytes that the model keeps from one task to the next: weights, class statistics, and what some methods keep
 * of images (ER and LODE: images, DGR: a generative model). */
RECOLLECT_API size_t recollect_model_stored_bytes(const recollect_model *model);

/* How a model was made, and what it keeps, by kind. */
typedef struct recollect_model_info {
    size_t size;        /* the caller sets it: sizeof(recollect_model_info) */
    const char *method; /* that it learnt with last: its name; the two texts are valid until the model learns or is
                           destroyed */
    const char *net;
    size_t parameters;     /* of the net and of the head behind it */
    int features;          /* inputs of the head */
    float mean[4], std[4]; /* of each channel, which images are normalised with */
    /* Bytes of each kind; recollect_model_stored_bytes() is the sum of the first five. */
    size_t weights;
    size_t class_means;
    size_t covariance;       /* the shared one, and those of single classes */
    size_t images;           /* of old classes, and their labels */
    size_t generative_model; /* that makes images of old classes */
    size_t unknown;          /* bytes of its file that the library does not know, and drops */
    int images_kept;         /* how many images `images` are */
    uint64_t images_shown;   /* from how many they were chosen; 0 if none are kept */
    int data_free;           /* 1: it keeps neither images nor what makes them, and its method is not given old ones */
} recollect_model_info;

/* RECOLLECT_INVALID_ARGUMENT for a model that knows nothing. */
RECOLLECT_API recollect_status recollect_model_get_info(const recollect_model *model, recollect_model_info *info);

/* ---- verdicts ------------------------------------------------------------------------------------------ */

/* A warning about what a model was taught, or how it was scored. One code is found at most once in a review:
 *
 *     old_classes_suffered  the images of option `old_test` lost 5 points or more, and more than chance explains
 *     near_chance           the accuracy is no better than guessing among all classes, or below that
 *     too_few               so few images were scored that the accuracy says little
 *     weak                  the accuracy is nearer to guessing than to always right
 *     old_near_chance, old_too_few, old_weak   the same of the images of `old_test`, after the lesson
 *     nothing_scored        no image was held out
 *     classes_not_scored    no image of these classes was, but of others; only of a lesson
 *     classes_never_right   5 images or more of these classes were scored, and at most one in ten is right
 *     look_alikes           pairs of classes that are taken for each other: labels 0 and 1, 2 and 3, ...
 *     similar_names         pairs of classes, the second of them new, whose names are the same but for capitals,
 *                           accents, blanks, dashes and underscores: labels 0 and 1, 2 and 3, ...
 *     same_images, held_out_seen   files with the same picture: in two classes, as labels 0 and 1; trained on, too
 *     imbalance             these new classes were trained on less than a third of the images of the largest one
 *     left_out, broken_images   what was not read: files, folders or links (left_out below); images (skip_broken)
 *     unknown_classes       images of classes that the model does not know were left out
 *
 * New codes may come. docs/learn.md has the rules. */
typedef struct recollect_finding {
    size_t size;       /* of this structure, as the library knows it */
    const char *code;  /* one of the above */
    const char *text;  /* the same for people, with names and numbers: a sentence without its full stop */
    const int *labels; /* (label_count): the classes that it is about */
    int label_count;   /* 0: it is about no class in particular */
} recollect_finding;

/* What the scores of a model say. It belongs to what it is a member of. */
typedef struct recollect_review {
    size_t size;         /* of this structure, as the library knows it */
    const char *verdict; /* "good"; "new_classes_good": those of this lesson, and the old ones were not scored; "weak",
                            "too_few", "near_chance" or "old_classes_suffered": the finding of that name, or of old_ and
                            that name, or nothing_scored for "too_few", is the worst one */
    const char *text;    /* the same for people: "too few images to tell" */
    int findings;        /* 0: no warning */
    const recollect_finding *const *finding; /* (findings), worst first */
} recollect_review;

/* Returns what the user of a program may do about a finding, such as a command to try, in the words of that program;
 * NULL: nothing. The library copies it at once. */
typedef const char *recollect_advise(void *user, const recollect_finding *finding);

/* The 95 % interval (Wilson) of an accuracy: `percent` of `images` images that were scored are right. *low and *high
 * become its ends in percent; NaN where nothing was scored. Each of the two may be NULL. Returns 1 if the interval
 * tells something, which one of more than 30 points does not; else 0. */
RECOLLECT_API int recollect_accuracy_interval(double percent, int images, double *low, double *high);

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
    /* The first version of the structure ends here. */
    int merged;                   /* classes of the data that the model knew (option `merge`) */
    int old_images;               /* that option `old_test` scored */
    double old_before, old_after; /* percent of these right before and after, over all classes; NaN: none */
    double inversion_seconds, training_seconds, refinement_seconds, estimation_seconds; /* of the stages */
    int left_out;     /* files, folders and links of the data that were not read: pictures of formats that this library
                         cannot read, links that lead in circles, hidden folders, ... `log` gets the names of the first
                         ones with the reason, and a count of each kind */
    int not_pictures; /* files beside the pictures that nobody would take for one: texts, a system's own notes. They are
                         not among those of left_out */
    int epochs;       /* passes over the images that training made, refinement included */
    const char *adapt; /* what was changed: "head", "top" or "all" (option `adapt`) */
} recollect_learn_result;

/* Teaches classes: the first ones to a model that knows nothing (at least two), more of them to one that
 * knows some, without images of those it knows.
 *
 * labels (images->count): 0 .. classes - 1 for each image. class_names (classes): all different, printable,
 * and not known to the model (unless `merge` is set). Each class needs at least one image. Class k of the
 * data gets the label recollect_model_classes() + k, with the count from before the call. Images for a model
 * that knows something must have its shape. Those of a first model must be squares that a generator can make:
 * an even number of pixels from 14 to 150, a multiple of 4 up to 300, of 8 up to 600, of 16 up to 1024.
 * `result` may be NULL.
 *
 * On any failure, RECOLLECT_CANCELLED included, the model and *result are as they were. RECOLLECT_NUMERIC:
 * training diverged. */
RECOLLECT_API recollect_status recollect_learn(recollect_model *model, const recollect_images *images,
                                               const int32_t *labels, const char *const *class_names, int classes,
                                               recollect_learn_result *result);

/* Images that the caller gives one by one, so that all of them need not be in memory. */
typedef struct recollect_stream {
    size_t size; /* sizeof(recollect_stream) */
    int count, height, width, channels;
    const int32_t *labels; /* (count), as in recollect_learn */
    /* Writes image `index` (height, width, channels) to `pixels`. Returns RECOLLECT_OK; any other status ends the
     * learning with that status. The same index must give the same image every time.
     *
     * The library calls it on the thread that called recollect_learn_stream, before training begins: for a model that
     * knows nothing yet once for each image that will be trained on, to measure mean and deviation, and for every
     * model then once for each image; both times with ascending index. It must not call the library with the same
     * context. */
    recollect_status (*read)(void *user, int index, uint8_t *pixels);
    void *user;
} recollect_stream;

/* The same as recollect_learn, with images from a stream. The caller's images need not be resident; the library keeps
 * a copy of each until it has learnt: the images to train on in memory of the backend, where every epoch reads
 * them, and those that are held out (see hold_out) in memory of the machine. */
RECOLLECT_API recollect_status recollect_learn_stream(recollect_model *model, const recollect_stream *stream,
                                                      const char *const *class_names, int classes,
                                                      recollect_learn_result *result);

/* The same with images in files: a folder with one folder of images for each class, or anything else that the
 * program reads. Images are JPEG, PNG, PPM, PGM or BMP, or WebP, TIFF or GIF (the first picture of a file) where the
 * library was built with what reads them (recollect_describe_machine says so), of any size, recognised by what they
 * hold. `log` gets what of the folder is not read, and why. Classes are taken in the order of their names.
 * Images in val/ or test/ are held out and scored, else a tenth of every class is (see hold_out). */
RECOLLECT_API recollect_status recollect_learn_folder(recollect_model *model, const char *path,
                                                      recollect_learn_result *result);

/* The verdict on what the model has learnt last. Belongs to the model; valid until it learns or is destroyed. NULL: the
 * handle is NULL, or the model has not learnt since it was created or loaded. */
RECOLLECT_API const recollect_review *recollect_model_review(const recollect_model *model);

/* ---- predicting ---------------------------------------------------------------------------------------- */

/* What is on these images? Gives for each image the `top` most probable classes, best first: labels and
 * probabilities (count, top), at the temperature that held-out images have told (docs/learn.md, "How sure it is"), and
 * its unfamiliarity (count): a number above 0, the larger the stranger the image is to the model. Only its order means
 * something, and only within one model; for a rate that can be compared see `stranger` in recollect_outputs. NaN if the
 * model's class statistics are damaged. Each of the three arrays may be NULL: not wanted. `top` is 1 ..
 * recollect_model_classes(). The images have the model's shape. On failure the contents of the arrays are undefined.
 * RECOLLECT_NUMERIC: an answer is not a finite number, because the model's weights are damaged or too large. */
RECOLLECT_API recollect_status recollect_predict(recollect_model *model, const recollect_images *images, int top,
                                                 int32_t *labels, float *probabilities, float *unfamiliarity);

/* The same for one image: the bytes of an image file, as recollect_learn_folder reads them. */
RECOLLECT_API recollect_status recollect_predict_encoded(recollect_model *model, const void *bytes, size_t size,
                                                         int top, int32_t *labels, float *probabilities,
                                                         float *unfamiliarity);

/* ---- predictors ---------------------------------------------------------------------------------------- */

/* Predicts with a model that stays as it is. Several predictors of one model work at the same time, one on each
 * thread. They read the weights of the model and do not copy them; each has a workspace and threads of its own.
 * Every predictor, and recollect_predict, gives the same bits for the same image, whatever the number of
 * predictors, threads and other images.
 *
 * While a model has predictors it cannot learn (RECOLLECT_INVALID_ARGUMENT). A model that is destroyed lives on
 * until its last predictor is destroyed; destroying that one is then a use of the context, for which the rule about
 * threads holds. A predictor is used by one thread at a time, beside anything that other threads do with other
 * predictors or with the context. Creating and destroying one counts as a use of that predictor alone. */
typedef struct recollect_predictor recollect_predictor;

/* threads: that this predictor computes and decodes with; 1: on the thread that calls, best where there is a
 * predictor for each thread; 0: one for each core.
 *
 * A predictor has the backend of the model's context. On a GPU it has streams and memory of its own there, and
 * reads the model's weights where they are; `threads` then only decode. It calls the context's `log` and
 * `cancelled`, and takes memory from the context's allocator, on the thread that calls the predictor. Where several
 * threads predict at once, these functions are called by several threads at once, and must be written for that.
 *
 * RECOLLECT_INVALID_ARGUMENT: the model knows nothing yet, or is learning or dreaming on another thread. */
RECOLLECT_API recollect_status recollect_predictor_create(const recollect_model *model, int threads,
                                                          recollect_predictor **predictor);
RECOLLECT_API void recollect_predictor_destroy(recollect_predictor **predictor);

/* How many numbers describe an image inside the model (see `features` below); 0 in a model that knows nothing. */
RECOLLECT_API int recollect_model_features(const recollect_model *model);

/* What a predictor writes. The caller sets `size` and the arrays that are wanted, and leaves the others NULL. */
typedef struct recollect_outputs {
    size_t size;              /* sizeof(recollect_outputs) */
    int top;                  /* classes to name for each image: 1 .. recollect_model_classes(); 0 where neither of
                              the next two is wanted */
    int32_t *labels;          /* (count, top): the most probable classes, best first */
    float *probabilities;     /* (count, top) */
    float *unfamiliarity;     /* (count): as recollect_predict has it */
    int32_t *nearest;         /* (count): the label of the class whose features are nearest, which need not be the most
                              probable one; -1 if the model has no class statistics, or of one image a class */
    float *features;          /* (count, recollect_model_features()): the image as the last layer but one sees it */
    recollect_status *status; /* (count): whether each picture could be read. With it a picture that cannot be read
                              does not stop the call: its labels and `nearest` are -1, its numbers NaN, and `log`
                              gets a warning that says why. NULL: such a picture is the failure of the call */
    float *stranger;          /* (count): how many images of the classes that the model knows look at least as strange
                              to it as this one, as a part of 1. So whoever takes all images below 0.05 for something
                              that the model has not learnt is wrong about 5 % of the images of known classes. The
                              model has measured that on the images that it held out when it learnt. NaN: it has held
                              out too few of them to tell; `log` gets a note that says so */
} recollect_outputs;

/* What is on these images? They may have any height and width up to 20000 pixels, and 1 or 3 channels. Images of
 * the model's shape are taken as they are; all others are resized, and cut to a square, as files are. On failure the
 * contents of the arrays are undefined. RECOLLECT_NUMERIC as in recollect_predict. */
RECOLLECT_API recollect_status recollect_predictor_images(recollect_predictor *predictor,
                                                          const recollect_images *images,
                                                          const recollect_outputs *outputs);

/* A picture that is still encoded, as recollect_learn_folder reads them. This structure will not grow. */
typedef struct recollect_picture {
    const char *path;  /* of a file; with `bytes` only a name, which may be NULL */
    const void *bytes; /* what the file holds, so that it is not read; NULL: read it */
    size_t size;       /* of bytes */
} recollect_picture;

/* The same for `count` pictures. The threads of the predictor decode them. */
RECOLLECT_API recollect_status recollect_predictor_pictures(recollect_predictor *predictor,
                                                            const recollect_picture *pictures, int count,
                                                            const recollect_outputs *outputs);

/* What is on one picture. Valid during the callback. */
typedef struct recollect_prediction {
    size_t size;             /* of this structure, as the library knows it */
    int picture;             /* which of the caller's array it belongs to */
    const char *path;        /* of the file; what the caller called the bytes */
    recollect_status status; /* anything but RECOLLECT_OK: it could not be read, and what follows `message` is 0, NULL
                                or NaN */
    const char *message;     /* why not; "" if it could */
    int top;
    const int32_t *labels;       /* (top) */
    const double *probabilities; /* (top) */
    double unfamiliarity;        /* this and the next two as in recollect_outputs */
    int nearest;
    const float *features;
    double stranger;   /* as in recollect_outputs */
    int none_of_these; /* 1: `stranger` is below the rate that recollect_predictor_reject has set */
} recollect_prediction;

/* From now on, answer "none of these" in `none_of_these` of a prediction where `stranger` is below `rate`: 0.05 gives
 * up 5 % of the images of known classes to find strangers. 0, as before the first call: never.
 * RECOLLECT_INVALID_ARGUMENT: the rate is not from 0 to 1, or above 0 for a model that cannot tell (its `stranger` is
 * NaN). */
RECOLLECT_API recollect_status recollect_predictor_reject(recollect_predictor *predictor, double rate);

/* The same for any number of pictures, where a path may also be a folder: that means all pictures below it in the
 * order of their names, and then what links in it lead to. At the end `log` gets what in a folder is no picture that
 * can be read, as with recollect_learn_folder. `each` is called for every picture in order, on the thread that calls;
 * it must not use the same predictor. `top` is as above; more classes than there are is fine here. A picture that
 * cannot be read, and a folder without one, is a prediction with a status and a message, not a failure of the call. */
RECOLLECT_API recollect_status recollect_predictor_each(
    recollect_predictor *predictor, const recollect_picture *pictures, int count, int top,
    void (*each)(void *user, const recollect_prediction *prediction), void *user);

/* How many files, folders and links the last recollect_predictor_each of this predictor left out, as
 * recollect_learn_result counts them; 0 if it failed, or for NULL. */
RECOLLECT_API int recollect_predictor_left_out(const recollect_predictor *predictor);

/* ---- evaluating ---------------------------------------------------------------------------------------- */

/* How well a model does on labelled images. The library makes it and frees it. It never changes, and stays
 * valid when the model learns or is destroyed. Percentages are of the images whose class the model knows; NaN:
 * there are none. */
typedef struct recollect_evaluation {
    size_t size;                  /* of this structure, as the library knows it */
    int images;                   /* that were scored */
    int broken;                   /* image files that were left out, because they cannot be read (see skip_broken) */
    int unknown_images;           /* left out, because the model does not know their classes */
    int unknown_classes;          /* how many classes these are */
    const char *const *unknown;   /* (unknown_classes): their names */
    double accuracy;              /* percent of images whose most probable class is the right one */
    double top5;                  /* percent whose class is among the five most probable */
    int tasks;                    /* as recollect_model_tasks(): how often the model had learnt */
    const double *task_accuracy;  /* (tasks): percent of the images of the classes that it learnt then */
    const int *task_images;       /* (tasks) */
    int classes;                  /* as recollect_model_classes() */
    const double *class_accuracy; /* (classes): percent of the images of this class */
    const double *class_top5;     /* (classes) */
    const int *class_images;      /* (classes) */
    const int32_t *confusion; /* (classes, classes): images of the class of the row that the model took for the class of
                                 the column */
    int left_out;             /* this and the next as in recollect_learn_result; 0 for images in memory */
    int not_pictures;
    const recollect_review *review; /* the verdict */
} recollect_evaluation;

/* Scores images in memory. labels (images->count): the model's label of each. The images may have any size, as those
 * of recollect_predictor_images. */
RECOLLECT_API recollect_status recollect_evaluate(const recollect_model *model, const recollect_images *images,
                                                  const int32_t *labels, recollect_evaluation **evaluation);

/* The same with images in files: what recollect_learn_folder reads. The test images of the data are scored; all of
 * its images where it has no test images of its own. The library matches classes by their names; images of other
 * classes are left out and counted. The model's options `format` and `skip_broken` hold. RECOLLECT_INVALID_ARGUMENT:
 * no image has a class that the model knows. */
RECOLLECT_API recollect_status recollect_evaluate_folder(const recollect_model *model, const char *path,
                                                         recollect_evaluation **evaluation);

RECOLLECT_API void recollect_evaluation_destroy(recollect_evaluation **evaluation);

/* ---- dreaming ------------------------------------------------------------------------------------------ */

/* What the model remembers of a class: writes up to `count` images of the model's shape to `pixels` (count,
 * height, width, channels), and their number to *made. That is less than `count`, even 0, if the model hardly
 * ever dreams of that class. The first call after learning or loading takes as long as a stage of learning
 * (with callbacks), and so does a call that asks for more images than the calls before; the others are quick.
 * Same model, same count: same dreams. The model's knowledge does not change. */
RECOLLECT_API recollect_status recollect_dream(recollect_model *model, int label, int count, uint8_t *pixels,
                                               int *made);

/* What to dream. The library chooses what is 0 or NULL. */
typedef struct recollect_dream_settings {
    size_t size;      /* the caller sets it: sizeof(recollect_dream_settings) */
    int per_class;    /* dreams of each class, at most 10000; 0: 16 */
    int steps;        /* of inversion; 0: as the model's configuration has it, at most 500 */
    const char *seed; /* a whole number as text: other dreams; NULL: the model's */
    int scale;        /* each pixel becomes scale x scale, at most 64; 0: so that a dream has 64 pixels a side */
    int overwrite;    /* not 0: replaces pictures that exist */
    /* Real images to lay beside the dreams: a folder with a folder of images for each class, or any other data set that
     * recollect_evaluate_folder reads. Classes are matched by name; a class that only one of the two has is told to
     * `log`. At most RECOLLECT_REAL_IMAGES of a class are shown, its test images where there are some. NULL: none. */
    const char *beside;
} recollect_dream_settings;

/* The most real images of a class that are laid beside its dreams. */
#define RECOLLECT_REAL_IMAGES 8

/* What was dreamt. The pointers are arrays of the caller, with a row for each of the recollect_model_classes() classes;
 * NULL: not wanted. */
typedef struct recollect_dream_result {
    size_t size;    /* the caller sets it: sizeof(recollect_dream_result) */
    int steps;      /* of inversion that were made */
    int dreams;     /* that were made: until every class had enough, at most 16 times as many as were wanted */
    int *taken;     /* how many of these the model took for this class */
    double *spread; /* how much the dreams of a class differ: standard deviation of a pixel, in units of that of the
                       data; NaN: there are fewer than two dreams of it */
    int per_class;  /* dreams of each class, at most: as the settings have it */
    int sheets;     /* pictures of all classes: all.png, all-2.png, ... */
    /* How probable the model finds the class of each dream that was kept: (classes, per_class); NaN: there is no such
     * dream. A dream has numbers of any size, a picture only whole ones from 0 to 255, so the model may say something
     * else about the pixels of the picture. */
    float *probabilities;
    /* The same of the real images, and the class that the model takes each for: (classes, RECOLLECT_REAL_IMAGES); NaN
     * and -1: there is no such image. */
    float *real_probabilities;
    int32_t *real_taken;
} recollect_dream_result;

/* Writes dreams of every class as pictures: folder/01-NAME.png holds those of the first class, and so on, if there are
 * any. folder/all.png has a row for each class with its number, its name, its first dreams and, with settings->beside,
 * some real images; below each image stands the probability that the model gives to the class of the row, in red if it
 * takes a real image for another class. Where the rows of all classes are too many for one picture, folder/all-2.png
 * and so on have the others. The library makes the folder if it does not exist. All pictures appear together: if one
 * cannot be made, none is. If a picture exists already or would be too large, the call fails before the work begins;
 * with settings->overwrite it replaces pictures. `settings` and `result` may be NULL. Same model, same settings: same
 * dreams. */
RECOLLECT_API recollect_status recollect_dream_folder(recollect_model *model, const char *folder,
                                                      const recollect_dream_settings *settings,
                                                      recollect_dream_result *result);

/* ---- what there is ------------------------------------------------------------------------------------- */

/* The lists: item 0, 1, ... into a structure whose `size` the caller has set to its sizeof. Returns 1; 0 when there
 * are no more, or the structure is NULL or smaller than its first version. The texts are the library's, and stay
 * valid. */

/* A way to learn. */
typedef struct recollect_method {
    size_t size;
    const char *name;    /* for recollect_model_set(model, "method", ...) */
    const char *title;   /* as papers call it: "CwD" */
    const char *summary; /* what it does, in one line */
    const char *stores;  /* what it keeps from one task to the next beside the classifier: "nothing" */
    int data_free;       /* 1: it keeps neither images nor a model that makes them, and is not given old images */
    int learn;           /* 1: a model can learn with it; 0: it needs the old images, which experiments have alone */
} recollect_method;

RECOLLECT_API int recollect_method_at(int index, recollect_method *method);

/* A setting of the configuration. */
typedef struct recollect_setting {
    size_t size;
    const char *name;    /* for recollect_model_set */
    const char *type;    /* "text", "whole number", "number", "true or false", "list of whole numbers" */
    const char *help;    /* what it is, in one line */
    const char *initial; /* its value, as text, if neither a preset nor the caller sets it */
    const char *readers; /* the part that reads it: "training", "inversion", ... */
    const char *choices; /* "code|paper": it takes one of these; NULL: there is no such list */
    double low, high;    /* the range of a number, or of each number of a list; NaN: it is not a number */
    char range[96];      /* what it takes, in words: "1 to 4096", "code or paper", "at most 31 characters" */
} recollect_setting;

RECOLLECT_API int recollect_setting_at(int index, recollect_setting *setting);

/* Settings that belong together. */
typedef struct recollect_preset {
    size_t size;
    const char *name; /* for recollect_model_set(model, "preset", ...) */
    const char *summary;
} recollect_preset;

RECOLLECT_API int recollect_preset_at(int index, recollect_preset *preset);

/* Names of the nets; NULL when there are no more. */
RECOLLECT_API const char *recollect_net_at(int index);

/* Names of the nets whose published weights recollect_model_import takes; NULL when there are no more. */
RECOLLECT_API const char *recollect_published_net_at(int index);

/* ---- in words ------------------------------------------------------------------------------------------ */

/* These describe things in lines of text. `json` not 0: one JSON value instead, in one call of `line`. What
 * was not measured is null there. */

/* This machine, the backends that it has, and the kinds of pictures that this build reads. */
RECOLLECT_API recollect_status recollect_describe_machine(recollect_line *line, void *user);
/* All methods. */
RECOLLECT_API recollect_status recollect_describe_methods(int json, recollect_line *line, void *user);
/* The layers of a net for images of `channels` channels and `size` x `size` pixels. */
RECOLLECT_API recollect_status recollect_describe_net(const char *name, int channels, int size, recollect_line *line,
                                                      void *user);
/* What a model knows and keeps. RECOLLECT_INVALID_ARGUMENT for one that knows nothing. */
RECOLLECT_API recollect_status recollect_describe_model(const recollect_model *model, int json, recollect_line *line,
                                                        void *user);
/* A prediction as JSON; `model` is the one that predicted. */
RECOLLECT_API recollect_status recollect_describe_prediction(const recollect_model *model,
                                                             const recollect_prediction *prediction,
                                                             recollect_line *line, void *user);
/* An evaluation as JSON; `model` is the one that was evaluated. `advise` may be NULL; it gets the same `user`. */
RECOLLECT_API recollect_status recollect_describe_evaluation(const recollect_model *model,
                                                             const recollect_evaluation *evaluation,
                                                             recollect_advise *advise, recollect_line *line,
                                                             void *user);
/* What the model has just learnt, as JSON: `result` as recollect_learn filled it, `path` the file that the
 * model was saved as, or NULL. `advise` as above. */
RECOLLECT_API recollect_status recollect_describe_learning(const recollect_model *model,
                                                           const recollect_learn_result *result, const char *path,
                                                           recollect_advise *advise, recollect_line *line, void *user);
/* What recollect_dream_folder wrote into `folder`, as JSON: `result` as it filled it. What the result has no arrays for
 * is null. */
RECOLLECT_API recollect_status recollect_describe_dreams(const recollect_model *model,
                                                         const recollect_dream_result *result, const char *folder,
                                                         recollect_line *line, void *user);

#ifdef __cplusplus
}
#endif

#endif
