/* Numbers as settings and files spell them: with a point, whatever the locale of the program is. */
#ifndef RC_BASE_NUMBER_H
#define RC_BASE_NUMBER_H

#include <stddef.h>

/* strtod. */
double rc_number_read(const char *text, char **end);
/* The shortest text of at most `digits` digits ("%.*g"). */
void rc_number_write(double value, int digits, char *text, size_t size);

#endif
