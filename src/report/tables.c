#include "report/tables.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"

enum { MOST_CLASSES = 2000 }; /* more are no table for people; classes.csv of the run has them */

/* "cifar100, 5 tasks: what". */
static void begin(rc_table *table, const char *name, const rc_report_set *set, const char *what, bool csv)
{
    char caption[300];
    snprintf(caption, sizeof caption, "%.150s, %d task%s: %s", set->dataset, set->tasks, set->tasks == 1 ? "" : "s",
             what);
    rc_table_begin(table, name, caption);
    if (csv) {
        rc_table_column_add(table, "data set", "dataset", RC_COLUMN_TEXT);
        rc_table_column_add(table, "tasks", "tasks", RC_COLUMN_COUNT);
    }
}

#define ADD_COLUMNS(table, columns) rc_table_columns_add(table, columns, (int)(sizeof(columns) / sizeof *(columns)))

static void lead(rc_table *table, const rc_report_set *set, bool csv)
{
    if (csv) {
        rc_table_text(table, set->dataset);
        rc_table_number(table, set->tasks);
    }
}

static void put_spread(rc_table *table, rc_spread spread)
{
    rc_table_spread(table, spread.mean, spread.deviation);
}

void rc_report_state(const rc_report_set *set, const rc_report_variant *v, char *text, size_t size)
{
    int furthest = 0;
    for (int i = 0; i < v->runs; i++)
        furthest = v->run[i]->results.done > furthest ? v->run[i]->results.done : furthest;
    if (v->done == v->runs)
        snprintf(text, size, "%d run%s", v->runs, v->runs == 1 ? "" : "s");
    else if (v->done > 0)
        snprintf(text, size, "%d of %d runs done", v->done, v->runs);
    else
        snprintf(text, size, "%d of %d tasks done", furthest, set->tasks);
}

/* "0, 1, 2": the class orders of the runs, each once, as they come. */
static void list_orders(const rc_report_variant *v, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < v->runs && used + 1 < size; i++) {
        bool known = false;
        for (int k = 0; k < i && !known; k++)
            known = v->run[k]->order == v->run[i]->order;
        if (!known)
            used += (size_t)snprintf(text + used, size - used, "%s%d", used > 0 ? ", " : "", v->run[i]->order);
    }
}

static void begin_row(rc_table *table, const rc_report_set *set, const rc_report_variant *v, bool csv)
{
    lead(table, set, csv);
    rc_table_mark(table, v->colour);
    rc_table_text(table, v->label);
}

/* ---- accuracy ---------------------------------------------------------------------------------------------------- */

static void make_accuracy(const rc_report_set *set, bool csv, rc_table *table)
{
    static const rc_table_head columns[] = {{"method", "method", RC_COLUMN_TEXT},
                                            {"last task", "last", RC_COLUMN_PERCENT},
                                            {"mean over tasks", "mean", RC_COLUMN_PERCENT},
                                            {"forgets", "forgetting", RC_COLUMN_SPREAD},
                                            {"old classes", "old_classes", RC_COLUMN_SPREAD},
                                            {"new classes", "new_classes", RC_COLUMN_SPREAD},
                                            {"keeps", "keeps", RC_COLUMN_TEXT},
                                            {"time", "seconds", RC_COLUMN_SECONDS},
                                            {"runs", "runs", RC_COLUMN_TEXT},
                                            {"orders", "orders", RC_COLUMN_TEXT}};
    char text[128];
    begin(table, "accuracy", set, "accuracy in percent, forgetting in points; mean ± deviation over runs", csv);
    ADD_COLUMNS(table, columns);
    for (int i = 0; i < set->variants; i++) {
        const rc_report_variant *v = &set->variant[i];
        begin_row(table, set, v, csv);
        put_spread(table, v->last);
        put_spread(table, v->mean);
        put_spread(table, v->forgetting);
        put_spread(table, v->old_classes);
        put_spread(table, v->new_classes);
        rc_stored_text(&v->stored, text, sizeof text);
        rc_table_text(table, text);
        rc_table_number(table, v->seconds[RC_REPORT_SECONDS - 1].mean);
        rc_report_state(set, v, text, sizeof text);
        rc_table_text(table, text);
        list_orders(v, text, sizeof text);
        rc_table_text(table, text);
    }
}

static void make_tasks(const rc_report_set *set, bool csv, rc_table *table)
{
    char head[32], key[32];
    begin(table, "tasks", set, "accuracy after each task, in percent", csv);
    rc_table_column_add(table, "method", "method", RC_COLUMN_TEXT);
    for (int task = 0; task < set->tasks; task++) {
        snprintf(head, sizeof head, "A%d", task + 1);
        snprintf(key, sizeof key, "task_%d", task + 1);
        rc_table_column_add(table, head, key, RC_COLUMN_SPREAD);
    }
    for (int i = 0; i < set->variants; i++) {
        begin_row(table, set, &set->variant[i], csv);
        for (int task = 0; task < set->tasks; task++)
            put_spread(table, set->variant[i].accuracy[task]);
    }
}

/* ---- the paper --------------------------------------------------------------------------------------------------- */

static void put_beside(rc_table *table, rc_spread ours, double paper, double deviation)
{
    put_spread(table, ours);
    rc_table_spread(table, paper, deviation);
    rc_table_number(table, ours.mean - paper);
}

static const rc_report_variant *variant_of(const rc_report_set *set, const rc_paper_row *row)
{
    for (int i = 0; i < set->variants; i++)
        if (set->variant[i].paper == row)
            return &set->variant[i];
    return NULL;
}

static void make_paper(const rc_report_set *set, bool csv, rc_table *table)
{
    static const rc_table_head columns[] = {{"method", "method", RC_COLUMN_TEXT},
                                            {"last", "last", RC_COLUMN_SPREAD},
                                            {"paper", "paper_last", RC_COLUMN_SPREAD},
                                            {"difference", "last_difference", RC_COLUMN_DIFFERENCE},
                                            {"mean over tasks", "mean", RC_COLUMN_SPREAD},
                                            {"paper", "paper_mean", RC_COLUMN_SPREAD},
                                            {"difference", "mean_difference", RC_COLUMN_DIFFERENCE},
                                            {"runs", "runs", RC_COLUMN_COUNT}};
    static const rc_spread none = {.mean = NAN, .deviation = NAN};
    begin(table, "paper", set, "beside the paper's figures, in percent and points", csv);
    ADD_COLUMNS(table, columns);
    for (const rc_paper_row *row = rc_paper; row->dataset != NULL; row++) {
        if (row->tasks != set->tasks || strcmp(row->dataset, set->dataset) != 0)
            continue;
        if (variant_of(set, row) == NULL) { /* the paper's alone: its row shows what is missing */
            lead(table, set, csv);
            rc_table_text(table, rc_paper_title(row));
            put_beside(table, none, row->last, row->last_deviation);
            put_beside(table, none, row->mean, row->mean_deviation);
            rc_table_number(table, 0);
        }
        for (int i = 0; i < set->variants; i++) {
            const rc_report_variant *v = &set->variant[i];
            if (v->paper != row)
                continue;
            begin_row(table, set, v, csv);
            put_beside(table, v->last, row->last, row->last_deviation);
            put_beside(table, v->mean, row->mean, row->mean_deviation);
            rc_table_number(table, v->done);
        }
    }
}

void rc_report_coverage(const rc_report_set *set, int *printed, int *measured)
{
    *printed = *measured = 0;
    for (const rc_paper_row *row = rc_paper; row->dataset != NULL; row++) {
        if (row->tasks != set->tasks || strcmp(row->dataset, set->dataset) != 0)
            continue;
        int numbers = !isnan(row->last) + !isnan(row->mean);
        const rc_report_variant *v = variant_of(set, row);
        *printed += numbers;
        *measured += v != NULL && v->done > 0 ? numbers : 0;
    }
}

/* ---- the ledger -------------------------------------------------------------------------------------------------- */

static void make_ledger(const rc_report_set *set, bool csv, rc_table *table)
{
    begin(table, "ledger", set, "the ledger, other classifiers on the same features after the last task, in percent",
          csv);
    rc_table_column_add(table, "method", "method", RC_COLUMN_TEXT);
    for (int i = 0; i < RC_LEDGER_COUNT; i++)
        rc_table_column_add(table, rc_ledger_title(i), rc_ledger_key(i), RC_COLUMN_PERCENT);
    for (int k = 0; k < set->variants; k++) {
        const rc_report_variant *v = &set->variant[k];
        if (v->ledger == NULL)
            continue;
        begin_row(table, set, v, csv);
        for (int i = 0; i < RC_LEDGER_COUNT; i++)
            put_spread(table, v->ledger[(set->tasks - 1) * RC_LEDGER_COUNT + i]);
    }
}

/* ---- dreams and real images -------------------------------------------------------------------------------------- */

/* The paper's model has 50 classes of CIFAR-100. */
static const rc_paper_dkl_row *paper_dkl_of(const rc_report_run *run, const char *losses)
{
    return strcmp(run->dataset, "cifar100") == 0 && run->dkl_classes == 50 ? rc_paper_dkl_find(losses) : NULL;
}

static void make_dkl(const rc_report_set *set, bool csv, rc_table *table)
{
    static const char *const samples_title[RC_SAMPLES_COUNT] = {"drawn", "real features"};
    char head[64], key[64];
    begin(
        table, "dkl", set,
        "how far dreams are from real images, D_KL of their features \xC2\xB1 standard error in one run of each method",
        csv);
    rc_table_column_add(table, "method", "method", RC_COLUMN_TEXT);
    rc_table_column_add(table, "classes", "classes", RC_COLUMN_COUNT);
    rc_table_column_add(table, "losses of the inversion", "losses", RC_COLUMN_TEXT);
    for (int at = 0; at < RC_SAMPLES_COUNT; at++)
        for (int density = 0; density < RC_DENSITY_COUNT; density++) {
            snprintf(head, sizeof head, "%s: %s", samples_title[at], rc_density_title(density));
            snprintf(key, sizeof key, "%s_%s", rc_samples_key(at), rc_density_key(density));
            rc_table_column_add(table, head, key, RC_COLUMN_SPREAD);
        }
    rc_table_column_add(table, "paper: Gaussian", "paper_gaussian", RC_COLUMN_NUMBER);
    rc_table_column_add(table, "paper: KDE", "paper_kde", RC_COLUMN_NUMBER);
    for (int k = 0; k < set->variants; k++) {
        const rc_report_run *run = set->variant[k].dreams;
        const double *dkl = run != NULL ? run->dkl : NULL;
        for (int i = 0; i < RC_COMBINATIONS && run != NULL; i++) {
            const rc_paper_dkl_row *paper = paper_dkl_of(run, rc_combination_title(i));
            begin_row(table, set, &set->variant[k], csv);
            rc_table_number(table, run->dkl_classes > 0 ? run->dkl_classes : NAN);
            rc_table_text(table, rc_combination_title(i));
            for (int n = 0; n < RC_SAMPLES_COUNT * RC_DENSITY_COUNT; n++, dkl += 2)
                rc_table_spread(table, dkl[0], dkl[1]);
            rc_table_number(table, paper != NULL ? paper->gaussian : NAN);
            rc_table_number(table, paper != NULL ? paper->kde : NAN);
        }
    }
}

/* ---- cost -------------------------------------------------------------------------------------------------------- */

static void make_cost(const rc_report_set *set, bool csv, rc_table *table)
{
    begin(table, "cost", set, "time of the stages as a multiple of all that ER takes", csv);
    rc_table_column_add(table, "method", "method", RC_COLUMN_TEXT);
    for (int i = 0; i < RC_STAGE_COUNT; i++)
        rc_table_column_add(table, rc_stage_name((rc_stage)i), rc_stage_name((rc_stage)i), RC_COLUMN_SPREAD);
    rc_table_column_add(table, "all", "all", RC_COLUMN_SPREAD);
    rc_table_column_add(table, "paper", "paper", RC_COLUMN_NUMBER);
    rc_table_column_add(table, "by the formulas", "formula", RC_COLUMN_NUMBER);
    for (int k = 0; k < set->variants; k++) {
        const rc_report_variant *v = &set->variant[k];
        if (v->cost == NULL)
            continue;
        begin_row(table, set, v, csv);
        for (int i = 0; i < RC_COST_COLUMNS; i++)
            put_spread(table, v->cost[RC_COST_MEASURED * RC_COST_COLUMNS + i]);
        rc_table_number(table, rc_paper_cost_find(set->dataset, set->tasks, v->name));
        rc_table_number(table, v->cost[RC_COST_FORMULA * RC_COST_COLUMNS + RC_STAGE_COUNT].mean);
    }
}

/* ---- time -------------------------------------------------------------------------------------------------------- */

static void make_time(const rc_report_set *set, bool csv, rc_table *table)
{
    begin(table, "time", set, "time of a run by stage", csv);
    rc_table_column_add(table, "method", "method", RC_COLUMN_TEXT);
    for (int i = 0; i < RC_STAGE_COUNT; i++)
        rc_table_column_add(table, rc_stage_name((rc_stage)i), rc_stage_name((rc_stage)i), RC_COLUMN_SECONDS);
    rc_table_column_add(table, "evaluation", "evaluation", RC_COLUMN_SECONDS);
    rc_table_column_add(table, "all", "total", RC_COLUMN_SECONDS);
    for (int i = 0; i < set->variants; i++) {
        if (set->variant[i].done == 0)
            continue;
        begin_row(table, set, &set->variant[i], csv);
        for (int k = 0; k < RC_REPORT_SECONDS; k++)
            rc_table_number(table, set->variant[i].seconds[k].mean);
    }
}

/* ---- classes ----------------------------------------------------------------------------------------------------- */

/* Where the run has the class; -1: nowhere. */
static int find_class(const rc_report_run *run, const char *name, int likely)
{
    if (run->class_name == NULL)
        return -1;
    if (likely < run->results.classes && strcmp(run->class_name[likely], name) == 0)
        return likely;
    for (int k = 0; k < run->results.classes; k++)
        if (strcmp(run->class_name[k], name) == 0)
            return k;
    return -1;
}

/* Over the runs of the variant that are done. values: room for all of them. */
static rc_spread class_accuracy(const rc_report_variant *v, const char *name, int likely, double *values)
{
    int count = 0;
    for (int i = 0; i < v->runs; i++) {
        int k = rc_report_run_done(v->run[i]) ? find_class(v->run[i], name, likely) : -1;
        if (k >= 0 && !isnan(v->run[i]->results.class_accuracy[k]))
            values[count++] = v->run[i]->results.class_accuracy[k];
    }
    return rc_spread_of(values, count);
}

/* Counted from 1. */
static int task_of(const rc_report_run *run, int label)
{
    int task = 0;
    while (label >= run->results.task_end[task])
        task++;
    return task + 1;
}

/* The task in which the runs that are done learnt the class; NaN: not in the same one, as in several orders. */
static double task_of_class(const rc_report_set *set, const char *name, int likely)
{
    double task = NAN;
    for (int i = 0; i < set->variants; i++)
        for (int r = 0; r < set->variant[i].runs; r++) {
            const rc_report_run *run = set->variant[i].run[r];
            int k = rc_report_run_done(run) ? find_class(run, name, likely) : -1;
            if (k >= 0 && !isnan(task) && task != task_of(run, k))
                return NAN;
            task = k >= 0 ? task_of(run, k) : task;
        }
    return task;
}

static bool has_classes(const rc_report_variant *v)
{
    for (int i = 0; i < v->runs; i++)
        if (rc_report_run_done(v->run[i]) && v->run[i]->class_name != NULL)
            return true;
    return false;
}

static void make_classes(const rc_report_set *set, bool csv, rc_table *table)
{
    const rc_report_run *first = NULL; /* whose order of classes the rows have */
    begin(table, "classes", set, "accuracy of each class after the last task, in percent", csv);
    rc_table_column_add(table, "class", "class", RC_COLUMN_TEXT);
    rc_table_column_add(table, "task", "task", RC_COLUMN_COUNT);
    for (int i = 0; i < set->variants; i++) {
        if (!has_classes(&set->variant[i]))
            continue;
        rc_table_column_add(table, set->variant[i].label, set->variant[i].label, RC_COLUMN_PERCENT);
        for (int k = 0; k < set->variant[i].runs && first == NULL; k++)
            if (rc_report_run_done(set->variant[i].run[k]) && set->variant[i].run[k]->class_name != NULL)
                first = set->variant[i].run[k];
    }
    double *values = rc_alloc_zeroed(NULL, (size_t)set->runs, sizeof *values);
    if (values == NULL)
        table->texts.status = RC_OUT_OF_MEMORY;
    int classes = values != NULL && first != NULL && first->results.classes <= MOST_CLASSES ? first->results.classes
                                                                                            : 0;
    for (int k = 0; k < classes; k++) {
        lead(table, set, csv);
        rc_table_text(table, first->class_name[k]);
        rc_table_number(table, task_of_class(set, first->class_name[k], k));
        for (int i = 0; i < set->variants; i++)
            if (has_classes(&set->variant[i]))
                put_spread(table, class_accuracy(&set->variant[i], first->class_name[k], k, values));
    }
    rc_free(NULL, values);
}

/* The next of the cells beside the diagonal, by count, then by place; -1: there are no more. */
static int64_t next_confused(const rc_report_run *run, int64_t before)
{
    int64_t classes = run->results.classes, best = -1;
    const int32_t *count = run->confusion;
    for (int64_t i = 0; i < classes * classes; i++) {
        bool beside = i / classes != i % classes && count[i] > 0;
        bool after = before < 0 || count[i] < count[before] || (count[i] == count[before] && i > before);
        if (beside && after && (best < 0 || count[i] > count[best]))
            best = i;
    }
    return best;
}

static void make_confused(const rc_report_set *set, bool csv, rc_table *table)
{
    static const rc_table_head columns[] = {{"method", "method", RC_COLUMN_TEXT},
                                            {"class", "class", RC_COLUMN_TEXT},
                                            {"is taken for", "taken_for", RC_COLUMN_TEXT},
                                            {"images", "images", RC_COLUMN_COUNT},
                                            {"percent of the class", "percent", RC_COLUMN_NUMBER}};
    enum { SHOWN = 8 };
    begin(table, "confused", set, "what is taken for what most often, in one run of each method", csv);
    ADD_COLUMNS(table, columns);
    for (int i = 0; i < set->variants; i++) {
        const rc_report_run *run = set->variant[i].shown;
        int64_t classes = run->results.classes, cell = -1;
        if (run->confusion == NULL || run->class_name == NULL)
            continue;
        for (int shown = 0; shown < SHOWN && (cell = next_confused(run, cell)) >= 0; shown++) {
            double images = 0;
            for (int64_t k = 0; k < classes; k++)
                images += run->confusion[cell / classes * classes + k];
            begin_row(table, set, &set->variant[i], csv);
            rc_table_text(table, run->class_name[cell / classes]);
            rc_table_text(table, run->class_name[cell % classes]);
            rc_table_number(table, run->confusion[cell]);
            rc_table_number(table, 100.0 * run->confusion[cell] / images);
        }
    }
}

/* ---- runs and settings ------------------------------------------------------------------------------------------- */

/* "0.1.0 abc, def": of the program that began the run, and of those that went on with it. */
static void put_version(rc_table *table, const rc_report_run *run)
{
    char text[256];
    const char *commit = rc_report_run_text(run, "commit");
    size_t used = (size_t)snprintf(text, sizeof text, "%.40s%s%.60s", rc_report_run_text(run, "version"),
                                   commit[0] != '\0' ? " " : "", commit);
    for (int i = 0; i < run->results.done && used < sizeof text; i++) {
        const char *later = run->results.task[i].commit; /* "": results of earlier versions do not say it */
        if (later[0] != '\0' && strcmp(later, commit) != 0) {
            used += (size_t)snprintf(text + used, sizeof text - used, ", %s", later);
            commit = later;
        }
    }
    rc_table_text(table, text);
}

static void make_runs(const rc_report_set *set, bool csv, rc_table *table)
{
    static const rc_table_head columns[] = {
        {"method", "method", RC_COLUMN_TEXT},   {"order", "order", RC_COLUMN_COUNT},
        {"seed", "seed", RC_COLUMN_COUNT},      {"tasks done", "tasks_done", RC_COLUMN_COUNT},
        {"last", "last", RC_COLUMN_NUMBER},     {"mean", "mean", RC_COLUMN_NUMBER},
        {"time", "seconds", RC_COLUMN_SECONDS}, {"on", "machine", RC_COLUMN_TEXT},
        {"version", "version", RC_COLUMN_TEXT}, {"file", "file", RC_COLUMN_TEXT}};
    char text[256];
    begin(table, "runs", set, "every run", csv);
    ADD_COLUMNS(table, columns);
    for (int i = 0; i < set->variants; i++)
        for (int k = 0; k < set->variant[i].runs; k++) {
            const rc_report_run *run = set->variant[i].run[k];
            const rc_results *r = &run->results;
            double seconds[RC_REPORT_SECONDS];
            rc_results_seconds(r, r->done, seconds);
            begin_row(table, set, &set->variant[i], csv);
            rc_table_number(table, run->order);
            rc_table_number(table, (double)run->seed);
            rc_table_number(table, r->done);
            rc_table_number(table, r->done > 0 ? r->task[r->done - 1].accuracy : NAN);
            rc_table_number(table, rc_results_mean(r));
            rc_table_number(table, seconds[RC_REPORT_SECONDS - 1]);
            snprintf(text, sizeof text, "%.80s, %.20s %.20s", rc_report_run_text(run, "device"),
                     rc_report_run_text(run, "backend"), rc_report_run_text(run, "precision"));
            rc_table_text(table, text);
            put_version(table, run);
            rc_table_text(table, run->path);
        }
}

/* The values of a setting over all runs, each once: "0.1", "0.1 / 0.2". */
static void list_values(const rc_report_set *set, const char *key, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < set->variants; i++)
        for (int k = 0; k < set->variant[i].runs && used + 1 < size; k++) {
            const rc_json *config = rc_json_member(set->variant[i].run[k]->identity, "config");
            const char *value = rc_json_string(rc_json_member(config, key));
            char marked[300], all[1400];
            if (value == NULL)
                continue;
            snprintf(marked, sizeof marked, " / %.290s / ", value);
            snprintf(all, sizeof all, " / %s / ", text);
            if (used == 0 || strstr(all, marked) == NULL)
                used += (size_t)snprintf(text + used, size - used, "%s%.290s", used > 0 ? " / " : "", value);
        }
}

static void make_settings(const rc_report_set *set, bool csv, rc_table *table)
{
    static const rc_table_head columns[] = {{"setting", "setting", RC_COLUMN_TEXT},
                                            {"value", "value", RC_COLUMN_TEXT},
                                            {"default", "default", RC_COLUMN_TEXT},
                                            {"what it is", "help", RC_COLUMN_TEXT}};
    char values[1024];
    begin(table, "settings", set, "settings that are not the program's defaults", csv);
    ADD_COLUMNS(table, columns);
    recollect_setting setting = {.size = sizeof setting};
    for (int i = 0; recollect_setting_at(i, &setting); i++) {
        list_values(set, setting.name, values, sizeof values);
        if (values[0] == '\0' || strcmp(values, setting.initial) == 0)
            continue;
        lead(table, set, csv);
        rc_table_text(table, setting.name);
        rc_table_text(table, values);
        rc_table_text(table, setting.initial);
        rc_table_text(table, setting.help);
    }
}

/* ---- the list ---------------------------------------------------------------------------------------------------- */

#define ROW(table) {#table, make_##table},
static const rc_report_table tables[] = {RC_REPORT_TABLES(ROW, ROW)};
#undef ROW

const rc_report_table *rc_report_table_at(int index)
{
    return index >= 0 && index < (int)(sizeof tables / sizeof *tables) ? &tables[index] : NULL;
}

const rc_report_table *rc_report_table_find(const char *name)
{
    const rc_report_table *table;
    for (int i = 0; (table = rc_report_table_at(i)) != NULL; i++)
        if (strcmp(table->name, name) == 0)
            return table;
    return NULL;
}
