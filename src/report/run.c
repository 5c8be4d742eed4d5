#include "report/run.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "report/run_read.h"

/* ---- results.json ------------------------------------------------------------------------------------------------ */

enum { LARGEST_FILE = 1 << 28, MOST_CLASSES = 20000 };

static const char *text_or(const rc_json *object, const char *key, const char *otherwise)
{
    const char *text = rc_json_string(rc_json_member(object, key));
    return text != NULL && text[0] != '\0' ? text : otherwise;
}

const char *rc_report_run_text(const rc_report_run *run, const char *key)
{
    return text_or(run->identity, key, "");
}

/* The tasks of the run, from the list of their sizes. */
static rc_status read_sizes(const rc_json *sizes, rc_task_stream *stream)
{
    const rc_json *size = NULL;
    size_t count = rc_json_count(sizes);
    if (count < 1 || count > RC_MAX_TASKS)
        return rc_fail(RC_FORMAT, "task_sizes has %zu entries, expected 1 to %d", count, RC_MAX_TASKS);
    while ((size = rc_json_next(sizes, size)) != NULL) {
        int64_t classes = rc_json_integer(size);
        if (classes < 1 || classes > MOST_CLASSES - stream->classes)
            return rc_fail(RC_FORMAT, "task %d has size %lld, expected 1 or more, and at most %d classes in all",
                           stream->tasks + 1, (long long)classes, MOST_CLASSES);
        stream->classes += (int)classes;
        stream->task_end[stream->tasks++] = stream->classes;
    }
    return RC_OK;
}

static rc_status read_class_names(rc_report_run *run, const rc_json *classes)
{
    const rc_json *entry = NULL;
    run->class_name = rc_alloc_zeroed(NULL, (size_t)run->results.classes, sizeof *run->class_name);
    if (run->class_name == NULL)
        return RC_OUT_OF_MEMORY;
    for (int k = 0; (entry = rc_json_next(classes, entry)) != NULL; k++)
        RC_TRY(rc_json_get_string(entry, "name", &run->class_name[k]));
    return RC_OK;
}

static rc_status read_confusion(rc_report_run *run, const rc_json *rows)
{
    size_t classes = (size_t)run->results.classes;
    const rc_json *row = NULL, *cell = NULL;
    if (rc_json_count(rows) != classes)
        return rc_fail(RC_FORMAT, "confusion has %zu rows, expected %zu", rc_json_count(rows), classes);
    for (size_t i = 0; (row = rc_json_next(rows, row)) != NULL; i++) /* before memory is taken for all of them */
        if (rc_json_count(row) != classes)
            return rc_fail(RC_FORMAT, "row %zu of confusion has %zu entries, expected %zu", i + 1, rc_json_count(row),
                           classes);
    run->confusion = rc_alloc_zeroed(NULL, classes * classes, sizeof *run->confusion);
    if (run->confusion == NULL)
        return RC_OUT_OF_MEMORY;
    for (size_t i = 0; (row = rc_json_next(rows, row)) != NULL; i++) {
        for (size_t k = 0; (cell = rc_json_next(row, cell)) != NULL; k++) {
            int64_t count = rc_json_integer(cell);
            if (count < 0 || count > 1000000000)
                return rc_fail(RC_FORMAT, "row %zu of confusion has %lld, expected a number of images", i + 1,
                               (long long)count);
            run->confusion[i * classes + k] = (int32_t)count;
        }
    }
    return RC_OK;
}

/* "folder" says how anybody's images lie, and is no name of a set: it comes after the name of the folder. What follows
 * a dash says which of the images a run took. */
static void name_dataset(rc_report_run *run)
{
    static const char *const layouts[] = {"folder", "list", "csv", "idx"};
    const char *name = text_or(run->identity, "dataset", "unknown data"), *data = text_or(run->identity, "data", "");
    size_t from, end = strlen(data), length = strcspn(name, "-");
    while (end > 1 && data[end - 1] == '/')
        end--;
    for (from = end; from > 0 && data[from - 1] != '/';)
        from--;
    snprintf(run->dataset, sizeof run->dataset, "%s", name);
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        if (length != strlen(layouts[i]) || strncmp(name, layouts[i], length) != 0)
            continue;
        run->own_data = text_or(run->identity, "data_fingerprint", NULL);
        if (end > 0)
            snprintf(run->dataset, sizeof run->dataset, "%.*s (%s)", (int)(end - from), data + from, name);
    }
}

/* Which run it is: the members of `identity`. */
static void read_identity(rc_report_run *run, const rc_json *identity)
{
    run->identity = rc_json_is(identity, RC_JSON_OBJECT) ? identity : NULL;
    name_dataset(run);
    int64_t order = rc_json_integer(rc_json_member(run->identity, "order"));
    run->order = order >= 0 && order <= INT32_MAX ? (int)order : 0;
    run->seed = rc_json_integer(rc_json_member(run->identity, "seed"));
}

static rc_status read_results(rc_report_run *run)
{
    const rc_json *json = run->json, *sizes, *classes = rc_json_member(json, "classes");
    const rc_json *confusion = rc_json_member(json, "confusion");
    rc_task_stream stream = {0};
    RC_TRY(rc_json_get_string(json, "method", &run->method));
    if (strlen(run->method) >= sizeof run->results.method)
        return rc_fail(RC_FORMAT, "method has %zu bytes, expected fewer than %zu", strlen(run->method),
                       sizeof run->results.method);
    RC_TRY(rc_json_get_array(json, "task_sizes", &sizes));
    RC_TRY(read_sizes(sizes, &stream));
    read_identity(run, rc_json_member(json, "run"));
    RC_TRY(rc_results_create(&run->results, run->method, &stream));
    RC_TRY(classes != NULL ? rc_results_from_json(&run->results, json)
                           : rc_results_tasks_from_json(&run->results, json));
    if (classes != NULL && run->results.classes > 0)
        RC_TRY(read_class_names(run, classes));
    /* Results that a resumed run has read back, and not yet added to, have an empty matrix. */
    return rc_json_count(confusion) > 0 ? read_confusion(run, confusion) : RC_OK;
}

rc_status rc_report_run_parse(rc_report_run *run, const char *path, const char *text, size_t size)
{
    RC_TRY(rc_json_parse(path, text, size, &run->json));
    run->hash = rc_hash_bytes(RC_HASH_START, text, size);
    rc_status status = read_results(run);
    return status == RC_OK || status == RC_OUT_OF_MEMORY
               ? status
               : rc_fail(status, "%s does not hold the results of a run: %s", path, rc_message());
}

rc_status rc_report_run_read(rc_report_run *run, const char *path)
{
    char *text;
    size_t size;
    RC_TRY(rc_file_read(path, LARGEST_FILE, &text, &size));
    rc_status status = rc_report_run_parse(run, path, text, size);
    rc_free(NULL, text);
    return status;
}

/* ---- a run without results --------------------------------------------------------------------------------------- */

/* The first line of the log, which says which run it is. */
static rc_status read_first_line(const char *path, rc_report_run *run)
{
    enum { LONGEST_LINE = 1 << 20 };
    rc_file_reader *reader;
    size_t size;
    RC_TRY(rc_file_reader_open(path, &reader, &size));
    size = size < LONGEST_LINE ? size : LONGEST_LINE;
    char *text = rc_alloc(NULL, size + 1), *end;
    rc_status status = text != NULL ? rc_file_reader_take(reader, text, size) : RC_OUT_OF_MEMORY;
    rc_file_reader_close(reader);
    if (status == RC_OK) {
        end = memchr(text, '\n', size);
        status = end != NULL ? rc_json_parse(path, text, (size_t)(end - text), &run->json)
                             : rc_fail(RC_FORMAT, "%s has no whole line yet: there is nothing to report", path);
        run->hash = rc_hash_bytes(RC_HASH_START, text, end != NULL ? (size_t)(end - text) : size);
    }
    rc_free(NULL, text);
    return status;
}

rc_status rc_report_run_begun(rc_report_run *run, const char *path)
{
    RC_TRY(read_first_line(path, run));
    const rc_json *sizes = rc_json_member(run->json, "task_sizes");
    const char *slash = strrchr(run->folder, '/');
    rc_task_stream stream = {0};
    run->method = text_or(run->json, "method", slash != NULL ? slash + 1 : run->folder);
    read_identity(run, run->json);
    rc_status status = sizes != NULL ? read_sizes(sizes, &stream) : RC_OK;
    if (status != RC_OK)
        return rc_fail(status, "%s is not the log of a run: %s", path, rc_message());
    return sizes != NULL ? rc_results_create(&run->results, run->method, &stream) : RC_OK;
}

void rc_report_run_free(rc_report_run *run)
{
    rc_results_destroy(&run->results);
    rc_free(NULL, run->class_name);
    rc_free(NULL, run->confusion);
    rc_free(NULL, run->ledger);
    rc_free(NULL, run->norms);
    rc_free(NULL, run->dkl);
    rc_free(NULL, run->cost);
    rc_json_free(run->json);
    rc_free(NULL, run);
}
