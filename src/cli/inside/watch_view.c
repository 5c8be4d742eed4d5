#include "cli/inside/watch_view.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/inside/watch_chart.h"
#include "forecast/progress.h"

enum { LINE_SIZE = 2048, FIELD_SIZE = 512 };
static const double long_silence = 120; /* seconds: evaluating a model may take as long */

/* ---- what a cell does -------------------------------------------------------------------------------------------- */

typedef enum state { BEGINS, WORKS, IS_SILENT, IS_DONE, HAS_STOPPED, HAS_FAILED } state;

static state state_of(const rc_seen_cell *c, double now)
{
    if (strcmp(c->end, "failed") == 0)
        return HAS_FAILED;
    if ((c->tasks > 0 && c->done >= c->tasks) || strcmp(c->end, "done") == 0)
        return IS_DONE;
    if (c->end[0] != '\0')
        return HAS_STOPPED;
    if (c->stage[0] == '\0' && c->done == 0)
        return BEGINS;
    return now - c->time > long_silence ? IS_SILENT : WORKS;
}

int rc_view_choose(const rc_overview *run, double now)
{
    for (int i = 0; i < run->cells; i++)
        if (state_of(run->cell[i], now) == WORKS && run->cell[i]->stage[0] != '\0')
            return i;
    int last = run->cells - 1;
    while (last > 0 && run->cell[last]->first_task)
        last--;
    return last;
}

static double part_done(const rc_seen_cell *c, state s)
{
    if (s == IS_DONE)
        return 1;
    return c->total_steps > 0 && c->total_step > 0 ? fmin((double)c->total_step / (double)c->total_steps, 1) : 0;
}

/* ---- a line of the table ----------------------------------------------------------------------------------------- */

typedef enum field { NAME, TASK, STAGE, BAR, PART, STATE, ACCURACY, RATE, FIELDS } field;

static const char *const titles[FIELDS] = {"", "task", "stage", "", "", "", "accuracy", ""};

static void write_state(const rc_seen_cell *c, state s, double now, char *text)
{
    static const char *const words[] = {
        [BEGINS] = "begins", [IS_DONE] = "done", [HAS_STOPPED] = "stopped", [HAS_FAILED] = "failed"};
    char time[32];
    if (s != WORKS && s != IS_SILENT) {
        snprintf(text, FIELD_SIZE, "%s", words[s]);
        return;
    }
    double since = fmax(now - c->time, 0);
    rc_duration_text(s == WORKS ? fmax(c->left - since, 0) : since, time, sizeof time);
    if (s == IS_SILENT)
        snprintf(text, FIELD_SIZE, "silent %s", time);
    else
        snprintf(text, FIELD_SIZE, "%s%s", isnan(c->left) ? "" : time, isnan(c->left) ? "" : " left");
}

/* Text that may come from outside, so that no terminal obeys it, and a table stays one. */
static void write_escaped(const char *from, char *text)
{
    recollect_escape(from, text, FIELD_SIZE);
}

static char letter_of(int index)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    return index < (int)sizeof letters - 1 ? letters[index] : '*';
}

static void write_field(const rc_view *v, int index, field f, char *text)
{
    enum { BAR_COLUMNS = 10 };
    const rc_seen_cell *c = v->run->cell[index];
    state s = state_of(c, v->now);
    double part = part_done(c, s);
    char stage[FIELD_SIZE];
    int task = c->stage[0] != '\0' && c->task > c->done ? c->task : c->done;
    text[0] = '\0';
    switch (f) {
    case NAME: {
        char name[FIELD_SIZE];
        write_escaped(c->name, name);
        snprintf(text, FIELD_SIZE, "%c%c %.500s", index == v->selected ? '>' : ' ', letter_of(index), name);
        break;
    }
    case TASK:
        if (c->tasks > 0)
            snprintf(text, FIELD_SIZE, "%d/%d", task, c->tasks);
        else
            snprintf(text, FIELD_SIZE, "%d", task);
        break;
    case STAGE:
        write_escaped(c->stage, stage);
        if (c->epochs > 0 && (s == WORKS || s == IS_SILENT))
            snprintf(text, FIELD_SIZE, "%.400s %d/%d", stage, c->epoch + 1, c->epochs);
        else if (stage[0] != '\0' && (s == WORKS || s == IS_SILENT))
            snprintf(text, FIELD_SIZE, "%.400s %lld/%lld", stage, (long long)c->step, (long long)c->steps);
        break;
    case BAR:
        for (int i = 0; i < BAR_COLUMNS; i++)
            snprintf(text + i, 2, "%c", i < (int)(part * BAR_COLUMNS) ? '#' : '-');
        break;
    case PART: snprintf(text, FIELD_SIZE, "%3.0f %%", floor(100 * part)); break;
    case STATE: write_state(c, s, v->now, text); break;
    case ACCURACY:
        if (c->done > 0 && !isnan(c->accuracy[c->done - 1]))
            snprintf(text, FIELD_SIZE, "%.2f %%", c->accuracy[c->done - 1]);
        break;
    default:
        if (s == WORKS && c->images_per_second > 0)
            snprintf(text, FIELD_SIZE, "%.0f images/s", fmin(c->images_per_second, 1e12));
        break;
    }
}

static void emit(const rc_view *v, char *text)
{
    rc_cut_columns(text, v->columns);
    v->line(v->user, text);
}

/* Appends as many bytes as fit. */
static size_t append(char *line, size_t used, const char *text)
{
    int length = used < LINE_SIZE ? snprintf(line + used, LINE_SIZE - used, "%s", text) : 0;
    used += length > 0 ? (size_t)length : 0;
    return used < LINE_SIZE ? used : LINE_SIZE - 1;
}

/* Which fields there is room for, and how wide each is: what a person wants to know first comes first. */
static void measure(const rc_view *v, int width[FIELDS])
{
    static const field order[FIELDS] = {NAME, PART, STATE, TASK, ACCURACY, STAGE, BAR, RATE};
    char text[FIELD_SIZE];
    int room = v->columns;
    for (int f = 0; f < FIELDS; f++) {
        width[f] = 0;
        for (int i = 0; i < v->run->cells; i++) {
            write_field(v, i, (field)f, text);
            width[f] = rc_columns(text) > width[f] ? rc_columns(text) : width[f];
        }
        if (width[f] > 0 && width[f] < rc_columns(titles[f]))
            width[f] = rc_columns(titles[f]);
    }
    if (width[NAME] > v->columns * 2 / 5)
        width[NAME] = v->columns * 2 / 5;
    for (int i = 0; i < FIELDS; i++) {
        field f = order[i];
        int takes = width[f] + (f == NAME ? 0 : 2);
        if (takes > room)
            width[f] = 0;
        else if (width[f] > 0)
            room -= takes;
    }
}

static void show_row(const rc_view *v, const int width[FIELDS], int index)
{
    char line[LINE_SIZE] = "", text[FIELD_SIZE], padded[FIELD_SIZE + 256];
    size_t used = 0;
    for (int f = 0; f < FIELDS; f++) {
        if (width[f] == 0)
            continue;
        if (index >= 0)
            write_field(v, index, (field)f, text);
        else
            snprintf(text, sizeof text, "%s", titles[f]);
        rc_cut_columns(text, width[f]);
        used = append(line, used, f == NAME ? "" : "  ");
        used = append(line, used, rc_column(text, width[f], padded, sizeof padded));
    }
    while (used > 0 && line[used - 1] == ' ')
        line[--used] = '\0';
    emit(v, line);
}

/* The table, with `most` cells around the selected one. */
static void show_cells(const rc_view *v, int most)
{
    int width[FIELDS], cells = v->run->cells, first = 0;
    measure(v, width);
    if (cells > most) {
        first = v->selected - most / 2;
        first = first < 0 ? 0 : first > cells - most ? cells - most : first;
    }
    show_row(v, width, -1);
    for (int i = first; i < cells && i < first + most; i++)
        show_row(v, width, i);
}

/* ---- curves ------------------------------------------------------------------------------------------------------ */

typedef struct block {
    char title[FIELD_SIZE], axis[FIELD_SIZE];
    rc_chart chart;
} block;

/* Accuracies of all cells after every task. */
static bool draw_accuracies(const rc_view *v, int columns, int rows, block *b)
{
    double low = INFINITY, high = -INFINITY;
    int tasks = 1;
    for (int i = 0; i < v->run->cells; i++)
        for (int t = 0; t < v->run->cell[i]->done && !v->run->cell[i]->first_task; t++) {
            low = fmin(low, v->run->cell[i]->accuracy[t]);
            high = fmax(high, v->run->cell[i]->accuracy[t]);
            tasks = v->run->cell[i]->tasks > tasks ? v->run->cell[i]->tasks : tasks;
            tasks = t + 1 > tasks ? t + 1 : tasks;
        }
    if (!(low <= high))
        return false;
    b->chart = rc_chart_make(columns, rows, v->braille);
    b->chart.low = fmax(10 * floor(low / 10), 0);
    b->chart.high = fmin(10 * floor(high / 10) + 10, 100);
    if (b->chart.high <= b->chart.low)
        b->chart.low = b->chart.high - 10;
    b->chart.left = 0.5;
    b->chart.right = tasks + 0.5;
    for (int i = 0; i < v->run->cells; i++) {
        const rc_seen_cell *c = v->run->cell[i];
        for (int t = 0; t < c->done && !c->first_task; t++) {
            if (t > 0)
                rc_chart_line(&b->chart, t, c->accuracy[t - 1], t + 1, c->accuracy[t]);
            rc_chart_mark(&b->chart, t + 1, c->accuracy[t], letter_of(i));
        }
    }
    snprintf(b->title, sizeof b->title, "accuracy in %% after every task");
    snprintf(b->axis, sizeof b->axis, "tasks 1 to %d", tasks);
    return true;
}

static bool draw_losses(const rc_view *v, const rc_loss_curve *curve, int columns, int rows, block *b)
{
    double low = INFINITY, high = -INFINITY;
    for (int i = 0; i < curve->points; i++) {
        low = fmin(low, curve->loss[i]);
        high = fmax(high, curve->loss[i]);
    }
    if (curve->stage[0] == '\0' || curve->points < 2 || !(low <= high))
        return false;
    b->chart = rc_chart_make(columns, rows, v->braille);
    b->chart.logarithmic = low > 0 && high > 20 * low;
    double least = fmax(1e-12, 1e-6 * fabs(low)); /* so that a flat curve has a height */
    b->chart.low = high - low > least ? low : low - least;
    b->chart.high = high - low > least ? high : high + least;
    b->chart.right = fmax((double)curve->steps, 1);
    for (int i = 0; i < curve->points; i++) {
        int before = i > 0 ? i - 1 : 0;
        rc_chart_line(&b->chart, curve->step[before], curve->loss[before], curve->step[i], curve->loss[i]);
    }
    char stage[FIELD_SIZE];
    write_escaped(curve->stage, stage);
    snprintf(b->title, sizeof b->title, "%c: loss of task %d, %.100s%s", letter_of(v->selected), curve->task, stage,
             b->chart.logarithmic ? ", logarithmic" : "");
    snprintf(b->axis, sizeof b->axis, "steps 0 to %lld", (long long)curve->steps);
    return true;
}

/* One block, or two beside each other, `columns` each. */
static void show_blocks(const rc_view *v, const block *b, int count, int columns)
{
    char line[LINE_SIZE], text[RC_CHART_BYTES], padded[LINE_SIZE];
    int rows = b[0].chart.rows;
    for (int row = -1; row <= rows; row++) {
        size_t used = 0;
        line[0] = '\0';
        for (int i = 0; i < count; i++) {
            if (row >= 0 && row < rows)
                rc_chart_row(&b[i].chart, row, text);
            else if (row < 0)
                snprintf(text, sizeof text, "%.*s", FIELD_SIZE - 1, b[i].title);
            else
                snprintf(text, sizeof text, "%*s%.*s", RC_CHART_AXIS, "", FIELD_SIZE - 1, b[i].axis);
            rc_cut_columns(text, columns);
            used = append(line, used, i + 1 < count ? rc_column(text, columns + 2, padded, sizeof padded) : text);
        }
        while (used > 0 && line[used - 1] == ' ')
            line[--used] = '\0';
        emit(v, line);
    }
}

enum { MOST_BLOCKS = 1 + RC_CELL_CURVES };

/* Accuracies, then losses of the selected cell, the stage at hand first; `most` of them. Returns how many. */
static int draw_blocks(const rc_view *v, int most, int columns, int rows, block *blocks)
{
    int count = draw_accuracies(v, columns, rows, &blocks[0]);
    for (int i = 0; i < RC_CELL_CURVES && count < most; i++)
        count += draw_losses(v, &v->run->cell[v->selected]->curve[i], columns, rows, &blocks[count]);
    return count;
}

/* Of a curve; what stands around it. */
enum { LEAST_ROWS = 3, MOST_ROWS = 10, AROUND = 3 };

/* As many curves as there is room for. */
static void show_curves(const rc_view *v, int rows)
{
    enum { LEAST_COLUMNS = 48 };
    static block blocks[MOST_BLOCKS];
    int beside = v->columns >= 2 * LEAST_COLUMNS + 2 ? 2 : 1, columns = (v->columns - 2 * (beside - 1)) / beside;
    int count = draw_blocks(v, MOST_BLOCKS, columns, 1, blocks), high = 0;
    for (; count > 0 && high < LEAST_ROWS; count -= high < LEAST_ROWS)
        high = rows / ((count + beside - 1) / beside) - AROUND;
    if (count > 0)
        draw_blocks(v, count, columns, high < MOST_ROWS ? high : MOST_ROWS, blocks);
    for (int i = 0; i < count; i += beside) {
        char nothing[] = "";
        emit(v, nothing);
        show_blocks(v, blocks + i, count - i < beside ? count - i : beside, columns);
    }
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

/* "a: ce 0.53, hkd 0.21; rate 0.1; 41.3 MB". Returns how many lines. */
static int show_numbers(const rc_view *v)
{
    char line[LINE_SIZE], text[FIELD_SIZE], name[FIELD_SIZE];
    const rc_seen_cell *c = v->run->cell[v->selected];
    if (c->losses == 0)
        return 0;
    size_t used = (size_t)snprintf(line, sizeof line, "%c:", letter_of(v->selected));
    for (int i = 0; i < c->losses; i++) {
        write_escaped(c->loss[i].name, name);
        snprintf(text, sizeof text, "%s %.100s %.3g", i > 0 ? "," : "", name, c->loss[i].value);
        used = append(line, used, text);
    }
    if (!isnan(c->learning_rate)) {
        snprintf(text, sizeof text, "; rate %.3g", c->learning_rate);
        used = append(line, used, text);
    }
    if (c->memory > 0 && c->memory < 1e18) {
        rc_bytes_text((size_t)c->memory, name, sizeof name);
        snprintf(text, sizeof text, "; %.100s", name);
        used = append(line, used, text);
    }
    (void)used;
    emit(v, line);
    return 1;
}

static bool has_message(const rc_view *v, int index)
{
    const rc_seen_cell *c = v->run->cell[index];
    return c->message[0] != '\0' && state_of(c, v->now) != IS_DONE;
}

/* Why cells have failed or stopped. Returns how many lines. */
static int show_messages(const rc_view *v, int most)
{
    char line[LINE_SIZE], text[FIELD_SIZE];
    int shown = 0;
    for (int i = 0; i < v->run->cells && shown < most; i++) {
        if (!has_message(v, i))
            continue;
        write_escaped(v->run->cell[i]->message, text);
        snprintf(line, sizeof line, "%c: %s", letter_of(i), text);
        emit(v, line);
        shown++;
    }
    return shown;
}

enum { MOST_MESSAGES = 3 };

/* How many cells are shown in `room` lines. Where they would leave no line for a curve they get a half of the screen,
 * or more if what is left then is too little for a curve. */
static int cells_shown(const rc_view *v, int room)
{
    int below = v->run->cell[v->selected]->losses > 0, half = v->rows / 2, messages = 0;
    for (int i = 0; i < v->run->cells && messages < MOST_MESSAGES; i++)
        messages += has_message(v, i);
    below += messages;
    if (v->rows == 0 || room <= half || v->run->cells <= half)
        return room;
    return room - half - below >= LEAST_ROWS + AROUND || room - below < half ? half : room - below;
}

void rc_view_show(const rc_view *v)
{
    enum { HEAD = 2, UNLIMITED = 60, FOOT = 1 };
    char line[LINE_SIZE], name[FIELD_SIZE];
    int cells = v->run->cells, done = 0, rows = v->rows > 0 ? v->rows : UNLIMITED + cells;
    for (int i = 0; i < cells; i++)
        done += state_of(v->run->cell[i], v->now) == IS_DONE;
    write_escaped(v->run->folder, name);
    snprintf(line, sizeof line, "%s: %d cell%s, %d done", name, cells, cells == 1 ? "" : "s", done);
    if (cells == 0)
        snprintf(line, sizeof line, "%s: no cell has begun", name);
    emit(v, line);
    if (cells == 0)
        return;
    int most = cells_shown(v, rows - HEAD - FOOT);
    show_cells(v, most > 1 ? most : 1);
    int left = rows - HEAD - FOOT - (cells < most ? cells : most);
    left -= show_messages(v, left < MOST_MESSAGES ? left : MOST_MESSAGES);
    if (left > 0)
        left -= show_numbers(v);
    show_curves(v, left);
}
