#include "data/listing.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"

/* Names one after another, each with its zero byte. */
typedef struct names {
    char *text;
    size_t used, capacity;
    int count;
} names;

static rc_status add(names *n, const char *name)
{
    size_t length = strlen(name) + 1;
    if (n->count == INT_MAX)
        return rc_fail(RC_UNSUPPORTED, "too many files in a folder");
    if (n->capacity - n->used < length) {
        size_t capacity = 2 * n->capacity + length + 4096;
        char *grown = rc_alloc(NULL, capacity);
        if (grown == NULL)
            return RC_OUT_OF_MEMORY;
        if (n->used > 0)
            memcpy(grown, n->text, n->used);
        rc_free(NULL, n->text);
        n->text = grown;
        n->capacity = capacity;
    }
    memcpy(n->text + n->used, name, length);
    n->used += length;
    n->count++;
    return RC_OK;
}

static rc_status cannot_list(const char *folder)
{
    return rc_fail(errno == ENOMEM ? RC_OUT_OF_MEMORY : RC_IO, "cannot list '%.700s': %s", folder, strerror(errno));
}

static rc_status read_names(DIR *stream, const char *folder, names *n)
{
    const struct dirent *entry;
    for (;;) {
        RC_TRY(rc_file_next(stream, folder, &entry));
        if (entry == NULL)
            return RC_OK;
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            RC_TRY(add(n, entry->d_name));
    }
}

bool rc_listing_is_of_system(const char *name)
{
    static const char *const added[] = {"__MACOSX", "@eaDir", "$RECYCLE.BIN", "System Volume Information",
                                        "lost+found"};
    for (size_t i = 0; i < sizeof added / sizeof *added; i++)
        if (strcmp(name, added[i]) == 0)
            return true;
    return false;
}

static bool hides(const char *name)
{
    return name[0] == '.' || rc_listing_is_of_system(name);
}

static int by_bytes(const void *a, const void *b)
{
    const char *first = *(char *const *)a, *second = *(char *const *)b;
    int hidden = hides(first) - hides(second);
    return hidden != 0 ? hidden : strcmp(first, second);
}

/* *error: the errno of a folder that cannot be opened, otherwise 0. */
static rc_status list(const char *folder, rc_listing *listing, int *error)
{
    *listing = (rc_listing){0};
    DIR *stream;
    do
        stream = opendir(folder);
    while (stream == NULL && errno == EINTR);
    *error = stream == NULL ? errno : 0;
    if (stream == NULL)
        return cannot_list(folder);
    names n = {0};
    rc_status status = read_names(stream, folder, &n);
    closedir(stream);
    char **name = status == RC_OK ? rc_alloc_zeroed(NULL, (size_t)n.count, sizeof *name) : NULL;
    if (name == NULL) {
        rc_free(NULL, n.text);
        return status != RC_OK ? status : RC_OUT_OF_MEMORY;
    }
    char *at = n.text;
    for (int i = 0; i < n.count; i++, at += strlen(at) + 1)
        name[i] = at;
    if (n.count > 1)
        qsort(name, (size_t)n.count, sizeof *name, by_bytes);
    int seen = 0;
    while (seen < n.count && !hides(name[seen]))
        seen++;
    *listing = (rc_listing){name, seen, n.count - seen, n.text};
    return RC_OK;
}

rc_status rc_listing_read(const char *folder, rc_listing *listing)
{
    int error;
    return list(folder, listing, &error);
}

rc_status rc_listing_look(const char *folder, rc_listing *listing)
{
    int error;
    rc_status status = list(folder, listing, &error);
    return error == EACCES || error == ENOENT ? RC_OK : status;
}

void rc_listing_free(rc_listing *listing)
{
    rc_free(NULL, listing->name);
    rc_free(NULL, listing->text);
    *listing = (rc_listing){0};
}
