#include "support/oracle_step.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "nn/nets.h"

void oracle_step_nets(subject *s, rc_net *classifier, rc_net *generator)
{
    const oracle_case *c = s->c;
    int size = oracle_int(c, "size"), channels = oracle_int(c, "c"), width = oracle_int(c, "width");
    if (width > 0) {
        subject_must(s, rc_net_resnet_small(classifier, channels, size, size, width, oracle_int(c, "blocks")));
        subject_must(s, rc_net_generator_small(generator, channels, size, oracle_int(c, "noise"),
                                               oracle_int(c, "generator_width")));
    } else {
        subject_must(s, rc_net_resnet32(classifier, channels, size, size));
        subject_must(s, rc_net_generator(generator, channels, size));
    }
}

void oracle_step_classifier(subject *s, rc_classifier *classifier, const rc_net *net, const char *prefix, int old,
                            int new)
{
    char name[64];
    subject_must(s, rc_classifier_create(classifier, net, s->be, old + new));
    oracle_net_fill(s, &classifier->backbone, prefix);
    subject_must(s, rc_head_grow(&classifier->head, old, (rc_rng){1, 1}));
    if (new > 0)
        subject_must(s, rc_head_grow(&classifier->head, new, (rc_rng){1, 2}));
    snprintf(name, sizeof name, "%shead.weight", prefix);
    double *rows = oracle_parameter(s->c, name, (const int[2]){old + new, classifier->head.d}, 2);
    s->be->write_real64(s->be, classifier->head.weight, rows, (size_t)(old + new) * (size_t)classifier->head.d);
    free(rows);
}

const char *const oracle_step_projection[4] = {"student.weight", "student.bias", "teacher.weight", "teacher.bias"};

size_t oracle_step_projection_count(int d, int part)
{
    return part % 2 == 0 ? 2 * (size_t)d * (size_t)d : 2 * (size_t)d;
}

void oracle_step_projections(subject *s, int d, void *reals)
{
    size_t at = 0;
    for (int i = 0; i < 4; at += oracle_step_projection_count(d, i++)) {
        char name[64];
        snprintf(name, sizeof name, "projection/%s", oracle_step_projection[i]);
        size_t count = oracle_step_projection_count(d, i);
        double *values = oracle_fill(s->c, name, count, 1 / sqrt(d), 0);
        s->be->write_real64(s->be, rc_real_at(s->be, reals, at), values, count);
        free(values);
    }
}

double *oracle_step_copy(subject *s, const void *reals, size_t count)
{
    double *copy = malloc(count * sizeof *copy);
    assert_non_null(copy);
    s->be->read_real64(s->be, copy, reals, count);
    return copy;
}

void oracle_step_expect_loss(subject *s, const char *name, const void *loss, rc_loss index, double tolerance)
{
    double value;
    s->be->read_real64(s->be, &value, rc_real_at(s->be, loss, (size_t)index), 1);
    oracle_expect(s->c, s->be->about.name, name, &value, 1, tolerance);
}

void oracle_step_expect_integers(subject *s, const char *name, const int32_t *memory, size_t count)
{
    int32_t *host = malloc(count * sizeof *host);
    double *values = malloc(count * sizeof *values);
    assert_non_null(host);
    assert_non_null(values);
    s->be->read_bytes(s->be, host, memory, count * sizeof *host);
    for (size_t i = 0; i < count; i++)
        values[i] = host[i];
    subject_expect_double(s, name, values, count);
    free(host);
    free(values);
}

void oracle_step_expect_moved(subject *s, const char *name, const void *reals, const double *begin, size_t count)
{
    double *values = malloc(count * sizeof *values);
    assert_non_null(values);
    s->be->read_real64(s->be, values, reals, count);
    for (size_t i = 0; i < count; i++)
        values[i] -= begin[i];
    oracle_expect(s->c, s->be->about.name, name, values, count, oracle_net_moved(s));
    free(values);
}

void oracle_step_expect_total(subject *s, const rc_step *control, const void *loss, int step)
{
    double values[RC_LOSS_COUNT], total = 0;
    char name[32];
    s->be->read_real64(s->be, values, loss, RC_LOSS_COUNT);
    for (int i = 0; i < RC_LOSS_COUNT; i++)
        total += (double)control->weight[i] * values[i];
    snprintf(name, sizeof name, "total-%d", step);
    oracle_expect(s->c, s->be->about.name, name, &total, 1, step == 0 ? s->tolerance : oracle_net_moved(s));
}

rc_resident_data oracle_step_data(subject *s)
{
    const oracle_case *c = s->c;
    int size = oracle_int(c, "size"), channels = oracle_int(c, "c"), n_old = oracle_int(c, "n_old");
    size_t count = (size_t)oracle_int(c, "count"), bytes = count * (size_t)(size * size * channels);
    rc_resident_data data = {.augment = {.h = size,
                                         .w = size,
                                         .c = channels,
                                         .pad = oracle_int(c, "pad"),
                                         .flip = true,
                                         .stream = RC_STREAM_AUGMENT}};
    uint32_t *bits = oracle_bits(c, "images", bytes), *order = malloc(count * sizeof *order);
    uint8_t *pixels = malloc(bytes);
    assert_non_null(order);
    assert_non_null(pixels);
    for (size_t i = 0; i < bytes; i++)
        pixels[i] = (uint8_t)(bits[i] >> 24);
    int32_t *labels = oracle_integers(c, "labels", count, (uint32_t)oracle_int(c, "n_new"));
    for (size_t i = 0; i < count; i++)
        labels[i] += n_old;
    rc_rng_permutation((rc_rng){c->seed, (uint64_t)oracle_int(c, "order")}, (uint32_t)count, order);
    double *mean = oracle_fill(c, "mean", (size_t)channels, 0.25, 0.5);
    double *std = oracle_fill(c, "std", (size_t)channels, 0.125, 0.25);
    for (int i = 0; i < channels; i++) {
        data.augment.mean[i] = (float)mean[i];
        data.augment.std[i] = (float)std[i];
    }
    void *images = subject_bytes(s, bytes), *permuted = subject_bytes(s, count * sizeof *order);
    s->be->write_bytes(s->be, images, pixels, bytes);
    s->be->write_bytes(s->be, permuted, order, count * sizeof *order);
    data.images = images;
    data.order = permuted;
    data.labels = subject_labels(s, labels, count);
    free(bits);
    free(order);
    free(pixels);
    free(labels);
    free(mean);
    free(std);
    return data;
}
