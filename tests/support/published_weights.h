/* The tensors of a published net with numbers that are no one's, under the names of its state_dict. */
#ifndef RC_TESTS_SUPPORT_PUBLISHED_WEIGHTS_H
#define RC_TESTS_SUPPORT_PUBLISHED_WEIGHTS_H

#include "model/safetensors.h"

enum { PUBLISHED_MOST = 640 };

typedef struct published_weights {
    rc_named_tensor tensor[PUBLISHED_MOST]; /* the last two are the head's */
    char name[PUBLISHED_MOST][128];
    int count;
} published_weights;

/* Every number is a function of the tensor's place and of its own; variances are above 0. */
published_weights *published_weights_make(const char *net, int classes);
void published_weights_free(published_weights *weights);

#endif
