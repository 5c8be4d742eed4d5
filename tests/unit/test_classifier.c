/* A classifier that cannot be made, or has been destroyed, is all zeros and holds no memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "cil/classifier.h"
#include "nn/nets.h"
#include "support/cpu_backend.h"
#include "support/failing_heap.h"
#include "support/succeeds.h"

static const rc_classifier nothing;

/* Whatever the layer before it has. */
static void features_are_those_of_the_last_layer(void **state)
{
    (void)state;
    static rc_net net = {.layers = 3, .layer = {{.c_out = 5}, {.c_out = 7}, {.c_out = 9}}};
    assert_int_equal(rc_net_features(&net), 9);
}

static void what_cannot_be_made_is_nothing(void **state)
{
    (void)state;
    rc_net net;
    rc_classifier c;
    SUCCEEDS(rc_net_resnet_small(&net, 3, 8, 8, 2, 1));
    size_t before = rc_bytes_allocated();
    SUCCEEDS(rc_classifier_create(&c, &net, be, 4));
    assert_memory_not_equal(&c, &nothing, sizeof c);
    rc_classifier_destroy(&c);
    assert_memory_equal(&c, &nothing, sizeof c);
    net.layers--; /* it does not end in pooling any more */
    memset(&c, 0xFF, sizeof c);
    assert_int_equal(rc_classifier_create(&c, &net, be, 4), RC_INVALID_ARGUMENT);
    assert_memory_equal(&c, &nothing, sizeof c);
    net.layers = 0;
    assert_int_equal(rc_classifier_create(&c, &net, be, 4), RC_INVALID_ARGUMENT);
    assert_int_equal(rc_bytes_allocated(), before);
}

/* Pooling alone is a net too: it has no weights, no normalisation, and as many features as the image has channels. */
static void one_layer_is_enough(void **state)
{
    (void)state;
    static rc_net net = {.name = "pooling",
                         .h = 4,
                         .w = 4,
                         .c = 3,
                         .layers = 1,
                         .layer = {{.kind = RC_LAYER_AVERAGE_POOL, .c_in = 3, .c_out = 3}}};
    rc_classifier c;
    SUCCEEDS(rc_classifier_create(&c, &net, be, 2));
    assert_int_equal(c.head.d, 3);
    rc_classifier_destroy(&c);
}

/* Whichever allocation fails, it is told and nothing is left of what was being made. */
static void allocations_may_fail(void **state)
{
    (void)state;
    rc_net net;
    rc_classifier c, copy;
    int nth = 0;
    SUCCEEDS(rc_net_resnet_small(&net, 3, 8, 8, 2, 1));
    size_t at_first = rc_bytes_allocated();
    for (bool fails = true; fails; nth++) {
        memset(&c, 0xFF, sizeof c);
        allocation_to_fail = nth + 1;
        rc_status status = rc_classifier_create(&c, &net, be, 4);
        fails = allocation_failed();
        assert_int_equal(status, fails ? RC_OUT_OF_MEMORY : RC_OK);
        assert_true(!fails || rc_bytes_allocated() == at_first);
    }
    assert_true(nth > 2);
    SUCCEEDS(rc_head_grow(&c.head, 4, (rc_rng){3, 2}));
    size_t before = rc_bytes_allocated();
    nth = 0;
    for (bool fails = true; fails; nth++) {
        allocation_to_fail = nth + 1;
        rc_status status = rc_classifier_clone(&copy, &c);
        fails = allocation_failed();
        assert_int_equal(status, fails ? RC_OUT_OF_MEMORY : RC_OK);
        assert_true(!fails || rc_bytes_allocated() == before);
    }
    assert_true(nth > 2);
    rc_classifier_destroy(&copy);
    allocation_to_fail = 1;
    assert_int_equal(rc_classifier_align_rows(&c, 2), RC_OUT_OF_MEMORY);
    assert_true(allocation_failed());
    SUCCEEDS(rc_classifier_align_rows(&c, 2));
    assert_int_equal(rc_bytes_allocated(), before);
    rc_classifier_destroy(&c);
    assert_int_equal(rc_bytes_allocated(), at_first);
}

static rc_backend plain;
static int syncs_to_go;

static rc_status failing_sync(rc_backend *b)
{
    return --syncs_to_go == 0 ? rc_fail(RC_INTERNAL, "the device is gone") : plain.sync(b);
}

/* Before the rows are read, and after they were written. */
static void a_backend_that_fails_is_told(void **state)
{
    (void)state;
    rc_net net;
    rc_classifier c;
    SUCCEEDS(rc_net_resnet_small(&net, 3, 8, 8, 2, 1));
    SUCCEEDS(rc_classifier_create(&c, &net, be, 4));
    SUCCEEDS(rc_head_grow(&c.head, 4, (rc_rng){3, 2}));
    plain = *be;
    be->sync = failing_sync;
    for (int nth = 1; nth <= 3; nth++) {
        syncs_to_go = nth;
        rc_status status = rc_classifier_align_rows(&c, 2);
        assert_int_equal(status, nth < 3 ? RC_INTERNAL : RC_OK);
    }
    *be = plain;
    rc_classifier_destroy(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(features_are_those_of_the_last_layer),
        cmocka_unit_test(what_cannot_be_made_is_nothing),
        cmocka_unit_test(one_layer_is_enough),
        cmocka_unit_test(allocations_may_fail),
        cmocka_unit_test(a_backend_that_fails_is_told),
    };
    return cmocka_run_group_tests(tests, open_backend, close_backend);
}
