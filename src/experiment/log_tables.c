#include "experiment/log_tables.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/number.h"
#include "cil/objective.h"
#include "data/image.h"
#include "experiment/log_reader.h"
#include "experiment/tfevents.h"

/* ---- files ------------------------------------------------------------------------------------------------------- */

static rc_status problem(const rc_log_file *file, const char *what)
{
    return rc_fail(RC_IO, "cannot %s '%s': %s", what, file->path, strerror(errno));
}

rc_status rc_log_file_open(rc_log_file *file, const char *path, int flags)
{
    *file = (rc_log_file){0};
    if (strlen(path) >= sizeof file->path)
        return rc_fail(RC_INVALID_ARGUMENT, "the path %s is too long", path);
    snprintf(file->path, sizeof file->path, "%s", path);
    file->fd = rc_file_open(path, flags | O_CREAT | O_APPEND);
    if (file->fd >= 0)
        return RC_OK;
    file->fd = 0;
    return problem(file, "open");
}

void rc_log_file_close(rc_log_file *file)
{
    if (file->fd > 0)
        (void)rc_file_close(file->fd);
    file->fd = 0;
}

rc_status rc_log_file_write(rc_log_file *file, const void *data, size_t size)
{
    const char *next = data;
    while (size > 0) {
        ssize_t put = write(file->fd, next, size);
        if (put < 0 && errno != EINTR)
            return problem(file, "write");
        if (put > 0) {
            next += put;
            size -= (size_t)put;
        }
    }
    return RC_OK;
}

rc_status rc_log_file_sync(rc_log_file *file)
{
    return rc_file_sync(file->fd) == 0 ? RC_OK : problem(file, "sync");
}

/* ---- scalars.csv ------------------------------------------------------------------------------------------------- */

/* A row that grows; the first lack of memory sticks. */
typedef struct row {
    char *text;
    size_t used, room;
    bool failed;
} row;

static void add_text(row *r, const char *text)
{
    size_t size = strlen(text);
    if (!r->failed && size > r->room - r->used) {
        size_t room = 2 * (r->used + size) + 512;
        char *grown = rc_alloc(NULL, room);
        if (grown != NULL && r->used > 0)
            memcpy(grown, r->text, r->used);
        rc_free(NULL, r->text);
        r->text = grown;
        r->room = room;
        r->failed = grown == NULL;
    }
    if (r->failed || size == 0) /* of which the text may be nothing yet */
        return;
    memcpy(r->text + r->used, text, size);
    r->used += size;
}

/* Numbers as the line has them, names of stages; nothing for all else. No text of a line can have a comma in it. */
static void add_value(row *r, const rc_json *value, int digits)
{
    char text[40] = "";
    const char *name = rc_json_string(value);
    if (rc_json_is(value, RC_JSON_INTEGER))
        snprintf(text, sizeof text, "%" PRId64, rc_json_integer(value));
    else if (rc_json_is(value, RC_JSON_REAL))
        rc_number_write(rc_json_number(value), digits, text, sizeof text);
    else if (name != NULL && strspn(name, "abcdefghijklmnopqrstuvwxyz_-") == strlen(name))
        snprintf(text, sizeof text, "%s", name);
    add_text(r, text);
}

static const char *const columns[] = {"time",
                                      "seconds",
                                      "task",
                                      "stage",
                                      "step",
                                      "steps",
                                      "epoch",
                                      "epochs",
                                      "total_step",
                                      "total_steps",
                                      "learning_rate",
                                      "images_per_second",
                                      "stage_seconds_left",
                                      "seconds_left",
                                      "memory",
                                      "total_loss"};
enum { COLUMNS = sizeof columns / sizeof *columns };

static rc_status write_row(rc_log_tables *t, row *r)
{
    add_text(r, "\n");
    rc_status status = r->failed ? RC_OUT_OF_MEMORY : rc_log_file_write(&t->scalars, r->text, r->used);
    rc_free(NULL, r->text);
    return status;
}

static rc_status write_names(rc_log_tables *t)
{
    row r = {0};
    for (int i = 0; i < COLUMNS; i++) {
        add_text(&r, i > 0 ? "," : "");
        add_text(&r, columns[i]);
    }
    for (int i = 0; i < RC_LOSS_COUNT; i++) {
        add_text(&r, ",loss_");
        add_text(&r, rc_loss_key(i));
    }
    add_text(&r, ",dream_labels");
    return write_row(t, &r);
}

static rc_status write_scalars(rc_log_tables *t, const rc_json *line)
{
    enum { DIGITS = 9, DIGITS_OF_TIME = 13 }; /* floats as they are; milliseconds */
    row r = {0};
    const rc_json *loss = rc_json_member(line, "loss"), *labels = rc_json_member(line, "dream_labels"), *label = NULL;
    for (int i = 0; i < COLUMNS; i++) {
        add_text(&r, i > 0 ? "," : "");
        add_value(&r, rc_json_member(line, columns[i]), i == 0 ? DIGITS_OF_TIME : DIGITS);
    }
    for (int i = 0; i < RC_LOSS_COUNT; i++) {
        add_text(&r, ",");
        add_value(&r, rc_json_member(loss, rc_loss_key(i)), DIGITS);
    }
    add_text(&r, ",");
    while ((label = rc_json_next(labels, label)) != NULL) {
        add_text(&r, label != rc_json_next(labels, NULL) ? " " : "");
        add_value(&r, label, DIGITS);
    }
    return write_row(t, &r);
}

/* ---- TensorBoard ------------------------------------------------------------------------------------------------- */

static rc_status write_event(rc_log_tables *t, rc_tf_event *event)
{
    uint8_t *record;
    size_t size;
    RC_TRY(rc_tf_finish(event, &record, &size));
    rc_status status = rc_log_file_write(&t->events, record, size);
    rc_free(NULL, record);
    return status;
}

static void begin_event(rc_tf_event *event, const rc_json *line, const char *step)
{
    double time = rc_json_number(rc_json_member(line, "time"));
    rc_tf_begin(event, isfinite(time) ? time : 0, rc_json_integer(rc_json_member(line, step)));
}

/* "group/prefix" and the name of the value, where the line has a number of that name. */
static void put_scalar(rc_tf_event *event, const char *group, const char *prefix, const char *name,
                       const rc_json *value)
{
    char tag[128];
    if (isnan(rc_json_number(value)))
        return;
    snprintf(tag, sizeof tag, "%.60s/%s%s", group, prefix, name);
    rc_tf_scalar(event, tag, rc_json_number(value));
}

static rc_status put_labels(rc_tf_event *event, const char *stage, const rc_json *labels)
{
    char tag[128];
    size_t count = rc_json_count(labels), i = 0;
    const rc_json *label = NULL;
    if (count == 0 || !rc_json_is(labels, RC_JSON_ARRAY))
        return RC_OK;
    double *height = rc_alloc_zeroed(NULL, count, sizeof *height);
    if (height == NULL)
        return RC_OUT_OF_MEMORY;
    while ((label = rc_json_next(labels, label)) != NULL)
        height[i++] = (double)rc_json_integer(label);
    snprintf(tag, sizeof tag, "%.60s/dream_labels", stage);
    rc_tf_histogram(event, tag, height, count);
    rc_free(NULL, height);
    return RC_OK;
}

static rc_status draw_step(rc_log_tables *t, const rc_json *line)
{
    static const char *const names[] = {"learning_rate", "images_per_second", "memory", "total_loss"};
    rc_tf_event event;
    const rc_json *loss = rc_json_member(line, "loss");
    const char *stage = rc_json_string(rc_json_member(line, "stage"));
    if (stage == NULL)
        return RC_OK;
    begin_event(&event, line, "total_step");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        put_scalar(&event, stage, "", names[i], rc_json_member(line, names[i]));
    for (int i = 0; i < RC_LOSS_COUNT; i++)
        put_scalar(&event, stage, "loss_", rc_loss_key(i), rc_json_member(loss, rc_loss_key(i)));
    rc_status status = put_labels(&event, stage, rc_json_member(line, "dream_labels"));
    rc_status written = write_event(t, &event);
    return status != RC_OK ? status : written;
}

static rc_status draw_task(rc_log_tables *t, const rc_json *line)
{
    static const char *const names[] = {"accuracy",   "mean_accuracy", "top5",     "old_accuracy",     "new_accuracy",
                                        "forgetting", "old_norm",      "new_norm", "backward_transfer"};
    rc_tf_event event;
    begin_event(&event, line, "task");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        put_scalar(&event, "task", "", names[i], rc_json_member(line, names[i]));
    return write_event(t, &event);
}

/* The picture lies beside the log; one that somebody has removed or replaced is left out. */
static rc_status draw_dreams(rc_log_tables *t, const rc_json *line)
{
    char path[RC_PATH_SIZE], *png;
    size_t size;
    int width, height;
    struct stat about;
    rc_tf_event event;
    const char *file = rc_json_string(rc_json_member(line, "file"));
    if (file == NULL || strchr(file, '/') != NULL || rc_json_get_int(line, "width", &width) != RC_OK ||
        rc_json_get_int(line, "height", &height) != RC_OK)
        return RC_OK;
    RC_TRY(rc_path_in(t->folder, file, path));
    RC_TRY(rc_file_look(path, true, &about));
    rc_status status = S_ISREG(about.st_mode) ? rc_file_read(path, RC_IMAGE_MAX_FILE, &png, &size) : RC_FORMAT;
    if (status != RC_OK)
        return status == RC_FORMAT ? RC_OK : status;
    begin_event(&event, line, "task");
    rc_tf_image(&event, "dreams", height, width, png, size);
    rc_free(NULL, png);
    return write_event(t, &event);
}

/* The first records of a file: its version, and that what was read of an earlier process does not count. */
static rc_status begin_records(rc_log_tables *t, double time)
{
    rc_tf_event event;
    rc_tf_begin(&event, time, 0);
    rc_tf_version(&event);
    RC_TRY(write_event(t, &event));
    rc_tf_begin(&event, time, 0);
    rc_tf_start(&event);
    return write_event(t, &event);
}

/* ---- both -------------------------------------------------------------------------------------------------------- */

rc_status rc_log_tables_add(rc_log_tables *t, const rc_json *line)
{
    const char *event = rc_json_string(rc_json_member(line, "event"));
    if (event == NULL)
        return RC_OK;
    if (strcmp(event, "step") == 0) {
        RC_TRY(write_scalars(t, line));
        return draw_step(t, line);
    }
    return strcmp(event, "task") == 0     ? draw_task(t, line)
           : strcmp(event, "dreams") == 0 ? draw_dreams(t, line)
                                          : RC_OK;
}

static rc_status add_line(void *tables, const rc_json *line)
{
    return rc_log_tables_add(tables, line);
}

static const char begins[] = "events.out.tfevents.", ends[] = ".recollect";

static bool is_ours(const char *name)
{
    if (strncmp(name, begins, sizeof begins - 1) != 0)
        return false;
    name += sizeof begins - 1;
    return strcmp(name + strspn(name, "0123456789"), ends) == 0;
}

/* A TensorBoard that is open goes on to the next file when it is through with one, but stays for ever at one that is
 * gone. So the file of the process before becomes empty, and is removed by the next process. */
static rc_status retire(const char *path)
{
    struct stat about;
    RC_TRY(rc_file_look(path, true, &about));
    bool empty = about.st_size == 0;
    if ((empty ? unlink(path) : truncate(path, 0)) == 0 || errno == ENOENT)
        return RC_OK;
    return rc_fail(RC_IO, "cannot %s '%s': %s", empty ? "remove" : "empty", path, strerror(errno));
}

/* TensorBoard follows a row of files by their names and never goes back in one. So every process has a file of its own,
 * whole by itself. */
static rc_status retire_others(const rc_log_tables *t)
{
    const char *own = strrchr(t->events.path, '/') + 1;
    const struct dirent *entry;
    DIR *folder = opendir(t->folder);
    if (folder == NULL)
        return rc_fail(RC_IO, "cannot look into '%s': %s", t->folder, strerror(errno));
    rc_status status = rc_file_next(folder, t->folder, &entry);
    while (status == RC_OK && entry != NULL) {
        char path[RC_PATH_SIZE];
        bool other = is_ours(entry->d_name) && strcmp(entry->d_name, own) != 0;
        if (other)
            status = rc_path_in(t->folder, entry->d_name, path);
        if (other && status == RC_OK)
            status = retire(path);
        if (status == RC_OK)
            status = rc_file_next(folder, t->folder, &entry);
    }
    closedir(folder);
    return status;
}

static rc_status open_tables(rc_log_tables *t, const char *log, double time)
{
    char name[64], path[RC_PATH_SIZE];
    int skipped;
    RC_TRY(rc_path_in(t->folder, "scalars.csv", path));
    RC_TRY(rc_log_file_open(&t->scalars, path, O_WRONLY | O_TRUNC));
    RC_TRY(write_names(t));
    snprintf(name, sizeof name, "%s%.0f%s", begins, floor(time), ends);
    RC_TRY(rc_path_in(t->folder, name, path));
    RC_TRY(rc_log_file_open(&t->events, path, O_WRONLY | O_TRUNC));
    RC_TRY(begin_records(t, time));
    RC_TRY(rc_log_read(log, add_line, t, &skipped));
    return retire_others(t);
}

rc_status rc_log_tables_open(rc_log_tables *t, const char *folder, const char *log, double time)
{
    *t = (rc_log_tables){0};
    if (strlen(folder) >= sizeof t->folder)
        return rc_fail(RC_INVALID_ARGUMENT, "the path %s is too long", folder);
    snprintf(t->folder, sizeof t->folder, "%s", folder);
    rc_status status = open_tables(t, log, time);
    if (status != RC_OK)
        rc_log_tables_close(t);
    return status;
}

void rc_log_tables_close(rc_log_tables *t)
{
    rc_log_file_close(&t->scalars);
    rc_log_file_close(&t->events);
}
