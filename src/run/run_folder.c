#include "run/run_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/machine.h"
#include "base/memory.h"
#include "run/commit.h"

rc_status rc_path_in(const char *folder, const char *name, char path[RC_PATH_SIZE])
{
    int length = snprintf(path, RC_PATH_SIZE, "%s/%s", folder, name);
    if (length > 0 && length < RC_PATH_SIZE)
        return RC_OK;
    return rc_fail(RC_INVALID_ARGUMENT, "the path %s/%s is too long", folder, name);
}

/* ---- fingerprints --------------------------------------------------------------------------------------------- */

/* FNV-1a. */
static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ ((const unsigned char *)bytes)[i]) * UINT64_C(1099511628211);
    return hash;
}

static const uint64_t hash_start = UINT64_C(14695981039346656037);

static void hash_text(uint64_t hash, char text[RC_FINGERPRINT_SIZE])
{
    snprintf(text, RC_FINGERPRINT_SIZE, "%016llx", (unsigned long long)hash);
}

/* Shape, all labels, and the middle of every training image: replaced, added, lost or resized images show. */
static void data_fingerprint(const rc_dataset *data, char text[RC_FINGERPRINT_SIZE])
{
    enum { PIECE = 64 };
    size_t image = (size_t)data->h * (size_t)data->w * (size_t)data->c, piece = image < PIECE ? image : PIECE;
    const int shape[] = {data->h, data->w, data->c, data->classes, data->train.count, data->test.count};
    uint64_t hash = hash_bytes(hash_start, shape, sizeof shape);
    hash = hash_bytes(hash, data->train.labels, (size_t)data->train.count * sizeof *data->train.labels);
    hash = hash_bytes(hash, data->test.labels, (size_t)data->test.count * sizeof *data->test.labels);
    for (int i = 0; i < data->train.count; i++)
        hash = hash_bytes(hash, data->train.images + (size_t)i * image + (image - piece) / 2, piece);
    hash_text(hash, text);
}

rc_status rc_run_fingerprint(const rc_run_folder *folder, const char *method, const rc_task_stream *stream,
                             char text[RC_FINGERPRINT_SIZE])
{
    char *config;
    const char *data;
    size_t size;
    rc_json_writer w = {0};
    RC_TRY(rc_json_get_string(folder->identity, "data_fingerprint", &data));
    rc_json_put_value(&w, NULL, rc_json_member(folder->identity, "config"));
    RC_TRY(rc_json_finish(&w, &config, &size));
    uint64_t hash = hash_bytes(hash_start, config, size);
    rc_free(NULL, config);
    hash = hash_bytes(hash, data, strlen(data));
    hash = hash_bytes(hash, method, strlen(method));
    hash = hash_bytes(hash, stream->order, (size_t)stream->classes * sizeof *stream->order);
    hash = hash_bytes(hash, stream->task_end, (size_t)stream->tasks * sizeof *stream->task_end);
    hash_text(hash, text);
    return RC_OK;
}

/* ---- identity ------------------------------------------------------------------------------------------------- */

/* Where the data lies may change while a run is stopped: what it is is told by its fingerprint. */
static rc_status describe(const rc_run_identity *who, rc_json **json)
{
    char data[RC_FINGERPRINT_SIZE], machine[128], *text;
    const rc_backend *be = who->backend;
    size_t size;
    rc_json_writer w = {0};
    data_fingerprint(who->data, data);
    rc_machine_name(machine, sizeof machine);
    rc_json_begin_object(&w, NULL);
    rc_json_put_text(&w, "version", recollect_version());
    rc_json_put_text(&w, "commit", rc_commit);
    rc_json_put_text(&w, "command_line", who->command_line ? who->command_line : "");
    rc_json_put_int(&w, "order", who->config->order);
    rc_json_put_int(&w, "seed", (int64_t)who->config->settings.seed);
    rc_json_put_text(&w, "backend", be->name);
    rc_json_put_text(&w, "precision", be->act_bytes == 2 ? "bf16" : be->act_bytes == 4 ? "fp32" : "fp64");
    rc_json_put_text(&w, "isa", be->isa ? be->isa : "");
    rc_json_put_text(&w, "device", be->device != NULL ? be->device : machine);
    rc_json_put_int(&w, "threads", be->threads);
    rc_json_put_text(&w, "dataset", who->data->name);
    rc_json_put_text(&w, "data", who->config->data);
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
    const char *data, *data_now;
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
                           "with, or begin another one with another --out",
                           path, key, text, rc_json_string(value));
    }
    if (strcmp(data, data_now) != 0)
        return rc_fail(RC_INVALID_ARGUMENT,
                       "the data is not what the run in %s began with: other images, labels or numbers of them. Bring "
                       "the old data back (it may lie elsewhere: --data), or begin another run with another --out",
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
    return status;
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

/* ---- the folder ----------------------------------------------------------------------------------------------- */

rc_status rc_make_run_folder(const char *path)
{
    RC_TRY(rc_file_make_folder(path));
    return rc_file_remove_leftovers(path);
}

static rc_status take_lock(const char *path, const char *run, rc_run_folder *folder)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
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

/* Files that are somebody's, and that a run would replace. */
static rc_status find_others(const char *path)
{
    static const char *const names[] = {"config.yaml", "summary.json", "summary.csv", "summary.txt"};
    char file[RC_PATH_SIZE];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        RC_TRY(rc_path_in(path, names[i], file));
        if (rc_file_exists(file))
            return rc_fail(RC_INVALID_ARGUMENT,
                           "'%s' is there already, and a run would replace it: choose another --out", file);
    }
    return RC_OK;
}

rc_status rc_run_folder_is_free(const char *path)
{
    char run[RC_PATH_SIZE];
    RC_TRY(rc_path_in(path, "run.json", run));
    if (!rc_file_exists(run))
        return find_others(path);
    return rc_fail(RC_INVALID_ARGUMENT,
                   "%s holds a run already: --resume goes on with it, another --out leaves it alone", path);
}

/* Writes run.json, which nobody has written yet; or has since, then a run that is resumed is that one. */
static rc_status begin_run(const rc_run_folder *folder, const char *path, const char *run, bool resume)
{
    RC_TRY(find_others(path));
    RC_TRY(rc_file_make_folder(path));
    rc_json_writer w = {.indent = 2};
    rc_json_put_value(&w, NULL, folder->identity);
    rc_status status = rc_json_save_new(&w, run);
    if (status != RC_IO || !rc_file_exists(run))
        return status;
    return resume ? RC_OK : rc_run_folder_is_free(path);
}

static rc_status open_folder(rc_run_folder *folder, const char *path, const rc_run_identity *who, bool resume)
{
    char config[RC_PATH_SIZE], run[RC_PATH_SIZE];
    RC_TRY(rc_path_in(path, "config.yaml", config));
    RC_TRY(rc_path_in(path, "run.json", run));
    if (!resume)
        RC_TRY(rc_run_folder_is_free(path));
    RC_TRY(describe(who, &folder->identity));
    if (!rc_file_exists(run))
        RC_TRY(begin_run(folder, path, run, resume));
    RC_TRY(check_resumed(path, run, folder));
    RC_TRY(take_lock(path, run, folder)); /* after the last look into run.json: closing it would end the lock */
    RC_TRY(rc_make_run_folder(path));
    return rc_file_exists(config) ? RC_OK : write_config(who->config, config);
}

rc_status rc_run_folder_open(rc_run_folder *folder, const char *path, const rc_run_identity *identity, bool resume)
{
    *folder = (rc_run_folder){0};
    rc_status status = open_folder(folder, path, identity, resume);
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
