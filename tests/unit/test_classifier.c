/* A classifier that cannot be made or has been destroyed is all zeros, and nothing of it is held. */
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

/* Wherever memory ends. */
static void memory_may_run_out(void **state)
{
    (void)state;
    rc_net net;
    rc_classifier c, copy;
    SUCCEEDS(rc_net_resnet_small(&net, 3, 8, 8, 2, 1));
    size_t nothing_held = rc_bytes_allocated();
    rc_status status = RC_OUT_OF_MEMORY;
    for (size_t budget = 0; status != RC_OK; budget += 64) {
        memset(&c, 0xFF, sizeof c);
        rc_memory_set_budget(nothing_held + budget);
        status = rc_classifier_create(&c, &net, be, 4);
        rc_memory_set_budget(SIZE_MAX);
        assert_true(status == RC_OK || status == RC_OUT_OF_MEMORY);
        assert_true(status == RC_OK || rc_bytes_allocated() == nothing_held);
    }
    SUCCEEDS(rc_head_grow(&c.head, 4, (rc_rng){3, 2}));
    size_t before = rc_bytes_allocated();
    status = RC_OUT_OF_MEMORY;
    for (size_t budget = 0; status != RC_OK; budget += 64) {
        rc_memory_set_budget(before + budget);
        status = rc_classifier_clone(&copy, &c);
        rc_memory_set_budget(SIZE_MAX);
        assert_true(status == RC_OK || status == RC_OUT_OF_MEMORY);
        assert_true(status == RC_OK || rc_bytes_allocated() == before);
    }
    rc_classifier_destroy(&copy);
    rc_memory_set_budget(before);
    assert_int_equal(rc_classifier_align_rows(&c, 2), RC_OUT_OF_MEMORY);
    rc_memory_set_budget(SIZE_MAX);
    SUCCEEDS(rc_classifier_align_rows(&c, 2));
    assert_int_equal(rc_bytes_allocated(), before);
    rc_classifier_destroy(&c);
    assert_int_equal(rc_bytes_allocated(), nothing_held);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(features_are_those_of_the_last_layer),
        cmocka_unit_test(what_cannot_be_made_is_nothing),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, open_backend, close_backend);
}
