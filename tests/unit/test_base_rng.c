/* Philox against the published vectors, and everything built on it against tests/oracle/philox.py. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/rng.h"

/* What the expected values below were made with. */
static const rc_rng sample = {0x0123456789abcdefu, 0xfedcba9876543210u};

static void published_vectors(void **state)
{
    (void)state;
    static const struct {
        rc_philox counter;
        uint32_t key[2];
        rc_philox expected;
    } known[] = {
        {{{0, 0, 0, 0}}, {0, 0}, {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}}},
        {{{~0u, ~0u, ~0u, ~0u}}, {~0u, ~0u}, {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}}},
        {{{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
         {0xa4093822, 0x299f31d0},
         {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        rc_philox got = rc_philox_rounds(known[i].counter, known[i].key[0], known[i].key[1]);
        assert_memory_equal(&got, &known[i].expected, sizeof got);
    }
}

/* seed and stream fill key and counter in the documented order: the pi vector again, through rc_rng. */
static void counter_layout(void **state)
{
    (void)state;
    rc_rng rng = {0x299f31d0a4093822u, 0x0370734413198a2eu};
    static const uint32_t expected[4] = {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1};
    rc_philox block = rc_rng_block(rng, 0x85a308d3243f6a88u);
    assert_memory_equal(block.lane, expected, sizeof expected);
    /* Of that vector's block number only the low 62 bits can be reached by an element index. */
    static const uint32_t far_along[6] = {0x0f1e946c, 0xfa249394, 0x2accffa1, 0x40ed4359, 0x233050e4, 0xa7e4ac8d};
    for (uint64_t i = 0; i < 6; i++)
        assert_int_equal(rc_rng_bits(sample, (1ull << 34) + 3 + i), far_along[i]);
}

static void uniforms_match_python(void **state)
{
    (void)state;
    static const float expected[5] = {0x1.ed36b2p-1f, 0x1.e75a2p-3f, 0x1.136caep-1f, 0x1.d85566p-1f, 0x1.19c7f4p-2f};
    for (uint64_t i = 0; i < 5; i++)
        assert_true(rc_rng_uniform(sample, i + 1) == expected[i]);
    assert_true(rc_uniform_from_bits(0) == 0.0f);
    assert_true(rc_uniform_from_bits(~0u) == 1.0f - 0x1p-24f);
}

static void integers_match_python(void **state)
{
    (void)state;
    static const uint32_t expected[8] = {683, 963, 237, 537, 922, 275, 456, 294};
    for (uint64_t i = 0; i < 8; i++)
        assert_int_equal(rc_rng_below(sample, i, 1000), expected[i]);
    assert_int_equal(rc_rng_below(sample, 0, 0), 0);
    assert_int_equal(rc_rng_below(sample, 0, 1), 0);
    assert_int_equal(rc_below_from_bits(~0u, ~0u), ~0u - 1);
}

static void normals_match_python(void **state)
{
    (void)state;
    static const double expected[6] = {-0.1993876967629075,  -1.6465656778859903, -0.40010707648101157,
                                       -0.06326387784626346, 0.3965802420017627,  -0.3478553198349668};
    for (uint64_t i = 0; i < 6; i++)
        assert_true(fabs(rc_rng_normal(sample, i + 1) - expected[i]) < 4e-15);
}

static void normals_have_the_moments_of_a_normal(void **state)
{
    (void)state;
    enum { COUNT = 100000 };
    double sum[4] = {0};
    for (uint64_t i = 0; i < COUNT; i++) {
        double x = rc_rng_normal((rc_rng){3, 4}, i), power = 1;
        assert_true(fabs(x) < 5.9);
        for (int k = 0; k < 4; k++)
            sum[k] += power *= x;
    }
    /* Four standard errors: the variances of x, x^2, x^3, x^4 are 1, 2, 15, 96. */
    static const double expected[4] = {0, 1, 0, 3}, variance[4] = {1, 2, 15, 96};
    for (int k = 0; k < 4; k++)
        assert_true(fabs(sum[k] / COUNT - expected[k]) < 4 * sqrt(variance[k] / COUNT));
}

static void fills_equal_single_elements(void **state)
{
    (void)state;
    for (uint64_t first = 0; first < 6; first++) {
        for (size_t n = 0; n < 12; n++) {
            float uniform[13], normal[13];
            uniform[n] = normal[n] = 99;
            rc_rng_fill_uniform(sample, first, uniform, n);
            rc_rng_fill_normal(sample, first, normal, n);
            for (size_t k = 0; k < n; k++) {
                assert_true(uniform[k] == rc_rng_uniform(sample, first + k));
                assert_true(normal[k] == (float)rc_rng_normal(sample, first + k));
            }
            assert_true(uniform[n] == 99 && normal[n] == 99);
        }
    }
}

static void seeds_and_streams_differ(void **state)
{
    (void)state;
    static const rc_rng others[] = {{1, 0}, {0, 1}, {1ull << 32, 0}, {0, 1ull << 32}};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_int_not_equal(rc_rng_bits(others[i], 0), rc_rng_bits((rc_rng){0, 0}, 0));
    assert_int_not_equal(rc_rng_bits((rc_rng){0, 0}, 1ull << 34), rc_rng_bits((rc_rng){0, 0}, 0));
}

static void small_permutations(void **state)
{
    (void)state;
    static const uint32_t expected[12] = {11, 0, 5, 3, 6, 9, 1, 7, 4, 2, 10, 8};
    uint32_t order[12] = {77};
    rc_rng_permutation(sample, 0, order);
    assert_int_equal(order[0], 77);
    rc_rng_permutation(sample, 1, order);
    assert_int_equal(order[0], 0);
    rc_rng_permutation(sample, 12, order);
    assert_memory_equal(order, expected, sizeof expected);
}

/* With a million elements some 60 draws are thrown away, so this notices a wrong rejection. */
static void large_permutation_matches_python(void **state)
{
    (void)state;
    enum { COUNT = 1000000 };
    uint32_t *order = rc_alloc(NULL, COUNT * sizeof *order);
    assert_non_null(order);
    rc_rng_permutation((rc_rng){7, 3}, COUNT, order);
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a over whole elements */
    for (size_t i = 0; i < COUNT; i++)
        hash = (hash ^ order[i]) * 0x100000001b3u;
    rc_free(NULL, order);
    assert_true(hash == 0x2b5e6f3be57d9b8du);
}

/* All 24 orders of 4 elements come equally often: chi-square with 23 degrees of freedom, 99.9 % point 49.7. */
static void permutations_are_uniform(void **state)
{
    (void)state;
    enum { DRAWS = 24000 };
    int seen[256] = {0};
    for (uint64_t stream = 0; stream < DRAWS; stream++) {
        uint32_t order[4];
        rc_rng_permutation((rc_rng){5, stream}, 4, order);
        seen[order[0] << 6 | order[1] << 4 | order[2] << 2 | order[3]]++;
    }
    double chi_square = 0;
    int orders = 0;
    for (int i = 0; i < 256; i++) {
        if (seen[i] == 0)
            continue;
        orders++;
        chi_square += (seen[i] - 1000.0) * (seen[i] - 1000.0) / 1000.0;
    }
    assert_int_equal(orders, 24);
    assert_true(chi_square < 49.7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_vectors),           cmocka_unit_test(counter_layout),
        cmocka_unit_test(uniforms_match_python),       cmocka_unit_test(integers_match_python),
        cmocka_unit_test(normals_match_python),        cmocka_unit_test(normals_have_the_moments_of_a_normal),
        cmocka_unit_test(fills_equal_single_elements), cmocka_unit_test(seeds_and_streams_differ),
        cmocka_unit_test(small_permutations),          cmocka_unit_test(large_permutation_matches_python),
        cmocka_unit_test(permutations_are_uniform),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
