/* Meetings of blocks on the emulation: see src/backend/cuda/meeting.cuh. */
#ifndef RC_BACKEND_CUDA_MEETING_CUH
#define RC_BACKEND_CUDA_MEETING_CUH

#include <cuda_runtime.h>

struct meeting {
    unsigned arrived, base;
};

inline void arrive_at(meeting *m)
{
    m->arrived++;
}

inline void wait_for_arrivals(const meeting *m, unsigned arrivals)
{
    while ((int)(m->arrived - arrivals) < 0)
        rc_emulated_let_others();
}

#endif
