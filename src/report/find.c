/* Finds runs in folders. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "data/listing.h"
#include "report/run_read.h"

/* Runs of a table of the paper lie four folders deep. More runs than this are a mistake, and no page that a person
 * reads. */
enum { DEEPEST = 6, MOST_RUNS = 2000 };

static rc_status make_room(rc_report_runs *runs)
{
    if (runs->count < runs->room)
        return RC_OK;
    if (runs->count == MOST_RUNS)
        return rc_fail(RC_UNSUPPORTED, "there are more than %d runs: report fewer at a time", MOST_RUNS);
    int room = 2 * runs->room + 16;
    rc_report_run **grown = rc_alloc_zeroed(NULL, (size_t)room, sizeof(rc_report_run *));
    if (grown == NULL)
        return RC_OUT_OF_MEMORY;
    for (int i = 0; i < runs->count; i++)
        grown[i] = runs->run[i];
    rc_free(NULL, runs->run);
    runs->run = grown;
    runs->room = room;
    return RC_OK;
}

typedef rc_status reader(rc_report_run *run, const char *path);

static rc_status add_run(rc_report_runs *runs, const char *path, const char *folder, reader *read)
{
    RC_TRY(make_room(runs));
    rc_report_run *run = rc_alloc_zeroed(NULL, 1, sizeof *run);
    if (run == NULL)
        return RC_OUT_OF_MEMORY;
    snprintf(run->path, sizeof run->path, "%s", path);
    snprintf(run->folder, sizeof run->folder, "%s", folder);
    rc_status status = read(run, path);
    if (status == RC_OK)
        status = rc_report_run_findings(run);
    if (status == RC_OK && run->results.tasks > 0) /* logs of earlier versions do not say how many there will be */
        runs->run[runs->count++] = run;
    else
        rc_report_run_free(run);
    return status;
}

/* A folder that holds results, or a log and no results yet. The first task that methods share is none of them. */
static rc_status take_folder(rc_report_runs *runs, const char *folder)
{
    char path[RC_PATH_SIZE];
    bool there;
    const char *slash = strrchr(folder, '/');
    if (strcmp(slash != NULL ? slash + 1 : folder, "first-task") == 0)
        return RC_OK;
    RC_TRY(rc_path_in(folder, "results.json", path));
    RC_TRY(rc_file_find(path, &there));
    if (there)
        return add_run(runs, path, folder, rc_report_run_read);
    RC_TRY(rc_path_in(folder, "events.jsonl", path));
    RC_TRY(rc_file_find(path, &there));
    return there ? add_run(runs, path, folder, rc_report_run_begun) : RC_OK;
}

/* The folder and those in it. Links to folders are not followed: they may lead in circles. */
static rc_status walk(rc_report_runs *runs, const char *folder, int depth)
{
    rc_listing listing;
    char path[RC_PATH_SIZE];
    RC_TRY(take_folder(runs, folder));
    if (depth == DEEPEST)
        return RC_OK;
    RC_TRY(rc_listing_read(folder, &listing));
    rc_status status = RC_OK;
    for (int i = 0; i < listing.count && status == RC_OK; i++) {
        struct stat about;
        status = rc_path_in(folder, listing.name[i], path);
        if (status == RC_OK)
            status = rc_file_look(path, false, &about);
        if (status == RC_OK && S_ISDIR(about.st_mode))
            status = walk(runs, path, depth + 1);
    }
    rc_listing_free(&listing);
    return status;
}

/* A results.json in its place has the log beside it; a copy under another name has not. */
static rc_status take_file(rc_report_runs *runs, const char *path)
{
    char folder[RC_PATH_SIZE] = "";
    const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
    if (strcmp(name, "results.json") == 0)
        snprintf(folder, sizeof folder, "%.*s", slash != NULL ? (int)(slash - path) : 1, slash != NULL ? path : ".");
    return add_run(runs, path, folder, rc_report_run_read);
}

rc_status rc_report_runs_add(rc_report_runs *runs, const char *place)
{
    char folder[RC_PATH_SIZE];
    struct stat about;
    size_t length = strlen(place);
    while (length > 1 && place[length - 1] == '/')
        length--;
    if (length >= sizeof folder)
        return rc_fail(RC_INVALID_ARGUMENT, "the path %s is too long", place);
    snprintf(folder, sizeof folder, "%.*s", (int)length, place);
    if (stat(folder, &about) != 0)
        return rc_fail(RC_IO, "cannot open '%s': %s", folder, strerror(errno));
    if (!S_ISDIR(about.st_mode))
        return take_file(runs, folder);
    int before = runs->count;
    RC_TRY(walk(runs, folder, 0));
    if (runs->count == before)
        return rc_fail(RC_INVALID_ARGUMENT,
                       "there is no run in '%s' whose first cell has begun: expected a folder that 'recollect run' "
                       "works in, or a results.json",
                       folder);
    return RC_OK;
}

void rc_report_runs_free(rc_report_runs *runs)
{
    for (int i = 0; i < runs->count; i++)
        rc_report_run_free(runs->run[i]);
    rc_free(NULL, runs->run);
    *runs = (rc_report_runs){0};
}
