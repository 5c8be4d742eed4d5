#include "cli/sandbox.h"

#include <errno.h>
#include <string.h>

#if defined(__linux__) && (defined(__aarch64__) || defined(__x86_64__))

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <termios.h>
#include <unistd.h>

#ifdef __aarch64__
#define MACHINE AUDIT_ARCH_AARCH64
#else
#define MACHINE AUDIT_ARCH_X86_64
#endif

enum { OPEN_FILES = 256, MOST = 512, NEW_THREAD = 0x10000 /* CLONE_THREAD */, ALL_BITS = -1 };

/* What reading, computing, threads and printing take, whatever the arguments. A number that the kernel does not know
 * yet is refused. */
static const int harmless[] = {
    SYS_read,
    SYS_readv,
    SYS_pread64,
    SYS_write,
    SYS_writev,
    SYS_close,
    SYS_fstat,
    SYS_newfstatat,
    SYS_statx,
    SYS_fstatfs,
    SYS_statfs,
    SYS_lseek,
    SYS_getdents64,
    SYS_readlinkat,
    SYS_faccessat,
    SYS_getcwd,
    SYS_munmap,
    SYS_mremap,
    SYS_brk,
    SYS_madvise,
    SYS_fadvise64,
    SYS_futex,
    SYS_set_robust_list,
    SYS_rseq,
    SYS_set_tid_address,
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_rt_sigreturn,
    SYS_sigaltstack,
    SYS_rt_sigtimedwait,
    SYS_exit,
    SYS_exit_group,
    SYS_getrandom,
    SYS_clock_gettime,
    SYS_clock_nanosleep,
    SYS_clock_getres,
    SYS_nanosleep,
    SYS_sched_yield,
    SYS_sched_getaffinity,
    SYS_getpid,
    SYS_gettid,
    SYS_getppid,
    SYS_getuid,
    SYS_geteuid,
    SYS_getgid,
    SYS_getegid,
    SYS_uname,
    SYS_sysinfo,
    SYS_getrusage,
    SYS_restart_syscall,
    SYS_gettimeofday,
    SYS_getcpu,
    SYS_dup,
    SYS_ppoll,
#ifdef __x86_64__
    SYS_stat,
    SYS_lstat,
    SYS_access,
    SYS_readlink,
    SYS_time,
    SYS_poll,
    SYS_arch_prctl,
#endif
};

/* Calls that may be made while argument & mask is what it is said to be. */
static const struct {
    int call, argument;
    uint32_t mask, value;
} limited[] = {
    {SYS_openat, 2, O_ACCMODE | O_CREAT | O_TRUNC | O_APPEND | 020000000 /* O_TMPFILE */, O_RDONLY},
#ifdef __x86_64__
    {SYS_open, 1, O_ACCMODE | O_CREAT | O_TRUNC | O_APPEND | 020000000, O_RDONLY},
#endif
    {SYS_mmap, 2, PROT_EXEC, 0},
    {SYS_mprotect, 2, PROT_EXEC, 0},
    {SYS_clone, 0, NEW_THREAD, NEW_THREAD},
    {SYS_fcntl, 1, (uint32_t)ALL_BITS, F_GETFD},
    {SYS_fcntl, 1, (uint32_t)ALL_BITS, F_SETFD},
    {SYS_fcntl, 1, (uint32_t)ALL_BITS, F_GETFL},
    {SYS_ioctl, 1, (uint32_t)ALL_BITS, TCGETS},
    {SYS_ioctl, 1, (uint32_t)ALL_BITS, TIOCGWINSZ},
    {SYS_prctl, 0, (uint32_t)ALL_BITS, PR_SET_NAME},
    {SYS_prlimit64, 2, (uint32_t)ALL_BITS, 0}, /* asks; own limits harm nobody else */
};

typedef struct program {
    struct sock_filter step[MOST];
    unsigned short count;
} program;

static void add(program *p, uint16_t code, uint32_t k, uint8_t if_true, uint8_t if_false)
{
    p->step[p->count++] = (struct sock_filter){code, if_true, if_false, k};
}

static void load(program *p, size_t offset)
{
    add(p, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0);
}

static void answer(program *p, uint32_t what)
{
    add(p, BPF_RET | BPF_K, what, 0, 0);
}

static void make(program *p)
{
    const uint32_t refuse = SECCOMP_RET_ERRNO | EPERM;
    load(p, offsetof(struct seccomp_data, arch));
    add(p, BPF_JMP | BPF_JEQ | BPF_K, MACHINE, 1, 0);
    answer(p, SECCOMP_RET_KILL_PROCESS);
    load(p, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++) {
        add(p, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)harmless[i], 0, 1);
        answer(p, SECCOMP_RET_ALLOW);
    }
    /* Its flags lie in memory, where no filter sees them: the C library then takes clone. */
    add(p, BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1);
    answer(p, SECCOMP_RET_ERRNO | ENOSYS);
    for (size_t i = 0; i < sizeof limited / sizeof *limited; i++) {
        add(p, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)limited[i].call, 0, 5);
        load(p, offsetof(struct seccomp_data, args) + (size_t)limited[i].argument * sizeof(uint64_t)); /* lower half */
        add(p, BPF_ALU | BPF_AND | BPF_K, limited[i].mask, 0, 0);
        add(p, BPF_JMP | BPF_JEQ | BPF_K, limited[i].value, 0, 1);
        answer(p, SECCOMP_RET_ALLOW);
        load(p, offsetof(struct seccomp_data, nr));
    }
    answer(p, refuse);
}

static int enter(void)
{
    program p = {.count = 0};
    make(&p);
    struct sock_fprog filter = {p.count, p.step};
    const struct rlimit no_core = {0, 0}, files = {OPEN_FILES, OPEN_FILES};
    struct rlimit now;
    if (setrlimit(RLIMIT_CORE, &no_core) != 0 || getrlimit(RLIMIT_NOFILE, &now) != 0)
        return -1;
    if (now.rlim_cur > OPEN_FILES && setrlimit(RLIMIT_NOFILE, &files) != 0)
        return -1;
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return -1;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0);
}

#else

static int enter(void)
{
    errno = ENOSYS;
    return -1;
}

#endif

int rc_sandbox_asked(const rc_command *command, const rc_option_value *sandbox, const rc_option_value *backend)
{
    if (!sandbox->given)
        return RC_EXIT_DONE;
    if (backend->given)
        return rc_wrong_usage(command,
                              "--sandbox computes on the CPU, because a driver needs what it gives up: leave out "
                              "--backend");
    if (enter() == 0)
        return RC_EXIT_DONE;
    rc_complain("%s: this system cannot do what --sandbox asks for: %s", command->name, strerror(errno));
    return RC_EXIT_FAILED;
}
