/* A text that grows, and how foreign text gets into pages and tables. Calls append; the first failure sticks, and
 * whoever hands out the text returns it. Numbers are written as the C locale does, which the program never leaves. */
#ifndef RC_REPORT_TEXT_H
#define RC_REPORT_TEXT_H

#include <stddef.h>

#include "base/status.h"

/* Starts cleared. */
typedef struct rc_text {
    char *bytes; /* with a zero byte behind them; NULL while there are none */
    size_t used, room;
    rc_status status; /* the first failure */
} rc_text;

void rc_text_bytes(rc_text *text, const void *bytes, size_t count);
void rc_text_add(rc_text *text, const char *own); /* text of the program's own, as it is */
void rc_text_format(rc_text *text, const char *format, ...) __attribute__((format(printf, 2, 3))); /* likewise */
void rc_text_free(rc_text *text);

/* Text from outside (names of classes, methods, files, commands): nothing in it acts. What is hidden (controls, marks
 * of direction, bytes that are not UTF-8) is shown as an escape (base/utf8.h). `most`: characters; a longer text is cut
 * and ends with dots. */
enum { RC_TEXT_WHOLE = 1 << 30 };
void rc_text_html(rc_text *text, const char *foreign, int most); /* also fine inside of quoted attributes */
void rc_text_markdown(rc_text *text, const char *foreign);
void rc_text_latex(rc_text *text, const char *foreign);
void rc_text_csv(rc_text *text, const char *foreign); /* in quotes */

/* "1:05" and "2:01:05"; below ten seconds "4.2 s". */
void rc_text_duration(rc_text *text, double seconds);
/* "18.9 kB": bytes by thousands. */
void rc_text_size(rc_text *text, double bytes);
void rc_text_base64(rc_text *text, const void *bytes, size_t count);

#endif
