/* A pickle is a program for a stack machine. This reader makes nodes that refer to each other by number, so nothing
 * in a pickle can point anywhere else. All sums of sizes are bounded, and no function here is recursive. */
#include <limits.h>

#include "base/memory.h"
#include "data/pickle_nodes.h"

const char *const rc_pickle_kind_names[] = {"None",      "a number",     "a number",   "a string", "a list",
                                            "a tuple",   "a dictionary", "a function", "an array", "a type",
                                            "a storage", "a tensor",     "a mark"};

/* The functions and types that may be named. */
typedef enum function {
    RECONSTRUCT,
    FROM_BUFFER,
    NDARRAY,
    DTYPE,
    ENCODE,
    SET,
    ORDERED_DICTIONARY,
    REBUILD_TENSOR,
    REBUILD_PARAMETER,
    SIZE,
    FIRST_STORAGE /* and behind it one for each rc_torch_type */
} function;

static const struct {
    const char *module, *name;
    int function;
} functions[] = {
    {"numpy.core.multiarray", "_reconstruct", RECONSTRUCT},
    {"numpy._core.multiarray", "_reconstruct", RECONSTRUCT},
    {"numpy.core.numeric", "_frombuffer", FROM_BUFFER},
    {"numpy._core.numeric", "_frombuffer", FROM_BUFFER},
    {"numpy", "ndarray", NDARRAY},
    {"numpy", "dtype", DTYPE},
    {"_codecs", "encode", ENCODE},
    {"__builtin__", "set", SET},
    {"__builtin__", "frozenset", SET},
    {"builtins", "set", SET},
    {"builtins", "frozenset", SET},
    {"collections", "OrderedDict", ORDERED_DICTIONARY},
    {"torch._utils", "_rebuild_tensor", REBUILD_TENSOR},
    {"torch._utils", "_rebuild_tensor_v2", REBUILD_TENSOR},
    {"torch._utils", "_rebuild_parameter", REBUILD_PARAMETER},
    {"torch", "Size", SIZE},
    {"torch", "FloatStorage", FIRST_STORAGE + RC_TORCH_FLOAT},
    {"torch", "DoubleStorage", FIRST_STORAGE + RC_TORCH_DOUBLE},
    {"torch", "HalfStorage", FIRST_STORAGE + RC_TORCH_HALF},
    {"torch", "BFloat16Storage", FIRST_STORAGE + RC_TORCH_BFLOAT16},
    {"torch", "LongStorage", FIRST_STORAGE + RC_TORCH_LONG},
    {"torch", "IntStorage", FIRST_STORAGE + RC_TORCH_INT},
    {"torch", "ShortStorage", FIRST_STORAGE + RC_TORCH_SHORT},
    {"torch", "CharStorage", FIRST_STORAGE + RC_TORCH_CHAR},
    {"torch", "ByteStorage", FIRST_STORAGE + RC_TORCH_BYTE},
    {"torch", "BoolStorage", FIRST_STORAGE + RC_TORCH_BOOL},
};

int rc_pickle_torch_type(const rc_pickle_node *type)
{
    return type->kind == RC_PICKLE_FUNCTION ? (int)(type->integer - FIRST_STORAGE) : -1;
}

/* The most nodes, cells and values (CIFAR-100 has 150 000 values). It bounds what a small hostile file can take to
 * some 100 MB. */
enum { MOST = 1 << 20 };

static rc_status damaged(const rc_pickle *p, const char *what)
{
    return rc_fail(RC_FORMAT, "'%s' is not a pickle that recollect reads: %s near byte %zu", p->name, what, p->at);
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

static rc_status reserve(const rc_pickle *p, rc_pickle_vector *v, size_t count, size_t size)
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

static rc_status push(rc_pickle *p, uint32_t number)
{
    RC_TRY(reserve(p, &p->stack, p->stack.used + 1, sizeof(uint32_t)));
    ((uint32_t *)p->stack.data)[p->stack.used++] = number;
    return RC_OK;
}

static rc_status push_node(rc_pickle *p, const rc_pickle_node *value)
{
    RC_TRY(reserve(p, &p->nodes, p->nodes.used + 1, sizeof(rc_pickle_node)));
    *rc_pickle_node_at(p, (uint32_t)p->nodes.used) = *value;
    return push(p, (uint32_t)p->nodes.used++);
}

/* The value `depth` below the top; 0, which is None, if there is none. */
static uint32_t peek(const rc_pickle *p, size_t depth)
{
    return depth < p->stack.used ? ((uint32_t *)p->stack.data)[p->stack.used - 1 - depth] : 0;
}

static rc_pickle_node *peek_node(const rc_pickle *p, size_t depth)
{
    return rc_pickle_node_at(p, peek(p, depth));
}

/* How many values lie above the topmost mark; false if there is no mark. */
static bool above_mark(const rc_pickle *p, size_t *count)
{
    for (*count = 0; *count < p->stack.used; ++*count)
        if (peek_node(p, *count)->kind == RC_PICKLE_MARK)
            return true;
    return false;
}

static rc_status append(rc_pickle *p, uint32_t container, uint32_t value)
{
    RC_TRY(reserve(p, &p->cells, p->cells.used + 1, sizeof(rc_pickle_cell)));
    uint32_t number = (uint32_t)p->cells.used++;
    *rc_pickle_cell_at(p, number) = (rc_pickle_cell){value, 0};
    rc_pickle_node *to = rc_pickle_node_at(p, container);
    if (to->count == 0)
        to->head = number;
    else
        rc_pickle_cell_at(p, to->tail)->next = number;
    to->tail = number;
    to->count++;
    return RC_OK;
}

/* Moves the `count` topmost values into a container; `below` values between it and them are dropped. */
static rc_status collect(rc_pickle *p, size_t count, size_t below, rc_pickle_kind expected)
{
    uint32_t container = peek(p, count + below);
    if (container == 0 || rc_pickle_node_at(p, container)->kind != expected)
        return damaged(p, "nothing to add values to");
    if (expected == RC_PICKLE_DICTIONARY && count % 2 != 0)
        return damaged(p, "a key without a value");
    for (size_t i = count; i > 0; i--) {
        if (peek_node(p, i - 1)->kind == RC_PICKLE_MARK)
            return damaged(p, "misplaced mark");
        RC_TRY(append(p, container, peek(p, i - 1)));
    }
    p->stack.used -= count + below;
    return RC_OK;
}

static rc_status collect_above_mark(rc_pickle *p, rc_pickle_kind expected)
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
    RC_TRY(push_node(p, &(rc_pickle_node){.kind = RC_PICKLE_TUPLE}));
    uint32_t tuple = peek(p, 0);
    for (size_t i = count; i > 0; i--) {
        if (peek_node(p, i)->kind == RC_PICKLE_MARK)
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
    return push_node(p, &(rc_pickle_node){.kind = RC_PICKLE_INTEGER,
                                          .integer = size == 4 ? (int64_t)(int32_t)value : (int64_t)value});
}

/* So many bytes of a number that nobody asks for. */
static rc_status push_real(rc_pickle *p, size_t size)
{
    if (p->size - p->at < size)
        return damaged(p, "unexpected end");
    p->at += size;
    return push_node(p, &(rc_pickle_node){.kind = RC_PICKLE_REAL});
}

/* A string with its length before it, in `size` bytes. */
static rc_status push_string(rc_pickle *p, int size)
{
    uint32_t length, more = 0;
    RC_TRY(take_number(p, size < 4 ? size : 4, &length));
    if (size > 4)
        RC_TRY(take_number(p, size - 4, &more));
    if (more > 0 || length > p->size - p->at)
        return damaged(p, "a string longer than the file");
    rc_pickle_node text = {.kind = RC_PICKLE_STRING, .text = p->data + p->at, .length = length};
    p->at += length;
    return push_node(p, &text);
}

/* A long integer, two's complement. One of more than 8 bytes, such as a random seed, is not kept. */
static rc_status push_long(rc_pickle *p)
{
    uint32_t size;
    uint64_t value = 0;
    RC_TRY(take_number(p, 1, &size));
    if (size > 8)
        return push_real(p, size);
    if (size > p->size - p->at)
        return damaged(p, "unexpected end");
    for (uint32_t i = 0; i < size; i++)
        value |= (uint64_t)p->data[p->at++] << (8 * i);
    if (size > 0 && size < 8 && value >> (8 * size - 1) != 0)
        value |= UINT64_MAX << (8 * size);
    int64_t number;
    memcpy(&number, &value, sizeof number);
    return push_node(p, &(rc_pickle_node){.kind = RC_PICKLE_INTEGER, .integer = number});
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

/* A number as text, as Python 2 writes those of more than 4 bytes. One that needs more than 8 is not kept. */
static rc_status push_text_integer(rc_pickle *p)
{
    const uint8_t *line;
    size_t length;
    int64_t value = 0;
    bool fits = true;
    RC_TRY(take_line(p, &line, &length));
    bool negative = length > 0 && line[0] == '-';
    if (length == (size_t)negative)
        return damaged(p, "a number without digits");
    for (size_t i = negative; i < length; i++) { /* below zero, because there is one more number there */
        int digit = line[i] - '0';
        if (digit < 0 || digit > 9)
            return damaged(p, "a number of something else than digits");
        fits = fits && value >= (INT64_MIN + digit) / 10;
        value = fits ? value * 10 - digit : 0;
    }
    fits = fits && (negative || value > INT64_MIN);
    return push_node(p, fits ? &(rc_pickle_node){.kind = RC_PICKLE_INTEGER, .integer = negative ? value : -value}
                             : &(rc_pickle_node){.kind = RC_PICKLE_REAL});
}

static rc_status push_function(rc_pickle *p, const uint8_t *module, size_t module_length, const uint8_t *name,
                               size_t name_length)
{
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (rc_pickle_is_text(module, module_length, functions[i].module) &&
            rc_pickle_is_text(name, name_length, functions[i].name))
            return push_node(p, &(rc_pickle_node){.kind = RC_PICKLE_FUNCTION, .integer = functions[i].function});
    return rc_fail(RC_UNSUPPORTED,
                   "'%s' asks for %.*s.%.*s, which recollect does not call: of a file it takes numbers, texts, lists, "
                   "dictionaries, arrays and tensors, and executes nothing",
                   p->name, (int)(module_length < 100 ? module_length : 100), (const char *)module,
                   (int)(name_length < 100 ? name_length : 100), (const char *)name);
}

/* Named by two lines. */
static rc_status take_function(rc_pickle *p)
{
    const uint8_t *module, *name;
    size_t module_length, name_length;
    RC_TRY(take_line(p, &module, &module_length));
    RC_TRY(take_line(p, &name, &name_length));
    return push_function(p, module, module_length, name, name_length);
}

/* Named by the two topmost strings. */
static rc_status find_function(rc_pickle *p)
{
    const rc_pickle_node *module = peek_node(p, 1), *name = peek_node(p, 0);
    if (module->kind != RC_PICKLE_STRING || name->kind != RC_PICKLE_STRING)
        return damaged(p, "a function whose name is no string");
    p->stack.used -= 2;
    return push_function(p, module->text, module->length, name->text, name->length);
}

/* Protocol 4 says how many bytes follow, so that others can read them at once. */
static rc_status skip_frame(rc_pickle *p)
{
    uint32_t low, high;
    RC_TRY(take_number(p, 4, &low));
    RC_TRY(take_number(p, 4, &high));
    return ((uint64_t)high << 32 | low) <= p->size - p->at ? RC_OK : damaged(p, "a frame longer than the file");
}

static rc_status memo_put(rc_pickle *p, size_t slot)
{
    if (p->stack.used == 0 || slot >= MOST)
        return damaged(p, "nothing to remember");
    RC_TRY(reserve(p, &p->memo, slot + 1, sizeof(uint32_t)));
    if (p->memo.used < slot + 1)
        p->memo.used = slot + 1;
    ((uint32_t *)p->memo.data)[slot] = peek(p, 0);
    return RC_OK;
}

static rc_status memo_put_at(rc_pickle *p, int size)
{
    uint32_t slot;
    RC_TRY(take_number(p, size, &slot));
    return memo_put(p, slot);
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

static bool is_function(const rc_pickle_node *value, function which)
{
    return value->kind == RC_PICKLE_FUNCTION && value->integer == (int64_t)which;
}

/* encode(text, "latin1"): how Python 3 writes bytes in protocol 2. UTF-8 of the characters below 256 becomes bytes. */
static rc_status encode(rc_pickle *p, const rc_pickle_node *arguments, rc_pickle_node *result)
{
    const rc_pickle_node *text = rc_pickle_element(p, arguments, 0), *codec = rc_pickle_element(p, arguments, 1);
    if (text->kind != RC_PICKLE_STRING || codec->kind != RC_PICKLE_STRING ||
        !rc_pickle_is_text(codec->text, codec->length, "latin1"))
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
    *result = (rc_pickle_node){.kind = RC_PICKLE_STRING, .text = out, .length = used};
    return RC_OK;
}

static bool is_dimension(const rc_pickle_node *value)
{
    return value->kind == RC_PICKLE_INTEGER && value->integer >= 0 && value->integer <= INT_MAX;
}

/* The bytes of an array must fill its shape. */
static rc_status fill_array(const rc_pickle *p, rc_pickle_node *array, const rc_pickle_node *shape,
                            const rc_pickle_node *type, const rc_pickle_node *bytes, bool fortran)
{
    if (shape->kind != RC_PICKLE_TUPLE || shape->count < 1 || shape->count > 2 || type->kind != RC_PICKLE_TYPE ||
        bytes->kind != RC_PICKLE_STRING)
        return damaged(p, "an array that is not (rows, columns) of bytes");
    const rc_pickle_node *rows = rc_pickle_element(p, shape, 0), *columns = rc_pickle_element(p, shape, 1);
    if (!is_dimension(rows) || (shape->count == 2 && !is_dimension(columns)))
        return damaged(p, "an array without a proper shape");
    size_t size = 0;
    array->rows = (int)rows->integer;
    array->columns = shape->count == 2 ? (int)columns->integer : 1;
    array->fortran = fortran;
    array->text = bytes->text;
    array->length = bytes->length;
    if (rc_size_mul((size_t)array->rows, (size_t)array->columns, &size) && size == array->length)
        return RC_OK;
    array->rows = array->columns = 0;
    return damaged(p, "an array whose bytes do not fill its shape");
}

/* _frombuffer(bytes, type, shape, "C" or "F"): how arrays are written from protocol 5 on. */
static rc_status from_buffer(const rc_pickle *p, const rc_pickle_node *arguments, rc_pickle_node *result)
{
    const rc_pickle_node *order = rc_pickle_element(p, arguments, 3);
    bool fortran = order->kind == RC_PICKLE_STRING && rc_pickle_is_text(order->text, order->length, "F");
    if (!fortran && (order->kind != RC_PICKLE_STRING || !rc_pickle_is_text(order->text, order->length, "C")))
        return damaged(p, "an array in another order than C or F");
    result->kind = RC_PICKLE_ARRAY;
    return fill_array(p, result, rc_pickle_element(p, arguments, 2), rc_pickle_element(p, arguments, 1),
                      rc_pickle_element(p, arguments, 0), fortran);
}

/* ---- PyTorch's tensors ------------------------------------------------------------------------------------------ */

/* The tuple on top, ("storage", type, key, device, elements), names numbers that lie elsewhere in the file. */
static rc_status name_storage(rc_pickle *p)
{
    const rc_pickle_node *id = peek_node(p, 0), *word = rc_pickle_element(p, id, 0), *key = rc_pickle_element(p, id, 2);
    const rc_pickle_node *elements = rc_pickle_element(p, id, 4);
    if (id->kind != RC_PICKLE_TUPLE || word->kind != RC_PICKLE_STRING ||
        !rc_pickle_is_text(word->text, word->length, "storage") || key->kind != RC_PICKLE_STRING ||
        elements->kind != RC_PICKLE_INTEGER || elements->integer < 0)
        return damaged(p, "a name of something that is no storage of numbers");
    if (rc_pickle_torch_type(rc_pickle_element(p, id, 1)) < 0)
        return damaged(p, "a storage without a type");
    if (rc_pickle_element(p, id, 5)->kind != RC_PICKLE_NONE)
        return damaged(p, "a storage that is a part of another");
    rc_pickle_node storage = *id;
    storage.kind = RC_PICKLE_STORAGE;
    p->stack.used--;
    return push_node(p, &storage);
}

/* OrderedDict([[key, value], ...]), as Python 2 writes it: function and arguments, the two topmost values, become a
 * dictionary. */
static rc_status make_dictionary(rc_pickle *p, uint32_t pairs)
{
    p->stack.used -= 2;
    RC_TRY(push_node(p, &(rc_pickle_node){.kind = RC_PICKLE_DICTIONARY}));
    uint32_t made = peek(p, 0);
    for (uint32_t at = rc_pickle_node_at(p, pairs)->head; at != 0; at = rc_pickle_cell_at(p, at)->next) {
        const rc_pickle_node *pair = rc_pickle_node_at(p, rc_pickle_cell_at(p, at)->value);
        if ((pair->kind != RC_PICKLE_LIST && pair->kind != RC_PICKLE_TUPLE) || pair->count != 2)
            return damaged(p, "a dictionary of something else than pairs");
        for (int i = 0; i < 2; i++)
            RC_TRY(append(p, made, rc_pickle_element_number(p, pair, i)));
    }
    return RC_OK;
}

/* What functions make of their arguments that stay as they are: PyTorch's, and sets, which are lists here. */
static rc_status make_of_arguments(rc_pickle *p, int64_t which, const rc_pickle_node *arguments)
{
    uint32_t number = rc_pickle_element_number(p, arguments, 0);
    const rc_pickle_node *first = rc_pickle_node_at(p, number);
    rc_pickle_node made = *arguments;
    if (which == ORDERED_DICTIONARY && arguments->count == 1 && first->kind == RC_PICKLE_LIST)
        return make_dictionary(p, number);
    if (which == ORDERED_DICTIONARY && arguments->count == 0) {
        made.kind = RC_PICKLE_DICTIONARY;
    } else if (which == REBUILD_TENSOR && first->kind == RC_PICKLE_STORAGE) {
        made.kind = RC_PICKLE_TENSOR;
    } else if ((which == REBUILD_PARAMETER && first->kind == RC_PICKLE_TENSOR) ||
               (which == SIZE && first->kind == RC_PICKLE_TUPLE) || (which == SET && first->kind == RC_PICKLE_LIST)) {
        p->stack.used -= 2;
        return push(p, number);
    } else {
        return damaged(p, "a call that recollect does not know");
    }
    p->stack.used -= 2;
    return push_node(p, &made);
}

/* function(arguments): the two topmost values become one. */
static rc_status reduce(rc_pickle *p)
{
    const rc_pickle_node *what = peek_node(p, 1), *arguments = peek_node(p, 0);
    if (what->kind != RC_PICKLE_FUNCTION || arguments->kind != RC_PICKLE_TUPLE)
        return damaged(p, "a call of something that is no function");
    rc_pickle_node result = {.kind = RC_PICKLE_NONE};
    if (what->integer == RECONSTRUCT && is_function(rc_pickle_element(p, arguments, 0), NDARRAY)) {
        result.kind = RC_PICKLE_ARRAY;
    } else if (what->integer == DTYPE) {
        const rc_pickle_node *type = rc_pickle_element(p, arguments, 0);
        if (type->kind != RC_PICKLE_STRING || !rc_pickle_is_text(type->text, type->length, "u1"))
            return damaged(p, "an array of something else than unsigned bytes");
        result.kind = RC_PICKLE_TYPE;
    } else if (what->integer == FROM_BUFFER) {
        RC_TRY(from_buffer(p, arguments, &result));
    } else if (what->integer == ENCODE) {
        RC_TRY(encode(p, arguments, &result));
    } else {
        return make_of_arguments(p, what->integer, arguments);
    }
    p->stack.used -= 2;
    return push_node(p, &result);
}

/* array.__setstate__((version, shape, type, columns first?, bytes)), type.__setstate__(...), and the attributes of an
 * ordered dictionary, which nobody asks for. */
static rc_status build(rc_pickle *p)
{
    rc_pickle_node *target = peek_node(p, 1);
    const rc_pickle_node *state = peek_node(p, 0);
    if (target->kind == RC_PICKLE_DICTIONARY && state->kind == RC_PICKLE_DICTIONARY) {
        p->stack.used--;
        return RC_OK;
    }
    if (state->kind != RC_PICKLE_TUPLE || (target->kind != RC_PICKLE_ARRAY && target->kind != RC_PICKLE_TYPE))
        return damaged(p, "a state for something that takes none");
    if (target->kind == RC_PICKLE_ARRAY) {
        const rc_pickle_node *fortran = rc_pickle_element(p, state, 3);
        if (fortran->kind != RC_PICKLE_INTEGER)
            return damaged(p, "an array that is not (rows, columns) of bytes");
        RC_TRY(fill_array(p, target, rc_pickle_element(p, state, 1), rc_pickle_element(p, state, 2),
                          rc_pickle_element(p, state, 4), fortran->integer != 0));
    }
    p->stack.used--;
    return RC_OK;
}

/* ---- the machine ------------------------------------------------------------------------------------------------ */

static rc_status execute(rc_pickle *p, uint8_t instruction)
{
    switch (instruction) {
    case '(': return push_node(p, &(rc_pickle_node){.kind = RC_PICKLE_MARK});
    case 'N': return push_node(p, &(rc_pickle_node){.kind = RC_PICKLE_NONE});
    case '}': return push_node(p, &(rc_pickle_node){.kind = RC_PICKLE_DICTIONARY});
    case ']': /* list, set */
    case 0x8F: return push_node(p, &(rc_pickle_node){.kind = RC_PICKLE_LIST});
    case ')': return push_node(p, &(rc_pickle_node){.kind = RC_PICKLE_TUPLE});
    case 0x88: return push_node(p, &(rc_pickle_node){.kind = RC_PICKLE_INTEGER, .integer = 1});
    case 0x89: return push_node(p, &(rc_pickle_node){.kind = RC_PICKLE_INTEGER, .integer = 0});
    case 'K': return push_integer(p, 1);
    case 'M': return push_integer(p, 2);
    case 'J': return push_integer(p, 4);
    case 0x8A: return push_long(p);
    case 'I': return push_text_integer(p);
    case 'G': return push_real(p, 8);
    case 'U': /* 8-bit string, bytes, UTF-8: short */
    case 'C':
    case 0x8C: return push_string(p, 1);
    case 'T': /* 8-bit string, bytes, UTF-8 */
    case 'B':
    case 'X': return push_string(p, 4);
    case 0x96: return push_string(p, 8); /* bytes that may be changed */
    case 0x95: return skip_frame(p);
    case 'c': return take_function(p);
    case 0x93: return find_function(p);
    case 'q': return memo_put_at(p, 1);
    case 'r': return memo_put_at(p, 4);
    case 0x94: return memo_put(p, p->memo.used);
    case 'h': return memo_get(p, 1);
    case 'j': return memo_get(p, 4);
    case 0x85: return make_tuple(p, 1, false);
    case 0x86: return make_tuple(p, 2, false);
    case 0x87: return make_tuple(p, 3, false);
    case 't':
    case 0x91: { /* tuple, frozen set */
        size_t count;
        return above_mark(p, &count) ? make_tuple(p, count, true) : damaged(p, "no mark");
    }
    case 'a': return collect(p, 1, 0, RC_PICKLE_LIST);
    case 'e':
    case 0x90: return collect_above_mark(p, RC_PICKLE_LIST);
    case 's': return collect(p, 2, 0, RC_PICKLE_DICTIONARY);
    case 'u': return collect_above_mark(p, RC_PICKLE_DICTIONARY);
    case 'Q': return name_storage(p);
    case 'R': return reduce(p);
    case 'b': return build(p);
    default: return damaged(p, "an instruction that data does not need");
    }
}

static rc_status run(rc_pickle *p)
{
    /* Node 0 is None and cell 0 is the end of every list: real ones start at 1. */
    RC_TRY(push_node(p, &(rc_pickle_node){.kind = RC_PICKLE_NONE}));
    p->stack.used = 0;
    RC_TRY(reserve(p, &p->cells, 1, sizeof(rc_pickle_cell)));
    p->cells.used = 1;
    if (p->size < 2 || p->data[0] != 0x80 || p->data[1] < 2 || p->data[1] > 5)
        return rc_fail(RC_FORMAT, "'%s' is not a pickle of protocol 2 to 5", p->name);
    for (p->at = 2; p->at < p->size;) {
        uint8_t instruction = p->data[p->at++];
        if (instruction != '.') {
            RC_TRY(execute(p, instruction));
            continue;
        }
        p->root = peek(p, 0);
        return RC_OK;
    }
    return damaged(p, "unexpected end");
}

rc_status rc_pickle_parse_first(const char *name, const uint8_t *data, size_t size, size_t *used, rc_pickle **pickle)
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
    *used = status == RC_OK ? p->at : 0;
    return status;
}

rc_status rc_pickle_parse(const char *name, const uint8_t *data, size_t size, rc_pickle **pickle)
{
    size_t used;
    RC_TRY(rc_pickle_parse_first(name, data, size, &used, pickle));
    rc_pickle_kind kind = rc_pickle_node_at(*pickle, (*pickle)->root)->kind;
    if (kind == RC_PICKLE_DICTIONARY)
        return RC_OK;
    rc_pickle_free(*pickle);
    *pickle = NULL;
    return rc_fail(RC_FORMAT, "'%s' is a pickle of %s, expected a dictionary", name, rc_pickle_kind_names[kind]);
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
