/* The log of a run, as 'recollect watch' and a run that goes on read it: whatever is in it, what is kept of it is in
 * its bounds, and tables can be made of it. */
#include "fuzz/mutate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "experiment/log_tables.h"
#include "experiment/overview.h"

static char folder[] = "/tmp/recollect-fuzz-XXXXXX", log_path[64];

static void leave(void)
{
    static const char *const names[] = {"events.jsonl", "scalars.csv", "events.out.tfevents.1.recollect"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[RC_PATH_SIZE];
        if (rc_path_in(folder, names[i], path) == RC_OK)
            unlink(path);
    }
    rmdir(folder);
}

static void enter(void)
{
    if (log_path[0] != '\0')
        return;
    FUZZ_EXPECT(mkdtemp(folder) != NULL);
    snprintf(log_path, sizeof log_path, "%s/events.jsonl", folder);
    atexit(leave);
}

static void expect_bounds(const rc_seen_cell *c)
{
    FUZZ_EXPECT(c->tasks >= 0 && c->tasks <= RC_MAX_TASKS && c->done >= 0 && c->done <= RC_MAX_TASKS);
    FUZZ_EXPECT(c->losses >= 0 && c->losses <= RC_LOSS_COUNT && c->step >= 0 && c->step <= c->steps);
    FUZZ_EXPECT(memchr(c->name, '\0', sizeof c->name) != NULL && memchr(c->message, '\0', sizeof c->message) != NULL);
    FUZZ_EXPECT(memchr(c->stage, '\0', sizeof c->stage) != NULL && memchr(c->end, '\0', sizeof c->end) != NULL);
    for (int i = 0; i < RC_CELL_CURVES; i++) {
        const rc_loss_curve *curve = &c->curve[i];
        FUZZ_EXPECT(curve->points >= 0 && curve->points <= RC_CURVE_POINTS);
        for (int k = 1; k < curve->points; k++)
            FUZZ_EXPECT(curve->step[k] > curve->step[k - 1]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    rc_overview o;
    rc_log_tables tables;
    enter();
    FILE *file = fopen(log_path, "wb");
    if (file == NULL)
        return 0;
    bool whole = fwrite(data, 1, size, file) == size;
    if (fclose(file) != 0 || !whole)
        return 0;
    FUZZ_EXPECT(rc_overview_open(&o, folder) == RC_OK && rc_overview_update(&o) == RC_OK && o.cells == 1);
    expect_bounds(o.cell[0]);
    rc_overview_close(&o);
    FUZZ_EXPECT(rc_log_tables_open(&tables, folder, log_path, 1) == RC_OK);
    rc_log_tables_close(&tables);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t limit, unsigned seed)
{
    fuzz_input in = fuzz_input_of(data, size, limit, seed);
    if (fuzz_one_in(&in, 8)) { /* lines of it again */
        const uint8_t *end = size > 0 ? memchr(data, '\n', size) : NULL;
        fuzz_copy(&in, 0, end != NULL ? (size_t)(end - data) + 1 : size, size);
    } else {
        fuzz_mutate_json(&in, 0, in.size);
    }
    return in.size;
}
