#include "report/table.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"

struct rc_table_column {
    rc_column_kind kind;
    size_t head, key; /* in texts */
};

struct rc_table_cell {
    size_t text; /* in texts */
    double value, deviation;
    int mark;
};

static size_t keep(rc_table *table, const char *foreign)
{
    size_t at = table->texts.used;
    rc_text_bytes(&table->texts, foreign, strlen(foreign) + 1);
    return at;
}

static const char *kept(const rc_table *table, size_t at)
{
    return table->texts.bytes + at;
}

/* Room for one more item of an array; false: there is none. */
static bool make_room(rc_table *table, void **items, int used, int *room, size_t size)
{
    if (table->texts.status != RC_OK)
        return false;
    if (used < *room)
        return true;
    int more = 2 * used + 32;
    void *grown = rc_alloc_zeroed(NULL, (size_t)more, size);
    if (grown == NULL) {
        table->texts.status = RC_OUT_OF_MEMORY;
        return false;
    }
    if (used > 0)
        memcpy(grown, *items, (size_t)used * size);
    rc_free(NULL, *items);
    *items = grown;
    *room = more;
    return true;
}

void rc_table_begin(rc_table *table, const char *name, const char *caption)
{
    *table = (rc_table){.name = name};
    table->caption = keep(table, caption);
}

void rc_table_column_add(rc_table *table, const char *head, const char *key, rc_column_kind kind)
{
    void *items = table->column;
    if (!make_room(table, &items, table->columns, &table->column_room, sizeof *table->column))
        return;
    table->column = items;
    rc_table_column column = {.kind = kind};
    column.head = keep(table, head);
    column.key = keep(table, key);
    table->column[table->columns++] = column;
}

void rc_table_columns_add(rc_table *table, const rc_table_head *columns, int count)
{
    for (int i = 0; i < count; i++)
        rc_table_column_add(table, columns[i].head, columns[i].key, columns[i].kind);
}

static void add_cell(rc_table *table, const char *text, double value, double deviation)
{
    void *items = table->cell;
    if (!make_room(table, &items, table->cells, &table->cell_room, sizeof *table->cell))
        return;
    table->cell = items;
    rc_table_cell cell = {.value = value, .deviation = deviation, .mark = table->next_mark};
    cell.text = keep(table, text);
    table->cell[table->cells++] = cell;
    table->next_mark = 0;
}

void rc_table_text(rc_table *table, const char *foreign)
{
    add_cell(table, foreign, NAN, NAN);
}

void rc_table_number(rc_table *table, double value)
{
    add_cell(table, "", value, NAN);
}

void rc_table_spread(rc_table *table, double value, double deviation)
{
    add_cell(table, "", value, deviation);
}

void rc_table_mark(rc_table *table, int colour)
{
    table->next_mark = colour;
}

int rc_table_rows(const rc_table *table)
{
    return table->columns > 0 ? table->cells / table->columns : 0;
}

void rc_table_free(rc_table *table)
{
    rc_free(NULL, table->column);
    rc_free(NULL, table->cell);
    rc_text_free(&table->texts);
    *table = (rc_table){0};
}

/* ---- cells ------------------------------------------------------------------------------------------------------- */

static const char dash[] = "\xE2\x80\x93", plus_minus[] = "\xC2\xB1", minus[] = "\xE2\x88\x92";

/* Two digits behind the point, unless there are too many before it. */
static void write_real(double value, rc_text *out)
{
    rc_text_format(out, fabs(value) < 1e6 ? "%.2f" : "%.4g", value);
}

/* A number for people; `before` and `after` stand around its deviation. */
static void write_number(const rc_table_cell *cell, rc_column_kind kind, const char *before, const char *after,
                         rc_text *out)
{
    if (isnan(cell->value)) {
        rc_text_add(out, dash);
        return;
    }
    switch (kind) {
    case RC_COLUMN_COUNT: rc_text_format(out, "%.0f", cell->value); return;
    case RC_COLUMN_SECONDS: rc_text_duration(out, cell->value); return;
    case RC_COLUMN_BYTES: rc_text_size(out, cell->value); return;
    case RC_COLUMN_DIFFERENCE:
        rc_text_format(out, "%s%.2f", cell->value < -0.005 ? minus : cell->value < 0.005 ? "" : "+", fabs(cell->value));
        return;
    default: write_real(cell->value, out); break;
    }
    if (!isnan(cell->deviation)) {
        rc_text_add(out, before);
        rc_text_format(out, " %s ", plus_minus);
        write_real(cell->deviation, out);
        rc_text_add(out, after);
    }
}

static bool has_deviation(rc_column_kind kind)
{
    return kind == RC_COLUMN_PERCENT || kind == RC_COLUMN_SPREAD;
}

static const rc_table_cell *cell_at(const rc_table *table, int row, int column)
{
    return &table->cell[row * table->columns + column];
}

/* ---- HTML -------------------------------------------------------------------------------------------------------- */

enum { LONG_TEXT = 32 }; /* bytes: a longer one is wrapped */

static void write_html_cell(const rc_table *table, int row, int i, rc_text *out)
{
    const rc_table_cell *cell = cell_at(table, row, i);
    rc_column_kind kind = table->column[i].kind;
    if (kind == RC_COLUMN_TEXT) {
        const char *text = kept(table, cell->text);
        rc_text_format(out, "<%s class=\"words%s\">", i == 0 ? "th scope=\"row\"" : "td",
                       strlen(text) > LONG_TEXT ? " long" : "");
        if (cell->mark > 0)
            rc_text_format(out, "<i class=\"dot c%d\"></i>", cell->mark);
        rc_text_add(out, "<bdi>");
        rc_text_html(out, text, RC_TEXT_WHOLE);
        rc_text_add(out, i == 0 ? "</bdi></th>" : "</bdi></td>");
        return;
    }
    rc_text_add(out, "<td");
    if (!isnan(cell->value))
        rc_text_format(out, kind == RC_COLUMN_COUNT ? " data-v=\"%.0f\"" : " data-v=\"%.6g\"", cell->value);
    if (kind == RC_COLUMN_DIFFERENCE && !isnan(cell->value))
        rc_text_format(out, " class=\"%s\"", fabs(cell->value) <= 2 ? "near" : cell->value > 0 ? "above" : "below");
    if (kind == RC_COLUMN_PERCENT && !isnan(cell->value))
        rc_text_format(out, " class=\"bar\" style=\"--P:%.1f%%\"", cell->value);
    rc_text_add(out, ">");
    write_number(cell, kind, "<small>", "</small>", out);
    rc_text_add(out, "</td>");
}

static void write_html(const rc_table *table, rc_text *out)
{
    rc_text_add(out, "<div class=\"sheet\"><h4>");
    rc_text_html(out, kept(table, table->caption), RC_TEXT_WHOLE);
    rc_text_format(out, "</h4><div class=\"scroll\"><table class=\"%s\"><thead><tr>", table->name);
    for (int i = 0; i < table->columns; i++) {
        rc_text_format(out, "<th scope=\"col\"%s><bdi>",
                       table->column[i].kind == RC_COLUMN_TEXT ? " class=\"words\"" : "");
        rc_text_html(out, kept(table, table->column[i].head), 40);
        rc_text_add(out, "</bdi></th>");
    }
    rc_text_add(out, "</tr></thead><tbody>\n");
    for (int row = 0; row < rc_table_rows(table); row++) {
        rc_text_add(out, "<tr>");
        for (int i = 0; i < table->columns; i++)
            write_html_cell(table, row, i, out);
        rc_text_add(out, "</tr>\n");
    }
    rc_text_add(out, "</tbody></table></div></div>\n");
}

/* ---- Markdown, LaTeX --------------------------------------------------------------------------------------------- */

typedef void escape(rc_text *text, const char *foreign);

static void write_plain_row(const rc_table *table, int row, const char *between, escape *foreign, rc_text *out)
{
    for (int i = 0; i < table->columns; i++) {
        rc_text_add(out, i > 0 ? between : "");
        if (row < 0)
            foreign(out, kept(table, table->column[i].head));
        else if (table->column[i].kind == RC_COLUMN_TEXT)
            foreign(out, kept(table, cell_at(table, row, i)->text));
        else
            write_number(cell_at(table, row, i), table->column[i].kind, "", "", out);
    }
}

static void write_markdown(const rc_table *table, rc_text *out)
{
    rc_text_add(out, "### ");
    rc_text_markdown(out, kept(table, table->caption));
    rc_text_add(out, "\n\n");
    for (int row = -1; row < rc_table_rows(table); row++) {
        rc_text_add(out, "| ");
        write_plain_row(table, row, " | ", rc_text_markdown, out);
        rc_text_add(out, " |\n");
        for (int i = 0; row < 0 && i < table->columns; i++)
            rc_text_format(out, "%s%s%s", i == 0 ? "| " : " ",
                           table->column[i].kind == RC_COLUMN_TEXT ? "--- |" : "---: |",
                           i + 1 == table->columns ? "\n" : "");
    }
}

/* booktabs' rules. The signs (dash, plus-minus, minus) are UTF-8, which LaTeX reads since 2018 except for the minus. */
static void write_latex(const rc_table *table, rc_text *out)
{
    rc_text_add(out, "\\begin{table}\n\\centering\n\\caption{");
    rc_text_latex(out, kept(table, table->caption));
    rc_text_add(out, "}\n\\begin{tabular}{");
    for (int i = 0; i < table->columns; i++)
        rc_text_add(out, table->column[i].kind == RC_COLUMN_TEXT ? "l" : "r");
    rc_text_add(out, "}\n\\toprule\n");
    for (int row = -1; row < rc_table_rows(table); row++) {
        write_plain_row(table, row, " & ", rc_text_latex, out);
        rc_text_add(out, row < 0 ? " \\\\\n\\midrule\n" : " \\\\\n");
    }
    rc_text_add(out, "\\bottomrule\n\\end{tabular}\n\\end{table}\n");
}

/* ---- CSV --------------------------------------------------------------------------------------------------------- */

static void write_csv_number(double value, rc_column_kind kind, rc_text *out)
{
    if (!isnan(value))
        rc_text_format(out, kind == RC_COLUMN_COUNT ? "%.0f" : "%.10g", value);
}

/* A foreign name, such as that of a method with its settings. */
static void write_csv_head(const char *key, bool deviates, rc_text *out)
{
    char deviation[RC_MESSAGE_SIZE];
    rc_text_csv(out, key);
    if (!deviates)
        return;
    snprintf(deviation, sizeof deviation, "%.900s deviation", key);
    rc_text_add(out, ",");
    rc_text_csv(out, deviation);
}

static void write_csv(const rc_table *table, rc_text *out)
{
    for (int row = -1; row < rc_table_rows(table); row++) {
        for (int i = 0; i < table->columns; i++) {
            const char *key = kept(table, table->column[i].key);
            const rc_table_cell *cell = row >= 0 ? cell_at(table, row, i) : NULL;
            bool deviates = has_deviation(table->column[i].kind);
            rc_text_add(out, i > 0 ? "," : "");
            if (cell == NULL && key[strspn(key, "abcdefghijklmnopqrstuvwxyz0123456789_")] == '\0') {
                rc_text_format(out, "%.200s", key);
                if (deviates)
                    rc_text_format(out, ",%.200s_deviation", key);
            } else if (cell == NULL) {
                write_csv_head(key, deviates, out);
            } else if (table->column[i].kind == RC_COLUMN_TEXT) {
                rc_text_csv(out, kept(table, cell->text));
            } else {
                write_csv_number(cell->value, table->column[i].kind, out);
                rc_text_add(out, deviates ? "," : "");
                if (deviates)
                    write_csv_number(cell->deviation, table->column[i].kind, out);
            }
        }
        rc_text_add(out, "\n");
    }
}

void rc_table_write(const rc_table *table, rc_report_format format, rc_text *out)
{
    if (out->status == RC_OK)
        out->status = table->texts.status;
    if (out->status != RC_OK)
        return;
    switch (format) {
    case RC_REPORT_HTML: write_html(table, out); break;
    case RC_REPORT_MARKDOWN: write_markdown(table, out); break;
    case RC_REPORT_LATEX: write_latex(table, out); break;
    case RC_REPORT_CSV: write_csv(table, out); break;
    }
}
