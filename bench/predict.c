/* How long a net takes for an image on one thread, forward alone: docs/performance.md. bench/predict_peer.py compiles
 * it and compares.
 *
 *     cc -O2 -std=c11 -D_GNU_SOURCE -Isrc -Iinclude bench/predict.c build/release/lib/librecollect.a LIBRARIES \
 *         -o predict
 *     ./predict NET SIZE BATCH ROUNDS
 *
 * Weights and images are random, the head has 1000 classes. Prints the median of the rounds, wall clock and processor
 * time, in milliseconds an image. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "nn/nets.h"
#include "nn/pass.h"

enum { MOST_ROUNDS = 1000, CLASSES = 1000 };

static void check(rc_status status)
{
    if (status == RC_OK)
        return;
    fprintf(stderr, "predict: %s\n", rc_message());
    exit(1);
}

static double now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    static rc_net net;
    static double wall[MOST_ROUNDS], work[MOST_ROUNDS];
    int size = argc == 5 ? atoi(argv[2]) : 0, batch = argc == 5 ? atoi(argv[3]) : 0;
    int rounds = argc == 5 ? atoi(argv[4]) : 0;
    if (size < 1 || batch < 1 || rounds < 1 || rounds > MOST_ROUNDS) {
        fprintf(stderr, "usage: predict NET SIZE BATCH ROUNDS\n");
        return 2;
    }
    rc_backend *be;
    rc_model model = {0};
    rc_pass *pass;
    rc_tensor input;
    const rc_pass_settings settings = {.mode = RC_PASS_EVAL, .n = batch};
    check(rc_net_by_name(&net, argv[1], 3, size, size));
    check(rc_backend_open("cpu", 1, NULL, &be));
    check(rc_model_create(&model, &net, be));
    check(rc_model_init(&model, (rc_rng){1, 1}));
    check(rc_pass_create(be, &net, &settings, &pass));
    check(rc_tensor_create(be, batch, size, size, 3, &input));
    int d = net.layer[net.layers - 1].c_out;
    void *head, *logits;
    check(be->reserve_dense(be, batch, d, CLASSES));
    check(be->alloc(be, (size_t)(d + 1) * CLASSES * be->real_bytes, &head)); /* weights, then the bias */
    check(be->alloc(be, (size_t)batch * CLASSES * be->real_bytes, &logits));
    be->random_normal(be, 2, &(rc_step){.seed = 1}, &input);
    for (int i = -1; i < rounds; i++) {
        double began = now(CLOCK_MONOTONIC), worked = now(CLOCK_PROCESS_CPUTIME_ID);
        rc_pass_forward(pass, &model, &input);
        be->dense_forward(be, batch, d, CLASSES, rc_pass_features(pass), head,
                          rc_real_at(be, head, (size_t)d * CLASSES), logits, CLASSES);
        check(be->sync(be));
        if (i < 0)
            continue; /* the first is to warm up */
        wall[i] = (now(CLOCK_MONOTONIC) - began) / batch;
        work[i] = (now(CLOCK_PROCESS_CPUTIME_ID) - worked) / batch;
    }
    qsort(wall, (size_t)rounds, sizeof *wall, ascending);
    qsort(work, (size_t)rounds, sizeof *work, ascending);
    printf("%.3f %.3f\n", wall[rounds / 2], work[rounds / 2]);
    be->release(be, head);
    be->release(be, logits);
    rc_pass_destroy(pass);
    rc_tensor_destroy(be, &input);
    rc_model_destroy(&model);
    rc_backend_close(be);
    return 0;
}
