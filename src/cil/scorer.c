#include "cil/scorer.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"

struct rc_scorer {
    rc_backend *backend;
    const rc_classifier *classifier;
    int batch, d, classes;
    rc_augment augment;
    rc_pass *pass;
    rc_tensor input;
    uint8_t *staging; /* (batch, h, w, c) on the host */
    float *twin;      /* (batch, classes), then (batch, d): answers to mirror images; NULL: there are none */
    void *memory;     /* backend: step, order, bytes, logits */
    rc_step *step;
    int32_t *order;
    uint8_t *bytes;
    void *logits;
};

static size_t image_bytes(const rc_scorer *s)
{
    return (size_t)s->augment.h * (size_t)s->augment.w * (size_t)s->augment.c;
}

static void carve(void *owner, rc_arena *arena)
{
    rc_scorer *s = owner;
    s->step = rc_arena_take(arena, sizeof *s->step);
    s->order = rc_arena_take_array(arena, (size_t)s->batch, sizeof *s->order);
    s->bytes = rc_arena_take_array(arena, (size_t)s->batch, image_bytes(s));
    s->logits = rc_arena_take_array(arena, (size_t)s->batch * (size_t)s->classes, s->backend->real_bytes);
}

static rc_status build(rc_scorer *s)
{
    rc_backend *be = s->backend;
    const rc_net *net = s->classifier->backbone.net;
    rc_pass_settings eval = {.mode = RC_PASS_EVAL, .n = s->batch};
    RC_TRY(rc_pass_create(be, net, &eval, &s->pass));
    RC_TRY(rc_tensor_create(be, s->batch, net->h, net->w, net->c, &s->input));
    RC_TRY(be->reserve_dense(be, s->batch, s->d, s->classes));
    RC_TRY(rc_backend_carve(be, "scorer", carve, s, &s->memory, NULL));
    if (be->sizing)
        return RC_OK; /* the caller that counts adds the staging */
    s->staging = rc_alloc_zeroed(NULL, (size_t)s->batch, image_bytes(s));
    int32_t *order = rc_alloc_zeroed(NULL, (size_t)s->batch, sizeof *order);
    if (s->staging == NULL || order == NULL) {
        rc_free(NULL, order);
        return RC_OUT_OF_MEMORY;
    }
    for (int i = 0; i < s->batch; i++)
        order[i] = i;
    be->write_bytes(be, s->order, order, (size_t)s->batch * sizeof *order);
    rc_free(NULL, order);
    return be->sync(be);
}

rc_status rc_scorer_create(rc_backend *backend, const rc_classifier *classifier, int batch,
                           const rc_augment *normalisation, rc_scorer **scorer)
{
    *scorer = NULL;
    if (batch < 1 || classifier->head.classes < 1)
        return rc_fail(RC_INVALID_ARGUMENT, "cannot score batches of %d images over %d classes", batch,
                       classifier->head.classes);
    rc_scorer *s = rc_alloc_zeroed(NULL, 1, sizeof *s);
    if (s == NULL)
        return RC_OUT_OF_MEMORY;
    const rc_net *net = classifier->backbone.net;
    s->backend = backend;
    s->classifier = classifier;
    s->batch = batch;
    s->d = classifier->head.d;
    s->classes = classifier->head.classes;
    s->augment = (rc_augment){.h = net->h, .w = net->w, .c = net->c}; /* nothing random */
    memcpy(s->augment.mean, normalisation->mean, sizeof s->augment.mean);
    memcpy(s->augment.std, normalisation->std, sizeof s->augment.std);
    rc_status status = build(s);
    if (status != RC_OK) {
        rc_scorer_destroy(s);
        return status;
    }
    *scorer = s;
    return RC_OK;
}

void rc_scorer_destroy(rc_scorer *s)
{
    if (s == NULL)
        return;
    rc_pass_destroy(s->pass);
    rc_tensor_destroy(s->backend, &s->input);
    s->backend->release(s->backend, s->memory);
    rc_free(NULL, s->staging);
    rc_free(NULL, s->twin);
    rc_free(NULL, s);
}

rc_status rc_scorer_mirror(rc_scorer *s, bool mirror)
{
    if (!mirror)
        return RC_OK;
    if (s->twin == NULL)
        s->twin = rc_alloc_zeroed(NULL, (size_t)s->batch, (size_t)(s->classes + s->d) * sizeof *s->twin);
    return s->twin != NULL ? RC_OK : RC_OUT_OF_MEMORY;
}

/* Weights from a file may be finite and still too large. */
static rc_status check_answers(const rc_scorer *s, int n, const float *logits)
{
    for (int i = 0; logits != NULL && i < n * s->classes; i++)
        if (!isfinite(logits[i]))
            return rc_fail(RC_NUMERIC,
                           "the model gives an image %g for class %d, expected a finite number: its "
                           "weights are damaged, or too large",
                           (double)logits[i], i % s->classes);
    return RC_OK;
}

/* What the model says to the n images that lie in staging. */
static rc_status answer(rc_scorer *s, int n, float *logits, float *features)
{
    rc_backend *be = s->backend;
    rc_tensor input = s->input;
    input.n = n;
    input.group_end[0] = n;
    RC_TRY(rc_pass_set_batch(s->pass, n, &n));
    be->write_bytes(be, s->bytes, s->staging, (size_t)n * image_bytes(s));
    be->augment(be, &s->augment, s->bytes, s->order, n, s->step, &input);
    rc_pass_forward(s->pass, &s->classifier->backbone, &input);
    const rc_head *head = &s->classifier->head;
    be->dense_forward(be, n, s->d, s->classes, rc_pass_features(s->pass), head->weight, head->bias, s->logits,
                      s->classes);
    if (logits != NULL)
        be->read_real(be, logits, s->logits, (size_t)n * (size_t)s->classes);
    if (features != NULL)
        be->read_real(be, features, rc_pass_features(s->pass), (size_t)n * (size_t)s->d);
    RC_TRY(be->sync(be)); /* was everything read from the device? */
    return check_answers(s, n, logits);
}

/* Of the n images that lie in staging. */
static void mirror_images(rc_scorer *s, int n)
{
    size_t w = (size_t)s->augment.w, c = (size_t)s->augment.c, rows = (size_t)n * (size_t)s->augment.h;
    for (size_t row = 0; row < rows; row++)
        for (size_t x = 0; x < w / 2; x++)
            for (size_t channel = 0; channel < c; channel++) {
                uint8_t *left = s->staging + (row * w + x) * c + channel;
                uint8_t *right = s->staging + (row * w + w - 1 - x) * c + channel;
                uint8_t kept = *left;
                *left = *right;
                *right = kept;
            }
}

static void average(float *values, const float *twin, size_t count)
{
    for (size_t i = 0; values != NULL && i < count; i++)
        values[i] = (values[i] + twin[i]) / 2;
}

/* One batch: n images that lie in staging, which changes. */
static rc_status score_batch(rc_scorer *s, int n, float *logits, float *features)
{
    RC_TRY(answer(s, n, logits, features));
    if (s->twin == NULL)
        return RC_OK;
    float *twin_features = s->twin + (size_t)s->batch * (size_t)s->classes;
    mirror_images(s, n);
    RC_TRY(answer(s, n, s->twin, twin_features));
    average(logits, s->twin, (size_t)n * (size_t)s->classes);
    average(features, twin_features, (size_t)n * (size_t)s->d);
    return RC_OK;
}

rc_status rc_scorer_run(rc_scorer *s, const uint8_t *images, const int32_t *index, int n, float *logits,
                        float *features)
{
    size_t bytes = image_bytes(s);
    for (int from = 0; from < n; from += s->batch) {
        int now = n - from < s->batch ? n - from : s->batch;
        for (int i = 0; i < now; i++) {
            size_t image = index != NULL ? (size_t)index[from + i] : (size_t)(from + i);
            memcpy(s->staging + (size_t)i * bytes, images + image * bytes, bytes);
        }
        RC_TRY(score_batch(s, now, logits ? logits + (size_t)from * (size_t)s->classes : NULL,
                           features ? features + (size_t)from * (size_t)s->d : NULL));
    }
    return RC_OK;
}
