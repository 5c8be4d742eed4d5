/* Tables of pictures and their classes as text: lines "path,class". */
#ifndef RC_DATA_CSV_LIST_H
#define RC_DATA_CSV_LIST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "data/set_part.h"

typedef struct rc_csv_list {
    struct rc_csv_row {
        const char *path, *class_name; /* in the text */
        rc_set_part part;              /* RC_SET_PARTS: the table does not say */
        int line;                      /* where it begins, from 1 on */
    } * row;                           /* (count) */
    int count;
    bool no_classes; /* it has no column of them, and so no rows here */
} rc_csv_list;

/* Reads the table. Its first line may name the columns. If a column has the name and the values of one that says which
 * part of the set a picture belongs to, all its values must be names of parts. Lines with nothing but separators are
 * skipped. Fields are separated by commas, semicolons or tabs, whichever stands first, and may stand in quotes. text:
 * (size + 1), with a zero behind its end; it is changed, and the rows point into it. `name` is what messages call it.
 * On failure nothing is held. */
rc_status rc_csv_list_parse(const char *name, char *text, size_t size, rc_csv_list *list);
void rc_csv_list_free(rc_csv_list *list); /* a cleared one is fine */

#endif
