/* Pictures that are decoded when they are read: the same ones whatever the threads, places and processes.
 * RECOLLECT_TEST_BACKEND names the backend that they are lent to. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/pool.h"
#include "cil/evaluation.h"
#include "cil/task_stream.h"
#include "data/pack.h"
#include "data/stream.h"
#include "nn/nets.h"
#include "support/data_files.h"
#include "support/succeeds.h"

enum { PICTURES = 40, SIZE = 6, BYTES = SIZE * SIZE * 3 };

/* Two classes of noise, of several shapes; a fifth of each is for testing. */
static void write_pictures(void)
{
    for (int i = 0; i < PICTURES; i++) {
        char path[64];
        data_bytes file = {0};
        uint8_t pixels[20 * 20 * 3];
        int h = 8 + i % 12, w = 20 - i % 7;
        int length = snprintf(path, sizeof path, "P6 %d %d 255\n", w, h);
        data_add(&file, path, (size_t)length);
        data_random((uint64_t)i, pixels, (size_t)(h * w * 3));
        data_add(&file, pixels, (size_t)(h * w * 3));
        snprintf(path, sizeof path, "set/%s/%02d.ppm", i % 2 ? "odd" : "even", i);
        data_write(path, file.data, file.size);
        free(file.data);
    }
}

static rc_dataset open_set(int threads)
{
    rc_dataset d;
    rc_pool *pool;
    SUCCEEDS(rc_pool_create(threads, &pool));
    data_open("set", &(rc_data_settings){.size = SIZE, .resize = 7, .stream = true, .test_part = 0.2, .pool = pool},
              &d);
    rc_pool_destroy(pool);
    return d;
}

/* What a reader gives of an order, from `first` on, by pieces of n; process `part` of `parts`. */
static void read_all(const rc_split *split, const int32_t *order, size_t count, const rc_rng *through, int n, int part,
                     int parts, uint8_t *out)
{
    rc_stream_reader *reader;
    SUCCEEDS(rc_stream_open(split->stream, n, &reader));
    SUCCEEDS(rc_stream_expect(reader, order, count, through, parts));
    for (size_t first = (size_t)(part * n); first + (size_t)n <= count; first += (size_t)(n * parts)) {
        const uint8_t *from;
        const int32_t *place;
        SUCCEEDS(rc_stream_fetch(reader, first, n, &from, &place));
        for (int b = 0; b < n; b++)
            memcpy(out + (first + (size_t)b) * BYTES, from + (size_t)place[b] * BYTES, BYTES);
    }
    rc_stream_close(reader);
}

static void order_of(int32_t *order, int count, int of)
{
    for (int i = 0; i < count; i++)
        order[i] = (i * 7 + 3) % of;
}

/* As they are: what the set is in memory, images, labels, mean and deviation. */
static void they_are_those_of_the_set(void **state)
{
    (void)state;
    write_pictures();
    rc_dataset streamed = open_set(3), whole;
    data_open("set", &(rc_data_settings){.size = SIZE, .resize = 7, .test_part = 0.2}, &whole);
    const rc_split *pair[2][2] = {{&streamed.train, &whole.train}, {&streamed.test, &whole.test}};
    for (int s = 0; s < 2; s++) {
        uint8_t image[BYTES];
        const rc_split *one = pair[s][0], *other = pair[s][1];
        assert_null(one->images);
        assert_int_equal(one->count, other->count);
        assert_memory_equal(one->labels, other->labels, (size_t)one->count * sizeof *one->labels);
        for (int i = 0; i < one->count; i++) {
            SUCCEEDS(rc_stream_read(one->stream, i, image));
            assert_memory_equal(image, other->images + (size_t)i * BYTES, BYTES);
        }
    }
    assert_memory_equal(streamed.mean, whole.mean, sizeof whole.mean);
    assert_memory_equal(streamed.std, whole.std, sizeof whole.std);
    assert_int_not_equal(rc_split_checksum(&streamed.train, 0), rc_split_checksum(&streamed.train, 1));
    rc_dataset_close(&whole);
    rc_dataset_close(&streamed);
}

/* A learner that is lent them sees each of its views through the random stream of that view. */
static void views_have_windows_of_their_own(void **state)
{
    (void)state;
    enum { N = 8, MANY = 3 };
    static uint8_t lent[MANY][N * BYTES], expected[N * BYTES];
    static const rc_image_view view[MANY] = {{5, 77}, {5, 78}, {6, 77}};
    int32_t order[N];
    write_pictures();
    rc_dataset d = open_set(2);
    const rc_lent_images images = rc_lend_split(&d, &d.train);
    order_of(order, N, d.train.count);
    for (int i = 0; i < MANY; i++) {
        void *reader;
        const uint8_t *from;
        const int32_t *place;
        const rc_rng rng = {view[i].seed, view[i].stream};
        SUCCEEDS(images.supply->open(images.owner, BYTES, N, &reader));
        SUCCEEDS(images.supply->expect(reader, order, N, &view[i], 1));
        SUCCEEDS(images.supply->fetch(reader, 0, N, &from, &place));
        for (int b = 0; b < N; b++)
            memcpy(lent[i] + b * BYTES, from + (size_t)place[b] * BYTES, BYTES);
        images.supply->close(reader);
        read_all(&d.train, order, N, &rng, N, 0, 1, expected);
        assert_memory_equal(lent[i], expected, sizeof expected);
    }
    assert_memory_not_equal(lent[0], lent[1], sizeof *lent);
    assert_memory_not_equal(lent[0], lent[2], sizeof *lent);
    rc_dataset_close(&d);
}

/* Any number of threads, pieces and processes give the same images; another random stream gives others. */
static void nothing_depends_on_threads(void **state)
{
    (void)state;
    enum { COUNT = 96 };
    static uint8_t expected[COUNT * BYTES], found[COUNT * BYTES];
    int32_t order[COUNT];
    const rc_rng rng = {5, 77}, other = {5, 78};
    write_pictures();
    rc_dataset d = open_set(1);
    order_of(order, COUNT, d.train.count);
    read_all(&d.train, order, COUNT, &rng, 4, 0, 1, expected);
    static const struct {
        int threads, n, parts;
    } ways[] = {{3, 4, 1}, {3, 32, 1}, {1, 4, 3}, {4, 8, 2}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        d.train.stream->threads = ways[i].threads;
        memset(found, 0, sizeof found);
        for (int part = 0; part < ways[i].parts; part++)
            read_all(&d.train, order, COUNT, &rng, ways[i].n, part, ways[i].parts, found);
        assert_memory_equal(found, expected, sizeof found);
    }
    read_all(&d.train, order, COUNT, &other, 4, 0, 1, found);
    assert_memory_not_equal(found, expected, sizeof found);
    read_all(&d.train, order, COUNT, NULL, 4, 0, 1, found);
    assert_memory_not_equal(found, expected, sizeof found);
    for (int i = 0; i < COUNT; i++) {
        SUCCEEDS(rc_stream_read(d.train.stream, order[i], expected));
        assert_memory_equal(found + (size_t)i * BYTES, expected, BYTES);
    }
    rc_dataset_close(&d);
}

/* A run that is resumed begins in the middle; a scorer fetches pieces of several sizes; a place may hold nothing. */
static void fetching_goes_anywhere(void **state)
{
    (void)state;
    int32_t order[30];
    uint8_t image[BYTES];
    const uint8_t *from;
    const int32_t *place;
    rc_stream_reader *reader;
    write_pictures();
    rc_dataset d = open_set(2);
    order_of(order, 30, d.train.count);
    order[9] = -1;
    SUCCEEDS(rc_stream_open(d.train.stream, 5, &reader));
    SUCCEEDS(rc_stream_expect(reader, order, 30, NULL, 1));
    static const int first[] = {20, 25, 0, 5, 5, 8, 13, 2}, n[] = {5, 5, 5, 3, 3, 5, 4, 5};
    for (size_t i = 0; i < sizeof n / sizeof *n; i++) {
        SUCCEEDS(rc_stream_fetch(reader, (size_t)first[i], n[i], &from, &place));
        for (int b = 0; b < n[i]; b++) {
            if (order[first[i] + b] < 0)
                continue;
            SUCCEEDS(rc_stream_read(d.train.stream, order[first[i] + b], image));
            assert_memory_equal(from + (size_t)place[b] * BYTES, image, BYTES);
        }
    }
    assert_int_equal(rc_stream_fetch(reader, 28, 5, &from, &place), RC_INTERNAL);
    assert_int_equal(rc_stream_fetch(reader, 0, 4096, &from, &place), RC_INTERNAL);
    rc_stream_close(reader);
    rc_dataset_close(&d);
}

/* A broken picture is found when the set is opened; one that is lost later is named. */
static void broken_pictures_are_named(void **state)
{
    (void)state;
    data_log log;
    rc_dataset d;
    int32_t order[8];
    const uint8_t *from;
    const int32_t *place;
    rc_stream_reader *reader;
    write_pictures();
    data_write_text("set/odd/07.ppm", "P6 9 9 255\nnothing");
    assert_int_equal(rc_dataset_open("set", &(rc_data_settings){.size = SIZE, .stream = true}, &d), RC_FORMAT);
    data_assert_message("set/odd/07.ppm");
    data_log_start(&log);
    data_open("set", &(rc_data_settings){.size = SIZE, .stream = true, .skip_broken = true, .log = &log.log}, &d);
    assert_int_equal(d.broken, 1);
    assert_int_equal(d.train.count, PICTURES - 1);
    for (int i = 0; i < d.train.count; i++) {
        const char *path = rc_image_files_path(&d.train.stream->files, i);
        assert_null(strstr(path, "07.ppm"));
        assert_int_equal(strstr(path, "odd") != NULL, d.train.labels[i] == 1);
    }
    order_of(order, 8, d.train.count);
    const char *lost = rc_image_files_path(&d.train.stream->files, order[6]);
    assert_int_equal(unlink(lost), 0);
    SUCCEEDS(rc_stream_open(d.train.stream, 4, &reader));
    SUCCEEDS(rc_stream_expect(reader, order, 8, NULL, 1));
    SUCCEEDS(rc_stream_fetch(reader, 0, 4, &from, &place));
    assert_int_equal(rc_stream_fetch(reader, 4, 4, &from, &place), RC_IO);
    data_assert_message(lost);
    rc_stream_close(reader);
    rc_dataset_close(&d);
    assert_int_equal(rc_dataset_open("procedural:2", &(rc_data_settings){.stream = true}, &d), RC_INVALID_ARGUMENT);
    data_assert_message("'decode' must be 'memory'");
}

/* A disk that is away for a moment: all pictures that were lost then are read once more. */
static void pictures_that_come_back_are_read(void **state)
{
    (void)state;
    enum { AT_ONCE = 3 };
    static const int32_t order[2 * AT_ONCE] = {-1, -1, -1, 0, 1, 2};
    uint8_t image[BYTES];
    const uint8_t *from;
    const int32_t *place;
    rc_stream_reader *reader;
    write_pictures();
    rc_dataset d = open_set(1);
    assert_int_equal(rename("set", "away"), 0);
    SUCCEEDS(rc_stream_open(d.train.stream, AT_ONCE, &reader));
    SUCCEEDS(rc_stream_expect(reader, order, 2 * AT_ONCE, NULL, 1));
    SUCCEEDS(rc_stream_fetch(reader, 0, AT_ONCE, &from, &place));
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL); /* meanwhile the thread fails to read the others */
    assert_int_equal(rename("away", "set"), 0);
    SUCCEEDS(rc_stream_fetch(reader, AT_ONCE, AT_ONCE, &from, &place));
    for (int b = 0; b < AT_ONCE; b++) {
        SUCCEEDS(rc_stream_read(d.train.stream, order[AT_ONCE + b], image));
        assert_memory_equal(from + (size_t)place[b] * BYTES, image, BYTES);
    }
    rc_stream_close(reader);
    rc_dataset_close(&d);
}

/* Images of a pack come as they are, and a damaged one is named. */
static void packs_are_read_alike(void **state)
{
    (void)state;
    enum { COUNT = 24 };
    int32_t order[COUNT];
    const rc_rng rng = {5, 77};
    const uint8_t *from;
    const int32_t *place;
    rc_stream_reader *reader;
    rc_pack_result result;
    rc_dataset d;
    size_t bytes;
    write_pictures();
    const rc_data_settings settings = {.size = SIZE, .resize = 7, .test_part = 0.2};
    SUCCEEDS(rc_pack_write("set", &settings, "set.pack", &result));
    FILE *file = fopen("set.pack", "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, RC_PACK_HEADER + 5 * BYTES, SEEK_SET), 0);
    int byte = fgetc(file);
    assert_int_equal(fseek(file, -1, SEEK_CUR), 0);
    assert_int_equal(fputc(byte ^ 1, file), byte ^ 1);
    assert_int_equal(fclose(file), 0);
    data_open("set.pack", &(rc_data_settings){.size = SIZE, .resize = 7}, &d);
    for (int i = 0; i < COUNT; i++)
        order[i] = (i * 7 + 6) % d.train.count;
    SUCCEEDS(rc_stream_open_pack(&d.train, BYTES, 4, &reader));
    const uint8_t *ring = rc_stream_ring(reader, &bytes);
    SUCCEEDS(rc_stream_expect(reader, order, COUNT, &rng, 1));
    for (size_t first = 0; first < COUNT; first += 4) {
        bool damaged = false;
        for (int b = 0; b < 4; b++)
            damaged = damaged || order[first + (size_t)b] == 5;
        if (damaged) {
            assert_int_equal(rc_stream_fetch(reader, first, 4, &from, &place), RC_FORMAT);
            data_assert_message("record 5 of the pack is damaged");
            continue;
        }
        SUCCEEDS(rc_stream_fetch(reader, first, 4, &from, &place));
        assert_ptr_equal(from, ring);
        for (int b = 0; b < 4; b++) {
            assert_true((size_t)(place[b] + 1) * BYTES <= bytes);
            assert_memory_equal(from + (size_t)place[b] * BYTES,
                                d.train.images + (size_t)order[first + (size_t)b] * BYTES, BYTES);
        }
    }
    rc_stream_close(reader);
    rc_dataset_close(&d);
}

/* What augment makes of n images of an order, of which it reads batch `batch`: bytes. */
static void see(rc_backend *be, const void *images, const int32_t *order, int n, uint32_t batch, uint8_t *out)
{
    const rc_augment augment = {.h = SIZE, .w = SIZE, .c = 3, .std = {1, 1, 1, 1}};
    const rc_step now = {.batch = batch};
    rc_tensor batch_of = {.n = n, .h = SIZE, .w = SIZE, .c = 3, .groups = 1, .group_end = {n}};
    double values[8 * BYTES];
    void *step;
    SUCCEEDS(be->alloc(be, rc_act_count(be, n, SIZE, SIZE, 3) * be->act_bytes, &batch_of.raw));
    SUCCEEDS(be->alloc(be, sizeof now, &step));
    be->write_bytes(be, step, &now, sizeof now);
    be->augment(be, &augment, images, order, n, step, &batch_of);
    be->read_act(be, values, &batch_of, batch_of.raw);
    be->release(be, step);
    be->release(be, batch_of.raw);
    for (int i = 0; i < n * BYTES; i++)
        out[i] = (uint8_t)(255 * values[i] + 0.5);
}

/* In the end: an order is read that is gone, or a picture is, or that picture is read as it is. */
enum ending { NO_ORDER, LOST, LOST_TO_HOST };

/* A task reads its own order, and a buffer another one, of images of the task and of its own. */
static void read_orders(enum ending ending)
{
    enum { LENT = 12, MORE = 2, N = 4, COUNT = 12 };
    const char *name = getenv("RECOLLECT_TEST_BACKEND");
    int32_t order[2][COUNT], index[LENT];
    uint8_t more[MORE * BYTES], found[N * BYTES], expected[BYTES], read[2 * BYTES];
    rc_backend *be;
    void *images, *memory[2];
    write_pictures();
    rc_dataset d = open_set(2);
    SUCCEEDS(rc_backend_open(name != NULL ? name : "cpu", 1, NULL, &be));
    data_random(99, more, sizeof more);
    order_of(index, LENT, d.train.count);
    rc_lent_images lent = rc_lend_split(&d, &d.train);
    for (int i = 0; i < LENT && ending == LOST_TO_HOST; i++)
        index[i] = i;
    lent.index = ending == LOST_TO_HOST ? NULL : index; /* NULL: the first ones */
    lent.count = LENT;
    lent.most = N;
    SUCCEEDS(be->lend_images(be, &lent, sizeof more, &images));
    be->write_images(be, images, LENT * BYTES, more, sizeof more);
    for (int which = 0; which < 2; which++) {
        for (int i = 0; i < COUNT; i++)
            order[which][i] = (5 * i + 3 * which) % (which ? LENT + MORE : LENT);
        SUCCEEDS(be->alloc(be, sizeof order[which], &memory[which]));
        be->write_bytes(be, memory[which], order[which], sizeof order[which]);
        SUCCEEDS(be->expect_images(be, images, memory[which], COUNT, NULL));
    }
    static const uint32_t batches[] = {0, 1, 2, 0, 2};
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++)
        for (int which = 0; which < 2; which++) {
            see(be, images, memory[which], N, batches[i], found);
            SUCCEEDS(be->sync(be));
            for (int b = 0; b < N; b++) {
                int32_t at = order[which][batches[i] * N + (uint32_t)b];
                if (at < LENT)
                    SUCCEEDS(rc_stream_read(d.train.stream, index[at], expected));
                assert_memory_equal(found + b * BYTES, at < LENT ? expected : more + (at - LENT) * BYTES, BYTES);
            }
        }
    be->read_images(be, read, images, (LENT - 1) * BYTES, sizeof read);
    SUCCEEDS(rc_stream_read(d.train.stream, index[LENT - 1], expected));
    assert_memory_equal(read, expected, BYTES);
    assert_memory_equal(read + BYTES, more, BYTES);
    const char *path = rc_image_files_path(&d.train.stream->files, index[order[0][2]]);
    if (ending != NO_ORDER)
        assert_int_equal(unlink(path), 0);
    SUCCEEDS(be->expect_images(be, images, memory[0], COUNT, NULL));
    SUCCEEDS(be->expect_images(be, images, memory[1], 0, NULL));
    if (ending == LOST_TO_HOST)
        be->read_images(be, read, images, (size_t)order[0][2] * BYTES, BYTES);
    else
        see(be, images, memory[ending == NO_ORDER], N, 0, found);
    assert_int_equal(be->sync(be), ending == NO_ORDER ? RC_INTERNAL : RC_IO);
    data_assert_message(ending == NO_ORDER ? "in an order that nobody has announced" : path);
    be->release(be, images);
    be->release(be, memory[0]);
    be->release(be, memory[1]);
    rc_backend_close(be);
    rc_dataset_close(&d);
}

static void a_handle_has_several_orders(void **state)
{
    (void)state;
    read_orders(NO_ORDER);
}

static void a_backend_names_what_is_lost(void **state)
{
    (void)state;
    read_orders(LOST);
    read_orders(LOST_TO_HOST);
}

/* ---- repeated steps ---------------------------------------------------------------------------------------------- */

enum { STEPS = 24, EACH = 4, LENT_TO_WALK = 28 };

/* Steps that read a batch each. What the optimiser remembers depends on all of them. */
typedef struct walk {
    rc_backend *be;
    void *images, *order, *step, *memory, *parameters;
    rc_tensor batch;
    size_t count;
} walk;

static void walk_on(void *context)
{
    static const rc_augment augment = {.h = SIZE, .w = SIZE, .c = 3, .std = {1, 1, 1, 1}};
    walk *w = context;
    rc_backend *be = w->be;
    be->step_begin(be, w->step);
    be->augment(be, &augment, w->images, w->order, EACH, w->step, &w->batch);
    be->sgd(be, &(rc_sgd){.momentum = 0.9f}, w->step, w->count, w->parameters, w->batch.raw, w->memory);
}

/* So many steps at a time. */
static void walk_through(rc_backend *be, const rc_dataset *d, int at_once, double *remembered)
{
    const rc_step before = {.batch = UINT32_MAX, .step = UINT32_MAX};
    int32_t order[STEPS * EACH], index[LENT_TO_WALK];
    walk w = {.be = be, .batch = {.n = EACH, .h = SIZE, .w = SIZE, .c = 3, .groups = 1, .group_end = {EACH}}};
    rc_lent_images lent = rc_lend_split(d, &d->train);
    order_of(index, LENT_TO_WALK, d->train.count);
    lent.index = index;
    lent.count = LENT_TO_WALK;
    lent.most = EACH;
    for (int i = 0; i < STEPS * EACH; i++)
        order[i] = 5 * i % LENT_TO_WALK;
    w.count = rc_act_count(be, EACH, SIZE, SIZE, 3);
    SUCCEEDS(be->lend_images(be, &lent, 0, &w.images));
    SUCCEEDS(be->alloc(be, sizeof order, &w.order));
    SUCCEEDS(be->alloc(be, sizeof before, &w.step));
    SUCCEEDS(be->alloc(be, w.count * be->act_bytes, &w.batch.raw));
    SUCCEEDS(be->alloc(be, w.count * be->real_bytes, &w.memory));
    SUCCEEDS(be->alloc(be, w.count * be->real_bytes, &w.parameters));
    be->write_bytes(be, w.order, order, sizeof order);
    be->write_bytes(be, w.step, &before, sizeof before);
    SUCCEEDS(be->expect_images(be, w.images, w.order, STEPS * EACH, NULL));
    for (int i = 0; i < STEPS; i += at_once)
        SUCCEEDS(be->repeat(be, walk_on, &w, at_once));
    be->read_real64(be, remembered, w.memory, w.count);
    void *const all[] = {w.images, w.order, w.step, w.batch.raw, w.memory, w.parameters};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        be->release(be, all[i]);
}

/* A device may still be at the first ones when pictures for the last ones come. */
static void steps_at_once_read_what_single_ones_do(void **state)
{
    (void)state;
    static double one[EACH * SIZE * SIZE * 8], all[EACH * SIZE * SIZE * 8];
    const char *name = getenv("RECOLLECT_TEST_BACKEND");
    rc_backend *be;
    write_pictures();
    rc_dataset d = open_set(2);
    SUCCEEDS(rc_backend_open(name != NULL ? name : "cpu", 1, NULL, &be));
    walk_through(be, &d, 1, one);
    walk_through(be, &d, STEPS, all);
    assert_memory_equal(all, one, sizeof all);
    assert_true(one[0] != 0);
    rc_backend_close(be);
    rc_dataset_close(&d);
}

/* ---- scoring ---------------------------------------------------------------------------------------------------- */

/* Pictures get the scores that they have in memory, piece by piece; nothing of their reader stays. A lost one ends
 * it. */
static void they_are_scored_as_in_memory(void **state)
{
    (void)state;
    rc_backend *be;
    rc_net net;
    rc_classifier classifier;
    rc_task_stream tasks;
    rc_evaluation e, expected;
    write_pictures();
    rc_dataset streamed = open_set(2), whole;
    data_open("set", &(rc_data_settings){.size = SIZE, .resize = 7, .test_part = 0.2}, &whole);
    SUCCEEDS(rc_backend_open("cpu", 1, NULL, &be));
    SUCCEEDS(rc_net_resnet_small(&net, 3, SIZE, SIZE, 2, 1));
    SUCCEEDS(rc_classifier_create(&classifier, &net, be, 2));
    SUCCEEDS(rc_model_init(&classifier.backbone, (rc_rng){3, 1}));
    SUCCEEDS(rc_head_grow(&classifier.head, 2, (rc_rng){3, 2}));
    SUCCEEDS(rc_task_stream_create(&tasks, 2, NULL, &(rc_task_split){.sizes = 1, .size = {2}}));
    rc_augment normalisation = {.mean = {0.5f, 0.5f, 0.5f}, .std = {0.2f, 0.2f, 0.2f}};
    SUCCEEDS(rc_evaluate(be, &classifier, &normalisation, &tasks, &whole.train, PICTURES, NULL, &expected));
    size_t before = rc_bytes_allocated();
    for (int batch = 5; batch <= whole.train.count; batch += whole.train.count - 5) { /* in pieces, and all at once */
        SUCCEEDS(rc_evaluate(be, &classifier, &normalisation, &tasks, &streamed.train, batch, NULL, &e));
        assert_memory_equal(e.right, expected.right, (size_t)whole.train.count);
        rc_evaluation_destroy(&e);
    }
    assert_int_equal(rc_bytes_allocated(), before);
    assert_int_equal(unlink(rc_image_files_path(&streamed.train.stream->files, 7)), 0);
    assert_int_not_equal(rc_evaluate(be, &classifier, &normalisation, &tasks, &streamed.train, 5, NULL, &e), RC_OK);
    assert_int_equal(rc_bytes_allocated(), before);
    rc_evaluation_destroy(&expected);
    rc_task_stream_destroy(&tasks);
    rc_classifier_destroy(&classifier);
    rc_backend_close(be);
    rc_dataset_close(&whole);
    rc_dataset_close(&streamed);
}

/* Areas from 8 to 100 %, sides from 3 : 4 to 4 : 3, anywhere in the picture, evenly. */
static void windows_are_those_of_imagenet(void **state)
{
    (void)state;
    enum { DRAWN = 4000, H = 300, W = 400 };
    const rc_rng rng = {1, 2};
    double area = 0, tall = 0, top = 0, left = 0, smallest = 1, largest = 0;
    for (uint64_t i = 0; i < DRAWN; i++) {
        rc_window w = rc_stream_window(rng, i, H, W);
        double part = (double)w.h * w.w / (H * W), ratio = (double)w.w / w.h;
        assert_true(w.top >= 0 && w.left >= 0 && w.h >= 1 && w.w >= 1 && w.top + w.h <= H && w.left + w.w <= W);
        assert_true(ratio > 0.74 && ratio < 1.35);
        smallest = fmin(smallest, part);
        largest = fmax(largest, part);
        area += part / DRAWN;
        tall += (double)(w.h > w.w) / DRAWN;
        top += w.h < H ? (double)w.top / (H - w.h) / DRAWN : 0.5 / DRAWN;
        left += w.w < W ? (double)w.left / (W - w.w) / DRAWN : 0.5 / DRAWN;
    }
    assert_true(smallest > 0.078 && smallest < 0.085);
    assert_true(largest > 0.9 && largest <= 1);
    assert_true(fabs(area - 0.433) < 0.011); /* torchvision's means of 60,000 draws at this shape; three deviations */
    assert_true(fabs(tall - 0.413) < 0.023);
    assert_true(fabs(top - 0.5) < 0.015 && fabs(left - 0.5) < 0.015);
    /* Nothing fits into a strip: the middle, as large as the ratios allow. */
    rc_window strip = rc_stream_window(rng, 0, 30, 3000), column = rc_stream_window(rng, 0, 3000, 30);
    assert_true(strip.h == 30 && strip.w == 40 && strip.top == 0 && strip.left == 1480);
    assert_true(column.w == 30 && column.h == 40 && column.left == 0 && column.top == 1480);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, data_enter_folder, data_leave_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(they_are_those_of_the_set),
        IN_FOLDER(views_have_windows_of_their_own),
        IN_FOLDER(nothing_depends_on_threads),
        IN_FOLDER(fetching_goes_anywhere),
        IN_FOLDER(broken_pictures_are_named),
        IN_FOLDER(pictures_that_come_back_are_read),
        IN_FOLDER(they_are_scored_as_in_memory),
        IN_FOLDER(packs_are_read_alike),
        IN_FOLDER(a_handle_has_several_orders),
        IN_FOLDER(a_backend_names_what_is_lost),
        IN_FOLDER(steps_at_once_read_what_single_ones_do),
        cmocka_unit_test(windows_are_those_of_imagenet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
