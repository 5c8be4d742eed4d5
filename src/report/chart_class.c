/* Figures of one run, class by class or task by task. */
#include <math.h>
#include <string.h>

#include "report/charts.h"
#include "report/svg.h"

enum { MOST_NAMED = 24, MOST_DRAWN = 2000 };

static int task_of(const rc_report_run *run, int label)
{
    int task = 0;
    while (label >= run->results.task_end[task])
        task++;
    return task;
}

static void hint_of_class(const rc_report_run *run, int label, double value, const char *unit, rc_text *out)
{
    rc_text_add(out, "<title>");
    rc_text_html(out, run->class_name[label], RC_SVG_NAME);
    rc_text_format(out, " (task %d): %.*f%s</title>", task_of(run, label) + 1, unit[0] != '\0' ? 1 : 3, value, unit);
}

/* ---- accuracy of each class -------------------------------------------------------------------------------------- */

/* Few classes: a line for each, with its name. */
static void draw_lying(const rc_report_variant *v, rc_text *out)
{
    const rc_report_run *run = v->shown;
    double height = 20.0 * run->results.classes + 34;
    rc_plot plot = {.left = 150, .top = 6, .width = RC_SVG_WIDTH - 200, .height = height - 34, .x_high = 100};
    rc_svg_begin(out, height, "Each class", "images of it that are right after the last task, in percent");
    rc_plot_grid_x(out, &plot, 20);
    for (int k = 0; k < run->results.classes; k++) {
        double y = plot.top + 20 * k + 2, percent = run->results.class_accuracy[k];
        rc_svg_text(out, plot.left - 8, y + 12, "name end", run->class_name[k], 18);
        if (isnan(percent))
            continue;
        rc_text_format(out, "<rect class=\"%s c%d\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"15\">",
                       task_of(run, k) % 2 == 0 ? "fill" : "fill pale", v->colour, plot.left, y,
                       rc_plot_x(&plot, percent) - plot.left);
        hint_of_class(run, k, percent, " %", out);
        rc_text_add(out, "</rect>\n");
        rc_svg_number(out, rc_plot_x(&plot, percent) + 5, y + 12, "soft", "%.0f", percent);
    }
    rc_svg_end(out);
}

/* The numbers of tasks below a plot whose x axis is the class, each below its classes. */
static void draw_tasks(const rc_report_run *run, const rc_plot *plot, rc_text *out)
{
    int every = (run->results.done + 19) / 20;
    for (int task = 0; task < run->results.done; task++) {
        double first = task > 0 ? run->results.task_end[task - 1] : 0, end = run->results.task_end[task];
        if (task > 0)
            rc_svg_line(out, rc_plot_x(plot, first), plot->top, rc_plot_x(plot, first), plot->top + plot->height,
                        "cut");
        if (task % every == 0)
            rc_svg_number(out, rc_plot_x(plot, (first + end) / 2), plot->top + plot->height + 16, "soft middle", "%.0f",
                          task + 1);
    }
    rc_svg_text(out, plot->left + plot->width / 2, plot->top + plot->height + 34, "soft middle",
                "classes in the order in which they were learnt, by task", 80);
}

static void draw_standing(const rc_report_variant *v, rc_text *out)
{
    const rc_report_run *run = v->shown;
    rc_plot plot = {.left = 34, .top = 12, .width = RC_SVG_WIDTH - 44, .height = 200, .x_high = run->results.classes};
    plot.y_high = 100;
    rc_svg_begin(out, 252, "Each class", "images of it that are right after the last task, in percent");
    rc_plot_grid_y(out, &plot, 20);
    draw_tasks(run, &plot, out);
    for (int k = 0; k < run->results.classes; k++) {
        double percent = run->results.class_accuracy[k];
        if (isnan(percent))
            continue;
        rc_text_format(out, "<path class=\"%s c%d\" d=\"M%.1f %.1fv%.1fh%.1fv%.1fz\">",
                       task_of(run, k) % 2 == 0 ? "fill" : "fill pale", v->colour, rc_plot_x(&plot, k),
                       plot.top + plot.height, -plot.height * percent / 100, 0.85 * plot.width / run->results.classes,
                       plot.height * percent / 100);
        hint_of_class(run, k, percent, " %", out);
        rc_text_add(out, "</path>\n");
    }
    rc_svg_end(out);
}

void rc_chart_classes(const rc_report_variant *v, rc_text *out)
{
    int classes = v->shown->results.classes;
    if (v->shown->class_name == NULL || classes > MOST_DRAWN)
        return;
    if (classes <= MOST_NAMED)
        draw_lying(v, out);
    else
        draw_standing(v, out);
}

/* ---- norms ------------------------------------------------------------------------------------------------------- */

/* The norms after each task before the last one, where they are known: the classes that there were by then. */
static void draw_earlier_norms(const rc_plot *plot, const rc_report_variant *v, rc_text *out)
{
    const rc_report_run *run = v->shown;
    for (int task = 0; run->norms != NULL && task + 1 < run->results.done; task++) {
        const double *norm = run->norms + (size_t)task * (size_t)run->results.classes;
        bool begun = false;
        rc_text_format(out, "<g class=\"series\"><path class=\"line thin early c%d\" d=\"", v->colour);
        for (int k = 0; k < run->results.task_end[task]; k++)
            if (!isnan(norm[k])) {
                rc_text_format(out, "%s%.1f %.1f", begun ? "L" : "M", rc_plot_x(plot, k + 0.5),
                               rc_plot_y(plot, norm[k]));
                begun = true;
            }
        rc_text_format(out, "\"><title>after task %d</title></path></g>\n", task + 1);
    }
}

static double highest_norm(const rc_report_run *run)
{
    double highest = 0;
    for (int k = 0; k < run->results.classes; k++)
        highest = rc_larger(highest, run->results.head_norm[k]);
    for (int i = 0; run->norms != NULL && i < run->results.done * run->results.classes; i++)
        highest = rc_larger(highest, run->norms[i]);
    return highest;
}

void rc_chart_norms(const rc_report_variant *v, rc_text *out)
{
    const rc_report_run *run = v->shown;
    if (run->class_name == NULL || run->results.classes > MOST_DRAWN)
        return;
    double highest = highest_norm(run);
    if (!(highest > 0))
        return;
    rc_plot plot = {.left = 50, .top = 12, .width = RC_SVG_WIDTH - 60, .height = 170, .x_high = run->results.classes};
    plot.y_high = 1.15 * highest;
    rc_svg_begin(out, 222, "Norms of the classifier's rows",
                 run->norms != NULL ? "one for each class: points after the last task, lines after the tasks before"
                                    : "one for each class, after the last task; a step between tasks is a bias");
    rc_plot_grid_y(out, &plot, rc_nice_step(plot.y_high, 5));
    draw_tasks(run, &plot, out);
    draw_earlier_norms(&plot, v, out);
    for (int k = 0; k < run->results.classes; k++) {
        double norm = run->results.head_norm[k];
        if (isnan(norm))
            continue;
        rc_text_format(out, "<circle class=\"point c%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"%d\">", v->colour,
                       rc_plot_x(&plot, k + 0.5), rc_plot_y(&plot, norm), run->results.classes > 60 ? 3 : 4);
        hint_of_class(run, k, norm, "", out);
        rc_text_add(out, "</circle>\n");
    }
    rc_svg_end(out);
}

static double norm_of(const rc_report_run *run, bool old, int task)
{
    return old ? run->results.task[task].old_norm : run->results.task[task].new_norm;
}

static void draw_norm_line(const rc_plot *plot, const rc_report_variant *v, bool old, rc_text *out)
{
    const rc_report_run *run = v->shown;
    bool begun = false;
    rc_text_format(out, "<path class=\"line %s\" d=\"M", old ? "c1" : "c2");
    for (int task = 0; task < run->results.done; task++) {
        double norm = norm_of(run, old, task);
        if (!isnan(norm))
            rc_text_format(out, "%s%.1f %.1f", begun ? "L" : "", rc_plot_x(plot, task + 1), rc_plot_y(plot, norm));
        begun = begun || !isnan(norm);
    }
    rc_text_add(out, begun ? "\"/>\n" : "0 0\"/>\n");
    for (int task = 0; task < run->results.done; task++) {
        double norm = norm_of(run, old, task);
        if (!isnan(norm))
            rc_text_format(
                out,
                "<circle class=\"point %s\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"><title>%s classes after task %d: "
                "%.3f</title></circle>\n",
                old ? "c1" : "c2", rc_plot_x(plot, task + 1), rc_plot_y(plot, norm), old ? "old" : "new", task + 1,
                norm);
    }
}

void rc_chart_norm_bias(const rc_report_variant *v, rc_text *out)
{
    const rc_report_run *run = v->shown;
    double highest = 0;
    for (int task = 0; task < run->results.done; task++)
        highest = rc_larger(rc_larger(highest, norm_of(run, true, task)), norm_of(run, false, task));
    if (run->results.done < 2 || !(highest > 0))
        return;
    rc_plot plot = {.left = 50, .top = 34, .width = RC_SVG_WIDTH - 70, .height = 170, .x_low = 1};
    plot.x_high = run->results.tasks;
    plot.y_high = 1.15 * highest;
    rc_svg_begin(out, 252, "Old and new norms",
                 "mean norm of the classifier's rows of old and of new classes after each task");
    rc_text_add(out, "<circle class=\"point c1\" cx=\"40\" cy=\"12\" r=\"5\"/><circle class=\"point c2\" cx=\"160\" "
                     "cy=\"12\" r=\"5\"/>\n");
    rc_svg_text(out, 50, 16, NULL, "old classes", 20);
    rc_svg_text(out, 170, 16, NULL, "new classes", 20);
    rc_plot_grid_y(out, &plot, rc_nice_step(plot.y_high, 5));
    int every = (run->results.tasks + 11) / 12;
    for (int task = 1; task <= run->results.tasks; task += every)
        rc_svg_number(out, rc_plot_x(&plot, task), plot.top + plot.height + 16, "soft middle", "%.0f", task);
    rc_svg_text(out, plot.left + plot.width / 2, plot.top + plot.height + 34, "soft middle", "task", 10);
    draw_norm_line(&plot, v, true, out);
    draw_norm_line(&plot, v, false, out);
    rc_svg_end(out);
}

/* ---- losses ------------------------------------------------------------------------------------------------------ */

static const char *term_name(const char *key)
{
    for (int i = 0; i < RC_LOSS_COUNT; i++)
        if (strcmp(rc_loss_key(i), key) == 0)
            return rc_loss_name(i);
    return strcmp(key, "total_loss") == 0 ? "all terms, weighted" : key;
}

enum { PANEL_WIDTH = 165, PANEL_HEIGHT = 96, PANELS = 3 };

static void draw_panel(const rc_report_log *log, const rc_report_curve *curve, double left, double top, rc_text *out)
{
    double low = INFINITY, high = -INFINITY, value, first = NAN, last = NAN;
    int cells = log->tasks * log->bins;
    for (int i = 0; i < cells; i++) {
        if (curve->count[i] == 0)
            continue;
        value = curve->sum[i] / curve->count[i];
        low = fmin(low, value);
        high = rc_larger(high, value);
        first = isnan(first) ? value : first;
        last = value;
    }
    rc_plot plot = {left, top + 34, PANEL_WIDTH - 14, PANEL_HEIGHT - 46, 0, log->tasks, low, high};
    rc_svg_text(out, left, top + 12, "small", curve->stage, 12);
    rc_svg_text(out, left, top + 26, "small soft", term_name(curve->term), 26);
    rc_svg_number(out, left + plot.width, top + 12, "small soft end", "%.3g", last);
    rc_text_format(out, "<path class=\"floor\" d=\"M%.1f %.1fh%.1fv%.1fh-%.1fz\"/>\n", plot.left, plot.top, plot.width,
                   plot.height, plot.width);
    rc_text_add(out, "<path class=\"cut\" d=\"");
    for (int task = 1; task < log->tasks && log->tasks <= 40; task++)
        rc_text_format(out, "M%.1f %.4gv%d", rc_plot_x(&plot, task), plot.top, PANEL_HEIGHT - 46);
    rc_text_add(out, "\"/>\n<g class=\"series\"><path class=\"line thin c1\" d=\"");
    for (int i = 0, begun = 0; i < cells; i++) {
        begun = i % log->bins == 0 ? 0 : begun; /* each task anew */
        if (curve->count[i] == 0)
            continue;
        rc_text_format(out, begun ? "L%.1f %.1f" : "M%.1f %.1fh0", rc_plot_x(&plot, (i + 0.5) / log->bins),
                       rc_plot_y(&plot, curve->sum[i] / curve->count[i])); /* h0: one alone is a dot */
        begun = 1;
    }
    rc_text_format(out, "\"/><path class=\"hit\" d=\"M%.1f %.1fh%.1fv%.1fh-%.1fz\"><title>", plot.left, plot.top,
                   plot.width, plot.height, plot.width);
    rc_text_html(out, curve->stage, 24);
    rc_text_add(out, ", ");
    rc_text_html(out, term_name(curve->term), RC_SVG_NAME);
    rc_text_format(out, ": %.4g at first, %.4g in the end, from %.4g to %.4g</title></path></g>\n", first, last, low,
                   high);
}

void rc_chart_losses(const rc_report_log *log, rc_text *out)
{
    if (log->curves == 0)
        return;
    int rows = (log->curves + PANELS - 1) / PANELS;
    rc_svg_begin(out, (PANEL_HEIGHT + 12.0) * rows, "Losses",
                 "each term of each stage over all tasks, without its weight; the number is the last value, and every "
                 "plot has a scale of "
                 "its own");
    for (int i = 0; i < log->curves; i++)
        draw_panel(log, &log->curve[i], 4 + (i % PANELS) * (PANEL_WIDTH + 9.0), i / PANELS * (PANEL_HEIGHT + 12.0),
                   out);
    rc_svg_end(out);
}
