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

static rc_status read_places(const char *folder, const rc_trial *own, bool orders, bool seeds, const place *found,
                             int places, const rc_method *const *method, rc_others *others)
{
    int row = others->methods + 1;
    others->trial = rc_alloc_zeroed(NULL, (size_t)places + 1, sizeof *others->trial);
    others->cell = rc_alloc_zeroed(NULL, ((size_t)places + 1) * (size_t)row, sizeof *others->cell);
    if (others->trial == NULL || others->cell == NULL)
        return RC_OUT_OF_MEMORY;
    for (int i = 0; i < places; i++) {
        rc_trial *t = &others->trial[others->trials];
        rc_cell *first = &others->cell[others->trials * row];
        bool there;
        RC_TRY(open_trial(folder, own, orders, seeds, &found[i], t, &there));
        if (!there) {
            rc_trial_destroy(t);
            *t = (rc_trial){0};
            continue;
        }
        others->trials++;
        RC_TRY(rc_cell_create_first(first, t));
        for (int m = 0; m < others->methods; m++)
            RC_TRY(rc_cell_create(first + 1 + m, t, method[m], first));
    }
    return RC_OK;
}

rc_status rc_others_read(const char *folder, const rc_trial *own, int count, bool orders, bool seeds,
                         const rc_method *const *method, int methods, rc_others *others)
{
    int places;
    *others = (rc_others){.methods = methods};
    place *found = rc_alloc_zeroed(NULL, MOST, sizeof *found);
    rc_status status = found != NULL ? list_places(folder, own, count, orders, seeds, found, &places)
                                     : RC_OUT_OF_MEMORY;
    if (status == RC_OK)
        status = read_places(folder, own, orders, seeds, found, places, method, others);
    rc_free(NULL, found);
    if (status != RC_OK)
        rc_others_free(others);
    return status;
}

int rc_others_done(const rc_others *others)
{
    int done = 0;
    for (int i = 0; i < others->trials * (others->methods + 1); i++)
        done += rc_cell_done(&others->cell[i]);
    return done;
}

void rc_others_free(rc_others *others)
{
    for (int i = 0; others->trial != NULL && i <= others->trials; i++) /* the last may be half made */
        rc_trial_destroy(&others->trial[i]);
    for (int i = 0; others->cell != NULL && i < others->trials * (others->methods + 1); i++)
        rc_cell_destroy(&others->cell[i]);
    rc_free(NULL, others->trial);
    rc_free(NULL, others->cell);
    *others = (rc_others){0};
}
