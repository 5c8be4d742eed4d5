#include "support/reports.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "support/succeeds.h"

char report_folder[64];

int report_set_up(void **state)
{
    (void)state;
    snprintf(report_folder, sizeof report_folder, "/tmp/recollect-test-XXXXXX");
    return mkdtemp(report_folder) != NULL ? 0 : -1;
}

int report_tear_down(void **state)
{
    char command[96];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", report_folder);
    return system(command);
}

const char *in_folder(const char *name)
{
    static char path[4][RC_PATH_SIZE];
    static int next;
    SUCCEEDS(rc_path_in(report_folder, name, path[next = (next + 1) % 4]));
    return path[next];
}

const run_file five = {
    .method = "cwd", .dataset = "cifar100", .tasks = 5, .done = 5, .classes_per_task = 2, .accuracy = 90};

void write_run(const char *name, const char *method, int order, double accuracy, const char *setting)
{
    run_file run = five;
    run.method = method;
    run.order = order;
    run.accuracy = accuracy;
    run.setting = setting;
    run_file_write(&run, in_folder(name));
}

rc_status try_report(rc_report_format format, const char *table, rc_text *out, rc_report_about *about)
{
    char *place[] = {report_folder};
    rc_report_settings settings = {.place = place, .places = 1, .format = format, .table = table};
    return rc_report_make(&settings, out, about);
}

rc_text report(rc_report_format format, const char *table)
{
    rc_text out;
    rc_report_about about;
    SUCCEEDS(try_report(format, table, &out, &about));
    return out;
}

void has(const rc_text *text, const char *piece)
{
    if (text->bytes == NULL || strstr(text->bytes, piece) == NULL)
        fail_msg("'%s' is not in:\n%.6000s", piece, text->bytes != NULL ? text->bytes : "(nothing)");
}

void has_not(const rc_text *text, const char *piece)
{
    if (text->bytes != NULL && strstr(text->bytes, piece) != NULL)
        fail_msg("there is '%s'", piece);
}

int count_of(const rc_text *text, const char *piece)
{
    int count = 0;
    for (const char *p = text->bytes; (p = strstr(p, piece)) != NULL; p++)
        count++;
    return count;
}

void says(rc_report_format format, const char *table, const char *piece)
{
    rc_text text = report(format, table);
    has(&text, piece);
    rc_text_free(&text);
}
