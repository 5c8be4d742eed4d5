/* Tables of pictures, as spreadsheets and data frames save them:
 *
 *     train.csv  val.csv        image,label
 *                               cats/1.jpg,cat
 *
 * The user names the table for training; its partner is found as that of a list (list.c). The classes are what stands
 * in their column, sorted. */
#include "data/csv_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "data/image.h"
#include "data/list.h"
#include "data/reader.h"

enum { MOST_COLUMNS = 256 };
static const size_t file_limit = (size_t)1 << 28;
static const char expected[] = "a first line such as 'path,class' that names the columns, or lines such as "
                               "'cats/1.jpg,cat'";

/* ---- the text --------------------------------------------------------------------------------------------------- */

typedef struct parser {
    const char *name;
    char *at, *end; /* *end is 0 */
    int line;       /* of `at` */
    char separator;
    char *field[MOST_COLUMNS]; /* of the record that was read last */
    int fields, record_line;
} parser;

/* That of the first line that is not empty. */
static char find_separator(const char *text)
{
    bool quoted = false;
    text += strspn(text, " \r\n");
    for (; *text != '\0' && (quoted || *text != '\n'); text++) {
        quoted ^= *text == '"';
        if (!quoted && (*text == ',' || *text == ';' || *text == '\t'))
            return *text;
    }
    return ',';
}

static void skip_blanks(parser *p)
{
    while (*p->at == ' ' || *p->at == '\r' || (*p->at == '\t' && p->separator != '\t'))
        p->at++;
}

/* What stands between quotes moves to the front of its place; a quote is written twice there. */
static rc_status read_quoted(parser *p)
{
    char *out = p->at++;
    p->field[p->fields] = out;
    while (*p->at != '"' || *++p->at == '"') {
        if (p->at == p->end)
            return rc_fail(RC_FORMAT, "'%.400s', line %d: a quote has no end", p->name, p->record_line);
        p->line += *p->at == '\n';
        *out++ = *p->at++;
    }
    skip_blanks(p);
    if (*p->at != p->separator && *p->at != '\n' && p->at != p->end)
        return rc_fail(RC_FORMAT, "'%.400s', line %d: '%.20s' behind a quote, expected '%c' or the end of the line",
                       p->name, p->line, p->at, p->separator);
    *out = '\0';
    return RC_OK;
}

static void read_plain(parser *p, char **stop)
{
    p->field[p->fields] = p->at;
    while (p->at < p->end && *p->at != p->separator && *p->at != '\n')
        p->at++;
    for (*stop = p->at; *stop > p->field[p->fields] && strchr(" \t\r", (*stop)[-1]) != NULL;)
        --*stop;
}

/* The fields of the next line that is not empty; none at the end of the text. */
static rc_status read_record(parser *p)
{
    for (skip_blanks(p); *p->at == '\n'; skip_blanks(p)) {
        p->at++;
        p->line++;
    }
    p->fields = 0;
    p->record_line = p->line;
    for (bool more = p->at < p->end; more; p->fields++) {
        char *stop = NULL;
        if (p->fields == MOST_COLUMNS)
            return rc_fail(RC_FORMAT, "'%.400s', line %d: more than %d columns", p->name, p->line, MOST_COLUMNS);
        skip_blanks(p);
        if (*p->at == '"')
            RC_TRY(read_quoted(p));
        else
            read_plain(p, &stop);
        more = *p->at == p->separator;
        p->line += *p->at == '\n';
        p->at += p->at < p->end;
        if (stop != NULL)
            *stop = '\0';
    }
    return RC_OK;
}

/* ---- columns ---------------------------------------------------------------------------------------------------- */

static int find_name(const parser *p, const char *names)
{
    for (int i = 0; i < p->fields; i++)
        if (rc_ascii_among(p->field[i], names))
            return i;
    return -1;
}

static bool is_picture(const char *field)
{
    return rc_image_name(field) || strchr(field, '/') != NULL;
}

typedef struct columns {
    int path, class_name, part; /* -1: there is none */
    bool named;
} columns;

/* By the first record, which may be one of pictures: then the table has two columns. */
static rc_status find_columns(const parser *p, columns *c)
{
    bool pictures = false;
    c->part = -1;
    for (int i = 0; i < p->fields; i++)
        pictures = pictures || is_picture(p->field[i]);
    c->named = !pictures;
    if (pictures && p->fields == 2) {
        c->path = is_picture(p->field[0]) ? 0 : 1;
        c->class_name = 1 - c->path;
        return RC_OK;
    }
    c->path = pictures ? -1
                       : find_name(p, "path file filename file_name filepath file_path image image_path image_name "
                                      "image_file img img_path picture photo");
    c->class_name = find_name(p, "class class_name classname label labels label_name category category_name target");
    if (p->fields == 2 && c->path >= 0)
        c->class_name = 1 - c->path;
    else if (p->fields == 2 && c->class_name >= 0)
        c->path = 1 - c->class_name;
    else
        c->part = find_name(p, "split subset set part partition");
    return c->path >= 0 ? RC_OK
                        : rc_fail(RC_FORMAT, "'%.400s', line %d: no column of pictures, expected %s", p->name,
                                  p->record_line, expected);
}

/* Room for the rows that so much text can hold: one takes a line, and 4 bytes. */
static rc_status allocate(const parser *p, rc_csv_list *list)
{
    size_t bytes = (size_t)(p->end - p->at), most = 1;
    for (const char *at = p->at; (at = memchr(at, '\n', (size_t)(p->end - at))) != NULL; at++)
        most++;
    if (most > bytes / 4 + 1)
        most = bytes / 4 + 1;
    list->row = rc_alloc(NULL, most * sizeof *list->row);
    return list->row != NULL ? RC_OK : RC_OUT_OF_MEMORY;
}

/* Without blanks at its ends: between quotes they are still there. */
static const char *trim(char *field)
{
    static const char blanks[] = " \t\r\n";
    field += strspn(field, blanks);
    for (size_t length = strlen(field); length > 0 && strchr(blanks, field[length - 1]) != NULL;)
        field[--length] = '\0';
    return field;
}

/* The path stays as it is, because files may be called so. */
static rc_status add_row(const parser *p, const columns *c, rc_csv_list *list)
{
    struct rc_csv_row row = {p->field[c->path], trim(p->field[c->class_name]), RC_SET_PARTS, p->record_line};
    if (row.path[0] == '\0' || row.class_name[0] == '\0')
        return rc_fail(RC_FORMAT, "'%.400s', line %d: no %s", p->name, p->record_line,
                       row.path[0] == '\0' ? "path" : "class");
    if (c->part >= 0)
        row.part = rc_set_part_of(trim(p->field[c->part]));
    list->row[list->count++] = row;
    return RC_OK;
}

/* Spreadsheets save such lines behind the table. */
static bool is_empty(const parser *p)
{
    int empty = 0;
    while (empty < p->fields && p->field[empty][0] == '\0')
        empty++;
    return empty == p->fields;
}

static rc_status add_rows(parser *p, const columns *c, int fields, rc_csv_list *list)
{
    while (p->fields > 0) {
        bool empty = is_empty(p);
        if (!empty && p->fields != fields)
            return rc_fail(RC_FORMAT, "'%.400s', line %d: %d column%s, expected %d as in the first line", p->name,
                           p->record_line, p->fields, p->fields == 1 ? "" : "s", fields);
        if (!empty)
            RC_TRY(add_row(p, c, list));
        RC_TRY(read_record(p));
    }
    return RC_OK;
}

/* A column in which no value is a part is of something else. */
static rc_status check_parts(const parser *p, const rc_csv_list *list)
{
    int known = 0, unknown = -1;
    for (int i = 0; i < list->count; i++) {
        known += list->row[i].part != RC_SET_PARTS;
        unknown = unknown < 0 && list->row[i].part == RC_SET_PARTS ? i : unknown;
    }
    if (known == 0 || unknown < 0)
        return RC_OK;
    return rc_fail(RC_FORMAT,
                   "'%.400s', line %d: of no part, while other lines are; expected train, val or test in the column of "
                   "parts",
                   p->name, list->row[unknown].line);
}

static rc_status parse(parser *p, rc_csv_list *list)
{
    columns c;
    RC_TRY(allocate(p, list));
    RC_TRY(read_record(p));
    if (p->fields == 0)
        return RC_OK;
    int fields = p->fields;
    RC_TRY(find_columns(p, &c));
    list->no_classes = c.class_name < 0;
    if (list->no_classes)
        return RC_OK;
    if (c.named)
        RC_TRY(read_record(p));
    RC_TRY(add_rows(p, &c, fields, list));
    return check_parts(p, list);
}

rc_status rc_csv_list_parse(const char *name, char *text, size_t size, rc_csv_list *list)
{
    parser p = {.name = name, .at = text + rc_utf8_order_mark(text, size), .end = text + size, .line = 1};
    *list = (rc_csv_list){0};
    if (memchr(text, 0, size) != NULL)
        return rc_fail(RC_FORMAT,
                       "'%.400s' has a zero byte, which no text in UTF-8 has; save the table as CSV in UTF-8", name);
    p.separator = find_separator(p.at);
    rc_status status = parse(&p, list);
    if (status != RC_OK)
        rc_csv_list_free(list);
    return status;
}

void rc_csv_list_free(rc_csv_list *list)
{
    rc_free(NULL, list->row);
    *list = (rc_csv_list){0};
}

/* ---- classes ---------------------------------------------------------------------------------------------------- */

/* A table and what belongs to it. */
typedef struct table {
    char path[RC_PATH_SIZE];
    char *text;
    rc_csv_list list;
} table;

/* Numbers as people write them: the longer one is larger. */
static int by_number(const void *a, const void *b)
{
    size_t first = strlen(*(const char *const *)a), second = strlen(*(const char *const *)b);
    return first != second ? (first > second) - (first < second) : rc_compare_names(a, b);
}

static bool is_number(const char *text)
{
    return strspn(text, "0123456789") == strlen(text) && (text[0] != '0' || text[1] == '\0');
}

typedef struct classes {
    const char **name; /* (count), sorted by `order` */
    int count;
    int (*order)(const void *a, const void *b);
} classes;

static rc_status gather_classes(const table tables[2], classes *found)
{
    size_t rows = (size_t)tables[0].list.count + (size_t)tables[1].list.count, kept = 0;
    found->name = rc_alloc(NULL, rows * sizeof *found->name);
    if (found->name == NULL)
        return RC_OUT_OF_MEMORY;
    found->order = by_number;
    for (int t = 0, at = 0; t < 2; t++)
        for (int i = 0; i < tables[t].list.count; i++) {
            found->name[at++] = tables[t].list.row[i].class_name;
            if (!is_number(tables[t].list.row[i].class_name))
                found->order = rc_compare_names;
        }
    qsort(found->name, rows, sizeof *found->name, found->order);
    for (size_t i = 0; i < rows; i++)
        if (kept == 0 || strcmp(found->name[kept - 1], found->name[i]) != 0)
            found->name[kept++] = found->name[i];
    if (kept > RC_DATA_MAX_CLASSES)
        return rc_fail(RC_FORMAT, "'%.400s' has %zu classes, expected at most %d", tables[0].path, kept,
                       RC_DATA_MAX_CLASSES);
    found->count = (int)kept;
    return RC_OK;
}

static rc_status name_classes(const char *path, const classes *found, rc_dataset *dataset)
{
    RC_TRY(rc_dataset_allocate_names(dataset, found->count));
    for (int i = 0; i < found->count; i++) {
        rc_status status = rc_dataset_set_name(dataset, i, found->name[i], strlen(found->name[i]));
        if (status != RC_OK)
            return status == RC_FORMAT
                       ? rc_fail(status, "'%.400s': %s; save the table as CSV in UTF-8", path, rc_message())
                       : status;
    }
    return RC_OK;
}

/* A path that leads nowhere is told here, because only the table knows its line. */
static rc_status check_is_there(const char *path)
{
    struct stat about;
    RC_TRY(rc_file_look(path, true, &about));
    return about.st_mode != 0
               ? RC_OK
               : rc_fail(RC_IO,
                         "there is no file '%.600s'; expected paths relative to the folder of the table, with '/' "
                         "between folders (missing images can be skipped: the setting 'skip_broken')",
                         path);
}

/* parts: 1 << rc_set_part of those that are added. */
static rc_status add_pictures(const table *t, const classes *found, unsigned parts, bool skip, rc_image_files *files)
{
    char folder[RC_PATH_SIZE];
    rc_list_folder(t->path, folder);
    for (int i = 0; i < t->list.count; i++) {
        const struct rc_csv_row *row = &t->list.row[i];
        if ((parts >> row->part & 1) == 0)
            continue;
        const char **name = bsearch(&row->class_name, found->name, (size_t)found->count, sizeof *found->name,
                                    found->order);
        rc_status status = rc_list_add(folder, row->path, strlen(row->path), (int32_t)(name - found->name), files);
        if (status == RC_OK && !skip)
            status = check_is_there(rc_image_files_path(files, files->count - 1));
        if (status != RC_OK)
            return rc_fail(status, "'%.400s', line %d: %s", t->path, row->line, rc_message());
    }
    return RC_OK;
}

/* ---- parts ------------------------------------------------------------------------------------------------------ */

static int count_part(const table *t, rc_set_part part)
{
    int count = 0;
    for (int i = 0; i < t->list.count; i++)
        count += t->list.row[i].part == part;
    return count;
}

/* The pictures of one table that says to which part each belongs, as folders do: test goes before val. */
static rc_status add_parts(const table *t, const classes *found, bool skip, rc_image_files *train, rc_image_files *test,
                           rc_left_out *left_out)
{
    rc_set_part scored = count_part(t, RC_SET_TEST) > 0 ? RC_SET_TEST : RC_SET_VAL;
    if (scored == RC_SET_TEST && count_part(t, RC_SET_VAL) > 0)
        RC_TRY(rc_left_out_add(left_out, t->path, "parts of tables", "its lines of val, beside those of test"));
    RC_TRY(add_pictures(t, found, 1u << RC_SET_TRAIN, skip, train));
    return add_pictures(t, found, 1u << scored, skip, test);
}

/* ---- the reader ------------------------------------------------------------------------------------------------- */

static rc_status recognise(const char *path, bool *known)
{
    struct stat about;
    size_t length = strlen(path);
    const char *ending = length > 4 ? path + length - 4 : "";
    RC_TRY(rc_file_look(path, true, &about));
    *known = S_ISREG(about.st_mode) && (rc_ascii_same(ending, ".csv", 4) || rc_ascii_same(ending, ".tsv", 4));
    return RC_OK;
}

static rc_status read_table(table *t)
{
    size_t size;
    RC_TRY(rc_file_read(t->path, file_limit, &t->text, &size));
    RC_TRY(rc_csv_list_parse(t->path, t->text, size, &t->list));
    return t->list.count > 0 || t->list.no_classes
               ? RC_OK
               : rc_fail(RC_FORMAT, "'%.400s' names no pictures; expected: %s", t->path, rc_reader_csv.layout);
}

static rc_status read_tables(const char *path, table *train, table *test, bool *has_test, rc_left_out *left_out)
{
    snprintf(train->path, sizeof train->path, "%s", path);
    RC_TRY(read_table(train));
    if (train->list.no_classes)
        return rc_fail(RC_FORMAT, "'%.400s' has no column of classes; expected %s", path, expected);
    RC_TRY(rc_list_find_partner(path, test->path, has_test));
    if (!*has_test)
        return RC_OK;
    RC_TRY(read_table(test));
    *has_test = !test->list.no_classes;
    return *has_test ? rc_list_leave_other(path, test->path, left_out)
                     : rc_left_out_add(left_out, test->path, "tables without classes",
                                       "a table without a column of classes, which cannot be scored");
}

static rc_status gather(const char *path, const rc_data_settings *settings, rc_dataset *dataset, rc_image_files *train,
                        rc_image_files *test, rc_left_out *left_out)
{
    table tables[2] = {0};
    classes found = {0};
    bool has_test = false;
    rc_status status = read_tables(path, &tables[0], &tables[1], &has_test, left_out);
    if (status == RC_OK)
        status = gather_classes(tables, &found);
    if (status == RC_OK)
        status = name_classes(path, &found, dataset);
    bool parts = !has_test && count_part(&tables[0], RC_SET_PARTS) < tables[0].list.count, skip = settings->skip_broken;
    if (status == RC_OK && parts)
        status = add_parts(&tables[0], &found, skip, train, test, left_out);
    if (status == RC_OK && !parts)
        status = add_pictures(&tables[0], &found, ~0u, skip, train);
    if (status == RC_OK && !parts)
        status = add_pictures(&tables[1], &found, ~0u, skip, test);
    has_test = has_test || test->count > 0;
    rc_free(NULL, found.name);
    for (int t = 0; t < 2; t++) {
        rc_csv_list_free(&tables[t].list);
        rc_free(NULL, tables[t].text);
    }
    RC_TRY(status);
    return rc_list_split(settings, dataset, has_test, train, test, left_out);
}

static rc_status read_csv(const char *path, const rc_data_settings *settings, rc_dataset *dataset)
{
    return rc_image_files_read(path, settings, gather, dataset);
}

const rc_reader rc_reader_csv = {
    .format = "csv",
    .layout = "csv: a table PATH.csv of pictures and classes, or train*.csv and val*.csv or test*.csv",
    .fitted = true,
    .recognise = recognise,
    .read = read_csv,
};
