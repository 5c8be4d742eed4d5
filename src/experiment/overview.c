#include "experiment/overview.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/memory.h"
#include "data/listing.h"

/* ---- lines ------------------------------------------------------------------------------------------------------- */

static double number_of(const rc_json *line, const char *key)
{
    return rc_json_number(rc_json_member(line, key));
}

/* A whole number from 0 to `most`; -1: there is none. */
static int64_t whole_of(const rc_json *line, const char *key, int64_t most)
{
    const rc_json *value = rc_json_member(line, key);
    int64_t number = rc_json_integer(value);
    return rc_json_is(value, RC_JSON_INTEGER) && number >= 0 && number <= most ? number : -1;
}

/* A text that is cut between characters where it does not fit; as it was if there is none. */
static void take_text(const rc_json *line, const char *key, char *text, size_t size)
{
    const char *found = rc_json_string(rc_json_member(line, key));
    if (found == NULL)
        return;
    size_t length = strlen(found);
    if (length >= size) {
        length = size - 1;
        while (length > 0 && ((unsigned char)found[length] & 0xC0) == 0x80)
            length--;
    }
    memcpy(text, found, length);
    text[length] = '\0';
}

static void take_run(rc_seen_cell *c, const rc_json *line)
{
    const rc_json *sizes = rc_json_member(line, "task_sizes");
    size_t tasks = rc_json_is(sizes, RC_JSON_ARRAY) ? rc_json_count(sizes) : 0;
    char method[32] = "";
    take_text(line, "cell", c->name, sizeof c->name);
    take_text(line, "method", method, sizeof method);
    c->first_task = strcmp(method, "first-task") == 0;
    c->tasks = tasks <= RC_MAX_TASKS ? (int)tasks : 0;
}

static void take_task(rc_seen_cell *c, const rc_json *line)
{
    int task = (int)whole_of(line, "task", RC_MAX_TASKS);
    double accuracy = number_of(line, "accuracy");
    if (task < 1 || !(accuracy >= 0 && accuracy <= 100))
        return;
    for (; c->done < task; c->done++) /* those that the log has lost */
        c->accuracy[c->done] = NAN;
    c->done = task; /* a run that was resumed repeats what comes after */
    c->accuracy[task - 1] = accuracy;
    c->mean = number_of(line, "mean_accuracy");
    c->time = number_of(line, "time");
}

static void take_losses(rc_seen_cell *c, const rc_json *losses)
{
    const rc_json *loss = NULL;
    c->losses = 0;
    while (c->losses < RC_LOSS_COUNT && (loss = rc_json_next(losses, loss)) != NULL) {
        if (rc_json_key(loss) == NULL || isnan(rc_json_number(loss)))
            continue;
        snprintf(c->loss[c->losses].name, sizeof c->loss->name, "%.20s", rc_json_key(loss));
        c->loss[c->losses++].value = rc_json_number(loss);
    }
}

/* Every second point goes when there is no room. */
static void thin_out(rc_loss_curve *curve)
{
    curve->points = 0;
    for (int i = 0; i < RC_CURVE_POINTS; i += 2) {
        curve->step[curve->points] = curve->step[i];
        curve->loss[curve->points++] = curve->loss[i];
    }
    curve->stride *= 2;
}

/* The curve of the stage at hand is the first. A new task forgets those of the one before. */
static rc_loss_curve *curve_of(rc_seen_cell *c)
{
    rc_loss_curve *first = &c->curve[0];
    if (first->task != c->task)
        for (int i = 0; i < RC_CELL_CURVES; i++)
            c->curve[i].stage[0] = '\0';
    if (first->stage[0] != '\0' && strcmp(first->stage, c->stage) == 0)
        return first;
    if (first->stage[0] != '\0')
        memmove(first + 1, first, (RC_CELL_CURVES - 1) * sizeof *first);
    memset(first, 0, sizeof *first);
    memcpy(first->stage, c->stage, sizeof first->stage);
    first->task = c->task;
    first->steps = c->steps;
    first->stride = 1;
    return first;
}

static void add_point(rc_seen_cell *c)
{
    if (isnan(c->total_loss))
        return;
    rc_loss_curve *curve = curve_of(c);
    while (curve->points > 0 && curve->step[curve->points - 1] >= (double)c->step) /* the run was resumed before it */
        curve->points--;
    if (curve->passed++ % curve->stride != 0)
        return;
    if (curve->points == RC_CURVE_POINTS)
        thin_out(curve);
    curve->step[curve->points] = (double)c->step;
    curve->loss[curve->points++] = c->total_loss;
}

static void take_step(rc_seen_cell *c, const rc_json *line)
{
    int64_t task = whole_of(line, "task", RC_MAX_TASKS), step = whole_of(line, "step", INT32_MAX);
    int64_t steps = whole_of(line, "steps", INT32_MAX);
    char stage[16] = "";
    take_text(line, "stage", stage, sizeof stage);
    if (task < 1 || step < 0 || step > steps || stage[0] == '\0')
        return;
    c->task = (int)task;
    c->step = step;
    c->steps = steps;
    memcpy(c->stage, stage, sizeof c->stage);
    c->epoch = (int)whole_of(line, "epoch", INT32_MAX);
    c->epochs = (int)whole_of(line, "epochs", INT32_MAX);
    c->total_step = whole_of(line, "total_step", INT64_MAX);
    c->total_steps = whole_of(line, "total_steps", INT64_MAX);
    c->time = number_of(line, "time");
    c->left = number_of(line, "seconds_left");
    c->learning_rate = number_of(line, "learning_rate");
    c->images_per_second = number_of(line, "images_per_second");
    c->memory = number_of(line, "memory");
    c->total_loss = number_of(line, "total_loss");
    if (rc_json_count(rc_json_member(line, "loss")) > 0) /* estimation has none: those before it stay */
        take_losses(c, rc_json_member(line, "loss"));
    add_point(c);
}

static void take_line(rc_seen_cell *c, const rc_json *line)
{
    const char *event = rc_json_string(rc_json_member(line, "event"));
    if (event == NULL)
        return;
    c->end[0] = c->message[0] = '\0'; /* what comes after an end is of a process that goes on */
    if (strcmp(event, "run") == 0)
        take_run(c, line);
    else if (strcmp(event, "step") == 0)
        take_step(c, line);
    else if (strcmp(event, "task") == 0)
        take_task(c, line);
    else if (strcmp(event, "end") == 0) {
        take_text(line, "status", c->end, sizeof c->end);
        take_text(line, "message", c->message, sizeof c->message);
    }
}

/* ---- cells ------------------------------------------------------------------------------------------------------- */

/* What is known before the first line: the name of its folder, as far as it is below the run's. */
static void forget(rc_seen_cell *c, const char *name)
{
    c->tasks = c->done = c->task = c->losses = 0;
    c->first_task = false;
    c->step = c->steps = c->total_step = c->total_steps = 0;
    c->time = c->left = c->learning_rate = c->images_per_second = c->memory = c->total_loss = c->mean = NAN;
    c->stage[0] = c->end[0] = c->message[0] = '\0';
    for (int i = 0; i < RC_CELL_CURVES; i++)
        c->curve[i] = (rc_loss_curve){0};
    snprintf(c->name, sizeof c->name, "%.90s", name);
}

static const char *name_below(const rc_overview *o, const rc_seen_cell *c)
{
    const char *name = rc_path_below(o->folder, c->folder);
    return *name != '\0' ? name : c->folder;
}

/* A log that cannot be read now may be read a second later; want of memory ends all. */
static rc_status excuse(rc_overview *o, rc_status status)
{
    if (status != RC_OK && status != RC_OUT_OF_MEMORY)
        snprintf(o->problem, sizeof o->problem, "%s", rc_message());
    return status == RC_OUT_OF_MEMORY ? status : RC_OK;
}

static rc_status read_on(rc_overview *o, rc_seen_cell *c)
{
    for (;;) {
        rc_json *line;
        bool again;
        rc_status status = rc_log_reader_next(&c->log, &line, &again);
        if (again)
            forget(c, name_below(o, c));
        if (line == NULL)
            return excuse(o, status);
        take_line(c, line);
        rc_json_free(line);
    }
}

static void close_cell(rc_seen_cell *c)
{
    rc_log_reader_close(&c->log);
    rc_free(NULL, c);
}

static rc_status make_room(rc_overview *o)
{
    if (o->cells < o->room)
        return RC_OK;
    int room = 2 * o->room + 16;
    rc_seen_cell **grown = rc_alloc_zeroed(NULL, (size_t)room, sizeof(rc_seen_cell *));
    if (grown == NULL)
        return RC_OUT_OF_MEMORY;
    for (int i = 0; i < o->cells; i++)
        grown[i] = o->cell[i];
    rc_free(NULL, o->cell);
    o->cell = grown;
    o->room = room;
    return RC_OK;
}

/* Adds a cell that is not known yet, in its place. */
static rc_status add_cell(rc_overview *o, const char *folder, const char *log)
{
    int at = 0;
    while (at < o->cells && strcmp(o->cell[at]->folder, folder) < 0)
        at++;
    if (o->cells == RC_OVERVIEW_CELLS || (at < o->cells && strcmp(o->cell[at]->folder, folder) == 0))
        return RC_OK;
    RC_TRY(make_room(o));
    rc_seen_cell *c = rc_alloc_zeroed(NULL, 1, sizeof *c);
    if (c == NULL)
        return RC_OUT_OF_MEMORY;
    snprintf(c->folder, sizeof c->folder, "%s", folder);
    rc_status status = rc_log_reader_open(&c->log, log);
    if (status != RC_OK) {
        rc_free(NULL, c);
        return excuse(o, status);
    }
    forget(c, name_below(o, c));
    memmove(o->cell + at + 1, o->cell + at, (size_t)(o->cells - at) * sizeof(rc_seen_cell *));
    o->cell[at] = c;
    o->cells++;
    return RC_OK;
}

/* The folder and those in it. Links to folders are not followed: they may lead in circles. */
static rc_status find_cells(rc_overview *o, const char *folder, int depth)
{
    enum { DEEPEST = 6 };
    rc_listing listing;
    char path[RC_PATH_SIZE];
    RC_TRY(rc_listing_look(folder, &listing));
    rc_status status = RC_OK;
    for (int i = 0; i < listing.count && status == RC_OK; i++) {
        struct stat about;
        if (rc_path_in(folder, listing.name[i], path) != RC_OK)
            continue;
        status = rc_file_look(path, false, &about);
        if (status == RC_OK && strcmp(listing.name[i], "events.jsonl") == 0 && S_ISREG(about.st_mode))
            status = add_cell(o, folder, path);
        else if (status == RC_OK && S_ISDIR(about.st_mode) && depth < DEEPEST)
            status = find_cells(o, path, depth + 1);
    }
    rc_listing_free(&listing);
    return status;
}

/* Somebody may have removed a run and begun another one in its place. */
static void drop_removed(rc_overview *o)
{
    int kept = 0;
    for (int i = 0; i < o->cells; i++) {
        struct stat about;
        bool gone = fstat(o->cell[i]->log.fd, &about) == 0 && about.st_nlink == 0;
        if (gone)
            close_cell(o->cell[i]);
        else
            o->cell[kept++] = o->cell[i];
    }
    o->cells = kept;
}

rc_status rc_overview_update(rc_overview *o)
{
    o->problem[0] = '\0';
    drop_removed(o);
    RC_TRY(find_cells(o, o->folder, 0));
    for (int i = 0; i < o->cells; i++)
        RC_TRY(read_on(o, o->cell[i]));
    return RC_OK;
}

rc_status rc_overview_open(rc_overview *o, const char *folder)
{
    struct stat about;
    size_t length = strlen(folder);
    *o = (rc_overview){0};
    while (length > 1 && folder[length - 1] == '/')
        length--;
    if (length >= sizeof o->folder)
        return rc_fail(RC_INVALID_ARGUMENT, "the path %s is too long", folder);
    snprintf(o->folder, sizeof o->folder, "%.*s", (int)length, folder);
    if (stat(o->folder, &about) != 0)
        return rc_fail(RC_IO, "cannot open '%s': %s", o->folder, strerror(errno));
    if (!S_ISDIR(about.st_mode))
        return rc_fail(RC_INVALID_ARGUMENT, "'%s' is no folder: expected one that 'recollect run' works in", o->folder);
    return RC_OK;
}

void rc_overview_close(rc_overview *o)
{
    for (int i = 0; i < o->cells; i++)
        close_cell(o->cell[i]);
    rc_free(NULL, o->cell);
    *o = (rc_overview){0};
}
