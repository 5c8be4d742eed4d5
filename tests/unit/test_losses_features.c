/* What the equations promise of losses on features, weights and statistics, and of class statistics: known values,
 * zeros, symmetries, and the rules that finite differences do not see. */
#include "unit/losses.h"

#include "nn/losses.h"

/* ---- features and weights ------------------------------------------------------------------------------------- */

/* Mean over all n^3 entries of |a^s - a^t|, with the unit vectors themselves. */
static double rkd_by_hand(int n, int d, const double *student, const double *teacher)
{
    const double *embedding[2] = {student, teacher};
    double total = 0;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            for (int k = 0; k < n; k++) {
                double angle[2];
                for (int s = 0; s < 2; s++) {
                    const double *e = embedding[s];
                    double dot = 0, left = 0, right = 0;
                    for (int c = 0; c < d; c++) {
                        double a = e[j * d + c] - e[i * d + c], b = e[k * d + c] - e[i * d + c];
                        dot += a * b;
                        left += a * a;
                        right += b * b;
                    }
                    angle[s] = dot / fmax(sqrt(left), 1e-12) / fmax(sqrt(right), 1e-12);
                }
                total += fabs(angle[0] - angle[1]);
            }
    return total / n / n / n;
}

static double rkd_value(int n, int d, const double *student, const double *teacher, double *dstudent, double *dteacher)
{
    size_t count = (size_t)n * (size_t)d;
    void *slot = zeros(1), *ds = zeros(count), *dt = zeros(count);
    be->loss_rkd(be, n, d, reals(student, count), reals(teacher, count), take(be->rkd_workspace(be, n, d)), factor(1),
                 slot, ds, dt);
    read_back(ds, dstudent, count);
    read_back(dt, dteacher, count);
    return number(slot);
}

static void rkd_is_the_mean_difference_of_angles(void **state)
{
    (void)state;
    enum { N = 11, D = 6 };
    double student[N * D], teacher[N * D], moved[N * D], ds[N * D], dt[N * D];
    draw(student, N * D, 1);
    draw(teacher, N * D, 1);
    double value = rkd_value(N, D, student, teacher, ds, dt);
    assert_near(value, rkd_by_hand(N, D, student, teacher), 1);
    for (int c = 0; c < D; c++) { /* moving all embeddings changes nothing, so the gradients sum to 0 */
        double sums[2] = {0, 0};
        for (int i = 0; i < N; i++) {
            sums[0] += ds[i * D + c];
            sums[1] += dt[i * D + c];
        }
        assert_near(sums[0], 0, 1);
        assert_near(sums[1], 0, 1);
    }
    for (int i = 0; i < N * D; i++)
        moved[i] = 4 * student[i] + 3 * (i % D);
    assert_near(rkd_value(N, D, moved, teacher, ds, dt), value, 10);
    assert_near(rkd_value(N, D, student, student, ds, dt), 0, 1);
    for (int i = 0; i < N * D; i++)
        assert_near(ds[i], 0, 1);
    assert_near(rkd_value(N, D, student, moved, ds, dt), 0, 10); /* the angles are the same */
}

static void rkd_of_equal_embeddings_is_finite(void **state)
{
    (void)state;
    enum { N = 6, D = 5 };
    double student[N * D], teacher[N * D], ds[N * D], dt[N * D];
    draw(student, N * D, 1);
    draw(teacher, N * D, 1);
    memcpy(student + D, student, D * sizeof *student);
    memcpy(teacher + 3 * D, teacher + 2 * D, D * sizeof *teacher);
    assert_near(rkd_value(N, D, student, teacher, ds, dt), rkd_by_hand(N, D, student, teacher), 1);
    for (int i = 0; i < N * D; i++) {
        assert_true(isfinite(ds[i]) && fabs(ds[i]) < 10);
        assert_true(isfinite(dt[i]) && fabs(dt[i]) < 10);
    }
    memset(student, 0, sizeof student);
    assert_near(rkd_value(N, D, student, teacher, ds, dt), rkd_by_hand(N, D, student, teacher), 1);
}

static double war_value(int classes, int n_old, int d, bool paper, const double *head, double *gradient)
{
    size_t count = (size_t)classes * (size_t)d;
    void *slot = zeros(1), *dhead = zeros(count);
    be->loss_war(be, classes, n_old, d, paper, reals(head, count), factor(1), slot, dhead);
    read_back(dhead, gradient, count);
    return number(slot);
}

static void war_identities(void **state)
{
    (void)state;
    enum { K = 5, OLD = 3, D = 4 };
    double head[K * D], two[2 * D], gradient[K * D], norm[2] = {0, 0};
    draw(two, 2 * D, 1);
    for (int i = 0; i < 2 * D; i++)
        norm[i / D] += two[i] * two[i];
    assert_near(war_value(2, 1, D, false, two, gradient), 2 * fabs(sqrt(norm[0]) - sqrt(norm[1])), 10);
    for (int k = 0; k < K; k++) /* all rows of norm 5, in different directions */
        for (int i = 0; i < D; i++)
            head[k * D + i] = i == k % D ? 3 : i == (k + 1) % D ? -4 : 0;
    assert_near(war_value(K, OLD, D, false, head, gradient), 0, 10);
    for (int i = 0; i < K * D; i++)
        assert_near(gradient[i], 0, 1);
    for (int i = 0; i < D; i++)
        head[i] *= 2; /* norm 10: m_old = 20/3, m_new = 5 */
    double sum = 5 + 2 * (20.0 / 3 - 5);
    assert_near(war_value(K, OLD, D, false, head, gradient), sum, 10);
    assert_near(war_value(K, OLD, D, true, head, gradient), sum / K, 10);
    memset(head, 0, D * sizeof *head); /* a row of zeros has no direction */
    war_value(K, OLD, D, false, head, gradient);
    for (int i = 0; i < D; i++)
        assert_true(gradient[i] == 0);
}

static void bn_loss_is_0_for_equal_statistics(void **state)
{
    (void)state;
    enum { C = 4 };
    const rc_bn_loss_form forms[] = {RC_BN_KL, RC_BN_KL_SUM, RC_BN_L2};
    double mean[C] = {1, -2, 0.5, 0}, var[C] = {0.5, 1, 2, 4}, other[C];
    for (int f = 0; f < 3; f++) {
        for (int change = 0; change < 3; change++) { /* nothing, the mean, the variance */
            double value[2];
            for (int layers = 1; layers <= 2; layers++) {
                rc_bn_stat layer[2];
                for (int l = 0; l < layers; l++) {
                    memcpy(other, change == 2 ? var : mean, sizeof other);
                    other[1] += 0.25;
                    void *batch_mean = reals(change == 1 ? other : mean, C);
                    void *batch_var = reals(change == 2 ? other : var, C);
                    layer[l] = (rc_bn_stat){C,        batch_mean, batch_var, reals(mean, C), reals(var, C),
                                            zeros(C), zeros(C)};
                }
                void *slot = zeros(1);
                be->loss_bn(be, forms[f], layer, layers, factor(1), slot);
                value[layers - 1] = number(slot);
                double slope[C];
                read_back(layer[0].dmean, slope, C);
                for (int c = 0; c < C && change != 1; c++)
                    assert_true(slope[c] == 0); /* a norm of 0 has no direction */
            }
            if (change == 0)
                assert_true(fabs(value[0]) < 1e-7);
            else
                assert_true(value[0] > 1e-3);
            assert_near(value[1], forms[f] == RC_BN_KL ? value[0] : 2 * value[0], 1);
        }
        free_blocks(NULL);
    }
}

static void bn_loss_is_never_negative(void **state)
{
    (void)state;
    enum { C = 8 };
    const rc_bn_loss_form forms[] = {RC_BN_KL, RC_BN_KL_SUM, RC_BN_L2};
    for (int round = 0; round < 12; round++) {
        double value[4][C];
        for (int i = 0; i < 4; i++) {
            draw(value[i], C, 1);
            for (int c = 0; c < C && i % 2; c++) /* variances */
                value[i][c] = value[i][c] * value[i][c] + 1e-4;
        }
        rc_bn_stat layer = {
            C, reals(value[0], C), reals(value[1], C), reals(value[2], C), reals(value[3], C), zeros(C), zeros(C)};
        void *slot = zeros(1);
        be->loss_bn(be, forms[round % 3], &layer, 1, factor(1), slot);
        assert_true(number(slot) > 0);
    }
}

/* ---- DCE ------------------------------------------------------------------------------------------------------ */

enum { DCE_N = 8, DCE_D = 3, DCE_K = 4 };

typedef struct dce_fixture {
    rc_dce dce;
    double features[DCE_N * DCE_D], mean[DCE_K * DCE_D], covariance[DCE_D * DCE_D], members[DCE_K];
    int32_t labels[DCE_N];
    double gradient[DCE_N * DCE_D];
} dce_fixture;

/* A batch of classes 0..classes-1 and its statistics: the stored ones are these plus `apart`. */
static void dce_setup(dce_fixture *f, int classes, double apart, double divisor)
{
    memset(f, 0, sizeof *f);
    draw(f->features, DCE_N * DCE_D, 1);
    for (int b = 0; b < DCE_N; b++) {
        f->labels[b] = b % classes;
        f->members[f->labels[b]]++;
    }
    for (int b = 0; b < DCE_N; b++)
        for (int i = 0; i < DCE_D; i++)
            f->mean[f->labels[b] * DCE_D + i] += f->features[b * DCE_D + i] / f->members[f->labels[b]];
    for (int b = 0; b < DCE_N; b++)
        for (int i = 0; i < DCE_D; i++)
            for (int j = 0; j < DCE_D; j++)
                f->covariance[i * DCE_D + j] += (f->features[b * DCE_D + i] - f->mean[f->labels[b] * DCE_D + i]) *
                                                (f->features[b * DCE_D + j] - f->mean[f->labels[b] * DCE_D + j]) /
                                                divisor;
    double stored_mean[DCE_K * DCE_D], stored_covariance[DCE_D * DCE_D];
    for (int i = 0; i < DCE_K * DCE_D; i++)
        stored_mean[i] = f->mean[i] + apart;
    for (int i = 0; i < DCE_D * DCE_D; i++)
        stored_covariance[i] = f->covariance[i] + apart;
    f->dce = (rc_dce){.n = DCE_N,
                      .d = DCE_D,
                      .classes = DCE_K,
                      .momentum = 0.9f,
                      .class_mean = reals(stored_mean, DCE_K * DCE_D),
                      .covariance = reals(stored_covariance, DCE_D * DCE_D),
                      .running_mean = zeros(DCE_K * DCE_D),
                      .running_covariance = zeros(DCE_D * DCE_D),
                      .seen = take(DCE_K * sizeof(int32_t)),
                      .workspace = take(be->dce_workspace(be, DCE_N, DCE_D, DCE_K))};
}

static double dce_run(dce_fixture *f)
{
    void *slot = zeros(1), *dfeatures = zeros(DCE_N * DCE_D);
    be->loss_dce(be, &f->dce, reals(f->features, DCE_N * DCE_D), integers(f->labels, DCE_N), factor(1), slot,
                 dfeatures);
    read_back(dfeatures, f->gradient, DCE_N * DCE_D);
    return number(slot);
}

static void dce_is_0_for_equal_statistics(void **state)
{
    (void)state;
    dce_fixture f;
    dce_setup(&f, DCE_K, 0, DCE_N - 1);
    assert_near(dce_run(&f), 0, 10);
    dce_setup(&f, DCE_K, 0, DCE_N);
    f.dce.paper = true;
    assert_near(dce_run(&f), 0, 10);
    /* Exactly 0: one sample per class with stored means equal to it and a stored covariance of 0. */
    memset(f.features, 0, sizeof f.features);
    f.dce.class_mean = zeros(DCE_K * DCE_D);
    f.dce.covariance = zeros(DCE_D * DCE_D);
    for (int paper = 0; paper < 2; paper++) {
        f.dce.paper = paper;
        assert_true(dce_run(&f) == 0);
        for (int i = 0; i < DCE_N * DCE_D; i++)
            assert_true(f.gradient[i] == 0);
    }
}

static void dce_takes_one_norm_over_the_classes_present(void **state)
{
    (void)state;
    dce_fixture f;
    dce_setup(&f, 3, 0.5, DCE_N - 1); /* class 3 is absent */
    double covariance = sqrt(DCE_D * DCE_D * 0.25), one_class = sqrt(DCE_D * 0.25);
    assert_near(dce_run(&f), sqrt(3) * one_class + covariance, 10);
    dce_setup(&f, 3, 0.5, DCE_N);
    f.dce.paper = true;
    assert_near(dce_run(&f), 3 * one_class + covariance, 10);
    dce_setup(&f, 3, 0.5, DCE_N - 1);
    double stored[DCE_K * DCE_D];
    read_back(f.dce.class_mean, stored, DCE_K * DCE_D);
    stored[DCE_D] = NAN; /* class 1 was never estimated */
    f.dce.class_mean = reals(stored, DCE_K * DCE_D);
    assert_near(dce_run(&f), sqrt(2) * one_class + covariance, 10);
    for (int i = 0; i < DCE_N * DCE_D; i++)
        assert_true(isfinite(f.gradient[i]));
}

static void dce_moving_average_scales_the_gradient(void **state)
{
    (void)state;
    dce_fixture f;
    dce_setup(&f, DCE_K, 0.5, DCE_N - 1);
    double value = dce_run(&f), gradient[DCE_N * DCE_D]; /* fills the running statistics with those of the batch */
    memcpy(gradient, f.gradient, sizeof gradient);
    assert_near(dce_run(&f), value, 10); /* all classes seen: 0.9 of the batch + 0.1 of the batch */
    for (int i = 0; i < DCE_N * DCE_D; i++)
        assert_near(f.gradient[i], (1 - (double)f.dce.momentum) * gradient[i], 1);
}

static void dce_moving_average_waits_for_every_class(void **state)
{
    (void)state;
    dce_fixture f;
    int32_t seen[DCE_K];
    double running[DCE_K * DCE_D], before[DCE_K * DCE_D];
    dce_setup(&f, 3, 0.5, DCE_N - 1);
    for (int round = 0; round < 2; round++) { /* class 3 is missing: batch values, however often */
        draw(f.features, DCE_N * DCE_D, 1);
        dce_run(&f);
        be->read_bytes(be, seen, f.dce.seen, sizeof seen);
        assert_true(seen[0] && seen[1] && seen[2] && !seen[3]);
        double mean = 0;
        for (int b = 0; b < DCE_N; b += 3)
            mean += f.features[b * DCE_D] / f.members[0];
        read_back(f.dce.running_mean, running, DCE_K * DCE_D);
        assert_near(running[0], mean, 1);
    }
    f.labels[1] = 3; /* class 3 appears: still batch values in this step, for the flags are of earlier ones */
    draw(f.features, DCE_N * DCE_D, 1);
    dce_run(&f);
    read_back(f.dce.running_mean, before, DCE_K * DCE_D);
    assert_near(before[3 * DCE_D], f.features[DCE_D], 1);
    draw(f.features, DCE_N * DCE_D, 1);
    f.labels[1] = 2; /* absent again: its average stays; the others move by a tenth */
    f.labels[0] = 1;
    dce_run(&f);
    read_back(f.dce.running_mean, running, DCE_K * DCE_D);
    assert_true(running[3 * DCE_D] == before[3 * DCE_D]);
    double mean = (f.features[3 * DCE_D] + f.features[6 * DCE_D]) / 2;
    assert_near(running[0], f.dce.momentum * before[0] + (1 - (double)f.dce.momentum) * mean, 1);
}

/* ---- class statistics ----------------------------------------------------------------------------------------- */

static void class_statistics_match_two_passes(void **state)
{
    (void)state;
    enum { N = 40, D = 5, K = 4 };
    double features[N * D], mean[K * D] = {0}, covariance[D * D] = {0}, members[K] = {0}, center[D], got[K * D];
    int32_t labels[N];
    draw(features, N * D, 1);
    for (int b = 0; b < N; b++) {
        labels[b] = (b * b) % 3; /* 0 or 1: classes 2 and 3 have no sample */
        members[labels[b]]++;
        for (int i = 0; i < D; i++)
            features[b * D + i] = (float)(features[b * D + i] + 10);
    }
    for (int b = 0; b < N; b++)
        for (int i = 0; i < D; i++)
            mean[labels[b] * D + i] += features[b * D + i] / members[labels[b]];
    for (int b = 0; b < N; b++)
        for (int i = 0; i < D; i++)
            for (int j = 0; j < D; j++)
                covariance[i * D + j] += (features[b * D + i] - mean[labels[b] * D + i]) *
                                         (features[b * D + j] - mean[labels[b] * D + j]);
    for (int i = 0; i < D; i++)
        center[i] = i == 2 ? 0 : 10;
    void *x = reals(features, N * D);
    for (int form = 0; form < 4; form++) {
        bool unbiased = form & 1;
        void *from = form & 2 ? reals(center, D) : NULL;
        int32_t *count = take(K * sizeof *count);
        double *sum = take(K * D * sizeof *sum), *outer = take(D * D * sizeof *outer);
        void *class_mean = zeros(K * D), *tied = zeros(D * D);
        int32_t *y = integers(labels, N);
        be->class_statistics(be, 24, D, K, x, y, from, count, sum, outer);
        be->class_statistics(be, N - 24, D, K, rc_real_at(be, x, 24 * D), y + 24, from, count, sum, outer);
        be->class_statistics_finish(be, D, K, from, count, sum, outer, unbiased, class_mean, tied);
        read_back(class_mean, got, K * D);
        for (int i = 0; i < K * D; i++)
            if (members[i / D] == 0)
                assert_true(isnan(got[i]));
            else
                assert_near(got[i], mean[i], 10);
        double all[D * D];
        read_back(tied, all, D * D);
        for (int i = 0; i < D * D; i++)
            assert_near(all[i], covariance[i] / (unbiased ? N - 1 : N), 10);
    }
}

/* ---- adaptive factors ----------------------------------------------------------------------------------------- */

static void adaptive_scale_has_the_published_values(void **state)
{
    (void)state;
    const struct {
        int n_old, n_new;
        double ce, hkd, rkd;
    } rows[] = {
        {20, 20, 0.6445, 0.5189, 1.7297}, {80, 20, 0.3223, 1.0378, 3.4594}, {10, 10, 0.6934, 0.3877, 1.2925},
        {90, 10, 0.2311, 1.1632, 3.8774}, {5, 5, 0.7766, 0.2711, 0.9037},   {95, 5, 0.1782, 1.1817, 3.9390},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        rc_loss_scale scale = rc_adaptive_loss_scale(rows[i].n_old, rows[i].n_new);
        assert_true(fabs(0.5 * scale.cross_entropy - rows[i].ce) < 6e-5);
        assert_true(fabs(0.15 * scale.distillation - rows[i].hkd) < 6e-5);
        assert_true(fabs(0.5 * scale.distillation - rows[i].rkd) < 6e-5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(rkd_is_the_mean_difference_of_angles),
        TEST(rkd_of_equal_embeddings_is_finite),
        TEST(war_identities),
        TEST(bn_loss_is_0_for_equal_statistics),
        TEST(bn_loss_is_never_negative),
        TEST(dce_is_0_for_equal_statistics),
        TEST(dce_takes_one_norm_over_the_classes_present),
        TEST(dce_moving_average_scales_the_gradient),
        TEST(dce_moving_average_waits_for_every_class),
        TEST(class_statistics_match_two_passes),
        TEST(adaptive_scale_has_the_published_values),
    };
    return RUN_ON_BOTH(tests);
}
