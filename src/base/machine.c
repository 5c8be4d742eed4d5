#if defined(__linux__)
#define _GNU_SOURCE /* sched_getaffinity */
#endif

#include "base/machine.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

/* Arm processors tell numbers, not names. */
static const struct {
    unsigned long part;
    const char *name;
} arm_parts[] = {
    {0xd03, "Cortex-A53"},  {0xd07, "Cortex-A57"},   {0xd08, "Cortex-A72"},  {0xd0b, "Cortex-A76"},
    {0xd0c, "Neoverse-N1"}, {0xd40, "Neoverse-V1"},  {0xd41, "Cortex-A78"},  {0xd49, "Neoverse-N2"},
    {0xd4f, "Neoverse-V2"}, {0xd84, "Neoverse-V3"},  {0xd8e, "Neoverse-N3"},
};

/* A file of the system's, read line by line. A FILE would come from the heap, and when that has nothing left the
   machine would seem to be another one. */
typedef struct line_reader {
    int fd;
    size_t used, end;
    char buffer[1024];
} line_reader;

/* The next line without its newline, cut where it does not fit. */
static bool next_line(line_reader *reader, char *line, size_t size)
{
    size_t length = 0;
    bool any = false;
    for (;;) {
        if (reader->used == reader->end) {
            ssize_t got;
            do
                got = read(reader->fd, reader->buffer, sizeof reader->buffer);
            while (got < 0 && errno == EINTR);
            reader->used = 0;
            reader->end = got > 0 ? (size_t)got : 0;
        }
        bool ends = reader->used == reader->end;
        char next = ends ? '\n' : reader->buffer[reader->used++];
        any = any || !ends;
        if (next == '\n') {
            line[length] = 0;
            return any;
        }
        if (length + 1 < size)
            line[length++] = next;
    }
}

/* The text after "key : " of the first such line of a file of the system's; NULL: no such line. `line` is what it is
   read into. */
static const char *find_line(const char *path, const char *key, char *line, size_t size)
{
    line_reader reader = {.fd = open(path, O_RDONLY | O_CLOEXEC)};
    const char *value = NULL;
    while (reader.fd >= 0 && !value && next_line(&reader, line, size)) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, key, strlen(key)) == 0 && colon)
            value = colon + 1 + strspn(colon + 1, " \t");
    }
    if (reader.fd >= 0)
        close(reader.fd);
    return value;
}

void rc_machine_name(char *text, size_t size)
{
    char line[256];
    const char *value = find_line("/proc/cpuinfo", "model name", line, sizeof line);
    if (!value) {
        value = find_line("/proc/cpuinfo", "CPU part", line, sizeof line);
        unsigned long part = value ? strtoul(value, NULL, 16) : 0;
        value = NULL;
        for (size_t i = 0; i < sizeof arm_parts / sizeof *arm_parts; i++)
            if (arm_parts[i].part == part)
                value = arm_parts[i].name;
    }
    struct utsname system;
    if (!value)
        value = uname(&system) == 0 ? system.machine : "unknown machine";
    snprintf(text, size, "%s", value);
}

int rc_machine_cores(void)
{
#if defined(__linux__)
    cpu_set_t allowed; /* fewer than the machine has, inside a container or a batch job */
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0)
        return CPU_COUNT(&allowed);
#endif
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online < 1 ? 1 : online > INT_MAX ? INT_MAX : (int)online;
}

size_t rc_memory_limit(const char *path)
{
    char line[64], *end = line;
    line_reader reader = {.fd = open(path, O_RDONLY | O_CLOEXEC)};
    unsigned long long limit = reader.fd >= 0 && next_line(&reader, line, sizeof line) ? strtoull(line, &end, 10) : 0;
    if (reader.fd >= 0)
        close(reader.fd);
    return end != line && limit > 0 && limit < SIZE_MAX ? (size_t)limit : SIZE_MAX;
}

/* Of containers the old kind has one file, the new one the other. */
size_t rc_machine_memory(void)
{
    static const char *const limits[] = {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"};
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    size_t memory = pages > 0 && size > 0 ? (size_t)pages * (size_t)size : SIZE_MAX;
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        size_t limit = rc_memory_limit(limits[i]);
        memory = limit < memory ? limit : memory;
    }
    return memory;
}

size_t rc_machine_free_memory(void)
{
    char line[128];
    const char *memory = find_line("/proc/meminfo", "MemAvailable", line, sizeof line); /* "23346120 kB" */
    if (!memory)
        return SIZE_MAX;
    unsigned long long kilobytes = strtoull(memory, NULL, 10);
    const char *swap = find_line("/proc/meminfo", "SwapFree", line, sizeof line);
    kilobytes += swap ? strtoull(swap, NULL, 10) : 0;
    return kilobytes < SIZE_MAX / 1024 ? (size_t)kilobytes * 1024 : SIZE_MAX;
}
