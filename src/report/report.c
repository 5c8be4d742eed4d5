#include "report/report.h"

#include <string.h>

#include "base/memory.h"
#include "report/page.h"
#include "report/tables.h"

/* Tables of one kind stand together; an empty line comes between tables. In LaTeX a comment says what they need.
 * Returns how many there are. */
static int write_tables(const rc_report_sets *sets, const rc_report_settings *settings, rc_text *out)
{
    const rc_report_table *kind;
    int written = 0;
    if (settings->format == RC_REPORT_LATEX)
        rc_text_add(out, "% needs \\usepackage{booktabs} and, for the minus sign, \\usepackage{newunicodechar}\n"
                         "% \\newunicodechar{\xE2\x88\x92}{\\ensuremath{-}}\n");
    for (int i = 0; (kind = rc_report_table_at(i)) != NULL; i++) {
        if (settings->table != NULL && strcmp(settings->table, kind->name) != 0)
            continue;
        for (int k = 0; k < sets->count; k++) {
            rc_table table = {0};
            kind->make(&sets->set[k], settings->format == RC_REPORT_CSV, &table);
            if (rc_table_rows(&table) > 0 || table.texts.status != RC_OK) {
                rc_text_add(out, written > 0 ? "\n" : "");
                rc_table_write(&table, settings->format, out);
                written++;
            }
            rc_table_free(&table);
        }
    }
    return written;
}

static void count(const rc_report_sets *sets, rc_report_about *about)
{
    *about = (rc_report_about){0};
    for (int i = 0; i < sets->count; i++) {
        about->copies += sets->set[i].copies;
        for (int k = 0; k < sets->set[i].variants; k++) {
            about->runs += sets->set[i].variant[k].runs;
            about->done += sets->set[i].variant[k].done;
            about->methods++;
        }
    }
}

rc_status rc_report_make(const rc_report_settings *settings, rc_text *out, rc_report_about *about)
{
    rc_report_runs runs = {0};
    rc_report_sets sets = {0};
    rc_status status = RC_OK;
    *out = (rc_text){0};
    for (int i = 0; i < settings->places && status == RC_OK; i++)
        status = rc_report_runs_add(&runs, settings->place[i]);
    if (status == RC_OK)
        status = rc_report_sets_make(&runs, &sets);
    if (status == RC_OK) {
        count(&sets, about);
        if (settings->format == RC_REPORT_HTML)
            status = rc_page_write(&sets, out);
        else
            about->tables = write_tables(&sets, settings, out);
    }
    rc_report_sets_free(&sets);
    rc_report_runs_free(&runs);
    return status != RC_OK ? status : out->status;
}

rc_status rc_report_may_replace(const char *path)
{
    static const char mark[] = "<meta name=\"generator\" content=\"recollect ";
    char head[256];
    rc_file_reader *reader;
    size_t size;
    bool there;
    RC_TRY(rc_file_find(path, &there));
    if (!there)
        return RC_OK;
    RC_TRY(rc_file_reader_open(path, &reader, &size));
    size = size < sizeof head - 1 ? size : sizeof head - 1;
    rc_status status = rc_file_reader_take(reader, head, size);
    head[status == RC_OK ? size : 0] = '\0';
    rc_file_reader_close(reader);
    if (status == RC_OK && strstr(head, mark) == NULL)
        status = rc_fail(RC_INVALID_ARGUMENT, "'%s' is there, and no report: remove it, or choose another name", path);
    return status;
}
