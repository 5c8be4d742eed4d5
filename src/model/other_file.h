/* What people take for a model, and what helps: pieces for the ends of messages, "" where nobody knows. */
#ifndef RC_MODEL_OTHER_FILE_H
#define RC_MODEL_OTHER_FILE_H

#include "model/safetensors.h"

/* A file that is no safetensors file, by its first bytes. */
const char *rc_other_format(const unsigned char begin[8]);
/* A safetensors file that is no model, but was written by recollect. */
const char *rc_other_metadata(const rc_safetensors *file);

#endif
