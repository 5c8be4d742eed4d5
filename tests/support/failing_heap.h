/* A heap whose n-th allocation fails, once: for tests that tests/CMakeLists.txt links with --wrap=posix_memalign. */
#ifndef RC_TESTS_SUPPORT_FAILING_HEAP_H
#define RC_TESTS_SUPPORT_FAILING_HEAP_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

static atomic_int allocation_to_fail; /* 1: the next one, of any thread, fails; 0 or less: none does */

int __real_posix_memalign(void **block, size_t alignment, size_t size);
int __wrap_posix_memalign(void **block, size_t alignment, size_t size);

int __wrap_posix_memalign(void **block, size_t alignment, size_t size)
{
    return --allocation_to_fail == 0 ? ENOMEM : __real_posix_memalign(block, alignment, size);
}

/* Ends the trial; did an allocation fail in it? */
static inline bool allocation_failed(void)
{
    bool failed = allocation_to_fail <= 0;
    allocation_to_fail = 0;
    return failed;
}

#endif
