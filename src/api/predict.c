#include "api/predict.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "api/unfamiliarity.h"
#include "base/file.h"
#include "base/memory.h"
#include "cil/scorer.h"
#include "data/image.h"
#include "forecast/allowance.h"

enum { BATCH = 64, DEEPEST_FOLDER = 40, PATH_SIZE = 4096 };

typedef struct entry {
    char *name;                    /* NULL: free */
    bool decoded;                  /* its pixels are there */
    char message[RC_MESSAGE_SIZE]; /* "": readable so far */
} entry;

struct rc_predictor {
    rc_saved_model *model;
    rc_predict_settings settings;
    rc_scorer *scorer;
    rc_unfamiliarity *unfamiliarity; /* NULL: no statistics */
    rc_pool *pool;
    rc_image_fit fit;
    rc_image_options options;
    size_t image_bytes;
    int classes, d, top;

    entry queue[BATCH];
    int queued;
    int slots;       /* pictures that there is room for */
    uint8_t *pixels; /* (slots, h, w, c) */
    int32_t index[BATCH];
    float *logits;   /* (slots, classes) */
    float *features; /* (slots, d) */
    int *label;      /* (classes): sorted by probability */
    double *probability;
    int images, broken;
};

/* Room for so many pictures at least: one picture takes the memory of one. Those that are decoded stay. */
static rc_status make_room(rc_predictor *p, int slots)
{
    const rc_learner *l = &p->model->learner;
    int batch;
    if (slots <= p->slots)
        return RC_OK;
    uint8_t *pixels = rc_alloc_zeroed(NULL, (size_t)slots, p->image_bytes);
    float *logits = rc_alloc_zeroed(NULL, (size_t)slots * (size_t)p->classes, sizeof *logits);
    float *features = rc_alloc_zeroed(NULL, (size_t)slots * (size_t)p->d, sizeof *features);
    if (pixels != NULL && p->slots > 0)
        memcpy(pixels, p->pixels, (size_t)p->slots * p->image_bytes);
    rc_free(NULL, p->pixels);
    rc_free(NULL, p->logits);
    rc_free(NULL, p->features);
    rc_scorer_destroy(p->scorer);
    p->pixels = pixels;
    p->logits = logits;
    p->features = features;
    p->scorer = NULL;
    p->slots = slots;
    if (pixels == NULL || logits == NULL || features == NULL)
        return RC_OUT_OF_MEMORY;
    RC_TRY(rc_scoring_batch(l->backend, &l->student, &l->settings, &l->augment, slots, &batch));
    return rc_scorer_create(l->backend, &l->student, batch, &l->augment, &p->scorer);
}

static rc_status build(rc_predictor *p)
{
    const rc_learner *l = &p->model->learner;
    const rc_augment *image = &l->augment;
    p->classes = l->student.head.classes;
    p->d = l->student.head.d;
    p->top = p->settings.top < p->classes ? p->settings.top : p->classes;
    p->image_bytes = (size_t)image->h * (size_t)image->w * (size_t)image->c;
    p->fit = (rc_image_fit){.resize = p->model->config.resize, .size = image->h, .channels = image->c};
    p->options = (rc_image_options){.ignore_exif = !p->model->config.exif};
    p->label = rc_alloc_zeroed(NULL, (size_t)p->classes, sizeof *p->label);
    p->probability = rc_alloc_zeroed(NULL, (size_t)p->classes, sizeof *p->probability);
    if (p->label == NULL || p->probability == NULL)
        return RC_OUT_OF_MEMORY;
    RC_TRY(rc_pool_create(p->settings.threads, &p->pool));
    RC_TRY(make_room(p, 1)); /* a model that is too large is refused before a picture is read */
    rc_status status = rc_unfamiliarity_create(l, &p->unfamiliarity);
    if (status == RC_FORMAT) { /* a model without usable statistics still predicts */
        rc_log_write(&p->settings.watch.log, RC_LOG_WARN, "warning: %s, so unfamiliarity is not shown",
                     rc_message());
        status = RC_OK;
    }
    return status;
}

rc_status rc_predictor_create(rc_saved_model *model, const rc_predict_settings *settings,
                              rc_predictor **predictor)
{
    *predictor = NULL;
    if (settings->top < 1)
        return rc_fail(RC_INVALID_ARGUMENT, "top is %d, expected 1 or more", settings->top);
    rc_predictor *p = rc_alloc_zeroed(NULL, 1, sizeof *p);
    if (p == NULL)
        return RC_OUT_OF_MEMORY;
    p->model = model;
    p->settings = *settings;
    rc_status status = build(p);
    if (status == RC_OK)
        *predictor = p;
    else
        rc_predictor_destroy(p);
    return status;
}

static void empty_queue(rc_predictor *p)
{
    for (int i = 0; i < p->queued; i++)
        rc_free(NULL, p->queue[i].name);
    p->queued = 0;
}

void rc_predictor_destroy(rc_predictor *p)
{
    if (p == NULL)
        return;
    empty_queue(p);
    rc_scorer_destroy(p->scorer);
    rc_unfamiliarity_destroy(p->unfamiliarity);
    rc_pool_destroy(p->pool);
    rc_free(NULL, p->pixels);
    rc_free(NULL, p->logits);
    rc_free(NULL, p->features);
    rc_free(NULL, p->label);
    rc_free(NULL, p->probability);
    rc_free(NULL, p);
}

bool rc_predictor_knows_familiar(const rc_predictor *p)
{
    return p->unfamiliarity != NULL;
}

int rc_predictor_images(const rc_predictor *p)
{
    return p->images;
}

int rc_predictor_broken(const rc_predictor *p)
{
    return p->broken;
}

/* ---- a batch ----------------------------------------------------------------------------------------------------- */

/* Any thread: brings a picture to the net's size, or leaves a message. */
static void take_image(rc_predictor *p, int slot, rc_status status, rc_image *image)
{
    entry *e = &p->queue[slot];
    if (status == RC_OK)
        status = rc_image_fit_into(image, &p->fit, p->pixels + (size_t)slot * p->image_bytes);
    rc_image_free(image);
    if (status != RC_OK)
        snprintf(e->message, sizeof e->message, "%s", rc_message());
    e->decoded = status == RC_OK;
}

static void decode(void *ctx, int slot, int worker)
{
    (void)worker;
    rc_predictor *p = ctx;
    entry *e = &p->queue[slot];
    rc_image image = {0};
    if (!e->decoded && e->message[0] == '\0')
        take_image(p, slot, rc_image_read(e->name, &p->options, &image), &image);
}

void rc_rank(const float *logits, int classes, int top, int *label, double *probability)
{
    double largest = -INFINITY, sum = 0;
    for (int k = 0; k < classes; k++)
        largest = (double)logits[k] > largest ? (double)logits[k] : largest;
    for (int k = 0; k < classes; k++)
        sum += exp((double)logits[k] - largest);
    for (int place = 0; place < top; place++) {
        int best = -1;
        for (int k = 0; k < classes; k++) {
            bool behind = place == 0 || logits[k] < logits[label[place - 1]] ||
                          (logits[k] == logits[label[place - 1]] && k > label[place - 1]);
            if (behind && (best < 0 || logits[k] > logits[best]))
                best = k;
        }
        label[place] = best < 0 ? 0 : best;
        probability[place] = exp((double)logits[label[place]] - largest) / sum;
    }
}

static void report(rc_predictor *p, int slot, int row)
{
    const entry *e = &p->queue[slot];
    rc_prediction prediction = {.name = e->name, .unfamiliarity = NAN, .nearest = -1};
    if (e->decoded) {
        rc_rank(p->logits + (size_t)row * (size_t)p->classes, p->classes, p->top, p->label, p->probability);
        prediction.count = p->top;
        prediction.label = p->label;
        prediction.probability = p->probability;
        if (p->unfamiliarity != NULL)
            prediction.unfamiliarity = rc_unfamiliarity_of(
                p->unfamiliarity, p->features + (size_t)row * (size_t)p->d, &prediction.nearest);
        p->images++;
    } else {
        prediction.message = e->message;
        p->broken++;
    }
    p->settings.each(p->settings.user, &prediction);
}

rc_status rc_predictor_finish(rc_predictor *p)
{
    int rows = 0;
    if (p->queued == 0)
        return RC_OK;
    RC_TRY(make_room(p, p->queued));
    rc_pool_run(p->pool, p->queued, decode, p);
    for (int slot = 0; slot < p->queued; slot++)
        if (p->queue[slot].decoded)
            p->index[rows++] = slot;
    if (rows > 0)
        RC_TRY(rc_scorer_run(p->scorer, p->pixels, p->index, rows, p->logits, p->features));
    for (int slot = 0, row = 0; slot < p->queued; slot++) {
        report(p, slot, row);
        row += p->queue[slot].decoded;
    }
    empty_queue(p);
    return rc_watch_cancelled(&p->settings.watch) ? rc_fail(RC_CANCELLED, "interrupted") : RC_OK;
}

/* ---- what to predict --------------------------------------------------------------------------------------------- */

/* A slot of the queue for a picture of that name; makes room first. */
static rc_status enqueue(rc_predictor *p, const char *name, int *slot)
{
    if (p->queued == BATCH)
        RC_TRY(rc_predictor_finish(p));
    size_t size = strlen(name) + 1;
    char *copy = rc_alloc(NULL, size);
    if (copy == NULL)
        return RC_OUT_OF_MEMORY;
    memcpy(copy, name, size);
    p->queue[p->queued] = (entry){.name = copy};
    *slot = p->queued++;
    return RC_OK;
}

/* The message of what has just failed at `name`, in the place of a prediction. */
static rc_status enqueue_failure(rc_predictor *p, const char *name)
{
    char message[RC_MESSAGE_SIZE];
    int slot;
    snprintf(message, sizeof message, "%s", rc_message());
    RC_TRY(enqueue(p, name, &slot));
    memcpy(p->queue[slot].message, message, sizeof message);
    return RC_OK;
}

rc_status rc_predictor_add_bytes(rc_predictor *p, const char *name, const void *data, size_t size)
{
    int slot;
    rc_image image = {0};
    RC_TRY(enqueue(p, name, &slot));
    RC_TRY(make_room(p, slot + 1));
    take_image(p, slot, rc_image_decode(data, size, &p->options, &image), &image);
    return RC_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

typedef struct name_list {
    char **name;
    int count, capacity;
} name_list;

static rc_status add_name(name_list *list, const char *name)
{
    if (list->count == list->capacity) {
        int capacity = list->capacity > 0 ? 2 * list->capacity : 64;
        char **grown = rc_alloc_zeroed(NULL, (size_t)capacity, sizeof *grown);
        if (grown == NULL)
            return RC_OUT_OF_MEMORY;
        if (list->count > 0)
            memcpy(grown, list->name, (size_t)list->count * sizeof *grown);
        rc_free(NULL, list->name);
        list->name = grown;
        list->capacity = capacity;
    }
    size_t size = strlen(name) + 1;
    char *copy = rc_alloc(NULL, size);
    if (copy == NULL)
        return RC_OUT_OF_MEMORY;
    memcpy(copy, name, size);
    list->name[list->count++] = copy;
    return RC_OK;
}

/* Names in a folder but hidden ones, sorted. */
static rc_status read_folder(const char *path, name_list *list)
{
    DIR *folder = opendir(path);
    if (folder == NULL)
        return rc_fail(RC_IO, "cannot open the folder '%.700s': %s", path, strerror(errno));
    rc_status status = RC_OK;
    errno = 0;
    for (struct dirent *e; status == RC_OK && (e = readdir(folder)) != NULL; errno = 0)
        if (e->d_name[0] != '.')
            status = add_name(list, e->d_name);
    if (status == RC_OK && errno != 0)
        status = rc_fail(RC_IO, "cannot list the folder '%.700s': %s", path, strerror(errno));
    closedir(folder);
    if (list->count > 0)
        qsort(list->name, (size_t)list->count, sizeof *list->name, by_name);
    return status;
}

static rc_status add_folder(rc_predictor *p, const char *path, int depth);

/* Something inside a folder: a picture, a folder below (a link to a folder might lead in circles), or nothing
 * of ours. A link that leads nowhere is a picture, of which reading says what is wrong. */
static rc_status add_inside(rc_predictor *p, const char *path, int depth)
{
    struct stat link, target;
    int slot;
    if (lstat(path, &link) != 0 || stat(path, &target) != 0)
        return rc_image_name(path) ? enqueue(p, path, &slot) : RC_OK;
    if (S_ISDIR(target.st_mode))
        return S_ISLNK(link.st_mode) ? RC_OK : add_folder(p, path, depth + 1);
    return S_ISREG(target.st_mode) && rc_image_name(path) ? enqueue(p, path, &slot) : RC_OK;
}

static rc_status add_folder(rc_predictor *p, const char *path, int depth)
{
    name_list list = {0};
    rc_status status = depth <= DEEPEST_FOLDER ? read_folder(path, &list)
                                               : rc_fail(RC_IO, "'%.700s': folders are nested deeper than %d", path,
                                                         DEEPEST_FOLDER);
    if (status == RC_IO)
        status = enqueue_failure(p, path);
    for (int i = 0; status == RC_OK && i < list.count; i++) {
        char inside[PATH_SIZE];
        const char *slash = path[0] != '\0' && path[strlen(path) - 1] == '/' ? "" : "/";
        int length = snprintf(inside, sizeof inside, "%s%s%s", path, slash, list.name[i]);
        if (length > 0 && length < PATH_SIZE) {
            status = add_inside(p, inside, depth);
        } else {
            rc_fail(RC_IO, "a path below '%.700s' is too long", path);
            status = enqueue_failure(p, path);
        }
    }
    for (int i = 0; i < list.count; i++)
        rc_free(NULL, list.name[i]);
    rc_free(NULL, list.name);
    return status;
}

rc_status rc_predictor_add(rc_predictor *p, const char *path)
{
    struct stat what;
    int slot, before = p->images + p->broken + p->queued;
    if (stat(path, &what) != 0 || !S_ISDIR(what.st_mode))
        return enqueue(p, path, &slot); /* whatever is wrong with it is found out when it is read */
    RC_TRY(add_folder(p, path, 0));
    if (p->images + p->broken + p->queued > before)
        return RC_OK;
    rc_fail(RC_FORMAT, "%.700s: the folder holds no picture (.jpg .jpeg .png .ppm .pgm .pnm)", path);
    return enqueue_failure(p, path);
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

rc_status rc_prediction_json(const rc_saved_model *model, const rc_prediction *prediction,
                             void (*line)(void *user, const char *text), void *user)
{
    rc_json_writer w = {0};
    rc_json_begin_object(&w, NULL);
    rc_json_put_text(&w, "file", prediction->name);
    if (prediction->message != NULL) {
        rc_json_put_text(&w, "error", prediction->message);
    } else {
        rc_json_begin_array(&w, "top");
        for (int i = 0; i < prediction->count; i++) {
            rc_json_begin_object(&w, NULL);
            rc_json_put_text(&w, "class", model->class_name[prediction->label[i]]);
            rc_json_put_int(&w, "label", prediction->label[i]);
            rc_json_put_real(&w, "probability", prediction->probability[i]);
            rc_json_end(&w);
        }
        rc_json_end(&w);
        rc_json_put_real(&w, "unfamiliarity", prediction->unfamiliarity);
    }
    rc_json_end(&w);
    return rc_json_line(&w, line, user);
}
