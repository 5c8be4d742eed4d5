/* Named weights of a net from a file that anybody has written: safetensors, or PyTorch's (torch_file.h). */
#ifndef RC_MODEL_WEIGHTS_H
#define RC_MODEL_WEIGHTS_H

#include "model/safetensors.h"

typedef struct rc_weights rc_weights;

/* A regular file. On failure *weights is NULL, and the message names the file. */
rc_status rc_weights_open(const char *path, rc_weights **weights);
/* The same from memory, which must live as long as the weights, and so must `name`. */
rc_status rc_weights_parse(const char *name, const uint8_t *bytes, size_t size, rc_weights **weights);
void rc_weights_close(rc_weights *weights); /* NULL is fine */

int rc_weights_count(const rc_weights *weights);
const rc_named_tensor *rc_weights_at(const rc_weights *weights, int index);

/* What the file's metadata call its format; NULL: nothing. */
const char *rc_weights_format(const rc_weights *weights);
/* What helps whoever took a file that recollect has written for one of weights (model/other_file.h). */
const char *rc_weights_other(const rc_weights *weights);

/* The numbers of a tensor of any floating type as floats; all of them must be finite. out: (its elements). */
rc_status rc_weights_read(const rc_named_tensor *tensor, float *out);

#endif
