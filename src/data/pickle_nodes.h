/* Inside a pickle that was read: what pickle.c makes and pickle_values.c is asked about. Nodes refer to each other by
 * number, so nothing in a pickle can point anywhere else. */
#ifndef RC_DATA_PICKLE_NODES_H
#define RC_DATA_PICKLE_NODES_H

#include <stdbool.h>
#include <string.h>

#include "data/pickle.h"

typedef enum rc_pickle_kind {
    RC_PICKLE_NONE,
    RC_PICKLE_INTEGER,
    RC_PICKLE_REAL,
    RC_PICKLE_STRING,
    RC_PICKLE_LIST,
    RC_PICKLE_TUPLE,
    RC_PICKLE_DICTIONARY,
    RC_PICKLE_FUNCTION,
    RC_PICKLE_ARRAY,
    RC_PICKLE_TYPE,
    RC_PICKLE_STORAGE, /* of PyTorch: the tuple that names it */
    RC_PICKLE_TENSOR,  /* of PyTorch: the tuple of what it is made of */
    RC_PICKLE_MARK
} rc_pickle_kind;

typedef struct rc_pickle_node {
    rc_pickle_kind kind;
    bool fortran;        /* ARRAY: columns one after another */
    int rows, columns;   /* ARRAY */
    uint32_t head, tail; /* LIST, TUPLE, STORAGE, TENSOR, DICTIONARY (key, value, key, value, ...): cells; 0: none */
    int count;           /* cells */
    int64_t integer;     /* INTEGER, and which FUNCTION */
    const uint8_t *text; /* STRING, and what an ARRAY holds */
    size_t length;
} rc_pickle_node;

typedef struct rc_pickle_cell {
    uint32_t value; /* a node */
    uint32_t next;  /* a cell; 0: none */
} rc_pickle_cell;

/* Memory that grows. */
typedef struct rc_pickle_vector {
    void *data;
    size_t used, capacity;
} rc_pickle_vector;

struct rc_pickle {
    const char *name;
    const uint8_t *data;
    size_t size, at;
    /* Of node, cell, uint32_t, uint32_t; node, cell and memo 0 are nothing. */
    rc_pickle_vector nodes, cells, stack, memo;
    uint8_t *encoded; /* strings that ENCODE made: never more bytes than the pickle has */
    size_t encoded_used;
    uint32_t root;
};

extern const char *const rc_pickle_kind_names[];

static inline rc_pickle_node *rc_pickle_node_at(const rc_pickle *p, uint32_t number)
{
    return (rc_pickle_node *)p->nodes.data + number;
}

static inline rc_pickle_cell *rc_pickle_cell_at(const rc_pickle *p, uint32_t number)
{
    return (rc_pickle_cell *)p->cells.data + number;
}

/* The number of element `index` of a tuple; 0, Python's None, if there is no such element. */
static inline uint32_t rc_pickle_element_number(const rc_pickle *p, const rc_pickle_node *tuple, int index)
{
    uint32_t at = index < tuple->count ? tuple->head : 0;
    for (int i = 0; i < index; i++)
        at = rc_pickle_cell_at(p, at)->next;
    return at != 0 ? rc_pickle_cell_at(p, at)->value : 0;
}

static inline const rc_pickle_node *rc_pickle_element(const rc_pickle *p, const rc_pickle_node *tuple, int index)
{
    return rc_pickle_node_at(p, rc_pickle_element_number(p, tuple, index));
}

static inline bool rc_pickle_is_text(const uint8_t *text, size_t length, const char *word)
{
    return length == strlen(word) && memcmp(text, word, length) == 0;
}

/* Which of PyTorch's types a FUNCTION stands for; -1: none. */
int rc_pickle_torch_type(const rc_pickle_node *type);

#endif
