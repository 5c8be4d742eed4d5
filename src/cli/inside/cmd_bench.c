/* recollect bench: how fast this machine is. */
#include <stddef.h>
#include <string.h>

#include "base/nearest.h"
#include "check/bench.h"
#include "cli/cli.h"

enum { BACKEND, PRECISION, DEVICE_MEMORY, THREADS, OPERATION, NET, STEP, JOBS, BATCH, SIZE, QUICK, JSON, OPTIONS };

static const rc_option options[OPTIONS] = {
    [BACKEND] = {"backend", RC_OPTION_TEXT, RC_BACKENDS, "cpu", "what to measure", 0, 0},
    [PRECISION] = RC_OPTION_PRECISION,
    [DEVICE_MEMORY] = RC_OPTION_DEVICE_MEMORY,
    [THREADS] = RC_OPTION_THREADS,
    [OPERATION] = {"op", RC_OPTION_TEXT, "NAME", NULL, "measure only this operation", 0, 0},
    [NET] = {"net", RC_OPTION_TEXT, "NAME", NULL, "operations on the shapes of this net only", 0, 0},
    [STEP] = {"step", RC_OPTION_TEXT, "train_first|train_next|inversion|train_strong|all", NULL,
              "whole steps instead of operations", 0, 0},
    [JOBS] = {"jobs", RC_OPTION_INTEGER, "N", "1",
              "with --step: threads that run it side by side; the time is that of one step more of any of them", 1, 64},
    [BATCH] = {"batch", RC_OPTION_INTEGER, "N", "128", "images in a batch", 1, 4096},
    [SIZE] = {"size", RC_OPTION_INTEGER, "N", NULL, "pixels of an image's side; those of a published net, else 32", 8,
              512},
    [QUICK] = {"quick", RC_OPTION_FLAG, NULL, NULL, "fewer repetitions", 0, 0},
    [JSON] = {"json", RC_OPTION_FLAG, NULL, NULL, "print JSON; operations and steps unless one is asked for", 0, 0},
};

static const char *operation_name(const void *context, int index)
{
    (void)context;
    return rc_bench_operation(index);
}

static const char *net_name(const void *context, int index)
{
    (void)context;
    return recollect_net_at(index);
}

/* Is the name, if there is one, in that list? */
static int check_name(const char *what, const char *name, const char *(*at)(const void *, int))
{
    if (!name)
        return RC_EXIT_DONE;
    for (int i = 0; at(NULL, i); i++)
        if (strcmp(at(NULL, i), name) == 0)
            return RC_EXIT_DONE;
    const char *nearest = rc_nearest(name, at, NULL);
    if (!nearest)
        return rc_wrong_usage(&rc_command_bench, "no %s '%s' to measure", what, name);
    return rc_wrong_usage(&rc_command_bench, "no %s '%s' to measure; did you mean '%s'?", what, name, nearest);
}

static int run(const rc_option_value *value, int count, char **arguments)
{
    (void)count;
    (void)arguments;
    if (check_name("operation", value[OPERATION].text, operation_name) != RC_EXIT_DONE ||
        check_name("net", value[NET].text, net_name) != RC_EXIT_DONE)
        return RC_EXIT_USAGE;
    bool narrowed = value[OPERATION].given || value[NET].given;
    const rc_bench_settings settings = {
        .backend = rc_backend_name(&value[BACKEND]),
        .threads = (int)value[THREADS].integer,
        .batch = (int)value[BATCH].integer,
        .size = (int)value[SIZE].integer,
        .quick = value[QUICK].given,
        .json = value[JSON].given,
        .jobs = (int)value[JOBS].integer,
        .operations = narrowed || !value[STEP].given,
        .operation = value[OPERATION].text,
        .net = value[NET].text,
        .step = value[STEP].given                ? value[STEP].text
                : value[JSON].given && !narrowed ? "all"
                                                 : NULL,
        .line = value[JSON].given ? rc_print_json : rc_print_line,
        .progress = rc_show_progress,
    };
    rc_status status = rc_bench(&settings);
    if (status != RC_OK)
        return rc_failed("bench", status);
    return RC_EXIT_DONE;
}

const rc_command rc_command_bench = {
    .name = "bench",
    .summary = "Measures the speed of every operation on this machine.",
    .details = "Rates are medians. The peak is measured first: multiply-adds from registers, and copying memory.",
    .examples = "  recollect bench --quick\n"
                "  recollect bench --op conv_forward --net resnet32 --threads 1\n"
                "  recollect bench --net efficientnet-lite0 --batch 8\n"
                "  recollect bench --step all --json\n"
                "  recollect bench --step train_next --jobs 3 --backend cuda",
    .option = options,
    .options = OPTIONS,
    .run = run,
};
