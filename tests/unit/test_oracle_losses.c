/* Losses and statistics against PyTorch's autograd in float64 (tests/oracle/losses.py), on every CPU backend. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/subject.h"

/* Float: exponentials, norms and quotients lose a few bits beyond the rounding of the sums; angles are differences of
 * products. Double: the fixtures hold 14 digits, and a difference of two of them fewer. */
static const double tolerance[2] = {1e-5, 1e-11};

static oracle *fixture;

/* Compares a gradient after one call, then after a second one, which must have added as much again. */
static void expect_added(subject *s, const char *name, const void *gradient, size_t count, int calls)
{
    double *values = malloc(count * sizeof *values);
    assert_non_null(values);
    s->be->read_real64(s->be, values, gradient, count);
    for (size_t i = 0; i < count; i++)
        values[i] /= calls;
    subject_expect_double(s, name, values, count);
    free(values);
}

static void expect_map_added(subject *s, const char *name, const rc_tensor *shape, const void *memory, int calls)
{
    size_t count = (size_t)shape->n * (size_t)shape->h * (size_t)shape->w * (size_t)shape->c;
    double *values = malloc(count * sizeof *values);
    assert_non_null(values);
    s->be->read_act(s->be, values, shape, memory);
    for (size_t i = 0; i < count; i++)
        values[i] /= calls;
    subject_expect_double(s, name, values, count);
    free(values);
}

static const float *weight_of(subject *s)
{
    return subject_weight(s, oracle_number(s->c, "weight"));
}

static size_t size_of(subject *s, const char *key)
{
    return (size_t)oracle_int(s->c, key);
}

/* Labels `name` in [first, first + bound). */
static int32_t *labels_of(subject *s, const char *name, size_t count, int bound, int first)
{
    int32_t *labels = oracle_integers(s->c, name, count, (uint32_t)bound);
    for (size_t i = 0; i < count; i++)
        labels[i] += first;
    int32_t *memory = subject_labels(s, labels, count);
    free(labels);
    return memory;
}

/* ---- on logits ------------------------------------------------------------------------------------------------ */

static void cross_entropy(subject *s)
{
    rc_backend *be = s->be;
    rc_cross_entropy ce = {.n = oracle_int(s->c, "n"),
                           .stride = oracle_int(s->c, "stride"),
                           .first = oracle_int(s->c, "first"),
                           .count = oracle_int(s->c, "count"),
                           .temperature = (float)oracle_number(s->c, "temperature"),
                           .reduction = oracle_is(s->c, "weights", "weighted-mean") ? RC_WEIGHTED_MEAN : RC_MEAN,
                           .smoothing = (float)oracle_number(s->c, "smoothing")};
    size_t count = (size_t)ce.n * (size_t)ce.stride;
    void *logits = subject_input(s, "logits", count, 3, 0), *gradient = subject_reals(s, NULL, count);
    void *value = subject_reals(s, NULL, 1), *class_weight = NULL;
    if (!oracle_is(s->c, "weights", "none"))
        class_weight = subject_input(s, "class_weight", (size_t)ce.stride, 0.75, 1);
    int32_t *labels = labels_of(s, "labels", (size_t)ce.n, ce.count, ce.first);
    if (oracle_int(s->c, "mixed")) {
        ce.partner = labels_of(s, "partner", (size_t)ce.n, ce.count, ce.first);
        ce.share = subject_input(s, "share", (size_t)ce.n, 0.5, 0.5);
    }
    for (int call = 1; call <= 2; call++) {
        be->loss_cross_entropy(be, &ce, logits, labels, class_weight, weight_of(s), value, gradient);
        subject_expect(s, "value", value, 1);
        expect_added(s, "dlogits", gradient, count, call);
    }
}

static void decoupled(subject *s)
{
    rc_backend *be = s->be;
    int n = oracle_int(s->c, "n"), stride = oracle_int(s->c, "stride"), n_old = oracle_int(s->c, "n_old");
    int classes = oracle_int(s->c, "count");
    size_t count = (size_t)n * (size_t)stride;
    void *logits = subject_input(s, "logits", count, 3, 0), *gradient = subject_reals(s, NULL, count);
    void *inter = subject_reals(s, NULL, 1), *intra = subject_reals(s, NULL, 1);
    int32_t *labels = labels_of(s, "labels", (size_t)n, classes - n_old, n_old);
    const float *intra_weight = subject_weight(s, oracle_number(s->c, "intra_weight"));
    for (int call = 1; call <= 2; call++) {
        be->loss_decoupled(be, n, stride, n_old, classes, logits, labels, weight_of(s), intra_weight, inter, intra,
                           gradient);
        subject_expect(s, "inter", inter, 1);
        subject_expect(s, "intra", intra, 1);
        expect_added(s, "dlogits", gradient, count, call);
    }
}

static void hkd(subject *s)
{
    rc_backend *be = s->be;
    size_t n = size_of(s, "n"), stride = size_of(s, "stride"), teacher_stride = size_of(s, "teacher_stride");
    void *logits = subject_input(s, "logits", n * stride, 3, 0), *gradient = subject_reals(s, NULL, n * stride);
    void *teacher = subject_input(s, "teacher", n * teacher_stride, 3, 0), *value = subject_reals(s, NULL, 1);
    for (int call = 1; call <= 2; call++) {
        be->loss_hkd(be, (int)n, oracle_int(s->c, "n_old"), logits, (int)stride, teacher, (int)teacher_stride,
                     weight_of(s), value, gradient);
        subject_expect(s, "value", value, 1);
        expect_added(s, "dlogits", gradient, n * stride, call);
    }
}

static void kd(subject *s)
{
    rc_backend *be = s->be;
    const oracle_case *c = s->c;
    rc_distillation loss = {
        .n = oracle_int(c, "n"),
        .student_stride = oracle_int(c, "student_stride"),
        .first = oracle_int(c, "first"),
        .student_count = oracle_int(c, "student_count"),
        .teacher_stride = oracle_int(c, "teacher_stride"),
        .teacher_first = oracle_int(c, "teacher_first"),
        .teacher_count = oracle_int(c, "teacher_count"),
        .temperature = (float)oracle_number(c, "temperature"),
        .kl = oracle_int(c, "kl") != 0,
        .t_squared = oracle_int(c, "t_squared") != 0,
    };
    size_t count = (size_t)loss.n * (size_t)loss.student_stride;
    void *logits = subject_input(s, "logits", count, 3, 0), *gradient = subject_reals(s, NULL, count);
    void *teacher = subject_input(s, "teacher", (size_t)loss.n * (size_t)loss.teacher_stride, 3, 0);
    void *value = subject_reals(s, NULL, 1);
    for (int call = 1; call <= 2; call++) {
        be->loss_kd(be, &loss, logits, teacher, weight_of(s), value, gradient);
        subject_expect(s, "value", value, 1);
        expect_added(s, "dlogits", gradient, count, call);
    }
}

static void diversity(subject *s)
{
    rc_backend *be = s->be;
    int n = oracle_int(s->c, "n"), classes = oracle_int(s->c, "classes"), stride = oracle_int(s->c, "stride");
    size_t count = (size_t)n * (size_t)stride;
    void *logits = subject_input(s, "logits", count, oracle_number(s->c, "scale"), 0);
    void *gradient = subject_reals(s, NULL, count), *value = subject_reals(s, NULL, 1);
    assert_int_equal(be->reserve_losses(be, n, classes, 1, 1, 1), RC_OK);
    for (int call = 1; call <= 2; call++) {
        be->loss_diversity(be, n, classes, stride, logits, (float)oracle_number(s->c, "epsilon"), weight_of(s), value,
                           gradient);
        subject_expect(s, "value", value, 1);
        expect_added(s, "dlogits", gradient, count, call);
    }
}

/* ---- on features and weights ---------------------------------------------------------------------------------- */

static void feature(subject *s)
{
    rc_backend *be = s->be;
    size_t n = size_of(s, "n"), d = size_of(s, "d"), n_old = size_of(s, "n_old");
    void *features = subject_input(s, "features", n * d, 1, 0), *teacher = subject_input(s, "teacher", n * d, 1, 0);
    void *head = subject_input(s, "head", n_old * d, 1, 0), *gradient = subject_reals(s, NULL, n * d);
    void *workspace = subject_reals(s, NULL, n * n_old), *value = subject_reals(s, NULL, 1);
    for (int call = 1; call <= 2; call++) {
        be->loss_feature(be, (int)n, (int)d, (int)n_old, features, teacher, head, workspace, weight_of(s), value,
                         gradient);
        subject_expect(s, "value", value, 1);
        expect_added(s, "dfeatures", gradient, n * d, call);
    }
}

static void rkd(subject *s)
{
    rc_backend *be = s->be;
    size_t n = size_of(s, "n"), d = size_of(s, "d");
    double apart = oracle_number(s->c, "apart");
    void *student = subject_input(s, "student", n * d, apart, apart < 1 ? 2 : 0);
    void *teacher = subject_input(s, "teacher", n * d, 1, 0), *value = subject_reals(s, NULL, 1);
    void *dstudent = subject_reals(s, NULL, n * d), *dteacher = subject_reals(s, NULL, n * d);
    void *workspace = subject_bytes(s, be->rkd_workspace(be, (int)n, (int)d));
    for (int call = 1; call <= 2; call++) {
        be->loss_rkd(be, (int)n, (int)d, student, teacher, workspace, weight_of(s), value, dstudent, dteacher);
        subject_expect(s, "value", value, 1);
        expect_added(s, "dstudent", dstudent, n * d, call);
        expect_added(s, "dteacher", dteacher, n * d, call);
    }
}

static void war(subject *s)
{
    rc_backend *be = s->be;
    size_t classes = size_of(s, "classes"), d = size_of(s, "d");
    void *head = subject_input(s, "head", classes * d, 1, 0), *gradient = subject_reals(s, NULL, classes * d);
    void *value = subject_reals(s, NULL, 1);
    for (int call = 1; call <= 2; call++) {
        be->loss_war(be, (int)classes, oracle_int(s->c, "n_old"), (int)d, oracle_int(s->c, "paper") != 0, head,
                     weight_of(s), value, gradient);
        subject_expect(s, "value", value, 1);
        expect_added(s, "dhead", gradient, classes * d, call);
    }
}

/* Every class once, the others at random; a class that must be missing is replaced by class 0. */
static int32_t *dce_labels(subject *s, int step)
{
    char name[32];
    snprintf(name, sizeof name, "labels-%d", step);
    int n = oracle_int(s->c, "n"), classes = oracle_int(s->c, "classes");
    int late = step < oracle_int(s->c, "late_step") ? oracle_int(s->c, "late") : -1;
    int absent = step == 4 ? oracle_int(s->c, "absent") : -1;
    int32_t *labels = oracle_integers(s->c, name, (size_t)n, (uint32_t)classes);
    for (int b = 0; b < n; b++) {
        int32_t label = b < classes ? b : labels[b];
        labels[b] = label == late || label == absent ? 0 : label;
    }
    int32_t *memory = subject_labels(s, labels, (size_t)n);
    free(labels);
    return memory;
}

static rc_dce new_dce(subject *s)
{
    rc_dce dce = {.n = oracle_int(s->c, "n"),
                  .d = oracle_int(s->c, "d"),
                  .classes = oracle_int(s->c, "classes"),
                  .momentum = (float)oracle_number(s->c, "momentum"),
                  .paper = oracle_int(s->c, "paper") != 0};
    size_t d = (size_t)dce.d, means = (size_t)dce.classes * d;
    double *mean = oracle_fill(s->c, "class_mean", means, 1, 0);
    double *covariance = oracle_fill(s->c, "covariance", d * d, 1, 0);
    int unknown = oracle_int(s->c, "nan");
    for (size_t i = 0; unknown >= 0 && i < d; i++)
        mean[(size_t)unknown * d + i] = NAN;
    for (size_t i = 0; i < d; i++)
        for (size_t j = 0; j < i; j++)
            covariance[i * d + j] = covariance[j * d + i];
    dce.class_mean = subject_reals(s, mean, means);
    dce.covariance = subject_reals(s, covariance, d * d);
    dce.running_mean = subject_reals(s, NULL, means);
    dce.running_covariance = subject_reals(s, NULL, d * d);
    dce.seen = subject_bytes(s, (size_t)dce.classes * sizeof *dce.seen);
    dce.workspace = subject_bytes(s, s->be->dce_workspace(s->be, dce.n, dce.d, dce.classes));
    free(mean);
    free(covariance);
    return dce;
}

static void dce(subject *s)
{
    rc_backend *be = s->be;
    rc_dce loss = new_dce(s);
    size_t d = (size_t)loss.d, count = (size_t)loss.n * d;
    void *value = subject_reals(s, NULL, 1);
    for (int step = 0; step < oracle_int(s->c, "steps"); step++) {
        char name[32];
        snprintf(name, sizeof name, "features-%d", step);
        void *features = subject_input(s, name, count, 1 + 0.25 * step, 0), *gradient = subject_reals(s, NULL, count);
        be->loss_dce(be, &loss, features, dce_labels(s, step), weight_of(s), value, gradient);
        snprintf(name, sizeof name, "value-%d", step);
        subject_expect(s, name, value, 1);
        snprintf(name, sizeof name, "dfeatures-%d", step);
        subject_expect(s, name, gradient, count);
        if (loss.paper)
            continue;
        snprintf(name, sizeof name, "mean-%d", step);
        subject_expect(s, name, loss.running_mean, (size_t)loss.classes * d);
        snprintf(name, sizeof name, "covariance-%d", step);
        subject_expect(s, name, loss.running_covariance, d * d);
    }
}

static void bn(subject *s)
{
    rc_backend *be = s->be;
    rc_bn_stat layers[8];
    int count = oracle_int(s->c, "layers");
    for (int l = 0; l < count; l++) {
        static const struct {
            const char *name;
            double scale, offset;
        } inputs[4] = {{"mean", 1, 0}, {"var", 0.5, 0.75}, {"running_mean", 1, 0}, {"running_var", 0.5, 0.75}};
        size_t c = 3 + 5 * (size_t)l, cp = (size_t)rc_padded(be, (int)c);
        void *memory[4];
        for (int i = 0; i < 4; i++) {
            char name[32];
            snprintf(name, sizeof name, "%s-%d", inputs[i].name, l);
            memory[i] = subject_reals(s, NULL, cp);
            be->copy(be, memory[i], subject_input(s, name, c, inputs[i].scale, inputs[i].offset), c * be->real_bytes);
        }
        layers[l] = (rc_bn_stat){.c = (int)c,
                                 .mean = memory[0],
                                 .var = memory[1],
                                 .running_mean = memory[2],
                                 .running_var = memory[3],
                                 .dmean = subject_reals(s, NULL, cp),
                                 .dvar = subject_reals(s, NULL, cp)};
    }
    rc_bn_loss_form form = oracle_is(s->c, "form", "kl")   ? RC_BN_KL
                           : oracle_is(s->c, "form", "l2") ? RC_BN_L2
                                                           : RC_BN_KL_SUM;
    void *value = subject_reals(s, NULL, 1);
    for (int call = 1; call <= 2; call++) { /* the gradients are overwritten, not added to */
        be->loss_bn(be, form, layers, count, weight_of(s), value);
        subject_expect(s, "value", value, 1);
        for (int l = 0; l < count; l++) {
            char name[32];
            snprintf(name, sizeof name, "dmean-%d", l);
            subject_expect(s, name, layers[l].dmean, (size_t)layers[l].c);
            snprintf(name, sizeof name, "dvar-%d", l);
            subject_expect(s, name, layers[l].dvar, (size_t)layers[l].c);
        }
    }
}

/* ---- on images and latent codes ------------------------------------------------------------------------------- */

static void image(subject *s)
{
    rc_backend *be = s->be;
    int n = oracle_int(s->c, "n"), h = oracle_int(s->c, "h"), w = oracle_int(s->c, "w"), c = oracle_int(s->c, "c");
    rc_tensor x = subject_map_input(s, "x", n, h, w, c, 1, 0), dx = subject_map(s, n, h, w, c);
    void *value = subject_reals(s, NULL, 1);
    assert_int_equal(be->reserve_losses(be, n, 1, h, w, c), RC_OK);
    for (int call = 1; call <= 2; call++) {
        if (oracle_is(s->c, "loss", "smoothing"))
            be->loss_smoothing(be, &x, weight_of(s), value, dx.raw);
        else if (oracle_is(s->c, "loss", "variation"))
            be->loss_total_variation(be, &x, weight_of(s), value, dx.raw);
        else
            be->loss_image_norm(be, &x, weight_of(s), value, dx.raw);
        subject_expect(s, "value", value, 1);
        expect_map_added(s, "dx", &dx, dx.raw, call);
    }
}

static void reconstruction(subject *s)
{
    rc_backend *be = s->be;
    int n = oracle_int(s->c, "n"), h = oracle_int(s->c, "h"), w = oracle_int(s->c, "w"), c = oracle_int(s->c, "c");
    rc_tensor x = subject_map_input(s, "x", n, h, w, c, 0.4375, 0.5);
    rc_tensor target = subject_map_input(s, "target", n, h, w, c, 0.5, 0.5), dx = subject_map(s, n, h, w, c);
    void *value = subject_reals(s, NULL, 1), *sample_weight = NULL;
    if (oracle_int(s->c, "weighted"))
        sample_weight = subject_input(s, "sample_weight", (size_t)n, 0.5, 1);
    assert_int_equal(be->reserve_losses(be, n, 1, h, w, c), RC_OK);
    for (int call = 1; call <= 2; call++) {
        be->loss_reconstruction(be, &x, &target, sample_weight, weight_of(s), value, dx.raw);
        subject_expect(s, "value", value, 1);
        expect_map_added(s, "dx", &dx, dx.raw, call);
    }
}

static void latent(subject *s)
{
    rc_backend *be = s->be;
    int n = oracle_int(s->c, "n"), c = oracle_int(s->c, "c");
    rc_tensor mean = subject_map_input(s, "mean", n, 1, 1, c, 1, 0);
    rc_tensor log_variance = subject_map_input(s, "log_variance", n, 1, 1, c, 1, 0);
    rc_tensor dmean = subject_map(s, n, 1, 1, c), dlog = subject_map(s, n, 1, 1, c), z = subject_map(s, n, 1, 1, c);
    void *value = subject_reals(s, NULL, 1);
    for (int call = 1; call <= 2; call++) {
        be->loss_latent(be, &mean, &log_variance, (float)oracle_number(s->c, "scale"), weight_of(s), value, dmean.raw,
                        dlog.raw);
        subject_expect(s, "value", value, 1);
        expect_map_added(s, "dmean", &dmean, dmean.raw, call);
        expect_map_added(s, "dlog_variance", &dlog, dlog.raw, call);
    }
    rc_tensor noise = subject_map_input(s, "noise", n, 1, 1, c, 2, 0), g = subject_map_input(s, "g", n, 1, 1, c, 1, 0);
    rc_tensor sample_dmean = subject_map(s, n, 1, 1, c), sample_dlog = subject_map(s, n, 1, 1, c);
    be->latent_sample(be, &mean, &log_variance, noise.raw, &z);
    subject_expect_map(s, "z", &z, z.raw);
    for (int call = 1; call <= 2; call++) {
        be->latent_sample_backward(be, &mean, &log_variance, noise.raw, g.raw, sample_dmean.raw, sample_dlog.raw);
        expect_map_added(s, "sample_dmean", &sample_dmean, sample_dmean.raw, call);
        expect_map_added(s, "sample_dlog_variance", &sample_dlog, sample_dlog.raw, call);
    }
}

/* ---- labels and statistics ------------------------------------------------------------------------------------ */

static void class_statistics(subject *s)
{
    rc_backend *be = s->be;
    int n = oracle_int(s->c, "n"), d = oracle_int(s->c, "d"), classes = oracle_int(s->c, "classes");
    size_t samples = (size_t)n, width = (size_t)d, means = (size_t)classes * width;
    int absent = oracle_int(s->c, "absent");
    double center[64];
    for (size_t i = 0; i < width; i++)
        center[i] = 2;
    void *centered = oracle_int(s->c, "centered") ? subject_reals(s, center, width) : NULL;
    int32_t *count = subject_bytes(s, (size_t)classes * sizeof *count);
    double *sum = subject_bytes(s, means * sizeof *sum), *outer = subject_bytes(s, width * width * sizeof *outer);
    for (int batch = 0; batch < oracle_int(s->c, "batches"); batch++) {
        char name[32];
        snprintf(name, sizeof name, "labels-%d", batch);
        int32_t *labels = oracle_integers(s->c, name, samples, (uint32_t)classes);
        for (int b = 0; b < n; b++)
            labels[b] = labels[b] == absent ? 0 : labels[b];
        snprintf(name, sizeof name, "features-%d", batch);
        be->class_statistics(be, n, d, classes, subject_input(s, name, samples * width, 1, 2),
                             subject_labels(s, labels, samples), centered, count, sum, outer);
        free(labels);
    }
    void *mean = subject_reals(s, NULL, means), *covariance = subject_reals(s, NULL, width * width);
    be->class_statistics_finish(be, d, classes, centered, count, sum, outer, oracle_int(s->c, "unbiased") != 0, mean,
                                covariance);
    double *found = malloc(means * sizeof *found);
    assert_non_null(found);
    be->read_real64(be, found, mean, means);
    for (size_t i = 0; i < means; i++) /* the fixture writes -7 for NaN */
        found[i] = isnan(found[i]) ? -7 : found[i];
    subject_expect_double(s, "mean", found, means);
    subject_expect(s, "covariance", covariance, width * width);
    free(found);
}

static void softmax(subject *s)
{
    rc_backend *be = s->be;
    int n = oracle_int(s->c, "n"), classes = oracle_int(s->c, "classes"), stride = oracle_int(s->c, "stride");
    size_t rows = (size_t)n, count = rows * (size_t)classes;
    void *logits = subject_input(s, "logits", rows * (size_t)stride, 8, 0), *p = subject_reals(s, NULL, count);
    int32_t *labels = subject_bytes(s, rows * sizeof *labels), *host = malloc(rows * sizeof *host);
    double *found = malloc(rows * sizeof *found);
    assert_non_null(host);
    assert_non_null(found);
    be->softmax(be, n, classes, stride, logits, p);
    subject_expect(s, "probabilities", p, count);
    be->argmax(be, n, classes, stride, logits, labels);
    be->read_bytes(be, host, labels, rows * sizeof *host);
    for (size_t b = 0; b < rows; b++)
        found[b] = host[b];
    subject_expect_double(s, "labels", found, rows);
    free(host);
    free(found);
}

static void balance(subject *s)
{
    rc_backend *be = s->be;
    int classes = oracle_int(s->c, "classes") + 1; /* the last one is never seen */
    size_t n = size_of(s, "n");
    int32_t *labels = labels_of(s, "labels", n, classes - 1, 0);
    int32_t *count = subject_bytes(s, (size_t)classes * sizeof *count), host[16];
    void *weight = subject_reals(s, NULL, (size_t)classes);
    be->count_labels(be, (int)n / 2, labels, classes, count);
    be->count_labels(be, (int)(n - n / 2), labels + n / 2, classes, count);
    be->balance_weights(be, classes, count, weight);
    be->read_bytes(be, host, count, (size_t)classes * sizeof *count);
    double found[16];
    for (int k = 0; k < classes; k++)
        found[k] = host[k];
    subject_expect_double(s, "count", found, (size_t)classes);
    subject_expect(s, "weight", weight, (size_t)classes);
}

/* ---- the list ------------------------------------------------------------------------------------------------- */

typedef struct loss {
    const char *prefix;
    void (*test)(subject *);
} loss;

static const loss losses[] = {
    {"ce/", cross_entropy},
    {"decoupled/", decoupled},
    {"hkd/", hkd},
    {"kd/", kd},
    {"feature/", feature},
    {"rkd/", rkd},
    {"war/", war},
    {"dce/", dce},
    {"bn/", bn},
    {"diversity/", diversity},
    {"image/", image},
    {"reconstruction/", reconstruction},
    {"latent/", latent},
    {"softmax/", softmax},
    {"balance/", balance},
    {"statistics/", class_statistics},
};
enum { LOSSES = sizeof losses / sizeof losses[0] };

static void run(void **state)
{
    const loss *l = *state;
    subject_run(fixture, l->prefix, tolerance, l->test);
}

int main(void)
{
    fixture = oracle_open("losses.txt");
    struct CMUnitTest tests[LOSSES];
    for (int i = 0; i < LOSSES; i++)
        tests[i] = (struct CMUnitTest){
            .name = losses[i].prefix, .test_func = run, .initial_state = rc_without_const(&losses[i])};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    oracle_close(fixture);
    return failed;
}
