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
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

/* Arm processors report numbers, not names. */
static const struct {
    unsigned long part;
    const char *name;
} arm_parts[] = {
    {0xd03, "Cortex-A53"},  {0xd07, "Cortex-A57"},  {0xd08, "Cortex-A72"},  {0xd0b, "Cortex-A76"},
    {0xd0c, "Neoverse-N1"}, {0xd40, "Neoverse-V1"}, {0xd41, "Cortex-A78"},  {0xd49, "Neoverse-N2"},
    {0xd4f, "Neoverse-V2"}, {0xd84, "Neoverse-V3"}, {0xd8e, "Neoverse-N3"},
};

/* A file of the system, read line by line. A FILE would come from the heap; if the heap were exhausted, the machine
   would seem to be another one. */
typedef struct line_reader {
    int fd;
    size_t used, end;
    char buffer[1024];
} line_reader;

/* The next line without its newline, cut where it does not fit. False at the end, and of a file that is not there. */
static bool next_line(line_reader *reader, char *line, size_t size)
{
    size_t length = 0;
    bool any = false;
    if (reader->fd < 0)
        return false;
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

static line_reader open_lines(const char *path)
{
    return (line_reader){.fd = open(path, O_RDONLY | O_CLOEXEC)};
}

static void close_lines(const line_reader *reader)
{
    if (reader->fd >= 0)
        close(reader->fd);
}

/* The text after "key : " of the first such line of a file of the system's; NULL: no such line. `line` is what it is
   read into. */
static const char *find_line(const char *path, const char *key, char *line, size_t size)
{
    line_reader reader = open_lines(path);
    const char *value = NULL;
    while (!value && next_line(&reader, line, size)) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, key, strlen(key)) == 0 && colon)
            value = colon + 1 + strspn(colon + 1, " \t");
    }
    close_lines(&reader);
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

/* ---- control groups --------------------------------------------------------------------------------------------- */

size_t rc_memory_limit(const char *path)
{
    char line[64], *end = line;
    line_reader reader = open_lines(path);
    unsigned long long limit = next_line(&reader, line, sizeof line) ? strtoull(line, &end, 10) : 0;
    close_lines(&reader);
    return end != line && limit > 0 && limit < SIZE_MAX ? (size_t)limit : SIZE_MAX;
}

/* There are two kinds of control groups, which call the same things by different names. */
typedef struct group_kind {
    const char *type;       /* of the file system */
    const char *controller; /* in the list that a line of the process's groups has; "": the one without a list */
    void (*look)(void *found, const char *folder); /* at the files of one group */
} group_kind;

enum { PATH_ROOM = 4096 };

/* Is `word` one of "a,b,c"? "" is one of "" alone. */
static bool is_listed(const char *list, const char *word)
{
    size_t length = strlen(word);
    for (;; list += strcspn(list, ",") + 1) {
        if (strncmp(list, word, length) == 0 && (list[length] == ',' || list[length] == '\0'))
            return true;
        if (strchr(list, ',') == NULL)
            return false;
    }
}

/* "9:cpu,memory:/a/b": the group of this process; "" if there is no such line. */
static void find_group(const char *groups, const group_kind *kind, char group[PATH_ROOM])
{
    char line[PATH_ROOM + 128];
    line_reader reader = open_lines(groups);
    group[0] = '\0';
    while (group[0] == '\0' && next_line(&reader, line, sizeof line)) {
        char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;
        if (!path)
            continue;
        *path = '\0';
        if (is_listed(list + 1, kind->controller))
            snprintf(group, PATH_ROOM, "%s", path + 1);
    }
    close_lines(&reader);
}

/* A line of mountinfo: "30 23 0:26 ROOT POINT OPTIONS [MORE...] - TYPE SOURCE OPTIONS". Where it shows groups of that
   kind, what of them lies at which place. */
static bool read_mount(char *line, const group_kind *kind, const char **root, const char **point)
{
    char *field[64], *rest = NULL;
    int fields = 0, dash = 0;
    for (char *word = strtok_r(line, " \n", &rest); word && fields < 64; word = strtok_r(NULL, " \n", &rest)) {
        if (dash == 0 && fields >= 6 && strcmp(word, "-") == 0)
            dash = fields;
        field[fields++] = word;
    }
    if (dash == 0 || fields < dash + 4 || strcmp(field[dash + 1], kind->type) != 0)
        return false;
    *root = field[3];
    *point = field[4];
    return kind->controller[0] == '\0' || is_listed(field[dash + 3], kind->controller);
}

/* The group and those above it, up to where they are mounted: each has limits of its own. */
static void look_up_groups(const char *point, const char *group, const group_kind *kind, void *found)
{
    char folder[PATH_ROOM];
    size_t shortest = strlen(point);
    int length = snprintf(folder, sizeof folder, "%s%s", point, group);
    if (length < 0 || length >= (int)sizeof folder)
        return;
    for (;;) {
        kind->look(found, folder);
        char *slash = strrchr(folder, '/');
        if (slash == NULL || (size_t)(slash - folder) < shortest)
            return;
        *slash = '\0';
    }
}

static void look_at_groups(const char *groups, const char *mounts, const group_kind *kind, void *found)
{
    char group[PATH_ROOM], line[2 * PATH_ROOM];
    find_group(groups, kind, group);
    line_reader reader = group[0] != '\0' ? open_lines(mounts) : (line_reader){.fd = -1};
    while (next_line(&reader, line, sizeof line)) {
        const char *root, *point;
        if (!read_mount(line, kind, &root, &point))
            continue;
        /* In a container the mount may show one group alone, or the process may not see its own. */
        size_t length = strcmp(root, "/") == 0 ? 0 : strlen(root);
        bool inside = strncmp(group, root, length) == 0 && (group[length] == '/' || group[length] == '\0');
        look_up_groups(point, inside && strcmp(group + length, "/") != 0 ? group + length : "", kind, found);
    }
    close_lines(&reader);
}

static const char own_groups[] = "/proc/self/cgroup", own_mounts[] = "/proc/self/mountinfo";

/* ---- cores ------------------------------------------------------------------------------------------------------ */

/* A group may have so many microseconds of all cores in each period. A part of a core is worth a thread. */
static void take_quota(int *cores, long long quota, long long period)
{
    if (quota > 0 && period > 0 && (quota - 1) / period < *cores)
        *cores = (int)((quota - 1) / period) + 1;
}

/* "QUOTA PERIOD", or "max PERIOD". */
static void look_at_cpu_max(void *found, const char *folder)
{
    char path[PATH_ROOM + 64], line[64], *end;
    snprintf(path, sizeof path, "%s/cpu.max", folder);
    line_reader reader = open_lines(path);
    if (next_line(&reader, line, sizeof line)) {
        long long quota = strtoll(line, &end, 10);
        take_quota(found, quota, strtoll(end, NULL, 10));
    }
    close_lines(&reader);
}

/* A quota of -1 is none. */
static void look_at_cfs(void *found, const char *folder)
{
    static const char *const files[] = {"cpu.cfs_quota_us", "cpu.cfs_period_us"};
    long long number[2] = {0, 0};
    for (int i = 0; i < 2; i++) {
        char path[PATH_ROOM + 64], line[64];
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        line_reader reader = open_lines(path);
        if (next_line(&reader, line, sizeof line))
            number[i] = strtoll(line, NULL, 10);
        close_lines(&reader);
    }
    take_quota(found, number[0], number[1]);
}

int rc_group_cores(const char *groups, const char *mounts)
{
    int cores = INT_MAX;
    look_at_groups(groups, mounts, &(group_kind){"cgroup2", "", look_at_cpu_max}, &cores);
    look_at_groups(groups, mounts, &(group_kind){"cgroup", "cpu", look_at_cfs}, &cores);
    return cores;
}

static int bound_cores(void)
{
#if defined(__linux__)
    cpu_set_t allowed; /* fewer than the machine has, inside a container or a batch job */
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0)
        return CPU_COUNT(&allowed);
#endif
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online < 1 ? 1 : online > INT_MAX ? INT_MAX : (int)online;
}

int rc_machine_cores(void)
{
    int bound = bound_cores(), quota = rc_group_cores(own_groups, own_mounts);
    return quota < bound ? quota : bound;
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

typedef struct group_memory {
    size_t limit, unused; /* the least of all groups */
} group_memory;

/* Files, and the line of memory.stat that tells what can be dropped at once. */
static void look_at_memory(group_memory *found, const char *folder, const char *limit, const char *usage,
                           const char *cache)
{
    char path[PATH_ROOM + 64], line[128];
    snprintf(path, sizeof path, "%s/%s", folder, limit);
    size_t most = rc_memory_limit(path);
    if (most == SIZE_MAX)
        return;
    found->limit = most < found->limit ? most : found->limit;
    snprintf(path, sizeof path, "%s/%s", folder, usage);
    size_t used = rc_memory_limit(path), dropped = 0;
    if (used == SIZE_MAX)
        used = 0;
    snprintf(path, sizeof path, "%s/memory.stat", folder);
    line_reader reader = open_lines(path);
    while (next_line(&reader, line, sizeof line))
        if (strncmp(line, cache, strlen(cache)) == 0)
            dropped = (size_t)strtoull(line + strlen(cache), NULL, 10);
    close_lines(&reader);
    used -= dropped < used ? dropped : used;
    size_t left = used < most ? most - used : 0;
    found->unused = left < found->unused ? left : found->unused;
}

static void look_at_new_memory(void *found, const char *folder)
{
    look_at_memory(found, folder, "memory.max", "memory.current", "inactive_file ");
}

static void look_at_old_memory(void *found, const char *folder)
{
    look_at_memory(found, folder, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file ");
}

size_t rc_group_memory(const char *groups, const char *mounts, size_t *limit)
{
    group_memory found = {SIZE_MAX, SIZE_MAX};
    look_at_groups(groups, mounts, &(group_kind){"cgroup2", "", look_at_new_memory}, &found);
    look_at_groups(groups, mounts, &(group_kind){"cgroup", "memory", look_at_old_memory}, &found);
    *limit = found.limit;
    return found.unused;
}

size_t rc_machine_memory(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    size_t memory = pages > 0 && size > 0 ? (size_t)pages * (size_t)size : SIZE_MAX, limit;
    rc_group_memory(own_groups, own_mounts, &limit);
    return limit < memory ? limit : memory;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* What "ulimit -v" leaves; SIZE_MAX: it limits nothing. */
static size_t unused_addresses(void)
{
    struct rlimit most;
    long page = sysconf(_SC_PAGESIZE);
    if (getrlimit(RLIMIT_AS, &most) != 0 || most.rlim_cur == RLIM_INFINITY || page < 1)
        return SIZE_MAX;
    size_t pages = rc_memory_limit("/proc/self/statm"); /* its first number */
    if (pages == SIZE_MAX)
        return SIZE_MAX;
    return most.rlim_cur / (size_t)page > pages ? (size_t)most.rlim_cur - pages * (size_t)page : 0;
}

size_t rc_machine_free_memory(void)
{
    char line[128];
    size_t limit, left = smaller(rc_group_memory(own_groups, own_mounts, &limit), unused_addresses());
    const char *memory = find_line("/proc/meminfo", "MemAvailable", line, sizeof line); /* "23346120 kB" */
    if (!memory)
        return left;
    unsigned long long kilobytes = strtoull(memory, NULL, 10);
    const char *swap = find_line("/proc/meminfo", "SwapFree", line, sizeof line);
    kilobytes += swap ? strtoull(swap, NULL, 10) : 0;
    return smaller(left, kilobytes < SIZE_MAX / 1024 ? (size_t)kilobytes * 1024 : SIZE_MAX);
}
