/* Every claim that the header of a model makes, each with values at and beyond its edges. */
#ifndef RC_TESTS_SUPPORT_CLAIMS_H
#define RC_TESTS_SUPPORT_CLAIMS_H

#include "support/craft.h"

typedef enum claim_place { CLAIM_METADATA, CLAIM_SETTING, CLAIM_TENSOR } claim_place;

typedef struct claim {
    claim_place place;
    const char *key;   /* of the metadata, a setting, a tensor */
    const char *field; /* of a tensor */
    const char *value; /* NULL: missing */
} claim;

/* The list; claims_list() fills it. */
extern claim claims[];
extern int claims_count;
void claims_list(void);

/* Makes the claim in a file; false: the file has no such place. */
bool claim_make(craft *file, const claim *c);
/* "batch = 65536", for messages. */
void claim_text(const claim *c, char *text, size_t size);

#endif
