#include "report/set.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "config/config.h"
#include "experiment/run_folder.h"

/* ---- which runs belong together ---------------------------------------------------------------------------------- */

/* Settings in which runs of one variant may differ: what varies over them, and what changes no number. */
static bool may_differ(const char *setting)
{
    static const char *const names[] = {"order", "seed", "data", "test_batch"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(setting, names[i]) == 0)
            return true;
    return false;
}

/* NULL: the run does not say its settings, or in a list, where they have no names. */
static const rc_json *config_of(const rc_report_run *run)
{
    const rc_json *config = rc_json_member(run->identity, "config");
    return rc_json_is(config, RC_JSON_OBJECT) ? config : NULL;
}

/* Do both runs have the setting, with different values? (Earlier versions had fewer.) */
static bool differ_in(const char *setting, const rc_report_run *a, const rc_report_run *b)
{
    const char *here = rc_run_setting(a->identity, a->method, setting);
    const char *there = rc_run_setting(b->identity, b->method, setting);
    return !may_differ(setting) && here != NULL && there != NULL && strcmp(here, there) != 0;
}

static bool same_settings(const rc_report_run *a, const rc_report_run *b)
{
    const rc_json *setting = NULL;
    while ((setting = rc_json_next(config_of(a), setting)) != NULL)
        if (differ_in(rc_json_key(setting), a, b))
            return false;
    return true;
}

bool rc_report_alike(const rc_report_variant *a, const rc_report_variant *b)
{
    return same_settings(a->run[0], b->run[0]);
}

static int compare_sets(const void *a, const void *b)
{
    const rc_report_set *x = a, *y = b;
    int order = strcmp(x->dataset, y->dataset);
    return order != 0 ? order : (x->tasks > y->tasks) - (x->tasks < y->tasks);
}

/* The place of a method in the program's table; unknown ones come last. */
static int rank_of(const rc_report_variant *variant)
{
    int rank = 0;
    while (rc_method_at(rank) != NULL && rc_method_at(rank) != variant->method)
        rank++;
    return rank;
}

/* By method; variants of one keep the order in which their runs came. */
static void sort_variants(rc_report_set *set)
{
    for (int i = 1; i < set->variants; i++) {
        rc_report_variant moved = set->variant[i];
        int k = i;
        for (; k > 0 && rank_of(&set->variant[k - 1]) > rank_of(&moved); k--)
            set->variant[k] = set->variant[k - 1];
        set->variant[k] = moved;
    }
}

/* Would both runs have read the same images from the same files? Their fingerprints are of images as they were read,
 * and the seed may choose those of the test. */
static bool read_alike(const rc_report_run *a, const rc_report_run *b)
{
    static const char *const reading[] = {"size",     "resize", "interpolation", "decode",
                                          "channels", "exif",   "validation",    "test_per_class"};
    for (size_t i = 0; i < sizeof reading / sizeof *reading; i++)
        if (differ_in(reading[i], a, b))
            return false;
    return a->seed == b->seed;
}

/* Of two runs whose data has one name: is it known to be other data? Names of published sets are enough, because
 * earlier versions gave them other fingerprints. */
static bool other_data(const rc_report_run *a, const rc_report_run *b)
{
    if (a->own_data == NULL || b->own_data == NULL || strcmp(a->own_data, b->own_data) == 0)
        return false;
    return strcmp(rc_report_run_text(a, "data"), rc_report_run_text(b, "data")) != 0 || read_alike(a, b);
}

static bool belongs(const rc_report_run *run, const rc_report_set *set)
{
    if (set->tasks != run->results.tasks || strcmp(set->dataset, run->dataset) != 0)
        return false;
    for (int i = 0; i < set->variants; i++)
        for (int k = 0; k < set->variant[i].runs; k++)
            if (other_data(set->variant[i].run[k], run))
                return false;
    return true;
}

static rc_report_set *find_set(rc_report_sets *sets, const rc_report_run *run)
{
    rc_report_set *set = NULL;
    for (int i = 0; i < sets->count && set == NULL; i++)
        if (belongs(run, &sets->set[i]))
            set = &sets->set[i];
    if (set == NULL) {
        set = &sets->set[sets->count++];
        set->tasks = run->results.tasks;
        snprintf(set->dataset, sizeof set->dataset, "%s", run->dataset);
    }
    if (set->own_data == NULL)
        set->own_data = run->own_data;
    return set;
}

/* Is the run there already? It then takes the place of a copy that has neither log nor pictures beside it. */
static bool join_copy(rc_report_variant *variant, const rc_report_run *run)
{
    for (int i = 0; i < variant->runs; i++)
        if (variant->run[i]->hash == run->hash) {
            if (variant->run[i]->folder[0] == '\0')
                variant->run[i] = run;
            return true;
        }
    return false;
}

/* room: of variants in the set. */
static rc_status place_run(rc_report_set *set, const rc_report_run *run, int room)
{
    rc_report_variant *variant = NULL;
    if (set->variant == NULL)
        set->variant = rc_alloc_zeroed(NULL, (size_t)room, sizeof *set->variant);
    if (set->variant == NULL)
        return RC_OUT_OF_MEMORY;
    for (int i = 0; i < set->variants && variant == NULL; i++)
        if (strcmp(set->variant[i].name, run->method) == 0 && same_settings(set->variant[i].run[0], run))
            variant = &set->variant[i];
    if (variant == NULL) {
        variant = &set->variant[set->variants++];
        variant->name = run->method;
        if (rc_method_find(run->method, &variant->method) != RC_OK)
            variant->method = NULL;
        rc_clear_message();
        variant->run = rc_alloc_zeroed(NULL, (size_t)room, sizeof *variant->run);
        if (variant->run == NULL)
            return RC_OUT_OF_MEMORY;
    }
    if (join_copy(variant, run)) {
        set->copies++;
        return RC_OK;
    }
    variant->run[variant->runs++] = run;
    set->runs++;
    int classes = run->results.task_end[run->results.tasks - 1];
    set->classes = classes > set->classes ? classes : set->classes;
    return RC_OK;
}

/* ---- labels and colours ------------------------------------------------------------------------------------------ */

/* Does the configuration have all these settings? "weight_prior=0.001 diversity_epsilon=0". */
static bool has_settings(const rc_json *config, const char *settings)
{
    char name[64];
    for (const char *p = settings; *p != '\0';) {
        size_t length = strcspn(p, " "), key = strcspn(p, "=");
        snprintf(name, sizeof name, "%.*s", (int)key, p);
        const char *value = rc_json_string(rc_json_member(config, name));
        if (value == NULL || strlen(value) != length - key - 1 || strncmp(value, p + key + 1, length - key - 1) != 0)
            return false;
        p += length + (p[length] == ' ');
    }
    return true;
}

/* The name that the variant has among the paper's rows. */
static const char *paper_name(const rc_report_variant *v)
{
    bool published = strcmp(v->name, "rdfcil") == 0 && has_settings(config_of(v->run[0]), RC_PAPER_RDFCIL_SETTINGS);
    return published ? RC_PAPER_RDFCIL : v->name;
}

/* The settings that the paper's figure is of: the preset of its data set and tasks, and what R-DFCIL's authors have of
 * their own. */
static rc_status read_paper_settings(const rc_paper_row *row, const char *profile, rc_config *config)
{
    char name[64], own[] = RC_PAPER_RDFCIL_SETTINGS, *rest;
    *config = rc_config_default();
    snprintf(name, sizeof name, "%s-%d", row->dataset, row->tasks);
    RC_TRY(rc_config_load(config, name, NULL));
    if (profile != NULL)
        RC_TRY(rc_config_set(config, "profile", profile));
    if (strcmp(row->method, RC_PAPER_RDFCIL) != 0)
        return RC_OK;
    for (char *pair = strtok_r(own, " ", &rest); pair != NULL; pair = strtok_r(NULL, " ", &rest))
        RC_TRY(rc_config_set_pair(config, pair));
    return RC_OK;
}

/* Is the run's accuracy one that the paper's figure can stand beside? What its version did not have, it does not say;
 * what it wrote counts as well as what that is called today. Equations may be as the paper prints them, or as its code
 * has them. */
static rc_status is_the_papers(const rc_report_run *run, const rc_paper_row *row, bool *same)
{
    static const char *const changes_nothing[] = {"format", "decode"};
    rc_config config;
    rc_config_item item;
    char value[RC_CONFIG_VALUE];
    rc_status status = read_paper_settings(row, rc_run_setting(run->identity, run->method, "profile"), &config);
    *same = status == RC_OK;
    if (status == RC_INVALID_ARGUMENT) /* a profile of a later version */
        return RC_OK;
    RC_TRY(status);
    for (int i = 0; *same && rc_config_item_at(i, &item); i++) {
        const char *found = rc_run_setting(run->identity, run->method, item.name);
        const char *written = rc_json_string(rc_json_member(config_of(run), item.name));
        bool asked = found != NULL && !may_differ(item.name);
        for (size_t k = 0; k < sizeof changes_nothing / sizeof *changes_nothing; k++)
            asked = asked && strcmp(item.name, changes_nothing[k]) != 0;
        if (!asked)
            continue;
        RC_TRY(rc_config_get(&config, item.name, value, sizeof value));
        *same = strcmp(value, found) == 0 || strcmp(value, written) == 0;
    }
    return RC_OK;
}

/* The paper's figures of the same data, tasks and method, if all runs have its settings, too; NULL: there are none. */
static rc_status find_paper(const rc_report_set *set, rc_report_variant *v)
{
    const rc_paper_row *row = rc_paper_find(set->dataset, set->tasks, paper_name(v));
    bool same = row != NULL;
    for (int i = 0; same && i < v->runs; i++)
        RC_TRY(is_the_papers(v->run[i], row, &same));
    v->paper = same ? row : NULL;
    return RC_OK;
}

static const char *title_of(const rc_report_variant *v)
{
    if (strcmp(paper_name(v), RC_PAPER_RDFCIL) == 0)
        return RC_PAPER_RDFCIL_TITLE;
    return v->method != NULL ? v->method->title : v->name;
}

/* The title of the method and, if the set has several variants of it, the settings in which they differ. */
static void write_label(const rc_report_set *set, rc_report_variant *variant)
{
    const rc_json *setting = NULL, *config = config_of(variant->run[0]);
    size_t used = (size_t)snprintf(variant->label, sizeof variant->label, "%s", title_of(variant));
    while ((setting = rc_json_next(config, setting)) != NULL && used + 1 < sizeof variant->label) {
        bool tells = false;
        for (int i = 0; i < set->variants && !tells; i++)
            tells = strcmp(title_of(&set->variant[i]), title_of(variant)) == 0 &&
                    differ_in(rc_json_key(setting), variant->run[0], set->variant[i].run[0]);
        if (tells)
            used += (size_t)snprintf(variant->label + used, sizeof variant->label - used, ", %s %s",
                                     rc_json_key(setting), rc_json_string(setting));
    }
}

/* The same label has the same colour in every set; CwD has the first. */
static void choose_colour(const rc_report_sets *sets, rc_report_variant *variant, int *next)
{
    if (strcmp(variant->label, "CwD") == 0) {
        variant->colour = 1;
        return;
    }
    for (int i = 0; i < sets->count; i++)
        for (int k = 0; k < sets->set[i].variants; k++)
            if (sets->set[i].variant[k].colour > 0 && strcmp(sets->set[i].variant[k].label, variant->label) == 0) {
                variant->colour = sets->set[i].variant[k].colour;
                variant->dashed = sets->set[i].variant[k].dashed;
                return;
            }
    variant->dashed = *next / (RC_REPORT_COLOURS - 1) % 2 == 1;
    variant->colour = 2 + (*next)++ % (RC_REPORT_COLOURS - 1);
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

static const rc_task_result *last_task(const rc_report_run *run)
{
    return &run->results.task[run->results.done - 1];
}

static double last_of(const rc_report_run *run)
{
    return last_task(run)->accuracy;
}

static double mean_of(const rc_report_run *run)
{
    return rc_results_mean(&run->results);
}

static double forgetting_of(const rc_report_run *run)
{
    return rc_forgetting(run->results.matrix, run->results.tasks, run->results.done);
}

static double old_of(const rc_report_run *run)
{
    return last_task(run)->old_accuracy;
}

static double new_of(const rc_report_run *run)
{
    return last_task(run)->new_accuracy;
}

/* The run whose classes and log are shown: the first that is done and has classes, or else the first that has. */
static const rc_report_run *choose_shown(const rc_report_variant *v)
{
    const rc_report_run *shown = NULL;
    for (int i = v->runs - 1; i >= 0; i--)
        if (v->run[i]->class_name != NULL &&
            (shown == NULL || rc_report_run_done(v->run[i]) || !rc_report_run_done(shown)))
            shown = v->run[i];
    return shown != NULL ? shown : v->run[0];
}

/* Over the runs that are done. values: room for all of them. */
static rc_spread spread(const rc_report_variant *v, double (*number)(const rc_report_run *run), double *values)
{
    int count = 0;
    for (int i = 0; i < v->runs; i++)
        if (rc_report_run_done(v->run[i]) && !isnan(number(v->run[i])))
            values[count++] = number(v->run[i]);
    return rc_spread_of(values, count);
}

static void count_seconds(rc_report_variant *v, double *values)
{
    double seconds[RC_REPORT_SECONDS];
    for (int which = 0; which < RC_REPORT_SECONDS; which++) {
        int count = 0;
        for (int i = 0; i < v->runs; i++) {
            rc_results_seconds(&v->run[i]->results, v->run[i]->results.done, seconds);
            if (rc_report_run_done(v->run[i]) && !isnan(seconds[which]))
                values[count++] = seconds[which];
        }
        v->seconds[which] = rc_spread_of(values, count);
    }
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static void count_tasks(const rc_report_set *set, rc_report_variant *v, double *values)
{
    for (int task = 0; task < set->tasks; task++) {
        int count = 0;
        for (int i = 0; i < v->runs; i++)
            if (task < v->run[i]->results.done && !isnan(v->run[i]->results.task[task].accuracy))
                values[count++] = v->run[i]->results.task[task].accuracy;
        v->accuracy[task] = rc_spread_of(values, count);
        for (int j = 0; j < set->tasks; j++) {
            count = 0;
            for (int i = 0; i < v->runs; i++) {
                double percent = v->run[i]->results.matrix[task * set->tasks + j];
                if (task < v->run[i]->results.done && !isnan(percent))
                    values[count++] = percent;
            }
            v->matrix[task * set->tasks + j] = rc_spread_of(values, count).mean;
        }
    }
}

static const double *ledger_of(const rc_report_run *run)
{
    return run->ledger;
}

static const double *cost_of(const rc_report_run *run)
{
    return run->cost;
}

/* Over the runs that have such numbers, `cells` of them each; *spreads stays NULL where no run has. */
static rc_status count_findings(const rc_report_variant *v, const double *(*of)(const rc_report_run *run), int cells,
                                double *values, rc_spread **spreads)
{
    bool any = false;
    for (int i = 0; i < v->runs; i++)
        any = any || of(v->run[i]) != NULL;
    if (!any)
        return RC_OK;
    *spreads = rc_alloc_zeroed(NULL, (size_t)cells, sizeof **spreads);
    if (*spreads == NULL)
        return RC_OUT_OF_MEMORY;
    for (int cell = 0; cell < cells; cell++) {
        int known = 0;
        for (int i = 0; i < v->runs; i++)
            if (of(v->run[i]) != NULL && !isnan(of(v->run[i])[cell]))
                values[known++] = of(v->run[i])[cell];
        (*spreads)[cell] = rc_spread_of(values, known);
    }
    return RC_OK;
}

static rc_status count(const rc_report_set *set, rc_report_variant *v)
{
    size_t tasks = (size_t)set->tasks;
    double *values = rc_alloc_zeroed(NULL, (size_t)v->runs, sizeof *values);
    v->accuracy = rc_alloc_zeroed(NULL, tasks, sizeof *v->accuracy);
    v->matrix = rc_alloc_zeroed(NULL, tasks * tasks, sizeof *v->matrix);
    if (values == NULL || v->accuracy == NULL || v->matrix == NULL) {
        rc_free(NULL, values);
        return RC_OUT_OF_MEMORY;
    }
    v->shown = choose_shown(v);
    for (int i = v->runs - 1; i >= 0; i--) {
        const rc_report_run *run = v->run[i];
        v->done += rc_report_run_done(run);
        if (run->dkl != NULL)
            v->dreams = run;
        if (run->results.done > 0) {
            const rc_stored *stored = &last_task(run)->stored;
            v->stored.images = larger(v->stored.images, stored->images);
            v->stored.model = larger(v->stored.model, stored->model);
            v->stored.statistics = larger(v->stored.statistics, stored->statistics);
        }
    }
    v->last = spread(v, last_of, values);
    v->mean = spread(v, mean_of, values);
    v->forgetting = spread(v, forgetting_of, values);
    v->old_classes = spread(v, old_of, values);
    v->new_classes = spread(v, new_of, values);
    count_seconds(v, values);
    count_tasks(set, v, values);
    rc_status status = find_paper(set, v);
    if (status == RC_OK)
        status = count_findings(v, ledger_of, set->tasks * RC_LEDGER_COUNT, values, &v->ledger);
    if (status == RC_OK)
        status = count_findings(v, cost_of, RC_COST_COUNT * RC_COST_COLUMNS, values, &v->cost);
    rc_free(NULL, values);
    return status;
}

static const char *first_name(const rc_report_set *set)
{
    return set->variant[0].run[0]->dataset;
}

/* Sets of one name that are of other data say of which: by the fingerprint of their first run. */
static void tell_data_apart(rc_report_sets *sets)
{
    for (int i = 0; i < sets->count; i++) {
        rc_report_set *set = &sets->set[i];
        for (int k = 0; k < sets->count && set->own_data != NULL; k++) {
            const rc_report_set *other = &sets->set[k];
            if (strcmp(first_name(set), first_name(other)) == 0 && other->own_data != NULL &&
                strcmp(set->own_data, other->own_data) != 0)
                snprintf(set->dataset, sizeof set->dataset, "%s, data %.16s", first_name(set), set->own_data);
        }
    }
}

rc_status rc_report_sets_make(const rc_report_runs *runs, rc_report_sets *sets)
{
    int next = 0;
    *sets = (rc_report_sets){.set = rc_alloc_zeroed(NULL, (size_t)runs->count, sizeof *sets->set)};
    rc_status status = sets->set != NULL ? RC_OK : RC_OUT_OF_MEMORY;
    for (int i = 0; i < runs->count && status == RC_OK; i++)
        status = place_run(find_set(sets, runs->run[i]), runs->run[i], runs->count);
    if (status == RC_OK) {
        tell_data_apart(sets);
        qsort(sets->set, (size_t)sets->count, sizeof *sets->set, compare_sets);
    }
    for (int i = 0; i < sets->count && status == RC_OK; i++) {
        rc_report_set *set = &sets->set[i];
        sort_variants(set);
        for (int k = 0; k < set->variants && status == RC_OK; k++) {
            write_label(set, &set->variant[k]);
            choose_colour(sets, &set->variant[k], &next);
            status = count(set, &set->variant[k]);
        }
    }
    if (status != RC_OK)
        rc_report_sets_free(sets);
    return status;
}

void rc_report_sets_free(rc_report_sets *sets)
{
    for (int i = 0; i < sets->count; i++) {
        for (int k = 0; k < sets->set[i].variants; k++) {
            rc_free(NULL, sets->set[i].variant[k].run);
            rc_free(NULL, sets->set[i].variant[k].accuracy);
            rc_free(NULL, sets->set[i].variant[k].matrix);
            rc_free(NULL, sets->set[i].variant[k].ledger);
            rc_free(NULL, sets->set[i].variant[k].cost);
        }
        rc_free(NULL, sets->set[i].variant);
    }
    rc_free(NULL, sets->set);
    *sets = (rc_report_sets){0};
}
