#include "model/safetensors.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "model/other_file.h"

/* 10,000 classes with long names and several thousand tensors take a quarter of this; a length beyond it is a broken or
 * hostile file. */
static const size_t largest_header = 4u << 20;
static const size_t largest_file = (size_t)4 << 30;

static const struct {
    const char *name;
    size_t bytes;
} dtypes[] = {{"F32", 4}, {"F64", 8},  {"I32", 4}, {"I64", 8}, {"U8", 1},
              {"F16", 2}, {"BF16", 2}, {"I16", 2}, {"I8", 1},  {"BOOL", 1}};

enum { DTYPES = sizeof dtypes / sizeof *dtypes };

struct rc_safetensors {
    size_t size;     /* of the file */
    rc_json *header; /* names live in it */
    char *data;      /* what comes after it, size - data_begin bytes; NULL until the header was found to be good */
    size_t data_begin;
    rc_named_tensor *tensor;
    size_t *place; /* (tensors): where each begins in the data */
    int tensors;
};

size_t rc_dtype_bytes(rc_dtype dtype)
{
    return dtypes[dtype].bytes;
}

const char *rc_dtype_name(rc_dtype dtype)
{
    return dtypes[dtype].name;
}

size_t rc_named_tensor_count(const rc_named_tensor *tensor)
{
    size_t count = 1;
    for (int i = 0; i < tensor->dims; i++)
        count *= (size_t)tensor->shape[i];
    return count;
}

size_t rc_named_tensor_bytes(const rc_named_tensor *tensor)
{
    return rc_named_tensor_count(tensor) * rc_dtype_bytes(tensor->dtype);
}

/* ---- writing ------------------------------------------------------------------------------------------------- */

rc_json_writer rc_safetensors_metadata_begin(void)
{
    rc_json_writer header = {0};
    rc_json_begin_object(&header, NULL);
    rc_json_begin_object(&header, "__metadata__");
    return header;
}

static void describe(const rc_named_tensor *tensor, size_t begin, size_t end, rc_json_writer *header)
{
    rc_json_begin_object(header, tensor->name);
    rc_json_put_text(header, "dtype", dtypes[tensor->dtype].name);
    rc_json_begin_array(header, "shape");
    for (int i = 0; i < tensor->dims; i++)
        rc_json_put_int(header, NULL, tensor->shape[i]);
    rc_json_end(header);
    rc_json_begin_array(header, "data_offsets");
    rc_json_put_int(header, NULL, (int64_t)begin);
    rc_json_put_int(header, NULL, (int64_t)end);
    rc_json_end(header);
    rc_json_end(header);
}

/* Refuses to write what the reader would refuse: a name that is taken, or more than a header may have. */
static rc_status check_header(const char *text, size_t size)
{
    rc_json *again = NULL;
    if (size > largest_header)
        return rc_fail(RC_INVALID_ARGUMENT, "the tensors take a header of %zu bytes, at most %zu are read", size,
                       largest_header);
    rc_status status = rc_json_parse("header", text, size, &again);
    rc_json_free(again);
    return status == RC_FORMAT ? rc_fail(RC_INVALID_ARGUMENT, "the tensors cannot be described: %s", rc_message())
                               : status;
}

/* Header text padded with spaces, so that the data begins at a multiple of 8. */
static rc_status make_header(const rc_named_tensor *tensors, int count, rc_json_writer *header, char **text,
                             size_t *size)
{
    size_t offset = 0, length;
    char *written;
    rc_json_end(header); /* the metadata */
    for (int i = 0; i < count; i++) {
        size_t bytes = rc_named_tensor_bytes(&tensors[i]);
        describe(&tensors[i], offset, offset + bytes, header);
        offset += bytes;
    }
    rc_json_end(header);
    *text = NULL;
    RC_TRY(rc_json_finish(header, &written, &length));
    *size = (length + 7) / 8 * 8;
    rc_status status = check_header(written, length);
    if (status == RC_OK && (*text = rc_alloc(NULL, *size)) == NULL)
        status = RC_OUT_OF_MEMORY;
    if (status == RC_OK) {
        memset(*text, ' ', *size);
        memcpy(*text, written, length);
    }
    rc_free(NULL, written);
    return status;
}

/* All bytes of the file, piece by piece. */
static rc_status put_pieces(const rc_named_tensor *tensors, int count, const char *header, size_t size,
                            rc_status (*put)(void *to, const void *data, size_t size), void *to)
{
    unsigned char length[8];
    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)((uint64_t)size >> (8 * i));
    RC_TRY(put(to, length, sizeof length));
    RC_TRY(put(to, header, size));
    for (int i = 0; i < count; i++)
        RC_TRY(put(to, tensors[i].data, rc_named_tensor_bytes(&tensors[i])));
    return RC_OK;
}

/* The bytes of the file: 8, `header` and the tensors. More than is read is an error. */
static rc_status measure(const rc_named_tensor *tensors, int count, size_t header, size_t *bytes)
{
    *bytes = 8 + header;
    for (int i = 0; i < count; i++)
        *bytes += rc_named_tensor_bytes(&tensors[i]);
    return *bytes <= largest_file
               ? RC_OK
               : rc_fail(RC_INVALID_ARGUMENT, "the tensors take a file of %zu bytes, at most %zu are read", *bytes,
                         largest_file);
}

static rc_status put_into_file(void *writer, const void *data, size_t size)
{
    return rc_file_writer_append(writer, data, size);
}

rc_status rc_safetensors_write(const char *path, const rc_named_tensor *tensors, int count, rc_json_writer *metadata,
                               bool replace)
{
    char *header;
    size_t size, all;
    RC_TRY(make_header(tensors, count, metadata, &header, &size));
    rc_file_writer *writer;
    rc_status status = measure(tensors, count, size, &all);
    if (status == RC_OK)
        status = rc_file_writer_open(path, &writer);
    if (status == RC_OK) {
        status = put_pieces(tensors, count, header, size, put_into_file, writer);
        if (status == RC_OK)
            status = replace ? rc_file_writer_commit(writer) : rc_file_writer_commit_new(writer);
        else
            rc_file_writer_abort(writer);
    }
    rc_free(NULL, header);
    return status;
}

/* *to: where the next piece goes. */
static rc_status put_into_memory(void *to, const void *data, size_t size)
{
    char **end = to;
    memcpy(*end, data, size);
    *end += size;
    return RC_OK;
}

rc_status rc_safetensors_pack(const rc_named_tensor *tensors, int count, rc_json_writer *metadata, void **bytes,
                              size_t *size)
{
    char *header, *end = NULL;
    size_t header_size, all;
    *bytes = NULL;
    *size = 0;
    RC_TRY(make_header(tensors, count, metadata, &header, &header_size));
    rc_status status = measure(tensors, count, header_size, &all);
    if (status == RC_OK && (end = *bytes = rc_alloc(NULL, all)) == NULL)
        status = RC_OUT_OF_MEMORY;
    if (status == RC_OK) {
        *size = all;
        status = put_pieces(tensors, count, header, header_size, put_into_memory, &end);
    }
    rc_free(NULL, header);
    return status;
}

/* ---- reading ------------------------------------------------------------------------------------------------- */

static rc_status read_dtype(const char *name, const rc_json *entry, rc_dtype *dtype)
{
    const char *text;
    RC_TRY(rc_json_get_string(entry, "dtype", &text));
    for (int i = 0; i < DTYPES; i++)
        if (strcmp(dtypes[i].name, text) == 0) {
            *dtype = (rc_dtype)i;
            return RC_OK;
        }
    return rc_fail(RC_UNSUPPORTED, "tensor '%s' has type %s, which recollect does not read", name, text);
}

/* Shape, and the bytes it asks for. */
static rc_status read_shape(const rc_json *entry, rc_named_tensor *tensor, size_t *bytes)
{
    const rc_json *shape, *value = NULL;
    RC_TRY(rc_json_get_array(entry, "shape", &shape));
    if (rc_json_count(shape) > RC_TENSOR_DIMS)
        return rc_fail(RC_UNSUPPORTED, "tensor '%s' has %zu dimensions, at most %d are read", tensor->name,
                       rc_json_count(shape), RC_TENSOR_DIMS);
    tensor->dims = (int)rc_json_count(shape);
    *bytes = rc_dtype_bytes(tensor->dtype);
    for (int i = 0; (value = rc_json_next(shape, value)) != NULL; i++) {
        tensor->shape[i] = rc_json_integer(value);
        if (!rc_json_is(value, RC_JSON_INTEGER) || tensor->shape[i] < 0 ||
            !rc_size_mul(*bytes, (size_t)tensor->shape[i], bytes))
            return rc_fail(RC_FORMAT, "tensor '%s' has an impossible shape", tensor->name);
    }
    return RC_OK;
}

static rc_status read_entry(rc_safetensors *file, const char *name, const rc_json *entry)
{
    rc_named_tensor *tensor = &file->tensor[file->tensors];
    size_t bytes, room = file->size - file->data_begin;
    tensor->name = name;
    RC_TRY(read_dtype(name, entry, &tensor->dtype));
    RC_TRY(read_shape(entry, tensor, &bytes));
    const rc_json *offsets;
    RC_TRY(rc_json_get_array(entry, "data_offsets", &offsets));
    bool two = rc_json_count(offsets) == 2;
    const rc_json *first = rc_json_next(offsets, NULL), *last = two ? rc_json_next(offsets, first) : NULL;
    int64_t begin = rc_json_integer(first), end = rc_json_integer(last);
    if (!rc_json_is(first, RC_JSON_INTEGER) || !rc_json_is(last, RC_JSON_INTEGER) || begin < 0 || end < begin ||
        (uint64_t)end > room)
        return rc_fail(RC_FORMAT, "tensor '%s' lies outside of the file, which may be cut off", name);
    if ((size_t)(end - begin) != bytes)
        return rc_fail(RC_FORMAT, "tensor '%s' has %lld bytes, its shape asks for %zu", name, (long long)(end - begin),
                       bytes);
    file->place[file->tensors++] = (size_t)begin;
    return RC_OK;
}

typedef struct part {
    const rc_named_tensor *tensor;
    size_t begin, bytes;
} part;

static int by_place(const void *a, const void *b)
{
    const part *first = a, *second = b;
    if (first->begin != second->begin)
        return first->begin < second->begin ? -1 : 1;
    return first->bytes == second->bytes ? 0 : first->bytes < second->bytes ? -1 : 1; /* what is empty takes no place */
}

/* The format wants the data to be covered, without gaps and without sharing: whatever else is there is damage. */
static rc_status check_places(const rc_safetensors *file)
{
    part *sorted = rc_alloc_zeroed(NULL, (size_t)file->tensors + 1, sizeof *sorted);
    if (sorted == NULL)
        return RC_OUT_OF_MEMORY;
    for (int i = 0; i < file->tensors; i++) {
        const rc_named_tensor *tensor = &file->tensor[i];
        sorted[i] = (part){tensor, file->place[i], rc_named_tensor_count(tensor) * rc_dtype_bytes(tensor->dtype)};
    }
    qsort(sorted, (size_t)file->tensors, sizeof *sorted, by_place);
    size_t at = 0, all = file->size - file->data_begin;
    rc_status status = RC_OK;
    for (int i = 0; i < file->tensors && status == RC_OK; i++) {
        if (sorted[i].begin != at)
            status = rc_fail(RC_FORMAT, "tensor '%s' does not begin where the one before it ends",
                             sorted[i].tensor->name);
        at += sorted[i].bytes;
    }
    if (status == RC_OK && at != all)
        status = rc_fail(RC_FORMAT, "%zu bytes after the last tensor belong to no tensor", all - at);
    rc_free(NULL, sorted);
    return status;
}

static rc_status read_metadata(const rc_safetensors *file)
{
    const rc_json *metadata = rc_json_member(file->header, "__metadata__"), *entry = NULL;
    if (metadata == NULL)
        return RC_OK;
    bool strings = rc_json_is(metadata, RC_JSON_OBJECT);
    while ((entry = rc_json_next(metadata, entry)) != NULL)
        strings = strings && rc_json_is(entry, RC_JSON_STRING);
    return strings ? RC_OK : rc_fail(RC_FORMAT, "the metadata is not a map of strings");
}

/* Where a file comes from: the disk, or memory. */
typedef struct source {
    rc_file_reader *reader; /* NULL: memory */
    const char *bytes;      /* the next ones of the memory */
} source;

static rc_status take(source *from, char *data, size_t size)
{
    if (from->reader != NULL)
        return rc_file_reader_take(from->reader, data, size);
    if (size > 0)
        memcpy(data, from->bytes, size);
    from->bytes += size;
    return RC_OK;
}

/* The header's text, of which no more is taken than the file has. */
static rc_status take_header(rc_safetensors *file, source *from)
{
    unsigned char length_bytes[8] = {0};
    uint64_t length = 0;
    if (file->size >= sizeof length_bytes)
        RC_TRY(take(from, (char *)length_bytes, sizeof length_bytes));
    for (int i = 0; i < 8; i++)
        length |= (uint64_t)length_bytes[i] << (8 * i);
    if (file->size < 8 || length > largest_header || length > file->size - 8)
        return rc_fail(RC_FORMAT, "not a safetensors file, or cut off: its header length is wrong%s",
                       rc_other_format(length_bytes));
    char *text = rc_alloc(NULL, (size_t)length);
    if (text == NULL)
        return RC_OUT_OF_MEMORY;
    file->data_begin = 8 + (size_t)length;
    rc_status status = take(from, text, (size_t)length);
    if (status == RC_OK)
        status = rc_json_parse("header", text, (size_t)length, &file->header);
    rc_free(NULL, text);
    return status;
}

static rc_status parse_header(rc_safetensors *file)
{
    if (!rc_json_is(file->header, RC_JSON_OBJECT))
        return rc_fail(RC_FORMAT, "the header is not an object");
    RC_TRY(read_metadata(file));
    size_t entries = rc_json_count(file->header);
    file->tensor = rc_alloc_zeroed(NULL, entries + 1, sizeof *file->tensor);
    file->place = rc_alloc_zeroed(NULL, entries + 1, sizeof *file->place);
    if (file->tensor == NULL || file->place == NULL)
        return RC_OUT_OF_MEMORY;
    for (const rc_json *entry = NULL; (entry = rc_json_next(file->header, entry)) != NULL;)
        if (strcmp(rc_json_key(entry), "__metadata__") != 0)
            RC_TRY(read_entry(file, rc_json_key(entry), entry));
    return check_places(file);
}

/* Data is read only once the header is known to describe all of it: until then a file of any size takes no more
 * memory than its header. */
static rc_status take_data(rc_safetensors *file, source *from)
{
    size_t bytes = file->size - file->data_begin;
    file->data = rc_alloc(NULL, bytes);
    if (file->data == NULL)
        return RC_OUT_OF_MEMORY;
    RC_TRY(take(from, file->data, bytes));
    for (int i = 0; i < file->tensors; i++)
        file->tensor[i].data = file->data + file->place[i];
    return RC_OK;
}

static rc_status read_from(const char *name, source *from, size_t size, bool with_data, rc_safetensors **file)
{
    rc_safetensors *f = rc_alloc_zeroed(NULL, 1, sizeof *f);
    if (f == NULL)
        return RC_OUT_OF_MEMORY;
    f->size = size;
    rc_status status = take_header(f, from);
    if (status == RC_OK)
        status = parse_header(f);
    if (status == RC_OK && with_data)
        status = take_data(f, from);
    if (!with_data)
        f->tensors = 0; /* that anybody could read */
    if (status != RC_OK) {
        rc_safetensors_close(f);
        return status == RC_OUT_OF_MEMORY ? status : rc_fail(status, "%s: %s", name, rc_message());
    }
    *file = f;
    return RC_OK;
}

static rc_status open_file(const char *path, bool with_data, rc_safetensors **file)
{
    *file = NULL;
    source from = {0};
    size_t size;
    RC_TRY(rc_file_reader_open(path, &from.reader, &size));
    rc_status status = size <= largest_file ? read_from(path, &from, size, with_data, file)
                                            : rc_fail(RC_FORMAT,
                                                      "cannot read '%s': more than %zu bytes, the limit "
                                                      "for this kind of file",
                                                      path, largest_file);
    rc_file_reader_close(from.reader);
    return status;
}

rc_status rc_safetensors_open(const char *path, rc_safetensors **file)
{
    return open_file(path, true, file);
}

rc_status rc_safetensors_open_header(const char *path, rc_safetensors **file)
{
    return open_file(path, false, file);
}

rc_status rc_safetensors_parse(const char *name, const void *bytes, size_t size, rc_safetensors **file)
{
    *file = NULL;
    source from = {.bytes = bytes};
    return read_from(name, &from, size, true, file);
}

void rc_safetensors_close(rc_safetensors *file)
{
    if (file == NULL)
        return;
    rc_json_free(file->header);
    rc_free(NULL, file->data);
    rc_free(NULL, file->tensor);
    rc_free(NULL, file->place);
    rc_free(NULL, file);
}

size_t rc_safetensors_bytes(const rc_safetensors *file)
{
    return file->size;
}

int rc_safetensors_count(const rc_safetensors *file)
{
    return file->tensors;
}

const rc_named_tensor *rc_safetensors_at(const rc_safetensors *file, int index)
{
    return index >= 0 && index < file->tensors ? &file->tensor[index] : NULL;
}

const rc_named_tensor *rc_safetensors_find(const rc_safetensors *file, const char *name)
{
    for (int i = 0; i < file->tensors; i++)
        if (strcmp(file->tensor[i].name, name) == 0)
            return &file->tensor[i];
    return NULL;
}

rc_status rc_safetensors_get(const rc_safetensors *file, const char *name, rc_dtype dtype, size_t elements,
                             const rc_named_tensor **tensor)
{
    *tensor = rc_safetensors_find(file, name);
    if (*tensor == NULL)
        return rc_fail(RC_FORMAT, "tensor '%s' is missing", name);
    size_t count = rc_named_tensor_count(*tensor);
    if ((*tensor)->dtype != dtype || count != elements)
        return rc_fail(RC_FORMAT, "tensor '%s' holds %zu of %s, expected %zu of %s", name, count,
                       dtypes[(*tensor)->dtype].name, elements, dtypes[dtype].name);
    return RC_OK;
}

const char *rc_safetensors_metadata(const rc_safetensors *file, const char *key)
{
    return rc_json_string(rc_json_member(rc_json_member(file->header, "__metadata__"), key));
}
