/* Convolutions: hands each call to the first kind of kernels that takes it. */
#include <stdlib.h>

#include "backend/cuda/conv.h"
#include "backend/cuda/conv_mma.h"
#include "backend/cuda/conv_plan.h"
#include "backend/cuda/norm.cuh"

static const rc_cuda_conv_kind *const kinds[] = {&rc_cuda_conv_mma, &rc_cuda_conv_tiled, &rc_cuda_conv_direct};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static rc_status reserve_conv(rc_backend *be, const rc_conv *conv, int n)
{
    rc_cuda *cuda = rc_cuda_of(be);
    size_t most = 0;
    for (int i = 0; i < KINDS; i++) {
        size_t bytes = kinds[i]->workspace(cuda, conv, n);
        most = bytes > most ? bytes : most;
    }
    if (rc_cuda_takes_both(cuda, conv) && !cuda->slots && getenv("RECOLLECT_CUDA_BOTH"))
        RC_TRY(rc_cuda_take(cuda, (size_t)RC_CUDA_SLOTS * CONV_BOTH_SLOT_BYTES, &cuda->slots));
    return rc_cuda_reserve(cuda, most);
}

static void conv_forward(rc_backend *be, const rc_conv *conv, rc_tensor *x, const void *weight, const void *bias,
                         rc_tensor *y, const rc_epilogue *epilogue)
{
    for (int i = 0; i < KINDS; i++)
        if (kinds[i]->forward(rc_cuda_of(be), conv, x, (const float *)weight, (const float *)bias, y, epilogue))
            break;
    x->stored = x->stored || x->value;
}

/* ---- backward --------------------------------------------------------------------------------------------------- */

static void backward_weight(rc_cuda *cuda, const rc_conv *conv, const rc_tensor *x, const rc_grad *dy, float *dweight,
                            float *dbias)
{
    for (int i = 0; i < KINDS; i++)
        if (kinds[i]->backward_weight(cuda, conv, x, dy, dweight, dbias))
            break;
}

/* Nobody has come for the weight gradient that waits: alone, on its own lane. */
static void enqueue_held_weight(rc_cuda *cuda)
{
    rc_cuda_held_weight *held = &cuda->held_weight;
    int lane = cuda->lane;
    cuda->lane = held->lane;
    held->dy.y = &held->y;
    backward_weight(cuda, &held->conv, &held->x, &held->dy, held->dweight, NULL);
    cuda->lane = lane;
}

static void conv_backward_weight(rc_backend *be, const rc_conv *conv, const rc_tensor *x, const rc_grad *dy,
                                 void *dweight, void *dbias)
{
    rc_cuda *cuda = rc_cuda_of(be);
    if (dbias || !cuda->slots || !rc_cuda_takes_both(cuda, conv)) {
        backward_weight(cuda, conv, x, dy, (float *)dweight, (float *)dbias);
        return;
    }
    rc_cuda_enqueue_deferred(cuda);
    cuda->held_weight = rc_cuda_held_weight{*conv, *x, *dy->y, *dy, (float *)dweight, cuda->lane};
    cuda->deferred = enqueue_held_weight;
    cuda->waits_over_fork = true;
}

static void conv_backward_data(rc_backend *be, const rc_conv *conv, const rc_grad *dy, const void *weight, void *dx,
                               const rc_back_epilogue *epilogue)
{
    rc_cuda *cuda = rc_cuda_of(be);
    rc_cuda_held_weight *held = &cuda->held_weight;
    bool same = cuda->deferred == enqueue_held_weight && cuda->lane == RC_MAIN_LANE && held->dy.g == dy->g &&
                held->y.raw == dy->y->raw && held->x.raw == epilogue->x->raw;
    if (same) {
        cuda->deferred = NULL;
        if (rc_cuda_mma_backward_both(cuda, conv, epilogue->x, dy, (const float *)weight, dx, epilogue, held->dweight))
            return;
        cuda->deferred = enqueue_held_weight;
    }
    for (int i = 0; i < KINDS; i++)
        if (kinds[i]->backward_data(cuda, conv, dy, (const float *)weight, dx, epilogue))
            break;
}

/* ---- joined normalisations -------------------------------------------------------------------------------------- */

template <typename Norm>
static bool join_norm(rc_cuda *cuda, const void *partial, const Norm &norm, bool backward)
{
    rc_cuda_held *held = &cuda->held;
    bool waits = cuda->deferred && cuda->norms.count == 0 && held->partial == partial && held->backward == backward;
    if (!partial || !waits)
        return false;
    *(Norm *)held->norm = norm;
    *held->tickets = cuda->tickets + cuda->lane * RC_CUDA_TICKETS;
    rc_cuda_enqueue_deferred(cuda);
    return true;
}

bool rc_cuda_join_norm(rc_cuda *cuda, const void *partial, const train_norm &norm)
{
    return join_norm(cuda, partial, norm, false);
}

bool rc_cuda_join_norm(rc_cuda *cuda, const void *partial, const backward_norm &norm)
{
    return join_norm(cuda, partial, norm, true);
}

void rc_cuda_fill_conv(rc_cuda *cuda)
{
    cuda->table.reserve_conv = reserve_conv;
    cuda->table.conv_forward = conv_forward;
    cuda->table.conv_backward_data = conv_backward_data;
    cuda->table.conv_backward_weight = conv_backward_weight;
}
