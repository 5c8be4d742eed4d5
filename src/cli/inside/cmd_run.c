/* recollect run: a whole experiment. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/describe_methods.h"
#include "cli/cli.h"
#include "experiment/experiment.h"
#include "forecast/allowance.h"

enum {
    METHOD,
    DATA,
    DECODE,
    OUT,
    RESUME,
    SHARE,
    LEASE,
    SHARD,
    SET,
    SEED,
    TASKS,
    ORDER,
    ORDERS,
    SEEDS,
    STOP_AFTER,
    BACKEND,
    PRECISION,
    DEVICE_MEMORY,
    MAX_MEMORY,
    THREADS,
    JOBS,
    MPI,
    CHECKPOINT,
    SKIP_BROKEN,
    VERBOSE,
    PRINT_CONFIG,
    OPTIONS
};

static const rc_option options[OPTIONS] = {
    [METHOD] = {"method", RC_OPTION_TEXT, "NAME,...", "cwd", "methods to run, or all ('recollect methods' explains)", 0,
                0},
    [DATA] = {"data", RC_OPTION_TEXT, "PATH", NULL, "where the images are; 'procedural' makes some", 0, 0},
    [DECODE] = {"decode", RC_OPTION_TEXT, "memory|stream", NULL,
                "stream: pictures are decoded whenever they are read, for training through random windows", 0, 0},
    [OUT] = {"out", RC_OPTION_OUTPUT, "FOLDER", NULL, "where results go (required)", 0, 0},
    [RESUME] = {"resume", RC_OPTION_FLAG, NULL, NULL, "go on with the run in that folder, or begin it", 0, 0},
    [SHARE] = {"share", RC_OPTION_FLAG, NULL, NULL, "work on the folder with other processes that share it", 0, 0},
    [LEASE] = {"lease", RC_OPTION_TEXT, "SECONDS", "60", "with --share: when a silent process counts as dead", 0, 0},
    [SHARD] = {"shard", RC_OPTION_TEXT, "K/N", NULL, "with --share: every N-th order and seed; 'slurm': by the array",
               0, 0},
    [SET] = {"set", RC_OPTION_LIST, "NAME=VALUE", NULL, "changes one setting; any number of times", 0, 0},
    [SEED] = {"seed", RC_OPTION_TEXT, "N", NULL, "seed of every random number", 0, 0},
    [TASKS] = {"tasks", RC_OPTION_TEXT, "N or N,N,...", NULL, "number of tasks, or the classes of each", 0, 0},
    [ORDER] = {"order", RC_OPTION_TEXT, "N", NULL, "which published class order", 0, 0},
    [ORDERS] = {"orders", RC_OPTION_TEXT, "N,...", NULL, "several orders, each in OUT/order-N", 0, 0},
    [SEEDS] = {"seeds", RC_OPTION_TEXT, "N,...", NULL, "several seeds of training, each in OUT/seed-N", 0, 0},
    [STOP_AFTER] = {"stop-after", RC_OPTION_INTEGER, "N", "0", "stop after N tasks; 0: run all", 0, 256},
    [BACKEND] = {"backend", RC_OPTION_TEXT, RC_BACKENDS, "cpu", "what computes", 0, 0},
    [PRECISION] = RC_OPTION_PRECISION,
    [DEVICE_MEMORY] = RC_OPTION_DEVICE_MEMORY,
    [MAX_MEMORY] = RC_OPTION_MAX_MEMORY,
    [THREADS] = {"threads", RC_OPTION_INTEGER, "N", "0", "threads to use, of all jobs; 0: all cores", 0, 1024},
    [JOBS] = {"jobs", RC_OPTION_INTEGER, "N", "0", "methods and orders side by side; 0: as many as fit", 0, 64},
    [MPI] = {"mpi", RC_OPTION_TEXT, "auto|on|off", "auto",
             "auto: processes that mpirun or srun started share every batch; on: even one that is alone", 0, 0},
    [CHECKPOINT] = {"checkpoint", RC_OPTION_TEXT, "SECONDS", "120", "time between checkpoints; 0: as often as it can",
                    0, 0},
    [SKIP_BROKEN] = {"skip-broken", RC_OPTION_FLAG, NULL, NULL, "skip images that cannot be read", 0, 0},
    [VERBOSE] = RC_OPTION_VERBOSE,
    [PRINT_CONFIG] = {"print-config", RC_OPTION_FLAG, NULL, NULL, "print the effective configuration and stop", 0, 0},
};

/* ---- settings ------------------------------------------------------------------------------------------------ */

/* Options that are settings, too. */
static const struct {
    int option;
    const char *setting;
} own[] = {{DATA, "data"},    {DECODE, "decode"}, {SEED, "seed"},       {ORDER, "order"},
           {ORDERS, "order"}, {TASKS, "tasks"},   {TASKS, "task_sizes"}};

/* A pair of --set, unless an option has set the same. */
static rc_status set_pair(const rc_option_value *value, const char *pair, rc_config *config)
{
    size_t length = strcspn(pair, "=");
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (value[own[i].option].given && strlen(own[i].setting) == length &&
            strncmp(own[i].setting, pair, length) == 0)
            return rc_fail(RC_INVALID_ARGUMENT, "--%s and --set %s: which one?", options[own[i].option].name,
                           own[i].setting);
    return rc_config_set_pair(config, pair);
}

static rc_status read_config(const rc_option_value *value, const char *preset, const rc_log *log, rc_config *config)
{
    *config = rc_config_default();
    RC_TRY(rc_config_load(config, preset, log));
    for (size_t i = 0; own[i].option != ORDERS; i++) /* lists and tasks are read in their own way */
        if (value[own[i].option].given)
            RC_TRY(rc_config_set(config, own[i].setting, value[own[i].option].text));
    if (value[TASKS].given) {
        bool list = strchr(value[TASKS].text, ',') != NULL;
        RC_TRY(rc_config_set(config, list ? "task_sizes" : "tasks", value[TASKS].text));
        if (!list)
            RC_TRY(rc_config_set(config, "task_sizes", ""));
    }
    for (int i = 0; i < value[SET].repeats; i++)
        RC_TRY(set_pair(value, value[SET].each[i], config));
    return rc_config_check(config);
}

static rc_status read_methods(const char *list, rc_run_settings *settings)
{
    if (strcmp(list, "all") == 0) {
        while (settings->methods < RC_MAX_METHODS && rc_method_at(settings->methods) != NULL) {
            settings->method[settings->methods] = rc_method_at(settings->methods);
            settings->methods++;
        }
        return RC_OK;
    }
    for (const char *p = list;; p++) {
        char name[32];
        size_t length = strcspn(p, ",");
        snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name - 1), p);
        if (settings->methods == RC_MAX_METHODS)
            return rc_fail(RC_INVALID_ARGUMENT, "more than %d methods", RC_MAX_METHODS);
        RC_TRY(rc_method_choose(name, &settings->method[settings->methods++]));
        p += length;
        if (*p == '\0')
            return RC_OK;
    }
}

/* K/N, or what Slurm calls this job of an array. */
static bool read_shard(const char *text, rc_run_settings *settings)
{
    char end;
    if (strcmp(text, "slurm") == 0) {
        const char *id = getenv("SLURM_ARRAY_TASK_ID"), *first = getenv("SLURM_ARRAY_TASK_MIN");
        const char *count = getenv("SLURM_ARRAY_TASK_COUNT");
        if (id == NULL || first == NULL || count == NULL)
            return false;
        settings->shard = atoi(id) - atoi(first) + 1;
        settings->shards = atoi(count);
    } else if (sscanf(text, "%9d/%9d%c", &settings->shard, &settings->shards, &end) != 2)
        return false;
    return settings->shards >= 1 && settings->shard >= 1 && settings->shard <= settings->shards;
}

/* The next number of a list and what follows it; false: there is none. */
static bool read_number(const char **list, uint64_t most, uint64_t *number)
{
    char *end;
    errno = 0;
    if (**list < '0' || **list > '9')
        return false;
    *number = strtoull(*list, &end, 10);
    if (errno != 0 || *number > most || (*end == ',' ? end[1] == '\0' : *end != '\0'))
        return false;
    *list = end + (*end == ',');
    return true;
}

static rc_status read_orders(const char *list, rc_run_settings *settings)
{
    uint64_t number;
    for (const char *p = list; *p != '\0' || p == list;) {
        if (settings->orders == RC_MAX_ORDERS || !read_number(&p, INT32_MAX, &number))
            return rc_fail(RC_INVALID_ARGUMENT, "option '--orders' is '%s', expected up to %d numbers: 0,1,2", list,
                           RC_MAX_ORDERS);
        settings->order[settings->orders++] = (int)number;
    }
    return RC_OK;
}

static rc_status read_seeds(const char *list, rc_run_settings *settings)
{
    for (const char *p = list; *p != '\0' || p == list;)
        if (settings->seeds == RC_MAX_ORDERS || !read_number(&p, INT64_MAX, &settings->seed[settings->seeds++]))
            return rc_fail(RC_INVALID_ARGUMENT, "option '--seeds' is '%s', expected up to %d numbers: 1,2,3", list,
                           RC_MAX_ORDERS);
    return RC_OK;
}

/* What is run: configuration, methods, orders and seeds. */
static rc_status read_grid(const rc_option_value *value, const char *preset, const rc_log *log,
                           rc_run_settings *settings)
{
    RC_TRY(read_config(value, preset, log, &settings->config));
    RC_TRY(read_methods(value[METHOD].text, settings));
    if (value[ORDERS].given)
        RC_TRY(read_orders(value[ORDERS].text, settings));
    if (value[SEEDS].given)
        RC_TRY(read_seeds(value[SEEDS].text, settings));
    return rc_run_settings_check(settings);
}

/* ---- the command --------------------------------------------------------------------------------------------- */

static int run(const rc_option_value *value, int count, char **arguments)
{
    if (count != 1)
        return rc_wrong_usage(&rc_command_run,
                              count == 0 ? "which preset or configuration file?" : "more than one preset");
    rc_log log = {.write = rc_note_log, .level = RC_LOG_INFO};
    rc_run_settings settings = {.out = value[OUT].text,
                                .resume = value[RESUME].given,
                                .stop_after = (int)value[STOP_AFTER].integer,
                                .threads = (int)value[THREADS].integer,
                                .backend = rc_backend_name(&value[BACKEND]),
                                .jobs = (int)value[JOBS].integer,
                                .alone = strcmp(value[MPI].text, "off") == 0,
                                .together = strcmp(value[MPI].text, "on") == 0,
                                .skip_broken = value[SKIP_BROKEN].given,
                                .set = value[SET].each,
                                .sets = value[SET].repeats,
                                .line = rc_print_line,
                                .watch = {.log = log, .progress = rc_tell_progress, .cancelled = rc_interrupted}};
    if (!rc_read_number(value[CHECKPOINT].text, 0, 86400, &settings.checkpoint_seconds))
        return rc_wrong_usage(&rc_command_run, "option '--checkpoint' is '%s', expected seconds from 0 to 86400",
                              value[CHECKPOINT].text);
    double lease;
    if (!rc_read_number(value[LEASE].text, 1, 86400, &lease))
        return rc_wrong_usage(&rc_command_run, "option '--lease' is '%s', expected seconds from 1 to 86400",
                              value[LEASE].text);
    if (value[SHARE].given) {
        settings.lease_seconds = lease;
        settings.resume = true;
    }
    if (value[SHARD].given && !value[SHARE].given)
        return rc_wrong_usage(&rc_command_run, "--shard is for --share: processes that share a folder");
    if (value[SHARD].given && !read_shard(value[SHARD].text, &settings))
        return rc_wrong_usage(&rc_command_run,
                              "option '--shard' is '%s', expected K/N, such as 1/4 to 4/4, or 'slurm' in a job of an "
                              "array (sbatch --array=1-4)",
                              value[SHARD].text);
    settings.report_seconds = fmin(settings.checkpoint_seconds, 1); /* so that it is asked often enough */
    if (value[ORDERS].given && value[ORDER].given)
        return rc_wrong_usage(&rc_command_run, "--order and --orders: which one?");
    rc_status status = read_grid(value, arguments[0], &log, &settings);
    if (status != RC_OK)
        return rc_wrong_settings(&rc_command_run, status);
    if (value[PRINT_CONFIG].given) {
        status = rc_config_print(&settings.config, rc_print_line, NULL);
        return status == RC_OK ? RC_EXIT_DONE : rc_failed("run", status);
    }
    if (settings.out == NULL || settings.out[0] == '\0')
        return rc_wrong_usage(&rc_command_run, "where shall the results go? --out FOLDER says it");
    if (settings.config.data[0] == '\0')
        return rc_wrong_usage(&rc_command_run, "where are the images? --data PATH says it, 'procedural' makes some");
    rc_memory_allow((size_t)value[MAX_MEMORY].integer, 0);
    rc_progress_verbose(value[VERBOSE].given);
    rc_catch_interrupts();
    rc_outlive_readers();
    char *line = rc_command_line(&rc_command_run, value, arguments[0]);
    settings.command_line = line;
    status = line != NULL ? rc_experiment_run(&settings)
                          : rc_fail(RC_OUT_OF_MEMORY, "no memory for a copy of the command line");
    free(line);
    return status == RC_OK ? RC_EXIT_DONE : rc_failed(NULL, status);
}

const rc_command rc_command_run = {
    .name = "run",
    .summary = "Runs an experiment: a stream of tasks, one or several methods, accuracies after every task.",
    .arguments = "PRESET",
    .details = "PRESET is the name of a built-in preset (demo, cifar100-5, ...) or a YAML file: our own, or one of\n"
               "the published CwD and R-DFCIL configurations. A run can be stopped (Ctrl-C) or killed at\n"
               "any moment; --resume goes on from the last checkpoint and ends with the same bits.\n"
               "With several methods, orders or seeds it runs every combination, side by side where the machine\n"
               "allows it; --resume skips what is done. With --share any number of processes, on any machines that\n"
               "see the folder, give the same command and share the combinations out among themselves.",
    .examples = "  recollect run demo --data fashion-mnist --out demo --method finetune,cwd,joint\n"
                "  recollect run cifar100-5 --data cifar-100-binary --out cifar --order 1\n"
                "  recollect run cifar100-5 --data procedural --out try --set epochs=4 --set refine_epochs=1\n"
                "  recollect run cifar100-5 --data cifar-100-binary --out grid --method cwd,rdfcil --orders 0,1,2\n"
                "  recollect run cifar100-10 --print-config",
    .option = options,
    .options = OPTIONS,
    .run = run,
};
