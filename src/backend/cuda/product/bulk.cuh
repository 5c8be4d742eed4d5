/* Copies of many bytes by one instruction of one thread, and the barriers in shared memory that tell when they are
 * there (mbarrier). sm_90 and newer.
 *
 * A barrier has phases. A phase ends when as many threads have arrived as the barrier was opened for, and the bytes of
 * the copies that were asked for have arrived; the next one begins at once. Waiting for a phase is waiting for its end:
 * the first has parity 0, the second 1, the third 0. Nobody may be two phases behind. What a thread wrote before it
 * arrived, those see who waited. */
#ifndef RC_BACKEND_CUDA_PRODUCT_BULK_CUH
#define RC_BACKEND_CUDA_PRODUCT_BULK_CUH

#include "backend/cuda/product/mma.cuh"

enum { BULK_BARRIER = 8 /* bytes */ };

/* Older cards compile what follows and never run it. */
#if __CUDA_ARCH__ >= 900
#define RC_BULK(...) asm volatile(__VA_ARGS__)
#else
#define RC_BULK(...) __trap()
#endif

/* For so many arrivals of a phase. */
__device__ inline void open_barrier(unsigned barrier, int arrivals)
{
    RC_BULK("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

/* Copies that this thread asks for will see the barriers that it opened; other threads do so after __syncthreads(). */
__device__ inline void show_barriers()
{
    RC_BULK("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ inline void arrive_at_barrier(unsigned barrier)
{
    RC_BULK("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/* The whole warp waits. It votes, so that the compiler sees it stay together. */
__device__ inline void wait_for_phase(unsigned barrier, unsigned parity)
{
    RC_BULK("{\n"
            ".reg .pred ended;\n"
            "again:\n"
            "mbarrier.try_wait.parity.shared::cta.b64 ended, [%0], %1;\n"
            "vote.sync.all.pred ended, ended, 0xffffffff;\n"
            "@!ended bra.uni again;\n"
            "}" ::"r"(barrier),
            "r"(parity)
            : "memory");
}

/* Arrives at the barrier, and starts to copy; bytes and both addresses are multiples of 16. */
__device__ inline void copy_bulk(unsigned to_shared, const void *from, int bytes, unsigned barrier)
{
    RC_BULK("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
    RC_BULK("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to_shared),
            "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(barrier)
            : "memory");
}

#undef RC_BULK

#endif
