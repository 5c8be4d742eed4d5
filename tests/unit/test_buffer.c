/* The buffer of ER and LODE: it holds every item of the stream with the same probability, slots and draws equal those
 * of a plain simulation that copies images, and working out an epoch a second time gives the same. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/rng.h"
#include "cil/buffer.h"
#include "cil/step_training.h"
#include "cil/task_stream.h"
#include "support/failing_heap.h"
#include "support/succeeds.h"

enum { IMAGE = 6, MOST = 4096 };

static rc_backend *be;

static int open_backend(void **state)
{
    (void)state;
    return rc_backend_open("reference", 1, NULL, &be) == RC_OK ? 0 : -1;
}

static int close_backend(void **state)
{
    (void)state;
    rc_backend_close(be);
    return 0;
}

/* ---- the plain simulation ------------------------------------------------------------------------------------- */

/* A buffer as one would write it at first: images are copied as they come. */
typedef struct plain {
    int capacity, held;
    uint64_t seed, offered, step;
    uint8_t image[MOST][IMAGE];
    int32_t label[MOST];
} plain;

/* A draw takes 64 bits: elements 2 draw (high) and 2 draw + 1 of the stream. */
static uint32_t below(rc_rng rng, uint64_t draw, uint32_t n)
{
    double bits = (double)rc_rng_bits(rng, 2 * draw) * 0x1p-32 + (double)rc_rng_bits(rng, 2 * draw + 1) * 0x1p-64;
    return (uint32_t)floor(bits * n);
}

static void plain_offer(plain *p, const uint8_t *image, int32_t label)
{
    uint64_t t = p->offered++;
    uint32_t slot = t < (uint64_t)p->capacity ? (uint32_t)p->held++
                                              : below((rc_rng){p->seed, RC_STREAM_RESERVOIR}, t, (uint32_t)t + 1);
    if (slot >= (uint32_t)p->capacity)
        return;
    memcpy(p->image[slot], image, IMAGE);
    p->label[slot] = label;
}

/* Slots in the order of a shuffle, of which the first ones are taken. */
static int plain_draw(const plain *p, uint32_t task, int minibatch, int *slot)
{
    static int all[MOST];
    rc_rng rng = {p->seed, (uint64_t)task << 32 | RC_STREAM_REPLAY};
    for (int i = 0; i < p->held; i++)
        all[i] = i;
    for (int i = 0; i < p->held && i < minibatch; i++) {
        uint64_t draw = p->step * (uint64_t)minibatch + (uint64_t)i;
        int j = i + (int)below(rng, draw, (uint32_t)(p->held - i)), kept = all[i];
        slot[i] = all[j];
        all[j] = kept;
    }
    return p->held;
}

/* ---- a stream ------------------------------------------------------------------------------------------------- */

/* The task's pool, as the learner makes it: its images, then those of the buffer. */
typedef struct pool {
    int images;
    uint8_t *image;
    int32_t *label;
} pool;

static pool make_pool(const rc_image_buffer *b, int task, int images)
{
    size_t all = (size_t)images + (size_t)b->held;
    pool p = {images, calloc(all, IMAGE), calloc(all, sizeof *p.label)};
    for (int i = 0; i < images; i++) {
        p.label[i] = 1000 * task + i % 10; /* more than a byte holds */
        for (int k = 0; k < IMAGE; k++)
            p.image[i * IMAGE + k] = (uint8_t)rc_rng_bits((rc_rng){77, (uint64_t)task}, (uint64_t)(i * IMAGE + k));
    }
    if (b->held > 0) {
        memcpy(p.image + (size_t)images * IMAGE, b->images, (size_t)b->held * IMAGE);
        memcpy(p.label + images, b->labels, (size_t)b->held * sizeof *b->labels);
    }
    return p;
}

static void drop_pool(pool p)
{
    free(p.image);
    free(p.label);
}

/* One task, both ways, comparing what every step replays. */
static void same_task(rc_image_buffer *b, plain *p, int task, int images, int batch, int minibatch, int epochs)
{
    int batches = rc_epoch_batches(images, batch);
    int32_t *order = calloc((size_t)(batches * batch), sizeof *order);
    int32_t *places = calloc((size_t)(batches * minibatch), sizeof *places);
    uint32_t *scratch = calloc((size_t)images, sizeof *scratch);
    int *slot = calloc((size_t)minibatch, sizeof *slot);
    pool data = make_pool(b, task, images);
    rc_buffer_task plan = {.seed = p->seed,
                           .task = task,
                           .images = images,
                           .batch = batch,
                           .minibatch = minibatch,
                           .epochs = epochs,
                           .offer = true};
    SUCCEEDS(rc_buffer_begin_task(b, &plan));
    p->step = 0;
    for (int epoch = 0; epoch < epochs; epoch++) {
        rc_epoch_order(p->seed, task, epoch, images, batch, order, scratch);
        rc_buffer_draw(b, epoch, places);
        for (int s = 0; s < batches; s++, p->step++) {
            int held = plain_draw(p, (uint32_t)task, minibatch, slot);
            for (int i = 0; i < minibatch; i++) {
                int place = places[s * minibatch + i];
                int32_t none = order[s * batch + i % batch], drawn = held > 0 ? slot[i % held] : 0;
                assert_memory_equal(data.image + place * IMAGE, held > 0 ? p->image[drawn] : data.image + none * IMAGE,
                                    IMAGE);
                assert_int_equal(data.label[place], held > 0 ? p->label[drawn] : data.label[none]);
            }
            for (int i = 0; i < batch; i++)
                plain_offer(p, data.image + order[s * batch + i] * IMAGE, data.label[order[s * batch + i]]);
        }
    }
    rc_buffer_commit(b, be, data.image, data.label);
    drop_pool(data);
    free(order);
    free(places);
    free(scratch);
    free(slot);
}

static void same_stream(int capacity, int batch, int minibatch, uint64_t seed)
{
    static plain p;
    rc_image_buffer b;
    p = (plain){.capacity = capacity, .seed = seed};
    rc_buffer_init(&b, capacity, IMAGE);
    static const int images[] = {90, 41, 7, 64};
    for (int task = 0; task < 4; task++) {
        same_task(&b, &p, task, images[task], batch, minibatch, 3);
        assert_int_equal(b.held, p.held);
        assert_int_equal(b.offered, p.offered);
        assert_memory_equal(b.images, p.image, (size_t)p.held * IMAGE);
        assert_memory_equal(b.labels, p.label, (size_t)p.held * sizeof *p.label);
    }
    rc_buffer_destroy(&b);
}

static void contents_and_draws_are_those_of_a_plain_simulation(void **state)
{
    (void)state;
    same_stream(20, 8, 8, 1);
    same_stream(64, 8, 32, 2); /* fills slowly: the first minibatches repeat what there is */
    same_stream(5, 16, 16, 3); /* smaller than a minibatch */
    same_stream(1, 4, 3, 4);
    same_stream(2000, 10, 4, 5); /* larger than the stream */
}

/* ---- probabilities -------------------------------------------------------------------------------------------- */

/* When in the epoch an image came. */
static int item_of(const rc_image_buffer *b, int32_t image)
{
    int item = 0;
    while (b->order[item] != image)
        item++;
    return item;
}

/* How often each of n items of one epoch is held, over many seeds: chi-square of the counts. Every count has the
 * variance T p (1 - p), and they sum to T capacity, which makes n - 1 degrees of freedom of n / (n - 1) times that. */
static void every_item_is_held_with_the_same_probability(void **state)
{
    (void)state;
    enum { ITEMS = 100, CAPACITY = 20, SEEDS = 1500 };
    int32_t places[ITEMS];
    int count[ITEMS] = {0};
    rc_image_buffer b;
    rc_buffer_init(&b, CAPACITY, 1);
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        rc_buffer_task plan = {.seed = seed, .images = ITEMS, .batch = 10, .minibatch = 10, .epochs = 1, .offer = true};
        SUCCEEDS(rc_buffer_begin_task(&b, &plan));
        rc_buffer_draw(&b, 0, places);
        assert_int_equal(b.task_held, CAPACITY);
        for (int i = 0; i < CAPACITY; i++)
            count[item_of(&b, b.slot[i])]++;
    }
    rc_buffer_destroy(&b);
    double p = (double)CAPACITY / ITEMS, expected = SEEDS * p, chi2 = 0;
    for (int i = 0; i < ITEMS; i++)
        chi2 += (count[i] - expected) * (count[i] - expected) / (expected * (1 - p)) * (ITEMS - 1) / ITEMS;
    /* 0.1 % and 99.9 % of chi-square with 99 degrees of freedom. */
    assert_true(chi2 > 61.1 && chi2 < 148.2);
}

/* Every slot is drawn equally often, never twice in a minibatch. */
static void draws_are_uniform_without_replacement(void **state)
{
    (void)state;
    enum { HELD = 50, MINIBATCH = 10, STEPS = 2000 };
    rc_image_buffer b;
    int count[HELD] = {0};
    int32_t *places = calloc(STEPS * MINIBATCH, sizeof *places);
    rc_buffer_init(&b, HELD, 1);
    SUCCEEDS(rc_buffer_reserve(&b, HELD));
    b.held = HELD;
    b.offered = HELD;
    rc_buffer_task plan = {.seed = 9, .task = 1, .images = STEPS, .batch = 1, .minibatch = MINIBATCH, .epochs = 1};
    SUCCEEDS(rc_buffer_begin_task(&b, &plan));
    rc_buffer_draw(&b, 0, places);
    for (int s = 0; s < STEPS; s++) {
        bool seen[HELD] = {false};
        for (int i = 0; i < MINIBATCH; i++) {
            int slot = places[s * MINIBATCH + i] - STEPS;
            assert_in_range(slot, 0, HELD - 1);
            assert_false(seen[slot]);
            seen[slot] = true;
            count[slot]++;
        }
    }
    assert_int_equal(b.task_offered, HELD); /* a set that stays as it is */
    double p = (double)MINIBATCH / HELD, expected = STEPS * p, chi2 = 0;
    for (int i = 0; i < HELD; i++)
        chi2 += (count[i] - expected) * (count[i] - expected) / (expected * (1 - p)) * (HELD - 1) / HELD;
    assert_true(chi2 > 23.98 && chi2 < 85.35); /* 0.1 % and 99.9 %, 49 degrees of freedom */
    free(places);
    rc_buffer_destroy(&b);
}

/* ---- the edges ------------------------------------------------------------------------------------------------ */

/* Whoever resumes begins with any epoch; whoever ends may have skipped the last ones. */
static void epochs_can_be_gone_through_again(void **state)
{
    (void)state;
    enum { IMAGES = 40, BATCH = 8, EPOCHS = 4 };
    int32_t places[EPOCHS][IMAGES], again[IMAGES];
    rc_image_buffer b, resumed;
    rc_buffer_task plan = {
        .seed = 3, .images = IMAGES, .batch = BATCH, .minibatch = BATCH, .epochs = EPOCHS, .offer = true};
    rc_buffer_init(&b, 12, IMAGE);
    rc_buffer_init(&resumed, 12, IMAGE);
    SUCCEEDS(rc_buffer_begin_task(&b, &plan));
    SUCCEEDS(rc_buffer_begin_task(&resumed, &plan));
    pool data = make_pool(&b, 0, IMAGES);
    for (int e = 0; e < EPOCHS; e++)
        rc_buffer_draw(&b, e, places[e]);
    for (int e = EPOCHS - 1; e >= 0; e--) {
        rc_buffer_draw(&resumed, e, again);
        assert_memory_equal(again, places[e], sizeof again);
    }
    rc_buffer_commit(&b, be, data.image, data.label);
    rc_buffer_commit(&resumed, be, data.image, data.label);
    assert_true(b.order == NULL && b.scratch == NULL); /* the task is over */
    assert_int_equal(resumed.offered, b.offered);
    assert_memory_equal(resumed.images, b.images, 12 * IMAGE);
    drop_pool(data);
    rc_buffer_destroy(&b);
    rc_buffer_destroy(&resumed);
}

/* A capacity below the number of epochs, and an epoch of one batch, which fills its places and none behind them. What
 * is held seldom changes: some of the streams show it. */
static void the_smallest_buffer_is_rewound(void **state)
{
    (void)state;
    enum { BATCH = 4, EPOCHS = 5, BEHIND = -7, SEEDS = 20 };
    int32_t first[BATCH + 1], last[BATCH + 1], again[BATCH + 1];
    int changed = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        rc_image_buffer b;
        rc_buffer_task plan = {
            .seed = seed, .images = BATCH, .batch = BATCH, .minibatch = BATCH, .epochs = EPOCHS, .offer = true};
        rc_buffer_init(&b, 1, IMAGE);
        SUCCEEDS(rc_buffer_begin_task(&b, &plan));
        for (int epoch = 0; epoch < EPOCHS; epoch++) {
            first[BATCH] = again[BATCH] = BEHIND;
            rc_buffer_draw(&b, epoch, first);
            rc_buffer_draw(&b, EPOCHS - 1, last);
            rc_buffer_draw(&b, epoch, again);
            assert_memory_equal(first, again, sizeof first);
            assert_int_equal(first[BATCH], BEHIND);
            changed += epoch > 0 && last[0] != first[0];
        }
        rc_buffer_destroy(&b);
    }
    assert_true(changed > SEEDS / 2);
}

static void other_sizes_between_tasks(void **state)
{
    (void)state;
    static plain p;
    rc_image_buffer b, copy;
    p = (plain){.capacity = 30, .seed = 1};
    rc_buffer_init(&b, 30, IMAGE);
    same_task(&b, &p, 0, 90, 8, 8, 2);
    SUCCEEDS(rc_buffer_copy(&copy, &b));
    assert_int_equal(rc_buffer_bytes(&copy), 30 * (IMAGE + 4));
    assert_memory_equal(copy.images, b.images, 30 * IMAGE);
    assert_memory_equal(copy.labels, b.labels, 30 * sizeof *b.labels);

    rc_buffer_resize(&b, 10);
    assert_int_equal(b.held, 10);
    for (int i = 0; i < 10; i++) { /* from all along: a buffer that is not full has them in the order they came */
        memcpy(p.image[i], p.image[3 * i], IMAGE);
        p.label[i] = p.label[3 * i];
    }
    p.capacity = p.held = 10;
    assert_memory_equal(b.images, p.image, 10 * IMAGE);
    assert_memory_equal(b.labels, p.label, 10 * sizeof *p.label);
    same_task(&b, &p, 1, 40, 8, 8, 1);

    rc_buffer_resize(&copy, 50); /* free slots are taken by the items that are let in */
    pool data = make_pool(&copy, 1, 400);
    rc_buffer_task plan = {
        .seed = 1, .task = 1, .images = 400, .batch = 10, .minibatch = 10, .epochs = 1, .offer = true};
    SUCCEEDS(rc_buffer_begin_task(&copy, &plan));
    rc_buffer_commit(&copy, be, data.image, data.label);
    assert_in_range(copy.held, 40, 50);
    for (int i = 0; i < copy.held; i++)
        assert_true(copy.labels[i] < 10 || (copy.labels[i] >= 1000 && copy.labels[i] < 1010));
    drop_pool(data);
    rc_buffer_destroy(&b);
    rc_buffer_destroy(&copy);
}

static void a_stream_has_an_end(void **state)
{
    (void)state;
    rc_image_buffer b;
    rc_buffer_init(&b, 4, IMAGE);
    b.offered = 4000000000u;
    rc_buffer_task plan = {.images = 1000, .batch = 10, .minibatch = 10, .epochs = 300000, .offer = true};
    assert_int_equal(rc_buffer_begin_task(&b, &plan), RC_INVALID_ARGUMENT);
    assert_non_null(strstr(rc_message(), "4294967295"));
    b.offered = UINT32_MAX - 1000; /* just so many */
    plan.epochs = 1;
    SUCCEEDS(rc_buffer_begin_task(&b, &plan));
    b.offered = 0;
    plan = (rc_buffer_task){.images = 65535, .batch = 65535, .minibatch = 10, .epochs = 65537, .offer = true};
    SUCCEEDS(rc_buffer_begin_task(&b, &plan)); /* as many at once */
    rc_buffer_destroy(&b);
}

/* The low word of a draw counts where a stream is billions long: it decides half of the carries. */
static void draws_of_long_streams_take_both_words(void **state)
{
    (void)state;
    enum { CAPACITY = 1000000, IMAGES = 60000 };
    const uint64_t before = 4000000000u;
    int32_t *expected = calloc(CAPACITY, sizeof *expected), *places = calloc(IMAGES, sizeof *places);
    int changed = 0;
    rc_image_buffer b;
    rc_buffer_init(&b, CAPACITY, 0);
    SUCCEEDS(rc_buffer_reserve(&b, CAPACITY));
    b.held = CAPACITY;
    b.offered = before;
    rc_buffer_task plan = {.seed = 21, .images = IMAGES, .batch = 1, .minibatch = 1, .epochs = 1, .offer = true};
    SUCCEEDS(rc_buffer_begin_task(&b, &plan));
    memcpy(expected, b.slot, CAPACITY * sizeof *expected);
    rc_buffer_draw(&b, 0, places);
    for (uint64_t i = 0; i < IMAGES; i++) {
        uint64_t t = before + i, high = rc_rng_bits((rc_rng){21, RC_STREAM_RESERVOIR}, 2 * t),
                 low = rc_rng_bits((rc_rng){21, RC_STREAM_RESERVOIR}, 2 * t + 1),
                 slot = (high * (t + 1) + (low * (t + 1) >> 32)) >> 32;
        if (slot < CAPACITY) {
            expected[slot] = b.order[i];
            changed++;
        }
    }
    assert_in_range(changed, 5, 30); /* 15 on average */
    assert_memory_equal(b.slot, expected, CAPACITY * sizeof *expected);
    free(expected);
    free(places);
    rc_buffer_destroy(&b);
}

/* Room is made for what will come, once, and what is held moves into it. */
static void room_grows_with_what_is_held(void **state)
{
    (void)state;
    rc_image_buffer b, copy;
    size_t before = rc_bytes_allocated();
    rc_buffer_init(&b, 10, 1);
    SUCCEEDS(rc_buffer_reserve(&b, 1));
    assert_int_equal(b.room, 1);
    assert_int_equal(rc_buffer_bytes(&b), 0); /* room alone is nothing that is held */
    b.held = 1;
    b.images[0] = 77;
    b.labels[0] = 5;
    assert_int_equal(rc_buffer_bytes(&b), 1 + sizeof *b.labels);
    rc_buffer_task plan = {.images = 5, .batch = 5, .minibatch = 1, .epochs = 1, .offer = false};
    b.offered = 1;
    SUCCEEDS(rc_buffer_begin_task(&b, &plan)); /* nothing will come; this task is never ended */
    assert_int_equal(b.room, 1);
    plan.offer = true;
    b.offered = 3;
    SUCCEEDS(rc_buffer_begin_task(&b, &plan));
    assert_int_equal(b.room, 3 + 5);
    assert_true(b.images[0] == 77 && b.labels[0] == 5);
    const uint8_t *images = b.images;
    SUCCEEDS(rc_buffer_reserve(&b, 8)); /* it has these */
    assert_ptr_equal(b.images, images);
    SUCCEEDS(rc_buffer_reserve(&b, 1000));
    assert_int_equal(b.room, 10);
    SUCCEEDS(rc_buffer_copy(&copy, &b));
    assert_true(copy.capacity == 10 && copy.held == 1 && copy.offered == 3 && copy.room == 1);
    assert_true(copy.images[0] == 77 && copy.labels[0] == 5);
    rc_buffer_destroy(&copy);
    for (int i = 0; i < 4; i++)
        b.images[i] = (uint8_t)(10 + i);
    b.held = 4;
    rc_buffer_resize(&b, 2); /* two of the four that it holds, not of the ten that it has room for */
    assert_true(b.held == 2 && b.images[0] == 10 && b.images[1] == 12);
    rc_buffer_destroy(&b);
    rc_buffer_init(&b, 4, 5000); /* full, so that nothing lies behind the last image */
    SUCCEEDS(rc_buffer_reserve(&b, 4));
    b.held = 4;
    rc_buffer_resize(&b, 2);
    assert_int_equal(b.held, 2);
    rc_buffer_destroy(&b);
    rc_buffer_init(&b, 4, 0); /* of a set whose images lie in the pool alone */
    SUCCEEDS(rc_buffer_reserve(&b, 4));
    assert_null(b.images);
    rc_buffer_destroy(&b);
    assert_int_equal(rc_bytes_allocated(), before);
}

/* Whichever allocation fails, it is told, what was held is still there, and all memory comes back. */
static void allocations_may_fail(void **state)
{
    (void)state;
    enum { ALLOCATIONS = 6 }; /* images, labels, slot, pick, order, scratch */
    rc_buffer_task plan = {.images = 3, .batch = 3, .minibatch = 1, .epochs = 1, .offer = true};
    size_t before = rc_bytes_allocated();
    for (int nth = 1; nth <= ALLOCATIONS + 1; nth++) {
        rc_image_buffer b, copy;
        rc_buffer_init(&b, 4, 200);
        SUCCEEDS(rc_buffer_reserve(&b, 1));
        b.held = 1;
        b.offered = 1;
        memset(b.images, 9, 200);
        b.labels[0] = 6;
        allocation_to_fail = nth;
        rc_status status = rc_buffer_begin_task(&b, &plan);
        assert_int_equal(allocation_failed(), nth <= ALLOCATIONS);
        assert_int_equal(status, nth <= ALLOCATIONS ? RC_OUT_OF_MEMORY : RC_OK);
        assert_true(b.held == 1 && b.images[199] == 9 && b.labels[0] == 6);
        size_t held = rc_bytes_allocated();
        allocation_to_fail = nth;
        status = rc_buffer_copy(&copy, &b);
        assert_int_equal(status, allocation_failed() ? RC_OUT_OF_MEMORY : RC_OK);
        assert_true(status == RC_OK || rc_bytes_allocated() == held);
        rc_buffer_destroy(&copy);
        rc_buffer_destroy(&b);
        assert_int_equal(rc_bytes_allocated(), before);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contents_and_draws_are_those_of_a_plain_simulation),
        cmocka_unit_test(every_item_is_held_with_the_same_probability),
        cmocka_unit_test(draws_are_uniform_without_replacement),
        cmocka_unit_test(epochs_can_be_gone_through_again),
        cmocka_unit_test(the_smallest_buffer_is_rewound),
        cmocka_unit_test(other_sizes_between_tasks),
        cmocka_unit_test(a_stream_has_an_end),
        cmocka_unit_test(draws_of_long_streams_take_both_words),
        cmocka_unit_test(room_grows_with_what_is_held),
        cmocka_unit_test(allocations_may_fail),
    };
    return cmocka_run_group_tests(tests, open_backend, close_backend);
}
