/* Work of one thread that goes on by itself until the thread waits for it, in groups: cp.async and wgmma have the same
 * rules. It is done as late as it may be. */
#ifndef RC_EMULATION_GROUPS_H
#define RC_EMULATION_GROUPS_H

#include <array>
#include <deque>

#include "cuda_runtime.h"

/* Work has run(). */
template <typename Work> struct emulated_groups {
    std::deque<Work> work;
    std::deque<size_t> groups; /* how much of it each has */
    size_t open;

    static emulated_groups &mine()
    {
        static std::deque<std::array<emulated_groups, 1024>> all; /* of the blocks that run beside each other */
        while (all.size() <= rc_emulated_slot)
            all.emplace_back();
        return all[rc_emulated_slot][threadIdx.x];
    }

    void add(const Work &next)
    {
        work.push_back(next);
        open++;
    }

    void close()
    {
        groups.push_back(open);
        open = 0;
    }

    /* Until so many groups are left. */
    void wait(size_t left)
    {
        for (; groups.size() > left; groups.pop_front())
            for (size_t i = 0; i < groups.front(); i++) {
                work.front().run();
                work.pop_front();
            }
    }
};

#endif
