/* In place of backend/cuda/product/bulk.cuh. What a copy overwrites is NaN at once, and its bytes arrive when somebody
 * waits for its phase: a kernel that asks too early or does not wait is noticed. */
#ifndef RC_EMULATION_BULK_CUH
#define RC_EMULATION_BULK_CUH

#include <stdio.h>
#include <stdlib.h>

#include <vector>

#include "backend/cuda/product/mma.cuh"

enum { BULK_BARRIER = 8 };

/* In shared memory. */
struct emulated_barrier {
    uint16_t arrivals, left; /* of a phase, and those that are missing */
    uint16_t copies;         /* on their way */
    uint16_t phases;         /* that have ended */

    static emulated_barrier *at(unsigned address)
    {
        return (emulated_barrier *)(rc_emulated_shared + address);
    }

    void end_phase()
    {
        if (left > 0 || copies > 0)
            return;
        left = arrivals;
        phases++;
    }

    void arrive()
    {
        if (left == 0) {
            fprintf(stderr, "more arrivals at a barrier than its phase takes\n");
            abort();
        }
        left--;
        end_phase();
    }
};
static_assert(sizeof(emulated_barrier) == BULK_BARRIER, "a barrier has eight bytes");

struct emulated_bulk {
    unsigned slot, to, barrier;
    const void *from;
    size_t bytes;

    static std::vector<emulated_bulk> &all()
    {
        static std::vector<emulated_bulk> copies;
        return copies;
    }

    /* Those that are on their way to the barrier arrive. */
    static void arrive_at(unsigned barrier)
    {
        std::vector<emulated_bulk> others;
        for (const emulated_bulk &copy : all())
            if (copy.slot == rc_emulated_slot && copy.barrier == barrier) {
                memcpy(rc_emulated_shared + copy.to, copy.from, copy.bytes);
                emulated_barrier::at(barrier)->copies--;
                emulated_barrier::at(barrier)->end_phase();
            } else {
                others.push_back(copy);
            }
        all() = others;
    }
};

inline void open_barrier(unsigned barrier, int arrivals)
{
    for (const emulated_bulk &copy : emulated_bulk::all())
        if (copy.slot == rc_emulated_slot) {
            fprintf(stderr, "a block ended before its copies\n");
            abort();
        }
    *emulated_barrier::at(barrier) = {(uint16_t)arrivals, (uint16_t)arrivals, 0, 0};
}

inline void show_barriers()
{
}

inline void arrive_at_barrier(unsigned barrier)
{
    emulated_barrier::at(barrier)->arrive();
}

inline void wait_for_phase(unsigned barrier, unsigned parity)
{
    emulated_bulk::arrive_at(barrier);
    while (emulated_barrier::at(barrier)->phases % 2 == parity) {
        rc_emulated_let_threads();
        emulated_bulk::arrive_at(barrier);
    }
}

inline void copy_bulk(unsigned to_shared, const void *from, int bytes, unsigned barrier)
{
    memset(rc_emulated_shared + to_shared, 0xff, (size_t)bytes);
    emulated_bulk::all().push_back({rc_emulated_slot, to_shared, barrier, from, (size_t)bytes});
    emulated_barrier::at(barrier)->copies++;
    emulated_barrier::at(barrier)->arrive();
}

#endif
