/* How much memory and how many cores the control groups of a process leave it, by files that the test makes up. */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/machine.h"
#include "support/data_files.h"

/* A line of mountinfo that shows `root` of a hierarchy at the folder `point` below the current one. */
static void mount_line(const char *root, const char *point, const char *type, const char *options)
{
    char line[2048], here[1024];
    assert_non_null(getcwd(here, sizeof here));
    snprintf(line, sizeof line,
             "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n30 22 0:26 %s %s/%s rw,nosuid shared:4 - %s cgroup %s\n", root, here,
             point, type, options);
    data_write_text("mountinfo", line);
}

static void group_files(const char *folder, const char *limit, const char *usage, const char *inactive)
{
    char path[256], text[256];
    snprintf(path, sizeof path, "%s/memory.max", folder);
    data_write_text(path, limit);
    snprintf(path, sizeof path, "%s/memory.current", folder);
    data_write_text(path, usage);
    snprintf(path, sizeof path, "%s/memory.stat", folder);
    snprintf(text, sizeof text, "anon 77\ninactive_file %s\nactive_file 88\n", inactive);
    data_write_text(path, text);
}

static void assert_group(size_t unused, size_t limit)
{
    size_t found, left = rc_group_memory("cgroup", "mountinfo", &found);
    if (left != unused || found != limit)
        fail_msg("%zu bytes of %zu are left, expected %zu of %zu", left, found, unused, limit);
}

static void own_group_and_those_above_it(void **state)
{
    (void)state;
    data_write_text("cgroup", "0::/jobs/mine\n");
    mount_line("/", "fs", "cgroup2", "rw");
    group_files("fs/jobs/mine", "max\n", "500\n", "0");
    assert_group(SIZE_MAX, SIZE_MAX);
    group_files("fs/jobs/mine", "1000\n", "700\n", "100"); /* cache that is not in use can go */
    assert_group(400, 1000);
    group_files("fs/jobs", "900\n", "850\n", "0");
    assert_group(50, 900);
    group_files("fs", "800\n", "100\n", "0");
    assert_group(50, 800);
    group_files("fs/jobs", "900\n", "900\n", "0");
    assert_group(0, 800);
    group_files("fs/jobs", "900\n", "950\n", "2000");
    assert_group(400, 800);
    data_write_text("fs/others/memory.max", "7\n"); /* nobody's business */
    data_write_text("memory.max", "7\n");           /* above the mount */
    assert_group(400, 800);
    data_write_text("cgroup", "0::/\n"); /* as a container sees itself */
    assert_group(700, 800);
    data_write_text("cgroup", "0::/gone\n");
    assert_group(700, 800);
}

static void a_mount_may_show_a_part(void **state)
{
    (void)state;
    data_write_text("cgroup", "0::/docker/abc/inner\n");
    mount_line("/docker/abc", "fs", "cgroup2", "rw");
    group_files("fs/inner", "1000\n", "300\n", "0");
    group_files("fs", "600\n", "0\n", "0");
    assert_group(600, 600);
    data_write_text("cgroup", "0::/docker/abcdef\n"); /* another one: only what is mounted is known */
    assert_group(600, 600);
    group_files("fs/docker/abcdef", "5\n", "0\n", "0");
    assert_group(600, 600);
    mount_line("/", "fs", "cgroup2", "rw");
    assert_group(5, 5);
    mount_line("/", "fs", "tmpfs", "rw");
    assert_group(SIZE_MAX, SIZE_MAX);
}

static void the_old_kind_of_groups(void **state)
{
    (void)state;
    data_write_text("cgroup", "9:name=systemd:/wrong\n4:cpu,memory:/mine\n3:cpuset:/wrong\n");
    mount_line("/", "fs", "cgroup", "rw,cpu,memory");
    data_write_text("fs/mine/memory.limit_in_bytes", "1000\n");
    data_write_text("fs/mine/memory.usage_in_bytes", "900\n");
    data_write_text("fs/mine/memory.stat", "inactive_file 3\ntotal_inactive_file 250\n");
    data_write_text("fs/wrong/memory.limit_in_bytes", "1\n");
    assert_group(350, 1000);
    mount_line("/", "fs", "cgroup", "rw,cpu,memory_of_others");
    assert_group(SIZE_MAX, SIZE_MAX);
    mount_line("/", "fs", "cgroup2", "rw,memory");
    assert_group(SIZE_MAX, SIZE_MAX);
    mount_line("/", "fs", "cgroup", "rw,memory");
    data_write_text("cgroup", "4:cpu:/mine\n");
    assert_group(SIZE_MAX, SIZE_MAX);
}

static void assert_cores(int cores)
{
    assert_int_equal(rc_group_cores("cgroup", "mountinfo"), cores);
}

/* Microseconds of all cores in a period. */
static void processor_time_is_counted_in_cores(void **state)
{
    (void)state;
    data_write_text("cgroup", "0::/jobs/mine\n");
    mount_line("/", "fs", "cgroup2", "rw");
    data_write_text("fs/jobs/mine/cpu.max", "max 100000\n");
    assert_cores(INT_MAX);
    data_write_text("fs/jobs/mine/cpu.max", "600000 100000\n");
    assert_cores(6);
    data_write_text("fs/jobs/mine/cpu.max", "500001 100000\n");
    assert_cores(6);
    data_write_text("fs/jobs/cpu.max", "150000 50000\n");
    assert_cores(3);
    data_write_text("fs/cpu.max", "1000 100000\n");
    assert_cores(1);
    data_write_text("cgroup", "9:memory:/jobs\n");
    assert_cores(INT_MAX);
}

static void processor_time_of_the_old_kind(void **state)
{
    (void)state;
    data_write_text("cgroup", "4:memory:/wrong\n3:cpu,cpuacct:/mine\n");
    mount_line("/", "fs", "cgroup", "rw,cpuacct,cpu");
    data_write_text("fs/mine/cpu.cfs_period_us", "100000\n");
    assert_cores(INT_MAX);
    data_write_text("fs/mine/cpu.cfs_quota_us", "-1\n");
    assert_cores(INT_MAX);
    data_write_text("fs/mine/cpu.cfs_quota_us", "250000\n");
    data_write_text("fs/wrong/cpu.cfs_quota_us", "1\n");
    assert_cores(3);
    mount_line("/", "fs", "cgroup", "rw,cpuset");
    assert_cores(INT_MAX);
}

static void files_that_say_nothing(void **state)
{
    (void)state;
    assert_group(SIZE_MAX, SIZE_MAX);
    data_write_text("cgroup", "");
    data_write_text("mountinfo", "");
    assert_group(SIZE_MAX, SIZE_MAX);
    data_write_text("cgroup", "0:\n:\nx\n0::/a\n");
    data_write_text("mountinfo", "30 22 0:26 / /x rw - cgroup2\n\n-\n30 22 - cgroup2 a b\n");
    assert_group(SIZE_MAX, SIZE_MAX);
    mount_line("/", "fs", "cgroup2", "rw");
    group_files("fs/a", "-5\n", "max\n", "x");
    size_t limit;
    rc_group_memory("cgroup", "mountinfo", &limit);
    group_files("fs/a", "1000\n", "max\n", "x");
    assert_group(1000, 1000);
    static const char *const odd[] = {"", "max", "100", "100 0", "-100 -100", "x 100", "100000 -1", "0 100000"};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        data_write_text("fs/a/cpu.max", odd[i]);
        assert_cores(INT_MAX);
    }
    data_write_text("fs/a/cpu.max", "9223372036854775807 1");
    assert_cores(INT_MAX);
}

/* What ulimit -v leaves counts, too. */
static void limits_of_addresses_count(void **state)
{
    (void)state;
    const char *light = getenv("RECOLLECT_TEST_LIGHT");
    if (light && light[0])
        skip(); /* memory checkers use more addresses than that */
    struct rlimit before, now;
    size_t unused = rc_machine_free_memory();
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    assert_true(unused > (size_t)1 << 28 && unused <= rc_machine_memory() * 2);
    now = before;
    now.rlim_cur = (rlim_t)1 << 29;
    assert_int_equal(setrlimit(RLIMIT_AS, &now), 0);
    size_t left = rc_machine_free_memory();
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    assert_true(left < (size_t)1 << 29 && left > (size_t)1 << 27);
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, data_enter_folder, data_leave_folder)
    const struct CMUnitTest tests[] = {
        IN_FOLDER(own_group_and_those_above_it),     IN_FOLDER(a_mount_may_show_a_part),
        IN_FOLDER(the_old_kind_of_groups),           IN_FOLDER(processor_time_is_counted_in_cores),
        IN_FOLDER(processor_time_of_the_old_kind),   IN_FOLDER(files_that_say_nothing),
        cmocka_unit_test(limits_of_addresses_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
