#include "experiment/grid.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "backend/workers.h"
#include "base/clock.h"
#include "base/lease.h"
#include "base/memory.h"

/* How far a cell is: the first task that is not finished, and which part of it and of those after it is done. */
typedef struct place {
    int task;
    double fraction;
} place;

typedef struct grid {
    const rc_grid_settings *settings;
    rc_cell_end *end;       /* (cells) */
    rc_cell_state *state;   /* (cells) */
    double *left;           /* (cells) seconds of work, as far as is known */
    place *at;              /* (cells) */
    double fraction;        /* of the work of all cells, as told last */
    char (*stage)[64];      /* (cells) where a running cell is */
    rc_forecast known;      /* the speed, as the last report had it */
    int jobs, running;      /* threads that still look for cells or run one; cells that run */
    size_t budget;          /* of every job's memory */
    rc_lease **lease;       /* (cells) that this process has; NULL: no */
    rc_lease_sight *sight;  /* (cells) of what others have */
    unsigned begun;         /* cells so far, counting those that begin again */
    pthread_mutex_t lock;   /* guards all of this, and the callbacks of the settings */
    pthread_cond_t changed; /* a cell has ended */
} grid;

static int index_of(const grid *g, const rc_cell *cell)
{
    return (int)(cell - g->settings->cell);
}

/* ---- how long ------------------------------------------------------------------------------------------------- */

/* A method that has finished a task needs the first task no more. */
static bool can_begin(const rc_cell *cell, bool first_ended)
{
    return cell->first == NULL || cell->results.done > 0 || first_ended;
}

typedef struct turn {
    rc_cell_state state;
    double ends;
} turn;

/* Starts what can begin at `now`; returns which of the running ones ends next, -1: none runs. */
static int take_turns(turn *turns, const rc_cell *cell, int cells, int jobs, const double *left, double now)
{
    int running = 0, next = -1;
    for (int i = 0; i < cells; i++)
        running += turns[i].state == RC_CELL_RUNS;
    for (int i = 0; i < cells && running < jobs; i++)
        if (turns[i].state == RC_CELL_WAITS &&
            can_begin(&cell[i], cell[i].first != NULL && turns[cell[i].first - cell].state == RC_CELL_ENDED)) {
            turns[i] = (turn){RC_CELL_RUNS, now + left[i]};
            running++;
        }
    for (int i = 0; i < cells; i++)
        if (turns[i].state == RC_CELL_RUNS && (next < 0 || turns[i].ends < turns[next].ends))
            next = i;
    return next;
}

double rc_grid_seconds(const rc_cell *cell, int cells, int jobs, const rc_cell_state *state, const double *left)
{
    double now = 0;
    turn *turns = rc_alloc_zeroed(NULL, (size_t)cells, sizeof *turns);
    for (int i = 0; turns != NULL && i < cells; i++) {
        turns[i] = (turn){state[i], left[i]};
        if (state[i] != RC_CELL_ENDED && isnan(left[i]))
            now = NAN;
    }
    if (turns == NULL || isnan(now)) {
        rc_free(NULL, turns);
        return NAN;
    }
    int next;
    while ((next = take_turns(turns, cell, cells, jobs, left, now)) >= 0) {
        now = turns[next].ends;
        turns[next].state = RC_CELL_ENDED;
    }
    rc_free(NULL, turns);
    return now;
}

/* ---- what is told --------------------------------------------------------------------------------------------- */

/* "order 0, CwD 2/5 training 12/160 | order 1, CwD ...": one line for all that run. */
static void show_all(const grid *g, const rc_pace *pace)
{
    char text[512] = "";
    size_t used = 0;
    const rc_watch *watch = &g->settings->watch;
    for (int i = 0; i < g->settings->cells && used < sizeof text; i++)
        if (g->state[i] == RC_CELL_RUNS && g->stage[i][0] != '\0')
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s %s", used > 0 ? " | " : "",
                                     g->settings->cell[i].name, g->stage[i]);
    recollect_progress p = {.size = sizeof p,
                            .stage = RECOLLECT_STAGE_TRAINING,
                            .stage_name = "",
                            .images_per_second = NAN,
                            .stage_seconds_left = NAN,
                            .seconds_left = pace->left,
                            .text = text,
                            .fraction = pace->fraction};
    if (watch->progress != NULL)
        watch->progress(watch->user, text, &p);
}

static void note_stage(const rc_cell *cell, const rc_stage_report *r, char *text, size_t size)
{
    if (r->epochs > 0)
        snprintf(text, size, "%d/%d %s %d/%d", r->task + 1, cell->trial->stream.tasks, rc_stage_name(r->stage),
                 r->epoch + 1, r->epochs);
    else
        snprintf(text, size, "%d/%d %s %u/%u", r->task + 1, cell->trial->stream.tasks, rc_stage_name(r->stage), r->step,
                 r->steps);
}

/* What is left of all cells side by side, and which part of their work is done. A first task that no method needs is
 * none of it. */
static rc_pace pace_of_all(grid *g, const rc_pace *own)
{
    rc_pace pace = *own;
    double all = 0, left = 0;
    for (int i = 0; i < g->settings->cells; i++) {
        const rc_cell *cell = &g->settings->cell[i];
        if (cell->elsewhere || (g->state[i] == RC_CELL_ENDED && cell->results.done == 0))
            continue;
        rc_workload work = rc_cell_work(cell, 0);
        all += rc_forecast_weight(&g->known, &work);
        if (g->state[i] == RC_CELL_ENDED)
            continue;
        if (g->state[i] == RC_CELL_WAITS)
            g->at[i] = (place){.task = cell->results.done};
        work = rc_cell_work(cell, g->at[i].task);
        left += (1 - g->at[i].fraction) * rc_forecast_weight(&g->known, &work);
        if (g->state[i] == RC_CELL_WAITS)
            g->left[i] = rc_forecast_seconds(&g->known, &work);
    }
    pace.left = rc_grid_seconds(g->settings->cell, g->settings->cells, g->jobs, g->state, g->left);
    g->fraction = fmax(g->fraction, 1 - left / all);
    pace.fraction = g->fraction;
    return pace;
}

/* A cell that runs, for its callbacks. */
typedef struct cell_job {
    grid *grid;
    const rc_lease *lease; /* NULL: it needs none */
} cell_job;

static void report(void *user, const rc_cell *cell, const rc_stage_report *r, const rc_pace *own)
{
    grid *g = ((cell_job *)user)->grid;
    int i = index_of(g, cell);
    char where[160];
    pthread_mutex_lock(&g->lock);
    memcpy(g->known.per_step, cell->forecast.per_step, sizeof g->known.per_step);
    g->left[i] = own->left;
    g->at[i] = (place){r->task, own->fraction};
    rc_pace pace = pace_of_all(g, own);
    note_stage(cell, r, g->stage[i], sizeof g->stage[i]);
    if (g->running == 1 || r->step == r->steps) {
        rc_watch watch = g->settings->watch;
        snprintf(where, sizeof where, "%s, task %d of %d", cell->name, r->task + 1, cell->trial->stream.tasks);
        watch.where = where;
        rc_watch_stage(&watch, r, &pace);
    } else {
        show_all(g, &pace);
    }
    pthread_mutex_unlock(&g->lock);
}

static void print_line(void *user, const char *text)
{
    grid *g = ((cell_job *)user)->grid;
    pthread_mutex_lock(&g->lock);
    g->settings->line(g->settings->watch.user, text);
    pthread_mutex_unlock(&g->lock);
}

static void log_line(void *user, int level, const char *text)
{
    grid *g = user;
    pthread_mutex_lock(&g->lock);
    rc_log_write(&g->settings->watch.log, level, "%s", text);
    pthread_mutex_unlock(&g->lock);
}

static bool is_cancelled(void *user)
{
    const cell_job *job = user;
    return rc_watch_cancelled(&job->grid->settings->watch) || (job->lease != NULL && rc_lease_lost(job->lease));
}

/* ---- one cell after the other --------------------------------------------------------------------------------- */

static void keep_end(grid *g, int i, rc_status status, const char *message)
{
    g->state[i] = RC_CELL_ENDED;
    g->end[i].status = status;
    if (status != RC_OK)
        snprintf(g->end[i].message, sizeof g->end[i].message, "%s", message);
}

/* Takes a cell that other processes may take, too. Whoever has it sees what the last one has done of it. Returns
 * whether it is to be run here. */
static bool take_cell(grid *g, int i)
{
    rc_cell *cell = &g->settings->cell[i];
    char path[RC_PATH_SIZE];
    if (g->settings->lease_seconds <= 0)
        return true;
    int length = snprintf(path, sizeof path, "%s.lease", cell->path);
    rc_status status = length < (int)sizeof path
                           ? rc_lease_try(path, g->settings->lease_seconds, &g->sight[i], &g->lease[i])
                           : rc_fail(RC_INVALID_ARGUMENT, "the path %s is too long", cell->path);
    if (status == RC_OK && g->lease[i] == NULL)
        return false; /* another process has it */
    if (status == RC_OK)
        status = rc_cell_reload(cell);
    if (status == RC_OK && rc_grid_has_work(g->settings->cell, g->settings->cells, g->state, i))
        return true;
    rc_lease_release(g->lease[i]);
    g->lease[i] = NULL;
    keep_end(g, i, status, rc_message());
    pthread_cond_broadcast(&g->changed);
    return false;
}

/* Until a cell of this process ends, or, with other processes, for a moment. */
static void wait_for_change(grid *g)
{
    if (g->settings->lease_seconds > 0)
        (void)rc_clock_wait(&g->changed, &g->lock, fmin(2, g->settings->lease_seconds / 10));
    else
        pthread_cond_wait(&g->changed, &g->lock);
}

/* The next cell that can begin, after waiting for one if need be; -1: there is none for this thread any more. */
static int next_cell(grid *g)
{
    for (;;) {
        bool waits = false;
        if (rc_watch_cancelled(&g->settings->watch))
            return -1;
        for (int i = 0; i < g->settings->cells; i++) {
            if (g->state[i] != RC_CELL_WAITS)
                continue;
            const rc_cell *cell = &g->settings->cell[i];
            if (can_begin(cell, cell->first != NULL && g->state[index_of(g, cell->first)] == RC_CELL_ENDED) &&
                take_cell(g, i))
                return i;
            if (g->state[i] == RC_CELL_ENDED) { /* elsewhere: others may begin now */
                waits = false;
                i = -1;
                continue;
            }
            waits = true;
        }
        if (!waits)
            return -1;
        wait_for_change(g);
    }
}

/* What cannot begin any more, because cell `first` has failed or was stopped, which it says itself. */
static void give_up_after(grid *g, int first)
{
    const rc_cell *cell = g->settings->cell;
    char text[RC_MESSAGE_SIZE];
    for (int i = 0; i < g->settings->cells; i++)
        if (g->state[i] == RC_CELL_WAITS && cell[i].first == &cell[first] && cell[i].results.done == 0) {
            bool stopped = g->end[first].status == RC_CANCELLED;
            snprintf(text, sizeof text, "not begun: its first task failed (%.700s)", cell[first].path);
            keep_end(g, i, g->end[first].status, stopped ? "" : text);
        }
}

static rc_status run_cell(grid *g, rc_cell *cell)
{
    const rc_grid_settings *s = g->settings;
    cell_job job = {g, g->lease[index_of(g, cell)]};
    rc_cell_hooks hooks = {.checkpoint_seconds = s->checkpoint_seconds,
                           .report_seconds = s->report_seconds,
                           .report = report,
                           .cancelled = is_cancelled,
                           .line = print_line,
                           .user = &job};
    rc_backend *backend;
    rc_log warnings = {.write = log_line, .user = g, .level = RC_LOG_WARN}; /* what it is was told before */
    RC_TRY(rc_backend_open(s->backend, s->threads, &warnings, &backend));
    rc_status status = rc_workers_join(s->workers, backend);
    if (status == RC_OK)
        status = rc_cell_run(cell, backend, &hooks);
    rc_backend_close(backend);
    return status;
}

/* What a cell that found no memory does: it waits for another job, and this one ends. The last job goes on with it.
 * Returns whether this job ends. */
static bool put_back(grid *g, int i)
{
    bool others = g->jobs > 1;
    g->state[i] = RC_CELL_WAITS;
    rc_log_write(&g->settings->watch.log, RC_LOG_WARN,
                 "%s found no memory beside the others and goes on later; %d side by side from here",
                 g->settings->cell[i].name, g->jobs - others);
    return others;
}

/* Returns whether this job ends. */
static bool run_next(grid *g, int i)
{
    rc_cell *cell = &g->settings->cell[i];
    unsigned begun = ++g->begun;
    cell->forecast = g->known;
    g->state[i] = RC_CELL_RUNS;
    g->at[i] = (place){.task = cell->results.done};
    bool alone = g->running++ == 0;
    pthread_mutex_unlock(&g->lock);
    rc_status status = run_cell(g, cell);
    pthread_mutex_lock(&g->lock);
    g->running--;
    g->stage[i][0] = '\0';
    bool lost = g->lease[i] != NULL && rc_lease_lost(g->lease[i]);
    rc_lease_release(g->lease[i]);
    g->lease[i] = NULL;
    if (lost) { /* this process stood still for so long that another goes on with it */
        rc_log_write(&g->settings->watch.log, RC_LOG_WARN, "%s is another process's now", cell->name);
        g->state[i] = RC_CELL_WAITS;
        return false;
    }
    alone = alone && g->begun == begun; /* no cell ran when it began, and none began since */
    if (status == RC_OUT_OF_MEMORY && !alone && (status = rc_cell_reload(cell)) == RC_OK)
        return put_back(g, i);
    keep_end(g, i, status, rc_message());
    if (status != RC_OK)
        give_up_after(g, i);
    return false;
}

static void *work(void *user)
{
    grid *g = user;
    int i;
    bool enough = false;
    rc_memory_set_budget(g->budget);
    rc_stop stop = rc_watch_stop(&g->settings->watch);
    stop.patient = g->settings->workers != NULL; /* which would wait for the rest of a step */
    rc_stop before = rc_stop_swap(stop);
    pthread_mutex_lock(&g->lock);
    while (!enough && (i = next_cell(g)) >= 0) {
        enough = run_next(g, i);
        pthread_cond_broadcast(&g->changed);
    }
    g->jobs--;
    pthread_cond_broadcast(&g->changed); /* wakes waiting jobs, which see that it is over */
    pthread_mutex_unlock(&g->lock);
    rc_stop_swap(before);
    return NULL;
}

/* The calling thread is the first job. Signals are for it: the others go on until it has told them. */
static void run_jobs(grid *g)
{
    pthread_t thread[RC_MAX_JOBS];
    int wanted = g->jobs - 1, started = 0;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (started < wanted && pthread_create(&thread[started], NULL, work, g) == 0)
        started++; /* with fewer threads it takes longer, no more */
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_mutex_lock(&g->lock);
    g->jobs -= wanted - started;
    pthread_mutex_unlock(&g->lock);
    work(g);
    for (int i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
}

/* ---- all ------------------------------------------------------------------------------------------------------ */

bool rc_grid_has_work(const rc_cell *cell, int cells, const rc_cell_state *state, int index)
{
    bool needed = !cell[index].first_task;
    for (int i = 0; i < cells; i++)
        if (cell[i].first == &cell[index] && (state == NULL || state[i] != RC_CELL_RUNS))
            needed = needed || cell[i].results.done == 0;
    return needed && !cell[index].elsewhere && !rc_cell_done(&cell[index]);
}

static rc_status result_of(const grid *g)
{
    rc_status status = RC_OK;
    for (int i = 0; i < g->settings->cells; i++) {
        if (g->state[i] == RC_CELL_WAITS)
            g->end[i].status = RC_CANCELLED; /* no job has begun it */
        if (status != RC_CANCELLED && (status == RC_OK || g->end[i].status == RC_CANCELLED))
            status = g->end[i].status;
    }
    return status;
}

rc_status rc_grid_run(const rc_grid_settings *settings, rc_cell_end *end)
{
    size_t cells = (size_t)settings->cells;
    grid g = {.settings = settings,
              .end = end,
              .known = settings->forecast,
              .jobs = settings->jobs,
              .budget = rc_memory_budget()};
    g.state = rc_alloc_zeroed(NULL, cells, sizeof *g.state);
    g.left = rc_alloc_zeroed(NULL, cells, sizeof *g.left);
    g.at = rc_alloc_zeroed(NULL, cells, sizeof *g.at);
    g.stage = rc_alloc_zeroed(NULL, cells, sizeof *g.stage);
    g.lease = rc_alloc_zeroed(NULL, cells, sizeof *g.lease);
    g.sight = rc_alloc_zeroed(NULL, cells, sizeof *g.sight);
    rc_status status = RC_OUT_OF_MEMORY;
    if (g.state != NULL && g.left != NULL && g.at != NULL && g.stage != NULL && g.lease != NULL && g.sight != NULL) {
        pthread_mutex_init(&g.lock, NULL);
        rc_clock_condition(&g.changed);
        for (size_t i = 0; i < cells; i++)
            if (!rc_grid_has_work(settings->cell, settings->cells, NULL, (int)i))
                g.state[i] = RC_CELL_ENDED;
        run_jobs(&g);
        status = result_of(&g);
        pthread_cond_destroy(&g.changed);
        pthread_mutex_destroy(&g.lock);
    }
    rc_free(NULL, g.state);
    rc_free(NULL, g.left);
    rc_free(NULL, g.at);
    rc_free(NULL, g.stage);
    rc_free(NULL, g.lease);
    rc_free(NULL, g.sight);
    return status;
}
