/* The folder that a run works in: which run it belongs to, and that no other process works in it.
 *
 * run.json says what decides the bits of the run: configuration, data, version, command line, machine. A user who
 * resumes a run with other settings or other data gets a message, instead of half of each. While a process works in
 * the folder it holds a lock on that file. The lock ends with the process, however that ends. */
#ifndef RC_EXPERIMENT_RUN_FOLDER_H
#define RC_EXPERIMENT_RUN_FOLDER_H

#include "backend/backend.h"
#include "base/file.h"
#include "config/config.h"
#include "model/fingerprint.h"

/* Makes a folder that we write into, unless it is there, and removes what killed processes left in it. */
rc_status rc_make_run_folder(const char *path);

typedef struct rc_run_folder {
    rc_json *identity; /* as in run.json */
    int lock;          /* an open file; 0: none */
} rc_run_folder;

typedef struct rc_run_identity {
    const rc_config *config;
    const rc_dataset *data;
    uint64_t data_seed; /* with which the data was read: of several seeds, that of none or of one */
    const rc_backend *backend;
    const char *command_line;
} rc_run_identity;

/* RC_INVALID_ARGUMENT: it holds a run already, or files that a run would replace. */
rc_status rc_run_folder_is_free(const char *path);
/* Makes the folder and describes the run in it, or, to resume, checks that it is this one. Of several processes that do
 * so at once, one gets the folder; `shared`: all that say so. */
rc_status rc_run_folder_open(rc_run_folder *folder, const char *path, const rc_run_identity *identity, bool resume,
                             bool shared);
/* Only reads run.json, of which it keeps the identity. *alike: it is there, and but for order and seed it is of the
 * settings and the data of another identity. Takes no lock. */
rc_status rc_run_folder_look(rc_run_folder *folder, const char *path, const rc_json *like, bool *alike);
void rc_run_folder_close(rc_run_folder *folder); /* a zeroed one is fine */

/* What a run wrote for a setting into its files (run.json, the member `run` of results.json), as this version says it;
 * NULL: nothing. Where the method's own value counts today, earlier versions wrote the number that others have. */
const char *rc_run_setting(const rc_json *run, const char *method, const char *key);

#endif
