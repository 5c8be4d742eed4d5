/* Cases of labels, counts and class statistics. */
#include "check/case.h"

typedef struct statistics_case {
    int n, d, classes, stride, batches;
    bool unbiased;
    int logits, probabilities, labels, count, class_weight;
    int features, center, sum, outer, class_mean, covariance;
} statistics_case;

static statistics_case *draw_logits(rc_case *c)
{
    statistics_case *p = rc_case_parameters(c);
    p->n = RC_CHOOSE(c, 1, 3, 16, 33, 128);
    p->classes = RC_CHOOSE(c, 1, 2, 10, 33, 100);
    p->stride = p->classes + (rc_case_chance(c, 50) ? RC_CHOOSE(c, 1, 20) : 0);
    rc_case_say(c, "n %d, classes %d, stride %d", p->n, p->classes, p->stride);
    p->logits = rc_case_real(c, "logits", RC_IN, p->n, p->stride);
    rc_case_fill(c, p->logits, 0, rc_case_uniform(c, 0.5, 8));
    return p;
}

static void draw_softmax(rc_case *c)
{
    statistics_case *p = draw_logits(c);
    p->probabilities = rc_case_sum(c, rc_case_real(c, "probabilities", RC_OUT, p->n, p->classes), p->classes);
}

static void run_softmax(rc_run *r)
{
    const statistics_case *p = rc_run_parameters(r);
    r->be->softmax(r->be, p->n, p->classes, p->stride, rc_at(r, p->logits), rc_at(r, p->probabilities));
}

/* Ties by chance: the first of them counts. */
static void draw_argmax(rc_case *c)
{
    statistics_case *p = draw_logits(c);
    bool ties = rc_case_chance(c, 40);
    for (size_t i = 0; c->status == RC_OK && ties && i < c->buffer[p->logits].count; i++)
        c->buffer[p->logits].host[i] = rc_case_below(c, 3);
    p->labels = rc_case_buffer(c, "labels", RC_BUFFER_INT, RC_OUT, p->n, 1, 1, 1);
}

static void run_argmax(rc_run *r)
{
    const statistics_case *p = rc_run_parameters(r);
    r->be->argmax(r->be, p->n, p->classes, p->stride, rc_at(r, p->logits), rc_at(r, p->labels));
}

static int draw_counts(rc_case *c, const char *name, rc_buffer_role role, int classes)
{
    int buffer = rc_case_buffer(c, name, RC_BUFFER_INT, role, classes, 1, 1, 1);
    for (int k = 0; k < classes; k++)
        rc_case_set(c, buffer, (size_t)k, rc_case_chance(c, 80) ? rc_case_below(c, 5000) : 0);
    return buffer;
}

static void draw_count_labels(rc_case *c)
{
    statistics_case *p = rc_case_parameters(c);
    p->n = RC_CHOOSE(c, 1, 5, 128, 256);
    p->classes = RC_CHOOSE(c, 1, 10, 100);
    rc_case_say(c, "n %d, classes %d", p->n, p->classes);
    p->labels = rc_case_labels(c, "labels", p->n, p->classes);
    p->count = draw_counts(c, "count", RC_IN_OUT, p->classes);
}

static void run_count_labels(rc_run *r)
{
    const statistics_case *p = rc_run_parameters(r);
    r->be->count_labels(r->be, p->n, rc_at(r, p->labels), p->classes, rc_at(r, p->count));
}

static void draw_balance_weights(rc_case *c)
{
    statistics_case *p = rc_case_parameters(c);
    p->classes = RC_CHOOSE(c, 1, 2, 10, 100, 700);
    rc_case_say(c, "classes %d", p->classes);
    p->count = draw_counts(c, "count", RC_IN, p->classes);
    p->class_weight = rc_case_real(c, "class_weight", RC_OUT, 1, p->classes);
}

static void run_balance_weights(rc_run *r)
{
    const statistics_case *p = rc_run_parameters(r);
    r->be->balance_weights(r->be, p->classes, rc_at(r, p->count), rc_at(r, p->class_weight));
}

/* Several batches of the same samples, then the finish. Of `outer` one triangle counts, and only finish looks at it. */
static void draw_class_statistics(rc_case *c)
{
    statistics_case *p = rc_case_parameters(c);
    p->n = RC_CHOOSE(c, 2, 7, 32, 64);
    p->d = RC_CHOOSE(c, 1, 3, 17, 64);
    p->classes = RC_CHOOSE(c, 1, 5, 20);
    p->batches = 1 + (int)rc_case_below(c, 3);
    p->unbiased = rc_case_chance(c, 50);
    rc_case_say(c, "n %d x %d, d %d, classes %d%s", p->n, p->batches, p->d, p->classes, p->unbiased ? " unbiased" : "");
    p->features = rc_case_real(c, "features", RC_IN, p->n, p->d);
    p->labels = rc_case_labels(c, "labels", p->n, p->classes);
    p->center = rc_case_chance(c, 60) ? rc_case_real(c, "center", RC_IN, 1, p->d) : -1;
    p->count = rc_case_buffer(c, "count", RC_BUFFER_INT, RC_IN_OUT, p->classes, 1, 1, 1);
    p->sum = rc_case_buffer(c, "sum", RC_BUFFER_DOUBLE, RC_IN_OUT, p->classes, 1, 1, p->d);
    c->buffer[p->sum].magnitude = 1;
    p->outer = rc_case_buffer(c, "outer", RC_BUFFER_DOUBLE, RC_STATE, p->d, 1, 1, p->d);
    p->class_mean = rc_case_sum(c, rc_case_real(c, "class_mean", RC_OUT, p->classes, p->d), p->n);
    p->covariance = rc_case_sum(c, rc_case_real(c, "covariance", RC_OUT, p->d, p->d), p->n);
    c->buffer[p->class_mean].magnitude = c->buffer[p->covariance].magnitude = 1;
}

static void run_class_statistics(rc_run *r)
{
    const statistics_case *p = rc_run_parameters(r);
    for (int batch = 0; batch < p->batches; batch++)
        r->be->class_statistics(r->be, p->n, p->d, p->classes, rc_at(r, p->features), rc_at(r, p->labels),
                                rc_at(r, p->center), rc_at(r, p->count), rc_at(r, p->sum), rc_at(r, p->outer));
    r->be->class_statistics_finish(r->be, p->d, p->classes, rc_at(r, p->center), rc_at(r, p->count), rc_at(r, p->sum),
                                   rc_at(r, p->outer), p->unbiased, rc_at(r, p->class_mean), rc_at(r, p->covariance));
}

static const rc_operation operations[] = {
    {"softmax", "softmax", 10, 80, sizeof(statistics_case), draw_softmax, NULL, run_softmax, NULL},
    {"argmax", "argmax", 15, 80, sizeof(statistics_case), draw_argmax, NULL, run_argmax, NULL},
    {"count_labels", "count_labels", 10, 50, sizeof(statistics_case), draw_count_labels, NULL, run_count_labels, NULL},
    {"balance_weights", "balance_weights", 10, 50, sizeof(statistics_case), draw_balance_weights, NULL,
     run_balance_weights, NULL},
    {"class_statistics", "class_statistics class_statistics_finish", 15, 100, sizeof(statistics_case),
     draw_class_statistics, NULL, run_class_statistics, NULL},
};
const rc_operation_list rc_cases_statistics = {operations, sizeof operations / sizeof *operations};
