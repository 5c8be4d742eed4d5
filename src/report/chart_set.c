/* Figures that compare methods. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "report/charts.h"
#include "report/svg.h"

/* ---- accuracy after each task ------------------------------------------------------------------------------------ */

/* One of several curves over tasks. */
typedef struct curve {
    const char *label;
    int colour;
    bool dashed;
    const rc_spread *point; /* every `stride`-th is of the next task */
    int stride, known;      /* known: tasks from the first on that have a number */
    double tag;             /* where its label stands */
} curve;

static curve make_curve(const char *label, const rc_spread *point, int stride, int tasks)
{
    curve c = {.label = label, .colour = 1, .point = point, .stride = stride};
    while (c.known < tasks && !isnan(point[c.known * stride].mean))
        c.known++;
    return c;
}

static const rc_spread *at(const curve *c, int task)
{
    return &c->point[task * c->stride];
}

/* What a hint says of a point. */
static void hint_of_point(const curve *c, int task, rc_text *out)
{
    const rc_spread *a = at(c, task);
    rc_text_add(out, "<title>");
    rc_text_html(out, c->label, RC_SVG_NAME);
    rc_text_format(out, " after task %d: %.2f", task + 1, a->mean);
    if (!isnan(a->deviation))
        rc_text_format(out, " \xC2\xB1 %.2f", a->deviation);
    rc_text_format(out, " %% (%d run%s)</title>", a->count, a->count == 1 ? "" : "s");
}

/* The ends of what lies around a mean. A deviation may reach beyond what an accuracy can be. */
static double upper(double mean, double deviation)
{
    return fmin(mean + deviation, 100);
}

static double lower(double mean, double deviation)
{
    return fmax(mean - deviation, 0);
}

/* The larger of `highest` and what is drawn of a mean; both may be NaN. */
static double highest_of(double highest, double mean, double deviation)
{
    return rc_larger(rc_larger(highest, mean), isnan(deviation) ? NAN : upper(mean, deviation));
}

/* The deviation as an area, where there is one. */
static void draw_band(const rc_plot *plot, const curve *c, rc_text *out)
{
    int end = 0;
    while (end < c->known && !isnan(at(c, end)->deviation))
        end++;
    if (end < 2)
        return;
    rc_text_format(out, "<path class=\"band c%d\" d=\"M", c->colour);
    for (int i = 0; i < end; i++)
        rc_text_format(out, "%s%.1f %.1f", i > 0 ? "L" : "", rc_plot_x(plot, i + 1),
                       rc_plot_y(plot, upper(at(c, i)->mean, at(c, i)->deviation)));
    for (int i = end - 1; i >= 0; i--)
        rc_text_format(out, "L%.1f %.1f", rc_plot_x(plot, i + 1),
                       rc_plot_y(plot, lower(at(c, i)->mean, at(c, i)->deviation)));
    rc_text_add(out, "z\"/>\n");
}

static int compare_curves(const void *a, const void *b)
{
    const curve *x = a, *y = b;
    return (x->tag > y->tag) - (x->tag < y->tag);
}

/* Moves labels apart, so that each has its line, between top and bottom. */
static void spread_tags(curve *curves, int count, double top, double bottom)
{
    enum { APART = 14 };
    qsort(curves, (size_t)count, sizeof *curves, compare_curves);
    for (int i = 0; i < count; i++) {
        double least = i > 0 ? curves[i - 1].tag + APART : top;
        curves[i].tag = curves[i].tag < least ? least : curves[i].tag;
    }
    for (int i = count - 1; i >= 0; i--) {
        double most = i + 1 < count ? curves[i + 1].tag - APART : bottom;
        curves[i].tag = curves[i].tag > most ? most : curves[i].tag;
    }
}

static void draw_curve(const rc_plot *plot, const curve *c, int tasks, rc_text *out)
{
    double right = plot->left + plot->width;
    char class[32];
    rc_text_add(out, "<g class=\"series\">\n");
    draw_band(plot, c, out);
    rc_text_format(out, "<path class=\"line%s c%d\" d=\"M", c->dashed ? " dash" : "", c->colour);
    for (int i = 0; i < c->known; i++)
        rc_text_format(out, "%s%.1f %.1f", i > 0 ? "L" : "", rc_plot_x(plot, i + 1), rc_plot_y(plot, at(c, i)->mean));
    rc_text_add(out, "\"/>\n");
    for (int i = 0; i < c->known; i++) {
        rc_text_format(out, "<circle class=\"point c%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"%d\">", c->colour,
                       rc_plot_x(plot, i + 1), rc_plot_y(plot, at(c, i)->mean), tasks > 12 ? 3 : 4);
        hint_of_point(c, i, out);
        rc_text_add(out, "</circle>\n");
    }
    rc_svg_line(out, rc_plot_x(plot, c->known) + 4, rc_plot_y(plot, at(c, c->known - 1)->mean), right + 10, c->tag,
                "leader");
    snprintf(class, sizeof class, "tag c%d", c->colour);
    rc_svg_text(out, right + 13, c->tag + 4, class, c->label, 16);
    rc_text_add(out, "</g>\n");
}

/* Sorts the curves; those without a point are left out. */
static void draw_curves(curve *curves, int count, int tasks, const char *title, const char *words, rc_text *out)
{
    double highest = 0, height = fmax(290, 14.0 * count + 60);
    int shown = 0;
    for (int i = 0; i < count; i++) {
        for (int k = 0; k < curves[i].known; k++)
            highest = highest_of(highest, at(&curves[i], k)->mean, at(&curves[i], k)->deviation);
        if (curves[i].known > 0)
            curves[shown++] = curves[i];
    }
    if (shown == 0 || tasks < 2)
        return;
    rc_plot plot = {.left = 34, .top = 14, .width = 342, .height = height - 60, .x_low = 1, .x_high = tasks};
    plot.y_high = fmin(100, ceil(highest / 10 + 0.2) * 10);
    for (int i = 0; i < shown; i++)
        curves[i].tag = rc_plot_y(&plot, at(&curves[i], curves[i].known - 1)->mean);
    spread_tags(curves, shown, plot.top + 4, plot.top + plot.height);
    rc_svg_begin(out, height, title, words);
    rc_plot_grid_y(out, &plot, plot.y_high > 50 ? 20 : 10);
    int every = (tasks + 11) / 12;
    for (int task = 1; task <= tasks; task += every)
        rc_svg_number(out, rc_plot_x(&plot, task), plot.top + plot.height + 18, "soft middle", "%.0f", task);
    rc_svg_text(out, plot.left + plot.width / 2, plot.top + plot.height + 36, "soft middle", "task", 10);
    for (int i = 0; i < shown; i++)
        draw_curve(&plot, &curves[i], tasks, out);
    rc_svg_end(out);
}

void rc_chart_accuracy(const rc_report_set *set, rc_text *out)
{
    curve *curves = rc_alloc_zeroed(NULL, (size_t)set->variants, sizeof *curves);
    if (curves == NULL) {
        out->status = RC_OUT_OF_MEMORY;
        return;
    }
    for (int i = 0; i < set->variants; i++) {
        const rc_report_variant *v = &set->variant[i];
        curves[i] = make_curve(v->label, v->accuracy, 1, set->tasks);
        curves[i].colour = v->colour;
        curves[i].dashed = v->dashed;
    }
    draw_curves(curves, set->variants, set->tasks, "Accuracy after each task",
                "in percent of all classes seen so far; the shade is the deviation over runs", out);
    rc_free(NULL, curves);
}

void rc_chart_ledger(const rc_report_set *set, const rc_report_variant *v, rc_text *out)
{
    curve curves[RC_LEDGER_COUNT];
    if (v->ledger == NULL)
        return;
    for (int i = 0; i < RC_LEDGER_COUNT; i++) {
        curves[i] = make_curve(rc_ledger_title(i), v->ledger + i, RC_LEDGER_COUNT, set->tasks);
        curves[i].colour = i + 1;
    }
    draw_curves(curves, RC_LEDGER_COUNT, set->tasks, "Where accuracy is lost",
                "other classifiers on the same features, after each task, in percent", out);
}

/* ---- two numbers of each method ---------------------------------------------------------------------------------- */

typedef struct pair {
    const char *label;
    int colour;
    double first, first_deviation, second, second_deviation;
} pair;

enum { PAIR_HEIGHT = 24 };

static void draw_whisker(const rc_plot *plot, double value, double deviation, double y, const char *class, rc_text *out)
{
    if (!isnan(deviation))
        rc_svg_line(out, rc_plot_x(plot, lower(value, deviation)), y, rc_plot_x(plot, upper(value, deviation)), y,
                    class);
}

static void hint_of_number(const pair *p, const char *what, double value, double deviation, rc_text *out)
{
    rc_text_add(out, "<title>");
    rc_text_html(out, p->label, RC_SVG_NAME);
    rc_text_format(out, ", %s: %.2f", what, value);
    if (!isnan(deviation))
        rc_text_format(out, " \xC2\xB1 %.2f", deviation);
    rc_text_add(out, " %</title>");
}

/* The first as a dot, the second as a diamond. what: what hints call them. */
static void draw_pair(const rc_plot *plot, const pair *p, double y, const char *const what[2], rc_text *out)
{
    char class[32];
    double x1 = rc_plot_x(plot, p->first), x2 = rc_plot_x(plot, p->second);
    rc_text_add(out, "<g class=\"series\">\n");
    rc_svg_text(out, plot->left - 10, y + 4, "name end", p->label, 18);
    if (!isnan(p->first) && !isnan(p->second))
        rc_svg_line(out, x1, y, x2, y, "link");
    snprintf(class, sizeof class, "whisker c%d", p->colour);
    if (!isnan(p->first)) {
        draw_whisker(plot, p->first, p->first_deviation, y, class, out);
        rc_text_format(out, "<circle class=\"point c%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"5\">", p->colour, x1, y);
        hint_of_number(p, what[0], p->first, p->first_deviation, out);
        rc_text_add(out, "</circle>\n");
    }
    if (!isnan(p->second)) {
        draw_whisker(plot, p->second, p->second_deviation, y, "whisker other", out);
        rc_text_format(out, "<path class=\"other\" d=\"M%.1f %.1fl8 8l-8 8l-8 -8z\">", x2, y - 8);
        hint_of_number(p, what[1], p->second, p->second_deviation, out);
        rc_text_add(out, "</path>\n");
    }
    rc_text_add(out, "</g>\n");
}

static void draw_pairs(const pair *pairs, int count, const char *title, const char *words, const char *const what[2],
                       rc_text *out)
{
    double highest = 0, height = PAIR_HEIGHT * count + 62;
    for (int i = 0; i < count; i++) {
        highest = highest_of(highest, pairs[i].first, pairs[i].first_deviation);
        highest = highest_of(highest, pairs[i].second, pairs[i].second_deviation);
    }
    rc_plot plot = {.left = 150, .top = 30, .width = RC_SVG_WIDTH - 170, .height = height - 58, .y_high = 1};
    plot.x_high = fmin(100, ceil(highest / 10 + 0.1) * 10);
    rc_svg_begin(out, height, title, words);
    rc_text_add(out, "<circle class=\"point c1\" cx=\"156\" cy=\"12\" r=\"5\"/>\n");
    rc_svg_text(out, 166, 16, NULL, what[0], 30);
    rc_text_add(out, "<path class=\"other\" d=\"M300 4l8 8l-8 8l-8 -8z\"/>\n");
    rc_svg_text(out, 314, 16, NULL, what[1], 30);
    rc_plot_grid_x(out, &plot, plot.x_high > 50 ? 20 : 10);
    for (int i = 0; i < count; i++)
        draw_pair(&plot, &pairs[i], plot.top + PAIR_HEIGHT * (i + 0.6), what, out);
    rc_svg_end(out);
}

/* What is drawn of a variant; false: nothing. */
typedef bool pair_maker(const rc_report_variant *v, pair *p);

static bool make_paper_pair(const rc_report_variant *v, pair *p)
{
    if (v->paper == NULL || v->done == 0)
        return false;
    *p = (pair){.first = v->last.mean,
                .first_deviation = v->last.deviation,
                .second = v->paper->last,
                .second_deviation = v->paper->last_deviation};
    return true;
}

static bool make_old_new_pair(const rc_report_variant *v, pair *p)
{
    if (isnan(v->old_classes.mean))
        return false;
    *p = (pair){.first = v->old_classes.mean,
                .first_deviation = v->old_classes.deviation,
                .second = v->new_classes.mean,
                .second_deviation = v->new_classes.deviation};
    return true;
}

static void chart_pairs(const rc_report_set *set, pair_maker *make, const char *title, const char *words,
                        const char *const what[2], rc_text *out)
{
    pair *pairs = rc_alloc_zeroed(NULL, (size_t)set->variants, sizeof *pairs);
    int count = 0;
    if (pairs == NULL) {
        out->status = RC_OUT_OF_MEMORY;
        return;
    }
    for (int i = 0; i < set->variants; i++) {
        if (!make(&set->variant[i], &pairs[count]))
            continue;
        pairs[count].label = set->variant[i].label;
        pairs[count++].colour = set->variant[i].colour;
    }
    if (count > 0)
        draw_pairs(pairs, count, title, words, what, out);
    rc_free(NULL, pairs);
}

void rc_chart_paper(const rc_report_set *set, rc_text *out)
{
    static const char *const what[2] = {"here", "in the paper"};
    chart_pairs(set, make_paper_pair, "Beside the paper", "accuracy after the last task, in percent", what, out);
}

void rc_chart_old_new(const rc_report_set *set, rc_text *out)
{
    static const char *const what[2] = {"old classes", "new classes"};
    chart_pairs(set, make_old_new_pair, "Old and new classes",
                "how many images of classes of earlier tasks, and of the last task, are right in the end", what, out);
}

/* ---- time -------------------------------------------------------------------------------------------------------- */

enum { PARTS = RC_STAGE_COUNT + 1 };

static const char *part_name(int part)
{
    return part < RC_STAGE_COUNT ? rc_stage_name((rc_stage)part) : "evaluation";
}

static void draw_time(const rc_plot *plot, const rc_report_variant *v, double y, rc_text *out)
{
    double x = 0;
    rc_svg_text(out, plot->left - 10, y + 12, "name end", v->label, 18);
    for (int part = 0; part < PARTS; part++) {
        double seconds = v->seconds[part].mean;
        if (!(seconds > 0))
            continue;
        rc_text_format(out, "<rect class=\"st%d\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"16\"><title>", part + 1,
                       rc_plot_x(plot, x), y, rc_plot_x(plot, x + seconds) - rc_plot_x(plot, x));
        rc_text_html(out, v->label, RC_SVG_NAME);
        rc_text_format(out, ", %s: ", part_name(part));
        rc_text_duration(out, seconds);
        rc_text_add(out, "</title></rect>\n");
        x += seconds;
    }
    rc_text_format(out, "<text class=\"soft\" x=\"%.1f\" y=\"%.1f\">", rc_plot_x(plot, x) + 6, y + 12);
    rc_text_duration(out, x);
    rc_text_add(out, "</text>\n");
}

void rc_chart_time(const rc_report_set *set, rc_text *out)
{
    double longest = 0, y = 34;
    int shown = 0;
    for (int i = 0; i < set->variants; i++) {
        shown += set->variant[i].done > 0;
        if (set->variant[i].done > 0)
            longest = rc_larger(longest, set->variant[i].seconds[RC_REPORT_SECONDS - 1].mean);
    }
    if (shown == 0 || !(longest > 0))
        return;
    rc_plot plot = {.left = 150, .width = RC_SVG_WIDTH - 220, .x_high = longest};
    rc_svg_begin(out, 24.0 * shown + 40, "Time of a run", "by stage, the mean over runs");
    for (int part = 0; part < PARTS; part++) {
        double x = 4 + part * 103;
        rc_text_format(out, "<rect class=\"st%d\" x=\"%.0f\" y=\"4\" width=\"12\" height=\"12\"/>\n", part + 1, x);
        rc_svg_text(out, x + 17, 15, "name", part_name(part), 20);
    }
    for (int i = 0; i < set->variants; i++) {
        if (set->variant[i].done == 0)
            continue;
        draw_time(&plot, &set->variant[i], y, out);
        y += 24;
    }
    rc_svg_end(out);
}
