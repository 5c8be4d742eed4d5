/* Part of the shared library that the tests of script/mutate link: its posix_memalign is led here, and from here to the
 * test, if it has one of its own. */
#include <stddef.h>

int __real_posix_memalign(void **block, size_t align, size_t size);
__attribute__((weak)) int __wrap_posix_memalign(void **block, size_t align, size_t size);

int __wrap_posix_memalign(void **block, size_t align, size_t size)
{
    return __real_posix_memalign(block, align, size);
}
