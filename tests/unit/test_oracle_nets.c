/* Whole nets against PyTorch in float64 (tests/oracle/nets.py): outputs, losses, the gradient of every parameter and of
 * the input, running statistics, and some steps of the optimiser. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "nn/nets.h"
#include "nn/optimiser.h"
#include "nn/pass.h"
#include "support/oracle_net.h"
#include "support/tensors.h"

enum { CLASSES = 10 };

/* What surrounds a net in these tests. */
typedef struct trainee {
    subject *s;
    rc_net net;
    rc_model model;
    rc_pass *pass;
    rc_tensor input;
    rc_step *step;
    void *gradient;
    const float *one;
} trainee;

static void begin(trainee *t, subject *s, const rc_pass_settings *settings)
{
    t->s = s;
    t->one = subject_weight(s, 1);
    subject_must(s, rc_model_create(&t->model, &t->net, s->be));
    oracle_net_fill(s, &t->model, "");
    subject_must(s, rc_pass_create(s->be, &t->net, settings, &t->pass));
    t->gradient = subject_reals(s, NULL, t->net.params);
    rc_step host = {.step = UINT32_MAX, .batch = UINT32_MAX, .learning_rate = (float)oracle_number(s->c, "lr")};
    t->step = subject_bytes(s, sizeof host);
    s->be->write_bytes(s->be, t->step, &host, sizeof host);
}

static void end(trainee *t)
{
    rc_pass_destroy(t->pass);
    rc_model_destroy(&t->model);
    t->pass = NULL;
}

static rc_optimiser *new_optimiser(trainee *t, bool adaptive)
{
    const oracle_case *c = t->s->c;
    rc_optimiser *optimiser;
    if (adaptive) {
        rc_adam adam = {(float)oracle_number(c, "beta1"), (float)oracle_number(c, "beta2"),
                        (float)oracle_number(c, "eps")};
        subject_must(t->s, rc_optimiser_create_adam(t->s->be, &adam, &optimiser));
    } else {
        rc_sgd sgd = {(float)oracle_number(c, "momentum"), (float)oracle_number(c, "weight_decay")};
        subject_must(t->s, rc_optimiser_create_sgd(t->s->be, &sgd, &optimiser));
    }
    subject_must(t->s, rc_optimiser_add(optimiser, t->model.param, t->gradient, t->net.params));
    return optimiser;
}

/* The loss of a step. After the first one it is as exact as the gradients; then the parameters differ. */
static void expect_loss(trainee *t, int step, double loss)
{
    char name[32];
    snprintf(name, sizeof name, "loss-%d", step);
    oracle_expect(t->s->c, t->s->be->about.name, name, &loss, 1, step == 0 ? t->s->tolerance : oracle_net_moved(t->s));
}

static void expect_first_step(trainee *t)
{
    oracle_net_expect(t->s, &t->net, "gradient/", t->gradient, false, t->s->tolerance);
    oracle_net_expect(t->s, &t->net, "running/", t->model.running, true, t->s->tolerance);
}

/* ---- classifiers --------------------------------------------------------------------------------------------- */

typedef struct head {
    void *weight, *gradient, *logits, *dlogits, *loss;
    int32_t *labels;
} head;

static double classify(trainee *t, head *h, int n, int d)
{
    rc_backend *be = t->s->be;
    void *features = rc_pass_features(t->pass), *dfeatures = rc_pass_output_gradient(t->pass, RC_NO_LAYER);
    be->dense_forward(be, n, d, CLASSES, features, h->weight, NULL, h->logits, CLASSES);
    be->zero(be, h->dlogits, (size_t)n * CLASSES * be->real_bytes);
    rc_cross_entropy ce = {.n = n, .stride = CLASSES, .count = CLASSES, .temperature = 1, .reduction = RC_MEAN};
    be->loss_cross_entropy(be, &ce, h->logits, h->labels, NULL, t->one, h->loss, h->dlogits);
    be->dense_backward_weight(be, n, d, CLASSES, features, h->dlogits, CLASSES, h->gradient, NULL, false);
    be->dense_backward_data(be, n, d, CLASSES, h->dlogits, CLASSES, h->weight, dfeatures, false);
    double loss;
    be->read_real64(be, &loss, h->loss, 1);
    return loss;
}

/* before: (rows), the weights of the head before the first step. */
static void expect_moved(trainee *t, const void *weight, const double *before, size_t rows)
{
    rc_backend *be = t->s->be;
    double *moved = malloc(rows * sizeof *moved);
    assert_non_null(moved);
    oracle_net_expect_moved(t->s, &t->model, "");
    be->read_real64(be, moved, weight, rows);
    for (size_t i = 0; i < rows; i++)
        moved[i] -= before[i];
    oracle_expect(t->s->c, be->about.name, "moved/head.weight", moved, rows, oracle_net_moved(t->s));
    free(moved);
}

static void train_classifier(trainee *t, int n, int d)
{
    subject *s = t->s;
    const oracle_case *c = s->c;
    rc_backend *be = s->be;
    size_t rows = (size_t)CLASSES * (size_t)d, logits = (size_t)n * CLASSES;
    double *weight = oracle_parameter(s->c, "head.weight", (const int[2]){CLASSES, d}, 2);
    int32_t *labels = oracle_integers(s->c, "labels", (size_t)n, CLASSES);
    head h = {.weight = subject_reals(s, weight, rows),
              .gradient = subject_reals(s, NULL, rows),
              .logits = subject_reals(s, NULL, logits),
              .dlogits = subject_reals(s, NULL, logits),
              .loss = subject_reals(s, NULL, 1),
              .labels = subject_labels(s, labels, (size_t)n)};
    subject_must(s, be->reserve_dense(be, n, d, CLASSES));
    rc_optimiser *optimiser = new_optimiser(t, false);
    subject_must(s, rc_optimiser_add(optimiser, h.weight, h.gradient, rows));
    for (int step = 0; step < oracle_int(c, "steps"); step++) {
        be->step_begin(be, t->step);
        rc_pass_forward(t->pass, &t->model, &t->input);
        double loss = classify(t, &h, n, d);
        rc_pass_backward(t->pass, &t->model, t->gradient);
        expect_loss(t, step, loss);
        if (step == 0) {
            subject_expect(s, "features", rc_pass_features(t->pass), (size_t)n * (size_t)d);
            expect_first_step(t);
            subject_expect(s, "gradient/head.weight", h.gradient, rows);
            subject_expect_map(s, "dinput", &t->input, rc_pass_input_gradient(t->pass));
        }
        rc_optimiser_step(optimiser, t->step);
    }
    rc_optimiser_destroy(optimiser);
    if (!oracle_brief(c))
        expect_moved(t, h.weight, weight, rows);
    free(weight);
    free(labels);
}

static void run_classifier(subject *s)
{
    const oracle_case *c = s->c;
    int n = oracle_int(c, "n"), width = oracle_int(c, "width"), first = oracle_int(c, "first_group");
    int h = oracle_int(c, "h"), w = oracle_int(c, "w"), channels = oracle_int(c, "c");
    trainee t = {.pass = NULL};
    if (width > 0)
        subject_must(s, rc_net_resnet_small(&t.net, channels, h, w, width, oracle_int(c, "blocks")));
    else
        subject_must(s, rc_net_by_name(&t.net, c->name + strlen("classifier/"), channels, h, w));
    int d = t.net.layer[t.net.layers - 1].c_out;
    t.input = subject_map_input(s, "x", n, h, w, channels, 1.75, 0);

    begin(&t, s, &(rc_pass_settings){.mode = RC_PASS_EVAL, .n = n});
    rc_pass_forward(t.pass, &t.model, &t.input);
    subject_expect(s, "eval", rc_pass_features(t.pass), (size_t)n * (size_t)d);
    end(&t);

    begin(&t, s,
          &(rc_pass_settings){.mode = RC_PASS_TRAIN,
                              .n = n,
                              .groups = first < n ? 2 : 1,
                              .group_end = {first, n},
                              .input_gradient = true,
                              .update_running = true,
                              .running_updates = oracle_int(c, "updates")});
    train_classifier(&t, n, d);
    end(&t);
}

static void classifiers(void **state)
{
    (void)state;
    oracle_net_run("classifier/", run_classifier);
}

/* ---- nets that make images ------------------------------------------------------------------------------------ */

/* L = factor / 2 * sum (x - t)^2: writes its gradient factor * (x - t), returns its value. */
static double squared_loss(subject *s, const rc_tensor *x, void *gradient, const double *target, double factor)
{
    size_t count = (size_t)x->n * (size_t)x->h * (size_t)x->w * (size_t)x->c;
    double *values = malloc(count * sizeof *values), loss = 0;
    assert_non_null(values);
    s->be->read_act(s->be, values, x, x->raw);
    for (size_t i = 0; i < count; i++) {
        double difference = values[i] - target[i];
        loss += factor / 2 * difference * difference;
        values[i] = factor * difference;
    }
    rc_tensor to = {.n = x->n, .h = x->h, .w = x->w, .c = x->c, .raw = gradient};
    s->be->write_act(s->be, &to, values);
    free(values);
    return loss;
}

static void run_generator(subject *s)
{
    const oracle_case *c = s->c;
    rc_backend *be = s->be;
    int n = oracle_int(c, "n"), width = oracle_int(c, "width"), size = oracle_int(c, "size");
    int channels = oracle_int(c, "c"), noise = oracle_int(c, "noise");
    trainee t = {.pass = NULL};
    if (width > 0)
        subject_must(s, rc_net_generator_small(&t.net, channels, size, noise, width));
    else
        subject_must(s, rc_net_generator(&t.net, channels, size));
    t.input = subject_map_input(s, "x", n, 1, 1, noise, 1.75, 0);
    begin(&t, s, &(rc_pass_settings){.mode = RC_PASS_EVAL, .n = n});
    rc_pass_forward(t.pass, &t.model, &t.input);
    rc_tensor *image = rc_pass_finished_output(t.pass, RC_NO_LAYER);
    subject_expect_map(s, "eval", image, image->raw);
    end(&t);

    begin(&t, s, &(rc_pass_settings){.mode = RC_PASS_TRAIN, .n = n, .update_running = true});
    double *target = oracle_fill(c, "target", (size_t)n * (size_t)(size * size * channels), 1, 0);
    rc_optimiser *optimiser = new_optimiser(&t, true);
    for (int step = 0; step < oracle_int(c, "steps"); step++) {
        be->step_begin(be, t.step);
        rc_pass_forward(t.pass, &t.model, &t.input);
        image = rc_pass_finished_output(t.pass, RC_NO_LAYER);
        double loss = squared_loss(s, image, rc_pass_output_gradient(t.pass, RC_NO_LAYER), target, 0.01 / n);
        rc_pass_backward(t.pass, &t.model, t.gradient);
        expect_loss(&t, step, loss);
        if (step == 0) {
            subject_expect_map(s, "image", image, image->raw);
            expect_first_step(&t);
        }
        rc_optimiser_step(optimiser, t.step);
    }
    oracle_net_expect_moved(s, &t.model, "");
    rc_optimiser_destroy(optimiser);
    free(target);
    end(&t);
}

static void generators(void **state)
{
    (void)state;
    oracle_net_run("generator/", run_generator);
}

/* ---- the autoencoder ------------------------------------------------------------------------------------------- */

static int layer_named(const rc_net *net, const char *name)
{
    for (int i = 0; i < net->layers; i++)
        if (strcmp(net->layer[i].name, name) == 0)
            return i;
    fail_msg("net %s has no layer %s", net->name, name);
    return RC_NO_LAYER;
}

static void run_encoder(subject *s)
{
    const oracle_case *c = s->c;
    rc_backend *be = s->be;
    int n = oracle_int(c, "n"), size = oracle_int(c, "size");
    trainee t = {.pass = NULL};
    subject_must(s, rc_net_vae_encoder(&t.net, oracle_int(c, "c"), size, RC_VAE_WIDTH));
    t.input = subject_map_input(s, "x", n, size, size, oracle_int(c, "c"), 1.75, 0);
    begin(&t, s, &(rc_pass_settings){.mode = RC_PASS_TRAIN, .n = n});
    static const char *const names[2] = {"mean", "log_variance"}, *const targets[2] = {"target_mean",
                                                                                       "target_log_variance"};
    double *target[2];
    int layer[2];
    for (int i = 0; i < 2; i++) {
        target[i] = oracle_fill(c, targets[i], (size_t)n * 1024, 1, 0);
        layer[i] = layer_named(&t.net, names[i]);
    }
    rc_optimiser *optimiser = new_optimiser(&t, false);
    for (int step = 0; step < oracle_int(c, "steps"); step++) {
        be->step_begin(be, t.step);
        rc_pass_forward(t.pass, &t.model, &t.input);
        double loss = 0;
        for (int i = 0; i < 2; i++) {
            rc_tensor *out = rc_pass_finished_output(t.pass, layer[i]);
            loss += squared_loss(s, out, rc_pass_output_gradient(t.pass, layer[i]), target[i], 0.01 / n);
            if (step == 0)
                subject_expect_map(s, names[i], out, out->raw);
        }
        rc_pass_backward(t.pass, &t.model, t.gradient);
        expect_loss(&t, step, loss);
        if (step == 0)
            expect_first_step(&t);
        rc_optimiser_step(optimiser, t.step);
    }
    oracle_net_expect_moved(s, &t.model, "");
    rc_optimiser_destroy(optimiser);
    free(target[0]);
    free(target[1]);
    end(&t);
}

static void run_decoder(subject *s)
{
    const oracle_case *c = s->c;
    rc_backend *be = s->be;
    int n = oracle_int(c, "n"), size = oracle_int(c, "size"), channels = oracle_int(c, "c");
    trainee t = {.pass = NULL};
    subject_must(s, rc_net_vae_decoder(&t.net, channels, size, RC_VAE_WIDTH));
    t.input = subject_map_input(s, "x", n, 1, 1, 1024, 1.75, 0);
    rc_tensor target = subject_map_input(s, "target", n, size, size, channels, 0.5, 0.5);
    begin(&t, s, &(rc_pass_settings){.mode = RC_PASS_TRAIN, .n = n});
    subject_must(s, be->reserve_losses(be, n, 1, size, size, channels));
    void *value = subject_reals(s, NULL, 1);
    rc_optimiser *optimiser = new_optimiser(&t, false);
    for (int step = 0; step < oracle_int(c, "steps"); step++) {
        be->step_begin(be, t.step);
        rc_pass_forward(t.pass, &t.model, &t.input);
        rc_tensor *image = rc_pass_finished_output(t.pass, RC_NO_LAYER);
        rc_pass_zero_output_gradients(t.pass);
        be->loss_reconstruction(be, image, &target, NULL, t.one, value, rc_pass_output_gradient(t.pass, RC_NO_LAYER));
        rc_pass_backward(t.pass, &t.model, t.gradient);
        double loss;
        be->read_real64(be, &loss, value, 1);
        expect_loss(&t, step, loss);
        if (step == 0) {
            subject_expect_map(s, "image", image, image->raw);
            expect_first_step(&t);
        }
        rc_optimiser_step(optimiser, t.step);
    }
    oracle_net_expect_moved(s, &t.model, "");
    rc_optimiser_destroy(optimiser);
    end(&t);
}

static void autoencoder(void **state)
{
    (void)state;
    oracle_net_run("encoder/", run_encoder);
    oracle_net_run("decoder/", run_decoder);
}

int main(void)
{
    oracle_net_open("nets.txt");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classifiers),
        cmocka_unit_test(generators),
        cmocka_unit_test(autoencoder),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    oracle_net_close();
    return failed;
}
