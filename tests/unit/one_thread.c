/* Linked to tests that the thread sanitizer leaves out because they begin no thread: one that begins one ends here. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *user);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *user)
{
    (void)thread;
    (void)attributes;
    (void)run;
    (void)user;
    fputs("This test begins a thread: take it out of the list one_thread in tests/CMakeLists.txt.\n", stderr);
    abort();
}
