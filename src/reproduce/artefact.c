#include "reproduce/artefact.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/nearest.h"
#include "report/paper.h"
#include "reproduce/shrink.h"

/* ---- what the paper has ---------------------------------------------------------------------------------------- */

static const rc_paper_set sets[RC_PAPER_SETS] = {
    {.name = "cifar100", .classes = 100, .train = 500, .test = 100, .order = {0, 1, 2}, .orders = 3, .cost = 1},
    {.name = "tiny-imagenet", .classes = 200, .train = 500, .test = 50, .order = {0, 1, 2}, .orders = 3, .cost = 8},
    {.name = "imagenet100", .classes = 100, .train = 1300, .test = 50, .order = {1993}, .orders = 1, .cost = 80},
};

#define TABLES  "table-cifar100,table-tiny-imagenet,table-imagenet100"
#define FIGURES "fig-5tasks,fig-debias,fig-parameters,fig-norm,fig-gradients"

static const rc_artefact artefacts[] = {
    {"table-cifar100", "Table 1: accuracy on CIFAR-100", NULL, NULL},
    {"table-tiny-imagenet", "Table 2: accuracy on Tiny-ImageNet", NULL, NULL},
    {"table-imagenet100", "Table 3: accuracy on ImageNet-100", NULL, NULL},
    {"table-debias", "Table 4: other remedies for bias, CIFAR-100", NULL, NULL},
    {"table-ablation", "Table 5: CwD without its parts, CIFAR-100", NULL, NULL},
    {"table-dkl", "Table 6: how far dreams are from real images, by loss", NULL, "dkl"},
    {"table-cost", "Table 7: time as a multiple of ER's", NULL, "cost"},
    {"fig-5tasks", "Figure 3: norms of the head's rows, R-DFCIL", NULL, "norms"},
    {"fig-debias", "Figure 4: these norms with remedies for bias", NULL, "norms"},
    {"fig-parameters", "Figure 5: lambda_dce and lambda_war", NULL, NULL},
    {"fig-norm", "Figure 6: these norms in two tasks, four schemes", NULL, "norms"},
    {"fig-gradients", "Figure 7: direction of the head's gradients", NULL, "gradient"},
    {"published", "R-DFCIL, ABD, DeepInversion as their own code has them", NULL, NULL},
    {"table-plus", "CwD+ beside CwD, and without each of its parts", NULL, NULL},
    {"table-strong", "CwD+ and others in the strong recipe", NULL, NULL},
    {"table-main", "Tables 1, 2 and 3", TABLES, NULL},
    {"figures", "all figures that have data", FIGURES, NULL},
    {"all", "all that the paper has, and 'published'",
     TABLES ",table-debias,table-ablation,table-dkl,table-cost," FIGURES ",published", NULL},
};

/* Settings of ABD's own code, which also made the published figures of DeepInversion (docs/methods/abd.md). */
#define ABD_CODE \
    "net=resnet32-abd epochs=250 refine_epochs=0 milestone=100,150,200 weight_decay=2e-4 inversion_steps=10000 " \
    "weight_prior=0.001 diversity_epsilon=0"
/* Two tasks, and no losses but those that a scheme is named after. */
#define SCHEME "paper_no_refinement=true lambda_rkd=0 lambda_dce=0"

typedef struct line_row {
    const char *name, *title, *method, *folder, *settings, *paper;
} line_row;

static const line_row lines[] = {
    {RC_PAPER_RDFCIL, RC_PAPER_RDFCIL_TITLE, "rdfcil", "-published", RC_PAPER_RDFCIL_SETTINGS, RC_PAPER_RDFCIL},
    {"abd-published", "ABD, own code's", "abd", "-published-abd", ABD_CODE, ""},
    {"deepinversion-published", "DeepInversion*", "deepinversion", "-published-abd", ABD_CODE, "deepinversion"},
    {"cwd-dce-0.01", "CwD, dce 0.01", "cwd", "-dce-0.01", "lambda_dce=0.01", ""},
    {"cwd-dce-0.02", "CwD, dce 0.02", "cwd", "-dce-0.02", "lambda_dce=0.02", ""},
    {"cwd-dce-0.1", "CwD, dce 0.1", "cwd", "-dce-0.1", "lambda_dce=0.1", ""},
    {"cwd-dce-0.2", "CwD, dce 0.2", "cwd", "-dce-0.2", "lambda_dce=0.2", ""},
    {"cwd-war-0.02", "CwD, war 0.02", "cwd", "-war-0.02", "lambda_war=0.02", ""},
    {"cwd-war-0.05", "CwD, war 0.05", "cwd", "-war-0.05", "lambda_war=0.05", ""},
    {"cwd-war-0.2", "CwD, war 0.2", "cwd", "-war-0.2", "lambda_war=0.2", ""},
    {"cwd-war-0.5", "CwD, war 0.5", "cwd", "-war-0.5", "lambda_war=0.5", ""},
    {"scheme-dreams-hkd", "(a) dreams HKD", "rdfcil", "-schemes", SCHEME, ""},
    {"scheme-real-lce", "(b) real LCE", "real-lce", "-schemes", SCHEME, ""},
    {"scheme-real-hkd", "(c) real HKD", "real-hkd", "-schemes", SCHEME, ""},
    {"scheme-dreams-lce", "(d) dreams LCE", "sce", "-schemes", SCHEME, ""},
    {"cwd+-without-drawn", "CwD+ without drawn", "cwd+", "-without-drawn", "plus_drawn=0", ""},
    {"cwd+-without-moved", "CwD+ without moved", "cwd+", "-without-moved", "plus_statistics=dreams", ""},
    {"cwd+-without-turned", "CwD+ without turned", "cwd+", "-without-turned", "rotations=off", ""},
    {"cwd+-without-second", "CwD+ without second", "cwd+", "-without-second", "generators=1", ""},
};

#define BUFFERS "er,er-5120,lode,lode-5120"
#define DREAMS  "abd,rdfcil-published,rdfcil,cwd-abd,cwd"
#define RECIPES "finetune,rdfcil,cwd,cwd+,joint"
#define ALL     "cifar100,tiny-imagenet,imagenet100"

/* Settings that all rows of a piece have in place of their own. */
typedef struct recipe {
    const char *folder, *settings;
} recipe;
/* docs/methods/cwd-plus.md: many small tasks need turned images in all of them. */
#define VARIED "trivial=true cutout=8 cosine=true test_mirror=true test_shift=2 epochs=300 "
static const recipe strong = {"-strong", VARIED "rotations=first"}, strong_20 = {"-strong", VARIED "rotations=all"};

/* Data sets, numbers of tasks and rows of which an artefact takes every combination. */
static const struct {
    const char *artefact, *sets, *tasks, *rows;
    int orders, stop_after; /* how many orders, at most; tasks to run, 0: all */
    const recipe *recipe;   /* NULL: each row has its own settings */
} pieces[] = {
    {"table-cifar100", "cifar100", "5,10,20", "dgr," BUFFERS ",lwf,deepinversion," DREAMS, 3, 0, NULL},
    {"table-tiny-imagenet", "tiny-imagenet", "5,10,20", BUFFERS "," DREAMS, 3, 0, NULL},
    {"table-imagenet100", "imagenet100", "5,10,20", BUFFERS "," DREAMS, 1, 0, NULL},
    {"table-debias", "cifar100", "5,10,20", "sce,ace,ssil,wa,cwd", 3, 0, NULL},
    {"table-ablation", "cifar100", "5,10,20", "rdfcil,cwd-without-dce,cwd-without-war,cwd", 3, 0, NULL},
    {"table-dkl", "cifar100", "2", "cwd", 1, 1, NULL},
    {"table-cost", ALL, "5,10,20", "er,rdfcil,cwd", 1, 0, NULL},
    {"fig-5tasks", "cifar100", "5", "rdfcil", 1, 0, NULL},
    {"fig-debias", "cifar100", "5", "ace,ssil,wa,cwd", 1, 0, NULL},
    {"fig-parameters", "cifar100", "5,10,20",
     "cwd-dce-0.01,cwd-dce-0.02,cwd,cwd-dce-0.1,cwd-dce-0.2,cwd-war-0.02,cwd-war-0.05,cwd-war-0.2,cwd-war-0.5", 3, 0,
     NULL},
    {"fig-norm", ALL, "2", "scheme-dreams-hkd,scheme-real-lce,scheme-real-hkd,scheme-dreams-lce", 1, 0, NULL},
    {"fig-gradients", "cifar100", "2", "scheme-dreams-lce", 1, 0, NULL},
    {"published", "cifar100", "5,10,20", "rdfcil-published,abd-published,deepinversion-published", 3, 0, NULL},
    {"table-plus", "cifar100", "5,10,20", "cwd,cwd+", 3, 0, NULL},
    {"table-plus", "cifar100", "5", "cwd+-without-drawn,cwd+-without-moved,cwd+-without-turned,cwd+-without-second", 1,
     0, NULL},
    {"table-plus", "tiny-imagenet", "5", "cwd,cwd+", 1, 0, NULL},
    {"table-strong", "cifar100", "5,10", RECIPES, 3, 0, &strong},
    {"table-strong", "cifar100", "20", RECIPES, 3, 0, &strong_20},
};
enum { PIECES = sizeof pieces / sizeof *pieces, MOST_ORDERS = 3 };

const rc_paper_set *rc_paper_set_at(int index)
{
    return index >= 0 && index < RC_PAPER_SETS ? &sets[index] : NULL;
}

int rc_paper_set_index(const rc_paper_set *set)
{
    return (int)(set - sets);
}

const rc_artefact *rc_artefact_at(int index)
{
    return index >= 0 && index < (int)(sizeof artefacts / sizeof *artefacts) ? &artefacts[index] : NULL;
}

static const char *artefact_name(const void *unused, int index)
{
    (void)unused;
    const rc_artefact *artefact = rc_artefact_at(index);
    return artefact != NULL ? artefact->name : NULL;
}

rc_status rc_artefact_find(const char *name, const rc_artefact **artefact)
{
    for (int i = 0; (*artefact = rc_artefact_at(i)) != NULL; i++)
        if (strcmp((*artefact)->name, name) == 0)
            return RC_OK;
    const char *nearest = rc_nearest(name, artefact_name, NULL);
    return rc_fail(RC_INVALID_ARGUMENT, "the paper has no '%s'%s%s%s", name, nearest != NULL ? "; did you mean '" : "",
                   nearest != NULL ? nearest : "", nearest != NULL ? "'?" : ": the setting 'list' names all there is");
}

rc_status rc_paper_line_find(const char *name, rc_paper_line *line)
{
    const rc_method *method = NULL;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (strcmp(lines[i].name, name) == 0) {
            RC_TRY(rc_method_find(lines[i].method, &method));
            *line = (rc_paper_line){lines[i].name,   lines[i].title,    method,
                                    lines[i].folder, lines[i].settings, lines[i].paper};
            return RC_OK;
        }
    RC_TRY(rc_method_find(name, &method));
    *line = (rc_paper_line){method->name, method->title, method, "", "", method->name};
    return RC_OK;
}

/* ---- lists ------------------------------------------------------------------------------------------------------ */

/* The next word of a list that commas separate; false: there is none. */
static bool next_word(const char **list, char *word, size_t size)
{
    if (**list == '\0')
        return false;
    size_t length = strcspn(*list, ",");
    snprintf(word, size, "%.*s", (int)length, *list);
    *list += length + ((*list)[length] == ',');
    return true;
}

/* Is the word in the list? A list that is NULL has all. */
static bool is_listed(const char *list, const char *word)
{
    char entry[64];
    if (list == NULL)
        return true;
    while (next_word(&list, entry, sizeof entry))
        if (strcmp(entry, word) == 0)
            return true;
    return false;
}

static bool is_listed_number(const char *list, int number)
{
    char text[16];
    snprintf(text, sizeof text, "%d", number);
    return is_listed(list, text);
}

/* ---- expanding -------------------------------------------------------------------------------------------------- */

typedef struct expansion {
    const rc_cell_filter *filter;
    rc_paper_cell *cell;
    int cells, room;
} expansion;

static bool is_there(const expansion *x, const char *path)
{
    for (int i = 0; i < x->cells; i++)
        if (strcmp(x->cell[i].path, path) == 0)
            return true;
    return false;
}

static rc_status add_cell(expansion *x, int piece, const rc_paper_set *set, int tasks, int order, const char *row)
{
    rc_paper_cell cell = {.set = set, .tasks = tasks, .order = order, .stop_after = pieces[piece].stop_after};
    RC_TRY(rc_paper_line_find(row, &cell.line));
    if (pieces[piece].recipe != NULL) {
        cell.line.folder = pieces[piece].recipe->folder;
        cell.line.settings = pieces[piece].recipe->settings;
        cell.line.paper = "";
    }
    snprintf(cell.folder, sizeof cell.folder, "%s-%d%s/order-%d", set->name, tasks, cell.line.folder, order);
    snprintf(cell.path, sizeof cell.path, "%s/%s", cell.folder, cell.line.method->name);
    if (is_there(x, cell.path))
        return RC_OK;
    if (x->cells == x->room) {
        int room = 2 * x->room + 64;
        rc_paper_cell *more = rc_alloc_zeroed(NULL, (size_t)room, sizeof *more);
        if (more == NULL)
            return RC_OUT_OF_MEMORY;
        if (x->cells > 0)
            memcpy(more, x->cell, (size_t)x->cells * sizeof *more);
        rc_free(NULL, x->cell);
        x->cell = more;
        x->room = room;
    }
    x->cell[x->cells++] = cell;
    return RC_OK;
}

/* Every combination of a piece on the set, in its class order number `index`. */
static rc_status add_piece(expansion *x, int piece, const rc_paper_set *set, int index)
{
    char tasks[16], row[64];
    int order = set->order[index];
    for (const char *t = pieces[piece].tasks; next_word(&t, tasks, sizeof tasks);)
        for (const char *r = pieces[piece].rows; next_word(&r, row, sizeof row);)
            if (is_listed(x->filter->tasks, tasks) && is_listed(x->filter->rows, row) &&
                is_listed_number(x->filter->orders, order))
                RC_TRY(add_cell(x, piece, set, (int)strtol(tasks, NULL, 10), order, row));
    return RC_OK;
}

static bool has_order(const expansion *x, int piece, const rc_paper_set *set, int index)
{
    int most = x->filter->most_orders;
    return index < set->orders && index < pieces[piece].orders && (most == 0 || index < most);
}

static rc_status expand(expansion *x, const rc_artefact *artefact)
{
    for (int index = 0; index < MOST_ORDERS; index++)
        for (int p = 0; p < PIECES; p++)
            for (int s = 0; s < RC_PAPER_SETS; s++)
                if (is_listed(artefact->members != NULL ? artefact->members : artefact->name, pieces[p].artefact) &&
                    is_listed(pieces[p].sets, sets[s].name) && has_order(x, p, &sets[s], index))
                    RC_TRY(add_piece(x, p, &sets[s], index));
    return RC_OK;
}

/* Cells of one folder together, at the place of its first. */
static rc_status gather_folders(expansion *x)
{
    rc_paper_cell *sorted = rc_alloc_zeroed(NULL, (size_t)x->cells + 1, sizeof *sorted);
    int count = 0;
    if (sorted == NULL)
        return RC_OUT_OF_MEMORY;
    for (int i = 0; i < x->cells; i++)
        for (int k = i; k < x->cells && x->cell[i].set != NULL; k++)
            if (x->cell[k].set != NULL && strcmp(x->cell[k].folder, x->cell[i].folder) == 0) {
                sorted[count++] = x->cell[k];
                if (k > i)
                    x->cell[k].set = NULL; /* taken */
            }
    rc_free(NULL, x->cell);
    x->cell = sorted;
    return RC_OK;
}

/* About how long a cell takes. A task more costs another inversion, while the images are the same. */
static double cost_of(const rc_paper_cell *cell)
{
    return cell->set->cost * (8 + cell->tasks);
}

/* Keeps the shard: whole folders, of which each goes to the part that its middle falls into. */
static void keep_shard(expansion *x)
{
    double all = 0, before = 0;
    const rc_cell_list list = {.cell = x->cell, .cells = x->cells};
    int kept = 0;
    for (int i = 0; i < x->cells; i++)
        all += cost_of(&x->cell[i]);
    for (int i = 0, next; i < x->cells; i = next) {
        double cost = 0;
        next = rc_cell_list_folder_end(&list, i);
        for (int k = i; k < next; k++)
            cost += cost_of(&x->cell[k]);
        int part = 1 + (int)((before + cost / 2) / all * x->filter->shards);
        if (part == x->filter->shard) {
            memmove(&x->cell[kept], &x->cell[i], (size_t)(next - i) * sizeof *x->cell);
            kept += next - i;
        }
        before += cost;
    }
    x->cells = kept;
}

/* Every entry of a filter is one that some cell has: a typing error must not run less than was meant. */
static rc_status check_list(const char *list, const rc_artefact *artefact, const char *what,
                            bool (*has)(const rc_paper_cell *cell, const char *word), const expansion *x)
{
    char word[64];
    for (const char *p = list; p != NULL && next_word(&p, word, sizeof word);) {
        int i = 0;
        while (i < x->cells && !has(&x->cell[i], word))
            i++;
        if (i == x->cells)
            return rc_fail(RC_INVALID_ARGUMENT, "%s has no %s '%s'", artefact->name, what, word);
    }
    return RC_OK;
}

static bool has_row(const rc_paper_cell *cell, const char *word)
{
    return strcmp(cell->line.name, word) == 0;
}

static bool has_tasks(const rc_paper_cell *cell, const char *word)
{
    return is_listed_number(word, cell->tasks);
}

static bool is_of_order(const rc_paper_cell *cell, const char *word)
{
    return is_listed_number(word, cell->order);
}

static rc_status expand_filtered(expansion *x, const rc_artefact *artefact)
{
    const rc_cell_filter *filter = x->filter, none = {.most_orders = filter->most_orders};
    x->filter = &none;
    RC_TRY(expand(x, artefact));
    RC_TRY(check_list(filter->rows, artefact, "row", has_row, x));
    RC_TRY(check_list(filter->tasks, artefact, "number of tasks", has_tasks, x));
    RC_TRY(check_list(filter->orders, artefact, "class order", is_of_order, x));
    x->filter = filter;
    x->cells = 0;
    RC_TRY(expand(x, artefact));
    RC_TRY(gather_folders(x));
    if (filter->shards > 0)
        keep_shard(x);
    return RC_OK;
}

rc_status rc_cell_list_create(const rc_artefact *artefact, const rc_cell_filter *filter, rc_cell_list *list)
{
    expansion x = {.filter = filter};
    *list = (rc_cell_list){0};
    if (filter->shards < 0 || (filter->shards > 0 && (filter->shard < 1 || filter->shard > filter->shards)))
        return rc_fail(RC_INVALID_ARGUMENT, "there is no part %d of %d", filter->shard, filter->shards);
    rc_status status = expand_filtered(&x, artefact);
    if (status != RC_OK) {
        rc_free(NULL, x.cell);
        return status;
    }
    *list = (rc_cell_list){.cell = x.cell, .cells = x.cells};
    return RC_OK;
}

void rc_cell_list_free(rc_cell_list *list)
{
    rc_free(NULL, list->cell);
    *list = (rc_cell_list){0};
}

int rc_cell_list_folder_end(const rc_cell_list *list, int i)
{
    int end = i;
    while (end < list->cells && strcmp(list->cell[end].folder, list->cell[i].folder) == 0)
        end++;
    return end;
}

void rc_cell_list_methods(const rc_cell_list *list, int i, int end, const bool *which, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (; i < end && used < size; i++)
        if (which == NULL || which[i])
            used += (size_t)snprintf(text + used, size - used, "%s%s", used > 0 ? "," : "",
                                     list->cell[i].line.method->name);
}

/* ---- settings --------------------------------------------------------------------------------------------------- */

rc_status rc_paper_cell_config(const rc_paper_cell *cell, double scale, rc_config *config)
{
    char text[256];
    *config = rc_config_default();
    snprintf(text, sizeof text, "%s-5", cell->set->name);
    RC_TRY(rc_config_load(config, text, NULL));
    snprintf(text, sizeof text, "%d", cell->tasks);
    RC_TRY(rc_config_set(config, "tasks", text));
    snprintf(text, sizeof text, "%d", cell->order);
    RC_TRY(rc_config_set(config, "order", text));
    for (const char *p = cell->line.settings; *p != '\0';) {
        size_t length = strcspn(p, " ");
        snprintf(text, sizeof text, "%.*s", (int)length, p);
        RC_TRY(rc_config_set_pair(config, text));
        p += length + (p[length] == ' ');
    }
    rc_shrink_config(config, cell->set->train, cell->set->test, scale);
    return rc_config_check(config);
}
