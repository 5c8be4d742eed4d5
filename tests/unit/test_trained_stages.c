/* Lessons in which only the last stages of a net learn: what stays keeps its bits, what learns does. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "nn/nets.h"
#include "support/cpu_backend.h"
#include "support/learning.h"
#include "support/succeeds.h"

static void stages_are_runs_of_maps_of_one_size(void **state)
{
    (void)state;
    static rc_net net;
    SUCCEEDS(rc_net_resnet_small(&net, 3, 16, 16, 4, 2));
    int ends[3] = {0}; /* of the maps of 16, 8 and 4 pixels */
    for (int i = 0; i < net.layers; i++)
        if (net.layer[i].kind != RC_LAYER_AVERAGE_POOL)
            ends[net.layer[i].h == 16 ? 0 : net.layer[i].h == 8 ? 1 : 2] = i + 1;
    assert_true(0 < ends[0] && ends[0] < ends[1] && ends[1] < ends[2] && ends[2] == net.layers - 1);
    assert_int_equal(rc_net_layers_before(&net, 0), 0);
    assert_int_equal(rc_net_layers_before(&net, 1), ends[1]);
    assert_int_equal(rc_net_layers_before(&net, 2), ends[0]);
    assert_int_equal(rc_net_layers_before(&net, 3), 0);
    assert_int_equal(rc_net_layers_before(&net, 16), 0);
    assert_int_equal(rc_net_params_before(&net, 0), 0);
    assert_int_equal(rc_net_params_before(&net, ends[0]), net.layer[ends[0]].weight);
    assert_int_equal(rc_net_params_before(&net, net.layers), net.params);
}

static void what_cannot_be_frozen_is_refused(void **state)
{
    (void)state;
    static rc_net net;
    SUCCEEDS(rc_net_resnet_small(&net, 3, 8, 8, 2, 1));
    const rc_pass_settings wrong[] = {{.mode = RC_PASS_TRAIN, .n = 2, .frozen = -1},
                                      {.mode = RC_PASS_TRAIN, .n = 2, .frozen = net.layers},
                                      {.mode = RC_PASS_TRAIN, .n = 2, .frozen = 1, .input_gradient = true},
                                      {.mode = RC_PASS_FROZEN, .n = 2, .frozen = 1},
                                      {.mode = RC_PASS_EVAL, .n = 2, .frozen = 1}};
    rc_pass *pass;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(rc_pass_create(be, &net, &wrong[i], &pass), RC_INVALID_ARGUMENT);
        assert_non_null(strstr(rc_message(), "layers are frozen, expected 0 to "));
    }
    /* One value per channel has no variance, but what is frozen needs none. */
    rc_pass_settings one = {.mode = RC_PASS_TRAIN, .n = 1};
    SUCCEEDS(rc_net_resnet_small(&net, 3, 1, 1, 2, 1));
    assert_int_equal(rc_pass_create(be, &net, &one, &pass), RC_INVALID_ARGUMENT);
    one.frozen = net.layers - 1;
    SUCCEEDS(rc_pass_create(be, &net, &one, &pass));
    SUCCEEDS(rc_pass_set_batch(pass, 1, NULL));
    rc_pass_destroy(pass);
}

/* Parameters, then running statistics, of a learner's student. */
static float *read_backbone(const rc_learner *l)
{
    size_t params = l->net.params, running = l->net.running;
    float *all = malloc((params + running) * sizeof *all);
    assert_non_null(all);
    SUCCEEDS(be->sync(be));
    be->read_real(be, all, l->student.backbone.param, params);
    be->read_real(be, all + params, l->student.backbone.running, running);
    return all;
}

/* Layer by layer: does it have other bits than before? */
static bool layer_moved(const rc_layer *layer, const float *before, const float *after, size_t params)
{
    size_t c = (size_t)layer->c_out;
    if (layer->params == 0)
        return false;
    bool same = memcmp(before + layer->weight, after + layer->weight, layer->weights * sizeof *before) == 0;
    size_t vectors[] = {layer->gamma, layer->beta, params + layer->running_mean, params + layer->running_var};
    for (int i = 0; i < 4; i++)
        assert_int_equal(memcmp(before + vectors[i], after + vectors[i], c * sizeof *before) == 0, same);
    return !same;
}

static void only_the_last_stages_learn(void **state)
{
    (void)state;
    for (int stages = 0; stages <= 2; stages++) {
        rc_settings s = learning_settings();
        rc_learner l;
        s.trained_stages = stages;
        learning_create(&l, be, "cwd", &s);
        float *start = read_backbone(&l);
        learning_teach(&l, 0, 2, 8, &learning_no_hooks);
        rc_learner_end_task(&l);
        float *first = read_backbone(&l);
        learning_teach(&l, 1, 2, 8, &learning_no_hooks);
        rc_learner_end_task(&l);
        float *second = read_backbone(&l);
        int stays = rc_net_layers_before(&l.net, stages);
        assert_int_equal(stays > 0, stages > 0);
        for (int i = 0; i < l.net.layers; i++) {
            bool learns = l.net.layer[i].params > 0;
            assert_int_equal(layer_moved(&l.net.layer[i], start, first, l.net.params), learns); /* all of them */
            assert_int_equal(layer_moved(&l.net.layer[i], first, second, l.net.params), learns && i >= stays);
        }
        free(start);
        free(first);
        free(second);
        rc_learner_destroy(&l);
    }
}

static void one_old_class_keeps_the_first_stages(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    rc_learner l;
    s.trained_stages = 1;
    learning_create(&l, be, "finetune", &s);
    learning_teach(&l, 0, 1, 8, &learning_no_hooks);
    rc_learner_end_task(&l);
    float *first = read_backbone(&l);
    learning_teach(&l, 1, 2, 8, &learning_no_hooks);
    rc_learner_end_task(&l);
    float *second = read_backbone(&l);
    int stays = rc_net_layers_before(&l.net, 1);
    assert_true(stays > 0);
    for (int i = 0; i < l.net.layers; i++)
        assert_int_equal(layer_moved(&l.net.layer[i], first, second, l.net.params),
                         l.net.layer[i].params > 0 && i >= stays);
    free(first);
    free(second);
    rc_learner_destroy(&l);
}

/* p' = p - rate (g + decay p), with the gradient of the same parameter. */
static void what_learns_moves_by_its_own_gradient(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    rc_backend *doubles;
    rc_learner l;
    rc_training *training;
    SUCCEEDS(rc_backend_open("reference64", 1, NULL, &doubles));
    learning_begin_second(&l, doubles, "finetune", &s);
    rc_learner_send_order(&l, 0);
    rc_training_settings settings = {.batch = 8,
                                     .n_old = 2,
                                     .losses = {.real = RC_CE_ALL},
                                     .sgd = {.weight_decay = 0.125f},
                                     .frozen = rc_net_layers_before(&l.net, 1)};
    SUCCEEDS(rc_training_create(doubles, &settings, &l.student, NULL, NULL, &l.data, &training));
    rc_step *control = rc_training_control(training);
    control->step = control->batch = 0;
    control->learning_rate = 0.0625f;
    control->weight[RC_LOSS_CE] = 1;
    rc_training_send(training);
    size_t params = l.net.params, first = rc_net_params_before(&l.net, settings.frozen);
    double *before = malloc(params * sizeof *before);
    const double *after = l.student.backbone.param, *gradient = rc_training_look(training).backbone_gradient;
    assert_non_null(before);
    memcpy(before, after, params * sizeof *before);
    rc_training_batch(training);
    rc_training_gradients(training);
    rc_training_update(training);
    for (size_t i = 0; i < params; i++) {
        double step = i < first ? 0 : 0.0625 * (gradient[i] + 0.125 * before[i]);
        assert_true(fabs(after[i] - (before[i] - step)) < 1e-14);
    }
    free(before);
    rc_training_destroy(training);
    rc_learner_destroy(&l);
    rc_backend_close(doubles);
}

static void a_lesson_of_the_last_stage_can_be_resumed(void **state)
{
    (void)state;
    int stages[RC_STAGE_COUNT];
    rc_settings s = learning_settings();
    s.trained_stages = 1;
    s.epochs = 2;
    s.refine_epochs = 1;
    s.inversion_steps = 2;
    if (learning_resume_everywhere(be, "cwd", &s, stages))
        assert_true(stages[RC_STAGE_TRAINING] > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_are_runs_of_maps_of_one_size),
        cmocka_unit_test(what_cannot_be_frozen_is_refused),
        cmocka_unit_test(only_the_last_stages_learn),
        cmocka_unit_test(one_old_class_keeps_the_first_stages),
        cmocka_unit_test(what_learns_moves_by_its_own_gradient),
        cmocka_unit_test(a_lesson_of_the_last_stage_can_be_resumed),
    };
    return cmocka_run_group_tests(tests, open_backend, close_backend);
}
