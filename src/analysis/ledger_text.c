/* The ledger for people and for programs. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/ledger.h"

static const struct {
    const char *key, *title;
} rows[] = {
#define RC_LEDGER_ENTRY(identifier, key, title) {key, title},
    RC_LEDGER_ROWS(RC_LEDGER_ENTRY)
#undef RC_LEDGER_ENTRY
};

const char *rc_ledger_key(int row)
{
    return rows[row].key;
}

const char *rc_ledger_title(int row)
{
    return rows[row].title;
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

static void print_accuracies(const rc_ledger *l, rc_analysis_line *line, void *user)
{
    rc_row r = {0};
    rc_row_text(&r, 0, "task classes");
    for (int row = 0; row < RC_LEDGER_COUNT; row++)
        rc_row_text(&r, 2 + (int)strlen(rows[row].title), rows[row].title);
    rc_row_end(&r, line, user);
    for (int t = 0; t < l->tasks; t++) {
        rc_row_number(&r, 4, 0, t + 1);
        rc_row_number(&r, 8, 0, l->task[t].classes);
        for (int row = 0; row < RC_LEDGER_COUNT; row++)
            rc_row_number(&r, 2 + (int)strlen(rows[row].title), 2, l->task[t].accuracy[row]);
        rc_row_end(&r, line, user);
    }
}

static void print_distances(const rc_ledger *l, rc_analysis_line *line, void *user)
{
    rc_row r = {0};
    line(user, "how far class means are from the true ones, in % of the norm of these");
    line(user, "task   stored: first task   all old   moved: first task   all old");
    for (int t = 1; t < l->tasks; t++) {
        rc_row_number(&r, 4, 0, t + 1);
        rc_row_number(&r, 21, 2, l->task[t].stored_off[0]);
        rc_row_number(&r, 10, 2, l->task[t].old_stored_off);
        rc_row_number(&r, 20, 2, l->task[t].moved_off[0]);
        rc_row_number(&r, 10, 2, l->task[t].old_moved_off);
        rc_row_end(&r, line, user);
    }
}

/* Is a task forgotten, or taken for another? */
static void print_tasks(const rc_ledger *l, rc_analysis_line *line, void *user)
{
    rc_row r = {0};
    char text[128];
    const rc_ledger_task *last = &l->task[l->tasks - 1];
    snprintf(text, sizeof text, "the trained head after task %d: %% of the images of each task", l->tasks);
    line(user, text);
    line(user, "task   right among its classes, when new     now   taken for a class of it   right");
    for (int t = 0; t < l->tasks; t++) {
        rc_row_number(&r, 4, 0, t + 1);
        rc_row_number(&r, 36, 2, l->task[t].among[t]);
        rc_row_number(&r, 8, 2, last->among[t]);
        rc_row_number(&r, 26, 2, last->told[t]);
        rc_row_number(&r, 8, 2, last->by_task[t][RC_LEDGER_HEAD]);
        rc_row_end(&r, line, user);
    }
}

/* What a step of the ledger costs; nothing where a number is missing. */
static void print_step(const rc_ledger_task *last, rc_ledger_row high, rc_ledger_row low, const char *what,
                       rc_analysis_line *line, void *user)
{
    char text[256];
    double lost = last->accuracy[high] - last->accuracy[low];
    if (isnan(lost))
        return;
    snprintf(text, sizeof text, "%7.2f  %s less %s: %s", lost, rows[high].title, rows[low].title, what);
    line(user, text);
}

void rc_ledger_print(const rc_ledger *l, rc_analysis_line *line, void *user)
{
    char text[256];
    snprintf(text, sizeof text, "%s: accuracy in %% over all classes so far, by classifiers on the same features",
             l->method->title);
    line(user, text);
    print_accuracies(l, line, user);
    if (l->tasks > 1) {
        print_tasks(l, line, user);
        print_distances(l, line, user);
    }
    const rc_ledger_task *last = &l->task[l->tasks - 1];
    snprintf(text, sizeof text, "points lost after task %d:", l->tasks);
    line(user, text);
    print_step(last, RC_LEDGER_JOINT, RC_LEDGER_PROBE, "in the features", line, user);
    print_step(last, RC_LEDGER_PROBE, RC_LEDGER_HEAD, "in the head", line, user);
    print_step(last, RC_LEDGER_TRUE, RC_LEDGER_STORED, "because stored statistics are out of date", line, user);
    print_step(last, RC_LEDGER_MOVED, RC_LEDGER_STORED, "that moving the statistics brings back", line, user);
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

static void put_array(rc_json_writer *w, const char *key, const double *numbers, int count)
{
    rc_json_begin_array(w, key);
    for (int i = 0; i < count; i++)
        rc_json_put_real(w, NULL, numbers[i]);
    rc_json_end(w);
}

void rc_ledger_put(const rc_ledger *l, rc_json_writer *w)
{
    rc_json_put_text(w, "method", l->method->name);
    rc_json_begin_array(w, "tasks");
    for (int t = 0; t < l->tasks; t++) {
        const rc_ledger_task *task = &l->task[t];
        rc_json_begin_object(w, NULL);
        rc_json_put_int(w, "task", t + 1);
        rc_json_put_int(w, "classes", task->classes);
        rc_json_begin_object(w, "accuracy");
        for (int row = 0; row < RC_LEDGER_COUNT; row++)
            rc_json_put_real(w, rows[row].key, task->accuracy[row]);
        rc_json_end(w);
        rc_json_begin_object(w, "by_task");
        for (int row = 0; row < RC_LEDGER_JOINT; row++) {
            rc_json_begin_array(w, rows[row].key);
            for (int i = 0; i <= t; i++)
                rc_json_put_real(w, NULL, task->by_task[i][row]);
            rc_json_end(w);
        }
        rc_json_end(w);
        put_array(w, "among", task->among, t + 1);
        put_array(w, "told", task->told, t + 1);
        put_array(w, "stored_off", task->stored_off, t + 1);
        put_array(w, "moved_off", task->moved_off, t + 1);
        rc_json_put_real(w, "old_stored_off", task->old_stored_off);
        rc_json_put_real(w, "old_moved_off", task->old_moved_off);
        rc_json_end(w);
    }
    rc_json_end(w);
}
