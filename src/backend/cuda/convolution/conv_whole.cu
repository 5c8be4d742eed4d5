/* Convolutions whose kernel is as large as the map: one result for each image, a linear layer over all of its pixels.
 * As a convolution nearly every tap of the data gradient would fall beside the map. As products of matrices
 * (matrix.cuh), with weights as they lie in memory, (c_out, c_in * h * w):
 *     forward   (n, c_out)               values (n, c_in * h * w) times the weights
 *     data      (n, c_in * h * w)        dL/draw (n, c_out) times the weights
 *     weights   (c_out, c_in * h * w)    dL/draw times the values, over the images */
#include "backend/cuda/convolution/conv.h"
#include "backend/cuda/product/matrix.cuh"
#include "backend/cuda/product/product.h"

struct whole_space {
    float *maps, *results; /* (n, columns), (n, c_out) */
};

static bool is_whole(const rc_conv *conv)
{
    bool plain = conv->stride == 1 && conv->pad == 0 && conv->up == 1 && !conv->transposed;
    return plain && conv->k > 1 && conv->h == conv->k && conv->w == conv->k && conv->oh == 1 && conv->ow == 1;
}

static int columns_of(const rc_conv *conv)
{
    return conv->c_in * conv->h * conv->w;
}

static size_t whole_workspace(const rc_cuda *, const rc_conv *conv, int n)
{
    return is_whole(conv) ? ((size_t)columns_of(conv) + (size_t)conv->c_out) * (size_t)n * sizeof(float) : 0;
}

static whole_space space_for(rc_cuda *cuda, const rc_conv *conv, int n, const char *operation)
{
    whole_space space = {(float *)rc_cuda_workspace(cuda, whole_workspace(cuda, conv, n), operation), NULL};
    if (space.maps)
        space.results = space.maps + (size_t)n * columns_of(conv);
    return space;
}

/* ---- forward ---------------------------------------------------------------------------------------------------- */

template <typename Act>
static void forward_of(rc_cuda *cuda, const rc_conv *conv, const rc_tensor *x, const float *weight, const float *bias,
                       const rc_tensor *y, const rc_epilogue *epilogue, whole_space space)
{
    static const char operation[] = "conv_forward";
    int columns = columns_of(conv);
    write_values<Act>(cuda, x, space.maps, operation);
    rc_cuda_matrix values = {space.maps, columns, 1}, weights = {weight, columns, 1};
    rc_cuda_product(cuda, operation, x->n, conv->c_out, columns, values, weights, space.results);
    read_result<Act>(cuda, operation, space.results, bias, y, epilogue);
}

static bool whole_forward(rc_cuda *cuda, const rc_conv *conv, rc_tensor *x, const float *weight, const float *bias,
                          rc_tensor *y, const rc_epilogue *epilogue)
{
    if (!is_whole(conv))
        return false;
    whole_space space = space_for(cuda, conv, x->n, "conv_forward");
    if (!space.maps)
        return true;
    if (cuda->bf16)
        forward_of<__nv_bfloat16>(cuda, conv, x, weight, bias, y, epilogue, space);
    else
        forward_of<float>(cuda, conv, x, weight, bias, y, epilogue, space);
    return true;
}

/* ---- gradients -------------------------------------------------------------------------------------------------- */

template <typename Act>
static void backward_data_of(rc_cuda *cuda, const rc_conv *conv, const rc_grad *dy, const float *weight, void *dx,
                             const rc_back_epilogue *epilogue, whole_space space)
{
    static const char operation[] = "conv_backward_data";
    int columns = columns_of(conv);
    write_draws<Act>(cuda, dy, space.results, operation);
    rc_cuda_matrix draws = {space.results, conv->c_out, 1}, weights = {weight, 1, columns};
    rc_cuda_product(cuda, operation, dy->y->n, columns, conv->c_out, draws, weights, space.maps);
    read_derivative<Act>(cuda, operation, space.maps, dx, epilogue);
}

static bool whole_backward_data(rc_cuda *cuda, const rc_conv *conv, const rc_grad *dy, const float *weight, void *dx,
                                const rc_back_epilogue *epilogue)
{
    if (!is_whole(conv))
        return false;
    whole_space space = space_for(cuda, conv, dy->y->n, "conv_backward_data");
    if (!space.maps)
        return true;
    if (cuda->bf16)
        backward_data_of<__nv_bfloat16>(cuda, conv, dy, weight, dx, epilogue, space);
    else
        backward_data_of<float>(cuda, conv, dy, weight, dx, epilogue, space);
    return true;
}

template <typename Act>
static void backward_weight_of(rc_cuda *cuda, const rc_conv *conv, const rc_tensor *x, const rc_grad *dy,
                               float *dweight, whole_space space)
{
    static const char operation[] = "conv_backward_weight";
    int columns = columns_of(conv);
    write_values<Act>(cuda, x, space.maps, operation);
    write_draws<Act>(cuda, dy, space.results, operation);
    rc_cuda_matrix draws = {space.results, 1, conv->c_out}, values = {space.maps, 1, columns};
    rc_cuda_product(cuda, operation, conv->c_out, columns, x->n, draws, values, dweight);
}

static bool whole_backward_weight(rc_cuda *cuda, const rc_conv *conv, const rc_tensor *x, const rc_grad *dy,
                                  float *dweight, float *dbias)
{
    if (!is_whole(conv))
        return false;
    whole_space space = space_for(cuda, conv, x->n, "conv_backward_weight");
    if (!space.maps)
        return true;
    if (cuda->bf16)
        backward_weight_of<__nv_bfloat16>(cuda, conv, x, dy, dweight, space);
    else
        backward_weight_of<float>(cuda, conv, x, dy, dweight, space);
    if (dbias)
        rc_cuda_bias_gradient(cuda, dy, dbias);
    return true;
}

extern const rc_cuda_conv_kind rc_cuda_conv_whole = {
    "whole", whole_workspace, whole_forward, whole_backward_data, whole_backward_weight,
};
