/* Scoring and evaluation. Images are normalised, neither cropped nor flipped, and scored with running statistics,
 * each independently of the others. Predictions are over all classes that the model knows. And what is counted. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "cil/evaluation.h"
#include "nn/nets.h"
#include "support/cpu_backend.h"
#include "support/failing_heap.h"
#include "support/succeeds.h"

enum { H = 8, W = 10, C = 3, IMAGE = H * W * C, COUNT = 2000, CLASSES = 7, D = 8 };

static rc_backend plain; /* as it was opened */

/* A classifier whose running statistics are not those of any batch, some images, and what it makes of each, one at a
 * time and by hand from the pass's features. */
typedef struct world {
    rc_net net;
    rc_classifier classifier;
    rc_augment normalisation;
    uint8_t *images;
    int32_t *labels;
    float *logits, *features; /* (COUNT, CLASSES), (COUNT, D) */
} world;

static void set_up_classifier(world *w)
{
    SUCCEEDS(rc_net_resnet_small(&w->net, C, H, W, 2, 1));
    SUCCEEDS(rc_classifier_create(&w->classifier, &w->net, be, CLASSES));
    SUCCEEDS(rc_model_init(&w->classifier.backbone, (rc_rng){3, 1}));
    SUCCEEDS(rc_head_grow(&w->classifier.head, 3, (rc_rng){3, 2}));
    SUCCEEDS(rc_head_grow(&w->classifier.head, CLASSES - 3, (rc_rng){3, 3}));
    assert_int_equal(w->classifier.head.d, D);
    float running[256], head[CLASSES * D];
    assert_in_range(w->net.running, 1, 256);
    for (size_t i = 0; i < w->net.running; i++)
        running[i] = 0.3f + rc_rng_uniform((rc_rng){3, 4}, i);
    be->write_real(be, w->classifier.backbone.running, running, w->net.running);
    for (int i = 0; i < CLASSES * D; i++)
        head[i] = rc_rng_uniform((rc_rng){3, 5}, (uint64_t)i) - 0.5f;
    memcpy(head + 4 * D, head + 2 * D, D * sizeof *head); /* classes 2 and 4 are always equal */
    be->write_real(be, w->classifier.head.weight, head, CLASSES * D);
}

static void one_by_one(world *w)
{
    rc_pass *pass;
    rc_tensor input;
    rc_pass_settings eval = {.mode = RC_PASS_EVAL, .n = 1};
    float head[CLASSES * D];
    double value[IMAGE];
    SUCCEEDS(rc_pass_create(be, &w->net, &eval, &pass));
    SUCCEEDS(rc_tensor_create(be, 1, H, W, C, &input));
    be->read_real(be, head, w->classifier.head.weight, CLASSES * D);
    for (int i = 0; i < COUNT; i++) {
        for (int p = 0; p < IMAGE; p++)
            value[p] = ((double)w->images[i * IMAGE + p] / 255 - (double)w->normalisation.mean[p % C]) /
                       (double)w->normalisation.std[p % C];
        be->write_act(be, &input, value);
        rc_pass_forward(pass, &w->classifier.backbone, &input);
        be->read_real(be, w->features + i * D, rc_pass_features(pass), D);
        for (int k = 0; k < CLASSES; k++) {
            double logit = 0;
            for (int j = 0; j < D; j++)
                logit += (double)head[k * D + j] * (double)w->features[i * D + j];
            w->logits[i * CLASSES + k] = (float)logit;
        }
    }
    rc_tensor_destroy(be, &input);
    rc_pass_destroy(pass);
}

static int set_up(void **state)
{
    world *w = calloc(1, sizeof *w);
    *state = w;
    if (open_backend(NULL) != 0 || w == NULL)
        return -1;
    plain = *be;
    set_up_classifier(w);
    w->normalisation = (rc_augment){.h = 1,
                                    .w = 1,
                                    .c = 1,
                                    .pad = 3,
                                    .flip = true,
                                    .zoom = 0x80000000,
                                    .colour = 0.5f,
                                    .mean = {0.4f, 0.5f, 0.6f},
                                    .std = {0.2f, 0.3f, 0.4f},
                                    .stream = 9}; /* all but mean and std is ignored */
    w->images = malloc(COUNT * IMAGE);
    w->labels = malloc(COUNT * sizeof *w->labels);
    w->logits = malloc(COUNT * CLASSES * sizeof *w->logits);
    w->features = malloc(COUNT * D * sizeof *w->features);
    for (int i = 0; i < COUNT * IMAGE; i++)
        w->images[i] = (uint8_t)(rc_rng_bits((rc_rng){3, 6}, (uint64_t)i) >> 24);
    for (int i = 0; i < COUNT; i++)
        w->labels[i] = (i * 5 + i / 7) % (CLASSES + 2);
    one_by_one(w);
    return 0;
}

static int tear_down(void **state)
{
    world *w = *state;
    rc_classifier_destroy(&w->classifier);
    free(w->images);
    free(w->labels);
    free(w->logits);
    free(w->features);
    free(w);
    return close_backend(NULL);
}

static void expect_near(const float *found, const float *expected, int count)
{
    for (int i = 0; i < count; i++)
        assert_true(fabs((double)found[i] - (double)expected[i]) < 1e-5 * (1 + fabs((double)expected[i])));
}

/* ---- scorer --------------------------------------------------------------------------------------------------- */

static void scores_are_those_of_each_image(void **state)
{
    world *w = *state;
    enum { N = 11 };
    static const int32_t index[N] = {5, 3, 3, 1099, 0, 17, 1000, 44, 2, 8, 9};
    rc_scorer *scorer;
    float logits[N * CLASSES], features[N * D], expected[N * CLASSES], expected_features[N * D];
    for (int i = 0; i < N; i++) {
        memcpy(expected + i * CLASSES, w->logits + index[i] * CLASSES, CLASSES * sizeof *logits);
        memcpy(expected_features + i * D, w->features + index[i] * D, D * sizeof *features);
    }
    for (int batch = 1; batch <= 13; batch += 4) { /* whole batches, a rest, less than one */
        SUCCEEDS(rc_scorer_create(be, &w->classifier, batch, &w->normalisation, &scorer));
        memset(logits, 0, sizeof logits);
        memset(features, 0, sizeof features);
        SUCCEEDS(rc_scorer_run(scorer, w->images, index, N, logits, features));
        expect_near(logits, expected, N * CLASSES);
        expect_near(features, expected_features, N * D);
        SUCCEEDS(rc_scorer_run(scorer, w->images, NULL, N, logits, NULL)); /* the first ones, logits alone */
        expect_near(logits, w->logits, N * CLASSES);
        SUCCEEDS(rc_scorer_run(scorer, w->images, NULL, N, NULL, features));
        expect_near(features, w->features, N * D);
        SUCCEEDS(rc_scorer_run(scorer, w->images, NULL, 0, NULL, NULL));
        rc_scorer_destroy(scorer);
    }
}

/* An image that is mirrored by hand has answers of its own; the mean of both is what a scorer says that mirrors. */
static void expect_means_of_both(world *w, const rc_classifier *classifier)
{
    enum { N = 7, BATCH = 3, MOST = N * (3 * D + D) };
    const int answers = N * classifier->head.classes, all = answers + N * D;
    uint8_t mirrored[N * IMAGE];
    float own[MOST], turned[MOST], both[MOST];
    rc_scorer *scorer;
    assert_in_range(all, 1, MOST);
    for (int i = 0; i < N * IMAGE; i++) {
        int column = i / C % W;
        mirrored[i] = w->images[i + (W - 1 - 2 * column) * C];
    }
    SUCCEEDS(rc_scorer_create(be, classifier, BATCH, &w->normalisation, &scorer));
    SUCCEEDS(rc_scorer_run(scorer, w->images, NULL, N, own, own + answers));
    SUCCEEDS(rc_scorer_run(scorer, mirrored, NULL, N, turned, turned + answers));
    assert_memory_not_equal(own, turned, (size_t)answers * sizeof *own);
    for (int i = 0; i < all; i++)
        own[i] = (own[i] + turned[i]) / 2;
    SUCCEEDS(rc_scorer_look(scorer, (rc_views){.mirror = true}));
    SUCCEEDS(rc_scorer_run(scorer, w->images, NULL, N, both, both + answers));
    assert_memory_equal(both, own, (size_t)all * sizeof *both);
    SUCCEEDS(rc_scorer_run(scorer, w->images, NULL, N, both, NULL));
    assert_memory_equal(both, own, (size_t)answers * sizeof *both);
    SUCCEEDS(rc_scorer_run(scorer, w->images, NULL, N, NULL, both + answers));
    assert_memory_equal(both, own, (size_t)all * sizeof *both);
    rc_scorer_destroy(scorer);
}

static void mirrored_scores_are_means_of_both(void **state)
{
    world *w = *state;
    rc_classifier wide; /* of more classes than features */
    expect_means_of_both(w, &w->classifier);
    SUCCEEDS(rc_classifier_create(&wide, &w->net, be, 3 * D));
    SUCCEEDS(rc_model_init(&wide.backbone, (rc_rng){3, 1}));
    SUCCEEDS(rc_head_grow(&wide.head, 3 * D, (rc_rng){3, 2}));
    expect_means_of_both(w, &wide);
    rc_classifier_destroy(&wide);
}

/* n images moved down by y and to the right by x; what comes in is nearest to the mean. */
static void move_by_hand(const float *mean, const uint8_t *from, int n, int y, int x, uint8_t *to)
{
    for (int i = 0; i < n * IMAGE; i++) {
        int row = i / (W * C) % H, column = i / C % W;
        float outside = mean[i % C] < 0 ? 0 : mean[i % C] > 1 ? 1 : mean[i % C];
        to[i] = (uint8_t)floorf(outside * 255 + 0.5f);
        if (row >= y && row < H + y && column >= x && column < W + x)
            to[i] = from[i - (y * W + x) * C];
    }
}

/* Images that are moved by hand, and what is moved of their mirror images, have answers of their own. */
static void expect_means_of_all(const world *w, const rc_augment *normalisation, bool mirror)
{
    enum { N = 7, BATCH = 3, ANSWERS = CLASSES + D, SHIFT = 2 };
    static const int moves[5][2] = {{0, 0}, {SHIFT, 0}, {-SHIFT, 0}, {0, SHIFT}, {0, -SHIFT}};
    uint8_t mirrored[N * IMAGE], moved[N * IMAGE];
    double sum[N * ANSWERS] = {0};
    float one[N * ANSWERS], all[N * ANSWERS];
    rc_scorer *scorer;
    for (int i = 0; i < N * IMAGE; i++)
        mirrored[i] = w->images[i + (W - 1 - 2 * (i / C % W)) * C];
    SUCCEEDS(rc_scorer_create(be, &w->classifier, BATCH, normalisation, &scorer));
    for (int view = 0; view < 5 * (1 + mirror); view++) {
        const uint8_t *from = view < 5 ? w->images : mirrored;
        move_by_hand(normalisation->mean, from, N, moves[view % 5][0], moves[view % 5][1], moved);
        SUCCEEDS(rc_scorer_run(scorer, moved, NULL, N, one, one + N * CLASSES));
        for (int i = 0; i < N * ANSWERS; i++)
            sum[i] += (double)one[i];
    }
    SUCCEEDS(rc_scorer_look(scorer, (rc_views){.mirror = mirror, .shift = SHIFT}));
    SUCCEEDS(rc_scorer_run(scorer, w->images, NULL, N, all, all + N * CLASSES));
    for (int i = 0; i < N * ANSWERS; i++) {
        double wanted = sum[i] / (5 * (1 + mirror));
        assert_true(fabs((double)all[i] - wanted) <= 1e-5 * (1 + fabs(wanted)));
    }
    SUCCEEDS(rc_scorer_look(scorer, (rc_views){0})); /* and as they are again */
    SUCCEEDS(rc_scorer_run(scorer, moved, NULL, N, all, all + N * CLASSES));
    assert_memory_equal(all, one, sizeof all);
    rc_scorer_destroy(scorer);
}

static void shifted_scores_are_means_of_all(void **state)
{
    world *w = *state;
    rc_augment strange = w->normalisation; /* a file may say anything */
    strange.mean[0] = -0.3f;
    strange.mean[2] = 1.4f;
    for (int mirror = 0; mirror < 2; mirror++) {
        expect_means_of_all(w, &w->normalisation, mirror);
        expect_means_of_all(w, &strange, mirror);
    }
}

/* However often a scorer is told what to look at; and if there is none, it says so. */
static void views_take_memory_once(void **state)
{
    world *w = *state;
    int nth = 0;
    size_t before = rc_bytes_allocated();
    for (bool fails = true; fails; nth++) {
        rc_scorer *scorer;
        SUCCEEDS(rc_scorer_create(be, &w->classifier, 3, &w->normalisation, &scorer));
        uint64_t blocks = rc_allocation_count();
        SUCCEEDS(rc_scorer_look(scorer, (rc_views){0})); /* takes none */
        assert_int_equal(rc_allocation_count(), blocks);
        allocation_to_fail = nth + 1;
        rc_status status = rc_scorer_look(scorer, (rc_views){.shift = 1});
        fails = allocation_failed();
        assert_int_equal(status, fails ? RC_OUT_OF_MEMORY : RC_OK);
        SUCCEEDS(rc_scorer_look(scorer, (rc_views){.mirror = true}));
        size_t held = rc_bytes_allocated();
        SUCCEEDS(rc_scorer_look(scorer, (rc_views){.mirror = true, .shift = 1}));
        assert_int_equal(rc_bytes_allocated(), held);
        rc_scorer_destroy(scorer);
        assert_int_equal(rc_bytes_allocated(), before);
    }
    assert_int_equal(nth, 3);
}

static void scorers_that_cannot_be_are_refused(void **state)
{
    world *w = *state;
    rc_scorer *scorer = (rc_scorer *)w;
    assert_int_equal(rc_scorer_create(be, &w->classifier, 0, &w->normalisation, &scorer), RC_INVALID_ARGUMENT);
    assert_string_equal(rc_message(), "cannot score batches of 0 images over 7 classes");
    assert_null(scorer);
    rc_classifier empty;
    SUCCEEDS(rc_classifier_create(&empty, &w->net, be, 4));
    assert_int_equal(rc_scorer_create(be, &empty, 2, &w->normalisation, &scorer), RC_INVALID_ARGUMENT);
    assert_string_equal(rc_message(), "cannot score batches of 2 images over 0 classes");
    rc_classifier_destroy(&empty);
    rc_scorer_destroy(NULL);
}

/* Wherever among the answers it is; without logits nobody looks. */
static void answers_that_are_no_numbers_are_refused(void **state)
{
    world *w = *state;
    rc_scorer *scorer;
    float logits[5 * CLASSES], features[5 * D], good;
    const float bad = NAN;
    void *row = rc_real_at(be, w->classifier.head.weight, 6 * D + 2);
    SUCCEEDS(rc_scorer_create(be, &w->classifier, 2, &w->normalisation, &scorer));
    be->read_real(be, &good, row, 1);
    be->write_real(be, row, &bad, 1);
    assert_int_equal(rc_scorer_run(scorer, w->images, NULL, 5, logits, NULL), RC_NUMERIC);
    assert_non_null(strstr(rc_message(), "the model gives an image nan for class 6, expected a finite number"));
    SUCCEEDS(rc_scorer_run(scorer, w->images, NULL, 5, NULL, features));
    be->write_real(be, row, &good, 1);
    SUCCEEDS(rc_scorer_run(scorer, w->images, NULL, 5, logits, NULL));
    rc_scorer_destroy(scorer);
}

/* ---- what a scorer does on its backend ------------------------------------------------------------------------- */

static const void *written; /* the last thing that was sent */
static int pooled[4], pools, syncs_to_go;

static void seen_write(rc_backend *b, void *to, const void *from, size_t bytes)
{
    written = to;
    plain.write_bytes(b, to, from, bytes);
}

/* The images are those that were sent, not the host's copy of them. */
static void seen_augment(rc_backend *b, const rc_augment *augment, const uint8_t *images, const int32_t *order, int n,
                         const rc_step *step, rc_tensor *out)
{
    assert_ptr_equal(images, written);
    assert_true(out->n == n && out->groups == 1 && out->group_end[0] == n);
    assert_true(out->h == H && out->w == W && out->c == C);
    plain.augment(b, augment, images, order, n, step, out);
}

static void seen_pool(rc_backend *b, rc_tensor *x, void *features)
{
    assert_in_range(pools, 0, 3);
    pooled[pools++] = x->n;
    plain.average_pool_forward(b, x, features);
}

static void infinite_end(rc_backend *b, float *to, const void *from, size_t count)
{
    plain.read_real(b, to, from, count);
    to[count - 1] = INFINITY;
}

static void infinite_begin(rc_backend *b, float *to, const void *from, size_t count)
{
    plain.read_real(b, to, from, count);
    to[0] = INFINITY;
}

static rc_status failing_reserve(rc_backend *b, int n, int in, int out)
{
    (void)b, (void)n, (void)in, (void)out;
    return rc_fail(RC_INTERNAL, "no room");
}

static rc_status failing_sync(rc_backend *b)
{
    return --syncs_to_go == 0 ? rc_fail(RC_INTERNAL, "the device is gone") : plain.sync(b);
}

/* What is left over is no whole batch, and is not computed as one. */
static void a_last_batch_is_as_small_as_it_is(void **state)
{
    world *w = *state;
    rc_scorer *scorer;
    float logits[6 * CLASSES];
    SUCCEEDS(rc_scorer_create(be, &w->classifier, 4, &w->normalisation, &scorer));
    be->write_bytes = seen_write;
    be->augment = seen_augment;
    be->average_pool_forward = seen_pool;
    pools = 0;
    rc_status status = rc_scorer_run(scorer, w->images, NULL, 6, logits, NULL);
    *be = plain;
    SUCCEEDS(status);
    assert_true(pools == 2 && pooled[0] == 4 && pooled[1] == 2);
    be->read_real = infinite_end; /* the answer for the last image of a batch */
    status = rc_scorer_run(scorer, w->images, NULL, 4, logits, NULL);
    *be = plain;
    assert_int_equal(status, RC_NUMERIC);
    assert_non_null(strstr(rc_message(), "inf for class 6"));
    be->read_real = infinite_begin; /* that for the first */
    status = rc_scorer_run(scorer, w->images, NULL, 4, logits, NULL);
    *be = plain;
    assert_int_equal(status, RC_NUMERIC);
    rc_scorer_destroy(scorer);
}

static void a_backend_that_fails_is_told(void **state)
{
    world *w = *state;
    float logits[6 * CLASSES];
    int nth = 0;
    *be = plain;
    be->reserve_dense = failing_reserve;
    rc_scorer *none;
    rc_status refused = rc_scorer_create(be, &w->classifier, 4, &w->normalisation, &none);
    *be = plain;
    assert_int_equal(refused, RC_INTERNAL);
    assert_null(none);
    be->sync = failing_sync;
    for (bool failed = true; failed; nth++) {
        rc_scorer *scorer;
        syncs_to_go = nth + 1;
        rc_status status = rc_scorer_create(be, &w->classifier, 4, &w->normalisation, &scorer);
        if (status == RC_OK)
            status = rc_scorer_look(scorer, (rc_views){.mirror = true});
        if (status == RC_OK)
            status = rc_scorer_run(scorer, w->images, NULL, 6, logits, NULL);
        failed = syncs_to_go <= 0;
        rc_scorer_destroy(scorer);
        assert_int_equal(status, failed ? RC_INTERNAL : RC_OK);
    }
    *be = plain;
    assert_true(nth > 5); /* one when it is made, two a batch */
}

/* One class is a model too, and one image a batch. */
static void the_smallest_scorer(void **state)
{
    world *w = *state;
    rc_scorer *scorer;
    rc_classifier one;
    float logit;
    SUCCEEDS(rc_classifier_create(&one, &w->net, be, 1));
    SUCCEEDS(rc_model_init(&one.backbone, (rc_rng){3, 1}));
    SUCCEEDS(rc_head_grow(&one.head, 1, (rc_rng){3, 2}));
    SUCCEEDS(rc_scorer_create(be, &one, 1, &w->normalisation, &scorer));
    SUCCEEDS(rc_scorer_run(scorer, w->images, NULL, 1, &logit, NULL));
    rc_scorer_destroy(scorer);
    rc_classifier_destroy(&one);
}

/* Whoever only counts takes no memory for images. */
static void a_scorer_that_is_counted_takes_nothing(void **state)
{
    world *w = *state;
    rc_backend *sizing;
    rc_classifier counted;
    rc_scorer *scorer;
    SUCCEEDS(rc_backend_open_sizing(be, &sizing));
    SUCCEEDS(rc_classifier_create(&counted, &w->net, sizing, 2));
    SUCCEEDS(rc_head_grow(&counted.head, 2, (rc_rng){3, 2}));
    size_t before = rc_bytes_allocated();
    SUCCEEDS(rc_scorer_create(sizing, &counted, 4096, &w->normalisation, &scorer));
    assert_true(rc_bytes_allocated() - before < 4096 * IMAGE);
    rc_scorer_destroy(scorer);
    rc_classifier_destroy(&counted);
    rc_backend_close(sizing);
}

/* ---- evaluation ----------------------------------------------------------------------------------------------- */

/* The stream has two classes more than the model knows; its labels are another order of the data's classes. */
static void set_up_stream(rc_task_stream *stream, int order[CLASSES + 2])
{
    rc_task_split split = {.sizes = 2, .size = {3, CLASSES - 1}};
    for (int i = 0; i < CLASSES + 2; i++)
        order[i] = (i * 4 + 2) % (CLASSES + 2);
    SUCCEEDS(rc_task_stream_create(stream, CLASSES + 2, order, &split));
}

static const rc_evaluation nothing;

static void every_image_of_a_known_class_is_counted(void **state)
{
    world *w = *state;
    int order[CLASSES + 2], position[CLASSES + 2], confusion[CLASSES][CLASSES] = {{0}}, top5[CLASSES] = {0}, all = 0;
    rc_task_stream stream;
    rc_evaluation e;
    rc_split test = {.images = w->images, .labels = w->labels, .count = COUNT};
    static int8_t right[COUNT];
    set_up_stream(&stream, order);
    for (int i = 0; i < CLASSES + 2; i++)
        position[order[i]] = i;
    for (int i = 0; i < COUNT; i++) {
        int label = position[w->labels[i]], best = 0, ahead = 0;
        const float *logits = w->logits + i * CLASSES;
        right[i] = -1;
        if (label >= CLASSES)
            continue;
        for (int k = 1; k < CLASSES; k++)
            best = logits[k] > logits[best] ? k : best; /* the first of equals */
        for (int k = 0; k < CLASSES; k++) {
            bool equal = (k == 2 && label == 4) || (k == 4 && label == 2);
            ahead += equal ? k < label : logits[k] > logits[label];
        }
        confusion[label][best]++;
        right[i] = best == label;
        top5[label] += ahead < 5;
        all++;
    }
    assert_true(all > 1024); /* more than are scored in one go */
    SUCCEEDS(rc_evaluate(be, &w->classifier, &w->normalisation, &stream, &test, 64, NULL, &e));
    rc_evaluation_destroy(&e);
    size_t before = rc_bytes_allocated(); /* workspace of the backend has grown, and stays */
    SUCCEEDS(rc_evaluate(be, &w->classifier, &w->normalisation, &stream, &test, 64, NULL, &e));
    assert_int_equal(e.classes, CLASSES);
    int counted = 0, in_top5 = 0;
    for (int i = 0; i < CLASSES; i++) {
        for (int k = 0; k < CLASSES; k++) {
            assert_int_equal(e.confusion[i * CLASSES + k], confusion[i][k]);
            counted += confusion[i][k];
        }
        assert_int_equal(e.top5[i], top5[i]);
        in_top5 += top5[i];
    }
    assert_true(counted == all && all < COUNT && in_top5 < all);
    assert_memory_equal(e.right, right, COUNT);
    rc_evaluation_destroy(&e);
    assert_memory_equal(&e, &nothing, sizeof e);
    assert_int_equal(rc_bytes_allocated(), before);
    rc_task_stream_destroy(&stream);
}

/* Some of the images that a model is right about are others with their mirror images. */
static void evaluation_looks_at_views(void **state)
{
    world *w = *state;
    enum { N = 300 };
    rc_task_split split = {.sizes = 1, .size = {CLASSES + 2}};
    const rc_scoring scoring = {.views = {.mirror = true}};
    rc_split test = {.images = w->images, .labels = w->labels, .count = N};
    rc_task_stream stream;
    rc_scorer *scorer;
    rc_evaluation plainly, e;
    static float logits[N * CLASSES];
    SUCCEEDS(rc_task_stream_create(&stream, CLASSES + 2, NULL, &split));
    SUCCEEDS(rc_evaluate(be, &w->classifier, &w->normalisation, &stream, &test, 64, NULL, &plainly));
    SUCCEEDS(rc_evaluate(be, &w->classifier, &w->normalisation, &stream, &test, 64, &scoring, &e));
    assert_memory_not_equal(e.right, plainly.right, N);
    SUCCEEDS(rc_scorer_create(be, &w->classifier, 64, &w->normalisation, &scorer));
    SUCCEEDS(rc_scorer_look(scorer, scoring.views));
    SUCCEEDS(rc_scorer_run(scorer, w->images, NULL, N, logits, NULL));
    for (int i = 0; i < N; i++) {
        int best = 0;
        for (int k = 1; k < CLASSES; k++)
            best = logits[i * CLASSES + k] > logits[i * CLASSES + best] ? k : best;
        assert_int_equal(e.right[i], w->labels[i] < CLASSES ? best == w->labels[i] : -1);
    }
    rc_scorer_destroy(scorer);
    rc_evaluation_destroy(&plainly);
    rc_evaluation_destroy(&e);
    rc_task_stream_destroy(&stream);
}

static void a_model_of_more_classes_than_the_data_is_refused(void **state)
{
    world *w = *state;
    rc_task_split split = {.sizes = 1, .size = {CLASSES - 1}};
    rc_task_stream stream;
    rc_evaluation e;
    rc_split test = {.images = w->images, .labels = w->labels, .count = 0};
    SUCCEEDS(rc_task_stream_create(&stream, CLASSES - 1, NULL, &split));
    memset(&e, 0xFF, sizeof e);
    assert_int_equal(rc_evaluate(be, &w->classifier, &w->normalisation, &stream, &test, 64, NULL, &e),
                     RC_INVALID_ARGUMENT);
    assert_string_equal(rc_message(), "the classifier knows 7 classes, the data has 6");
    assert_memory_equal(&e, &nothing, sizeof e);
    rc_task_stream_destroy(&stream);
    split.size[0] = CLASSES; /* just as many */
    SUCCEEDS(rc_task_stream_create(&stream, CLASSES, NULL, &split));
    SUCCEEDS(rc_evaluate(be, &w->classifier, &w->normalisation, &stream, &test, 64, NULL, &e));
    assert_true(isnan(rc_accuracy(&e, 0, CLASSES)));
    rc_evaluation_destroy(&e);
    rc_task_stream_destroy(&stream);
}

static rc_status (*reserve)(rc_backend *, int, int, int);
static int reserved;

static rc_status seen_reserve(rc_backend *b, int n, int in, int out)
{
    assert_true(in == D && out == CLASSES);
    reserved = n;
    return reserve(b, n, in, out);
}

/* Few images make a small batch, none a batch of one. */
static void no_batch_is_larger_than_it_must_be(void **state)
{
    world *w = *state;
    int order[CLASSES + 2];
    rc_task_stream stream;
    rc_evaluation e;
    set_up_stream(&stream, order);
    reserve = be->reserve_dense;
    be->reserve_dense = seen_reserve;
    for (int known = 0; known < 8; known++) {
        int32_t labels[7] = {order[0], order[3], order[2], order[1], order[5], order[4], order[6]};
        rc_split test = {.images = w->images, .labels = labels, .count = known};
        SUCCEEDS(rc_evaluate(be, &w->classifier, &w->normalisation, &stream, &test, 5, NULL, &e));
        assert_int_equal(reserved, known < 1 ? 1 : known < 5 ? known : 5);
        rc_evaluation_destroy(&e);
    }
    be->reserve_dense = reserve;
    rc_task_stream_destroy(&stream);
}

typedef struct onlooker {
    int calls, done, total;
    bool stop;
} onlooker;

static bool look_on(void *user, const char *what, int done, int total)
{
    onlooker *o = user;
    assert_string_equal(what, "scoring images");
    *o = (onlooker){o->calls + 1, done, total, o->stop};
    return !o->stop;
}

/* Who looks on hears of the last image in any case, and can stop it there, too. */
static void an_onlooker_is_told_and_can_stop(void **state)
{
    world *w = *state;
    int order[CLASSES + 2];
    rc_task_stream stream;
    rc_evaluation e;
    onlooker o = {0};
    const rc_scoring scoring = {.progress = look_on, .user = &o};
    set_up_stream(&stream, order);
    int32_t labels[6] = {order[0], order[3], order[2], order[1], order[5], order[4]};
    rc_split test = {.images = w->images, .labels = labels, .count = 6};
    SUCCEEDS(rc_evaluate(be, &w->classifier, &w->normalisation, &stream, &test, 4, &scoring, &e));
    assert_true(o.calls >= 1 && o.calls <= 2 && o.done == 6 && o.total == 6);
    rc_evaluation_destroy(&e);
    o.stop = true;
    size_t before = rc_bytes_allocated();
    assert_int_equal(rc_evaluate(be, &w->classifier, &w->normalisation, &stream, &test, 4, &scoring, &e), RC_CANCELLED);
    assert_true(strstr(rc_message(), "stopped after") != NULL && strstr(rc_message(), "of 6 images") != NULL);
    assert_memory_equal(&e, &nothing, sizeof e);
    assert_int_equal(rc_bytes_allocated(), before);
    rc_task_stream_destroy(&stream);
}

/* What fails is told also where nothing would have been scored, and leaves nothing. */
static void failures_without_images_are_told(void **state)
{
    world *w = *state;
    rc_task_split split = {.sizes = 1, .size = {CLASSES}};
    rc_task_stream stream;
    rc_evaluation e;
    rc_classifier c;
    rc_split test = {.images = w->images, .labels = w->labels, .count = 0};
    SUCCEEDS(rc_task_stream_create(&stream, CLASSES, NULL, &split));
    SUCCEEDS(rc_classifier_create(&c, &w->net, be, CLASSES));
    size_t before = rc_bytes_allocated();
    assert_int_equal(rc_evaluate(be, &c, &w->normalisation, &stream, &test, 5, NULL, &e), RC_INVALID_ARGUMENT);
    assert_string_equal(rc_message(), "cannot score batches of 1 images over 0 classes");
    assert_memory_equal(&e, &nothing, sizeof e);
    assert_int_equal(rc_bytes_allocated(), before);
    rc_classifier_destroy(&c);
    int32_t known[3] = {0, 1, 2};
    test.labels = known;
    for (test.count = 0; test.count <= 3; test.count += 3) { /* and where something would have been */
        int nth = 0;
        for (bool fails = true; fails; nth++) {
            before = rc_bytes_allocated();
            allocation_to_fail = nth + 1;
            rc_status status = rc_evaluate(be, &w->classifier, &w->normalisation, &stream, &test, 5, NULL, &e);
            fails = allocation_failed();
            assert_int_equal(status, fails ? RC_OUT_OF_MEMORY : RC_OK);
            assert_true(!fails || (memcmp(&e, &nothing, sizeof e) == 0 && rc_bytes_allocated() == before));
        }
        assert_true(nth > 5);
        rc_evaluation_destroy(&e);
    }
    rc_task_stream_destroy(&stream);
}

static void accuracies_are_shares_of_rows(void **state)
{
    (void)state;
    int32_t confusion[9] = {3, 1, 0, 2, 5, 3, 0, 0, 0}, top5[3] = {4, 7, 0};
    rc_evaluation e = {.classes = 3, .confusion = confusion, .top5 = top5};
    assert_true(rc_accuracy(&e, 0, 1) == 75);
    assert_true(rc_accuracy(&e, 1, 2) == 50);
    assert_true(fabs(rc_accuracy(&e, 0, 3) - 100 * 8 / 14.0) < 1e-12);
    assert_true(rc_accuracy_top5(&e, 0, 1) == 100);
    assert_true(rc_accuracy_top5(&e, 1, 2) == 70);
    assert_true(fabs(rc_accuracy_top5(&e, 0, 3) - 100 * 11 / 14.0) < 1e-12);
    assert_true(isnan(rc_accuracy(&e, 2, 3)) && isnan(rc_accuracy_top5(&e, 2, 3)) && isnan(rc_accuracy(&e, 1, 1)));
    int32_t one[1] = {1};
    rc_evaluation single = {.classes = 1, .confusion = one, .top5 = one};
    assert_true(rc_accuracy(&single, 0, 1) == 100 && rc_accuracy_top5(&single, 0, 1) == 100);
}

/* R[i][j] with rows of four: BWT = mean (R[last][j] - R[j][j]), forgetting = mean (best - R[last][j]), both over the
 * tasks before the last. */
static void transfer_and_forgetting_by_hand(void **state)
{
    (void)state;
    static const double r[] = {90, 95, 97, -1, 70, 80, 0, -1, 75, 50, 60, -1};
    assert_true(fabs(rc_backward_transfer(r, 4, 3) - (75 - 90 + 50 - 80) / 2.0) < 1e-12);
    assert_true(fabs(rc_forgetting(r, 4, 3) - (90 - 75 + 80 - 50) / 2.0) < 1e-12);
    assert_true(fabs(rc_backward_transfer(r, 4, 2) - (70 - 90)) < 1e-12);
    assert_true(fabs(rc_forgetting(r, 4, 2) - 20) < 1e-12);
    assert_true(isnan(rc_backward_transfer(r, 4, 1)) && isnan(rc_forgetting(r, 4, 1)));
    static const double unknown[] = {90, 0, 80, NAN}; /* a last task without images has nothing to forget */
    assert_true(rc_forgetting(unknown, 2, 2) == 10 && rc_backward_transfer(unknown, 2, 2) == -10);
    static const double beyond[] = {10, 0, 5, 0, 90, 0}; /* a row of a task that has not been yet */
    assert_true(rc_forgetting(beyond, 2, 2) == 5);
    static const double grows[] = {10, 0, 99, 40, 20, 0, 30, 25, 60}; /* best between; best last */
    assert_true(fabs(rc_forgetting(grows, 3, 3) - (40 - 30 + 0) / 2.0) < 1e-12);
    assert_true(fabs(rc_backward_transfer(grows, 3, 3) - (20 + 5) / 2.0) < 1e-12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_are_those_of_each_image),
        cmocka_unit_test(mirrored_scores_are_means_of_both),
        cmocka_unit_test(shifted_scores_are_means_of_all),
        cmocka_unit_test(views_take_memory_once),
        cmocka_unit_test(scorers_that_cannot_be_are_refused),
        cmocka_unit_test(a_last_batch_is_as_small_as_it_is),
        cmocka_unit_test(a_backend_that_fails_is_told),
        cmocka_unit_test(the_smallest_scorer),
        cmocka_unit_test(a_scorer_that_is_counted_takes_nothing),
        cmocka_unit_test(answers_that_are_no_numbers_are_refused),
        cmocka_unit_test(every_image_of_a_known_class_is_counted),
        cmocka_unit_test(evaluation_looks_at_views),
        cmocka_unit_test(a_model_of_more_classes_than_the_data_is_refused),
        cmocka_unit_test(no_batch_is_larger_than_it_must_be),
        cmocka_unit_test(an_onlooker_is_told_and_can_stop),
        cmocka_unit_test(failures_without_images_are_told),
        cmocka_unit_test(accuracies_are_shares_of_rows),
        cmocka_unit_test(transfer_and_forgetting_by_hand),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
