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
    rc_views views;
    uint8_t *given; /* (batch, h, w, c): the images of which staging has views; NULL: there are none */
    float *more;    /* (batch, classes), then (batch, d): answers to another view; NULL: likewise */
    void *memory;   /* backend: step, order, bytes, logits */
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
    rc_free(NULL, s->given);
    rc_free(NULL, s->more);
    rc_free(NULL, s);
}

rc_status rc_scorer_look(rc_scorer *s, rc_views views)
{
    s->views = views;
    if (!views.mirror && views.shift == 0)
        return RC_OK;
    if (s->given == NULL)
        s->given = rc_alloc_zeroed(NULL, (size_t)s->batch, image_bytes(s));
    if (s->more == NULL)
        s->more = rc_alloc_zeroed(NULL, (size_t)s->batch, (size_t)(s->classes + s->d) * sizeof *s->more);
    return s->given != NULL && s->more != NULL ? RC_OK : RC_OUT_OF_MEMORY;
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

/* Staging shows the n given images mirrored, or not, and moved by (y, x). */
static void show(rc_scorer *s, int n, bool mirrored, int y, int x)
{
    int h = s->augment.h, w = s->augment.w, c = s->augment.c;
    uint8_t outside[sizeof s->augment.mean / sizeof *s->augment.mean], *to = s->staging;
    for (int i = 0; i < c; i++) /* a file may say anything */
        outside[i] = (uint8_t)lrintf(fminf(fmaxf(s->augment.mean[i], 0), 1) * 255);
    for (int row = 0; row < n * h; row++) {
        int from_row = row % h - y;
        for (int column = 0; column < w; column++, to += c) {
            int from = mirrored ? w - 1 - column + x : column - x;
            bool inside = from_row >= 0 && from_row < h && from >= 0 && from < w;
            size_t pixel = inside ? ((size_t)(row - y) * (size_t)w + (size_t)from) * (size_t)c : 0;
            memcpy(to, inside ? s->given + pixel : outside, (size_t)c);
        }
    }
}

static void add(float *values, const float *more, size_t count)
{
    for (size_t i = 0; values != NULL && i < count; i++)
        values[i] += more[i];
}

static void divide(float *values, int divisor, size_t count)
{
    for (size_t i = 0; values != NULL && i < count; i++)
        values[i] /= (float)divisor;
}

/* One batch: n images that lie in staging, which changes. */
static rc_status score_batch(rc_scorer *s, int n, float *logits, float *features)
{
    static const int moves[][2] = {{0, 0}, {-1, 0}, {1, 0}, {0, -1}, {0, 1}};
    int sides = s->views.mirror ? 2 : 1, places = s->views.shift > 0 ? 5 : 1, views = sides * places;
    size_t answers = (size_t)n * (size_t)s->classes, values = (size_t)n * (size_t)s->d;
    if (views > 1)
        memcpy(s->given, s->staging, (size_t)n * image_bytes(s));
    RC_TRY(answer(s, n, logits, features));
    for (int i = 1; i < views; i++) {
        const int *move = moves[i / sides];
        float *more_features = s->more + (size_t)s->batch * (size_t)s->classes;
        show(s, n, i % sides == 1, move[0] * s->views.shift, move[1] * s->views.shift);
        RC_TRY(answer(s, n, s->more, more_features));
        add(logits, s->more, answers);
        add(features, more_features, values);
    }
    if (views > 1) {
        divide(logits, views, answers);
        divide(features, views, values);
    }
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
