#include "experiment/run_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/machine.h"
#include "base/memory.h"
#include "experiment/commit.h"

/* ---- identity ------------------------------------------------------------------------------------------------- */

/* Files of the first format do not say which run they are of. In the second, rows had numbers that no setting
 * changed. */
static const char format[] = "recollect-run-3";

/* Where the data lies may change while a run is stopped: what it is is told by its fingerprint. */
static rc_status describe(const rc_run_identity *who, rc_json **json)
{
    char data[RC_HASH_SIZE], machine[128], *text;
    const rc_backend *be = who->backend;
    size_t size;
    rc_json_writer w = {0};
    rc_data_hash(who->data, data);
    rc_machine_name(machine, sizeof machine);
    rc_json_begin_object(&w, NULL);
    rc_json_put_text(&w, "format", format);
    rc_json_put_text(&w, "version", recollect_version());
    rc_json_put_text(&w, "commit", rc_commit);
    rc_json_put_text(&w, "command_line", who->command_line ? who->command_line : "");
    rc_json_put_int(&w, "order", who->config->order);
    rc_json_put_int(&w, "seed", (int64_t)who->config->settings.seed);
    rc_json_put_text(&w, "backend", be->about.name);
    rc_json_put_text(&w, "precision", be->about.precision);
    rc_json_put_text(&w, "isa", be->about.isa);
    rc_json_put_text(&w, "device", be->about.device != NULL ? be->about.device : machine);
    rc_json_put_int(&w, "threads", be->about.threads);
    rc_json_put_text(&w, "dataset", who->data->name);
    rc_json_put_text(&w, "data", who->config->data);
    rc_json_put_int(&w, "data_seed", (int64_t)who->data_seed);
    rc_json_put_text(&w, "data_fingerprint", data);
    rc_json_begin_object(&w, "config");
    rc_config_put_json(who->config, "data", &w);
    rc_json_end(&w);
    rc_json_end(&w);
    RC_TRY(rc_json_finish(&w, &text, &size));
    rc_status status = rc_json_parse("the description of the run", text, size, json);
    rc_free(NULL, text);
    return status;
}

/* What stands in the folder and what is asked for now. */
static rc_status compare(const char *path, const rc_json *there, const rc_json *now)
{
    const rc_json *config, *config_now, *value = NULL;
    const char *data, *data_now, *kind = rc_json_string(rc_json_member(there, "format"));
    if (kind == NULL || strcmp(kind, format) != 0) {
        const char *version = rc_json_string(rc_json_member(there, "version"));
        return rc_fail(RC_INVALID_ARGUMENT,
                       "the run in %s was begun by recollect %.40s, whose files do not say all that this version asks "
                       "of them (%.40s, expected format '%s'): it cannot go on with them. The models serve learn, "
                       "predict and eval as before; begin another run with another setting 'out'",
                       path, version != NULL ? version : "of no version", kind != NULL ? kind : "no format", format);
    }
    RC_TRY(rc_json_get_object(there, "config", &config));
    RC_TRY(rc_json_get_object(now, "config", &config_now));
    RC_TRY(rc_json_get_string(there, "data_fingerprint", &data));
    RC_TRY(rc_json_get_string(now, "data_fingerprint", &data_now));
    while ((value = rc_json_next(config_now, value)) != NULL) {
        const char *key = rc_json_key(value), *before = rc_json_string(rc_json_member(config, key));
        const char *text = before != NULL ? before : "unknown to it";
        if (strcmp(text, rc_json_string(value)) != 0)
            return rc_fail(RC_INVALID_ARGUMENT,
                           "the run in %s has %s '%s', but '%s' is asked for now: resume it with the settings it began "
                           "with, or begin another one with another setting 'out'",
                           path, key, text, rc_json_string(value));
    }
    if (strcmp(data, data_now) != 0)
        return rc_fail(RC_INVALID_ARGUMENT,
                       "the data is not what the run in %s began with: other images, labels, names or numbers of "
                       "them. Bring the old data back (it may lie elsewhere: the setting 'data'), or begin another run "
                       "with another setting 'out'",
                       path);
    return RC_OK;
}

static rc_status check_resumed(const char *path, const char *run, rc_run_folder *folder)
{
    rc_json *there;
    RC_TRY(rc_json_load(run, 1 << 20, &there));
    rc_status status = compare(path, there, folder->identity);
    rc_json_free(folder->identity);
    folder->identity = there;
    return status == RC_FORMAT ? rc_fail(status, "%s: %s", run, rc_message()) : status;
}

static rc_status write_config(const rc_config *config, const char *path)
{
    rc_file_writer *writer;
    RC_TRY(rc_file_writer_open(path, &writer));
    rc_status status = rc_config_print(config, rc_file_writer_line, writer);
    if (status == RC_OK)
        return rc_file_writer_commit(writer);
    rc_file_writer_abort(writer);
    return status;
}

/* Only people and their next run read it back: it must not describe another run. */
static rc_status check_config(const rc_config *now, const char *path)
{
    rc_config there = rc_config_default();
    RC_TRY(rc_config_load(&there, path, NULL));
    rc_config_item item;
    char a[RC_CONFIG_VALUE], b[RC_CONFIG_VALUE];
    for (int i = 0; rc_config_item_at(i, &item); i++) {
        RC_TRY(rc_config_get(&there, item.name, a, sizeof a));
        RC_TRY(rc_config_get(now, item.name, b, sizeof b));
        if (strcmp(item.name, "data") != 0 && strcmp(a, b) != 0)
            return rc_fail(RC_INVALID_ARGUMENT,
                           "%s has %s '%s', but the run beside it '%s': remove it, and it is written anew", path,
                           item.name, a, b);
    }
    return RC_OK;
}

/* ---- the folder ----------------------------------------------------------------------------------------------- */

rc_status rc_make_run_folder(const char *path)
{
    RC_TRY(rc_file_make_folder(path));
    return rc_file_remove_leftovers(path);
}

static rc_status take_lock(const char *path, const char *run, rc_run_folder *folder, bool shared)
{
    struct flock lock = {.l_type = (short)(shared ? F_RDLCK : F_WRLCK), .l_whence = SEEK_SET};
    folder->lock = rc_file_open(run, O_RDWR);
    if (folder->lock < 0) {
        folder->lock = 0;
        return rc_fail(RC_IO, "cannot open '%s' for writing: %s", run, strerror(errno));
    }
    int failed;
    do
        failed = fcntl(folder->lock, F_SETLK, &lock);
    while (failed != 0 && errno == EINTR);
    if (failed == 0)
        return RC_OK;
    if (errno == EACCES || errno == EAGAIN)
        return rc_fail(RC_INVALID_ARGUMENT, "another process is working on the run in %s: wait for it, or stop it",
                       path);
    return RC_OK; /* a file system without locks: nothing to be done */
}

/* Files of the user that a run would replace. */
static rc_status find_others(const char *path)
{
    static const char *const names[] = {"config.yaml", "summary.json", "summary.csv", "summary.txt"};
    char file[RC_PATH_SIZE];
    bool there;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        RC_TRY(rc_path_in(path, names[i], file));
        RC_TRY(rc_file_find(file, &there));
        if (there)
            return rc_fail(RC_INVALID_ARGUMENT,
                           "'%s' is there already, and a run would replace it: choose another setting 'out'", file);
    }
    return RC_OK;
}

rc_status rc_run_folder_is_free(const char *path)
{
    char run[RC_PATH_SIZE];
    RC_TRY(rc_path_in(path, "run.json", run));
    bool there;
    rc_status status = find_others(path);
    RC_TRY(rc_file_find(run, &there));
    if (!there) /* looked for last: another process may have begun a run meanwhile */
        return status;
    return rc_fail(RC_INVALID_ARGUMENT,
                   "%s holds a run already: the setting 'resume' goes on with it, another setting 'out' leaves it "
                   "alone",
                   path);
}

/* Writes run.json, which does not exist yet. If another process has written it since, a resumed run must be that
 * one. */
static rc_status begin_run(const rc_run_folder *folder, const char *path, const char *run, bool resume)
{
    rc_status status = find_others(path);
    if (status == RC_OK)
        status = rc_file_make_folder(path);
    if (status == RC_OK) {
        rc_json_writer w = {.indent = 2};
        rc_json_put_value(&w, NULL, folder->identity);
        status = rc_json_save_new(&w, run);
    }
    bool taken = status == RC_INVALID_ARGUMENT || status == RC_IO; /* perhaps: both mean other things, too */
    if (taken && rc_file_find(run, &taken) != RC_OK)
        return RC_IO;
    if (!taken)
        return status;
    return resume ? RC_OK : rc_run_folder_is_free(path);
}

static rc_status open_folder(rc_run_folder *folder, const char *path, const rc_run_identity *who, bool resume,
                             bool shared)
{
    char config[RC_PATH_SIZE], run[RC_PATH_SIZE];
    bool there;
    RC_TRY(rc_path_in(path, "config.yaml", config));
    RC_TRY(rc_path_in(path, "run.json", run));
    if (!resume)
        RC_TRY(rc_run_folder_is_free(path));
    RC_TRY(describe(who, &folder->identity));
    RC_TRY(rc_file_find(run, &there));
    if (!there)
        RC_TRY(begin_run(folder, path, run, resume));
    RC_TRY(check_resumed(path, run, folder));
    /* after the last look into run.json: closing it would end the lock */
    RC_TRY(take_lock(path, run, folder, shared));
    RC_TRY(shared ? rc_file_make_folder(path) : rc_make_run_folder(path)); /* others may be writing there */
    RC_TRY(rc_file_find(config, &there));
    return there ? check_config(who->config, config) : write_config(who->config, config);
}

rc_status rc_run_folder_look(rc_run_folder *folder, const char *path, const rc_json *like, bool *alike)
{
    char run[RC_PATH_SIZE];
    const rc_json *value = NULL, *config = rc_json_member(like, "config");
    *alike = false;
    RC_TRY(rc_path_in(path, "run.json", run));
    bool begun;
    RC_TRY(rc_file_find(run, &begun));
    if (!begun)
        return RC_OK;
    RC_TRY(rc_json_load(run, 1 << 20, &folder->identity));
    const rc_json *there = rc_json_member(folder->identity, "config");
    const char *data = rc_json_string(rc_json_member(folder->identity, "data_fingerprint"));
    const char *kind = rc_json_string(rc_json_member(folder->identity, "format"));
    if (data == NULL || strcmp(data, rc_json_string(rc_json_member(like, "data_fingerprint"))) != 0 || kind == NULL ||
        strcmp(kind, format) != 0)
        return RC_OK;
    while ((value = rc_json_next(config, value)) != NULL) {
        const char *key = rc_json_key(value), *own = rc_json_string(value);
        const char *other = rc_json_string(rc_json_member(there, key));
        bool free = strcmp(key, "order") == 0 || strcmp(key, "seed") == 0;
        if (!free && (own == NULL || other == NULL || strcmp(other, own) != 0)) /* NULL: a later version's, perhaps */
            return RC_OK;
    }
    *alike = true;
    return RC_OK;
}

rc_status rc_run_folder_open(rc_run_folder *folder, const char *path, const rc_run_identity *identity, bool resume,
                             bool shared)
{
    *folder = (rc_run_folder){0};
    rc_status status = open_folder(folder, path, identity, resume, shared);
    if (status != RC_OK)
        rc_run_folder_close(folder);
    return status;
}

void rc_run_folder_close(rc_run_folder *folder)
{
    rc_json_free(folder->identity);
    if (folder->lock > 0)
        (void)rc_file_close(folder->lock);
    *folder = (rc_run_folder){0};
}

const char *rc_run_setting(const rc_json *run, const char *method, const char *key)
{
    static const struct {
        const char *name, *before, *now, *except; /* the method that has a value of its own since then */
        bool second;                              /* up to the second format of runs alone */
    } renamed[] = {{"buffer_size", "500", "0", "", true},
                   {"lode_rho", "0.05", "0", "", true},
                   {"generators", "1", "0", "cwd+", false},
                   {"rotations", "off", "method", "cwd+", false}};
    const char *value = rc_json_string(rc_json_member(rc_json_member(run, "config"), key));
    const char *kind = rc_json_string(rc_json_member(run, "format"));
    bool second = kind == NULL || strcmp(kind, format) < 0;
    for (size_t i = 0; value != NULL && i < sizeof renamed / sizeof *renamed; i++)
        if (strcmp(key, renamed[i].name) == 0 && strcmp(value, renamed[i].before) == 0 &&
            strcmp(method, renamed[i].except) != 0 && (second || !renamed[i].second))
            return renamed[i].now;
    return value;
}
