/* What the equations promise of losses on logits, of labels and weights: known values, zeros, limits. */
#include "unit/losses.h"

/* ---- logits --------------------------------------------------------------------------------------------------- */

static void diversity_is_0_for_uniform_and_1_for_one_class(void **state)
{
    (void)state;
    enum { N = 6, K = 3 };
    double logits[N * K] = {0}, value[2], gradient[N * K];
    void *slot = zeros(1), *dlogits = zeros(N * K);
    assert_int_equal(be->reserve_losses(be, N, K, 4, 4, 3), RC_OK);
    be->loss_diversity(be, N, K, K, reals(logits, N * K), 0, factor(1), slot, dlogits);
    assert_near(number(slot), 0, 1);
    for (int b = 0; b < N; b++)
        logits[b * K + b % K] = 50; /* every dream sure of its class, all classes alike */
    be->loss_diversity(be, N, K, K, reals(logits, N * K), 0, factor(1), slot, dlogits);
    assert_near(number(slot), 0, 1);
    for (int i = 0; i < 2; i++) {
        for (int b = 0; b < N; b++)
            for (int k = 0; k < K; k++)
                logits[b * K + k] = k == 1 ? 400 : -400; /* probabilities that underflow to 0 */
        be->loss_diversity(be, N, K, K, reals(logits, N * K), i ? 1e-6f : 0, factor(1), slot, dlogits);
        value[i] = number(slot);
    }
    assert_near(value[0], 1, 1);
    assert_near(value[1], 1 + 1e-6 / log(3), 1);
    read_back(dlogits, gradient, N * K);
    for (int i = 0; i < N * K; i++)
        assert_true(isfinite(gradient[i]));
    be->loss_diversity(be, N, 1, K, reals(logits, N * K), 0, factor(1), slot, dlogits);
    assert_true(number(slot) == 0);
}

static void diversity_lies_between_0_and_1(void **state)
{
    (void)state;
    enum { N = 5, K = 7 };
    double logits[N * K];
    void *slot = zeros(1), *dlogits = zeros(N * K);
    assert_int_equal(be->reserve_losses(be, N, K, 4, 4, 3), RC_OK);
    for (int round = 0; round < 40; round++) {
        draw(logits, N * K, pow(2, round % 10 - 3)); /* from nearly uniform to nearly sure */
        void *z = reals(logits, N * K);
        be->loss_diversity(be, N, K, K, z, round % 2 ? 1e-6f : 0, factor(1), slot, dlogits);
        double value = number(slot);
        assert_true(value >= -1e-6 && value <= 1 + 1e-6 / log(K) + 1e-6);
    }
}

static void content_gradient_is_nearly_constant(void **state)
{
    (void)state;
    enum { N = 8, K = 20 };
    const rc_cross_entropy loss = {.n = N, .stride = K, .count = K, .temperature = 1000};
    double logits[N * K], gradient[N * K];
    int32_t labels[N];
    draw(logits, N * K, 1);
    for (int b = 0; b < N; b++) {
        labels[b] = (b * 7) % K;
        logits[b * K + labels[b]] = 12; /* a confident sample */
    }
    void *slot = zeros(1), *dlogits = zeros(N * K);
    be->loss_cross_entropy(be, &loss, reals(logits, N * K), integers(labels, N), NULL, factor(1), slot, dlogits);
    assert_true(fabs(number(slot) - log(K)) < 0.02);
    read_back(dlogits, gradient, N * K);
    for (int b = 0; b < N; b++)
        for (int k = 0; k < K; k++) {
            double expected = (1.0 / K - (k == labels[b])) / (1000.0 * N);
            assert_true(fabs(gradient[b * K + k] - expected) < 0.02 / (1000.0 * N));
        }
}

static void decoupled_parts_add_up_to_cross_entropy(void **state)
{
    (void)state;
    enum { N = 9, OLD = 5, K = 12, STRIDE = 14 };
    const rc_cross_entropy loss = {.n = N, .stride = STRIDE, .count = K, .temperature = 1};
    double logits[N * STRIDE], whole[N * STRIDE], parts[N * STRIDE];
    int32_t labels[N];
    draw(logits, N * STRIDE, 4);
    for (int b = 0; b < N; b++)
        labels[b] = OLD + b % (K - OLD);
    logits[0] = 60; /* old classes far ahead: inter is large */
    logits[STRIDE] = -60;
    void *inter = zeros(1), *intra = zeros(1), *all = zeros(1), *dparts = zeros(N * STRIDE), *dall = zeros(N * STRIDE);
    void *z = reals(logits, N * STRIDE), *y = integers(labels, N);
    be->loss_decoupled(be, N, STRIDE, OLD, K, z, y, factor(1), factor(1), inter, intra, dparts);
    be->loss_cross_entropy(be, &loss, z, y, NULL, factor(1), all, dall);
    assert_near(number(inter) + number(intra), number(all), 10);
    read_back(dparts, parts, N * STRIDE);
    read_back(dall, whole, N * STRIDE);
    for (int i = 0; i < N * STRIDE; i++)
        assert_near(parts[i], whole[i], 1);
    be->loss_decoupled(be, N, STRIDE, 0, K, z, y, factor(1), factor(1), inter, intra, dparts);
    assert_true(number(inter) == 0); /* no old class yet */
    assert_near(number(intra), number(all), 10);
}

static void weighted_mean_divides_by_the_weights(void **state)
{
    (void)state;
    enum { N = 4, K = 3 };
    double logits[N * K] = {0, 1, 2, 3, 1, 0, 0, 0, 0, -1, 2, 1}, weights[K] = {1, 5, 2}, one[N];
    int32_t labels[N] = {0, 1, 1, 2};
    double plain = 0, weighted = 0, sum = 0;
    for (int b = 0; b < N; b++) {
        double total = 0;
        for (int k = 0; k < K; k++)
            total += exp(logits[b * K + k]);
        one[b] = log(total) - logits[b * K + labels[b]];
        plain += one[b] * weights[labels[b]] / N;
        weighted += one[b] * weights[labels[b]];
        sum += weights[labels[b]];
    }
    rc_cross_entropy loss = {.n = N, .stride = K, .count = K, .temperature = 1};
    void *slot = zeros(1), *dlogits = zeros(N * K), *z = reals(logits, N * K), *y = integers(labels, N);
    be->loss_cross_entropy(be, &loss, z, y, reals(weights, K), factor(1), slot, dlogits);
    assert_near(number(slot), plain, 10);
    loss.reduction = RC_WEIGHTED_MEAN;
    be->loss_cross_entropy(be, &loss, z, y, reals(weights, K), factor(1), slot, dlogits);
    assert_near(number(slot), weighted / sum, 10);
    be->loss_cross_entropy(be, &loss, z, y, NULL, factor(1), slot, dlogits);
    assert_near(number(slot), (one[0] + one[1] + one[2] + one[3]) / N, 10);
}

static void hkd_is_flat_where_logits_agree(void **state)
{
    (void)state;
    enum { N = 2, OLD = 3, STRIDE = 5 };
    double logits[N * STRIDE] = {1, 2, 3, 9, 9, 4, 5, 6, 9, 9}, teacher[N * OLD] = {1, 1, 4, 4, 5, 6.5};
    double gradient[N * STRIDE];
    const double expected[N * STRIDE] = {0, 1, -1, 0, 0, 0, 0, -1, 0, 0};
    void *slot = zeros(1), *dlogits = zeros(N * STRIDE);
    be->loss_hkd(be, N, OLD, reals(logits, N * STRIDE), STRIDE, reals(teacher, N * OLD), OLD, factor(3), slot, dlogits);
    assert_near(number(slot), 2.5 / 6, 1);
    read_back(dlogits, gradient, N * STRIDE);
    for (int i = 0; i < N * STRIDE; i++)
        assert_near(gradient[i], expected[i] * 3 / 6, 1);
}

static void kd_forms(void **state)
{
    (void)state;
    enum { N = 5, OLD = 4, K = 7 };
    double logits[N * K], teacher[N * OLD], gradient[N * K], sum = 0;
    draw(logits, N * K, 2);
    for (int b = 0; b < N; b++)
        memcpy(teacher + b * OLD, logits + b * K, OLD * sizeof *teacher);
    rc_distillation loss = {N, K, 0, OLD, OLD, 0, OLD, 2, true, true};
    void *slot = zeros(1), *dlogits = zeros(N * K), *z = reals(logits, N * K), *t = reals(teacher, N * OLD);
    be->loss_kd(be, &loss, z, t, factor(1), slot, dlogits);
    assert_near(number(slot), 0, 1); /* equal logits: no divergence */
    loss.kl = loss.t_squared = false;
    be->loss_kd(be, &loss, z, t, factor(1), slot, dlogits);
    for (int b = 0; b < N; b++) {
        double normaliser = 0;
        for (int k = 0; k < OLD; k++)
            normaliser += exp(teacher[b * OLD + k] / 2);
        for (int k = 0; k < OLD; k++) {
            double p = exp(teacher[b * OLD + k] / 2) / normaliser;
            sum -= p * log(p) / N;
        }
    }
    assert_near(number(slot), sum, 10); /* their cross entropy is the entropy */
    loss.t_squared = true;
    be->loss_kd(be, &loss, z, t, factor(1), slot, dlogits);
    assert_near(number(slot), 4 * sum, 40);
    read_back(dlogits, gradient, N * K);
    for (int i = 0; i < N * K; i++)
        assert_near(gradient[i], 0, 1);
    /* DeepInversion: the student's softmax covers the new classes too, whose target is 0. */
    loss = (rc_distillation){N, K, 0, K, OLD, 0, OLD, 2, false, false};
    be->loss_kd(be, &loss, z, t, factor(1), slot, dlogits);
    assert_true(number(slot) > sum);
    read_back(dlogits, gradient, N * K);
    for (int b = 0; b < N; b++)
        for (int k = 0; k < K; k++)
            assert_true((gradient[b * K + k] > 0) == (k >= OLD));
}

/* ---- labels and statistics ------------------------------------------------------------------------------------ */

static void labels_and_weights(void **state)
{
    (void)state;
    const double logits[3 * 4] = {1, 3, 3, 9, 2, 2, 2, 9, 0, 1, 5, 9};
    int32_t label[3], count[3];
    void *labels = take(sizeof label), *counts = take(sizeof count), *weights = zeros(3), *p = zeros(9);
    void *z = reals(logits, 12);
    be->argmax(be, 3, 3, 4, z, labels);
    be->read_bytes(be, label, labels, sizeof label);
    assert_true(label[0] == 1 && label[1] == 0 && label[2] == 2); /* the first of equals; the last column is outside */
    be->count_labels(be, 3, labels, 3, counts);
    const int32_t more[5] = {1, 1, 1, 0, 1};
    be->count_labels(be, 5, integers(more, 5), 3, counts);
    be->read_bytes(be, count, counts, sizeof count);
    assert_true(count[0] == 2 && count[1] == 5 && count[2] == 1);
    double weight[3], probability[9];
    be->balance_weights(be, 3, counts, weights);
    read_back(weights, weight, 3);
    assert_near(weight[0], 2.5, 10);
    assert_near(weight[1], 1, 10);
    assert_near(weight[2], 5, 10);
    be->balance_weights(be, 3, take(3 * sizeof(int32_t)), weights); /* nothing counted yet */
    read_back(weights, weight, 3);
    assert_true(weight[0] == 1 && weight[1] == 1 && weight[2] == 1);
    be->softmax(be, 3, 3, 4, z, p);
    read_back(p, probability, 9);
    assert_near(probability[3], 1.0 / 3, 1);
    assert_near(probability[6 + 1] / probability[6 + 2], exp(-4), 1);
    assert_near(probability[6] + probability[7] + probability[8], 1, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(diversity_is_0_for_uniform_and_1_for_one_class),
        TEST(diversity_lies_between_0_and_1),
        TEST(content_gradient_is_nearly_constant),
        TEST(decoupled_parts_add_up_to_cross_entropy),
        TEST(weighted_mean_divides_by_the_weights),
        TEST(hkd_is_flat_where_logits_agree),
        TEST(kd_forms),
        TEST(labels_and_weights),
    };
    return RUN_ON_BOTH(tests);
}
