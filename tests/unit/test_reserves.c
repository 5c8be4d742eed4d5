/* The code that builds a step must reserve what its operations need (backend.h). This test wraps the operations on
 * dense layers, losses and those with a workspace. Each call of every row must lie within one reservation that its
 * own stage has made, in every dimension. Backends use reservations in different ways; this test counts all of
 * them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "cil/scorer.h"
#include "support/learning.h"
#include "support/succeeds.h"

enum { BATCH = 4, PER_CLASS = 5, TASKS = 3, SIZE = LEARNING_SIZE, CHANNELS = LEARNING_CHANNELS };

/* What is reserved, and in which dimensions. */
typedef enum kind { DENSE, LOGITS, IMAGES, RKD, DCE, KINDS } kind;
static const char *const kind_name[KINDS] = {"dense layers", "losses on logits", "losses on images", "RKD", "DCE"};
enum { DIMENSIONS = 4 };

typedef struct extent {
    kind kind;
    int size[DIMENSIONS];
} extent;

enum { MOST = 64 };
static extent reserved[MOST];
static int reservations, looked_at[KINDS];
static const char *row;       /* what is being looked at */
static rc_backend *be, plain; /* with wrapped entries; as it was */

static void forget(void)
{
    reservations = 0;
}

static void keep(extent e)
{
    assert_in_range(reservations, 0, MOST - 1);
    reserved[reservations++] = e;
}

static bool lies_within(const extent *need, const extent *room)
{
    bool within = need->kind == room->kind;
    for (int i = 0; i < DIMENSIONS; i++)
        within = within && need->size[i] <= room->size[i];
    return within;
}

static void need(extent e)
{
    bool found = false;
    for (int i = 0; i < reservations; i++)
        found = found || lies_within(&e, &reserved[i]);
    if (!found)
        fail_msg("%s: nothing is reserved for %s of (%d, %d, %d, %d)", row, kind_name[e.kind], e.size[0], e.size[1],
                 e.size[2], e.size[3]);
    looked_at[e.kind]++;
}

static void need_logits(int n, int classes)
{
    need((extent){LOGITS, {n, classes}});
}

static void need_images(const rc_tensor *x)
{
    need((extent){IMAGES, {x->n, x->h, x->w, x->c}});
}

/* ---- reservations --------------------------------------------------------------------------------------------- */

static rc_status kept_dense(rc_backend *b, int n, int in, int out)
{
    keep((extent){DENSE, {n, in, out}});
    return plain.reserve_dense(b, n, in, out);
}

/* Also a step that has no loss on images says how large they are. */
static rc_status kept_losses(rc_backend *b, int n, int classes, int h, int w, int c)
{
    assert_int_equal(h, SIZE);
    assert_int_equal(w, SIZE);
    assert_int_equal(c, CHANNELS);
    keep((extent){LOGITS, {n, classes}});
    keep((extent){IMAGES, {n, h, w, c}});
    return plain.reserve_losses(b, n, classes, h, w, c);
}

static size_t kept_rkd(rc_backend *b, int n, int d)
{
    keep((extent){RKD, {n, d}});
    return plain.rkd_workspace(b, n, d);
}

static size_t kept_dce(rc_backend *b, int n, int d, int classes)
{
    keep((extent){DCE, {n, d, classes}});
    return plain.dce_workspace(b, n, d, classes);
}

/* ---- operations ----------------------------------------------------------------------------------------------- */

static void seen_forward(rc_backend *b, int n, int in, int out, const void *x, const void *weight, const void *bias,
                         void *y, int y_stride)
{
    need((extent){DENSE, {n, in, out}});
    plain.dense_forward(b, n, in, out, x, weight, bias, y, y_stride);
}

static void seen_backward_data(rc_backend *b, int n, int in, int out, const void *dy, int dy_stride, const void *weight,
                               void *dx, bool add)
{
    need((extent){DENSE, {n, in, out}});
    plain.dense_backward_data(b, n, in, out, dy, dy_stride, weight, dx, add);
}

static void seen_backward_weight(rc_backend *b, int n, int in, int out, const void *x, const void *dy, int dy_stride,
                                 void *dweight, void *dbias, bool add)
{
    need((extent){DENSE, {n, in, out}});
    plain.dense_backward_weight(b, n, in, out, x, dy, dy_stride, dweight, dbias, add);
}

static void seen_cross_entropy(rc_backend *b, const rc_cross_entropy *ce, const void *logits, const int32_t *labels,
                               const void *class_weight, const float *weight, void *value, void *dlogits)
{
    need_logits(ce->n, ce->first + ce->count);
    plain.loss_cross_entropy(b, ce, logits, labels, class_weight, weight, value, dlogits);
}

static void seen_decoupled(rc_backend *b, int n, int stride, int n_old, int count, const void *logits,
                           const int32_t *labels, const float *inter_weight, const float *intra_weight,
                           void *inter_value, void *intra_value, void *dlogits)
{
    need_logits(n, count);
    plain.loss_decoupled(b, n, stride, n_old, count, logits, labels, inter_weight, intra_weight, inter_value,
                         intra_value, dlogits);
}

static void seen_hkd(rc_backend *b, int n, int n_old, const void *logits, int stride, const void *teacher,
                     int teacher_stride, const float *weight, void *value, void *dlogits)
{
    need_logits(n, n_old);
    plain.loss_hkd(b, n, n_old, logits, stride, teacher, teacher_stride, weight, value, dlogits);
}

static void seen_kd(rc_backend *b, const rc_distillation *kd, const void *logits, const void *teacher,
                    const float *weight, void *value, void *dlogits)
{
    need_logits(kd->n, kd->first + kd->student_count);
    plain.loss_kd(b, kd, logits, teacher, weight, value, dlogits);
}

static void seen_feature(rc_backend *b, int n, int d, int n_old, const void *features, const void *teacher_features,
                         const void *head, void *workspace, const float *weight, void *value, void *dfeatures)
{
    need_logits(n, n_old);
    plain.loss_feature(b, n, d, n_old, features, teacher_features, head, workspace, weight, value, dfeatures);
}

static void seen_rkd(rc_backend *b, int n, int d, const void *student, const void *teacher, void *workspace,
                     const float *weight, void *value, void *dstudent, void *dteacher)
{
    need((extent){RKD, {n, d}});
    plain.loss_rkd(b, n, d, student, teacher, workspace, weight, value, dstudent, dteacher);
}

static void seen_dce(rc_backend *b, const rc_dce *dce, const void *features, const int32_t *labels, const float *weight,
                     void *value, void *dfeatures)
{
    need((extent){DCE, {dce->n, dce->d, dce->classes}});
    plain.loss_dce(b, dce, features, labels, weight, value, dfeatures);
}

static void seen_diversity(rc_backend *b, int n, int classes, int stride, const void *logits, float epsilon,
                           const float *weight, void *value, void *dlogits)
{
    need_logits(n, classes);
    plain.loss_diversity(b, n, classes, stride, logits, epsilon, weight, value, dlogits);
}

static void seen_smoothing(rc_backend *b, const rc_tensor *x, const float *weight, void *value, void *dx)
{
    need_images(x);
    plain.loss_smoothing(b, x, weight, value, dx);
}

static void seen_variation(rc_backend *b, const rc_tensor *x, const float *weight, void *value, void *dx)
{
    need_images(x);
    plain.loss_total_variation(b, x, weight, value, dx);
}

static void seen_norm(rc_backend *b, const rc_tensor *x, const float *weight, void *value, void *dx)
{
    need_images(x);
    plain.loss_image_norm(b, x, weight, value, dx);
}

static void seen_reconstruction(rc_backend *b, const rc_tensor *x, const rc_tensor *target, const void *sample_weight,
                                const float *weight, void *value, void *dx)
{
    need_images(x);
    plain.loss_reconstruction(b, x, target, sample_weight, weight, value, dx);
}

static void wrap(void)
{
    be->reserve_dense = kept_dense;
    be->reserve_losses = kept_losses;
    be->rkd_workspace = kept_rkd;
    be->dce_workspace = kept_dce;
    be->dense_forward = seen_forward;
    be->dense_backward_data = seen_backward_data;
    be->dense_backward_weight = seen_backward_weight;
    be->loss_cross_entropy = seen_cross_entropy;
    be->loss_decoupled = seen_decoupled;
    be->loss_hkd = seen_hkd;
    be->loss_kd = seen_kd;
    be->loss_feature = seen_feature;
    be->loss_rkd = seen_rkd;
    be->loss_dce = seen_dce;
    be->loss_diversity = seen_diversity;
    be->loss_smoothing = seen_smoothing;
    be->loss_total_variation = seen_variation;
    be->loss_image_norm = seen_norm;
    be->loss_reconstruction = seen_reconstruction;
}

static int open_wrapped(void **state)
{
    (void)state;
    if (rc_backend_open("cpu", 1, NULL, &be) != RC_OK)
        return -1;
    plain = *be;
    wrap();
    return 0;
}

static int close_wrapped(void **state)
{
    (void)state;
    *be = plain;
    rc_backend_close(be);
    return 0;
}

/* ---- rows ----------------------------------------------------------------------------------------------------- */

/* What inversion and training have reserved is not for the stage that follows; refinement goes on with training's. */
static rc_status end_of_stage(void *user, const rc_stage_report *r)
{
    const rc_learner *l = user;
    bool builds_next = r->stage != RC_STAGE_TRAINING || rc_stage_steps(l, RC_STAGE_REFINEMENT) == 0;
    if (r->step == r->steps && builds_next)
        forget();
    return RC_OK;
}

static void teach(rc_learner *l, int task, int n_new)
{
    rc_stage_hooks hooks = {.boundary = end_of_stage, .user = l};
    forget();
    learning_begin(l, task, n_new, PER_CLASS);
    SUCCEEDS(rc_run_stages(l, RC_STAGE_INVERSION, 0, &hooks, NULL));
    rc_learner_end_task(l);
}

static rc_settings settings(int width)
{
    rc_settings s = learning_settings();
    s.batch = BATCH;
    s.net_width = width;
    s.vae_width = 8;
    s.epochs = 2;
    s.refine_epochs = 1;
    s.inversion_steps = 1;
    s.pixel_steps = 1;
    return s;
}

static void score(const rc_learner *l)
{
    static const uint8_t images[(BATCH + 1) * SIZE * SIZE * CHANNELS];
    float logits[(BATCH + 1) * 8];
    rc_scorer *scorer;
    forget();
    assert_in_range(l->student.head.classes, 1, 8);
    SUCCEEDS(rc_scorer_create(be, &l->student, BATCH, &l->augment, &scorer));
    SUCCEEDS(rc_scorer_run(scorer, images, NULL, BATCH + 1, logits, NULL));
    rc_scorer_destroy(scorer);
}

static void every_row_reserves_what_its_steps_need(void **state)
{
    (void)state;
    static const int n_new[TASKS] = {2, 3, 2};
    rc_settings s = settings(4);
    memset(looked_at, 0, sizeof looked_at);
    for (int i = 0; rc_method_at(i) != NULL; i++) {
        rc_learner l;
        row = rc_method_at(i)->name;
        learning_create(&l, be, row, &s);
        for (int task = 0; task < TASKS; task++)
            teach(&l, task, n_new[task]);
        score(&l);
        rc_learner_destroy(&l);
    }
    for (int k = 0; k < KINDS; k++)
        assert_in_range(looked_at[k], 1, 1000000);
}

/* Separated softmax sums the values of the old tasks: a dense layer as wide as there are tasks, and here features are
 * fewer. */
static void more_tasks_than_features_are_reserved_for(void **state)
{
    (void)state;
    rc_settings s = settings(1);
    rc_learner l;
    row = "ssil";
    learning_create(&l, be, row, &s);
    int d = l.student.head.d;
    assert_in_range(d, 1, 6);
    for (int task = 0; task < d + 2; task++)
        teach(&l, task, 1);
    rc_learner_destroy(&l);
}

/* Without a training around it, whose own reservation covers it. */
static void generative_replay_reserves_for_itself(void **state)
{
    (void)state;
    rc_settings s = settings(4);
    rc_learner l;
    rc_replay *replay;
    rc_tensor input;
    void *memory;
    row = "dgr";
    learning_create(&l, be, row, &s);
    for (int task = 0; task < 2; task++) {
        learning_begin(&l, task, 2, PER_CLASS);
        forget();
        looked_at[IMAGES] = 0;
        SUCCEEDS(rc_learner_replay(&l, 0, &replay));
        SUCCEEDS(rc_tensor_create(be, BATCH + replay->batch, SIZE, SIZE, CHANNELS, &input));
        SUCCEEDS(be->alloc(be, sizeof(rc_step) + RC_LOSS_COUNT * be->real_bytes, &memory));
        be->zero(be, memory, sizeof(rc_step));
        be->zero(be, input.raw, rc_act_count(be, input.n, SIZE, SIZE, CHANNELS) * be->act_bytes);
        replay->loss = (char *)memory + sizeof(rc_step);
        replay->table->learn(replay, memory, &input, NULL);
        SUCCEEDS(be->sync(be));
        assert_int_equal(looked_at[IMAGES], 1);
        rc_replay_destroy(replay);
        rc_tensor_destroy(be, &input);
        be->release(be, memory);
        SUCCEEDS(rc_run_stages(&l, RC_STAGE_INVERSION, 0, &learning_no_hooks, NULL));
        rc_learner_end_task(&l);
    }
    rc_learner_destroy(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_reserves_what_its_steps_need),
        cmocka_unit_test(more_tasks_than_features_are_reserved_for),
        cmocka_unit_test(generative_replay_reserves_for_itself),
    };
    return cmocka_run_group_tests(tests, open_wrapped, close_wrapped);
}
