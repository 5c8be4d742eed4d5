/* Results of a run and, after a line of four dashes, its log: whatever is in them, a report that is made of them runs
 * no script but its own. */
#include "fuzz/mutate.h"

#include <string.h>

#include "base/memory.h"
#include "report/charts.h"
#include "report/page.h"
#include "report/run_read.h"
#include "report/tables.h"

static int count_of(const rc_text *text, const char *piece)
{
    int count = 0;
    for (const char *p = text->bytes; p != NULL && (p = strstr(p, piece)) != NULL; p++)
        count++;
    return count;
}

static void write_all(const rc_report_sets *sets)
{
    const rc_report_table *kind;
    rc_text out = {0};
    if (rc_page_write(sets, &out) == RC_OK)
        FUZZ_EXPECT(count_of(&out, "<script") == 1 && count_of(&out, "</style") == 1 && count_of(&out, "<img") == 0);
    for (int i = 0; (kind = rc_report_table_at(i)) != NULL; i++)
        for (int format = RC_REPORT_HTML; format <= RC_REPORT_CSV; format++) {
            rc_table table = {0};
            kind->make(&sets->set[0], format == RC_REPORT_CSV, &table);
            rc_table_write(&table, (rc_report_format)format, &out);
            FUZZ_EXPECT(table.columns == 0 || table.cells % table.columns == 0);
            rc_table_free(&table);
        }
    rc_text_free(&out);
}

static void draw_log(const char *text, size_t size)
{
    rc_report_log log;
    rc_text out = {0};
    rc_report_log_begin(&log, 3);
    for (const char *end; (end = memchr(text, '\n', size)) != NULL; text = end + 1) {
        rc_json *line = NULL;
        size -= (size_t)(end + 1 - text);
        if (rc_json_parse("log", text, (size_t)(end - text), &line) == RC_OK)
            FUZZ_EXPECT(rc_report_log_take(&log, line) == RC_OK);
        rc_json_free(line);
    }
    rc_chart_losses(&log, &out);
    FUZZ_EXPECT(count_of(&out, "<script") == 0);
    rc_report_log_free(&log);
    rc_text_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    size_t end = 0;
    while (end < size && !(size - end >= 5 && memcmp(text + end, "----\n", 5) == 0))
        end++;
    rc_report_run *run = rc_alloc_zeroed(NULL, 1, sizeof *run);
    if (run == NULL)
        return 0;
    if (rc_report_run_parse(run, "results", text, end) == RC_OK && run->results.classes <= 200) {
        rc_report_runs runs = {.run = &run, .count = 1};
        rc_report_sets sets;
        if (rc_report_sets_make(&runs, &sets) == RC_OK) {
            write_all(&sets);
            rc_report_sets_free(&sets);
        }
    }
    if (end < size)
        draw_log(text + end + 5, size - end - 5);
    rc_report_run_free(run);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t limit, unsigned seed)
{
    fuzz_input in = fuzz_input_of(data, size, limit, seed);
    fuzz_mutate_json(&in, 0, in.size);
    return in.size;
}
