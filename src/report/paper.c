#include "report/paper.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "cil/methods.h"

const rc_paper_row *rc_paper_find(const char *dataset, int tasks, const char *method)
{
    for (const rc_paper_row *row = rc_paper; row->dataset != NULL; row++)
        if (row->tasks == tasks && strcmp(row->dataset, dataset) == 0 && strcmp(row->method, method) == 0)
            return row;
    return NULL;
}

const char *rc_paper_title(const rc_paper_row *row)
{
    const rc_method *method;
    if (strcmp(row->method, RC_PAPER_RDFCIL) == 0)
        return RC_PAPER_RDFCIL_TITLE;
    return rc_method_find(row->method, &method) == RC_OK ? method->title : row->method;
}

const rc_paper_dkl_row *rc_paper_dkl_find(const char *losses)
{
    for (const rc_paper_dkl_row *row = rc_paper_dkl; row->losses != NULL; row++)
        if (strcmp(row->losses, losses) == 0)
            return row;
    return NULL;
}

double rc_paper_cost_find(const char *dataset, int tasks, const char *method)
{
    for (const rc_paper_cost_row *row = rc_paper_cost; row->dataset != NULL; row++)
        if (row->tasks == tasks && strcmp(row->dataset, dataset) == 0 && strcmp(row->method, method) == 0)
            return row->over_er;
    return NAN;
}
