#include "backend/cpu/fast/convolution/limits.h"

#if RC_TEST_HOOKS
#include <stdlib.h>
#endif

/* For a first cache of 32 to 64 KiB and a second one of a megabyte. */
static const plan_limits usual = {
    .block_channels = 64,
    .band_bytes = 32 << 10,
    .band_pixels = 64,
    .group_pixels = 64,
    .whole_bytes = 320 << 10,
    .few_tiles = 16,
    .enlarged_floats = 320 << 10,
    .narrow_floats = 64 << 10,
    .fewest_tasks = 32,
    .fewest_together = 32,
    .uneven_tasks = RC_LANES == 16,
    .slot_bytes = 32 << 20,
    .spare_bytes = 4 << 20,
    .slice_bytes = 40 << 10,
    .planes_bytes = 512 << 10,
    .fewest_tiles = 16,
    .most_tiles = 64,
    .narrow_tiles = RC_LANES == 16 ? 32 : 64,
    .fewest_units = RC_LANES == 16 ? 4 : 2,
};

#if RC_TEST_HOOKS
static const plan_limits tiny = {
    .block_channels = 16,
    .band_bytes = 1 << 10,
    .band_pixels = 4,
    .group_pixels = 32,
    .whole_bytes = 1 << 10,
    .few_tiles = 4,
    .enlarged_floats = 4 << 10,
    .narrow_floats = 1 << 10,
    .fewest_tasks = 1,
    .fewest_together = 1,
    .uneven_tasks = true,
    .slot_bytes = 16 << 10,
    .spare_bytes = 16 << 10,
    .slice_bytes = 2 << 10,
    .planes_bytes = 8 << 10,
    .fewest_tiles = 4,
    .most_tiles = 8,
    .narrow_tiles = 4,
    .fewest_units = 4,
};
#endif

const plan_limits *RC_FAST(plan_limits)(void)
{
#if RC_TEST_HOOKS
    const char *small = getenv("RECOLLECT_SMALL_BANDS");
    if (small && small[0] == '1')
        return &tiny;
#endif
    return &usual;
}
