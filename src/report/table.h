/* A table, once, for four formats: HTML (sortable), Markdown, LaTeX and CSV. */
#ifndef RC_REPORT_TABLE_H
#define RC_REPORT_TABLE_H

#include "report/text.h"

typedef enum rc_report_format { RC_REPORT_HTML, RC_REPORT_MARKDOWN, RC_REPORT_LATEX, RC_REPORT_CSV } rc_report_format;

/* What the cells of a column are, and so how they are written. CSV has plain numbers: seconds, bytes, and the deviation
 * in a column of its own, KEY_deviation. */
typedef enum rc_column_kind {
    RC_COLUMN_TEXT,
    RC_COLUMN_COUNT,
    RC_COLUMN_NUMBER,     /* two digits behind the point; from a million on four digits in all */
    RC_COLUMN_PERCENT,    /* value and deviation, with a bar of that length on a page */
    RC_COLUMN_SPREAD,     /* value and deviation */
    RC_COLUMN_DIFFERENCE, /* with its sign */
    RC_COLUMN_SECONDS,
    RC_COLUMN_BYTES
} rc_column_kind;

/* head: what people read, which may be foreign. key: its name in CSV, of the program's own, or foreign, too. */
typedef struct rc_table_head {
    const char *head, *key;
    rc_column_kind kind;
} rc_table_head;

typedef struct rc_table_column rc_table_column;
typedef struct rc_table_cell rc_table_cell;

/* Starts cleared. Columns first, then cells row by row; the first failure sticks in texts.status. */
typedef struct rc_table {
    const char *name; /* "accuracy": what a caller asks for */
    rc_text texts;    /* captions, heads and cells of foreign text, each with its zero byte */
    size_t caption;   /* where in it */
    rc_table_column *column;
    rc_table_cell *cell;
    int columns, column_room, cells, cell_room;
    int next_mark; /* the colour of the row that begins next; 0: none */
} rc_table;

void rc_table_begin(rc_table *table, const char *name, const char *caption);
void rc_table_column_add(rc_table *table, const char *head, const char *key, rc_column_kind kind);
void rc_table_columns_add(rc_table *table, const rc_table_head *columns, int count);
void rc_table_text(rc_table *table, const char *foreign);
void rc_table_number(rc_table *table, double value);                   /* NaN: not known */
void rc_table_spread(rc_table *table, double value, double deviation); /* deviation NaN: there is none */
void rc_table_mark(rc_table *table, int colour);                       /* before a row: 1, 2, ... */
int rc_table_rows(const rc_table *table);
void rc_table_write(const rc_table *table, rc_report_format format, rc_text *out);
void rc_table_free(rc_table *table);

#endif
