/* Names of classes that mean the same to people: "Ice bear" and "ice_bear". */
#ifndef RC_BASE_ALIKE_H
#define RC_BASE_ALIKE_H

#include <stdbool.h>

/* Are they the same but for capitals, accents (and how these are encoded), blanks at their ends, and what stands for a
 * blank? A name of one character is like no other: "a" and "A" may be letters. */
bool rc_alike(const char *a, const char *b);
/* An order in which such names are neighbours. */
int rc_alike_compare(const char *a, const char *b);

#endif
