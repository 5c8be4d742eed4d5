#include "cil/dream_batch.h"

#include "cil/sources.h"

static void carve(void *owner, rc_arena *arena)
{
    rc_dream_batch *b = owner;
    b->step = rc_arena_take(arena, sizeof *b->step);
    b->labels = rc_arena_take_array(arena, (size_t)b->n, sizeof *b->labels);
    b->logits = rc_arena_take_array(arena, (size_t)b->n * (size_t)b->classes, b->learner->backend->real_bytes);
}

rc_status rc_dream_batch_create(rc_learner *l, rc_dream_batch *b)
{
    rc_backend *be = l->backend;
    *b = (rc_dream_batch){.learner = l, .n = l->settings.batch, .d = l->student.head.d, .classes = l->n_old};
    rc_pass_settings eval = {.mode = RC_PASS_EVAL, .n = b->n, .constant_model = true};
    RC_TRY(rc_learner_replay(l, RC_STREAM_SAMPLE, &b->replay));
    RC_TRY(rc_pass_create(be, &l->net, &eval, &b->pass));
    rc_pass_prepare(b->pass, &l->teacher.backbone);
    RC_TRY(rc_tensor_create(be, b->n, l->net.h, l->net.w, l->net.c, &b->dreams));
    RC_TRY(be->reserve_dense(be, b->n, b->d, b->classes));
    return rc_backend_carve(be, "dreams", carve, b, &b->memory, NULL);
}

void rc_dream_batch_destroy(rc_dream_batch *b)
{
    rc_backend *be = b->learner->backend;
    rc_replay_destroy(b->replay);
    rc_pass_destroy(b->pass);
    rc_tensor_destroy(be, &b->dreams);
    be->release(be, b->memory);
}

void rc_dream_batch_draw(rc_dream_batch *b, uint32_t index)
{
    rc_learner *l = b->learner;
    rc_backend *be = l->backend;
    rc_step control = {.seed = l->settings.seed, .task = (uint32_t)l->task, .step = index, .batch = index};
    be->write_bytes(be, b->step, &control, sizeof control);
    b->replay->table->draw(b->replay, b->step, &b->dreams, b->labels);
    rc_pass_forward(b->pass, &l->teacher.backbone, &b->dreams);
    be->dense_forward(be, b->n, b->d, b->classes, rc_pass_features(b->pass), l->teacher.head.weight,
                      l->teacher.head.bias, b->logits, b->classes);
    be->argmax(be, b->n, b->classes, b->classes, b->logits, b->labels);
}
