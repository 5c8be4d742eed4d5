/* A first layer in training and the maximum pooling behind it, without the map between them.
 *
 * Let w be the weights of a channel, as bf16, and x the patch of an image that they meet at a position: raw = w x. Sums
 * over the N positions of a group of images need no raw, because raw is linear in x. With p = sum x and G = sum x x'
 *
 *     sum raw = w p     sum raw^2 = w G w     sum raw x = G w
 *
 * G and p depend on the images alone (conv_stem_gram.cu). So the statistics of the batch are known before the
 * convolution begins, which writes what the pooling leaves of its value, and for each window the tap that has its
 * maximum (conv_stem_train.cu). No gradient comes from other taps, nor from a window whose maximum is 0.
 *
 * Back, dz is the gradient at those taps, and 0 elsewhere. With S = sum dz x
 *
 *     sum dz (raw - mean) = w S - mean sum dz
 *     dL/draw = a dz + b raw + c     dL/dw = sum dL/draw x = a S + b G w + c p
 *
 * so that one walk over the gradient of the pooling's value, the taps and the images is all (conv_stem_train_back.cu).
 * Sums of products are taken in fp32 and added up in double. */
#ifndef RC_BACKEND_CUDA_CONVOLUTION_CONV_STEM_TRAIN_H
#define RC_BACKEND_CUDA_CONVOLUTION_CONV_STEM_TRAIN_H

#include "backend/cuda/convolution/conv_sink.cuh"

enum {
    GRAM_TAPS = 9,
    GRAM_SIDE = GRAM_TAPS * 8, /* of a patch: element 8 t + c is channel c at tap t */
    GRAM_SIZE = GRAM_SIDE * GRAM_SIDE + GRAM_SIDE
};

/* G and then p of a group, among those of all. They lie where the sums of the normalisation would. */
__host__ __device__ inline double *gram_of(void *partial, int group)
{
    return (double *)partial + group * GRAM_SIZE;
}

__host__ __device__ inline const double *gram_of(const void *partial, int group)
{
    return (const double *)partial + group * GRAM_SIZE;
}

/* Element k of a channel's weights (c_in, 3, 3), as the products take them. */
__device__ inline double stem_weight(const float *weight, int c_in, int k)
{
    return k % 8 < c_in ? (double)rounded((const bf16 *)NULL, weight[k % 8 * GRAM_TAPS + k / 8]) : 0;
}

/* Which blocks work for which group of images: block b for the first group g with b < end[g]. */
struct stem_cut {
    group_view groups;
    int end[RC_MAX_GROUPS];
};

struct stem_share {
    int group, number, blocks; /* which of how many */
};

/* At least a block for each group; *blocks, what there should be, becomes what there are. */
static inline stem_cut cut_stem(const rc_tensor *batch, int *blocks)
{
    stem_cut cut = {view_groups(batch), {0}};
    int all = *blocks > batch->groups ? *blocks : batch->groups;
    for (int g = 0; g < batch->groups; g++) {
        int least = g > 0 ? cut.end[g - 1] + 1 : 1, most = all - (batch->groups - 1 - g);
        int end = (int)((long long)all * batch->group_end[g] / batch->n);
        cut.end[g] = end < least ? least : end > most ? most : end;
    }
    *blocks = all;
    return cut;
}

__device__ inline stem_share share_of_stem(const stem_cut &cut, int block)
{
    int group = 0;
#pragma unroll
    for (int g = 0; g < RC_MAX_GROUPS - 1; g++)
        group += g < cut.groups.count - 1 && block >= cut.end[g];
    int first = group > 0 ? cut.end[group - 1] : 0;
    stem_share share = {group, block - first, cut.end[group] - first};
    return share;
}

/* Is it taken, for n images and as many groups as may be? Nobody may ask for the gradient of the images. */
bool rc_cuda_trains_stem(const rc_cuda *cuda, const rc_conv *conv, rc_act act, const rc_pool2d *pool, int n);

/* Bytes of workspace; 0: not taken. */
size_t rc_cuda_stem_train_workspace(const rc_cuda *cuda, const rc_conv *conv);
size_t rc_cuda_stem_gram_workspace(const rc_cuda *cuda);
size_t rc_cuda_stem_back_workspace(const rc_cuda *cuda, const rc_conv *conv);

/* G, p and the normalisation of the first of two layers. */
void rc_cuda_stem_gram(rc_cuda *cuda, const tensor_view<bf16> &x, bool finished, const rc_fused_train *conv);
void rc_cuda_stem_train(rc_backend *be, rc_tensor *x, const rc_fused_train *layers);
void rc_cuda_stem_train_back(rc_backend *be, const rc_fused_train_back *layers, const rc_tensor *x);

#endif
