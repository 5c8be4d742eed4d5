#include "experiment/experiment.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backend/workers.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/machine.h"
#include "base/memory.h"
#include "config/unread.h"
#include "experiment/others.h"
#include "experiment/run_data.h"
#include "experiment/summary.h"

typedef struct experiment {
    const rc_run_settings *settings;
    const rc_dataset *data;
    rc_trial *trial; /* (trials): one for each order and seed */
    int trials;
    rc_cell *cell; /* (cells): of each trial the first task, then its methods */
    int cells;
    int jobs, threads; /* at once; of each */
    rc_forecast forecast;
    double began;
    rc_workers *workers; /* NULL: this process alone */
} experiment;

static rc_cell *cell_of(const experiment *x, int trial, int method) /* -1: the first task */
{
    return &x->cell[trial * (x->settings->methods + 1) + 1 + method];
}

/* ---- the data ------------------------------------------------------------------------------------------------- */

static rc_status open_data(const rc_run_settings *s, rc_dataset *data)
{
    rc_status status = rc_run_data_open(&s->config, s->threads, s->skip_broken, &s->watch, data);
    if (s->resume && (status == RC_IO || status == RC_FORMAT || status == RC_INVALID_ARGUMENT))
        return rc_fail(status,
                       "%s. The run in %s is as it was: the setting 'resume' goes on once the data is there (the "
                       "setting 'data' if it lies elsewhere now)",
                       rc_message(), s->out);
    return status;
}

/* ---- orders and seeds ----------------------------------------------------------------------------------------- */

static rc_status make_trials(experiment *x)
{
    const rc_run_settings *s = x->settings;
    x->trials = (s->orders > 0 ? s->orders : 1) * (s->seeds > 0 ? s->seeds : 1);
    x->trial = rc_alloc_zeroed(NULL, (size_t)x->trials, sizeof *x->trial);
    if (x->trial == NULL)
        return RC_OUT_OF_MEMORY;
    int seeds = s->seeds > 0 ? s->seeds : 1;
    for (int i = 0; i < x->trials; i++) {
        x->trial[i].config = s->config;
        RC_TRY(rc_trial_name(&x->trial[i], s->out, s->orders > 0 ? &s->order[i / seeds] : NULL,
                             s->seeds > 0 ? &s->seed[i % seeds] : NULL));
        RC_TRY(rc_trial_create(&x->trial[i], x->data, s->stop_after));
    }
    return RC_OK;
}

/* All of them are looked at before the first is made. */
static rc_status open_folders(experiment *x, const rc_backend *backend)
{
    const rc_run_settings *s = x->settings;
    bool several = s->orders > 0 || s->seeds > 0;
    char run[RC_PATH_SIZE];
    bool there;
    RC_TRY(rc_path_in(s->out, "run.json", run));
    RC_TRY(rc_file_find(run, &there));
    if (several && there)
        return rc_fail(RC_INVALID_ARGUMENT,
                       "%s holds a run of one order: lists of orders or seeds take another setting 'out'", s->out);
    for (int i = 0; i < x->trials && !s->resume; i++)
        RC_TRY(rc_run_folder_is_free(x->trial[i].path));
    if (several && !s->resume) {
        RC_TRY(rc_path_in(s->out, "summary.json", run));
        RC_TRY(rc_file_find(run, &there));
        if (there)
            return rc_fail(RC_INVALID_ARGUMENT,
                           "%s holds runs already: the setting 'resume' goes on with them and adds others, another "
                           "setting 'out' leaves them alone",
                           s->out);
    }
    bool shared = s->lease_seconds > 0;
    if (several)
        RC_TRY(shared ? rc_file_make_folder(s->out) : rc_make_run_folder(s->out)); /* others may be writing there */
    for (int i = 0; i < x->trials; i++) {
        rc_trial *t = &x->trial[i];
        RC_TRY(rc_path_in(t->path, "run.json", run));
        RC_TRY(rc_file_find(run, &there));
        if (s->resume && !shared && !there)
            rc_log_write(&s->watch.log, RC_LOG_INFO, "note: %s holds no run to go on with, so one begins there",
                         t->path);
        rc_run_identity identity = {.config = &t->config,
                                    .data = x->data,
                                    .data_seed = s->config.settings.seed,
                                    .backend = backend,
                                    .command_line = s->command_line};
        RC_TRY(rc_run_folder_open(&t->folder, t->path, &identity, s->resume, shared));
    }
    return RC_OK;
}

static rc_status make_cells(experiment *x)
{
    const rc_run_settings *s = x->settings;
    x->cells = x->trials * (s->methods + 1);
    x->cell = rc_alloc_zeroed(NULL, (size_t)x->cells, sizeof *x->cell);
    if (x->cell == NULL)
        return RC_OUT_OF_MEMORY;
    for (int t = 0; t < x->trials; t++) {
        rc_cell *first = cell_of(x, t, -1);
        bool elsewhere = s->shards > 0 && t % s->shards != s->shard - 1;
        RC_TRY(rc_cell_create_first(first, &x->trial[t]));
        for (int m = 0; m < s->methods; m++)
            RC_TRY(rc_cell_create(cell_of(x, t, m), &x->trial[t], s->method[m], first));
        for (int m = -1; m < s->methods; m++)
            cell_of(x, t, m)->elsewhere = elsewhere;
    }
    return RC_OK;
}

/* ---- how many at once, how long, how much --------------------------------------------------------------------- */

/* Cells that have something to do. */
static int open_cells(const experiment *x)
{
    int count = 0;
    for (int i = 0; i < x->cells; i++)
        count += !x->cell[i].first_task && !x->cell[i].elsewhere && !rc_cell_done(&x->cell[i]);
    return count > 0 ? count : 1;
}

static void choose_jobs(experiment *x, const rc_backend *backend)
{
    int open = open_cells(x), threads = backend->about.threads;
    x->jobs = x->settings->jobs > 0 ? x->settings->jobs : backend->about.runs_at_once;
    x->jobs = x->jobs > open ? open : x->jobs > RC_MAX_JOBS ? RC_MAX_JOBS : x->jobs;
    if (x->workers != NULL) /* processes work together on one cell at a time */
        x->jobs = 1;
    x->threads = threads / x->jobs > 1 ? threads / x->jobs : 1;
}

/* The last task of a method; -1: the first task. */
static rc_task_claim claim_of(const experiment *x, int method, const rc_augment *shape)
{
    const rc_trial *t = &x->trial[0];
    return method < 0 ? rc_trial_claim(t, rc_first_task_method(), 0, shape)
                      : rc_trial_claim(t, x->settings->method[method], t->tasks - 1, shape);
}

/* Refuses, before anything is made or allocated, what takes more memory than is allowed: the first task, and the last
 * one of each method. */
static rc_status allow_tasks(const experiment *x, rc_backend *backend)
{
    rc_augment shape = rc_image_of(x->data);
    for (int m = -1; m < x->settings->methods; m++) {
        const rc_task_claim claim = claim_of(x, m, &shape);
        RC_TRY(rc_forecast_allow(backend, &claim, "the run"));
    }
    return RC_OK;
}

/* The method whose last task is timed for all of that kind: the one with the most generators. NULL: none is. */
static const rc_method *method_to_time(const experiment *x, rc_task_kind kind, int n_old)
{
    const rc_run_settings *s = x->settings;
    const rc_method *found = NULL;
    int most = 0;
    for (int m = 0; m < s->methods; m++) {
        int generators = rc_generators(s->method[m], &s->config.settings);
        if (rc_task_kind_of(s->method[m], n_old) == kind && generators > most) {
            found = s->method[m];
            most = generators;
        }
    }
    return found;
}

/* The most bytes that a task of any method takes; 0 on a GPU. */
static rc_status count_tasks(const experiment *x, rc_backend *backend, size_t *most)
{
    rc_augment shape = rc_image_of(x->data);
    *most = 0;
    for (int m = -1; m < x->settings->methods; m++) {
        size_t bytes;
        const rc_task_claim claim = claim_of(x, m, &shape);
        RC_TRY(rc_forecast_bytes(backend, &claim, &bytes));
        *most = bytes > *most ? bytes : *most;
    }
    return RC_OK;
}

/* A few steps of the first task and of a last one of each kind: their speed. Threads have been dealt out to the cells;
 * a device they share, so that each is slower by as many as there are, until it turns out how much better it is. And
 * the bytes that a cell takes at most, on a GPU those of the tasks that are timed. */
static rc_status measure(experiment *x, rc_backend *backend, size_t *bytes)
{
    const rc_trial *t = &x->trial[0];
    const rc_settings *settings = &t->config.settings;
    const rc_split *train = &x->data->train;
    int last = t->tasks - 1, n_old = rc_task_first(&t->stream, last);
    size_t before = rc_bytes_allocated(), most, images = 0;
    rc_augment shape = rc_image_of(x->data);
    RC_TRY(count_tasks(x, backend, bytes)); /* before the backend has the workspace of any */
    RC_TRY(rc_forecast_measure(&x->forecast, backend, settings, rc_first_task_method(), &shape, 0,
                               rc_task_classes(&t->stream, 0), train->images, rc_trial_images(t, 0, false), &most));
    for (int kind = 0; last > 0 && kind < RC_TASK_KINDS; kind++) {
        const rc_method *method = method_to_time(x, (rc_task_kind)kind, n_old);
        size_t later = 0;
        if (method != NULL)
            RC_TRY(rc_forecast_measure(&x->forecast, backend, settings, method, &shape, n_old,
                                       rc_task_classes(&t->stream, last), train->images,
                                       rc_trial_images(t, last, false), &later));
        most = later > most ? later : most;
    }
    for (int i = 0; i < x->cells; i++) {
        size_t now = rc_cell_image_bytes(&x->cell[i]);
        images = now > images ? now : images;
    }
    for (int i = 0; i < RC_TASK_KINDS * RC_STAGE_COUNT && backend->about.device_shared; i++)
        x->forecast.per_step[i / RC_STAGE_COUNT][i % RC_STAGE_COUNT] *= x->jobs;
    for (int i = 0; i < RC_TASK_KINDS * RC_STAGE_COUNT && x->workers != NULL; i++)
        x->forecast.per_step[i / RC_STAGE_COUNT][i % RC_STAGE_COUNT] /= x->workers->count;
    if (*bytes == 0)
        *bytes = most - before + images;
    return RC_OK;
}

/* Seconds of all cells, as they take their turns. */
static double grid_seconds(const experiment *x)
{
    double seconds = NAN;
    double *left = rc_alloc_zeroed(NULL, (size_t)x->cells, sizeof *left);
    rc_cell_state *state = rc_alloc_zeroed(NULL, (size_t)x->cells, sizeof *state);
    for (int i = 0; left != NULL && state != NULL && i < x->cells; i++) {
        rc_workload work = rc_cell_work(&x->cell[i], x->cell[i].results.done);
        left[i] = rc_forecast_seconds(&x->forecast, &work);
        state[i] = rc_grid_has_work(x->cell, x->cells, NULL, i) ? RC_CELL_WAITS : RC_CELL_ENDED;
    }
    if (left != NULL && state != NULL)
        seconds = rc_grid_seconds(x->cell, x->cells, x->jobs, state, left);
    rc_free(NULL, left);
    rc_free(NULL, state);
    return seconds;
}

/* If many steps are to come, times a few and says how long the run will take. If the user has not said how many cells
 * run side by side, takes no more than fit into memory. (For a GPU the cells find out themselves; see grid.h.) */
static rc_status forecast_run(experiment *x, rc_backend *backend)
{
    enum { MANY_STEPS = 200 };
    double steps = 0;
    size_t bytes, before = rc_bytes_allocated(), memory = rc_machine_memory();
    size_t allowed = rc_memory_budget() < memory ? rc_memory_budget() : memory;
    for (int i = 0; i < x->cells; i++) {
        rc_workload work = rc_cell_work(&x->cell[i], x->cell[i].results.done);
        steps += rc_grid_has_work(x->cell, x->cells, NULL, i) ? rc_workload_steps(&work) : 0;
    }
    if (steps < MANY_STEPS)
        return RC_OK;
    RC_TRY(measure(x, backend, &bytes));
    while (x->settings->jobs == 0 && x->jobs > 1 && before + bytes * (size_t)x->jobs > allowed)
        x->jobs--;
    rc_forecast_tell(&x->settings->watch.log, grid_seconds(x), before + bytes * (size_t)x->jobs);
    return RC_OK;
}

/* ---- how it ended --------------------------------------------------------------------------------------------- */

/* The summary of what is done here, and of what else is in the folder. `tell`: it is printed, too, if it says more than
 * the tables. */
static rc_status sum_up(const experiment *x, const rc_cell_end *end, const rc_others *others, bool tell)
{
    const rc_run_settings *s = x->settings;
    int row = others->methods + 1, all = (x->trials + others->trials) * row;
    rc_cell *cell = rc_alloc(NULL, (size_t)all * sizeof *cell); /* copies, whose results stay where they are */
    rc_cell_end *ends = rc_alloc_zeroed(NULL, (size_t)all, sizeof *ends);
    rc_status status = cell != NULL && ends != NULL ? RC_OK : RC_OUT_OF_MEMORY;
    rc_summary summary = {.cell = cell,
                          .end = ends,
                          .trials = x->trials + others->trials,
                          .methods = others->methods,
                          .jobs = x->jobs,
                          .seconds = rc_now() - x->began,
                          .command_line = s->command_line,
                          .folder = s->out};
    for (int i = 0; i < all && status == RC_OK; i++) {
        int trial = i / row, method = i % row - 1;
        if (trial < x->trials && method < s->methods) {
            const rc_cell *own = cell_of(x, trial, method);
            cell[i] = *own;
            ends[i] = end[own - x->cell];
        } else {
            cell[i] = others->cell[i];
            ends[i].status = rc_cell_done(&cell[i]) ? RC_OK : RC_CANCELLED;
            ends[i].absent = cell[i].results.done == 0;
        }
    }
    if (status == RC_OK && tell && (summary.trials > 1 || summary.methods > s->methods))
        status = rc_summary_print(&summary, s->line, s->watch.user);
    if (status == RC_OK)
        status = rc_summary_write(&summary);
    rc_free(NULL, cell);
    rc_free(NULL, ends);
    return status;
}

/* What others who share the folder end while this is written, is written once more: whoever writes last has seen
 * all. */
static rc_status sum_up_all(const experiment *x, const rc_cell_end *end, bool tell)
{
    const rc_run_settings *s = x->settings;
    const rc_log *log = &s->watch.log;
    for (int written = -1;; tell = false, log = NULL) {
        rc_others others;
        RC_TRY(rc_others_read(s, x->trial, x->trials, log, &others));
        int done = rc_others_done(&others);
        rc_status status = done > written ? sum_up(x, end, &others, tell) : RC_OK;
        bool last = done <= written || s->lease_seconds <= 0 || status != RC_OK;
        written = done;
        rc_others_free(&others);
        if (last)
            return status;
    }
}

/* Tables, unless it was stopped, and the summary of what is done, unless the caller has one of its own. */
static rc_status print_results(const experiment *x, const rc_cell_end *end, bool stopped)
{
    const rc_run_settings *s = x->settings;
    const rc_results *row[RC_MAX_METHODS];
    for (int t = 0; t < x->trials && !stopped; t++) {
        if (cell_of(x, t, -1)->elsewhere)
            continue;
        if (x->trials > 1)
            s->line(s->watch.user, x->trial[t].name);
        for (int m = 0; m < s->methods; m++)
            row[m] = &cell_of(x, t, m)->results;
        rc_results_print(row, s->methods, s->line, s->watch.user);
    }
    return s->unsummed ? RC_OK : sum_up_all(x, end, !stopped);
}

/* One cell's message is the message of the run; several are logged, and counted in the message. */
static rc_status tell_ends(const experiment *x, rc_status status, const rc_cell_end *end)
{
    const int all = x->trials * x->settings->methods;
    int failed = 0, ended = 0;
    for (int i = 0; i < x->cells; i++)
        ended += end[i].status != RC_OK && end[i].message[0] != '\0';
    for (int i = 0; i < x->cells; i++) {
        if (end[i].status == RC_OK || end[i].message[0] == '\0')
            continue;
        failed += !x->cell[i].first_task;
        if (ended == 1 || x->cells == 2) /* one method, one order: the first task or the rest of it */
            return x->cells == 2 ? rc_fail(status, "%s", end[i].message)
                                 : rc_fail(status, "%s: %s", x->cell[i].name, end[i].message);
        rc_log_write(&x->settings->watch.log, RC_LOG_ERROR, "%s: %s", x->cell[i].name, end[i].message);
    }
    if (status == RC_CANCELLED)
        return rc_fail(status, "stopped; the setting 'resume' goes on");
    return rc_fail(status, "%d of %d failed%s; the setting 'resume' tries them again", failed, all,
                   failed < all ? ", the others are done" : "");
}

/* What other processes have done of their parts by now. */
static rc_status look_elsewhere(experiment *x, rc_cell_end *end)
{
    for (int i = 0; i < x->cells; i++) {
        if (!x->cell[i].elsewhere)
            continue;
        RC_TRY(rc_cell_reload(&x->cell[i]));
        end[i].status = rc_cell_done(&x->cell[i]) ? RC_OK : RC_CANCELLED;
    }
    return RC_OK;
}

static rc_status run_cells(experiment *x)
{
    const rc_run_settings *s = x->settings;
    rc_grid_settings grid = {.cell = x->cell,
                             .cells = x->cells,
                             .jobs = x->jobs,
                             .backend = s->backend,
                             .threads = x->threads,
                             .workers = x->workers,
                             .checkpoint_seconds = s->checkpoint_seconds,
                             .report_seconds = s->report_seconds,
                             .lease_seconds = s->lease_seconds,
                             .forecast = x->forecast,
                             .watch = s->watch,
                             .line = s->line};
    rc_cell_end *end = rc_alloc_zeroed(NULL, (size_t)x->cells, sizeof *end);
    if (end == NULL)
        return RC_OUT_OF_MEMORY;
    rc_status status = rc_grid_run(&grid, end);
    rc_status written = look_elsewhere(x, end);
    if (written == RC_OK)
        written = print_results(x, end, status == RC_CANCELLED);
    if (status == RC_OK) {
        status = written;
    } else {
        char unwritten[RC_MESSAGE_SIZE];
        snprintf(unwritten, sizeof unwritten, "%s", rc_message());
        status = tell_ends(x, status, end);
        if (written != RC_OK)
            rc_log_write(&s->watch.log, RC_LOG_WARN, "no summary of this run: %s", unwritten);
    }
    rc_free(NULL, end);
    return status;
}

/* ---- what is asked for ------------------------------------------------------------------------------------------- */

static rc_status check_order(const rc_config *config, int order)
{
    if (order == 0 || rc_config_has_orders(config))
        return RC_OK;
    return rc_fail(RC_INVALID_ARGUMENT,
                   "class_order is '%s', so that order %d would be the same as order 0: published, numpy and seed have "
                   "several",
                   config->class_order, order);
}

rc_status rc_run_settings_check(const rc_run_settings *s)
{
    if (s->methods < 1)
        return rc_fail(RC_INVALID_ARGUMENT, "no method to run");
    for (int i = 0; i < s->methods; i++)
        for (int k = 0; k < i; k++)
            if (s->method[k] == s->method[i])
                return rc_fail(RC_INVALID_ARGUMENT, "method %s is listed twice", s->method[i]->name);
    for (int i = 0; i < s->orders; i++)
        for (int k = 0; k < i; k++)
            if (s->order[k] == s->order[i])
                return rc_fail(RC_INVALID_ARGUMENT, "order %d is listed twice", s->order[i]);
    if (s->orders == 0)
        RC_TRY(check_order(&s->config, s->config.order));
    for (int i = 0; i < s->orders; i++)
        RC_TRY(check_order(&s->config, s->order[i]));
    for (int i = 0; i < s->seeds; i++)
        for (int k = 0; k < i; k++)
            if (s->seed[k] == s->seed[i])
                return rc_fail(RC_INVALID_ARGUMENT, "seed %llu is listed twice", (unsigned long long)s->seed[i]);
    return RC_OK;
}

/* ---- several processes ------------------------------------------------------------------------------------------ */

/* What has to be the same in all processes. Kernels of another instruction set round otherwise, and the models would
 * part. */
enum { BADGE_SIZE = 256 };

static void write_badge(const experiment *x, const rc_backend *backend, char badge[BADGE_SIZE])
{
    char data[RC_HASH_SIZE];
    rc_data_hash(x->data, data);
    memset(badge, 0, BADGE_SIZE);
    snprintf(badge, BADGE_SIZE, "recollect %s, backend %s, instruction set %s, precision %s, data %s",
             recollect_version(), backend->about.name, backend->about.isa, backend->about.precision, data);
}

static rc_status compare_badges(const experiment *x, const rc_backend *backend)
{
    rc_workers *workers = x->workers;
    char mine[BADGE_SIZE];
    char(*all)[BADGE_SIZE] = rc_alloc_zeroed(NULL, (size_t)workers->count, sizeof *all);
    if (all == NULL) {
        workers->fail(workers, "no memory"); /* the others wait */
        return RC_OUT_OF_MEMORY;
    }
    write_badge(x, backend, mine);
    workers->gather(workers, mine, all, sizeof mine);
    rc_status status = RC_OK;
    for (int i = 1; status == RC_OK && i < workers->count; i++)
        if (memcmp(all[i], mine, sizeof mine) != 0)
            status = rc_fail(RC_INVALID_ARGUMENT,
                             "the processes do not fit together: process 1 has %s, but process %d has %s", mine, i + 1,
                             all[i]);
    rc_free(NULL, all);
    return status;
}

/* The leader, before anything is written. */
static rc_status meet(const experiment *x, const rc_backend *backend)
{
    const rc_settings *training = &x->settings->config.settings;
    int batch = training->batch;
    if (x->workers == NULL)
        return RC_OK;
    RC_TRY(rc_workers_check(x->workers, backend));
    if (batch % x->workers->count != 0)
        return rc_fail(RC_INVALID_ARGUMENT,
                       "the setting 'batch' is %d, which %d processes cannot share in equal parts: choose a batch that "
                       "%d divides, or another number of processes",
                       batch, x->workers->count, x->workers->count);
    if ((training->mixup > 0 || training->cutmix > 0) && batch / x->workers->count % 2 != 0)
        return rc_fail(
            RC_INVALID_ARGUMENT,
            "the settings 'mixup' and 'cutmix' mix neighbours, and of the batch of %d each of %d processes has "
            "%d images: choose a batch that %d divides",
            batch, x->workers->count, batch / x->workers->count, 2 * x->workers->count);
    rc_workers_word(x->workers, RC_WORD_MEET);
    return compare_badges(x, backend);
}

/* One task, as the leader has ordered. */
static rc_status follow_order(const experiment *x, const rc_cell_order *order)
{
    const rc_trial *trial = NULL;
    for (int i = 0; i < x->trials; i++)
        if (strcmp(x->trial[i].path, order->trial) == 0)
            trial = &x->trial[i];
    if (trial == NULL)
        return rc_fail(RC_INTERNAL, "there is no order or seed for %s", order->trial);
    rc_backend *backend;
    RC_TRY(rc_backend_open(x->settings->backend, x->settings->threads, NULL, &backend));
    rc_status status = rc_workers_join(x->workers, backend);
    if (status == RC_OK)
        status = rc_cell_follow(trial, backend, order);
    rc_backend_close(backend);
    return status == RC_CANCELLED ? RC_OK : status; /* the leader has stopped */
}

/* The other processes do what the leader says. */
static rc_status follow(experiment *x, const rc_backend *backend)
{
    RC_TRY(make_trials(x));
    rc_cell_order *order = rc_alloc_zeroed(NULL, 1, sizeof *order);
    rc_status status = order != NULL ? RC_OK : RC_OUT_OF_MEMORY;
    while (status == RC_OK) {
        uint32_t word = rc_workers_word(x->workers, 0);
        if (word == RC_WORD_END)
            break;
        if (word == RC_WORD_MEET)
            (void)compare_badges(x, backend); /* the leader tells what does not fit */
        if (word == RC_WORD_WORK) {
            x->workers->lead(x->workers, order, sizeof *order);
            status = follow_order(x, order);
        }
    }
    rc_free(NULL, order);
    return status;
}

/* ---- the experiment ------------------------------------------------------------------------------------------- */

/* The backend serves to describe the machine and to measure; the cells open their own. */
static rc_status prepare(experiment *x, rc_backend **backend)
{
    RC_TRY(make_trials(x));
    RC_TRY(allow_tasks(x, *backend));
    RC_TRY(meet(x, *backend));
    RC_TRY(open_folders(x, *backend));
    RC_TRY(make_cells(x));
    choose_jobs(x, *backend);
    if (x->threads != (*backend)->about.threads) {
        rc_backend_close(*backend);
        RC_TRY(rc_backend_open(x->settings->backend, x->threads, NULL, backend));
    }
    return forecast_run(x, *backend);
}

/* Takes the backend over. */
static rc_status run_with_data(experiment *x, rc_backend *backend)
{
    bool leads = x->workers == NULL || x->workers->index == 0;
    rc_status status = leads ? prepare(x, &backend) : follow(x, backend);
    rc_backend_close(backend);
    if (status == RC_OK && leads)
        status = run_cells(x);
    for (int i = 0; x->cell != NULL && i < x->cells; i++)
        rc_cell_destroy(&x->cell[i]);
    for (int i = 0; x->trial != NULL && i < x->trials; i++)
        rc_trial_destroy(&x->trial[i]);
    rc_free(NULL, x->cell);
    rc_free(NULL, x->trial);
    return status;
}

/* What to do about a file that could not be written, or may be lost. */
static rc_status name_way_on(const rc_run_settings *settings, rc_status status)
{
    if (status == RC_IO)
        return rc_fail(status,
                       "%s. What was saved before is intact: once there is room to write in %s, the setting 'resume' "
                       "goes on",
                       rc_message(), settings->out);
    return status == RC_UNSYNCED ? rc_fail(status, "%s. The setting 'resume' goes on", rc_message()) : status;
}

static rc_status run_experiment(const rc_run_settings *settings, rc_workers *workers)
{
    rc_backend *backend;
    rc_dataset data;
    double began = rc_now();
    RC_TRY(rc_run_settings_check(settings));
    RC_TRY(rc_config_check(&settings->config));
    rc_config_warn_unread(&settings->config, settings->method, settings->methods, settings->set, settings->sets,
                          &settings->watch.log);
    rc_status status = RC_OK;
    if (workers == NULL || workers->index == 0)
        status = rc_file_check_folder(settings->out); /* before the data is read */
    if (status != RC_OK)
        return name_way_on(settings, status);
    status = rc_backend_open(settings->backend, settings->threads, &settings->watch.log, &backend);
    if (status != RC_OK)
        return settings->resume ? rc_fail(status, "%s. The run in %s is as it was", rc_message(), settings->out)
                                : status;
    if (settings->data == NULL)
        status = open_data(settings, &data);
    if (status != RC_OK) {
        rc_backend_close(backend);
        return status;
    }
    experiment x = {.settings = settings,
                    .data = settings->data != NULL ? settings->data : &data,
                    .began = began,
                    .workers = workers};
    status = run_with_data(&x, backend);
    if (settings->data == NULL)
        rc_dataset_close(&data);
    return name_way_on(settings, status);
}

static void say_nothing(void *user, const char *text)
{
    (void)user;
    (void)text;
}

/* The run as this process sees it: all but the leader are silent, and go on until the leader stops. Processes on one
 * machine share its cores. */
static rc_run_settings settings_of(const rc_run_settings *settings, const rc_workers *workers)
{
    rc_run_settings own = *settings;
    int cores = rc_machine_cores();
    if (settings->threads == 0)
        own.threads = cores > workers->beside ? cores / workers->beside : 1;
    if (workers->index > 0) {
        own.watch = (rc_watch){0};
        own.line = say_nothing;
    }
    return own;
}

static rc_status run_with_workers(const rc_run_settings *settings, rc_workers *workers)
{
    const rc_run_settings own = settings_of(settings, workers);
    rc_stop before = rc_stop_swap(rc_watch_stop(&own.watch));
    if (workers->index == 0)
        rc_log_write(&own.watch.log, RC_LOG_INFO, "%d processes work together, %d of them on this machine",
                     workers->count, workers->beside);
    rc_status status = run_experiment(&own, workers);
    rc_stop_swap(before);
    if (workers->index > 0 && status != RC_OK)
        workers->fail(workers, rc_message()); /* ends all */
    if (workers->index == 0)
        rc_workers_word(workers, RC_WORD_END);
    workers->close(workers);
    return status;
}

rc_status rc_experiment_run(const rc_run_settings *settings)
{
    rc_workers *workers = NULL;
    if (!settings->alone)
        RC_TRY(rc_workers_open(settings->together, &workers));
    if (workers != NULL)
        return run_with_workers(settings, workers);
    rc_stop before = rc_stop_swap(rc_watch_stop(&settings->watch));
    rc_status status = run_experiment(settings, NULL);
    rc_stop_swap(before);
    return status;
}
