#include "model/labels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "data/dataset.h"

static const size_t largest_file = (size_t)1 << 24;

void rc_labels_destroy(rc_labels *labels)
{
    for (int i = 0; labels->name != NULL && i < labels->count; i++)
        rc_free(NULL, labels->name[i]);
    rc_free(NULL, labels->name);
    *labels = (rc_labels){0};
}

static rc_status copy(const char *text, size_t length, char **name)
{
    *name = rc_alloc_zeroed(NULL, length + 1, 1);
    if (*name == NULL)
        return RC_OUT_OF_MEMORY;
    memcpy(*name, text, length);
    return RC_OK;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* The line from *at on, without blanks around it; *at goes on to the next. */
static const char *take_line(const char *text, size_t size, size_t *at, size_t *length)
{
    const char *begin = text + *at, *newline = memchr(begin, '\n', size - *at);
    const char *end = newline != NULL ? newline : text + size;
    *at = newline != NULL ? (size_t)(newline + 1 - text) : size;
    while (begin < end && is_blank(*begin))
        begin++;
    while (end > begin && is_blank(end[-1]))
        end--;
    *length = (size_t)(end - begin);
    return begin;
}

/* Without the mark of byte order, and without empty lines and blanks at the end. */
static void trim(const char **text, size_t *size)
{
    size_t mark = rc_utf8_order_mark(*text, *size);
    *text += mark;
    *size -= mark;
    while (*size > 0 && (is_blank((*text)[*size - 1]) || (*text)[*size - 1] == '\n'))
        --*size;
}

static rc_status take_names(const char *source, const char *text, size_t size, rc_labels *labels)
{
    int lines = size > 0;
    for (size_t i = 0; i < size; i++)
        if (text[i] == '\n' && ++lines > RC_DATA_MAX_CLASSES)
            return rc_fail(RC_FORMAT, "'%.300s' has more than %d lines", source, RC_DATA_MAX_CLASSES);
    if (lines == 0)
        return rc_fail(RC_FORMAT, "'%.300s' is empty, expected a class name a line", source);
    labels->name = rc_alloc_zeroed(NULL, (size_t)lines, sizeof *labels->name);
    if (labels->name == NULL)
        return RC_OUT_OF_MEMORY;
    for (size_t at = 0; labels->count < lines;) {
        size_t length;
        const char *line = take_line(text, size, &at, &length);
        if (length == 0)
            return rc_fail(RC_FORMAT, "line %d of '%.300s' is empty, expected a class name", labels->count + 1, source);
        if (rc_check_class_name(labels->count, line, length) != RC_OK)
            return rc_fail(RC_FORMAT, "line %d of '%.300s': %s", labels->count + 1, source, rc_message());
        RC_TRY(copy(line, length, &labels->name[labels->count]));
        labels->count++;
    }
    return RC_OK;
}

/* Equal names lie beside each other, in the order of the lines: a name's place in the list decides between them. */
static int by_name(const void *a, const void *b)
{
    char **first = *(char **const *)a, **second = *(char **const *)b;
    int order = strcmp(*first, *second);
    return order != 0 ? order : first < second ? -1 : 1;
}

/* The second line of a name gets " (2)" behind it, and so on. */
static rc_status tell_apart(rc_labels *labels)
{
    char ***sorted = rc_alloc_zeroed(NULL, (size_t)labels->count, sizeof *sorted);
    rc_status status = sorted != NULL ? RC_OK : RC_OUT_OF_MEMORY;
    for (int i = 0; status == RC_OK && i < labels->count; i++)
        sorted[i] = &labels->name[i];
    if (status == RC_OK)
        qsort(sorted, (size_t)labels->count, sizeof *sorted, by_name);
    for (int i = 1, first = 0; status == RC_OK && i < labels->count; i++) {
        if (strcmp(*sorted[i], *sorted[first]) != 0) {
            first = i;
            continue;
        }
        size_t size = strlen(*sorted[first]) + 16;
        char *name = rc_alloc(NULL, size);
        if (name == NULL) {
            status = RC_OUT_OF_MEMORY;
            break;
        }
        snprintf(name, size, "%s (%d)", *sorted[first], i - first + 1);
        rc_free(NULL, *sorted[i]);
        *sorted[i] = name;
        labels->renamed++;
    }
    rc_free(NULL, sorted);
    return status;
}

static rc_status parse(const char *source, const char *text, size_t size, rc_labels *labels)
{
    trim(&text, &size);
    RC_TRY(take_names(source, text, size, labels));
    RC_TRY(tell_apart(labels));
    rc_status status = rc_check_class_names((const char *const *)labels->name, labels->count);
    return status == RC_OK || status == RC_OUT_OF_MEMORY ? status
                                                         : rc_fail(RC_FORMAT, "'%.300s': %s", source, rc_message());
}

rc_status rc_labels_parse(const char *source, const char *text, size_t size, rc_labels *labels)
{
    *labels = (rc_labels){0};
    rc_status status = parse(source, text, size, labels);
    if (status != RC_OK)
        rc_labels_destroy(labels);
    return status;
}

rc_status rc_labels_read(const char *path, rc_labels *labels)
{
    char *text;
    size_t size;
    *labels = (rc_labels){0};
    RC_TRY(rc_file_read(path, largest_file, &text, &size));
    rc_status status = rc_labels_parse(path, text, size, labels);
    rc_free(NULL, text);
    return status;
}

rc_status rc_labels_number(int count, rc_labels *labels)
{
    char name[32];
    *labels = (rc_labels){.name = rc_alloc_zeroed(NULL, (size_t)count, sizeof *labels->name)};
    rc_status status = labels->name != NULL ? RC_OK : RC_OUT_OF_MEMORY;
    while (status == RC_OK && labels->count < count) {
        snprintf(name, sizeof name, "class-%04d", labels->count);
        status = copy(name, strlen(name), &labels->name[labels->count]);
        labels->count += status == RC_OK;
    }
    if (status != RC_OK)
        rc_labels_destroy(labels);
    return status;
}
