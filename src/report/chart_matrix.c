/* Figures with a cell for each pair: task by task, class by class. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/charts.h"
#include "report/svg.h"

/* ---- task by task ------------------------------------------------------------------------------------------------ */

static void draw_cell(double x, double y, double side, int after, int task, double percent, bool number, rc_text *out)
{
    int level = (int)fmin(9, percent / 10);
    rc_text_format(out, "<path class=\"h%d\" d=\"M%.1f %.1fh%.3gv%.3gh-%.3gz\"><title>", level, x, y, side - 1,
                   side - 1, side - 1);
    rc_text_format(out, "task %d after task %d: %.2f %%</title></path>\n", task + 1, after + 1, percent);
    if (number)
        rc_svg_number(out, x + side / 2, y + side / 2 + 4, level > 4 ? "middle on cell" : "middle cell", "%.0f",
                      percent);
}

void rc_chart_matrix(const rc_report_set *set, const rc_report_variant *v, rc_text *out)
{
    enum { LEFT = 44, TOP = 10 };
    double side = fmin(72, (RC_SVG_WIDTH - LEFT - 10.0) / set->tasks), all = side * set->tasks;
    if (set->tasks < 2 || isnan(v->matrix[0]))
        return;
    rc_svg_begin(out, all + TOP + 44, "Task by task",
                 "accuracy on each task (columns) after each task (rows), in percent");
    int every = (set->tasks + 19) / 20;
    rc_text_add(out, "<g class=\"cells\">\n");
    for (int i = 0; i < set->tasks; i++) {
        if (i % every == 0) {
            rc_svg_number(out, LEFT - 8, TOP + side * (i + 0.5) + 4, "soft end", "%.0f", i + 1);
            rc_svg_number(out, LEFT + side * (i + 0.5), TOP + all + 16, "soft middle", "%.0f", i + 1);
        }
        for (int j = 0; j <= i; j++) {
            double percent = v->matrix[i * set->tasks + j];
            if (!isnan(percent))
                draw_cell(LEFT + side * j, TOP + side * i, side, i, j, percent, side >= 20, out);
        }
    }
    rc_text_add(out, "</g>\n");
    rc_svg_text(out, LEFT + all / 2, TOP + all + 36, "soft middle", "accuracy on task", 30);
    rc_text_format(out, "<text class=\"soft middle\" transform=\"translate(15 %.1f) rotate(-90)\">after task</text>\n",
                   TOP + all / 2);
    rc_svg_end(out);
}

/* ---- class by class ---------------------------------------------------------------------------------------------- */

enum { MOST_NAMED = 24, MOST_DRAWN = 1000 };

static bool drawable(const rc_report_run *run)
{
    return run->confusion != NULL && run->class_name != NULL && run->results.classes <= MOST_DRAWN;
}

int rc_chart_confusion_cells(const rc_report_variant *v)
{
    int64_t classes = v->shown->results.classes;
    int cells = 0;
    for (int64_t i = 0; drawable(v->shown) && i < classes * classes; i++)
        cells += v->shown->confusion[i] > 0;
    return cells;
}

static double images_of(const rc_report_run *run, int label)
{
    double images = 0;
    for (int k = 0; k < run->results.classes; k++)
        images += run->confusion[rc_confusion_at(run->results.classes, label, k)];
    return images;
}

/* From 0 to 9. Mistakes are few in each cell: their root makes them visible. */
static int level_of(const rc_report_run *run, int label, int said, double images)
{
    double share = run->confusion[rc_confusion_at(run->results.classes, label, said)] / images;
    return (int)fmin(9, 9.99 * (label == said ? share : sqrt(share)));
}

static void hint_of_cell(const rc_report_run *run, int label, int said, rc_text *out)
{
    rc_text_add(out, "<title>");
    rc_text_html(out, run->class_name[label], 24);
    rc_text_add(out, label == said ? " is right: " : " is taken for ");
    if (label != said)
        rc_text_html(out, run->class_name[said], 24);
    rc_text_format(out, "%s%d</title>", label == said ? "" : ": ",
                   (int)run->confusion[rc_confusion_at(run->results.classes, label, said)]);
}

/* All cells of one shade together, in units of cells. */
static void draw_shade(const rc_report_run *run, bool right, int level, bool hints, rc_text *out)
{
    int classes = run->results.classes;
    rc_text_format(out, "<g class=\"%s%d\">%s", right ? "h" : "w", level, hints ? "" : "<path d=\"");
    for (int label = 0; label < classes; label++) {
        double images = images_of(run, label);
        for (int said = 0; said < classes; said++) {
            if (run->confusion[rc_confusion_at(classes, label, said)] == 0 || (label == said) != right ||
                level_of(run, label, said, images) != level)
                continue;
            rc_text_format(out, hints ? "<path d=\"M%d %dh1v1h-1z\">" : "M%d %dh1v1h-1z", said, label);
            if (hints) {
                hint_of_cell(run, label, said, out);
                rc_text_add(out, "</path>");
            }
        }
    }
    rc_text_add(out, hints ? "</g>\n" : "\"/></g>\n");
}

/* A hint for a whole row, where one for each cell would be too much. */
static void draw_row_hint(const rc_report_run *run, int label, rc_text *out)
{
    int classes = run->results.classes, worst = -1;
    for (int said = 0; said < classes; said++)
        if (said != label && run->confusion[rc_confusion_at(classes, label, said)] > 0 &&
            (worst < 0 || run->confusion[rc_confusion_at(classes, label, said)] >
                              run->confusion[rc_confusion_at(classes, label, worst)]))
            worst = said;
    rc_text_format(out, "<path class=\"hit\" d=\"M0 %dh%dv1h-%dz\"><title>", label, classes, classes);
    rc_text_html(out, run->class_name[label], 24);
    rc_text_format(out, ": %d of %.0f right", (int)run->confusion[rc_confusion_at(classes, label, label)],
                   images_of(run, label));
    if (worst >= 0) {
        rc_text_format(out, ", %d taken for ", (int)run->confusion[rc_confusion_at(classes, label, worst)]);
        rc_text_html(out, run->class_name[worst], 24);
    }
    rc_text_add(out, "</title></path>\n");
}

static void draw_names(const rc_report_run *run, double left, double top, double side, rc_text *out)
{
    for (int k = 0; k < run->results.classes; k++) {
        rc_svg_text(out, left - 6, top + side * (k + 0.5) + 4, "name end", run->class_name[k], 15);
        rc_text_format(out, "<text class=\"name\" transform=\"translate(%.1f %.1f) rotate(-90)\">",
                       left + side * (k + 0.5) + 4, top - 6);
        rc_text_html(out, run->class_name[k], 15);
        rc_text_add(out, "</text>\n");
    }
}

void rc_chart_confusion(const rc_report_variant *v, bool cell_hints, rc_text *out)
{
    const rc_report_run *run = v->shown;
    int classes = run->results.classes;
    if (!drawable(run))
        return;
    bool named = classes <= MOST_NAMED;
    double left = named ? 124 : 34, top = named ? 124 : 10, side = (RC_SVG_WIDTH - left - 10) / classes;
    rc_svg_begin(out, top + side * classes + 40, "What is taken for what",
                 "rows are true classes, columns what the model said; blue is right, orange a mistake");
    rc_text_format(out,
                   "<g class=\"cells\" transform=\"translate(%.1f %.1f) scale(%.4f)\"><path class=\"floor\" "
                   "d=\"M0 0h%dv%dh-%dz\"/>\n",
                   left, top, side, classes, classes, classes);
    for (int level = 0; level <= 9; level++) {
        draw_shade(run, false, level, cell_hints, out);
        draw_shade(run, true, level, cell_hints, out);
    }
    for (int label = 0; !cell_hints && label < classes; label++)
        draw_row_hint(run, label, out);
    rc_text_add(out, "</g>\n");
    for (int task = 0; task + 1 < run->results.done; task++) { /* where a task ends */
        double at = side * run->results.task_end[task];
        rc_svg_line(out, left + at, top, left + at, top + side * classes, "cut");
        rc_svg_line(out, left, top + at, left + side * classes, top + at, "cut");
    }
    if (named)
        draw_names(run, left, top, side, out);
    else
        rc_text_format(out,
                       "<text class=\"soft middle\" transform=\"translate(20 %.1f) rotate(-90)\">true class</text>\n",
                       top + side * classes / 2);
    rc_svg_text(out, left + side * classes / 2, top + side * classes + 22, "soft middle", "what the model said", 30);
    rc_svg_end(out);
}
