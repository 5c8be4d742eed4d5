/* Drawing: SVG that takes its colours from the page (page.css), so that it is readable in light, dark and print.
 * Lengths are in units of the drawing, which is RC_SVG_WIDTH wide and about as many pixels on a screen. */
#ifndef RC_REPORT_SVG_H
#define RC_REPORT_SVG_H

#include "report/text.h"

enum { RC_SVG_WIDTH = 520, RC_SVG_NAME = 60 }; /* characters of a name that a hint shows */

/* A figure with its caption, both of the program's own words: begin, draw, end. */
void rc_svg_begin(rc_text *out, double height, const char *title, const char *words);
void rc_svg_end(rc_text *out);

/* Text from outside at a point. class: of page.css ("soft", "end", "middle"); most: characters. */
void rc_svg_text(rc_text *out, double x, double y, const char *class, const char *foreign, int most);
void rc_svg_number(rc_text *out, double x, double y, const char *class, const char *format, double value)
    __attribute__((format(printf, 5, 0)));
void rc_svg_line(rc_text *out, double x1, double y1, double x2, double y2, const char *class);

/* The inside of a plot: numbers from low to high along both axes. */
typedef struct rc_plot {
    double left, top, width, height;
    double x_low, x_high, y_low, y_high;
} rc_plot;

/* The larger number; `value` may be NaN. (fmax does the same, but not in valgrind on every machine.) */
static inline double rc_larger(double largest, double value)
{
    return value > largest ? value : largest;
}

double rc_plot_x(const rc_plot *plot, double x);
double rc_plot_y(const rc_plot *plot, double y); /* upwards */

/* A step between lines of a grid (1, 2 or 5 times a power of ten) that cuts `range` into at most `most` parts. */
double rc_nice_step(double range, int most);
/* Horizontal lines of a grid with their numbers; vertical ones likewise. */
void rc_plot_grid_y(rc_text *out, const rc_plot *plot, double step);
void rc_plot_grid_x(rc_text *out, const rc_plot *plot, double step);

#endif
