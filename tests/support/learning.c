#include "support/learning.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/memory.h"
#include "data/procedural.h"
#include "model/checkpoint.h"
#include "support/succeeds.h"

enum { SIZE = LEARNING_SIZE, CHANNELS = LEARNING_CHANNELS, PIXELS = SIZE * SIZE * CHANNELS };

/* ---- a learner and its tasks ---------------------------------------------------------------------------------- */

rc_settings learning_settings(void)
{
    rc_settings s = rc_settings_default();
    snprintf(s.net, sizeof s.net, "resnet-small");
    snprintf(s.generator, sizeof s.generator, "generator-small");
    s.net_width = 4;
    s.net_blocks = 1;
    s.generator_width = 8;
    s.noise = 8;
    s.batch = 8;
    s.epochs = 4;
    s.refine_epochs = 2;
    s.milestones = 1;
    s.milestone[0] = 1;
    s.inversion_steps = 5;
    s.buffer_size = 20;
    s.vae_width = 16;
    s.pixel_batches = 2;
    s.pixel_steps = 3;
    return s;
}

void learning_create_row(rc_learner *l, rc_backend *be, const rc_method *method, const rc_settings *settings)
{
    rc_augment image = {.h = SIZE, .w = SIZE, .c = CHANNELS, .mean = {0.5f, 0.5f, 0.5f}, .std = {0.3f, 0.3f, 0.3f}};
    SUCCEEDS(rc_learner_create(l, be, settings, method, &image));
}

void learning_create(rc_learner *l, rc_backend *be, const char *method_name, const rc_settings *settings)
{
    const rc_method *method;
    SUCCEEDS(rc_method_find(method_name, &method));
    learning_create_row(l, be, method, settings);
}

/* Images (classes * per_class) of classes from `first` on, in turn. */
uint8_t *learning_images(int first, int classes, int per_class, int32_t **labels)
{
    int count = classes * per_class;
    uint8_t *images = rc_alloc_zeroed(NULL, (size_t)count, PIXELS);
    *labels = rc_alloc_zeroed(NULL, (size_t)count, sizeof **labels);
    assert_true(images != NULL && *labels != NULL);
    for (int i = 0; i < count; i++) {
        (*labels)[i] = first + i % classes;
        uint8_t *image = images + (size_t)i * PIXELS;
        rc_procedural_draw(5, (*labels)[i] * 7, (uint32_t)(i / classes), 0, SIZE, CHANNELS, image);
    }
    return images;
}

void learning_begin(rc_learner *l, int task, int n_new, int per_class)
{
    int32_t *labels;
    int known = l->student.head.classes, first = l->method->replay->replays_old_images ? 0 : known;
    int classes = known + n_new - first;
    uint8_t *images = learning_images(first, classes, per_class, &labels);
    SUCCEEDS(rc_learner_begin_task(l, task, n_new, images, labels, classes * per_class));
    rc_free(NULL, images);
    rc_free(NULL, labels);
}

static rc_status look_away(void *user, const rc_stage_report *report)
{
    (void)user;
    (void)report;
    return RC_OK;
}

const rc_stage_hooks learning_no_hooks = {.boundary = look_away, .interval = 1e9};

void learning_teach(rc_learner *l, int task, int n_new, int per_class, const rc_stage_hooks *hooks)
{
    learning_begin(l, task, n_new, per_class);
    SUCCEEDS(rc_run_stages(l, RC_STAGE_INVERSION, 0, hooks, NULL));
}

void learning_begin_second(rc_learner *l, rc_backend *be, const char *method, const rc_settings *settings)
{
    learning_create(l, be, method, settings);
    learning_teach(l, 0, 2, 8, &learning_no_hooks);
    rc_learner_end_task(l);
    learning_begin(l, 1, 2, 8);
}

/* ---- sources -------------------------------------------------------------------------------------------------- */

static rc_source *of_kind(const rc_learner *l, const rc_source_kind *kind)
{
    return l->source->kind == kind ? l->source : NULL;
}

rc_model *learning_generator(const rc_learner *l)
{
    rc_source *source = of_kind(l, &rc_source_dreams);
    return source != NULL ? ((rc_dream_source *)source)->generator : NULL;
}

const rc_net *learning_generator_net(const rc_learner *l)
{
    rc_source *source = of_kind(l, &rc_source_dreams);
    return source != NULL ? &((rc_dream_source *)source)->net : NULL;
}

rc_pixels *learning_pixels(const rc_learner *l)
{
    rc_source *source = of_kind(l, &rc_source_pixels);
    return source != NULL ? &((rc_pixel_source *)source)->pixels : NULL;
}

rc_vae *learning_vae(const rc_learner *l)
{
    rc_source *source = of_kind(l, &rc_source_generative);
    return source != NULL ? &((rc_generative_source *)source)->vae : NULL;
}

rc_model *learning_old_decoder(const rc_learner *l)
{
    rc_source *source = of_kind(l, &rc_source_generative);
    return source != NULL ? &((rc_generative_source *)source)->old_decoder : NULL;
}

/* ---- bits ----------------------------------------------------------------------------------------------------- */

learning_bits learning_take(const rc_learner *l)
{
    rc_backend *be = l->backend;
    size_t params = l->net.params, running = l->net.running, d = (size_t)l->student.head.d;
    size_t head = (size_t)l->student.head.classes * d, means = (size_t)l->statistics_classes * d;
    size_t covariance = l->covariance != NULL ? d * d : 0;
    const rc_vae *vae = learning_vae(l);
    size_t encoder = vae != NULL ? vae->encoder.net->params : 0, decoder = vae != NULL ? vae->decoder.net->params : 0;
    learning_bits b = {.count = params + running + head + means + covariance + encoder + decoder,
                       .backbone = params + running};
    b.value = rc_alloc_zeroed(NULL, b.count, sizeof *b.value);
    assert_non_null(b.value);
    assert_int_equal(be->sync(be), RC_OK);
    be->read_real(be, b.value, l->student.backbone.param, params);
    be->read_real(be, b.value + params, l->student.backbone.running, running);
    be->read_real(be, b.value + b.backbone, l->student.head.weight, head);
    if (means > 0) {
        be->read_real(be, b.value + b.backbone + head, l->class_mean, means);
        be->read_real(be, b.value + b.backbone + head + means, l->covariance, covariance);
    }
    if (encoder > 0) {
        float *at = b.value + b.backbone + head + means + covariance;
        be->read_real(be, at, vae->encoder.param, encoder);
        be->read_real(be, at + encoder, vae->decoder.param, decoder);
    }
    return b;
}

learning_bits learning_two_tasks(rc_backend *be, const char *method, const rc_settings *settings)
{
    rc_learner l;
    learning_create(&l, be, method, settings);
    for (int task = 0; task < 2; task++) {
        learning_teach(&l, task, 2, 12, &learning_no_hooks);
        rc_learner_end_task(&l);
    }
    learning_bits bits = learning_take(&l);
    rc_learner_destroy(&l);
    return bits;
}

bool learning_same(learning_bits a, learning_bits b)
{
    return a.count == b.count && memcmp(a.value, b.value, a.count * sizeof *a.value) == 0;
}

void learning_drop(learning_bits b)
{
    rc_free(NULL, b.value);
}

/* ---- left and taken up again ---------------------------------------------------------------------------------- */

enum { MOST_STEPS = 64 };

typedef struct saver {
    rc_backend *be;
    const char *folder;
    rc_position at[MOST_STEPS];
    int saved;
} saver;

static void checkpoint_path(const char *folder, int number, char path[64])
{
    snprintf(path, 64, "%s/%d.safetensors", folder, number);
}

static rc_status save_each(void *user, const rc_stage_report *report)
{
    saver *s = user;
    char path[64];
    assert_in_range(s->saved, 0, MOST_STEPS - 1);
    rc_position position = {.task = report->task, .stage = report->stage, .step = report->step};
    if (report->stage == RC_STAGE_ESTIMATION)
        position.step = 0;
    checkpoint_path(s->folder, s->saved, path);
    s->at[s->saved++] = position;
    return rc_checkpoint_save(path, s->be, report->state, &position, "me");
}

typedef struct resumer {
    rc_backend *be;
    rc_safetensors *file;
} resumer;

static rc_status restore(void *user, rc_state *state)
{
    resumer *r = user;
    return rc_checkpoint_restore(r->file, r->be, state);
}

/* A learner that has had its first task. */
static void begin_again(rc_learner *l, rc_backend *be, const char *method, const rc_settings *settings)
{
    learning_create(l, be, method, settings);
    learning_teach(l, 0, 3, 8, &learning_no_hooks);
    rc_learner_end_task(l);
}

/* Takes the second task up where the checkpoint is, and compares the end. */
static rc_stage take_up(rc_backend *be, const char *method, const rc_settings *settings, const char *path,
                        const rc_position *saved, learning_bits end)
{
    rc_learner l;
    rc_position position;
    resumer r = {.be = be};
    SUCCEEDS(rc_checkpoint_open(path, "me", &position, &r.file));
    assert_true(position.stage == saved->stage && position.step == saved->step);
    rc_stage_hooks resuming = {.boundary = look_away, .restore = restore, .user = &r, .interval = 1e9};
    begin_again(&l, be, method, settings);
    learning_begin(&l, 1, 2, 12);
    SUCCEEDS(rc_run_stages(&l, position.stage, position.step, &resuming, NULL));
    learning_bits again = learning_take(&l);
    if (!learning_same(end, again))
        fail_msg("%s, resumed after step %u of %s: the task ends with other bits", method, position.step,
                 rc_stage_name(position.stage));
    learning_drop(again);
    rc_learner_destroy(&l);
    rc_safetensors_close(r.file);
    return position.stage;
}

bool learning_resume_everywhere(rc_backend *be, const char *method, const rc_settings *settings,
                                int taken_up[RC_STAGE_COUNT])
{
    char folder[] = "/tmp/recollect-test-XXXXXX", path[64];
    bool light = getenv("RECOLLECT_TEST_LIGHT") != NULL;
    rc_learner l;
    assert_non_null(mkdtemp(folder));
    saver saves = {.be = be, .folder = folder};
    rc_stage_hooks hooks = {.boundary = save_each, .user = &saves, .interval = 0};
    begin_again(&l, be, method, settings);
    learning_teach(&l, 1, 2, 12, &hooks);
    learning_bits end = learning_take(&l);
    rc_learner_destroy(&l);
    memset(taken_up, 0, RC_STAGE_COUNT * sizeof *taken_up);
    for (int i = 0; i < saves.saved; i++) {
        checkpoint_path(folder, i, path);
        if (!light || i % 5 == 2)
            taken_up[take_up(be, method, settings, path, &saves.at[i], end)]++;
        unlink(path);
    }
    learning_drop(end);
    rmdir(folder);
    return !light;
}
