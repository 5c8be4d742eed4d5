/* Class names from a text: one a line, in the order of the labels, UTF-8. Blanks around a name and empty lines at the
 * end are dropped. */
#ifndef RC_MODEL_LABELS_H
#define RC_MODEL_LABELS_H

#include <stddef.h>

#include "base/status.h"

typedef struct rc_labels {
    char **name; /* (count); each is a block of its own */
    int count;
    int renamed; /* lines that repeated a name, and got a number behind it: "crane", "crane (2)" */
} rc_labels;

/* `source` is what messages call the text. On failure nothing is held. */
rc_status rc_labels_parse(const char *source, const char *text, size_t size, rc_labels *labels);
rc_status rc_labels_read(const char *path, rc_labels *labels);
/* class-0000, class-0001, ... */
rc_status rc_labels_number(int count, rc_labels *labels);
void rc_labels_destroy(rc_labels *labels); /* a zeroed one is fine */

#endif
