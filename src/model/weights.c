#include "model/weights.h"

#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/half.h"
#include "base/memory.h"
#include "model/other_file.h"
#include "model/torch_file.h"

static const size_t largest_file = (size_t)4 << 30;

struct rc_weights {
    rc_safetensors *tensors; /* one of these two */
    rc_torch_file *torch;
    char *bytes; /* of the second one, if they are ours */
};

/* Does the file begin as PyTorch's do? */
static rc_status looks_like_torch(const char *path, bool *torch)
{
    rc_file_reader *reader;
    uint8_t begin[64];
    size_t size;
    RC_TRY(rc_file_reader_open(path, &reader, &size));
    size = size < sizeof begin ? size : sizeof begin;
    rc_status status = rc_file_reader_take(reader, begin, size);
    rc_file_reader_close(reader);
    *torch = status == RC_OK && rc_torch_file_is(begin, size);
    return status;
}

static rc_status open_weights(const char *path, rc_weights *w)
{
    bool torch;
    size_t size;
    RC_TRY(looks_like_torch(path, &torch));
    if (!torch) {
        rc_status status = rc_safetensors_open(path, &w->tensors);
        return status == RC_FORMAT ? rc_fail(status, "%s (nor does it begin as a file of torch.save)", rc_message())
                                   : status;
    }
    RC_TRY(rc_file_read(path, largest_file, &w->bytes, &size));
    return rc_torch_file_parse(path, (const uint8_t *)w->bytes, size, &w->torch);
}

static rc_status parse_weights(const char *name, const uint8_t *bytes, size_t size, rc_weights *w)
{
    return rc_torch_file_is(bytes, size) ? rc_torch_file_parse(name, bytes, size, &w->torch)
                                         : rc_safetensors_parse(name, bytes, size, &w->tensors);
}

/* `w` once it is whole. */
static rc_status hand_over(rc_status status, rc_weights *w, rc_weights **weights)
{
    if (status == RC_OK)
        *weights = w;
    else
        rc_weights_close(w);
    return status;
}

rc_status rc_weights_open(const char *path, rc_weights **weights)
{
    *weights = NULL;
    rc_weights *w = rc_alloc_zeroed(NULL, 1, sizeof *w);
    return w != NULL ? hand_over(open_weights(path, w), w, weights) : RC_OUT_OF_MEMORY;
}

rc_status rc_weights_parse(const char *name, const uint8_t *bytes, size_t size, rc_weights **weights)
{
    *weights = NULL;
    rc_weights *w = rc_alloc_zeroed(NULL, 1, sizeof *w);
    return w != NULL ? hand_over(parse_weights(name, bytes, size, w), w, weights) : RC_OUT_OF_MEMORY;
}

void rc_weights_close(rc_weights *weights)
{
    if (weights == NULL)
        return;
    rc_safetensors_close(weights->tensors);
    rc_torch_file_close(weights->torch);
    rc_free(NULL, weights->bytes);
    rc_free(NULL, weights);
}

int rc_weights_count(const rc_weights *weights)
{
    return weights->torch != NULL ? rc_torch_file_count(weights->torch) : rc_safetensors_count(weights->tensors);
}

const rc_named_tensor *rc_weights_at(const rc_weights *weights, int index)
{
    return weights->torch != NULL ? rc_torch_file_at(weights->torch, index)
                                  : rc_safetensors_at(weights->tensors, index);
}

const char *rc_weights_format(const rc_weights *weights)
{
    return weights->tensors != NULL ? rc_safetensors_metadata(weights->tensors, "format") : NULL;
}

const char *rc_weights_other(const rc_weights *weights)
{
    return weights->tensors != NULL ? rc_other_metadata(weights->tensors) : "";
}

static float from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Element `i`, wherever it lies. */
static float element(const rc_named_tensor *tensor, size_t i)
{
    const char *at = (const char *)tensor->data + i * rc_dtype_bytes(tensor->dtype);
    uint16_t half;
    double wide;
    float value;
    switch (tensor->dtype) {
    case RC_DTYPE_F64: memcpy(&wide, at, sizeof wide); return (float)wide;
    case RC_DTYPE_F16: memcpy(&half, at, sizeof half); return rc_half_to_float(half);
    case RC_DTYPE_BF16: memcpy(&half, at, sizeof half); return from_bits((uint32_t)half << 16);
    default: memcpy(&value, at, sizeof value); return value;
    }
}

rc_status rc_weights_read(const rc_named_tensor *tensor, float *out)
{
    rc_dtype type = tensor->dtype;
    if (type != RC_DTYPE_F32 && type != RC_DTYPE_F64 && type != RC_DTYPE_F16 && type != RC_DTYPE_BF16)
        return rc_fail(RC_UNSUPPORTED, "tensor '%s' holds %s, expected F32, F64, F16 or BF16", tensor->name,
                       rc_dtype_name(type));
    for (size_t i = 0, count = rc_named_tensor_count(tensor); i < count; i++) {
        out[i] = element(tensor, i);
        if (!isfinite(out[i]))
            return rc_fail(RC_FORMAT, "element %zu of tensor '%s' is %g as a float, expected a finite number", i,
                           tensor->name, (double)out[i]);
    }
    return RC_OK;
}
