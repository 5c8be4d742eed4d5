/* recollect reproduce: the tables and figures of the paper. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "cli/cli.h"
#include "forecast/allowance.h"
#include "reproduce/reproduce.h"
#include "reproduce/shrink.h"

enum {
    LIST,
    DATA,
    OUT,
    RESUME,
    SCALE,
    SHARD,
    ONLY,
    TASKS,
    ORDERS,
    MERGE,
    PLAN,
    BACKEND,
    PRECISION,
    DEVICE_MEMORY,
    MAX_MEMORY,
    THREADS,
    JOBS,
    CHECKPOINT,
    SKIP_BROKEN,
    VERBOSE,
    OPTIONS
};

static const rc_option options[OPTIONS] = {
    [LIST] = {"list", RC_OPTION_FLAG, NULL, NULL, "print the names, and how many cells each takes", 0, 0},
    [DATA] = {"data", RC_OPTION_LIST, "[SET=]PATH", NULL,
              "where a data set lies: cifar100=, tiny-imagenet=, imagenet100=", 0, 0},
    [OUT] = {"out", RC_OPTION_OUTPUT, "FOLDER", "paper", "where results go; names share it", 0, 0},
    /* Nobody reads it. It is there because messages of runs name it ("--resume goes on from there"). */
    [RESUME] = {"resume", RC_OPTION_FLAG, NULL, NULL, "changes nothing: what is there is always gone on with", 0, 0},
    [SCALE] = {"scale", RC_OPTION_TEXT, "PART", "1", "less than 1: fewer images, epochs and steps, to try it", 0, 0},
    [SHARD] = {"shard", RC_OPTION_TEXT, "K/N", NULL, "run the K-th of N parts of the cells", 0, 0},
    [ONLY] = {"only", RC_OPTION_TEXT, "ROW,...", NULL, "these rows alone", 0, 0},
    [TASKS] = {"tasks", RC_OPTION_TEXT, "N,...", NULL, "these numbers of tasks alone", 0, 0},
    [ORDERS] = {"orders", RC_OPTION_TEXT, "N,...", NULL, "these class orders alone", 0, 0},
    [MERGE] = {"merge", RC_OPTION_LIST, "FOLDER", NULL, "take finished cells of that folder over, and run none", 0, 0},
    [PLAN] = {"plan", RC_OPTION_FLAG, NULL, NULL, "print the runs and what is done, and run none", 0, 0},
    [BACKEND] = {"backend", RC_OPTION_TEXT, RC_BACKENDS, "cpu", "what computes", 0, 0},
    [PRECISION] = RC_OPTION_PRECISION,
    [DEVICE_MEMORY] = RC_OPTION_DEVICE_MEMORY,
    [MAX_MEMORY] = RC_OPTION_MAX_MEMORY,
    [THREADS] = {"threads", RC_OPTION_INTEGER, "N", "0", "threads to use, of all jobs; 0: all cores", 0, 1024},
    [JOBS] = {"jobs", RC_OPTION_INTEGER, "N", "0", "methods side by side; 0: as many as fit", 0, 64},
    [CHECKPOINT] = {"checkpoint", RC_OPTION_TEXT, "SECONDS", "120", "time between checkpoints; 0: as often as it can",
                    0, 0},
    [SKIP_BROKEN] = {"skip-broken", RC_OPTION_FLAG, NULL, NULL, "skip images that cannot be read", 0, 0},
    [VERBOSE] = RC_OPTION_VERBOSE,
};

/* ---- what is asked for ------------------------------------------------------------------------------------------ */

static rc_status count_cells(const rc_artefact *artefact, int *cells)
{
    rc_cell_list list;
    const rc_cell_filter all = {0};
    RC_TRY(rc_cell_list_create(artefact, &all, &list));
    *cells = list.cells;
    rc_cell_list_free(&list);
    return RC_OK;
}

static rc_status print_names(void)
{
    const rc_artefact *artefact;
    for (int i = 0; (artefact = rc_artefact_at(i)) != NULL; i++) {
        int cells;
        RC_TRY(count_cells(artefact, &cells));
        rc_print("%-20s %4d cells  %s", artefact->name, cells, artefact->summary);
    }
    return RC_OK;
}

/* Does the artefact have cells of the set? */
static bool takes_set(const rc_cell_list *list, const rc_paper_set *set)
{
    for (int i = 0; i < list->cells; i++)
        if (list->cell[i].set == set)
            return true;
    return false;
}

static const rc_paper_set *only_set(const rc_cell_list *list)
{
    for (int i = 1; i < list->cells; i++)
        if (list->cell[i].set != list->cell[0].set)
            return NULL;
    return list->cells > 0 ? list->cell[0].set : NULL;
}

/* "cifar100=PATH", or a path where there is one set alone. */
static rc_status read_data(const char *text, const rc_cell_list *list, const char *data[RC_PAPER_SETS])
{
    const rc_paper_set *set;
    for (int i = 0; (set = rc_paper_set_at(i)) != NULL; i++) {
        size_t length = strlen(set->name);
        if (strncmp(text, set->name, length) == 0 && text[length] == '=' && text[length + 1] != '\0') {
            if (!takes_set(list, set))
                return rc_fail(RC_INVALID_ARGUMENT, "option '--data' is '%s', but no cell is of %s", text, set->name);
            data[i] = text + length + 1;
            return RC_OK;
        }
    }
    set = only_set(list);
    if (set == NULL)
        return rc_fail(RC_INVALID_ARGUMENT,
                       "option '--data' is '%s', expected SET=PATH with cifar100, tiny-imagenet or imagenet100, "
                       "because there are cells of several",
                       text);
    data[rc_paper_set_index(set)] = text;
    return RC_OK;
}

static bool read_shard(const char *text, rc_cell_filter *filter)
{
    char end;
    return sscanf(text, "%9d/%9d%c", &filter->shard, &filter->shards, &end) == 2 && filter->shards >= 1 &&
           filter->shard >= 1 && filter->shard <= filter->shards;
}

/* Everything but what all runs have. */
static rc_status read_settings(const rc_option_value *value, const char *name, rc_reproduce_settings *s)
{
    if (!rc_read_number(value[SCALE].text, RC_SMALLEST_SCALE, 1, &s->scale))
        return rc_fail(RC_INVALID_ARGUMENT, "option '--scale' is '%s', expected a number from %g to 1",
                       value[SCALE].text, RC_SMALLEST_SCALE);
    if (!rc_read_number(value[CHECKPOINT].text, 0, 86400, &s->run.checkpoint_seconds))
        return rc_fail(RC_INVALID_ARGUMENT, "option '--checkpoint' is '%s', expected seconds from 0 to 86400",
                       value[CHECKPOINT].text);
    s->run.report_seconds = fmin(s->run.checkpoint_seconds, 1); /* so that it is asked often enough */
    if (value[SHARD].given && !read_shard(value[SHARD].text, &s->filter))
        return rc_fail(RC_INVALID_ARGUMENT, "option '--shard' is '%s', expected K/N, such as 1/4 to 4/4",
                       value[SHARD].text);
    s->filter.rows = value[ONLY].text;
    s->filter.tasks = value[TASKS].text;
    s->filter.orders = value[ORDERS].text;
    s->filter.most_orders = rc_shrink_orders(s->scale);
    s->out = value[OUT].text;
    RC_TRY(rc_artefact_find(name, &s->artefact));
    rc_cell_list list;
    rc_cell_filter filter = s->filter; /* all shards take the same options */
    filter.shards = 0;
    RC_TRY(rc_cell_list_create(s->artefact, &filter, &list));
    rc_status status = RC_OK;
    for (int i = 0; i < value[DATA].repeats && status == RC_OK; i++)
        status = read_data(value[DATA].each[i], &list, s->data);
    rc_cell_list_free(&list);
    return status == RC_OK ? rc_reproduce_check(s) : status;
}

/* ---- what it does ----------------------------------------------------------------------------------------------- */

enum { MOST_METHODS = 512 }; /* bytes of their names */

/* "[80, 120]" as a command line has it: 80,120. */
static void strip_list(char *value)
{
    char *end = value;
    for (const char *p = value; *p != '\0'; p++)
        if (strchr("[ ]", *p) == NULL)
            *end++ = *p;
    *end = '\0';
}

/* What the row and the scale change of the preset, as a command line has it. */
static rc_status print_set_options(const rc_paper_cell *cell, double scale, char *text, size_t size)
{
    char before[RC_CONFIG_VALUE], now[RC_CONFIG_VALUE];
    rc_paper_cell plain = *cell;
    rc_config preset, config;
    rc_config_item item;
    size_t used = 0;
    text[0] = '\0';
    plain.line.settings = "";
    RC_TRY(rc_paper_cell_config(&plain, 1, &preset));
    RC_TRY(rc_paper_cell_config(cell, scale, &config));
    for (int i = 0; rc_config_item_at(i, &item) && used < size; i++) {
        RC_TRY(rc_config_get(&preset, item.name, before, sizeof before));
        RC_TRY(rc_config_get(&config, item.name, now, sizeof now));
        if (strcmp(before, now) == 0)
            continue;
        strip_list(now);
        used += (size_t)snprintf(text + used, size - used, " --set %s=%s", item.name, now);
    }
    return RC_OK;
}

/* A run as the command that does the same. */
static rc_status print_command(const rc_reproduce_settings *s, const rc_paper_cell *cell, const char *methods)
{
    char set[1024], stop[32] = "", preset[64], folder[RC_PATH_SIZE];
    const char *data = s->data[rc_paper_set_index(cell->set)];
    bool known = cell->tasks == 5 || cell->tasks == 10 || cell->tasks == 20;
    RC_TRY(print_set_options(cell, s->scale, set, sizeof set));
    snprintf(preset, sizeof preset, known ? "%s-%d" : "%s-5 --tasks %d", cell->set->name, cell->tasks);
    if (cell->stop_after > 0)
        snprintf(stop, sizeof stop, " --stop-after %d", cell->stop_after);
    RC_TRY(rc_path_in(s->out, cell->folder, folder));
    char *from = rc_shell_word(data != NULL ? data : cell->set->name), *to = rc_shell_word(folder);
    bool whole = from != NULL && to != NULL;
    if (whole)
        rc_print("  recollect run %s --method %s --order %d%s%s --data %s --out %s --resume", preset, methods,
                 cell->order, set, stop, from, to);
    free(from);
    free(to);
    return whole ? RC_OK : rc_fail(RC_OUT_OF_MEMORY, "no memory for a command of the plan");
}

static rc_status print_plan(const rc_reproduce_settings *s)
{
    rc_cell_list list;
    char hash[RC_PAPER_SETS][RC_HASH_SIZE] = {{0}}, methods[MOST_METHODS];
    int done = 0;
    RC_TRY(rc_cell_list_create(s->artefact, &s->filter, &list));
    rc_status status = RC_OK;
    for (int i = 0, end; i < list.cells && status == RC_OK; i = end) {
        int left = 0;
        end = rc_cell_list_folder_end(&list, i);
        for (int k = i; k < end && status == RC_OK; k++) {
            bool is_done;
            status = rc_reproduce_look(&list.cell[k], s->scale, s->out, hash[rc_paper_set_index(list.cell[k].set)],
                                       &is_done, NULL);
            done += is_done;
            left += !is_done;
        }
        if (status != RC_OK)
            break;
        rc_cell_list_methods(&list, i, end, NULL, methods, sizeof methods);
        rc_print("%s: %s (%d left)", list.cell[i].folder, methods, left);
        status = print_command(s, &list.cell[i], methods);
    }
    if (status == RC_OK)
        rc_print("%s: %d cell%s, %d done", s->artefact->name, list.cells, list.cells == 1 ? "" : "s", done);
    rc_cell_list_free(&list);
    return status;
}

/* foreign: cells that were not taken over. */
static rc_status merge(const rc_option_value *folders, const rc_reproduce_settings *s, int *foreign)
{
    *foreign = 0;
    for (int i = 0; i < folders->repeats; i++) {
        rc_merged merged;
        RC_TRY(rc_reproduce_merge(s, folders->each[i], &merged));
        rc_note("%s: %d cell%s taken over; here already: %d, of something else: %d", folders->each[i], merged.copied,
                merged.copied == 1 ? "" : "s", merged.there, merged.foreign);
        *foreign += merged.foreign;
    }
    return RC_OK;
}

/* ---- what follows the runs -------------------------------------------------------------------------------------- */

/* Words of a command line that grows. A failure sticks. */
typedef struct words {
    char **word;
    int count;
    bool failed;
} words;

/* `text`, as a path below the folder `before` unless that is empty. */
static void add_word(words *w, const char *before, const char *text)
{
    char **more = realloc(w->word, ((size_t)w->count + 1) * sizeof *more);
    size_t size = strlen(before) + strlen(text) + 2;
    char *copy = malloc(size);
    w->failed = w->failed || more == NULL || copy == NULL;
    if (more != NULL)
        w->word = more;
    if (more == NULL || copy == NULL) {
        free(copy);
        return;
    }
    snprintf(copy, size, "%s%s%s", before, before[0] != '\0' ? "/" : "", text);
    w->word[w->count++] = copy;
}

static void free_words(words *w)
{
    for (int i = 0; i < w->count; i++)
        free(w->word[i]);
    free(w->word);
    *w = (words){0};
}

/* Another command of this program; the words, of which its name is the first, are freed. Returns its exit code. */
static int call(const rc_command *command, words *w)
{
    char **sorted = malloc(((size_t)w->count + 1) * sizeof *sorted); /* the command moves its words about */
    if (sorted != NULL && w->count > 0)
        memcpy(sorted, w->word, (size_t)w->count * sizeof *sorted);
    int code = w->failed || sorted == NULL ? rc_failed(NULL, RC_OUT_OF_MEMORY)
                                           : rc_command_main(command, w->count, sorted);
    free(sorted);
    free_words(w);
    rc_words_begin(&rc_command_reproduce);
    return code;
}

/* The page of all cells that are done. */
static int make_page(const rc_reproduce_settings *s, const rc_cell_list *list, const bool *done)
{
    char file[96];
    words w = {0};
    int cells = 0;
    snprintf(file, sizeof file, "%s.html", s->artefact->name);
    add_word(&w, "", rc_command_report.name);
    add_word(&w, "", "--out");
    add_word(&w, s->out, file);
    add_word(&w, "", "--");
    for (int i = 0; i < list->cells; i++) {
        if (done[i])
            add_word(&w, s->out, list->cell[i].path);
        cells += done[i];
    }
    if (cells > 0)
        return call(&rc_command_report, &w);
    free_words(&w);
    return RC_EXIT_DONE;
}

/* Must the analysis not be made again where there is a file with it? Norms and costs are read off in a moment, and
 * another name may have asked for those of other methods. The others train anew. */
static bool is_made_once(const char *kind)
{
    return strcmp(kind, "norms") != 0 && strcmp(kind, "cost") != 0;
}

/* recollect analyze: to the terminal, and as JSON to the file. */
static int call_analyze(const char *kind, const char *folder, const char *methods, const char *file, const char *data,
                        const rc_option_value *value)
{
    words w = {0};
    add_word(&w, "", rc_command_analyze.name);
    add_word(&w, "", "--out");
    add_word(&w, "", file);
    add_word(&w, "", "--method");
    add_word(&w, "", methods);
    for (int o = BACKEND; o <= THREADS; o++)
        if (value[o].given) {
            char option[32];
            snprintf(option, sizeof option, "--%s", options[o].name);
            add_word(&w, "", option);
            add_word(&w, "", value[o].text);
        }
    if (data != NULL) {
        add_word(&w, "", "--data");
        add_word(&w, "", data);
    }
    add_word(&w, "", "--");
    add_word(&w, "", kind);
    add_word(&w, "", folder);
    return call(&rc_command_analyze, &w);
}

/* The analysis of the cells i to end - 1, of one folder, that are done, as FOLDER/KIND.json. */
static int analyze(const rc_reproduce_settings *s, const rc_option_value *value, const rc_cell_list *list,
                   const bool *done, int i, int end)
{
    char methods[MOST_METHODS], name[64], folder[RC_PATH_SIZE], file[RC_PATH_SIZE];
    const rc_paper_cell *cell = &list->cell[i];
    const char *kind = s->artefact->analysis;
    bool has_run, is_analyzed;
    rc_cell_list_methods(list, i, end, done, methods, sizeof methods);
    if (methods[0] == '\0')
        return RC_EXIT_DONE;
    snprintf(name, sizeof name, "%.31s.json", kind);
    rc_status status = rc_path_in(s->out, cell->folder, folder);
    if (status == RC_OK)
        status = rc_path_in(folder, "run.json", file);
    if (status == RC_OK)
        status = rc_file_find(file, &has_run);
    if (status == RC_OK)
        status = rc_path_in(folder, name, file);
    if (status == RC_OK)
        status = rc_file_find(file, &is_analyzed);
    if (status != RC_OK)
        return rc_failed(NULL, status);
    if (!has_run) { /* but the results of its cells alone */
        char *place = rc_shell_word(folder);
        if (place == NULL)
            return rc_failed(NULL, rc_fail(RC_OUT_OF_MEMORY, "no memory for the name of '%s'", folder));
        rc_note("left to do, where the models of the run are: recollect analyze %s %s --method %s", kind, place,
                methods);
        free(place);
        return RC_EXIT_DONE;
    }
    if (is_made_once(kind) && is_analyzed) {
        rc_note("%s is there already", file);
        return RC_EXIT_DONE;
    }
    rc_print("%s:", cell->folder);
    return call_analyze(kind, folder, methods, file, s->data[rc_paper_set_index(cell->set)], value);
}

/* Analyses and the page, of all cells of the artefact that are done. */
static int follow_up(const rc_reproduce_settings *s, const rc_option_value *value)
{
    rc_cell_list list;
    char hash[RC_PAPER_SETS][RC_HASH_SIZE] = {{0}};
    const rc_cell_filter all = {.most_orders = s->filter.most_orders};
    rc_status status = rc_cell_list_create(s->artefact, &all, &list);
    if (status != RC_OK)
        return rc_failed(NULL, status);
    bool *done = calloc((size_t)list.cells + 1, sizeof *done);
    if (done == NULL)
        status = RC_OUT_OF_MEMORY;
    for (int i = 0; i < list.cells && status == RC_OK; i++)
        status = rc_reproduce_look(&list.cell[i], s->scale, s->out, hash[rc_paper_set_index(list.cell[i].set)],
                                   &done[i], NULL);
    int code = status == RC_OK ? RC_EXIT_DONE : rc_failed(NULL, status);
    for (int i = 0, next; i < list.cells && code == RC_EXIT_DONE && s->artefact->analysis != NULL; i = next) {
        next = rc_cell_list_folder_end(&list, i);
        code = analyze(s, value, &list, done, i, next);
    }
    if (code == RC_EXIT_DONE)
        code = make_page(s, &list, done);
    free(done);
    rc_cell_list_free(&list);
    return code;
}

/* ---- the command ------------------------------------------------------------------------------------------------ */

/* The table, and what follows it; neither where it was stopped, or where settings did not fit what is there. */
static int end(const rc_reproduce_settings *s, const rc_option_value *value, rc_status status)
{
    int code = status != RC_OK ? rc_failed(NULL, status) : RC_EXIT_DONE;
    if (status == RC_CANCELLED || status == RC_INVALID_ARGUMENT)
        return code;
    status = rc_reproduce_summarise(s);
    if (status != RC_OK)
        return rc_failed(NULL, status);
    int followed = follow_up(s, value);
    return code != RC_EXIT_DONE ? code : followed;
}

static int reproduce(const rc_option_value *value, rc_reproduce_settings *s)
{
    rc_reproduced ended;
    rc_memory_allow((size_t)value[MAX_MEMORY].integer, 0);
    rc_progress_verbose(value[VERBOSE].given);
    rc_catch_interrupts();
    rc_outlive_readers();
    rc_status status = rc_reproduce_run(s, &ended);
    if (ended.left_out > 0)
        rc_note("left out, because their data was not given: %d cell%s; --data SET=PATH says where it is",
                ended.left_out, ended.left_out == 1 ? "" : "s");
    if (status != RC_OK && !ended.begun)
        return rc_failed(NULL, status);
    int code = end(s, value, status);
    if (ended.failed > 0)
        rc_complain("%d run%s failed; the same command tries %s again", ended.failed, ended.failed == 1 ? "" : "s",
                    ended.failed == 1 ? "it" : "them");
    return code == RC_EXIT_DONE && ended.failed > 0 ? RC_EXIT_FAILED : code;
}

static int run(const rc_option_value *value, int count, char **arguments)
{
    rc_log log = {.write = rc_note_log, .level = RC_LOG_INFO};
    rc_reproduce_settings s = {
        .run = {.backend = rc_backend_name(&value[BACKEND]),
                .threads = (int)value[THREADS].integer,
                .jobs = (int)value[JOBS].integer,
                .skip_broken = value[SKIP_BROKEN].given,
                .line = rc_print_line,
                .watch = {.log = log, .progress = rc_tell_progress, .cancelled = rc_interrupted}}};
    if (value[LIST].given) {
        rc_status status = print_names();
        return status == RC_OK ? RC_EXIT_DONE : rc_failed(NULL, status);
    }
    if (count != 1)
        return rc_wrong_usage(&rc_command_reproduce, count == 0 ? "which table or figure? --list names them"
                                                                : "more than one table or figure");
    rc_status status = read_settings(value, arguments[0], &s);
    if (status != RC_OK)
        return rc_wrong_settings(&rc_command_reproduce, status);
    if (value[PLAN].given) {
        status = print_plan(&s);
        return status == RC_OK ? RC_EXIT_DONE : rc_failed(NULL, status);
    }
    if (value[MERGE].repeats > 0) {
        int foreign, code = end(&s, value, merge(&value[MERGE], &s, &foreign));
        return code == RC_EXIT_DONE && foreign > 0 ? RC_EXIT_FAILED : code;
    }
    if (value[DATA].repeats == 0)
        return rc_wrong_usage(&rc_command_reproduce, "where are the images? --data PATH says it");
    char *line = rc_command_line(&rc_command_reproduce, value, arguments[0]);
    s.run.command_line = line;
    int code = line != NULL ? reproduce(value, &s) : rc_failed(NULL, RC_OUT_OF_MEMORY);
    free(line);
    return code;
}

static const char *name_at(int index)
{
    const rc_artefact *artefact = rc_artefact_at(index);
    return artefact != NULL ? artefact->name : NULL;
}

const rc_command rc_command_reproduce = {
    .name = "reproduce",
    .summary = "Runs what a table or figure of the paper takes, and prints it.",
    .arguments = "NAME",
    .argument_at = name_at,
    .details =
        "NAME is a table or figure (--list). Cells that are done are skipped, and a stopped run goes on where it\n"
        "was. Names share the folder of --out, and the cells that they have in common. Several machines fill one\n"
        "folder with a --shard each, or folders of their own, which --merge joins. A run with --scale below 1\n"
        "takes a folder of its own: it shows that everything works, and its numbers mean nothing.",
    .examples = "  recollect reproduce --list\n"
                "  recollect reproduce table-ablation --data cifar-100-binary --backend cuda\n"
                "  recollect reproduce table-ablation --data cifar-100-binary --scale 0.02 --out try\n"
                "  recollect reproduce table-cost --data cifar100=c --data tiny-imagenet=t --plan\n"
                "  recollect reproduce table-debias --data c --shard 2/3 --out machine-2\n"
                "  recollect reproduce table-debias --merge machine-2 --merge machine-3",
    .option = options,
    .options = OPTIONS,
    .run = run,
};
