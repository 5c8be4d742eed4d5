/* UTF-8, as messages, logs and files are to hold it. */
#ifndef RC_BASE_UTF8_H
#define RC_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* The character at `text`, of which `left` (1 or more) bytes are there: how many bytes it has, and its code. 0: it is
   none, and the code is the first byte. */
size_t rc_utf8_decode(const char *text, size_t left, unsigned *code);

/* How many bytes the character at `text` has, of which `left` (1 or more) are there; 0: it is none. */
size_t rc_utf8_length(const char *text, size_t left);

/* Does the character act instead of being seen: a control, a mark of direction, a blank of no width? */
bool rc_utf8_is_hidden(unsigned code);

/* How people see the character at `text` (of `left` bytes, 1 or more): as it is, or, if it is hidden or no character,
   escaped: \n, \t, \r, \u001b, \u202e, and \xff for a byte that is no UTF-8. But for the last these are JSON's escapes.
   A backslash stays as it is, so that a text may pass here twice. Returns the bytes put into `out`, which has room for
   RC_UTF8_SHOWN; *taken: those of the text. */
enum { RC_UTF8_SHOWN = 16 };
size_t rc_utf8_show(const char *text, size_t left, char *out, size_t *taken);

/* The whole text so, in at most `size` (4 or more) bytes with the zero byte; what does not fit is cut between
   characters and marked with dots. What comes from outside (names of files, keys, tensors, lines of lists) must not
   reach a terminal in another way: it could move the cursor, forge lines, or show a name that it is not. */
void rc_utf8_escape(const char *text, char *out, size_t size);

/* Copies the characters of a text that fit into `size` bytes, whole ones and a zero byte, and then as many blanks as
   make `width` characters. Returns `out`. */
const char *rc_utf8_column(const char *text, size_t width, char *out, size_t size);

/* Marks a text that fills `size` bytes as cut, without leaving half of a character before the dots. */
void rc_utf8_mark_cut(char *text, size_t size);

#endif
