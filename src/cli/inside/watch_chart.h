/* Curves as text: lines of a terminal, with dots of braille where it can show them, else of ASCII. */
#ifndef RC_CLI_INSIDE_WATCH_CHART_H
#define RC_CLI_INSIDE_WATCH_CHART_H

#include <stdbool.h>

enum { RC_CHART_COLUMNS = 200, RC_CHART_ROWS = 16, RC_CHART_AXIS = 9 };

typedef struct rc_chart {
    int columns, rows; /* of the field of dots: at least 1, at most as above */
    bool braille;
    double left, right, low, high; /* of the field; left < right, low < high */
    bool logarithmic;              /* upwards; low > 0 */
    unsigned char dot[RC_CHART_ROWS][RC_CHART_COLUMNS];
    char mark[RC_CHART_ROWS][RC_CHART_COLUMNS]; /* a letter in place of dots; 0: none */
} rc_chart;

/* A chart of so many columns, the axis at its left included, and rows. Values that are not finite are not drawn. */
rc_chart rc_chart_make(int columns, int rows, bool braille);
/* From one point to another; the same point twice is a dot. */
void rc_chart_line(rc_chart *chart, double x0, double y0, double x1, double y1);
void rc_chart_mark(rc_chart *chart, double x, double y, char letter);
/* Row 0 is the top one. The text, its axis included, takes RC_CHART_AXIS columns more than the field at most. */
enum { RC_CHART_BYTES = 3 * RC_CHART_COLUMNS + RC_CHART_AXIS + 1 };
void rc_chart_row(const rc_chart *chart, int row, char text[RC_CHART_BYTES]);

#endif
