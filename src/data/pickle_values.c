/* What a pickle that was read is asked for. */
#include "data/pickle_nodes.h"

/* The next pair of a dictionary, from cell *at on; false: there are no more. */
static bool next_pair(const rc_pickle *p, uint32_t *at, const rc_pickle_node **key, const rc_pickle_node **value)
{
    if (*at == 0)
        return false;
    const rc_pickle_cell *pair = rc_pickle_cell_at(p, *at), *second = rc_pickle_cell_at(p, pair->next);
    *key = rc_pickle_node_at(p, pair->value);
    *value = rc_pickle_node_at(p, second->value);
    *at = second->next;
    return true;
}

/* What the pickle itself is, which must be of that kind. */
static rc_status root_of(const rc_pickle *p, rc_pickle_kind expected, const rc_pickle_node **root)
{
    *root = rc_pickle_node_at(p, p->root);
    return (*root)->kind == expected ? RC_OK
                                     : rc_fail(RC_FORMAT, "'%s' is a pickle of %s, expected %s", p->name,
                                               rc_pickle_kind_names[(*root)->kind], rc_pickle_kind_names[expected]);
}

/* The value under a key of a dictionary; NULL: there is none. */
static const rc_pickle_node *value_of(const rc_pickle *p, const rc_pickle_node *dictionary, const char *wanted)
{
    const rc_pickle_node *key, *value;
    for (uint32_t at = dictionary->head; next_pair(p, &at, &key, &value);)
        if (key->kind == RC_PICKLE_STRING && rc_pickle_is_text(key->text, key->length, wanted))
            return value;
    return NULL;
}

static rc_status lookup(const rc_pickle *p, const char *key, rc_pickle_kind expected, const rc_pickle_node **found)
{
    const rc_pickle_node *root;
    RC_TRY(root_of(p, RC_PICKLE_DICTIONARY, &root));
    *found = value_of(p, root, key);
    if (*found == NULL)
        return rc_fail(RC_FORMAT, "'%s' has no '%s'", p->name, key);
    return (*found)->kind == expected ? RC_OK
                                      : rc_fail(RC_FORMAT, "'%s': '%s' is %s, expected %s", p->name, key,
                                                rc_pickle_kind_names[(*found)->kind], rc_pickle_kind_names[expected]);
}

rc_status rc_pickle_get_array(const rc_pickle *p, const char *key, rc_pickle_array *array)
{
    const rc_pickle_node *value;
    RC_TRY(lookup(p, key, RC_PICKLE_ARRAY, &value));
    *array = (rc_pickle_array){.rows = value->rows, .columns = value->columns, .bytes = value->text};
    array->row_step = value->fortran ? 1 : (size_t)value->columns;
    array->column_step = value->fortran ? (size_t)value->rows : 1;
    return RC_OK;
}

rc_status rc_pickle_get_list(const rc_pickle *p, const char *key, rc_pickle_list *list)
{
    const rc_pickle_node *value;
    RC_TRY(lookup(p, key, RC_PICKLE_LIST, &value));
    *list = (rc_pickle_list){.pickle = p, .key = key, .count = value->count, .next = value->head};
    return RC_OK;
}

static rc_status next_element(rc_pickle_list *list, rc_pickle_kind expected, const rc_pickle_node **value)
{
    const rc_pickle *p = list->pickle;
    const rc_pickle_cell *at = rc_pickle_cell_at(p, list->next);
    *value = rc_pickle_node_at(p, list->next != 0 ? at->value : 0);
    if ((*value)->kind != expected)
        return rc_fail(RC_FORMAT, "'%s': '%s' has an element that is %s, expected %s", p->name, list->key,
                       rc_pickle_kind_names[(*value)->kind], rc_pickle_kind_names[expected]);
    list->next = at->next;
    return RC_OK;
}

rc_status rc_pickle_next_integer(rc_pickle_list *list, int64_t *value)
{
    const rc_pickle_node *found;
    RC_TRY(next_element(list, RC_PICKLE_INTEGER, &found));
    *value = found->integer;
    return RC_OK;
}

rc_status rc_pickle_next_string(rc_pickle_list *list, const char **text, size_t *length)
{
    const rc_pickle_node *found;
    RC_TRY(next_element(list, RC_PICKLE_STRING, &found));
    *text = (const char *)found->text;
    *length = found->length;
    return RC_OK;
}

/* ---- several pickles in a row ----------------------------------------------------------------------------------- */

rc_status rc_pickle_integer(const rc_pickle *p, int64_t *value)
{
    const rc_pickle_node *root;
    RC_TRY(root_of(p, RC_PICKLE_INTEGER, &root));
    *value = root->integer;
    return RC_OK;
}

rc_status rc_pickle_get_integer(const rc_pickle *p, const char *key, int64_t *value)
{
    const rc_pickle_node *found;
    RC_TRY(lookup(p, key, RC_PICKLE_INTEGER, &found));
    *value = found->integer;
    return RC_OK;
}

rc_status rc_pickle_list_of(const rc_pickle *p, rc_pickle_list *list)
{
    const rc_pickle_node *root;
    RC_TRY(root_of(p, RC_PICKLE_LIST, &root));
    *list = (rc_pickle_list){.pickle = p, .key = "the list", .count = root->count, .next = root->head};
    return RC_OK;
}

/* ---- PyTorch's tensors ------------------------------------------------------------------------------------------ */

/* pickle.c has looked at its tuple. */
static rc_pickle_storage storage_of(const rc_pickle *p, const rc_pickle_node *node)
{
    const rc_pickle_node *key = rc_pickle_element(p, node, 2);
    return (rc_pickle_storage){.type = (rc_torch_type)rc_pickle_torch_type(rc_pickle_element(p, node, 1)),
                               .key = (const char *)key->text,
                               .key_length = key->length,
                               .elements = rc_pickle_element(p, node, 4)->integer};
}

bool rc_pickle_next_storage(const rc_pickle *p, uint32_t *at, rc_pickle_storage *storage)
{
    while (*at < p->nodes.used) {
        const rc_pickle_node *node = rc_pickle_node_at(p, (*at)++);
        if (node->kind == RC_PICKLE_STORAGE) {
            *storage = storage_of(p, node);
            return true;
        }
    }
    return false;
}

rc_status rc_pickle_get_tensors(const rc_pickle *p, const char *const *inside, int count, rc_pickle_tensors *tensors)
{
    const rc_pickle_node *root, *found;
    RC_TRY(root_of(p, RC_PICKLE_DICTIONARY, &root));
    *tensors = (rc_pickle_tensors){.pickle = p, .next = root->head};
    for (int i = 0; i < count; i++) {
        found = value_of(p, root, inside[i]);
        if (found != NULL && found->kind == RC_PICKLE_DICTIONARY) {
            tensors->next = found->head;
            break;
        }
    }
    return RC_OK;
}

/* (n, m, ...): numbers from 0 on. */
static bool take_numbers(const rc_pickle *p, const rc_pickle_node *tuple, int64_t *numbers)
{
    uint32_t at = tuple->head;
    for (int i = 0; i < tuple->count; i++, at = rc_pickle_cell_at(p, at)->next) {
        const rc_pickle_node *number = rc_pickle_node_at(p, rc_pickle_cell_at(p, at)->value);
        if (number->kind != RC_PICKLE_INTEGER || number->integer < 0)
            return false;
        numbers[i] = number->integer;
    }
    return true;
}

rc_status rc_pickle_next_tensor(rc_pickle_tensors *tensors, rc_pickle_tensor *tensor, bool *more)
{
    const rc_pickle *p = tensors->pickle;
    const rc_pickle_node *key, *value;
    while ((*more = next_pair(p, &tensors->next, &key, &value)) != false)
        if (key->kind == RC_PICKLE_STRING && value->kind == RC_PICKLE_TENSOR)
            break;
    if (!*more)
        return RC_OK;
    const rc_pickle_node *offset = rc_pickle_element(p, value, 1), *shape = rc_pickle_element(p, value, 2);
    const rc_pickle_node *stride = rc_pickle_element(p, value, 3);
    *tensor = (rc_pickle_tensor){.name = (const char *)key->text,
                                 .name_length = key->length,
                                 .storage = storage_of(p, rc_pickle_element(p, value, 0)),
                                 .offset = offset->integer,
                                 .dims = shape->count};
    if (offset->kind == RC_PICKLE_INTEGER && offset->integer >= 0 && shape->kind == RC_PICKLE_TUPLE &&
        stride->kind == RC_PICKLE_TUPLE && shape->count == stride->count && shape->count <= RC_PICKLE_DIMS &&
        take_numbers(p, shape, tensor->shape) && take_numbers(p, stride, tensor->stride))
        return RC_OK;
    return rc_fail(RC_FORMAT, "'%s': the shape of tensor '%.*s' is damaged, or has more than %d dimensions", p->name,
                   (int)(key->length < 200 ? key->length : 200), tensor->name, RC_PICKLE_DIMS);
}
