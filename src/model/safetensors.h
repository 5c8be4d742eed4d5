/* Files of named tensors in the safetensors format: a little-endian u64, that many bytes of JSON, then the data.
 * Written atomically; read with every offset, shape and size checked, because files come from strangers. */
#ifndef RC_MODEL_SAFETENSORS_H
#define RC_MODEL_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json.h"
#include "base/status.h"

typedef enum rc_dtype {
    RC_DTYPE_F32,
    RC_DTYPE_F64,
    RC_DTYPE_I32,
    RC_DTYPE_I64,
    RC_DTYPE_U8,
    RC_DTYPE_F16, /* means and variances of classes; the next ones in files of others alone */
    RC_DTYPE_BF16,
    RC_DTYPE_I16,
    RC_DTYPE_I8,
    RC_DTYPE_BOOL
} rc_dtype;

enum { RC_TENSOR_DIMS = 4 };

typedef struct rc_named_tensor {
    const char *name;
    rc_dtype dtype;
    int dims;
    int64_t shape[RC_TENSOR_DIMS];
    const void *data; /* shape product * size of dtype bytes; of a file that was read: at any address, so copy it */
} rc_named_tensor;

size_t rc_dtype_bytes(rc_dtype dtype);
const char *rc_dtype_name(rc_dtype dtype); /* "F32" */

/* Elements of the tensor, and their bytes. */
size_t rc_named_tensor_count(const rc_named_tensor *tensor);
size_t rc_named_tensor_bytes(const rc_named_tensor *tensor);

/* A file begins with its metadata: strings that rc_json_put_text puts into what this returns. rc_safetensors_write
 * ends it, also on failure. Names of tensors must differ. replace: a file of that name; otherwise it stays, and the
 * status is RC_IO. */
rc_json_writer rc_safetensors_metadata_begin(void);
rc_status rc_safetensors_write(const char *path, const rc_named_tensor *tensors, int count, rc_json_writer *metadata,
                               bool replace);

/* The same bytes into a new block; free it with rc_free(NULL, ...). On failure *bytes is NULL. */
rc_status rc_safetensors_pack(const rc_named_tensor *tensors, int count, rc_json_writer *metadata, void **bytes,
                              size_t *size);

typedef struct rc_safetensors rc_safetensors;

/* The whole file in memory, once its header is found to describe all of it; a regular file. On failure *file is NULL
 * and the message names the file and what is wrong with it. */
rc_status rc_safetensors_open(const char *path, rc_safetensors **file);
/* Its metadata alone: it has no tensors then. */
rc_status rc_safetensors_open_header(const char *path, rc_safetensors **file);
/* The whole file from memory; `name` is what messages call it. The bytes are copied. */
rc_status rc_safetensors_parse(const char *name, const void *bytes, size_t size, rc_safetensors **file);
void rc_safetensors_close(rc_safetensors *file); /* NULL is fine */

size_t rc_safetensors_bytes(const rc_safetensors *file); /* all of it */
int rc_safetensors_count(const rc_safetensors *file);
const rc_named_tensor *rc_safetensors_at(const rc_safetensors *file, int index);
/* NULL: there is none of that name. */
const rc_named_tensor *rc_safetensors_find(const rc_safetensors *file, const char *name);
/* A tensor that must be there, of this type and this many elements; the message names what is missing or differs. */
rc_status rc_safetensors_get(const rc_safetensors *file, const char *name, rc_dtype dtype, size_t elements,
                             const rc_named_tensor **tensor);
/* A metadata string; NULL: there is none. */
const char *rc_safetensors_metadata(const rc_safetensors *file, const char *key);

#endif
