/* How the GPUs of several processes talk (backend/workers.h). Both calls move bytes between device memories, on the
 * current lane; captured, they are part of the step. All processes make the same calls in the same order. */
#ifndef RC_BACKEND_CUDA_LINK_H
#define RC_BACKEND_CUDA_LINK_H

#include "backend/cuda/cuda.h"

extern "C" {
#include "backend/workers.h"
}

/* What a backend keeps of its talks: it lives from joining to closing. */
struct rc_cuda_talks;
rc_status rc_cuda_open_talks(rc_cuda *cuda);
void rc_cuda_close_talks(rc_cuda *cuda);

/* The entry link_workers: finds out how the processes can talk, once, and connects them. */
rc_status rc_cuda_link_workers(rc_backend *backend);

/* Rows of all processes that are known are gathered anew (workers.cu). */
void rc_cuda_forget_gathered(rc_cuda *cuda);

/* The `bytes` of every process, in the order of the processes. */
void rc_cuda_gather(rc_cuda *cuda, const void *mine, void *all, size_t bytes);

/* What is gathered between these two is one talk, where NCCL moves it; the results are there after the end. */
void rc_cuda_begin_bundle(rc_cuda *cuda);
void rc_cuda_end_bundle(rc_cuda *cuda);

/* `whole` has `total` bytes that are cut into blocks of `bytes`, one for each process; the last ones may be shorter, or
 * empty. What a process sends to itself does not travel.
 * scatter: block i goes to process i; `parts` (processes, bytes) gets every other process's version of the own block,
 * and its own row anything.
 * collect: every process has its block, where it lies in `whole`, and all get the others. */
void rc_cuda_scatter(rc_cuda *cuda, const void *whole, void *parts, size_t bytes, size_t total);
void rc_cuda_collect(rc_cuda *cuda, void *whole, size_t bytes, size_t total);

#endif
