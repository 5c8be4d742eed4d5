/* Cases of batches and random numbers. */
#include "check/case.h"

typedef struct data_case {
    rc_augment augment;
    int n, count; /* of the batch; of the data set */
    uint32_t stream;
    rc_lazy out;
    int images, order, labels, gathered, step;
    int range; /* of a roll */
    rc_lazy moved;
    int dmoved, dx;
    rc_mix mix;
    int partner, share;
    rc_vary vary;
    int varied;
} data_case;

static void draw_step(rc_case *c, data_case *p, uint32_t batches)
{
    c->step.seed = ((uint64_t)rc_case_below(c, UINT32_MAX) << 32) + rc_case_below(c, UINT32_MAX);
    c->step.task = rc_case_below(c, 20);
    c->step.step = rc_case_below(c, 100000);
    c->step.batch = rc_case_below(c, batches);
    p->step = rc_case_buffer(c, "step", RC_BUFFER_STEP, RC_IN, 1, 1, 1, 1);
}

/* The order of an epoch: indices into the data set, batches of n. */
static int draw_order(rc_case *c, const data_case *p, int batches)
{
    return rc_case_labels(c, "order", batches * p->n, p->count);
}

static void draw_bytes(rc_case *c, data_case *p, int batches)
{
    const rc_augment *a = &p->augment;
    p->images = rc_case_buffer(c, "images", RC_BUFFER_BYTE, RC_IN, p->count, a->h, a->w, a->c);
    for (size_t i = 0; i < c->buffer[p->images].count; i++)
        rc_case_set(c, p->images, i, rc_case_below(c, 256));
    p->order = draw_order(c, p, batches);
    draw_step(c, p, (uint32_t)batches);
}

static void draw_images(rc_case *c, data_case *p, int batches)
{
    const rc_augment *a = &p->augment;
    draw_bytes(c, p, batches);
    p->out = rc_case_plain(c, "out", RC_OUT, p->n, a->h, a->w, a->c, (rc_groups){1, {p->n}});
}

static void draw_augment(rc_case *c)
{
    data_case *p = rc_case_parameters(c);
    rc_augment *a = &p->augment;
    a->h = RC_CHOOSE(c, 1, 5, 8, 28, 32, 80); /* 80: more than a block of the GPU holds */
    a->w = rc_case_chance(c, 80) ? a->h : 7;
    a->c = RC_CHOOSE(c, 1, 3, 3);
    a->pad = RC_CHOOSE(c, 0, 1, 4);
    a->flip = rc_case_chance(c, 60);
    a->zoom = rc_case_chance(c, 40) ? rc_case_below(c, 0xe6666667u) : 0; /* up to 0.9 */
    a->colour = rc_case_chance(c, 40) ? (float)rc_case_uniform(c, 0, 1) : 0;
    a->stream = rc_case_below(c, 100);
    for (int k = 0; k < a->c; k++) {
        a->mean[k] = (float)rc_case_uniform(c, 0, 0.6);
        a->std[k] = (float)rc_case_uniform(c, 0.2, 1);
    }
    p->n = RC_CHOOSE(c, 1, 4, 9);
    p->count = 10;
    rc_case_say(c, "(%d,%d,%d,%d) pad %d%s zoom %.2f colour %.2f", p->n, a->h, a->w, a->c, a->pad,
                a->flip ? " flip" : "", a->zoom * 0x1p-32, (double)a->colour);
    draw_images(c, p, 3);
    if (a->colour > 0)
        c->buffer[p->out.raw].magnitude = 1; /* little contrast may leave nearly the mean, which is then taken off */
}

static void run_augment(rc_run *r)
{
    const data_case *p = rc_run_parameters(r);
    rc_tensor out = rc_run_tensor(r, &p->out);
    r->be->augment(r->be, &p->augment, rc_at(r, p->images), rc_at(r, p->order), p->n, rc_at(r, p->step), &out);
}

static bool bench_augment(rc_case *c, int index, int n)
{
    data_case *p = rc_case_parameters(c);
    if (index > 1 || c->net->layer[0].kind != RC_LAYER_CONV)
        return false;
    p->augment = (rc_augment){.h = c->net->h,
                              .w = c->net->w,
                              .c = 3,
                              .pad = 4,
                              .flip = true,
                              .mean = {0.5f, 0.5f, 0.5f},
                              .std = {0.25f, 0.25f, 0.25f}};
    if (index == 1) {
        p->augment.zoom = 0x4ccccccd; /* 0.3 */
        p->augment.colour = 0.3f;
    }
    p->n = n;
    p->count = n;
    c->bytes = (double)n * c->net->h * c->net->w * (3 + 4 * 4); /* bytes in, four floats out */
    rc_case_say(c, "%d x %dx%dx3%s", n, c->net->h, c->net->w, index == 1 ? " zoom colour" : "");
    draw_images(c, p, 1);
    return true;
}

/* Normals may differ by a few ulp between machines: the tolerance of a short sum. */
static void draw_normal(rc_case *c)
{
    data_case *p = rc_case_parameters(c);
    int n = 1 + (int)rc_case_below(c, 9), h = RC_CHOOSE(c, 1, 1, 3), channels = RC_CHOOSE(c, 1, 2, 3, 7, 100, 1000);
    p->stream = rc_case_below(c, 100);
    rc_case_say(c, "(%d,%d,%d,%d)", n, h, h, channels);
    draw_step(c, p, 10);
    p->out = rc_case_plain(c, "out", RC_OUT, n, h, h, channels, (rc_groups){1, {n}});
}

static void run_normal(rc_run *r)
{
    const data_case *p = rc_run_parameters(r);
    rc_tensor out = rc_run_tensor(r, &p->out);
    r->be->random_normal(r->be, p->stream, rc_at(r, p->step), &out);
}

static bool bench_normal(rc_case *c, int index, int n)
{
    data_case *p = rc_case_parameters(c);
    if (index > 0 || c->net->layer[0].kind != RC_LAYER_LINEAR)
        return false;
    c->bytes = (double)n * 1000 * 4;
    rc_case_say(c, "%d x 1000", n);
    draw_step(c, p, 1);
    p->out = rc_case_plain(c, "out", RC_OUT, n, 1, 1, 1000, (rc_groups){1, {n}});
    return true;
}

static void draw_gather(rc_case *c)
{
    data_case *p = rc_case_parameters(c);
    p->n = RC_CHOOSE(c, 1, 7, 128);
    p->count = RC_CHOOSE(c, 1, 50, 500);
    rc_case_say(c, "n %d of %d", p->n, p->count);
    p->labels = rc_case_labels(c, "labels", p->count, 100);
    p->order = draw_order(c, p, 4);
    draw_step(c, p, 4);
    p->gathered = rc_case_buffer(c, "gathered", RC_BUFFER_INT, RC_OUT, p->n, 1, 1, 1);
}

static void run_gather(rc_run *r)
{
    const data_case *p = rc_run_parameters(r);
    r->be->gather_labels(r->be, rc_at(r, p->labels), rc_at(r, p->order), p->n, rc_at(r, p->step),
                         rc_at(r, p->gathered));
}

/* Moved, and its gradient moved back. */
static void draw_roll(rc_case *c)
{
    data_case *p = rc_case_parameters(c);
    int h = RC_CHOOSE(c, 1, 3, 8, 32), w = rc_case_chance(c, 70) ? h : 5, channels = RC_CHOOSE(c, 1, 3, 3, 9);
    p->n = 1 + (int)rc_case_below(c, 5);
    p->range = RC_CHOOSE(c, 0, 1, 2, 7);
    p->stream = rc_case_below(c, 100);
    rc_case_say(c, "(%d,%d,%d,%d) by %d", p->n, h, w, channels, p->range);
    draw_step(c, p, 10);
    p->out = rc_case_plain(c, "x", RC_IN, p->n, h, w, channels, (rc_groups){1, {p->n}});
    p->moved = rc_case_plain(c, "moved", RC_OUT, p->n, h, w, channels, (rc_groups){1, {p->n}});
    p->dmoved = c->buffer[p->moved.raw].cotangent = rc_case_act(c, "dmoved", RC_IN, p->n, h, w, channels);
    p->dx = rc_case_gradient(c, rc_case_act(c, "dx", RC_OUT, p->n, h, w, channels), p->out.raw, 1);
}

static void run_roll(rc_run *r)
{
    const data_case *p = rc_run_parameters(r);
    rc_tensor x = rc_run_tensor(r, &p->out), gradient = x;
    gradient.raw = rc_at(r, p->dmoved);
    r->be->roll(r->be, p->stream, p->range, false, rc_at(r, p->step), &x, rc_at(r, p->moved.raw));
    r->be->roll(r->be, p->stream, p->range, true, rc_at(r, p->step), &gradient, rc_at(r, p->dx));
}

static void draw_vary(rc_case *c)
{
    data_case *p = rc_case_parameters(c);
    rc_vary *v = &p->vary;
    v->trivial = rc_case_chance(c, 80);
    v->turns = !v->trivial || rc_case_chance(c, 50);
    v->h = RC_CHOOSE(c, 1, 5, 8, 32, 40);
    v->w = v->turns || rc_case_chance(c, 60) ? v->h : 7;
    v->c = RC_CHOOSE(c, 1, 3, 3);
    v->n_old = RC_CHOOSE(c, 0, 3);
    v->classes = v->n_old + 4;
    v->stream = rc_case_below(c, 100);
    p->augment = (rc_augment){.h = v->h, .w = v->w, .c = v->c};
    p->n = RC_CHOOSE(c, 1, 4, 9);
    p->count = 10;
    rc_case_say(c, "(%d,%d,%d,%d)%s%s old %d", p->n, v->h, v->w, v->c, v->trivial ? " trivial" : "",
                v->turns ? " turns" : "", v->n_old);
    draw_bytes(c, p, 3);
    p->labels = rc_case_labels(c, "labels", p->count, 4);
    for (int i = 0; c->status == RC_OK && i < p->count; i++)
        c->buffer[p->labels].host[i] += v->n_old;
    p->varied = rc_case_buffer(c, "varied", RC_BUFFER_BYTE, RC_OUT, p->n, v->h, v->w, v->c);
    p->partner = v->turns ? rc_case_buffer(c, "turned", RC_BUFFER_INT, RC_OUT, p->n, 1, 1, 1) : -1;
}

static void run_vary(rc_run *r)
{
    const data_case *p = rc_run_parameters(r);
    r->be->vary(r->be, &p->vary, rc_at(r, p->images), rc_at(r, p->order), p->n, rc_at(r, p->step), rc_at(r, p->labels),
                rc_at(r, p->varied), rc_at(r, p->partner));
}

/* Images that change in place. */
static void draw_mix(rc_case *c)
{
    data_case *p = rc_case_parameters(c);
    rc_mix *m = &p->mix;
    int h = RC_CHOOSE(c, 1, 5, 8, 32), w = rc_case_chance(c, 70) ? h : 7, channels = RC_CHOOSE(c, 1, 3, 3);
    bool mixes = rc_case_chance(c, 80);
    p->n = RC_CHOOSE(c, 1, 2, 7, 16);
    m->stream = rc_case_below(c, 100);
    m->cutout = mixes ? RC_CHOOSE(c, 0, 0, 3, 40) : RC_CHOOSE(c, 1, 3, 8, 40);
    if (mixes && rc_case_chance(c, 65))
        m->mixup = (float)rc_case_uniform(c, 0.1, 2);
    if (mixes && (m->mixup <= 0 || rc_case_chance(c, 50)))
        m->cutmix = (float)rc_case_uniform(c, 0.1, 2);
    rc_case_say(c, "(%d,%d,%d,%d) cutout %d mixup %.2f cutmix %.2f", p->n, h, w, channels, m->cutout, (double)m->mixup,
                (double)m->cutmix);
    draw_step(c, p, 10);
    p->labels = rc_case_labels(c, "labels", p->n, 100);
    p->out = rc_case_plain(c, "images", RC_IN_OUT, p->n, h, w, channels, (rc_groups){1, {p->n}});
    p->partner = p->share = -1;
    if (!mixes)
        return;
    p->partner = rc_case_buffer(c, "partner", RC_BUFFER_INT, RC_OUT, p->n, 1, 1, 1);
    p->share = rc_case_real(c, "share", RC_OUT, 1, p->n);
}

static void run_mix(rc_run *r)
{
    const data_case *p = rc_run_parameters(r);
    rc_tensor images = rc_run_tensor(r, &p->out);
    r->be->mix(r->be, &p->mix, rc_at(r, p->labels), rc_at(r, p->step), &images, rc_at(r, p->partner),
               rc_at(r, p->share));
}

static const rc_operation operations[] = {
    {"augment", "augment", 20, 100, sizeof(data_case), draw_augment, NULL, run_augment, bench_augment},
    {"vary", "vary", 20, 100, sizeof(data_case), draw_vary, NULL, run_vary, NULL},
    {"mix", "mix", 20, 100, sizeof(data_case), draw_mix, NULL, run_mix, NULL},
    {"random_normal", "random_normal", 20, 100, sizeof(data_case), draw_normal, NULL, run_normal, bench_normal},
    {"gather_labels", "gather_labels", 10, 50, sizeof(data_case), draw_gather, NULL, run_gather, NULL},
    {"roll", "roll", 20, 80, sizeof(data_case), draw_roll, NULL, run_roll, NULL},
};
const rc_operation_list rc_cases_data = {operations, sizeof operations / sizeof *operations};
