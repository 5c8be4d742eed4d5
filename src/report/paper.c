#include "report/paper.h"

#include <stddef.h>
#include <string.h>

const rc_paper_row *rc_paper_find(const char *dataset, int tasks, const char *method)
{
    for (const rc_paper_row *row = rc_paper; row->dataset != NULL; row++)
        if (row->tasks == tasks && strcmp(row->dataset, dataset) == 0 && strcmp(row->method, method) == 0)
            return row;
    return NULL;
}
