/* How far long work is: one live line on a terminal, plain lines elsewhere. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"

static bool verbose;

void rc_progress_verbose(bool on)
{
    verbose = on;
}

/* ---- the terminal ------------------------------------------------------------------------------------------------ */

/* Is stderr a terminal that can overwrite a line? */
static bool is_live(void)
{
    const char *kind = getenv("TERM");
    return isatty(STDERR_FILENO) && kind != NULL && kind[0] != '\0' && strcmp(kind, "dumb") != 0;
}

/* Columns that a line may have without wrapping, now: the window may have been resized. */
static int line_columns(void)
{
    return rc_terminal_columns(STDERR_FILENO, 80) - 1;
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* ---- its parts --------------------------------------------------------------------------------------------------- */

enum { PART_SIZE = 512 };

/* "1:40", "2:03:10". */
static void write_time(double seconds, char *text, size_t size)
{
    long whole = seconds < 1e8 ? (long)(seconds + 0.5) : 100000000;
    if (whole >= 3600)
        snprintf(text, size, "%ld:%02ld:%02ld", whole / 3600, whole / 60 % 60, whole % 60);
    else
        snprintf(text, size, "%ld:%02ld", whole / 60, whole % 60);
}

/* The part of all work that is done; of the images, while they are read or scored. */
static double fraction_of(const recollect_progress *p)
{
    if (p->fraction >= 0)
        return p->fraction < 1 ? p->fraction : 1;
    return p->steps > 0 ? (double)p->step / p->steps : 0;
}

static void write_left(const recollect_progress *p, char *text)
{
    char time[32];
    text[0] = '\0';
    if (!(p->seconds_left >= 0))
        return;
    write_time(p->seconds_left, time, sizeof time);
    snprintf(text, PART_SIZE, "%s left", time);
}

static void write_rate(const recollect_progress *p, char *text)
{
    text[0] = '\0';
    if (p->images_per_second > 0)
        snprintf(text, PART_SIZE, "%.*f images/s", p->images_per_second < 10, p->images_per_second);
}

/* "training, epoch 3/60"; steps where there are no epochs, as in "inversion 20/500"; "" where several runs are shown
 * at once. */
static void write_stage(const recollect_progress *p, char *text)
{
    text[0] = '\0';
    if (p->epochs > 0)
        snprintf(text, PART_SIZE, "%s, epoch %d/%d", p->stage_name, p->epoch + 1, p->epochs);
    else if (p->steps > 0)
        snprintf(text, PART_SIZE, "%s %u/%u", p->stage_name, (unsigned)p->step, (unsigned)p->steps);
}

static void write_losses(const recollect_progress *p, char *text)
{
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < p->loss_count && used < PART_SIZE; i++)
        used += (size_t)snprintf(text + used, PART_SIZE - used, "%s%s %.3g", i > 0 ? ", " : "", p->losses[i].name,
                                 p->losses[i].value);
}

/* ---- a line ------------------------------------------------------------------------------------------------------ */

/* A line that grows, and how many columns are left in it. */
typedef struct line {
    char text[4 * PART_SIZE];
    size_t used;
    int room;
} line;

/* Appends a part after two blanks, if there is room for all of it. */
static void add_part(line *l, const char *part)
{
    const char *between = l->used > 0 ? "  " : "";
    int columns = rc_columns(part) + (int)strlen(between);
    size_t bytes = strlen(part) + strlen(between);
    if (part[0] == '\0' || columns > l->room || l->used + bytes >= sizeof l->text)
        return;
    snprintf(l->text + l->used, sizeof l->text - l->used, "%s%s", between, part);
    l->used += bytes;
    l->room -= columns;
}

/* The same for as much of it as there is room for. */
static void add_cut(line *l, const char *part)
{
    enum { WORTH_SHOWING = 12 };
    char cut[PART_SIZE];
    snprintf(cut, sizeof cut, "%s", part);
    if (l->room < WORTH_SHOWING)
        return;
    rc_cut_columns(cut, l->room - 2);
    add_part(l, cut);
}

/* What a person wants to know comes first: how far it is, how long it takes, how fast it goes, what it does. Losses
 * follow only where all of them fit, or were asked for. */
static void lay_out(const char *where, const recollect_progress *p, int columns, line *l)
{
    enum { NARROWEST_BAR = 6, WIDEST_BAR = 40 };
    char part[PART_SIZE], bar[WIDEST_BAR + 3];
    double fraction = fraction_of(p);
    int width = columns / 6 < NARROWEST_BAR ? NARROWEST_BAR : columns / 6 > WIDEST_BAR ? WIDEST_BAR : columns / 6;
    *l = (line){.room = columns};
    bar[0] = '[';
    for (int i = 0; i < width; i++)
        bar[1 + i] = i < (int)(fraction * width) ? '#' : '-';
    bar[1 + width] = ']';
    bar[2 + width] = '\0';
    snprintf(part, sizeof part, "%s %3.0f %%", bar, floor(100 * fraction));
    add_part(l, part);
    write_left(p, part);
    add_part(l, part);
    write_rate(p, part);
    add_part(l, part);
    write_stage(p, part);
    add_part(l, part);
    write_losses(p, part);
    if (verbose)
        add_cut(l, part);
    add_cut(l, where);
    if (!verbose)
        add_part(l, part);
}

/* The same as a plain line: "CwD, task 2 of 5, training, epoch 3/60: 45 % of all, 1:40 left, 4210 images/s".
 * "Of all", because the stage has a share of its own, which comes first. */
static void write_plain(const char *where, const recollect_progress *p)
{
    char stage[PART_SIZE], left[PART_SIZE], rate[PART_SIZE], losses[PART_SIZE] = "";
    write_stage(p, stage);
    write_left(p, left);
    write_rate(p, rate);
    if (verbose)
        write_losses(p, losses);
    rc_note("%s%s%s: %.0f %%%s%s%s%s%s%s%s", where, where[0] != '\0' && stage[0] != '\0' ? ", " : "", stage,
            floor(100 * fraction_of(p)), p->fraction >= 0 ? " of all" : "", left[0] != '\0' ? ", " : "", left,
            rate[0] != '\0' ? ", " : "", rate, losses[0] != '\0' ? ", " : "", losses);
}

static void show_line(char *text)
{
    rc_cut_columns(text, line_columns());
    rc_put_live(text);
}

void rc_show_progress(void *unused, const char *text)
{
    (void)unused;
    char shown[PART_SIZE];
    if (!is_live())
        return;
    recollect_escape(text, shown, sizeof shown);
    show_line(shown);
}

void rc_tell_progress(void *unused, const char *where, const recollect_progress *p)
{
    static const double between_lines = 10, between_looks = 0.1;
    static double last;
    bool trains = p->stage != RECOLLECT_STAGE_READING;
    bool live = is_live(), ends = p->steps > 0 && p->step == p->steps && (live || trains);
    char place[PART_SIZE];
    double time = now();
    (void)unused;
    if (last == 0)
        last = live ? -INFINITY : time;
    if (!ends && time - last < (live ? between_looks : between_lines))
        return;
    last = time;
    recollect_escape(where, place, sizeof place); /* names of runs may come from outside */
    if (live) {
        line l;
        lay_out(place, p, line_columns(), &l);
        show_line(l.text);
    } else {
        write_plain(place, p);
    }
}
