/* A reader of pickles that hold data only: dictionaries, lists, tuples, strings, numbers, and numpy arrays of bytes,
 * as protocols 2 and 3 write them. It executes nothing. It recognises the few functions that such a pickle names, and
 * makes what they would have made. Any other function or instruction is an error. */
#ifndef RC_DATA_PICKLE_H
#define RC_DATA_PICKLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct rc_pickle rc_pickle;

typedef struct rc_pickle_array {
    int rows, columns;
    size_t row_step, column_step; /* element (r, c) is bytes[r * row_step + c * column_step] */
    const uint8_t *bytes;
} rc_pickle_array;

typedef struct rc_pickle_list {
    const rc_pickle *pickle;
    const char *key;
    int count;
    uint32_t next;
} rc_pickle_list;

/* The pickle of one dictionary. `name` is what messages call the block; both must live as long as the pickle. */
rc_status rc_pickle_parse(const char *name, const uint8_t *data, size_t size, rc_pickle **pickle);
void rc_pickle_free(rc_pickle *pickle);

/* The value under a key of the dictionary; it must be there and of that type. */
rc_status rc_pickle_get_array(const rc_pickle *pickle, const char *key, rc_pickle_array *array);
rc_status rc_pickle_get_list(const rc_pickle *pickle, const char *key, rc_pickle_list *list);
/* The elements of a list, one after another. */
rc_status rc_pickle_next_integer(rc_pickle_list *list, int64_t *value);
rc_status rc_pickle_next_string(rc_pickle_list *list, const char **text, size_t *length);

#endif
