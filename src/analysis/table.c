#include "analysis/table.h"

#include <math.h>
#include <stdio.h>

void rc_row_text(rc_row *row, int width, const char *text)
{
    if (row->used >= sizeof row->text)
        return;
    int put = snprintf(row->text + row->used, sizeof row->text - row->used, "%*s", width, text);
    row->used += put > 0 ? (size_t)put : 0;
}

void rc_row_number(rc_row *row, int width, int digits, double number)
{
    char text[400] = "-"; /* the longest double has 309 digits before the point */
    if (!isnan(number))
        snprintf(text, sizeof text, "%.*f", digits, number);
    rc_row_text(row, width, text);
}

void rc_row_end(rc_row *row, rc_analysis_line *line, void *user)
{
    line(user, row->text);
    row->text[0] = '\0';
    row->used = 0;
}
