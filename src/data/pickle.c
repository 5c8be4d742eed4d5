/* A pickle is a program for a stack machine. This reader makes nodes that refer to each other by number, so nothing
 * in a pickle can point anywhere else. All sums of sizes are bounded, and no function here is recursive. */
#include "data/pickle.h"

#include <limits.h>
#include <stdbool.h>
#include <string.h>

#include "base/memory.h"

typedef enum kind { NONE, INTEGER, STRING, LIST, TUPLE, DICTIONARY, FUNCTION, ARRAY, TYPE, MARK } kind;

static const char *const kind_names[] = {"None",         "a number",   "a string", "a list", "a tuple",
                                         "a dictionary", "a function", "an array", "a type", "a mark"};

/* The functions and types that may be named. */
typedef enum function { RECONSTRUCT, NDARRAY, DTYPE, ENCODE } function;

static const struct {
    const char *module, *name;
    function function;
} functions[] = {
    {"numpy.core.multiarray", "_reconstruct", RECONSTRUCT},
    {"numpy._core.multiarray", "_reconstruct", RECONSTRUCT},
    {"numpy", "ndarray", NDARRAY},
    {"numpy", "dtype", DTYPE},
    {"_codecs", "encode", ENCODE},
};

typedef struct node {
    kind kind;
    bool fortran;        /* ARRAY: columns one after another */
    int rows, columns;   /* ARRAY */
    uint32_t head, tail; /* LIST, TUPLE, DICTIONARY (key, value, key, value, ...): cells; 0: none */
    int count;           /* cells */
    int64_t integer;     /* INTEGER, and which FUNCTION */
    const uint8_t *text; /* STRING, and what an ARRAY holds */
    size_t length;
} node;

typedef struct cell {
    uint32_t value; /* a node */
    uint32_t next;  /* a cell; 0: none */
} cell;

/* Memory that grows. */
typedef struct vector {
    void *data;
    size_t used, capacity;
} vector;

/* The most nodes, cells and values (CIFAR-100 has 150 000 values). It bounds what a small hostile file can take to
 * some 100 MB. */
enum { MOST = 1 << 20 };

struct rc_pickle {
    const char *name;
    const uint8_t *data;
    size_t size, at;
    vector nodes, cells, stack, memo; /* of node, cell, uint32_t, uint32_t; node, cell and memo 0 are nothing */
    uint8_t *encoded;                 /* strings that ENCODE made: never more bytes than the pickle has */
    size_t encoded_used;
    uint32_t root;
};

static rc_status damaged(const rc_pickle *p, const char *what)
{
    return rc_fail(RC_FORMAT, "'%s' is not a pickle that recollect reads: %s near byte %zu", p->name, what, p->at);
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

static rc_status reserve(const rc_pickle *p, vector *v, size_t count, size_t size)
{
    if (count <= v->capacity)
        return RC_OK;
    if (count > MOST)
        return damaged(p, "too many values");
    size_t capacity = v->capacity < 64 ? 64 : v->capacity;
    while (capacity < count)
        capacity *= 2;
    void *grown = rc_alloc_zeroed(NULL, capacity, size);
    if (grown == NULL)
        return RC_OUT_OF_MEMORY;
    if (v->used > 0)
        memcpy(grown, v->data, v->used * size);
    rc_free(NULL, v->data);
    v->data = grown;
    v->capacity = capacity;
    return RC_OK;
}

static node *node_at(const rc_pickle *p, uint32_t number)
{
    return (node *)p->nodes.data + number;
}

static cell *cell_at(const rc_pickle *p, uint32_t number)
{
    return (cell *)p->cells.data + number;
}

static rc_status push(rc_pickle *p, uint32_t number)
{
    RC_TRY(reserve(p, &p->stack, p->stack.used + 1, sizeof(uint32_t)));
    ((uint32_t *)p->stack.data)[p->stack.used++] = number;
    return RC_OK;
}

static rc_status push_node(rc_pickle *p, const node *value)
{
    RC_TRY(reserve(p, &p->nodes, p->nodes.used + 1, sizeof(node)));
    *node_at(p, (uint32_t)p->nodes.used) = *value;
    return push(p, (uint32_t)p->nodes.used++);
}

/* The value `depth` below the top; 0 if there is none. */
static uint32_t peek(const rc_pickle *p, size_t depth)
{
    return depth < p->stack.used ? ((uint32_t *)p->stack.data)[p->stack.used - 1 - depth] : 0;
}

static node *peek_node(const rc_pickle *p, size_t depth)
{
    return node_at(p, peek(p, depth));
}

/* How many values lie above the topmost mark; false if there is no mark. */
static bool above_mark(const rc_pickle *p, size_t *count)
{
    for (*count = 0; *count < p->stack.used; ++*count)
        if (peek_node(p, *count)->kind == MARK)
            return true;
    return false;
}

static rc_status append(rc_pickle *p, uint32_t container, uint32_t value)
{
    RC_TRY(reserve(p, &p->cells, p->cells.used + 1, sizeof(cell)));
    uint32_t number = (uint32_t)p->cells.used++;
    *cell_at(p, number) = (cell){value, 0};
    node *to = node_at(p, container);
    if (to->count == 0)
        to->head = number;
    else
        cell_at(p, to->tail)->next = number;
    to->tail = number;
    to->count++;
    return RC_OK;
}

/* Moves the `count` topmost values into a container; `below` values between it and them are dropped. */
static rc_status collect(rc_pickle *p, size_t count, size_t below, kind expected)
{
    uint32_t container = peek(p, count + below);
    if (container == 0 || node_at(p, container)->kind != expected)
        return damaged(p, "nothing to add values to");
    if (expected == DICTIONARY && count % 2 != 0)
        return damaged(p, "a key without a value");
    for (size_t i = count; i > 0; i--) {
        if (peek_node(p, i - 1)->kind == MARK)
            return damaged(p, "misplaced mark");
        RC_TRY(append(p, container, peek(p, i - 1)));
    }
    p->stack.used -= count + below;
    return RC_OK;
}

static rc_status collect_above_mark(rc_pickle *p, kind expected)
{
    size_t count;
    if (!above_mark(p, &count))
        return damaged(p, "no mark");
    return collect(p, count, 1, expected);
}

/* The `count` topmost values become a tuple; a mark below them, if there is one, is dropped. */
static rc_status make_tuple(rc_pickle *p, size_t count, bool mark)
{
    if (p->stack.used < count + mark)
        return damaged(p, "too few values for a tuple");
    RC_TRY(push_node(p, &(node){.kind = TUPLE}));
    uint32_t tuple = peek(p, 0);
    for (size_t i = count; i > 0; i--) {
        if (peek_node(p, i)->kind == MARK)
            return damaged(p, "misplaced mark");
        RC_TRY(append(p, tuple, peek(p, i)));
    }
    p->stack.used -= count + mark + 1;
    return push(p, tuple);
}

/* ---- arguments in the file -------------------------------------------------------------------------------------- */

/* The next `size` bytes as a number, least significant first. */
static rc_status take_number(rc_pickle *p, int size, uint32_t *value)
{
    if (p->size - p->at < (size_t)size)
        return damaged(p, "unexpected end");
    *value = 0;
    for (int i = 0; i < size; i++)
        *value |= (uint32_t)p->data[p->at++] << (8 * i);
    return RC_OK;
}

static rc_status push_integer(rc_pickle *p, int size)
{
    uint32_t value;
    RC_TRY(take_number(p, size, &value));
    return push_node(p, &(node){.kind = INTEGER, .integer = size == 4 ? (int64_t)(int32_t)value : (int64_t)value});
}

/* A string with its length before it, in `size` bytes. */
static rc_status push_string(rc_pickle *p, int size)
{
    uint32_t length;
    RC_TRY(take_number(p, size, &length));
    if (length > p->size - p->at)
        return damaged(p, "a string longer than the file");
    node text = {.kind = STRING, .text = p->data + p->at, .length = length};
    p->at += length;
    return push_node(p, &text);
}

/* A long integer of at most 8 bytes, two's complement. */
static rc_status push_long(rc_pickle *p)
{
    uint32_t size;
    uint64_t value = 0;
    RC_TRY(take_number(p, 1, &size));
    if (size > 8 || size > p->size - p->at)
        return damaged(p, "a number of more than 8 bytes");
    for (uint32_t i = 0; i < size; i++)
        value |= (uint64_t)p->data[p->at++] << (8 * i);
    if (size > 0 && size < 8 && value >> (8 * size - 1) != 0)
        value |= UINT64_MAX << (8 * size);
    int64_t number;
    memcpy(&number, &value, sizeof number);
    return push_node(p, &(node){.kind = INTEGER, .integer = number});
}

/* The line from `at` on, without its end. */
static rc_status take_line(rc_pickle *p, const uint8_t **line, size_t *length)
{
    const uint8_t *begin = p->data + p->at, *end = memchr(begin, '\n', p->size - p->at);
    if (end == NULL)
        return damaged(p, "unexpected end");
    *line = begin;
    *length = (size_t)(end - begin);
    p->at += *length + 1;
    return RC_OK;
}

static bool equals(const uint8_t *text, size_t length, const char *word)
{
    return length == strlen(word) && memcmp(text, word, length) == 0;
}

static rc_status push_function(rc_pickle *p)
{
    const uint8_t *module, *name;
    size_t module_length, name_length;
    RC_TRY(take_line(p, &module, &module_length));
    RC_TRY(take_line(p, &name, &name_length));
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (equals(module, module_length, functions[i].module) && equals(name, name_length, functions[i].name))
            return push_node(p, &(node){.kind = FUNCTION, .integer = functions[i].function});
    return damaged(p, "a function other than those that make arrays of bytes");
}

static rc_status memo_put(rc_pickle *p, int size)
{
    uint32_t slot;
    RC_TRY(take_number(p, size, &slot));
    if (p->stack.used == 0 || slot >= MOST)
        return damaged(p, "nothing to remember");
    RC_TRY(reserve(p, &p->memo, (size_t)slot + 1, sizeof(uint32_t)));
    if (p->memo.used < (size_t)slot + 1)
        p->memo.used = (size_t)slot + 1;
    ((uint32_t *)p->memo.data)[slot] = peek(p, 0);
    return RC_OK;
}

static rc_status memo_get(rc_pickle *p, int size)
{
    uint32_t slot;
    RC_TRY(take_number(p, size, &slot));
    uint32_t number = slot < p->memo.used ? ((uint32_t *)p->memo.data)[slot] : 0;
    if (number == 0)
        return damaged(p, "nothing was remembered there");
    return push(p, number);
}

/* ---- numpy arrays ----------------------------------------------------------------------------------------------- */

/* Element `index` of a tuple; node 0, Python's None, if there is no such element. */
static const node *element(const rc_pickle *p, const node *tuple, int index)
{
    uint32_t at = index < tuple->count ? tuple->head : 0;
    for (int i = 0; i < index; i++)
        at = cell_at(p, at)->next;
    return node_at(p, at != 0 ? cell_at(p, at)->value : 0);
}

static bool is_function(const node *value, function which)
{
    return value->kind == FUNCTION && value->integer == (int64_t)which;
}

/* encode(text, "latin1"): how Python 3 writes bytes in protocol 2. UTF-8 of the characters below 256 becomes bytes. */
static rc_status encode(rc_pickle *p, const node *arguments, node *result)
{
    const node *text = element(p, arguments, 0), *codec = element(p, arguments, 1);
    if (text->kind != STRING || codec->kind != STRING || !equals(codec->text, codec->length, "latin1"))
        return damaged(p, "an encoding other than latin1");
    if (p->encoded == NULL && (p->encoded = rc_alloc(NULL, p->size)) == NULL)
        return RC_OUT_OF_MEMORY;
    if (text->length > p->size - p->encoded_used)
        return damaged(p, "more encoded text than the file has");
    uint8_t *out = p->encoded + p->encoded_used;
    size_t used = 0;
    for (size_t i = 0; i < text->length; i++) {
        unsigned byte = text->text[i];
        if (byte >= 0x80) {
            unsigned next = i + 1 < text->length ? text->text[i + 1] : 0;
            if ((byte != 0xC2 && byte != 0xC3) || (next & 0xC0) != 0x80)
                return damaged(p, "a character that latin1 does not have");
            byte = (byte & 3) << 6 | (next & 0x3F);
            i++;
        }
        out[used++] = (uint8_t)byte;
    }
    p->encoded_used += used;
    *result = (node){.kind = STRING, .text = out, .length = used};
    return RC_OK;
}

/* function(arguments): the two topmost values become one. */
static rc_status reduce(rc_pickle *p)
{
    const node *what = peek_node(p, 1), *arguments = peek_node(p, 0);
    if (p->stack.used < 2 || what->kind != FUNCTION || arguments->kind != TUPLE)
        return damaged(p, "a call of something that is no function");
    node result = {.kind = NONE};
    if (what->integer == RECONSTRUCT && is_function(element(p, arguments, 0), NDARRAY)) {
        result.kind = ARRAY;
    } else if (what->integer == DTYPE) {
        const node *type = element(p, arguments, 0);
        if (type->kind != STRING || !equals(type->text, type->length, "u1"))
            return damaged(p, "an array of something else than unsigned bytes");
        result.kind = TYPE;
    } else if (what->integer == ENCODE) {
        RC_TRY(encode(p, arguments, &result));
    } else {
        return damaged(p, "a call that makes no array of bytes");
    }
    p->stack.used -= 2;
    return push_node(p, &result);
}

static bool is_dimension(const node *value)
{
    return value->kind == INTEGER && value->integer >= 0 && value->integer <= INT_MAX;
}

/* array.__setstate__((version, shape, type, columns first?, bytes)), type.__setstate__(...). */
static rc_status build(rc_pickle *p)
{
    node *target = peek_node(p, 1);
    const node *state = peek_node(p, 0);
    if (p->stack.used < 2 || state->kind != TUPLE || (target->kind != ARRAY && target->kind != TYPE))
        return damaged(p, "a state for something that takes none");
    if (target->kind == ARRAY) {
        const node *shape = element(p, state, 1), *bytes = element(p, state, 4), *fortran = element(p, state, 3);
        if (shape->kind != TUPLE || shape->count < 1 || shape->count > 2 || element(p, state, 2)->kind != TYPE ||
            fortran->kind != INTEGER || bytes->kind != STRING)
            return damaged(p, "an array that is not (rows, columns) of bytes");
        const node *rows = element(p, shape, 0), *columns = element(p, shape, 1);
        if (!is_dimension(rows) || (shape->count == 2 && !is_dimension(columns)))
            return damaged(p, "an array without a proper shape");
        size_t size = 0;
        target->rows = (int)rows->integer;
        target->columns = shape->count == 2 ? (int)columns->integer : 1;
        target->fortran = fortran->integer != 0;
        target->text = bytes->text;
        target->length = bytes->length;
        if (!rc_size_mul((size_t)target->rows, (size_t)target->columns, &size) || size != target->length) {
            target->rows = target->columns = 0;
            return damaged(p, "an array whose bytes do not fill its shape");
        }
    }
    p->stack.used--;
    return RC_OK;
}

/* ---- the machine ------------------------------------------------------------------------------------------------ */

static rc_status execute(rc_pickle *p, uint8_t instruction)
{
    switch (instruction) {
    case '(': return push_node(p, &(node){.kind = MARK});
    case 'N': return push_node(p, &(node){.kind = NONE});
    case '}': return push_node(p, &(node){.kind = DICTIONARY});
    case ']': return push_node(p, &(node){.kind = LIST});
    case ')': return push_node(p, &(node){.kind = TUPLE});
    case 0x88: return push_node(p, &(node){.kind = INTEGER, .integer = 1});
    case 0x89: return push_node(p, &(node){.kind = INTEGER, .integer = 0});
    case 'K': return push_integer(p, 1);
    case 'M': return push_integer(p, 2);
    case 'J': return push_integer(p, 4);
    case 0x8A: return push_long(p);
    case 'U': /* 8-bit string, bytes: short */
    case 'C': return push_string(p, 1);
    case 'T': /* 8-bit string, bytes, UTF-8 */
    case 'B':
    case 'X': return push_string(p, 4);
    case 'c': return push_function(p);
    case 'q': return memo_put(p, 1);
    case 'r': return memo_put(p, 4);
    case 'h': return memo_get(p, 1);
    case 'j': return memo_get(p, 4);
    case 0x85: return make_tuple(p, 1, false);
    case 0x86: return make_tuple(p, 2, false);
    case 0x87: return make_tuple(p, 3, false);
    case 't': {
        size_t count;
        return above_mark(p, &count) ? make_tuple(p, count, true) : damaged(p, "no mark");
    }
    case 'a': return collect(p, 1, 0, LIST);
    case 'e': return collect_above_mark(p, LIST);
    case 's': return collect(p, 2, 0, DICTIONARY);
    case 'u': return collect_above_mark(p, DICTIONARY);
    case 'R': return reduce(p);
    case 'b': return build(p);
    default: return damaged(p, "an instruction that data does not need");
    }
}

static rc_status run(rc_pickle *p)
{
    /* Node 0 is None and cell 0 is the end of every list: real ones start at 1. */
    RC_TRY(push_node(p, &(node){.kind = NONE}));
    p->stack.used = 0;
    RC_TRY(reserve(p, &p->cells, 1, sizeof(cell)));
    p->cells.used = 1;
    if (p->size < 2 || p->data[0] != 0x80 || p->data[1] < 2 || p->data[1] > 3)
        return rc_fail(RC_FORMAT, "'%s' is not a pickle of protocol 2 or 3", p->name);
    for (p->at = 2; p->at < p->size;) {
        uint8_t instruction = p->data[p->at++];
        if (instruction != '.') {
            RC_TRY(execute(p, instruction));
            continue;
        }
        p->root = peek(p, 0);
        if (node_at(p, p->root)->kind != DICTIONARY)
            return rc_fail(RC_FORMAT, "'%s' is a pickle of %s, expected a dictionary", p->name,
                           kind_names[node_at(p, p->root)->kind]);
        return RC_OK;
    }
    return damaged(p, "unexpected end");
}

rc_status rc_pickle_parse(const char *name, const uint8_t *data, size_t size, rc_pickle **pickle)
{
    *pickle = NULL;
    rc_pickle *p = rc_alloc_zeroed(NULL, 1, sizeof *p);
    if (p == NULL)
        return RC_OUT_OF_MEMORY;
    p->name = name;
    p->data = data;
    p->size = size;
    rc_status status = run(p);
    if (status != RC_OK)
        rc_pickle_free(p);
    else
        *pickle = p;
    return status;
}

void rc_pickle_free(rc_pickle *p)
{
    if (p == NULL)
        return;
    rc_free(NULL, p->nodes.data);
    rc_free(NULL, p->cells.data);
    rc_free(NULL, p->stack.data);
    rc_free(NULL, p->memo.data);
    rc_free(NULL, p->encoded);
    rc_free(NULL, p);
}

/* ---- asking ----------------------------------------------------------------------------------------------------- */

static rc_status lookup(const rc_pickle *p, const char *key, kind expected, const node **found)
{
    uint32_t at = node_at(p, p->root)->head;
    while (at != 0) {
        const cell *pair = cell_at(p, at), *second = cell_at(p, pair->next);
        const node *name = node_at(p, pair->value), *value = node_at(p, second->value);
        if (name->kind == STRING && equals(name->text, name->length, key)) {
            if (value->kind != expected)
                return rc_fail(RC_FORMAT, "'%s': '%s' is %s, expected %s", p->name, key, kind_names[value->kind],
                               kind_names[expected]);
            *found = value;
            return RC_OK;
        }
        at = second->next;
    }
    return rc_fail(RC_FORMAT, "'%s' has no '%s'", p->name, key);
}

rc_status rc_pickle_get_array(const rc_pickle *p, const char *key, rc_pickle_array *array)
{
    const node *value;
    RC_TRY(lookup(p, key, ARRAY, &value));
    *array = (rc_pickle_array){.rows = value->rows, .columns = value->columns, .bytes = value->text};
    array->row_step = value->fortran ? 1 : (size_t)value->columns;
    array->column_step = value->fortran ? (size_t)value->rows : 1;
    return RC_OK;
}

rc_status rc_pickle_get_list(const rc_pickle *p, const char *key, rc_pickle_list *list)
{
    const node *value;
    RC_TRY(lookup(p, key, LIST, &value));
    *list = (rc_pickle_list){.pickle = p, .key = key, .count = value->count, .next = value->head};
    return RC_OK;
}

static rc_status next_element(rc_pickle_list *list, kind expected, const node **value)
{
    const rc_pickle *p = list->pickle;
    const cell *at = cell_at(p, list->next);
    *value = node_at(p, list->next != 0 ? at->value : 0);
    if ((*value)->kind != expected)
        return rc_fail(RC_FORMAT, "'%s': '%s' has an element that is %s, expected %s", p->name, list->key,
                       kind_names[(*value)->kind], kind_names[expected]);
    list->next = at->next;
    return RC_OK;
}

rc_status rc_pickle_next_integer(rc_pickle_list *list, int64_t *value)
{
    const node *found;
    RC_TRY(next_element(list, INTEGER, &found));
    *value = found->integer;
    return RC_OK;
}

rc_status rc_pickle_next_string(rc_pickle_list *list, const char **text, size_t *length)
{
    const node *found;
    RC_TRY(next_element(list, STRING, &found));
    *text = (const char *)found->text;
    *length = found->length;
    return RC_OK;
}
