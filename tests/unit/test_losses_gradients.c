/* Every loss against finite differences, in double: the gradient must be the derivative of the value, be multiplied
 * by the weight, and be added to what was there. Shapes are random; the seed is printed and RECOLLECT_TEST_SEED sets
 * it. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/backend.h"
#include "base/rng.h"

enum { ROUNDS = 6, MAX_COUNT = 8192, MAX_INPUTS = 6 };

static rc_backend *be; /* reference64: its memory is host memory, its reals are doubles */
static rc_rng rng;
static uint64_t drawn;
static const float weight = 0.625f, other_weight = 1.75f;

static int between(int low, int high)
{
    return low + (int)rc_rng_below(rng, drawn++, (uint32_t)(high - low + 1));
}

static double normal(void)
{
    return rc_rng_normal(rng, drawn++);
}

/* ---- memory of a test ----------------------------------------------------------------------------------------- */

static double memory[MAX_COUNT * 24];
static size_t used;

static double *doubles(size_t count)
{
    double *block = memory + used;
    used += count;
    assert_true(used <= sizeof memory / sizeof *memory);
    memset(block, 0, count * sizeof *block);
    return block;
}

static double *normals(size_t count, double spread)
{
    double *block = doubles(count);
    for (size_t i = 0; i < count; i++)
        block[i] = spread * normal();
    return block;
}

static int32_t *random_labels(int n, int first, int count)
{
    int32_t *labels = (int32_t *)doubles((size_t)n);
    for (int b = 0; b < n; b++)
        labels[b] = first + between(0, count - 1);
    return labels;
}

/* ---- the check ------------------------------------------------------------------------------------------------ */

typedef struct input {
    double *x, *gradient;
    size_t count;
} input;

/* `run` computes and returns the weighted value, adding gradients to input[i].gradient. */
typedef struct problem {
    const char *name;
    double (*run)(struct problem *);
    input input[MAX_INPUTS];
    int inputs;
    bool overwrites; /* gradients are overwritten, not added to */
    int n, d, classes, n_old, stride, form;
    double *other, *space;
    int32_t *labels;
    rc_cross_entropy cross_entropy;
    rc_distillation distillation;
    rc_dce dce;
    rc_tensor image, target;
    rc_bn_stat layer[3];
} problem;

static input make_input(double *x, size_t count)
{
    return (input){x, doubles(count), count};
}

/* Compares element j of a gradient with the central difference of the value. */
static void probe(problem *p, int i, size_t j, const double *gradient, double largest, double value)
{
    const double step = 1e-6;
    input *in = &p->input[i];
    double kept = in->x[j];
    in->x[j] = kept + step;
    double above = p->run(p);
    in->x[j] = kept - step;
    double below = p->run(p);
    in->x[j] = kept;
    double expected = (above - below) / (2 * step);
    if (fabs(gradient[j] - expected) > 1e-6 * largest + 1e-8 * fabs(value))
        fail_msg("%s, input %d, element %zu: gradient %.12g, finite difference %.12g (largest %.3g)", p->name, i, j,
                 gradient[j], expected, largest);
}

static void check(problem *p)
{
    enum { PROBES = 24 };
    static double gradient[MAX_INPUTS][MAX_COUNT];
    const double before = 0.375;
    for (int i = 0; i < p->inputs; i++)
        for (size_t j = 0; j < p->input[i].count; j++)
            p->input[i].gradient[j] = before;
    double value = p->run(p);
    assert_true(isfinite(value));
    for (int i = 0; i < p->inputs; i++)
        for (size_t j = 0; j < p->input[i].count; j++)
            gradient[i][j] = p->input[i].gradient[j] - (p->overwrites ? 0 : before);
    for (int i = 0; i < p->inputs; i++) {
        double largest = 0;
        for (size_t j = 0; j < p->input[i].count; j++)
            largest = fmax(largest, fabs(gradient[i][j]));
        assert_true(largest > 0);
        for (int k = 0; k < PROBES; k++)
            probe(p, i, (size_t)between(0, (int)p->input[i].count - 1), gradient[i], largest, value);
    }
}

static void repeat(void (*once)(void))
{
    for (int round = 0; round < ROUNDS; round++) {
        used = 0;
        once();
    }
}

/* ---- logits --------------------------------------------------------------------------------------------------- */

static double run_cross_entropy(problem *p)
{
    double value;
    be->loss_cross_entropy(be, &p->cross_entropy, p->input[0].x, p->labels, p->other, &weight, &value,
                           p->input[0].gradient);
    return weight * value;
}

static void cross_entropy_once(void)
{
    int n = between(1, 9), first = between(0, 4), count = between(2, 12), stride = first + count + between(0, 3);
    problem p = {.name = "cross entropy", .run = run_cross_entropy, .inputs = 1};
    p.cross_entropy = (rc_cross_entropy){.n = n,
                                         .stride = stride,
                                         .first = first,
                                         .count = count,
                                         .temperature = between(0, 1) ? 1.0f : 2.5f,
                                         .reduction = between(0, 1) ? RC_MEAN : RC_WEIGHTED_MEAN,
                                         .smoothing = between(0, 1) ? 0.25f : 0};
    p.input[0] = make_input(normals((size_t)(n * stride), 2), (size_t)(n * stride));
    p.labels = random_labels(n, first, count);
    if (between(0, 1)) {
        p.other = doubles((size_t)stride);
        for (int k = 0; k < stride; k++)
            p.other[k] = 0.5 + k;
    }
    check(&p);
}

static void cross_entropy(void **state)
{
    (void)state;
    repeat(cross_entropy_once);
}

static double run_decoupled(problem *p)
{
    double inter, intra;
    be->loss_decoupled(be, p->n, p->stride, p->n_old, p->classes, p->input[0].x, p->labels, &weight, &other_weight,
                       &inter, &intra, p->input[0].gradient);
    return weight * inter + other_weight * intra;
}

static void decoupled_once(void)
{
    problem p = {.name = "decoupled", .run = run_decoupled, .inputs = 1, .n = between(1, 9), .n_old = between(1, 9)};
    p.classes = p.n_old + between(1, 9);
    p.stride = p.classes + between(0, 3);
    p.input[0] = make_input(normals((size_t)(p.n * p.stride), 3), (size_t)(p.n * p.stride));
    p.labels = random_labels(p.n, p.n_old, p.classes - p.n_old);
    check(&p);
}

static void decoupled(void **state)
{
    (void)state;
    repeat(decoupled_once);
}

static double run_hkd(problem *p)
{
    double value;
    be->loss_hkd(be, p->n, p->n_old, p->input[0].x, p->stride, p->other, p->n_old, &weight, &value,
                 p->input[0].gradient);
    return weight * value;
}

static void hkd_once(void)
{
    problem p = {.name = "hkd", .run = run_hkd, .inputs = 1, .n = between(1, 9), .n_old = between(1, 9)};
    p.stride = p.n_old + between(0, 5);
    p.input[0] = make_input(normals((size_t)(p.n * p.stride), 1), (size_t)(p.n * p.stride));
    p.other = normals((size_t)(p.n * p.n_old), 1);
    check(&p);
}

static void hkd(void **state)
{
    (void)state;
    repeat(hkd_once);
}

static double run_kd(problem *p)
{
    double value;
    be->loss_kd(be, &p->distillation, p->input[0].x, p->other, &weight, &value, p->input[0].gradient);
    return weight * value;
}

static void kd_once(void)
{
    problem p = {.name = "kd", .run = run_kd, .inputs = 1};
    int n = between(1, 9), first = between(0, 4), teacher_count = between(2, 9), extra = between(0, 1) * between(1, 5);
    rc_distillation *kd = &p.distillation;
    *kd = (rc_distillation){.n = n,
                            .first = first,
                            .student_count = teacher_count + extra,
                            .teacher_first = first,
                            .teacher_count = teacher_count,
                            .temperature = 2,
                            .kl = between(0, 1),
                            .t_squared = between(0, 1)};
    kd->student_stride = first + kd->student_count + between(0, 3);
    kd->teacher_stride = first + teacher_count + between(0, 3);
    p.input[0] = make_input(normals((size_t)(n * kd->student_stride), 2), (size_t)(n * kd->student_stride));
    p.other = normals((size_t)(n * kd->teacher_stride), 2);
    check(&p);
}

static void kd(void **state)
{
    (void)state;
    repeat(kd_once);
}

static double run_diversity(problem *p)
{
    double value;
    be->loss_diversity(be, p->n, p->classes, p->stride, p->input[0].x, p->form ? 1e-6f : 0, &weight, &value,
                       p->input[0].gradient);
    return weight * value;
}

static void diversity_once(void)
{
    problem p = {.name = "diversity",
                 .run = run_diversity,
                 .inputs = 1,
                 .n = between(1, 9),
                 .classes = between(2, 12),
                 .form = between(0, 1)};
    p.stride = p.classes + between(0, 3);
    p.input[0] = make_input(normals((size_t)(p.n * p.stride), 2), (size_t)(p.n * p.stride));
    assert_int_equal(be->reserve_losses(be, p.n, p.classes, 1, 1, 1), RC_OK);
    check(&p);
}

static void diversity(void **state)
{
    (void)state;
    repeat(diversity_once);
}

/* ---- features and weights ------------------------------------------------------------------------------------- */

static double run_feature(problem *p)
{
    double value;
    be->loss_feature(be, p->n, p->d, p->n_old, p->input[0].x, p->other, p->other + p->n * p->d, p->space, &weight,
                     &value, p->input[0].gradient);
    return weight * value;
}

static void feature_once(void)
{
    problem p = {.name = "feature",
                 .run = run_feature,
                 .inputs = 1,
                 .n = between(1, 9),
                 .d = between(1, 12),
                 .n_old = between(1, 9)};
    p.input[0] = make_input(normals((size_t)(p.n * p.d), 1), (size_t)(p.n * p.d));
    p.other = normals((size_t)((p.n + p.n_old) * p.d), 1);
    p.space = doubles((size_t)(p.n * p.n_old));
    check(&p);
}

static void feature(void **state)
{
    (void)state;
    repeat(feature_once);
}

static double run_rkd(problem *p)
{
    double value;
    be->loss_rkd(be, p->n, p->d, p->input[0].x, p->input[1].x, p->space, &weight, &value, p->input[0].gradient,
                 p->input[1].gradient);
    return weight * value;
}

static void rkd_once(void)
{
    problem p = {.name = "rkd", .run = run_rkd, .inputs = 2, .n = between(3, 9), .d = between(2, 12)};
    for (int i = 0; i < 2; i++)
        p.input[i] = make_input(normals((size_t)(p.n * p.d), 1), (size_t)(p.n * p.d));
    p.space = doubles(be->rkd_workspace(be, p.n, p.d) / sizeof(double) + 1);
    check(&p);
}

static void rkd(void **state)
{
    (void)state;
    repeat(rkd_once);
}

static double run_war(problem *p)
{
    double value;
    be->loss_war(be, p->classes, p->n_old, p->d, p->form, p->input[0].x, &weight, &value, p->input[0].gradient);
    return weight * value;
}

static void war_once(void)
{
    problem p = {
        .name = "war", .run = run_war, .inputs = 1, .n_old = between(1, 9), .d = between(1, 12), .form = between(0, 1)};
    p.classes = p.n_old + between(1, 9);
    p.input[0] = make_input(normals((size_t)(p.classes * p.d), 1), (size_t)(p.classes * p.d));
    check(&p);
}

static void war(void **state)
{
    (void)state;
    repeat(war_once);
}

/* The loss changes its state, so every evaluation starts from the same copy of it. */
static double run_dce(problem *p)
{
    rc_dce *dce = &p->dce;
    size_t means = (size_t)(dce->classes * dce->d), entries = (size_t)(dce->d * dce->d);
    memcpy(dce->running_mean, p->other, means * sizeof(double));
    memcpy(dce->running_covariance, p->other + means, entries * sizeof(double));
    for (int k = 0; k < dce->classes; k++)
        dce->seen[k] = p->form;
    double value;
    be->loss_dce(be, dce, p->input[0].x, p->labels, &weight, &value, p->input[0].gradient);
    return weight * value;
}

static double *symmetric(double *matrix, int d)
{
    for (int i = 0; i < d; i++)
        for (int j = 0; j < i; j++)
            matrix[i * d + j] = matrix[j * d + i];
    return matrix;
}

static void dce_once(void)
{
    int n = between(2, 16), d = between(1, 8), classes = between(2, 9);
    size_t means = (size_t)(classes * d), entries = (size_t)(d * d);
    problem p = {.name = "dce", .run = run_dce, .inputs = 1, .form = between(0, 1)};
    p.input[0] = make_input(normals((size_t)(n * d), 1), (size_t)(n * d));
    p.labels = random_labels(n, 0, classes);
    p.other = normals(means + entries, 1);
    symmetric(p.other + means, d);
    double *target = normals(means, 1);
    for (int k = 0; k < classes; k++)
        if (k != p.labels[0] && between(0, 3) == 0)
            target[k * d] = NAN;
    p.dce = (rc_dce){.n = n,
                     .d = d,
                     .classes = classes,
                     .momentum = 0.9f,
                     .paper = between(0, 2) == 0,
                     .class_mean = target,
                     .covariance = symmetric(normals(entries, 1), d),
                     .running_mean = doubles(means),
                     .running_covariance = doubles(entries),
                     .seen = (int32_t *)doubles((size_t)classes)};
    p.dce.workspace = doubles(be->dce_workspace(be, n, d, classes) / sizeof(double) + 1);
    check(&p);
}

static void dce(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++)
        repeat(dce_once);
}

static double run_bn(problem *p)
{
    double value;
    be->loss_bn(be, (rc_bn_loss_form)p->form, p->layer, p->n, &weight, &value);
    return weight * value;
}

static void bn_once(void)
{
    problem p = {.name = "bn", .run = run_bn, .overwrites = true, .n = between(1, 3), .form = between(0, 2)};
    p.inputs = 2 * p.n;
    for (int l = 0; l < p.n; l++) {
        rc_bn_stat *layer = &p.layer[l];
        layer->c = between(1, 9);
        size_t count = (size_t)layer->c, padded = (size_t)rc_padded(be, layer->c);
        double *statistics[4];
        for (int i = 0; i < 4; i++) {
            statistics[i] = normals(padded, 1);
            for (size_t c = 0; c < padded && i % 2; c++)
                statistics[i][c] = 0.3 + fabs(statistics[i][c]);
        }
        layer->mean = statistics[0];
        layer->var = statistics[1];
        layer->running_mean = statistics[2];
        layer->running_var = statistics[3];
        layer->dmean = normals(padded, 1);
        layer->dvar = normals(padded, 1);
        p.input[2 * l] = (input){statistics[0], layer->dmean, count};
        p.input[2 * l + 1] = (input){statistics[1], layer->dvar, count};
    }
    check(&p);
    for (int l = 0; l < p.n; l++)
        for (int c = p.layer[l].c; c < rc_padded(be, p.layer[l].c); c++)
            assert_true(((double *)p.layer[l].dmean)[c] == 0 && ((double *)p.layer[l].dvar)[c] == 0);
}

static void bn(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++)
        repeat(bn_once);
}

/* ---- images and codes ----------------------------------------------------------------------------------------- */

static rc_tensor tensor(int n, int h, int w, int c, double *raw)
{
    return (rc_tensor){.n = n, .h = h, .w = w, .c = c, .groups = 1, .group_end = {n}, .raw = raw};
}

/* An image whose finished value is stored beside a raw one that must not be read. Pad channels hold zeros and take no
 * part: their gradient stays what it was, so only channels of c = 4 are differentiated. */
static void image_once(double (*run)(problem *), const char *name, bool probabilities)
{
    problem p = {.name = name, .run = run, .inputs = 1};
    int n = between(1, 3), h = between(3, 9), w = between(3, 9);
    size_t count = (size_t)(n * h * w * 4);
    double *x = normals(count, 1), *target = normals(count, 1);
    for (size_t i = 0; i < count && probabilities; i++) {
        x[i] = 1 / (1 + exp(-x[i]));
        target[i] = 1 / (1 + exp(-target[i]));
    }
    p.image = tensor(n, h, w, 4, x);
    p.target = tensor(n, h, w, 4, target);
    if (between(0, 1)) {
        p.image.raw = doubles(count);
        p.image.value = x;
        p.image.stored = true;
    }
    if (between(0, 1)) {
        p.other = doubles((size_t)n);
        for (int b = 0; b < n; b++)
            p.other[b] = 0.5 + b;
    }
    p.input[0] = make_input(x, count);
    check(&p);
}

static double run_smoothing(problem *p)
{
    double value;
    be->loss_smoothing(be, &p->image, &weight, &value, p->input[0].gradient);
    return weight * value;
}

static double run_total_variation(problem *p)
{
    double value;
    be->loss_total_variation(be, &p->image, &weight, &value, p->input[0].gradient);
    return weight * value;
}

static double run_image_norm(problem *p)
{
    double value;
    be->loss_image_norm(be, &p->image, &weight, &value, p->input[0].gradient);
    return weight * value;
}

static double run_reconstruction(problem *p)
{
    double value;
    be->loss_reconstruction(be, &p->image, &p->target, p->other, &weight, &value, p->input[0].gradient);
    return weight * value;
}

static void images(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        used = 0;
        image_once(run_smoothing, "smoothing", false);
        image_once(run_total_variation, "total variation", false);
        image_once(run_image_norm, "image norm", false);
        image_once(run_reconstruction, "reconstruction", true);
    }
}

static double run_latent(problem *p)
{
    double value;
    be->loss_latent(be, &p->image, &p->target, 0.25f, &weight, &value, p->input[0].gradient, p->input[1].gradient);
    return weight * value;
}

/* S = sum of dz * z, so that dz is the gradient of z. */
static double run_latent_sample(problem *p)
{
    double sum = 0;
    size_t count = p->input[0].count;
    rc_tensor z = p->image;
    z.raw = p->space;
    be->latent_sample(be, &p->image, &p->target, p->other, &z);
    be->latent_sample_backward(be, &p->image, &p->target, p->other, p->other + count, p->input[0].gradient,
                               p->input[1].gradient);
    for (size_t i = 0; i < count; i++)
        sum += p->space[i] * p->other[count + i];
    return sum;
}

static void latent_once(void)
{
    int n = between(1, 5), c = 4 * between(1, 6);
    size_t count = (size_t)(n * c);
    problem p = {.name = "latent", .run = run_latent, .inputs = 2};
    double *mean = normals(count, 1), *log_variance = normals(count, 1);
    p.image = tensor(n, 1, 1, c, mean);
    p.target = tensor(n, 1, 1, c, log_variance);
    p.other = normals(2 * count, 1);
    p.space = doubles(count);
    p.input[0] = make_input(mean, count);
    p.input[1] = make_input(log_variance, count);
    check(&p);
    p.name = "latent sample";
    p.run = run_latent_sample;
    check(&p);
}

static void latent(void **state)
{
    (void)state;
    repeat(latent_once);
}

static int open_backend(void **state)
{
    (void)state;
    const char *text = getenv("RECOLLECT_TEST_SEED");
    rng.seed = text ? strtoull(text, NULL, 10) : 20240229;
    printf("seed %llu\n", (unsigned long long)rng.seed);
    return rc_backend_open("reference64", 1, NULL, &be) == RC_OK ? 0 : -1;
}

static int close_backend(void **state)
{
    (void)state;
    rc_backend_close(be);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cross_entropy), cmocka_unit_test(decoupled),
        cmocka_unit_test(hkd),           cmocka_unit_test(kd),
        cmocka_unit_test(diversity),     cmocka_unit_test(feature),
        cmocka_unit_test(rkd),           cmocka_unit_test(war),
        cmocka_unit_test(dce),           cmocka_unit_test(bn),
        cmocka_unit_test(images),        cmocka_unit_test(latent),
    };
    return cmocka_run_group_tests(tests, open_backend, close_backend);
}
