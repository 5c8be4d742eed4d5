/* Results for people. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "cil/methods.h"
#include "experiment/results.h"
#include "forecast/progress.h"

/* Columns of numbers that fit on a line; wider tables are cut into blocks. */
enum { LINE = 256, SHOWN = 10 };

typedef struct page {
    rc_results_line *line;
    void *user;
    char text[LINE];
    size_t used;
} page;

static void add(page *p, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(page *p, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(p->text + p->used, sizeof p->text - p->used, format, arguments);
    va_end(arguments);
    p->used += length > 0 ? (size_t)length : 0;
    if (p->used >= sizeof p->text)
        p->used = sizeof p->text - 1;
}

static void end_line(page *p)
{
    p->line(p->user, p->used > 0 ? p->text : "");
    p->used = 0;
    p->text[0] = '\0';
}

/* "-" where there is no number. */
static void add_cell(page *p, double value)
{
    if (isfinite(value))
        add(p, " %7.2f", value);
    else
        add(p, " %7s", "-");
}

static const char *title_of(const rc_results *r)
{
    const rc_method *method;
    return rc_method_find(r->method, &method) == RC_OK ? method->title : r->method;
}

static double last_accuracy(const rc_results *r)
{
    return r->done > 0 ? r->task[r->done - 1].accuracy : NAN;
}

void rc_stored_text(const rc_stored *stored, char *text, size_t size)
{
    char bytes[32];
    rc_bytes_text(stored->images  ? stored->images
                  : stored->model ? stored->model
                                  : stored->statistics,
                  bytes, sizeof bytes);
    if (stored->images + stored->model + stored->statistics == 0)
        snprintf(text, size, "nothing");
    else
        snprintf(text, size, "%s of %s", bytes,
                 stored->images  ? "images"
                 : stored->model ? "a model of images"
                                 : "statistics");
}

void rc_results_print(const rc_results *const *results, int count, rc_results_line *line, void *user)
{
    page p = {.line = line, .user = user};
    char kept[64];
    int tasks = count > 0 ? results[0]->tasks : 0, from = tasks > SHOWN ? tasks - SHOWN : 0;
    add(&p, "%-16s", "accuracy in %");
    for (int i = from; i < tasks; i++)
        add(&p, "    A_%-2d", i + 1);
    add(&p, "    last    mean forgets     old     new  keeps");
    end_line(&p);
    for (int m = 0; m < count; m++) {
        const rc_results *r = results[m];
        const rc_task_result *last = r->done > 0 ? &r->task[r->done - 1] : NULL;
        add(&p, "%-16s", title_of(r));
        for (int i = from; i < tasks; i++)
            add_cell(&p, i < r->done ? r->task[i].accuracy : NAN);
        add_cell(&p, last_accuracy(r));
        add_cell(&p, rc_results_mean(r));
        add_cell(&p, rc_forgetting(r->matrix, r->tasks, r->done));
        add_cell(&p, last ? last->old_accuracy : NAN);
        add_cell(&p, last ? last->new_accuracy : NAN);
        if (last != NULL)
            rc_stored_text(&last->stored, kept, sizeof kept);
        add(&p, "  %s", last ? kept : "-");
        end_line(&p);
    }
}

/* ---- one method ----------------------------------------------------------------------------------------------- */

static void report_summary(page *p, const rc_results *r)
{
    add(p, "%s, %d of %d tasks, %d classes", title_of(r), r->done, r->tasks, r->classes);
    end_line(p);
    add(p, "last accuracy (A_%d)   %7.2f %%", r->done, last_accuracy(r));
    end_line(p);
    add(p, "mean accuracy         %7.2f %% (of A_1 to A_%d)", rc_results_mean(r), r->done);
    end_line(p);
    if (r->done > 1) { /* one task can neither be forgotten nor gain */
        add(p, "forgetting            %7.2f points", rc_forgetting(r->matrix, r->tasks, r->done));
        end_line(p);
        add(p, "backward transfer     %7.2f points", rc_backward_transfer(r->matrix, r->tasks, r->done));
        end_line(p);
    }
    if (r->done > 0) {
        const rc_stored *stored = &r->task[r->done - 1].stored;
        add(p, "kept for later tasks  %zu bytes of images, %zu of a model of images, %zu of statistics: %s",
            stored->images, stored->model, stored->statistics,
            rc_results_are_data_free(r) ? "data-free" : "not data-free");
        end_line(p);
    }
    end_line(p);
}

static void report_tasks(page *p, const rc_results *r)
{
    add(p, "after task classes accuracy   top-5     old     new   norms of the head, old and new");
    end_line(p);
    for (int i = 0; i < r->done; i++) {
        const rc_task_result *t = &r->task[i];
        add(p, "%10d %7d ", i + 1, t->classes);
        add_cell(p, t->accuracy);
        add_cell(p, t->top5);
        add_cell(p, t->old_accuracy);
        add_cell(p, t->new_accuracy);
        add_cell(p, t->old_norm);
        add_cell(p, t->new_norm);
        end_line(p);
    }
    end_line(p);
    add(p, "seconds   ");
    for (int s = 0; s < RC_STAGE_COUNT; s++)
        add(p, " %10s", rc_stage_name((rc_stage)s));
    add(p, " %10s", "evaluation");
    end_line(p);
    for (int i = 0; i < r->done; i++) {
        add(p, "%10d", i + 1);
        for (int s = 0; s < RC_STAGE_COUNT; s++)
            add(p, " %10.1f", r->task[i].wall[s]);
        add(p, " %10.1f", r->task[i].evaluation_seconds);
        end_line(p);
    }
    end_line(p);
}

static void report_matrix(page *p, const rc_results *r)
{
    for (int from = 0; from < r->done; from += SHOWN) {
        int end = from + SHOWN < r->done ? from + SHOWN : r->done;
        add(p, "%s", from == 0 ? "after task, accuracy on task" : "after task, accuracy on task (more)");
        end_line(p);
        add(p, "%10s", "");
        for (int j = from; j < end; j++)
            add(p, " %7d", j + 1);
        end_line(p);
        for (int i = from; i < r->done; i++) {
            add(p, "%10d", i + 1);
            for (int j = from; j < end && j <= i; j++)
                add_cell(p, r->matrix[i * r->tasks + j]);
            end_line(p);
        }
    }
    end_line(p);
}

static void report_classes(page *p, const rc_results *r, char *const *class_name)
{
    char name[LINE - 40]; /* longer ones are cut; what is JSON or CSV has them whole */
    add(p, "class accuracy   top-5    norm  name");
    end_line(p);
    for (int k = 0; k < r->classes; k++) {
        add(p, "%5d ", k);
        add_cell(p, r->class_accuracy[k]);
        add_cell(p, r->class_top5[k]);
        add_cell(p, r->head_norm[k]);
        add(p, "  %s", rc_utf8_column(class_name[k], 0, name, sizeof name));
        end_line(p);
    }
    end_line(p);
}

static void report_confusion(page *p, const rc_evaluation *e)
{
    enum { ACROSS = 20 };
    if (e->classes > RC_WHOLE_CONFUSION) {
        add(p, "what was taken for what is in confusion.csv: a matrix of %d classes is too large to be read here",
            e->classes);
        end_line(p);
        return;
    }
    for (int from = 0; from < e->classes; from += ACROSS) {
        int end = from + ACROSS < e->classes ? from + ACROSS : e->classes;
        add(p, "images of a class (row) that were taken for class");
        end_line(p);
        add(p, "%5s", "");
        for (int k = from; k < end; k++)
            add(p, " %5d", k);
        end_line(p);
        for (int i = 0; i < e->classes; i++) {
            add(p, "%5d", i);
            for (int k = from; k < end; k++)
                add(p, " %5d", (int)e->confusion[rc_confusion_at(e->classes, i, k)]);
            end_line(p);
        }
    }
}

void rc_results_report(const rc_results *r, char *const *class_name, rc_results_line *line, void *user)
{
    page p = {.line = line, .user = user};
    report_summary(&p, r);
    report_tasks(&p, r);
    report_matrix(&p, r);
    report_classes(&p, r, class_name);
    report_confusion(&p, &r->last);
}
