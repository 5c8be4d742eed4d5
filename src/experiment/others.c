#include "experiment/others.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum { MOST = 4096 }; /* of them: nobody has more, and a folder may hold anything */

typedef struct place {
    int order;
    uint64_t seed;
} place;

/* "order-3", "seed-5", "order-3-seed-5", as rc_trial_name writes them. */
static bool read_name(const char *name, bool orders, bool seeds, place *found)
{
    char *end, again[64];
    const char *at = name;
    *found = (place){0};
    if (orders && strncmp(at, "order-", 6) == 0) {
        found->order = (int)strtol(at + 6, &end, 10);
        at = seeds && *end == '-' ? end + 1 : end;
    }
    if (seeds && strncmp(at, "seed-", 5) == 0) {
        found->seed = strtoull(at + 5, &end, 10);
        at = end;
    }
    rc_trial_folder_name(orders ? &found->order : NULL, seeds ? &found->seed : NULL, again, sizeof again);
    return *at == '\0' && strcmp(name, again) == 0;
}

static int by_place(const void *a, const void *b)
{
    const place *one = a, *other = b;
    if (one->order != other->order)
        return one->order < other->order ? -1 : 1;
    return one->seed < other->seed ? -1 : one->seed > other->seed;
}

static bool is_own(const rc_trial *own, int count, bool orders, bool seeds, const place *at)
{
    for (int i = 0; i < count; i++)
        if ((!orders || own[i].config.order == at->order) && (!seeds || own[i].config.settings.seed == at->seed))
            return true;
    return false;
}

/* Places of trials that are not our own, in their order. */
static rc_status list_places(const char *path, const rc_trial *own, int count, bool orders, bool seeds, place *found,
                             int *places)
{
    const struct dirent *entry;
    DIR *folder = opendir(path);
    *places = 0;
    if (folder == NULL)
        return rc_fail(RC_IO, "cannot read the folder '%s': %s", path, strerror(errno));
    rc_status status = RC_OK;
    while (*places < MOST && (status = rc_file_next(folder, path, &entry)) == RC_OK && entry != NULL) {
        place *at = &found[*places];
        if (read_name(entry->d_name, orders, seeds, at) && !is_own(own, count, orders, seeds, at))
            ++*places;
    }
    closedir(folder);
    qsort(found, (size_t)*places, sizeof *found, by_place);
    return status;
}

/* *there: it is a trial of this grid. */
static rc_status open_trial(const char *folder, const rc_trial *own, bool orders, bool seeds, const place *at,
                            rc_trial *t, bool *there)
{
    *there = false;
    t->config = own->config;
    RC_TRY(rc_trial_name(t, folder, orders ? &at->order : NULL, seeds ? &at->seed : NULL));
    RC_TRY(rc_run_folder_look(&t->folder, t->path, own->folder.identity, there));
    if (!*there)
        return RC_OK;
    RC_TRY(rc_trial_create(t, own->data, 0));
    t->tasks = own->tasks;
    return RC_OK;
}

/* A file that cannot be read, or is of another run, is not worth the summary of all others. */
static rc_status leave_out(rc_status status, const rc_log *log)
{
    if (status != RC_IO && status != RC_FORMAT && status != RC_UNSUPPORTED && status != RC_INVALID_ARGUMENT)
        return status;
    rc_log_write(log, RC_LOG_WARN, "warning: the summary is without what cannot be read: %s", rc_message());
    return RC_OK;
}

static rc_status read_trials(const char *folder, const rc_trial *own, bool orders, bool seeds, const place *found,
                             int places, const rc_log *log, rc_others *others)
{
    others->trial = rc_alloc_zeroed(NULL, (size_t)places + 1, sizeof *others->trial);
    if (others->trial == NULL)
        return RC_OUT_OF_MEMORY;
    for (int i = 0; i < places; i++) {
        rc_trial *t = &others->trial[others->trials];
        bool there;
        rc_status status = open_trial(folder, own, orders, seeds, &found[i], t, &there);
        if (status == RC_OK && there) {
            others->trials++;
            continue;
        }
        rc_trial_destroy(t);
        *t = (rc_trial){0};
        RC_TRY(leave_out(status, log));
    }
    return RC_OK;
}

static rc_status find_trials(const rc_run_settings *s, const rc_trial *own, int count, const rc_log *log,
                             rc_others *others)
{
    const bool orders = s->orders > 0, seeds = s->seeds > 0;
    int places;
    if (!orders && !seeds)
        return RC_OK;
    place *found = rc_alloc_zeroed(NULL, MOST, sizeof *found);
    rc_status status = found != NULL ? list_places(s->out, own, count, orders, seeds, found, &places)
                                     : RC_OUT_OF_MEMORY;
    if (status == RC_OK)
        status = read_trials(s->out, own, orders, seeds, found, places, log, others);
    rc_free(NULL, found);
    return status;
}

static const rc_trial *trial_of(const rc_others *others, const rc_trial *own, int index)
{
    return index < others->own ? &own[index] : &others->trial[index - others->own];
}

/* Has any trial results of the method? */
static rc_status find_results(const rc_others *others, const rc_trial *own, const rc_method *method, bool *found)
{
    char folder[RC_PATH_SIZE], path[RC_PATH_SIZE];
    *found = false;
    for (int t = 0; t < others->own + others->trials && !*found; t++) {
        RC_TRY(rc_path_in(trial_of(others, own, t)->path, method->name, folder));
        RC_TRY(rc_path_in(folder, "results.json", path));
        RC_TRY(rc_file_find(path, found));
    }
    return RC_OK;
}

static rc_status find_methods(const rc_run_settings *s, const rc_trial *own, rc_others *others)
{
    const rc_method *method;
    while (others->methods < s->methods) {
        others->method[others->methods] = s->method[others->methods];
        others->methods++;
    }
    for (int i = 0; (method = rc_method_at(i)) != NULL && others->methods < RC_MAX_METHODS; i++) {
        bool found;
        int k = 0;
        while (k < s->methods && s->method[k] != method)
            k++;
        if (k < s->methods)
            continue;
        RC_TRY(find_results(others, own, method, &found));
        if (found)
            others->method[others->methods++] = method;
    }
    return RC_OK;
}

/* method: NULL: the first task. */
static rc_status read_cell(rc_cell *cell, const rc_trial *trial, const rc_method *method, const rc_cell *first,
                           const rc_log *log)
{
    rc_status status = method != NULL ? rc_cell_create(cell, trial, method, first) : rc_cell_create_first(cell, trial);
    if (status != RC_OK)
        rc_results_destroy(&cell->results); /* as if nothing of it were done */
    return leave_out(status, log);
}

static rc_status read_cells(const rc_run_settings *s, const rc_trial *own, const rc_log *log, rc_others *others)
{
    const int trials = others->own + others->trials, row = others->methods + 1;
    others->cell = rc_alloc_zeroed(NULL, (size_t)trials * (size_t)row, sizeof *others->cell);
    if (others->cell == NULL)
        return RC_OUT_OF_MEMORY;
    for (int t = 0; t < trials; t++) {
        rc_cell *first = &others->cell[t * row];
        for (int m = t < others->own ? s->methods : -1; m < others->methods; m++)
            RC_TRY(read_cell(first + 1 + m, trial_of(others, own, t), m < 0 ? NULL : others->method[m], first, log));
    }
    return RC_OK;
}

rc_status rc_others_read(const rc_run_settings *settings, const rc_trial *own, int count, const rc_log *log,
                         rc_others *others)
{
    *others = (rc_others){.own = count};
    rc_status status = find_trials(settings, own, count, log, others);
    if (status == RC_OK)
        status = find_methods(settings, own, others);
    if (status == RC_OK)
        status = read_cells(settings, own, log, others);
    if (status != RC_OK)
        rc_others_free(others);
    return status;
}

static int count_cells(const rc_others *others)
{
    return others->cell != NULL ? (others->own + others->trials) * (others->methods + 1) : 0;
}

int rc_others_done(const rc_others *others)
{
    int done = 0;
    for (int i = 0; i < count_cells(others); i++)
        done += others->cell[i].trial != NULL && rc_cell_done(&others->cell[i]);
    return done;
}

void rc_others_free(rc_others *others)
{
    for (int i = 0; i < count_cells(others); i++)
        rc_cell_destroy(&others->cell[i]);
    for (int i = 0; i < others->trials; i++)
        rc_trial_destroy(&others->trial[i]);
    rc_free(NULL, others->trial);
    rc_free(NULL, others->cell);
    *others = (rc_others){0};
}
