#include "cli/inside/watch_chart.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ACROSS = 2, DOWN = 4 }; /* dots of a character */

static int clamp(int value, int low, int high)
{
    return value < low ? low : value > high ? high : value;
}

rc_chart rc_chart_make(int columns, int rows, bool braille)
{
    return (rc_chart){.columns = clamp(columns - RC_CHART_AXIS, 1, RC_CHART_COLUMNS),
                      .rows = clamp(rows, 1, RC_CHART_ROWS),
                      .braille = braille,
                      .right = 1,
                      .high = 1};
}

/* Which of `count` places from `low` to `high`; -1: none. */
static int place(double value, double low, double high, int count)
{
    double at = (value - low) / (high - low) * count;
    if (!(at >= 0 && at <= count))
        return -1;
    return at < count ? (int)at : count - 1;
}

static double height(const rc_chart *c, double y)
{
    return c->logarithmic ? log(y) : y;
}

/* Counted from the top. */
static int row_of(const rc_chart *c, double y, int rows)
{
    int from_below = place(height(c, y), height(c, c->low), height(c, c->high), rows);
    return from_below < 0 ? -1 : rows - 1 - from_below;
}

static void put_dot(rc_chart *c, int x, int y)
{
    static const unsigned char bit[DOWN][ACROSS] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    if (x >= 0 && y >= 0)
        c->dot[y / DOWN][x / ACROSS] |= bit[y % DOWN][x % ACROSS];
}

void rc_chart_line(rc_chart *c, double x0, double y0, double x1, double y1)
{
    int from = place(x0, c->left, c->right, ACROSS * c->columns),
        to = place(x1, c->left, c->right, ACROSS * c->columns);
    int begin = row_of(c, y0, DOWN * c->rows), end = row_of(c, y1, DOWN * c->rows);
    if (from < 0 || to < 0 || begin < 0 || end < 0)
        return;
    int across = to > from ? to - from : from - to, down = end > begin ? end - begin : begin - end;
    int dots = across > down ? across : down;
    for (int i = 0; i <= dots; i++) {
        double part = dots > 0 ? (double)i / dots : 0;
        put_dot(c, (int)lround(from + part * (to - from)), (int)lround(begin + part * (end - begin)));
    }
}

void rc_chart_mark(rc_chart *c, double x, double y, char letter)
{
    int column = place(x, c->left, c->right, c->columns), row = row_of(c, y, c->rows);
    if (column >= 0 && row >= 0)
        c->mark[row][column] = letter;
}

/* The value in the midst of a row. */
static double value_of(const rc_chart *c, int row)
{
    double low = height(c, c->low), high = height(c, c->high);
    double value = low + (high - low) * (c->rows - row - 0.5) / c->rows;
    return c->logarithmic ? exp(value) : value;
}

static size_t write_dots(const rc_chart *c, unsigned char dots, char text[4])
{
    enum { UPPER = 0x01 | 0x08 | 0x02 | 0x10 };
    if (c->braille && dots != 0) /* U+2800 and a bit for each dot */
        return (size_t)snprintf(text, 4, "\xE2%c%c", 0xA0 | dots >> 6, 0x80 | (dots & 0x3F));
    text[0] = dots == 0 ? ' ' : (dots & UPPER) == 0 ? '.' : (dots & ~UPPER) == 0 ? '\'' : ':';
    return 1;
}

void rc_chart_row(const rc_chart *c, int row, char text[RC_CHART_BYTES])
{
    bool told = row == 0 || row == c->rows - 1 || row == c->rows / 2;
    size_t used;
    if (told)
        used = (size_t)snprintf(text, RC_CHART_BYTES, "%7.3g |", value_of(c, row));
    else
        used = (size_t)snprintf(text, RC_CHART_BYTES, "%7s |", "");
    used = used < RC_CHART_AXIS ? used : RC_CHART_AXIS;
    for (int i = 0; i < c->columns; i++) {
        if (c->mark[row][i] != 0)
            text[used++] = c->mark[row][i];
        else
            used += write_dots(c, c->dot[row][i], text + used);
    }
    text[used] = '\0';
}
