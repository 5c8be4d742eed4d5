/* The tables and figures of the paper, each as the cells that it takes: one method with its settings, on one data set
 * cut into so many tasks, in one class order. Tables share cells: CwD on CIFAR-100 in five tasks is run once for all
 * of them. */
#ifndef RC_REPRODUCE_ARTEFACT_H
#define RC_REPRODUCE_ARTEFACT_H

#include "config/config.h"
#include "experiment/experiment.h"

/* A table, a figure, or several of them. */
typedef struct rc_artefact {
    const char *name;     /* "table-ablation" */
    const char *summary;  /* what it is in the paper */
    const char *members;  /* "table-cifar100,..."; NULL: it is one itself */
    const char *analysis; /* what 'analyze' computes for it from its runs; NULL: the accuracies are all there is */
} rc_artefact;

/* NULL when there are no more. */
const rc_artefact *rc_artefact_at(int index);
/* RC_INVALID_ARGUMENT: there is none of that name; the message suggests the nearest. */
rc_status rc_artefact_find(const char *name, const rc_artefact **artefact);

/* A data set of the paper. Its presets, SET-5, SET-10 and SET-20, differ in the number of tasks alone. */
typedef struct rc_paper_set {
    const char *name;         /* "cifar100" */
    int classes, train, test; /* images of each class, of the smallest */
    int order[3], orders;     /* that the paper has */
    double cost;              /* of a step, as a multiple of CIFAR-100's */
} rc_paper_set;
enum { RC_PAPER_SETS = 3 };
const rc_paper_set *rc_paper_set_at(int index);  /* NULL when there are no more */
int rc_paper_set_index(const rc_paper_set *set); /* back */

/* A row of a table: a method, or a method with settings of its own. */
typedef struct rc_paper_line {
    const char *name, *title;
    const rc_method *method;
    const char *folder;   /* follows the preset's in the name of the run's folder; "": the runs of the plain preset */
    const char *settings; /* "weight_prior=0.001 diversity_epsilon=0"; "": the preset's */
    const char *paper;    /* its name among the paper's numbers (report/paper.h); "": there are none */
} rc_paper_line;
/* The row of that name; RC_INVALID_ARGUMENT: neither a method nor a row of the list. */
rc_status rc_paper_line_find(const char *name, rc_paper_line *line);

typedef struct rc_paper_cell {
    const rc_paper_set *set;
    int tasks, order;
    int stop_after; /* tasks that it runs; 0: all */
    rc_paper_line line;
    char folder[96]; /* "cifar100-5-published/order-0": of the run that it is a cell of */
    char path[144];  /* "cifar100-5-published/order-0/rdfcil" */
} rc_paper_cell;

/* Which cells; a list that is NULL takes all. */
typedef struct rc_cell_filter {
    const char *rows, *tasks, *orders; /* "cwd,rdfcil"; "5,10"; "0,1" */
    int most_orders;                   /* of every set; 0: all that the paper has */
    int shard, shards;                 /* the part 1 .. shards; shards 0: all */
} rc_cell_filter;

/* Cells in the order in which they are run: first all of the first class order. None is there twice. The cells of one
 * folder follow each other, so that they share a first task, and a shard has all of them or none. */
typedef struct rc_cell_list {
    rc_paper_cell *cell;
    int cells;
} rc_cell_list;
rc_status rc_cell_list_create(const rc_artefact *artefact, const rc_cell_filter *filter, rc_cell_list *list);
void rc_cell_list_free(rc_cell_list *list); /* a cleared one is fine */

/* The first cell behind those of the folder that cell i is in. */
int rc_cell_list_folder_end(const rc_cell_list *list, int i);
/* "cwd,rdfcil": methods of the cells i to end - 1, of those alone that `which` has; NULL: all. */
void rc_cell_list_methods(const rc_cell_list *list, int i, int end, const bool *which, char *text, size_t size);

/* Everything that the cell is run with, except where the data lies. scale: see shrink.h. */
rc_status rc_paper_cell_config(const rc_paper_cell *cell, double scale, rc_config *config);

#endif
