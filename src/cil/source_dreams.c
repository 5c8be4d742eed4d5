/* Dreams (docs/methods/rdfcil.md, cwd.md): a generator is trained, against the frozen old model, to make images
 * that the old model is sure about, of all its classes, with the statistics it saw in training and, for CwD, the
 * class means and the covariance of its features. Then a draw is noise and one pass of every generator in eval mode,
 * fresh in every step; nothing is stored. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "cil/learner.h"
#include "cil/sources.h"
#include "nn/nets.h"
#include "nn/pass.h"

/* ---- replay ----------------------------------------------------------------------------------------------------- */

/* A generator and its rows of this process's part of a batch. */
typedef struct dreamer {
    const rc_model *generator;
    rc_pass *pass;
    rc_tensor noise; /* these rows of all noise */
} dreamer;

typedef struct dreams {
    rc_replay replay;
    rc_backend *backend;
    uint32_t stream;
    rc_tensor noise; /* (batch, 1, 1, noise) */
    int dreamers;    /* those with rows */
    dreamer dreamer[RC_GENERATORS_MOST];
} dreams;

static void draw(rc_replay *replay, const rc_step *step, rc_tensor *images, int32_t *labels)
{
    dreams *d = (dreams *)replay;
    rc_backend *be = d->backend;
    size_t done = 0;
    (void)labels;
    be->random_normal(be, d->stream, step, &d->noise);
    for (int i = 0; i < d->dreamers; i++) {
        dreamer *by = &d->dreamer[i];
        size_t count = rc_act_count(be, by->noise.n, images->h, images->w, images->c);
        rc_pass_forward(by->pass, by->generator, &by->noise);
        be->copy(be, rc_act_at(be, images->raw, done), rc_pass_output(by->pass, RC_NO_LAYER)->raw,
                 count * be->act_bytes);
        done += count;
    }
}

static void destroy_replay(rc_replay *replay)
{
    dreams *d = (dreams *)replay;
    for (int i = 0; i < d->dreamers; i++)
        rc_pass_destroy(d->dreamer[i].pass);
    rc_tensor_destroy(d->backend, &d->noise);
    rc_free(NULL, d);
}

/* Rows from `row` up to `end` of this process's part. */
static rc_status add_dreamer(dreams *d, const rc_model *generator, int row, int end)
{
    dreamer *by = &d->dreamer[d->dreamers];
    rc_pass_settings eval = {.mode = RC_PASS_EVAL, .n = end - row, .constant_model = true};
    RC_TRY(rc_pass_create(d->backend, generator->net, &eval, &by->pass));
    d->dreamers++;
    by->generator = generator;
    by->noise = d->noise;
    by->noise.n = by->noise.group_end[0] = end - row;
    by->noise.raw = rc_act_at(d->backend, d->noise.raw,
                              rc_act_count(d->backend, row, d->noise.h, d->noise.w, d->noise.c));
    rc_pass_prepare(by->pass, generator);
    d->replay.bytes += rc_pass_bytes(by->pass);
    return RC_OK;
}

/* Row r of the whole batch is of generator floor(r generators / rows of the whole batch), however many processes share
 * it. */
static rc_status add_dreamers(dreams *d, const rc_model *generator, int generators)
{
    const rc_net *net = generator->net;
    int batch = d->replay.batch, parts = d->backend->parts > 1 ? d->backend->parts : 1;
    int64_t first = parts > 1 ? (int64_t)d->backend->part * batch : 0, all = (int64_t)batch * parts;
    RC_TRY(rc_tensor_create(d->backend, batch, net->h, net->w, net->c, &d->noise));
    for (int row = 0, end; row < batch; row = end) {
        int64_t which = (first + row) * generators / all;
        int64_t last = ((which + 1) * all + generators - 1) / generators - first;
        end = last < batch ? (int)last : batch;
        RC_TRY(add_dreamer(d, &generator[which], row, end));
    }
    return RC_OK;
}

rc_status rc_replay_dreams_create(rc_backend *backend, const rc_model *generator, int generators, int batch,
                                  uint32_t stream, rc_replay **replay)
{
    static const rc_replay_table table = {.draw = draw, .destroy = destroy_replay};
    *replay = NULL;
    dreams *d = rc_alloc_zeroed(NULL, 1, sizeof *d);
    if (d == NULL)
        return RC_OUT_OF_MEMORY;
    d->replay = (rc_replay){.table = &table, .batch = batch};
    d->backend = backend;
    d->stream = stream;
    rc_status status = add_dreamers(d, generator, generators);
    if (status != RC_OK) {
        destroy_replay(&d->replay);
        return status;
    }
    *replay = &d->replay;
    return RC_OK;
}

static rc_status open(rc_source *source, const rc_learner *l, uint32_t stream, rc_replay **replay)
{
    rc_dream_source *s = (rc_dream_source *)source;
    return rc_replay_dreams_create(l->backend, s->generator, rc_generators(l->method, &l->settings),
                                   rc_part_of(l->backend, l->settings.batch), stream, replay);
}

/* ---- inversion -------------------------------------------------------------------------------------------------- */

static rc_inversion_plan inversion(const rc_method *method, const rc_settings *s)
{
    return (rc_inversion_plan){
        .parts = (uint32_t)rc_generators(method, s), .steps = (uint32_t)s->inversion_steps, .rate = s->inversion_rate};
}

/* A model whose classes were never estimated (made by a method without estimation) is inverted without DCE. */
static bool is_consistent(const rc_learner *l)
{
    return l->method->dce && l->settings.lambda_dce > 0 && l->statistics_classes == l->n_old;
}

/* One class cannot be more or less diverse: its entropy and log(1) are both 0. */
static void weigh_inversion(const rc_learner *l, float weight[RC_LOSS_COUNT], bool active[RC_LOSS_COUNT])
{
    const rc_settings *s = &l->settings;
    const rc_stage_loss losses[] = {
        {RC_LOSS_CONTENT, true, s->weight_content},
        {RC_LOSS_DIVERSITY, l->n_old > 1, s->weight_diversity},
        {RC_LOSS_BN, true, s->weight_bn},
        {RC_LOSS_PRIOR, s->weight_prior > 0, s->weight_prior},
        {RC_LOSS_DCE, is_consistent(l), s->lambda_dce},
    };
    rc_stage_set_losses(losses, sizeof losses / sizeof *losses, weight, active);
}

/* A part is a generator. */
static rc_status open_inversion(rc_source *source, const rc_learner *l, int part, rc_inversion **inversion)
{
    const rc_settings *s = &l->settings;
    rc_model *generator = &((rc_dream_source *)source)->generator[part];
    rc_inversion_settings settings = {.batch = rc_part_of(l->backend, s->batch),
                                      .temperature = (float)s->temperature,
                                      .diversity_epsilon = (float)s->diversity_epsilon,
                                      .bn_form = s->paper_bn_sum ? RC_BN_KL_SUM : RC_BN_KL,
                                      .prior = s->weight_prior > 0,
                                      .consistency = is_consistent(l),
                                      .dce_momentum = (float)s->dce_momentum,
                                      .dce_paper = s->paper_dce,
                                      .class_mean = l->class_mean,
                                      .covariance = l->covariance,
                                      .generator = part,
                                      .adam = rc_adam_default,
                                      .seed = s->seed,
                                      .task = (uint32_t)l->task};
    return rc_inversion_create(l->backend, &settings, &l->teacher, generator, inversion);
}

/* ---- the source ------------------------------------------------------------------------------------------------- */

rc_status rc_generator_net(const rc_settings *s, const rc_augment *image, rc_net *net)
{
    return strcmp(s->generator, "generator-small") == 0
               ? rc_net_generator_small(net, image->c, image->h, s->noise, s->generator_width)
               : rc_net_by_name(net, s->generator, image->c, image->h, image->w);
}

static rc_status configure(rc_source *source, const rc_learner *l, const rc_settings *s, const rc_method *method)
{
    rc_net *net = &((rc_dream_source *)source)->net;
    (void)method;
    RC_TRY(rc_generator_net(s, &l->augment, net));
    return rc_check_dreams(net, &l->net);
}

/* Generators draw from streams of the task. */
static rc_status begin(rc_source *source, const rc_learner *l, const int32_t *labels)
{
    rc_dream_source *s = (rc_dream_source *)source;
    uint64_t task = (uint64_t)(uint32_t)l->task << 32;
    (void)labels;
    for (int i = 0; i < rc_generators(l->method, &l->settings); i++) {
        rc_rng rng = {l->settings.seed, task | rc_stream_of_generator(RC_STREAM_GENERATOR, i)};
        RC_TRY(rc_model_create(&s->generator[i], &s->net, l->backend));
        RC_TRY(rc_model_init(&s->generator[i], rng));
    }
    return RC_OK;
}

static void end(rc_source *source, const rc_learner *l)
{
    (void)l;
    for (int i = 0; i < RC_GENERATORS_MOST; i++)
        rc_model_destroy(&((rc_dream_source *)source)->generator[i]);
}

static rc_status register_state(rc_source *source, rc_state *state)
{
    rc_dream_source *s = (rc_dream_source *)source;
    RC_TRY(rc_state_add_model(state, "generator", &s->generator[0]));
    for (int i = 1; i < RC_GENERATORS_MOST; i++) {
        char name[32];
        snprintf(name, sizeof name, "generator-%d", i + 1);
        RC_TRY(rc_state_add_model(state, name, &s->generator[i]));
    }
    return RC_OK;
}

const rc_source_kind rc_source_dreams = {
    .keeps = "nothing",
    .data_free = true,
    .replays = true,
    .dreams = true,
    .size = sizeof(rc_dream_source),
    .configure = configure,
    .begin = begin,
    .end = end,
    .register_state = register_state,
    .inversion = inversion,
    .open_inversion = open_inversion,
    .weigh_inversion = weigh_inversion,
    .open = open,
};
