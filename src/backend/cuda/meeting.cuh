/* All blocks of a kernel meet: nobody goes on before everybody has come. The kernel is launched such that all of its
 * blocks are on the device at once (rc_cuda_launch_together).
 *
 * The count of arrivals is never set back. Each kernel counts on from `base`, where the one before it ended; kernels of
 * one meeting follow each other, and none begins before the one before it has ended. */
#ifndef RC_BACKEND_CUDA_MEETING_CUH
#define RC_BACKEND_CUDA_MEETING_CUH

#include <cuda_runtime.h>

struct meeting {
    unsigned arrived, base; /* zeros at first */
};

/* For one thread of a block, behind a barrier of the block: what the block wrote before is there for all that wait. */
__device__ inline void arrive_at(meeting *m)
{
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(&m->arrived) : "memory");
}

/* Until the count has come to `arrivals`. For one thread of a block, before a barrier of the block. */
__device__ inline void wait_for_arrivals(const meeting *m, unsigned arrivals)
{
    unsigned now;
    do {
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(&m->arrived) : "memory");
    } while ((int)(now - arrivals) < 0);
}

#endif
