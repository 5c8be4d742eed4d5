/* What a stranger's file could try once it has the program in its hands: preloaded, this library tries all of it when
 * the program reads a picture, and tells on stderr what it could do. RECOLLECT_ESCAPE: a file that it tries to make. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int tried, done;

static void told(const char *what, long result)
{
    tried++;
    if (result >= 0) {
        done++;
        dprintf(2, "escaped: %s\n", what);
    }
}

static void try_all(const char *file)
{
    char name[1200];
    char *const arguments[] = {name, NULL};
    snprintf(name, sizeof name, "%s-2", file);
    told("a connection", socket(AF_INET, SOCK_STREAM, 0));
    told("a local socket", socket(AF_UNIX, SOCK_STREAM, 0));
    told("a new file", open(file, O_WRONLY | O_CREAT, 0666));
    told("a file without a name", open("/tmp", O_RDWR | O_TMPFILE, 0600));
    told("a file opened to be changed", open("model.safetensors", O_RDWR));
    told("a file emptied", open("model.safetensors", O_RDONLY | O_TRUNC));
    told("a folder", mkdir(file, 0777));
    told("a link", symlink("/", name));
    told("another name", rename("model.safetensors", name));
    told("a file removed", unlink("model.safetensors"));
    told("another mode", chmod("model.safetensors", 0777));
    long child = syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (child == 0)
        _exit(0);
    if (child > 0) /* once it is traced, this process would stop when the child's signal comes */
        waitpid((pid_t)child, NULL, 0);
    told("a process", child);
    told("a signal", kill(getppid(), 0));
    told("tracing", ptrace(PTRACE_TRACEME, 0, NULL, NULL));
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    told("code", page == MAP_FAILED ? -1 : 0);
    page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    told("code later", page == MAP_FAILED ? -1 : mprotect(page, 4096, PROT_READ | PROT_EXEC));
    snprintf(name, sizeof name, "/bin/true");
    told("another program", execv(name, arguments));
    dprintf(2, "tried %d, held %d\n", tried, tried - done);
}

ssize_t read(int fd, void *data, size_t size)
{
    static atomic_int begun;
    const char *file = getenv("RECOLLECT_ESCAPE");
    char link[64], path[1024];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length > 0 ? length : 0] = '\0';
    if (file != NULL && strstr(path, "/pictures/") != NULL && atomic_exchange(&begun, 1) == 0)
        try_all(file);
    return ((ssize_t(*)(int, void *, size_t))(uintptr_t)dlsym(RTLD_NEXT, "read"))(fd, data, size);
}
