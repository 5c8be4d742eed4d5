/* recollect selftest: every operation checked on this machine. */
#include <stddef.h>

#include "base/nearest.h"
#include "check/selftest.h"
#include "cli/cli.h"

enum { BACKEND, PRECISION, DEVICE_MEMORY, THREADS, SEED, QUICK, OPERATION, CASE, STEPS, LIST, VERBOSE, OPTIONS };

static const rc_option options[OPTIONS] = {
    [BACKEND] = {"backend", RC_OPTION_TEXT, RC_BACKENDS, "cpu", "what to check", 0, 0},
    [PRECISION] = RC_OPTION_PRECISION,
    [DEVICE_MEMORY] = RC_OPTION_DEVICE_MEMORY,
    [THREADS] = RC_OPTION_THREADS,
    [SEED] = {"seed", RC_OPTION_INTEGER, "N", "1", "draw other cases", 0, INT64_MAX},
    [QUICK] = {"quick", RC_OPTION_FLAG, NULL, NULL, "fewer and smaller cases", 0, 0},
    [OPERATION] = {"op", RC_OPTION_TEXT, "NAME", NULL, "check only this operation", 0, 0},
    [CASE] = {"case", RC_OPTION_INTEGER, "N", NULL, "check only this case of it, or of the whole steps", 0, INT32_MAX},
    [STEPS] = {"steps", RC_OPTION_INTEGER, "N", NULL, "check only whole steps, N of each; 10 are judged", 1, 10000},
    [LIST] = {"list", RC_OPTION_FLAG, NULL, NULL, "list the operations and check nothing", 0, 0},
    [VERBOSE] = {"verbose", RC_OPTION_FLAG, NULL, NULL, "a line for every case", 0, 0},
};

static const char *operation_name(const void *context, int index)
{
    (void)context;
    return rc_selftest_operation(index);
}

static void print_again(void *unused, const rc_selftest_miss *m)
{
    (void)unused;
    rc_print("      again: recollect selftest --backend %s --precision %s --threads %d --seed %llu --op %s --case %u%s",
             m->backend, m->precision, m->threads, (unsigned long long)m->seed, m->operation, m->number,
             m->quick ? " --quick" : "");
}

static int run(const rc_option_value *value, int count, char **arguments)
{
    (void)count;
    (void)arguments;
    if (value[LIST].given) {
        for (int i = 0; rc_selftest_operation(i); i++)
            rc_print("%s", rc_selftest_operation(i));
        return RC_EXIT_DONE;
    }
    const char *operation = value[OPERATION].text;
    if (operation && !rc_selftest_knows(operation)) {
        const char *nearest = rc_nearest(operation, operation_name, NULL);
        return nearest ? rc_wrong_usage(&rc_command_selftest, "unknown operation '%s'; did you mean '%s'?", operation,
                                        nearest)
                       : rc_wrong_usage(&rc_command_selftest, "unknown operation '%s'; --list names them", operation);
    }
    const rc_selftest_settings settings = {
        .backend = rc_backend_name(&value[BACKEND]),
        .threads = (int)value[THREADS].integer,
        .seed = (uint64_t)value[SEED].integer,
        .quick = value[QUICK].given,
        .verbose = value[VERBOSE].given,
        .operation = operation,
        .only = value[CASE].given ? (int)value[CASE].integer : -1,
        .steps = value[STEPS].given ? (int)value[STEPS].integer : 0,
        .line = rc_print_line,
        .progress = rc_show_progress,
        .missed = print_again,
    };
    rc_selftest_result result;
    rc_status status = rc_selftest(&settings, &result);
    if (status != RC_OK)
        return rc_failed("selftest", status);
    return result.misses ? RC_EXIT_FAILED : RC_EXIT_DONE;
}

const rc_command rc_command_selftest = {
    .name = "selftest",
    .summary = "Checks every operation on this machine.",
    .details = "Each operation runs on random shapes and is compared with plain C in float and in double, gradients\n"
               "with finite differences, and its results with themselves for 1, 2 and 3 threads, bit by bit. On cuda,\n"
               "and with --steps, whole steps of training and inversion run beside those of the CPU backend (cpu:\n"
               "beside plain C): losses step by step, gradients by norm and angle, with --verbose of every tensor.",
    .examples = "  recollect selftest --quick\n"
                "  recollect selftest --op conv_forward --seed 7\n"
                "  recollect selftest --backend cuda --steps 50 --verbose",
    .option = options,
    .options = OPTIONS,
    .run = run,
};
