/* UTF-8, as messages, logs and files are to hold it. */
#ifndef RC_BASE_UTF8_H
#define RC_BASE_UTF8_H

#include <stddef.h>

/* How many bytes the character at `text` has, of which `left` (1 or more) are there; 0: it is none. */
size_t rc_utf8_length(const char *text, size_t left);

/* Copies the characters of a text that fit into `size` bytes, whole ones and a zero byte, and then as many blanks as
   make `width` characters. Returns `out`. */
const char *rc_utf8_column(const char *text, size_t width, char *out, size_t size);

/* Marks a text that fills `size` bytes as cut, without leaving half of a character before the dots. */
void rc_utf8_mark_cut(char *text, size_t size);

#endif
