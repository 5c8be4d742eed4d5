/* Part of the shared library that the tests of script/mutate link: what it asks of the heap is led here, and from here
 * to the test, if it has functions of its own. */
#include <stddef.h>

#define WEAK __attribute__((weak))

int __real_posix_memalign(void **block, size_t align, size_t size);
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *block, size_t size);
void __real_free(void *block);
WEAK int __wrap_posix_memalign(void **block, size_t align, size_t size);
WEAK void *__wrap_malloc(size_t size);
WEAK void *__wrap_calloc(size_t count, size_t size);
WEAK void *__wrap_realloc(void *block, size_t size);
WEAK void __wrap_free(void *block);

int __wrap_posix_memalign(void **block, size_t align, size_t size)
{
    return __real_posix_memalign(block, align, size);
}

void *__wrap_malloc(size_t size)
{
    return __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return __real_calloc(count, size);
}

void *__wrap_realloc(void *block, size_t size)
{
    return __real_realloc(block, size);
}

void __wrap_free(void *block)
{
    __real_free(block);
}
