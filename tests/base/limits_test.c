/* SPDX-License-Identifier: Apache-2.0 */
/* What a process may use of its host, from /proc and /sys as hosts and containers show them: a
 * folder plays the root. */
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/limits.h"

#define MIB ((uint64_t)1 << 20)

static char root[256];

static int make_root(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "/tmp/perseus-limits-XXXXXX");
    assert_non_null(mkdtemp(root));
    return 0;
}

static int remove_root(void **state)
{
    (void)state;
    char command[300];
    snprintf(command, sizeof command, "rm -r '%s'", root);
    return system(command);
}

/* With the folders above it. */
static void put(const char *path, const char *text)
{
    char name[512];
    snprintf(name, sizeof name, "%s%s", root, path);
    for (char *slash = strchr(name + strlen(root) + 1, '/'); slash != NULL;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        assert_true(mkdir(name, 0700) == 0 || errno == EEXIST);
        *slash = '/';
    }
    FILE *file = fopen(name, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static struct prs_limits read_limits(void)
{
    struct prs_limits limits;
    memset(&limits, 0xff, sizeof limits);
    prs_limits_read(root, &limits);
    return limits;
}

static uint32_t allowed_cpus(void)
{
    cpu_set_t set;
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    return (uint32_t)CPU_COUNT(&set);
}

static void put_host(void)
{
    put("/proc/meminfo", "MemTotal: 99 kB\nMemFree: 1 kB\nMemAvailable:   23814144 kB\n");
    put("/proc/sys/vm/overcommit_memory", "0\n");
}

static void put_v2(const char *mount_root, const char *path)
{
    char text[256];
    snprintf(text, sizeof text, "24 1 0:22 %s /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n",
             mount_root);
    put("/proc/self/mountinfo", text);
    snprintf(text, sizeof text, "0::%s\n", path);
    put("/proc/self/cgroup", text);
}

static void put_v1(const char *mount_root, const char *path)
{
    char text[512];
    snprintf(text, sizeof text,
             "30 1 0:30 %s /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
             "31 1 0:31 %s /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
             "32 1 0:32 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
             mount_root, mount_root);
    put("/proc/self/mountinfo", text);
    snprintf(text, sizeof text, "5:cpuset:/\n4:memory:%s\n3:cpu,cpuacct:%s\n0::/\n", path, path);
    put("/proc/self/cgroup", text);
    put("/sys/fs/cgroup/unified/cgroup.procs", "");
}

static void a_host_without_groups(void **state)
{
    (void)state;
    struct prs_limits limits = read_limits(); /* nothing at all can be read */
    assert_int_equal(limits.cpus, allowed_cpus());
    assert_true(limits.memory_bytes == UINT64_MAX);
    assert_false(limits.strict_memory);
    put_host();
    limits = read_limits();
    assert_true(limits.memory_bytes == (uint64_t)23814144 * 1024);
    put("/proc/sys/vm/overcommit_memory", "2\n");
    assert_true(read_limits().strict_memory);
}

static void version_2(void **state)
{
    (void)state;
    put_host();
    put_v2("/", "/a/b");
    put("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    put("/sys/fs/cgroup/a/b/memory.max", "max\n");
    struct prs_limits limits = read_limits();
    assert_int_equal(limits.cpus, allowed_cpus());
    assert_true(limits.memory_bytes == (uint64_t)23814144 * 1024);
    /* The quota is a CPU and a half, rounded up; the memory is what is left, cache not counted. */
    put("/sys/fs/cgroup/a/b/cpu.max", "50000 100000\n");
    put("/sys/fs/cgroup/a/b/memory.max", "314572800\n");
    put("/sys/fs/cgroup/a/b/memory.current", "104857600\n");
    put("/sys/fs/cgroup/a/b/memory.stat", "anon 5\ninactive_file 52428800\nactive_file 7\n");
    limits = read_limits();
    assert_int_equal(limits.cpus, 1);
    assert_true(limits.memory_bytes == 250 * MIB);
    /* A group above it may have less. */
    put("/sys/fs/cgroup/a/memory.max", "104857600\n");
    put("/sys/fs/cgroup/a/memory.current", "94371840\n");
    assert_true(read_limits().memory_bytes == 10 * MIB);
    put("/sys/fs/cgroup/a/memory.current", "115343360\n"); /* above its limit: nothing is left */
    assert_true(read_limits().memory_bytes == 0);
}

/* The group's own folder is the mount's root there, and its path may be the host's or go up. */
static void containers_of_version_2(void **state)
{
    (void)state;
    static const struct {
        const char *mount_root, *path;
    } views[] = {
        {"/", "/"}, {"/docker/abc", "/docker/abc"}, {"/", "/docker/abc"}, {"/", "/../../other"}};
    put_host();
    put("/sys/fs/cgroup/cpu.max", "100000 100000\n");
    put("/sys/fs/cgroup/memory.max", "314572800\n");
    for (size_t i = 0; i < sizeof views / sizeof *views; i++) {
        put_v2(views[i].mount_root, views[i].path);
        struct prs_limits limits = read_limits();
        assert_int_equal(limits.cpus, 1);
        assert_true(limits.memory_bytes == 300 * MIB);
    }
}

static void version_1(void **state)
{
    (void)state;
    put_host();
    put_v1("/", "/docker/abc");
    put("/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "-1\n");
    put("/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us", "100000\n");
    put("/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "9223372036854771712\n");
    struct prs_limits limits = read_limits();
    assert_int_equal(limits.cpus, allowed_cpus());
    assert_true(limits.memory_bytes == (uint64_t)23814144 * 1024);
    put("/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "90000\n");
    put("/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "314572800\n");
    put("/sys/fs/cgroup/memory/docker/abc/memory.usage_in_bytes", "209715200\n");
    put("/sys/fs/cgroup/memory/docker/abc/memory.stat", "cache 9\ntotal_inactive_file 104857600\n");
    limits = read_limits();
    assert_int_equal(limits.cpus, 1);
    assert_true(limits.memory_bytes == 200 * MIB);
    put_v1("/docker/abc", "/docker/abc"); /* inside: the mount begins at the group */
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "104857600\n");
    assert_true(read_limits().memory_bytes == 100 * MIB);
}

static void malformed_files_are_no_limits(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "\n", "zero", "max", "0 0", "-5 -5", "100000"};
    put_host();
    put_v2("/", "/");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        put("/sys/fs/cgroup/cpu.max", texts[i]);
        assert_int_equal(read_limits().cpus, allowed_cpus());
    }
    put("/proc/self/cgroup", "nonsense\n:\n::\n0:\n");
    put("/proc/self/mountinfo", "1 2 3\n - \n - cgroup2 x y\n");
    put("/proc/meminfo", "MemAvailable: much\n");
    assert_true(read_limits().memory_bytes == UINT64_MAX);
}

static void affinity_counts(void **state)
{
    (void)state;
    cpu_set_t all, one;
    struct prs_limits before = read_limits();
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    int cpu = 0;
    while (!CPU_ISSET(cpu, &all)) {
        cpu++;
    }
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    struct prs_limits after = read_limits();
    assert_int_equal(after.cpus, 1);
    assert_true(prs_limits_allow(cpu));
    assert_false(prs_limits_allow(cpu + 1));
    assert_false(prs_limits_allow(-1));
    assert_false(prs_limits_allow(1 << 20));
    assert_int_equal(after.cpu_set == before.cpu_set, CPU_COUNT(&all) == 1);
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
    assert_true(read_limits().cpu_set == before.cpu_set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_host_without_groups, make_root, remove_root),
        cmocka_unit_test_setup_teardown(version_2, make_root, remove_root),
        cmocka_unit_test_setup_teardown(containers_of_version_2, make_root, remove_root),
        cmocka_unit_test_setup_teardown(version_1, make_root, remove_root),
        cmocka_unit_test_setup_teardown(malformed_files_are_no_limits, make_root, remove_root),
        cmocka_unit_test_setup_teardown(affinity_counts, make_root, remove_root),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
