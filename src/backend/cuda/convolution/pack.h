/* Weights in the order and type in which the fast convolutions take them.
 *
 * For the tensor cores a packed weight is bf16 (tiles of N result channels, phases, chunks of C source channels, steps,
 * C / 16 products) x (N / 16 pairs of operands, 32 lanes, 4 words): one 16-byte load gives a thread two operands
 * (N = 8: one, 8 bytes). A step is a tap, or two taps for C = 8. Result channels are permuted inside an operand so that
 * each thread of a warp ends up with neighbouring ones (conv_gather.cuh).
 *
 * Those with `rows` (conv_strip.cuh) are bf16 (tiles, phases, chunks, taps) x (N result channels, C = 64 source
 * channels) with rows as wgmma.cuh wants them.
 *
 * `wide` ones (conv_tiled.cu) are float (tiles, phases, chunks, taps) x (C source channels, N result channels). Result
 * channels are in the order 0-3, 8-11, 16-19, .. and then 4-7, 12-15, ..: the threads of a warp, which have eight
 * neighbouring ones each, read the first four of all of them from one stretch of memory, and so the others.
 *
 * Packed weights are kept from use to use. Whatever may have changed weights (an optimiser, a copy, a captured step)
 * says rc_cuda_weights_written(); the first convolution that meets a stale one packs, in one kernel, all of its lane
 * that are stale. Lanes have packed weights of their own: nothing orders one lane's packing before another's use.
 * Of a captured step it is known which weights it changes: it packs those, and the others are packed before it is
 * repeated. */
#ifndef RC_BACKEND_CUDA_CONVOLUTION_PACK_H
#define RC_BACKEND_CUDA_CONVOLUTION_PACK_H

#include "backend/cuda/convolution/conv_taps.h"

typedef struct conv_form {
    int source_c, result_c; /* real channels */
    int k;
    bool wide;            /* float, otherwise bf16 */
    bool rows;            /* bf16: rows for products of wgmma.cuh */
    bool left;            /* bf16: the left operand of products, rows g and g + 8 neighbouring channels */
    bool source_first;    /* weights are (source_c, result_c, k, k), otherwise (result_c, source_c, k, k) */
    int chunk_c, chunks;  /* C, and how many chunks */
    int tile_c, tiles;    /* N, and how many tiles */
    int phases;           /* along an axis */
    int count[RC_PHASES]; /* taps of a phase along an axis */
    unsigned char kernel[RC_PHASES][RC_AXIS_TAPS];
} conv_form;

/* What the shape alone says, of forward or of the data gradient; chunks and tiles are up to the kernel. */
void rc_cuda_set_form(const rc_conv *conv, bool forward, const axis_taps *taps, conv_form *form);

/* Steps of phase (phase / 2, phase % 2), or of the one there is. */
__host__ __device__ inline int form_steps(const conv_form &form, int phase)
{
    int taps = form.phases == 1 ? form.count[0] * form.count[0] : form.count[phase / 2] * form.count[phase % 2];
    return form.chunk_c == 8 && !form.wide ? (taps + 1) / 2 : taps;
}

__host__ __device__ inline int form_all_steps(const conv_form &form)
{
    int steps = 0;
    for (int phase = 0; phase < form.phases * form.phases; phase++)
        steps += form_steps(form, phase);
    return steps;
}

/* Bytes of one step of one chunk of one tile. */
__host__ __device__ inline int form_step_bytes(const conv_form &form)
{
    return form.wide ? form.chunk_c * form.tile_c * 4 : form.tile_c * 32 * (form.chunk_c == 8 ? 1 : form.chunk_c / 16);
}

typedef struct rc_cuda_packs rc_cuda_packs;

/* The packed weights, for the current lane. *fresh: they are being packed by the kernel right before, so they must not
 * be read before that one is complete. NULL: no memory, which sync() reports. */
const void *rc_cuda_packed_weights(rc_cuda *cuda, const conv_form *form, const float *weight, bool *fresh);

/* A step is about to be captured of which nothing is known: the weights written meanwhile are those it changes. */
void rc_cuda_watch_weights(rc_cuda *cuda);

/* Is about to be captured again: the weights that it changes are stale then, the others are not. */
void rc_cuda_expect_changes(rc_cuda *cuda);

/* Packs all that is stale, of every lane. */
void rc_cuda_pack_stale(rc_cuda *cuda);

/* Forgets the packed weights whose originals lie in memory that is about to be released. */
void rc_cuda_forget_packed(rc_cuda *cuda, const void *memory, size_t bytes);
void rc_cuda_destroy_packs(rc_cuda *cuda);

/* One kernel for any number of weights. */
typedef struct pack_job {
    const float *weight;
    unsigned *to;
    conv_form form;
} pack_job;
void rc_cuda_pack(rc_cuda *cuda, const pack_job *jobs, int count);

#endif
