/* A reader of pickles that hold data only, as protocols 2 to 5 write them: dictionaries, lists, sets, tuples, strings,
 * numbers, numpy arrays of bytes, and PyTorch's tensors, whose numbers lie elsewhere. It executes nothing. It knows the
 * few functions that such a pickle names, and makes what they would have made. Any other function or instruction is an
 * error. */
#ifndef RC_DATA_PICKLE_H
#define RC_DATA_PICKLE_H

#include <stdbool.h>
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
/* The first of several pickles in a block, of any value; *used: the bytes that it takes. */
rc_status rc_pickle_parse_first(const char *name, const uint8_t *data, size_t size, size_t *used, rc_pickle **pickle);
void rc_pickle_free(rc_pickle *pickle);

/* The value under a key of the dictionary; it must be there and of that type. */
rc_status rc_pickle_get_array(const rc_pickle *pickle, const char *key, rc_pickle_array *array);
rc_status rc_pickle_get_list(const rc_pickle *pickle, const char *key, rc_pickle_list *list);
/* The elements of a list, one after another. */
rc_status rc_pickle_next_integer(rc_pickle_list *list, int64_t *value);
rc_status rc_pickle_next_string(rc_pickle_list *list, const char **text, size_t *length);
rc_status rc_pickle_get_integer(const rc_pickle *pickle, const char *key, int64_t *value);

/* What a pickle of no dictionary is. */
rc_status rc_pickle_integer(const rc_pickle *pickle, int64_t *value);
rc_status rc_pickle_list_of(const rc_pickle *pickle, rc_pickle_list *list);

/* ---- PyTorch's tensors ------------------------------------------------------------------------------------------ */

typedef enum rc_torch_type {
    RC_TORCH_FLOAT,
    RC_TORCH_DOUBLE,
    RC_TORCH_HALF,
    RC_TORCH_BFLOAT16,
    RC_TORCH_LONG,
    RC_TORCH_INT,
    RC_TORCH_SHORT,
    RC_TORCH_CHAR,
    RC_TORCH_BYTE,
    RC_TORCH_BOOL
} rc_torch_type;

/* Numbers that lie outside of the pickle, under a key; the texts here lie in the pickle and have no zero byte. */
typedef struct rc_pickle_storage {
    rc_torch_type type;
    const char *key;
    size_t key_length;
    int64_t elements; /* as the pickle claims */
} rc_pickle_storage;

enum { RC_PICKLE_DIMS = 8 };

/* Element (i, j, ...) is element offset + i * stride[0] + j * stride[1] + ... of the storage. Nothing was compared with
 * the elements that the storage has. */
typedef struct rc_pickle_tensor {
    const char *name; /* its key in the dictionary */
    size_t name_length;
    rc_pickle_storage storage;
    int64_t offset; /* this and the numbers below are 0 or more */
    int dims;
    int64_t shape[RC_PICKLE_DIMS], stride[RC_PICKLE_DIMS];
} rc_pickle_tensor;

typedef struct rc_pickle_tensors {
    const rc_pickle *pickle;
    uint32_t next;
} rc_pickle_tensors;

/* The tensors of the dictionary, or of the one that it holds under the first of these keys; its other values are passed
 * over. */
rc_status rc_pickle_get_tensors(const rc_pickle *pickle, const char *const *inside, int count,
                                rc_pickle_tensors *tensors);
rc_status rc_pickle_next_tensor(rc_pickle_tensors *tensors, rc_pickle_tensor *tensor, bool *more);
/* Every storage that the pickle names, some of them more than once; *at: 0 at first. false: there are no more. */
bool rc_pickle_next_storage(const rc_pickle *pickle, uint32_t *at, rc_pickle_storage *storage);

#endif
