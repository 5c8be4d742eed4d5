#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "experiment/summary.h"
#include "report/paper.h"
#include "reproduce/reproduce.h"
#include "reproduce/shrink.h"

/* What a cell measured; NaN where it is not done. */
typedef struct measured {
    double last, mean, seconds;
} measured;

typedef struct table {
    const rc_reproduce_settings *settings;
    rc_cell_list list;
    measured *cell; /* (cells) */
    int done;
} table;

static rc_status read_cells(table *t)
{
    char hash[RC_PAPER_SETS][RC_HASH_SIZE] = {{0}};
    for (int i = 0; i < t->list.cells; i++) {
        const rc_paper_cell *cell = &t->list.cell[i];
        rc_json *json;
        bool done;
        t->cell[i] = (measured){NAN, NAN, NAN};
        RC_TRY(rc_reproduce_look(cell, t->settings->scale, t->settings->out, hash[rc_paper_set_index(cell->set)], &done,
                                 &json));
        if (done)
            t->cell[i] = (measured){rc_json_number(rc_json_member(json, "last_accuracy")),
                                    rc_json_number(rc_json_member(json, "mean_accuracy")),
                                    rc_json_number(rc_json_member(rc_json_member(json, "stage_seconds"), "total"))};
        t->done += done;
        rc_json_free(json);
    }
    return RC_OK;
}

/* ---- means over class orders ------------------------------------------------------------------------------------ */

/* A row in one number of tasks. */
typedef struct entry {
    const rc_paper_cell *cell; /* one of its cells */
    int orders;                /* that there are, done or not */
    rc_spread last, mean, seconds;
} entry;

static bool of_entry(const rc_paper_cell *a, const rc_paper_cell *b)
{
    return a->set == b->set && a->tasks == b->tasks && strcmp(a->line.name, b->line.name) == 0;
}

static entry entry_of(const table *t, const rc_paper_cell *cell)
{
    enum { MOST = 8 }; /* orders */
    double last[MOST], mean[MOST], seconds[MOST];
    entry e = {.cell = cell};
    int count = 0;
    for (int i = 0; i < t->list.cells && e.orders < MOST; i++) {
        if (!of_entry(&t->list.cell[i], cell))
            continue;
        e.orders++;
        if (isnan(t->cell[i].last))
            continue;
        last[count] = t->cell[i].last;
        mean[count] = t->cell[i].mean;
        seconds[count++] = t->cell[i].seconds;
    }
    e.last = rc_spread_of(last, count);
    e.mean = rc_spread_of(mean, count);
    e.seconds = rc_spread_of(seconds, count);
    return e;
}

/* Is cell i the first of its entry? */
static bool is_first(const table *t, int i)
{
    for (int k = 0; k < i; k++)
        if (of_entry(&t->list.cell[k], &t->list.cell[i]))
            return false;
    return true;
}

/* The paper's numbers of the entry; NULL: there are none, or the cells are shrunken. */
static const rc_paper_row *paper_of(const table *t, const rc_paper_cell *cell)
{
    return t->settings->scale < 1 ? NULL : rc_paper_find(cell->set->name, cell->tasks, cell->line.paper);
}

/* ---- text ------------------------------------------------------------------------------------------------------- */

enum { TITLE = 24, ORDERS = 7, SPREAD = 17, NUMBER = 8 };

static void trim(char *text, size_t used)
{
    while (used > 0 && text[used - 1] == ' ')
        text[--used] = '\0';
}

/* "52.46 +- 0.35" right in its column, with the sign of one character and two bytes; "-": nothing is done. */
static size_t add_spread(char *text, size_t size, size_t used, rc_spread spread)
{
    char piece[64] = "-";
    int wider = 0;
    if (spread.count > 1)
        wider = snprintf(piece, sizeof piece, "%.2f \xc2\xb1 %.2f", spread.mean, spread.deviation) > 0;
    else if (spread.count == 1)
        snprintf(piece, sizeof piece, "%.2f", spread.mean);
    return used < size ? used + (size_t)snprintf(text + used, size - used, "%*s", SPREAD + wider, piece) : used;
}

/* The paper's number and how much more or less it is here; blanks where there is none. */
static size_t add_paper(char *text, size_t size, size_t used, double paper, rc_spread ours)
{
    char number[32] = "", difference[32] = "";
    if (!isnan(paper))
        snprintf(number, sizeof number, "%.2f", paper);
    if (!isnan(paper) && ours.count > 0)
        snprintf(difference, sizeof difference, "%+.2f", ours.mean - paper);
    return used < size ? used + (size_t)snprintf(text + used, size - used, "%*s%*s", NUMBER, number, NUMBER, difference)
                       : used;
}

static void print_entry(const table *t, const rc_paper_cell *cell, rc_results_line *line, void *user)
{
    char text[256];
    const entry e = entry_of(t, cell);
    const rc_paper_row *paper = paper_of(t, cell);
    size_t used = (size_t)snprintf(text, sizeof text, "%-*s%*d/%d", TITLE, cell->line.title, ORDERS - 2, e.last.count,
                                   e.orders);
    used = add_spread(text, sizeof text, used, e.last);
    used = add_paper(text, sizeof text, used, paper != NULL ? paper->last : NAN, e.last);
    used = add_spread(text, sizeof text, used, e.mean);
    used = add_paper(text, sizeof text, used, paper != NULL ? paper->mean : NAN, e.mean);
    trim(text, used);
    line(user, text);
}

/* Rows of one set in one number of tasks, which cell i is the first of. */
static void print_block(const table *t, int i, rc_results_line *line, void *user)
{
    const rc_paper_cell *first = &t->list.cell[i];
    char head[64], text[256], last[16];
    const char *paper = t->settings->scale < 1 ? "" : "paper";
    snprintf(head, sizeof head, "%s, %d tasks", first->set->name, first->tasks);
    snprintf(last, sizeof last, "A_%d", first->stop_after > 0 ? first->stop_after : first->tasks);
    size_t used = (size_t)snprintf(text, sizeof text, "%-*s%*s%*s%*s%*s%*s%*s", TITLE, head, ORDERS, "orders", SPREAD,
                                   last, NUMBER, paper, NUMBER, "", SPREAD, "mean A", NUMBER, paper);
    trim(text, used);
    line(user, text);
    for (int k = i; k < t->list.cells; k++)
        if (t->list.cell[k].set == first->set && t->list.cell[k].tasks == first->tasks && is_first(t, k))
            print_entry(t, &t->list.cell[k], line, user);
}

/* Is cell i the first of its set and number of tasks? */
static bool begins_block(const table *t, int i)
{
    for (int k = 0; k < i; k++)
        if (t->list.cell[k].set == t->list.cell[i].set && t->list.cell[k].tasks == t->list.cell[i].tasks)
            return false;
    return true;
}

static void print(const table *t, rc_results_line *line, void *user)
{
    const rc_artefact *artefact = t->settings->artefact;
    char text[256];
    snprintf(text, sizeof text, "%s (%s): %d of %d cells are done", artefact->name, artefact->summary, t->done,
             t->list.cells);
    line(user, text);
    if (t->settings->scale < 1) {
        snprintf(text, sizeof text, "scale %g: these numbers mean nothing beside the paper's", t->settings->scale);
        line(user, text);
    }
    for (int i = 0; i < t->list.cells; i++)
        if (begins_block(t, i))
            print_block(t, i, line, user);
    line(user, "(accuracy in %; \xc2\xb1 is the deviation of a sample, divisor n - 1)");
}

/* ---- files ------------------------------------------------------------------------------------------------------ */

static size_t add_number(char *text, size_t size, size_t used, double value)
{
    if (used >= size)
        return used;
    return used + (size_t)(isnan(value) ? snprintf(text + used, size - used, ",")
                                        : snprintf(text + used, size - used, ",%.6g", value));
}

static void write_csv(const table *t, rc_file_writer *writer)
{
    char text[256];
    rc_file_writer_line(writer,
                        "dataset,tasks,row,method,orders,last,last_deviation,mean,mean_deviation,seconds,paper_last,"
                        "paper_mean");
    for (int i = 0; i < t->list.cells; i++) {
        const rc_paper_cell *cell = &t->list.cell[i];
        if (!is_first(t, i))
            continue;
        const entry e = entry_of(t, cell);
        const rc_paper_row *paper = paper_of(t, cell);
        const double value[] = {e.last.mean,
                                e.last.deviation,
                                e.mean.mean,
                                e.mean.deviation,
                                e.seconds.mean,
                                paper != NULL ? paper->last : NAN,
                                paper != NULL ? paper->mean : NAN};
        size_t used = (size_t)snprintf(text, sizeof text, "%s,%d,%s,%s,%d", cell->set->name, cell->tasks,
                                       cell->line.name, cell->line.method->name, e.last.count);
        for (size_t k = 0; k < sizeof value / sizeof *value; k++)
            used = add_number(text, sizeof text, used, value[k]);
        rc_file_writer_line(writer, text);
    }
}

static void print_text(const table *t, rc_file_writer *writer)
{
    print(t, rc_file_writer_line, writer);
}

static rc_status write_lines(const table *t, const char *path, void (*write)(const table *t, rc_file_writer *writer))
{
    rc_file_writer *writer;
    RC_TRY(rc_file_writer_open(path, &writer));
    write(t, writer);
    return rc_file_writer_commit(writer);
}

static rc_status write_json(const table *t, const char *path)
{
    rc_json_writer w = {.indent = 2};
    rc_json_begin_object(&w, NULL);
    rc_json_put_text(&w, "name", t->settings->artefact->name);
    rc_json_put_text(&w, "summary", t->settings->artefact->summary);
    rc_json_put_real(&w, "scale", t->settings->scale);
    rc_json_begin_array(&w, "cells");
    for (int i = 0; i < t->list.cells; i++) {
        const rc_paper_cell *cell = &t->list.cell[i];
        rc_json_begin_object(&w, NULL);
        rc_json_put_text(&w, "dataset", cell->set->name);
        rc_json_put_int(&w, "tasks", cell->tasks);
        rc_json_put_text(&w, "row", cell->line.name);
        rc_json_put_text(&w, "title", cell->line.title);
        rc_json_put_text(&w, "method", cell->line.method->name);
        rc_json_put_text(&w, "settings", cell->line.settings);
        rc_json_put_int(&w, "order", cell->order);
        rc_json_put_text(&w, "path", cell->path);
        rc_json_put_bool(&w, "done", !isnan(t->cell[i].last));
        rc_json_put_real(&w, "last_accuracy", t->cell[i].last);
        rc_json_put_real(&w, "mean_accuracy", t->cell[i].mean);
        rc_json_put_real(&w, "seconds", t->cell[i].seconds);
        rc_json_end(&w);
    }
    rc_json_end(&w);
    rc_json_end(&w);
    return rc_json_save(&w, path);
}

/* Path of NAME.txt and the like. */
static rc_status file_of(const rc_reproduce_settings *s, const char *ending, char path[RC_PATH_SIZE])
{
    char name[96];
    snprintf(name, sizeof name, "%s%s", s->artefact->name, ending);
    return rc_path_in(s->out, name, path);
}

static rc_status summarise(table *t)
{
    const rc_reproduce_settings *s = t->settings;
    char path[RC_PATH_SIZE];
    RC_TRY(read_cells(t));
    print(t, s->run.line, s->run.watch.user);
    RC_TRY(file_of(s, ".csv", path));
    RC_TRY(write_lines(t, path, write_csv));
    RC_TRY(file_of(s, ".txt", path));
    RC_TRY(write_lines(t, path, print_text));
    RC_TRY(file_of(s, ".json", path));
    return write_json(t, path);
}

rc_status rc_reproduce_summarise(const rc_reproduce_settings *settings)
{
    table t = {.settings = settings};
    const rc_cell_filter all = {.most_orders = rc_shrink_orders(settings->scale)};
    RC_TRY(rc_cell_list_create(settings->artefact, &all, &t.list));
    t.cell = rc_alloc_zeroed(NULL, (size_t)t.list.cells + 1, sizeof *t.cell);
    rc_status status = t.cell != NULL ? summarise(&t) : RC_OUT_OF_MEMORY;
    rc_free(NULL, t.cell);
    rc_cell_list_free(&t.list);
    return status;
}
