/* What this machine is called, and what of it there is to use. */
#ifndef RC_BASE_MACHINE_H
#define RC_BASE_MACHINE_H

#include <stddef.h>

/* The processor's name as far as the system tells it, else the architecture; always a text. */
void rc_machine_name(char *text, size_t size);

/* Cores that this process may use: those that are online, or those of them that it is bound to. */
int rc_machine_cores(void);

/* Bytes of memory that it has, or the container that we are in; SIZE_MAX: not known. */
size_t rc_machine_memory(void);

/* Bytes of memory, and of swap, that nobody uses just now; SIZE_MAX: not known. */
size_t rc_machine_free_memory(void);

/* The limit that a file of the system's names, in bytes; SIZE_MAX: no such file, or it says "max". */
size_t rc_memory_limit(const char *path);

#endif
