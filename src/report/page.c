#include "report/page.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "experiment/commit.h"
#include "report/charts.h"
#include "report/tables.h"

/* Cells of confusion matrices that get hints of their own, and bytes that pictures may fill: what keeps a page below
 * 2 MB. */
enum { MOST_HINTS = 9000, MOST_BYTES = 1990000 };

/* ---- words ------------------------------------------------------------------------------------------------------- */

static void put_percent(rc_spread s, rc_text *out)
{
    rc_text_format(out, "%.1f", s.mean);
    if (!isnan(s.deviation))
        rc_text_format(out, " \xC2\xB1 %.1f", s.deviation);
    rc_text_add(out, " %");
}

static void put_label(const rc_report_variant *v, rc_text *out)
{
    rc_text_add(out, "<bdi>");
    rc_text_html(out, v->label, 80);
    rc_text_add(out, "</bdi>");
}

static bool is_named(const rc_report_variant *v, const char *name)
{
    return strcmp(v->name, name) == 0;
}

/* The variant that a reader looks for first: the best that keeps no images, or else the best of all. NULL: none is
 * done. */
static const rc_report_variant *best_of(const rc_report_set *set)
{
    const rc_report_variant *best = NULL;
    for (int pass = 0; pass < 2 && best == NULL; pass++)
        for (int i = 0; i < set->variants; i++) {
            const rc_report_variant *v = &set->variant[i];
            bool counts = v->done > 0 && (pass == 1 || (v->method != NULL && v->method->replay->data_free &&
                                                        !is_named(v, "finetune")));
            if (counts && (best == NULL || v->last.mean > best->last.mean))
                best = v;
        }
    return best;
}

/* How many tasks have a number, in any run of the variant. */
static int tasks_known(const rc_report_set *set, const rc_report_variant *v)
{
    int known = 0;
    while (known < set->tasks && !isnan(v->accuracy[known].mean))
        known++;
    return known;
}

/* The one whose drawings are open: the best or, while none is done, CwD, or else the one that has got furthest. */
static const rc_report_variant *opened_of(const rc_report_set *set)
{
    const rc_report_variant *opened = best_of(set);
    for (int i = 0; opened == NULL && i < set->variants; i++)
        if (is_named(&set->variant[i], "cwd"))
            opened = &set->variant[i];
    if (opened != NULL)
        return opened;
    opened = &set->variant[0];
    for (int i = 1; i < set->variants; i++)
        if (tasks_known(set, &set->variant[i]) > tasks_known(set, opened))
            opened = &set->variant[i];
    return opened;
}

/* "CwD names 52.1 ± 0.9 % of the test images of all 100 classes right after the last task, the mean of 3 runs. ..." */
static void put_lead(const rc_report_set *set, rc_text *out)
{
    const rc_report_variant *best = best_of(set);
    rc_text_add(out, "<p class=\"lead\">");
    if (best == NULL) {
        rc_text_add(out, "No run is finished yet. What there is so far stands below.</p>\n");
        return;
    }
    put_label(best, out);
    rc_text_add(out, " names ");
    put_percent(best->last, out);
    rc_text_format(out, " of the test images of all %d classes right after the last task%s", set->classes,
                   best->done > 1 ? ", the mean of " : "");
    if (best->done > 1)
        rc_text_format(out, "%d runs", best->done);
    if (best->paper != NULL && !isnan(best->paper->last))
        rc_text_format(out, ". The paper has %.1f %%", best->paper->last);
    for (int i = 0; i < set->variants; i++) {
        const rc_report_variant *v = &set->variant[i];
        if (v->done == 0 || v == best || !(is_named(v, "finetune") || is_named(v, "joint")) ||
            !rc_report_alike(v, best)) /* longer training would be the reason for a part of what is between them */
            continue;
        rc_text_add(out, is_named(v, "joint") ? ". With every image kept it would be "
                                              : ". Without any memory it would be ");
        put_percent(v->last, out);
    }
    rc_text_add(out, ".</p>\n");
}

static void put_tile(rc_text *out, const char *value, const char *words)
{
    rc_text_format(out, "<li><b>%s</b><span>%s</span></li>\n", value, words);
}

/* What is known of a variant while no run is done. */
static void put_so_far(const rc_report_set *set, const rc_report_variant *v, rc_text *out)
{
    int known = tasks_known(set, v);
    if (known == 0)
        return;
    rc_text_format(out, "<li><b>%.1f <em>%%</em></b><span>", v->accuracy[known - 1].mean);
    put_label(v, out);
    rc_text_format(out, ", after %d of %d tasks</span></li>\n", known, set->tasks);
}

static void put_tiles(const rc_report_set *set, rc_text *out)
{
    const rc_report_variant *best = best_of(set);
    char text[64];
    int done = 0, printed, measured;
    rc_text_add(out, "<ul class=\"tiles\">\n");
    if (best == NULL)
        put_so_far(set, opened_of(set), out);
    if (best != NULL) {
        rc_text_format(out, "<li><b>%.1f <em>%%</em></b><span>", best->last.mean);
        put_label(best, out);
        rc_text_add(out, ", after the last task</span></li>\n");
        if (!isnan(best->forgetting.mean)) {
            snprintf(text, sizeof text, "%.1f <em>points</em>", best->forgetting.mean);
            put_tile(out, text, "that it forgets of earlier tasks");
        }
        if (best->paper != NULL && !isnan(best->paper->last)) {
            double difference = best->last.mean - best->paper->last;
            snprintf(text, sizeof text, "%s%.1f <em>points</em>", difference < 0 ? "\xE2\x88\x92" : "+",
                     fabs(difference));
            put_tile(out, text, "from the paper's figure");
        }
        rc_text_add(out, "<li><b>");
        rc_text_duration(out, best->seconds[RC_REPORT_SECONDS - 1].mean);
        rc_text_add(out, "</b><span>for a run of it</span></li>\n");
    }
    for (int i = 0; i < set->variants; i++)
        done += set->variant[i].done;
    snprintf(text, sizeof text, "%d of %d", done, set->runs);
    put_tile(out, text, set->runs == 1 ? "run is done" : "runs are done");
    rc_report_coverage(set, &printed, &measured);
    if (printed > 0) {
        snprintf(text, sizeof text, "%d of %d", measured, printed);
        put_tile(out, text, "of the paper's accuracies are measured");
    }
    rc_text_add(out, "</ul>\n");
    if (done < set->runs)
        rc_text_add(out, "<p class=\"note warn\">Some runs are not finished. What is shown task by task has them as "
                         "far as they are. "
                         "All other means and deviations are over finished runs.</p>\n");
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */

static void put_table(const rc_report_set *set, const char *name, const char *folded, rc_text *out)
{
    rc_table table = {0};
    rc_report_table_find(name)->make(set, false, &table);
    bool shown = rc_table_rows(&table) > 0 || table.texts.status != RC_OK;
    if (shown && folded != NULL)
        rc_text_format(out, "<details><summary>%s</summary>\n", folded);
    if (shown)
        rc_table_write(&table, RC_REPORT_HTML, out);
    if (shown && folded != NULL)
        rc_text_add(out, "</details>\n");
    rc_table_free(&table);
}

/* ---- one method -------------------------------------------------------------------------------------------------- */

static rc_status put_losses(const rc_report_run *run, rc_text *out)
{
    rc_report_log log;
    RC_TRY(rc_report_log_read(run, &log));
    rc_chart_losses(&log, out);
    if (log.torn > 0)
        rc_text_format(out, "<p class=\"note\">%d line%s of the log could not be read and %s left out.</p>\n", log.torn,
                       log.torn == 1 ? "" : "s", log.torn == 1 ? "is" : "are");
    rc_report_log_free(&log);
    return RC_OK;
}

/* What is left of the page's room. */
typedef struct allowance {
    bool hints;
    size_t pictures;
} allowance;

static rc_status put_variant(const rc_report_set *set, const rc_report_variant *v, bool open, allowance *left,
                             rc_text *out)
{
    char state[64];
    rc_report_state(set, v, state, sizeof state);
    rc_text_format(out, "<details class=\"variant\"%s><summary><i class=\"dot c%d\"></i>", open ? " open" : "",
                   v->colour);
    put_label(v, out);
    rc_text_add(out, "<small>");
    if (v->done > 0)
        put_percent(v->last, out);
    rc_text_format(out, "%s%s</small></summary>\n", v->done > 0 ? ", " : "", state);
    if (v->runs > 1)
        rc_text_format(out, "<p class=\"note\">Classes, norms and losses are those of class order %d, seed %lld.</p>\n",
                       v->shown->order, (long long)v->shown->seed);
    rc_text_add(out, "<div class=\"figures\">\n");
    rc_chart_ledger(set, v, out);
    rc_chart_matrix(set, v, out);
    rc_chart_confusion(v, left->hints, out);
    rc_chart_classes(v, out);
    rc_chart_norms(v, out);
    rc_chart_norm_bias(v, out);
    RC_TRY(put_losses(v->shown, out));
    RC_TRY(rc_page_dreams(v->shown, &left->pictures, out));
    rc_text_add(out, "</div></details>\n");
    return out->status;
}

/* ---- where it comes from ----------------------------------------------------------------------------------------- */

/* Has a run before number k of variant i the command, too? */
static bool is_told(const rc_report_set *set, int i, int k, const char *command)
{
    for (int a = 0; a <= i; a++)
        for (int b = 0; b < (a < i ? set->variant[a].runs : k); b++)
            if (strcmp(rc_report_run_text(set->variant[a].run[b], "command_line"), command) == 0)
                return true;
    return false;
}

/* Every command once. */
static void put_commands(const rc_report_set *set, rc_text *out)
{
    rc_text_add(out, "<h3>Commands</h3>\n<pre>");
    for (int i = 0; i < set->variants; i++)
        for (int k = 0; k < set->variant[i].runs; k++) {
            const char *command = rc_report_run_text(set->variant[i].run[k], "command_line");
            if (command[0] == '\0' || is_told(set, i, k, command))
                continue;
            rc_text_html(out, command, RC_TEXT_WHOLE);
            rc_text_add(out, "\n");
        }
    rc_text_add(out, "</pre>\n");
}

/* ---- all --------------------------------------------------------------------------------------------------------- */

static void put_heading(const rc_report_set *set, rc_text *out)
{
    rc_text_add(out, "<bdi>");
    rc_text_html(out, set->dataset, 80);
    rc_text_format(out, "</bdi>, %d class%s in %d task%s", set->classes, set->classes == 1 ? "" : "es", set->tasks,
                   set->tasks == 1 ? "" : "s");
}

/* titled: the page has several sets, and each needs its title. */
static rc_status put_set(const rc_report_set *set, int number, bool titled, allowance *left, rc_text *out)
{
    const rc_report_variant *opened = opened_of(set);
    rc_text_format(out, "<section id=\"set-%d\">\n", number);
    if (titled) {
        rc_text_add(out, "<h2>");
        put_heading(set, out);
        rc_text_add(out, "</h2>\n");
    }
    put_lead(set, out);
    put_tiles(set, out);
    rc_text_add(out, "<div class=\"figures\">\n");
    rc_chart_accuracy(set, out);
    rc_chart_paper(set, out);
    rc_chart_old_new(set, out);
    rc_chart_time(set, out);
    rc_text_add(out, "</div>\n");
    put_table(set, "accuracy", NULL, out);
    put_table(set, "paper", NULL, out);
    put_table(set, "ledger", NULL, out);
    put_table(set, "dkl", NULL, out);
    put_table(set, "cost", NULL, out);
    put_table(set, "tasks", "Accuracy after each task", out);
    put_table(set, "time", "Time by stage", out);
    put_table(set, "classes", "Accuracy of each class", out);
    put_table(set, "confused", "What is taken for what most often", out);
    rc_text_add(out, "<h3>Method by method</h3>\n");
    for (int i = 0; i < set->variants; i++) {
        const rc_report_variant *v = &set->variant[i];
        RC_TRY(put_variant(set, v, v == opened, left, out));
    }
    rc_text_add(out, "<h3>How it was made</h3>\n");
    put_table(set, "settings", NULL, out);
    put_table(set, "runs", "Every run", out);
    put_commands(set, out);
    rc_text_add(out, "</section>\n");
    return out->status;
}

static void put_lines(const char *const *lines, rc_text *out)
{
    for (; *lines != NULL; lines++) {
        rc_text_add(out, *lines);
        rc_text_add(out, "\n");
    }
}

/* The same in an attribute or in <title>, where no element can stand. */
static void put_title(const rc_report_sets *sets, rc_text *out)
{
    rc_text_add(out, "recollect: ");
    if (sets->count == 1)
        rc_text_html(out, sets->set[0].dataset, 80);
    else
        rc_text_format(out, "%d streams of tasks", sets->count);
}

/* Digits of a hash in base 16, as a policy has them: base 64. */
static void put_hash(const char *digits, rc_text *out)
{
    unsigned char bytes[32];
    for (size_t i = 0; i < sizeof bytes; i++) {
        const char two[] = {digits[2 * i], digits[2 * i + 1], '\0'};
        bytes[i] = (unsigned char)strtoul(two, NULL, 16);
    }
    rc_text_base64(out, bytes, sizeof bytes);
}

/* The policy lets nothing be loaded, and runs no script but the page's own, which it knows by its hash: even a name
 * that slipped through could not act. */
static void put_head(const rc_report_sets *sets, rc_text *out)
{
    rc_text_add(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    rc_text_format(out, "<meta name=\"generator\" content=\"recollect %s\">\n", recollect_version());
    rc_text_add(out, "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                     "<meta name=\"color-scheme\" content=\"light dark\">\n"
                     "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; "
                     "style-src 'unsafe-inline'; script-src 'sha256-");
    put_hash(rc_page_js_hash, out);
    rc_text_add(out, "'\">\n<title>");
    put_title(sets, out);
    rc_text_add(out, "</title>\n<style>\n");
    put_lines(rc_page_css, out);
    rc_text_add(out, "</style>\n</head>\n<body>\n<header>\n<p class=\"eyebrow\">recollect report</p>\n<h1>");
    if (sets->count == 1)
        put_heading(&sets->set[0], out);
    else
        rc_text_format(out, "%d streams of tasks", sets->count);
    rc_text_add(out, "</h1>\n");
    if (sets->count > 1) {
        rc_text_add(out, "<nav>\n");
        for (int i = 0; i < sets->count; i++) {
            rc_text_format(out, "<a href=\"#set-%d\">", i + 1);
            put_heading(&sets->set[i], out);
            rc_text_add(out, "</a>\n");
        }
        rc_text_add(out, "</nav>\n");
    }
    rc_text_add(out, "</header>\n<main>\n");
}

static rc_status put_page(const rc_report_sets *sets, allowance left, rc_text *out)
{
    put_head(sets, out);
    for (int i = 0; i < sets->count; i++)
        RC_TRY(put_set(&sets->set[i], i + 1, sets->count > 1, &left, out));
    rc_text_add(out,
                "</main>\n<footer>Accuracies are in percent of test images, forgetting in points. Deviations are those "
                "of a sample. Point at a part of a drawing to read its numbers; click the head of a column to sort by "
                "it.<br>Made by ");
    rc_text_format(out, "recollect %s %s.</footer>\n<script>\n", recollect_version(), rc_commit);
    put_lines(rc_page_js, out);
    rc_text_add(out, "</script>\n</body>\n</html>\n");
    return out->status;
}

/* Once without pictures, to know how much room is left for them: base 64 makes four bytes of three. */
rc_status rc_page_write(const rc_report_sets *sets, rc_text *out)
{
    int64_t cells = 0;
    rc_text bare = {0};
    for (int i = 0; i < sets->count; i++)
        for (int k = 0; k < sets->set[i].variants; k++)
            cells += rc_chart_confusion_cells(&sets->set[i].variant[k]);
    allowance left = {.hints = cells <= MOST_HINTS};
    rc_status status = put_page(sets, left, &bare);
    left.pictures = bare.used < MOST_BYTES ? (MOST_BYTES - bare.used) / 4 * 3 : 0;
    rc_text_free(&bare);
    return status == RC_OK ? put_page(sets, left, out) : status;
}
