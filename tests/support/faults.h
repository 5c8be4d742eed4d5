/* A backend whose n-th allocation, reservation, wait or repetition fails, and a heap whose n-th allocation fails.
 * Whatever a learner is doing then, it returns the failure and releases all memory. The linker must redirect the
 * library's posix_memalign to the one here (--wrap). Several programs share the methods, so that each is quick. */
#ifndef RC_TESTS_SUPPORT_FAULTS_H
#define RC_TESTS_SUPPORT_FAULTS_H

/* Around a group of tests: the CPU backend, made faulty. */
int faults_open(void **state);
int faults_close(void **state);

/* Each of these methods (NULL ends the list) learns two tasks and is scored, with every failure once. */
void faults_are_told(const char *const *method);
/* Without a failure nothing is held at the end, by any method. */
void faults_memory_comes_back(void);
/* With a budget of host memory that ends anywhere between nothing and enough: what does not fit is told, and comes
 * back. */
void faults_budget_may_end(const char *const *method);

#endif
