#include "model/torch_file.h"

#include <string.h>

#include "base/memory.h"
#include "data/input.h"
#include "data/pickle.h"
#include "data/zip.h"

/* Keys under which training scripts put the state_dict. */
static const char *const inside[] = {"state_dict", "model_state_dict", "model"};

enum {
    MOST_TENSORS = 8192, /* a net of ours has less than 2000 */
    MOST_STORAGES = 16384,
    OLD_PROTOCOL = 1001
};

/* Numbers under a key. */
typedef struct storage {
    const char *key;
    size_t key_length;
    const uint8_t *data;
    size_t bytes;
} storage;

struct rc_torch_file {
    const char *name;
    rc_zip *zip;       /* NULL: the old kind */
    char folder[256];  /* of the archive, with its slash */
    storage *storages; /* old kind: (storage_count), by key */
    int storage_count;
    rc_named_tensor *tensor; /* (tensors) */
    int tensors;
    uint8_t **block; /* (tensors): a copy in the usual order; NULL: its numbers lie in that order in the file */
    int blocks;
    size_t room; /* bytes that copies may still take */
    char *text;  /* of the names */
};

static const rc_dtype types[] = {
    [RC_TORCH_FLOAT] = RC_DTYPE_F32,     [RC_TORCH_DOUBLE] = RC_DTYPE_F64, [RC_TORCH_HALF] = RC_DTYPE_F16,
    [RC_TORCH_BFLOAT16] = RC_DTYPE_BF16, [RC_TORCH_LONG] = RC_DTYPE_I64,   [RC_TORCH_INT] = RC_DTYPE_I32,
    [RC_TORCH_SHORT] = RC_DTYPE_I16,     [RC_TORCH_CHAR] = RC_DTYPE_I8,    [RC_TORCH_BYTE] = RC_DTYPE_U8,
    [RC_TORCH_BOOL] = RC_DTYPE_BOOL,
};

static int shown(size_t length)
{
    return (int)(length < 200 ? length : 200);
}

/* ---- where the numbers are -------------------------------------------------------------------------------------- */

/* Those of a storage, as many as it claims. */
static rc_status find_storage(const rc_torch_file *f, const rc_pickle_storage *wanted, const uint8_t **data)
{
    size_t bytes = 0, expected;
    *data = NULL;
    if (f->zip != NULL) {
        char name[sizeof f->folder + 256];
        size_t folder = strlen(f->folder), length = folder + 5 + wanted->key_length;
        if (wanted->key_length < 200) {
            memcpy(name, f->folder, folder);
            memcpy(name + folder, "data/", 5);
            memcpy(name + folder + 5, wanted->key, wanted->key_length);
            int index = rc_zip_find(f->zip, name, length);
            if (index >= 0)
                RC_TRY(rc_zip_read(f->zip, index, data, &bytes));
        }
    }
    for (int i = 0; i < f->storage_count && *data == NULL; i++)
        if (f->storages[i].key_length == wanted->key_length &&
            memcmp(f->storages[i].key, wanted->key, wanted->key_length) == 0) {
            *data = f->storages[i].data;
            bytes = f->storages[i].bytes;
        }
    if (*data == NULL)
        return rc_fail(RC_FORMAT, "'%.300s' has no numbers under '%.*s'", f->name, shown(wanted->key_length),
                       wanted->key);
    if (!rc_size_mul((size_t)wanted->elements, rc_dtype_bytes(types[wanted->type]), &expected) || expected != bytes)
        return rc_fail(RC_FORMAT, "'%.300s' has %zu bytes under '%.*s', expected %lld numbers of %zu bytes", f->name,
                       bytes, shown(wanted->key_length), wanted->key, (long long)wanted->elements,
                       rc_dtype_bytes(types[wanted->type]));
    return RC_OK;
}

/* Elements of a tensor that lies in its storage; false: it does not, or has more of them than the storage. *whole: they
 * follow one another. A side of one element has any stride. */
static bool measure(const rc_pickle_tensor *t, size_t *count, bool *whole)
{
    size_t last = (size_t)t->offset, reach;
    *count = 1;
    *whole = true;
    for (int i = t->dims - 1; i >= 0; i--) {
        *whole = *whole && (t->shape[i] == 1 || (uint64_t)t->stride[i] == *count);
        if (!rc_size_mul(*count, (size_t)t->shape[i], count))
            return false;
    }
    if (*count == 0)
        return true;
    for (int i = 0; i < t->dims; i++)
        if (!rc_size_mul((size_t)t->shape[i] - 1, (size_t)t->stride[i], &reach) || !rc_size_add(last, reach, &last))
            return false;
    return last < (size_t)t->storage.elements && *count <= (size_t)t->storage.elements;
}

/* Element by element, the last side fastest. */
static void gather(const rc_pickle_tensor *t, const uint8_t *data, size_t bytes, size_t count, uint8_t *out)
{
    int64_t at[RC_PICKLE_DIMS] = {0};
    size_t place = (size_t)t->offset;
    for (size_t i = 0; i < count; i++) {
        memcpy(out + i * bytes, data + place * bytes, bytes);
        for (int k = t->dims - 1; k >= 0; k--) {
            place += (size_t)t->stride[k];
            if (++at[k] < t->shape[k])
                break;
            place -= (size_t)t->shape[k] * (size_t)t->stride[k];
            at[k] = 0;
        }
    }
}

/* ---- tensors ---------------------------------------------------------------------------------------------------- */

/* Its numbers, row behind row: where they lie, or in a block of their own. */
static rc_status find_numbers(rc_torch_file *f, const rc_pickle_tensor *t, rc_named_tensor *tensor)
{
    const uint8_t *data;
    size_t count, bytes = rc_dtype_bytes(tensor->dtype);
    bool whole;
    RC_TRY(find_storage(f, &t->storage, &data));
    if (!measure(t, &count, &whole))
        return rc_fail(RC_FORMAT, "'%.300s': tensor '%s' does not fit into its %lld numbers", f->name, tensor->name,
                       (long long)t->storage.elements);
    if (whole || count == 0) {
        tensor->data = data + (count > 0 ? (size_t)t->offset * bytes : 0);
        return RC_OK;
    }
    if (count * bytes > f->room)
        return rc_fail(RC_UNSUPPORTED, "'%.300s' has more numbers in other orders than recollect takes of such a file",
                       f->name);
    uint8_t *block = f->block[f->tensors] = rc_alloc(NULL, count * bytes);
    if (block == NULL)
        return RC_OUT_OF_MEMORY;
    f->room -= count * bytes;
    gather(t, data, bytes, count, block);
    tensor->data = block;
    return RC_OK;
}

static rc_status add_tensor(rc_torch_file *f, const rc_pickle_tensor *t, char *name)
{
    rc_named_tensor *tensor = &f->tensor[f->tensors];
    if (t->dims > RC_TENSOR_DIMS)
        return rc_fail(RC_UNSUPPORTED, "'%.300s': tensor '%s' has %d dimensions, at most %d are read", f->name, name,
                       t->dims, RC_TENSOR_DIMS);
    for (int i = 0; i < f->tensors; i++)
        if (strcmp(f->tensor[i].name, name) == 0)
            return rc_fail(RC_FORMAT, "'%.300s' has two tensors '%s'", f->name, name);
    *tensor = (rc_named_tensor){.name = name, .dtype = types[t->storage.type], .dims = t->dims};
    memcpy(tensor->shape, t->shape, (size_t)t->dims * sizeof *t->shape);
    RC_TRY(find_numbers(f, t, tensor));
    f->tensors++;
    return RC_OK;
}

/* How many there are, and bytes of their names with zero bytes. */
static rc_status count_tensors(const rc_torch_file *f, rc_pickle_tensors walk, int *count, size_t *text)
{
    rc_pickle_tensor t;
    bool more = true;
    *count = 0;
    *text = 0;
    while (more) {
        RC_TRY(rc_pickle_next_tensor(&walk, &t, &more));
        if (!more)
            break;
        if (memchr(t.name, '\0', t.name_length) != NULL || t.name_length > RC_MESSAGE_SIZE / 4)
            return rc_fail(RC_FORMAT, "'%.300s': a tensor has an impossible name", f->name);
        *text += t.name_length + 1;
        if (++*count > MOST_TENSORS)
            return rc_fail(RC_UNSUPPORTED, "'%.300s' has more than %d tensors", f->name, MOST_TENSORS);
    }
    return *count > 0 ? RC_OK
                      : rc_fail(RC_FORMAT,
                                "'%.300s' holds no tensors; expected the state_dict() of a net, bare or under "
                                "'%s', '%s' or '%s'",
                                f->name, inside[0], inside[1], inside[2]);
}

static rc_status take_tensors(rc_torch_file *f, const rc_pickle *pickle)
{
    rc_pickle_tensors walk;
    rc_pickle_tensor t;
    size_t text;
    int count;
    bool more;
    RC_TRY(rc_pickle_get_tensors(pickle, inside, sizeof inside / sizeof *inside, &walk));
    RC_TRY(count_tensors(f, walk, &count, &text));
    f->tensor = rc_alloc_zeroed(NULL, (size_t)count, sizeof *f->tensor);
    f->block = rc_alloc_zeroed(NULL, (size_t)count, sizeof *f->block);
    f->text = rc_alloc_zeroed(NULL, text, 1);
    if (f->tensor == NULL || f->block == NULL || f->text == NULL)
        return RC_OUT_OF_MEMORY;
    f->blocks = count;
    char *name = f->text;
    for (int i = 0; i < count; i++) {
        RC_TRY(rc_pickle_next_tensor(&walk, &t, &more));
        memcpy(name, t.name, t.name_length);
        RC_TRY(add_tensor(f, &t, name));
        name += t.name_length + 1;
    }
    return RC_OK;
}

/* ---- archives --------------------------------------------------------------------------------------------------- */

/* The folder of the archive is that of its data.pkl. */
static rc_status find_pickle(rc_torch_file *f, int *index)
{
    static const char file[] = "data.pkl";
    size_t length, end = sizeof file - 1;
    for (*index = 0; *index < rc_zip_count(f->zip); ++*index) {
        const char *name = rc_zip_name(f->zip, *index, &length);
        if (length >= end && length - end < sizeof f->folder && memcmp(name + length - end, file, end) == 0 &&
            (length == end || memchr(name, '/', length) == name + length - end - 1)) {
            memcpy(f->folder, name, length - end);
            return RC_OK;
        }
    }
    return rc_fail(RC_FORMAT, "'%.300s' is an archive without data.pkl, so not a file of PyTorch", f->name);
}

static rc_status check_byte_order(const rc_torch_file *f)
{
    char name[sizeof f->folder + 16];
    size_t folder = strlen(f->folder), size;
    const uint8_t *order;
    memcpy(name, f->folder, folder);
    memcpy(name + folder, "byteorder", 9);
    int index = rc_zip_find(f->zip, name, folder + 9);
    if (index < 0) /* older files do not say, and are little-endian */
        return RC_OK;
    RC_TRY(rc_zip_read(f->zip, index, &order, &size));
    return size == 6 && memcmp(order, "little", 6) == 0
               ? RC_OK
               : rc_fail(RC_UNSUPPORTED, "'%.300s' holds numbers in an order of bytes other than little-endian",
                         f->name);
}

/* Whole nets, options of a script and numbers of numpy are what people save beside weights, or in place of them. */
static rc_status advise(rc_status status)
{
    return status == RC_UNSUPPORTED ? rc_fail(status, "%s; save the net's state_dict() alone", rc_message()) : status;
}

static rc_status read_archive(rc_torch_file *f, const uint8_t *bytes, size_t size)
{
    const uint8_t *text;
    size_t length;
    int index;
    rc_pickle *pickle;
    RC_TRY(rc_zip_parse(f->name, bytes, size, &f->zip));
    RC_TRY(find_pickle(f, &index));
    RC_TRY(check_byte_order(f));
    RC_TRY(rc_zip_read(f->zip, index, &text, &length));
    RC_TRY(advise(rc_pickle_parse(f->name, text, length, &pickle)));
    rc_status status = take_tensors(f, pickle);
    rc_pickle_free(pickle);
    return status;
}

/* ---- the kind before archives: five pickles, then storages ------------------------------------------------------- */

/* The first is 0x1950a86a20f9469cfc6c, behind the byte of its protocol and, from protocol 4 on, the size of a frame. */
static const uint8_t magic[] = {0x8A, 0x0A, 0x6C, 0xFC, 0x9C, 0x46, 0xF9, 0x20, 0x6A, 0xA8, 0x50, 0x19, '.'};
static const uint8_t frame[] = {0x95, sizeof magic, 0, 0, 0, 0, 0, 0, 0};

/* Where the second pickle begins; 0: it is no such file. */
static size_t behind_magic(const uint8_t *bytes, size_t size)
{
    size_t at = 2;
    if (size >= at + sizeof frame && memcmp(bytes + at, frame, sizeof frame) == 0)
        at += sizeof frame;
    return size >= at + sizeof magic && bytes[0] == 0x80 && memcmp(bytes + at, magic, sizeof magic) == 0
               ? at + sizeof magic
               : 0;
}

/* The next pickle of the file. */
typedef struct place {
    const uint8_t *bytes;
    size_t size, at;
} place;

static rc_status next_pickle(const rc_torch_file *f, place *p, rc_pickle **pickle)
{
    size_t used;
    RC_TRY(advise(rc_pickle_parse_first(f->name, p->bytes + p->at, p->size - p->at, &used, pickle)));
    p->at += used;
    return RC_OK;
}

static rc_status check_system(const rc_torch_file *f, place *p)
{
    rc_pickle *pickle;
    int64_t protocol = 0, little = 0;
    RC_TRY(next_pickle(f, p, &pickle));
    rc_status status = rc_pickle_integer(pickle, &protocol);
    rc_pickle_free(pickle);
    if (status == RC_OK && protocol != OLD_PROTOCOL)
        status = rc_fail(RC_UNSUPPORTED, "'%.300s' is of protocol %lld, expected %d", f->name, (long long)protocol,
                         OLD_PROTOCOL);
    RC_TRY(status);
    RC_TRY(next_pickle(f, p, &pickle));
    status = rc_pickle_get_integer(pickle, "little_endian", &little);
    rc_pickle_free(pickle);
    if (status == RC_OK && little == 0)
        status = rc_fail(RC_UNSUPPORTED, "'%.300s' holds numbers in an order of bytes other than little-endian",
                         f->name);
    return status;
}

/* All storages that the state_dict names, in a new block. */
static rc_status list_named(const rc_torch_file *f, const rc_pickle *pickle, rc_pickle_storage **named, int *count)
{
    rc_pickle_storage each;
    *count = 0;
    for (uint32_t at = 0; rc_pickle_next_storage(pickle, &at, &each);)
        if (++*count > MOST_STORAGES)
            return rc_fail(RC_UNSUPPORTED, "'%.300s' has more than %d storages", f->name, MOST_STORAGES);
    *named = rc_alloc_zeroed(NULL, (size_t)*count, sizeof **named);
    if (*named == NULL)
        return RC_OUT_OF_MEMORY;
    *count = 0;
    for (uint32_t at = 0; rc_pickle_next_storage(pickle, &at, &(*named)[*count]);)
        ++*count;
    return RC_OK;
}

/* A number of elements in 8 bytes, then the elements. */
static rc_status next_storage(const rc_torch_file *f, const rc_pickle_storage *named, int names, place *p,
                              storage *next)
{
    uint64_t count = 0;
    size_t element = 0;
    for (int i = 0; i < names && element == 0; i++)
        if (named[i].key_length == next->key_length && memcmp(named[i].key, next->key, next->key_length) == 0)
            element = rc_dtype_bytes(types[named[i].type]);
    if (element == 0)
        return rc_fail(RC_FORMAT, "'%.300s' has numbers under '%.*s' that no tensor is made of", f->name,
                       shown(next->key_length), next->key);
    if (p->size - p->at < 8)
        return rc_fail(RC_FORMAT, "'%.300s' is cut off", f->name);
    for (int i = 0; i < 8; i++)
        count |= (uint64_t)p->bytes[p->at++] << (8 * i);
    if (count > (p->size - p->at) / element)
        return rc_fail(RC_FORMAT, "'%.300s' is cut off: %zu bytes are left where %llu numbers should be", f->name,
                       p->size - p->at, (unsigned long long)count);
    next->data = p->bytes + p->at;
    next->bytes = (size_t)count * element;
    p->at += next->bytes;
    return RC_OK;
}

/* The numbers under each key, in the order of the list. */
static rc_status take_storages(rc_torch_file *f, const rc_pickle_storage *named, int names, place *p,
                               rc_pickle_list keys)
{
    if (keys.count > MOST_STORAGES)
        return rc_fail(RC_UNSUPPORTED, "'%.300s' has more than %d storages", f->name, MOST_STORAGES);
    f->storages = rc_alloc_zeroed(NULL, (size_t)keys.count, sizeof *f->storages);
    if (f->storages == NULL)
        return RC_OUT_OF_MEMORY;
    for (int i = 0; i < keys.count; i++) {
        RC_TRY(rc_pickle_next_string(&keys, &f->storages[i].key, &f->storages[i].key_length));
        RC_TRY(next_storage(f, named, names, p, &f->storages[i]));
        f->storage_count++;
    }
    return RC_OK;
}

static rc_status read_old(rc_torch_file *f, const uint8_t *bytes, size_t size)
{
    place p = {bytes, size, behind_magic(bytes, size)};
    rc_pickle *pickle = NULL, *list = NULL;
    rc_pickle_storage *named = NULL;
    rc_pickle_list keys;
    int names;
    RC_TRY(check_system(f, &p));
    rc_status status = next_pickle(f, &p, &pickle);
    if (status == RC_OK)
        status = next_pickle(f, &p, &list);
    if (status == RC_OK)
        status = rc_pickle_list_of(list, &keys);
    if (status == RC_OK)
        status = list_named(f, pickle, &named, &names);
    if (status == RC_OK)
        status = take_storages(f, named, names, &p, keys);
    if (status == RC_OK)
        status = take_tensors(f, pickle);
    rc_free(NULL, named);
    rc_pickle_free(pickle);
    rc_pickle_free(list);
    return status;
}

/* ---- the file --------------------------------------------------------------------------------------------------- */

bool rc_torch_file_is(const uint8_t *bytes, size_t size)
{
    return rc_zip_is(bytes, size) || behind_magic(bytes, size) > 0;
}

rc_status rc_torch_file_parse(const char *name, const uint8_t *bytes, size_t size, rc_torch_file **file)
{
    *file = NULL;
    rc_torch_file *f = rc_alloc_zeroed(NULL, 1, sizeof *f);
    if (f == NULL)
        return RC_OUT_OF_MEMORY;
    f->name = name;
    f->room = 2 * size + RC_INPUT_FREE;
    rc_status status = behind_magic(bytes, size) > 0 ? read_old(f, bytes, size) : read_archive(f, bytes, size);
    if (status == RC_OK)
        *file = f;
    else
        rc_torch_file_close(f);
    return status;
}

void rc_torch_file_close(rc_torch_file *file)
{
    if (file == NULL)
        return;
    rc_zip_free(file->zip);
    for (int i = 0; i < file->blocks; i++)
        rc_free(NULL, file->block[i]);
    rc_free(NULL, file->block);
    rc_free(NULL, file->storages);
    rc_free(NULL, file->tensor);
    rc_free(NULL, file->text);
    rc_free(NULL, file);
}

int rc_torch_file_count(const rc_torch_file *file)
{
    return file->tensors;
}

const rc_named_tensor *rc_torch_file_at(const rc_torch_file *file, int index)
{
    return &file->tensor[index];
}
