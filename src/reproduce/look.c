#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "cil/task_stream.h"
#include "experiment/run_folder.h"
#include "reproduce/reproduce.h"

/* Of the cell as it would be run now. */
static rc_status expected_fingerprint(const rc_paper_cell *cell, const rc_config *config, const char *data_hash,
                                      char text[RC_FINGERPRINT_SIZE])
{
    rc_task_split split;
    rc_task_stream stream;
    int *order = NULL;
    RC_TRY(rc_config_split(config, &split));
    RC_TRY(rc_config_class_order(config, cell->set->classes, &order));
    rc_status status = rc_task_stream_create(&stream, cell->set->classes, order, &split);
    rc_free(NULL, order);
    RC_TRY(status);
    rc_fingerprint(config, data_hash, cell->line.method->name, &stream, text);
    rc_task_stream_destroy(&stream);
    return RC_OK;
}

/* The part of a fingerprint that is the data's; "" where there is none. */
static void data_part(const char *fingerprint, char hash[RC_HASH_SIZE])
{
    const char *at = fingerprint != NULL ? strstr(fingerprint, " data=") : NULL;
    size_t length = at != NULL ? strcspn(at + strlen(" data="), " ") : 0;
    snprintf(hash, RC_HASH_SIZE, "%.*s", (int)(length < RC_HASH_SIZE ? length : 0),
             at != NULL ? at + strlen(" data=") : "");
}

/* Do the settings that a cell was run with mean what those of the table mean? A setting that came later counts as its
 * default, which leaves everything as it was. */
static bool same_settings(const rc_json *run, const char *method, const rc_config *now)
{
    const rc_json *settings = rc_json_member(run, "config");
    rc_config_item item;
    char value[RC_CONFIG_VALUE];
    for (int i = 0; rc_config_item_at(i, &item); i++) {
        const char *theirs = rc_run_setting(run, method, item.name);
        theirs = theirs != NULL ? theirs : item.default_value;
        if (strcmp(item.name, "data") == 0)
            continue;
        if (rc_config_get(now, item.name, value, sizeof value) != RC_OK || strcmp(theirs, value) != 0)
            return false;
    }
    for (const rc_json *each = NULL; (each = rc_json_next(settings, each)) != NULL;)
        if (rc_config_get(now, rc_json_key(each), value, sizeof value) != RC_OK)
            return false; /* a setting that this version does not know may mean anything */
    return true;
}

/* `found` with the part `settings=` of `expected`. */
static void with_settings_of(const char *expected, const char *found, char text[RC_FINGERPRINT_SIZE])
{
    static const char key[] = "settings=";
    const char *theirs = strstr(found, key), *ours = strstr(expected, key);
    snprintf(text, RC_FINGERPRINT_SIZE, "%s", found);
    if (theirs != NULL && ours != NULL)
        snprintf(text, RC_FINGERPRINT_SIZE, "%.*s%.*s%s", (int)(theirs - found), found, (int)strcspn(ours, " "), ours,
                 theirs + strcspn(theirs, " "));
}

static rc_status check(const rc_paper_cell *cell, double scale, const char *path, const rc_json *json,
                       char data_hash[RC_HASH_SIZE], bool *done)
{
    char expected[RC_FINGERPRINT_SIZE], same[RC_FINGERPRINT_SIZE], found_hash[RC_HASH_SIZE];
    const char *found = rc_json_string(rc_json_member(json, "fingerprint"));
    const rc_json *run = rc_json_member(json, "run");
    rc_config config;
    int tasks;
    data_part(found, found_hash);
    const char *hash = data_hash[0] != '\0' ? data_hash : found_hash;
    RC_TRY(rc_paper_cell_config(cell, scale, &config));
    RC_TRY(expected_fingerprint(cell, &config, hash, expected));
    if (found != NULL && same_settings(run, cell->line.method->name, &config)) {
        with_settings_of(expected, found, same);
        found = same;
    }
    RC_TRY(rc_fingerprint_check(path, found, expected, rc_json_member(run, "config"), &config,
                                "it cannot stand in this table. Take it away, or choose another setting 'out'"));
    rc_status status = rc_json_get_int(json, "tasks_done", &tasks);
    if (status != RC_OK)
        return rc_fail(status, "%s: %s", path, rc_message());
    memcpy(data_hash, hash, RC_HASH_SIZE);
    *done = tasks >= (cell->stop_after > 0 ? cell->stop_after : cell->tasks);
    return RC_OK;
}

rc_status rc_reproduce_find(const rc_paper_cell *cell, const char *folder, char path[RC_PATH_SIZE], bool *found)
{
    char below[RC_PATH_SIZE], name[192];
    RC_TRY(rc_path_in(folder, cell->path, below));
    RC_TRY(rc_path_in(below, "results.json", path));
    RC_TRY(rc_file_find(path, found));
    if (*found)
        return RC_OK;
    snprintf(name, sizeof name, "%s-%d%s-%s-order-%d.json", cell->set->name, cell->tasks, cell->line.folder,
             cell->line.method->name, cell->order);
    RC_TRY(rc_path_in(folder, name, path));
    return rc_file_find(path, found);
}

rc_status rc_reproduce_look(const rc_paper_cell *cell, double scale, const char *folder, char data_hash[RC_HASH_SIZE],
                            bool *done, rc_json **json)
{
    char path[RC_PATH_SIZE];
    rc_json *read;
    bool found;
    *done = false;
    if (json != NULL)
        *json = NULL;
    RC_TRY(rc_reproduce_find(cell, folder, path, &found));
    if (!found)
        return RC_OK;
    RC_TRY(rc_json_load(path, RC_RESULTS_BYTES, &read));
    rc_status status = check(cell, scale, path, read, data_hash, done);
    if (status == RC_OK && json != NULL)
        *json = read;
    else
        rc_json_free(read);
    return status;
}
