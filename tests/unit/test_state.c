/* What a checkpoint holds: the tensors of every stage by name and size. Each of them matters: a task that is resumed
 * with some numbers of one tensor changed ends with other bits. And the list itself. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "nn/nets.h"
#include "support/cpu_backend.h"
#include "support/learning.h"
#include "support/succeeds.h"

/* ---- the list ------------------------------------------------------------------------------------------------- */

static void a_state_is_a_list_of_names(void **state)
{
    (void)state;
    static rc_state s;
    char name[RC_STATE_NAME + 1];
    float memory[3] = {0};
    for (int i = 0; i < RC_STATE_MAX; i++) {
        assert_int_equal(s.entries, i);
        snprintf(name, sizeof name, "tensor %d", i);
        SUCCEEDS(rc_state_add(&s, name, i % 2 ? RC_STATE_INT32 : RC_STATE_REAL, memory + i % 3, (size_t)i + 1));
    }
    assert_string_equal(s.entry[7].name, "tensor 7");
    assert_true(s.entry[7].type == RC_STATE_INT32 && s.entry[8].type == RC_STATE_REAL);
    assert_true(s.entry[7].memory == memory + 1 && s.entry[7].count == 8);
    assert_int_equal(rc_state_add(&s, "one more", RC_STATE_REAL, memory, 1), RC_INTERNAL);
    assert_string_equal(rc_message(), "no room for 'one more': a state has at most 64 tensors");
    rc_state_rewind(&s, RC_STATE_MAX + 1);
    assert_int_equal(s.entries, RC_STATE_MAX);
    rc_state_rewind(&s, 2);
    assert_int_equal(s.entries, 2);
    assert_int_equal(rc_state_add(&s, "tensor 1", RC_STATE_REAL, memory, 1), RC_INTERNAL);
    assert_string_equal(rc_message(), "the state has a tensor 'tensor 1' already");
    memset(name, 'x', sizeof name);
    name[RC_STATE_NAME] = '\0';
    assert_int_equal(rc_state_add(&s, name, RC_STATE_REAL, memory, 1), RC_INTERNAL);
    assert_non_null(strstr(rc_message(), "is longer than 63 characters"));
    name[RC_STATE_NAME - 1] = '\0';
    SUCCEEDS(rc_state_add(&s, name, RC_STATE_REAL, memory, 1));
    assert_string_equal(s.entry[2].name, name);
    assert_int_equal(s.entries, 3);
}

static rc_status failing_sync(rc_backend *backend)
{
    (void)backend;
    return rc_fail(RC_DEVICE, "no answer");
}

/* A model without running statistics has parameters; a backend that cannot be waited for is told. */
static void models_and_waits(void **state)
{
    (void)state;
    static rc_state s;
    float parameters[2] = {1, 2};
    rc_net net = {.params = 2};
    rc_backend broken = *be;
    broken.sync = failing_sync;
    SUCCEEDS(rc_state_add_model(&s, "model", &(rc_model){.net = &net, .param = parameters}));
    assert_int_equal(s.entries, 1);
    assert_string_equal(s.entry[0].name, "model.param");
    assert_int_equal(s.entry[0].count, 2);
    SUCCEEDS(rc_state_add_model(&s, "none", &(rc_model){.net = &net}));
    assert_int_equal(s.entries, 1);
    parameters[1] = NAN; /* which is not looked at before the backend has answered */
    assert_int_equal(rc_state_check(&broken, &s), RC_DEVICE);
    assert_string_equal(rc_message(), "no answer");
}

/* Wherever it is, in whichever piece; integers are never looked at. */
static void what_is_not_finite_is_found(void **state)
{
    (void)state;
    enum { COUNT = 10000 };
    static const size_t places[] = {0, 1, 4095, 4096, 4097, 8191, 8192, COUNT - 1};
    rc_state s = {0};
    void *memory, *integers;
    const int32_t no_number = 0x7FC00000; /* NaN, were it a float */
    assert_int_equal(be->alloc(be, COUNT * be->real_bytes, &memory), RC_OK);
    assert_int_equal(be->alloc(be, sizeof no_number, &integers), RC_OK);
    be->write_bytes(be, integers, &no_number, sizeof no_number);
    SUCCEEDS(rc_state_add(&s, "numbers", RC_STATE_REAL, memory, COUNT));
    SUCCEEDS(rc_state_add(&s, "integers", RC_STATE_INT32, integers, 1));
    SUCCEEDS(rc_state_check(be, &s));
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const float bad = i % 2 ? NAN : -INFINITY, good = 1;
        char expected[64];
        be->write_real(be, rc_real_at(be, memory, places[i]), &bad, 1);
        assert_int_equal(rc_state_check(be, &s), RC_NUMERIC);
        snprintf(expected, sizeof expected, "number %zu of numbers is %g", places[i], (double)bad);
        assert_string_equal(rc_message(), expected);
        be->write_real(be, rc_real_at(be, memory, places[i]), &good, 1);
    }
    SUCCEEDS(rc_state_check(be, &s));
    be->release(be, memory);
    be->release(be, integers);
}

/* ---- what stages keep ----------------------------------------------------------------------------------------- */

/* A copy of a state. */
typedef struct kept {
    rc_state state;
    void *value[RC_STATE_MAX]; /* reals, or integers */
} kept;

static size_t bytes_of(const rc_state_entry *e)
{
    return e->count * (e->type == RC_STATE_REAL ? be->real_bytes : sizeof(int32_t));
}

static void keep(kept *k, const rc_state *state)
{
    k->state = *state;
    for (int i = 0; i < state->entries; i++) {
        k->value[i] = malloc(bytes_of(&state->entry[i]));
        assert_non_null(k->value[i]);
        be->read_bytes(be, k->value[i], state->entry[i].memory, bytes_of(&state->entry[i]));
    }
}

static void forget(kept *k)
{
    for (int i = 0; i < k->state.entries; i++)
        free(k->value[i]);
    memset(k, 0, sizeof *k);
}

/* Takes the state at a step of a stage; later the same is put back, with numbers of one tensor changed. */
typedef struct keeper {
    rc_stage stage;
    uint32_t step;
    kept kept;
    int changed; /* tensor; -1: none */
    int restored;
} keeper;

static rc_status keep_at(void *user, const rc_stage_report *report)
{
    keeper *k = user;
    if (report->stage == k->stage && report->step == k->step)
        keep(&k->kept, report->state);
    return RC_OK;
}

/* The first numbers: the last of the projections' are biases, which cancel; and one pixel may be black already. */
static void change(rc_state_entry *entry)
{
    if (entry->type == RC_STATE_REAL) {
        float value[8];
        size_t count = entry->count < 8 ? entry->count : 8;
        be->read_real(be, value, entry->memory, count);
        for (size_t i = 0; i < count; i++)
            value[i] = value[i] * 1.5f + 0.25f;
        be->write_real(be, entry->memory, value, count);
    } else {
        int32_t value;
        be->read_bytes(be, &value, entry->memory, sizeof value);
        value = value == 1 ? 0 : value + 1;
        be->write_bytes(be, entry->memory, &value, sizeof value);
    }
}

static rc_status put_back(void *user, rc_state *state)
{
    keeper *k = user;
    k->restored++;
    for (int i = 0; i < state->entries; i++) {
        assert_string_equal(state->entry[i].name, k->kept.state.entry[i].name);
        assert_int_equal(state->entry[i].count, k->kept.state.entry[i].count);
        be->write_bytes(be, state->entry[i].memory, k->kept.value[i], bytes_of(&state->entry[i]));
        if (i == k->changed)
            change(&state->entry[i]);
    }
    return RC_OK;
}

/* The second task, of two classes after one, so that DCE averages from the first step on. */
static learning_bits second_task(const char *method, keeper *k, bool resumes)
{
    rc_settings s = learning_settings();
    rc_learner l;
    s.epochs = 3;
    s.refine_epochs = 1;
    s.milestones = 0;
    s.inversion_steps = 4;
    learning_create(&l, be, method, &s);
    learning_teach(&l, 0, 1, 16, &learning_no_hooks);
    rc_learner_end_task(&l);
    learning_begin(&l, 1, 2, 12);
    rc_stage_hooks hooks = {.boundary = keep_at, .user = k, .interval = 0};
    if (resumes)
        hooks = (rc_stage_hooks){
            .boundary = learning_no_hooks.boundary, .restore = put_back, .user = k, .interval = 1e9};
    SUCCEEDS(rc_run_stages(&l, resumes ? k->stage : RC_STAGE_INVERSION, resumes ? k->step : 0, &hooks, NULL));
    learning_bits end = learning_take(&l);
    rc_learner_destroy(&l);
    return end;
}

/* Tensors by name and size, with a star where nothing that follows looks at it: what is frozen, and weights of classes
 * that the next epoch computes anew. d = 16 features; three classes, one of them old. */
static const struct {
    const char *method;
    rc_stage stage;
    uint32_t step; /* in the midst of an epoch */
    const char *tensors;
} stages[] = {
    {"cwd", RC_STAGE_INVERSION, 2,
     "student.param:P student.running:R student.head:48 generator.param:G generator.running:S adam.first:G "
     "adam.second:G dce.running_mean:16 dce.running_covariance:256 dce.seen:1 "},
    {"cwd", RC_STAGE_TRAINING, 2,
     "student.param:P student.running:R student.head:48 generator.param:G generator.running:S momentum.backbone:P "
     "momentum.head:48 momentum.projection:1088 projection:1088 class_weight*:3 label_count:3 "},
    {"cwd", RC_STAGE_REFINEMENT, 1,
     "student.param:P student.running:R student.head:48 generator.param:G generator.running:S momentum.backbone*:P "
     "momentum.head:48 momentum.projection*:1088 projection*:1088 class_weight:3 label_count*:3 "},
    {"dgr", RC_STAGE_TRAINING, 2,
     "student.param:P student.running:R student.head:48 encoder.param:E decoder.param:D momentum.backbone:P "
     "momentum.head:48 momentum.encoder:E momentum.decoder:D class_weight*:3 label_count*:3 "},
    {"deepinversion-pixels", RC_STAGE_INVERSION, 2,
     "student.param:P student.running:R student.head:48 pixels:X adam.first:Y adam.second:Y "},
    {"er", RC_STAGE_TRAINING, 2,
     "student.param:P student.running:R student.head:48 momentum.backbone:P momentum.head:48 class_weight*:3 "
     "label_count*:3 "},
};

static void describe(const kept *k, const rc_settings *s, bool stars, const char *like, char *text, size_t size)
{
    rc_net net, generator, encoder, decoder;
    SUCCEEDS(rc_net_resnet_small(&net, LEARNING_CHANNELS, LEARNING_SIZE, LEARNING_SIZE, s->net_width, s->net_blocks));
    SUCCEEDS(rc_net_generator_small(&generator, LEARNING_CHANNELS, LEARNING_SIZE, s->noise, s->generator_width));
    SUCCEEDS(rc_net_vae_encoder(&encoder, LEARNING_CHANNELS, LEARNING_SIZE, s->vae_width));
    SUCCEEDS(rc_net_vae_decoder(&decoder, LEARNING_CHANNELS, LEARNING_SIZE, s->vae_width));
    size_t image = LEARNING_SIZE * LEARNING_SIZE * LEARNING_CHANNELS, batch = (size_t)s->batch * image;
    const struct {
        char letter;
        size_t count;
    } sizes[] = {{'P', net.params},     {'R', net.running},    {'G', generator.params}, {'S', generator.running},
                 {'E', encoder.params}, {'D', decoder.params}, {'X', 2 * batch},        {'Y', batch}};
    text[0] = '\0';
    for (int i = 0; i < k->state.entries; i++) {
        const rc_state_entry *e = &k->state.entry[i];
        char count[24], name[80];
        snprintf(count, sizeof count, "%zu", e->count);
        for (size_t j = 0; j < sizeof sizes / sizeof *sizes; j++)
            if (e->count == sizes[j].count)
                snprintf(count, sizeof count, "%c", sizes[j].letter);
        snprintf(name, sizeof name, "%s*:", e->name);
        bool star = stars && strstr(like, name) != NULL;
        snprintf(text + strlen(text), size - strlen(text), "%s%s:%s ", e->name, star ? "*" : "", count);
    }
}

/* Every tensor that a stage keeps is needed to go on, but for those with a star. */
static void every_tensor_matters(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
        keeper k = {.stage = stages[i].stage, .step = stages[i].step, .changed = -1};
        char found[1024];
        rc_settings s = learning_settings();
        learning_bits whole = second_task(stages[i].method, &k, false), same = second_task(stages[i].method, &k, true);
        describe(&k.kept, &s, true, stages[i].tensors, found, sizeof found);
        assert_string_equal(found, stages[i].tensors);
        assert_true(learning_same(whole, same));
        assert_int_equal(k.restored, 2); /* the task's, then with the stage's added */
        for (k.changed = 0; k.changed < k.kept.state.entries; k.changed++) {
            char star[80];
            learning_bits other = second_task(stages[i].method, &k, true);
            snprintf(star, sizeof star, "%s*:", k.kept.state.entry[k.changed].name);
            bool needless = strstr(stages[i].tensors, star) != NULL;
            if (learning_same(whole, other) != needless)
                fail_msg("%s, %s: %s %s", stages[i].method, rc_stage_name(k.stage), k.kept.state.entry[k.changed].name,
                         needless ? "matters" : "can be changed");
            learning_drop(other);
        }
        learning_drop(whole);
        learning_drop(same);
        forget(&k.kept);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_state_is_a_list_of_names),
        cmocka_unit_test(what_is_not_finite_is_found),
        cmocka_unit_test(models_and_waits),
        cmocka_unit_test(every_tensor_matters),
    };
    return cmocka_run_group_tests(tests, open_backend, close_backend);
}
