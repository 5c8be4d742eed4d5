#include "reproduce/reproduce.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/memory.h"
#include "experiment/cell.h"
#include "experiment/run_data.h"
#include "forecast/forecast.h"
#include "reproduce/shrink.h"

/* ---- the folder ------------------------------------------------------------------------------------------------- */

static const char format[] = "recollect-reproduce-1";

static rc_status check_identity(const char *path, const char *out, double scale)
{
    rc_json *json;
    RC_TRY(rc_json_load(path, 1 << 16, &json));
    const char *kind = rc_json_string(rc_json_member(json, "format"));
    double found = rc_json_number(rc_json_member(json, "scale"));
    rc_status status = RC_OK;
    if (kind == NULL || strcmp(kind, format) != 0)
        status = rc_fail(RC_INVALID_ARGUMENT, "%s has %s%.40s, expected format '%s': choose another setting 'out'",
                         path, kind != NULL ? "format " : "no format", kind != NULL ? kind : "", format);
    else if (found != scale)
        status = rc_fail(RC_INVALID_ARGUMENT,
                         "%s holds results of scale %g, which must not mix with those of scale %g: choose another "
                         "setting 'out', or the setting 'scale' that it has",
                         out, found, scale);
    rc_json_free(json);
    return status;
}

/* Makes the folder and says in it of which scale it is, or checks that. */
static rc_status open_out(const rc_reproduce_settings *s)
{
    char path[RC_PATH_SIZE];
    bool there;
    RC_TRY(rc_path_in(s->out, "reproduce.json", path));
    RC_TRY(rc_file_find(path, &there));
    if (!there) {
        rc_json_writer w = {.indent = 2};
        RC_TRY(rc_file_make_folder(s->out));
        rc_json_begin_object(&w, NULL);
        rc_json_put_text(&w, "format", format);
        rc_json_put_real(&w, "scale", s->scale);
        rc_json_end(&w);
        rc_status status = rc_json_save_new(&w, path);
        if (status != RC_OK && (rc_file_find(path, &there) != RC_OK || !there)) /* else another process was quicker */
            return status;
    }
    return check_identity(path, s->out, s->scale);
}

rc_status rc_reproduce_check(const rc_reproduce_settings *s)
{
    char path[RC_PATH_SIZE];
    bool there;
    if (!(s->scale >= RC_SMALLEST_SCALE && s->scale <= 1))
        return rc_fail(RC_INVALID_ARGUMENT, "the setting 'scale' is %g, expected a number from %g to 1", s->scale,
                       RC_SMALLEST_SCALE);
    RC_TRY(rc_path_in(s->out, "reproduce.json", path));
    RC_TRY(rc_file_find(path, &there));
    return there ? check_identity(path, s->out, s->scale) : RC_OK;
}

/* ---- what there is to do ---------------------------------------------------------------------------------------- */

typedef struct reproduction {
    const rc_reproduce_settings *settings;
    rc_cell_list list;
    bool *done;              /* (cells) */
    char hash[RC_HASH_SIZE]; /* of the data of the set at hand */
    const rc_dataset *data;  /* likewise */
    const rc_paper_set *set;
    rc_reproduced *ended;
    int runs, run; /* of the set; begun so far */
} reproduction;

/* The cells of the set that are done; those of one set must be of the same data. */
static rc_status look_at_set(reproduction *r, int *open)
{
    *open = 0;
    for (int i = 0; i < r->list.cells; i++) {
        if (r->list.cell[i].set != r->set)
            continue;
        RC_TRY(rc_reproduce_look(&r->list.cell[i], r->settings->scale, r->settings->out, r->hash, &r->done[i], NULL));
        *open += !r->done[i];
    }
    return RC_OK;
}

/* ---- how long --------------------------------------------------------------------------------------------------- */

/* The steps of tasks `from` to the last that is run. */
static void add_tasks(const reproduction *r, const rc_paper_cell *cell, const rc_config *config, int from, int end,
                      rc_workload *work)
{
    const rc_method *method = cell->line.method;
    int classes = r->set->classes / cell->tasks, images = r->data->train.count / r->set->classes;
    if (config->images_per_class > 0 && config->images_per_class < images)
        images = config->images_per_class;
    for (int task = from; task < end; task++)
        rc_workload_add(work, &config->settings, method, task * classes, classes,
                        images * classes * (rc_method_trains_on_old_images(method) ? task + 1 : 1));
}

/* Times some steps of the first cell that is open, with dreams if any has some. */
static rc_status measure(const reproduction *r, int first, rc_backend *backend, rc_forecast *forecast)
{
    const rc_split *train = &r->data->train;
    const rc_paper_cell *cell = &r->list.cell[first];
    rc_augment shape = rc_image_of(r->data);
    rc_config config;
    size_t bytes;
    for (int i = r->list.cells - 1; i >= 0; i--)
        if (r->list.cell[i].set == r->set && !r->done[i] && rc_method_dreams(r->list.cell[i].line.method, 1))
            cell = &r->list.cell[i];
    int classes = r->set->classes / cell->tasks;
    RC_TRY(rc_paper_cell_config(cell, r->settings->scale, &config));
    RC_TRY(rc_forecast_measure(forecast, backend, &config.settings, rc_first_task_method(), &shape, 0, classes,
                               train->images, train->count, &bytes));
    return rc_forecast_measure(forecast, backend, &config.settings, cell->line.method, &shape,
                               r->set->classes - classes, classes, train->images, train->count, &bytes);
}

/* Says how long all open cells of the set take, one after the other. */
static rc_status tell_forecast(const reproduction *r, int first)
{
    const rc_run_settings *run = &r->settings->run;
    rc_backend *backend;
    rc_forecast forecast = {0};
    rc_config config;
    double seconds = 0;
    char text[64];
    RC_TRY(rc_backend_open(run->backend, run->threads, NULL, &backend));
    rc_status status = measure(r, first, backend, &forecast);
    rc_backend_close(backend);
    RC_TRY(status);
    for (int i = 0, end; i < r->list.cells; i = end) {
        bool shares = false;
        end = rc_cell_list_folder_end(&r->list, i);
        for (int k = i; k < end; k++) {
            const rc_paper_cell *cell = &r->list.cell[k];
            rc_workload work = {0};
            if (cell->set != r->set || r->done[k])
                continue;
            RC_TRY(rc_paper_cell_config(cell, r->settings->scale, &config));
            bool sharing = rc_method_shares_first_task(cell->line.method, &config.settings);
            int tasks = cell->stop_after > 0 ? cell->stop_after : cell->tasks;
            add_tasks(r, cell, &config, sharing && shares ? 1 : 0, tasks, &work);
            shares = shares || sharing;
            seconds += rc_forecast_seconds(&forecast, &work);
        }
    }
    rc_duration_text(seconds, text, sizeof text);
    rc_log_write(&run->watch.log, RC_LOG_INFO, "forecast: about %s for all cells of %s that are left", text,
                 r->set->name);
    return RC_OK;
}

/* ---- running ---------------------------------------------------------------------------------------------------- */

static rc_status open_data(reproduction *r, int first, rc_dataset *data)
{
    const rc_run_settings *run = &r->settings->run;
    rc_config config;
    RC_TRY(rc_paper_cell_config(&r->list.cell[first], r->settings->scale, &config));
    RC_TRY(rc_config_set(&config, "data", r->settings->data[rc_paper_set_index(r->set)]));
    RC_TRY(rc_run_data_open(&config, run->threads, run->skip_broken, &run->watch, data));
    rc_status status = RC_OK;
    if (data->classes != r->set->classes)
        status = rc_fail(RC_INVALID_ARGUMENT, "%s has %d classes, expected the %d of %s", config.data, data->classes,
                         r->set->classes, r->set->name);
    if (status != RC_OK)
        rc_dataset_close(data);
    return status;
}

static void tell_shrinking(const reproduction *r, int first)
{
    rc_config whole, now;
    char text[512];
    if (r->settings->scale >= 1 || rc_paper_cell_config(&r->list.cell[first], 1, &whole) != RC_OK ||
        rc_paper_cell_config(&r->list.cell[first], r->settings->scale, &now) != RC_OK)
        return;
    rc_shrink_text(&whole, &now, text, sizeof text);
    rc_log_write(&r->settings->run.watch.log, RC_LOG_INFO,
                 "scale %g, whose numbers mean nothing beside the paper's: %d of the class orders, %s",
                 r->settings->scale, rc_shrink_orders(r->settings->scale), text);
}

/* The cells i to end - 1, of one folder, that are not done. */
static rc_status run_folder(reproduction *r, int i, int end)
{
    rc_run_settings run = r->settings->run;
    char out[RC_PATH_SIZE], file[RC_PATH_SIZE], text[512];
    run.methods = 0;
    run.alone = true;    /* one process reproduces; others would write the same files */
    run.unsummed = true; /* its table is the summary; that of the last run would lack the cells that were done before */
    for (int k = i; k < end; k++)
        if (!r->done[k])
            run.method[run.methods++] = r->list.cell[k].line.method;
    if (run.methods == 0)
        return RC_OK;
    RC_TRY(rc_paper_cell_config(&r->list.cell[i], r->settings->scale, &run.config));
    RC_TRY(rc_config_set(&run.config, "data", r->settings->data[rc_paper_set_index(r->set)]));
    RC_TRY(rc_path_in(r->settings->out, r->list.cell[i].folder, out));
    RC_TRY(rc_path_in(out, "run.json", file));
    run.data = r->data;
    run.out = out;
    RC_TRY(rc_file_find(file, &run.resume));
    run.stop_after = r->list.cell[i].stop_after;
    size_t used = (size_t)snprintf(text, sizeof text, "run %d of %d: %s", ++r->run, r->runs, r->list.cell[i].folder);
    for (int m = 0; m < run.methods && used < sizeof text; m++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s %s", m > 0 ? "," : ":", run.method[m]->title);
    rc_log_write(&run.watch.log, RC_LOG_INFO, "%s", text);
    return rc_experiment_run(&run);
}

static bool ends_all(rc_status status)
{
    return status == RC_CANCELLED || status == RC_IO || status == RC_UNSYNCED || status == RC_OUT_OF_MEMORY ||
           status == RC_DEVICE;
}

static rc_status run_folders(reproduction *r)
{
    for (int i = 0, end; i < r->list.cells; i = end) {
        end = rc_cell_list_folder_end(&r->list, i);
        if (r->list.cell[i].set != r->set)
            continue;
        rc_status status = run_folder(r, i, end);
        if (ends_all(status))
            return status;
        if (status == RC_OK)
            continue;
        rc_log_write(&r->settings->run.watch.log, RC_LOG_ERROR, "%s: %s", r->list.cell[i].folder, rc_message());
        r->ended->failed++;
    }
    return RC_OK;
}

/* first: the first open cell of the set. */
static rc_status run_set(reproduction *r, int first)
{
    rc_dataset data;
    char hash[RC_HASH_SIZE];
    RC_TRY(open_data(r, first, &data));
    r->data = &data;
    rc_data_hash(&data, hash);
    rc_status status = RC_OK;
    if (r->hash[0] != '\0' && strcmp(r->hash, hash) != 0)
        status = rc_fail(RC_INVALID_ARGUMENT,
                         "the results of %s in %s are of other data than '%s': bring the old data back, or choose "
                         "another setting 'out'",
                         r->set->name, r->settings->out, r->settings->data[rc_paper_set_index(r->set)]);
    if (status == RC_OK)
        status = open_out(r->settings);
    if (status == RC_OK) {
        r->ended->begun = true;
        tell_shrinking(r, first);
        status = tell_forecast(r, first);
    }
    if (status == RC_OK)
        status = run_folders(r);
    r->data = NULL;
    rc_dataset_close(&data);
    return status;
}

/* Folders of the set with cells that are open. */
static int count_runs(const reproduction *r)
{
    int runs = 0;
    for (int i = 0, end; i < r->list.cells; i = end) {
        bool any = false;
        end = rc_cell_list_folder_end(&r->list, i);
        for (int k = i; k < end; k++)
            any = any || (r->list.cell[k].set == r->set && !r->done[k]);
        runs += any;
    }
    return runs;
}

static rc_status run_sets(reproduction *r)
{
    for (int s = 0; (r->set = rc_paper_set_at(s)) != NULL; s++) {
        int open, first = 0;
        r->hash[0] = '\0';
        RC_TRY(look_at_set(r, &open));
        if (open > 0 && r->settings->data[s] == NULL)
            r->ended->left_out += open;
        if (open == 0 || r->settings->data[s] == NULL)
            continue;
        while (r->list.cell[first].set != r->set || r->done[first])
            first++;
        r->runs = count_runs(r);
        r->run = 0;
        RC_TRY(run_set(r, first));
    }
    return RC_OK;
}

rc_status rc_reproduce_run(const rc_reproduce_settings *settings, rc_reproduced *ended)
{
    reproduction r = {.settings = settings, .ended = ended};
    *ended = (rc_reproduced){0};
    RC_TRY(rc_reproduce_check(settings));
    RC_TRY(rc_cell_list_create(settings->artefact, &settings->filter, &r.list));
    if (r.list.cells == 0)
        rc_log_write(&settings->run.watch.log, RC_LOG_INFO,
                     "part %d of %d has no cells: there are fewer runs than parts", settings->filter.shard,
                     settings->filter.shards);
    r.done = rc_alloc_zeroed(NULL, (size_t)r.list.cells + 1, sizeof *r.done);
    rc_status status = r.done != NULL ? run_sets(&r) : RC_OUT_OF_MEMORY;
    if (status == RC_OK)
        status = open_out(settings); /* where nothing was left to run, too: the table goes there */
    rc_free(NULL, r.done);
    rc_cell_list_free(&r.list);
    return status;
}

/* ---- merging ---------------------------------------------------------------------------------------------------- */

static rc_status copy_results(const rc_paper_cell *cell, const char *from, const char *to)
{
    char folder[RC_PATH_SIZE], path[RC_PATH_SIZE], *bytes;
    size_t size;
    bool found;
    RC_TRY(rc_reproduce_find(cell, from, path, &found));
    RC_TRY(rc_file_read(path, RC_RESULTS_BYTES, &bytes, &size));
    rc_status status = rc_path_in(to, cell->path, folder);
    if (status == RC_OK)
        status = rc_path_in(folder, "results.json", path);
    if (status == RC_OK)
        status = rc_file_make_folder(folder);
    if (status == RC_OK)
        status = rc_file_write_atomic(path, bytes, size);
    rc_free(NULL, bytes);
    return status;
}

/* What is here decides which data it is; else the first cell of the folder. */
static rc_status merge_cell(const rc_reproduce_settings *s, const rc_paper_cell *cell, const char *folder,
                            char hash[RC_HASH_SIZE], rc_merged *merged)
{
    bool here, theirs;
    RC_TRY(rc_reproduce_look(cell, s->scale, s->out, hash, &here, NULL));
    rc_status status = rc_reproduce_look(cell, s->scale, folder, hash, &theirs, NULL);
    if (status == RC_INVALID_ARGUMENT || status == RC_FORMAT) {
        rc_log_write(&s->run.watch.log, RC_LOG_ERROR, "%s", rc_message());
        merged->foreign++;
        return RC_OK;
    }
    RC_TRY(status);
    if (theirs && !here && merged->copied == 0)
        RC_TRY(open_out(s));
    if (theirs && !here)
        RC_TRY(copy_results(cell, folder, s->out));
    merged->copied += theirs && !here;
    merged->there += theirs && here;
    return RC_OK;
}

static rc_status merge_cells(const rc_reproduce_settings *s, const rc_cell_list *list, const char *folder,
                             rc_merged *merged)
{
    char hash[RC_PAPER_SETS][RC_HASH_SIZE] = {{0}};
    bool done;
    for (int i = 0; i < list->cells; i++)
        RC_TRY(rc_reproduce_look(&list->cell[i], s->scale, s->out, hash[rc_paper_set_index(list->cell[i].set)], &done,
                                 NULL));
    for (int i = 0; i < list->cells; i++)
        RC_TRY(merge_cell(s, &list->cell[i], folder, hash[rc_paper_set_index(list->cell[i].set)], merged));
    if (merged->copied + merged->there + merged->foreign == 0)
        return rc_fail(RC_INVALID_ARGUMENT, "'%s' has no finished cell of %s", folder, s->artefact->name);
    return open_out(s); /* where no cell could be taken over, too: the table goes there */
}

rc_status rc_reproduce_merge(const rc_reproduce_settings *s, const char *folder, rc_merged *merged)
{
    char path[RC_PATH_SIZE];
    rc_cell_list list;
    struct stat about;
    bool there;
    *merged = (rc_merged){0};
    RC_TRY(rc_reproduce_check(s));
    RC_TRY(rc_file_look(folder, true, &about));
    if (!S_ISDIR(about.st_mode))
        return rc_fail(RC_INVALID_ARGUMENT, "there is no folder '%s' to merge", folder);
    RC_TRY(rc_path_in(folder, "reproduce.json", path));
    RC_TRY(rc_file_find(path, &there));
    if (there) /* a folder of copies has none; their settings tell the scale as well */
        RC_TRY(check_identity(path, folder, s->scale));
    RC_TRY(rc_cell_list_create(s->artefact, &s->filter, &list));
    rc_status status = merge_cells(s, &list, folder, merged);
    rc_cell_list_free(&list);
    return status;
}
