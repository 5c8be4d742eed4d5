/* Tables for people: a line is put together cell by cell, each in a column of its own, at its right end; a
 * negative width: at its left end. */
#ifndef RC_ANALYSIS_TABLE_H
#define RC_ANALYSIS_TABLE_H

#include <stddef.h>

typedef void rc_analysis_line(void *user, const char *text);

typedef struct rc_row {
    char text[1024]; /* what is longer is cut */
    size_t used;
} rc_row;

void rc_row_text(rc_row *row, int width, const char *text);
/* A number with so many digits behind the point; "-" for NaN. */
void rc_row_number(rc_row *row, int width, int digits, double number);
/* Hands out the line and begins the next. */
void rc_row_end(rc_row *row, rc_analysis_line *line, void *user);

#endif
