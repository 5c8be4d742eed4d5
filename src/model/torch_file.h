/* Files of torch.save that hold a state_dict, bare or under a usual key of a dictionary: archives (since PyTorch 1.6)
 * and what came before them. The pickle in them is read as data (data/pickle.h): nothing is executed. */
#ifndef RC_MODEL_TORCH_FILE_H
#define RC_MODEL_TORCH_FILE_H

#include "model/safetensors.h"

typedef struct rc_torch_file rc_torch_file;

/* Does it begin as one of the two kinds does? */
bool rc_torch_file_is(const uint8_t *bytes, size_t size);

/* `name` is what messages call the file; it and the bytes must live as long as the file. Of a tensor that lies
 * in another order than row behind row it holds a copy. */
rc_status rc_torch_file_parse(const char *name, const uint8_t *bytes, size_t size, rc_torch_file **file);
void rc_torch_file_close(rc_torch_file *file); /* NULL is fine */

/* All that the state_dict has, in its order; no two have one name. Their data may lie at any address. */
int rc_torch_file_count(const rc_torch_file *file);
const rc_named_tensor *rc_torch_file_at(const rc_torch_file *file, int index);

#endif
