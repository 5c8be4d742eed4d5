/* Opening and closing of the CPU backends, their workspace, and the choice of the instruction set. */
#include "backend/cpu/cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/open.h"

/* ---- instruction sets ------------------------------------------------------------------------------------------ */

typedef struct instruction_set {
    const char *name;
    bool available;
    bool fuses;                      /* it multiplies and adds in one rounding */
    void (*fill)(rc_backend *table); /* NULL: no kernels, the reference does it all */
} instruction_set;

enum { MAX_SETS = 3 };

/* Those compiled in, the widest last. Returns how many. */
static int list_sets(instruction_set sets[MAX_SETS])
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    sets[0] = (instruction_set){"sse2", true, false, rc_fast_fill_sse2};
    sets[1] = (instruction_set){"avx2", avx2, true, rc_fast_fill_avx2};
    sets[2] = (instruction_set){"avx512", avx512, true, rc_fast_fill_avx512};
    return 3;
#elif defined(__aarch64__)
    sets[0] = (instruction_set){"neon", true, true, rc_fast_fill_neon};
    return 1;
#else
    sets[0] = (instruction_set){"generic", true, false, NULL};
    return 1;
#endif
}

/* The widest one that the machine has, or the one that RECOLLECT_ISA asks for. */
static rc_status choose_set(instruction_set *chosen)
{
    instruction_set sets[MAX_SETS];
    int count = list_sets(sets);
    const char *wanted = getenv("RECOLLECT_ISA");
    if (wanted && !wanted[0])
        wanted = NULL;
    char names[64] = "";
    for (int i = 0; i < count; i++) {
        if (!sets[i].available)
            continue;
        if (!wanted || strcmp(wanted, sets[i].name) == 0)
            *chosen = sets[i];
        size_t length = strlen(names);
        snprintf(names + length, sizeof names - length, "%s%s", length ? ", " : "", sets[i].name);
    }
    if (!chosen->name)
        return rc_fail(RC_UNSUPPORTED, "RECOLLECT_ISA is '%s', this machine has: %s", wanted ? wanted : "", names);
    return RC_OK;
}

/* ---- workspace and errors -------------------------------------------------------------------------------------- */

void rc_cpu_count(rc_cpu *cpu, size_t more, size_t fewer)
{
    if (!rc_size_add(cpu->held, more, &cpu->held))
        cpu->held = SIZE_MAX;
    cpu->most = cpu->held > cpu->most ? cpu->held : cpu->most;
    if (cpu->held != SIZE_MAX)
        cpu->held -= fewer;
}

/* A block in the place of one that was too small. */
static rc_status replace_block(rc_cpu *cpu, size_t bytes, size_t before, void **block)
{
    if (cpu->table.sizing) {
        rc_cpu_count(cpu, bytes, before);
        return RC_OK;
    }
    void *larger = rc_alloc(cpu->allocator, bytes);
    if (!larger)
        return RC_OUT_OF_MEMORY;
    rc_free(cpu->allocator, *block);
    *block = larger;
    return RC_OK;
}

rc_status rc_cpu_reserve(rc_cpu *cpu, size_t shared_bytes, size_t scratch_bytes)
{
    if (shared_bytes > cpu->shared_bytes) {
        RC_TRY(replace_block(cpu, shared_bytes, cpu->shared_bytes, &cpu->shared));
        cpu->shared_bytes = shared_bytes;
    }
    if (scratch_bytes > cpu->scratch_bytes) {
        size_t each, all;
        if (!rc_size_add(scratch_bytes, RC_ALIGNMENT - 1, &each))
            return rc_fail(RC_OUT_OF_MEMORY, "workspace of %zu bytes per thread is too large", scratch_bytes);
        each -= each % RC_ALIGNMENT;
        if (!rc_size_mul(each, (size_t)cpu->table.about.threads, &all))
            return rc_fail(RC_OUT_OF_MEMORY, "workspace of %zu bytes per thread is too large", scratch_bytes);
        RC_TRY(replace_block(cpu, all, cpu->scratch_bytes * (size_t)cpu->table.about.threads, &cpu->scratch));
        cpu->scratch_bytes = each;
    }
    return RC_OK;
}

void rc_cpu_set_error(rc_cpu *cpu, rc_status status, const char *message)
{
    if (cpu->status != RC_OK)
        return;
    cpu->status = status;
    snprintf(cpu->message, sizeof cpu->message, "%s", message);
}

/* ---- opening and closing --------------------------------------------------------------------------------------- */

static void cpu_destroy(rc_backend *backend)
{
    rc_cpu *cpu = rc_cpu_of(backend);
    rc_pool_destroy(cpu->pool);
    rc_cpu_leave_workers(cpu);
    rc_free(cpu->allocator, cpu->shared);
    rc_free(cpu->allocator, cpu->scratch);
    rc_allocator given = cpu->given; /* it lives in the block that is freed */
    rc_free(cpu->allocator != NULL ? &given : NULL, cpu);
}

/* The reference in one type, on one thread. */
static void fill_reference(rc_cpu *cpu, bool wide)
{
    rc_backend *table = &cpu->table;
    table->about = (rc_backend_about){.name = wide ? "reference64" : "reference",
                                      .isa = "c",
                                      .precision = wide ? "fp64" : "fp32",
                                      .judge = "cpu",
                                      .threads = 1,
                                      .runs_at_once = 1,
                                      .survives_fork = true};
    table->channel_multiple = 4;
    table->act_bytes = table->real_bytes = wide ? sizeof(double) : sizeof(float);
    table->destroy = cpu_destroy;
    table->join_workers = rc_cpu_join_workers;
    if (wide)
        rc_reference_fill_double(table);
    else
        rc_reference_fill_float(table);
}

/* Kernels over the reference, on a pool of threads. */
static rc_status fill_fast(rc_cpu *cpu, int threads)
{
    enum { THREADS_OF_A_RUN = 8 }; /* which one training run keeps busy */
    rc_backend *table = &cpu->table;
    rc_backend_about *about = &table->about;
    instruction_set set = {0};
    RC_TRY(choose_set(&set));
    RC_TRY(rc_pool_create(threads, &cpu->pool));
    about->name = "cpu";
    about->isa = set.name;
    about->judge = "reference";
    about->threads = rc_pool_threads(cpu->pool);
    about->runs_at_once = about->threads < THREADS_OF_A_RUN ? 1 : about->threads / THREADS_OF_A_RUN;
    about->takes_threads = about->reaches_peak = true;
    about->fuses = set.fuses;
    RC_TRY(rc_cpu_reserve(cpu, 0, RC_CPU_MIN_SCRATCH));
    if (set.fill)
        set.fill(table);
    rc_log_write(&cpu->log, RC_LOG_INFO, "backend cpu: %s kernels, %d thread%s", about->isa, about->threads,
                 about->threads == 1 ? "" : "s");
#if RC_TEST_HOOKS
    return rc_break_operation(table);
#else
    return RC_OK;
#endif
}

rc_status rc_cpu_open(const char *name, int threads, const rc_log *log, const rc_allocator *allocator,
                      rc_backend **backend)
{
    *backend = NULL;
    rc_cpu *cpu = rc_alloc_zeroed(allocator, 1, sizeof *cpu);
    if (!cpu)
        return RC_OUT_OF_MEMORY;
    if (allocator) {
        cpu->given = *allocator;
        cpu->allocator = &cpu->given;
    }
    if (log)
        cpu->log = *log;
    cpu->status = RC_OK;
    fill_reference(cpu, strcmp(name, "reference64") == 0);
    if (strcmp(name, "cpu") == 0) {
        rc_status status = fill_fast(cpu, threads);
        if (status != RC_OK) {
            cpu_destroy(&cpu->table);
            return status;
        }
    }
    *backend = &cpu->table;
    return RC_OK;
}
