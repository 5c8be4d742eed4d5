/* Several processes that train one model, played by threads of one: they learn what one process learns. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/workers.h"
#include "base/memory.h"
#include "support/learning.h"
#include "support/parts.h"

/* ---- processes that are threads --------------------------------------------------------------------------------- */

enum { MOST = 4 };

typedef struct room {
    pthread_barrier_t all_here;
    const void *shown[MOST];
} room;

/* A talk that was begun: nothing happens before it is finished, and what it is to bring is NaN until then. */
typedef struct talk {
    enum { NO_TALK, GATHER, EXCHANGE } kind;
    const void *out;
    void *in;
    size_t bytes;
} talk;

typedef struct worker {
    rc_workers table;
    room *at;
    const char *backend, *method;
    size_t bucket_bytes;
    talk talk[RC_TALK_SLOTS];
    int beside; /* talks while another is under way */
    learning_bits learnt;
    double loss[64]; /* of every boundary, weighted */
    int losses;
    int images;     /* of a step, summed up over the boundaries */
    int collective; /* calls */
} worker;

static worker *of(rc_workers *workers)
{
    return (worker *)workers;
}

/* Everybody shows what it has; then `take` may look at that of all. */
static void show(rc_workers *w, const void *mine)
{
    of(w)->collective++;
    of(w)->at->shown[w->index] = mine;
    pthread_barrier_wait(&of(w)->at->all_here);
}

static void looked(rc_workers *w)
{
    pthread_barrier_wait(&of(w)->at->all_here);
}

static void gather(rc_workers *w, const void *mine, void *all, size_t bytes)
{
    show(w, mine);
    for (int i = 0; i < w->count; i++)
        memcpy((char *)all + (size_t)i * bytes, of(w)->at->shown[i], bytes);
    looked(w);
}

static void begin_talk(rc_workers *w, int slot, talk begun)
{
    assert_in_range(slot, 0, RC_TALK_SLOTS - 1);
    assert_int_equal(of(w)->talk[slot].kind, NO_TALK);
    for (int i = 0; i < RC_TALK_SLOTS; i++)
        of(w)->beside += of(w)->talk[i].kind != NO_TALK;
    memset(begun.in, 0xff, begun.bytes * (size_t)w->count);
    of(w)->talk[slot] = begun;
}

static void begin_gather(rc_workers *w, int slot, const void *mine, void *all, size_t bytes)
{
    begin_talk(w, slot, (talk){GATHER, mine, all, bytes});
}

static void begin_exchange(rc_workers *w, int slot, const void *to, void *from, size_t bytes)
{
    begin_talk(w, slot, (talk){EXCHANGE, to, from, bytes});
}

static void finish(rc_workers *w, int slot)
{
    const talk t = of(w)->talk[slot];
    assert_int_not_equal(t.kind, NO_TALK);
    of(w)->talk[slot].kind = NO_TALK;
    show(w, t.out);
    for (int i = 0; i < w->count; i++)
        memcpy((char *)t.in + (size_t)i * t.bytes,
               (const char *)of(w)->at->shown[i] + (t.kind == EXCHANGE ? (size_t)w->index * t.bytes : 0), t.bytes);
    looked(w);
}

static void lead(rc_workers *w, void *data, size_t bytes)
{
    show(w, data);
    if (w->index > 0)
        memcpy(data, of(w)->at->shown[0], bytes);
    looked(w);
}

static rc_workers table_of(int index, int count)
{
    return (rc_workers){.index = index,
                        .count = count,
                        .beside = count,
                        .gather = gather,
                        .begin_gather = begin_gather,
                        .begin_exchange = begin_exchange,
                        .finish = finish,
                        .lead = lead};
}

/* ---- learning ---------------------------------------------------------------------------------------------------- */

static rc_status note_loss(void *user, const rc_stage_report *report)
{
    worker *w = user;
    if (!isnan(report->total_loss) && w->losses < 64)
        w->loss[w->losses++] = report->total_loss;
    w->images += report->images_per_step;
    return RC_OK;
}

/* Two tasks of a method: two classes, then one more. */
static void *learn(void *user)
{
    worker *w = user;
    rc_backend *be;
    rc_learner l;
    rc_settings s = learning_settings();
    const rc_stage_hooks hooks = {.boundary = note_loss, .user = w, .interval = 0};
    s.batch = 4;
    s.epochs = 3;
    s.refine_epochs = 1;
    s.inversion_steps = s.pixel_steps = 2;
    s.pixel_batches = 1;
    s.seed = 4; /* the pixels of the two halves are then to show other classes */
    snprintf(s.plus_statistics, sizeof s.plus_statistics, "moved-dreams"); /* those of cwd+ */
    s.plus_drawn = 1;
    if (strcmp(w->backend, "reference64") == 0)
        s.mixup = s.cutmix = 1; /* pairs of a part are pairs of the batch; four processes have one image each */
    s.smoothing = 0.125;
    s.generators = 3; /* four dreams: two of the first, one of each other */
    s.trivial = true;
    s.cutout = 3;
    s.class_covariances = true;
    snprintf(s.rotations, sizeof s.rotations, "all");
    assert_int_equal(rc_backend_open(w->backend, 1, NULL, &be), RC_OK);
    assert_int_equal(rc_workers_join(w->table.count > 1 ? &w->table : NULL, be), RC_OK);
    be->bucket_bytes = w->bucket_bytes;
    learning_create(&l, be, w->method, &s);
    learning_teach(&l, 0, 2, 3, &hooks); /* a batch, and half of one that is left */
    rc_learner_end_task(&l);
    learning_teach(&l, 1, 1, 4, &hooks);
    w->learnt = learning_take(&l);
    for (int i = 0; i < RC_TALK_SLOTS; i++)
        assert_int_equal(w->talk[i].kind, NO_TALK);
    rc_learner_destroy(&l);
    rc_backend_close(be);
    if (w->table.kept != NULL)
        w->table.drop(w->table.kept);
    return NULL;
}

static void learn_in_buckets(int count, const char *backend, const char *method, size_t bucket_bytes, worker *w)
{
    room at;
    pthread_t thread[MOST];
    pthread_barrier_init(&at.all_here, NULL, (unsigned)count);
    for (int i = 0; i < count; i++) {
        w[i] = (worker){
            .table = table_of(i, count), .at = &at, .backend = backend, .method = method, .bucket_bytes = bucket_bytes};
        assert_int_equal(pthread_create(&thread[i], NULL, learn, &w[i]), 0);
    }
    for (int i = 0; i < count; i++)
        pthread_join(thread[i], NULL);
    pthread_barrier_destroy(&at.all_here);
}

static void learn_with(int count, const char *backend, const char *method, worker *w)
{
    learn_in_buckets(count, backend, method, 0, w);
}

/* The largest difference, relative to the largest number. */
static double difference(const float *a, const float *b, size_t count)
{
    double most = 0, largest = 0;
    for (size_t i = 0; i < count; i++) {
        double apart = fabs((double)a[i] - (double)b[i]), size = fabs((double)a[i]);
        if (!(apart <= most))
            most = apart;
        if (size > largest)
            largest = size;
    }
    return most / largest;
}

/* One process, and `count`: the models agree, which are read in float, the losses of every boundary agree, and all
 * processes have the same bits. */
static void compare(const char *backend, const char *method, int count, double most, double most_of_loss)
{
    worker alone, w[MOST];
    learn_with(1, backend, method, &alone);
    learn_with(count, backend, method, w);
    assert_int_equal(alone.collective, 0);
    assert_true(alone.losses >= 2);
    assert_int_equal(alone.losses, w[0].losses);
    assert_int_equal(alone.images, w[0].images);
    for (int i = 0; i < alone.losses; i++)
        if (!(fabs(alone.loss[i] - w[0].loss[i]) <= most_of_loss * fmax(1, fabs(alone.loss[i]))))
            fail_msg("%s, %s, %d processes: loss %d is %.10g, alone %.10g", method, backend, count, i, w[0].loss[i],
                     alone.loss[i]);
    assert_int_equal(alone.learnt.count, w[0].learnt.count);
    double found = difference(alone.learnt.value, w[0].learnt.value, alone.learnt.count);
    if (!(found <= most))
        fail_msg("%s, %s, %d processes: the model differs by %g, expected %g at most", method, backend, count, found,
                 most);
    for (int i = 1; i < count; i++) {
        assert_true(learning_same(w[0].learnt, w[i].learnt));
        assert_int_equal(w[0].collective, w[i].collective);
    }
    for (int i = 0; i < count; i++)
        learning_drop(w[i].learnt);
    learning_drop(alone.learnt);
}

/* Together they have every loss and every source. */
static const char *const methods[] = {"lode", "dgr", "deepinversion-pixels", "cwd-abd", "cwd", "cwd+", "ssil"};
enum { METHODS = sizeof methods / sizeof *methods };

/* In double what the processes do otherwise than one vanishes in rounding: nothing else may be left. No sum has more
 * than some 10^4 terms, each of which rounds by 1e-16, and few of them follow each other. */
static void methods_learn_what_one_process_learns(void **state)
{
    (void)state;
    for (size_t i = 0; i < METHODS; i++)
        compare("reference64", methods[i], 2, 1e-6, 1e-11);
}

/* On the backend that RECOLLECT_TEST_BACKEND names, in float. */
static void methods_learn_alike_on_a_device(void **state)
{
    (void)state;
    for (size_t i = 0; i < METHODS; i++)
        compare(getenv("RECOLLECT_TEST_BACKEND"), methods[i], 2, 1e-4, 1e-4);
}

static void kernels_agree_within_rounding(void **state)
{
    (void)state;
    compare("cpu", "cwd", 2, 1e-4, 1e-4);
    compare("cpu", "cwd", 4, 1e-4, 1e-4);
}

/* However gradients are cut, they travel whole and once: the same bits. Cut, they travel while others do. */
static void buckets_change_no_bit(void **state)
{
    (void)state;
    static const struct {
        const char *backend;
        int count;
    } rows[] = {{"reference64", 1}, {"reference64", 2}, {"cpu", 2}, {"cpu", 4}};
    static const size_t bytes[] = {1, 2000};
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        worker whole[MOST], cut[MOST];
        int count = rows[row].count;
        learn_in_buckets(count, rows[row].backend, "cwd", 0, whole);
        for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) {
            learn_in_buckets(count, rows[row].backend, "cwd", bytes[i], cut);
            for (int p = 0; p < count; p++) {
                assert_true(learning_same(whole[p].learnt, cut[p].learnt));
                assert_true(count == 1 || cut[p].beside > whole[p].beside);
                assert_true(count == 1 || cut[p].collective > whole[p].collective);
                learning_drop(cut[p].learnt);
            }
        }
        for (int p = 0; p < count; p++)
            learning_drop(whole[p].learnt);
    }
}

/* ---- parts of a batch -------------------------------------------------------------------------------------------- */

static void parts_make_the_batch(void **state)
{
    (void)state;
    static const char *const names[] = {"reference", "cpu"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        rc_backend *be;
        assert_int_equal(rc_backend_open(names[i], 1, NULL, &be), RC_OK);
        assert_parts_make_the_batch(be);
        rc_backend_close(be);
    }
}

/* ---- losses on the same logits ----------------------------------------------------------------------------------- */

enum { ROWS = 3, CLASSES = 4, LOGITS = ROWS * CLASSES };

typedef struct loser {
    worker w;
    int talks[6];                               /* of each piece of work below */
    float value[6][2], gradient[6][2 * LOGITS]; /* cross entropy and diversity */
} loser;

/* Memory of a backend. */
typedef struct losing {
    rc_backend *be;
    char *logits, *gradient, *value; /* reals */
    int32_t *labels;
    rc_step *step;
    float *one;
} losing;

/* Two losses of `rows` rows. */
static void lose_once(const losing *m, int rows, float *value, float *gradient)
{
    rc_backend *be = m->be;
    const rc_cross_entropy ce = {
        .n = rows, .stride = CLASSES, .count = CLASSES, .temperature = 1, .reduction = RC_MEAN};
    be->zero(be, m->gradient, (size_t)rows * CLASSES * be->real_bytes);
    be->loss_cross_entropy(be, &ce, m->logits, m->labels, NULL, m->one, m->value, m->gradient);
    be->loss_diversity(be, rows, CLASSES, CLASSES, m->logits, 1e-6f, m->one, m->value + be->real_bytes, m->gradient);
    be->read_real(be, value, m->value, 2);
    be->read_real(be, gradient, m->gradient, (size_t)rows * CLASSES);
}

/* Logits by a dense layer, then the losses: again on the same ones, on new ones of the host, in the next step, after
 * zero, and after a copy. */
static void *lose(void *user)
{
    loser *l = user;
    const bool alone = l->w.table.count == 1;
    const int rows = alone ? 2 * ROWS : ROWS, first = alone ? 0 : l->w.table.index * ROWS;
    float x[2 * ROWS], weight[CLASSES] = {0.5f, -1, 2, 0.25f}, other[2 * LOGITS], one = 1;
    int32_t labels[2 * ROWS];
    void *memory;
    losing m;
    assert_int_equal(rc_backend_open(l->w.backend, 1, NULL, &m.be), RC_OK);
    rc_backend *be = m.be;
    assert_int_equal(rc_workers_join(alone ? NULL : &l->w.table, be), RC_OK);
    assert_int_equal(be->reserve_losses(be, rows, CLASSES, 1, 1, 1), RC_OK);
    assert_int_equal(be->reserve_dense(be, rows, 1, CLASSES), RC_OK);
    assert_int_equal(be->alloc(be, 4096, &memory), RC_OK);
    m.logits = memory;
    m.gradient = m.logits + 512;
    m.value = m.gradient + 512;
    char *given = m.value + 64, *kernel = given + 64, *source = kernel + 64;
    m.labels = (int32_t *)(void *)(source + 512);
    m.one = (float *)(void *)(source + 640);
    m.step = (rc_step *)(void *)(source + 704);
    for (int i = 0; i < rows; i++) {
        x[i] = (float)(first + i) / 4 - 0.5f;
        labels[i] = (first + i) % CLASSES;
    }
    for (int i = 0; i < rows * CLASSES; i++)
        other[i] = (float)((first * CLASSES + i) * 5 % 7) / 7;
    be->write_bytes(be, m.labels, labels, (size_t)rows * sizeof *labels);
    be->write_bytes(be, m.one, &one, sizeof one);
    be->write_real(be, given, x, (size_t)rows);
    be->write_real(be, kernel, weight, CLASSES);
    be->write_real(be, source, other, (size_t)rows * CLASSES);
    for (int piece = 0; piece < 6; piece++) {
        if (piece == 0)
            be->dense_forward(be, rows, 1, CLASSES, given, kernel, NULL, m.logits, CLASSES);
        if (piece == 2)
            be->write_real(be, m.logits, other, (size_t)rows * CLASSES);
        if (piece == 3)
            be->step_begin(be, m.step);
        for (int row = 0; piece == 4 && row < rows; row += ROWS) /* one number of every part */
            be->zero(be, m.logits + (size_t)(row * CLASSES + 1) * be->real_bytes, be->real_bytes);
        if (piece == 5)
            be->copy(be, m.logits, source, (size_t)rows * CLASSES * be->real_bytes);
        int before = l->w.collective;
        lose_once(&m, rows, l->value[piece], l->gradient[piece]);
        l->talks[piece] = l->w.collective - before;
    }
    assert_int_equal(be->sync(be), RC_OK);
    be->release(be, memory);
    rc_backend_close(be);
    return NULL;
}

static void logits_are_gathered_once(void **state)
{
    (void)state;
    /* Logits and labels of all; of known logits the labels alone. */
    static const int talks[6] = {2, 1, 2, 2, 2, 2};
    room at;
    pthread_t thread[2];
    loser both[2], alone = {.w = {.table = {.count = 1}, .backend = "reference64"}};
    pthread_barrier_init(&at.all_here, NULL, 2);
    for (int i = 0; i < 2; i++) {
        both[i] = (loser){.w = {.table = table_of(i, 2), .at = &at, .backend = "reference64"}};
        assert_int_equal(pthread_create(&thread[i], NULL, lose, &both[i]), 0);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    pthread_barrier_destroy(&at.all_here);
    lose(&alone);
    for (int piece = 0; piece < 6; piece++)
        for (int i = 0; i < 2; i++) {
            assert_int_equal(both[i].talks[piece], talks[piece]);
            assert_true(difference(alone.value[piece], both[i].value[piece], 2) < 1e-6);
            assert_true(difference(alone.gradient[piece] + i * LOGITS, both[i].gradient[piece], LOGITS) < 1e-6);
        }
}

/* ---- words ------------------------------------------------------------------------------------------------------- */

typedef struct listener {
    worker w;
    uint32_t number;
    rc_status status;
} listener;

static void *agree(void *user)
{
    listener *l = user;
    rc_backend *be;
    assert_int_equal(rc_backend_open("reference", 1, NULL, &be), RC_OK);
    assert_int_equal(rc_workers_join(&l->w.table, be), RC_OK);
    l->status = rc_agree(be, &l->number);
    rc_backend_close(be);
    return NULL;
}

/* The leader's number counts; 0 stops the others. */
static void the_leader_says_how_far(void **state)
{
    (void)state;
    for (uint32_t said = 0; said < 8; said += 7) {
        room at;
        pthread_t thread[2];
        listener both[2];
        pthread_barrier_init(&at.all_here, NULL, 2);
        for (int i = 0; i < 2; i++) {
            both[i] = (listener){.w = {.table = {.index = i, .count = 2, .lead = lead}, .at = &at},
                                 .number = i == 0 ? said : 3};
            assert_int_equal(pthread_create(&thread[i], NULL, agree, &both[i]), 0);
        }
        for (int i = 0; i < 2; i++)
            pthread_join(thread[i], NULL);
        pthread_barrier_destroy(&at.all_here);
        assert_int_equal(both[1].number, said);
        assert_int_equal(both[1].status, said == 0 ? RC_CANCELLED : RC_OK);
    }
}

static void a_backend_may_have_to_compute_alone(void **state)
{
    (void)state;
    rc_workers three = {.count = 3};
    rc_backend *be;
    assert_int_equal(rc_backend_open("reference", 1, NULL, &be), RC_OK);
    be->join_workers = NULL;
    assert_int_equal(rc_workers_join(&three, be), RC_UNSUPPORTED);
    assert_non_null(strstr(rc_message(), "'reference' computes in one process alone, and there are 3"));
    assert_int_equal(be->parts, 0);
    assert_int_equal(rc_workers_join(NULL, be), RC_OK);
    rc_backend_close(be);
}

int main(void)
{
    const struct CMUnitTest on_a_device[] = {cmocka_unit_test(methods_learn_alike_on_a_device)};
    if (getenv("RECOLLECT_TEST_BACKEND") != NULL)
        return cmocka_run_group_tests(on_a_device, NULL, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(methods_learn_what_one_process_learns),
        cmocka_unit_test(kernels_agree_within_rounding),
        cmocka_unit_test(buckets_change_no_bit),
        cmocka_unit_test(parts_make_the_batch),
        cmocka_unit_test(logits_are_gathered_once),
        cmocka_unit_test(the_leader_says_how_far),
        cmocka_unit_test(a_backend_may_have_to_compute_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
