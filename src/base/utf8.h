/* UTF-8, as messages, logs and files are to hold it. */
#ifndef RC_BASE_UTF8_H
#define RC_BASE_UTF8_H

#include <stddef.h>

/* How many bytes the character at `text` has, of which `left` (1 or more) are there; 0: it is none. */
size_t rc_utf8_length(const char *text, size_t left);

/* Marks a text that fills `size` bytes as cut, without leaving half of a character before the dots. */
void rc_utf8_mark_cut(char *text, size_t size);

#endif
