/* recollect report: what runs have measured, as a page for a browser or as tables. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "cli/cli.h"
#include "report/report.h"

enum { OUT, MARKDOWN, LATEX, CSV, TABLE, OPTIONS };

static const rc_option options[OPTIONS] = {
    [OUT] = {"out", RC_OPTION_OUTPUT, "FILE", NULL, "where it goes; else report.html in RUN, or tables to the terminal",
             0, 0},
    [MARKDOWN] = {"markdown", RC_OPTION_FLAG, NULL, NULL, "the tables alone, as Markdown", 0, 0},
    [LATEX] = {"latex", RC_OPTION_FLAG, NULL, NULL, "the tables alone, as LaTeX (booktabs)", 0, 0},
    [CSV] = {"csv", RC_OPTION_FLAG, NULL, NULL, "the tables alone, as CSV", 0, 0},
    [TABLE] = {"table", RC_OPTION_TEXT, RC_REPORT_TABLE_NAMES, NULL, "only this table", 0, 0},
};

/* Where the page goes if nobody says so: into the run, also into one that is not there, which is refused later. Of
 * several runs none is the place for it. */
static bool choose_out(int count, char **arguments, char path[RC_PATH_SIZE])
{
    struct stat about;
    return count == 1 && (stat(arguments[0], &about) != 0 || S_ISDIR(about.st_mode)) &&
           rc_path_in(arguments[0], "report.html", path) == RC_OK;
}

static int save(const char *out, const rc_text *text, const rc_report_about *about)
{
    rc_text size = {0};
    rc_text_size(&size, (double)text->used);
    rc_status status = size.status == RC_OK ? rc_file_write_atomic(out, text->bytes, text->used) : size.status;
    if (status == RC_OK)
        rc_print("%s: %d run%s of %d method%s%s, %s", out, about->runs, about->runs == 1 ? "" : "s", about->methods,
                 about->methods == 1 ? "" : "s", about->done < about->runs ? ", not all finished" : "", size.bytes);
    rc_text_free(&size);
    return status == RC_OK ? RC_EXIT_DONE : rc_failed(rc_command_report.name, status);
}

static int make(const rc_report_settings *settings, const char *out)
{
    rc_text text;
    rc_report_about about;
    rc_status status = out != NULL ? rc_report_may_replace(out) : RC_OK;
    if (status != RC_OK)
        return rc_failed(rc_command_report.name, status);
    status = rc_report_make(settings, &text, &about);
    int code = RC_EXIT_DONE;
    if (status != RC_OK)
        code = rc_failed(rc_command_report.name, status);
    else if (out != NULL)
        code = save(out, &text, &about);
    else if (text.used > 0) /* every part of it has been escaped, and ends with its own line break */
        fwrite(text.bytes, 1, text.used, stdout);
    if (code == RC_EXIT_DONE && about.copies > 0)
        rc_note("left out: %d cop%s of runs that are there already", about.copies, about.copies == 1 ? "y" : "ies");
    if (code == RC_EXIT_DONE && settings->table != NULL && about.tables == 0)
        rc_note(
            "the table '%s' is empty: these runs have none of its numbers; docs/report.md says where they come from",
            settings->table);
    rc_text_free(&text);
    return code;
}

static int run(const rc_option_value *value, int count, char **arguments)
{
    const rc_command *self = &rc_command_report;
    rc_report_settings settings = {.place = arguments, .places = count, .table = value[TABLE].text};
    char chosen[RC_PATH_SIZE];
    const char *out = value[OUT].text;
    if (count == 0)
        return rc_wrong_usage(self, "which run? Name the folder that 'recollect run' wrote to");
    if (value[MARKDOWN].given + value[LATEX].given + value[CSV].given > 1)
        return rc_wrong_usage(self, "--markdown, --latex or --csv: which one?");
    settings.format = value[MARKDOWN].given ? RC_REPORT_MARKDOWN
                      : value[LATEX].given  ? RC_REPORT_LATEX
                      : value[CSV].given    ? RC_REPORT_CSV
                                            : RC_REPORT_HTML;
    if (settings.table != NULL && settings.format == RC_REPORT_HTML)
        return rc_wrong_usage(self, "--table is for --markdown, --latex and --csv: a page has all tables");
    if (out == NULL && settings.format == RC_REPORT_HTML) {
        if (!choose_out(count, arguments, chosen))
            return rc_wrong_usage(self, "where shall the page go? --out FILE says it, such as --out report.html");
        out = chosen;
    }
    return make(&settings, out);
}

const rc_command rc_command_report = {
    .name = "report",
    .summary = "Shows what runs have measured: one HTML page with figures and tables, or the tables alone.",
    .arguments = "RUN...",
    .details = "RUN is a folder that 'recollect run' wrote to, finished or not, a folder of several, or a copy of a\n"
               "results.json. The page needs no network and no other file. It has accuracies with mean and\n"
               "deviation over class orders and seeds, the paper's figures beside ours, what is taken for what,\n"
               "norms, losses, times, dreams, settings and commands. It replaces no file but an older report.",
    .examples = "  recollect report demo-run\n"
                "  recollect report grid cifar --out both.html\n"
                "  recollect report grid --table paper --latex > paper.tex\n"
                "  recollect report results/*.json --out results.html",
    .option = options,
    .options = OPTIONS,
    .run = run,
};
