/* What this machine is called, and how much of it this process may use. */
#ifndef RC_BASE_MACHINE_H
#define RC_BASE_MACHINE_H

#include <stddef.h>

/* The processor's name if the system knows it, else the architecture; never NULL. */
void rc_machine_name(char *text, size_t size);

/* Cores that this process may use: those that are online, or those of them that it is bound to; fewer if its control
   groups (docker run --cpus) give it less processor time than these have. */
int rc_machine_cores(void);

/* Bytes of memory of the machine, or fewer if the control groups of this process (containers, batch jobs) allow
   fewer; SIZE_MAX: not known. */
size_t rc_machine_memory(void);

/* Bytes of memory, and of swap, that are left to this process just now. Counts the machine, its control groups, and
   its address space (ulimit -v). SIZE_MAX: not known. */
size_t rc_machine_free_memory(void);

/* Bytes that the control groups of a process leave, and in *limit what they allow in all; SIZE_MAX: no limit. Reads
   both kinds of groups, v1 and v2: the process's own group and every one above it, as far as they are mounted.
   groups, mounts: the cgroup and mountinfo files of the process. */
size_t rc_group_memory(const char *groups, const char *mounts, size_t *limit);
/* The same of processor time: cores, a part of one counts as one; INT_MAX: no limit. */
int rc_group_cores(const char *groups, const char *mounts);

/* The limit in bytes that a file of the system names; SIZE_MAX: no such file, or it says "max". */
size_t rc_memory_limit(const char *path);

#endif
