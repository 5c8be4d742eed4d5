#include "analysis/ledger.h"

#include <math.h>
#include <string.h>

#include "analysis/probe.h"
#include "analysis/statistics.h"
#include "base/matrix.h"
#include "base/memory.h"

/* All that a ledger needs while it goes from task to task. */
typedef struct bookkeeper {
    const rc_past_run *run;
    const rc_past_method *past, *joint; /* joint NULL: nobody ran it */
    rc_backend *backend;
    rc_pool *pool;
    const rc_watch *watch;
    rc_class_statistics moved; /* of all classes of the run; of those that were not learnt yet nothing */
    rc_features next;          /* of the next task's training images, by the model before it */
    int32_t *right, *images;   /* (classes): of a classifier; test images */
    rc_ledger *ledger;
} bookkeeper;

/* The task at hand. */
typedef struct page {
    int task; /* counts from 0 */
    int classes;
    rc_saved_model model;
    rc_features train, test;
    rc_class_statistics real; /* of the training images */
    rc_ledger_task *out;
} page;

/* ---- accuracies -------------------------------------------------------------------------------------------------- */

/* Over the classes [first, end): percent of their test images. */
static double share_right(const bookkeeper *b, int first, int end)
{
    double right = 0, images = 0;
    for (int k = first; k < end; k++) {
        right += b->right[k];
        images += b->images[k];
    }
    return 100 * right / images;
}

/* Writes down what b->right holds. */
static void enter(const bookkeeper *b, const page *p, rc_ledger_row row)
{
    p->out->accuracy[row] = share_right(b, 0, p->classes);
    for (int t = 0; t <= p->task; t++)
        p->out->by_task[t][row] = share_right(b, rc_task_first(&b->run->stream, t), b->run->stream.task_end[t]);
}

static rc_status enter_lda(const bookkeeper *b, const page *p, rc_ledger_row row, const double *mean,
                           const double *covariance)
{
    if (!rc_covariance_varies(p->test.d, covariance, p->classes, mean)) /* nothing to say */
        return RC_OK;
    RC_TRY(rc_linear_discriminant(p->test.n, p->test.d, p->test.value, p->test.label, p->classes, mean, covariance,
                                  b->right));
    enter(b, p, row);
    return RC_OK;
}

/* Mean distance of `mean` from the true ones over the classes [first, end), percent; classes that have no mean are left
 * out. */
static double mean_off(const page *p, const double *mean, int first, int end)
{
    double sum = 0;
    int count = 0;
    for (size_t k = (size_t)first; k < (size_t)end; k++) {
        size_t at = k * (size_t)p->real.d;
        double off = rc_relative_distance(p->real.d, mean + at, p->real.mean + at);
        if (!isnan(off)) {
            sum += off;
            count++;
        }
    }
    return 100 * sum / count;
}

static void enter_distances(const bookkeeper *b, const page *p, const double *mean, double *by_task, double *old)
{
    const rc_task_stream *stream = &b->run->stream;
    for (int t = 0; t <= p->task; t++)
        by_task[t] = mean_off(p, mean, rc_task_first(stream, t), stream->task_end[t]);
    *old = mean_off(p, mean, 0, rc_task_first(stream, p->task));
}

/* ---- statistics that the method stores, and moved ones ----------------------------------------------------------- */

static rc_status enter_stored(const bookkeeper *b, const page *p)
{
    const rc_learner *l = &p->model.learner;
    rc_backend *be = b->backend;
    rc_class_statistics stored;
    if (l->statistics_classes != p->classes) /* 0: none are stored */
        return RC_OK;
    RC_TRY(rc_class_statistics_allocate(p->test.d, p->classes, &stored));
    be->read_real64(be, stored.mean, l->class_mean, (size_t)p->classes * (size_t)p->test.d);
    be->read_real64(be, stored.covariance, l->covariance, (size_t)p->test.d * (size_t)p->test.d);
    rc_status status = be->sync(be);
    if (status == RC_OK)
        status = enter_lda(b, p, RC_LEDGER_STORED, stored.mean, stored.covariance);
    if (status == RC_OK)
        enter_distances(b, p, stored.mean, p->out->stored_off, &p->out->old_stored_off);
    rc_class_statistics_destroy(&stored);
    return status;
}

/* Moves the statistics of the classes before the task, by a map from the old net's features to the new one's. */
static rc_status move_statistics(bookkeeper *b, const page *p, const rc_features *own)
{
    int d = own->d, n_old = rc_task_first(&b->run->stream, p->task);
    rc_affine_map map;
    if (n_old == 0)
        return RC_OK;
    RC_TRY(rc_affine_map_fit(b->pool, own->n, d, b->next.value, own->value, &map));
    rc_status status = rc_affine_map_covariance(&map, b->moved.covariance);
    for (int k = 0; status == RC_OK && k < n_old; k++)
        status = rc_affine_map_mean(&map, b->moved.mean + (size_t)k * (size_t)d);
    rc_affine_map_destroy(&map);
    return status;
}

/* The classes of the task join: their means, and the covariance by numbers of classes. */
static void join_statistics(bookkeeper *b, const page *p, const rc_class_statistics *own)
{
    size_t d = (size_t)own->d, first = (size_t)rc_task_first(&b->run->stream, p->task), all = (size_t)p->classes;
    memcpy(b->moved.mean + first * d, own->mean + first * d, (all - first) * d * sizeof *own->mean);
    double old = (double)first / (double)all;
    for (size_t i = 0; i < d * d; i++)
        b->moved.covariance[i] = old * b->moved.covariance[i] + (1 - old) * own->covariance[i];
}

/* The images of the task alone, out of all training images so far. */
static rc_status pick_own(const bookkeeper *b, const page *p, rc_features *own)
{
    size_t d = (size_t)p->train.d;
    int first = rc_task_first(&b->run->stream, p->task);
    *own = (rc_features){.d = p->train.d};
    own->value = rc_alloc_zeroed(NULL, (size_t)p->train.n, d * sizeof *own->value);
    own->label = rc_alloc_zeroed(NULL, (size_t)p->train.n, sizeof *own->label);
    if (own->value == NULL || own->label == NULL) {
        rc_features_destroy(own);
        return RC_OUT_OF_MEMORY;
    }
    for (size_t i = 0; i < (size_t)p->train.n; i++)
        if (p->train.label[i] >= first) {
            memcpy(own->value + (size_t)own->n * d, p->train.value + i * d, d * sizeof *own->value);
            own->label[own->n++] = p->train.label[i];
        }
    return RC_OK;
}

static rc_status enter_moved(bookkeeper *b, const page *p)
{
    rc_features own;
    rc_class_statistics statistics = {0};
    RC_TRY(pick_own(b, p, &own));
    rc_status status = move_statistics(b, p, &own);
    if (status == RC_OK)
        status = rc_class_statistics_create(b->pool, own.n, own.d, own.value, own.label, p->classes, &statistics);
    if (status == RC_OK) {
        join_statistics(b, p, &statistics);
        status = enter_lda(b, p, RC_LEDGER_MOVED, b->moved.mean, b->moved.covariance);
    }
    if (status == RC_OK)
        enter_distances(b, p, b->moved.mean, p->out->moved_off, &p->out->old_moved_off);
    rc_class_statistics_destroy(&statistics);
    rc_features_destroy(&own);
    return status;
}

/* ---- a task ------------------------------------------------------------------------------------------------------ */

static rc_status enter_probe(const bookkeeper *b, const page *p)
{
    rc_probe probe;
    RC_TRY(rc_probe_fit(b->backend, p->train.n, p->train.d, p->train.value, p->train.label, p->classes, &probe));
    rc_linear_rule(p->test.n, p->test.d, p->test.value, p->test.label, p->classes, probe.weight, probe.shift, b->right);
    enter(b, p, RC_LEDGER_PROBE);
    rc_probe_destroy(&probe);
    return RC_OK;
}

/* Features of all images that the classifiers need, and what the next task needs of this model. */
static rc_status take_features(bookkeeper *b, page *p, rc_features *next)
{
    const rc_task_stream *stream = &b->run->stream;
    rc_feature_request train = {.end = p->classes}, test = {.end = p->classes, .test = true, .logits = true};
    RC_TRY(rc_features_create(b->run, &p->model, &train, b->watch, &p->train));
    RC_TRY(rc_features_create(b->run, &p->model, &test, b->watch, &p->test));
    if (p->task + 1 == b->ledger->tasks)
        return RC_OK;
    rc_feature_request later = {.first = p->classes, .end = stream->task_end[p->task + 1]};
    return rc_features_create(b->run, &p->model, &later, b->watch, next);
}

static rc_status fill_page(bookkeeper *b, page *p, rc_features *next)
{
    RC_TRY(rc_past_method_model(b->run, b->past, p->task + 1, b->backend, &p->model));
    RC_TRY(take_features(b, p, next));
    memset(b->images, 0, (size_t)p->classes * sizeof *b->images);
    for (int i = 0; i < p->test.n; i++)
        b->images[p->test.label[i]]++;
    rc_highest_scores(p->test.n, p->test.logits, p->test.label, p->classes, b->right);
    enter(b, p, RC_LEDGER_HEAD);
    for (int t = 0; t <= p->task; t++)
        rc_scores_of_task(p->test.n, p->test.logits, p->test.label, p->classes, rc_task_first(&b->run->stream, t),
                          b->run->stream.task_end[t], &p->out->among[t], &p->out->told[t]);
    RC_TRY(rc_class_statistics_create(b->pool, p->train.n, p->train.d, p->train.value, p->train.label, p->classes,
                                      &p->real));
    RC_TRY(rc_nearest_mean(p->test.n, p->test.d, p->test.value, p->test.label, p->classes, p->real.mean, b->right));
    enter(b, p, RC_LEDGER_NEAREST);
    RC_TRY(enter_lda(b, p, RC_LEDGER_TRUE, p->real.mean, p->real.covariance));
    RC_TRY(enter_stored(b, p));
    if (p->task == 0)
        RC_TRY(rc_class_statistics_allocate(p->train.d, b->run->stream.classes, &b->moved));
    RC_TRY(enter_moved(b, p));
    RC_TRY(enter_probe(b, p));
    if (b->joint != NULL && p->task < b->joint->done)
        p->out->accuracy[RC_LEDGER_JOINT] = b->joint->accuracy[p->task];
    return RC_OK;
}

static void blank_page(rc_ledger_task *t)
{
    for (int row = 0; row < RC_LEDGER_COUNT; row++) {
        t->accuracy[row] = NAN;
        for (int i = 0; i < RC_MAX_TASKS; i++)
            t->by_task[i][row] = NAN;
    }
    for (int i = 0; i < RC_MAX_TASKS; i++)
        t->stored_off[i] = t->moved_off[i] = t->among[i] = t->told[i] = NAN;
    t->old_stored_off = t->old_moved_off = NAN;
}

static rc_status make_page(bookkeeper *b, int task)
{
    page p = {.task = task, .classes = b->run->stream.task_end[task], .out = &b->ledger->task[task]};
    rc_features next = {0};
    blank_page(p.out);
    p.out->classes = p.classes;
    rc_status status = fill_page(b, &p, &next);
    rc_features_destroy(&b->next);
    b->next = next;
    rc_class_statistics_destroy(&p.real);
    rc_features_destroy(&p.train);
    rc_features_destroy(&p.test);
    rc_saved_model_destroy(&p.model);
    return status == RC_OK || status == RC_CANCELLED || status == RC_OUT_OF_MEMORY
               ? status
               : rc_fail(status, "%s after task %d: %s", b->past->method->name, task + 1, rc_message());
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

static rc_status make_pages(bookkeeper *b)
{
    size_t classes = (size_t)b->run->stream.classes;
    b->right = rc_alloc_zeroed(NULL, classes, 2 * sizeof *b->right);
    b->ledger->task = rc_alloc_zeroed(NULL, (size_t)b->past->done, sizeof *b->ledger->task);
    if (b->right == NULL || b->ledger->task == NULL)
        return RC_OUT_OF_MEMORY;
    b->images = b->right + classes;
    for (int task = 0; task < b->ledger->tasks; task++)
        RC_TRY(make_page(b, task));
    return RC_OK;
}

/* Joint training of the same run, if there is any. */
static rc_status find_joint(const rc_past_run *run, rc_past_method *joint, bool *found)
{
    const rc_method *method;
    RC_TRY(rc_method_find("joint", &method));
    RC_TRY(rc_past_run_has(run, method, found));
    return *found ? rc_past_method_open(run, method, joint) : RC_OK;
}

static rc_status open_books(const rc_past_run *run, const rc_method *method, rc_past_method *past, bookkeeper *b)
{
    bool found;
    RC_TRY(rc_past_method_open(run, method, &past[0]));
    if (past[0].done == 0)
        return rc_fail(RC_INVALID_ARGUMENT, "%s has no finished task yet", past[0].path);
    RC_TRY(find_joint(run, &past[1], &found));
    b->joint = found ? &past[1] : NULL;
    b->ledger->tasks = past[0].done;
    return make_pages(b);
}

rc_status rc_ledger_create(const rc_past_run *run, const rc_method *method, rc_backend *backend, rc_pool *pool,
                           const rc_watch *watch, rc_ledger *ledger)
{
    *ledger = (rc_ledger){.method = method};
    rc_past_method *past = rc_alloc_zeroed(NULL, 2, sizeof *past);
    if (past == NULL)
        return RC_OUT_OF_MEMORY;
    bookkeeper b = {.run = run, .past = past, .backend = backend, .pool = pool, .watch = watch, .ledger = ledger};
    rc_status status = open_books(run, method, past, &b);
    rc_class_statistics_destroy(&b.moved);
    rc_features_destroy(&b.next);
    rc_free(NULL, b.right);
    rc_free(NULL, past);
    if (status != RC_OK)
        rc_ledger_destroy(ledger);
    return status;
}

void rc_ledger_destroy(rc_ledger *ledger)
{
    rc_free(NULL, ledger->task);
    *ledger = (rc_ledger){0};
}
