/* Runs the cells of a table or figure in one folder, skips those that are there, and gathers what they measured:
 *
 *   OUT/reproduce.json                       the scale: whole and shrunken results never share a folder
 *   OUT/cifar100-5/order-0/                  a run, as experiment.h describes it: OUT/SET-TASKS[-SETTINGS]/order-N
 *   OUT/cifar100-5/order-0/cwd/results.json  a cell that is done; this one file is enough
 *   OUT/NAME.txt, NAME.csv, NAME.json        the table, from all cells of NAME that are there
 *
 * Names share the folder, and so the cells that they have in common. Several machines may fill it at once, each with a
 * shard of its own, or fill folders of their own that are merged later. */
#ifndef RC_REPRODUCE_REPRODUCE_H
#define RC_REPRODUCE_REPRODUCE_H

#include "base/json.h"
#include "model/fingerprint.h"
#include "reproduce/artefact.h"

typedef struct rc_reproduce_settings {
    const rc_artefact *artefact;
    rc_cell_filter filter;
    double scale;                    /* 1: whole; below: see shrink.h */
    const char *data[RC_PAPER_SETS]; /* where each set lies; NULL: its cells are left out */
    const char *out;
    rc_run_settings run; /* backend, threads, jobs, watch, line and so on; what is run is set here */
} rc_reproduce_settings;

/* RC_INVALID_ARGUMENT: the scale is none, or the folder holds results of another. */
rc_status rc_reproduce_check(const rc_reproduce_settings *settings);

/* Runs what is not done. A run that fails does not end the others: the log has its message. RC_CANCELLED: stopped after
 * saving. */
typedef struct rc_reproduced {
    int left_out; /* cells whose data was not given */
    int failed;   /* runs */
    bool begun;   /* false: nothing was left to run, or a failure came before it, which leaves no file behind */
} rc_reproduced;
rc_status rc_reproduce_run(const rc_reproduce_settings *settings, rc_reproduced *ended);

/* Copies the cells of another such folder, or of one of copies (rc_reproduce_find), that are done and not here yet. A
 * cell of other settings, data, tasks or orders is not copied; the log says what differs. */
typedef struct rc_merged {
    int copied, there, foreign; /* cells: copied, here already, not of this table */
} rc_merged;
rc_status rc_reproduce_merge(const rc_reproduce_settings *settings, const char *folder, rc_merged *merged);

/* The table of all cells of the artefact that are in the folder, whatever the filter says: prints it and writes
 * NAME.txt, NAME.csv and NAME.json. */
rc_status rc_reproduce_summarise(const rc_reproduce_settings *settings);

enum { RC_RESULTS_BYTES = 64 << 20 }; /* of a results.json, at most */

/* The file with the results of the cell in a folder: where a run leaves it, or a copy of it by the name that
 * bench/results.py gives it, "cifar100-5-cwd-order-0.json". */
rc_status rc_reproduce_find(const rc_paper_cell *cell, const char *folder, char path[RC_PATH_SIZE], bool *found);

/* The cell below `folder`: is it done? data_hash: of its set's data; "": not known, and set to that of the cell.
 * *json: its results, which the caller frees; NULL where there are none. A file there that belongs to something else is
 * an error that says what differs. json may be NULL. */
rc_status rc_reproduce_look(const rc_paper_cell *cell, double scale, const char *folder, char data_hash[RC_HASH_SIZE],
                            bool *done, rc_json **json);

#endif
