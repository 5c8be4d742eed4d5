/* What a stage tells about its last step: losses and their weighted sum, the labels of what was replayed, dreams; and
 * that the host waits for one copy to tell it. Then the picture that is drawn of the dreams. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "cil/stage.h"
#include "data/canvas.h"
#include "experiment/dream_picture.h"
#include "support/cpu_backend.h"
#include "support/failing_heap.h"
#include "support/learning.h"
#include "support/succeeds.h"

enum { MOST_ROWS = 256 };

static rc_backend plain;                /* as it was opened */
static int32_t batch_labels[MOST_ROWS]; /* of the last step of training */
static int rows, reads;

static int open_and_keep(void **state)
{
    int failed = open_backend(state);
    plain = failed ? plain : *be;
    return failed;
}

static void noted_labels(rc_backend *b, int n, const int32_t *labels, int classes, int32_t *count)
{
    assert_in_range(n, 1, MOST_ROWS);
    memcpy(batch_labels, labels, (size_t)n * sizeof *labels);
    rows = n;
    plain.count_labels(b, n, labels, classes, count);
}

static void counted_read(rc_backend *b, void *to, const void *from, size_t bytes)
{
    reads++;
    plain.read_bytes(b, to, from, bytes);
}

static void counted_read_real(rc_backend *b, float *to, const void *from, size_t count)
{
    reads++;
    plain.read_real(b, to, from, count);
}

/* A report counts what is read after the steps before it. */
static rc_status counted_repeat(rc_backend *b, void (*step)(void *), void *context, int times)
{
    rc_status status = plain.repeat(b, step, context, times);
    reads = 0;
    return status;
}

/* ---- reports ----------------------------------------------------------------------------------------------------- */

typedef struct visit {
    const rc_learner *learner;
    int reports[RC_STAGE_COUNT];
} visit;

static void expect_total(const rc_learner *l, const rc_stage_report *r)
{
    float weight[RC_LOSS_COUNT];
    bool active[RC_LOSS_COUNT];
    double total = 0;
    if (r->stage == RC_STAGE_INVERSION)
        rc_inversion_weights(l, weight, active);
    else
        rc_stage_weights(l, r->stage, weight, active);
    for (int i = 0; i < RC_LOSS_COUNT; i++) {
        assert_int_equal(!isnan(r->loss[i]), active[i]);
        total += active[i] ? (double)weight[i] * r->loss[i] : 0;
    }
    assert_true(r->total_loss == total);
}

static rc_status examine(void *user, const rc_stage_report *r)
{
    visit *v = user;
    v->reports[r->stage]++;
    assert_int_equal(r->inversion != NULL, r->stage == RC_STAGE_INVERSION);
    if (r->stage == RC_STAGE_ESTIMATION) {
        assert_true(isnan(r->total_loss) && isnan(r->learning_rate) && r->replays == 0);
        return RC_OK;
    }
    assert_int_equal(reads, 1);
    expect_total(v->learner, r);
    if (r->stage == RC_STAGE_INVERSION) {
        assert_int_equal(r->replays, rc_inversion_dreams(r->inversion)->n);
        assert_memory_equal(r->replayed, rc_inversion_look(r->inversion).labels,
                            (size_t)r->replays * sizeof *r->replayed);
        return RC_OK;
    }
    int batch = v->learner->settings.batch;
    assert_int_equal(r->replays, v->learner->has.replay ? batch : 0);
    assert_int_equal(rows, batch + r->replays);
    if (r->replays > 0)
        assert_memory_equal(r->replayed, batch_labels + batch, (size_t)r->replays * sizeof *r->replayed);
    else
        assert_null(r->replayed);
    return RC_OK;
}

static void reports_tell_losses_and_labels_with_one_read(void **state)
{
    (void)state;
    static const char *const methods[] = {"cwd", "rdfcil", "abd", "deepinversion-pixels",
                                          "er",  "dgr",    "lwf", "finetune"};
    rc_settings s = learning_settings();
    s.batch = 6; /* neither it nor twice of it is a side of the images */
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        rc_learner l;
        visit v = {.learner = &l};
        rc_stage_hooks hooks = {.boundary = examine, .user = &v, .interval = 0};
        learning_begin_second(&l, be, methods[i], &s);
        be->repeat = counted_repeat;
        be->count_labels = noted_labels;
        be->read_bytes = counted_read;
        be->read_real = counted_read_real;
        rc_status status = rc_run_stages(&l, RC_STAGE_INVERSION, 0, &hooks, NULL);
        *be = plain;
        SUCCEEDS(status);
        assert_int_equal(v.reports[RC_STAGE_TRAINING], rc_stage_steps(&l, RC_STAGE_TRAINING));
        for (int stage = 0; stage < RC_STAGE_ESTIMATION; stage++)
            assert_int_equal(v.reports[stage] > 0, rc_stage_steps(&l, (rc_stage)stage) > 0);
        rc_learner_destroy(&l);
    }
}

/* The last labels of a block are those that are reported, be it one. */
static void labels_lie_at_the_end_of_a_block(void **state)
{
    (void)state;
    for (int replays = 0; replays < 3; replays++) {
        rc_learner l = {.backend = be};
        rc_stage_run run = {.learner = &l};
        SUCCEEDS(rc_stage_reserve_labels(&run, 5, replays));
        const int32_t *end = (const int32_t *)(void *)((char *)run.block + rc_losses_bytes(be)) + 5;
        assert_true(run.labels == 5 && run.report.replays == replays);
        assert_ptr_equal(run.report.replayed, replays > 0 ? end - replays : NULL);
        rc_free(NULL, run.block);
    }
}

/* Whichever allocation fails, once: it is told, and nothing is held. */
static void stages_without_memory_are_told(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    s.epochs = 2;
    s.refine_epochs = 1;
    s.inversion_steps = 1;
    rc_learner l;
    learning_begin_second(&l, be, "cwd", &s);
    SUCCEEDS(rc_run_stages(&l, RC_STAGE_INVERSION, 0, &learning_no_hooks, NULL)); /* workspace grows, and stays */
    size_t held = rc_bytes_allocated();
    int nth = 0;
    for (bool failed = true; failed; nth++) {
        allocation_to_fail = nth + 1;
        rc_status status = rc_run_stages(&l, RC_STAGE_INVERSION, 0, &learning_no_hooks, NULL);
        failed = allocation_failed();
        assert_int_equal(status, failed ? RC_OUT_OF_MEMORY : RC_OK);
        assert_int_equal(rc_bytes_allocated(), held);
    }
    assert_true(nth > 20);
    rc_learner_destroy(&l);
}

/* ---- a run without a block --------------------------------------------------------------------------------------- */

/* Whole lines of 64 bytes: the labels that follow begin one. */
static void values_fill_whole_lines(void **state)
{
    (void)state;
    static const size_t real_bytes[] = {1, 4, 8, 27, 64, 65};
    for (size_t i = 0; i < sizeof real_bytes / sizeof *real_bytes; i++) {
        const rc_backend some = {.real_bytes = real_bytes[i]};
        assert_int_equal(rc_losses_bytes(&some), (RC_LOSS_COUNT * real_bytes[i] + 63) / 64 * 64);
    }
}

static void only_losses_are_read(rc_backend *b, void *to, const void *from, size_t bytes)
{
    assert_int_equal(bytes, RC_LOSS_COUNT * b->real_bytes);
    reads++;
    plain.read_bytes(b, to, from, bytes);
}

static void no_step(void *context)
{
    (void)context;
}

static rc_status expect_no_total(void *user, const rc_stage_report *r)
{
    (void)user;
    assert_true(isnan(r->total_loss) && r->replays == 0 && r->replayed == NULL);
    return RC_OK;
}

/* It has losses and nothing behind them; without weights, or without a loss of its own, there is no sum of them. */
static void a_run_without_a_block_reads_losses_alone(void **state)
{
    (void)state;
    static const float weight[RC_LOSS_COUNT] = {1};
    void *loss;
    SUCCEEDS(be->alloc(be, RC_LOSS_COUNT * be->real_bytes, &loss));
    for (int weighted = 0; weighted < 2; weighted++) {
        rc_learner l = {.backend = be};
        rc_stage_hooks hooks = {.boundary = expect_no_total, .interval = 0};
        rc_stage_run run = {.learner = &l,
                            .hooks = &hooks,
                            .step = no_step,
                            .context = &l,
                            .loss = loss,
                            .weight = weighted ? weight : NULL,
                            .active = {[RC_LOSS_CE] = !weighted},
                            .report = {.steps = 3}};
        be->read_bytes = only_losses_are_read;
        reads = 0;
        rc_status status = rc_stage_repeat(&run, 0, 3);
        *be = plain;
        SUCCEEDS(status);
        assert_int_equal(reads, 3);
    }
    be->release(be, loss);
}

/* ---- a backend of doubles ---------------------------------------------------------------------------------------- */

static rc_status note_total(void *user, const rc_stage_report *r)
{
    expect_total(user, r);
    for (int i = 0; i < r->replays; i++)
        assert_in_range(r->replayed[i], 0, 1);
    return RC_OK;
}

static rc_status expect_halves(void *user, const rc_stage_report *r)
{
    (void)user;
    for (int i = 0; i < RC_LOSS_COUNT; i++)
        assert_true(r->loss[i] == i + 0.5);
    return RC_OK;
}

static void expect_values(rc_backend *b)
{
    double values[RC_LOSS_COUNT];
    void *loss;
    rc_learner l = {.backend = b};
    rc_stage_hooks hooks = {.boundary = expect_halves};
    SUCCEEDS(b->alloc(b, RC_LOSS_COUNT * b->real_bytes, &loss));
    rc_stage_run run = {.learner = &l, .hooks = &hooks, .step = no_step, .loss = loss, .report = {.steps = 1}};
    for (int i = 0; i < RC_LOSS_COUNT; i++) {
        values[i] = i + 0.5;
        run.active[i] = true;
    }
    b->write_real64(b, loss, values, RC_LOSS_COUNT);
    SUCCEEDS(rc_stage_repeat(&run, 0, 1));
    b->release(b, loss);
}

static void reals_of_eight_bytes_are_read_as_such(void **state)
{
    (void)state;
    rc_backend *wide;
    rc_settings s = learning_settings();
    rc_learner l;
    rc_stage_hooks hooks = {.boundary = note_total, .user = &l, .interval = 0};
    SUCCEEDS(rc_backend_open("reference64", 1, NULL, &wide));
    assert_int_equal(wide->real_bytes, 8);
    learning_begin_second(&l, wide, "cwd", &s);
    SUCCEEDS(rc_stage_inversion(&l, 0, &hooks));
    rc_learner_destroy(&l);
    expect_values(wide);
    rc_backend_close(wide);
}

/* ---- pictures ---------------------------------------------------------------------------------------------------- */

static char *const names[] = {"cat", "dog with a name that is far too long", "new", "newer"};
enum { GAP = 4, SIDE = 64, NAME = 10 };

/* The dream at that place of the picture, which is enlarged, as it was before. */
static void take_back(const rc_image *canvas, int place, int h, int w, int c, uint8_t *image)
{
    int scale = SIDE / w, left = GAP + place % 8 * (SIDE + GAP), top = GAP + place / 8 * (h * scale + NAME + 2 * GAP);
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++)
            for (int k = 0; k < c; k++)
                image[(y * w + x) * c + k] = canvas->pixels[((size_t)(top + y * scale + scale - 1) * (size_t)canvas->w +
                                                             (size_t)(left + x * scale + scale - 1)) *
                                                                3 +
                                                            (size_t)k];
}

/* Is there ink below the dream at that place? */
static bool has_name(const rc_image *canvas, int place)
{
    int left = GAP + place % 8 * (SIDE + GAP), top = GAP + place / 8 * (SIDE + NAME + 2 * GAP) + SIDE;
    for (int y = top; y < top + NAME + GAP; y++)
        for (int x = left; x < left + SIDE; x++)
            if (canvas->pixels[((size_t)y * (size_t)canvas->w + (size_t)x) * 3] < 128)
                return true;
    return false;
}

static void expect_dreams(const rc_learner *l, const rc_stage_report *r, const rc_dream_picture *p)
{
    const rc_tensor *made = rc_inversion_dreams(r->inversion);
    enum { VALUES = LEARNING_SIZE * LEARNING_SIZE * LEARNING_CHANNELS };
    static double pixels[MOST_ROWS * VALUES];
    static uint8_t shown[VALUES], expected[VALUES];
    bool used[MOST_ROWS] = {false};
    int of_class[2] = {0}, shown_of[2] = {0};
    be->read_act(be, pixels, made, made->raw);
    for (int i = 0; i < r->replays; i++)
        of_class[r->replayed[i]]++;
    for (int place = 0; place < p->count; place++) {
        assert_true(place == 0 || p->label[place] >= p->label[place - 1]);
        take_back(&p->canvas, place, LEARNING_SIZE, LEARNING_SIZE, LEARNING_CHANNELS, shown);
        int found = -1;
        for (int i = 0; i < r->replays && found < 0; i++) {
            rc_learner_show(l, pixels + i * VALUES, expected);
            if (!used[i] && r->replayed[i] == p->label[place] && memcmp(shown, expected, VALUES) == 0)
                found = i;
        }
        assert_true(found >= 0);
        for (int i = 0; i < found; i++) /* those of a class are its first ones, in their order */
            assert_true(used[i] || r->replayed[i] != p->label[place]);
        assert_true(has_name(&p->canvas, place));
        used[found] = true;
        shown_of[p->label[place]]++;
    }
    /* As many of each class, unless there are no more. */
    for (int k = 0; k < 2; k++)
        assert_true(shown_of[k] == of_class[k] || shown_of[k] + 1 >= shown_of[1 - k]);
}

static void draw_and_expect(const rc_learner *l, const rc_stage_report *r)
{
    rc_dream_picture p;
    size_t before = rc_bytes_allocated();
    for (int nth = 1, failed = 1; failed; nth++) {
        allocation_to_fail = nth;
        rc_status status = rc_dream_picture_draw(l, r, names, &p);
        failed = allocation_failed();
        assert_int_equal(status, failed ? RC_OUT_OF_MEMORY : RC_OK);
        if (failed)
            assert_int_equal(rc_bytes_allocated(), before);
        assert_true(failed || nth > 4);
    }
    int row = p.count < 8 ? p.count : 8, side = l->augment.w * (SIDE / l->augment.w);
    assert_int_equal(p.count, r->replays < 64 ? r->replays : 64);
    assert_int_equal(p.canvas.w, GAP + row * (side + GAP));
    assert_int_equal(p.canvas.h, GAP + (p.count + 7) / 8 * (side + NAME + 2 * GAP));
    expect_dreams(l, r, &p);
    rc_image_free(&p.canvas);
}

/* As the model labels them; one of ten of the second class; the last one alone; by turns. */
static rc_status draw(void *user, const rc_stage_report *report)
{
    int32_t label[MOST_ROWS];
    rc_stage_report r = *report;
    draw_and_expect(user, report);
    r.replayed = label;
    for (int way = 0; way < 3; way++) {
        for (int i = 0; i < r.replays; i++)
            label[i] = way == 0 ? i % 10 == 3 : way == 1 ? i == r.replays - 1 : i % 2;
        draw_and_expect(user, &r);
    }
    return RC_OK;
}

static void a_picture_shows_dreams_of_every_class(void **state)
{
    (void)state;
    static const int batches[] = {5, 17, 100};
    for (int i = 0; i < 3; i++) {
        rc_settings s = learning_settings();
        rc_learner l;
        rc_stage_hooks hooks = {.boundary = draw, .user = &l, .interval = 1e9};
        s.batch = batches[i];
        learning_begin_second(&l, be, "cwd", &s);
        SUCCEEDS(rc_stage_inversion(&l, 0, &hooks));
        rc_learner_destroy(&l);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reports_tell_losses_and_labels_with_one_read),
        cmocka_unit_test(labels_lie_at_the_end_of_a_block),
        cmocka_unit_test(stages_without_memory_are_told),
        cmocka_unit_test(values_fill_whole_lines),
        cmocka_unit_test(a_run_without_a_block_reads_losses_alone),
        cmocka_unit_test(reals_of_eight_bytes_are_read_as_such),
        cmocka_unit_test(a_picture_shows_dreams_of_every_class),
    };
    return cmocka_run_group_tests(tests, open_and_keep, close_backend);
}
