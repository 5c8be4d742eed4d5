/* Convolutions: hands each call to the first kind of kernels that takes it. */
#include "backend/cuda/convolution/chain.h"
#include "backend/cuda/convolution/conv.h"
#include "backend/cuda/convolution/conv_mma.h"
#include "backend/cuda/convolution/conv_stem.h"
#include "backend/cuda/convolution/conv_stem_train.h"
#include "backend/cuda/convolution/conv_strip.h"
#include "backend/cuda/map/norm.cuh"

static const rc_cuda_conv_kind *const kinds[] = {&rc_cuda_conv_whole, &rc_cuda_conv_mma, &rc_cuda_conv_tiled,
                                                 &rc_cuda_conv_direct};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static rc_status reserve_conv(rc_backend *be, const rc_conv *conv, int n)
{
    rc_cuda *cuda = rc_cuda_of(be);
    size_t most = 0, side = 0; /* on the side lane passes run forward alone, where nothing is pending */
    for (int i = 0; i < KINDS; i++) {
        size_t bytes = kinds[i]->workspace(cuda, conv, n);
        most = bytes > most ? bytes : most;
        if (kinds[i] != &rc_cuda_conv_mma)
            side = bytes > side ? bytes : side;
    }
    size_t pooled = cuda->bf16 ? rc_cuda_stem_train_workspace(cuda, conv) : 0;
    most = pooled > most ? pooled : most;
    return rc_cuda_reserve_beside(cuda, most, side);
}

static void conv_forward(rc_backend *be, const rc_conv *conv, rc_tensor *x, const void *weight, const void *bias,
                         rc_tensor *y, const rc_epilogue *epilogue)
{
    for (int i = 0; i < KINDS; i++)
        if (kinds[i]->forward(rc_cuda_of(be), conv, x, (const float *)weight, (const float *)bias, y, epilogue))
            break;
    x->stored = x->stored || x->value;
}

static void fused_forward(rc_backend *be, rc_tensor *x, const rc_fused *layers, int count)
{
    if (layers[count - 1].pool.k > 0)
        rc_cuda_stem_pool(be, x, &layers[0], layers[1].y);
    else
        rc_cuda_chain_forward(be, x, layers, count);
}

static void fused_train(rc_backend *be, rc_tensor *x, const rc_fused_train *layers, int count)
{
    if (layers[count - 1].layer.pool.k > 0)
        rc_cuda_stem_train(be, x, layers);
    else
        rc_cuda_chain_train(be, x, layers, count);
}

static void fused_train_backward(rc_backend *be, const rc_fused_train_back *layers, int count,
                                 const rc_fused_train_gradients *to)
{
    if (layers[count - 1].layer.conv->k == 0)
        rc_cuda_stem_train_back(be, layers, to->epilogue.x);
    else
        rc_cuda_chain_train_back(be, layers, count, to);
}

static void conv_backward_data(rc_backend *be, const rc_conv *conv, const rc_grad *dy, const void *weight, void *dx,
                               const rc_back_epilogue *epilogue)
{
    const rc_fused_back *beside = epilogue->beside;
    rc_back_epilogue first = *epilogue, second = {epilogue->x, epilogue->partial, true, NULL, NULL};
    if (beside && rc_cuda_conv_mma.backward_data(rc_cuda_of(be), conv, dy, (const float *)weight, dx, epilogue))
        return;
    first.beside = NULL;
    first.partial = beside ? NULL : epilogue->partial;
    for (int i = 0; i < KINDS; i++)
        if (kinds[i]->backward_data(rc_cuda_of(be), conv, dy, (const float *)weight, dx, &first))
            break;
    if (beside) /* few images, or something is pending that the kernel does not take */
        conv_backward_data(be, beside->conv, beside->dy, beside->weight, dx, &second);
}

static bool takes_beside(rc_backend *be, const rc_conv *conv, const rc_conv *beside, int n)
{
    const rc_cuda *cuda = rc_cuda_of(be);
    return rc_cuda_conv_whole.workspace(cuda, conv, n) == 0 && rc_cuda_conv_whole.workspace(cuda, beside, n) == 0 &&
           rc_cuda_takes_beside(cuda, conv, beside, n);
}

static void conv_backward_weight(rc_backend *be, const rc_conv *conv, const rc_tensor *x, const rc_grad *dy,
                                 void *dweight, void *dbias)
{
    for (int i = 0; i < KINDS; i++)
        if (kinds[i]->backward_weight(rc_cuda_of(be), conv, x, dy, (float *)dweight, (float *)dbias))
            break;
}

static bool reads_finished_value(rc_backend *be, const rc_conv *conv, int n)
{
    const rc_cuda *cuda = rc_cuda_of(be);
    return rc_cuda_conv_whole.workspace(cuda, conv, n) == 0 && rc_cuda_wide_gradients(cuda, conv, n);
}

static bool reads_finished_gradient(rc_backend *be, const rc_conv *conv, int n)
{
    const rc_cuda *cuda = rc_cuda_of(be);
    bool last = cuda->bf16 && rc_cuda_is_last_layer(conv) && rc_cuda_conv_whole.workspace(cuda, conv, n) == 0;
    return last || reads_finished_value(be, conv, n);
}

/* ---- joined normalisations -------------------------------------------------------------------------------------- */

template <typename Norm> static bool join_norm(rc_cuda *cuda, const void *partial, const Norm &norm, bool backward)
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
    cuda->table.fuse = rc_cuda_fuse;
    cuda->table.fused_forward = fused_forward;
    cuda->table.fused_backward = rc_cuda_chain_backward;
    cuda->table.fuse_train = rc_cuda_find_train_chain;
    cuda->table.fused_train = fused_train;
    cuda->table.fused_train_backward = fused_train_backward;
    cuda->table.fused_weight = rc_cuda_fused_weight;
    cuda->table.reads_finished_value = reads_finished_value;
    cuda->table.reads_finished_gradient = reads_finished_gradient;
    cuda->table.takes_beside = takes_beside;
    cuda->table.reserve_conv = reserve_conv;
    cuda->table.conv_forward = conv_forward;
    cuda->table.conv_backward_data = conv_backward_data;
    cuda->table.conv_backward_weight = conv_backward_weight;
}
