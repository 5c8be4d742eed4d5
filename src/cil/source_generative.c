/* A generative model as a source (DGR, docs/methods/dgr.md). draw: the autoencoder as the last task left it decodes
 * noise. learn: the one at hand takes a step of SGD on the whole batch, new images and replayed ones,
 *
 *     mean_b( w_b mean_pixels BCE(decode(z_b), x_b) ) + 1/(h w c) mean_b( -1/2 sum(1 + log s^2 - m^2 - s^2) )
 *
 * with m and log s^2 the encoder's two outputs, z = m + s * noise, and w_b = n_old/K for a replayed image, 1 - n_old/K
 * for a new one (1 in the first task, which replays nothing). */
#include <stdio.h>

#include "base/memory.h"
#include "cil/learner.h"
#include "cil/sources.h"
#include "nn/nets.h"
#include "nn/optimiser.h"
#include "nn/pass.h"

typedef struct generative {
    rc_replay replay;
    rc_backend *backend;
    rc_generative_settings settings;
    rc_vae *vae;
    const rc_model *old_decoder; /* NULL in the first task */
    int rows;                    /* of the whole batch */
    int mean, log_variance;      /* layers of the encoder */

    rc_pass *old_pass, *encoder_pass, *decoder_pass;
    rc_tensor old_noise;   /* (batch, 1, 1, latent) */
    rc_tensor noise, code; /* (rows, 1, 1, latent) */
    rc_tensor all_noise;   /* several processes: (rows of all, 1, 1, latent) */
    rc_step *whole_step;   /* likewise: the step of one that makes the whole batch */
    rc_optimiser *optimiser;
    void *memory;
    void *sample_weight, *encoder_gradient, *decoder_gradient; /* real */
} generative;

static void draw(rc_replay *replay, const rc_step *step, rc_tensor *images, int32_t *labels)
{
    generative *g = (generative *)replay;
    rc_backend *be = g->backend;
    (void)labels;
    if (g->old_decoder == NULL)
        return;
    be->random_normal(be, RC_STREAM_DREAMS, step, &g->old_noise);
    rc_pass_forward(g->old_pass, g->old_decoder, &g->old_noise);
    be->copy(be, images->raw, rc_pass_output(g->old_pass, RC_NO_LAYER)->raw,
             rc_act_count(be, images->n, images->h, images->w, images->c) * be->act_bytes);
}

/* Copies the noise of n of the rows of all, from `from` on, to row `to` of this process's. */
static void take_noise(generative *g, int from, int to, int n)
{
    rc_backend *be = g->backend;
    size_t row = rc_act_count(be, 1, 1, 1, g->noise.c);
    be->copy(be, rc_act_at(be, g->noise.raw, (size_t)to * row), rc_act_at(be, g->all_noise.raw, (size_t)from * row),
             (size_t)n * row * be->act_bytes);
}

/* Noise counts the rows of the whole batch, real ones first. So a process's rows are not neighbours in it, and it draws
 * that of all. */
static void draw_noise(generative *g, const rc_step *step)
{
    rc_backend *be = g->backend;
    int real = g->settings.batch, replayed = g->replay.batch;
    if (be->parts <= 1) {
        be->random_normal(be, RC_STREAM_LATENT, step, &g->noise);
        return;
    }
    be->copy(be, g->whole_step, step, sizeof *step);
    be->zero(be, &g->whole_step->part, sizeof step->part);
    be->random_normal(be, RC_STREAM_LATENT, g->whole_step, &g->all_noise);
    take_noise(g, be->part * real, 0, real);
    if (replayed > 0)
        take_noise(g, be->parts * real + be->part * replayed, real, replayed);
}

/* The losses are of the step's own value slots and weights. */
static void learn(rc_replay *replay, const rc_step *step, rc_tensor *input, const int32_t *labels)
{
    generative *g = (generative *)replay;
    rc_backend *be = g->backend;
    void *loss = g->replay.loss;
    (void)labels;
    rc_pass_forward(g->encoder_pass, &g->vae->encoder, input);
    rc_tensor *mean = rc_pass_finished_output(g->encoder_pass, g->mean);
    rc_tensor *log_variance = rc_pass_finished_output(g->encoder_pass, g->log_variance);
    draw_noise(g, step);
    be->latent_sample(be, mean, log_variance, g->noise.raw, &g->code);
    rc_pass_forward(g->decoder_pass, &g->vae->decoder, &g->code);

    rc_pass_zero_output_gradients(g->decoder_pass);
    rc_pass_zero_output_gradients(g->encoder_pass);
    /* Not the finished output: the loss wants to see what the images were before they were rounded. */
    be->loss_reconstruction(be, rc_pass_stored_output(g->decoder_pass, RC_NO_LAYER), input, g->sample_weight,
                            &step->weight[RC_LOSS_RECONSTRUCTION], rc_real_at(be, loss, RC_LOSS_RECONSTRUCTION),
                            rc_pass_output_gradient(g->decoder_pass, RC_NO_LAYER));
    rc_pass_backward(g->decoder_pass, &g->vae->decoder, g->decoder_gradient);
    void *dmean = rc_pass_output_gradient(g->encoder_pass, g->mean);
    void *dlog_variance = rc_pass_output_gradient(g->encoder_pass, g->log_variance);
    be->latent_sample_backward(be, mean, log_variance, g->noise.raw, rc_pass_input_gradient(g->decoder_pass), dmean,
                               dlog_variance);
    be->loss_latent(be, mean, log_variance, 1 / (float)(input->h * input->w * input->c), &step->weight[RC_LOSS_LATENT],
                    rc_real_at(be, loss, RC_LOSS_LATENT), dmean, dlog_variance);
    rc_pass_backward(g->encoder_pass, &g->vae->encoder, g->encoder_gradient);
    rc_optimiser_step(g->optimiser, step);
}

static rc_status register_replay(rc_replay *replay, rc_state *state)
{
    generative *g = (generative *)replay;
    size_t count;
    void *encoder = rc_optimiser_state(g->optimiser, 0, 0, &count);
    RC_TRY(rc_state_add(state, "momentum.encoder", RC_STATE_REAL, encoder, count));
    void *decoder = rc_optimiser_state(g->optimiser, 1, 0, &count);
    return rc_state_add(state, "momentum.decoder", RC_STATE_REAL, decoder, count);
}

static void destroy_replay(rc_replay *replay)
{
    generative *g = (generative *)replay;
    rc_pass_destroy(g->old_pass);
    rc_pass_destroy(g->encoder_pass);
    rc_pass_destroy(g->decoder_pass);
    rc_tensor_destroy(g->backend, &g->old_noise);
    rc_tensor_destroy(g->backend, &g->noise);
    rc_tensor_destroy(g->backend, &g->all_noise);
    rc_tensor_destroy(g->backend, &g->code);
    rc_optimiser_destroy(g->optimiser);
    g->backend->release(g->backend, g->memory);
    rc_free(NULL, g);
}

/* ---- building ------------------------------------------------------------------------------------------------- */

static void carve(void *owner, rc_arena *arena)
{
    generative *g = owner;
    size_t real = g->backend->real_bytes;
    g->sample_weight = rc_arena_take_array(arena, (size_t)g->rows, real);
    if (g->backend->parts > 1)
        g->whole_step = rc_arena_take(arena, sizeof *g->whole_step);
    g->encoder_gradient = rc_arena_take_array(arena, g->vae->encoder.net->params, real);
    g->decoder_gradient = rc_arena_take_array(arena, g->vae->decoder.net->params, real);
}

static rc_status take_memory(generative *g)
{
    RC_TRY(rc_backend_carve(g->backend, "autoencoder", carve, g, &g->memory, &g->replay.bytes));
    float old = g->settings.old_share;
    for (int b = 0; b < g->rows; b++) {
        float weight = b < g->settings.batch ? 1 - old : old;
        g->backend->write_real(g->backend, rc_real_at(g->backend, g->sample_weight, (size_t)b), &weight, 1);
    }
    return RC_OK;
}

static rc_status create_passes(generative *g)
{
    rc_backend *be = g->backend;
    const rc_net *encoder = g->vae->encoder.net, *decoder = g->vae->decoder.net;
    rc_pass_settings encode = {.mode = RC_PASS_TRAIN, .n = g->rows};
    rc_pass_settings decode = {.mode = RC_PASS_TRAIN, .n = g->rows, .input_gradient = true};
    rc_pass_settings eval = {.mode = RC_PASS_EVAL, .n = g->replay.batch, .constant_model = true};
    RC_TRY(rc_pass_create(be, encoder, &encode, &g->encoder_pass));
    RC_TRY(rc_pass_create(be, decoder, &decode, &g->decoder_pass));
    RC_TRY(rc_tensor_create(be, g->rows, 1, 1, decoder->c, &g->noise));
    RC_TRY(rc_tensor_create(be, g->rows, 1, 1, decoder->c, &g->code));
    if (be->parts > 1)
        RC_TRY(rc_tensor_create(be, g->rows * be->parts, 1, 1, decoder->c, &g->all_noise));
    RC_TRY(be->reserve_losses(be, g->rows, 1, encoder->h, encoder->w, encoder->c));
    g->replay.bytes += rc_pass_bytes(g->encoder_pass) + rc_pass_bytes(g->decoder_pass);
    if (g->old_decoder == NULL)
        return RC_OK;
    RC_TRY(rc_pass_create(be, decoder, &eval, &g->old_pass));
    RC_TRY(rc_tensor_create(be, g->replay.batch, 1, 1, decoder->c, &g->old_noise));
    rc_pass_prepare(g->old_pass, g->old_decoder);
    g->replay.bytes += rc_pass_bytes(g->old_pass);
    return RC_OK;
}

static rc_status build(generative *g)
{
    const rc_vae *vae = g->vae;
    const rc_sgd sgd = {.momentum = g->settings.momentum}; /* no decay */
    g->mean = vae->encoder.net->layers - 2;
    g->log_variance = vae->encoder.net->layers - 1;
    RC_TRY(create_passes(g));
    RC_TRY(take_memory(g));
    RC_TRY(rc_optimiser_create_sgd(g->backend, &sgd, &g->optimiser));
    RC_TRY(rc_optimiser_add(g->optimiser, vae->encoder.param, g->encoder_gradient, vae->encoder.net->params));
    RC_TRY(rc_optimiser_add(g->optimiser, vae->decoder.param, g->decoder_gradient, vae->decoder.net->params));
    g->replay.bytes += rc_optimiser_bytes(g->optimiser);
    return g->backend->sync(g->backend);
}

rc_status rc_replay_generative_create(rc_backend *backend, rc_vae *vae, const rc_model *old_decoder,
                                      const rc_generative_settings *settings, rc_replay **replay)
{
    static const rc_replay_table table = {
        .draw = draw, .learn = learn, .register_state = register_replay, .destroy = destroy_replay};
    *replay = NULL;
    generative *g = rc_alloc_zeroed(NULL, 1, sizeof *g);
    if (g == NULL)
        return RC_OUT_OF_MEMORY;
    /* Without an old decoder nothing is drawn, so no labels are needed. */
    g->replay = (rc_replay){
        .table = &table, .batch = old_decoder != NULL ? settings->batch : 0, .labelled = old_decoder == NULL};
    g->backend = backend;
    g->settings = *settings;
    g->vae = vae;
    g->old_decoder = old_decoder;
    g->rows = settings->batch + g->replay.batch;
    rc_status status = build(g);
    if (status != RC_OK) {
        destroy_replay(&g->replay);
        return status;
    }
    *replay = &g->replay;
    return RC_OK;
}

/* ---- the source ------------------------------------------------------------------------------------------------- */

static rc_generative_source *of(const rc_source *source)
{
    return rc_without_const(source);
}

/* An autoencoder is trained from the first task on. */
static rc_status configure(rc_source *source, const rc_learner *l, const rc_settings *s, const rc_method *method)
{
    char why[RC_MESSAGE_SIZE];
    if (of(source)->vae.net != NULL)
        return RC_OK;
    rc_status status = rc_vae_create(&of(source)->vae, l->backend, l->augment.c, l->augment.h, s->vae_width, s->seed);
    if (status != RC_INVALID_ARGUMENT)
        return status;
    snprintf(why, sizeof why, "%.300s", rc_message());
    return rc_fail(status,
                   "%s has no autoencoder for these images: %s. The setting 'size' makes them larger or smaller",
                   method->title, why);
}

static rc_status clone(rc_source *copy, const rc_source *source)
{
    return rc_vae_clone(&of(copy)->vae, &of(source)->vae);
}

static void destroy_source(rc_source *source)
{
    rc_vae_destroy(&of(source)->vae);
}

static void count_stored(const rc_source *source, const rc_learner *l, rc_stored *stored)
{
    (void)l;
    stored->model += rc_vae_bytes(&of(source)->vae);
}

static void describe(const rc_source *source, char *text, size_t size)
{
    (void)source;
    snprintf(text, size, "an autoencoder that makes images, no image itself");
}

static rc_status begin(rc_source *source, const rc_learner *l, const int32_t *labels)
{
    const rc_model *decoder = &of(source)->vae.decoder;
    (void)labels;
    RC_TRY(rc_model_create(&of(source)->old_decoder, decoder->net, l->backend));
    rc_model_copy(&of(source)->old_decoder, decoder);
    return RC_OK;
}

static void end(rc_source *source, const rc_learner *l)
{
    (void)l;
    rc_model_destroy(&of(source)->old_decoder);
}

static rc_status register_state(rc_source *source, rc_state *state)
{
    RC_TRY(rc_state_add_model(state, "encoder", &of(source)->vae.encoder));
    return rc_state_add_model(state, "decoder", &of(source)->vae.decoder);
}

static rc_status open(rc_source *source, const rc_learner *l, uint32_t stream, rc_replay **replay)
{
    rc_generative_settings settings = {.batch = rc_part_of(l->backend, l->settings.batch),
                                       .old_share = (float)l->n_old / (float)(l->n_old + l->n_new),
                                       .momentum = (float)l->settings.momentum};
    (void)stream; /* noise and code have streams of their own */
    return rc_replay_generative_create(l->backend, &of(source)->vae, l->has.replay ? &of(source)->old_decoder : NULL,
                                       &settings, replay);
}

static rc_status check_file(const rc_settings *settings, const rc_augment *image, rc_source_file *file)
{
    rc_net *net = rc_alloc_zeroed(NULL, 1, sizeof *net);
    if (net == NULL)
        return RC_OUT_OF_MEMORY;
    rc_status status = rc_net_vae_encoder(net, image->c, image->h, settings->vae_width);
    if (status == RC_OK)
        status = file->find_net(file, "encoder", net);
    if (status == RC_OK)
        status = rc_net_vae_decoder(net, image->c, image->h, settings->vae_width);
    if (status == RC_OK)
        status = file->find_net(file, "decoder", net);
    rc_free(NULL, net);
    return status;
}

static rc_status save(const rc_source *source, const rc_learner *l, rc_source_file *file)
{
    (void)l;
    RC_TRY(file->model(file, "encoder", &of(source)->vae.encoder));
    return file->model(file, "decoder", &of(source)->vae.decoder);
}

static rc_status load(rc_source *source, const rc_learner *l, rc_source_file *file)
{
    return save(source, l, file); /* the same models, read into */
}

static const rc_loss losses[] = {RC_LOSS_RECONSTRUCTION, RC_LOSS_LATENT, RC_LOSS_COUNT};

const rc_source_kind rc_source_generative = {
    .keeps = "a generative model",
    .replays = true,
    .plain_pixels = true,
    .own_models = "a generative model that was trained from the first class on",
    .learns = losses,
    .size = sizeof(rc_generative_source),
    .configure = configure,
    .clone = clone,
    .destroy = destroy_source,
    .count_stored = count_stored,
    .describe = describe,
    .begin = begin,
    .end = end,
    .register_state = register_state,
    .open = open,
    .check_file = check_file,
    .load = load,
    .save = save,
};
