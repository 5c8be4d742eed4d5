#include "data/twins.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"

typedef struct entry {
    uint64_t hash; /* images that have the same one are compared */
    int at;        /* image: those to train on come first */
} entry;

static int compare(const void *left, const void *right)
{
    const entry *l = left, *r = right;
    if (l->hash != r->hash)
        return l->hash < r->hash ? -1 : 1;
    return (l->at > r->at) - (l->at < r->at);
}

static size_t bytes_of(const rc_dataset *d)
{
    return (size_t)d->h * (size_t)d->w * (size_t)d->c;
}

static const uint8_t *pixels_of(const rc_dataset *d, int at)
{
    return at < d->train.count ? d->train.images + (size_t)at * bytes_of(d)
                               : d->test.images + (size_t)(at - d->train.count) * bytes_of(d);
}

static int class_of(const rc_dataset *d, int at)
{
    return at < d->train.count ? d->train.labels[at] : d->test.labels[at - d->train.count];
}

/* Counts what is the same image. first: the earliest image of which two classes were known so far. */
static void count_group(const rc_dataset *d, const entry *group, int count, int *first, rc_twins *twins)
{
    int other = -1;
    for (int i = 1; i < count && other < 0; i++)
        if (class_of(d, group[i].at) != class_of(d, group[0].at))
            other = class_of(d, group[i].at);
    twins->divided += other >= 0 ? count : 0;
    if (other >= 0 && (*first < 0 || group[0].at < *first)) {
        *first = group[0].at;
        twins->classes[0] = class_of(d, group[0].at);
        twins->classes[1] = other;
    }
    for (int i = 1; i < count && group[0].at < d->train.count; i++)
        twins->held_out += group[i].at >= d->train.count;
}

/* Where the images that are the same as the first one end. */
static int end_of_group(const rc_dataset *d, const entry *list, int count)
{
    int end = 1;
    while (end < count && list[end].hash == list[0].hash &&
           memcmp(pixels_of(d, list[end].at), pixels_of(d, list[0].at), bytes_of(d)) == 0)
        end++;
    return end;
}

rc_status rc_dataset_find_twins(const rc_dataset *data, rc_twins *twins)
{
    int count = data->train.count + data->test.count, first = -1;
    entry *list = rc_alloc_zeroed(NULL, (size_t)count, sizeof *list);
    *twins = (rc_twins){0};
    if (list == NULL)
        return RC_OUT_OF_MEMORY;
    for (int i = 0; i < count; i++)
        list[i] = (entry){rc_hash_bytes(RC_HASH_START, pixels_of(data, i), bytes_of(data)), i};
    qsort(list, (size_t)count, sizeof *list, compare);
    for (int i = 0, end; i < count; i += end) {
        end = end_of_group(data, list + i, count - i);
        count_group(data, list + i, end, &first, twins);
    }
    rc_free(NULL, list);
    return RC_OK;
}
