/* Files as torch.save writes them, for tests of their reader: the same pickles, byte for byte where it matters. */
#ifndef RC_TESTS_SUPPORT_TORCH_WRITE_H
#define RC_TESTS_SUPPORT_TORCH_WRITE_H

#include "model/safetensors.h"

typedef struct torch_style {
    bool old;           /* the kind before archives */
    bool deflated;      /* entries of the archive */
    bool large;         /* zip64: every size and place in the wide fields that archives of more than 4 GB have */
    bool framed;        /* pickles of protocol 4, not 2 */
    bool python2;       /* dictionaries are made of lists of pairs, long numbers are texts */
    const char *inside; /* key of the dictionary that holds the state_dict; NULL: it is bare */
    const char *prefix; /* before every name; NULL: none */
} torch_style;

/* In a new block, to be freed with free(). */
uint8_t *torch_write(const rc_named_tensor *tensors, int count, torch_style style, size_t *size);

#endif
