/* UTF-8 for messages, logs and files. */
#ifndef RC_BASE_UTF8_H
#define RC_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Decodes the character at `text`, of which `left` (1 or more) bytes are there. Returns how many bytes it has and
   sets *code. 0: it is not UTF-8, and *code is the first byte. */
size_t rc_utf8_decode(const char *text, size_t left, unsigned *code);

/* How many bytes the character at `text` has, of which `left` (1 or more) are there; 0: it is not UTF-8. */
size_t rc_utf8_length(const char *text, size_t left);

/* Bytes of the mark of byte order that programs of Windows put before a text, and that is no part of it; 0: there is
 * none. */
size_t rc_utf8_order_mark(const char *text, size_t size);

/* Does the character act instead of being seen: a control, a mark of direction, a blank of no width, a letter
   that is not written? */
bool rc_utf8_is_hidden(unsigned code);

/* What remains of a character without its accents: of letters of Europe (U+00C0 to U+017F) one of ASCII, of an accent
 * that is drawn over the letter before (U+0300 to U+036F) 0, of a blank that does not break a blank. Every other one
 * stays what it is. */
unsigned rc_utf8_plain(unsigned code);

/* How the character at `text` (of `left` bytes, 1 or more) is shown. A visible character is shown as it is. A hidden
   one, or a byte that is not UTF-8, is escaped: \n, \t, \r, \u001b, \u202e, \xff. All but the last are JSON's
   escapes. A backslash stays as it is, so a text may pass through here twice. Returns the bytes put into `out`, which
   has room for RC_UTF8_SHOWN; *taken: the bytes of the text that were read. */
enum { RC_UTF8_SHOWN = 16 };
size_t rc_utf8_show(const char *text, size_t left, char *out, size_t *taken);

/* The whole text, shown in this way, in at most `size` (4 or more) bytes with the zero byte; a text that does not fit
   is cut between characters and marked with dots. Text from outside (names of files, keys, tensors, lines of lists)
   must not reach a terminal in any other way: it could move the cursor, forge lines, or show a name that it is
   not. */
void rc_utf8_escape(const char *text, char *out, size_t size);

/* Copies the whole characters of a text that fit into `size` bytes, with a zero byte, and adds blanks up to `width`
   characters. Returns `out`. */
const char *rc_utf8_column(const char *text, size_t width, char *out, size_t size);

/* Marks a text that fills `size` bytes as cut, without leaving half of a character before the dots. */
void rc_utf8_mark_cut(char *text, size_t size);

#endif
