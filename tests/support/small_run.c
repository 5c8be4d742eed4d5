#include "support/small_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "experiment/log_reader.h"
#include "support/succeeds.h"

static void make_pictures(void)
{
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < 10; i++) {
            char path[64];
            snprintf(path, sizeof path, "photos/class-%d/%d.ppm", k, i);
            data_write_colour(path, 14, 14, 20 + 60 * k + i, 200 - 50 * k + 2 * i, (60 * k * k + i) % 256);
        }
}

int small_run_enter(void **state)
{
    int failed = data_enter_folder(state);
    if (!failed)
        make_pictures();
    return failed;
}

static bool wants_to_stop(void *user)
{
    return ((const small_run *)user)->stop;
}

static void add_line(void *user, const char *text)
{
    page_add_line(&((small_run *)user)->results, text);
}

static void see(void *user, const char *where, const recollect_progress *p)
{
    small_run *run = user;
    char line[640];
    if (strcmp(p->stage_name, "reading") == 0)
        return;
    snprintf(line, sizeof line, "%s: %s %d %u/%u %d/%d", where, p->stage_name, p->task, p->step, p->steps, p->epoch,
             p->epochs);
    page_add_line(&run->progress, line);
    if (run->stop_at != NULL && strcmp(line, run->stop_at) == 0)
        run->stop = true;
    if (run->seen != NULL)
        run->seen(run, p);
}

void small_run_set(small_run *run, const char *key, const char *value)
{
    SUCCEEDS(rc_config_set(&run->settings.config, key, value));
}

void small_run_start_one(small_run *run, const char *out, const char *method)
{
    static const char *const value[][2] = {
        {"data", "photos"}, {"class_order", "published"},     {"tasks", "2"},           {"net", "resnet-small"},
        {"net_width", "4"}, {"generator", "generator-small"}, {"generator_width", "8"}, {"noise", "16"},
        {"batch", "8"},     {"refine_epochs", "1"},           {"epochs", "3"},          {"inversion_steps", "3"}};
    memset(run, 0, sizeof *run);
    data_log_start(&run->log);
    run->settings = (rc_run_settings){
        .config = rc_config_default(),
        .methods = 1,
        .backend = "cpu",
        .threads = 1,
        .jobs = 1,
        .out = out,
        .checkpoint_seconds = 3600,
        .line = add_line,
        .watch = {.log = run->log.log, .progress = see, .cancelled = wants_to_stop, .user = run}};
    SUCCEEDS(rc_method_find(method, &run->settings.method[0]));
    for (size_t i = 0; i < sizeof value / sizeof *value; i++)
        small_run_set(run, value[i][0], value[i][1]);
}

void small_run_start(small_run *run, const char *out)
{
    small_run_start_one(run, out, "cwd");
    SUCCEEDS(rc_method_find("finetune", &run->settings.method[run->settings.methods++]));
}

void small_run_do(small_run *run)
{
    if (rc_experiment_run(&run->settings) != RC_OK)
        fail_msg("%s\n%s", rc_message(), run->log.text);
}

static long long whole(const rc_json *line, const char *key)
{
    return rc_json_integer(rc_json_member(line, key));
}

static const char *text(const rc_json *line, const char *key)
{
    const char *found = rc_json_string(rc_json_member(line, key));
    return found != NULL ? found : "";
}

static rc_status add_event(void *user, const rc_json *line)
{
    char words[1400] = "";
    const char *event = text(line, "event");
    if (strcmp(event, "run") == 0)
        snprintf(words, sizeof words, "run %s (%s), %zu tasks", text(line, "cell"), text(line, "method"),
                 rc_json_count(rc_json_member(line, "task_sizes")));
    else if (strcmp(event, "step") == 0)
        snprintf(words, sizeof words, "step %lld %s %lld/%lld, %lld/%lld, all %lld/%lld", whole(line, "task"),
                 text(line, "stage"), whole(line, "step"), whole(line, "steps"), whole(line, "epoch"),
                 whole(line, "epochs"), whole(line, "total_step"), whole(line, "total_steps"));
    else if (strcmp(event, "dreams") == 0)
        snprintf(words, sizeof words, "dreams %lld %s after %lld: %zu", whole(line, "task"), text(line, "file"),
                 whole(line, "total_step"), rc_json_count(rc_json_member(line, "labels")));
    else if (strcmp(event, "task") == 0)
        snprintf(words, sizeof words, "task %lld of %lld classes", whole(line, "task"), whole(line, "classes"));
    else
        snprintf(words, sizeof words, "%s %s '%s'", event, text(line, "status"), text(line, "message"));
    page_add_line(user, words);
    return RC_OK;
}

void small_run_events(const char *folder, page *events)
{
    char path[RC_PATH_SIZE];
    int skipped;
    *events = (page){.used = 0};
    SUCCEEDS(rc_path_in(folder, "events.jsonl", path));
    SUCCEEDS(rc_log_read(path, add_event, events, &skipped));
    assert_int_equal(skipped, 0);
}
